"""Which memories a question may find, before any arm makes its cut: `where`, hidden kinds, expiry, the future."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import QueryError
from memkit.params import Moment, said_until
from memkit.schemas import Mask
from memkit.search.fitted.rows import Rows
from memkit.search.settings import QuerySettings
from memkit.tables.age import later
from memkit.tables.sandbox import QueryTimeoutError, parse_select
from memkit.text.secrets import mask

_BARE = "select memory_id from memories where "
Where: TypeAlias = str | pa.ChunkedArray | None


def memories_where(ask: Callable[..., pa.Table], where: str, timeout_s: float) -> pa.ChunkedArray:
    """Ids of the memories that pass the predicate `where`.

    Parameters
    ----------
    ask : callable
        Runs a query over the corpus's tables, as `Corpus.ask` does.
    where : str
        One SQL predicate over the columns of ``memories``; it may look into other tables by a subquery.
    timeout_s : float, seconds
        When it is given up.

    Raises
    ------
    QueryError
        Where it is not exactly one expression, DuckDB refuses it, or it is at work for too long.
    """
    try:
        # Without brackets, nothing can close one and go on; within them, nothing can follow the expression.
        if parse_select(_BARE + where).shape != parse_select(_BARE + "true").shape:
            raise QueryError("one expression is expected, and nothing after it")
        # The line break keeps a comment at the predicate's end from swallowing the bracket.
        return ask(f"{_BARE}(\n{where}\n)", timeout_s=timeout_s)["memory_id"]
    except QueryTimeoutError as error:
        raise QueryError(
            f"where: expected an answer within {timeout_s:g} seconds. Got none of {mask(repr(where)):.200}: ask for"
            " less, or allow more by where_timeout_s."
        ) from error
    except (QueryError, TypeError) as error:
        raise QueryError(
            f"where: expected one SQL predicate over the columns of memories, such as \"user_id = 'u1'\"."
            f" Got {mask(repr(where)):.200}: {mask(str(error))}"
        ) from error


def seen_by(user_id: str, memories: pa.Table) -> Mask:
    """Which memories a user sees: those of this `user_id` and of nobody."""
    mask: Mask = pc.fill_null(pc.equal(memories["user_id"], user_id), True).to_numpy()
    return mask


@dataclass(frozen=True)
class Unseen:
    """How the memories that pass all filters lie to the last instant that is seen.

    Attributes
    ----------
    until : datetime
    created, undated, updated : int
        Those created later, which are hidden; of the others those without a day of creation, and those updated later.
    """

    until: datetime
    created: int = 0
    undated: int = 0
    updated: int = 0

    @classmethod
    def of(cls, rows: Rows, until: datetime, future: Mask | None, filtered: Mask | None) -> Self:
        """Count the memories."""
        updated = later(rows.dated, until)
        if future is None and not updated.any():
            return cls(until)
        rest = np.ones(len(updated), bool) if filtered is None else ~filtered
        created, rest = (0, rest) if future is None else (int((rest & future).sum()), rest & ~future)
        return cls(until, created, int((rest & np.isnat(rows.made)).sum()), int((rest & updated).sum()))

    def __add__(self, other: Self) -> Self:
        created, undated = self.created + other.created, self.undated + other.undated
        return type(self)(self.until, created, undated, self.updated + other.updated)

    def __str__(self) -> str:
        """A sentence; empty where nothing is later than what is seen."""
        if not self.created and not self.updated:
            return ""
        hidden = "Hidden is 1 memory" if self.created == 1 else f"Hidden are {self.created:,} memories"
        said = f"{hidden} created after {said_until(self.until)}; the others read as today."
        undated = f"{self.undated:,} without created_at" if self.undated else ""
        updated = f"{self.updated:,} updated later" if self.updated else ""
        among = " and ".join(filter(None, (undated, updated)))
        is_one = (self.undated or self.updated) == 1
        return f"{said} Among them {'is' if is_one else 'are'} {among}." if among else said


@dataclass(frozen=True)
class Scope:
    """What is left out, by reason; None where the reason leaves out none.

    Attributes
    ----------
    filtered, expired, future : ndarray of bool, shape (n_memories,), or None
    allowed : ndarray of bool, shape (n_chunks,), or None
        Chunks that may be found; None for all.
    unseen : Unseen or None
        What is later than the moment that is asked about; None where that hides nothing.
    unknown_user : str or None
        The user that asks, where no memory is of that user.
    """

    filtered: Mask | None
    expired: Mask | None
    future: Mask | None
    allowed: Mask | None
    unseen: Unseen | None = None
    unknown_user: str | None = None

    @property
    def until(self) -> datetime | None:
        """What was created after this is hidden; None where nothing is."""
        return None if self.unseen is None else self.unseen.until

    def reasons(self) -> list[tuple[str, Mask]]:
        """Those that leave out any; of a memory with several the last one counts."""
        masks = {"expired": self.expired, "future": self.future, "filtered": self.filtered}
        return [(word, mask) for word, mask in masks.items() if mask is not None]


def make_scope(
    memories: pa.Table,
    rows: Rows,
    ask: Callable[..., pa.Table],
    how: QuerySettings,
    where: Where,
    moment: Moment,
    user_id: str | None = None,
) -> Scope:
    """The scope of a question, by its `where` and, of the settings, `expired`, `future` and `kinds_hidden`.

    `where` may be the ids of the memories that pass it; `ask` is for a predicate, as for `memories_where`; `user_id` is
    as for `seen_by`.
    """
    ids, out = memories["memory_id"], []
    if where is not None:
        passed = memories_where(ask, where, how.where_timeout_s) if isinstance(where, str) else where
        out.append(~pc.is_in(ids, value_set=passed).to_numpy())
    unknown = None
    if user_id is not None:
        unknown = None if pc.any(pc.equal(memories["user_id"], user_id)).as_py() else user_id
        out.append(~seen_by(user_id, memories))
    if (hidden := rows.hidden(how.kinds_hidden)) is not None:
        out.append(hidden)
    gone = rows.expired(moment.at)
    if how.expired == "only":
        out.append(np.ones(len(ids), bool) if gone is None else ~gone)
    filtered = np.logical_or.reduce(out) if out else None
    expired = gone if how.expired == "hide" else None
    until = moment.unseen(how.future)
    future = None if until is None else rows.future(until)
    reasons = [mask for mask in (filtered, expired, future) if mask is not None]
    allowed = ~np.logical_or.reduce(reasons)[rows.memory] if reasons else None
    unseen = None if until is None else Unseen.of(rows, until, future, filtered)
    return Scope(filtered, expired, future, allowed, unseen, unknown)
