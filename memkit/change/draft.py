"""A plan in the making: its rows, the files as they were read, and its refusals; and the base of the documents' stores,
whose operations read, draft and apply under one lock.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, as_of_time, describe
from memkit.base.plugins import Plugins
from memkit.change.disk import Disk, Names
from memkit.change.edits import Edits, check_names
from memkit.change.journal import hash_of, opened
from memkit.errors import ChangeRefusedError, FormatError, NotFoundError, ParameterError, near
from memkit.formats.disk.source import decode, utf8
from memkit.formats.fields import check_text
from memkit.formats.records.write import Place, json_places, yaml_places
from memkit.formats.registry import NAMES, name_of
from memkit.formats.rows import Row
from memkit.formats.syntax.nodes import YAML
from memkit.formats.syntax.places import Json, Splice, Steps, line_end
from memkit.schemas import result_schema, tuples_of
from memkit.tables.corpus import Corpus, exact_text, read
from memkit.text.secrets import mask

T = TypeVar("T")
_BLANK = re.compile(r"\s*")


class Document:
    """A file that a plan reads; everything parsed from it is cached.

    Attributes
    ----------
    text : str
        The whole text.
    sha256 : str
        Hash of the bytes.
    """

    def __init__(self, path: str, text: str, sha256: str) -> None:
        self.path, self.text, self.sha256 = path, text, sha256
        self._parsed: dict[Callable[[str], Any], Any] = {}

    @cached_property
    def json(self) -> Json:
        """The text as JSON.

        Raises
        ------
        ChangeRefusedError
            Where the text is not JSON.
        """
        return Json(self.text)

    @cached_property
    def entries(self) -> dict[int, list[Steps]]:
        """The steps to each entry of an index, by the line on which it begins."""
        steps: Steps = [] if self.text.startswith("[", self.json.start) else ["files"]
        array = self.json.find(steps)
        paths: dict[int, list[Steps]] = {}
        for position, part in enumerate(self.json.parts(array.value) if array else ()):
            paths.setdefault(self.json.line(part.value), []).append([*steps, position])
        return paths

    @cached_property
    def named(self) -> dict[tuple[int, str], list[Steps]]:
        """The entries on lines that hold several, by line and by the file that they name."""
        by_file: dict[tuple[int, str], list[Steps]] = {}
        for line, paths in self.entries.items():
            for path in paths if len(paths) > 1 else ():
                parts = (self.json.find([*path, key]) for key in ("file", "path"))
                for file in {self.json.value(part) for part in parts if part and self.text[part.value] == '"'}:
                    by_file.setdefault((line, file), []).append(path)
        return by_file

    def parsed(self, read: Callable[[str], T]) -> T:
        """What a function makes of the text, made once for the whole plan."""
        if read not in self._parsed:
            self._parsed[read] = read(self.text)
        made: T = self._parsed[read]
        return made

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """The span of the lines `first` to `last` in characters, line ends included; a BOM is not part of the first."""
        starts = self._starts
        start = 1 if first == 1 and self.text.startswith("\ufeff") else starts[first - 1]
        return start, starts[min(last, len(starts) - 1)]

    @cached_property
    def newline(self) -> str:
        """The line end; empty where the text is one line."""
        return "" if "\n" not in self.text.strip() else "\r\n" if "\r\n" in self.text else "\n"

    def indent(self, position: int) -> str | None:
        """The blanks before a position on its line; None where the line has other text before it."""
        start = self._starts[bisect_right(self._starts, position) - 1]
        match = _BLANK.match(self.text, start, position)
        return match.group() if match and match.end() == position else None

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        while (newline := self.text.find("\n", starts[-1])) >= 0:
            starts.append(newline + 1)
        return [*starts, len(self.text)]

    def records(self) -> list[Place] | None:
        """The places of the records, in order; None where the file is one record.

        Raises
        ------
        ChangeRefusedError
            Where they are not certain.
        """
        if isinstance(self._records, ChangeRefusedError):
            raise ChangeRefusedError(str(self._records)) from self._records
        return self._records

    @cached_property
    def _records(self) -> list[Place] | ChangeRefusedError | None:
        try:
            return yaml_places(self.text) if self.path.lower().endswith(YAML) else json_places(self.json)
        except ChangeRefusedError as error:  # cached too, else each record of the file would try again
            return error


class Draft:
    """Rows of edits of the files below a root, as of a day; what `corpus` was read from must be unchanged.

    Parameters
    ----------
    reads_only : bool
        Whether nothing is written: a file that is not UTF-8 is then read as `memkit.read` reads it.

    Attributes
    ----------
    root : Path
        The folder.
    rows, refused : list of dict
        As `Edits` takes them.
    gone : set of str
        Ids of the memories that the rows so far remove.
    """

    def __init__(self, root: Path, moment: datetime, corpus: Corpus | None = None, *, reads_only: bool = False) -> None:
        self.root, self._corpus, self.moment, self._reads_only = root, corpus, moment, reads_only
        self.rows: list[Row] = []
        self.refused: list[Row] = []
        self.gone: set[str] = set()
        self._disk = Disk(root)
        self._names, self._removed_paths = Names(self._disk), set[str]()
        self._movers: dict[str, str] = {}
        self._documents: dict[str, Document | ChangeRefusedError] = {}
        self._ordinals: dict[str, dict[str, int]] = {}
        self._policy = ""

    @property
    def corpus(self) -> Corpus:
        """The corpus that the plan is for."""
        assert self._corpus is not None, "a store's operation has no corpus"
        return self._corpus

    @contextmanager
    def as_policy(self, policy: str) -> Iterator[None]:
        """Within this context, rows carry the name of a policy."""
        self._policy, outer = policy, self._policy
        try:
            yield
        finally:
            self._policy = outer

    def text(self, path: str) -> str:
        """A file as it was read, every character of it.

        Raises
        ------
        StaleSourceError, ChangeRefusedError
            Where it changed since, or is not UTF-8.
        """
        return self.document(path).text

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists at `path`."""
        return self._disk.status(path) is not None

    def memories_in(self, path: str) -> list[Row]:
        """The memories of a file, in order: id, lines, kind, format and layout."""
        return self._by_path.get(path, [])

    @cached_property
    def _by_path(self) -> dict[str, list[Row]]:
        names = ("memory_id", "path", "line_start", "line_end", "kind", "format", "layout")
        rows_by_path: dict[str, list[Row]] = {}
        for values in tuples_of(self.corpus.memories, *names):
            row = dict(zip(names, values, strict=True))
            rows_by_path.setdefault(row["path"], []).append(row)
        return rows_by_path

    def ordinal(self, path: str, memory_id: str) -> int:
        """The position of a memory in its file, from 0."""
        if path not in self._ordinals:
            rows = self.memories_in(path)
            self._ordinals[path] = {row["memory_id"]: position for position, row in enumerate(rows)}
        return self._ordinals[path][memory_id]

    def entries(self, column: str, value: str) -> list[Row]:
        """The index entries in order of which this is the ``memory_id``, the ``index_path`` or the ``path``."""
        return self._entries[column].get(value, [])

    @cached_property
    def _entries(self) -> dict[str, dict[str, list[Row]]]:
        """The entries of all indexes, grouped by each of three columns."""
        by_column: dict[str, dict[str, list[Row]]] = {"memory_id": {}, "index_path": {}, "path": {}}
        for row in self.corpus.tables["entries"].to_pylist():
            for name, rows in by_column.items():
                rows.setdefault(row[name], []).append(row)
        return by_column

    def document(self, path: str) -> Document:
        """A file as it was read, parsed once for the whole plan.

        Raises
        ------
        StaleSourceError, ChangeRefusedError
            Where it changed since, or is not UTF-8.
        """
        if path not in self._documents:
            data = self._disk.read(path)
            try:
                text = self._decoded(path, data) if self._corpus is None else exact_text(self._corpus, path, data)
                self._documents[path] = Document(path, text, hash_of(data or b""))
            except ChangeRefusedError as error:  # kept too, else each memory of the file would read it again
                self._documents[path] = error
        document = self._documents[path]
        if isinstance(document, ChangeRefusedError):
            raise ChangeRefusedError(str(document)) from document
        return document

    def splice(self, op: str, path: str, splice: Splice, reason: str, **more: Any) -> None:
        """Add a row that changes a part of a file."""
        document = self.document(path)
        before = document.text[splice.start : splice.end]
        if before != splice.text:
            row = {"op": op, "path": path, "before": before, "after": splice.text, "at": splice.start}
            self._add({**row, "sha256": document.sha256, "reason": reason, **more})

    def write(self, path: str, text: str, reason: str, **more: Any) -> None:
        """Add a row that creates a file, or replaces its content."""
        data = self._disk.read(path)
        if data is None:
            self._add({"op": "create", "path": path, "after": text, "reason": reason, **more})
        elif (before := self._decoded(path, data)) != text:
            row = {"op": "update", "path": path, "before": before, "after": text, "sha256": hash_of(data)}
            self._add({**row, "reason": reason, **more})

    def append(self, path: str, before: str | None, text: str, reason: str, **more: Any) -> None:
        """Add a row that appends `text` to a file with the content `before`, or creates the file."""
        if before is None:
            self.write(path, text, reason, **more)
        elif text:
            start = "" if not before or before.endswith("\n") else line_end(before)
            row = {"op": "update", "path": path, "before": "", "after": start + text, "at": len(before)}
            self._add({**row, "sha256": hash_of(before.encode()), "reason": reason, **more})

    def text_or_none(self, path: str) -> str | None:
        """The current text of any file, read by a format or not; None where it does not exist.

        Raises
        ------
        ChangeRefusedError
            Where it is not UTF-8.
        """
        data = self._disk.read(path)
        return None if data is None else self._decoded(path, data)

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""
        return self._disk.names(folder)

    def _decoded(self, path: str, data: bytes | None) -> str:
        if data is None:
            raise NotFoundError(f"{path}: there is no such file.")
        try:
            return utf8(path, data)
        except ChangeRefusedError:
            # A change would write the whole file in UTF-8; what only reads may take it as it is.
            if self._reads_only:
                return decode(path, data).text
            raise

    def delete(self, path: str, reason: str, **more: Any) -> None:
        """Add a row that removes a file."""
        self._add({"op": "delete", "path": path, **self._whole(path), "reason": reason, **more})

    def move(self, path: str, to: str, reason: str, **more: Any) -> None:
        """Add a row that moves a file to a new path, which must not exist."""
        if self.exists(to):
            raise ChangeRefusedError(f"{path}: it cannot become {to}, which exists already.")
        if (other := self._movers.setdefault(to, path)) != path:
            raise ChangeRefusedError(f"{path}: it cannot become {to}, as {other} does. Give one of them another id.")
        self._add({"op": "move", "path": path, "to": to, **self._whole(path), "reason": reason, **more})

    def _whole(self, path: str) -> Row:
        document = self.document(path)
        return {"before": document.text, "sha256": document.sha256}

    def _add(self, row: Row) -> None:
        check_names(row)
        if row["op"] == "move" or (row["op"] == "delete" and "at" not in row):
            self._removed_paths.add(row["path"])
        if row["op"] in ("create", "move"):
            self._names.make(row.get("to") or row["path"], self._removed_paths)
        self.rows.append({**row, "policy": self._policy})

    def take_back(self, rows: Sequence[Row]) -> None:
        """Take rows out again."""
        # By identity: another policy may have added an equal row, which stays.
        taken = {id(row) for row in rows}
        self.rows[:] = [row for row in self.rows if id(row) not in taken]
        self._removed_paths -= {row["path"] for row in rows if row["op"] in ("delete", "move")}

    def refuse(self, path: str | None, memory_id: str | None, why: object) -> None:
        """Report what cannot be done."""
        self.refused.append({"path": path, "memory_id": memory_id, "policy": self._policy, "reason": str(why)})

    @contextmanager
    def attempt(self, path: str | None, memory_id: str | None) -> Iterator[None]:
        """Within this context, one failing row takes back all of them, and is reported as a refusal."""
        count = len(self.rows)
        try:
            yield
        except (ChangeRefusedError, FormatError) as error:
            del self.rows[count:]
            self.refuse(path, memory_id, error)

    def edits(self, about: Iterable[tuple[str, Any]] = ()) -> Edits:
        """The drafted edits."""
        reading = self._corpus._source() if self._corpus is not None else None
        return Edits(self._disk.root, self.rows, self.refused, dict(about), reading)


_ANSWER = result_schema((pa.string(), "path op sha256_before sha256_after reason"))


class Operations:
    """The base of the stores: an operation reads, drafts and applies under one lock.

    Attributes
    ----------
    policy : str
        The store's name in ``mk.store(root)`` and in the column ``policy`` of its edits.
    format : str
        The format whose memories `draft_removal` takes out; empty where the store has no such.
    """

    policy = "store"
    format = ""

    @staticmethod
    def draft_removal(draft: Draft, memory: Row, reason: str) -> None:
        """Draft the removal of one memory, as a plan needs it; refuse what is not safe.

        Raises
        ------
        ChangeRefusedError
        """
        raise ChangeRefusedError(f"memkit does not change files of the format {memory['format']!r}.")

    def __init__(self, root: Path) -> None:
        self.root = root
        self._formats = [name_of(self.format)] if self.format and self.format not in NAMES else []

    def keeper(self) -> Callable[..., str | Edits] | None:
        """Where a text that is to be remembered in this folder belongs to this store, the operation that saves it.

        It takes the text, ``subject=`` and ``type=``, which may be None, and ``now=`` and ``dry_run=``.
        """
        return None

    def _do(self, work: Callable[[Draft], T], now: AsOf, dry_run: bool) -> T | Edits:
        """The result of `work`, once its draft is applied; with `dry_run` the edits, and nothing is written."""
        moment = as_of_time(now)
        if dry_run:
            return self._drafted(work, moment)[1]
        with opened(self.root) as journal:
            result, edits = self._drafted(work, moment)
            edits.apply_with(journal)
        return result

    def _memories_where(self, column: str, value: str) -> pa.Table:
        """The folder's memories of a format or layout."""
        memories = read(self.root, formats=self._formats).memories
        return memories.filter(pc.equal(memories[column], value))

    def _reader(self) -> Draft:
        """A draft that only reads files; its date is never written."""
        return Draft(self.root, as_of_time("1970-01-01"), reads_only=True)

    def _drafted(self, work: Callable[[Draft], T], moment: datetime) -> tuple[T, Edits]:
        draft = Draft(self.root, moment)
        with draft.as_policy(self.policy):
            result = work(draft)
        for row in draft.rows:
            if "\0" in (row.get("after") or "") and "\0" not in (row.get("before") or ""):
                raise ParameterError(f"{row['path']}: expected text without NUL. Got some.")
        edits = draft.edits([("time", moment.isoformat())])
        edits.changes()  # refuses now what cannot be written
        return result, edits


def _checked(name: str, cls: Any) -> type[Operations]:
    if not (isinstance(cls, type) and issubclass(cls, Operations)) or not name.isidentifier() or cls.policy != name:
        raise ParameterError(f"a store: expected a subclass of mk.extend.Operations with a name. Got {cls!r:.80}.")
    return cls


STORES = Plugins("memkit.stores", _checked)
"""The stores from outside of the core."""


def removal_of(format: str) -> Callable[[Draft, Row, str], None] | None:
    """How a store from outside of the core takes out a memory of a format; None where none does."""
    return next((store.draft_removal for _, store in STORES.all() if store.format == format), None)


def applied(edits: Edits, *, force: bool = False) -> pa.Table:
    """Apply `edits`: the table of `Edits.apply`, and a row with op ``refused`` and the reason for each refusal."""
    return answer(edits.apply(force), edits.refused.to_pylist(), "refused")


def answer(files: pa.Table | None, rows: Iterable[dict[str, Any]], op: str) -> pa.Table:
    """The table that an operation returns: changed files, and `rows` with path and reason under `op`."""
    done = files.to_pylist() if files is not None else []
    others = [{"path": row["path"], "op": op, "reason": row["reason"]} for row in rows]
    return describe(pa.Table.from_pylist([*done, *others], schema=_ANSWER), memkit="applied")


def checked(text: object, name: str, *, filled: bool = True) -> str:
    """`text`, checked to be a string that UTF-8 can encode and, with `filled`, that is not blank.

    Raises
    ------
    ParameterError, FormatError

    Examples
    --------
    >>> checked("чай", "text")
    'чай'
    >>> checked(" ", "text")
    Traceback (most recent call last):
    memkit.errors.ParameterError: text: expected a text. Got a blank one.
    """
    if not isinstance(text, str) or (filled and not text.strip()):
        got = "a blank one" if isinstance(text, str) else f"{text!r:.80}"
        raise ParameterError(f"{name}: expected a text. Got {got}.")
    check_text(text, name)
    return text


def missing(what: str, wanted: str, known: Iterable[str]) -> NotFoundError:
    """The error for an unknown id, with similar ones.

    >>> str(missing("page", "tea", ["tea.md", "log.md"]))
    "there is no page 'tea'. Near it: tea.md."
    """
    # Lower than for names of parameters, as whoever asks often gives a part of an id.
    near_ids = near(wanted, known, cutoff=0.4)
    hint = f" Near it: {', '.join(near_ids)}." if near_ids else ""
    return NotFoundError(mask(f"there is no {what} {wanted!r:.200}.{hint}"))


def stamp(moment: datetime) -> str:
    """A time as the formats write it: UTC, to the second.

    >>> stamp(datetime(2026, 3, 1, 12, 30))
    '2026-03-01T12:30:00Z'
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
