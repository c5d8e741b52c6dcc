"""A lake changes in one step: who reads it sees the old save or the new one, and a killed writer leaves either.

A save is written whole into a folder ``.saving-*``, which is then renamed to ``.memkit-next``: from there on it is the
corpus. Its files are looked for there first, so that they can be moved to their places one by one, the manifest last,
by whoever comes next if the writer dies. A reader holds all files open before it looks at the manifest once more: were
they changed meanwhile, it starts again. One process writes at a time; its lock is freed by the system when it dies, so
whatever of a save is found by the next one that holds the lock is a dead one's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import duckdb

from memkit.duck import LONE_SURROGATE
from memkit.errors import FormatError, MemkitError, refused
from memkit.tables.manifest import MANIFEST, Manifest, read_manifest
from memkit.tables.untrusted import open_member, refuse_links

DATABASE = "corpus.duckdb"
"""Written for other programs, so no digest vouches for it, and memkit never opens it."""
_LOCK, _NEXT, _SAVING = ".memkit-lock", ".memkit-next", ".saving-"
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
    """Whether a corpus was saved in `folder`, be it that its writer died before all was in its place."""
    return any((folder / place / MANIFEST).is_file() for place in ("", _NEXT))


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A folder to write files and their manifest into; they take the place of a lake's when the block ends well.

    Raises
    ------
    MemkitError
        Where another process is saving to `folder`, or it cannot be written.
    FormatError
        Where a link lies in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_links(folder)
        with locked(folder, _PATIENCE):
            _tidy(folder)
            staged = Path(mkdtemp(prefix=_SAVING, dir=folder))
            try:
                yield staged
                _check_way(folder, read_manifest(staged))
                sync(staged)
                staged.rename(folder / _NEXT)
                _adopt(folder)
            finally:
                rmtree(staged, ignore_errors=True)
    except (OSError, duckdb.Error) as error:
        raise MemkitError(f"{folder}: cannot save a corpus there: {error}. What was there stays.") from error


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Manifest, dict[str, BufferedReader]]]:
    """The manifest of the lake in `folder` and its files, all of one save; those of ``vectors`` and the like aside.

    A file that does not exist or is a link is left out.

    Raises
    ------
    FormatError
        Where there is no lake, or a link lies in it.
    """
    _check_links(folder)
    _tidy_if_free(folder)
    for _ in range(_TRIES):
        places, manifest = current(folder)
        with ExitStack() as stack:
            files = {}
            for name in manifest.own_files:
                with suppress(FormatError):
                    files[name] = stack.enter_context(_open_first(places, name))
            if current(folder)[1] == manifest:
                yield manifest, files
                return
    raise MemkitError(f"{folder}: it was saved anew {_TRIES} times while it was opened. Open it again.")


def current(folder: Path) -> tuple[list[Path], Manifest]:
    """Where the files of a lake are to be looked for, in order, and its manifest.

    Raises
    ------
    FormatError
        Where nothing is saved there.
    """
    if (folder / _NEXT / MANIFEST).exists():
        with suppress(FormatError):  # moved meanwhile, or no manifest: then it never was a save
            return [folder / _NEXT, folder], read_manifest(folder / _NEXT)
    return [folder], read_manifest(folder)


def _open_first(places: list[Path], name: str) -> BufferedReader:
    for place in places[:-1]:
        with suppress(FormatError):
            return open_member(place, name)
    return open_member(places[-1], name)


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
    if any(path.name == _NEXT or path.name.startswith(_SAVING) for path in folder.glob(".*")):
        with suppress(MemkitError, OSError), locked(folder, 0):
            _tidy(folder)


def _tidy(folder: Path) -> None:
    _adopt(folder)
    for left in folder.glob(f"{_SAVING}*"):
        rmtree(left, ignore_errors=True)


def _adopt(folder: Path) -> None:
    """Move the files of a finished save into their places, and what it no longer names away."""
    staged = folder / _NEXT
    try:
        after = read_manifest(staged)
    except FormatError:  # none, or no save: then it holds nothing of worth
        rmtree(staged, ignore_errors=True)
        return
    for place in (staged, folder):
        _check_way(place, after)
    before = _names(folder)
    for name in (*after.files, DATABASE):
        if (staged / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).replace(folder / name)
    for name in before - after.files.keys():
        _drop(folder, name)
    (staged / MANIFEST).replace(folder / MANIFEST)
    rmtree(staged, ignore_errors=True)


def _check_links(folder: Path) -> None:
    refuse_links(folder)
    refuse_links(folder / _NEXT, below=True)


def _check_way(folder: Path, manifest: Manifest) -> None:
    """Raise where a link, or a file instead of a folder, is on the way to a file of the manifest."""
    above = {parent for name in manifest.files for parent in Path(name).parents}
    for place in sorted(folder / parent for parent in above):
        if place.exists() and not place.is_dir():
            raise refused(place, "a folder", "a file")
        refuse_links(place)


def _names(folder: Path) -> set[str]:
    """The files that a manifest names; none where it is broken, and about to be replaced."""
    try:
        return set(read_manifest(folder).files)
    except FormatError:
        return set()


def _drop(folder: Path, name: str) -> None:
    """Remove a file, and the folders that it leaves empty."""
    with suppress(OSError):
        (folder / name).unlink()
        for above in list((folder / name).relative_to(folder).parents)[:-1]:
            (folder / above).rmdir()


def sync(folder: Path) -> None:
    """Have the system write the files of `folder` before their names: a power cut keeps the order."""
    for place, _, names in os.walk(folder):
        for name in names:
            with (Path(place) / name).open("rb") as file:
                os.fsync(file.fileno())
