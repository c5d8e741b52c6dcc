"""What the stages of many settings at once are told: settings as columns, and candidates that compete or are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from memkit.schemas import Floats, Ints, Mask
from memkit.search.stages.diversify import Repeats
from memkit.search.stages.fuse import TIE_DIGITS, changes, group_starts

Keys = NDArray[np.signedinteger[Any]]
UNIT = 10.0**TIE_DIGITS
"""Scores in so many parts of 1 tie where these are equal."""


@dataclass(frozen=True)
class Fusion:
    """Some columns of a block whose scores are fused alike: by `method` over the norms called `norm`.

    What no arm with a weight found is no candidate.
    """

    norm: Any
    method: str
    rrf_k: int
    columns: slice
    weights: Floats


@dataclass(frozen=True)
class Block:
    """Settings that are worked out together.

    Those that differ in the least score alone share a column: it takes from the bottom, which nothing above depends on.

    Attributes
    ----------
    fusions : sequence of Fusion
        One after the other they make the columns of the fused scores.
    fused, decay, prior : ndarray of int64, shape (columns,)
        Which fused score, which factor by age and which by kind each column takes; `prior` is None where all are 1.
    decays, priors : tuple of object
        What the factors in use are known by; none where nothing decays.
    fold_threshold, mmr_lambda : ndarray of float64, shape (columns,)
    folds, is_diverse : bool
        Whether near repetitions are folded; whether any lambda is below 1.
    is_bounded : bool
        Whether no score is above 1 or below 0.
    column : ndarray of int64, shape (settings,)
    min_score : ndarray of float64, shape (settings,)
        Where the block is diverse, each setting has a column of its own.
    """

    fusions: Sequence[Fusion]
    fused: Ints
    decay: Ints
    decays: tuple[Any, ...]
    prior: Ints | None
    priors: tuple[Any, ...]
    fold_threshold: Floats
    mmr_lambda: Floats
    folds: bool
    is_diverse: bool
    is_bounded: bool
    column: Ints
    min_score: Floats

    def __len__(self) -> int:
        return len(self.column)

    @cached_property
    def least(self) -> Floats:
        """The fewest units of score that pass `min_score`: of 0.3, say, the first whose tie is not below it."""
        near = np.ceil(self.min_score * UNIT) + np.arange(-2, 3)[:, None]
        found: Floats = np.min(np.where(near / UNIT < self.min_score, np.inf, np.maximum(near, 0.0)), axis=0)
        return found

    @cached_property
    def lacks_arms(self) -> bool:
        """Whether any column has an arm without weight."""
        return not all(one.weights.all() for one in self.fusions)

    @cached_property
    def is_identity(self) -> bool:
        """Whether each column takes its own fused score."""
        return bool(len(self.fused) == self.fusions[-1].columns.stop and (np.diff(self.fused) == 1).all())


@dataclass(frozen=True)
class Places:
    """Where candidates are shown, under each setting.

    Attributes
    ----------
    place : ndarray of int64, shape (wanted, settings)
        From 0, that of the hit that names it where it is folded; `NOWHERE` where it is not among the first.
    own : ndarray of bool, shape (wanted, settings)
        Whether it is the hit itself.
    hits : ndarray of int64, shape (settings,)
        How many hits there are, or 1 for any.
    """

    place: Ints
    own: Mask
    hits: Ints


@dataclass(frozen=True)
class Groups:
    """Rows that compete with each other, group by group."""

    rows: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, label: Ints) -> Groups | None:
        """The rows that share their label with another; None where none does."""
        if changes(np.sort(label)).all():
            return None
        order = np.argsort(label, kind="stable")
        starts = group_starts(label[order])
        sizes = np.diff(starts, append=len(label))
        several = np.repeat(sizes > 1, sizes)
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

    @cached_property
    def largest(self) -> int:
        """How many are alike at most, one by way of another."""
        _, label = connected_components(self.shared >= 0)
        return int(np.bincount(label).max())

    def same(self, at: Ints, threshold: Floats) -> Mask:
        """Which of `rows` say the same as the one of them that is `at`, by column."""
        if (threshold == threshold[0]).all():
            alike: Mask = self.shared >= threshold[0] * self.most
            return alike[:, at]
        same: Mask = self.shared[:, at] >= threshold * self.most[:, at]
        return same

    @classmethod
    def of(cls, repeats: Repeats, texts: Ints, threshold: float) -> Alike | None:
        """Those of the candidates, which are the rows `texts` of `repeats`, that any threshold from this on folds."""
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
