"""How a memory is taken out of its file: a line, a section, an item, or the file itself, and nothing else of it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from memkit.change.draft import Draft
from memkit.errors import ChangeRefusedError
from memkit.formats.records.write import item_places
from memkit.formats.syntax.json_places import Splice, find, parts_at, set_value, start_of

Row = dict[str, Any]
LINES = (".jsonl", ".ndjson")
_APPENDED = {"daily_log": "a daily log is only appended to", "session": "a transcript is only appended to"}


def remove_memory(draft: Draft, memory: Row, reason: str) -> None:
    """Draft the removal of one memory; what cannot be removed safely is refused with the reason."""
    with draft.attempt(memory["path"], memory["memory_id"]):
        if memory["memory_id"] in draft.gone:
            return
        take = _BY_FORMAT.get(memory["format"])
        if take is None:
            raise ChangeRefusedError(f"nothing is known of files of the format {memory['format']!r}.")
        take(draft, memory, reason)
        draft.gone.add(memory["memory_id"])


def remove_lines(draft: Draft, memory: Row, reason: str) -> None:
    """Draft that the lines of a memory go."""
    if memory["line_start"] is None:
        raise ChangeRefusedError(f"{memory['path']}: the memory stands on no lines of its own.")
    start, end = draft.lines(memory["path"], memory["line_start"], memory["line_end"])
    draft.splice("delete", memory["path"], Splice(start, end, ""), reason, memory_id=memory["memory_id"])


def _section(draft: Draft, memory: Row, reason: str) -> None:
    if memory["kind"] in _APPENDED:
        raise ChangeRefusedError(f"{memory['path']}: {_APPENDED[memory['kind']]}.")
    remove_lines(draft, memory, reason)


def _note(draft: Draft, memory: Row, reason: str) -> None:
    if memory["path"].lower().endswith(LINES):
        raise ChangeRefusedError(f"{memory['path']}: a log of notes is only appended to.")
    draft.delete(memory["path"], reason, memory_id=memory["memory_id"])


def _record(draft: Draft, memory: Row, reason: str) -> None:
    path = memory["path"]
    beside = [row for row in draft.memories_in(path) if row["memory_id"] not in draft.gone]
    if path.lower().endswith(LINES):
        if memory["line_start"] != memory["line_end"] or _shares_line(beside, memory):
            raise ChangeRefusedError(f"{path}:{memory['line_start']}: several records stand on the line.")
        remove_lines(draft, memory, reason)
        return
    places = item_places(path, draft.text(path))
    if places is None:
        draft.delete(path, reason, memory_id=memory["memory_id"])
        return
    ordinal = draft.ordinal(path, memory["memory_id"])
    if ordinal >= len(places) or places[ordinal].line != memory["line_start"]:
        raise ChangeRefusedError(f"{path}: the place of the record is not certain.")
    draft.splice(
        "delete", path, Splice(places[ordinal].start, places[ordinal].end, ""), reason, memory_id=memory["memory_id"]
    )


def _shares_line(rows: list[Row], memory: Row) -> bool:
    return len([row for row in rows if row["line_start"] <= memory["line_start"] <= row["line_end"]]) > 1


def record_spans(draft: Draft, path: str, rows: list[Row]) -> list[tuple[int, int]] | None:
    """Where each record of a file begins and ends, given its memories; None where the file is one record."""
    if path.lower().endswith(LINES):
        places = [draft.lines(path, row["line_start"], row["line_end"]) for row in rows]
        return [(start, start + len(draft.text(path)[start:end].rstrip("\r\n"))) for start, end in places]
    items = item_places(path, draft.text(path))
    return None if items is None else [(item.start, item.end) for item in items]


def _entry(draft: Draft, memory: Row, reason: str) -> None:
    remove_entry(draft, entry_of(draft, memory), reason)


def entry_of(draft: Draft, memory: Row) -> Row:
    """The one entry of an index that is a memory.

    Raises
    ------
    ChangeRefusedError
        Where there are several, or none.
    """
    entries: list[Row] = draft.corpus.tables["entries"].to_pylist()
    found = [entry for entry in entries if entry["memory_id"] == memory["memory_id"]]
    if len(found) != 1:
        raise ChangeRefusedError(f"{memory['path']}: {len(found)} entries of indexes name it; one is expected.")
    return found[0]


def update_entry(draft: Draft, entry: Row, values: Mapping[str, Any], reason: str, **more: Any) -> None:
    """Draft other values of fields of an entry."""
    index = entry["index_path"]
    place = entry_path(draft.text(index), entry)
    for name, value in values.items():
        draft.splice("update", index, set_value(draft.text(index), [*place, name], value), reason, **more)


def remove_entry(draft: Draft, entry: Row, reason: str) -> None:
    """Draft that an entry leaves its index, and its file and parts the disk; a pinned one stays.

    Raises
    ------
    ChangeRefusedError
        Where it is pinned, or its place is not certain.
    """
    if entry["pinned"]:
        raise ChangeRefusedError(f"{entry['path'] or entry['file']}: it is pinned.")
    index, memory_id = entry["index_path"], entry["memory_id"]
    word = f"entry {memory_id}"
    place = entry_path(draft.text(index), entry)
    item = find(draft.text(index), place)
    assert item is not None  # entry_path found it
    gone = Splice(item.start, item.end, "")
    draft.splice("delete", index, gone, reason, memory_id=memory_id, together=word)
    if entry["path"] is not None and entry["status"] == "valid":
        parts = [
            posixpath.normpath(posixpath.join(posixpath.dirname(entry["path"]), part)) for part in entry["parts"] or ()
        ]
        for path in (entry["path"], *parts):
            draft.delete(path, reason, memory_id=memory_id, together=word)


def entry_path(text: str, entry: Row) -> list[str | int]:
    """The path of an entry within the JSON of its index.

    Raises
    ------
    ChangeRefusedError
        Where no one item of the list begins on its line.
    """
    start = start_of(text)
    above: list[str | int] = [] if text.startswith("[", start) else ["files"]
    whole = find(text, above, start)
    items = parts_at(text, whole.value) if whole else []
    found = [place for place, item in enumerate(items) if text.count("\n", 0, item.value) + 1 == entry["line"]]
    if len(found) > 1:  # several on one line: then the file that it names tells
        found = [place for place in found if _names(text, [*above, place], entry["file"])]
    if len(found) != 1:
        raise ChangeRefusedError(f"{entry['index_path']}:{entry['line']}: the place of the entry is not certain.")
    return [*above, found[0]]


def _names(text: str, path: list[str | int], file: str | None) -> bool:
    parts = (find(text, [*path, key]) for key in ("file", "path"))
    return any(part and text[part.value : part.end].strip('"') == file for part in parts)


_BY_FORMAT: dict[str, Callable[[Draft, Row, str], None]] = {
    "facts": remove_lines,
    "workspace": _section,
    "notes": _note,
    "records": _record,
    "index_tree": _entry,
}
