"""Draws sheets as HTML for light and dark backgrounds and as aligned text, where `mk.show`, IPython and Python's prompt
ask for it: memkit's results, and relations of DuckDB, are sheets. A result can also be one HTML file that needs nothing
else.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import html
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from memkit.base.duck import interruptible, worded
from memkit.base.params import check_value, path_of
from memkit.display.sheet import ROWS, Cell, Sheet, is_number, named_in, sheet_of
from memkit.display.views import ANY, Column, view_of
from memkit.errors import ParameterError, count_of, did_you_mean, some_of
from memkit.schemas import without_views
from memkit.text.secrets import Mask, mask
from memkit.text.sentences import marked

if TYPE_CHECKING:
    import pandas as pd

STYLE = Path(__file__).with_name("sheet.css").read_text(encoding="utf-8").strip()
"""Colours come from the page that it stands on; what is added is see-through, so that it shows on both grounds."""
_LEFT, _RIGHT = (f' align="{side}" style="text-align:{side}"' for side in ("left", "right"))
"""On each cell too: a code host, and JupyterLab in a notebook that is not trusted, leave the stylesheet out."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GAP = "  "
_NOTE = 5  # lines; in 60 columns a verdict takes four, and its end says what could not be seen
_BAR, _LINE, _LEAST = 4, 11, 7
"""Cells of a terminal: of a bar, of the line of an interval, and below which no column is narrowed."""
_REPLACED = "replaced"
"""The look of a column that has a line of its own in a terminal."""
_PAGE, _LEAD_WIDTH, _WORD_WIDTH, _SHORT = 670, 240, 11, 18
"""The width of a narrow page and of the main text, in pixels; the least width of a column of texts and the largest of a
short one, in characters."""
_LINES, _LONG = 33, 11
"""The lines of a terminal that rows may take; the number of rows up to which the main text takes two lines."""
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_NO_WIDTH = {ord(char): None for char in "\u200b\u200c\u200d\ufe0e\ufe0f"}


def as_html(*sheets: Sheet) -> str:
    """The sheets as one piece of HTML that needs nothing else; every word is escaped."""
    return f'<div class="mk"><style>{STYLE}</style>{"".join(map(_sheet, sheets))}</div>'


def _sheet(sheet: Sheet) -> str:
    parts = [f"<p><b>{html.escape(sheet.heading)}</b></p>"]
    parts += [_bar(sheet.bar)]
    parts += [f"<p>{html.escape(note)}</p>" for note in sheet.notes]
    wide = _in_page(sheet)
    no_room = [
        _name(c) for number, c in enumerate(sheet.columns) if number not in wide and not (c.small and sheet.leads)
    ]
    parts += [table_of(sheet, wide)] if sheet.rows else []
    foot = _foot(sheet, len(sheet.rows), no_room)
    parts += [f"<p><small>{html.escape(foot)}</small></p>"] if foot else []
    return "".join(parts)


def table_of(
    sheet: Sheet,
    wide: Sequence[int],
    head: str = "",
    picks: Sequence[str] = (),
    badges: Sequence[str] = (),
    below: Mapping[str, str] | None = None,
) -> str:
    """The rows of a sheet with these columns; the main text and the small columns share the column called `head`.

    Parameters
    ----------
    picks : sequence of str
        The id of each row, where rows can be picked.
    badges : sequence of str
        HTML below the main text of each row.
    below : mapping of str to str, optional
        HTML in a row of its own below that of a pick.
    """
    small = [number for number, column in enumerate(sheet.columns) if column.small]
    before = 1 if sheet.columns and sheet.columns[0].look == "count" else 0
    kinds = {number: _class(sheet.columns[number], [row[number] for row in sheet.rows]) for number in wide}
    heads = [f'<th scope="col"{kinds[number]}>{_head(_name(sheet.columns[number]))}</th>' for number in wide]
    heads[before:before] = [f'<th scope="col"{_LEFT}>{head}</th>'] if sheet.leads else []
    rows = []
    for place, row in enumerate(sheet.rows):
        cells = [f"<td{kinds[number]}>{html.escape(row[number].text)}{graphic(row[number])}</td>" for number in wide]
        if sheet.leads:
            under = " · ".join(html.escape(row[number].text) for number in small if row[number].text)
            cells[before:before] = [
                _lead(sheet.titles[place], sheet.leads[place], under, badges[place] if badges else "")
            ]
        live = f' data-pick="{html.escape(picks[place])}"' if picks else ""
        rows.append(f"<tr{live}>{''.join(cells)}</tr>")
        if picks and below and picks[place] in below:
            rows.append(f'<tr><td colspan="{len(cells)}">{below[picks[place]]}</td></tr>')
    return f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _head(name: str) -> str:
    """A heading that breaks at blanks, and within a word only where it is longer than any of memkit's."""
    long = max(map(len, name.split()), default=0) > _SHORT
    return f'<span class="x">{html.escape(name)}</span>' if long else html.escape(name)


def _in_page(sheet: Sheet) -> list[int]:
    """The columns that a narrow page has room for beside the main text; the foot names the others."""
    chosen, room = list[int](), _PAGE - (_LEAD_WIDTH if sheet.leads else 0)
    for number, column in enumerate(sheet.columns):
        if column.small and sheet.leads:
            continue
        cells = [row[number] for row in sheet.rows]
        words = [len(word) for word in _name(column).replace("-", " ").split()]
        longest = max([*words, *(len(cell.text) for cell in cells)])
        # Some 8 pixels a letter, and 8 between two columns.
        room -= 8 * (longest if _is_short(cells) else max([_WORD_WIDTH, *words])) + 8
        if room >= 0 or not chosen:
            chosen.append(number)
    return chosen


def _is_short(cells: Sequence[Cell]) -> bool:
    return all(len(cell.text) <= _SHORT for cell in cells)


def _class(column: Column, cells: Sequence[Cell]) -> str:
    return f' class="n"{_RIGHT}' if is_number(column) else f' class="{"w" if _is_short(cells) else "t"}"{_LEFT}'


def _bar(share: float | None) -> str:
    return "" if share is None else f'<i class="b"><i style="width:{share:.0%}"></i></i>'


def graphic(cell: Cell) -> str:
    """The bar or interval of a cell."""
    return _bar(cell.bar) + _span(cell.span)


def _span(span: tuple[float, float, float, float] | None) -> str:
    """An interval as a piece of a bar, with a stroke at its middle and a faint one at zero."""
    if span is None:
        return ""
    begins, middle, ends, zero = (min(1.0, max(0.0, end)) for end in span)
    zero_mark = f'<b class="o" style="left:{zero:.0%}"></b>' if zero else ""
    piece = f'<i style="left:{begins:.0%};width:{max(0.02, ends - begins):.0%}"></i>'
    return f'<i class="b s">{piece}{zero_mark}<b style="left:{middle:.0%}"></b></i>'


def _lead(title: Cell, lead: Cell, under: str, badges: str) -> str:
    parts = [f"<b>{marks(title)}</b>"] if title.text else []
    parts += [marks(lead)] if lead.text else []
    parts += [f"<small>{under}</small>"] if under else []
    return f'<td class="l"{_LEFT}>{"<br>".join(parts)}{badges}</td>'


def marks(cell: Cell) -> str:
    """The text of a cell, escaped, with the words of its query marked."""
    return "".join(
        f"<mark>{html.escape(part)}</mark>" if is_marked else html.escape(part)
        for part, is_marked in marked(cell.text, cell.query)
    )


def _foot(sheet: Sheet, shown: int, no_room: Sequence[str] = ()) -> str:
    """How to see the rows and columns that are not shown."""
    parts = []
    if sheet.hint or shown < sheet.total:
        ask = f"mk.show(result, rows={min(sheet.total, 100)}) shows more, .to_pandas() has all"
        parts.append(sheet.hint or f"{shown} of {count_of(sheet.total, 'row')}; {ask}")
    for words, names in (("further columns", sheet.hidden_columns), ("no room for", no_room)):
        if names:
            parts.append(f"{words}: {some_of(names)}")
    return ". ".join(parts)


def as_text(sheet: Sheet, width: int = 80, colour: bool = False) -> str:
    """The sheet as lines of at most `width` cells, columns aligned whatever the script; bold where `colour`."""
    lines = fold(sheet.heading, width)
    lines += [] if sheet.bar is None else [f"▕{bar(sheet.bar, min(40, width - 2))}▏"]
    lines += [line for note in sheet.notes for line in fold(note, width, _NOTE)]
    most = 2 if len(sheet.rows) <= _LONG else 1
    rows = sheet.rows[: _LINES // (1 + most)] if sheet.leads and len(sheet.rows) <= ROWS else sheet.rows
    columns, table = _joined(sheet)
    widths = _fitted(columns, table, width)
    if widths and rows:
        heads = [_aligned(_name(columns[number]), wide, is_number(columns[number])) for number, wide in widths.items()]
        lines += [_GAP.join(heads), _GAP.join("─" * wide for wide in widths.values())]
    for number, row in enumerate(table[: len(rows)]):
        lines += (
            [_GAP.join(_placed(columns[number], row[number], wide) for number, wide in widths.items())]
            if widths
            else []
        )
        lines += _lead_text(sheet, number, width, most, colour) if sheet.leads else []
        lines += _replaced(sheet, number, width)
    no_room = [_name(column) for number, column in enumerate(columns) if number not in widths]
    return "\n".join(line.rstrip() for line in [*lines, *fold(_foot(sheet, len(rows), no_room), width, 3)])


def _joined(sheet: Sheet) -> tuple[list[Column], list[list[str]]]:
    """The columns as text, with the small ones joined into a last one."""
    wide = [number for number, column in enumerate(sheet.columns) if not column.small]
    small = [number for number, column in enumerate(sheet.columns) if column.small and column.look != _REPLACED]
    columns, table = (
        [sheet.columns[number] for number in wide],
        [[_words(sheet.columns[number], row[number]) for number in wide] for row in sheet.rows],
    )
    if small:
        columns.append(Column("where", look="place"))
        for cells, row in zip(table, sheet.rows, strict=True):
            cells.append(" · ".join(_plain(row[number].text) for number in small if row[number].text))
    return columns, table


def _words(column: Column, cell: Cell) -> str:
    if cell.span is not None:
        return f"{_plain(cell.text)} {line(cell.span)}"
    return _plain(f"{cell.text} {bar(cell.bar)}" if cell.bar is not None and column.look == "score" else cell.text)


def _lead_text(sheet: Sheet, number: int, width: int, most: int, colour: bool) -> list[str]:
    title, lead = sheet.titles[number].text, sheet.leads[number]
    words = f"{title}: {lead.text}" if title and lead.text else title or lead.text
    lines = [f"    {line}" for line in ([_plain(words)] if sheet.is_command else fold(words, width - 4, most))]
    if not colour:
        return lines
    return [
        "".join(f"{_BOLD}{part}{_PLAIN}" if is_marked else part for part, is_marked in marked(x, lead.query))
        for x in lines
    ]


def _replaced(sheet: Sheet, number: int, width: int) -> list[str]:
    """What a hit stands for, in a line of its own."""
    cells = (cell for column, cell in zip(sheet.columns, sheet.rows[number], strict=True) if column.look == _REPLACED)
    return [f"    {line}" for cell in cells if cell.text for line in fold(cell.text, width - 4, 2)]


def _fitted(columns: list[Column], table: list[list[str]], width: int) -> dict[int, int]:
    """The columns that fit, and how wide each is; texts give way first, then the last columns."""
    widths = {
        number: min(width, max([cell_len(_name(column)), *(cell_len(row[number]) for row in table)]))
        for number, column in enumerate(columns)
    }
    while sum(widths.values()) + len(_GAP) * (len(widths) - 1) > width:
        give = {number: wide for number, wide in widths.items() if not is_number(columns[number])}
        widest = max(give, key=lambda number: give[number], default=None)
        if widest is not None and widths[widest] > max(_LEAST, cell_len(_name(columns[widest]))):
            widths[widest] -= 1
        elif len(widths) > 1:
            widths.popitem()
        else:
            return dict.fromkeys(widths, width)
    return widths


def bar(share: float, cells: int = _BAR) -> str:
    """A bar of block characters, as long as `share` of so many cells.

    >>> bar(0.6, 5), bar(0.05, 5)
    ('███  ', '▎    ')
    """
    eighths = round(share * cells * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(cells)


def line(span: tuple[float, float, float, float], cells: int = _LINE) -> str:
    """An interval as a thick piece of a line, with a mark at its middle and one at zero.

    >>> line((0.2, 0.4, 0.7, 0.5), 11)
    '──━━●┿━━───'
    """
    begins, middle, ends, zero = (round(min(1.0, max(0.0, end)) * (cells - 1)) for end in span)
    graphic = ["━" if begins <= cell <= ends else "─" for cell in range(cells)]
    if 0 < zero < cells - 1:
        graphic[zero] = "┿" if begins <= zero <= ends else "┼"
    graphic[middle] = "●"
    return "".join(graphic)


def _name(column: Column) -> str:
    return column.head or column.name


def _plain(text: str) -> str:
    return text.translate(_NO_WIDTH)


def _placed(column: Column, text: str, width: int) -> str:
    if column.look == "place":  # date and kind give way before the path, whose end says most
        while cell_len(text) > width and " · " in text:
            text = text.rpartition(" · ")[0]
    return _aligned(text, width, is_number(column), column.look == "place")


def _aligned(text: str, width: int, right: bool, keep_end: bool = False) -> str:
    if cell_len(text) > width:
        text = _cut(text[::-1], width)[::-1] if keep_end else _cut(text, width)
    pad = " " * (width - cell_len(text))
    return pad + text if right else text + pad


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…"


def fold(text: str, width: int, most: int = 3) -> list[str]:
    """`text` in at most `most` lines of `width` cells, broken at blanks where there are any, the last one cut."""
    lines, line = list[str](), ""
    for word in _plain(text).split(" "):
        while True:
            longer = f"{line} {word}" if line else word
            if cell_len(longer) <= width:
                line = longer
                break
            if line:
                lines.append(line)
                line = ""
            else:
                head = set_cell_size(word, width).rstrip()
                lines.append(head)
                word = word[len(head) :]
        if len(lines) > most:
            break
    lines += [line] if line else []
    return lines if len(lines) <= most else [*lines[: most - 1], _cut(" ".join(lines[most - 1 : most + 1]), width)]


class Shown:
    """A result as it is shown: HTML in a notebook, text anywhere else.

    Attributes
    ----------
    sheets : tuple of Sheet
    hide : Mask
        What hides in all of them what one of them, or one of the `memories`, calls a secret.
    """

    def __init__(self, *sheets: Sheet, memories: pa.Table | None = None) -> None:
        self.sheets = sheets
        self.hide = Mask() if memories is None else named_in(memories, self.texts())
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

    @property
    def _memories(self) -> pa.Table | None:
        """Of what the result was made, where that is known: what one of these calls a secret is not shown."""
        return None

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> Sequence[Sheet]:
        raise NotImplementedError

    def _shown(self) -> Shown:
        return Shown(*self._sheets(), memories=self._memories)

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    def __repr__(self) -> str:
        return repr(self._shown())


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
        return Shown(*result._sheets(rows, show_secrets), memories=None if show_secrets else result._memories)
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
    try:
        return without_views(result if isinstance(result, pa.Table) else pa.table(result))
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ParameterError(f"show: expected a table or a result of memkit. Got {type(result).__name__}.") from error


def _check_columns(columns: list[str] | None, table: pa.Table) -> None:
    for name in columns or ():
        if name not in table.column_names:
            hint = did_you_mean(name, table.column_names)
            raise ParameterError(f"show: expected columns among {', '.join(table.column_names)}. Got {name!r}.{hint}")


def terminal_width() -> int:
    """The cells of a line of the window; 80 where there is none."""
    # Narrower, no two columns have room.
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
    is_one = isinstance(value, pa.Table) or type(value).__name__ == "DuckDBPyRelation"
    sheets = _of_memkit(value) if is_one else None
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
