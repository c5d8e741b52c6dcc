"""The stages of ranking, each written once, over candidates × settings; search has one column of settings.

A candidate's *key* under a setting is a unique integer, larger for a higher rank: its score in units of `UNIT`, then
its row. A dropped candidate has the key `DROPPED`. A place is thus a count of larger keys, and many settings need no
sorting, which takes 22 times as long (240 candidates, 512 settings, 2 wanted).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from memkit.schemas import Floats, Ints, Mask
from memkit.search.stages.blocks import UNIT, Block, Groups
from memkit.search.stages.diversify import DROPPED, NOWHERE, Keys, NearPairs, Repeats, collapse, mmr
from memkit.search.stages.fuse import Evidence, fuse, group_starts

FUSED_DIGITS = 12  # 0.7 + 0.3 is 1
FOLDED = 50  # independent of k, so that the first hits do not depend on k
"""Near-duplicates are looked for among so many best candidates."""
MOST_NAMED = 20
"""Most duplicates that are listed under a hit."""


@dataclass
class CandidateSet:
    """The candidates of one query or several, sorted by query and row, with the data that the stages use.

    Attributes
    ----------
    query : ndarray of int64, shape (n,)
    rank : ndarray of int64, shape (n, arms)
        As in `Candidates`.
    memory, twin, text : ndarray of int64, shape (n,)
        Memory and exact duplicates as in `Columns`; the row in `repeats`.
    per_memory : bool
        Whether a hit is a memory, or else a chunk.
    norm : callable
        From a key of `Fusion.norm` to normalised scores, shape (n, arms).
    factor, prior : callable
        From the keys of decays or kind weights to factors, shape (n, keys).
    repeats : Repeats or None
        None if no setting collapses near-duplicates.
    least_threshold : float
        The lowest `fold_threshold` of any setting.
    likeness : callable
        The pairwise similarity of some of the candidates, for MMR.
    """

    query: Ints
    rank: Ints
    memory: Ints
    twin: Ints
    text: Ints
    per_memory: bool
    norm: Callable[[Any], Floats]
    factor: Callable[[tuple[Any, ...]], Floats]
    prior: Callable[[tuple[Any, ...]], Floats]
    repeats: Repeats | None
    least_threshold: float
    likeness: Callable[[Ints], Floats]
    _last_factors: tuple[Any, Floats] = field(default=(None, np.empty(0)), init=False)
    _last_similar: tuple[bytes, Floats] = field(default=(b"", np.empty(0)), init=False)

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def queries(self) -> list[slice]:
        """The slice of the candidates of each query."""
        starts = group_starts(self.query).tolist()
        return [slice(*ends) for ends in pairwise([*starts, len(self)])]

    @cached_property
    def chunks_of_memory(self) -> Groups | None:
        return Groups.sharing(self._by_query(self.memory), is_sorted=True) if self.per_memory else None

    @cached_property
    def twins(self) -> Groups | None:
        return Groups.sharing(self._by_query(self.twin))

    @cached_property
    def near(self) -> list[NearPairs | None]:
        """The near-duplicates among all candidates, by query."""
        return self.near_among([np.arange(len(self))[query] for query in self.queries])

    @cached_property
    def tie_order(self) -> Keys:
        """The order of equal scores; the larger comes first."""
        return np.arange(len(self))[::-1][:, None]

    def near_among(self, rows_by_query: list[Ints]) -> list[NearPairs | None]:
        """The near-duplicates among some candidates of each query."""
        repeats = self.repeats
        if repeats is None or not rows_by_query:
            return [None] * len(rows_by_query)
        repeats.read(self.text[np.concatenate(rows_by_query)])
        return [NearPairs.among(repeats, self.text[rows], self.least_threshold, rows) for rows in rows_by_query]

    def factors(self, decays: tuple[Any, ...]) -> Floats:
        """The decay factors; the last ones are cached, as the next block often has the same."""
        if self._last_factors[0] is not decays:
            self._last_factors = (decays, self.factor(decays))
        return self._last_factors[1]

    def similar(self, rows: Ints) -> Floats:
        """The pairwise similarity of some candidates, cached as the factors are."""
        if self._last_similar[0] != rows.tobytes():
            self._last_similar = (rows.tobytes(), self.likeness(rows))
        return self._last_similar[1]

    def _by_query(self, label: Ints) -> Ints:
        """Labels that are equal within a query only."""
        return label if len(self.queries) < 2 else self.query * (int(label.max(initial=0)) + 1) + label


class Ranking:
    """The state of ranking candidates under a block of settings; each stage updates it.

    Parameters
    ----------
    candidates : CandidateSet
    block : Block
    followed : ndarray of int64
        The candidates, ascending, for which the candidate that they are collapsed under is recorded.

    Attributes
    ----------
    fused, score : ndarray of float64, shape (n, fusions) and (n, columns)
        Without and with the factors. With many settings the arrays are reused: they may hold values of a later stage.
    key : ndarray of int, shape (n, columns)
    root : ndarray of int, shape (followed, columns)
        The key of the candidate under which each of `followed` is collapsed; its own if it is not.
    floor : ndarray of int64, shape (settings,)
        The least key that reaches `min_score`, by setting. Candidates below it keep their keys.
    """

    def __init__(self, candidates: CandidateSet, block: Block, followed: Ints) -> None:
        self.candidates, self.block, self.followed = candidates, block, followed
        self.is_one = len(block.fused) == 1
        self.fused = self._fused()
        absent = self._found_by_none() if block.lacks_arms else None
        if absent is not None:
            self.fused[absent] = DROPPED
        beaten = self._beaten()
        self.score = self._multiplied()
        units = np.multiply(self.score, UNIT, out=None if block.is_diverse or self.is_one else self.score)
        np.rint(units, out=units)
        self.key = self._keys(units, candidates.tie_order)
        self.floor = self._floor(units)
        if beaten is not None and candidates.chunks_of_memory is not None:
            rows = candidates.chunks_of_memory.rows
            self.key[rows] = np.where(self._by_column(beaten), DROPPED, self.key[rows])
        if absent is not None:
            np.putmask(self.key, self._by_column(absent), DROPPED)
        self.root = self.key[followed]

    def _by_column(self, values: Any) -> Any:
        """Values by fused score, as values by column."""
        if self.block.is_identity:
            return values
        return np.take(values, self.block.fused, axis=1, mode="clip")

    def _fused(self) -> Floats:
        """The fused score of each candidate, for each fusion."""
        candidates = self.candidates
        parts = [
            fuse(Evidence(candidates.norm(fusion.norm), candidates.rank), fusion.weights, fusion.method, fusion.rrf_k)
            for fusion in self.block.fusions
        ]
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return np.round(fused, FUSED_DIGITS, out=fused)

    def _found_by_none(self) -> Mask:
        """Which candidates no arm with a weight retrieved."""
        weights = np.concatenate([fusion.weights for fusion in self.block.fusions], axis=1)
        is_found = np.zeros((len(self.candidates), weights.shape[1]), bool)
        for arm, weight in enumerate(weights):
            is_found |= (self.candidates.rank[:, arm, None] > 0) & (weight > 0)
        return ~is_found

    def _beaten(self) -> Mask | None:
        """Which chunks are not the best of their memory, by fused score."""
        chunks = self.candidates.chunks_of_memory
        if chunks is None:
            return None
        keys = self._keys(np.rint(self.fused[chunks.rows] * UNIT), self.candidates.tie_order[chunks.rows])
        beaten: Mask = keys != chunks.best(keys)
        return beaten

    def _multiplied(self) -> Floats:
        """The fused scores, times kind weight and decay."""
        block, candidates = self.block, self.candidates
        score: Floats = self.fused.copy() if self.is_one else self._by_column(self.fused)
        if block.prior is not None:
            score *= np.take(candidates.prior(block.priors), block.prior, axis=1, mode="clip")
        if block.decays:
            score *= np.take(candidates.factors(block.decays), block.decay, axis=1, mode="clip")
        return score

    def _keys(self, units: Floats, order: Keys) -> Keys:
        """A unique integer for each score; `order` breaks ties, the larger first."""
        size = len(self.candidates)
        if self.block.is_bounded:
            kind = np.int32 if (UNIT + 2) * size < np.iinfo(np.int32).max else np.int64
            key: Keys = units.astype(kind)
            np.multiply(key, size, out=key)
            np.add(key, order.astype(kind), out=key)
            return key
        # Scores of any size are replaced by their ranks.
        by_tie = np.argsort(-order[:, 0], kind="stable")
        worst = by_tie[np.argsort(-units[by_tie], axis=0, kind="stable")]
        ranked = np.empty(units.shape, np.int64)
        np.put_along_axis(ranked, worst, np.arange(len(units))[::-1][:, None], axis=0)
        return ranked

    def _floor(self, units: Floats) -> Keys:
        block = self.block
        if block.is_bounded:
            floor: Keys = np.multiply(np.minimum(block.least, UNIT + 1).astype(np.int64), len(units))
            return floor
        low = units[:, block.column] < block.least
        return np.asarray(low.sum(axis=0), np.int64)

    def collapse_twins(self) -> None:
        """Drop exact duplicates of better candidates."""
        twins = self.candidates.twins
        if twins is None:
            return
        own_key = self.key[twins.rows]
        best = twins.best(own_key)
        lost = (own_key != best) & (own_key >= 0)
        if not lost.any():
            return
        self.key[twins.rows] = np.where(lost, DROPPED, own_key)
        place = np.full(len(self.candidates), -1)
        place[twins.rows] = np.arange(len(twins.rows))
        position = np.flatnonzero(place[self.followed] >= 0)
        place = place[self.followed[position]]
        self.root[position] = np.where(lost[place], best[place], self.root[position])

    def collapse_near(self) -> None:
        """Drop near-duplicates of better candidates that stay, among the best `FOLDED` of each query."""
        if not self.block.folds:
            return
        queries = self.candidates.queries
        # One setting needs its own best candidates alone; many settings have different ones.
        near = self.candidates.near_among(list(map(self._best, queries))) if self.is_one else self.candidates.near
        for query, pairs in zip(queries, near, strict=True):
            if pairs is not None:
                self._collapse_pairs(query, pairs)

    def _least_best(self, query: slice) -> Any:
        """The least key among the best `FOLDED`, by column."""
        key = self.key[query]
        return np.partition(key, -FOLDED, axis=0)[-FOLDED] if len(key) > FOLDED else 0

    def _best(self, query: slice) -> Ints:
        least = np.maximum(self._least_best(query), self.floor.min())
        best: Ints = query.start + np.flatnonzero(self.key[query, 0] >= least)
        return best

    def _collapse_pairs(self, query: slice, near: NearPairs) -> None:
        own_key = self.key[near.rows]
        under = collapse(
            own_key, (own_key >= 0) & (own_key >= self._least_best(query)), near, self.block.fold_threshold
        )
        collapsed = under != own_key
        self.key[near.rows] = np.where(collapsed, DROPPED, own_key)
        root = self.root[slice(*np.searchsorted(self.followed, (query.start, query.stop)))]
        for row in np.flatnonzero(collapsed.any(axis=1)):
            np.copyto(root, under[row], where=collapsed[row] & (root == own_key[row]))

    def diversify(self, place: Ints, depth: int | None, query: slice) -> tuple[Ints, Floats]:
        """Places after MMR, and the penalty of each candidate of the query; one column per setting."""
        key = self.key[query]
        is_alive = key >= self.floor
        alive = count(is_alive)
        order = np.argsort(-key, axis=0, kind="stable")[: int(alive.max(initial=0))]
        penalty = np.zeros(key.shape)
        if not len(order):
            return place, penalty
        some, position = np.flatnonzero(is_alive.any(axis=1)), np.zeros(len(key), np.int64)
        position[some] = np.arange(len(some))
        score, similar = (
            np.take_along_axis(self.score[query], order, axis=0),
            self.candidates.similar(query.start + some),
        )
        moved, lost = mmr(score, similar, self.block.mmr_lambda, depth, position[order], alive)
        np.put_along_axis(penalty, order, lost, axis=0)
        known = np.take_along_axis(moved, np.minimum(place, len(order) - 1), axis=0)
        return np.where(place < len(order), known, NOWHERE), penalty


@dataclass(frozen=True)
class Places:
    """The places of some candidates under each setting.

    Attributes
    ----------
    place : ndarray of int64, shape (wanted, settings)
        From 0; a collapsed candidate has the place of its hit; `NOWHERE` if it is not among the first.
    is_hit : ndarray of bool, shape (wanted, settings)
        Whether it is a hit itself.
    hits : ndarray of int64, shape (settings,)
        The number of hits, or 1 for any number.
    """

    place: Ints
    is_hit: Mask
    hits: Ints


def places(candidates: CandidateSet, block: Block, wanted: Ints, depth: int, counts: bool = True) -> Places:
    """The places of the candidates `wanted` of one query under each setting, among the first `depth` hits.

    Parameters
    ----------
    counts : bool
        Whether to count hits; else only whether there is one.
    """
    ranking = Ranking(candidates, block, wanted)
    alone = ranking.root.copy()
    before = ranking.key.copy() if _is_crowded(candidates, block) else None
    ranking.collapse_twins()
    ranking.collapse_near()
    key, root, floor, column = ranking.key, ranking.root, ranking.floor, block.column
    shown = (alone[:, column] >= floor) & (root[:, column] >= floor)
    place = np.array([count(key > root_key) for root_key in root]).reshape(root.shape).astype(np.int64)
    if before is not None:
        shown &= _is_named(candidates, block, before, wanted, root)[:, column]
    if block.is_diverse:
        place, _ = ranking.diversify(place, depth, slice(0, len(candidates)))
    else:
        place = place[:, column]
    shown &= place < depth
    is_hit = shown & (root == alone)[:, column]
    return Places(np.where(shown, place, NOWHERE), is_hit, _hits(ranking, depth, counts))


def _hits(ranking: Ranking, depth: int, counts: bool) -> Ints:
    key, floor, block = ranking.key, ranking.floor, ranking.block
    if not counts and block.is_bounded and not block.lacks_arms and not block.least.any():
        return np.full(len(block), int(len(key) > 0))
    if not counts:
        best = key.max(axis=0, initial=DROPPED)
        return np.asarray(best[block.column] >= floor, np.int64)
    return np.minimum(count(key[:, block.column] >= floor), depth)


def _is_crowded(candidates: CandidateSet, block: Block) -> bool:
    """Whether a hit may have more duplicates than are listed."""
    twins = 1 if candidates.twins is None else int(candidates.twins.sizes.max())
    near = max([pairs.largest for pairs in candidates.near if pairs], default=1) if block.folds else 1
    return twins * near > MOST_NAMED


def _is_named(candidates: CandidateSet, block: Block, before: Keys, wanted: Ints, root: Keys) -> Mask:
    """Which of the wanted are a hit, or among the first `MOST_NAMED` duplicates of one."""
    every = Ranking(candidates, block, np.arange(len(candidates)))
    every.collapse_twins()
    every.collapse_near()
    named = np.ones(root.shape, bool)
    collapsed = (before[wanted] >= 0) & (root != before[wanted]) & (root != DROPPED)
    for position, column in np.argwhere(collapsed).tolist():
        key, above = before[:, column], root[position, column]
        others = np.flatnonzero((every.root[:, column] == above) & (key != above))
        others = others[np.argsort(-key[others], kind="stable")]
        head = int(candidates.memory[np.flatnonzero(key == above)[0]])
        names = [name for name in dict.fromkeys(candidates.memory[others].tolist()) if name != head]
        named[position, column] = int(candidates.memory[wanted[position]]) in names[:MOST_NAMED]
    return named


def count(flags: Mask) -> Ints:
    """The number of true values, by column."""
    total = np.zeros(flags.shape[1], np.int64)
    for start in range(0, len(flags), 255):  # so many fit a byte
        total += np.add.reduce(flags[start : start + 255].view(np.uint8), axis=0, dtype=np.uint8)
    return total
