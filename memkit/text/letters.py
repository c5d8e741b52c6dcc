"""The two alphabets that memkit tells apart, as code points and as classes of a pattern (Python's or RE2's)."""

from __future__ import annotations

CYRILLIC = ((0x0400, 0x052F),)
LATIN = ((0x0061, 0x024F),)
"""First and last of lower-case letters, with all that lies between."""
CYRILLIC_LETTERS = "\u0400-\u0482\u048a-\u052f"
"""Without the marks between them, which NFC may join to a letter."""


def folded(word: str) -> str:
    """A word as it is compared: in small letters, ё as е.

    >>> folded("Ёлка")
    'елка'
    """
    return word.casefold().replace("ё", "е")
