"""A change of what acts at fit in the panel of search: fitted once the slider rests, in a page beside it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import memkit as mk

DAY = "2026-03-01"
LINES = [f"Строка {number} о пуле соединений и о чае." for number in range(60)]
TEXTS = ["\n".join(LINES[start : start + 20]) for start in (0, 20, 40)]


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.from_table({"memory_id": list("abc"), "text": TEXTS})


class Slow:
    """An encoder that waits, and counts its calls."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.may_go.set()
        self.begun: list[int] = []

    def __call__(self, texts: Any) -> Any:
        self.begun.append(len(texts))
        assert self.may_go.wait(30)
        return np.array([[len(text), 1.0] for text in texts])


@pytest.mark.quick
def test_from_python_a_size_of_chunks_is_fitted_at_once_and_undone_in_one_step(corpus: mk.Corpus) -> None:
    mine = mk.Retriever(encoder=None, pool=30).fit(corpus)
    labels = {"query_id": ["q"], "text": ["пул"]}, {"query_id": ["q"], "memory_id": ["a"], "relevance": [1]}
    panel = mk.panels.search(mine, "Строка 7", *labels, as_of=DAY)
    panel.press("pin")
    before = panel.result
    assert f"the last fit took {mine.fit_seconds_:.1f} s" in panel.notes["index__chunk_tokens"]
    panel.set(index__chunk_tokens=30, index__overlap_tokens=0, k=3)
    alone = mk.Retriever(encoder=None, pool=30, index=mk.Index(chunk_tokens=30, overlap_tokens=0)).fit(corpus)
    assert panel.result.equals(alone.search("Строка 7", k=3, as_of=DAY))
    assert eval(panel.code, {"mk": mk, "corpus": corpus}).equals(panel.result)  # noqa: S307  # memkit's own
    assert f"{alone.chunks_.num_rows} chunks" in panel.notes["index__chunk_tokens"]
    assert panel.strip is not None
    assert panel.undo()
    assert panel.result.equals(before)
    for values in ({"index__overlap_tokens": 100}, {"index__chunk_tokens": 20}):
        with pytest.raises(mk.errors.ParameterError, match="must be below 'chunk_tokens'"):
            panel.set(**values)
    assert mine.index.chunk_tokens == 100


@pytest.mark.quick
def test_in_a_page_a_fit_waits_for_the_rest_and_the_next_move_ends_it(corpus: mk.Corpus) -> None:
    slow = Slow()
    search = mk.Retriever(encoder=slow, vector_weight=0.5).fit(corpus)
    panel = mk.panels.search(search, "Строка 7", as_of=DAY)
    page = panel.view

    def move(size: int, drag: str, live: bool) -> None:
        page._on_message(page, {"set": {"index__chunk_tokens": size}, "live": live, "drag": drag}, [])

    async def drags() -> None:
        slow.may_go.clear()
        n_fits = len(slow.begun)
        for size in (60, 50, 40):
            move(size, "first", live=True)
        assert (len(slow.begun), page.error, page.values["index__chunk_tokens"]) == (n_fits, "", 40)
        assert "when the slider rests" in page.notes["index__chunk_tokens"]
        move(40, "first", live=False)
        assert page.notes["index__chunk_tokens"].startswith("Fitting")
        assert page.summary.startswith("Fitting")
        move(30, "second", live=True)
        assert "when the slider rests" in page.notes["index__chunk_tokens"]
        move(30, "second", live=False)
        n_drawn = page.n
        slow.may_go.set()
        while page.n == n_drawn or "This fit took" not in page.notes["index__chunk_tokens"]:
            await asyncio.sleep(0.01)

    asyncio.run(drags())
    alone = mk.Retriever(encoder=slow, vector_weight=0.5, index=mk.Index(chunk_tokens=30)).fit(corpus)
    assert panel.result.equals(alone.search("Строка 7", as_of=DAY))
    assert len(panel.history) == 3
    assert panel.undo()
    assert panel.values["index__chunk_tokens"] == 40


@pytest.mark.quick
def test_a_fit_that_fails_is_said_in_the_page(corpus: mk.Corpus) -> None:
    slow = Slow()
    panel = mk.panels.search(mk.Retriever(encoder=slow, vector_weight=0.5).fit(corpus), "Строка 7", as_of=DAY)
    page = panel.view

    async def drag() -> None:
        slow.begun = None  # type: ignore[assignment]  # it fails at the next call
        page._on_message(page, {"set": {"index__chunk_tokens": 25}, "live": False}, [])
        while not page.error:
            await asyncio.sleep(0.01)

    asyncio.run(drag())
    assert "append" in page.error
