"""A refit: what a former index knows of the memories that are as they were, so that only the others are read.

Rows are in the order of ids, before and after, so those that stay do so in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.schemas import Ints, Mask
from memkit.search.fitted.arms import codes, places, said
from memkit.text.chunk import lines_above

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex
    from memkit.search.fitted.rows import Rows

_FEW = 32
_LINES = ("line_start", "line_end")
_PIECES = 4096
"""Up to so many runs of neighbouring rows are taken from a table without copying each row."""
_PIECES_KEPT = 64


def laid_out(
    before: MemoryIndex, given: pa.Table, order: Ints, cut: Callable[[pa.Table], pa.Table]
) -> tuple[pa.Table, pa.Table, tuple[MemoryIndex, Ints, Ints]]:
    """The memories `given` in their `order`, their chunks, for each of these its row in `before`, and its memory's."""
    source = former_rows(before, given)[order]
    memories = picked(given, order)
    fresh = picked(memories, np.flatnonzero(source < 0))
    pieces = cut(fresh).combine_chunks()
    at, size = chunk_rows(before.rows.memory, source, places(pieces["memory_id"], fresh["memory_id"]))
    known = before.chunks.append_column("searched", before.texts).append_column("told", before.told)
    found = few_pieces(picked(pa.concat_tables([known, pieces]), at))
    memory: Ints = np.repeat(np.arange(len(size)), size)
    return few_pieces(memories), _moved(found, _shifts(before, memories, source)[memory]), (before, at, memory)


def _shifts(before: MemoryIndex, memories: pa.Table, source: Ints) -> Ints:
    """By how many lines each of `memories` stands lower in its file than its row `source` of before."""
    shifts = np.zeros(len(source), np.int64)
    known = np.flatnonzero(source >= 0)
    of_lines = [name for name in ("line_start", "kind", "path") if name in memories.column_names]
    old, new = picked(before.memories.select(of_lines), source[known]), picked(memories.select(of_lines), known)
    if "line_start" in of_lines and not old["line_start"].equals(new["line_start"]):
        starts = (pc.fill_null(table["line_start"], 0).to_numpy() for table in (old, new))
        at = np.flatnonzero(np.not_equal(*starts))
        shifts[known[at]] = lines_above(new.take(pa.array(at))) - lines_above(old.take(pa.array(at)))
    return shifts


def _moved(chunks: pa.Table, shifts: Ints) -> pa.Table:
    """`chunks`, each so many lines lower."""
    for name in _LINES if shifts.any() else ():
        at, lines = chunks.column_names.index(name), pa.array(chunks[name].to_numpy() + shifts)
        ends = np.cumsum([0, *map(len, chunks[name].chunks)]).tolist()
        pieces = [lines.slice(start, end - start) for start, end in pairwise(ends)]
        chunks = chunks.set_column(at, chunks.schema.field(name), pa.chunked_array(pieces))
    return chunks


def former_rows(before: MemoryIndex, given: pa.Table) -> Ints:
    """For each of the memories `given` the row in `before` of the equal one, on whatever lines; -1 where none is."""
    at = places(given["memory_id"], before.given["memory_id"])
    known = np.flatnonzero(at >= 0)
    if (
        given.schema.names != before.given.schema.names or np.bincount(at[known], minlength=1).max() > 1
    ):  # ids that are none
        return np.full(len(at), -1)
    old, new = _without_lines(picked(before.given, at[known])), _without_lines(picked(given, known))
    at[known[_differing(old, new)]] = -1
    rank = np.empty(len(before.order) + 1, np.int64)
    rank[before.order], rank[-1] = np.arange(len(before.order)), -1
    return rank[at]


def _without_lines(table: pa.Table) -> pa.Table:
    """`table` with nothing of its lines but whether there are any: an edit above a memory moves it."""
    has_lines = {name: table[name].is_valid() for name in _LINES if name in table.column_names}
    return pa.table({name: has_lines.get(name, table[name]) for name in table.column_names})


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


def chunk_rows(before: Ints, source: Ints, fresh: Ints) -> tuple[Ints, Ints]:
    """The rows of each memory's chunks, those of `before` and after them those that were cut, and how many it has.

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
    return rows, size


def said_since(texts: pa.ChunkedArray, before: Rows, at: Ints) -> tuple[Ints, Mask]:
    """The same where the texts `at` are known: a new one can only equal one of its own length."""
    new = at >= len(before.text)
    known = np.where(new, 0, at)
    text = np.append(before.text, 0)[known] + len(at)
    filled = np.ones(len(at), bool) if before.filled is None else np.append(before.filled, True)[known]
    sizes = pc.binary_length(texts).to_numpy()
    alike = np.isin(sizes, sizes[new])
    text[alike], filled[alike] = said(texts.filter(pa.array(alike)))
    return codes(pa.array(text))[0], filled


def take_over(
    index: MemoryIndex, before: MemoryIndex, at: Ints, per_text: Mapping[str, Callable[[pa.ChunkedArray], NDArray[Any]]]
) -> None:
    """Have what was found out about each text `before` known of those that are still there."""
    index.means = before.means
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
