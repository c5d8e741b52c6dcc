"""What people and programs call the same field: its names in front matter and in JSON, declared once.

A name is looked up in lower case without ``-``, ``_`` and blanks: ``createdAt``, ``created_at`` and ``Created at`` are
one. The first name that has a value which can be read counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from memkit.formats.faults import Rule
from memkit.formats.syntax.values import bool_of, end_after, end_of, integer_of, number_of, text_of
from memkit.schemas import IMPORTANCE_WORDS, IMPORTANCES, STATUSES

T = TypeVar("T")
TITLES = ("title", "name")
CREATED = ("createdat", "created", "datecreated", "date")
UPDATED = (
    "updatedat",
    "updated",
    "modified",
    "datemodified",
    "lastmodified",
    "lastmodifiedat",
    "lastmod",
    "lastupdated",
    "synthesizeddate",
    "timestamp",
)
VERIFIED = ("verifiedat", "verified", "lastverified", "lastverifiedat", "reviewed", "reviewedat", "lastreviewed")
STALE = ("staleafter", "staleat", "reviewby")
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
DESCRIPTIONS = ("description", "desc", "summary", "abstract")
ALIASES = ("aliases", "alias")
TAGS = ("tags", "tag", "keywords", "labels", "categories")
TYPES = ("type", "category", "kind")
STATUS = ("status", "state", "статус")
_OTHER_STATUS_WORDS = {
    "superseded": "replaced заменено заменен заменена",
    "deprecated": "obsolete outdated retired устарело устарел устарела устаревшее устаревший устаревшая",
    "archived": "archive rejected cancelled canceled архив архивировано отклонено отклонен отменено отменен",
    "draft": "черновик",
    "done": "complete completed готово завершено выполнено",
}
STATUS_WORDS = {word: status for status, words in _OTHER_STATUS_WORDS.items() for word in words.split()}
"""Other words of authors for those of `memkit.schemas.STATUSES`; е for ё."""
STATUS_FLAGS = ("deprecated", "archived", "draft")
"""Those that are a field of their own, which is true."""
SUPERSEDED_BY = ("supersededby", "replacedby", "successor")
SUPERSEDES = ("supersedes", "replaces")
IDS_OF_PAGES = ("permalink", "slug")
IDS = ("id", "uuid", "memoryid")
OWNERS = ("userid", "user", "owner")
IMPORTANCE, CONFIDENCE = ("importance", "importancescore"), ("confidence", "confidencescore")
MEASURES = {"importance": IMPORTANCE, "confidence": CONFIDENCE, "access_count": ("accesscount",)}
"""The columns for how much a memory counts, how sure it is and how often it was used, and what these are called."""
_MEASURE_OF = {name: column for column, names in MEASURES.items() for name in names}
SCALES = ((frozenset(("maturity", "recency")), 100.0),)
"""Where importance is a number, its highest is 1; of a host that has other fields beside it, it is this: ByteRover."""
_BAD_IMPORTANCE = Rule("bad_value", "any", "importance", "high, normal, medium, low or a number in 0..1")
_BAD_CONFIDENCE = Rule("bad_value", "any", "confidence", "a number in 0..1")
OF_MEASURES = (_BAD_IMPORTANCE, _BAD_CONFIDENCE)
_PARTS = str.maketrans("", "", "-_ ")
"""What parts the words of a name, where it is not a capital."""


@lru_cache(4096)
def plain(name: str) -> str:
    """A name as it is looked up.

    >>> plain("Date Created"), plain("last_modified-at")
    ('datecreated', 'lastmodifiedat')
    """
    return name.lower().translate(_PARTS)


def status_of(value: object) -> str | None:
    """A word of an author as one of `memkit.schemas.STATUSES`; None for any other.

    >>> [status_of(word) for word in ("Deprecated", "COMPLETE", "Устарело", "see below")]
    ['deprecated', 'done', 'deprecated', None]
    """
    word = (text_of(value) or "").strip().casefold().replace("_", "-").replace("ё", "е")
    word = STATUS_WORDS.get(word, word)
    return word if word in STATUSES else None


def status_in(places: Sequence[Mapping[str, Any]]) -> str | None:
    """What front matter says of the status: a word, or else a field of a status that is true.

    >>> status_in([{"status": "rejected"}]), status_in([{"draft": "true"}]), status_in([{"draft": "false"}])
    ('archived', 'draft', None)
    """
    if not any(places):
        return None
    flags = (flag for flag in STATUS_FLAGS if first_of(places, (flag,), bool_of))
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
        for name in names:
            if (value := place.get(name)) is not None and (found := read(value)) is not None:
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


def measures_in(places: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of `MEASURES` that some fields fill; `places` are as for `first_of`.

    >>> measures_in([{"importance": 0.9, "confidence": "0.8", "accesscount": 3}])
    {'importance': 'high', 'confidence': 0.8, 'access_count': 3}
    >>> measures_in([{"importance": 40, "maturity": "draft", "recency": 1}])["importance"]
    'normal'
    """
    if not any(places):
        return dict.fromkeys(MEASURES)
    top = _highest(places)
    readers = {"importance": lambda value: importance_of(value, top), "confidence": ratio_of, "access_count": _count_of}
    return {column: first_of(places, names, readers[column]) for column, names in MEASURES.items()}


def importance_of(value: object, highest: float = 1.0) -> str | None:
    """An importance as one of `memkit.schemas.IMPORTANCES`: a word, or the thirds of a number from 0 to `highest`.

    >>> [importance_of(value) for value in ("medium", 0, 0.5, "0.7", 1, 7, "so-so")]
    ['normal', 'low', 'normal', 'high', 'high', None, None]
    """
    number = number_of(value)
    if number is None:
        return IMPORTANCE_WORDS.get(value.strip().casefold()) if isinstance(value, str) else None
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


def _highest(places: Iterable[Mapping[str, Any]]) -> float:
    return next((top for place in places for beside, top in SCALES if beside <= place.keys()), 1.0)


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
    """The fields, by their own names, whose number is no importance or no confidence, with the rule that says so.

    >>> [(name, value) for name, value, _ in unread_measures({"Importance": 7, "confidence": "high"})]
    [('Importance', 7)]
    """
    for key, value in fields.items():
        column = _MEASURE_OF.get(plain(key))
        if column == "importance" and number_of(value) is not None:
            if importance_of(value, _highest([{plain(name): each for name, each in fields.items()}])) is None:
                yield key, value, _BAD_IMPORTANCE
        elif column == "confidence" and number_of(value) is not None and ratio_of(value) is None:
            yield key, value, _BAD_CONFIDENCE
