"""The panel of a table: any result, sorted, filtered and paged by DuckDB in the kernel; the page gets one page of it.

What else was looked at, in November 2026. `quak` 0.3.5 pages with DuckDB too (it runs on 1.5), and loads nothing from
outside. But its page sends SQL that the kernel runs as it is, so nothing stands between a row and the page that could
mask a secret, and whatever runs in the page may read files; no key sorts; without a kernel its output is empty.
`itables` 2.9.1 puts its rows into the page, 64 KB of them and a sample beyond. So the panel is memkit's own, and the
script of its page is that of the other panels.

The rows that a filter leaves are found once, in time linear in the bytes of the table. A page among the first 5,000
rows is the top of an order; any other needs the order of all rows, n log n, which is kept: the next page is a slice.
"""

from __future__ import annotations

import html
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import identifier, interruptible, literal, rows_of, session, worded
from memkit.base.params import Param, check_value
from memkit.display.sheet import begun, lines_of, texts_in, visible
from memkit.errors import ParameterError, count_of
from memkit.panels.page import cut, paragraph, style_of
from memkit.panels.panel import Action, Name, Panel, Section, Session, State, call_code
from memkit.plot.marks import COLOURS, Axis, Bars, Mark, Picture, Text
from memkit.plot.memories import DAY_SECONDS
from memkit.schemas import Floats, Ints
from memkit.search.fitted.chunks import is_filled
from memkit.tables.table import user_table
from memkit.text.secrets import mask

ROWS, MOST_ROWS = 50, 200
"""Rows of a page; the most that a page, and so a stored output, may have."""
_TOP, _ORDERS = 5000, 4
"""Rows up to which a page is the top of an order; how many orders of all rows are kept, so that undo costs nothing."""
_BINS, _VALUES = 30, 12
"""Bins of numbers and dates, and bars of the most frequent values, that a histogram has room for."""
_LABEL, _READ = 28, 4000
"""Characters of a value beside its bar; of one that is read, for secrets."""
_SECTION = "table"


@dataclass(frozen=True)
class ShownRows:
    """The rows that the filter leaves, in order, of which one page is shown.

    Attributes
    ----------
    shown : pyarrow.Table
        The rows of the page; dates, times and nested values as text, and of a long text its beginning.
    positions : list of int
        Where they stand in the table that was given.
    n, first : int
        How many rows there are, and how many of them come before the page.
    page, pages : int
        From 1; a page beyond the last is the last.
    whole : callable
        Gives `table`.
    """

    shown: pa.Table
    positions: list[int]
    n: int
    first: int
    page: int
    pages: int
    whole: Callable[[], pa.Table]

    @cached_property
    def table(self) -> pa.Table:
        """All rows that the filter leaves, in order."""
        return self.whole()


class TablePanel(Panel):
    """A table that sorts, filters and pages, with the histogram of a column.

    Texts are sorted by code point, as everywhere in DuckDB: in Russian capitals come before small letters and Ё before
    all. Rows that are equal keep their order, and empty ones come last.

    Parameters
    ----------
    data : pyarrow.Table, DataFrame, DuckDB relation, Corpus or another result of memkit
        Of a corpus its memories. A relation is computed once.
    rows : int
        The rows of a page, 200 at most.
    filter, sort, descending
        What the controls of these names are set to at first.
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import pyarrow as pa
    >>> panel = TablePanel(pa.table({"text": ["зелёный чай", "кофе", "чай"], "size": [2, 1, 3]}))
    >>> panel.set(filter="чай", sort="size", descending=True)
    >>> panel.result["size"].to_pylist()
    [3, 2]
    >>> panel.set(filter="size: 1")
    >>> panel.result["text"].to_pylist()
    ['кофе']
    """

    title: ClassVar[str] = "table"
    section: ClassVar[str] = _SECTION
    actions: ClassVar[tuple[Action, ...]] = (
        ("first", "First page", "f"),
        ("previous", "Previous page", "p"),
        ("next", "Next page", "n"),
        ("last", "Last page", "l"),
    )
    body_first: ClassVar[bool] = True

    def __init__(
        self,
        data: Any,
        *,
        rows: int = ROWS,
        filter: str = "",
        sort: str | None = None,
        descending: bool = False,
        session: Session | None = None,
    ) -> None:
        check_value("panels.table", "rows", rows, "int", low=1, high=MOST_ROWS)
        self.rows, self._given = rows, data
        self._is_corpus = isinstance(getattr(data, "tables", None), dict)
        self._source = "memories" if self._is_corpus else "data"
        self.data = _readable(data)
        self._names = self.data.column_names
        filled = [number for number, column in enumerate(self.data) if is_filled(column)]
        self._filled = filled or list(range(len(self._names)))
        self._position = _free_name(self._names)
        self._orders: OrderedDict[str, Ints] = OrderedDict()
        self._open: int | None = None
        values = {name: declared.default for name, declared in self.declared.items()}
        for name, value in (("filter", filter), ("sort", sort), ("descending", descending)):
            self.declared[name].check(value, "panels.table")
            values[name] = value
        super().__init__(values, {}, session, data)

    @cached_property
    def _declared(self) -> dict[str, Param]:
        names = tuple(self._names)
        pages = max(2, -(-self.data.num_rows // self.rows))  # a slider has two ends
        declared = (
            Param("", "str", "Rows with these letters in any column; 'column: letters' looks in one.", "filter"),
            Param(None, "str", "The column to sort by.", "sort", choices=names, nullable=True),
            Param(False, "bool", "Largest first.", "descending"),
            Param(
                self._first_histogram(), "str", "The column of the histogram.", "column", choices=names, nullable=True
            ),
            Param(1, "int", "The page.", "page", low=1, high=pages),
        )
        return {param.name: param for param in declared}

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters of the table: filter, sort, descending, column, page."""
        return self._declared

    def _first_histogram(self) -> str:
        """The column whose histogram is shown at first: dates if there are any, else numbers, else the first."""
        filled = [self.data.schema.field(number) for number in self._filled]
        names = [field.name for is_kind in (_is_moment, _is_number) for field in filled if is_kind(field.type)]
        return str([*names, filled[0].name][0])

    def set(self, **values: Any) -> None:
        """As of any panel; another filter or order begins at its first page."""
        if values.keys() & {"filter", "sort", "descending"} and "page" not in values:
            values["page"] = 1
        super().set(**values)

    def spec(self) -> dict[str, Any]:
        """The controls and buttons, placed above the table, which needs the width. There is no profile, as nothing is
        tuned."""
        return {**super().spec(), "profile": False, "wide": True}

    # The rows.

    @property
    def sql(self) -> str:
        """The statement that gives `result`, over ``memories`` of a corpus or over ``data``."""
        values, order = self.session.state[_SECTION], self._position
        if values["sort"] is not None:
            kind = self.data.schema.field(values["sort"]).type
            order = f"{_order_sql(identifier(values['sort']), kind, values['descending'])}, {order}"
        return f"select * exclude ({self._position}) {self._filtered(values['filter'])} order by {order}"

    def _filtered(self, text: str) -> str:
        numbered = f"(select *, row_number() over () as {self._position} from {self._source})"  # noqa: S608  # ours
        return f"from {numbered}{self._filter_sql(text)}"

    def _filter_sql(self, text: str) -> str:
        """The condition of a filter: letters in any column, or in the one that is named; empty where all rows stay."""
        words = text.strip()
        head, colon, letters = (part.strip() for part in words.partition(":"))
        named = [name for name in self._names if name.casefold() == head.casefold()] if colon else []
        if named:
            text, words = self._as_text(head if head in named else named[0]), letters
        else:
            text = f"concat_ws(chr(10), *columns(* exclude ({self._position})))"
        return f" where contains(lower({text}), lower({literal(words)}))" if words else ""

    def _as_text(self, name: str) -> str:
        """A column as text; a time in UTC, whatever the zone of the connection."""
        kind, column = self.data.schema.field(name).type, identifier(name)
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return f"({column} at time zone 'UTC')::varchar"
        return column if pa.types.is_string(kind) else f"{column}::varchar"

    def _matching(self, text: str) -> Ints:
        """The positions of the rows that a filter leaves."""
        if not self._filter_sql(text):
            return np.arange(self.data.num_rows, dtype=np.int64)
        sql = f"select {self._position} - 1 {self._filtered(text)} order by {self._position}"
        return self._cached_order(sql, lambda: rows_of(sql, **{self._source: self.data})[0].to_numpy())

    def _order(self, values: Section, most: int | None = None) -> Ints:
        """The positions of the rows that the filter leaves, in order; or the first `most` where no more is known."""
        matching, name = self._matching(values["filter"]), values["sort"]
        if name is None:
            return matching
        key = repr((self._filter_sql(values["filter"]), name, values["descending"]))
        if most is not None and key not in self._orders:
            return matching[_order_of(self._column(name, matching), values["descending"], most)]
        return self._cached_order(key, lambda: matching[_order_of(self._column(name, matching), values["descending"])])

    def _column(self, name: str, rows: Ints) -> pa.ChunkedArray:
        column = self.data[name]
        return column if len(rows) == self.data.num_rows else column.take(rows)

    def _cached_order(self, key: str, compute: Callable[[], Ints]) -> Ints:
        if key not in self._orders:
            self._orders[key] = compute()
            while len(self._orders) > _ORDERS:
                self._orders.popitem(last=False)
        self._orders.move_to_end(key)
        return self._orders[key]

    def _answer(self, state: State) -> ShownRows:
        values = state[_SECTION]
        n = len(self._matching(values["filter"]))
        pages = max(1, -(-n // self.rows))
        page = min(values["page"], pages)
        first = (page - 1) * self.rows
        last = first + self.rows
        positions = self._order(values, last if last <= _TOP else None)[first:last]
        shown = begun(_worded(self.data.take(positions)))
        return ShownRows(
            shown, positions.tolist(), n, first, page, pages, lambda: self.data.take(self._order(state[_SECTION]))
        )

    def _code(self, state: State) -> str:
        if self._is_corpus:
            corpus = self._name(self._given, "corpus")
            return f"{call_code(f'{corpus}.sql', Name(_quoted(self.sql)))}.to_arrow_table()"
        values = state[_SECTION]
        chosen = {name: values[name] for name in ("filter", "sort", "descending") if values[name]}
        return f"{call_code('mk.panels.table', self._name(self._given, 'data'), **chosen)}.result"

    def _status(self, answer: ShownRows) -> str:
        n, total = answer.n, self.data.num_rows
        count = ("" if n == total else f"{n:,} of ") + count_of(total, "row")
        if not n:
            return f"{count}; no row has these letters" if total else count
        return f"{count}; {_place(answer)}"

    # What keys and clicks do.

    def _press(self, action: str) -> None:
        page, pages = self.answer.page, self.answer.pages
        places = {"first": 1, "previous": max(1, page - 1), "next": min(pages, page + 1), "last": pages}
        self.set(page=places[action])

    def _pick(self, row: str) -> None:
        action, _, number = row.partition(":")
        values = self.session.state[_SECTION]
        if not number.isdecimal():
            return
        if action == "row":
            self._open = None if number == str(self._open) else int(number)
        elif int(number) < len(self._names):
            name = self._names[int(number)]
            if action == "sort":
                self.set(sort=name, descending=values["sort"] == name and not values["descending"])
            elif action == "column":
                self.set(column=name)

    # What is shown.

    def _read(self, answer: ShownRows) -> Iterator[str]:
        yield from texts_in(answer.shown.to_pylist())
        yield from self._names

    def _body(self, answer: ShownRows) -> str:
        values = self.session.state[_SECTION]
        names = [self._names[column] for column in self._filled]
        sides = [' class="n"' if _is_number(self.data.schema.field(column).type) else "" for column in self._filled]
        heads = "".join(
            _head(
                column, name, side, values["column"] == name, values["descending"] if values["sort"] == name else None
            )
            for column, name, side in zip(self._filled, names, sides, strict=True)
        )
        rows = "".join(
            self._row(number, position, cells, sides)
            for number, (position, cells) in enumerate(
                zip(answer.positions, lines_of(answer.shown.select(self._filled)), strict=True), answer.first + 1
            )
        )
        return (
            f"{style_of('table.css')}{paragraph(_place(answer))}"
            '<div class="mk mkgrid" role="region" tabindex="0" aria-label="rows"><table>'
            f'<thead data-list><tr><th scope="col" class="n">#</th>{heads}</tr></thead>'
            f"<tbody data-list>{rows}</tbody></table></div>{self._empty()}"
        )

    def _empty(self) -> str:
        names = [visible(name) for number, name in enumerate(self._names) if number not in self._filled]
        return paragraph(f"Without a value in any row: {', '.join(names)}.") if names else ""

    def _row(self, number: int, position: int, cells: list[str], sides: list[str]) -> str:
        inner = "".join(f"<td{side}>{html.escape(cell)}</td>" for side, cell in zip(sides, cells, strict=True))
        live = f'data-pick="row:{position}" aria-expanded="{str(self._open == position).lower()}"'
        if self._open != position:
            return f'<tr {live}><td class="n">{number:,}</td>{inner}</tr>'
        return (
            f'<tr {live} data-scroll><td class="n">{number:,}</td>{inner}</tr>{self._whole(position, len(cells) + 1)}'
        )

    def _whole(self, position: int, width: int) -> str:
        """A row in full, to stand below it: a value a line."""
        (cells,) = lines_of(_worded(self.data.slice(position, 1)), _READ)
        pairs = [(name, cell) for name, cell in zip(self._names, cells, strict=True) if cell]
        lines = "".join(f"<dt>{html.escape(visible(name))}</dt><dd>{html.escape(cell)}</dd>" for name, cell in pairs)
        return f'<tr><td colspan="{width}"><dl class="mkwhole">{lines}</dl></td></tr>'

    def _picture(self, answer: ShownRows) -> Picture:
        values = self.session.state[_SECTION]
        key = repr((values["column"], self._filter_sql(values["filter"])))
        name, matching = values["column"], values["filter"]
        return self._once("histogram", key, lambda: self._histogram_of(name, self._matching(matching)))

    def _histogram_of(self, name: str | None, rows: Ints) -> Picture:
        if name is None:
            return _nothing("", "choose a column: here is its histogram")
        column = self._column(name, rows)
        if _is_number(column.type) or _is_moment(column.type):
            return _bins(_label(name), column)
        counted = _counted(column)
        examples = self.data.take(rows[counted["first"].to_numpy()])  # whole rows: one column may tell another's secret
        values = [line[self._names.index(name)] for line in lines_of(begun(_worded(examples)))]
        return _ranked(_label(name), values, counted, len(column))


def _readable(data: Any) -> pa.Table:
    """The rows as Arrow that DuckDB can read."""
    is_relation = hasattr(data, "to_arrow_table") and hasattr(data, "project")
    with interruptible():
        table = data.select("*").to_arrow_table() if is_relation else user_table(data, "panels.table: 'data'")
    if not table.num_columns:
        raise ParameterError("panels.table: expected a table with columns. Got one without.")
    try:
        _worded(table.slice(0, 1))
    except (duckdb.Error, pa.ArrowException) as error:
        kinds = ", ".join(sorted({str(kind) for kind in table.schema.types}))
        raise ParameterError(f"panels.table: expected types that DuckDB reads. Got {kinds:.300}: {error}") from error
    # A pivot makes names of values.
    names = [name if mask(name) == name else f"{mask(name)} {number}" for number, name in enumerate(table.column_names)]
    return table.rename_columns(names)


def _free_name(names: list[str]) -> str:
    """A name for the position of a row that no column has."""
    taken, name = {name.casefold() for name in names}, "row"
    while name in taken:
        name += "_"
    return name


def _worded(rows: pa.Table) -> pa.Table:
    """Rows with dates, times and nested values as text."""
    with session() as con, interruptible():
        return worded(con.from_arrow(rows)).to_arrow_table()


def _order_sql(column: str, kind: pa.DataType, descending: bool) -> str:
    """The order by a column; what is missing, and an empty text, comes last in both directions."""
    filled = f"nullif({column}, '')" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else column
    return f"{filled} {'desc' if descending else 'asc'} nulls last"


def _order_of(column: pa.ChunkedArray, descending: bool, most: int | None = None) -> Ints:
    """The order of the values of a column, equal ones as they stand; all, or the first `most`."""
    sql = f"""select row - 1 from (select value, row_number() over () as row from input)
    order by {_order_sql("value", column.type, descending)}, row{"" if most is None else f" limit {most}"}"""  # noqa: S608
    positions: Ints = rows_of(sql, input=pa.table({"value": column}))[0].to_numpy()
    return positions


def _quoted(sql: str) -> str:
    """A statement as a string of Python; in three quotes where that needs no escapes."""
    is_plain = sql.isprintable() and '"""' not in sql and "\\" not in sql
    return f'"""{sql}"""' if is_plain else repr(sql)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


# What stands over the rows.


def _place(answer: ShownRows) -> str:
    last = answer.first + answer.shown.num_rows
    return f"page {answer.page:,} of {answer.pages:,}, rows {min(answer.first + 1, last):,} to {last:,}"


_BARS = (
    '<svg width="12" height="10" viewBox="0 0 12 10" aria-hidden="true">'
    '<path d="M0 6h3v4H0zM4 2h3v8H4zM8 4h3v6H8z" fill="currentColor"/></svg>'
)
_ARROWS = {True: " ▼", False: " ▲"}


def _head(number: int, name: str, side: str, is_shown: bool, descending: bool | None) -> str:
    """A column's head: a button to sort by it (`descending` is None where it does not), one for its histogram."""
    named = html.escape(visible(name))
    order = "" if descending is None else f' aria-sort="{"descending" if descending else "ascending"}"'
    arrow = "" if descending is None else _ARROWS[descending]
    return (
        f'<th scope="col"{order}{side}><button type="button" data-pick="sort:{number}" title="sort by {named}">'
        f"{html.escape(cut(visible(name), _LABEL))}{arrow}</button>"
        f'<button type="button" class="mkbin" data-pick="column:{number}" aria-pressed="{str(is_shown).lower()}"'
        f' aria-label="histogram of {named}" title="histogram of {named}">{_BARS}</button></th>'
    )


# Histograms.


def _nothing(title: str, words: str) -> Picture:
    return Picture(title, [], Axis(0, 1, ticks=()), Axis(0, 1, ticks=()), empty=words)


def _bins(name: str, column: pa.ChunkedArray) -> Picture:
    """Numbers or dates in bins of equal width, with their middle and ends in words."""
    is_time, whole = _is_moment(column.type), pa.types.is_integer(column.type)
    values = _seconds(column) if is_time else pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    values = values[np.isfinite(values)]
    absent = len(column) - len(values)
    title = f"{name}: {count_of(len(values), 'value')}" + (f", {absent:,} empty" if absent else "")
    if not len(values):
        return _nothing(title, "no value")
    if not np.isfinite(float(values.max()) - float(values.min())):
        return _nothing(title, "the values lie too far apart to be counted in bins")
    edges = _edges(values, whole, is_time)
    counts = np.histogram(values, edges)[0]
    written = _day if is_time else _number
    ticks = _ticks(edges, whole, is_time)
    rows: list[tuple[str, Any]] = [
        ("least, middle, largest", ", ".join(written(float(np.quantile(values, part))) for part in (0, 0.5, 1)))
    ]
    rows += [
        (f"{written(low)} to {written(high)}", int(count))
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        if count
    ]
    bars = Bars(edges[:-1], edges[1:], 0.0, counts, COLOURS[0])
    return Picture(title, [bars], Axis(edges[0], edges[-1], name, ticks), Axis(0, 1.05 * counts.max(), "rows"), rows)


def _seconds(column: pa.ChunkedArray) -> Floats:
    """Dates and times in seconds since 1970; NaN for none."""
    moments = column.cast(
        pa.timestamp("us", column.type.tz if pa.types.is_timestamp(column.type) else None), safe=False
    )
    seconds: Floats = moments.cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e6
    return seconds


def _edges(values: Floats, whole: bool, is_time: bool) -> Floats:
    """The ends of up to 30 bins; of whole numbers and days each holds equally many of them."""
    low, high = float(values.min()), float(values.max())
    step = 1.0 if whole else DAY_SECONDS if is_time and high - low > DAY_SECONDS else 0.0
    if step:
        low = np.floor(low / step) * step - (0.5 if whole else 0.0)
        width = step * np.ceil((high + (0.5 if whole else step) - low) / step / _BINS)
        # What lies on the last border itself needs a bin behind it, however little longer.
        n = max(1, int(np.ceil((high + (0.5 if whole else 0.0) - low) / width + (0 if whole else 1e-9))))
        return np.asarray(low + width * np.arange(n + 1), np.float64)
    room = high - low or abs(high) or 1.0
    ends = (low, high) if high > low else (low - room / 2, high + room / 2)
    return np.linspace(*ends, (_BINS if high > low else 1) + 1)


def _ticks(edges: Floats, whole: bool, is_time: bool) -> list[tuple[float, str]] | None:
    if is_time:
        places = edges[np.unique(np.round((len(edges) - 1) * np.array([1, 3, 5]) / 6).astype(int))]  # names need room
        return [(float(edge), _day(float(edge))) for edge in places]
    if not whole or len(edges) > 12:
        return None
    return [(float(edge) + 0.5, _number(float(edge) + 0.5)) for edge in edges[:-1]]


def _day(seconds: float) -> str:
    moment = np.datetime64(round(seconds), "s")
    return str(
        moment.astype("datetime64[D]") if seconds % DAY_SECONDS == 0 else moment.astype("datetime64[m]")
    ).replace("T", " ")


def _number(value: float) -> str:
    # Beyond 2^53 a float is whole, but not exact.
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def _label(text: str) -> str:
    return cut(" ".join(visible(text).split()) or "(empty)", _LABEL)


def _counted(column: pa.ChunkedArray) -> pa.Table:
    """The most frequent values of a column, as text: n, the first row with the value, and how many values there are."""
    sql = f"""with numbered as (select value::varchar as value, row_number() over () - 1 as row from input),
        counted as (
            select left(value, {_READ}) as value, count(*) as n, min(row) as first
            from numbered where value is not null group by all)
    select n, first, count(*) over () as n_values from counted order by n desc, value limit {_VALUES}"""  # noqa: S608
    return rows_of(sql, input=pa.table({"value": column}))


def _ranked(name: str, values: list[str], counted: pa.Table, n: int) -> Picture:
    """The most frequent values, a bar each."""
    named = list(zip(map(_label, values), counted["n"].to_pylist(), strict=True))
    n_values = counted["n_values"][0].as_py() if named else 0
    most = f"the {len(named)} most frequent of " if n_values > len(named) else ""
    title = f"{name}: {most}{count_of(n_values, 'value')} in {count_of(n, 'row')}"
    if not named:
        return _nothing(title, "no value")
    counts, places = counted["n"].to_numpy(), np.arange(len(named))
    marks: list[Mark] = [Bars(0.0, counts, places - 0.4, places + 0.4, COLOURS[0])]
    marks += [Text(count, float(place), f"{count:,}") for place, (_, count) in enumerate(named)]
    up = Axis(max(len(named), 3) - 0.4, -0.6, ticks=[(float(place), label) for place, (label, _) in enumerate(named)])
    others = [("others and empty", n - int(counts.sum()))] if n > counts.sum() else []
    return Picture(title, marks, Axis(0, 1.12 * counts.max(), "rows"), up, [*named, *others])
