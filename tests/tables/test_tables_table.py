"""Any table with a text column as a corpus: types of all kinds, nothing of a column lost."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import ParameterError
from memkit.schemas import MEMORIES, TABLES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def column(data: Any, name: str) -> list[Any]:
    corpus = mk.from_table(data)
    for table, schema in TABLES.items():
        assert corpus.tables[table].schema.equals(schema)
    corpus.memories.validate(full=True)
    assert all(corpus.memories[f.name].null_count == 0 for f in MEMORIES if not f.nullable)
    return corpus.memories[name].to_pylist()


TEXTS: dict[str, Any] = {
    "dictionary": {"text": ["чай", "tea"]},
    "large": pa.table({"text": pa.array(["чай", "tea"], pa.large_string())}),
    "view": pa.table({"text": pa.array(["чай", "tea"], pa.string_view())}),
    "encoded": pa.table({"text": pa.array(["чай", "tea"]).dictionary_encode()}),
    "bytes": pa.table({"text": ["чай".encode(), b"tea"]}),
    "chunks": pa.concat_tables([pa.table({"text": ["чай"]}), pa.table({"text": ["tea"]})]),
    "pandas": pd.DataFrame({"text": ["чай", "tea"]}),
    "objects": pd.DataFrame({"text": pd.Series(["чай", "tea"], dtype=object)}),
    "category": pd.DataFrame({"text": pd.Categorical(["чай", "tea"])}),
    "indexed": pd.DataFrame({"text": ["чай", "tea"]}, index=["x", "x"]),
}


@pytest.mark.quick
@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_a_text_in_every_type(kind: str) -> None:
    assert column(TEXTS[kind], "text") == ["чай", "tea"]
    assert column(TEXTS[kind], "memory_id") == ["0", "1"]
    assert column(TEXTS[kind], "format") == ["table", "table"]


@pytest.mark.quick
def test_a_missing_text_is_empty_and_told() -> None:
    for data in (pd.DataFrame({"text": ["чай", np.nan, None, " "]}), {"text": ["чай", None, None, " "]}):
        corpus = mk.from_table(data)
        assert corpus.memories["text"].to_pylist() == ["чай", "", "", " "]
        assert [(row["rule"], row["memory_id"]) for row in corpus.problems.to_pylist()] == [
            ("empty_text", "1"),
            ("empty_text", "2"),
            ("empty_text", "3"),
        ]


@pytest.mark.quick
@pytest.mark.parametrize(
    "data", [{"text": []}, pd.DataFrame({"text": []}), pa.table({"text": pa.array([], pa.string())})]
)
def test_a_table_without_rows_is_a_corpus_without_memories(data: Any) -> None:
    corpus = mk.from_table(data)
    assert corpus.memories.num_rows == corpus.problems.num_rows == 0
    assert corpus.sql("from fts('чай')").fetchall() == []


TIMES: dict[str, Any] = {
    "text": ["2026-01-01T12:00:00"],
    "offset": ["2026-01-01T15:00:00+03:00"],
    "naive": [datetime(2026, 1, 1, 12)],
    "aware": pd.Series([pd.Timestamp("2026-01-01 15:00", tz="Europe/Moscow")]),
    "seconds": pa.array([NOON], pa.timestamp("s", "UTC")),
    "nanoseconds": pa.array([datetime(2026, 1, 1, 12)], pa.timestamp("ns")),
    "category": pa.array(["2026-01-01T12:00:00Z"]).dictionary_encode(),
    "large": pa.array(["2026-01-01 12:00"], pa.large_string()),
}


@pytest.mark.parametrize("kind", TIMES)
def test_a_time_is_utc_in_every_type(kind: str) -> None:
    data = (
        pd.DataFrame({"text": ["a"], "created_at": TIMES[kind]})
        if kind == "aware"
        else {"text": ["a"], "created_at": TIMES[kind]}
    )
    assert column(data, "created_at") == [NOON]


def test_a_bare_date_is_midnight_and_a_missing_one_null() -> None:
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    assert column({"text": ["a", "b"], "updated_at": [date(2026, 1, 1), None]}, "updated_at") == [midnight, None]
    assert column({"text": ["a", "b"], "updated_at": ["2026-01-01", None]}, "updated_at") == [midnight, None]
    assert column({"text": ["a"], "updated_at": [None]}, "updated_at") == [None]


def test_other_columns_take_their_types() -> None:
    data = pd.DataFrame(
        {
            "text": ["a", "b"],
            "memory_id": [7, 5],
            "access_count": [1.0, np.nan],
            "pinned": [True, None],
            "tags": [["x"], None],
        }
    )
    assert column(data, "memory_id") == ["7", "5"]
    assert column(data, "access_count") == [1, None]
    assert column(data, "pinned") == [True, None]
    assert column(data, "tags") == [["x"], []]
    assert column(data, "title") == ["", ""]
    assert column({"text": ["a"], "confidence": ["0.5"]}, "confidence") == [0.5]


REFUSED: dict[str, tuple[Any, str]] = {
    "no text": ({"body": ["a"]}, "expected a column 'text'. Got body"),
    "no columns": (pa.table({}), "expected a column 'text'. Got none"),
    "repeated id": ({"text": ["a", "b"], "memory_id": ["x", "x"]}, "must be unique. Got 'x'"),
    "null id": ({"text": ["a", "b"], "memory_id": ["x", None]}, "'memory_id' must have no null. Got 1"),
    "mixed": (pd.DataFrame({"text": ["a", 1]}), "one Arrow type"),
    "surrogate": (pd.DataFrame({"text": pd.Series(["\ud800"], dtype=object)}), "one Arrow type"),
    "twice": (pa.table([["a"], ["b"]], names=["text", "text"]), "names must differ"),
    "twice in pandas": (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "text"),
    "number": (5, "from_table"),
    "rows": ([{"text": "a"}], "from_table"),
    "unit of time": ({"text": ["a"], "created_at": [1767225600]}, "'created_at' must be timestamp"),
    "half": ({"text": ["a"], "access_count": [1.5]}, "'access_count' must be int64"),
    "word": ({"text": ["a"], "confidence": ["много"]}, "'confidence' must be double"),
    "bytes": ({"text": [b"\xff"]}, "'text' must be string"),
    "tags": ({"text": ["a"], "tags": [5]}, "'tags' must be list"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_table_that_is_no_corpus_is_refused(kind: str) -> None:
    data, message = REFUSED[kind]
    with pytest.raises(ParameterError) as caught:
        mk.from_table(data)
    assert message in str(caught.value)
    assert str(caught.value).startswith("from_table: ")


FAULTS: list[tuple[str, list[Any], list[Any], str]] = [
    ("created_at", ["вчера", "2026-01-01T12:00:00Z", None], [None, NOON, None], "bad_date"),
    ("updated_at", ["2026-13-01", None, None], [None] * 3, "bad_date"),
    ("expires_at", ["", None, None], [None] * 3, "bad_date"),
    ("confidence", [1.01, 1.0, None], [None, 1.0, None], "out_of_range"),
    ("confidence", [float("nan"), 0.0, 0.5], [None, 0.0, 0.5], "out_of_range"),
    ("importance", ["urgent", "medium", "low"], [None, "normal", "low"], "bad_value"),
]


@pytest.mark.parametrize(("name", "values", "expected", "rule"), FAULTS)
def test_a_value_that_cannot_stay_is_a_problem_and_kept_in_extra(
    name: str, values: list[Any], expected: list[Any], rule: str
) -> None:
    corpus = mk.from_table(pa.table({"text": ["a", "b", "c"], name: values}))
    assert corpus.memories[name].to_pylist() == expected
    (problem,) = corpus.problems.to_pylist()
    assert (problem["rule"], problem["field"], problem["memory_id"]) == (rule, name, "0")
    wanted = None if values[0] != values[0] else values[0]
    assert list(map(json.loads, corpus.memories["extra"].to_pylist())) == [{name: wanted}, {}, {}]


ENDS = [-(2**63), -(2**63) + 1, -(2**62), 2**62, 2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "days"])
def test_a_date_that_no_calendar_has_is_null_a_problem_and_kept_in_extra(unit: str) -> None:
    kind = pa.date64() if unit == "days" else pa.timestamp(unit)
    dates = pa.array([*ENDS, 0], pa.int64()).view(kind)
    corpus = mk.from_table(pa.table({"text": ["a"] * 7, "created_at": dates}))
    assert corpus.memories["created_at"].to_pylist() == [None] * 6 + [datetime(1970, 1, 1, tzinfo=UTC)]
    assert corpus.problems["rule"].to_pylist() == ["bad_date"] * 6
    dates_in_extra = [json.loads(extra).get("created_at") for extra in corpus.memories["extra"].to_pylist()]
    assert (None in dates_in_extra[:6], dates_in_extra[6]) == (False, None)


def test_other_columns_with_such_dates_are_refused_by_name() -> None:
    dates = pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us"))
    with pytest.raises(ParameterError, match=r"from_table: columns seen must hold .* dates of the years 1 to 9999"):
        mk.from_table(pa.table({"text": ["a"], "seen": dates}))


_DATES: list[Any] = [
    *("2026-01-01", "20260101", "2026-01-01T12:00Z", "2026-01-01 15:00:00+03:00", "2026-1-1", "01.02.2026", "soon"),
    *("", "2026-01-01T00:00:00.123456789", "0000-01-01", "9999-12-31T23:00:00-05:00", "2026-W01-1", "2026\x00", None),
]
COLUMNS: dict[str, pa.Array] = {
    "texts": pa.array(_DATES),
    "large texts": pa.array(_DATES, pa.large_string()),
    "categories": pa.array(_DATES).dictionary_encode(),
    "days": pa.array([date(1, 1, 1), date(9999, 12, 31), None]),
    "far days": pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()),
    "seconds": pa.array(ENDS, pa.int64()).view(pa.timestamp("s")),
    "nanoseconds": pa.array(ENDS, pa.int64()).view(pa.timestamp("ns", "UTC")),
    "of a zone": pa.array([*ENDS, 0], pa.int64()).view(pa.timestamp("ms", "Asia/Tokyo")),
    "nothing": pa.nulls(2),
    "numbers": pa.array([1767225600]),
    "floats": pa.array([1.5]),
    "times": pa.array([0], pa.time64("us")),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_policy_reads_dates_as_a_corpus_does(kind: str) -> None:
    table = pa.table({"text": ["a"] * len(COLUMNS[kind]), "created_at": COLUMNS[kind]})
    try:
        corpus = mk.from_table(table)
    except ParameterError:
        with pytest.raises(ParameterError, match="column 'created_at' must be timestamp"):
            mk.Decay().transform(table, as_of="2026-03-01")
        return
    of_table = mk.Decay().transform(table, as_of="2026-03-01").select(["age_days", "factor", "note"])
    assert of_table.equals(mk.Decay().transform(corpus, as_of="2026-03-01").select(of_table.column_names))


NAMED_TWICE: list[Any] = [
    pa.table([["text of a memory"], ["b"]], names=["text", "text"]),
    pa.table([["text of a memory"], ["b"], ["c"]], names=["text", "other", "other"]),
    pd.DataFrame([["text of a memory", "b"]], columns=["text", "text"]),
    pd.DataFrame([["text of a memory", "b", "c"]], columns=["text", "other", "other"]),
]


@pytest.mark.parametrize("table", NAMED_TWICE, ids=["text", "other", "text of pandas", "other of pandas"])
@pytest.mark.parametrize("step", [mk.Admission(), mk.Quota(), mk.Decay(), mk.SplitPlan(), mk.Pipeline([mk.Expiry()])])
def test_a_column_twice_is_refused_by_each_policy(table: Any, step: Any) -> None:
    with pytest.raises(ParameterError, match="table: "):
        step.transform(table, as_of="2026-03-01")


@settings(max_examples=2)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), st.sampled_from(["s", "ms", "us", "ns"]))
def test_any_moment_goes_through_all_that_reads_dates(moments: list[int], unit: str) -> None:
    dates = pa.array([*moments, *ENDS], pa.int64()).view(pa.timestamp(unit))
    columns = dict.fromkeys(("created_at", "updated_at", "expires_at"), dates)
    count = len(dates)
    corpus = mk.from_table(pa.table({"text": ["чай и кофе"] * count, "kind": ["archive"] * count, **columns}))
    search = mk.Retriever(encoder=None, decay_kinds="*").fit(corpus)
    for day in ("0001-01-01", "2026-03-01", "9999-12-31T23:59:59.999999"):
        steps = [mk.Classifier(), mk.Expiry(grace_days=3_652_059), mk.Quota(max_facts=2), mk.Decay()]
        assert mk.Pipeline(steps).transform(corpus, day).num_rows == count
        assert search.trace("чай", as_of=day).num_rows == count
        for query in mk.named_queries().to_pylist():
            if not query["needs_history"]:
                corpus.named(query["name"], day).fetchall()


def test_other_columns_are_kept_in_extra() -> None:
    row = {"day": date(2026, 1, 1), "sum": Decimal("1.10"), "deep": {"a": [{"б": None}]}, "nan": float("nan")}
    (extra,) = column(
        {"text": ["a"], "extra": ['{"k": 1}'], "format": ["own"], **{k: [v] for k, v in row.items()}}, "extra"
    )
    assert json.loads(extra) == {
        "k": 1,
        "format": "own",
        "day": "2026-01-01",
        "sum": "1.10",
        "deep": {"a": [{"б": None}]},
        "nan": None,
    }
    assert "NaN" not in extra


def test_an_extra_that_is_no_object_is_kept_all_the_same() -> None:
    extras = ["{broken", "[1]", None, "{}"]
    assert list(map(json.loads, column({"text": list("abcd"), "extra": extras}, "extra"))) == [
        {"extra": "{broken"},
        {"extra": [1]},
        {},
        {},
    ]


def test_the_memories_of_a_corpus_make_a_corpus(sample: mk.Corpus) -> None:
    memories, again = sample.memories, mk.from_table(sample.memories).memories
    same = [name for name in memories.column_names if name not in ("format", "extra")]
    assert again.select(same).equals(memories.select(same))
    extras = [json.loads(text) for text in again["extra"].to_pylist()]
    assert [extra.pop("format") for extra in extras] == memories["format"].to_pylist()
    assert extras == list(map(json.loads, memories["extra"].to_pylist()))


@settings(max_examples=10)  # a database each, so more texts at a time
@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)), max_size=20))
def test_any_text_comes_back(texts: list[str | None]) -> None:
    corpus = mk.from_table(pa.table({"text": pa.array(texts, pa.string())}))
    assert corpus.memories["text"].to_pylist() == [text or "" for text in texts]
    assert corpus.sql("select text from memories order by memory_id").fetchall() == [(text or "",) for text in texts]
