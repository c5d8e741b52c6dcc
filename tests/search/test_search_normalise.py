from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from memkit.errors import ParameterError
from memkit.search.state import group_starts, rank_within, spread
from memkit.search.steps.fuse import HOW, normalize

NAN = np.nan
finite = st.floats(-1e300, 1e300)
tables = st.lists(st.tuples(st.integers(0, 4), st.one_of(finite, st.just(NAN), st.just(np.inf))), max_size=40)


def one(scores: list[float], how: str) -> list[float]:
    return normalize(np.zeros(len(scores), np.int64), np.array(scores), how).tolist()


@pytest.mark.quick
def test_each_way_is_its_formula() -> None:
    scores = [4.0, 1.0, 2.0]
    assert one(scores, "max") == [4 / 4, 1 / 4, 2 / 4]
    assert one(scores, "minmax") == [(4 - 1) / 3, 0.0, (2 - 1) / 3]
    assert one(scores, "rank") == [3 / 3, 1 / 3, 2 / 3]
    assert one(scores, "none") == scores


@pytest.mark.quick
@pytest.mark.parametrize("how", ["max", "minmax", "rank"])
def test_a_single_hit_and_a_tie_are_one_never_zero(how: str) -> None:
    assert one([0.02], how) == [1.0]
    assert one([7.5, 7.5, 7.5], how) == [1.0, 1.0, 1.0]


@pytest.mark.quick
def test_a_tie_of_negative_scores_is_still_one_by_range_and_rank() -> None:
    assert one([-0.2, -0.2], "minmax") == [1.0, 1.0]
    assert one([-0.2], "rank") == [1.0]


def test_negative_cosines_count_nothing_under_max() -> None:
    assert one([0.5, -0.5, 0.25], "max") == [1.0, 0.0, 0.5]
    assert one([-0.5, -0.1], "max") == [0.0, 0.0]


@pytest.mark.parametrize("how", HOW)
def test_what_an_arm_did_not_find_counts_zero_and_moves_nobody(how: str) -> None:
    with_gap, without = one([3.0, NAN, 1.0, 2.0], how), one([3.0, 1.0, 2.0], how)
    assert with_gap[1] == 0.0
    assert [with_gap[0], *with_gap[2:]] == without


@pytest.mark.parametrize("bad", [NAN, np.inf, -np.inf])
@pytest.mark.parametrize("how", HOW)
def test_what_is_no_number_never_comes_through(bad: float, how: str) -> None:
    assert one([bad, 2.0, 1.0], how)[0] == 0.0
    assert one([bad, bad], how) == [0.0, 0.0]


def test_a_difference_of_single_precision_is_no_difference() -> None:
    assert one([0.71234567, 0.71234563], "minmax") == [1.0, 1.0]


def test_queries_do_not_see_each_other() -> None:
    query = np.array([0, 0, 2, 2, 2])
    norm = normalize(query, np.array([10.0, 5.0, 0.2, 0.1, 0.3]), "max")
    assert norm.tolist() == [1.0, 0.5, 0.2 / 0.3, 0.1 / 0.3, 1.0]


def test_an_unknown_way_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="one of 'max', 'minmax', 'rank', 'none'"):
        normalize(np.zeros(1, np.int64), np.ones(1), "zscore")


@settings(max_examples=50)
@given(tables, st.sampled_from(["max", "minmax", "rank"]))
def test_results_are_in_zero_to_one_and_keep_the_order(table: list[tuple[int, float]], how: str) -> None:
    query = np.array(sorted(q for q, _ in table), np.int64)
    score = np.array([s for _, s in table], np.float64)
    norm = normalize(query, score, how)
    assert ((norm >= 0) & (norm <= 1)).all()
    for q in np.unique(query):
        mine = np.flatnonzero((query == q) & np.isfinite(score))
        assert (np.diff(norm[mine][np.argsort(score[mine], kind="stable")]) >= 0).all()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.2, 0.5, 3.0])), min_size=1, max_size=30))
def test_ranks_are_scipys_minimum_ranks(table: list[tuple[int, float]]) -> None:
    query = np.array(sorted(q for q, _ in table))
    score = np.array([s for _, s in table])
    expected = np.concatenate([rankdata(-score[query == q], method="min") for q in np.unique(query)])
    assert rank_within(query, score).tolist() == expected.tolist()


def test_starts_and_spread_cover_every_row() -> None:
    query = np.array([1, 1, 4, 5, 5, 5])
    starts = group_starts(query)
    assert starts.tolist() == [0, 2, 3]
    assert spread(np.array([7, 8, 9]), starts, 6).tolist() == [7, 7, 8, 9, 9, 9]
    assert group_starts(np.empty(0, np.int64)).tolist() == []
