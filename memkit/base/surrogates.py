"""Lone surrogates, halves of characters: an escape of JSON or a file's name may spell one, and UTF-8 cannot hold it."""

from __future__ import annotations

import re

RANGE = r"\ud800-\udfff"
"""All of them, for the brackets of a regular expression."""
LONE_SURROGATE = re.compile(f"[{RANGE}]")


def without_surrogates(text: str) -> str:
    r"""`text` with U+FFFD, the replacement character, in place of each lone surrogate.

    >>> without_surrogates("чай\udcff🍯")
    'чай�🍯'
    """
    return LONE_SURROGATE.sub("\ufffd", text)
