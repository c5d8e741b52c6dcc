"""The sentences of a text, and where it may be cut so that whole thoughts stay: at the ends of lines and of sentences.

A line that goes on in the next one, as in text wrapped at 80 characters, ends no thought.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from memkit.base.fences import fences, is_heading

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
