"""JSON and YAML as plain objects that know their lines: strings, numbers, lists and `Node`s, nothing else is made of a
text.

Scalars of YAML stay strings (``1.0``, ``10:00``, ``yes`` and dates are what their author wrote; only a plain ``null``,
``~`` or nothing is None). An alias, a repeated key and a deep nest cannot blow up: the first is followed within a
budget, the second is kept under ``Node.repeated``, the third is a `StructureError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

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
# A round bound: nine lines of aliases can stand for a billion nodes.
MAX_ALIASED = 1_000_000
"""Characters, and nodes, that aliases may add to one file."""
MAX_DIRECTIVES = 100
"""Lines that open with ``%``: the YAML parser compares each with all before it."""

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # C where PyYAML was built with it
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|\Z)", re.MULTILINE)
"""Where a document begins or ends, whatever stands above: no scalar may hold it at the head of a line."""
_ITEM = re.compile(r"^-(?=\s|\Z)", re.MULTILINE)
_SAYING = re.compile(r"^(?!(?:---|\.\.\.)?[ \t]*(?:#|$)).", re.MULTILINE)
"""The beginning of a line that is more than blank, a marker or a comment."""
_ANCHOR = re.compile(r"(?:^|[\[{,?:-])[ \t]*&\w", re.MULTILINE)
_OPENING: tuple[Any, ...] = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_FLOW_OPENING: tuple[Any, ...] = (yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
_FLOW_CLOSING: tuple[Any, ...] = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
_ALIAS: Any = yaml.AliasEvent
_CLOSING: tuple[Any, ...] = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def load_yaml(text: str, above: int = 0) -> Iterator[Any]:
    """Each YAML document of `text`, scalars as strings.

    Parameters
    ----------
    text : str
    above : int
        The lines that stand above `text` in its file, as all line numbers count from the file's first.

    Raises
    ------
    StructureError
        At the first fault, after the documents before it were given.
    """
    for number, match in enumerate(_DIRECTIVE.finditer(text)):
        if number == MAX_DIRECTIVES:
            line = above + text.count("\n", 0, match.start()) + 1
            raise StructureError(f"at most {MAX_DIRECTIVES} directives", line)
    try:
        yield from _Builder(above).documents(yaml.parse(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "characters that YAML allows"
        raise StructureError(f"{reason}", above + (mark.line if mark else 0) + 1) from error
    except UnicodeEncodeError as error:
        raise StructureError("characters that YAML allows", above + 1) from error


@dataclass(frozen=True)
class YamlPart:
    """Whole lines of a text, and how many lines stand above them in their file."""

    text: str
    above: int = 0

    def cut(self) -> list[YamlPart]:
        r"""What it can be cut into if it is no YAML: its documents, else the items of its list; itself if neither.

        The cuts are where YAML has them whatever is wrong above: at the markers of documents, and in a list at each
        ``-`` at the head of a line. Where one part may need another, for its directives or anchors, there are none.

        >>> [(part.text, part.above) for part in YamlPart("# mine\n- a: [\n- b: 1\n").cut()]
        [('# mine\n- a: [\n', 0), ('- b: 1\n', 2)]
        """
        text, first = self.text, _SAYING.search(self.text)
        if first is None or _DIRECTIVE.search(text) or _ANCHOR.search(text):
            return [self]
        documents = self._cut_at(_MARKER)
        is_list = len(documents) == 1 and _ITEM.match(text, first.start())
        return self._cut_at(_ITEM) if is_list else documents

    def _cut_at(self, pattern: re.Pattern[str]) -> list[YamlPart]:
        r"""The parts that begin at the matches.

        Lines that say nothing go with what is below them, the last ones with what is above.

        >>> [part.text for part in YamlPart("# a\n---\nb: 1\n---\n# c\n---\nd: 1\n...\n")._cut_at(_MARKER)]
        ['# a\n---\nb: 1\n', '---\n# c\n---\nd: 1\n...\n']
        """
        text = self.text
        places = [0, *(match.start() for match in pattern.finditer(text)), len(text)]
        ends = [end for start, end in pairwise(places) if _SAYING.search(text, start, end)]
        parts, above = list[YamlPart](), self.above
        for start, end in pairwise((0, *ends[:-1], len(text))):
            parts.append(YamlPart(text[start:end], above))
            above += text.count("\n", start, end)
        return parts

    def stripped(self) -> YamlPart:
        r"""The part without the blank lines and bare markers at its ends.

        >>> YamlPart("---\n\na: [\n...\n", 4).stripped()
        YamlPart(text='a: [', above=6)
        """
        lines = self.text.split("\n")
        saying = [number for number, line in enumerate(lines) if line.strip() not in ("", "---", "...")] or [0]
        return YamlPart("\n".join(lines[saying[0] : saying[-1] + 1]), self.above + saying[0])


def yaml_comments(text: str) -> dict[int, str]:
    """The comments of `text` by their 1-based line.

    Of text that is no YAML they are those of its parts; of a part that is none, the lines that are nothing else.

    >>> yaml_comments("# of mine\\na: 'b # c' # d\\n")
    {1: '# of mine', 2: '# d'}
    """
    if "#" not in text:
        return {}
    try:
        lines = [place for line, gap in _gaps(text) for place in enumerate(gap.split("\n"), line)]
    except (yaml.YAMLError, UnicodeEncodeError, StructureError):
        parts = YamlPart(text).cut()
        if len(parts) > 1:
            return {part.above + line: words for part in parts for line, words in yaml_comments(part.text).items()}
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("#")]
    return {number: without_surrogates(line[line.index("#") :].rstrip()) for number, line in lines if "#" in line}


def _gaps(text: str) -> Iterator[tuple[int, str]]:
    """What stands between the tokens of `text`, blanks and comments alone, and the line that each begins on."""
    end, line, depth = 0, 1, 0
    for token in yaml.scan(text, Loader=_Loader):
        depth += isinstance(token, _FLOW_OPENING) - isinstance(token, _FLOW_CLOSING)
        _refuse_nest(depth, line)
        if "#" in (gap := text[end : token.start_mark.index]):
            yield line, gap
        end, line = token.end_mark.index, token.end_mark.line + 1
        if getattr(token, "style", None) in ("|", ">"):  # its first line may be ``key: | # why``
            yield token.start_mark.line + 1, text[token.start_mark.index : end].partition("\n")[0]


class _Builder:
    """Makes objects from YAML events, with its own stack, so that depth and aliases are bounded."""

    def __init__(self, above: int) -> None:
        self._first = self._end = above + 1
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
                if event.end_mark.index > event.start_mark.index:  # a bracket; what is indented ends with its last leaf
                    self._end = self._first + event.start_mark.line
                if isinstance(closed.value, Node):
                    closed.value.end_line = max(closed.value.line, self._end)
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
        line = self._first + event.start_mark.line
        _refuse_nest(len(stack), line)
        value: Any = Node() if isinstance(event, yaml.MappingStartEvent) else []
        if isinstance(value, Node):
            value.line = line
        stack.append(_Open(value, event.anchor, line))

    def _leaf(self, event: Any) -> _Open:
        line, end = self._first + event.start_mark.line, event.end_mark
        is_block = end.column == 0 and end.line > event.start_mark.line  # it ends where the next line begins
        self._end = self._first + end.line - is_block
        if isinstance(event, _ALIAS):
            known = self._anchors.get(event.anchor)
            self._aliased += _size(known.value) if known else 0
            if self._aliased > MAX_ALIASED or not known:
                raise StructureError(f"an alias of a known anchor, adding {MAX_ALIASED} characters at most", line)
            return _Open(known.value, None, line, known.height)
        plain = not event.style and event.value in ("", "~", "null", "Null", "NULL")
        return _Open(None if plain and event.implicit[0] else without_surrogates(event.value), event.anchor, line)


def _refuse_nest(depth: int, line: int) -> None:
    if depth > MAX_DEPTH:
        raise StructureError(f"at most {MAX_DEPTH} levels of nesting", line)


class _Open:
    """A value under construction, with its height: the levels of nesting within it."""

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
    """A key that is not a string, as text; without quotes, which each level around it would double."""
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
