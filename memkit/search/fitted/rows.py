"""What ranking needs to know of each chunk besides its scores, as arrays made once per fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.decay import LEAST_FACTOR, decays_sql
from memkit.duck import connect
from memkit.schemas import check_kinds
from memkit.search.stages.normalise import Floats, Ints

Mask = NDArray[np.bool_]

_DAY = 86_400e6  # microseconds
# The formulas of memkit.decay over arrays: a statement a call would cost more than the search. Tests hold them equal.
_FACTORS: dict[str, Callable[[Floats, float], Floats]] = {
    "e_folding": lambda age, days: np.exp(-age / days),
    "half_life": lambda age, days: 0.5 ** (age / days),
    "linear": lambda age, days: 1.0 - age / (2.0 * days),
    "gauss": lambda age, days: 0.5 ** ((age / days) ** 2),
    "none": lambda age, days: np.ones_like(age),
}


@dataclass(frozen=True)
class Rows:
    """One value a chunk (`memory`, `twin`, `filled`) or a memory (the others).

    Attributes
    ----------
    memory : ndarray of int64, shape (n_chunks,)
        Row of the memory that the chunk is cut from.
    twin : ndarray of int64, shape (n_chunks,)
        Equal for chunks of the same owner whose searched text is the same; below n_chunks.
    filled : ndarray of bool, shape (n_chunks,), or None
        Chunks with something to search; None where all have.
    kind : tuple (codes, names)
        Kind of each memory, dictionary encoded.
    expires : ndarray of datetime64[D], shape (n_memories,)
        NaT where the memory does not expire.
    dated : ndarray of datetime64[us], shape (n_memories,)
        Last change, UTC; NaT where unknown.
    decays : ndarray of bool, shape (n_memories,)
        False for memories that are exempt from decay.
    """

    memory: Ints
    twin: Ints
    filled: Mask | None
    kind: tuple[Ints, tuple[str | None, ...]]
    expires: NDArray[np.datetime64]
    dated: NDArray[np.datetime64]
    decays: Mask

    def hidden(self, kinds: Sequence[str]) -> Mask | None:
        """Memories of one of `kinds`; None if no memory is."""
        check_kinds(kinds, "Retriever: 'kinds_hidden'", also=self.kind[1])
        wanted = self._kinds(kinds)
        return wanted[self.kind[0]] if wanted.any() else None

    def _kinds(self, wanted: Sequence[str]) -> Mask:
        """Which of the kinds that occur are `wanted`."""
        return np.array([name in wanted for name in self.kind[1]], bool)

    def expired(self, moment: datetime) -> Mask | None:
        """Memories whose last day lies before the day of `moment`; None if no memory is."""
        gone = self.expires < np.datetime64(moment.date(), "D")  # a comparison with NaT is False
        return gone if gone.any() else None

    def decay(
        self, memory: Ints, moment: datetime, form: str, days: float, floor: float, kinds: Sequence[str] = "*"
    ) -> tuple[Floats, Floats]:
        """Age in days (NaN without a date, 0 in the future) and factor of each of the rows `memory`."""
        dated = self.dated[memory]
        now = np.datetime64(moment.replace(tzinfo=None), "us")
        age = np.where(np.isnat(dated), np.nan, np.maximum((now - dated).astype(np.int64), 0) / _DAY)
        with np.errstate(under="ignore"):
            factor = np.maximum(_FACTORS[form](age, days), max(floor, LEAST_FACTOR))
        decays = self.decays[memory] & (form != "none")
        if "*" not in kinds:
            decays &= self._kinds(kinds)[self.kind[0][memory]]
        return age, np.where(decays & ~np.isnan(age), factor, 1.0)


def make_rows(memories: pa.Table, chunks: pa.Table, texts: pa.ChunkedArray) -> Rows:
    """Arrays over `memories` and their `chunks`; `texts` is what is searched in each chunk."""
    memory = pc.index_in(chunks["memory_id"], value_set=memories["memory_id"]).to_numpy().astype(np.int64)
    owner, _ = _codes(memories["user_id"])
    text, distinct = _codes(texts)
    kind, kinds = _codes(memories["kind"])
    filled = pc.not_equal(pc.utf8_trim_whitespace(texts), "").to_numpy()
    return Rows(
        memory=memory,
        twin=np.unique(owner[memory] * len(distinct) + text, return_inverse=True)[1],
        filled=None if filled.all() else filled,
        kind=(kind, tuple(kinds.to_pylist())),
        expires=memories["expires_at"].to_numpy().astype("datetime64[D]"),
        dated=pc.coalesce(memories["updated_at"], memories["created_at"]).to_numpy().astype("datetime64[us]"),
        decays=_decays(memories),
    )


def _decays(memories: pa.Table) -> Mask:
    with connect() as con:
        exempt = con.from_arrow(memories.select(["kind", "importance"])).project(f"{decays_sql()} as decays")
        decays: Mask = exempt.to_arrow_table()["decays"].to_numpy().astype(bool)
        return decays


def _codes(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Each value's number, and the values by number."""
    encoded = pc.dictionary_encode(column, null_encoding="encode").unify_dictionaries()
    if not encoded.num_chunks:
        return np.empty(0, np.int64), pa.array([], column.type)
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate(codes).astype(np.int64), encoded.chunk(0).dictionary
