"""The candidate table: what the arms found, side by side, for all queries of a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from memkit.search.stages.normalise import Floats, Ints, changes, rank_within


@dataclass(frozen=True)
class Candidates:
    """Chunks that at least one arm found, sorted by query and row.

    Attributes
    ----------
    arms : tuple of str
        The arms that were asked; they name the columns of `raw` and `rank`.
    query, row : ndarray of int64, shape (n,)
        Ordinal of the query, row of the chunk.
    raw : ndarray of float64, shape (n, arms)
        The arm's own score; NaN where it did not find the chunk.
    rank : ndarray of int64, shape (n, arms)
        Rank within the arm's finds, from 1; ties share the better one; 0 where not found.
    pool : int
        How many chunks a query each arm was asked for.
    """

    arms: tuple[str, ...]
    query: Ints
    row: Ints
    raw: Floats
    rank: Ints
    pool: int

    def take(self, index: Ints) -> Self:
        """The candidates at `index`, in that order."""
        return self._with(lambda column: column[index])

    def followed_by(self, other: Self) -> Self:
        """Both, of the same arms, one after the other."""
        theirs = iter((other.query, other.row, other.raw, other.rank))
        return self._with(lambda column: np.concatenate([column, next(theirs)]))

    def _with(self, change: Callable[[Any], Any]) -> Self:
        query, row, raw, rank = map(change, (self.query, self.row, self.raw, self.rank))
        return type(self)(self.arms, query, row, raw, rank, self.pool)

    def of(self, arms: tuple[str, ...], pool: int) -> Self:
        """What `arms` alone, asked for `pool` chunks, would have found; both within what was asked."""
        if arms == self.arms and pool == self.pool:
            return self
        columns = [self.arms.index(arm) for arm in arms]
        raw, rank = self.raw[:, columns], self.rank[:, columns]
        for at in range(len(arms)):
            order = np.lexsort((-raw[:, at], self.query))  # an arm breaks ties by row, and so does a stable sort
            first = np.maximum.accumulate(np.where(changes(self.query), np.arange(len(order)), 0))
            beyond = order[np.arange(len(order)) - first >= pool]
            raw[beyond, at], rank[beyond, at] = np.nan, 0
        kept = np.flatnonzero((rank > 0).any(axis=1))
        return type(self)(arms, self.query[kept], self.row[kept], raw[kept], rank[kept], pool)


def merge(found: Mapping[str, pa.Table], n_rows: int, pool: int = 0) -> Candidates:
    """Join what each arm found (columns query, row, score) into one table; a score that is no number is no find.

    Examples
    --------
    >>> bm25 = pa.table({"query": [0, 0], "row": [2, 0], "score": [3.0, 1.0]})
    >>> vector = pa.table({"query": [0], "row": [1], "score": [0.5]})
    >>> both = merge({"bm25": bm25, "vector": vector}, n_rows=3, pool=2)
    >>> both.row.tolist(), both.rank.tolist()
    ([0, 1, 2], [[2, 0], [0, 1], [1, 0]])
    >>> both.of(("bm25",), pool=1).row.tolist()
    [2]
    """
    columns = [_columns(table) for table in found.values()] or [_NOTHING]
    query, row, score = (np.concatenate(column) for column in zip(*columns, strict=True))
    arm = np.repeat(np.arange(len(columns)), [len(column[0]) for column in columns])
    union, at = np.unique(query * n_rows + row, return_inverse=True)
    raw = np.full((len(union), len(found)), np.nan)
    rank = np.zeros(raw.shape, np.int64)
    raw[at, arm] = score
    rank[at, arm] = rank_within(arm * (query.max(initial=0) + 1) + query, score)  # each arm's ranks, in one go
    query, row = np.divmod(union, max(n_rows, 1))
    return Candidates(tuple(found), query, row, raw, rank, pool)


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def _columns(table: pa.Table) -> tuple[Ints, Ints, Floats]:
    query, row, score = (table[name].to_numpy() for name in ("query", "row", "score"))
    finite = np.isfinite(score)
    if finite.all():
        return query, row, score
    return query[finite], row[finite], score[finite]
