"""memkit's own database: it answers from the corpus's tables alone, and nothing that it is asked can leave them.

A ``where=`` is text that programs pass on from others. So what is asked is read as a syntax tree before it runs: one
SELECT, over tables of the corpus, by functions that work on values alone. DuckDB itself then runs it without files,
network, extensions or settings. What a user does on a connection of the corpus is done in another database.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from memkit.duck import check_unicode, connect, identifier, literal, put
from memkit.errors import QueryError, did_you_mean
from memkit.tables.fts import add_fts
from memkit.text.analyse import load_fts

_WIDE = frozenset({"text", "extra"})
"""Columns that are copied only when they are named: they are most of a corpus."""

_TABLE_FUNCTIONS = frozenset({"fts", "unnest", "range", "generate_series", "json_each", "json_tree"})
_TEXT_FUNCTIONS = frozenset({"fts", "match_bm25"})
# They tell of the process or change it. Those that read files are table functions.
_REFUSED = frozenset(
    {"current_setting", "getvariable", "getenv", "current_query", "nextval", "currval", "setseed", "sleep_ms"}
    | {"pg_sleep", "write_log"}
)
_SEAL = "set enable_external_access = false; set lock_configuration = true"


@dataclass(frozen=True)
class Asked:
    """What a SELECT names, in lower case.

    Attributes
    ----------
    shape : str
        The statement but for its ``where``, as JSON.
    tables, blocks, columns, functions : frozenset of str
        All that are named anywhere in it; blocks are those of ``with``.
    is_open : bool
        Whether it may read columns that it does not name, as ``*`` does.
    """

    shape: str
    tables: frozenset[str]
    blocks: frozenset[str]
    columns: frozenset[str]
    functions: frozenset[str]
    is_open: bool


class Sealed:
    """Runs SELECTs over tables of which it holds the columns that were asked for so far.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Read at each call; another table of the same name is seen.
    text_index : callable
        Gives the tables of the full-text index.
    """

    def __init__(self, tables: Mapping[str, pa.Table], text_index: Callable[[], dict[str, pa.Table]]) -> None:
        self._tables, self._text_index = tables, text_index
        self._con: duckdb.DuckDBPyConnection | None = None
        self._held: dict[str, pa.Table] = {}
        self._columns: dict[str, list[str]] = {}
        self._has_text = False
        self._lock = Lock()

    def ask(self, query: str, params: Any = None) -> pa.Table:
        """The rows of one SELECT.

        Raises
        ------
        QueryError
            Where it is something else, asks for what is not a table of the corpus, or DuckDB refuses it.
        """
        check_unicode(params)
        asked = read_select(query)
        if strange := asked.tables.difference(self._tables, asked.blocks):
            name, hint = min(strange), did_you_mean(min(strange), self._tables)
            raise QueryError(f"expected a table of the corpus: {', '.join(self._tables)}. Got {name!r}.{hint}")
        with self._lock:
            con = self._con = self._con or self._open()
            if not self._has_text and asked.functions & _TEXT_FUNCTIONS:
                add_fts(con, self._text_index())
                self._has_text = True
            for name in sorted(asked.tables.intersection(self._tables)):
                self._hold(con, name, asked)
            cursor = con.cursor()
        try:
            return cursor.execute(query, params).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(f"expected a SELECT over the tables of the corpus. {error}") from error

    def _open(self) -> duckdb.DuckDBPyConnection:
        con = connect()
        load_fts(con)
        con.execute(_SEAL)
        return con

    def _hold(self, con: duckdb.DuckDBPyConnection, name: str, asked: Asked) -> None:
        """Have the table in the database, with the columns that may be read."""
        table = self._tables[name]
        before = self._columns[name] if self._held.get(name) is table else []
        columns = [
            column
            for column in table.column_names
            if asked.is_open or column in before or column.lower() not in _WIDE - asked.columns
        ]
        if columns == before:
            return
        put(con, identifier(name), table.select(columns))
        self._held[name], self._columns[name] = table, columns


class Scanned(Sealed):
    """The same over Parquet files, of which it reads what a SELECT needs; it can open no others.

    Parameters
    ----------
    files : mapping of str to sequence of Path
        By the name of the table.

    Examples
    --------
    >>> import pyarrow.parquet as pq, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"a": [1, 2]}), f"{folder}/t.parquet")
    ...     Scanned({"t": [Path(folder) / "t.parquet"]}).ask("select max(a) as b from t").to_pylist()
    [{'b': 2}]
    """

    def __init__(self, files: Mapping[str, Sequence[Path]]) -> None:
        super().__init__(dict.fromkeys(files), self._text_index_of_none)
        self._files = files

    def _open(self) -> duckdb.DuckDBPyConnection:
        con = connect()
        con.execute(f"set allowed_paths = {_paths(*self._files.values())}; {_SEAL}")
        return con

    def _hold(self, con: duckdb.DuckDBPyConnection, name: str, asked: Asked) -> None:
        con.execute(f"create view if not exists {identifier(name)} as from read_parquet({_paths(self._files[name])})")

    @staticmethod
    def _text_index_of_none() -> dict[str, pa.Table]:
        raise QueryError("expected a corpus in memory for fts and match_bm25. Got files that are scanned.")


def _paths(*files: Sequence[Path]) -> str:
    return f"[{', '.join(literal(str(path)) for some in files for path in some)}]"


@functools.lru_cache(maxsize=256)
def read_select(query: str) -> Asked:
    """What a SELECT names.

    Raises
    ------
    QueryError
        Where `query` is not one SELECT, or calls a function that reaches beyond values.
    """
    statement = _statement(query)
    nodes = list(_nodes(statement))
    functions = _functions(nodes)
    columns = {name.lower() for node in nodes for name in node.get("column_names", ())}
    tables = {_table(node) for node in nodes if node.get("type") == "BASE_TABLE"}
    blocks = {block["key"].lower() for node in nodes for block in node.get("cte_map", {}).get("map", ())}
    # A subquery may rename, or join by equal names; a table's own name stands for its whole row.
    is_open = bool(tables & columns) or any(node.get("type") in ("STAR", "SUBQUERY") for node in nodes)
    shape = json.dumps({**statement, "node": {**statement["node"], "where_clause": None}})
    return Asked(shape, frozenset(tables), frozenset(blocks), frozenset(columns), functions, is_open)


def _functions(nodes: list[dict[str, Any]]) -> frozenset[str]:
    called = {node["function_name"].lower() for node in nodes if node.get("class") == "FUNCTION"}
    opened = {node["function"]["function_name"].lower() for node in nodes if node.get("type") == "TABLE_FUNCTION"}
    described = {"describe" for node in nodes if node.get("type") == "SHOW_REF"}
    if refused := (called & _REFUSED) | (opened - _TABLE_FUNCTIONS) | described:
        raise QueryError(f"expected tables of the corpus, and functions that work on values. Got {min(refused)!r}.")
    return frozenset(called | opened)


def _table(node: Mapping[str, Any]) -> str:
    """The name of a table, with what stands before it, which no table of the corpus has."""
    parts = (node["catalog_name"], node["schema_name"], node["table_name"])
    return ".".join(filter(None, parts)).lower()


def _statement(query: str) -> dict[str, Any]:
    """The syntax tree of one SELECT."""
    check_unicode(query)
    try:
        (text,) = _parser().cursor().execute("select json_serialize_sql(?)", [query]).fetchone() or ("",)
        tree: dict[str, Any] = json.loads(text)
    except (duckdb.Error, RecursionError) as error:
        raise QueryError(f"expected one SELECT that can be read. Got one with {error}") from error
    if tree["error"]:
        raise QueryError(f"expected one SELECT. {tree['error_message']}")
    if len(tree["statements"]) != 1:
        raise QueryError(f"expected one SELECT. Got {len(tree['statements'])} statements.")
    statement: dict[str, Any] = tree["statements"][0]
    return statement


@functools.cache
def _parser() -> duckdb.DuckDBPyConnection:
    return connect()


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
