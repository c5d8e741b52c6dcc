"""Edits of one memory in its file, which is removed, changed, or merged with its duplicates, and of one file that is
too large, which is split.

A removal deletes a line, a section, an item of a list, or the whole file. The survivor of several duplicates takes over
their tags and their importance.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

from memkit.change.draft import Document, Draft, removal_of
from memkit.errors import ChangeRefusedError
from memkit.formats.facts import parse_fact
from memkit.formats.rows import Row
from memkit.formats.syntax.nodes import LINES, YAML
from memkit.formats.syntax.places import Head, Splice, Steps, plain_lines, syntax_of, with_values
from memkit.policy.index_standard import SplitPlan, split_head
from memkit.schemas import APPEND_ONLY, IMPORTANCE_WORDS, IMPORTANCES

_TAG = re.compile(r"\[imp:([^\]]*)\]")
_LOGS = dict(zip(APPEND_ONLY, ("a daily log", "a transcript"), strict=True))


def remove_memory(draft: Draft, memory: Row, reason: str) -> None:
    """Draft the removal of one memory; a removal that is not safe is refused with its reason."""
    with draft.attempt(memory["path"], memory["memory_id"]):
        if memory["memory_id"] in draft.gone:
            return
        remove = _REMOVERS.get(memory["format"]) or removal_of(memory["format"])
        if remove is None:
            raise ChangeRefusedError(f"memkit does not change files of the format {memory['format']!r}.")
        remove(draft, memory, reason)
        draft.gone.add(memory["memory_id"])


def remove_lines(draft: Draft, memory: Row, reason: str) -> None:
    """Draft the removal of a memory's lines."""
    if memory["line_start"] is None:
        raise ChangeRefusedError(f"{memory['path']}: the memory has no lines of its own.")
    start, end = draft.document(memory["path"]).lines(memory["line_start"], memory["line_end"])
    draft.splice("delete", memory["path"], Splice(start, end, ""), reason, memory_id=memory["memory_id"])


def _remove_section(draft: Draft, memory: Row, reason: str) -> None:
    if memory["kind"] in _LOGS:
        raise ChangeRefusedError(f"{memory['path']}: {_LOGS[memory['kind']]} is only appended to.")
    remove_lines(draft, memory, reason)


def _remove_note(draft: Draft, memory: Row, reason: str) -> None:
    if memory["path"].lower().endswith(LINES):
        raise ChangeRefusedError(f"{memory['path']}: a log of notes is only appended to.")
    draft.delete(memory["path"], reason, memory_id=memory["memory_id"])


def _remove_record(draft: Draft, memory: Row, reason: str) -> None:
    path = memory["path"]
    if path.lower().endswith(LINES):
        if memory["line_start"] != memory["line_end"] or _shares_line(draft, memory):
            raise ChangeRefusedError(f"{path}:{memory['line_start']}: the line holds several records.")
        remove_lines(draft, memory, reason)
        return
    span = record_span(draft, memory, draft.ordinal(path, memory["memory_id"]))
    if span is None:
        draft.delete(path, reason, memory_id=memory["memory_id"])
    else:
        draft.splice("delete", path, Splice(*span, ""), reason, memory_id=memory["memory_id"])


def _shares_line(draft: Draft, memory: Row) -> bool:
    """Whether the previous or the next record is on the same line."""
    rows, ordinal = draft.memories_in(memory["path"]), draft.ordinal(memory["path"], memory["memory_id"])
    neighbours = [*rows[max(0, ordinal - 1) : ordinal], *rows[ordinal + 1 : ordinal + 2]]
    return any(row["line_start"] <= memory["line_start"] <= row["line_end"] for row in neighbours)


def record_span(draft: Draft, memory: Row, ordinal: int) -> tuple[int, int] | None:
    """The span of the record number `ordinal` (from 0) of a file, in characters; None where the file is one record.

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
    """The start and the text of a record whose fields change.

    Raises
    ------
    ChangeRefusedError
        Where its place is not certain, or it is in a list of YAML.
    """
    path, span = memory["path"], record_span(draft, memory, ordinal)
    if span is not None and path.lower().endswith(YAML):
        raise ChangeRefusedError(f"{path}: a record in a list of YAML is left alone.")
    start, end = (0, None) if span is None else span
    return start, draft.text(path)[start:end]


def changed_record(draft: Draft, memory: Row, ordinal: int, values: Mapping[str, Any], *above: str) -> Splice:
    """The edit that sets fields of a record, or of the object at the path `above` in it.

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


def entry_of(draft: Draft, memory: Row) -> Row:
    """The one index entry of a memory.

    Raises
    ------
    ChangeRefusedError
        Where there are several, or none.
    """
    return one_entry(memory["path"], draft.entries("memory_id", memory["memory_id"]))


def one_entry(path: str, entries: list[Row], *, says_nth: bool = False) -> Row:
    """The only one of the `entries` that name the file at `path`; `says_nth` where the caller takes ``nth=``.

    Raises
    ------
    ChangeRefusedError
        Where there are several, which it lists, or none.
    """
    if len(entries) != 1:
        listed = "; ".join(
            f"{nth}. {row['index_path']}:{row['line']} {row['title']!r:.80}" for nth, row in enumerate(entries, 1)
        )
        numbers = " or ".join(f"nth={nth}" for nth in range(1, len(entries) + 1))
        which = f". {numbers} says which." if says_nth and entries else ""
        raise ChangeRefusedError(f"{path}: {len(entries)} entries name it, one is expected. {listed}{which}".rstrip())
    return entries[0]


def update_entry(draft: Draft, entry: Row, values: Mapping[str, Any], reason: str, **more: Any) -> None:
    """Draft new values for fields of an entry."""
    index = entry["index_path"]
    document = draft.document(index)
    place = entry_path(document, entry)
    for name, value in values.items():
        draft.splice("update", index, document.json.set_value([*place, name], value), reason, **more)


def remove_entry(draft: Draft, entry: Row, reason: str, *, delete_file: bool = True) -> None:
    """Draft the removal of an entry from its index and, with `delete_file`, of its file and parts.

    Raises
    ------
    ChangeRefusedError
        Where the entry is pinned, or its place is not certain.
    """
    if entry["pinned"]:
        raise ChangeRefusedError(f"{entry['path'] or entry['file']}: the entry is pinned.")
    index, memory_id = entry["index_path"], entry["memory_id"]
    group = f"entry {memory_id}"
    document = draft.document(index)
    item = document.json.find(entry_path(document, entry))
    assert item is not None  # entry_path found it
    cut = Splice(item.start, item.end, "")
    draft.splice("delete", index, cut, reason, memory_id=memory_id, together=group)
    if delete_file and entry["path"] is not None and entry["status"] == "valid":
        for path in (entry["path"], *parts_of(entry)):
            draft.delete(path, reason, memory_id=memory_id, together=group)


def parts_of(entry: Row) -> list[str]:
    """The paths of the parts of an entry."""
    parts = entry["parts"] or ()
    return [posixpath.normpath(posixpath.join(posixpath.dirname(entry["path"]), part)) for part in parts]


def entry_path(document: Document, entry: Row) -> Steps:
    """The steps that lead to an entry within its index.

    Raises
    ------
    ChangeRefusedError
        Where its line does not begin exactly one item of the list.
    """
    paths = document.entries.get(entry["line"], [])
    if len(paths) > 1:  # several on one line: the file decides
        paths = document.named.get((entry["line"], entry["file"]), [])
    if len(paths) > 1 and "nth" in entry:  # several name the same file: the caller chose one
        paths = paths[entry["nth"] : entry["nth"] + 1]
    if len(paths) != 1:
        raise ChangeRefusedError(f"{entry['index_path']}:{entry['line']}: the place of the entry is not certain.")
    return paths[0]


def _remove_file_of_entry(draft: Draft, memory: Row, reason: str) -> None:
    """Draft the removal of an entry with its file; of one without a file a policy knows no more than a title."""
    entry = entry_of(draft, memory)
    if (status := entry["status"]) != "valid":
        where, how = f"{entry['index_path']}:{entry['line']}", f"IndexCheck(auto_clean_{status}=True)"
        raise ChangeRefusedError(f"{where}: its file is {status}, and its text not known. {how} removes such entries.")
    remove_entry(draft, entry, reason)


_REMOVERS: dict[str, Callable[[Draft, Row, str], None]] = {
    "facts": remove_lines,
    "workspace": _remove_section,
    "notes": _remove_note,
    "records": _remove_record,
    "index_tree": _remove_file_of_entry,
}


def merge_into(draft: Draft, survivor: Row, duplicates: list[Row]) -> None:
    """Draft that a note, an entry or a fact takes over tags and importance of its duplicates.

    No document defines a merge of records or of sections: they stay as they are, and the lost tags are reported.
    """
    merge = _MERGERS.get(survivor["format"])
    lost = [tag for tag in _all_tags(survivor, duplicates) if tag not in (survivor["tags"] or ())]
    if merge is None and lost:
        message = "only notes, entries and facts take over the tags of their duplicates. Lost tags"
        draft.refuse(survivor["path"], survivor["memory_id"], f"merge: {message}: {', '.join(lost)}.")
    elif merge is not None:
        with draft.attempt(survivor["path"], survivor["memory_id"]):
            names = ", ".join(row["source_id"] or row["memory_id"] for row in duplicates)
            merge(draft, survivor, duplicates, f"merged with {names}")


def _all_tags(survivor: Row, duplicates: list[Row]) -> list[str]:
    """The tags of all, each once and the survivor's first; empty where the duplicates add none."""
    tags = list(dict.fromkeys(tag for row in (survivor, *duplicates) for tag in row["tags"] or ()))
    return tags if len(tags) > len(survivor["tags"] or ()) else []


def _merge_keywords(draft: Draft, survivor: Row, duplicates: list[Row], reason: str) -> None:
    if tags := _all_tags(survivor, duplicates):
        # Twenty keywords, as the document allows; one that has more already keeps them.
        new = Head(draft.text(survivor["path"])).set_value(["keywords"], tags[: max(20, len(survivor["tags"]))])
        draft.splice("update", survivor["path"], new, reason, memory_id=survivor["memory_id"])


def _merge_tags(draft: Draft, survivor: Row, duplicates: list[Row], reason: str) -> None:
    if tags := _all_tags(survivor, duplicates):
        update_entry(draft, entry_of(draft, survivor), {"tags": tags}, reason, memory_id=survivor["memory_id"])


def _merge_importance(draft: Draft, survivor: Row, duplicates: list[Row], reason: str) -> None:
    highest = min((row["importance"] or "normal" for row in (survivor, *duplicates)), key=IMPORTANCES.index)
    document = draft.document(survivor["path"])
    start, end = document.lines(survivor["line_start"], survivor["line_end"])
    tag = _TAG.search(document.text, start, end)
    fact = parse_fact(document.text[start:end]) or {}
    if tag is None or fact.get("imp") != tag[1]:
        raise ChangeRefusedError(f"{survivor['path']}:{survivor['line_start']}: the fact has no importance.")
    if IMPORTANCE_WORDS.get(tag[1]) != highest:
        new = Splice(tag.start(1), tag.end(1), highest)
        draft.splice("update", survivor["path"], new, reason, memory_id=survivor["memory_id"])


_MERGERS: dict[str, Callable[[Draft, Row, list[Row], str], None]] = {
    "notes": _merge_keywords,
    "index_tree": _merge_tags,
    "facts": _merge_importance,
}


_BOM = "\ufeff"


def split_files(policy: SplitPlan, draft: Draft) -> None:
    """Draft the split of every file that is too long, and of split files with a long part or an existing source."""
    judged = policy.transform(draft.corpus, as_of=draft.moment)
    for row in judged.select(["path", "memory_id", "keep"]).to_pylist():
        if not row["keep"]:
            with draft.attempt(row["path"], row["memory_id"]):
                split_file(policy, draft, row["path"])
    for entry in draft.corpus.tables["entries"].to_pylist():
        if entry["parts"] and entry["status"] == "valid":
            with draft.attempt(entry["path"], entry["memory_id"]):
                if draft.exists(_source(entry)) or any(
                    len(policy.parts(draft.text(path))) > 1 for path in parts_of(entry)
                ):
                    split_anew(policy, draft, entry)


def split_file(policy: SplitPlan, draft: Draft, path: str) -> None:
    """Draft that parts replace a file over the limit.

    Raises
    ------
    ChangeRefusedError
        Where it cannot be cut, not exactly one entry names it, or a part's path exists already.
    """
    entries = draft.entries("path", path)
    if not entries:
        raise ChangeRefusedError(f"{path}: no index names it, so its parts could not be named either.")
    entry, text = one_entry(path, entries), draft.text(path)
    parts = _cut(policy, text)
    if len(parts) == 1:
        tokens, most = policy.count(text), policy.max_tokens_per_file
        raise ChangeRefusedError(f"{path}: one line of {tokens} tokens, more than {most}; a line is never cut.")
    folder, shared = posixpath.splitext(path)[0], _together("split", entry)
    names = _write_parts(policy, draft, folder, parts, is_new=True, **shared)
    head = split_head(path, text.removeprefix(_BOM), entry, names, policy.count(plain_lines(text)), draft.moment.date())
    _write_new(draft, f"{folder}/index.md", head, "the parts", **shared)
    named = {"file": f"{posixpath.splitext(entry['file'])[0]}/index.md"}
    update_entry(draft, entry, named, "the entry names the index of the parts", **shared)
    draft.delete(path, f"too_long: its {len(parts)} parts take its place", **shared)


def split_anew(policy: SplitPlan, draft: Draft, entry: Row) -> None:
    """Draft the split of a split file again, from the text of its parts, or from the file itself if it exists again."""
    source, old_parts = _source(entry), parts_of(entry)
    text = draft.text(source) if draft.exists(source) else "".join(map(draft.text, old_parts))
    parts = _cut(policy, text)
    if len(parts) == 1:
        join(draft, entry, text)
        return
    folder, shared, rows = posixpath.dirname(entry["path"]), _together("split", entry), len(draft.rows)
    names = _write_parts(policy, draft, folder, parts, **shared)
    new_parts = [f"{folder}/{name}" for name in names]
    for path in (*(path for path in old_parts if path not in new_parts), *[source] * draft.exists(source)):
        draft.delete(path, "its parts were made anew", **shared)
    fields = {"parts": names, "tokens_total": policy.count(plain_lines(text))}
    index = draft.text(entry["path"])
    head = with_values(index, fields, Head)
    if len(draft.rows) > rows or head != index:
        head = with_values(head, {"updated": draft.moment.date().isoformat()}, Head)
        draft.write(entry["path"], head, "the parts", **shared)
        _dated(draft, entry, "its parts were made anew", **shared)


def _write_parts(
    policy: SplitPlan, draft: Draft, folder: str, parts: list[str], *, is_new: bool = False, **shared: Any
) -> list[str]:
    """Draft the files of the parts, and return their names."""
    names = [f"part{number}.md" for number in range(1, len(parts) + 1)]
    for number, (name, part) in enumerate(zip(names, parts, strict=True), 1):
        reason = f"part {number} of {len(parts)}, {policy.count(plain_lines(part))} tokens"
        (_write_new if is_new else Draft.write)(draft, f"{folder}/{name}", part, reason, **shared)
    return names


def _write_new(draft: Draft, path: str, text: str, reason: str, **shared: Any) -> None:
    """Draft a new file."""
    if draft.exists(path):
        raise ChangeRefusedError(f"{path} exists already. Move it away first.")
    draft.write(path, text, reason, **shared)


def join(draft: Draft, entry: Row, text: str | None = None) -> None:
    """Draft that one file replaces the parts of a split file, and that its entry names it.

    Raises
    ------
    ChangeRefusedError
        Where the file has no parts, or its path exists already.
    """
    if not entry["parts"]:
        raise ChangeRefusedError(f"{entry['file']}: it has no parts.")
    source, old = _source(entry), parts_of(entry)
    if text is None and draft.exists(source):
        raise ChangeRefusedError(f"{source}: it exists already.")
    shared = _together("join", entry)
    draft.write(source, "".join(map(draft.text, old)) if text is None else text, "the parts in one file", **shared)
    for path in (entry["path"], *old):
        draft.delete(path, f"it is in {source}", **shared)
    _dated(draft, entry, "the entry names the file", file=f"{posixpath.dirname(entry['file'])}.md", **shared)


def _dated(draft: Draft, entry: Row, reason: str, file: str | None = None, **shared: Any) -> None:
    """Draft the entry of a changed text: ``updated``, ``edit_count`` + 1 and, if given, another file."""
    values: Row = {"updated": draft.moment.date().isoformat()} | ({"file": file} if file else {})
    if entry["edit_count"] is not None:
        values["edit_count"] = entry["edit_count"] + 1
    update_entry(draft, entry, values, reason, **shared)


def _together(word: str, entry: Row) -> Row:
    return {"memory_id": entry["memory_id"], "together": f"{word} {entry['path']}"}


def _cut(policy: SplitPlan, text: str) -> list[str]:
    """The parts of a text with its own line ends and BOM, which do not count as tokens."""
    parts = policy.parts(plain_lines(text))
    original = [part.replace("\n", "\r\n") for part in parts] if "\r\n" in text else parts
    original[0] = f"{_BOM * text.startswith(_BOM)}{original[0]}"
    if "".join(original) != text:
        raise ChangeRefusedError("its parts would not be its text; it mixes line ends.")
    return original


def _source(entry: Row) -> str:
    return f"{posixpath.dirname(entry['path'])}.md"
