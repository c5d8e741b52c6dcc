"""Notes: one Markdown file a memory, with front matter id, subject, keywords, applies_to, created_at, updated_at.

The later variant has one date, ``occurred_at`` (and a ``content_hash``): created and updated are both that.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from memkit.fences import fences
from memkit.formats.disk.source import Source
from memkit.formats.format import MARKDOWN, File, Format, Rule, length, matches, missing
from memkit.formats.notes.batch import read_plain
from memkit.formats.rows import Row, Rows, extra_of
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.node import Node
from memkit.formats.syntax.values import loose_words, text_of, time_of, words_of

FIELDS = ("id", "subject", "keywords", "applies_to", "created_at", "updated_at", "occurred_at", "content_hash")
_REQUIRED = FIELDS[:6]
_DATES = ("created_at", "updated_at", "occurred_at")


def _claims(file: File) -> bool:
    """Whether front matter is a note's: id and subject, or enough of the other fields to be one with gaps."""
    if file.front is None:
        return False
    fields = file.front.fields
    if "id" in fields and "subject" in fields:
        return True
    return ("subject" in fields or "applies_to" in fields) and sum(name in fields for name in FIELDS[:7]) >= 3


def parse(file: File, rows: Rows) -> None:
    """One note to its rows of memories, notes and problems."""
    note = _Note(file.source, file.front or FrontMatter(Node(), 0, 1), rows)
    note.read_words()
    note.read_dates()
    note.keep_rest()
    note.check()
    rows.own_id(note.memory_id, file.source.path, note.fields.lines.get("id"), "id", "note", note.id)
    rows.add("memories", note.memory)
    rows.add("notes", note.note)


class _Note:
    """One note under way: `memory` and `note` are its rows."""

    def __init__(self, source: Source, front: FrontMatter, rows: Rows) -> None:
        self.source, self.front, self.rows, self.fields = source, front, rows, front.fields
        self.id = text_of(self.fields.get("id"))
        self.memory_id = rows.new_id("notes", source.path, self.id or 1, source.text)
        body = source.text if front.fault else source.text[front.body_at :]
        self.body = body
        first = 1 if front.fault else front.body_line
        self.memory: Row = {
            "memory_id": self.memory_id,
            "format": "notes",
            "kind": "note",
            "source_id": self.id,
            "text": body,
            "path": source.path,
            "line_start": first,
            "line_end": max(first, first + body.count("\n") - body.endswith("\n")),
        }
        self.note: Row = {"memory_id": self.memory_id, "path": source.path, "id": self.id}
        self.mistyped: set[str] = set()

    def problem(self, rule: str, field: str | None, expected: str, got: Any, line: int | None = None) -> None:
        if self.front.fault and rule != "unparsable":
            return  # what single lines gave was not written as these fields
        line = line or self.fields.lines.get(field or "", None)
        self.rows.problem(rule, self.source.path, expected, got, line=line, field=field, memory_id=self.memory_id)

    def read_words(self) -> None:
        fields = self.fields
        subject, scope = text_of(fields.get("subject")), text_of(fields.get("applies_to"))
        keywords = words_of(fields.get("keywords"))
        if keywords is None and fields.get("keywords") is not None:
            self.problem("bad_value", "keywords", "a list of strings", fields["keywords"])
            keywords = loose_words(fields["keywords"])
            self.mistyped.add("keywords")
        texts = ("id", "subject", "applies_to", "content_hash")
        self.mistyped |= {name for name in texts if fields.get(name) is not None and text_of(fields[name]) is None}
        kind, _, target = (scope or "").partition(":")
        self.memory |= {"title": subject or "", "tags": keywords or [], "scope": scope}
        self.note |= {
            "subject": subject,
            "keywords": keywords,
            "applies_to": scope,
            "applies_kind": kind if kind in ("global", "file", "area") else None,
            "applies_target": target or None,
            "content_hash": text_of(fields.get("content_hash")),
            "body_chars": len(self.body.strip()),
        }

    def read_dates(self) -> None:
        dates: dict[str, datetime | None] = {}
        for name in _DATES:
            value = self.fields.get(name)
            dates[name] = time_of(value) if value is not None else None
            if value is not None and dates[name] is None:
                self.problem("bad_date", name, "an ISO 8601 time stamp", value)
                self.mistyped.add(name)
        self.note["occurred_at"] = dates["occurred_at"]
        for name in ("created_at", "updated_at"):
            self.memory[name] = self.note[name] = dates[name] or dates["occurred_at"]
        self.memory["updated_at"] = self.note["updated_at"] = self.note["updated_at"] or self.note["created_at"]

    def keep_rest(self) -> None:
        """Put into extra what has no column, and what its column cannot hold."""
        self.rows.repeated(self.fields, self.source.path, None, self.memory_id)
        extra = extra_of(self.fields, {*FIELDS} - self.mistyped)
        self.memory["extra"] = self.note["extra"] = extra

    def check(self) -> None:
        fields, source = self.fields, self.source
        if self.front.fault:
            fault = self.front.fault
            self.problem("unparsable", None, "front matter in YAML", str(fault), fault.line)
            return
        for name in _REQUIRED:
            later = name in ("created_at", "updated_at") and "occurred_at" in fields
            if fields.get(name) is None and not later:
                self.problem("missing_field", name, "", "nothing", 1)
        tried: Row = {name: fields.get(name) for name in ("subject", "applies_to")}
        tried |= {"keywords": self.note["keywords"], "content": self.body}
        lines = {**fields.lines, "content": self.memory["line_start"]}
        self.rows.check(tried, source.path, self.memory_id, None, lines)
        self._check_id()
        if unclosed := fences(self.body).unclosed:
            line = self.memory["line_start"] + unclosed - 1
            self.problem("unbalanced_fence", None, "a code fence that is closed", "no end", line)

    def _check_id(self) -> None:
        if self.id is None:
            return
        try:
            version = UUID(self.id).version
        except ValueError:
            self.problem("bad_value", "id", "a UUID", self.id)
        else:
            self.note["uuid_version"] = version
            if version != 4:
                self.problem("not_uuid4", "id", "a UUID of version 4", f"version {version}")
        if self.source.stem != self.id:
            self.problem("name_mismatch", "id", "the file's name", self.id)


def _keywords_short(value: object) -> bool:
    lengths = list(map(len, map(str, value))) if isinstance(value, list) else [0]
    return not lengths or (min(lengths) >= 1 and max(lengths) <= 50)


FORMAT = Format(
    "notes",
    "Markdown with front matter id, subject, keywords, applies_to",
    kinds=("note",),
    tables=("notes",),
    endings=MARKDOWN,
    claims=_claims,
    parse=parse,
    batch=read_plain,
    rules=(
        *missing("notes", "front matter", " ".join(_REQUIRED)),
        Rule("bad_value", "notes", "id", "a UUID"),
        Rule("not_uuid4", "notes", "id", "a UUID of version 4"),
        Rule("name_mismatch", "notes", "id", "the id as the file's name"),
        Rule("bad_value", "notes", "subject", "1 to 200 characters", length(1, 200)),
        Rule("bad_value", "notes", "keywords", "1 to 20 keywords", lambda v: isinstance(v, list) and 1 <= len(v) <= 20),
        Rule("bad_value", "notes", "keywords", "keywords of 1 to 50 characters each", _keywords_short),
        Rule(
            "bad_value", "notes", "applies_to", "global, file:<path> or area:<name>", matches("global|file:.+|area:.+")
        ),
        *(Rule("bad_date", "notes", name, "an ISO 8601 time stamp") for name in _DATES),
        Rule("bad_value", "notes", "content", "at least 10 characters", length(10)),
        Rule("unbalanced_fence", "notes", "", "a code fence that is closed"),
    ),
)
