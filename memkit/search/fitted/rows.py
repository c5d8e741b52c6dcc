"""Arrays over the memories of an index and their chunks."""

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

from memkit.schemas import Ints, Mask, check_kinds
from memkit.search.fitted.arms import codes, places, said
from memkit.search.stages.columns import Columns
from memkit.tables.age import decaying, expired, later


@dataclass(frozen=True)
class Rows(Columns):
    """What an index knows of its chunks and memories besides: a value a chunk (`text`, `filled`) or a memory.

    Attributes
    ----------
    text : ndarray of int64, shape (n_chunks,)
        Equal for chunks whose searched text is the same.
    filled : ndarray of bool, shape (n_chunks,), or None
        Chunks with something to search; None where all have.
    owner : ndarray of int64, shape (n_memories,)
        Equal for memories of one user.
    expires : ndarray of datetime64[D], shape (n_memories,)
        NaT where the memory does not expire.
    made : ndarray of datetime64[us], shape (n_memories,)
        Creation, UTC; NaT where unknown.
    """

    text: Ints
    filled: Mask | None
    owner: Ints
    expires: NDArray[np.datetime64]
    made: NDArray[np.datetime64]

    @cached_property
    def has_expiry(self) -> bool:
        """Whether any memory has a last day."""
        return not np.isnat(self.expires).all()

    def hidden(self, kinds: Sequence[str]) -> Mask | None:
        """Memories of one of `kinds`; None if no memory is."""
        check_kinds(kinds, "Retriever: 'kinds_hidden'", also=self.kind[1])
        wanted = self.are_of(kinds)
        return wanted[self.kind[0]] if wanted.any() else None

    def expired(self, moment: datetime) -> Mask | None:
        """Memories whose last day lies before the day of `moment`; None if no memory is."""
        gone = expired(self.expires, moment) if self.has_expiry else None
        return gone if gone is not None and gone.any() else None

    def future(self, until: datetime) -> Mask | None:
        """Memories created after `until`; None if no memory is. One without a date is not."""
        unseen = later(self.made, until)
        return unseen if unseen.any() else None


def follow() -> Any:
    """What a refit needs, imported for one."""
    from memkit.search.fitted import follow

    return follow


Known = tuple[Rows, Ints, Ints]


def make_rows(memories: pa.Table, chunks: pa.Table, texts: pa.ChunkedArray, former: Known | None = None) -> Rows:
    """Arrays over `memories` and their `chunks`; `texts` is what each chunk tells.

    Parameters
    ----------
    former : tuple (Rows, ndarray of int64, ndarray of int64, each of shape (n_chunks,)), optional
        Rows of before, of each chunk the one with its text (beyond their last one for a new chunk), and its memory.
    """
    memory = former[2] if former else places(chunks["memory_id"], memories["memory_id"])
    owner, _ = codes(memories["user_id"].combine_chunks())
    text, filled = said(texts) if former is None else follow().said_since(texts, *former[:2])
    all_differ = text.max(initial=-1) == len(text) - 1
    kind, kinds = codes(memories["kind"].combine_chunks())
    return Rows(
        memory=memory,
        text=text,
        twin=text if all_differ else codes(pa.array(owner[memory] * len(text) + text))[0],
        filled=None if filled.all() else filled,
        owner=owner,
        kind=(kind, tuple(kinds.to_pylist())),
        expires=memories["expires_at"].to_numpy().astype("datetime64[D]"),
        dated=pc.coalesce(memories["updated_at"], memories["created_at"]).to_numpy().astype("datetime64[us]"),
        made=memories["created_at"].to_numpy().astype("datetime64[us]"),
        decays=decaying(memories),
    )
