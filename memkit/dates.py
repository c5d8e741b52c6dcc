"""Names of months and weekdays in Russian and English, patterns of their forms, and the day that a name tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import cache, lru_cache
from typing import NamedTuple


class Named(NamedTuple):
    """A month or a day of the week.

    Attributes
    ----------
    stems : str
        The beginnings of its Russian forms; several where no beginning is unique.
    russian, english : str
        The form used in a date.
    pattern : str
        A pattern of all forms and abbreviations, to be matched without regard to case.
    """

    stems: str
    russian: str
    english: str
    pattern: str


MONTHS = (
    Named("январ", "января", "January", "янв(?:ар[ьяюе]м?)?|jan(?:uary)?"),
    Named("феврал", "февраля", "February", "фев(?:рал[ьяюе]м?)?|feb(?:ruary)?"),
    Named("март", "марта", "March", "мар(?:т[ауеом]*)?|mar(?:ch)?"),
    Named("апрел", "апреля", "April", "апр(?:ел[ьяюе]м?)?|apr(?:il)?"),
    Named("май мая мае", "мая", "May", "ма[йяюе]м?|may"),
    Named("июн", "июня", "June", "июн[ьяюе]?м?|june?"),
    Named("июл", "июля", "July", "июл[ьяюе]?м?|july?"),
    Named("август", "августа", "August", "авг(?:уст[ауеом]*)?|aug(?:ust)?"),
    Named("сентябр", "сентября", "September", "сен(?:т(?:ябр[ьяюе]м?)?)?|sept?(?:ember)?"),
    Named("октябр", "октября", "October", "окт(?:ябр[ьяюе]м?)?|oct(?:ober)?"),
    Named("ноябр", "ноября", "November", "ноя(?:бр[ьяюе]м?)?|nov(?:ember)?"),
    Named("декабр", "декабря", "December", "дек(?:абр[ьяюе]м?)?|dec(?:ember)?"),
)
WEEKDAYS = (
    Named("понедельник", "понедельник", "Monday", "понедельник|monday"),
    Named("вторник", "вторник", "Tuesday", "вторник|tuesday"),
    Named("сред", "среда", "Wednesday", "сред[ауы]|wednesday"),
    Named("четверг", "четверг", "Thursday", "четверг|thursday"),
    Named("пятниц", "пятница", "Friday", "пятниц[ауы]|friday"),
    Named("суббот", "суббота", "Saturday", "суббот[ауы]|saturday"),
    Named("воскресень", "воскресенье", "Sunday", "воскресень[ею]|sunday"),
)
_NAMED = (*MONTHS, *WEEKDAYS)
DATE_WORDS = (
    *(stem for name in _NAMED for stem in name.stems.split()),
    *("вчера", "сегодня", "завтра", "послезавтра"),
    *(name.english.lower() for name in _NAMED if name.english != "May"),  # usually a verb
    *("yesterday", "today", "tomorrow"),
)
"""Words that show that a text names a day: stems of Russian words, and whole English words."""

MONTH = rf"(?P<month>{'|'.join(name.pattern for name in MONTHS)})\.?"
DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])"
YEAR = r"(?P<year>(?:19|20)\d\d)"
ORDINAL = r"(?:-?(?:го|е|ого|st|nd|rd|th))?"
"""Parts of the patterns of a date: in a heading or file name (`day_in`), and in a question (`memkit.text.when`)."""


def month_number(word: str) -> int:
    """1 to 12, for a word that `MONTH` matches.

    >>> month_number("Марта"), month_number("dec")
    (3, 12)
    """
    return next(number for number, name in enumerate(MONTHS, 1) if re.fullmatch(name.pattern, word, re.IGNORECASE))


class NamedDay(NamedTuple):
    """A day that a text names, and from where to where in the text."""

    day: date
    start: int
    end: int


def day_in(text: str, years: Iterable[str] = ()) -> NamedDay | None:
    """The first day that a heading or the name of a file tells in full; None where there is none.

    Versions, addresses and longer numbers are no days, and neither is one that only bounds something ("until").

    Parameters
    ----------
    years : iterable of str
        Texts of which the first that has a year gives it to a day without one, which must be all that `text` says, the
        weekday aside.

    Examples
    --------
    >>> names = ("Вторник, 20 января 2026 г.", "January 20th, 2026", "20.01.2026", "план_2026_01_20")
    >>> {str(named.day) for name in names if (named := day_in(name))}
    {'2026-01-20'}
    >>> [day_in(name) for name in ("v20.01.2026.3", "до 20 января 2026", "202601201230", "20 января")]
    [None, None, None, None]
    >>> day_in("20 января", ["Январь", "2026"]).day.isoformat()
    '2026-01-20'
    """
    if _LONG_YEAR.search(text) and (named := _full_day(text)):
        return named
    if not (short := _short_day().fullmatch(text)):
        return None
    year = next((int(match[0]) for other in years if (match := _LONE_YEAR.search(other))), None)
    day = _day_of(short, year) if year else None
    return NamedDay(day, 0, len(text)) if day else None


@lru_cache(256)
def _full_day(text: str) -> NamedDay | None:
    """The first day that a text names with its year; a heading is asked for once for each section below it."""
    named = []
    for pattern in _full_days():
        for match in pattern.finditer(text):
            if (day := _day_of(match, int(match["year"]))) and not _is_bound(text, match.start()):
                named.append(NamedDay(day, match.start(), match.end()))
                break
    return min(named, key=lambda one: one.start, default=None)


_LONG_YEAR = re.compile(r"(?:19|20)\d\d")
_LONE_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_BOUND = re.compile(
    r"(?<!\w)(?:до|к|ко|по|с|со|после|срок|дедлайн|by|due|until|till|before|after|since|from|deadline):? {1,3}\Z",
    re.IGNORECASE,
)
"""What stands before a day that something lasts until or begins with."""
_LONGEST_BOUND = 20


def _is_bound(text: str, start: int) -> bool:
    return _BOUND.search(text, max(0, start - _LONGEST_BOUND), start) is not None


_WEEKDAY = (
    rf"(?:{'|'.join(name.pattern for name in WEEKDAYS)}|пн|вт|ср|чт|пт|сб|вс|(?:mon|tue|wed|thu|fri|sat|sun)[.]?)"
)
_AFTER = r"(?: ?г(?:\.|ода?)?)?(?!\w)(?![-/]\d|\.\d)"


@cache
def _full_days() -> tuple[re.Pattern[str], ...]:
    """The forms of a day with its year."""
    numbers = rf"{YEAR}(?P<by>[-_./])(?P<number>0?[1-9]|1[0-2])(?P=by){DAY}(?![^\W_])(?![-/]\d|\.\d)"
    turned = rf"{DAY}(?P<by>[-./])(?P<number>0?[1-9]|1[0-2])(?P=by){YEAR}{_AFTER}"
    forms = (
        rf"(?<![\w./]){numbers}",
        rf"(?<=[^\W\d_]_){numbers}",  # journal_2026_01_20
        rf"(?<![\w./])(?<!\d-){turned}",
        rf"(?<![\w.]){DAY}{ORDINAL}(?: of)? {{1,3}}{MONTH},? {{1,3}}{YEAR}{_AFTER}",
        rf"(?<![\w.]){MONTH} {{1,3}}(?:the )?{DAY}{ORDINAL},? {{1,3}}{YEAR}{_AFTER}",
    )
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)


@cache
def _short_day() -> re.Pattern[str]:
    """A day without its year, perhaps with the weekday."""
    words = rf"{DAY}{ORDINAL} {{1,3}}{MONTH}", rf"{MONTH} {{1,3}}{DAY}{ORDINAL}"
    either = "|".join(
        word.replace("<day>", f"<day{n}>").replace("<month>", f"<month{n}>") for n, word in enumerate(words)
    )
    return re.compile(rf"\W*(?:{_WEEKDAY},? {{1,3}})?(?:{either})(?:,? {{1,3}}\(?{_WEEKDAY}\)?)?\W*", re.IGNORECASE)


def _day_of(match: re.Match[str], year: int) -> date | None:
    groups = match.groupdict()
    number = groups.get("number")
    if number is None:
        number = month_number(next(filter(None, map(groups.get, ("month", "month0", "month1")))))
    day = int(next(filter(None, map(groups.get, ("day", "day0", "day1")))))
    is_turned = match.start("day") < match.start("number") if "number" in groups and groups.get("by") else False
    if is_turned and groups["by"] != "." and day != int(number) and day <= 12:
        return None  # a day and a month, or a month and a day
    try:
        return date(year, int(number), day)
    except ValueError:
        return None
