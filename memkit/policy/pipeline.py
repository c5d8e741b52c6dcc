"""Policies in sequence, as a bot applies them on save, in one SQL statement."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any, Self

import pyarrow as pa

from memkit.base.duck import laid_out, session
from memkit.base.params import REQUIRED, Moment, estimator, param
from memkit.errors import ParameterError
from memkit.policy.base import VERDICT, Policy
from memkit.tables.statement import Annotator, Match, run


@estimator
class Pipeline(Policy):
    """Applies policies in order; later steps do not see a row that an earlier one refused, but it stays in the table.

    Adds ``step`` (string, the policy that refused the row), ``keep``, ``reason`` and the columns of every step, which
    are null where the row did not reach the step.

    Examples
    --------
    >>> from memkit.policy.admission import Admission
    >>> from memkit.policy.expiry import Expiry
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
            stale = sorted(before & set(step.adds) - set(step.needs.names)) + self._done_with(place)
            source = f"{self.names[place - 1]} where keep"
            inner.append(f"input as (select * exclude ({', '.join(stale)}) from {source})")  # noqa: S608  # our own names
        scope = f"    with {', '.join(inner)}\n" if inner else ""
        return f"{name} as materialized (\n{scope}    from (\n        {body}\n    )\n)"

    def _done_with(self, place: int) -> list[str]:
        """Columns that no later step reads; carrying texts along is costly."""
        read = [set(step.needs.names) for step in self.steps]
        later = set().union(*read[place:], self.adds)
        return sorted(read[place - 1] - later)

    def _verdicts(self) -> str:
        parts = [f"select *, '{name}' as step from {name} where not keep" for name in self.names]  # noqa: S608  # our own names
        parts.append(f"select *, null as step from {self.names[-1]} where keep")  # noqa: S608  # our own names
        return "\nunion all by name\n".join(parts)
