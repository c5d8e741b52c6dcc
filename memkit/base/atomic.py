"""Atomic writes: a file is written under a temporary name and renamed once its bytes are on the disk.

Three other kinds of writing are done elsewhere: changes below a root of memories, safe against a power cut after every
call (`memkit.change.disk`); the files of a lake, which change together (`memkit.tables.commit`); and what SQLite
writes: vectors (`memkit.index.shelf`) and checkpoints (`memkit.evaluation.checkpoint`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

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
