"""What was created after the moment that is asked about: shown or hidden, the same for search, trace and labels."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.errors import ParameterError

DAYS = {"m0": "2026-01-01", "m1": "2026-02-01", "m2": "2026-03-01", "m3": None}
ROWS = [
    {"text": f"чай {i}", "created_at": day and datetime.fromisoformat(day).replace(tzinfo=UTC)}
    for i, day in enumerate(DAYS.values())
]
ANSWERS = {"q": {0: 4.0, 1: 3.0, 2: 2.0, 3: 1.0}, "r": {2: 4.0, 3: 3.0}}


@pytest.fixture
def search(retriever_over: Any) -> mk.Retriever:
    fitted: mk.Retriever = retriever_over(ROWS, bm25=ANSWERS, encoder=None)
    return fitted


def ids(hits: pa.Table) -> list[str]:
    found: list[str] = hits["memory_id"].to_pylist()
    return found


def known(day: str) -> list[str]:
    return [name for name, made in DAYS.items() if made is None or made <= day]


@pytest.mark.parametrize("day", ["2025-12-31", "2026-01-01", "2026-02-15", "2026-04-01"])
def test_it_is_hidden_if_asked_for_and_kept_else(search: mk.Retriever, day: str) -> None:
    assert ids(search.search("q", as_of=day)) == ids(search.with_params(future="keep").search("q", as_of=day))
    assert ids(search.search("q", as_of=day)) == list(DAYS)
    assert ids(search.with_params(future="hide").search("q", as_of=day)) == known(day)


def test_queries_with_a_day_of_their_own_do_not_see_what_is_later(search: mk.Retriever) -> None:
    queries = pa.table(
        {
            "query_id": ["b", "a", "c", "d"],
            "text": ["q", "r", "q", "q"],
            "as_of": ["2026-02-15", None, "2026-01-15", None],
        }
    )
    hits = search.search(queries, as_of="2026-01-02")
    by_query = {name: ids(hits.filter(pc.equal(hits["query_id"], name))) for name in ("b", "a", "c", "d")}
    assert by_query == {"b": known("2026-02-15"), "a": ["m2", "m3"], "c": known("2026-01-15"), "d": list(DAYS)}
    assert list(dict.fromkeys(hits["query_id"].to_pylist())) == ["b", "a", "c", "d"]
    kept = search.with_params(future="keep").search(queries)
    assert kept.num_rows == 3 * 4 + 2
    assert search.with_params(future="hide").search(queries, as_of="2026-01-02").num_rows == 3 + 1 + 2 + 2


def test_the_result_says_how_many_are_hidden_and_keeps_what_each_part_says(search: mk.Retriever) -> None:
    one = search.search(pa.table({"text": ["q"], "as_of": ["2026-01-15"]}))
    note = "Hidden are 2 memories created after 2026-01-15; the others read as today."
    assert one.schema.metadata[b"note"].decode() == note
    assert one.schema.metadata[b"as_of"].decode().startswith("2026-01-15")
    both = search.search(pa.table({"text": ["q", "r"], "as_of": ["2026-01-15", "2026-03-15"]}))
    assert both.schema.metadata[b"note"].decode() == note
    assert json.loads(both.schema.metadata[b"shown"])["queries"] == {"0": "q", "1": "r"}
    assert b"as_of" not in both.schema.metadata


def test_the_trace_and_explain_name_it(search: mk.Retriever) -> None:
    hiding = search.with_params(future="hide")
    trace = hiding.trace("q", as_of="2026-02-15")
    assert dict(zip(ids(trace), trace["disposition"].to_pylist(), strict=True))["m2"] == "future"
    where = "memory_id <> 'm2'"
    trace = hiding.trace("q", where=where, as_of="2026-02-15")
    assert dict(zip(ids(trace), trace["disposition"].to_pylist(), strict=True))["m2"] == "filtered"
    words = mk.explain(hiding, "q", "m2", as_of="2026-02-15")
    assert words == "'m2' is not returned: it was created on 2026-03-01, after 2026-02-15, and the future is hidden."


def test_a_question_is_of_one_day_and_asked_again_for_another_scope(search: mk.Retriever) -> None:
    with pytest.raises(ParameterError, match=r"queries of one day\. Got 2"):
        search.ask(pa.table({"text": ["q", "r"], "as_of": ["2026-01-15", None]}))
    with pytest.raises(ParameterError, match="ask again"):
        search.ask("q").but(future="hide")
    with pytest.raises(ParameterError, match="'as_of' must be a date"):
        search.search(pa.table({"text": ["q"], "as_of": ["yesterday"]}))


def test_labels_with_a_day_are_answered_as_a_search_of_that_day(search: mk.Retriever) -> None:
    queries = {"query_id": ["1", "2"], "text": ["q", "q"], "as_of": ["2026-02-15", None]}
    qrels = {"query_id": ["1", "2"], "memory_id": ["m1", "m2"], "relevance": [1, 1]}
    found = mk.evaluate(search, queries, qrels, "mrr", as_of="2026-03-01")
    assert found.hits.num_rows == len(known("2026-02-15")) + len(DAYS)
    kept = mk.evaluate(search.with_params(future="keep"), queries, qrels, "mrr", as_of="2026-03-01")
    assert kept.hits.num_rows == 2 * len(DAYS)
    stages = mk.evaluate(search, queries, qrels | {"memory_id": ["m2", "m2"]}, "mrr", as_of="2026-03-01", stages=True)
    assert "future" in stages.stages["disposition"].to_pylist()


def test_no_queries_have_no_hits(search: mk.Retriever) -> None:
    assert (
        search.search(pa.table({"text": pa.array([], pa.string()), "as_of": pa.array([], pa.string())})).num_rows == 0
    )


def test_a_time_in_the_question_finds_what_was_made_then(corpus_of: Any) -> None:
    days = [datetime(2026, 3, day, tzinfo=UTC) for day in range(1, 11)]
    rows = [{"text": f"заметка о том, что было сделано, номер {n}", "created_at": day} for n, day in enumerate(days)]
    search = mk.Retriever(encoder=None).fit(corpus_of(*rows))
    for query, day in [("что было вчера?", 8), ("what happened two days ago", 7), ("2026-03-05", 5), ("3 марта", 3)]:
        assert ids(search.search(query, k=1, as_of="2026-03-09")) == [f"m{day - 1}"]
    unread = search.with_params(read_dates=False)
    assert unread.search("вчера", as_of="2026-03-09").num_rows == 0
    assert search.search("вчера", as_of="2026-03-05").schema.equals(unread.search("3 марта").schema)
    undated = mk.Retriever(encoder=None).fit(corpus_of("сегодня дежурит Анна", "пул"))
    assert ids(undated.search("сегодня", as_of="2026-03-09")) == ["m0"]
    alone = mk.Retriever(encoder=None, searched=("text",)).fit(corpus_of({**rows[0], "text": "сегодня дежурит Анна"}))
    assert ids(alone.search("сегодня", as_of="2026-03-09")) == ["m0"]
    traced = search.trace("позавчера", k=1, as_of="2026-03-09")
    assert traced["memory_id"].to_pylist()[0] == "m6"
    with pytest.raises(ParameterError, match="ask again"):
        search.ask("вчера").but(read_dates=False)
