"""Decay: the formulas, who decays, dates in every shape."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.base.duck import connect
from memkit.panels.decay_panel import DecayPanel
from memkit.policy.limits import Decay
from memkit.policy.pipeline import Pipeline
from memkit.presets import index_policy, memory_v2_policy
from memkit.schemas import KINDS, TIMESTAMP
from memkit.search.ask import QuerySettings
from memkit.tables.age import FORMS, OF_DECAY, age_sql, decay_sql, decaying

AS_OF = datetime(2026, 3, 1, tzinfo=UTC)


def factors(ages: list[float], **parameters: object) -> list[float]:
    dates = pa.array([AS_OF - timedelta(days=age) for age in ages], TIMESTAMP)
    table = pa.table({"kind": ["archive"] * len(ages), "created_at": dates})
    by_row: list[float] = Decay(**parameters).transform(table, as_of=AS_OF)["factor"].to_pylist()
    return by_row


@pytest.mark.quick
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("e_folding", [1, math.exp(-0.5), math.exp(-1), math.exp(-2)]),
        ("half_life", [1, 0.5**0.5, 0.5, 0.25]),
        ("linear", [1, 1 - 30 / 120, 0.5, 1e-300]),
        ("gauss", [1, 0.5**0.25, 0.5, 0.5**4]),
        ("none", [1, 1, 1, 1]),
    ],
)
def test_each_form_is_its_formula(form: str, expected: list[float]) -> None:
    assert factors([0, 30, 60, 120], decay=form) == pytest.approx(expected, rel=1e-12)
    assert factors([0, 22.5, 45, 90], decay=form, decay_days=45.0) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=20)
@given(
    st.lists(st.floats(0, 700_000), min_size=1, max_size=20).map(sorted),
    st.sampled_from(FORMS),
    st.floats(0.01, 1e6),
    st.floats(0, 1),
)
def test_a_factor_is_above_0_at_most_1_and_never_rises_with_age(ages, form, days, floor) -> None:
    by_age = factors(ages, decay=form, decay_days=days, decay_floor=floor)
    assert all(0 < factor <= 1 and factor >= floor for factor in by_age)
    assert all(later <= earlier for earlier, later in itertools.pairwise(by_age))


@pytest.mark.quick
def test_archive_and_normal_decay_and_profile_and_high_never_do() -> None:
    some = {
        ("archive", None),
        ("archive", "low"),
        ("working", "normal"),
        ("note", None),
        (None, "normal"),
        (None, "odd"),
    }
    none = {("archive", "high"), ("profile", "normal"), ("profile", None), ("working", "high"), ("note", "low")}
    pairs = [*itertools.product([*KINDS, None], ["high", "normal", "low", "odd", None])]
    columns = {name: [pair[place] for pair in pairs] for place, name in enumerate(("kind", "importance"))}
    table = pa.table({**columns, "created_at": ["2020-01-01"] * len(pairs)})
    factors, notes = Decay().transform(table, as_of=AS_OF).select(["factor", "note"]).columns
    decayed = {pair for pair, factor in zip(pairs, factors.to_pylist(), strict=True) if factor < 1}
    assert some <= decayed <= {*pairs} - none
    assert notes.to_pylist() == [None if pair in decayed else "exempt" for pair in pairs]
    assert decaying(table).tolist() == [pair in decayed for pair in pairs]


def test_future_and_missing_dates_are_neutral_and_reported() -> None:
    table = pa.table(
        {
            "kind": ["archive"] * 4,
            "created_at": pa.array([datetime(2020, 1, 1), None, datetime(2030, 1, 1), datetime(2026, 2, 1)], TIMESTAMP),
            "updated_at": pa.array([datetime(2026, 2, 27), None, None, datetime(2030, 1, 1)], TIMESTAMP),
        }
    )
    judged = Decay().transform(table, as_of=AS_OF)
    assert judged["age_days"].to_pylist() == [2.0, None, 0.0, 0.0]
    assert judged["note"].to_pylist() == [None, "undated", "future", "future"]
    assert judged["reason"].to_pylist() == [None, None, "future", "future"]
    assert judged["factor"].to_pylist() == [math.exp(-2 / 60), 1.0, 1.0, 1.0]
    assert judged["keep"].to_pylist() == [True] * 4


def test_by_default_too_it_says_that_nothing_decays() -> None:
    undated, exempt = {"kind": ["archive"]}, {"kind": ["profile"], "created_at": [AS_OF]}
    for rows, told in ((undated, b"none has a date"), (exempt, b"are exempt by their kind or importance")):
        note = Decay().transform(rows, as_of=AS_OF).schema.metadata[b"note"]
        assert (note.startswith(b"decay acts on 0 of 1 memory; "), told in note) == (True, True)
        assert b"note" not in Decay(decay="none").transform(rows, as_of=AS_OF).schema.metadata


def test_time_zones_name_the_same_age() -> None:
    table = pa.table({"created_at": ["2026-03-01T03:00:00+03:00", "2026-03-01", "2026-02-28T19:00:00-05:00"]})
    for as_of in ("2026-03-02", "2026-03-02T05:00:00+05:00", datetime(2026, 3, 2)):
        assert Decay().transform(table, as_of=as_of)["age_days"].to_pylist() == [1.0] * 3


def test_the_expression_serves_any_candidate_table_in_any_time_zone() -> None:
    with connect() as con:
        con.execute("set TimeZone = 'Asia/Tokyo'")
        con.execute(
            "create table hits (kind varchar, importance varchar, created_at timestamp, updated_at timestamptz)"
        )
        con.execute("insert into hits values ('archive', null, timestamp '2026-01-30 00:00', null)")
        query = f"select {decay_sql('half_life', 30.0)}, {age_sql()} from hits"  # noqa: S608  # our own expression
        assert con.execute(query, {"as_of": AS_OF}).fetchall() == [(0.5, 30.0)]


def test_a_search_and_the_policy_declare_decay_alike() -> None:
    """Each has other kinds that decay by default, and a search has groups of parameters."""
    own = {"group": "", "default": None}
    of_search, of_policy = (
        [replace(declared.params()[name], **own) for name in OF_DECAY] for declared in (QuerySettings, Decay)
    )
    assert of_search == of_policy


@pytest.mark.parametrize("policy", [Decay, mk.Quota, mk.IndexCheck])
def test_the_defaults_are_the_documents_values(policy: Any) -> None:
    assert policy(**(memory_v2_policy | index_policy)[policy.name]).get_params() == policy().get_params()


def test_the_days_own_memories_are_no_future_to_any_who_decay() -> None:
    corpus = mk.from_table(
        {
            "memory_id": ["today", "tomorrow"],
            "text": ["чай зелёный", "чай чёрный"],
            "created_at": ["2026-03-01T10:00Z", "2026-03-02"],
        }
    )
    search = mk.Retriever(encoder=None, kind_weights={}).fit(corpus)
    panel = DecayPanel(search, as_of="2026-03-01")
    tables = [step.transform(corpus, as_of="2026-03-01") for step in (Decay(), Pipeline([mk.Expiry(), Decay()]))]
    for table in (*tables, panel.result):
        assert table["reason"].to_pylist() == [None, "future"]
        assert table["age_days"].to_pylist() == [0.0, 0.0]  # counted to the day's first instant
    assert search.search("чай", as_of="2026-03-01")["memory_id"].to_pylist() == ["today"]
    replayed = mk.replay(corpus, Decay(), Decay(decay_days=1), as_of="2026-03-01")
    assert replayed["reason_a"].to_pylist() == [None, "future"]
    assert mk.Decay().transform(corpus, as_of="2026-03-01T09:00Z")["reason"].to_pylist() == ["future"] * 2
    panel.set(forward=1)
    assert panel.result["age_days"].to_pylist() == [14 / 24, 0.0]
    assert panel.result["reason"].to_pylist() == [None, None]


@pytest.mark.parametrize("form", FORMS)
def test_other_factors_for_known_ages_are_those_of_a_whole_transform(form: str) -> None:
    rows = {
        "text": ["a", "b", "c", "d"],
        "kind": ["archive", "profile", "archive", "archive"],
        "importance": ["normal", "high", "normal", "low"],
        "created_at": ["2025-01-01", "2025-01-01", None, "2027-01-01"],  # old, exempt, undated, future
    }
    other = Decay(decay=form, decay_days=7.5, decay_floor=0.1)
    assert other.refactored(Decay().transform(rows, as_of=AS_OF)).equals(other.transform(rows, as_of=AS_OF))
