"""Converts a parsed scalar (a string from YAML, anything from JSON) to the type of its field."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections import Counter
from datetime import UTC, datetime, time, timedelta

from memkit.base.dates import Told, told, told_by_iso
from memkit.formats.syntax.json import Number

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_INT64 = range(-(2**63), 2**63)


def text_of(value: object) -> str | None:
    """A string as written, also where JSON holds a number; None for null and for lists and objects.

    >>> text_of("чай"), text_of(10), text_of(True), text_of(["чай"])
    ('чай', '10', 'true', None)
    """
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
    """A finite number; None for anything else.

    >>> number_of("0.5"), number_of(10), number_of("inf"), number_of(True)
    (0.5, 10.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def integer_of(value: object) -> int | None:
    """A whole number that fits 64 bits; None for anything else.

    >>> integer_of("10"), integer_of(10.0), integer_of(10.5)
    (10, 10, None)
    """
    number = number_of(value)
    if number is None or number != int(number):
        return None
    exact = isinstance(value, int) or (isinstance(value, str) and _WHOLE.fullmatch(value))
    whole = int(value) if exact else int(number)  # type: ignore[call-overload]  # exact is an int or its digits
    return whole if whole in _INT64 else None


def bool_of(value: object) -> bool | None:
    """True or false, as JSON or YAML spell it; None for anything else.

    >>> bool_of(True), bool_of("no"), bool_of("нет")
    (True, False, None)
    """
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}.get(str(value).lower())


_NO_DATE = ("0", "-1", "never", "none", "n/a", "unknown", "tbd", "никогда", "нет", "неизвестно")


def states_date(value: object) -> bool:
    """Whether a value is more than blank, a yes or no, or a word for no date.

    >>> [value for value in ("вчера", "2026-02-30", ["2026"], " - ", "never", "no", [], None) if states_date(value)]
    ['вчера', '2026-02-30', ['2026']]
    """
    words = (words_in(value) or "").strip().casefold()
    return any(map(str.isalnum, words)) and bool_of(words) is None and words not in _NO_DATE


def time_of(value: object) -> datetime | None:
    """The time of a date field as a naive moment in UTC, in any form of `memkit.base.dates.told`; a day is midnight.

    >>> str(time_of("2026-03-01T12:30+03:00")), str(time_of("1 марта 2026")), time_of("скоро")
    ('2026-03-01 09:30:00', '2026-03-01 00:00:00', None)
    """
    found = _told(value)
    return found.moment if found else None


def iso_time_of(value: object) -> datetime | None:
    """`time_of` for ISO 8601 alone, which the documents' formats ask for."""
    text = text_of(value)
    found = None if text is None else told_by_iso(text)
    return found.moment if found else None


def epoch_of(value: object) -> datetime | None:
    """`time_of` for a value that is digits alone."""
    text = (text_of(value) or "").strip()
    return time_of(text) if text.isdecimal() else None


def end_of(value: object) -> datetime | None:
    """The last instant of a date field: a time is that instant, a day ends with the day, a week with its Sunday.

    >>> str(end_of("2026-09-22")), str(end_of("2026-09-22T08:55:46+03:00"))
    ('2026-09-22 23:59:59.999999', '2026-09-22 05:55:46')
    """
    found = _told(value)
    return found.end if found else None


_UNITS = {
    "s": ("s sec secs second seconds с сек секунда секунды секунд", {"seconds": 1}),
    "min": ("min mins minute minutes мин минута минуты минут", {"minutes": 1}),
    "h": ("h hr hrs hour hours ч час часа часов", {"hours": 1}),
    "d": ("d day days д день дня дней", {"days": 1}),
    "w": ("w wk week weeks нед неделя недели недель", {"days": 7}),
    "mo": ("mo month months мес месяц месяца месяцев", {"months": 1}),
    "y": ("y yr year years г год года лет", {"months": 12}),
}
"""The units of a length, with their words; "m" is a minute or a month, so it is none."""
_UNIT_OF_WORD = {word: lengths for words, lengths in _UNITS.values() for word in words.split()}
_LENGTH = re.compile(r"(\d{1,9})\s*([^\W\d_]*)\.?")
_ISO_LENGTH = re.compile(
    r"P(?:(?P<y>\d{1,9})Y)?(?:(?P<mo>\d{1,9})M)?(?:(?P<w>\d{1,9})W)?(?:(?P<d>\d{1,9})D)?"
    r"(?:T(?:(?P<h>\d{1,9})H)?(?:(?P<min>\d{1,9})M)?(?:(?P<s>\d{1,9})S)?)?"
)


def end_after(value: object, begin: datetime, unit: str = "") -> datetime | None:
    """The end of what lasts so long from `begin` on, as the last instant; None where `value` is no length.

    Whole days after a day without a time are a day.

    Parameters
    ----------
    unit : str
        The unit of a number that names none.

    Examples
    --------
    >>> begin = datetime(2026, 1, 31)
    >>> [str(end_after(text, begin)) for text in ("14d", "1 month", "PT12H", "14")]
    ['2026-02-14 23:59:59.999999', '2026-02-28 23:59:59.999999', '2026-01-31 12:00:00', 'None']
    """
    length = _length_of((text_of(value) or "").strip(), unit)
    if length is None:
        return None
    months = begin.year * 12 + begin.month - 1 + length.pop("months", 0)
    try:
        last_day = monthrange(months // 12, months % 12 + 1)[1]
        begin = begin.replace(year=months // 12, month=months % 12 + 1, day=min(begin.day, last_day))
        end = begin + timedelta(**length)
        is_day = begin.time() == end.time() == time() and set(length) <= {"days"}
        return Told(end, int(is_day)).end
    except (ValueError, OverflowError):  # beyond the years that Python has
        return None


def _length_of(text: str, unit: str) -> dict[str, int] | None:
    """A length in words or ISO 8601 as the numbers of its units."""
    length = Counter[str]()
    if match := _LENGTH.fullmatch(text):
        parts = [(match[1], _UNIT_OF_WORD.get(match[2].lower() or unit))]
    elif len(text) > 2 and (match := _ISO_LENGTH.fullmatch(text.upper())):
        parts = [(number, _UNITS[name][1]) for name, number in match.groupdict().items() if number]
    else:
        return None
    for number, units in parts:
        if units is None:
            return None
        length.update({name: size * int(number) for name, size in units.items()})
    return dict(length) or None


def _told(value: object) -> Told | None:
    text = text_of(value)
    return None if text is None else told(text)


def end_of_day(value: object) -> datetime | None:
    """The last instant of a date written YYYY-MM-DD."""
    day = day_of(value)
    return None if day is None else datetime.combine(day, time.max)


def end_text(end: datetime) -> str:
    """An end as a file has it: the last instant of a day as the day, any other time with UTC's mark.

    >>> end_text(datetime(2026, 9, 22, 23, 59, 59, 999999)), end_text(datetime(2026, 9, 22, 5, 55, 46))
    ('2026-09-22', '2026-09-22T05:55:46Z')
    """
    moment = end if end.tzinfo is None else end.astimezone(UTC).replace(tzinfo=None)
    return moment.date().isoformat() if moment.time() == time.max else f"{moment.isoformat()}Z"


def day_of(value: object) -> datetime | None:
    """A date written YYYY-MM-DD, as its midnight."""
    text = text_of(value)
    return iso_time_of(text) if text is not None and _DAY.fullmatch(text) else None
