"""Converts a parsed scalar (a string from YAML, anything from JSON) to the type of its field."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from memkit.formats.syntax.json import Number

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_BASIC = re.compile(r"\d{8}(?:T\d\d(?:\d\d(?:\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)
"""ISO 8601 without hyphens and colons."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_INT64 = range(-(2**63), 2**63)


def text_of(value: object) -> str | None:
    """A string as written, also where JSON holds a number; None for null and for lists and objects."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (list, dict)):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.text if isinstance(value, Number) else str(value)


def words_of(value: object) -> list[str] | None:
    """A list of strings; None where `value` is not a flat list."""
    if not isinstance(value, list):
        return None
    words = [text_of(item) for item in value]
    return None if None in words else [word for word in words if word is not None]


def loose_words(value: object) -> list[str]:
    """The words of a value that should be a list of strings and is something else."""
    if isinstance(value, list):
        return [word for word in map(text_of, value) if word is not None]
    text = text_of(value)
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


def words_in(value: object) -> str | None:
    """The words of whatever stands where a string should; None for null."""
    if isinstance(value, list):
        return " ".join(filter(None, map(words_in, value)))
    if isinstance(value, dict):
        return " ".join(f"{key}: {words_in(item) or ''}".rstrip() for key, item in value.items())
    return text_of(value)


def number_of(value: object) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def integer_of(value: object) -> int | None:
    """A whole number that fits 64 bits."""
    number = number_of(value)
    if number is None or number != int(number):
        return None
    exact = isinstance(value, int) or (isinstance(value, str) and _WHOLE.fullmatch(value))
    whole = int(value) if exact else int(number)  # type: ignore[call-overload]  # exact is an int or its digits
    return whole if whole in _INT64 else None


def bool_of(value: object) -> bool | None:
    """True or false, as JSON or YAML spell it."""
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}.get(str(value).lower())


_NO_DATE = ("0", "never", "none", "n/a", "unknown", "tbd", "никогда", "нет", "неизвестно")


def states_date(value: object) -> bool:
    """Whether a value is more than blank, a yes or no, or a word for no date.

    >>> [value for value in ("вчера", "2026-02-30", ["2026"], " - ", "never", "no", [], None) if states_date(value)]
    ['вчера', '2026-02-30', ['2026']]
    """
    words = (words_in(value) or "").strip().casefold()
    return any(map(str.isalnum, words)) and bool_of(words) is None and words not in _NO_DATE


def time_of(value: object) -> datetime | None:
    """An ISO 8601 time stamp or date as a naive moment in UTC; a bare date is midnight."""
    text = text_of(value)
    # Python itself reads a time stamp only up to a NUL.
    if text is None or "\0" in text or not ((text[4:5] == "-" and len(text) >= 10) or _BASIC.fullmatch(text.strip())):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def day_of(value: object) -> datetime | None:
    """A date written YYYY-MM-DD, as its midnight."""
    text = text_of(value)
    return time_of(text) if text is not None and _DAY.fullmatch(text) else None
