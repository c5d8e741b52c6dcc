"""Typed fields: one declaration gives a field's reading, its problem rows and its rows of `mk.rules`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memkit.base.checked import LONE_SURROGATE
from memkit.errors import FormatError
from memkit.formats.rows import Row, Rows, Rule, length, one_of
from memkit.formats.spelling import (
    bool_of,
    day_of,
    end_of_day,
    epoch_of,
    integer_of,
    iso_time_of,
    loose_words,
    number_of,
    text_of,
    words_of,
)
from memkit.formats.syntax.nodes import Node

Problem = Callable[[str, str, str, object], None]
"""Called with the rule's code, the field, what was expected and what was found."""


@dataclass(frozen=True)
class Type:
    """The type of a field.

    Attributes
    ----------
    read : callable
        ``read(raw)`` returns the value, or None for a value of another type.
    expected, code : str
        What is expected, in words, and the code of the rule.
    loose : callable or None
        ``loose(raw)`` returns what can be used of a value of another type; it is reported as a problem anyway.
    absent : tuple
        The raw values that count as missing where the field is required.
    strict : callable or None
        ``strict(raw)`` tests the raw type in files that distinguish numbers from strings.
    """

    read: Callable[[object], Any]
    expected: str
    code: str = "bad_value"
    loose: Callable[[object], Any] | None = None
    strict: Callable[[object], bool] | None = None
    absent: tuple[object, ...] = (None,)


def _nodes(value: object) -> list[Node]:
    return [item for item in value if isinstance(item, Node)] if isinstance(value, list) else []


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return not isinstance(value, list) or all(map(_is_text, value))


def _is_no_text(value: object) -> bool:
    return not isinstance(value, str)


TEXT = Type(text_of, "a string", strict=_is_text)
ANY = Type(lambda value: value, "")
TAG = Type(text_of, "", absent=(None, ""))
"""Text in a file without types, where every value is valid."""
WORDS = Type(words_of, "a list of strings", loose=loose_words, strict=_are_texts)
DAY = Type(day_of, "a date YYYY-MM-DD", "bad_date")
LAST_DAY = Type(end_of_day, DAY.expected, DAY.code)
"""A day on which something is still valid, as its last instant."""
TIME = Type(iso_time_of, "an ISO 8601 time stamp", "bad_date", loose=epoch_of)
WHOLE = Type(integer_of, "a whole number", strict=_is_no_text)
NUMBER = Type(number_of, "a number", strict=_is_no_text)
TRUTH = Type(bool_of, "true or false", strict=lambda value: isinstance(value, bool))
OBJECT = Type(lambda value: value if isinstance(value, Node) else None, "an object")
OBJECTS = Type(
    lambda value: value if isinstance(value, list) and len(_nodes(value)) == len(value) else None,
    "a list of objects",
    loose=_nodes,
)


def check_text(value: Any, field: str = "") -> None:
    """Raise where a text, also within lists and objects, cannot be written as UTF-8, or holds NUL.

    Raises
    ------
    FormatError
    """
    if isinstance(value, str) and LONE_SURROGATE.search(value):
        raise FormatError(f"field '{field}' must be Unicode without lone surrogates. Got {value!r:.80}.", field=field)
    if isinstance(value, str) and "\0" in value:
        raise FormatError(f"field '{field}' must be a text without NUL. Got {value!r:.80}.", field=field)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise FormatError(f"a field's name must be a text. Got {key!r:.80}.", field=field)
            check_text(key, key)
            check_text(item, str(key))
    elif isinstance(value, list):
        for item in value:
            check_text(item, field)


def words_given(words: object) -> object:
    """`words` as a list if it is an iterable of words; a single text or a mapping is returned as it is."""
    return list(words) if isinstance(words, Iterable) and not isinstance(words, (str, bytes, Mapping)) else words


Test = tuple[str, str, Callable[[object], bool]]
"""A check beyond the type: the rule's code, what is expected, and the test that a value must pass."""


def words_test(*words: str) -> Test:
    """The check that a value is one of `words`."""
    return "bad_value", f"one of {', '.join(words)}", one_of(*words)


FILLED: Test = ("bad_value", "a string that is not empty", length(1))


@dataclass(frozen=True)
class Field:
    """One field; `expected` replaces the words of its type in messages.

    A value that fails one of `tests` is wrong. A value that fails `usual` is reported when it is read, but may be
    written.
    """

    name: str
    type: Type = TEXT
    expected: str = ""
    required: bool = False
    tests: tuple[Test, ...] = ()
    usual: Test | None = None

    @property
    def wanted(self) -> str:
        """What is expected, in the words of a problem's message."""
        return self.expected or self.type.expected


class Fields:
    """The fields of one kind of object.

    Parameters
    ----------
    format : str
        The format whose rules they are.
    holder : str
        The object with these fields, in the words of a rule.
    *fields : Field
    missing : str
        The code of the rule for a missing required field.
    """

    def __init__(self, format: str, holder: str, *fields: Field, missing: str = "missing_field") -> None:
        self.format, self.holder, self.fields, self.missing = format, holder, fields, missing
        self.names = frozenset(field.name for field in fields)

    def rules(self) -> tuple[Rule, ...]:
        """Every check that `read` makes."""
        return tuple(dict.fromkeys(self._rules()))

    def _rules(self) -> Iterator[Rule]:
        for field in self.fields:
            if field.required:
                yield Rule(self.missing, self.format, field.name, f"{self.holder} with this field")
            tests = (*field.tests, *filter(None, (field.usual,)))
            declared = {(code, expected) for code, expected, _ in tests}
            if field.wanted and (field.type.code, field.wanted) not in declared:
                yield Rule(field.type.code, self.format, field.name, field.wanted)
            for code, expected, test in tests:
                yield Rule(code, self.format, field.name, expected, test)

    def only(self, *names: str) -> Fields:
        """A copy with these fields only."""
        chosen = (field for field in self.fields if field.name in names)
        return Fields(self.format, self.holder, *chosen, missing=self.missing)

    def ordered(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """`fields` in the order of the declaration, followed by undeclared ones."""
        return {
            name: fields[name]
            for name in dict.fromkeys((*(field.name for field in self.fields), *fields))
            if name in fields
        }

    def strict(self, fields: Mapping[str, Any]) -> None:
        """Raise at the first field that `read` would report, or whose raw type is wrong.

        Raises
        ------
        FormatError
            The message names the field, what was expected, and what was found.
        """
        for field in self.fields:
            name, raw = field.name, fields.get(field.name)
            is_required = field.required and self.missing == "missing_field"
            if is_required and raw in field.type.absent:
                raise FormatError(f"field '{name}' must be there. Got nothing.", field=name)
            if raw is None:
                continue
            value = field.type.read(raw)
            has_type = value is not None and (field.type.strict is None or field.type.strict(raw))
            tests = [expected for _, expected, test in field.tests if has_type and not test(value)]
            if not has_type or tests:
                wanted = tests[0] if tests else field.wanted
                raise FormatError(f"field '{name}' must be {wanted}. Got {raw!r:.80}.", field=name)

    def read(
        self,
        fields: Mapping[str, Any],
        rows: Rows,
        problem: Problem,
        may_lack: Container[str] = (),
        *,
        is_typed: bool = False,
    ) -> tuple[Row, set[str]]:
        """The values by field (None where missing), and the names of fields that the values represent completely.

        Fields in `may_lack` may be missing or blank. `is_typed` says that the file distinguishes numbers from strings.
        """
        values: Row = {}
        taken = set()
        for field in self.fields:
            name, raw = field.name, fields.get(field.name)
            value = None if raw is None else field.type.read(raw)
            if value is not None or raw is None:
                taken.add(name)
            else:
                problem(field.type.code, name, field.wanted, raw)
                value = field.type.loose(raw) if field.type.loose else None
            has_type = not is_typed or value is None or field.type.strict is None or field.type.strict(raw)
            if not has_type:
                problem(field.type.code, name, field.wanted, raw)
            if field.required and raw in field.type.absent and name not in may_lack:
                problem(self.missing, name, "", "nothing")
            if raw == "" and name in may_lack:
                values[name] = value
                continue
            for rule in rows.failing(name, value):
                if not has_type and (rule.code, rule.expected) == (field.type.code, field.wanted):
                    continue  # said already
                problem(rule.code, name, rule.expected, value if isinstance(value, (int, float)) else raw)
            values[name] = value
        return values, taken
