"""Pictures show themselves, name memories by title, hide secrets, and say the same in words."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import _pylab_helpers
from matplotlib.figure import Figure

import memkit as mk
from memkit.display.draw import register
from memkit.errors import ParameterError
from memkit.plot.marks import WIDE, Area, Axis, Dots, Line, Picture

DAY = "2026-03-01"
KEY = "sk-" + "a1B2" * 8
TITLES = ["Пул $соединений$", "東京 пул", f"ключ {KEY} пул", "_пул", "<b>пул</b>", "пул\x1b[31m"]


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.from_table(
        {
            "text": [f"пул {'слово ' * i}" for i in range(len(TITLES))],
            "title": TITLES,
            "kind": ["archive", "working", "note", "archive", "note", "working"],
            "created_at": ["2026-01-10", "2026-01-20", "2026-02-01", "2025-02-01", None, "2026-02-11"],
            "expires_at": [None, "2026-02-15", None, None, None, None],
        }
    )


@pytest.fixture(scope="module")
def pictures(corpus: mk.Corpus) -> dict[str, Any]:
    search = mk.Retriever(encoder=None).fit(corpus)
    trace = search.trace("пул", k=3, as_of=DAY)
    return {
        "growth": mk.plot.growth(corpus),
        "contributions": mk.plot.contributions(trace),
        "funnel": mk.plot.funnel(trace),
        "similarity": mk.plot.similarity(mk.Deduplicator(encoder=None, lexical_floor=0.1).fit(corpus).pairs_),
        "ranks": mk.plot.ranks(search, "пул", ["2026-01-15", DAY]),
        "decay": mk.plot.decay(corpus, as_of=DAY),
    }


NAMES = ["growth", "contributions", "funnel", "similarity", "ranks", "decay"]


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_a_picture_shows_itself_and_without_a_screen_says_so_in_words(pictures: dict[str, Any], name: str) -> None:
    shell = InteractiveShell()
    register(shell)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        formats, _ = shell.display_formatter.format(pictures[name])
    assert formats["image/png"].startswith(b"\x89PNG")
    assert formats["text/plain"] == pictures[name].words
    assert pictures[name].inline in pictures[name].in_html()
    assert pictures[name].svg == pictures[name].inline.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    assert not _pylab_helpers.Gcf.get_all_fig_managers()


@pytest.mark.quick
def test_an_axes_of_somebody_else_stays_as_it_is() -> None:
    shell = InteractiveShell()
    register(shell)
    ax = Figure().subplots()
    assert shell.display_formatter.format(ax)[0] == {"text/plain": repr(ax)}


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_no_picture_tells_a_secret_or_reads_a_title_as_a_formula(pictures: dict[str, Any], name: str) -> None:
    picture = pictures[name]
    words = [text for text in picture.draw().figure.findobj(matplotlib.text.Text) if text.get_text()]
    all_text = " ".join(text.get_text() for text in words) + picture.words + picture.svg
    assert KEY not in all_text
    assert all(not text.get_parse_math() for text in words if "$" in text.get_text())


@pytest.mark.parametrize("name", ["contributions", "ranks"])
def test_memories_are_named_by_title(pictures: dict[str, Any], name: str) -> None:
    assert "<b>пул</b>" in pictures[name].words


def test_growth_counts_every_dated_memory_in_its_month(pictures: dict[str, Any]) -> None:
    assert sum((bars.high - bars.low).sum() for bars in pictures["growth"].marks) == 5
    assert "1 without a date" in pictures["growth"].title
    assert pictures["growth"].words.splitlines()[2].endswith(" 2")  # 2026-01


def test_the_funnel_adds_up_to_the_candidates(pictures: dict[str, Any]) -> None:
    counts = {line.split()[0]: int(line.split()[-1]) for line in pictures["funnel"].words.splitlines()[1:]}
    assert counts == {"returned": 3, "below_k": 2, "expired": 1}


def test_ranks_are_those_of_a_search_on_each_day(corpus: mk.Corpus, pictures: dict[str, Any]) -> None:
    search = mk.Retriever(encoder=None).fit(corpus)
    for i, day in enumerate(["2026-01-15", DAY]):
        n_hits = search.search("пул", k=5, as_of=day).num_rows
        drawn = [mark.y[i] for mark in pictures["ranks"].marks if isinstance(mark, Line)]
        assert sorted(rank for rank in drawn if not np.isnan(rank)) == list(range(1, n_hits + 1))


def test_decay_draws_each_dated_memory_at_its_age(pictures: dict[str, Any]) -> None:
    points, strokes = (mark for mark in pictures["decay"].marks if isinstance(mark, Dots))
    assert sorted(points.x.tolist()) == [18, 28, 40, 50, 393]
    assert strokes.x.tolist() == points.x.tolist()


def test_a_history_is_drawn_with_its_number_at_every_moment(tmp_path: Path) -> None:
    states = [("2026-01-05", {"a.md": "# Чай", "b.md": "# Кофе"}), ("2026-02-09", {"b.md": None})]
    (area,) = mk.plot.alive(mk.history(mk.testing.write_commits(tmp_path, states))).marks
    assert isinstance(area, Area)
    first, last = area.x[[0, -1]]
    assert last - first == 35  # days
    assert [np.interp(first + days, area.x[:2], area.high[:2]) for days in (0, 34)] == [2, 2]
    assert area.high[-1] == 1


def test_a_month_without_a_memory_has_its_place() -> None:
    picture = mk.plot.growth(mk.from_table({"text": ["a", "b"], "created_at": ["2025-11-02", "2026-02-03"]}))
    assert [name for _, name in picture.x.named()] == ["2025-11", "2025-12", "2026-01", "2026-02"]
    (bars,) = picture.marks
    assert (bars.high - bars.low).tolist() == [1, 0, 0, 1]
    assert "2025-12" not in picture.words
    far = mk.plot.growth(mk.from_table({"text": ["a", "b"], "created_at": ["0005-11-02", "2026-02-03"]}))
    assert len(far.marks[0].boxes) == 2


def test_wrong_tables_and_no_days_are_refused(corpus: mk.Corpus) -> None:
    with pytest.raises(ParameterError, match="expected a trace"):
        mk.plot.funnel(pa.table({"a": [1]}))
    with pytest.raises(ParameterError, match="at least one day"):
        mk.plot.ranks(mk.Retriever(encoder=None).fit(corpus), "пул", [])
    with pytest.raises(ParameterError, match="'threshold' must be"):
        mk.plot.similarity(pa.table({"kind": ["exact"], "similarity": [1.0]}), threshold=2.0)


def test_a_number_at_the_right_end_is_whole() -> None:
    svg = Picture("", [], Axis(0, 3007), Axis(0, 1), []).svg
    assert f'x="{WIDE - 3.4 * len("3,000")}"' in svg  # half of its width from the end


def test_an_empty_corpus_has_pictures() -> None:
    empty = mk.from_table({"text": []})
    assert mk.plot.growth(empty).words == "memories by month, 0 without a date"
    assert "0 of 0" in mk.plot.decay(empty, as_of=DAY).words
    assert "0 of 0" in mk.plot.similarity(mk.Deduplicator(encoder=None).fit(empty).pairs_).words
    assert "1.1" not in mk.plot.similarity(pa.table({"kind": ["exact"], "similarity": [1.0]})).words


def test_no_name_in_the_words_of_a_picture_controls_a_terminal() -> None:
    users = ["анна\x1b[2J", "борис\u202e"]
    search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай", "пул"], "user_id": users}))
    assert {"\x1b", "\u202e"}.isdisjoint(mk.plot.map(search, "user").words)
