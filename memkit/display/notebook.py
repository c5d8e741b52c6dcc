"""`mk.show`, and what IPython and Python's prompt are told: memkit's results, and relations of DuckDB, are sheets. A
result can also be one HTML file that needs nothing else: for light and dark screens, without network.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import html
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from memkit.base.duck import interruptible, worded
from memkit.base.params import check_value, path_of
from memkit.display.draw import as_html, as_text
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.display.views import ANY, view_of
from memkit.errors import ParameterError, count_of, did_you_mean
from memkit.text.secrets import Mask, mask

if TYPE_CHECKING:
    import pandas as pd


class Shown:
    """A result as it is shown: HTML in a notebook, text anywhere else.

    Attributes
    ----------
    sheets : tuple of Sheet
    hide : Mask
        What hides in all of them what one of them calls a secret.
    """

    def __init__(self, *sheets: Sheet, hide: Mask | None = None) -> None:
        self.hide = hide or Mask()
        for sheet in sheets:
            self.hide = self.hide | sheet.hide if sheet.hide else self.hide
        self.sheets = tuple(sheet.beside(self.hide) if sheet.hide else sheet for sheet in sheets)

    def _repr_html_(self) -> str:
        return as_html(*self.sheets)

    def texts(self) -> Iterator[str]:
        """The texts of all cells."""
        return (cell.text for sheet in self.sheets for row in (*sheet.rows, sheet.leads, sheet.titles) for cell in row)

    def text(self, width: int = 80, colour: bool = False) -> str:
        """Lines of at most `width` cells."""
        return "\n\n".join(as_text(sheet, width, colour) for sheet in self.sheets)

    def __repr__(self) -> str:
        return self.text(terminal_width())


class Displayed:
    """A result that shows itself: its sheets, as HTML in a notebook, as text anywhere else."""

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> Sequence[Sheet]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return Shown(*self._sheets())._repr_html_()

    def __repr__(self) -> str:
        return repr(Shown(*self._sheets()))


class Tabular(Displayed):
    """A result that is one table, and that any data frame library takes.

    Attributes
    ----------
    table : pa.Table
    """

    table: pa.Table

    def to_pandas(self) -> pd.DataFrame:
        """`table` as a data frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> Sequence[Sheet]:
        return (sheet_of(self.table, rows, show_secrets),)


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
        It is not changed; columns of a memkit result come in an order of their own.
    rows : int
        How many rows at most.
    columns : sequence of str, optional
        These, in place of those that are chosen for it.
    width : int, characters, optional
        Of the text; the terminal's unless given.
    show_secrets : bool
        Whether keys, tokens, passwords and card numbers are shown; otherwise a word takes the place of each.

    Raises
    ------
    ParameterError
        For what is neither a table nor a result, or a column that it does not have.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["Пул соединений вырос", "Чай"]}))
    >>> show(search.search("пулы", as_of="2026-03-01"), width=60)
    1 hit for “пулы”, as of 2026-03-01
    Answerability is middle.
    #       score   words  letters
    ─  ──────────  ──────  ───────
    1  0.348 █▍    0.5754   0.2582
        Пул соединений вырос
    further columns: memory_id, chunk_id, path, line_start,
    line_end and 4 more
    """
    check_value("show", "rows", rows, "int", low=1)
    sheets = shown(result, rows, columns, show_secrets)
    ipython = _ipython() if width is None else None
    if ipython is not None:
        from IPython.display import display

        display(sheets)  # type: ignore[no-untyped-call]  # IPython has no types here
    else:
        print(sheets.text(width or terminal_width()))


def shown(
    result: Any, rows: int = ROWS, columns: list[str] | None = None, show_secrets: bool = False, hint: str = ""
) -> Shown:
    """A result as `show` shows it; `hint` says how to see the rows that are not there."""
    if hasattr(result, "_sheets"):
        return Shown(*result._sheets(rows, show_secrets))
    lazy = hasattr(result, "to_arrow_table") and hasattr(result, "limit")
    if lazy:
        with interruptible():
            table = worded(result.limit(rows + 1)).to_arrow_table()
        hint = hint or ".to_arrow_table() has all"
    else:
        table = _table(result)
    _check_columns(columns, table)
    if lazy and table.num_rows > rows:
        hint, table = f"the first {count_of(rows, 'row')}; {hint}", table.slice(0, rows)
    elif table.num_rows <= rows:
        hint = ""
    else:
        hint = f"{rows} of {count_of(table.num_rows, 'row')}; {hint}" if hint else ""
    return Shown(sheet_of(table, rows, show_secrets, columns, hint, partial=lazy and bool(hint)))


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


def register_prompt() -> None:
    """Have Python's own prompt show of these results what a notebook shows, by ``sys.displayhook``, made for that."""
    before = sys.displayhook

    def display(value: Any) -> None:
        words = _at_prompt(value)
        if words is None:
            before(value)
        else:
            print(words)
            builtins._ = value  # type: ignore[attr-defined]  # what the prompt calls the last result

    sys.displayhook = display


def _at_prompt(value: Any) -> str | None:
    sheets = _of_memkit(value) if isinstance(value, (pa.Table, duckdb.DuckDBPyRelation)) else None
    return None if sheets is None else sheets.text(terminal_width())


def _html(result: Any) -> str | None:
    sheets = _of_memkit(result)
    return None if sheets is None else sheets._repr_html_()


def _pretty(result: Any, printer: Any, cycle: bool) -> None:
    sheets = _of_memkit(result)
    printer.text(repr(result) if sheets is None else repr(sheets))


def _of_memkit(result: Any) -> Shown | None:
    if isinstance(result, pa.Table):
        label = (result.schema.metadata or {}).get(b"memkit", b"").decode(errors="replace")
        if view_of(result.column_names, label) is ANY:
            return None
    return shown(result)


def _file(name: str) -> str:
    """A file beside this one: the page, its style, and the script with which its tables are sorted."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def write_page(path: str | Path, title: str, body: str, sortable: bool = False, style: str = "") -> Path:
    """Write a page around `body`, which is HTML already; only the page's own script can run in it.

    Parameters
    ----------
    sortable : bool
        Whether the headings of tables sort them, by mouse or keyboard.
    style : str
        CSS beside the page's own.
    """
    script, policy = "", ""
    if sortable:
        sort = _file("sort.js")
        script = f"<script>{sort}</script>"
        policy = f"; script-src 'sha256-{base64.b64encode(hashlib.sha256(sort.encode()).digest()).decode()}'"
    words = {"title": html.escape(mask(title)), "body": body, "script": script, "policy": policy}
    page = _file("page.html").format(**words, style=_file("page.css") + style)
    place = path_of("report", path)
    place.write_text(page, encoding="utf-8")
    return place
