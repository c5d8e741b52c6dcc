"""Other forms of a Russian word, by a dictionary: «письмо», «письма» and «писем» are one word there.

A stemmer takes endings off by rule, so a form whose stem changes («писем», «дней», «людей») has a term of its own. The
dictionary is that of pymorphy3 (extra ``lemma``): the program has the MIT licence, the dictionary, which is made of
OpenCorpora's, CC BY-SA 3.0. A word that it lacks is read as words with the same ending are.
"""

from __future__ import annotations

import functools
from typing import Any

from memkit.errors import MissingExtraError


@functools.cache
def dictionary() -> Any:
    """The dictionary; it takes a tenth of a second to load.

    Raises
    ------
    MissingExtraError
        Without the extra ``lemma``.
    """
    try:
        from pymorphy3 import MorphAnalyzer
    except ImportError as error:
        raise MissingExtraError("pymorphy3", "lemma") from error
    return MorphAnalyzer(lang="ru")


@functools.lru_cache(maxsize=50_000)
def forms_of(word: str) -> tuple[str, ...]:
    """The forms of a Russian word in its likeliest reading, the lemma first.

    Examples
    --------
    >>> forms_of("дней")[:2]
    ('день', 'дня')
    """
    return tuple(dict.fromkeys(form.word for form in dictionary().parse(word)[0].lexeme))
