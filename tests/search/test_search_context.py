"""Turns of a conversation lend their neighbours a part of their scores."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import memkit as mk
from memkit.errors import ParameterError
from memkit.search.fitted.context import LENT

DAY = "2026-03-01"
FOUND = {"q": {2: 4.0}}


def turns(*talks: str | None, **more: Any) -> list[dict[str, Any]]:
    return [{"text": f"да {n}", "user_id": talk, **more} for n, talk in enumerate(talks)]


def scores(search: mk.Retriever, arm: str = "bm25", **asked: Any) -> dict[str, float]:
    hits = search.search("q", as_of=DAY, **asked)
    return dict(zip(hits["memory_id"].to_pylist(), hits[arm].to_pylist(), strict=True))


def test_a_turn_has_a_part_of_the_words_of_two_before_and_two_after_it(retriever_over: Any) -> None:
    search = retriever_over(turns(*"aaaaaa"), bm25=FOUND, encoder=None, context_column="user_id")
    expected = {"m2": 4.0, "m3": 4 * LENT[-1], "m1": 4 * LENT[1], "m4": 4 * LENT[-2], "m0": 4 * LENT[2]}
    assert scores(search) == pytest.approx(expected)
    without = retriever_over(turns(*"aaaaaa"), bm25=FOUND, encoder=None)
    assert scores(without) == {"m2": 4.0}


def test_cosines_are_means_over_the_neighbours_that_there_are(retriever_over: Any) -> None:
    cosines = {"q": {0: 0.2, 1: 0.4, 2: 0.8}}
    given = {"vector_weight": 1.0, "bm25_weight": 0.0, "context_column": "user_id"}
    found = scores(retriever_over(turns(*"aaa"), vector=cosines, **given), "vector")
    before, after = LENT[-1], LENT[1]
    assert found["m0"] == pytest.approx((0.2 + after * 0.4 + LENT[2] * 0.8) / (1 + after + LENT[2]))
    assert found["m1"] == pytest.approx((0.4 + before * 0.2 + after * 0.8) / (1 + before + after))
    assert found["m2"] == pytest.approx((0.8 + before * 0.4 + LENT[-2] * 0.2) / (1 + before + LENT[-2]))


@pytest.mark.parametrize("talks", ["aabba", "xxaxx", [None, None, "a", None, None]])
def test_nothing_is_lent_across_conversations(retriever_over: Any, talks: Any) -> None:
    search = retriever_over(turns(*talks), bm25=FOUND, encoder=None, context_column="user_id")
    assert set(scores(search)) == ({"m2", "m3"} if talks == "aabba" else {"m2"})


def test_what_a_filter_leaves_out_or_is_the_future_lends_nothing(retriever_over: Any) -> None:
    rows = turns(*"aaaaa")
    for day, row in zip((1, 2, 60, 61, 62), rows, strict=True):
        row["created_at"] = datetime(2026, 2, 1, tzinfo=UTC) + timedelta(days=day)
    search = retriever_over(rows, bm25={"q": {2: 4.0, 0: 1.0}}, encoder=None, context_column="user_id", decay="none")
    beside = {"m0": 1.0, "m1": LENT[-1]}
    assert scores(search, where="memory_id <> 'm2'") == pytest.approx(beside)
    assert scores(search.with_params(future="hide")) == pytest.approx(beside)


def test_the_order_is_seq_then_creation_then_as_given() -> None:
    def rows_of(**columns: list[Any]) -> Any:
        given = {"memory_id": ["a", "b", "c"], "text": ["раз", "два", "три"], "talk": ["x"] * 3, **columns}
        return mk.Retriever(encoder=None, context_column="talk").fit(mk.from_table(given))

    def after(search: mk.Retriever) -> list[int]:
        context = search.index_.context
        assert context is not None
        return [int(row) for row in context.rows[:, list(LENT).index(1)]]

    assert after(rows_of()) == [1, 2, -1]
    assert after(rows_of(seq=[3, 1, 2])) == [-1, 2, 0]
    assert after(rows_of(created_at=["2026-01-03", "2026-01-01", "2026-01-02"])) == [-1, 2, 0]
    assert after(rows_of(memory_id=["c", "b", "a"])) == [-1, 0, 1]  # rows of the index are by id


def test_the_first_hits_do_not_depend_on_k_or_the_pool_asked(retriever_over: Any) -> None:
    rng = np.random.default_rng(0)
    words = {"q": {int(row): float(score) for row, score in zip(range(30), rng.random(30), strict=True)}}
    search = retriever_over(turns(*["a"] * 30), bm25=words, encoder=None, context_column="user_id", normalise="max")
    whole = search.search("q", k=30, as_of=DAY)
    assert search.search("q", k=3, as_of=DAY).equals(whole.slice(0, 3))
    question = search.ask("q", as_of=DAY)
    alone = search.with_params(pool=5).ask("q", as_of=DAY)
    assert question.but(pool=5).ranked().score.tolist() == alone.ranked().score.tolist()


def test_a_column_that_is_none_is_refused_at_fit_and_long_rows_are_no_turns() -> None:
    corpus = mk.from_table({"text": ["слово " * 50, "слово " * 60, "раз"], "talk": ["x", "x", "x"]})
    with pytest.raises(ParameterError, match="'context_column' must be a column"):
        mk.Retriever(encoder=None, context_column="tlak").fit(corpus)
    hits = mk.Retriever(encoder=None, context_column="talk").fit(corpus).search("раз")
    assert "is not used" in hits.schema.metadata[b"note"].decode()
    assert hits.num_rows == 1
    hostile = mk.from_table({"text": ["раз", "два"], "a'\"]b": ["x", "x"]})
    assert mk.Retriever(encoder=None, context_column="a'\"]b").fit(hostile).search("раз").num_rows == 2


def test_after_a_refresh_neighbours_are_those_of_now(corpus_of: Any) -> None:
    talk = {"user_id": "a"}
    rows = [{"text": "пул соединений", **talk}, {"text": "да", **talk}]
    later = [rows[0], {"text": "да", "user_id": "b", "memory_id": "m1"}]
    search = mk.Retriever(encoder=None, context_column="user_id").fit(corpus_of(*rows, later=later))
    assert search.search("пул", as_of=DAY).num_rows == 2
    assert search.refresh().search("пул", as_of=DAY).num_rows == 1


def test_it_is_kept_with_the_lake(tmp_path: Any) -> None:
    corpus = mk.from_table({"text": ["пул соединений", "да", "нет"], "talk": ["x", "x", "y"]})
    search = mk.Retriever(encoder=None, context_column="talk").fit(corpus)
    search.save(tmp_path)
    assert mk.Retriever.load(tmp_path, corpus).search("пул", as_of=DAY).equals(search.search("пул", as_of=DAY))
    assert json.loads((tmp_path / "retriever.json").read_text())["params"]["context_column"] == "talk"
