"""Conflicts of two texts in numbers, dates, negation and values, which keep them from being near-duplicates.

Contradictions are often more similar than paraphrases ("rent 1200", "rent 1500"), so no similarity separates them.

There are two thresholds of one notion. Here a conflict blocks a merge, where a mistake loses a memory: any number, date
or negation that differs in corresponding sentences is one, whether or not it is of the same attribute. A sign counts as
a number does: "-5" is not "5", "50%" not "50", "C++" not "C". What is shown to a person as a contradiction
(`memkit.text.contradictions`) must be one: of the same attribute of the same subject. All that is shown blocks too. So
does one word in the place of another (`memkit.text.one_word`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from memkit.base.dates import DATE_WORDS
from memkit.base.parallel import bar
from memkit.documents import NEGATIONS, NUMBER_WORDS
from memkit.errors import ParameterError
from memkit.schemas import Floats, Ints, Mask
from memkit.text.analyse import distinct
from memkit.text.contradictions import ALIKE
from memkit.text.facts import Cells, Facts, WordReader, cells
from memkit.text.one_word import Lexicon, Synonyms, lacking
from memkit.text.statements import Reader

# Up to so many characters a text is one fact, compared as a whole; in longer ones the like places are found first.
_FACT_CHARS = 240
# The share of words from which two sentences are put beside each other, and from which two facts are.
_ALIKE, _ALIKE_FACTS = 0.5, 0.3
# Two texts of 500 sentences each; a round bound.
_MOST_PLACES = 250_000
"""Pairs of sentences of two texts that are compared; beyond, texts are compared as a whole, as facts are."""
# Two texts of 50 statements each; a round bound.
_MOST_SHOWN = 2_500
"""Pairs of statements of two texts whose values are compared."""
_AT_ONCE = 2_000_000
"""Pairs of sentences that are in memory at once."""


class Differences(NamedTuple):
    """What two texts conflict in."""

    number: bool = False
    date: bool = False
    negation: bool = False
    value: bool = False


FLAGS = Differences._fields
"""What two texts may conflict in, in the order of `Conflicts.between`."""
_NUMBER, _DATE, _NEGATION, _VALUE = range(len(FLAGS))
_COLUMN = {"number": _NUMBER, "negation": _NEGATION, "value": _VALUE, "name": _VALUE}
"""The column of each kind of contradiction."""


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
    synonyms : Synonyms, optional
        Which words mean the same; by default none do.

    Many pairs are compared at once: `facts` reads each text once, and `between` compares pairs of them by columns.

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
        synonyms: Synonyms | None = None,
    ) -> None:
        pairs = dict(word.partition("=")[::2] for word in number_words)
        wrong = [word for word, digits in pairs.items() if not (word and digits)]
        if wrong:
            raise ParameterError(f"number_words must be written 'word=digits'. Got {wrong[0]!r}.")
        reader = Reader(number_words, date_words, negations)
        # What words are is asked once for all texts: for the few pairs of a search it would take a tenth of its time.
        self._traits, self._lexicon = WordReader(reader), Lexicon(reader)
        self._synonyms = synonyms

    def __call__(self, a: str, b: str) -> Differences:
        """Whether numbers, dates, negations and values differ in corresponding sentences."""
        flags = self.between(self.facts([a, b]), np.array([0]), np.array([1]))
        return Differences(*flags[0].tolist())

    def facts(self, texts: Sequence[str]) -> Facts:
        """What `between` compares of texts; each is read once, when a pair asks for it."""
        return Facts(texts, self._traits, self._lexicon, self._synonyms)

    def between(self, facts: Facts, left: Ints, right: Ints) -> Mask:
        """Whether pairs of texts conflict; no pair is looked at alone, but for its few statements of one attribute.

        Parameters
        ----------
        facts : Facts
        left, right : ndarray of int64
            The places of the texts of each pair in `facts`.

        Returns
        -------
        ndarray of bool, shape (pairs, 4)
            A column for each of `FLAGS`.

        Examples
        --------
        >>> conflicts = Conflicts()
        >>> facts = conflicts.facts(["Аренда 1200", "Аренда 1500", "Аренда не 1500", "аренда 1200"])
        >>> conflicts.between(facts, np.array([0, 1, 0]), np.array([1, 2, 3])).astype(int)
        array([[1, 0, 0, 0],
               [0, 0, 1, 0],
               [0, 0, 0, 0]])
        """
        flags = np.zeros((len(left), len(FLAGS)), dtype=bool)
        facts.read(np.append(left, right))
        for rule in (_in_places, _shown):
            # A pair that one rule keeps apart is not asked of the next, which costs more.
            open_ = np.flatnonzero(~flags.any(axis=1) & (facts.text[left] != facts.text[right]))
            if len(open_):
                flags[open_] = rule(facts, left[open_], right[open_])
        return flags


def _in_places(facts: Facts, left: Ints, right: Ints) -> Mask:
    """The numbers, dates, negations and words that differ in corresponding sentences.

    Words are names, identifiers, units and others that stand in for those of the other text.
    """
    flags = np.zeros((len(left), len(FLAGS)), dtype=bool)
    places, texts = facts.places, facts.places.texts.__getitem__
    is_short = np.maximum(facts.lengths[left], facts.lengths[right]) <= _FACT_CHARS
    if len(short := np.flatnonzero(is_short)):
        said = facts.differences(left[short], right[short])
        differs = np.logical_or.reduce(said, axis=1)
        a, b = facts.whole(left[short]), facts.whole(right[short])
        alike = places.dice(a[differs], b[differs], 0.0)
        counts = np.flatnonzero(differs)[(alike == 0) | (alike >= _ALIKE_FACTS)]
        flags[short[counts], :_VALUE] = said[counts]
        open_ = ~flags[short].any(axis=1)
        flags[short[open_], _VALUE] = facts.words.differ(a[open_], b[open_], texts)
    for some, of_left, of_right in _parts(facts.units, left, right, np.flatnonzero(~is_short), _MOST_PLACES):
        met = cells(of_left, of_right, _MOST_PLACES)
        chosen = _like_places(met, places.dice(met.left, met.right, _ALIKE))
        place, a, b = met.pair[chosen], met.left[chosen], met.right[chosen]
        # Where one text only says more, none of its sentences is put beside another, and none need be read.
        many = met.n > _MOST_PLACES
        asked = np.flatnonzero(many | (np.bincount(place, minlength=len(some)) > 0))
        if not len(asked):
            continue
        said = np.zeros((len(some), _VALUE), bool)
        said[asked] = facts.differences(left[some[asked]], right[some[asked]])
        flags[some[many], :_VALUE] = said[many]
        differ = (places.said(a) != places.said(b)) & np.logical_or.reduce(said, axis=1)[place, None]
        pair = some[place]
        np.logical_or.at(flags[:, :_VALUE], pair, differ)
        # What differs in a number is not asked for its words, which costs more.
        open_ = ~flags[pair].any(axis=1)
        flags[pair[open_][facts.words.differ(a[open_], b[open_], texts)], _VALUE] = True
    return flags


def _shown(facts: Facts, left: Ints, right: Ints) -> Mask:
    """What a person would be shown as a contradiction."""
    flags = np.zeros((len(left), len(FLAGS)), dtype=bool)
    is_short = np.maximum(facts.lengths[left], facts.lengths[right]) <= _FACT_CHARS
    statements = facts.statements
    for some, of_left, of_right in _parts(facts.stated, left, right, np.arange(len(left)), _MOST_SHOWN):
        met = cells(of_left, of_right, _MOST_SHOWN)
        may = statements.may_contradict(met.left, met.right)
        if not may.any():
            continue
        chosen = ~lacking(met.pair, met.pair[may])
        met = met._replace(pair=met.pair[chosen], left=met.left[chosen], right=met.right[chosen])
        a, b, short = met.left, met.right, is_short[some][met.pair]
        denials, is_measured, key = statements.columns(np.append(a, b))
        alike = np.zeros(len(a))
        for of_kind, least in ((short, 0.0), (~short, _ALIKE)):
            alike[of_kind] = statements.content.dice(a[of_kind], b[of_kind], least)
        one_key = (key[a] == key[b]) & (key[a] >= 0)
        compared = one_key | short
        compared[_like_places(met, np.where(short, 0.0, alike))] = True
        # `contradiction` asks for as much; here it is asked of all pairs at once.
        compared &= one_key | (
            ((denials[a] != denials[b]) & (alike > 0)) | (is_measured[a] & is_measured[b] & (alike >= ALIKE))
        )
        for pair, one, other in zip(
            met.pair[compared].tolist(), a[compared].tolist(), b[compared].tolist(), strict=True
        ):
            for kind in statements.kinds(one, other):
                flags[some[pair], _COLUMN[kind]] = True
    return flags


def _parts(
    of: Callable[[Ints], list[Ints]], left: Ints, right: Ints, pairs: Ints, most: int
) -> Iterator[tuple[Ints, list[Ints], list[Ints]]]:
    """The pairs in parts whose cells fit into memory, and what there is `of` the left and of the right of each."""
    if not len(pairs):
        return
    a, b = of(left[pairs]), of(right[pairs])
    n = np.array([min(len(one) * len(other), most) for one, other in zip(a, b, strict=True)])
    ends = [*(np.flatnonzero(np.diff(n.cumsum() // _AT_ONCE)) + 1).tolist(), len(pairs)]
    parts = [slice(*both) for both in pairwise([0, *ends])]
    for part in bar("comparing texts", parts, silent=len(parts) == 1, leave=False):
        yield pairs[part], a[part], b[part]


def _like_places(met: Cells, alike: Floats) -> Ints:
    """The cells of each member with the most similar one of the other side, if it is similar enough."""
    near = np.flatnonzero(alike)
    chosen = []
    for side in (met.left, met.right):
        # Of equally similar ones the first counts.
        order = near[np.lexsort((near, -alike[near], side[near], met.pair[near]))]
        pair, member = met.pair[order], side[order]
        first = np.append(True, (pair[1:] != pair[:-1]) | (member[1:] != member[:-1]))[: len(order)]
        chosen.append(order[first])
    return distinct(np.concatenate(chosen))
