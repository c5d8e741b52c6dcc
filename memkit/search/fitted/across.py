"""What chunks say of a question's words in other letters than its own.

Words of two alphabets are never equal, so BM25 finds nothing across them. The vectors of single words tell which terms
of the index mean the same as a word, its letters which ones sound like it, as names do («Варшава», "Warsaw"), and these
are looked for in its place.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from memkit.index.centre import scripts
from memkit.index.encoders.base import Vectors
from memkit.index.lexical import plain_letters
from memkit.schemas import Floats, Ints, Mask
from memkit.search.stages.fuse import group_starts
from memkit.text.analyse import terms_by
from memkit.text.function_words import FUNCTION_WORDS
from memkit.text.letters import CYRILLIC_LETTERS

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex
    from memkit.search.stages.rank import Candidates

Meant = tuple[tuple[str, float], ...]
"""Terms and how much each is like a word, the most alike first."""
Known = dict[tuple[int, str], Meant]
Sounds = dict[str, list[tuple[str, str]]]
"""Terms with their sounds, by the beginning of these."""
Means = dict[int, tuple[list[str], Vectors]]
"""By alphabet, terms and their vectors."""

_LETTERS = ("[a-z\u00df-\u024f]{3,}", f"[{CYRILLIC_LETTERS}]{{3,}}")
"""By the number of the alphabet, Latin and Cyrillic."""
_WORDS = tuple(re.compile(rf"(?<!\w){letters}(?!\w)") for letters in _LETTERS)
_LINES = tuple(re.compile(rf"^{letters}$", re.MULTILINE) for letters in _LETTERS)
_TERMS = 20_000
_NEAREST = 3
_BEGINNING = 2
"""What sounds the same begins with so many same letters."""
_HEARD = 0.85
"""How alike in sound a term is that stands for a word."""
_DIGITS = 3  # a word alone and one among others differ in the seventh
_AT_ONCE = 256

# The longer spelling first: what is said by several letters is one sound.
_SPELLED = {"sch": "s", "ch": "k", "ck": "k", "ph": "f", "sh": "s", "th": "t", "x": "ks", "w": "v", "q": "k"}
_SPELLED |= {"y": "i", "j": "i", "c(?=[eiy])": "s", "c": "k"}
_SPELLINGS = re.compile("|".join(f"({spelling})" for spelling in _SPELLED))
_SAID = tuple(_SPELLED.values())
_REPEATED = re.compile(r"(.)\1+")
_SHORT = 3
"""So few letters sound like too many words."""


class Vocabulary:
    """The terms of an index by what they mean, those that occur most.

    Parameters
    ----------
    words : BM25
        Whose terms these are.
    vectors : Dense
        Its encoder tells what they mean.
    least : float
        The cosine from which two words mean the same.
    means : dict
        Vectors of terms by the same encoder that an index before this one had asked for; it gets those of this one.
    """

    def __init__(self, words: Any, vectors: Any, least: float, means: Means) -> None:
        self._words, self._vectors, self._least, self._means = words, vectors, least, means
        self._terms: dict[int, list[str]] = {}
        self._by_letter: dict[int, dict[str, list[str]]] = {}
        self._sounds: dict[str, Sounds] = {}
        self._meant: Known = {}
        self._heard: Known = {}

    def meant(self, words: Sequence[str], script: int) -> list[Meant]:
        """For each of `words`, in letters of `script`, the terms in the other letters that mean or sound the same."""
        return _told(self._meant, self._meaning, words, script)

    def heard(self, words: Sequence[str], script: int) -> list[Meant]:
        """For each of `words`, in letters of `script`, the terms in the other letters that sound the same."""
        return _told(self._heard, self._sounding, words, script)

    def _meaning(self, words: list[str], script: int) -> list[Meant]:
        terms = self._of(script)
        if not terms:
            return [()] * len(words)
        cosines = np.round(self._encoded(words, "query") @ self._meanings(script, terms).T, _DIGITS)
        return [
            _most_alike([*heard, *self._nearest(terms, row)])
            for heard, row in zip(self.heard(words, 1 - script), cosines, strict=True)
        ]

    def _nearest(self, terms: list[str], cosines: Vectors) -> list[tuple[str, float]]:
        near = np.flatnonzero(cosines >= self._least)
        best = near[np.argsort(-cosines[near], kind="stable")[:_NEAREST]]
        return [(terms[at], float(cosines[at])) for at in best.tolist()]

    def _meanings(self, script: int, terms: list[str]) -> Vectors:
        """The vectors of `terms`; those that the index before had are not asked for again."""
        known, vectors = self._means.get(script, ([], np.empty((0, self._vectors.encoder_.dim), np.float32)))
        if terms == known:
            return vectors
        at = dict(zip(known, range(len(known)), strict=True))
        own = [term for term in terms if term not in at]
        at.update(zip(own, range(len(known), len(known) + len(own)), strict=True))
        found = self._encoded(own, "document") if own else vectors[:0]
        if known:
            found = np.concatenate([vectors, found])[[at[term] for term in terms]]
        self._means[script] = terms, found
        return found

    def _sounding(self, words: list[str], script: int) -> list[Meant]:
        stems = terms_by(self._words.analyser).of(words)
        return [self._heard_as(sound(next(iter(of_word), "")), script) for of_word in stems]

    def _heard_as(self, said: str, script: int) -> Meant:
        alike = (
            (term, round(alike_in_sound(said, other), _DIGITS))
            for term, other in self._beginning_as(said, script)
            if _may_be_heard(said, other)
        )
        return _most_alike((term, share) for term, share in alike if share >= _HEARD)

    def _beginning_as(self, said: str, script: int) -> Iterator[tuple[str, str]]:
        """Terms, with their sounds, that begin with the sounds of `said`; what cannot is not looked at."""
        if script not in self._by_letter:
            self._by_letter[script] = {
                letter: list(terms) for letter, terms in groupby(self._of(script), itemgetter(0))
            }
        for letter, terms in self._by_letter[script].items():
            if _may_begin(letter, said[:1]):
                sounds = self._sounds.get(letter) or self._sounds.setdefault(letter, _sounds(terms))
                yield from sounds.get(said[:_BEGINNING], ())

    def _of(self, script: int) -> list[str]:
        """Terms in letters of `script`, in order; found when they are first needed."""
        if script not in self._terms:
            found = _LINES[script].findall("\n".join(self._words.postings_.terms))
            found = sorted(set(found).difference(self._words.function_terms_))
            self._terms[script] = found if len(found) <= _TERMS else sorted(self._most_frequent(found))
        return self._terms[script]

    def _most_frequent(self, terms: list[str]) -> list[str]:
        postings, totals = self._words.postings_, self._words.totals_
        often = postings.document_frequency if totals is None else totals.document_frequency
        frequency = often[[postings.terms[term] for term in terms]]
        return [terms[at] for at in np.argsort(-frequency, kind="stable")[:_TERMS].tolist()]

    def _encoded(self, words: list[str], role: str) -> Vectors:
        vectors: Vectors = self._vectors.cache_.encode(self._vectors.encoder_, words, role)
        return vectors


def _told(
    known: Known, find: Callable[[list[str], int], list[Meant]], words: Sequence[str], script: int
) -> list[Meant]:
    """What is `known` of `words` in letters of `script`; what is not is found among the terms in the other letters."""
    new = sorted({word for word in words if (script, word) not in known})
    for start in range(0, len(new), _AT_ONCE):
        some = new[start : start + _AT_ONCE]
        known.update(zip(((script, word) for word in some), find(some, 1 - script), strict=True))
    return [known[script, word] for word in words]


def _most_alike(found: Iterable[tuple[str, float]]) -> Meant:
    best: dict[str, float] = {}
    for term, alike in found:
        best[term] = max(alike, best.get(term, 0.0))
    return tuple(sorted(best.items(), key=lambda one: (-one[1], one[0]))[:_NEAREST])


def vocabulary_of(index: MemoryIndex) -> Vocabulary | None:
    """That of `index`; None where its encoder does not tell the meaning of single words, or words are not searched."""
    words, vectors = index.arms.get("bm25"), index.arms.get("vector")
    encoder: Any = getattr(vectors, "encoder_", None)
    least = getattr(getattr(encoder, "calibration", None), "alike", None)
    if least is None or not hasattr(words, "function_terms_"):
        return None
    return Vocabulary(words, vectors, least, index.means.setdefault(encoder.fingerprint, {}))


def said_across(index: MemoryIndex, texts: Sequence[str], found: Candidates) -> tuple[Floats, Mask]:
    """The lexical score that each candidate has by what the words of its question mean, and which are in other letters.

    The question of each is one of `texts`. A chunk in the letters of the question may hold names in others as well:
    these are looked for by their sound, where the index does not know the question's word.
    """
    asked = scripts(texts)
    script = asked[found.query]
    is_told = script < len(_WORDS)
    said, apart = np.zeros(len(script)), is_told & (index.scripts_of(found.row) != script)
    at = np.flatnonzero(is_told)
    if not len(at) or index.vocabulary is None:
        return said, apart
    arm = index.words
    tell, listen = index.vocabulary.meant, index.vocabulary.heard
    parts: list[tuple[Ints, Counter[str], int, Any]] = []
    for some in np.split(at, group_starts(found.query[at])[1:]):
        query = int(found.query[some[0]])
        of, words = int(asked[query]), _words(texts[query], asked[query])
        # What is written in both ways beside each other would count twice.
        unknown = Counter({word: often for word, often in words.items() if _stem(arm, word) not in arm.postings_.terms})
        parts += [(some[apart[some]], words, of, tell), (some[~apart[some]], unknown, of, listen)]
    parts = [part for part in parts if len(part[0])]
    for which in range(len(_WORDS)):
        tell([word for _, words, of, look in parts if of == which and look == tell for word in words], which)
    for rows, words, of, look in parts:
        meant = look(list(words), of)
        if any(meant):
            said[rows] = _scores(arm, words, meant)[found.row[rows]]
    return said, apart


def _words(text: str, script: Any) -> Counter[str]:
    found = _WORDS[script].findall(text.lower())
    return Counter(word for word in found if word.replace("ё", "е") not in FUNCTION_WORDS)


def _scores(arm: Any, words: Counter[str], meant: Sequence[Meant]) -> Floats:
    """What each row scores where terms that mean a word stand for it, by how much they are like it."""
    postings = arm.postings_
    factors: dict[int, float] = {}
    for (word, often), terms in zip(words.items(), meant, strict=True):
        worth = _idf(arm, word) * arm._occurrences(often)
        for term, alike in terms:
            if (number := postings.terms.get(term)) is not None:
                factors[number] = factors.get(number, 0.0) + worth * alike
    numbers: Ints = np.array(sorted(factors), np.int64)
    postings.weigh(numbers, arm._weights)
    weights = np.array([factors[number] for number in numbers.tolist()], np.float32)
    scores: Floats = postings.scores((numbers, weights)).astype(np.float64)
    return scores


def _idf(arm: Any, word: str) -> float:
    number = arm.postings_.terms.get(_stem(arm, word))
    n_rows = arm.totals_.n_rows if arm.totals_ else arm.postings_.n_rows
    return float(np.log1p((n_rows + 0.5) / 0.5) if number is None else arm.idf_[number])


def _stem(arm: Any, word: str) -> str | None:
    return next(iter(terms_by(arm.analyser).of([word])[0]), None)


def sound(word: str) -> str:
    """What a lower-case word sounds like, roughly, in whichever letters it is written.

    >>> sound("питон"), sound("python")
    ('piton', 'piton')
    >>> sound("кэш"), sound("cache")
    ('kes', 'kake')
    """
    said = _SPELLINGS.sub(lambda found: _SAID[(found.lastindex or 1) - 1], plain_letters(word))
    return _REPEATED.sub(r"\1", said)


def _sounds(terms: list[str]) -> Sounds:
    found: Sounds = {}
    for term, said in zip(terms, sound("\n".join(terms)).split("\n"), strict=True):
        found.setdefault(said[:_BEGINNING], []).append((term, said))
    return found


@functools.cache
def _may_begin(letter: str, said: str) -> bool:
    """Whether the sound of a word that begins with `letter` may begin with `said`."""
    first = plain_letters(letter)[:1]
    # A letter without a sound of its own is followed by any.
    return first in ("", said) or any(to[0] == said for of, to in _SPELLED.items() if of[0] == first)


def _may_be_heard(one: str, other: str) -> bool:
    """Whether the letters that both have, in whatever order, are as many as it takes: most words differ in more."""
    least = (_HEARD - 0.1**_DIGITS) * (len(one) + len(other)) / 2
    if min(len(one), len(other)) < least:
        return False
    return sum(min(one.count(letter), other.count(letter)) for letter in set(one)) >= least


def alike_in_sound(one: str, other: str) -> float:
    """How much of two sounds is the same, 0 to 1 (Ratcliff and Metzener 1988); 0 where they are short or begin apart.

    >>> round(alike_in_sound(sound("лиссабон"), sound("lisbon")), 2)
    0.92
    >>> alike_in_sound(sound("пост"), sound("lost"))
    0.0
    """
    if min(len(one), len(other)) <= _SHORT or one[:_BEGINNING] != other[:_BEGINNING]:
        return 0.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
