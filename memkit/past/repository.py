"""A git repository as input: its objects, read by the program `git` without anything of the repository being run.

Git is told that a *shadow* is the repository: a temporary folder with memkit's own ``config``, which takes only the
objects from the real one. So no foreign setting, hook, attribute, alias or replacement is ever seen. Branches and tags
are read here, as files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

from memkit.errors import FormatError, MemkitError, NotFoundError, ParameterError
from memkit.formats.disk.files import HEAD_BYTES
from memkit.params import as_of_time
from memkit.past.refs import Refs, git_dir_of

TIMEOUT_S = 60.0
"""Seconds after which git is stopped, whatever it does."""
_MOST_MEMORY = 512 * 2**20
"""Bytes of addresses that git may have: objects that unpack to more than that end it."""
_HELD_BYTES = 8 * 2**20
_TREE_BYTES = 64 * 2**20
_CONFIG = """[core]
repositoryformatversion = 0
bare = true
commitGraph = false
multiPackIndex = false
packedGitLimit = 128m
packedGitWindowSize = 32m
bigFileThreshold = 16m
"""
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}
"""What git is told so that it reads no settings of anybody, asks nothing and fetches nothing."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?", re.DOTALL)
_REVISION = re.compile(r"([^\s~^:@{}\\?*\[\x00-\x20\x7f]*|@)((?:[~^]\d{0,9})*)")
_COMMITTER = re.compile(rb"^committer .*> (-?\d{1,15}) [-+]\d{4}$", re.MULTILINE)
_TREE = re.compile(rb"tree ([0-9a-f]{40})\n")


Object = tuple[str, bytes]
"""Id and content."""
Sized = tuple[int, bytes]
"""Size and content."""


@dataclass(frozen=True)
class Commit:
    """A commit: its id, its tree's, and when it was made."""

    id: str
    tree: bytes
    committed_at: datetime

    @property
    def facts(self) -> dict[str, str]:
        """What stands in the metadata of all that was read of it."""
        return {"revision": self.id, "revision_at": self.committed_at.isoformat(), "revision_path": "first parent"}


class GitError(MemkitError):
    """Git stopped, or was stopped, before it was done."""


class TooManyFilesError(GitError):
    """A commit has more files than anybody keeps."""


@contextmanager
def opened(folder: Path, timeout_s: float = TIMEOUT_S) -> Iterator[Repository]:
    """The repository that `folder` lies in, for as long as the block runs.

    Raises
    ------
    MemkitError, FormatError
        Where git is not there; where `folder` is in no repository, or in one whose objects may not be read.
    """
    if sys.platform == "win32":
        raise MemkitError("rev, dates and history are not made for Windows yet. mk.read(folder) is.")
    program = shutil.which("git")
    if program is None:
        raise MemkitError("rev, dates and history need the program git, which is not here. mk.read(folder) does not.")
    git_dir, prefix = git_dir_of(folder)
    with TemporaryDirectory(prefix="memkit-git-") as shadow:
        repository = Repository(program, git_dir, prefix, Path(shadow), timeout_s)
        try:
            yield repository
        finally:
            repository.close()


class Repository:
    """Objects by id, and commits by what people call them. Made by `opened`.

    Attributes
    ----------
    prefix : tuple of bytes
        The names that lead from the top to the folder that was asked for.
    """

    def __init__(self, program: str, git_dir: Path, prefix: tuple[bytes, ...], shadow: Path, timeout_s: float) -> None:
        self.prefix, self._program, self._git_dir, self._shadow = prefix, program, git_dir, shadow
        self._processes: list[subprocess.Popen[bytes]] = []
        self._batch: subprocess.Popen[bytes] | None = None
        self._timeout_s, self.is_late = timeout_s, False
        self._refs, self._trees = Refs(git_dir), dict[bytes, bytes]()
        self.expect(())
        self._lay_out()
        self._timer = Timer(timeout_s, self._stop)
        self._timer.daemon = True
        self._timer.start()

    def _lay_out(self) -> None:
        for name in ("objects", "refs"):
            (self._shadow / name).mkdir()
        (self._shadow / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        (self._shadow / "config").write_text(_CONFIG, encoding="ascii")
        shallow = self._refs.read("shallow")
        if shallow:
            (self._shadow / "shallow").write_text(shallow, encoding="ascii", errors="ignore")

    @cached_property
    def is_shallow(self) -> bool:
        """Whether its older commits are not here."""
        return (self._shadow / "shallow").exists()

    def _stop(self) -> None:
        self.is_late = True
        for process in list(self._processes):
            process.kill()

    def close(self) -> None:
        """End git."""
        self._timer.cancel()
        for process in self._processes:
            _end(process)

    def start(self, *arguments: str | bytes) -> subprocess.Popen[bytes]:
        """Git under way, with nothing of the user's or the repository's settings, and bounded memory."""
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        places = {"GIT_DIR": str(self._shadow), "GIT_OBJECT_DIRECTORY": str(self._git_dir / "objects")}
        process = subprocess.Popen(
            [self._program, "--no-pager", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._shadow,
            env={**kept, **ENVIRONMENT, **places, "HOME": str(self._shadow)},
            bufsize=2**18,
        )
        self._processes.append(process)
        _bound(process)
        if self.is_late:
            process.kill()
        return process

    def commit(self, rev: str) -> Commit:
        """The commit that `rev` means.

        Raises
        ------
        NotFoundError, ParameterError
            Where there is none; where `rev` is nothing that could mean one.
        """
        return self._up_to(as_of_time(rev)) if _DAY.fullmatch(rev) else self._named(rev)

    def _up_to(self, moment: datetime) -> Commit:
        head, seconds = self._refs.id_of("HEAD"), int(moment.timestamp() // 1)
        how = ("rev-list", "--first-parent", "--max-count=1", f"--min-age={max(seconds, 0)}", head)
        found = next(self.tokens(*how, end=b"\n"), b"").decode() if seconds >= 0 else ""
        if not found:
            more = ", as far as this shallow clone goes" if self.is_shallow else ""
            raise NotFoundError(f"rev: nothing was committed up to {moment.isoformat()}{more}.")
        return self._commit(found)

    def tokens(self, *arguments: str | bytes, end: bytes = b"\0") -> Iterator[bytes]:
        """What git prints, cut at `end`."""
        process, left = self.start(*arguments), b""
        while chunk := _out(process).read1(2**18):
            *whole, left = (left + chunk).split(end)
            yield from whole
        if left:
            yield left
        if process.wait():
            raise self.failed()

    def _named(self, rev: str) -> Commit:
        match = _REVISION.fullmatch(rev)
        if not rev or match is None or ".." in rev or rev.startswith("-"):
            expected = "a commit, branch or tag, with ~N or ^N after it, or a date"
            raise ParameterError(f"rev: expected {expected}. Got {rev!r:.200}.")
        return self._commit(self._refs.id_of(match[1]) + match[2], rev)

    def _commit(self, name: str, asked: str = "") -> Commit:
        """The commit of an expression that begins with an id."""
        found = next(iter(self.objects([f"{name}^{{commit}}"])))
        if found is None:
            raise NotFoundError(f"rev: expected a commit that is here. Got {asked or name!r:.200}.")
        id, data = found
        head = data.partition(b"\n\n")[0]
        tree, made = _TREE.match(head), _COMMITTER.search(head)
        if tree is None or made is None:
            raise FormatError(f"commit {id}: expected a tree and a committer with a time. Got another text.")
        return Commit(id, bytes.fromhex(tree[1].decode()), time_of(int(made[1])))

    def trees(self, ids: list[bytes]) -> dict[bytes, bytes]:
        """Tree objects by id, each asked for once; those that are not there are left out."""
        wanted = [id for id in dict.fromkeys(ids) if id not in self._trees]
        found = zip(wanted, self.objects([id.hex() for id in wanted], _TREE_BYTES), strict=True)
        self._trees |= {id: each[1] for id, each in found if each}
        return {id: self._trees[id] for id in ids if id in self._trees}

    def objects(self, names: list[str], most: int | None = None) -> Generator[Object | None]:
        """Id and content of each object in turn; None where it is not here or damaged, or of more than `most` bytes."""
        for start in range(0, len(names), _AT_ONCE):
            asked = names[start : start + _AT_ONCE]
            while asked:
                done = 0
                for found in self._answers(asked, most):
                    yield found
                    done += 1
                asked = asked[done:]

    def _answers(self, asked: list[str], most: int | None) -> Iterator[Object | None]:
        """As many answers as one process gives: what is too large or damaged ends it, and so does who asks no more."""
        process = self._batch = self._batch or self.start("cat-file", "--batch")
        _ask(process, asked)
        is_well, left = True, len(asked)
        try:
            while left and is_well:
                is_well, found = _answer(process, most)
                left -= 1
                if self.is_late:
                    raise self.failed()
                yield found
        finally:
            if left or not is_well:
                self._batch = None
                self._let_go(process)

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        _end(process)
        self._processes.remove(process)

    def expect(self, ids: Iterable[bytes]) -> None:
        """The contents that are asked for next, in about this order: some are fetched together."""
        self._expected = list(dict.fromkeys(ids))
        self._places = {id: at for at, id in enumerate(self._expected)}
        self._next, self._held = 0, dict[bytes, Sized]()

    def content(self, id: bytes, most: int) -> Sized:
        """Size and content of an object, or the beginning of one of more than `most` bytes.

        A size below 0 is one that is not here, or damaged.
        """
        at = self._places.get(id, -1)
        if id not in self._held and at >= self._next:
            self._hold(self._expected[at : at + _AT_ONCE], most)
            self._next = at + len(self._held)
        return self._held[id] if id in self._held else self._sized(id, next(self.objects([id.hex()], most)), most)

    def _hold(self, ids: list[bytes], most: int) -> None:
        """Have the first of these contents at hand, as far as there is room; what was held goes."""
        self._held.clear()
        answers, room = self.objects([id.hex() for id in ids], most), _HELD_BYTES
        for id, found in zip(ids, answers, strict=True):
            self._held[id] = self._sized(id, found, most)
            room -= len(self._held[id][1])
            if room < 0:
                break
        answers.close()

    def _sized(self, id: bytes, found: Object | None, most: int) -> Sized:
        if found:
            return len(found[1]), found[1]
        process = self.start("cat-file", "--batch")
        _ask(process, [id.hex()])
        header = _out(process).readline().split()
        size = int(header[2]) if len(header) == 3 and header[2].isdigit() else -1
        data = _out(process).read(min(size, HEAD_BYTES)) if size > most else b""
        self._let_go(process)
        return (size, data) if data else (-1, b"")

    def failed(self) -> GitError:
        """Why git gave no more."""
        if self.is_late:
            return GitError(f"git did not end within {self._timeout_s:g} s, and was stopped.")
        return GitError("git ended before it was done: the repository is damaged, or asks for too much memory.")


_AT_ONCE = 250
"""Objects that are asked for before the first answer is read: their names fit into a pipe."""


def _out(process: subprocess.Popen[bytes]) -> BufferedReader:
    assert isinstance(process.stdout, BufferedReader)  # as `start` made it
    return process.stdout


def _ask(process: subprocess.Popen[bytes], names: list[str]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # it has ended, which the answer shows
        process.stdin.write("".join(f"{name}\n" for name in names).encode())
        process.stdin.flush()


def _answer(process: subprocess.Popen[bytes], most: int | None) -> tuple[bool, Object | None]:
    """Whether more can be asked of the process, and id and content of an object, if it is here."""
    header = _out(process).readline().split()
    if len(header) != 3 or not header[2].isdigit():
        return bool(header), None
    size = int(header[2])
    if most is not None and size > most:
        return False, None
    data = _out(process).read(size + 1)
    return (True, (header[0].decode(), data[:size])) if len(data) > size else (False, None)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(OSError):  # what was not written goes with it
                pipe.close()
    process.wait()


def _bound(process: subprocess.Popen[bytes]) -> None:
    """Bound the memory of a process, where the system can."""
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):  # it has ended
            resource.prlimit(process.pid, resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


def time_of(seconds: int) -> datetime:
    """A commit's time; one that no calendar has is that of the first second."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)
