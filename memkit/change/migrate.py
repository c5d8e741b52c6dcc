"""`mk.Migrate`: edits that migrate older layouts, with a log of each change and its reason; and `mk.Fix`, which mends
the problems that have one right answer.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from memkit.base.fences import fences, headings
from memkit.base.params import Estimator, estimator, param
from memkit.change.draft import Document, Draft, stamp
from memkit.change.edits import facts_in
from memkit.change.memories import entry_of, record_span, record_text, update_entry
from memkit.change.users import highest_ids, old_rows
from memkit.errors import ChangeRefusedError, count_of
from memkit.formats.facts import COUNTED, PREFIXES, TYPES, format_fact
from memkit.formats.index_tree.index import FIELDS, format_root, ordered_entry
from memkit.formats.records.format import JOURNAL, kind_of
from memkit.formats.records.kinds import CURRENT, RECORD_KINDS, adapt, shape_of
from memkit.formats.rows import FIXES, Row
from memkit.formats.spelling import text_of
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.nodes import Node, load_json
from memkit.formats.syntax.places import Head, Splice, plain_lines, pretty, syntax_of

STEPS = ("users", "index", "records", "notes")
_FOLDERS = {"answer": "answers", "draft": "drafts", "instruction": "instructions", "lesson": "lessons", "plan": "plans"}
_PREFIX = re.compile(r"([a-z]+)_")


@estimator
class Migrate(Estimator):
    """Migrates older layouts, as a plan: ``mk.plan(corpus, mk.Migrate())``.

    users: ``{userId}.md`` becomes the files of ``users/{userId}/`` and is kept as ``{userId}.md.bak``. index: a flat
    ``index.json`` becomes a root index and one branch per category, and files move to the folder of their category.
    records: registered adapters turn old shapes into version 1.0.0, with a line each in ``migrations.jsonl``. notes:
    ``occurred_at`` becomes ``created_at`` and ``updated_at``.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> files = {"memory/users/anna/profile.md": "", "memory/boris.md": "- Зовут Борис Петров"}
    >>> edits = mk.plan(mk.read(mk.testing.write_files(tempfile.mkdtemp(), files)), mk.Migrate())
    >>> edits.table.select(["path", "after"]).to_pylist()[0]
    {'path': 'memory/users/boris/profile.md', 'after': '- [id:pf_001] [t:profile] [imp:high] Зовут Борис Петров\\n'}
    """

    steps: tuple[str, ...] = param(STEPS, choices=STEPS, doc="What to migrate.")

    def draft(self, draft: Draft) -> None:
        """Add the rows of each file that has an older layout."""
        steps = self.check_params()["steps"]
        tables = draft.corpus.tables
        old = [row for row in tables["migrations"].to_pylist() if row["time"] is None]  # the others are migrated
        if "users" in steps:
            texts: dict[str, str] = {}
            for path in dict.fromkeys(row["path"] for row in old if row["kind"] == "fact"):
                with draft.attempt(path, None):
                    texts[path] = draft.text(path)
            # All files at once, as the classifier reads tables.
            for path, rows in old_rows(texts).items():
                with draft.attempt(path, None):
                    bring_user(draft, path, rows)
        if "index" in steps:
            for path in dict.fromkeys(row["path"] for row in old if row["kind"] == "entry"):
                with draft.attempt(path, None):
                    _index(draft, path)
        if "records" in steps:
            folders: dict[str, list[str]] = {}
            for path in dict.fromkeys(row["path"] for row in old if row["kind"] in RECORD_KINDS):
                folders.setdefault(posixpath.dirname(path), []).append(path)
            for folder, paths in folders.items():
                _folder(draft, folder, paths)
        if "notes" in steps:
            for row in tables["notes"].to_pylist():
                if row["occurred_at"] is not None and row["path"].lower().endswith((".md", ".markdown")):
                    with draft.attempt(row["path"], row["memory_id"]):
                        _note(draft, row)


def bring_user(draft: Draft, path: str, old: list[Row] | None = None) -> list[Row]:
    """Draft that a user's old file becomes a folder and is kept; returns a row per line, without blank lines.

    `old` are the rows of the file, where they were read with those of others.

    Raises
    ------
    ChangeRefusedError
        Where the user has a folder, the ``.bak`` exists, or no line is a fact.
    """
    folder, _, name = path.rpartition("/")
    user = name.rpartition(".")[0]
    user_folder = posixpath.join(folder, "users", user)
    group = f"migrate {path}"
    old = old_rows({path: draft.text(path)})[path] if old is None else old  # a link is refused as one, first
    if draft.exists(user_folder):
        raise ChangeRefusedError(f"{path}: {user_folder}/ exists already.")
    if old and all(row["kind"] == "line" for row in old):
        raise ChangeRefusedError(f"{path}: no line of it is a fact; it is left as it is.")
    files: dict[str, list[str]] = {kind: [] for kind in TYPES}
    ids, rows = _Ids(old), list[Row]()
    for fact in old:
        row = {"path": path, "line": fact["line_start"], "text": fact["text"], "id": None}
        if fact["kind"] == "line":
            rows.append({**row, "reason": f"no fact: it stays in {name}.bak"})
            continue
        kept, reason = _kept(fact, draft.moment)
        row["id"] = ids.of(fact, kept["t"])
        files[kept["t"]].append(format_fact({"id": row["id"], **kept}))
        rows.append({**row, "reason": reason})
    meta = {"version": 2, **{name: len(files[kind]) for name, kind in COUNTED.items()}, "lastIds": ids.last}
    reason = "the old layout has one file a user; its lines have no types"
    newline = draft.document(path).newline or "\n"
    for kind, lines in files.items():
        if lines:
            whole = "".join(f"{line}{newline}" for line in lines)
            draft.write(f"{user_folder}/{kind}.md", whole, reason, together=group)
    draft.write(f"{user_folder}/meta.json", f"{json.dumps(meta, indent=2)}\n", reason, together=group)
    draft.move(path, f"{path}.bak", "the old file is kept", together=group)
    return rows


def _kept(fact: Row, moment: datetime) -> tuple[Row, str]:
    """The tags and text of an old fact in the file of its type, and the reason."""
    kind, importance = fact["kind"], fact["importance"] or "normal"
    why, ends = fact.get("why"), fact["expires_at"]
    reason = "" if why else "a fact line: it goes into the file of its type"
    if kind == "working" and (ends is None or (why and ends.date() < moment.date())):
        kind, ends, why = "archive", None, "a task without an end, or whose end is past, is no current one"
    reason = (
        f"{'a line' if why else 'a fact line'}: it becomes {_NAMED[kind]} fact, {importance}: {why}" if why else reason
    )
    kept = {"t": kind, "imp": importance, "text": " ".join(fact["text"].split("\r"))}
    dates = (("exp", ends), ("created", fact["created_at"]))
    return kept | {name: day.date().isoformat() for name, day in dates if day is not None}, reason


_NAMED = {"profile": "a profile", "working": "a working", "archive": "an archive"}


class _Ids:
    """The ids of a user's migrated facts: those that their lines have, else new ones above them."""

    def __init__(self, old: list[Row]) -> None:
        self._taken, self.last = set[str](), highest_ids(old)

    def of(self, fact: Row, kind: str) -> str:
        """The id of a fact that goes into the file of `kind`; one of another type, or that occurs twice, is new."""
        id, prefix = fact["source_id"] or "", PREFIXES[kind]
        named = _PREFIX.match(id)
        if not id or id in self._taken or (named and named[1] != prefix):
            self.last[prefix] = self.last.get(prefix, 0) + 1
            id = f"{prefix}_{self.last[prefix]:03d}"
        self._taken.add(id)
        return id


def _index(draft: Draft, path: str) -> None:
    """Draft that a flat index becomes a root index with one branch per category."""
    home, group = posixpath.dirname(path), f"migrate {path}"
    items = load_json(draft.text(path)[draft.document(path).json.start :])
    rows = draft.entries("index_path", path)
    if len(rows) != len(items) or not all(isinstance(item, Node) for item in items):
        raise ChangeRefusedError(f"{path}: what it lists is not certain.")
    branches: dict[str, list[Row]] = {}
    places, id_of = dict[str, str](), {row["path"]: row["memory_id"] for row in rows}
    for item, row in zip(items, rows, strict=True):
        category, file = _category_and_file(draft, home, item, row)
        source, to = row["path"], posixpath.join(home, file)
        if source is not None and places.setdefault(source, to) != to:
            raise ChangeRefusedError(f"{path}: it lists {source} twice, in two categories.")
        branches.setdefault(category, []).append(_entry(draft, item, row, file))
    for source, to in places.items():
        if source != to:
            reason = f"a file lies in the folder of its category, {posixpath.basename(posixpath.dirname(to))}"
            draft.move(source, to, reason, memory_id=id_of[source], together=group)
    reason = "the flat list becomes a tree: a root, and an index a category"
    for category, entries in branches.items():
        index = posixpath.join(home, category, "index.json")
        if draft.exists(index):
            raise ChangeRefusedError(f"{path}: {index} exists already.")
        branch = {"type": "index-branch", "category": category, "files": entries}
        draft.write(index, f"{pretty(branch)}\n", reason, together=group)
    root = format_root({"category": category, "path": f"{category}/index.json"} for category in branches)
    draft.write(path, root, reason, together=group)


def _category_and_file(draft: Draft, home: str, item: Node, row: Row) -> tuple[str, str]:
    """The category of a file, and its new path, relative to the memory folder."""
    kind = text_of(item.get("type")) or "context"
    category = _FOLDERS.get(kind, kind)
    if not category.replace("-", "").replace("_", "").isalnum():
        raise ChangeRefusedError(f"{row['index_path']}: {category!r} cannot be the name of a folder.")
    if row["path"] is None:
        written = (text_of(item.get("path")) or "").removeprefix("memory/")
        reason = f"missing_file: there is no file {written}; its entry keeps the path"
        draft.refuse(row["index_path"], row["memory_id"], reason)
        return category, written or category
    path_ = posixpath.relpath(row["path"], home or ".")
    if "/" in path_:
        return path_.split("/")[0], path_
    return category, posixpath.join(category, path_)


def _entry(draft: Draft, item: Node, row: Row, file: str) -> Row:
    title = text_of(item.get("title")) or (title_of(draft.text(row["path"])) if row["path"] else None)
    day = row["updated"].date() if row["updated"] else draft.moment.date()
    known = {"path", "title", "type", "description", "lastModified"}
    entry: Row = {
        "title": title or posixpath.splitext(posixpath.basename(file))[0],
        "file": file,
        "tags": [],
        "priority": "medium",
        "version": "1.0",
        "updated": day.isoformat(),
    }
    if summary := text_of(item.get("description")):
        entry["summary"] = summary
    return {**entry, **{key: value for key, value in item.items() if key not in known | FIELDS.names}}


def _folder(draft: Draft, folder: str, paths: list[str]) -> None:
    """Draft the records of one folder, which share a log."""
    lines: list[str] = []
    group = f"migrate {folder}"
    for path in paths:
        with draft.attempt(path, None):
            lines += _records(draft, path, group)
    log = posixpath.join(folder, JOURNAL)
    with draft.attempt(log, None):
        if lines:
            draft.append(log, draft.text_or_none(log), "".join(lines), "what became what, and why", together=group)


def _records(draft: Draft, path: str, group: str) -> list[str]:
    """Draft the migration of each old record of a file, and return the lines of the log."""
    if not path.lower().endswith((".json", ".jsonl", ".ndjson")):
        raise ChangeRefusedError(f"{path}: records of an older shape are rewritten in JSON alone.")
    document, lines = draft.document(path), list[str]()
    text = document.text
    for ordinal, memory in enumerate(draft.memories_in(path)):
        span = record_span(draft, memory, ordinal)
        start, end = (document.json.start, len(text.rstrip())) if span is None else span
        old = load_json(text[start:end])
        kind = kind_of(old) or ""
        version = shape_of(kind, old) or text_of(old.get("format_version")) or CURRENT
        new, steps = adapt(kind, version, old)
        if not steps:
            continue
        draft.splice(
            "update",
            path,
            Splice(start, end, _in_place(document, start, RECORD_KINDS[kind].fields.ordered(new))),
            "; ".join(step.reason for step in steps),
            memory_id=memory["memory_id"],
            together=group,
        )
        lines += [_line(draft, memory["memory_id"], step) for step in steps]
    return lines


def _in_place(document: Document, start: int, record: Row) -> str:
    """A record as JSON: on one line where the old one began within a line, else with its indentation."""
    indent = document.indent(start) if document.newline else None
    if indent is None:
        return json.dumps(record, ensure_ascii=False)
    return pretty(record, indent).replace("\n", document.newline)


def _line(draft: Draft, memory_id: str, step: Any) -> str:
    versions = {"record": memory_id, "from": step.from_version, "to": step.to_version}
    row = {**versions, "time": stamp(draft.moment), "reason": step.reason}
    return f"{json.dumps(row, ensure_ascii=False)}\n"


def _note(draft: Draft, row: Row) -> None:
    path, memory_id = row["path"], row["memory_id"]
    text = draft.text(path)
    if row["created_at"] != row["occurred_at"]:
        raise ChangeRefusedError(f"{path}: it has created_at and occurred_at, and they differ.")
    group = f"migrate {path}"
    reason = "occurred_at becomes created_at and updated_at"
    head = Head(text)
    renamed = head.rename("occurred_at", "created_at")
    for splice in (renamed, head.set_value(["updated_at"], stamp(row["occurred_at"]))):
        draft.splice("update", path, splice, reason, memory_id=memory_id, together=group)


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
    if draft.entries("path", path):
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
    example = next((row for row in draft.entries("index_path", index) if row["path"] and row["file"]), None)
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
