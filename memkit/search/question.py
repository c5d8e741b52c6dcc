"""One question to a fitted index, everything about it settled: what every report, and learning, is made from.

What may be asked is one text, several, or a table (`Queries`); which memories may be found, by `where`, hidden kinds
and expiry, is decided before any arm makes its cut (`Scope`).
"""

from __future__ import annotations

import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.duck import LONE_SURROGATE
from memkit.errors import EncoderUnavailableError, MemkitError, ParameterError, QueryError
from memkit.index.encoders.circuit import in_haste
from memkit.params import AsOf, Moment, check_value, said_until
from memkit.schemas import Floats, Ints, Mask, check_kinds
from memkit.search.fitted.across import said_across
from memkit.search.fitted.index import SearchIndex
from memkit.search.settings import QuerySettings
from memkit.search.stages.columns import Columns
from memkit.search.stages.diversify import Likeness, Repeats
from memkit.search.stages.rank import Candidates, Ranked, rank
from memkit.tables.age import later
from memkit.tables.sealed import OutOfTimeError, read_select
from memkit.text.secrets import mask

_BARE = "select memory_id from memories where "
SCOPING = ("expired", "future", "kinds_hidden", "on_encoder_error", "function_word_weight", "read_dates")
T = TypeVar("T")


class Settings(QuerySettings):
    """The query-time values of one question: checked once, and fixed.

    Examples
    --------
    >>> Settings.of(QuerySettings(pool=50)).but(min_score=0.2).pool
    50
    >>> Settings.of(QuerySettings()).pool = 7
    Traceback (most recent call last):
    AttributeError: the settings of a question are fixed. Got 'pool'; `but` makes others.
    """

    @classmethod
    def of(cls, declared: QuerySettings) -> Self:
        """The query-time values of `declared`, which may be a Retriever.

        Raises
        ------
        ParameterError
            For a value outside of its declaration.
        """
        values: Mapping[str, Any] = declared.check_params()
        fixed = cls.__new__(cls)
        fixed.__dict__.update({name: values[name] for name in QuerySettings.params()})
        return fixed

    def but(self, **values: Any) -> Self:
        """The same with other `values`; raises ParameterError as `of`, and for a name that is not declared."""
        return self.of(QuerySettings(**self.__dict__).set_params(**values))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"the settings of a question are fixed. Got {name!r}; `but` makes others.")


@dataclass(frozen=True)
class Queries:
    """Texts with the ids under which their hits are returned, and days of their own, where they have any."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    days: tuple[Moment | None, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def by_day(self) -> list[Self]:
        """These, in parts with one day each."""
        rows: dict[Moment | None, list[int]] = {}
        for row, day in enumerate(self.days):
            rows.setdefault(day, []).append(row)
        return [self if len(rows) == 1 else self._at(some) for some in rows.values()] or [self]

    def _at(self, rows: list[int]) -> Self:
        ids, texts, days = zip(*((self.ids[row], self.texts[row], self.days[row]) for row in rows), strict=True)
        return type(self)(ids, texts, days)


def as_queries(queries: Any) -> Queries:
    """Read one text, a sequence of texts, or a table with ``text`` and, optionally, ``query_id`` and ``as_of``.

    Parameters
    ----------
    queries : str, sequence of str, pa.Table or pandas.DataFrame
        Ids are "0", "1", … where none are given; other columns are ignored; a null text is an empty one. A day is what
        `Moment.of_cell` takes, or null.

    Raises
    ------
    QueryError
        Where a text is not a string of Unicode, an id is missing or occurs twice, or the table has no column ``text``.
    ParameterError
        Where a day is not a date.

    Examples
    --------
    >>> as_queries(["пул", "pool"]).ids
    ('0', '1')
    >>> as_queries(pa.table({"query_id": ["a"], "text": ["пул"]}))
    Queries(ids=('a',), texts=('пул',), days=())
    """
    if isinstance(queries, Queries):
        return queries
    if isinstance(queries, str):
        return Queries(("0",), _texts((queries,)))
    names = queries.column_names if isinstance(queries, pa.Table) else getattr(queries, "columns", None)
    if names is None:
        texts = _texts(queries)
        return Queries(tuple(map(str, range(len(texts)))), texts)
    if "text" not in list(names):
        raise QueryError(f"queries: expected a column 'text' (and 'query_id'). Got {', '.join(map(str, names))}.")
    texts = _texts(_values(queries["text"]))
    ids = _ids(_values(queries["query_id"])) if "query_id" in list(names) else tuple(map(str, range(len(texts))))
    days = _values(queries["as_of"]) if "as_of" in list(names) else []
    return Queries(ids, texts, tuple(None if day in (None, "") else Moment.of_cell(day) for day in days))


def _values(column: Any) -> list[Any]:
    values: list[Any] = (column if isinstance(column, pa.ChunkedArray) else pa.Array.from_pandas(column)).to_pylist()
    return values


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, Iterable):
        raise QueryError(f"queries: expected a text, a sequence of texts or a table. Got {type(values).__name__}.")
    texts = tuple("" if value is None else value for value in values)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise QueryError(f"queries: expected a text at position {position}. Got {type(text).__name__} {text!r}.")
        if lone := LONE_SURROGATE.search(text):
            raise QueryError(
                f"queries: expected Unicode characters at position {position}. Got half of one, {lone[0]!r}, as its"
                f" character {lone.start()}; text.encode('utf-8', 'replace').decode() puts '?' in its place."
            )
    return texts


def _ids(values: list[Any]) -> tuple[str, ...]:
    if None in values:
        raise QueryError(f"queries: expected an id in every row of 'query_id'. Got none in row {values.index(None)}.")
    ids = tuple(map(str, values))
    if twice := [name for name, count in Counter(ids).items() if count > 1]:
        raise QueryError(f"queries: expected each 'query_id' once. Got {twice[0]!r} more than once.")
    return ids


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
        if read_select(_BARE + where).shape != read_select(_BARE + "true").shape:
            raise QueryError("one expression is expected, and nothing after it")
        # The line break keeps a comment at the predicate's end from swallowing the bracket.
        return ask(f"{_BARE}(\n{where}\n)", timeout_s=timeout_s)["memory_id"]
    except OutOfTimeError as error:
        raise QueryError(
            f"where: expected an answer within {timeout_s:g} seconds. Got none of {mask(repr(where)):.200}: ask for"
            " less, or allow more by where_timeout_s."
        ) from error
    except (QueryError, TypeError) as error:
        raise QueryError(
            f"where: expected one SQL predicate over the columns of memories, such as \"user_id = 'u1'\"."
            f" Got {mask(repr(where)):.200}: {mask(str(error))}"
        ) from error


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
    def of(cls, index: SearchIndex, until: datetime, future: Mask | None, filtered: Mask | None) -> Self:
        """Count the memories of `index`."""
        updated = later(index.rows.dated, until)
        if future is None and not updated.any():
            return cls(until)
        rest = np.ones(len(updated), bool) if filtered is None else ~filtered
        created, rest = (0, rest) if future is None else (int((rest & future).sum()), rest & ~future)
        return cls(until, created, int((rest & np.isnat(index.rows.made)).sum()), int((rest & updated).sum()))

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
    """

    filtered: Mask | None
    expired: Mask | None
    future: Mask | None
    allowed: Mask | None
    unseen: Unseen | None = None

    @property
    def until(self) -> datetime | None:
        """What was created after this is hidden; None where nothing is."""
        return None if self.unseen is None else self.unseen.until

    def reasons(self) -> list[tuple[str, Mask]]:
        """Those that leave out any; of a memory with several the last one counts."""
        masks = {"expired": self.expired, "future": self.future, "filtered": self.filtered}
        return [(word, mask) for word, mask in masks.items() if mask is not None]


def make_scope(
    index: SearchIndex,
    settings: Settings,
    where: str | pa.ChunkedArray | None,
    moment: Moment,
) -> Scope:
    """The scope of a question, by its `where` and, of the settings, `expired`, `future` and `kinds_hidden`.

    `where` may be the ids of the memories that pass it.
    """
    ids, out = index.memories["memory_id"], []
    if where is not None:
        passed = memories_where(index.corpus.ask, where, settings.where_timeout_s) if isinstance(where, str) else where
        out.append(~pc.is_in(ids, value_set=passed).to_numpy())
    if (hidden := index.rows.hidden(settings.kinds_hidden)) is not None:
        out.append(hidden)
    gone = index.rows.expired(moment.at)
    if settings.expired == "only":
        out.append(np.ones(len(ids), bool) if gone is None else ~gone)
    filtered = np.logical_or.reduce(out) if out else None
    expired = gone if settings.expired == "hide" else None
    until = moment.unseen(settings.future)
    future = None if until is None else index.rows.future(until)
    reasons = [mask for mask in (filtered, expired, future) if mask is not None]
    allowed = ~np.logical_or.reduce(reasons)[index.rows.memory] if reasons else None
    unseen = None if until is None else Unseen.of(index, until, future, filtered)
    return Scope(filtered, expired, future, allowed, unseen)


@dataclass(frozen=True)
class Question:
    """What was asked of which index, with which settings, as of when, and what the arms found.

    Asking the arms is the costly part, and it is done; ranking is arithmetic over arrays. So ask once, with all arms
    and the largest pool, and rank it under as many settings as you like: each is what its own search would give.

    Attributes
    ----------
    index : SearchIndex
    settings : Settings
        The query-time parameters.
    queries : Queries
    k : int
        How many places are returned a query.
    moment : datetime
        For decay and expiry; UTC. What is the future is in `scope`.
    where : str or None
        The predicate behind `scope`.
    scope : Scope
        Which memories may be found.
    weights : dict of str to float
        By arm, with the sum 1; an arm without weight is left out.
    found : Candidates
        What the arms answered when they were asked.
    note : str
        Why an arm was not asked that has a weight; empty where all were.
    depth : int or None
        How far MMR orders; None is all the way. The places up to it do not depend on it.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> search = mk.Retriever(encoder="hash").fit(corpus)
    >>> question = search.ask("кофе")
    >>> other = question.but(vector_weight=0.9, pool=1)
    >>> alone = search.with_params(vector_weight=0.9, pool=1).ask("кофе")
    >>> other.ranked().score.tolist() == alone.ranked().score.tolist()
    True
    """

    index: SearchIndex
    settings: Settings
    queries: Queries
    k: int
    moment: datetime
    where: str | None
    scope: Scope
    weights: dict[str, float]
    found: Candidates
    note: str = ""
    depth: int | None = None

    def but(self, **values: Any) -> Self:
        """The same question under other query-time parameters, without asking the arms again.

        Raises
        ------
        ParameterError
            For a name or value that is not declared, or one that needs the arms to be asked again: a larger pool, an
            arm that had no weight, other memories.
        """
        settings = self.settings.but(**values)
        weights = self.index.weights(settings)
        asked_again = [name for name in SCOPING if getattr(settings, name) != getattr(self.settings, name)]
        if asked_again or settings.pool > self.found.pool or not weights.keys() <= set(self.found.arms):
            raise ParameterError(
                f"Question.but: expected settings over what {', '.join(self.found.arms)} found with a pool of"
                f" {self.found.pool}. Got {values}: ask again with those."
            )
        return replace(self, settings=settings, weights=weights)

    def candidates(self) -> Candidates:
        """What the arms that have a weight found within the pool."""
        return self.found.of(tuple(self.weights), self.settings.pool)

    def ranked(self) -> Ranked:
        """The candidates after every stage."""
        return rank(self.candidates(), self)

    def found_among(self, allowed: Mask | None, n: int) -> Candidates:
        """What the arms find among the chunks `allowed`, whatever the scope."""
        if allowed is self.scope.allowed and n <= self.found.pool and self.index.is_steady:
            return self.found.of(tuple(self.weights), n)
        if self.index.is_part:
            raise MemkitError("a trace needs one index over all memories. Fit the Retriever to lake.whole().")
        return self.index.find(self.queries.texts, n, allowed, self.weights, self.settings, self.moment)

    @property
    def columns(self) -> Columns:
        """What ranking looks at of the chunks."""
        return self.index.rows

    @property
    def repeats(self) -> Repeats:
        """Which chunks say the same as others."""
        return self.index.repeats

    def likeness(self, row: Ints) -> Likeness:
        """Likeness among any of the chunks `row`: by vectors, where these have a weight."""
        return self.index.similarity(row, by_vectors="vector" in self.weights)

    def across(self, found: Candidates) -> tuple[Floats, Mask]:
        """As `said_across`."""
        return said_across(self.index, self.queries.texts, found)

    def decay(self, memory: Ints) -> tuple[Floats, Floats]:
        """Age in days and factor of each of the rows `memory`."""
        s = self.settings
        named = [kind for kind in s.decay_kinds if kind != "*"]
        check_kinds(named, "Retriever: 'decay_kinds'", also=self.index.rows.kind[1])
        return self.index.rows.decay(memory, self.moment, s.decay, s.decay_days, s.decay_floor, s.decay_kinds)


def _asked_of(index: Any, queries: Queries, settings: Settings, where: str | None, moment: Moment) -> tuple[Any, ...]:
    """Index, weights, what was found, a note and what is later, where the memories lie in buckets."""
    needed = index.corpus.needed(where)
    seen: str | pa.ChunkedArray | None = where
    if where and index.looks_further(where):
        seen = memories_where(index.ask, where, settings.where_timeout_s)
    scopes = {at: make_scope(index.bucket(at), settings, seen, moment) for at in needed}
    scoped = [(at, scope.allowed) for at, scope in scopes.items()]
    counted = [scope.unseen for scope in scopes.values() if scope.unseen is not None]
    unseen = reduce(operator.add, counted) if counted else None

    def find(settings: Settings) -> tuple[SearchIndex, dict[str, float], Candidates]:
        small, found = index.find(queries.texts, settings.pool, scoped, settings, moment.at)
        return small, index.weights(settings), found

    (small, weights, found), note = or_by_words(index, settings, find)
    return small, weights, found, note, unseen


def ask(
    index: SearchIndex, settings: Settings, queries: Any, k: int, where: str | None, as_of: AsOf, to_trace: bool = False
) -> Question:
    """Settle a question and ask the arms; parameters and errors are those of `Retriever.search`.

    A question that is to be traced has the arms asked for two pools at once, where one is the beginning of the other.
    """
    check_value("Retriever.search", "k", k, "int", low=1)
    asked = as_queries(queries)
    own = set(asked.days)
    if len(own) > 1:
        raise ParameterError(f"Retriever.ask: expected queries of one day. Got {len(own)}; search and trace take them.")
    day = next(iter(own), None)
    moment = day or Moment.of(as_of)
    if not isinstance(index, SearchIndex):
        small, weights, found, note, unseen = _asked_of(index, asked, settings, where, moment)
        scope = Scope(None, None, None, None, unseen)
        return Question(small, settings, asked, k, moment.at, where, scope, weights, found, note)
    scope = make_scope(index, settings, where, moment)

    def find(settings: Settings) -> tuple[dict[str, float], Candidates]:
        weights = index.weights(settings)
        pools = 2 if to_trace and scope.allowed is None and index.is_steady else 1
        return weights, index.find(asked.texts, pools * settings.pool, scope.allowed, weights, settings, moment.at)

    (weights, found), note = or_by_words(index, settings, find)
    return Question(index, settings, asked, k, moment.at, where, scope, weights, found, note)


def or_by_words(index: SearchIndex, settings: Settings, act: Callable[[Settings], T]) -> tuple[T, str]:
    """What `act` makes of the settings; of words alone, and why, where the encoder cannot be reached."""
    if settings.on_encoder_error == "raise" or "vector" in index.absent:
        return act(settings), ""
    try:
        with in_haste():
            return act(settings), ""
    except EncoderUnavailableError as error:
        note = f"By words alone: {error}"
        warnings.warn(f"Retriever: no vectors this time. {note}", RuntimeWarning, stacklevel=5)
        return act(
            settings.but(vector_weight=0.0, **({"bm25_weight": 1.0} if settings.bm25_weight is not None else {}))
        ), note
