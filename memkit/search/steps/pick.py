"""Which candidates are picked: hits unlike those above them are preferred (maximal marginal relevance), k of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from memkit.base.params import Estimator, estimator, param
from memkit.schemas import Floats, Ints
from memkit.search.alike import NOWHERE, Alike, mmr
from memkit.search.state import Pooled, State, count
from memkit.search.step import Look, Step

BELOW = "below_k"


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

    def gather(self, pooled: Pooled, keys: Sequence[float]) -> dict[Any, Any]:
        rows, arms = pooled.candidates.row, pooled.candidates.arms
        return {"alike": Alike(pooled.index.similarity(rows, by_vectors="vector" in arms), rows)}

    def apply(self, state: State, keys: Sequence[float]) -> None:
        state.record("mmr_penalty", np.zeros(len(state.shortlist)))
        state.moves, state.moved_word = partial(_moved, np.array(keys)), "diversified_away"

    def may_help(self, look: Look) -> bool:
        return bool(look.question.settings.mmr_lambda < 1)


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


class Cut(Step):
    """The first k are hits."""

    name = "cut"
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
