"""Who speaks in a transcript, and when: the line that opens a turn, in the forms met in real folders."""

from __future__ import annotations

import re
from dataclasses import dataclass

CLOCK = r"(?:\d{4}-\d{2}-\d{2}[T ])?\d{1,2}:\d{2}(?::\d{2})?(?:[ \u00a0\u202f]?[ap]\.?m\.?)?"
_TIME_OF_DAY = re.compile(
    r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?:[ \u00a0\u202f]?([ap])\.?m\b)?(?![\d:])", re.IGNORECASE
)
_ROLES = (
    "user|assistant|system|human|ai|bot|agent|tool|developer|claude|chatgpt|gpt|gemini|copilot|"
    "пользователь|ассистент|система|бот|агент|человек|помощник|инструмент"
)
_MARK = r"\#{1,6}[ \t]{1,4}(?:[^\w\s\[(#][^\w\s\[(#]?[ \t])?"
"""A heading's, and a sign that some put before the speaker."""
_TURN = re.compile(
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
_CLOCKS = ("in_bold", "in_brackets", "ahead", "behind", "first", "early", "after_word", "before", "after")
_SPEAKERS = ("bold_role", "role", "named", "name", "second", "word", "heading")
KNOWN = frozenset(_ROLES.split("|"))


@dataclass(frozen=True, slots=True)
class Said:
    """How a speech turn opens: who speaks, when as written, and what follows on the line."""

    role: str
    time: str | None
    text: str


def said_in(line: str, roles: frozenset[str] | None) -> Said | None:
    """The turn that `line` opens, if it does and the speaker is one of `roles`."""
    match = _TURN.match(line)
    if match is None:
        return None
    role = next(filter(None, map(match.group, _SPEAKERS))).strip()
    if roles is not None and role.casefold() not in roles:
        return None
    return Said(role, next(filter(None, map(match.group, _CLOCKS)), None), match.group("text"))


def clock_of(text: str) -> str | None:
    """HH:MM of the first time of day in `text`, of twice twelve hours or of 24."""
    match = _TIME_OF_DAY.search(text)
    if match is None:
        return None
    hour, half = int(match.group(1)), (match.group(3) or "").lower()
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02d}:{match.group(2)}"
