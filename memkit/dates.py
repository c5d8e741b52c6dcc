"""Names of months and weekdays in Russian and English, and patterns of their forms in texts."""

from __future__ import annotations

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
