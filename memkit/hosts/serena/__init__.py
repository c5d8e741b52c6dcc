"""Serena: Markdown below ``.serena/memories/``, whose names are all that an agent sees before it opens one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memkit.extend.pages import MEM, Link, Page, Section, kind_of_page, layout, moment_of
from memkit.extend.reading import TIME, File, Folder, Owner, Row, Rows, Survey

_PLACE = r"(?:^|.*/)\.serena/memories/"
_HOME = re.compile(_PLACE)
_DATED = re.compile(
    r"[\s*_#>-]*(?:(date|created|дата|создано)|(updated|last updated|обновлено))"
    r"[\s*_]*:[\s*_]*(\d{4}-\d{2}-\d{2}|\d{1,2}[./-]\d{1,2}[./-]\d{4}"
    r"|\d{1,2} [^\W\d_]{3,9} \d{4}|[^\W\d_]{3,9} \d{1,2},? \d{4})(?!\d)",
    re.IGNORECASE,
)
_BY_NAME = re.compile(rf"(?<![\w/]){MEM}[^\s()\[\]<>,;]*[\w]")
# A guess: templates of its users have the date in the first lines.
_LOOKED_AT = 20
"""The lines below the title in which a line says when the memory is from."""


class _Memory(Page):
    """A memory of Serena: its title is its name, the path without ending.

    Parameters
    ----------
    home : str
        The folder of the memories; empty, or with a slash at its end.
    """

    def __init__(self, file: File, rows: Rows, home: str) -> None:
        self.home = home
        kind = kind_of_page(file)
        super().__init__(file, rows, kind if kind in ("index", "log") else "page")
        self._date()

    def read(self) -> None:
        super().read()
        for number, match in self._dated_lines():
            if moment_of(match[3]) is None:
                where: Row = {"line": number, "field": match[1] or match[2], "memory_id": self.first or None}
                self.rows.problem(TIME.code, self.source.path, TIME.expected, match[3], **where)

    def links(self, section: Section) -> Iterator[Link]:
        """The links of a section, those by name alone (``mem:name``) included."""
        yield from super().links(section)
        begin = max(section.lines.start, self.above + 1)
        for number, line in enumerate(self.plain(section).split("\n"), begin):
            for match in _BY_NAME.finditer(line):
                yield Link(match[0], match[0], "", "", number, True, False, match[0])

    def title_of(self) -> str:
        return self.source.path.removeprefix(self.home).rpartition(".")[0]

    def _date(self) -> None:
        """Take the dates that a line near the top says."""
        for _, match in self._dated_lines():
            day = moment_of(match[3])
            self.created = self.created or (day if match[1] else None)
            self.updated = self.updated or (day if match[2] else None)
        self.updated = self.updated or self.created

    def _dated_lines(self) -> Iterator[tuple[int, re.Match[str]]]:
        lines = self.source.lines[self.above : self.above + _LOOKED_AT]
        matches = ((number, _DATED.match(line)) for number, line in enumerate(lines, self.above + 1))
        return ((number, match) for number, match in matches if match)


def survey(folder: Folder) -> Survey:
    """The Markdown below each ``.serena/memories/``."""
    above = f"{folder.listing.root.as_posix()}/"
    result = Survey()
    for place, names in folder.markdown.items():
        below = f"{place}/" if place else ""
        match = _HOME.match(above + below)
        if match or folder.is_forced:
            home = below[: max(0, match.end() - len(above))] if match else ""
            result.findings |= dict.fromkeys((below + name for name in names), home)
    return result


def parse(file: File, rows: Rows) -> None:
    """One memory to its rows."""
    _Memory(file, rows, str(file.finding("serena") or "")).read()


FORMAT = layout(
    "serena",
    ".serena/memories/**/*.md, each by its name (Serena)",
    parse,
    order=90,
    kinds=("page", "head", "index", "log"),
    hidden_places=(".serena/memories",),
    owner=Owner("page", store=f"(?:{_PLACE})?", by_name=True),
    landmark=".serena",
    survey=survey,
    head_of=lambda text: None,  # its dates are read where they stand
)
