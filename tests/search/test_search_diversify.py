from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.schemas import Floats, Ints
from memkit.search.alike import NOWHERE, jaccard, pairwise_cosines
from memkit.search.steps.collapse import mmr


def in_order(score: Floats, similarity: Floats, mmr_lambda: float, depth: int | None = None) -> tuple[Ints, Floats]:
    """The candidates by place, and what each lost, under one setting."""
    place, penalty = mmr(score[:, None], similarity, mmr_lambda, depth)
    return np.argsort(place[:, 0]), penalty[:, 0]


def greedy(score: Floats, similarity: Floats, mmr_lambda: float) -> list[int]:
    """MMR as the paper writes it, one set at a time."""
    picked: list[int] = []
    while len(picked) < len(score):
        remaining = [i for i in range(len(score)) if i not in picked]
        value = {
            i: mmr_lambda * score[i] - (1 - mmr_lambda) * max((similarity[i, j] for j in picked), default=0.0)
            for i in remaining
        }
        picked.append(max(remaining, key=lambda i: (round(value[i], 6), -i)))
    return picked


@pytest.mark.quick
def test_the_penalty_looks_at_all_hits_above_not_at_the_last() -> None:
    like_first = np.eye(3)
    like_first[2, 0] = like_first[0, 2] = 0.9
    order, penalty = in_order(np.array([1.0, 0.9, 0.8]), like_first, 0.5)
    assert order.tolist() == [0, 1, 2]
    assert penalty.tolist() == [0.0, 0.0, 0.45]


@settings(max_examples=50)
@given(st.integers(0, 8), st.just(1.0) | st.floats(0, 1), st.integers(0, 10_000))
def test_it_is_the_greedy_rule_and_picks_do_not_depend_on_depth(size: int, mmr_lambda: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    score = np.sort(np.round(rng.random(size), 2))[::-1]
    similarity = rng.random((size, size))
    similarity = (similarity + similarity.T) / 2
    order, _ = in_order(score, similarity, mmr_lambda)
    assert order.tolist() == greedy(score, similarity, mmr_lambda)
    for depth in range(size + 1):
        assert in_order(score, similarity, mmr_lambda, depth)[0][:depth].tolist() == order[:depth].tolist()


@settings(max_examples=50)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 8), st.integers(0, 10_000))
def test_many_settings_are_each_as_alone(size: int, columns: int, depth: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    score, similarity = -np.sort(-np.round(rng.random((size, columns)), 2), axis=0), rng.random((size, size))
    order = np.argsort(rng.random((size, columns)), axis=0)
    weights, alive = rng.random(columns), rng.integers(0, size + 1, columns)
    place, penalty = mmr(score, similarity, weights, depth, order, alive)
    for column, count in enumerate(alive.tolist()):
        rows, one = order[:count, column], [column]
        among = similarity[rows][:, rows]
        expected = mmr(score[:count, one], among, weights[one], depth)
        assert place[:count, one].tolist() == expected[0].tolist()
        assert penalty[:count, one].tolist() == expected[1].tolist()
        assert (place[count:, column] == NOWHERE).all()


def test_jaccard_is_shared_by_either_and_works_on_cyrillic() -> None:
    terms = [["пул", "соединен", "пул"], ["пул", "баз"], ["deploy"]]
    expected = [[len(set(a) & set(b)) / len(set(a) | set(b)) for b in terms] for a in terms]
    assert jaccard(terms).tolist() == np.array(expected, np.float32).tolist()


def test_opposite_vectors_are_unlike_not_negative() -> None:
    unit = np.array([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8]], np.float32)
    np.testing.assert_allclose(pairwise_cosines(unit)[0], [1.0, 0.0, 0.6], rtol=1e-6)
