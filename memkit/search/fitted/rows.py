"""`Rows`: the columns of an index that ranking reads, by chunk and by memory.

A refit reuses those of memories that did not change, and their chunks, so that only the others are read. Rows are
sorted by id before and after, so unchanged rows keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.schemas import ASIDE, Ints, Mask, check_kinds, with_column, with_ends
from memkit.search.fitted.chunks import codes, places, text_codes
from memkit.tables.age import decaying, expired, later
from memkit.tables.owners import Owners
from memkit.text.chunk import lines_above

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex


@dataclass(frozen=True)
class Rows:
    """Columns of an index: one value per chunk (`memory`, `twin`, `text`, `filled`, `littered`) or per memory.

    Attributes
    ----------
    memory : ndarray of int64, shape (n_chunks,)
        Row of the memory that the chunk is cut from.
    twin : ndarray of int64, shape (n_chunks,)
        Equal for chunks of one owner with the same text (exact duplicates); below n_chunks.
    kind : tuple (codes, names)
        Kind of each memory, dictionary encoded.
    dated : ndarray of datetime64[us], shape (n_memories,)
        Last change, UTC; NaT if unknown.
    decays : ndarray of bool, shape (n_memories,)
        False for memories that are exempt from decay.
    text : ndarray of int64, shape (n_chunks,)
        A number for the chunk's text; equal texts have equal numbers.
    filled : ndarray of bool, shape (n_chunks,), or None
        Chunks that are not empty; None if all are not.
    owner : ndarray of int64, shape (n_memories,)
        Equal for memories of one user.
    file : ndarray of int64, shape (n_memories,)
        Equal for memories of one file.
    expires : ndarray of datetime64[us], shape (n_memories,)
        The last instant at which the memory is valid, UTC; NaT if it does not expire.
    created : ndarray of datetime64[us], shape (n_memories,)
        Creation, UTC; NaT if unknown.
    deprecated : ndarray of bool, shape (n_memories,), or None
        What its author no longer recommends; None if there is none.
    successor : ndarray of int64, shape (n_memories,), or None
        Row of the memory that supersedes it, the last one of a chain; -1 for none; None if no memory has one.
    aside : ndarray of bool, shape (n_memories,), or None
        What is archived or a draft; None if there is none.
    littered : ndarray of bool, shape (n_chunks,), or None
        Chunks of memories with boilerplate; None if there are none.
    stale_at : ndarray of datetime64[us], shape (n_memories,), or None
        From when on it should be checked again; NaT if it says no such time; None if no memory does.
    owners : Owners or None
        Of the memories, which equal texts are told apart by; None if there are no equal texts.
    """

    memory: Ints
    twin: Ints
    kind: tuple[Ints, tuple[str | None, ...]]
    dated: NDArray[np.datetime64]
    decays: Mask
    text: Ints
    filled: Mask | None
    owner: Ints
    file: Ints
    expires: NDArray[np.datetime64]
    created: NDArray[np.datetime64]
    deprecated: Mask | None = None
    successor: Ints | None = None
    stale_at: NDArray[np.datetime64] | None = None
    aside: Mask | None = None
    littered: Mask | None = None
    owners: Owners | None = None

    @cached_property
    def has_dates(self) -> bool:
        """Whether any memory has a date."""
        return not np.isnat(self.dated).all()

    def hit_of(self, memory: Ints, hit: str) -> Ints:
        """A number for the hit that each of the rows `memory` would be, where a hit is a memory or a file."""
        return self.file[memory] if hit == "file" else memory

    def are_of(self, kinds: Sequence[str]) -> Mask:
        """Whether each of the corpus's kinds is among `kinds`."""
        return np.array([name in kinds for name in self.kind[1]], bool)

    def may_decay(self, memory: Ints, kinds: Sequence[str]) -> Mask:
        """Which of the rows `memory` decay, if they have a date."""
        decays = self.decays[memory]
        return decays if "*" in kinds else decays & self.are_of(kinds)[self.kind[0][memory]]

    @cached_property
    def has_expiry(self) -> bool:
        """Whether any memory expires."""
        return not np.isnat(self.expires).all()

    def hidden(self, kinds: Sequence[str]) -> Mask | None:
        """Memories of one of `kinds`; None if no memory is."""
        check_kinds(kinds, "Retriever: 'kinds_hidden'", in_data=self.kind[1])
        is_hidden = self.are_of(kinds)
        return is_hidden[self.kind[0]] if is_hidden.any() else None

    def expired(self, until: datetime) -> Mask | None:
        """Memories that expired before `until`; None if no memory did."""
        is_expired = expired(self.expires, until) if self.has_expiry else None
        return is_expired if is_expired is not None and is_expired.any() else None

    def future(self, until: datetime) -> Mask | None:
        """Memories created after `until`; None if no memory was. One without a date does not count."""
        if not self.has_later(until):
            return None
        is_future = later(self.created, until)
        return is_future if is_future.any() else None

    def has_later(self, until: datetime) -> bool:
        """Whether any memory was created or changed after `until`."""
        return bool(later(self._last, until))

    @cached_property
    def _last(self) -> Any:
        """The last moment at which a memory was created or changed; NaT if none has a date."""
        return np.fmax.reduce(np.append(self.created, self.dated), initial=np.datetime64("NaT", "us"))


Known = tuple[Rows, Ints, Ints]


def make_rows(memories: pa.Table, chunks: pa.Table, former: Known | None = None) -> Rows:
    """The columns of `memories` and of their `chunks`, as `make_chunks` returns them.

    Parameters
    ----------
    former : tuple (Rows, ndarray of int64, ndarray of int64, each of shape (n_chunks,)), optional
        The former columns, the former row of each chunk (beyond the last one for a new chunk), and its memory.
    """
    texts, memory = chunks["own"], former[2] if former else places(chunks["memory_id"], memories["memory_id"])
    owner, _ = codes(memories["user_id"].combine_chunks())
    littered = chunks["littered"].to_numpy()
    text, filled = text_codes(texts) if former is None else text_codes_since(texts, *former[:2])
    all_differ = text.max(initial=-1) == len(text) - 1
    owners = None if all_differ else Owners.of(memories)
    kind, kinds = codes(memories["kind"].combine_chunks())
    return Rows(
        memory=memory,
        text=text,
        twin=text if owners is None else _twins(owners, memory, text),
        owners=owners,
        filled=None if filled.all() else filled,
        littered=littered if littered.any() else None,
        owner=owner,
        file=codes(pc.coalesce(memories["path"], memories["memory_id"]).combine_chunks())[0],
        kind=(kind, tuple(kinds.to_pylist())),
        expires=with_ends(memories)["expires_at"].to_numpy().astype("datetime64[us]"),
        dated=pc.coalesce(memories["updated_at"], memories["created_at"]).to_numpy().astype("datetime64[us]"),
        created=memories["created_at"].to_numpy().astype("datetime64[us]"),
        decays=decaying(memories),
        deprecated=_with_status(memories, "deprecated"),
        successor=_successors(memories),
        stale_at=_stale_at(memories),
        aside=_with_status(memories, *ASIDE),
    )


def _twins(owners: Owners, memory: Ints, text: Ints) -> Ints:
    """A number for each chunk, the same for equal texts of one owner."""
    several = np.flatnonzero(np.bincount(text)[text] > 1)
    among, of_several = np.unique(memory[several], return_inverse=True)
    twins = len(text) + np.arange(len(text))
    twins[several] = owners.take(among).take(of_several).parts(text[several])
    return codes(pa.array(twins))[0]


def _stale_at(memories: pa.Table) -> NDArray[np.datetime64] | None:
    """When each memory becomes stale; None if none does."""
    if memories["stale_at"].null_count == memories.num_rows:
        return None
    dates: NDArray[np.datetime64] = memories["stale_at"].to_numpy().astype("datetime64[us]")
    return dates


def _with_status(memories: pa.Table, *statuses: str) -> Mask | None:
    """Which memories have one of these statuses; None if none has."""
    is_so: Mask = pc.is_in(memories["status"], value_set=pa.array(statuses)).to_numpy()
    return is_so if is_so.any() else None


def _successors(memories: pa.Table) -> Ints | None:
    """The row of the last successor of each memory, else -1; a circle has none."""
    if memories["superseded_by"].null_count == memories.num_rows:
        return None
    successor_row = pc.index_in(memories["superseded_by"], value_set=memories["memory_id"].combine_chunks())
    following: Ints = pc.fill_null(successor_row, -1).to_numpy().astype(np.int64)
    last = following.copy()
    for memory in np.flatnonzero(following >= 0).tolist():
        chain = {memory}
        while (after := int(following[last[memory]])) >= 0 and last[memory] not in chain:
            chain.add(int(last[memory]))
            last[memory] = after
        if last[memory] in chain:
            last[memory] = -1
    return last


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
