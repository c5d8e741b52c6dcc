"""A refit: what a former index knows of the memories that are as they were, so that only the others are read.

Rows are in the order of ids, before and after, so those that stay do so in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.schemas import Ints, Mask
from memkit.search.fitted.arms import places, said
from memkit.search.fitted.index import Rows, SearchIndex

_FEW = 32
_PIECES = 4096
"""Up to so many runs of neighbouring rows are taken from a table without copying each row."""
_PIECES_KEPT = 64


def laid_out(
    before: SearchIndex, given: pa.Table, order: Ints, cut: Callable[[pa.Table], pa.Table]
) -> tuple[pa.Table, pa.Table, tuple[SearchIndex, Ints]]:
    """The memories `given` in their `order`, their chunks, and for each of these its row in `before`."""
    source = former_rows(before, given)[order]
    memories = picked(given, order)
    fresh = picked(memories, np.flatnonzero(source < 0))
    pieces = cut(fresh).combine_chunks()
    at = chunk_rows(before.rows.memory, source, places(pieces["memory_id"], fresh["memory_id"]))
    known = before.chunks.append_column("searched", before.texts).append_column("told", before.told)
    return few_pieces(memories), few_pieces(picked(pa.concat_tables([known, pieces]), at)), (before, at)


def former_rows(before: SearchIndex, given: pa.Table) -> Ints:
    """For each of the memories `given` the row in `before` of the equal one; -1 where none is."""
    at = places(given["memory_id"], before.given["memory_id"])
    known = np.flatnonzero(at >= 0)
    if given.schema.names != before.given.schema.names or len(np.unique(at[known])) < len(known):  # ids that are none
        return np.full(len(at), -1)
    differing = _differing(picked(before.given, at[known]), picked(given, known))
    at[known[differing]] = -1
    rank = np.empty(len(before.order) + 1, np.int64)
    rank[before.order], rank[-1] = np.arange(len(before.order)), -1
    return rank[at]


def _differing(old: pa.Table, new: pa.Table) -> list[int]:
    """Rows in which tables of one length differ: halves that are equal are done with, so a few cost little."""
    found, waiting = [], [(0, old.num_rows)]
    while waiting:
        start, size = waiting.pop()
        a, b = old.slice(start, size), new.slice(start, size)
        if a.equals(b):
            continue
        if size > _FEW:
            waiting += [(start, size // 2), (start + size // 2, size - size // 2)]
            continue
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        found += [start + row for row, (left, right) in enumerate(pairs) if left != right]
    return found


def chunk_rows(before: Ints, source: Ints, fresh: Ints) -> Ints:
    """Of the chunks of each memory their rows: among those of `before`, and after them among those that were cut.

    Parameters
    ----------
    before, fresh : ndarray of int64
        The memory of each chunk, rising: former ones, and those cut now, counted by themselves.
    source : ndarray of int64
        Of each memory the former row; -1 for those cut now.
    """
    memory = np.concatenate([before, fresh + (before.max(initial=-1) + 1)])
    memory_of = source.copy()
    is_new = source < 0
    memory_of[is_new] = np.arange(is_new.sum()) + (before.max(initial=-1) + 1)
    first = np.searchsorted(memory, memory_of)
    size = np.searchsorted(memory, memory_of, side="right") - first
    rows: Ints = np.repeat(first - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return rows


def said_since(texts: pa.ChunkedArray, before: Rows, at: Ints) -> tuple[Ints, Mask]:
    """The same where the texts `at` are known: a new one can only equal one of its own length."""
    new = at >= len(before.text)
    known = np.where(new, 0, at)
    text = np.append(before.text, 0)[known] + len(at)
    filled = np.ones(len(at), bool) if before.filled is None else np.append(before.filled, True)[known]
    sizes = pc.binary_length(texts).to_numpy()
    alike = np.isin(sizes, sizes[new])
    text[alike], filled[alike] = said(texts.filter(pa.array(alike)))
    return np.unique(text, return_inverse=True)[1], filled


def take_over(
    index: SearchIndex, before: SearchIndex, at: Ints, per_text: Mapping[str, Callable[[pa.ChunkedArray], NDArray[Any]]]
) -> None:
    """Have what was found out about each text `before` known of those that are still there."""
    fresh = index.texts.filter(pa.array(at >= len(before.texts)))
    for name in per_text.keys() & vars(before).keys():
        vars(index)[name] = np.concatenate([vars(before)[name], per_text[name](fresh)])[at]


def picked(table: pa.Table, rows: Ints) -> pa.Table:
    """The `rows` of `table`; where they are a few runs of neighbours, views of it."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if len(starts) > _PIECES:
        return table.take(pa.array(rows))
    sizes = np.diff(starts, append=len(rows))
    pieces = [table.slice(row, size) for row, size in zip(rows[starts].tolist(), sizes.tolist(), strict=True)]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)


def few_pieces(table: pa.Table) -> pa.Table:
    """`table` as it is where it lies in few pieces, as it does after a few edits; else a copy in one."""
    sizes = {tuple(map(len, column.chunks)) for column in table.columns}
    return table if len(sizes) == 1 and 1 <= len(*sizes) <= _PIECES_KEPT else table.combine_chunks()
