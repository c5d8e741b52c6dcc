"""Quota: limits, the order of eviction, what does not count, against a loop over the rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.policy.limits import Quota
from memkit.schemas import TIMESTAMP

AS_OF = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS = {"memory_id": pa.string(), "user_id": pa.string(), "kind": pa.string(), "importance": pa.string()}
SCHEMA = pa.schema(COLUMNS | {"created_at": TIMESTAMP, "expires_at": TIMESTAMP})


def facts(*rows: dict[str, Any]) -> pa.Table:
    filled = [{"memory_id": f"m{i}", "user_id": "u", "kind": "archive"} | row for i, row in enumerate(rows)]
    return pa.Table.from_pylist(filled, schema=SCHEMA)


def by_loop(rows: list[dict[str, Any]], total: int, profile: int, working: int) -> list[str | None]:
    """The document's rule, a user at a time, as a bot would write it."""
    reasons: list[str | None] = [None] * len(rows)

    def age(i: int) -> tuple[Any, ...]:
        date = rows[i]["created_at"]
        return (1, min(date, AS_OF), rows[i]["memory_id"]) if date else (0, i)

    users = defaultdict(list)
    for i, row in enumerate(rows):
        expired = row["expires_at"] is not None and row["expires_at"].date() < AS_OF.date()
        if row["kind"] in ("profile", "working", "archive") and not expired:
            users[row["user_id"]].append(i)
    for members in users.values():
        for kind, limit in (("profile", profile), ("working", working)):
            for i in sorted((i for i in members if rows[i]["kind"] == kind), key=age)[limit:]:
                reasons[i] = "limit"
        remaining = [i for i in members if reasons[i] is None]
        newest = max(remaining, key=age, default=None)
        weak = [
            i for i in remaining if rows[i]["kind"] == "archive" and rows[i]["importance"] != "high" and i != newest
        ]
        weak.sort(key=lambda i: (rows[i]["importance"] != "low", age(i)))
        for i in weak[: max(0, len(remaining) - total)]:
            reasons[i] = "evicted"
    return reasons


_DATES = st.none() | st.integers(-3, 2).map(lambda day: AS_OF + timedelta(days=day))
_ROW = st.fixed_dictionaries(
    {
        "user_id": st.sampled_from(["u1", "u2", None]),
        "kind": st.sampled_from(["profile", "working", "archive", "archive", "note", None]),
        "importance": st.sampled_from(["high", "normal", "low", None]),
        "created_at": _DATES,
        "expires_at": _DATES,
    }
)


@settings(max_examples=25)
@given(st.lists(_ROW, max_size=25), st.integers(0, 6), st.integers(0, 3), st.integers(0, 3))
def test_verdicts_are_those_of_a_loop_and_high_is_never_evicted(rows, total, profile, working) -> None:
    table = facts(*rows)
    judged = Quota(max_facts=total, max_profile=profile, max_working=working).transform(table, as_of=AS_OF)
    assert judged["reason"].to_pylist() == by_loop(table.to_pylist(), total, profile, working)
    assert judged["memory_id"].to_pylist() == table["memory_id"].to_pylist()
    assert judged["keep"].to_pylist() == [reason is None for reason in judged["reason"].to_pylist()]
    for row in judged.to_pylist():
        assert not (row["importance"] == "high" and row["reason"] == "evicted")


_SAVED = st.tuples(
    st.sampled_from(["profile", "working", *["archive"] * 4]), st.sampled_from(["high", "normal", "low"])
)


@settings(max_examples=10)
@given(
    st.lists(st.lists(_SAVED, max_size=14), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_facts_that_are_saved_one_by_one_are_those_that_one_look_at_all_keeps(saved, total, profile, working) -> None:
    """A save that is refused leaves all as it was, and one that is taken is never the one that goes; of each user."""
    quota = Quota(max_facts=total, max_profile=profile, max_working=working)
    days = [AS_OF + timedelta(days=i - 20) for i in range(14)]
    rows = [
        {
            "memory_id": f"{user}-{i:02}",
            "user_id": f"u{user}",
            "kind": kind,
            "importance": importance,
            "created_at": day,
        }
        for user, of_user in enumerate(saved)
        for i, ((kind, importance), day) in enumerate(zip(of_user, days, strict=False))
    ]
    stands: list[dict[str, Any]] = []
    for day in days:
        new = [row for row in rows if row["created_at"] == day]
        judged = quota.transform(facts(*stands, *new), as_of=AS_OF)["reason"].to_pylist()
        refused = set()
        for row, reason in zip(new, judged[len(stands) :], strict=True):
            assert reason in ((None,) if row["kind"] == "archive" else (None, "limit"))
            refused |= {row["user_id"]} if reason else set()
        after = zip([*stands, *new], judged, strict=True)
        stands = [row for row, reason in after if (row not in new if row["user_id"] in refused else reason is None)]
    at_once = quota.transform(facts(*rows), as_of=AS_OF)
    kept = at_once.filter(at_once["keep"])["memory_id"].to_pylist()
    assert kept == sorted(row["memory_id"] for row in stands)


@settings(max_examples=15)
@given(st.lists(_ROW, max_size=25), st.integers(0, 6))
def test_a_user_is_within_the_total_or_the_rest_is_reported(rows, total) -> None:
    judged = Quota(max_facts=total).transform(facts(*rows), as_of=AS_OF).to_pylist()
    kept, over = defaultdict(int), defaultdict(int)
    for row in judged:
        alive = row["expires_at"] is None or row["expires_at"] >= AS_OF
        kept[row["user_id"]] += row["keep"] and alive and row["kind"] in ("profile", "working", "archive")
        over[row["user_id"]] = max(over[row["user_id"]], row["over_limit"])
    assert {user: max(0, count - total) for user, count in kept.items()} == dict(over)


@settings(max_examples=15)
@given(st.lists(_ROW.map(lambda row: row | {"created_at": AS_OF}), max_size=15), st.randoms(use_true_random=False))
def test_the_order_of_dated_rows_has_no_say(rows, random) -> None:
    table = facts(*rows)
    order = random.sample(range(len(table)), len(table))
    quota = Quota(max_facts=3, max_profile=1, max_working=1)
    judged = quota.transform(table, as_of=AS_OF)
    shuffled = quota.transform(table.take(pa.array(order, pa.int64())), as_of=AS_OF)
    assert shuffled["keep"].to_pylist() == [judged["keep"][i].as_py() for i in order]


@pytest.mark.quick
def test_low_goes_before_normal_and_old_before_new_and_undated_counts_as_oldest() -> None:
    table = facts(
        {"importance": "normal", "created_at": datetime(2020, 1, 1)},
        {"importance": "low", "created_at": datetime(2026, 1, 1)},
        {"importance": "low", "created_at": datetime(2025, 1, 1)},
        {"importance": "low", "created_at": None},
        {"importance": "high", "created_at": datetime(2019, 1, 1)},
    )
    assert Quota(max_facts=1).transform(table, as_of=AS_OF)["evict_rank"].to_pylist() == [3, None, 2, 1, None]


@pytest.mark.quick
def test_dates_to_come_count_as_the_day_so_that_their_order_has_no_say() -> None:
    table = facts(
        {"memory_id": "a", "created_at": AS_OF + timedelta(days=300)},
        {"memory_id": "b", "created_at": AS_OF + timedelta(days=2)},
        {"memory_id": "c", "created_at": AS_OF},
        {"memory_id": "d", "created_at": AS_OF - timedelta(days=1)},
    )
    assert Quota(max_facts=0).transform(table, as_of=AS_OF)["evict_rank"].to_pylist() == [2, 3, None, 1]


def test_absent_columns_are_neutral() -> None:
    judged = Quota(max_facts=0).transform(pa.table({"text": ["a", "b"]}), as_of=AS_OF)
    assert judged["keep"].to_pylist() == [True, True]


def test_the_file_order_decides_where_no_date_is_known() -> None:
    table = pa.table({"kind": ["archive"] * 3, "path": ["b.md", "a.md", "a.md"], "line_start": [1, 9, 2]})
    assert Quota(max_facts=0).transform(table)["evict_rank"].to_pylist() == [None, 2, 1]


def test_the_statement_says_the_same_over_a_table_of_ones_own_which_has_no_row() -> None:
    corpus = mk.read(mk.sample_data() / "facts")
    quota = mk.Quota(max_facts=2, max_working=1)
    expected = quota.transform(corpus, AS_OF).select(["memory_id", *quota.adds])
    input = corpus.memories  # the name that the statement reads
    names = ", ".join(expected.column_names)
    verdicts = corpus.sql(quota.sql(AS_OF)).query("verdicts", f"select {names} from verdicts order by row")  # noqa: S608  # our own columns
    assert input.num_rows == verdicts.to_arrow_table().num_rows
    assert verdicts.to_arrow_table().to_pylist() == expected.to_pylist()
    assert set(expected["reason"].to_pylist()) == {None, "limit", "evicted"}
