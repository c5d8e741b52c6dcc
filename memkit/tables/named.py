"""Useful questions as ``.sql`` files: the first comment says what a query answers; ``$as_of`` is the day asked for.

``{age_days}``, ``{factor}`` and ``{expired}`` in a file stand for what `memkit.tables.age` says.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa

from memkit.errors import ParameterError, did_you_mean
from memkit.params import describe
from memkit.tables.age import age_sql, decay_sql, expired_sql

FOLDER = Path(__file__).parent / "queries"


@cache
def _queries() -> dict[str, str]:
    return {file.stem: _filled(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.sql"))}


def _filled(sql: str) -> str:
    for name, meant in (("age_days", age_sql()), ("factor", decay_sql()), ("expired", expired_sql())):
        sql = sql.replace(f"{{{name}}}", meant)
    return sql


def named_query(name: str) -> str:
    """The SQL of one named query.

    Raises
    ------
    ParameterError
        For any other name.
    """
    queries = _queries()
    if name not in queries:
        hint = did_you_mean(name, queries)
        raise ParameterError(f"named query: expected one of {', '.join(queries)}. Got {name!r}.{hint}")
    return queries[name]


def named_queries() -> pa.Table:
    """The named queries: run one with ``corpus.named(name)``, or start your own from its SQL.

    Returns
    -------
    pyarrow.Table
        Columns name, question, needs_as_of, sql.

    Examples
    --------
    >>> named_queries().column_names
    ['name', 'question', 'needs_as_of', 'sql']
    """
    queries = _queries()
    table = pa.table(
        {
            "name": list(queries),
            "question": [sql.partition("\n")[0].removeprefix("-- ") for sql in queries.values()],
            "needs_as_of": ["$as_of" in sql for sql in queries.values()],
            "sql": list(queries.values()),
        }
    )
    return describe(table, memkit="queries")
