"""Ready-made queries as ``.sql`` files: the first comment says what a query answers; ``$as_of`` is the moment
that ages are counted to, ``$until`` the last instant that is seen (of a bare day its end).

A comment ``-- $days = 31`` declares a parameter with its default, as JSON.

``{age_days}``, ``{idle_days}``, ``{factor}`` and ``{expired}`` in a file are replaced by the SQL of
`memkit.tables.age`, ``{unticked}`` by `unticked_sql`: unticked boxes that no later log ticks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from memkit.base.duck import literals
from memkit.base.params import AsOf, Moment, check_value, describe
from memkit.base.plugins import QUERIES
from memkit.errors import ParameterError, did_you_mean
from memkit.schemas import kinds_where
from memkit.tables.age import age_sql, decay_sql, expired_sql, moments_in

FOLDER = Path(__file__).parent / "queries"
_LOGS = literals(kinds_where(log=True))
TASK = r"""trim(regexp_replace(regexp_replace(replace(lower(text), 'ё', 'е'),
    '\s*(?:[✅❌📅⏳⏰🛫➕🔁⏫🔼🔽]|\[(?:due|completion|created)::).*$', '', 's'), '[\s~*_]+', ' ', 'g'), ' .,;!')"""
"""What a box is known by in SQL: its text without case, emphasis, the end of the sentence and what tools note there."""


def unticked_sql(checklist: str = "checklist", memories: str = "memories") -> str:
    """The SQL of every unticked box: memory_id, path, line, text, `TASK` as task, and of the last later log that ticks
    it tick_id, tick_path and tick_line; null where none does.

    A later log is one of the same user whose day or time comes after that of the box. A box without a date stays open,
    and so does one that was written again after its tick.
    """
    return f"""(
    with boxes as (
        select c.memory_id, c.path, c.line, c.text, c.done, {TASK.replace("text", "c.text")} as task,
            m.user_id, m.kind, m.created_at
        from {checklist} c left join {memories} m using (memory_id)
    ), ticks as (
        select task, user_id, max(created_at) as at, arg_max(memory_id, created_at) as tick_id,
            arg_max(path, created_at) as tick_path, arg_max(line, created_at) as tick_line
        from boxes where done and task <> '' and kind in ({_LOGS}) group by task, user_id
    )
    select b.memory_id, b.path, b.line, b.text, b.task,
        if(t.at > b.created_at, tick_id, null) as tick_id, if(t.at > b.created_at, tick_path, null) as tick_path,
        if(t.at > b.created_at, tick_line, null) as tick_line
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
