"""A git repository as input: its objects, read by the program `git` without anything of the repository being run.

Git is told that a *shadow* is the repository: a temporary folder with memkit's own ``config``, which takes only the
objects from the real one. So no foreign setting, hook, attribute, alias or replacement is ever seen. Branches and tags
are read here, as files (`Refs`): git itself would follow its own settings. `log` gives the commits, oldest first.
`write_commits` makes a repository of a few commits, as an example.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

from memkit.base.params import path_of
from memkit.errors import FormatError, MemkitError, NotFoundError, ParameterError, did_you_mean, refused
from memkit.extend import Moment
from memkit.extend.showing import as_of_time
from memkit.extend.writing import AsOf
from memkit.formats.disk.files import HEAD_BYTES, is_inside, read_bytes

# A history of 2,656 large commits took 2.4 s; one that never ends must end.
TIMEOUT_S = 60.0
"""Seconds after which git is stopped, whatever it does."""
# A file of 220 KB unpacked to 1.45 GB in 8 s.
_MOST_MEMORY = 512 * 2**20
"""The address space that git may use, in bytes: objects that unpack to more end it."""
_HELD_BYTES = 8 * 2**20
# A tree has some 40 bytes a file, so this is one of over a million.
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
"""The environment in which git reads no settings, asks nothing and fetches nothing."""
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
        """The revision, as metadata for the tables that are read from it."""
        return {"revision": self.id, "revision_at": self.committed_at.isoformat(), "revision_path": "first parent"}


class GitError(MemkitError):
    """Git stopped, or was stopped, before it was done."""


class TooManyFilesError(GitError):
    """A commit has more files than memkit reads."""


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
    git_dir, head_dir, prefix = git_dirs_of(folder)
    with TemporaryDirectory(prefix="memkit-git-") as shadow:
        repository = Repository(program, git_dir, head_dir, prefix, Path(shadow), timeout_s)
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

    def __init__(
        self,
        program: str,
        git_dir: Path,
        head_dir: Path,
        prefix: tuple[bytes, ...],
        shadow: Path,
        timeout_s: float,
    ) -> None:
        self.prefix, self._program, self._git_dir, self._shadow = prefix, program, git_dir, shadow
        self._processes: list[subprocess.Popen[bytes]] = []
        self._batch: subprocess.Popen[bytes] | None = None
        self._timeout_s, self.is_late = timeout_s, False
        self._refs, self._trees = Refs(git_dir, head_dir), dict[bytes, bytes]()
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
        """Whether the clone is shallow, without its older commits."""
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
        """Start git without settings of the user or the repository, and with bounded memory."""
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        places = {"GIT_DIR": str(self._shadow), "GIT_OBJECT_DIRECTORY": str(self._git_dir / "objects")}
        process = subprocess.Popen(
            [self._program, "--no-pager", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._shadow,
            env={**kept, **ENVIRONMENT, **places, "HOME": str(self._shadow)},
            # Git answers in one large piece: fewer calls than with Python's 8 kB.
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
        return self._up_to(Moment.from_as_of(rev).last_visible) if _DAY.fullmatch(rev) else self._named(rev)

    def _up_to(self, moment: datetime) -> Commit:
        head, seconds = self._refs.id_of("HEAD"), int(moment.timestamp() // 1)
        how = ("rev-list", "--first-parent", "--max-count=1", f"--min-age={max(seconds, 0)}", head)
        commit_id = next(self.tokens(*how, end=b"\n"), b"").decode() if seconds >= 0 else ""
        if not commit_id:
            more = ", as far as this shallow clone goes" if self.is_shallow else ""
            raise NotFoundError(f"rev: nothing was committed up to {moment.isoformat()}{more}.")
        return self._commit(commit_id)

    def count(self, commit: str, since: datetime | None = None) -> int:
        """How many commits up to `commit` change the folder, along first parents; only those made from `since` on."""
        how = ["rev-list", "--first-parent", "--count"]
        how += [] if since is None else [f"--max-age={int(since.timestamp() // 1)}"]
        below = b"/".join(self.prefix)
        return int(next(self.tokens(*how, commit, *((b"--", below) if below else ()), end=b"\n"), b"0"))

    def tokens(self, *arguments: str | bytes, end: bytes = b"\0") -> Iterator[bytes]:
        """What git prints, cut at `end`."""
        process, remainder = self.start(*arguments), b""
        while chunk := _out(process).read1(2**18):
            *complete, remainder = (remainder + chunk).split(end)
            yield from complete
        if remainder:
            yield remainder
        if process.wait():
            raise self.failed()

    def _named(self, rev: str) -> Commit:
        match = _REVISION.fullmatch(rev)
        if not rev or match is None or ".." in rev or rev.startswith("-"):
            expected = "a commit, branch or tag, with ~N or ^N after it, or a date"
            raise ParameterError(f"rev: expected {expected}. Got {rev!r:.200}.")
        return self._commit(self._refs.id_of(match[1]) + match[2], rev)

    def _commit(self, name: str, rev: str = "") -> Commit:
        """The commit of an expression that begins with an id."""
        answer = next(iter(self.objects([f"{name}^{{commit}}"], _TREE_BYTES)))
        if answer is None:
            raise NotFoundError(f"rev: expected a commit that is here. Got {rev or name!r:.200}.")
        id, data = answer
        head = data.partition(b"\n\n")[0]
        tree, committer = _TREE.match(head), _COMMITTER.search(head)
        if tree is None or committer is None:
            raise FormatError(f"commit {id}: expected a tree and a committer with a time. Got another text.")
        return Commit(id, bytes.fromhex(tree[1].decode()), time_of(int(committer[1])))

    def trees(self, ids: list[bytes]) -> dict[bytes, bytes]:
        """Tree objects by id, each asked for once; those that are not there are left out."""
        wanted = [id for id in dict.fromkeys(ids) if id not in self._trees]
        answers = zip(wanted, self.objects([id.hex() for id in wanted], _TREE_BYTES), strict=True)
        self._trees |= {id: each[1] for id, each in answers if each}
        return {id: self._trees[id] for id in ids if id in self._trees}

    def objects(self, names: list[str], most: int | None = None) -> Generator[Object | None]:
        """Id and content of each object in turn; None where it is not here or damaged, or of more than `most` bytes."""
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            while batch:
                done = 0
                for answer in self._answers(batch, most):
                    yield answer
                    done += 1
                batch = batch[done:]

    def _answers(self, names: list[str], most: int | None) -> Iterator[Object | None]:
        """The answers of one process, which ends at an object too large or damaged, or when the caller stops."""
        process = self._batch = self._batch or self.start("cat-file", "--batch")
        _request(process, names)
        is_well, n_left = True, len(names)
        try:
            while n_left and is_well:
                is_well, answer = _answer(process, most)
                n_left -= 1
                if self.is_late:
                    raise self.failed()
                yield answer
        finally:
            if n_left or not is_well:
                self._batch = None
                self._release(process)

    def _release(self, process: subprocess.Popen[bytes]) -> None:
        _end(process)
        self._processes.remove(process)

    def expect(self, ids: Iterable[bytes]) -> None:
        """Announce the contents that are read next, in about this order, so that several are fetched together."""
        self._expected = list(dict.fromkeys(ids))
        self._places = {id: position for position, id in enumerate(self._expected)}
        self._next, self._held = 0, dict[bytes, Sized]()

    def content(self, id: bytes, most: int) -> Sized:
        """Size and content of an object, or the beginning of one of more than `most` bytes.

        A size below 0 is one that is not here, or damaged.
        """
        position = self._places.get(id, -1)
        if id not in self._held and position >= self._next:
            self._hold(self._expected[position : position + _AT_ONCE], most)
            self._next = position + len(self._held)
        return self._held[id] if id in self._held else self._sized(id, next(self.objects([id.hex()], most)), most)

    def _hold(self, ids: list[bytes], most: int) -> None:
        """Replace the contents that are held by the first of these, as many as there is room for."""
        self._held.clear()
        answers, room = self.objects([id.hex() for id in ids], most), _HELD_BYTES
        for id, answer in zip(ids, answers, strict=True):
            self._held[id] = self._sized(id, answer, most)
            room -= len(self._held[id][1])
            if room < 0:
                break
        answers.close()

    def _sized(self, id: bytes, answer: Object | None, most: int) -> Sized:
        if answer:
            return len(answer[1]), answer[1]
        process = self.start("cat-file", "--batch")
        _request(process, [id.hex()])
        header = _out(process).readline().split()
        size = int(header[2]) if len(header) == 3 and header[2].isdigit() else -1
        data = _out(process).read(min(size, HEAD_BYTES)) if size > most else b""
        self._release(process)
        return (size, data) if data else (-1, b"")

    def failed(self) -> GitError:
        """The reason why git ended early."""
        if self.is_late:
            return GitError(f"git did not end within {self._timeout_s:g} s, and was stopped.")
        return GitError("git ended before it was done: the repository is damaged, or asks for too much memory.")


_AT_ONCE = 250
"""Objects that are asked for before the first answer is read: their names fit into a pipe."""


def _out(process: subprocess.Popen[bytes]) -> BufferedReader:
    assert isinstance(process.stdout, BufferedReader)  # as `start` made it
    return process.stdout


def _request(process: subprocess.Popen[bytes], names: list[str]) -> None:
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
    """A commit's time; a time out of range becomes 1970-01-01."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


# Of `packed-refs` and of one ref's file, of which a stranger's may have any size; round bounds.
_MOST_BYTES, _MOST_NAMED = 16 * 2**20, 2**13
_HEX = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"[0-9a-f]{4,40}")


def git_dirs_of(folder: Path) -> tuple[Path, Path, tuple[bytes, ...]]:
    """The git folder, the one with HEAD (another in a linked worktree), and the path from the work tree to `folder`.

    Raises
    ------
    FormatError
        Where `folder` is in no repository, or in one whose objects may not be read.
    """
    place = folder.resolve()
    if all((place / name).is_dir() for name in ("objects", "refs")) and (place / "HEAD").is_file():
        _check(place)
        return place, place, ()
    for top in (place, *place.parents):
        git_dir = top / ".git"
        if git_dir.is_symlink() or git_dir.is_file():
            git_dir, head_dir = _of_worktree(git_dir)
        elif git_dir.is_dir():
            head_dir = git_dir
        else:
            continue
        _check(git_dir)
        return git_dir, head_dir, tuple(map(os.fsencode, place.relative_to(top).parts))
    raise refused(folder, "a folder of a git repository", "one that is in none")


def _of_worktree(link: Path) -> tuple[Path, Path]:
    """The git folder of a linked worktree, and the one within it that has the worktree's HEAD.

    A ``.git`` that is a file may name any place, and whoever made the folder may have written it. So it is followed
    only where that place names this file in return, as ``git worktree add`` has it: then the repository says that this
    is a worktree of its own.

    Raises
    ------
    FormatError
        Where it does not, as in a submodule.
    """
    written = "" if link.is_symlink() else _line_of(link)
    own = Path(os.path.normpath(link.parent / written.removeprefix("gitdir:").strip()))
    if written.startswith("gitdir:") and own.parent.name == "worktrees":
        common = own.parent.parent
        back, above = _line_of(own / "gitdir"), _line_of(own / "commondir")
        with suppress(OSError, RuntimeError, ValueError):
            is_back = bool(back) and (own / back).resolve() == link.resolve()
            if is_back and above and (own / above).resolve() == common.resolve() and is_inside(own, common.resolve()):
                return common.resolve(), own.resolve()
    got = "a link out of the root that no repository calls its worktree, as in a submodule, so it is not followed"
    raise refused(link, "a folder", f"{got}: name the git folder itself, or read a clone")


def _line_of(path: Path) -> str:
    """The text of a small regular file; empty where there is none."""
    with suppress(OSError, ValueError):
        if path.is_file() and not path.is_symlink():
            return read_bytes(str(path), _MOST_NAMED)[1].decode("utf-8", "surrogateescape").strip()
    return ""


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
    """Branches, tags and other small files of a repository; HEAD is that of a worktree where there are several."""

    def __init__(self, git_dir: Path, head_dir: Path) -> None:
        self._git_dir, self._head_dir = git_dir, head_dir

    def id_of(self, name: str) -> str:
        """The commit id of a name; an abbreviated id is returned as it is, for git to complete."""
        name = "HEAD" if name in ("", "@") else name
        for place in ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"):
            if commit_id := self._ref(place + name):
                return commit_id
        if _ABBREVIATED.fullmatch(name):
            return name
        if name == "HEAD":
            raise NotFoundError(f"rev: {self._git_dir}: expected a commit. Got a repository without any.")
        names = [ref.removeprefix("refs/").partition("/")[2] for ref in self._packed] + self._branches()
        raise NotFoundError(f"rev: expected a branch, tag or commit. Got {name!r:.200}.{did_you_mean(name, names)}")

    # Git itself follows five symbolic refs; a circle ends there.
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
        folder = self._head_dir if name == "HEAD" else self._git_dir
        path = folder / name
        with suppress(OSError, ValueError):
            if is_inside(path.parent, folder.resolve()):
                return read_bytes(str(path), _MOST_BYTES)[1].decode("utf-8", "replace")
        return None


_FORMAT = "%H%x00%T%x00%P%x00%ct%x00%at%x00%an%x00%s"
_FIELDS = 7
MOST_CHANGES = 500_000
"""The most files that one commit may change; a tree of a few hundred bytes can have any number of them."""

Change = tuple[bytes, bytes, bytes]
"""A path from the top of the repository, its mode and the id of its content afterwards; mode 000000 is gone."""


@dataclass(frozen=True)
class Logged:
    """A commit as the history shows it: author (without address), subject line, and changes."""

    commit: Commit
    parent: str | None
    authored_at: datetime
    author: str
    subject: str
    changes: list[Change]


def log(repository: Repository, commit: str, max_commits: int) -> Iterator[Logged]:
    """The last `max_commits` commits up to `commit` that change the folder, oldest first.

    The changes of a merge are those against its first parent.

    Raises
    ------
    GitError
        Where git ends or is stopped half-way, or a commit changes more than `MOST_CHANGES` files.
    """
    how = ("--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-color", "--no-notes", "--no-mailmap")
    what = ("--first-parent", "-m", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z")
    last = ("--reverse", f"--max-count={max_commits}", f"--format={_FORMAT}", commit)
    below = b"/".join(repository.prefix)
    tokens = repository.tokens("log", *how, *what, *last, *((b"--", below) if below else ()))
    token = next(tokens, None)
    while token:
        head = [token, *(next(tokens, b"") for _ in range(_FIELDS - 1))]
        changes: list[Change] = []
        for token in tokens:
            entry = token.lstrip(b"\n")
            if not entry.startswith(b":"):
                token = entry
                break
            _, mode, _, id, _ = entry.split(b" ", 4)
            changes.append((next(tokens, b""), mode, bytes.fromhex(id.decode())))
            if len(changes) > MOST_CHANGES:
                raise TooManyFilesError
        else:
            token = None
        yield _logged(head, changes)


def _logged(head: list[bytes], changes: list[Change]) -> Logged:
    id, tree, parents, committed, authored, author, subject = head
    commit = Commit(id.decode(), bytes.fromhex(tree.decode()), time_of(int(committed or 0)))
    parent = parents.decode().partition(" ")[0] or None
    who, what = (word.decode("utf-8", "replace") for word in (author, subject))
    return Logged(commit, parent, time_of(int(authored or 0)), who, what, changes)


def write_commits(folder: str | Path, states: Iterable[tuple[AsOf, Mapping[str, str | bytes | None]]]) -> Path:
    """Make a git repository of a few commits with given dates, so that an example of a history fits in one expression.

    Parameters
    ----------
    folder : str or Path
        Created if missing; it must not be a repository yet.
    states : sequence of pairs
        When a commit was made, and its files by path: the content, or None to delete the file. A file that is not named
        stays as it was.

    Returns
    -------
    Path

    Raises
    ------
    MemkitError
        Where git is not installed, or cannot make a repository there.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> root = write_commits(tempfile.mkdtemp(), [("2026-01-05", {"a.md": "# Чай"}), ("2026-01-06", {"a.md": None})])
    >>> mk.read(root, rev="2026-01-05").memories["title"].to_pylist(), mk.read(root).memories.num_rows
    (['Чай'], 0)
    """
    root = path_of("write_commits", folder)
    root.mkdir(parents=True, exist_ok=True)
    stream = b"".join(_commit(as_of_time(moment), files) for moment, files in states)
    _git(root, "init", "--quiet", "--initial-branch=main")
    _git(root, "fast-import", "--quiet", "--force", stdin=stream)
    _git(root, "reset", "--quiet", "--hard")
    return root


def _commit(moment: datetime, files: Mapping[str, str | bytes | None]) -> bytes:
    """A commit as ``git fast-import`` reads it."""
    who = f"memkit <> {int(moment.timestamp())} +0000"
    lines = [f"commit refs/heads/main\nauthor {who}\ncommitter {who}\n".encode(), _data(f"{', '.join(files)}"[:72])]
    for path, content in files.items():
        name = '"' + path.translate({34: '\\"', 92: "\\\\", 10: "\\n"}) + '"'
        lines += [f"D {name}\n".encode()] if content is None else [f"M 644 inline {name}\n".encode(), _data(content)]
    return b"".join(lines)


def _data(content: str | bytes) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return b"data %d\n%s\n" % (len(data), data)


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> None:
    program = shutil.which("git")
    if program is None:
        raise MemkitError("write_commits needs the program git, which is not here.")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = [program, "-C", str(root), "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env=inherited | ENVIRONMENT, check=False)
    if done.returncode:
        raise MemkitError(f"write_commits: {done.stderr.decode(errors='replace').strip():.500}")
