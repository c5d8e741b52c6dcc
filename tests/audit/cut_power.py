"""Cuts the power and kills at every step of a change: ``python tests/audit/cut_power.py [cuts] [kills] [seed]``."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from memkit.change import disk as disk_module
from memkit.change import journal as journal_module
from memkit.change.disk import Disk
from memkit.change.journal import Change, opened
from memkit.errors import MemkitError

OLD = {
    "memory/index.json": b'{"old": 1}\n',
    "memory/lessons/index.json": b"\xef\xbb\xbf[]\r\n",
    "memory/lessons/note.md": "# Заметка\r\nбез конца".encode(),
    "users/anna/working.md": "- старое\n".encode() * 40,
}
NEW = {
    "memory/index.json": b'{"new": 2}\n',
    "memory/lessons/index.json": b'["note/index.md"]\n',
    "memory/lessons/note/part1.md": "# Заметка\n".encode(),
    "memory/lessons/note/deep/part2.md": "ещё\n".encode() * 99,
    "memory/lessons/note/index.md": b"---\nparts: [part1.md]\n---\n",
    "users/anna/working.md": b"",
    "users/boris/of/old/profile.md": "- факт\n".encode(),
}
STATE = ".memkit/"


def changes() -> list[Change]:
    return [Change(path, OLD.get(path), NEW.get(path)) for path in sorted({*OLD, *NEW})]


def visible(tree: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in tree.items() if not path.startswith(STATE)}


# --- a disk in memory whose power can be cut ---------------------------------------------------------------------


class PowerCutError(BaseException):
    """Everything after it fails too: nothing runs on a machine without power."""


@dataclass
class Op:
    """A change of names in one folder that no sync has made last yet."""

    folder: str
    gone: str | None
    name: str | None
    inode: int | None


class Ram(Disk):
    """Files whose bytes and names last only once they are synced; `skip` is the place of a sync that is left out."""

    def __init__(self, tree: dict[str, bytes], folders: set[str] | None = None, skip: object = None) -> None:
        self.root, self.skip, self.sites = Path("/ram"), skip, set[object]()
        self.data: dict[int, bytes] = {}
        self.lasting: dict[int, bytes] = {}
        self.folders: dict[str, dict[str, int]] = {"": {}}
        self.waiting: list[Op] = []
        self.steps, self.last = 0, -1
        self._inode = 0
        for path in sorted(folders or ()):
            self._folder(path)
        for path, data in tree.items():
            folder, name = self._folder(path.rpartition("/")[0]), path.rpartition("/")[2]
            self._inode += 1
            self.data[self._inode] = self.lasting[self._inode] = data
            self.folders[folder][name] = self._inode
        self.disk = {folder: dict(names) for folder, names in self.folders.items()}

    def _folder(self, path: str) -> str:
        if path not in self.folders:
            above, _, name = path.rpartition("/")
            self.folders[self._folder(above)][name] = 0
            self.folders[path] = {}
        return path

    def _step(self) -> None:
        if self.steps == self.last:
            raise PowerCutError
        self.steps += 1

    def _find(self, path: str) -> int | None:
        if path == "":
            return 0
        folder, _, name = path.rpartition("/")
        return self.folders.get(folder, {}).get(name)

    def read(self, path: str) -> bytes | None:
        inode = self._find(path)
        return self.data[inode] if inode else None

    def status(self, path: str) -> Any:
        inode = self._find(path)
        if inode is None:
            return None
        mode = (stat.S_IFREG | 0o644) if inode else (stat.S_IFDIR | 0o755)
        return SimpleNamespace(st_mode=mode, st_uid=0, st_gid=0)

    def names(self, folder: str) -> list[str]:
        return sorted(self.folders.get(folder, ()))

    def _put(self, folder: str, old_name: str | None, name: str | None, inode: int | None) -> None:
        if old_name is not None:
            del self.folders[folder][old_name]
        if name is not None and inode is not None:
            self.folders[folder][name] = inode
        self.waiting.append(Op(folder, old_name, name, inode))

    def write(self, path: str, data: bytes, like: Any = None) -> None:
        self._step()
        folder, _, name = path.rpartition("/")
        if name in self.folders[folder]:
            raise FileExistsError(errno.EEXIST, path)
        self._inode += 1
        self.data[self._inode] = data
        self._put(folder, None, name, self._inode)

    def sync(self, path: str) -> None:
        self._step()
        inode = self._find(path)
        if not self._is_skipped() and inode:
            self.lasting[inode] = self.data[inode]

    def sync_folder(self, folder: str) -> None:
        self._step()
        if self._is_skipped():
            return
        for op in self.waiting:
            if op.folder == folder:
                self._last(self.disk, op)
        self.waiting = [op for op in self.waiting if op.folder != folder]

    def _is_skipped(self) -> bool:
        site, frame = [], sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename in (journal_module.__file__, disk_module.__file__):
                site.append(frame.f_lineno)
                if frame.f_code.co_name != "_sync_folders":
                    break
            frame = frame.f_back  # type: ignore[assignment]
        self.sites.add(tuple(site))
        return tuple(site) == self.skip

    @staticmethod
    def _last(disk: dict[str, dict[str, int]], op: Op) -> None:
        names = disk.setdefault(op.folder, {})
        if op.gone is not None:
            names.pop(op.gone, None)
        if op.name is not None and op.inode is not None:
            names[op.name] = op.inode

    def rename(self, path: str, to: str) -> None:
        self._step()
        folder, _, name = path.rpartition("/")
        other, _, target = to.rpartition("/")
        assert folder == other, "a rename across folders is not one step on every disk"
        self._put(folder, name, target, self.folders[folder][name])

    def remove(self, path: str) -> None:
        self._step()
        folder, _, name = path.rpartition("/")
        self._put(folder, name, None, None)

    def make_folder(self, path: str) -> None:
        self._step()
        folder, _, name = path.rpartition("/")
        if name in self.folders[folder]:
            raise FileExistsError(errno.EEXIST, path)
        self._put(folder, None, name, 0)
        self.folders[path] = {}

    def make_private(self, folder: str) -> None:
        """Nothing: a mode is no content."""

    def remove_folder(self, path: str) -> None:
        self._step()
        folder, _, name = path.rpartition("/")
        assert not self.folders.pop(path)
        self._put(folder, name, None, None)

    @contextmanager
    def locked(self, patience: float = 0) -> Iterator[None]:
        self._prepare()
        yield

    def tree(self) -> dict[str, bytes]:
        return {
            f"{folder}/{name}".removeprefix("/"): self.data[inode]
            for folder, names in self.folders.items()
            for name, inode in names.items()
            if inode
        }

    def bare(self) -> set[str]:
        return {folder for folder in self.folders if folder and not folder.startswith(STATE[:-1])}

    def after_cut(self, chance: random.Random) -> Ram:
        """The disk that is found when the power is back: what was not synced may be there, cut, or not."""
        disk = {folder: dict(names) for folder, names in self.disk.items()}
        style = chance.randrange(3)
        n_kept = chance.randrange(len(self.waiting) + 1)
        for place, op in enumerate(self.waiting):
            if (style == 0 and place < n_kept) or (style == 1 and chance.random() < 0.5):
                self._last(disk, op)
        tree: dict[str, bytes] = {}
        folders: set[str] = set()
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            for name, inode in disk.get(folder, {}).items():
                path = f"{folder}/{name}".removeprefix("/")
                if inode == 0:
                    folders.add(path)
                    waiting.append(path)
                else:
                    tree[path] = self._content(inode, chance)
        return Ram(tree, folders, self.skip)

    def _content(self, inode: int, chance: random.Random) -> bytes:
        now, lasting = self.data[inode], self.lasting.get(inode)
        if lasting == now:
            return now
        return chance.choice([now, lasting or b"", now[: chance.randrange(len(now) + 1)]])


def apply_on(disk: Disk) -> None:
    with opened(disk.root, disk=lambda root: disk) as journal:
        journal.apply(changes(), {})


def undo_on(disk: Disk) -> None:
    with opened(disk.root, disk=lambda root: disk) as journal:
        journal.undo()


def settle_on(disk: Disk) -> None:
    with opened(disk.root, disk=lambda root: disk):
        pass


@cache
def steps_of(work: Callable[[Disk], None]) -> int:
    disk = Ram(OLD)
    if work is undo_on:
        apply_on(disk)
    before = disk.steps
    work(disk)
    return disk.steps - before


def one_cut(seed: int, skip: object = None) -> tuple[str, set[object]]:
    """A change, or its undoing, with a cut at some step and perhaps one more in what follows: what is wrong, or ''."""
    chance = random.Random(seed)
    disk, work, wanted = Ram(OLD, skip=skip), apply_on, (OLD, NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if chance.random() < 0.5:
            work(disk)
            changed = Ram(disk.tree(), set(disk.folders), skip) if chance.random() < 0.5 else disk
            disk, work, wanted = changed, undo_on, (NEW, OLD)
        sites = disk.sites
        total = steps_of(work) + 1
        low = total - 8 if chance.random() < 0.3 else 0
        disk.steps, disk.last = 0, chance.randrange(low, total)
        finished = False
        try:
            work(disk)
            finished = True
        except PowerCutError:
            pass
        left_over = disk.after_cut(chance)
        if finished and chance.random() < 0.7:  # somebody edits on after the cut; nothing may be said of it
            if visible(left_over.tree()) != wanted[1]:
                return "a change that was done is lost", sites
            left_over.data[left_over._find("memory/index.json")] = b"theirs"  # type: ignore[index]
            try:
                settle_on(left_over)
            except Warning as warning:
                return f"said of a change that was done: {warning}", sites | left_over.sites
            return "", sites | left_over.sites
        if chance.random() < 0.6:
            left_over.last = chance.randrange(30)
            with suppress(PowerCutError):
                settle_on(left_over)
            sites = sites | left_over.sites
            left_over = left_over.after_cut(chance)
        return _fault(left_over, wanted, finished), sites | left_over.sites


def _fault(disk: Ram, wanted: tuple[dict[str, bytes], dict[str, bytes]], finished: bool) -> str:
    try:
        settle_on(disk)
    except (Warning, MemkitError) as error:
        return f"recovery: {error}"
    tree = visible(disk.tree())
    if tree not in wanted:
        return f"neither old nor new: {sorted(tree)}"
    if finished and tree != wanted[1]:
        return "a change that was done is lost"
    folders = {"/".join(path.split("/")[:end]) for path in tree for end in range(1, path.count("/") + 1)}
    if disk.bare() != folders:
        return f"stray folders: {disk.bare() ^ folders}"
    if stray := [path for path in disk.tree() if path.startswith(STATE) and not path.endswith((".done", ".gitignore"))]:
        return f"stray files: {stray}"
    finished_changes = [path for path in disk.tree() if path.endswith(".done")]
    if len(finished_changes) != (tree == NEW):
        return f"the journal has {len(finished_changes)} changes where the tree is {'new' if tree == NEW else 'old'}"
    return ""


# --- a real disk, with a step that kills or fails ------------------------------------------------------------------


class Falling(Disk):
    """A real disk whose step `last` kills the process, or raises `error`: before, after or half-way.

    It syncs nothing, as that outlives neither: only a power cut loses what was not synced.
    """

    def __init__(self, root: Path, last: int = -1, when: str = "before", error: BaseException | None = None) -> None:
        super().__init__(root)
        self.steps, self.last, self.when, self.error = 0, last, when, error

    def _fall(self) -> None:
        if self.error is not None:
            raise self.error
        os.kill(os.getpid(), signal.SIGKILL)

    def write(self, path: str, data: bytes, like: Any = None) -> None:
        if self.steps == self.last and self.when == "half":
            super().write(path, data[: len(data) // 2], like)
            self._fall()
        self._around(super().write, path, data, like)

    def _around(self, call: Callable[..., None], *args: Any) -> None:
        now = self.steps == self.last
        self.steps += 1
        if now and self.when == "before":
            self._fall()
        call(*args)
        if now and self.when == "after":
            self._fall()

    def sync(self, path: str) -> None:
        self._around(lambda: None)

    def sync_folder(self, folder: str) -> None:
        self._around(lambda: None)

    def rename(self, path: str, to: str) -> None:
        self._around(super().rename, path, to)

    def remove(self, path: str) -> None:
        self._around(super().remove, path)

    def make_folder(self, path: str) -> None:
        self._around(super().make_folder, path)

    def remove_folder(self, path: str) -> None:
        self._around(super().remove_folder, path)


def write_tree(root: Path, tree: dict[str, bytes]) -> Path:
    for path, data in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def read_tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def strays(root: Path) -> list[str]:
    """What is there beside the old or the new tree, memkit's lock, its journal and its .gitignore."""
    names = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    tree = visible(read_tree(root))
    folders = {"/".join(path.split("/")[:end]) for path in tree for end in range(1, path.count("/") + 1)}
    journal = {".memkit", ".memkit/lock", ".memkit/journal", ".memkit/.gitignore"}
    return sorted(name for name in names - tree.keys() - folders - journal if not name.endswith(".done"))


def state_of(root: Path) -> str:
    """old, new, or what is wrong, once what was left is settled."""
    settle_on(Disk(root))
    tree = visible(read_tree(root))
    word = "old" if tree == OLD else "new" if tree == NEW else f"a mix: {sorted(tree)}"
    return f"{word} with {remains}" if (remains := strays(root)) else word


def one_kill(seed: int, folder: Path) -> str:
    """A change in a child that kills itself at some step, sometimes also within the recovery: what is wrong, or ''."""
    chance = random.Random(seed)
    root = write_tree(folder / str(seed), OLD)
    work = apply_on
    if chance.random() < 0.3:
        apply_on(Disk(root))
        work = undo_on
    _in_child(work, root, chance.randrange(50), chance.choice(["before", "after", "half"]))
    if chance.random() < 0.5:
        _in_child(settle_on, root, chance.randrange(25), chance.choice(["before", "after"]))
    state = state_of(root)
    shutil.rmtree(root)
    return "" if state in ("old", "new") else state


def _in_child(work: Callable[[Disk], None], root: Path, last: int, when: str) -> None:
    child = os.fork()
    if not child:
        try:
            work(Falling(root, last, when))
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def main(cuts: int = 10_000, kills: int = 1_000, seed: int = 0) -> int:
    """Print what was wrong, and how often nothing was."""
    bad = [(n, fault) for n in range(seed, seed + cuts) if (fault := one_cut(n)[0])]
    print(f"{cuts} power cuts, {len(bad)} bad", *bad[:5], sep="\n  ")
    with tempfile.TemporaryDirectory() as folder:
        worse = [(n, fault) for n in range(seed, seed + kills) if (fault := one_kill(n, Path(folder)))]
    print(f"{kills} kills, {len(worse)} bad", *worse[:5], sep="\n  ")
    sites = set().union(*(one_cut(n)[1] for n in range(500)))
    for site in sorted(sites):
        cut = next((n for n in range(5_000) if one_cut(n, site)[0]), None)
        print(f"without the sync at {site}: {'never bad' if cut is None else one_cut(cut, site)[0]} (cut {cut})")
    return bool(bad or worse)


TINY = "5 2"


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
