"""The arms' scores are brought to one scale, query by query, and fused into one score.

The functions work on the flat table of candidates: `query` is sorted, `score` is NaN if an arm did not retrieve the
row. After normalising such a score is 0, and so is one that is not a number.

`weighted` is the convex combination, `rrf` is reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009). With
normalised scores from 0 to 1 both give scores from 0 to 1, for any number of arms, so that `min_score` means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from memkit.base.params import check_choice, estimator, param
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import DROPPED, TIE_DIGITS
from memkit.search.fitted.across import scores_across
from memkit.search.state import UNIT, Pooled, Ranked, State, as_keys, group_starts, rank_within, spread
from memkit.search.step import Look, Step, only_with
from memkit.search.steps.recall import ARMS
from memkit.search.steps.recall import Params as Before

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex

FUSED_DIGITS = 12  # 0.7 + 0.3 is 1


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
    norm: Floats = np.minimum((score - zero) / (one - zero), 1.0)
    if not everywhere or not norm.size:
        return np.fmax(norm, 0.0)  # NaN is 0
    norm, starts = np.maximum(norm, 0.0), group_starts(query)
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
    "weighted": lambda evidence, weights, rrf_k: _sum(evidence.norm, weights),
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


class Fusion(NamedTuple):
    """How scores are fused: the scale that they are brought to (None: places alone count), the method, the weights."""

    scale: tuple[str, float] | None
    method: str
    rrf_k: int
    weights: tuple[float, ...]


class Fuse(Step):
    """The arms' scores are brought to one scale and fused; of a memory the best chunk stays."""

    name = "fuse"
    bounded = True
    columns = {"fused": np.nan}
    base = "fused"

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> Fusion:
        is_rrf = settings.fusion == "rrf"
        crosses = settings.normalize == "calibrated" and {"vector", "bm25"} <= set(weights)
        return Fusion(
            None if is_rrf else (settings.normalize, settings.across_weight if crosses else 0.0),
            settings.fusion,
            settings.rrf_k if is_rrf else 0,
            tuple(weights.get(arm, 0.0) for arm in arms),
        )

    def prepare(self, index: MemoryIndex, settings: Any, n_encoded: int) -> None:
        """Encode single terms too, where that takes little of the texts' time: words of two alphabets meet by them."""
        if settings.across_weight and index.vocabulary is not None:
            index.vocabulary.prepare(n_encoded / max(len(index.texts), n_encoded))

    def looks_around(self, settings: Any) -> bool:
        return settings.normalize == "none" and not by_places(settings)

    def gather(self, pooled: Pooled, keys: Sequence[Fusion]) -> dict[Any, Any]:
        scales = dict.fromkeys(key.scale for key in keys)
        norms = {("norm", scale): _norms(pooled, scale) for scale in scales}
        return {"ranks": pooled.candidates.rank, **norms}

    def apply(self, state: State, keys: Sequence[Fusion]) -> None:
        state.is_bounded = all(key.scale is None or key.scale[0] != "none" for key in keys)
        state.score = self._fused(state, keys)
        if state.records:
            state.norm = state["norm", keys[0].scale]
            # A copy: later steps multiply the scores in place.
            state.record("fused", state.score[:, 0].copy())
        weights = np.array([key.weights for key in keys]).T
        state.out = None if weights.all() else ~((state["ranks"] > 0) @ (weights > 0))
        if state.out is not None:
            state.score[state.out] = DROPPED
        self._keep_the_best_chunk(state)

    def _fused(self, state: State, keys: Sequence[Fusion]) -> Floats:
        columns: dict[Any, list[int]] = {}
        for column, key in enumerate(keys):
            columns.setdefault(key[:3], []).append(column)
        parts = []
        for (scale, method, rrf_k), some in columns.items():
            # A copy, in which the weights of one arm lie side by side: `_sum` takes them arm by arm.
            weights = np.array([keys[column].weights for column in some]).T.copy()
            parts.append(fuse(Evidence(state["norm", scale], state["ranks"]), weights, method, rrf_k))
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if len(parts) > 1 and (order := np.concatenate(list(columns.values()))).tolist() != list(range(len(keys))):
            fused = fused[:, np.argsort(order)]
        return np.round(fused, FUSED_DIGITS, out=fused)

    def _keep_the_best_chunk(self, state: State) -> None:
        shortlist = state.shortlist
        if not shortlist.per_memory:
            return
        chunks = shortlist.sharing(self.name, shortlist.memory)
        if chunks is None:
            return
        order = shortlist.tie_order[chunks.rows]
        # Of so few keys the unit is the number of all candidates, so that ties are those of all.
        keys = as_keys(np.rint(state.score[chunks.rows] * UNIT), order, state.is_bounded, len(shortlist))
        beaten: Mask = keys != chunks.best(keys)
        if state.out is None:
            state.out = np.zeros(state.score.shape, bool)
        state.out[chunks.rows] |= beaten

    def part(self, look: Look) -> str:
        return f"fused score {look.row['fused']:.3f}"


def scale_of(settings: Any) -> tuple[str, float]:
    """The scale on which the arms' scores are shown, and the share of meaning across alphabets."""
    return settings.normalize, settings.across_weight


def by_places(settings: Any) -> bool:
    """Whether places alone count, and no scores."""
    return bool(settings.fusion == "rrf")


def _norms(pooled: Pooled, scale: tuple[str, float] | None) -> Floats:
    """The arms' scores on one scale, shape (n, arms); of a question also where places alone count, as it shows them."""
    candidates = pooled.candidates
    if scale is None and pooled.shown_scale is None:
        return np.zeros(candidates.raw.shape)
    how, across_weight = scale or pooled.shown_scale or ("", 0.0)
    if how != "calibrated":
        # The queries of one arm follow those of another, so that one call normalises all.
        arms, queries = len(candidates.arms), candidates.query.max(initial=0) + 1
        query = np.concatenate([candidates.query + arm * queries for arm in range(arms)])
        return normalize(query, candidates.raw.T.ravel(), how).reshape(arms, -1).T
    query, raw, ends = candidates.query, candidates.raw, candidates.scale[candidates.query]
    norm = np.empty(raw.shape)
    for column, arm in enumerate(candidates.arms):
        zero, one = ends[:, column].T
        norm[:, column] = calibrate(query, raw[:, column], zero, one, ARMS[arm].everywhere)
    if "vector" in candidates.arms and "bm25" in candidates.arms and across_weight:
        words, vectors = candidates.arms.index("bm25"), candidates.arms.index("vector")
        scores, is_other_script = scores_across(pooled.index, pooled.texts, candidates, pooled.sights)
        scores += np.nan_to_num(raw[:, words])
        by_terms = calibrate(query, scores, ends[:, words, 0], ends[:, words, 1], everywhere=False)
        share = np.where(is_other_script, across_weight, 0.0)
        norm[:, words] = np.maximum(norm[:, words], share * norm[:, vectors] + (1 - share) * by_terms)
    return norm


# The logistic curve that `bench_answerable.py` fits.
_OFFSET, _OF_BEST, _OF_GAP = -1.66, 3.95, 8.41
# On 11 of 11 sets this gap told answered questions from others better than the best score alone.
_NEXT = 10  # candidates, above whose mean the best one stands out, or does not


def may_count(fused: Floats) -> Mask:
    """The candidates of a query, none of them collapsed, of whose fused scores `evidence` may ask."""
    return fused >= np.partition(fused, -1 - _NEXT)[-1 - _NEXT] if len(fused) > _NEXT else np.ones(len(fused), bool)


def evidence(ranked: Ranked, n_queries: int) -> tuple[Floats, Floats]:
    """For each query the best fused score, and by how much it is above the mean of the next ten; 0 without candidates.

    Memories that are collapsed under others do not count, as they say nothing more. Where fewer than ten others are
    left, those that lack count as the best: few candidates do not show that it stands out.
    """
    stands = ranked.under < 0
    query, fused = ranked.candidates.query[stands], ranked.columns["fused"][stands]
    best, gap = np.zeros(n_queries), np.zeros(n_queries)
    for number, ends in enumerate(pairwise(np.searchsorted(query, np.arange(n_queries + 1)).tolist())):
        first, *others = np.sort(fused[slice(*ends)])[: -2 - _NEXT : -1].tolist() or [0.0]
        best[number], gap[number] = first, (len(others) * first - sum(others)) / _NEXT
    return best, gap


def answerability(ranked: Ranked, settings: Any, n_queries: int) -> Floats | None:
    """How likely an answer is among the first hits of each query, 0 to 1, from its calibrated scores; else None.

    It is fitted on labelled sets (`tests/benchmarks/bench_answerable.py`) and is no probability: other queries have
    answers more often, or less.
    """
    if settings.normalize != "calibrated":
        return None
    best, gap = evidence(ranked, n_queries)
    likely: Floats = 1.0 / (1.0 + np.exp(-(_OFFSET + _OF_BEST * best + _OF_GAP * gap)))
    return np.round(likely, 2)


_across = only_with("across_weight", "normalize", "calibrated")


@estimator
class Params(Before):
    """How the arms' scores are fused."""

    # Of 0, .3, .6, .8 and 1 the best: nDCG@10 of 18 sets is .033 higher than with 0, and .004 to .007 than with the
    # others.
    across_weight: float = param(
        0.6,
        group="arms",
        low=0,
        high=1,
        unit="ratio",
        doc="Matching across alphabets, where the arm of words finds nothing (with normalize='calibrated'): a chunk in"
        " another alphabet than the query gets this share of its score by meaning as its score by words, and the"
        " remaining share from terms that mean or sound the same. A name that no text has in the query's alphabet is"
        " matched phonetically. 0: off.",
        acts_on=lambda settings, index: _across(settings, index) if settings.across_weight else None,
    )
    # Against minmax, max and rank +.076, +.087 and +.130 nDCG@10 in the mean of 18 sets.
    normalize: str = param(
        "calibrated",
        group="arms",
        choices=("calibrated", *HOW),
        doc="How the scores of each arm are brought to a common scale.",
    )
    # Against rrf +.131 nDCG@10 in the mean of 18 sets.
    fusion: str = param("weighted", group="arms", choices=METHODS, doc="How the arms' scores are combined.")
    rrf_k: int = param(
        60,
        group="arms",
        low=0,
        doc="The constant k of reciprocal rank fusion.",
        source="Cormack et al. 2009",
        acts_on=only_with("rrf_k", "fusion", "rrf"),
    )

    steps: ClassVar[tuple[Step, ...]] = (Fuse(),)
