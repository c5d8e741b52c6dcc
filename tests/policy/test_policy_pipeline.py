"""Pipelines, replay, forecast: the same verdicts as the policies one by one, rows and order kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from memkit.errors import NotFittedError, ParameterError, StaleIndexError
from memkit.policy.admission import Admission, Classifier
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.index_standard import SplitPlan
from memkit.policy.limits import Decay, Expiry, Quota
from memkit.policy.pipeline import Pipeline, forecast, replay
from memkit.schemas import TIMESTAMP, kinds_where

AS_OF = "2026-03-01"
TEXTS = (
    "Меня зовут Анна Ли",
    "Как настроен пул",
    "Сейчас чиним бота",
    "Обсуждали структуру",
    "Old notes of Anna",
    "чай",
)


def on_save() -> Pipeline:
    dedup = Deduplicator(encoder=None, survivor="longest")
    return Pipeline([Admission(), Classifier(), dedup, Quota(max_facts=2), Expiry()])


def one_by_one(table: pa.Table, steps: list[object]) -> list[tuple[str | None, str | None]]:
    """Each policy on the rows that are left, as a bot would."""
    verdicts: dict[str, tuple[str | None, str | None]] = {}
    rows = table
    for step in steps:
        judged = step.fit(rows).transform(rows, AS_OF) if hasattr(step, "fit") else step.transform(rows, AS_OF)  # type: ignore[attr-defined]  # any policy
        for row in judged.to_pylist():
            if not row["keep"]:
                verdicts[row["memory_id"]] = (type(step).__name__.lower(), row["reason"])
        added = [name for name in judged.column_names if name.startswith("given_") or name in ("keep", "reason")]
        rows = judged.filter(judged["keep"]).drop_columns(added)
        rows = rows.drop_columns([name for name in ("similarity", "cluster") if name in rows.column_names])
    return [verdicts.get(memory_id, (None, None)) for memory_id in table["memory_id"].to_pylist()]


_ROW = st.tuples(st.sampled_from(TEXTS), st.sampled_from(["u1", "u2"]), st.none() | st.integers(1, 28))


@settings(max_examples=8)
@given(st.lists(_ROW, min_size=1, max_size=12))
def test_one_statement_says_what_the_policies_say_one_by_one(rows) -> None:
    table = pa.table(
        {
            "memory_id": [f"m{i:02}" for i in range(len(rows))],
            "text": [row[0] for row in rows],
            "user_id": [row[1] for row in rows],
            "created_at": pa.array([row[2] and datetime(2026, 2, row[2]) for row in rows], TIMESTAMP),
        }
    )
    pipeline = on_save()
    judged = pipeline.fit(table).transform(table, as_of=AS_OF)
    assert judged["memory_id"].to_pylist() == table["memory_id"].to_pylist()
    dropped_by = list(zip(judged["step"].to_pylist(), judged["reason"].to_pylist(), strict=True))
    assert dropped_by == one_by_one(table, on_save().steps)
    assert judged["keep"].to_pylist() == [step is None for step, _ in dropped_by]


@pytest.mark.quick
def test_a_refused_row_is_not_seen_by_later_steps() -> None:
    table = pa.table({"text": ["Как настроен пул", "Сейчас чиним бота"], "kind": ["archive", "archive"]})
    judged = Pipeline([Admission(), Quota(max_facts=1), Classifier(use_given=False)]).transform(table, as_of=AS_OF)
    assert judged["keep"].to_pylist() == [False, True]
    assert judged["over_limit"].to_pylist() == [None, 0]
    assert judged["kind"].to_pylist() == ["archive", "working"]
    assert judged["given_kind"].to_pylist() == ["archive", "archive"]
    assert judged["matched_span"].to_pylist() == ["Как", None]


@pytest.mark.quick
def test_two_steps_of_a_class_have_names_and_relations_of_their_own() -> None:
    first, second = (Deduplicator(encoder=None, kinds=kinds) for kinds in ((), ("substring",)))
    pipeline = Pipeline([first, second])
    table = pa.table({"memory_id": ["a", "b", "c"], "text": ["чай", "чай", "чай да"]})
    assert pipeline.names == ["deduplicator", "deduplicator_2"]
    with pytest.raises(NotFittedError):
        pipeline.transform(table)
    judged = pipeline.fitted(table).transform(table)
    assert judged["step"].to_pylist() == [None, "deduplicator", "deduplicator_2"]
    assert judged["duplicate_of"].to_pylist() == [None, "a", "a"]
    assert not first.is_fitted


@pytest.mark.parametrize("steps", [[], ["admission"], [Admission(), None], 5, Admission()])
def test_steps_must_be_policies(steps: object) -> None:
    with pytest.raises(ParameterError, match="at least one policy"):
        Pipeline(steps).transform(pa.table({"text": ["a"]}))  # type: ignore[arg-type]  # what is refused


def test_a_step_with_a_wrong_parameter_is_refused() -> None:
    with pytest.raises(ParameterError, match="max_facts"):
        Pipeline([Quota(max_facts=-1)]).transform(pa.table({"text": ["a"]}))


def test_replay_says_per_memory_and_date_who_differs() -> None:
    table = pa.table({"memory_id": ["a", "b"], "text": ["план", "чай"], "expires_at": ["2026-03-01", None]})
    replayed = replay(table, Expiry(), [Expiry(grace_days=3)], as_of=["1999-01-01", "2026-03-02", "2026-03-09"])
    assert replayed["memory_id"].to_pylist() == ["a", "b"] * 3
    assert replayed["changed"].to_pylist() == [False, False, True, False, False, False]
    assert replayed["reason_a"].to_pylist() == [None, None, "expired", None, "expired", None]
    assert replayed["reason_b"].to_pylist() == [None, None, None, None, "expired", None]
    assert str(replayed["as_of"][2]).startswith("2026-03-02 00:00:00")


def test_replay_fits_a_copy_and_refuses_no_dates() -> None:
    table = pa.table({"memory_id": ["a", "b"], "text": ["чай", "чай"]})
    dedup = Deduplicator(encoder=None)
    assert replay(table, dedup, Expiry(), as_of=AS_OF)["changed"].to_pylist() == [False, True]
    assert not dedup.is_fitted
    with pytest.raises(ParameterError, match="at least one date"):
        replay(table, dedup, Expiry(), as_of=[])


@pytest.mark.parametrize("use", [lambda p, t: p.transform(t, AS_OF), lambda p, t: replay(t, p, p, AS_OF), forecast])
def test_pairs_of_other_memories_are_refused_wherever_a_pipeline_is_used(use: Any) -> None:
    before = pa.table({"memory_id": ["a", "b"], "text": ["любит чай", "носит очки"]})
    after = pa.table({"memory_id": ["a", "b"], "text": ["носит очки", "носит очки"]})
    steps = Pipeline([Deduplicator(encoder=None)]).fit(before)
    with pytest.raises(StaleIndexError, match="'a' is new or changed since fit"):
        use(*((after, steps) if use is forecast else (steps, after)))
    assert use(*((before.slice(1), steps) if use is forecast else (steps, before.slice(1)))).num_rows


def test_fast_forward_counts_what_each_user_keeps() -> None:
    table = pa.table(
        {
            "user_id": ["u1", "u1", "u1", "u2"],
            "kind": ["archive", "working", "profile", "archive"],
            "importance": ["low", "normal", "high", "low"],
            "created_at": ["2026-03-01", "2026-03-01", "2026-03-01", None],
            "expires_at": [None, "2026-03-15", None, None],
        }
    )
    # 0.5 ^ (90 / 30) = 0.125 is below 0.2, 0.5 ^ (30 / 30) is not.
    decay = Decay(decay="half_life", decay_days=30.0)
    counts = forecast(table, as_of=AS_OF, days=[0, 30, 90], min_factor=0.2, decay=decay).to_pylist()
    columns = ("user_id", "day", "memories", "kept", "expired", "faded")
    assert [tuple(row[name] for name in columns) for row in counts] == [
        ("u1", 0, 3, 3, 0, 0),
        ("u1", 30, 3, 2, 1, 0),
        ("u1", 90, 3, 1, 1, 1),
        ("u2", 0, 1, 1, 0, 0),
        ("u2", 30, 1, 1, 0, 0),
        ("u2", 90, 1, 1, 0, 0),
    ]
    parts = ("kept", "expired", "over_quota", "refused", "faded")
    assert all(sum(row[name] for name in parts) == row["memories"] for row in counts)


def test_what_is_created_later_is_not_there_yet_for_replay_and_forecast() -> None:
    table = pa.table(
        {
            "memory_id": ["a", "b", "c"],
            "text": ["чай", "чай", "кофе"],
            "kind": ["archive"] * 3,
            "created_at": ["2026-02-01", "2026-03-05", None],
        }
    )
    newest, limit = Deduplicator(encoder=None, survivor="newest"), Quota(max_facts=1)
    replayed = replay(table, newest, limit, as_of=[AS_OF, "2026-03-05"])
    assert replayed["reason_a"].to_pylist() == [None, "future", None, "duplicate", None, None]
    # Without a date a memory is the oldest: c goes first, then a.
    assert replayed["reason_b"].to_pylist() == [None, "future", "evicted", "evicted", None, "evicted"]
    assert replayed["keep_a"].to_pylist() == [True, False, True, False, True, True]
    ahead = forecast(table, limit, as_of=AS_OF, days=[0, 4]).to_pylist()
    assert [(row["memories"], row["kept"], row["over_quota"], row["refused"]) for row in ahead] == [
        (2, 1, 1, 0),
        (3, 1, 2, 0),
    ]


def test_dates_of_any_sequence_are_looked_at_in_both() -> None:
    table = pa.table({"memory_id": ["a"], "text": ["план"], "expires_at": ["2026-03-01"]})
    days = pd.date_range("2026-03-01", periods=3)
    assert replay(table, Expiry(), Expiry(grace_days=1), as_of=days)["changed"].to_pylist() == [False, True, False]
    assert replay(table, Expiry(), Expiry(), as_of=days[0])["reason_a"].to_pylist() == [None]
    assert forecast(table, as_of=days[0], days=range(3))["expired"].to_pylist() == [0, 1, 1]
    assert forecast(table, as_of=days[0], days=2)["expired"].to_pylist() == [0, 1, 1]


@pytest.mark.parametrize("policy", [Expiry(), Pipeline([Expiry()]), Quota(), Classifier()], ids=lambda each: each.name)
def test_an_unreadable_date_is_told_and_never_silently_alive(policy: Any) -> None:
    table = pa.table({"text": ["чай", "кофе", "мёд", "квас"], "expires_at": ["2026-05-01", "2026-02-31", "soon", None]})
    note = "Values of 'expires_at' that are not dates count as missing: 2, such as '2026-02-31'."
    with pytest.warns(RuntimeWarning, match=note):
        judged = policy.transform(table, as_of=AS_OF)
    assert judged.schema.metadata[b"note"] == note.encode()
    readable = policy.transform(table.set_column(1, "expires_at", [["2026-02-28", None, None, None]]), as_of=AS_OF)
    assert b"note" not in readable.schema.metadata


def test_kinds_that_nobody_declared_are_told() -> None:
    table = pa.table({"text": ["чай", "кофе", "мёд"], "kind": ["mine", "note", "yours"]})
    judged = Classifier(use_given=False).transform(table, as_of=AS_OF)
    assert judged["kind"].to_pylist() == ["mine", "note", "yours"]
    assert judged.schema.metadata[b"note"].endswith(b"Kinds that are not declared stay as they are: mine, yours.")


@pytest.mark.parametrize("bad", [{"days": []}, {"min_factor": 2.0}, {"days": -1}, {"days": [10**9]}, {"days": 1.5}])
def test_a_forecast_of_nothing_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        forecast(pa.table({"text": ["a"]}), as_of=AS_OF, **bad)  # type: ignore[arg-type]  # what is refused


def test_it_clones_and_its_steps_parameters_are_reached_by_name() -> None:
    pipeline = Pipeline([Expiry(), Quota(max_facts=3)])
    copied = clone(pipeline)
    assert copied.steps[1] is not pipeline.steps[1]
    assert copied.get_params()["quota__max_facts"] == 3
    assert copied.set_params(quota__max_facts=5).steps[1].max_facts == 5
    assert pipeline.steps[1].max_facts == 3
    with pytest.raises(ParameterError, match=r"no parameter 'quotas__max_facts'.*Did you mean 'quota__max_facts'"):
        copied.set_params(quotas__max_facts=1)


KEPT = [
    {
        "memory_id": f"{kind}{n}",
        "kind": kind,
        "text": "Как настроен пул",
        "expires_at": datetime(2020, 1, 1, tzinfo=UTC),
    }
    for kind in kinds_where(judged=False)
    for n in (1, 2)
]


@pytest.mark.parametrize(
    "policy",
    [
        Admission(),
        Classifier(use_given=False),
        Deduplicator(encoder=None),
        Quota(max_facts=0),
        Expiry(),
        SplitPlan(max_tokens_per_file=1),
    ],
)
def test_what_is_only_kept_is_no_policys_business(policy: Any) -> None:
    table = pa.Table.from_pylist(KEPT)
    judged = policy.fit(table).transform(table, as_of=AS_OF)
    assert judged["keep"].to_pylist() == [True] * len(KEPT)
    assert judged["reason"].to_pylist() == [None] * len(KEPT)
    assert judged["kind"].to_pylist() == [row["kind"] for row in KEPT]


def test_what_is_only_kept_does_not_decay() -> None:
    table = pa.Table.from_pylist([{**row, "created_at": row["expires_at"], "importance": "normal"} for row in KEPT])
    assert Decay().transform(table, as_of=AS_OF)["factor"].to_pylist() == [1.0] * len(KEPT)
