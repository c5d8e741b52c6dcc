"""Labels and runs as files: Parquet, CSV, JSON lines, ranx's JSON, TREC. Values are read as they are written."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from memkit.errors import FormatError
from memkit.formats.disk.files import check_file

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
        mapping: dict[str, Any] = dict(_columns(table, "query_id", "text"))
    else:
        mapping = {}
        numbers = (
            [_grade(relevance) for relevance in table["relevance"].to_pylist()]
            if what == "qrels"
            else run_scores(table)
        )
        for (query, memory), number in zip(_columns(table, "query_id", "memory_id"), numbers, strict=True):
            mapping.setdefault(query, {})[memory] = number
    yield json.dumps(mapping, ensure_ascii=False, indent=1)


def _grade(relevance: float) -> int | float:
    return int(relevance) if relevance == int(relevance) else relevance


def _to_trec(table: pa.Table, what: str) -> Iterable[str]:
    if what == "queries":
        return (
            f"{quoted(name)}\t{' '.join((said or '').split())}" for name, said in _columns(table, "query_id", "text")
        )
    ids = [(quoted(query), quoted(memory)) for query, memory in _columns(table, "query_id", "memory_id")]
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


def _columns(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def run_scores(run: pa.Table) -> Sequence[float]:
    """Scores that keep the order of the hits in programs that sort by score in single precision.

    They are the hits' own where these fall with rank, else 1 / rank throughout: ties and diversity (MMR) make an order
    that scores do not show.
    """
    rank = run["rank"].to_numpy()
    scores = 1.0 / rank if run["score"].null_count else run["score"].to_numpy()
    single = scores.astype(np.float32)
    ids = run["query_id"].to_pylist()
    same_query = np.array([before == after for before, after in pairwise(ids)], bool)
    falls = bool((single[1:][same_query] < single[:-1][same_query]).all())
    return [float(score) for score in (scores if falls else 1.0 / rank)]
