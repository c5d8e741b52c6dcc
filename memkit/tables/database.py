"""The tables of a corpus in DuckDB: made once, on first use; the full-text index when it is first asked for."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock

import duckdb
import pyarrow as pa

from memkit.duck import connect, identifier, literal
from memkit.tables.fts import build_fts, read_fts, restore_fts

_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ASKS_FOR_TEXT = re.compile(r"\b(?:fts|match_bm25)\b|fts_memkit", re.IGNORECASE)


class Database:
    """An in-memory DuckDB database over Arrow tables; every `cursor` is a connection of its own to it.

    Parameters
    ----------
    tables : dict of str to pyarrow.Table
        Copied in on first use, so that every cursor and thread sees them.
    text_index : dict of str to pyarrow.Table, optional
        A full-text index of ``memories`` that was saved (`memkit.tables.fts.TEXT_INDEX`); None builds it when it is
        first asked for.
    """

    def __init__(self, tables: dict[str, pa.Table], text_index: dict[str, pa.Table] | None = None) -> None:
        self._tables, self._text_index = tables, text_index
        self._con: duckdb.DuckDBPyConnection | None = None
        self._has_text = False
        self._lock = Lock()

    def cursor(self, query: str | None = None) -> duckdb.DuckDBPyConnection:
        """A new connection; with the full-text index unless `query` is given and does not ask for it."""
        with self._lock:
            if self._con is None:
                self._con = self._open()
            if not self._has_text and (query is None or _ASKS_FOR_TEXT.search(query)):
                if self._text_index is None:
                    build_fts(self._con)
                else:
                    restore_fts(self._con, self._text_index)
                self._has_text = True
            return self._con.cursor()

    def add(self, name: str, table: pa.Table) -> None:
        """Put one more table in, or another in its place."""
        with self._lock:
            self._tables[name] = table
            if self._con is not None:
                _create(self._con, name, table)

    def text_index(self) -> dict[str, pa.Table]:
        """The full-text index as Arrow tables, for another `Database` of the same ``memories``."""
        if self._text_index is None:
            with self.cursor() as con:
                self._text_index = read_fts(con)
        return self._text_index

    def write(self, path: Path) -> None:
        """Write the tables and the full-text index to a DuckDB file."""
        con = self.cursor()
        with self._lock:  # what is attached, every cursor sees
            con.execute(f"attach {literal(str(path))} as saved")
            try:
                con.execute("copy from database memory to saved")
            finally:
                con.execute("detach saved")

    def _open(self) -> duckdb.DuckDBPyConnection:
        con = connect()
        for name, table in self._tables.items():
            _create(con, name, table)
        return con


def is_table_name(name: str) -> bool:
    """Whether `name` may stand in SQL and in a file's name as it is."""
    return _TABLE_NAME.fullmatch(name) is not None


def _create(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    cursor = con.cursor()
    cursor.register("incoming", table)
    cursor.execute(f"create or replace table {identifier(name)} as from incoming")
    cursor.unregister("incoming")
