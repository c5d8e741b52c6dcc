"""What a host dreams: reports that it writes, unasked, of memories that it has. They repeat, and state nothing new."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memkit.formats.disk.source import Source

KIND = "dream"
"""The kind of such a report."""
_NAME = "DREAMS.md"
_PLACE = re.compile(r"(?:^|/)memory/dreaming/|(?:^|/)dreaming/(?:[^/]+/)?\d{4}-\d{2}-\d{2}[^/]*$", re.IGNORECASE)
"""The host's folder; where the memory itself is the root, only its dated reports."""
_PHASES = frozenset(("light sleep", "rem sleep"))
"""Headings that a host writes into a day's log above what it dreamt."""


def is_dream(source: Source) -> bool:
    """Whether a file is such a report as a whole, by its name and place.

    >>> paths = ("DREAMS.md", "memory/dreaming/rem/a.md", "dreaming/light/2026-07-03.md", "dreams.md", "dreaming/a.md")
    >>> [is_dream(Source(path, "")) for path in paths]
    [True, True, True, False, False]
    """
    return source.name == _NAME or ("dream" in source.path.lower() and _PLACE.search(source.path) is not None)


def is_phase(headings: Iterable[str]) -> bool:
    """Whether one of the headings of a section, its own and those above it, names a phase of sleep.

    >>> is_phase(["2026-07-03", "Light Sleep"]), is_phase(["REM Sleep", "Темы"]), is_phase(["Light Sleep Study"])
    (True, True, False)
    """
    folded = map(str.casefold, headings)
    return any("sleep" in heading and " ".join(heading.split()) in _PHASES for heading in folded)
