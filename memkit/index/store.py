"""Files that are whole or absent: named by the hash of their bytes, brought into being by a rename.

A reader beside a writer never sees half a file, writing the same content twice is harmless, and a damaged file is
known because its name no longer fits.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from memkit.errors import MemkitError, StaleIndexError


def digest(path: Path) -> str:
    """blake2b-128 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def put(folder: Path, suffix: str, write: Callable[[Path], None], prefix: str = "") -> str:
    """Let `write` fill a file and return its name in `folder`: prefix, hash of the bytes, suffix.

    Raises
    ------
    MemkitError
        Where the folder cannot be written; what was there stays.
    """
    return _in_place(folder, write, lambda temporary: f"{prefix}{digest(temporary)}{suffix}")


def replace(path: Path, text: str) -> None:
    """Give `path` a new text in one step; errors as for `put`."""
    _in_place(path.parent, lambda temporary: _write_text(temporary, text), lambda _: path.name)


def get(folder: Path, name: str, prefix: str = "") -> Path:
    """The file that `put` named, after its bytes were compared with its name.

    Raises
    ------
    StaleIndexError
        Where it is missing or damaged.
    """
    path = folder / Path(name).name
    if not path.is_file():
        raise StaleIndexError(f"{name}: expected a file that the manifest names. It is missing. Fit and save again.")
    if digest(path) != path.name.removesuffix(path.suffix).removeprefix(prefix):
        raise StaleIndexError(f"{name}: the bytes do not match the name, so the file is damaged. Fit and save again.")
    return path


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _in_place(folder: Path, write: Callable[[Path], None], name: Callable[[Path], str]) -> str:
    temporary: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
        os.close(handle)
        temporary = Path(made)
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        final = name(temporary)
        temporary.replace(folder / final)
    except (OSError, RuntimeError) as error:  # FAISS reports a full disk as RuntimeError
        raise MemkitError(
            f"cannot write to the folder {folder.name}: {error}. Free space or choose another."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return final
