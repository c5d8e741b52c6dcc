"""Notes without defects, read in batches.

Nearly all notes of a folder were written by one tool, which lays out their front matter alike. A `Layout` is the
pattern of such front matter, made from the first note that has it; what it captures goes to Arrow by the column.
Whatever is not such a note is left to `memkit.formats.notes.format`; a property test holds both to the same rows.

It is a second way because it is six times as fast: of 6,000 notes of 2.7 KB each takes 16 µs here and 97 µs there. A
folder is read in 28 µs a note, opening its files included; there 20 µs are gone before a field is looked at.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.fences import fences
from memkit.formats.disk.files import Content
from memkit.formats.rows import RAW_SCHEMAS, Rows, Tables, json_text
from memkit.formats.spelling import EXPIRES, plain
from memkit.formats.syntax.front_matter import parse_flat, scalar_pattern
from memkit.formats.syntax.values import iso_time_of
from memkit.schemas import TIMESTAMP

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
# Arrow casts what these patterns capture by the column, and one date that does not exist would spoil the whole column.
# So the pattern knows the calendar itself: which months have 30 days, and when there is a 29 February. Of the years
# that end in 00 it takes none to be a leap year: such a note is rare, does not match, and goes to the reader that
# takes one note at a time and asks Python's calendar.
_LEAP_DAY = "[12][0-9](?:0[48]|[2468][048]|[13579][26])-02-29"
_DAY = f"(?:[12][0-9]{{3}}-(?!02-29|02-3|0[469]-31|11-31)(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])|{_LEAP_DAY})"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-]0[0-9]:[0-5][0-9])?"
_MOMENT = f"{_DAY}(?:[T ]{_TIME})?"
_EXACT = {"id": _ID, "created_at": _MOMENT, "updated_at": _MOMENT, "occurred_at": _MOMENT}
_KEYS = frozenset((*_EXACT, "subject", "keywords", "applies_to", "content_hash"))
_CAPTURED = (*_EXACT, "subject", "keywords", "applies_to", "applies_kind", "applies_target", "content_hash")
_NEEDED = frozenset(("id", "subject", "keywords", "applies_to"))
_DATED = (frozenset(("created_at", "updated_at")), frozenset(("occurred_at",)))
"""The dates that a note has: these, or those of the later variant."""
_OPENED = re.compile(r"^([A-Za-z_][\w-]*):((?: \[| |\n *- )?[\"']?)", re.ASCII | re.MULTILINE)
_CLOSING = b"\n---\n"
_TO_NORMALISE = (b"---\r\n", codecs.BOM_UTF8)
_MAX_HEAD = 2**14
"""Bytes within which front matter ends: a log may have its first ``---`` at its very end."""
_MAX_LAYOUTS = 8
"""Of one batch: a folder without a layout must not have one compiled for every note."""
_MAX_KEYS = 32
MAX_SUBJECT, MAX_KEYWORDS, MAX_KEYWORD, MIN_BODY = 200, 20, 50, 10
"""Characters of a subject, keywords, characters of one, and characters of a text that make a sound note."""

Opened = tuple[tuple[str, str], ...]
"""The keys of front matter in their order, each with what opens its value: blanks, a bracket, a quote."""

File = tuple[str, Content]


class Layout:
    """Front matter as one tool writes it.

    Attributes
    ----------
    match : callable
        The match of a whole block, or None.
    groups : tuple of int
        The group of each of `_CAPTURED`; that of an absent key takes no part in a match.
    others : tuple of int
        The groups with the lines of the keys that have no column.
    joiner : str
        What stands between two keywords.
    id_first : bool
        Whether the id's line is known to be the second.
    """

    def __init__(self, opened: Opened) -> None:
        parts = [_key_pattern(number, key, opening) for number, (key, opening) in enumerate(opened)]
        pattern = re.compile(rf"---\n{''.join(parts)}---\n(?:(?!)(?P<absent>))?")
        known = pattern.groupindex
        self.match = pattern.fullmatch
        self.groups = tuple(known.get(name, known["absent"]) for name in _CAPTURED)
        self.others = tuple(group for name, group in known.items() if name.startswith("other"))
        self.joiner = _joiner(dict(opened)["keywords"])
        self.id_first = opened[0][0] == "id"


def _key_pattern(number: int, key: str, opening: str) -> str:
    if key not in _KEYS:
        return rf"(?P<other{number}>{key}:(?: .*)?\n(?:(?: |- ).*\n)*+)"
    quote = _quote(opening)
    closing = f"{quote}]" if "[" in opening else quote
    if key == "keywords":
        word = scalar_pattern(MAX_KEYWORD, quote, flow="[" in opening)
        joiner = re.escape(_joiner(opening))
        value = rf"(?P<keywords>{word}(?:{joiner}{word}){{0,{MAX_KEYWORDS - 1}}}+)"
    elif key == "applies_to":
        target = scalar_pattern(500, quote)
        value = rf"(?P<applies_to>global|(?P<applies_kind>file|area):(?P<applies_target>{target}))"
    else:
        value = rf"(?P<{key}>{_EXACT.get(key) or scalar_pattern(MAX_SUBJECT, quote)})"
    return rf"{key}:{re.escape(opening)}{value}{re.escape(closing)}\n"


def _quote(opening: str) -> str:
    return opening[-1] if opening[-1] in "\"'" else ""


def _joiner(opening: str) -> str:
    """What stands between the words of a list that opens so."""
    quote = _quote(opening)
    return f"{quote}, {quote}" if "[" in opening else quote + opening


@lru_cache(64)
def _layout(opened: Opened) -> Layout | None:
    """The layout with these keys and openings; None where notes that have it are not for the batch."""
    openings = dict(opened)
    is_whole = openings.keys() >= _NEEDED and any(openings.keys() >= dates for dates in _DATED)
    lists = {key for key, opening in opened if "[" in opening or "\n" in opening}
    has_values = all(openings[key].strip("\"'") for key in _KEYS & openings.keys())
    has_end = any(plain(key) in EXPIRES for key in openings)
    is_sound = not has_end and is_whole and has_values and lists == {"keywords"} and len(openings) == len(opened)
    return Layout(opened) if is_sound else None


def read_plain(files: Iterable[File]) -> tuple[Tables, list[File]]:
    """The tables of the plain notes among `files`, in their order, and the other files.

    Texts stay bytes until Arrow looks at them all at once.
    """
    rows, remaining = _find(files)
    text, dates = _Text([body for _, body, *_ in rows]), _dates(rows)
    if unusual := text.odd() | _backwards(dates):
        remaining += [rows[index][0] for index in sorted(unusual)]
        rows = [row for index, row in enumerate(rows) if index not in unusual]
        text, dates = _Text([body for _, body, *_ in rows]), _dates(rows)
    if not rows:
        return {}, remaining
    columns = _columns(rows, text, dates)
    tables = {name: _filled(values, RAW_SCHEMAS[name], len(rows)) for name, values in columns.items()}
    return tables | _misnamed(rows), remaining


def _dates(rows: list[_Row]) -> list[pa.Array]:
    """The time stamps of created_at, updated_at and occurred_at."""
    positions = [_CAPTURED.index(name) for name in ("created_at", "updated_at", "occurred_at")]
    return [_moments(tuple(values[place] for _, _, values, *_ in rows)) for place in positions]


def _backwards(dates: list[pa.Array]) -> set[int]:
    """The rows that were updated before they were created."""
    created, updated, _ = dates
    return set(np.flatnonzero(pc.fill_null(pc.less(updated, created), False).to_numpy(zero_copy_only=False)).tolist())


_Row = tuple[File, memoryview, tuple[str | None, ...], str, str, int, int, int]
"""A file, its body, the values of `_CAPTURED`, what joins the keywords, and `extra`.

Then the line of the id, the last line of the front matter, and how many lines the body has after its first.
"""


def _find(files: Iterable[File]) -> tuple[list[_Row], list[File]]:
    """What seem to be plain notes, and the other files."""
    rows: list[_Row] = []
    remaining: list[File] = []
    layouts: dict[Opened, Layout | None] = {}
    layout: Layout | None = None
    for file in files:
        data = file[1][1]
        head, end = _head(data)
        match = layout.match(head) if layout else None
        if layout is None or match is None:
            if data.startswith(_TO_NORMALISE):
                data = data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
                head, end = _head(data)
            new_layout = _layout_of(head, layouts)
            match = new_layout.match(head) if new_layout else None
            if new_layout is None or match is None:
                remaining.append(file)
                continue
            layout = new_layout
        extra = _extra(match.group(*layout.others)) if layout.others else "{}"
        if not extra:
            remaining.append(file)
            continue
        captured = match.group(*layout.groups)
        id_line = 2 if layout.id_first else head.count("\n", 0, match.start("id")) + 1
        more_lines = data.count(b"\n", end) - data.endswith(b"\n")
        body = memoryview(data)[end:]
        rows.append((file, body, captured, layout.joiner, extra, id_line, head.count("\n"), more_lines))
    return rows, remaining


def _head(data: bytes) -> tuple[str, int]:
    """The front matter, if there is any in UTF-8 and of a usual length, and where it ends."""
    end = data.find(_CLOSING, 4, _MAX_HEAD) + len(_CLOSING)
    try:
        return data[:end].decode(), end
    except UnicodeDecodeError:
        return "", end


def _layout_of(head: str, layouts: dict[Opened, Layout | None]) -> Layout | None:
    opened = tuple((key, opening if key in _KEYS else "") for key, opening in _OPENED.findall(head))
    if opened not in layouts and len(layouts) < _MAX_LAYOUTS and len(opened) <= _MAX_KEYS:
        layouts[opened] = _layout(opened)
    return layouts.get(opened)


def _extra(lines: tuple[str, ...] | str) -> str:
    """JSON of the fields on `lines`; "" where only YAML can tell."""
    fields = parse_flat("".join(lines).removesuffix("\n"))
    return json_text(fields) if fields is not None else ""


class _Text:
    """Texts in one piece, looked at all at once.

    Attributes
    ----------
    text : pyarrow.StringArray
    chars : numpy.ndarray or None
        Characters of each text without the whitespace around it; None where not all is UTF-8.
    """

    def __init__(self, bodies: list[memoryview]) -> None:
        self.bodies = bodies
        self.data = b"".join(bodies)
        self.ends = np.zeros(len(bodies) + 1, np.int32)
        np.cumsum([*map(len, bodies)], out=self.ends[1:])
        self.text = pa.StringArray.from_buffers(len(bodies), pa.py_buffer(self.ends), pa.py_buffer(self.data))
        try:
            self.text.validate(full=True)
            self.chars = pc.utf8_length(pc.utf8_trim_whitespace(self.text)).to_numpy()
        except pa.ArrowInvalid:
            self.chars = None

    def odd(self) -> set[int]:
        """The rows whose text some rule reports, or that is not to be kept as it stands."""
        unusual = set(self._holding(b"\r"))
        for mark in (b"`", b"~"):
            unusual |= {
                row for row in self._holding(mark) if fences(str(self.bodies[row], "utf-8", "replace")).unclosed
            }
        if self.chars is None:
            return unusual | {row for row, body in enumerate(self.bodies) if not _is_body(body)}
        return unusual.union(np.flatnonzero(self.chars < MIN_BODY).tolist())

    def _holding(self, mark: bytes) -> Iterator[int]:
        """The rows that hold `mark`."""
        position = self.data.find(mark)
        while position >= 0:
            row = int(np.searchsorted(self.ends, position, "right")) - 1
            yield row
            position = self.data.find(mark, self.ends[row + 1])


def _is_body(data: memoryview) -> bool:
    try:
        return len(str(data, "utf-8").strip()) >= MIN_BODY
    except UnicodeDecodeError:
        return False


def _misnamed(rows: list[_Row]) -> Tables:
    """The problems of notes whose file is not named by its id."""
    problems = Rows()
    for (path, _), _, (id, *_), _, _, line, _, _ in rows:
        if path[-40:-3] != f"/{id}" and path.rpartition("/")[2].rpartition(".")[0] != id:
            memory_id = f"notes:{path}#{id}"
            problems.problem("name_mismatch", path, "the file's name", id, line=line, field="id", memory_id=memory_id)
    return {"problems": problems.table("problems")} if problems.tables["problems"] else {}


def _columns(rows: list[_Row], text: _Text, dates: list[pa.Array]) -> dict[str, dict[str, object]]:
    """The values of each table's columns: an array of them, or one for all rows."""
    files, _, values, joiners, extras, id_lines, head_lines, more_lines = zip(*rows, strict=True)
    path = pa.array([path for path, _ in files])
    captured = dict(zip(_CAPTURED, zip(*values, strict=True), strict=True))
    words = ("id", "subject", "applies_to", "applies_kind", "applies_target", "content_hash")
    id, subject, scope, kind, target, content_hash = (pa.array(captured[name], pa.string()) for name in words)
    keywords = _split(captured["keywords"], joiners)
    created, updated, occurred = dates
    created, updated = pc.coalesce(created, occurred), pc.coalesce(updated, occurred, created)
    memory_id = pc.binary_join_element_wise("notes:", path, "#", id, "")
    first = pc.add(pa.array(head_lines), 1)
    last = pc.add(first, pa.array(more_lines))
    folders = pc.replace_substring(pc.replace_substring_regex(path, "/?[^/]*$", ""), "/", " / ")
    shared = {"memory_id": memory_id, "path": path, "heading_path": folders, "extra": pa.array(extras)}
    shared |= {"created_at": created, "updated_at": updated}
    memory = {"format": "notes", "kind": "note", "source_id": id, "scope": scope, "title": subject, "tags": keywords}
    note = {"id": id, "uuid_version": 4, "subject": subject, "keywords": keywords, "applies_to": scope}
    note |= {"applies_kind": pc.coalesce(kind, scope), "applies_target": target, "body_chars": pa.array(text.chars)}
    note |= {"occurred_at": occurred, "content_hash": content_hash}
    place = {"memory_id": memory_id, "path": path, "line": pa.array(id_lines)}
    return {
        "memories": {**shared, **memory, "text": text.text, "line_start": first, "line_end": last},
        "notes": shared | note,
        "_ids": place | {"field": "id", "group": "note", "id": id},
    }


def _split(joined: tuple[str, ...], joiners: tuple[str, ...]) -> pa.Array:
    if len(set(joiners)) == 1:
        return pc.split_pattern(pa.array(joined), joiners[0])
    return pa.array([words.split(joiner) for words, joiner in zip(joined, joiners, strict=True)])


def _moments(values: tuple[str | None, ...]) -> pa.Array:
    """Time stamps as the reader of one note has them: without a zone, UTC; a bare date is midnight."""
    raw = pa.array(values, pa.string())
    try:
        return raw.cast(TIMESTAMP)
    except pa.ArrowInvalid:
        return pa.array([None if value is None else iso_time_of(value) for value in values], TIMESTAMP)


def _filled(columns: dict[str, object], schema: pa.Schema, count: int) -> pa.Table:
    """A table of `schema`: a scalar stands for all rows, an absent column is null."""
    fields = [(columns.get(field.name), field.type) for field in schema]
    arrays = [one.cast(type) if isinstance(one, pa.Array) else _repeated(one, type, count) for one, type in fields]
    return pa.Table.from_arrays(arrays, schema=schema)


@lru_cache(256)
def _repeated(value: object, type: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, type), count)
