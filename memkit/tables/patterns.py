r"""Patterns that a policy declares. What each says of a row is a column of its statement's first step, ``tested``.

The rest of the statement reads these columns by name, so it is the same whoever answers: DuckDB over a table; RE2
itself for one row, as to make a pattern ready takes DuckDB milliseconds and a save needs a dozen; and `Kept`, which has
the answers already, while a slider moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from memkit.duck import literal, rows_of

try:
    import re2
except ImportError:  # no wheel for this machine: DuckDB is asked for one row as for many
    re2 = None

_SURE = re.compile("[\0-\U0002ebef]*")
"""What is a letter is the same to DuckDB and to RE2 up to here; later versions of Unicode have more of them."""

Says = Literal["test", "first", "every", "rest"]
Ask = Callable[[Sequence["Pattern"], pa.Table], "Said | None"]
"""What patterns say of rows; None where nobody can be sure."""


class Said(NamedTuple):
    """What patterns said of rows: a first step in place of the one that asks them, and what it reads as ``said``."""

    sql: str
    relation: pa.Table | None = None


class _Form(NamedTuple):
    sql: str
    type: str
    answer: Callable[[Any, bytes, bytes], Any]


_FORMS: dict[Says, _Form] = {
    "test": _Form(
        "regexp_matches({column}, {re2})",
        "boolean",
        lambda own, text, instead: own.search(text) is not None,
    ),
    "first": _Form(
        "nullif(regexp_extract({column}, {re2}, 1), '')",
        "varchar",
        lambda own, text, instead: (own.search(text) or ("", b""))[1] or None,
    ),
    "every": _Form(
        "regexp_extract_all({column}, {re2}, 1)",
        "varchar[]",
        lambda own, text, instead: [found[1] or b"" for found in own.finditer(text)],
    ),
    "rest": _Form(
        "regexp_replace({column}, {re2}, {instead}, 'g')",
        "varchar",
        lambda own, text, instead: own.sub(instead, text),
    ),
}


@dataclass(frozen=True)
class Pattern:
    r"""One regular expression over one column.

    Attributes
    ----------
    name : str
        The column of ``tested`` that holds what it says; null where the column that it reads is.
    re2 : str
        In the syntax of RE2; with a group 1 where `says` is ``first`` or ``every``.
    says : {"test", "first", "every", "rest"}
        Whether it matches; the first match, null if there is none; all of them, none of which may be empty; or the
        text with `instead` in place of each.
    column : str or Pattern
        What it reads: a column of ``input``, or what another pattern says.
    instead : str
        May say ``\1`` for a group.
    after : Pattern or str, optional
        A quick look that holds wherever this one says something, or a condition in SQL on ``input`` under which its
        answer is of use: other rows need not be asked, and what is said of them means nothing.

    Examples
    --------
    >>> Pattern("tea", "(?i)(чай|tea)", "first").sql
    "nullif(regexp_extract(text, '(?i)(чай|tea)', 1), '')"
    """

    name: str
    re2: str
    says: Says = "test"
    column: str | Pattern = "text"
    instead: str = ""
    after: Pattern | str | None = field(default=None, compare=False)

    @property
    def reads(self) -> str:
        """The name of the column."""
        return self.column if isinstance(self.column, str) else self.column.name

    @property
    def sql(self) -> str:
        """The expression of its column."""
        call = _FORMS[self.says].sql.format(column=self.reads, re2=_quoted(self.re2), instead=_quoted(self.instead))
        look = self.after.name if isinstance(self.after, Pattern) else self.after
        return f"case when {look} then {call} end" if look else call

    def of(self, text: str) -> Any:
        """What it says of one text."""
        found = _FORMS[self.says].answer(re2.compile(self.re2.encode()), text.encode(), self.instead.encode())
        if isinstance(found, list):
            return [each.decode() for each in found]
        return found.decode() if isinstance(found, bytes) else found


def asked(patterns: Sequence[Pattern]) -> str:
    """SQL for ``input`` with a column for each pattern; one that needs another's column stands outside of it.

    >>> look = Pattern("look", "чай")
    >>> print(asked([look, Pattern("tea", "(чай.*)", "first", after=look)]))
    select *,
        case when look then nullif(regexp_extract(text, '(чай.*)', 1), '') end as tea
    from (
        select *,
            regexp_matches(text, 'чай') as look
        from input
    )
    """
    source, left = "input", list(patterns)
    while left:
        ready = [one for one in left if one.column not in left and one.after not in left]
        columns = "".join(f",\n    {one.sql} as {one.name}" for one in ready)
        inner = source if source == "input" else "(\n    " + source.replace("\n", "\n    ") + "\n)"
        source = f"select *{columns}\nfrom {inner}"  # declared patterns, quoted
        left = [one for one in left if one not in ready]
    return source


def of_one(patterns: Sequence[Pattern], rows: pa.Table) -> Said | None:
    """What the patterns say of the one row of a table; None where RE2 is not there, or may not mean the same."""
    (row,) = rows.select(["row", *{one.column for one in patterns if isinstance(one.column, str)}]).to_pylist()
    if re2 is None or not all(_SURE.fullmatch(text) for text in row.values() if isinstance(text, str)):
        return None
    for one in patterns:
        is_open = row[one.reads] is not None and not (isinstance(one.after, Pattern) and not row[one.after.name])
        row[one.name] = one.of(row[one.reads]) if is_open else None
    columns = "".join(f",\n    {_value(row[one.name], _FORMS[one.says].type)} as {one.name}" for one in patterns)
    return Said(f"select *{columns}\nfrom input")


def _value(value: Any, kind: str) -> str:
    """A value as SQL."""
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]::{kind}"
    return _quoted(value) if isinstance(value, str) else f"{'null' if value is None else str(value).lower()}::{kind}"


def _quoted(text: str) -> str:
    """`text` as SQL of one line, which stays what it is where the statement is set in."""
    return f"({' || chr(10) || '.join(map(literal, text.split(chr(10))))})" if "\n" in text else literal(text)


class Kept:
    """What patterns say of some rows, for whoever asks of the same rows again: only what has changed is asked."""

    def __init__(self) -> None:
        self._source: pa.Table | None = None
        self._columns: dict[Pattern, pa.ChunkedArray] = {}

    def of(self, source: pa.Table) -> Ask:
        """What asks of the rows of `source`; those of another table are forgotten."""
        if source is not self._source:
            self._source, self._columns = source, {}
        return self._said

    def _said(self, patterns: Sequence[Pattern], rows: pa.Table) -> Said:
        # Which rows are open to a pattern may change while the pattern does not.
        if new := [replace(one, after=None) for one in patterns if one not in self._columns]:
            known = rows
            for one, column in self._columns.items():
                if any(one == each.column for each in new):
                    known = known.append_column(one.name, column)
            names = ", ".join(one.name for one in new)
            found = rows_of(f"select {names} from ({asked(new)}) order by row", input=known)  # noqa: S608  # our own names
            self._columns |= zip(new, found.columns, strict=True)
        self._columns = {one: self._columns[one] for one in patterns}
        said = {one.name: column for one, column in self._columns.items()}
        return Said("select * from input left join said using (row)", pa.table({"row": rows["row"], **said}))
