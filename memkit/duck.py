"""DuckDB as memkit uses it: the one place that connects, and the quoting of what stands in a statement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb

from memkit.errors import QueryError

LONE_SURROGATE = re.compile("[\\ud800-\\udfff]")
"""Half of a character, as broken JSON gives it: no text for Arrow or DuckDB, whose own words for it are no help."""

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
    ...     con.execute("select current_setting('TimeZone')").fetchone()
    ('UTC',)
    """
    con = duckdb.connect(":memory:", config=_OFFLINE)
    con.execute(_SETTINGS)
    return con


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
