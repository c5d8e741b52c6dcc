"""A newcomer's hour, one call a step: nothing warns, no output is long, everything can be read in 80 columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wcwidth import wcswidth

import memkit as mk
from memkit.display.draw import shown

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


@pytest.mark.quick
@pytest.mark.parametrize("step", SHOWN)
def test_no_output_is_over_forty_lines_or_eighty_columns(hour: dict[str, Any], step: str) -> None:
    lines = shown(hour[step]).text(80).splitlines()
    assert 2 <= len(lines) <= 40
    assert all(wcswidth(line) <= 80 for line in lines)


@pytest.mark.quick
@pytest.mark.parametrize("step", SHOWN)
def test_every_result_is_a_page_of_its_own(hour: dict[str, Any], step: str) -> None:
    assert shown(hour[step])._repr_html_().startswith('<div class="mk">')


@pytest.mark.quick
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


def test_what_is_no_search_corpus_or_table_is_refused_in_plain_words(tmp_path: Path) -> None:
    corpus = mk.from_table({"text": ["чай", "пул"], "created_at": ["2026-01-05", "2026-02-05"]})
    search = mk.Retriever(encoder=None).fit(corpus)
    root = mk.testing.write_files(tmp_path, {"a.md": "чай\n"})
    wrong: Any = corpus
    mistakes: dict[str, Callable[[], object]] = {
        "timeline": lambda: mk.timeline(wrong, "чай"),
        "plot.map": lambda: mk.plot.map(wrong),
        "panels.map": lambda: mk.panels.map(wrong),
        "panels.search": lambda: mk.panels.search(wrong),
        "panels.lab": lambda: mk.panels.lab(corpus, wrong),
        "audit": lambda: mk.audit(wrong),
        "explain": lambda: mk.explain(wrong, "чай", "0"),
        "known_items": lambda: mk.known_items(search),
        "known_items fields": lambda: mk.known_items(corpus, fields=5),
        "known_items no fields": lambda: mk.known_items(corpus, fields=[]),
        "context": lambda: mk.ContextBuilder(search).build("data", None, "чай"),
        "where": lambda: search.search("чай", where=3),
        "topics where": lambda: mk.topics(search, where=3),
        "user": lambda: mk.digest(corpus, user_id=""),
        "instructions": lambda: mk.read(root, instructions=5),
        "choose": lambda: mk.panels.map(search).choose([1]),
        "choose a text": lambda: mk.panels.map(search).choose("0"),
        "dedup": lambda: mk.plot.map(search, "duplicates", dedup=5),
        "plot.topics": lambda: mk.plot.topics(mk.topics(search).table),
        "plot.timeline": lambda: mk.plot.timeline(mk.timeline(search, "чай")),
        "ax": lambda: mk.plot.map(search).draw(5),
        "watch": lambda: mk.watch(mk.read(root), mk.Retriever),
    }
    messages = dict.fromkeys(mistakes, "nothing was raised")
    for name, mistake in mistakes.items():
        try:
            mistake()
        except mk.errors.ParameterError as error:
            messages[name] = str(error)
    assert [(name, words) for name, words in messages.items() if ". Got " not in words] == []


def test_a_map_takes_the_ids_of_hits_as_they_are() -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b"], "text": ["чай", "пул"]}))
    panel = mk.panels.map(search)
    panel.choose(search.search("пул", k=1)["memory_id"])
    assert panel.result["memory_id"].to_pylist() == ["b"]
