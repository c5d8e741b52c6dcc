"""A corpus: the tables read from a folder, or of a snapshot (a lake) that is opened, and SQL over them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import check_statement, check_unicode, is_table_name
from memkit.base.hashes import checksum
from memkit.base.params import (
    AsOf,
    Rev,
    Zone,
    as_of_time,
    check_choice,
    check_value,
    current_names,
    path_of,
    rev_text,
    revision_of,
    zone_name,
    zone_of,
)
from memkit.base.plugins import Plugins, as_it_is
from memkit.display.draw import Displayed
from memkit.display.sheet import ROWS, Sheet, sheet_of_kinds
from memkit.errors import (
    ChangeRefusedError,
    FormatError,
    MemkitError,
    NotFoundError,
    ParameterError,
    StaleSourceError,
    VersionError,
    count_of,
)
from memkit.formats import reader
from memkit.formats.disk.files import HIDDEN, MAX_FILE_BYTES, digest_of, home_of, is_remembered_root, remember_root
from memkit.formats.disk.source import decode, utf8
from memkit.formats.format import MARKDOWN, Format
from memkit.formats.index_tree.format import PLUGIN_GLOBS
from memkit.formats.reader import DATES, Options, Reading, listed
from memkit.formats.registry import NAMES, check_named, name_of
from memkit.formats.rows import SEVERITIES, Rows, Rule
from memkit.schemas import TABLES, with_ends
from memkit.tables.database import Database, Derived, TextIndex, named_query
from memkit.tables.kept import Kept, drop_changed
from memkit.tables.lake import STATE, TEXT, Writers, empty_reading, is_bucketed, load, save
from memkit.tables.statement import as_table
from memkit.tables.untrusted import TIMEOUT_S

if TYPE_CHECKING:
    import duckdb

_VECTORS = "memkit.search.fitted.store"
"""A module of a room above, which is imported when vectors are asked for."""


class Corpus(Displayed):
    """Memories of any formats as Arrow tables, with SQL and full text over them.

    A corpus is a snapshot: `refresh` gives a new one. Made by `memkit.read`, `memkit.from_table` or `memkit.open`.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        The tables by name; `memkit.schemas.TABLES` says what each column means.
    folder, trusted : Path or None, bool
        The folder that `memkit.open` opened, and whether it was opened with ``trust=True``.
    """

    def __init__(
        self,
        tables: dict[str, pa.Table],
        *,
        reading: Reading | None = None,
        text_index: TextIndex = None,
        folder: Path | None = None,
        trusted: bool = False,
    ) -> None:
        self.tables = {name: with_ends(table) for name, table in tables.items()}
        self.folder, self.trusted = folder, trusted
        self._attached: dict[str, Callable[[Path], None]] = {}
        self._derived: dict[str, Derived] = {}
        self._reading, self._text_index = reading, text_index
        self._opened: Database | None = None
        self.buckets: int | None = None  # the default number of shards that `save` writes
        self._snapshot: Path | None = None  # what `folder` held when it was opened
        self.kept: Kept | None = None  # its place in the user's cache, where there is one
        self._lock = Lock()

    @property
    def _database(self) -> Database:
        """The DuckDB database, made at the first SQL query; a search over words and vectors needs none."""
        with self._lock:
            self._opened = self._opened or Database(self.tables, self._text_index, self._derived)
            return self._opened

    @property
    def memories(self) -> pa.Table:
        """One row per memory of any format."""
        return self.tables["memories"]

    @property
    def problems(self) -> pa.Table:
        """One row per defect."""
        return self.tables["problems"]

    @property
    def root(self) -> Path | None:
        """The folder that was read; None for a table, or for a lake whose folder this process did not name."""
        root = self._reading and self._reading.root
        return root if root and (self.trusted or is_remembered_root(root)) else None  # looking would be following

    @property
    def arms_from(self) -> tuple[Path | None, bool]:
        """The lake that may hold its arms, if any, and whether it is the user's own."""
        return (self.kept.place, True) if self.kept else (self.folder, self.trusted)

    @property
    def snapshot(self) -> Path | None:
        """The user's own folder on disk that has these very memories, if there is one."""
        if self.kept and self.kept.tables:
            return self.kept.snapshot if self.kept.tables["memories"] is self.memories else None
        return self._snapshot if self.trusted else None

    @property
    def former(self) -> Corpus | None:
        """The folder as the user's cache has it, where that is not this state of it."""
        if not self.kept or not self.kept.tables or not self._reading or self.kept.tables is self._reading.tables:
            return None
        former = Corpus(self.kept.tables)
        former.kept = self.kept
        return former

    @property
    def revision(self) -> dict[str, str]:
        """The git commit that was read (revision, revision_at, revision_path); empty where no revision was read."""
        return revision_of(self.memories)

    def sql(self, query: str, params: Any = None) -> duckdb.DuckDBPyRelation:
        """The result of a SQL query over the tables.

        Parameters
        ----------
        query : str
            DuckDB SQL; ``fts(query, k := 10)`` and ``match_bm25(memory_id, query)`` search the text, and so does
            ``fts_main_memories.match_bm25`` with DuckDB's own parameters fields, k, b and conjunctive. A name that is
            not a table of the corpus may be a variable of the caller: a DataFrame of pandas or Polars, or any other
            object that exports Arrow. `Retriever.corpus_` has ``chunks`` and ``vectors`` (chunk_id, vector) too.
        params : list or dict, optional
            Values for ``?`` or ``$name``.

        Returns
        -------
        duckdb.DuckDBPyRelation
            Call ``.to_arrow_table()`` (then ``.to_pandas()``) or ``.fetchall()``; a notebook shows it as it is.

        Raises
        ------
        QueryError
            For a lone surrogate in the query or a value, or NUL in the query. DuckDB's own errors are passed on
            unchanged.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["Пул соединений вырос", "Release on Friday"]})
        >>> corpus.sql("select text from fts('пулы') join memories using (memory_id)").fetchall()
        [('Пул соединений вырос',)]
        """
        return self._sql(query, params, sys._getframe(1))

    def _sql(self, query: str, params: Any, caller: FrameType) -> duckdb.DuckDBPyRelation:
        """`sql`, with the variables of `caller`."""
        check_statement(query)
        check_unicode(params)
        return self._database.sql(query, params, caller)

    def named(self, name: str, as_of: AsOf = None, **params: Any) -> duckdb.DuckDBPyRelation:
        """The result of one of `memkit.named_queries`.

        Parameters
        ----------
        name : str
            The name of the query.
        as_of : str, date, datetime or None
            The day, for queries that need one; None is now.
        **params
            The query's parameters, for example ``days=7``.

        Returns
        -------
        duckdb.DuckDBPyRelation

        Raises
        ------
        ParameterError
            For an unknown name or parameter, an `as_of` that is not a date, or a query over a history without one.

        Examples
        --------
        >>> import memkit as mk
        >>> mk.from_table({"text": ["чай"]}).named("near_empty").fetchall()
        [('0', None, 3, 'чай')]
        """
        query, values = named_query(name, as_of, params, "versions" in self.tables)
        return self._database.relation(self.ask(query, values, timeout_s=None))

    def ask(self, query: str, params: Any = None, timeout_s: float | None = TIMEOUT_S) -> pa.Table:
        """The rows of one SELECT, run in a sandbox: safe for SQL that somebody else wrote.

        The sandbox is a database of its own, so changes made on a connection of the corpus do not show in it.

        Parameters
        ----------
        query, params
            As for `sql`. The query cannot read files, settings or the network, and cannot use functions that make large
            values of small ones, such as ``range`` and ``repeat``, or recursion.
        timeout_s : float, seconds, or None
            The time after which DuckDB is stopped; None sets no limit, for a query of your own.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        QueryError
            Where the query is no such SELECT, DuckDB refuses it, or it takes too long.

        Examples
        --------
        >>> import memkit as mk
        >>> mk.from_table({"text": ["чай"]}).ask("select memory_id from fts('чай')").to_pylist()
        [{'memory_id': '0'}]
        """
        check_value("Corpus.ask", "timeout_s", timeout_s, "float", nullable=True, low=0, unit="seconds")
        return self._database.ask(query, params, timeout_s)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new DuckDB connection to the tables, with full-text search; closing it does not affect the corpus.

        Returns
        -------
        duckdb.DuckDBPyConnection

        Examples
        --------
        >>> import memkit as mk
        >>> mk.from_table({"text": ["чай", "кофе"]}).connect().execute("select count(*) from memories").fetchone()
        (2,)
        """
        return self._database.cursor()

    def add_table(self, name: str, table: Any) -> None:
        """Add a table to `tables` and to SQL, as a Retriever adds ``chunks`` to its own copy of the corpus.

        Parameters
        ----------
        name : str
            Lower-case letters, digits and ``_``; not the name of one of memkit's own tables.
        table : pyarrow.Table, or a DataFrame of pandas or Polars
            Replaces a table that was added under this name before.

        Raises
        ------
        ParameterError
            For a name that is not allowed, an object that is not a table, or a table with a column name twice.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["чай"]})
        >>> corpus.add_table("labels", pa.table({"memory_id": ["0"], "label": ["drink"]}))
        >>> corpus.sql("select label from memories join labels using (memory_id)").fetchall()
        [('drink',)]
        """
        _check_name("add_table", name, "table", TABLES)
        is_plain = isinstance(table, pa.Table) and len(set(table.column_names)) == table.num_columns
        self.tables[name] = table if is_plain else as_table(table, owner="add_table: 'table'")

    def derive(self, name: str, make: Derived) -> None:
        """Have SQL know one more table, made when a query first names it, as a Retriever's copy has ``vectors``.

        Parameters
        ----------
        name : str
            As for `add_table`; it is not in `tables`, and `save` does not write it.
        make : callable
            ``make(may_take_time)`` returns the table, or None where there is none.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["чай"]})
        >>> corpus.derive("lengths", lambda may_take_time: pa.table({"chars": [3]}))
        >>> corpus.sql("from lengths").fetchall()
        [(3,)]
        """
        _check_name("derive", name, "table", TABLES)
        self._derived[name] = make

    def attach(self, name: str, write: Callable[[Path], None]) -> None:
        """Have `save` write one more folder, as a Retriever adds ``vectors`` to its own copy of the corpus.

        Parameters
        ----------
        name : str
            The name of that folder within the saved one; it replaces what was attached under this name before.
        write : callable
            ``write(folder)`` creates the folder and writes its files.

        Raises
        ------
        ParameterError
            For a name with anything but lower-case letters, digits and ``_``, or one that memkit uses itself.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> corpus = mk.from_table({"text": ["чай"]})
        >>> corpus.attach("labels", lambda folder: print(folder.name))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     corpus.save(folder)
        labels
        """
        _check_name("attach", name, "folder", (STATE, TEXT))
        self._attached[name] = write

    @current_names
    def save(self, path: str | Path, buckets: int | None = None) -> None:
        """Save a snapshot (a lake): tables and text index as Parquet, a DuckDB file for other programs, and a manifest.

        A save is atomic: a process that is killed half-way leaves the old snapshot, and a reader that opens the folder
        during a save gets either the old or the new one.

        Parameters
        ----------
        path : str or Path
            Created if missing; other files in it stay.
        buckets : int, optional
            Number of shards (buckets). All memories of a user are in one shard, and each shard is a lake of its own.
            None is the number given to `memkit.read`, or no shards.

        Raises
        ------
        MemkitError
            Where another process is saving to `folder`, or the folder cannot be written.
        FormatError
            Where the folder holds a symbolic link.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mk.from_table({"text": ["чай"]}).save(folder)
        ...     mk.open(folder)
        Corpus(1 memory: 1 other; 0 problems in reading)
        """
        count, place = self.buckets if buckets is None else buckets, path_of("save", path)
        if count is None:
            save(self.tables, self._database, self._reading, self._attached, place)
        else:
            LAKES.needed("buckets").save_buckets(self.tables, place, count, self._attached)

    def keep(self, attached: Writers | None = None) -> None:
        """Have the user's cache hold this corpus as it is now, where `read` gave it a place there (``cache=``).

        Parameters
        ----------
        attached : dict of str to callable, optional
            What writes each further folder of the kept lake, given its path, by the folder's name.

        Examples
        --------
        >>> import memkit as mk
        >>> mk.from_table({"text": ["чай"]}).keep()  # which was read from no folder: nothing is kept
        """
        if self.kept and self._reading:
            index = self._opened.built_index if self._opened else self._text_index
            self.kept.keep(self._reading, index, attached)

    def refresh(self) -> Corpus:
        """A new corpus of what the folder holds now; only files that changed are opened.

        A file has changed if its size, mtime or ctime differs and then the hash of its content does; where none of them
        differs and no file came or went, all that this costs is one walk over the folder. After
        `memkit.open`, the indexes of an index tree are always opened again, as they decide how the other files are
        read. If nothing changed, the full-text index is reused; otherwise it is rebuilt when it is next needed.

        Returns
        -------
        Corpus

        Raises
        ------
        MemkitError
            Where the corpus was not read from a folder, or a lake names a folder that this process did not name: pass
            ``source=`` or ``trust=True`` to `memkit.open`.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     corpus = mk.read(mk.testing.write_files(folder, {"MEMORY.md": "# Чай\\n"}))
        ...     _ = mk.testing.write_files(folder, {"MEMORY.md": "# Кофе\\n"})
        ...     corpus.refresh().memories["title"].to_pylist()
        ['Кофе']
        """
        previous = self._source()
        reading = reader.read(previous.root, previous.options, previous)
        if previous.walked is not None and reading.root != previous.root:
            where, target = f"{str(previous.root)!r:.200}", f"{str(reading.root)!r:.200}"
            raise MemkitError(f"refresh: {where} is a link now, which is not followed. Read {target} by itself.")
        tables = reading.tables
        if tables is previous.tables or tables == {name: self.tables.get(name) for name in tables}:
            return self._copy_with(reading)
        new = Corpus(reading.tables, reading=reading, folder=self.folder, trusted=self.trusted)
        new.buckets = self.buckets
        return new

    def markdown_files(self) -> pa.Table:
        """The whole Markdown files that memories were read from, as the files are now.

        Returns
        -------
        pyarrow.Table
            Columns path and text.

        Raises
        ------
        MemkitError
            For a corpus that was not read from a folder, or a lake that names a folder this process did not name.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.read(mk.sample_data() / "notes")
        >>> corpus.markdown_files().num_rows == corpus.memories.num_rows
        True
        """
        reading, known_paths = self._source(), set(self.memories["path"].to_pylist())
        with reader.listed(reading.root, reading.options) as listing:
            paths = (path for path in listing.files if path in known_paths and path.lower().endswith(MARKDOWN))
            sources = [listing.read(path, Rows()) for path in paths]
        rows = [{"path": source.path, "text": source.text} for source in sources if source]
        return pa.Table.from_pylist(rows, pa.schema([TABLES["memories"].field(name) for name in ("path", "text")]))

    @property
    def has_folder(self) -> bool:
        """Whether the corpus was read from a folder, so that `refresh` can read it again."""
        return self._reading is not None

    def _source(self) -> Reading:
        """The reading of a folder that may be read again: this process named the folder, not a lake alone."""
        if self._reading is None:
            raise MemkitError("refresh: expected a corpus of a folder. Got one without: mk.open(lake, source=folder).")
        if self.root is None:
            raise MemkitError(
                f"refresh: the lake was read from {str(self._reading.root)!r:.200}, a folder that this process did not "
                "name. Use mk.open(lake, source=folder), or trust=True if the lake is your own."
            )
        check_named(() if self.trusted else self._reading.options.formats)
        return self._reading

    def _copy_with(self, reading: Reading | None) -> Corpus:
        """A copy: the same tables and index in a database of its own, so neither shows what is added to the other."""
        index = self._opened.built_index if self._opened else self._text_index
        copy = Corpus(self.tables, reading=reading, text_index=index, folder=self.folder, trusted=self.trusted)
        copy._snapshot = self._snapshot
        copy._attached, copy._derived = self._attached.copy(), self._derived.copy()
        copy.buckets, copy.kept = self.buckets, self.kept
        return copy

    def __copy__(self, memo: object = None) -> Corpus:
        return self._copy_with(self._reading)  # tables cannot change, and no reading is changed once it is done

    __deepcopy__ = __copy__

    def __getstate__(self) -> dict[str, Any]:
        # The database, a Retriever's arms, and rules (which are code) are not pickled.
        source = self._reading and (self._reading.root, replace(self._reading.options, rules=None))
        return {"tables": self.tables, "source": source, "folder": self.folder, "trusted": self.trusted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        source = state.pop("source")
        Corpus.__init__(self, reading=source and empty_reading(*source), **state)
        if source:
            remember_root(source[0])
            set(map(name_of, source[1].formats))

    def __repr__(self) -> str:
        kinds = self.memories.group_by("kind").aggregate([("memory_id", "count")]).sort_by("kind").to_pylist()
        counts = ", ".join(f"{row['memory_id_count']} {row['kind'] or 'other'}" for row in kinds)
        memories, problems = count_of(self.memories.num_rows, "memory"), count_of(self.problems.num_rows, "problem")
        # Secrets are problems of `check` and `overview`, and no rows of the table: they are looked for when asked for.
        return f"Corpus({memories}: {counts or 'none'}; {problems} in reading)"

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> list[Sheet]:
        return [sheet_of_kinds(self.memories, self.problems.num_rows, rows, show_secrets)]


def _check_name(owner: str, name: object, kind: str, reserved: Container[object]) -> None:
    if not is_table_name(name) or name in reserved:
        raise ParameterError(f"{owner}: 'name' must be letters, digits and '_', no {kind} of memkit. Got {name!r}.")


def read(
    path: str | Path,
    *,
    format: str | None = None,
    formats: Sequence[str | Format] = (),
    errors: str = "report",
    as_of: AsOf = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    plugin_globs: tuple[str, ...] = PLUGIN_GLOBS,
    rules: tuple[Rule, ...] | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    rev: Rev | None = None,
    dates: str | None = None,
    buckets: int | None = None,
    timezone: Zone = None,
    hidden: str = "known",
    json: str | None = None,
    instructions: str | Path | Sequence[str | Path] = (),
    cache: bool | Literal["fit"] = False,
) -> Corpus:
    """Read a folder of memories in any known format.

    Nothing outside of `path` is opened, and no file makes it raise: every defect is a row of ``problems``. Cost is
    linear in the bytes read. With `rev` the folder is read as it was at that commit of its git repository: nothing is
    checked out, and no code of the repository is run.

    Parameters
    ----------
    path : str or Path
        A folder, or one file.
    format : str, optional
        Read every file as this format (index_tree, workspace, notes, records, facts or one of `formats`), instead of
        detecting the format of each file.
    formats : sequence of str or Format
        Formats of your own or of installed packages (`memkit.extend.known_formats` lists them), tried before
        memkit's own.
    errors : 'report' or 'raise'
        Whether the first problem of severity error is raised.
    as_of : str, date, datetime, optional
        Dates after this day are reported; it is kept in the schema metadata of ``problems``. Without it, no date is
        reported as a future one.
    max_file_bytes : int, bytes
        A larger file is reported as a problem, and only its first 64 KiB are read.
    plugin_globs : tuple of str
        Paths that an index entry must not name.
    rules : tuple of Rule, optional
        The checks to make. None means ``memkit.formats.rules.RULES`` and those of `formats`; pass
        ``(*RULES, Rule(...))`` to add one.
    n_jobs : int, optional
        Number of parsing processes, as in joblib (-1: one per core); None is one, or what ``joblib.parallel_config``
        sets. Below 15,000 files one process is always used, and below about 65,000 notes more processes do not help.
    progress : bool
        Show a progress bar on a terminal.
    rev : str, date or datetime, optional
        A git commit, branch or tag, for example ``HEAD~10``; or a moment in UTC, which means the last commit up to it
        (of a day up to its end) along first parents. ``Corpus.revision`` and the metadata of results name the commit.
    dates : 'git' or 'mtime', optional
        Where memories that have no date of their own get one. From git: the commits that added and last changed them;
        the column ``date_source`` is then git, or git_first for the first commit, as the memory may be older than it. A
        text that is not committed, or a folder outside of a repository, is a row of ``problems``. From mtime: the time
        when the file was last changed, as the file system says, which a clone or a copy resets; where all of these
        times lie within a minute, a row of ``problems`` says so.
    buckets : int, optional
        Default number of shards (buckets) for `Corpus.save`; all memories of a user are in one shard.
    timezone : str or tzinfo, optional
        The zone of times in logs and transcripts that name no zone: "Europe/Moscow", "+03:00"; None is UTC. Time stamps
        with an offset keep it, and a date without a time stays midnight UTC.
    hidden : 'known', 'all' or 'none'
        Which folders and files whose names begin with a dot are read: the places where hosts keep memories
        (``.agents/memory`` and those in `memkit.formats.disk.files.HIDDEN_PLACES`), all of them, or none. Those that
        are not read and hold Markdown are rows of ``problems``.
    json : 'rows', optional
        JSON and JSON lines of an unknown shape become rows where their objects have a text (``text``, ``content``,
        ``memory``, ...). None reads such files up to 1 MiB, and no transcripts of hosts; 'rows' reads all.
    instructions : str, Path or sequence of these
        Files that a host loads beside the memory, such as an AGENTS.md above `path`: lines of the memory that they say
        already are reported (``duplicate_of_instructions``), as are those that such a file below `path` says. They are
        read within `max_file_bytes`, and are no memories; a saved corpus does not keep their names.
    cache : bool or 'fit'
        Whether the folder is kept as a lake in the user's cache (``$MEMKIT_CACHE``, else ``memkit`` in the user's cache
        folder), so that the next reading opens only what changed since, and a fit finds its arms. The texts lie there
        in files that only the user can read. With 'fit' it is the fit that follows which keeps the folder: it updates
        the arms by what changed, where True removes them. Nothing is kept with `as_of`, `rules`, `formats`, `rev`,
        ``dates="git"``, `instructions` or adapters of your own, nor with ``MEMKIT_CACHE=off``.

    Returns
    -------
    Corpus

    Raises
    ------
    FormatError
        Where `path` does not exist, or with ``errors="raise"`` for the first error.
    NotFoundError
        Where there is no such revision.
    MemkitError
        Where `rev` is given and the program git is not installed.
    ParameterError
        For an argument that is not as listed here.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "MEMORY.md").write_text("# Пул\\nДесять соединений.\\n", encoding="utf-8")
    >>> read(folder).memories.select(["kind", "title"]).to_pylist()
    [{'kind': 'long_term', 'title': 'Пул'}]
    """
    check_choice("errors", errors, ("report", "raise"), "read")
    check_value("read", "buckets", buckets, "int", nullable=True, low=1)
    check_value("read", "max_file_bytes", max_file_bytes, "int", low=1, unit="bytes")
    if not isinstance(cache, bool):
        check_choice("cache", cache, ("fit",), "read")
    check_value("read", "n_jobs", n_jobs, "int", nullable=True)
    if n_jobs == 0:
        raise ParameterError("read: 'n_jobs' must be a number of processes, or -1 for one a core. Got 0.")
    for rule in rules or ():
        if not isinstance(rule, Rule):
            raise ParameterError(f"read: 'rules' must be a tuple of memkit.extend.reading.Rule. Got {rule!r} in it.")
        check_choice("code", rule.code, SEVERITIES, "read: a rule")
    moment = None if as_of is None else as_of_time(as_of)
    extra_formats = [formats] if isinstance(formats, (str, Format)) else formats
    forced = [format] if format is not None and format not in NAMES else []
    names = tuple(dict.fromkeys(map(name_of, [*extra_formats, *forced])))
    checks, revision = None if rules is None else tuple(rules), None if rev is None else rev_text(rev)
    if dates is not None:
        check_choice("dates", dates, DATES, "read")
    if dates == "mtime" and rev is not None:
        raise ParameterError("read: dates='mtime' needs the folder as it is: a revision has no times. Use dates='git'.")
    check_choice("hidden", hidden, HIDDEN, "read")
    if json is not None:
        check_choice("json", json, ("rows",), "read")
    zone = zone_name(zone_of("read", timezone))
    options = Options(
        format=format,
        as_of=moment,
        max_file_bytes=max_file_bytes,
        plugin_globs=tuple(plugin_globs),
        rules=checks,
        n_jobs=n_jobs,
        progress=progress,
        formats=names,
        rev=revision,
        dates=dates,
        timezone=zone,
        hidden=hidden,
        json=json,
        instructions=_instructions(instructions),
    )
    root = path_of("read", path)
    kept = Kept.of(root, options) if cache else None
    try:
        reading = reader.read(root, options, kept.opened(root) if kept else None)
        if cache:
            drop_changed(root, kept)
    except MemkitError:
        if cache:  # of a folder that is gone nothing stays
            drop_changed(root, None)
        raise
    if errors == "raise":
        problems = reading.tables["problems"]
        for row in problems.filter(pc.equal(problems["severity"], "error")).slice(0, 1).to_pylist():
            error = VersionError if row["rule"] == "unsupported_version" else FormatError
            raise error(row["message"], path=row["path"], line=row["line"], field=row["field"])
    for root in (reading.root, reading.root.resolve()):  # as the caller writes it, and as a lake names it
        remember_root(root)
    corpus = Corpus(reading.tables, reading=reading)
    corpus.buckets, corpus.kept = buckets, kept
    if cache is True:
        corpus.keep()
    return corpus


def _instructions(paths: Any) -> tuple[str, ...]:
    """The absolute paths of files that the caller names."""
    listed = [paths] if isinstance(paths, (str, Path)) or not isinstance(paths, Iterable) else paths
    files = list[str]()
    for path in listed:
        file = path_of("read: 'instructions'", path).resolve()
        if not file.is_file():
            raise ParameterError(f"read: 'instructions' must be files, such as AGENTS.md. Got {str(path)!r:.200}.")
        files.append(str(file))
    return tuple(dict.fromkeys(files))


def states_at(corpus: Any, moments: Iterable[Rev]) -> list[Corpus]:
    """The folder of a corpus at each moment, read with the same options; empty before the first commit.

    Raises
    ------
    ParameterError, MemkitError, FormatError
        For a table, or a corpus without a folder; where the folder is in no repository, or git is not installed.
    """
    if not isinstance(corpus, Corpus) or not corpus.has_folder:
        raise ParameterError("texts='git': expected a corpus that was read from a folder. Got one without a folder.")
    states, before = list[Corpus](), corpus._source()
    for moment in moments:
        try:
            before = reader.read(before.root, replace(before.options, rev=rev_text(moment)), before)
            states.append(Corpus(before.tables, reading=before))
        except NotFoundError:
            states.append(Corpus({name: table.slice(0, 0) for name, table in corpus.tables.items()}))
    return states


class Sharded(Protocol):
    """The module that saves and opens buckets."""

    def Buckets(self, folder: Path, trusted: bool, /) -> Corpus: ...
    def save_buckets(self, tables: Mapping[str, pa.Table], folder: Path, count: int, attached: Writers, /) -> None: ...


LAKES = Plugins[Sharded]("memkit.lakes", as_it_is)
"""Lakes of another kind than one folder."""


@current_names
def open_lake(path: str | Path, source: str | Path | None = None, *, trust: bool = False) -> Corpus:
    """Open a snapshot (a lake) that `Corpus.save` wrote.

    A lake from an unknown source is safe to open: only its Parquet files are read, they are checked, and no code in it
    runs. Cost is linear in its size.

    Parameters
    ----------
    path : str or Path
        The folder given to `Corpus.save`.
    source : str or Path, optional
        The folder of the memories now, for `Corpus.refresh`; None is where they were read, if this process read them.
    trust : bool
        Whether the lake is your own. Then `refresh` may read the folder that the lake names, a Retriever may load the
        lake's approximate vector index (which only FAISS can check), and its files may unpack to any size.

    Returns
    -------
    Corpus
        As it was saved; a `Buckets` where it was saved in shards (buckets). `Retriever.fit` loads its indexes from the
        lake if they were saved in it with the same settings.

    Raises
    ------
    FormatError
        Where there is no saved corpus, an older or newer memkit wrote it, it holds a symbolic link, or a file was
        changed since.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.from_table({"text": ["чай"]}).save(folder)
    ...     mk.open(folder).sql("select memory_id from fts('чай')").fetchall()
    [('0',)]
    """
    place = path_of("open", path).absolute()
    if is_bucketed(place):
        return LAKES.needed("buckets").Buckets(place, trust)
    root = None if source is None else remember_root(path_of("open", source))
    tables, reading, text_index, snapshot = load(place, root, trust)
    corpus = Corpus(tables, reading=reading, text_index=text_index, folder=place, trusted=trust)
    corpus._snapshot = snapshot
    if "chunks" in tables:
        corpus.derive("vectors", lambda _: import_module(_VECTORS).saved_vectors(place, tables["chunks"]))
    return corpus


def files_of(corpus: Corpus) -> list[str]:
    """The paths of all files that a read of the corpus's folder, or of its revision, sees; none of them is opened.

    Raises
    ------
    MemkitError
        For a corpus without a folder, or with one that this process did not name.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> root = mk.testing.write_files(tempfile.mkdtemp(), {"MEMORY.md": "# Чай", "a/chat.log": "12:00"})
    >>> files_of(mk.read(root))
    ['MEMORY.md', 'a/chat.log']
    """
    reading = corpus._source()
    with listed(reading.root, reading.options) as listing:
        return sorted(listing.files)


def home(corpus: Corpus) -> Path:
    """The folder that the paths of a corpus are relative to.

    Raises
    ------
    MemkitError
        For a corpus without a folder, or with one that this process did not name.
    ChangeRefusedError
        For a corpus of a git revision: its files are not those on disk.
    """
    reading = corpus._source()
    if reading.options.rev is not None:
        raise ChangeRefusedError(f"the corpus is of revision {reading.options.rev}. Read the folder as it is.")
    return home_of(reading.root)


def exact_text(corpus: Corpus, path: str, data: bytes | None) -> str:
    """The exact text of a file, BOM and line ends included, if the file is unchanged since the corpus read it.

    Raises
    ------
    StaleSourceError
        Where the file changed since it was read, or is gone.
    ChangeRefusedError
        Where it is not UTF-8.
    """
    reading = corpus._source()
    state, surveyed = reading.files.get(path), reading.surveyed.get(path)
    if data is None:
        is_same = False
    elif isinstance(state, tuple):
        is_same = digest_of(((len(data), 0, 0, 0), data)) == state[2]
    else:
        is_same = surveyed is None or checksum(decode("", data).text.encode("utf-8", "surrogatepass")) == surveyed[1]
    if data is None or not is_same:
        raise StaleSourceError(f"{path}: it was changed since it was read. Read the folder again.", path)
    return utf8(path, data)
