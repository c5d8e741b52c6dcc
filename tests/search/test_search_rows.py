from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.base.duck import connect
from memkit.schemas import Floats
from memkit.search.ask import QuerySettings
from memkit.search.fitted import chunks as fitted_chunks
from memkit.search.fitted.chunks import Index, Rows, make_chunks, make_rows
from memkit.search.question import unranked
from memkit.search.state import Pooled, merge
from memkit.tables.age import FORMS, age_sql, decay_sql

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
moments = st.none() | st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))
memories = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([None, "profile", "archive", "note"]),
        "importance": st.sampled_from([None, "high", "normal", "low"]),
        "created_at": moments,
        "updated_at": moments,
    }
)


@pytest.fixture(scope="session")
def rows_of(memories_of: Any) -> Callable[..., tuple[Rows, pa.Table]]:
    def make(*rows: dict[str, object]) -> tuple[Rows, pa.Table]:
        table = memories_of(rows)
        return make_rows(table, make_chunks(table, Index())), table

    return make


def test_memories_that_are_cut_a_few_at_a_time_have_the_chunks_of_all(
    memories_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["чай", "", "пул " * 900, "Sent from my iPhone", "мёд", "кот\n\nSent from my iPhone"]
    table = memories_of([{"text": text, "title": text[:3], "created_at": NOON} for text in texts])
    whole = make_chunks(table, Index())
    monkeypatch.setattr(fitted_chunks, "_AT_ONCE", 2)
    assert make_chunks(table, Index()).equals(whole)
    assert whole.num_rows > len(texts)
    assert make_chunks(table.slice(0, 0), Index()).equals(whole.slice(0, 0))


def aged(rows: Rows, **declared: Any) -> tuple[Floats, Floats]:
    """Age and factor of the memories of one chunk each, at noon."""
    n = len(rows.memory)
    candidates = merge({"bm25": pa.table({"query": [0] * n, "row": range(n), "score": [1.0] * n})}, n)
    moments = (np.array([moment], "datetime64[us]") for moment in (NOON.replace(tzinfo=None), "NaT"))
    pooled = Pooled(SimpleNamespace(rows=rows), candidates, ["q"], *moments)
    columns = unranked(pooled, QuerySettings(**declared), {"bm25": 1.0}, "below_pool").columns
    return columns["age_days"], columns["decay"]


@settings(max_examples=12)
@given(
    st.lists(memories, min_size=1, max_size=6),
    st.sampled_from(FORMS),
    st.floats(0.5, 400),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from(["*", (), ("archive", "note")]),
)
def test_age_and_factor_are_those_of_the_decay_statement(
    rows_of: Any, given_rows: list[dict[str, object]], form: str, days: float, floor: float, kinds: Sequence[str]
) -> None:
    rows, table = rows_of(*given_rows)
    age, factor = aged(rows, decay=form, decay_days=days, decay_floor=floor, decay_kinds=kinds)
    with connect() as con:
        con.register("memories", table)
        factor_sql = decay_sql(form, days, floor, kinds)
        sql = f"select {age_sql()} as age, {factor_sql} as factor from memories"  # noqa: S608  # no data in it
        expected = con.sql(sql, params={"as_of": NOON}).to_arrow_table()
    assert [None if np.isnan(a) else a for a in age] == expected["age"].to_pylist()
    np.testing.assert_allclose(factor, expected["factor"].cast(pa.float64()).to_numpy(), rtol=1e-12)


@pytest.mark.quick
def test_a_missing_date_is_neutral_and_a_future_one_has_age_zero(rows_of: Any) -> None:
    rows, _ = rows_of({}, {"created_at": datetime(2027, 1, 1, tzinfo=UTC)})
    age, factor = aged(rows, decay_kinds="*")
    assert np.isnan(age[0])
    assert age[1] == 0.0
    assert factor.tolist() == [1.0, 1.0]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("day", "expired"), [("2026-02-28", True), ("2026-03-01", False), ("2026-03-02", False), (None, False)]
)
def test_a_memory_lives_through_its_last_day(rows_of: Any, day: str | None, expired: bool) -> None:
    last = None if day is None else datetime.fromisoformat(day).replace(tzinfo=UTC)
    rows, _ = rows_of({"expires_at": last}, {"expires_at": datetime(2000, 1, 1, tzinfo=UTC)})
    mask = rows.expired(NOON)
    assert mask is not None
    assert mask.tolist() == [expired, True]


@pytest.mark.quick
def test_where_nothing_expires_or_is_hidden_there_is_no_mask(rows_of: Any) -> None:
    rows, _ = rows_of({"kind": "note"})
    assert rows.expired(NOON) is None
    assert rows.hidden(("heartbeat",)) is None


def test_kinds_are_hidden_by_name(rows_of: Any) -> None:
    rows, _ = rows_of({"kind": "note"}, {"kind": "heartbeat"}, {})
    mask = rows.hidden(("heartbeat",))
    assert mask is not None
    assert mask.tolist() == [False, True, False]


def test_twins_are_the_same_text_of_the_same_owner(rows_of: Any) -> None:
    rows, _ = rows_of({"text": "чай"}, {"text": "чай"}, {"text": "чай", "user_id": "u1"}, {"text": "tea"})
    assert rows.twin[0] == rows.twin[1]
    assert len(set(rows.twin.tolist())) == 3


def test_no_memories_make_no_rows(rows_of: Any) -> None:
    rows, _ = rows_of()
    assert rows.memory.tolist() == rows.twin.tolist() == []
    assert rows.expired(NOON) is None
