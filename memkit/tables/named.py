"""Ready-made queries as ``.sql`` files: the first comment says what a query answers; ``$as_of`` is the moment
that ages are counted to, ``$until`` the last instant that is seen (of a bare day its end).

A comment ``-- $days = 31`` declares a parameter with its default, as JSON.

``{age_days}``, ``{idle_days}``, ``{factor}`` and ``{expired}`` in a file are replaced by the SQL of
`memkit.tables.age`, ``{unticked}`` by that of `memkit.tables.boxes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from memkit.base.params import AsOf, Moment, check_value, describe
from memkit.errors import ParameterError, did_you_mean
from memkit.tables.age import age_sql, decay_sql, expired_sql, moments_in
from memkit.tables.boxes import unticked_sql

FOLDER = Path(__file__).parent / "queries"


@cache
def _queries() -> dict[str, str]:
    return {file.stem: _filled(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.sql"))}


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
