r"""What age does, each once, in SQL and over arrays: the age itself, the factor of decay, the day a memory expires.

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

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.duck import literals, rows_of
from memkit.schemas import Floats, Mask, kinds_where

AS_OF = "$as_of"
_PAIR = ("kind", "importance")
# A statement a call would cost more than the search, so that a form is written twice, on one line. Tests hold it equal.
_FORMULAS: dict[str, tuple[str, Callable[[Floats, float | Floats], Floats]]] = {
    "e_folding": ("exp(-({age}) / {days})", lambda age, days: np.exp(-age / days)),
    "half_life": ("pow(0.5, ({age}) / {days})", lambda age, days: 0.5 ** (age / days)),
    "linear": ("1 - ({age}) / (2 * {days})", lambda age, days: 1.0 - age / (2.0 * days)),
    "gauss": ("pow(0.5, pow(({age}) / {days}, 2))", lambda age, days: 0.5 ** ((age / days) ** 2)),
    "none": ("1.0::double", lambda age, days: np.ones_like(age)),
}
FORMS = tuple(_FORMULAS)
UNDATED = "no date"
BY_MONTH = f"""
    select coalesce(strftime(coalesce(created_at, updated_at), '%Y-%m'), '{UNDATED}') as month,
        coalesce(kind, 'other') as kind, count(*) as memories
    from memories group by all order by all
"""  # noqa: S608  # a word of memkit's own
"""SQL: how many memories of each kind were made in each month."""
_LEAST_FACTOR = 1e-300
_DAY = 86400e6  # microseconds


def age_sql(dates: Sequence[str] = ("updated_at", "created_at")) -> str:
    """SQL for the age in days over the first known of the columns `dates`; null without one, 0 in the future."""
    # epoch_us means the same for naive and zoned stamps, whatever the connection's time zone.
    dated = f"coalesce({', '.join(f'epoch_us({date})' for date in dates)})"
    return f"case when {dated} is not null then greatest(0, epoch_us({AS_OF}) - {dated}) / {_DAY!r} end"


def ages(dated: NDArray[np.datetime64], moment: datetime | NDArray[np.datetime64]) -> Floats:
    """What `age_sql` gives, of stamps in microseconds at one moment or one each; NaN for null."""
    at = naive(moment) if isinstance(moment, datetime) else moment
    age = np.maximum((at - dated).astype(np.int64), 0) / _DAY
    return np.where(np.isnat(dated), np.nan, age)


def decays_sql(kinds: Sequence[str] = "*") -> str:
    """SQL for "archive/normal decays, profile and high never do", among `kinds`; a null importance counts as normal.

    Parameters
    ----------
    kinds : sequence of str
        The kinds that may decay, "*" for all; a null kind is never among those named.
    """
    kind, importance = "coalesce(kind, '')", "coalesce(importance, 'normal')"
    always, never = (literals(kinds_where(decays=when)) for when in ("always", "never"))
    decays = (
        f"({kind} in ({always}) or {importance} not in ('high', 'low'))"
        f" and not ({kind} in ({never}) or {importance} = 'high')"
    )
    if "*" in kinds:
        return decays
    return f"{decays} and {kind} in ({literals(kinds)})" if kinds else "false"


def decaying(memories: pa.Table) -> Mask:
    """Which of `memories` decay where they have a date; it depends on two columns, so each pair is looked at once."""
    pair = [memories[name].combine_chunks().dictionary_encode(null_encoding="encode") for name in _PAIR]
    kinds, importances = (tuple(part.dictionary.to_pylist()) for part in pair)
    at = pair[0].indices.to_numpy().astype(np.int64) * len(importances) + pair[1].indices.to_numpy()
    mask: Mask = np.array(_pairs_decay(kinds, importances), bool)[at]
    return mask


@lru_cache(256)
def _pairs_decay(kinds: tuple[str | None, ...], importances: tuple[str | None, ...]) -> list[bool]:
    rows = [dict(zip(_PAIR, pair, strict=True)) for pair in product(kinds, importances)]
    table = pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in _PAIR]))
    found: list[bool] = rows_of(f"select {decays_sql()} as decays from pairs", pairs=table)["decays"].to_pylist()  # noqa: S608  # no data in it
    return found


def decay_sql(form: str = "e_folding", days: float = 60.0, floor: float = 0.0, kinds: Sequence[str] = "*") -> str:
    """SQL for the factor over columns kind, importance, created_at and updated_at.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    days : float, days
        The age that the form is named for, above 0.
    floor : float, ratio
        The least factor, 0 to 1.
    kinds : sequence of str
        See `decays_sql`.

    Examples
    --------
    >>> decay_sql("none")
    '1.0::double'
    """
    if form == "none":
        return _FORMULAS[form][0]
    formula = _FORMULAS[form][0].format(age=age_sql(), days=_double(days))
    least = _double(max(floor, _LEAST_FACTOR))
    undated = "coalesce(updated_at, created_at) is null"
    return f"case when {undated} or not ({decays_sql(kinds)}) then 1.0 else greatest({least}, {formula}) end"


def factors(age: Floats, form: str, days: float | Floats, floor: float | Floats) -> Floats:
    """What `decay_sql` gives for what decays and is of so many days; 1 where the age is NaN."""
    with np.errstate(under="ignore"):
        factor = np.maximum(_FORMULAS[form][1](age, days), np.maximum(floor, _LEAST_FACTOR))
    return np.where(np.isnan(age), 1.0, factor)


def expired_sql(grace_days: int = 0) -> str:
    """SQL that tests whether a memory lived through its last day, UTC, and so many more; one without never expires.

    >>> expired_sql()
    'coalesce(expires_at::date < $as_of::date, false)'
    """
    return f"coalesce(expires_at::date < {AS_OF}::date{f' - {int(grace_days)}' if grace_days else ''}, false)"


def expired(expires: NDArray[np.datetime64], moment: datetime) -> NDArray[np.bool_]:
    """What `expired_sql` gives, of days."""
    return np.asarray(expires < naive(moment).astype("datetime64[D]"))  # a comparison with NaT is False


def later(dates: NDArray[np.datetime64], until: datetime) -> Mask:
    """Which of the dates, in microseconds, lie after `until`; one that is missing does not."""
    return np.asarray(dates > naive(until))  # a comparison with NaT is False


def naive(moment: datetime) -> np.datetime64:
    """`moment`, which is UTC, as NumPy writes it."""
    return np.datetime64(moment.replace(tzinfo=None), "us")


def _double(number: float) -> str:
    """A DOUBLE literal: without an exponent SQL reads a DECIMAL, which rounds on its way back."""
    text = repr(float(number))
    return text if "e" in text else text + "e0"
