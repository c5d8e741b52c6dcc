"""Flips, intervals, verdicts and power against brute force and scipy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

import memkit as mk
from memkit.evaluation import result as results
from memkit.evaluation.result import verdict
from memkit.evaluation.statistics import (
    FLIPS,
    Units,
    detectable_effect,
    detectable_effect_floor,
    interval,
    queries_needed,
    sign_flip_p,
    sign_flips,
    units_needed,
)

SEEDS = range(12)


def draw(seed: int, size: int, most: int = 6, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of queries and the unit of each, of uneven sizes."""
    random = np.random.default_rng(seed)
    unit = np.repeat(np.arange(size), random.integers(1, most + 1, size))
    return random.normal(shift, 1, len(unit)) + random.normal(0, 1, size)[unit], unit


def sums_under(signs: tuple[int, ...], scores: np.ndarray, unit: np.ndarray, per_query: bool) -> float:
    """The mean with the signs of whole units flipped, from the scores themselves."""
    flipped = scores * np.array(signs)[unit]
    if per_query:
        return float(flipped.mean())
    return float(np.mean([flipped[unit == u].mean() for u in range(len(signs))]))


@pytest.mark.quick
@pytest.mark.parametrize("per_query", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_p_is_the_share_of_all_flips_that_are_as_far(seed: int, per_query: bool) -> None:
    size = 2 + seed % 8
    scores, unit = draw(seed, size)
    far = [sums_under(signs, scores, unit, per_query) for signs in product((1, -1), repeat=size)]
    units = Units.from_scores(scores, unit, per_query)
    assert units.mean == pytest.approx(far[0])
    assert sign_flip_p(units) == np.mean(np.abs(far) >= abs(far[0]) - 1e-12)
    assert sign_flip_p(units, greater=True) == np.mean(np.array(far) >= far[0] - 1e-12)


@pytest.mark.quick
@pytest.mark.parametrize("seed", SEEDS)
def test_the_p_of_independent_queries_is_scipys(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(0.3, 1, 10)
    theirs = stats.permutation_test((scores,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(Units.from_scores(scores, np.arange(10), True)) == pytest.approx(theirs.pvalue)


@pytest.mark.quick
def test_sampled_flips_are_near_all_flips_and_no_p_is_0() -> None:
    scores, unit = draw(3, 14, shift=0.4)
    units = Units.from_scores(scores, unit, True)
    every = ((np.arange(2**14)[:, None] >> np.arange(14)) & 1).astype(float)
    sums = units.value.sum() - 2 * every @ units.value
    exact = np.mean(np.abs(sums) >= abs(sums[0]) - 1e-12)
    assert abs(sign_flip_p(units) - exact) < 4 * np.sqrt(exact * (1 - exact) / FLIPS)
    assert sign_flip_p(Units.from_scores(np.ones(40), np.arange(40), True)) == 1 / (1 + FLIPS)


@pytest.mark.parametrize("size", [1, 7, 8, 14, 100])
def test_flips_are_decided_by_the_seed_alone(size: int) -> None:
    drawn, again = (np.concatenate(list(sign_flips(size, 5))) for _ in range(2))
    assert np.array_equal(drawn, again)
    assert drawn.shape == (2**size if size <= 13 else FLIPS, size)
    if size > 13:
        assert not np.array_equal(drawn, np.concatenate(list(sign_flips(size, 6))))
        assert abs(drawn.mean() - 0.5) < 0.02
    else:
        assert len(np.unique(drawn, axis=0)) == 2**size


@pytest.mark.parametrize("level", [0.95, 0.9])
@pytest.mark.parametrize("per_query", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_interval_of_few_units_is_what_no_flip_test_refuses(seed: int, per_query: bool, level: float) -> None:
    scores, unit = draw(seed, (6, 7, 10, 15)[seed % 4])
    units = Units.from_scores(scores, unit, per_query)
    bounds = interval(units, level)
    assert bounds is not None
    low, high = bounds
    width, alpha = high - low, round(1 - level, 9)
    for inside in (low + 1e-6 * width, units.mean, high - 1e-6 * width):
        assert sign_flip_p(units, shift=inside) > alpha
    for outside in (low - 1e-6 * width, high + 1e-6 * width):
        assert sign_flip_p(units, shift=outside) <= alpha


def leave_out(scores: np.ndarray, unit: np.ndarray, per_query: bool) -> float:
    """The jackknife's error, from the scores themselves."""
    size = unit.max() + 1

    def mean(rows: np.ndarray) -> float:
        some = scores[rows]
        return float(
            some.mean() if per_query else np.mean([scores[rows & (unit == u)].mean() for u in set(unit[rows])])
        )

    whole = mean(np.ones(len(unit), bool))
    return float(np.sqrt((size - 1) / size * sum((mean(unit != u) - whole) ** 2 for u in range(size))))


@pytest.mark.parametrize("per_query", [True, False])
@pytest.mark.parametrize("seed", SEEDS[:5])
def test_the_interval_of_many_units_is_t_over_leaving_one_out(seed: int, per_query: bool) -> None:
    scores, unit = draw(seed, 20 + seed)
    units, error = Units.from_scores(scores, unit, per_query), leave_out(scores, unit, per_query)
    assert units.error == pytest.approx(error)
    assert interval(units) == pytest.approx(stats.t.interval(0.95, len(units) - 1, units.mean, error))


def test_the_interval_of_independent_queries_is_students() -> None:
    scores = np.random.default_rng(1).normal(0, 1, 50)
    theirs = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert interval(Units.from_scores(scores, np.arange(50), True)) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_few_units_allow_no_conclusion(size: int) -> None:
    units = Units.from_scores(np.full(1000, 0.5), np.arange(1000) % size, True)
    conclusion = verdict(units)
    assert interval(units) is None
    assert (conclusion.word, conclusion.p, conclusion.low, conclusion.detectable) == (
        "cannot tell yet",
        None,
        None,
        None,
    )
    assert conclusion.reason.startswith(f"too few users: {size}")


@pytest.mark.parametrize("size", [6, 12, 16, 30])
def test_the_four_words(size: int) -> None:
    noise = np.random.default_rng(size).normal(0, 0.01, size)
    noise -= noise.mean()

    def word(shift: float, times: float = 1.0, epsilon: float = 0.01) -> str:
        return verdict(Units.from_scores(shift + times * noise, np.arange(size), True), epsilon).word

    assert word(0.1) == "better"
    assert word(-0.1) == "worse"
    assert word(0.0) == "cannot tell yet" if size == 6 else word(0.0, 0.5) == "practically the same"
    assert word(0.0, 20) == "cannot tell yet"
    assert word(0.0, 20, epsilon=1.0) == "practically the same"


def test_no_difference_at_all_is_practically_none() -> None:
    conclusion = verdict(Units.from_scores(np.zeros(40), np.arange(40), True))
    assert (conclusion.word, conclusion.p, conclusion.low, conclusion.high) == ("practically the same", 1.0, 0.0, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_practically_the_same_is_two_one_sided_tests(seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(random.normal(0, 0.004), 0.03, 60)
    conclusion = verdict(Units.from_scores(scores, np.arange(60), True), 0.01)
    below = stats.ttest_1samp(scores, -0.01, alternative="greater").pvalue
    above = stats.ttest_1samp(scores, 0.01, alternative="less").pvalue
    if conclusion.word in ("practically the same", "cannot tell yet"):
        assert (conclusion.word == "practically the same") == (max(below, above) <= 0.05)


def test_an_interval_and_a_flip_test_that_disagree_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "sign_flip_p", lambda *_: 0.06)
    conclusion = verdict(Units.from_scores(np.random.default_rng(0).normal(0.5, 1, 40), np.arange(40), True))
    assert (conclusion.word, conclusion.reason) == (
        "cannot tell yet",
        "the 95 % interval excludes 0, but the sign-flip test has p = 0.060",
    )


@pytest.mark.parametrize("size", [25, 60])
def test_a_difference_of_the_detectable_size_is_found_four_times_in_five(size: int) -> None:
    random = np.random.default_rng(size)
    true = (stats.t.ppf(0.975, size - 1) + stats.t.ppf(0.8, size - 1)) / np.sqrt(size)
    n_found = 0
    for _ in range(2000):
        scores = random.normal(true, 1, size)
        n_found += stats.t.interval(0.95, size - 1, scores.mean(), scores.std(ddof=1) / np.sqrt(size))[0] > 0
    assert 0.76 < n_found / 2000 < 0.84
    units = Units.from_scores(random.normal(0, 1, size), np.arange(size), True)
    assert detectable_effect(units) == pytest.approx(true * np.sqrt(size) * units.error)


def test_more_users_show_smaller_differences() -> None:
    units = Units.from_scores(*draw(0, 30), True)
    now = detectable_effect(units)
    assert now is not None
    assert units_needed(units, now) == 30
    half = units_needed(units, now / 2)
    assert half is not None
    assert 4 * 30 * 0.9 < half <= 4 * 30  # more users, and fewer than four times as many as t has lighter tails then
    assert units_needed(units, 1e-9) is None
    assert units_needed(Units.from_scores(np.ones(5), np.arange(5), True), 0.1) is None


def test_more_queries_of_the_same_users_have_a_floor() -> None:
    random = np.random.default_rng(0)
    unit = np.repeat(np.arange(40), 50)
    scores = random.normal(0, 0.1, 40)[unit] + random.normal(0, 0.3, len(unit))
    floor, now = detectable_effect_floor(scores, unit), detectable_effect(Units.from_scores(scores, unit, True))
    assert floor is not None
    assert now is not None
    expected = (stats.t.ppf(0.975, 39) + stats.t.ppf(0.8, 39)) * 0.1 / np.sqrt(40)
    assert floor == pytest.approx(expected, rel=0.25)
    assert floor < now
    assert detectable_effect_floor(np.ones(40), np.arange(40)) is None


def test_the_number_of_queries_before_there_are_any() -> None:
    for difference in (0.02, 0.05, 0.1):
        n = queries_needed(difference)
        power = 1 - stats.nct.cdf(stats.t.ppf(0.975, n - 1), n - 1, difference / 0.25 * np.sqrt(n))
        assert power == pytest.approx(0.8, abs=0.01)
    assert queries_needed(0.05, a_unit=5, alike=0.1) == pytest.approx(198.15 * 1.4, abs=1)
    with pytest.raises(mk.errors.ParameterError, match="above 0"):
        queries_needed(0.0)
