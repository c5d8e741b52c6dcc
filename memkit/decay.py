r"""Decay: the age of a memory becomes a factor for its score.

============  ====================================  =====================================
form          factor at age a, with d = decay_days  left at a = d
============  ====================================  =====================================
``e_folding`` exp(−a / d)                           0.368 (what the Memory v2 document does)
``half_life`` 0.5 ^ (a / d)                         0.5
``linear``    1 − a / (2 d)                         0.5 (nothing but the floor is left at 2 d)
``gauss``     0.5 ^ ((a / d)²)                      0.5
``none``      1                                     1
============  ====================================  =====================================

No factor is below the floor, and none is 0: what is very old stays in order and can be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from memkit.duck import literal
from memkit.params import check_choice, estimator, param
from memkit.presets import cite
from memkit.schemas import TABLES, kinds_where
from memkit.tables.statement import AS_OF, Annotator

_FORMULAS = {
    "e_folding": "exp(-({age}) / {days})",
    "half_life": "pow(0.5, ({age}) / {days})",
    "linear": "1 - ({age}) / (2 * {days})",
    "gauss": "pow(0.5, pow(({age}) / {days}, 2))",
    "none": "1.0::double",
}
FORMS = tuple(_FORMULAS)
LEAST_FACTOR = 1e-300
_DAY = "86400e6"
_DATED = "coalesce(updated_at, created_at)"
_NEEDS = ("kind", "importance", "created_at", "updated_at")
_SOURCE = cite("memory_v2", "decay")


def age_sql(as_of: str = AS_OF, prefix: str = "") -> str:
    """SQL for the age in days over ``created_at`` and ``updated_at``; null without a date, 0 in the future.

    Parameters
    ----------
    as_of : str
        SQL of the moment, a parameter or a column.
    prefix : str
        The relation's alias with its dot, as ``m.``.
    """
    # epoch_us means the same for naive and zoned stamps, whatever the connection's time zone.
    dated = f"coalesce(epoch_us({prefix}updated_at), epoch_us({prefix}created_at))"
    return f"case when {dated} is not null then greatest(0, epoch_us({as_of}) - {dated}) / {_DAY} end"


def decays_sql(prefix: str = "", kinds: Sequence[str] = "*") -> str:
    """SQL for "archive/normal decays, profile and high never do", among `kinds`; a null importance counts as normal.

    Parameters
    ----------
    prefix : str
        See `age_sql`.
    kinds : sequence of str
        The kinds that may decay, "*" for all; a null kind is never among those named.
    """
    kind, importance = f"coalesce({prefix}kind, '')", f"coalesce({prefix}importance, 'normal')"
    always, never = (", ".join(map(literal, kinds_where(decays=when))) for when in ("always", "never"))
    decays = (
        f"({kind} in ({always}) or {importance} not in ('high', 'low'))"
        f" and not ({kind} in ({never}) or {importance} = 'high')"
    )
    if "*" in kinds:
        return decays
    return f"{decays} and {kind} in ({', '.join(map(literal, kinds))})" if kinds else "false"


def decay_sql(
    form: str = "e_folding",
    days: float = 60.0,
    floor: float = 0.0,
    as_of: str = AS_OF,
    prefix: str = "",
    kinds: Sequence[str] = "*",
) -> str:
    """SQL for the factor over columns kind, importance, created_at and updated_at.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    days : float, days
        The age that the form is named for, above 0.
    floor : float, ratio
        The least factor, 0 to 1.
    as_of, prefix : str
        See `age_sql`.
    kinds : sequence of str
        See `decays_sql`.

    Raises
    ------
    ParameterError
        For a parameter that its declaration refuses.

    Examples
    --------
    >>> decay_sql("none")
    '1.0::double'
    """
    check_choice("form", form, FORMS, "decay_sql")
    Decay(form=form, decay_days=days, floor=floor).check_params()
    if form == "none":
        return "1.0::double"
    formula = _FORMULAS[form].format(age=age_sql(as_of, prefix), days=_double(days))
    least = _double(max(floor, LEAST_FACTOR))
    undated = f"coalesce({prefix}updated_at, {prefix}created_at) is null"
    return f"case when {undated} or not ({decays_sql(prefix, kinds)}) then 1.0 else greatest({least}, {formula}) end"


def _double(number: float) -> str:
    """A DOUBLE literal: without an exponent SQL reads a DECIMAL, which rounds on its way back."""
    text = repr(float(number))
    return text if "e" in text else text + "e0"


@estimator
class Decay(Annotator):
    """Shows the age and the factor of every memory; scores are multiplied by it, nothing is dropped.

    Adds ``keep`` (bool, always true), ``reason`` (string: ``future`` for a date after `as_of`, else null), ``age_days``
    (float64, days), ``factor`` (float64, above 0, at most 1) and ``note`` (string, null for what decays: ``future``,
    whose age is 0; ``undated`` for a missing date, whose age is null and whose factor is 1; ``exempt``).

    Examples
    --------
    >>> table = pa.table({"text": ["архив"], "kind": ["archive"], "created_at": ["2026-01-01"]})
    >>> Decay(form="half_life").transform(table, as_of="2026-03-02").column("factor").to_pylist()
    [0.5]
    """

    needs: ClassVar[pa.Schema] = pa.schema([TABLES["memories"].field(name) for name in _NEEDS])
    adds: ClassVar[dict[str, str]] = {
        "keep": "always true: decay only weighs",
        "reason": "future for a date after as_of, else null",
        "age_days": "as_of less updated_at, else created_at; days",
        "factor": "what a score is multiplied with; ratio",
        "note": "why it does not decay: future, undated or exempt",
    }

    form: str = param("e_folding", choices=FORMS, doc="The formula.", source=_SOURCE)
    decay_days: float = param(
        60.0, low=0, low_open=True, unit="days", doc="The age that the form is named for.", source=_SOURCE
    )
    floor: float = param(0.0, low=0, high=1, unit="ratio", doc="No factor is below it.")
    decay_kinds: Sequence[str] = param("*", kind="words", star=True, doc="Kinds of memory that may decay; '*' is all.")

    def _sql(self) -> str:
        return f"""select *,
    true as keep,
    case when {_DATED} > $as_of then 'future' end as reason,
    {age_sql()} as age_days,
    {decay_sql(self.form, self.decay_days, self.floor, kinds=self.decay_kinds)} as factor,
    case
        when {_DATED} is null then 'undated'
        when {_DATED} > $as_of then 'future'
        when not ({decays_sql(kinds=self.decay_kinds)}) then 'exempt'
    end as note
from input"""  # noqa: S608  # declared parameters only
