"""What a few users with many queries each allow to conclude: flips of whole users, intervals, the verdict, its power.

Queries of one user are alike, so tests over queries find differences where there are none. Here the unit is the user,
or whatever groups queries that are not independent. All of it is arithmetic over two numbers a unit.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from scipy.special import stdtrit

from memkit.errors import ParameterError
from memkit.schemas import Floats, Ints

FEWEST = 6
"""Fewer units have no p below .05: of 5, two of the 32 flips are as extreme as any."""
JACKKNIFE_FROM = 20
"""From so many units on the jackknife's interval holds what it promises."""
ENUMERATED = 13
"""Up to so many units every flip is looked at."""
FLIPS = 9_999
_CHUNK = 1_024
_KEPT = 64
"""Flips of so few units are kept for the next question: some megabytes."""
_ALMOST = 1e-10
"""Sums that differ by less, as a share of all values, differ by rounding."""


@dataclass(frozen=True)
class Units:
    """What each unit adds to a mean: value and weight; the mean is the one's sum over the other's.

    Attributes
    ----------
    value, weight : ndarray of shape (n_units,)
        Per query: the unit's sum and its number of queries, both over the mean number. Per unit: its own mean, and 1.
    n_queries : int
    """

    value: Floats
    weight: Floats
    n_queries: int

    @classmethod
    def from_scores(cls, scores: Floats, unit: Ints, per_query: bool) -> Self:
        """From a score a query and the unit that each query belongs to.

        Examples
        --------
        >>> scores, unit = np.array([1.0, 0.0, 0.0]), np.array([0, 1, 1])
        >>> Units.from_scores(scores, unit, per_query=True).mean, Units.from_scores(scores, unit, per_query=False).mean
        (0.3333333333333333, 0.5)
        """
        _, code, counts = np.unique(unit, return_inverse=True, return_counts=True)
        sums = np.bincount(code, scores, len(counts))
        if per_query:
            size = len(scores) / max(len(counts), 1)
            return cls(sums / size, counts / size, len(scores))
        return cls(sums / counts, np.ones(len(counts)), len(scores))

    def __len__(self) -> int:
        return len(self.value)

    @property
    def mean(self) -> float:
        return float(self.value.sum() / self.weight.sum())

    @property
    def error(self) -> float:
        """The standard error by leaving out one unit at a time; needs two units."""
        left = (self.value.sum() - self.value) / (self.weight.sum() - self.weight)
        size = len(self)
        return float(np.sqrt((size - 1) / size * ((left - self.mean) ** 2).sum()))


def flips(size: int, seed: int) -> Iterable[Floats]:
    """Which units change their sign, a row a flip, 1 for those that do: all flips to `ENUMERATED`, else `FLIPS`.

    Chunks of one stream of bits, so that the seed alone decides.
    """
    return _kept(size, seed) if size <= _KEPT else _drawn(size, seed)


@lru_cache(maxsize=4)
def _kept(size: int, seed: int) -> tuple[Floats, ...]:
    return tuple(_drawn(size, seed))


def _drawn(size: int, seed: int) -> Iterator[Floats]:
    if size <= ENUMERATED:
        yield ((np.arange(2**size)[:, None] >> np.arange(size)) & 1).astype(np.float64)
        return
    random = np.random.default_rng(seed)
    for start in range(0, FLIPS, _CHUNK):
        rows = min(_CHUNK, FLIPS - start)
        drawn = np.frombuffer(random.bytes(rows * -(-size // 8)), np.uint8).reshape(rows, -1)
        yield np.unpackbits(drawn, axis=1, count=size).astype(np.float64)


def n_flips(size: int) -> int:
    """How many `flips` there are."""
    return 2**size if size <= ENUMERATED else FLIPS


def flip_p(units: Units, seed: int = 0, *, shift: float = 0.0, greater: bool = False) -> float:
    """The p of no difference: how often whole units with flipped signs are as far from 0.

    Parameters
    ----------
    shift : float
        Test for this difference instead of 0.
    greater : bool
        Only as far above; else on either side.

    Examples
    --------
    >>> units = Units.from_scores(np.full(6, 0.1), np.arange(6), per_query=True)
    >>> flip_p(units) == 2 / 2**6, flip_p(units, greater=True) == 1 / 2**6
    (True, True)
    """
    value = units.value - shift * units.weight
    total = value.sum()
    almost = _ALMOST * np.abs(value).sum()
    hits = 0
    for flipped in flips(len(units), seed):
        sums = total - 2 * (flipped @ value)
        far = sums >= total - almost if greater else np.abs(sums) >= np.abs(total) - almost
        hits += int(far.sum())
    return hits / 2 ** len(units) if len(units) <= ENUMERATED else (1 + hits) / (1 + FLIPS)


def interval(units: Units, level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """Where the mean lies: t over the jackknife's error from 20 units on, below that all that no flip test refuses.

    None below 6 units.

    Examples
    --------
    >>> interval(Units.from_scores(np.arange(5.0), np.arange(5), per_query=True)) is None
    True
    """
    if len(units) < FEWEST:
        return None
    if len(units) < JACKKNIFE_FROM:
        return _inverted(units, 1 - level, seed)
    half = float(stdtrit(len(units) - 1, (1 + level) / 2)) * units.error
    return units.mean - half, units.mean + half


def _inverted(units: Units, alpha: float, seed: int) -> tuple[float, float]:
    """The shifts whose flip test has p > alpha.

    With the shift between the mean of the flipped units and that of the others, both included, a flip is as far from 0
    as no flip: the ends of all these ranges, in order, are where the p changes.
    """
    low, high, size = [], [], len(units)
    for flipped in flips(size, seed):
        count = flipped.sum(axis=1)
        one = flipped[(count > 0) & (count < size)]
        other = 1 - one
        ends = one @ units.value / (one @ units.weight), other @ units.value / (other @ units.weight)
        free = np.full(len(flipped) - len(one), np.inf)  # all or none flipped: as far from 0 whatever the shift
        low += [np.minimum(*ends), -free]
        high += [np.maximum(*ends), free]
    total = 2**size if size <= ENUMERATED else 1 + FLIPS
    least = math.floor(round(alpha * total, 9))  # the p is a count over `total`, and one of so many is still refused
    place = least if size <= ENUMERATED else least - 1
    return float(np.sort(np.concatenate(low))[place]), float(np.sort(np.concatenate(high))[-1 - place])


def detectable(units: Units) -> float | None:
    """The smallest true difference that these units would show four times in five; None below 6 units."""
    return None if len(units) < FEWEST else _factor(len(units)) * units.error


def detectable_of(n_units: int, spread: float) -> float:
    """The same of so many units, whose means have this standard deviation."""
    return _factor(n_units) * spread / math.sqrt(n_units)


def _factor(size: int) -> float:
    return float(stdtrit(size - 1, 0.975) + stdtrit(size - 1, 0.8))


def floor_of_detectable(scores: Floats, unit: Ints) -> float | None:
    """What `detectable` cannot fall below by more queries of the same units: they differ from one another."""
    _, code, counts = np.unique(unit, return_inverse=True, return_counts=True)
    size, n = len(counts), len(scores)
    if size < FEWEST or n == size:
        return None
    means = np.bincount(code, scores) / counts
    between = (counts * (means - scores.mean()) ** 2).sum() / (size - 1)
    within = ((scores - means[code]) ** 2).sum() / (n - size)
    typical = (n - (counts**2).sum() / n) / (size - 1)
    return _factor(size) * math.sqrt(max(0.0, (between - within) / typical) / size)


def units_needed(units: Units, difference: float) -> int | None:
    """How many units like these, at least as many as there are, show `difference` four times in five.

    None below 6 units, and where not even a million would do.
    """
    if len(units) < FEWEST:
        return None
    spread, sizes = units.error * math.sqrt(len(units)), range(len(units), 10**6 + 1)
    at = bisect_left(sizes, True, key=lambda size: detectable_of(size, spread) <= difference)
    return sizes[at] if at < len(sizes) else None


def queries_needed(difference: float, spread: float = 0.25, *, a_unit: int = 1, alike: float = 0.0) -> int:
    """How many queries show a true `difference` four times in five, before there are any.

    Parameters
    ----------
    difference : float
        Of a metric.
    spread : float
        Standard deviation of the differences of queries; .25 is usual for nDCG.
    a_unit : int
        Queries that each user has.
    alike : float
        Share of the variance that lies between users.

    Returns
    -------
    int

    Raises
    ------
    ParameterError
        For a difference that is not above 0.

    Examples
    --------
    >>> [queries_needed(difference) for difference in (0.02, 0.05, 0.1)]
    [1229, 199, 51]
    """
    if not isinstance(difference, (int, float)) or not difference > 0:
        raise ParameterError(f"queries_needed: 'difference' must be above 0. Got {difference!r}.")
    return math.ceil((7.85 * (spread / difference) ** 2 + 1.9) * (1 + (a_unit - 1) * alike))
