"""Columns of an index as arrays by row, and the rows that a query may find by `where`, user, kind, expiry, creation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.errors import QueryError
from memkit.params import Moment, until_text
from memkit.schemas import Floats, Ints, Mask, check_kinds
from memkit.search.fitted.arms import codes, places, text_codes
from memkit.search.settings import QuerySettings
from memkit.tables.age import ages, decaying, expired, factors, later
from memkit.tables.sandbox import QueryTimeoutError, parse_select
from memkit.text.secrets import mask


@dataclass(frozen=True)
class Rows:
    """Columns of an index: one value per chunk (`memory`, `twin`, `text`, `filled`) or per memory (the others).

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
    expires : ndarray of datetime64[D], shape (n_memories,)
        NaT if the memory does not expire.
    created : ndarray of datetime64[us], shape (n_memories,)
        Creation, UTC; NaT if unknown.
    """

    memory: Ints
    twin: Ints
    kind: tuple[Ints, tuple[str | None, ...]]
    dated: NDArray[np.datetime64]
    decays: Mask
    text: Ints
    filled: Mask | None
    owner: Ints
    expires: NDArray[np.datetime64]
    created: NDArray[np.datetime64]

    @cached_property
    def has_dates(self) -> bool:
        """Whether any memory has a date."""
        return not np.isnat(self.dated).all()

    def are_of(self, kinds: Sequence[str]) -> Mask:
        """Whether each of the corpus's kinds is among `kinds`."""
        return np.array([name in kinds for name in self.kind[1]], bool)

    def prior(self, memory: Ints, weights: Mapping[str, float] | None) -> Floats:
        """The factor by kind of each of the rows `memory`; 1 for a kind that `weights` do not name."""
        return priors(self.kind[0][memory], self.kind[1], weights)

    def decay(
        self, memory: Ints, moment: datetime, form: str, days: float, floor: float, kinds: Sequence[str] = "*"
    ) -> tuple[Floats, Floats]:
        """Age in days (NaN without a date, 0 in the future) and factor of each of the rows `memory`."""
        if not self.has_dates:
            return np.full(len(memory), np.nan), np.ones(len(memory))
        age, setting = ages(self.dated[memory], moment), (form, days, floor, tuple(kinds))
        return age, decay_factors(age, lambda some: self.may_decay(memory, some), [setting])[:, 0]

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


Decay = tuple[str, float, float, Sequence[str]]
"""Form, days, floor and kinds, as `QuerySettings` has them."""


def decay_factors(age: Floats, may_decay: Callable[[Any], Mask], decays: Sequence[Decay | None]) -> Floats:
    """The decay factor of each candidate under each of `decays`, shape (n, decays); 1 if it does not decay."""
    result = np.ones((len(age), len(decays)))
    groups: dict[tuple[str, Sequence[str]], list[int]] = {}
    for column, decay in enumerate(decays):
        if decay is not None:
            groups.setdefault((decay[0], decay[3]), []).append(column)
    for (form, kinds), columns in groups.items():
        rows = np.flatnonzero(may_decay(kinds))
        days, floor = (np.array([decay[part] for column in columns if (decay := decays[column])]) for part in (1, 2))
        result[rows[:, None], columns] = factors(age[rows, None], form, days, floor)
    return result


def priors(kind: Ints, names: Sequence[str | None], weights: Mapping[str, float] | None) -> Floats:
    """The factor of each `kind`, a number into `names`; 1 for one that `weights` do not name."""
    check_kinds(weights or {}, "Retriever: 'kind_weights'", also=names)
    return np.array([(weights or {}).get(str(name), 1.0) for name in names], float)[kind]


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
        until = until_text(self.until)
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
