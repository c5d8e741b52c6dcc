"""A refit: data of the former index is reused for memories that did not change, so that only the others are read.

Rows are sorted by id before and after, so unchanged rows keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.schemas import Ints, Mask, with_column
from memkit.search.fitted.chunks import codes, places, text_codes
from memkit.text.chunk import lines_above

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex
    from memkit.search.fitted.rows import Rows

_FEW = 32
_LINES = ("line_start", "line_end")
_PIECES = 4096
"""Most runs of neighbouring rows that are taken from a table as slices, not row by row."""
_MOST_CHUNKS = 64


def refit_tables(
    before: MemoryIndex, corpus_memories: pa.Table, order: Ints, chunker: Callable[[pa.Table], pa.Table]
) -> tuple[pa.Table, pa.Table, tuple[MemoryIndex, Ints, Ints]]:
    """The memories in their `order`, their chunks, and for each chunk its row in `before` and the row of its memory."""
    source = former_rows(before, corpus_memories)[order]
    memories = take_runs(corpus_memories, order)
    changed = take_runs(memories, np.flatnonzero(source < 0))
    new_chunks = chunker(changed).combine_chunks()
    row, size = chunk_rows(before.rows.memory, source, places(new_chunks["memory_id"], changed["memory_id"]))
    chunks = few_chunks(take_runs(pa.concat_tables([before.table, new_chunks]), row))
    memory: Ints = np.repeat(np.arange(len(size)), size)
    return few_chunks(memories), _moved(chunks, _shifts(before, memories, source)[memory]), (before, row, memory)


def _shifts(before: MemoryIndex, memories: pa.Table, source: Ints) -> Ints:
    """The number of lines by which each of `memories` moved down in its file, from its former row `source`."""
    shifts = np.zeros(len(source), np.int64)
    known = np.flatnonzero(source >= 0)
    of_lines = [name for name in ("line_start", "kind", "path") if name in memories.column_names]
    old, new = take_runs(before.memories.select(of_lines), source[known]), take_runs(memories.select(of_lines), known)
    if "line_start" in of_lines and not old["line_start"].equals(new["line_start"]):
        starts = (pc.fill_null(table["line_start"], 0).to_numpy() for table in (old, new))
        moved = np.flatnonzero(np.not_equal(*starts))
        shifts[known[moved]] = lines_above(new.take(pa.array(moved))) - lines_above(old.take(pa.array(moved)))
    return shifts


def _moved(chunks: pa.Table, shifts: Ints) -> pa.Table:
    """`chunks` with their line numbers moved by `shifts`."""
    for name in _LINES if shifts.any() else ():
        lines = pa.array(chunks[name].to_numpy() + shifts)
        ends = np.cumsum([0, *map(len, chunks[name].chunks)]).tolist()
        pieces = [lines.slice(start, end - start) for start, end in pairwise(ends)]
        chunks = with_column(chunks, name, pa.chunked_array(pieces))
    return chunks


def former_rows(before: MemoryIndex, memories: pa.Table) -> Ints:
    """The row in `before` of each unchanged memory, on whatever lines; -1 for new and changed ones."""
    former = before.corpus_memories
    row = places(memories["memory_id"], former["memory_id"])
    known = np.flatnonzero(row >= 0)
    has_duplicate_ids = np.bincount(row[known], minlength=1).max() > 1
    if memories.schema.names != former.schema.names or has_duplicate_ids:
        return np.full(len(row), -1)
    old, new = _without_lines(take_runs(former, row[known])), _without_lines(take_runs(memories, known))
    row[known[_differing(old, new)]] = -1
    rank = np.empty(len(before.order) + 1, np.int64)
    rank[before.order], rank[-1] = np.arange(len(before.order)), -1
    return rank[row]


def _without_lines(table: pa.Table) -> pa.Table:
    """`table` with line numbers replaced by whether there are any: an edit above a memory moves it."""
    has_lines = {name: table[name].is_valid() for name in _LINES if name in table.column_names}
    return pa.table({name: has_lines.get(name, table[name]) for name in table.column_names})


def _differing(old: pa.Table, new: pa.Table) -> list[int]:
    """Rows in which tables of one length differ, by bisection, so that few differences cost little."""
    rows, waiting = [], [(0, old.num_rows)]
    while waiting:
        start, size = waiting.pop()
        a, b = old.slice(start, size), new.slice(start, size)
        if a.equals(b):
            continue
        if size > _FEW:
            waiting += [(start, size // 2), (start + size // 2, size - size // 2)]
            continue
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        rows += [start + row for row, (left, right) in enumerate(pairs) if left != right]
    return rows


def chunk_rows(before: Ints, source: Ints, fresh: Ints) -> tuple[Ints, Ints]:
    """The rows of the chunks of all memories, and the number of chunks of each; new chunks follow the former ones.

    Parameters
    ----------
    before, fresh : ndarray of int64
        The memory of each former chunk, and of each new chunk (numbered from 0), ascending.
    source : ndarray of int64
        The former row of each memory; -1 for those that were cut now.
    """
    memory = np.concatenate([before, fresh + (before.max(initial=-1) + 1)])
    memory_of = source.copy()
    is_new = source < 0
    memory_of[is_new] = np.arange(is_new.sum()) + (before.max(initial=-1) + 1)
    first = np.searchsorted(memory, memory_of)
    size = np.searchsorted(memory, memory_of, side="right") - first
    rows: Ints = np.repeat(first - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return rows, size


def text_codes_since(texts: pa.ChunkedArray, before: Rows, row: Ints) -> tuple[Ints, Mask]:
    """As `text_codes`, with the former `row` of each text: a new text can only equal texts of its own length."""
    is_new = row >= len(before.text)
    former = np.where(is_new, 0, row)
    text = np.append(before.text, 0)[former] + len(row)
    filled = np.ones(len(row), bool) if before.filled is None else np.append(before.filled, True)[former]
    sizes = pc.binary_length(texts).to_numpy()
    may_equal = np.isin(sizes, sizes[is_new])
    text[may_equal], filled[may_equal] = text_codes(texts.filter(pa.array(may_equal)))
    return codes(pa.array(text))[0], filled


def take_over(
    index: MemoryIndex,
    before: MemoryIndex,
    row: Ints,
    per_text: Mapping[str, Callable[[pa.ChunkedArray], NDArray[Any]]],
) -> None:
    """Copy the cached values per text from the former index; those of new texts are computed."""
    index.term_vectors = before.term_vectors
    new_texts = index.texts.filter(pa.array(row >= len(before.texts)))
    for name in per_text.keys() & vars(before).keys():
        vars(index)[name] = np.concatenate([vars(before)[name], per_text[name](new_texts)])[row]


def take_runs(table: pa.Table, rows: Ints) -> pa.Table:
    """The `rows` of `table`, as slices of it if they are a few runs of neighbours."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if len(starts) > _PIECES:
        return table.take(pa.array(rows))
    sizes = np.diff(starts, append=len(rows))
    pieces = [table.slice(row, size) for row, size in zip(rows[starts].tolist(), sizes.tolist(), strict=True)]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)


def few_chunks(table: pa.Table) -> pa.Table:
    """`table` itself if its columns have few chunks, as after a few edits, else a copy in one chunk."""
    sizes = {tuple(map(len, column.chunks)) for column in table.columns}
    return table if len(sizes) == 1 and 1 <= len(*sizes) <= _MOST_CHUNKS else table.combine_chunks()
