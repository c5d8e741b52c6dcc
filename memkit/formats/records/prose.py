"""Prose within JSON of a shape that no format describes: the text of a record, and the records of a file.

The one rule: the text of a record is the longest of its fields that is prose, however deep it lies. Prose has words, at
least `LEAST_WORDS`, and is no markup; so keys, paths, numbers and base64 are none. A record of which hardly any is
prose has no text, nor have objects that set up a program (`_SETTINGS`, `sets_up`), whatever they describe in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memkit.formats.spelling import CREATED, IDS, OWNERS, TAGS, UPDATED, plain
from memkit.formats.syntax.json import Node

LEAST_WORDS = 3
LEAST_LETTERS = 0.4
"""The least share of letters among the signs of prose that are no blanks."""
LONGEST_WORD = 25
"""The most signs of prose, on average, from one blank to the next: base64 that is cut into lines has 64 and more."""
LEAST_SHARE, LONG = 0.05, 100
"""The least share of prose among the signs of a record's strings, of each at most so many: a picture is one string."""
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]{2,}+")
"""A word; in a script that writes no blanks between words, a sign."""
_MARKUP = re.compile(r"\s*+(?:<[!?/a-zA-Z]|\{\\|@import\b|data:\w++/)")
"""How HTML, XML, SVG, RTF, a style sheet and an embedded file begin."""
_PROGRAM = re.compile(r"[~^v]?\d+\.\d+\.\d+(?:[-+.].*)?")
"""The version of a program."""
_SETTINGS = (
    {"$schema"},
    {"dependencies"},
    {"devDependencies"},
    {"lockfileVersion"},
    {"compilerOptions"},
    {"manifest_version"},
    {"minAppVersion"},
    {"openapi"},
    {"swagger"},
    {"contributes"},
    {"short_name", "icons"},
    {"version", "tasks"},
    {"version", "configurations"},
    {"type", "properties"},
)
"""Keys that together tell an object that sets up a program, or describes data: packages, locks, manifests, schemas."""

_OPAQUE = re.compile(r"\s*+(?:data:[^,]{1,100},)?[A-Za-z0-9+/=_\s-]{40,}+")
LEAST_OPAQUE = 40
"""The least signs from one blank to the next of what is base64 or hexadecimal; no word is as long."""
_OF_SETTINGS = re.compile(
    r"(?:settings?|config(?:uration)?|preferences|options|launch|tasks|extensions|keybindings|настройки)(?:[._-].*)?\.json"
    r"|.*(?:rc|[._-](?:settings|config))\.json",
    re.IGNORECASE,
)
"""The names of files that set up a program."""
_OF_MEMORY = frozenset((*IDS, *CREATED, *UPDATED, *TAGS, *OWNERS, "timestamp", "key"))
"""Fields that a memory has and settings do not, by their plain names."""
LONG_BANNER = 200
"""The most signs of the one thing that a file of switches says."""

Place = tuple[str | int, ...]
"""The keys and numbers that lead from a record to a value within it."""


@dataclass(frozen=True, slots=True)
class Prose:
    """A text within a record, and where it lies."""

    text: str
    place: Place


def is_prose(text: str) -> bool:
    """Whether a string is something said.

    >>> [is_prose(text) for text in ("Анна пьёт чай", "用户喜欢喝茶", "aGVsbG8gd29ybGQh" * 9, "<p>tea for two</p>")]
    [True, True, False, False]
    """
    if _MARKUP.match(text):
        return False
    words = text.split()
    signs, found = sum(map(len, words)), _WORD.findall(text)
    if sum(map(len, found)) < LEAST_LETTERS * signs:
        return False
    if 2 * sum(len(word) == 1 for word in found) > len(found) >= LEAST_WORDS:
        return True  # a script without blanks
    said = sum(map(bool, map(_WORD.search, words)))
    return said >= LEAST_WORDS and signs <= LONGEST_WORD * len(words)


def is_opaque(text: str) -> bool:
    """Whether a string is base64 or hexadecimal, which nobody reads, whatever its field is called.

    >>> [is_opaque(text) for text in ("aGVsbG8gd29ybGQh" * 9, "Anna drinks tea", "https://example.org/" + "a" * 50)]
    [True, False, False]
    """
    words = text.split()
    return _OPAQUE.fullmatch(text) is not None and min(map(len, words[:-1] or words), default=0) >= LEAST_OPAQUE


def sets_up(name: str, record: Any) -> bool:
    """Whether the one object of a file sets up a program: by the file's name, or by switches beside one short sentence.

    A memory's fields say no.

    >>> sets_up("ui.json", {"autoSave": True, "banner": "Welcome to the editor"})
    True
    >>> sets_up("m.json", {"id": "m1", "pinned": True, "note": "Anna drinks tea"})
    False
    """
    if not isinstance(record, dict) or any(plain(key) in _OF_MEMORY for key in record):
        return False
    if _OF_SETTINGS.fullmatch(name):
        return True
    values = [inner for value in record.values() for inner in (value.values() if isinstance(value, dict) else [value])]
    said = [len(string.text) for string in strings_in(record) if is_prose(string.text)]
    return any(isinstance(value, bool) for value in values) and len(said) == 1 and said[0] <= LONG_BANNER


def strings_in(value: Any) -> Iterator[Prose]:
    """Every string within a value and where it lies, in order; objects that set up a program have none."""
    stack: list[tuple[Any, Place]] = [(value, ())]
    while stack:
        value, place = stack.pop()
        if isinstance(value, str):
            yield Prose(value, place)
        elif isinstance(value, dict):
            if not is_settings(value):
                stack += [(inner, (*place, key)) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(inner, (*place, number)) for number, inner in reversed([*enumerate(value)])]


def longest_in(record: Any) -> Prose | None:
    """The text of a record: the longest prose in it, the first of equal ones; None where hardly any of it is prose.

    >>> longest_in({"key": "a1", "value": {"content": "Анна пьёт чай", "kind": "fact"}})
    Prose(text='Анна пьёт чай', place=('value', 'content'))
    """
    longest, said, written = None, 0, 0
    for string in strings_in(record):
        written += min(len(string.text), LONG)
        if is_prose(string.text):
            said += len(string.text)
            longest = max(longest or string, string, key=lambda one: len(one.text))
    return longest if said >= LEAST_SHARE * written else None


def is_settings(value: dict[str, Any]) -> bool:
    """Whether an object sets up a program.

    >>> is_settings({"id": "my-plugin", "version": "1.0.0"}), is_settings({"id": "m1", "note": "Anna drinks tea"})
    (True, False)
    """
    if any(keys <= value.keys() for keys in _SETTINGS):
        return True
    version = value.get("version")
    if not isinstance(version, str) or not _PROGRAM.fullmatch(version) or not {"name", "id"} & value.keys():
        return False
    return not any(plain(key) in (*CREATED, *UPDATED) for key in value)


def records_of(document: Any) -> list[Any]:
    """The records of a document: of its lists, and its objects of objects, the one that says most; else itself.

    The first record has under ``(file)`` what the document says besides; one of an object has its key as ``key``.

    >>> records_of(Node(agent="a", blocks=[Node(value="Анна пьёт чай"), Node(value="Борис пьёт кофе")]))
    [{'value': 'Анна пьёт чай', '(file)': {'agent': 'a'}}, {'value': 'Борис пьёт кофе'}]
    """
    if not isinstance(document, Node):
        return document if isinstance(document, list) else [document]
    said = [(string.place, len(string.text)) for string in strings_in(document) if is_prose(string.text)]
    by_holder: dict[Place, int] = {}
    for place, length in said:
        for holder in _holders(document, place):
            by_holder[holder] = by_holder.get(holder, 0) + length
    if not by_holder:
        return [document]
    holder = max(by_holder, key=lambda place: (by_holder[place], -len(place)))
    if by_holder[holder] <= sum(length for place, length in said if holder != place[: len(holder)]):
        return [document]
    held = _at(document, holder)
    records = [_with_key(key, value) for key, value in held.items()] if isinstance(held, dict) else list(held)
    first = next((record for record in records if isinstance(record, Node)), None)
    if first is not None and (rest := without(document, holder)):
        first.setdefault("(file)", rest)  # once, not in each: a file of many records would grow as their square
    return records


def _holders(document: Node, place: Place) -> Iterator[Place]:
    """The outermost list that leads to a place, and each object of objects above it."""
    value: Any = document
    for depth, step in enumerate(place):
        if isinstance(value, list):
            yield place[:depth]
            return
        if len(value) > 1 and all(isinstance(inner, Node) for inner in value.values()):
            yield place[:depth]
            return
        value = value[step]


def _at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


def _with_key(key: str, value: Any) -> Any:
    if isinstance(value, Node):
        value.setdefault("key", key)
    return value


def without(record: Any, place: Place) -> Any:
    """A copy of an object without what lies at a place; what held it stays, so that one can see where it was.

    >>> without({"key": 1, "value": {"content": "чай"}}, ("value", "content"))
    {'key': 1, 'value': {}}
    """
    if not place:
        return {} if isinstance(record, dict) else None
    step, rest = place[0], place[1:]
    if isinstance(record, dict):
        copy = dict(record)
        if rest:
            copy[str(step)] = without(copy[str(step)], rest)
        else:
            del copy[str(step)]
        return copy
    items = list(record)
    items[int(step)] = without(items[int(step)], rest) if rest else None
    return items


def objects_above(record: Any, place: Place) -> list[dict[str, Any]]:
    """The objects within a record that lead to a place, innermost first."""
    return [value for value in _above(record, place)[1:] if isinstance(value, dict)][::-1]


def lists_above(record: Any, place: Place) -> list[list[Any]]:
    """The lists of a record that lead to a place, outermost first."""
    return [value for value in _above(record, place) if isinstance(value, list)]


def _above(value: Any, place: Place) -> list[Any]:
    above = []
    for step in place:
        above.append(value)
        value = value[step]
    return above
