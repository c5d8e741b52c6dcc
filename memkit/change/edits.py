"""A change as a table: one row per operation, to be read, filtered, shown as a diff, and applied as a whole.

It knows what it brings along: the memories that it removes, counted from the files before and after as memkit reads
them, and the counters in ``meta.json`` beside fact files, which follow the facts.
"""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.checked import LONE_SURROGATE
from memkit.base.params import describe
from memkit.base.plugins import BEFORE_APPLY
from memkit.change.diff import Diff, diff_of
from memkit.change.disk import Disk, Names, check_changed, check_new, folder_of
from memkit.change.journal import Change, Journal, Record, hash_of, opened, stale
from memkit.display.draw import Tabular, shown
from memkit.errors import ChangeRefusedError, FormatError, QueryError, StaleSourceError, count_of
from memkit.formats import reader
from memkit.formats.disk.files import MAX_FILE_BYTES
from memkit.formats.disk.source import utf8
from memkit.formats.facts import COUNTED, parse_fact
from memkit.formats.reader import Options, Reading
from memkit.formats.rows import Row
from memkit.formats.syntax.nodes import LINES
from memkit.formats.syntax.places import Json, Splice, spliced
from memkit.schemas import column, result_schema, table
from memkit.tables.identity import ALIKE, Known, known_of, matches
from memkit.tables.untrusted import Sandbox, parse_select
from memkit.text.secrets import mask


def lost(before: pa.Table, after: pa.Table) -> list[str]:
    """The ids of the memories of which less than half is left, in their replacement or else line by line.

    Memories that now expire, or expire sooner, count as removed too: the next cleanup would remove them.

    Examples
    --------
    >>> import memkit as mk
    >>> before = mk.from_table({"memory_id": ["a", "b"], "text": ["Пул на 10 соединений", "Чай"]}).memories
    >>> lost(before, mk.from_table({"memory_id": ["a", "b"], "text": ["Пул на 20 соединений", ""]}).memories)
    ['b']
    """
    old, new, kept = known_of(before), known_of(after), dict[int, int]()
    ends, new_ends = before["expires_at"].to_pylist(), after["expires_at"].to_pylist()
    for new_row, row in matches(old, new).items():
        is_sooner = new_ends[new_row] is not None and (ends[row] is None or new_ends[new_row] < ends[row])
        if not is_sooner and _is_kept(old[row], new[new_row]):
            kept[row] = new_row
    replacements = set(kept.values())
    lines = Counter(_lines(one for row, one in enumerate(new) if row in replacements or new_ends[row] is None))
    lines.subtract(_lines(old[row] for row in kept))
    gone = [memory for row, memory in enumerate(old) if row not in kept and not _take_lines(memory, lines)]
    return sorted(memory.memory_id for memory in gone)


def _is_kept(old: Known, new: Known) -> bool:
    """Whether at least half of the words of a memory are in another; without words, whether both are equal."""
    if old.stripped == new.stripped or not old.stripped:
        return True
    words, new_words = Counter(old.text.split()), Counter(new.text.split())
    return (words & new_words).total() >= ALIKE * words.total()


def _lines(memories: Iterable[Known]) -> list[str]:
    return [line for memory in memories for line in map(str.strip, memory.text.split("\n")) if line]


def _take_lines(memory: Known, lines: Counter[str]) -> bool:
    """Remove a memory's lines from `lines` if at least half of them are in it, and return whether they were."""
    wanted = Counter(_lines([memory]))
    shared = Counter({line: min(count, lines[line]) for line, count in wanted.items() if lines[line] > 0})
    if not wanted or shared.total() < ALIKE * wanted.total():
        return not wanted
    lines.subtract(shared)
    return True


_COUNTERS = {f"{kind}.md": name for name, kind in COUNTED.items()}
ReadFile = Callable[[str], tuple[str | None, str | None]]


def counted(after: Mapping[str, str], read_file: ReadFile) -> Iterator[dict[str, Any]]:
    """The edits that correct the counters for the new contents `after`.

    A ``meta.json`` that is itself changed, is missing, or is not JSON is left alone; missing counters are not added.
    """
    for path, text in sorted(after.items()):
        folder, name = posixpath.split(path)
        meta = posixpath.join(folder, "meta.json")
        counter = _COUNTERS.get(name)
        if counter is None or meta in after:
            continue
        before, sha256 = read_file(meta)
        span = _counter_span(before, counter)
        facts = facts_in(text)
        if before is not None and span and before[slice(*span)] != str(facts):
            yield {
                "path": meta,
                "policy": "counters",
                "reason": f"{name} will have {count_of(facts, 'fact')}",
                "before": before[slice(*span)],
                "after": str(facts),
                "at": span[0],
                "sha256": sha256,
            }


def check_counters(after: Mapping[str, str], before: Mapping[str, str | None], read_file: ReadFile) -> None:
    """Raise where a changed counter in ``meta.json`` is not the number of facts."""
    for path, text in after.items():
        folder, name = posixpath.split(path)
        for counter_of, counter in _COUNTERS.items() if name == "meta.json" else ():
            new_value, old_value = _counter_text(text, counter), _counter_text(before.get(path), counter)
            if new_value is None or new_value == old_value:
                continue
            file = posixpath.join(folder, counter_of)
            facts = str(facts_in(after[file] if file in after else read_file(file)[0] or ""))
            if new_value != facts:
                raise ChangeRefusedError(
                    f"{path}: '{counter}' would be {new_value}, and the facts in {file} are {facts}."
                )


def _counter_text(meta: str | None, counter: str) -> str | None:
    span = _counter_span(meta, counter)
    return meta[slice(*span)] if meta and span else None


def _counter_span(meta: str | None, counter: str) -> tuple[int, int] | None:
    try:
        part = Json(meta).find([counter]) if meta else None
    except ChangeRefusedError:
        return None
    return (part.value, part.end) if part else None


def facts_in(text: str) -> int:
    """The number of fact lines in a text."""
    lines = text.removeprefix("\ufeff").split("\n")
    return sum(parse_fact(line.removesuffix("\r")) is not None for line in lines)


# A guess of where a plan is a mistake more often than a wish.
MOST_REMOVED = 0.3
"""The share of the memories that a change may remove without ``force=True``."""
OPS = ("create", "update", "delete", "move")
EDITS = table(
    column("edit", pa.int64(), "place in the plan, from 1"),
    column("op", pa.string(), "create, update, delete or move"),
    column("path", pa.string(), "the file, relative to the root"),
    column("to", pa.string(), "where a file moves; else null"),
    column("memory_id", pa.string(), "the memory that changes; null for indexes and counters"),
    column("policy", pa.string(), "the policy or operation that wants the edit"),
    column("reason", pa.string(), "why, in the policy's words"),
    column("before", pa.string(), "the text before; null where there is none"),
    column("after", pa.string(), "the text after; null for none"),
    column("at", pa.int64(), "where `before` begins in the file, in characters; null for a whole file"),
    column("sha256", pa.string(), "hash of the file as it was read; null for a new file"),
    column("together", pa.string(), "rows with the same value are applied together or not at all; null: independent"),
    column("derived", pa.bool_(), "whether it follows from other rows, like a counter; recomputed after a filter"),
)
_TYPES: dict[pa.DataType, tuple[type, str]] = {
    pa.string(): (str, "a text"),
    pa.int64(): (int, "a whole number of 0 or more"),
    pa.bool_(): (bool, "true or false"),
}
_COLUMNS = {field.name: _TYPES[field.type] for field in EDITS}
# What the column of Arrow holds; a plan's JSON may have any number.
_MAX_INT64 = 2**63 - 1
REFUSED = result_schema((pa.string(), "path memory_id policy reason"), (pa.int64(), "count"))
_APPLIED = result_schema((pa.string(), "path op sha256_before sha256_after"))
OF_SURVIVOR = " of "
"""Between the reason of a removed duplicate and the memory that stays."""
_SELECT = "select edit from edits where "


class Edits(Tabular):
    """A plan of changes as rows, made by `memkit.plan`, by a store with ``dry_run=True``, or by `from_json`.

    Parameters
    ----------
    root : Path
        The folder that the paths are relative to.
    rows : list of dict
        One per operation; derived rows are recomputed.
    refused : list of dict
        Operations that cannot be done safely: path, memory_id, policy, reason; count, where it stands for several.
    about : dict
        Metadata for the journal.
    reading : Reading, optional
        The folder as it was read; None reads it again where the number of memories is needed.

    Attributes
    ----------
    refused : pyarrow.Table
        What cannot be done, a row for each file and policy: path; memory_id, the first one; policy; reason; count, how
        many memories or entries of the file that holds for.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> text = "- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит\\n- [id:wk_2] [t:working] [imp:high] Чай\\n"
    >>> folder = mk.testing.write_files(tempfile.mkdtemp(), {"users/anna/working.md": text})
    >>> edits = mk.plan(mk.read(folder), mk.Expiry(), as_of="2026-03-01")
    >>> edits.table.select(["op", "path", "reason", "after"]).to_pylist()
    [{'op': 'delete', 'path': 'users/anna/working.md', 'reason': 'expired', 'after': ''}]
    >>> _ = edits.apply(force=True)
    >>> mk.read(folder).memories["source_id"].to_pylist()
    ['wk_2']
    >>> _ = mk.undo(folder)
    >>> mk.read(folder).memories["source_id"].to_pylist()
    ['wk_1', 'wk_2']
    """

    def __init__(
        self,
        root: Path,
        rows: Iterable[Row],
        refused: Sequence[Row] = (),
        about: Mapping[str, Any] | None = None,
        reading: Reading | None = None,
    ) -> None:
        self.root, self.about = root, dict(about or {})
        self._disk, self._reading = Disk(root), reading
        columns = ({name: row.get(name) for name in EDITS.names} for row in rows)
        checked = (_checked_row(row, f"a plan, row {number}") for number, row in enumerate(columns, 1))
        self._rows: list[Row] = [row for row in checked if not row["derived"]]
        self._before: dict[str, str | None] = {}
        self._hashes: dict[str, str | None] = {}
        for row in self._rows:
            self._read(row["path"], row["sha256"])
            if row["at"] is None:
                row["before"] = self._before[row["path"]]  # whatever the plan says that stands there
        self.refused = describe(pa.Table.from_pylist(_by_file(refused), schema=REFUSED), memkit="refused")

    @cached_property
    def table(self) -> pa.Table:
        """One row per operation; ``schema.field(name).metadata`` describes each column."""
        rows = [*self._rows, *self._derived]
        numbered = [{**row, "edit": number} for number, row in enumerate(rows, 1)]
        return describe(pa.Table.from_pylist(numbered, schema=EDITS), memkit="edits")

    @cached_property
    def _derived(self) -> list[Row]:
        after = {path: text for path, text in self._planned_contents.items() if text is not None}
        # First the counters that the plan itself writes: a wrong one is refused, and none is corrected twice.
        check_counters(after, self._before, self._read_other)
        return [
            {"edit": None, "to": None, "memory_id": None, "together": None, "op": "update"} | {**row, "derived": True}
            for row in counted(after, self._read_other)
        ]

    @cached_property
    def _planned_contents(self) -> dict[str, str | None]:
        """The new content of every file that the plan's own rows touch; None for a removed file."""
        contents = self._contents(self._rows)
        names, gone = Names(self._disk), {path for path, text in contents.items() if text is None}
        for path, text in contents.items():
            if text is not None and self._before[path] is None:
                names.make(path, gone)
                for position, character in enumerate(path):
                    if character == "/" and path[:position] in contents:
                        raise ChangeRefusedError(f"{path}: {path[:position]} is a file, and cannot be its folder.")
            size = len((text or "").encode())
            # What is too large already may change, as long as it does not grow.
            if size > max(MAX_FILE_BYTES, len((self._before[path] or "").encode())):
                message = f"it would have {size:,} bytes, more than the {MAX_FILE_BYTES:,} that memkit reads"
                raise ChangeRefusedError(f"{path}: {message}. Split it first.")
        return contents

    @cached_property
    def _after(self) -> dict[str, str | None]:
        """The same, with the derived rows applied too."""
        return self._planned_contents | self._contents(self._derived)

    def _read_other(self, path: str) -> tuple[str | None, str | None]:
        """The text of another file and its hash, or None twice."""
        data = self._disk.read(path)
        if data is None:
            return None, None
        self._read(path, hash_of(data))
        return self._before[path], hash_of(data)

    def _read(self, path: str, sha256: str | None) -> None:
        """Read a file into `_before`; raises where its hash differs from the row's."""
        # One file may have thousands of rows, and is read and hashed once.
        if path in self._before and self._hashes[path] == sha256:
            return
        data = self._disk.read(path)
        if (None if data is None else hash_of(data)) != sha256:
            raise stale(path)
        self._hashes[path], self._before[path] = sha256, None if data is None else utf8(path, data)

    def _contents(self, rows: Iterable[Row]) -> dict[str, str | None]:
        """The new content of every file that `rows` touch; None for a removed file."""
        splices: dict[str, list[Splice]] = {}
        contents: dict[str, str | None] = {}
        for row in rows:
            path, whole = row["path"], {row["path"]: row["after"]}
            if row["at"] is not None:
                splices.setdefault(path, []).append(self._splice(row))
                continue
            if row["op"] == "move":
                whole = {path: None, row["to"]: self._before[path]}
                self._read(row["to"], None)
            if twice := contents.keys() & whole.keys():
                raise ChangeRefusedError(f"{min(twice)}: two rows would each write the whole file.")
            contents |= whole
        for path, file_splices in splices.items():
            if path in contents:
                raise ChangeRefusedError(f"{path}: one row would change a part of the file, and one the whole.")
            contents[path] = spliced(
                self._before[path] or "", _checked_splices(path, self._before[path] or "", file_splices)
            )
        return contents

    def _splice(self, row: Row) -> Splice:
        text, start = self._before[row["path"]] or "", int(row["at"])
        end = start + len(row["before"] or "")
        if end > len(text) or text[start:end] != (row["before"] or ""):
            raise StaleSourceError(
                f"{row['path']}: what row {row['edit']} would change does not stand there.", row["path"]
            )
        return Splice(start, end, row["after"] or "")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def _memories(self) -> pa.Table | None:
        return None if self._reading is None else self._reading.tables["memories"]

    def diff(self) -> Diff:
        """The changes as a unified diff, file by file; a notebook shows it in colour.

        Where a duplicate is removed, the head of the hunk names the memory that stays.

        Returns
        -------
        Diff
            A string.
        """
        after = sorted(self._after.items())
        notes = self._survivors()
        text = "".join(diff_of(path, self._before.get(path), text, notes.get(path)) for path, text in after)
        return Diff(text, self._memories)

    def _survivors(self) -> dict[str, dict[int, str]]:
        """By file and 1-based line of a removed duplicate, which memory stays."""
        notes: dict[str, dict[int, str]] = {}
        for row in self._rows:
            if not row["after"] and OF_SURVIVOR in (row["reason"] or ""):
                line = 1 + (self._before[row["path"]] or "").count("\n", 0, row["at"] or 0)
                notes.setdefault(row["path"], {})[line] = f"{row['reason']}, which stays"
        return notes

    def filter(self, where: str) -> Edits:
        """The rows that match a predicate, and the rows derived from them.

        Parameters
        ----------
        where : str
            SQL over the columns of `table`, such as ``"reason = 'expired'"``.

        Returns
        -------
        Edits

        Raises
        ------
        QueryError
            Where it is not a predicate.
        ChangeRefusedError
            Where it would separate rows that belong together.
        """
        try:
            # Parsed first: `true) or (true` and a clause behind the predicate would fit between the brackets.
            if parse_select(_SELECT + where).shape != parse_select(_SELECT + "true").shape:
                raise QueryError("expected one expression.")
            edit_numbers = Sandbox({"edits": self.table}, dict).ask(f"{_SELECT}(\n{where}\n)")["edit"].to_pylist()
        except QueryError as error:
            columns = ", ".join(EDITS.names)
            raise QueryError(
                f"where: expected one SQL predicate over {columns}. Got {mask(repr(where)):.200}: {mask(str(error))}"
            ) from error
        rows, chosen = self._rows, set(edit_numbers)
        kept_groups = {row["together"] for number, row in enumerate(rows, 1) if number in chosen and row["together"]}
        split_groups = {row["together"] for number, row in enumerate(rows, 1) if number not in chosen} & kept_groups
        if split_groups:
            raise ChangeRefusedError(
                f'filter: it parts rows that belong together ({min(split_groups)}). Ask for "together".'
            )
        kept_rows = [row for number, row in enumerate(rows, 1) if number in chosen]
        return Edits(self.root, kept_rows, self.refused.to_pylist(), self.about, self._reading)

    def removed(self) -> list[str]:
        """The ids of the memories that the change removes, computed from the files before and after, not from the rows.

        A memory counts as kept if at least half of its words are in its replacement, or half of its lines anywhere in
        the changed files, and if it does not expire sooner than before.

        Returns
        -------
        list of str
        """
        return list(self._removed)

    @cached_property
    def _removed(self) -> list[str]:
        if not (changes := self.changes()):
            return []
        root, options = (self._reading.root, self._reading.options) if self._reading else (self.root, Options())
        before, after = ({change.path: getattr(change, side) for change in changes} for side in ("before", "after"))
        return lost(*reader.memories_of(root, options, before, after))

    def apply(self, force: bool = False) -> pa.Table:
        """Apply all rows or none, in one step that `memkit.undo` takes back.

        Parameters
        ----------
        force : bool
            Apply even if more than 30 % of the memories would be removed.

        Returns
        -------
        pyarrow.Table
            The changed files: path, op, sha256_before, sha256_after.

        Raises
        ------
        StaleSourceError
            Where a file was changed since; nothing was written.
        ChangeRefusedError
            Where too many memories would be removed, or a file cannot be changed safely; nothing was written.
        MemkitError
            Where another process holds the lock, or the disk fails; nothing was changed.
        """
        if not self.changes():
            return report_of(Record(0, ()))
        if gone := 0 if force else len(self._removed):
            memories = (self._reading or reader.read(self.root, Options())).tables["memories"].num_rows
            if gone > MOST_REMOVED * memories:
                message = f"{gone} of {memories} memories would be removed, more than {MOST_REMOVED:.0%}"
                raise ChangeRefusedError(f"{message}. force=True allows it.")
        with opened(self.root) as journal:
            return self.apply_with(journal)

    def changes(self) -> list[Change]:
        """The changed files, before and after."""
        after = self._after.items()
        changes = [Change(path, _bytes(self._before.get(path)), _bytes(text)) for path, text in after]
        return [change for change in changes if change.before != change.after]

    def apply_with(self, journal: Journal) -> pa.Table:
        """`apply` for a caller that holds the lock, however many memories are removed."""
        policies = sorted({word or "" for word in self.table["policy"].to_pylist()})
        changes, about = self.changes(), {**self.about, "edits": len(self), "policies": policies}
        for _, look in BEFORE_APPLY.all() if changes else ():
            look(self)
        return report_of(journal.apply(changes, about) if changes else Record(0, ()))

    def to_json(self) -> str:
        """The rows as a JSON array, for `from_json` and ``memkit apply``.

        Returns
        -------
        str
        """
        return json.dumps(self.table.to_pylist(), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str, root: str | Path) -> Edits:
        """Load a plan that `to_json` wrote; its files must be unchanged.

        Parameters
        ----------
        text : str
            A JSON array.
        root : str or Path
            The folder that the plan was made for.

        Returns
        -------
        Edits

        Raises
        ------
        FormatError
            Where the text is no such array, or a value has the wrong type.
        ChangeRefusedError
            Where a row names a file that memkit does not write, or two rows conflict.
        StaleSourceError
            Where a file was changed since.
        """
        try:
            rows = json.loads(text.removeprefix("\ufeff") if isinstance(text, str) else text)
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise ValueError("It is something else.")
        except (ValueError, TypeError, RecursionError) as error:
            raise FormatError(
                f"a plan: expected a JSON array of edits, as `memkit plan --json` prints. {error}"
            ) from error
        edits = cls(folder_of(root), rows)
        _ = edits._after  # refuse rows that match no text now, not on apply
        return edits

    def _sheets(self, rows: int = 20, show_secrets: bool = False) -> Any:
        sheets = shown(self.table, rows, None, show_secrets).sheets
        return [*sheets, *(shown(self.refused, rows, None, show_secrets).sheets if self.refused.num_rows else ())]

    def __repr__(self) -> str:
        counts = pc.value_counts(self.table["op"]).to_pylist()
        operations = ", ".join(
            f"{row['counts']} {row['values']}" for row in sorted(counts, key=lambda row: row["values"])
        )
        files = len(set(self.table["path"].to_pylist()))
        count, in_files = pc.sum(self.refused["count"]).as_py() or 0, self.refused.num_rows
        refused = f"; {count} refused" if count else ""
        refused += f" in {count_of(in_files, 'file')}" if count > in_files else ""
        return f"Edits({operations or 'nothing'}; {files} files{refused})"


def _by_file(refused: Iterable[Row]) -> list[Row]:
    """Refusals with one row for each file and policy: the first, how many there are, and their different reasons."""
    rows: dict[tuple[str | None, str | None], Row] = {}
    reasons: dict[tuple[str | None, str | None], dict[str, None]] = {}
    for row in refused:
        key = row["path"], row["policy"]
        known = rows.setdefault(key, {**row, "count": 0})
        known["count"] += row.get("count") or 1
        reasons.setdefault(key, {})[row["reason"]] = None
    for key, row in rows.items():
        first, *others = reasons[key]
        below = [reason.removeprefix(f"{row['path']}: ") for reason in others]
        row["reason"] = " ".join([first, *below[:_REASONS]])
        row["reason"] += f" And {len(below) - _REASONS:,} more reasons." if len(below) > _REASONS else ""
    return list(rows.values())


_REASONS = 2
"""How many reasons of a file are told beside the first."""


def report_of(record: Record) -> pa.Table:
    """The files of a journal record: path, op, sha256_before and sha256_after."""
    ops = {(True, False): "create", (False, True): "delete"}
    rows = [
        (file.path, ops.get((file.before is None, file.after is None), "update"), file.before, file.after)
        for file in record.files
    ]
    files = [dict(zip(_APPLIED.names, row, strict=True)) for row in rows]
    return describe(pa.Table.from_pylist(files, schema=_APPLIED), memkit="applied")


def _checked_row(row: Row, where: str) -> Row:
    """`row`, checked, since anybody may have written it.

    Raises
    ------
    FormatError
        Where a value has the wrong type, or the columns do not fit together.
    ChangeRefusedError
        Where the row names a file that memkit does not write.
    """
    for name, (kind, expected) in _COLUMNS.items():
        value = row[name]
        if not (value is None and name not in ("op", "path")) and not _is_one(value, kind):
            raise FormatError(f"{where}: '{name}' must be {expected}. Got {value!r:.80}.", field=name)
    op, path = row["op"], row["path"]
    if op not in OPS:
        raise FormatError(f"{where}: 'op' must be one of {', '.join(OPS)}. Got {op!r:.80}.", field="op")
    for name, expected in _EXPECTED[op].items():
        if not _HOLDS[expected](row[name]):
            raise FormatError(f"{where}: to {op} {path!r:.200}, '{name}' must be {expected}. Got {row[name]!r:.80}.")
    check_names(row)
    return row


def check_names(row: Row) -> None:
    """Raise where a row would change or create a file that memkit does not write.

    Raises
    ------
    ChangeRefusedError
    """
    (check_new if row["op"] == "create" else check_changed)(row["path"])
    if row["op"] == "move":
        check_new(row["to"])


def _is_one(value: object, kind: type) -> bool:
    if kind is str:
        return isinstance(value, str) and not LONE_SURROGATE.search(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT64
    return isinstance(value, kind)


_NULL, _GIVEN, _EMPTY = "null", "given", "empty or null"
_HOLDS: dict[str, Callable[[Any], bool]] = {
    _NULL: lambda value: value is None,
    _GIVEN: lambda value: value is not None,
    _EMPTY: lambda value: not value,
}
_EXPECTED = {
    "create": {"to": _NULL, "at": _NULL, "sha256": _NULL, "after": _GIVEN},
    "update": {"to": _NULL, "sha256": _GIVEN, "after": _GIVEN},
    "delete": {"to": _NULL, "sha256": _GIVEN, "after": _EMPTY},
    "move": {"to": _GIVEN, "at": _NULL, "sha256": _GIVEN, "after": _NULL},
}
"""What the columns of each operation must be."""


def _checked_splices(path: str, text: str, splices: list[Splice]) -> list[Splice]:
    """The sorted splices of one file, which must not overlap; in JSON, commas are removed with their items."""
    # Once each, as two policies may want the same text gone.
    splices = sorted(dict.fromkeys(splices), key=lambda splice: splice[:2])
    if path.lower().endswith((".json", *LINES)) and not all(splice.text for splice in splices):
        splices = sorted(_settled(path, text, splices), key=lambda splice: splice[:2])
    for first, second in pairwise(splices):
        # Insertions may meet at one place: they are written in the order of their rows.
        if first.end > second.start or (first[:2] == second[:2] and first.end > first.start):
            raise ChangeRefusedError(f"{path}: two rows would change the same place, at character {second.start}.")
    return splices


def _settled(path: str, text: str, splices: list[Splice]) -> list[Splice]:
    """`splices` with the commas of what they remove, where the text is JSON, or within its lines where these are."""
    if not path.lower().endswith(LINES) and not _is_json(text.lstrip("\ufeff\n").partition("\n")[0]):
        return Json(text).settled(splices)
    by_line: dict[int, list[Splice]] = {}
    for splice in splices:
        by_line.setdefault(text.rfind("\n", 0, splice.start) + 1, []).append(splice)
    result = []
    for start, in_line in by_line.items():
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        begin, stop = start + text.startswith("\ufeff", start), start + len(line.rstrip())
        within = [splice for splice in in_line if splice.start > begin and splice.end <= stop]
        if within and not all(splice.text for splice in within):
            moved = [Splice(splice.start - start, splice.end - start, splice.text) for splice in within]
            settled = Json(line).settled(moved)
            in_line = [splice for splice in in_line if splice not in within]
            in_line += [Splice(splice.start + start, splice.end + start, splice.text) for splice in settled]
        result += in_line
    return result


def _is_json(line: str) -> bool:
    try:
        Json(line)
    except ChangeRefusedError:
        return False
    return True


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8")
