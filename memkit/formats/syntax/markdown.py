"""What the Markdown formats share: the headings outside of code fences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memkit.fences import Fences

# Opens with one certain character, not with ^: found several times as fast.
_MARK = re.compile(r"\n {0,3}(#{1,6})(?![^ \t\n])[ \t]*(.*)")
_BLANK = " \t"


@dataclass(frozen=True, slots=True)
class Heading:
    """One ATX heading: 1-based line, level 1 to 6, text without its marks."""

    line: int
    level: int
    text: str


def headings(text: str, code: Fences) -> Iterator[Heading]:
    """The headings of `text` outside of its code fences, one at a time: a text may be nothing else.

    Examples
    --------
    >>> from memkit.fences import fences
    >>> text = "# A\\n```\\n# code\\n```\\n## B"
    >>> [(heading.line, heading.text) for heading in headings(text, fences(text))]
    [(1, 'A'), (5, 'B')]
    """
    text = f"\n{text}"
    line, offset = 0, 0
    for match in _MARK.finditer(text):
        line += text.count("\n", offset, match.start() + 1)
        offset = match.start() + 1
        if not code.closed or line not in code:
            marks, title = match.groups()
            yield Heading(line, len(marks), _without_closing(title).strip())


def _without_closing(title: str) -> str:
    """`title` without the ``##`` that may close it, which a blank must part from the words."""
    bare = title.rstrip(_BLANK)
    opened = bare.rstrip("#")
    return opened if not opened or opened[-1] in _BLANK else bare
