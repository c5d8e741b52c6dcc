"""Notes exactly as the format's document writes them, read by the batch.

Nearly all notes of a folder were written by one tool: the six fields in their order and nothing that any rule would
report. One pattern knows such a note, and its values go to Arrow by the column, in an eighth of the time that an object
for each note takes. Whatever is not such a note is left to `memkit.formats.notes`; a property test holds both to the
same rows.
"""

from __future__ import annotations

import re
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.files import Content
from memkit.formats.front_matter import plain_pattern
from memkit.formats.markdown import has_open_fence
from memkit.formats.rows import RAW_SCHEMAS

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_LEAP_DAY = "[12][0-9](?:0[48]|[2468][048]|[13579][26])-02-29"
_DAY = f"(?:[12][0-9]{{3}}-(?!02-29|02-3|0[469]-31|11-31)(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])|{_LEAP_DAY})"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:Z|[+-]0[0-9]:[0-5][0-9])"
_NOTE = re.compile(
    rf"---\nid: ({_ID})\nsubject: ({plain_pattern(200)})\nkeywords:\n((?:  - {plain_pattern(50)}\n){{1,20}})"
    rf"applies_to: (global|(?:file|area):{plain_pattern(500)})\n"
    rf"created_at: ({_DAY}T{_TIME})\nupdated_at: ({_DAY}T{_TIME})\n---\n"
)
_CLOSING = b"\n---\n"
_HEAD_LINES = 8
"""Of the front matter, beside its keywords."""
_MIN_BODY = 10
_WHITESPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""What `str.strip` takes off."""


class PlainNotes:
    """The plain notes of one batch of files; their texts stay bytes until Arrow looks at them all at once."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._bodies: list[memoryview] = []
        self._contents: list[Content] = []

    def take(self, path: str, content: Content) -> bool:
        """Whether the file seems to be a plain note, which is then kept."""
        data = content[1]
        end = data.find(_CLOSING, 4) + len(_CLOSING)
        try:
            head = data[:end].decode()
        except UnicodeDecodeError:
            return False
        match = _NOTE.fullmatch(head)
        if match is None or b"\r" in data or not f"/{path}".endswith(f"/{match[1]}.md"):
            return False
        if (b"`" in data or b"~" in data) and has_open_fence(data, end):
            return False
        lines_after = data.count(b"\n", end) - data.endswith(b"\n")
        self._rows.append((path, *match.groups(), lines_after))
        self._bodies.append(memoryview(data)[end:])
        self._contents.append(content)
        return True

    def to_arrow(self) -> tuple[dict[str, pa.Table], list[tuple[str, Content]]]:
        """The tables that have rows, in the order in which the notes were taken, and the files that are no notes."""
        rows, bodies, left = self._rows, self._bodies, []
        text = _strings(bodies)
        chars = _stripped_lengths(text)
        if bodies and (chars is None or pc.min(chars).as_py() < _MIN_BODY):
            sound = list(map(_is_body, bodies))
            left = [
                (str(row[0]), data) for row, data, keep in zip(rows, self._contents, sound, strict=True) if not keep
            ]
            rows, bodies = list(compress(rows, sound)), list(compress(bodies, sound))
            text = _strings(bodies)
            chars = _stripped_lengths(text)
        tables = _columns(rows, text, chars) if rows else {}
        return {name: _filled(columns, RAW_SCHEMAS[name], len(rows)) for name, columns in tables.items()}, left


def _strings(values: list[memoryview]) -> pa.StringArray:
    """`values` as they are, in one piece; whether they are UTF-8 is for others to ask."""
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([*map(len, values)], out=ends[1:])
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(values)))


def _stripped_lengths(text: pa.StringArray) -> pa.Array | None:
    """Characters of each text without the whitespace around it; None where not all are UTF-8."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return pc.utf8_length(pc.utf8_trim(text, _WHITESPACE))


def _is_body(data: memoryview) -> bool:
    try:
        return len(str(data, "utf-8").strip()) >= _MIN_BODY
    except UnicodeDecodeError:
        return False


def _columns(rows: list[tuple[object, ...]], text: pa.StringArray, chars: pa.Array) -> dict[str, dict[str, object]]:
    """The values of each table's columns: an array of them, or one for all rows."""
    columns = map(pa.array, zip(*rows, strict=True))
    path, own, subject, words, scope, created, updated, lines_after = columns
    dates = {"created_at": created, "updated_at": updated}
    keywords = pc.split_pattern(pc.utf8_slice_codeunits(words, 4, -1), "\n  - ")
    first = pc.add(pc.list_value_length(keywords).cast(pa.int64()), _HEAD_LINES + 1)
    memory_id = pc.binary_join_element_wise("notes:", path, "#", own, "")
    is_global = pc.equal(scope, "global")
    kind, target = pc.utf8_slice_codeunits(scope, 0, 4), pc.utf8_slice_codeunits(scope, 5)
    shared = {"memory_id": memory_id, "path": path, "extra": "{}", **dates}
    memory = {"format": "notes", "kind": "note", "source_id": own, "scope": scope, "title": subject, "tags": keywords}
    note = {"id": own, "uuid_version": 4, "subject": subject, "keywords": keywords, "applies_to": scope}
    return {
        "memories": {**shared, **memory, "text": text, "line_start": first, "line_end": pc.add(first, lines_after)},
        "notes": {
            **shared,
            **note,
            "applies_kind": pc.if_else(is_global, scope, kind),
            "applies_target": pc.if_else(is_global, None, target),
            "body_chars": chars,
        },
        "_ids": {"memory_id": memory_id, "path": path, "line": 2, "field": "id", "group": "note", "id": own},
    }


def _filled(columns: dict[str, object], schema: pa.Schema, count: int) -> pa.Table:
    """A table of `schema`: a scalar stands for all rows, an absent column is null."""
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if isinstance(column, pa.Array):
            arrays.append(column.cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(column, field.type), count))
    return pa.Table.from_arrays(arrays, schema=schema)
