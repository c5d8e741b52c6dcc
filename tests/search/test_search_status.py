"""An author's word on a memory counts: deprecated ones are hidden, successors stand for what they replace."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import memkit as mk

ROWS = [
    ("old", "Выручка брутто считается до возвратов.", None, "new"),
    ("older", "Оборот: сумма заказов за месяц.", None, "old"),
    ("new", "Чистый доход: заказы без возвратов.", None, None),
    ("gone", "Пул соединений: десять.", "deprecated", None),
    ("pool", "Пул соединений: двадцать.", None, None),
    ("ring", "Кольцо раз.", None, "gnir"),
    ("gnir", "Кольцо два.", None, "ring"),
    ("tea", "Чай без сахара.", "draft", "absent"),
]


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    memory_id, text, status, superseded_by = zip(*ROWS, strict=True)
    columns = {"memory_id": memory_id, "text": text, "status": status, "superseded_by": superseded_by}
    return mk.from_table(pd.DataFrame(columns))


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder=None, fold="none").fit(corpus)


def ids(hits: pa.Table) -> list[str]:
    found: list[str] = hits["memory_id"].to_pylist()
    return found


def test_a_deprecated_memory_is_hidden_and_kept_where_it_is_asked_for(search: mk.Retriever) -> None:
    assert ids(search.search("пул соединений")) == ["pool"]
    assert set(ids(search.with_params(status="keep").search("пул соединений"))) == {"pool", "gone"}
    trace = {row["memory_id"]: row["disposition"] for row in search.trace("пул соединений").to_pylist()}
    assert trace["gone"] == "deprecated"
    assert "deprecated" in str(mk.explain(search, "пул соединений", "gone"))


def test_the_last_successor_is_found_by_the_words_and_with_the_score_of_what_it_replaces(search: mk.Retriever) -> None:
    kept = search.with_params(status="keep")
    for query, replaced in (("брутто", "old"), ("оборот за месяц", "older")):
        hits, before = search.search(query), kept.search(query)
        assert ids(hits)[0] == "new"
        assert ids(before)[0] == replaced
        assert np.isclose(hits["bm25"][0].as_py(), before["bm25"][0].as_py(), rtol=1e-12)
    dispositions = {row["memory_id"]: row["disposition"] for row in search.trace("оборот за месяц").to_pylist()}
    assert dispositions["older"] == "superseded"
    assert "'new' supersedes it and is shown in its place" in str(mk.explain(search, "оборот за месяц", "older"))


def test_a_memory_stays_where_its_successor_may_not_be_shown(search: mk.Retriever) -> None:
    assert ids(search.search("брутто", where="memory_id <> 'new'")) == ["old"]
    assert ids(search.search("кольцо")) == ["gnir", "ring"], "each supersedes the other"
    assert ids(search.search("чай")) == ["tea"], "its successor is not there"


def test_settings_of_a_sweep_score_as_their_own_searches(search: mk.Retriever) -> None:
    queries = pd.DataFrame({"query_id": ["a", "b", "c"], "text": ["брутто заказы", "оборот заказов", "пул соединений"]})
    qrels = pd.DataFrame({"query_id": ["a", "b", "c"], "memory_id": ["new", "older", "gone"], "relevance": 1})
    swept = mk.sweep(search, queries, qrels, {"status": ["obey", "keep"], "pool": [1, 2, 5]}, metrics=["mrr"])
    rows = swept.table.to_pylist()
    assert {(row["status"], row["pool"]) for row in rows} >= {(s, p) for s in ("obey", "keep") for p in (1, 2, 5)}
    for row in rows:
        one = search.with_params(status=row["status"], pool=row["pool"])
        value = mk.evaluate(one, queries, qrels, metrics=["mrr"]).table.to_pylist()[0]["value"]
        assert row["mrr"] == value, row
    assert {row["mrr"] for row in rows if row["status"] == "keep"} != {
        row["mrr"] for row in rows if row["status"] == "obey"
    }


def test_a_page_of_a_bundle_stands_for_the_page_that_it_replaces() -> None:
    from memkit.tables.samples import sample_data

    search = mk.Retriever(encoder=None).fit(mk.read(sample_data() / "layouts" / "okf"))
    hits = search.search("gross revenue", columns=("title",))
    assert "metrics/gross-revenue.md" not in hits["path"].to_pylist()
    assert hits["path"][0].as_py() == "metrics/net-revenue.md"
