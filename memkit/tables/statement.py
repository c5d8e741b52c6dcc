"""`Annotator`: adds columns to a table with one readable DuckDB statement.

The statement reads a relation named ``input``: the needed columns of the table (null where absent), and ``row``, the
0-based position of each row. No value of the table is ever pasted into the statement.

The result of each regular expression of a policy is a column of ``tested``, the first step of its statement. The rest
reads these columns by name, so it does not matter how they are computed: by DuckDB for a table; by RE2 itself for few
rows, as DuckDB takes milliseconds to compile a pattern and a policy needs a dozen; or by `PatternCache`, which keeps
the results while a slider moves.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.duck import as_arrow, interruptible, laid_out, literal, rows_of, session
from memkit.base.params import AsOf, Estimator, Moment, check_column, describe, revision_of
from memkit.errors import ParameterError
from memkit.formats.spelling import time_of
from memkit.schemas import KINDS, TIMESTAMP, ends_of, kinds_where, without_views
from memkit.tables.age import with_moments

if TYPE_CHECKING:
    import duckdb

try:
    import re2
except ImportError:  # no wheel for this machine: DuckDB evaluates one row as well
    re2 = None

_SAME_UNICODE = re.compile("[^\U0002ebf0-\U0010ffff]*")
"""Up to here DuckDB and RE2 agree on what a letter is; later versions of Unicode have more letters."""

FEW_ROWS = 1_000
"""Up to so many rows RE2 itself is asked. For one text, as in a save, the policies take a fifth of DuckDB's time, which
is 80 ms less; for a thousand rows two fifths, for four thousand seven tenths."""

Form = Literal["test", "first", "every", "replace"]
Match = Callable[[Sequence["Pattern"], pa.Table], pa.Table | None]
"""Evaluates patterns over rows: ``row`` and a column for each; None where the result may differ from DuckDB's."""
MATCHED_SQL = "select * from input left join matches using (row)"
"""``tested`` where the results are known, as the relation ``matches``."""


class _Form(NamedTuple):
    sql: str
    type: pa.DataType
    answer: Callable[[Any, bytes, bytes], Any]


_FORMS: dict[Form, _Form] = {
    "test": _Form(
        "regexp_matches({column}, {re2})",
        pa.bool_(),
        lambda pattern, text, instead: pattern.search(text) is not None,
    ),
    "first": _Form(
        "nullif(regexp_extract({column}, {re2}, 1), '')",
        pa.string(),
        lambda pattern, text, instead: (pattern.search(text) or ("", b""))[1] or None,
    ),
    "every": _Form(
        "regexp_extract_all({column}, {re2}, 1)",
        pa.list_(pa.string()),
        lambda pattern, text, instead: [match[1] or b"" for match in pattern.finditer(text)],
    ),
    "replace": _Form(
        "regexp_replace({column}, {re2}, {instead}, 'g')",
        pa.string(),
        lambda pattern, text, instead: pattern.sub(instead, text),
    ),
}


@dataclass(frozen=True)
class Pattern:
    r"""One regular expression over one column.

    Attributes
    ----------
    name : str
        The column of ``tested`` with its result; null where the column that it reads is null.
    re2 : str
        The expression in the syntax of RE2; with a group 1 where `form` is ``first`` or ``every``.
    form : {"test", "first", "every", "replace"}
        The result: whether it matches; the first match, or null; a list of all matches, which must not be empty
        strings; or the text with each match replaced by `instead`.
    column : str or Pattern
        The column of ``input`` that it reads, or another pattern whose result it reads.
    instead : str
        The replacement; ``\1`` stands for group 1.
    after : Pattern or str, optional
        A cheaper pattern that matches wherever this one does, or a SQL condition on ``input`` under which the result is
        needed. Other rows need not be evaluated, and their results mean nothing.

    Examples
    --------
    >>> Pattern("tea", "(?i)(чай|tea)", "first").sql
    "nullif(regexp_extract(text, '(?i)(чай|tea)', 1), '')"
    """

    name: str
    re2: str
    form: Form = "test"
    column: str | Pattern = "text"
    instead: str = ""
    after: Pattern | str | None = field(default=None, compare=False)

    @property
    def reads(self) -> str:
        """The name of the column."""
        return self.column if isinstance(self.column, str) else self.column.name

    @property
    def sql(self) -> str:
        """The SQL expression of its column."""
        call = _FORMS[self.form].sql.format(column=self.reads, re2=_quoted(self.re2), instead=_quoted(self.instead))
        condition = self.after.name if isinstance(self.after, Pattern) else self.after
        return f"case when {condition} then {call} end" if condition else call

    @property
    def type(self) -> pa.DataType:
        """The type of its column."""
        return _FORMS[self.form].type

    def matcher(self) -> Callable[[str], Any]:
        """The function that gives the result for one text, by RE2 itself."""
        answer, compiled, instead = _FORMS[self.form].answer, re2.compile(self.re2.encode()), self.instead.encode()

        def match(text: str) -> Any:
            result = answer(compiled, text.encode(), instead)
            if isinstance(result, list):
                return [part.decode() for part in result]
            return result.decode() if isinstance(result, bytes) else result

        return match


def patterns_sql(patterns: Sequence[Pattern]) -> str:
    """SQL for ``input`` with a column for each pattern; a pattern that needs another's column is in an outer query.

    >>> look = Pattern("look", "чай")
    >>> print(patterns_sql([look, Pattern("tea", "(чай.*)", "first", after=look)]))
    select *,
        case when look then nullif(regexp_extract(text, '(чай.*)', 1), '') end as tea
    from (
        select *,
            regexp_matches(text, 'чай') as look
        from input
    )
    """
    source, remaining = "input", list(patterns)
    while remaining:
        ready = [pattern for pattern in remaining if not {pattern.column, pattern.after} & {*remaining}]
        columns = "".join(f",\n    {pattern.sql} as {pattern.name}" for pattern in ready)
        inner = source if source == "input" else "(\n    " + source.replace("\n", "\n    ") + "\n)"
        source = f"select *{columns}\nfrom {inner}"  # declared patterns, quoted
        remaining = [pattern for pattern in remaining if pattern not in ready]
    return source


def match_few(patterns: Sequence[Pattern], rows: pa.Table) -> pa.Table | None:
    """The results for a table of `FEW_ROWS` or less; None where RE2 is not installed, or might differ from DuckDB."""
    results = _by_re2(patterns, rows)
    if results is None:
        return None
    return _by_row(rows, {pattern: pa.array(results[pattern.name], pattern.type) for pattern in patterns})


def _by_re2(patterns: Sequence[Pattern], rows: pa.Table) -> dict[str, list[Any]] | None:
    """The result of each pattern by its name, row by row, and the columns that they read."""
    columns_read = {pattern.column for pattern in patterns if isinstance(pattern.column, str)}
    if re2 is None or not 0 < rows.num_rows <= FEW_ROWS:
        return None
    values: dict[str, list[Any]] = rows.select(sorted(columns_read)).to_pydict()
    texts = (text for column in values.values() for text in column if isinstance(text, str))
    if not all(map(_SAME_UNICODE.fullmatch, texts)):
        return None
    for pattern in patterns:
        is_needed = values[pattern.after.name] if isinstance(pattern.after, Pattern) else [True] * rows.num_rows
        pairs = zip(values[pattern.reads], is_needed, strict=True)
        match = pattern.matcher()
        values[pattern.name] = [match(text) if needed and text is not None else None for text, needed in pairs]
    return values


def _by_row(rows: pa.Table, columns: Mapping[Pattern, pa.Array | pa.ChunkedArray]) -> pa.Table:
    return pa.table({"row": rows["row"], **{pattern.name: column for pattern, column in columns.items()}})


def _quoted(text: str) -> str:
    """`text` as a SQL string on one line, which does not change where the statement is indented."""
    return f"concat({', chr(10), '.join(map(literal, text.split(chr(10))))})" if "\n" in text else literal(text)


class PatternCache:
    """Results of patterns for one table; for the same table again, only changed patterns are evaluated."""

    def __init__(self) -> None:
        self._source: pa.Table | None = None
        self._columns: dict[Pattern, pa.ChunkedArray] = {}

    def for_rows(self, source: pa.Table) -> Match:
        """The function that evaluates patterns over `source`; results for another table are dropped."""
        if source is not self._source:
            self._source, self._columns = source, {}
        return self._match

    def _match(self, patterns: Sequence[Pattern], rows: pa.Table) -> pa.Table:
        # The rows that `after` selects may change while the pattern does not, so all rows are evaluated.
        if new := [replace(pattern, after=None) for pattern in patterns if pattern not in self._columns]:
            known = rows
            for pattern, column in self._columns.items():
                if any(pattern == other.column for other in new):
                    known = known.append_column(pattern.name, column)
            names = ", ".join(pattern.name for pattern in new)
            results = rows_of(f"select {names} from ({patterns_sql(new)}) order by row", input=known)  # noqa: S608  # our own names
            self._columns |= zip(new, results.columns, strict=True)
        self._columns = {pattern: self._columns[pattern] for pattern in patterns}
        return _by_row(rows, self._columns)


class Annotator(Estimator):
    """Adds columns to a table by one SQL statement; never drops, adds or moves a row.

    Attributes
    ----------
    name : str
        The name used by the command line, presets and pipelines: the class's own name in snake case (``index_check``).
    over : str
        The table of a corpus that it annotates.
    needs : pyarrow.Schema
        The columns that the statement reads; an absent column is all null, which is neutral.
    required : tuple of str
        The columns of `needs` that must be present.
    adds : dict of str to str
        The columns that it adds, by name, with their meaning.
    reads : tuple of str
        Relations that the statement reads in addition to ``input``.
    by_user : bool
        Whether a row's result depends only on rows of the same user, so that each user can be computed separately.
    for_facts : bool
        Whether it is made for facts, and keeps memories of other kinds as they are.
    told_by : str
        For one that keeps every row: how to see what its parameters change, as a sentence. Empty for others.
    """

    learns = False
    name: ClassVar[str]
    over: ClassVar[str] = "memories"
    needs: ClassVar[pa.Schema]
    required: ClassVar[tuple[str, ...]] = ()
    adds: ClassVar[dict[str, str]]
    reads: ClassVar[tuple[str, ...]] = ()
    by_user: ClassVar[bool] = False
    for_facts: ClassVar[bool] = False
    told_by: ClassVar[str] = ""

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
        table : pyarrow.Table, pandas.DataFrame, dict of columns or Corpus
            Rows with memkit's column names; of a corpus, the table that the step is for, most often ``memories``.
        as_of : str, date, datetime or None
            The day that the result is computed for, UTC; None is now. Kept in the schema metadata.

        Returns
        -------
        pyarrow.Table
            If the table already has a column of the same name, that column is kept as ``given_…``.

        Raises
        ------
        ParameterError
            For a parameter, a column's type or an `as_of` that its declaration does not allow, and for a required
            column that is missing.
        """
        return self._transform(table, as_of)

    def _transform(self, table: Any, as_of: AsOf, cache: PatternCache | None = None) -> pa.Table:
        """`transform`, with cached matches of the patterns for the same rows, if there are any."""
        source, moment = self._source(table), Moment.from_as_of(as_of)
        rows = input_table(source, self.needs)
        relations = {"input": rows} | self._relations(rows, moment)
        match = cache.for_rows(source) if cache else match_few
        matches = self._matches(rows, match)
        with session() as con:
            for name, relation in (relations | matches).items():
                con.register(name, relation)
            columns = run(con, laid_out(self._statement(matches.keys())), tuple(self.adds), moment)
        result, note = annotate(source, columns, self.adds), self._note(source, rows)
        facts = {"policy": type(self).__name__, "note": note, **revision_of(source)}
        return describe(result, memkit="policy", as_of=moment, **facts)

    def sql(self, as_of: AsOf = None) -> str:
        """The statement that runs over the relations in `relations`; its moments are ``$as_of``, which ages are
        counted to, and ``$until``, the last instant that is seen (of a bare day its end), unless `as_of` is given.

        To run it on a connection of your own, ``set TimeZone = 'UTC'`` and register each of ``relations(table)``.
        """
        text = laid_out(self._statement())
        return text if as_of is None else with_moments(text, Moment.from_as_of(as_of))

    def _statement(self, matched: Collection[str] = ()) -> str:
        """`_sql` with its first step, which evaluates the patterns unless their relation is named as `matched`."""
        self.check_params()
        if not (patterns := self._patterns()):
            return self._sql()
        first = (MATCHED_SQL if "matches" in matched else patterns_sql(patterns)).replace("\n", "\n    ")
        return f"with tested as (\n    {first}\n)\n{self._sql()}"

    def _matches(self, rows: pa.Table, match: Match) -> dict[str, pa.Table]:
        """The matches of the patterns by the name of their relation; empty where only DuckDB can tell."""
        patterns = self._patterns()
        matches = match(patterns, rows) if patterns else None
        return {} if matches is None else {"matches": matches}

    def relations(self, table: Any, as_of: AsOf = None) -> dict[str, pa.Table]:
        """The relations that the statement reads: ``input`` (the needed columns and ``row``) and those in `reads`."""
        self.check_params()
        rows = input_table(self._source(table), self.needs)
        return {"input": rows} | self._relations(rows, Moment.from_as_of(as_of))

    def _source(self, table: Any) -> pa.Table:
        self.check_params()
        source = as_table(pa.table(table) if isinstance(table, dict) else table, self.over)
        for name in self.required:
            check_column(name, source.column_names, type(self).__name__)
        return source

    def _note(self, source: pa.Table, rows: pa.Table) -> str:
        """A note on the input's values: texts that are not dates, and kinds that are not declared."""
        notes = []
        for name in (known.name for known in rows.schema if known.type == TIMESTAMP):
            values = source[name] if name in source.column_names else rows[name]
            invalid = pc.and_(pc.is_valid(values), pc.is_null(rows[name]))
            if count := pc.sum(invalid).as_py():
                first = _in_words(values[pc.index(invalid, True).as_py()])
                notes.append(f"Values of '{name}' that are not dates count as missing: {count}, such as {first}.")
        if notes:
            warnings.warn(f"{type(self).__name__}: {' '.join(notes)}", RuntimeWarning, stacklevel=4)
        if self.for_facts and (others := _other_kinds(rows)):
            notes.append(f"{type(self).__name__} is made for facts, {others}.")
        kinds = pc.unique(rows["kind"]).drop_null().to_pylist() if "kind" in self.adds else []
        if unknown := sorted(set(kinds) - KINDS.keys()):
            notes.append(f"Kinds that are not declared stay as they are: {', '.join(unknown)}.")
        return " ".join([*notes, *self.remarks(rows)])

    def nothing_in(self, tables: Mapping[str, pa.Table]) -> str:
        """Why it has nothing to judge in the tables of a corpus, in a few words; empty where it has something."""
        if self.over not in tables:
            return f"there is no table {self.over} here"
        rows = tables[self.over]
        if not rows.num_rows:
            return f"there are no {self.over} here"
        if self.for_facts and _n_other_kinds(rows) == rows.num_rows:
            return f"made for facts: 0 of {rows.num_rows:,} {self.over} are facts"
        idle = self.idle(rows, self.params())
        return next(iter(idle.values()), "") if len(idle) == len(self.params()) else ""

    def remarks(self, table: pa.Table) -> list[str]:
        """A sentence on each parameter that somebody gave and that acts on nothing in `table`."""
        return list(dict.fromkeys(f"{text}." for text in self.idle(table).values()))

    def _sql(self) -> str:
        raise NotImplementedError

    def _patterns(self) -> tuple[Pattern, ...]:
        """The regular expressions that the statement needs; with any, it reads ``tested`` instead of ``input``."""
        return ()

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        """Further relations that the statement reads, by name; most steps need none."""
        return {}


def _n_other_kinds(rows: pa.Table) -> int:
    """How many rows are of a declared kind that is no fact."""
    return pc.sum(pc.is_in(rows["kind"], pa.array(kinds_where(fact=False), pa.string()))).as_py() or 0


def _other_kinds(rows: pa.Table) -> str:
    """How many rows are of a declared kind that is no fact, as the end of a sentence; empty for none."""
    others = _n_other_kinds(rows)
    if others == rows.num_rows:
        return f"and does not apply: none of these {others:,} memories is one" if others else ""
    return f"and keeps the {others:,} memories of other kinds as they are" if others else ""


def _in_words(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):  # Python has no such day
        return "one outside of the years 1 to 9999"


def as_table(data: Any, over: str = "memories", owner: str = "table") -> pa.Table:
    """`data` as an Arrow table: a table, a DataFrame of pandas or Polars, or that table of a corpus.

    Raises
    ------
    ParameterError
        For anything else, for a column that cannot have one Arrow type, and for a column name that occurs twice.
    """
    tables = getattr(data, "tables", None)
    if isinstance(tables, dict) and over in tables:
        data = tables[over]
    try:
        if is_frame(data):
            data = pa.Table.from_pandas(data, preserve_index=False)
        elif is_table(data) and not isinstance(data, pa.Table):
            data = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:  # a name twice, half a character
        reasons = "; ".join(str(reason) for reason in error.args)
        raise ParameterError(f"{owner}: every column must have one Arrow type. {reasons}.") from error
    if not isinstance(data, pa.Table):
        expected = "must be a pyarrow.Table, a pandas.DataFrame or a Corpus"
        raise ParameterError(f"{owner} {expected}. Got {type(data).__name__}.")
    if len(set(data.column_names)) < data.num_columns:
        raise ParameterError(f"{owner}: column names must differ. Got {', '.join(data.column_names):.300}.")
    return without_views(data)


def is_table(data: Any) -> bool:
    """Whether it is a table of Arrow, pandas, Polars or any other library that exports Arrow."""
    return isinstance(data, pa.Table) or is_frame(data) or hasattr(type(data), "__arrow_c_stream__")


def is_frame(data: Any) -> bool:
    """Whether it is a pandas DataFrame; does not import pandas, which would take a tenth of a second."""
    return isinstance(data, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def input_table(source: pa.Table, needs: pa.Schema) -> pa.Table:
    """``row`` and the needed columns of `source` in their declared types; absent ones are null."""
    columns = {"row": pa.array(np.arange(source.num_rows))}
    for needed in needs:
        columns[needed.name] = (
            as_column(source[needed.name], needed)
            if needed.name in source.column_names
            else pa.nulls(source.num_rows, needed.type)
        )
    return pa.table(columns)


def as_column(column: pa.ChunkedArray, field: pa.Field, owner: str = "table") -> pa.ChunkedArray:
    """`column` in the type that `field` declares; for a time stamp, what is not a date is null.

    Raises
    ------
    ParameterError
        Where the column cannot be cast to that type.

    Examples
    --------
    >>> field = pa.field("created_at", TIMESTAMP)
    >>> as_column(pa.chunked_array([["2026-03-01", "soon"]]), field).to_pylist()[1] is None
    True
    """
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_list(field.type) and _is_text(column.type):
            return pa.chunked_array([pa.array([_split(value) for value in column.to_pylist()], field.type)])
        if field.type != TIMESTAMP:
            return column.cast(field.type)
        is_of_zone = getattr(column.type, "tz", None) not in (None, "UTC")  # whose clock says otherwise
        local = _times(pc.local_timestamp(within_calendar(column))) if is_of_zone else None
        return ends_of(_times(column), field, local)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        expected = f"{owner}: column '{field.name}' must be {field.type}"
        raise ParameterError(f"{expected}. Got {column.type}: {error}.") from error


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column holds texts: those of pandas are large ones."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _split(tags: str | None) -> list[str] | None:
    """The words of a comma-separated text, as in a CSV file: "a, b"."""
    return None if tags is None else [word for part in tags.split(",") if (word := part.strip())]


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as time stamps in UTC; a text that is no ISO 8601 time, or a day before the year 1, becomes null.

    Naive times and dates are taken as UTC. A number is refused, as its unit is not known.
    """
    kind = column.type
    if _is_text(kind):
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
"""Seconds of the year 1 and the year 10000: the range of Python's dates, which ages and days are computed with."""


def within_calendar(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`column` with null for what lies before the year 1 or after the year 9999."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
    if per_second == 10**9:  # which reach from 1677 to 2262
        return column
    first, after = (seconds * per_second for seconds in _CALENDAR)
    numbers = column.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, after))
    return pc.if_else(inside, column, pa.scalar(None, column.type))


def run(con: duckdb.DuckDBPyConnection, sql: str, columns: tuple[str, ...], moment: Moment) -> pa.Table:
    """The named columns of the statement's result, in the order of ``row``."""
    names = ", ".join(columns)
    text = f"select row, {names} from (\n{sql}\n)"  # noqa: S608  # column names of ours around a statement of ours
    with interruptible():
        result = as_arrow(con, with_moments(text, moment))
    rows = result["row"].to_numpy()
    # Windows shuffle the rows, in runs that a stable sort finds; most statements keep their order, and checking is
    # cheaper than sorting.
    if len(rows) and not bool(np.all(rows[1:] > rows[:-1])):
        result = result.take(np.argsort(rows, kind="stable"))
    return result.drop_columns("row")


def annotate(source: pa.Table, added: pa.Table, meanings: Mapping[str, str]) -> pa.Table:
    """`source` with the columns of `added`, and what each means in its field's metadata.

    A column of `source` with the same name is kept as ``given_…``.

    Examples
    --------
    >>> annotate(pa.table({"keep": [True]}), pa.table({"keep": [False]}), {"keep": "stays"}).column_names
    ['given_keep', 'keep']
    """
    taken = set(source.column_names) | set(added.column_names)
    names = []
    for name in source.column_names:
        if name in added.column_names:
            while name in taken:
                name = "given_" + name
            taken.add(name)
        names.append(name)
    result = source.rename_columns(names)
    for named, column in zip(added.schema, added.columns, strict=True):
        result = result.append_column(named.with_metadata({"meaning": meanings[named.name]}), column)
    return result
