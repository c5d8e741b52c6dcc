"""`Param`: the declaration of a parameter as data, and the check of a value against it; and the moment `as_of`."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from memkit.errors import ParameterError, did_you_mean

REQUIRED: Any = MISSING
"""Marks a parameter without a default: it must be given when the estimator is made."""
Zone = str | tzinfo | None
"""A time zone as a user gives it: a name, an offset from UTC, or a `tzinfo`; None is UTC."""
_OFFSET = re.compile(r"UTC|(?:UTC)?([+-])([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True)
class Moment:
    """The moment `as_of` of a query, and the last moment up to which created memories are visible.

    If `as_of` is a day, ages are counted to its first instant, but memories created during the day are visible.

    Attributes
    ----------
    at : datetime
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

    at: datetime
    until: datetime | None

    @classmethod
    def from_as_of(cls, as_of: AsOf) -> Self:
        """The moment that `as_of` names; raises ParameterError as `as_of_time`."""
        if isinstance(as_of, cls):
            return as_of
        at = as_of_time(as_of)
        return cls(at, None if as_of is None else _last_of(at) if _is_day(as_of) else at)

    @classmethod
    def from_cell(cls, value: AsOf) -> Self:
        """`from_as_of` for a value from a column of time stamps, where midnight stands for the whole day."""
        at = as_of_time(value)
        is_midnight = isinstance(value, datetime) and at.time() == time()
        return cls.from_as_of(at.date() if is_midnight else value)

    @property
    def seen(self) -> datetime:
        """The last visible instant, whether or not the moment was given."""
        return self.at if self.until is None else self.until

    def unseen(self, future: str | None) -> datetime | None:
        """The moment after which created memories are hidden, by the parameter `future`; None hides nothing."""
        return {"keep": None, "hide": self.seen}.get(future or "", self.until)

    def __str__(self) -> str:
        is_day = self.until is not None and self.until != self.at
        return self.at.date().isoformat() if is_day else self.at.isoformat()


AsOf = str | date | datetime | Moment | None
"""The moment that a result is computed for: a day or a time in UTC, kept with the result; None is now."""

_CLASSES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "words": (tuple, list),
    "weights": (Mapping,),
    "callable": (Callable,),  # type: ignore[dict-item]  # of collections.abc, which isinstance takes
    "object": (object,),
}


@dataclass(frozen=True)
class Param:
    """The declaration of one parameter, as data.

    Attributes
    ----------
    kind : str
        'bool', 'int', 'float', 'str', 'words' (a sequence of strings), 'weights' (a mapping of words to numbers),
        'callable' or 'object' (checked by the code that uses it).
    low, high : float or None
        Bounds, inclusive unless `low_open` or `high_open`.
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

    @property
    def expected(self) -> str:
        """The constraint in words, as messages show it."""
        article = "" if self.choices else "an " if self.type[0] in "io" else "a "
        return article + self.type + (f", {self.unit}" if self.unit else "") + (" or None" if self.nullable else "")

    @property
    def type(self) -> str:
        """Kind and bounds, without unit."""
        if self.choices:
            words = ("words among " if self.kind == "words" else "one of ") + ", ".join(map(repr, self.choices))
        else:
            words = {"words": "sequence of strings", "weights": "mapping of words to floats"}.get(self.kind, self.kind)
            words += " or '*'" if self.star else ""
        if self.low is None and self.high is None:
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
            return True
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
            return all(isinstance(word, str) and (not self.choices or word in self.choices) for word in value)
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
            raise ParameterError(f"{owner}: '{self.name}' must be {self.expected}. Got {value!r}.{hint}")


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


@functools.lru_cache(maxsize=256)
def _declared(name: str, kind: str, **declared: Any) -> Param:
    return Param(default=None, kind=kind, doc="", name=name, **declared)


def check_choice(name: str, value: object, choices: Iterable[str], owner: str) -> None:
    """`check_value` for a word that must be one of `choices`.

    Raises
    ------
    ParameterError
        Where `value` is not among `choices`.
    """
    check_value(owner, name, value, "str", choices=tuple(choices))


def check_column(name: str, columns: Iterable[object], owner: str) -> None:
    """Raise where `columns` does not contain `name`.

    >>> check_column("text", ["id", "txt"], "from_table")
    Traceback (most recent call last):
    memkit.errors.ParameterError: from_table: expected a column 'text'. Got id, txt. Did you mean 'txt'?
    """
    names = list(map(str, columns))
    if name not in names:
        got = ", ".join(names) or "none"
        raise ParameterError(f"{owner}: expected a column {name!r}. Got {got:.300}.{did_you_mean(name, names)}")


def check_corpus(owner: str, corpus: object) -> None:
    """Raise where `corpus` is not a corpus; the message says how to make one."""
    if not isinstance(getattr(corpus, "tables", None), dict):
        raise ParameterError(
            f"{owner}: expected a Corpus. Got {type(corpus).__name__}; mk.from_table makes one from a table with a"
            " column 'text', mk.read from a folder."
        )


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


def as_of_time(as_of: AsOf) -> datetime:
    """The moment that `as_of` names, in UTC; None is now, the one place where memkit reads the clock.

    Raises
    ------
    ParameterError
        Where `as_of` is not a date or time stamp.

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
        return as_of.at
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
        raise ParameterError(f"'as_of' must be a date, a datetime or an ISO 8601 string. Got {as_of!r}.") from error


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


def said_until(until: datetime) -> str:
    """The last visible instant as text: only the day, where it is the end of a day.

    >>> said_until(Moment.from_as_of("2026-03-01").seen), said_until(Moment.from_as_of("2026-03-01T12:00").seen)
    ('2026-03-01', '2026-03-01 12:00')
    """
    if until == _last_of(until):
        return until.date().isoformat()
    return until.replace(tzinfo=None).isoformat(" ", "seconds" if until.second or until.microsecond else "minutes")


def record_as_of(table: pa.Table, moment: datetime | Moment) -> pa.Table:
    """`table` with the moment kept in its schema metadata under ``as_of`` (ISO 8601, UTC)."""
    at = as_of_time(moment).isoformat()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"as_of": at.encode()})


Rev = str | date | datetime
"""A revision: a commit, branch or tag as git spells it, or a moment, which means the last commit up to it."""


def rev_text(rev: Rev) -> str:
    """A revision as a text.

    Raises
    ------
    ParameterError
        Where it is neither a text nor a moment.
    """
    if not isinstance(rev, (str, date)):
        raise ParameterError(f"rev: expected a text, date or datetime. Got {rev!r:.200}.")
    return rev if isinstance(rev, str) else as_of_time(rev).isoformat()


def revision_of(table: pa.Table) -> dict[str, str]:
    """The git commit in the metadata of a table; empty where it was not read from a revision."""
    facts = {key.decode(): value.decode(errors="replace") for key, value in (table.schema.metadata or {}).items()}
    return {name: facts[name] for name in ("revision", "revision_at", "revision_path") if name in facts}


_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


def describe(table: pa.Table, **facts: Any) -> pa.Table:
    """`table` with `facts` in its schema's metadata: text as it is, other values as JSON, empty ones left out.

    The fact ``memkit`` is the kind of result, a name in `memkit.display.views.VIEWS`.
    """
    texts = {name: value if isinstance(value, str) else _JSON.encode(value) for name, value in facts.items() if value}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **texts})
