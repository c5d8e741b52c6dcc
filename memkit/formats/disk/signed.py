"""Signs the records of a journal: a random key of this user, kept outside of every folder, signs the name of each.

A record's name is its number, a hash of its content, a signature and its state. The signature is of the folder, the
number, the state and that hash, so that the one rename that takes a record from state to state signs it anew, and who
has no key can neither make a record nor bring one to another state, folder, number or content.
"""

from __future__ import annotations

import hmac
import os
import re
import stat
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from memkit.base import atomic
from memkit.errors import MemkitError
from memkit.formats.disk.source import READ_FLAGS

NEW, TODO, DONE = ".new", ".todo", ".done"
"""The suffix of the record of a change that is being prepared, that is decided but not made yet, and that is made."""
_NAME = re.compile(r"([0-9]{6,12})(?:\.([0-9a-f]{32})\.([0-9a-f]{32}))?(\.new|\.todo|\.done)")
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
