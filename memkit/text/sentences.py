"""The sentences of a text, and where it may be cut so that whole thoughts stay: at the ends of lines and of sentences;
and snippets, the part of a text that answers a query, in whole sentences or lines, with the matching words in it.

A line that goes on in the next one, as in text wrapped at 80 characters, ends no thought.

And whether a heading says something by itself («Отправлено: 182 письма»), or only names what is below it («Итоги»). The
rule counts, so that it holds in both languages: a heading says something if it has five words and asks nothing, or a
label and what it is («Решение: Postgres»), or a number among words that is no date, no time and no ordinal.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from memkit.base import late_pattern
from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.base.fences import BOX, fences, is_heading
from memkit.text.languages import FUNCTION_WORDS, folded

_WORDS = (
    "т д п е г гг в вв н др пр см ср стр рис табл руб коп тыс млн млрд кв ул им проф акад ок напр"
    " mr mrs ms dr prof st vs etc e g i no fig al approx inc ltd jr sr"
)
_SHORTENED = frozenset(_WORDS.split())
"""Words that a full stop follows within a sentence, lower case; single letters are initials."""
# It begins with the signs that end a line or sentence, as Python's `re` skips all others at ten times the speed.
_BORDER = re.compile(
    r"[\n.!?…。！？](?:(?P<line>(?<=\n)\s*)"
    r"|[\"'»”’)\]*_`]*[ \t]+(?=[\"'«“(\[*_`—–-]*(?P<next>[^\W_]))|(?<=[。！？])(?=\S))"
)
_LAST_WORD = re.compile(r"(?<![^\W\d_])([^\W\d_]+)\.\Z")
# Editors wrap at 72 and more; a guess far enough below.
_WRAPPED_AT = 40
"""A line that goes on in the next has at least so many characters."""
_ENDS = re.compile(r"[.!?…:;|。！？][\"'»”’)\]*_`]*[ \t]*\Z")
_GOES_ON = re.compile(r"[ \t]*[\"'«“(`*_]*[^\W\d_A-ZА-ЯЁ]")
_BEGINS = re.compile(r"[ \t]*(?:[-*+#>|~`]|\d+[.)]\s|\Z)")
"""An item of a list, a heading, a quotation, a row, code, nothing."""
_NUMBER = re.compile(r"\d+[.)]")
"""The number of an item, which ends no sentence."""


def goes_on(line: str, following: str) -> bool:
    """Whether the sentence of a long `line` goes on in the `following` one.

    >>> goes_on("Шлюз обычно отвечает за две секунды, а по", "пятницам — за восемь."), goes_on("чай", "кофе")
    (True, False)
    """
    if len(line) < _WRAPPED_AT or _ENDS.search(line):
        return False
    if _GOES_ON.match(following):
        return True
    return line.rstrip().endswith((",", "—", "–")) and not _BEGINS.match(following)


def borders(text: str) -> list[int]:
    """Where the lines and sentences of `text` begin, the first at 0; a wrapped line begins nothing.

    Examples
    --------
    >>> text = "Пул: 10. Было 20, т. е. вдвое больше.\\n- чай"
    >>> [text[a:b] for a, b in zip(borders(text), [*borders(text)[1:], len(text)])]
    ['Пул: 10. ', 'Было 20, т. е. вдвое больше.\\n', '- чай']
    """
    starts = [0]
    for match in _BORDER.finditer(text):
        end = match.end()
        if match["line"] is not None:
            line = text.rfind("\n", 0, match.start()) + 1
            is_one = "\n" not in match["line"]
            # Eight characters tell how the next line begins: marks, and a letter.
            ends_here = not (is_one and goes_on(text[line : match.start()], text[end : end + 8]))
        else:
            ends_here = _ends_sentence(text, match)
        if ends_here and starts[-1] < end < len(text):
            starts.append(end)
    return starts


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Whether the stop that begins `match` ends a sentence: one begins after it, and no shortened word is before."""
    following = match["next"]
    if following is None:
        return True
    if following.islower():
        return False
    # No word of `_SHORTENED` is longer than ten letters, and a long text is not searched to its begin.
    word = _LAST_WORD.search(text, max(0, match.start() - 11), match.start() + 1)
    return word is None or not (len(word[1]) == 1 or word[1].lower() in _SHORTENED)


@dataclass(frozen=True)
class Sentence:
    """A sentence, with the lines that it is wrapped at joined, and how many lines of its text stand above it."""

    text: str
    lines_above: int
    is_heading: bool = False


def sentences_of(text: str) -> Iterator[Sentence]:
    """The sentences and headings of a text outside of its code fences.

    >>> for sentence in sentences_of("# Чай\\nБез сахара. С лимоном."):
    ...     print(sentence.lines_above, sentence.is_heading, sentence.text)
    0 True # Чай
    1 False Без сахара.
    1 False С лимоном.
    """
    code, above, counted, number = fences(text), 0, 0, ""
    for start, end in pairwise([*borders(text), len(text)]):
        above += text.count("\n", counted, start)
        counted = start
        words = f"{number} {' '.join(text[start:end].split())}".strip()
        number = words if _NUMBER.fullmatch(words) else ""
        if words and not number and above + 1 not in code:
            yield Sentence(words, above, is_heading(words))


_MONTHS = "|".join(name.pattern for name in MONTHS)
_DAYS = "|".join(name.pattern for name in WEEKDAYS)
_WHEN = late_pattern(
    r"\b(?:\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m\b)?|(?:19|20)\d\d"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:{_MONTHS})|(?:{_MONTHS})\s+\d{{1,2}}|(?:utc|gmt|msk|мск)(?:[+-]\d+)?)\b",
    re.IGNORECASE,
)
_NAMED_DAY = late_pattern(rf"\b(?:{_MONTHS}|{_DAYS})\b", re.IGNORECASE)
_ORDINAL = re.compile(
    r"\b(?:step|part|phase|chapter|section|session|day|week|sprint|round|stage|task|version|v"
    r"|шаг|часть|фаза|глава|раздел|сессия|сеанс|день|неделя|спринт|раунд|этап|задача|версия)\s*[№#]?\s*\d+(?:\.\d+)*\b",
    re.IGNORECASE,
)
_MARKS = re.compile(r"(?<!\s)\s*#{1,6}\s*(?:\d+(?:[.)]|(?:\.\d+)+)\s+)?")
_LABEL = re.compile(r"[^\W\d_][^\n]*?(?::|\s[—–-]|\s?(?:->|→|=))\s*(?=[^\W_])")
_WORD = re.compile(r"[^\W\d_]{2,}")
_FIGURE = re.compile(r"(?<![\w.])\d[\d.,]*(?!\w)")
_ASKS = frozenset(
    {"what", "who", "where", "when", "why", "how", "which", "кто", "что", "где", "куда", "когда", "почему", "зачем"}
    | {"как", "какой", "какая", "какие"}
)
"""Words of headings that name what is below."""
# Made on 58 headings: of 20 that say something 18 are let in, of 38 that only name what is below none.
_MANY, _SOME, _FEW = 5, 3, 2
_MOST_HEADING, _LEAST_BELOW = 80, 4
"""The most letters of a heading that only says when, and the least words that say something without it."""


def says_something(headings: str) -> bool:
    """Whether any of the `headings`, one a line, says something.

    Examples
    --------
    >>> [says_something(one) for one in ("### Sent 2026-02-24: 182 emails (91 vet + 88 auto)", "## Решение: Postgres")]
    [True, True]
    >>> [says_something(one) for one in ("## Session", "## 24 февраля, вторник", "# Sprint 14", "## Что сделали")]
    [False, False, False, False]
    """
    return any(map(_says, headings.splitlines()))


def without_moment(text: str) -> str:
    """A text of a log without the headings above it that only say when, unless few words are below.

    Examples
    --------
    >>> without_moment("# 2026-03-01 (воскресенье)\\n\\n## 14:30\\nПул вырос до двадцати")
    'Пул вырос до двадцати'
    >>> without_moment("## 14:30\\nПул вырос")  # which stands within many other texts
    '## 14:30\\nПул вырос'
    >>> without_moment("# День релиза\\n\\nПул вырос")
    '# День релиза\\n\\nПул вырос'
    """
    rest = text.lstrip()
    while rest.startswith("#"):
        heading, _, below = rest.partition("\n")
        bare = _NAMED_DAY().sub(" ", _WHEN().sub(" ", _MARKS.sub("", heading, count=1)))
        if len(heading) > _MOST_HEADING or bare == heading or any(map(str.isalnum, bare)):
            break
        rest = below.lstrip()
    words = islice(_WORD.finditer(rest), _LEAST_BELOW)
    return rest if len(list(words)) == _LEAST_BELOW else text


def _says(heading: str) -> bool:
    bare = _ORDINAL.sub(" ", _WHEN().sub(" ", _MARKS.sub("", heading, count=1))).strip(" \t.,:;—–-")
    every = [word.lower().replace("ё", "е") for word in _WORD.findall(bare)]
    telling = [word for word in every if word not in FUNCTION_WORDS]
    if len(every) >= _MANY and len(telling) >= _SOME and _ASKS.isdisjoint(every):
        return True
    telling = [word for word in telling if not _NAMED_DAY().fullmatch(word)]
    number, label = _FIGURE.search(bare), _LABEL.match(bare)
    if number and len(telling) >= (_SOME if number.start() else _FEW):
        return True
    return label is not None and len(telling) + bool(number) >= _FEW


# Three lines of a terminal.
SNIPPET = 240
"""Characters of a snippet."""
_ANY_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
# A snippet is made for every hit, in some 20 µs; no stems are looked up for it.
_STEM, _SHORT = 5, 2
"""Two words with the same first letters count as forms of one word: good enough for display, not for search."""
_LEADING = re.compile(rf"\A[ \t]*(?:(?:>|[-*+•](?=[ \t])|{BOX}(?=[ \t])|#{{1,6}}(?=[ \t]))[ \t]*)+")
_RULE = re.compile(r"[ \t]*(?:(?:`{3,}|~{3,}).*|[^\w\n]*)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_SHORT_LINE = 60
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
        plain = " ".join(_LEADING.sub("", line, count=1).split())
        if not plain or _RULE.fullmatch(line):
            continue
        if parts and parts[-1][-1] not in ".!?…:;,":
            if _HEADING.match(previous):
                parts[-1] += ":"
            elif _LEADING.match(line) or (len(previous) < _SHORT_LINE and not goes_on(previous, line)):
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
    for word in _ANY_WORD.finditer(line) if stems else ():
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
    # A third before the word: what it is about mostly stands after it.
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


# A round bound: one question is asked of all its hits.
@functools.lru_cache(maxsize=64)
def _stems(query: str) -> frozenset[str]:
    """The beginnings of the query's words, without very short words (в, of) if there are others."""
    words = [folded(word) for word in _ANY_WORD.findall(query)]
    telling = [word for word in words if len(word) > _SHORT or word.upper() == word]
    return frozenset(word[:_STEM] for word in telling or words)
