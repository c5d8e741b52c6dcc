"""Who speaks in a transcript, and when: the line that opens a turn, in the forms met in real folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import time

from memkit.base import late_pattern
from memkit.base.dates import clock_in
from memkit.base.fences import fences, is_heading, is_mark

CLOCK = r"(?:\d{4}-\d{2}-\d{2}[T ])?\d{1,2}:\d{2}(?::\d{2})?(?:[ \u00a0\u202f]?[ap]\.?m\.?)?"
_TIME_OF_DAY = late_pattern(
    r"(?<![\d:.])(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
    r"(?:[ \u00a0\u202f]?(?P<half>[ap])\.?m\b)?(?!:?\d)",
    re.IGNORECASE,
)
_ROLES = (
    "user|assistant|system|human|ai|bot|agent|tool|developer|claude|chatgpt|gpt|gemini|copilot|"
    "пользователь|ассистент|система|бот|агент|человек|помощник|инструмент"
)
_MARK = r"\#{1,6}[ \t]{1,4}(?:[^\w\s\[(#][^\w\s\[(#]?[ \t])?"
"""Matches the mark of a heading, and a sign that some put before the speaker."""
_TURN = late_pattern(
    rf"""^(?:
        \*\*\[(?P<in_bold>{CLOCK})\](?P<bold_role>[^*\n:]++)(?::\*\*|\*\*:?)
        |\[(?P<in_brackets>{CLOCK})\][ \t]*+(?P<role>[^\s:\[\]*][^:\n\[\]*]{{0,39}}):
        |\*{{0,2}}\[(?P<ahead>{CLOCK})\](?:\*\*)?[ \t]{{1,4}}\*\*(?P<named>[^*\n\[\]:]{{1,40}})(?::\*\*|\*\*:)
        |\*\*(?P<name>[^*\n\[\]:]{{1,40}})(?::\*\*|\*\*(?:[ \t]?[(\[](?P<behind>{CLOCK})[)\]])?[ \t]?:)
        |\*\*(?P<first>{CLOCK})[ \t]{{1,4}}(?P<second>[^*\n\[\]:]{{1,40}})(?::\*\*|\*\*:)
        |(?:(?P<early>{CLOCK})[ \t]{{1,4}})?(?P<word>{_ROLES})(?:[ \t]?[(\[](?P<after_word>{CLOCK})[)\]])?[ \t]*+:
        |{_MARK}(?:[(\[]?(?P<before>{CLOCK})[)\]]?[ \t])?(?P<heading>{_ROLES})
            (?:[ \t,—–-]{{1,3}}[(\[]?(?P<after>{CLOCK})[)\]]?)?[ \t]*+:?+[ \t]*+\#*+[ \t]*+$
    )[ \t]*+(?P<text>.*)$""",
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_SIGNS = "".join(sorted({role[0] for role in _ROLES.split("|")}))
_MAY_TURN = re.compile(rf"\n((?:\#(?=[^\n]*[{_FIRST_SIGNS}])|[*\[\d{_FIRST_SIGNS}][^\n:]*:)[^\n]*)", re.IGNORECASE)
"""A line that has what every turn has; not with ^: see `memkit.base.fences`."""
_CLOCKS = ("in_bold", "in_brackets", "ahead", "behind", "first", "early", "after_word", "before", "after")
_SPEAKERS = ("bold_role", "role", "named", "name", "second", "word", "heading")
KNOWN = frozenset(_ROLES.split("|"))
_ESCAPE = "\\"


@dataclass(frozen=True, slots=True)
class Turn:
    """The opening of a turn: the speaker, the time as written, and the text that follows on the line."""

    role: str
    time: str | None
    text: str


def turns_in(text: str, roles: frozenset[str] | None) -> Iterator[tuple[int, Turn]]:
    """The turns that the lines of a text open, code or not, each with its line.

    >>> [(line, turn.role, turn.text) for line, turn in turns_in("Ещё:\\n**User**: чай\\n## Bot", KNOWN)]
    [(2, 'User', 'чай'), (3, 'Bot', '')]
    """
    text, line, offset = f"\n{text}", 0, 0
    for match in _MAY_TURN.finditer(text):
        if turn := turn_of(match[1], roles):
            line += text.count("\n", offset, match.start(1))
            offset = match.start(1)
            yield line, turn


def turn_of(line: str, roles: frozenset[str] | None) -> Turn | None:
    """The turn that `line` opens; None where it opens none, or its speaker is not one of `roles`."""
    match = _TURN().match(line) if ":" in line or line[:1] == "#" else None
    if match is None:
        return None
    role = next(filter(None, map(match.group, _SPEAKERS))).strip()
    if roles is not None and role.casefold() not in roles:
        return None
    return Turn(role, next(filter(None, map(match.group, _CLOCKS)), None), match.group("text"))


def clock_of(text: str) -> time | None:
    """The first time of day in `text`, of twice twelve hours or of 24.

    >>> str(clock_of("[10:05:42 PM] чай")), clock_of("[25:00] чай")
    ('22:05:42', None)
    """
    return clock_in(_TIME_OF_DAY().search(text)) if ":" in text else None


def escaped(text: str, *, open_fence: bool = False) -> str:
    r"""A text escaped for a transcript, so that no line of it is parsed as another turn.

    A line gets a backslash where it would otherwise be a heading, a turn, the mark of a code fence that never
    closes, or a blank at the edge of what was said. Lines within a code fence stay as they are, as nothing there is
    read for anything else: code runs. `open_fence` says that a fence above never closed, so that none may begin.

    >>> print(escaped("Вот:\n# да\n```\n# код\n```"))
    Вот:
    \# да
    ```
    # код
    ```
    """
    lines = text.split("\n")
    code = fences(text)
    free = 1 if open_fence else code.unclosed or len(lines) + 1  # from there on no line is code
    filled = [number for number, line in enumerate(lines, 1) if line.strip()]
    first, last = (filled[0], filled[-1]) if filled else (len(lines) + 1, 0)
    return "\n".join(
        line
        if number < free and number in code
        else f"{_ESCAPE}{line}"
        if not first <= number <= last or _reads_otherwise(line, number >= free)
        else line
        for number, line in enumerate(lines, 1)
    )


def unescaped(lines: Iterable[str], is_code: Iterable[bool]) -> list[str]:
    r"""The lines of a turn as they were said.

    >>> unescaped(["\\# да", "\\\\# нет"], [False, False]) == ["# да", "\\# нет"]
    True
    """
    plain = []
    for line, code in zip(lines, is_code, strict=True):
        is_quoted = not code and line.startswith(_ESCAPE) and _is_special(line.lstrip(_ESCAPE))
        plain.append(line[1:] if is_quoted else line)
    return plain


def _reads_otherwise(line: str, marks: bool) -> bool:
    bare = line.lstrip(_ESCAPE)
    if bare != line:
        return _is_special(bare)
    return _opens(line) or (marks and is_mark(line))


def _is_special(line: str) -> bool:
    return not line.strip() or is_mark(line) or _opens(line)


def _opens(line: str) -> bool:
    """Whether a line is a heading or a turn, where it is no code."""
    return is_heading(line) or turn_of(line, None) is not None
