"""Notes: one Markdown file a memory, with front matter id, subject, keywords, applies_to, created_at, updated_at.

The later variant has one date, ``occurred_at`` (and a ``content_hash``): created and updated are both that. Written
notes have their front matter in the order of the format's document, then the body as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from memkit.base.fences import fences
from memkit.errors import FormatError
from memkit.formats.disk.source import Source, last_line
from memkit.formats.fields import TIME, WORDS, Field, Fields, check_text
from memkit.formats.format import MARKDOWN, File, Format, Owner
from memkit.formats.rows import Rows, Rule, extra_of, length, matches
from memkit.formats.spelling import (
    END,
    ENDS,
    end_in,
    end_of,
    is_held,
    measures_in,
    plain,
    text_of,
    unread_ends,
    unread_measures,
    words_in,
)
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.nodes import LINES, Node, StructureError, load_json
from memkit.formats.syntax.places import block

# As the document has them (Validation Rules).
MAX_SUBJECT, MAX_KEYWORDS, MAX_KEYWORD, MIN_BODY = 200, 20, 50, 10
"""Characters of a subject, keywords, characters of one, and characters of a text that make a sound note."""
_ACTIONS = ("add", "delete", "embedding")
_BODIES = ("content", "body", "text")
"""Where a line of a log has the text of its note."""
_DATES = ("created_at", "updated_at")
_UUID = re.compile(r"(?:urn:uuid:)?\{?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?", re.IGNORECASE)


def _keywords_few(value: object) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= MAX_KEYWORDS


def _keywords_short(value: object) -> bool:
    return isinstance(value, list) and all(1 <= len(str(word)) <= MAX_KEYWORD for word in value)


FIELDS = Fields(
    "notes",
    "front matter",
    Field("id", required=True),
    Field("subject", required=True, tests=(("bad_value", f"1 to {MAX_SUBJECT} characters", length(1, MAX_SUBJECT)),)),
    Field(
        "keywords",
        WORDS,
        required=True,
        tests=(
            ("bad_value", f"1 to {MAX_KEYWORDS} keywords", _keywords_few),
            ("bad_value", f"keywords of 1 to {MAX_KEYWORD} characters each", _keywords_short),
        ),
    ),
    Field(
        "applies_to",
        required=True,
        tests=(("bad_value", "global, file:<path> or area:<name>", matches("global|file:.+|area:.+")),),
    ),
    *(Field(name, TIME, required=True) for name in _DATES),
    Field("occurred_at", TIME),
    Field("content_hash"),
)


_BACKWARDS = Rule("bad_value", "notes", "updated_at", "a time not before created_at")
_END = Rule(TIME.code, "notes", "expires_at", END)
_NOT_4 = Rule("not_uuid4", "notes", "id", "a UUID of version 4")
_FENCE = Rule("unbalanced_fence", "notes", "", "a code fence that is closed")


def _claims(file: File) -> bool:
    """Whether front matter is a note's: a UUID and a subject, or enough of the other fields to be one with gaps."""
    if file.front is None:
        return not file.is_markdown and file.has_ending(LINES) and _claims_log(file)
    fields = file.front.fields
    if "subject" in fields and _UUID.fullmatch(text_of(fields.get("id")) or ""):
        return True
    known = fields.keys() & FIELDS.names - {"content_hash"}
    # With fewer it is the front matter of another program: many have a subject and a date.
    return not known.isdisjoint(("subject", "applies_to")) and len(known) >= 3


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
        note.problem("unparsable", "", "front matter in YAML", str(front.fault), front.fault.line)


class _Note:
    """One note under way; in a log all of it stands on one line."""

    def __init__(self, source: Source, front: FrontMatter, rows: Rows, body: str, line: int | None = None) -> None:
        self.source, self.front, self.rows, self.fields = source, front, rows, front.fields
        self.body, self.line = body, line
        self.id = words_in(self.fields.get("id"))
        self.memory_id = rows.new_id("notes", source.path, self.id or line or 1, body)

    def read(self, first: int) -> None:
        """Read and check every field, and add the rows; the text begins on the line `first`."""
        fields, body = self.fields, self.body
        values, taken = FIELDS.read(fields, self.rows, self.problem, _DATES if "occurred_at" in fields else ())
        if values["created_at"] and values["updated_at"] and values["updated_at"] < values["created_at"]:
            self.problem(*_BACKWARDS.parts, fields["updated_at"])
        self.rows.repeated(fields, self.source.path, None, self.memory_id)
        created, updated = (values[name] or values["occurred_at"] for name in _DATES)
        by_name = [{plain(key): value for key, value in fields.items()}]
        end, measures = end_in(by_name, updated or created), measures_in(by_name)
        for key, value in fields.items():
            name = plain(key)
            if is_held(name, value, measures) or (name in ENDS and end is not None and end_of(value) == end):
                taken.add(key)
        for key, value in unread_ends(fields, updated or created):
            self.problem(_END.code, key, _END.expected, value)
        for key, value, rule in unread_measures(fields):
            self.problem(rule.code, key, rule.expected, value)
        shared = {"memory_id": self.memory_id, "path": self.source.path, "extra": extra_of(fields, taken)}
        shared |= {"created_at": created, "updated_at": updated or created}
        subject, scope = words_in(fields.get("subject")), values["applies_to"]
        last = self.line or last_line(first, body)
        memory = {"format": "notes", "kind": "note", "source_id": self.id, "title": subject or "", "scope": scope}
        memory |= {"text": body, "tags": values["keywords"] or [], "line_start": first, "line_end": last}
        memory |= {"expires_at": end, **measures}
        kind, _, target = (scope or "").partition(":")
        note = {
            **values,
            **shared,
            "id": self.id,
            "uuid_version": None if self.front.fault else self.uuid_version(values["id"]),
            "subject": subject,
            "applies_kind": kind if kind in ("global", "file", "area") else None,
            "applies_target": target or None,
            "body_chars": len(body.strip()),
        }
        if not self.front.fault:
            self.check_body(first)
        line = self.line or fields.lines.get("id")
        self.rows.add_id(self.memory_id, self.source.path, line, "id", "note", self.id)
        self.rows.add("memories", shared | memory)
        self.rows.add("notes", note)

    def problem(self, rule: str, field: str, expected: str, got: Any, line: int | None = None) -> None:
        if self.front.fault and rule != "unparsable":
            return  # what single lines gave was not written as these fields
        line = self.line or line or (1 if rule == "missing_field" else self.fields.lines.get(field))
        self.rows.problem(rule, self.source.path, expected, got, line=line, field=field, memory_id=self.memory_id)

    def check_body(self, first: int) -> None:
        for rule in self.rows.failing("content", self.body):
            self.problem(rule.code, "content", rule.expected, self.body, first)
        if unclosed := fences(self.body).unclosed:
            line = self.line or first + unclosed - 1
            self.problem(*_FENCE.parts, "no end", line)

    def uuid_version(self, id: str | None) -> int | None:
        """Check an id; its version, where it is a UUID."""
        if id is None:
            return None
        version = None
        try:
            uuid = UUID(id)
        except ValueError:
            self.problem("bad_value", "id", "a UUID", id)
        else:
            version = uuid.version
            if str(uuid) != id.lower():
                self.problem("bad_value", "id", "a UUID alone, in five groups", id)
            # The document asks for version 4, and two of its own three examples have version 1: so it is a warning.
            if version != 4:
                self.problem(*_NOT_4.parts, f"version {version}")
        if self.line is None and self.source.stem != id:
            self.problem("name_mismatch", "id", "the file's name", id)
        return version


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
            deleted = added.pop(id or "", [])
            if deleted:
                got = f"a deletion of {id!r:.80}, which line {deleted[-1][0]} adds"
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
        got = f"{vectors} embedding lines, which are not read"
        rows.problem("unclaimed", source.path, "lines with texts", got, quote=False)
    for number, node in sorted((item for items in added.values() for item in items), key=lambda item: item[0]):
        body = next((name for name in _BODIES if isinstance(node.get(name), str)), "")
        fields = node.renamed({"action": "", body: ""})
        _Note(source, FrontMatter(fields, 0, number), rows, node[body] if body else "", number).read(number)


def _node(line: str) -> Node | None:
    try:
        value = load_json(line) if line.strip() else None
    except StructureError:
        return None
    return value if isinstance(value, Node) else None


def _keep_line(source: Source, number: int, line: str, rows: Rows) -> None:
    memory_id = rows.memory("notes", source.path, number, line, line_start=number, line_end=number)
    rows.problem("unparsable", source.path, "a JSON object", line, line=number, memory_id=memory_id)


def _claims_log(file: File) -> bool:
    """Whether the first line of a file of JSON lines does something with a note."""
    first = next(filter(str.strip, file.source.lines), "")
    node = _node(first) if '"action"' in first else None
    return node is not None and text_of(node.get("action")) in _ACTIONS and "id" in node


def parse_note(text: str) -> tuple[dict[str, Any], str]:
    """The fields and the body of one note, as written.

    Raises
    ------
    FormatError
        Where it has no front matter that can be parsed.

    Examples
    --------
    >>> parse_note("---\\nid: 1\\nsubject: Чай\\n---\\nБез сахара.\\n")
    ({'id': '1', 'subject': 'Чай'}, 'Без сахара.\\n')
    """
    front = front_matter.split(text)
    if front is None or front.fault:
        raise FormatError(f"expected front matter. Got {text[:40]!r}.")
    return dict(front.fields), text[front.body_at :]


def format_note(fields: Mapping[str, Any], body: str) -> str:
    """The text that `parse_note` reads back as `fields` and `body`.

    Parameters
    ----------
    fields : mapping
        id, subject, keywords, applies_to, created_at, updated_at, and any others, which follow in their order.
    body : str
        As it is to stand below the front matter.

    Raises
    ------
    FormatError
        Where a field is missing or not as the format wants it; it names the field, what was expected and what came.

    Examples
    --------
    >>> print(format_note({"id": "550e8400-e29b-41d4-a716-446655440000", "subject": "Tea", "keywords": ["tea"],
    ...     "applies_to": "global", "created_at": "2025-01-15T10:30:00Z", "updated_at": "2025-01-15T10:30:00Z"},
    ...     "\\nWithout sugar.\\n"), end="")
    ---
    id: 550e8400-e29b-41d4-a716-446655440000
    subject: Tea
    keywords:
      - tea
    applies_to: global
    created_at: 2025-01-15T10:30:00Z
    updated_at: 2025-01-15T10:30:00Z
    ---
    <BLANKLINE>
    Without sugar.
    """
    FIELDS.strict(fields)
    check_body(body)
    check_text({**fields, "content": body})
    return f"---\n{block(FIELDS.ordered(fields), loose=True)}---\n{body}"


def check_fields(fields: Mapping[str, Any], only: Iterable[str] | None = None) -> None:
    """Raise where a field, or one of `only` those, is not what a new note should have, though it could be read.

    Raises
    ------
    FormatError
    """
    (FIELDS if only is None else FIELDS.only(*only)).strict(fields)
    check_text(fields)
    for name in ("subject", "applies_to"):
        if (value := fields.get(name)) is not None and not _is_line(value):
            raise FormatError(f"field '{name}' must be one line with words. Got {value!r:.80}.", field=name)
    keywords = fields.get("keywords") or []
    for index, keyword in enumerate(keywords):
        if not _is_line(keyword):
            raise FormatError(
                f"field 'keywords' must be words of one line each. Got {keyword!r:.80}.", field="keywords"
            )
        if keyword in keywords[:index]:
            raise FormatError(
                f"field 'keywords' must have each word once. Got {keyword!r:.80} twice.", field="keywords"
            )


def check_body(body: str) -> None:
    """Raise where a body is too short to be a note's.

    Raises
    ------
    FormatError
    """
    if not length(MIN_BODY)(body):
        raise FormatError(f"field 'content' must be at least {MIN_BODY} characters. Got {body!r:.80}.", field="content")


def _is_line(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text and "\r" not in text


FORMAT = Format(
    "notes",
    "Markdown with front matter id, subject, keywords, applies_to; logs of such notes in JSON lines",
    order=20,
    kinds=("note",),
    tables=("notes",),
    endings=(*MARKDOWN, *LINES),
    writes=MARKDOWN,
    claims=_claims,
    parse=parse,
    owner=Owner(by_scope=True),
    rules=(
        *FIELDS.rules(),
        Rule("bad_value", "notes", "id", "a UUID"),
        Rule("bad_value", "notes", "id", "a UUID alone, without braces or urn:"),
        _BACKWARDS,
        Rule("bad_value", "notes", "action", "one of add, delete, embedding, in a log of notes"),
        Rule("bad_value", "notes", "id", "one that a line above adds, where a log of notes deletes"),
        Rule("deleted", "notes", "", "a note that no line of its log deletes"),
        _NOT_4,
        _END,
        Rule("name_mismatch", "notes", "id", "the id as the file's name"),
        Rule("bad_value", "notes", "content", f"at least {MIN_BODY} characters", length(MIN_BODY)),
        _FENCE,
    ),
)
