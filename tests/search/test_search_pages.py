"""Hits that are files, and contents pages that rank low."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import memkit as mk
from memkit.schemas import KINDS

LAYOUTS = Path(__file__).parents[2] / "data" / "layouts"
QUERIES = ["возвраты и сроки", "кто платит", "planner", "дежурный ночью", "принтер и бумага", "холодная цепь"]


@pytest.mark.quick
def test_a_hit_of_a_file_is_the_best_of_its_memories() -> None:
    corpus = mk.read(LAYOUTS / "wiki")
    options = {"encoder": None, "fold": "none"}
    columns = ("path",)
    memories = mk.Retriever(**options).fit(corpus).search(QUERIES, k=100, columns=columns).to_pylist()
    files = mk.Retriever(unit="file", **options).fit(corpus).search(QUERIES, k=100, columns=columns).to_pylist()
    best = {(hit["query_id"], hit["path"]): hit["memory_id"] for hit in reversed(memories)}
    by_file = {(hit["query_id"], hit["path"]): hit["memory_id"] for hit in files}
    assert by_file == best
    assert len(by_file) == len(files), "each file once"
    assert len(files) < len(memories)
    for query in map(str, range(len(QUERIES))):
        ranks = [hit["rank"] for hit in files if hit["query_id"] == query]
        assert ranks == [*range(1, len(ranks) + 1)]


@pytest.mark.quick
def test_memories_without_a_file_are_hits_of_their_own() -> None:
    corpus = mk.from_table({"text": ["чай зелёный", "чай чёрный", "кофе"]})
    search = mk.Retriever(encoder=None, unit="file").fit(corpus)
    assert {*search.search("чай", k=5)["memory_id"].to_pylist()} >= {"0", "1"}


@pytest.mark.quick
def test_files_are_measured_as_they_are_shown() -> None:
    corpus = mk.read(LAYOUTS / "wiki")
    search = mk.Retriever(encoder=None, unit="file", fold="none").fit(corpus)
    hits = search.search(QUERIES, k=3).to_pylist()
    qrels = [{"query_id": hit["query_id"], "memory_id": hit["memory_id"], "relevance": 1} for hit in hits]
    queries = [{"query_id": str(number), "text": text} for number, text in enumerate(QUERIES)]
    evaluation = mk.evaluate(search, pa.Table.from_pylist(queries), pa.Table.from_pylist(qrels), metrics=["recall@3"])
    assert evaluation.table["value"].to_pylist() == [1.0]
    grid = {"unit": ["file"], "pool": [100]}
    swept = mk.sweep(search, pa.Table.from_pylist(queries), pa.Table.from_pylist(qrels), grid, metrics=["recall@3"])
    assert swept.table["recall@3"].to_pylist() == [1.0]


def test_a_contents_page_has_its_own_weight_unless_one_is_given() -> None:
    corpus = mk.read(LAYOUTS / "okf")
    query = "metrics of the bookshop"
    options = {"encoder": None, "status": "keep"}  # a superseded page, which is hidden by itself, has a weight too
    search = mk.Retriever(**options).fit(corpus)
    traced = search.trace(query).to_pylist()
    kinds = dict(zip(*(corpus.memories[name].to_pylist() for name in ("memory_id", "kind")), strict=True))
    assert {
        (kinds[row["memory_id"]], row["prior"]) for row in traced if kinds[row["memory_id"]] in ("index", "page")
    } <= {("index", KINDS["index"].weight), ("page", 1.0)}
    assert KINDS["index"].weight < 1
    as_pages = mk.Retriever(**options, kind_weights={"index": 1.0}).fit(corpus).trace(query).to_pylist()
    unweighted = {row["memory_id"]: row["score"] for row in as_pages}
    for row in traced:
        weight = KINDS[kinds[row["memory_id"]]].weight
        assert row["score"] == pytest.approx(weight * unweighted[row["memory_id"]], abs=1e-6)
    search.set_params(kind_weights={"index": 0.25})
    assert {row["prior"] for row in search.trace(query).to_pylist() if kinds[row["memory_id"]] == "index"} <= {0.25}
