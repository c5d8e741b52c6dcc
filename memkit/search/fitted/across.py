"""What chunks say of a question's words in other letters than its own.

Words of two alphabets are never equal, so BM25 finds nothing across them. The vectors of single words tell which terms
of the index mean the same as a word, its letters which ones sound like it, as names do («Варшава», "Warsaw"), and these
are looked for in its place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np

from memkit.index.centre import scripts
from memkit.index.encoders.base import Vectors
from memkit.index.lexical import plain_letters
from memkit.schemas import Floats, Ints, Mask
from memkit.search.stages.fuse import group_starts
from memkit.text.analyse import terms_by
from memkit.text.function_words import FUNCTION_WORDS

if TYPE_CHECKING:
    from memkit.search.fitted.index import SearchIndex
    from memkit.search.stages.rank import Candidates

Meant = tuple[tuple[str, float], ...]
"""Terms and how much each is like a word, the most alike first."""
Known = dict[tuple[int, str], Meant]
Sounds = dict[str, list[tuple[str, str]]]
"""Terms with their sounds, by the beginning of these."""

_WORDS = (re.compile(r"(?<!\w)[a-z\u00df-\u024f]{3,}(?!\w)"), re.compile(r"(?<!\w)[\u0400-\u052f]{3,}(?!\w)"))
"""By the number of the alphabet, Latin and Cyrillic."""
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
    """

    def __init__(self, words: Any, vectors: Any, least: float) -> None:
        self._words, self._vectors, self._least = words, vectors, least
        self._terms: dict[int, list[str]] = {}
        self._sounds: dict[int, Sounds] = {}
        self._means: dict[int, Vectors] = {}
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
        if script not in self._means:
            self._means[script] = self._encoded(terms, "document")
        cosines = np.round(self._encoded(words, "query") @ self._means[script].T, _DIGITS)
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST].tolist()
        return [
            _most_alike([*heard, *((terms[at], float(row[at])) for at in best if row[at] >= self._least)])
            for heard, row, best in zip(self.heard(words, 1 - script), cosines, order, strict=True)
        ]

    def _sounding(self, words: list[str], script: int) -> list[Meant]:
        if script not in self._sounds:
            sounds: Sounds = {}
            for term in self._of(script):
                said = sound(term)
                sounds.setdefault(said[:_BEGINNING], []).append((term, said))
            self._sounds[script] = sounds
        return [self._heard_as(sound(_stem(self._words, word) or ""), self._sounds[script]) for word in words]

    def _heard_as(self, said: str, sounds: Sounds) -> Meant:
        alike = (
            (term, round(alike_in_sound(said, other), _DIGITS)) for term, other in sounds.get(said[:_BEGINNING], ())
        )
        return _most_alike((term, share) for term, share in alike if share >= _HEARD)

    def _of(self, script: int) -> list[str]:
        """Terms in letters of `script`, in order; found when they are first needed."""
        if script not in self._terms:
            postings, pattern = self._words.postings_, _WORDS[script]
            often = {
                term: int(postings.document_frequency[number])
                for term, number in postings.terms.items()
                if pattern.fullmatch(term) and term not in self._words.function_terms_
            }
            if self._words.totals_ is not None:
                often = {t: int(self._words.totals_.document_frequency[postings.terms[t]]) for t in often}
            self._terms[script] = sorted(sorted(often, key=lambda term: (-often[term], term))[:_TERMS])
        return self._terms[script]

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


def vocabulary_of(index: SearchIndex) -> Vocabulary | None:
    """That of `index`; None where its encoder does not tell the meaning of single words, or words are not searched."""
    words, vectors = index.arms.get("bm25"), index.arms.get("vector")
    least = getattr(getattr(getattr(vectors, "encoder_", None), "calibration", None), "alike", None)
    return Vocabulary(words, vectors, least) if least is not None and hasattr(words, "function_terms_") else None


def said_across(index: SearchIndex, texts: Sequence[str], found: Candidates) -> tuple[Floats, Mask]:
    """The lexical score that each candidate has by what the words of its question mean, and which are in other letters.

    The question of each is one of `texts`. A chunk in the letters of the question may hold names in others as well:
    these are looked for by their sound, where the index does not know the question's word.
    """
    asked = scripts(texts)
    script = asked[found.query]
    is_told = script < len(_WORDS)
    said, apart = np.zeros(len(script)), is_told & (index.scripts[found.row] != script)
    at = np.flatnonzero(is_told)
    if not len(at) or index.vocabulary is None:
        return said, apart
    arm = index.kept(index, "bm25") if index.is_part else index.arms["bm25"]
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
    slots = np.zeros(postings.n_slots, np.float32)
    postings.add_up(slots, numbers, np.array([factors[number] for number in numbers.tolist()], np.float32), 1)
    scores: Floats = postings.by_row(slots).astype(np.float64)
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
