"""Files of an index: whole or absent, named by the hash of their bytes.

A reader beside a writer never sees half a file, writing the same content twice is harmless, and a damaged file is
known because its name no longer fits. A file may come from anybody: what it holds is checked, and never run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.base import atomic
from memkit.base.hashes import digest_of_path
from memkit.errors import DamagedIndexError, MemkitError, StaleIndexError, named
from memkit.formats.disk.files import IGNORE_FILE
from memkit.tables.untrusted import mapped, open_member

_HASH_AND_SUFFIX = r"[0-9a-f]{32}\.[a-z]{1,10}"


def put(folder: Path, suffix: str, write: Callable[[Path], object], prefix: str = "") -> str:
    """Let `write` fill a file and return its name in `folder`: prefix, hash of the bytes, suffix.

    Raises
    ------
    MemkitError
        Where the folder cannot be written; what was there stays.
    """
    with _writing(folder):
        return atomic.put(folder, write, lambda path: f"{prefix}{digest_of_path(path)}{suffix}")


def replace(path: Path, text: str) -> None:
    """Give `path` a new text in one step; errors as for `put`."""
    with _writing(path.parent):
        atomic.replace(path, text)


def unread(folder: Path) -> Path:
    """`folder`, marked so that it is never read as memories: a cache may lie where somebody's memories are."""
    folder.mkdir(exist_ok=True)
    (folder / IGNORE_FILE).touch()
    return folder


def get(folder: Path, name: str, prefix: str = "") -> Path:
    """The file that `put` named, after its bytes were compared with its name.

    Raises
    ------
    DamagedIndexError
        Where it is missing, a link, or damaged.
    """
    path = folder / name
    is_name = re.fullmatch(re.escape(prefix) + _HASH_AND_SUFFIX, name) is not None
    if not is_name or path.is_symlink() or not path.is_file():
        raise DamagedIndexError(f"{name}: expected a file that the manifest names. It is missing. Fit and save again.")
    if digest_of_path(path) != path.name.removesuffix(path.suffix).removeprefix(prefix):
        raise DamagedIndexError(f"{name}: the bytes do not match the name, so the file is damaged. Fit and save again.")
    return path


def load_array(path: Path, *kinds: type, columns: int | None = None, in_place: bool = False) -> NDArray[Any]:
    """The two-dimensional array of finite numbers of one of `kinds` in an ``.npy`` file: no objects, archive or map.

    That of a file of the user's own may stay `in_place`: only what is looked at is read.

    Raises
    ------
    DamagedIndexError
        Where it holds anything else, or is not as long as it says.
    """
    with checking(path), open_member(path.parent, path.name) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(file)
        if dtype not in kinds or by_column or len(shape) != 2 or columns not in (None, shape[1]):
            raise ValueError(f"{dtype} of shape {shape}")
        size = os.fstat(file.fileno()).st_size - file.tell()
        if size != prod(shape) * dtype.itemsize:
            raise ValueError(f"{size} bytes for {shape}")
        start = file.tell()
        array = np.frombuffer(mapped(file), dtype, offset=start) if in_place else np.fromfile(file, dtype)
        array = array.reshape(shape)
        if dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError("numbers that are not finite")
        return array


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write what `load_array` reads."""
    with path.open("wb") as file:  # np.save on a name would add a suffix
        np.save(file, array, allow_pickle=False)


@contextmanager
def checking(path: Path) -> Iterator[None]:
    """Make one error of whatever a file that memkit did not write leads to.

    Raises
    ------
    DamagedIndexError
    """
    try:
        yield
    except StaleIndexError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OSError, RuntimeError, MemoryError) as error:
        where = named(f"{path.parent.name}/{path.name}")
        raise DamagedIndexError(
            f"{where}: expected what was saved. {type(error).__name__}: {error!s:.300}. Fit and save again."
        ) from error


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Make one error of whatever keeps a file from being written.

    Raises
    ------
    MemkitError
    """
    try:
        yield
    except (OSError, RuntimeError) as error:  # FAISS reports a full disk as RuntimeError
        raise MemkitError(
            f"cannot write to the folder {folder.name}: {error}. Free space or choose another."
        ) from error
