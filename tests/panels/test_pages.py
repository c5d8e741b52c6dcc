"""Panels in a real Chromium, with the widget in this process: keys, names, the DOM that hostile words make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk

DAY = "2026-03-01"
ATTACK = "<script>window.ran=1</script><img src=x onerror='window.ran=1'><svg onload='window.ran=1'></svg>"
TEXTS = [
    "Пул соединений вырос до десяти.",
    "Пул соединений вырос до двадцати.",
    "The connection pool grew to ten.",
    "Каждое утро пьёт зелёный чай без сахара.",
    "Деплой в пятницу запрещён.",
    f"Чай и пул {ATTACK}",
    f"Чай и пул {ATTACK}.",
    "Аренда пула стоит 1200.",
]
IDS = [*"abcde", f"f{ATTACK}", "g", "h"]
LABELS = {"query_id": ["q0", f"q{ATTACK}"], "text": ["пул", f"чай {ATTACK}"]}
RELEVANT = {"query_id": ["q0", f"q{ATTACK}"], "memory_id": ["a", "d"], "relevance": [1, 1]}
NAMES = ["search", "surface", "decay", "dedup", "admission", "quota", "context", "judge", "lab"]


@pytest.fixture(scope="module")
def stage(browser: str, script: Callable[[str], ModuleType]) -> Iterator[Any]:
    with script("panels/stage.py").Stage(browser) as made:
        yield made


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.from_table(
        {
            "memory_id": IDS,
            "text": TEXTS,
            "title": [ATTACK, *[""] * 7],
            "path": [f"{ATTACK}.md", *["a.md"] * 7],
            "tags": [[ATTACK], *[[]] * 7],
            "kind": ["profile", "working", "archive", "profile", "working", "archive", "archive", "archive"],
            "importance": ["high", "normal", "normal", "high", "low", "normal", "normal", "normal"],
            "user_id": ["u1", "u1", "u2", "u1", None, ATTACK, ATTACK, "u1"],
            "created_at": [f"2026-0{at}-01" if at else None for at in (1, 2, 0, 1, 2, 1, 2, 1)],
        }
    )


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(corpus)


@pytest.fixture(scope="module")
def swept(search: mk.Retriever) -> Any:
    return mk.sweep(search, LABELS, RELEVANT, {"vector_weight": [0.0, 0.5], "min_score": [0.0, 0.2]}, as_of=DAY)


@pytest.fixture
def panel(request: pytest.FixtureRequest, corpus: mk.Corpus, search: mk.Retriever, swept: Any) -> Any:
    name = request.param
    if name == "search":
        return mk.panels.search(search, "пул", LABELS, RELEVANT, as_of=DAY)
    if name == "surface":
        return mk.panels.surface(swept)
    if name == "decay":
        return mk.panels.decay(search, as_of=DAY)
    if name == "dedup":
        return mk.panels.dedup(mk.Deduplicator(encoder=None, lexical_floor=0.3).fit(corpus))
    if name == "context":
        return mk.panels.context(corpus, mk.ContextBuilder(retriever=search), message=f"пул {ATTACK}", as_of=DAY)
    if name == "judge":
        return mk.panels.judge(search, LABELS, as_of=DAY)
    if name == "lab":
        return mk.panels.lab(corpus, search, f"пул {ATTACK}", LABELS, RELEVANT, as_of=DAY)
    return mk.panels.policy(corpus, name, as_of=DAY)


@pytest.mark.parametrize("panel", NAMES, indirect=True)
def test_every_control_has_a_name_and_no_hostile_word_acts(stage: Any, panel: Any) -> None:
    tab = stage.show(panel.view)
    tab.keyboard.press("Tab")
    assert stage.unnamed() == []
    assert tab.evaluate("window.ran") is None
    assert tab.evaluate("document.querySelectorAll('.mkp script, .mkp svg[onload], .mkp [onerror]').length") == 0
    assert tab.locator(".mkp img").count() == 1
    assert tab.locator(".mkp img").get_attribute("alt") == panel.view.words
    tab.locator(".mkp button", has_text="?").press("?")
    assert tab.get_by_role("table", name="Keys, outside of a text").is_visible()


def test_a_slider_is_moved_by_keys_and_the_picture_follows(stage: Any, search: mk.Retriever) -> None:
    panel = mk.panels.decay(search, as_of=DAY)
    tab = stage.show(panel.view)
    before = tab.locator(".pic img").get_attribute("src")
    tab.get_by_label("decay days, days", exact=True).focus()
    stage.press("ArrowRight", "ArrowRight")
    assert panel.params["decay_days"] == 62.0
    assert tab.locator(".pic img").get_attribute("src") != before
    assert tab.get_by_label("decay days, days, number").input_value() == "62"
    assert isinstance(panel.result, pa.Table)
    stage.press("0")
    tab.wait_for_timeout(400)  # a rest that was waited for is forgotten
    assert panel.params["decay_days"] == 60.0
