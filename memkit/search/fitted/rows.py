"""Columns of the memories of an index and of their chunks, as arrays."""

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
from memkit.search.fitted.arms import codes, places, text_codes
from memkit.search.stages.columns import Columns
from memkit.tables.age import decaying, expired, later


@dataclass(frozen=True)
class Rows(Columns):
    """Further columns of an index: one value per chunk (`text`, `filled`) or per memory (the others).

    Attributes
    ----------
    text : ndarray of int64, shape (n_chunks,)
        A number for the chunk's text; equal texts have equal numbers.
    filled : ndarray of bool, shape (n_chunks,), or None
        Chunks that are not empty; None if all are not.
    owner : ndarray of int64, shape (n_memories,)
        Equal for memories of one user.
    expires : ndarray of datetime64[D], shape (n_memories,)
        NaT if the memory does not expire.
    created : ndarray of datetime64[us], shape (n_memories,)
        Creation, UTC; NaT if unknown.
    """

    text: Ints
    filled: Mask | None
    owner: Ints
    expires: NDArray[np.datetime64]
    created: NDArray[np.datetime64]

    @cached_property
    def has_expiry(self) -> bool:
        """Whether any memory expires."""
        return not np.isnat(self.expires).all()

    def hidden(self, kinds: Sequence[str]) -> Mask | None:
        """Memories of one of `kinds`; None if no memory is."""
        check_kinds(kinds, "Retriever: 'kinds_hidden'", also=self.kind[1])
        is_hidden = self.are_of(kinds)
        return is_hidden[self.kind[0]] if is_hidden.any() else None

    def expired(self, moment: datetime) -> Mask | None:
        """Memories that expired before the day of `moment`; None if no memory did."""
        is_expired = expired(self.expires, moment) if self.has_expiry else None
        return is_expired if is_expired is not None and is_expired.any() else None

    def future(self, until: datetime) -> Mask | None:
        """Memories created after `until`; None if no memory was. One without a date does not count."""
        is_future = later(self.created, until)
        return is_future if is_future.any() else None


def follow() -> Any:
    """The module for a refit, imported at the first one."""
    from memkit.search.fitted import follow

    return follow


Known = tuple[Rows, Ints, Ints]


def make_rows(memories: pa.Table, chunks: pa.Table, texts: pa.ChunkedArray, former: Known | None = None) -> Rows:
    """The columns of `memories` and of their `chunks`; `texts` are the chunks' own texts.

    Parameters
    ----------
    former : tuple (Rows, ndarray of int64, ndarray of int64, each of shape (n_chunks,)), optional
        The former columns, the former row of each chunk (beyond the last one for a new chunk), and its memory.
    """
    memory = former[2] if former else places(chunks["memory_id"], memories["memory_id"])
    owner, _ = codes(memories["user_id"].combine_chunks())
    text, filled = text_codes(texts) if former is None else follow().text_codes_since(texts, *former[:2])
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
        created=memories["created_at"].to_numpy().astype("datetime64[us]"),
        decays=decaying(memories),
    )
