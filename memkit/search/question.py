"""`Question`: queries, their settings, and the candidates that the arms retrieved. Reports and tuning are made from it.

`Queries` are one text, several, or a table. `Scope` holds the memories that may be found, by `where`, hidden kinds and
expiry; it applies before each arm takes its best candidates.
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
from memkit.search.fitted.across import scores_across
from memkit.search.fitted.index import MemoryIndex, Request, Searchable
from memkit.search.fitted.scope import Scope
from memkit.search.settings import QuerySettings
from memkit.search.stages.columns import Columns
from memkit.search.stages.diversify import Likeness, Repeats
from memkit.search.stages.rank import Candidates, Ranked, rank

SCOPING = ("expired", "future", "kinds_hidden", "on_encoder_error", "function_word_weight", "read_dates")
T = TypeVar("T")


class Settings(QuerySettings):
    """The query-time parameters of one question, checked once and immutable.

    Examples
    --------
    >>> Settings.from_estimator(QuerySettings(pool=50)).with_params(min_score=0.2).pool
    50
    >>> Settings.from_estimator(QuerySettings()).pool = 7
    Traceback (most recent call last):
    AttributeError: the settings of a question are immutable. Got 'pool'; `with_params` makes a changed copy.
    """

    @classmethod
    def from_estimator(cls, estimator: QuerySettings) -> Self:
        """The query-time parameters of `estimator`, which may be a Retriever.

        Raises
        ------
        ParameterError
            For a value outside of its declaration.
        """
        values: Mapping[str, Any] = estimator.check_params()
        settings = cls.__new__(cls)
        settings.__dict__.update({name: values[name] for name in QuerySettings.params()})
        return settings

    def with_params(self, **values: Any) -> Self:
        """A copy with other `values`; raises ParameterError for a value or name that is not declared."""
        return self.from_estimator(QuerySettings(**self.__dict__).set_params(**values))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"the settings of a question are immutable. Got {name!r}; `with_params` makes a changed copy."
        )


@dataclass(frozen=True)
class Queries:
    """Texts of queries with their ids and, optionally, the day on which each is asked."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    days: tuple[Moment | None, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def by_day(self) -> list[Self]:
        """The queries in groups of one day each."""
        rows_by_day: dict[Moment | None, list[int]] = {}
        for row, day in enumerate(self.days):
            rows_by_day.setdefault(day, []).append(row)
        return [self if len(rows_by_day) == 1 else self._take(rows) for rows in rows_by_day.values()] or [self]

    def _take(self, rows: list[int]) -> Self:
        ids, texts, days = zip(*((self.ids[row], self.texts[row], self.days[row]) for row in rows), strict=True)
        return type(self)(ids, texts, days)


def as_queries(queries: Any) -> Queries:
    """Read one text, a sequence of texts, or a table with ``text`` and, optionally, ``query_id`` and ``as_of``.

    Parameters
    ----------
    queries : str, sequence of str, pa.Table or pandas.DataFrame
        Ids are "0", "1", … unless the table has them; other columns are ignored; a null text counts as empty. A day is
        null, or a value that `Moment.from_cell` takes.

    Raises
    ------
    QueryError
        If a text is not a string of Unicode, an id is missing or occurs twice, or the table has no column ``text``.
    ParameterError
        If a day is not a date.

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
    return Queries(ids, texts, tuple(None if day in (None, "") else Moment.from_cell(day) for day in days))


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
    """Queries to an index, with settings and a moment, and the candidates that the arms retrieved for them.

    Retrieving candidates is the costly part; ranking is arithmetic over arrays. So retrieve once, with all arms and the
    largest pool (candidates per arm), and rank under as many settings as you like: the results are those of separate
    searches.

    Attributes
    ----------
    index : MemoryIndex
    settings : Settings
        The query-time parameters.
    queries : Queries
    k : int
        Hits per query.
    moment : datetime
        For decay and expiry; UTC. `scope` says which memories lie in the future.
    where : str or None
        The predicate behind `scope`.
    scope : Scope
        Which memories may be found.
    weights : dict of str to float
        By arm, with the sum 1; arms of weight 0 are left out.
    retrieved : Candidates
        The candidates that the arms retrieved.
    note : str
        Why an arm with a weight was not used; empty if all were.
    depth : int or None
        Number of places that MMR orders; None: all. The first places do not depend on it.
    user_id : str or None
        Who asked; None for everybody.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> search = mk.Retriever(encoder="hash").fit(corpus)
    >>> question = search.ask("кофе")
    >>> other = question.with_params(vector_weight=0.9, pool=1)
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
    retrieved: Candidates
    note: str = ""
    depth: int | None = None
    user_id: str | None = None

    def with_params(self, **values: Any) -> Self:
        """The same question under other query-time parameters, without retrieving again.

        Raises
        ------
        ParameterError
            For a name or value that is not declared, or one that needs other candidates: a larger pool, an arm that had
            no weight, other memories.
        """
        settings = self.settings.with_params(**values)
        weights = self.index.weights(settings)
        is_rescoped = any(getattr(settings, name) != getattr(self.settings, name) for name in SCOPING)
        if is_rescoped or settings.pool > self.retrieved.pool or not weights.keys() <= set(self.retrieved.arms):
            raise ParameterError(
                f"Question.with_params: expected settings for the candidates of {', '.join(self.retrieved.arms)} with a"
                f" pool of {self.retrieved.pool}. Got {values}: ask again with those."
            )
        return replace(self, settings=settings, weights=weights)

    def candidates(self) -> Candidates:
        """The best `pool` candidates of each arm that has a weight."""
        return self.retrieved.narrowed(tuple(self.weights), self.settings.pool)

    def ranked(self) -> Ranked:
        """The candidates after every stage."""
        return rank(self.candidates(), self)

    def retrieve_among(self, allowed: Mask | None, n: int) -> Candidates:
        """The best `n` candidates of each arm among the chunks `allowed`, whatever the scope."""
        if allowed is self.scope.allowed and n <= self.retrieved.pool and self.index.is_steady:
            return self.retrieved.narrowed(tuple(self.weights), n)
        return self.index.retrieve(self.queries.texts, n, allowed, self.weights, self.settings, self.moment)

    @property
    def columns(self) -> Columns:
        """The columns of chunks and memories that ranking uses."""
        return self.index.rows

    @property
    def repeats(self) -> Repeats:
        """Which chunks are near-duplicates of others."""
        return self.index.repeats

    def likeness(self, row: Ints) -> Likeness:
        """Pairwise similarity of the chunks `row`: by vectors if these have a weight, else by shared terms."""
        return self.index.similarity(row, by_vectors="vector" in self.weights)

    def across(self, candidates: Candidates) -> tuple[Floats, Mask]:
        """As `scores_across`."""
        return scores_across(self.index, self.queries.texts, candidates)

    def decay(self, memory: Ints) -> tuple[Floats, Floats]:
        """Age in days and decay factor of each of the memories in the rows `memory`."""
        s = self.settings
        kinds = [kind for kind in s.decay_kinds if kind != "*"]
        check_kinds(kinds, "Retriever: 'decay_kinds'", also=self.index.rows.kind[1])
        return self.index.rows.decay(memory, self.moment, s.decay, s.decay_days, s.decay_floor, s.decay_kinds)


def check_user(user_id: object, owner: str = "Retriever.search") -> None:
    """Raise if `user_id` is neither None (everybody) nor a text that is not empty."""
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
    """Check a question and retrieve its candidates; parameters and errors are those of `Retriever.search`."""
    check_value("Retriever.search", "k", k, "int", low=1)
    check_user(user_id)
    queries = as_queries(queries)
    days = set(queries.days)
    if len(days) > 1:
        raise ParameterError(f"Retriever.ask: expected queries of one day. Got {len(days)}: use search or trace.")
    moment = next(iter(days), None) or Moment.from_as_of(as_of)
    request = Request(queries.texts, where, moment, to_trace, user_id)
    answer, note = or_by_words(index, settings, lambda how: index.answer(request, how))
    scope, weights, candidates = answer.scope, answer.weights, answer.candidates
    about = (answer.index, settings, queries, k, moment.at, where, scope, weights, candidates)
    return Question(*about, note, user_id=user_id)


def or_by_words(index: Searchable, settings: Settings, act: Callable[[Settings], T]) -> tuple[T, str]:
    """The result of `act`, and a note; without vectors if the encoder cannot be reached, and the note says why."""
    if settings.on_encoder_error == "raise" or "vector" in index.absent:
        return act(settings), ""
    try:
        with in_haste():
            return act(settings), ""
    except EncoderUnavailableError as error:
        note = f"Without vectors: {error}"
        warnings.warn(f"Retriever: no vectors this time. {note}", RuntimeWarning, stacklevel=5)
        words = {"bm25_weight": 1.0} if settings.bm25_weight is not None else {}
        return act(settings.with_params(vector_weight=0.0, **words)), note
