"""Policies in sequence, as a bot applies them on save, in one SQL statement; two such pipelines on the same memories at
several dates, and a forecast of how many memories are kept.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import laid_out, rows_of, session
from memkit.base.parallel import results, workers
from memkit.base.params import (
    REQUIRED,
    AsOf,
    Moment,
    check_choice,
    check_value,
    describe,
    estimator,
    param,
)
from memkit.display.views import names_in
from memkit.errors import ParameterError
from memkit.policy.base import VERDICT, Policy, needed
from memkit.policy.limits import Decay, Expiry, Quota
from memkit.schemas import TIMESTAMP, Ints
from memkit.tables.age import later
from memkit.tables.corpus import states_at
from memkit.tables.statement import Annotator, Match, as_table, input_table, run


@estimator
class Pipeline(Policy):
    """Applies policies in order; later steps do not see a row that an earlier one refused, but it stays in the table.

    Adds ``step`` (string, the policy that refused the row), ``keep``, ``reason`` and the columns of every step, which
    are null where the row did not reach the step.

    Examples
    --------
    >>> from memkit.policy.admission import Admission
    >>> from memkit.policy.limits import Expiry
    >>> table = pa.table({"text": ["Как дела сегодня?", "Любит зелёный чай."], "expires_at": ["2026-01-01"] * 2})
    >>> Pipeline([Admission(), Expiry()]).transform(table, as_of="2026-03-01").column("step").to_pylist()
    ['admission', 'expiry']
    """

    steps: Sequence[Annotator] = param(
        REQUIRED,
        kind="object",
        doc="Policies for one table, each under its `name`; a second step of the same class gets ``_2``.",
    )

    def __init__(self, steps: Sequence[Annotator]) -> None:
        self.steps = steps

    def check_params(self, **overrides: Any) -> dict[str, Any]:
        """The checked steps; their own parameters are checked when they run.

        Raises
        ------
        ParameterError
            Where there is no step, one is not a policy, or the steps read different tables.
        """
        values = super().check_params(**overrides)
        steps = values["steps"]
        if not isinstance(steps, (list, tuple)):
            raise ParameterError(f"Pipeline: 'steps' must list at least one policy. Got {type(steps).__name__}.")
        wrong = [type(step).__name__ for step in steps if not isinstance(step, Annotator) or isinstance(step, Pipeline)]
        if wrong or not steps:
            raise ParameterError(f"Pipeline: 'steps' must be at least one policy. Got {wrong or 'none'}.")
        if len(tables := {step.over for step in steps}) > 1:
            raise ParameterError(f"Pipeline: 'steps' must read one table. Got {', '.join(sorted(tables))}.")
        return values

    @property
    def is_fitted(self) -> bool:
        """Whether every step is fitted."""
        return all(step.is_fitted for step in self.steps)

    def _inner(self) -> dict[str, Any]:
        return dict(zip(self.names, self.steps, strict=True))

    @property
    def names(self) -> list[str]:
        """The unique names of the steps."""
        names = [step.name for step in self.steps]
        counts = [names[: position + 1].count(name) for position, name in enumerate(names)]
        return [f"{name}_{count}" if count > 1 else name for name, count in zip(names, counts, strict=True)]

    @property
    def over(self) -> str:  # type: ignore[override]  # these four are of the steps, not of the class
        """The table of a corpus that the steps read."""
        return self.steps[0].over

    @property
    def by_user(self) -> bool:  # type: ignore[override]
        """Whether no step compares the rows of different users."""
        return all(step.by_user for step in self.steps)

    @property
    def adds(self) -> dict[str, str]:  # type: ignore[override]
        """The columns added, by name, with their meaning."""
        columns = {name: meaning for step in self.steps for name, meaning in step.adds.items()}
        return {"step": "the policy that refused the row; null where kept"} | columns | VERDICT

    @property
    def needs(self) -> pa.Schema:
        """The columns read; absent ones are null."""
        return pa.schema({field.name: field for step in self.steps for field in step.needs}.values())

    @property
    def required(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that at least one step requires."""
        return tuple(name for step in self.steps for name in step.required)

    def remarks(self, table: pa.Table) -> list[str]:
        """The remarks of every step."""
        return list(dict.fromkeys(remark for step in self.steps for remark in step.remarks(table)))

    def fit(self, table: Any = None, y: object = None) -> Self:
        """Fit the steps that learn from the rows, such as `Deduplicator`, and return the pipeline."""
        self.check_params()
        for step in self.steps:
            step.fit(table)
        return self

    def fitted(self, corpus: Any) -> Pipeline:
        """This pipeline if every step is fitted, else a copy fitted on `corpus`."""
        self.check_params()
        return self if self.is_fitted else copy.deepcopy(self).fit(corpus)

    def _statement(self, matched: Collection[str] = ()) -> str:
        """One block of SQL per step, then the verdict of every row."""
        self.check_params()
        return self._blocks(len(self.steps), matched) + "\n" + self._verdicts()

    def _matches(self, rows: pa.Table, match: Match) -> dict[str, pa.Table]:
        """The pattern matches of each step, except where a pattern reads a column that an earlier step adds."""
        by_step, earlier_columns = dict[str, pa.Table](), set[str]()
        for name, step in zip(self.names, self.steps, strict=True):
            step.check_params()
            if earlier_columns.isdisjoint(pattern.reads for pattern in step._patterns()):
                by_step |= {f"{name}_{relation}": matches for relation, matches in step._matches(rows, match).items()}
            earlier_columns |= step.adds.keys()
        return by_step

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        """The further relations of each step, computed for the rows that reach it."""
        relations: dict[str, pa.Table] = {}
        if not any(step.reads for step in self.steps):
            return relations
        with session() as con:
            con.register("input", rows)
            for place, step in enumerate(self.steps):
                step.check_params()
                if not step.reads:
                    continue
                columns = tuple(step.needs.names)
                reached = run(con, self._reaching(place), ("place", *columns), moment) if place else rows
                reached = reached.select(["place" if place else "row", *columns]).rename_columns(["row", *columns])
                for name, relation in step._relations(reached, moment).items():
                    relations[f"{self.names[place]}_{name}"] = relation
                    con.register(f"{self.names[place]}_{name}", relation)
        return relations

    def _reaching(self, place: int) -> str:
        """SQL for the rows that reach a step after the first."""
        return f"{self._blocks(place, ())}\nselect *, row as place from {self.names[place - 1]} where keep"

    def _blocks(self, count: int, matched: Collection[str]) -> str:
        blocks = [self._block(place, matched) for place in range(count)]
        return "with " + ",\n".join(blocks)

    def _block(self, place: int, matched: Collection[str]) -> str:
        name, step = self.names[place], self.steps[place]
        own = ["matches"] if f"{name}_matches" in matched else []
        body = laid_out(step._statement(own)).replace("\n", "\n        ")
        inner = [f"{table} as (from {name}_{table})" for table in (*step.reads, *own)]
        if place:
            before = {column for earlier in self.steps[:place] for column in earlier.adds}
            read = [set(step.needs.names) for step in self.steps]
            # Carrying texts along is costly: what no later step reads is left.
            done_with = read[place - 1] - set().union(*read[place:], self.adds)
            stale = sorted(before & set(step.adds) - read[place]) + sorted(done_with)
            source = f"{self.names[place - 1]} where keep"
            inner.append(f"input as (select * exclude ({', '.join(stale)}) from {source})")  # noqa: S608  # our own names
        scope = f"    with {', '.join(inner)}\n" if inner else ""
        # The next step and the verdicts both read it, and DuckDB might compute it for each.
        return f"{name} as materialized (\n{scope}    from (\n        {body}\n    )\n)"

    def _verdicts(self) -> str:
        parts = [f"select *, '{name}' as step from {name} where not keep" for name in self.names]  # noqa: S608  # our own names
        parts.append(f"select *, null as step from {self.names[-1]} where keep")  # noqa: S608  # our own names
        return "\nunion all by name\n".join(parts)


_FORECAST_SQL = """
select user_id, day,
    count(*) filter (where reason is distinct from 'future') as memories,
    count(*) filter (where keep and factor >= $least) as kept,
    count(*) filter (where not keep and reason = 'expired') as expired,
    count(*) filter (where not keep and reason in ('limit', 'evicted')) as over_quota,
    count(*) filter (where not keep and reason not in ('expired', 'limit', 'evicted', 'future')) as refused,
    count(*) filter (where keep and factor < $least) as faded
from judged
group by all
order by user_id nulls first, day
"""


_NAMED = 40
"""Memories whose names are kept with the table: of the first rows, and of the first that changed; these are shown."""
# A round number: a task lasts long enough for its way to another process to pay.
ROWS_A_TASK = 20_000
"""Rows per task, of whole users, where several processes share the work."""


def replay(
    corpus: Any, pipeline_a: Any, pipeline_b: Any, as_of: Sequence[AsOf] | AsOf = None, texts: str = "today"
) -> pa.Table:
    """The verdicts of two pipelines on every memory at every date, and whether they differ.

    Parameters
    ----------
    corpus : Corpus, pyarrow.Table or pandas.DataFrame
        The memories.
    pipeline_a, pipeline_b : Pipeline or Policy
        A step that learns and is not fitted is fitted on `corpus`, in a copy.
    as_of : date, str, datetime, or a sequence of them
        The dates, UTC; None is now, and hides nothing. A memory created after a date (for a day without a time: after
        its end) has keep = false and reason ``future``, and no step sees it: it does not count for a quota and is not a
        duplicate of another.
    texts : 'today' or 'git'
        'today' uses the memories of `corpus` at every date. 'git' uses the memories as they were: those of the last
        commit up to the date, along first parents, in the git repository of the folder of `corpus`. Steps that learn
        are then fitted on each date's memories. The result's metadata say which (``texts``, ``revisions`` by day).

    Returns
    -------
    pyarrow.Table
        memory_id (string), as_of (timestamp), keep_a, keep_b (bool), reason_a, reason_b (string), changed (bool: the
        verdict or its reason differs). Rows are in the order of the dates, then of that date's memories.

    Examples
    --------
    >>> table = pa.table({"memory_id": ["a"], "text": ["план"], "expires_at": ["2026-03-01"]})
    >>> replay(table, Expiry(), Expiry(grace_days=7), as_of=["2026-03-01", "2026-03-05"])["changed"].to_pylist()
    [False, True]
    """
    dates: list[Any] = [as_of] if as_of is None or isinstance(as_of, (str, date, Moment)) else list(as_of)
    if not dates:
        raise ParameterError("replay: 'as_of' must name at least one date. Got none.")
    check_choice("texts", texts, ("today", "git"), "replay")
    pipelines = [_pipeline(pipeline) for pipeline in (pipeline_a, pipeline_b)]
    moments = [Moment.from_as_of(date) for date in dates]
    states, days, facts, notes = [corpus], [moments], dict[str, Any](), list[str]()
    if texts == "git":
        states, days = states_at(corpus, [moment.last_visible for moment in moments]), [[moment] for moment in moments]
        pairs = zip(moments, states, strict=True)
        facts["revisions"] = {moment.instant.isoformat(): state.revision.get("revision") for moment, state in pairs}
        notes.append("Each day's memories are as they were then, by git.")
    tables, parts = [as_table(state, pipelines[0].over) for state in states], list[pa.Table]()
    for table, moments_of_day in zip(tables, days, strict=True):
        steps = [pipeline.fitted(table) for pipeline in pipelines]
        parts.append(_compared(table, steps[0], steps[1], moments_of_day))
    compared = pa.concat_tables(parts)
    n_changed = pc.sum(compared["changed"]).as_py() or 0
    facts["note"] = " ".join(
        [
            f"{n_changed:,} of {compared.num_rows:,} change.",
            *([] if n_changed else _never_differing(*pipelines)),
            *dict.fromkeys(remark for pipeline in steps for remark in pipeline.remarks(tables[-1])),
            *notes,
        ]
    )
    first = pa.concat_tables([compared.filter(compared["changed"]).slice(0, _NAMED), compared.slice(0, _NAMED)])
    facts["shown"] = names_in(first, pa.concat_tables(tables), "memory_id", most=2 * _NAMED)
    return describe(compared, memkit="replay", texts=texts, **facts)


def _never_differing(first: Pipeline, second: Pipeline) -> list[str]:
    """Sentences where the pipelines differ only in policies that keep every row: on how to see what differs."""
    both = [{repr(step): step for step in pipeline.steps} for pipeline in (first, second)]
    differing = [both[side][name] for side in (0, 1) for name in both[side].keys() - both[1 - side].keys()]
    if not differing or not all(step.told_by for step in differing):
        return []
    told = {type(step).__name__: step.told_by for step in differing}
    return [f"{name} keeps every memory, so that no verdict can change: {told_by}" for name, told_by in told.items()]


def _pipeline(steps: Any) -> Pipeline:
    if isinstance(steps, Pipeline):
        return steps
    return Pipeline([steps] if isinstance(steps, Annotator) else steps)


def _verdicts(table: pa.Table, steps: Pipeline, moment: Moment) -> tuple[pa.Array, pa.Array]:
    """keep and reason of every row; a memory created after the moment has reason ``future``."""
    created, until = input_table(table, needed("created_at"))["created_at"].to_numpy(), moment.unseen(None)
    unseen = pa.array(np.zeros(len(created), bool) if until is None else later(created, until))
    judged = steps.transform(table.filter(pc.invert(unseen)), moment)
    place = pc.if_else(unseen, None, pc.subtract(pc.cumulative_sum(pc.invert(unseen).cast(pa.int64())), 1))
    keep, reason = (judged[name].combine_chunks().take(place) for name in ("keep", "reason"))
    return pc.fill_null(keep, False), pc.if_else(unseen, "future", reason)


def _compared(table: pa.Table, first: Pipeline, second: Pipeline, moments: Sequence[Moment]) -> pa.Table:
    """Both verdicts at each moment; users are split among processes where no step compares users."""
    has_ids = "memory_id" in table.column_names and not table["memory_id"].null_count
    is_apart = has_ids and first.by_user and second.by_user and workers() > 1
    rows = _by_users(table) if is_apart else []
    parts = [table.take(pa.array(user_rows)) for user_rows in rows] if len(rows) > 1 else [table]
    results_by_part = list(
        results(_compared_verdicts, ((part, first, second, moment) for moment in moments for part in parts))
    )
    ids = table["memory_id"] if "memory_id" in table.column_names else pa.array(map(str, range(len(table))))
    days = []
    for day_index, moment in enumerate(moments):
        day = pa.concat_tables(results_by_part[day_index * len(parts) : (day_index + 1) * len(parts)])
        day = day.take(pa.array(np.argsort(np.concatenate(rows)))) if len(parts) > 1 else day
        columns = {"memory_id": ids, "as_of": pa.array([moment.instant] * len(table), TIMESTAMP)}
        days.append(pa.table(columns | {name: day[name].combine_chunks() for name in day.column_names}))
    return pa.concat_tables(days)


def _by_users(table: pa.Table) -> list[Ints]:
    """Row numbers in parts of `ROWS_A_TASK`, each of whole users."""
    if "user_id" not in table.column_names:
        return []
    users = table["user_id"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    order = np.argsort(users, kind="stable")
    begins = np.flatnonzero(np.append(True, np.diff(users[order])))
    part = begins // ROWS_A_TASK
    return np.split(order, begins[np.flatnonzero(np.diff(part)) + 1])


def _compared_verdicts(table: pa.Table, first: Pipeline, second: Pipeline, moment: Moment) -> pa.Table:
    (keep_a, reason_a), (keep_b, reason_b) = (_verdicts(table, steps, moment) for steps in (first, second))
    same_reason = pc.equal(pc.fill_null(reason_a, ""), pc.fill_null(reason_b, ""))
    changed = pc.invert(pc.and_(pc.equal(keep_a, keep_b), same_reason))
    columns = {"keep_a": keep_a, "reason_a": reason_a, "keep_b": keep_b, "reason_b": reason_b, "changed": changed}
    return pa.table(columns)


def forecast(
    corpus: Any,
    pipeline: Any = None,
    as_of: AsOf = None,
    days: Sequence[int] | int = (0, 30, 60, 90, 180),
    # As in the note of a search: what has less is hardly ever a hit.
    min_factor: float = 0.05,
    decay: Decay | None = None,
) -> pa.Table:
    """Forecast how many memories each user keeps in the coming days, if nothing new is saved.

    Parameters
    ----------
    corpus : Corpus, pyarrow.Table or pandas.DataFrame
        The memories.
    pipeline : Pipeline or Policy, optional
        Expiry and Quota unless given.
    as_of : str, date, datetime or None
        Day 0, UTC; None is now. A memory counts from the day of its creation, as in `replay`.
    days : sequence of int, or int, days
        Days after `as_of`; a single number n means 0 to n.
    min_factor : float, ratio
        A memory with a decay factor below it counts as faded: it is stored, but search will hardly return it.
    decay : Decay, optional
        ``Decay()`` unless given.

    Returns
    -------
    pyarrow.Table
        user_id (string), day, memories, kept, expired, over_quota, refused, faded (int64); rows by user, then day.
        The last five add up to memories.

    Examples
    --------
    >>> table = pa.table({"user_id": ["u1"], "kind": ["archive"], "created_at": ["2026-03-01"]})
    >>> forecast(table, as_of="2026-03-01", days=[0, 60, 180])["kept"].to_pylist()
    [1, 1, 0]
    """
    table, start = as_table(corpus), Moment.from_as_of(as_of)
    check_value("forecast", "min_factor", min_factor, "float", low=0, high=1)
    steps = _pipeline(pipeline or Pipeline([Expiry(), Quota()])).fitted(table)
    if isinstance(days, Iterable):
        day_numbers: list[Any] = list(days)
    else:
        day_numbers = [*range(days + 1)] if isinstance(days, int) and days >= 0 else [days]
    last = (datetime.max.replace(tzinfo=UTC) - start.last_visible).days
    for day in day_numbers:
        check_value("forecast", "days", day, "int", low=0, high=last, unit="days")
    judged = [_on_day(table, steps, decay or Decay(), start, int(day)) for day in day_numbers]
    if not judged:
        raise ParameterError("forecast: 'days' must name at least one day. Got none.")
    counted = rows_of(_FORECAST_SQL, {"least": min_factor}, judged=pa.concat_tables(judged))
    return describe(counted, memkit="forecast", as_of=start)


def _on_day(table: pa.Table, steps: Pipeline, decay: Decay, start: Moment, day: int) -> pa.Table:
    moment = Moment(start.instant, start.last_visible).ahead(day)
    keep, reason = _verdicts(table, steps, moment)
    users = table["user_id"].cast(pa.string()) if "user_id" in table.column_names else pa.nulls(len(table), pa.string())
    factor = decay.transform(table, moment)["factor"]
    return pa.table(
        {
            "user_id": users,
            "day": pa.array([day] * len(table), pa.int64()),
            "keep": keep,
            "reason": reason,
            "factor": factor,
        }
    )
