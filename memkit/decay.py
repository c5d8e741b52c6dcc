"""Decay as a policy: the age of each memory and the factor for its score; `memkit.tables.age` has the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import check_unicode, rows_of
from memkit.base.params import Moment, Reach, estimator, param
from memkit.documents import cite
from memkit.errors import count_of
from memkit.schemas import TABLES, check_kinds
from memkit.tables.age import DECAY_KINDS, FORMS, age_sql, decay_reach, decay_sql, decaying, decays_sql, factor_sql
from memkit.tables.statement import Annotator, as_table, input_table

_DATED = "coalesce(updated_at, created_at)"
_NEEDS = ("kind", "importance", "created_at", "updated_at")
_SOURCE = cite("memory_v2", "decay")


def _reach(policy: Any, table: Any) -> Reach:
    """How many memories of a table decay by the parameters of `policy`."""
    return _reaches(table, policy.decay, policy.decay_kinds)[0]


def _reaches(table: Any, form: str, *every_kinds: Sequence[str]) -> list[Reach]:
    """How many memories of a table decay, where these kinds do."""
    rows = input_table(as_table(table), Decay.needs)
    is_dated = pc.is_valid(pc.coalesce(rows["updated_at"], rows["created_at"]))
    pairs = pa.table({"kind": rows["kind"], "importance": rows["importance"], "is_dated": is_dated})
    groups = pairs.group_by(pairs.column_names).aggregate([([], "count_all")])
    dated, counts = (groups[name].to_numpy() for name in ("is_dated", "count_all"))
    decays, reaches = decaying(groups), []
    for kinds in every_kinds:
        is_named = pc.is_in(groups["kind"], value_set=pa.array([*kinds], pa.string())).to_numpy()
        reaches.append(decay_reach(form, kinds, decays, dated, is_named | ("*" in kinds), counts))
    return reaches


@estimator
class Decay(Annotator):
    """Shows the age and the decay factor of every memory; search multiplies scores by the factor. Nothing is dropped.

    Adds ``keep`` (bool, always true), ``reason`` (string: ``future`` for a date after `as_of`, else null), ``age_days``
    (float64, days), ``factor`` (float64, above 0, at most 1) and ``note`` (string). The note is null for memories that
    decay, ``future`` for a date after `as_of` (age 0), ``undated`` for a missing date (age null, factor 1), else
    ``exempt``.

    Only age counts, not the status of a memory: search has a separate factor for stale memories.

    Examples
    --------
    >>> table = pa.table({"text": ["архив"], "kind": ["archive"], "created_at": ["2026-01-01"]})
    >>> Decay(decay="half_life").transform(table, as_of="2026-03-02").column("factor").to_pylist()
    [0.5]
    """

    by_user = True
    told_by = "mk.audit(search, only='horizon') shows which hits drop out of a search by age, and when."
    needs: ClassVar[pa.Schema] = pa.schema([TABLES["memories"].field(name) for name in _NEEDS])
    adds: ClassVar[dict[str, str]] = {
        "keep": "always true: decay only changes scores",
        "reason": "future for a date after as_of, else null",
        "age_days": "as_of minus updated_at (else created_at); days",
        "factor": "the factor that scores are multiplied by; ratio",
        "note": "why it does not decay: future, undated or exempt",
    }

    decay: str = param(
        "e_folding",
        choices=FORMS,
        doc="Formula of the decay curve.",
        source=_SOURCE,
        acts_on=lambda policy, table: None if policy.decay == "none" else _reach(policy, table),
    )
    decay_days: float = param(
        60.0,
        low=0,
        low_open=True,
        unit="days",
        doc="Age at which the factor is 0.5, or 0.37 with e_folding.",
        source=_SOURCE,
        acts_on=_reach,
    )
    decay_floor: float = param(0.0, low=0, high=1, unit="ratio", doc="Lower bound of the factor.", acts_on=_reach)
    decay_kinds: Sequence[str] = param(
        DECAY_KINDS["policy"],
        kind="words",
        star=True,
        doc="Kinds of memory that decay; '*' is all.",
        acts_on=_reach,
    )

    def remarks(self, table: pa.Table) -> list[str]:
        """As of other policies; also where other memories decay than in a search."""
        other = "" if self.decay == "none" else kinds_note(table, self.decay_kinds)
        return [*super().remarks(table), *filter(None, [other])]

    def refactored(self, judged: pa.Table) -> pa.Table:
        """A table that another form, time or floor judged, with the factors of these; notes stay, as for `decay_kinds`.

        Ages and notes cost most of `transform`, and a slider does not change them.

        Examples
        --------
        >>> rows = {"text": ["a"], "created_at": ["2026-01-01"]}
        >>> judged = Decay(decay_days=60).transform(pa.table(rows), as_of="2026-03-02")
        >>> Decay(decay="half_life").refactored(judged)["factor"].to_pylist()
        [0.5]
        """
        self.check_params()
        spared = pc.is_in(judged["note"], value_set=pa.array(["undated", "exempt"]))
        factor = factor_sql(self.decay, self.decay_days, self.decay_floor, "spared", "age_days")
        rows = pa.table({"age_days": judged["age_days"], "spared": spared})
        made = rows_of(f"select {factor} as factor from judged", judged=rows)  # noqa: S608  # declared parameters only
        place = judged.column_names.index("factor")
        return judged.set_column(place, judged.schema.field(place), made["factor"])

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        check_unicode(self.decay_kinds)
        named = [kind for kind in self.decay_kinds if kind != "*"]
        check_kinds(named, "Decay: 'decay_kinds'", in_data=rows["kind"].unique().to_pylist())
        return {}

    def _sql(self) -> str:
        return f"""select *,
    true as keep,
    case when {_DATED} > $until then 'future' end as reason,
    {age_sql()} as age_days,
    {decay_sql(self.decay, self.decay_days, self.decay_floor, self.decay_kinds)} as factor,
    case
        when {_DATED} is null then 'undated'
        when {_DATED} > $until then 'future'
        when not ({decays_sql(self.decay_kinds)}) then 'exempt'
    end as note
from input"""  # noqa: S608  # declared parameters only


def kinds_note(table: Any, kinds: Sequence[str] = DECAY_KINDS["policy"]) -> str:
    """A sentence where memories decay by the policy of these `kinds`, and not in a search, which has others; else "".

    Examples
    --------
    >>> rows = {"text": ["a"], "kind": ["daily_log"], "created_at": ["2026-01-01"]}
    >>> kinds_note(pa.table(rows))
    "By the policy 1 of 1 memory decay, in a search 0: its decay_kinds are 'profile', 'working', 'archive'."
    """
    of_search = DECAY_KINDS["search"]
    if set(kinds) == set(of_search):
        return ""
    here, there = _reaches(table, "e_folding", kinds, of_search)
    if here.count == there.count:
        return ""
    names = ", ".join(map(repr, of_search))
    return (
        f"By the policy {here.count:,} of {count_of(here.of, 'memory')} decay, in a search {there.count:,}: its"
        f" decay_kinds are {names}."
    )
