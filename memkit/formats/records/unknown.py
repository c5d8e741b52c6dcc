"""JSON of a shape that no format describes: its objects are rows where most of them have a text, by name or as prose.

A host's record of a conversation (a transcript) is told by its keys, and only counted. Kind and format columns stay as
for other records, with no kind.

Without a field of that name, the text of a record is the longest of its fields that is prose, however deep it lies.
Prose has words, at least `LEAST_WORDS`, and is no markup; so keys, paths, numbers and base64 are none. Where it lies in
a list, what lies in the same field beside it is its text too: an outline has its blocks. A record of
which hardly any is prose has no text, nor have objects that set up a program (`_SETTINGS`, `sets_up`), whatever they
describe in words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from memkit.base import late_pattern
from memkit.formats.disk.source import Source
from memkit.formats.fields import TIME
from memkit.formats.rows import Rows, extra_of
from memkit.formats.spelling import (
    CREATED,
    END,
    ENDS,
    EXPIRES,
    IDS,
    OWNERS,
    STATUS,
    TAGS,
    TITLES,
    TYPES,
    UPDATED,
    end_by,
    end_in,
    end_of,
    first_of,
    is_held,
    loose_words,
    measures_in,
    names_somebody,
    plain,
    states_date,
    status_in,
    status_of,
    text_of,
    time_of,
    unread_measures,
    words_of,
)
from memkit.formats.syntax.nodes import Node

# A guess: names of things have one or two words.
LEAST_WORDS = 3
# Chosen, as the numbers below, on exports of many programs' notes and chats.
LEAST_LETTERS = 0.4
"""The least share of letters among the signs of prose that are no blanks."""
LONGEST_WORD = 25
"""The most signs of prose, on average, from one blank to the next: base64 that is cut into lines has 64 and more."""
LEAST_SHARE, LONG = 0.05, 100
"""The least share of prose among the signs of a record's strings, of each at most so many: a picture is one string."""
_WORD = late_pattern(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]{2,}+")
"""A word; in a script that writes no blanks between words, a sign."""
_MARKUP = re.compile(r"\s*+(?:<[!?/a-zA-Z]|\{\\|@import\b|data:\w++/)")
"""How HTML, XML, SVG, RTF, a style sheet and an embedded file begin."""
_PROGRAM = re.compile(r"[~^v]?\d+\.\d+\.\d+(?:[-+.].*)?")
"""The version of a program."""
_SETTINGS = (
    {"$schema"},
    {"dependencies"},
    {"devDependencies"},
    {"name", "require"},
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
    {"source_code"},
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

_BESIDE = ("(file)", "(conversation)")
"""Keys under which the first record has what its file or conversation says besides: no text of its own."""
Place = tuple[str | int, ...]
"""The keys and numbers that lead from a record to a value within it."""


class Prose(NamedTuple):
    """A text within a record, where it lies, that of a list its longest part, and where all of its parts lie."""

    text: str
    place: Place
    parts: tuple[Place, ...] = ()


def is_prose(text: str) -> bool:
    """Whether a string is something said.

    >>> [is_prose(text) for text in ("Анна пьёт чай", "用户喜欢喝茶", "aGVsbG8gd29ybGQh" * 9, "<p>tea for two</p>")]
    [True, True, False, False]
    """
    if _MARKUP.match(text):
        return False
    words = text.split()
    signs, found = sum(map(len, words)), _WORD().findall(text)
    if sum(map(len, found)) < LEAST_LETTERS * signs:
        return False
    if 2 * sum(len(word) == 1 for word in found) > len(found) >= LEAST_WORDS:
        return True  # a script without blanks
    said = sum(map(bool, map(_WORD().search, words)))
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
    """Every string within a value and where it lies, in order; objects that set up a program have none, nor has what
    lies beside a record.
    """
    stack: list[tuple[Any, Place]] = [(value, ())]
    while stack:
        value, place = stack.pop()
        if isinstance(value, str):
            yield Prose(value, place)
        elif isinstance(value, dict):
            if not is_settings(value):
                stack += [(inner, (*place, key)) for key, inner in reversed(value.items()) if key not in _BESIDE]
        elif isinstance(value, list):
            stack += [(inner, (*place, number)) for number, inner in reversed([*enumerate(value)])]


def longest_in(record: Any) -> Prose | None:
    """The text of a record: the longest prose in it, the first of equal ones; None where hardly any of it is prose.

    >>> longest_in({"key": "a1", "value": {"content": "Анна пьёт чай", "kind": "fact"}}).place
    ('value', 'content')
    >>> longest_in({"title": "Чай", "blocks": [{"line": "Анна пьёт чай", "blocks": [{"line": "чёрный"}]}]}).text
    'Анна пьёт чай\\nчёрный'
    """
    strings = [*strings_in(record)]
    prose = [string for string in strings if is_prose(string.text)]
    said, written = sum(len(one.text) for one in prose), sum(min(len(one.text), LONG) for one in strings)
    if not prose or said < LEAST_SHARE * written:
        return None
    place = max(prose, key=lambda one: len(one.text)).place
    there = [one for one in strings if _field_of(one.place) == _field_of(place) and one.text.strip()]
    parts = [one for one in there if not (_MARKUP.match(one.text) or is_opaque(one.text))]
    return Prose("\n".join(part.text for part in parts), place, tuple(part.place for part in parts))


def _field_of(place: Place) -> Place:
    """The keys that lead to a place, but for numbers and for what an outline repeats in each of its levels."""
    keys = [step for step in place if isinstance(step, str)]
    return tuple(key for key, before in zip(keys, [None, *keys], strict=False) if key != before)


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
    """The records of a document: of its lists, and its objects of objects, the one that says most, with the lists of
    objects beside it; else itself.

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
    best = max(by_holder, key=lambda place: (by_holder[place], -len(place)))
    beside = [place for place in by_holder if place[:-1] == best[:-1] and _holds_objects(document, place)]
    holders = dict.fromkeys(beside if best in beside else [best])  # nodes, and edges
    n_beside = sum(length for place, length in said if place[: len(best)] not in holders)
    if sum(map(by_holder.__getitem__, holders)) <= n_beside:
        return [document]
    records, rest = list[Any](), without(document, [best]) if best else {}
    for holder in holders:
        held = _at(document, holder)
        records += [_with_key(key, value) for key, value in held.items()] if isinstance(held, dict) else held
        if holder != best:
            del _at(rest, best[:-1])[holder[-1]]  # of the copy
    first = next((record for record in records if isinstance(record, Node)), None)
    if first is not None and rest:
        first.setdefault("(file)", rest)  # once, not in each: a file of many records would grow as their square
    return records


def _holds_objects(document: Node, place: Place) -> bool:
    """Whether a list of objects that are no turns lies at a place."""
    held = _at(document, place)
    return isinstance(held, list) and all(isinstance(item, Node) for item in held) and not is_transcript(held)


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


def without(record: Any, places: Iterable[Place]) -> Any:
    """A copy of an object without what lies at some places; what held it stays, so that one can see where it was.

    >>> without({"key": 1, "value": {"content": "чай"}}, [("value", "content")])
    {'key': 1, 'value': {}}
    """
    within: defaultdict[str | int, list[Place]] = defaultdict(list)
    for place in places:
        within[place[0]].append(place[1:])
    copy: Any = dict(record) if isinstance(record, dict) else list(record)
    for step, rest in within.items():
        if () in rest and isinstance(copy, dict):
            del copy[step]
        else:
            copy[step] = None if () in rest else without(copy[step], rest)
    return copy


def above(value: Any, place: Place, kind: type) -> list[Any]:
    """The lists or objects of a record that lead to a place, outermost first."""
    above = []
    for step in place:
        above.append(value)
        value = value[step]
    return [value for value in above if isinstance(value, kind)]


TEXTS = ("text", "content", "memory", "body", "note", "fact", "observation", "data", "textContent")
"""What the text of a memory is called, the surest name first; `description` and `message` name other things too."""
LISTS = (
    *("memories", "core_memory", "items", "results", "entries", "notes", "records", "facts", "data", "rows"),
    "messages",
)
"""Keys under which a document may hold its list."""
_CHATS, _TURNS = ("chats", "left_chats"), ("chat_messages", "messages")
"""Keys under which Telegram has chats, each in a ``list``, and under which a conversation has its turns."""
# A round bound: larger JSON is mostly data of a program.
MAX_BYTES = 2**20
"""Larger files are only named, unless ``json='rows'`` asks for their rows."""
_TRANSCRIPTS = (
    {"sessionId", "type"},
    {"parentUuid"},
    {"role", "content"},
    {"role", "parts"},
    {"type", "message"},
    {"type", "payload", "timestamp"},
    {"author", "content", "create_time"},
    {"sender", "text", "uuid"},
    {"date_unixtime", "text"},
)
"""Keys that together tell a turn of a host's transcript."""
_OF_ITEM = ("metadata", "temporal")
_WITHIN = ("message", "payload", "content")
_IN_PIECES = "text"
"""The field whose list has the pieces of one text: words, links and bold words of a message in Telegram."""
# Enough to tell a transcript, whose items are alike; the list may have a million.
_FIRST_ITEMS = 20
_CREATED = (*CREATED, "timestamp", "ts", "datetime", "time", "createtime", "createdtimestampusec", "sentat", "senddate")
_COLUMNS = {"source_id": IDS, "title": TITLES, "user_id": OWNERS, "scope": TYPES}


def unlisted(value: Any) -> list[Any]:
    """The items of a document: those of its list, or itself; for each conversation its turns.

    The first item of a list has what else the document says.

    >>> unlisted(Node(results=[1, 2])), unlisted([3]), unlisted("a")
    ([1, 2], [3], ['a'])
    >>> unlisted(Node(owner="anna", results=[Node(text="чай")]))
    [{'text': 'чай', '(file)': {'owner': 'anna'}}]
    """
    if isinstance(value, Node):
        listed = [name for name in LISTS if isinstance(value.get(name), list)][:1]
        listed = [] if listed == ["messages"] and said_in(value, 0) else listed  # what a memory was made of
        chats = [name for name in _CHATS if isinstance(value.get(name), Node)]
        items = value[listed[0]] if listed else [chat for name in chats for chat in _list_in(value[name], ("list",))]
        if rest := {key: field for key, field in value.items() if key not in (listed or chats)}:
            first = next((item for item in items if isinstance(item, Node)), None)
            if first is not None:  # once, not in each: a file of many items would grow as their square
                first.setdefault("(file)", rest)
        value = items if listed or items else [value]
    return [turn for item in (value if isinstance(value, list) else [value]) for turn in _turns(item)]


def _turns(item: Any) -> list[Any]:
    """The turns of a conversation as chat programs export it (`mapping`, `chat_messages`); else the item itself.

    Each turn has the title of its conversation, the first one all of its fields.
    """
    if not isinstance(item, Node):
        return [item]
    if isinstance(boxes := item.get("listContent"), list):  # Google Keep: the text of a note with boxes
        lines = (
            f"- [{'x' if box.get('isChecked') else ' '}] {box.get('text')}" for box in boxes if isinstance(box, Node)
        )
        item["textContent"] = "\n".join(lines)
        del item["listContent"]
    nodes, listed = item.get("mapping"), _list_in(item, _TURNS)
    if listed is item.get("messages") and (said_in(item, 0) or not is_transcript(listed)):
        return [item]
    if isinstance(nodes, dict):
        listed = [node.get("message") for node in nodes.values() if isinstance(node, dict)]
    turns = [turn for turn in listed if turn is not None]
    if not turns or not all(isinstance(turn, Node) for turn in turns):
        return [item]
    title = next(filter(None, (item.get(name) for name in TITLES)), None)
    for turn in turns:
        turn.setdefault("title", title)
    rest = {key: value for key, value in item.items() if key not in ("mapping", *_TURNS)}
    turns[0].setdefault("(conversation)", rest)
    return turns


def _list_in(item: Node, names: tuple[str, ...]) -> list[Any]:
    """The list that an object has under the first of some names."""
    return next((held for name in names if isinstance(held := item.get(name), list)), [])


def is_transcript(items: Sequence[Any]) -> bool:
    """Whether most of the first items are turns that a host recorded.

    >>> is_transcript([{"type": "user", "message": {}}]), is_transcript([{"text": "чай"}])
    (True, False)
    """
    few = items[:_FIRST_ITEMS]
    return 2 * sum(isinstance(one, dict) and any(keys <= one.keys() for keys in _TRANSCRIPTS) for one in few) > len(few)


def name_of_text(items: Sequence[Any]) -> str | None:
    """The field that holds the text of at least half of the items; None where there is none."""
    for name in TEXTS:
        having = [item for item in items if isinstance(item, dict) and _is_text(item.get(name))]
        having = [item for item in having if not is_opaque(item[name])]
        if items and 2 * len(having) >= len(items):
            return name
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def said_in(item: Any, depth: int = 2) -> str | None:
    """The text of an item: of its field, of the parts of that field, or of the message within it.

    >>> said_in({"message": {"role": "user", "content": [{"type": "text", "text": "чай"}]}})
    'чай'
    >>> said_in({"text": ["чай в ", {"type": "bold", "text": "пять"}, "."]})
    'чай в пять.'
    """
    if not isinstance(item, dict):
        return None
    for name in (*TEXTS, "parts"):
        value = item.get(name)
        if _is_text(value):
            return str(value)
        parts = value if isinstance(value, list) else []
        texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
        if lines := [str(text) for text in texts if _is_text(text)]:
            return "".join(lines) if name == _IN_PIECES else "\n".join(lines)
    inner = (said_in(item.get(name), depth - 1) for name in _WITHIN) if depth else iter(())
    return next(filter(None, inner), None)


def unread(item: Node) -> Iterator[tuple[str, object, str, str]]:
    """The fields of an object that should hold a date or a measure and hold none that can be read, in its metadata too:
    field, value, the code of the rule, what was expected.

    >>> fields = [*unread(Node(created="вчера", updated=None, time="10 minutes", date=1767323045, importance=7))]
    >>> [(field, value, code) for field, value, code, _ in fields]
    [('created', 'вчера', 'bad_date'), ('importance', 7, 'bad_value')]
    """
    begin = dates_in(_places(item))["updated_at"]
    for fields in (item, *(item.get(name) for name in _OF_ITEM)):
        for key, value in fields.items() if isinstance(fields, dict) else ():
            name = plain(key)
            is_unread = (name in (*CREATED, *UPDATED) and time_of(value) is None) or (
                name in EXPIRES and end_by(name, value, begin) is None
            )
            if is_unread and states_date(value):
                code = "bad_value" if names_somebody(value) else TIME.code
                yield key, value, code, END if name in EXPIRES else TIME.expected
        for key, value, rule in unread_measures(fields) if isinstance(fields, dict) else ():
            yield key, value, rule.code, rule.expected


def add_row(
    source: Source, rows: Rows, item: Node, lines: tuple[int, int], ordinal: int, prose: Prose | None = None
) -> str | None:
    """Add one object of an unknown shape as a memory, its text being `prose`; its id, or None where it has no text."""
    text = prose.text if prose else said_in(item)
    if text is None:
        return None
    places, names_of, rest = _places(item), _COLUMNS, item
    if prose:
        # Of fields of one name the record's own counts first, then the one nearest to the prose.
        places = [places[0], *map(_plain, above(item, prose.place, dict)[:0:-1]), *places[1:]]
        names_of = {**_COLUMNS, "source_id": (*IDS, "key")}
        rest = without(item, prose.parts)
    values = {name: first_of(places, names, text_of) for name, names in names_of.items()}
    measures, status, dates = measures_in(places), status_in(places), dates_in(places)
    expires = end_in(places, dates["updated_at"])
    tags = first_of(places, TAGS, lambda value: loose_words(value) or None) or []
    columns: list[tuple[tuple[str, ...], Callable[[object], Any], Any]]
    columns = [(names, text_of, values[name]) for name, names in names_of.items()]
    columns += [(_CREATED, time_of, dates["created_at"]), (UPDATED, time_of, dates["updated_at"]), (TAGS, _tags, tags)]
    columns += [(tuple(ENDS), end_of, expires), (STATUS, status_of, status)]
    known = [
        key
        for key, value in rest.items()
        if value == text
        or is_held(plain(key), value, measures)
        or any(
            plain(key) in names and (value is None or (read(value) is not None and read(value) == chosen))
            for names, read, chosen in columns
        )
    ]
    return rows.memory(
        "records",
        source.path,
        values["source_id"] or ordinal,
        text,
        **values | measures | dates | {"title": values["title"] or ""},
        tags=tags,
        expires_at=expires,
        status=status,
        line_start=lines[0],
        line_end=lines[1],
        extra=extra_of(rest, known),
    )


def _places(item: Node) -> list[dict[str, Any]]:
    """The fields of an object by their plain names, then those of the objects within it that say more of it."""
    inner = (item.get(name) for name in (*_OF_ITEM, *_WITHIN))
    return [_plain(item), *(_plain(fields) for fields in inner if isinstance(fields, dict))]


def dates_in(places: list[dict[str, Any]]) -> dict[str, datetime | None]:
    """When an object was created, and updated: from then on a length of its life counts; `places` as for `first_of`."""
    created = first_of(places, _CREATED, time_of)
    return {"created_at": created, "updated_at": first_of(places, UPDATED, time_of) or created}


def _tags(value: object) -> list[str] | None:
    return (words_of(value) if isinstance(value, list) else loose_words(value)) or None


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {plain(key): value for key, value in fields.items()}
