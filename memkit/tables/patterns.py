r"""Regular expressions of a policy. The result of each is a column of ``tested``, the first step of its statement.

The rest of the statement reads these columns by name, so it does not matter how they are computed: by DuckDB for a
table; by RE2 itself for few rows, as DuckDB takes milliseconds to compile a pattern and a policy needs a dozen; or by
`PatternCache`, which keeps the results while a slider moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from memkit.base.duck import literal, rows_of

try:
    import re2
except ImportError:  # no wheel for this machine: DuckDB evaluates one row as well
    re2 = None

_SAME_UNICODE = re.compile("[\0-\U0002ebef]*")
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
