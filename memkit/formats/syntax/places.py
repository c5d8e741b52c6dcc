"""Edits of single values in a JSON or YAML text, with the positions of its parts; every other character stays.

Writing a document anew with a library would also change its blanks, quotes and order. `Json`, `Yaml` and `Head` (the
front matter of a Markdown file) each have ``set_value``; `syntax_of` says which of the first two a file of records
needs. New values are written as JSON in the documents' layout, and as YAML that every reader reads back.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from memkit.errors import ChangeRefusedError
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.nodes import YAML, StructureError, load_json

_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""A UUID as it is written, of any version."""
_SPOKEN = frozenset(("yes", "no", "on", "off", "y", "n", "null", "true", "false"))
_PROSE = re.compile(r"[^\W\d_](?:[^\s\x00-\x1f:#]|:(?=\S)|(?<=\S)#| (?=[^\s#]))*")
"""Text that YAML reads as it stands: its first sign is a letter, no word ends in a colon or begins with #."""
_ODD = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_LOOSE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z)?|(?:file|area):[A-Za-z0-9_./-]+")
"""Dates and the places that a note applies to: notes do not quote them, although YAML reads them in its own way."""
WORDED = frozenset(("subject", "keywords"))
"""Fields that hold text, so that a text that looks like a date is quoted."""


def pretty(value: Any, indent: str = "", *, step: str = "  ", is_ascii: bool = False) -> str:
    """JSON in the documents' layout: two blanks a level, a list of plain values on one line.

    Examples
    --------
    >>> print(pretty({"tags": ["чай", 1], "files": [{"a": {}}]}))
    {
      "tags": ["чай", 1],
      "files": [
        {
          "a": {}
        }
      ]
    }
    """
    inner = f"{indent}{step}"

    def nested(item: Any) -> str:
        return pretty(item, inner, step=step, is_ascii=is_ascii)

    if isinstance(value, Mapping) and value:
        members = (f"{inner}{json.dumps(key, ensure_ascii=is_ascii)}: {nested(item)}" for key, item in value.items())
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (list, Mapping)) for item in value):
        return "[\n" + ",\n".join(f"{inner}{nested(item)}" for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=is_ascii, allow_nan=False)


def scalar(value: object, *, loose: bool = False, prose: bool = False) -> str:
    """`value` as YAML; a string is quoted unless every reader takes it for the same string.

    Parameters
    ----------
    loose : bool
        Dates and ``file:path`` bare too, as notes have them.
    prose : bool
        Text of any script bare too, such as a title, unless YAML would read something else.

    Examples
    --------
    >>> [scalar(value) for value in ("user_42", "1.10", "yes", "чай: да", None, 0.5, True)]
    ['user_42', '"1.10"', '"yes"', '"чай: да"', 'null', '0.5', 'true']
    >>> [scalar(value, prose=True) for value in ("Чай, вечером", "true", "чай: да")]
    ['Чай, вечером', '"true"', '"чай: да"']
    """
    if not isinstance(value, str):
        text = json.dumps(value, allow_nan=False)
        is_short = isinstance(value, float) and "e" in text and "." not in text
        return text.replace("e", ".0e") if is_short else text  # YAML 1.1 takes 1e-3 for a word
    words = _PROSE if prose and not _ODD.search(value) else _WORDS
    if (words.fullmatch(value) and value.lower() not in _SPOKEN) or UUID.fullmatch(value):
        return value
    if loose and _LOOSE.fullmatch(value):
        return value
    return quoted(value)


def quoted(text: str) -> str:
    """A text in quotes, as YAML and JSON read it.

    >>> print(quoted('чай: "зелёный"'))
    "чай: \\"зелёный\\""
    """
    return flow(text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def block(fields: Mapping[str, Any], indent: str = "", *, loose: bool = False) -> str:
    """A mapping as lines of YAML: lists below their keys, an item a line; each key in the order given.

    Examples
    --------
    >>> print(block({"id": "a", "tags": ["чай", "tea"], "stats": {"hits": 1}, "none": []}), end="")
    id: a
    tags:
      - "чай"
      - tea
    stats:
      hits: 1
    none: []
    """
    lines = []
    for key, value in fields.items():
        name = scalar(key)
        if isinstance(value, Mapping) and value:
            lines.append(f"{indent}{name}:\n{block(value, f'{indent}  ', loose=loose)}")
        elif isinstance(value, list) and value:
            items = (_item(item, f"{indent}  ", loose and key not in WORDED) for item in value)
            lines.append(f"{indent}{name}:\n" + "".join(items))
        else:
            empty = {dict: "{}", list: "[]"}.get(list if isinstance(value, list) else dict if value == {} else str)
            lines.append(f"{indent}{name}: {empty or scalar(value, loose=loose and key not in WORDED)}\n")
    return "".join(lines)


def items(values: Iterable[Any], indent: str = "") -> str:
    """A list as lines of YAML, each item behind a dash.

    Examples
    --------
    >>> print(items([{"id": "a", "tags": []}, "чай"]), end="")
    - id: a
      tags: []
    - "чай"
    """
    return "".join(_item(value, indent, False) for value in values)


def flow(value: Any) -> str:
    """A value on one line, as JSON and YAML both read it."""
    return _ODD.sub(_escaped, json.dumps(value, ensure_ascii=False, allow_nan=False))


def _item(value: Any, indent: str, loose: bool) -> str:
    if isinstance(value, Mapping) and value:
        return f"{indent}- {block(value, f'{indent}  ', loose=loose).removeprefix(f'{indent}  ')}"
    if isinstance(value, (list, Mapping)):
        return f"{indent}- {flow(value)}\n"
    return f"{indent}- {scalar(value, loose=loose)}\n"


_BLANK = re.compile(r"[ \t\n\r]*")
_TALL = re.compile(r"\[\s*\n\s*[^\s{\[\]]")
"""Matches a list of plain values that is written over several lines."""
_INDENTED = re.compile(r"\n([ \t]+)\S")
_INDENT, _LINE_END = re.compile(r"[ \t]*"), re.compile(r"\n")
_DECODER = json.JSONDecoder(strict=False)
_OPENING = re.compile("\ufeff?(?:[ \t]*\r?\n)*+---[ \t]*\r?\n")
_CLOSING = re.compile(r"\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")


Steps = list[str | int]
"""The path to a part: keys and 0-based positions."""


class Splice(NamedTuple):
    """A replacement: the part of a text from `start` to `end`, and its new text.

    >>> spliced("чай с мёдом", [Splice(6, 11, "лимоном")])
    'чай с лимоном'
    """

    start: int
    end: int
    text: str


class JsonPart(NamedTuple):
    """The positions of an item or member: its start (of a member: its key's), its value's start, its end."""

    key: str | None
    start: int
    value: int
    end: int


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """`text` with all replacements made; they must not overlap, and insertions at one position stay in the order given.

    Cost is linear in the text and the replacements.

    Examples
    --------
    >>> spliced("чай и мёд", [Splice(4, 5, "или"), Splice(6, 9, "лимон")])
    'чай или лимон'
    """
    pieces, position = [], 0
    for splice in sorted(splices, key=lambda splice: splice[:2]):
        pieces += [text[position : splice.start], splice.text]
        position = splice.end
    return "".join([*pieces, text[position:]])


def lines_of(text: str) -> list[str]:
    r"""The lines of a text with their ends, as they are counted: only a line feed ends one, no other separator.

    >>> lines_of("a\u2028b\r\nc")
    ['a\u2028b\r\n', 'c']
    """
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


class Places(Protocol):
    """A text whose values can be set in place."""

    def set_value(self, path: Sequence[str | int], value: Any) -> Splice:
        """The replacement that sets the value at a path of keys and 0-based positions."""


def syntax_of(path: str) -> Callable[[str], Places]:
    """`Yaml` or `Json`, by the suffix of a file of records."""
    return Yaml if path.lower().endswith(YAML) else Json


def with_values(text: str, values: Mapping[str, Any], opened: Callable[[str], Places], *above: str | int) -> str:
    """`text` with these values set, by name, in the object at the path `above`.

    Examples
    --------
    >>> with_values('{"stats": {"hits": 1}}', {"hits": 2, "rate": 0.5}, Json, "stats")
    '{"stats": {"hits": 2, "rate": 0.5}}'
    """
    for name, value in values.items():
        text = spliced(text, [opened(text).set_value([*above, name], value)])
    return text


class Json:
    """A JSON text, parsed once: the positions of its parts, and replacements that change one of them.

    An object or list is looked into when it is first asked for; from then on an answer costs no more than itself,
    however many parts there are.

    Parameters
    ----------
    text : str
        One document, perhaps behind a BOM and blanks.

    Attributes
    ----------
    start : int
        Where the document begins.

    Raises
    ------
    ChangeRefusedError
        Where the text is no JSON.

    Examples
    --------
    >>> text = '{"files": [{"title": "Чай"}]}'
    >>> part = Json(text).find(["files", 0, "title"])
    >>> text[part.value : part.end]
    '"Чай"'
    """

    def __init__(self, text: str) -> None:
        self.text, self.start = text, _skip(text, len(text) - len(text.removeprefix("\ufeff")))
        try:
            load_json(text[self.start :])
        except StructureError as error:
            raise ChangeRefusedError(
                f"line {error.line}: it is no JSON ({error}), so no place in it is certain."
            ) from error
        self._parts: dict[int, list[JsonPart]] = {}
        self._members: dict[int, dict[str | None, list[JsonPart]]] = {}

    @cached_property
    def whole(self) -> JsonPart:
        """The document itself."""
        return JsonPart(None, self.start, self.start, _DECODER.raw_decode(self.text, self.start)[1])

    def parts(self, start: int) -> list[JsonPart]:
        """The members or items of the object or list that opens at `start`; none for any other value."""
        if start not in self._parts:
            self._parts[start] = list(_parts_at(self.text, start))
        return self._parts[start]

    def find(self, path: Sequence[str | int]) -> JsonPart | None:
        """The part at a path of keys and 0-based positions; None where there is none.

        Raises
        ------
        ChangeRefusedError
            For a key on the way that stands there twice.
        """
        part: JsonPart | None = self.whole
        for step in path:
            if part is None:
                return None
            if isinstance(step, int):
                parts = self.parts(part.value)
                part = parts[step] if step < len(parts) else None
            else:
                part = self._member(part.value, step)
        return part

    def _member(self, start: int, key: str) -> JsonPart | None:
        if start not in self._members:
            members = self._members[start] = {}
            for part in self.parts(start):
                members.setdefault(part.key, []).append(part)
        named = self._members[start].get(key, [])
        if len(named) > 1:
            raise ChangeRefusedError(f"field {key!r} stands there twice; which one counts is not for memkit to say.")
        return named[0] if named else None

    def value(self, part: JsonPart) -> Any:
        """The value of a part."""
        return _DECODER.raw_decode(self.text, part.value)[0]

    def line(self, position: int) -> int:
        """The 1-based line of a position."""
        return bisect_right(self._line_starts, position)

    def set_value(self, path: Sequence[str | int], value: Any) -> Splice:
        """The replacement that sets the value at the path, or adds it as the last member of the object above."""
        part = self.find(path)
        if part is not None:
            return Splice(part.value, part.end, self._written(value))
        above = self._opening("{", "object", path[:-1])
        lead = self._lead(above)
        return self._appended(above, lead, f"{self._written(path[-1])}: {self._written(value)}")

    def append(self, path: Sequence[str | int], value: Any) -> Splice:
        """The replacement that appends `value` to the list at the path."""
        above = self._opening("[", "list", path)
        lead = self._lead(above)
        return self._appended(above, lead, self._written(value, lead))

    def append_all(self, path: Sequence[str | int], values: Sequence[Any]) -> list[Splice]:
        """The replacements that append `values` to a list: one each, or one for all where the list is empty.

        Examples
        --------
        >>> spliced("[]", Json("[]").append_all([], [1, 2])), spliced("[0]", Json("[0]").append_all([], [1, 2]))
        ('[1,2]', '[0,1,2]')
        """
        above = self._opening("[", "list", path)
        if self.parts(above.value):
            return [self.append(path, value) for value in values]
        if not values:
            return []
        first = self.append(path, values[0])
        # The others are laid out by the first, as they would be beside items that stood there before.
        filled = spliced(self.text, [first])
        whole = spliced(filled, Json(filled).append_all(path, values[1:]))
        return [Splice(first.start, first.end, whole[first.start : len(whole) - (len(self.text) - first.end)])]

    def settled(self, splices: Iterable[Splice]) -> list[Splice]:
        """The same replacements, where a member or item that is removed takes its comma along.

        Where all items go and others come, the first new one has no comma before it.

        Examples
        --------
        >>> text = '["чай", "мёд"]'
        >>> spliced(text, Json(text).settled([Splice(1, 6, ""), Splice(8, 13, ""), Json(text).append([], 1)]))
        '[1]'
        """
        given = list(splices)
        starts = {splice.start for splice in given if not splice.text}
        # Where all members go, the comma before a new one would be the first sign of the list.
        emptied = {
            parts[-1].end for parts in self._holding(sorted(starts)) if starts.issuperset(part.start for part in parts)
        }
        kept = self.without(starts)
        for splice in (splice for splice in given if splice.text):
            if splice.start == splice.end and splice.start in emptied:
                emptied.discard(splice.start)
                splice = splice._replace(text=splice.text.removeprefix(",").lstrip(" \t\r\n"))
            kept.append(splice)
        return kept

    def without(self, starts: Iterable[int]) -> list[Splice]:
        """The replacements that remove the members and items that begin at `starts`, with their commas.

        Examples
        --------
        >>> text = '["чай", "мёд", "лимон"]'
        >>> spliced(text, Json(text).without([text.index('"мёд'), text.index('"лимон')]))
        '["чай"]'
        """
        wanted, splices = set(starts), []
        for parts in self._holding(sorted(wanted)):
            gone = [part.start in wanted for part in parts]
            for number, part in enumerate(parts):
                if gone[number] and not (number and gone[number - 1]):
                    end = next((place for place in range(number, len(parts)) if not gone[place]), len(parts))
                    before, after = number > 0, end < len(parts)
                    # The last ones take the comma before them along, all others the one behind.
                    start = parts[number - 1].end if before and not after else part.start
                    splices.append(Splice(start, parts[end].start if after else parts[end - 1].end, ""))
        return splices

    def _holding(self, starts: list[int]) -> Iterator[list[JsonPart]]:
        """The parts of each object or list that directly contains one of the sorted `starts`."""
        waiting = [(self.start, starts)]
        while waiting:
            start, inner = waiting.pop()
            parts = self.parts(start)
            if not {part.start for part in parts}.isdisjoint(inner):
                yield parts
            for part in parts:
                if within := inner[bisect_right(inner, part.value) : bisect_left(inner, part.end)]:
                    waiting.append((part.value, within))

    def _opening(self, mark: str, what: str, path: Sequence[str | int]) -> JsonPart:
        """The object or list that a path leads to."""
        part = self.find(path)
        if part is None or self.text[part.value] != mark:
            raise ChangeRefusedError(f"there is no {what} at {'/'.join(map(str, path)) or 'the top'}.")
        return part

    def _appended(self, above: JsonPart, lead: str, member: str) -> Splice:
        parts = self.parts(above.value)
        if parts:
            return Splice(parts[-1].end, parts[-1].end, f",{lead}{member}")
        newline = "\r\n" if "\r" in lead else "\n"
        tail = f"{newline}{self._indent_at(above.value)}" if "\n" in lead else ""
        return Splice(above.value + 1, above.end - 1, f"{lead}{member}{tail}")

    def _lead(self, above: JsonPart) -> str:
        """The blanks before the last part, or those that a first part would get."""
        parts = self.parts(above.value)
        if len(parts) > 1:
            return self.text[parts[-2].end : parts[-1].start].partition(",")[2]
        if parts:
            blank = self.text[above.value + 1 : parts[-1].start]
            return blank or (" " if '": ' in self.text[above.value : above.end] else "")
        outer = self._indent_at(above.value)
        return f"{self._newline}{outer}{self._step(outer)}" if self._newline else ""

    def _written(self, value: Any, lead: str = "") -> str:
        """`value` as JSON in the style of the text: with ASCII escapes and over several lines like its neighbours."""
        if "\n" not in lead:
            return json.dumps(value, ensure_ascii=self._is_ascii, allow_nan=False)
        newline, indent = ("\r\n" if "\r" in lead else "\n"), lead.rpartition("\n")[2]
        step = self._step(indent)
        if self._is_tall:
            written = json.dumps(value, ensure_ascii=self._is_ascii, allow_nan=False, indent=step)
        else:
            written = pretty(value, step=step, is_ascii=self._is_ascii)
        return written.replace("\n", newline + indent)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    @cached_property
    def _is_ascii(self) -> bool:
        return self.text.isascii() and "\\u" in self.text

    @cached_property
    def _is_tall(self) -> bool:
        return _TALL.search(self.text) is not None

    @cached_property
    def _newline(self) -> str:
        """The line ending; empty in a text of one line."""
        return "\r\n" if "\r\n" in self.text else "\n" if "\n" in self.text.strip() else ""

    @cached_property
    def _first_step(self) -> str:
        match = _INDENTED.search(self.text)
        return match.group(1) if match else "  "

    def _step(self, indent: str) -> str:
        """The indent of one level, as in the first indented line of the text."""
        return self._first_step if not indent or len(self._first_step) <= len(indent) else "  "

    def _indent_at(self, position: int) -> str:
        """The blanks at the start of the line of a position."""
        start = self._line_starts[self.line(position) - 1]
        start += self.text.startswith("\ufeff", start)
        match = _INDENT.match(self.text, start, position)
        return match.group() if match else ""


def _parts_at(text: str, start: int) -> Iterator[JsonPart]:
    opening = text[start : start + 1]
    if opening not in ("{", "["):
        return
    position = _skip(text, start + 1)
    while text[position] not in "}]":
        begin, key = position, None
        if opening == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        end = _DECODER.raw_decode(text, position)[1]
        yield JsonPart(key, begin, position, end)
        position = _skip(text, end)
        position = _skip(text, position + 1) if text[position] == "," else position


def _skip(text: str, position: int) -> int:
    """The position behind the blanks that begin at `position`."""
    match = _BLANK.match(text, position)
    return match.end() if match else position


class Yaml:
    """One YAML document, and replacements that change one of its values.

    Parameters
    ----------
    text : str
        The document, perhaps behind a BOM: a mapping with a key a line.

    Raises
    ------
    ChangeRefusedError
        Where the text is no such document, or has anchors.
    """

    loose = False
    """Whether dates and ``file:path`` are written without quotes."""

    def __init__(self, text: str) -> None:
        from memkit.formats.syntax.yaml_nodes import composed

        self.text = text
        self.start, self.end = self._bounds()
        self._inner = text[self.start : self.end]
        self._top = composed(self._inner)

    def set_value(self, path: Sequence[str | int], value: Any) -> Splice:
        """The replacement that sets a string, a number or a list of strings; new keys are added at the top level only.

        Raises
        ------
        ChangeRefusedError
            Where the place of the value is not certain, or more than it would be read differently.
        """
        keys = list(map(str, path))
        splice = self._set(keys, value)
        before, after = (self._read(plain_lines(version)) for version in (self.text, spliced(self.text, [splice])))
        _compare(before, after, keys, value)
        return splice

    def _bounds(self) -> tuple[int, int]:
        return len(self.text) - len(self.text.removeprefix("\ufeff")), len(self.text.rstrip("\r\n \t"))

    def _read(self, text: str) -> Any:
        """The text as memkit's reader parses it."""
        from memkit.formats.syntax.yaml_nodes import load_yaml

        try:
            return next(load_yaml(text), None)
        except StructureError as error:
            raise ChangeRefusedError(f"line {error.line}: it is no YAML ({error}).") from error

    def _set(self, path: list[str], value: Any) -> Splice:
        place, newline = self._top, line_end(self.text)
        try:
            for step in path:
                place = _value_of(place, step)
        except KeyError:
            if len(path) > 1 or value is None:
                raise ChangeRefusedError(f"there is no field {'.'.join(path)!r}.") from None
            line = block({path[-1]: value}, loose=self.loose).removesuffix("\n").replace("\n", newline)
            return Splice(self.end, self.end, f"{newline}{line}" if self._inner else line)
        inner = _replacement(self._inner, place, value, newline, self.loose and path[-1] not in WORDED)
        return Splice(self.start + inner.start, self.start + inner.end, inner.text)


class Head(Yaml):
    """The front matter of a Markdown file, as a `Yaml`.

    Parameters
    ----------
    text : str
        The whole file.

    Raises
    ------
    ChangeRefusedError
        Where there is no front matter, or none that can be parsed.

    Examples
    --------
    >>> text = "---\\nid: 1 # mine\\nkeywords: [a,  b]\\n---\\nчай"
    >>> print(spliced(text, [Head(text).set_value(["id"], "x")]))
    ---
    id: x # mine
    keywords: [a,  b]
    ---
    чай
    """

    loose = True

    def rename(self, key: str, name: str) -> Splice:
        """The replacement that renames a field.

        Raises
        ------
        ChangeRefusedError
            Where its place is not certain.

        Examples
        --------
        >>> text = "---\\nold:  1 # x\\n---\\n"
        >>> print(spliced(text, [Head(text).rename("old", "new")]), end="")
        ---
        new:  1 # x
        ---
        """
        names = [node for node, _ in self._top.value if node.id == "scalar" and node.value == key]
        if len(names) != 1:
            raise ChangeRefusedError(f"field {key!r} stands there {len(names)} times; once is expected.")
        start, end = (self.start + mark.index for mark in (names[0].start_mark, names[0].end_mark))
        return Splice(start, end, scalar(name))

    def _bounds(self) -> tuple[int, int]:
        front = front_matter.split(plain_lines(self.text))
        if front and front.syntax != "YAML":
            raise ChangeRefusedError(f"its front matter is {front.syntax}; only YAML between '---' lines is changed.")
        opening = _OPENING.match(self.text)
        closing = _CLOSING.search(self.text, opening.end() - 1) if opening else None
        if opening is None or closing is None:
            raise ChangeRefusedError("it has no front matter.")
        return opening.end(), max(closing.start(), opening.end())

    def _read(self, text: str) -> Any:
        front = front_matter.split(text)
        if front is None or front.fault:
            raise ChangeRefusedError("its front matter cannot be parsed.")
        return front.fields


def plain_lines(text: str) -> str:
    """`text` as readers see it: without a byte order mark, each line end a line feed.

    >>> plain_lines("\\ufeffчай\\r\\nмёд")
    'чай\\nмёд'
    """
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def line_end(text: str | None) -> str:
    """The line end that a text has, or that a new one gets.

    >>> line_end("чай\\r\\n"), line_end(None)
    ('\\r\\n', '\\n')
    """
    return "\r\n" if text and "\r\n" in text else "\n"


def _value_of(node: Any, key: str) -> Any:
    """The node of a key.

    Raises
    ------
    KeyError
        Where there is none.
    """
    if node.id != "mapping":
        raise ChangeRefusedError(f"there is no mapping with {key!r}.")
    values = [value for name, value in node.value if name.id == "scalar" and name.value == key]
    if len(values) > 1:
        raise ChangeRefusedError(f"field {key!r} stands there twice; which one counts is not for memkit to say.")
    if not values:
        raise KeyError(key)
    return values[0]


def _replacement(head: str, node: Any, value: Any, newline: str, loose: bool) -> Splice:
    start, end = node.start_mark.index, node.end_mark.index
    is_list = node.id == "sequence" and not node.flow_style
    if node.id == "mapping" or (node.id == "scalar" and node.style in ("|", ">")):
        raise ChangeRefusedError("the value is spread over lines in a way that is left alone.")
    if is_list:
        end = start + len(head[start:end].rstrip())
    if not (node.id == "scalar" and node.style) and "#" in head[start:end]:
        raise ChangeRefusedError("a comment stands within the value.")
    if isinstance(value, list) and is_list and value:
        indent = " " * node.start_mark.column
        new = f"{newline}{indent}".join(f"- {scalar(item, loose=loose)}" for item in value)
    elif isinstance(value, list):
        if is_list or node.id != "sequence":
            raise ChangeRefusedError("a list can take the place of a list alone.")
        new = f"[{', '.join(scalar(item, loose=loose) for item in value)}]"
    elif is_list:
        raise ChangeRefusedError("only a list can take the place of a list.")
    else:
        new = _like(head[start:end], value, loose)
    return Splice(start, end, f" {new}" if head[:start].endswith(":") else new)


def _like(before: str, value: Any, loose: bool) -> str:
    """A scalar in the same quotes as the one before, where they can hold it."""
    if isinstance(value, str) and before[:1] == "'" and value.isprintable():
        quote = "'"
        return quote + (quote * 2).join(value.split(quote)) + quote
    if isinstance(value, str) and before[:1] == '"':
        return quoted(value)
    return scalar(value, loose=loose)


def _compare(before: Any, after: Any, path: list[str], value: Any) -> None:
    """Raise where a change would alter how anything but the one value is parsed."""
    rest_before, rest_after = _set_in(before, path, None), _set_in(after, path, None)
    read: Any = after
    for step in path:
        read = read.get(step) if isinstance(read, dict) else None
    if rest_before != rest_after or read != _as_read(value):
        raise ChangeRefusedError(f"a change of {'.'.join(path)!r} would change more, or be read as something else.")


def _set_in(value: Any, path: list[str], new: Any) -> Any:
    if not path or not isinstance(value, dict):
        return new
    return {**value, path[0]: _set_in(value.get(path[0]), path[1:], new)}


def _as_read(value: Any) -> Any:
    """A written value as the reader gives it back: text, or null."""
    if isinstance(value, list):
        return [_as_read(item) for item in value]
    return value if value is None or isinstance(value, str) else scalar(value)
