"""DuckDB as memkit uses it: the only place that connects, and the quoting of values and names in statements.

It is imported where it is first used, here and in all of memkit: a question of a few words needs none of its 70 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.base.checked import LONE_SURROGATE
from memkit.errors import QueryError

if TYPE_CHECKING:
    import duckdb

_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_NAMED_INTERRUPT = re.compile(r"(?:[^\n]* failed: )?KeyboardInterrupt:(?: <EMPTY MESSAGE>)?[ ]*(?:\n|\Z)")
"""How DuckDB's error begins where Ctrl-C came in Python code that it called; since 2.0 it says first what failed."""

# DuckDB must not download extensions, or load an installed one because a function's name needs it.
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
# Days are in UTC on every cursor, which is a session of its own. The optimizer that pushes filters into a CTE is off: a
# policy's verdict would be computed twice. Without the last setting, a statement of two seconds would print a progress
# bar into the output of a notebook or of ``python -c``.
_SETTINGS = """set global timezone = 'UTC';
set global disabled_optimizers = 'cte_filter_pusher';
set enable_progress_bar = false"""


def connect(**config: str | bool | int) -> duckdb.DuckDBPyConnection:
    """A new database in memory, with times in UTC, that never downloads or loads an extension by itself.

    `config` adds to DuckDB's configuration.

    Examples
    --------
    >>> with connect() as con:
    ...     one_value(con, "select current_setting('TimeZone')")
    'UTC'
    """
    import duckdb

    con = duckdb.connect(":memory:", config={**_OFFLINE, **config})
    con.execute(_SETTINGS)
    return _registered(con)


def cursor_of(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A new connection to the database of `con`, which Ctrl-C can interrupt as well."""
    return _registered(con.cursor())


_connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
_connections_lock = threading.Lock()


@functools.cache
def _recent() -> deque[duckdb.DuckDBPyConnection]:
    import duckdb

    # A relation of DuckDB 1.4 does not keep its connection alive, so the latest connections are kept for results in
    # use. One kept beside its relation alone would end with it, while what was derived from it is still in use.
    return deque(maxlen=256 if duckdb.__version__.startswith("1.4.") else 0)


def _registered(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    with _connections_lock:
        _connections.add(con)
        _recent().append(con)
    return con


@contextlib.contextmanager
def limited(con: duckdb.DuckDBPyConnection, timeout_s: float | None) -> Iterator[None]:
    """Make the work of `con` in this block `interruptible`, and raise `TimeoutError` after `timeout_s` seconds."""
    import duckdb

    if timeout_s is None:
        with interruptible():
            yield
        return
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        con.interrupt()

    timer = threading.Timer(timeout_s, stop)
    # A process that ends need not wait for it.
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
        # Else it might interrupt the next statement of the connection.
        timer.join()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Make Ctrl-C end DuckDB's work in this block with KeyboardInterrupt, as it ends Python's own work.

    DuckDB raises RuntimeError, and its threads go on until the statement is done; closing the connection, also at the
    end of the process, would wait for them. So all connections are interrupted. Where Ctrl-C comes while DuckDB has
    Python hand it an Arrow table, its error has the exception's name only.
    """
    try:
        yield
    except Exception as error:
        import duckdb

        if not isinstance(error, (RuntimeError, duckdb.Error)):
            raise
        is_named = isinstance(error, duckdb.Error) and _NAMED_INTERRUPT.match(str(error))
        interrupt = KeyboardInterrupt() if is_named else error.__cause__
        if interrupt is None or isinstance(interrupt, Exception):
            raise
        with _connections_lock:
            connections = list(_connections)
        for con in connections:
            with contextlib.suppress(duckdb.Error):  # one that was closed
                con.interrupt()
        raise interrupt from None


def session() -> duckdb.DuckDBPyConnection:
    """A connection to a database that the process shares, for work with registered and temporary tables only.

    These go with the connection. A new database would take 12 ms, and 40 more to load full-text search into it.

    Examples
    --------
    >>> with session() as con:
    ...     con.execute("create temp table a as select 1 as b").fetchall()
    [(1,)]
    >>> session().sql("show tables").fetchall()
    []
    """
    con = cursor_of(_shared(os.getpid()))
    if _is_interactive():
        con.execute("set enable_progress_bar = false")  # a cursor does not inherit the setting
    return con


_OF_SHARED: dict[str, str | bool | int] = {"allow_unsigned_extensions": True, "allocator_flush_threshold": "1MB"}


@functools.cache
def _shared(process: int) -> duckdb.DuckDBPyConnection:
    # One each: a forked process has its parent's memory and none of its threads. Only memkit's own statements run here,
    # and the one extension that they load is part of an installed package, as other libraries are: to verify DuckDB's
    # signature of it would take longer than to load it. What a statement over many texts took goes back to the system:
    # by default DuckDB keeps it until it is 128 MB.
    con = connect(**_OF_SHARED)
    # DuckDB 2 prints what a database with a Python function left when the process ends.
    atexit.register(con.close)
    return con


def use_one_thread() -> None:
    """Have memkit's own statements run in one thread from now on: for little work, others cost more than they do."""
    _OF_SHARED["threads"] = 1
    if _shared.cache_info().currsize:
        session().execute("set threads = 1")


@functools.cache
def _is_interactive() -> bool:
    """Whether DuckDB takes this process for an interactive one, in which it shows progress bars."""
    with _shared(os.getpid()).cursor() as con:
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
    """The rows of one SELECT; a cursor's method for Arrow has another name in each DuckDB.

    >>> as_arrow(session(), "select ? + 1 as a", [1]).to_pylist()
    [{'a': 2}]
    """
    import duckdb

    if values is None or not duckdb.__version__.startswith("1."):  # whose cursors copy rows once more, and warn of it
        return con.sql(sql, params=values).to_arrow_table()
    # In DuckDB 1 a relation with parameters is computed value by value, at twelve times the cost of a cursor.
    cursor = con.execute(sql, values)
    return (cursor.to_arrow_table if hasattr(cursor, "to_arrow_table") else cursor.fetch_arrow_table)()


def rows_of(sql: str, values: Mapping[str, Any] | None = None, /, **tables: pa.Table) -> pa.Table:
    """The rows of a statement over the tables passed by name.

    >>> rows_of("select a + $more as b from t", {"more": 1}, t=pa.table({"a": [1]})).to_pylist()
    [{'b': 2}]
    """
    with session() as con, interruptible():
        for name, table in tables.items():
            con.register(name, table)
        return as_arrow(con, sql, values)


@contextlib.contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All statements of the block or none; many small ones take less than half as long as with a commit for each."""
    import duckdb

    try:
        con.begin()
        yield
        con.commit()
    # A Ctrl-C too leaves no half of a transaction.
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # there is none, or it is over
            con.rollback()
        raise


def put(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Create or replace a table of the database; `name` is put into SQL as it is."""
    con.register("incoming", table)
    with interruptible():
        con.execute(f"create or replace table {name} as from incoming")
    con.unregister("incoming")


def check_unicode(*values: Any) -> None:
    """Raise where a text, also within lists and dictionaries, holds half of a character (a lone surrogate).

    Arrow and DuckDB refuse it with messages that do not help.

    Raises
    ------
    QueryError
    """
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, str) and LONE_SURROGATE.search(value):
            raise QueryError(f"expected Unicode characters. Got half of one in {value!r:.200}.")
        if isinstance(value, Mapping):
            pending += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            pending += value


def check_statement(query: object) -> None:
    """Raise where somebody's SQL holds half of a character, or NUL: DuckDB would leave out what comes after it.

    Raises
    ------
    QueryError
    """
    check_unicode(query)
    if isinstance(query, str) and "\0" in query:
        raise QueryError(f"expected SQL without NUL; chr(0) is one in a text. Got {query!r:.200}.")


def literal(text: str) -> str:
    """`text` as a SQL string literal, for places where a statement takes no parameter.

    >>> print(literal("it's"))
    'it''s'
    """
    check_unicode(text)
    if "\0" in text:  # at which a statement ends; a chain of || would be as deep as the text has of them
        return f"decode(from_hex('{text.encode().hex()}'))"
    return "'" + text.replace("'", "''") + "'"


def literals(words: Iterable[str]) -> str:
    """Words as the inside of ``in (…)``.

    >>> print(literals(["note", "it's"]))
    'note', 'it''s'
    """
    return ", ".join(map(literal, words))


def identifier(name: str) -> str:
    """`name` quoted as the name of a table or column.

    >>> print(identifier('a "b"'))
    "a ""b""\"
    """
    return '"' + name.replace('"', '""') + '"'


# A panel shows the same statements at each move of a slider.
@functools.lru_cache(64)
def laid_out(sql: str, width: int = 100) -> str:
    """`sql` with long lines broken at the outermost ``when``, comma or condition.

    String literals and comments stay as they are, so the statement means the same.

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
    for match in _WORDS.finditer(line):
        word = match[0]
        if word == ",":
            places.setdefault((depth > 0, depth), []).append(match.end())
        elif word[0].isalpha() and word != "case" and " and" not in word and match.start() > len(indent):
            places.setdefault((False, depth + _LATER.get(word, 0.0)), []).append(match.start())
        depth += {"(": 1, "case": 1, ")": -1, "end": -1}.get(word, 0)
    if not places:
        return [line]
    bounds = [0, *places[min(places)], len(line)]  # within a call only where there is no other place
    parts = [line[start:end].strip() for start, end in itertools.pairwise(bounds)]
    deeper = [indent + ("" if _ENDS.match(part) else "    ") + part for part in parts[1:]]
    return [shorter for part in (indent + parts[0], *deeper) for shorter in _broken(part, width)]


def is_table_name(name: object) -> bool:
    """Whether `name` can be used unquoted in SQL and in a file's name."""
    return isinstance(name, str) and _TABLE_NAME.fullmatch(name) is not None


def printable(table: Any) -> duckdb.DuckDBPyRelation:
    """A table or relation with unique column names, and with text for values that Python cannot represent."""
    relation = session().from_arrow(table) if not hasattr(table, "project") else table
    return _projected(relation, lambda name, kind: _AS_TEXT.get(re.split("[ _]", kind.id)[0], "{0}").format(name, kind))


# Python's dates have no infinity; a union holds either. Its intervals have no months, and none of many years.
_ENDLESS = "case when isinf({0}) then {0}::varchar::union(v {1}, t varchar) else {0}::union(v {1}, t varchar) end"
_AS_TEXT = {"date": _ENDLESS, "timestamp": _ENDLESS, "interval": "{0}::varchar"}


def worded(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """`relation` with dates, times and nested values as text, as Arrow cannot hold all of them."""
    return _projected(relation, lambda name, kind: _words(name, str(kind)))


def _projected(relation: duckdb.DuckDBPyRelation, value: Callable[[str, Any], str]) -> duckdb.DuckDBPyRelation:
    """`relation` with new values for its columns, whose names are made unique."""
    unique = relation.select("*")
    columns = zip(map(identifier, unique.columns), unique.types, strict=True)
    return unique.project(", ".join(f"{value(name, kind)} as {name}" for name, kind in columns))


def _words(name: str, kind: str) -> str:
    if kind.startswith(("DATE", "TIMESTAMP")) and not kind.endswith("]"):
        return rf"regexp_replace({name}::varchar, '( 00:00:00|:\d\d(\.\d+)?)(\+00)?( \(BC\))?$', '\4')"
    return f"{name}::varchar" if _PARTS.search(kind) else name


_PARTS = re.compile("DATE|TIME|INTERVAL|STRUCT|MAP|UNION|VARIANT")
