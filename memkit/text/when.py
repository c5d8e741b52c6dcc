"""Dates that a text names, as days: «3 марта», "March 3rd", 2026-03-03, "last week", «позавчера».

A date without a year is the last such date before the day of the query, or the next one after it. Relative dates
("yesterday") are relative to that day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import cache
from itertools import pairwise

from memkit.base import late_pattern
from memkit.base.dates import DAY, MONEY, MONTH, MONTHS, ORDINAL, WEEKDAYS, YEAR, month_number

Span = tuple[date, date]
"""First and last day."""

_READ = 2000  # characters; a longer text is not a question
# In days: a shorter span is told day by day, one up to the second by its month, a longer one by its year alone.
_FEW_DAYS, _FEW_MONTHS = 15, 100

_AND_YEAR = rf"(?:,?\s+{YEAR}\b)"
_IN_MONTH = (
    r"(?:в|в\s+эт\w+|с|до|прошл\w+|начал\w+|середин\w+|кон[це]\w+|in|during|since|until|last|early|mid|late|"
    r"(?:end|start|beginning|middle|month|weeks?)\s+of)"
)
_BY_MONTH = r"(?:за|на|по|от|к|о|об|эт\w+|of|for|by|this)"
_OTHER_WORDS = r"(?:may|mar|march|мар|март[ауе]|ма[яею])\b"
"""Months that are also verbs or names of people."""
_ON_DAY = re.compile(r"\b(?:on|of|by|since|until|from|before|after|the)\s+$")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)\b|\bof\b")
_AT_END = re.compile(r"\s*(?:$|[^\w\s])")
_DATE_WORD = r"(?:за|от|числ\w+|дат[аыеу]|датой|день|dated?|day)"
_TWO_DIGITS = r"(?P<day>0[1-9]|[12]\d|3[01])\.(?P<number>0[1-9]|1[0-2])"
# «в 2000 раз», "of 2048 tokens", «за 2000 рублей», "in 2000 ms"
_UNCOUNTED = (
    rf"(?!{MONEY}|\s*:|[.,]\d)(?!\s+(?:тысяч|тыс|раз|стро[кч]|стр|слов|символ|токен|байт|пиксел|точ[ек]"
    r"|челов|пользов|штук|шт|мс|сек|мин|час|км|кг|метр|[кмг]б|users?|people|tokens?|rows?|lines?|words?|characters?"
    r"|chars?|bytes?|[kmg]i?b|ms|sec|min|hours?|requests?|times|items?|pages?|страниц|files?|dim|px))"
)
_COUNTS = {"": 1, "a": 1, "an": 1, "one": 1, "два": 2, "две": 2, "two": 2, "пару": 2, "три": 3, "three": 3}
_COUNT = r"(?P<count>\d{1,4}|два|две|пару|три|an?|one|two|three)"
_UNITS = {
    "day": "день|дня|дней|days?",
    "week": "недел[юиье]|недель|weeks?",
    "month": "месяц(?:а|ев|е|у)?|months?",
    "year": "год[ауе]?|лет|years?",
}
_UNIT = "(?:" + "|".join(f"(?P<{name}>{words})" for name, words in _UNITS.items()) + ")"
_DAYS = {
    "позавчера": -2, "вчера": -1, "сегодня": 0, "завтра": 1, "послезавтра": 2,
    "the day before yesterday": -2, "yesterday": -1, "today": 0, "tomorrow": 1,
}  # fmt: skip  # a table reads better than a column
_STEPS = {word: step - 1 for step, words in enumerate((
    "прошл предыдущ last previous", "эт текущ this", "следующ next"
)) for word in words.split()}  # fmt: skip  # as above
_WHICH = rf"(?P<which>{'|'.join(_STEPS)})(?:ый|ой|ую|ая|ем|ом|им|у|ий|ей)?"
_PAST = r"(?:за\s+последн\w+|(?:in\s+|over\s+|for\s+)?(?:the\s+)?(?:last|past))"


def times(text: str, today: date) -> list[Span]:
    """The dates that `text` names, as spans of days; `today` is the day of the query.

    Examples
    --------
    >>> today = date(2026, 3, 14)
    >>> [str(day) for span in times("что решили 13 января", today) for day in span]
    ['2026-01-13', '2026-01-13', '2027-01-13', '2027-01-13']
    >>> [str(day) for span in times("what happened last week?", today) for day in span]
    ['2026-03-02', '2026-03-08']
    >>> times("какой питон на сервере, 3.12?", today)
    []
    """
    remaining, spans = text.lower(), []
    for pattern, parse in _forms() if _NAMED.search(remaining) else ():
        matches = list(pattern.finditer(remaining))
        for match in matches:
            try:
                spans += parse(match, today)
            except (ValueError, OverflowError):  # no such day, or beyond the calendar
                continue
        if matches:
            remaining = pattern.sub(lambda match: "#" * len(match[0]), remaining)
    return list(dict.fromkeys(spans))


# With it «вчера» finds .67 of five hits from that day; of other numbers no figure was kept.
_TIMES_DAYS = 4
"""How often the dates are repeated in a query, so that they outweigh words such as "yesterday"."""


def in_days(text: str, today: date) -> str:
    """Expand a query with the dates that it names, spelled as memories' dates are; future dates are left out.

    The text is followed by its other words again, and by the dates four times, with the number of the day twice, as it
    is more specific than the month. The repeats matter: most memories with the word «вчера» are of other days. A text
    without past dates is returned unchanged.

    Examples
    --------
    >>> in_days("what broke yesterday?", date(2026, 3, 14)).partition(" 13 13 ")[0]
    'what broke yesterday? what broke ?'
    >>> in_days("в прошлом месяце", date(2026, 3, 14))
    'в прошлом месяце в февраля February 2026 февраля February 2026 февраля February 2026 февраля February 2026'
    """
    read = text[:_READ]
    days = [_spelled(first, last) for first, last in times(read, today) if first <= today and first <= last]
    if not days:
        return text
    for pattern, _ in _forms():
        read = pattern.sub("", read)
    return " ".join([text, *read.split(), *text[_READ:].split(), *days * _TIMES_DAYS])


_MONTH = "|".join(month.pattern for month in MONTHS)
_DIGIT = re.compile(r"\d")  # most paragraphs have none, and this is found in a tenth of the time
_HAS_DAY = late_pattern(
    rf"[\d-](?:(?<=\d)(?:[./]\d\d?[./]\d|{ORDINAL}(?:\s+of)?\s+(?:{_MONTH}))|(?<=-)\d(?:-\d|\d-\d(?!\d)))"
    rf"|\b(?=[adfjmnosадимносфя])(?:{_MONTH})\.?\s+(?:the\s+)?\d"
)
"""What each form that `in_one_spelling` changes has, in small letters: 2026-03-12 is spelled so already."""


def in_one_spelling(text: str) -> str:
    """A text in which each day is written in one way: with its year in digits, else with its month's Russian name.

    >>> in_one_spelling("12 марта 2026, March 12th, 2026, 12.03.2026; Apr 15, 3rd of May, 03 мая")
    '2026-03-12, 2026-03-12, 2026-03-12; 15 апреля, 3 мая, 3 мая'
    """
    for pattern, read in _forms() if _DIGIT.search(text) and _HAS_DAY().search(text.lower()) else ():
        if read in (_whole, _day):
            text = pattern.sub(_respelled, text)
    return text


def _respelled(match: re.Match[str]) -> str:
    said = match.groupdict()
    if said.get("until"):
        return match[0]
    month, day = int(said.get("number") or month_number(said["month"])), int(said["day"])
    return f"{said['year']}-{month:02}-{day:02}" if said["year"] else f"{day} {MONTHS[month - 1].russian}"


def _spelled(first: date, last: date) -> str:
    month = MONTHS[first.month - 1]
    if first == last:
        return f"{first.day} {first.day} {month.russian} {first.year}"
    length = (last - first).days
    if length > _FEW_MONTHS:
        return str(first.year)
    days = [str((first + timedelta(step)).day) for step in range(length + 1)] if length < _FEW_DAYS else []
    return " ".join([*days, month.russian, month.english, str(first.year)])


def _whole(match: re.Match[str], today: date) -> list[Span]:
    year = int(match["year"])
    # Two digits are of this century: no agent kept memories in the last one.
    day = date(year + 2000 if year < 100 else year, int(match["number"]), int(match["day"]))
    return [(day, day)]


def _years(match: re.Match[str], today: date, make: Callable[[int], Span]) -> Iterator[Span]:
    """The span in the named year, else the last and the next one."""
    if match["year"]:
        yield make(int(match["year"]))
        return
    around = []
    for year in range(today.year - 4, today.year + 5):  # the 29th of February is in one of four
        try:
            around.append(make(year))
        except ValueError:
            continue
    for before, after in pairwise(around):
        if before[0] <= today < after[0]:
            yield from (before, after)


def _day(match: re.Match[str], today: date) -> list[Span]:
    if match["month"] == "may" and not _is_dated(match):
        raise ValueError("a verb, as in: step 3 may fail")
    month = month_number(match["month"])
    until = int(match.groupdict().get("until") or match["day"])
    return list(_years(match, today, lambda year: (date(year, month, int(match["day"])), date(year, month, until))))


def _is_dated(match: re.Match[str]) -> bool:
    """Whether the context shows that a number is a day."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    return bool(match["year"] or _ORDINAL.search(match[0]) or _AT_END.match(after) or _ON_DAY.search(before))


def _number(match: re.Match[str], today: date) -> list[Span]:
    month, day = int(match["number"]), int(match["day"])
    return list(_years(match, today, lambda year: (date(year, month, day),) * 2))


def _month(match: re.Match[str], today: date) -> list[Span]:
    month = month_number(match["month"])
    return list(_years(match, today, lambda year: _calendar("month", date(year, month, 1))))


def _near(match: re.Match[str], today: date) -> list[Span]:
    return [(today + timedelta(_DAYS[match[0]]),) * 2]


def _ago(match: re.Match[str], today: date) -> list[Span]:
    count = _count(match)
    unit = next(name for name in _UNITS if match[name])
    return [_calendar(unit, _shifted(today, unit, -count))]


def _past(match: re.Match[str], today: date) -> list[Span]:
    unit = next(name for name in _UNITS if match[name])
    return [(_shifted(today, unit, -_count(match)), today)]


def _count(match: re.Match[str]) -> int:
    word = match["count"] or ""
    return int(word) if word.isdecimal() else _COUNTS[word]


def _shifted_unit(match: re.Match[str], today: date) -> list[Span]:
    unit = next(name for name in _UNITS if match.groupdict().get(name))
    return [_calendar(unit, _shifted(today, unit, _STEPS[match["which"]]))]


def _weekday(match: re.Match[str], today: date) -> list[Span]:
    wanted = next(number for number, day in enumerate(WEEKDAYS) if re.fullmatch(day.pattern, match["weekday"]))
    step = _STEPS[match["which"]]
    day = today - timedelta(today.weekday() - wanted)
    if step < 0:
        day -= timedelta(7 * (day >= today))
    else:
        day += timedelta(7 * step)
    return [(day, day)]


def _shifted(day: date, unit: str, count: int) -> date:
    """`day` moved by `count` units; in a shorter month its last day."""
    if unit in ("day", "week"):
        return day + timedelta(count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
    first = date(months // 12, months % 12 + 1, 1)
    return min(first + timedelta(day.day - 1), _calendar("month", first)[1])


def _calendar(unit: str, day: date) -> Span:
    """The day, calendar week, month or year that `day` is in."""
    if unit == "week":
        monday = day - timedelta(day.weekday())
        return monday, monday + timedelta(6)
    if unit == "month":
        first = day.replace(day=1)
        # No month has more than 31 days, so this lies in the next one.
        return first, (first + timedelta(31)).replace(day=1) - timedelta(1)
    return (day.replace(month=1, day=1), day.replace(month=12, day=31)) if unit == "year" else (day, day)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){pattern}(?!\w)", re.IGNORECASE)


_Form = tuple[re.Pattern[str], Callable[[re.Match[str], date], list[Span]]]
_NAMES = (*(month.pattern for month in MONTHS), *_DAYS, *_STEPS, "назад", "ago", "последн", "past")
_NAMED = re.compile(rf"\d|(?<!\w)(?:{'|'.join(_NAMES)})", re.IGNORECASE)
"""What stands in every date that is named. Few questions have any of it, so few processes need the forms."""


@cache
def _forms() -> tuple[_Form, ...]:
    """The forms of dates; a text that one matches is hidden from the next ones."""
    return (
        (_compiled(rf"(?<!\d[-/]){YEAR}(?P<by>[-/])(?P<number>0?[1-9]|1[0-2])(?P=by){DAY}(?![-/.]\d)"), _whole),
        (_compiled(rf"{YEAR}\.(?P<number>0[1-9]|1[0-2])\.(?P<day>0[1-9]|[12]\d|3[01])(?!\.\d)"), _whole),
        (_compiled(rf"{DAY}\.(?P<number>0?[1-9]|1[0-2])\.{YEAR}(?!\.\d)"), _whole),
        (_compiled(rf"{DAY}\.(?P<number>0?[1-9]|1[0-2])\.(?P<year>\d\d)\s?(?:год[ау]?|г)"), _whole),
        (_compiled(rf"{_DATE_WORD}\s+{_TWO_DIGITS}\.(?P<year>\d\d)(?!\.\d)"), _whole),
        (
            _compiled(
                rf"{DAY}(?:\s?[-–—]\s?(?P<until>[12]\d|3[01]|0?[1-9]))?{ORDINAL}(?:\s+of)?\s+{MONTH}{_AND_YEAR}?"
            ),
            _day,
        ),
        (_compiled(rf"{MONTH}\s+(?:the\s+)?{DAY}(?:st|nd|rd|th)?{_AND_YEAR}?"), _day),
        (_compiled(rf"(?!от){_DATE_WORD}\s+{_TWO_DIGITS}(?P<year>)(?!\.?\d){_UNCOUNTED}"), _number),
        (_compiled(rf"{MONTH}{_AND_YEAR}"), _month),
        (_compiled(rf"(?:{_IN_MONTH}\s+|{_BY_MONTH}\s+(?!{_OTHER_WORDS})){MONTH}(?P<year>)(?!\s+\d)"), _month),
        (
            _compiled(rf"(?:(?:в|за|с|до|in|of|during|since)\s+{YEAR}(?:\s+год[ау]?)?){_UNCOUNTED}"),
            lambda match, today: [_calendar("year", date(int(match["year"]), 1, 1))],
        ),
        (_compiled("|".join(sorted(_DAYS, key=len, reverse=True)).join(("(?:", ")"))), _near),
        (_compiled(rf"{_COUNT}\s+{_UNIT}\s+(?:назад|ago)"), _ago),
        (_compiled(r"(?P<count>)(?P<day>)(?:(?P<week>неделю)|(?P<month>месяц)|(?P<year>год))\s+назад"), _ago),
        (_compiled(rf"{_PAST}\s+(?:{_COUNT}\s+)?{_UNIT}(?<!last week)(?<!last month)(?<!last year)"), _past),
        (_compiled(rf"{_WHICH}\s+{_UNIT}"), _shifted_unit),
        (_compiled(rf"{_WHICH}\s+(?P<weekday>{'|'.join(day.pattern for day in WEEKDAYS)})"), _weekday),
    )
