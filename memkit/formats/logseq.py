"""Logseq: pages and journals that are lists, in which each top block with what is below it is a memory.

``key::`` lines are data: those at the top of a page are its head, those of a block go to its columns or ``extra``. A
link to a page that is not there is how one is begun, and no fault. Copies in ``logseq/bak`` are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from itertools import chain, islice, takewhile
from urllib.parse import unquote

from memkit.base.fences import Fences, Heading, fences, headings, is_mark
from memkit.formats.disk.source import above
from memkit.formats.format import MARKDOWN, PAGE, File, Folder, Owner, Survey
from memkit.formats.linked.layout import layout
from memkit.formats.linked.page import Page, tags_of
from memkit.formats.rows import Row, Rows, Rule, json_text
from memkit.formats.spelling import TAGS, end_in, plain, unread_ends
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.nodes import Node
from memkit.formats.workspace import OF_ENTRY, Section

_CONFIG = "logseq/config.edn"
_JOURNALS = "journals"
_PAGES = ("pages", _JOURNALS)
_COPIES = ("bak", ".recycle", "version-files")
"""Folders below ``logseq`` that hold what pages were."""
_NOT_READ = Rule("unclaimed", "logseq", "", "pages as they are")
_BLOCK = re.compile(r"[-*](?=[ \t]|$)[ \t]*+(?:\#{1,6}[ \t]++)?(?:(?:TODO|DOING|DONE|NOW|LATER|WAITING)[ \t]++)?(.*)")
"""A line that opens a block at the margin; its group is what the block begins with."""
_PROPERTY = re.compile(r"[ \t]*+(?:[-*][ \t]++)?([^\W_][\w./-]{0,60}+)::[ \t]*+(.*)")
_BULLET = re.compile(r"(?m)^[ \t]*+(?:[-*][ \t]++)?(?=```|~~~)")
_BULLETED = re.compile(r"[ \t]*+[-*](?=[ \t]|$)")
_WORD = re.compile(r"\w")
# A guess: a block has no title, and its first words stand for one.
_MOST_TITLE = 100


def head_of(text: str) -> FrontMatter | None:
    r"""The properties that a page opens with; None where it has none.

    >>> head_of("title:: Чай\ntags:: a, b\n\n- пьём").fields
    {'title': 'Чай', 'tags': 'a, b'}
    """
    fields, offset, line = Node(), 0, 0
    for written in text.split("\n"):
        match = _PROPERTY.fullmatch(written)
        if match is None and (written.strip() or not fields):
            break
        offset, line = offset + len(written) + 1, line + 1
        if match is None:
            break
        fields.put(match[1], match[2].strip(), line)
    return FrontMatter(fields, min(offset, len(text)), line + 1, syntax="Logseq") if fields else None


class _LogseqPage(Page):
    """A page or a journal."""

    def __init__(self, file: File, rows: Rows, kind: str) -> None:
        super().__init__(file, rows, kind, is_vault=True)
        self.tags = [tag.strip("[]") for tag in self.tags]

    def marks_in(self, body: str) -> tuple[Fences, list[Heading] | None]:
        """Also the fences that a block begins with."""
        code = fences(_BULLET.sub("", body))
        return code, [*headings(body, code, underlined=False, above=self.above)]

    def title_of(self) -> str:
        """As for any page; ``a___b`` and ``a%2Fb`` in a file's name are the page ``a/b``."""
        title = super().title_of()
        return unquote(title.replace("___", "/"), errors="replace") if title == self.source.stem else title

    def marks(self) -> Iterator[Heading]:
        """The top blocks, and headings outside of them."""
        for number, line in enumerate(islice(self.source.lines, self.above, None), self.above + 1):
            if self.code.would_part(number - self.above):
                continue
            if (match := _BLOCK.match(line)) and (said := match[1].strip()):
                yield Heading(number, OF_ENTRY, "" if is_mark(said) else said[:_MOST_TITLE])
            elif line.startswith("#") and (mark := self._by_line.get(number)):
                yield mark

    @cached_property
    def _by_line(self) -> dict[int, Heading]:
        return {mark.line: mark for mark in self._of_body()}

    def _day_in(self, heading: str, above: list[str]) -> datetime | None:
        """As for any page, but the words of a block on a page date nothing."""
        return None if self.kind == "page" else super()._day_in(heading, above)

    def columns(self, section: Section) -> Row:
        """Also what the properties of a block say: its tags and its end, all in ``extra``."""
        row = super().columns(section)
        fields = {key: value for _, key, value in _properties(self.text_lines(section.lines))}
        if not fields:
            return row
        tags = [tag for key, value in fields.items() if plain(key) in TAGS for tag in tags_of(value)]
        own = {plain(key): value for _, key, value in self._own_properties(section)}
        row["expires_at"] = end_in([own], self.begins) or row["expires_at"]
        extra = json_text(json.loads(row.get("extra", "{}")) | fields)
        return row | {"tags": list(dict.fromkeys([*row["tags"], *tags])), "extra": extra}

    def beside(self, section: Section, memory_id: str) -> None:
        """As for any page, and a row for each end of a block that cannot be read."""
        super().beside(section, memory_id)
        for line, key, value in self._own_properties(section):
            for name, written in unread_ends({key: value}, self.begins):
                self.unread_date(name, written, line, memory_id)

    def _own_properties(self, section: Section) -> Iterator[tuple[int, str, str]]:
        """The properties of a top block itself: an end of a block below it is none of the whole."""
        lines = self.text_lines(section.lines)
        return _properties(chain(islice(lines, 1), takewhile(lambda one: not _BULLETED.match(one[1]), lines)))


def _properties(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """The line, key and value of each property."""
    for number, line in lines:
        if "::" in line and (match := _PROPERTY.fullmatch(line)):
            yield number, match[1], match[2].strip()


def survey(folder: Folder) -> Survey:
    """The pages and journals of each graph; copies of them are counted, and not read."""
    found = Survey()
    homes = {path.removesuffix(_CONFIG) for path in folder.listing.files if f"/{path}".endswith(f"/{_CONFIG}")}
    copies: dict[str, int] = {}
    for path in folder.listing.files if homes or folder.is_forced else ():
        home = next(
            (f"{place}/".removeprefix("/") for place in above(path) if f"{place}/".removeprefix("/") in homes), ""
        )
        first, _, rest = path.removeprefix(home).partition("/")
        is_page, is_of_app = path.lower().endswith(MARKDOWN), first == "logseq" and bool(home or "" in homes)
        if is_of_app and (not is_page or rest.split("/")[0] in _COPIES):
            found.skipped.add(path)
            copies[home] = copies.get(home, 0) + is_page
        elif is_page and (folder.is_forced or (first in _PAGES and (home or "" in homes))):
            found.findings[path] = "daily_log" if first == _JOURNALS else "page"
    for home, count in copies.items() if any(copies.values()) else ():
        got = f"copies of pages ({count:,}), not read"
        folder.rows.problem("unclaimed", f"{home}logseq", _NOT_READ.expected, got, quote=False)
    return found


def parse(file: File, rows: Rows) -> None:
    """One page to its rows."""
    page = _LogseqPage(file, rows, str(file.finding("logseq") or "page"))
    if page.front is None and not _WORD.search(page.body):  # the app begins each page with an empty block
        rows.problem("unclaimed", file.source.path, "a page with words", "an empty page", quote=False)
    else:
        page.read()


FORMAT = layout(
    "logseq",
    "pages/ and journals/ beside logseq/config.edn, each top block a memory (Logseq)",
    parse,
    order=110,
    kinds=("page", "head", "daily_log"),
    landmark=_CONFIG,
    survey=survey,
    owner=Owner(PAGE),
    rules=(_NOT_READ,),
    head_of=head_of,
    begins_pages_by_links=True,
    dates={"created_at": "created", "updated_at": "updated"},
)
