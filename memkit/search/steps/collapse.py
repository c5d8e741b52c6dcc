"""What scores too little is dropped, and duplicates are collapsed under the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from memkit.base.params import Estimator, Reach, estimator, param
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import NearPairs, Texts, collapse
from memkit.search.state import UNIT, Groups, Pooled, Shortlist, State, nth_largest
from memkit.search.step import Look, Step, only_with

FOLDED = 50  # independent of k, so that the first hits do not depend on k
"""Near-duplicates are looked for among so many best candidates."""
_FEW = 16
"""Settings whose best candidates are mostly the same."""


def _better(look: Look) -> str:
    """The memory under which it is collapsed."""
    question = look.question
    ranked, memory = question.ranked(), question.index.rows.memory
    is_this = (memory[ranked.candidates.row] == look.memory) & (ranked.under >= 0)
    better = question.index.memories["memory_id"][int(memory[ranked.under[is_this][0]])].as_py()
    return f"'{better}', which ranks above it"


class MinScore(Step):
    """What scores less is no hit."""

    name = "min_score"
    bounded = True
    becomes = {"below_min_score": "scored below min_score"}
    drops = {"below_min_score": lambda look: f"below min_score {look.question.settings.min_score:g}"}
    off = {"min_score": 0.0}
    rests = False  # where scores have no bound, those below 0 are no hits
    cuts = True

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> float:
        return float(settings.min_score)

    def apply(self, state: State, keys: Sequence[float]) -> None:
        least = _least_units(np.array(keys))
        if state.is_bounded:  # what was lifted may be one unit above 1
            state.floor = np.multiply(np.minimum(least, UNIT + 2).astype(np.int64), len(state.shortlist))
        else:
            state.floor = np.asarray((state.units[:, state.column] < least).sum(axis=0), np.int64)
        if state.records:
            is_low = state.key[:, 0] < state.floor[0]
            for word, score in state.undone:
                state.drop(is_low & (np.rint(score * UNIT) >= least[0]), word)
            state.drop(is_low, "below_min_score")

    def may_help(self, look: Look) -> bool:
        return bool(look.question.settings.min_score > 0)


def _least_units(min_score: Floats) -> Floats:
    """The fewest units of score that pass `min_score`."""
    near = np.ceil(min_score * UNIT) + np.arange(-2, 3)[:, None]
    units: Floats = np.min(np.where(near / UNIT < min_score, np.inf, np.maximum(near, 0.0)), axis=0)
    return units


class Exact(Step):
    """Exact duplicates of better candidates are dropped."""

    name = "exact"
    bounded = True
    becomes = {"duplicate": "collapsed under an exact duplicate"}
    drops = {"duplicate": lambda look: f"but it is an exact duplicate of {_better(look)}"}

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> bool:
        return True

    def gather(self, pooled: Pooled, keys: Sequence[bool]) -> dict[Any, Any]:
        return {"twin": pooled.index.rows.twin[pooled.candidates.row]}

    def apply(self, state: State, keys: Sequence[bool]) -> None:
        shortlist = state.shortlist
        twins: Groups | None = shortlist.once(
            self.name, True, lambda: Groups.sharing(shortlist.by_query(shortlist["twin"]))
        )
        if twins is None:
            return
        largest, own = int(twins.sizes.max()), state.key[twins.rows]
        state.compared.append((largest, lambda: largest))
        state.collapse("duplicate", twins.rows, np.where(own >= 0, twins.best(own), own))


class Near(Step):
    """Near-duplicates of better candidates that stay are dropped, among the best `FOLDED` of each query."""

    name = "near"
    bounded = True
    becomes = {"folded": "collapsed under a near-duplicate"}
    drops = {"folded": lambda look: f"but it is a near-duplicate of {_better(look)} (fold)"}
    off = {"fold": "none"}

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> float:
        return float(settings.fold_threshold)

    def gather(self, pooled: Pooled, keys: Sequence[float]) -> dict[Any, Any]:
        return {"texts": Texts(pooled.index.repeats, pooled.candidates.row), "least alike": min(keys)}

    def apply(self, state: State, keys: Sequence[float]) -> None:
        queries, thresholds = state.shortlist.queries, np.array(keys)
        near = _near(state.shortlist, [_compared(state, query) for query in queries])
        some = [pairs for pairs in near if pairs is not None]
        if some:
            bound = max(len(pairs.rows) for pairs in some)
            state.compared.append((bound, lambda: max(pairs.largest for pairs in some)))
        for query, pairs in zip(queries, near, strict=True):
            if pairs is not None:
                own = state.key[pairs.rows]
                is_open = (own >= 0) & (own >= nth_largest(state.key[query], FOLDED))
                state.collapse("folded", pairs.rows, collapse(own, is_open, pairs, thresholds))

    def may_help(self, look: Look) -> bool:
        return bool(look.row["disposition"] == "folded")


def _compared(state: State, query: slice) -> Ints:
    """The best candidates of the query under few settings; all under many, as these have different ones."""
    key = state.key[query]
    if key.shape[1] > _FEW:
        return np.arange(query.start, query.stop)
    is_best = key >= np.maximum(nth_largest(key, FOLDED), state.floor.min())
    best: Ints = query.start + np.flatnonzero(is_best.any(axis=1))
    return best


def _near(shortlist: Shortlist, rows_by_query: list[Ints]) -> list[NearPairs | None]:
    """The near-duplicates among these candidates of each query, and maybe others.

    The last answer is kept, as the best of one block are mostly those of the next. Where they are not, all candidates
    are compared, once.
    """
    rows = np.concatenate([np.empty(0, np.int64), *rows_by_query])
    pairs: list[NearPairs | None]
    known, pairs = shortlist.kept.get("near", (None, []))
    if known is None or not known[rows].all():
        compared = np.full(len(shortlist), known is not None)
        compared[rows] = True
        among = [query.start + np.flatnonzero(compared[query]) for query in shortlist.queries]
        pairs = _near_among(shortlist, among)
        shortlist.kept["near"] = compared, pairs
    return pairs


def _near_among(shortlist: Shortlist, rows_by_query: list[Ints]) -> list[NearPairs | None]:
    texts, least = shortlist["texts"], shortlist["least alike"]
    return NearPairs.among(texts.repeats, [texts.row[rows] for rows in rows_by_query], least, rows_by_query)


def _threshold(settings: Any, index: Any) -> Reach | None:
    """How many memories can reach `min_score`: all or none; None where scores have no bound."""
    if settings.normalize == "none" and settings.fusion == "weighted":
        return None
    acting = [step for step in settings.acting() if step.acts]
    best = 1 + sum(step.lifts if step.bounded else np.inf for step in acting)
    n_memories = len(index.rows.decays)
    count = n_memories if settings.min_score <= best else 0
    what = f"min_score={settings.min_score:g}"
    return Reach(count, n_memories, f"with these settings no score is above {best:g}", what, verb="lets through")


def reaches(settings: Any, score: Floats) -> Mask:
    """Which scores are enough for a hit."""
    enough: Mask = score >= settings.min_score
    return enough


def none_reaches(settings: Any) -> str:
    """Why a query with candidates has no hit."""
    return f"there are candidates, but none reaches min_score {settings.min_score:g}"


def folding(settings: Any) -> float | None:
    """The similarity from which near-duplicates are collapsed; None: they are not."""
    return None if settings.fold == "none" else float(settings.fold_threshold)


@estimator
class Params(Estimator):
    """The least score, and what is a duplicate."""

    min_score: float = param(
        0.0, low=0, group="first", doc="Hits with a lower final score are dropped.", acts_on=_threshold
    )
    fold: str = param(
        "near",
        group="output",
        choices=("none", "near"),
        doc="Whether near-duplicates of a better hit are collapsed under it.",
    )
    fold_threshold: float = param(
        None,
        group="output",
        low=0,
        high=1,
        kind="float",
        stands_for=0.85,
        doc="Minimum cosine similarity of trigrams at which two texts are near-duplicates; None is 0.85. Texts that"
        " differ in a number, a date, a negation or a value are never collapsed.",
        acts_on=only_with("fold_threshold", "fold", "near"),
    )

    steps: ClassVar[tuple[Step, ...]] = (
        MinScore(),
        Exact(),
        Near(),
    )
