"""Turns of a conversation lend their neighbours a part of their scores."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import ParameterError
from memkit.index.dense import Dense
from memkit.index.lexical import BM25, CharGrams, Grams
from memkit.search.fitted.context import SHARES, Context, context_of

DAY = "2026-03-01"
FOUND = {"q": {2: 4.0}}


def turns(*talks: str | None, **more: Any) -> list[dict[str, Any]]:
    return [{"text": f"да {n}", "user_id": talk, **more} for n, talk in enumerate(talks)]


def scores(search: mk.Retriever, arm: str = "bm25", **asked: Any) -> dict[str, float]:
    hits = search.search("q", as_of=DAY, **asked)
    return dict(zip(hits["memory_id"].to_pylist(), hits[arm].to_pylist(), strict=True))


def test_a_turn_has_a_part_of_the_words_of_two_before_and_two_after_it(retriever_over: Any) -> None:
    search = retriever_over(turns(*"aaaaaa"), bm25=FOUND, encoder=None, context_column="user_id")
    expected = {"m2": 4.0, "m3": 4 * SHARES[-1], "m1": 4 * SHARES[1], "m4": 4 * SHARES[-2], "m0": 4 * SHARES[2]}
    assert scores(search) == pytest.approx(expected)
    without = retriever_over(turns(*"aaaaaa"), bm25=FOUND, encoder=None)
    assert scores(without) == {"m2": 4.0}


def test_cosines_are_means_over_the_neighbours_that_there_are(retriever_over: Any) -> None:
    cosines = {"q": {0: 0.2, 1: 0.4, 2: 0.8}}
    given = {"vector_weight": 1.0, "bm25_weight": 0.0, "context_column": "user_id"}
    found = scores(retriever_over(turns(*"aaa"), vector=cosines, **given), "vector")
    before, after = SHARES[-1], SHARES[1]
    assert found["m0"] == pytest.approx((0.2 + after * 0.4 + SHARES[2] * 0.8) / (1 + after + SHARES[2]))
    assert found["m1"] == pytest.approx((0.4 + before * 0.2 + after * 0.8) / (1 + before + after))
    assert found["m2"] == pytest.approx((0.8 + before * 0.4 + SHARES[-2] * 0.2) / (1 + before + SHARES[-2]))


@pytest.mark.parametrize("talks", ["aabba", "xxaxx", [None, None, "a", None, None]])
def test_nothing_is_lent_across_conversations(retriever_over: Any, talks: Any) -> None:
    search = retriever_over(turns(*talks), bm25=FOUND, encoder=None, context_column="user_id")
    assert set(scores(search)) == ({"m2", "m3"} if talks == "aabba" else {"m2"})


def test_what_a_filter_leaves_out_or_is_the_future_lends_nothing(retriever_over: Any) -> None:
    rows = turns(*"aaaaa")
    for day, row in zip((1, 2, 60, 61, 62), rows, strict=True):
        row["created_at"] = datetime(2026, 2, 1, tzinfo=UTC) + timedelta(days=day)
    search = retriever_over(rows, bm25={"q": {2: 4.0, 0: 1.0}}, encoder=None, context_column="user_id", decay="none")
    beside = {"m0": 1.0, "m1": SHARES[-1]}
    assert scores(search, where="memory_id <> 'm2'") == pytest.approx(beside)
    assert scores(search.with_params(future="hide")) == pytest.approx(beside)


def test_the_order_is_seq_then_creation_then_as_given() -> None:
    def rows_of(**columns: list[Any]) -> Any:
        given = {"memory_id": ["a", "b", "c"], "text": ["раз", "два", "три"], "talk": ["x"] * 3, **columns}
        return mk.Retriever(encoder=None, context_column="talk").fit(mk.from_table(given))

    def after(search: mk.Retriever) -> list[int]:
        context = search.index_.context
        assert context is not None
        return [int(row) for row in context.rows[:, list(SHARES).index(1)]]

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
    assert question.with_params(pool=5).ranked().score.tolist() == alone.ranked().score.tolist()


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
    assert json.loads(next(tmp_path.glob("saved-*/retriever.json")).read_text())["params"]["context_column"] == "talk"


def _of_all_rows(context: Context, arm: Any, query: str, n: int, allowed: Any, share: bool) -> list[tuple[int, float]]:
    """Every row scored closely, one by one."""
    found = arm.candidates([query], len(context.rows), allowed)
    own = dict(zip(found["row"].to_pylist(), found["score"].to_pylist(), strict=True))
    mixed = {}
    for row in range(len(context.rows)) if allowed is None else np.flatnonzero(allowed).tolist():
        beside = zip(context.rows[row].tolist(), SHARES.values(), strict=True)
        there = [(other, part) for other, part in beside if other >= 0 and (allowed is None or allowed[other])]
        score = own.get(row, 0.0) + sum(part * own.get(other, 0.0) for other, part in there)
        mixed[row] = score / (1 + sum(part for _, part in there) if share else 1)
    best = sorted((-score, row) for row, score in mixed.items() if score)
    return [(row, -score) for score, row in best[:n]]


@pytest.mark.parametrize("make", [BM25, CharGrams, Grams, lambda: Dense(encoder="hash")])
def test_the_best_are_those_of_a_look_at_every_row_and_few_are_looked_at(make: Any) -> None:
    draw = np.random.default_rng(4)
    words = ["пул", "чай", "план", "кот", "сад", "pool", "tea", "cat", *(f"w{at}" for at in range(40))]
    texts = [" ".join(draw.choice(words, draw.integers(0, 6))) for _ in range(1500)]
    talks = np.sort(draw.integers(0, 60, len(texts)))
    given = {"text": texts, "talk": talks, "memory_id": [f"{at:05}" for at in range(len(texts))]}
    rows = mk.from_table(given).memories
    every = np.arange(len(texts))
    context = context_of(rows, "talk", every, every)
    assert context is not None
    arm = make().fit(pa.table({"chunk_id": rows["memory_id"]}), texts)
    looked: list[int] = []
    ask = arm.candidates
    arm.candidates = lambda *given, **more: looked.append(int(given[2].sum())) or ask(*given, **more)
    whole, share = make().fit(pa.table({"chunk_id": rows["memory_id"]}), texts), isinstance(arm, Dense)
    filled = np.array(list(map(bool, texts)))  # as a Retriever asks: a chunk without any text is never found
    for allowed in (filled, filled & (draw.random(len(texts)) < 0.5), np.zeros(len(texts), bool)):
        for query in ("пул и чай", "the cat w3 w7", "", "никогда"):
            for n in (1, 20):
                found = context.best(arm, [query], n, allowed, {}, share)
                expected = _of_all_rows(context, whole, query, n, allowed, share)
                assert found["score"].to_pylist() == pytest.approx([score for _, score in expected], abs=1e-12)
                last = expected[-1][1] if expected else 0.0  # of ties at the end any may be left out
                above = [{row for row, score in some if score > last + 1e-12} for some in (_pairs(found), expected)]
                assert above[0] == above[1]
    assert max(looked) < 300


def _pairs(found: pa.Table) -> list[tuple[int, float]]:
    return list(zip(found["row"].to_pylist(), found["score"].to_pylist(), strict=True))
