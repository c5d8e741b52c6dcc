"""One entry of an index: its columns, and the file that it names as a memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memkit.formats.disk.source import Source
from memkit.formats.rows import Row, Rows, extra_of, json_text
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.node import Node, StructureError
from memkit.formats.syntax.values import bool_of, day_of, integer_of, loose_words, text_of, words_of

REQUIRED = ("title", "file", "tags", "priority", "version", "updated")


@dataclass(frozen=True)
class Claim:
    """What an index says of one file, as plain data: the file's memory row but for its text.

    `parts` are the files whose bodies, in order, are the text; `stamp` changes when one of them does.
    """

    memory_id: str
    memory: tuple[tuple[str, Any], ...]
    parts: tuple[str, ...] = ()
    stamp: tuple[Any, ...] = ()


_TYPED: tuple[tuple[str, Callable[[object], Any], str, str], ...] = (
    ("title", text_of, "bad_value", "a string"),
    ("file", text_of, "bad_value", "a path"),
    ("tags", words_of, "bad_value", "a list of strings"),
    ("priority", text_of, "bad_value", "one of high, medium, low"),
    ("version", text_of, "bad_value", "a string"),
    ("updated", day_of, "bad_date", "a date YYYY-MM-DD"),
    ("summary", text_of, "bad_value", "a string"),
    ("context_priority", text_of, "bad_value", "one of high, medium, low"),
    ("pinned", bool_of, "bad_value", "true or false"),
    ("access_count", integer_of, "bad_value", "a whole number"),
    ("edit_count", integer_of, "bad_value", "a whole number"),
)


def typed(entry: Node, rows: Rows, index: str, memory_id: str, required: tuple[str, ...]) -> Row:
    """The columns of an entry; what has another type is a problem and stays in extra."""

    def problem(rule: str, name: str, expected: str, got: object) -> None:
        rows.problem(rule, index, expected, got, line=entry.line, field=name, memory_id=memory_id)

    row: Row = {}
    taken = []
    for name, read, rule, expected in _TYPED:
        raw = entry.get(name)
        row[name] = value = read(raw) if raw is not None else None
        if raw is None and name in required:
            problem("missing_field", name, "", "nothing")
        if raw is not None and value is None:
            problem(rule, name, expected, raw)
        else:
            taken.append(name)
        for failed in rows.failing("index_tree", name, value):
            problem(failed.code, name, failed.expected, raw)
    row["tags"] = row["tags"] if row["tags"] is not None else loose_words(entry.get("tags"))
    rows.repeated(entry, index, entry.line, memory_id)
    row["extra"] = extra_of(entry, taken)
    return row


def parse(source: Source, claim: Claim, bodies: list[Source], rows: Rows) -> None:
    """A claimed file to its memory: its body, or the bodies of its parts in order."""
    front = front_matter.split(source.text)
    text, first = _body(source)
    memory = dict(claim.memory)
    if front and front.fault:
        _fault(source, front.fault, claim, rows)
    elif front:
        memory["extra"] = _with_head(memory["extra"], front.fields)
        rows.repeated(front.fields, source.path, 1, claim.memory_id)
    if bodies:
        if text.strip():
            memory["extra"] = _with(memory["extra"], "body", text)
        text = "".join(_body(part)[0] for part in bodies)
    place = {"line_start": None if bodies else first, "line_end": None if bodies else _last(first, text)}
    rows.add("memories", {**memory, "text": text, "path": source.path, **place})
    if not text.strip():
        rows.problem("empty_text", source.path, "a file with text", "nothing", memory_id=claim.memory_id)


def _fault(source: Source, fault: StructureError, claim: Claim, rows: Rows) -> None:
    expected, memory_id = "front matter in YAML", claim.memory_id
    rows.problem("unparsable", source.path, expected, str(fault), line=fault.line, memory_id=memory_id, quote=False)


def _last(first: int, text: str) -> int:
    return max(first, first + text.count("\n") - text.endswith("\n"))


def _body(source: Source) -> tuple[str, int]:
    """What follows the front matter, and its first line; all of it where the front matter cannot be parsed."""
    front = front_matter.split(source.text)
    return (source.text[front.body_at :], front.body_line) if front and not front.fault else (source.text, 1)


def _with_head(extra: str, head: Node) -> str:
    """The entry's extra with the file's own front matter beside it."""
    return _with(extra, "front_matter", head) if head else extra


def _with(extra: str, key: str, value: object) -> str:
    beside = json_text({key: value})
    return beside if extra == "{}" else f"{extra[:-1]}, {beside[1:]}"
