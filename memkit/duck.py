"""DuckDB as memkit uses it: the one place that connects, and the quoting of what stands in a statement."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from memkit.errors import QueryError

LONE_SURROGATE = re.compile("[\\ud800-\\udfff]")
"""Half of a character, as broken JSON gives it: no text for Arrow or DuckDB, whose own words for it are no help."""

_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

# Nothing is fetched, and no file of another program's is loaded because a function's name asks for it.
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
# For every cursor, which is a session of its own: days are UTC's. And the optimizer that repeats a block's expressions
# in the filters of those who read the block is off: a policy's verdict would be worked out twice. In a notebook and
# under ``python -c`` a statement of two seconds would print its progress into the output.
_SETTINGS = """set global timezone = 'UTC';
set global disabled_optimizers = 'cte_filter_pusher';
set enable_progress_bar = false"""


def connect() -> duckdb.DuckDBPyConnection:
    """A new database in memory that counts time in UTC and never fetches or loads an extension by itself.

    Examples
    --------
    >>> with connect() as con:
    ...     one_value(con, "select current_setting('TimeZone')")
    'UTC'
    """
    con = duckdb.connect(":memory:", config=_OFFLINE)
    con.execute(_SETTINGS)
    return _noted(con)


def cursor_of(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A new connection to the database of `con`, which Ctrl-C stops as well."""
    return _noted(con.cursor())


_at_work: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
_at_work_lock = threading.Lock()
# A relation of DuckDB 1.4 does not keep its connection alive: the last ones stay, for results that are still looked at.
_kept: deque[duckdb.DuckDBPyConnection] = deque(maxlen=256 if duckdb.__version__.startswith("1.4.") else 0)


def _noted(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    with _at_work_lock:
        _at_work.add(con)
        _kept.append(con)
    return con


@contextlib.contextmanager
def limited(con: duckdb.DuckDBPyConnection, timeout_s: float | None) -> Iterator[None]:
    """What `con` does in this block is `interruptible`, and ends with `TimeoutError` after so many seconds, if any."""
    if timeout_s is None:
        with interruptible():
            yield
        return
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        con.interrupt()

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    try:
        with interruptible():
            yield
    except duckdb.InterruptException:
        if is_late.is_set():
            raise TimeoutError(f"{timeout_s:g} seconds") from None
        raise
    finally:
        timer.cancel()
        timer.join()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """What DuckDB does in this block ends with Ctrl-C as Python's own work does, by KeyboardInterrupt.

    DuckDB says RuntimeError, and its threads go on until the statement is done: whoever closes the connection, as the
    end of the process does, waits for them. So they are told to stop.
    """
    try:
        yield
    except RuntimeError as error:
        if error.__cause__ is None or isinstance(error.__cause__, Exception):
            raise
        with _at_work_lock:
            known = list(_at_work)
        for con in known:
            with contextlib.suppress(duckdb.Error):  # one that was closed
                con.interrupt()
        raise error.__cause__ from None


def session() -> duckdb.DuckDBPyConnection:
    """A connection to the process's own database, for work that leaves nothing there but what goes with it.

    Registered and temporary tables do. A database of one's own takes 12 ms, and 40 more to load full text into it.

    Examples
    --------
    >>> with session() as con:
    ...     con.execute("create temp table a as select 1 as b").fetchall()
    [(1,)]
    >>> session().sql("show tables").fetchall()
    []
    """
    con = cursor_of(_own(os.getpid()))
    if _is_interactive():
        con.execute("set enable_progress_bar = false")  # which a cursor does not take over
    return con


@functools.cache
def _own(process: int) -> duckdb.DuckDBPyConnection:
    return connect()  # one each: a forked process has its parent's memory and none of its threads


@functools.cache
def _is_interactive() -> bool:
    """Whether DuckDB takes this process, once and for all, for one in which somebody looks on."""
    with _own(os.getpid()).cursor() as con:
        return bool(one_value(con, "select current_setting('enable_progress_bar')"))


def one_value(con: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] | None = None) -> Any:
    """The value of a statement that gives one row of one column.

    All rows are fetched: after a ``fetchone`` DuckDB 2 refuses further work on the connection.

    >>> one_value(session(), "select ? + 1", [1])
    2
    """
    ((value,),) = con.execute(sql, values).fetchall()
    return value


def as_arrow(con: duckdb.DuckDBPyConnection, sql: str, values: Any = None) -> pa.Table:
    """The rows of one SELECT, by way of a relation: what is executed gives Arrow by another name in each DuckDB.

    >>> as_arrow(session(), "select ? + 1 as a", [1]).to_pylist()
    [{'a': 2}]
    """
    return con.sql(sql, params=values).to_arrow_table()


def rows_of(sql: str, values: Mapping[str, Any] | None = None, /, **tables: pa.Table) -> pa.Table:
    """The rows of a statement over the tables that it names.

    >>> rows_of("select a + $more as b from t", {"more": 1}, t=pa.table({"a": [1]})).to_pylist()
    [{'b': 2}]
    """
    with session() as con, interruptible():
        for name, table in tables.items():
            con.register(name, table)
        return as_arrow(con, sql, values)


def put(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Make or replace a table of the database; `name` stands in SQL as it is."""
    con.register("incoming", table)
    with interruptible():
        con.execute(f"create or replace table {name} as from incoming")
    con.unregister("incoming")


def check_unicode(*values: Any) -> None:
    """Raise where a text, be it within lists and dictionaries, holds half of a character.

    Raises
    ------
    QueryError
    """
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and LONE_SURROGATE.search(value):
            raise QueryError(f"expected Unicode characters. Got half of one in {value!r:.200}.")
        if isinstance(value, Mapping):
            waiting += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            waiting += value


def literal(text: str) -> str:
    """`text` as a SQL string, for where a statement takes no parameter.

    >>> print(literal("it's"))
    'it''s'
    """
    check_unicode(text)
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"  # a statement ends at the character 0


def literals(words: Iterable[str]) -> str:
    """Words as the inside of ``in (…)``.

    >>> print(literals(["note", "it's"]))
    'note', 'it''s'
    """
    return ", ".join(map(literal, words))


def identifier(name: str) -> str:
    """`name` as the name of a table or column, whatever it holds.

    >>> print(identifier('a "b"'))
    "a ""b""\"
    """
    return '"' + name.replace('"', '""') + '"'


@functools.lru_cache(64)
def laid_out(sql: str, width: int = 100) -> str:
    """`sql` with its long lines broken where a reader would, at the whens, commas and conditions furthest outside.

    Texts and comments stay as they are, so the statement stays the same.

    >>> print(laid_out("select a, case when b = 'x, y' then 1 else 2 end as c from d", 30))
    select a,
        case
            when b = 'x, y' then 1
            else 2
        end as c
    from d
    """
    return "\n".join(part for line in _LINE.findall(sql) for part in _broken(line, width)).rstrip("\n")


_LITERAL = r"'(?:[^']|'')*'|\"[^\"]*\"|--.*"
_LINE = re.compile(rf"((?:{_LITERAL}|[^'\"\n-]++|[-'\"])*+)(?:\n|$)")  # a text may hold the end of a line
_WORDS = re.compile(
    rf"{_LITERAL}|[()]|,(?= )|\b(?:between .*? and|case|when|else|end|then|and|or|from|where|order by)\b"
)
_LATER = {"and": 0.25, "or": 0.25, "then": 0.5}  # within the when or where that they belong to
_ENDS = re.compile(r"(end|from|where)\b")


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    depth, places = 0, dict[tuple[bool, float], list[int]]()
    for found in _WORDS.finditer(line):
        word = found[0]
        if word == ",":
            places.setdefault((depth > 0, depth), []).append(found.end())
        elif word[0].isalpha() and word != "case" and " and" not in word and found.start() > len(indent):
            places.setdefault((False, depth + _LATER.get(word, 0.0)), []).append(found.start())
        depth += {"(": 1, "case": 1, ")": -1, "end": -1}.get(word, 0)
    if not places:
        return [line]
    bounds = [0, *places[min(places)], len(line)]  # within a call only where nothing else is left
    parts = [line[start:end].strip() for start, end in itertools.pairwise(bounds)]
    deeper = [indent + ("" if _ENDS.match(part) else "    ") + part for part in parts[1:]]
    return [shorter for part in (indent + parts[0], *deeper) for shorter in _broken(part, width)]


def is_table_name(name: object) -> bool:
    """Whether `name` may stand in SQL and in a file's name as it is."""
    return isinstance(name, str) and _TABLE_NAME.fullmatch(name) is not None


def printable(table: Any) -> duckdb.DuckDBPyRelation:
    """A table or relation with a name of its own for each column, and with text for what Python has no object for."""
    found = session().from_arrow(table) if not hasattr(table, "project") else table
    return _projected(found, lambda name, kind: _AS_TEXT.get(re.split("[ _]", kind.id)[0], "{0}").format(name, kind))


# Python's dates have no infinity; a union holds either. Its intervals have no months, and none of many years.
_ENDLESS = "case when isinf({0}) then {0}::varchar::union(v {1}, t varchar) else {0}::union(v {1}, t varchar) end"
_AS_TEXT = {"date": _ENDLESS, "timestamp": _ENDLESS, "interval": "{0}::varchar"}


def worded(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """`relation` with words for days, times and whatever is made of parts: not all of them are objects for Arrow."""
    return _projected(relation, lambda name, kind: _words(name, str(kind)))


def _projected(relation: duckdb.DuckDBPyRelation, value: Callable[[str, Any], str]) -> duckdb.DuckDBPyRelation:
    """`relation` with other values under its names, each of which comes once from here on."""
    found = relation.select("*")
    columns = zip(map(identifier, found.columns), found.types, strict=True)
    return found.project(", ".join(f"{value(name, kind)} as {name}" for name, kind in columns))


def _words(name: str, kind: str) -> str:
    if kind.startswith(("DATE", "TIMESTAMP")) and not kind.endswith("]"):
        return rf"regexp_replace({name}::varchar, '( 00:00:00|:\d\d(\.\d+)?)(\+00)?( \(BC\))?$', '\4')"
    return f"{name}::varchar" if _PARTS.search(kind) else name


_PARTS = re.compile("DATE|TIME|INTERVAL|STRUCT|MAP|UNION|VARIANT")
