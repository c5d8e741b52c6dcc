"""The candidates that did not make it into the ranking, beside those that did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from memkit.search.fitted.rows import Rows
from memkit.search.scope import Scope
from memkit.search.stages.candidates import Candidates
from memkit.search.stages.normalise import Floats, Ints
from memkit.search.stages.rank import DISPOSITIONS, Ranked


def with_outside(
    ranked: Ranked,
    wide: Candidates,
    rows: Rows,
    unit: str,
    scope: Scope,
    decay: Callable[[Ints], tuple[Floats, Floats]],
) -> Ranked:
    """`ranked`, and behind each query's rows those of `wide` that are not among them.

    Parameters
    ----------
    wide : Candidates
        What the arms find without filters, beyond the pool.
    unit : str
        'memory' adds a row a memory, its best chunk by rank in any arm; 'chunk' a row a chunk.
    """
    shown_as = rows.memory if unit == "memory" else np.arange(len(rows.memory))
    size = len(rows.memory) + 1
    key = wide.query * size + shown_as[wide.row]
    best = np.where(wide.rank > 0, wide.rank, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    order = np.lexsort((wide.row, best, wide.query))
    _, first = np.unique(key[order], return_index=True)
    kept = order[np.sort(first)]
    kept = kept[~np.isin(key[kept], ranked.found.query * size + shown_as[ranked.found.row])]
    outside = _unranked(wide.take(kept), rows, scope, decay)
    both = Ranked(*(_joined(getattr(ranked, c.name), getattr(outside, c.name)) for c in fields(Ranked)))
    return both.take(np.argsort(both.found.query, kind="stable"))


def _unranked(found: Candidates, rows: Rows, scope: Scope, decay: Callable[[Ints], tuple[Floats, Floats]]) -> Ranked:
    memory = rows.memory[found.row]
    age_days, factor = decay(memory)
    nothing = np.full(len(memory), np.nan)
    words = scope.reason(memory, otherwise="below_pool")
    codes = np.array([DISPOSITIONS.index(word) for word in words], np.int8)
    norm = np.full(found.raw.shape, np.nan)
    return Ranked(found, norm, nothing, age_days, factor, nothing, nothing, np.zeros(len(memory), np.int64), codes)


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, Candidates):
        parts = (np.concatenate([getattr(first, n), getattr(second, n)]) for n in ("query", "row", "raw", "rank"))
        return Candidates(first.arms, *parts)
    return np.concatenate([first, second])
