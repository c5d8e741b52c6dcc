"""A table in, the same table with new columns out, by one DuckDB statement that can be read.

The statement runs over a relation named ``input``: the needed columns of the table, absent ones as nulls, and ``row``,
the 0-based place of each row. Nothing of the table is ever pasted into the text.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Self

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.duck import as_arrow, interruptible, laid_out, session
from memkit.errors import ParameterError
from memkit.formats.syntax.values import time_of
from memkit.params import AsOf, Estimator, as_of_time, check_column, describe, record_as_of, revision_of
from memkit.schemas import KINDS, TIMESTAMP
from memkit.tables.age import AS_OF
from memkit.tables.patterns import Ask, Kept, Pattern, Said, asked, of_one


class Annotator(Estimator):
    """Adds columns to a table by one SQL statement; never drops, adds or moves a row.

    Attributes
    ----------
    name : str
        The one name of the class in the command line, presets and pipelines: its own, as ``index_check``.
    over : str
        The table of a corpus that it looks at.
    needs : pyarrow.Schema
        The columns that the statement reads; an absent one is all null, which is neutral.
    required : tuple of str
        Those of `needs` without which there is nothing to say.
    adds : dict of str to str
        The columns that it adds, by name, with their meaning.
    reads : tuple of str
        Relations that the statement reads beside ``input``.
    by_user : bool
        Whether what it says of a row depends on other rows of its user alone, so that users can be looked at apart.
    """

    learns = False
    name: ClassVar[str]
    over: ClassVar[str] = "memories"
    needs: ClassVar[pa.Schema]
    required: ClassVar[tuple[str, ...]] = ()
    adds: ClassVar[dict[str, str]]
    reads: ClassVar[tuple[str, ...]] = ()
    by_user: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def fit(self, table: Any = None, y: object = None) -> Self:
        """Check the parameters and the table, if one is given; most steps have nothing to learn from it."""
        self.check_params()
        if table is not None:
            self._source(table)
        return self

    def fit_transform(self, table: Any, y: object = None, as_of: AsOf = None) -> pa.Table:
        """`fit`, then `transform`, on the same rows."""
        return self.fit(table).transform(table, as_of)

    def transform(self, table: Any, as_of: AsOf = None) -> pa.Table:
        """Every row of `table`, in order, with this step's columns.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or Corpus
            Rows with memkit's column names; of a corpus, the table that the step is for, most often ``memories``.
        as_of : str, date, datetime or None
            The day that is looked at, UTC; None is now. Kept in the schema metadata.

        Returns
        -------
        pyarrow.Table
            A column of the same name that was there before is kept as ``given_…``.

        Raises
        ------
        ParameterError
            For a parameter, a column's type or an `as_of` that its declaration refuses, and a required column that
            is absent.
        """
        return self._transform(table, as_of)

    def _transform(self, table: Any, as_of: AsOf, kept: Kept | None = None) -> pa.Table:
        """`transform`, with what patterns said of the same rows before, if that is kept."""
        source, moment = self._source(table), as_of_time(as_of)
        relations = self.relations(source, moment)
        ask = kept.of(source) if kept else of_one if source.num_rows == 1 else None
        said = self._said(relations["input"], ask) if ask else {}
        with session() as con:
            for name, relation in relations.items():
                con.register(name, relation)
            for name, known in said.items():
                if known.relation is not None:
                    con.register(name, known.relation)
            found = run(con, laid_out(self._statement(said)), tuple(self.adds), moment)
        result, note = annotate(source, with_meanings(found, self.adds)), self._note(source, relations["input"])
        facts = {"memkit": "policy", "policy": type(self).__name__, "note": note, **revision_of(source)}
        return record_as_of(describe(result, **facts), moment)

    def sql(self, as_of: AsOf = None) -> str:
        """The statement that runs, over the relations in `relations`; the day is ``$as_of`` unless one is given.

        On a connection of your own: ``set TimeZone = 'UTC'``, and register each of ``relations(table)``.
        """
        text = laid_out(self._statement({}))
        return text if as_of is None else text.replace(AS_OF, f"timestamptz '{as_of_time(as_of).isoformat(' ')}'")

    def _statement(self, said: Mapping[str, Said]) -> str:
        """`_sql` after its first step, which asks the patterns unless it is known what they say."""
        self.check_params()
        patterns = self._patterns()
        known = said.get("said")
        first = (known.sql if known else asked(patterns)).replace("\n", "\n    ")
        return f"with tested as (\n    {first}\n)\n{self._sql()}" if patterns else self._sql()

    def _said(self, rows: pa.Table, ask: Ask) -> dict[str, Said]:
        """What the patterns say of the rows, under the name of its relation; none where nobody can be sure of it."""
        patterns = self._patterns()
        found = ask(patterns, rows) if patterns else None
        return {} if found is None else {"said": found}

    def relations(self, table: Any, as_of: AsOf = None) -> dict[str, pa.Table]:
        """What the statement reads: ``input``, the needed columns of `table` and ``row``; and what is in `reads`."""
        self.check_params()
        rows = input_table(self._source(table), self.needs)
        return {"input": rows} | self._relations(rows, as_of_time(as_of))

    def _source(self, table: Any) -> pa.Table:
        self.check_params()
        source = as_table(table, self.over)
        for name in self.required:
            check_column(name, source.column_names, type(self).__name__)
        return source

    def _note(self, source: pa.Table, rows: pa.Table) -> str:
        """What is to be said of the values that came: texts that are not dates, and kinds that nobody declared."""
        said = []
        for name in (field.name for field in rows.schema if field.type == TIMESTAMP):
            given = source[name] if name in source.column_names else rows[name]
            lost = pc.and_(pc.is_valid(given), pc.is_null(rows[name]))
            if count := pc.sum(lost).as_py():
                first = _told(given[pc.index(lost, True).as_py()])
                said.append(f"{count} of '{name}' are not dates and count as missing, as {first}.")
        if said:
            warnings.warn(f"{type(self).__name__}: {' '.join(said)}", RuntimeWarning, stacklevel=4)
        kinds = pc.unique(rows["kind"]).drop_null().to_pylist() if "kind" in self.adds else []
        if unknown := sorted(set(kinds) - KINDS.keys()):
            said.append(f"Kinds that are not declared stay as they are: {', '.join(unknown)}.")
        return " ".join(said)

    def _sql(self) -> str:
        raise NotImplementedError

    def _patterns(self) -> tuple[Pattern, ...]:
        """What regular expressions the statement needs; with any it reads ``tested`` in place of ``input``."""
        return ()

    def _relations(self, rows: pa.Table, moment: datetime) -> dict[str, pa.Table]:
        """Further relations that the statement reads, by name; most steps need none."""
        return {}


def _told(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):  # Python has no such day
        return "one past the years 1 to 9999"


def as_table(data: Any, over: str = "memories", owner: str = "table") -> pa.Table:
    """`data` as an Arrow table: a table, a DataFrame of pandas or Polars, or that table of a corpus.

    Raises
    ------
    ParameterError
        For anything else, for a DataFrame whose columns have no one Arrow type, and for a column that is there twice.
    """
    tables = getattr(data, "tables", None)
    if isinstance(tables, dict) and over in tables:
        data = tables[over]
    try:
        if is_frame(data):
            data = pa.Table.from_pandas(data, preserve_index=False)
        elif is_table(data) and not isinstance(data, pa.Table):
            data = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:  # ValueError: a name twice, or half a character
        raise ParameterError(f"{owner}: every column must have one Arrow type. {error}") from error
    if not isinstance(data, pa.Table):
        expected = "must be a pyarrow.Table, a pandas.DataFrame or a Corpus"
        raise ParameterError(f"{owner} {expected}. Got {type(data).__name__}.")
    if len(set(data.column_names)) < data.num_columns:
        raise ParameterError(f"{owner}: column names must differ. Got {', '.join(data.column_names):.300}.")
    return data


def is_table(data: Any) -> bool:
    """Whether it is a table of Arrow's, pandas', Polars' or of anybody else who speaks Arrow."""
    return isinstance(data, pa.Table) or is_frame(data) or hasattr(type(data), "__arrow_c_stream__")


def is_frame(data: Any) -> bool:
    """Whether it is a DataFrame of pandas, which is imported where there is one, and costs a tenth of a second."""
    return isinstance(data, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def input_table(source: pa.Table, needs: pa.Schema) -> pa.Table:
    """``row`` and the needed columns of `source` in their declared types; absent ones are null."""
    columns = {"row": pa.array(np.arange(source.num_rows))}
    for field in needs:
        columns[field.name] = (
            as_column(source[field.name], field)
            if field.name in source.column_names
            else pa.nulls(source.num_rows, field.type)
        )
    return pa.table(columns)


def as_column(column: pa.ChunkedArray, field: pa.Field, owner: str = "table") -> pa.ChunkedArray:
    """`column` in the type that `field` declares; for a time stamp, what is not a date is null.

    Raises
    ------
    ParameterError
        Where its type does not become that one.

    Examples
    --------
    >>> field = pa.field("created_at", TIMESTAMP)
    >>> as_column(pa.chunked_array([["2026-03-01", "soon"]]), field).to_pylist()[1] is None
    True
    """
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_list(field.type) and pa.types.is_string(column.type):
            return pa.chunked_array([pa.array([_split(value) for value in column.to_pylist()], field.type)])
        return _times(column) if field.type == TIMESTAMP else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        expected = f"{owner}: column '{field.name}' must be {field.type}"
        raise ParameterError(f"{expected}. Got {column.type}: {error}.") from error


def _split(tags: str | None) -> list[str] | None:
    """Words that stand in one text, as in a CSV file: "a, b"."""
    return None if tags is None else [word for part in tags.split(",") if (word := part.strip())]


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Naive times and bare dates are UTC; a text that is no ISO 8601 time is null, as a day before the year 1 is.

    A number is refused, as its unit is not known.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.string()) if pa.types.is_string_view(kind) else column  # which Arrow cannot look up
        texts = pc.unique(column)
        moments = [None if text is None else time_of(text) for text in texts.to_pylist()]
        return pa.array(moments, TIMESTAMP).take(pc.index_in(column, value_set=texts))
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms"))
    elif pa.types.is_null(kind):
        return column.cast(TIMESTAMP)
    elif not pa.types.is_timestamp(kind):
        raise pa.ArrowInvalid("a date, a time stamp or an ISO 8601 string is expected")
    column = within_calendar(column)
    if column.type.tz is not None:
        return column.cast(TIMESTAMP, safe=False)
    return pc.assume_timezone(column.cast(pa.timestamp("us"), safe=False), "UTC")


_CALENDAR = (-62_135_596_800, 253_402_300_800)
"""Seconds of the year 1 and the year 10000: what Python's dates hold, so that ages and days can be computed with."""


def within_calendar(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`column` with null for what lies before the year 1 or after the year 9999."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
    if per_second == 10**9:  # which reach from 1677 to 2262
        return column
    first, after = (seconds * per_second for seconds in _CALENDAR)
    numbers = column.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, after))
    return pc.if_else(inside, column, pa.scalar(None, column.type))


def run(con: duckdb.DuckDBPyConnection, sql: str, columns: tuple[str, ...], moment: datetime) -> pa.Table:
    """The named columns of the statement's result, in the order of ``row``."""
    names = ", ".join(columns)
    text = f"select row, {names} from (\n{sql}\n)"  # noqa: S608  # column names of ours around a statement of ours
    with interruptible():
        found = as_arrow(con, text, {"as_of": moment} if AS_OF in sql else None)
    rows = found["row"].to_numpy()
    # Windows shuffle the rows; most statements keep them, and looking is cheaper than sorting.
    if len(rows) and not bool(np.all(rows[1:] > rows[:-1])):
        found = found.take(np.argsort(rows))
    return found.drop_columns("row")


def annotate(source: pa.Table, found: pa.Table) -> pa.Table:
    """`source` with the columns of `found`; a column in the way is kept as ``given_…``.

    Examples
    --------
    >>> annotate(pa.table({"keep": [True]}), pa.table({"keep": [False]})).column_names
    ['given_keep', 'keep']
    """
    taken = set(source.column_names) | set(found.column_names)
    names = []
    for name in source.column_names:
        if name in found.column_names:
            while name in taken:
                name = "given_" + name
            taken.add(name)
        names.append(name)
    result = source.rename_columns(names)
    for field, column in zip(found.schema, found.columns, strict=True):
        result = result.append_column(field, column)
    return result


def with_meanings(found: pa.Table, meanings: dict[str, str]) -> pa.Table:
    """`found` with each column's meaning in its field's metadata."""
    fields = [field.with_metadata({"meaning": meanings[field.name]}) for field in found.schema]
    return pa.table(found.columns, schema=pa.schema(fields))
