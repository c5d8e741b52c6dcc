"""One change of many files as one step, whatever happens half-way.

The record of a change says what each file was and will be. It is written first (``.new``); then the new contents are
staged beside their targets; then the record is renamed (``.todo``), which decides; then names change and nothing else;
then the record is ``.done`` and keeps what is needed to undo. What a process that died left is settled by the next that
opens the folder: a ``.new`` is taken back, a ``.todo`` is finished. Each step is safe to do twice.
"""

from __future__ import annotations

import json
import posixpath
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from memkit.change.disk import Disk, check_path
from memkit.errors import ChangeRefusedError, MemkitError, StaleSourceError
from memkit.formats.disk.lock import JOURNAL, PATIENCE, STATE, TODO
from memkit.formats.disk.source import utf8

NEW, DONE = ".new", ".done"
_RECORD = re.compile(r"(\d{6,})\.(?:new|todo|done)")
_ASIDE = f"{STATE}/aside"
KEPT = 100
"""Changes that can be undone, one after the other: each keeps the old texts."""


def hash_of(data: bytes) -> str:
    """What tells one content of a file from another."""
    return sha256(data).hexdigest()


@dataclass(frozen=True)
class Change:
    """One file before and after, as bytes; None where it is not there."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class File:
    """A file in a record: hashes (None where it is not there), where the new content is staged, the old content."""

    path: str
    before: str | None
    after: str | None
    staged: str | None
    image: str | None
    mode: int | None


@dataclass(frozen=True)
class Record:
    """What the journal keeps of one change.

    Attributes
    ----------
    number : int
        Changes are counted; the one with the highest number was the last.
    files : tuple of File
        In the order in which their names change.
    made, dropped : tuple of str
        Folders that it makes, outermost first, and folders that it removes where they are empty then, innermost first.
    undoes : int or None
        The change whose undoing this is.
    about : dict
        What the caller says of it: policies, reasons, time.
    """

    number: int
    files: tuple[File, ...]
    made: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    undoes: int | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """One line of JSON below its own hash."""
        text = json.dumps(asdict(self), ensure_ascii=False).encode()
        return hash_of(text).encode() + b"\n" + text + b"\n"


def to_record(data: bytes | None) -> Record | None:
    """What `Record.to_bytes` wrote; None where it is not whole."""
    digest, _, text = (data or b"").partition(b"\n")
    text = text.removesuffix(b"\n")
    if hash_of(text).encode() != digest:
        return None
    values: dict[str, Any] = json.loads(text)
    files = tuple(File(**file) for file in values["files"])
    return Record(**values | {"files": files, "made": tuple(values["made"]), "dropped": tuple(values["dropped"])})


@contextmanager
def opened(root: Path, patience: float = PATIENCE, disk: Callable[[Path], Disk] = Disk) -> Iterator[Journal]:
    """The journal of `root`, locked, after what was left unfinished there is settled.

    Raises
    ------
    MemkitError
        Where another process holds the lock, or nothing can be written.
    """
    files = disk(root)
    with files.locked(patience):
        journal = Journal(files)
        for said in journal.recover():
            warnings.warn(said, RuntimeWarning, stacklevel=3)
        yield journal


class Journal:
    """The changes made below one root; whoever has it holds the lock."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def apply(self, changes: Sequence[Change], about: dict[str, Any]) -> Record:
        """Make all of `changes` or none.

        Raises
        ------
        StaleSourceError
            Where a file is not what its `Change` says that it was; nothing was written.
        ChangeRefusedError
            Where a file is not text in UTF-8, is read-only, or lies behind a link; nothing was written.
        MemkitError
            Where the disk refuses before the change is decided; nothing was changed.
        """
        return self._do(changes, about=about)

    def undo(self) -> Record:
        """Take back the last change.

        Raises
        ------
        MemkitError
            Where there is none.
        StaleSourceError
            Where a file was changed since.
        """
        last = self.last()
        if last is None:
            raise MemkitError(f"{self.disk.root}: there is no change to undo.")
        images = [None if file.image is None else file.image.encode() for file in last.files]
        back = [Change(file.path, self._after(file), image) for file, image in zip(last.files, images, strict=True)]
        modes = {file.path: file.mode for file in last.files}
        dropped, about = tuple(reversed(last.made)), {"undoes": last.about}
        return self._do(back, modes, dropped=dropped, undoes=last.number, about=about)

    def _do(self, changes: Sequence[Change], modes: Mapping[str, int | None] | None = None, **of: Any) -> Record:
        """Make the changes, in a record of the next number; a file that comes back gets the mode that it had."""
        number = max(map(_number, self.disk.names(JOURNAL)), default=0) + 1
        files = tuple(self._files(number, changes, modes or {}))
        made = tuple(self._missing(file.path for file in files if file.after is not None))
        record = Record(number, files, made, **of)
        self._commit(record, {change.path: change.after for change in changes})
        return record

    def last(self) -> Record | None:
        """The last change that is done and not undone."""
        done = self._done()
        return to_record(self.disk.read(f"{JOURNAL}/{done[-1]}")) if done else None

    def _done(self) -> list[str]:
        """The names of the records of what is done, in order."""
        return sorted((name for name in self.disk.names(JOURNAL) if name.endswith(DONE)), key=_number)

    def images(self) -> Iterator[tuple[str, bytes]]:
        """The old contents that are kept, by path."""
        for name in self.disk.names(JOURNAL):
            for file in (to_record(self.disk.read(f"{JOURNAL}/{name}")) or Record(0, ())).files:
                if file.image is not None:
                    yield file.path, file.image.encode()

    def clear(self) -> int:
        """Forget how to undo: remove every record, and with it the old texts; how many there were."""
        names = self._done()
        for name in names:
            self.disk.remove(f"{JOURNAL}/{name}")
        for name in self.disk.names(_ASIDE):
            self.disk.remove(f"{_ASIDE}/{name}")
        self.disk.sync_folder(JOURNAL)
        return len(names)

    def recover(self) -> list[str]:
        """Settle what a process that died left; what is to be said of files that somebody changed meanwhile."""
        said: list[str] = []
        for name in self.disk.names(JOURNAL):
            path = f"{JOURNAL}/{name}"
            if name.endswith(NEW):
                self._take_back(path, to_record(self.disk.read(path)))
            elif name.endswith(TODO):
                record = to_record(self.disk.read(path))
                if record is None:
                    raise MemkitError(f"{path}: the record of a change is damaged. Mend or remove it by hand.")
                said += self._finish(record)
        return said

    def _after(self, file: File) -> bytes | None:
        """What a change left of a file, which must still be there."""
        data = self.disk.read(file.path)
        if file.after != (None if data is None else hash_of(data)):
            raise stale(file.path)
        return data

    def _files(self, number: int, changes: Sequence[Change], modes: Mapping[str, int | None]) -> Iterator[File]:
        """The changes as a record has them, checked against the disk, in the order in which they are to happen."""
        paths = [check_path(change.path) for change in changes]
        if len(set(paths)) < len(paths):
            raise ChangeRefusedError("a change names a file twice.")
        for place, change in enumerate(sorted(changes, key=_order)):
            status, now = self.disk.status(change.path), self.disk.read(change.path)
            if now != change.before:
                raise stale(change.path)
            if status is not None and not status.st_mode & 0o200:
                raise ChangeRefusedError(f"{change.path}: it is read-only.")
            folder = posixpath.dirname(change.path)
            staged = posixpath.join(folder, f".~memkit-{number}-{place}.tmp") if change.after is not None else None
            image, _ = (None if data is None else utf8(change.path, data) for data in (now, change.after))
            mode = modes.get(change.path) if status is None else status.st_mode
            before, after = (None if data is None else hash_of(data) for data in (now, change.after))
            yield File(change.path, before, after, staged, image, mode)

    def _missing(self, paths: Iterable[str]) -> Iterator[str]:
        """The folders above `paths` that are not there, outermost first."""
        seen: set[str] = set()
        for path in paths:
            parts = path.split("/")[:-1]
            for end in range(1, len(parts) + 1):
                folder = "/".join(parts[:end])
                if folder not in seen and self.disk.status(folder) is None:
                    yield folder
                seen.add(folder)

    def _commit(self, record: Record, contents: dict[str, bytes | None]) -> None:
        new, todo = _place(record, NEW), _place(record, TODO)
        try:
            self._stage(record, new, contents)
        except BaseException as error:
            with suppress(OSError):  # what cannot be taken back now is when the folder is next opened
                self._take_back(new, record)
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise MemkitError(f"{self.disk.root}: nothing was changed: {reason}.") from error
            raise
        # From here on nothing is cleaned up: only who opens the folder next can tell on which side of the rename it is.
        try:
            self.disk.rename(new, todo)
            self.disk.sync_folder(JOURNAL)
            found = self._finish(record)
        except OSError as error:
            reason = error.strerror or error
            raise MemkitError(
                f"{self.disk.root}: a change was cut off: {reason}. mk.recover(folder) settles it."
            ) from error
        for said in found:
            warnings.warn(said, RuntimeWarning, stacklevel=4)

    def _stage(self, record: Record, new: str, contents: dict[str, bytes | None]) -> None:
        """Write all that needs space, and have it last."""
        self.disk.write(new, record.to_bytes())
        self.disk.sync(new)
        self.disk.sync_folder(JOURNAL)
        for folder in record.made:
            self.disk.make_folder(folder)
            self.disk.sync_folder(posixpath.dirname(folder))
        staged = [file for file in record.files if file.staged]
        for file in staged:
            self.disk.write(str(file.staged), contents[file.path] or b"", _like(self.disk.status(file.path), file))
        for file in staged:
            self.disk.sync(str(file.staged))
        self._sync_folders(file.path for file in staged)

    def _take_back(self, new: str, record: Record | None) -> None:
        """Remove what was staged, and the record last."""
        for file in record.files if record else ():
            if file.staged and self.disk.status(file.staged):
                self.disk.remove(file.staged)
        self._drop(reversed(record.made) if record else ())
        if record:
            self._sync_folders(file.path for file in record.files)
            self._sync_folders(record.made)
        if self.disk.status(new):
            self.disk.remove(new)  # if this is lost, all of it is done again, and finds nothing

    def _finish(self, record: Record) -> list[str]:
        """Change names as far as it is not done; what cannot be done is said."""
        said = [self._settle(file) for file in record.files]
        self._sync_folders(file.path for file in record.files)
        self._drop(record.dropped)
        self._sync_folders(record.dropped)
        if record.undoes is None:
            self.disk.rename(_place(record, TODO), _place(record, DONE))
        else:
            self._forget(_place(record, DONE, record.undoes))
            self.disk.remove(_place(record, TODO))
        self.disk.sync_folder(JOURNAL)
        for name in self._done()[:-KEPT]:
            self.disk.remove(f"{JOURNAL}/{name}")
        return [text for text in said if text]

    def _forget(self, done: str) -> None:
        """Remove the record of what is undone, before that of its undoing: it could else be undone once more."""
        if self.disk.status(done):
            self.disk.remove(done)
            self.disk.sync_folder(JOURNAL)

    def _settle(self, file: File) -> str:
        """Give one file its new content; what is to be said where it is neither the old nor the new one."""
        try:
            now = self.disk.read(file.path)
            found = None if now is None else hash_of(now)
        except ChangeRefusedError:
            found = "a link"
        staged = file.staged if file.staged and self.disk.status(file.staged) else None
        if found == file.before and found != file.after:
            if staged:
                self.disk.rename(staged, file.path)
                return ""
            if file.after is None:
                self.disk.remove(file.path)
                return ""
        elif found == file.after:
            if staged:
                self.disk.remove(staged)
            return ""
        if staged:
            self._put_aside(staged)
        kept = f" What was to be written is in {_ASIDE}." if staged else ""
        return f"{file.path}: somebody changed it while a change was under way; it is left as it is.{kept}"

    def _put_aside(self, staged: str) -> None:
        if self.disk.status(_ASIDE) is None:
            self.disk.make_folder(_ASIDE)
        with suppress(FileExistsError):  # it was put there by one who died
            self.disk.write(f"{_ASIDE}/{posixpath.basename(staged)[2:]}", self.disk.read(staged) or b"")
        self.disk.remove(staged)

    def _drop(self, folders: Iterable[str]) -> None:
        """Remove folders that are empty; others hold what somebody put there."""
        for folder in folders:
            if self.disk.status(folder) and not self.disk.names(folder):
                self.disk.remove_folder(folder)

    def _sync_folders(self, paths: Iterable[str]) -> None:
        for folder in dict.fromkeys(map(posixpath.dirname, paths)):
            if not folder or self.disk.status(folder):
                self.disk.sync_folder(folder)


def _number(name: str) -> int:
    match = _RECORD.fullmatch(name)
    return int(match.group(1)) if match else 0


def _place(record: Record, ending: str, number: int | None = None) -> str:
    return f"{JOURNAL}/{record.number if number is None else number:06d}{ending}"


def _like(status: Any, file: File) -> Any:
    """Whose mode and owner a new content gets: the file's own, or of one that comes back the mode that it had."""
    return status if status or file.mode is None else _Mode(file.mode)


@dataclass(frozen=True)
class _Mode:
    st_mode: int
    st_uid: int = -1
    st_gid: int = -1


def stale(path: str) -> StaleSourceError:
    """The error for a file that is not what it was when the change was planned."""
    return StaleSourceError(
        f"{path}: it was changed since the change was planned. Plan again; nothing was written.", path
    )


def _order(change: Change) -> tuple[int, int, str]:
    """Contents, then what names them, indexes from the leaves up, then what goes: no index names a missing file."""
    name = posixpath.basename(change.path)
    rank = 3 if change.after is None else 2 if name.startswith("index.") and name.endswith(".json") else 0
    rank = 1 if rank == 0 and name == "index.md" else rank
    return rank, -change.path.count("/"), change.path
