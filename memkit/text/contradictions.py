"""What a person would call a contradiction: two statements about one subject that differ in the same attribute.

`memkit.text.conflicts` asks whether two texts may be merged, and blocks each doubt: any number, date or negation that
differs. Here the question is the opposite one, whether to show a person two statements side by side, so each doubt is
left out: a number counts where the words around it agree, a negation where it denies the same word, a value where the
attribute has one value at a time. What is reported here blocks a merge as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memkit.text.statements import Quantity, Statement

KINDS = ("number", "negation", "value", "name")
"""How two statements contradict each other."""
# This number and the next three were chosen while looking at the sets of the benchmarks: expect less elsewhere.
ALIKE = 0.6
"""Least Dice coefficient of the content words of two statements about one subject."""
_SAME = 0.8
"""The same where only a date or a time differs, or where words were replaced by others."""
FEW = 3
"""Statements that share fewer words than these must stand under like headings."""
_NAME = 2
"""Most words of a name."""


class Contradiction(NamedTuple):
    """How a newer statement contradicts an older one.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    subject, attribute : str
        In the words of the newer statement.
    older_value, newer_value : str
    """

    kind: str
    subject: str
    attribute: str
    older_value: str
    newer_value: str


def contradiction(older: Statement, newer: Statement) -> Contradiction | None:
    """How `newer` contradicts `older`, or None.

    Examples
    --------
    >>> from memkit.text.statements import Reader
    >>> older, newer = Reader().read(["Approves hotels up to 90 euros a night.", "Approves hotels up to 110 euros."])
    >>> contradiction(older[0], newer[0])[2:]
    ('hotels', '90 euros', '110 euros')
    """
    if older.text == newer.text:
        return None
    if older.key and older.key == newer.key and (values := _of_values(older, newer)):
        return values
    if not _one_subject(older, newer):
        return None
    return _of_negation(older, newer) or _of_numbers(older, newer) or _of_moments(older, newer)


def dice(a: frozenset[str], b: frozenset[str]) -> float:
    """The Dice coefficient of two sets: the common ones by their mean size.

    >>> dice(frozenset(("чай", "мёд")), frozenset(("чай",)))
    0.6666666666666666
    """
    return 2 * len(a & b) / max(1, len(a) + len(b))


def _one_subject(older: Statement, newer: Statement) -> bool:
    """Whether two statements are about one thing: no other name, no other rank, nothing else in the first place."""
    a, b = older.content, newer.content
    if older.ordinals != newer.ordinals or not a or not b:
        return False
    only_a, only_b = a - b, b - a
    if only_a & older.names and only_b & newer.names:
        return False
    if older.stems[0] in only_a and newer.stems[0] in only_b:
        return False
    return len(a & b) >= (1 if _under_one(older, newer) else FEW)


def _under_one(older: Statement, newer: Statement) -> bool:
    """Whether what stands above both names one subject, or nothing does."""
    if older.heading is None or newer.heading is None:
        return False
    return older.heading == newer.heading or dice(older.heading, newer.heading) >= ALIKE


def _of_numbers(older: Statement, newer: Statement) -> Contradiction | None:
    """A quantity of one unit and of one word before it, where all else nearly agrees."""
    if older.is_of_its_day or newer.is_of_its_day or older.dates ^ newer.dates or older.times ^ newer.times:
        return None
    alike = dice(older.content, newer.content)
    is_replaced = bool(older.content - newer.content) and bool(newer.content - older.content)
    if alike < (_SAME if is_replaced else ALIKE):
        return None
    known = {one.value for one in older.quantities}, {one.value for one in newer.quantities}
    for a, b in _like(older.quantities, newer.quantities):
        others = (older.content & newer.content) - {a.unit, a.before, b.unit, b.before}
        if a.value != b.value and b.value not in known[0] and a.value not in known[1] and (others or a.before):
            attribute = newer.words.get(b.before) or newer.words.get(b.unit) or b.unit
            return Contradiction("number", _subject(older, newer), attribute, a.word, b.word)
    return None


def _like(older: tuple[Quantity, ...], newer: tuple[Quantity, ...]) -> Iterator[tuple[Quantity, Quantity]]:
    """Pairs of quantities of one attribute, where it is clear which belong together."""
    for a in older:
        for b in newer:
            if a.unit != b.unit or not (a.unit or a.before):
                continue
            if a.before == b.before and a.before:
                alone = sum(one[1:3] == a[1:3] for one in older) == sum(one[1:3] == b[1:3] for one in newer) == 1
            else:
                alone = sum(one.unit == a.unit for one in older) == sum(one.unit == b.unit for one in newer) == 1
                alone = alone and bool(a.unit)
            if alone:
                yield a, b


def _of_negation(older: Statement, newer: Statement) -> Contradiction | None:
    """A word that one affirms and the other denies, in statements or clauses that agree otherwise.

    What is denied must not be more than what is affirmed: who does not eat a banana by a tree may eat one.
    """
    known = older.polarity
    turned = (stem for stem in newer.stems if stem in known and newer.polarity.get(stem, True) != known[stem])
    opposed = next(turned, None)
    if opposed is None or older.n_denials == newer.n_denials or len(older.content & newer.content) < 2:
        return None
    affirmed, denied = (older, newer) if known[opposed] else (newer, older)
    within = next((clause for clause in denied.clauses if opposed in clause), denied.content)
    if within - affirmed.content:
        return None
    is_replaced = bool(older.content - newer.content) and bool(newer.content - older.content)
    if dice(older.content, newer.content) < (_SAME if is_replaced else ALIKE) and not any(
        opposed in a and len(a & within) > 1 and dice(a, within) >= _SAME for a in affirmed.clauses
    ):
        return None
    values = [
        one.words[opposed] if one is affirmed or opposed in one.opposites else f"not {one.words[opposed]}"
        for one in (older, newer)
    ]
    return Contradiction("negation", _subject(older, newer), newer.words[opposed], *values)


def _of_values(older: Statement, newer: Statement) -> Contradiction | None:
    """Two values of an attribute that has one at a time; of values with numbers, all words must be the same."""
    is_of_logs = older.heading is newer.heading is None
    if not older.value or not newer.value or (len(older.key) < FEW and not (is_of_logs or _under_one(older, newer))):
        return None
    a, b = older.value_words, newer.value_words
    if older.value_numbers or newer.value_numbers:
        if a != b or older.value_numbers <= newer.value_numbers or newer.value_numbers <= older.value_numbers:
            return None
        numbers = _of_numbers(older, newer)
        return numbers or Contradiction("value", _subject(older, newer), newer.attribute, older.value, newer.value)
    if a <= b or b <= a:
        return None
    is_name = all(value[:1].isupper() and len(value.split()) <= _NAME for value in (older.value, newer.value))
    kind = "name" if is_name else "value"
    return Contradiction(kind, _subject(older, newer), newer.attribute, older.value, newer.value)


def _of_moments(older: Statement, newer: Statement) -> Contradiction | None:
    """One date or time that differs, where all else is the same."""
    if older.is_of_its_day or newer.is_of_its_day:
        return None
    shared = older.content & newer.content
    least = 2 if _under_one(older, newer) else FEW
    if len(shared) < least or dice(older.content, newer.content) < _SAME or older.quantities != newer.quantities:
        return None
    for a, b, others in (
        (older.dates - newer.dates, newer.dates - older.dates, (older.times, newer.times)),
        (older.times - newer.times, newer.times - older.times, (older.dates, newer.dates)),
    ):
        if len(a) == len(b) == 1 and others[0] == others[1]:
            was, now = (one.words[moment] for one, (moment,) in ((older, a), (newer, b)))
            return Contradiction("value", _subject(older, newer), "date or time", was, now)
    return None


def _subject(older: Statement, newer: Statement) -> str:
    """The first word that both say, as the newer writes it."""
    return next((newer.words[stem] for stem in newer.stems if stem in older.words and stem in newer.words), "")
