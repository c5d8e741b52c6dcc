"""The history of a folder as tables: every version of every memory, and the commits that made them; its pictures; and
what `memkit.read` reads from git: the files of a revision, and dates for memories without a date of their own.

Commits are read once, oldest first. Only the files that a commit changed are parsed, and only their memories are
matched with those of the commit before, so cost is linear in all text that was ever written.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit import Corpus, read
from memkit.base.params import Rev, path_of, rev_text, zone_of
from memkit.errors import FormatError
from memkit.extend import Moment
from memkit.extend.reading import File, Rows
from memkit.extend.showing import (
    COLOURS,
    DAY_SECONDS,
    FEW_MONTHS,
    ROWS,
    Area,
    Axis,
    Bars,
    Displayed,
    Mark,
    Picture,
    Sheet,
    Since,
    bar,
    day_axis,
    memory_axis,
    rows_of,
    sheet_of,
    since_time,
    some_ticks,
)
from memkit.extend.writing import AsOf, check_value, describe
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

# A round number.
_AHEAD = 200
"""The number of commits whose files are requested together, as each request waits for git."""
_ENDINGS = tuple({ending.encode() for format in FORMATS for ending in format.endings})
# A round bound of memory: Python's texts take up to four bytes a character.
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
            with bar("commits", leave=False) as shown:
                for some in _batches(log(repository, head.id, max_commits)):
                    repository.expect(_contents(some))
                    for logged in some:
                        kept.add(logged, *states.step(logged))
                        shown.update()
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
        for path in bar("reading", stale, silent=len(stale) < _AHEAD, leave=False):
            before += self.memories.pop(path, ())
            self.parsed.pop(path, None)
            if path in self.roles:
                self.parsed[path] = tree.blobs[path], self.roles[path]
                self.memories[path] = self._parse(tree, path)
                after += self.memories[path]
        return before, after

    def _stale(self, tree: Tree, changed: set[str] | None, before: list[Known], after: list[Known]) -> list[str]:
        """The files to be parsed again, or no more: they have another content, or are to be read as something else."""
        # Mostly a commit changes files that no survey reads: then the roles of all others are what they were.
        if changed is not None and tree.is_same_files and changed.isdisjoint(self.reading.surveyed):
            return sorted(changed)
        reading = Reading(self.root, self.reading.options, kept=self.reading.kept)
        rows = Rows(kept=reading.kept)
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
                # What comes back, as after a revert, goes on with its history.
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
        # The last row of each chain stays, as later ones overwrite it.
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


@dataclass(frozen=True, repr=False)
class History(Displayed):
    """Every version of every memory of a folder. Made by `history`.

    Attributes
    ----------
    versions, commits : pyarrow.Table
        ``schema.field(name).metadata`` says what each column means. Old texts and commit messages are untrusted data:
        they are stored unchanged, and masked and escaped where they are shown.
    problems : pyarrow.Table
        The parts of the history that could not be read, as for a corpus.
    root : Path
        The folder.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> states = [("2026-01-05", {"a.md": "# Чай"}), ("2026-01-09", {"a.md": None})]
    >>> past = mk.history(mk.testing.write_commits(tempfile.mkdtemp(), states))
    >>> past.sql("select change, valid_from::date::varchar from versions").fetchall()
    [('added', '2026-01-05'), ('removed', '2026-01-09')]
    """

    versions: pa.Table
    commits: pa.Table
    problems: pa.Table
    root: Path

    def at(self, rev: Rev) -> Corpus:
        """The folder as it was at a moment or revision, as `memkit.read` returns it with ``rev=``.

        Parameters
        ----------
        rev : str, date or datetime
            A moment, or a commit, branch or tag.

        Returns
        -------
        Corpus
        """
        return read(self.root, rev=rev)

    @cached_property
    def corpus(self) -> Corpus:
        """The folder at the end of the history, with ``versions``, ``commits`` and ``version_secrets`` in its tables.

        `Corpus.save` saves them too. ``version_secrets`` lists which version held which secret, by kind and hash.
        """
        corpus = read(self.root, rev=(self.versions.schema.metadata or {})[b"revision"].decode())
        corpus.add_table("versions", self.versions)
        corpus.add_table("commits", self.commits)
        corpus.add_table("version_secrets", secrets_of(self.versions))
        return corpus

    def sql(self, query: str, params: Any = None) -> duckdb.DuckDBPyRelation:
        """The result of a SQL query over ``versions``, ``commits``, the tables of the last state and your variables."""
        return self.corpus._sql(query, params, sys._getframe(1))

    def named(self, name: str, as_of: AsOf = None, **params: Any) -> duckdb.DuckDBPyRelation:
        """The result of one of `memkit.named_queries`, as for a corpus."""
        return self.corpus.named(name, as_of, **params)

    def since(self, since: Since | None) -> History:
        """Only the versions and commits from a moment on, or from so long ago ("7d"); None is all."""
        if since is None:
            return self
        moment = pa.scalar(since_time(since, Moment.from_as_of(None), "history"), TIMESTAMP)
        versions = self.versions.filter(pc.greater_equal(self.versions["valid_from"], moment))
        commits = self.commits.filter(pc.greater_equal(self.commits["committed_at"], moment))
        return History(versions, commits, self.problems, self.root)

    def plot(self) -> Picture:
        """How many memories existed at each moment, by kind: `mk.plot.alive`."""
        return alive(self)

    def to_pandas(self) -> Any:
        """The versions as a DataFrame."""
        return self.versions.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.versions.__arrow_c_stream__(requested_schema)

    @property
    def _memories(self) -> pa.Table:
        return self.versions

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        newest = self.commits.take(pa.array(np.arange(len(self.commits))[::-1], pa.int64()))
        last = self.versions.sort_by([("valid_from", "descending"), ("memory_id", "ascending")])
        tables = (newest, last, self.problems)
        return tuple(sheet_of(table, rows, show_secrets) for table in tables if table.num_rows)


# The bound of commits is some seconds: 1,871 took up to .4 s, 2,656 large ones 2.4.
def history(path: str | Path, rev: Rev = "HEAD", max_commits: int = 10_000, timeout_s: float = TIMEOUT_S) -> History:
    """Every version of every memory of a folder, from the git repository that it lies in.

    Commits are followed along first parents. A memory in the next commit is the same one if it has the same id, text or
    name, if at least half of its words stay, or if its body appears in another file of that commit. A memory that was
    removed and comes back under its name is the same too. Nothing is checked out, and no code of the repository is run.

    Parameters
    ----------
    path : str or Path
        A folder, or one file.
    rev : str, date or datetime
        The revision at which the history ends.
    max_commits : int
        The number of latest commits that change the folder; the first of them stands for everything older.
    timeout_s : float, seconds
        The time after which git is stopped; the history then ends early, and a row of ``problems`` says so.

    Returns
    -------
    History
        ``.versions``, ``.commits``, ``.problems``, ``.at(rev)``, ``.sql(query)``, ``.corpus``.

    Raises
    ------
    FormatError, NotFoundError, MemkitError
        Where `path` is in no repository; where there is no such revision; where git is not installed.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> first, second = {"MEMORY.md": "# Чай\\nБез сахара.\\n"}, {"MEMORY.md": "# Чай\\nС мёдом.\\n"}
    >>> root = mk.testing.write_commits(tempfile.mkdtemp(), [("2026-01-05", first), ("2026-02-01", second)])
    >>> past = mk.history(root)
    >>> for row in past.versions.select(["version", "change", "text", "valid_from"]).to_pylist():
    ...     print(row["version"], row["change"], repr(row["text"]), row["valid_from"].date())
    1 added '# Чай\\nБез сахара.' 2026-01-05
    2 edited '# Чай\\nС мёдом.' 2026-02-01
    >>> past.at("2026-01-20").memories["text"].to_pylist()
    ['# Чай\\nБез сахара.']
    """
    check_value("history", "max_commits", max_commits, "int", low=1)
    check_value("history", "timeout_s", timeout_s, "float", low=0, unit="seconds")
    root, rows = path_of("history", path).resolve(), Rows()
    versions, commits = versions_of(root, rev_text(rev), rows, max_commits, timeout_s)
    return History(versions, commits, rows.table("problems"), root)


_ALIVE = """
    with changes as (
        select valid_from as moment, coalesce(kind, 'other') as kind, 1 as n from versions where change <> 'removed'
        union all
        select valid_to, coalesce(kind, 'other'), -1 from versions where change <> 'removed' and valid_to is not null)
    select moment, kind, sum(sum(n)) over (partition by kind order by moment) as alive
    from changes group by moment, kind order by moment
"""
_BY_DAY = """
    select strftime(valid_from, '%Y-%m-%d') as day, count(*) filter (where change = 'added') as added,
        count(*) filter (where change not in ('added', 'removed')) as changed,
        count(*) filter (where change = 'removed') as removed
    from versions where not at_start group by day order by day
"""


def alive(history: History) -> Picture:
    """How many memories existed at each moment of a history, by kind.

    Parameters
    ----------
    history : History
        From `history`.

    Returns
    -------
    Picture
        In words it has the last number of each month.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> states = [("2026-01-05", {"a.md": "# Чай", "b.md": "# Кофе"}), ("2026-02-09", {"b.md": None})]
    >>> print(mk.plot.alive(mk.history(mk.testing.write_commits(tempfile.mkdtemp(), states))))
    memories that live, by kind
    2026-01  ████████████████████ 2
    2026-02  ██████████ 1
    """
    rows = rows_of(_ALIVE, versions=history.versions).to_pylist()
    kinds = sorted({row["kind"] for row in rows})
    alive, states = dict.fromkeys(kinds, 0), dict[Any, list[int]]()
    for row in rows:
        alive[row["kind"]] = row["alive"]
        states[row["moment"]] = list(alive.values())
    # Each number holds from its moment to the next one.
    moments = np.repeat([moment.timestamp() / DAY_SECONDS for moment in states], 2)[1:]
    heights = np.repeat(np.array(list(states.values()), float).reshape(len(states), len(kinds)), 2, axis=0)[:-1].T
    below, marks = np.zeros(len(moments)), list[Mark]()
    for kind, colour, row in zip(kinds, cycle(COLOURS), heights, strict=False):
        marks.append(Area(moments, below, below + row, colour, kind))
        below = below + row
    months = {f"{moment:%Y-%m}": int(sum(state)) for moment, state in states.items()}
    title, empty = "memories that live, by kind", "" if marks else "nothing lived"
    return Picture(title, marks, day_axis(moments), memory_axis(below), list(months.items()), empty)


def changes(history: History) -> Picture:
    """How many memories were added, changed and removed on each day of a history, after its first commit.

    Parameters
    ----------
    history : History
        From `history`.

    Returns
    -------
    Picture

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> states = [("2026-01-05", {"a.md": "# Чай", "b.md": "# Кофе"}), ("2026-02-09", {"b.md": None, "c.md": "# Лес"})]
    >>> print(mk.plot.changes(mk.history(mk.testing.write_commits(tempfile.mkdtemp(), states))))
    memories that came, changed and went, by day
    2026-02-09  +1, 0 changed, −1
    """
    rows = rows_of(_BY_DAY, versions=history.versions).to_pylist()
    place, added, changed, removed = (
        np.arange(len(rows)),
        *(np.array([row[name] for row in rows], float) for name in ("added", "changed", "removed")),
    )
    marks = [
        Bars(place - 0.4, place + 0.4, 0, added, COLOURS[2], "added"),
        Bars(place - 0.4, place + 0.4, added, added + changed, COLOURS[0], "changed"),
        Bars(place - 0.4, place + 0.4, -removed, 0, COLOURS[5], "removed"),
    ]
    across = Axis(-0.7, max(len(rows), FEW_MONTHS) - 0.3, ticks=some_ticks([row["day"] for row in rows]))
    title = "memories that came, changed and went, by day"
    texts = [(row["day"], f"+{row['added']}, {row['changed']} changed, −{row['removed']}") for row in rows]
    empty = "" if rows else "nothing changed"
    return Picture(title, marks if rows else [], across, memory_axis(added + changed, removed), texts, empty)
