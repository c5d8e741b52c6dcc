"""Tables, hits and problems for a person or, as JSON, for a machine."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memkit.duck import connect, identifier
from memkit.text.snippet import snippet

out = Console()
_SHOWN_WIDTH = 100


def show(table: pa.Table | duckdb.DuckDBPyRelation, as_json: bool, title: str | None = None) -> None:
    """Print a table for a person or, with `as_json`, for a machine."""
    if as_json:
        print_json(table)
        return
    found = _printable(table)
    grid = Table(title=title, title_justify="left", show_lines=False)
    for name, kind in zip(found.columns, found.types, strict=True):
        grid.add_column(Text(visible(name)), overflow="fold", justify="right" if kind.id in _NUMBERS else "left")
    rows = found.fetchall()
    for row in rows:
        grid.add_row(*(Text(_cell(value)) for value in row))
    out.print(grid)
    out.print(Text(f"{len(rows)} row{'s' if len(rows) != 1 else ''}", style="dim"))


def print_json(table: pa.Table | duckdb.DuckDBPyRelation) -> None:
    """Print the rows as one JSON array."""
    found = _printable(table)
    rows = [dict(zip(found.columns, map(_plain, row), strict=True)) for row in found.fetchall()]
    print(json.dumps(rows, ensure_ascii=False, indent=1))


def _printable(table: pa.Table | duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """`table` with a name of its own for each column, and with text for what Python has no object for."""
    found = (connect().from_arrow(table) if isinstance(table, pa.Table) else table).select("*")
    columns = []
    for name, kind in zip(map(identifier, found.columns), found.types, strict=True):
        value = _AS_TEXT.get(kind.id.partition(" ")[0].partition("_")[0], "{0}").format(name, kind)
        columns.append(f"{value} as {name}")
    return found.project(", ".join(columns))


_NUMBERS = {"tinyint", "smallint", "integer", "bigint", "hugeint", "float", "double", "decimal"}
_NUMBERS |= {f"u{name}" for name in _NUMBERS}
# Python's dates have no infinity; a union holds either. Its intervals have no months, and none of many years.
_ENDLESS = "case when isinf({0}) then {0}::varchar::union(v {1}, t varchar) else {0}::union(v {1}, t varchar) end"
_AS_TEXT = {"date": _ENDLESS, "timestamp": _ENDLESS, "interval": "{0}::varchar"}


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it: ISO times, null for NaN, text for a number that a double does not hold."""
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return repr(value)[2:-1]
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime) and (value.hour, value.minute, value.second) == (0, 0, 0):
        value = value.date()
    text = visible(str(value))
    return text if len(text) <= 4 * _SHOWN_WIDTH else text[: 4 * _SHOWN_WIDTH] + "…"


def visible(text: str) -> str:
    """`text` with control characters shown: a memory must not drive the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def show_hits(hits: pa.Table, query: str, memories: pa.Table) -> None:
    """Print hits with place and snippet; a hit within a record or fact line is placed by its memory."""
    whole = memories.filter(pc.is_in(memories["format"], value_set=pa.array(["facts", "records", "table"])))
    lines = dict(zip(whole["memory_id"].to_pylist(), whole["line_start"].to_pylist(), strict=True))
    for row in hits.to_pylist():
        line = lines.get(row["memory_id"], row["line_start"])
        place = f"{row['path']}:{line}" if row["path"] else row["memory_id"]
        out.print(Text(f"{row['rank']:>3}  {row['score']:.3f}  {visible(place)}", style="bold"), soft_wrap=True)
        out.print(Text(f"     {visible(snippet(row['text'], query))}"), soft_wrap=True)
    if hits.num_rows == 0:
        note = (hits.schema.metadata or {}).get(b"note", b"nothing found").decode()
        out.print(Text(visible(note), style="dim"))


def show_problems(problems: pa.Table, memories: int, most: int) -> None:
    """Print `problems` by rule, at most so many of each, and the totals over so many memories."""
    by_rule: dict[tuple[str, str], list[str]] = {}
    for row in problems.to_pylist():
        by_rule.setdefault((row["severity"], row["rule"]), []).append(row["message"])
    for (severity, rule), messages in sorted(by_rule.items(), key=_worst_first):
        out.print(Text(f"{severity}  {rule}  ({len(messages)})", style="bold " + _STYLES[severity]))
        for message in messages[:most]:
            out.print(Text(f"  {visible(message)}"), soft_wrap=True)
        if len(messages) > most:
            out.print(Text(f"  … and {len(messages) - most} more (--json lists all)", style="dim"))
    totals = {name: problems["severity"].to_pylist().count(name) for name in _STYLES}
    said = ", ".join(f"{count} {name}{'s' if count != 1 and name != 'info' else ''}" for name, count in totals.items())
    out.print(Text(f"{memories} memories read. {said}."))


def _worst_first(item: tuple[tuple[str, str], list[str]]) -> tuple[int, int, str]:
    (severity, rule), messages = item
    return list(_STYLES).index(severity), -len(messages), rule


_STYLES = {"error": "red", "warning": "yellow", "info": "blue"}
