"""One declaration of a parameter gives its check, message, help, slider, command-line option and docs row.

`Param` is the declaration, `Estimator` scikit-learn's contract made from declarations, without importing scikit-learn.
`Moment` is the value of `as_of`, `zone_of` and `rev_text` those of time zones and git revisions.

>>> @estimator
... class Example(Estimator):
...     '''An example.'''
...     decay_days: float = param(60.0, low=0, low_open=True, unit="days", doc="Age at which 1/e is left.")
>>> Example().get_params()
{'decay_days': 60.0}
>>> Example(decay_days=-1).check_params()
Traceback (most recent call last):
memkit.errors.ParameterError: Example: 'decay_days' must be a float in (0, inf), days. Got -1.
>>> print(Example.__doc__)
An example.
<BLANKLINE>
Parameters
----------
decay_days : float in (0, inf), days, default 60.0
    Age at which 1/e is left.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import html
import inspect
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import pyarrow as pa

from memkit.errors import ParameterError, count_of, did_you_mean, some_of

REQUIRED: Any = MISSING
"""Marks a parameter without a default: it must be given when the estimator is made."""
FORMER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "analyser": ("analyzer",),
        "folder": ("path",),
        "normalise": ("normalize",),
        "now": ("as_of",),
        "sample": ("n",),
        "seed": ("random_state",),
        "user": ("user_id",),
    }
)
"""What took the place of a parameter's old name, anywhere in memkit: one of these, or an inner estimator's."""
GONE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "prefer_alike": ("prefer", "two texts are alike from a similarity of 0.75 on"),
        "where_timeout_s": ("pool", "a predicate has ten seconds; corpus.ask takes timeout_s"),
    }
)
"""Parameters that went: with whom they stood, and what there is in their place."""
Zone = str | tzinfo | None
"""A time zone as a user gives it: a name, an offset from UTC, or a `tzinfo`; None is UTC."""
F = TypeVar("F", bound=Callable[..., Any])
_OFFSET = re.compile(r"UTC|(?:UTC)?([+-])([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True)
class Moment:
    """The moment `as_of` of a query, and the last moment up to which created memories are visible.

    If `as_of` is a day, ages are counted to its first instant, but memories created during the day are visible.

    Attributes
    ----------
    instant : datetime
        The moment that ages are counted to, in UTC.
    until : datetime or None
        Memories created later did not exist yet; None where no moment was given, so that nothing is hidden.

    Examples
    --------
    >>> print(Moment.from_as_of("2026-03-01"), "until", Moment.from_as_of("2026-03-01").until)
    2026-03-01 until 2026-03-01 23:59:59.999999+00:00
    >>> print(Moment.from_as_of("2026-03-01T12:00"), "until", Moment.from_as_of("2026-03-01T12:00").until)
    2026-03-01T12:00:00+00:00 until 2026-03-01 12:00:00+00:00
    >>> Moment.from_as_of(None).until is None
    True
    """

    instant: datetime
    until: datetime | None

    @classmethod
    def from_as_of(cls, as_of: AsOf, name: str = "as_of") -> Self:
        """The moment that `as_of` names; raises ParameterError as `as_of_time`."""
        if isinstance(as_of, cls):
            return as_of
        instant = as_of_time(as_of, name)
        return cls(instant, None if as_of is None else _last_of(instant) if _is_day(as_of) else instant)

    @classmethod
    def from_cell(cls, value: AsOf) -> Self:
        """`from_as_of` for a value from a column of time stamps, where midnight stands for the whole day."""
        instant = as_of_time(value)
        is_midnight = isinstance(value, datetime) and instant.time() == time()
        return cls.from_as_of(instant.date() if is_midnight else value)

    def ahead(self, days: int) -> Self:
        """This moment, days later; a bare day stays one.

        >>> print(Moment.from_as_of("2026-03-01").ahead(2))
        2026-03-03
        """
        length = timedelta(days=days)
        return type(self)(self.instant + length, None if self.until is None else self.until + length)

    @property
    def last_visible(self) -> datetime:
        """The last visible instant, whether or not the moment was given."""
        return self.instant if self.until is None else self.until

    def unseen(self, future: str | None) -> datetime | None:
        """The moment after which created memories are hidden, by the parameter `future`; None hides nothing."""
        return {"keep": None, "hide": self.last_visible}.get(future or "", self.until)

    def __str__(self) -> str:
        is_day = self.until is not None and self.until != self.instant
        return self.instant.date().isoformat() if is_day else self.instant.isoformat()


AsOf = str | date | datetime | Moment | None
"""The moment that a result is computed for: a day or a time in UTC, kept with the result; None is now."""

_CLASSES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "words": (tuple, list),
    "weights": (Mapping,),
    "moment": (str, date, Moment),
    "callable": (Callable,),  # type: ignore[dict-item]  # of collections.abc, which isinstance takes
    "object": (object,),
}


_TYPES = {
    "words": "sequence of strings",
    "weights": "mapping of words to floats",
    "moment": "str, date or datetime",
}
"""What a kind of parameter is called in docstrings and messages, where that is not its own name."""


@dataclass(frozen=True)
class Reach:
    """How many of how many things the value of a parameter acts on; as text one sentence.

    Attributes
    ----------
    count, of : int
    to_do : str
        What to do where the value acts on none, or why it does.
    what : str
        What acts: "decay" for each of its parameters.
    thing : str
        What is counted, one of it.
    verb : str

    Examples
    --------
    >>> print(Reach(0, 780, "decay_kinds='*' includes all", "decay"))
    decay acts on 0 of 780 memories; decay_kinds='*' includes all
    """

    count: int
    of: int
    to_do: str
    what: str
    thing: str = "memory"
    verb: str = "acts on"

    def __str__(self) -> str:
        counted = f"{self.what} {self.verb} {self.count:,} of {count_of(self.of, self.thing)}"
        return f"{counted}; {self.to_do}" if self.to_do else counted


@dataclass(frozen=True)
class Param:
    """The declaration of one parameter, as data.

    Attributes
    ----------
    kind : str
        'bool', 'int', 'float', 'str', 'moment', 'words' (a sequence of strings), 'weights' (a mapping of words to
        numbers), 'callable' or 'object' (checked by the code that uses it).
    low, high : float or None
        Bounds, inclusive unless `low_open` or `high_open`; of words, `low` is their least number.
    choices : tuple of str
        The allowed words; empty for any.
    refit : bool
        Whether a change needs a new ``fit``; otherwise the parameter acts at query time.
    source : str
        The document and section that the default comes from.
    stands_for : object
        The value that None means, where it is too long to be the default itself.
    star : bool
        For 'words': whether "*" is allowed, for all.
    group : str
        What the parameter acts on, in classes with many: help and tables list parameters by group, 'first' first.
    recalls : bool
        Whether a search must ask its arms anew where it changes.
    of : type or None
        For 'object': the class of `Estimator` that the value is an instance of; None stands for one of its defaults.
    shares : str
        The parameter with `of` whose estimator has a parameter of this name too: both are one value, given in either.
    acts_on : callable or None
        A function of the estimator and of what it works on (a search's question or index, a policy's table) to the
        `Reach` of the parameter's value there; None where the value has nothing to act on by intention.
    """

    default: Any
    kind: str
    doc: str
    name: str = ""
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple[str, ...] = ()
    unit: str = ""
    nullable: bool = False
    refit: bool = False
    source: str = ""
    stands_for: Any = None
    star: bool = False
    group: str = ""
    recalls: bool = False
    of: type[Estimator] | None = None
    shares: str = ""
    acts_on: Callable[[Any, Any], Reach | None] | None = field(default=None, compare=False)

    @property
    def expected(self) -> str:
        """The constraint in words, as messages show it."""
        if self.of is not None:
            return f"{self.of.__name__}(...) or None"
        article = "" if self.choices else "an " if self.type[0] in "io" else "a "
        return article + self.type + (f", {self.unit}" if self.unit else "") + (" or None" if self.nullable else "")

    @property
    def type(self) -> str:
        """Kind and bounds, without unit."""
        if self.choices:
            some = "one or more words among " if self.low else "words among "
            words = (some if self.kind == "words" else "one of ") + ", ".join(map(repr, self.choices))
        else:
            words = _TYPES.get(self.kind, self.kind)
            words += " or '*'" if self.star else ""
        if self.kind == "words" or (self.low is None and self.high is None):
            return words
        left = "(" if self.low_open or self.low is None else "["
        right = ")" if self.high_open or self.high is None else "]"
        low = "-inf" if self.low is None else f"{self.low:g}"
        high = "inf" if self.high is None else f"{self.high:g}"
        return f"{words} in {left}{low}, {high}{right}"

    def accepts(self, value: object) -> bool:
        """Whether `value` follows the declaration."""
        if value is None:
            return self.nullable or self.kind == "object"
        if self.kind == "object":
            return self.of is None or isinstance(value, self.of)
        if self.star and value == "*":
            return True
        if isinstance(value, bool) and self.kind != "bool":
            return False
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            value = value.item()  # a NumPy scalar, for example from a parameter grid
        if not isinstance(value, _CLASSES[self.kind]):
            return False
        if isinstance(value, Mapping):
            return all(isinstance(n, str) and type(w) in (int, float) and self._within(w) for n, w in value.items())
        if isinstance(value, (tuple, list)):
            are_words = all(isinstance(word, str) and (not self.choices or word in self.choices) for word in value)
            return are_words and len(value) >= (self.low or 0)
        if self.choices:
            return value in self.choices
        return not isinstance(value, (int, float)) or self._within(value)

    def parse(self, text: str) -> Any:
        """The value of `text` from the command line; a text that cannot be converted stays a string for `check`.

        Examples
        --------
        >>> Param(default=0.5, kind="float", doc="").parse("0.7"), Param(default=(), kind="words", doc="").parse("a,b")
        (0.7, ('a', 'b'))
        """
        if text.lower() == "none" and (self.nullable or self.kind == "object"):
            return None
        if self.star and text.strip() == "*":
            return "*"
        if self.kind == "words":
            return tuple(word.strip() for word in text.split(",") if word.strip())
        if self.kind == "weights":
            pairs = [part.partition("=")[::2] for part in text.split(",")]
            try:
                return {name.strip(): float(weight) for name, weight in pairs}
            except ValueError:
                return text
        if self.kind == "bool":
            return {"true": True, "false": False}.get(text.lower(), text)
        try:
            return {"int": int, "float": float}.get(self.kind, str)(text)
        except ValueError:
            return text

    def _within(self, value: float) -> bool:
        if math.isnan(value) or math.isinf(value):
            return False
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below

    @property
    def default_text(self) -> str:
        """The default as it is written in code; empty for a parameter without a default."""
        return "" if self.default is REQUIRED else repr(self.default)

    def check(self, value: object, owner: str) -> None:
        """Raise where `value` does not follow the declaration.

        Raises
        ------
        ParameterError
            The message names the owner, the parameter, what was expected and what was given.
        """
        if not self.accepts(value):
            words = (word for word in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(word, str))
            hint = did_you_mean(next((word for word in words if word not in self.choices), ""), self.choices)
            raise ParameterError(f"{owner}: '{self.name}' must be {self.expected}. Got {value!r:.200}.{hint}")


def param(default: Any, *, doc: str, kind: str | None = None, kw_only: bool = True, **declared: Any) -> Any:
    """Declare one parameter of an `Estimator`; `kind` is the type of the default unless given.

    For a long default (a list of words), give None, and its meaning as `stands_for`.
    """
    if kind is None:
        example = default if default is not None else declared.get("stands_for")
        kind = "words" if isinstance(example, tuple) else type(example).__name__
    if declared.get("stands_for") is not None:
        declared["nullable"] = True
    declaration = Param(default=default, kind=kind, doc=doc, **declared)
    return field(default=default, kw_only=kw_only, metadata={"param": declaration})


def hint_of(name: object, known: Iterable[str]) -> str:
    """A sentence for the end of a message on an unknown parameter: what it is called now, or which is most similar.

    >>> hint_of("analyser", ["analyzer", "pool"]), hint_of("pol", ["analyzer", "pool"]), hint_of("x", ["pool"])
    (" It is called 'analyzer' now.", " Did you mean 'pool'?", '')
    >>> hint_of("chunk_tokens", ["pool", "index__chunk_tokens"])  # it is an inner estimator's
    " It is called 'index__chunk_tokens' now."
    >>> hint_of("prefer_alike", ["prefer"])
    ' It is gone: two texts are alike from a similarity of 0.75 on.'
    """
    names = list(known)
    beside, instead = GONE.get(str(name), ("", ""))
    if beside in names:
        return f" It is gone: {instead}."
    wanted = {str(name), *FORMER.get(str(name), ())}
    now = next((new for new in names if new.rpartition("__")[2] in wanted), None)
    return did_you_mean(name, names) if now is None else f" It is called {now!r} now."


def current_names(function: F) -> F:
    """Have a call with the old name of a parameter refused with its new one, as `FORMER` has it."""

    owner = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def called(*positional: Any, **named: Any) -> Any:
        for name in named.keys() & FORMER.keys():
            known = inspect.signature(function).parameters
            if name not in known and (hint := hint_of(name, known)):
                raise ParameterError(f"{owner}: no parameter {name!r}.{hint}")
        return function(*positional, **named)

    return cast(F, called)


def check_value(owner: str, name: str, value: object, kind: str, **declared: Any) -> None:
    """Check one argument of a function as `Param` does; further keywords are those of `Param`.

    Raises
    ------
    ParameterError
        Where `value` is not allowed.

    Examples
    --------
    >>> check_value("read", "n_jobs", 1.5, "int", nullable=True)
    Traceback (most recent call last):
    memkit.errors.ParameterError: read: 'n_jobs' must be an int or None. Got 1.5.
    """
    _declared(name, kind, **declared).check(value, owner)


# A round bound: a check of a plain argument declares it anew at each call.
@functools.lru_cache(maxsize=256)
def _declared(name: str, kind: str, **declared: Any) -> Param:
    return Param(default=None, kind=kind, doc="", name=name, **declared)


def check_choice(name: str, value: object, choices: Iterable[str], owner: str) -> None:
    """`check_value` for a word that must be one of `choices`.

    Raises
    ------
    ParameterError
        Where `value` is not among `choices`.

    Examples
    --------
    >>> check_choice("target", "memry", ["memory", "user", "memory"], "add")
    Traceback (most recent call last):
    memkit.errors.ParameterError: add: 'target' must be one of 'memory', 'user'. Got 'memry'. Did you mean 'memory'?
    """
    check_value(owner, name, value, "str", choices=tuple(dict.fromkeys(choices)))


def check_column(name: str, columns: Iterable[object], owner: str) -> None:
    """Raise where `columns` does not contain `name`.

    >>> check_column("text", ["id", "txt"], "from_table")
    Traceback (most recent call last):
    memkit.errors.ParameterError: from_table: expected a column 'text'. Got id, txt. Did you mean 'txt'?
    """
    names = list(map(str, columns))
    if name not in names:
        got = some_of(names, 25) or "none"
        raise ParameterError(f"{owner}: expected a column {name!r}. Got {got}.{did_you_mean(name, names)}")


def check_corpus(owner: str, corpus: object) -> None:
    """Raise where `corpus` is not a corpus; the message says how to make one."""
    if not isinstance(getattr(corpus, "tables", None), dict):
        raise ParameterError(
            f"{owner}: expected a Corpus. Got {type(corpus).__name__}; mk.from_table makes one from a table with a"
            " column 'text', mk.read from a folder."
        )


def check_fitted(owner: str, search: Any) -> None:
    """Raise where `search` is no Retriever, or one without a corpus."""
    if not callable(getattr(search, "_index", None)):
        raise ParameterError(
            f"{owner}: expected a fitted Retriever. Got {type(search).__name__}; mk.Retriever().fit(corpus) makes one."
        )
    search._index()


def path_of(owner: str, value: Any) -> Path:
    """`value` as a valid path, whether or not anything exists there.

    Raises
    ------
    ParameterError
        Where it is no str or Path, is empty, or the system does not accept it.

    Examples
    --------
    >>> path_of("read", None)
    Traceback (most recent call last):
    memkit.errors.ParameterError: read: expected a path. Got None.
    >>> path_of("read", "a\\0b")
    Traceback (most recent call last):
    memkit.errors.ParameterError: read: expected a path. Got 'a\\x00b': embedded null byte.
    """
    message = f"{owner}: expected a path. Got {value!r:.100}"
    if value == "":  # from a variable that is not set: Path would take it for the current folder
        raise ParameterError(f"{owner}: expected a path. Got an empty one.")
    try:
        path = Path(value)
        os.stat(path)  # noqa: PTH116 - Path.exists takes a name that no file can have for a file that is not there
    except (FileNotFoundError, NotADirectoryError):
        return path
    except TypeError as error:
        raise ParameterError(f"{message}.") from error
    except (OSError, ValueError) as error:
        raise ParameterError(f"{message}: {getattr(error, 'strerror', None) or error}.") from error
    return path


def as_of_time(as_of: AsOf, name: str = "as_of") -> datetime:
    """The moment that `as_of` names, in UTC; None is now, the one place where memkit reads the clock.

    Raises
    ------
    ParameterError
        Where `as_of` is not a date or time stamp; the message calls it `name`.

    Examples
    --------
    >>> as_of_time("2026-03-01")
    datetime.datetime(2026, 3, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> as_of_time("2026-03-01T12:00:00+03:00").hour
    9
    """
    if as_of is None:
        return datetime.now(UTC)
    if isinstance(as_of, Moment):
        return as_of.instant
    try:
        if as_of != as_of:  # NaT is a datetime, and no moment
            raise ValueError("not a time")
        if isinstance(as_of, str) and "\0" in as_of:  # the text is read only up to there
            raise ValueError("a NUL")
        moment = datetime.fromisoformat(as_of) if isinstance(as_of, str) else as_of
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, time())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, OverflowError) as error:
        raise ParameterError(f"'{name}' must be a date, a datetime or an ISO 8601 string. Got {as_of!r}.") from error


def zone_of(owner: str, zone: Zone) -> tzinfo:
    """A time zone by its name or its distance from UTC; None is UTC.

    Raises
    ------
    ParameterError
        For what is none, and for a `tzinfo` that has neither, so that no later read could name it.

    Examples
    --------
    >>> zone_of("read", "+03:00"), zone_of("read", "Europe/Moscow").key
    (datetime.timezone(datetime.timedelta(seconds=10800)), 'Europe/Moscow')
    """
    if zone is None or zone is UTC:
        return UTC
    name: object = zone
    if isinstance(zone, tzinfo):
        distance = zone.utcoffset(None)
        name = getattr(zone, "key", None) or (None if distance is None else str(timezone(distance)))
    if isinstance(name, str):
        from zoneinfo import ZoneInfo  # for who asks for a zone alone

        with contextlib.suppress(ValueError, KeyError, OSError):
            return _fixed(name) or ZoneInfo(name)
    raise ParameterError(f"{owner}: 'timezone' must be a time zone, as 'Europe/Moscow' or '+03:00'. Got {zone!r:.80}.")


def zone_name(zone: tzinfo) -> str | None:
    """The name from which `zone_of` makes this zone; None for UTC.

    >>> zone_name(zone_of("read", "Europe/Moscow")), zone_name(zone_of("read", "-03:30")), zone_name(UTC)
    ('Europe/Moscow', 'UTC-03:30', None)
    """
    return None if zone is UTC else str(zone)


def _fixed(name: str) -> tzinfo | None:
    """The zone of a fixed offset from UTC; None for another name."""
    match = _OFFSET.fullmatch(name)
    if match is None:
        return None
    sign, hours, minutes = match.groups()
    if sign is None:
        return UTC
    distance = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-distance if sign == "-" else distance) if distance else UTC


def _is_day(as_of: AsOf) -> bool:
    """Whether `as_of` is a day without a time."""
    if not isinstance(as_of, str):
        return not isinstance(as_of, datetime)
    try:
        return bool(date.fromisoformat(as_of))
    except ValueError:
        return False


def _last_of(day: datetime) -> datetime:
    return datetime.combine(day.date(), time.max, UTC)


Since = str | date | datetime
"""Where a span of time begins: a day or time in UTC, or how long before its end, such as '7d', '2w' or '12h'."""
_DURATION = re.compile(r"(\d{1,5})\s*([hdw])", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 168}


def since_time(since: Since, until: Moment, owner: str = "digest") -> datetime:
    """The first instant of the span that ends with `until`: a bare day is a whole day at both ends.

    Raises
    ------
    ParameterError
        Where `since` is neither a moment nor a duration, or is later than `until`.

    Examples
    --------
    >>> end = Moment.from_as_of("2026-03-07")
    >>> since_time("7d", end).isoformat(), since_time("1w", end) == since_time("2026-03-01", end)
    ('2026-03-01T00:00:00+00:00', True)
    >>> since_time("7 Tage", end)
    Traceback (most recent call last):
    memkit.errors.ParameterError: digest: 'since' must be a date, a time, or a duration: 7d, 2w, 12h. Got '7 Tage'.
    """
    duration = _DURATION.fullmatch(since.strip()) if isinstance(since, str) else None
    try:
        if duration is None:
            if since is None:
                raise ParameterError("no moment")  # None would be now
            first = as_of_time(since)
        else:
            length = timedelta(hours=int(duration[1]) * _HOURS[duration[2].lower()])
            is_day_end = until.last_visible == _last_of(until.last_visible)
            first = until.last_visible - length + timedelta(microseconds=int(is_day_end))
    except (ParameterError, OverflowError) as error:
        expected = "a date, a time, or a duration: 7d, 2w, 12h"
        raise ParameterError(f"{owner}: 'since' must be {expected}. Got {since!r:.100}.") from error
    if first > until.last_visible:
        raise ParameterError(
            f"{owner}: 'since' must be at most 'until', {until_text(until.last_visible)}. Got {since!r:.100}."
        )
    return first


def until_text(until: datetime) -> str:
    """The last visible instant as text: only the day, where it is the end of a day.

    >>> [until_text(Moment.from_as_of(text).last_visible) for text in ("2026-03-01", "2026-03-01T12:00")]
    ['2026-03-01', '2026-03-01 12:00']
    """
    if until == _last_of(until):
        return until.date().isoformat()
    return until.replace(tzinfo=None).isoformat(" ", "seconds" if until.second or until.microsecond else "minutes")


Rev = str | date | datetime
"""A revision: a commit, branch or tag as git spells it, or a moment, the last commit up to it (to the end of a day)."""


def rev_text(rev: Rev) -> str:
    """A revision as a text.

    Raises
    ------
    ParameterError
        Where it is neither a text nor a moment.
    """
    if not isinstance(rev, (str, date)):
        raise ParameterError(f"rev: expected a text, date or datetime. Got {rev!r:.200}.")
    return rev if isinstance(rev, str) else str(Moment.from_as_of(rev))


def revision_of(table: pa.Table) -> dict[str, str]:
    """The git commit in the metadata of a table; empty where it was not read from a revision."""
    facts = {key.decode(): value.decode(errors="replace") for key, value in (table.schema.metadata or {}).items()}
    return {name: facts[name] for name in ("revision", "revision_at", "revision_path") if name in facts}


_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


def describe(table: pa.Table, **facts: Any) -> pa.Table:
    """`table` with `facts` in its schema's metadata: text as it is, a moment in ISO 8601, other values as JSON, empty
    ones left out.

    The fact ``memkit`` is the kind of result, a name in `memkit.display.views.VIEWS`; ``as_of`` its moment.

    >>> describe(pa.table({"path": ["a.md"]}), note="one file").schema.metadata
    {b'note': b'one file'}
    """
    texts = {
        name: as_of_time(fact).isoformat() if isinstance(fact, (datetime, Moment)) else fact
        for name, fact in facts.items()
        if fact
    }
    known = table.schema.metadata or {}
    return table.replace_schema_metadata(
        known | {name.encode(): text if isinstance(text, str) else _JSON.encode(text) for name, text in texts.items()}
    )


C = TypeVar("C", bound=type)

_WIDTH = 100
_SECTION = re.compile(r"^[A-Z][\w ]*\n-{3,}$", re.MULTILINE)
_Row = tuple[Param, object, bool]
"""A declaration, its value, and whether the value differs from the default."""


@dataclass_transform(kw_only_default=True)
def estimator(cls: C) -> C:
    """Make ``__init__`` and the docstring's section *Parameters* from the declared parameters.

    ``__init__`` only stores the parameters, which are keyword-only unless declared otherwise. Those of several bases
    come in the order of the bases.
    """
    dataclass(kw_only=True, eq=False, repr=False, init=False)(cls)
    own = {f.name: f for f in fields(cls) if "param" in f.metadata}
    names = {name: p for base in cls.__bases__ for name, p in getattr(base, "_declared", {}).items()}
    names |= {name: replace(field.metadata["param"], name=name) for name, field in own.items()}
    cls._positional = tuple(name for name in names if name in own and not own[name].kw_only)  # type: ignore[attr-defined]
    _declare(cls, names)
    return cls


def _declare(cls: Any, declared: Mapping[str, Param]) -> None:
    """Give a class these parameters."""
    for name, p in declared.items():
        if p.stands_for is not None or p.of is not None or p.shares:
            setattr(cls, name, _Read(p))
        elif p.default is not REQUIRED:
            setattr(cls, name, p.default)
    if "_undocumented" not in vars(cls):
        cls._undocumented, cls.__doc__ = cls.__doc__, _Documented()
    cls._declared = MappingProxyType(dict(declared))
    cls._listed = MappingProxyType(_listed(declared))
    positional_first = sorted(declared.values(), key=lambda p: p.name not in cls._positional)
    cls.__signature__ = inspect.Signature([_in_signature(cls, p) for p in positional_first])


class _Documented:
    """The docstring of a class with its parameters, made when it is asked for: those of a search take 9 ms."""

    def __get__(self, instance: object, owner: Any) -> str | None:
        return with_parameters(owner._undocumented, owner._declared.values())


def _listed(declared: Mapping[str, Param]) -> dict[str, Param]:
    """The parameters, in place of an estimator among them its own, but for those that are shared with it."""
    listed: dict[str, Param] = {}
    for outer, p in declared.items():
        inner = p.of.params() if p.of else {}
        own = {f"{outer}__{name}": one for name, one in inner.items() if not _is_shared(declared, f"{outer}__{name}")}
        listed |= {name: replace(one, name=name, group=p.group) for name, one in own.items()} if p.of else {outer: p}
    return listed


def _is_shared(declared: Mapping[str, Param], name: str) -> bool:
    """Whether a name of `Estimator.get_params` names what another one does: ``index__encoder``."""
    outer, _, key = name.partition("__")
    return key in declared and declared[key].shares == outer


def _in_signature(cls: Any, declared: Param) -> inspect.Parameter:
    kind = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD if declared.name in cls._positional else inspect.Parameter.KEYWORD_ONLY
    )
    default = inspect.Parameter.empty if declared.default is REQUIRED else declared.default
    known = cls.__dataclass_fields__.get(declared.name)
    annotation = known.type if known else inspect.Parameter.empty
    return inspect.Parameter(declared.name, kind, default=default, annotation=annotation)


def adopt(cls: Any, declared: Iterable[Param]) -> None:
    """Give a class and all that are made from it some parameters more, as if it had declared them last."""
    added = {p.name: p for p in declared}
    _declare(cls, {**cls._declared, **added})
    for one in cls.__subclasses__():
        adopt(one, added.values())


def disown(cls: Any, names: Iterable[str]) -> None:
    """Take what `adopt` gave away again."""
    gone = set(names)
    _declare(cls, {name: p for name, p in cls._declared.items() if name not in gone})
    for name in gone & set(vars(cls)):
        delattr(cls, name)
    for one in cls.__subclasses__():
        disown(one, gone)


class _Read:
    """A parameter that is read otherwise than it is stored.

    Where one value stands for None, that is read, while signatures and `Estimator.get_params` have None. Of an
    estimator that was not given, one is made when it is first read, to be changed. What an estimator among the
    parameters has too is the value given here, else the one there.
    """

    def __init__(self, declared: Param) -> None:
        self.declared = declared

    def __get__(self, owner: object, cls: type) -> Any:
        p = self.declared
        if owner is None:
            return p.default if p.stands_for is None else p.stands_for
        value = vars(owner).get(p.name)
        if p.of is not None and value is None:
            value = vars(owner)[p.name] = p.of()
        part = vars(owner).get(p.shares)
        if isinstance(part, Estimator) and _equal(value, p.default):
            return getattr(part, p.name)
        return p.stands_for if value is None else value

    def __set__(self, owner: object, value: object) -> None:
        vars(owner)[self.declared.name] = value


def _equal(value: Any, other: Any) -> bool:
    return value is other or (type(value) is type(other) and bool(value == other))


class Estimator:
    """The part of scikit-learn's contract that needs only declared parameters: get, set, clone, tag and show them."""

    learns: ClassVar[bool] = True  # whether other methods need what `fit` learns

    _declared: ClassVar[Mapping[str, Param]] = MappingProxyType({})
    _listed: ClassVar[Mapping[str, Param]] = MappingProxyType({})
    _positional: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *positional: Any, **named: Any) -> Self:
        """Refuse an undeclared name before Python does, as Python would not suggest the right name."""
        for name in named:
            cls._check_name(name, cls._declared if name in cls._declared else cls.all_params())
        made = super().__new__(cls)
        made._give(named)
        return made

    def __init__(self, *positional: Any, **named: Any) -> None:
        if len(positional) > len(self._positional):
            raise TypeError(
                f"{type(self).__name__}: expected its parameters by name ({next(iter(self._declared))}=…). Got"
                f" {type(positional[-1]).__name__} without a name; data goes to its methods."
            )
        if positional or any(p.default is REQUIRED for p in self._declared.values()):
            named = inspect.signature(type(self)).bind(*positional, **named).arguments
        vars(self).update({name: named.get(name, p.default) for name, p in self._declared.items()})
        self.set_params(**{name: value for name, value in named.items() if name not in self._declared})

    @classmethod
    def params(cls) -> Mapping[str, Param]:
        """The declared parameters by name, in order."""
        return cls._declared

    @classmethod
    def all_params(cls) -> Mapping[str, Param]:
        """The declared parameters, in place of an estimator among them its own: ``index__chunk_tokens``.

        These are the names of grids, profiles and the command line; `value_of` reads what they name.
        """
        return cls._listed

    @classmethod
    def describe_params(cls) -> pa.Table:
        """The declared parameters as a table: name, group, default, expected, refit, doc, source."""
        rows = [
            {
                "name": p.name,
                "group": p.group or None,
                "default": p.default_text,
                "expected": p.expected,
                "refit": p.refit,
                "doc": p.doc,
                "source": p.source,
            }
            for p in by_group(cls.params().values())
        ]
        return describe(pa.Table.from_pylist(rows), memkit="params")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also those of estimators among them, for example ``retriever__pool``."""
        values = {name: self._stored(name) for name in self._declared}
        if deep:
            for name, inner in self._inner().items():
                own = {f"{name}__{key}": value for key, value in inner.get_params().items()}
                values |= {key: value for key, value in own.items() if not _is_shared(self._declared, key)}
        return values

    def set_params(self, **values: Any) -> Self:
        """Set parameters by their names in `get_params` and return the estimator.

        Raises
        ------
        ParameterError
            For a name that is not declared, or two values of one parameter.
        """
        for name in sorted(values, key=lambda name: "__" in name):  # an estimator is there before what is set of it
            outer, _, key = name.partition("__")
            if key and outer in (inner := self._inner()):
                part = inner[outer]
                if outer in self._declared and self._declared[outer].of:
                    part = copy.copy(part)  # a copy of this estimator has it too, and keeps its values
                    setattr(self, outer, part)
                part.set_params(**{key: values[name]})
            else:
                self._check_name(name, self._declared if name in self._declared else self.get_params())
                setattr(self, name, values[name])
        self._give(values)
        self._check_shared()
        return self

    def value_of(self, name: str) -> Any:
        """The value of a parameter by its name in `all_params`.

        Examples
        --------
        >>> import memkit as mk
        >>> mk.Retriever(index=mk.Index(chunk_tokens=400)).value_of("index__chunk_tokens")
        400
        """
        outer, _, key = name.partition("__")
        return getattr(self._inner()[outer], key) if key else self._read(name)

    def with_params(self, **values: Any) -> Self:
        """A copy with other parameters that shares everything fitted, at no cost.

        Raises
        ------
        ParameterError
            For a name that is not declared, a value that is not allowed, or a parameter that acts at fit.
        """
        for name in values:
            self._check_name(name, self._declared if name in self._declared else self.all_params())
            if self._declared[name.partition("__")[0]].refit:
                raise ParameterError(
                    f"{type(self).__name__}.with_params: expected parameters that need no fit. Got '{name}', which acts"
                    " at fit: use set_params and fit."
                )
        other = copy.copy(self).set_params(**values)
        other.check_params()
        return other

    def reach(self, name: str, subject: Any) -> Reach | None:
        """What the value of a parameter acts on in `subject`; None where its declaration does not say."""
        acts_on = self._declared[name].acts_on
        return None if acts_on is None else acts_on(self, subject)

    def _give(self, names: Collection[str]) -> None:
        """Note which parameters somebody has named: `idle` looks at them even where they have their defaults.

        Nobody types most of the parameters at once: a preset has them all, and so have a copy and a panel.
        """
        if names and 2 * len(names) <= len(self._declared):
            vars(self)["_given"] = vars(self).get("_given", frozenset()).union(names)

    def idle(self, subject: Any, names: Iterable[str] | None = None) -> dict[str, str]:
        """By parameter a sentence on each whose value acts on nothing in `subject`.

        Parameters
        ----------
        subject : object
            What the declarations' `acts_on` take: the index or table that the parameters are used on.
        names : iterable of str, optional
            The parameters to look at; None: those that somebody gave, by their names or as their value is not the
            default.
        """
        if names is None:
            names = [name for name, p in self._declared.items() if p.acts_on and self._is_given(name, p)]
        if not names:
            return {}
        once = functools.cache(lambda acts_on: acts_on(self, subject))  # one function serves each parameter of decay
        reaches = {name: once(p.acts_on) for name in names if (p := self._declared[name]).acts_on}
        return {name: str(found) for name, found in reaches.items() if found and found.of and not found.count}

    def check_params(self, **overrides: Any) -> dict[str, Any]:
        """All parameters, checked, with `overrides` applied; None is replaced by the value that it stands for."""
        self._check_shared()
        values = {name: self._read(name) for name in self._declared} | overrides
        for name, declared in self._declared.items():
            usual = declared.default if declared.stands_for is None else declared.stands_for
            if values[name] is None and declared.stands_for is not None:
                values[name] = usual
            elif values[name] is not usual:  # most are the usual one; every search calls this
                declared.check(values[name], type(self).__name__)
        return values

    def _inner(self) -> dict[str, Any]:
        """The estimators among the parameters, by name."""
        values = {name: self._stored(name) for name, p in self._declared.items() if p.kind == "object"}
        made = {name: p.of() for name, p in self._declared.items() if p.of and values[name] is None}
        return {n: v for n, v in (values | made).items() if hasattr(v, "get_params") and not isinstance(v, type)}

    @classmethod
    def _check_name(cls, name: str, names: Iterable[str]) -> None:
        if name not in names and not _is_shared(cls._declared, name):
            expected = f"Expected one of {', '.join(names)}.{hint_of(name, names)}"
            raise ParameterError(f"{cls.__name__}: no parameter '{name}'. {expected}")

    def _check_shared(self) -> None:
        """Raise where a parameter that an estimator among the parameters has too was given there and here."""
        for name, p in self._declared.items():
            part = vars(self).get(p.shares) if p.shares else None
            if isinstance(part, Estimator):
                here, there = self._stored(name), part._stored(name)
                are_given = self._is_given(name, p) and part._is_given(name, part._declared[name])
                if are_given and not _equal(here, there):
                    raise ParameterError(
                        f"{type(self).__name__}: expected one '{name}'. Got {here!r:.80}, and {there!r:.80} in its"
                        f" {p.shares}."
                    )

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` was called, or there is nothing to learn."""
        return not self.learns or any(name.endswith("_") and not name.startswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]) if hasattr(self, "transform") else None,
            requires_fit=self.learns,
            input_tags=InputTags(string=True, allow_nan=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __repr__(self) -> str:
        changed = (f"{n}={self._stored(n)!r}" for n, p in self._declared.items() if not self._is_default(n, p))
        return f"{type(self).__name__}({', '.join(changed)})"

    def _is_given(self, name: str, declared: Param) -> bool:
        is_other = not self._is_default(name, declared) and self._read(name) != declared.stands_for
        return is_other or name in self.__dict__.get("_given", ())

    def _is_default(self, name: str, declared: Param) -> bool:
        return _equal(self._stored(name), declared.default)

    def _stored(self, name: str) -> Any:
        """The value as it was given: of a parameter that was declared since, its default."""
        return vars(self).get(name, self._declared[name].default)

    def _read(self, name: str) -> Any:
        """The value as it is used; an estimator that was not given is None, as reading the attribute would make it."""
        return self._stored(name) if self._declared[name].of else getattr(self, name)

    def _state(self) -> str:
        """A few words on what is fitted, for the display in a notebook."""
        return ""

    def _repr_html_(self) -> str:
        """The parameters as an HTML table, with changed ones marked, and what is fitted."""
        rows = [(p, self._read(n), not self._is_default(n, p)) for n, p in self._declared.items()]
        return html_table(repr(self), self._state(), rows)


def with_parameters(doc: str | None, declared: Iterable[Param]) -> str | None:
    """A docstring with a numpydoc *Parameters* section of the declarations before its other sections."""
    ordered = by_group(declared)
    section = listed(ordered)
    if doc is None or not section:
        return doc
    groups = {p.group: ", ".join(f"`{one.name}`" for one in ordered if one.group == p.group) for p in ordered}
    text = inspect.cleandoc(doc)
    first = _SECTION.search(text)
    head, rest = (text[: first.start()].rstrip(), text[first.start() :]) if first else (text, "")
    if any(groups):
        lines = (
            textwrap.fill(f"- {group}: {names}", _WIDTH, subsequent_indent="  ") for group, names in groups.items()
        )
        head += "\n\nParameters by what they act on:\n\n" + "\n".join(lines)
    return f"{head}\n\nParameters\n----------\n{section}" + (f"\n\n{rest}" if rest else "")


def listed(declared: Iterable[Param]) -> str:
    """The declarations as entries of a numpydoc section."""
    return "\n".join(map(_entry, declared))


def by_group(declared: Iterable[Param]) -> list[Param]:
    """The declarations sorted by group: 'first' before the others, which keep their order."""
    listed = list(declared)
    groups = list(dict.fromkeys(["first", *(p.group for p in listed)]))
    return sorted(listed, key=lambda p: groups.index(p.group))


def _entry(declared: Param) -> str:
    unit = f", {declared.unit}" if declared.unit else ""
    nullable = " or None" if declared.nullable and declared.default is not None else ""
    default = f", default {declared.default_text}" if declared.default_text else ""
    head = f"{declared.name} : {declared.type}{unit}{nullable}{default}"
    words = [declared.doc]
    if declared.refit:
        words.append("Acts at fit.")
    if declared.source:
        words.append(f"Source: {declared.source}.")
    return "\n".join([head, *textwrap.wrap(" ".join(words), _WIDTH, initial_indent="    ", subsequent_indent="    ")])


def html_table(title: str, state: str, rows: Iterable[_Row]) -> str:
    """HTML of a title line that opens to a table of the parameters; all text is escaped."""
    body = "".join(map(_html_row, rows))
    head = "<tr><th>parameter</th><th>value</th><th>expected</th><th>meaning</th></tr>"
    state = f" <small>{html.escape(state)}</small>" if state else ""
    return f"<details><summary><code>{html.escape(title)}</code>{state}</summary><table>{head}{body}</table></details>"


def _html_row(row: _Row) -> str:
    declared, value, changed = row
    text = html.escape(textwrap.shorten(repr(value), _WIDTH, placeholder=" …"))
    name, expected, doc = map(html.escape, (declared.name, declared.expected, declared.doc))
    cell = f"<b>{text}</b>" if changed else text
    return f"<tr><td>{name}</td><td>{cell}</td><td>{expected}</td><td>{doc}</td></tr>"
