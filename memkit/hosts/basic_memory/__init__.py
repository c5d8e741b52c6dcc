"""basic-memory: observations and relations, which are bullets of a page's sections.

``- [category] text #tag (context)`` is an observation, ``- relates_to [[Page]] (context)`` a relation. A check box, a
clock and a quotation are neither, whatever tags stand behind them.

>>> observation("- [decision] Храним цены в копейках #деньги (после сверки)")
Observation(category='decision', text='Храним цены в копейках #деньги', tags=('деньги',), context='после сверки')
>>> observation("- [x] Перенести таблицу #деньги") is observation("- [00:12] начало") is None
True
>>> relation("- relates_to [[Учёт заказов]]")
Relation(type='relates_to', target='Учёт заказов', context=None)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from memkit.extend.pages import Link, Page, Section, layout
from memkit.extend.reading import File, Owner, Row, Rows, fences

BULLET = re.compile(r"[ \t]*[-*+][ \t]+(?=\S)")
_CATEGORY = re.compile(r"\[([^\[\]()\n]+)\][ \t]+(?=\S)")
_BOX = re.compile(r"\[[^\[\]]?\](?!\()")
"""A check box, whatever single sign is in it."""
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_LINK = re.compile(r"\[[^\]\n]*\](?:\(|\])|\[\[")
"""What a bullet that is a link begins with."""
_TAG = re.compile(r"(?<!\S)#(?=[^\W\d_])([\w/-]+)((?:#[\w/-]+)*)")
_CONTEXT = re.compile(r"[ \t]\(([^()\n]*)\)$")
_RELATION = re.compile(r"""(?:"([^"\n]+)"|'([^'\n]+)'|([\w-]+))[ \t]+\[\[([^\[\]\n]+)\]\][ \t]*(?:\(([^()\n]*)\))?""")
_CATEGORIES = re.compile(r"\n[ \t]*[-*+][ \t]+\[[^\[\]()\n]{2,}\][ \t]")  # not with ^: see memkit.base.fences
# A guess: one or two such lines stand in any Markdown.
LEAST = 3
"""Observations that a file without a permalink needs to be of this layout."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One bullet that says something: its category, its text with tags and without context."""

    category: str | None
    text: str
    tags: tuple[str, ...]
    context: str | None


@dataclass(frozen=True, slots=True)
class Relation:
    """One bullet that links to another page: how, to which, and in which context."""

    type: str
    target: str
    context: str | None


def _behind_bullet(line: str) -> str | None:
    """What stands behind a bullet; None for a line that is none."""
    bullet = BULLET.match(line)
    return line[bullet.end() :].rstrip() if bullet else None


def observation(line: str) -> Observation | None:
    """The observation that a line is, outside of code; None for any other line.

    Examples
    --------
    >>> observation("- Кофе варит сам #кофе").tags
    ('кофе',)
    >>> [observation(line) for line in ("- [t](u.md) #a", "- relates_to [[T]]", "> - [fact] x", "- просто слова")]
    [None, None, None, None]
    """
    text = _behind_bullet(line)
    if text is None or _BOX.match(text) or relation(line):
        return None
    category, bracket = None, _CATEGORY.match(text)
    if bracket and len(bracket[1].strip()) > 1 and not _CLOCK.fullmatch(bracket[1].strip()):
        category, text = bracket[1].strip(), text[bracket.end() :]
    elif bracket or _LINK.match(text):
        return None
    tags = tuple(tag for match in _TAG.finditer(text) for tag in f"{match[1]}{match[2]}".split("#"))
    if category is None and not tags:
        return None
    end = _CONTEXT.search(text)
    context = end[1].strip() if end else None
    return Observation(category, text[: end.start()].rstrip() if end else text, tags, context)


def relation(line: str) -> Relation | None:
    """The relation that a line is, outside of code; None for any other line.

    Examples
    --------
    >>> relation('- "зависит от" [[Склад|склад]] (с мая)')
    Relation(type='зависит от', target='Склад|склад', context='с мая')
    >>> relation("- см. также [[Склад]]") is relation("- [[Склад]]") is None
    True
    """
    text = _behind_bullet(line)
    parts = _RELATION.fullmatch(text) if text is not None else None
    if parts is None:
        return None
    double, single, word, target, context = parts.groups()
    return Relation(double or single or word, target.strip(), context.strip() if context else None)


class _BasicPage(Page):
    """A page whose observations are a table beside its sections: as memories of their own each would be found twice."""

    def type_of(self, link: Link) -> str:
        """What a bullet that is a relation calls its link."""
        bullet = relation(self.source.lines[link.line - 1])
        return bullet.type if bullet else super().type_of(link)

    def beside(self, section: Section, memory_id: str) -> None:
        super().beside(section, memory_id)
        for number, line in self.text_lines(section.lines):
            if bullet := observation(line):
                row: Row = {"memory_id": memory_id, "path": self.source.path, "line": number}
                row |= {"category": bullet.category, "text": bullet.text, "context": bullet.context}
                self.rows.add("observations", {**row, "tags": list(bullet.tags)})


def _claims(file: File) -> bool:
    """Whether a page has a permalink and a type, or three observations with a category."""
    if not file.is_markdown:
        return False
    if file.front and {"permalink", "type"} <= file.front.fields.keys():
        return True
    text = file.source.text
    if sum(1 for _ in islice(_CATEGORIES.finditer(f"\n{text}"), LEAST)) < LEAST:
        return False
    code = fences(text)
    lines = (line for number, line in enumerate(file.source.lines, 1) if number not in code)
    categorised = (bullet for bullet in map(observation, lines) if bullet and bullet.category)
    return sum(1 for _ in islice(categorised, LEAST)) == LEAST


def parse(file: File, rows: Rows) -> None:
    """One page to its rows; every ``#word`` is a tag."""
    _BasicPage(file, rows, is_vault=True).read()


FORMAT = layout(
    "basic_memory",
    "Markdown pages with permalink and type, or with three observations `- [category] text` (basic-memory)",
    parse,
    order=100,
    kinds=("page", "head", "index", "log", "long_term", "daily_log", "dream", "session", "heartbeat"),
    tables=("observations", "turns"),
    owner=Owner("page"),
    claims=_claims,
    dates={"created_at": "created", "updated_at": "updated"},
)
