"""The location of a repository, its branches and tags, read as files: git itself would follow its own settings."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from memkit.errors import FormatError, NotFoundError, did_you_mean, refused
from memkit.formats.disk.files import is_inside, read_bytes

_MOST_BYTES = 16 * 2**20
_HEX = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"[0-9a-f]{4,40}")


def git_dir_of(folder: Path) -> tuple[Path, tuple[bytes, ...]]:
    """The git folder, and the path from the top of the work tree to `folder`, in parts.

    Raises
    ------
    FormatError
        Where `folder` is in no repository, or in one whose objects may not be read.
    """
    place = folder.resolve()
    if _is_git_dir(place):
        _check(place)
        return place, ()
    for top in (place, *place.parents):
        git_dir = top / ".git"
        if git_dir.is_symlink() or git_dir.is_file():
            got = "a link out of the root, as in a worktree or submodule, which is not followed: name the git folder"
            raise refused(git_dir, "a folder", f"{got} itself, or read a clone")
        if git_dir.is_dir():
            _check(git_dir)
            return git_dir, tuple(map(os.fsencode, place.relative_to(top).parts))
    raise refused(folder, "a folder of a git repository", "one that is in none")


def _is_git_dir(place: Path) -> bool:
    return all((place / name).is_dir() for name in ("objects", "refs")) and (place / "HEAD").is_file()


def _check(git_dir: Path) -> None:
    """Raise where the objects are stored elsewhere, or in a form that memkit cannot read."""
    objects = git_dir / "objects"
    if not objects.is_dir() or not is_inside(objects, git_dir):
        raise refused(objects, "a folder with git's objects", "none in its place")
    others = objects / "info" / "alternates"
    if others.is_symlink() or others.exists():
        got = "one that borrows those of another, outside of the root: name that, or read a clone without --shared"
        raise refused(others, "a repository with all its objects", got)
    if (git_dir / "reftable").exists():
        raise refused(git_dir, "branches as files", "reftable, which is not known")


class Refs:
    """Branches, tags and other small files of a repository."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    def id_of(self, name: str) -> str:
        """The commit id of a name; an abbreviated id is returned as it is, for git to complete."""
        name = "HEAD" if name in ("", "@") else name
        for place in ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"):
            if found := self._ref(place + name):
                return found
        if _ABBREVIATED.fullmatch(name):
            return name
        if name == "HEAD":
            raise NotFoundError(f"rev: {self._git_dir}: expected a commit. Got a repository without any.")
        names = [ref.removeprefix("refs/").partition("/")[2] for ref in self._packed] + self._branches()
        raise NotFoundError(f"rev: expected a branch, tag or commit. Got {name!r:.200}.{did_you_mean(name, names)}")

    def _ref(self, name: str, depth: int = 5) -> str:
        """The id that a ref holds, symbolic refs followed; "" where there is no such ref."""
        is_name = name == "HEAD" or (name.startswith("refs/") and not {"", ".", ".."} & set(name.split("/")))
        written = (self.read(name) or self._packed.get(name, "")).strip() if is_name else ""
        if written.startswith("ref: ") and depth:
            return self._ref(written[5:].strip(), depth - 1)
        if re.fullmatch("[0-9a-f]{64}", written):
            raise FormatError(f"{self._git_dir}: expected ids of SHA-1. Got SHA-256, which is not known.")
        return written if _HEX.fullmatch(written) else ""

    @cached_property
    def _packed(self) -> dict[str, str]:
        """Refs that git keeps in one file."""
        lines = (self.read("packed-refs") or "").split("\n")
        pairs = (line.partition(" ") for line in lines if line[:1] not in ("#", "^"))
        return {name: id for id, _, name in pairs if name}

    def _branches(self) -> list[str]:
        folder = self._git_dir / "refs" / "heads"
        with suppress(OSError):
            return sorted(os.listdir(folder))[:1000]  # noqa: PTH208 - names are all that is wanted
        return []

    def read(self, name: str) -> str | None:
        """A file of the git folder as text; None where there is no such regular file."""
        path = self._git_dir / name
        with suppress(OSError, ValueError):
            if is_inside(path.parent, self._git_dir.resolve()):
                return read_bytes(str(path), _MOST_BYTES)[1].decode("utf-8", "replace")
        return None
