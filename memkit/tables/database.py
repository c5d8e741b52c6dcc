"""The tables of a corpus in DuckDB, twice: in a database for the user's connections, and in memkit's own sandbox.

In the user's database the rows are in a schema ``memkit`` and the tables' names are views, so an insert, update or
delete is refused and the full-text index cannot go stale. memkit itself reads only the sandbox.

Ready-made queries are ``.sql`` files. The first comment says what a query answers, a comment ``-- $days = 31`` declares
a parameter with its default, as JSON; ``$as_of`` is the moment that ages are counted to, ``$until`` the last instant
that is seen (of a bare day its end). ``{age_days}``, ``{idle_days}``, ``{factor}`` and ``{expired}`` are replaced by
the SQL of `memkit.tables.age`, ``{unticked}`` by `unticked_sql`: unticked boxes that no later log ticks.
"""

from __future__ import annotations

import functools
import json
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from threading import RLock
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.base.duck import connect, cursor_of, identifier, interruptible, literal, literals, put, session, transaction
from memkit.base.params import AsOf, Moment, check_value, describe
from memkit.base.plugins import QUERIES
from memkit.errors import ParameterError, QueryError, did_you_mean
from memkit.schemas import TABLES, empty, kinds_where
from memkit.tables.age import age_sql, decay_sql, expired_sql, moments_in
from memkit.tables.fts import add_fts, index_text
from memkit.tables.statement import as_table, is_table
from memkit.tables.untrusted import TIMEOUT_S, Sandbox
from memkit.text.analyse import connect_fts

if TYPE_CHECKING:
    import duckdb

FOLDER = Path(__file__).parent / "queries"
_LOGS = literals(kinds_where(log=True))
TASK = r"""trim(regexp_replace(regexp_replace(replace(lower(text), 'ё', 'е'),
    '\s*(?:[✅❌📅⏳⏰🛫➕🔁⏫🔼🔽]|\[(?:due|completion|created)::).*$', '', 's'), '[\s~*_]+', ' ', 'g'), ' .,;!')"""
"""What a box is known by in SQL: its text without case, emphasis, the end of the sentence and what tools note there."""


def unticked_sql(checklist: str = "checklist", memories: str = "memories") -> str:
    """The SQL of every unticked box: memory_id, path, line, text, `TASK` as task, and of the last later log that ticks
    it tick_id, tick_path and tick_line; null where none does. It is_carried where an earlier log of the user has it.

    A later log is one of the same user whose day or time comes after that of the box. A box without a date stays open,
    and so does one that was written again after its tick.
    """
    return f"""(
    with boxes as (
        select c.memory_id, c.path, c.line, c.text, c.done, {TASK.replace("text", "c.text")} as task,
            m.user_id, coalesce(m.kind in ({_LOGS}), false) as is_log, m.created_at
        from {checklist} c left join {memories} m using (memory_id)
    ), ticks as (
        select task, user_id, max(created_at) as at, arg_max(memory_id, created_at) as tick_id,
            arg_max(path, created_at) as tick_path, arg_max(line, created_at) as tick_line
        from boxes where done and task <> '' and is_log group by task, user_id
    )
    select b.memory_id, b.path, b.line, b.text, b.task,
        if(t.at > b.created_at, tick_id, null) as tick_id, if(t.at > b.created_at, tick_path, null) as tick_path,
        if(t.at > b.created_at, tick_line, null) as tick_line, is_log and 1 < row_number() over (
            partition by b.task, b.user_id, is_log, t.at > b.created_at order by b.created_at, path, line) as is_carried
    from boxes b left join ticks t on b.task = t.task and b.user_id is not distinct from t.user_id
    where not b.done
)"""  # noqa: S608  # names of tables alone


@cache
def _own() -> dict[str, str]:
    return {file.stem: _filled(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.sql"))}


def _queries() -> dict[str, str]:
    """memkit's own, then those of packages, none of which takes the name of one of memkit's."""
    return {name: _filled(sql) for name, sql in QUERIES.all()} | _own()


_EXPRESSIONS = {
    "age_days": age_sql(),
    "idle_days": age_sql(["last_used_at"]),
    "factor": decay_sql(),
    "expired": expired_sql(),
    "unticked": unticked_sql(),
}


def _filled(sql: str) -> str:
    for name, expression in _EXPRESSIONS.items():
        sql = sql.replace(f"{{{name}}}", expression)
    return sql


def named_query(
    name: str, as_of: AsOf, params: Mapping[str, Any], has_history: bool = True
) -> tuple[str, dict[str, Any] | None]:
    """The SQL of one named query and the values of its parameters: `params`, and the defaults in its comments.

    Raises
    ------
    ParameterError
        For an unknown name, a query that needs a history where there is none, an unknown parameter, or a value of
        another type than the default.
    """
    queries = _queries()
    if name not in queries:
        hint = did_you_mean(name, queries)
        raise ParameterError(f"named query: expected one of {', '.join(queries)}. Got {name!r}.{hint}")
    query, owner = queries[name], f"named query '{name}'"
    if needs_history(name) and not has_history:
        raise ParameterError(
            f"{owner}: expected a history. Got a corpus without one: mk.history(folder).named({name!r})."
        )
    declared = _declared(query)
    for key, value in params.items():
        if key not in declared:
            expected = f"expected parameters among {', '.join(declared)}" if declared else "it takes no parameters"
            raise ParameterError(f"{owner}: {expected}. Got {key!r}.{did_you_mean(key, declared)}")
        default = declared[key]
        check_value(owner, key, value, "str" if default is None else type(default).__name__, nullable=default is None)
    values = {**declared, **params} | moments_in(query, Moment.from_as_of(as_of))
    return query, values or None


def needs_history(name: str) -> bool:
    """Whether a named query reads the tables of `memkit.history`."""
    return re.search(r"\b(?:versions|commits)\b", _queries().get(name, "")) is not None


def _declared(sql: str) -> dict[str, Any]:
    """The parameters that comments like ``-- $days = 31`` declare, with their defaults."""
    return {key: json.loads(value) for key, value in _PARAMETER.findall(sql)}


def _spelled(sql: str) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in _declared(sql).items())


_PARAMETER = re.compile(r"^-- \$(\w+) = (\S+)", re.MULTILINE)


def named_queries() -> pa.Table:
    """The named queries: run one with ``corpus.named(name)``, or use its SQL to write your own.

    Returns
    -------
    pyarrow.Table
        Columns name, question, needs_as_of, needs_history (whether it is for `memkit.history`), parameters (with their
        defaults), sql.

    Examples
    --------
    >>> named_queries().column_names
    ['name', 'question', 'needs_as_of', 'needs_history', 'parameters', 'sql']
    """
    queries = _queries()
    table = pa.table(
        {
            "name": list(queries),
            "question": [sql.partition("\n")[0].removeprefix("-- ") for sql in queries.values()],
            "needs_as_of": ["$as_of" in sql or "$until" in sql for sql in queries.values()],
            "needs_history": [needs_history(name) for name in queries],
            "parameters": [_spelled(sql) for sql in queries.values()],
            "sql": list(queries.values()),
        }
    )
    return describe(table, memkit="queries")


_USES_FULL_TEXT = re.compile(r"\b(?:fts|match_bm25)\b|memkit_fts", re.IGNORECASE)
_OWN_INDEX = re.compile(r"\b((?:create|drop)_fts_index)\s*\(\s*['\"](?:(?:main|memkit)\.)?(\w+)['\"]", re.IGNORECASE)
Derived = Callable[[bool], "pa.Table | None"]
"""Makes a table, None where there is nothing to make it of; it is told whether it may cost time."""
TextIndex = Callable[[], dict[str, pa.Table]] | None
"""Returns the full-text index of ``memories``, with the tables of `memkit.tables.fts.TEXT_INDEX`, if there is one."""


class Database:
    """Two databases over Arrow tables, each made when it is first needed.

    Parameters
    ----------
    tables : dict of str to pyarrow.Table
        The tables of both databases; one that is added later is visible from the next query on.
    text_index : dict of str to pyarrow.Table, optional
        None builds it when it is first needed.
    derived : dict of str to callable, optional
        What makes further tables, each when a query first names it.

    Attributes
    ----------
    built_index : dict of str to pyarrow.Table, or None
        The full-text index, if it was built.
    """

    def __init__(
        self, tables: dict[str, pa.Table], text_index: TextIndex = None, derived: Mapping[str, Derived] | None = None
    ) -> None:
        self._derived, self._made = derived or {}, dict[str, pa.Table]()
        self._tables, self.built_index = ChainMap(tables, self._made), text_index
        self._con: duckdb.DuckDBPyConnection | None = None
        self._loaded: dict[str, pa.Table] = {}
        self._has_text = False
        self._lock = RLock()
        self._sandbox: Sandbox | None = None
        self._results: duckdb.DuckDBPyConnection | None = None

    def cursor(self, query: str | None = None) -> duckdb.DuckDBPyConnection:
        """A new connection for the user; with full-text search, unless `query` is given and does not use it."""
        with self._lock:
            self._derive(query)
            con = self._con = self._con or connect_fts()
            tables = {name: table for name, table in self._tables.items() if self._loaded.get(name) is not table}
            if tables:
                _write_tables(con, tables)
                self._loaded |= tables
            if not self._has_text and (query is None or _USES_FULL_TEXT.search(query)):
                add_fts(con, self.text_index(), "memkit.memories")
                self._has_text = True
            return cursor_of(con)

    def sql(self, query: str, params: Any, caller: FrameType) -> duckdb.DuckDBPyRelation:
        """The result of a query for the user; a name that is no table may be a variable of `caller`."""
        import duckdb

        self._check_index(query)
        try:
            return sql_with(self.cursor(query), query, params, caller)
        except duckdb.CatalogException as error:
            missing = _MISSING.search(str(error))
            if missing and (why := self.absent(missing[1])):
                raise QueryError(why) from None
            if missing and (near_names := did_you_mean(missing[1], self._tables)):
                raise duckdb.CatalogException(f"Catalog Error: {missing[0]}{near_names}") from None
            raise

    def _check_index(self, query: str) -> None:
        if not isinstance(query, str):
            raise QueryError(f"expected SQL as text. Got {query!r:.200}.")
        for index in _OWN_INDEX.finditer(query):
            if index[2].lower() in self._tables:
                raise QueryError(
                    f"{index[1]}: memkit itself keeps the full-text index of {index[2]}, which fts('…') and"
                    " fts_main_memories.match_bm25(memory_id, '…') ask. Make one of a table of your own."
                )

    def absent(self, name: str) -> str:
        """Why there is no table `name` of a fitted search; empty for any other name."""
        if name == "vectors" and "chunks" in self._tables:
            return "there are no vectors: the search was fitted without an encoder, or with one in each shard."
        if name in ("chunks", "vectors"):
            return f"there is no table {name!r} before a fit: mk.Retriever().fit(corpus).corpus_ and its lakes have it."
        return ""

    def _derive(self, query: str | None) -> None:
        """Make the derived tables that a query names; for a connection those that cost little."""
        for name, make in self._derived.items():
            is_named = query is None or re.search(rf"\b{name}\b", query, re.IGNORECASE)
            table = make(query is not None) if is_named and name not in self._made else None
            if table is not None:
                self._made[name] = table

    def ask(self, query: str, params: Any = None, timeout_s: float | None = TIMEOUT_S) -> pa.Table:
        """The rows of one SELECT, run in the sandbox; see `Sandbox.ask`."""
        self._check_index(query)
        with self._lock:
            self._derive(query)
            self._sandbox = self._sandbox or Sandbox(self._tables, self.text_index, self.absent)
        return self._sandbox.ask(query, params, timeout_s)

    def relation(self, rows: pa.Table) -> duckdb.DuckDBPyRelation:
        """`rows` as a relation, in a database for results alone: to open one for each would take 8 ms."""
        with self._lock:
            self._results = self._results or connect()
            return cursor_of(self._results).from_arrow(rows)

    def text_index(self) -> dict[str, pa.Table]:
        """The full-text index of ``memories``, with the tables of `memkit.tables.fts.TEXT_INDEX`."""
        with self._lock:
            self.built_index = self.built_index or cache(partial(index_text, self._tables["memories"]))
            return self.built_index()

    def write(self, path: Path) -> None:
        """Write the tables and the full-text index to a new DuckDB file, for other programs.

        It is not compressed, and written by one thread: of 20,000 memories in .45 s of processor time. To try each of
        DuckDB's compressions on each column makes the file half as large and takes 1.0 s, by two threads .8.
        """
        tables = {name: table for name, table in self._tables.items() if name not in self._made}
        with connect_fts() as con, interruptible():
            con.execute("set force_compression = 'uncompressed'; set threads = 1")
            con.execute(f"attach {literal(str(path.absolute()))} as saved; use saved")
            _write_tables(con, tables)
            add_fts(con, self.text_index(), "memkit.memories")
            con.execute("use memory; detach saved")


def sql_with(con: duckdb.DuckDBPyConnection, query: str, params: Any, caller: FrameType) -> duckdb.DuckDBPyRelation:
    """The result of a query; a name that is not a table of `con` may be a variable of the caller, local or global.

    DuckDB itself would look for variables in the frame that calls it, which is memkit's.
    """
    import duckdb

    con.execute("set python_enable_replacements = false")
    variables = {**caller.f_globals, **caller.f_locals}
    registered = set[str]()
    while True:
        try:
            with interruptible():
                return con.sql(query, params=params)
        except duckdb.CatalogException as error:
            missing = _MISSING.search(str(error))
            name = missing[1] if missing else ""
            if name in registered or not is_table(variables.get(name)):
                raise
            registered.add(name)
            con.register(name, as_table(variables[name], owner=f"sql: '{name}'"))


_MISSING = re.compile(r"Table with name (.+?) does not exist!")


def _write_tables(con: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
    """Put the rows into the schema ``memkit``, and views of them into ``main``; can be repeated.

    Most tables of most corpora have no rows: those are made at once, which takes a quarter of the time.
    """
    import duckdb

    places = {name: identifier(name) for name in tables}
    bare = [name for name, table in tables.items() if not table.num_rows and TABLES.get(name) == table.schema]
    creations = [f"create or replace table memkit.{places[name]} ({_columns(name)})" for name in bare]
    with interruptible(), transaction(con):
        # In one statement, as most of the declared tables are empty.
        con.execute("; ".join(["create schema if not exists memkit", *creations]))
        for name, table in tables.items():
            if name not in bare:
                put(con, f"memkit.{places[name]}", table)
    views = [f"create or replace view main.{place} as from memkit.{place}" for place in places.values()]
    try:
        # All at once, and one by one only to find the name that the user has taken.
        con.execute("; ".join(views))
    except duckdb.CatalogException:
        for place, view in zip(places.values(), views, strict=True):
            try:
                con.execute(view)
            except duckdb.CatalogException:  # the user made a table of that name
                con.execute(f"drop table main.{place}")
                con.execute(view)


@functools.cache
def _columns(name: str) -> str:
    """The columns of a declared table, with the types that DuckDB gives them."""
    with session() as con:
        con.register("declared", empty(name))
        described = con.execute("describe select * from declared").fetchall()
    return ", ".join(f"{identifier(column)} {its_type}" for column, its_type, *_ in described)
