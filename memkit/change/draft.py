"""A plan under way: the rows so far, the files as they were read, and what cannot be done."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from memkit.change.disk import Disk, Names
from memkit.change.edits import Edits, check_names
from memkit.change.journal import hash_of
from memkit.errors import ChangeRefusedError, FormatError, NotFoundError
from memkit.formats.disk.source import utf8
from memkit.formats.records.write import Place, json_places, yaml_places
from memkit.formats.syntax.places import Json, Splice, Steps
from memkit.formats.syntax.yaml import ENDINGS
from memkit.tables.corpus import Corpus
from memkit.tables.sources import exact_text

Row = dict[str, Any]
_BLANK = re.compile(r"\s*")


class Document:
    """A file that a plan looks at; what is asked of it often costs as much as to ask once.

    Attributes
    ----------
    text : str
        Every character of it.
    sha256 : str
        Of its bytes.
    """

    def __init__(self, path: str, text: str, sha256: str) -> None:
        self.path, self.text, self.sha256 = path, text, sha256

    @cached_property
    def json(self) -> Json:
        """The text as JSON.

        Raises
        ------
        ChangeRefusedError
            Where it is none.
        """
        return Json(self.text)

    @cached_property
    def entries(self) -> dict[int, list[Steps]]:
        """Of an index: the paths of its entries, by the line that they begin on."""
        above: Steps = [] if self.text.startswith("[", self.json.start) else ["files"]
        whole = self.json.find(above)
        found: dict[int, list[Steps]] = {}
        for place, part in enumerate(self.json.parts(whole.value) if whole else ()):
            found.setdefault(self.json.line(part.value), []).append([*above, place])
        return found

    @cached_property
    def named(self) -> dict[tuple[int, str], list[Steps]]:
        """The entries of lines that hold several, by line and by the file that they name."""
        found: dict[tuple[int, str], list[Steps]] = {}
        for line, paths in self.entries.items():
            for path in paths if len(paths) > 1 else ():
                parts = (self.json.find([*path, key]) for key in ("file", "path"))
                for file in {self.json.value(part) for part in parts if part and self.text[part.value] == '"'}:
                    found.setdefault((line, file), []).append(path)
        return found

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """Where lines begin and end, their own line ends included; a BOM is not part of the first."""
        starts = self._starts
        start = 1 if first == 1 and self.text.startswith("\ufeff") else starts[first - 1]
        return start, starts[min(last, len(starts) - 1)]

    @cached_property
    def newline(self) -> str:
        """What ends its lines; nothing where there is one alone."""
        return "" if "\n" not in self.text.strip() else "\r\n" if "\r\n" in self.text else "\n"

    def indent(self, at: int) -> str | None:
        """The blank that stands before a place on its line; None where something else does."""
        start = self._starts[bisect_right(self._starts, at) - 1]
        match = _BLANK.match(self.text, start, at)
        return match.group() if match and match.end() == at else None

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        while (found := self.text.find("\n", starts[-1])) >= 0:
            starts.append(found + 1)
        return [*starts, len(self.text)]

    def records(self) -> list[Place] | None:
        """The places of the records, in order; None where the file is one record.

        Raises
        ------
        ChangeRefusedError
            Where they cannot be told.
        """
        if isinstance(self._records, ChangeRefusedError):
            raise ChangeRefusedError(str(self._records)) from self._records
        return self._records

    @cached_property
    def _records(self) -> list[Place] | ChangeRefusedError | None:
        try:
            return yaml_places(self.text) if self.path.lower().endswith(ENDINGS) else json_places(self.json)
        except ChangeRefusedError as error:  # kept too: else each record of the file would look again
            return error


class Draft:
    """Rows of edits over the files below a root, as of a day; what `corpus` was read from must not have changed.

    Attributes
    ----------
    rows, refused : list of dict
        As `Edits` takes them.
    gone : set of str
        Ids of memories that an earlier row removes.
    """

    def __init__(self, root: Path, moment: datetime, corpus: Corpus | None = None) -> None:
        self._corpus, self.moment = corpus, moment
        self.rows: list[Row] = []
        self.refused: list[Row] = []
        self.gone: set[str] = set()
        self._disk = Disk(root)
        self._names, self._going = Names(self._disk), set[str]()
        self._documents: dict[str, Document | ChangeRefusedError] = {}
        self._ordinals: dict[str, dict[str, int]] = {}
        self._policy = ""

    @property
    def corpus(self) -> Corpus:
        """What is planned for."""
        assert self._corpus is not None, "a store's operation has no corpus"
        return self._corpus

    @contextmanager
    def of(self, policy: str) -> Iterator[None]:
        """Within it, rows are asked for by this policy."""
        self._policy, before = policy, self._policy
        try:
            yield
        finally:
            self._policy = before

    def text(self, path: str) -> str:
        """A file as it was read, every character of it.

        Raises
        ------
        StaleSourceError, ChangeRefusedError
            Where it changed since, or is no UTF-8.
        """
        return self.document(path).text

    def exists(self, path: str) -> bool:
        """Whether there is anything at `path`."""
        return self._disk.status(path) is not None

    def memories_in(self, path: str) -> list[Row]:
        """The memories of one file, in its order: id, lines and kind."""
        return self._by_path.get(path, [])

    @cached_property
    def _by_path(self) -> dict[str, list[Row]]:
        names = ("memory_id", "path", "line_start", "line_end", "kind")
        found: dict[str, list[Row]] = {}
        for values in zip(*(self.corpus.memories[name].to_pylist() for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            found.setdefault(row["path"], []).append(row)
        return found

    def ordinal(self, path: str, memory_id: str) -> int:
        """Which memory of its file one is, from 0."""
        if path not in self._ordinals:
            rows = self.memories_in(path)
            self._ordinals[path] = {row["memory_id"]: place for place, row in enumerate(rows)}
        return self._ordinals[path][memory_id]

    def entries_of(self, memory_id: str) -> list[Row]:
        """The entries of indexes that name a memory."""
        return self._entries["memory_id"].get(memory_id, [])

    def entries_in(self, index: str) -> list[Row]:
        """The entries of one index, in its order."""
        return self._entries["index_path"].get(index, [])

    def entries_for(self, path: str) -> list[Row]:
        """The entries that name a file."""
        return self._entries["path"].get(path, [])

    @cached_property
    def _entries(self) -> dict[str, dict[str, list[Row]]]:
        """The entries of all indexes, by the value of each of three columns."""
        found: dict[str, dict[str, list[Row]]] = {"memory_id": {}, "index_path": {}, "path": {}}
        for row in self.corpus.tables["entries"].to_pylist():
            for name, rows in found.items():
                rows.setdefault(row[name], []).append(row)
        return found

    def document(self, path: str) -> Document:
        """A file as it was read, parsed no more than once for all that is drafted.

        Raises
        ------
        StaleSourceError, ChangeRefusedError
            Where it changed since, or is no UTF-8.
        """
        if path not in self._documents:
            self._documents[path] = self._loaded(path)
        found = self._documents[path]
        if isinstance(found, ChangeRefusedError):
            raise ChangeRefusedError(str(found)) from found
        return found

    def _loaded(self, path: str) -> Document | ChangeRefusedError:
        data = self._disk.read(path)
        try:
            text = self._decoded(path, data) if self._corpus is None else exact_text(self._corpus, path, data)
        except ChangeRefusedError as error:  # kept too: else each memory of the file would read it again
            return error
        return Document(path, text, hash_of(data or b""))

    def splice(self, op: str, path: str, splice: Splice, reason: str, **more: Any) -> None:
        """One row that changes a part of a file."""
        document = self.document(path)
        before = document.text[splice.start : splice.end]
        if before != splice.text:
            row = {"op": op, "path": path, "before": before, "after": splice.text, "at": splice.start}
            self._add({**row, "sha256": document.sha256, "reason": reason, **more})

    def write(self, path: str, text: str, reason: str, **more: Any) -> None:
        """One row that makes a file, or gives one a new content."""
        data = self._disk.read(path)
        if data is None:
            self._add({"op": "create", "path": path, "after": text, "reason": reason, **more})
        elif (before := self._decoded(path, data)) != text:
            row = {"op": "update", "path": path, "before": before, "after": text, "sha256": hash_of(data)}
            self._add({**row, "reason": reason, **more})

    def append(self, path: str, before: str | None, text: str, reason: str, **more: Any) -> None:
        """One row that puts `text` at the end of a file that is `before`, or makes the file."""
        if before is None:
            self.write(path, text, reason, **more)
        elif text:
            start = "" if not before or before.endswith("\n") else "\r\n" if "\r\n" in before else "\n"
            row = {"op": "update", "path": path, "before": "", "after": start + text, "at": len(before)}
            self._add({**row, "sha256": hash_of(before.encode()), "reason": reason, **more})

    def tail_of(self, path: str) -> str | None:
        """A file that no format may have read, as it is now; None where there is none.

        Raises
        ------
        ChangeRefusedError
            Where it is no UTF-8.
        """
        data = self._disk.read(path)
        return None if data is None else self._decoded(path, data)

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""
        return self._disk.names(folder)

    def _decoded(self, path: str, data: bytes | None) -> str:
        if data is None:
            raise NotFoundError(f"{path}: there is no such file.")
        return utf8(path, data)

    def delete(self, path: str, reason: str, **more: Any) -> None:
        """One row that removes a file."""
        self._add({"op": "delete", "path": path, **self._whole(path), "reason": reason, **more})

    def move(self, path: str, to: str, reason: str, **more: Any) -> None:
        """One row that gives a file another name, which nothing has yet."""
        if self.exists(to):
            raise ChangeRefusedError(f"{path}: it cannot become {to}, which is there already.")
        self._add({"op": "move", "path": path, "to": to, **self._whole(path), "reason": reason, **more})

    def _whole(self, path: str) -> Row:
        document = self.document(path)
        return {"before": document.text, "sha256": document.sha256}

    def _add(self, row: Row) -> None:
        check_names(row)
        if row["op"] == "move" or (row["op"] == "delete" and "at" not in row):
            self._going.add(row["path"])
        if row["op"] in ("create", "move"):
            self._names.make(row.get("to") or row["path"], self._going)
        self.rows.append({**row, "policy": self._policy})

    def refuse(self, path: str | None, memory_id: str | None, why: object) -> None:
        """Say what cannot be done."""
        self.refused.append({"path": path, "memory_id": memory_id, "policy": self._policy, "reason": str(why)})

    @contextmanager
    def attempt(self, path: str | None, memory_id: str | None) -> Iterator[None]:
        """Rows that are all taken back and refused where one of them cannot be made."""
        kept = len(self.rows)
        try:
            yield
        except (ChangeRefusedError, FormatError) as error:
            del self.rows[kept:]
            self.refuse(path, memory_id, error)

    def edits(self, about: Iterable[tuple[str, Any]] = ()) -> Edits:
        """What was drafted."""
        reading = self._corpus._source() if self._corpus is not None else None
        return Edits(self._disk.root, self.rows, self.refused, dict(about), reading)
