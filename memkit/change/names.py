"""Which names a change may write: those that memkit's formats write, where its readers look, that can be shown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

from memkit.change.disk import Disk, check_path
from memkit.errors import ChangeRefusedError
from memkit.formats.disk.files import SKIPPED_FOLDERS
from memkit.formats.registry import FORMATS

WRITTEN = tuple(sorted({ending for format in FORMATS for ending in format.writes}))
"""The ends of the names that any of memkit's formats writes."""
_ODD = re.compile(r'[<>:"|?*]')
"""What not every system takes for a part of a name."""
_LONGEST_NAME, _LONGEST_PATH = 255, 1000
"""Bytes; of a path fewer than a system takes, as its root comes before it."""


@lru_cache(4096)
def check_changed(path: str) -> str:
    """`path`, where it is of a file that memkit writes: by the end of its name, and as its readers look there.

    Raises
    ------
    ChangeRefusedError

    Examples
    --------
    >>> check_changed("memory/notes/чай.md")
    'memory/notes/чай.md'
    """
    check_path(path)
    if not path.lower().endswith(WRITTEN):
        raise ChangeRefusedError(f"memkit writes files that end in {', '.join(WRITTEN)}. Got {path!r:.200}.")
    if max(len(part.encode()) for part in path.split("/")) > _LONGEST_NAME or len(path.encode()) > _LONGEST_PATH:
        most = f"at most {_LONGEST_NAME} bytes, and {_LONGEST_PATH} with its folders"
        raise ChangeRefusedError(f"a name: expected {most}. Got {path!r:.200}.")
    if skipped := SKIPPED_FOLDERS.intersection(path.casefold().split("/")[:-1]):
        raise ChangeRefusedError(f"{path!r:.200}: memkit does not read what lies in {min(skipped)}.")
    return path


@lru_cache(4096)
def check_new(path: str) -> str:
    """`path`, where a file of that name may be made: it can be shown, and every system can hold it.

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
        if not part.isprintable() or part != part.strip() or part.endswith(".") or _ODD.search(part):
            expected = "letters that can be seen, no blank or dot at an end, and none of"
            raise ChangeRefusedError(f'a new name: expected {expected} < > : " | ? *. Got {path!r:.200}.')
    return path


def check_apart(disk: Disk, contents: Mapping[str, object | None], made: Iterable[str]) -> None:
    """Raise where a name that is made differs only in case or spelling from another, or is a folder of one.

    `contents` has what each file that changes will be, None where it goes.
    """
    known: dict[str, dict[str, str]] = {}
    for path in made:
        parts = path.split("/")
        for end, name in enumerate(parts):
            folder = "/".join(parts[:end])
            if folder in contents:
                raise ChangeRefusedError(f"{path}: {folder} is a file, and cannot be its folder.")
            if folder not in known:
                known[folder] = {_folded(other): other for other in _stay(disk, folder, contents)}
            other = known[folder].setdefault(_folded(name), name)
            if other != name:
                there = f"{folder}/{other}" if folder else other
                raise ChangeRefusedError(f"{path}: some systems cannot tell it from {there}.")


def _stay(disk: Disk, folder: str, contents: Mapping[str, object | None]) -> list[str]:
    """The names in a folder that do not go."""
    above = f"{folder}/" if folder else ""
    return [name for name in disk.names(folder) if contents.get(above + name, name) is not None]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
