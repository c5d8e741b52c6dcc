"""Snippets: the part of a text around a query's words, on one line, and the matching words in it."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
_STEM, _SHORT = 5, 2
"""Two words with the same first letters count as forms of one word: good enough for display, not for search."""


def snippet(text: str, query: str, width: int = 90) -> str:
    """About `width` characters of `text` around the first word that looks like one of `query`.

    Parameters
    ----------
    text : str
        Of any length.
    query : str
        The search query; if it is empty, the beginning is returned.
    width : int, characters
        Largest length of the line.

    Returns
    -------
    str
        One line, with … in place of omitted text.

    Examples
    --------
    >>> snippet("Запись. " * 20 + "Пул соединений вырос до десяти. " + "Конец. " * 20, "соединения", width=40)
    '…Запись. Пул соединений вырос до десяти.…'
    """
    line = _BLANK.sub(" ", text).strip()
    if len(line) <= width:
        return line
    stems = _stems(query)
    first = next((word.start() for word in _WORD.finditer(line) if _folded(word.group())[:_STEM] in stems), 0)
    start = max(0, min(first - width // 3, len(line) - width))
    if start:
        start = line.find(" ", start, start + width // 3) + 1 or start
    cut = line[start : start + width]
    if start + width < len(line):
        cut = cut[: cut.rfind(" ")] if " " in cut[width // 2 :] else cut
    return ("…" if start else "") + cut + ("…" if start + len(cut) < len(line) else "")


def marked(line: str, query: str) -> list[tuple[str, bool]]:
    """Split `line` into parts, each with whether it is a word that looks like one of `query`.

    >>> marked("Пул соединений вырос", "соединения")
    [('Пул ', False), ('соединений', True), (' вырос', False)]
    """
    stems, parts, done = _stems(query), list[tuple[str, bool]](), 0
    for word in _WORD.finditer(line) if stems else ():
        if _folded(word.group())[:_STEM] in stems:
            parts += [(line[done : word.start()], False), (word.group(), True)]
            done = word.end()
    return [(part, is_match) for part, is_match in [*parts, (line[done:], False)] if part]


def _stems(query: str) -> set[str]:
    """The beginnings of the query's words, without very short words (в, of) if there are others."""
    words = [_folded(word) for word in _WORD.findall(query)]
    telling = [word for word in words if len(word) > _SHORT or word.upper() == word]
    return {word[:_STEM] for word in telling or words}


def _folded(word: str) -> str:
    return word.casefold().replace("ё", "е")
