"""`mk.Fix` mends the problems that have one right answer; `memkit rules` lists them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from memkit.base.fences import fences, headings
from memkit.base.params import Estimator, estimator, param
from memkit.change.checks import facts_in
from memkit.change.draft import Draft
from memkit.change.memories import entry_of, record_text, update_entry
from memkit.errors import ChangeRefusedError, count_of
from memkit.formats.facts import COUNTED
from memkit.formats.faults import FIXES
from memkit.formats.index_tree.index import ordered_entry
from memkit.formats.records.adapters import CURRENT
from memkit.formats.rows import Row
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import Head, Splice, plain_lines, syntax_of

CODES = tuple(dict.fromkeys(code for code, _, _ in FIXES))


@estimator
class Fix(Estimator):
    """Mends problems that have one right answer, as a plan: ``mk.plan(corpus, mk.Fix())``.

    It recounts the counters of ``meta.json``, renames a note's file to its id, gives an entry without ``updated`` the
    day of the plan, gives a record without ``format_version`` the version 1.0.0, and adds a Markdown file that no index
    names to the index of its folder.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> folder = mk.testing.write_files(tempfile.mkdtemp(), {
    ...     "users/anna/meta.json": '{"version": 2, "archiveCount": 7}',
    ...     "users/anna/archive.md": "- [id:ar_1] [t:archive] [imp:low] Пьёт чай\\n"})
    >>> mk.plan(mk.read(folder), mk.Fix()).table.select(["path", "before", "after"]).to_pylist()
    [{'path': 'users/anna/meta.json', 'before': '7', 'after': '1'}]
    """

    rules: tuple[str, ...] = param(
        None, choices=CODES, stands_for=CODES, doc="Codes of the rules to mend. None: all that can be mended."
    )

    def draft(self, draft: Draft) -> None:
        """Add a row for each problem that can be mended."""
        chosen = set(self.check_params()["rules"])
        unindexed: dict[str, list[str]] = {}
        for problem in draft.corpus.problems.to_pylist():
            code, field = problem["rule"], problem["field"] or ""
            if code not in chosen:
                continue
            if code == "unindexed" and problem["path"].lower().endswith(".md"):
                unindexed.setdefault(posixpath.dirname(problem["path"]), []).append(problem["path"])
            elif (mend := _MENDS.get((code, field))) is not None:
                with draft.attempt(problem["path"], problem["memory_id"]):
                    mend(draft, problem)
        for folder, paths in unindexed.items():
            with draft.attempt(folder, None):
                _name_in_index(draft, folder, paths)


def _count(draft: Draft, problem: Row) -> None:
    meta, field = problem["path"], problem["field"]
    path = posixpath.join(posixpath.dirname(meta), f"{COUNTED[field]}.md")
    facts = facts_in(draft.text(path)) if draft.exists(path) else 0
    reason = f"{COUNTED[field]}.md has {count_of(facts, 'fact')}"
    draft.splice("update", meta, draft.document(meta).json.set_value([field], facts), reason)


def _rename(draft: Draft, problem: Row) -> None:
    path = problem["path"]
    note_id = problem["memory_id"].rpartition("#")[2]
    if draft.entries_for(path):
        raise ChangeRefusedError(f"{path}: an index names it.")
    to = posixpath.join(posixpath.dirname(path), f"{note_id}.md")
    draft.move(path, to, "the file is named after its id", memory_id=problem["memory_id"])


def _date(draft: Draft, problem: Row) -> None:
    day, path, memory_id = draft.moment.date().isoformat(), problem["path"], problem["memory_id"]
    if path.endswith(".md"):  # the index.md of a split file
        splice = Head(draft.text(path)).set_value(["updated"], day)
        draft.splice("update", path, splice, "the day of the fix", memory_id=memory_id)
    else:
        update_entry(draft, entry_of(draft, problem), {"updated": day}, "the day of the fix", memory_id=memory_id)


def _version(draft: Draft, problem: Row) -> None:
    path, memory_id = problem["path"], problem["memory_id"]
    ordinal = draft.ordinal(path, memory_id)
    start, text = record_text(draft, draft.memories_in(path)[ordinal], ordinal)
    field = syntax_of(path)(text).set_value(["format_version"], CURRENT)
    splice = Splice(field.start + start, field.end + start, field.text)
    draft.splice("update", path, splice, "a record says its version", memory_id=memory_id)


def _name_in_index(draft: Draft, folder: str, paths: list[str]) -> None:
    """Draft new entries for files, in the index of their folder."""
    index = posixpath.join(folder, "index.json")
    if not draft.exists(index):
        raise ChangeRefusedError(f"{folder}: it has no index.json.")
    json = draft.document(index).json
    files = json.find(["files"])
    if files is None or json.text[files.value] != "[":
        raise ChangeRefusedError(f"{index}: it has no list of files.")
    example = next((row for row in draft.entries_in(index) if row["path"] and row["file"]), None)
    base = _above(index, example)
    new = []
    for path in paths:
        title = title_of(draft.text(path)) or posixpath.splitext(posixpath.basename(path))[0]
        file = posixpath.relpath(path, base)
        entry = {"title": title, "file": file, "tags": [], "priority": "medium", "version": "1.0"}
        new.append(ordered_entry({**entry, "updated": draft.moment.date().isoformat()}))
    splices = json.append_all(["files"], new)
    ids = [f"index_tree:{path}#1" for path in paths]
    for splice, memory_id in zip(splices, ids, strict=False):
        draft.splice("update", index, splice, "no index names the file", memory_id=memory_id)


def _above(index: str, example: Row | None) -> str:
    """The folder that files of an index are relative to: as in its other entries, else the folder above."""
    if example and example["path"].endswith(example["file"]):
        return str(example["path"].removesuffix(example["file"]).rstrip("/") or ".")
    return posixpath.dirname(posixpath.dirname(index)) or "."


def title_of(text: str) -> str | None:
    """The first heading of a Markdown file."""
    text = plain_lines(text)
    front = front_matter.split(text)
    body = text[front.body_at :] if front else text
    first = next(headings(body, fences(body)), None)
    return first.text if first and first.text.strip() else None


_MENDS: dict[tuple[str, str], Callable[[Draft, Row], None]] = {
    **{("counter_mismatch", name): _count for name in COUNTED},
    ("name_mismatch", "id"): _rename,
    ("missing_field", "updated"): _date,
    ("missing_field", "format_version"): _version,
}
