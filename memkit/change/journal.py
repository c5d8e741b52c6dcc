"""A write-ahead journal: a change of many files is one atomic step, even if the process dies.

The record of a change holds each file's old and new state. It is written first (``.new``); then the new contents are
staged beside their targets; then the record is renamed to ``.todo``, which commits the change; then files are only
renamed; then the record becomes ``.done`` and keeps the old contents for undo. The next process that opens the folder
settles an interrupted change: a ``.new`` is rolled back, a ``.todo`` is finished. Each step can be repeated safely.

A folder may come from anybody, so a record is followed only if this user's key signed its name (`formats/disk/
lock.py`), if every field is valid (`to_record`), and only within the limits of `Disk`. Records of others are set
aside; `recover(trust=True)` follows those too, within the last two limits.
"""

from __future__ import annotations

import json
import posixpath
import re
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from memkit.base.checked import Kinds, json_object, with_fields
from memkit.change.disk import Disk, check_path, staged_name
from memkit.display.sheet import visible
from memkit.errors import ChangeRefusedError, FormatError, MemkitError, StaleSourceError, refused, some_of
from memkit.formats.disk.lock import ASIDE, DONE, JOURNAL, NEW, PATIENCE, TODO, Signer, made_key, parsed
from memkit.formats.disk.source import utf8

_HASH = re.compile(r"[0-9a-f]{64}")
_MODES = range(0o1000)
"""The bits of a mode that are kept: the permissions; an older memkit kept the file type too."""
_MAX_FOREIGN = 10**6
"""Foreign records with larger numbers are ignored when numbering, so that nobody can exhaust the numbers."""
_REPEATED = "again-"
"""Prefix of a record that is set aside where a record of that name exists."""
# A round number: a message is for a person.
_MAX_LISTED = 10
# A round number: old texts are kept so long, and `memkit undo --clear` removes them.
KEPT = 100
"""How many changes can be undone, one after the other; each keeps its old texts."""


def hash_of(data: bytes) -> str:
    """The hash of a file's content."""
    return sha256(data).hexdigest()


@dataclass(frozen=True)
class Change:
    """One file before and after, as bytes; None where it does not exist."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class File:
    """A file in a record: its hashes (None where it does not exist), the staged path, and the old content."""

    path: str
    before: str | None
    after: str | None
    staged: str | None
    image: str | None
    mode: int | None


@dataclass(frozen=True)
class Record:
    """The journal's record of one change.

    Attributes
    ----------
    number : int
        Sequential number; the highest one is the last change.
    files : tuple of File
        In the order in which they are renamed.
    made, dropped : tuple of str
        Folders that it creates, outermost first, and folders that it removes if they are then empty, innermost first.
    undoes : int or None
        The number of the change that this one undoes.
    about : dict
        The caller's metadata: policies, reasons, time.
    """

    number: int
    files: tuple[File, ...]
    made: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    undoes: int | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The record as one line of JSON, below its hash."""
        text = json.dumps(asdict(self), ensure_ascii=False).encode()
        return hash_of(text).encode() + b"\n" + text + b"\n"


_FILE: Kinds = {
    **{"path": str, "before": str | None, "after": str | None},
    **{"staged": str | None, "image": str | None, "mode": int | None},
}
_RECORD: Kinds = {"number": int, "files": list, "made": list, "dropped": list, "undoes": int | None, "about": dict}
"""The fields of a file and of a record in JSON."""


def to_record(data: bytes | None, number: int | None = None) -> Record | None:
    """Parse the output of `Record.to_bytes`, stored under `number`; None where it is incomplete.

    Raises
    ------
    FormatError, ChangeRefusedError
        Where it is complete, but not as memkit writes it: somebody else wrote it.
    """
    digest, _, text = (data or b"").partition(b"\n")
    text = text.removesuffix(b"\n")
    if hash_of(text).encode() != digest:
        return None
    try:
        values = with_fields(json_object(text), _RECORD)
        files = tuple(File(**with_fields(file, _FILE)) for file in values["files"])
        record = Record(**values | {"files": files, "made": tuple(values["made"]), "dropped": tuple(values["dropped"])})
        _check_record(record, number)
        return record
    except ValueError as error:
        if isinstance(error, MemkitError):
            raise
        raise refused("a record", "JSON as memkit writes it", f"{error!s:.200}") from error


def _check_record(record: Record, number: int | None) -> None:
    """Raise where a record's folders, numbers or staged paths do not follow from the paths of its files."""
    paths = [check_path(file.path) for file in record.files]
    parents = {"/".join(path.split("/")[:end]) for path in paths for end in range(1, path.count("/") + 1)}
    if record.number < 1 or number not in (None, record.number):
        raise refused("a record", "the number of its name", str(record.number))
    if record.undoes is not None and not 1 <= record.undoes < record.number:
        raise refused("a record", "an earlier change that it undoes", str(record.undoes))
    if len(set(paths)) < len(paths):
        raise refused("a record", "each file once", f"{paths!r:.200}")
    for folders in (record.made, record.dropped):
        unknown = [folder for folder in folders if not isinstance(folder, str) or folder not in parents]
        if unknown:
            raise refused("a record", "folders above its files", f"{unknown!r:.200}")
    for place, file in enumerate(record.files):
        _check_file(file, staged_name(file.path, record.number, place))


def _check_file(file: File, staged: str) -> None:
    """Raise where the fields of a file in a record are inconsistent; `staged` is the only valid staged path."""
    if any(hash is not None and not _HASH.fullmatch(hash) for hash in (file.before, file.after)):
        raise refused(file.path, "a SHA-256 before and after", f"{file.before!r:.80} and {file.after!r:.80}")
    if file.staged != (None if file.after is None else staged):
        raise refused(file.path, f"its new content in {staged}", f"{file.staged!r:.200}")
    if file.before != (None if file.image is None else hash_of(file.image.encode())):
        raise refused(file.path, "its old content, of the hash before", f"{file.image!r:.80}")
    if not (file.before is None if file.mode is None else file.mode in _MODES or file.mode - stat.S_IFREG in _MODES):
        raise refused(file.path, "a mode of a file, at most 777", f"{file.mode!r:.80}")


@contextmanager
def opened(root: Path, patience: float = PATIENCE, disk: Callable[[Path], Disk] = Disk) -> Iterator[Journal]:
    """Lock `root`, settle interrupted changes, and give its journal.

    Raises
    ------
    MemkitError
        Where another process holds the lock, or nothing can be written.
    """
    files = disk(root)
    with files.locked(patience):
        journal = Journal(files)
        for message in journal.recover():
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        yield journal


class Journal:
    """The journal of the changes below one root; its owner holds the lock."""

    def __init__(self, disk: Disk) -> None:
        self.disk, self._signer = disk, Signer(made_key(), disk.root)

    def apply(self, changes: Sequence[Change], about: dict[str, Any]) -> Record:
        """Apply all `changes` or none.

        Raises
        ------
        StaleSourceError
            Where a file differs from `Change.before`; nothing was written.
        ChangeRefusedError
            Where a file is not UTF-8, is read-only, or lies behind a link; nothing was written.
        MemkitError
            Where the disk fails before the commit; nothing was changed.
        """
        # A removed index.md belongs to a split file, whose folder is removed too if it is then empty.
        folders = {posixpath.split(change.path) for change in changes if change.after is None}
        dropped = tuple(sorted(folder for folder, name in folders if folder and name == "index.md"))
        return self._commit_changes(changes, dropped=dropped, about=about)

    def undo(self) -> Record:
        """Undo the last change.

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
        return self._commit_changes(back, modes, dropped=dropped, undoes=last.number, about=about)

    def _commit_changes(
        self, changes: Sequence[Change], modes: Mapping[str, int | None] | None = None, **fields: Any
    ) -> Record:
        """Apply the changes in a record with the next number; a restored file gets its old mode."""
        numbers, others = (map(_number, self.disk.names(folder)) for folder in (JOURNAL, ASIDE))
        number = max([*numbers, *(number for number in others if number < _MAX_FOREIGN)], default=0) + 1
        files = tuple(self._files(number, changes, modes or {}))
        made = tuple(self._missing(file.path for file in files if file.after is not None))
        record = Record(number, files, made, **fields)
        self._commit(record, {change.path: change.after for change in changes})
        return record

    def last(self) -> Record | None:
        """The last change that was not undone."""
        done = self._names(DONE)
        return self._record(done[-1]) if done else None

    def _names(self, *states: str) -> list[str]:
        """The names of records in these states, in order; foreign records were set aside before."""
        names = (name for name in self.disk.names(JOURNAL) if name.endswith(states))
        number_of = {name: parsed_name.number for name in names if (parsed_name := parsed(name))}
        return sorted(number_of, key=number_of.__getitem__)

    def _record(self, name: str) -> Record | None:
        """A record of this user, in any state; None where it is incomplete or does not match its name.

        Raises
        ------
        FormatError, ChangeRefusedError
            As `to_record`; or where somebody else wrote it.
        """
        if not self._signer.owns(name):
            raise refused(f"{JOURNAL}/{name}", "a record that your own memkit signed", "one of another")
        data = self.disk.read(f"{JOURNAL}/{name}") or b""
        # The record begins with its own hash, so that one that was cut off is none.
        return to_record(data, _number(name)) if data[:32].decode("ascii", "replace") == _digest(name) else None

    def images(self) -> Iterator[tuple[str, bytes]]:
        """The kept old contents with their paths, of all records, foreign ones included."""
        for folder in (JOURNAL, ASIDE):
            for name in self.disk.names(folder):
                for file in self._readable(f"{folder}/{name}").files:
                    if file.image is not None:
                        yield file.path, file.image.encode()

    def _readable(self, path: str) -> Record:
        """A record by anybody; an empty one where it cannot be parsed."""
        number = _number(posixpath.basename(path))
        with suppress(FormatError, ChangeRefusedError, PermissionError):
            return (to_record(self.disk.read(path), number) if number else None) or Record(0, ())
        return Record(0, ())

    def clear(self) -> int:
        """Remove every record and with it the old texts, and return their number; nothing can be undone then.

        Records set aside are removed too, with the contents staged for them.
        """
        names = self._names(DONE)
        for name in names:
            self.disk.remove(f"{JOURNAL}/{name}")
        aside = [f"{ASIDE}/{name}" for name in self.disk.names(ASIDE)]
        for path in (path for path in aside if self._is(stat.S_ISREG, path)):
            self._unstage(self._readable(path))
            self.disk.remove(path)
        self.disk.sync_folder(JOURNAL)
        return len(names) + sum(map(bool, map(_number, aside)))

    def recover(self, trust: bool = False) -> list[str]:
        """Settle interrupted changes, and return messages about files changed meanwhile and about foreign records.

        Foreign records are set aside; with `trust`, valid ones become this user's own and are followed.
        """
        adopted = self._adopt() if trust else None
        aside = self._set_aside()
        messages = aside if adopted is None else adopted
        for name in self._names(NEW, TODO):
            path = f"{JOURNAL}/{name}"
            record = self._record(name)
            if name.endswith(NEW):
                self._take_back(path, record)
            elif record is None:
                raise MemkitError(f"{path}: the record of a change is damaged. Mend or remove it by hand.")
            else:
                messages += self._finish(record, _digest(name))
        return messages

    def _foreign(self) -> list[str]:
        """The names of the journal's foreign records (not written by this user's memkit), in order."""
        return [name for name in self._names(NEW, TODO, DONE) if not self._signer.owns(name)]

    def _set_aside(self) -> list[str]:
        """Move foreign records out of the journal, and return messages about them."""
        names = self._foreign()
        if not names:
            return []
        if self.disk.status(ASIDE) is None:
            self.disk.make_folder(ASIDE)
        unfinished = [self._readable(f"{JOURNAL}/{name}") for name in names if not name.endswith(DONE)]
        cut_off = [file.path for record in unfinished for file in record.files]
        taken = set(self.disk.names(ASIDE))
        for name in names:
            new_name = next(new_name for n in count() if (new_name := f"{_REPEATED * n}{name}") not in taken)
            self.disk.rename(f"{JOURNAL}/{name}", f"{ASIDE}/{new_name}")
            taken.add(new_name)
        under_way = f" A change that was cut off is among them, of {_listed(cut_off)}." if cut_off else ""
        return [
            f"{self.disk.root}: {len(names)} records of a journal were set aside in {ASIDE}. Your memkit did not write"
            " them here: they are somebody else's, an older memkit's, or of a folder that was copied or moved."
            f"{under_way} mk.recover(folder, trust=True) follows them; `memkit undo --clear` removes them."
        ]

    def _adopt(self) -> list[str]:
        """Make valid foreign records this user's own, and return a message about each."""
        own_numbers = {_number(name) for name in self._names(NEW, TODO, DONE) if self._signer.owns(name)}
        paths = [f"{JOURNAL}/{name}" for name in self._foreign()]
        paths += [f"{ASIDE}/{name}" for name in sorted(self.disk.names(ASIDE), key=_number) if _number(name)]
        messages = []
        for path in paths:
            number, state = _number(path), path[path.rfind(".") :]
            try:
                data = self.disk.read(path) or b""
                record = to_record(data, number)
                why = (
                    "its number is that of another"
                    if number in own_numbers
                    else "it is damaged"
                    if record is None
                    else ""
                )
            except (FormatError, ChangeRefusedError, PermissionError) as error:
                record, why = None, visible(str(error))
            if record is None or why:
                messages.append(f"{path}: it is not followed: {why}")
                continue
            own_numbers.add(number)
            self.disk.rename(path, self._place(number, data[:32].decode(), state))
            changed = _listed([file.path for file in record.files])
            messages.append(f"{path}: it is followed as if it were yours: a change of {changed}.")
        return messages

    def _after(self, file: File) -> bytes | None:
        """The content that a change gave a file, which must be unchanged since."""
        data = self.disk.read(file.path)
        if file.after != (None if data is None else hash_of(data)):
            raise stale(file.path)
        return data

    def _files(self, number: int, changes: Sequence[Change], modes: Mapping[str, int | None]) -> Iterator[File]:
        """The files of a record, checked against the disk, in the order of their renames."""
        paths = [check_path(change.path) for change in changes]
        if len(set(paths)) < len(paths):
            raise ChangeRefusedError("a change names a file twice.")
        for place, change in enumerate(sorted(changes, key=_order)):
            status, now = self.disk.status(change.path), self.disk.read(change.path)
            if now != change.before:
                raise stale(change.path)
            if status is not None and not status.st_mode & 0o200:
                raise ChangeRefusedError(f"{change.path}: it is read-only.")
            staged = staged_name(change.path, number, place) if change.after is not None else None
            if staged and self.disk.status(staged) is not None:
                raise ChangeRefusedError(
                    f"{staged}: it is in the way of a change, and no change of memkit left it. Remove it."
                )
            image, _ = (None if data is None else utf8(change.path, data) for data in (now, change.after))
            mode = modes.get(change.path) if status is None else status.st_mode & _MODES[-1]
            before, after = (None if data is None else hash_of(data) for data in (now, change.after))
            yield File(change.path, before, after, staged, image, mode)

    def _missing(self, paths: Iterable[str]) -> Iterator[str]:
        """The missing folders above `paths`, outermost first."""
        checked: set[str] = set()
        for path in paths:
            parts = path.split("/")[:-1]
            for end in range(1, len(parts) + 1):
                folder = "/".join(parts[:end])
                if folder not in checked and self.disk.status(folder) is None:
                    yield folder
                checked.add(folder)

    def _commit(self, record: Record, contents: dict[str, bytes | None]) -> None:
        data = record.to_bytes()
        digest = data[:32].decode()
        new, todo = (self._place(record.number, digest, state) for state in (NEW, TODO))
        try:
            self._stage(record, new, data, contents)
        # Also for a Ctrl-C: nothing is decided yet, so what was staged must go.
        except BaseException as error:
            with suppress(OSError):  # what cannot be rolled back now is when the folder is next opened
                self._take_back(new, record)
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise MemkitError(f"{self.disk.root}: nothing was changed: {reason}.") from error
            raise
        # From here on nothing is rolled back: only the next opener can tell whether the rename happened.
        try:
            self.disk.rename(new, todo)
            self.disk.sync_folder(JOURNAL)
            messages = self._finish(record, digest)
        except OSError as error:
            reason = error.strerror or error
            raise MemkitError(
                f"{self.disk.root}: a change was cut off: {reason}. mk.recover(folder) settles it."
            ) from error
        for message in messages:
            warnings.warn(message, RuntimeWarning, stacklevel=4)

    def _stage(self, record: Record, new: str, data: bytes, contents: dict[str, bytes | None]) -> None:
        """Write and sync everything that needs disk space."""
        self.disk.write(new, data)
        self.disk.sync(new)
        self.disk.sync_folder(JOURNAL)
        for folder in record.made:
            self.disk.make_folder(folder)
            self.disk.sync_folder(posixpath.dirname(folder))
        staged = [file for file in record.files if file.staged]
        for file in staged:
            status = self.disk.status(file.path)
            like: Any = status if status or file.mode is None else _Mode(file.mode)  # a restored file has its old mode
            self.disk.write(str(file.staged), contents[file.path] or b"", like)
        for file in staged:
            self.disk.sync(str(file.staged))
        self._sync_folders(file.path for file in staged)

    def _take_back(self, new: str, record: Record | None) -> None:
        """Roll back: remove the staged contents, and the record last."""
        if record:
            self._unstage(record)
            self._sync_folders(file.path for file in record.files)
            self._sync_folders(record.made)
        if self.disk.status(new):
            self.disk.remove(new)  # if this is lost, the roll-back is repeated and finds nothing

    def _unstage(self, record: Record) -> None:
        """Remove the staged contents of a change, and its new folders where they are empty."""
        for file in record.files:
            if file.staged and self._is(stat.S_ISREG, file.staged):
                self.disk.remove(file.staged)
        self._drop(reversed(record.made))

    def _finish(self, record: Record, digest: str) -> list[str]:
        """Do the renames that are not done yet, and return messages about those that cannot be done."""
        messages = [self._settle(file) for file in record.files]
        self._sync_folders(file.path for file in record.files)
        self._drop(record.dropped)
        self._sync_folders(record.dropped)
        todo = self._place(record.number, digest, TODO)
        if record.undoes is None:
            self.disk.rename(todo, self._place(record.number, digest, DONE))
        else:
            self._forget(record.undoes)
            self.disk.remove(todo)
        self.disk.sync_folder(JOURNAL)
        for name in self._names(DONE)[:-KEPT]:
            self.disk.remove(f"{JOURNAL}/{name}")
        return [text for text in messages if text]

    def _forget(self, number: int) -> None:
        """Remove the record of an undone change, before that of its undo, so that it is not undone again."""
        for name in self._names(DONE):
            if _number(name) == number:
                self.disk.remove(f"{JOURNAL}/{name}")
                self.disk.sync_folder(JOURNAL)

    def _settle(self, file: File) -> str:
        """Give one file its new content; returns a message where its content is neither the old nor the new one."""
        current, staged = self._hash(file.path), self._hash(file.staged)
        if current == file.before and current != file.after:
            if file.staged and staged == file.after:
                self.disk.rename(file.staged, file.path)
                return ""
            if file.after is None:
                self.disk.remove(file.path)
                return ""
        elif current == file.after:
            if file.staged and self._is(stat.S_ISREG, file.staged):
                self.disk.remove(file.staged)
            return ""
        if file.staged and self._is(stat.S_ISREG, file.staged):
            self._put_aside(file.staged)
            return f"{file.path}: {_CHANGED} What was to be written is in {ASIDE}."
        return f"{file.path}: {_CHANGED}"

    def _hash(self, path: str | None) -> str | None:
        """The hash of a file, None where it is missing; what is no regular file has a value that matches no hash."""
        try:
            data = self.disk.read(path) if path else None
        except ChangeRefusedError:
            return "no file"
        return None if data is None else hash_of(data)

    def _is(self, kind: Callable[[int], bool], path: str) -> bool:
        """Whether something of this kind, by its mode, exists, and not behind a link."""
        with suppress(ChangeRefusedError):
            status = self.disk.status(path)
            return status is not None and kind(status.st_mode)
        return False

    def _put_aside(self, staged: str) -> None:
        if self.disk.status(ASIDE) is None:
            self.disk.make_folder(ASIDE)
        with suppress(FileExistsError):  # it was put there by one who died
            self.disk.write(f"{ASIDE}/{posixpath.basename(staged)[2:]}", self.disk.read(staged) or b"")
        self.disk.remove(staged)

    def _drop(self, folders: Iterable[str]) -> None:
        """Remove those folders that are empty."""
        for folder in folders:
            if self._is(stat.S_ISDIR, folder) and not self.disk.names(folder):
                self.disk.remove_folder(folder)

    def _sync_folders(self, paths: Iterable[str]) -> None:
        for folder in dict.fromkeys(map(posixpath.dirname, paths)):
            if not folder or self._is(stat.S_ISDIR, folder):
                self.disk.sync_folder(folder)

    def _place(self, number: int, digest: str, state: str) -> str:
        """The path of a record in a state; renaming it to the next state signs it again."""
        return f"{JOURNAL}/{self._signer.name(number, digest, state)}"


_CHANGED = "somebody changed it while a change was under way; it is left as it is."


def _number(path: str) -> int:
    """The number of the record at `path`, also where it was set aside repeatedly; 0 for any other file."""
    parsed_name = parsed(path.rpartition("/")[2].replace(_REPEATED, ""))
    return parsed_name.number if parsed_name else 0


def _digest(name: str) -> str:
    """The beginning of a record's hash, from its name."""
    parsed_name = parsed(name)
    return parsed_name.digest if parsed_name else ""


def _listed(paths: Sequence[str]) -> str:
    """Paths for a message, quoted, since anybody may have written them."""
    return some_of([f"{path!r:.200}" for path in paths], _MAX_LISTED) or "no file"


@dataclass(frozen=True)
class _Mode:
    st_mode: int
    st_uid: int = -1
    st_gid: int = -1


def stale(path: str) -> StaleSourceError:
    """The error for a file that changed since the plan was made."""
    return StaleSourceError(
        f"{path}: it was changed since the change was planned. Plan again; nothing was written.", path
    )


def _order(change: Change) -> tuple[int, int, str]:
    """Sort key: contents, then indexes from the leaves up, then removals, so that no index names a missing file."""
    name = posixpath.basename(change.path)
    rank = 3 if change.after is None else 2 if name.startswith("index.") and name.endswith(".json") else 0
    rank = 1 if rank == 0 and name == "index.md" else rank
    return rank, -change.path.count("/"), change.path
