"""What chunks in other letters than a question's say of its words.

Words of two alphabets are never equal, so BM25 finds nothing across them. The vectors of single words tell which terms
of the index mean the same as a word, and these are looked for in its place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memkit.index.centre import scripts
from memkit.index.encoders.base import Vectors
from memkit.schemas import Floats, Ints
from memkit.search.stages.fuse import group_starts
from memkit.text.analyse import terms_by
from memkit.text.function_words import FUNCTION_WORDS

if TYPE_CHECKING:
    from memkit.search.fitted.index import SearchIndex
    from memkit.search.stages.rank import Candidates

Meant = tuple[tuple[str, float], ...]
"""Terms and how much each is like a word, the most alike first."""

_WORDS = (re.compile(r"(?<!\w)[a-z\u00df-\u024f]{3,}(?!\w)"), re.compile(r"(?<!\w)[\u0400-\u052f]{3,}(?!\w)"))
"""By the number of the alphabet, Latin and Cyrillic."""
_TERMS = 20_000
_NEAREST = 3
_DIGITS = 3  # a word alone and one among others differ in the seventh
_AT_ONCE = 256


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
        self._terms: dict[int, tuple[list[str], Vectors]] = {}
        self._meant: dict[tuple[int, str], Meant] = {}

    def meant(self, words: Sequence[str], script: int) -> list[Meant]:
        """For each of `words`, in letters of `script`, the terms in the other letters that mean the same."""
        new = sorted({word for word in words if (script, word) not in self._meant})
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            self._meant.update(zip(((script, word) for word in some), self._nearest(some, 1 - script), strict=True))
        return [self._meant[script, word] for word in words]

    def _nearest(self, words: list[str], script: int) -> list[Meant]:
        terms, vectors = self._of(script)
        if not terms:
            return [()] * len(words)
        cosines = np.round(self._encoded(words, "query") @ vectors.T, _DIGITS)
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST].tolist()
        return [
            tuple((terms[at], float(row[at])) for at in best if row[at] >= self._least)
            for row, best in zip(cosines, order, strict=True)
        ]

    def _of(self, script: int) -> tuple[list[str], Vectors]:
        """Terms in letters of `script`, in order, with their vectors; made when they are first needed."""
        if script not in self._terms:
            postings, pattern = self._words.postings_, _WORDS[script]
            often = {
                term: int(postings.document_frequency[number])
                for term, number in postings.terms.items()
                if pattern.fullmatch(term) and term not in self._words.function_terms_
            }
            if self._words.totals_ is not None:
                often = {t: int(self._words.totals_.document_frequency[postings.terms[t]]) for t in often}
            terms = sorted(sorted(often, key=lambda term: (-often[term], term))[:_TERMS])
            self._terms[script] = terms, self._encoded(terms, "document")
        return self._terms[script]

    def _encoded(self, words: list[str], role: str) -> Vectors:
        vectors: Vectors = self._vectors.cache_.encode(self._vectors.encoder_, words, role)
        return vectors


def vocabulary_of(index: SearchIndex) -> Vocabulary | None:
    """That of `index`; None where its encoder does not tell the meaning of single words, or words are not searched."""
    words, vectors = index.arms.get("bm25"), index.arms.get("vector")
    least = getattr(getattr(getattr(vectors, "encoder_", None), "calibration", None), "alike", None)
    return Vocabulary(words, vectors, least) if least is not None and hasattr(words, "function_terms_") else None


def said_across(index: SearchIndex, texts: Sequence[str], found: Candidates) -> Floats:
    """The lexical score that each candidate has by what the words of its question mean.

    NaN where it is in the letters of the question, which is one of `texts`.
    """
    asked = scripts(texts)
    script = asked[found.query]
    said = np.where((index.scripts[found.row] != script) & (script < len(_WORDS)), 0.0, np.nan)
    at = np.flatnonzero(~np.isnan(said))
    if not len(at) or index.vocabulary is None:
        return said
    words = index.kept(index, "bm25") if index.is_part else index.arms["bm25"]
    starts = group_starts(found.query[at])
    words_of = {int(query): _words(texts[query], asked[query]) for query in found.query[at][starts]}
    for which in range(len(_WORDS)):
        index.vocabulary.meant([w for q, ws in words_of.items() if asked[q] == which for w in ws], which)
    for some in np.split(at, starts[1:]):
        query = int(found.query[some[0]])
        scores = _scores(words, words_of[query], index.vocabulary.meant(list(words_of[query]), int(asked[query])))
        said[some] = scores[found.row[some]]
    return said


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
    term = next(iter(terms_by(arm.analyser).of([word])[0]), None)
    number = arm.postings_.terms.get(term)
    n_rows = arm.totals_.n_rows if arm.totals_ else arm.postings_.n_rows
    return float(np.log1p((n_rows + 0.5) / 0.5) if number is None else arm.idf_[number])
