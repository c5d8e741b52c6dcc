"""The sentences of a text, and where it may be cut so that whole thoughts stay: at the ends of lines and of sentences.

A line that goes on in the next one, as in text wrapped at 80 characters, ends no thought.

And whether a heading says something by itself («Отправлено: 182 письма»), or only names what is below it («Итоги»). The
rule counts, so that it holds in both languages: a heading says something if it has five words and asks nothing, or a
label and what it is («Решение: Postgres»), or a number among words that is no date, no time and no ordinal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from memkit.base.dates import MONTHS, WEEKDAYS
from memkit.base.fences import fences, is_heading
from memkit.text.function_words import FUNCTION_WORDS

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
_WHEN = re.compile(
    r"\b(?:\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m\b)?|(?:19|20)\d\d"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:{_MONTHS})|(?:{_MONTHS})\s+\d{{1,2}}|(?:utc|gmt|msk|мск)(?:[+-]\d+)?)\b",
    re.IGNORECASE,
)
_NAMED_DAY = re.compile(rf"\b(?:{_MONTHS}|{_DAYS})\b", re.IGNORECASE)
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
        bare = _NAMED_DAY.sub(" ", _WHEN.sub(" ", _MARKS.sub("", heading, count=1)))
        if len(heading) > _MOST_HEADING or bare == heading or any(map(str.isalnum, bare)):
            break
        rest = below.lstrip()
    words = islice(_WORD.finditer(rest), _LEAST_BELOW)
    return rest if len(list(words)) == _LEAST_BELOW else text


def _says(heading: str) -> bool:
    bare = _ORDINAL.sub(" ", _WHEN.sub(" ", _MARKS.sub("", heading, count=1))).strip(" \t.,:;—–-")
    every = [word.lower().replace("ё", "е") for word in _WORD.findall(bare)]
    telling = [word for word in every if word not in FUNCTION_WORDS]
    if len(every) >= _MANY and len(telling) >= _SOME and _ASKS.isdisjoint(every):
        return True
    telling = [word for word in telling if not _NAMED_DAY.fullmatch(word)]
    number, label = _FIGURE.search(bare), _LABEL.match(bare)
    if number and len(telling) >= (_SOME if number.start() else _FEW):
        return True
    return label is not None and len(telling) + bool(number) >= _FEW
