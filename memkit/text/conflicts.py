"""Conflicts of two texts in numbers, dates, negation and values, which keep them from being near-duplicates.

Contradictions are often more similar than paraphrases ("rent 1200", "rent 1500"), so no similarity separates them.

There are two thresholds of one notion. Here a conflict blocks a merge, where a mistake loses a memory: any number, date
or negation that differs in corresponding sentences is one, whether or not it is of the same attribute. What is shown to
a person as a contradiction (`memkit.text.contradictions`) must be one: of the same attribute of the same subject. All
that is shown blocks too, and that is how a value or a name («живёт в Казани», «живёт в Самаре») blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from memkit.dates import DATE_WORDS
from memkit.documents import NEGATIONS, NUMBER_WORDS
from memkit.errors import ParameterError
from memkit.text.contradictions import contradiction, dice, may_contradict
from memkit.text.letters import folded
from memkit.text.statements import Reader, Statement

_FACT_CHARS = 240
_ALIKE, _ALIKE_FACTS = 0.5, 0.3
_MOST_PLACES = 250_000  # pairs of sentences; beyond, texts are compared as a whole, as facts are
_MOST_SHOWN = 2_500
"""Pairs of statements of texts whose values are compared."""
_STEM = 5
_KEPT = 10_000
_UNIT = re.compile(r"(?<=[.!?…;])\s+|\n+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./][0-9]{1,2}(?:[./][0-9]{2,4})?")


class Traits(NamedTuple):
    """The numbers and dates of a text, sorted, its number of negations, and its other words, shortened."""

    numbers: tuple[str, ...]
    dates: tuple[str, ...]
    negations: int
    content: frozenset[str]


class Differences(NamedTuple):
    """What two texts conflict in."""

    number: bool = False
    date: bool = False
    negation: bool = False
    value: bool = False


_NONE = Differences()
_Unit = TypeVar("_Unit", Traits, Statement)
"""A sentence or line, as it is read for blocking or for showing."""


class Conflicts:
    """Find whether two texts conflict in numbers, dates, negations or values.

    In long texts each sentence or line is compared with the most similar one of the other text, if at least half of
    their words are equal; other sentences are additions, not conflicts. Short texts, up to the length of a fact, are
    compared as a whole, unless they share only a few words. Texts that share no word are compared too: they may be in
    two languages.

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
    Differences(number=True, date=False, negation=False, value=False)
    >>> conflicts("Живёт в Казани с семьёй", "Живёт в Самаре с семьёй")
    Differences(number=False, date=False, negation=False, value=True)
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
        self._read: dict[str, tuple[Traits, list[Traits]]] = {}
        self._reader = Reader(number_words, date_words, negations)
        self._stated: dict[str, list[Statement]] = {}

    def __call__(self, a: str, b: str) -> Differences:
        """Whether numbers, dates, negations and values differ in corresponding sentences."""
        blocked = _NONE if a == b else self._in_places(a, b)
        if a == b or any(blocked):
            return blocked
        shown = self._contradictions(a, b)
        return Differences(
            number="number" in shown, negation="negation" in shown, value=bool({"value", "name"} & shown)
        )

    def _contradictions(self, a: str, b: str) -> set[str]:
        """The kinds of contradictions that a person would be shown."""
        first, second = self._statements(a), self._statements(b)
        same = {statement.text for statement in first} & {statement.text for statement in second}
        left, right = ([one for one in some if one.text not in same] for some in (first, second))
        if len(left) * len(right) > _MOST_SHOWN or not may_contradict(left, right):
            return set()
        if max(len(a), len(b)) <= _FACT_CHARS:
            pairs = [(one, other) for one in left for other in right]
        else:
            pairs = [*_like_places(left, right), *_like_places(right, left)]
            pairs += [(one, other) for one in left for other in right if one.key and one.key == other.key]
        both = (how for one, other in pairs for how in (contradiction(one, other), contradiction(other, one)))
        return {how.kind for how in both if how is not None}

    def _statements(self, text: str) -> list[Statement]:
        known = self._stated.get(text)
        if known is None:
            if len(self._stated) >= _KEPT:
                self._stated.clear()
            known = self._stated[text] = self._reader.read([text])[0]
        return known

    def _in_places(self, a: str, b: str) -> Differences:
        (first, units), (second, others) = self._known(a), self._known(b)
        if first[:3] == second[:3]:
            return _NONE
        if max(len(a), len(b)) <= _FACT_CHARS:
            return _NONE if 0 < dice(first.content, second.content) < _ALIKE_FACTS else _differ(first, second)
        same = set(units) & set(others)
        left, right = ([unit for unit in some if unit not in same] for some in (units, others))
        if len(left) * len(right) > _MOST_PLACES:
            return _differ(first, second)
        differences = [_differ(*pair) for pair in (*_like_places(left, right), *_like_places(right, left))]
        return Differences(*(any(flags) for flags in zip(*differences, strict=True))) if differences else _NONE

    def _known(self, text: str) -> tuple[Traits, list[Traits]]:
        known = self._read.get(text)
        if known is None:
            units = [self.traits(unit) for unit in _UNIT.split(text)] if len(text) > _FACT_CHARS else []
            if len(self._read) >= _KEPT:
                self._read.clear()
            known = self._read[text] = self.traits(text), units
        return known

    def traits(self, text: str) -> Traits:
        """The numbers, dates, negations and other words of a text.

        >>> Conflicts().traits("Doesn't eat two apples")[:3]
        (('2',), (), 1)
        """
        text = text.casefold()
        numbers, dates, n_denials, others = _NUMBER.findall(text), _DATE.findall(text), 0, set[str]()
        for word in map(folded, _WORD.findall(text)):
            day = self._reader.days.match(word)
            if word in self._reader.digits:
                numbers.append(self._reader.digits[word])
            elif day:
                dates.append(day[0])
            elif self._reader.is_negation(word):
                n_denials += 1
            else:
                others.add(word[:_STEM])
        return Traits(tuple(sorted(numbers)), tuple(sorted(dates)), n_denials, frozenset(others))


def _differ(a: Traits, b: Traits) -> Differences:
    return Differences(a.numbers != b.numbers, a.dates != b.dates, a.negations != b.negations)


def _like_places(left: list[_Unit], right: list[_Unit]) -> Iterator[tuple[_Unit, _Unit]]:
    """Each unit of the left with the most similar one of the right, if it is similar enough."""
    for unit in left:
        alike = [dice(unit.content, other.content) for other in right]
        best = max(range(len(right)), key=alike.__getitem__, default=-1)
        if best >= 0 and alike[best] >= _ALIKE:
            yield unit, right[best]
