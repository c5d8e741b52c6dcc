"""Normalise the raw scores of the arms, query by query, and fuse them into one score.

All functions work on the flat table of candidates: `query` is sorted, `score` is NaN if an arm did not retrieve the
row. After normalising such a score is 0, and so is one that is not a number.

`weighted` is the convex combination, `rrf` is reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009). With
normalised scores from 0 to 1 both give scores from 0 to 1, for any number of arms, so that `min_score` means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memkit.base.params import check_choice
from memkit.errors import ParameterError
from memkit.schemas import Floats, Ints

Value = TypeVar("Value", bound=np.generic)

# Encoders and engines differ in the seventh digit from batch to batch; a smaller difference means nothing.
TIE_DIGITS = 6


def changes(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each value differs from the one before it; the first always does."""
    differs = np.ones(len(column), bool)
    np.not_equal(column[1:], column[:-1], out=differs[1:])
    return differs


def group_starts(query: Ints) -> Ints:
    """The index at which each query begins in the sorted column `query`."""
    return changes(query).nonzero()[0]


def spread(values: NDArray[Value], starts: Ints, size: int) -> NDArray[Value]:
    """One value per query, repeated for each of its rows."""
    ends = np.empty_like(starts)  # np.diff would take as long as all the rest
    ends[:-1], ends[-1:] = starts[1:], size
    return values.repeat(ends - starts)


def rank_within(query: Ints, score: Floats) -> Ints:
    """Rank of each row within its query, 1 for the highest score; ties share the better rank.

    Examples
    --------
    >>> rank_within(np.array([0, 0, 0, 1]), np.array([0.5, 0.9, 0.5, 0.1])).tolist()
    [2, 1, 2, 1]
    """
    rounded = score.round(TIE_DIGITS)
    order = np.lexsort((-rounded, query))
    place = np.arange(len(order))
    query_start = changes(query[order])
    run_start = query_start | changes(rounded[order])
    first_of_run = np.maximum.accumulate(np.where(run_start, place, 0))
    first_of_query = np.maximum.accumulate(np.where(query_start, place, 0))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = first_of_run - first_of_query + 1
    return ranks


def _by_max(query: Ints, score: Floats) -> Floats:
    starts = group_starts(query)
    clipped = np.maximum(score, 0.0)
    top = spread(np.maximum.reduceat(clipped, starts), starts, len(query))
    norm: Floats = np.divide(clipped, top, out=np.zeros_like(clipped), where=top > 0)
    return norm


def _by_range(query: Ints, score: Floats) -> Floats:
    starts = group_starts(query)
    half = score / 2  # the span of two halves cannot overflow
    low = spread(np.minimum.reduceat(half, starts), starts, len(query))
    high = spread(np.maximum.reduceat(half, starts), starts, len(query))
    span = high - low
    distinct = span > 10.0**-TIE_DIGITS * np.maximum(np.abs(low), np.abs(high))
    norm: Floats = np.divide(half - low, span, out=np.ones_like(half), where=distinct)
    return norm


def _by_rank(query: Ints, score: Floats) -> Floats:
    starts = group_starts(query)
    size = spread(np.diff(starts, append=len(query)), starts, len(query))
    share: Floats = (size - rank_within(query, score) + 1) / size
    return share


def _as_is(query: Ints, score: Floats) -> Floats:
    return score


_HOW: dict[str, Callable[[Ints, Floats], Floats]] = {
    "max": _by_max,
    "minmax": _by_range,
    "rank": _by_rank,
    "none": _as_is,
}
HOW = tuple(_HOW)


def calibrate(query: Ints, score: Floats, zero: Floats, one: Floats, everywhere: bool) -> Floats:
    """Normalise the scores of one arm on a scale that is the same for all queries: `zero` is 0, `one` is 1, clipped.

    Parameters
    ----------
    query, score
        As for `normalize`.
    zero, one : ndarray of float64, shape (n,)
        The scores that become 0 and 1, by candidate.
    everywhere : bool
        Whether the arm scores every row: then a row that it did not retrieve gets the score of the last that it did,
        which is an upper bound; else it gets 0.

    Examples
    --------
    >>> cosine = np.array([0.9, 0.3, np.nan])
    >>> calibrate(np.array([0, 0, 0]), cosine, np.full(3, 0.1), np.full(3, 0.9), everywhere=True).round(3).tolist()
    [1.0, 0.25, 0.25]
    """
    norm: Floats = np.clip((score - zero) / (one - zero), 0.0, 1.0)
    last: Any = 0.0
    if everywhere and norm.size:
        starts = group_starts(query)
        last = np.nan_to_num(spread(np.fmin.reduceat(norm, starts), starts, len(query)))
    return np.where(np.isnan(norm), last, norm)


def normalize(query: Ints, score: Floats, how: str = "minmax") -> Floats:
    """Normalise the scores of one arm within each query; `calibrate` is the alternative.

    Parameters
    ----------
    query : ndarray of int64, shape (n,)
        The query of each candidate, sorted.
    score : ndarray of float64, shape (n,)
        Higher is better; NaN if the arm did not retrieve the candidate.
    how : str
        'max' divides by the query's best (a negative cosine counts 0), 'minmax' maps worst to 0 and best to 1,
        'rank' uses the rank alone, 'none' leaves the score. A single candidate or a tie is 1, except under 'max' if no
        score is above 0.

    Returns
    -------
    ndarray of float64, shape (n,)
        Finite; 0 if the arm did not retrieve the candidate.

    Raises
    ------
    ParameterError
        If `how` is not one of these.

    Examples
    --------
    >>> normalize(np.array([0, 0, 0]), np.array([4.0, 1.0, np.nan]), "max").tolist()
    [1.0, 0.25, 0.0]
    >>> normalize(np.array([0]), np.array([0.3]), "minmax").tolist()
    [1.0]
    """
    if how not in _HOW:
        check_choice("how", how, _HOW, "normalize")
    norm = np.zeros(len(score))
    finite = np.flatnonzero(np.isfinite(score))
    if finite.size:
        norm[finite] = _HOW[how](query[finite], score[finite])
    return norm


class Evidence(NamedTuple):
    """Normalised scores and ranks of each candidate, one column per arm.

    Attributes
    ----------
    norm : ndarray of float64, shape (n, arms)
        0 if the arm did not retrieve the candidate.
    rank : ndarray of int64, shape (n, arms)
        From 1; 0 if the arm did not retrieve it.
    """

    norm: Floats
    rank: Ints


def arm_weights(
    requested: Mapping[str, float | None], arms: Iterable[str], stored: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """The weight of each of `arms`, rescaled to the sum 1; an arm of weight 0 is left out.

    Arms whose weight is None share the remaining weight in the proportions of `stored`.

    Raises
    ------
    ParameterError
        If a weight is negative, or all are 0.

    Examples
    --------
    >>> arm_weights({"bm25": 0.3, "vector": 0.7}, ["bm25", "vector"])
    {'bm25': 0.3, 'vector': 0.7}
    >>> arm_weights({"bm25": 0.0, "vector": 1.0}, ["bm25"])  # no encoder: words alone, as the workspace document says
    {'bm25': 1.0}
    >>> arm_weights({"bm25": None, "vector": 0.5, "gram": None}, ["bm25", "vector", "gram"], {"bm25": 6, "gram": 2})
    {'bm25': 0.375, 'vector': 0.5, 'gram': 0.125}
    """
    text = ", ".join(f"{arm}_weight={weight}" for arm, weight in requested.items())
    explicit = {arm: weight for arm, weight in requested.items() if weight is not None}
    if min(explicit.values(), default=0) < 0:
        raise ParameterError(f"Retriever: the weights of the arms must not be negative. Got {text}.")
    defaults = {arm: stored[arm] for arm in requested if arm not in explicit}
    share = max(0.0, 1.0 - sum(explicit.values())) / (sum(defaults.values()) or 1.0)
    weights = {arm: explicit[arm] if arm in explicit else share * defaults[arm] for arm in requested}
    positive = {arm: weights[arm] for arm in arms if weights[arm] > 0}
    if not positive and any(weights.values()):
        positive = dict.fromkeys(arms, 1.0)
    if not positive:
        raise ParameterError(f"Retriever: no arm has a weight: {text}. Expected a weight above 0.")
    total = sum(positive.values())
    return {arm: weight / total for arm, weight in positive.items()}


def _weighted(evidence: Evidence, weights: Floats, rrf_k: int) -> Floats:
    return _sum(evidence.norm, weights)


def _sum(columns: Floats, weights: Floats) -> Floats:
    """The weighted sum, arm by arm: unlike a matrix product, its last digits do not depend on the number of rows."""
    total: Floats = columns[:, :1] * weights[0]
    share = np.empty_like(total)
    for arm in range(1, columns.shape[1]):
        total += np.multiply(columns[:, arm : arm + 1], weights[arm], out=share)
    return total


def _rrf(evidence: Evidence, weights: Floats, rrf_k: int) -> Floats:
    # A candidate without a rank gets nothing from an arm. The best possible sum is scaled to 1.
    return _sum(np.where(evidence.rank > 0, (rrf_k + 1) / (rrf_k + np.maximum(evidence.rank, 1)), 0.0), weights)


_METHODS: dict[str, Callable[[Evidence, Floats, int], Floats]] = {
    "weighted": _weighted,
    "rrf": _rrf,
}
METHODS = tuple(_METHODS)


def fuse(evidence: Evidence, weights: Floats, method: str = "weighted", rrf_k: int = 60) -> Floats:
    """The fused score of each candidate, under one setting of the weights or many.

    Parameters
    ----------
    evidence : Evidence
        Normalised scores and ranks, one column per arm.
    weights : ndarray of float64, shape (arms,) or (arms, settings)
        With the sum 1.
    method : str
        'weighted' = sum of weight x norm. 'rrf' = sum of weight x (rrf_k + 1) / (rrf_k + rank), without credit for
        a score of 0: the published sum of 1 / (rrf_k + rank), scaled so that first in every arm is 1.
    rrf_k : int
        The constant k of 'rrf'.

    Returns
    -------
    ndarray of float64, shape (n,) or (n, settings)

    Raises
    ------
    ParameterError
        If `method` is not one of these.

    Examples
    --------
    >>> both = Evidence(np.array([[1.0, 0.5]]), np.array([[1, 2]]))
    >>> fuse(both, np.array([0.5, 0.5])).tolist()
    [0.75]
    """
    if method not in _METHODS:
        check_choice("fusion", method, METHODS, "fuse")
    if weights.ndim == 1:
        return _METHODS[method](evidence, weights[:, None], rrf_k)[:, 0]
    return _METHODS[method](evidence, weights, rrf_k)
