"""`Sheet`: what is shown of a result, as headings, rows and bars; secrets are masked here, for every output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.fences import fences, headings
from memkit.base.params import describe
from memkit.display.views import ANY, NAMED, SHOWN, Column, View, day_of, kept_of, name_of, names_in, place_of, view_of
from memkit.errors import count_of, some_of
from memkit.schemas import is_verbatim, present
from memkit.text.secrets import LEAST, OF_PASSWORD, Mask, is_mixed, kinds_in, mask
from memkit.text.sentences import SNIPPET, snippet

# A screen of rows with their texts.
ROWS = 20
# Secrets are looked for in all of it at each look; a guess of what is enough.
_READ, _LEAD, _LONG_LEAD = 4000, SNIPPET, 600
"""Characters of a text that are considered; the length of a snippet around the query's words, and of a message."""
_BEYOND = 1000
"""Characters read after these, as a secret may begin within them and end later."""
_COLUMNS, _SHORT = 10, 60
"""Columns that are shown; characters of a memory's name in a cell."""
_NAMED = 3
"""The most memories that one cell names."""
_BLANK = re.compile(r"\s+")
_JOINERS = {"\u200c", "\u200d"}
_NUMBERS = {"number", "score", "bar", "share", "exact", "signed", "interval", "count"}


@dataclass(frozen=True)
class Cell:
    """A text, with a bar or interval drawn beside it (on a scale of 0 to 1), and the query whose words are marked.

    Attributes
    ----------
    bar : float or None
        The length of a bar.
    span : tuple of float
        The low end of an interval, its middle value, its high end, and the position of zero.
    """

    text: str
    bar: float | None = None
    query: str = ""
    span: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class Sheet:
    """The part of one result that is shown.

    Attributes
    ----------
    heading, notes : str, tuple of str
        What the result is and how many rows it has; remarks on it.
    columns : tuple of Column
    rows : tuple of tuple of Cell
        One cell per column.
    leads : tuple of Cell
        The main text of each row; empty where the result has no such column.
    titles : tuple of Cell
        The titles above the leads.
    is_command : bool
        Whether the leads are there to be copied: each stays on one line.
    bar : float or None
        A bar of length 0 to 1 below the heading.
    total : int
        The number of rows of the result.
    hidden_columns : tuple of str
        The columns that are not shown.
    hint : str
        How to see the other rows, or a hint on what else can be shown.
    hide : Mask or None
        Hides the secrets of its rows; None where secrets are shown.
    """

    heading: str
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    leads: tuple[Cell, ...] = ()
    titles: tuple[Cell, ...] = ()
    is_command: bool = False
    bar: float | None = None
    total: int = 0
    hidden_columns: tuple[str, ...] = ()
    hint: str = ""
    hide: Mask | None = field(default=None, compare=False, repr=False)

    def beside(self, hide: Mask) -> Sheet:
        """A copy that also hides the secrets of other sheets that are shown with it."""

        def again(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
            return tuple(replace(cell, text=hide.again(cell.text)) for cell in cells)

        return replace(
            self,
            heading=hide(self.heading),
            notes=tuple(map(hide, self.notes)),
            rows=tuple(map(again, self.rows)),
            leads=again(self.leads),
            titles=again(self.titles),
            hidden_columns=tuple(map(hide.again, self.hidden_columns)),
        )


def is_number(column: Column) -> bool:
    """Whether the column is right-aligned."""
    return column.look in _NUMBERS


def visible(text: str) -> str:
    """`text` with control characters escaped: a memory must not control a terminal or the direction of text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" or c in _JOINERS else repr(c)[1:-1] for c in text)


def safe(text: str) -> str:
    """A message for a terminal: `visible`, and without secrets."""
    return visible(mask(text))


def sheet_of(
    table: pa.Table,
    rows: int = ROWS,
    show_secrets: bool = False,
    columns: Iterable[str] | None = None,
    hint: str = "",
    partial: bool = False,
) -> Sheet:
    """The first `rows` rows of a table, as its view declares them.

    Parameters
    ----------
    columns : sequence of str, optional
        Exactly these columns, instead of those of the view.
    hint : str
        The text below the table about further rows; by default it says how to show them.
    partial : bool
        Whether `table` holds only the first rows of the result.
    """
    facts = {key.decode(): value.decode(errors="replace") for key, value in (table.schema.metadata or {}).items()}
    label = facts.get("memkit", "")
    view = view_of(table.column_names, label) if columns is None else replace(ANY, columns=tuple(map(Column, columns)))
    stored = kept_of(facts.get("shown", ""))
    first = _first(table, view, rows)
    values = first.to_pylist()
    hide = _Words(None if show_secrets else _mask_of(table, [*values, stored, facts.get("note")]))
    named = [_named(row if show_secrets else _without_span(row), stored["memories"]) for row in values]
    rows_shown = [_with_counted(row, stored["counted"]) for row in named]
    chosen, hidden_columns = _chosen(table, view, rows_shown, columns is not None)
    stored["memories"] |= _names_in_table(table, first, chosen)
    queries = [stored["queries"].get(row.get("query_id"), "") for row in rows_shown]
    long = _LONG_LEAD if view.lead == "message" or view.is_command else _LEAD
    titles = [
        Cell(hide(row.get(view.title or "title") if view.lead == "text" else ""), query=query)
        for row, query in zip(rows_shown, queries, strict=True)
    ]
    leads = [
        Cell(hide.lead(_body(row, _lead_of(row, view.lead, hide.mask)), query, long), query=query)
        for row, query in zip(rows_shown, queries, strict=True)
    ]
    if not view.title:
        titles = [
            Cell("") if title.text[:40] in lead.text else title for title, lead in zip(titles, leads, strict=True)
        ]
    cells = [
        _column(column, [row.get(column.name) for row in rows_shown], hide, stored["memories"]) for column in chosen
    ]
    is_counted = any(isinstance(value, _Counted) for row in rows_shown for value in row.values())
    notes = ["" if partial else _tally(table, view), answerability_note(table), facts.get("note", "")]
    notes += [_COUNTED_NOTE] if is_counted else []
    return Sheet(
        heading=("the first " if partial else "") + _heading(view, table.num_rows, facts, hide, stored["queries"]),
        notes=tuple(hide(note, _LONG_LEAD) for note in notes if note),
        columns=tuple(chosen),
        rows=tuple(zip(*cells, strict=True)) if cells else ((),) * len(rows_shown),
        leads=tuple(leads) if view.lead in table.column_names else (),
        titles=tuple(titles),
        is_command=view.is_command,
        total=table.num_rows,
        hidden_columns=tuple(map(hide, hidden_columns)) if rows_shown else (),
        hint=hint,
        hide=hide.mask,
    )


def _mask_of(table: pa.Table, shown: list[Any]) -> Mask:
    """What hides in the first rows of a table the secrets that they name, or another memory of it."""
    hide, texts = Mask(texts_in(shown)), [*texts_in(shown)]
    return hide | named_in(table, texts) if {"memory_id", "text"} <= {*table.column_names} else hide


# Thirds: the score is no probability, so finer words would say too much.
_LOW, _HIGH = 1 / 3, 2 / 3
"""Where an answerability is no longer low, and where it is high."""


def likelihood(answerability: float) -> str:
    """An answerability in a word, low, middle or high: it is no probability, so its digits promise too much.

    >>> [likelihood(share) for share in (0.2, 0.5, 0.9)]
    ['low', 'middle', 'high']
    """
    return "low" if answerability < _LOW else "high" if answerability >= _HIGH else "middle"


def answerability_note(hits: pa.Table) -> str:
    """How likely hits answer their queries, in words, as a sentence; empty where the metadata do not say.

    >>> answerability_note(pa.table({}).replace_schema_metadata({"answerability": '{"0": 0.12}'}))
    'Answerability is low: probably no memory answers the query.'
    """
    try:
        stored = json.loads((hits.schema.metadata or {}).get(b"answerability", b"{}"))
        words = {str(query): likelihood(float(share)) for query, share in stored.items()}
    except (ValueError, TypeError, AttributeError):  # another program wrote something else
        return ""
    low = [query for query, word in words.items() if word == "low"]
    if len(words) == 1:
        return (
            f"Answerability is {next(iter(words.values()))}{': probably no memory answers the query' if low else ''}."
        )
    if not low:
        return ""
    return f"Answerability is low for {some_of([*map(repr, low)])}: probably no memory answers."


def texts_in(value: Any) -> Iterator[str]:
    """Every text within rows."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


def _without_span(row: dict[str, Any]) -> dict[str, Any]:
    """A verdict without the secret in its column ``matched_span``."""
    is_secret = row.get("reason") == "secret" and row.get("matched_span")
    return {**row, "matched_span": "[secret hidden]"} if is_secret else row


def sheet_of_kinds(memories: pa.Table, problems: int, rows: int = ROWS, show_secrets: bool = False) -> Sheet:
    """The number of memories of each format and kind."""
    pairs = pa.table({"format": memories["format"], "kind": pc.fill_null(memories["kind"], "other")})
    counts = pairs.group_by(["format", "kind"]).aggregate([([], "count_all")])
    counts = counts.sort_by([("format", "ascending"), ("kind", "ascending")])
    named = describe(counts.rename_columns(["format", "kind", "memories"]), memkit="kinds")
    return replace(
        sheet_of(named, rows, show_secrets),
        heading=f"{count_of(memories.num_rows, 'memory')}, {count_of(problems, 'problem')} in reading",
    )


class _Words:
    """Turns values into one line of text: secrets masked, unless they are to be shown, control characters escaped."""

    def __init__(self, mask: Mask | None) -> None:
        self.mask = mask

    def __call__(self, value: object, most: int = SHOWN) -> str:
        line = self._line(value)
        return line if len(line) <= most else line[: most - 1] + "…"

    def lead(self, value: object, query: str, most: int) -> str:
        return snippet(self._line(value), query, most)

    def _line(self, value: object) -> str:
        text = _text_of(value)[: _READ + _BEYOND]
        masked = self.mask(text) if self.mask else text
        beyond = max(0, len(text) - _READ)
        return visible(_BLANK.sub(" ", masked[: max(0, len(masked) - beyond)]).strip())


def _text_of(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (datetime, date)):
        return day_of(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text_of, value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def titles_of(result: pa.Table, ids: Iterable[str]) -> list[str]:
    """The names of memories in a result: the title or first words of each, without secrets, else its id."""
    stored = kept_of((result.schema.metadata or {}).get(b"shown", b"").decode(errors="replace"))["memories"]
    hide = _Words(Mask(texts_in(stored)))
    return [
        hide(stored[memory_id][0] if memory_id in stored and stored[memory_id][0] else memory_id) for memory_id in ids
    ]


def _named(row: dict[str, Any], memories: dict[str, list[str]]) -> dict[str, Any]:
    """A row with title, place, kind and date of its memory, unless the row has its own."""
    known = memories.get(row.get("memory_id", ""))
    line = row.get("line_start") or row.get("line")
    title, place, kind, when = known or name_of(line if name == "line_start" else row.get(name) for name in NAMED[1:])
    if known and is_verbatim(kind, row.get("path")):  # a chunk of a file has lines of its own
        place = place_of(row.get("path"), line) or place
    ends = (row.get("low"), row.get("difference", row.get("value")), row.get("high"))
    interval = ends if all(isinstance(end, float) for end in ends) else None
    named = {"title": title, "place": place, "kind": kind or None, "date": when or None, "interval": interval}
    return {**named, **{key: value for key, value in row.items() if key not in named or value is not None}}


def _first(table: pa.Table, view: View, rows: int) -> pa.Table:
    """The rows that are shown, with their texts cut to the characters that are considered."""
    if view.order and view.order[0] in table.column_names:
        column, values = view.order
        rank = pc.index_in(table[column], value_set=pa.array(values, table.schema.field(column).type))
        table = table.take(np.argsort(pc.fill_null(rank, len(values)).to_numpy(), kind="stable")[:rows])
    return begun(table.slice(0, rows))


def begun(rows: pa.Table) -> pa.Table:
    """Rows with their texts cut to the characters that are considered."""
    for place, field_ in enumerate(rows.schema):
        if pa.types.is_string(field_.type) or pa.types.is_large_string(field_.type):
            rows = rows.set_column(place, field_, pc.utf8_slice_codeunits(rows[field_.name], 0, _READ + _BEYOND))
    return rows


def lines_of(rows: pa.Table, most: int = SHOWN) -> list[list[str]]:
    """The values of each row as lines of at most `most` characters, as they are shown: without secrets.

    >>> lines_of(pa.table({"text": ["пароль: sova-2026"], "tags": [["a", "b"]], "n": [2]}))
    [['пароль: [password hidden]', 'a, b', '2']]
    """
    values = [_without_span(row) for row in rows.to_pylist()]
    hide = _Words(Mask(texts_in(values)))
    return [[hide(value, most) for value in row.values()] for row in values]


def _chosen(table: pa.Table, view: View, rows: list[dict[str, Any]], are_named: bool) -> tuple[list[Column], list[str]]:
    """The columns to show and the names of those that are not."""
    above = view.title if view.lead in table.column_names else ""
    declared = [column for column in view.columns if column.name != above and (are_named or _says(column, rows))]
    known = {column.name for column in view.columns} | {view.lead} | set(view.knows)
    undeclared = [Column(name) for name in table.column_names if name not in known]
    room = max(0, _COLUMNS - sum(not column.small for column in declared))
    filled = undeclared if len(undeclared) <= room else [column for column in undeclared if _says(column, rows)]
    kinds = {field.name: field.type for field in table.schema}
    chosen = [
        column if column.look else replace(column, look=_look(kinds.get(column.name)))
        for column in declared + filled[:room]
    ]
    shown_names = {column.name for column in chosen} | {view.lead, above}
    return chosen, [
        name
        for name in table.column_names
        if name not in shown_names and name in {*view.knows, *(c.name for c in undeclared)}
    ]


def _says(column: Column, rows: list[dict[str, Any]]) -> bool:
    values = [row.get(column.name) for row in rows]
    if all(value is None or value == "" or value == [] for value in values):
        return False
    if column.usual is not None and all(value == column.usual for value in values):
        return False
    return not column.varies or any(value != values[0] for value in values)


def _look(kind: pa.DataType | None) -> str:
    if kind is None:
        return "text"
    if pa.types.is_boolean(kind):
        return "flag"
    if pa.types.is_integer(kind):
        return "count"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "day" if pa.types.is_temporal(kind) else "words" if pa.types.is_nested(kind) else "text"


class _Counted(float):
    """The score with which an arm counts a hit that it did not find."""


_COUNTED_NOTE = (
    "'as' before a score: the arm did not retrieve the hit, which counts like the last of its candidates, or as"
    " matched across alphabets."
)


def _with_counted(row: dict[str, Any], counted: dict[tuple[str, str, str], float]) -> dict[str, Any]:
    """A hit with the scores that it counts with, where an arm did not find it."""
    if not counted:
        return row
    lacks = [name for name, value in row.items() if value is None]
    scores = {name: counted.get((row.get("query_id", ""), row.get("chunk_id", ""), name)) for name in lacks}
    return {**row, **{name: _Counted(score) for name, score in scores.items() if score is not None}}


def _column(column: Column, values: list[Any], hide: _Words, memories: dict[str, list[str]]) -> list[Cell]:
    if column.look == "memory":
        return [Cell(_of_memory(value, memories, hide)) for value in values]
    if column.look == "replaced":
        return [Cell(_replaced(value or [], memories, hide)) for value in values]
    if column.look == "interval":
        return _intervals(values)
    are_numbers = all(value is None or isinstance(value, Number) for value in values)  # another program's may be none
    if column.look not in ("score", "bar", "share", "exact", "signed") or not are_numbers:
        return [Cell(hide(value)) for value in values]
    numbers = [float(value) for value in values if value is not None]
    top = max(numbers, default=0.0) if column.look == "bar" else 1.0
    return [_measured(value, top, column.look) for value in values]


def _measured(value: Any, top: float, look: str) -> Cell:
    if value is None:
        return Cell("")
    words = f"{value:{_FORMATS[look]}}" if look in _FORMATS else _text_of(value)
    words = f"{value:.1g}" if look == "exact" and value and not float(words) else words  # such a p is not 0
    words = f"as {words}" if isinstance(value, _Counted) else words
    share = float(value) / top if top > 0 else 0.0
    return Cell(words, None if look not in ("score", "bar") or share != share else min(1.0, max(0.0, share)))


_FORMATS = {"score": ".3f", "share": ".2f", "exact": ".3f", "signed": "+.3f"}


def _intervals(values: list[Any]) -> list[Cell]:
    """Intervals from low end, middle and high end, on one scale; zero is in its middle if a value is negative."""
    known = [end for value in values if value is not None for end in value]
    below, top = min(known, default=0.0) < 0, max(map(abs, known), default=1.0)
    scale, nought, sign = (2 * top, 0.5, "+") if below else (max(1.0, top), 0.0, "")

    def interval_cell(low: float, middle: float, high: float) -> Cell:
        span = (nought + low / scale, nought + middle / scale, nought + high / scale, nought)
        return Cell(f"{low:{sign}.3f} to {high:{sign}.3f}", span=span)

    return [Cell("") if value is None else interval_cell(*value) for value in values]


def _of_memory(value: Any, memories: dict[str, list[str]], hide: _Words) -> str:
    if value not in memories:
        return hide(value)
    title, place = hide(memories[value][0], _SHORT), hide(memories[value][1])  # what is hidden is not cut before
    return f"{title} · {place}" if title and place else title or place or hide(value)


def _replaced(ids: list[Any], memories: dict[str, list[str]], hide: _Words) -> str:
    """The memories that a hit stands for, the first few by name."""
    named = ", ".join(_of_memory(memory_id, memories, hide) for memory_id in ids[:_NAMED])
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return f"replaces: {named}{more}" if ids else ""


def _lead_of(row: dict[str, Any], lead: str, hide: Mask | None) -> str:
    """The column that is read: of a hit its snippet, unless a part of a secret could be outside of that."""
    if lead != "text" or not row.get("snippet"):
        return lead
    return lead if hide is not None and hide(row["text"]) != row["text"] else "snippet"


def _body(row: dict[str, Any], lead: str) -> Any:
    """What is read, without the heading that a section begins with: that is its title."""
    text = row.get(lead)
    if not isinstance(text, str):
        return text
    first, *lines = text.split("\n", 2)
    head = "\n".join([first, *lines[:1]])
    begun = [heading for heading in headings(head, fences(head)) if heading.line == 1]
    if [heading.text for heading in begun] != [row["title"]]:
        return text
    rest = "\n".join(lines[begun[0].is_underlined :])
    return rest if rest.strip() else text


def _names_in_table(table: pa.Table, first: pa.Table, chosen: list[Column]) -> dict[str, list[str]]:
    """The names of those memories of the table that a column of its first rows refers to."""
    refers = [column.name for column in chosen if column.look == "memory" and column.name != "memory_id"]
    if not refers or not {"memory_id", "text"} <= set(table.column_names):
        return {}
    return dict(names_in(first, table, *refers).get("memories", {}))


def _heading(view: View, count: int, facts: dict[str, str], hide: _Words, queries: dict[str, str]) -> str:
    words = count_of(count, view.word, "users and days" if view.word == "user and day" else "")
    words += f" for “{hide(next(iter(queries.values())), 80)}”" if len(queries) == 1 else ""
    if facts.get("policy"):
        words = f"{hide(facts['policy'])}: {words}"
    facts_named = {"of": facts.get("revision"), "as of": facts.get("as_of")}
    return words + "".join(f", {word} {hide(fact)[:10]}" for word, fact in facts_named.items() if fact)


def _tally(table: pa.Table, view: View) -> str:
    if view.tally not in table.column_names or not table.num_rows:
        return ""
    counts = pc.value_counts(pc.fill_null(table[view.tally].cast(pa.string()), view.blank)).to_pylist()
    counts.sort(key=lambda row: (-row["counts"], row["values"]))
    return some_of([f"{row['counts']:,} {row['values']}" for row in counts], 8)


OF_MEMORY = ("title", "text", "tags", "extra")
"""The columns of a memory that may hold a secret."""
_RUN, _LONGEST, _AT_ONCE, _MANY, _FEW = re.compile(r"[^\W_]+"), 500, 200, 2_000, 200
_PHRASE = f"(?i:{'|'.join(OF_PASSWORD)})"
"""What a text with a pass phrase matches, which has no part of letters and digits."""


def named_in(memories: pa.Table, texts: Iterable[str]) -> Mask:
    """A mask for `texts` of the values in them that some of the memories calls a secret: one search for all of them.

    >>> texts = [*["Пароль знает Мира."] * 300, "Пароль: sova-2026"]
    >>> hide = named_in(pa.table({"text": texts}), ["root / sova-2026, чай"])
    >>> hide.again("root / sova-2026, чай")
    'root / [password hidden], чай'
    """
    parts = sorted({re.escape(part) for text in texts for token in text.split() for part in _mixed_parts(token)})
    if len(parts) > _MANY:  # a long diff
        return named_by(memories)
    looks = [_PHRASE, *("|".join(parts[start : start + _AT_ONCE]) for start in range(0, len(parts), _AT_ONCE))]
    named = (column.filter(pc.match_substring_regex(column, look)) for column in _columns(memories) for look in looks)
    return named_by(pa.table({"text": [text for texts in named for text in texts.to_pylist()]}))


def named_by(memories: pa.Table) -> Mask:
    """A mask of all values that the memories call a secret."""
    mask = Mask()
    for texts in _columns(memories):
        # Most of many texts have no secret, and a look at all of them takes a third of reading each.
        kinds = kinds_in(texts) if len(texts) > _FEW else dict.fromkeys(range(len(texts)))
        for row, of_row in sorted(kinds.items()):
            mask.learn(texts[row].as_py() or "", of_row)
    return mask


def _columns(memories: pa.Table) -> list[pa.ChunkedArray]:
    return [texts_of(memories[name]) for name in present(memories, OF_MEMORY)]


def _mixed_parts(token: str) -> Iterator[str]:
    """The least parts of a token, from word to word, that a secret within it could be known again by."""
    words = [match.span() for match in _RUN.finditer(token[:_LONGEST])]
    for last, (_, end) in enumerate(words):
        parts = (token[start:end] for start, _ in reversed(words[: last + 1]) if end - start >= LEAST)
        if part := next(filter(is_mixed, parts), None):
            yield part


def texts_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts of a column; those of a list, a line each."""
    return pc.binary_join(column, "\n") if pa.types.is_list(column.type) else column
