"""Locking between readers and writers: a reader sees a folder before a change or after it, never in between.

Readers share the lock file that writers create. Reading writes nothing, and without that file it costs one failed open.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memkit.errors import MemkitError, refused
from memkit.formats.disk.signed import TODO, Signer, parsed, users_key

try:
    import fcntl
except ImportError:  # Windows: the journal alone is looked at
    fcntl = None  # type: ignore[assignment]

STATE = ".memkit"
"""The folder below a root with lock and journal; it is hidden, so that no reader takes its files for memories."""
LOCK = f"{STATE}/lock"
JOURNAL = f"{STATE}/journal"
CALLS = f"{STATE}/calls.jsonl"
"""The log of searches by ``memkit serve``, one per line."""
ASIDE = f"{STATE}/aside"
"""The folder for files that could not be put in their place, and for foreign records."""
PATIENCE = 5.0
"""Seconds that a reader or writer waits for another."""
_POLL = 0.02


def check_calls(root: Path) -> None:
    """Raise where the log of searches, or its folder, exists and is no regular file or folder.

    Raises
    ------
    FormatError
    """
    for name, expected, is_plain in ((STATE, "a folder", stat.S_ISDIR), (CALLS, "a regular file", stat.S_ISREG)):
        try:
            mode = os.lstat(root / name).st_mode
        except FileNotFoundError:
            return
        if not is_plain(mode):
            raise refused(root / name, f"{expected}, no link", _KINDS.get(stat.S_IFMT(mode), "a device"))


_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a file", stat.S_IFIFO: "a pipe"}


class _Mine(threading.local):
    def __init__(self) -> None:
        self.roots: list[Path] = []


_MINE = _Mine()


@contextmanager
def mine(root: Path) -> Iterator[None]:
    """Mark `root` as locked by this thread for writing, so that it reads there without waiting."""
    _MINE.roots.append(root)
    try:
        yield
    finally:
        _MINE.roots.remove(root)


@contextmanager
def steady(root: Path) -> Iterator[list[str]]:
    """Keep memkit's writers away from `root` in this block; yields the names of records that this user did not write.

    Raises
    ------
    MemkitError
        Where a writer does not finish in time, or one died in the middle of a change.
    """
    if root in _MINE.roots or not _is_folder(root / STATE):
        yield []
        return
    descriptor = _opened(root / LOCK)
    try:
        if descriptor is not None:
            _share(descriptor, root)
        own_records, foreign = _records(root)
        if any(name.endswith(TODO) for name in own_records):
            raise MemkitError(
                f"{root}: a change was interrupted there. mk.recover(folder) finishes it, as any further change does."
            )
        yield foreign
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _opened(lock: Path) -> int | None:
    """The lock file, opened; None where memkit never wrote here, or it is no regular file."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(lock, flags)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _records(root: Path) -> tuple[list[str], list[str]]:
    """The names of records in the journal: this user's, and foreign ones."""
    names = [name for name in _names(root / JOURNAL) if parsed(name)] if _is_folder(root / JOURNAL) else []
    if not names:
        return [], []
    key = None
    with suppress(MemkitError):  # only a writer needs the key, and gets the error
        key = users_key()
    signer = Signer(key, root) if key else None
    own_records = [name for name in names if signer and signer.owns(name)]
    return own_records, sorted(set(names) - set(own_records))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []


def _share(descriptor: int, root: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise MemkitError(f"{root}: another process is changing it. Read again when it is done.") from None
            time.sleep(_POLL)
