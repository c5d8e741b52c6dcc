"""Splitting of large files as edits: the parts, their ``index.md``, the entry that names it, and the file that goes."""

from __future__ import annotations

import posixpath
from typing import Any

from memkit.change.draft import Draft
from memkit.change.remove import entry_path
from memkit.errors import ChangeRefusedError
from memkit.formats.syntax.json_places import set_value
from memkit.policy.split_plan import SplitPlan

Row = dict[str, Any]


def split_files(policy: SplitPlan, draft: Draft) -> None:
    """Draft the split of every file that `policy` finds too long."""
    planned: dict[str, list[Row]] = {}
    for row in policy.plan(draft.corpus, as_of=draft.moment).to_pylist():
        planned.setdefault(row["path"], []).append(row)
    entries = {entry["path"]: entry for entry in draft.corpus.tables["entries"].to_pylist() if entry["path"]}
    for path, rows in planned.items():
        with draft.attempt(path, rows[0]["memory_id"]):
            _split(draft, path, rows, entries.get(path))


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
    index = entry["index_path"]
    place, old = entry_path(draft.text(index), entry), posixpath.splitext(entry["file"])[0]
    named = set_value(draft.text(index), [*place, "file"], f"{old}/index.md")
    draft.splice("update", index, named, "the entry names the index of the parts", **shared)
    draft.delete(path, f"too_long: its {len(parts)} parts take its place", **shared)
