"""Settings by what they do to a ranking once it is known what the arms found, laid out as blocks of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from memkit.schemas import Ints
from memkit.search.question import Settings
from memkit.search.stages.blocks import Block, Fusion

_BLOCK = 512
"""Settings at a time: a query's candidates under so many fit a processor's second cache."""


@dataclass(frozen=True)
class Effect:
    """What of a setting acts on the ranking once it is known what the arms found; settings with the same score alike.

    Attributes
    ----------
    norm, method, rrf_k, weights
        How the arms' scores become one; `norm` is what the norms are called.
    decay, prior : tuple or None
        What the factors by age and by kind are known by.
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
    def of(cls, s: Settings, weights: Mapping[str, float], arms: Sequence[str]) -> Effect:
        """Of settings with `weights` by arm, beside others that have some of the `arms`."""
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


@dataclass(frozen=True)
class Plan:
    """Settings that rank the same candidates.

    Attributes
    ----------
    arms, pool, per_memory
        Of what the candidates are, and whether a hit is a memory.
    positions : ndarray of int64
        Which settings they are.
    effect : ndarray of int64
        Which column of the blocks, one after the other, each of them is.
    blocks : list of Block
    """

    scope: tuple[Any, ...]
    arms: tuple[str, ...]
    pool: int
    per_memory: bool
    positions: Ints
    effect: Ints
    blocks: list[Block]

    @property
    def size(self) -> int:
        return sum(map(len, self.blocks))

    @property
    def least_threshold(self) -> float:
        return min((float(block.fold_threshold.min()) for block in self.blocks if block.folds), default=1.0)

    @classmethod
    def of(cls, key: tuple[Any, ...], effects: Sequence[tuple[int, Effect]]) -> Plan:
        """The settings of one `key`, by number and effect."""
        number: dict[Effect, int] = {}
        for _, effect in effects:
            number.setdefault(effect, len(number))
        seen: dict[Any, int] = {}

        def order(effect: Effect) -> tuple[int, ...]:
            how = (effect.norm, effect.method, effect.rrf_k)
            of_fusion = [seen.setdefault(part, len(seen)) for part in (how, (*how, effect.weights))]
            tail = (effect.fold_threshold is not None, effect.mmr_lambda < 1.0)
            return (*map(int, tail), *of_fusion, seen.setdefault(("decay", effect.decay), len(seen)))

        ordered = sorted(number, key=order)
        column = {effect: at for at, effect in enumerate(ordered)}
        runs = [list(run) for _, run in groupby(ordered, lambda e: (e.fold_threshold is None, e.mmr_lambda < 1.0))]
        blocks = [_block(run[at : at + _BLOCK]) for run in runs for at in range(0, len(run), _BLOCK)]
        positions = np.array([position for position, _ in effects], np.int64)
        scope, arms, pool, per_memory = key
        columns = np.array([column[effect] for _, effect in effects], np.int64)
        return cls(scope, arms, pool, per_memory, positions, columns, blocks)


def shares_candidates(s: Settings) -> bool:
    """Whether what other arms found makes no difference to these settings, once it is no candidate."""
    return s.fusion in ("weighted", "rrf") and s.mmr_lambda == 1.0 and (s.normalise != "none" or s.fusion == "rrf")


def _block(effects: Sequence[Effect]) -> Block:
    is_diverse = effects[0].mmr_lambda < 1.0
    columns = [e if is_diverse else replace(e, min_score=0.0) for e in effects]
    place = {effect: at for at, effect in enumerate(dict.fromkeys(columns))}
    fused: dict[Any, int] = {}
    fusions = []
    for how, run in groupby(place, lambda e: (e.norm, e.method, e.rrf_k)):
        weights = list(dict.fromkeys(effect.weights for effect in run))
        start = len(fused)
        fused |= {(*how, one): start + at for at, one in enumerate(weights)}
        fusions.append(Fusion(*how, slice(start, start + len(weights)), np.array(weights).T.copy()))
    decays = {decay: at for at, decay in enumerate(dict.fromkeys(effect.decay for effect in place))}
    priors = {prior: at for at, prior in enumerate(dict.fromkeys(effect.prior for effect in place))}
    return Block(
        fusions=fusions,
        fused=np.array([fused[e.norm, e.method, e.rrf_k, e.weights] for e in place]),
        decay=np.array([decays[e.decay] for e in place]),
        decays=() if list(decays) == [None] else tuple(decays),
        prior=None if list(priors) == [None] else np.array([priors[e.prior] for e in place]),
        priors=tuple(priors),
        fold_threshold=np.array([e.fold_threshold or 0.0 for e in place]),
        mmr_lambda=np.array([e.mmr_lambda for e in place]),
        folds=effects[0].fold_threshold is not None,
        is_diverse=is_diverse,
        is_bounded=all(e.norm is None or e.norm[0] != "none" for e in place),
        column=np.array([place[column] for column in columns]),
        min_score=np.array([e.min_score for e in effects]),
    )
