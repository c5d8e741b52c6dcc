"""The files below a root: which there are, and what may be read. Nothing outside of it is ever opened."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from memkit.base.hashes import checksum, digest
from memkit.errors import refused
from memkit.formats.disk.lock import JOURNAL
from memkit.formats.disk.source import READ_FLAGS, Source, decode
from memkit.formats.format import MARKDOWN
from memkit.formats.rows import Rows

# Larger files are logs or data: a round bound, and a parameter of `mk.read`.
MAX_FILE_BYTES = 64 * 2**20
"""Files above this are `file_too_large`."""
# Enough to see what it is; a round number.
HEAD_BYTES = 64 * 2**10
"""What is read of a file that is too large."""
# A page at a time of a file that has grown, or whose size says 0.
_PAGE_BYTES = 4096
_INT64 = 2**63 - 1
"""Inodes of some file systems are larger, which no column holds."""
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
IGNORE_FILE = ".memkitignore"
"""A folder that holds a file of this name is skipped unless it is named itself."""
SKIPPED_FOLDERS = frozenset({"node_modules", "venv", "virtualenv", "site-packages", "__pycache__"})
"""Folders that hold no memory; hidden ones are skipped too."""
HIDDEN_PLACES: dict[str, tuple[str, ...]] = {
    "": (".agents/memory", ".codex/memories", ".kilocode/rules/memory-bank", ".roo/memory-bank", ".memory-bank")
}
"""Hidden folders where hosts keep memories, at any depth below the root: they are read and written as visible ones are.

``*`` is one visible name. What else lies in such a host's folder (settings, hooks, transcripts) is neither.
Under "" are those that no format declares.
"""
NEVER_READ: dict[str, tuple[str, ...]] = {"": (".git", ".memkit", ".obsidian", ".trash", ".venv", ".cache")}
"""Hidden folders that are not even read or named with ``hidden="all"``: no memories are in them."""
POINTER, SAVED, DATABASE = "memkit.json", "saved-", "corpus.duckdb"
"""What memkit saves: the file that names a save, the begin of the names of its folder, and a DuckDB file for other
programs, which has no digest and which memkit never opens.
"""
VAULT = ".obsidian"
"""The folder that marks a vault."""
HIDDEN = ("known", "all", "none")
"""What ``hidden=`` may say: `HIDDEN_PLACES` are read, all hidden files are, none are."""
# A round bound: `.git` and caches may hold a million names.
MOST_COUNTED = 20_000
"""The most names that are looked at to count the Markdown files of hidden folders that are not read."""
SKIPPED_WITH = frozenset({IGNORE_FILE, "pyvenv.cfg"})
"""Files that have their folder skipped."""
_REMEMBERED_ROOTS: set[Path] = set()
"""The roots that were named in this process, absolute; a lake that names another is not followed there unasked."""


Stat = tuple[int, int, int, int]
"""Size, mtime and ctime in ns, inode: what tells that a file changed without opening it; ctime, as mtime can be set
back, and the inode, as a file may be moved over another.

No class: one is made for every file that is read.
"""
Content = tuple[Stat, bytes]
"""A file as it was when its bytes were read, and these, or the first of them where it is too large."""


@dataclass
class Listing:
    """The regular files below a root, by relative path in sorted order, and the links that were not followed."""

    root: Path
    max_file_bytes: int = MAX_FILE_BYTES
    files: dict[str, Stat | None] = field(default_factory=dict)
    """None for a file that was not asked for its stat: opening it tells that too, for less."""
    folders: list[str] = field(default_factory=list)
    links: dict[str, bool] = field(default_factory=dict)
    """Path of a link to whether its target is inside of the root."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Path of what could not be listed to the reason."""
    raw_names: dict[str, str] = field(default_factory=dict)
    """Shown path to the path on disk, where a name is no UTF-8."""
    foreign: list[str] = field(default_factory=list)
    """Names of the records in the folder's journal that this user's memkit did not write."""
    revision: dict[str, str] = field(default_factory=dict)
    """The commit that is listed, as the metadata of what is read of it tell it; empty for a folder as it is."""
    hidden: str = "known"
    """Which hidden files are listed, one of `HIDDEN`."""
    vaults: list[str] = field(default_factory=list)
    """The folders that hold an ``.obsidian``, which marks a vault and is not looked into."""
    passed_folders: list[str] = field(default_factory=list)
    """Hidden folders that were not looked into."""
    passed_files: dict[str, list[str]] = field(default_factory=dict)
    """The hidden Markdown files that are not listed, by their folder."""
    asked: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """What `ask` found, by path and home; it is asked again to tell whether the folder changed."""

    @cached_property
    def _start(self) -> str:
        return os.path.join(self.root, "")  # noqa: PTH118 - joining a Path for each file doubles the time

    def on_disk(self, path: str) -> str:
        """Where `path` can be opened."""
        return self._start + self.raw_names.get(path, path)

    def stat(self, path: str) -> Stat | None:
        """The stat of a file that is listed; None if it is not listed or has gone."""
        if path in self.files and self.files[path] is None:
            with suppress(OSError):
                self.files[path] = _stat(os.lstat(self.on_disk(path)))
        return self.files.get(path)

    def unlisted(self, path: str, home: str) -> str | None:
        """A file that an index names and the walk did not list, which it is from now on: a hidden one, or what a link
        leads to. None is nothing there, and "" a link out of the folder `home`.
        """
        found = self.ask(path, home)
        if found:
            self.files.setdefault(found, None)
        return found

    def ask(self, path: str, home: str) -> str | None:
        """What `unlisted` says, without listing it."""
        self.asked[path, home] = found = self._found(self.root / path, (self.root / home).resolve())
        return found

    def _found(self, on_disk: Path, home: Path) -> str | None:
        if not on_disk.is_symlink() and not on_disk.exists():
            return None
        if not is_inside(on_disk, home):
            return ""
        target = on_disk.resolve()
        return target.relative_to(self.root).as_posix() if target.is_file() else None

    def has_beside(self, name: str) -> bool:
        """Whether a file or folder of this name lies beside the root."""
        return self.ask(f"../{name}", "") is not None

    def walked(self) -> str:
        """A hash of all that the walk saw, the stats aside: two listings that saw the same are read in the same way."""
        marks = self.links, self.unreadable, self.raw_names, self.passed_files
        names = [*self.files], sorted(self.folders), sorted(self.vaults), self.foreign, self._unread
        return digest(repr((names, [sorted(mark.items()) for mark in marks])))

    def bare(self) -> Listing:
        """What another process needs to read the files."""
        return Listing(self.root, self.max_file_bytes, raw_names=self.raw_names)

    def expect(self, paths: Iterable[str]) -> None:
        """These files are read next, in this order; a folder need not know."""

    def content(self, path: str) -> Content:
        """The bytes of a file, or the first of one that is too large; raises OSError where it cannot be read."""
        content = read_bytes(self.on_disk(path), self.max_file_bytes)
        if path in self.files and self.files[path] is None:
            self.files[path] = content[0]
        return content

    def load(self, path: str, rows: Rows, memory_id: str | None = None) -> Content | None:
        """The bytes of the file at `path`; None where it cannot be read, which is reported."""
        try:
            return self.content(path)
        except OSError as error:
            got = error.strerror or "an error"
            rows.problem("unreadable", path, "a file that can be read", got, memory_id=memory_id, quote=False)
            return None

    def read(self, path: str, rows: Rows, memory_id: str | None = None) -> Source | None:
        """The file at `path` as text, its faults reported; None where it cannot be read at all."""
        content = self.load(path, rows, memory_id)
        return self.source(path, content, rows, memory_id) if content else None

    def source(self, path: str, content: Content, rows: Rows, memory_id: str | None = None) -> Source:
        """The bytes of a file as text, their faults reported."""
        (size, *_), data = content
        is_too_large = size > self.max_file_bytes
        if is_too_large:
            data = data[: codecs.utf_8_decode(data, "ignore", False)[1]]  # not in the midst of a character
        source = decode(path, data)
        source.size, source.too_large = size, is_too_large
        self.report_faults(source, rows, memory_id)
        return source

    def report_faults(self, source: Source, rows: Rows, memory_id: str | None = None) -> None:
        """Add a problem for every fault of a file's bytes."""

        def problem(rule: str, expected: str, got: str, line: int | None = None, advice: str | None = None) -> None:
            rows.problem(rule, source.path, expected, got, line=line, memory_id=memory_id, quote=False, advice=advice)

        if source.too_large:
            problem("file_too_large", f"at most {self.max_file_bytes} bytes", f"{source.size} bytes")
        if source.encoding != "utf-8":
            problem("encoding", "UTF-8", f"{source.encoding}, read as such", 1, "Save it as UTF-8 to change it.")
        for line, guess in source.undecoded.items():
            problem("encoding", "UTF-8", f"bytes that read as {source.guess}: {guess[:60]!r}", line)

    def shown(self, raw: str) -> str:
        """`raw` as UTF-8 text; a name with other bytes shows them as ``\\xff``."""
        if raw.isascii():
            return raw
        shown = os.fsencode(raw).decode("utf-8", "backslashreplace")
        if shown != raw and shown not in self.files:
            self.raw_names[shown] = raw
        return shown

    @cached_property
    def _unread(self) -> list[tuple[str, str]]:
        """The hidden folders that were not looked into and hold Markdown, with how much: names are counted, no file is
        opened.
        """
        found, n_left = list[tuple[str, str]](), MOST_COUNTED
        for top in sorted(self.passed_folders):
            count, n_names = self.count_markdown(top, n_left) if n_left > 0 else (0, 0)
            n_left -= n_names
            if count:
                found.append((self.shown(top), f"{count}{' or more' if n_left <= 0 else ''}"))
        return found

    def count_markdown(self, top: str, most: int) -> tuple[int, int]:
        """How many Markdown files a folder holds, and how many names were looked at, up to about `most`."""
        count, n_names, folders = 0, 0, [top]
        while folders and n_names < most:
            folder = folders.pop()
            with suppress(OSError), os.scandir(self._start + folder) as entries:
                listed = list(entries)
                n_names += len(listed)
                for entry in listed if SKIPPED_WITH.isdisjoint(entry.name for entry in listed) else ():
                    if not entry.is_dir(follow_symlinks=False):
                        count += entry.name.lower().endswith(MARKDOWN)
                    elif is_counted(path := f"{folder}/{entry.name}"):
                        folders.append(path)
        return count, n_names

    def note_passed(self, path: str, *, is_folder: bool, is_file: bool) -> None:
        """Keep the name of what is not read for its own name, so that it can be told."""
        folder, _, name = path.rpartition("/")
        if is_folder and name == VAULT:
            self.vaults.append(self.shown(folder))
        elif is_folder and is_counted(path):
            self.passed_folders.append(path)
        elif is_file and name.lower().endswith(MARKDOWN):
            self.passed_files.setdefault(self.shown(folder), []).append(self.shown(name))

    def settle(self, stats: dict[str, Stat | None]) -> None:
        """List these files, in order, by the names that are shown."""
        for raw in sorted(stats):
            path = self.shown(raw)
            if path in self.files:
                self.unreadable[path] = f"another file whose name reads the same, {raw!r}"
            else:
                self.files[path] = stats[raw]

    def report(self, rows: Rows) -> None:
        """Add a problem for every oddity of the listing."""
        for path, inside in self.links.items():
            rule, got = ("symlink", "a link") if inside else ("outside_root", "a link out of the root")
            rows.problem(rule, path, "a regular file or folder", got, quote=False)
        for path, reason in self.unreadable.items():
            rows.problem("unreadable", path, "a file or folder that can be read", reason, quote=False)
        for path in self.raw_names:
            rows.problem("encoding", path, "a file name in UTF-8", path)
        for path, number in self._unread:
            expected = f"hidden='all', or `memkit overview {path}`, to read a folder whose name begins with a dot"
            got = f"{number} Markdown file{'s' * (number != '1')}, not read"
            rows.problem("hidden", path, expected, got, quote=False)
        for path, names in sorted(self.passed_files.items()):
            got = f"{len(names)} Markdown file{'s' if len(names) > 1 else ''}, not read, first {min(names)!r:.80}"
            what = "a file in a folder whose name" if "/." in f"/{path}" else "a file whose name"
            rows.problem("hidden", path or ".", f"hidden='all', to read {what} begins with a dot", got, quote=False)
        if self.foreign:
            got = f"{len(self.foreign)} others, first {self.foreign[0]}"
            rows.problem(
                "foreign_journal", JOURNAL, "records that your own memkit signed in this place", got, quote=False
            )


_Parts = dict[str, list[list[str]]]


def _by_first(places: Iterable[str]) -> _Parts:
    """The parts of some paths by their first part."""
    parts: _Parts = {}
    for place in places:
        names = place.split("/")
        parts.setdefault(names[0], []).append(names)
    return parts


_KNOWN, _NEVER = _Parts(), _Parts()


def declare_places(format: str, hidden: tuple[str, ...], never_read: tuple[str, ...]) -> None:
    """Let `HIDDEN_PLACES` and `NEVER_READ` have those of a format, in place of what it declared before."""
    HIDDEN_PLACES[format], NEVER_READ[format] = hidden, never_read
    for parts, places in ((_KNOWN, HIDDEN_PLACES), (_NEVER, NEVER_READ)):
        parts.clear()
        parts.update(_by_first(chain(*places.values())))


declare_places("", HIDDEN_PLACES[""], NEVER_READ[""])


def _matched(names: list[str], place: list[str]) -> bool:
    """Whether `names` are the first of `place`, a ``*`` being any visible name."""
    return all(name == part or (part == "*" and name[:1] != ".") for name, part in zip(names, place, strict=False))


def _standing(path: str) -> str:
    """'seen', 'hidden', or 'way' for a folder that leads to one of `HIDDEN_PLACES` and holds nothing else to read."""
    names, depth = path.split("/"), 0
    while depth < len(names):
        if names[depth][:1] == ".":
            fitting = [place for place in _KNOWN.get(names[depth], ()) if _matched(names[depth:], place)]
            whole = [len(place) for place in fitting if len(place) <= len(names) - depth]
            if not whole:
                return "way" if fitting else "hidden"
            depth += whole[0] - 1
        depth += 1
    return "seen"


def is_hidden(path: str) -> bool:
    """Whether a name in `path` begins with a dot, those of `HIDDEN_PLACES` aside: readers and writers leave it alone.

    >>> is_hidden("memory/notes/a.md"), is_hidden(".git/config"), is_hidden("memory/.draft.md")
    (False, True, True)
    >>> is_hidden("app/.agents/memory/a.md"), is_hidden(".agents/settings.json"), is_hidden(".agents/memory/.a.md")
    (False, True, True)
    """
    return "/." in f"/{path}" and _standing(path) != "seen"


def below_place(path: str) -> str:
    """What a path is below the last of `HIDDEN_PLACES` that it leads through; all of it where there is none.

    >>> below_place("app/.agents/memory/build/ci.md"), below_place("docs/ci.md")
    ('build/ci.md', 'docs/ci.md')
    """
    names = path.split("/")
    for start in range(len(names) - 1, -1, -1):
        for place in _KNOWN.get(names[start], ()):
            if start + len(place) < len(names) and _matched(names[start:], place):
                return "/".join(names[start + len(place) :])
    return path


def leads_to_memory(path: str) -> bool:
    """Whether a hidden folder holds one of `HIDDEN_PLACES`: it is gone through, and nothing else in it is read.

    >>> leads_to_memory(".kilocode/rules"), leads_to_memory(".agents/memory"), leads_to_memory(".git")
    (True, False, False)
    """
    return "/." in f"/{path}" and _standing(path) == "way"


def is_never_read(path: str) -> bool:
    """Whether a path lies in one of `NEVER_READ`, in any case of letters.

    >>> is_never_read("a/.GIT/config"), is_never_read(".obsidian/plugins/x.md"), is_never_read(".agents/x.md")
    (True, True, False)
    """
    names = path.casefold().split("/")
    return any(
        names[start : start + len(place)] == place for start, name in enumerate(names) for place in _NEVER.get(name, ())
    )


def is_counted(path: str) -> bool:
    """Whether the Markdown files of a hidden folder that is not read are counted, and told."""
    return path.rpartition("/")[2] not in SKIPPED_FOLDERS and not is_never_read(path)


def is_passed_over(path: str, hidden: str = "known", *, is_folder: bool = False) -> bool:
    """Whether a listing leaves out a file, or does not look into a folder, by the names in its path.

    Parameters
    ----------
    hidden : str
        One of `HIDDEN`.
    """
    if "/." not in f"/{path}":
        return False
    if hidden != "known":
        return hidden == "none" or is_never_read(path)
    standing = _standing(path)
    return standing == "hidden" or (standing == "way" and not is_folder)


class Overlay(Listing):
    """A listing with other contents in the place of some files, None where there is none."""

    def __init__(self, listing: Listing, contents: Mapping[str, bytes | None]) -> None:
        super().__init__(listing.root, listing.max_file_bytes, raw_names=listing.raw_names, hidden=listing.hidden)
        self.vaults = listing.vaults
        self.contents = contents
        self.files = {path: stat for path, stat in listing.files.items() if contents.get(path, b"") is not None}
        self.files |= {path: (len(data), 0, 0, 0) for path, data in contents.items() if data is not None}
        folders = (path[:end] for path in contents for end, character in enumerate(path) if character == "/")
        self.folders = list(dict.fromkeys([*listing.folders, *folders]))

    def bare(self) -> Listing:
        """Itself, as the contents are nowhere else."""
        return self

    def unlisted(self, path: str, home: str) -> str | None:
        """As for a folder, but what has no content is not there."""
        return None if path in self.contents else super().unlisted(path, home)

    def content(self, path: str) -> Content:
        """The content that was given, or else the file's."""
        data = self.contents.get(path)
        if data is None:
            return super().content(path)
        size = len(data)
        return (size, 0, 0, 0), data if size <= self.max_file_bytes else data[:HEAD_BYTES]


def saves_in(paths: Mapping[str, object]) -> dict[str, set[str]]:
    """The files of what memkit saved, which are no memories, by the folder of the save with its last ``/``."""
    saves: dict[str, set[str]] = {}
    for path in paths:
        folder, mark, _ = f"/{path}".partition(f"/{SAVED}")
        top = f"{folder}/"[1:]
        if mark and f"{top}{POINTER}" in paths:
            saves.setdefault(top, {f"{top}{POINTER}", f"{top}{DATABASE}"}).add(path)
    return saves


def remember_root(root: Path) -> Path:
    """`root`, noted as one that was named in this process."""
    _REMEMBERED_ROOTS.add(root.absolute())
    return root


def is_remembered_root(root: Path) -> bool:
    """Whether `root` was named in this process."""
    return root.absolute() in _REMEMBERED_ROOTS


def check_root(root: Path) -> None:
    """Raise where `root` is not a folder or file that can be read.

    Raises
    ------
    FormatError
        Naming what is there instead.
    """
    got = ""
    try:
        mode = root.stat().st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            got = "a pipe, socket or device"
        elif not os.access(root, os.R_OK | (os.X_OK if stat.S_ISDIR(mode) else 0)):
            got = "one without permission to read it"
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL
        got = "nothing there"
    except OSError as error:
        got = error.strerror or "an error"
    if got:
        raise refused(root, "a folder or file", got)


def check_file(path: Path) -> None:
    """Raise where anything but a file is at `path`: a pipe may never end, and a device may have no end.

    Raises
    ------
    FormatError
    """
    if path.exists() and not path.is_file():
        raise refused(path, "a file", "a folder" if path.is_dir() else "a pipe, socket or device")


def home_of(root: Path) -> Path:
    """The folder that paths below `root` are relative to: `root` itself, or the one that a single file lies in."""
    root = root.resolve()
    return root.parent if root.is_file() else root


def list_files(root: Path, max_file_bytes: int = MAX_FILE_BYTES, *, with_stat: bool, hidden: str = "known") -> Listing:
    """Every regular file below `root` (or `root` itself), links not followed, cost linear in the number of files."""
    listing = Listing(home_of(root), max_file_bytes, hidden=hidden)
    if root.is_file():
        listing.files[root.resolve().name] = _stat(root.stat())
        return listing
    stats: dict[str, Stat | None] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with _opened(listing.root / folder) as place, os.scandir(place) as entries:
                folders += _sort_out(listing, folder, list(entries), stats, with_stat)
        except OSError as error:
            listing.unreadable[listing.shown(folder)] = error.strerror or "an error"
    listing.settle(stats)
    return listing


@contextmanager
def _opened(folder: Path) -> Iterator[Path | int]:
    """What `os.scandir` takes for a folder; where it takes a descriptor, each stat is a sixth faster than by path."""
    if os.scandir not in os.supports_fd:
        yield folder
        return
    descriptor = os.open(folder, _FOLDER_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sort_out(
    listing: Listing, folder: str, entries: list[os.DirEntry[str]], stats: dict[str, Stat | None], with_stat: bool
) -> list[str]:
    """Add the files of one folder to `listing` and `stats`, and return the sub-folders to list."""
    names = {entry.name for entry in entries}
    if folder and not SKIPPED_WITH.isdisjoint(names):
        return []
    folders = []
    prefix = f"{folder}/" if folder else ""
    is_plain = "/." not in f"/{folder}"
    for entry in entries:
        name = entry.name
        path = prefix + name
        try:
            if not (is_plain and name[0] != ".") and _is_passed(listing, path, entry):
                continue
            if entry.is_file(follow_symlinks=False):
                stats[path] = _stat(entry.stat(follow_symlinks=False)) if with_stat else None
            elif entry.is_symlink():
                listing.links[listing.shown(path)] = is_inside(listing.root / path, listing.root)
            elif not entry.is_dir(follow_symlinks=False):
                listing.unreadable[listing.shown(path)] = "a pipe, socket or device"
            elif name not in SKIPPED_FOLDERS:
                folders.append(path)
                listing.folders.append(path)
        except OSError as error:  # gone since the folder was listed
            listing.unreadable[listing.shown(path)] = error.strerror or "an error"
    return folders


def _is_passed(listing: Listing, path: str, entry: os.DirEntry[str]) -> bool:
    """Whether a file or folder is left out for its name, which is noted."""
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_passed_over(path, listing.hidden, is_folder=is_folder):
        return False
    listing.note_passed(path, is_folder=is_folder, is_file=entry.is_file(follow_symlinks=False))
    return True


def _stat(status: os.stat_result) -> Stat:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino & _INT64


def is_inside(path: Path, folder: Path) -> bool:
    """Whether `path`, links followed, lies below `folder` (which is resolved already); a loop of links does not."""
    try:
        resolved = path.resolve()
        return resolved.is_relative_to(folder) and not _is_loop(resolved)
    except (OSError, RuntimeError, ValueError):  # a loop before Python 3.13, a NUL
        return False


def _is_loop(resolved: Path) -> bool:
    """Whether links that lead to one another are left, at which `Path.resolve` stops without an error from 3.13 on."""
    try:
        resolved.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def digest_of(content: Content) -> str:
    """Hash of a file's content, which tells that it changed; of one that was cut, its size counts too."""
    (size, *_), data = content
    return checksum(data if len(data) == size else data + b"%d" % size).hex()


def read_bytes(path: str, max_file_bytes: int) -> Content:
    """Stat and bytes, or the head of what is too large; a link or device in its place is refused."""
    descriptor = os.open(path, READ_FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "no regular file")
        stat_of_file = size, *_ = _stat(status)
        data = os.read(descriptor, size + 1) if 0 < size <= max_file_bytes else b""
        if data and len(data) == size:
            return stat_of_file, data
        parts = [data]
        limit = (HEAD_BYTES if size > max_file_bytes else max_file_bytes + 1) - len(data)
        while limit > 0 and (data := os.read(descriptor, min(limit, max(size, _PAGE_BYTES)))):
            parts.append(data)
            limit -= len(data)
        return stat_of_file, b"".join(parts)
    finally:
        os.close(descriptor)
