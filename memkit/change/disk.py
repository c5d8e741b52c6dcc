"""All file operations of a change, one method each, so that a test can count or fail each one; and the names that a
change may write: those that memkit's formats write, where its readers look, and that can be displayed.

Paths are relative to one root, with ``/``, and never lead outside: `Disk._absolute_path`, which every method uses,
first refuses paths that are absolute, contain ``..``, are hidden and not memkit's own, or go through a link.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from memkit.base.params import path_of
from memkit.errors import ChangeRefusedError, MemkitError, refused
from memkit.formats.disk.files import SKIPPED_FOLDERS, is_hidden, leads_to_memory
from memkit.formats.disk.lock import ASIDE, JOURNAL, LOCK, PATIENCE, STATE, mine
from memkit.formats.disk.source import READ_FLAGS
from memkit.formats.registry import in_use

IGNORED = f"{STATE}/.gitignore"


def written() -> tuple[str, ...]:
    """The endings of the files that memkit writes: those of its own formats, and of others that are in use."""
    return tuple(sorted({ending for format in in_use() for ending in format.writes}))


_ODD = re.compile(r'[<>:"|?*]')
"""Characters that some systems do not allow in a name."""
RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?=[. ]*(?:\.|$))", re.IGNORECASE)
"""The beginning of a name that Windows keeps for a device, whatever its ending."""
_LONGEST_NAME, _LONGEST_PATH = 255, 1000
"""Bytes; the limit of a path leaves room for its root."""
_DRIVE = re.compile(r"^[A-Za-z]:")
_STAGED = re.compile(r"\.~memkit-[1-9]\d*-\d+\.tmp")
_NO_NAME = (errno.ENAMETOOLONG, errno.EINVAL)
"""Errors of a system for a name that no file can have."""
_PRIVATE = (JOURNAL, ASIDE)
"""The folders of old texts."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# A tenth of what a save takes.
_POLL = 0.005
"""Seconds between two tries for a lock that another process holds."""
_FULL_SYNC = 51
"""F_FULLFSYNC of macOS, whose fsync stops at the drive's cache."""


class _BlockedError(ChangeRefusedError):
    """A file is where a folder is expected."""


class Disk:
    """The files below `root`.

    Parameters
    ----------
    root : Path
        An existing folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def _absolute_path(self, path: str) -> str:
        """The absolute path of `path`, checked not to lead elsewhere; "" is the root.

        Raises
        ------
        ChangeRefusedError
        """
        if path == "":
            return str(self.root)
        _refuse_odd(path)
        if is_hidden(path) and not _is_own(path) and not leads_to_memory(path):
            raise ChangeRefusedError(f"{path}: hidden files and folders are left alone.")
        self._refuse_links(path)
        return f"{self.root}/{path}"

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, or None where it does not exist."""
        try:
            descriptor = os.open(self._absolute_path(path), READ_FLAGS)
        except FileNotFoundError:
            return None
        try:
            # Of what is open: another file may lie there by now.
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ChangeRefusedError(f"{path}: expected a regular file. Got a folder, pipe or device.")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)

    def status(self, path: str) -> os.stat_result | None:
        """The status of a file or folder; None where it does not exist."""
        try:
            return os.lstat(self._absolute_path(path))
        except (FileNotFoundError, NotADirectoryError, _BlockedError):
            return None

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; empty where it does not exist."""
        try:
            return sorted(os.listdir(self._absolute_path(folder)))  # noqa: PTH208 - names are all that is wanted
        except (FileNotFoundError, NotADirectoryError, _BlockedError):
            return []

    def write(self, path: str, data: bytes, like: os.stat_result | None = None) -> None:
        """Create a file with these bytes, and the mode and owner of `like`; one with old texts is its user's alone."""
        place = self._absolute_path(path)
        is_private = like is not None or path.rpartition("/")[0] in _PRIVATE
        # 0o666 and the umask, as any editor makes a file; old texts are their owner's alone.
        descriptor = os.open(place, _NEW, 0o600 if is_private else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        if like is not None:
            with suppress(PermissionError, AttributeError):  # only root may give a file away; Windows cannot
                os.chown(place, like.st_uid, like.st_gid)
            # After the owner, as to change that takes bits of the mode away.
            os.chmod(place, stat.S_IMODE(like.st_mode))  # noqa: PTH101 - a new file, no link

    def sync(self, path: str) -> None:
        """Sync a file's content to disk."""
        self._sync(path, READ_FLAGS)

    def sync_folder(self, folder: str) -> None:
        """Sync a folder's names to disk; Windows neither has nor needs such a call."""
        if os.name != "nt":
            self._sync(folder, READ_FLAGS | getattr(os, "O_DIRECTORY", 0))

    def rename(self, path: str, to: str) -> None:
        """Rename a file, replacing the target."""
        os.replace(self._absolute_path(path), self._absolute_path(to))  # noqa: PTH105 - one call, as all methods here

    def remove(self, path: str) -> None:
        """Remove a file."""
        # One call each, here and below: a test counts and fails them one by one.
        os.unlink(self._absolute_path(path))  # noqa: PTH108

    def make_folder(self, path: str) -> None:
        """Create a folder; one with old texts is its user's alone, or its group's where the root is."""
        os.mkdir(self._absolute_path(path), self._private_mode() if path in _PRIVATE else 0o777)  # noqa: PTH102

    def make_private(self, folder: str) -> None:
        """Make a folder its user's alone, or its group's where the root is: an older memkit left it open to all."""
        status, mode = self.status(folder), self._private_mode()
        if status is not None and stat.S_ISDIR(status.st_mode) and status.st_mode & 0o777 & ~mode:
            with suppress(PermissionError):  # another user's
                os.chmod(self._absolute_path(folder), mode)  # noqa: PTH101 - a folder, no link

    def _private_mode(self) -> int:
        # Where a group writes into the root, its members must be able to lock it.
        return 0o770 if os.lstat(self.root).st_mode & 0o020 else 0o700

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._absolute_path(path))  # noqa: PTH106

    @contextmanager
    def locked(self, patience: float = PATIENCE) -> Iterator[None]:
        """Hold the lock, which excludes every other writer and memkit's readers.

        Raises
        ------
        MemkitError
            Where the lock is not free within `patience` seconds, or the folder is not writable.
        """
        from filelock import FileLock, Timeout

        try:
            self._prepare()
            status = self.status(LOCK)
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise ChangeRefusedError(f"{LOCK}: expected a regular file. Remove what is in its place.")
            # A soft lock of a killed process would hold; where there is no flock, memkit says so.
            lock = FileLock(self._absolute_path(LOCK), timeout=patience, fallback_to_soft=False)
            lock.acquire(poll_interval=_POLL)
        except Timeout as error:
            raise MemkitError(f"{self.root}: busy, another process is changing or reading it. Try again.") from error
        except OSError as error:
            raise MemkitError(f"{self.root}: nothing can be written there: {error.strerror or error}.") from error
        try:
            with mine(self.root):
                yield
        finally:
            lock.release()

    def _prepare(self) -> None:
        """Create memkit's own folders, and sync their names before anything depends on them."""
        for folder, above in ((STATE, ""), (JOURNAL, STATE)):
            if self.status(folder) is None:
                with suppress(FileExistsError):  # another process created it meanwhile
                    self.make_folder(folder)
                self.sync_folder(above)
        for folder in _PRIVATE:
            self.make_private(folder)
        ignored = self.read(IGNORED)
        lines = (ignored or b"").split()
        if b"*" in lines and not any(line.startswith(b"!") for line in lines):
            return
        if ignored is not None:  # not memkit's: old texts must not get into a repository
            self.remove(IGNORED)
        with suppress(FileExistsError):
            self.write(IGNORED, b"*\n")

    def _sync(self, path: str, flags: int) -> None:
        descriptor = os.open(self._absolute_path(path), flags)
        try:
            os.fsync(descriptor)
            if sys.platform == "darwin":
                import fcntl

                with suppress(OSError):
                    fcntl.fcntl(descriptor, _FULL_SYNC)
        finally:
            os.close(descriptor)

    def _refuse_links(self, path: str) -> None:
        """Raise where a part of `path` is a link, or a file in place of a folder."""
        place, parts = str(self.root), path.split("/")
        for count, part in enumerate(parts, 1):
            place = f"{place}/{part}"
            try:
                status = os.lstat(place)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno in _NO_NAME:
                    raise ChangeRefusedError(f"{path:.200}: no file can have that name: {error.strerror}.") from error
                raise
            if stat.S_ISLNK(status.st_mode) or _is_junction(status):
                what = "/".join(parts[:count]) if count < len(parts) else "it"
                raise ChangeRefusedError(f"{path}: {what} is a link, and links are not followed.")
            if count < len(parts) and not stat.S_ISDIR(status.st_mode):
                raise _BlockedError(f"{path}: {'/'.join(parts[:count])} is a file where a folder is expected.")


def _is_junction(status: os.stat_result) -> bool:
    """Whether a folder is a junction of Windows: not reported as a link, but leads elsewhere as one."""
    tag = getattr(status, "st_reparse_tag", 0)
    return bool(tag) and tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)


def staged_name(path: str, number: int, place: int) -> str:
    """The path beside `path` where its new content is staged; it is file `place` of the change `number`."""
    return f"{path[: path.rfind('/') + 1]}.~memkit-{number}-{place}.tmp"


def _is_own(path: str) -> bool:
    """Whether a hidden path is memkit's own: its folder at the root, or a staged content beside its file."""
    folder, _, name = path.rpartition("/")
    return path.split("/")[0] == STATE or (_STAGED.fullmatch(name) is not None and not is_hidden(folder))


def _refuse_odd(path: object) -> None:
    """Raise unless `path` is a plain relative path."""
    if not isinstance(path, str):
        raise ChangeRefusedError(f"expected a path as a text. Got {path!r:.200}.")
    is_odd = "\\" in path or "\0" in path or _DRIVE.match(path) is not None
    is_odd = is_odd or any(part in ("", ".", "..") for part in path.split("/"))
    if is_odd or path.encode("utf-8", "replace").decode() != path:
        raise ChangeRefusedError(f"expected a path below the root, in UTF-8, with '/'. Got {path!r:.200}.")


def check_path(path: str) -> str:
    """`path`, checked to be the plain relative path of a file that readers see.

    Raises
    ------
    ChangeRefusedError
        Where it leads out of the root, or to a hidden file.

    Examples
    --------
    >>> check_path("memory/notes/чай.md")
    'memory/notes/чай.md'
    """
    _refuse_odd(path)
    if is_hidden(path):
        raise ChangeRefusedError(f"{path}: hidden files and folders are left alone.")
    return path


@lru_cache(4096)
def check_changed(path: str) -> str:
    """`path`, checked to be a file that memkit writes: by its suffix, and in a folder that readers visit.

    Raises
    ------
    ChangeRefusedError

    Examples
    --------
    >>> check_changed("memory/notes/чай.md")
    'memory/notes/чай.md'
    """
    check_path(path)
    if not path.lower().endswith(endings := written()):
        raise ChangeRefusedError(f"memkit writes files that end in {', '.join(endings)}. Got {path!r:.200}.")
    if max(len(part.encode()) for part in path.split("/")) > _LONGEST_NAME or len(path.encode()) > _LONGEST_PATH:
        most = f"at most {_LONGEST_NAME} bytes, and {_LONGEST_PATH} with its folders"
        raise ChangeRefusedError(f"a name: expected {most}. Got {path!r:.200}.")
    if skipped := SKIPPED_FOLDERS.intersection(path.casefold().split("/")[:-1]):
        raise ChangeRefusedError(f"{path!r:.200}: memkit does not read what lies in {min(skipped)}.")
    return path


@lru_cache(4096)
def check_new(path: str) -> str:
    """`path`, checked as a new file: its name can be displayed, and is valid on every system.

    Raises
    ------
    ChangeRefusedError

    Examples
    --------
    >>> check_new("users/anna/working.md")
    'users/anna/working.md'
    """
    check_changed(path)
    for part in path.split("/"):
        if RESERVED.match(part):
            raise ChangeRefusedError(f"a new name: expected none that Windows keeps for a device. Got {path!r:.200}.")
        if not part.isprintable() or part != part.strip() or part.endswith(".") or _ODD.search(part):
            expected = "printable characters, no blank or dot at an end, and none of"
            raise ChangeRefusedError(f'a new name: expected {expected} < > : " | ? *. Got {path!r:.200}.')
    return path


class Names:
    """The names below a root, and those that a change adds, of which no two may be equal on any system.

    Parameters
    ----------
    disk : Disk
        The files; each folder is listed once.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known: dict[str, dict[str, str]] = {}

    def make(self, path: str, gone: Container[str]) -> None:
        """Add a new file; the files in `gone` no longer exist.

        Raises
        ------
        ChangeRefusedError
            Where a name in it differs from an existing one only in case or Unicode normalisation.
        """
        parts = path.split("/")
        for end, name in enumerate(parts):
            folder = "/".join(parts[:end])
            if folder not in self._known:
                self._known[folder] = {folded(other): other for other in self._disk.names(folder)}
            other = self._known[folder].setdefault(folded(name), name)
            existing = f"{folder}/{other}" if folder else other
            if other != name and existing not in gone:
                raise ChangeRefusedError(f"{path}: some systems cannot tell it from {existing}.")
            self._known[folder][folded(name)] = name


def folded(name: str) -> str:
    """What the names of two files have in common where some system cannot tell them apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def folder_of(root: str | Path) -> Path:
    """The folder at `root`, its links followed.

    Raises
    ------
    ParameterError
        For a value that is no path.
    FormatError
        Where the folder does not exist.
    """
    path = path_of("folder", root)
    try:
        folder = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise refused(path, "a folder", "nothing there") from error
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, a NUL, a loop of links
        raise refused(ascii(str(path))[:200], "a folder", getattr(error, "strerror", None) or str(error)) from error
    if root == "" or not folder.is_dir():  # an empty text is a variable without a value
        raise refused(path, "a folder", "a file" if root else "an empty text")
    return folder
