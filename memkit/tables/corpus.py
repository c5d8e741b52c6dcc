"""A corpus: the tables read from a folder, and SQL over them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import Any

import duckdb
import pyarrow as pa

from memkit.display.notebook import Shown
from memkit.display.sheet import ROWS, Sheet, sheet_of_kinds
from memkit.duck import check_unicode, connect, is_table_name
from memkit.errors import MemkitError, ParameterError
from memkit.formats import reader
from memkit.formats.disk.files import is_remembered_root, remember_root
from memkit.formats.format import MARKDOWN
from memkit.formats.reader import Reading
from memkit.formats.registry import check_named, name_of
from memkit.formats.rows import Rows
from memkit.params import AsOf, check_value, path_of, revision_of
from memkit.schemas import TABLES
from memkit.tables.above import scale
from memkit.tables.database import Database, TextIndex, sql_with
from memkit.tables.lake import empty_reading, save
from memkit.tables.manifest import STATE, TEXT
from memkit.tables.named import named_query
from memkit.tables.sandbox import TIMEOUT_S
from memkit.tables.statement import as_table


class Corpus:
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
        self.tables, self.folder, self.trusted = dict(tables), folder, trusted
        self._attached: dict[str, Callable[[Path], None]] = {}
        self._reading, self._text_index = reading, text_index
        self._opened: Database | None = None
        self.buckets: int | None = None  # the default number of shards that `save` writes
        self._lock = Lock()

    @property
    def _database(self) -> Database:
        """The DuckDB database, made at the first SQL query; a search over words and vectors needs none."""
        with self._lock:
            self._opened = self._opened or Database(self.tables, self._text_index)
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
    def revision(self) -> dict[str, str]:
        """The git commit that was read (revision, revision_at, revision_path); empty where no revision was read."""
        return revision_of(self.memories)

    def sql(self, query: str, params: Any = None) -> duckdb.DuckDBPyRelation:
        """The result of a SQL query over the tables.

        Parameters
        ----------
        query : str
            DuckDB SQL; ``fts(query, k := 10)`` and ``match_bm25(memory_id, query)`` search the text. A name that is not
            a table of the corpus may be a variable of the caller: a DataFrame of pandas or Polars, or any other object
            that exports Arrow.
        params : list or dict, optional
            Values for ``?`` or ``$name``.

        Returns
        -------
        duckdb.DuckDBPyRelation
            Call ``.to_arrow_table()`` (then ``.to_pandas()``) or ``.fetchall()``; a notebook shows it as it is.

        Raises
        ------
        QueryError
            For a lone surrogate in the query or a value. DuckDB's own errors are passed on unchanged.

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
        check_unicode(query, params)
        return sql_with(self._database.cursor(query), query, params, caller)

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
        return connect().from_arrow(self.ask(query, values, timeout_s=None))

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

    def save(self, folder: str | Path, buckets: int | None = None) -> None:
        """Save a snapshot (a lake): tables and text index as Parquet, a DuckDB file for other programs, and a manifest.

        A save is atomic: a process that is killed half-way leaves the old snapshot, and a reader that opens the folder
        during a save gets either the old or the new one.

        Parameters
        ----------
        folder : str or Path
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
        Corpus(1 memories: 1 other; 0 problems)
        """
        count, path = self.buckets if buckets is None else buckets, path_of("save", folder)
        if count is None:
            save(self.tables, self._database, self._reading, self._attached, path)
        else:
            scale("split").save_buckets(self.tables, path, count, self._attached)

    def refresh(self) -> Corpus:
        """A new corpus of what the folder holds now; only files that changed are opened.

        A file has changed if its size, mtime or ctime differs and then the hash of its content does. After
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
        if reading.tables == {name: self.tables.get(name) for name in reading.tables}:
            return self._with(reading)
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

    def _with(self, reading: Reading | None) -> Corpus:
        """A copy: the same tables and index in a database of its own, so neither shows what is added to the other."""
        index = self._opened.built_index if self._opened else self._text_index
        copy = Corpus(self.tables, reading=reading, text_index=index, folder=self.folder, trusted=self.trusted)
        copy._attached, copy.buckets = self._attached.copy(), self.buckets
        return copy

    def __copy__(self, memo: object = None) -> Corpus:
        return self._with(self._reading)  # tables cannot change, and no reading is changed once it is done

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
        return f"Corpus({self.memories.num_rows} memories: {counts or 'none'}; {self.problems.num_rows} problems)"

    def _repr_html_(self) -> str:
        return Shown(*self._sheets())._repr_html_()

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> list[Sheet]:
        return [sheet_of_kinds(self.memories, self.problems.num_rows, rows, show_secrets)]


def _check_name(owner: str, name: object, what: str, taken: Container[object]) -> None:
    if not is_table_name(name) or name in taken:
        raise ParameterError(f"{owner}: 'name' must be letters, digits and '_', no {what} of memkit. Got {name!r}.")
