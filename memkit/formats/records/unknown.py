"""JSON of a shape that no format describes: its objects become rows where most of them have a text.

A host's record of a conversation (a transcript) is told by its keys, and only counted. Kind and format columns stay as
for other records, with no kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memkit.formats.disk.source import Source
from memkit.formats.rows import Rows, extra_of
from memkit.formats.spelling import CREATED, IDS, OWNERS, TAGS, TITLES, TYPES, UPDATED, first_of, plain
from memkit.formats.syntax.node import Node
from memkit.formats.syntax.values import loose_words, text_of, time_of

TEXTS = ("text", "content", "memory", "body", "note", "fact", "observation", "data")
"""What the text of a memory is called, the surest name first; `description` and `message` name other things too."""
LISTS = ("memories", "items", "results", "entries", "notes", "records", "facts", "data", "rows", "messages")
"""Keys under which a document may hold its list."""
MAX_BYTES = 2**20
"""Larger files are only named, unless ``json='rows'`` asks for their rows."""
_TRANSCRIPTS = (
    {"sessionId", "type"},
    {"parentUuid"},
    {"role", "content"},
    {"role", "parts"},
    {"type", "message"},
    {"type", "payload", "timestamp"},
)
"""Keys that together tell a turn of a host's transcript."""
_WITHIN = ("message", "payload")
_FIRST_ITEMS = 20
_CREATED = (*CREATED, "timestamp")
_COLUMNS = {"source_id": IDS, "title": TITLES, "user_id": OWNERS, "scope": TYPES}


def unlisted(value: Any) -> list[Any]:
    """The items of a document: those of its list, or itself.

    >>> unlisted(Node(results=[1, 2])), unlisted([3]), unlisted("a")
    ([1, 2], [3], ['a'])
    """
    if isinstance(value, Node):
        value = next((value[name] for name in LISTS if isinstance(value.get(name), list)), [value])
    return value if isinstance(value, list) else [value]


def is_transcript(items: Sequence[Any]) -> bool:
    """Whether most of the first items are turns that a host recorded.

    >>> is_transcript([{"type": "user", "message": {}}]), is_transcript([{"text": "чай"}])
    (True, False)
    """
    first_items = items[:_FIRST_ITEMS]
    turns = [
        item for item in first_items if isinstance(item, dict) and any(keys <= item.keys() for keys in _TRANSCRIPTS)
    ]
    return 2 * len(turns) > len(first_items)


def name_of_text(items: Sequence[Any]) -> str | None:
    """The field that holds the text of at least half of the items; None where there is none."""
    for name in TEXTS:
        having = [item for item in items if isinstance(item, dict) and _is_text(item.get(name))]
        if items and 2 * len(having) >= len(items):
            return name
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def said_in(item: Any, depth: int = 2) -> str | None:
    """The text of an item: of its field, of the parts of that field, or of the message within it.

    >>> said_in({"message": {"role": "user", "content": [{"type": "text", "text": "чай"}]}})
    'чай'
    """
    if not isinstance(item, dict):
        return None
    for name in (*TEXTS, "parts"):
        value = item.get(name)
        if _is_text(value):
            return str(value)
        parts = (
            [part["text"] for part in value if isinstance(part, dict) and _is_text(part.get("text"))]
            if (isinstance(value, list))
            else []
        )
        if parts:
            return "\n".join(parts)
    inner = (said_in(item.get(name), depth - 1) for name in _WITHIN) if depth else iter(())
    return next(filter(None, inner), None)


def add_row(source: Source, rows: Rows, item: Node, lines: tuple[int, int], ordinal: int) -> bool:
    """Add one object of an unknown shape as a memory; whether it has a text."""
    text = said_in(item)
    if text is None:
        return False
    fields = {plain(key): value for key, value in item.items()}
    places = [fields, *(_plain(item[name]) for name in ("metadata", *_WITHIN) if isinstance(item.get(name), dict))]
    values = {name: first_of(places, names, text_of) for name, names in _COLUMNS.items()}
    created, updated = first_of(places, _CREATED, time_of), first_of(places, UPDATED, time_of)
    used = {name for names in (*_COLUMNS.values(), _CREATED, UPDATED, TAGS) for name in names}
    known = [
        key for key, value in item.items() if value == text or (plain(key) in used and not isinstance(value, dict))
    ]
    rows.memory(
        "records",
        source.path,
        values["source_id"] or ordinal,
        text,
        **values | {"title": values["title"] or ""},
        tags=first_of(places, TAGS, lambda value: loose_words(value) or None) or [],
        created_at=created,
        updated_at=updated or created,
        line_start=lines[0],
        line_end=lines[1],
        extra=extra_of(item, known),
    )
    return True


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {plain(key): value for key, value in fields.items()}
