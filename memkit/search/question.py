"""One question to a fitted index, everything about it settled: what every report, and learning, is made from.

What may be asked is one text, several, or a table (`Queries`); which memories may be found, by `where`, hidden kinds
and expiry, is decided before any arm makes its cut (`Scope`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn, Self, TypeVar

import pyarrow as pa

from memkit.duck import LONE_SURROGATE
from memkit.errors import EncoderUnavailableError, ParameterError, QueryError
from memkit.index.encoders.circuit import in_haste
from memkit.params import AsOf, Moment, check_value
from memkit.schemas import Floats, Ints, Mask, check_kinds
from memkit.search.fitted.across import said_across
from memkit.search.fitted.index import MemoryIndex, Request, Searchable
from memkit.search.fitted.scope import Scope
from memkit.search.settings import QuerySettings
from memkit.search.stages.columns import Columns
from memkit.search.stages.diversify import Likeness, Repeats
from memkit.search.stages.rank import Candidates, Ranked, rank

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


@dataclass(frozen=True)
class Question:
    """What was asked of which index, with which settings, as of when, and what the arms found.

    Asking the arms is the costly part, and it is done; ranking is arithmetic over arrays. So ask once, with all arms
    and the largest pool, and rank it under as many settings as you like: each is what its own search would give.

    Attributes
    ----------
    index : MemoryIndex
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
    user_id : str or None
        Who asked; None for everybody.

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

    index: MemoryIndex
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
    user_id: str | None = None

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
        return self.found.narrowed(tuple(self.weights), self.settings.pool)

    def ranked(self) -> Ranked:
        """The candidates after every stage."""
        return rank(self.candidates(), self)

    def found_among(self, allowed: Mask | None, n: int) -> Candidates:
        """What the arms find among the chunks `allowed`, whatever the scope."""
        if allowed is self.scope.allowed and n <= self.found.pool and self.index.is_steady:
            return self.found.narrowed(tuple(self.weights), n)
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


def check_user(user_id: object, owner: str = "Retriever.search") -> None:
    """Raise where `user_id` is neither None, for everybody, nor a text that can be one's name."""
    check_value(owner, "user_id", user_id, "str", nullable=True)
    if user_id == "":
        raise ParameterError(f"{owner}: 'user_id' must be a user's id, or None for everybody. Got ''.")


def ask(
    index: Searchable,
    settings: Settings,
    queries: Any,
    k: int,
    where: str | None,
    as_of: AsOf,
    to_trace: bool = False,
    user_id: str | None = None,
) -> Question:
    """Settle a question and ask the arms; parameters and errors are those of `Retriever.search`."""
    check_value("Retriever.search", "k", k, "int", low=1)
    check_user(user_id)
    asked = as_queries(queries)
    own = set(asked.days)
    if len(own) > 1:
        raise ParameterError(f"Retriever.ask: expected queries of one day. Got {len(own)}; search and trace take them.")
    moment = next(iter(own), None) or Moment.of(as_of)
    request = Request(asked.texts, where, moment, to_trace, user_id)
    found, note = or_by_words(index, settings, lambda how: index.answer(request, how))
    about = (found.index, settings, asked, k, moment.at, where, found.scope, found.weights, found.found)
    return Question(*about, note, user_id=user_id)


def or_by_words(index: Searchable, settings: Settings, act: Callable[[Settings], T]) -> tuple[T, str]:
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
