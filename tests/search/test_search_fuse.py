from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import ParameterError
from memkit.index.encoders.base import Calibration
from memkit.search.ask import QuerySettings
from memkit.search.steps.fuse import METHODS, Evidence, Floats, fuse
from memkit.search.steps.recall import ARMS, arm_weights

NAN = np.nan


def weights_of(vector_weight: float, bm25_weight: float | None, arms: list[str]) -> dict[str, float]:
    """The weights that a Retriever of these parameters gives `arms`."""
    params = QuerySettings(vector_weight=vector_weight, bm25_weight=bm25_weight, gram_weight=0.0)
    return arm_weights({name: kind.weight(params) for name, kind in ARMS.items()}, arms, Calibration()._asdict())


HALVES = np.array([0.5, 0.5])


def evidence(norm: list[list[float]], rank: list[list[int]] | None = None) -> Evidence:
    """Norms with 0 for not found; ranks default to 1 where found."""
    norms = np.array(norm)
    ranks = (norms > 0).astype(int) if rank is None else np.array(rank)
    return Evidence(norms, ranks)


def fused(norm: list[list[float]], method: str, weights: Floats = HALVES, **more: int) -> list[float]:
    return fuse(evidence(norm), weights, method, **more).tolist()


@pytest.mark.quick
def test_each_method_is_its_formula() -> None:
    norm = [[1.0, 0.5], [0.8, 0.0]]
    assert fused(norm, "weighted") == [0.5 * 1.0 + 0.5 * 0.5, 0.5 * 0.8]
    assert fused(norm, "weighted", np.array([0.3, 0.7])) == pytest.approx([0.3 + 0.7 * 0.5, 0.3 * 0.8])


@pytest.mark.quick
def test_rrf_is_the_published_sum_scaled_so_that_first_everywhere_is_one() -> None:
    ranks = [[1, 2], [3, 1], [2, 0]]
    ranked = Evidence(np.ones((3, 2)), np.array(ranks))
    published = np.array([1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62])
    assert fuse(ranked, HALVES, "rrf").tolist() == pytest.approx((published * 61 / 2).tolist())
    first = Evidence(np.ones((1, 2)), np.ones((1, 2), int))
    assert fuse(first, HALVES, "rrf").tolist() == [1.0]


@pytest.mark.quick
def test_the_constant_of_rrf_is_a_parameter() -> None:
    ranked = Evidence(np.ones((1, 2)), np.array([[1, 2]]))
    assert fuse(ranked, HALVES, "rrf", rrf_k=0).tolist() == [0.5 * 1 / 1 + 0.5 * 1 / 2]


@settings(max_examples=50)
@given(st.sampled_from(METHODS), st.floats(0.01, 1), st.floats(0, 1), st.floats(0.01, 0.99))
def test_found_in_both_never_ranks_below_found_in_one(method: str, first: float, second: float, weight: float) -> None:
    scored = evidence([[first, second], [first, 0.0]], [[1, 2], [1, 0]])
    both, single = fuse(scored, np.array([weight, 1 - weight]), method)
    assert both >= single


@settings(max_examples=50)
@given(st.sampled_from(METHODS), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=9))
def test_scores_stay_within_zero_and_one(method: str, norm: list[tuple[float, float]]) -> None:
    scores = fuse(evidence([list(row) for row in norm]), np.array([0.7, 0.3]), method)
    assert ((scores >= 0) & (scores <= 1 + 1e-12)).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_arm_alone_keeps_its_scores(method: str) -> None:
    scored = Evidence(np.array([[1.0], [0.5]]), np.array([[1], [2]]))
    scores = fuse(scored, np.array([1.0]), method)
    assert scores[0] == 1.0
    assert scores[1] == (61 / 62 if method == "rrf" else 0.5)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ParameterError, match="one of 'weighted', 'rrf'"):
        fused([[1.0, 1.0]], "borda")


def test_weights_are_rescaled_over_the_arms_that_exist() -> None:
    assert weights_of(0.7, 0.3, ["bm25", "vector"]) == pytest.approx({"bm25": 0.3, "vector": 0.7})
    assert weights_of(0.7, 0.3, ["bm25"]) == {"bm25": 1.0}
    assert weights_of(0.5, None, ["bm25", "vector"]) == {"bm25": 0.5, "vector": 0.5}


def test_scaling_both_weights_changes_nothing() -> None:
    assert weights_of(0.14, 0.06, ["bm25", "vector"]) == pytest.approx(weights_of(0.7, 0.3, ["bm25", "vector"]))


def test_an_arm_of_weight_zero_is_left_out() -> None:
    assert weights_of(0.0, None, ["bm25", "vector"]) == {"bm25": 1.0}
    assert weights_of(1.0, None, ["bm25", "vector"]) == {"vector": 1.0}


@pytest.mark.parametrize(("vector", "bm25"), [(-0.1, 0.5), (0.5, -0.1), (0.0, 0.0)])
def test_negative_and_all_zero_weights_are_refused(vector: float, bm25: float) -> None:
    with pytest.raises(ParameterError, match="vector_weight="):
        weights_of(vector, bm25, ["bm25", "vector"])


def test_where_there_are_no_vectors_words_stand_in_for_them() -> None:
    assert weights_of(1.0, None, ["bm25"]) == {"bm25": 1.0}
    assert weights_of(1.0, 0.0, ["bm25"]) == {"bm25": 1.0}
