"""Splitting of large files as edits: the parts, their ``index.md``, the entry that names it, and the file that goes."""

from __future__ import annotations

import posixpath
from typing import Any

from memkit.change.draft import Draft
from memkit.change.memories import update_entry
from memkit.errors import ChangeRefusedError
from memkit.formats.syntax.places import Head, with_values
from memkit.policy.split_plan import SplitPlan

Row = dict[str, Any]


def split_files(policy: SplitPlan, draft: Draft) -> None:
    """Draft the split of every file that `policy` finds too long, and anew of one whose parts are, or that is back."""
    planned: dict[str, list[Row]] = {}
    for row in policy.plan(draft.corpus, as_of=draft.moment).to_pylist():
        planned.setdefault(row["path"], []).append(row)
    entries = {entry["path"]: entry for entry in draft.corpus.tables["entries"].to_pylist() if entry["path"]}
    for path, rows in planned.items():
        with draft.attempt(path, rows[0]["memory_id"]):
            _split(draft, path, rows, entries.get(path))
    for entry in entries.values():
        if entry["parts"] and entry["status"] == "valid":
            with draft.attempt(entry["path"], entry["memory_id"]):
                if draft.exists(_source(entry)) or any(
                    len(policy.parts(draft.text(path))) > 1 for path in _parts(entry)
                ):
                    split_anew(policy, draft, entry)


def _split(draft: Draft, path: str, rows: list[Row], entry: Row | None) -> None:
    if entry is None:
        raise ChangeRefusedError(f"{path}: no index names it, so none could name its parts.")
    memory_id, word = entry["memory_id"], f"split {path}"
    shared: Row = {"memory_id": memory_id, "together": word}
    files = [row for row in rows if row["what"] in ("part", "index")]
    newline = "\r\n" if "\r\n" in draft.text(path) else "\n"
    parts = [row["text"].replace("\n", newline) for row in files if row["what"] == "part"]
    if "".join(parts) != draft.text(path).removeprefix("\ufeff"):
        raise ChangeRefusedError(f"{path}: its parts would not be its text; it mixes line ends.")
    for row, text in zip(files, [*parts, None], strict=True):
        if draft.exists(row["file"]):
            raise ChangeRefusedError(f"{path}: {row['file']} is there already.")
        reason = f"part {row['part']} of {len(parts)}, {row['tokens']} tokens" if text is not None else "the parts"
        draft.write(row["file"], row["text"] if text is None else text, reason, **shared)
    named = {"file": f"{posixpath.splitext(entry['file'])[0]}/index.md"}
    update_entry(draft, entry, named, "the entry names the index of the parts", **shared)
    draft.delete(path, f"too_long: its {len(parts)} parts take its place", **shared)


def split_anew(policy: SplitPlan, draft: Draft, entry: Row) -> None:
    """Draft the parts of a split file from what its parts hold now, or from the file itself where that is back."""
    source, old = _source(entry), _parts(entry)
    text = draft.text(source) if draft.exists(source) else "".join(map(draft.text, old))
    parts = _cut(policy, text)
    if len(parts) == 1:
        join(draft, entry, text)
        return
    shared, rows = _together("split", entry), len(draft.rows)
    new = [f"{posixpath.dirname(entry['path'])}/part{number}.md" for number in range(1, len(parts) + 1)]
    for number, (path, part) in enumerate(zip(new, parts, strict=True), 1):
        draft.write(path, part, f"part {number} of {len(parts)}", **shared)
    for path in (*(path for path in old if path not in new), *[source] * draft.exists(source)):
        draft.delete(path, "its parts were made anew", **shared)
    fields = {"parts": list(map(posixpath.basename, new)), "tokens_total": policy.count(text.replace("\r\n", "\n"))}
    index = draft.text(entry["path"])
    told = with_values(index, fields, Head)
    if len(draft.rows) > rows or told != index:
        told = with_values(told, {"updated": draft.moment.date().isoformat()}, Head)
        draft.write(entry["path"], told, "the parts", **shared)
        _dated(draft, entry, "its parts were made anew", **shared)


def join(draft: Draft, entry: Row, text: str | None = None) -> None:
    """Draft that the parts of a split file are one file again, which its entry names.

    Raises
    ------
    ChangeRefusedError
        Where the file has no parts, or there is another of its name.
    """
    if not entry["parts"]:
        raise ChangeRefusedError(f"{entry['file']}: it has no parts.")
    source, old = _source(entry), _parts(entry)
    if text is None and draft.exists(source):
        raise ChangeRefusedError(f"{source}: it is there already.")
    shared = _together("join", entry)
    draft.write(source, "".join(map(draft.text, old)) if text is None else text, "the parts in one file", **shared)
    for path in (entry["path"], *old):
        draft.delete(path, f"it is in {source}", **shared)
    _dated(draft, entry, "the entry names the file", file=f"{posixpath.dirname(entry['file'])}.md", **shared)


def _dated(draft: Draft, entry: Row, reason: str, file: str | None = None, **shared: Any) -> None:
    """Draft what an entry says once its text changed: its day, one edit more, and perhaps another file."""
    values: Row = {"updated": draft.moment.date().isoformat()} | ({"file": file} if file else {})
    if entry["edit_count"] is not None:
        values["edit_count"] = entry["edit_count"] + 1
    update_entry(draft, entry, values, reason, **shared)


def _together(word: str, entry: Row) -> Row:
    return {"memory_id": entry["memory_id"], "together": f"{word} {entry['path']}"}


def _cut(policy: SplitPlan, text: str) -> list[str]:
    """The parts of a text in its own line ends, counted without their carriage returns."""
    parts = policy.parts(text.replace("\r\n", "\n"))
    found = [part.replace("\n", "\r\n") for part in parts] if "\r\n" in text else parts
    if "".join(found) != text:
        raise ChangeRefusedError("its parts would not be its text; it mixes line ends.")
    return found


def _source(entry: Row) -> str:
    return f"{posixpath.dirname(entry['path'])}.md"


def _parts(entry: Row) -> list[str]:
    folder = posixpath.dirname(entry["path"])
    return [posixpath.normpath(posixpath.join(folder, part)) for part in entry["parts"]]
