"""What people and programs call the same field: its names in front matter and in JSON, declared once.

A name is looked up in lower case without ``-``, ``_`` and blanks: ``createdAt``, ``created_at`` and ``Created at`` are
one. The first name that has a value which can be read counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

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
EXPIRES = ("expiresat", "expires")
"""The last day of a memory; never what only should be checked again."""
USERS = ("userid",)
"""Whose memory a page is. An ``owner`` of a page is whoever keeps it, often a team, and hides it from nobody."""
DESCRIPTIONS = ("description", "summary", "abstract")
ALIASES = ("aliases", "alias")
TAGS = ("tags", "tag", "keywords", "labels", "categories")
TYPES = ("type", "category", "kind")
STATUS_WORDS = {"complete": "done", "completed": "done", "obsolete": "deprecated", "replaced": "superseded"}
"""Other words of authors for those of `memkit.schemas.STATUSES`."""
SUPERSEDED_BY = ("supersededby", "replacedby", "successor")
SUPERSEDES = ("supersedes", "replaces")
IDS_OF_PAGES = ("permalink", "slug")
IDS = ("id", "uuid", "memoryid")
OWNERS = ("userid", "user", "owner")
_PARTS = str.maketrans("", "", "-_ ")
"""What parts the words of a name, where it is not a capital."""


def plain(name: str) -> str:
    """A name as it is looked up.

    >>> plain("Date Created"), plain("last_modified-at")
    ('datecreated', 'lastmodifiedat')
    """
    return name.lower().translate(_PARTS)


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
    return next((value for place in places for name in names if (value := read(place.get(name))) is not None), None)
