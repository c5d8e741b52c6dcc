"""Neighbours for turns of a conversation.

A turn is found by the words and the meaning of its neighbours too, at a part of their weight.

What an arm finds says nothing of a turn such as "yes, on Friday"; the turns around it do. Scores are added, not texts,
so that nothing is encoded again, and an arm that was kept serves with and without.
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

LENT = {-1: 0.5, -2: 0.25, 1: 0.3, 2: 0.1}
"""What the turns before and after lend, by their distance."""
_KEY = "json_extract_string(extra, '$.' || to_json($column)::varchar)"
_ROUGHLY = 1e-4
"""By how much rough scores may be off, of sums in single precision many times what they are."""
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

        Rough scores of all rows tell which may be among the best; these and their neighbours are scored closely.

        Parameters
        ----------
        share : bool
            Whether a row with neighbours has the mean of all, weighed, as a cosine must; else their sum.
        """
        lent = self._lent(allowed)
        total = 1.0 + lent.sum(axis=1) if share else np.ones(len(lent))
        every, tables = np.arange(len(self.rows)), []
        for number, (query, rough) in enumerate(zip(queries, arm.rough(queries, **how), strict=True)):
            likely = _reaching(self._mixed(every, rough, allowed, lent, total), n)
            if not len(likely):
                continue
            near = np.zeros(len(rough), bool)
            near[likely] = near[self.rows[likely]] = True  # nobody is the last row, which does no harm
            found = arm.candidates([query], len(rough), near if allowed is None else near & allowed, **how)
            own = np.zeros(len(rough))
            own[found["row"].to_numpy()] = found["score"].to_numpy()
            mixed = self._mixed(likely, own, allowed, lent, total)
            order = np.lexsort((likely, -mixed))[:n]
            order = order[mixed[order] != 0]
            tables.append((np.full(len(order), number), likely[order], mixed[order]))
        columns = [np.concatenate(column) for column in zip(*tables, strict=True)] or [np.empty(0)] * len(CANDIDATES)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, CANDIDATES, strict=True)], CANDIDATES)

    def _mixed(self, row: Ints, own: Floats, allowed: Mask | None, lent: Floats, total: Floats) -> Floats:
        """The scores of the rows `row`, of all rows' `own`; one that is not allowed has 0."""
        mixed = (own[row] + (own[self.rows[row]] * lent[row]).sum(axis=1)) / total[row]
        return np.asarray(mixed if allowed is None else np.where(allowed[row], mixed, 0.0))

    def _lent(self, allowed: Mask | None) -> Floats:
        """What the neighbours of each row lend it, as far as there are any that are allowed."""
        there = self.rows >= 0
        if allowed is not None:
            there &= allowed[self.rows]
        lent: Floats = there * np.array(list(LENT.values()))
        return lent


def _reaching(scores: Floats, n: int) -> Ints:
    """Rows, ascending, that may be among the `n` best that are not 0, when scores are looked at closely."""
    live = np.flatnonzero(scores)
    if len(live) <= n:
        return live
    of_live = scores[live]
    least = np.partition(of_live, len(live) - n)[len(live) - n]
    kept: Ints = live[of_live >= least - _ROUGHLY * max(1.0, abs(least))]
    return kept


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
