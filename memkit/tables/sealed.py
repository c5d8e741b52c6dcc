"""memkit's own database: it answers from the corpus's tables alone, and nothing that it is asked can leave them.

A ``where=`` is text that programs pass on from others. So what is asked is read as a syntax tree before it runs: one
SELECT, over tables of the corpus, by functions that work on values alone and make nothing large of what is small.
DuckDB itself then runs it without files, network, extensions or settings, within a limit of memory and one of time.
What a user does on a connection of the corpus is done in another database.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from memkit.duck import as_arrow, check_unicode, connect, cursor_of, identifier, limited, literal, one_value, put
from memkit.errors import QueryError, did_you_mean
from memkit.tables.fts import add_fts
from memkit.text.analyse import load_fts

_WIDE = frozenset({"text", "extra"})
"""Columns that are copied only when they are named: they are most of a corpus."""

TIMEOUT_S = 10.0
"""How long a question that anybody may have written is worked on."""

_TABLE_FUNCTIONS = frozenset({"fts", "unnest", "json_each", "json_tree"})
_TEXT_FUNCTIONS = frozenset({"fts", "match_bm25"})
# They tell of the process or change it. Those that read files are table functions.
_REFUSED = frozenset(
    {"current_setting", "getvariable", "getenv", "current_query", "nextval", "currval", "setseed", "sleep_ms"}
    | {"pg_sleep", "write_log"}
)
# A number or a few words would be enough for gigabytes, or for hours within one step, which nothing interrupts.
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
_FOR_EACH = frozenset({"list_transform", "list_apply", "array_transform", "array_apply", "apply"})
_REPLACE = frozenset({"replace", "regexp_replace"})
_WIDER = frozenset({"hex", "to_hex", "bin", "to_binary", "url_encode", "regexp_escape", "json_quote", "to_json"})
_JOINED = frozenset(
    {"||", "concat", "concat_ws", "list_concat", "list_cat", "array_cat", "array_concat", "list_append", "array_append"}
    | {"array_push_back", "list_prepend", "array_prepend", "array_push_front", "list_value", "list_pack", "array_value"}
    | {"row", "struct_pack", "struct_concat", "struct_insert", "struct_update", "map", "map_concat", "list_zip"}
    | {"array_zip", "json_object", "json_array", "json_merge_patch"}
)
MOST_COPIES = 100
"""How many times as long as what it is made of a value may get."""
_FREE_BYTES, _GROWTH = 2 * 2**30, 8
"""Memory for a question: so many bytes, and so many times those of the tables."""
_SEAL = "set temp_directory = ''; set enable_external_access = false; set lock_configuration = true"


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


class OutOfTimeError(QueryError):
    """No answer within the time that the question has."""


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
        self._room = 0
        self._lock = Lock()

    def ask(self, query: str, params: Any = None, timeout_s: float | None = TIMEOUT_S) -> pa.Table:
        """The rows of one SELECT.

        Raises
        ------
        QueryError
            Where it is something else, asks for what is not a table of the corpus, or DuckDB refuses it.
        OutOfTimeError
            Where it is at work for more than `timeout_s` seconds; None is for memkit's own questions.
        """
        check_unicode(params)
        asked = read_select(query)
        if strange := asked.tables.difference(self._tables, asked.blocks):
            name, hint = min(strange), did_you_mean(min(strange), self._tables)
            raise QueryError(f"expected a table of the corpus: {', '.join(self._tables)}. Got {name!r}.{hint}")
        with self._lock:
            con = self._opened()
            if not self._has_text and asked.functions & _TEXT_FUNCTIONS:
                add_fts(con, self._text_index())
                self._has_text = True
            for name in sorted(asked.tables.intersection(self._tables)):
                self._hold(con, name, asked)
            cursor = cursor_of(con)
        try:
            with limited(cursor, timeout_s):
                return as_arrow(cursor, query, params)
        except TimeoutError as error:
            raise OutOfTimeError(f"expected an answer within {error}. Got none; ask for less, or allow more") from None
        except duckdb.Error as error:
            raise QueryError(f"expected a SELECT over the tables of the corpus. {error}") from error

    def _opened(self) -> duckdb.DuckDBPyConnection:
        """The database; another one where the tables have outgrown it, as no setting of it can be changed."""
        room = _room(sum(table.nbytes for table in list(self._tables.values())))
        if self._con is None or room > self._room:
            con = connect()
            load_fts(con)
            most = one_value(con, "select parse_formatted_bytes(current_setting('memory_limit'))")
            con.execute(f"set memory_limit = '{min(room, most)}B'; {_SEAL}")
            self._con, self._room = con, room
            self._held, self._columns, self._has_text = {}, {}, False
        return self._con

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


def _room(n_bytes: float) -> int:
    """Memory for questions over tables of so many bytes; in steps, so that few new tables ask for a new database."""
    steps: int = math.ceil(math.log2(1 + _GROWTH * n_bytes / _FREE_BYTES))
    return int(_FREE_BYTES * 2**steps)


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
    _check_size(nodes)
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
    if large := _GENERATORS.intersection(called | opened):
        raise _too_large(repr(min(large)))
    if refused := (called & _REFUSED) | (opened - _TABLE_FUNCTIONS) | described:
        raise QueryError(f"expected tables of the corpus, and functions that work on values. Got {min(refused)!r}.")
    return frozenset(called | opened)


def _too_large(got: str) -> QueryError:
    return QueryError(f"expected what makes nothing large of what is small; corpus.sql has all of DuckDB. Got {got}.")


def _check_size(nodes: list[dict[str, Any]]) -> None:
    """Raise where a statement may go on for ever, or make values much longer than those of the tables."""
    if any(node.get("type") == "RECURSIVE_CTE_NODE" for node in nodes):
        raise _too_large("'with recursive'")
    calls = [node for node in nodes if node.get("class") == "FUNCTION"]
    within = {id(child) for call in calls if call["function_name"] == "||" for child in call["children"]}
    copies = math.prod(_copies(call) for call in calls if call["function_name"] != "||" or id(call) not in within)
    if copies > MOST_COPIES:
        raise _too_large(f"values that may get over {MOST_COPIES} times as long")


def _copies(call: Mapping[str, Any]) -> int:
    """How many times as long as its longest argument the value of a function may be."""
    name, arguments = call["function_name"].lower(), call["children"]
    if name == "||":
        return len(_leaves(call))
    if name in _JOINED:
        return max(1, sum(1 for argument in arguments if argument["class"] != "CONSTANT"))
    if name in _FOR_EACH and any(_reaches_out(node) for node in arguments if node["class"] == "LAMBDA"):
        return MOST_COPIES + 1
    if name in _REPLACE and len(arguments) > 2:
        text = arguments[2].get("value", {}).get("value")
        return len(text) + 1 if isinstance(text, str) else MOST_COPIES + 1
    return 8 if name in _WIDER else 1


def _leaves(call: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a chain of ``||`` joins, but for words of its own."""
    found, waiting = [], [*call["children"]]
    while waiting:
        node = waiting.pop()
        if node.get("function_name") == "||":
            waiting += node["children"]
        elif node["class"] != "CONSTANT":
            found.append(node)
    return found or [call]


def _reaches_out(function: Mapping[str, Any]) -> bool:
    """Whether a lambda uses more than its own parameters."""
    own, used = (
        {node["column_names"][0] for node in _nodes(part) if node.get("column_names")}
        for part in (function["lhs"], function["expr"])
    )
    return not used <= own


def _table(node: Mapping[str, Any]) -> str:
    """The name of a table, with what stands before it, which no table of the corpus has."""
    parts = (node["catalog_name"], node["schema_name"], node["table_name"])
    return ".".join(filter(None, parts)).lower()


def _statement(query: str) -> dict[str, Any]:
    """The syntax tree of one SELECT."""
    check_unicode(query)
    try:
        # No parameter: DuckDB would import pandas to look at it, a quarter of a second.
        asked = f"select json_serialize_sql({literal(query)})"
        tree: dict[str, Any] = json.loads(one_value(_parser().cursor(), asked))
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
