"""Conversations: the score of a turn includes a part of the scores of its neighbours.

A turn such as "yes, on Friday" shares nothing with a query; the turns around it do. Scores are added, not texts, so
that nothing is encoded again and a saved arm serves with and without `context_column`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.duck import identifier, rows_of
from memkit.errors import ParameterError, did_you_mean
from memkit.index.postings import CANDIDATES
from memkit.schemas import Floats, Ints, Mask

SHARES = {-1: 0.5, -2: 0.25, 1: 0.3, 2: 0.1}
"""The share of the score of the turns before and after, by their distance."""
_KEY = "json_extract_string(extra, '$.' || to_json($column)::varchar)"
_ROUGHLY = 1e-4
"""The largest error of rough scores, with a wide margin over single precision."""
_LONGEST = 40
"""The median number of words beyond which rows are not turns: long answers drown the question between them."""


@dataclass(frozen=True)
class Context:
    """The neighbours of each chunk.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_chunks, 4)
        In the order of `SHARES`; -1 if there is none.
    """

    rows: Ints

    def best(
        self, arm: Any, queries: Sequence[str], n: int, allowed: Mask | None, how: Mapping[str, Any], share: bool
    ) -> pa.Table:
        """As ``arm.candidates``, with scores that include a part of the neighbours' scores.

        Rough scores of all rows show which may be among the best; these and their neighbours are scored exactly.

        Parameters
        ----------
        share : bool
            Whether to take the weighted mean, as for a cosine; else the weighted sum.
        """
        shares = self._shares(allowed)
        total = 1.0 + shares.sum(axis=1) if share else np.ones(len(shares))
        every, tables = np.arange(len(self.rows)), []
        for number, (query, rough) in enumerate(zip(queries, arm.rough(queries, **how), strict=True)):
            likely = _may_be_best(self._mixed(every, rough, allowed, shares, total), n)
            if not len(likely):
                continue
            near = np.zeros(len(rough), bool)
            near[likely] = near[self.rows[likely]] = True  # -1, no neighbour, is the last row, which does no harm
            hits = arm.candidates([query], len(rough), near if allowed is None else near & allowed, **how)
            scores = np.zeros(len(rough))
            scores[hits["row"].to_numpy()] = hits["score"].to_numpy()
            mixed = self._mixed(likely, scores, allowed, shares, total)
            order = np.lexsort((likely, -mixed))[:n]
            order = order[mixed[order] != 0]
            tables.append((np.full(len(order), number), likely[order], mixed[order]))
        columns = [np.concatenate(column) for column in zip(*tables, strict=True)] or [np.empty(0)] * len(CANDIDATES)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, CANDIDATES, strict=True)], CANDIDATES)

    def _mixed(self, row: Ints, scores: Floats, allowed: Mask | None, shares: Floats, total: Floats) -> Floats:
        """The scores of the rows `row` with those of their neighbours; 0 for one that is not allowed."""
        mixed = (scores[row] + (scores[self.rows[row]] * shares[row]).sum(axis=1)) / total[row]
        return np.asarray(mixed if allowed is None else np.where(allowed[row], mixed, 0.0))

    def _shares(self, allowed: Mask | None) -> Floats:
        """The share of each neighbour's score; 0 for one that is missing or not allowed."""
        exists = self.rows >= 0
        if allowed is not None:
            exists &= allowed[self.rows]
        shares: Floats = exists * np.array(list(SHARES.values()))
        return shares


def _may_be_best(scores: Floats, n: int) -> Ints:
    """Rows, ascending, whose exact scores may be among the `n` best that are not 0."""
    live = np.flatnonzero(scores)
    if len(live) <= n:
        return live
    of_live = scores[live]
    least = np.partition(of_live, len(live) - n)[len(live) - n]
    kept: Ints = live[of_live >= least - _ROUGHLY * max(1.0, abs(least))]
    return kept


def context_of(corpus_memories: pa.Table, column: str, order: Ints, of_chunk: Ints) -> Context | None:
    """The neighbours of each turn: equal values of `column` are one conversation, ordered by ``seq``, creation, row.

    None if the median memory has more than 40 words.

    Parameters
    ----------
    corpus_memories : pa.Table
    order : ndarray of int64, shape (n_memories,)
        The row in `corpus_memories` of each memory of the index.
    of_chunk : ndarray of int64, shape (n_chunks,)
        The memory of each chunk, a row of the index.

    Raises
    ------
    ParameterError
        If no memory has the column.
    """
    row, number = _in_order(corpus_memories, column)
    words = pc.count_substring_regex(corpus_memories["text"], r"[\p{L}\p{N}_]+")
    if len(words) and pc.quantile(words, 0.5)[0].as_py() > _LONGEST:
        return None
    memory = np.argsort(order)[row]  # in `memories`, of each turn
    place, talk = np.full(len(corpus_memories), -1), np.full(len(corpus_memories), -1)
    place[memory], talk[memory] = np.arange(len(memory)), number
    chunks = np.lexsort((np.arange(len(of_chunk)), place[of_chunk]))
    chunks = chunks[talk[of_chunk[chunks]] >= 0]
    rows = np.full((len(of_chunk), len(SHARES)), -1, np.int64)
    for index, step in enumerate(SHARES):
        chunk, neighbour = (chunks[-step:], chunks[:step]) if step < 0 else (chunks[:-step], chunks[step:])
        is_same = talk[of_chunk[chunk]] == talk[of_chunk[neighbour]]
        rows[chunk[is_same], index] = neighbour[is_same]
    return Context(rows)


def _in_order(memories: pa.Table, column: str) -> tuple[Ints, Ints]:
    """Rows of `memories` that are in a conversation, in order, and the number of each one's conversation."""
    value = identifier(column) if column in memories.column_names else _KEY
    sql = f"""
        select row_number_ as row, dense_rank() over (order by talk) as number from (
            select row_number_, {value}::varchar as talk, created_at,
                try_cast(json_extract_string(extra, '$.seq') as double) as seq from turns)
        where talk is not null order by talk, seq nulls last, created_at nulls last, row_number_
    """  # noqa: S608  # a quoted name
    turns = memories.append_column("row_number_", pa.array(range(memories.num_rows), pa.int64()))
    ordered = rows_of(sql, {} if value != _KEY else {"column": column}, turns=turns)
    if memories.num_rows and not ordered.num_rows:
        hint = did_you_mean(column, memories.column_names)
        raise ParameterError(f"Retriever: 'context_column' must be a column of memories. Got {column!r}.{hint}")
    return ordered["row"].to_numpy(), ordered["number"].to_numpy()
