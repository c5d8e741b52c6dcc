"""`mk.show`, and what IPython is told: memkit's results, and relations of DuckDB, are drawn as sheets."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import pyarrow as pa

from memkit.display.draw import as_html, as_text
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.display.views import ANY, view_of
from memkit.errors import ParameterError, did_you_mean
from memkit.params import check_value


class Shown:
    """A result as it is shown: HTML in a notebook, text anywhere else."""

    def __init__(self, *sheets: Sheet) -> None:
        self.sheets = sheets

    def _repr_html_(self) -> str:
        return as_html(*self.sheets)

    def text(self, width: int = 80, colour: bool = False) -> str:
        """Lines of at most `width` cells."""
        return "\n\n".join(as_text(sheet, width, colour) for sheet in self.sheets)

    def __repr__(self) -> str:
        return self.text(terminal_width())


def show(
    result: Any,
    *,
    rows: int = ROWS,
    columns: list[str] | None = None,
    width: int | None = None,
    show_secrets: bool = False,
) -> None:
    """Show a result: in a notebook as HTML, elsewhere as a table of the terminal's width.

    Parameters
    ----------
    result : pyarrow.Table, DuckDB relation, DataFrame, Context, Corpus or another result of memkit
        It stays what it is; a result of memkit has its own columns first.
    rows : int
        How many rows at most.
    columns : sequence of str, optional
        These, in place of those that are chosen for it.
    width : int, characters, optional
        Of the text; the terminal's unless given.
    show_secrets : bool
        Whether keys, tokens, passwords and cards are shown; else a word stands for each.

    Raises
    ------
    ParameterError
        For what is no table and no result, or a column that it has not.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["Пул соединений вырос", "Чай"]}))
    >>> show(search.search("пулы", as_of="2026-03-01"), width=60)
    1 hit for “пулы”, as of 2026-03-01
    #       score   words
    ─  ──────────  ──────
    1  1.000 ████  0.5754
        Пул соединений вырос
    further columns: memory_id, chunk_id, path, line_start,
    line_end
    """
    check_value("show", "rows", rows, "int", low=1)
    shown = Shown(*_sheets(result, rows, columns, show_secrets))
    ipython = _ipython() if width is None else None
    if ipython is not None:
        from IPython.display import display

        display(shown)  # type: ignore[no-untyped-call]  # IPython has no types here
    else:
        print(shown.text(width or terminal_width()))


def _sheets(result: Any, rows: int, columns: list[str] | None, show_secrets: bool) -> tuple[Sheet, ...]:
    if hasattr(result, "_sheets"):
        return result._sheets(rows, show_secrets)  # type: ignore[no-any-return]  # of memkit's own results
    more = ""
    if hasattr(result, "to_arrow_table") and hasattr(result, "limit"):
        table = result.limit(rows + 1).to_arrow_table()
        if table.num_rows > rows:
            more = f"the first {rows} rows; .to_arrow_table() has all"
            table = table.slice(0, rows)
    else:
        table = _table(result)
    _check_columns(columns, table)
    return (sheet_of(table, rows, show_secrets, columns, more),)


def _table(result: Any) -> pa.Table:
    if isinstance(result, pa.Table):
        return result
    try:
        return pa.table(result)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ParameterError(f"show: expected a table or a result of memkit. Got {type(result).__name__}.") from error


def _check_columns(columns: list[str] | None, table: pa.Table) -> None:
    for name in columns or ():
        if name not in table.column_names:
            hint = did_you_mean(name, table.column_names)
            raise ParameterError(f"show: expected columns among {', '.join(table.column_names)}. Got {name!r}.{hint}")


def terminal_width() -> int:
    """The cells of a line of the window; 80 where there is none."""
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def _ipython() -> Any:
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None


def register(ipython: Any) -> None:
    """Have `ipython` draw memkit's results and DuckDB's relations; every other table stays as Arrow shows it."""
    for kind in ("text/html", "text/plain"):
        formatter = ipython.display_formatter.formatters[kind]
        for module, name in (("pyarrow.lib", "Table"), ("_duckdb", "DuckDBPyRelation"), ("duckdb", "DuckDBPyRelation")):
            formatter.for_type_by_name(module, name, _html if kind == "text/html" else _pretty)


def _html(result: Any) -> str | None:
    shown = _own(result)
    return None if shown is None else shown._repr_html_()


def _pretty(result: Any, printer: Any, cycle: bool) -> None:
    shown = _own(result)
    printer.text(repr(result) if shown is None else repr(shown))


def _own(result: Any) -> Shown | None:
    if isinstance(result, pa.Table):
        label = (result.schema.metadata or {}).get(b"memkit", b"").decode(errors="replace")
        if view_of(result.column_names, label) is ANY:
            return None
    return Shown(*_sheets(result, ROWS, None, False))
