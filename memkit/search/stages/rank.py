"""From candidates to ranks: normalise, fuse, decay, min_score, twins, MMR, k. All queries of a call at once.

The stages are the paragraphs of `rank_candidates`; each takes the whole table and adds to it. Search shows the rows
that end as ``returned``, the trace shows all of them, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from memkit.search.fitted.rows import Rows
from memkit.search.stages.candidates import Candidates
from memkit.search.stages.diversify import mmr
from memkit.search.stages.fuse import Evidence, fuse
from memkit.search.stages.normalise import TIE_DIGITS, Floats, Ints, changes, group_starts, normalise, spread

DISPOSITIONS = (
    "returned",
    "below_k",
    "below_pool",
    "filtered",
    "expired",
    "below_min_score",
    "decayed_out",
    "diversified_away",
    "duplicate",
)
_CODE = {name: code for code, name in enumerate(DISPOSITIONS)}

Similarity = Callable[[Ints], Callable[[Ints], Floats]]


@dataclass(frozen=True)
class Ranked:
    """Candidates with everything that decided their place, by query and, within it, by rank.

    Attributes
    ----------
    found : Candidates
        Raw scores and ranks of the arms.
    norm : ndarray of float64, shape (n, arms)
    fused, age_days, decay, score, penalty : ndarray of float64, shape (n,)
        `score` is fused x decay; `age_days` is NaN where no date is known; `penalty` is what MMR took off.
    rank : ndarray of int64, shape (n,)
        From 1; 0 for those that got none.
    disposition : ndarray of int8, shape (n,)
        Position in `DISPOSITIONS`.
    """

    found: Candidates
    norm: Floats
    fused: Floats
    age_days: Floats
    decay: Floats
    score: Floats
    penalty: Floats
    rank: Ints
    disposition: NDArray[np.int8]

    def take(self, index: Ints) -> Self:
        """The rows at `index`, in that order."""
        return type(self)(*(_taken(getattr(self, column.name), index) for column in fields(self)))

    def returned(self) -> Self:
        """The hits alone."""
        return self.take(np.flatnonzero(self.disposition == _CODE["returned"]))


def _taken(column: Any, index: Ints) -> Any:
    return column.take(index) if isinstance(column, Candidates) else column[index]


def rank_candidates(
    found: Candidates,
    rows: Rows,
    values: Mapping[str, Any],
    *,
    weights: Mapping[str, float],
    decay: Callable[[Ints], tuple[Floats, Floats]],
    similarity: Similarity,
    k: int,
    depth: int | None = None,
) -> Ranked:
    """Rank the candidates of all queries.

    Parameters
    ----------
    values : mapping
        The Retriever's query-time parameters by name.
    weights : mapping of str to float
        By arm, with the sum 1.
    decay : callable
        Rows of memories -> their age in days and their factor.
    similarity : callable
        Rows of all chunks that may be compared -> rows of some of them -> similarities among those; asked for only
        where mmr_lambda is below 1.
    k : int
        How many places are returned a query.
    depth : int, optional
        How far MMR orders; all the way by default.
    """
    norm = _normalised(found, values["normalise"])
    shares = np.array([weights[arm] for arm in found.arms])
    evidence = Evidence(found.raw, norm, found.rank)
    fused = np.round(fuse(evidence, shares, values["fusion"], values["rrf_k"]), 12)  # 0.7 + 0.3 is 1

    shown = _best_chunks(found, fused, rows) if values["unit"] == "memory" else np.arange(len(fused))
    found, norm, fused = found.take(shown), norm[shown], fused[shown]

    age_days, factor = decay(rows.memory[found.row])
    score = fused * factor
    order = np.lexsort((found.row, -np.round(score, TIE_DIGITS), found.query))
    empty = np.zeros(len(order))
    rank, disposition = np.zeros(len(order), np.int64), np.zeros(len(order), np.int8)
    ranked = Ranked(found, norm, fused, age_days, factor, score, empty, rank, disposition).take(order)

    ranked = _cut(ranked, rows, values["min_score"])
    ranked = _place(ranked)
    if values["mmr_lambda"] < 1.0:
        ranked = _diversify(ranked, values["mmr_lambda"], similarity, k, depth)
    else:
        ranked = _label(ranked, ranked.rank > k, "below_k")
    if ranked.rank.all() and values["mmr_lambda"] == 1.0:
        return ranked  # in order already
    # Rank 0 is no rank: those rows follow, still best first.
    last = np.where(ranked.rank, ranked.rank, np.iinfo(np.int64).max)
    return ranked.take(np.lexsort((last, ranked.found.query)))


def _normalised(found: Candidates, how: str) -> Floats:
    """`normalise` for each arm; the queries of one follow on those of the other, so that one call does all."""
    arms, queries = len(found.arms), found.query.max(initial=0) + 1
    query = np.concatenate([found.query + arm * queries for arm in range(arms)])
    return normalise(query, found.raw.T.ravel(), how).reshape(arms, -1).T


def _best_chunks(found: Candidates, fused: Floats, rows: Rows) -> Ints:
    """Index of the chunk that shows each memory, a row a query and memory."""
    memory = rows.memory[found.row]
    order = np.lexsort((found.row, -np.round(fused, TIE_DIGITS), memory, found.query))
    return order[changes(memory[order]) | changes(found.query[order])]


def _label(ranked: Ranked, where: NDArray[np.bool_], name: str) -> Ranked:
    return replace(ranked, disposition=np.where(where, np.int8(_CODE[name]), ranked.disposition))


def _cut(ranked: Ranked, rows: Rows, min_score: float) -> Ranked:
    """Label what the threshold drops, and what says the same as a better hit of the same owner."""
    low = np.round(ranked.score, TIE_DIGITS) < min_score
    ranked = _label(ranked, low, "below_min_score")
    ranked = _label(ranked, low & (np.round(ranked.fused, TIE_DIGITS) >= min_score), "decayed_out")
    alive = np.flatnonzero(~low)
    says = ranked.found.query * (len(rows.twin) + 1) + rows.twin[ranked.found.row]
    _, first = np.unique(says[alive], return_index=True)
    twin = ~low
    twin[alive[first]] = False
    return _label(ranked, twin, "duplicate")


def _place(ranked: Ranked) -> Ranked:
    """Give ranks to what is still in the race, in the order of the rows."""
    alive = ranked.disposition == _CODE["returned"]
    before = np.cumsum(alive) - alive
    starts = group_starts(ranked.found.query)
    place = before - spread(before[starts], starts, len(alive)) + 1
    return replace(ranked, rank=np.where(alive, place, 0))


def _diversify(ranked: Ranked, mmr_lambda: float, similarity: Similarity, k: int, depth: int | None) -> Ranked:
    """Order again by MMR, a query at a time: picking is greedy, so there is nothing to do at once."""
    penalty, rank = ranked.penalty.copy(), ranked.rank.copy()
    alive = np.flatnonzero(rank)
    likeness = similarity(ranked.found.row[alive])
    for one in np.split(alive, group_starts(ranked.found.query[alive])[1:]):
        if one.size:
            order, penalty[one] = mmr(ranked.score[one], likeness(ranked.found.row[one]), mmr_lambda, depth)
            rank[one[order]] = np.arange(1, len(one) + 1)
    missed = rank > k
    by_score = (ranked.rank > 0) & (ranked.rank <= k)
    ranked = _label(replace(ranked, penalty=penalty, rank=rank), missed, "below_k")
    return _label(ranked, missed & by_score, "diversified_away")
