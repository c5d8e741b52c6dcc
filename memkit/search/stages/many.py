"""One query under many settings: the stages of `rank` over candidates × settings, as far as places need them.

A candidate's *key* under a setting is a whole number, larger for what ranks higher and the same for no two: its score
in units of what makes a tie, and below that its row. `DEAD` is what a stage dropped. So a place is a count of larger
keys, nothing is sorted, and each stage is what its namesake in `rank` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.schemas import Floats, Ints, Mask
from memkit.search.stages.diversify import Repeats
from memkit.search.stages.fuse import TIE_DIGITS, Evidence, fuse
from memkit.search.stages.rank import FOLDED, FUSED_DIGITS

Keys = NDArray[np.signedinteger[Any]]
DEAD = -1
NOWHERE = np.iinfo(np.int64).max
"""The place of what is not shown."""
_UNIT = 10.0**TIE_DIGITS
_ALIKE = 20
"""So many are named under a hit."""


@dataclass(frozen=True)
class Fusion:
    """Some columns of a block whose scores are fused alike: by `method` over the norms called `norm`."""

    norm: Any
    method: str
    rrf_k: int
    columns: slice
    weights: Floats


@dataclass(frozen=True)
class Block:
    """Settings that are worked out together, a column each.

    Attributes
    ----------
    fusions : sequence of Fusion
        One after the other they make the columns of the fused scores.
    fused, decay, prior : ndarray of int64, shape (settings,)
        Which fused score, which factor by age and which by kind each setting takes; `prior` is None where all are 1.
    decays, priors : tuple of object
        What the factors in use are known by.
    min_score, fold_threshold, mmr_lambda : ndarray of float64, shape (settings,)
    folds, is_diverse : bool
        Whether near repetitions are folded; whether any lambda is below 1.
    is_bounded : bool
        Whether no score is above 1 or below 0.
    """

    fusions: Sequence[Fusion]
    fused: Ints
    decay: Ints
    decays: tuple[Any, ...]
    prior: Ints | None
    priors: tuple[Any, ...]
    min_score: Floats
    fold_threshold: Floats
    mmr_lambda: Floats
    folds: bool
    is_diverse: bool
    is_bounded: bool

    def __len__(self) -> int:
        return len(self.fused)


@dataclass(frozen=True)
class Groups:
    """Rows that compete with each other, group by group."""

    rows: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, label: Ints) -> Groups | None:
        """The rows that share their label with another; None where none does."""
        order = np.argsort(label, kind="stable")
        starts = np.flatnonzero(np.r_[True, label[order][1:] != label[order][:-1]]) if len(label) else order
        sizes = np.diff(starts, append=len(label))
        several = np.repeat(sizes > 1, sizes)
        if not several.any():
            return None
        sizes = sizes[sizes > 1]
        return cls(order[several], np.cumsum(sizes) - sizes, sizes)

    def best(self, keys: Keys) -> Keys:
        """The largest key of its group, for each of `rows`, whose keys are given."""
        found: Keys = np.repeat(np.maximum.reduceat(keys, self.starts, axis=0), self.sizes, axis=0)
        return found


@dataclass(frozen=True)
class Alike:
    """Candidates that near repetitions may fold: trigrams that two share, and that they would if they were the same."""

    rows: Ints
    shared: Floats
    most: Floats

    @classmethod
    def of(cls, repeats: Repeats, texts: Ints, threshold: float) -> Alike | None:
        """Those of the candidates, whose places in `repeats` are `texts`, that any threshold from this on folds."""
        likely = np.argwhere(np.triu(repeats.likely(texts, threshold), 1)).tolist() if len(texts) > 1 else []
        pairs = [(a, b) for a, b in likely if repeats.same(int(texts[a]), int(texts[b]), threshold)]
        if not pairs:
            return None
        rows = np.unique(pairs)
        shared, most = np.full((len(rows), len(rows)), -1.0), np.ones((len(rows), len(rows)))
        for a, b in pairs:
            one, other = np.searchsorted(rows, (a, b))
            shared[[one, other], [other, one]] = repeats.shared(int(texts[a]), int(texts[b]))
            most[[one, other], [other, one]] = repeats.most(int(texts[a]), int(texts[b]))
        return cls(rows, shared, most)


@dataclass
class OneQuery:
    """The candidates of one query, by row, and what the stages look at of them.

    Attributes
    ----------
    raw, rank : ndarray, shape (n, arms)
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

    raw: Floats
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

    def __post_init__(self) -> None:
        self._order = np.arange(len(self.memory))[::-1][:, None]

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

    def places(self, block: Block, depth: int) -> tuple[Ints, Mask, Ints]:
        """Where the wanted candidates are shown under each setting of `block`.

        Returns
        -------
        place : ndarray of int64, shape (wanted, settings)
            From 0, that of the hit that names it where it is folded; `NOWHERE` where it is not among the first `depth`.
        own : ndarray of bool, shape (wanted, settings)
            Whether it is the hit itself.
        hits : ndarray of int64, shape (settings,)
            How many hits there are, at most `depth`.
        """
        score, key = self._scored(block)
        root = key[self.wanted]
        lone = root.copy()
        before = key if not self._is_crowded(block) else key.copy()
        self._say_once(key, root)
        if block.folds and self._near is not None:
            self._fold(block, self._near, key, root)
        place = np.stack([_larger(key, one) for one in root]) if len(root) else np.empty((0, len(block)), np.int64)
        if block.is_diverse:
            place = self._diversified(block, score, key, place, depth)
        shown = (root >= 0) & (place < depth)
        if before is not key:
            shown &= self._is_named(block, before, key, root)
        alive = np.add.reduce(key >= 0, axis=0, dtype=np.int64)
        return np.where(shown, place, NOWHERE), shown & (root == lone), np.minimum(alive, depth)

    def _scored(self, block: Block) -> tuple[Floats, Keys]:
        """Scores, and keys with those dropped that lose to another chunk of their memory, or are below the least."""
        fused = self._fused(block)
        beaten = self._beaten(fused, block.is_bounded)
        score = np.take(fused, block.fused, axis=1, mode="clip")
        if block.prior is not None:
            score *= np.take(self.prior(block.priors), block.prior, axis=1, mode="clip")
        if block.decays:
            score *= np.take(self.factor(block.decays), block.decay, axis=1, mode="clip")
        units = np.rint(score * _UNIT)
        key = self._keys(units, self._order, block.is_bounded)
        least = block.min_score
        if not block.is_bounded or least.any():
            key[units / _UNIT < least] = DEAD
        if beaten is not None and self._chunks is not None:
            rows = self._chunks.rows
            key[rows] = np.where(np.take(beaten, block.fused, axis=1, mode="clip"), DEAD, key[rows])
        return score, key

    def _fused(self, block: Block) -> Floats:
        parts = [
            fuse(Evidence(self.raw, self.norm(one.norm), self.rank), one.weights, one.method, one.rrf_k)
            for one in block.fusions
        ]
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return np.round(fused, FUSED_DIGITS, out=fused)

    def _beaten(self, fused: Floats, is_bounded: bool) -> Mask | None:
        """Which chunks of those that share a memory are not its best."""
        if self._chunks is None:
            return None
        rows = self._chunks.rows
        keys = self._keys(np.rint(fused[rows] * _UNIT), self._order[rows], is_bounded)
        beaten: Mask = keys != self._chunks.best(keys)
        return beaten

    def _keys(self, units: Floats, order: Keys, is_bounded: bool) -> Keys:
        """A whole number for each score, in steps of `_UNIT`; `order` breaks ties, the larger first."""
        size = len(self._order)
        if is_bounded:
            kind = np.int32 if (_UNIT + 2) * size < np.iinfo(np.int32).max else np.int64
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
        is_open = np.stack([_larger(key, one) for one in own]) < FOLDED
        is_open &= own >= 0
        most = int(is_open.sum(axis=0).max(initial=0))
        if most < 2:
            return
        order = np.argsort(-np.where(is_open, own, DEAD), axis=0, kind="stable")
        kept, under = np.full_like(own, DEAD), own.copy()
        columns, threshold = np.arange(len(block)), block.fold_threshold
        for at in order[:most]:
            same = near.shared[:, at] >= threshold * near.most[:, at]
            above = np.where(same, kept, DEAD).max(axis=0)
            mine, is_in = own[at, columns], is_open[at, columns]
            folds = is_in & (above >= 0)
            kept[at, columns] = np.where(is_in & ~folds, mine, kept[at, columns])
            under[at, columns] = np.where(folds, above, mine)
        gone = under != own
        key[near.rows] = np.where(gone, DEAD, own)
        for at in range(len(root)):
            mine = gone & (own == root[at])
            root[at] = np.where(mine.any(axis=0), np.where(mine, under, DEAD).max(axis=0), root[at])

    def _diversified(self, block: Block, score: Floats, key: Keys, place: Ints, depth: int) -> Ints:
        """The places after MMR."""
        alive = np.add.reduce(key >= 0, axis=0, dtype=np.int64)
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
        twins = 0 if self._twins is None else int(self._twins.sizes.max())
        near = len(self._near.rows) if block.folds and self._near is not None else 0
        return max(twins, 1) * max(near, 1) > _ALIKE

    def _is_named(self, block: Block, before: Keys, key: Keys, root: Keys) -> Mask:
        """Which of the wanted are the hit itself or among those that are named under it: the first `_ALIKE`."""
        every = np.arange(len(before))
        whole = OneQuery(**{**vars_of(self), "wanted": every})
        roots, again = before.copy(), before.copy()
        whole._say_once(again, roots)
        if block.folds and self._near is not None:
            whole._fold(block, self._near, again, roots)
        named = np.ones(root.shape, bool)
        for column in range(root.shape[1]):
            for at, one in enumerate(self.wanted.tolist()):
                own, mine = before[one, column], root[at, column]
                if own < 0 or mine in (own, DEAD):
                    continue
                others = np.flatnonzero((roots[:, column] == mine) & (before[:, column] != mine))
                others = others[np.argsort(-before[others, column], kind="stable")]
                head = int(self.memory[np.flatnonzero(before[:, column] == mine)[0]])
                names = [name for name in dict.fromkeys(self.memory[others].tolist()) if name != head]
                named[at, column] = int(self.memory[one]) in names[:_ALIKE]
        return named


def vars_of(query: OneQuery) -> Mapping[str, Any]:
    return {name: value for name, value in vars(query).items() if not name.startswith("_")}


def _larger(key: Keys, one: Keys) -> Ints:
    """How many of the keys are larger than `one`, by column."""
    above = (key > one).view(np.uint8)
    total = np.zeros(key.shape[1], np.int64)
    for start in range(0, len(above), 255):  # so many fit a byte
        total += np.add.reduce(above[start : start + 255], axis=0, dtype=np.uint8)
    return total


def _where(wanted: Ints, rows: Ints) -> list[tuple[int, int]]:
    """The place in `wanted` and in `rows` of what is in both."""
    _, first, second = np.intersect1d(wanted, rows, assume_unique=True, return_indices=True)
    return list(zip(first.tolist(), second.tolist(), strict=True))
