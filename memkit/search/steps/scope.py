"""Which memories may be found: the filter, the user, expiry, the moment, and the author's status.

`make_scope` makes the `Scope` of a question, and the steps say of it what was left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import Estimator, Moment, Reach, estimator, param, until_text
from memkit.display.views import NAMED, day_of
from memkit.errors import ParameterError, QueryError, count_of
from memkit.schemas import STALE_WEIGHT, Ints, Mask, check_kinds, kinds_where
from memkit.search.fitted.chunks import take_rows
from memkit.search.step import Look, Step
from memkit.tables.age import later
from memkit.tables.untrusted import QueryTimeoutError, parse_select
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from memkit.search.ask import Ask, QuerySettings
    from memkit.search.fitted.chunks import Rows
    from memkit.search.fitted.index import MemoryIndex
    from memkit.search.question import Question
    from memkit.search.state import Ranked


EXPIRED, NOT_SEARCHED = "expired", "kind not searched"
OBEYED = "status='obey'"
"""The setting by which what an author says of a memory counts."""
# A round bound, for predicates that would never end.
WHERE_TIMEOUT_S = 10.0
"""The time limit of a predicate, in seconds."""
_NONE_REPLACED = pa.table({"memory_id": pa.array([], pa.string()), "by": pa.array([], pa.string())})
_BARE = "select memory_id from memories where "
Predicate: TypeAlias = str | pa.ChunkedArray | None


def memories_where(ask: Callable[..., pa.Table], where: str) -> pa.ChunkedArray:
    """Ids of the memories that pass the predicate `where`.

    Parameters
    ----------
    ask : callable
        Runs a query over the corpus's tables, as `Corpus.ask` does.
    where : str
        One SQL predicate over the columns of ``memories``; a subquery may read other tables.

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
        return ask(f"{_BARE}(\n{where}\n)", timeout_s=WHERE_TIMEOUT_S)["memory_id"]
    except QueryTimeoutError as error:
        raise QueryError(
            f"where: expected an answer within {WHERE_TIMEOUT_S:g} seconds. Got none for {mask(repr(where)):.200}:"
            " simplify it, or ask for the ids by corpus.ask(query, timeout_s=...) and name them in its place."
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


def is_hidden(settings: QuerySettings, kind: str | None) -> bool:
    """Whether memories of a kind are not searched."""
    return kind in settings.kinds_hidden


def unseen_from(settings: QuerySettings, moment: Moment) -> datetime | None:
    """Memories created after this are hidden at a moment; None if none are."""
    return moment.unseen(settings.future)


def gone_by(settings: QuerySettings, rows: Rows, until: datetime) -> Mask | None:
    """The memories that are hidden, as they expired before `until`; None: none."""
    return rows.expired(until) if settings.expired == "hide" else None


FUTURE_KEPT = {"future": "keep"}
"""Parameters under which memories of later are found too."""


def visible_memories(index: MemoryIndex, settings: QuerySettings, moment: Moment, user_id: str | None) -> Mask:
    """Which memories the user may see, of the user and of nobody, without those created after the moment."""
    visible = np.ones(index.memories.num_rows, bool) if user_id is None else seen_by(user_id, index.memories)
    until = moment.unseen(settings.future)
    return visible if until is None else visible & ~later(index.rows.created, until)


def areas_of(index: MemoryIndex, ask: Ask) -> frozenset[str]:
    """The areas that the scope of a question reaches, in small letters: of ``area:auth`` that one, of global none.

    Those of a file are its folders, by name and by path; the keywords of the notes on it; and the areas of notes whose
    subject or text names its path. Only notes that the question may see count.
    """
    kind, _, name = (ask.scope or "").partition(":")
    if kind != "file":
        return frozenset({name.casefold()} if name else ())
    folders = name.split("/")[:-1]
    areas = {*folders, *("/".join(folders[: depth + 1]) for depth in range(len(folders)))} - {""}
    seen = visible_memories(index, ask.settings, ask.moment, ask.user_id)
    notes = index.memories.select(["kind", "scope", "title", "text", "tags"]).filter(pa.array(seen))
    notes = notes.filter(pc.equal(notes["kind"], "note"))
    on_file = notes.filter(pc.equal(notes["scope"], ask.scope))["tags"]
    areas |= set(pc.list_flatten(on_file).drop_null().to_pylist())
    of_areas = notes.filter(pc.starts_with(notes["scope"], "area:"))
    pattern = rf"(^|[^\pL\pN_./-])(\./)?{re.escape(name)}\.?($|[^\pL\pN_./-])"
    named = [pc.fill_null(pc.match_substring_regex(of_areas[column], pattern), False) for column in ("title", "text")]
    scopes = of_areas["scope"].filter(pc.or_(*named)).to_pylist()
    return frozenset(area.casefold() for area in (*areas, *(scope.removeprefix("area:").strip() for scope in scopes)))


def _beyond(ask: Ask, areas: frozenset[str], memories: pa.Table) -> Mask:
    """The notes that apply to another file than the question's scope says, or to an area that is none of `areas`."""
    scope = memories["scope"]
    names = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(scope, len("area:")))
    name_known = pa.array([name is not None and name.casefold() in areas for name in names.to_pylist()], pa.bool_())
    other_area = pc.and_(pc.starts_with(scope, "area:"), pc.invert(name_known))
    other_file = pc.and_(pc.starts_with(scope, "file:"), pc.not_equal(scope, ask.scope))
    beyond = pc.and_(pc.equal(memories["kind"], "note"), pc.or_(other_area, other_file))
    mask: Mask = pc.fill_null(beyond, False).to_numpy()
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
        if not rows.has_later(until):
            return cls(until)
        updated = later(rows.dated, until)
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
        until = until_text(self.until)
        message = (
            f"{count_of(self.created, 'memory')} created after {until} {'is' if self.created == 1 else 'are'} hidden."
        )
        undated = f"{self.undated:,} {'has' if self.undated == 1 else 'have'} no created_at" if self.undated else ""
        updated = f"{self.updated:,} {'was' if self.updated == 1 else 'were'} updated later" if self.updated else ""
        newer = " and ".join(filter(None, (undated, updated)))
        return f"{message} Of the others, {newer}." if newer else message


@dataclass(frozen=True)
class Scope:
    """The memories that are left out, by reason; None if a reason leaves out none.

    Attributes
    ----------
    filtered, expired, later : ndarray of bool, shape (n_memories,), or None
        The last: those that are not there yet at the moment of the question.
    allowed : ndarray of bool, shape (n_chunks,), or None
        Chunks that may be found; None: all.
    unseen : Unseen or None
        Counts of memories newer than the moment of the query; None if it hides nothing.
    unknown_user : str or None
        The user of the query, if no memory is of that user.
    deprecated, superseded : ndarray of bool, shape (n_memories,), or None
        Left out by their status.
    successor_chunks : ndarray of int64, shape (n_chunks,), or None
        For a chunk of a superseded memory the chunk of its successor that is found in its place, else -1.
    replaced : pa.Table or None
        As `replaced_by` for all that was found, where that is over many shards; None: the masks tell.
    beyond : ndarray of bool, shape (n_memories,), or None
        Of the filtered ones, notes that apply to something else than the question's scope.
    """

    filtered: Mask | None
    expired: Mask | None
    later: Mask | None
    allowed: Mask | None
    unseen: Unseen | None = None
    unknown_user: str | None = None
    deprecated: Mask | None = None
    superseded: Mask | None = None
    successor_chunks: Ints | None = None
    replaced: pa.Table | None = None
    beyond: Mask | None = None

    @property
    def until(self) -> datetime | None:
        """Memories created after this are hidden; None if none are."""
        return None if self.unseen is None else self.unseen.until

    def reasons(self) -> list[tuple[str, Mask]]:
        """The reasons that leave out any memory; the last one counts for a memory with several."""
        by_status = {"deprecated": self.deprecated, "superseded": self.superseded}
        masks = by_status | {EXPIRED: self.expired, "future": self.later, "filtered": self.filtered}
        return [(word, mask) for word, mask in masks.items() if mask is not None]


def make_scope(index: MemoryIndex, ask: Ask, where: Predicate, areas: frozenset[str] | None = None) -> Scope:
    """The scope of a question in an index: `where`, the user, what notes apply to, and the settings that hide memories.

    `where` is the question's predicate, or the ids of the memories that pass it; the memories that the queries are
    asked `without` are left out. `areas` are those of the question's scope, where the index is one of several; None:
    as `areas_of` finds them.
    """
    memories, rows, how, moment, user_id = index.memories, index.rows, ask.settings, ask.moment, ask.user_id
    ids, excluded = memories["memory_id"], []
    if ask.queries.without:
        excluded.append(pc.is_in(ids, value_set=pa.array(ask.queries.without, pa.string())).to_numpy())
    if where is not None:
        if not isinstance(where, (str, pa.ChunkedArray)):
            raise ParameterError(
                f"where: expected a SQL predicate as text, such as \"user_id = 'u1'\". Got {where!r:.100}."
            )
        passed = memories_where(index.corpus.ask, where) if isinstance(where, str) else where
        excluded.append(~pc.is_in(ids, value_set=passed).to_numpy())
    unknown = None
    if user_id is not None:
        unknown = None if pc.any(pc.equal(memories["user_id"], user_id)).as_py() else user_id
        excluded.append(~seen_by(user_id, memories))
    beyond = None
    if ask.scope is not None:
        beyond = _beyond(ask, areas_of(index, ask) if areas is None else areas, memories)
        excluded.append(beyond)
    check_kinds(how.kinds_hidden, "Retriever: 'kinds_hidden'", in_data=rows.kind[1])
    if (hidden := rows.hidden(how.kinds_hidden)) is not None:
        excluded.append(hidden)
    is_expired = rows.expired(moment.last_visible)
    if how.expired == "only":
        excluded.append(np.ones(len(ids), bool) if is_expired is None else ~is_expired)
    filtered = np.logical_or.reduce(excluded) if excluded else None
    expired = is_expired if how.expired == "hide" else None
    until = moment.unseen(how.future)
    future = None if until is None else rows.future(until)
    gone = [mask for mask in (filtered, expired, future) if mask is not None]
    out = np.logical_or.reduce(gone) if gone else None
    deprecated = rows.deprecated if how.status == "obey" else None
    to = rows.successor if how.status == "obey" else None
    superseded, successor_chunks = (None, None) if to is None else _succession(rows, to, out)
    # By memory first, by chunk at the end: there are fewer memories.
    reasons = [mask for mask in (out, deprecated, superseded) if mask is not None]
    allowed = ~np.logical_or.reduce(reasons)[rows.memory] if reasons else None
    unseen = None if until is None else Unseen.from_rows(rows, until, future, filtered)
    return Scope(
        filtered, expired, future, allowed, unseen, unknown, deprecated, superseded, successor_chunks, beyond=beyond
    )


def _succession(rows: Rows, to: Ints, out: Mask | None) -> tuple[Mask | None, Ints | None]:
    """The memories whose successor `to` the query may show, and for each of their chunks the successor's first chunk.

    A memory stays where it is if its successor is left out (`out`), deprecated itself, or has no text.
    """
    first = np.minimum(np.searchsorted(rows.memory, to), max(len(rows.memory) - 1, 0))
    shows = (to >= 0) & (rows.memory[first] == to) if len(rows.memory) else np.zeros(len(to), bool)
    for hidden in (out, rows.deprecated):
        shows &= True if hidden is None else ~hidden[to]
    if rows.filled is not None:
        shows &= rows.filled[first]
    superseded = shows if out is None else shows & ~out
    if not superseded.any():
        return None, None
    return superseded, np.where(superseded, first, -1)[rows.memory]


def replaced_by(memories: pa.Table, rows: Rows, scope: Scope, ids: pa.ChunkedArray) -> pa.Table:
    """The superseded memories in whose place one of the memories `ids` is shown: their names, and its id as `by`."""
    superseded = np.empty(0, np.int64) if scope.superseded is None else np.flatnonzero(scope.superseded)
    known = memories.column_names
    named = memories.select([name for name in NAMED if name in known])
    by = (
        memories["memory_id"]
        if rows.successor is None
        else take_rows(memories["memory_id"], rows.successor[superseded])
    )
    replaced = take_rows(named, superseded).append_column("by", by.slice(0, len(superseded)))
    return replaced.filter(pc.is_in(replaced["by"], value_set=ids))


def replaced_in(index: MemoryIndex, scope: Scope, ids: pa.ChunkedArray) -> pa.Table:
    """As `replaced_by` for the memories `ids` of an index, or of all shards."""
    if scope.replaced is not None:
        return scope.replaced.filter(pc.is_in(scope.replaced["by"], value_set=ids))
    return _NONE_REPLACED if scope.superseded is None else replaced_by(index.memories, index.rows, scope, ids)


def _filtered(look: Look) -> str:
    settings, kind = look.question.settings, look.value("kind")
    if kind in settings.kinds_hidden:
        return f"its kind '{kind}' is hidden (kinds_hidden)"
    beyond = look.question.scope.beyond
    if beyond is not None and beyond[look.memory]:
        return f"it applies to {mask(look.value('scope'))}, beyond {mask(str(look.question.ask.scope))} (scope)"
    if settings.expired == "only":
        return "it does not pass the filter (where, or expired='only')"
    return f"it does not pass where ({mask(str(look.question.ask.where))})"


def _future(look: Look) -> str:
    created, unseen = look.value("created_at"), look.question.scope.unseen
    until = until_text(unseen.until) if unseen else ""
    day = created.date() if created.date().isoformat() != until[:10] else until_text(created)
    return f"it was created on {day}, after {until}, and the future is hidden"


def _superseded(look: Look) -> str:
    index = look.question.index
    assert index.rows.successor is not None
    successor = index.memories["memory_id"][int(index.rows.successor[look.memory])].as_py()
    return f"{successor!r} supersedes it and is shown in its place (status)"


def _expired(look: Look) -> str:
    until = until_text(look.question.ask.moment.last_visible)
    return f"it expired on {day_of(look.value('expires_at'))}, before {until}, and expired memories are hidden"


def _deprecated(look: Look) -> str:
    return "its author says that it is deprecated, and deprecated memories are hidden (status)"


def none_allowed(ask: Ask) -> str:
    """Why a question that no memory may answer has no hit."""
    scope = "" if ask.scope is None else "'scope', "
    return f"no memory passes 'where', {scope}'expired', 'future' and 'kinds_hidden'"


class Where(Step):
    """Memories that pass `where`, apply to what was asked, and are of a kind that is searched."""

    name = "where"
    drops = {"filtered": _filtered}
    becomes = {NOT_SEARCHED: "of a kind that search leaves out (kinds_hidden)"}
    keeps_out = True


class User(Step):
    """Memories of the user who asks and of nobody."""

    name = "user"

    def note(self, question: Question, ranked: Ranked) -> str:
        unknown = question.scope.unknown_user
        return (
            "" if unknown is None else f"User {unknown!r:.80} has no memory: only memories without a user are searched."
        )


class Expiry(Step):
    """Memories that have not expired."""

    name = "expiry"
    drops = {EXPIRED: _expired}
    keeps_out = True


class Future(Step):
    """Memories that are there at the moment of the question."""

    name = "moment"
    drops = {"future": _future}
    keeps_out = True

    def note(self, question: Question, ranked: Ranked) -> str:
        return str(question.scope.unseen or "")


class Status(Step):
    """Memories that their author still recommends, and successors in place of what they supersede."""

    name = "status"
    drops = {"deprecated": _deprecated, "superseded": _superseded}
    keeps_out = True


def _expiring(settings: Any, index: Any) -> Reach:
    ends = ~np.isnat(index.rows.expires)
    return Reach(int(ends.sum()), len(ends), "none has an end (expires_at)", "expired")


@estimator
class Params(Estimator):
    """Which memories may be found."""

    expired: str = param(
        "hide",
        recalls=True,
        group="scope",
        choices=("hide", "keep", "only"),
        doc="Whether expired memories are hidden, kept, or the only ones searched.",
        acts_on=_expiring,
    )
    status: str = param(
        "obey",
        recalls=True,
        group="scope",
        choices=("obey", "keep"),
        doc="Whether the status that the author gave a memory counts. 'obey' hides deprecated memories, shows the"
        " successor of a superseded one in its place, and multiplies the score of one that is stale at `as_of`,"
        f" archived or a draft by {STALE_WEIGHT:g}; 'keep' ignores the status.",
    )
    future: str | None = param(
        None,
        recalls=True,
        group="scope",
        kind="str",
        nullable=True,
        choices=("keep", "hide"),
        doc="Whether memories created after `as_of` are kept or hidden; a day lasts to its end. None: hidden if"
        " `as_of` is given. 'hide' without `as_of` hides memories dated after now.",
    )
    kinds_hidden: tuple[str, ...] = param(
        kinds_where(searched=False), recalls=True, group="scope", doc="Kinds of memory that are not searched."
    )

    steps: ClassVar[tuple[Step, ...]] = (
        Where(),
        User(),
        Expiry(),
        Future(),
        Status(),
    )
