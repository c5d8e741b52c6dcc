"""Records: Pathway, Memory Item and Wisdom Fact in JSON, JSON lines and YAML; one, a list, or several documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from memkit.formats.disk.source import Source
from memkit.formats.fields import TIME
from memkit.formats.format import File, Format, Owner
from memkit.formats.records.kinds import (
    CURRENT,
    RECORD_KINDS,
    RULES,
    Record,
    RecordKind,
    adapt,
    check,
    major_of,
    shape_of,
)
from memkit.formats.records.unknown import (
    MAX_BYTES,
    Prose,
    above,
    add_row,
    is_transcript,
    longest_in,
    name_of_text,
    records_of,
    said_in,
    sets_up,
    unlisted,
    unread,
)
from memkit.formats.rows import Row, Rows, Rule, json_text
from memkit.formats.spelling import END, iso_time_of, text_of
from memkit.formats.syntax.nodes import (
    LINES,
    YAML,
    Node,
    StructureError,
    load_json,
    load_json_items,
    name_lines,
)

if TYPE_CHECKING:
    from memkit.formats.syntax.yaml_nodes import YamlPart

JOURNAL = "migrations.jsonl"
"""What became what and why, a line a step, beside the records."""
_JOURNAL_FIELDS = {"record", "from", "to", "time", "reason"}
_TEXTS = ("template", "response", "content")
ENDINGS = (".json", *LINES, *YAML)
TRANSCRIPT, BY_PROSE = "transcript", "longest field of prose"
"""How JSON of an unknown shape is read where no field by name holds its texts."""
WRAPPERS = ("pathways", "memory_items", "memories", "items", "wisdom_facts", "wisdom", "facts")
"""Keys under which a file may hold its list of records."""


@dataclass(slots=True)
class _Item:
    """One record or remnant in a file."""

    value: Any
    line: int
    end_line: int
    fault: StructureError | None = None
    names: dict[str, int] | None = None


_Unknown = tuple[Any, _Item, Prose | None]
"""A value of an unknown shape, the document that it is from, and the prose that will be its text."""


def kind_of(value: Any) -> str | None:
    """Which kind of record `value` is by its fields; None if it is not a record."""
    if not isinstance(value, Node):
        return None
    keys = value.keys()
    # Three of its fields, as single ones are in other programs' records.
    if "response_template" in value or ("template" in value and _PATHWAY & keys) or len(_PATHWAY & keys) >= 3:
        return "pathway"
    if ("fact_id" in value and _WISDOM & keys) or {"content", "confidence"} <= keys:
        return "wisdom_fact"
    is_bare = "text" in value and keys <= _OLD_ITEM and len(keys) >= 2
    is_old = is_bare or ({"text", "timestamp"} <= keys and {"category", "importance"} & keys)
    is_item = keys >= _ITEM or ("response" in value and _ITEM & keys)
    return "memory_item" if is_item or is_old else None


_PATHWAY = {"triggers", "tier", "usage_stats", "variables"}
_WISDOM = {"content", "category", "confidence", "relations"}
_ITEM = {"input", "user_id", "timestamp"}
_OLD_ITEM = {"text", "timestamp", "category", "importance"}


def parse(file: File, rows: Rows) -> None:
    """A JSON, JSON lines or YAML file to its rows; a file that is not a record is one ``unclaimed`` problem."""
    source = file.source
    remaining = _find(source)
    items = []
    for item in remaining:
        items.append(item)
        if kind_of(item.value) or (item.fault and item.value is None):
            break  # a line that is no JSON says nothing of the others
    else:
        if source.too_large:
            rows.keep_text(source, "records", "a whole file", "the head of one", 1)
            return
        if source.name == JOURNAL and (not items or any(map(_is_step, items))):  # what `memkit.Migrate` keeps
            _read_journal(source, rows, items)
            return
        if _read_unknown(file, rows, items):
            return
    if not _is_lines(source):
        items += remaining  # how the file ends says what becomes of its items
    whole = items[-1].fault is not None and items[-1].value is None
    reader = _File(source, rows)
    for ordinal, item in enumerate(chain(items, remaining), 1):
        # The text of a broken file is kept whole: what else is in it need not be kept once more.
        if item.fault or not whole or kind_of(item.value):
            reader.read(ordinal, item)


def _read_unknown(file: File, rows: Rows, documents: list[_Item]) -> bool:
    """What is no record: rows by the field that holds their text, or a problem that says what the file is.

    False for a file without such a field that has lines which are no JSON: these are kept as text.
    """
    source, reads_all = file.source, file.json == "rows"
    unknown: Sequence[_Unknown]
    unknown = [(value, document, None) for document in documents for value in unlisted(document.value)]
    is_json = not file.has_ending(YAML)
    items = _whole(unknown)
    named = None
    if is_json and (reads_all or not is_transcript(items)):
        name = name_of_text(items) or ("message" if reads_all and any(map(said_in, items)) else None)
        named = None if name is None else f"field {name!r}"
        if named is None:
            is_whole = len(items) == 1 and items[0] is documents[0].value
            is_setup = is_whole and not reads_all and sets_up(source.name, items[0])
            unknown, named = (unknown, None) if is_setup else _by_prose(unknown, reads_all)
            items = _whole(unknown)
    elif is_json:
        named = TRANSCRIPT
    if named == TRANSCRIPT:
        got = f"a host's record of a conversation, {len(items)} lines or turns, not read"
        rows.problem("transcript", source.path, "memories (json='rows' reads all JSON)", got, quote=False)
        return True
    if named is None and any(document.fault for document in documents):
        return False
    if named is None or (source.size > MAX_BYTES and not reads_all):
        got = _described(documents)
        if named is not None:
            got = f"{len(unknown)} objects with texts in {source.size} bytes of JSON, not read (json='rows' reads them)"
        rows.problem("unclaimed", source.path, "a record of a known kind", got, quote=False)
        return True
    got = f"objects of an unknown shape, read by their {named}"
    rows.problem("unclaimed", source.path, "JSON of a known shape", got, quote=False)
    _add_unknown(source, rows, unknown, reports_rest=named != BY_PROSE)
    return True


def _whole(unknown: Sequence[_Unknown]) -> list[Any]:
    return [value for value, document, _ in unknown if not document.fault]


def _by_prose(unknown: Sequence[_Unknown], reads_all: bool) -> tuple[Sequence[_Unknown], str | None]:
    """The records of a file with the prose of each, and how they are read; None where fewer than half have some."""
    if len(unknown) == 1:
        unknown = [(value, document, None) for one, document, _ in unknown for value in records_of(one)]
    unknown = [(value, item, None if item.fault else longest_in(value)) for value, item, _ in unknown]
    items, having = _whole(unknown), [(value, prose) for value, _, prose in unknown if prose]
    n_turns = sum(any(map(is_transcript, above(value, prose.place, list))) for value, prose in having)
    if not reads_all and (is_transcript(items) or 2 * n_turns > max(len(having), 1)):
        return unknown, TRANSCRIPT
    return unknown, BY_PROSE if items and (reads_all or 2 * len(having) >= len(items)) else None


def _add_unknown(source: Source, rows: Rows, unknown: Sequence[_Unknown], *, reports_rest: bool) -> None:
    """Each object of an unknown shape as a memory; what has no text is kept as it is written."""
    reader = _File(source, rows)
    for ordinal, (value, document, prose) in enumerate(unknown, 1):
        item = _Item(value, document.line, document.end_line, document.fault)
        item = item if _is_lines(source) else _located(value, document.line)
        memory_id = reader.unknown(ordinal, item, prose)
        if memory_id is None and (reports_rest or item.fault):
            reader.read(ordinal, item)
        elif memory_id is None:
            reader.keep(ordinal, item, prose.text if prose and not prose.place else json_text(value))


def _is_step(item: _Item) -> bool:
    return isinstance(item.value, Node) and item.value.keys() == _JOURNAL_FIELDS


def _read_journal(source: Source, rows: Rows, items: list[_Item]) -> None:
    """Each step of a journal to a row of ``migrations``; a line that is none to a problem."""
    for item in items:
        step = item.value
        is_whole = _is_step(item) and all(isinstance(value, str) for value in step.values())
        # A row without a time would be still to migrate.
        if is_whole and (time := iso_time_of(step["time"])) is not None:
            row = {"memory_id": step["record"], "path": source.path, "time": time, "reason": step["reason"]}
            rows.add("migrations", {**row, "from_version": step["from"], "to_version": step["to"]})
            continue
        got = step if isinstance(step, str) else json_text(step)
        expected = f"a step of a migration with {', '.join(sorted(_JOURNAL_FIELDS))}, all texts, and a time in ISO 8601"
        rows.problem("unparsable", source.path, expected, got[:120], line=item.line)


def _described(items: list[_Item]) -> str:
    if not items:
        return "nothing"
    value = items[0].value
    return (f"fields {', '.join(list(value)[:6])}" if isinstance(value, Node) and value else json_text(value))[:120]


def _find(source: Source) -> Iterator[_Item]:
    """Every item of the file that may be a record, then the fault that ended it, if one did."""
    if _is_lines(source):
        yield from _json_lines(source)
        return
    try:
        if source.name.lower().endswith(YAML):
            from memkit.formats.syntax.yaml_nodes import YamlPart

            yield from _in_yaml(YamlPart(source.text))
        elif source.text.lstrip().startswith("["):
            for value, line, end_line in load_json_items(source.text):
                yield _Item(value, line, end_line)
        elif source.text.strip():
            yield from _unwrapped(load_json(source.text))
    except StructureError as error:
        yield _Item(None, error.line, len(source.lines), error)


def _in_yaml(text: YamlPart) -> Iterator[_Item]:
    """The items of a file of YAML; where it is none, those of each part that is, and each other part with its fault.

    Raises
    ------
    StructureError
        Where no part is a record: then the file is one text.
    """
    try:
        documents = text.documents()
    except StructureError:
        items = [item for part in text.cut() for item in _in_part(part)]
        if not any(kind_of(item.value) for item in items):
            raise
        yield from items
    else:
        for document in documents:
            yield from _unwrapped(document)


def _in_part(part: YamlPart) -> Iterator[_Item]:
    try:
        documents = part.documents()
    except StructureError as error:
        parts = part.cut()
        if len(parts) > 1:
            for inner in parts:
                yield from _in_part(inner)
            return
        stripped = part.stripped()
        last = stripped.above + stripped.text.count("\n") + 1
        yield _Item(stripped.text, stripped.above + 1, last, StructureError(str(error), min(error.line, last)))
    else:
        for document in documents:
            yield from _unwrapped(document, part.stripped().above + 1)


def _is_lines(source: Source) -> bool:
    return source.name.lower().endswith(LINES)


def _json_lines(source: Source) -> Iterator[_Item]:
    for number, line in enumerate(source.lines, 1):
        if not line.strip():
            continue
        try:
            yield from (_Item(item.value, number, number) for item in _unwrapped(load_json(line)))
        except StructureError as error:
            yield _Item(line, number, number, StructureError(str(error), number))


def _unwrapped(document: Any, line: int = 1) -> Iterator[_Item]:
    """The records of one document, which begins on a `line`: itself, its items, or those of its lists of records."""
    items = document if isinstance(document, list) else [document]
    if isinstance(document, Node) and kind_of(document) is None:
        lists = [key for key in WRAPPERS if isinstance(document.get(key), list) and any(map(kind_of, document[key]))]
        if lists:
            items, line = [item for key in lists for item in document[key]], document.line
            other_fields = {name: value for name, value in document.items() if name not in lists}
            if other_fields:  # once, not in each: a file of many records would grow as their square
                next(item for item in items if kind_of(item)).put("(file)", other_fields)
    for item in items:
        yield _located(item, line)


def _located(value: Any, line: int) -> _Item:
    return _Item(value, value.line, value.end_line) if isinstance(value, Node) else _Item(value, line, line)


class _File:
    """The records of one file under way; numbers those without an id."""

    def __init__(self, source: Source, rows: Rows) -> None:
        self.source, self.rows = source, rows
        self.is_yaml = source.name.lower().endswith(YAML)

    def read(self, ordinal: int, item: _Item) -> None:
        kind = kind_of(item.value)
        if item.fault:
            self._keep_rest(ordinal, item)
        elif kind is None:
            prose, text = None if self.is_yaml else longest_in(item.value), json_text(item.value)
            memory_id = (self.unknown(ordinal, item, prose) if prose else None) or self.keep(ordinal, item, text)
            self.problem("unclaimed", "a record of a known kind", text[:80], item.line, memory_id)
        else:
            self._read_record(ordinal, item, RECORD_KINDS[kind])

    def unknown(self, ordinal: int, item: _Item, prose: Prose | None) -> str | None:
        """Add an object of an unknown shape, its text being `prose` or that of a known field; None without a text."""
        if not isinstance(item.value, Node):
            return None
        lines = item.line, item.end_line
        memory_id = add_row(self.source, self.rows, item.value, lines, ordinal, prose)
        if memory_id is None:
            return None
        for field, written, code, expected in unread(item.value):
            self.problem(code, expected, written, self.line_of(item, field), memory_id, field=field)
        return memory_id

    def _keep_rest(self, ordinal: int, item: _Item) -> None:
        """What cannot be parsed, as text: one line of JSON lines, else the whole file."""
        text = item.value if isinstance(item.value, str) else self.source.text
        if not isinstance(item.value, str):
            item.line, item.end_line = 1, len(self.source.lines)
        memory_id = self.keep(ordinal, item, text)
        line = item.fault.line if item.fault else item.line
        self.problem("unparsable", "JSON or YAML", str(item.fault), line, memory_id, quote=False)

    def problem(self, rule: str, expected: str, got: object, line: int, memory_id: str, **more: Any) -> None:
        self.rows.problem(rule, self.source.path, expected, got, line=line, memory_id=memory_id, **more)

    def keep(self, id: str | int, item: _Item, text: str, source_id: str | None = None, kind: str | None = None) -> str:
        columns = {"kind": kind, "source_id": source_id, "title": source_id or ""}
        place = {"line_start": item.line, "line_end": item.end_line}
        return self.rows.memory("records", self.source.path, id, text, **columns, **place)

    def _read_record(self, ordinal: int, item: _Item, kind: RecordKind) -> None:
        value: Node = item.value
        shape = shape_of(kind.name, value)
        version = shape or text_of(value.get("format_version")) or CURRENT
        value, steps = adapt(kind.name, version, value)
        source_id = text_of(value.get(kind.id_field)) if kind.id_field else None
        if not steps and major_of(version) not in (major_of(CURRENT), None):
            memory_id = self.keep(source_id or ordinal, item, json_text(item.value), source_id, kind="quarantined")
            line, expected = self.line_of(item, "format_version"), f"MAJOR {major_of(CURRENT)}"
            self.problem("unsupported_version", expected, version, line, memory_id, field="format_version")
            return
        text = next(filter(None, map(text_of, map(value.get, _TEXTS))), "")
        memory_id = self.rows.new_id("records", self.source.path, source_id or ordinal, text)
        for step in steps:
            row = {"memory_id": memory_id, "path": self.source.path, "kind": kind.name, "reason": step.reason}
            self.rows.add("migrations", {**row, "from_version": step.from_version, "to_version": step.to_version})
        memory: Row = {"memory_id": memory_id, "format": "records", "kind": kind.name, "source_id": source_id}
        memory |= {"path": self.source.path, "line_start": item.line, "line_end": item.end_line}
        line_of = partial(self.line_of, item)
        Record(self.rows, value, kind, memory, line_of, migrated=bool(steps), typed=not self.is_yaml).read()

    def line_of(self, item: _Item, field: str) -> int:
        """The line of a field: as the YAML reader noted it, else the first that names it within the record."""
        if isinstance(item.value, Node) and field in item.value.lines:
            return item.value.lines[field]
        if item.line == item.end_line:
            return item.line  # a file of one line may hold a million records: never search it for each
        if item.names is None:
            item.names = name_lines(self.source.lines[item.line - 1 : item.end_line], item.line)
        return item.names.get(field, item.line)


FORMAT = Format(
    "records",
    "Pathway, Memory Item, Wisdom Fact in JSON, JSON lines, YAML",
    order=50,
    kinds=("pathway", "memory_item", "wisdom_fact", "quarantined"),
    tables=("pathways", "memory_items", "wisdom_facts", "relations", "migrations"),
    endings=ENDINGS,
    writes=ENDINGS,
    claims=lambda file: file.has_ending(ENDINGS),
    parse=parse,
    check=check,
    dates={"created_at": "timestamp", "updated_at": "last_used_at"},
    owner=Owner(kinds=("memory_item",)),
    dates_in_lines=True,
    rules=(
        Rule("unsupported_version", "records", "format_version", "a MAJOR version that an adapter knows"),
        Rule(TIME.code, "records", "created_at", f"{TIME.expected}, in JSON of an unknown shape"),
        Rule(TIME.code, "records", "expires_at", END),
        *RULES,
    ),
)
