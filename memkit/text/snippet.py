"""Snippets: the part of a text that answers a query, in whole sentences or lines, and the matching words in it."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from memkit.text.letters import folded
from memkit.text.sentences import borders, goes_on

SNIPPET = 240
"""Characters of a snippet."""
_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
_STEM, _SHORT = 5, 2
"""Two words with the same first letters count as forms of one word: good enough for display, not for search."""
_MARKS = re.compile(r"\A[ \t]*(?:(?:>|[-*+•](?=[ \t])|\[[ xX]\](?=[ \t])|#{1,6}(?=[ \t]))[ \t]*)+")
_RULE = re.compile(r"[ \t]*(?:(?:`{3,}|~{3,}).*|[^\w\n]*)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_WRAPPED_AT = 60
"""A line of so many characters may go on in the next."""


def units_of(
    text: str, width: int = SNIPPET, start: int = 0, end: int | None = None, without: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int]]:
    """Where the sentences and lines of `text` begin and end that a `window` may show.

    Parameters
    ----------
    text : str
        Of any length; cost linear in the characters between `start` and `end`, and `width` beyond.
    width : int, characters
        Largest length of the window.
    start, end : int
        The characters of the chunk that was found: the window lies in it, or reaches beyond to begin and end a
        sentence.
    without : sequence of tuple of int
        Where text begins and ends that is not shown, such as boilerplate: the window holds none of the sentences and
        lines in it, if there are others.

    Returns
    -------
    list of tuple of int
        At least one.

    Examples
    --------
    >>> units_of("Сервер стоит в Казани. Чай зелёный.", width=20)
    [(0, 22), (23, 35)]
    """
    if len(text) <= width and not without:
        last = len(text.rstrip())
        return [(min(len(text) - len(text.lstrip()), last), last)]
    end = len(text) if end is None else end
    low, high = max(0, start - width), min(len(text), end + width)
    places = [low + place for place in borders(text[low:high])]
    units = []
    for begins, following in pairwise([*places, high]):
        first = start if begins == low > 0 else begins  # what is before, and how it ends, is not known
        last = min(following, end) if following == high < len(text) else following
        last = first + len(text[first:last].rstrip())
        units += [(first, last)] * (first < last and first < end and last > start)
    shown = [(a, b) for a, b in units if not any(begins <= a and b <= ends for begins, ends in without)]
    return shown or units or [(start, end)]


def window(text: str, query: str, width: int = SNIPPET, units: list[tuple[int, int]] | None = None) -> tuple[int, int]:
    """The part of `text` that says most of what `query` asks, in whole sentences or lines.

    Parameters
    ----------
    text : str
    query : str
        The search query; if none of its words is found, the part begins with the first unit.
    width : int, characters
        Largest length; a sentence that is longer is cut at blanks.
    units : list of tuple of int, optional
        What may be shown, as `units_of` returns it; None: all sentences and lines.

    Returns
    -------
    tuple of int
        Where it begins and ends: a slice of `text`.

    Examples
    --------
    >>> text = "Сервер стоит в Казани. Пул соединений вырос до десяти. Чай зелёный."
    >>> begins, ends = window(text, "соединения", width=40)
    >>> text[begins:ends]
    'Пул соединений вырос до десяти.'
    """
    units = units_of(text, width) if units is None else units
    begins, ends = units[0][0], units[-1][1]
    if len(units) == 1 and ends - begins <= width:
        return begins, ends
    words = list(_words_like(query, text, begins, ends))
    if len(units) > 1:
        first, last = _best(text, units, words, width)
        begins, ends = units[first][0], units[last][1]
    return (begins, ends) if ends - begins <= width else _cut(text, words, width, begins, ends)


def snippet(text: str, query: str, width: int = 90) -> str:
    """The `window` of `text` for `query`, on one line.

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
    '…Пул соединений вырос до десяти. Конец.…'
    """
    line = _BLANK.sub(" ", text).strip()
    if len(line) <= width:
        return line
    begins, ends = window(line, query, width)
    return ("…" if begins else "") + line[begins:ends] + ("…" if ends < len(line) else "")


def plain_line(text: str) -> str:
    """`text` on one line without the marks of Markdown that begin its lines.

    >>> plain_line("## Шаги\\n\\n- [x] собрать\\n- выложить")
    'Шаги: собрать; выложить'
    """
    parts, previous = list[str](), ""
    for line in text.split("\n"):
        plain = " ".join(_MARKS.sub("", line, count=1).split())
        if not plain or _RULE.fullmatch(line):
            continue
        if parts and parts[-1][-1] not in ".!?…:;,":
            if _HEADING.match(previous):
                parts[-1] += ":"
            elif _MARKS.match(line) or (len(previous) < _WRAPPED_AT and not goes_on(previous, line)):
                parts[-1] += ";"
        parts.append(plain)
        previous = line
    return " ".join(parts)


def marked(line: str, query: str) -> list[tuple[str, bool]]:
    """Split `line` into parts, each with whether it is a word that looks like one of `query`.

    >>> marked("Пул соединений вырос", "соединения")
    [('Пул ', False), ('соединений', True), (' вырос', False)]
    """
    stems, parts, done = _stems(query), list[tuple[str, bool]](), 0
    for word in _WORD.finditer(line) if stems else ():
        if folded(word.group())[:_STEM] in stems:
            parts += [(line[done : word.start()], False), (word.group(), True)]
            done = word.end()
    return [(part, is_match) for part, is_match in [*parts, (line[done:], False)] if part]


def _best(text: str, units: list[tuple[int, int]], words: list[tuple[int, str]], width: int) -> tuple[int, int]:
    """The first and last unit of the run within `width` that has most of the query's `words`; of equals, the first.

    It begins at a word of the query, and reaches on, then back, as far as there is room.
    """
    starts = [begins for begins, _ in units]
    held: list[set[str]] = [set() for _ in units]
    for place, stem in words:
        number = bisect_right(starts, place) - 1
        if place < units[number][1]:  # else in what is not shown
            held[number].add(stem)

    def follows(number: int) -> bool:
        """Whether a unit comes right after the one before it, without text between them that is not shown."""
        return not text[units[number - 1][1] : units[number][0]].strip()

    best, most_stems = (0, -1), 0
    for first in [number for number, stems in enumerate(held) if stems] or [0]:
        last, stems = first, set(held[first])
        while last + 1 < len(units) and units[last + 1][1] - units[first][0] <= width and follows(last + 1):
            last += 1
            stems |= held[last]
        if best[1] < 0 or len(stems) > most_stems:
            best, most_stems = (first, last), len(stems)
    first, last = best
    while first and units[last][1] - units[first - 1][0] <= width and follows(first):
        first -= 1
    return first, last


def _cut(text: str, words: list[tuple[int, str]], width: int, begins: int, ends: int) -> tuple[int, int]:
    """The part of a long sentence around the first of the query's `words` in it, cut at blanks."""
    place = min((place for place, stem in words if begins <= place <= ends - len(stem)), default=begins)
    start = max(begins, min(place - width // 3, ends - width))
    if start > begins:
        start = text.find(" ", start, start + width // 3) + 1 or start
    end = min(ends, start + width)
    if end < ends and not text[end].isspace():
        blank = max(text.rfind(sign, start + width // 2, end) for sign in " \n\t")
        end = blank if blank > 0 else end
    return start, start + len(text[start:end].rstrip())


def _words_like(query: str, text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Where words from `start` to `end` begin that look like one of the query's, and its beginning, in any order.

    A pattern of the stems would find the same; to compile one for each query takes longer than to look into ten hits.
    """
    before, searched = text[start - 1 : start] if start else "", folded(text[start:end])
    if len(searched) != end - start:  # a letter with two in its place, as ß has
        searched = "".join(folded(character)[0] for character in text[start:end])
    for stem in _stems(query):
        place = searched.find(stem)
        while place >= 0:
            last = place + len(stem)
            begins = not (searched[place - 1] if place else before).isalnum()
            if begins and (len(stem) == _STEM or not searched[last : last + 1].isalnum()):
                yield start + place, stem
            place = searched.find(stem, place + 1)


@functools.lru_cache(maxsize=64)
def _stems(query: str) -> frozenset[str]:
    """The beginnings of the query's words, without very short words (в, of) if there are others."""
    words = [folded(word) for word in _WORD.findall(query)]
    telling = [word for word in words if len(word) > _SHORT or word.upper() == word]
    return frozenset(word[:_STEM] for word in telling or words)
