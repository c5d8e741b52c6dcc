"""One declaration of a parameter gives its validation, message, slider, command-line option and docs row.

>>> @estimator
... class Example(Estimator):
...     decay_days: float = param(60.0, low=0, low_open=True, unit="days", doc="Age at which 1/e is left.")
>>> Example().get_params()
{'decay_days': 60.0}
>>> Example(decay_days=-1).check_params()
Traceback (most recent call last):
memkit.errors.ParameterError: Example: 'decay_days' must be a float in (0, inf), days. Got -1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, time
from typing import Any, Self, TypeVar, dataclass_transform

import pyarrow as pa

from memkit.errors import ParameterError

_CLASSES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "words": (tuple, list),
    "object": (object,),
}


@dataclass(frozen=True)
class Param:
    """What a parameter may be, as data.

    Attributes
    ----------
    kind : str
        'bool', 'int', 'float', 'str', 'words' (a sequence of strings) or 'object' (checked by its user).
    low, high : float or None
        Bounds, inclusive unless `low_open` or `high_open`.
    choices : tuple of str
        The words allowed; empty for any.
    refit : bool
        True where a change needs a new ``fit``; else it acts at query time.
    source : str
        The document that the default comes from.
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

    @property
    def expected(self) -> str:
        """The constraint in words, as messages and docs show it."""
        if self.choices:
            words = "one of " + ", ".join(map(repr, self.choices))
        elif self.kind == "words":
            words = "a sequence of strings"
        else:
            words = f"an {self.kind}" if self.kind[0] in "io" else f"a {self.kind}"
        if self.low is not None or self.high is not None:
            left = "(" if self.low_open or self.low is None else "["
            right = ")" if self.high_open or self.high is None else "]"
            low = "-inf" if self.low is None else f"{self.low:g}"
            high = "inf" if self.high is None else f"{self.high:g}"
            words += f" in {left}{low}, {high}{right}"
        return words + (f", {self.unit}" if self.unit else "") + (" or None" if self.nullable else "")

    def accepts(self, value: object) -> bool:
        """Whether `value` follows the declaration."""
        if value is None:
            return self.nullable or self.kind == "object"
        if self.kind == "object":
            return True
        if isinstance(value, bool) and self.kind != "bool":
            return False
        if hasattr(value, "item") and not isinstance(value, (list, tuple)):
            value = value.item()  # a NumPy scalar, as a grid of settings holds them
        if not isinstance(value, _CLASSES[self.kind]):
            return False
        if isinstance(value, (tuple, list)):
            return all(isinstance(word, str) and (not self.choices or word in self.choices) for word in value)
        if self.choices:
            return value in self.choices
        return not isinstance(value, (int, float)) or self._within(value)

    def parse(self, text: str) -> Any:
        """The value that `text` spells, as the command line takes it; what it cannot be stays a string for `check`.

        Examples
        --------
        >>> Param(default=0.5, kind="float", doc="").parse("0.7"), Param(default=(), kind="words", doc="").parse("a,b")
        (0.7, ('a', 'b'))
        """
        if text.lower() == "none" and (self.nullable or self.kind == "object"):
            return None
        if self.kind == "words":
            return tuple(word.strip() for word in text.split(",") if word.strip())
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

    def check(self, value: object, owner: str) -> None:
        """Raise where `value` is refused.

        Raises
        ------
        ParameterError
            Naming the owner, the parameter, what was expected and what came.
        """
        if not self.accepts(value):
            raise ParameterError(f"{owner}: '{self.name}' must be {self.expected}. Got {value!r}.")


def param(default: Any, *, doc: str, kind: str | None = None, kw_only: bool = True, **declared: Any) -> Any:
    """Declare one parameter of an `Estimator`; `kind` is the default's own unless given."""
    if kind is None:
        kind = "words" if isinstance(default, tuple) else type(default).__name__
    declaration = Param(default=default, kind=kind, doc=doc, **declared)
    return field(default=default, kw_only=kw_only, metadata={"param": declaration})


C = TypeVar("C", bound=type)


@dataclass_transform(kw_only_default=True)
def estimator(cls: C) -> C:
    """Make ``__init__`` from the declared parameters, keyword-only unless declared otherwise; it only stores them."""
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    return cls


class Estimator:
    """The part of scikit-learn's contract that rests on declared parameters: get, set and clone them."""

    @classmethod
    def params(cls) -> dict[str, Param]:
        """The declarations by name, in order."""
        declared = {f.name: f.metadata["param"] for f in fields(cls) if "param" in f.metadata}  # type: ignore[arg-type]  # subclasses are dataclasses
        return {name: replace(p, name=name) for name, p in declared.items()}

    @classmethod
    def describe_params(cls) -> pa.Table:
        """The declarations as a table: name, default, expected, refit, doc, source."""
        rows = [
            {
                "name": p.name,
                "default": repr(p.default),
                "expected": p.expected,
                "refit": p.refit,
                "doc": p.doc,
                "source": p.source,
            }
            for p in cls.params().values()
        ]
        return pa.Table.from_pylist(rows)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep` changes nothing, since none of them is an estimator."""
        return {name: getattr(self, name) for name in self.params()}

    def set_params(self, **values: Any) -> Self:
        """Set parameters by name and return the estimator.

        Raises
        ------
        ParameterError
            For a name that is not declared.
        """
        known = self.params()
        for name, value in values.items():
            if name not in known:
                raise ParameterError(
                    f"{type(self).__name__}: no parameter '{name}'. Expected one of {', '.join(known)}."
                )
            setattr(self, name, value)
        return self

    def check_params(self, **overrides: Any) -> dict[str, Any]:
        """The parameters with `overrides` in their place, each checked against its declaration."""
        values = {**self.get_params(), **overrides}
        for name, declared in self.params().items():
            declared.check(values[name], type(self).__name__)
        return values

    def __repr__(self) -> str:
        changed = (
            f"{n}={getattr(self, n)!r}" for n, p in self.params().items() if not _same(getattr(self, n), p.default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def _same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and value == default)


AsOf = str | date | datetime | None


def as_of_time(as_of: AsOf) -> datetime:
    """The moment that `as_of` names, in UTC; None is now, the one place where memkit reads the clock.

    Raises
    ------
    ParameterError
        Where `as_of` is no date or time stamp.

    Examples
    --------
    >>> as_of_time("2026-03-01")
    datetime.datetime(2026, 3, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> as_of_time("2026-03-01T12:00:00+03:00").hour
    9
    """
    if as_of is None:
        return datetime.now(UTC)
    try:
        if as_of != as_of:  # NaT is a datetime, and no moment
            raise ValueError("not a time")
        moment = datetime.fromisoformat(as_of) if isinstance(as_of, str) else as_of
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, time())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, OverflowError) as error:
        raise ParameterError(f"'as_of' must be a date, a datetime or an ISO 8601 string. Got {as_of!r}.") from error


def record_as_of(table: pa.Table, moment: datetime) -> pa.Table:
    """`table` with the moment kept in its schema metadata under ``as_of`` (ISO 8601, UTC)."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"as_of": moment.isoformat().encode()})


def check_choice(name: str, value: object, choices: Iterable[str], owner: str) -> None:
    """One message shape for a function's word argument.

    Raises
    ------
    ParameterError
        Where `value` is none of `choices`.
    """
    Param(default=None, kind="str", doc="", name=name, choices=tuple(choices)).check(value, owner)
