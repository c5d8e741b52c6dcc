"""Workspaces: MEMORY.md, HEARTBEAT.md, daily logs, session transcripts, and any Markdown that no other format claims.

A memory is a section: a heading outside of code fences to the next one, or the text before the first. Its text is
exactly its lines.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time
from itertools import chain, pairwise

from memkit.fences import fences
from memkit.formats.disk.source import Source
from memkit.formats.rows import Row, Rows, extra_of
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.markdown import Heading, headings
from memkit.formats.syntax.node import Node
from memkit.formats.syntax.values import day_of, loose_words, text_of

_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[-_T ]+([01]\d|2[0-3])[-:h]?([0-5]\d)(?![\w]))?(?:[-_ .]+(.+))?")
_HEADING_DAY = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
_HEADING_TIME = re.compile(r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
_BOX = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\[([ xX])\]\s*(.*)$")
_ROLES = (
    "user|assistant|system|human|ai|bot|agent|tool|developer|"
    "пользователь|ассистент|система|бот|агент|человек|помощник|инструмент"
)
_TURN = re.compile(
    r"^(?:\*\*\[(\d{1,2}:\d{2}(?::\d{2})?)\]([^*\n:]++)(?::\*\*|\*\*:?)"
    rf"|\*\*([^*\n\[\]:]{{1,40}})(?::\*\*|\*\*:)|({_ROLES})[ \t]*:)[ \t]*(.*)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Dated:
    """What a file's name says: day, HH:MM, the rest. `day` is null for a date that does not exist."""

    written: str
    day: datetime | None
    time: str | None
    slug: str | None


def dated(stem: str) -> Dated | None:
    """The date that a file's name opens with, or None.

    >>> dated("2026-02-15-1230-deploy").time, dated("2026-02-15-deploy").slug
    ('12:30', 'deploy')
    """
    match = _DATED.fullmatch(stem)
    if match is None:
        return None
    written, hour, minute, slug = match.groups()
    return Dated(written, day_of(written), f"{hour}:{minute}" if hour else None, slug)


def kind_of(source: Source) -> str:
    """long_term, heartbeat, session, daily_log or document, by name and place."""
    special = {"memory": "long_term", "heartbeat": "heartbeat"}.get(source.stem.lower())
    if special:
        return special
    if "sessions" in map(str.lower, source.parents):
        return "session"
    return "daily_log" if dated(source.stem) else "document"


def parse(source: Source, front: FrontMatter | None, rows: Rows) -> str:
    """One file's sections to its rows; the kind it was read as."""
    reader = _File(source, front, rows)
    reader.sections()
    if reader.code.unclosed:
        line = reader.code.unclosed + reader.above
        reader.problem("unbalanced_fence", "a code fence that is closed", "no end", line)
    if not source.text.strip():
        reader.problem("empty_text", "a file with text", "nothing", None)
    if reader.kind == "session":
        reader.turns()
    if reader.kind == "heartbeat":
        reader.checklist()
    return reader.kind


class _File:
    """One file under way; what it holds of each line is small, as a line may be a single sign.

    Attributes
    ----------
    above : int
        Lines of the front matter.
    starts : array of int
        The first line of each section so far.
    """

    def __init__(self, source: Source, front: FrontMatter | None, rows: Rows) -> None:
        self.source, self.front, self.rows = source, front, rows
        self.kind = kind_of(source)
        self.dated = dated(source.stem) if self.kind in ("daily_log", "session") else None
        self.above = front.body_line - 1 if front else 0
        self.body = source.text[front.body_at :] if front else source.text
        self.code = fences(self.body)
        self.starts = array("q")
        if self.dated and self.dated.day is None:
            self.problem("bad_date", "a real date in the file's name", self.dated.written, None)

    def problem(self, rule: str, expected: str, got: object, line: int | None) -> None:
        memory_id = self.memory_id(line) if line and self.starts else f"workspace:{self.source.path}#1"
        self.rows.problem(rule, self.source.path, expected, got, line=line, memory_id=memory_id)

    def memory_id(self, line: int) -> str:
        """The section that holds `line`."""
        return f"workspace:{self.source.path}#{max(bisect_right(self.starts, line), 1)}"

    def sections(self) -> None:
        lines = self.source.lines
        after = Heading(len(lines) + 1, 0, "")
        for ordinal, (section, following) in enumerate(pairwise(chain(self._headings(), [after])), 1):
            self.starts.append(section.line)
            head = self.front.fields if self.front and ordinal == 1 else Node()
            end = following.line - 1
            self._section(ordinal, section, lines[section.line - 1 : end], end, head)

    def _headings(self) -> Iterator[Heading]:
        """The headings by their line in the file; what stands above the first is a section too."""
        found = headings(self.body, self.code)
        first = next(found, None)
        title = text_of(self.front.fields.get("title")) if self.front else None
        ahead = self.source.lines[: self.above + first.line - 1] if first else []
        if first is None or "".join(ahead).strip():
            yield Heading(1, 0, title or "")
        elif ahead:
            first = replace(first, line=1)  # blank lines before the first heading belong to it
        for heading in chain([first] if first else [], found):
            yield replace(heading, line=heading.line + self.above) if self.above else heading

    def _section(self, ordinal: int, section: Heading, lines: list[str], end: int, head: Node) -> None:
        path, text = self.source.path, "\n".join(lines)
        at, clock = self._moment(section.text)
        row: Row = {"memory_id": f"workspace:{path}#{ordinal}", "path": path, "kind": self.kind}
        row |= {"line_start": section.line, "line_end": end}
        memory: Row = {"format": "workspace", "title": section.text, "text": text}
        memory |= {"tags": loose_words(head.get("tags")), "extra": extra_of(head, ())}
        self.rows.add("memories", {**row, **memory, "created_at": at, "updated_at": at})
        own = {
            "date": at.date() if at else None,
            "time": clock,
            "slug": self.dated.slug if self.dated else None,
            "heading": section.text if section.level else None,
            "level": section.level,
            "ordinal": ordinal - 1,
            "chars": len(text),
        }
        self.rows.add("documents", {**row, **own})

    def _moment(self, heading: str) -> tuple[datetime | None, str | None]:
        """The section's date, from its heading or else the file's name, with the heading's time where it has one."""
        written = _HEADING_DAY.search(heading)
        day = day_of(written.group(1)) if written else None
        clock = _clock(heading) or (self.dated.time if self.dated and not day else None)
        day = day or (self.dated.day if self.dated else None)
        return _at(day, clock), clock

    def turns(self) -> None:
        """Speech turns outside of code fences: each runs to the next one or to a heading."""
        opened: tuple[int, re.Match[str]] | None = None
        ordinal = 0
        for number, line in self._text_lines():
            match = _TURN.match(line)
            if opened and (match or self._is_start(number)):
                self.rows.add("turns", self._turn(ordinal, opened[0], number - 1, opened[1]))
                ordinal, opened = ordinal + 1, None
            if match:
                opened = number, match
        if opened:
            self.rows.add("turns", self._turn(ordinal, opened[0], len(self.source.lines), opened[1]))

    def _text_lines(self) -> Iterator[tuple[int, str]]:
        """The lines that are no code, by number."""
        lines = enumerate(self.source.lines, 1)
        return ((number, line) for number, line in lines if number - self.above not in self.code)

    def _is_start(self, line: int) -> bool:
        return self.starts[bisect_right(self.starts, line) - 1] == line

    def _turn(self, ordinal: int, number: int, end: int, match: re.Match[str]) -> Row:
        clock, role, bold, plain, first = match.groups()
        day, at = self.dated.day if self.dated else None, _clock(clock or "")
        text = "\n".join([first, *self.source.lines[number:end]]).rstrip()
        return {
            "memory_id": self.memory_id(number),
            "path": self.source.path,
            "ordinal": ordinal,
            "line_start": number,
            "line_end": number + text.count("\n"),
            "said_at": _at(day, at) if at else None,
            "time": clock,
            "role": (role or bold or plain).strip(),
            "text": text,
        }

    def checklist(self) -> None:
        for number, line in self._text_lines():
            if match := _BOX.match(line):
                row: Row = {"memory_id": self.memory_id(number), "path": self.source.path, "line": number}
                done = match.group(1) != " "
                self.rows.add("checklist", {**row, "done": done, "text": match.group(2).strip()})


def _clock(text: str) -> str | None:
    match = _HEADING_TIME.search(text)
    return f"{int(match.group(1)):02d}:{match.group(2)}" if match else None


def _at(day: datetime | None, clock: str | None) -> datetime | None:
    if day is None or clock is None:
        return day
    return datetime.combine(day, time(int(clock[:2]), int(clock[3:])))
