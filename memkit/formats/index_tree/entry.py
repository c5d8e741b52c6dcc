"""One entry of an index: its columns, and what it says of the file that it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memkit.formats.rows import Row, Rows, extra_of
from memkit.formats.syntax.node import Node
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
        for failed in rows.failing(name, value):
            problem(failed.code, name, failed.expected, raw)
    row["tags"] = row["tags"] if row["tags"] is not None else loose_words(entry.get("tags"))
    rows.repeated(entry, index, entry.line, memory_id)
    row["extra"] = extra_of(entry, taken)
    return row
