"""Notes exactly as the format's document writes them, read by the batch.

Nearly all notes of a folder were written by one tool: the six fields in their order and nothing that any rule would
report. One pattern knows such a note, and its values go to Arrow by the column, in an eighth of the time that an object
for each note takes. Whatever is not such a note is left to `memkit.formats.notes`; a property test holds both to the
same rows.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.front_matter import plain_pattern
from memkit.formats.markdown import has_open_fence
from memkit.formats.rows import RAW_SCHEMAS
from memkit.formats.source import Source

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_LEAP_DAY = "[12][0-9](?:0[48]|[2468][048]|[13579][26])-02-29"
_DAY = f"(?:[12][0-9]{{3}}-(?!02-29|02-3|0[469]-31|11-31)(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])|{_LEAP_DAY})"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:Z|[+-]0[0-9]:[0-5][0-9])"
_NOTE = re.compile(
    rf"---\nid: ({_ID})\nsubject: ({plain_pattern(200)})\nkeywords:\n((?:  - {plain_pattern(50)}\n){{1,20}})"
    rf"applies_to: (global|(?:file|area):{plain_pattern(500)})\n"
    rf"created_at: ({_DAY}T{_TIME})\nupdated_at: ({_DAY}T{_TIME})\n---\n"
)
_MIN_BODY = 10


class PlainNotes:
    """The plain notes of one batch of files."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, source: Source) -> bool:
        """Whether `source` is a plain note, which is then kept."""
        match = _NOTE.match(source.text)
        if match is None or source.undecoded or source.path.rpartition("/")[2] != f"{match[1]}.md":
            return False
        body = source.text[match.end() :]
        chars = len(body.strip())
        if chars < _MIN_BODY or has_open_fence(body):
            return False
        first = source.text.count("\n", 0, match.end()) + 1
        last = first + body.count("\n") - body.endswith("\n")
        self._rows.append((source.path, *match.groups(), body, chars, first, last))
        return True

    def to_arrow(self) -> dict[str, pa.Table]:
        """The notes as Arrow tables, in the order in which they were taken; every table is there."""
        tables = {name: schema.empty_table() for name, schema in RAW_SCHEMAS.items()}
        for name, columns in self._columns().items() if self else ():
            tables[name] = _filled(columns, RAW_SCHEMAS[name], len(self._rows))
        return tables

    def _columns(self) -> dict[str, dict[str, pa.Array]]:
        path, own, subject, words, scope, created, updated, body, chars, first, last = zip(*self._rows, strict=True)
        path, own, subject, scope = map(pa.array, (path, own, subject, scope))
        dates = {"created_at": pa.array(created), "updated_at": pa.array(updated)}
        keywords = pc.split_pattern(pc.utf8_slice_codeunits(pa.array(words), 4, -1), "\n  - ")
        memory_id = pc.binary_join_element_wise("notes:", path, "#", own, "")
        target = pc.utf8_slice_codeunits(scope, 5)
        is_global = pc.equal(scope, "global")
        shared = {"memory_id": memory_id, "path": path, "extra": "{}", **dates}
        memory = {"format": "notes", "kind": "note", "source_id": own, "scope": scope, "title": subject}
        note = {"id": own, "uuid_version": 4, "subject": subject, "keywords": keywords, "applies_to": scope}
        return {
            "memories": {
                **shared,
                **memory,
                "tags": keywords,
                # The texts are nearly all of the memory; Arrow's own allocator takes and clears it twice over.
                "text": pa.array(body, memory_pool=pa.system_memory_pool()),
                "line_start": first,
                "line_end": last,
            },
            "notes": {
                **shared,
                **note,
                "applies_kind": pc.if_else(is_global, "global", pc.utf8_slice_codeunits(scope, 0, 4)),
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
        if isinstance(column, (pa.Array, tuple)):
            arrays.append(pa.array(column, field.type) if isinstance(column, tuple) else column.cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(column, field.type), count))
    return pa.Table.from_arrays(arrays, schema=schema)
