"""Useful questions as ``.sql`` files: the first comment says what a query answers; ``$as_of`` is the day asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa

from memkit.errors import ParameterError, did_you_mean

FOLDER = Path(__file__).parent / "queries"


@cache
def _queries() -> dict[str, str]:
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.sql"))}


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
    return pa.table(
        {
            "name": list(queries),
            "question": [sql.partition("\n")[0].removeprefix("-- ") for sql in queries.values()],
            "needs_as_of": ["$as_of" in sql for sql in queries.values()],
            "sql": list(queries.values()),
        }
    )
