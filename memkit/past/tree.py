"""A revision as a listing: the same rules as for a folder say which files there are, and nothing is checked out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from memkit.errors import refused
from memkit.formats.disk.files import (
    HEAD_BYTES,
    MAX_FILE_BYTES,
    SKIPPED_FOLDERS,
    SKIPPED_WITH,
    Content,
    Listing,
    Stat,
    is_hidden,
)
from memkit.formats.rows import Rows
from memkit.past.log import Change
from memkit.past.repository import Commit, Repository

MOST_PATHS = 500_000
"""Files and folders of a revision; a tree of a few hundred bytes can have any number of them."""
_FOLDER, _LINK, _MODULE = b"40000", b"120000", b"160000"
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_MOST_LINKS = 40

Entry = tuple[bytes, bytes]
"""Mode and id of a name in a tree."""


def entries(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Mode, name and id of each entry of a tree object; what is cut off ends them."""
    at, end = 0, len(data)
    while at < end:
        blank = data.find(b" ", at)
        zero = data.find(b"\0", blank)
        if blank < 0 or zero < 0:
            return
        yield data[at:blank], data[blank + 1 : zero], data[zero + 1 : zero + 21]
        at = zero + 21


class Tree(Listing):
    """The files of one commit below a folder, by the rules of `list_files`."""

    def __init__(self, root: Path, repository: Repository, commit: Commit, max_file_bytes: int) -> None:
        super().__init__(root, max_file_bytes, revision=commit.facts)
        self.commit, self.repository = commit, repository
        self.blobs: dict[str, bytes] = {}
        self.modules: list[str] = []
        self.is_too_large = self.is_same_files = False
        self.hidden: set[str] = set()
        self._base: Entry | None = None
        self._parsed: dict[bytes, dict[bytes, Entry]] = {}

    def walk(self) -> None:
        """List the files; trees are asked for a level at a time, and each of them once."""
        self._base = self._at(self.repository.prefix)
        found: dict[str, Entry] = {}
        if self._base is None:
            if not self.root.exists():
                raise refused(self.root, "a folder or file", "nothing there")
        elif self._base[0] == _FOLDER:
            self._walk(self._base[1], found)
        else:
            found[self.root.name] = self._base
            self.root = self.root.parent
        named: dict[str, bytes] = {}
        for raw, (mode, id) in found.items():
            if mode == _LINK:
                self.links[self.shown(raw)] = self._led(raw) is not None
            elif mode == _MODULE:
                self.modules.append(self.shown(raw))
            else:
                named[raw] = id
        self.settle(dict.fromkeys(named))
        self.blobs = {path: named[self.raw_names.get(path, path)] for path in self.files}

    def _walk(self, tree: bytes, found: dict[str, Entry]) -> None:
        level, count = [("", tree)], 0
        while level:
            trees = self.repository.trees([id for _, id in level])
            below: list[tuple[str, bytes]] = []
            for folder, id in level:
                data = trees.get(id)
                if data is None:
                    self.unreadable[self.shown(folder[:-1])] = "a tree that is not here"
                    continue
                for mode, name, own in self._kept(folder, data):
                    path = folder + name
                    if mode == _FOLDER:
                        below.append((f"{path}/", own))
                    else:
                        found[path] = mode, own
                    count += 1
                if count > MOST_PATHS:
                    self.is_too_large = True
                    found.clear()
                    self.folders.clear()
                    return
            self.folders += [self.shown(path[:-1]) for path, _ in below]
            level = below

    def _kept(self, folder: str, data: bytes) -> Iterator[tuple[bytes, str, bytes]]:
        """The entries of a tree that a folder's listing would have."""
        found = [(mode, name.decode("utf-8", "surrogateescape"), id) for mode, name, id in entries(data)]
        if folder and not SKIPPED_WITH.isdisjoint(name for _, name, _ in found):
            self.hidden.add(folder)
            return
        for mode, name, id in found:
            if (
                name
                and "/" not in name
                and not is_hidden(folder + name)
                and (mode != _FOLDER or name not in SKIPPED_FOLDERS)
            ):
                yield mode, name, id

    def step(self, commit: Commit, changes: Iterable[Change]) -> set[str] | None:
        """Go on to the next commit: the paths that are other than before; None where all has to be listed again."""
        self.commit, self.revision = commit, commit.facts
        self.is_same_files, changed = True, set[str]()
        above = b"".join(name + b"/" for name in self.repository.prefix)
        for name, mode, id in changes:
            raw = name.removeprefix(above).decode("utf-8", "surrogateescape")
            *folders, last = raw.split("/")
            if last in SKIPPED_WITH or (not name.startswith(above) and self.repository.prefix):
                return None
            if is_hidden(raw) or any(part in SKIPPED_FOLDERS for part in folders):
                continue
            if self.hidden and any(raw.startswith(folder) for folder in self.hidden):
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

    def _at(self, names: Iterable[bytes]) -> Entry | None:
        """Mode and id of what lies at the end of `names` below the top of the tree."""
        mode, id = _FOLDER, self.commit.tree
        for name in names:
            here = self._entries(id) if mode == _FOLDER else {}
            if name not in here:
                return None
            mode, id = here[name]
        return mode, id

    def _entries(self, id: bytes) -> dict[bytes, Entry]:
        if id not in self._parsed:
            data = self.repository.trees([id]).get(id, b"")
            self._parsed[id] = {name: (mode, own) for mode, name, own in entries(data)}
        return self._parsed[id]

    def _led(self, path: str) -> str | None:
        """Where a path leads, links followed as far as they are there; None where it leaves the root, or in circles."""
        rest, done, links = path.split("/"), list[str](), 0
        while rest:
            name = rest.pop(0)
            if name == ".." and not done:
                return None
            if name in ("", ".", ".."):
                del done[len(done) - (name == "..") :]
                continue
            found = self._below([*done, name])
            if found is None or found[0] != _LINK:
                done.append(name)
                continue
            content = next(self.repository.objects([found[1].hex()], HEAD_BYTES))
            target = content[1].decode("utf-8", "surrogateescape") if content else "/"
            links += 1
            if target.startswith("/") or links > _MOST_LINKS:
                return None
            rest = target.split("/") + rest
        return "/".join(done)

    def _below(self, names: Iterable[str]) -> Entry | None:
        """Mode and id of what lies there below the root."""
        return self._at((*self.repository.prefix, *(name.encode("utf-8", "surrogateescape") for name in names)))

    def unlisted(self, path: str, home: str) -> str | None:
        """As for a folder: hidden files are in the tree as well, and links lead to others."""
        end = self._led(path)
        if end is None or (home and not end.startswith(f"{home}/")):
            return ""
        found = self._below(end.split("/"))
        if found is None or found[0] in (_LINK, _MODULE, _FOLDER):
            return None
        self.blobs[end] = found[1]
        self.files.setdefault(end, None)
        return end

    def stat(self, path: str) -> Stat | None:
        """The content's id, which tells a change as a time would."""
        id = self.blobs.get(path)
        return None if id is None else (-1, int.from_bytes(id[:7]), int.from_bytes(id[7:14]))

    def bare(self) -> Tree:
        """Itself: no other process has its git."""
        return self

    def expect(self, paths: Iterable[str]) -> None:
        """These are asked for together, some at a time, as the first of them is."""
        self.repository.expect(self.blobs[path] for path in paths if path in self.blobs)

    def content(self, path: str) -> Content:
        """The bytes of a file, or the first of one that is too large; raises OSError where git cannot give them."""
        size, data = self.repository.content(self.blobs[path], self.max_file_bytes)
        if size < 0:
            raise OSError(0, "an object that is not here, as in a partial clone, or is damaged")
        if data.startswith(_LFS):
            raise OSError(0, "a pointer of git LFS, whose file is not in the repository")
        return (size, *(self.stat(path) or (0, 0, 0))[1:]), data

    def report(self, rows: Rows) -> None:
        """Add a problem for every oddity of the tree."""
        super().report(rows)
        for path in self.modules:
            rows.problem("unclaimed", path, "Markdown, JSON or YAML", "a submodule", quote=False)
        if self.is_too_large:
            rows.problem("too_many_files", ".", f"at most {MOST_PATHS} files and folders", "more", quote=False)


def tree_of(repository: Repository, root: Path, commit: Commit, max_file_bytes: int = MAX_FILE_BYTES) -> Tree:
    """The listing of `root` in a commit."""
    tree = Tree(root.resolve(), repository, commit, max_file_bytes)
    tree.walk()
    return tree
