"""The history of a folder as tables: every version of every memory, and the commits that made them; and its pictures.

Commits are read once, oldest first. Only the files that a commit changed are parsed, and only their memories are
matched with those of the commit before, so cost is linear in all text that was ever written.
"""

from __future__ import annotations

import sys
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
from memkit.base.params import Rev, path_of, rev_text
from memkit.extend import Moment
from memkit.extend.reading import Rows
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
    day_axis,
    memory_axis,
    rows_of,
    sheet_of,
    since_time,
    some_ticks,
)
from memkit.extend.writing import AsOf, check_value
from memkit.past.repository import TIMEOUT_S
from memkit.past.versions import secrets_of, versions_of
from memkit.schemas import TIMESTAMP


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

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        newest = self.commits.take(pa.array(np.arange(len(self.commits))[::-1], pa.int64()))
        last = self.versions.sort_by([("valid_from", "descending"), ("memory_id", "ascending")])
        tables = (newest, last, self.problems)
        return tuple(sheet_of(table, rows, show_secrets) for table in tables if table.num_rows)


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
