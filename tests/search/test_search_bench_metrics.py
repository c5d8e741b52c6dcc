"""The quality benchmark searches a set as its labels mean it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def bench(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/bench_quality.py")


@pytest.mark.quick
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
        returned = [ids for where, queries in labelled.batches() for ids in way([q["text"] for q in queries], where)]
        # BM25 shows the same text of one owner once.
        assert returned == ([["a"], ["d"]] if name == "BM25" else [["a", "b"], ["d"]])


@pytest.mark.quick
def test_a_set_is_scored_by_query_with_an_interval_over_its_scopes(bench: ModuleType) -> None:
    queries = [{"id": f"q{i}", "text": "", "scope": f"s{i % 6}"} for i in range(12)]
    labelled = bench.Labelled("tiny", None, queries, {q["id"]: {"right": 1.0, "gone": 1.0} for q in queries}, 0)

    def search(texts: list[str], where: str | None) -> list[list[str]]:
        return [["wrong", "right"] for _ in texts]

    evaluation = bench.evaluate(labelled, search)
    row = evaluation.table.to_pylist()[0]
    assert (row["metric"], row["unit"], row["n_units"], row["estimate"]) == ("ndcg@10", "user_id", 6, "per query")
    assert bench.value(evaluation, 0) == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))
    assert [bench.value(evaluation, i) for i in (1, 2, 3)] == [0.5, 0.5, 0.5]
    assert bench.cell(evaluation, 3) == "0.500 [0.500, 0.500]"
