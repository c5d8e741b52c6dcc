"""The files below a root: which there are, and what may be read. Nothing outside of it is ever opened."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from memkit.formats.rows import Rows
from memkit.formats.source import Source, decode

MAX_FILE_BYTES = 64 * 2**20
"""Files above this are `file_too_large`."""
HEAD_BYTES = 64 * 2**10
"""What is read of a file that is too large."""
IGNORE_FILE = ".memkitignore"
"""A folder that holds a file of this name is skipped unless it is named itself."""
SKIPPED_FOLDERS = frozenset({"node_modules", "venv", "env", "virtualenv", "site-packages", "__pycache__"})
"""Folders that hold no memory; hidden ones are skipped too, and any with a ``pyvenv.cfg``."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What tells that a file changed without opening it; ctime, as mtime can be set back."""

    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass
class Listing:
    """The regular files below a root, by relative path in sorted order, and the links that were not followed."""

    root: Path
    files: dict[str, Stat] = field(default_factory=dict)
    links: dict[str, bool] = field(default_factory=dict)
    """Path of a link to whether its target is inside of the root."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Path of a folder that could not be listed to the reason."""
    raw_names: dict[str, str] = field(default_factory=dict)
    """Shown path to the path on disk, where a name is no UTF-8."""

    def on_disk(self, path: str) -> Path:
        """Where `path` can be opened."""
        return self.root / self.raw_names.get(path, path)

    def add(self, path: str) -> None:
        """List one more file, which an index names though the walk skips its folder."""
        self.files.setdefault(path, _stat(self.on_disk(path).stat()))

    def report(self, rows: Rows) -> None:
        """Add a problem for every oddity of the listing."""
        for path, inside in self.links.items():
            rule, got = ("symlink", "a link") if inside else ("outside_root", "a link out of the root")
            rows.problem(rule, path, "a regular file or folder", got, quote=False)
        for path, reason in self.unreadable.items():
            rows.problem("unreadable", path, "a folder that can be listed", reason, quote=False)
        for path in self.raw_names:
            rows.problem("encoding", path, "a file name in UTF-8", path)


def list_files(root: Path) -> Listing:
    """Every regular file below `root` (or `root` itself), links not followed, cost linear in the number of files."""
    root = root.resolve()
    if root.is_file():
        listing = Listing(root.parent)
        listing.files[root.name] = _stat(root.stat())
        return listing
    listing = Listing(root)
    found: list[tuple[str, Stat]] = []
    folders = [""]
    while folders:
        folders += _scan(listing, folders.pop(), found)
    found.sort()
    for raw, status in found:
        listing.files[_shown(listing, raw)] = status
    return listing


def _scan(listing: Listing, folder: str, found: list[tuple[str, Stat]]) -> list[str]:
    """Add the files of one folder to `found`; the sub-folders to look into."""
    try:
        with os.scandir(os.path.join(listing.root, folder)) as entries:  # noqa: PTH118 - a Path a file doubles the time
            inside = list(entries)
    except OSError as error:
        listing.unreadable[_shown(listing, folder)] = error.strerror or "an error"
        return []
    names = {entry.name for entry in inside}
    if folder and (IGNORE_FILE in names or "pyvenv.cfg" in names):
        return []
    folders = []
    for entry in inside:
        if entry.name.startswith("."):
            continue
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_symlink():
            listing.links[_shown(listing, path)] = is_inside(Path(entry.path), listing.root)
        elif entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED_FOLDERS:
                folders.append(path)
        elif entry.is_file(follow_symlinks=False):
            found.append((path, _stat(entry.stat(follow_symlinks=False))))
    return folders


def _stat(status: os.stat_result) -> Stat:
    return Stat(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _shown(listing: Listing, raw: str) -> str:
    """`raw` as UTF-8 text; a name with other bytes shows them as ``\\xff``."""
    if raw.isascii():
        return raw
    shown = os.fsencode(raw).decode("utf-8", "backslashreplace")
    if shown != raw:
        listing.raw_names[shown] = raw
    return shown


def is_inside(path: Path, folder: Path) -> bool:
    """Whether `path`, links followed, lies below `folder` (which is resolved already)."""
    try:
        return path.resolve().is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL
        return False


def read_source(listing: Listing, path: str, max_file_bytes: int, rows: Rows) -> Source | None:
    """The file at `path` as text, its faults reported; None where it cannot be read at all."""
    try:
        size, data = _read_bytes(listing.on_disk(path), max_file_bytes)
    except OSError as error:
        rows.problem("unreadable", path, "a file that can be read", error.strerror or "an error", quote=False)
        return None
    source = decode(path, data)
    source.size = size
    if size > max_file_bytes:
        source.too_large = True
        rows.problem("file_too_large", path, f"at most {max_file_bytes} bytes", f"{size} bytes", quote=False)
    if source.encoding != "utf-8":
        rows.problem("encoding", path, "UTF-8", f"{source.encoding}, read as such", line=1, quote=False)
    for line, guess in source.undecoded.items():
        got = f"bytes that read as windows-1251: {guess[:60]!r}"
        rows.problem("encoding", path, "UTF-8", got, line=line, quote=False)
    return source


def _read_bytes(path: Path, max_file_bytes: int) -> tuple[int, bytes]:
    """Size and content, or the head of what is too large; a link or device in its place is refused."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "no regular file")
        limit = HEAD_BYTES if status.st_size > max_file_bytes else max_file_bytes + 1
        parts = []
        while limit > 0 and (part := os.read(descriptor, min(limit, max(status.st_size, HEAD_BYTES) + 1))):
            parts.append(part)
            limit -= len(part)
        return status.st_size, parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(descriptor)
