"""Code fences of Markdown: the one place that decides which lines of a text are code, and which are headings.

A fence opens with three or more `````` or ``~~~`` after at most three blanks, and closes as in CommonMark: with the
same character, at least as often, and nothing after it. A fence that never closes is text: one stray mark must not hide
the rest of a log.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple

# Open with one certain character, not with ^: found several times as fast.
_MARK = re.compile(r"\n {0,3}(?:(#{1,6})(?![^ \t\n])[ \t]*(.*)|(`{3,}|~{3,})(.*))")
"""The mark of a heading with its title, or that of a fence with what stands behind it."""
_UNDERLINED = re.compile(
    r"\n[ \t]*+\n {0,3}(?P<title>(?!\d{1,9}[.)][ \t])[^\s#>|*+\-=\[!<`~][^\n|]{0,118})"
    r"\n {0,3}(?:={3,}+|(?P<dashes>-{3,}+))[ \t]*+(?=\n|\Z)"
)
"""A line below a blank one that is underlined; what opens a list, a table, a quote, a link or HTML is none."""
# A guess: titles are shorter, and paragraphs above a rule longer.
_MOST_DASHED = 60
"""The most characters of a line that dashes underline: below a longer one they are a rule between two parts."""
_CONFLICT = "\n<<<<<<< "
"""What a line of ``=======`` stands below that git writes between two versions."""
OPEN, CLOSED = " /~?!<*", "xX✓✔>-"
"""The marks of check boxes: to do, in progress and the like; ticked, forwarded, cancelled. An unsure one is open."""
BOX = rf"\[[{OPEN}{CLOSED}]\]"
_BLANK = " \t"


@dataclass(frozen=True)
class Fences:
    """The code fences of one text.

    Attributes
    ----------
    closed : list of range
        The 1-based lines of each closed fence, its marks included.
    unclosed : int or None
        The line of a fence that never closes.
    """

    closed: list[range]
    unclosed: int | None = None

    def __contains__(self, line: int) -> bool:
        """Whether `line` is code, or the mark of a fence."""
        fence = self._last(line)
        return fence is not None and line in fence

    def would_part(self, line: int) -> bool:
        """Whether a cut above `line` would split a fence."""
        fence = self._last(line)
        return fence is not None and line in fence and line > fence.start

    def _last(self, line: int) -> range | None:
        """The fence that opens last at or above `line`."""
        index = bisect_right(self.closed, line, key=lambda fence: fence.start)
        return self.closed[index - 1] if index else None


_NONE = Fences([])


def fences(text: str) -> Fences:
    """The code fences of `text`; cost linear in its length.

    Examples
    --------
    >>> found = fences("a\\n~~~\\n```\\n~~~\\nb\\n```\\nc")
    >>> found.closed, found.unclosed, 3 in found, 5 in found
    ([range(2, 5)], 6, True, False)
    """
    return _NONE if "```" not in text and "~~~" not in text else marks(text, most=0)[0]


def marks(text: str, above: int = 0, most: int = sys.maxsize) -> tuple[Fences, list[Heading] | None]:
    """The code fences of `text`, and its headings outside of them save underlined ones, both in one pass over it.

    Parameters
    ----------
    above : int
        How many lines stand above the text, which count in the headings' lines.
    most : int
        Of more headings than that there is no list, as a text may consist of headings only.

    Examples
    --------
    >>> code, found = marks("# A\\n```\\n# code\\n```\\n## B")
    >>> code.closed, [heading.text for heading in found]
    ([range(2, 5)], ['A', 'B'])
    """
    closed, found, n_found = list[range](), list[Heading](), 0
    fence, opened, n_before, line, offset = "", 0, 0, 0, 0
    text = f"\n{text}"
    for match in _MARK.finditer(text):
        line += text.count("\n", offset, match.start() + 1)
        offset = match.start() + 1
        level, title, ticks, info = match.groups()
        if level is not None:
            n_found += 1
            if n_found <= most:
                found.append(Heading(line + above, len(level), _without_closing(title).strip()))
            continue
        before, fence = fence, _after(fence, ticks, info)
        if fence and not before:
            opened, n_before = line, n_found
        elif before and not fence:
            closed.append(range(opened, line + 1))
            n_found = n_before
            del found[n_found:]
    code = Fences(closed, opened if fence else None) if closed or fence else _NONE
    return code, found if n_found <= most else None


def _after(fence: str, ticks: str, info: str) -> str:
    """The fence that is open below a line of `ticks`, where `fence` is the one above it; "" for no fence."""
    if not fence:
        return ticks if "`" not in info or ticks[0] == "~" else ""
    return "" if ticks.startswith(fence) and not info.strip() else fence


class Heading(NamedTuple):
    """One heading: 1-based line, level 1 to 6, text without its marks, and whether the line below underlines it."""

    line: int
    level: int
    text: str
    is_underlined: bool = False


def is_mark(line: str) -> bool:
    """Whether a line looks like the mark of a fence."""
    match = _MARK.match(f"\n{line}")
    return match is not None and match[3] is not None


def is_heading(line: str) -> bool:
    """Whether a line is a heading, where it is no code."""
    match = _MARK.match(f"\n{line}")
    return match is not None and match[1] is not None


def headings(text: str, code: Fences, *, underlined: bool = True, above: int = 0) -> Iterator[Heading]:
    """The headings of `text` outside of its code fences, as an iterator: a text may consist of headings only.

    Parameters
    ----------
    underlined : bool
        Whether a line that ``===`` or ``---`` underlines is one too, of level 1 or 2. It is one line below a blank one
        (or the first), and a short one above dashes.
    above : int
        How many lines stand above the text, which count in the headings' lines.

    Examples
    --------
    >>> text = "# A\\n```\\n# code\\n```\\n## B\\n\\nC\\n---\\ntext\\n---"
    >>> [(heading.line, heading.text) for heading in headings(text, fences(text))]
    [(1, 'A'), (5, 'B'), (7, 'C')]
    """
    marked = _marked(f"\n{text}", code, above)
    return merge(marked, underlined_in(text, code, above), key=lambda heading: heading.line) if underlined else marked


def _marked(text: str, code: Fences, above: int) -> Iterator[Heading]:
    line, offset = 0, 0
    for match in _MARK.finditer(text):
        line += text.count("\n", offset, match.start() + 1)
        offset = match.start() + 1
        if match[1] is not None and line not in code:
            yield Heading(line + above, len(match[1]), _without_closing(match[2]).strip())


def underlined_in(text: str, code: Fences, above: int = 0) -> Iterator[Heading]:
    """The headings of `text` that a line below underlines, as `headings` has them."""
    return _underlined(f"\n\n{text}", code, above) if "===" in text or "---" in text else iter(())


def _underlined(text: str, code: Fences, above: int) -> Iterator[Heading]:
    line, offset, has_conflict = -1, 0, _CONFLICT in text
    for match in _UNDERLINED.finditer(text):
        line += text.count("\n", offset, match.start("title"))
        offset = match.start("title")
        title, is_dashed = match["title"].strip(), match["dashes"] is not None
        if line not in code and not has_conflict and not (is_dashed and len(title) > _MOST_DASHED):
            yield Heading(line + above, 1 + is_dashed, title, is_underlined=True)


def _without_closing(title: str) -> str:
    """`title` without a closing ``##``, which a blank must separate from the words."""
    bare = title.rstrip(_BLANK)
    opened = bare.rstrip("#")
    return opened if not opened or opened[-1] in _BLANK else bare
