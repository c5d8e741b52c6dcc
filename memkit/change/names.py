"""Which names a change may write: those that memkit's formats write, where its readers look, that can be shown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
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


class Names:
    """The names below a root as they are, and those that a change makes: no system may take two of them for one.

    Parameters
    ----------
    disk : Disk
        The files; each folder is listed once.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known: dict[str, dict[str, str]] = {}

    def make(self, path: str, gone: Container[str]) -> None:
        """Take note of a new file, where the files `gone` are not there any more.

        Raises
        ------
        ChangeRefusedError
            Where a name in it differs only in case or spelling from another that is there.
        """
        parts = path.split("/")
        for end, name in enumerate(parts):
            folder = "/".join(parts[:end])
            if folder not in self._known:
                self._known[folder] = {_folded(other): other for other in self._disk.names(folder)}
            other = self._known[folder].setdefault(_folded(name), name)
            there = f"{folder}/{other}" if folder else other
            if other != name and there not in gone:
                raise ChangeRefusedError(f"{path}: some systems cannot tell it from {there}.")
            self._known[folder][_folded(name)] = name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
