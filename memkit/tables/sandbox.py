"""The SQL sandbox: memkit's own database, whose queries can read the corpus's tables and nothing else.

A ``where=`` may be text from an untrusted source. So a query is parsed and checked before it runs: it must be one
SELECT, over tables of the corpus, with functions that only compute values and cannot make large values of small ones.
DuckDB then runs it without files, network, extensions or settings, under a memory limit and a time limit. A user's own
connections use another database.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from memkit.base.duck import (
    as_arrow,
    check_statement,
    check_unicode,
    connect,
    cursor_of,
    identifier,
    limited,
    literal,
    one_value,
    put,
)
from memkit.errors import QueryError, did_you_mean
from memkit.tables.fts import add_fts
from memkit.text.analyse import connect_fts

_LARGE_COLUMNS = frozenset({"text", "extra"})
"""Columns that are copied into the sandbox only when a query names them: they hold most of a corpus's bytes."""

TIMEOUT_S = 10.0
"""The default time limit of a query from an untrusted source."""

_TABLE_FUNCTIONS = frozenset({"fts", "unnest", "json_each", "json_tree"})
_TEXT_FUNCTIONS = frozenset({"fts", "match_bm25"})
# They reveal or change the state of the process. Functions that read files are table functions.
_REFUSED = frozenset(
    {"current_setting", "getvariable", "getenv", "current_query", "nextval", "currval", "setseed", "sleep_ms"}
    | {"pg_sleep", "write_log", "setval"}
)
# A short argument would be enough for gigabytes, or for hours within one step that cannot be interrupted. Limits of
# time and memory do not reach in there: with 1 s and 2 GB, len(range(1e9)) went on for over 40 s, and three replace
# took 6.8 GB.
_GENERATORS = frozenset(
    {
        "range",
        "generate_series",
        "repeat",
        "repeat_row",
        "lpad",
        "rpad",
        "format",
        "printf",
        "to_base",
        "bar",
        "bitstring",
    }
    | {"list_resize", "array_resize", "equi_width_bins", "list_reduce", "array_reduce", "reduce", "approx_top_k"}
    | {"reservoir_quantile", "levenshtein", "editdist3", "damerau_levenshtein", "jaro_similarity"}
    | {"jaro_winkler_similarity"}
)
_LIST_MAPS = frozenset({"list_transform", "list_apply", "array_transform", "array_apply", "apply"})
_REPLACE = frozenset({"replace", "regexp_replace"})
_EXPANDING = frozenset({"hex", "to_hex", "bin", "to_binary", "url_encode", "regexp_escape", "json_quote", "to_json"})
_JOINED = frozenset(
    {"||", "concat", "concat_ws", "list_concat", "list_cat", "array_cat", "array_concat", "list_append", "array_append"}
    | {"array_push_back", "list_prepend", "array_prepend", "array_push_front", "list_value", "list_pack", "array_value"}
    | {"row", "struct_pack", "struct_concat", "struct_insert", "struct_update", "map", "map_concat", "list_zip"}
    | {"array_zip", "json_object", "json_array", "json_merge_patch", "json_deep_merge", "json_merge_patch_diff"}
    | {"json_set", "json_insert", "json_replace", "overlay", "path_join"}
)
MAX_DEPTH = 100
"""How many brackets may be open at once, also in its texts."""
MAX_GROWTH = 100
"""How many times as long as its arguments a value may get."""
_FREE_BYTES, _BYTES_PER_BYTE = 2 * 2**30, 8
"""Memory for a query: so many bytes, and so many per byte of the tables."""
_LOCK_DOWN = "set temp_directory = ''; set enable_external_access = false; set lock_configuration = true"


@dataclass(frozen=True)
class SelectStatement:
    """The names in a SELECT, in lower case.

    Attributes
    ----------
    shape : str
        The statement without its ``where``, as JSON.
    tables, blocks, columns, functions : frozenset of str
        Every name anywhere in it; blocks are the names after ``with``.
    reads_all_columns : bool
        Whether it may read columns that it does not name, as ``*`` does.
    """

    shape: str
    tables: frozenset[str]
    blocks: frozenset[str]
    columns: frozenset[str]
    functions: frozenset[str]
    reads_all_columns: bool


class QueryTimeoutError(QueryError):
    """The query was stopped at its time limit."""


class Sandbox:
    """Runs SELECTs over tables; it loads a table, or one of the large columns, when a query first names it.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Looked up at each call, so a table that was replaced is loaded again.
    text_index : callable
        Returns the tables of the full-text index.
    absent : callable, optional
        Returns why there is no table of a name; empty where nothing is known.
    """

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        text_index: Callable[[], dict[str, pa.Table]],
        absent: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._tables, self._text_index, self._absent = tables, text_index, absent
        self._con: duckdb.DuckDBPyConnection | None = None
        self._loaded: dict[str, pa.Table] = {}
        self._columns: dict[str, list[str]] = {}
        self._has_text = False
        self._memory_limit = 0
        self._lock = Lock()

    def ask(self, query: str, params: Any = None, timeout_s: float | None = TIMEOUT_S) -> pa.Table:
        """The rows of one SELECT.

        Raises
        ------
        QueryError
            Where it is not one SELECT, names a table that the corpus does not have, or DuckDB refuses it.
        QueryTimeoutError
            Where it takes more than `timeout_s` seconds; memkit's own queries pass None, for no limit.
        """
        check_unicode(params)
        select = parse_select(query)
        if unknown := select.tables.difference(self._tables, select.blocks):
            if why := next(filter(None, map(self._absent, sorted(unknown))), ""):
                raise QueryError(why)
            name, hint = min(unknown), did_you_mean(min(unknown), self._tables)
            raise QueryError(f"expected a table of the corpus: {', '.join(self._tables)}. Got {name!r}.{hint}")
        with self._lock:
            con = self._connection()
            if not self._has_text and select.functions & _TEXT_FUNCTIONS:
                add_fts(con, self._text_index())
                self._has_text = True
            for name in sorted(select.tables.intersection(self._tables)):
                self._load(con, name, select)
            cursor = cursor_of(con)
        try:
            with limited(cursor, timeout_s):
                return as_arrow(cursor, query, params)
        except TimeoutError as error:
            raise QueryTimeoutError(
                f"expected an answer within {error}. Got none; ask for less, or allow more"
            ) from None
        except duckdb.Error as error:
            raise QueryError(f"expected a SELECT over the tables of the corpus. {error}") from error

    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The database; a new one where the tables have outgrown its memory limit, as its settings are locked."""
        limit = _memory_limit(sum(table.nbytes for table in list(self._tables.values())))
        if self._con is None or limit > self._memory_limit:
            con = connect_fts()
            default_limit = _in_bytes(one_value(con, "select current_setting('memory_limit')"))
            con.execute(f"set memory_limit = '{min(limit, default_limit)}B'; {_LOCK_DOWN}")
            self._con, self._memory_limit = con, limit
            self._loaded, self._columns, self._has_text = {}, {}, False
        return self._con

    def _load(self, con: duckdb.DuckDBPyConnection, name: str, select: SelectStatement) -> None:
        """Load the table into the database, with the columns that the statement may read."""
        table = self._tables[name]
        loaded = self._columns[name] if self._loaded.get(name) is table else []
        columns = [
            column
            for column in table.column_names
            if select.reads_all_columns or column in loaded or column.lower() not in _LARGE_COLUMNS - select.columns
        ]
        if columns == loaded:
            return
        put(con, identifier(name), table.select(columns))
        self._loaded[name], self._columns[name] = table, columns


def _in_bytes(shown: str) -> int:
    """A size as DuckDB shows it; its own function for that is not in 1.4."""
    number, unit = shown.split()
    return int(float(number) * 1024 ** ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit))


def _memory_limit(n_bytes: float) -> int:
    """The memory limit for tables of so many bytes; in steps, so that new tables rarely need a new database."""
    steps: int = math.ceil(math.log2(1 + _BYTES_PER_BYTE * n_bytes / _FREE_BYTES))
    return int(_FREE_BYTES * 2**steps)


@functools.lru_cache(maxsize=256)
def parse_select(query: str) -> SelectStatement:
    """The names in a SELECT.

    Raises
    ------
    QueryError
        Where `query` is not one SELECT, or calls a function that is not allowed.
    """
    statement = _statement(query)
    nodes = list(_nodes(statement))
    functions = _functions(nodes)
    _check_size(nodes)
    columns = {name.lower() for node in nodes for name in node.get("column_names", ())}
    tables = {_table(node) for node in nodes if node.get("type") == "BASE_TABLE"}
    blocks = {block["key"].lower() for node in nodes for block in node.get("cte_map", {}).get("map", ())}
    # A subquery may rename, or join by equal names; a table's own name stands for its whole row.
    reads_all_columns = bool(tables & columns) or any(node.get("type") in ("STAR", "SUBQUERY") for node in nodes)
    shape = json.dumps({**statement, "node": {**statement["node"], "where_clause": None}})
    return SelectStatement(
        shape, frozenset(tables), frozenset(blocks), frozenset(columns), functions, reads_all_columns
    )


def _functions(nodes: list[dict[str, Any]]) -> frozenset[str]:
    functions = {node["function_name"].lower() for node in nodes if node.get("class") == "FUNCTION"}
    table_functions = {
        node["function"]["function_name"].lower() for node in nodes if node.get("type") == "TABLE_FUNCTION"
    }
    describe = {"describe" for node in nodes if node.get("type") == "SHOW_REF"}
    if large := _GENERATORS.intersection(functions | table_functions):
        raise _too_large(repr(min(large)))
    if refused := (functions & _REFUSED) | (table_functions - _TABLE_FUNCTIONS) | describe:
        raise QueryError(f"expected tables of the corpus, and functions that work on values. Got {min(refused)!r}.")
    return frozenset(functions | table_functions)


def _too_large(got: str) -> QueryError:
    return QueryError(
        f"expected a query that cannot make large values of small ones; corpus.sql has all of DuckDB. Got {got}."
    )


def _check_size(nodes: list[dict[str, Any]]) -> None:
    """Raise where a statement may never end, or may make values much longer than those in the tables."""
    if any(node.get("type") == "RECURSIVE_CTE_NODE" for node in nodes):
        raise _too_large("'with recursive'")
    calls = [node for node in nodes if node.get("class") == "FUNCTION"]
    nested = {id(child) for call in calls if call["function_name"] == "||" for child in _arguments(call)}
    growth = math.prod(_growth(call) for call in calls if call["function_name"] != "||" or id(call) not in nested)
    if growth > MAX_GROWTH:
        raise _too_large(f"values that may get over {MAX_GROWTH} times as long")


def _growth(call: Mapping[str, Any]) -> int:
    """The most times as long as its longest argument that a function's value can be."""
    name, arguments = call["function_name"].lower(), _arguments(call)
    if name == "||":
        return len(_leaves(call))
    if name in _JOINED:
        return max(1, sum(1 for argument in arguments if argument["class"] != "CONSTANT"))
    if name in _LIST_MAPS and any(_reaches_out(node) for node in arguments if node["class"] == "LAMBDA"):
        return MAX_GROWTH + 1
    if name in _REPLACE and len(arguments) > 2:
        text = _constant(arguments[2])
        if not isinstance(text, str):
            return MAX_GROWTH + 1
        what = _constant(arguments[1]) if name == "replace" else None  # a pattern may match between two letters
        return max(1, -(-len(text) // len(what))) if isinstance(what, str) and what else len(text) + 1
    return 8 if name in _EXPANDING else 1


def _arguments(call: Mapping[str, Any]) -> list[Any]:
    """The arguments of a function. DuckDB 2 gives each a name."""
    return [*call["children"]] if "children" in call else [argument["expression"] for argument in call["arguments"]]


def _constant(node: Mapping[str, Any]) -> Any:
    """The value of a constant, None where it is null or something else. DuckDB 2 gives it as it was written."""
    if "literal" in node:
        return node["literal"]["text"] if node["literal"]["kind"] == "STRING" else None
    return node.get("value", {}).get("value")


def _leaves(call: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a chain of ``||`` joins, without the constants."""
    leaves, pending = [], _arguments(call)
    while pending:
        node = pending.pop()
        if node.get("function_name") == "||":
            pending += _arguments(node)
        elif node["class"] != "CONSTANT":
            leaves.append(node)
    return leaves or [call]


def _reaches_out(function: Mapping[str, Any]) -> bool:
    """Whether a lambda uses more than its own parameters."""
    parameters, used = (
        {node["column_names"][0] for node in _nodes(part) if node.get("column_names")}
        for part in (function["lhs"], function["expr"])
    )
    return not used <= parameters


def _table(node: Mapping[str, Any]) -> str:
    """The full name of a table; with a catalog or schema before it, it is no table of the corpus."""
    parts = (node["catalog_name"], node["schema_name"], node["table_name"])
    return ".".join(filter(None, parts)).lower()


def _statement(query: str) -> dict[str, Any]:
    """The syntax tree of one SELECT."""
    check_statement(query)
    _check_depth(query)
    try:
        # No parameter: DuckDB would import pandas to look at it, a quarter of a second.
        sql = f"select json_serialize_sql({literal(query)})"
        tree: dict[str, Any] = json.loads(one_value(_parser().cursor(), sql))
    except (duckdb.Error, RecursionError) as error:
        raise QueryError(f"expected one SELECT that can be read. Got one with {error}") from error
    if tree["error"]:
        raise QueryError(f"expected one SELECT. {tree['error_message']}")
    if len(tree["statements"]) != 1:
        raise QueryError(f"expected one SELECT. Got {len(tree['statements'])} statements.")
    statement: dict[str, Any] = tree["statements"][0]
    return statement


def _check_depth(query: str) -> None:
    """Refuse deep nesting before it is parsed: DuckDB 2 takes time with its square, and cannot be interrupted there."""
    depth = max(accumulate((1 if sign in "([{" else -1) for sign in re.findall(r"[][(){}]", query)), default=0)
    if depth > MAX_DEPTH:
        raise QueryError(f"expected at most {MAX_DEPTH} brackets within one another. Got {depth}.")


@functools.cache
def _parser() -> duckdb.DuckDBPyConnection:
    return connect()


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
