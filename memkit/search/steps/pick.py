"""Which candidates are picked: k of them, and hits unlike those already picked are preferred.

Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998) greedily picks the largest of
lambda x score - (1 - lambda) x the largest similarity to any hit picked so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from memkit.base.params import Estimator, estimator, param
from memkit.schemas import Floats, Ints
from memkit.search.alike import NOWHERE, TIE_DIGITS, Alike
from memkit.search.state import Pooled, State, count
from memkit.search.step import Look, Step

BELOW = "below_k"


def hit_of(settings: Any) -> str:
    """What a hit is: a memory, a chunk or a file."""
    return str(settings.unit)


def _diversified(look: Look) -> str:
    row, question = look.row, look.question
    return (
        f"but MMR (mmr_lambda {question.settings.mmr_lambda:g}) subtracts {row['mmr_penalty']:.3f} because it is"
        f" similar to better hits: rank {row['rank']}, and k is {question.k}"
    )


class Mmr(Step):
    """The first hits are picked so that each is unlike those before it."""

    name = "mmr"
    bounded = True
    columns = {"mmr_penalty": 0.0}
    drops = {"diversified_away": _diversified}
    off = {"mmr_lambda": 1.0}
    reads_score = True

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> float:
        return float(settings.mmr_lambda)

    def looks_around(self, settings: Any) -> bool:
        return True

    def gather(self, pooled: Pooled, keys: Sequence[float]) -> dict[Any, Any]:
        rows, arms = pooled.candidates.row, pooled.candidates.arms
        return {"alike": Alike(pooled.index.similarity(rows, by_vectors="vector" in arms), rows)}

    def apply(self, state: State, keys: Sequence[float]) -> None:
        state.record("mmr_penalty", np.zeros(len(state.shortlist)))
        state.moves, state.moved_word = partial(_moved, np.array(keys)), "diversified_away"

    def may_help(self, look: Look) -> bool:
        return bool(look.question.settings.mmr_lambda < 1)


UNMOVED = Mmr.off
"""Parameters under which hits stay in the order of their scores."""


def _moved(mmr_lambda: Floats, state: State, place: Ints, depth: int | None, query: slice) -> Ints:
    """Places after MMR; one column per setting."""
    key = state.key[query]
    is_alive = key >= state.floor
    alive = count(is_alive)
    order = np.argsort(-key, axis=0, kind="stable")[: int(alive.max(initial=0))]
    if not len(order):
        return place
    some, position = np.flatnonzero(is_alive.any(axis=1)), np.zeros(len(key), np.int64)
    position[some] = np.arange(len(some))
    score, rows = np.take_along_axis(state.score[query], order, axis=0), query.start + some
    similar = state.shortlist.once("mmr", rows.tobytes(), lambda: state["alike"].among(rows))
    moved, lost = mmr(score, similar, mmr_lambda, depth, position[order], alive)
    if state.records:
        state.recorded["mmr_penalty"][query][order[:, 0]] = lost[:, 0]
    known = np.take_along_axis(moved, np.minimum(place, len(order) - 1), axis=0)
    return np.where(place < len(order), known, NOWHERE)


def mmr(
    score: Floats,
    similarity: Floats,
    mmr_lambda: Floats | float,
    depth: int | None = None,
    order: Ints | None = None,
    alive: Ints | None = None,
) -> tuple[Ints, Floats]:
    """The places of the candidates of one query after MMR, and the penalty of each; one column per setting.

    Parameters
    ----------
    score : ndarray of float64, shape (n, settings)
        Best first: ties go to the earlier candidate.
    similarity : ndarray of float64, shape (candidates, candidates)
        From 0 (unlike) to 1 (the same).
    mmr_lambda : float, or ndarray of float64, shape (settings,)
        1 keeps the order; 0 uses similarity alone.
    depth : int, optional
        Number of picks; the others keep their order behind them. The picks do not depend on it.
    order : ndarray of int64, shape (n, settings), optional
        The row of each candidate in `similarity`; the default is 0 to n - 1.
    alive : ndarray of int64, shape (settings,), optional
        Only the first so many candidates take part; the default is all.

    Returns
    -------
    place : ndarray of int64, shape (n, settings)
        From 0; `NOWHERE` for candidates that do not take part.
    penalty : ndarray of float64, shape (n, settings)
        (1 - lambda) x the largest similarity to those picked above.

    Examples
    --------
    >>> twins = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> place, penalty = mmr(np.array([[1.0], [0.9], [0.8]]), twins, 0.5)
    >>> place[:, 0].tolist(), penalty[:, 0].tolist()
    ([0, 2, 1], [0.0, 0.5, 0.0])
    """
    size, columns = score.shape[0], np.arange(score.shape[1])
    order = np.broadcast_to(np.arange(size)[:, None], score.shape) if order is None else order
    taking_part = np.full(score.shape[1], size) if alive is None else alive
    remaining = np.arange(size)[:, None] < taking_part
    place, nearest, penalty = np.full(score.shape, NOWHERE), np.zeros(score.shape), np.zeros(score.shape)
    relevance, share = np.where(remaining, mmr_lambda * score, -np.inf), 1.0 - mmr_lambda
    picks, value = size if depth is None else min(depth, size), np.empty(score.shape)
    for pick in range(picks):
        np.subtract(relevance, np.multiply(nearest, share, out=value), out=value)
        best = np.argmax(np.round(value, TIE_DIGITS, out=value), axis=0)
        has_pick = pick < taking_part
        picked = best[has_pick], columns[has_pick]
        place[picked], penalty[picked] = pick, nearest[picked]
        remaining[best, columns], relevance[best, columns] = False, -np.inf
        np.maximum(nearest, similarity[order[best, columns], order], out=nearest)
    if picks < size:
        place[remaining] = (picks - 1 + remaining.cumsum(axis=0))[remaining]
    return place, share * np.where(remaining, nearest, penalty)


class Cut(Step):
    """The first k are hits."""

    name = "cut"
    becomes = {BELOW: "ranked too low"}
    drops = {BELOW: lambda look: f"rank {look.row['rank']}, and k is {look.question.k}"}


@estimator
class Params(Estimator):
    """Diversity, and what a hit is."""

    mmr_lambda: float = param(
        1.0,
        group="output",
        low=0,
        high=1,
        doc="Diversity (MMR): 1 ranks by score alone; lower values avoid similar hits.",
    )
    unit: str = param(
        "memory",
        group="output",
        choices=("memory", "chunk", "file"),
        doc="What a hit is: a memory, with its best chunk; a chunk; or a file, with its best memory.",
    )

    steps: ClassVar[tuple[Step, ...]] = (Mmr(), Cut())
