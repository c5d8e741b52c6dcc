"""Labelled queries, judgements and runs: read from a table, a data frame or a file, checked, and written."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memkit import schemas
from memkit.base.params import as_of_time, check_column, check_value, describe, path_of
from memkit.errors import FormatError, ParameterError, some_of
from memkit.formats.disk.files import check_file
from memkit.schemas import TIMESTAMP, tuples_of, with_column

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
GRADES = "grades"
"""How many grades judges chose from, 2 for 0 and 1: in the metadata of judgements, in a file of text as a column."""
_OPTIONAL = {"user_id", "as_of", "group", "valid_from", "valid_to", "rank", "score"}


def read_queries(source: Any) -> pa.Table:
    """Labelled queries from a table, a data frame or a file.

    Parameters
    ----------
    source : pyarrow.Table, pandas.DataFrame, what ``pyarrow.table`` takes, list of str, str or Path
        With the columns query_id and text; user_id (an empty one is none), as_of and group are optional, others are
        kept. A file is Parquet, CSV, TSV, JSONL or JSON by its suffix, else a query a line: its id, a blank, its text.
        Texts alone have the ids "0", "1" and so on, as in a search.

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
    if isinstance(source, (list, tuple)) and source and all(isinstance(text, str) for text in source):
        source = {"query_id": list(map(str, range(len(source)))), "text": list(source)}
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
        query_id, memory_id (string), relevance (float64), valid_from, valid_to (UTC), and what else there is. The
        scale of the grades, where it is known, is ``grades`` in its metadata: see `judgements`.

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
    rows = as_arrow_table(source, "qrels")
    scale = grades_of(rows)
    table = _typed(rows.drop_columns([GRADES] if GRADES in rows.column_names else []), QRELS, "qrels")
    table = describe(table, **({} if scale is None else {GRADES: scale}))
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
        table = with_column(order, "rank", place)
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
        TREC's. TREC's and ranx's forms have no place for users, days, groups and the scale of grades. In TREC's a
        blank within an id is %20. There and in ranx's a score that does not fall with rank, as of a tie, is the next
        smaller number.

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


def qrels_of(rows: Iterable[tuple[str, str, float]]) -> pa.Table:
    """A table of judgements: query_id, memory_id, relevance."""
    return pa.table(dict(zip(QRELS.names[:3], map(list, zip(*rows, strict=True)), strict=True)))


def grades_of(qrels: pa.Table) -> int | None:
    """How many grades these judgements chose from, if that was kept with them."""
    kept = (qrels.schema.metadata or {}).get(GRADES.encode())
    if kept is None and GRADES in qrels.column_names:
        kept = pc.max(qrels[GRADES]).as_py()
    try:
        return None if kept is None else int(kept)
    except ValueError as error:
        raise ParameterError(f"qrels: expected a whole number of grades, such as 2. Got {kept!r:.200}.") from error


def judgements(rows: Iterable[Sequence[Any]], grades: int | None = None, *, after: Any = None) -> pa.Table:
    """Judgements written as rows, as `read_qrels` reads them; there may be none.

    Parameters
    ----------
    rows : sequence of tuple
        query_id, memory_id, relevance and, where they are known, valid_from and valid_to.
    grades : int, optional
        How many grades the judge chose from: 2 for 0 and 1, 4 for 0 to 3. It is kept in the metadata and in files, so
        that who goes on judging has the same scale.
    after : table, data frame or path, optional
        Judgements that come before these, as for `read_qrels`.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    ParameterError
        As `read_qrels`, and for a row of fewer or more values.

    Examples
    --------
    >>> judgements([("q1", "notes:pool.md#1", 2), ("q1", "notes:tea.md#1", 0)], grades=4)["relevance"].to_pylist()
    [2.0, 0.0]
    """
    check_value("judgements", GRADES, grades, "int", low=2, nullable=True)
    listed = [tuple(row) for row in rows]
    for row in listed:
        if not 3 <= len(row) <= len(QRELS.names):
            raise ParameterError(f"judgements: expected rows of 3 to {len(QRELS.names)} values. Got {row!r:.200}.")
    tables = [] if after is None else [read_qrels(after).select(QRELS.names)]
    if listed:
        filled = ((*row, *[None] * (len(QRELS.names) - len(row))) for row in listed)
        tables.append(read_qrels(dict(zip(QRELS.names, map(list, zip(*filled, strict=True)), strict=True))))
    table = pa.concat_tables(tables) if tables else QRELS.empty_table()
    return describe(table, **({} if grades is None else {GRADES: grades}))


def as_arrow_table(source: Any, what: str) -> pa.Table:
    """`source` as an Arrow table: a table, a data frame, a mapping or a file."""
    if isinstance(source, (str, Path)):
        return read_file(path_of(what, source), what)
    try:
        if isinstance(source, pd.DataFrame):
            return pa.Table.from_pandas(source, preserve_index=False)
        return source if isinstance(source, pa.Table) else pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:  # ValueError: half a character, a name twice
        got = f"{type(source).__name__}: {error}"
        raise ParameterError(f"{what}: expected a table, a data frame or a path. Got {got}") from error


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
            # Only NaN differs from itself: in a data frame it stands for a missing value.
            typed.append(None if value is None or value != value else cast(value))
        except (ValueError, TypeError, OverflowError) as error:
            raise ParameterError(
                f"{what}: expected {_WORDS[str(field.type)]} in column '{field.name}'. Got {value!r} in row {row}."
            ) from error
    return pa.chunked_array([pa.array(typed, field.type)])


def _integer(value: Any) -> int:
    if float(value) != int(value):
        raise ValueError(value)
    return int(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "double": float,
    "int64": _integer,
    str(TIMESTAMP): as_of_time,
}
_WORDS = {"string": "a text", "double": "a number", "int64": "a whole number", str(TIMESTAMP): "a day or a time"}


def _check_once(table: pa.Table, columns: tuple[str, ...], what: str, expected: str) -> None:
    # Reversed, as the message says «memory for query».
    rows = Counter(zip(*(table[name].to_pylist() for name in reversed(columns)), strict=True))
    if twice := [row for row, count in rows.items() if count > 1]:
        shown = some_of([" for ".join(map(repr, row)) for row in twice])
        raise ParameterError(f"{what}: expected {expected}. Got more than once: {shown}.")


_TREC = {
    "queries": ("query_id", "text"),
    "qrels": ("query_id", "", "memory_id", "relevance"),
    "run": ("query_id", "", "memory_id", "rank", "score", ""),
}
"""The fields of a line, by kind of file; a query's text extends to the end of its line."""
_NOT_PLAIN = re.compile(r"[\s%]")


def quoted(name: str) -> str:
    """`name` with blanks and per cent signs written as %20 and %25, since TREC files separate fields by blanks.

    >>> quoted("notes:a b.md"), quoted("памятка")
    ('notes:a%20b.md', 'памятка')
    """
    return _NOT_PLAIN.sub(lambda match: quote(match[0], safe=""), name)


def unquoted(name: str) -> str:
    """The inverse of `quoted`; a name that `quoted` cannot have written stays as it is.

    >>> unquoted("notes:a%20b.md"), unquoted("http://x/%D0%B0")
    ('notes:a b.md', 'http://x/%D0%B0')
    """
    plain = unquote(name)
    return plain if quoted(plain) == name else name


def read_file(path: Path, what: str) -> pa.Table:
    """The rows of a file, in the format of its suffix; TREC for an unknown suffix.

    Parameters
    ----------
    what : {'queries', 'qrels', 'run'}

    Raises
    ------
    FormatError
        Where the file cannot be parsed, with its line; where there is a folder, a pipe or a device.
    OSError
        Where there is no such file.
    """
    check_file(path)
    if path.suffix.lower() == ".parquet":
        try:
            return pq.read_table(path)
        except pa.ArrowException as error:
            raise FormatError(f"{path}: expected a Parquet file. {error}", path=str(path)) from error
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: expected UTF-8. {error}", path=str(path)) from error
    rows = _READERS.get(path.suffix.lower(), _from_trec)(text, what, str(path))
    return as_arrow(rows, str(path))


def as_arrow(rows: list[dict[str, Any]], path: str) -> pa.Table:
    """`rows` as a table with every column that some row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        return pa.table({name: [row.get(name) for row in rows] for name in names})
    except (pa.ArrowException, ValueError) as error:  # ValueError: half a character
        raise FormatError(f"{path}: expected values of one type in each column. {error}", path=path) from error


def _fault(path: str, line: int, expected: str, got: object) -> FormatError:
    return FormatError(f"{path}:{line}: expected {expected}. Got {got!r:.100}.", path=path, line=line)


def _from_csv(text: str, what: str, path: str) -> list[dict[str, Any]]:
    dialect = "excel-tab" if path.lower().endswith(".tsv") else "excel"
    lines = csv.reader(io.StringIO(text, newline=""), dialect)
    head = next(lines, [])
    rows = []
    for row in lines:
        if row and len(row) != len(head):
            raise _fault(path, lines.line_num, f"{len(head)} fields ({', '.join(head)})", row)
        if row:
            rows.append({name: value or None for name, value in zip(head, row, strict=True)})
    return rows


def _from_lines(text: str, what: str, path: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        row = _loads(line, path, number)
        if not isinstance(row, dict):
            raise _fault(path, number, "a JSON object", line)
        rows.append(row)
    return rows


def _from_json(text: str, what: str, path: str) -> list[dict[str, Any]]:
    """A list of objects, or what ranx writes: a mapping of query ids to memory ids to numbers."""
    value = _loads(text, path, 1)
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value
    if not isinstance(value, dict):
        raise _fault(path, 1, "a list of objects, or ids by query id", text)
    if what == "queries":
        return [{"query_id": name, "text": query} for name, query in value.items()]
    if not all(isinstance(inner, dict) for inner in value.values()):
        raise _fault(path, 1, "numbers by memory id by query id", text)
    number = "relevance" if what == "qrels" else "score"
    return [
        {"query_id": name, "memory_id": memory, number: value_of}
        for name, inner in value.items()
        for memory, value_of in inner.items()
    ]


def _loads(text: str, path: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _fault(path, line, f"JSON ({error})", text) from error


def _from_trec(text: str, what: str, path: str) -> list[dict[str, Any]]:
    names = _TREC.get(what)
    if names is None:
        raise FormatError(f"{path}: expected a file that ends in .parquet, {', '.join(_READERS)}.", path=path)
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split(None, len(names) - 1)
        if not fields:
            continue
        if len(fields) != len(names):
            raise _fault(path, number, f"{len(names)} fields", line)
        row = dict(zip(names, map(str.strip, fields), strict=True))
        rows.append({name: unquoted(field) if name.endswith("_id") else field for name, field in row.items() if name})
    return rows


_READERS: Mapping[str, Callable[[str, str, str], list[dict[str, Any]]]] = {
    ".csv": _from_csv,
    ".tsv": _from_csv,
    ".jsonl": _from_lines,
    ".ndjson": _from_lines,
    ".json": _from_json,
}


def write_file(table: pa.Table, path: Path, what: str) -> None:
    """Write `table` in the format of the suffix of `path`; TREC for an unknown suffix.

    TREC and ranx's JSON hold ids, texts and numbers alone; the other formats every column.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        pq.write_table(table, path)
        return
    if (scale := grades_of(table)) is not None and what == "qrels":
        table = table.append_column(GRADES, pa.array([scale] * table.num_rows, pa.int64()))
    if suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, "excel-tab" if suffix == ".tsv" else "excel")
            out.writerow(table.column_names)
            out.writerows([_plain(value) for value in row.values()] for row in table.to_pylist())
        return
    lines = _WRITERS.get(suffix, _to_trec)(table, what)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (list, dict)) else value


def _to_lines(table: pa.Table, what: str) -> Iterable[str]:
    return (json.dumps(row, ensure_ascii=False, default=_plain) for row in table.to_pylist())


def _to_json(table: pa.Table, what: str) -> Iterable[str]:
    if what == "queries":
        mapping: dict[str, Any] = dict(tuples_of(table, "query_id", "text"))
    else:
        mapping = {}
        numbers = (
            [_grade(relevance) for relevance in table["relevance"].to_pylist()]
            if what == "qrels"
            else run_scores(table)
        )
        for (query, memory), number in zip(tuples_of(table, "query_id", "memory_id"), numbers, strict=True):
            mapping.setdefault(query, {})[memory] = number
    yield json.dumps(mapping, ensure_ascii=False, indent=1)


def _grade(relevance: float) -> int | float:
    return int(relevance) if relevance == int(relevance) else relevance


def _to_trec(table: pa.Table, what: str) -> Iterable[str]:
    if what == "queries":
        return (
            f"{quoted(name)}\t{' '.join((text or '').split())}" for name, text in tuples_of(table, "query_id", "text")
        )
    ids = [(quoted(query), quoted(memory)) for query, memory in tuples_of(table, "query_id", "memory_id")]
    if what == "qrels":
        judgements = zip(ids, table["relevance"].to_pylist(), strict=True)
        return (f"{query} 0 {memory} {_grade(number)}" for (query, memory), number in judgements)
    rows = zip(ids, table["rank"].to_pylist(), run_scores(table), strict=True)
    return (f"{query} Q0 {memory} {rank} {score!r} memkit" for (query, memory), rank, score in rows)


_WRITERS: Mapping[str, Callable[[pa.Table, str], Iterable[str]]] = {
    ".jsonl": _to_lines,
    ".ndjson": _to_lines,
    ".json": _to_json,
}


def run_scores(run: pa.Table) -> Sequence[float]:
    """Scores that keep the order of the hits in programs that sort by score in single precision.

    They are the hits' own. A score that does not fall with rank, as with ties and diversity (MMR), becomes the next
    smaller number after the one above it. A query without scores has 1 / rank.

    >>> hits = pa.table({"query_id": ["q"] * 3, "rank": [1, 2, 3], "score": [0.5, 0.5, 0.25]})
    >>> run_scores(hits)
    [0.5, 0.4999999701976776, 0.25]
    """
    scores, above = list[float](), (None, np.float32(0))
    unscored = set(run.filter(pc.is_null(run["score"]))["query_id"].to_pylist())
    for query, rank, score in tuples_of(run, "query_id", "rank", "score"):
        value = 1.0 / rank if query in unscored else score
        # trec_eval sorts by score alone, in single precision, and breaks ties by its own rule.
        if query == above[0] and np.float32(value) >= above[1]:
            value = float(np.nextafter(above[1], np.float32("-inf")))
        scores.append(float(value))
        above = (query, np.float32(value))
    return scores
