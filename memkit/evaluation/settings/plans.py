"""Settings grouped by the candidates that they rank, laid out as blocks of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from memkit.schemas import Ints
from memkit.search.question import Settings
from memkit.search.stages.blocks import Block, RankingKey, block_of

_BLOCK = 512
"""Settings in a block: a query's candidates under so many fit a processor's second cache."""


@dataclass(frozen=True)
class Plan:
    """Settings that rank the same candidates.

    Attributes
    ----------
    arms, pool, per_memory
        The arms and pool that the candidates come from; whether a hit is a memory or a chunk.
    positions : ndarray of int64
        The numbers of the settings.
    effect : ndarray of int64
        The column of each setting in the blocks, counted through.
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
    def from_settings(cls, key: tuple[Any, ...], effects: Sequence[tuple[int, RankingKey]]) -> Plan:
        """The settings of one `key`, by number and effect."""
        number: dict[RankingKey, int] = {}
        for _, effect in effects:
            number.setdefault(effect, len(number))
        order_of: dict[Any, int] = {}

        def order(effect: RankingKey) -> tuple[int, ...]:
            how = (effect.norm, effect.method, effect.rrf_k)
            of_fusion = [order_of.setdefault(part, len(order_of)) for part in (how, (*how, effect.weights))]
            tail = (effect.fold_threshold is not None, effect.mmr_lambda < 1.0)
            return (*map(int, tail), *of_fusion, order_of.setdefault(("decay", effect.decay), len(order_of)))

        ordered = sorted(number, key=order)
        column = {effect: at for at, effect in enumerate(ordered)}
        runs = [list(run) for _, run in groupby(ordered, lambda e: (e.fold_threshold is None, e.mmr_lambda < 1.0))]
        blocks = [block_of(run[at : at + _BLOCK]) for run in runs for at in range(0, len(run), _BLOCK)]
        positions = np.array([position for position, _ in effects], np.int64)
        scope, arms, pool, per_memory = key
        columns = np.array([column[effect] for _, effect in effects], np.int64)
        return cls(scope, arms, pool, per_memory, positions, columns, blocks)


def shares_candidates(s: Settings) -> bool:
    """Whether candidates of other arms make no difference to these settings, so that pools may be shared."""
    return s.fusion in ("weighted", "rrf") and s.mmr_lambda == 1.0 and (s.normalise != "none" or s.fusion == "rrf")
