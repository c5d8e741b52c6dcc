"""A timeline: what is on a theme, by a stated bar, in the order of time; nothing that a user may not see."""

from __future__ import annotations

from typing import Any

import pytest

import memkit as mk
from memkit.errors import NotFittedError, ParameterError, QueryError
from memkit.explore.timeline import BAR
from memkit.plot.marks import Dots

KEY = "sk-" + "a1B2" * 8
ROWS: list[dict[str, Any]] = [
    {"memory_id": "b", "text": "Пул соединений вырос до двадцати", "created_at": "2026-02-01", "user_id": "anna"},
    {
        "memory_id": "a",
        "text": "Пул соединений: десять",
        "created_at": "2026-01-05",
        "status": "superseded",
        "superseded_by": "b",
    },
    {"memory_id": "u", "text": f"Пул соединений, ключ {KEY}", "user_id": "anna"},
    {"memory_id": "t", "text": "Пул соединений мал", "created_at": "2026-01-20", "user_id": "boris"},
    {"memory_id": "c", "text": "Зелёный чай с мятой", "created_at": "2026-01-07"},
    {"memory_id": "w", "text": "Пул соединений будет больше", "updated_at": "2026-05-01", "created_at": "2026-05-01"},
]


def fitted(rows: list[dict[str, Any]], **params: Any) -> mk.Retriever:
    names = {name: None for row in rows for name in row}
    corpus = mk.from_table({name: [row.get(name) for row in rows] for name in names})
    return mk.Retriever(encoder=None, **params).fit(corpus)


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    return fitted(ROWS)


def ids(timeline: mk.explore.Timeline) -> list[str]:
    return list(timeline.table["memory_id"].to_pylist())


@pytest.mark.quick
def test_oldest_first_the_superseded_in_their_time_and_the_undated_last(search: mk.Retriever) -> None:
    timeline = mk.timeline(search, "пул соединений")
    assert ids(timeline) == ["a", "t", "b", "w", "u"]
    assert timeline.table["status"].to_pylist()[0] == "superseded"
    assert timeline.table["superseded_by"].to_pylist()[0] == "b"
    assert str(timeline) == "5 memories on “пул соединений” from 2026-01-05 to 2026-05-01, 1 without a date"
    assert "1 of 5 has no date and come" in timeline.table.schema.metadata[b"note"].decode()
    assert timeline.table.equals(mk.timeline(search, "пул соединений").table)


@pytest.mark.quick
def test_the_bar_is_a_share_of_the_best_score(search: mk.Retriever) -> None:
    every = mk.timeline(search, "пул соединений вырос", bar=0.0).table
    scores = dict(zip(every["memory_id"].to_pylist(), every["score"].to_pylist(), strict=True))
    for bar in (0.3, BAR, 0.9, 1.0):
        expected = {name for name, score in scores.items() if score >= bar * max(scores.values())}
        assert set(ids(mk.timeline(search, "пул соединений вырос", bar=bar))) == expected
    assert ids(mk.timeline(search, "пул соединений вырос", bar=1.0)) == ["b"]
    best_two = mk.timeline(search, "пул соединений", most=2)
    assert best_two.table.num_rows == 2
    assert "only the best 2 are shown" in best_two.table.schema.metadata[b"note"].decode()
    best = search.with_params(status="keep", decay="none").search("пул соединений", 2)["memory_id"].to_pylist()
    assert set(ids(best_two)) == set(best)


@pytest.mark.quick
def test_neither_age_nor_the_setting_of_the_search_changes_what_was_said() -> None:
    rows = [{**row, "kind": "archive"} for row in ROWS]
    aged = fitted(rows, decay_days=1.0, prefer="newest", min_score=0.5, mmr_lambda=0.1, decay_kinds="*")
    assert ids(mk.timeline(aged, "пул соединений")) == ids(mk.timeline(fitted(rows), "пул соединений"))


def test_users_filters_and_the_moment_act_as_in_a_search(search: mk.Retriever) -> None:
    assert ids(mk.timeline(search, "пул соединений", user_id="anna")) == ["a", "b", "w", "u"]
    assert ids(mk.timeline(search, "пул соединений", where="user_id = 'boris'")) == ["t"]
    assert ids(mk.timeline(search, "пул соединений", as_of="2026-03-01")) == ["a", "t", "b", "u"]


def test_nothing_found_nothing_dated_and_secrets(search: mk.Retriever) -> None:
    nothing = mk.timeline(search, "квазар")
    assert nothing.table.num_rows == 0
    assert str(nothing) == "0 memories on “квазар”, 0 without a date"
    assert nothing.plot().words == str(nothing)
    assert mk.timeline(fitted([{"text": ""}]), "чай").table.num_rows == 0
    undated = mk.timeline(fitted([{"text": "чай"}, {"text": "чай и мёд"}]), "чай")
    assert undated.table["date"].null_count == 2
    assert undated.table["score"].to_pylist() == sorted(undated.table["score"].to_pylist(), reverse=True)
    timeline = mk.timeline(search, "пул соединений")
    assert KEY not in str(timeline.table.to_pylist())
    assert KEY not in repr(timeline) + timeline._repr_html_()


def test_the_picture_has_a_dot_a_dated_memory_and_outlines_what_no_longer_holds(search: mk.Retriever) -> None:
    timeline = mk.timeline(search, "пул соединений")
    picture = timeline.plot()
    assert picture.words.splitlines() == [
        str(timeline),
        "2026-01-05  Пул соединений: десять",
        "2026-01-20  Пул соединений мал",
        "2026-02-01  Пул соединений вырос до двадцати",
        "2026-05-01  Пул соединений будет больше",
    ]
    assert [len(mark.x) for mark in picture.marks if isinstance(mark, Dots)] == [3, 1]


def test_wrong_arguments_are_clear_errors(search: mk.Retriever) -> None:
    for arguments in ({"bar": 1.5}, {"bar": -0.1}, {"most": 0}, {"user_id": ""}):
        with pytest.raises(ParameterError):
            mk.timeline(search, "чай", **arguments)
    with pytest.raises(ParameterError, match="'theme'"):
        mk.timeline(search, ["чай"])  # type: ignore[arg-type]  # that is the point
    with pytest.raises(QueryError):
        mk.timeline(search, "чай", where="no_such_column = 1")
    with pytest.raises(NotFittedError):
        mk.timeline(mk.Retriever(), "чай")
