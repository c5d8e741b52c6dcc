"""Names of months and weekdays in Russian and English, the day that a name tells, and the time that a field tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import NamedTuple

from memkit.base import late_pattern


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
    Named("январ", "января", "January", "янв(?:ар[ьяюеё]м?)?|jan(?:uary)?"),
    Named("феврал", "февраля", "February", "фев(?:рал[ьяюеё]м?)?|feb(?:ruary)?"),
    Named("март", "марта", "March", "мар(?:т[ауеом]*)?|mar(?:ch)?"),
    Named("апрел", "апреля", "April", "апр(?:ел[ьяюеё]м?)?|apr(?:il)?"),
    Named("май мая мае", "мая", "May", "ма[йяюе]м?|may"),
    Named("июн", "июня", "June", "июн[ьяюеё]?м?|june?"),
    Named("июл", "июля", "July", "июл[ьяюеё]?м?|july?"),
    Named("август", "августа", "August", "авг(?:уст[ауеом]*)?|aug(?:ust)?"),
    Named("сентябр", "сентября", "September", "сен(?:т(?:ябр[ьяюеё]м?)?)?|sept?(?:ember)?"),
    Named("октябр", "октября", "October", "окт(?:ябр[ьяюеё]м?)?|oct(?:ober)?"),
    Named("ноябр", "ноября", "November", "ноя(?:бр[ьяюеё]м?)?|nov(?:ember)?"),
    Named("декабр", "декабря", "December", "дек(?:абр[ьяюеё]м?)?|dec(?:ember)?"),
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
    if not _DIGIT.search(text) or not (short := _short_day().fullmatch(text)):
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
            before = text[max(0, match.start() - _LONGEST_BOUND) : match.start()]
            if (day := _day_of(match, int(match["year"]))) and not _BOUND.search(before):
                named.append(NamedDay(day, match.start(), match.end()))
                break
    return min(named, key=lambda one: one.start, default=None)


_DIGIT = re.compile(r"\d")
_LONG_YEAR = re.compile(r"(?:19|20)\d\d")
_LONE_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_BOUND = re.compile(
    r"(?<!\w)(?:до|к|ко|по|с|со|после|срок|дедлайн|by|due|until|till|before|after|since|from|deadline):? {1,3}\Z",
    re.IGNORECASE,
)
"""What stands before a day that something lasts until or begins with."""
_LONGEST_BOUND = 20
"""Characters before a day that are looked at: the longest of these words has eight, and blanks follow."""


_WEEKDAY = (
    rf"(?:{'|'.join(name.pattern for name in WEEKDAYS)}|пн|вт|ср|чт|пт|сб|вс|(?:mon|tue|wed|thu|fri|sat|sun)[.]?)"
)
_AFTER = r"(?: ?г(?:\.|ода?)?)?(?!\w)(?![-/]\d|\.\d)"


@cache
def _full_days() -> tuple[re.Pattern[str], ...]:
    """The forms of a day with its year."""
    numbers = rf"{YEAR}(?P<by>[-_./])(?P<number>0?[1-9]|1[0-2])(?P=by){DAY}(?!(?!T\d)[^\W_])(?![-/]\d|\.\d)"
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


class Told(NamedTuple):
    """What a date field tells: a naive moment in UTC, of how many days it is the first instant, 0 of a time, and the
    zone that the text names.
    """

    moment: datetime
    days: int = 0
    zone: tzinfo | None = None

    @property
    def end(self) -> datetime:
        """The last instant of it: of a time itself, of a day or a week its last microsecond.

        Of midnight it is the microsecond before, as midnight in a column stands for the day that it begins.
        """
        if self.days:
            days = min(self.days - 1, (datetime.max - self.moment).days)
            return datetime.combine(self.moment + timedelta(days=days), time.max)
        is_midnight = self.moment.time() == time() and self.moment > datetime.min
        return self.moment - timedelta(microseconds=1) if is_midnight else self.moment


ZONES = {
    "z utc ut gmt": 0,
    "wet": 0,
    "west cet": 1,
    "cest eet sast": 2,
    "eest msk мск": 3,
    "samt": 4,
    "yekt": 5,
    "omst": 6,
    "novt krat": 7,
    "sgt hkt irkt awst": 8,
    "jst kst yakt": 9,
    "aest vlat": 10,
    "aedt magt": 11,
    "nzst pett": 12,
    "nzdt": 13,
    "est cdt": -5,
    "edt": -4,
    "mdt": -6,
    "mst pdt": -7,
    "pst": -8,
}
"""Hours from UTC of the names of zones that mean one thing.

Not listed are those that mean several, and a time with one of them is not read."""
SEVERAL_ZONES = frozenset(("cst", "ist", "bst", "ast"))
"""CST is of America and China, IST of India, Israel and Ireland, BST of Britain and Bangladesh, AST of the Atlantic and
Arabia.
"""
_ZONE_HOURS = {word: hours for words, hours in ZONES.items() for word in words.split()}
# A round bound, so that a page in a field of a date costs nothing.
_LONGEST_TIME = 100
"""Characters of a time at most; a longer text is none, and is not looked at."""
_EPOCH = re.compile(r"([1-3]\d{9})(\d{3}|\d{6}|\d{9})?(?:\.(\d{1,9}))?", re.ASCII)
"""Seconds since 1970, of the years 2001 to 2096, or their thousandths, millionths or billionths."""
# Years in which a time of 14 digits is no other number: none before Unix counts, none after what anybody plans.
_CALENDAR = range(1970, 2101)
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(?:(\d\d)(\d{3})?)?", re.ASCII)
"""A time as 12, 14 or 17 digits."""
_CLOCK_AND_ZONE = late_pattern(
    r"(?<![\d:.,+-])(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?)?)?(?![\d:])"
    r"(?:\s?(?P<half>[ap])\.?m\b\.?)?"
    r"(?P<year>\s\d{4}(?=\s[+-]\d{4}))?"  # as git has it: 10:05:00 2026 +0300
    r"(?:\s?\(?(?:Z|UTC|GMT)?(?P<offset>[+-]\d{1,2}(?::?\d\d)?)(?!\d)\)?(?:\s[^\W\d_]{2,5}\b)?"  # and Go: +0300 MSK
    r"|\s?(?P<name>[^\W\d_]{2,32}/[\w/+-]{2,64}|[^\W\d_]{1,5}))?"
    r"(?:\s?\((?P<comment>[^()]{1,60})\))?(?:\s?\[(?P<region>[\w/+-]{1,64})\])?",
    re.IGNORECASE,
)
_SPACES = re.compile(r"(?:[ ,@—–]|(?<= )-(?= )|\bat\b|\bв\b)+", re.IGNORECASE)
_OTHER_CLOCK = re.compile(r"(?<=\d[ T])(\d{1,2})[.hч](\d\d)(?:\.(\d\d))?(?![\d.]|-\d\d?\b)")
"""A time whose parts no colon divides, after its day; 10.00-12.00 is a span, whose end is no offset."""
_OF_WEEK = re.compile(r"\d{4}-?W\d\d", re.ASCII | re.IGNORECASE)
_OF_ISO = re.compile(r"(\d{4})-?W(\d\d)(?:-?([1-7]))?", re.ASCII | re.IGNORECASE)


def told(text: str) -> Told | None:
    """What the text of a date field tells; None where it is no day and no time, or names a zone that may be several.

    Read are ISO 8601 with its weeks (a week is its Monday), seconds since 1970 and their thousandths, millionths and
    billionths, 12, 14 or 17 digits that are a time, and a day in words or numbers with a time, AM or PM, an offset, and
    a zone by its word or as ``[Europe/Moscow]``. A time without a zone is UTC.

    Examples
    --------
    >>> forms = ("2026-07-01T10:05:00+03:00", "1782889500", "1782889500000", "20260701070500")
    >>> {str(told(form).moment) for form in forms}
    {'2026-07-01 07:05:00'}
    >>> [str(told(form).moment) for form in ("Wed, 01 Jul 2026 10:05 MSK", "1 июля 2026 г., 10:05", "2026-W27")]
    ['2026-07-01 07:05:00', '2026-07-01 10:05:00', '2026-06-29 00:00:00']
    >>> told("2026-07-01 10:00 CST") is None
    True
    """
    return _told(text) if text and len(text) <= _LONGEST_TIME and "\0" not in text else None


@lru_cache(1024)
def _told(text: str) -> Told | None:
    """What a short text tells; each date of front matter is asked for several times."""
    text = in_digits(" ".join(text.split()))  # a browser writes a narrow blank before AM
    text = _OTHER_CLOCK.sub(lambda match: ":".join(filter(None, match.groups())), text)
    try:
        return told_by_iso(text) or _of_digits(text) or _in_words(text)
    except (ValueError, OverflowError):  # no such day, or none that Python has
        return None


_BASIC = re.compile(r"\d{8}(?:T\d\d(?:\d\d(?:\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)
"""ISO 8601 without hyphens and colons."""


_FRACTIONS = (".", ",")
"""What Python takes for the mark of a second's part, also after an hour."""


def told_by_iso(text: str) -> Told | None:
    """What a text in ISO 8601 tells.

    >>> told_by_iso("2026-07-01"), told_by_iso("1782889500")
    (Told(moment=datetime.datetime(2026, 7, 1, 0, 0), days=1, zone=None), None)
    """
    text = text.strip()
    if "\0" in text:  # up to which Python itself reads a time stamp
        return None
    # A sign after a day is an offset, which Python would take for the mark before a time.
    if not ((text[4:5] == "-" and len(text) >= 10 and text[10:11] not in ("+", "-")) or _BASIC.fullmatch(text)):
        return None
    if text[13:14] in _FRACTIONS:
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        return Told(_in_utc(moment), int(len(text) <= 10), moment.tzinfo)
    except (ValueError, OverflowError):
        return None


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _of_digits(text: str) -> Told | None:
    if match := _EPOCH.fullmatch(text):
        seconds, *parts = match.groups("")
        # Digits, as a float would move the last of them.
        micros = int(f"{''.join(parts)}000000"[:6])
        return Told(datetime(1970, 1, 1) + timedelta(seconds=int(seconds), microseconds=micros), zone=UTC)
    if match := _COMPACT.fullmatch(text):
        year, month, day, hour, minute, second, part = (int(digits or 0) for digits in match.groups())
        moment = datetime(year, month, day, hour, minute, second, part * 1000)
        return Told(moment) if moment.year in _CALENDAR else None
    return None


def _in_words(text: str) -> Told | None:
    """A day in words or numbers, perhaps with a clock's time and a zone before, after or within it."""
    clock = next((match for match in _CLOCK_AND_ZONE().finditer(text) if match["minute"] or match["half"]), None)
    if clock is None:
        day = _whole_day(text)
        return Told(datetime.combine(day, time()), 7 if _OF_WEEK.fullmatch(text) else 1) if day else None
    before, after = text[: clock.start()].removesuffix("T"), (clock["year"] or "") + text[clock.end() :]
    name = clock["name"] or clock["region"] or clock["comment"] or ""
    day = _whole_day(f"{before} {after}")
    if clock["name"] and (other := _whole_day(f"{before} {name}{after}")):  # "10:05 July 1st 2026"
        day, name = other, ""
    local = _local(day, clock) if day else None
    zone = _zone_of(clock, name) if local else None
    is_named = clock["offset"] or name
    return Told(_in_utc(local.replace(tzinfo=zone)), zone=zone if is_named else None) if local and zone else None


def _local(day: date, clock: re.Match[str]) -> datetime | None:
    if clock["half"] and int(clock["hour"]) > 12:
        return None
    part = int(((clock["part"] or "") + "000000")[:6])
    return datetime.combine(day, clock_in(clock) or time()).replace(microsecond=part)


def clock_in(match: re.Match[str] | None) -> time | None:
    """The time of a match with an hour, a minute, a second and a half of the day; None where it has no hour."""
    if match is None or match["hour"] is None:
        return None
    hour, half = int(match["hour"]), match["half"]
    if half and hour <= 12:
        hour = hour % 12 + 12 * (half in "pP")
    return time(hour, int(match["minute"] or 0), int(match["second"] or 0))


def _zone_of(clock: re.Match[str], name: str) -> tzinfo | None:
    """The zone of a time: its offset, else its word or region, else UTC; None for a word that names none or several."""
    if offset := clock["offset"]:
        digits = offset[1:].replace(":", "")
        hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
        length = timedelta(hours=hours, minutes=minutes)
        return timezone(-length if offset[0] == "-" else length)
    if "/" in name:
        from zoneinfo import ZoneInfo  # hardly any text names one

        with suppress(KeyError, OSError):
            return ZoneInfo(name)
        return None
    distance = _ZONE_HOURS.get(name.lower()) if name else 0
    return None if distance is None else timezone(timedelta(hours=distance))


def _whole_day(text: str) -> date | None:
    """The day that is all that a text says, a weekday and signs aside."""
    text = _SPACES.sub(" ", text).strip(" .")
    if match := _OF_ISO.fullmatch(text):
        return date.fromisocalendar(int(match[1]), int(match[2]), int(match[3] or 1))
    match = _said_day().fullmatch(text)
    if match is None:
        return None
    groups = {name.rstrip("0123456789"): value for name, value in match.groupdict().items() if value}
    number = int(groups["number"]) if "number" in groups else month_number(groups["month"])
    day, is_slashed = int(groups["day"]), groups.get("by") not in (None, ".") and "last" in groups
    if is_slashed and day != number and day <= 12:
        return None  # a day and a month, or a month and a day
    return date(int(groups["year"]), number, day)


@cache
def _said_day() -> re.Pattern[str]:
    """A day in each of its forms, the weekday before or after it."""
    year, day, month = r"(?P<year>\d{4})", DAY, MONTH
    number = r"(?P<number>1[0-2]|0?[1-9])"
    forms = (
        rf"{year}(?P<by>[-_./]){number}(?P=by){day}",
        r"(?P<year>\d{4})(?P<number>\d\d)(?P<day>\d\d)",
        rf"{day}(?P<by>[-./]){number}(?P=by)(?P<last>{year})",
        rf"{day}{ORDINAL}(?: of)?[ -]{month}[ -]{year}(?: ?г(?:\.|ода?)?)?",
        rf"{month} (?:the )?{day}{ORDINAL} {year}",
        rf"{year} {month} {day}{ORDINAL}",
    )
    names = r"\(\?P(<|=)(year|day|month|number|by|last)(>|\))"
    unique = (re.sub(names, rf"(?P\g<1>\g<2>{n}\g<3>", form) for n, form in enumerate(forms))
    return re.compile(rf"(?:{_WEEKDAY}\.? )?(?:{'|'.join(unique)})(?: \(?{_WEEKDAY}\)?)?", re.IGNORECASE)


_HOURS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_HOURS |= {"eleven": 11, "twelve": 12, "два": 2, "три": 3, "четыре": 4, "пять": 5, "шесть": 6, "семь": 7, "восемь": 8}
_HOURS |= {"девять": 9, "десять": 10, "одиннадцать": 11, "двенадцать": 12}
_NOONS = {"noon": 12, "midday": 12, "полдень": 12, "midnight": 0, "полночь": 0}
_FROM_HOUR = {"half past": 30, "quarter past": 15, "quarter to": -15, "без четверти": -15}
_DAY_PARTS = r"(?P<a>утра|in the morning)|(?P<p>дня|вечера|in the (?:afternoon|evening))|(?P<n>ночи|at night)"
_HINTS = re.compile(
    r"past|quart|четв|noon|midday|пол[дн]|night|утра|morn|дня|вече|even|ночи|час|clock|\d ?ч|(?:at|в) \d"
)
"""What any text has in small letters that the next one finds: found six times as fast."""
_HAS_CLOCK_WORD = re.compile(
    rf"(?:{'|'.join((*_FROM_HOUR, *_NOONS))}|{_DAY_PARTS}|час(?:а|ов)?|o.clock)(?!\w)|\d ?ч\b|\b(?:at|в) \d", re.I
)
_IN_WORDS = late_pattern(
    rf"(?<![\w:.,/-])(?P<at>(?:at|в) )?(?:(?P<part>{'|'.join(_FROM_HOUR)}) )?"
    rf"(?:(?P<hour>\d{{1,2}})(?:[:.](?P<minute>\d\d))?|(?P<word>{'|'.join((*_HOURS, *_NOONS))}))"
    rf"(?P<unit> ?(?:час(?:а|ов)?|ч\.?|o.clock)(?!\w))?(?: (?:{_DAY_PARTS}))?(?!\w|[:.]\d)"
    r"(?P<ends>(?=,(?! ?\d)|:|\Z)|(?P<dash>(?= [—–-] )))?",
    re.IGNORECASE,
)
_AT_BEGIN = re.compile(r"(?:\A|[\d).]|\bг(?:ода)?)[ ,]{0,3}\Z")
"""What stands before an hour that opens a text or follows a day."""


@lru_cache(256)  # each heading is asked for its day, its time and its zone
def in_digits(text: str) -> str:
    """A text in which each time of day with words is its digits; what may as well be a count stays: «2 дня».

    >>> [in_digits(text) for text in ("9:30 вечера: чай", "at half past nine", "12 at night", "8 часов сна, 22 дня")]
    ['21:30: чай', '09:30', '00:00', '8 часов сна, 22 дня']
    >>> [in_digits(text) for text in ("В 9: чай", "2026-07-01 at 9", "14 часов: чай", "в 9 раз", "чай: в 9", "3 часа")]
    ['09:00: чай', '2026-07-01 09:00', '14:00: чай', 'в 9 раз', 'чай: в 9', '3 часа']
    """
    return _IN_WORDS().sub(_digits_of, text) if _HINTS.search(text.lower()) and _HAS_CLOCK_WORD.search(text) else text


def _digits_of(match: re.Match[str]) -> str:
    said = {name: value.lower() for name, value in match.groupdict().items() if value is not None}
    half = next((half for half in "apn" if half in said), "")
    hour, minute = int(said.get("hour") or (_HOURS | _NOONS)[said["word"]]), int(said.get("minute", 0))
    if said.get("word") in _NOONS:
        is_time = not said.keys().isdisjoint(("at", "ends", "part"))
    elif half:
        counts = (2, 3, 4, 21, 22, 23) if said[half] == "дня" else (2, 3, 4)
        is_time = half == "a" or hour not in counts or not said.keys().isdisjoint(("at", "minute", "unit", "part"))
    else:
        is_time = "part" in said or ("unit" in said and ("at" in said or "clock" in said["unit"]))
        if not is_time and "ends" in said:
            before = match.string[max(0, match.start() - _LONGEST_BOUND) : match.start()]
            is_count = "unit" not in said or "dash" in said or before or hour in range(5)  # 3 часа
            is_time = bool(_AT_BEGIN.search(before)) if "at" in said else not is_count
    if not is_time or hour > 23 or minute > 59 or (half == "a" and hour > 12):
        return match[0]
    if half and hour <= 12:
        hour = hour % 12 + 12 * (half == "p" or (half == "n" and hour in range(7, 12)))
    minutes = (60 * hour + minute + _FROM_HOUR.get(said.get("part", ""), 0)) % (24 * 60)
    return f"{minutes // 60:02}:{minutes % 60:02}"


_TIME_AFTER = (
    r"(?:[-_ —–]+|, ?|(?P<mark>[Tt])| at | в )(?P<clock>"
    r"(?:(?P<hour>\d{1,2})(?P<by>[-:hч._])(?P<minute>\d\d)(?:(?P=by)(?P<second>\d\d))?"
    r"|(?P<digits>\d{4}(?:\d\d)?)|(?P<alone>\d{1,2})(?= ?[aApP][mM]))"
    r"(?:[.,]\d{3}|-\d{3}(?=Z))?(?: ?(?P<half>[aApP])[mM](?!\w))?)"
    r"(?: ?(?:по )?\(?(?P<zone>[Zz]|(?:UTC|GMT)?\+\d\d?(?::?\d\d)?|(?:UTC|GMT)-\d\d?(?::?\d\d)?|(?<= )-\d{4}"
    r"|(?<=:\d\d:\d\d)-\d\d:\d\d|[A-ZА-ЯЁ]{3,4}|мск)(?!\w|:\d)\)?)?"
    r"(?![^\W_]|\+|\.\d|[-_.]\d{4}|[-_]\d\d[-_]\d\d)"
)
"""The time in a name, after its day; the year of a day is none."""
_TIMED = late_pattern(_TIME_AFTER)
MONEY = r"(?:\s*[$€£₽%]|\s+(?:руб|долл|евро|dollars?|euros?|usd|eur))"
"""What follows a number that is an amount."""
_AMOUNT = re.compile(rf"{MONEY}|\s*(?:rub|р|км|кг|km|kg|час(?:а|ов)|hours?)\b", re.IGNORECASE)
_SPAN = re.compile(r"(?<!:\d\d)(?<!T\d\d):\d\d-\d\d:\d\d\Z")
"""A time and the end of it, which would be an offset in a field."""
_NUMBERS = re.compile(r"[\d_-]+")
_SOME_DAY, _NO_HOUR = "2000-01-01", 30
"""From this number on, what stands where an hour would is none, and not a wrong one."""
_DATED = late_pattern(rf"(?:\d{{4}}-\d\d-\d\d|\d{{4}}_\d\d_\d\d|(?:19|20)\d{{6}})(?={_TIME_AFTER}|[-_ .]|\Z)")
"""A name that opens with a day, in which `day_in` would not see the time; longer numbers are ids."""
_NAMED_LOG = re.compile(
    r"(?:(?:logs?|journal|diary|daily|day|дневник|журнал|лог|день|ежедневник)[-_ .]{1,3}){1,2}", re.I
)
"""The words that open the name of a log."""
_TIME_AS_DIGITS = re.compile(r"(?<![^\W_])(?:[0-9]{12}|[0-9]{14}|[0-9]{17})(?![^\W_])")
"""The name of a card in a box of notes."""
_COMPACT_END = late_pattern(rf"[-_ ](?P<day>(?:19|20)\d{{6}})(?:{_TIME_AFTER})?\Z")
_WEEK = re.compile(r"(?<!\d)((?:19|20)\d\d)-?W([0-5]\d)(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Dated:
    """What a file's name says: day, time, the rest. `day` is null for a date that does not exist."""

    written: str
    day: datetime | None
    time: time | None
    slug: str | None


def dated(stem: str) -> Dated | None:
    """The date that the name of a log opens with, or None; the journals of Logseq are named with ``_``.

    >>> {str(dated(stem).time) for stem in ("2026-02-15-1230-deploy", "20260215-12-30", "2026-02-15 12.30 deploy")}
    {'12:30:00'}
    >>> str(dated("20260215-123059").time), dated("2026-02-15-deploy").slug
    ('12:30:59', 'deploy')
    >>> {dated(stem).day for stem in ("2026_02_15", "20260215", "log-2026-02-15", "Дневник 15.02.2026")}
    {datetime.datetime(2026, 2, 15, 0, 0)}
    >>> dated("202602151230"), dated("meeting-2026-02-15")
    (None, None)
    """
    return _told_by(stem).log


def named_day(stem: str) -> datetime | None:
    """The day that a file's name tells anywhere, with the time after it or within 12, 14 or 17 digits; of a week its
    Monday.

    >>> named_day("meeting-2026-02-15") == named_day("Встреча 15 февраля 2026") == named_day("report_20260215")
    True
    >>> named_day("2026-W03"), named_day("plan-v2.10"), named_day("12345678901234")
    (datetime.datetime(2026, 1, 12, 0, 0), None, None)
    >>> str(named_day("20260215123045-чай")), str(named_day("2026-02-15 12.30 чай"))
    ('2026-02-15 12:30:45', '2026-02-15 12:30:00')
    """
    return _told_by(stem).moment


def named_clock(text: str) -> tuple[time | None, str | None]:
    """The time that a heading or a file's name tells after its day, with the zone that it names, and what stands there
    as a time but is none, or of a zone of several meanings; bare numbers are no time.

    >>> [str(named_clock(text)[0]) for text in ("2026-02-15 9.05", "15 февраля 2026, 9:05 МСК: чай")]
    ['09:05:00', '09:05:00+03:00']
    >>> [named_clock(text) for text in ("2026-02-15: 1200 заказов", "2026-02-15 25.00", "2026-02-15 9:05 CST")]
    [(None, None), (None, '25.00'), (None, '9:05 CST')]
    """
    if (moment := whole_moment(text)) and moment.timetz() != time():
        return moment.timetz(), None
    clock = _told_by(text).clock if _LONG_YEAR.search(text) else None
    if clock is None or (clock.time and _NUMBERS.fullmatch(clock.written)):
        return None, None
    return clock.time, None if clock.time else clock.written


class _Clock(NamedTuple):
    """A time after a day, as a time and as it is written; the time is null for one that is none."""

    time: time | None
    written: str
    end: int


class _Name(NamedTuple):
    """What a name says: as that of a log, the day or moment that it tells, and the time after the day."""

    log: Dated | None = None
    moment: datetime | None = None
    clock: _Clock | None = None


@lru_cache(16_384)  # a survey asks for the names of all files before the first of them is read
def _told_by(stem: str) -> _Name:
    """What a name says."""
    if not _DIGIT.search(stem):
        return _Name()
    stem = in_digits(stem)
    word = _NAMED_LOG.match(stem)
    inner = stem[word.end() :] if word else stem
    match, named = _DATED().match(inner), None
    day = whole_moment(match[0].replace("_", "-")) if match else None
    end = match.end() if match and (day or not match[0].isdigit()) else 0  # eight digits that are no day are a number
    if not end and (named := day_in(inner)) and not named.start and not inner[named.end : named.end + 1].isalnum():
        day, end = midnight(named.day), named.end
    if end:
        clock = _clock_after(inner, end)
        slug = inner[clock.end if clock and clock.time else end :].lstrip("-_ .")
        log = Dated(inner[:end], day, clock.time if clock else None, slug or None)
        return _Name(log, day and _at(day, clock), clock)
    return _day_within(stem, day_in(stem) if word else named)


def _day_within(stem: str, named: NamedDay | None) -> _Name:
    """What a name tells that is no log's; `named` is its day in words or in a usual form."""
    digits = _TIME_AS_DIGITS.search(stem)
    if moment := whole_moment(stem) or (whole_moment(digits[0]) if digits else None):
        return _Name(moment=moment)
    if named:
        clock = _clock_after(stem, named.end)
        return _Name(None, _at(named.day, clock), clock)
    if match := _COMPACT_END().search(stem):
        day, clock = whole_moment(match["day"]), _clock_after(stem, match.end("day"))
        return _Name(None, day and _at(day, clock), clock)
    week = _WEEK.search(stem)
    try:
        return _Name(moment=midnight(date.fromisocalendar(int(week[1]), int(week[2]), 1)) if week else None)
    except ValueError:  # no such week
        return _Name()


def _clock_after(text: str, end: int) -> _Clock | None:
    """The time that follows a day that ends at `end`; None where nothing there looks like one."""
    match = _TIMED().match(text, end)
    if match is None:
        return None
    digits, word, half = match["digits"] or "", match["zone"] or "", match["half"]
    numbers = (digits[:2], digits[2:4], digits[4:]) if digits else match.group("hour", "minute", "second")
    if word.casefold() not in SEVERAL_ZONES and told(f"{_SOME_DAY} 0:00 {word}") is None:
        word = ""
    said = [number for number in (numbers[0] or match["alone"], *numbers[1:]) if number]
    clock = ":".join(said) + (f"{half}m" if half else "")
    moment, end = whole_moment(f"{_SOME_DAY} {clock} {word}"), match.end() if word else match.end("clock")
    are_no_minutes = match["by"] in (("-", "_", ".") if end < len(text) else ("-", "_")) and int(said[1]) >= 60
    is_number = digits or int(said[0]) >= _NO_HOUR or are_no_minutes  # 19.99 за чай
    if match["by"] == "." and _AMOUNT.match(text, match.end("clock")):  # 5.50 евро
        return None
    if moment is None and is_number and not match["mark"]:
        return None
    return _Clock(moment.timetz() if moment else None, text[match.start("clock") : end], end)


@lru_cache(1024)  # each heading is asked for its day and its time, and those of many logs are alike
def whole_moment(text: str) -> datetime | None:
    """The moment that is all that a name or a heading says, in the zone that it names; a number is no epoch.

    >>> str(whole_moment("Wed Jul 1 07:05:00 2026")), str(whole_moment("202607010705")), whole_moment("1782889500")
    ('2026-07-01 07:05:00', '2026-07-01 07:05:00', None)
    """
    is_asked = _LONG_YEAR.search(text) and not (_EPOCH.fullmatch(text) or _SPAN.search(text))
    found = told(text) if is_asked else None
    return found and (found.moment.replace(tzinfo=UTC).astimezone(found.zone) if found.zone else found.moment)


def _at(day: date, clock: _Clock | None) -> datetime:
    """A day with a time after it, else its midnight."""
    return datetime.combine(day, (clock and clock.time) or time())


def midnight(day: date) -> datetime:
    """The first instant of a day."""
    return datetime(day.year, day.month, day.day)
