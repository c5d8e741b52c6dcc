"""A corpus: the tables that a folder gave, and SQL over them."""

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
from memkit.formats.disk.files import give, is_given
from memkit.formats.format import MARKDOWN
from memkit.formats.reader import Reading
from memkit.formats.registry import check_named, name_of
from memkit.formats.rows import Rows
from memkit.params import AsOf, check_value, path_of, revision_of
from memkit.schemas import TABLES
from memkit.tables.above import scale
from memkit.tables.database import Database, TextIndex, sql_with
from memkit.tables.lake import save, unread
from memkit.tables.manifest import STATE, TEXT
from memkit.tables.named import named_query
from memkit.tables.sealed import TIMEOUT_S
from memkit.tables.statement import as_table


class Corpus:
    """Memories of any formats as Arrow tables, with SQL and full text over them.

    A corpus is a snapshot: `refresh` gives a new one. Made by `memkit.read`, `memkit.from_table` or `memkit.open`.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        The tables by name; `memkit.schemas.TABLES` says what each column means.
    folder, trusted : Path or None, bool
        Where `memkit.open` found it, and whether with ``trust=True``.
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
        self._made: Database | None = None
        self.buckets: int | None = None  # how many `save` makes where it is not told
        self._lock = Lock()

    @property
    def _database(self) -> Database:
        """Made when something is asked in SQL; a search over words and vectors needs none."""
        with self._lock:
            self._made = self._made or Database(self.tables, self._text_index)
            return self._made

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
        """The folder that it was read from, where that is known in this process; None for a table or another's lake."""
        root = self._reading and self._reading.root
        return root if root and (self.trusted or is_given(root)) else None  # looking would be following

    @property
    def revision(self) -> dict[str, str]:
        """The commit that it was read from (revision, revision_at, revision_path); empty for a folder as it was."""
        return revision_of(self.memories)

    def sql(self, query: str, params: Any = None) -> duckdb.DuckDBPyRelation:
        """The result of a SQL query over the tables.

        Parameters
        ----------
        query : str
            DuckDB SQL; ``fts(query, k := 10)`` and ``match_bm25(memory_id, query)`` search the text. What is not a
            table of the corpus may be a variable of the caller: a DataFrame of pandas or Polars, or what speaks Arrow.
        params : list or dict, optional
            Values for ``?`` or ``$name``.

        Returns
        -------
        duckdb.DuckDBPyRelation
            ``.to_arrow_table()`` (and from there ``.to_pandas()``), ``.fetchall()``, or shown as it is.

        Raises
        ------
        QueryError
            For half of a character in the query or a value. DuckDB's own errors come as they are.

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
            Which one.
        as_of : str, date, datetime or None
            The day of those that ask for one; None is now.
        **params
            Of those that take any, as ``days=7``.

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
        """The rows of one SELECT that anybody may have written, and that no change on a connection shows in.

        Parameters
        ----------
        query, params
            As for `sql`; it reads no file, setting or network, and makes nothing large of what is small: no
            ``range``, ``repeat`` and their like, no recursion.
        timeout_s : float, seconds, or None
            When DuckDB is stopped; None is never, for a question of your own.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        QueryError
            Where it is something else, DuckDB refuses it, or it is at work for too long.

        Examples
        --------
        >>> import memkit as mk
        >>> mk.from_table({"text": ["чай"]}).ask("select memory_id from fts('чай')").to_pylist()
        [{'memory_id': '0'}]
        """
        check_value("Corpus.ask", "timeout_s", timeout_s, "float", nullable=True, low=0, unit="seconds")
        return self._database.ask(query, params, timeout_s)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new DuckDB connection to the tables, full text ready; closing it leaves the corpus whole.

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
        """Put one more table into `tables` and SQL, as a Retriever does with its ``chunks`` in a copy of its own.

        Parameters
        ----------
        name : str
            Lower-case letters, digits and ``_``; none of memkit's own tables.
        table : pyarrow.Table, or a DataFrame of pandas or Polars
            Takes the place of a table of that name.

        Raises
        ------
        ParameterError
            For another name, and for what is not a table whose columns have different names.

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
        """Have `save` write something more, as a Retriever does with its ``vectors`` in a copy of its own.

        Parameters
        ----------
        name : str
            Of the folder within the saved one; what was attached under it before is let go.
        write : callable
            ``write(folder)`` makes that folder and fills it.

        Raises
        ------
        ParameterError
            For a name that is not of lower-case letters, digits and ``_``, or is memkit's own.

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
        """Write tables and text index as Parquet, a DuckDB file for other programs, and a manifest.

        A save takes the place of one that is there, whole: who is killed half-way leaves the old one, and who opens it
        meanwhile gets the old or the new one.

        Parameters
        ----------
        folder : str or Path
            Made unless it exists; other files in it stay.
        buckets : int, optional
            Parts of whole users, each a lake of its own; None is as many as `memkit.read` was told, or none.

        Raises
        ------
        MemkitError, FormatError
            Where another process is saving to `folder`, or it cannot be written; where a link lies in it.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mk.from_table({"text": ["чай"]}).save(folder)
        ...     mk.open(folder)
        Corpus(1 memories: 1 other; 0 problems)
        """
        count, place = self.buckets if buckets is None else buckets, path_of("save", folder)
        if count is None:
            save(self.tables, self._database, self._reading, self._attached, place)
        else:
            scale("split").save_buckets(self.tables, place, count, self._attached)

    def refresh(self) -> Corpus:
        """A corpus of what the folder holds now; only files that changed are opened.

        A file counts as changed by its size, mtime or ctime, then by the hash of its content; after `memkit.open`, the
        indexes of an index tree are opened once more, as they decide how the others are read. Where nothing changed,
        the full-text index is taken over; else it is made again when it is first asked for.

        Returns
        -------
        Corpus

        Raises
        ------
        MemkitError
            Where the corpus was not read from a folder, or an opened one names a folder that was not given in this
            process: `memkit.open` takes ``source=`` or ``trust=True``.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     corpus = mk.read(mk.testing.write_files(folder, {"MEMORY.md": "# Чай\\n"}))
        ...     _ = mk.testing.write_files(folder, {"MEMORY.md": "# Кофе\\n"})
        ...     corpus.refresh().memories["title"].to_pylist()
        ['Кофе']
        """
        before = self._source()
        reading = reader.read(before.root, before.options, before)
        if reading.tables == {name: self.tables.get(name) for name in reading.tables}:
            return self._with(reading)
        new = Corpus(reading.tables, reading=reading, folder=self.folder, trusted=self.trusted)
        new.buckets = self.buckets
        return new

    def markdown_files(self) -> pa.Table:
        """The Markdown files below the folder that was read, whole, as they are now.

        Returns
        -------
        pyarrow.Table
            Columns path and text; those that no memory was made of are left out.

        Raises
        ------
        MemkitError
            For a corpus of no folder, or one opened from a lake that names a folder nobody gave in this process.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.read(mk.sample_data() / "notes")
        >>> corpus.markdown_files().num_rows == corpus.memories.num_rows
        True
        """
        before, known = self._source(), set(self.memories["path"].to_pylist())
        with reader.listed(before.root, before.options) as listing:
            paths = (path for path in listing.files if path in known and path.lower().endswith(MARKDOWN))
            found = [listing.read(path, Rows()) for path in paths]
        rows = [{"path": source.path, "text": source.text} for source in found if source]
        return pa.Table.from_pylist(rows, pa.schema([TABLES["memories"].field(name) for name in ("path", "text")]))

    @property
    def has_folder(self) -> bool:
        """Whether it was read from a folder, so that `refresh` has something to read again."""
        return self._reading is not None

    def _source(self) -> Reading:
        """The folder that may be read again: where it lies is known from this process, not from a lake alone."""
        if self._reading is None:
            raise MemkitError("refresh: expected a corpus of a folder. Got one without: mk.open(lake, source=folder).")
        if self.root is None:
            raise MemkitError(
                f"refresh: the lake says that it was read from {str(self._reading.root)!r:.200}, which nobody gave in "
                "this process. Use mk.open(lake, source=folder), or trust=True where the lake is your own."
            )
        check_named(() if self.trusted else self._reading.options.formats)
        return self._reading

    def _with(self, reading: Reading | None) -> Corpus:
        """The same tables and their index, in a database of their own: neither shows what is added to the other."""
        index = self._made.built_index if self._made else self._text_index
        same = Corpus(self.tables, reading=reading, text_index=index, folder=self.folder, trusted=self.trusted)
        same._attached, same.buckets = self._attached.copy(), self.buckets
        return same

    def __copy__(self, memo: object = None) -> Corpus:
        return self._with(self._reading)  # tables cannot change, and no reading is changed once it is done

    __deepcopy__ = __copy__

    def __getstate__(self) -> dict[str, Any]:
        # The database, a Retriever's arms and rules, which are code, stay in their process.
        before = self._reading and (self._reading.root, replace(self._reading.options, rules=None))
        return {"tables": self.tables, "source": before, "folder": self.folder, "trusted": self.trusted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        source = state.pop("source")
        Corpus.__init__(self, reading=source and unread(*source), **state)
        if source:
            give(source[0])
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
