"""One query under many settings: the stages of `rank` over candidates × settings, as far as places need them.

A candidate's *key* under a setting is a whole number, larger for what ranks higher and the same for no two: its score
in units of what makes a tie, and below that its row. `DEAD` is what a stage dropped. So a place is a count of larger
keys, nothing is sorted, and each stage is what its namesake in `rank` does.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from memkit.schemas import Floats, Ints, Mask
from memkit.search.stages.blocks import UNIT, Alike, Block, Groups, Keys, Places
from memkit.search.stages.fuse import TIE_DIGITS, Evidence, fuse
from memkit.search.stages.rank import FOLDED, FUSED_DIGITS

DEAD = -1
NOWHERE = np.iinfo(np.int64).max
"""The place of what is not shown."""
_ALIKE = 20
"""So many are named under a hit."""


@dataclass
class OneQuery:
    """The candidates of one query, by row, and what the stages look at of them.

    Attributes
    ----------
    rank : ndarray of int64, shape (n, arms)
        As in `Candidates`.
    norm : callable
        The norms by what they are called, shape (n, arms).
    factor, prior : callable
        The factors by age or by kind for what they are known by, shape (n, how many).
    memory, twin : ndarray of int64, shape (n,)
        As in `Rows`.
    per_memory : bool
        Whether a hit is a memory, or else a chunk.
    wanted : ndarray of int64
        The candidates whose places are asked for.
    alike : callable
        `Alike` of the candidates.
    likeness : callable
        The similarity of the candidates among each other, for MMR.
    """

    rank: Ints
    norm: Callable[[Any], Floats]
    factor: Callable[[tuple[Any, ...]], Floats]
    prior: Callable[[tuple[Any, ...]], Floats]
    memory: Ints
    twin: Ints
    per_memory: bool
    wanted: Ints
    alike: Callable[[], Alike | None]
    likeness: Callable[[], Floats]
    _order: Keys = field(init=False)
    _last: tuple[Any, Floats] = field(init=False)

    def __post_init__(self) -> None:
        self._order = np.arange(len(self.memory))[::-1][:, None]
        self._last = (None, np.empty(0))

    @cached_property
    def _chunks(self) -> Groups | None:
        return Groups.of(self.memory) if self.per_memory else None

    @cached_property
    def _twins(self) -> Groups | None:
        return Groups.of(self.twin)

    @cached_property
    def _near(self) -> Alike | None:
        return self.alike()

    @cached_property
    def _similar(self) -> Floats:
        return self.likeness()

    def places(self, block: Block, depth: int, counts: bool = True) -> Places:
        """Where the wanted candidates are shown under each setting of `block`, among the first `depth` hits.

        Parameters
        ----------
        counts : bool
            Whether hits are counted, or only told from none.
        """
        score, key, units = self._scored(block)
        root = key[self.wanted]
        lone = root.copy()
        before = key.copy() if self._is_crowded(block) else key
        self._say_once(key, root)
        if block.folds and self._near is not None:
            self._fold(block, self._near, key, root)
        floor = self._floor(block, units)
        shown = (lone[:, block.column] >= floor) & (root[:, block.column] >= floor)
        place = self._counted(key, root)
        if before is not key:
            shown &= self._is_named(block, before, root)[:, block.column]
        place = (
            self._diversified(block, score, key, place, floor, depth) if block.is_diverse else place[:, block.column]
        )
        shown &= place < depth
        own = shown & (root == lone)[:, block.column]
        return Places(np.where(shown, place, NOWHERE), own, self._hits(block, key, floor, depth, counts))

    def _scored(self, block: Block) -> tuple[Floats, Keys, Floats | None]:
        """Scores, and keys with those dropped that lose to another chunk of their memory; scores in units if unbounded.

        What is below the least score keeps its key, which is below the floor.
        """
        fused = self._fused(block)
        absent = self._absent(block) if block.lacks_arms else None
        if absent is not None:
            fused[absent] = DEAD
        beaten = self._beaten(fused, block.is_bounded)
        score = fused if block.is_identity else np.take(fused, block.fused, axis=1, mode="clip")
        if block.prior is not None:
            score *= np.take(self.prior(block.priors), block.prior, axis=1, mode="clip")
        if block.decays:
            score *= np.take(self._factor(block.decays), block.decay, axis=1, mode="clip")
        units = np.multiply(score, UNIT, out=None if block.is_diverse else score)
        np.rint(units, out=units)
        key = self._keys(units, self._order, block.is_bounded)
        if beaten is not None and self._chunks is not None:
            rows = self._chunks.rows
            key[rows] = np.where(np.take(beaten, block.fused, axis=1, mode="clip"), DEAD, key[rows])
        if absent is not None:
            np.putmask(key, np.take(absent, block.fused, axis=1, mode="clip"), DEAD)
        return score, key, None if block.is_bounded else units

    def _factor(self, decays: tuple[Any, ...]) -> Floats:
        """The factors, kept for the next block, which often has the same."""
        if self._last[0] is not decays:
            self._last = (decays, self.factor(decays))
        return self._last[1]

    def _floor(self, block: Block, units: Floats | None) -> Keys:
        """The least key that is alive, by setting."""
        if units is None:
            floor: Keys = np.multiply(np.minimum(block.least, UNIT + 1).astype(np.int64), len(self._order))
            return floor
        dead = units[:, block.column] < block.least
        return np.asarray(len(units) - (~dead).sum(axis=0), np.int64)

    def _counted(self, key: Keys, root: Keys) -> Ints:
        """How many keys are above each root."""
        return np.array([_count(key > one) for one in root]).reshape(root.shape).astype(np.int64)

    def _hits(self, block: Block, key: Keys, floor: Keys, depth: int, counts: bool) -> Ints:
        if not counts and block.is_bounded and not block.lacks_arms and not block.least.any():
            return np.full(len(block), int(len(key) > 0))
        if not counts:
            best = key.max(axis=0, initial=DEAD)
            return np.asarray(best[block.column] >= floor, np.int64)
        return np.minimum(_count(key[:, block.column] >= floor), depth)

    def _fused(self, block: Block) -> Floats:
        parts = [
            fuse(Evidence(self.norm(one.norm), self.rank), one.weights, one.method, one.rrf_k) for one in block.fusions
        ]
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return np.round(fused, FUSED_DIGITS, out=fused)

    def _absent(self, block: Block) -> Mask:
        """Which candidates no arm with a weight found."""
        weights = np.concatenate([one.weights for one in block.fusions], axis=1)
        found = np.zeros((len(self.rank), weights.shape[1]), bool)
        for arm, weight in enumerate(weights):
            found |= (self.rank[:, arm, None] > 0) & (weight > 0)
        return ~found

    def _beaten(self, fused: Floats, is_bounded: bool) -> Mask | None:
        """Which chunks of those that share a memory are not its best."""
        if self._chunks is None:
            return None
        rows = self._chunks.rows
        keys = self._keys(np.rint(fused[rows] * UNIT), self._order[rows], is_bounded)
        beaten: Mask = keys != self._chunks.best(keys)
        return beaten

    def _keys(self, units: Floats, order: Keys, is_bounded: bool) -> Keys:
        """A whole number for each score, in steps of `UNIT`; `order` breaks ties, the larger first."""
        size = len(self._order)
        if is_bounded:
            kind = np.int32 if (UNIT + 2) * size < np.iinfo(np.int32).max else np.int64
            key: Keys = units.astype(kind)
            np.multiply(key, size, out=key)
            np.add(key, order.astype(kind), out=key)
            return key
        # Scores of any size: their ranks.
        by_tie = np.argsort(-order[:, 0], kind="stable")
        worst = by_tie[np.argsort(-units[by_tie], axis=0, kind="stable")]
        ranked = np.empty(units.shape, np.int64)
        np.put_along_axis(ranked, worst, np.arange(len(units))[::-1][:, None], axis=0)
        return ranked

    def _say_once(self, key: Keys, root: Keys) -> None:
        """Drop what says the same as a better candidate, which is its root from then on."""
        if self._twins is None:
            return
        rows = self._twins.rows
        own = key[rows]
        best = self._twins.best(own)
        lost = (own != best) & (own >= 0)
        if not lost.any():
            return
        key[rows] = np.where(lost, DEAD, own)
        for at, place in _where(self.wanted, rows):
            root[at] = np.where(lost[place], best[place], root[at])

    def _fold(self, block: Block, near: Alike, key: Keys, root: Keys) -> None:
        """Drop what says nearly the same as a better one that stays, among the best `FOLDED`."""
        own = key[near.rows]
        is_open = own >= 0
        if len(key) > FOLDED:
            is_open &= own >= np.partition(key, -FOLDED, axis=0)[-FOLDED]
        most = int(is_open.sum(axis=0).max(initial=0))
        if most < 2:
            return
        order = np.argsort(-np.where(is_open, own, DEAD), axis=0, kind="stable")
        kept, under = np.full_like(own, DEAD), own.copy()
        columns, threshold = np.arange(own.shape[1]), block.fold_threshold
        for at in order[:most]:
            above = np.where(near.same(at, threshold), kept, DEAD).max(axis=0)
            mine, is_in = own[at, columns], is_open[at, columns]
            folds = is_in & (above >= 0)
            kept[at, columns] = np.where(is_in & ~folds, mine, kept[at, columns])
            under[at, columns] = np.where(folds, above, mine)
        gone = under != own
        key[near.rows] = np.where(gone, DEAD, own)
        for at in range(len(root)):
            mine = gone & (own == root[at])
            root[at] = np.where(mine.any(axis=0), np.where(mine, under, DEAD).max(axis=0), root[at])

    def _diversified(self, block: Block, score: Floats, key: Keys, place: Ints, floor: Keys, depth: int) -> Ints:
        """The places after MMR; each setting has a column of its own."""
        alive = _count(key >= floor)
        longest = int(alive.max(initial=0))
        order = np.argsort(-key, axis=0, kind="stable")[:longest]
        if not longest:
            return place
        columns, weight = np.arange(len(block)), block.mmr_lambda
        left = np.arange(longest)[:, None] < alive
        won = weight * np.take_along_axis(score, order, axis=0)
        nearest = np.zeros(order.shape)
        moved = np.full(order.shape, NOWHERE)
        for pick in range(min(depth, longest)):
            value = won - (1.0 - weight) * nearest
            best = np.argmax(np.where(left, np.round(value, TIE_DIGITS), -np.inf), axis=0)
            is_one = pick < alive
            moved[best[is_one], columns[is_one]] = pick
            left[best, columns] = False
            similar = self._similar[order[best, columns], order]
            nearest = np.where(left, np.maximum(nearest, similar), nearest)
        known = np.take_along_axis(moved, np.minimum(place, longest - 1), axis=0)
        return np.where(place < longest, known, NOWHERE)

    def _is_crowded(self, block: Block) -> bool:
        """Whether more candidates could stand under one hit than are named there."""
        twins = 1 if self._twins is None else int(self._twins.sizes.max())
        near = self._near.largest if block.folds and self._near is not None else 1
        return twins * near > _ALIKE

    def _is_named(self, block: Block, before: Keys, root: Keys) -> Mask:
        """Which of the wanted are the hit itself or among those that are named under it: the first `_ALIKE`."""
        every = copy(self)
        every.wanted = np.arange(len(before))
        roots, key = before.copy(), before.copy()
        every._say_once(key, roots)
        if block.folds and self._near is not None:
            every._fold(block, self._near, key, roots)
        named = np.ones(root.shape, bool)
        folded = (before[self.wanted] >= 0) & (root != before[self.wanted]) & (root != DEAD)
        for at, column in np.argwhere(folded).tolist():
            own, mine = before[:, column], root[at, column]
            others = np.flatnonzero((roots[:, column] == mine) & (own != mine))
            others = others[np.argsort(-own[others], kind="stable")]
            head = int(self.memory[np.flatnonzero(own == mine)[0]])
            names = [name for name in dict.fromkeys(self.memory[others].tolist()) if name != head]
            named[at, column] = int(self.memory[self.wanted[at]]) in names[:_ALIKE]
        return named


def _count(flags: Mask) -> Ints:
    """How many are true, by column."""
    total = np.zeros(flags.shape[1], np.int64)
    for start in range(0, len(flags), 255):  # so many fit a byte
        total += np.add.reduce(flags[start : start + 255].view(np.uint8), axis=0, dtype=np.uint8)
    return total


def _where(wanted: Ints, rows: Ints) -> list[tuple[int, int]]:
    """The place in `wanted` and in `rows` of what is in both."""
    _, first, second = np.intersect1d(wanted, rows, assume_unique=True, return_indices=True)
    return list(zip(first.tolist(), second.tolist(), strict=True))
