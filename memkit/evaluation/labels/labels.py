"""Labelled queries, judgements and runs: read from a table, a data frame or a file, checked, and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from memkit import schemas
from memkit.errors import ParameterError
from memkit.evaluation.labels.files import read_file, write_file
from memkit.params import as_of_time, check_column, path_of
from memkit.schemas import TIMESTAMP

QUERIES = schemas.table(
    schemas.column("query_id", pa.string(), "Its id; any text or number, unique."),
    schemas.column("text", pa.string(), "The text of the query."),
    schemas.column("user_id", pa.string(), "The user who asks; null sees the memories of all users."),
    schemas.column("as_of", TIMESTAMP, "The moment of the query; null is that of the evaluation."),
    schemas.column("group", pa.string(), "The same value for queries that are not independent."),
)
QRELS = schemas.table(
    schemas.column("query_id", pa.string(), "The query."),
    schemas.column("memory_id", pa.string(), "The memory that was judged."),
    schemas.column("relevance", pa.float64(), "The gain; 0 or less is judged not relevant."),
    schemas.column("valid_from", TIMESTAMP, "The moment from which the answer is true; null: always was."),
    schemas.column("valid_to", TIMESTAMP, "The moment from which it is superseded; null: still true."),
)
RUN = schemas.table(
    schemas.column("query_id", pa.string(), "The query."),
    schemas.column("memory_id", pa.string(), "The memory that was found."),
    schemas.column("rank", pa.int64(), "From 1."),
    schemas.column("score", pa.float64(), "Higher is better."),
)
_OPTIONAL = {"user_id", "as_of", "group", "valid_from", "valid_to", "rank", "score"}
_SHOWN = 5


def read_queries(source: Any) -> pa.Table:
    """Labelled queries from a table, a data frame or a file.

    Parameters
    ----------
    source : pyarrow.Table, pandas.DataFrame, what ``pyarrow.table`` takes, str or Path
        With the columns query_id and text; user_id (an empty one is none), as_of and group are optional, others are
        kept. A file is Parquet, CSV, TSV, JSONL or JSON by its suffix, else a query a line: its id, a blank, its text.

    Returns
    -------
    pyarrow.Table
        query_id, text, user_id, group (string), as_of (UTC), and what else there is.

    Raises
    ------
    ParameterError
        Where there is no row, a column is missing, an id is missing or occurs twice, or a day is not a date.
    FormatError
        Where the file cannot be parsed.

    Examples
    --------
    >>> queries = read_queries({"query_id": [1], "text": ["как настроен пул?"], "as_of": ["2026-03-01"]})
    >>> queries["query_id"][0].as_py(), queries["as_of"][0].as_py().isoformat(), queries["user_id"].null_count
    ('1', '2026-03-01T00:00:00+00:00', 1)
    """
    table = _typed(source, QUERIES, "queries")
    _check_once(table, ("query_id",), "queries", "each 'query_id' once")
    return table


def read_qrels(source: Any) -> pa.Table:
    """Judgements (qrels: which memory answers which query, and how well) from a table, a data frame or a file.

    Parameters
    ----------
    source : pyarrow.Table, pandas.DataFrame, what ``pyarrow.table`` takes, str or Path
        With the columns query_id, memory_id and relevance; valid_from and valid_to are optional, others are kept as
        they are. A file is Parquet, CSV, TSV, JSONL or JSON (ranx's too) by its suffix, else TREC's four fields.

    Returns
    -------
    pyarrow.Table
        query_id, memory_id (string), relevance (float64), valid_from, valid_to (UTC), and what else there is.

    Raises
    ------
    ParameterError
        Where there is no row, a column is missing, a memory is judged twice for a query, a relevance is not a number,
        or an answer ceases to be true before it is.
    FormatError
        Where the file cannot be parsed.

    Examples
    --------
    >>> read_qrels({"query_id": [1], "memory_id": ["notes:pool.md#1"], "relevance": [2]})["relevance"].to_pylist()
    [2.0]
    """
    table = _typed(source, QRELS, "qrels")
    _check_once(table, ("query_id", "memory_id"), "qrels", "each memory judged once for a query")
    bad = ~np.isfinite(pc.fill_null(table["relevance"], float("nan")).to_numpy())
    if bad.any():
        row = table.slice(int(bad.argmax()), 1).to_pylist()[0]
        raise ParameterError(
            f"qrels: expected a number as the relevance of {row['memory_id']!r} for query {row['query_id']!r}."
            f" Got {row['relevance']}."
        )
    turned = pc.fill_null(pc.greater_equal(table["valid_from"], table["valid_to"]), False).to_numpy()
    if turned.any():
        row = table.slice(int(turned.argmax()), 1).to_pylist()[0]
        raise ParameterError(
            f"qrels: expected valid_from before valid_to for {row['memory_id']!r}, query {row['query_id']!r}."
            f" Got {row['valid_from']} and {row['valid_to']}."
        )
    return table


def read_run(source: Any) -> pa.Table:
    """A run, the hits of any search: query_id, memory_id and rank, or score without rank; see `read_queries`.

    Hits come by query, then by rank; ties of score are broken by id.
    """
    table = _typed(source, RUN, "run")
    if table["rank"].null_count:
        if table["score"].null_count:
            raise ParameterError("run: expected a rank in every row, or a score. Got neither in some.")
        order = table.sort_by([("score", "descending"), ("memory_id", "ascending")])
        place = pa.array(order.to_pandas().groupby("query_id", sort=False).cumcount() + 1)
        table = order.set_column(order.column_names.index("rank"), "rank", place)
    query = pc.index_in(table["query_id"], value_set=pc.unique(table["query_id"])).to_numpy()
    return table.take(pa.array(np.lexsort((table["rank"].to_numpy(), query))))


def write(table: Any, path: str | Path) -> Path:
    """Write labelled queries, judgements or the hits of a search for this or another program.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or what ``pyarrow.table`` takes
        With a column relevance: judgements. With rank or score: a run, of which query_id, memory_id, rank and score
        are written. Else queries.
    path : str or Path
        Its suffix is the format: .parquet, .csv, .tsv, .jsonl, .json (as ranx reads judgements and runs), any other is
        TREC's. TREC's and ranx's forms have no place for users, days and groups. In TREC's a blank within an id is
        %20, and a run whose order its scores do not show has 1 / rank as scores, there and in ranx's.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    ParameterError
        For rows that `evaluate` would refuse.

    Examples
    --------
    >>> import tempfile
    >>> qrels = {"query_id": ["q1"], "memory_id": ["notes:my pool.md"], "relevance": [1]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(qrels, f"{folder}/all.qrels").read_text()
    'q1 0 notes:my%20pool.md 1\\n'
    """
    rows = as_arrow_table(table, "labels")
    names, path = rows.column_names, path_of("write", path)
    if "relevance" in names:
        write_file(read_qrels(rows), path, "qrels")
    elif "rank" in names or "score" in names:
        write_file(read_run(rows).select(RUN.names), path, "run")
    else:
        write_file(read_queries(rows), path, "queries")
    return path


def as_arrow_table(source: Any, what: str) -> pa.Table:
    """`source` as an Arrow table: a table, a data frame, a mapping or a file."""
    if isinstance(source, (str, Path)):
        return read_file(path_of(what, source), what)
    try:
        if isinstance(source, pd.DataFrame):
            return pa.Table.from_pandas(source, preserve_index=False)
        return source if isinstance(source, pa.Table) else pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:  # ValueError: half a character, a name twice
        raise ParameterError(f"{what}: expected a table, a data frame or a path. {error}") from error


def _typed(source: Any, schema: pa.Schema, what: str) -> pa.Table:
    """The columns of `schema`, each in its type, then all others."""
    table = as_arrow_table(source, what)
    if not table.num_rows:
        raise ParameterError(f"{what}: expected at least one row. Got none.")
    for name in schema.names:
        if name not in _OPTIONAL:
            check_column(name, table.column_names, what)
    columns = [_column(table, field, what) for field in schema]
    extra = [name for name in table.column_names if name not in schema.names]
    return pa.table([*columns, *table.select(extra).columns], names=[*schema.names, *extra])


def _column(table: pa.Table, field: pa.Field, what: str) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    values = table[field.name].to_pylist()
    if field.name in ("query_id", "memory_id"):
        for row, value in enumerate(values):
            if value is None or value != value or value == "":
                raise ParameterError(f"{what}: expected a '{field.name}' in every row. Got {value!r} in row {row}.")
    if field.name == "user_id":
        values = [None if value == "" else value for value in values]
    cast = _CASTS[str(field.type)]
    typed: list[Any] = []
    for row, value in enumerate(values):
        try:
            typed.append(None if value is None or value != value else cast(value))
        except (ValueError, TypeError) as error:
            raise ParameterError(
                f"{what}: expected {_WORDS[str(field.type)]} in column '{field.name}'. Got {value!r} in row {row}."
            ) from error
    return pa.chunked_array([pa.array(typed, field.type)])


def _whole(value: Any) -> int:
    if float(value) != int(value):
        raise ValueError(value)
    return int(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "double": float,
    "int64": _whole,
    str(TIMESTAMP): as_of_time,
}
_WORDS = {"string": "a text", "double": "a number", "int64": "a whole number", str(TIMESTAMP): "a day or a time"}


def _check_once(table: pa.Table, columns: tuple[str, ...], what: str, expected: str) -> None:
    rows = Counter(zip(*(table[name].to_pylist() for name in reversed(columns)), strict=True))
    if twice := [row for row, count in rows.items() if count > 1]:
        shown = some_of([" for ".join(map(repr, row)) for row in twice])
        raise ParameterError(f"{what}: expected {expected}. Got more than once: {shown}.")


def some_of(names: list[str]) -> str:
    """The first few of the names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
