"""Splitting of large files as edits: parts, their ``index.md``, the entry that names it, and removal of the file."""

from __future__ import annotations

import posixpath
from typing import Any

from memkit.change.draft import Draft
from memkit.change.memories import one_entry, parts_of, update_entry
from memkit.errors import ChangeRefusedError
from memkit.formats.rows import Row
from memkit.formats.syntax.places import Head, plain_lines, with_values
from memkit.policy.split_plan import SplitPlan, split_head

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
    entries = draft.entries_for(path)
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
