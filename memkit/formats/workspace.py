"""Workspaces: MEMORY.md, HEARTBEAT.md, daily logs, session transcripts, and any Markdown that no other format claims.

A memory is a section: a heading outside of code fences to the next one, or the text before the first. Its text is
exactly its lines. A heading with nothing below it but a deeper heading is not a memory: it begins the section of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from functools import cached_property, lru_cache
from heapq import merge
from itertools import chain, islice, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.dates import (
    SEVERAL_ZONES,
    dated,
    day_in,
    in_digits,
    midnight,
    named_clock,
    named_day,
    told,
    whole_moment,
)
from memkit.base.fences import Fences, Heading, headings, is_heading, marks, underlined_in
from memkit.formats.disk.source import Source
from memkit.formats.fields import TIME
from memkit.formats.format import MARKDOWN, PAGE, File, Format, Owner, Role
from memkit.formats.rows import Row, Rows, Rule, Tables, extra_of, hash_of, heading_path, shown, slug_of
from memkit.formats.spelling import (
    CREATED,
    END,
    EXPIRES,
    LENGTHS,
    TAGS,
    TITLES,
    UPDATED,
    day_of,
    end_by,
    end_in,
    first_of,
    linked_in,
    loose_words,
    measures_in,
    names_somebody,
    plain,
    states_date,
    status_in,
    text_of,
    time_of,
    unread_measures,
)
from memkit.formats.syntax.nodes import Node
from memkit.formats.syntax.speech import CLOCK, KNOWN, Turn, clock_of, turn_of, turns_in, unescaped

DREAM = "dream"
"""The kind of such a report."""
_NAME = "DREAMS.md"
_PLACE = re.compile(r"(?:^|/)memory/dreaming/|(?:^|/)dreaming/(?:[^/]+/)?\d{4}-\d{2}-\d{2}[^/]*$", re.IGNORECASE)
"""The host's folder; where the memory itself is the root, only its dated reports."""
_PHASES = frozenset(("light sleep", "rem sleep"))
"""Headings that a host writes into a day's log above what it dreamt."""


def is_dream(source: Source) -> bool:
    """Whether a file is such a report as a whole, by its name and place.

    >>> paths = ("DREAMS.md", "memory/dreaming/rem/a.md", "dreaming/light/2026-07-03.md", "dreams.md", "dreaming/a.md")
    >>> [is_dream(Source(path, "")) for path in paths]
    [True, True, True, False, False]
    """
    return source.name == _NAME or ("dream" in source.path.lower() and _PLACE.search(source.path) is not None)


def is_phase(headings: Iterable[str]) -> bool:
    """Whether one of the headings of a section, its own and those above it, names a phase of sleep.

    >>> is_phase(["2026-07-03", "Light Sleep"]), is_phase(["REM Sleep", "Темы"]), is_phase(["Light Sleep Study"])
    (True, True, False)
    """
    folded = map(str.casefold, headings)
    return any("sleep" in heading and " ".join(heading.split()) in _PHASES for heading in folded)


T = TypeVar("T")
_DIGIT = re.compile(r"\d")
_HEADING_DAY = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})")
"""A time in a heading that names its zone."""
_CLOCK = re.compile(r"\d:\d\d|\d\s?(?:[ap]\.?m\b|o.clock|утра|вечера|ночи|час)", re.IGNORECASE)
_DATE_FOLDER = re.compile(r"\d{4}(?:-\d{2}){0,2}|\d{2}")
# A log a year away from both neighbours has a slip in its year.
_PLAUSIBLE, _FIRST_DAY = 366, date(1970, 1, 1).toordinal()
_LOGS = ("daily_log", "log")
_DAYS = ("daily_log", DREAM)
"""The kinds of files that are named for a day."""
# Of two logs nobody can say which is the odd one.
_MIN_LOGS = 3
_ENTRY = re.compile(
    rf"(?:[-*+][ \t]+)?(?:\*\*)?\[?({CLOCK})(?:Z|\+\d\d:?\d\d)?\]?(?:\*\*)?(?=[ \t:,.—–-])[ \t:,.—–-]*+\S",
    re.IGNORECASE,
)
"""A line of a log that opens with its time."""
_IN_ZONE = re.compile(
    rf"{CLOCK}(?:[ \t]?(?P<zone>Z|(?:UTC|GMT)(?:[+-]\d{{1,2}})?|\+\d\d:?\d\d|[A-ZА-ЯЁ]{{3,4}})(?![\w:+-]))?"
)
"""A time of day and the zone after it; what follows a minus is the end of a span."""
_TIMED = re.compile(rf"\[?{CLOCK}(?!\w)", re.IGNORECASE)
# How a heading opens that may have a time that no colon divides: 9.30, 9 am, 0930 UTC; a day, 2026-01-20, is none.
_BARE_CLOCK = re.compile(
    r"(?i)(?:(?:at|в) )?(?:\d{1,2}(?:[-+._hч]\d|\s{0,3}[ap]\.?m|Z|\Z)|(?:\d\d){2,3}(?!\d|[-./]\d\d?(?!\d)))"
)
_MOMENT = (
    r"\[((?:[^\W\d_]{2,11}[.,]{0,2}[ ])?(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{1,2}[ ][^\W\d_]{3,9}[ ]\d{4}(?:[ ]г\.?)?"
    r"|[^\W\d_]{3,9}[ ]\d{1,2},?[ ]\d{4})(?:T|,?[ ])\d{1,2}:\d{2}(?![\d-])"
    r"[^\[\]\n]{0,24})\]"
)
_HAS_MOMENT = re.compile(_MOMENT)
_BRACKETED = re.compile(rf"[ ]{{0,3}}(?:[-*+][ \t]{{1,4}})?(?:\*\*)?{_MOMENT}(?![(\[:])(?:\*\*)?[ \t:,.—–-]*+\S")
"""A line that opens with a day and a time in brackets, as an entry of a log does; a link is none."""
_CLOCKED = re.compile(rf"[ ]{{0,3}}(?:[-*+][ \t]{{1,4}})?(?:\*\*)?\[({CLOCK})\](?![(\[:])", re.IGNORECASE)
"""A line that opens with a time in brackets."""
_NO_DAY = Rule("bad_date", "workspace", "", "a real date in the file's name")
_UNREAD_DATE = Rule(TIME.code, "workspace", "created", TIME.expected)
_UNREAD_END = Rule(TIME.code, "workspace", "expires_at", END)
_UNFILLED = Rule("unknown_placeholder", "workspace", "created", "a date where a template has a mark for one")
_NO_WHOLE_DAY = Rule("bad_value", "workspace", "created", TIME.expected)
OF_DATES = (_UNREAD_DATE, _UNREAD_END, _UNFILLED, _NO_WHOLE_DAY)
"""The checks of dates in front matter, which all Markdown shares."""
_A_YEAR = ("2000",)
"""One that has each day that any year has."""
_PLACEHOLDER = re.compile(r"\{\{|\$\{|<%|<\w[^<>]*>|%\w+%|\{\w+\}|[YyГг]{4}")
"""What stands in a template where a date will: ``{{date}}``, ``<% … %>``, ``YYYY-MM-DD``."""
_YEAR_OR_MONTH = re.compile(r"[12]\d{3}(?:-(?:0[1-9]|1[0-2]))?")
_NO_DAY_ABOVE = Rule("bad_date", "workspace", "", "a real date in the heading of a log")
_NO_TIME = Rule("bad_date", "workspace", "", "a time that exists, in a zone of one meaning")
_FENCE = Rule("unbalanced_fence", "workspace", "", "a code fence that is closed")
_DRAWING = re.compile(
    r"[ ]{0,3}(?:`{3,}+|~{3,}+)[ \t]*+(?:compressed-json\b|json[ \t]++!!!_START_OF_TLDRAW_DATA"
    r"|json\s++\{\s*+\"type\":\s*+\"excalidraw\")"
)
"""How the data of a drawing begin, of Excalidraw and tldraw."""
_SAYS = re.compile(r"[^\s%]")
_DATES, _ENDS = frozenset((*CREATED, *UPDATED)), frozenset(EXPIRES)
_NOBODY = Turn("", None, "")
_Upper = tuple[Heading, datetime | None, time | None]
"""A heading with the day and the time that it names."""
_NO_UPPER: _Upper = Heading(0, 0, ""), None, None
_Told = tuple[datetime | None, time | None, str | None]
"""The day and the time of a section, and what the day is from."""
# A round bound: a file of 64 MB may have 30 million headings.
_FEW = 1_000
"""The most headings of a file that are kept while it is read: a line may be a single sign."""
_OPENING = 1_000  # characters of an entry in which its time is looked for: a line may be a file, and is cached
OF_ENTRY = 7
"""The level of such a line: below every heading, as the day's title may stand over it."""


class Section(NamedTuple):
    """What will be one memory: its heading, its lines, whether the heading is all it says, the headings over it, and
    what the heading has for a time and is none.
    """

    ordinal: int
    heading: Heading
    lines: range
    is_bare: bool
    above: list[str]
    unread: str | None


class _Said(NamedTuple):
    """What a heading says by itself, whatever stands around it.

    Attributes
    ----------
    digits : str
        Its text with times as digits.
    slug : str
    is_phase : bool
        Whether it is the name of a phase of sleep.
    clock, usual : time or None
        The time after its day, and the first time of day.
    opening : str or None
        What it opens with, where that looks like a time.
    unread : str or None
        What stands after its day as a time and is none.
    day : datetime or None
        The day that it names in full.
    lacks_year : bool
        Whether it names a day without its year.
    no_day : str or None
        What it has for a day that does not exist.
    has_zone, is_bare_clock : bool
        Whether a time may have a zone; whether it may open with a time that no colon divides.
    """

    digits: str
    slug: str
    is_phase: bool
    clock: time | None = None
    usual: time | None = None
    opening: str | None = None
    unread: str | None = None
    day: datetime | None = None
    lacks_year: bool = False
    no_day: str | None = None
    has_zone: bool = False
    is_bare_clock: bool = False


# A round bound: headings recur, as those of logs are times, and each is asked for all of this.
@lru_cache(2048)
def _said_by(heading: str) -> _Said:
    """What a heading says by itself."""
    digits, slug, in_sleep = in_digits(heading), slug_of(heading), is_phase((heading,))
    if not _DIGIT.search(digits):
        return _Said(digits, slug, in_sleep)
    written = _HEADING_DAY.search(heading)
    day = day_of(written[1]) if written else None
    no_day = written[1] if written and day is None else None
    if written and written[0] == heading:  # as most logs begin
        return _Said(digits, slug, in_sleep, day=day, no_day=no_day)
    if moment := whole_moment(heading):
        day = midnight(moment.date())
    elif not written and (named := day_in(heading)):
        day = midnight(named.day)
    short = day is None and not written and day_in(heading, _A_YEAR) is not None
    (clock, unread), usual = named_clock(digits), clock_of(digits)
    opening, is_bare = _TIMED.match(digits), _BARE_CLOCK.match(digits) is not None
    first = _IN_ZONE.search(digits) if ":" in digits else None
    has_zone = first is not None and (first["zone"] is not None or _INSTANT.search(digits) is not None)
    begin = opening[0] if opening else None
    return _Said(digits, slug, in_sleep, clock, usual, begin, unread, day, short, no_day, has_zone, is_bare)


def moment_of(value: object) -> datetime | None:
    """The moment in a field of front matter: a time stamp, else the day that its text, or the link there, names.

    >>> str(moment_of("2026-01-20T10:00:00Z")), str(moment_of("[[дни/20.01.2026|вт]]")), moment_of("вчера")
    ('2026-01-20 10:00:00', '2026-01-20 00:00:00', None)
    """
    if moment := time_of(value):
        return moment
    text = linked_in(value) or ""
    named = day_in(text)
    if named is None or _CLOCK.search(text[: named.start]) or _CLOCK.search(text[named.end :]):
        return None  # a time of a form that nobody knows is not midnight
    return midnight(named.day)


_SPECIAL = {"memory": "long_term", "heartbeat": "heartbeat"}


def kind_of(source: Source) -> str:
    """long_term, heartbeat, dream, session, daily_log or document, by name and place."""
    special = _SPECIAL.get(source.stem.lower())
    if special:
        return special
    if is_dream(source):
        return DREAM
    if "sessions/" in source.path.lower() and "sessions" in map(str.lower, source.parents):
        return "session"
    return "daily_log" if dated(source.stem) else "document"


def parse(file: File, rows: Rows) -> None:
    """One file's sections to its rows."""
    source, reader = file.source, Sections(file, rows)
    reader.read()
    if reader.kind == "document" and file.role == Role():
        got = "none, so it is read as plain Markdown"
        rows.problem("unclaimed", source.path, "a file of a known format", got, quote=False)
    if file.front and (fault := file.front.fault):
        rows.problem(
            "unparsable", source.path, f"front matter in {file.front.syntax}", str(fault), line=fault.line, quote=False
        )


class Sections:
    """The sections of one Markdown file, read from the top; nothing is kept of a line or a section, as a line may be a
    single sign. A layout of Markdown pages is a subclass that says what its pages add.

    Attributes
    ----------
    kind : str
        The kind of its memories.
    above : int
        Lines of the front matter.
    created, updated : datetime or None
        What the front matter says of sections whose date neither their heading nor the log's name tells.
    named : datetime or None
        The day in the name of a file that is no log, for sections that nothing else dates.
    first : str
        The id of the first section.
    turn : int
        How many turns there were so far.
    is_hollow : bool
        Whether a layout reports the file as one without text, so that its bare headings are none of their own.
    talks : bool
        Whether it is a transcript, by its place or by who speaks in it.
    is_bracketed : bool
        Whether it is a log whose entries open with their day and time in brackets.
    """

    created: datetime | None = None
    updated: datetime | None = None
    expires: datetime | None = None
    status: str | None = None
    measures: Mapping[str, Any] = {}
    places: Sequence[Node] = ()
    fields: Sequence[Mapping[str, Any]] = ()

    def __init__(self, file: File, rows: Rows, kind: str = "") -> None:
        self.source, self.front, self.rows, self.zone = file.source, file.front, rows, file.zone
        source, front = self.source, self.front
        self.kind = kind or kind_of(source)
        self.dated = dated(source.stem) if self.kind in (*_DAYS, "session") else None
        self.unread_zones = set[str]()
        named = None if self.dated else named_day(source.stem)
        self.named = _from_zone(named, self.zone) if named and named.timetz() != time() else named
        self.above = front.body_line - 1 if front else 0
        self.body = source.text[front.body_at :] if front else source.text
        self.code, self.marked = self.marks_in(self.body)
        if front:
            self.read_front(front.fields)
        self.begins = self.updated or (self.dated.day if self.dated else self.named)
        if front:
            self.expires = end_in(self.fields, self.begins)
        self.first, self.turn, self.is_hollow = "", 0, False
        self.talks = self.kind == "session" or (self.kind in _DAYS and self._is_transcript())
        self._headings = self._listed()
        self.is_bracketed = not self.talks and self._is_bracketed()
        if self.is_bracketed and self.kind == "document":
            self.kind = "daily_log"

    def read_front(self, fields: Node) -> None:
        """What the front matter says of the whole file."""
        inner = [fields.get(name) for name in ("metadata", "temporal", "taxonomies")]
        self.places = [fields, *(place for place in inner if isinstance(place, Node))]
        self.fields = [{plain(key): value for key, value in place.items()} for place in self.places]
        self.created = self.in_front(CREATED, moment_of)
        self.updated = self.in_front(UPDATED, moment_of) or self.created
        self.measures, self.status = measures_in(self.fields), status_in(self.fields)

    def unread_dates(self, name: str, value: object) -> Iterator[object]:
        """What a field of the front matter, by its plain name, says in place of a date that can be read."""
        if name in _DATES and moment_of(value) is None:
            yield value
        if name in _ENDS and end_by(name, value, self.begins) is None:
            yield value

    def _check_front(self) -> None:
        """Report each date and measure of the front matter that cannot be read, and what a template has for a date."""
        for node in self.places:
            for key, value in node.items():
                for written in filter(states_date, self.unread_dates(plain(key), value)):
                    self.unread_date(key, written, node.lines.get(key), self.first)
            for key, value, rule in unread_measures(node):
                where: dict[str, Any] = {"line": node.lines.get(key), "field": key, "memory_id": self.first or None}
                self.rows.problem(rule.code, self.source.path, rule.expected, value, **where)

    def unread_date(self, key: str, written: object, line: int | None, memory_id: str) -> None:
        """Report what stands in place of a date that can be read."""
        if line and not isinstance(written, str):  # in YAML ``{{date}}`` is an object
            written = self.source.lines[line - 1].partition(":")[2].strip() or written
        usual = _UNREAD_END if plain(key) in EXPIRES else _UNREAD_DATE
        rule, got, advice = usual, shown(written), None
        if isinstance(written, str) and _PLACEHOLDER.search(written):
            rule, got = _UNFILLED, f"{got}, as a template has it: write the date, if the page is none"
        elif isinstance(written, str) and (_YEAR_OR_MONTH.fullmatch(written) or names_somebody(written)):
            rule, got = _NO_WHOLE_DAY, f"{got}, which names no day and stays null"
        elif isinstance(written, str) and SEVERAL_ZONES & {*written.casefold().split()}:
            got, advice = f"{got}, in a zone of several meanings", "Write it as an offset, +08:00."
        elif plain(key) in LENGTHS:
            advice = "Write a unit, as in 14d. It counts from the day when the memory was made or changed: write that."
        where: dict[str, Any] = {"line": line, "field": key, "memory_id": memory_id or None, "advice": advice}
        self.rows.problem(rule.code, self.source.path, usual.expected, got, quote=False, **where)

    def marks_in(self, body: str) -> tuple[Fences, list[Heading] | None]:
        """The code fences of the text below the front matter, and its headings, save underlined ones and if few."""
        return marks(body, self.above, _FEW)

    def in_front(self, names: Iterable[str], read: Callable[[Any], T | None]) -> T | None:
        """What `read` makes of the first field of the front matter among `names` that it can read."""
        return first_of(self.fields, names, read)

    def _is_transcript(self) -> bool:
        """Whether in a log somebody speaks: one of the usual roles where its name has a time, else two of them."""
        needed, roles = 1 if self.dated and self.dated.time else 2, set()
        for number, turn in turns_in(self.source.text, KNOWN):
            if number - self.above not in self.code:
                roles.add(turn.role.casefold())
                if len(roles) >= needed:
                    return True
        return False

    def _is_bracketed(self) -> bool:
        """Whether half of the paragraphs open with a moment in brackets, and nobody of the usual roles speaks."""
        if not _HAS_MOMENT.search(self.body):
            return False
        if self.dated is not None and any(mark.level == OF_ENTRY for mark in self._with_entries()):
            return False  # a day's log of lines that open with their time
        n_paragraphs, n_bracketed, is_within = 0, 0, False
        for _, line in self.text_lines(range(self.above + 1, len(self.source.lines) + 1)):
            if not line.strip() or is_heading(line):
                is_within = False
            elif not is_within:
                is_within = True
                n_paragraphs += 1
                n_bracketed += _BRACKETED.match(line) is not None
        return 0 < n_paragraphs <= 2 * n_bracketed and not self._is_transcript()

    def _no_time(self, written: str | None, line: int | None = None, memory_id: str | None = None) -> None:
        where: dict[str, Any] = {"line": line, "memory_id": memory_id or self.first, "advice": ""}  # that is of days
        self.rows.problem(_NO_TIME.code, self.source.path, _NO_TIME.expected, written, **where)

    def problem(
        self, rule: str, expected: str, got: object, line: int | None = None, memory_id: str | None = None
    ) -> None:
        self.rows.problem(rule, self.source.path, expected, got, line=line, memory_id=memory_id or self.first)

    def read(self) -> None:
        """Add the rows of the file, and the problems that any Markdown may have."""
        self._sections()
        self._check_front()
        is_log = self.is_bracketed or (self.kind in _LOGS and not self.talks)
        for line, written, moment in self._in_brackets() if is_log else ():
            if moment is None:
                self._no_time(written, line)
        if self.dated and self.dated.day is None:
            self.problem(_NO_DAY.code, _NO_DAY.expected, self.dated.written)
        if unread := named_clock(self.source.stem)[1]:
            self._no_time(unread)
        if not self.source.text.strip():
            self.problem("empty_text", "a file with text", "nothing")

    def head(self) -> int:
        """Add what stands in front of the sections as rows of its own; the number of these rows."""
        return 0

    def kind_in(self, section: Section) -> str:
        """The kind of a section: in a day's log, what a host dreamt is one of its own."""
        names = (*section.above, section.heading.text) if self.kind == "daily_log" else ()
        return DREAM if any(map(attrgetter("is_phase"), map(_said_by, names))) else self.kind

    def columns(self, section: Section) -> Row:
        """The columns of a section's memory that are from the whole file."""
        row: Row = {**self.measures, "heading_path": heading_path(self.source.path, *section.above)}
        if self.front:
            row |= {"status": self.status, "expires_at": self.expires}
        if self.front and not section.ordinal:
            front = self.front.fields
            row |= {"tags": self.in_front(TAGS, loose_words) or [], "extra": extra_of(front, ())}
        return row

    def beside(self, section: Section, memory_id: str) -> None:
        """Add what a layout has beside the memory of a section, whose rows were just added."""

    def _sections(self) -> None:
        """Each heading with its text; one without, that a deeper one follows, begins the section of that."""
        after = Heading(len(self.source.lines) + 1, 0, "")
        over: list[_Upper] = []
        begin, ordinal = 0, self.head()
        for heading, following in pairwise(chain(self.headings(), [after])):
            while over and over[-1][0].level >= heading.level:
                over.pop()
            above = [upper.text for upper, _, _ in over]
            clock, unread = self._clock_in(heading)
            is_name = not heading.level and heading.text == self.source.stem  # which dates nothing
            upper = heading, None if is_name else self._day_in(heading.text, above), clock
            lines = range(begin or heading.line, following.line)
            is_bare = 0 < heading.level < OF_ENTRY and self._is_bare(heading, following.line)
            if is_bare and following.level > heading.level:
                begin = lines.start
            else:
                begin = 0
                if self.code.closed:
                    lines = self._without_drawing(lines, heading)
                if lines:
                    self._section(Section(ordinal, heading, lines, is_bare, above, unread), self._moment(upper, over))
                    ordinal += 1
            if heading.level > 0:
                over.append(upper)

    def _without_drawing(self, lines: range, heading: Heading) -> range:
        """The lines of a section up to the data of a drawing that ends it; none where these are all that it says."""
        drawing = next((one for one in self._drawings if one.start in lines), None)
        if drawing is None or any(map(_SAYS.search, self._lines(range(drawing.stop, lines.stop)))):
            return lines
        got = f"the data of a drawing, {sum(map(len, self._lines(drawing)))} characters"
        self.rows.problem("unclaimed", self.source.path, "text", got, quote=False)
        kept = range(lines.start, drawing.start)
        begin = heading.line + 1 if heading.level else lines.start
        return kept if any(map(_SAYS.search, self._lines(range(begin, drawing.start)))) else range(0)

    @cached_property
    def _drawings(self) -> list[range]:
        """The code fences that hold a drawing as a program keeps it, by their lines in the file."""
        placed = [range(one.start + self.above, one.stop + self.above) for one in self.code.closed]
        return [one for one in placed if _DRAWING.match("\n".join(self._lines(one[:4])))]

    def _is_bare(self, heading: Heading, end: int) -> bool:
        """Whether a heading is all that its lines say, up to the line `end`."""
        lines, n_left = self.source.lines, 1 + heading.is_underlined
        for place in range(heading.line - 1, end - 1):
            if lines[place].strip():
                n_left -= 1
                if n_left < 0:
                    return False
        return True

    def headings(self) -> Iterator[Heading]:
        """The headings by their line in the file, or the entries of a log; what stands above the first is one too."""
        headings = self.marks()
        first = next(headings, None)
        lines_above = self.source.lines[: first.line - 1] if first else []
        if first is None or "".join(lines_above).strip():
            yield Heading(1, 0, self.in_front(TITLES, text_of) or "")
        elif lines_above:
            first = first._replace(line=1)  # blank lines before the first heading belong to it
        if first:
            yield first
        yield from headings

    def marks(self) -> Iterator[Heading]:
        """The headings of the body, or the entries of a log."""
        if self.is_bracketed:
            entries = (Heading(line, OF_ENTRY, written) for line, written, moment in self._in_brackets() if moment)
            return merge(self._of_body(), entries, key=attrgetter("line"))
        return self._with_entries() if self.kind in _DAYS and not self.talks else self._of_body()

    def _of_body(self) -> Iterator[Heading]:
        """The headings of the body, which are asked for several times; of many none is kept."""
        if self._headings is not None:
            return iter(self._headings)
        return headings(self.body, self.code, underlined=not self.talks, above=self.above)

    def _listed(self) -> list[Heading] | None:
        """The headings of the body, in a transcript without those that a line underlines; None of many."""
        if self.marked is None or self.talks:
            return self.marked
        under = [*islice(underlined_in(self.body, self.code, self.above), _FEW + 1)]
        if len(under) > _FEW:
            return None
        return sorted([*self.marked, *under], key=attrgetter("line")) if under else self.marked

    @cached_property
    def _marked_slugs(self) -> set[str]:
        """What the ids of other sections are made of, which an underlined heading leaves to them."""
        return {"top", *(slug_of(heading.text) for heading in headings(self.body, self.code, underlined=False))}

    def _with_entries(self) -> Iterator[Heading]:
        """The headings of a log, and its lines that open with their time, where nothing but its title stands over them.

        So they are entries whether or not more of them, with headings of their own, were appended below.
        """
        headings = self._of_body()
        title = next(headings, None)
        ahead = [title] if title and self._is_title(title) else []
        second = next(headings, None) if ahead else title
        yield from ahead
        if all(map(_is_timed, islice(self._of_body(), len(ahead), None))):
            begin = ahead[0].line if ahead else self.above
            yield from self._entries(begin + 1, second.line if second else None)
        yield from chain([second] if second else (), headings)

    def _is_title(self, heading: Heading) -> bool:
        """Whether nothing stands above a heading of a log, and it has no time."""
        lines_above = self.source.lines[self.above : heading.line - 1]
        return self.dated is not None and not any(map(str.strip, lines_above)) and not _is_timed(heading)

    def _entries(self, begin: int, end: int | None) -> Iterator[Heading]:
        """The lines of a log that open with their time, as if each were a heading."""
        for number, line in self.text_lines(range(begin, end or len(self.source.lines) + 1)):
            if ":" in line and (match := _ENTRY.match(line)) and clock_of(match.group(1)):
                yield Heading(number, OF_ENTRY, match.group(1))

    def _in_brackets(self) -> Iterator[tuple[int, str, datetime | time | None]]:
        """Where an entry of a log opens in brackets, with its moment as it is written, and as it can be read."""
        opens, read = (_BRACKETED, self._moment_in) if self.is_bracketed else (_CLOCKED, clock_of)
        lines = range(self.above + 1, len(self.source.lines) + 1) if "[" in self.body else range(1, 1)
        for number, line in self.text_lines(lines):
            if "[" in line and (match := opens.match(line)):
                yield number, match[1], read(match[1])

    def _moment_in(self, written: str) -> datetime | None:
        """A day and a time as a naive moment in UTC: in the zone that they name, or else in that of the reading."""
        found = told(written)
        if found is None or found.days:
            return None
        return found.moment if found.zone else _from_zone(found.moment, self.zone)

    def _moment_in_zone(self, heading: Heading, day: datetime | None) -> datetime | None:
        """The time in a heading, or with which an entry opens, where it names its zone; in UTC."""
        is_entry = heading.level == OF_ENTRY
        if not is_entry and not _said_by(heading.text).has_zone:
            return None
        line = in_digits(self.source.lines[heading.line - 1][:_OPENING] if is_entry else heading.text)
        first = _IN_ZONE.search(line)
        instant = (_INSTANT.match(line, first.start()) if first else None) if is_entry else _INSTANT.search(line)
        if instant:
            return time_of(instant[0])
        if first is None or first["zone"] is None or day is None:
            return None
        written = f"{day:%Y-%m-%d} {clock_of(line)} {first['zone']}"
        found = told(written)
        zone = first["zone"].casefold()
        is_zone = zone in SEVERAL_ZONES or line.startswith("]", first.end())
        if found is None and is_zone and zone not in self.unread_zones:  # one row a file
            self.unread_zones.add(zone)
            self._no_time(first[0], heading.line)
        return found.moment if found and found.zone else None

    def _section(self, section: Section, told: _Told) -> None:
        path, heading, lines, kind = self.source.path, section.heading, section.lines, self.kind_in(section)
        text, (day, clock, source) = "\n".join(self._lines(lines)), told
        moment = self._moment_in(heading.text) if self.is_bracketed and heading.level == OF_ENTRY else None
        moment = moment or self._moment_in_zone(heading, day) or _in_utc(day, clock, self.zone)
        if source == "name" and day and clock is None and self.created and self.created.date() == day.date():
            moment, source = self.created, None  # the head has the time of that day
        slug = _said_by(heading.text).slug if heading.level else "top"
        if heading.is_underlined and slug in self._marked_slugs:
            slug = f"{slug}~{hash_of(text)}"
        memory_id = self.rows.new_id("workspace", path, slug, text)
        self.first = self.first or memory_id
        first, last = lines.start, lines.stop - 1
        place: Row = {"memory_id": memory_id, "path": path, "kind": kind, "line_start": first, "line_end": last}
        memory: Row = {**place, "format": "workspace", "title": heading.text, "text": text, "date_source": source}
        memory |= {"created_at": moment or self.created, "updated_at": moment or self.updated, **self.columns(section)}
        self.rows.add("memories", memory)
        said = {"heading": heading.text if 0 < heading.level < OF_ENTRY else None, "level": heading.level % OF_ENTRY}
        document = {**place, **said, "date": day.date() if day else None, "slug": self.dated and self.dated.slug}
        document |= {"time": clock and f"{clock.hour:02}:{clock.minute:02}"}
        self.rows.add("documents", {**document, "ordinal": section.ordinal, "chars": len(text)})
        self._check(section, memory_id)
        self.beside(section, memory_id)
        if self.talks:
            self._turns(section, memory_id)

    def _lines(self, lines: range) -> list[str]:
        return self.source.lines[lines.start - 1 : lines.stop - 1]

    def _check(self, section: Section, memory_id: str) -> None:
        heading = section.heading
        if self.kind in _LOGS and (written := _said_by(heading.text).no_day):
            self.problem(_NO_DAY_ABOVE.code, _NO_DAY_ABOVE.expected, written, heading.line, memory_id)
        if section.unread and 0 < heading.level < OF_ENTRY:
            self._no_time(section.unread, heading.line, memory_id)
        if section.is_bare and not self.is_hollow:
            self.problem("empty_section", "text below the heading", heading.text, heading.line, memory_id)
        if self.code.unclosed and self.code.unclosed + self.above in section.lines:
            line = self.code.unclosed + self.above
            self.problem(_FENCE.code, _FENCE.expected, "no end", line, memory_id)

    def _clock_in(self, opening: Heading) -> tuple[time | None, str | None]:
        """The time that a heading tells, and what it has for one that is none.

        In a day's log it may open with a time without colon, 9.30, which is read as what stands behind that day.
        """
        if opening.level == OF_ENTRY and not self.is_bracketed:
            return clock_of(in_digits(self.source.lines[opening.line - 1][:_OPENING])), None
        said = _said_by(opening.text)
        clock, unread = said.clock, said.unread
        if said.usual:
            return clock or said.usual, None
        if self.dated and said.is_bare_clock:
            on_its_day = named_clock(f"{self.dated.written} {said.digits[0].lower()}{said.digits[1:]}")
            clock, unread = clock or on_its_day[0], unread or on_its_day[1]
        return clock, (said.opening if self.kind in _LOGS else None) or unread

    def _moment(self, own: _Upper, over: list[_Upper]) -> _Told:
        """The section's day, the heading's time where it has one, and what the day is from: the nearest that tells it.

        A heading dates what is below it too, save in a transcript; the first one of a page with dates of its own does
        not, as it may name any day.
        """
        _, day, clock = own
        if day is None and self.kind != "session":
            is_dated = bool(self.created or self.updated) and self.kind not in _LOGS
            _, day, time_above = next((upper for upper in reversed(over[is_dated:]) if upper[1]), _NO_UPPER)
            day = None if self.dated and day == self.dated.day else day
            clock = clock or (time_above if day else None)
        if day:
            return day, clock, "heading"
        if self.dated:
            return self.dated.day, clock or self.dated.time, "name" if self.dated.day else None
        day = None if self.created or self.updated else self.named
        return day, clock, "name" if day else None

    def _day_in(self, heading: str, above: list[str]) -> datetime | None:
        """The day that a heading names; without its year it has that of the headings above, the file or its folder."""
        said = _said_by(heading)
        if not said.lacks_year:
            return said.day
        named = day_in(heading, chain(reversed(above), (self.source.stem,), reversed(self.source.parents)))
        return midnight(named.day) if named else None

    def _turns(self, section: Section, memory_id: str) -> None:
        """Speech turns outside of code fences: each runs to the next one or to a heading."""
        roles, lines = None if self.kind == "session" else KNOWN, self.text_lines(section.lines)
        turns = ((number, turn) for number, line in lines if (turn := turn_of(line, roles)))
        for (begin, turn), (end, _) in pairwise(chain(turns, [(section.lines.stop, _NOBODY)])):
            self._turn(memory_id, range(begin, end), turn)

    def text_lines(self, lines: range) -> Iterator[tuple[int, str]]:
        """Those of `lines` that are not code, by number."""
        texts = enumerate(self._lines(lines), lines.start)
        if not self.code.closed:
            return texts
        return ((number, line) for number, line in texts if number - self.above not in self.code)

    def _turn(self, memory_id: str, lines: range, turn: Turn) -> None:
        written_day = _HEADING_DAY.match(turn.time or "")
        day, clock = self.dated.day if self.dated else None, clock_of(turn.time or "")
        day = day_of(written_day.group(1)) if written_day else day
        below = self.source.lines[lines.start : lines.stop - 1]
        while below and not below[-1].strip():
            below.pop()
        row: Row = {"memory_id": memory_id, "path": self.source.path, "ordinal": self.turn}
        row |= {"line_start": lines.start, "line_end": lines.start + len(below)}
        is_code = (number - self.above in self.code for number in range(lines.start + 1, lines.stop))
        lines_below = unescaped(below, islice(is_code, len(below)))
        begin = 0 if turn.text else next((clock for clock, line in enumerate(below) if line.strip()), 0)
        text = "\n".join([turn.text, *lines_below] if turn.text else lines_below[begin:])
        row |= {"said_at": _in_utc(day, clock, self.zone) if clock else None, "time": turn.time}
        self.rows.add("turns", {**row, "role": turn.role, "text": text})
        self.turn += 1


def _is_timed(heading: Heading) -> bool:
    """Whether a heading opens with a time, as those do that entries are appended with."""
    return _said_by(heading.text).opening is not None


def _in_utc(day: datetime | None, clock: time | None, zone: tzinfo) -> datetime | None:
    """A time of a day in `zone` as a naive moment in UTC; a day alone is its midnight, whatever the zone."""
    return day if day is None or clock is None else _from_zone(datetime.combine(day, clock), zone)


def _from_zone(local: datetime, zone: tzinfo) -> datetime:
    """A moment in the zone that it names, or else in `zone`, as a naive one in UTC."""
    try:
        if local.tzinfo is None and zone is UTC:
            return local
        return local.replace(tzinfo=local.tzinfo or zone).astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # the first or last day that Python knows
        return local.replace(tzinfo=None)


def _check(tables: Tables, rows: Rows) -> None:
    """Logs whose date lies far from all others of their folder."""
    documents = tables["documents"]
    is_log = pc.is_in(documents["kind"], value_set=pa.array(["daily_log", "session"]))
    dated = documents.select(["path", "date", "memory_id"]).filter(pc.and_(is_log, pc.is_valid(documents["date"])))
    dated = dated.set_column(1, "date", dated["date"].cast(pa.int32()))  # numbers are made in a tenth of the time
    earliest, first = dict[str, int](), dict[str, str]()
    # Not grouped by Arrow: to import what groups takes 16 ms and 9 MB, more than the rows of 10,000 notes.
    for path, day, memory_id in zip(*(column.to_pylist() for column in dated.columns), strict=True):
        if path not in first or day < earliest[path]:
            earliest[path] = day
        first.setdefault(path, memory_id)
    folders: dict[str, dict[str, int]] = {}
    for path, day in earliest.items():
        folders.setdefault(_log_folder(path), {})[path] = day
    for dates in folders.values():
        if len(dates) >= _MIN_LOGS:
            _lonely(dates, first, rows)


def _log_folder(path: str) -> str:
    """The folder of a log, above sub-folders by year or month."""
    parts = path.split("/")[:-1]
    while parts and _DATE_FOLDER.fullmatch(parts[-1]):
        parts.pop()
    return "/".join(parts)


def _lonely(dates: dict[str, int], first: dict[str, str], rows: Rows) -> None:
    ordered = sorted(dates.items(), key=lambda item: (item[1], item[0]))
    days = [day for _, day in ordered]
    for index, (path, day) in enumerate(ordered):
        gaps = [abs(day - days[other]) for other in (index - 1, index + 1) if 0 <= other < len(days)]
        if min(gaps) > _PLAUSIBLE:
            low, high, own = (date.fromordinal(_FIRST_DAY + number) for number in (days[0], days[-1], day))
            nearest = f"a date within a year of some other log of its folder ({low} to {high})"
            rows.problem("implausible_date", path, nearest, own.isoformat(), memory_id=first[path], quote=False)


_HOMES = ("MEMORY.md", "CLAUDE.md", "AGENTS.md")
"""What an agent loads from the folder that it works in, and from no other: two such folders are two stores."""
FORMAT = Format(
    "workspace",
    "MEMORY.md, HEARTBEAT.md, daily logs, sessions, any other Markdown",
    order=130,
    kinds=("long_term", "daily_log", DREAM, "session", "heartbeat", "document"),
    tables=("documents", "turns"),
    endings=MARKDOWN,
    writes=MARKDOWN,
    claims=lambda file: file.is_markdown,
    parse=parse,
    owner=Owner(PAGE, homes=_HOMES),
    check=_check,
    dates={"created_at": None},
    rules=(
        _NO_DAY,
        _NO_DAY_ABOVE,
        _NO_TIME,
        *OF_DATES,
        Rule("implausible_date", "workspace", "", "a date within a year of some other log of the folder"),
        _FENCE,
        Rule("empty_section", "workspace", "", "text below a heading, or a deeper heading with text"),
    ),
)
