"""How likely the first hits of a query answer it."""

from __future__ import annotations

from typing import Any

import numpy as np

from memkit.schemas import Floats
from memkit.search.stages.fuse import group_starts, spread
from memkit.search.state import Ranked

_OFFSET, _OF_BEST, _OF_GAP = -1.66, 3.95, 8.41
_NEXT = 10


def evidence(ranked: Ranked, n_queries: int) -> tuple[Floats, Floats]:
    """For each query the best fused score, and by how much it is above the mean of the next ten; 0 without candidates.

    Memories that are collapsed under others do not count, as they say nothing more. Where fewer than ten others are
    left, those that lack count as the best: few candidates do not show that it stands out.
    """
    stands = ranked.under < 0
    query, fused = ranked.candidates.query[stands], ranked.columns["fused"][stands]
    order = np.lexsort((-fused, query))
    query, fused = query[order], fused[order]
    starts = group_starts(query)
    place = np.arange(len(query)) - spread(starts, starts, len(query))
    best, is_next = np.zeros(n_queries), (place > 0) & (place <= _NEXT)
    best[query[starts]] = fused[starts]
    sums, counts = (np.bincount(query[is_next], weights, n_queries) for weights in (fused[is_next], None))
    return best, (counts * best - sums) / _NEXT


def answerability(ranked: Ranked, settings: Any, n_queries: int) -> Floats | None:
    """How likely an answer is among the first hits of each query, 0 to 1, from its calibrated scores; else None.

    It is fitted on labelled sets (`tests/benchmarks/bench_answerable.py`) and is no probability: other queries have
    answers more often, or less.
    """
    if settings.normalise != "calibrated":
        return None
    best, gap = evidence(ranked, n_queries)
    likely: Floats = 1.0 / (1.0 + np.exp(-(_OFFSET + _OF_BEST * best + _OF_GAP * gap)))
    return np.round(likely, 2)
