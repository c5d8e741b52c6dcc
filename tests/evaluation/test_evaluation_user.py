"""`user_id=` of everything that measures: who asks the queries that have no user of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk

DAY = "2026-03-01"
WHERE = "user_id = 'anna' or user_id is null"
TOPICS = (
    "пул соединений",
    "зелёный чай",
    "тёмная тема",
    "поезд в Казань",
    "ключ от склада",
    "сборка проекта",
    "отпуск",
)
GRID = {"vector_weight": [0.1, 0.5, 0.9]}


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    rows = [
        {"memory_id": f"{user}-{i}", "user_id": user, "text": f"{topic}{'' if user == 'boris' else ': запись'} номер"}
        for user in ("anna", "boris", None)
        for i, topic in enumerate(TOPICS)
    ]
    return mk.Retriever(encoder="hash").fit(mk.from_table(pa.Table.from_pylist(rows)))


def labels(*users: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [f"q{i}" for i in range(len(TOPICS))]
    queries: dict[str, Any] = {"query_id": names, "text": [f"{topic} номер" for topic in TOPICS]}
    if users:
        queries["user_id"] = list(users)
    right = [f"{'anna' if i % 2 else None}-{i}" for i in range(len(TOPICS))]
    return queries, {"query_id": names, "memory_id": right, "relevance": [1.0] * len(names)}


def evaluated(search: Any, queries: Any, qrels: Any, **who: Any) -> Any:
    evaluation = mk.evaluate(search, queries, qrels, as_of=DAY, stages=True, **who)
    return evaluation.table, evaluation.per_query, evaluation.hits, evaluation.stages


def compared(search: Any, queries: Any, qrels: Any, **who: Any) -> Any:
    comparison = mk.compare(search, search.with_params(vector_weight=0.9), queries, qrels, as_of=DAY, **who)
    return comparison.details, comparison.per_query, comparison.shifts, comparison.agreement, comparison.to_judge


def compared_without_labels(search: Any, queries: Any, qrels: Any, **who: Any) -> Any:
    comparison = mk.compare(search, search.with_params(vector_weight=0.9), queries, as_of=DAY, **who)
    return comparison.shifts, comparison.agreement


def swept(search: Any, queries: Any, qrels: Any, **who: Any) -> Any:
    return (mk.sweep(search, queries, qrels, GRID, as_of=DAY, **who).table,)


def tuned(search: Any, queries: Any, qrels: Any, **who: Any) -> Any:
    guard = {"the same": (queries, qrels, 0.1)}
    tuning = mk.tune(search, queries, qrels, GRID, as_of=DAY, guard=guard, **who)
    assert tuning.stages is not None
    return tuning.table_, tuning.per_query_, tuning.baselines_, tuning.guards_, tuning.stages


def estimated(search: Any, queries: Any, qrels: Any, **who: Any) -> Any:
    est = mk.as_estimator(search, "mrr", as_of=DAY, **who)
    return (est.score(*est.labels(queries, qrels)),)


def objective(search: Any, queries: Any, qrels: Any, **who: Any) -> Any:
    class Trial:
        def suggest_categorical(self, name: str, values: list[Any]) -> Any:
            return values[-1]

    return (mk.as_estimator(search, "mrr", as_of=DAY, **who).objective(queries, qrels, GRID)(Trial()),)


MEASURES = [evaluated, compared, compared_without_labels, swept, tuned, estimated, objective]
Measure = Callable[..., Any]


@pytest.mark.quick
@pytest.mark.parametrize("measure", MEASURES)
def test_queries_without_a_user_are_asked_as_the_one_that_is_named(search: mk.Retriever, measure: Measure) -> None:
    as_user = measure(search, *labels(), user_id="anna")
    assert as_user == measure(search, *labels(), where=WHERE)
    assert as_user != measure(search, *labels())


@pytest.mark.quick
@pytest.mark.parametrize("measure", MEASURES)
def test_a_predicate_and_a_user_hold_together(search: mk.Retriever, measure: Measure) -> None:
    other = "memory_id <> 'boris-0'"
    assert measure(search, *labels(), user_id="anna", where=other) == measure(
        search, *labels(), where=f"({WHERE}) and {other}"
    )


@pytest.mark.quick
def test_a_users_own_query_stays_that_users(search: mk.Retriever) -> None:
    some = ["boris", None, "boris", None, None, None, None]
    filled = [user or "anna" for user in some]
    hits = mk.evaluate(search, *labels(*some), as_of=DAY, user_id="anna").hits
    assert hits == mk.evaluate(search, *labels(*filled), as_of=DAY).hits


def test_who_asks_does_not_change_the_unit_of_analysis(search: mk.Retriever) -> None:
    row = mk.evaluate(search, *labels(), "mrr", as_of=DAY, user_id="anna").table.to_pylist()[0]
    assert (row["unit"], row["n_units"]) == ("query_id", len(TOPICS))


def test_an_audit_asks_as_the_user(search: mk.Retriever) -> None:
    audit = mk.audit(search, *labels(), k=3, as_of=DAY, user_id="anna")
    named = mk.audit(search, *labels(*["anna"] * len(TOPICS)), k=3, as_of=DAY)
    assert (audit.table, audit.tables) == (named.table, named.tables)
    assert audit.tables != mk.audit(search, *labels(), k=3, as_of=DAY).tables


def test_tuning_from_a_sweep_asks_as_the_sweep_did(search: mk.Retriever) -> None:
    sweep = mk.sweep(search, *labels(), GRID, as_of=DAY, user_id="anna")
    direct = mk.tune(search, *labels(), GRID, as_of=DAY, user_id="anna")
    assert mk.tune(search, *labels(), sweep).baselines_ == direct.baselines_
    with pytest.raises(mk.errors.ParameterError, match=r"anna.*boris"):
        mk.tune(search, *labels(), sweep, user_id="boris")


@pytest.mark.parametrize("measure", [*MEASURES, lambda search, *args, **who: mk.audit(search, *args, **who)])
def test_an_empty_name_is_refused(search: mk.Retriever, measure: Measure) -> None:
    with pytest.raises(mk.errors.ParameterError, match="'user_id' must be a user's id"):
        measure(search, *labels(), user_id="")


def test_an_empty_user_in_the_table_is_none(search: mk.Retriever) -> None:
    hits = mk.evaluate(search, *labels(*[""] * len(TOPICS)), as_of=DAY).hits
    assert hits == mk.evaluate(search, *labels(), as_of=DAY).hits
