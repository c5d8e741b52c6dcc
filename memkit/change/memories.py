"""What becomes of one memory in its file, and nothing else of that: it goes, it changes, or it takes over from another.

What goes is a line, a section, an item, or the file itself. The memory that stays of several that say the same takes
over tags, and importance.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

from memkit.change.draft import Document, Draft
from memkit.errors import ChangeRefusedError
from memkit.formats.facts import parse_fact
from memkit.formats.syntax.json import LINES
from memkit.formats.syntax.places import Head, Splice, Steps, syntax_of, with_values
from memkit.formats.syntax.yaml import ENDINGS as YAML
from memkit.schemas import IMPORTANCE_WORDS, IMPORTANCES

Row = dict[str, Any]
_TAG = re.compile(r"\[imp:([^\]]*)\]")
_APPENDED = {"daily_log": "a daily log is only appended to", "session": "a transcript is only appended to"}


def remove_memory(draft: Draft, memory: Row, reason: str) -> None:
    """Draft the removal of one memory; what cannot be removed safely is refused with the reason."""
    with draft.attempt(memory["path"], memory["memory_id"]):
        if memory["memory_id"] in draft.gone:
            return
        take = _REMOVED.get(memory["format"])
        if take is None:
            raise ChangeRefusedError(f"nothing is known of files of the format {memory['format']!r}.")
        take(draft, memory, reason)
        draft.gone.add(memory["memory_id"])


def remove_lines(draft: Draft, memory: Row, reason: str) -> None:
    """Draft that the lines of a memory go."""
    if memory["line_start"] is None:
        raise ChangeRefusedError(f"{memory['path']}: the memory stands on no lines of its own.")
    start, end = draft.document(memory["path"]).lines(memory["line_start"], memory["line_end"])
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
    if path.lower().endswith(LINES):
        if memory["line_start"] != memory["line_end"] or _shares_line(draft, memory):
            raise ChangeRefusedError(f"{path}:{memory['line_start']}: several records stand on the line.")
        remove_lines(draft, memory, reason)
        return
    span = record_span(draft, memory, draft.ordinal(path, memory["memory_id"]))
    if span is None:
        draft.delete(path, reason, memory_id=memory["memory_id"])
    else:
        draft.splice("delete", path, Splice(*span, ""), reason, memory_id=memory["memory_id"])


def _shares_line(draft: Draft, memory: Row) -> bool:
    """Whether the record before it, or the one after it, stands on its line too."""
    rows, at = draft.memories_in(memory["path"]), draft.ordinal(memory["path"], memory["memory_id"])
    beside = [*rows[max(0, at - 1) : at], *rows[at + 1 : at + 2]]
    return any(row["line_start"] <= memory["line_start"] <= row["line_end"] for row in beside)


def record_span(draft: Draft, memory: Row, ordinal: int) -> tuple[int, int] | None:
    """Where a record begins and ends, given which of its file it is, from 0; None where the file is one record.

    Raises
    ------
    ChangeRefusedError
        Where its place is not certain.
    """
    path, document = memory["path"], draft.document(memory["path"])
    if path.lower().endswith(LINES):
        start, end = document.lines(memory["line_start"], memory["line_end"])
        return start, start + len(document.text[start:end].rstrip("\r\n"))
    places = document.records()
    if places is None:
        return None
    if ordinal >= len(places) or places[ordinal].line != memory["line_start"]:
        raise ChangeRefusedError(f"{path}: the place of the record is not certain.")
    return places[ordinal].start, places[ordinal].end


def record_text(draft: Draft, memory: Row, ordinal: int) -> tuple[int, str]:
    """Where a record whose fields are to change begins, and its text.

    Raises
    ------
    ChangeRefusedError
        Where its place is not certain, or a list of YAML holds it.
    """
    path, span = memory["path"], record_span(draft, memory, ordinal)
    if span is not None and path.lower().endswith(YAML):
        raise ChangeRefusedError(f"{path}: a record in a list of YAML is left alone.")
    start, end = (0, None) if span is None else span
    return start, draft.text(path)[start:end]


def changed_record(draft: Draft, memory: Row, ordinal: int, values: Mapping[str, Any], *above: str) -> Splice:
    """What gives fields of a record, of the object at the path `above` in it, other values.

    Raises
    ------
    ChangeRefusedError
        Where its place, or that of a field, is not certain.
    """
    path, span = memory["path"], record_span(draft, memory, ordinal)
    start, end = (0, None) if span is None else span
    text = draft.text(path)[start:end]
    is_item = span is not None and path.lower().endswith(YAML)
    dash = text.index("-") if is_item else 0
    # Without its dash an item of a list is a document of its own, indented.
    alone = f"{text[:dash]} {text[dash + 1 :]}" if is_item else text
    new = with_values(alone, values, syntax_of(path), *above)
    return Splice(start, start + len(text), f"{new[:dash]}-{new[dash + 1 :]}" if is_item else new)


def _entry(draft: Draft, memory: Row, reason: str) -> None:
    remove_entry(draft, entry_of(draft, memory), reason)


def entry_of(draft: Draft, memory: Row) -> Row:
    """The one entry of an index that is a memory.

    Raises
    ------
    ChangeRefusedError
        Where there are several, or none.
    """
    return one_entry(memory["path"], draft.entries_of(memory["memory_id"]))


def one_entry(path: str, found: list[Row]) -> Row:
    """The one of `found`, entries that name the file at `path`.

    Raises
    ------
    ChangeRefusedError
        Where there are several, or none: it says which.
    """
    if len(found) != 1:
        each = "; ".join(
            f"{nth}. {row['index_path']}:{row['line']} {row['title']!r:.80}" for nth, row in enumerate(found, 1)
        )
        raise ChangeRefusedError(f"{path}: {len(found)} entries name it, one is expected. {each}".rstrip())
    return found[0]


def update_entry(draft: Draft, entry: Row, values: Mapping[str, Any], reason: str, **more: Any) -> None:
    """Draft other values of fields of an entry."""
    index = entry["index_path"]
    document = draft.document(index)
    place = entry_path(document, entry)
    for name, value in values.items():
        draft.splice("update", index, document.json.set_value([*place, name], value), reason, **more)


def remove_entry(draft: Draft, entry: Row, reason: str, *, delete_file: bool = True) -> None:
    """Draft that an entry leaves its index and, with `delete_file`, its file and parts the disk; a pinned one stays.

    Raises
    ------
    ChangeRefusedError
        Where it is pinned, or its place is not certain.
    """
    if entry["pinned"]:
        raise ChangeRefusedError(f"{entry['path'] or entry['file']}: the entry is pinned.")
    index, memory_id = entry["index_path"], entry["memory_id"]
    word = f"entry {memory_id}"
    document = draft.document(index)
    item = document.json.find(entry_path(document, entry))
    assert item is not None  # entry_path found it
    gone = Splice(item.start, item.end, "")
    draft.splice("delete", index, gone, reason, memory_id=memory_id, together=word)
    if delete_file and entry["path"] is not None and entry["status"] == "valid":
        parts = [
            posixpath.normpath(posixpath.join(posixpath.dirname(entry["path"]), part)) for part in entry["parts"] or ()
        ]
        for path in (entry["path"], *parts):
            draft.delete(path, reason, memory_id=memory_id, together=word)


def entry_path(document: Document, entry: Row) -> Steps:
    """The path of an entry within its index.

    Raises
    ------
    ChangeRefusedError
        Where no one item of the list begins on its line.
    """
    found = document.entries.get(entry["line"], [])
    if len(found) > 1:  # several on one line: then the file that it names tells
        found = document.named.get((entry["line"], entry["file"]), [])
    if len(found) > 1 and "nth" in entry:  # which of those that name it there; who asked for it said so
        found = found[entry["nth"] : entry["nth"] + 1]
    if len(found) != 1:
        raise ChangeRefusedError(f"{entry['index_path']}:{entry['line']}: the place of the entry is not certain.")
    return found[0]


_REMOVED: dict[str, Callable[[Draft, Row, str], None]] = {
    "facts": remove_lines,
    "workspace": _section,
    "notes": _note,
    "records": _record,
    "index_tree": _entry,
}


def merge_into(draft: Draft, stays: Row, goes: list[Row]) -> None:
    """Draft that a note, an entry or a fact takes over what it has not.

    No document says how records or sections would be merged: they stay as they are, and tags that are lost are said.
    """
    take = _MERGED.get(stays["format"])
    lost = [tag for tag in _tags(stays, goes) if tag not in (stays["tags"] or ())]
    if take is None and lost:
        said = "only notes, entries and facts take over what others have. Tags that go with the others"
        draft.refuse(stays["path"], stays["memory_id"], f"merge: {said}: {', '.join(lost)}.")
    elif take is not None:
        with draft.attempt(stays["path"], stays["memory_id"]):
            take(draft, stays, goes, f"merged with {', '.join(row['source_id'] or row['memory_id'] for row in goes)}")


def _tags(stays: Row, goes: list[Row]) -> list[str]:
    """The tags of all, each once, the own ones first; none where nothing is new."""
    found = list(dict.fromkeys(tag for row in (stays, *goes) for tag in row["tags"] or ()))
    return found if len(found) > len(stays["tags"] or ()) else []


def _keywords(draft: Draft, stays: Row, goes: list[Row], reason: str) -> None:
    if tags := _tags(stays, goes):
        new = Head(draft.text(stays["path"])).set_value(["keywords"], tags[: max(20, len(stays["tags"]))])
        draft.splice("update", stays["path"], new, reason, memory_id=stays["memory_id"])


def _tagged(draft: Draft, stays: Row, goes: list[Row], reason: str) -> None:
    if tags := _tags(stays, goes):
        update_entry(draft, entry_of(draft, stays), {"tags": tags}, reason, memory_id=stays["memory_id"])


def _important(draft: Draft, stays: Row, goes: list[Row], reason: str) -> None:
    best = min((row["importance"] or "normal" for row in (stays, *goes)), key=IMPORTANCES.index)
    document = draft.document(stays["path"])
    start, end = document.lines(stays["line_start"], stays["line_end"])
    tag = _TAG.search(document.text, start, end)
    fact = parse_fact(document.text[start:end]) or {}
    if tag is None or fact.get("imp") != tag[1]:
        raise ChangeRefusedError(f"{stays['path']}:{stays['line_start']}: the fact has no importance.")
    if IMPORTANCE_WORDS.get(tag[1]) != best:
        new = Splice(tag.start(1), tag.end(1), best)
        draft.splice("update", stays["path"], new, reason, memory_id=stays["memory_id"])


_MERGED: dict[str, Callable[[Draft, Row, list[Row], str], None]] = {
    "notes": _keywords,
    "index_tree": _tagged,
    "facts": _important,
}
