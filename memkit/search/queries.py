"""What may be asked: one text, several, or a table; and what `where` may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from memkit.duck import LONE_SURROGATE
from memkit.errors import QueryError
from memkit.tables.sealed import read_select

_BARE = "select memory_id from memories where "


@dataclass(frozen=True)
class Queries:
    """Texts with the ids under which their hits are returned."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


def as_queries(queries: Any) -> Queries:
    """Read one text, a sequence of texts, or a table with ``text`` and, optionally, ``query_id``.

    Parameters
    ----------
    queries : str, sequence of str, pa.Table or pandas.DataFrame
        Ids are "0", "1", … where none are given; other columns are ignored; a null text is an empty one.

    Raises
    ------
    QueryError
        Where a text is no string or no Unicode, an id is missing or occurs twice, or the table has no column ``text``.

    Examples
    --------
    >>> as_queries(["пул", "pool"]).ids
    ('0', '1')
    >>> as_queries(pa.table({"query_id": ["a"], "text": ["пул"]}))
    Queries(ids=('a',), texts=('пул',))
    """
    if isinstance(queries, str):
        return Queries(("0",), _texts((queries,)))
    names = queries.column_names if isinstance(queries, pa.Table) else getattr(queries, "columns", None)
    if names is None:
        texts = _texts(queries)
        return Queries(tuple(map(str, range(len(texts)))), texts)
    if "text" not in list(names):
        raise QueryError(f"queries: expected a column 'text' (and 'query_id'). Got {', '.join(map(str, names))}.")
    texts = _texts(_values(queries["text"]))
    ids = _ids(_values(queries["query_id"])) if "query_id" in list(names) else tuple(map(str, range(len(texts))))
    return Queries(ids, texts)


def _values(column: Any) -> list[Any]:
    values: list[Any] = (column if isinstance(column, pa.ChunkedArray) else pa.Array.from_pandas(column)).to_pylist()
    return values


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, Iterable):
        raise QueryError(f"queries: expected a text, a sequence of texts or a table. Got {type(values).__name__}.")
    texts = tuple("" if value is None else value for value in values)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise QueryError(f"queries: expected a text at position {position}. Got {type(text).__name__} {text!r}.")
        if lone := LONE_SURROGATE.search(text):
            raise QueryError(
                f"queries: expected Unicode characters at position {position}. Got half of one, {lone[0]!r}, as its"
                f" character {lone.start()}; text.encode('utf-8', 'replace').decode() puts '?' in its place."
            )
    return texts


def _ids(values: list[Any]) -> tuple[str, ...]:
    if None in values:
        raise QueryError(f"queries: expected an id in every row of 'query_id'. Got none in row {values.index(None)}.")
    ids = tuple(map(str, values))
    if twice := [name for name, count in Counter(ids).items() if count > 1]:
        raise QueryError(f"queries: expected each 'query_id' once. Got {twice[0]!r} more than once.")
    return ids


def memories_where(ask: Callable[[str], pa.Table], where: str) -> pa.ChunkedArray:
    """Ids of the memories that pass the predicate `where`.

    Parameters
    ----------
    ask : callable
        Runs a query over the corpus's tables, as `Corpus.ask` does.
    where : str
        One SQL predicate over the columns of ``memories``; it may look into other tables by a subquery.

    Raises
    ------
    QueryError
        Where it is not exactly one expression, or DuckDB refuses it.
    """
    try:
        # Without brackets, nothing can close one and go on; within them, nothing can follow the expression.
        if read_select(_BARE + where).shape != read_select(_BARE + "true").shape:
            raise QueryError("one expression is expected, and nothing after it")
        # The line break keeps a comment at the predicate's end from swallowing the bracket.
        return ask(f"{_BARE}(\n{where}\n)")["memory_id"]
    except (QueryError, TypeError) as error:
        raise QueryError(
            f"where: expected one SQL predicate over the columns of memories, such as \"user_id = 'u1'\"."
            f" Got {where!r:.200}: {error}"
        ) from error
