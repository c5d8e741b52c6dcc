"""`Ask`: one question, checked once and frozen: queries, settings, the moment, who asks, and what may answer.

`Queries` are one text, several, or a table; `Settings` are the query-time parameters, which the steps of a search
declare, in the order in which they act.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn, Self, TypedDict, Unpack

import pyarrow as pa

from memkit.base.checked import LONE_SURROGATE
from memkit.base.duck import check_unicode
from memkit.base.params import AsOf, Moment, adopt, check_choice, check_value, disown, estimator
from memkit.base.plugins import Plugins
from memkit.errors import ParameterError, QueryError
from memkit.index.encoders.base import Vectors
from memkit.search.fitted.chunks import Index
from memkit.search.state import RETURNED
from memkit.search.step import Factor, Step
from memkit.search.steps import collapse, recall
from memkit.search.steps.rerank import check_reranker
from memkit.text.when import in_days


class Steps:
    """Steps in the order in which they act, and what follows from them.

    Attributes
    ----------
    every : frozenset of Step
    resting : tuple of Step
        Those that parameters may turn off.
    ranking : tuple of Step
        Those that act on candidates; the others say which there are.
    drops : dict of str to callable
        By disposition, why a memory is no hit, in words; all but returned.
    kept_out : frozenset of str
        The dispositions of memories that are no candidates.
    dispositions : tuple of str
        What becomes of a memory, from hits to what is never looked at.
    codes : dict of str to int
        Their places.
    columns : dict of str to float
        What they add to a trace, and its value where the step does nothing.
    telling : dict of str to tuple of Step
        By method of `Step`, the steps that do something there: at fit, ask somebody before they are applied, or say it
        in a score's sentence, beside it, or of a question.
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.put(steps)

    def put(self, steps: tuple[Step, ...]) -> None:
        """Take these steps instead."""
        self._steps, self.every = steps, frozenset(steps)
        self.resting = tuple(step for step in steps if step.off and step.rests)
        self.ranking = tuple(step for step in steps if step.acts)
        self.drops = {word: why for step in steps for word, why in step.drops.items()}
        self.kept_out = frozenset(word for step in steps if step.keeps_out for word in step.drops)
        self.dispositions = (RETURNED, *(word for step in reversed(steps) for word in step.drops))
        self.codes: Mapping[str, int] = {word: code for code, word in enumerate(self.dispositions)}
        self.columns = {name: default for step in steps for name, default in step.columns.items()}
        self.telling = {
            way: tuple(step for step in steps if getattr(type(step), way) is not getattr(Step, way))
            for way in ("prepare", "wants", "part", "beside", "note")
        }

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)


@estimator
class QuerySettings(collapse.Params):
    """Parameters of a query; a change acts at the next call.

    Each step's parameters inherit those of the step before it, which is all that says the order.
    """

    def acting(self) -> frozenset[Step]:
        """The steps that these parameters do not turn off."""
        return STEPS.every.difference(
            step for step in STEPS.resting if all(getattr(self, name) == value for name, value in step.off.items())
        )


STEPS = Steps(tuple(step for base in reversed(QuerySettings.__mro__) for step in vars(base).get("steps", ())))


def scoping() -> tuple[str, ...]:
    """The parameters that change which candidates there are; settings that share them rank the same ones."""
    return tuple(name for name, declared in QuerySettings.params().items() if declared.recalls)


def _checked(name: str, step: Any) -> Step:
    """A step from elsewhere, which must not have what another one has; raises ParameterError."""
    if not isinstance(step, Step) or not step.name or name != step.name:
        raise ParameterError(f"register: expected an instance of a Step with a name. Got {step!r:.80} as {name!r:.80}.")
    taken = {
        "name": {one.name for one in STEPS},
        "parameter": {*QuerySettings.params(), *Index.params()},
        "column": {*STEPS.columns, *(f"{arm}{end}" for arm in recall.ARMS for end in ("", "_rank", "_norm"))},
        "disposition": {*STEPS.dispositions},
    }
    given = {"name": [step.name], "parameter": step.params, "column": step.columns, "disposition": step.drops}
    for what, names in given.items():
        if known := sorted(taken[what].intersection(names)):
            raise ParameterError(
                f"register: expected a step with a {what} of its own. Got {known[0]!r}, which is taken."
            )
    if step.after:
        check_choice("after", step.after, [one.name for one in STEPS if one.name != collapse.Cut.name], "register")
    return step


_PLUGINS = Plugins("memkit.steps", _checked)


def register_step(step: Step) -> None:
    """Make a step known: it acts after the step that it names, and its parameters are those of every Retriever."""
    forget_step(step.name)
    _PLUGINS.registered[step.name] = _checked(step.name, step)
    _take(step)


def _take(step: Step) -> None:
    steps = tuple(STEPS)
    multiply = [one.name for one in steps if isinstance(one, Factor)]
    # Else behind the last factor: scores are complete there, and nothing is cut yet.
    place = 1 + [one.name for one in steps].index(step.after or multiply[-1])
    STEPS.put((*steps[:place], step, *steps[place:]))
    adopt(QuerySettings, (replace(p, name=name, group=p.group or "steps") for name, p in step.params.items()))


def forget_step(name: str) -> None:
    """Undo `register_step`; nothing happens where there was none of this name."""
    step = _PLUGINS.registered.pop(name, None)
    if step is not None:
        STEPS.put(tuple(one for one in STEPS if one is not step))
        disown(QuerySettings, step.params)


# At import, as the parameters of steps are those of the class, which no estimator may be made before.
for _name in _PLUGINS.names():
    if (_step := _PLUGINS.get(_name)) is not None:
        _take(_step)


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
        settings.__dict__["_given"] = estimator.__dict__.get("_given", frozenset())
        return settings

    def with_params(self, **values: Any) -> Self:
        """A copy with other `values`; raises ParameterError for a value or name that is not declared."""
        other = QuerySettings(**{name: getattr(self, name) for name in QuerySettings.params()})
        vars(other)["_given"] = vars(self)["_given"]
        return self.from_estimator(other.set_params(**values))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"the settings of a question are immutable. Got {name!r}; `with_params` makes a changed copy."
        )


# A round bound: no question has megabytes, and a memory is asked for by `like`.
MAX_QUERY = 1_000_000
"""Characters of a question."""


@dataclass(frozen=True)
class Queries:
    """Texts of queries with their ids and, optionally, the day on which each is asked.

    Attributes
    ----------
    vectors : ndarray of shape (n_queries, dim), or None
        What the arm of meaning searches in place of the texts, in the space of the indexed vectors.
    without : tuple of str
        Ids of memories that no query finds.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    days: tuple[Moment | None, ...] = ()
    vectors: Vectors | None = field(default=None, compare=False, repr=False)
    without: tuple[str, ...] = field(default=(), repr=False)

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
        vectors = None if self.vectors is None else self.vectors[rows]
        return replace(self, ids=ids, texts=texts, days=days, vectors=vectors)


def as_queries(queries: Any) -> Queries:
    """Read one text, a sequence of texts, or a table with ``text`` and, optionally, ``query_id`` and ``as_of``.

    Parameters
    ----------
    queries : str, sequence of str, pa.Table, pandas.DataFrame or dict of columns
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
    if isinstance(queries, Mapping):  # of columns; its keys are no texts
        names = list(queries)
    if names is None:
        texts = _texts(queries)
        return Queries(tuple(map(str, range(len(texts)))), texts)
    if "text" not in list(names):
        raise QueryError(f"queries: expected a column 'text' (and 'query_id'). Got {', '.join(map(str, names))}.")
    texts = _texts(_values(queries["text"]))
    ids = (
        _checked_ids(_values(queries["query_id"])) if "query_id" in list(names) else tuple(map(str, range(len(texts))))
    )
    days = _values(queries["as_of"]) if "as_of" in list(names) else []
    return Queries(ids, texts, tuple(None if day in (None, "") else Moment.from_cell(day) for day in days))


def _values(column: Any) -> list[Any]:
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise QueryError(f"queries: expected a column of values. Got {column!r:.80}.")
    values: list[Any] = (column if isinstance(column, pa.ChunkedArray) else pa.Array.from_pandas(column)).to_pylist()
    return values


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, Iterable):
        raise QueryError(f"queries: expected a text, a sequence of texts or a table. Got {type(values).__name__}.")
    texts = tuple("" if value is None else value for value in values)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise QueryError(f"queries: expected a text at position {position}. Got {type(text).__name__} {text!r}.")
        if len(text) > MAX_QUERY:
            expected = f"expected at most {MAX_QUERY:,} characters at position {position}"
            raise QueryError(f"queries: {expected}. Got {len(text):,}; search.like asks for what is like a memory.")
        if lone := LONE_SURROGATE.search(text):
            raise QueryError(
                f"queries: expected Unicode characters at position {position}. Got half of one, {lone[0]!r}, as its"
                f" character {lone.start()}; text.encode('utf-8', 'replace').decode() puts '?' in its place."
            )
    return texts


def _checked_ids(values: list[Any]) -> tuple[str, ...]:
    if None in values:
        raise QueryError(f"queries: expected an id in every row of 'query_id'. Got none in row {values.index(None)}.")
    ids = tuple(map(str, values))
    if twice := [name for name, count in Counter(ids).items() if count > 1]:
        raise QueryError(f"queries: expected each 'query_id' once. Got {twice[0]!r} more than once.")
    return ids


def check_user(user_id: object, owner: str = "Retriever.search") -> None:
    """Raise if `user_id` is neither None (everybody) nor a text that is not empty."""
    if user_id is None:
        return
    check_value(owner, "user_id", user_id, "str", nullable=True)
    if user_id == "":
        raise ParameterError(f"{owner}: 'user_id' must be a user's id, or None for everybody. Got ''.")
    check_unicode(str(user_id))


def checked_scope(scope: object, owner: str = "Retriever.search") -> str | None:
    """A scope as notes write it, ``global``, ``file:<path>`` or ``area:<name>``; a path alone is a file's. None: none.

    Raises
    ------
    ParameterError
        For what is no text, or names no file or area.

    Examples
    --------
    >>> checked_scope("./src/auth.ts"), checked_scope("area:auth"), checked_scope("global")
    ('file:src/auth.ts', 'area:auth', 'global')
    """
    if scope is None:
        return None
    check_value(owner, "scope", scope, "str")
    text = str(scope).strip()
    check_unicode(text)
    kind, colon, name = text.partition(":")
    if text == "global" or (kind == "area" and name.strip()):
        return text if text == "global" else f"area:{name.strip()}"
    path = (name if kind == "file" and colon else text).strip().replace("\\", "/")
    if not path or text == "area:" or (kind == "area" and colon):
        raise ParameterError(f"{owner}: 'scope' must be a file's path, area:<name> or global. Got {scope!r:.80}.")
    return f"file:{posixpath.normpath(path)}"


class Asked(TypedDict, total=False):
    """What is asked beside queries, by the keywords of `Retriever.search`."""

    k: int
    where: str | None
    as_of: AsOf
    user_id: str | None
    scope: str | None


@dataclass(frozen=True)
class Ask:
    """One question to an index, checked.

    Attributes
    ----------
    queries : Queries
        All of one day.
    settings : Settings
        The query-time parameters.
    k : int
        Hits per query.
    where : str or None
        A predicate over memories.
    moment : Moment
    user_id : str or None
        Who asks; None for everybody.
    scope : str or None
        What notes must apply to, as `checked_scope` returns it; None for all notes.
    to_trace : bool
        For a trace the arms retrieve twice the pool at once, if the first half of that is the pool itself.

    Examples
    --------
    >>> one = Ask.checked("чай", Settings.from_estimator(QuerySettings()), k=3, as_of="2026-03-01")
    >>> one.queries.texts, one.k, one.moment.instant.isoformat()
    (('чай',), 3, '2026-03-01T00:00:00+00:00')
    """

    queries: Queries
    settings: Settings
    k: int
    where: str | None
    moment: Moment
    user_id: str | None = None
    to_trace: bool = False
    scope: str | None = None

    @classmethod
    def checked(cls, queries: Any, settings: Settings, *, to_trace: bool = False, **asked: Unpack[Asked]) -> Self:
        """Check a question; parameters and errors are those of `Retriever.search`."""
        k, user_id = asked.get("k", 10), asked.get("user_id")
        check_value("Retriever.search", "k", k, "int", low=1)
        if user_id is not None:
            check_user(user_id)
        check_reranker(settings)  # before anything is searched
        queries = as_queries(queries)
        days = set(queries.days)
        if len(days) > 1:
            raise ParameterError(f"Retriever.ask: expected queries of one day. Got {len(days)}: use search or trace.")
        moment = next(iter(days), None) or Moment.from_as_of(asked.get("as_of"))
        scope = None if asked.get("scope") is None else checked_scope(asked["scope"])
        return cls(queries, settings, k, asked.get("where"), moment, user_id, to_trace, scope)

    @cached_property
    def dated(self) -> tuple[str, ...]:
        """The texts with the dates that they name in place of times."""
        return tuple(in_days(text, self.moment.instant.date()) for text in self.queries.texts)
