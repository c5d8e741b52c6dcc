"""The metrics of the quality benchmark, by arithmetic and by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score


@pytest.fixture(scope="module")
def bench(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/bench_quality.py")


def test_scores_of_one_query_are_their_formulas(bench: ModuleType) -> None:
    found = bench.scores(["x", "a", "y", "b", "z"] + ["."] * 3 + ["c"], {"a": 2.0, "b": 1.0, "c": 1.0, "gone": 1.0})
    best = 2 + 1 / np.log2(3) + 1 / np.log2(4) + 1 / np.log2(5)
    expected = ((2 / np.log2(3) + 1 / np.log2(5) + 1 / np.log2(10)) / best, 2 / 4, 3 / 4, 1 / 2)
    assert found == pytest.approx(expected)


def test_nothing_relevant_found_scores_zero(bench: ModuleType) -> None:
    assert bench.scores(["x"], {"a": 1.0}) == bench.scores([], {"a": 1.0}) == (0.0, 0.0, 0.0, 0.0)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=12).filter(any))
def test_ndcg_is_scikit_learns(bench: ModuleType, gains: list[int]) -> None:
    ideal = [gain for gain in gains if gain]
    expected = ndcg_score([gains], [np.arange(len(gains))[::-1]], k=10)
    assert bench.ndcg([float(gain) for gain in gains], ideal, 10) == pytest.approx(expected)


def test_the_interval_is_the_same_in_each_run_and_holds_the_mean(bench: ModuleType) -> None:
    values = np.array([0.0, 1.0] * 50)
    low, high = bench.interval(values)
    assert (low, high) == bench.interval(values)
    assert low < 0.5 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(100), rel=0.15)


def test_a_set_is_searched_within_scope_and_before_the_query(bench: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    documents = {"id": list("abcd"), "text": ["пул"] * 4, "scope": ["s", "s", "s", "t'"], "seq": [1, 2, 3, 1]}
    queries = {"id": ["q1", "q2", "q3"], "text": ["пул"] * 3, "scope": ["s", "t'", "s"], "seq": [3, 2, 1]}
    pq.write_table(pa.table(documents), folder / "corpus.parquet")
    pq.write_table(pa.table(queries), folder / "queries.parquet")
    judgements = {"query_id": ["q1", "q2"], "doc_id": ["b", "d"], "relevance": [1, 1]}
    pq.write_table(pa.table(judgements), folder / "qrels.parquet")
    labelled = bench.read_set(folder, folder, None)
    assert (labelled.left_out, [query["id"] for query in labelled.queries]) == (1, ["q1", "q2"])
    corpus = bench.Corpus({"memories": labelled.memories})
    search = bench.Retriever(encoder=None).fit(corpus)
    ways = {
        "substring": bench.with_substrings(corpus),
        "bm25s": bench.with_bm25s(corpus),
        "BM25": bench.with_retriever(search),
    }
    for name, way in ways.items():
        seen = [ids for where, queries in labelled.batches() for ids in way([q["text"] for q in queries], where)]
        # BM25 shows the same text of one owner once.
        assert seen == ([["a"], ["d"]] if name == "BM25" else [["a", "b"], ["d"]])
