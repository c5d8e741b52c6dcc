"""Conversations: a turn has a share of the words and of the meaning of the turns around it.

Words are lent as counts, before they are weighted (`memkit.index.turns`), and cosines as their mean, so that nothing is
encoded again and a saved arm serves with and without `context_column`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import identifier, rows_of
from memkit.errors import ParameterError, did_you_mean
from memkit.index.turns import Turns
from memkit.schemas import Ints

AUTO = "auto"
COLUMNS = ("session", "conversation", "thread")
"""Columns of a table that name a conversation without being told to; the first one that has values is taken."""
_KEY = "json_extract_string(extra, '$.' || to_json($column)::varchar)"
_LONGEST = 40
"""The median number of words beyond which rows are not turns: long answers drown the question between them."""


def turns_of(corpus_memories: pa.Table, column: str, of_tables: bool, order: Ints, of_chunk: Ints) -> Turns | None:
    """The chunks in their conversations, each in the order of ``seq``, creation and row.

    A conversation is all memories of one user (or of none) with one value of `column`. None if the median turn has more
    than 40 words.

    Parameters
    ----------
    corpus_memories : pa.Table
    of_tables : bool
        Whether rows of tables alone are turns.
    order : ndarray of int64, shape (n_memories,)
        The row in `corpus_memories` of each memory of the index.
    of_chunk : ndarray of int64, shape (n_chunks,)
        The memory of each chunk, a row of the index.

    Raises
    ------
    ParameterError
        If no memory has the column.
    """
    row, number = _in_order(corpus_memories, column, of_tables)
    words = pc.count_substring_regex(corpus_memories["text"].take(pa.array(row)), r"[\p{L}\p{N}_]+")
    if len(words) and pc.quantile(words, 0.5)[0].as_py() > _LONGEST:
        return None
    memory = np.argsort(order)[row]  # in `memories`, of each turn
    place, talk = np.full(len(corpus_memories), -1), np.full(len(corpus_memories), -1)
    place[memory], talk[memory] = np.arange(len(memory)), number
    chunks = np.lexsort((np.arange(len(of_chunk)), place[of_chunk]))
    chunks = chunks[talk[of_chunk[chunks]] >= 0]
    return Turns(chunks, talk[of_chunk[chunks]], len(of_chunk))


def conversation_column(memories: pa.Table, column: str | None) -> str | None:
    """The column that names conversations: `column` itself, or for 'auto' the first of `COLUMNS` in rows of tables."""
    if column != AUTO:
        return column
    extra = memories["extra"].filter(pc.equal(memories["format"], "table"))
    return next((name for name in COLUMNS if _has_values(extra, name)), None)


def _has_values(extra: pa.ChunkedArray, name: str) -> bool:
    may = extra.filter(pc.fill_null(pc.match_substring(extra, f'"{name}"'), False))
    if not len(may):
        return False
    sql = f"select count({_KEY}) as n from rows"  # noqa: S608  # an expression of ours
    return bool(rows_of(sql, {"column": name}, rows=pa.table({"extra": may}))["n"][0].as_py())


def _in_order(memories: pa.Table, column: str, of_tables: bool) -> tuple[Ints, Ints]:
    """Rows of `memories` that are in a conversation, in order, and the number of each one's conversation."""
    value = identifier(column) if column in memories.column_names else _KEY
    sql = f"""
        select row_number_ as row, dense_rank() over (order by user_id nulls first, talk) as number from (
            select row_number_, user_id, {value}::varchar as talk, created_at,
                try_cast(json_extract_string(extra, '$.seq') as double) as seq
            from turns {"where format = 'table'" if of_tables else ""})
        where talk is not null order by number, seq nulls last, created_at nulls last, row_number_
    """  # noqa: S608  # a quoted name
    turns = memories.append_column("row_number_", pa.array(range(memories.num_rows), pa.int64()))
    ordered = rows_of(sql, {} if value != _KEY else {"column": column}, turns=turns)
    if memories.num_rows and not ordered.num_rows:
        hint = did_you_mean(column, memories.column_names)
        raise ParameterError(f"Index: 'context_column' must be a column of memories. Got {column!r}.{hint}")
    return ordered["row"].to_numpy(), ordered["number"].to_numpy()
