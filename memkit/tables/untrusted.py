"""What comes from others. Files: only regular ones inside of their folder are opened, and they are read as data. SQL: a
sandbox, memkit's own database, whose queries can read the corpus's tables and nothing else.

A lake or a saved Retriever may come from an unknown source. No link is followed, no name leads out of the folder, no
code in a file is run, and the content is checked before it is used. Every fault is a `FormatError`.

A ``where=`` may be text from an untrusted source. So a query is parsed and checked before it runs: it must be one
SELECT, over tables of the corpus, with functions that only compute values and cannot make large values of small ones.
DuckDB then runs it without files, network, extensions or settings, under a memory limit and a time limit. A user's own
connections use another database.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.checked import json_object
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
from memkit.base.hashes import digest_of_path
from memkit.errors import FormatError, QueryError, did_you_mean, refused
from memkit.schemas import ends_of
from memkit.tables.fts import add_fts
from memkit.tables.statement import within_calendar
from memkit.text.analyse import connect_fts

if TYPE_CHECKING:
    import duckdb

# As much as a file of memories may have.
MAX_JSON_BYTES = 64 * 2**20
# Guesses, far above what a table of texts unpacks to.
FREE_BYTES, GROWTH = 2**30, 100
"""The limit of what a Parquet file may unpack to: so many bytes, and so many times its own size."""
_BATCH_ROWS, _NUMBERS = 2**13, 2**20
"""Rows that are read at once, and rows of numbers alone, whose size is known: small batches take twice as long."""
# No hidden name, no way up, no drive, no stream: the same on every system.
_PART = re.compile(r"[^./\\:\x00-\x1f][^/\\:\x00-\x1f]{0,250}")
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"))


def is_member_name(name: object) -> bool:
    """Whether `name`, with '/' between its parts, can only name a file inside of a folder.

    >>> [is_member_name(name) for name in ("a.parquet", "state/a.parquet", "../a", "/a", "a//b", "c:a", ".a", 5)]
    [True, True, False, False, False, False, False, False]
    """
    return isinstance(name, str) and all(_PART.fullmatch(part) for part in name.split("/"))


def refuse_links(folder: Path, below: bool = False) -> None:
    """Raise where an entry of `folder`, or anything `below` it, is a link.

    Raises
    ------
    FormatError
    """
    left = [folder]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in sorted(entries, key=attrgetter("name")):
                if entry.is_symlink():
                    raise _link(Path(entry))
                if below and entry.is_dir():
                    left.append(Path(entry))


def open_member(folder: Path, name: str) -> BufferedReader:
    """The file `name` of `folder`, to be read.

    Raises
    ------
    FormatError
        Where the name leads out of the folder, a link is on the way, or there is no regular file.
    """
    if not is_member_name(name):
        raise refused(folder, "names of files in it", repr(name)[:200])
    path = folder
    for part in name.split("/"):
        path = path / part
        if path.is_symlink():
            raise _link(path)
    try:
        descriptor = os.open(path, _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError("a folder, pipe or device")
    except (OSError, ValueError) as error:
        raise refused(path, "a file that can be read", str(error)) from error
    return open(descriptor, "rb")  # noqa: PTH123 - a Path opens no descriptor


def mapped(file: BufferedReader) -> mmap | bytes:
    """The bytes of a file of the user's own, of which only those are read that are looked at.

    Windows removes no file that is in use so, therefore all are read there.
    """
    file.seek(0)
    return file.read() if os.name == "nt" else mmap(file.fileno(), 0, access=ACCESS_READ)


def digests(folder: Path) -> dict[str, str]:
    """The quick hashes of all files below `folder` by name, without hidden files such as locks."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            hashes[path.relative_to(folder).as_posix()] = digest_of_path(path, quick=True)
    return hashes


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file of `folder`.

    Raises
    ------
    FormatError
        Where the file is missing.
    """
    with open_member(folder, name) as file:
        data = file.read(MAX_JSON_BYTES + 1)
    try:
        if len(data) > MAX_JSON_BYTES:
            raise ValueError(f"more than {MAX_JSON_BYTES} bytes")
        return json_object(data.decode("utf-8"))
    except ValueError as error:
        raise refused(folder / name, "a JSON object", f"{type(error).__name__}: {error}") from error


def read_parquet(
    file: BufferedReader | BytesIO, where: Path, schema: pa.Schema | None = None, trust: bool = False
) -> pa.Table:
    """The table in a Parquet file, validated.

    Parameters
    ----------
    where : Path
        The path that messages name.
    schema : pa.Schema, optional
        The expected columns in this order; without it, any columns with different names are accepted.
    trust : bool
        Whether memkit wrote the file, as a hash says: its values are not looked at, and it may unpack to any size.

    Raises
    ------
    FormatError
        Where it is no Parquet file, is damaged, unpacks to more than `FREE_BYTES` and `GROWTH` allow, or has other
        columns.
    """
    with _unpacking(where):
        source = parquet().ParquetFile(file)
        if trust:
            table = source.read(use_threads=False)
        else:
            parts = map(pa.Table.from_batches, _batches(source, file, where))
            table = pa.concat_tables([source.schema_arrow.empty_table(), *parts])
        table.validate(full=not trust)  # lengths, offsets, UTF-8
    if len(set(table.column_names)) != table.num_columns:
        raise refused(where, "columns with different names", f"{table.column_names!r:.200}")
    if schema is None:
        return table
    if trust and table.schema == schema:  # but for what Parquet says of fields
        return pa.table(table.columns, schema=schema).replace_schema_metadata(table.schema.metadata)
    return declared(table, schema, where)


def declared(table: pa.Table, schema: pa.Schema, where: Path) -> pa.Table:
    """`table` with exactly the columns of `schema`, its own metadata kept.

    Raises
    ------
    FormatError
        Where a column is missing, unknown, of another type, null where it must not be, or holds dates outside of the
        years 1 to 9999.
    """
    if table.column_names != schema.names:
        raise refused(where, f"the columns {', '.join(schema.names)}", f"{', '.join(table.column_names):.300}")
    for field, column in zip(schema, table.columns, strict=True):
        if not _same_type(column.type, field.type):
            raise refused(where, f"column '{field.name}' of type {field.type}", str(column.type)[:100])
        if not field.nullable and column.null_count:
            raise refused(where, f"column '{field.name}' without nulls", f"{column.null_count} nulls")
        if pa.types.is_timestamp(field.type) and within_calendar(column).null_count > column.null_count:
            raise refused(where, f"column '{field.name}' with dates of the years 1 to 9999", "others")
    columns = [ends_of(table[field.name].cast(field.type), field) for field in schema]
    return pa.table(columns, schema=schema).replace_schema_metadata(table.schema.metadata)


def with_nulls(table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, list[str]]:
    """`table` with null columns for those of `schema` that it lacks, in the schema's order; and their names."""
    missing = [field for field in schema if field.name not in table.column_names]
    for field in missing:
        table = table.append_column(field.name, pa.nulls(table.num_rows, field.type))
    known = [name for name in schema.names if name in table.column_names]
    unknown = [name for name in table.column_names if name not in known]
    return table.select(known + unknown), [field.name for field in missing]


def check_unique(table: pa.Table, column: str, where: Path) -> None:
    """Raise where a value of `column` occurs twice.

    Raises
    ------
    FormatError
    """
    if pc.count_distinct(table[column]).as_py() != table.num_rows:
        raise refused(where, f"each {column} once", "one that occurs twice")


def _link(path: Path) -> FormatError:
    return refused(path, "a file or folder", "a link; put what it points to in its place, or remove it")


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    # Parquet has its own name for the items of a list.
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _same_type(one.value_type, other.value_type)
    return bool(one == other)


def parquet() -> Any:
    """Arrow's module for Parquet: to import it takes longer than to read a small folder, which needs none of it."""
    import pyarrow.parquet

    return pyarrow.parquet


@contextmanager
def _unpacking(where: Path) -> Iterator[None]:
    """Refuse what is no Parquet file in one way."""
    try:
        yield
    except FormatError:
        raise
    # What Arrow raises for damaged files differs from version to version.
    except (pa.ArrowException, OSError, ValueError, RuntimeError, MemoryError) as error:
        raise refused(where, "a Parquet file", str(error)[:300]) from error


def _batches(source: Any, file: BufferedReader | BytesIO, where: Path) -> Iterator[list[pa.RecordBatch]]:
    """All rows of a file, as long as they take no more than its size allows.

    What the file says of its parts is not looked at: pyarrow ends the process where that is damaged. So no more can be
    said of the first rows than that they are few.
    """
    size, held = file.seek(0, os.SEEK_END), 0
    most = FREE_BYTES + GROWTH * size
    # A run of equal values takes no room in the file, but eight bytes each once it is read.
    least = 8 * source.metadata.num_rows * source.metadata.num_columns
    is_narrow = all(pa.types.is_primitive(field.type) for field in source.schema_arrow)
    n_rows = _NUMBERS if is_narrow else _BATCH_ROWS
    for batch in source.iter_batches(n_rows, use_threads=False) if least <= most else ():
        held += batch.nbytes
        if held > most:
            break
        yield [batch]
    if max(held, least) > most:
        expected = f"at most {FREE_BYTES} bytes and {GROWTH} times its {size}"
        raise refused(where, expected, f"{max(held, least)}; open it with trust=True if it is your own")


_LARGE_COLUMNS = frozenset({"text", "extra"})
"""Columns that are copied into the sandbox only when a query names them: they hold most of a corpus's bytes."""

# A round bound: a query over 100,000 memories takes far less.
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
# A round number, which nobody writes by hand.
MAX_DEPTH = 100
"""How many brackets may be open at once, also in its texts."""
# A round number.
MAX_GROWTH = 100
"""How many times as long as its arguments a value may get."""
# Guesses: a sort or a join of all columns takes a few times their size.
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
        import duckdb

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


# A round bound: a predicate is parsed once for all batches and shards.
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
    # `bin` writes eight digits a byte, the others fewer signs.
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
    import duckdb

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


_parser = functools.cache(connect)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
