"""What scores too little is dropped, duplicates are collapsed under the best of them, and k of the rest are picked.

Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998) greedily picks the largest of
lambda x score - (1 - lambda) x the largest similarity to any hit picked so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from memkit.base.params import Reach, estimator, param
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import DROPPED, NOWHERE, TIE_DIGITS, Alike, NearPairs, Texts, collapse
from memkit.search.state import UNIT, Pooled, Shortlist, State, count, nth_largest
from memkit.search.step import Look, Step, only_with
from memkit.search.steps.fuse import may_count
from memkit.search.steps.prefer import Params as Before

BELOW, LOW = "below_k", "below min_score"
FOLDED = 50  # independent of k, so that the first hits do not depend on k
"""Near-duplicates are looked for among so many best candidates."""
# A guess; under more settings, the best of each are nearly all candidates.
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
    by = "min_score"
    rests = False  # where scores have no bound, those below 0 are no hits
    cuts = True

    def apply(self, state: State, keys: Sequence[float]) -> None:
        min_score = np.array(keys)
        if state.is_bounded and not min_score.any():  # all of them pass
            state.floor = np.zeros(len(keys), state.key.dtype)
            return
        # The product may have been rounded to a unit beside the right one, so five are tried.
        near = np.ceil(min_score * UNIT) + np.arange(-2, 3)[:, None]
        # The fewest units of score that pass.
        least: Floats = np.min(np.where(near / UNIT < min_score, np.inf, np.maximum(near, 0.0)), axis=0)
        if state.is_bounded:  # what was lifted may be one unit above 1
            state.floor = np.multiply(np.minimum(least, UNIT + 2).astype(np.int64), len(state.shortlist))
        else:
            state.floor = np.asarray((state.units[:, state.column] < least).sum(axis=0), np.int64)
        if state.records:
            is_low = state.key < state.floor
            for word, score in state.undone:
                state.drop(is_low & (np.rint(score * UNIT) >= least), word)
            state.drop(is_low, "below_min_score")

    def may_help(self, look: Look) -> bool:
        return bool(look.question.settings.min_score > 0)


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
        twins = shortlist.sharing(self.name, state["twin"])
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
    by = "fold_threshold"

    def gather(self, pooled: Pooled, keys: Sequence[float]) -> dict[Any, Any]:
        return {"texts": Texts(pooled.index.repeats, pooled.candidates.row), "least alike": min(keys)}

    def apply(self, state: State, keys: Sequence[float]) -> None:
        if state.records:
            _fold_under_hits(state, np.array(keys))
            return
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


def _fold_under_hits(state: State, threshold: Floats) -> None:
    """Fold near-duplicates under what may be a hit; what is folded under others changes no hit.

    The first candidates of a query are compared with all below. Where some are folded, the next take their places among
    the first, and are compared in turn.
    """
    texts, done = state["texts"], np.zeros(len(state.shortlist), bool)
    waiting = [(query, _compared(state, query)) for query in state.shortlist.queries]
    while waiting:
        asked = []
        for query, rows in waiting:
            stay = rows[np.argsort(-state.key[rows, 0])]
            stay = stay[state.key[stay, 0] != DROPPED]
            first = stay[: _n_first(state, query, stay)]
            if not done[first].all():
                asked.append((query, rows, stay[~done[stay]], int((~done[first]).sum())))
                done[first] = True
        compared, heads = [below for *_, below, _ in asked], [n for *_, n in asked]
        near = NearPairs.among(texts.repeats, [texts.row[rows] for rows in compared], threshold[0], compared, heads)
        for pairs in filter(None, near):
            own = state.key[pairs.rows]
            state.collapse("folded", pairs.rows, collapse(own, own >= 0, pairs, threshold))
        waiting = [(query, rows) for (query, rows, *_), pairs in zip(asked, near, strict=True) if pairs is not None]


def _n_first(state: State, query: slice, stay: Ints) -> int:
    """How many of the candidates that `stay`, best first, decide on the hits and on how likely they answer."""
    counts = (state.own[query, 0] != DROPPED) & (state.under[query] < 0)
    counts[counts] = may_count(state.recorded["fused"][query][counts])
    return max(state.enough, 1 + int(counts[stay - query.start].nonzero()[0].max(initial=-1)))


def _compared(state: State, query: slice) -> Ints:
    """The best candidates of the query under few settings; all under many, as these have different ones."""
    key = state.key[query]
    if key.shape[1] > _FEW:
        return np.arange(query.start, query.stop)
    # More candidates than are looked at do no harm: `Near.apply` asks each setting's own best.
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
        texts, least = shortlist.values["texts"], shortlist.values["least alike"]
        pairs = NearPairs.among(texts.repeats, [texts.row[some] for some in among], least, among)
        shortlist.kept["near"] = compared, pairs
    return pairs


def hit_of(settings: Any) -> str:
    """What a hit is: a memory, a chunk or a file."""
    return str(settings.unit)


def _diversified(look: Look) -> str:
    row, question = look.row, look.question
    return (
        f"but MMR (mmr_lambda {question.settings.mmr_lambda:g}) subtracts {row['mmr_penalty']:.3f} because it is"
        f" similar to better hits: rank {row['rank']}, and k is {question.ask.k}"
    )


class Mmr(Step):
    """The first hits are picked so that each is unlike those before it."""

    name = "mmr"
    bounded = True
    columns = {"mmr_penalty": 0.0}
    drops = {"diversified_away": _diversified}
    off = {"mmr_lambda": 1.0}
    by = "mmr_lambda"
    reads_score = True

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
        # Rounded, so that of two with one value the first is picked, whatever the encoder's last digits are.
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
    drops = {BELOW: lambda look: f"rank {look.row['rank']}, and k is {look.question.ask.k}"}


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
class Params(Before):
    """The least score, what is a duplicate, diversity, and what a hit is."""

    min_score: float = param(
        0.0, low=0, group="first", doc="Hits with a lower final score are dropped.", acts_on=_threshold
    )
    # With it nDCG@10 of 18 sets gained .002, practically nothing: it is on for readers of hits.
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
        # Of sentences of which one follows from the other it merges .299, of contradictions .020.
        stands_for=0.85,
        doc="Minimum cosine similarity of trigrams at which two texts are near-duplicates; None is 0.85. Texts that"
        " differ in a number, a date, a negation or a value are never collapsed.",
        acts_on=only_with("fold_threshold", "fold", "near"),
    )
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

    steps: ClassVar[tuple[Step, ...]] = (
        MinScore(),
        Exact(),
        Near(),
        Mmr(),
        Cut(),
    )
