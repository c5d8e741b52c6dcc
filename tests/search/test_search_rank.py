"""The stages after the arms, over arms whose scores are given."""

from __future__ import annotations

from datetime import UTC, datetime
from math import exp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memkit.search.alike import Repeats
from memkit.search.ask import STEPS, QuerySettings
from memkit.search.fitted.chunks import Rows
from memkit.search.question import rank
from memkit.search.state import Pooled, count, merge
from memkit.search.steps.fuse import evidence
from memkit.tables.owners import Owners

DAY = "2026-03-01"
LATIN = ["alpha", "beta", "gamma", "delta"]


def shown(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def aged(days: int, **more: Any) -> dict[str, Any]:
    return {"created_at": datetime.fromtimestamp(1772323200 - days * 86400, UTC), **more}


@pytest.mark.quick
def test_any_number_of_candidates_is_counted() -> None:
    for number in (0, 1, 255, 256, 600):
        flags = np.ones((number, 2), bool)
        flags[:3, 1] = False
        assert count(flags).tolist() == [number, max(number - 3, 0)], number


@pytest.mark.quick
def test_the_weighted_sum_of_normalised_scores_ranks(retriever_over: Any) -> None:
    search = retriever_over(
        LATIN, bm25={"q": {0: 4.0, 1: 2.0}}, vector={"q": {1: 0.8, 2: 0.4}}, normalize="max", vector_weight=0.7
    )
    hits = search.search("q", as_of=DAY)
    assert shown(hits, "memory_id", "rank", "bm25", "vector") == [
        ("m1", 1, 2.0, 0.8),
        ("m2", 2, None, 0.4),
        ("m0", 3, 4.0, None),
    ]
    assert hits["score"].to_pylist() == pytest.approx([0.3 * 2 / 4 + 0.7, 0.7 * 0.4 / 0.8, 0.3])


def test_a_term_match_without_any_cosine_is_returned_at_defaults(retriever_over: Any) -> None:
    search = retriever_over(LATIN, bm25={"q": {0: 4.0}}, vector={"q": {1: 0.9, 2: 0.8}})
    assert "m0" in search.search("q", as_of=DAY)["memory_id"].to_pylist()


def test_a_threshold_above_an_arms_share_shows_in_the_trace(retriever_over: Any) -> None:
    search = retriever_over(
        LATIN, bm25={"q": {0: 4.0}}, vector={"q": {1: 0.9}}, bm25_weight=0.3, vector_weight=0.7, min_score=0.35
    )
    trace = search.trace("q", as_of=DAY)
    assert shown(trace, "memory_id", "fused", "disposition") == [
        ("m1", 0.7, "returned"),
        ("m0", 0.3, "below_min_score"),
    ]


def test_decay_is_multiplied_after_fusion_and_spares_the_exempt(retriever_over: Any) -> None:
    rows = [aged(30, text="old"), aged(30, text="kept", importance="high"), aged(0, text="new"), "undated"]
    search = retriever_over(rows, bm25={"q": dict.fromkeys(range(4), 1.0)}, encoder=None, decay_kinds="*")
    hits = search.search("q", as_of=DAY)
    assert shown(hits, "memory_id", "decay") == [
        ("m1", 1.0),
        ("m2", 1.0),
        ("m3", 1.0),
        ("m0", pytest.approx(exp(-0.5))),
    ]
    assert hits["score"].to_pylist() == hits["decay"].to_pylist()


def test_facts_decay_and_what_is_dated_otherwise_does_not(retriever_over: Any) -> None:
    kinds = ["archive", "working", "profile", "daily_log", "note", None]
    rows = [aged(60, text=str(kind), kind=kind) for kind in kinds]
    answers = {"q": dict.fromkeys(range(6), 1.0)}
    factors = dict(shown(retriever_over(rows, bm25=answers, encoder=None).trace("q", as_of=DAY), "memory_id", "decay"))
    assert factors == {"m0": pytest.approx(exp(-1)), "m1": pytest.approx(exp(-1)), "m2": 1, "m3": 1, "m4": 1, "m5": 1}
    named = retriever_over(rows, bm25=answers, encoder=None, decay_kinds=("daily_log",)).search("q", as_of=DAY)
    assert dict(shown(named, "memory_id", "decay"))["m3"] == pytest.approx(exp(-1))
    assert sum(factor < 1 for factor in named["decay"].to_pylist()) == 1


@pytest.mark.parametrize(("old", "noted"), [(1, False), (2, True), (3, True)])
def test_a_median_factor_under_a_twentieth_is_noted(retriever_over: Any, old: int, noted: bool) -> None:
    # 180 days are three times decay_days: exp(-3) = .0498; the lower middle of four is the second.
    rows = [aged(180 if i < old else 0, text=f"r{i}", kind="archive") for i in range(4)]
    search = retriever_over(rows, bm25={"q": dict.fromkeys(range(4), 1.0)}, encoder=None)
    for table in (search.search("q", as_of=DAY), search.trace("q", as_of=DAY)):
        assert (b"Half of the candidates have a decay factor" in table.schema.metadata.get(b"note", b"")) == noted


def test_what_only_decay_pushes_below_the_threshold_is_decayed_out(retriever_over: Any) -> None:
    rows = [aged(0, text="new"), aged(120, text="old"), aged(120, text="weak")]
    search = retriever_over(rows, bm25={"q": {0: 4.0, 1: 4.0, 2: 1.0}}, encoder=None, normalize="max", min_score=0.3)
    search = search.with_params(decay_kinds="*")
    assert shown(search.trace("q", as_of=DAY), "memory_id", "disposition") == [
        ("m0", "returned"),
        ("m1", "decayed_out"),
        ("m2", "below_min_score"),
    ]


def test_a_score_at_the_threshold_passes(retriever_over: Any) -> None:
    search = retriever_over(LATIN, bm25={"q": {0: 4.0, 1: 1.0}}, encoder=None, normalize="max", min_score=0.25)
    assert search.search("q", as_of=DAY).num_rows == 2


def test_the_same_text_of_one_owner_comes_once_of_two_owners_twice(retriever_over: Any) -> None:
    rows = [{"text": "чай", "user_id": "u1"}, {"text": "чай", "user_id": "u1"}, {"text": "чай", "user_id": "u2"}]
    search = retriever_over(rows, bm25={"q": {0: 1.0, 1: 2.0, 2: 0.5}}, encoder=None)
    assert search.search("q", as_of=DAY)["memory_id"].to_pylist() == ["m1", "m2"]
    assert ("m0", "duplicate") in shown(search.trace("q", as_of=DAY), "memory_id", "disposition")


def test_all_scores_tied_are_ordered_by_id_and_score_one(retriever_over: Any) -> None:
    rows = [{"memory_id": name, "text": name} for name in ("b", "a", "d", "c")]
    search = retriever_over(rows, bm25={"q": dict.fromkeys(range(4), 2.0)}, encoder=None)
    assert shown(search.search("q", as_of=DAY), "memory_id", "score") == [(n, 1.0) for n in "abcd"]


def test_a_memory_is_shown_by_its_best_chunk_and_counts_once(retriever_over: Any) -> None:
    long = "\n".join(["первая строка", "вторая строка", "третья строка"])
    parameters = {"index__chunk_tokens": 4, "index__overlap_tokens": 0, "encoder": None}
    answers = {"q": {0: 1.0, 1: 3.0, 2: 2.0, 3: 2.5}}
    by_memory = retriever_over([long, "other"], bm25=answers, **parameters)
    assert shown(by_memory.search("q", k=5, as_of=DAY), "memory_id", "chunk_id", "line_start") == [
        ("m0", "m0@1", 2),
        ("m1", "m1@0", 1),
    ]
    by_chunk = retriever_over([long, "other"], bm25=answers, unit="chunk", **parameters)
    assert by_chunk.search("q", k=5, as_of=DAY)["chunk_id"].to_pylist() == ["m0@1", "m1@0", "m0@2", "m0@0"]


def test_mmr_moves_likeness_down_and_says_so(retriever_over: Any) -> None:
    vectors = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    scores = {0: 0.9, 1: 0.89, 2: 0.8, 3: 0.1}
    search = retriever_over(
        LATIN, vector={"q": scores}, vectors=vectors, vector_weight=1.0, normalize="none", mmr_lambda=0.5
    )
    assert search.search("q", k=2, as_of=DAY)["memory_id"].to_pylist() == ["m0", "m2"]
    trace = search.trace("q", k=2, as_of=DAY)
    assert shown(trace, "memory_id", "mmr_penalty", "disposition") == [
        ("m0", 0.0, "returned"),
        ("m2", 0.0, "returned"),
        ("m3", 0.0, "below_k"),
        ("m1", 0.5, "diversified_away"),
    ]


def test_mmr_without_vectors_compares_terms(retriever_over: Any) -> None:
    rows = ["пул соединений базы", "пулы соединений базы", "деплой в пятницу"]
    search = retriever_over(rows, bm25={"q": {0: 3.0, 1: 2.9, 2: 2.5}}, encoder=None, normalize="max", mmr_lambda=0.5)
    search = search.with_params(fold="none")
    assert search.search("q", as_of=DAY)["memory_id"].to_pylist() == ["m0", "m2", "m1"]


def test_queries_come_in_their_order_and_do_not_mix(retriever_over: Any) -> None:
    answers = {"a": {0: 1.0, 1: 2.0}, "b": {1: 5.0}}
    search = retriever_over(LATIN, bm25=answers, encoder=None)
    hits = search.search(["b", "nothing", "a"], as_of=DAY)
    assert shown(hits, "query_id", "rank", "memory_id") == [("0", 1, "m1"), ("2", 1, "m1"), ("2", 2, "m0")]
    assert (
        hits.filter(hits["query_id"].to_numpy() == "2")
        .drop("query_id")
        .equals(search.search("a", as_of=DAY).drop("query_id"))
    )


def test_the_pool_bounds_what_is_ranked_whatever_k_is(retriever_over: Any) -> None:
    search = retriever_over(LATIN, bm25={"q": {0: 4.0, 1: 3.0, 2: 2.0, 3: 1.0}}, encoder=None, pool=2)
    assert search.search("q", k=100, as_of=DAY)["memory_id"].to_pylist() == ["m0", "m1"]
    assert shown(search.trace("q", as_of=DAY), "memory_id", "bm25_rank", "disposition") == [
        ("m0", 1, "returned"),
        ("m1", 2, "returned"),
        ("m2", 3, "below_pool"),
        ("m3", 4, "below_pool"),
    ]


scores = st.dictionaries(st.integers(0, 3), st.sampled_from([0.0, 0.1, 0.5, 0.50000001, 2.0]), max_size=4)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    bm25=scores,
    vector=scores,
    normalize=st.sampled_from(["max", "minmax", "rank", "none"]),
    fusion=st.sampled_from(["weighted", "rrf"]),
    mmr_lambda=st.sampled_from([1.0, 0.5]),
    min_score=st.sampled_from([0.0, 0.3]),
    unit=st.sampled_from(["memory", "chunk"]),
)
def test_shorter_lists_are_prefixes_and_the_trace_agrees(
    retriever_over: Any, bm25: dict[int, float], vector: dict[int, float], min_score: float, **params: Any
) -> None:
    rows = [aged(200, text="a"), "b", {"text": "b", "memory_id": "m9"}, "c"]
    search = retriever_over(rows, bm25={"q": bm25}, vector={"q": vector}, min_score=min_score, **params)
    longest = search.search("q", k=10, as_of=DAY)
    assert (longest["score"].to_numpy() >= min_score - 1e-6).all()
    for k in range(1, 5):
        hits = search.search("q", k=k, as_of=DAY)
        assert hits.equals(longest.slice(0, k))
        trace = search.trace("q", k=k, as_of=DAY)
        returned = trace.filter(np.array([d == "returned" for d in trace["disposition"].to_pylist()], bool))
        common = ["query_id", "rank", "memory_id", "chunk_id", "score", "bm25", "vector", "decay"]
        assert returned.select(common).equals(hits.select(common))
        assert len(set(trace["chunk_id"].to_pylist())) == trace.num_rows


def test_candidates_are_ranked_over_rows_without_any_index() -> None:
    dates = np.array(["2026-03-01", "2026-02-19", "NaT"], "datetime64[us]")
    kind = (np.array([0, 1, 0]), ("document", "note"))
    rows = Rows(
        memory=np.array([0, 0, 1, 2]),
        twin=np.arange(4),
        kind=kind,
        dated=dates,
        decays=np.ones(3, bool),
        text=np.arange(4),
        filled=None,
        file=np.arange(3),
        owner=np.zeros(3, np.int64),
        expires=np.full(3, np.datetime64("NaT"), "datetime64[D]"),
        created=dates,
    )
    texts = ["one", "two", "three", "four"]
    repeats = Repeats(texts, Owners.of(pa.table({"text": texts})))
    candidates = merge({"bm25": pa.table({"query": [0] * 4, "row": range(4), "score": [1.0, 2.0, 4.0, 0.5]})}, 4, 10)
    declared = QuerySettings(
        normalize="max", kind_weights={"document": 0.8}, decay="half_life", decay_days=10.0, decay_kinds="*"
    )
    index, day, never = SimpleNamespace(rows=rows, repeats=repeats), [DAY], ["NaT"]
    moments = (np.array(moment, "datetime64[us]") for moment in (day, never))
    ranked = rank(Pooled(index, candidates, ["q"], *moments), declared, {"bm25": 1.0}, k=2)
    # 4 / 4 x .5 of ten days; the better chunk of the first memory 2 / 4 x .8; the last 1 / 8 x .8.
    assert ranked.candidates.row.tolist() == [2, 1, 3]
    assert ranked.score.tolist() == pytest.approx([0.5, 0.4, 0.1])
    assert [STEPS.dispositions[code] for code in ranked.disposition] == ["returned", "returned", "below_k"]


def test_what_speaks_for_an_answer_is_the_best_score_and_its_distance_to_the_next_ten(retriever_over: Any) -> None:
    texts = ["чай", "кофе", "липа", "клён", "река", "море", "гора", "поле", "окно", "дверь", "снег", "туман"]
    # Rows are by id, so m12, with the text of the first again, is the fifth; the others have 12, 11, …, 1.
    scores = dict(zip([0, 1, 2, 3, *range(5, 13)], range(12, 0, -1), strict=True)) | {4: 11.5}
    scored = {"bm25": {"q": scores, "none": {}}, "encoder": None, "normalize": "max"}
    question = retriever_over([*texts, texts[0]], **scored).ask(["q", "none"], as_of=DAY)
    best, gap = evidence(question.ranked(), 2)
    assert best.tolist() == [1.0, 0.0]
    assert gap.tolist() == pytest.approx([1 - 6.5 / 12, 0.0])  # the mean of 11 / 12, …, 2 / 12
    three = retriever_over(texts[:3], **scored | {"bm25": {"q": {0: 4.0, 1: 3.0, 2: 2.0}}}).ask("q", as_of=DAY)
    assert evidence(three.ranked(), 1)[1].tolist() == pytest.approx(
        [(0.25 + 0.5) / 10]
    )  # the eight that lack add nothing
