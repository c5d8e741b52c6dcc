"""Rows of tables that lie in several pieces, as they do after a refit, without copies of what is not asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from memkit.schemas import Ints

_PIECES = 4096
"""Up to so many runs of neighbouring rows are taken from a table without copying each row."""
PIECES_KEPT = 64


def picked(table: pa.Table, rows: Ints) -> pa.Table:
    """The `rows` of `table`; where they are a few runs of neighbours, views of it."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if len(starts) > _PIECES:
        return table.take(pa.array(rows))
    sizes = np.diff(starts, append=len(rows))
    pieces = [table.slice(row, size) for row, size in zip(rows[starts].tolist(), sizes.tolist(), strict=True)]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)


def few_pieces(table: pa.Table, most: int) -> pa.Table:
    """`table` as it is where it lies in `most` pieces or fewer, as it does after a few edits; else a copy in one."""
    sizes = {tuple(map(len, column.chunks)) for column in table.columns}
    return table if len(sizes) == 1 and 1 <= len(*sizes) <= most else table.combine_chunks()


def taken(table: pa.Table | pa.ChunkedArray, rows: Ints) -> Any:
    """The `rows` of a table or column, piece by piece: of several pieces at once Arrow would copy all texts first."""
    sizes = [len(piece) for piece in (table.column(0) if isinstance(table, pa.Table) else table).chunks]
    if len(sizes) <= 1:
        return table.take(pa.array(rows))
    ends = np.cumsum(sizes)
    piece = np.searchsorted(ends, rows, side="right")
    order = np.argsort(piece, kind="stable")
    found = []
    for at in np.unique(piece).tolist():
        start = int(ends[at]) - sizes[at]
        found.append(table.slice(start, sizes[at]).take(pa.array(rows[order[piece[order] == at]] - start)))
    if not found:
        return table.slice(0, 0)
    is_table = isinstance(table, pa.Table)
    joined = pa.concat_tables(found) if is_table else pa.chunked_array([c for part in found for c in part.chunks])
    return joined.take(pa.array(np.argsort(order)))
