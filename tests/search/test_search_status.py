"""An author's word on a memory counts: deprecated ones are hidden, successors stand for what they replace."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import memkit as mk
from memkit.schemas import STALE_WEIGHT

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
    names: list[str] = hits["memory_id"].to_pylist()
    return names


@pytest.mark.quick
def test_a_deprecated_memory_is_hidden_and_kept_where_it_is_asked_for(search: mk.Retriever) -> None:
    assert ids(search.search("пул соединений")) == ["pool"]
    assert set(ids(search.with_params(status="keep").search("пул соединений"))) == {"pool", "gone"}
    trace = {row["memory_id"]: row["disposition"] for row in search.trace("пул соединений").to_pylist()}
    assert trace["gone"] == "deprecated"
    assert "deprecated" in str(mk.explain(search, "пул соединений", "gone"))


@pytest.mark.quick
def test_the_last_successor_is_found_by_the_words_and_with_the_score_of_what_it_replaces(search: mk.Retriever) -> None:
    unhidden = search.with_params(status="keep")
    for query, replaced in (("брутто", "old"), ("оборот за месяц", "older")):
        hits, before = search.search(query), unhidden.search(query)
        assert ids(hits)[0] == "new"
        assert ids(before)[0] == replaced
        assert np.isclose(hits["bm25"][0].as_py(), before["bm25"][0].as_py(), rtol=1e-12)
    dispositions = {row["memory_id"]: row["disposition"] for row in search.trace("оборот за месяц").to_pylist()}
    assert dispositions["older"] == "superseded"
    assert "'new' supersedes it and is shown in its place" in str(mk.explain(search, "оборот за месяц", "older"))


@pytest.mark.quick
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


STALE = [
    ("early", "Ставка налога: двадцать.", "2026-04-30"),
    ("late", "Ставка налога: восемнадцать.", "2026-06-01T12:00"),
    ("never", "Ставка налога: десять.", None),
]


@pytest.fixture(scope="module")
def dated() -> mk.Retriever:
    memory_id, text, stale_at = zip(*STALE, strict=True)
    corpus = mk.from_table(pd.DataFrame({"memory_id": memory_id, "text": text, "stale_at": stale_at}))
    return mk.Retriever(encoder=None, fold="none").fit(corpus)


def test_what_is_stale_counts_less_from_its_moment_on_and_stays(dated: mk.Retriever) -> None:
    plain = {row["memory_id"]: row["score"] for row in dated.search("ставка налога").to_pylist()}
    cases = {
        None: set(),
        "2026-04-29": set(),
        "2026-04-30": {"early"},
        "2026-06-01T11:59": {"early"},
        "2026-06-01T12:00": {"early", "late"},
        "2026-06-01": {"early", "late"},
    }
    for as_of, stale in cases.items():
        for search, expected in ((dated, stale), (dated.with_params(status="keep"), set())):
            hits = search.search("ставка налога", as_of=as_of)
            scores = {row["memory_id"]: row["score"] for row in hits.to_pylist()}
            weighted = {name: score * (STALE_WEIGHT if name in expected else 1) for name, score in plain.items()}
            assert scores == pytest.approx(weighted, abs=1e-9), (as_of, expected)
            assert (b"stale" in hits.schema.metadata.get(b"note", b"")) == bool(expected), as_of
    order = dated.search("ставка налога", as_of="2026-07-01")["memory_id"].to_pylist()
    assert order[0] == "never", "the others are as good, and stale"


def test_a_trace_and_an_explanation_say_that_it_is_stale(dated: mk.Retriever) -> None:
    traced = dated.trace("ставка налога", as_of="2026-05-01").to_pylist()
    assert {row["memory_id"]: row["prior"] for row in traced} == {"early": STALE_WEIGHT, "late": 1.0, "never": 1.0}
    why = mk.explain(dated, "ставка налога", "early", as_of="2026-05-01")
    assert f"times {STALE_WEIGHT:.2f} as it is stale since 2026-04-30" in why
    assert "stale" not in mk.explain(dated, "ставка налога", "early")
    weighed = dated.with_params(kind_weights={"page": 0.5}).trace("ставка налога", as_of="2026-05-01").to_pylist()
    assert {row["memory_id"]: row["prior"] for row in weighed}["early"] == STALE_WEIGHT


def test_a_sweep_ranks_what_is_stale_as_a_search_does(dated: mk.Retriever) -> None:
    days = ["2026-04-01", "2026-05-01", "2026-07-01", None]
    queries = pd.DataFrame({"query_id": [*"abcd"], "text": ["ставка налога"] * 4, "as_of": days})
    qrels = pd.DataFrame({"query_id": [*"abcd"], "memory_id": ["early"] * 4, "relevance": 1})
    grid = {"status": ["obey", "keep"], "min_score": [0.0, 0.1], "kind_weights": [None, {"page": 0.5}]}
    swept = mk.sweep(dated, queries, qrels, grid, metrics=["mrr"])
    for row in swept.table.to_pylist():
        weights = None if row["kind_weights"] is None else {"page": 0.5}
        one = dated.with_params(status=row["status"], min_score=row["min_score"], kind_weights=weights)
        assert row["mrr"] == mk.evaluate(one, queries, qrels, metrics=["mrr"]).table.to_pylist()[0]["value"], row
    assert len({row["mrr"] for row in swept.table.to_pylist()}) > 1


def test_a_hit_lists_what_it_replaces_and_shows_it(search: mk.Retriever, capsys: pytest.CaptureFixture[str]) -> None:
    hits = search.search("доход", k=1)
    assert hits["memory_id"].to_pylist() == ["new"]
    assert hits["replaces"].to_pylist() == [["old", "older"]]
    assert search.with_params(status="keep").search("доход", k=1)["replaces"].to_pylist() == [[]]
    assert search.search("доход", k=1, where="memory_id <> 'older'")["replaces"].to_pylist() == [["old"]]
    mk.show(hits)
    assert "replaces: Выручка брутто" in capsys.readouterr().out


def test_a_page_of_a_bundle_stands_for_the_page_that_it_replaces(capsys: pytest.CaptureFixture[str]) -> None:
    from memkit.tables.samples import sample_data

    search = mk.Retriever(encoder=None).fit(mk.read(sample_data() / "layouts" / "okf"))
    hits = search.search("gross revenue", columns=("title",))
    assert "metrics/gross-revenue.md" not in hits["path"].to_pylist()
    assert hits["path"][0].as_py() == "metrics/net-revenue.md"
    assert [*map(len, hits["replaces"].to_pylist())] == [2, *[0] * (hits.num_rows - 1)]
    assert all(name.startswith("workspace:metrics/gross-revenue.md#") for name in hits["replaces"][0].as_py())
    mk.show(hits)
    assert ", Gross revenue · metrics/gross-revenue.md:1" in " ".join(capsys.readouterr().out.split())
