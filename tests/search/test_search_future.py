"""What was created after the moment that is asked about: shown or hidden, the same for search, trace and labels."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.context import Context
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
    names: list[str] = hits["memory_id"].to_pylist()
    return names


def known(day: str) -> list[str]:
    return [name for name, created_at in DAYS.items() if created_at is None or created_at <= day]


@pytest.mark.quick
@pytest.mark.parametrize("day", ["2025-12-31", "2026-01-01", "2026-02-15", "2026-04-01"])
def test_what_was_created_later_is_hidden_where_a_moment_is_given(search: mk.Retriever, day: str) -> None:
    assert ids(search.search("q", as_of=day)) == known(day)
    assert ids(search.with_params(future="keep").search("q", as_of=day)) == list(DAYS)
    assert ids(search.with_params(future="hide").search("q", as_of=day)) == known(day)


@pytest.mark.quick
def test_without_a_moment_nothing_is_hidden_unless_that_is_asked_for(corpus_of: Any) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    search = mk.Retriever(encoder=None).fit(corpus_of({"text": "чай", "created_at": tomorrow}, "чай и мёд"))
    assert sorted(ids(search.search("чай"))) == ["m0", "m1"]
    assert b"note" not in search.search("чай").schema.metadata
    assert ids(search.with_params(future="hide").search("чай")) == ["m1"]
    labels = {"query_id": ["1"], "text": ["чай"]}, {"query_id": ["1"], "memory_id": ["m0"], "relevance": [1]}
    assert mk.evaluate(search, *labels, "recall@5").table["value"].to_pylist() == [1.0]
    assert mk.evaluate(search.with_params(future="hide"), *labels, "recall@5").table["value"].to_pylist() == [0.0]


AT = datetime(2026, 3, 1, 15, tzinfo=UTC)
"""When the memory was created that these see or do not see."""
SEEING = ["2026-03-01", "20260301", AT.date(), AT, "2026-03-01T15:00", "2026-03-01T18:00+03:00", "2026-03-02"]
BLIND = ["2026-02-28", "2026-03-01T14:59:59", datetime(2026, 3, 1), "2026-03-01T00:00", datetime(2026, 3, 1, 14)]


@pytest.fixture(scope="module")
def afternoon() -> mk.Retriever:
    """Over a memory of an afternoon, and one without a date."""
    rows = {"memory_id": ["day", "undated"], "text": ["чай чёрный", "чай зелёный"], "created_at": [AT, None]}
    return mk.Retriever(encoder=None).fit(mk.from_table({**rows, "kind": ["profile", "profile"]}))


@pytest.mark.quick
@pytest.mark.parametrize("as_of", [*SEEING, *BLIND], ids=str)
def test_a_day_is_seen_to_its_end_and_a_time_is_exact(afternoon: mk.Retriever, as_of: Any) -> None:
    visible = {"undated"} | ({"day"} if as_of in SEEING else set())
    fate = "returned" if as_of in SEEING else "future"
    queries = pa.table({"text": ["чай"], "as_of": pa.array([as_of if isinstance(as_of, str) else as_of.isoformat()])})
    assert set(ids(afternoon.search("чай", as_of=as_of))) == visible
    assert set(ids(afternoon.search(queries))) == visible
    trace = afternoon.trace("чай", as_of=as_of)
    assert dict(zip(ids(trace), trace["disposition"].to_pylist(), strict=True))["day"] == fate
    assert ("the future is hidden" in mk.explain(afternoon, "чай", "day", as_of=as_of)) is (fate == "future")
    built = mk.ContextBuilder(afternoon).build(afternoon.corpus_, None, "чай", as_of=as_of).table
    assert set(built.filter(built["keep"])["memory_id"].to_pylist()) <= visible
    replayed = mk.replay(afternoon.corpus_, mk.Expiry(), mk.Quota(), as_of=as_of)
    assert set(replayed.filter(replayed["keep_a"])["memory_id"].to_pylist()) == visible


def test_a_memory_of_the_day_that_is_asked_about_has_no_age(afternoon: mk.Retriever) -> None:
    trace = afternoon.trace("чай", as_of="2026-03-01")
    assert dict(zip(ids(trace), trace["age_days"].to_pylist(), strict=True)) == {"day": 0.0, "undated": None}


def test_midnight_in_a_column_of_time_stamps_is_that_day(afternoon: mk.Retriever) -> None:
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    assert set(ids(afternoon.search(pa.table({"text": ["чай"], "as_of": pa.array([midnight])})))) == {"day", "undated"}
    exact = pa.array([datetime(2026, 3, 1, 9, tzinfo=UTC)])
    assert ids(afternoon.search(pa.table({"text": ["чай"], "as_of": exact}))) == ["undated"]


@pytest.mark.parametrize(("day", "value"), [("2026-03-01", 1.0), ("2026-03-01T09:00", 0.0), ("2026-03-01T15:00", 1.0)])
def test_every_measure_sees_what_a_search_of_that_moment_sees(
    afternoon: mk.Retriever, day: str, value: float, tmp_path: Path
) -> None:
    unscoped = {"query_id": ["1"], "text": ["чай"]}
    qrels = {"query_id": ["1"], "memory_id": ["day"], "relevance": [1]}
    written = mk.labels.write({**unscoped, "as_of": [day]}, tmp_path / "queries.parquet")
    for queries, moment in ((unscoped, day), ({**unscoped, "as_of": [day]}, None), (written, None)):
        assert mk.evaluate(afternoon, queries, qrels, "recall@5", as_of=moment).table["value"].to_pylist() == [value]
        swept = mk.sweep(afternoon, queries, qrels, {"min_score": [0.0]}, ["recall@5"], as_of=moment)
        assert swept.table["recall@5"].to_pylist() == [value]
        comparison = mk.compare(afternoon, afternoon, queries, qrels, "recall@5", as_of=moment).table
        assert (comparison["a"].to_pylist(), comparison["b"].to_pylist()) == ([value], [value])
        assert mk.panels.judge(afternoon, queries, as_of=moment)._queue.count(("1", "day")) == value
    panel = mk.panels.search(afternoon, "чай", as_of=day)
    assert ("day" in ids(panel.result)) is (value == 1.0)
    again = eval(panel.code, {"afternoon": afternoon})  # noqa: S307  # the panel's own line
    assert again.equals(panel.result)


def test_a_panel_that_goes_from_a_day_to_its_first_instant_asks_again(afternoon: mk.Retriever) -> None:
    panel = mk.panels.search(afternoon, "чай", as_of="2026-03-01")
    assert set(ids(panel.result)) == {"day", "undated"}
    panel.set(as_of="2026-03-01T00:00")
    assert ids(panel.result) == ["undated"]


def test_a_prompt_of_a_day_holds_nothing_that_was_written_later(corpus_of: Any) -> None:
    def fact(text: str, kind: str, day: str | None) -> dict[str, Any]:
        created_at = day and datetime.fromisoformat(day).replace(tzinfo=UTC)
        return {"text": text, "kind": kind, "user_id": "anna", "importance": "high", "created_at": created_at}

    rows = [fact("любит чай", "profile", "2026-01-01"), fact("пьёт кофе", "profile", "2026-03-01")]
    rows += [fact("ставит чайник", "working", "2026-03-01"), fact("чай без даты", "archive", None)]
    corpus = corpus_of(*rows, fact("чай из будущего", "archive", "2026-04-01"))

    def build(**params: Any) -> Context:
        builder = mk.ContextBuilder(mk.Retriever(encoder=None, **params))
        return builder.build(corpus, "anna", "чай", as_of="2026-02-01")

    built = build()
    assert built.text == "[PROFILE MEMORY]\n- любит чай\n\n[RELEVANT MEMORY FOR THIS TURN]\n- чай без даты"
    reasons = dict(zip(built.table["memory_id"].to_pylist(), built.table["reason"].to_pylist(), strict=True))
    assert reasons == {"m0": "shown_above", "m1": "future", "m2": "future", "m3": None}
    assert "3 memories created after 2026-02-01 are hidden" in built.note
    assert "1 has no created_at" in built.note
    assert "пьёт кофе" in build(future="keep").text
    assert "чай из будущего" in build(future="keep").text


def test_the_note_counts_what_a_moment_cannot_tell_of_and_only_what_may_be_found(corpus_of: Any) -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
    rows = [{"created_at": early}, {"created_at": early, "updated_at": late}, {"updated_at": late}, {}]
    rows += [{"created_at": late, "updated_at": late}]
    search = mk.Retriever(encoder=None).fit(
        corpus_of(*({"text": f"чай {n}", "user_id": user, **row} for user in "ab" for n, row in enumerate(rows)))
    )

    def note(**scope: Any) -> str:
        return search.search("чай", **scope).schema.metadata.get(b"note", b"").decode()

    every = "2 memories created after 2026-02-01 are hidden."
    every += " Of the others, 4 have no created_at and 4 were updated later."
    assert note(as_of="2026-02-01") == every
    one = "1 memory created after 2026-02-01 09:30 is hidden."
    one += " Of the others, 2 have no created_at and 2 were updated later."
    assert note(as_of="2026-02-01T09:30", where="user_id = 'a'") == one
    assert note(as_of="2026-05-01") == ""
    assert search.search("чай", as_of="2026-02-01", k=9).num_rows == 8


@pytest.mark.outside
def test_buckets_hide_and_say_the_same_as_one_index(tmp_path: Path) -> None:
    days = [None, AT, AT - timedelta(days=30), AT + timedelta(days=30)]
    rows = {"text": [f"чай {n}" for n in range(20)], "user_id": [f"u{n % 5}" for n in range(20)]}
    corpus = mk.from_table({**rows, "created_at": [days[n % 4] for n in range(20)]})
    corpus.save(tmp_path / "lake", buckets=3)
    one = mk.Retriever(encoder=None).fit(corpus)
    in_buckets = mk.Retriever(encoder=None).fit(mk.open(tmp_path / "lake", trust=True))
    for as_of in (None, "2026-03-01", "2026-03-01T09:00", "2026-01-01"):
        for where in (None, "user_id = 'u1'"):
            a, b = (search.search("чай", k=20, where=where, as_of=as_of) for search in (one, in_buckets))
            assert ids(a) == ids(b)
            assert a.schema.metadata.get(b"note") == b.schema.metadata.get(b"note")
    assert one.search("чай", k=20, as_of="2026-03-01T09:00").num_rows == 10


def test_a_resumed_sweep_without_a_moment_goes_on_hiding_nothing(corpus_of: Any, tmp_path: Path) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    search = mk.Retriever(encoder=None).fit(corpus_of({"text": "чай", "created_at": tomorrow}, "чай и мёд"))
    labels = {"query_id": ["1"], "text": ["чай"]}, {"query_id": ["1"], "memory_id": ["m0"], "relevance": [1]}
    first, again = (
        mk.sweep(search, *labels, {"min_score": [0.0, 0.1]}, ["recall@5"], resume=tmp_path / "kept") for _ in range(2)
    )
    assert first.table.equals(again.table)
    assert again.task.moment == first.task.moment
    assert again.table["recall@5"].to_pylist() == [1.0, 1.0]
    with pytest.raises(ParameterError, match="differ"):
        mk.sweep(search, *labels, {"min_score": [0.0, 0.1]}, ["recall@5"], resume=tmp_path / "kept", as_of="2026-03-01")


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
    assert by_query == {"b": known("2026-02-15"), "a": ["m3"], "c": known("2026-01-15"), "d": known("2026-01-02")}
    assert list(dict.fromkeys(hits["query_id"].to_pylist())) == ["b", "a", "c", "d"]
    unhidden = search.with_params(future="keep").search(queries)
    assert unhidden.num_rows == 3 * 4 + 2
    assert search.with_params(future="hide").search(queries, as_of="2026-01-02").num_rows == 3 + 1 + 2 + 2


def test_the_result_says_how_many_are_hidden_and_keeps_what_each_part_says(search: mk.Retriever) -> None:
    one = search.search(pa.table({"text": ["q"], "as_of": ["2026-01-15"]}))
    note = "2 memories created after 2026-01-15 are hidden. Of the others, 1 has no created_at."
    assert one.schema.metadata[b"note"].decode() == note
    assert one.schema.metadata[b"as_of"].decode().startswith("2026-01-15")
    both = search.search(pa.table({"text": ["q", "r"], "as_of": ["2026-01-15", "2026-03-15"]}))
    assert both.schema.metadata[b"note"].decode() == note
    assert json.loads(both.schema.metadata[b"shown"])["queries"] == {"0": "q", "1": "r"}
    assert b"as_of" not in both.schema.metadata


def test_the_trace_and_explain_name_it(search: mk.Retriever) -> None:
    trace = search.trace("q", as_of="2026-02-15")
    assert dict(zip(ids(trace), trace["disposition"].to_pylist(), strict=True))["m2"] == "future"
    where = "memory_id <> 'm2'"
    trace = search.trace("q", where=where, as_of="2026-02-15")
    assert dict(zip(ids(trace), trace["disposition"].to_pylist(), strict=True))["m2"] == "filtered"
    words = mk.explain(search, "q", "m2", as_of="2026-02-15")
    assert words == "'m2' is not returned: it was created on 2026-03-01, after 2026-02-15, and the future is hidden."


def test_a_question_is_of_one_day_and_asked_again_for_another_scope(search: mk.Retriever) -> None:
    with pytest.raises(ParameterError, match=r"queries of one day\. Got 2"):
        search.ask(pa.table({"text": ["q", "r"], "as_of": ["2026-01-15", None]}))
    with pytest.raises(ParameterError, match="ask again"):
        search.ask("q").with_params(future="hide")
    with pytest.raises(ParameterError, match="'as_of' must be a date"):
        search.search(pa.table({"text": ["q"], "as_of": ["yesterday"]}))


def test_labels_with_a_day_are_answered_as_a_search_of_that_day(search: mk.Retriever) -> None:
    queries = {"query_id": ["1", "2"], "text": ["q", "q"], "as_of": ["2026-02-15", None]}
    qrels = {"query_id": ["1", "2"], "memory_id": ["m1", "m2"], "relevance": [1, 1]}
    evaluation = mk.evaluate(search, queries, qrels, "mrr", as_of="2026-03-01")
    assert evaluation.hits.num_rows == len(known("2026-02-15")) + len(known("2026-03-01"))
    unhidden = mk.evaluate(search.with_params(future="keep"), queries, qrels, "mrr", as_of="2026-03-01")
    assert unhidden.hits.num_rows == 2 * len(DAYS)
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
    alone = mk.Retriever(encoder=None, index=mk.Index(searched=("text",))).fit(
        corpus_of({**rows[0], "text": "сегодня дежурит Анна"})
    )
    assert ids(alone.search("сегодня", as_of="2026-03-09")) == ["m0"]
    traced = search.trace("позавчера", k=1, as_of="2026-03-09")
    assert traced["memory_id"].to_pylist()[0] == "m6"
    with pytest.raises(ParameterError, match="ask again"):
        search.ask("вчера").with_params(read_dates=False)
