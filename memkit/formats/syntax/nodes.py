"""JSON and YAML as plain objects that know their lines: strings, numbers, lists and `Node`s, nothing else is made of a
text; YAML is read by `yaml_nodes`.

A repeated key and a deep nest cannot blow up: the first is kept under ``Node.repeated``, the second is a
`StructureError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from memkit.base.checked import without_surrogates

# A round number far below Python's limit of recursion.
MAX_DEPTH = 100
"""Nesting that no memory needs; deeper input is refused before it can exhaust the stack, however deep the caller is."""


class StructureError(ValueError):
    """The text is no JSON or YAML; `line` is 1-based."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


REPEATED = " (repeated)"
"""What stands behind a key for the list of its later values."""
_NOTHING: Any = MappingProxyType({})
"""The line numbers and repeated keys of an object that has none; shared, as most objects have none."""


class Node(dict[str, Any]):
    """An object with the lines it begins and ends on, the line of each key, and what repeated keys held."""

    __slots__ = ("end_line", "line", "lines", "repeated", "repeated_lines")
    lines: dict[str, int]
    repeated: dict[str, list[Any]]
    repeated_lines: dict[str, int]

    def __init__(self, **values: Any) -> None:
        super().__init__(values)
        self.line = self.end_line = 1
        self.lines = self.repeated = self.repeated_lines = _NOTHING

    def renamed(self, names: Mapping[str, str]) -> Node:
        """A copy with some keys renamed, and those left out whose new name is empty; line numbers stay."""
        copy = Node()
        copy.line, copy.end_line = self.line, self.end_line
        copy.repeated, copy.repeated_lines = self.repeated, self.repeated_lines
        for key, value in self.items():
            if name := names.get(key, key):
                copy.put(name, value, self.lines.get(key))
        return copy

    def put(self, key: str, value: Any, line: int | None = None) -> None:
        """Set a key; the values of a repeated key go to `repeated`, and under ``key (repeated)``."""
        if key in self:
            self._put_again(key, value, line)
            return
        self[key] = value
        if line is not None:
            if self.lines is _NOTHING:
                self.lines = {}
            self.lines[key] = line

    def _put_again(self, key: str, value: Any, line: int | None) -> None:
        if self.repeated is _NOTHING:
            self.repeated, self.repeated_lines = {}, {}
        later = self.repeated.setdefault(key, [])
        later.append(value)
        self[f"{key}{REPEATED}"] = later
        if line is not None:
            self.repeated_lines.setdefault(key, line)


LINES = (".jsonl", ".ndjson")
"""The suffixes of files with one document per line."""


class Number(float):
    """A JSON number with a fraction, as written: a version 1.10 is not 1.1."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _number(text: str) -> Any:
    number = Number(text)
    return text if number in (float("inf"), float("-inf")) else number


def _node(pairs: list[tuple[str, Any]]) -> Node:
    node = Node()
    for key, value in pairs:
        node.put(key, value)
    return node


def _decoder(node: Callable[[list[tuple[str, Any]]], Node]) -> json.JSONDecoder:
    return json.JSONDecoder(parse_float=_number, parse_constant=str, object_pairs_hook=node, strict=False)


class _Lines:
    """The line of each of some offsets, in order: only the text between two of them is counted."""

    def __init__(self, text: str) -> None:
        self._text, self._offset, self._line = text, 0, 1

    def line_of(self, offset: int) -> int:
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line


def _spans(text: str) -> list[tuple[int, int]]:
    """First and last line of each object, in the order in which they close."""
    lines, opened, spans = _Lines(text), list[int](), list[tuple[int, int]]()
    for match in _BRACES.finditer(text):
        brace = text[match.end() - 1 : match.end()]
        if brace == "{":
            opened.append(lines.line_of(match.end() - 1))
        elif brace == "}" and opened:  # else it is no JSON, as the parser will say
            spans.append((opened.pop(), lines.line_of(match.end() - 1)))
    return spans


def load_json(text: str) -> Any:
    """One JSON document, whose objects are `Node`.

    Raises
    ------
    StructureError
        With the line of the fault.

    Examples
    --------
    >>> load_json('{"чай":\\n {"вид": "зелёный"}}')["чай"].line
    2
    """
    _refuse_depth(text)
    spans = iter(_spans(text))

    def node(pairs: list[tuple[str, Any]]) -> Node:
        made = _node(pairs)
        made.line, made.end_line = next(spans)  # an object is made when it closes
        return made

    start = len(text) - len(text.lstrip())
    try:
        value, end = _decoder(node).raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _json_fault(error) from error
    if text[end:].strip():
        raise StructureError("nothing after the document", _Lines(text).line_of(end))
    return _cleaned(value) if "\\u" in text else value


class Member(NamedTuple):
    """A value within a JSON text: the key that it stands under, its offsets, and its first and last line.

    `number` counts the items of a list from 0; it is None for a value that is no item.
    """

    key: str
    number: int | None
    value: Any
    start: int
    end: int
    line: int
    end_line: int


def load_json_items(text: str) -> Iterator[tuple[Any, int, int]]:
    """Each item of a JSON list with the lines it spans, up to the first fault.

    Raises
    ------
    StructureError
        At the first fault, after the items before it were given.
    """
    values = _Values(text)
    for member in values.items("", text.index("[")):
        yield member.value, member.line, member.end_line
    values.refuse_rest("list")


def load_json_members(text: str, lists: Container[str]) -> Iterator[Member]:
    """Each member of a JSON object, up to the first fault; a list under one of `lists` is opened.

    An opened list is a member without items, and each of its items one more.

    Raises
    ------
    StructureError
        At the first fault, after the members before it were given; a list that is opened twice is one.

    Examples
    --------
    >>> text = '{"a": [1, {"b": 2}], "c": [3]}'
    >>> [(member.key, member.number, member.value) for member in load_json_members(text, ("a",))]
    [('a', None, []), ('a', 0, 1), ('a', 1, {'b': 2}), ('c', None, [3])]
    """
    values, opened = _Values(text), set[str]()
    values.expect("{")
    is_open = not values.accept("}")
    while is_open:
        start, key = values.position, values.value()
        if not isinstance(key, str):
            raise values.fault("a key in quotes", start)
        values.expect(":")
        if key in lists and text.startswith("[", values.position):
            if key in opened:
                raise values.fault(f"one list {key!r}", start)
            opened.add(key)
            line = values.line_of(values.position)
            yield Member(key, None, [], values.position, values.position, line, line)
            yield from values.items(key, values.position)
        else:
            yield values.member(key, None)
        is_open = values.goes_on("}")
    values.refuse_rest("object")


class _Values:
    """The values of a JSON text, decoded one after the other; cost is linear in what was decoded.

    Attributes
    ----------
    position : int
        Of the next sign that is no blank.
    """

    def __init__(self, text: str) -> None:
        _refuse_depth(text)
        self._text, self._decoder, self._escaped = text, _decoder(_node), "\\u" in text
        self.line_of = _Lines(text).line_of
        self.position = _skip_blank(text, int(text.startswith("\ufeff")))

    def fault(self, expected: str, position: int) -> StructureError:
        return StructureError(expected, self.line_of(min(position, len(self._text))))

    def accept(self, sign: str) -> bool:
        """Whether `sign` is next, which is then passed over."""
        if is_next := self._text.startswith(sign, self.position):
            self.position = _skip_blank(self._text, self.position + 1)
        return is_next

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise self.fault(repr(sign), self.position)

    def goes_on(self, closing: str) -> bool:
        """Pass over what is behind a value: True for a comma, False for the sign that closes what it stands in."""
        if self.accept(","):
            return True
        if not self.accept(closing):
            raise self.fault(f"',' or {closing!r} after an item", self.position)
        return False

    def value(self) -> Any:
        try:
            value, end = self._decoder.raw_decode(self._text, self.position)
        except (ValueError, RecursionError) as error:
            raise _json_fault(error) from error
        self.position = _skip_blank(self._text, end)
        self._end = end
        return _cleaned(value) if self._escaped else value

    def member(self, key: str, number: int | None) -> Member:
        """The next value as a member."""
        start = self.position
        value, end = self.value(), self._end
        return Member(key, number, value, start, end, self.line_of(start), self.line_of(end - 1))

    def items(self, key: str, position: int) -> Iterator[Member]:
        """The items of the list that opens at `position`."""
        self.position = position
        self.expect("[")
        is_open, number = not self.accept("]"), 0
        while is_open:
            yield self.member(key, number)
            is_open, number = self.goes_on("]"), number + 1

    def refuse_rest(self, what: str) -> None:
        if self._text[self.position :].strip():
            raise self.fault(f"nothing after the {what}", self.position)


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\n\r":
        position += 1
    return position


def _json_fault(error: Exception) -> StructureError:
    if isinstance(error, json.JSONDecodeError):
        return StructureError(f"{error.msg} (column {error.colno})", error.lineno)
    return StructureError(f"a document that can be parsed: {error}", 1)


# Possessive, and a string that is not closed matches too: of 60 MB there must be nothing to come back to.
_STRING = r'"((?:[^"\\]++|\\.?)*+)"?'
_BRACKETS = re.compile(rf"{_STRING}|[\[{{\]}}]", re.DOTALL)
_BRACES = re.compile(
    rf'(?:[^{{}}"]++|{_STRING})*+[{{}}]?', re.DOTALL
)  # matches at the end too, never from a later start
_NAMES = re.compile(_STRING)


def _refuse_depth(text: str) -> None:
    """Raise where nesting is too deep for the stack; a text with few brackets is only counted."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKETS.finditer(text):
        first = text[match.start()]
        depth += (first in "[{") - (first in "]}")
        if depth > MAX_DEPTH:
            raise StructureError(f"at most {MAX_DEPTH} levels of nesting", text.count("\n", 0, match.start()) + 1)


def name_lines(lines: list[str], first: int) -> dict[str, int]:
    """The first line of every quoted string in the `lines` of a JSON text."""
    first_lines: dict[str, int] = {}
    for number, line in enumerate(lines, first):
        for name in _NAMES.findall(line):
            first_lines.setdefault(name, number)
    return first_lines


def _cleaned(value: Any) -> Any:
    """`value` without lone surrogates, in place."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        value[:] = [_cleaned(item) for item in value]
    elif isinstance(value, Node):
        items = [(without_surrogates(key), _cleaned(item)) for key, item in value.items()]
        value.clear()
        value.update(items)
    return value


YAML = (".yaml", ".yml")
"""The suffixes of YAML files."""
