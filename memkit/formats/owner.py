"""Whose fact a memory is, as each format declares it: the store that holds it, and what it is about.

Two texts are duplicates only where they have one owner: the same user, store and subject. `memkit.tables.owners`
compares owners by these declarations.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE, TITLE, NONE = "page", "title", ""
UNDIVIDED = ("memory.md", "user.md")
"""The names of files, in lower case, whose headings do not divide owners: all within one is about the same."""


@dataclass(frozen=True)
class Owner:
    """What tells the owners of a format's memories apart, besides the user.

    Attributes
    ----------
    subject : str
        What a memory is about: ``page`` (the page's title and the headings within the page), ``title`` (the column:
        an entity, a subject, a question), or empty where the format says nothing.
    kinds : tuple of str
        The kinds that have a subject; empty: all.
    by_scope : bool
        Whether the column ``scope`` belongs to the subject.
    store : str
        A regular expression whose match at the head of a path is the store, where the host loads stores apart; empty
        where it does not.
    homes : tuple of str
        Where the expression finds no store, the folder of the nearest file of one of these names is one, unless it lies
        among archives or copies.
    by_name : bool
        Whether the host loads a page by the name of its file, so that the name counts as it is written. Elsewhere a
        title that comes from the name of a file is read without the mark of a copy.
    slugs : bool
        Whether a title that only spells the name of its file is a subject.

    Examples
    --------
    >>> Owner("title", store=".*")
    Owner(subject='title', kinds=(), by_scope=False, store='.*', homes=(), by_name=False, slugs=True)
    """

    subject: str = TITLE
    kinds: tuple[str, ...] = ()
    by_scope: bool = False
    store: str = ""
    homes: tuple[str, ...] = ()
    by_name: bool = False
    slugs: bool = True


BY_TITLE = Owner()
"""The owner where a format declares none."""
