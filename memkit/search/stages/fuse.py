"""One score out of several arms' scores.

`weighted` is the convex combination, `rrf` reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009),
`combmnz`, `combmax` and `combmin` the rules of Fox and Shaw (TREC-2, 1994). All stay within 0..1 when the normalised
scores do, whatever the number of arms, so that `min_score` means the same under each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from memkit.errors import ParameterError
from memkit.params import check_choice
from memkit.search.stages.normalise import Floats, Ints


@dataclass(frozen=True)
class Evidence:
    """What the arms say of each candidate; a column an arm.

    Attributes
    ----------
    raw : ndarray of float64, shape (n, arms)
        NaN where the arm did not find the candidate.
    norm : ndarray of float64, shape (n, arms)
        Normalised; 0 where not found.
    rank : ndarray of int64, shape (n, arms)
        From 1; 0 where not found.
    """

    raw: Floats
    norm: Floats
    rank: Ints


def arm_weights(wished: Mapping[str, float], arms: Iterable[str]) -> dict[str, float]:
    """The weight of each arm that exists, rescaled to the sum 1; an arm of weight 0 is left out.

    Raises
    ------
    ParameterError
        Where a weight is negative or no arm is left.

    Examples
    --------
    >>> arm_weights({"bm25": 0.3, "vector": 0.7}, ["bm25", "vector"])
    {'bm25': 0.3, 'vector': 0.7}
    >>> arm_weights({"bm25": 0.0, "vector": 1.0}, ["bm25"])  # no encoder: words alone, as the workspace document says
    {'bm25': 1.0}
    """
    came = ", ".join(f"{arm}_weight={weight:g}" for arm, weight in wished.items())
    if min(wished.values()) < 0:
        raise ParameterError(f"Retriever: the weights of the arms must not be negative. Got {came}.")
    kept = {arm: wished[arm] for arm in arms if wished[arm] > 0}
    if not kept and any(wished.values()):
        kept = dict.fromkeys(arms, 1.0)
    if not kept:
        raise ParameterError(f"Retriever: no arm has a weight: {came}. Expected a weight above 0.")
    total = sum(kept.values())
    return {arm: weight / total for arm, weight in kept.items()}


def _weighted(found: Evidence, weights: Floats, rrf_k: int) -> Floats:
    total: Floats = found.norm @ weights
    return total


def _rrf(found: Evidence, weights: Floats, rrf_k: int) -> Floats:
    # No rank, no credit: words that do not occur have none. The best possible sum is scaled to 1.
    credit = np.where(found.rank > 0, (rrf_k + 1) / (rrf_k + np.maximum(found.rank, 1)), 0.0)
    total: Floats = credit @ weights
    return total


def _combmnz(found: Evidence, weights: Floats, rrf_k: int) -> Floats:
    share: Floats = np.mean(found.rank > 0, axis=1)
    return _weighted(found, weights, rrf_k) * share


def _combmax(found: Evidence, weights: Floats, rrf_k: int) -> Floats:
    best: Floats = np.max(found.norm * (weights / weights.max()), axis=1)
    return best


def _combmin(found: Evidence, weights: Floats, rrf_k: int) -> Floats:
    least: Floats = np.min(found.norm * (weights / weights.max()), axis=1)
    return least


_METHODS: dict[str, Callable[[Evidence, Floats, int], Floats]] = {
    "weighted": _weighted,
    "rrf": _rrf,
    "combmnz": _combmnz,
    "combmax": _combmax,
    "combmin": _combmin,
}
METHODS = tuple(_METHODS)


def fuse(found: Evidence, weights: Floats, method: str = "weighted", rrf_k: int = 60) -> Floats:
    """The fused score of each candidate.

    Parameters
    ----------
    found : Evidence
        Raw scores, normalised scores and ranks, a column an arm.
    weights : ndarray of float64, shape (arms,)
        With the sum 1.
    method : str
        'weighted' = sum of weight x norm. 'rrf' = sum of weight x (rrf_k + 1) / (rrf_k + rank), without credit for
        a score of 0: the published sum of 1 / (rrf_k + rank), scaled so that first in every arm is 1. 'combmnz' = the
        weighted sum x the share of arms that found it. 'combmax' and 'combmin' = the largest and the smallest of
        norm x weight / largest weight.
    rrf_k : int
        The constant of 'rrf'.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    ParameterError
        Where `method` is not known.

    Examples
    --------
    >>> both = Evidence(np.array([[3.0, 0.8]]), np.array([[1.0, 0.5]]), np.array([[1, 2]]))
    >>> fuse(both, np.array([0.5, 0.5])).tolist()
    [0.75]
    """
    if method not in _METHODS:
        check_choice("fusion", method, METHODS, "fuse")
    return _METHODS[method](found, weights, rrf_k)
