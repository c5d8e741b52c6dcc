"""The arms' scores are brought to one scale and fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from memkit.base.params import Estimator, estimator, param
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import DROPPED
from memkit.search.fitted.across import scores_across
from memkit.search.fitted.arms import KINDS
from memkit.search.fusion import HOW, METHODS, Evidence, calibrate, fuse, normalize
from memkit.search.state import UNIT, Pooled, State, as_keys
from memkit.search.step import Look, Step, only_with

FUSED_DIGITS = 12  # 0.7 + 0.3 is 1


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

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> Fusion:
        is_rrf = settings.fusion == "rrf"
        crosses = settings.normalize == "calibrated" and {"vector", "bm25"} <= set(weights)
        return Fusion(
            None if is_rrf else (settings.normalize, settings.across_weight if crosses else 0.0),
            settings.fusion,
            settings.rrf_k if is_rrf else 0,
            tuple(weights.get(arm, 0.0) for arm in arms),
        )

    def gather(self, pooled: Pooled, keys: Sequence[Fusion]) -> dict[Any, Any]:
        scales = dict.fromkeys(key.scale for key in keys)
        norms = {("norm", scale): _norms(pooled, scale) for scale in scales}
        return {"ranks": pooled.candidates.rank, **norms}

    def apply(self, state: State, keys: Sequence[Fusion]) -> None:
        state.is_bounded = all(key.scale is None or key.scale[0] != "none" for key in keys)
        state.score = self._fused(state, keys)
        if state.records:
            state.norm = state["norm", keys[0].scale]
            state.record("fused", state.score[:, 0].copy())
        weights = np.array([key.weights for key in keys]).T
        state.out = None if weights.all() else _found_by_none(state["ranks"], weights)
        state.is_found_by_all = state.out is None
        if state.out is not None:
            state.score[state.out] = DROPPED
        self._keep_the_best_chunk(state)

    def _fused(self, state: State, keys: Sequence[Fusion]) -> Floats:
        columns: dict[Any, list[int]] = {}
        for column, key in enumerate(keys):
            columns.setdefault(key[:3], []).append(column)
        parts = []
        for (scale, method, rrf_k), some in columns.items():
            weights = np.array([keys[column].weights for column in some]).T.copy()
            parts.append(fuse(Evidence(state["norm", scale], state["ranks"]), weights, method, rrf_k))
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if len(parts) > 1 and (order := np.concatenate(list(columns.values()))).tolist() != list(range(len(keys))):
            fused = fused[:, np.argsort(order)]
        return np.round(fused, FUSED_DIGITS, out=fused)

    def _keep_the_best_chunk(self, state: State) -> None:
        chunks = state.shortlist.chunks_of_memory
        if chunks is None:
            return
        order = state.shortlist.tie_order[chunks.rows]
        # Of so few keys the unit is the number of all candidates, so that ties are those of all.
        keys = as_keys(np.rint(state.score[chunks.rows] * UNIT), order, state.is_bounded, len(state.shortlist))
        beaten: Mask = keys != chunks.best(keys)
        if state.out is None:
            state.out = np.zeros(state.score.shape, bool)
        state.out[chunks.rows] |= beaten

    def part(self, look: Look) -> str:
        return f"fused score {look.row['fused']:.3f}"


def _found_by_none(ranks: Ints, weights: Floats) -> Mask:
    """Which candidates no arm with a weight retrieved."""
    is_found = np.zeros((len(ranks), weights.shape[1]), bool)
    for arm, weight in enumerate(weights):
        is_found |= (ranks[:, arm, None] > 0) & (weight > 0)
    return ~is_found


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
    columns = [
        calibrate(query, raw[:, column], ends[:, column, 0], ends[:, column, 1], KINDS[arm].everywhere)
        for column, arm in enumerate(candidates.arms)
    ]
    norm = np.stack(columns, axis=1)
    if "vector" in candidates.arms and "bm25" in candidates.arms and across_weight:
        words, vectors = candidates.arms.index("bm25"), candidates.arms.index("vector")
        scores, is_other_script = scores_across(pooled.index, pooled.texts, candidates, pooled.sights)
        scores += np.nan_to_num(raw[:, words])
        by_terms = calibrate(query, scores, ends[:, words, 0], ends[:, words, 1], everywhere=False)
        share = np.where(is_other_script, across_weight, 0.0)
        norm[:, words] = np.maximum(norm[:, words], share * norm[:, vectors] + (1 - share) * by_terms)
    return norm


_across = only_with("across_weight", "normalize", "calibrated")


@estimator
class Params(Estimator):
    """How the arms' scores are fused."""

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
    normalize: str = param(
        "calibrated",
        group="arms",
        choices=("calibrated", *HOW),
        doc="How the scores of each arm are brought to a common scale.",
    )
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
