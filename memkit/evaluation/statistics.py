"""Statistics for few users with many queries each: sign-flip permutation tests, intervals, power.

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

from memkit.errors import ParameterError
from memkit.schemas import Floats, Ints

FEWEST = 6
"""With fewer units no p is below .05: of 5 units, two of the 32 sign flips are as extreme as any."""
JACKKNIFE_FROM = 20
"""From so many units on the jackknife's interval has the coverage that it states."""
ENUMERATED = 13
"""Up to so many units all sign flips are enumerated."""
FLIPS = 9_999
_CHUNK = 1_024
_MOST_CACHED = 64
"""The sign flips of up to so many units are cached: some megabytes."""
_ALMOST = 1e-10
"""Sums that differ by less, as a share of all values, differ by rounding."""


@dataclass(frozen=True)
class Units:
    """What each unit adds to a mean, value and weight: the mean is the sum of values over the sum of weights.

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
        """From one score per query, and the unit that each query belongs to.

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
        """The jackknife standard error: it leaves out one unit at a time, and needs two units."""
        return float(jackknife_error(self.value, self.weight))


def jackknife_error(value: Floats, weight: Floats) -> Floats:
    """The jackknife standard error of the mean of each row of `value`, over the units of its last axis.

    >>> float(jackknife_error(np.array([1.0, 2.0, 3.0]), np.ones(3))) == (1 / 3) ** 0.5  # of equal units: s / sqrt(n)
    True
    """
    total, size = value.sum(axis=-1, keepdims=True), len(weight)
    leave_one_out = (total - value) / (weight.sum() - weight)
    deviations = leave_one_out - total / weight.sum()
    error: Floats = np.sqrt((size - 1) / size * (deviations**2).sum(axis=-1))
    return error


def sign_flips(size: int, seed: int) -> Iterable[Floats]:
    """Sign flips, one a row, 1 for each unit that changes its sign: all up to `ENUMERATED` units, else `FLIPS`.

    They come in chunks of one stream of bits, so that the seed alone decides.
    """
    return _cached(size, seed) if size <= _MOST_CACHED else _flip_chunks(size, seed)


@lru_cache(maxsize=4)
def _cached(size: int, seed: int) -> tuple[Floats, ...]:
    return tuple(_flip_chunks(size, seed))


def _flip_chunks(size: int, seed: int) -> Iterator[Floats]:
    if size <= ENUMERATED:
        yield ((np.arange(2**size)[:, None] >> np.arange(size)) & 1).astype(np.float64)
        return
    random = np.random.default_rng(seed)
    for start in range(0, FLIPS, _CHUNK):
        rows = min(_CHUNK, FLIPS - start)
        packed = np.frombuffer(random.bytes(rows * -(-size // 8)), np.uint8).reshape(rows, -1)
        yield np.unpackbits(packed, axis=1, count=size).astype(np.float64)


def n_flips(size: int) -> int:
    """The number of `sign_flips`."""
    return 2**size if size <= ENUMERATED else FLIPS


def sign_flip_p(units: Units, seed: int = 0, *, shift: float = 0.0, greater: bool = False) -> float:
    """The p of a sign-flip permutation test over whole units, whose hypothesis is that there is no difference.

    Parameters
    ----------
    shift : float
        Test for this difference instead of 0.
    greater : bool
        One-sided: only permutations at least as far above count. Else two-sided.

    Examples
    --------
    >>> units = Units.from_scores(np.full(6, 0.1), np.arange(6), per_query=True)
    >>> sign_flip_p(units) == 2 / 2**6, sign_flip_p(units, greater=True) == 1 / 2**6
    (True, True)
    """
    value = units.value - shift * units.weight
    total = value.sum()
    almost = _ALMOST * np.abs(value).sum()
    hits = 0
    for flipped in sign_flips(len(units), seed):
        sums = total - 2 * (flipped @ value)
        far = sums >= total - almost if greater else np.abs(sums) >= np.abs(total) - almost
        hits += int(far.sum())
    return hits / 2 ** len(units) if len(units) <= ENUMERATED else (1 + hits) / (1 + FLIPS)


def t_quantile(freedom: int, share: float) -> float:
    """The value of Student's t with `freedom` degrees of freedom below which `share` of its distribution lies.

    Examples
    --------
    >>> round(t_quantile(1, 0.75), 9)
    1.0
    """
    from scipy.special import stdtrit  # a seventh of a second, for who asks for it alone

    return float(stdtrit(freedom, share))


def interval(units: Units, level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """The confidence interval of the mean; None below 6 units.

    From 20 units on a t interval with the jackknife's standard error; below that all differences that the sign-flip
    test does not reject.

    Examples
    --------
    >>> interval(Units.from_scores(np.arange(5.0), np.arange(5), per_query=True)) is None
    True
    """
    if len(units) < FEWEST:
        return None
    if len(units) < JACKKNIFE_FROM:
        return _by_inversion(units, 1 - level, seed)
    half = t_quantile(len(units) - 1, (1 + level) / 2) * units.error
    return units.mean - half, units.mean + half


def _by_inversion(units: Units, alpha: float, seed: int) -> tuple[float, float]:
    """The interval of all shifts for which the sign-flip test has p > alpha.

    A permutation is at least as far from 0 as the data where the shift lies between the mean of the flipped units and
    the mean of the others, both ends included. So the p changes at the ends of these ranges, taken in order.
    """
    low, high, size = [], [], len(units)
    for flipped in sign_flips(size, seed):
        count = flipped.sum(axis=1)
        some = flipped[(count > 0) & (count < size)]
        others = 1 - some
        ends = some @ units.value / (some @ units.weight), others @ units.value / (others @ units.weight)
        endless = np.full(len(flipped) - len(some), np.inf)  # all or none flipped: as far from 0 whatever the shift
        low += [np.minimum(*ends), -endless]
        high += [np.maximum(*ends), endless]
    total = 2**size if size <= ENUMERATED else 1 + FLIPS
    rejected = math.floor(round(alpha * total, 9))  # the p is a count over `total`, and up to this count it rejects
    rank = rejected if size <= ENUMERATED else rejected - 1
    return float(np.sort(np.concatenate(low))[rank]), float(np.sort(np.concatenate(high))[-1 - rank])


def detectable_effect(units: Units) -> float | None:
    """Minimum detectable effect: the smallest true difference that shows with 80 % power; None below 6 units."""
    return None if len(units) < FEWEST else _standard_errors(len(units)) * units.error


def detectable_effect_for(n_units: int, spread: float) -> float:
    """The minimum detectable effect of `n_units` units whose means have this standard deviation."""
    return _standard_errors(n_units) * spread / math.sqrt(n_units)


def _standard_errors(size: int) -> float:
    """How many standard errors a difference needs to show with 80 % power in a two-sided test at 5 %."""
    return t_quantile(size - 1, 0.975) + t_quantile(size - 1, 0.8)


def detectable_effect_floor(scores: Floats, unit: Ints) -> float | None:
    """The limit of `detectable_effect` as the same units get more queries; None where it is unknown.

    It stays above 0 because the units differ from one another.
    """
    _, code, counts = np.unique(unit, return_inverse=True, return_counts=True)
    size, n = len(counts), len(scores)
    if size < FEWEST or n == size:
        return None
    means = np.bincount(code, scores) / counts
    between = (counts * (means - scores.mean()) ** 2).sum() / (size - 1)
    within = ((scores - means[code]) ** 2).sum() / (n - size)
    typical = (n - (counts**2).sum() / n) / (size - 1)
    return _standard_errors(size) * math.sqrt(max(0.0, (between - within) / typical) / size)


def units_needed(units: Units, difference: float) -> int | None:
    """How many units like these show `difference` with 80 % power: at least as many as there are.

    None below 6 units, and where a million units would be too few.
    """
    if len(units) < FEWEST:
        return None
    spread, sizes = units.error * math.sqrt(len(units)), range(len(units), 10**6 + 1)
    position = bisect_left(sizes, True, key=lambda size: detectable_effect_for(size, spread) <= difference)
    return sizes[position] if position < len(sizes) else None


def queries_needed(difference: float, spread: float = 0.25, *, a_unit: int = 1, alike: float = 0.0) -> int:
    """How many labelled queries a study needs to show a true `difference` with 80 % power, before there are any.

    Parameters
    ----------
    difference : float
        The minimum detectable effect, as a difference of a metric.
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
