"""Statistics for few users with many queries each: sign-flip permutation tests, intervals, power.

Queries of one user are alike, so tests over queries find differences where there are none. Here the unit is the user,
or whatever groups queries that are not independent. All of it is arithmetic over two numbers a unit.

Of a choice among many settings the score of the best is too high, as it was chosen for that score, and an ordinary test
of it is too. So the choice itself is repeated: on held-out users, and on data where whole users flip their sign. That
is arithmetic over one array, settings × units.

There are three methods, as none replaces another (24 settings, 20 to 100 users, 60 runs a cell). Sign flips test, and
estimate nothing: the mean over folds that they use is off by .07 to .19 of a query's standard deviation, while the
resamples of `expected_gain` are off by .04 to .13. The settings within one standard error of the best lack the truly
best in 35 to 75 of 100 runs, while the confidence set of `plateau` never lost it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np

from memkit.errors import ParameterError
from memkit.schemas import Floats, Ints, Mask

FEWEST = 6
"""With fewer units no p is below .05: of 5 units, two of the 32 sign flips are as extreme as any."""
JACKKNIFE_FROM = 20
"""From so many units on the jackknife's interval has the coverage that it states."""
ENUMERATED = 13
"""Up to so many units all sign flips are enumerated."""
FLIPS = 9_999
"""With the data as they are it is the ten thousandth, so p is a whole number of ten-thousandths."""
_CHUNK = 1_024
"""Flips in memory at once, where there are too many units to keep them."""
_MOST_CACHED = 64
"""The sign flips of up to so many units are cached: some megabytes."""
ALMOST = 1e-10
"""Means, ratios and sums (as a share of all values) that differ by less differ by rounding."""


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


# A run has one number of units, a guard another; each is some megabytes.
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
        # Each row takes whole bytes, so where a chunk ends does not change which bits a flip gets.
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
    almost = ALMOST * np.abs(value).sum()
    hits = 0
    for flipped in sign_flips(len(units), seed):
        sums = total - 2 * (flipped @ value)
        far = sums >= total - almost if greater else np.abs(sums) >= np.abs(total) - almost
        hits += int(far.sum())
    # The data as they are stand among all flips, but not among drawn ones: with one more, p is never 0.
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
    # A million: beyond it the answer is that labels do not help.
    spread, sizes = units.error * math.sqrt(len(units)), range(len(units), 10**6 + 1)
    position = bisect_left(sizes, True, key=lambda size: detectable_effect_for(size, spread) <= difference)
    return sizes[position] if position < len(sizes) else None


# The usual spread of differences by question; whoever has labels gives the spread of their own.
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
    # 7.85 is (1.96 + .84)², of the quantiles for 5 % and 80 %; 1.9, half of 1.96², makes up for the wider ones of a t
    # test.
    return math.ceil((7.85 * (spread / difference) ** 2 + 1.9) * (1 + (a_unit - 1) * alike))


FOLDS = 5
RESAMPLES = 1_000
"""Folds of units and resamples of them, as in the simulation of three methods above, whose figures hold for these."""
REJECTED = 0.1
"""The plateau is what a model confidence set at 90 % does not reject."""
# A guess: else a difference without spread would be infinitely sure.
_LEAST = 1e-5
"""The least deviation, as a share of the largest, that a difference is divided by."""
_CELLS = 2**22
"""Sums in memory at once, settings × flips × folds: some 32 MiB."""
_BITS = 51
"""Doubles hold whole numbers of 53 bits exactly: a sum of so many, and twice it, as a flip subtracts, stay below."""
_FOLDS_OF, _RESAMPLES_OF = 1, 2  # one stream of chance each, beside that of the flips


@dataclass(frozen=True)
class Contest:
    """The gains of all settings over the default: by query, and by unit as `Units` has them.

    Attributes
    ----------
    gain : ndarray of shape (n_settings, n_queries)
    value : ndarray of shape (n_settings, n_units)
        Sums over a unit's queries where the mean is over queries, else their means; with `weight` as in `Units`.
    weight : ndarray of shape (n_units,)
    unit : ndarray of int, shape (n_queries,)
        From 0.
    default : int
        The row that the others are compared with; it cannot be chosen.
    """

    gain: Floats
    value: Floats
    weight: Floats
    unit: Ints
    default: int

    @classmethod
    def from_scores(cls, scores: Floats, unit: Ints, default: int = 0, per_query: bool = True) -> Self:
        """From scores, settings × queries; queries that have no score (NaN) in any setting are left out.

        Raises
        ------
        ParameterError
            Where nothing can be compared: no other setting, no query, or a query that only some settings score.

        Examples
        --------
        >>> scores, unit = np.array([[0.0, 0, 0], [0.3, 0, 0]]), np.array([0, 1, 1])
        >>> contest = Contest.from_scores(scores, unit)
        >>> contest.means.round(3).tolist(), contest.n_units
        ([0.0, 0.1], 2)
        """
        scores = np.asarray(scores, np.float64)
        has = _scored(scores, np.asarray(unit))
        gain = scores[:, has] - scores[default, has]
        _, code, counts = np.unique(np.asarray(unit)[has], return_inverse=True, return_counts=True)
        order = np.argsort(code, kind="stable")
        sums = np.add.reduceat(gain[:, order], np.cumsum(counts) - counts, axis=1)
        size = gain.shape[1] / len(counts) if per_query else counts
        return cls(gain, sums / size, counts / size, code, default)

    @property
    def n_units(self) -> int:
        return len(self.weight)

    @property
    def others(self) -> Ints:
        """The rows to choose from."""
        return np.delete(np.arange(len(self.value)), self.default)

    @property
    def means(self) -> Floats:
        means: Floats = self.value.sum(axis=1) / self.weight.sum()
        return means

    @property
    def best(self) -> int:
        """The setting with the highest mean, the default apart; the first of equals."""
        return int(self.others[_exact(self.value[self.others]).sum(axis=1).argmax()])

    def units(self, value: Floats) -> Units:
        return Units(value, self.weight, self.gain.shape[1])

    def within(self) -> Mask:
        """Which settings lie within one standard error of the best: the error, over units, of the difference to it."""
        behind = self.value[self.best] - self.value
        if self.n_units < 2:  # which has no error
            is_equal: Mask = behind.sum(axis=1) <= ALMOST
            return is_equal
        mean, error = behind.sum(axis=1) / self.weight.sum(), jackknife_error(behind, self.weight)
        is_near: Mask = mean <= error * (1 + ALMOST) + ALMOST
        return is_near


def _scored(scores: Floats, unit: Ints) -> Mask:
    """Which queries have scores."""
    if scores.ndim != 2 or scores.shape[1] != len(unit):
        raise ParameterError(f"scores: expected settings × queries, {len(unit)} columns. Got {scores.shape}.")
    if len(scores) < 2:
        raise ParameterError("grid: expected a setting beside the search's own. Got none.")
    none = np.isnan(scores)
    if np.isinf(scores).any():
        raise ParameterError("scores: expected numbers. Got infinity.")
    if (torn := none.any(axis=0) & ~none.all(axis=0)).any():
        query = int(torn.argmax())
        raise ParameterError(
            f"scores: expected each query scored in every setting or in none. Query {query} lacks a score in setting"
            f" {int(none[:, query].argmax())}, {int(torn.sum())} queries in all."
        )
    if none.all():
        raise ParameterError("scores: expected a query that has a score. Got none.")
    has: Mask = ~none[0]
    return has


def _exact(value: Floats) -> Floats:
    """`value` as whole numbers of a fine step, so that sums are exact in any order.

    So equal sums are equal, and a choice does not depend on the number of threads.
    """
    peak = np.abs(value).max(initial=0.0)
    if not peak:
        return np.zeros_like(value)
    bits = _BITS - math.ceil(math.log2(max(value.shape[-1], 2))) - math.ceil(math.log2(peak))
    return np.rint(np.ldexp(value, bits))


def folds(n_units: int, seed: int) -> Ints:
    """The fold of each unit: `FOLDS` of them, as even as can be."""
    # A permutation and not a draw for each unit: folds of few units would differ in size, and some be empty.
    return np.random.default_rng([seed, _FOLDS_OF]).permutation(n_units) % FOLDS


@dataclass(frozen=True)
class Retuned:
    """The result of the sign-flip test in which the choice is repeated.

    Attributes
    ----------
    held_out : Units
        The gain on each unit of the setting chosen on the other folds.
    gain : ndarray of shape (n_queries,)
        The same by query.
    ratios : ndarray of shape (n_flips,)
        The studentised sum of each permutation, sorted.
    p, p_worse : float
        The one-sided p of a gain, and of a loss.
    adjusted : ndarray of shape (n_settings,)
        The p of each setting being better than the default, adjusted for all (MaxT); NaN for the default.
    n_flips : int
    """

    held_out: Units
    gain: Floats
    ratios: Floats
    p: float
    p_worse: float
    adjusted: Floats

    @property
    def n_flips(self) -> int:
        return len(self.ratios)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The t interval over units of the held-out gains, widened where the sign flips need it wider.

        The choices of the folds overlap, so their differences are not independent: on flat grids the plain t interval
        excluded 0 in 17 of 100 runs.
        """
        down, up = self._reaches((1 - level) / 2)
        return self.held_out.mean - up * self.held_out.error, self.held_out.mean + down * self.held_out.error

    def _reaches(self, alpha: float) -> tuple[float, float]:
        """How many standard errors below, and above, 0 have a p of alpha."""
        size, n_flips = len(self.held_out), self.n_flips
        # Rounded first: in floats the product may lie just below a whole count.
        least = math.floor(round(alpha * (n_flips + (size > ENUMERATED)), 9)) - (size > ENUMERATED)
        plain = t_quantile(size - 1, 1 - alpha)
        ends = np.array([-self.ratios[least], self.ratios[-1 - least]])
        down, up = ends * np.sqrt((size - 1) / np.maximum(size - ends**2, ALMOST))
        return max(float(down), plain), max(float(up), plain)

    @property
    def detectable(self) -> float:
        """Minimum detectable effect: the smallest true gain that these units show with 80 % power."""
        return (self._reaches(0.025)[1] + t_quantile(len(self.held_out) - 1, 0.8)) * self.held_out.error


def retune(contest: Contest, seed: int = 0) -> Retuned:
    """Flip-and-re-tune: a sign-flip permutation test of the cross-validated choice, studentised by unit.

    Each permutation flips whole units, for all settings at once, so that correlations between settings stay; then it
    repeats the whole choice. For a single setting it is the ordinary studentised sign-flip test.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> scores = np.vstack([np.zeros(60), random.normal(0.3, 0.1, 60), random.normal(0, 0.1, 60)])
    >>> found = retune(Contest.from_scores(scores, np.arange(60) // 3))
    >>> found.p <= 0.025, found.p_worse <= 0.025, round(found.held_out.mean, 1)
    (True, False, 0.3)
    """
    others, n_units = contest.others, contest.n_units
    value, fold = _exact(contest.value[others]), folds(n_units, seed)
    length = np.sqrt((value**2).sum(axis=1))
    length[length == 0] = np.inf  # a setting that changes nothing is never above
    totals, chosen = _choose(value, fold, np.ones((1, n_units)))
    observed_ratio, observed = _ratio(_held_out_values(value, fold, chosen))[0], totals[0] / length
    ratios, highest = [], []
    for sign in _signs(n_units, seed, len(others)):
        totals, again = _choose(value, fold, sign)
        ratios.append(_ratio(_held_out_values(value, fold, again) * sign))
        highest.append((totals / length).max(axis=1))
    ordered, tops = np.sort(np.concatenate(ratios)), np.sort(np.concatenate(highest))
    adjusted = np.full(len(contest.value), np.nan)
    adjusted[others] = _share(len(tops) - np.searchsorted(tops, observed - ALMOST), n_units)
    # The first row of choices is that of the data as they are, without a flip.
    rows = others[chosen[0]]
    return Retuned(
        contest.units(contest.value[rows[fold], np.arange(n_units)]),
        contest.gain[rows[fold][contest.unit], np.arange(len(contest.unit))],
        ordered,
        float(_share(len(ordered) - np.searchsorted(ordered, observed_ratio - ALMOST), n_units)),
        float(_share(np.searchsorted(ordered, observed_ratio + ALMOST, side="right"), n_units)),
        adjusted,
    )


def _share(hits: Any, n_units: int) -> Any:
    total = n_flips(n_units)
    return hits / total if n_units <= ENUMERATED else (1 + hits) / (1 + total)


def _signs(n_units: int, seed: int, n_settings: int) -> Iterator[Floats]:
    """The flips as signs, in blocks that fit into memory with all settings."""
    rows = max(1, _CELLS // (n_settings * FOLDS))
    for flipped in sign_flips(n_units, seed):
        for start in range(0, len(flipped), rows):
            yield 1 - 2 * flipped[start : start + rows]


def _choose(value: Floats, fold: Ints, sign: Floats) -> tuple[Floats, Ints]:
    """The sum of each setting, and without each fold the best, the first of equals: flips × settings, flips × folds."""
    parts = [sign[:, fold == number] @ value[:, fold == number].T for number in range(FOLDS)]
    totals: Floats = np.sum(parts, axis=0)
    return totals, np.stack([(totals - part).argmax(axis=1) for part in parts], axis=1)


def _held_out_values(value: Floats, fold: Ints, chosen: Ints) -> Floats:
    """The value on each unit of the setting chosen without the unit's fold, flips × units."""
    values_held: Floats = value.T.ravel()[chosen[:, fold] + np.arange(len(fold)) * len(value)]
    return values_held


def _ratio(held: Floats) -> Floats:
    """The sum over the Euclidean norm, a monotone function of Student's t; 0 where nothing differs."""
    length = np.sqrt((held**2).sum(axis=1))
    ratio: Floats = np.divide(held.sum(axis=1), length, out=np.zeros(len(held)), where=length > 0)
    return ratio


def _resamples(n_units: int, seed: int) -> Floats:
    """How often each unit is drawn, resamples × units."""
    random = np.random.default_rng([seed, _RESAMPLES_OF])
    units = random.integers(0, n_units, (RESAMPLES, n_units)) + np.arange(RESAMPLES)[:, None] * n_units
    return np.bincount(units.ravel(), minlength=RESAMPLES * n_units).reshape(RESAMPLES, -1).astype(np.float64)


def expected_gain(contest: Contest, seed: int = 0) -> float | None:
    """The expected gain of choosing the best: chosen on resampled units, scored on those left out.

    The bootstrap bias-corrected cross-validation of Tsamardinos and others (Machine Learning, 2018). None below 6
    units.

    Examples
    --------
    >>> flat = np.random.default_rng(0).normal(0, 0.3, (50, 100))
    >>> contest = Contest.from_scores(flat, np.arange(100))
    >>> bool(contest.means.max() > 0.05), abs(expected_gain(contest)) < 0.05  # the best of 50 looks better than it is
    (True, True)
    """
    if contest.n_units < FEWEST:
        return None
    others, n_drawn = contest.others, _resamples(contest.n_units, seed)
    chosen = others[(n_drawn @ _exact(contest.value[others]).T).argmax(axis=1)]
    out = n_drawn == 0
    # Of six units one resample in 65 draws each once, and leaves nobody out to be scored on.
    any_out = out.any(axis=1)
    gained = np.where(out, contest.value[chosen], 0.0).sum(axis=1)[any_out]
    return float(np.mean(gained / np.where(out, contest.weight, 0.0).sum(axis=1)[any_out]))


def plateau(contest: Contest, seed: int = 0) -> Mask:
    """Which settings cannot be told apart from the best.

    The model confidence set at 90 % of Hansen, Lunde and Nason (Econometrica, 2011), over units, from 20 units on;
    below that the settings within one standard error of the best.
    """
    return _confidence_set(contest, seed) if contest.n_units >= JACKKNIFE_FROM else contest.within()


def _confidence_set(contest: Contest, seed: int) -> Mask:
    """Remove the worst setting as long as one is further below the mean of the remaining than chance explains.

    Settings with equal scores count as one. The variances of the differences to that mean come from one covariance
    matrix, so that a step costs settings × resamples.
    """
    exact, row_of_setting = np.unique(_exact(contest.value), axis=0, return_inverse=True)
    n_drawn, weight = _resamples(contest.n_units, seed), _exact(contest.weight[None])[0]
    mean = exact.sum(axis=1) / weight.sum()
    centred = (n_drawn @ exact.T / (n_drawn @ weight)[:, None] - mean).T
    spread = centred @ centred.T / RESAMPLES
    variances, along = np.diag(spread), spread.sum(axis=1)
    remaining, chance = (
        np.arange(len(exact)),
        centred.astype(np.float32),
    )  # single precision is enough for a null distribution
    while len(remaining) > 1:
        size = len(remaining)
        variance = variances[remaining] - 2 * along[remaining] / size + along[remaining].sum() / size**2
        deviation = np.sqrt(np.maximum(variance, 0.0))
        # A setting that lags by the same everywhere has no deviation: it is far behind whatever the rounding.
        deviation = np.maximum(deviation, _LEAST * max(deviation.max(), np.ptp(mean[remaining])))
        below = (mean[remaining].mean() - mean[remaining]) / deviation
        by_chance = ((chance.mean(axis=0) - chance) / deviation[:, None].astype(np.float32)).max(axis=0)
        if (by_chance >= below.max()).mean() >= REJECTED:
            break
        worst = int(below.round(9).argmax())
        along = along - spread[remaining[worst]]
        remaining, chance = np.delete(remaining, worst), np.delete(chance, worst, axis=0)
    return np.isin(row_of_setting.ravel(), remaining)


def distances(settings: Sequence[Mapping[str, Any]], default: int) -> Floats:
    """Distances of settings from the default: numbers as a share of their range, other values 0 or 1.

    Examples
    --------
    >>> settings = [{"w": 0.5, "fold": "none"}, {"w": 0.7, "fold": "none"}, {"w": 1.0, "fold": "near"}]
    >>> distances(settings, 0).round(2).tolist()
    [0.0, 0.4, 2.0]
    """
    names = sorted({name for setting in settings for name in setting})
    total = np.zeros(len(settings))
    for name in names:
        total += _apart([setting.get(name) for setting in settings], default)
    return total


def _apart(values: list[Any], default: int) -> Floats:
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        return np.array([float(value != values[default]) for value in values])
    wide = max(numbers) - min(numbers)
    return np.abs(np.array(numbers, np.float64) - numbers[default]) / (wide or 1.0)


def nearest(contest: Contest, distance: Floats) -> int:
    """The setting nearest the default among those within one standard error of the best; of equals the best."""
    candidates = np.flatnonzero(contest.within() & (np.arange(len(distance)) != contest.default))
    return int(
        candidates[np.lexsort((candidates, -contest.means[candidates].round(12), distance[candidates].round(12)))[0]]
    )
