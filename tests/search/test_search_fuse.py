from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import ParameterError
from memkit.index.encoders.base import Calibration
from memkit.search.settings import QuerySettings
from memkit.search.steps.fuse import Floats, fuse, normalize
from memkit.search.steps.recall import ARMS, arm_weights

NAN = np.nan


def weights_of(vector_weight: float, bm25_weight: float | None, arms: list[str]) -> dict[str, float]:
    """The weights that a Retriever of these parameters gives `arms`."""
    params = QuerySettings(vector_weight=vector_weight, bm25_weight=bm25_weight, gram_weight=0.0)
    return arm_weights({name: kind.weight(params) for name, kind in ARMS.items()}, arms, Calibration()._asdict())


HALVES = np.array([0.5, 0.5])


def by_arm(query: list[int], scores: list[list[float]], how: str) -> Floats:
    """Norms of the arms' scores, NaN where an arm did not find a candidate."""
    return np.stack([normalize(np.array(query), np.array(column), how) for column in zip(*scores, strict=True)], axis=1)


@pytest.mark.quick
def test_scores_are_fused_by_their_weighted_sum() -> None:
    norm = np.array([[1.0, 0.5], [0.8, 0.0]])
    assert fuse(norm, HALVES).tolist() == [0.5 * 1.0 + 0.5 * 0.5, 0.5 * 0.8]
    assert fuse(norm, np.array([0.3, 0.7])).tolist() == pytest.approx([0.3 + 0.7 * 0.5, 0.3 * 0.8])


@pytest.mark.quick
def test_rrf_is_the_published_sum_scaled_so_that_first_everywhere_is_one() -> None:
    scores = [[9.0, 2.0], [1.0, 3.0], [2.0, NAN]]  # of places 1 and 2, 3 and 1, 2 and none
    published = np.array([1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62])
    assert fuse(by_arm([0, 0, 0], scores, "rrf"), HALVES).tolist() == pytest.approx((published * 61 / 2).tolist())
    assert fuse(by_arm([0], [[9.0, 2.0]], "rrf"), HALVES).tolist() == [1.0]


@settings(max_examples=50)
@given(st.sampled_from(["max", "rank", "rrf"]), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.01, 0.99))
def test_found_in_both_never_ranks_below_found_in_one(how: str, first: float, second: float, weight: float) -> None:
    norm = by_arm([0, 0], [[first, second], [first, NAN]], how)
    both, single = fuse(norm, np.array([weight, 1 - weight]))
    assert both >= single


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=9))
def test_scores_stay_within_zero_and_one(norm: list[tuple[float, float]]) -> None:
    scores = fuse(np.array(norm), np.array([0.7, 0.3]))
    assert ((scores >= 0) & (scores <= 1 + 1e-12)).all()


@pytest.mark.parametrize(("old", "now"), [("fusion", "normalize='rrf'"), ("rrf_k", "60"), ("prefer_alike", "prefer=")])
def test_a_parameter_that_went_says_what_to_use(old: str, now: str) -> None:
    with pytest.raises(ParameterError, match=f"no parameter '{old}'.*It is gone: .*{now}"):
        QuerySettings(**{old: 1})


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
