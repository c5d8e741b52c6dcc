"""Every file call that a change makes, one method each, so that a test can count, stop or fail each.

Paths are relative to one root, with ``/``. None leads outside: what is absolute, climbs, is hidden or goes through a
link is refused before anything is opened.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memkit.errors import ChangeRefusedError, FormatError, MemkitError
from memkit.formats.disk.lock import JOURNAL, LOCK, PATIENCE, STATE, mine

IGNORED = f"{STATE}/.gitignore"
_DRIVE = re.compile(r"^[A-Za-z]:")
_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_POLL = 0.005
"""Seconds between two looks at a lock that another holds."""
_FULL_SYNC = 51
"""F_FULLFSYNC of macOS, whose fsync stops at the drive's own memory."""


class Disk:
    """The files below `root`.

    Parameters
    ----------
    root : Path
        A folder that is there.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, or None where there is none."""
        self._refuse_links(path)
        try:
            descriptor = os.open(self.root / path, _READ)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ChangeRefusedError(f"{path}: expected a regular file. Got a folder, pipe or device.")
            return file.read()

    def status(self, path: str) -> os.stat_result | None:
        """The mode and owner of a file or folder, a link not followed; None where there is nothing."""
        try:
            return os.lstat(self.root / path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in order; none where it is not there."""
        try:
            return sorted(os.listdir(self.root / folder))  # noqa: PTH208 - names are all that is wanted
        except (FileNotFoundError, NotADirectoryError):
            return []

    def write(self, path: str, data: bytes, like: os.stat_result | None = None) -> None:
        """A new file with these bytes, and the mode and owner of another."""
        self._refuse_links(path)
        descriptor = os.open(self.root / path, _NEW, 0o666 if like is None else 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        if like is not None:
            with suppress(PermissionError, AttributeError):  # only root may give a file away; Windows cannot
                os.chown(self.root / path, like.st_uid, like.st_gid)
            os.chmod(self.root / path, stat.S_IMODE(like.st_mode))  # noqa: PTH101 - a new file, no link

    def sync(self, path: str) -> None:
        """Have a file's bytes survive a power cut."""
        self._sync(path, os.O_RDONLY)

    def sync_folder(self, folder: str) -> None:
        """Have the names in a folder survive a power cut; Windows has no such call, and needs none."""
        if os.name != "nt":
            self._sync(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))

    def rename(self, path: str, to: str) -> None:
        """Give a file another name, in place of what has that name."""
        self._refuse_links(to)
        os.replace(self.root / path, self.root / to)  # noqa: PTH105 - one call, as all methods here

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._refuse_links(path)
        os.unlink(self.root / path)  # noqa: PTH108

    def make_folder(self, path: str) -> None:
        """A new folder."""
        self._refuse_links(path)
        os.mkdir(self.root / path)  # noqa: PTH102

    def remove_folder(self, path: str) -> None:
        """Remove a folder that is empty."""
        self._refuse_links(path)
        os.rmdir(self.root / path)  # noqa: PTH106

    @contextmanager
    def locked(self, patience: float = PATIENCE) -> Iterator[None]:
        """Hold off every other writer, and memkit's readers.

        Raises
        ------
        MemkitError
            Where another does not let go in so many seconds, or nothing may be written here.
        """
        from filelock import FileLock, Timeout

        try:
            self._prepare()
            self._refuse_links(LOCK)
            lock = FileLock(self.root / LOCK, timeout=patience, fallback_to_soft=False)
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
        """Make memkit's own folders, and have their names last before anything depends on them."""
        for folder, above in ((STATE, ""), (JOURNAL, STATE)):
            if self.status(folder) is None:
                with suppress(FileExistsError):  # another process made it meanwhile
                    self.make_folder(folder)
                self.sync_folder(above)
        if self.status(IGNORED) is None:  # old texts are not to get into a repository
            with suppress(FileExistsError):
                self.write(IGNORED, b"*\n")

    def _sync(self, path: str, flags: int) -> None:
        descriptor = os.open(self.root / path, flags)
        try:
            os.fsync(descriptor)
            if sys.platform == "darwin":
                import fcntl

                with suppress(OSError):
                    fcntl.fcntl(descriptor, _FULL_SYNC)
        finally:
            os.close(descriptor)

    def _refuse_links(self, path: str) -> None:
        """Raise where a link, or a file in place of a folder, is on the way to `path`, or is `path` itself."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            place = "/".join(parts[:end])
            found = self.status(place)
            if found is None:
                return
            if stat.S_ISLNK(found.st_mode):
                raise ChangeRefusedError(f"{path}: {place} is a link, and links are not followed.")
            if end < len(parts) and not stat.S_ISDIR(found.st_mode):
                raise ChangeRefusedError(f"{path}: {place} is a file where a folder is expected.")


def check_path(path: str) -> str:
    """`path`, where it is the plain relative path of a file that readers see.

    Raises
    ------
    ChangeRefusedError
        Where it leads out of the root, or to what is hidden.

    Examples
    --------
    >>> check_path("memory/notes/чай.md")
    'memory/notes/чай.md'
    """
    parts = path.split("/")
    odd = "\\" in path or "\0" in path or _DRIVE.match(path) or any(part in ("", ".", "..") for part in parts)
    if odd or path.encode("utf-8", "replace").decode() != path:
        raise ChangeRefusedError(f"expected a path below the root, in UTF-8, with '/'. Got {path!r:.200}.")
    if any(part.startswith(".") for part in parts):
        raise ChangeRefusedError(f"{path}: hidden files and folders are left alone.")
    return path


def folder_of(root: str | Path) -> Path:
    """The folder at `root`, its links followed.

    Raises
    ------
    FormatError
        Where there is none.
    """
    path = Path(root)
    if not path.is_dir():
        raise FormatError(f"{path}: expected a folder. Got {'a file' if path.exists() else 'nothing there'}.")
    return path.resolve()
