"""`Rows`: collects the rows that readers produce, by table, and writes every problem's message in the same form. The
codes of problems have severity and advice here; `Rule` is one check; and tests for rules.
"""

from __future__ import annotations

import functools
import json
import math
import re
import sys
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.hashes import digest
from memkit.formats.disk.source import Source
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.nodes import YAML, Node
from memkit.schemas import TABLES, with_column, without_rows

if TYPE_CHECKING:
    from memkit.formats.format import Format

_CODES = {
    "error": "unparsable unreadable unsupported_version outside_root plugin_path missing_file duplicate_id out_of_range"
    " bad_date file_too_large too_many_files foreign_index format_failed",
    "warning": "missing_field bad_value not_uuid4 name_mismatch implausible_date encoding counter_mismatch"
    " dangling_relation self_relation contradictory_relation unbalanced_fence type_file_mismatch two_homes"
    " duplicate_key missing_index empty_text secret foreign_journal over_limit duplicate_entry duplicate_name"
    " loose_front_matter index_too_long duplicate_of_instructions dead_link",
    "info": "missing_recommended prefix_mismatch unknown_placeholder unindexed unclaimed not_a_fact future_date symlink"
    " undeclared_kind empty_section deleted"
    " no_repository uncommitted hidden transcript same_mtime two_layouts not_indexed ambiguous_link dead_anchor orphan"
    " no_successor stale unread_head",
}
SEVERITIES = {code: severity for severity, codes in _CODES.items() for code in codes.split()}
"""Severity of each code, error before warning before info."""
DEGREES = tuple(_CODES)
"""The severities, the worst first."""


def tally(severities: Iterable[str]) -> str:
    """How many problems of each severity there are, in words: the one count of overviews and checks.

    >>> tally(["info", "error", "info"])
    '1 error, 0 warnings, 2 info'
    """
    counts = Counter(severities)
    plural = {word: "" if counts[word] == 1 or word == "info" else "s" for word in _CODES}
    return ", ".join(f"{counts[word]:,} {word}{plural[word]}" for word in _CODES)


ADVICE: dict[str, str] = {
    "unparsable": "It is kept as text; fix the syntax.",
    "unreadable": "It is left out; check its permissions.",
    "unsupported_version": "It is kept as text only; add an adapter or a newer memkit.",
    "outside_root": "Nothing outside of the root is read; copy the file into it or remove the reference.",
    "plugin_path": "An index must not name the plugin's own files; remove the entry.",
    "missing_file": "Restore the file or remove the reference.",
    "duplicate_id": "Give each record a different id.",
    "file_too_large": "Only its first 64 KiB are read; split the file or raise max_file_bytes.",
    "too_many_files": "Nothing is read; choose a folder further down.",
    "foreign_index": "It is not read; rename it if it does not belong to the agent's memory.",
    "foreign_journal": "Another user or an older memkit wrote them, or the folder was copied or moved. None is"
    " replayed, and the next change sets them aside; mk.recover(folder, trust=True) replays them.",
    "format_failed": "The other formats are tried; tell the package's author.",
    "encoding": "Save the file as UTF-8; other bytes are replaced by U+FFFD.",
    "duplicate_key": "The first value counts, the later ones are kept in extra; remove one.",
    "over_limit": "Shorten it, or take out what is no longer needed.",
    "duplicate_entry": "Remove one.",
    "duplicate_name": "They are read as one; merge them.",
    "bad_date": "Write a real day, such as 2025-03-04.",
    "unindexed": "It is read anyway; add it to an index.",
    "missing_index": "Its files are read anyway; add an index and name it in the root.",
    "two_homes": "Both are read, but a store uses only the first; move the users of the other there.",
    "not_a_fact": "It is kept as text.",
    "empty_section": "It is not searched; write something below it, or remove it.",
    "deleted": "It is left out.",
    "no_repository": "Memories without a date of their own have none.",
    "uncommitted": "It has no date until it is committed.",
    "secret": "Remove it from the file, and revoke it.",
    "undeclared_kind": "It is kept as it is; declare it with memkit.schemas.declare_kinds.",
    "duplicate_of_instructions": "Keep them in one place: the host loads the instructions anyway, and the others add"
    " nothing.",
    "index_too_long": "Shorten it: mk.plan(corpus, [mk.hosts.IndexBudget()]) moves long lines into topic files.",
    "dead_link": "Write the page, or correct the link.",
    "ambiguous_link": "Write more of its path.",
    "not_indexed": "Add a line for each; an agent that reads the index alone does not know them.",
    "orphan": "Link to them, or take out what is no longer needed.",
    "no_successor": "Name that page in its front matter; where none takes its place, leave it.",
    "stale": "It ranks lower but stays; check whether it still holds, and set a new day.",
    "unread_head": "It is text; write its fields between '---' lines to have title, date and tags.",
    "symlink": "Links are not followed; a target inside of the root is read under its own name.",
}
"""What to do about a problem, for codes where one sentence fits every case."""


FIXES: dict[tuple[str, str, str], str] = {
    ("counter_mismatch", "facts", ""): "the facts are counted again",
    ("name_mismatch", "notes", "id"): "the file is named after its id",
    ("missing_field", "index_tree", "updated"): "the day of the fix is written",
    ("missing_field", "records", "format_version"): "1.0.0 is written",
    ("unindexed", "index_tree", ""): "the index of its folder names it, priority medium, without tags",
}
"""What `memkit.Fix` does, by code, format and field: only where there is one right or harmless repair."""


@dataclass(frozen=True)
class Rule:
    """One check.

    Attributes
    ----------
    code : str
        A key of `SEVERITIES`.
    format : str
        The format whose reader makes the check, or 'any'.
    field : str
        The field checked, as the format spells it; empty for a whole file or record.
    expected : str
        What should be there, in words, as the message says it.
    test : callable or None
        ``test(value) -> bool`` for the value as read; None where the reader itself decides.
    """

    code: str
    format: str
    field: str
    expected: str
    test: Callable[[object], bool] | None = None

    @property
    def fix(self) -> str:
        """How `memkit.Fix` repairs it; empty where no repair is safe."""
        return FIXES.get((self.code, self.format, self.field), "")

    @property
    def severity(self) -> str:
        """error, warning or info."""
        return SEVERITIES[self.code]

    @property
    def parts(self) -> tuple[str, str, str]:
        """What a reader reports where the rule is broken: code, field, expected."""
        return self.code, self.field, self.expected


def length(low: int, high: int = sys.maxsize) -> Callable[[object], bool]:
    """A test that a text has so many characters, without the blanks around it."""
    return lambda value: low <= len(str(value).strip()) <= high


def matches(pattern: str) -> Callable[[object], bool]:
    """A test that a value, as text, matches `pattern` as a whole."""
    compiled = re.compile(pattern, re.DOTALL)
    return lambda value: compiled.fullmatch(str(value)) is not None


def one_of(*words: str) -> Callable[[object], bool]:
    """A test that a value is one of `words`."""
    return lambda value: value in words


def is_ratio(value: object) -> bool:
    """Whether a value is a number in 0..1."""
    return isinstance(value, (int, float)) and 0 <= value <= 1


def is_not_negative(value: object) -> bool:
    """Whether a value is a number from 0 on."""
    return isinstance(value, (int, float)) and value >= 0


Tests = dict[str, list[tuple[Rule, Callable[[object], bool]]]]


def tests_of(rules: Iterable[Rule]) -> Tests:
    """The tests of `rules` by their field."""
    tests: Tests = {}
    for rule in rules:
        if rule.test:
            tests.setdefault(rule.field, []).append((rule, rule.test))
    return tests


_TEXT = pa.string()
IDS = pa.schema({"memory_id": _TEXT, "path": _TEXT, "line": pa.int64(), "field": _TEXT, "group": _TEXT, "id": _TEXT})
"""The records' own ids, each with the group within which it must be unique."""

RAW_SCHEMAS: dict[str, pa.Schema] = {**TABLES, "_ids": IDS}
"""The tables, and one that only the checks across files see; formats may add tables of their own."""

PROBLEM_ORDER = ("path", "line", "rule", "field", "message", "memory_id")
_NO_WORD = re.compile(r"[\W_]+")
# As the ids of sections are documented; another length would give labelled memories other ids.
_MAX_SLUG = 60
# A line of a list beside a date and a place.
_TITLE = 60
"""The most characters of a title that is made of first words."""
# A guess: with longer ones, headings would outweigh the text below them.
_MAX_NAME = 200
"""The most characters of a heading in heading_path, as every section below repeats it."""
_BLANK: tuple[tuple[str, object], ...] = (("title", ""), ("tags", ()), ("extra", "{}"))
"""The defaults of a memory's columns."""
# Ten megabytes, so that memory is that of Arrow's columns.
HELD_ROWS = 10_000
"""The most rows of a table kept as dicts, of about 1,000 bytes each, before they are converted to Arrow."""

# A round bound: a column of many pieces is slow to ask.
_SPLICED = 64
"""Up to this number, changed files are spliced into tables without copying the other rows."""

KEPT_WITH = "an entry to keep it with"
"""What was expected where a problem alone holds a part of a file, so that it is told with its own text."""
MAX_PROBLEMS, _FEWER_PROBLEMS = 20_000, {"encoding": 10}  # a picture is no text in each of its lines
"""The most problems of one rule listed for one file; a last row says how many more there are."""

Row = dict[str, Any]
Tables = dict[str, pa.Table]


def schemas_of(formats: Iterable[Format]) -> dict[str, pa.Schema]:
    """The tables that reading with these formats fills."""
    extra = {name: schema for format in formats for name, schema in format.schemas.items()}
    return RAW_SCHEMAS | extra


def shown(value: object, limit: int = 80) -> str:
    """`value` as a message quotes it: on one line, shortened."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


def json_text(value: object) -> str:
    """`value` as JSON, without escapes of letters.

    >>> json_text({"вид": "чай"})
    '{"вид": "чай"}'
    """
    return "{}" if value == {} else _JSON.encode(value)


COMMENTS, ENCODING = "#", "encoding"
"""The keys of extra for YAML comments, by line number, and for the encoding of a file that is no UTF-8; lines that are
none stand under the name of the encoding by which they are guessed.
"""
_Line = tuple[str, int, str, str]
"""A path, a line number, the key in extra, and the text of the line that no column holds."""


def _beside(source: Source) -> list[_Line]:
    """The lines of a file whose text no column holds, in order."""
    lines = [(source.path, number, source.guess, guess) for number, guess in source.undecoded.items()]
    comments_of = front_matter.comments_of_yaml if source.path.lower().endswith(YAML) else front_matter.comments
    if "#" not in source.text or not (comments := comments_of(source.text).items()):
        return lines
    return sorted([*lines, *((source.path, number, COMMENTS, comment) for number, comment in comments)])


@dataclass
class Rows:
    """Rows by table name; `add` and `problem` append.

    Attributes
    ----------
    rules : tuple of Rule or None
        The checks to use instead of each format's own.
    schemas : dict of str to pyarrow.Schema
        The tables that are filled.
    kept : dict of str to object
        What surveys and checks of an earlier reading of the folder kept for the next one, by name.
    tables : dict of str to list of dict
        The latest rows, at most `HELD_ROWS` of a table; earlier ones are in Arrow already.
    """

    rules: tuple[Rule, ...] | None = None
    schemas: dict[str, pa.Schema] = field(default_factory=lambda: dict(RAW_SCHEMAS))
    kept: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(init=False)

    def __post_init__(self) -> None:
        self.tables = {name: [] for name in self.schemas}
        self._handed: dict[str, list[pa.Table]] = {name: [] for name in self.schemas}
        self._format: Format | None = None
        self._layout: str | None = None
        self._first = 0
        self._beside: deque[_Line] = deque()
        self._encoding: str | None = None
        self._ids = _Ids("")
        self._tests: Tests = {}
        self._listed: Counter[tuple[str, str]] = Counter()
        self._unlisted: Counter[tuple[str, str, str]] = Counter()

    def use(self, format: Format) -> None:
        """Use the rules and the layout of `format` for the rows that follow: its own rules, or those in `rules` that
        name it.
        """
        if format is self._format:
            return
        self._format, self._layout = format, format.layout
        for name in format.schemas.keys() - self.schemas.keys():
            self.schemas[name], self.tables[name], self._handed[name] = format.schemas[name], [], []
        self._tests = format.tests
        if self.rules is not None:
            self._tests = tests_of(rule for rule in self.rules if rule.format == format.name)

    def add(self, table: str, row: Row) -> None:
        """Append `row` to `table`."""
        if table == "memories":
            for name, value in _BLANK:
                row.setdefault(name, value)
            if "heading_path" not in row:
                row["heading_path"] = heading_path(row["path"])
            row.setdefault("layout", self._layout)
        rows = self.tables[table]
        if len(rows) >= HELD_ROWS:
            self._hand_over(table, rows)
        rows.append(row)

    def _hand_over(self, table: str, rows: list[Row]) -> None:
        """Convert rows to Arrow, except for the latest memory, whose extra may still get lines that follow it."""
        last = []
        if table == "memories":
            last = [rows.pop()]
            self._keep_beside(rows[self._first :], _line_start(last[0]))
            self._keep_encoding(rows[self._first :])
            self._first = 0
        self._handed[table].append(self._to_table(table))
        rows[:] = last

    def problem(
        self,
        rule: str,
        path: str,
        expected: str,
        got: object,
        *,
        line: int | None = None,
        field: str | None = None,
        status: str | None = None,
        memory_id: str | None = None,
        quote: bool = True,
        severity: str | None = None,
        advice: str | None = None,
    ) -> None:
        """Append a problem with a message made of its parts; after `MAX_PROBLEMS` they are only counted.

        A rule that memkit does not have comes with its severity and advice.
        """
        severity = severity or SEVERITIES[rule]
        if self._listed[path, rule] == _FEWER_PROBLEMS.get(rule, MAX_PROBLEMS):
            self._unlisted[path, rule, severity] += 1
            return
        self._listed[path, rule] += 1
        where = f"{path}:{line}" if line else path
        what = f"field '{field}' must be {expected}" if field else f"expected {expected}"
        if rule in ("missing_field", "missing_recommended"):
            what = f"expected a field '{field}'"
        came = shown(got) if quote and got != "nothing" else str(got)
        message = f"{where}: {what}. Got {came}. {ADVICE.get(rule, '') if advice is None else advice}".rstrip()
        row = {"path": path, "line": line, "field": field or None, "rule": rule, "severity": severity}
        self.add("problems", {**row, "status": status, "message": message, "memory_id": memory_id})

    def new_id(self, format: str, path: str, name: object, text: str) -> str:
        """The id of a memory from `name`, which is its own id, its slug or its ordinal.

        If the name is taken, the hash of `text` is added. A ``#`` in the name is written ``%23``, so that the last
        ``#`` of an id always separates path and name.
        """
        if path != self._ids.path:
            self._ids = _Ids(path)
        return f"{format}:{path}#{self._ids.new(name, text)}"

    def memory(self, format: str, path: str, name: object, text: str, **columns: object) -> str:
        """Add a memory with these columns, the others null; returns its id, made by `new_id`."""
        memory_id = self.new_id(format, path, name, text)
        self.add("memories", {"memory_id": memory_id, "format": format, "path": path, "text": text, **columns})
        return memory_id

    def absorb(self, other: Rows) -> None:
        """Append all rows of `other`."""
        for name, rows in other.tables.items():
            if other._handed[name]:
                self._handed[name] += [self._to_table(name), *other._handed[name]]
                self.tables[name].clear()
            self.tables[name] += rows
        self._unlisted += other._unlisted

    def add_id(self, memory_id: str, path: str, line: int | None, field: str, group: str, id: str | None) -> None:
        """Record an id, so that the checks across files can find duplicates."""
        if id:
            row = {"memory_id": memory_id, "path": path, "line": line, "field": field, "group": group, "id": id}
            self.tables["_ids"].append(row)

    def repeated(self, value: object, path: str, line: int | None, memory_id: str | None) -> None:
        """Report keys that occur twice in `value` or an object within it."""
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            if isinstance(inner, (dict, list)):
                self.repeated(inner, path, line, memory_id)
        for key, values in value.repeated.items() if isinstance(value, Node) else ():
            where = value.repeated_lines.get(key, line) if isinstance(value, Node) else line
            self.problem("duplicate_key", path, "named once", values, line=where, field=key, memory_id=memory_id)

    def failing(self, name: str, value: object) -> list[Rule]:
        """The rules whose test `value` fails as the field `name`; null fails none."""
        tests = self._tests.get(name) if value is not None else None
        return [] if not tests else [rule for rule, passes in tests if not passes(value)]

    def keep_text(self, source: Source, format: str, expected: str, got: str, line: int) -> None:
        """Add a file that cannot be parsed as one memory with its text, and report the problem."""
        columns = {"title": source.name, "line_start": 1, "line_end": len(source.lines)}
        memory_id = self.memory(format, source.path, 1, source.text, **columns)
        self.problem("unparsable", source.path, expected, got, line=line, memory_id=memory_id, quote=False)

    def begin(self, source: Source, *parts: Source) -> None:
        """Begin the memories of one file; lines that no column holds will be kept in their extra."""
        self._first, self._encoding = len(self.tables["memories"]), None
        self._beside = deque(_beside(source))
        for one in (source, *parts):
            if one is not source:
                self._beside += _beside(one)
            if one.encoding != "utf-8":
                self._encoding = self._encoding or one.encoding

    def end(self) -> None:
        """End the file that was begun."""
        if self._beside:
            self._keep_beside(self.tables["memories"][self._first :])
        if self._encoding:
            self._keep_encoding(self.tables["memories"][self._first :])
            self._encoding = None

    def _keep_encoding(self, rows: list[Row]) -> None:
        """Put the encoding of a file that is no UTF-8 into the extra of its memories."""
        for row in rows if self._encoding else ():
            row["extra"] = json_text({ENCODING: self._encoding} | json.loads(row["extra"]))

    def _keep_beside(self, rows: list[Row], until: float = math.inf) -> None:
        """Put the lines before `until` that no column holds into the extra of the last memory that begins above each.

        A line above all memories, for example in front matter, goes to the first one.
        """
        memories = sorted(rows, key=_line_start)
        starts = list(map(_line_start, memories))
        by_memory: dict[tuple[int, str], dict[str, str]] = {}
        while memories and self._beside and self._beside[0][1] < until:
            path, number, key, text = self._beside.popleft()
            index = max(bisect_right(starts, number) - 1, 0)
            is_same_file = memories[index]["path"] == path
            if key == COMMENTS and text in memories[index]["text"]:
                continue  # front matter of plain Markdown is a text of its own
            by_memory.setdefault((index, key), {})[str(number) if is_same_file else f"{path}:{number}"] = text
        for (index, key), lines in by_memory.items():
            extra = json.loads(memories[index]["extra"])
            existing = extra.get(key, {})  # a field of that name, where it is no object
            memories[index]["extra"] = json_text(
                {**extra, key: {**(existing if isinstance(existing, dict) else {"": existing}), **lines}}
            )

    def to_arrow(self) -> dict[str, pa.Table]:
        """The rows as Arrow tables with their declared schemas, empty tables included."""
        return {name: self.table(name) for name in self.tables}

    def table(self, name: str) -> pa.Table:
        """One of these tables."""
        if name == "problems":
            for (path, rule, severity), count in self._unlisted.items():
                message = f"{path}: {count:,} more problems of this rule are not listed one by one."
                row = dict.fromkeys(self.schemas["problems"].names)
                self.add("problems", row | {"path": path, "rule": rule, "severity": severity, "message": message})
            self._unlisted.clear()
        return pa.concat_tables([*self._handed[name], self._to_table(name)])

    def memories(self) -> list[Row]:
        """The rows of ``memories`` so far, as dicts."""
        handed = [row for table in self._handed["memories"] for row in table.to_pylist()]
        return handed + self.tables["memories"] if handed else self.tables["memories"]

    def _to_table(self, name: str) -> pa.Table:
        rows = self.tables[name]
        if name == "problems":
            rows.sort(key=_problem_order)  # in order from the start, millions need not be copied to be sorted
        return to_table(rows, self.schemas[name])


class _Ids:
    """The ids of the memories of one file; an ordinal takes one byte, as every line may have one.

    The first memory with a name has the name alone. Further ones add the hash of their text, so that an id does not
    change with what is written above it; only equal texts are numbered.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._taken: dict[str, int] = {}
        self._ordinals = bytearray()

    def new(self, source_id: object, text: str) -> str:
        name = str(source_id).replace("#", "%23")
        if isinstance(source_id, int) and name not in self._taken:
            self._ordinals += bytes(max(0, source_id + 1 - len(self._ordinals)))
            self._ordinals[source_id] = 1
        elif self._is_taken(name):
            return self._further(f"{name}~{hash_of(text)}")
        else:
            self._taken[name] = 1
        return name

    def _further(self, name: str) -> str:
        number, candidate = self._taken.get(name, 1), name
        while self._is_taken(candidate):
            number += 1
            candidate = f"{name}.{number}"
        self._taken[name] = number
        return candidate

    def _is_taken(self, name: str) -> bool:
        if name in self._taken:
            return True
        if not name[-1:].isdecimal():
            return False
        # Longer ones are no ordinals, and Python refuses to read numbers of thousands of digits.
        number = int(name) if len(name) < 10 and name.isdecimal() else -1
        if str(number) == name:
            return number < len(self._ordinals) and bool(self._ordinals[number])
        # Numbered ones are known by the highest: millions of equal lines would each take 150 bytes here.
        first, _, last = name.rpartition(".")
        number = int(last) if "~" in first and len(last) < 10 and last.isdecimal() else 0
        return str(number) == last and 1 < number <= self._taken.get(first, 0)


def hash_of(text: str) -> str:
    """A hash of a text in eight hexadecimal digits."""
    # Eight letters are enough: the hash only parts equal slugs of one file.
    return digest(text, 4)


def first_words(text: str) -> str:
    """The first words of a text, as a title.

    Examples
    --------
    >>> first_words("Сервер: arm64;\\nдеплой по вторникам")
    'Сервер: arm64;'
    >>> len(first_words("чай " * 100)) <= 61
    True
    """
    first = text.strip().partition("\n")[0].rstrip()
    return first if len(first) <= _TITLE else f"{first[:_TITLE].rsplit(' ', 1)[0]}…"


def slug_of(title: str) -> str:
    """The part of an id made from a heading: its letters and digits, case-folded.

    Examples
    --------
    >>> slug_of("14:30 — Выкатили 2.1!"), slug_of("***")
    ('14-30-выкатили-2-1', 'section')
    """
    return _NO_WORD.sub("-", title.casefold()).strip("-")[:_MAX_SLUG].rstrip("-") or "section"


def heading_path(path: str, *names: str) -> str:
    """The folders of a memory's file, its category and the headings above it, outermost first.

    Examples
    --------
    >>> heading_path("memory/lessons/a.md", "lessons", "Пул")
    'memory / lessons / Пул'
    """
    return _path_below(path.rpartition("/")[0], *names)


# A round bound; files of one folder come one after the other.
@functools.lru_cache(1024)
def _path_below(folder: str, *names: str) -> str:
    parts = [*folder.split("/"), *(name[:_MAX_NAME] for name in names)]
    return " / ".join(part for part, _ in groupby(filter(None, parts)))


def _line_start(row: Row) -> int:
    return row.get("line_start") or 1


def _problem_order(row: Row) -> tuple[object, ...]:
    """By `PROBLEM_ORDER`, nulls last."""
    values = map(row.__getitem__, PROBLEM_ORDER)
    return tuple(part for value in values for part in (value is None, value))


def to_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """`rows` as a table of `schema`; an absent key is null."""
    if not rows:
        return without_rows(schema)
    names = schema.names
    columns = zip(*[tuple(map(row.get, names)) for row in rows], strict=True)
    arrays = [pa.array(column, type) for column, type in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def in_order(problems: pa.Table, *more: pa.Table) -> pa.Table:
    """`problems` with those of other tables, in their order."""
    merged = pa.concat_tables([problems, *more]).sort_by([(name, "ascending") for name in PROBLEM_ORDER])
    return merged.replace_schema_metadata(problems.schema.metadata)


def exact(tables: Tables) -> Tables:
    """Copies: the buffers into which rows were added are up to twice as long as what they hold.

    Where each memory is a row of ``documents``, the two share the columns that both have. The copies stay, so they lie
    in the system's memory: Arrow's own pool rounds such lengths up, by a sixth of all.
    """
    held = {
        name: pa.concat_tables([table, without_rows(table.schema)]).combine_chunks(pa.system_memory_pool())
        for name, table in tables.items()
    }
    memories, documents = (held.get(name, pa.table({})) for name in ("memories", "documents"))
    for name in {*memories.column_names} & {*documents.column_names}:
        if documents[name].equals(memories[name]):
            held["documents"] = with_column(held["documents"], name, memories[name])
    return held


def extra_of(fields: Row, known: Container[str]) -> str:
    """JSON object of the `fields` that are not in `known`, so that no column holds them.

    >>> extra_of({"title": "Чай", "вкус": 5}, ("title",))
    '{"вкус": 5}'
    """
    unknown = {key: value for key, value in fields.items() if key not in known}
    return json_text(unknown) if unknown else "{}"


def with_own_dates(memories: pa.Table) -> pa.Table:
    """`memories` with date_source 'own' for dated ones whose reader did not set it."""
    is_dated = pc.or_(pc.is_valid(memories["created_at"]), pc.is_valid(memories["updated_at"]))
    known = pc.fill_null(memories["date_source"], "own").combine_chunks()  # older Arrows break texts in chunks
    return with_column(memories, "date_source", pc.if_else(is_dated.combine_chunks(), known, None))


def merge(before: Tables, fresh: Tables, changed: set[str]) -> Tables:
    """`before` with the rows of the `changed` files replaced by those in `fresh`, in path order."""
    places = pa.concat_tables([tables["memories"].select(["memory_id", "path"]) for tables in (before, fresh)])
    merged = {}
    for name, new in fresh.items():
        old = before[name] if name in before else new.schema.empty_table()
        if old.num_rows == new.num_rows == 0:
            merged[name] = old
            continue
        merged[name] = _splice(old, new, _paths(name, old, places), _paths(name, new, places), changed)
    return merged


def _paths(name: str, table: pa.Table, places: pa.Table) -> pa.ChunkedArray:
    """The file of the memory of each row; a problem's own path may be a part of that memory."""
    if "path" in table.column_names and name != "problems":
        return table["path"]
    rows = pc.index_in(table["memory_id"], value_set=places["memory_id"].combine_chunks(), skip_nulls=True)
    paths = places["path"].take(rows)
    return pc.coalesce(paths, table["path"]) if name == "problems" else paths


def _splice(
    old: pa.Table, new: pa.Table, old_paths: pa.ChunkedArray, new_paths: pa.ChunkedArray, changed: set[str]
) -> pa.Table:
    if len(changed) > _SPLICED:
        keep = pc.invert(pc.is_in(old_paths, value_set=pa.array(sorted(changed), pa.string())))
        table = pa.concat_tables([old.filter(keep), new])
        paths = pa.chunked_array([*old_paths.filter(keep).chunks, *new_paths.chunks], pa.string())
        order = pc.sort_indices(
            pa.table({"path": paths, "row": pa.array(range(len(paths)))}), [("path", "ascending"), ("row", "ascending")]
        )
        return table.take(order)
    pieces, position = [], 0
    for path in sorted(changed):
        start = pc.sum(pc.less(old_paths, path)).as_py() or 0
        stop = pc.sum(pc.less_equal(old_paths, path)).as_py() or 0
        is_of_path = pc.equal(new_paths, path)
        pieces += [
            old.slice(position, start - position),
            new if pc.all(is_of_path, skip_nulls=False).as_py() else new.filter(is_of_path),
        ]
        position = stop
    return pa.concat_tables([*pieces, old.slice(position)])
