"""JSON as plain objects that know their lines: strings, numbers, lists and `Node`s, nothing else is made of a text."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from json.decoder import JSONObject  # type: ignore[attr-defined]  # the stubs leave out the function that parses an object
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # the stubs leave out the pure Python scanner
from typing import Any

from memkit.formats.syntax.node import MAX_DEPTH, Node, StructureError, clean

LINES = (".jsonl", ".ndjson")
"""The ends of the names of files with a document a line."""


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


class _Lines:
    """Offset to line, for offsets that only grow slowly."""

    def __init__(self, text: str) -> None:
        self._text, self._offset, self._line = text, 0, 1

    def at(self, offset: int) -> int:
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line


class _Decoder(json.JSONDecoder):
    """A JSON decoder whose objects are `Node`s with lines."""

    lines: _Lines

    def __init__(self) -> None:
        super().__init__(parse_float=_number, parse_constant=str, object_pairs_hook=_node, strict=False)
        self.parse_object = self._parse_object
        self.scan_once = py_make_scanner(self)  # the C scanner does not call parse_object

    def _parse_object(self, s_and_end: tuple[str, int], *rest: Any) -> tuple[Node, int]:
        line = self.lines.at(s_and_end[1] - 1)
        node, end = JSONObject(s_and_end, *rest)
        node.line, node.end_line = line, self.lines.at(end - 1)
        return node, end


class _Decoders(threading.local):
    """One decoder a thread: a decoder is a cycle of objects, of which a folder of small files would leave thousands."""

    def __init__(self) -> None:
        self.own = _Decoder()


_DECODERS = _Decoders()


def load_json(text: str) -> Any:
    """One JSON document.

    Raises
    ------
    StructureError
        With the line of the fault.
    """
    _refuse_depth(text)
    lines = _Lines(text)
    start = len(text) - len(text.lstrip())
    decoder = _DECODERS.own
    decoder.lines = lines
    try:
        value, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _json_fault(error) from error
    finally:
        del decoder.lines  # and with it the text
    if text[end:].strip():
        raise StructureError("nothing after the document", lines.at(end))
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
    decoder = json.JSONDecoder(parse_float=_number, parse_constant=str, object_pairs_hook=_node, strict=False)
    at, escaped = text.index("[") + 1, "\\u" in text
    while True:
        at = _skip_blank(text, at)
        if text.startswith("]", at):
            if text[at + 1 :].strip():
                raise StructureError("nothing after the list", lines.at(at))
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _json_fault(error) from error
        first, last = lines.at(at), lines.at(end - 1)
        yield (_cleaned(value) if escaped else value), first, last
        at = _skip_blank(text, end)
        if not text.startswith((",", "]"), at):
            raise StructureError("',' or ']' after an item", lines.at(min(at, len(text))))
        at += text.startswith(",", at)


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def _json_fault(error: Exception) -> StructureError:
    if isinstance(error, json.JSONDecodeError):
        return StructureError(f"{error.msg} (column {error.colno})", error.lineno)
    return StructureError(f"a document that can be parsed: {error}", 1)


# Possessive, and a string that is not closed matches too: of 60 MB there must be nothing to come back to.
_STRING = r'"((?:[^"\\]++|\\.?)*+)"?'
_BRACKETS = re.compile(rf"{_STRING}|[\[{{\]}}]", re.DOTALL)
_NAMES = re.compile(_STRING)


def _refuse_depth(text: str) -> None:
    """Raise before a nest can exhaust the stack; short of many brackets this costs one count."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKETS.finditer(text):
        first = text[match.start()]
        depth += (first in "[{") - (first in "]}")
        if depth > MAX_DEPTH:
            raise StructureError(f"at most {MAX_DEPTH} levels of nesting", text.count("\n", 0, match.start()) + 1)


def name_lines(lines: list[str], first: int) -> dict[str, int]:
    """Every string in quotes on the `lines` of a JSON text, to the line that it stands on first; one pass."""
    found: dict[str, int] = {}
    for number, line in enumerate(lines, first):
        for name in _NAMES.findall(line):
            found.setdefault(name, number)
    return found


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
