"""`Rows`: the columns of an index that ranking reads, by chunk and by memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.schemas import ASIDE, Ints, Mask, check_kinds
from memkit.search.fitted.chunks import codes, places, text_codes
from memkit.search.fitted.refit import text_codes_since
from memkit.tables.age import decaying, expired, later
from memkit.tables.owners import Owners
from memkit.tables.statement import with_ends


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
