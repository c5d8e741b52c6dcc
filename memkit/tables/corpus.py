"""A corpus: the tables that a folder gave, and SQL over them."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import MemkitError, ParameterError
from memkit.formats import reader
from memkit.formats.files import MAX_FILE_BYTES
from memkit.formats.index_tree import PLUGIN_GLOBS
from memkit.formats.reader import Options, Reading
from memkit.formats.rules import SEVERITIES, Rule
from memkit.params import AsOf, as_of_time, check_choice, check_value
from memkit.schemas import TABLES
from memkit.tables.database import Database, is_table_name
from memkit.tables.named import named_query


class Corpus:
    """Memories of any formats as Arrow tables, with SQL and full text over them.

    A corpus is a snapshot: `refresh` gives a new one. Made by `memkit.read`, `memkit.from_table` or `memkit.open`.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        The tables by name; `memkit.schemas.TABLES` says what each column means.
    folder : Path or None
        Where `memkit.open` found it.
    """

    def __init__(
        self,
        tables: dict[str, pa.Table],
        *,
        reading: Reading | None = None,
        database: Database | None = None,
        folder: Path | None = None,
    ) -> None:
        self.tables = dict(tables)
        self.folder = folder
        self._attached: dict[str, Callable[[Path], None]] = {}
        self._reading = reading
        self._database = database or Database(self.tables)

    @property
    def memories(self) -> pa.Table:
        """One row per memory of any format."""
        return self.tables["memories"]

    @property
    def problems(self) -> pa.Table:
        """One row per defect."""
        return self.tables["problems"]

    def sql(self, query: str, params: Any = None) -> duckdb.DuckDBPyRelation:
        """The result of a SQL query over the tables.

        Parameters
        ----------
        query : str
            DuckDB SQL; ``fts(query, k := 10)`` and ``match_bm25(memory_id, query)`` search the text.
        params : list or dict, optional
            Values for ``?`` or ``$name``.

        Returns
        -------
        duckdb.DuckDBPyRelation
            ``.df()``, ``.to_arrow_table()``, ``.fetchall()``, or shown as it is.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["Пул соединений вырос", "Release on Friday"]})
        >>> corpus.sql("select text from fts('пулы') join memories using (memory_id)").fetchall()
        [('Пул соединений вырос',)]
        """
        return self._database.cursor(query).sql(query, params=params)

    def named(self, name: str, as_of: AsOf = None) -> duckdb.DuckDBPyRelation:
        """The result of one of `memkit.named_queries`.

        Parameters
        ----------
        name : str
            Which one.
        as_of : str, date, datetime or None
            The day of those that ask for one; None is now.

        Returns
        -------
        duckdb.DuckDBPyRelation

        Raises
        ------
        ParameterError
            For a name that there is not, or an `as_of` that is no date.

        Examples
        --------
        >>> import memkit as mk
        >>> mk.from_table({"text": ["чай"]}).named("near_empty").fetchall()
        [('0', None, 3, 'чай')]
        """
        query = named_query(name)
        params = {"as_of": as_of_time(as_of)} if "$as_of" in query else None
        return self.sql(query, params)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new DuckDB connection to the tables, full text ready; closing it leaves the corpus whole.

        Returns
        -------
        duckdb.DuckDBPyConnection

        Examples
        --------
        >>> import memkit as mk
        >>> with mk.from_table({"text": ["чай", "кофе"]}).connect() as con:
        ...     con.execute("select count(*) from memories").fetchone()
        (2,)
        """
        return self._database.cursor()

    def add_table(self, name: str, table: pa.Table) -> None:
        """Put one more table into `tables` and SQL, as a Retriever does with its ``chunks``.

        Parameters
        ----------
        name : str
            Lower-case letters, digits and ``_``; none of memkit's own tables.
        table : pyarrow.Table
            Takes the place of a table of that name.

        Raises
        ------
        ParameterError
            For another name.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"text": ["чай"]})
        >>> corpus.add_table("labels", pa.table({"memory_id": ["0"], "label": ["drink"]}))
        >>> corpus.sql("select label from memories join labels using (memory_id)").fetchall()
        [('drink',)]
        """
        if not is_table_name(name) or name in TABLES:
            raise ParameterError(
                f"add_table: 'name' must be letters, digits and '_', and no table of memkit. Got {name!r}."
            )
        self._database.add(name, table)
        self.tables[name] = table

    def attach(self, name: str, write: Callable[[Path], None]) -> None:
        """Have `save` write something more, as a Retriever does with its ``vectors``.

        Parameters
        ----------
        name : str
            Of the folder within the saved one; what was attached under it before is let go.
        write : callable
            ``write(folder)`` writes it.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> corpus = mk.from_table({"text": ["чай"]})
        >>> corpus.attach("labels", lambda folder: print(folder.name))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     corpus.save(folder)
        labels
        """
        self._attached[name] = write

    def save(self, folder: str | Path) -> None:
        """Write the tables as Parquet, the DuckDB file with its index, and a manifest; see `memkit.open`.

        Where a Retriever was fitted, its arms are written too, into ``vectors``. A save takes the place of one that is
        there, whole: who is killed half-way leaves the old one.

        Parameters
        ----------
        folder : str or Path
            Made where it is not there; other files in it stay.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mk.from_table({"text": ["чай"]}).save(folder)
        ...     mk.open(folder)
        Corpus(1 memories: 1 other; 0 problems)
        """
        from memkit.tables.lake import save

        save(self.tables, self._database, self._reading, Path(folder))
        for name, write in self._attached.items():
            write(Path(folder) / name)

    def refresh(self) -> Corpus:
        """A corpus of what the folder holds now; only files that changed are opened.

        A file counts as changed by its size, mtime or ctime, then by the hash of its content; after `memkit.open`, the
        indexes of an index tree are opened once more, as they decide how the others are read. Where nothing changed,
        the database and its index are taken over; else they are made again when they are first asked for.

        Returns
        -------
        Corpus

        Raises
        ------
        MemkitError
            Where the corpus was not read from a folder.

        Examples
        --------
        >>> import memkit as mk, tempfile
        >>> from memkit.tables.samples import write_files
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     corpus = mk.read(write_files(folder, {"MEMORY.md": "# Чай\\n"}))
        ...     _ = write_files(folder, {"MEMORY.md": "# Кофе\\n"})
        ...     corpus.refresh().memories["title"].to_pylist()
        ['Кофе']
        """
        if self._reading is None:
            raise MemkitError(
                "refresh: expected a corpus of a folder. Got one without; use mk.open(lake, source=folder)."
            )
        reading = reader.read(self._reading.root, self._reading.options, self._reading)
        own = {name: self.tables[name] for name in reading.tables}
        unchanged = all(table.equals(own[name]) for name, table in reading.tables.items())
        if not unchanged:
            return Corpus(reading.tables, reading=reading, folder=self.folder)
        same = Corpus(self.tables, reading=reading, database=self._database, folder=self.folder)
        same._attached = self._attached.copy()
        return same

    def __repr__(self) -> str:
        kinds = self.memories.group_by("kind").aggregate([("memory_id", "count")]).sort_by("kind").to_pylist()
        counts = ", ".join(f"{row['memory_id_count']} {row['kind'] or 'other'}" for row in kinds)
        return f"Corpus({self.memories.num_rows} memories: {counts or 'none'}; {self.problems.num_rows} problems)"

    def _repr_html_(self) -> str:
        pairs = pa.table({"format": self.memories["format"], "kind": pc.fill_null(self.memories["kind"], "other")})
        counts = (
            pairs.group_by(["format", "kind"])
            .aggregate([([], "count_all")])
            .sort_by([("format", "ascending"), ("kind", "ascending")])
        )
        cells = "".join(
            f"<tr><td>{html.escape(row['format'])}</td><td>{html.escape(row['kind'])}</td>"
            f"<td>{row['count_all']}</td></tr>"
            for row in counts.to_pylist()
        )
        return (
            f"<table><caption>{self.memories.num_rows} memories, {self.problems.num_rows} problems</caption>"
            '<thead><tr><th scope="col">format</th><th scope="col">kind</th><th scope="col">memories</th></tr></thead>'
            f"<tbody>{cells}</tbody></table>"
        )


def read(
    path: str | Path,
    *,
    format: str | None = None,
    errors: str = "report",
    as_of: AsOf = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    plugin_globs: tuple[str, ...] = PLUGIN_GLOBS,
    rules: tuple[Rule, ...] | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Corpus:
    """Read a folder of memories, whatever of the five formats it holds.

    Nothing outside of `path` is opened, and no input raises: what is wrong is a row of ``problems``. Cost is linear in
    the bytes read.

    Parameters
    ----------
    path : str or Path
        A folder, or one file.
    format : str, optional
        Read every file as index_tree, workspace, notes, records or facts, instead of detecting each.
    errors : 'report' or 'raise'
        Whether the first problem of severity error is raised.
    as_of : str, date, datetime, optional
        The day against which dates in the future are reported, kept in the schema metadata of ``problems``; none are
        reported without it.
    max_file_bytes : int, bytes
        A larger file is a problem, and its first 64 KiB its text.
    plugin_globs : tuple of str
        Paths that an index entry must not name.
    rules : tuple of Rule, optional
        The checks; None are those of ``memkit.formats.rules.RULES``, and ``(*RULES, Rule(...))`` adds one.
    n_jobs : int, optional
        Processes, this one included, as joblib counts them (-1: one a core); None is one, which more do not beat below
        some 15,000 small files.
    progress : bool
        Show a progress bar on a terminal.

    Returns
    -------
    Corpus

    Raises
    ------
    FormatError
        Where nothing is at `path`, or with ``errors="raise"`` for the first error.
    ParameterError
        For an argument outside of what is listed here.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "MEMORY.md").write_text("# Пул\\nДесять соединений.\\n", encoding="utf-8")
    >>> read(folder).memories.select(["kind", "title"]).to_pylist()
    [{'kind': 'long_term', 'title': 'Пул'}]
    """
    check_choice("errors", errors, ("report", "raise"), "read")
    check_value("read", "max_file_bytes", max_file_bytes, "int", low=1, unit="bytes")
    check_value("read", "n_jobs", n_jobs, "int", nullable=True)
    if n_jobs == 0:
        raise ParameterError("read: 'n_jobs' must be a number of processes, or -1 for one a core. Got 0.")
    for rule in rules or ():
        check_choice("code", rule.code, SEVERITIES, "read: a rule")
    moment = None if as_of is None else as_of_time(as_of)
    own_rules = None if rules is None else tuple(rules)
    options = Options(format, moment, max_file_bytes, tuple(plugin_globs), own_rules, n_jobs, progress)
    reading = reader.read(Path(path), options)
    if errors == "raise":
        reader.raise_first_error(reading.tables["problems"])
    return Corpus(reading.tables, reading=reading)


def open_lake(folder: str | Path, source: str | Path | None = None) -> Corpus:
    """Open what `Corpus.save` wrote.

    Parameters
    ----------
    folder : str or Path
        The folder that was saved to.
    source : str or Path, optional
        Where the files are now, for `Corpus.refresh`; None is where they were read.

    Returns
    -------
    Corpus
        As it was saved; a database file that is missing or of another save is made again from the Parquet.
        `Retriever.fit` takes its arms from there, if they were saved with it and are made with the same settings.

    Raises
    ------
    FormatError
        Where there is no saved corpus, or a file of it is not what was saved.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.from_table({"text": ["чай"]}).save(folder)
    ...     mk.open(folder).sql("select memory_id from fts('чай')").fetchall()
    [('0',)]
    """
    from memkit.tables.lake import load

    tables, reading, saved = load(Path(folder), Path(source) if source is not None else None)
    return Corpus(tables, reading=reading, database=Database(dict(tables), saved), folder=Path(folder))
