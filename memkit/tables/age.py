r"""Age, decay factor and expiry of memories, each in SQL and over NumPy arrays.

============  ====================================  =====================================
form          factor at age a, with d = decay_days  factor at a = d
============  ====================================  =====================================
``e_folding`` exp(−a / d)                           0.368 (what the Memory v2 document does)
``half_life`` 0.5 ^ (a / d)                         0.5
``linear``    1 − a / (2 d)                         0.5 (and the floor from 2 d on)
``gauss``     0.5 ^ ((a / d)²)                      0.5
``none``      1                                     1
============  ====================================  =====================================

No factor is below the floor, and none is 0, so very old memories can still be found and keep their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.base.duck import literals
from memkit.base.params import Moment, Reach, param
from memkit.documents import cite
from memkit.schemas import Floats, Ints, Mask, kinds_where

AS_OF, UNTIL = "$as_of", "$until"
"""The moments of a statement: ages are counted to the first; what is later than the second is not seen yet.

They differ for a bare day, whose first and last instants they are (`memkit.base.params.Moment`).
"""
_PAIR = ("kind", "importance")
# One SQL statement per call would cost more than the search, so each form is written twice. Tests prove both equal.
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
# Above the least number that a double holds with all its digits, 2e-308.
_LEAST_FACTOR = 1e-300
"""A factor never becomes 0, so that a score above 0 stays above it."""
_DAY = 86400e6  # microseconds


def moments_in(sql: str, moment: Moment) -> dict[str, datetime]:
    """The parameters of a statement that are moments, with their values.

    >>> moments_in("select $until", Moment.from_as_of("2026-03-01"))["until"].isoformat()
    '2026-03-01T23:59:59.999999+00:00'
    """
    return {name.removeprefix("$"): value for name, value in _values(moment).items() if name in sql}


def _values(moment: Moment) -> dict[str, datetime]:
    return {AS_OF: moment.instant, UNTIL: moment.last_visible}


_NAMED = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\$as_of\b|\$until\b")


def with_moments(sql: str, moment: Moment) -> str:
    """A statement with its moments as values, but for the names of these in comments and texts.

    Parameters would make DuckDB import pandas, which takes a third of a second.

    >>> with_moments("select $until, '$until'", Moment.from_as_of("2026-03-01T10:00"))
    "select timestamptz '2026-03-01 10:00:00+00:00', '$until'"
    """
    written = {name: f"timestamptz '{value.isoformat(' ')}'" for name, value in _values(moment).items()}
    return _NAMED.sub(lambda match: written.get(match[0], match[0]), sql)


def age_sql(dates: Sequence[str] = ("updated_at", "created_at")) -> str:
    """SQL for the age in days, from the first of `dates` that is not null; null without one, 0 in the future."""
    # epoch_us means the same for naive and zoned stamps, whatever the connection's time zone.
    dated = f"coalesce({', '.join(f'epoch_us({date})' for date in dates)})"
    return f"case when {dated} is not null then greatest(0, epoch_us({AS_OF}) - {dated}) / {_DAY!r} end"


def ages(dated: NDArray[np.datetime64], moment: datetime | NDArray[np.datetime64]) -> Floats:
    """The result of `age_sql` for an array of time stamps, at one moment or at one moment each; NaN for null."""
    now = naive(moment) if isinstance(moment, datetime) else moment
    age = np.maximum((now - dated).astype(np.int64), 0) / _DAY
    return np.where(np.isnat(dated), np.nan, age)


def decays_sql(kinds: Sequence[str] = "*") -> str:
    """SQL that tests whether a memory decays, by its kind and importance; a null importance counts as normal.

    Parameters
    ----------
    kinds : sequence of str
        The kinds that may decay, "*" for all. A null kind decays only with "*".
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
    """The result of `decays_sql` for a table, decided once for each pair of kind and importance."""
    pair = [memories[name].combine_chunks().dictionary_encode(null_encoding="encode") for name in _PAIR]
    kinds, importances = (part.dictionary.to_pylist() for part in pair)
    always, never = (kinds_where(decays=when) for when in ("always", "never"))
    decays = [
        kind not in never and importance != "high" and (kind in always or importance != "low")
        for kind, importance in product(kinds, importances)
    ]
    index = pair[0].indices.to_numpy().astype(np.int64) * len(importances) + pair[1].indices.to_numpy()
    mask: Mask = np.array(decays, bool)[index]
    return mask


DECAY_KINDS: dict[str, Sequence[str]] = {"search": kinds_where(fact=True), "policy": "*"}
"""The kinds that decay unless a user names others, in a search and in the policy `memkit.Decay`.

In a search only facts decay, since only the document of facts asks for decay: with all kinds, each dated log of two
workspaces some months old lost to each undated line, and hit@5 fell from .80 to .40. Who calls the policy asks for
decay, so that all kinds decay there.
"""
_DECAY: dict[str, dict[str, Any]] = {
    "decay": {
        "default": "e_folding",
        "choices": FORMS,
        "doc": "How scores fall with age.",
        "source": cite("memory_v2", "decay"),
    },
    "decay_days": {
        "default": 60.0,
        "low": 0,
        "low_open": True,
        "unit": "days",
        "doc": "Age at which the decay factor is 1/e (e_folding) or 1/2 (the other forms).",
        "source": cite("memory_v2", "decay"),
    },
    "decay_floor": {"default": 0.0, "low": 0, "high": 1, "unit": "ratio", "doc": "Lower bound of the decay factor."},
    "decay_kinds": {
        "kind": "words",
        "star": True,
        "doc": "Kinds of memory that decay; '*': all, including memories without a kind.",
    },
}
OF_DECAY = tuple(_DECAY)
"""The parameters of decay, which a search and the policy `memkit.Decay` share."""
DECAYING = (
    "memories with a date before the moment of the query, of a kind in decay_kinds ('*' is all), neither of high nor of"
    " low importance, and a form of decay"
)
"""What there has to be for anything to decay, in words."""
UNDATED_TO_DO = "none has a date; mk.read(path, dates='git'), or 'mtime', dates them by their files"


def decay_param(name: str, reach: Callable[[Any, Any], Reach], **own: Any) -> Any:
    """A parameter of decay; `reach` counts the memories that decay, `own` is what is declared of this user's alone."""

    def unless_off(settings: Any, data: Any) -> Reach | None:
        return None if settings.decay == "none" else reach(settings, data)

    return param(**_DECAY[name], acts_on=unless_off if name == "decay" else reach, **own)


def decay_reach(
    form: str, kinds: Sequence[str], decays: Mask, is_dated: Mask, is_of_kinds: Mask, counts: Ints | None = None
) -> Reach:
    """How many memories decay.

    Parameters
    ----------
    form, kinds
        The values of the parameters decay and decay_kinds.
    decays, is_dated, is_of_kinds : ndarray of bool, shape (n,)
        By memory, or group of memories: whether its kind and importance let it decay, it has a date, and `kinds`
        include it.
    counts : ndarray of int64, shape (n,), optional
        How many memories each group has; None: each is one memory.
    """
    counts = np.ones(len(decays), np.int64) if counts is None else counts
    n_memories = int(counts.sum())
    count = 0 if form == "none" else int(counts[decays & is_dated & is_of_kinds].sum())
    if count or not n_memories:
        to_do = ""
    elif form == "none":
        to_do = "decay='none' turns it off"
    elif not is_dated.any():
        to_do = UNDATED_TO_DO
    elif "*" not in kinds and (decays & is_dated).any():
        to_do = "decay_kinds='*' includes all"
    else:
        to_do = "those that have a date are exempt by their kind or importance"
    return Reach(count, n_memories, to_do, "decay")


def decay_sql(form: str = "e_folding", days: float = 60.0, floor: float = 0.0, kinds: Sequence[str] = "*") -> str:
    """SQL for the decay factor, from the columns kind, importance, created_at and updated_at.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    days : float, days
        The decay time d of the form, above 0.
    floor : float, ratio
        The lowest factor, 0 to 1.
    kinds : sequence of str
        See `decays_sql`.

    Examples
    --------
    >>> decay_sql("none")
    '1.0::double'
    """
    undated = "coalesce(updated_at, created_at) is null"
    return factor_sql(form, days, floor, f"{undated} or not ({decays_sql(kinds)})", age_sql())


def factor_sql(form: str, days: float, floor: float, spared: str, age: str) -> str:
    """SQL for the factor of a known age, also where SQL says which rows are spared.

    >>> factor_sql("e_folding", 60, 0, "note is not null", "age_days")
    'case when note is not null then 1.0 else greatest(1e-300, exp(-(age_days) / 60.0e0)) end'
    """
    if form == "none":
        return _FORMULAS[form][0]
    formula = _FORMULAS[form][0].format(age=age, days=_double(days))
    return f"case when {spared} then 1.0 else greatest({_double(max(floor, _LEAST_FACTOR))}, {formula}) end"


def factors(age: Floats, form: str, days: float | Floats, floor: float | Floats) -> Floats:
    """The result of `decay_sql` for decaying memories of these ages; 1 where the age is NaN."""
    with np.errstate(under="ignore"):
        factor = np.maximum(_FORMULAS[form][1](age, days), np.maximum(floor, _LEAST_FACTOR))
    return np.where(np.isnan(age), 1.0, factor)


def expired_sql(grace_days: int = 0) -> str:
    """SQL that tests whether a memory's last instant and `grace_days` more have passed; without one it is false.

    >>> expired_sql()
    'coalesce(expires_at < $until, false)'
    """
    return f"coalesce(expires_at < {UNTIL}{f' - to_days({int(grace_days)})' if grace_days else ''}, false)"


def expired(expires: NDArray[np.datetime64], until: datetime) -> NDArray[np.bool_]:
    """The result of `expired_sql` for an array of last instants."""
    return np.asarray(expires < naive(until))  # a comparison with NaT is False


def day_end_sql(day: str) -> str:
    """SQL for the last instant of a day (UTC), as the column ``expires_at`` has it.

    >>> day_end_sql("$as_of::date")
    '($as_of::date + interval 1 day - interval 1 microsecond)::timestamptz'
    """
    return f"({day} + interval 1 day - interval 1 microsecond)::timestamptz"


def later(dates: NDArray[np.datetime64], until: datetime) -> Mask:
    """Which of the dates, in microseconds, are after `until`; a missing date is not."""
    return np.asarray(dates > naive(until))  # a comparison with NaT is False


def stale(dates: NDArray[np.datetime64], until: datetime | NDArray[np.datetime64]) -> Mask:
    """Which of the dates `stale_at`, in microseconds, have come by `until`, one for all or one for each."""
    return np.asarray(dates <= (naive(until) if isinstance(until, datetime) else until))  # NaT: false


def naive(moment: datetime) -> np.datetime64:
    """`moment`, which is in UTC, as a NumPy datetime64."""
    return np.datetime64(moment.replace(tzinfo=None), "us")


def _double(number: float) -> str:
    """A DOUBLE literal: without an exponent SQL reads a DECIMAL, which would be rounded."""
    text = repr(float(number))
    return text if "e" in text else text + "e0"
