"""Where the parts of a JSON text stand, and the few changes that leave every other character as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # the stubs leave it out
from typing import Any, NamedTuple

from memkit.errors import ChangeRefusedError
from memkit.formats.syntax.json import load_json
from memkit.formats.syntax.node import StructureError

_BLANK = re.compile(r"[ \t\n\r]*")
_TALL = re.compile(r"\[\s*\n\s*[^\s{\[\]]")
"""A list of plain values that stands over lines."""
_DECODER = json.JSONDecoder(strict=False)


class Splice(NamedTuple):
    """One piece of a text, and what is to stand in its place."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Part:
    """A member of an object or an item of a list: where it begins (a member with its key), its value, where it ends."""

    key: str | None
    start: int
    value: int
    end: int


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """`text` with pieces in the place of others; what is put in at one place stands there in the order given.

    Examples
    --------
    >>> spliced("чай и мёд", [Splice(4, 5, "или"), Splice(6, 9, "лимон")])
    'чай или лимон'
    """
    ordered = sorted(splices, key=lambda splice: splice[:2])
    for splice in ordered[::-1]:
        text = text[: splice.start] + splice.text + text[splice.end :]
    return text


def with_values(text: str, values: Mapping[str, Any], set_one: Callable[[str, str, Any], Splice]) -> str:
    """`text` with each of the named values in it, set one after the other."""
    for name, value in values.items():
        text = spliced(text, [set_one(text, name, value)])
    return text


def parts_at(text: str, start: int) -> list[Part]:
    """The members or items of the object or list that opens at `start`; none for any other value."""
    opening, found = text[start : start + 1], []
    if opening not in ("{", "["):
        return []
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        begin, key = at, None
        if opening == "{":
            key, at = scanstring(text, at + 1, False)
            at = _skip(text, _skip(text, at) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        found.append(Part(key, begin, at, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def start_of(text: str) -> int:
    """Where the document begins, behind a BOM and blanks.

    Raises
    ------
    ChangeRefusedError
        Where the text is no JSON.
    """
    start = _skip(text, len(text) - len(text.removeprefix("\ufeff")))
    try:
        load_json(text[start:])
    except StructureError as error:
        raise ChangeRefusedError(
            f"line {error.line}: it is no JSON ({error}), so no place in it is certain."
        ) from error
    return start


def find(text: str, path: Sequence[str | int], start: int | None = None) -> Part | None:
    """The part that keys and 0-based places lead to; None where there is none.

    Raises
    ------
    ChangeRefusedError
        For a key on the way that stands there twice.

    Examples
    --------
    >>> text = '{"files": [{"title": "Чай"}]}'
    >>> part = find(text, ["files", 0, "title"])
    >>> text[part.value : part.end]
    '"Чай"'
    """
    at = start_of(text) if start is None else start
    part: Part | None = Part(None, at, at, _DECODER.raw_decode(text, at)[1])
    for step in path:
        parts = parts_at(text, part.value) if part else []
        if isinstance(step, int):
            part = parts[step] if step < len(parts) else None
        else:
            named = [found for found in parts if found.key == step]
            if len(named) > 1:
                raise ChangeRefusedError(
                    f"field {step!r} stands there twice; which one counts is not for memkit to say."
                )
            part = named[0] if named else None
    return part


def set_value(text: str, path: Sequence[str | int], value: Any) -> Splice:
    """`value` in place of what the path leads to, or as a new last member of the object above it."""
    part = find(text, path)
    if part is not None:
        return Splice(part.value, part.end, written(text, value))
    above = find(text, path[:-1])
    if above is None or text[above.value : above.value + 1] != "{":
        raise ChangeRefusedError(f"there is no object at {'/'.join(map(str, path[:-1])) or 'the top'}.")
    member = f"{written(text, path[-1])}: {written(text, value)}"
    return _appended(text, above, member)


def append(text: str, path: Sequence[str | int], value: Any) -> Splice:
    """`value` as a new last item of the list that the path leads to."""
    above = find(text, path)
    if above is None or text[above.value : above.value + 1] != "[":
        raise ChangeRefusedError(f"there is no list at {'/'.join(map(str, path)) or 'the top'}.")
    parts = parts_at(text, above.value)
    lead = _lead(text, above, parts)
    return _appended(text, above, written(text, value, lead))


def append_all(text: str, path: Sequence[str | int], values: Sequence[Any]) -> list[Splice]:
    """`values` as new last items of a list, each a piece of its own; of an empty list all are one piece.

    Examples
    --------
    >>> spliced("[]", append_all("[]", [], [1, 2])), spliced("[0]", append_all("[0]", [], [1, 2]))
    ('[1,2]', '[0,1,2]')
    """
    above = find(text, path)
    if not values or above is None or parts_at(text, above.value):
        return [append(text, path, value) for value in values]
    first = append(text, path, values[0])
    whole = spliced(text, [first])
    for value in values[1:]:
        whole = spliced(whole, [append(whole, path, value)])
    return [Splice(first.start, first.end, whole[first.start : len(whole) - (len(text) - first.end)])]


def without(text: str, starts: Iterable[int]) -> list[Splice]:
    """What takes out the members and items that begin at `starts`, their commas included.

    Examples
    --------
    >>> text = '["чай", "мёд", "лимон"]'
    >>> spliced(text, without(text, [text.index('"мёд'), text.index('"лимон')]))
    '["чай"]'
    """
    wanted, splices = set(starts), []
    for parts in _holding(text, start_of(text), sorted(wanted)):
        gone = [part.start in wanted for part in parts]
        for at, part in enumerate(parts):
            if gone[at] and not (at and gone[at - 1]):
                end = next((place for place in range(at, len(parts)) if not gone[place]), len(parts))
                before, after = at > 0, end < len(parts)
                start = parts[at - 1].end if before and not after else part.start
                splices.append(Splice(start, parts[end].start if after else parts[end - 1].end, ""))
    return splices


def _holding(text: str, start: int, starts: list[int]) -> Iterator[list[Part]]:
    """The parts of each object or list that has one of `starts` right in it."""
    waiting = [(start, starts)]
    while waiting:
        at, inner = waiting.pop()
        parts = parts_at(text, at)
        own = {part.start for part in parts}
        if not own.isdisjoint(inner):
            yield parts
        rest = [place for place in inner if place not in own]
        for part in parts if rest else ():
            if within := [place for place in rest if part.value < place < part.end]:
                waiting.append((part.value, within))


def written(text: str, value: Any, lead: str = "") -> str:
    """`value` as JSON in the way of `text`: escaped where all is, and over lines where its neighbours are."""
    is_ascii = text.isascii() and "\\u" in text
    if "\n" not in lead:
        return json.dumps(value, ensure_ascii=is_ascii, allow_nan=False)
    newline, indent = ("\r\n" if "\r" in lead else "\n"), lead.rpartition("\n")[2]
    step = _step(text, indent)
    if _TALL.search(text):
        found = json.dumps(value, ensure_ascii=is_ascii, allow_nan=False, indent=step)
    else:
        found = pretty(value, step=step, is_ascii=is_ascii)
    return found.replace("\n", newline + indent)


def pretty(value: Any, indent: str = "", *, step: str = "  ", is_ascii: bool = False) -> str:
    """JSON as the documents show it: two blanks a level, a list of plain values on one line.

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

    def at(item: Any) -> str:
        return pretty(item, inner, step=step, is_ascii=is_ascii)

    if isinstance(value, Mapping) and value:
        members = (f"{inner}{json.dumps(key, ensure_ascii=is_ascii)}: {at(item)}" for key, item in value.items())
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (list, Mapping)) for item in value):
        return "[\n" + ",\n".join(f"{inner}{at(item)}" for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=is_ascii, allow_nan=False)


def _appended(text: str, above: Part, member: str) -> Splice:
    parts = parts_at(text, above.value)
    lead = _lead(text, above, parts)
    if parts:
        return Splice(parts[-1].end, parts[-1].end, f",{lead}{member}")
    newline = "\r\n" if "\r" in lead else "\n"
    outer = _indent_at(text, above.value)
    tail = f"{newline}{outer}" if "\n" in lead else ""
    return Splice(above.value + 1, above.end - 1, f"{lead}{member}{tail}")


def _lead(text: str, above: Part, parts: list[Part]) -> str:
    """The blank that stands before the last part, or would before a first one."""
    if parts:
        before = parts[-2].end if len(parts) > 1 else above.value
        blank = (
            text[before : parts[-1].start].partition(",")[2] if len(parts) > 1 else text[before + 1 : parts[-1].start]
        )
        is_airy = '": ' in text[above.value : above.end] or (len(parts) > 1 and "\n" not in text)
        return blank or (" " if is_airy else "")
    newline = "\r\n" if "\r\n" in text else "\n" if "\n" in text.strip() else ""
    outer = _indent_at(text, above.value)
    return f"{newline}{outer}{_step(text, outer)}" if newline else ""


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))].removeprefix("\ufeff")


def _step(text: str, indent: str) -> str:
    """What one level is indented by: as the text's first indented line has it."""
    match = re.search(r"\n([ \t]+)\S", text)
    found = match.group(1) if match else "  "
    return found if not indent or len(found) <= len(indent) else "  "


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
