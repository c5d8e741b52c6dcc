"""Expiry: every kind of date, and all who ask for it end a memory at one instant."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.errors import ParameterError
from memkit.policy.limits import Expiry


@pytest.mark.quick
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


@pytest.mark.quick
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


@pytest.mark.quick
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
    assert "$until" in Expiry().sql()
    assert "timestamptz '2026-03-01 23:59:59.999999+00:00'" in Expiry().sql(as_of="2026-03-01")


def judged_by(corpus: mk.Corpus, as_of: str) -> dict[str, set[str]]:
    """The memories that live at a moment, by each that asks."""
    search = mk.Retriever(encoder=None).fit(corpus)
    everything = set(corpus.memories["memory_id"].to_pylist())
    counts = mk.Quota(max_working=0).transform(corpus, as_of=as_of)
    ids = {
        "policy": Expiry().transform(corpus, as_of=as_of),
        "quota": counts.filter(pc.invert(counts["keep"])),
        "search": search.search("чай", k=9, as_of=as_of),
        "blocks": mk.ContextBuilder(search).build(corpus, "anna", "кофе", as_of=as_of).table,
        "replay": mk.replay(corpus, Expiry(), Expiry(), as_of=as_of).rename_columns({"keep_a": "keep"}),
    }
    kept = {
        name: {row["memory_id"] for row in table.to_pylist() if name == "quota" or row.get("keep", True)}
        for name, table in ids.items()
    }
    kept["query"] = everything - {row[0] for row in corpus.named("expired_facts", as_of=as_of).fetchall()}
    expired = {row["what"]: row["count"] for row in mk.overview(corpus, as_of=as_of).table.to_pylist()}["expired"]
    assert expired == len(everything - kept["policy"])
    return kept


@pytest.mark.parametrize(
    ("as_of", "alive"),
    [
        ("2026-09-22T08:55:46Z", "day clock"),
        ("2026-09-22T11:55:47+03:00", "day"),
        ("2026-09-22", "day"),
        ("2026-09-21", "day clock"),
        ("2026-09-22T23:59:59Z", "day"),
        ("2026-09-23T00:00:00Z", ""),
    ],
)
def test_all_who_ask_end_a_memory_at_the_same_instant(as_of: str, alive: str) -> None:
    rows = {
        "memory_id": ["day", "clock"],
        "text": ["Пьёт чай зелёный", "Пьёт чай чёрный"],
        "kind": ["working"] * 2,
        "user_id": ["anna"] * 2,
        "expires_at": ["2026-09-22", "2026-09-22T11:55:46+03:00"],
    }
    judged = judged_by(mk.from_table(rows), as_of)
    assert judged == {name: set(alive.split()) for name in judged}


def test_midnight_in_a_frames_column_or_an_older_lake_is_that_day(tmp_path: Path) -> None:
    corpus = mk.from_table(pa.table({"text": ["чай"], "expires_at": pa.array([datetime(2026, 9, 22)])}))
    end = datetime(2026, 9, 22, 23, 59, 59, 999_999, tzinfo=UTC)
    assert corpus.memories["expires_at"].to_pylist() == [end]
    assert corpus.memories.schema.field("expires_at").metadata[b"day"] == b"its last microsecond"
    older = corpus.memories.set_column(
        corpus.memories.column_names.index("expires_at"),
        "expires_at",
        pa.array([datetime(2026, 9, 22)], pa.timestamp("us", "UTC")),
    )
    mk.Corpus({**corpus.tables, "memories": older}).save(tmp_path / "lake")
    assert mk.open(tmp_path / "lake").memories["expires_at"].to_pylist() == [end]


def test_a_day_of_a_frame_in_another_zone_lasts_until_it_is_over_there_and_in_utc() -> None:
    walls = [datetime(2026, 9, 22), datetime(2026, 9, 22, 3), datetime(2026, 9, 22, 12)]
    ends = {
        "Europe/Moscow": ["22T23:59:59.999999", "21T23:59:59.999999", "22T09:00:00"],
        "America/New_York": ["23T03:59:59.999999", "22T07:00:00", "22T16:00:00"],
    }
    for zone, expected in ends.items():
        times = pc.assume_timezone(pa.array(walls, pa.timestamp("us")), zone)
        found = mk.from_table({"text": ["a", "b", "c"], "expires_at": times}).memories["expires_at"].to_pylist()
        assert found == [datetime.fromisoformat(f"2026-09-{end}+00:00") for end in expected]
