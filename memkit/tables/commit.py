"""Atomic saves of snapshots: a reader sees the old or the new snapshot, and a killed writer leaves one of the two.

A snapshot is written into a folder ``.saving-*``, which is then renamed to ``saved-`` and the hash of its content. Then
one small file, the pointer, is replaced by one that names the new folder, and the old snapshot is deleted. A reader
opens all files and then reads the pointer again: if it names another snapshot by now, the reader starts over. One
process writes at a time. The system frees its lock when it dies, so the next process that gets the lock may delete
every snapshot that the pointer does not name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import duckdb

from memkit.base.hashes import digest
from memkit.base.surrogates import LONE_SURROGATE
from memkit.errors import FormatError, MemkitError, refused
from memkit.tables.manifest import BUCKETS, MANIFEST, Manifest, read_manifest
from memkit.tables.untrusted import digests, open_member, read_json, refuse_links

DATABASE = "corpus.duckdb"
"""The DuckDB file for other programs, next to the pointer; it has no digest, and memkit never opens it."""
POINTER = "memkit.json"
_MEMORIES, _BUCKET = "memories.parquet", "bucket-[0-9][0-9][0-9][0-9][0-9]"
_LOCK, _SAVED, _SAVING = ".memkit-lock", "saved-", ".saving-"
_NAME = re.compile(r"saved-[0-9a-f]{32}")
_PATIENCE = 1.0
"""Seconds that a save waits for another process; enough for one that only cleans up."""
_TRIES = 20


def check_path(folder: Path) -> Path:
    """`folder` as an absolute path, which no library can mistake for a URL.

    Raises
    ------
    MemkitError
        Where its name is not UTF-8 (DuckDB could not write there), or contains NUL.
    """
    path = folder.absolute()
    if LONE_SURROGATE.search(str(path)) or "\0" in str(path):
        raise MemkitError(f"{folder!r:.200}: expected a folder whose name is UTF-8, without NUL. Choose another.")
    return path


def is_lake(folder: Path) -> bool:
    """Whether `folder` holds a saved corpus, also one of an older memkit: other programs have a manifest.json too."""
    return (folder / POINTER).is_file() or all((folder / name).is_file() for name in (MANIFEST, _MEMORIES))


def is_bucketed(folder: Path) -> bool:
    """Whether `folder` holds shards (buckets).

    Raises
    ------
    FormatError
        Where not all of them were saved.
    """
    if not any(is_lake(path) or _is_begun(path) for path in folder.glob(_BUCKET)):
        return False
    if not (folder / BUCKETS).is_file():
        raise refused(folder, f"buckets and {BUCKETS}", "an incomplete save; save the corpus again")
    return True


def _is_begun(folder: Path) -> bool:
    """Whether a save may have stopped in `folder` before anything was complete: only hidden files lie there."""
    return folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())


@contextmanager
def replacing(folder: Path, patience: float = _PATIENCE, *, lasts: bool = True) -> Iterator[Path]:
    """A folder to write a snapshot into; it replaces the old snapshot when the block ends without an exception.

    What need not last through a power cut is not waited for until it is on the disk.

    Raises
    ------
    MemkitError
        Where another process saves to `folder` for more than `patience` seconds, or `folder` cannot be written.
    FormatError
        Where `folder` holds a symbolic link.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        for snapshot in _saves(folder):
            refuse_links(snapshot, below=True)
        with locked(folder, patience):
            staged = Path(mkdtemp(prefix=_SAVING, dir=folder))
            try:
                yield staged
                _point_to(folder, staged, lasts)
            finally:
                rmtree(staged, ignore_errors=True)
            _clean(folder)
    except (OSError, duckdb.Error) as error:
        raise MemkitError(f"{folder}: cannot save there: {error}. What was saved there before stays.") from error


def _point_to(folder: Path, staged: Path, lasts: bool) -> None:
    """Make the pointer name the snapshot in `staged`, which is moved unless an equal one is already there."""
    sync(staged, lasts)
    database = staged / DATABASE
    if database.exists():
        database = database.rename(folder / f"{_SAVING}{DATABASE}")
    files = digests(staged)
    snapshot = folder / (_SAVED + digest(repr(files)))
    if not snapshot.is_dir() or digests(snapshot) != files:
        rmtree(snapshot, ignore_errors=True)
        staged.rename(snapshot)
    pointer = folder / f"{_SAVING}{POINTER}"
    with pointer.open("w", encoding="utf-8") as file:
        pointer.chmod(0o600)
        file.write(json.dumps({"save": snapshot.name}))
        file.flush()
        if lasts:
            os.fsync(file.fileno())
    pointer.replace(folder / POINTER)
    if database.exists():
        database.replace(folder / DATABASE)


def current(folder: Path) -> Path:
    """The folder of the snapshot that the pointer names; `folder` itself for an older lake, which has no pointer.

    Raises
    ------
    FormatError
        Where nothing is saved there, or there is a symbolic link.
    """
    refuse_links(folder)
    if not (folder / POINTER).exists() and (folder / MANIFEST).is_file():
        return folder
    name = read_json(folder, POINTER).get("save")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refused(folder / POINTER, "the name of a save", f"{name!r:.80}")
    refuse_links(folder / name, below=True)
    return folder / name


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Manifest, dict[str, BufferedReader]]]:
    """The manifest of the lake in `folder` and its open files, all of one snapshot, without ``vectors`` and the like.

    A file that does not exist is left out.

    Raises
    ------
    FormatError
        Where there is no lake, or it holds a symbolic link.
    """
    _clean_if_free(folder)
    for _ in range(_TRIES):
        snapshot = current(folder)
        with ExitStack() as stack:
            try:
                manifest, files = read_manifest(snapshot), {}
                for name in manifest.own_files:
                    with suppress(FormatError):
                        files[name] = stack.enter_context(open_member(snapshot, name))
            except FormatError:
                if current(folder) == snapshot:
                    raise
                continue
            if current(folder) == snapshot:
                yield manifest, files
                return
    raise MemkitError(f"{folder}: it was saved again {_TRIES} times while it was being opened. Open it again.")


@contextmanager
def locked(folder: Path, patience: float) -> Iterator[None]:
    """Hold the lock for saving to `folder`; wait for it at most `patience` seconds.

    Raises
    ------
    MemkitError
        Where another process holds it for longer.
    """
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(folder / _LOCK, timeout=patience, mode=0o600, fallback_to_soft=False)
        lock.acquire()
    except Timeout as error:
        raise MemkitError(f"{folder}: another process is saving there. Save again when it is done.") from error
    try:
        yield
    finally:
        lock.release()


def _clean_if_free(folder: Path) -> None:
    """Delete what dead writers left, unless a process is saving now or the folder cannot be written."""
    if len(_saves(folder)) > 1 or any(folder.glob(f"{_SAVING}*")):
        with suppress(MemkitError, OSError), locked(folder, 0):
            _clean(folder)


def _clean(folder: Path) -> None:
    """Delete all snapshots except the one that the pointer names, and the remains of unfinished saves.

    Raises
    ------
    FormatError
        Where the pointer names none, so that the current snapshot is not known.
    """
    snapshot = current(folder)
    for path in (*_saves(folder), *folder.glob(f"{_SAVING}*")):
        if path != snapshot:
            rmtree(path) if path.is_dir() else path.unlink()


def _saves(folder: Path) -> list[Path]:
    return [path for path in folder.glob(f"{_SAVED}*") if _NAME.fullmatch(path.name)]


def sync(folder: Path, lasts: bool = True) -> None:
    """Flush the files of `folder` to the disk before they are renamed, so that a power cut keeps the order, if it
    `lasts`.

    They are their user's alone, as the files may be that they were read from.
    """
    for place, folders, names in os.walk(folder):
        for name in folders:
            (Path(place) / name).chmod(0o700)
        for name in names:
            path = Path(place) / name
            path.chmod(0o600)
            if lasts:
                with path.open("rb") as file:
                    os.fsync(file.fileno())
