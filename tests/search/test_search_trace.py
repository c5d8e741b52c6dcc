from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.search.fitted.index import MemoryIndex
from memkit.search.show import trace_schema

DAY = "2026-03-01"
ROWS = [
    {"text": "пул соединений", "user_id": "u1"},
    {"text": "pool size", "user_id": "u2"},
    {"text": "[ ] пул", "kind": "heartbeat"},
    {"text": "пул до весны", "expires_at": datetime(2026, 2, 28, tzinfo=UTC)},
    {"text": "кот спит", "user_id": "u1"},
]
ANSWERS = {"q": {0: 5.0, 1: 4.0, 2: 3.0, 3: 2.0, 4: 1.0}}


def reasons(trace: pa.Table) -> dict[str, str]:
    return dict(zip(trace["memory_id"].to_pylist(), trace["disposition"].to_pylist(), strict=True))


@pytest.mark.quick
def test_it_has_the_columns_of_the_documentation_in_their_order(retriever_over: Any) -> None:
    trace = retriever_over(ROWS, bm25=ANSWERS, encoder=None).trace("q", as_of=DAY)
    assert trace.schema.equals(trace_schema())
    assert " ".join(trace.column_names) == (
        "query_id memory_id chunk_id bm25 bm25_rank bm25_norm vector vector_rank vector_norm gram gram_rank gram_norm"
        " fused reranked prior age_days decay lift mmr_penalty score rank disposition"
    )


@pytest.mark.quick
def test_what_filters_hide_is_shown_with_the_reason(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25=ANSWERS, encoder=None)
    assert reasons(search.trace("q", where="user_id = 'u1'", as_of=DAY)) == {
        "m0": "returned",
        "m1": "filtered",
        "m2": "filtered",
        "m3": "filtered",
        "m4": "returned",
    }
    assert reasons(search.trace("q", k=2, as_of=DAY)) == {
        "m0": "returned",
        "m1": "returned",
        "m2": "filtered",
        "m3": "expired",
        "m4": "below_k",
    }


@pytest.mark.quick
def test_expired_memories_can_be_kept_or_asked_for_alone(retriever_over: Any) -> None:
    keep = retriever_over(ROWS, bm25=ANSWERS, encoder=None, expired="keep")
    assert reasons(keep.trace("q", as_of=DAY))["m3"] == "returned"
    only = retriever_over(ROWS, bm25=ANSWERS, encoder=None, expired="only")
    assert only.search("q", as_of=DAY)["memory_id"].to_pylist() == ["m3"]
    assert only.search("q", as_of="2026-02-28").num_rows == 0


def test_filters_act_before_the_cut_so_a_rare_user_still_gets_k(retriever_over: Any) -> None:
    rows = [{"text": f"t{i}", "user_id": "many"} for i in range(30)] + [
        {"text": f"r{i}", "user_id": "rare"} for i in range(3)
    ]
    search = retriever_over(rows, bm25={"q": {i: 100.0 - i for i in range(33)}}, encoder=None, pool=3)
    assert search.search("q", k=3, where="user_id = 'rare'", as_of=DAY)["memory_id"].to_pylist() == [
        "m30",
        "m31",
        "m32",
    ]
    assert set(reasons(search.trace("q", k=3, where="user_id = 'rare'", as_of=DAY)).values()) == {
        "returned",
        "filtered",
    }


def test_rows_outside_the_ranking_keep_raw_scores_and_have_no_others(retriever_over: Any) -> None:
    trace = retriever_over(ROWS, bm25=ANSWERS, encoder=None).trace("q", where="user_id = 'u1'", as_of=DAY)
    out = trace.slice(2, 1).to_pylist()[0]
    assert (out["memory_id"], out["bm25"], out["bm25_rank"], out["decay"]) == ("m1", 4.0, 2, 1.0)
    assert [out[name] for name in ("bm25_norm", "vector", "fused", "mmr_penalty", "score", "rank")] == [None] * 6


def test_weights_parameters_and_the_moment_are_in_the_metadata(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25=ANSWERS, vector_weight=0.7, bm25_weight=0.1)
    metadata = search.trace("q", as_of=DAY).schema.metadata
    assert json.loads(metadata[b"arms"]) == pytest.approx({"bm25": 0.1 / 0.8, "vector": 0.7 / 0.8})
    assert json.loads(metadata[b"params"])["decay_days"] == 60.0
    assert metadata[b"as_of"] == b"2026-03-01T00:00:00+00:00"


def test_several_queries_are_traced_one_after_the_other(retriever_over: Any) -> None:
    search = retriever_over(ROWS, bm25={"a": {4: 1.0}, "b": {0: 1.0, 2: 2.0}}, encoder=None)
    trace = search.trace(pa.table({"query_id": ["y", "x"], "text": ["b", "a"]}), as_of=DAY)
    assert trace.select(["query_id", "memory_id", "disposition"]).to_pylist() == [
        {"query_id": "y", "memory_id": "m0", "disposition": "returned"},
        {"query_id": "y", "memory_id": "m2", "disposition": "filtered"},
        {"query_id": "x", "memory_id": "m4", "disposition": "returned"},
    ]


@pytest.mark.parametrize("params", [{}, {"unit": "chunk"}, {"encoder": None}, {"pool": 3}, {"normalize": "minmax"}])
def test_arms_that_are_asked_once_for_two_pools_say_what_they_say_asked_twice(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["пул", "pool", "чай", "tea", "кот", "cat", "лес", "wood"]
    texts = [" ".join(words[(i * step) % 8] for step in (1, 3, 5, 2)[: 1 + i % 4]) for i in range(60)]
    search = mk.Retriever(**{"encoder": "hash", "pool": 7, **params}).fit(mk.from_table({"text": texts}))
    queries = ["пул чай", "cat wood", "неведомо", ""]
    once = search.trace(queries, k=4, as_of=DAY)
    monkeypatch.setattr(MemoryIndex, "is_steady", False)
    assert search.trace(queries, k=4, as_of=DAY).equals(once, check_metadata=True)
    assert "below_pool" in once["disposition"].to_pylist()


def test_an_approximate_index_is_asked_for_one_pool_at_a_time(
    retriever_over: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = retriever_over(ROWS, bm25=ANSWERS, encoder=None)
    assert search.index_.is_steady
    monkeypatch.setattr(type(search.arms_["bm25"]), "is_exact", False)
    assert not search.index_.is_steady
