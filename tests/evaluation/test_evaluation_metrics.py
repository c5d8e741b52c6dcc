"""Metrics equal those of ir-measures on random runs, and arithmetic where it has none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, Success, nDCG
from ir_measures import Judged as JudgedShare
from sklearn.metrics import ndcg_score

import memkit as mk
from memkit.evaluation.labels import QRELS, read_qrels, read_queries
from memkit.evaluation.metrics import Judged, Labels, Metric, parse_metrics

THEIRS = {
    "ndcg@10": nDCG @ 10,
    "ndcg@3": nDCG @ 3,
    "ndcg": nDCG,
    "recall@5": R @ 5,
    "precision@7": P @ 7,
    "mrr": RR,
    "mrr@2": RR @ 2,
    "map": AP,
    "map@4": AP @ 4,
    "hit@1": Success @ 1,
    "hit@5": Success @ 5,
    "judged@5": JudgedShare @ 5,
}
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def random_task(n: int = 400) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Judgements and hits of `n` queries: some without hits, some without anything relevant."""
    random = np.random.default_rng(0)
    qrels, run = [], []
    for query in range(n):
        pool = int(random.integers(1, 30))
        judged = random.permutation(pool)[: random.integers(1, pool + 1)]
        grades = random.integers(-1, 4, len(judged)) * random.integers(0, 2)
        qrels += [
            {"query_id": f"q{query}", "memory_id": f"m{m}", "relevance": int(grade)}
            for m, grade in zip(judged, grades, strict=True)
        ]
        hits = random.permutation(pool)[: random.integers(0, pool + 1)]
        run += [
            {"query_id": f"q{query}", "memory_id": f"m{m}", "rank": rank, "score": 1.0 / rank}
            for rank, m in enumerate(hits, 1)
        ]
    return qrels, run


def scored(qrels: list[dict[str, Any]], run: list[dict[str, Any]], depth: int = 100) -> Judged:
    names = list(dict.fromkeys(row["query_id"] for row in qrels))
    queries = read_queries({"query_id": names, "text": names})
    hits = pa.Table.from_pylist(
        run,
        schema=None
        if run
        else pa.schema([("query_id", pa.string()), ("rank", pa.int64()), ("memory_id", pa.string())]),
    )
    return Judged.from_hits(hits, Labels.from_tables(queries, read_qrels(pa.Table.from_pylist(qrels)), NOW), depth)


@pytest.mark.quick
def test_metrics_equal_those_of_ir_measures() -> None:
    qrels, run = random_task()
    ours = scored(qrels, run)
    judgements = [ir_measures.Qrel(row["query_id"], row["memory_id"], row["relevance"]) for row in qrels]
    hits = [ir_measures.ScoredDoc(row["query_id"], row["memory_id"], row["score"]) for row in run]
    theirs = {(m.query_id, m.measure): m.value for m in ir_measures.iter_calc(THEIRS.values(), judgements, hits)}
    assert 100 < (ours.n_relevant > 0).sum() < 300
    for name, measure in THEIRS.items():
        values = Metric.parse(name)(ours)
        shares = measure.NAME == "Judged"
        for i, query in enumerate(dict.fromkeys(row["query_id"] for row in qrels)):
            if ours.filled[i].any() if shares else ours.n_relevant[i]:
                assert values[i] == pytest.approx(theirs.get((query, measure), 0.0), abs=1e-9), (name, query)
            else:
                assert np.isnan(values[i])


def hit(query: str, rank: int, memory: str, *alike: str) -> dict[str, Any]:
    return {"query_id": query, "rank": rank, "memory_id": memory, "alike": list(alike)}


def judgement(memory: str, relevance: float, query: str = "q", **more: Any) -> dict[str, Any]:
    return {"query_id": query, "memory_id": memory, "relevance": relevance, **more}


@pytest.mark.quick
def test_a_hit_has_the_highest_relevance_of_what_is_folded_under_it() -> None:
    qrels = [judgement("a", 1), judgement("b", 3), judgement("c", 2)]
    run = scored(qrels, [hit("q", 1, "x", "a", "b"), hit("q", 2, "c")])
    best = 3 + 2 / np.log2(3) + 1 / np.log2(4)
    assert Metric.parse("ndcg@10")(run) == pytest.approx([(3 + 2 / np.log2(3)) / best])
    assert Metric.parse("recall@1")(run) == pytest.approx([2 / 3])  # both that the first hit stands for
    assert Metric.parse("precision@2")(run) == [1.0]


@pytest.mark.quick
def test_a_memory_with_several_chunks_counts_once_where_it_comes_first() -> None:
    run = scored([judgement("a", 1), judgement("b", 1)], [hit("q", 1, "a"), hit("q", 2, "a"), hit("q", 3, "b")])
    assert Metric.parse("recall@2")(run) == [0.5]
    assert Metric.parse("precision@3")(run) == pytest.approx([2 / 3])
    assert Metric.parse("map")(run) == pytest.approx([(1 + 2 / 3) / 2])


def test_a_superseded_memory_counts_nothing_and_is_stale_from_its_last_day_on() -> None:
    qrels = [
        judgement("old", 2, valid_to=datetime(2026, 3, 1, tzinfo=UTC)),
        judgement("new", 2, valid_from=datetime(2026, 3, 1, tzinfo=UTC)),
        judgement("later", 2, valid_from=datetime(2026, 4, 1, tzinfo=UTC)),
    ]
    queries = read_queries({"query_id": ["q", "past"], "text": ["", ""], "as_of": [None, "2026-02-28"]})
    both = read_qrels(
        pa.Table.from_pylist([row | {"query_id": q} for q in ("q", "past") for row in qrels], schema=QRELS)
    )
    labels = Labels.from_tables(queries, both, NOW)
    assert labels.n_relevant.tolist() == [1, 1]
    names = ("old", "new", "later", "x")
    hits = pa.Table.from_pylist([hit(q, rank, m) for q in ("q", "past") for rank, m in enumerate(names, 1)])
    run = Judged.from_hits(hits, labels, 10)
    assert Metric.parse("stale@2")(run).tolist() == [0.5, 0.0]
    assert Metric.parse("stale")(run).tolist() == [0.25, 0.0]
    assert Metric.parse("mrr")(run).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("wrong", ["ndgc@10", "ndcg@0", "ndcg@00", "ndcg@", "ndcg@-1", "", "@5", "ndcg@10.5", None])
def test_an_unknown_metric_is_refused(wrong: Any) -> None:
    with pytest.raises(mk.errors.ParameterError, match=r"metrics: expected ndcg, recall, .* or stale"):
        Metric.parse(wrong)


def test_metrics_are_read_in_any_case_and_each_once() -> None:
    assert [metric.name for metric in parse_metrics(["nDCG@10", "ndcg@10", "MRR"])] == ["ndcg@10", "mrr"]
    assert [metric.name for metric in parse_metrics("hit@1")] == ["hit@1"]
    with pytest.raises(mk.errors.ParameterError, match="at least one"):
        parse_metrics([])


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=12).filter(any))
def test_ndcg_is_scikit_learns(grades: list[int]) -> None:
    names = [f"m{i}" for i in range(len(grades))]
    qrels = [judgement(name, grade) for name, grade in zip(names, grades, strict=True)]
    run = scored(qrels, [hit("q", rank, name) for rank, name in enumerate(names, 1)])
    assert Metric.parse("ndcg@10")(run) == pytest.approx([ndcg_score([grades], [np.arange(len(grades))[::-1]], k=10)])


def test_one_memory_that_answers_every_query_is_relevant_to_each() -> None:
    queries = read_queries({"query_id": ["q1", "q2", "q3"], "text": ["чай", "кофе", "сок"]})
    qrels = read_qrels({"query_id": ["q1", "q2", "q3"], "memory_id": ["m"] * 3, "relevance": [1] * 3})
    judged = Labels.from_tables(queries, qrels, NOW)
    assert judged.n_relevant.tolist() == [1, 1, 1]
    assert judged.ideal(10).tolist() == [1.0, 1.0, 1.0]
    assert judged.relevant().to_pydict() == {"query_id": ["q1", "q2", "q3"], "memory_id": ["m"] * 3}
