"""Heads of pages in clothes that are not read as front matter: lines of properties, ``key::``, a fenced block.

Their title, date and tags would be lost in silence, so that the page has a row which says so; the lines are text.
"""

from __future__ import annotations

import re
from itertools import takewhile

from memkit.formats.faults import Rule
from memkit.formats.spelling import ALIASES, CREATED, IDS_OF_PAGES, TAGS, TITLES, UPDATED, plain

UNREAD_HEAD = Rule("unread_head", "any", "", "front matter between '---' lines")
HEAD_NAMES = frozenset(
    {*TITLES, *CREATED, *UPDATED, *TAGS, *ALIASES, *IDS_OF_PAGES, "status", "author"} - {"name"}
    | {"заголовок", "тема", "дата", "создано", "обновлено", "теги", "метки", "статус", "автор"}
)
"""What the lines at the top of a page are named that are its head in other clothes."""
_PROPERTY = re.compile(r"(?:\*\*)?([^\W\d_][\w \t-]{0,30}+)(::?+)(?:\*\*)?(?:[ \t]|$)")
_FENCED = re.compile(r"(?:```|~~~)[ \t]*(ya?ml|toml)[ \t]*$", re.IGNORECASE)
_FENCED_KEY = re.compile(r"[ \t]*([\w-]{1,40}+)[ \t]*[:=]")
_MOST_HEAD_LINES = 40
_FIRST_LINE = re.compile(r"(?:[^\S\n]*+\n)*+(?:# [^\n]*+\n(?:[^\S\n]*+\n)*+)?([^\n]*+)")
"""The first line with words, below the title if there is one."""
_HAS_SIGN = re.compile("[`~:]")


def unread_head(text: str) -> tuple[int, str] | None:
    """The line and the words for a head that stands at the top of a page in clothes that are not read; else None.

    >>> unread_head("Title: Чай\\nDate: 2026-01-02\\n\\nтекст")
    (1, 'lines of properties (Title, Date)')
    >>> unread_head("tags:: чай\\nтекст"), unread_head("Анна: чай\\nБорис: кофе\\n")
    ((1, "lines 'key::' (tags)"), None)
    """
    opening = _FIRST_LINE.match(text)
    if opening is None or _HAS_SIGN.search(opening[1]) is None:
        return None
    first = text.count("\n", 0, opening.start(1))
    lines = text[: 200 * _MOST_HEAD_LINES].split("\n")[:_MOST_HEAD_LINES]
    if first >= len(lines):
        return None
    if fence := _FENCED.match(lines[first]):
        inner = [*takewhile(lambda line: not line.startswith(("```", "~~~")), lines[first + 1 :])]
        names, what = [match[1] for match in map(_FENCED_KEY.match, inner) if match], f"a fenced {fence[1]} block"
    else:
        found = [*takewhile(bool, map(_PROPERTY.match, lines[first:]))]
        signs = {match[2] for match in found if match}
        following = lines[first + len(found)].strip() if first + len(found) < len(lines) else ""
        if signs != {"::"} and (len(found) < 2 or (following and following[0] not in "#-")):
            return None
        names = [match[1].strip() for match in found if match]
        what = "lines 'key::'" if "::" in signs else "lines of properties"
    named = [name for name in names if plain(name) in HEAD_NAMES]
    return (first + 1, f"{what} ({', '.join(named)})") if named else None
