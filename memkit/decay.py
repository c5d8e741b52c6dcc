"""Decay as a policy: the age of each memory and the factor for its score; `memkit.tables.age` has the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from memkit.documents import cite
from memkit.duck import check_unicode
from memkit.params import Moment, estimator, param
from memkit.schemas import TABLES, check_kinds
from memkit.tables.age import FORMS, age_sql, decay_sql, decays_sql
from memkit.tables.statement import Annotator

_DATED = "coalesce(updated_at, created_at)"
_NEEDS = ("kind", "importance", "created_at", "updated_at")
_SOURCE = cite("memory_v2", "decay")


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
    needs: ClassVar[pa.Schema] = pa.schema([TABLES["memories"].field(name) for name in _NEEDS])
    adds: ClassVar[dict[str, str]] = {
        "keep": "always true: decay only changes scores",
        "reason": "future for a date after as_of, else null",
        "age_days": "as_of minus updated_at (else created_at); days",
        "factor": "the factor that scores are multiplied by; ratio",
        "note": "why it does not decay: future, undated or exempt",
    }

    decay: str = param("e_folding", choices=FORMS, doc="Formula of the decay curve.", source=_SOURCE)
    decay_days: float = param(
        60.0,
        low=0,
        low_open=True,
        unit="days",
        doc="Age at which the factor is 0.5, or 0.37 with e_folding.",
        source=_SOURCE,
    )
    decay_floor: float = param(0.0, low=0, high=1, unit="ratio", doc="Lower bound of the factor.")
    decay_kinds: Sequence[str] = param("*", kind="words", star=True, doc="Kinds of memory that decay; '*' is all.")

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
