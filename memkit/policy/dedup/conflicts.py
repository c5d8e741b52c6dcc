"""What two texts must agree in before one may replace the other: numbers, dates, negation.

Contradictions look more alike than paraphrases ("rent 1200", "rent 1500"), so no similarity tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from memkit.errors import ParameterError

_COUNTS = {
    **{2: "два две двух двум двумя пара пару пары", 3: "три трёх трём тремя", 4: "четыре четырёх четырём четырьмя"},
    **{5: "пять пяти пятью", 6: "шесть шести шестью", 7: "семь семи семью", 8: "восемь восьми восемью"},
    **{9: "девять девяти девятью", 10: "десять десяти десятью", 11: "одиннадцать одиннадцати"},
    **{12: "двенадцать двенадцати дюжина дюжину дюжины", 13: "тринадцать тринадцати", 14: "четырнадцать четырнадцати"},
    **{15: "пятнадцать пятнадцати", 16: "шестнадцать шестнадцати", 17: "семнадцать семнадцати"},
    **{18: "восемнадцать восемнадцати", 19: "девятнадцать девятнадцати", 20: "двадцать двадцати"},
    **{30: "тридцать тридцати", 40: "сорок сорока", 50: "пятьдесят пятидесяти", 60: "шестьдесят шестидесяти"},
    **{70: "семьдесят семидесяти", 80: "восемьдесят восьмидесяти", 90: "девяносто девяноста", 100: "сто ста"},
    **{200: "двести двухсот", 300: "триста трёхсот", 500: "пятьсот пятисот", 1000: "тысяча тысячи тысячу тысяч"},
}
_COUNTS_ENGLISH = (
    *("two=2", "three=3", "four=4", "five=5", "six=6", "seven=7", "eight=8", "nine=9", "ten=10", "eleven=11"),
    *("twelve=12", "dozen=12", "thirteen=13", "fourteen=14", "fifteen=15", "sixteen=16", "seventeen=17"),
    *("eighteen=18", "nineteen=19", "twenty=20", "thirty=30", "forty=40", "fifty=50", "sixty=60", "seventy=70"),
    *("eighty=80", "ninety=90", "hundred=100", "thousand=1000", "first=1", "second=2", "third=3", "fourth=4"),
    *("fifth=5", "sixth=6", "seventh=7", "eighth=8", "ninth=9", "tenth=10", "eleventh=11", "twelfth=12"),
)
_ORDINALS = {
    **{"перв": 1, "втор": 2, "четвёрт": 4, "пят": 5, "шест": 6, "седьм": 7, "восьм": 8, "девят": 9, "десят": 10},
    **{"одиннадцат": 11, "двенадцат": 12, "тринадцат": 13, "четырнадцат": 14, "пятнадцат": 15, "двадцат": 20},
    **{"тридцат": 30, "сот": 100},
}
_ENDINGS = ("ый", "ой", "ая", "ое", "ого", "ому", "ую", "ым", "ом", "ые", "ых", "ыми")
_THIRD = "третий третья третье третьего третьему третьим третьем третью третьей третьи третьих"
NUMBER_WORDS = (
    *(f"{word}={number}" for number, words in _COUNTS.items() for word in words.split()),
    *(f"{stem}{ending}={number}" for stem, number in _ORDINALS.items() for ending in _ENDINGS),
    *(f"{word}=3" for word in _THIRD.split()),
    *_COUNTS_ENGLISH,
)
"""Spelled numbers in their forms, as word=digits; «один», "one" and «раз» say too often no number at all."""
DATE_WORDS = (
    *("январ", "феврал", "март", "апрел", "май", "мая", "мае", "июн", "июл", "август", "сентябр", "октябр", "ноябр"),
    *("декабр", "понедельник", "вторник", "сред", "четверг", "пятниц", "суббот", "воскресень"),
    *("вчера", "сегодня", "завтра", "послезавтра"),
    *("january", "february", "march", "april", "june", "july", "august", "september", "october", "november"),
    *("december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    *("yesterday", "today", "tomorrow"),
)
NEGATIONS = (
    *("не", "нет", "ни", "без", "нельзя", "никогда", "никто", "никого", "никому", "ничто", "ничего", "ничем"),
    *("нигде", "никуда", "никак", "отнюдь", "перестал", "перестала"),
    *("not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot"),
)

_FACT_CHARS = 240
_ALIKE, _ALIKE_FACTS = 0.5, 0.3
_NONE = (False, False, False)
_STEM = 5
_UNIT = re.compile(r"(?<=[.!?…;])\s+|\n+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./][0-9]{1,2}(?:[./][0-9]{2,4})?")


class Traits(NamedTuple):
    """What a text says in numbers and dates, sorted, and how often it negates; `words` are the others, shortened."""

    numbers: tuple[str, ...]
    dates: tuple[str, ...]
    negations: int
    words: frozenset[str]


class Conflicts:
    """Which of its numbers, dates and negations two texts disagree in.

    Compared is what stands in like places. Of two long texts, each sentence or line is held against the one of the
    other with the most words in common, half of them at least; what has no like place is an addition and no conflict.
    Texts as short as a fact are one place, unless they have little in common, as a word and a line that holds it; none
    in common may be two languages.

    Parameters
    ----------
    number_words : tuple of str, optional
        ``word=digits``; None: `NUMBER_WORDS`.
    date_words : tuple of str, optional
        Beginnings of Cyrillic words, whole words of others; None: `DATE_WORDS`.
    negations : tuple of str, optional
        Whole words; a word in ``n't`` counts too. None: `NEGATIONS`.

    Examples
    --------
    >>> conflicts = Conflicts()
    >>> conflicts("Аренда 1200 с марта", "Аренда 1500, с марта")
    (True, False, False)
    """

    def __init__(
        self,
        number_words: tuple[str, ...] = NUMBER_WORDS,
        date_words: tuple[str, ...] = DATE_WORDS,
        negations: tuple[str, ...] = NEGATIONS,
    ) -> None:
        pairs = dict(word.partition("=")[::2] for word in number_words)
        wrong = [word for word, digits in pairs.items() if not (word and digits)]
        if wrong:
            raise ParameterError(f"number_words must be written 'word=digits'. Got {wrong[0]!r}.")
        self._digits = {_plain(word): digits for word, digits in pairs.items()}
        self._days = re.compile("|".join(map(_day, map(_plain, date_words))) or "(?!)")
        self._negations = frozenset(map(_plain, negations))
        self._read: dict[str, tuple[Traits, list[Traits]]] = {}

    def __call__(self, a: str, b: str) -> tuple[bool, bool, bool]:
        """Whether numbers, dates and negations of like places differ."""
        (first, units), (second, others) = self._known(a), self._known(b)
        if first[:3] == second[:3]:
            return _NONE
        if max(len(a), len(b)) <= _FACT_CHARS:
            return _NONE if 0 < _alike(first, second) < _ALIKE_FACTS else _differ(first, second)
        same = set(units) & set(others)
        left, right = ([unit for unit in some if unit not in same] for some in (units, others))
        found = [_differ(*pair) for pair in (*_like_places(left, right), *_like_places(right, left))]
        number, date, negation = (any(flags) for flags in zip(*found, strict=True)) if found else _NONE
        return number, date, negation

    def _known(self, text: str) -> tuple[Traits, list[Traits]]:
        if text not in self._read:
            units = [self.traits(unit) for unit in _UNIT.split(text)] if len(text) > _FACT_CHARS else []
            self._read[text] = self.traits(text), units
        return self._read[text]

    def traits(self, text: str) -> Traits:
        """What the text says.

        >>> Conflicts().traits("Doesn't eat two apples")[:3]
        (('2',), (), 1)
        """
        text = text.casefold()
        words = [_plain(word) for word in _WORD.findall(text)]
        spelled = [self._digits[word] for word in words if word in self._digits]
        days = [match[0] for match in map(self._days.match, words) if match]
        denied = [word for word in words if word in self._negations or word.endswith(("n't", "n’t"))]
        others = frozenset(
            word[:_STEM]
            for word in words
            if not (word in self._digits or word in self._negations or self._days.match(word))
        )
        numbers, dates = (
            tuple(sorted(known)) for known in (_NUMBER.findall(text) + spelled, _DATE.findall(text) + days)
        )
        return Traits(numbers, dates, len(denied), others)


def _plain(word: str) -> str:
    return word.casefold().replace("ё", "е")


def _day(word: str) -> str:
    return re.escape(word) + ("" if "а" <= word[-1] <= "я" else r"\Z")


def _differ(a: Traits, b: Traits) -> tuple[bool, bool, bool]:
    return a.numbers != b.numbers, a.dates != b.dates, a.negations != b.negations


def _alike(a: Traits, b: Traits) -> float:
    """The share of words in common (Dice)."""
    return 2 * len(a.words & b.words) / max(1, len(a.words) + len(b.words))


def _like_places(left: list[Traits], right: list[Traits]) -> Iterator[tuple[Traits, Traits]]:
    """Each unit of the left with the one of the right that has most words in common, if those are enough."""
    for unit in left:
        alike = [_alike(unit, other) for other in right]
        best = max(range(len(right)), key=alike.__getitem__, default=-1)
        if best >= 0 and alike[best] >= _ALIKE:
            yield unit, right[best]
