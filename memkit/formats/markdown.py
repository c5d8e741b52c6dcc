"""What the Markdown formats share: headings outside of code fences, and fences that never close."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Opens with one certain character, not with ^: found several times as fast.
_MARK = re.compile(r"\n {0,3}(?:(#{1,6})(?![^ \t\n])[ \t]*(.*)|(`{3,}|~{3,})(.*))")
_FENCE = re.compile(r"\n {0,3}(`{3,}|~{3,})(.*)")
_BLANK = " \t"


@dataclass(frozen=True, slots=True)
class Heading:
    """One ATX heading: 1-based line, level 1 to 6, text without its marks."""

    line: int
    level: int
    text: str


def headings(text: str) -> tuple[list[Heading], int | None]:
    """The headings outside of code fences, and the line of a fence that never closes.

    A fence without an end is text: what follows it is read as if it were not there, so that one stray mark does not
    swallow the rest of a log.

    Examples
    --------
    >>> found, unclosed = headings("# A\\n```\\n# code\\n```\\n## B")
    >>> [(heading.line, heading.text) for heading in found], unclosed
    ([(1, 'A'), (5, 'B')], None)
    """
    found, fences, unclosed = _scan(text)
    hidden = {line for fence in fences for line in fence}
    return [heading for heading in found if heading.line not in hidden], unclosed


def fenced_lines(text: str) -> set[int]:
    """The lines of closed code fences, their marks included."""
    return {line for fence in _scan(text)[1] for line in fence}


def _scan(text: str) -> tuple[list[Heading], list[range], int | None]:
    """All headings, the lines of each closed fence, and the line of a fence that never closes."""
    found: list[Heading] = []
    fences: list[range] = []
    fence, fence_line = "", 0
    text = f"\n{text}"
    line, offset = 0, 0
    for match in _MARK.finditer(text):
        line += text.count("\n", offset, match.start() + 1)
        offset = match.start() + 1
        marks, title, ticks, info = match.groups()
        if marks:
            found.append(Heading(line, len(marks), _without_closing(title).strip()))
            continue
        before, fence = fence, _fence_after(fence, ticks, info)
        if fence and not before:
            fence_line = line
        elif before and not fence:
            fences.append(range(fence_line, line + 1))
    return found, fences, fence_line if fence else None


def _fence_after(fence: str, ticks: str, info: str) -> str:
    """The fence that is open below a line of `ticks`, where `fence` is the one above it; "" where there is none."""
    if not fence:
        return ticks if "`" not in info or ticks[0] == "~" else ""
    return "" if ticks.startswith(fence) and not info.strip() else fence


def has_open_fence(data: bytes, start: int) -> bool:
    """Whether a code fence of the text in `data` never closes; before `start`, where it begins, a line has ended."""
    places = [at for at in (data.find(b"`", start), data.find(b"~", start)) if at >= 0]
    if not places:
        return False
    begin = data.rfind(b"\n", start - 1, min(places))
    end = data.find(b"\n", max(data.rfind(b"`"), data.rfind(b"~")))
    fence = ""
    for match in _FENCE.finditer(str(data[begin : end if end >= 0 else None], "utf-8", "replace")):
        fence = _fence_after(fence, *match.groups())
    return bool(fence)


def _without_closing(title: str) -> str:
    """`title` without the ``##`` that may close it, which a blank must part from the words."""
    bare = title.rstrip(_BLANK)
    opened = bare.rstrip("#")
    return opened if not opened or opened[-1] in _BLANK else bare
