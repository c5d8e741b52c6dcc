"""Tables, hits and problems for a person or, as JSON, for a machine."""

from __future__ import annotations

import json
import math
import shlex
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.text import Text

from memkit.base.duck import printable, rows_of
from memkit.base.params import describe
from memkit.display.notebook import shown
from memkit.display.sheet import visible
from memkit.errors import count_of
from memkit.formats.faults import SEVERITIES, tally
from memkit.text.secrets import Mask

out = Console()
_ROWS = 200


def show(result: Any, as_json: bool, columns: list[str] | None = None, rows: int = _ROWS) -> None:
    """Print a result for a person or, with `as_json`, a table for a machine."""
    if as_json:
        print_json(result)
        return
    colour = out.is_terminal and not out.no_color
    print(shown(result, rows=rows, columns=columns, hint="--json prints all").text(out.width, colour))


def print_json(table: pa.Table | duckdb.DuckDBPyRelation) -> None:
    """Print the rows as one JSON array."""
    printed = printable(table)
    rows = [dict(zip(printed.columns, map(_plain, row), strict=True)) for row in printed.fetchall()]
    print(json.dumps(rows, ensure_ascii=False, indent=1))


def _plain(value: Any) -> Any:
    """`value` as JSON: ISO times, null for NaN, text for a number that a double cannot hold."""
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


def show_problems(problems: pa.Table, memories: int, most: int, hide: Mask, secrets: int, path: Path) -> None:
    """Print `problems` by rule, at most `most` of each, then how many there are, unlisted secrets included."""
    by_rule: dict[tuple[str, str], list[str]] = {}
    for row in problems.to_pylist():
        by_rule.setdefault((row["severity"], row["rule"]), []).append(row["message"])
    for (severity, rule), messages in sorted(by_rule.items(), key=_worst_first):
        out.print(Text(f"{severity}  {rule}  ({len(messages)})", style="bold " + _STYLES[severity]))
        for message in messages[:most]:
            out.print(Text(f"  {visible(hide(message))}"), soft_wrap=True)
        if len(messages) > most:
            out.print(Text(f"  … and {len(messages) - most} more (--json lists all)", style="dim"))
    out.print(
        Text(f"{count_of(memories, 'memory')} read. {tally([*problems['severity'].to_pylist(), *_unlisted(secrets)])}.")
    )
    if secrets:
        typed = visible(f"memkit check {shlex.quote(str(path))} --secrets")
        found = f"{secrets} of these {'is a secret' if secrets == 1 else 'are secrets'} in memories"
        out.print(Text(f"{found}: {typed} lists where."), soft_wrap=True)


def _unlisted(secrets: int) -> list[str]:
    """The severities of secrets that are counted and not listed."""
    return [SEVERITIES["secret"]] * secrets


def _worst_first(item: tuple[tuple[str, str], list[str]]) -> tuple[int, int, str]:
    (severity, rule), messages = item
    return list(_STYLES).index(severity), -len(messages), rule


_STYLES = {"error": "red", "warning": "yellow", "info": "blue"}


_SUMMARY = """
    select {kind} as kind, keep, reason, count(*) as rows, {factor} min({example}) as example
    from input group by all order by all
"""


def summary(annotated: pa.Table) -> pa.Table:
    """The verdicts by kind and reason: kind, keep, reason, rows, an example, and the mean factor where there is one.

    Examples
    --------
    >>> rows = {"kind": ["note", "note"], "keep": [True, False], "reason": [None, "limit"], "text": ["a", "b"]}
    >>> summary(pa.table(rows)).select(["keep", "reason", "rows"]).to_pylist()
    [{'keep': False, 'reason': 'limit', 'rows': 1}, {'keep': True, 'reason': None, 'rows': 1}]
    """
    names = annotated.column_names
    parts = {
        "kind": next((name for name in ("kind", "category") if name in names), "''"),
        "factor": "round(avg(factor), 3) as mean_factor," if "factor" in names else "",
        "example": r"left(regexp_replace(trim(text), '\s+', ' ', 'g'), 300)" if "text" in names else "file",
    }
    return describe(rows_of(_SUMMARY.format_map(parts), input=annotated), memkit="verdicts")
