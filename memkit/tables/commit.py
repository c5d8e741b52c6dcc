"""A save changes in one step: who reads it sees the old one or the new one, and a killed writer leaves either.

A save is written whole into a folder ``.saving-*``, which is then renamed to ``saved-`` and the hash of what is in it;
then one small file, the pointer, is replaced by one that names it, and the former save goes. A reader holds all files
open before it looks at the pointer once more: does that name another save, it starts again. One process writes at a
time; its lock is freed by the system when it dies, so whatever of a save is found by the next one that holds the lock,
and is not what the pointer names, is a dead one's.
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

from memkit.duck import LONE_SURROGATE
from memkit.errors import FormatError, MemkitError, refused
from memkit.hashes import digest
from memkit.tables.manifest import BUCKETS, MANIFEST, Manifest, read_manifest
from memkit.tables.untrusted import digests, open_member, read_json, refuse_links

DATABASE = "corpus.duckdb"
"""Written for other programs, beside the pointer where they find it; no digest vouches for it, and memkit never opens
it."""
POINTER = "memkit.json"
_LOCK, _SAVED, _SAVING = ".memkit-lock", "saved-", ".saving-"
_NAME = re.compile(r"saved-[0-9a-f]{32}")
_PATIENCE = 1.0
"""Seconds that a save waits for another; enough for one that only tidies up."""
_TRIES = 20


def check_path(folder: Path) -> Path:
    """`folder` as an absolute path, which no library takes for an address.

    Raises
    ------
    MemkitError
        Where its name is no UTF-8, which DuckDB could not write, or holds what no system takes.
    """
    path = folder.absolute()
    if LONE_SURROGATE.search(str(path)) or "\0" in str(path):
        raise MemkitError(f"{folder!r:.200}: expected a folder whose name is UTF-8, without NUL. Choose another.")
    return path


def is_lake(folder: Path) -> bool:
    """Whether a corpus was saved in `folder`, be it by an older memkit."""
    return any((folder / name).is_file() for name in (POINTER, MANIFEST))


def is_bucketed(folder: Path) -> bool:
    """Whether buckets lie in `folder`.

    Raises
    ------
    FormatError
        Where they were not all saved.
    """
    if not (folder / BUCKETS).is_file() and any(folder.glob("bucket-*")):
        raise refused(folder, f"buckets and {BUCKETS}", "a save that was stopped; save the corpus again")
    return (folder / BUCKETS).is_file()


def lakes_in(folder: Path) -> list[Path]:
    """The lakes of which one consists, of any version: its buckets, or itself."""
    refuse_links(folder)
    return sorted(folder.glob("bucket-*")) if is_bucketed(folder) else [folder]


@contextmanager
def replacing(folder: Path, patience: float = _PATIENCE) -> Iterator[Path]:
    """A folder to write a save into, which takes the place of the former one when the block ends well.

    Raises
    ------
    MemkitError
        Where another process is saving to `folder` for more than so many seconds, or it cannot be written.
    FormatError
        Where a link lies in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        for place in _saves(folder):
            refuse_links(place, below=True)
        with locked(folder, patience):
            staged = Path(mkdtemp(prefix=_SAVING, dir=folder))
            try:
                yield staged
                _point_to(folder, staged)
            finally:
                rmtree(staged, ignore_errors=True)
            _tidy(folder)
    except (OSError, duckdb.Error) as error:
        raise MemkitError(f"{folder}: cannot save there: {error}. What was there stays.") from error


def _point_to(folder: Path, staged: Path) -> None:
    """Have the pointer name what lies in `staged`; what is there already, whole, is not moved."""
    sync(staged)
    database = staged / DATABASE
    if database.exists():
        database = database.rename(folder / f"{_SAVING}{DATABASE}")
    files = digests(staged)
    place = folder / (_SAVED + digest(repr(files)))
    if not place.is_dir() or digests(place) != files:
        rmtree(place, ignore_errors=True)
        staged.rename(place)
    written = folder / f"{_SAVING}{POINTER}"
    with written.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"save": place.name}))
        file.flush()
        os.fsync(file.fileno())
    written.replace(folder / POINTER)
    if database.exists():
        database.replace(folder / DATABASE)


def current(folder: Path) -> Path:
    """The folder of the save that the pointer names; without one `folder` itself, where an older memkit saved there.

    Raises
    ------
    FormatError
        Where nothing is saved there, or a link lies on the way.
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
    """The manifest of the lake in `folder` and its files, all of one save; those of ``vectors`` and the like aside.

    A file that does not exist is left out.

    Raises
    ------
    FormatError
        Where there is no lake, or a link lies in it.
    """
    _tidy_if_free(folder)
    for _ in range(_TRIES):
        place = current(folder)
        with ExitStack() as stack:
            try:
                manifest, files = read_manifest(place), {}
                for name in manifest.own_files:
                    with suppress(FormatError):
                        files[name] = stack.enter_context(open_member(place, name))
            except FormatError:
                if current(folder) == place:
                    raise
                continue
            if current(folder) == place:
                yield manifest, files
                return
    raise MemkitError(f"{folder}: it was saved anew {_TRIES} times while it was opened. Open it again.")


@contextmanager
def locked(folder: Path, patience: float) -> Iterator[None]:
    """Be the one process that saves to `folder`, after at most so many seconds.

    Raises
    ------
    MemkitError
        Where another process is.
    """
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(folder / _LOCK, timeout=patience, fallback_to_soft=False)
        lock.acquire()
    except Timeout as error:
        raise MemkitError(f"{folder}: another process is saving there. Save again when it is done.") from error
    try:
        yield
    finally:
        lock.release()


def _tidy_if_free(folder: Path) -> None:
    """Clear what dead writers left; a living one, or a folder that may not be written, is left alone."""
    if len(_saves(folder)) > 1 or any(folder.glob(f"{_SAVING}*")):
        with suppress(MemkitError, OSError), locked(folder, 0):
            _tidy(folder)


def _tidy(folder: Path) -> None:
    """Remove all saves but the one that the pointer names, and what is left of one under way.

    Raises
    ------
    FormatError
        Where the pointer names none: then nobody can say which one counts.
    """
    kept = current(folder)
    for left in (*_saves(folder), *folder.glob(f"{_SAVING}*")):
        if left != kept:
            rmtree(left) if left.is_dir() else left.unlink()


def _saves(folder: Path) -> list[Path]:
    return [path for path in folder.glob(f"{_SAVED}*") if _NAME.fullmatch(path.name)]


def sync(folder: Path) -> None:
    """Have the system write the files of `folder` before their names: a power cut keeps the order."""
    for place, _, names in os.walk(folder):
        for name in names:
            with (Path(place) / name).open("rb") as file:
                os.fsync(file.fileno())
