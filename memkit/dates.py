"""Months and days of the week in the two languages: as they are written, and as texts say them."""

from __future__ import annotations

from typing import NamedTuple


class Named(NamedTuple):
    """A month or a day of the week.

    Attributes
    ----------
    begins : str
        What its Russian forms begin with; several where no beginning is its own.
    russian, english : str
        As a date has it.
    said : str
        A pattern of all forms and shortenings, without regard to case.
    """

    begins: str
    russian: str
    english: str
    said: str


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
    *(beginning for one in _NAMED for beginning in one.begins.split()),
    *("вчера", "сегодня", "завтра", "послезавтра"),
    *(one.english.lower() for one in _NAMED if one.english != "May"),  # a verb first of all
    *("yesterday", "today", "tomorrow"),
)
"""What tells that a text names a day: beginnings of Russian words, whole English ones."""
