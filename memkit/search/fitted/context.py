"""Neighbours for turns of a conversation.

A turn is found by the words and the meaning of its neighbours too, at a part of their weight.

What an arm finds says nothing of a turn such as "yes, on Friday"; the turns around it do. Scores are added, not texts,
so that nothing is encoded again, and an arm that was kept serves with and without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.duck import identifier, rows_of
from memkit.errors import ParameterError, did_you_mean
from memkit.schemas import Floats, Ints, Mask

LENT = {-1: 0.5, -2: 0.25, 1: 0.3, 2: 0.1}
"""What the turns before and after lend, by their distance."""
_KEY = "json_extract_string(extra, '$.' || to_json($column)::varchar)"
_LONGEST = 40
"""Words of the middle row, beyond which the rows are no turns: long answers drown the question between them."""


@dataclass(frozen=True)
class Context:
    """The neighbours of each chunk.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_chunks, 4)
        By `LENT`; -1 where there is none.
    """

    rows: Ints

    def best(
        self, arm: Any, queries: Sequence[str], n: int, allowed: Mask | None, how: Mapping[str, Any], share: bool
    ) -> pa.Table:
        """As ``arm.candidates``, where each row's score holds a part of its neighbours'.

        Parameters
        ----------
        share : bool
            Whether a row with neighbours has the mean of all, weighed, as a cosine must; else their sum.
        """
        size = len(self.rows)
        found = arm.candidates(queries, size, allowed, **how)
        query, row, score = (found[name].to_numpy() for name in ("query", "row", "score"))
        starts = np.searchsorted(query, np.arange(len(queries) + 1))
        lent, total = self._lent(allowed)
        tables = []
        for number, (start, stop) in enumerate(pairwise(starts)):
            own = np.zeros(size + 1)  # the last is nobody's
            own[row[start:stop]] = score[start:stop]
            mixed = own[:-1] + own[self.rows] @ lent
            mixed = mixed / total if share else mixed
            live = np.flatnonzero(mixed if allowed is None else np.where(allowed, mixed, 0.0))
            kept = live[np.lexsort((live, -mixed[live]))[:n]]
            tables.append((np.full(len(kept), number), kept, mixed[kept]))
        columns = [np.concatenate(column) for column in zip(*tables, strict=True)] or [np.empty(0)] * 3
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, found.schema, strict=True)], found.schema)

    def _lent(self, allowed: Mask | None) -> tuple[Floats, Floats]:
        weights = np.array(list(LENT.values()))
        there = self.rows >= 0
        if allowed is not None:
            there &= allowed[self.rows]
        return weights, 1.0 + there @ weights


def context_of(given: pa.Table, column: str, order: Ints, of_chunk: Ints) -> Context | None:
    """Who stands beside whom, by equal values of `column` in the order of ``seq``, creation and rows as given.

    None where the middle row has more than 40 words.

    Parameters
    ----------
    given : pa.Table
        Memories.
    order : ndarray of int64, shape (n_memories,)
        The row of `given` that each memory of the index is.
    of_chunk : ndarray of int64, shape (n_chunks,)
        The memory of the index that each chunk is cut from.

    Raises
    ------
    ParameterError
        Where no memory has the column.
    """
    row, number = _in_order(given, column)
    words = pc.count_substring_regex(given["text"], r"[\p{L}\p{N}_]+")
    if len(words) and pc.quantile(words, 0.5)[0].as_py() > _LONGEST:
        return None
    memory = np.argsort(order)[row]  # in `memories`, of each turn
    place, talk = np.full(given.num_rows, -1), np.full(given.num_rows, -1)
    place[memory], talk[memory] = np.arange(len(memory)), number
    chunks = np.lexsort((np.arange(len(of_chunk)), place[of_chunk]))
    chunks = chunks[talk[of_chunk[chunks]] >= 0]
    rows = np.full((len(of_chunk), len(LENT)), -1, np.int64)
    for at, step in enumerate(LENT):
        mine, theirs = (chunks[-step:], chunks[:step]) if step < 0 else (chunks[:-step], chunks[step:])
        same = talk[of_chunk[mine]] == talk[of_chunk[theirs]]
        rows[mine[same], at] = theirs[same]
    return Context(rows)


def _in_order(given: pa.Table, column: str) -> tuple[Ints, Ints]:
    """Rows of `given` that are in a conversation, in order, and which conversation each is in."""
    value = identifier(column) if column in given.column_names else _KEY
    sql = f"""
        select row_number_ as row, dense_rank() over (order by talk) as number from (
            select row_number_, {value}::varchar as talk, created_at,
                try_cast(json_extract_string(extra, '$.seq') as double) as seq from turns)
        where talk is not null order by talk, seq nulls last, created_at nulls last, row_number_
    """  # noqa: S608  # a quoted name
    turns = given.append_column("row_number_", pa.array(range(given.num_rows), pa.int64()))
    found = rows_of(sql, {} if value != _KEY else {"column": column}, turns=turns)
    if given.num_rows and not found.num_rows:
        hint = did_you_mean(column, given.column_names)
        raise ParameterError(f"Retriever: 'context_column' must be a column of memories. Got {column!r}.{hint}")
    return found["row"].to_numpy(), found["number"].to_numpy()
