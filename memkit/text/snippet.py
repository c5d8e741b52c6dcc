"""The part of a text that answers a query best, on one line."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
_STEM = 5
"""Letters by which two forms of a word are taken to be alike: enough for a display, not for search."""


def snippet(text: str, query: str, width: int = 90) -> str:
    """About `width` characters of `text` around the first word that looks like one of `query`.

    Examples
    --------
    >>> snippet("Запись. " * 20 + "Пул соединений вырос до десяти. " + "Конец. " * 20, "соединения", width=40)
    '…Запись. Пул соединений вырос до десяти.…'
    """
    line = _BLANK.sub(" ", text).strip()
    if len(line) <= width:
        return line
    start = max(0, min(_first_match(line, query) - width // 3, len(line) - width))
    if start:
        start = line.find(" ", start, start + width // 3) + 1 or start
    cut = line[start : start + width]
    if start + width < len(line):
        cut = cut[: cut.rfind(" ")] if " " in cut[width // 2 :] else cut
    return ("…" if start else "") + cut + ("…" if start + len(cut) < len(line) else "")


def _first_match(line: str, query: str) -> int:
    stems = {_folded(word)[:_STEM] for word in _WORD.findall(query)}
    return next((word.start() for word in _WORD.finditer(line) if _folded(word.group())[:_STEM] in stems), 0)


def _folded(word: str) -> str:
    return word.casefold().replace("ё", "е")
