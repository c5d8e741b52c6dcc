"""Expiry and index validation."""

from __future__ import annotations

from datetime import date, datetime

import pandas as pd
import pyarrow as pa
import pytest

from memkit.errors import ParameterError
from memkit.policy.expiry import Expiry
from memkit.policy.index_check import IndexCheck
from memkit.presets import index_policy


@pytest.mark.parametrize(
    ("as_of", "keep"),
    [
        ("2026-03-01T23:59:59", True),
        ("2026-03-02T00:00:00", False),
        ("2026-03-02T01:00:00+03:00", True),
        ("2026-03-01T23:00:00-03:00", False),
        ("1900-01-01", True),
        (date(2026, 3, 1), True),
        (datetime(2026, 3, 2), False),
    ],
)
def test_a_fact_lives_through_its_day_in_utc(as_of: object, keep: bool) -> None:
    judged = Expiry().transform(pa.table({"expires_at": ["2026-03-01"]}), as_of=as_of)  # type: ignore[arg-type]  # parametrised
    assert judged["keep"].to_pylist() == [keep]
    assert judged["reason"].to_pylist() == [None if keep else "expired"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime(2026, 2, 28, 23, 59), None], pa.timestamp("us", tz="UTC")),
        pa.array([datetime(2026, 2, 28), None], pa.timestamp("ns")),
        pa.array([date(2026, 2, 28), None], pa.date32()),
        pa.array(["2026-02-28T12:00:00Z", "not a date"]),
        pd.Series([pd.Timestamp("2026-02-28", tz="Asia/Tokyo"), pd.NaT]),
    ],
)
def test_every_kind_of_date_is_read_and_a_missing_one_never_expires(column: object) -> None:
    table = pd.DataFrame({"expires_at": column}) if isinstance(column, pd.Series) else pa.table({"expires_at": column})
    assert Expiry().transform(table, as_of="2026-03-01")["keep"].to_pylist() == [False, True]


def test_a_column_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="expires_at"):
        Expiry().transform(pa.table({"expires_at": [[1], [2]]}))
    with pytest.raises(ParameterError, match="Corpus"):
        Expiry().transform(["no table"])


def test_cleanup_lists_what_it_would_remove_and_removes_nothing() -> None:
    table = pa.table({"memory_id": ["старое", "new"], "expires_at": ["2026-02-01", "2026-04-01"]})
    assert Expiry().cleanup(table, as_of="2026-03-01").to_pylist()[0]["memory_id"] == "старое"
    assert len(Expiry().cleanup(table, as_of="2026-03-01")) == 1
    assert Expiry(grace_days=28).cleanup(table, as_of="2026-03-01").num_rows == 0


def test_the_shown_statement_takes_the_day() -> None:
    assert "$as_of" in Expiry().sql()
    assert "timestamptz '2026-03-01 00:00:00+00:00'" in Expiry().sql(as_of="2026-03-01")


ENTRIES = pa.table(
    {
        "title": ["Пул", "Gone", "Out", "Pinned", "Закреплён"],
        "status": ["valid", "missing", "invalid", "missing", "invalid"],
        "reason": [None, "no such file", "outside_root", "no such file", "plugin_path"],
        "pinned": [None, None, False, True, True],
    }
)


@pytest.mark.parametrize(
    ("invalid", "missing", "removed"),
    [(False, False, []), (True, False, ["Out"]), (False, True, ["Gone"]), (True, True, ["Gone", "Out"])],
)
def test_cleaning_lists_the_wished_entries_and_never_a_pinned_one(invalid, missing, removed) -> None:
    judged = IndexCheck(auto_clean_invalid=invalid, auto_clean_missing=missing).transform(ENTRIES)
    assert judged.filter(judged["would_remove"])["title"].to_pylist() == removed
    assert judged["keep"].to_pylist() == [True, False, False, False, False]
    assert judged["reason"].to_pylist() == [None, "missing", "invalid", "missing", "invalid"]
    assert judged["given_reason"].to_pylist() == ENTRIES["reason"].to_pylist()


def test_nothing_is_removed_by_the_documents_defaults() -> None:
    assert IndexCheck(**index_policy["index_check"]).get_params() == IndexCheck().get_params()  # type: ignore[arg-type]  # a preset is plain data
