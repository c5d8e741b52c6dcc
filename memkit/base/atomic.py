"""Files of memkit's own: written under a temporary name and renamed once the bytes are on the disk; and folders that
are the user's alone, as the cache is.

Three other kinds of writing are done elsewhere: changes below a root of memories, safe against a power cut after every
call (`memkit.change.disk`); the files of a lake, which change together (`memkit.tables.lake`); and what SQLite
writes: vectors (`memkit.index.cache`) and checkpoints (`memkit.evaluation.scores`).
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from memkit.errors import MemkitError

_VARIABLE = "MEMKIT_CACHE"
_OFF = ("", "0", "off", "none", "no")
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY


def replace(path: Path, content: str | bytes | Callable[[Path], object], mode: int = 0o666) -> None:
    """Replace the content of `path` atomically: until the new file is complete, the old one stays as it is.

    Parameters
    ----------
    content : str, bytes or callable
        A callable is called with a path and writes the content there.
    mode : int
        The file's mode, to which the user's umask applies.

    Raises
    ------
    OSError
        Or whatever `content` raises; no temporary file is left then.
    """
    put(path.parent, content, lambda _: path.name, mode)


def put(
    folder: Path,
    content: str | bytes | Callable[[Path], object],
    name: Callable[[Path], str],
    mode: int = 0o666,
) -> str:
    """Write a file into `folder` under the name that `name` returns for its path; errors as for `replace`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Hidden, so that no reader takes it for a memory; not to be guessed, so that nobody can put a link in its place.
    temporary = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        os.close(os.open(temporary, _NEW, mode))
        if callable(content):
            content(temporary)
        else:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        final_name = name(temporary)
        temporary.replace(folder / final_name)
    finally:
        temporary.unlink(missing_ok=True)
    return final_name


def users_cache() -> Path | None:
    """``$MEMKIT_CACHE``, else ``memkit`` in the user's cache folder; None if it is off."""
    named = os.environ.get(_VARIABLE)
    if named is not None and named.strip().lower() in _OFF:
        return None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return None
    return Path(named or Path(home, "memkit"))


def own_folder(folder: Path) -> None:
    """Create `folder` and its missing parents for the user alone; raise if it is another user's.

    Raises
    ------
    MemkitError
    """
    for above in reversed([folder, *folder.parents]):
        with suppress(FileExistsError):
            # From the top down, as `parents=True` would give the folders above other rights.
            above.mkdir(mode=0o700)
    check_own(folder)


def check_own(path: Path, *, is_ours: bool = False) -> None:
    """Raise if another user owns `path` or may write to it, or if it is a link in the place of what memkit made; a
    missing path is fine.

    Raises
    ------
    MemkitError
        Because files that others may write are neither trusted nor private.
    """
    try:
        entry = path.lstat() if is_ours else path.stat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(entry.st_mode):
        raise MemkitError(f"{path}: expected a file or folder. Got a link. Remove it.")
    if hasattr(os, "geteuid") and (entry.st_uid != os.geteuid() or entry.st_mode & 0o022):
        mode = stat.S_IMODE(entry.st_mode)
        raise MemkitError(
            f"{path}: expected what only its owner, you, may write. Got the owner {entry.st_uid} and mode {mode:o}."
            " Say chmod 700, or choose another folder with MEMKIT_CACHE or mk.vector_cache(folder)."
        )
