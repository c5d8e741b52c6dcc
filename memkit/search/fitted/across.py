"""Matching words across alphabets: Latin and Cyrillic.

Words of two alphabets are never equal, so BM25 finds nothing across them. Vectors of single words show which terms of
the index mean the same as a query word, and a phonetic match shows which ones sound like it, as names do («Варшава»,
"Warsaw"). These terms are searched in its place.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from memkit.index.ann import scripts
from memkit.index.arm import Sight
from memkit.index.encoders.base import Vectors
from memkit.index.lexical import plain_letters
from memkit.schemas import Floats, Ints, Mask
from memkit.search.state import group_starts
from memkit.text.analyse import terms_by
from memkit.text.languages import CYRILLIC_LETTERS, FUNCTION_WORDS

if TYPE_CHECKING:
    from memkit.search.fitted.index import MemoryIndex
    from memkit.search.state import Candidates

SimilarTerms = tuple[tuple[str, float], ...]
"""Terms with their similarity to a word, the most similar first."""
Known = dict[tuple[int, str], SimilarTerms]
Sounds = dict[str, list[tuple[str, str]]]
"""Terms with their phonetic form, by the beginning of that."""
TermVectors = dict[int, tuple[list[str], Vectors]]
"""Terms and their vectors, by alphabet."""

_LETTERS = ("[a-z\u00df-\u024f]{3,}", f"[{CYRILLIC_LETTERS}]{{3,}}")
"""By the number of the alphabet: Latin, Cyrillic."""
_WORDS = tuple(re.compile(rf"(?<!\w){letters}(?!\w)") for letters in _LETTERS)
_LINES = tuple(re.compile(rf"^{letters}$", re.MULTILINE) for letters in _LETTERS)
_WORDED = re.compile("[^\\W\\d_]{3}|[\u2e80-\ua4cf\uac00-\ud7ff]")
"""Three letters on end, or a letter of East Asia: what has neither, such as a table of numbers, says no word."""
WORDLESS = 3
"""Instead of the script of a chunk that says no word: none of the question's words is there in other letters."""
# A round bound: encoding 21,000 terms took a first question 4.5 s.
_TERMS = 20_000
_FEWEST = 5_000
"""So many terms are compared by meaning however few the texts are: 1.2 s of a first question in other letters."""
_WORDS_OF_ENCODED = 25
"""One term is encoded in a tenth of the time of so many words of texts: .24 ms beside 2.4 (encoder `use`)."""
# Chosen with what else counts across letters, after some 60 settings on labelled sets.
_NEAREST = 3
# With «Москва» and "Moscow" two; without it each word would be compared with all terms.
_BEGINNING = 2
"""Words that sound the same begin with so many equal letters."""
# One of 24 variants, on questions to texts in the other language: +.011 and +.007 nDCG@10, no set lower.
_PHONETIC = 0.85
"""The phonetic similarity from which a term stands for a word."""
_DIGITS = 3  # a word alone and one among others differ in the seventh
# Words encoded at a time: a batch of an encoder.
_AT_ONCE = 256

# Longer spellings first: several letters may be one sound.
_SPELLED = {"sch": "s", "ch": "k", "ck": "k", "ph": "f", "sh": "s", "th": "t", "x": "ks", "w": "v", "q": "k"}
_SPELLED |= {"y": "i", "j": "i", "c(?=[eiy])": "s", "c": "k"}
_SPELLINGS = re.compile("|".join(f"({spelling})" for spelling in _SPELLED))
_SOUNDS = tuple(_SPELLED.values())
_REPEATED = re.compile(r"(.)\1+")
_SHORT = 3
"""Words of so few letters are not matched phonetically."""


class Vocabulary:
    """The most frequent terms of an index, by meaning and by sound.

    Parameters
    ----------
    words : BM25
        The arm whose terms these are.
    vectors : Dense
        The arm whose encoder gives their vectors.
    least : float
        The cosine from which two words mean the same.
    term_vectors : dict
        A cache of vectors of terms, shared with a former index.
    """

    def __init__(self, words: Any, vectors: Any, least: float, term_vectors: TermVectors) -> None:
        self._words, self._vectors, self._least, self._term_vectors = words, vectors, least, term_vectors
        self._terms: dict[int, list[str]] = {}
        self._by_letter: dict[int, dict[str, list[str]]] = {}
        self._sounds: dict[str, Sounds] = {}
        self._meant: Known = {}
        self._phonetic: Known = {}

    def prepare(self, share: float) -> None:
        """Encode the terms now if that takes under a tenth of encoding such a `share` of the texts, as was just done.

        Else the first question in other letters encodes them.
        """
        if sum(map(len, self._meant_terms)) <= share * self._n_words / _WORDS_OF_ENCODED:
            for script, terms in enumerate(self._meant_terms):
                self._vectors_of(script, terms)

    @cached_property
    def _n_words(self) -> float:
        """Of all texts."""
        statistics = self._words.statistics_
        return float(statistics.n_rows * statistics.length if statistics else self._words.lengths_.sum())

    @cached_property
    def _meant_terms(self) -> list[list[str]]:
        """By script the terms that are compared by meaning, sorted: the most frequent ones, where all take too long."""
        terms = [self._terms_of(script) for script in range(len(_LETTERS))]
        most = max(_FEWEST, int(self._n_words / _WORDS_OF_ENCODED))
        often = set(self._most_frequent([*terms[0], *terms[1]], most))
        return [[term for term in of_script if term in often] for of_script in terms]

    def similar_terms(self, words: Sequence[str], script: int) -> list[SimilarTerms]:
        """For each of `words` of one `script`, the terms of the other script that mean or sound the same."""
        new = sorted({word for word in words if (script, word) not in self._meant})
        for start in range(0, len(new), _AT_ONCE):
            self._meant.update(self._meaning(new[start : start + _AT_ONCE], script))
        return [self._meant[script, word] for word in words]

    def phonetic(self, words: Sequence[str], script: int) -> list[SimilarTerms]:
        """For each of `words` of one `script`, the terms of the other script that sound the same."""
        new = sorted({word for word in words if (script, word) not in self._phonetic})
        for word, stems in zip(new, terms_by(self._words.analyzer).terms(new), strict=True):
            self._phonetic[script, word] = self._sounding_like(sound(next(iter(stems), "")), 1 - script)
        return [self._phonetic[script, word] for word in words]

    def _meaning(self, words: list[str], script: int) -> Known:
        heard, terms = self.phonetic(words, script), self._meant_terms[1 - script]
        asked = self._vectors.cache_.encode(self._vectors.encoder_, words, "query")
        cosines = np.round(asked @ self._vectors_of(1 - script, terms).T, _DIGITS)
        near = ([(terms[at], float(row[at])) for at in np.flatnonzero(row >= self._least).tolist()] for row in cosines)
        similar = (_most_alike([*sounding, *meaning]) for sounding, meaning in zip(heard, near, strict=True))
        return {(script, word): of_word for word, of_word in zip(words, similar, strict=True)}

    def _vectors_of(self, script: int, terms: list[str]) -> Vectors:
        """The vectors of `terms`; those in the cache are not encoded again."""
        known, vectors = self._term_vectors.get(script, ([], np.empty((0, self._vectors.encoder_.dim), np.float32)))
        if terms == known:
            return vectors
        position = dict(zip(known, range(len(known)), strict=True))
        new = [term for term in terms if term not in position]
        position.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        encoded = self._vectors.cache_.encode(self._vectors.encoder_, new, "document") if new else vectors[:0]
        if known:
            encoded = np.concatenate([vectors, encoded])[[position[term] for term in terms]]
        self._term_vectors[script] = terms, encoded
        return encoded

    def _sounding_like(self, query: str, script: int) -> SimilarTerms:
        similar = (
            (term, round(phonetic_similarity(query, other), _DIGITS))
            for term, other in self._same_beginning(query, script)
            if _may_sound_alike(query, other)
        )
        return _most_alike((term, share) for term, share in similar if share >= _PHONETIC)

    def _same_beginning(self, query: str, script: int) -> Iterator[tuple[str, str]]:
        """Terms whose phonetic form begins as `query` does, with that form."""
        if script not in self._by_letter:
            self._by_letter[script] = {
                letter: list(terms) for letter, terms in groupby(self._terms_of(script), itemgetter(0))
            }
        for letter, terms in self._by_letter[script].items():
            if _may_begin(letter, query[:1]):
                sounds = self._sounds.get(letter) or self._sounds.setdefault(letter, _sounds(terms))
                yield from sounds.get(query[:_BEGINNING], ())

    def _terms_of(self, script: int) -> list[str]:
        """The terms in letters of `script`, sorted; computed at first use."""
        if script not in self._terms:
            lines = _LINES[script].findall("\n".join(self._words.postings_.terms))
            terms = sorted(set(lines).difference(self._words.function_terms_))
            self._terms[script] = sorted(self._most_frequent(terms, _TERMS))
        return self._terms[script]

    def _most_frequent(self, terms: list[str], most: int) -> list[str]:
        postings, statistics = self._words.postings_, self._words.statistics_
        counts = postings.document_frequency if statistics is None else statistics.document_frequency
        frequency = counts[[postings.terms[term] for term in terms]]
        return [terms[index] for index in np.argsort(-frequency, kind="stable")[:most].tolist()]


def _most_alike(similar: Iterable[tuple[str, float]]) -> SimilarTerms:
    best: dict[str, float] = {}
    for term, similarity in similar:
        best[term] = max(similarity, best.get(term, 0.0))
    return tuple(sorted(best.items(), key=lambda item: (-item[1], item[0])))


def _in_sight(similar_terms: SimilarTerms, sight: Sight) -> SimilarTerms:
    """The most similar terms that the question may see."""
    return tuple(islice((term for term in similar_terms if sight.count(term[0])), _NEAREST))


def vocabulary_of(index: MemoryIndex) -> Vocabulary | None:
    """The vocabulary of `index`; None if its encoder is not calibrated for single words, or words are not searched."""
    words, vectors = index.arms.get("bm25"), index.arms.get("vector")
    encoder: Any = getattr(vectors, "encoder_", None)
    least = getattr(getattr(encoder, "calibration", None), "alike", None)
    if least is None or words is None or not words.spells:
        return None
    return Vocabulary(words, vectors, least, index.term_vectors.setdefault(encoder.fingerprint, {}))


def scores_across(
    index: MemoryIndex, texts: Sequence[str], candidates: Candidates, sights: Sequence[Sight]
) -> tuple[Floats, Mask]:
    """The words score of each candidate from terms of the other script, and which candidates are in the other script.

    `texts` are the queries, and `sights` the terms that each may see: no other stands for a word. A chunk in the script
    of its query may contain names in the other script; these are matched phonetically, if no text in sight contains the
    query's word.
    """
    query_script = scripts(texts)
    script = query_script[candidates.query]
    is_known = script < len(_WORDS)
    of_row = index.scripts_of(candidates.row)
    scores, is_other = np.zeros(len(script)), is_known & (of_row != script) & (of_row != WORDLESS)
    rows = np.flatnonzero(is_known)
    if not len(rows) or index.vocabulary is None:
        return scores, is_other
    arm = index.arms["bm25"]
    by_meaning, by_sound = index.vocabulary.similar_terms, index.vocabulary.phonetic
    parts: list[tuple[Ints, Counter[str], int, Any, Sight]] = []
    for group in np.split(rows, group_starts(candidates.query[rows])[1:]):
        query = int(candidates.query[group[0]])
        word_script, words, sight = int(query_script[query]), _words(texts[query], query_script[query]), sights[query]
        # A name written in both scripts side by side would count twice.
        unknown = Counter({word: n for word, n in words.items() if not sight.count(_stem(arm, word) or "")})
        parts.append((group[is_other[group]], words, word_script, by_meaning, sight))
        parts.append((group[~is_other[group]], unknown, word_script, by_sound, sight))
    parts = [part for part in parts if len(part[0])]
    for number in range(len(_WORDS)):  # all words at once fill the cache
        by_meaning(
            [
                w
                for _, words, word_script, find, _ in parts
                if word_script == number and find == by_meaning
                for w in words
            ],
            number,
        )
    for rows, words, word_script, find, sight in parts:
        similar_terms = [_in_sight(terms, sight) for terms in find(list(words), word_script)]
        if any(similar_terms):
            scores[rows] = _scores(arm, words, similar_terms)[candidates.row[rows]]
    return scores, is_other


def says_words(text: str) -> bool:
    """Whether a text has words that others may mean the same as.

    >>> says_words("чай"), says_words("茶"), says_words('"y": 1689, "x": 1690')
    (True, True, False)
    """
    return _WORDED.search(text) is not None


def _words(text: str, script: Any) -> Counter[str]:
    words = _WORDS[script].findall(text.lower())
    return Counter(word for word in words if word.replace("ё", "е") not in FUNCTION_WORDS)


def _scores(arm: Any, words: Counter[str], similar_terms: Sequence[SimilarTerms]) -> Floats:
    """The score of each row, where similar terms stand for a word, weighted by their similarity."""
    postings = arm.postings_
    factors: dict[int, float] = {}
    for (word, count), terms in zip(words.items(), similar_terms, strict=True):
        weight = _idf(arm, word) * arm._occurrences(count)
        for term, similarity in terms:
            if (number := postings.terms.get(term)) is not None:
                factors[number] = factors.get(number, 0.0) + weight * similarity
    numbers: Ints = np.array(sorted(factors), np.int64)
    postings.weigh(numbers, arm._weights)
    weights = np.array([factors[number] for number in numbers.tolist()], np.float32)
    scores: Floats = postings.scores((numbers, weights)).astype(np.float64)
    return scores


def _idf(arm: Any, word: str) -> float:
    number = arm.postings_.terms.get(_stem(arm, word))
    n_rows = arm.statistics_.n_rows if arm.statistics_ else arm.postings_.n_rows
    # Of a word that no text has: as of a term that 0 of the texts have.
    return float(np.log1p((n_rows + 0.5) / 0.5) if number is None else arm.idf_[number])


def _stem(arm: Any, word: str) -> str | None:
    return next(iter(terms_by(arm.analyzer).terms([word])[0]), None)


def sound(word: str) -> str:
    """A rough phonetic form of a lower-case word, in Latin letters, whichever letters it is written in.

    >>> sound("питон"), sound("python")
    ('piton', 'piton')
    >>> sound("кэш"), sound("cache")
    ('kes', 'kake')
    """
    sounds = _SPELLINGS.sub(lambda match: _SOUNDS[(match.lastindex or 1) - 1], plain_letters(word))
    return _REPEATED.sub(r"\1", sounds)


def _sounds(terms: list[str]) -> Sounds:
    by_beginning: Sounds = {}
    for term, form in zip(terms, sound("\n".join(terms)).split("\n"), strict=True):
        by_beginning.setdefault(form[:_BEGINNING], []).append((term, form))
    return by_beginning


@functools.cache
def _may_begin(letter: str, start: str) -> bool:
    """Whether the phonetic form of a word that begins with `letter` may begin with `start`."""
    first = plain_letters(letter)[:1]
    # A letter without a sound of its own is followed by any.
    return first in ("", start) or any(
        sounds[0] == start for spelling, sounds in _SPELLED.items() if spelling[0] == first
    )


def _may_sound_alike(one: str, other: str) -> bool:
    """Whether two forms share enough letters, in whatever order: a quick test that most pairs fail."""
    # A digit less than is asked for, as the similarity itself is rounded up to it.
    least = (_PHONETIC - 0.1**_DIGITS) * (len(one) + len(other)) / 2
    if min(len(one), len(other)) < least:
        return False
    return sum(min(one.count(letter), other.count(letter)) for letter in set(one)) >= least


def phonetic_similarity(one: str, other: str) -> float:
    """The similarity of two phonetic forms, 0 to 1 (Ratcliff and Metzener 1988).

    It is 0 for short ones, and for those that begin with different letters.

    >>> round(phonetic_similarity(sound("лиссабон"), sound("lisbon")), 2)
    0.92
    >>> phonetic_similarity(sound("пост"), sound("lost"))
    0.0
    """
    if min(len(one), len(other)) <= _SHORT or one[:_BEGINNING] != other[:_BEGINNING]:
        return 0.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
