"""JSON and YAML as plain objects that know their lines; nothing is constructed but strings, numbers, lists and nodes.

YAML scalars stay strings (``1.0``, ``10:00``, ``yes`` and dates are what their author wrote; only a plain ``null``,
``~`` or nothing is None). An alias, a repeated key and a deep nest cannot blow up: the first is followed within a
budget, the second is kept under ``Node.repeated``, the third is a `StructureError`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from json.decoder import JSONObject  # type: ignore[attr-defined]  # the stubs leave out the function that parses an object
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # the stubs leave out the pure Python scanner
from types import MappingProxyType
from typing import Any

import yaml

MAX_DEPTH = 100
"""Nesting that no memory needs; deeper input is refused before it can exhaust the stack, however deep the caller is."""
MAX_ALIASED = 1_000_000
"""Characters, and nodes, that aliases may add to one YAML file."""
MAX_DIRECTIVES = 100
"""Lines that open with ``%``: the YAML parser compares each with all before it."""

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # C where PyYAML was built with it
_SURROGATES = re.compile("[\ud800-\udfff]")
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)


_OPENING: tuple[Any, ...] = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ALIAS: Any = yaml.AliasEvent
_CLOSING: tuple[Any, ...] = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class StructureError(ValueError):
    """The text is no JSON or YAML; `line` is 1-based."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


_NOTHING: Any = MappingProxyType({})
"""What most objects have of keys with lines, and of repeated ones."""


class Node(dict[str, Any]):
    """An object with the lines it begins and ends on, the line of each key, and what repeated keys held."""

    __slots__ = ("end_line", "line", "lines", "repeated", "repeated_lines")
    lines: dict[str, int]
    repeated: dict[str, list[Any]]
    repeated_lines: dict[str, int]

    def __init__(self) -> None:
        self.line = self.end_line = 1
        self.lines = self.repeated = self.repeated_lines = _NOTHING

    def put(self, key: str, value: Any, line: int | None = None) -> None:
        """Keep the first value of a key; later ones go to `repeated`, and stand under a key of their own."""
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
        self[f"{key} (repeated)"] = later
        if line is not None:
            self.repeated_lines.setdefault(key, line)


class Number(float):
    """A JSON number with a fraction, as written: a version 1.10 is not 1.1."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def clean(text: str) -> str:
    """`text` without lone surrogates, which no UTF-8 can hold but an escape can spell."""
    return _SURROGATES.sub("�", text)


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
        super().__init__(parse_float=_number, parse_constant=str, strict=False)
        self.parse_object = self._parse_object
        self.scan_once = py_make_scanner(self)  # the C scanner does not call parse_object

    def _parse_object(self, s_and_end: tuple[str, int], *rest: Any) -> tuple[Node, int]:
        line = self.lines.at(s_and_end[1] - 1)
        strict, scan_once, *_, memo = rest
        pairs, end = JSONObject(s_and_end, strict, scan_once, None, list, memo)
        node = Node()
        node.line, node.end_line = line, self.lines.at(end - 1)
        for key, value in pairs:
            node.put(key, value)
        return node, end


def _number(text: str) -> Any:
    number = Number(text)
    return text if number in (float("inf"), float("-inf")) else number


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
        raise _json_fault(error, text) from error
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
            raise _json_fault(error, text) from error
        first, last = lines.at(at), lines.at(end - 1)
        yield (_cleaned(value) if escaped else value), first, last
        at = _skip_blank(text, end)
        if not text.startswith((",", "]"), at):
            raise StructureError("',' or ']' after an item", lines.at(min(at, len(text))))
        at += text.startswith(",", at)


def _node(pairs: list[tuple[str, Any]]) -> Node:
    node = Node()
    for key, value in pairs:
        node.put(key, value)
    return node


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def _json_fault(error: Exception, text: str) -> StructureError:
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


def load_yaml(text: str) -> Iterator[Any]:
    """Each YAML document of `text`, scalars as strings.

    Raises
    ------
    StructureError
        At the first fault, after the documents before it were given.
    """
    for number, match in enumerate(_DIRECTIVE.finditer(text)):
        if number == MAX_DIRECTIVES:
            raise StructureError(f"at most {MAX_DIRECTIVES} directives", text.count("\n", 0, match.start()) + 1)
    try:
        yield from _Builder().documents(yaml.parse(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "characters that YAML allows"
        raise StructureError(f"{reason}", mark.line + 1 if mark else 1) from error
    except UnicodeEncodeError as error:
        raise StructureError("characters that YAML allows", 1) from error


class _Builder:
    """Objects from YAML events, with a stack of our own: depth and aliases are bounded."""

    def __init__(self) -> None:
        self._anchors: dict[str, _Open] = {}
        self._aliased = 0

    def documents(self, events: Iterator[Any]) -> Iterator[Any]:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                yield self._value(next(events), events)

    def _value(self, event: Any, events: Iterator[Any]) -> Any:
        root: list[Any] = []
        stack: list[_Open] = [_Open(root)]
        while True:
            if isinstance(event, _OPENING):
                self._open(event, stack)
            elif isinstance(event, _CLOSING):
                closed = stack.pop()
                if isinstance(closed.value, Node):
                    closed.value.end_line = max(closed.value.line, event.start_mark.line)
                self._take(stack, closed)
            else:
                self._take(stack, self._leaf(event))
            if len(stack) == 1:
                return root[0]
            event = next(events)

    def _take(self, stack: list[_Open], closed: _Open) -> None:
        if closed.anchor:
            self._anchors[closed.anchor] = closed
        _refuse_nest(len(stack) - 1 + closed.height, closed.line)
        stack[-1].take(closed)

    def _open(self, event: Any, stack: list[_Open]) -> None:
        line = event.start_mark.line + 1
        _refuse_nest(len(stack), line)
        value: Any = Node() if isinstance(event, yaml.MappingStartEvent) else []
        if isinstance(value, Node):
            value.line = line
        stack.append(_Open(value, event.anchor, line))

    def _leaf(self, event: Any) -> _Open:
        line = event.start_mark.line + 1
        if isinstance(event, _ALIAS):
            known = self._anchors.get(event.anchor)
            self._aliased += _size(known.value) if known else 0
            if self._aliased > MAX_ALIASED or not known:
                raise StructureError(f"an alias of a known anchor, adding {MAX_ALIASED} characters at most", line)
            return _Open(known.value, None, line, known.height)
        plain = not event.style and event.value in ("", "~", "null", "Null", "NULL")
        return _Open(None if plain and event.implicit[0] else clean(event.value), event.anchor, line)


def _refuse_nest(depth: int, line: int) -> None:
    if depth > MAX_DEPTH:
        raise StructureError(f"at most {MAX_DEPTH} levels of nesting", line)


class _Open:
    """A value, and of a list or object that is still being filled its height: the levels within it."""

    def __init__(self, value: Any, anchor: str | None = None, line: int = 1, height: int = 0) -> None:
        self.value, self.anchor, self.line, self.height = value, anchor, line, height
        self._key: str | None = None
        self._key_line = line

    def take(self, item: _Open) -> None:
        self.height = max(self.height, item.height + 1)
        if isinstance(self.value, list):
            self.value.append(item.value)
        elif self._key is None:
            self._key = item.value if isinstance(item.value, str) else _flow(item.value)
            self._key_line = item.line
        else:
            self.value.put(self._key, item.value, self._key_line)
            self._key = None


def _flow(value: Any) -> str:
    """What stands for a key that is no string; without quotes, which each level around it would double."""
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, Node):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    return "null" if value is None else str(value)


def _size(value: Any) -> int:
    """Characters and nodes in `value`, counted no further than matters."""
    total, queue = 0, [value]
    while queue and total <= MAX_ALIASED:
        item = queue.pop()
        total += 1 + (len(item) if isinstance(item, str) else 0)
        if isinstance(item, dict):
            queue.extend(item)
            queue.extend(item.values())
        elif isinstance(item, list):
            queue.extend(item)
    return total
