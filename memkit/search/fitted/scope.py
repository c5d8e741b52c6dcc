"""The memories that a query may find, by `where`, hidden kinds, expiry and creation; decided before retrieval."""

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
        One SQL predicate over the columns of ``memories``; a subquery may read other tables.
    timeout_s : float, seconds
        The time limit.

    Raises
    ------
    QueryError
        If it is not exactly one expression, DuckDB refuses it, or it takes too long.
    """
    try:
        # Without brackets, nothing can close one and go on; within them, nothing can follow the expression.
        if parse_select(_BARE + where).shape != parse_select(_BARE + "true").shape:
            raise QueryError("one expression is expected, and nothing after it")
        # The line break keeps a comment at the predicate's end from swallowing the bracket.
        return ask(f"{_BARE}(\n{where}\n)", timeout_s=timeout_s)["memory_id"]
    except QueryTimeoutError as error:
        raise QueryError(
            f"where: expected an answer within {timeout_s:g} seconds. Got none for {mask(repr(where)):.200}: simplify"
            " it, or raise where_timeout_s."
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
    """Of the memories that pass all filters, how many are newer than the moment of the query.

    Attributes
    ----------
    until : datetime
        The last instant that is visible.
    created, undated, updated : int
        The memories created later, which are hidden; of the others, those without a date of creation, and those updated
        later.
    """

    until: datetime
    created: int = 0
    undated: int = 0
    updated: int = 0

    @classmethod
    def from_rows(cls, rows: Rows, until: datetime, future: Mask | None, filtered: Mask | None) -> Self:
        """Count the memories."""
        updated = later(rows.dated, until)
        if future is None and not updated.any():
            return cls(until)
        passes = np.ones(len(updated), bool) if filtered is None else ~filtered
        created, visible = (0, passes) if future is None else (int((passes & future).sum()), passes & ~future)
        return cls(until, created, int((visible & np.isnat(rows.created)).sum()), int((visible & updated).sum()))

    def __add__(self, other: Self) -> Self:
        created, undated = self.created + other.created, self.undated + other.undated
        return type(self)(self.until, created, undated, self.updated + other.updated)

    def __str__(self) -> str:
        """A sentence; empty if no memory is newer."""
        if not self.created and not self.updated:
            return ""
        hidden = "1 memory" if self.created == 1 else f"{self.created:,} memories"
        until = said_until(self.until)
        message = f"{hidden} created after {until} {'is' if self.created == 1 else 'are'} hidden."
        undated = f"{self.undated:,} {'has' if self.undated == 1 else 'have'} no created_at" if self.undated else ""
        updated = f"{self.updated:,} {'was' if self.updated == 1 else 'were'} updated later" if self.updated else ""
        newer = " and ".join(filter(None, (undated, updated)))
        return f"{message} Of the others, {newer}." if newer else message


@dataclass(frozen=True)
class Scope:
    """The memories that are left out, by reason; None if a reason leaves out none.

    Attributes
    ----------
    filtered, expired, future : ndarray of bool, shape (n_memories,), or None
    allowed : ndarray of bool, shape (n_chunks,), or None
        Chunks that may be found; None: all.
    unseen : Unseen or None
        Counts of memories newer than the moment of the query; None if it hides nothing.
    unknown_user : str or None
        The user of the query, if no memory is of that user.
    """

    filtered: Mask | None
    expired: Mask | None
    future: Mask | None
    allowed: Mask | None
    unseen: Unseen | None = None
    unknown_user: str | None = None

    @property
    def until(self) -> datetime | None:
        """Memories created after this are hidden; None if none are."""
        return None if self.unseen is None else self.unseen.until

    def reasons(self) -> list[tuple[str, Mask]]:
        """The reasons that leave out any memory; the last one counts for a memory with several."""
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
    """The scope of a query, by `where`, the user, and the settings `expired`, `future` and `kinds_hidden`.

    `where` is a predicate, for which `ask` is as in `memories_where`, or the ids of the memories that pass one;
    `user_id` is as for `seen_by`.
    """
    ids, excluded = memories["memory_id"], []
    if where is not None:
        passed = memories_where(ask, where, how.where_timeout_s) if isinstance(where, str) else where
        excluded.append(~pc.is_in(ids, value_set=passed).to_numpy())
    unknown = None
    if user_id is not None:
        unknown = None if pc.any(pc.equal(memories["user_id"], user_id)).as_py() else user_id
        excluded.append(~seen_by(user_id, memories))
    if (hidden := rows.hidden(how.kinds_hidden)) is not None:
        excluded.append(hidden)
    is_expired = rows.expired(moment.at)
    if how.expired == "only":
        excluded.append(np.ones(len(ids), bool) if is_expired is None else ~is_expired)
    filtered = np.logical_or.reduce(excluded) if excluded else None
    expired = is_expired if how.expired == "hide" else None
    until = moment.unseen(how.future)
    future = None if until is None else rows.future(until)
    reasons = [mask for mask in (filtered, expired, future) if mask is not None]
    allowed = ~np.logical_or.reduce(reasons)[rows.memory] if reasons else None
    unseen = None if until is None else Unseen.from_rows(rows, until, future, filtered)
    return Scope(filtered, expired, future, allowed, unseen, unknown)
