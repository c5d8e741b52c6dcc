"""One page of linked notes: its sections are memories, and each gets the fields of the front matter.

The front matter is data: it is no memory's text. A page that has one and no text above its first heading gets a memory
of the kind ``head``, whose text is the page's title and description, so that the page is found by them as one chunk.
Where front matter and body say nothing but the title, that text is empty: the page is a problem, and no hit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from memkit.base.fences import BOX, Heading, fences, headings
from memkit.formats.format import File
from memkit.formats.linked.links import Link, links_in, without_code
from memkit.formats.linked.relations import LINKS_TO, written_in
from memkit.formats.rows import Row, Rows, heading_path, json_text
from memkit.formats.spelling import (
    ALIASES,
    CREATED,
    DESCRIPTIONS,
    ENDS,
    EXPIRES,
    IDS,
    IDS_OF_PAGES,
    STALE,
    STATUS,
    TAGS,
    TITLES,
    TYPES,
    UPDATED,
    USERS,
    VERIFIED,
    bool_of,
    end_of,
    is_held,
    loose_words,
    plain,
    text_of,
    time_of,
)
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.nodes import Node
from memkit.formats.workspace import Section, Sections, kind_of, moment_of

_MARK = re.compile(r"#(?<![^\s(\[{,;:.!?«\"'—-]#)([^\W\d_][\w/-]*)")
"""``#word``: after a blank or an opening sign, and opening with a letter."""
_MAY_MARK = re.compile(r"#[^\W\d_]")
_COLOUR = re.compile(r"[0-9a-fA-F]{3}|[0-9a-fA-F]{4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8}")
# Bounds, as in `links`.
_LINKED = re.compile(r"\]\([^\n()]{0,1000}\)|\[\[[^\n\[\]]{0,1000}\]\]")
_LISTS = rf"[ \t]*(?:[-*+]|\d{{1,9}}[.)]|\|)[ \t]*(?:\*\*|{BOX}[ \t]+)?!?\[[^ xX\]\n]"
LISTED, _ALL_LISTED = re.compile(_LISTS), re.compile(rf"\n{_LISTS}")
"""A line of a list or a table that opens with a link."""
_IS_PROSE = re.compile(r"\n[^\W_][^\n]*\n(?:\n|[^\W_])")
"""A line that opens with a word, and that nothing underlines."""
_NO_WORD = re.compile(r"[\W_]+")
_INDEX_NAMES, _LOG_NAMES = ("index", "_index"), ("log",)
# Guesses: the more a name says of a page, the fewer lines have to.
_LEAST_LISTED = {"index": 1, "long_term": 3, "page": 5}
"""How many lines a page needs that open with a link, to be a contents page, by what it would be otherwise."""
GENERATED = "generated"
"""The field of a bundle that says how and when a program last wrote the page."""
_OFTEN_NONE = ("verified", "reviewed", "проверено")
"""Fields that also say whether, or by whom."""
_LIKE_DAY = re.compile(r"\d[./-]\d{1,2}[./-]\d")
LOOSE = "loose_front_matter"
UNREAD = "(front matter)"
"""The key of extra for front matter that is no YAML even with its values in quotes, as it is written."""


_ORIGIN = (GENERATED, "originsessionid")
_OF_FILE = frozenset(
    (*TITLES, *TAGS, *IDS, *IDS_OF_PAGES, *USERS, *CREATED, *UPDATED, *VERIFIED, *STALE, *EXPIRES, *_ORIGIN)
)
"""Fields of front matter that name, date, mark or identify a page: of the page's subject they say nothing."""
_SORTING = frozenset((*TYPES, "nodetype", "status", "state"))
"""Fields that sort a page among others; their words are nothing that a page says."""


def comparable(words: str) -> str:
    """Words as titles are compared: without case, punctuation as blanks.

    >>> comparable("Доля  возвратов (net)!")
    'доля возвратов net'
    """
    return _NO_WORD.sub(" ", words.casefold()).strip()


def holds_title(heading: str, title: str) -> bool:
    """Whether a heading has the words of a title already.

    >>> holds_title("Return rate (metric)", "return-rate"), holds_title("Schema", "Return rate")
    (True, False)
    """
    return bool(title) and f" {comparable(title)} " in f" {comparable(heading)} "


def tags_of(value: object) -> list[str]:
    """The words of a field of tags, however it writes them: ``[a, b]``, ``a, b``, ``#a #b``, ``"[[a]]"``; each once.

    >>> tags_of("#чай, #чай/зелёный"), tags_of(["#a", "[[b]]"]), tags_of(None)
    (['чай', 'чай/зелёный'], ['a', 'b'], [])
    """
    if isinstance(value, str) and "#" in value:
        value = value.replace(",", " ").split()
    words = (word.strip().removeprefix("[[").removesuffix("]]").removeprefix("#") for word in loose_words(value))
    return list(dict.fromkeys(filter(None, words)))


def says_words(body: str) -> bool:
    """Whether a text without front matter has a word besides its headings.

    >>> says_words("# Чай\\n\\n## Сорта\\n---\\n"), says_words("# Чай\\nзелёный")
    (False, True)
    """
    if _IS_PROSE.search(body):
        return True
    marks = [*headings(body, fences(body))]
    titles = {line for mark in marks for line in range(mark.line, mark.line + 1 + mark.is_underlined)}
    return any(comparable(line) for number, line in enumerate(body.split("\n"), 1) if number not in titles)


def said_in_front(front: FrontMatter) -> dict[str, Any]:
    """The fields of front matter, by name, that say more than a page's title, dates, tags and ids; blank ones do not.

    >>> from memkit.formats.syntax.front_matter import split
    >>> said_in_front(split("---\\ntitle: Чай\\ntags: [a]\\nprice: 12 руб.\\nmetadata:\\n  type: note\\n---\\n"))
    {'price': '12 руб.', 'type': 'note'}
    """
    inner = front.fields.get("metadata")
    outer = {key: value for key, value in front.fields.items() if not (key == "metadata" and isinstance(value, Node))}
    fields = outer | (inner if isinstance(inner, Node) else {})
    return {key: value for key, value in fields.items() if value and plain(key) not in _OF_FILE}


def _has_words(value: Any) -> bool:
    """Whether a value of front matter has a letter, and is no yes or no."""
    words = text_of(value)
    return bool(value) if words is None else bool_of(value) is None and any(map(str.isalpha, words))


def dates_in(value: object) -> Iterator[object]:
    """What stands for a date in a value: itself, the field ``at`` of an object, or these of each item of a list."""
    if isinstance(value, list):
        for item in value:
            yield from dates_in(item)
    else:
        yield value.get("at") if isinstance(value, dict) else value


def latest_of(value: object) -> datetime | None:
    """The latest time in a value: a date, an object with the field ``at``, or a list of these."""
    return max(filter(None, map(time_of, dates_in(value))), default=None)


def marks_in(text: str) -> Iterator[str]:
    """The ``#tags`` of a text without code: no number, no colour, nothing within a link.

    >>> list(marks_in("Чай #чай/зелёный, цвет #fff, #42, [x](a.md#part) и https://a.b/#top"))
    ['чай/зелёный']
    """
    if _MAY_MARK.search(text):
        for match in _MARK.finditer(_LINKED.sub(" ", text)):
            word = match[1].rstrip("/-")
            if not _COLOUR.fullmatch(word):
                yield word


def is_contents(text: str, least: int) -> bool:
    """Whether most lines of a text, headings aside, open with a link, and at least so many.

    >>> is_contents("- [Чай](tea.md)\\n- [[мёд]]", 2), is_contents("Пьём [чай](tea.md).", 1)
    (True, False)
    """
    listed = len(_ALL_LISTED.findall(f"\n{text}")) if text.count("[") >= least else 0
    if listed < least:
        return False
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith(("#", "|-", "| -"))]
    return 2 * listed > len(lines)


def kind_of_page(file: File) -> str:
    """index, log or page, or the workspace's kind of a file with such a name and place.

    >>> from memkit.formats.disk.source import Source
    >>> [kind_of_page(File(Source(path, "# Чай"))) for path in ("a/index.md", "a/log.md", "tea.md", "MEMORY.md")]
    ['index', 'log', 'page', 'long_term']
    """
    source, front = file.source, file.front
    kind, stem = kind_of(source), source.stem.casefold()
    if kind not in ("document", "long_term"):
        return kind
    if stem in _INDEX_NAMES:
        return "index"
    if stem in _LOG_NAMES:
        return "log"
    body = source.text[front.body_at :] if front else source.text
    kind = "page" if kind == "document" else kind
    return "index" if is_contents(body, _LEAST_LISTED[kind]) else kind


class Page(Sections):
    """One page under way.

    Parameters
    ----------
    is_vault : bool
        Whether every ``#word`` in the text is a tag.
    known_tags : iterable of str
        Tags of the folder's front matters: elsewhere a ``#word`` is a tag if it is one of them.

    Attributes
    ----------
    title, description : str
        What stands above each section that does not say it.
    tags : list of str
        Of the whole page.
    """

    description = ""
    tags: list[str]
    aliases: list[str] | None = None
    verified: datetime | None = None
    stale: datetime | None = None
    scope: str | None = None
    user: str | None = None
    source_id: str | None = None

    def __init__(
        self, file: File, rows: Rows, kind: str = "", *, is_vault: bool = False, known_tags: Iterable[str] = ()
    ) -> None:
        self.tags = []
        super().__init__(file, rows, kind or kind_of_page(file))
        self.is_vault = is_vault
        self.known_tags = {tag.casefold() for tag in chain(self.tags, known_tags)}
        self.plain_text = without_code(self.body, self.code)
        # Sections ask in their order.
        self._links = sorted(links_in(self.plain_text, self.above), key=attrgetter("line"))
        self._n_asked = 0
        self.title = self.title_of()

    def read_front(self, fields: Node) -> None:
        """Also what a page says of itself: description, tags, other names, type, owner, other dates."""
        super().read_front(fields)
        self.description = (self.in_front(DESCRIPTIONS, text_of) or "").strip()
        self.tags = self.in_front(TAGS, lambda value: tags_of(value) or None) or []
        self.aliases = self.in_front(ALIASES, lambda value: loose_words(value) or None)
        self.verified, self.stale = self.in_front(VERIFIED, latest_of), self.in_front(STALE, time_of)
        self.scope, self.user = self.in_front(TYPES, text_of), self.in_front(USERS, text_of)
        self.source_id = self.in_front(IDS_OF_PAGES, text_of)
        generated = self.in_front((GENERATED,), lambda value: latest_of(value) if isinstance(value, dict) else None)
        if generated and self.in_front(UPDATED, moment_of) is None:
            self.updated = generated

    def unread_dates(self, name: str, value: object) -> Iterator[object]:
        """Also of the dates that only pages have; of those that may be several each."""
        yield from super().unread_dates(name, value)
        if name in STALE and time_of(value) is None:
            yield value
        has_several = name in VERIFIED or (name == GENERATED and isinstance(value, dict))
        for written in dates_in(value) if has_several else ():
            if time_of(written) is None and (name not in _OFTEN_NONE or _LIKE_DAY.search(text_of(written) or "")):
                yield written

    def title_of(self) -> str:
        """The title: that of the front matter, else the only heading of the first level, else the file's name."""
        if title := (self.in_front(TITLES, text_of) or "").strip():
            return title
        first = [*islice((mark.text for mark in self._of_body() if mark.level == 1), 2)]
        return first[0] if len(first) == 1 and first[0] else self.source.stem

    def read(self) -> None:
        """Add the rows of the page, and report front matter that is no YAML."""
        super().read()
        if self.front is None:
            return
        if fault := self.front.fault:
            expected, got = self.front.syntax, f"{fault}; what single lines say is read"
            if expected == "YAML":
                expected += f", such as {'; '.join(self.front.mended) or 'key: value on each line'}"
                got = f"{fault}; it is read as if written so"
            self.rows.problem(
                LOOSE,
                self.source.path,
                expected,
                got,
                line=fault.line,
                memory_id=self.first or None,
                quote=False,
            )
        for type, written in written_in(self.front.fields):
            self._relation(type, written, None, self.first)
        self.rows.repeated(self.front.fields, self.source.path, None, self.first or None)

    def headings(self) -> Iterator[Heading]:
        """The headings; the text between front matter and the first of them is a section, if it is not blank."""
        marks = self.marks()
        first = next(marks, None)
        until = first.line - 1 if first else len(self.source.lines)
        lead = self.source.lines[self.above : until]
        if any(map(str.strip, lead)) or (first is None and self.front is None):
            yield Heading(self.above + 1, 0, self.title)
        elif first and lead and self.front is None:
            first = Heading(1, first.level, first.text)  # blank lines before the first heading belong to it
        yield from chain([first] if first else (), marks)

    def head(self) -> int:
        """Add the memory of a page whose front matter is all that stands above its first heading."""
        if self.front is None:
            return 0
        first = next(self.marks(), None)
        until = first.line - 1 if first else len(self.source.lines)
        if any(map(str.strip, self.source.lines[self.above : until])):
            return 0
        path, text = self.source.path, "\n".join(filter(None, (self.title, self.description)))
        self.is_hollow = self._says_nothing()
        text = "" if self.is_hollow else text
        self.first = self.rows.new_id("workspace", path, "top", text)
        row: Row = {"memory_id": self.first, "path": path, "kind": "head", "line_start": 1, "line_end": self.above}
        memory: Row = {"format": "workspace", "title": self.title, "text": text, "heading_path": heading_path(path)}
        day = self.dated.day if self.dated else None if self.created or self.updated else self.named
        memory |= {"created_at": day or self.created, "updated_at": day or self.updated}
        memory |= {"date_source": "name" if day else None} | self._of_page | self._of_first_section()
        self.rows.add("memories", {**row, **memory, "tags": self.tags})
        document = {"level": 0, "ordinal": 0, "chars": len(text)}
        self.rows.add("documents", {**row, **document})
        return 1

    def _says_nothing(self) -> bool:
        """Whether the page has front matter that says nothing of its own, and no word below it but headings."""
        if self.front is None or self.front.fault or self.description or self.aliases or says_words(self.body):
            return False
        said = said_in_front(self.front).items()
        return not any(plain(name) not in _SORTING and _has_words(value) for name, value in said)

    def columns(self, section: Section) -> Row:
        """What the page says of each section, the title and the description above it included."""
        row = {**self._of_page, "heading_path": heading_path(self.source.path, *self.above_section(section))}
        if not section.ordinal:
            row |= self._of_first_section()
        row["tags"] = list(dict.fromkeys((*self.tags, *self._marks(section))))
        return row

    def above_section(self, section: Section) -> list[str]:
        """The names above a section: title and description, where no heading says the title already."""
        above, heading = list(section.above), section.heading.text if section.heading.level else ""
        described = [self.description] if self.description and section.heading.level else []
        if not section.heading.level:
            return above  # its own title is the page's
        place = next((number for number, name in enumerate(above, 1) if self._has_title(name)), None)
        if place is not None:
            return above[:place] + described + above[place:]
        return [*([] if self._has_title(heading) else [self.title]), *described, *above]

    def _has_title(self, heading: str) -> bool:
        """`holds_title` for the page's own."""
        return heading == self.title != "" or holds_title(heading, self.title)

    def beside(self, section: Section, memory_id: str) -> None:
        """Add the links of a section, in their order."""
        for link in sorted(self.links(section), key=attrgetter("line")):
            if link.target:
                self._relation(self.type_of(link), link.written, link.line, memory_id)

    def links(self, section: Section) -> Iterator[Link]:
        """The links of a section, with their lines in the file; those in code are text."""
        begin, end, links = section.lines.start, section.lines.stop, self._links
        while self._n_asked < len(links) and (link := links[self._n_asked]).line < end:
            self._n_asked += 1
            if link.line >= begin:
                yield link

    def type_of(self, link: Link) -> str:
        """What a link is called."""
        return LINKS_TO

    def _relation(self, type: str, written: str, line: int | None, memory_id: str) -> None:
        row: Row = {"from_id": self.first, "type": type, "written": written, "line": line, "memory_id": memory_id}
        row["state"] = "dead"
        self.rows.add("relations", row)

    def _marks(self, section: Section) -> Iterator[str]:
        """The tags in the text of a section."""
        if not self._may_have_marks:
            return
        for line in self._lines_without_code(section):
            for word in marks_in(line) if "#" in line else ():
                if self.is_vault or word.casefold() in self.known_tags:
                    yield word

    def plain(self, section: Section) -> str:
        """The text of a section without code; its front matter is no part of it."""
        return "\n".join(self._lines_without_code(section))

    def _lines_without_code(self, section: Section) -> list[str]:
        lines = section.lines
        return self._plain_lines[max(lines.start - self.above, 1) - 1 : lines.stop - self.above - 1]

    @cached_property
    def _may_have_marks(self) -> bool:
        return bool(self.is_vault or self.known_tags) and _MAY_MARK.search(self.plain_text) is not None

    @cached_property
    def _plain_lines(self) -> list[str]:
        return self.plain_text.split("\n")

    @cached_property
    def _of_page(self) -> Row:
        """The columns that every section has from its page."""
        row: Row = {"scope": self.scope, "source_id": self.source_id, "status": self.status}
        row |= {"user_id": self.user, "expires_at": self.expires, **self.measures}
        return row | {"description": self.description or None, "verified_at": self.verified, "stale_at": self.stale}

    def _of_first_section(self) -> Row:
        """The columns that the first section has from the front matter."""
        fields = self.front.fields if self.front else Node()
        extra = {key: value for key, value in fields.items() if not self._is_held(plain(key), value)}
        if self.front and self.front.fault and not self.front.mended:  # single lines may have lost some words
            extra[UNREAD] = self.source.text[: self.front.body_at].rstrip("\n")
        return {"aliases": self.aliases, "extra": json_text(extra)}

    def _is_held(self, name: str, value: Any) -> bool:
        """Whether a column holds all that a field of the front matter says."""
        if is_held(name, value, self.measures):
            return True
        if text_of(value) is None:
            return (name in TAGS and tags_of(value) == self.tags == value) or (
                name in ALIASES and value == self.aliases
            )
        attribute, read = _HELD.get(name, ("", text_of))
        held = getattr(self, attribute) if attribute else None
        return held is not None and read(value) == held


_HELD = {
    name: (attribute, read)
    for names, attribute, read in (
        (TITLES, "title", text_of),
        (DESCRIPTIONS, "description", text_of),
        (CREATED, "created", time_of),
        (UPDATED, "updated", time_of),
        (VERIFIED, "verified", time_of),
        (STALE, "stale", time_of),
        (TYPES, "scope", text_of),
        (USERS, "user", text_of),
        (ENDS, "expires", end_of),
        (IDS_OF_PAGES, "source_id", text_of),
        (STATUS, "status", text_of),
    )
    for name in names
}
"""By the plain name of a field, what has its value as a column, and how that is read."""


def stems_named(text: str) -> tuple[str, ...]:
    """The stems of the files that the links of a text without code name, in lower case, once each."""
    names = ((link, link.target.rpartition("/")[2].casefold()) for link in links_in(text))
    return tuple({name.removesuffix(".md"): None for link, name in names if link.is_wiki or name.endswith(".md")})
