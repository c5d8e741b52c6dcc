"""What people and programs call the same field, declared once, and how a value of front matter or JSON is read.

A name is looked up in lower case without ``-``, ``_`` and blanks: ``createdAt``, ``created_at`` and ``Created at`` are
one. The first name that has a value which can be read counts. Heads of pages in clothes that are not read as front
matter (lines of properties, ``key::``, a fenced block) would lose title, date and tags in silence: they have a row.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Any, TypeVar

from memkit.base.dates import DATE_WORDS, Told, told, told_by_iso
from memkit.formats.rows import Rule
from memkit.formats.syntax.nodes import Number
from memkit.schemas import IMPORTANCE_WORDS, IMPORTANCES, STATUSES

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# Python reads numbers of up to 4,300 digits; a field with more than 400 is none.
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_BRACKETED = re.compile(r"\[\[([^\[\]]*)\]\]|\s")
"""What divides words of which those of several are in brackets, and such a word."""
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
    """The words of a value that should be a list of strings and is something else.

    >>> loose_words("чай, зелёный чай"), loose_words("чай [[зелёный чай]]")
    (['чай', 'зелёный чай'], ['чай', 'зелёный чай'])
    """
    if isinstance(value, list):
        return [word for word in map(text_of, value) if word is not None]
    text = text_of(value) or ""
    words = text.split(",") if "," in text or "[[" not in text else _BRACKETED.split(text)
    return [word.strip() for word in words if word and word.strip()]


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


_NO_DATE = ("0", "-1", "never", "none", "n/a", "unknown", "tbd", "никогда", "да", "нет", "неизвестно")


def states_date(value: object) -> bool:
    """Whether a value is more than blank, a yes or no, or a word for no date.

    >>> [value for value in ("вчера", "2026-02-30", ["2026"], " - ", "never", "no", [], None) if states_date(value)]
    ['вчера', '2026-02-30', ['2026']]
    """
    words = (words_in(value) or "").strip().casefold()
    return any(map(str.isalnum, words)) and bool_of(words) is None and words not in _NO_DATE


def names_somebody(value: object) -> bool:
    """Whether a value is words with a capital and no number, and none of a date: who made it, say, and not when.

    >>> [value for value in ("Anna", "by Анной", "soon", "Вчера", "32.13.2026") if names_somebody(value)]
    ['Anna', 'by Анной']
    """
    words = words_in(value) or ""
    is_date = any(map(str.isdecimal, words)) or any(word in words.casefold() for word in DATE_WORDS)
    return not is_date and any(word[:1].isupper() for word in words.split())


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
    text = linked_in(value)
    return None if text is None else told(text)


def linked_in(value: object) -> str | None:
    """The text of a value that may be a link, as the editors of linked pages write days: what the link names.

    >>> linked_in("[[дни/20.01.2026|вт]]"), linked_in([["2026-01-20"]]), linked_in(" 20.01.2026")
    ('20.01.2026', '2026-01-20', '20.01.2026')
    """
    match value:
        case [[str(inner)]]:  # YAML's reading of a link without quotes
            value = f"[[{inner}]]"
    text = (text_of(value) or "").strip()
    if text.startswith("[[") and text.endswith("]]"):
        return text[2:-2].partition("|")[0].rpartition("/")[2]
    return text or None


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


T = TypeVar("T")


def _names(*names: str) -> tuple[str, ...]:
    return tuple(" ".join(names).split())


TITLES = _names("title name заголовок название наименование имя")
CREATED = _names(
    "createdat created datecreated date createdtime createdon createddate creationdate ctime",
    "создано дата датасоздания времясоздания создан создана датазаписи",
)
UPDATED = _names(
    "updatedat updated modified datemodified lastmodified lastmodifiedat lastmod lastupdated synthesizeddate timestamp",
    "updatedtime updatetime lasteditedtime usereditedtimestampusec updatedon modifiedat modifiedon modificationdate",
    "dateupdated modifieddate mtime lastedited edittime обновлено изменено датаизменения датаобновления",
    "lastmodifieddate последнееизменение последнееобновление обновлен обновлена изменен изменена отредактировано",
)
VERIFIED = _names(
    "verifiedat verified lastverified lastverifiedat reviewed reviewedat lastreviewed",
    "проверено датапроверки последняяпроверка",
)
STALE = _names("staleafter staleat reviewby проверитьдо пересмотретьдо")
ENDS = {
    "expiresat": "a bundle of pages and most stores",
    "expires": "a bundle of pages",
    "expirationdate": "mem0",
    "expirydate": "people's own notes",
    "expireson": "people's own notes",
    "expiretime": "the memory bank of Vertex AI",
    "expiry": "people's own notes",
    "expiration": "people's own notes",
    "validuntil": "MIF, within its field temporal",
    "validtill": "people's own notes",
    "validto": "sage-wiki and other graphs with two times",
    "validthrough": "schema.org",
    "действуетдо": "people's own notes",
    "действительнодо": "people's own notes",
    "годендо": "people's own notes",
    "истекает": "people's own notes",
    "invalidat": "Graphiti and Zep: when the fact stopped being true",
    "expiredat": "Graphiti and Zep: when the graph learnt it, so it counts last",
}
"""What the end of a memory is called, by plain name, and by whom.

What only should be done or checked by then is none: ``deadline``, ``due``, ``review_by``, ``end_date``, «срок».
"""
LENGTHS = {
    "ttl": "",
    "timetolive": "",
    "expiresin": "",
    "ttldays": "d",
    "ttlhours": "h",
    "ttlminutes": "min",
    "ttlseconds": "s",
}
"""How long a memory lasts, by plain name, and the unit of a number without one; "" where that says nothing."""
END = "an ISO 8601 time stamp, or a length such as 14d of what has a date"
EXPIRES = (*ENDS, *LENGTHS)
"""The names of the end of a memory; never of what only should be checked again."""
_EXPIRES = frozenset(EXPIRES)
USERS = ("userid",)
"""Whose memory a page is. An ``owner`` of a page is whoever keeps it, often a team, and hides it from nobody."""
DESCRIPTIONS = _names("description desc summary abstract описание краткоеописание аннотация кратко")
ALIASES = _names("aliases alias псевдонимы псевдоним алиасы синонимы другиеназвания")
TAGS = _names("tags tag keywords labels categories теги метки ключевыеслова тег тэги тэг метка категории рубрики")
TYPES = _names("type category kind тип категория")
STATUS = ("status", "state", "статус")
_OTHER_STATUS_WORDS = {
    "superseded": "replaced заменено заменен заменена",
    "deprecated": "obsolete outdated retired устарело устарел устарела устаревшее устаревший устаревшая"
    " неактуально неактуален неактуальна не-актуально",
    "archived": "archive rejected cancelled canceled архив в-архиве архивировано отклонено отклонен отклонена отменено"
    " отменен отменена",
    "draft": "черновик",
    "done": "complete completed готово завершено выполнено",
}
STATUS_WORDS = {word: status for status, words in _OTHER_STATUS_WORDS.items() for word in words.split()}
"""Other words of authors for those of `memkit.schemas.STATUSES`; е for ё."""
STATUS_FLAGS = {
    **dict.fromkeys(("deprecated", "isdeprecated"), "deprecated"),
    **dict.fromkeys(("archived", "isarchived", "trashed", "istrashed", "deleted", "isdeleted"), "archived"),
    **dict.fromkeys(("draft", "isdraft"), "draft"),
}
"""Fields of their own that say a status where they are true."""
_OF_STATUS = frozenset((*STATUS, *STATUS_FLAGS))
SUPERSEDED_BY = ("supersededby", "replacedby", "successor", "замененона", "замененна", "замененана")
SUPERSEDES = ("supersedes", "replaces")
IDS_OF_PAGES = ("permalink", "slug")
IDS = ("id", "uuid", "memoryid")
OWNERS = ("userid", "user", "owner", "пользователь", "владелец")
IMPORTANCE = ("importance", "importancescore", "важность", "значимость")
CONFIDENCE = ("confidence", "confidencescore", "уверенность", "достоверность")
MEASURES = {"importance": IMPORTANCE, "confidence": CONFIDENCE, "access_count": ("accesscount", "обращений")}
"""The columns for how much a memory counts, how sure it is and how often it was used, and what these are called."""
_IMPORTANCE_OF = IMPORTANCE_WORDS | {
    **dict.fromkeys(("высокая", "высокий", "высокое", "критическая", "критический", "critical"), "high"),
    **dict.fromkeys(("обычная", "обычный", "средняя", "средний", "среднее"), "normal"),
    **dict.fromkeys(("низкая", "низкий", "низкое"), "low"),
}
_MEASURE_OF = {name: column for column, names in MEASURES.items() for name in names}
SCALES = ((frozenset(("maturity", "recency")), 100.0),)
"""Where importance is a number, its highest is 1; of a host that has other fields beside it, it is this: ByteRover."""
OF_MEASURES = (
    Rule("bad_value", "any", "importance", "high, normal, medium, low or a number in 0..1"),
    Rule("bad_value", "any", "confidence", "a number in 0..1"),
    Rule("bad_value", "any", "access_count", "a whole number from 0"),
)
_BAD_MEASURES = dict(zip(MEASURES, OF_MEASURES, strict=True))
_FIGURE = re.compile(r"[-+]?\d[\d.,/%]{0,20}")
"""What is meant as a figure, whether or not it is one that is read."""
_PARTS = str.maketrans("ё", "е", "-_ ")
"""What parts the words of a name, where it is not a capital; е stands for ё."""


# A round bound: the keys of front matter and records, which recur.
@lru_cache(4096)
def plain(name: str) -> str:
    """A name as it is looked up.

    >>> plain("Date Created"), plain("last_modified-at")
    ('datecreated', 'lastmodifiedat')
    """
    return name.lower().translate(_PARTS)


def status_of(value: object) -> str | None:
    """A word of an author, alone or in a list of one, as one of `memkit.schemas.STATUSES`; None for any other.

    >>> [status_of(word) for word in ("Deprecated", ["COMPLETE"], "Не актуально", "see below", ["draft", "done"])]
    ['deprecated', 'done', 'deprecated', None, None]
    """
    told = value[0] if isinstance(value, list) and len(value) == 1 else value
    word = re.sub("[_ ]", "-", (text_of(told) or "").strip().casefold()).replace("ё", "е")
    word = STATUS_WORDS.get(word, word)
    return word if word in STATUSES else None


def status_in(places: Sequence[Mapping[str, Any]]) -> str | None:
    """What front matter says of the status: a word, or else a field of a status that is true.

    >>> status_in([{"status": "rejected"}]), status_in([{"draft": "true"}]), status_in([{"draft": "false"}])
    ('archived', 'draft', None)
    """
    if all(map(_OF_STATUS.isdisjoint, places)):
        return None
    flags = (status for flag, status in STATUS_FLAGS.items() if first_of(places, (flag,), bool_of))
    return first_of(places, STATUS, status_of) or next(flags, None)


def first_of(places: Iterable[Mapping[str, Any]], names: Iterable[str], read: Callable[[Any], T | None]) -> T | None:
    """What `read` makes of the first field among `names` that it can read, in the first of `places` that has one.

    Parameters
    ----------
    places : iterable of mapping
        Fields by their plain names.

    Examples
    --------
    >>> def year(value):
    ...     return value if value and value.isdigit() else None
    >>> first_of([{"created": "soon", "date": "2026"}], CREATED, year)
    '2026'
    """
    for place in places:
        for name in filter(place.__contains__, names):
            if (value := place[name]) is not None and (found := read(value)) is not None:
                return found
    return None


def end_in(places: Iterable[Mapping[str, Any]], begin: datetime | None) -> datetime | None:
    """The last instant of a memory, from the first of the names that tells it anywhere; `places` are as for `first_of`.

    Parameters
    ----------
    begin : datetime or None
        From when on a length counts: when the memory last changed, else when it was created.

    Examples
    --------
    >>> str(end_in([{"ttl": "14d"}], datetime(2026, 3, 1)))
    '2026-03-15 23:59:59.999999'
    >>> str(end_in([{"expiredat": "2026-09-30", "invalidat": 1790067346}], None))
    '2026-09-22 08:55:46'
    """
    listed = [place for place in places if not _EXPIRES.isdisjoint(place)]
    if not listed:
        return None
    told = (end_by(name, place[name], begin) for name in EXPIRES for place in listed if name in place)
    return next(filter(None, told), None)


def end_by(name: str, value: object, begin: datetime | None) -> datetime | None:
    """The last instant that a field says, by its plain name: a time, a day, or a length from `begin` on.

    >>> str(end_by("ttldays", 7, datetime(2026, 3, 1))), str(end_by("expires", "2026-03-01", None))
    ('2026-03-08 23:59:59.999999', '2026-03-01 23:59:59.999999')
    """
    if end := end_of(value):
        return end
    return None if begin is None else end_after(value, begin, LENGTHS.get(name, ""))


def unread_ends(fields: Mapping[str, Any], begin: datetime | None) -> Iterator[tuple[str, object]]:
    """The fields that should hold an end and hold none that can be read, and what they hold.

    >>> [*unread_ends({"valid_until": "the release", "expires": "never", "due": "soon"}, None)]
    [('valid_until', 'the release')]
    """
    for key, value in fields.items():
        if (name := plain(key)) in _EXPIRES and states_date(value) and end_by(name, value, begin) is None:
            yield key, value


def measures_in(places: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of `MEASURES` that some fields fill; `places` are as for `first_of`.

    >>> measures_in([{"importance": 0.9, "confidence": "0.8", "accesscount": 3}])
    {'importance': 'high', 'confidence': 0.8, 'access_count': 3}
    >>> measures_in([{"importance": 40, "maturity": "draft", "recency": 1}])["importance"]
    'normal'
    """
    if all(map(_MEASURE_OF.keys().isdisjoint, places)):
        return dict.fromkeys(MEASURES)
    top = next((top for place in places for beside, top in SCALES if beside <= place.keys()), 1.0)
    readers = {"importance": lambda value: importance_of(value, top), "confidence": ratio_of, "access_count": _count_of}
    return {column: first_of(places, names, readers[column]) for column, names in MEASURES.items()}


def importance_of(value: object, highest: float = 1.0) -> str | None:
    """An importance as one of `memkit.schemas.IMPORTANCES`: a word, or the thirds of a number from 0 to `highest`.

    >>> [importance_of(value) for value in ("medium", 0, 0.5, "0.7", 1, 7, "so-so")]
    ['normal', 'low', 'normal', 'high', 'high', None, None]
    """
    number = number_of(value)
    if number is None:
        return _IMPORTANCE_OF.get(value.strip().casefold()) if isinstance(value, str) else None
    if not 0 <= number <= highest:
        return None
    return IMPORTANCES[::-1][min(int(len(IMPORTANCES) * number / highest), len(IMPORTANCES) - 1)]


def ratio_of(value: object) -> float | None:
    """A number in 0..1."""
    number = number_of(value)
    return number if number is not None and 0 <= number <= 1 else None


def _count_of(value: object) -> int | None:
    number = integer_of(value)
    return number if number is not None and number >= 0 else None


def is_held(name: str, value: object, measures: Mapping[str, Any]) -> bool:
    """Whether a field, by its plain name, is what one of the `measures` says without loss.

    >>> is_held("confidence", 0.8, {"confidence": 0.8}), is_held("importance", 0.9, {"importance": "high"})
    (True, False)
    """
    column = _MEASURE_OF.get(name)
    if column is None or measures.get(column) is None or isinstance(value, (bool, list, dict)):
        return False
    return value == measures[column] or (column != "importance" and number_of(value) == measures[column])


def unread_measures(fields: Mapping[str, Any]) -> Iterator[tuple[str, object, Rule]]:
    """The fields, by their own names, whose figure is no importance, confidence or count, with the rule that says so.

    >>> fields = {"Importance": 7, "confidence": "95%", "accessCount": 1.5, "weight": 3}
    >>> [(name, value) for name, value, _ in unread_measures(fields)], [*unread_measures({"confidence": "high"})]
    ([('Importance', 7), ('confidence', '95%'), ('accessCount', 1.5)], [])
    """
    for key, value in fields.items():
        column = _MEASURE_OF.get(plain(key))
        if column and _FIGURE.fullmatch(str(value)):
            named = {plain(name): each for name, each in fields.items()}
            if measures_in([named | {plain(key): value}])[column] is None:
                yield key, value, _BAD_MEASURES[column]


UNREAD_HEAD = Rule("unread_head", "any", "", "front matter between '---' lines")
HEAD_NAMES = frozenset(
    {*TITLES, *CREATED, *UPDATED, *TAGS, *ALIASES, *IDS_OF_PAGES, *ENDS, *LENGTHS, "status", "author"} - {"name", "имя"}
    | {"тема", "статус", "автор"}
)
"""What the lines at the top of a page are named that are its head in other clothes."""
_PROPERTY = re.compile(r"(?:\*\*|#\+)?([^\W\d_][\w \t-]{0,30}+)(::?+)(?:\*\*)?(?:[ \t]|$)")
_FENCED = re.compile(r"(?:```|~~~)[ \t]*(ya?ml|toml)[ \t]*$|<!--|;;;[ \t]*$", re.IGNORECASE)
_FENCED_KEY = re.compile(r"[ \t]*\"?([\w-]{1,40}+)\"?[ \t]*[:=]")
_AT_END = re.compile(r"\nid: \w{32}\n(?:[a-z_]{2,40}:[^\n]{0,400}\n){1,40}type_: \d{1,2}\s*\Z")
"""The fields at the end of a file that Joplin exports as it is."""
# A guess: no head that anybody writes by hand is longer, and prose is not read to its end for one.
_MOST_HEAD_LINES = 40
_FIRST_LINE = re.compile(r"(?:[^\S\n]*+\n)*+(?:# [^\n]*+\n(?:[^\S\n]*+\n)*+)?([^\n]*+)")
"""The first line with words, below the title if there is one."""


def unread_head(text: str) -> tuple[int, str] | None:
    """The line and the words for a head in clothes that are not read, at the top of a page or its end; else None.

    >>> unread_head("Title: Чай\\nDate: 2026-01-02\\n\\nтекст")
    (1, 'lines of properties (Title, Date)')
    >>> unread_head("tags:: чай\\nтекст"), unread_head("Анна: чай\\nБорис: кофе\\n")
    ((1, "lines 'key::' (tags)"), None)
    >>> unread_head("Действует до: 2026-10-05"), unread_head("Пропуск действует до: утра")
    ((1, 'lines of properties (Действует до)'), None)
    """
    # A cheap look first, as nearly no page ends so.
    if "\ntype_: " in text[-20:] and (match := _AT_END.search(text, max(0, text.rfind("\nid: ")))):
        return text.count("\n", 0, match.start()) + 2, "fields at its end (id, created_time, updated_time)"
    opening = _FIRST_LINE.match(text)
    if opening is None or not (_PROPERTY.match(opening[1]) or _FENCED.match(opening[1])):
        return None
    first = text.count("\n", 0, opening.start(1))
    # A guess of the characters of a line; a page may have megabytes.
    lines = text[: 200 * _MOST_HEAD_LINES].split("\n")[:_MOST_HEAD_LINES]
    if first >= len(lines):
        return None
    if fence := _FENCED.match(lines[first]):
        inner = [*takewhile(lambda line: not line.startswith(("```", "~~~", "-->", ";;;")), lines[first + 1 :])]
        names = [match[1] for match in map(_FENCED_KEY.match, inner) if match]
        what = f"a fenced {fence[1]} block" if fence[1] else "a block of fields"
    else:
        found = [*takewhile(bool, map(_PROPERTY.match, lines[first:]))]
        signs = {match[2] for match in found if match}
        following = lines[first + len(found)].strip() if first + len(found) < len(lines) else ""
        names = [match[1].strip() for match in found if match]
        is_end = bool(names) and plain(names[0]) in ENDS  # no prose begins so
        if signs != {"::"} and not is_end and (len(found) < 2 or (following and following[0] not in "#-")):
            return None
        what = "lines 'key::'" if "::" in signs else "lines of properties"
    named = [name for name in names if plain(name) in HEAD_NAMES]
    return (first + 1, f"{what} ({', '.join(named)})") if named else None
