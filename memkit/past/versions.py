"""Builds the versions of memories: the state of a folder from commit to commit, a row for each change of a memory; and
what `memkit.read` reads from git: the files of a revision, and dates for memories without a date of their own.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import zone_of
from memkit.errors import FormatError
from memkit.extend.reading import File, Rows
from memkit.extend.showing import rows_of
from memkit.extend.writing import describe
from memkit.formats.format import Role
from memkit.formats.index_tree.format import PLUGIN_GLOBS
from memkit.formats.reader import Options, Reading, add_problems, roles_of, with_dates
from memkit.formats.registry import FORMATS, parse_file
from memkit.formats.rows import hash_of
from memkit.past.repository import TIMEOUT_S, GitError, Logged, Repository, TooManyFilesError, log, opened
from memkit.past.tree import MOST_PATHS, Tree, tree_of
from memkit.schemas import TIMESTAMP, column, table, tuples_of
from memkit.tables.identity import IDENTIFYING, Known, matches
from memkit.text.secrets import find

VERSIONS = table(
    column("memory_id", pa.string(), "the memory, as it is called now, or was when it was removed", nullable=False),
    column("version", pa.int64(), "1 is the first that the history shows", nullable=False),
    column("memory_id_then", pa.string(), "as it was called in this version", nullable=False),
    column("kind", pa.string(), "what it was within its format"),
    column("path", pa.string(), "file, relative to the root, with '/'"),
    column("title", pa.string(), "heading, subject or id"),
    column("text", pa.string(), "the memory in this version; null where it was removed"),
    column("change", pa.string(), "added, grew, edited, shortened, moved, retitled or removed", nullable=False),
    column("valid_from", TIMESTAMP, "when the commit was made that brought it", nullable=False),
    column("valid_to", TIMESTAMP, "when the next version came; null for what is so at the end"),
    column("commit", pa.string(), "the id of that commit", nullable=False),
    column("lines_added", pa.int64(), "lines that the version before does not have", nullable=False),
    column("lines_removed", pa.int64(), "lines that only the version before has", nullable=False),
    column("at_start", pa.bool_(), "in the first commit that is looked at: it may be older", nullable=False),
)
COMMITS = table(
    column("commit", pa.string(), "its id", nullable=False),
    column("parent", pa.string(), "the first parent's id; null for the first of all"),
    column("committed_at", TIMESTAMP, "when it was made", nullable=False),
    column("authored_at", TIMESTAMP, "when its author made it first", nullable=False),
    column("author", pa.string(), "the name alone"),
    column("subject", pa.string(), "the first line of its message"),
    column("files", pa.int64(), "files that it changed", nullable=False),
    column("added", pa.int64(), "memories that it brought", nullable=False),
    column("edited", pa.int64(), "memories that it changed, moved or gave another title", nullable=False),
    column("removed", pa.int64(), "memories that it took away", nullable=False),
    column("alive", pa.int64(), "memories that there were after it", nullable=False),
)
"""The tables of `memkit.history`, which are in a corpus that has one."""

_AHEAD = 200
"""The number of commits whose files are requested together, as each request waits for git."""
_ENDINGS = tuple({ending.encode() for format in FORMATS for ending in format.endings})
_HELD_CHARS = 2**24
"""The characters of text that are held in Python before they go to Arrow."""


def versions_of(
    root: Path, rev: str, rows: Rows, max_commits: int = 10_000, timeout_s: float = TIMEOUT_S
) -> tuple[pa.Table, pa.Table]:
    """``versions`` and ``commits`` up to a revision; what goes wrong on the way is a problem among `rows`."""
    with opened(root, timeout_s) as repository:
        head = repository.commit(rev)
        states, kept = States(root, repository), Versions()
        try:
            if tree_of(repository, root, head).is_too_large:  # git would run out of memory over it
                raise TooManyFilesError
            for some in _batches(log(repository, head.id, max_commits)):
                repository.expect(_contents(some))
                for logged in some:
                    kept.add(logged, *states.step(logged))
        except TooManyFilesError:
            rows.problem("too_many_files", ".", f"at most {MOST_PATHS} files and folders", "more", quote=False)
        except GitError as error:
            rows.problem("unreadable", ".", f"the history up to {head.id}", str(error), quote=False)
        facts = {**head.facts, "note": kept.note(max_commits, repository.is_shallow)}
    versions, commits = kept.tables()
    return describe(versions, memkit="versions", **facts), describe(commits, memkit="commits", **facts)


def _batches(commits: Iterable[Logged]) -> Iterator[list[Logged]]:
    """Some commits at a time; those before git failed come before it is said."""
    some: list[Logged] = []
    try:
        for logged in commits:
            some.append(logged)
            if len(some) == _AHEAD:
                yield some
                some = []
    except GitError:
        yield some
        raise
    yield some


def _contents(commits: Iterable[Logged]) -> list[bytes]:
    """The ids of what commits changed and somebody may read."""
    changes = (change for logged in commits for change in logged.changes)
    return [id for name, mode, id in changes if mode.startswith(b"100") and name.lower().endswith(_ENDINGS)]


class States:
    """The memories of a folder, from commit to commit."""

    def __init__(self, root: Path, repository: Repository) -> None:
        self.root, self.repository = root, repository
        self.tree: Tree | None = None
        self.parsed: dict[str, tuple[bytes, Role]] = {}
        self.memories: dict[str, list[Known]] = {}
        self.roles: dict[str, Role] = {}
        self.reading = Reading(root, Options(plugin_globs=PLUGIN_GLOBS))

    def step(self, logged: Logged) -> tuple[list[Known], list[Known]]:
        """The memories of what a commit changed, before and after."""
        changed = self.tree.step(logged.commit, logged.changes) if self.tree else None
        tree = self.tree
        if tree is None or changed is None:
            tree = self.tree = tree_of(self.repository, self.root, logged.commit)
            if tree.is_too_large:
                raise TooManyFilesError
        before, after = list[Known](), list[Known]()
        stale = self._stale(tree, changed, before, after)
        for path in stale:
            before += self.memories.pop(path, ())
            self.parsed.pop(path, None)
            if path in self.roles:
                self.parsed[path] = tree.blobs[path], self.roles[path]
                self.memories[path] = self._parse(tree, path)
                after += self.memories[path]
        return before, after

    def _stale(self, tree: Tree, changed: set[str] | None, before: list[Known], after: list[Known]) -> list[str]:
        """The files to be parsed again, or no more: they have another content, or are to be read as something else."""
        if changed is not None and tree.is_same_files and changed.isdisjoint(self.reading.surveyed):
            return sorted(changed)
        rows, reading = Rows(), Reading(self.root, self.reading.options)
        self.roles = roles_of(tree, FORMATS, rows, reading, self.reading)
        self.reading = reading
        before += self.memories.pop("", ())
        self.memories[""] = _known(rows)  # what an index says of files that are not there
        after += self.memories[""]
        now = {path: (tree.blobs[path], role) for path, role in self.roles.items()}
        return sorted(path for path in now.keys() | self.parsed.keys() if now.get(path) != self.parsed.get(path))

    def _parse(self, tree: Tree, path: str) -> list[Known]:
        rows = Rows()
        if source := tree.read(path, rows):
            zone = zone_of("read", self.reading.options.timezone)
            parse_file(
                File(source, self.roles[path], lambda name, memory_id: tree.read(name, rows, memory_id), zone), rows
            )
        return _known(rows)


def _known(rows: Rows) -> list[Known]:
    return [Known(**{name: row[name] for name in IDENTIFYING if name in row}) for row in rows.memories()]


class Versions:
    """Versions under way: a row each, its memory as a number, since what that is called in the end is not known yet."""

    def __init__(self) -> None:
        self.columns = tuple(array("q") for _ in range(6))
        self.chains, self.numbers, self.begin, self.end, self.added, self.removed = self.columns
        self.commits: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.last: list[int] = []
        self.texts: list[tuple[Any, ...]] = []
        self.handed: list[pa.Table] = []
        self.chars = self.alive = 0
        self.gone: dict[str, int] = {}
        self.removals: set[int] = set()

    def add(self, logged: Logged, before: list[Known], after: list[Known]) -> None:
        """The versions that one commit makes."""
        matched, counts = matches(before, after), Counter[str]()
        for place, new in enumerate(after):
            other = matched.get(place)
            if other is None:
                back = self.gone.pop(new.memory_id, None)
                row = self._row(None if back is None else self.chains[back], new, "added", (len(_lines(new)), 0))
                if back is not None:
                    self.end[back] = len(self.commits)
                counts["added"] += 1
            else:
                old = before[other]
                row = old.row
                if change := _change(old, new):
                    self.end[row] = len(self.commits)
                    row = self._row(self.chains[row], new, change[0], change[1:])
                    counts["edited"] += 1
            new.row = row
            self.names[self.chains[row]] = new.memory_id
        for place in sorted(set(range(len(before))) - set(matched.values())):
            old = before[place]
            self.end[old.row] = len(self.commits)
            self.gone[old.memory_id] = self._row(self.chains[old.row], old, "removed", (0, len(_lines(old))))
            counts["removed"] += 1
        self.alive += counts["added"] - counts["removed"]
        self.commits.append(
            {
                "commit": logged.commit.id,
                "parent": logged.parent,
                "committed_at": logged.commit.committed_at,
                "authored_at": logged.authored_at,
                "author": logged.author,
                "subject": logged.subject,
                "files": len(logged.changes),
                **{name: counts[name] for name in ("added", "edited", "removed")},
                "alive": self.alive,
            }
        )

    def _row(self, chain: int | None, memory: Known, change: str, lines: Sequence[int]) -> int:
        if chain is None:
            chain = len(self.names)
            self.names.append(memory.memory_id)
            self.last.append(0)
        self.last[chain] += 1
        numbers = (chain, self.last[chain], len(self.commits), -1, *lines)
        for held, number in zip(self.columns, numbers, strict=True):
            held.append(number)
        text = None if change == "removed" else memory.text
        if text is None:
            self.removals.add(len(self.chains) - 1)
        self.texts.append((memory.memory_id, memory.kind, memory.path, memory.title, text, change))
        self.chars += len(text or "")
        if self.chars > _HELD_CHARS:
            self._hand_over()
        return len(self.chains) - 1

    def _hand_over(self) -> None:
        names = ("memory_id_then", "kind", "path", "title", "text", "change")
        columns = list(zip(*self.texts, strict=True)) or [()] * len(names)
        self.handed.append(pa.table([pa.array(column, pa.string()) for column in columns], names=list(names)))
        self.chars = 0
        self.texts.clear()

    def note(self, max_commits: int, is_shallow: bool) -> str:
        """What has to be said of where the history begins."""
        if len(self.commits) == max_commits:
            return f"the last {max_commits:,} commits alone: what is older is in the first of them"
        return "a shallow clone: what is older is in its first commit" if is_shallow else ""

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """``versions`` and ``commits``."""
        self._hand_over()
        commits = pa.Table.from_pylist(self.commits, schema=COMMITS)
        begin, end, chains = (np.array(column, np.int64) for column in (self.begin, self.end, self.chains))
        moments = _moments(commits)
        until = pa.array(np.append(moments, 0)[end], pa.int64(), mask=end < 0)
        names = pa.array(self._final_names(), pa.string())
        columns = {
            "memory_id": names.take(pa.array(chains)),
            "version": pa.array(np.array(self.numbers, np.int64)),
            "valid_from": pa.array(moments[begin], pa.int64()).cast(TIMESTAMP),
            "valid_to": until.cast(TIMESTAMP),
            "commit": commits["commit"].combine_chunks().take(pa.array(begin)),
            "lines_added": pa.array(np.array(self.added, np.int64)),
            "lines_removed": pa.array(np.array(self.removed, np.int64)),
            "at_start": pa.array(begin == 0),
        }
        texts = pa.concat_tables(self.handed)
        arrays = [columns[name] if name in columns else texts[name] for name in VERSIONS.names]
        return pa.Table.from_arrays(arrays, schema=VERSIONS), commits

    def _final_names(self) -> list[str]:
        """The last name of each memory; a removed one gets the commit as a suffix where another memory has its name."""
        names, last = list(self.names), dict(zip(self.chains, range(len(self.chains)), strict=True))
        used = {names[chain] for chain, row in last.items() if row not in self.removals}
        for chain, row in sorted(last.items(), key=lambda item: -item[1]):
            if row in self.removals and names[chain] in used:
                names[chain] = f"{names[chain]}@{self.commits[self.begin[row]]['commit'][:8]}"
            used.add(names[chain])
        return names


def _moments(commits: pa.Table) -> Any:
    """When the state of each commit began to hold, in µs: a later commit with an earlier time ends it before."""
    committed = commits["committed_at"].cast(pa.int64()).to_numpy()
    return np.minimum.accumulate(committed[::-1])[::-1]


def secrets_of(versions: pa.Table) -> pa.Table:
    """The secrets that versions hold: memory_id, version, and which kind with a hash that tells it from others."""
    rows = [
        {
            "memory_id": memory_id,
            "version": version,
            "secret": f"{secret.name}~{hash_of(text[secret.start : secret.end])}",
        }
        for memory_id, version, text in tuples_of(versions, *_OF_SECRETS)
        for secret in find(text or "")
    ]
    schema = pa.schema({"memory_id": pa.string(), "version": pa.int64(), "secret": pa.string()})
    return pa.Table.from_pylist(rows, schema)


_OF_SECRETS = ("memory_id", "version", "text")


def _lines(memory: Known) -> list[str]:
    return memory.stripped.split("\n")


def _change(old: Known, new: Known) -> tuple[str, int, int] | None:
    """What became of a memory, and the lines that came and went; None where it says the same in the same file."""
    if old.path == new.path and old.stripped == new.stripped and old.title == new.title:
        return None
    before, after = Counter(_lines(old)), Counter(_lines(new))
    come, went = (after - before).total(), (before - after).total()
    if old.path != new.path:
        return "moved", come, went
    if old.title != new.title and old.body == new.body:
        return "retitled", come, went
    return "grew" if come and not went else "shortened" if went and not come else "edited", come, went


_MADE = """
select m.place, v.text is not null as is_committed, v.made, v.changed, v.is_first
from undated m left join (
    select arg_max(memory_id_then, version) as memory_id, arg_max(text, version) as text,
        min(valid_from) as made, bool_or(at_start) as is_first,
        max(valid_from) filter (where change <> 'removed' and (change <> 'moved' or lines_added + lines_removed > 0))
            as changed
    from versions group by memory_id
    having arg_max(change, version) <> 'removed'
) v on v.memory_id = m.memory_id and rtrim(v.text, e' \\n\\t\\r') = rtrim(m.text, e' \\n\\t\\r')
order by m.place
"""


@contextmanager
def listed(root: Path, rev: str, max_file_bytes: int, hidden: str) -> Iterator[Tree]:
    """The files of a revision, to be read within the block."""
    with opened(root) as repository:
        yield tree_of(repository, root, repository.commit(rev), max_file_bytes, hidden)


def date(reading: Reading) -> None:
    """Date memories without a date of their own by the commits that added and last changed them."""
    rows = Rows(reading.options.rules)
    _date_by_git(reading, rows)
    if rows.tables["problems"]:
        add_problems(reading, rows)


def _date_by_git(result: Reading, rows: Rows) -> None:
    memories = result.tables["memories"]
    is_undated = pc.is_null(memories["date_source"])
    if not pc.any(is_undated).as_py():
        return
    try:
        versions = versions_of(result.root, result.options.rev or "HEAD", rows)[0]
    except FormatError as error:
        rows.problem("no_repository", ".", "a folder of a git repository", str(error), quote=False)
        return
    places = pa.array(range(len(memories)), pa.int64())
    undated = memories.select(["memory_id", "text", "path", "line_start"]).append_column("place", places)
    undated = undated.filter(is_undated)
    dates = rows_of(_MADE, undated=undated, versions=versions)
    for row, is_known in zip(undated.to_pylist(), dates["is_committed"].to_pylist(), strict=True):
        if not is_known:
            where = {"line": row["line_start"], "field": "created_at", "memory_id": row["memory_id"]}
            rows.problem("uncommitted", row["path"], "from a text that is committed", "another", quote=False, **where)
    source = pc.if_else(dates["is_first"], "git_first", "git")
    mask = is_undated.combine_chunks()
    made_at, changed_at = dates["made"].combine_chunks(), dates["changed"].combine_chunks()
    result.tables["memories"] = with_dates(memories, mask, made_at, changed_at, source.combine_chunks())
