"""Duplicates are collapsed under the best of them, and the first k are hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memkit.schemas import Ints
from memkit.search.stages.diversify import NearPairs, Texts, collapse
from memkit.search.state import Groups, Pooled, Shortlist, State, nth_largest
from memkit.search.step import Look, Step

FOLDED = 50  # independent of k, so that the first hits do not depend on k
"""Near-duplicates are looked for among so many best candidates."""
_FEW = 16
"""Settings whose best candidates are mostly the same."""
BELOW = "below_k"


def _better(look: Look) -> str:
    """The memory under which it is collapsed."""
    question = look.question
    ranked, memory = question.ranked(), question.index.rows.memory
    is_this = (memory[ranked.candidates.row] == look.memory) & (ranked.under >= 0)
    better = question.index.memories["memory_id"][int(memory[ranked.under[is_this][0]])].as_py()
    return f"'{better}', which ranks above it"


class Exact(Step):
    """Exact duplicates of better candidates are dropped."""

    name = "exact"
    drops = {"duplicate": lambda look: f"but it is an exact duplicate of {_better(look)}"}

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> bool:
        return True

    def gather(self, pooled: Pooled, keys: Sequence[bool]) -> dict[Any, Any]:
        return {"twin": pooled.index.rows.twin[pooled.candidates.row]}

    def apply(self, state: State, keys: Sequence[bool]) -> None:
        shortlist = state.shortlist
        twins: Groups | None = shortlist.once(
            self.name, True, lambda: Groups.sharing(shortlist.by_query(shortlist["twin"]))
        )
        if twins is None:
            return
        largest, own = int(twins.sizes.max()), state.key[twins.rows]
        state.compared.append((largest, lambda: largest))
        state.collapse("duplicate", twins.rows, np.where(own >= 0, twins.best(own), own))


class Near(Step):
    """Near-duplicates of better candidates that stay are dropped, among the best `FOLDED` of each query."""

    name = "near"
    drops = {"folded": lambda look: f"but it is a near-duplicate of {_better(look)} (fold)"}
    off = {"fold": "none"}

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> float | None:
        return None if settings.fold == "none" else float(settings.fold_threshold)

    def gather(self, pooled: Pooled, keys: Sequence[float]) -> dict[Any, Any]:
        return {"texts": Texts(pooled.index.repeats, pooled.candidates.row), "least alike": min(keys)}

    def apply(self, state: State, keys: Sequence[float]) -> None:
        queries, thresholds = state.shortlist.queries, np.array(keys)
        near = _near(state.shortlist, [_compared(state, query) for query in queries])
        some = [pairs for pairs in near if pairs is not None]
        if some:
            bound = max(len(pairs.rows) for pairs in some)
            state.compared.append((bound, lambda: max(pairs.largest for pairs in some)))
        for query, pairs in zip(queries, near, strict=True):
            if pairs is not None:
                own = state.key[pairs.rows]
                is_open = (own >= 0) & (own >= nth_largest(state.key[query], FOLDED))
                state.collapse("folded", pairs.rows, collapse(own, is_open, pairs, thresholds))

    def may_help(self, look: Look) -> bool:
        return bool(look.row["disposition"] == "folded")


def _compared(state: State, query: slice) -> Ints:
    """The best candidates of the query under few settings; all under many, as these have different ones."""
    key = state.key[query]
    if key.shape[1] > _FEW:
        return np.arange(query.start, query.stop)
    is_best = key >= np.maximum(nth_largest(key, FOLDED), state.floor.min())
    best: Ints = query.start + np.flatnonzero(is_best.any(axis=1))
    return best


def _near(shortlist: Shortlist, rows_by_query: list[Ints]) -> list[NearPairs | None]:
    """The near-duplicates among these candidates of each query, and maybe others.

    The last answer is kept, as the best of one block are mostly those of the next. Where they are not, all candidates
    are compared, once.
    """
    rows = np.concatenate([np.empty(0, np.int64), *rows_by_query])
    pairs: list[NearPairs | None]
    known, pairs = shortlist.kept.get("near", (None, []))
    if known is None or not known[rows].all():
        compared = np.full(len(shortlist), known is not None)
        compared[rows] = True
        among = [query.start + np.flatnonzero(compared[query]) for query in shortlist.queries]
        pairs = _near_among(shortlist, among)
        shortlist.kept["near"] = compared, pairs
    return pairs


def _near_among(shortlist: Shortlist, rows_by_query: list[Ints]) -> list[NearPairs | None]:
    texts, least = shortlist["texts"], shortlist["least alike"]
    if not rows_by_query:
        return []
    texts.repeats.read(texts.row[np.concatenate(rows_by_query)])
    return [NearPairs.among(texts.repeats, texts.row[rows], least, rows) for rows in rows_by_query]


class Cut(Step):
    """The first k are hits."""

    name = "cut"
    drops = {BELOW: lambda look: f"rank {look.row['rank']}, and k is {look.question.k}"}
