"""Settings as columns, so that the stages work on any number of them at once, and groups of competing candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from memkit.schemas import Floats, Ints
from memkit.search.settings import QuerySettings
from memkit.search.stages.diversify import Keys
from memkit.search.stages.fuse import TIE_DIGITS, changes, group_starts

UNIT = 10.0**TIE_DIGITS
"""Scores are compared in units of 1 / `UNIT`; equal units tie."""


@dataclass(frozen=True)
class Fusion:
    """Columns of a block whose scores are fused by the same `method` over the same normalised scores, `norm`.

    A chunk that no arm with a weight retrieved is no candidate.
    """

    norm: Any
    method: str
    rrf_k: int
    columns: slice
    weights: Floats


@dataclass(frozen=True)
class Block:
    """Settings that are evaluated together.

    Settings that differ in `min_score` alone share a column: the cut does not change the order above it.

    Attributes
    ----------
    fusions : sequence of Fusion
        Concatenated, they give the columns of the fused scores.
    fused, decay, prior : ndarray of int64, shape (columns,)
        The fused score, the decay factor and the kind factor of each column; `prior` is None if all factors are 1.
    decays, priors : tuple of object
        Keys of the factors in use; empty if nothing decays.
    fold_threshold, mmr_lambda : ndarray of float64, shape (columns,)
    folds, is_diverse : bool
        Whether near-duplicates are collapsed; whether any lambda is below 1.
    is_bounded : bool
        Whether all scores are within 0 and 1.
    column : ndarray of int64, shape (settings,)
        If the block is diverse, each setting has a column of its own.
    min_score : ndarray of float64, shape (settings,)
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
        """The fewest units of score that pass `min_score`."""
        near = np.ceil(self.min_score * UNIT) + np.arange(-2, 3)[:, None]
        units: Floats = np.min(np.where(near / UNIT < self.min_score, np.inf, np.maximum(near, 0.0)), axis=0)
        return units

    @cached_property
    def lacks_arms(self) -> bool:
        """Whether any column has an arm without weight."""
        return not all(one.weights.all() for one in self.fusions)

    @cached_property
    def is_identity(self) -> bool:
        """Whether column i takes fused score i."""
        return bool(len(self.fused) == self.fusions[-1].columns.stop and (np.diff(self.fused) == 1).all())


@dataclass(frozen=True)
class RankingKey:
    """The part of a setting that acts on ranking given the candidates: settings with equal keys rank equally.

    Attributes
    ----------
    norm, method, rrf_k, weights
        How the arms' scores are combined; `norm` is the key of the normalised scores.
    decay, prior : tuple or None
        The keys of the factors by age and by kind.
    """

    norm: Any
    method: str
    rrf_k: int
    weights: tuple[float, ...]
    decay: Any
    prior: Any
    min_score: float
    fold_threshold: float | None
    mmr_lambda: float

    @classmethod
    def from_settings(cls, s: QuerySettings, weights: Mapping[str, float], arms: Sequence[str]) -> RankingKey:
        """The key of settings with `weights` by arm, among settings that use some of the `arms`."""
        is_rrf = s.fusion == "rrf"
        crosses = s.normalise == "calibrated" and {"vector", "bm25"} <= set(weights)
        norm = None if is_rrf else (s.normalise, s.across_weight if crosses else 0.0)
        kinds = "*" if "*" in s.decay_kinds else tuple(s.decay_kinds)
        return cls(
            norm,
            s.fusion,
            s.rrf_k if is_rrf else 0,
            tuple(weights.get(arm, 0.0) for arm in arms),
            None if s.decay == "none" else (s.decay, float(s.decay_days), float(s.decay_floor), kinds),
            tuple(sorted(s.kind_weights.items())) if s.kind_weights else None,
            float(s.min_score),
            None if s.fold == "none" else float(s.fold_threshold),
            float(s.mmr_lambda),
        )


def block_of(keys: Sequence[RankingKey]) -> Block:
    """The block of some settings; either all of them collapse near-duplicates or none, and all are diverse or none."""
    is_diverse = keys[0].mmr_lambda < 1.0
    columns = [e if is_diverse else replace(e, min_score=0.0) for e in keys]
    place = {key: index for index, key in enumerate(dict.fromkeys(columns))}
    fused: dict[Any, int] = {}
    fusions = []
    for how, group in groupby(place, lambda e: (e.norm, e.method, e.rrf_k)):
        weights = list(dict.fromkeys(key.weights for key in group))
        start = len(fused)
        fused |= {(*how, column): start + index for index, column in enumerate(weights)}
        fusions.append(Fusion(*how, slice(start, start + len(weights)), np.array(weights).T.copy()))
    decays = {decay: index for index, decay in enumerate(dict.fromkeys(key.decay for key in place))}
    priors = {prior: index for index, prior in enumerate(dict.fromkeys(key.prior for key in place))}
    return Block(
        fusions=fusions,
        fused=np.array([fused[e.norm, e.method, e.rrf_k, e.weights] for e in place]),
        decay=np.array([decays[e.decay] for e in place]),
        decays=() if list(decays) == [None] else tuple(decays),
        prior=None if list(priors) == [None] else np.array([priors[e.prior] for e in place]),
        priors=tuple(priors),
        fold_threshold=np.array([e.fold_threshold or 0.0 for e in place]),
        mmr_lambda=np.array([e.mmr_lambda for e in place]),
        folds=keys[0].fold_threshold is not None,
        is_diverse=is_diverse,
        is_bounded=all(e.norm is None or e.norm[0] != "none" for e in place),
        column=np.array([place[column] for column in columns]),
        min_score=np.array([e.min_score for e in keys]),
    )


@dataclass(frozen=True)
class Groups:
    """Groups of rows that compete with each other, laid end to end."""

    rows: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def sharing(cls, label: Ints, is_sorted: bool = False) -> Groups | None:
        """The groups of rows with equal labels; None if no two rows share a label."""
        if changes(label if is_sorted else np.sort(label)).all():
            return None
        order = np.argsort(label, kind="stable")
        starts = group_starts(label[order])
        sizes = np.diff(starts, append=len(label))
        several = np.repeat(sizes > 1, sizes)
        sizes = sizes[sizes > 1]
        return cls(order[several], np.cumsum(sizes) - sizes, sizes)

    def best(self, keys: Keys) -> Keys:
        """For each of `rows` the largest of the `keys` in its group."""
        largest: Keys = np.repeat(np.maximum.reduceat(keys, self.starts, axis=0), self.sizes, axis=0)
        return largest
