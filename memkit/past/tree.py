"""The files of a revision, listed by the same rules as those of a folder; nothing is checked out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from memkit.errors import refused
from memkit.extend.reading import MARKDOWN, Rows
from memkit.formats.disk.files import (
    HEAD_BYTES,
    MAX_FILE_BYTES,
    SKIPPED_FOLDERS,
    SKIPPED_WITH,
    Content,
    Listing,
    Stat,
    is_counted,
    is_passed_over,
)
from memkit.past.repository import Change, Commit, Repository

# A round bound.
MOST_PATHS = 500_000
"""Files and folders of a revision; a tree of a few hundred bytes can have any number of them."""
_FOLDER, _LINK, _MODULE = b"40000", b"120000", b"160000"
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
# As Linux follows; a circle ends there.
_MOST_LINKS = 40

Entry = tuple[bytes, bytes]
"""Mode and id of a name in a tree."""


def entries(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Mode, name and id of each entry of a tree object, up to where it is cut off."""
    position, end = 0, len(data)
    while position < end:
        blank = data.find(b" ", position)
        zero = data.find(b"\0", blank)
        if blank < 0 or zero < 0:
            return
        # An id has 20 bytes: repositories of SHA-256 are refused before.
        yield data[position:blank], data[blank + 1 : zero], data[zero + 1 : zero + 21]
        position = zero + 21


class Tree(Listing):
    """The files of one commit below a folder, by the rules of `list_files`."""

    def __init__(
        self, root: Path, repository: Repository, commit: Commit, max_file_bytes: int, hidden: str = "known"
    ) -> None:
        super().__init__(root, max_file_bytes, revision=commit.facts, hidden=hidden)
        self.commit, self.repository = commit, repository
        self.blobs: dict[str, bytes] = {}
        self.modules: list[str] = []
        self.is_too_large = self.is_same_files = False
        self.ignored: set[str] = set()
        self._base: Entry | None = None
        self._parsed: dict[bytes, dict[bytes, Entry]] = {}

    def walk(self) -> None:
        """List the files; trees are asked for a level at a time, and each of them once."""
        self._base = self._entry_at(self.repository.prefix)
        listed: dict[str, Entry] = {}
        if self._base is None:
            if not self.root.exists():
                raise refused(self.root, "a folder or file", "nothing there")
        elif self._base[0] == _FOLDER:
            self._walk(self._base[1], listed)
        else:
            listed[self.root.name] = self._base
            self.root = self.root.parent
        named: dict[str, bytes] = {}
        for raw, (mode, id) in listed.items():
            if mode == _LINK:
                self.links[self.shown(raw)] = self._resolved(raw) is not None
            elif mode == _MODULE:
                self.modules.append(self.shown(raw))
            else:
                named[raw] = id
        self.settle(dict.fromkeys(named))
        self.blobs = {path: named[self.raw_names.get(path, path)] for path in self.files}

    def _walk(self, tree: bytes, listed: dict[str, Entry]) -> None:
        level, count = [("", tree)], 0
        while level:
            # A level at a time, as each request waits for git.
            trees = self.repository.trees([id for _, id in level])
            below: list[tuple[str, bytes]] = []
            for folder, id in level:
                data = trees.get(id)
                if data is None:
                    self.unreadable[self.shown(folder[:-1])] = "a tree that is not here"
                    continue
                for mode, name, entry_id in self._listed_entries(folder, data):
                    path = folder + name
                    if mode == _FOLDER:
                        below.append((f"{path}/", entry_id))
                    else:
                        listed[path] = mode, entry_id
                    count += 1
                if count > MOST_PATHS:
                    self.is_too_large = True
                    listed.clear()
                    self.folders.clear()
                    return
            self.folders += [self.shown(path[:-1]) for path, _ in below]
            level = below

    def _listed_entries(self, folder: str, data: bytes) -> Iterator[tuple[bytes, str, bytes]]:
        """The entries of a tree that a folder's listing would have."""
        listed = [(mode, name.decode("utf-8", "surrogateescape"), id) for mode, name, id in entries(data)]
        if folder and not SKIPPED_WITH.isdisjoint(name for _, name, _ in listed):
            self.ignored.add(folder)
            return
        for mode, name, id in listed:
            path, is_folder = folder + name, mode == _FOLDER
            if not name or "/" in name or (is_folder and name in SKIPPED_FOLDERS):
                continue
            if is_passed_over(path, self.hidden, is_folder=is_folder):
                self.note_passed(path, is_folder=is_folder, is_file=mode.startswith(b"100"))
            else:
                yield mode, name, id

    def count_markdown(self, top: str, most: int) -> tuple[int, int]:
        """As for a folder: trees are asked for one by one, as few people have any."""
        entry = self._entry_below(top.split("/"))
        trees, count, n_names = [(top, entry[1])] if entry else [], 0, 0
        while trees and n_names < most:
            folder, id = trees.pop()
            entries = {name.decode("utf-8", "surrogateescape"): entry for name, entry in self._entries(id).items()}
            n_names += len(entries)
            if not SKIPPED_WITH.isdisjoint(entries):
                continue
            for name, (mode, entry_id) in entries.items():
                if mode != _FOLDER:
                    count += name.lower().endswith(MARKDOWN)
                elif is_counted(path := f"{folder}/{name}"):
                    trees.append((path, entry_id))
        return count, n_names

    def step(self, commit: Commit, changes: Iterable[Change]) -> set[str] | None:
        """Move to the next commit, and return the changed paths; None where all files have to be listed again."""
        self.commit, self.revision = commit, commit.facts
        self.is_same_files, changed = True, set[str]()
        above = b"".join(name + b"/" for name in self.repository.prefix)
        for name, mode, id in changes:
            raw = name.removeprefix(above).decode("utf-8", "surrogateescape")
            *folders, last = raw.split("/")
            if last in SKIPPED_WITH or (not name.startswith(above) and self.repository.prefix):
                return None
            if is_passed_over(raw, self.hidden) or any(part in SKIPPED_FOLDERS for part in folders):
                continue
            if self.ignored and any(raw.startswith(folder) for folder in self.ignored):
                continue
            path = raw if raw.isascii() else self.shown(raw)
            changed.add(path)
            self.is_same_files &= (path in self.files) == mode.startswith(b"100")
            if mode.startswith(b"100"):
                self.files[path], self.blobs[path] = None, id
            else:
                self.files.pop(path, None)
                self.blobs.pop(path, None)
        return changed

    def _entry_at(self, names: Iterable[bytes]) -> Entry | None:
        """Mode and id of the entry at a path from the top of the tree."""
        mode, id = _FOLDER, self.commit.tree
        for name in names:
            entries = self._entries(id) if mode == _FOLDER else {}
            if name not in entries:
                return None
            mode, id = entries[name]
        return mode, id

    def _entries(self, id: bytes) -> dict[bytes, Entry]:
        if id not in self._parsed:
            data = self.repository.trees([id]).get(id, b"")
            self._parsed[id] = {name: (mode, entry_id) for mode, name, entry_id in entries(data)}
        return self._parsed[id]

    def _resolved(self, path: str) -> str | None:
        """A path with its links resolved; None where they leave the root or form a loop."""
        rest, done, links = path.split("/"), list[str](), 0
        while rest:
            name = rest.pop(0)
            if name == ".." and not done:
                return None
            if name in ("", ".", ".."):
                del done[len(done) - (name == "..") :]
                continue
            entry = self._entry_below([*done, name])
            if entry is None or entry[0] != _LINK:
                done.append(name)
                continue
            content = next(self.repository.objects([entry[1].hex()], HEAD_BYTES))
            target = content[1].decode("utf-8", "surrogateescape") if content else "/"
            links += 1
            if target.startswith("/") or links > _MOST_LINKS:
                return None
            rest = target.split("/") + rest
        return "/".join(done)

    def _entry_below(self, names: Iterable[str]) -> Entry | None:
        """Mode and id of the entry at a path below the root."""
        return self._entry_at((*self.repository.prefix, *(name.encode("utf-8", "surrogateescape") for name in names)))

    def unlisted(self, path: str, home: str) -> str | None:
        """As for a folder: hidden files are in the tree as well, and links lead to others."""
        end = self._resolved(path)
        if end is None or (home and not end.startswith(f"{home}/")):
            return ""
        entry = self._entry_below(end.split("/"))
        if entry is None or entry[0] in (_LINK, _MODULE, _FOLDER):
            return None
        self.blobs[end] = entry[1]
        self.files.setdefault(end, None)
        return end

    def stat(self, path: str) -> Stat | None:
        """The id of the content in the place of size and times: it changes with the content."""
        id = self.blobs.get(path)
        # Seven bytes each, as a column holds 63 bits.
        return None if id is None else (-1, int.from_bytes(id[:7]), int.from_bytes(id[7:14]), 0)

    def bare(self) -> Tree:
        """Itself: git runs in this process alone."""
        return self

    def expect(self, paths: Iterable[str]) -> None:
        """Announce the files that are read next, so that git is asked for several at once."""
        self.repository.expect(self.blobs[path] for path in paths if path in self.blobs)

    def content(self, path: str) -> Content:
        """The bytes of a file, or the first of one that is too large; raises OSError where git cannot give them."""
        size, data = self.repository.content(self.blobs[path], self.max_file_bytes)
        if size < 0:
            raise OSError(0, "an object that is not here, as in a partial clone, or is damaged")
        if data.startswith(_LFS):
            raise OSError(0, "a pointer of git LFS, whose file is not in the repository")
        return (size, *(self.stat(path) or (0, 0, 0, 0))[1:]), data

    def report(self, rows: Rows) -> None:
        """Add a problem for every oddity of the tree."""
        super().report(rows)
        for path in self.modules:
            rows.problem("unclaimed", path, "Markdown, JSON or YAML", "a submodule", quote=False)
        if self.is_too_large:
            rows.problem("too_many_files", ".", f"at most {MOST_PATHS} files and folders", "more", quote=False)


def tree_of(
    repository: Repository,
    root: Path,
    commit: Commit,
    max_file_bytes: int = MAX_FILE_BYTES,
    hidden: str = "known",
) -> Tree:
    """The listing of `root` in a commit."""
    tree = Tree(root.resolve(), repository, commit, max_file_bytes, hidden)
    tree.walk()
    return tree
