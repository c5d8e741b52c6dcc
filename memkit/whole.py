"""Files that are whole or absent: each lies beside its place until its bytes are on the disk, then takes its name.

Apart from these stand three kinds of writing: below a root of memories, `memkit.change.disk`, whose every call is one
that a power cut may follow; a lake's files, which change together (`memkit.tables.commit`); and a file that grows by
pieces (`memkit.evaluation.settings.checkpoint`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY


def replace(path: Path, content: str | bytes | Callable[[Path], object], mode: int = 0o666) -> None:
    """Give `path` a new content in one step: what was there stays whole until the new one is.

    Parameters
    ----------
    content : str, bytes or callable
        A callable writes to the path that it gets.
    mode : int
        Of the file, less what the user's mask takes off.

    Raises
    ------
    OSError
        And whatever `content` raises; then nothing is left beside the file.
    """
    put(path.parent, content, lambda _: path.name, mode)


def put(
    folder: Path,
    content: str | bytes | Callable[[Path], object],
    name: Callable[[Path], str],
    mode: int = 0o666,
) -> str:
    """A file in `folder` that is called what `name` makes of its content; errors as for `replace`."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        os.close(os.open(beside, _NEW, mode))
        if callable(content):
            content(beside)
        else:
            beside.write_bytes(content.encode() if isinstance(content, str) else content)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        final = name(beside)
        beside.replace(folder / final)
    finally:
        beside.unlink(missing_ok=True)
    return final
