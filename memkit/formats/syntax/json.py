"""JSON as plain objects that know their lines: strings, numbers, lists and `Node`s, nothing else is made of a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from memkit.formats.syntax.node import MAX_DEPTH, Node, StructureError, clean

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
    """One JSON document.

    Raises
    ------
    StructureError
        With the line of the fault.
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


def load_json_items(text: str) -> Iterator[tuple[Any, int, int]]:
    """Each item of a JSON list with the lines it spans, up to the first fault.

    Raises
    ------
    StructureError
        At the first fault, after the items before it were given.
    """
    _refuse_depth(text)
    lines = _Lines(text)
    decoder = _decoder(_node)
    position, escaped = text.index("[") + 1, "\\u" in text
    while True:
        position = _skip_blank(text, position)
        if text.startswith("]", position):
            if text[position + 1 :].strip():
                raise StructureError("nothing after the list", lines.line_of(position))
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise _json_fault(error) from error
        first, last = lines.line_of(position), lines.line_of(end - 1)
        yield (_cleaned(value) if escaped else value), first, last
        position = _skip_blank(text, end)
        if not text.startswith((",", "]"), position):
            raise StructureError("',' or ']' after an item", lines.line_of(min(position, len(text))))
        position += text.startswith(",", position)


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
        return clean(value)
    if isinstance(value, list):
        value[:] = [_cleaned(item) for item in value]
    elif isinstance(value, Node):
        items = [(clean(key), _cleaned(item)) for key, item in value.items()]
        value.clear()
        value.update(items)
    return value
