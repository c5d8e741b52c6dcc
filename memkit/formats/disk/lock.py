"""Locking between readers and writers: a reader sees a folder before a change or after it, never in between.

Readers share the lock file that writers create. Reading writes nothing, and without that file it costs one failed open.

A random key of this user, kept outside of every folder, signs the name of each record of a journal: its number, a hash
of its content, a signature and its state. The signature is of the folder, the number, the state and that hash, so that
the one rename that takes a record from state to state signs it anew, and who has no key can neither make a record nor
bring one to another state, folder, number or content.
"""

from __future__ import annotations

import hmac
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from memkit.base import atomic
from memkit.errors import MemkitError, refused
from memkit.formats.disk.source import READ_FLAGS

NEW, TODO, DONE = ".new", ".todo", ".done"
"""The suffix of the record of a change that is being prepared, that is decided but not made yet, and that is made."""
_NAME = re.compile(r"([0-9]{6,12})(?:\.([0-9a-f]{32})\.([0-9a-f]{32}))?(\.new|\.todo|\.done)")
# Bytes of the key, as many as SHA-256 has; of its letters in a name half are enough, 128 bits.
_LENGTH = 32
_VARIABLE = "MEMKIT_STATE"
_KEY = "journal.key"


class Name(NamedTuple):
    """The parts of a record's name; one of an older memkit has neither hash nor signature.

    Attributes
    ----------
    digest : str
        Of the record, its first 32 letters; "" where there is none.
    state : str
        `NEW`, `TODO` or `DONE`.
    """

    number: int
    digest: str
    tag: str
    state: str


def parsed(name: str) -> Name | None:
    """The parts of a record's name; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number, digest, tag, state = match.groups("")
    return Name(int(number), digest, tag, state)


@dataclass(frozen=True)
class Signer:
    """Makes the names of the records of one folder, and recognises its own."""

    key: bytes
    root: Path

    @cached_property
    def _root(self) -> bytes:
        return os.fsencode(self.root)

    def name(self, number: int, digest: str, state: str) -> str:
        """The name of a record in a state; `digest` is the hash of its content, of which 32 letters count."""
        digest = digest[:_LENGTH]
        message = b"memkit journal\0%b\0%d%b\0%b" % (self._root, number, state.encode(), digest.encode())
        return f"{number:06d}.{digest}.{hmac.digest(self.key, message, 'sha256').hex()[:_LENGTH]}{state}"

    def owns(self, name: str) -> bool:
        """Whether this user's memkit gave a record this name, in this folder."""
        parts = parsed(name)
        return parts is not None and hmac.compare_digest(name, self.name(parts.number, parts.digest, parts.state))


def state_folder() -> Path:
    """``$MEMKIT_STATE``, else ``memkit`` in the folder where the system keeps the state of a user's programs.

    Raises
    ------
    MemkitError
        For a user without a home.
    """
    if variable := os.environ.get(_VARIABLE):
        return Path(variable).absolute()
    try:
        if os.name == "nt":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local", "memkit")
        if sys.platform == "darwin":
            return Path.home() / "Library/Application Support/memkit"
        base = Path(os.environ.get("XDG_STATE_HOME") or "")
        return Path(base if base.is_absolute() else Path.home() / ".local/state", "memkit")
    except RuntimeError as error:
        raise MemkitError(f"there is no home folder to keep the journal's key in. {_ADVICE}") from error


_ADVICE = f"{_VARIABLE} names another folder, which must be yours alone."


def users_key() -> bytes | None:
    """The key of this user; None where there is none yet.

    Raises
    ------
    MemkitError
        Where it cannot be read, or others could have read or written it.
    """
    folder = state_folder()
    path = folder / _KEY
    try:
        descriptor = os.open(path, READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _refused(path, f"it cannot be read: {error.strerror}") from error
    try:
        # Nobody else may write beside the key, and nobody else may read it.
        _check_own(folder, folder.stat(), 0o022)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(path, "expected a regular file")
        _check_own(path, status, 0o077)
        key = os.read(descriptor, _LENGTH + 1)
    finally:
        os.close(descriptor)
    if len(key) != _LENGTH:
        raise _refused(path, f"expected {_LENGTH} bytes. Got {status.st_size}")
    return key


def made_key() -> bytes:
    """The key of this user, which is made where there is none; of processes that make one at once, one succeeds.

    Raises
    ------
    MemkitError
        Where it can be neither read nor made, or others could have read or written it.
    """
    if key := users_key():
        return key
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(folder)
    except OSError as error:
        raise _refused(folder / _KEY, f"the key that signs journals cannot be kept there: {error.strerror}") from error
    key = users_key()
    if key is None:
        raise _refused(folder / _KEY, "it was removed at once")
    return key


def _make(folder: Path) -> None:
    """Write a key under a lock, unless another process has written one."""
    from filelock import FileLock

    with FileLock(folder / f"{_KEY}.lock", mode=0o600):
        if not (folder / _KEY).exists():
            atomic.replace(folder / _KEY, os.urandom(_LENGTH), mode=0o600)


def _check_own(path: Path, status: os.stat_result, others: int) -> None:
    """Raise where a file or folder is somebody else's, or has a mode that lets others do what they must not."""
    if os.name == "nt":  # the folder's own list of rights says who may
        return
    if status.st_uid != os.geteuid():
        raise _refused(path, f"it belongs to another user, {status.st_uid}")
    if status.st_mode & others:
        wanted = "700" if stat.S_ISDIR(status.st_mode) else "600"
        raise _refused(path, f"others may use it (mode {stat.S_IMODE(status.st_mode):o}). chmod {wanted} mends that")


def _refused(path: Path, why: str) -> MemkitError:
    return MemkitError(f"{path}: {why}. Without its key no journal can be written or followed. {_ADVICE}")


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
# A change holds the lock for milliseconds; whoever holds it longer hangs.
PATIENCE = 5.0
"""Seconds that a reader or writer waits for another."""
# A reader waits for a change of some milliseconds; it looks more often than a person notices.
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
