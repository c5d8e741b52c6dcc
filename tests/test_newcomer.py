"""A newcomer's hour, one call a step: nothing warns, no output is long, everything can be read in 80 columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wcwidth import wcswidth

import memkit as mk
from memkit.display.notebook import shown

DAY = "2026-03-01"
QUESTION = "сколько соединений в пуле?"


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each call of the hour gave, in the order of the calls."""
    folder = tmp_path_factory.mktemp("hour")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus = mk.read(mk.sample_data() / "life", as_of=DAY)
        search = mk.Retriever(encoder=None).fit(corpus)
        hits = search.search(QUESTION, as_of=DAY)
        trace = search.trace(QUESTION, as_of=DAY)
        explained = mk.explain(search, QUESTION, hits["memory_id"][0].as_py(), as_of=DAY)
        picture = mk.plot.contributions(trace)
        dedup = mk.Deduplicator(encoder=None).fit(corpus)
        judged = mk.Admission().transform(corpus, as_of=DAY)
        context = mk.ContextBuilder(search).build(corpus, None, QUESTION, as_of=DAY)
        overview = mk.overview(corpus, as_of=DAY)
        page = overview.report(folder / "overview.html")
        corpus.save(folder / "lake")
    return {
        "read": corpus,
        "overview": overview,
        "search": hits,
        "trace": trace,
        "explain": explained,
        "plot": picture,
        "dedup": dedup.pairs_,
        "policy": judged,
        "context": context,
        "problems": corpus.problems,
        "export": (page, folder / "lake"),
    }


SHOWN = ["read", "overview", "search", "trace", "dedup", "policy", "context", "problems"]


@pytest.mark.parametrize("step", SHOWN)
def test_no_output_is_over_forty_lines_or_eighty_columns(hour: dict[str, Any], step: str) -> None:
    lines = shown(hour[step]).text(80).splitlines()
    assert 2 <= len(lines) <= 40
    assert all(wcswidth(line) <= 80 for line in lines)


@pytest.mark.parametrize("step", SHOWN)
def test_every_result_is_a_page_of_its_own(hour: dict[str, Any], step: str) -> None:
    assert shown(hour[step])._repr_html_().startswith('<div class="mk">')


def test_the_hour_ends_with_files(hour: dict[str, Any]) -> None:
    page, lake = hour["export"]
    assert isinstance(page, Path)
    assert page.stat().st_size > 1000
    assert mk.open(lake).memories.num_rows == hour["read"].memories.num_rows


def test_a_sentence_says_why_the_first_hit_came(hour: dict[str, Any]) -> None:
    assert "is hit 1" in hour["explain"]


@pytest.mark.parametrize("call", [mk.show, print])
def test_showing_prints(hour: dict[str, Any], call: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    call(hour["search"] if call is mk.show else hour["context"])
    assert capsys.readouterr().out
