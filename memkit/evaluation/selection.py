"""Selective inference: what a choice among many settings may claim on the labels that it was made on.

The score of the best setting is too high, as it was chosen for that score, and an ordinary test of it is too. Here the
choice itself is repeated: on held-out users, and on data where whole users flip their sign. All of it is arithmetic
over one array, settings × units.

There are three methods, as none replaces another (24 settings, 20 to 100 users, 60 runs a cell). Sign flips test, and
estimate nothing: the mean over folds that they use is off by .07 to .19 of a query's standard deviation, while the
resamples of `expected_gain` are off by .04 to .13. The settings within one standard error of the best lack the truly
best in 35 to 75 of 100 runs, while the confidence set of `plateau` never lost it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from memkit.errors import ParameterError
from memkit.evaluation.statistics import (
    ENUMERATED,
    FEWEST,
    JACKKNIFE_FROM,
    Units,
    jackknife_error,
    n_flips,
    sign_flips,
    t_quantile,
)
from memkit.schemas import Floats, Ints, Mask

FOLDS = 5
RESAMPLES = 1_000
REJECTED = 0.1
"""The plateau is what a model confidence set at 90 % does not reject."""
ALMOST = 1e-10
_LEAST = 1e-5
_CELLS = 2**22
"""Sums in memory at once, settings × flips × folds: some 32 MiB."""
_BITS = 51
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
