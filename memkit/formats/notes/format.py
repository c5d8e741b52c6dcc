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
from memkit.formats.syntax.json import load_json
from memkit.formats.syntax.node import Node, StructureError
from memkit.formats.syntax.values import loose_words, text_of, time_of, words_in, words_of

FIELDS = ("id", "subject", "keywords", "applies_to", "created_at", "updated_at", "occurred_at", "content_hash")
LINES = (".jsonl", ".ndjson")
_ACTIONS = ("add", "delete", "embedding")
_BODIES = ("content", "body", "text")
"""Where a line of a log has the text of its note."""
_REQUIRED = FIELDS[:6]
_DATES = ("created_at", "updated_at", "occurred_at")


def _claims(file: File) -> bool:
    """Whether front matter is a note's: id and subject, or enough of the other fields to be one with gaps."""
    if file.has_ending(LINES):
        return _claims_log(file)
    if file.front is None:
        return False
    fields = file.front.fields
    if "id" in fields and "subject" in fields:
        return True
    return ("subject" in fields or "applies_to" in fields) and sum(name in fields for name in FIELDS[:7]) >= 3


def parse(file: File, rows: Rows) -> None:
    """One note to its rows of memories, notes and problems."""
    source, front = file.source, file.front or FrontMatter(Node(), 0, 1)
    if file.has_ending(LINES):
        _read_log(source, rows)
        return
    body = source.text if front.fault else source.text[front.body_at :]
    note = _Note(source, front, rows, body)
    note.read(1 if front.fault else front.body_line)
    if front.fault:
        note.problem("unparsable", None, "front matter in YAML", str(front.fault), front.fault.line)


class _Note:
    """One note under way: `memory` and `note` are its rows; in a log all of it stands on one line."""

    def __init__(self, source: Source, front: FrontMatter, rows: Rows, body: str, line: int | None = None) -> None:
        self.source, self.front, self.rows, self.fields = source, front, rows, front.fields
        self.body, self.line = body, line
        self.id = words_in(self.fields.get("id"))
        self.memory_id = rows.new_id("notes", source.path, self.id or line or 1, body)
        self.memory: Row = {}
        self.note: Row = {"memory_id": self.memory_id, "path": source.path, "id": self.id}
        self.mistyped: set[str] = set()

    def read(self, first: int) -> None:
        """Read and check every field, and add the rows."""
        body = self.body
        self.memory = {
            "memory_id": self.memory_id,
            "format": "notes",
            "kind": "note",
            "source_id": self.id,
            "text": body,
            "path": self.source.path,
            "line_start": first,
            "line_end": self.line or max(first, first + body.count("\n") - body.endswith("\n")),
        }
        self.read_words()
        self.read_dates()
        self.keep_rest()
        if not self.front.fault:
            self.check()
        line = self.line or self.fields.lines.get("id")
        self.rows.own_id(self.memory_id, self.source.path, line, "id", "note", self.id)
        self.rows.add("memories", self.memory)
        self.rows.add("notes", self.note)

    def problem(self, rule: str, field: str | None, expected: str, got: Any, line: int | None = None) -> None:
        if self.front.fault and rule != "unparsable":
            return  # what single lines gave was not written as these fields
        line = self.line or line or self.fields.lines.get(field or "", None)
        self.rows.problem(rule, self.source.path, expected, got, line=line, field=field, memory_id=self.memory_id)

    def read_words(self) -> None:
        fields = self.fields
        subject, scope = words_in(fields.get("subject")), text_of(fields.get("applies_to"))
        keywords = words_of(fields.get("keywords"))
        if keywords is None and fields.get("keywords") is not None:
            self.problem("bad_value", "keywords", "a list of strings", fields["keywords"])
            keywords = loose_words(fields["keywords"])
            self.mistyped.add("keywords")
        for name in ("id", "subject", "applies_to", "content_hash"):
            if fields.get(name) is not None and text_of(fields[name]) is None:
                self.problem("bad_value", name, "a string", fields[name])
                self.mistyped.add(name)
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
        if dates["created_at"] and dates["updated_at"] and dates["updated_at"] < dates["created_at"]:
            self.problem("bad_value", "updated_at", "a time not before created_at", self.fields["updated_at"])

    def keep_rest(self) -> None:
        """Put into extra what has no column, and what its column cannot hold."""
        self.rows.repeated(self.fields, self.source.path, None, self.memory_id)
        extra = extra_of(self.fields, {*FIELDS} - self.mistyped)
        self.memory["extra"] = self.note["extra"] = extra

    def check(self) -> None:
        fields, source = self.fields, self.source
        for name in _REQUIRED:
            later = name in ("created_at", "updated_at") and "occurred_at" in fields
            if fields.get(name) is None and not later:
                self.problem("missing_field", name, "", "nothing", 1)
        tried: Row = {name: fields.get(name) for name in ("subject", "applies_to") if name not in self.mistyped}
        tried |= {"keywords": self.note["keywords"], "content": self.body}
        lines = {**fields.lines, "content": self.memory["line_start"]}
        self.rows.check(tried, source.path, self.memory_id, self.line, {} if self.line else lines)
        self._check_id()
        if unclosed := fences(self.body).unclosed:
            line = self.line or self.memory["line_start"] + unclosed - 1
            self.problem("unbalanced_fence", None, "a code fence that is closed", "no end", line)

    def _check_id(self) -> None:
        if self.id is None or "id" in self.mistyped:
            return
        try:
            version = UUID(self.id).version
        except ValueError:
            self.problem("bad_value", "id", "a UUID", self.id)
        else:
            self.note["uuid_version"] = version
            if str(UUID(self.id)) != self.id.lower():
                self.problem("bad_value", "id", "a UUID alone, in five groups", self.id)
            if version != 4:
                self.problem("not_uuid4", "id", "a UUID of version 4", f"version {version}")
        if self.line is None and self.source.stem != self.id:
            self.problem("name_mismatch", "id", "the file's name", self.id)


def _read_log(source: Source, rows: Rows) -> None:
    """A log of notes: what its lines add, less what they delete; vectors are not read."""
    added: dict[str, list[tuple[int, Node]]] = {}
    vectors = 0
    for number, line in enumerate(source.lines, 1):
        node = _node(line)
        id, action = words_in(node.get("id")) if node else None, text_of(node.get("action")) if node else None
        if node is None and line.strip():
            _keep_line(source, number, line, rows)
        elif action == "delete":
            gone = added.pop(id or "", [])
            if gone:
                got = f"a deletion of {id!r:.80}, which line {gone[-1][0]} adds"
                rows.problem("deleted", source.path, "a note that stays", got, line=number, quote=False)
            else:
                rows.problem("bad_value", source.path, "one that a line above adds", id, line=number, field="id")
        elif action == "embedding":
            vectors += 1
        elif node is not None:
            if action != "add":
                expected = "one of add, delete, embedding"
                rows.problem("bad_value", source.path, expected, action, line=number, field="action")
            added.setdefault(id or f"\n{number}", []).append((number, node))
    if vectors:
        rows.problem(
            "unclaimed", source.path, "lines with texts", f"{vectors} embedding lines, which are not read", quote=False
        )
    for number, node in sorted((item for items in added.values() for item in items), key=lambda item: item[0]):
        body = next((name for name in _BODIES if isinstance(node.get(name), str)), "")
        fields = Node()
        for name, value in node.items():
            if name not in ("action", body):
                fields.put(name, value)
        fields.repeated, fields.repeated_lines = node.repeated, node.repeated_lines
        _Note(source, FrontMatter(fields, 0, number), rows, node[body] if body else "", number).read(number)


def _node(line: str) -> Node | None:
    try:
        value = load_json(line) if line.strip() else None
    except StructureError:
        return None
    return value if isinstance(value, Node) else None


def _keep_line(source: Source, number: int, line: str, rows: Rows) -> None:
    memory_id = rows.new_id("notes", source.path, number, line)
    row: Row = {"memory_id": memory_id, "format": "notes", "title": "", "text": line, "tags": [], "extra": "{}"}
    rows.add("memories", {**row, "path": source.path, "line_start": number, "line_end": number})
    rows.problem("unparsable", source.path, "a JSON object", line, line=number, memory_id=memory_id)


def _claims_log(file: File) -> bool:
    """Whether the first line of a file of JSON lines does something with a note."""
    first = next(filter(str.strip, file.source.lines), "")
    node = _node(first) if '"action"' in first else None
    return node is not None and text_of(node.get("action")) in _ACTIONS and "id" in node


def _keywords_short(value: object) -> bool:
    lengths = list(map(len, map(str, value))) if isinstance(value, list) else [0]
    return not lengths or (min(lengths) >= 1 and max(lengths) <= 50)


FORMAT = Format(
    "notes",
    "Markdown with front matter id, subject, keywords, applies_to; logs of such notes in JSON lines",
    kinds=("note",),
    tables=("notes",),
    endings=(*MARKDOWN, *LINES),
    claims=_claims,
    parse=parse,
    batch=read_plain,
    rules=(
        *missing("notes", "front matter", " ".join(_REQUIRED)),
        Rule("bad_value", "notes", "id", "a UUID"),
        Rule("bad_value", "notes", "id", "a UUID alone, without braces or urn:"),
        *(Rule("bad_value", "notes", name, "a string") for name in ("id", "subject", "applies_to", "content_hash")),
        Rule("bad_value", "notes", "updated_at", "a time not before created_at"),
        Rule("bad_value", "notes", "action", "one of add, delete, embedding, in a log of notes"),
        Rule("bad_value", "notes", "id", "one that a line above adds, where a log of notes deletes"),
        Rule("deleted", "notes", "", "a note that no line of its log deletes"),
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
