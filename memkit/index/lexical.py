"""Arms that search words: `BM25`, and `CharGrams` and `Grams` for typos and inflections that stemmers miss."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from memkit.errors import NotFittedError
from memkit.index import store
from memkit.index.postings import Lists, Postings, Query, Texts, check_chunks, strings
from memkit.params import Estimator, estimator, param
from memkit.tables.fts import K1, B
from memkit.text.analyse import ANALYSERS, terms_by
from memkit.text.function_words import FUNCTION_WORDS


class CollectionStatistics(NamedTuple):
    """What weights depend on besides a row and its terms: of all rows, be they in several indexes.

    `document_frequency` is by the numbers of the terms, and `length` the mean number of terms a row.
    """

    n_rows: int
    document_frequency: np.ndarray
    length: float


class _Lexical(Estimator):
    """What arms over words share: terms are counted, and weighed by what all the rows have when a query asks."""

    _name: ClassVar[str]

    postings_: Lists
    statistics_: CollectionStatistics | None = None
    """Of all buckets; None: of these rows alone."""

    def fit(self, chunks: pa.Table, texts: Texts) -> Self:
        """Index `texts`, one for each row of `chunks`.

        Raises
        ------
        ParameterError
            Where a parameter is outside of its bounds, or the lengths differ.
        """
        self.check_params()
        check_chunks(chunks, texts)
        return self._use(self._count(texts))

    def updated(self, at: np.ndarray, chunks: pa.Table, texts: pa.Array | pa.ChunkedArray) -> Self | None:
        """What a `fit` to all of `texts` gives, where only those of new rows are read; None where that takes a fit.

        Parameters
        ----------
        at : ndarray of shape (n_chunks,), int64
            For each row of `chunks` the row of this arm with its text, in rising order; n_rows of this arm and more
            for those that are new, in their order.
        chunks, texts
            As for `fit`.
        """
        from memkit.index.segments import updated

        postings = _fitted(self)
        if isinstance(postings, Postings) and len(postings.counts) < len(postings.rows):
            return None
        fresh = self._count(texts.filter(pa.array(at >= postings.n_rows)))
        return copy.copy(self)._use(updated(postings, at, fresh))

    def candidates(
        self,
        queries: Sequence[str],
        n: int,
        allowed: np.ndarray | None = None,
        *,
        function_word_weight: float = 1.0,
    ) -> pa.Table:
        """The best rows of each query.

        Parameters
        ----------
        queries : sequence of str
        n : int
            At most so many rows a query.
        allowed : ndarray of shape (n_rows,), bool, or None
            Which rows may be found; applied before the cut.
        function_word_weight : float
            What an occurrence of a function word in a query counts; over letters, whether it counts at all: below 1 it
            does not.

        Returns
        -------
        pa.Table
            query (int64, place in `queries`), row (int64), score (float64, positive): best first, ties by row.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ParameterError
            Where `n` is below 1 or `allowed` no mask over the rows.
        """
        postings = _fitted(self)
        asked = self._weigh_all(queries, function_word_weight)
        for terms, _ in asked:
            postings.weigh(terms, self._weights)
        return postings.best(asked, n, allowed)

    def rough(self, queries: Sequence[str], *, function_word_weight: float = 1.0) -> Iterator[np.ndarray]:
        """For each query the score of every row, 0 where it shares no term; float32, shape (n_rows,)."""
        postings = _fitted(self)
        for query in self._weigh_all(queries, function_word_weight):
            postings.weigh(query[0], self._weights)
            yield postings.scores(query)

    def save(self, folder: Path) -> None:
        """Write ``{arm}_terms.parquet`` and ``{arm}_postings.parquet``."""
        from memkit.index.saved import save

        postings = _fitted(self).whole()
        arm = self if postings is self.postings_ else copy.copy(self)._use(postings)
        postings.weigh(np.arange(len(postings.terms)), arm._weights)
        save(postings, folder, self._name, self.get_params(deep=False))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote; raises DamagedIndexError where it is not that."""
        from memkit.index.saved import load

        postings, settings = load(folder, cls._name)
        with store.checking(folder):
            arm = cls(**settings)
            arm.check_params()
        return arm._use(postings)

    def _count(self, texts: Texts) -> Postings:
        raise NotImplementedError

    def _weigh_all(self, queries: Sequence[str], function_word_weight: float) -> list[Query]:
        raise NotImplementedError

    def _weights(self, term: int, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """What the rows that have a term so often score by."""
        raise NotImplementedError

    def _use(self, postings: Lists) -> Self:
        self.postings_ = postings
        vars(self).pop("norms_", None)
        return self


@estimator
class BM25(_Lexical):
    """Okapi BM25 with Lucene's idf, ln(1 + (N - df + 0.5) / (df + 0.5)), which is never negative.

    With ``k3=0`` a term counts once in a query, however often it is repeated, and scores are those of DuckDB's
    ``match_bm25`` times ln(10), because its ``log`` is to the base 10; weights are kept as float32, which is exact to
    about 1e-7. Other k3 follow Okapi: a term that is there f times in a query counts f (k3 + 1) / (f + k3) times.

    Examples
    --------
    >>> arm = BM25().fit(pa.table({"chunk_id": ["a", "b"]}), ["Пул соединений: 10", "кот спит"])
    >>> arm.candidates(["пулы", "коты спят"], n=5).select(["query", "row"]).to_pylist()
    [{'query': 0, 'row': 0}, {'query': 1, 'row': 1}]
    """

    _name = "bm25"

    analyser: str = param("auto", choices=ANALYSERS, refit=True, doc="What becomes of a word.")
    k1: float = param(K1, low=0, refit=True, doc="How late further occurrences of a term stop to count.")
    b: float = param(B, low=0, high=1, unit="ratio", refit=True, doc="How much longer texts are marked down.")
    k3: float = param(
        0.0,
        low=0,
        doc="How late repetitions in a query stop to count; 0 is at once.",
        source="Robertson et al. 1999, Okapi at TREC-8",
    )

    def scale(self, queries: Sequence[str], background: object, *, function_word_weight: float = 1.0) -> np.ndarray:
        """For each query the scores that count 0 and 1, shape (n_queries, 2).

        1 is what a text full of all the query's terms would reach, those included that no text has: a query of which
        half is unknown here is never more than half answered.
        """
        asked = self._asked(queries, function_word_weight)
        most = (self._most(terms, weights, function_word_weight) for terms, (_, weights) in asked)
        return np.array([(0.0, one or 1.0) for one in most]).reshape(-1, 2)

    def _count(self, texts: Texts) -> Postings:
        return Postings.count(texts, self.analyser)

    def _weights(self, term: int, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        weights: np.ndarray = np.multiply(counts, self.k1 + 1, dtype=np.float64) / (self.norms_[rows] + counts)
        return weights

    def _use(self, postings: Lists) -> Self:
        super()._use(postings)
        n_rows, df, _ = self.statistics_ or (postings.n_rows, postings.document_frequency, 0.0)
        self.idf_ = np.log1p((n_rows - df + 0.5) / (df + 0.5)).astype(np.float32)
        self._last: tuple[Any, list[tuple[list[str], Query]]] = (None, [])
        self.function_terms_ = _function_terms(self.analyser)
        self.is_function_ = np.zeros(len(df), bool)
        self.is_function_[_known(postings, sorted(self.function_terms_))[0]] = True
        return self

    @cached_property
    def norms_(self) -> np.ndarray:
        """What the length of each row, beside the mean, lets its weights lose; found when a query first asks."""
        postings = self.postings_
        lengths = postings.sums(np.positive, np.ones(len(postings.document_frequency)))
        mean = (
            self.statistics_.length if self.statistics_ else postings.by_row(lengths).mean() if postings.n_rows else 0.0
        )
        return np.asarray(self.k1 * (1 - self.b + self.b * lengths / (mean or 1)))

    def _weigh_all(self, queries: Sequence[str], function_word_weight: float = 1.0) -> list[Query]:
        return [query for _, query in self._asked(queries, function_word_weight)]

    def _asked(self, queries: Sequence[str], function_word_weight: float) -> list[tuple[list[str], Query]]:
        """Terms of each query, as they are and weighed; those asked last are held, as each search needs them twice."""
        key = (tuple(queries), function_word_weight, self.k3)
        held, found = self._last
        if held != key:
            terms = terms_by(self.analyser).of(queries)
            found = [(some, self._weigh(some, function_word_weight)) for some in terms]
            self._last = key, found
        return found

    def _weigh(self, terms: list[str], function_word_weight: float = 1.0) -> Query:
        # BM25 is a sum over terms of idf · tf part. The tf part knows only the chunk and is the posting's weight; idf
        # and the k3 part know only the query. So a score is an inner product, which costs the lists of its terms.
        known, repeats = _known(self.postings_, terms)
        weights = (self.idf_[known] * self._occurrences(repeats)).astype(np.float32)
        if function_word_weight != 1.0:
            weights = np.where(self.is_function_[known], np.float32(function_word_weight) * weights, weights)
        return known, weights

    def _occurrences(self, repeats: Any) -> Any:
        return repeats * (self.k3 + 1) / (repeats + self.k3)

    def _most(self, terms: list[str], weights: np.ndarray, function_word_weight: float) -> float:
        known = {term for term in terms if term in self.postings_.terms}
        # Two known characters side by side that no text has are mostly the end of a word and the beginning of the next.
        unknown = Counter(term for term in terms if term not in known and not (len(term) == 2 and {*term} <= known))
        n_rows = self.statistics_.n_rows if self.statistics_ else self.postings_.n_rows
        rarest = np.log1p((n_rows + 0.5) / 0.5)  # the idf of what no text has
        missed = sum(
            self._occurrences(repeats) * (function_word_weight if term in self.function_terms_ else 1.0)
            for term, repeats in unknown.items()
        )
        return float((self.k1 + 1) * (weights.sum() + rarest * missed))


@estimator
class CharGrams(_Lexical):
    """TF-IDF of stems and of character 3- to 5-grams within words; the score is the mean of both cosines, 0 to 1.

    Finds what a stemmer misses («память», «памяти») and words with a typo. Weights are scikit-learn's: (1 + ln tf) *
    (ln((1 + N) / (1 + df)) + 1), each half of unit length.

    Examples
    --------
    >>> arm = CharGrams().fit(pa.table({"chunk_id": ["a", "b"]}), ["настройка памяти", "кот спит"])
    >>> arm.candidates(["памть"], n=5)["row"].to_pylist()
    [0]
    """

    _name = "char"

    def scale(self, queries: Sequence[str], background: object, *, function_word_weight: float = 1.0) -> np.ndarray:
        """The score is from 0 to 1 as it is."""
        return np.tile([0.0, 1.0], (len(queries), 1))

    def _count(self, texts: Texts) -> Postings:
        return Postings.count(texts, "char").renamed(_GRAM).followed_by(Postings.count(texts, "auto"))

    def _use(self, postings: Lists) -> Self:
        super()._use(postings)
        n_rows, df, _ = self.statistics_ or (postings.n_rows, postings.document_frequency, 0.0)
        self.idf_ = np.log((1 + n_rows) / (1 + df)) + 1
        self.half_ = self._half(postings)
        return self

    @cached_property
    def norms_(self) -> list[np.ndarray]:
        """The length of each half of each row; found when a query first asks."""
        of_half = (self.idf_**2 * (self.half_ == half) for half in range(self.half_.max(initial=0) + 1))
        return [np.sqrt(self.postings_.sums(_squared, factors)) for factors in of_half]

    def _half(self, postings: Lists) -> np.ndarray:
        """Of each term whether it is a stem, 1, or a gram, 0."""
        half = np.zeros(len(self.idf_), np.int8)
        half[[number for term, number in postings.terms.items() if not term.startswith(_GRAM)]] = 1
        return half

    def _weights(self, term: int, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        weights: np.ndarray = _often(counts) * self.idf_[term] / self.norms_[self.half_[term]][rows]
        return weights

    def _weigh_all(self, queries: Sequence[str], function_word_weight: float) -> list[Query]:
        queries = _less(queries, function_word_weight)
        pairs = zip(terms_by("auto").of(queries), terms_by("char").of(queries), strict=True)
        return [self._weigh(stems, grams) for stems, grams in pairs]

    def _weigh(self, stems: list[str], grams: list[str]) -> Query:
        named = ([_GRAM + gram for gram in grams], stems)
        halves = [_unit_weights(self.postings_, self.idf_, terms) for terms in named]
        return np.concatenate([h[0] for h in halves]), np.concatenate([h[1] for h in halves]) / np.float32(2)


@estimator
class Grams(CharGrams):
    """TF-IDF of character 3- to 5-grams alone, of letters brought together: the score is the cosine, 0 to 1.

    Full-width and other compatibility forms are one (NFKC), and Cyrillic letters are the Latin ones that they sound
    like, so that «2ГИС» finds "2gis", and «постгрес» shares most of "postgres".

    Examples
    --------
    >>> arm = Grams().fit(pa.table({"chunk_id": ["a", "b"]}), ["карта 2GIS", "кот спит"])
    >>> arm.candidates(["2гис", "ＧＩＳ"], n=5)["row"].to_pylist()
    [0, 0]
    """

    def _count(self, texts: Texts) -> Postings:
        return Postings.count([plain_letters(text) for text in strings(texts).to_pylist()], "char")

    def _half(self, postings: Lists) -> np.ndarray:
        return np.zeros(len(self.idf_), np.int8)

    def _weigh_all(self, queries: Sequence[str], function_word_weight: float) -> list[Query]:
        terms = terms_by("char").of([plain_letters(query) for query in _less(queries, function_word_weight)])
        return [_unit_weights(self.postings_, self.idf_, grams) for grams in terms]


@cache
def _function_terms(analyser: str) -> frozenset[str]:
    return frozenset(term for terms in terms_by(analyser).of(sorted(FUNCTION_WORDS)) for term in terms)


_SOUNDS = "абвгдеёжзийклмнопрстуфхцчшщыэюяіїєґ", "abvgdeejziiklmnoprstufhccssyeuaiieg"
_LETTERS = str.maketrans(_SOUNDS[0] + _SOUNDS[0].upper(), _SOUNDS[1] * 2, "ьъЬЪ")
_WORDS = re.compile(r"\w+")


def plain_letters(text: str) -> str:
    """`text` with compatibility forms as one (NFKC) and Cyrillic letters as the Latin ones that they sound like.

    >>> plain_letters("2ГИС"), plain_letters("ＧＩＳ")
    ('2gis', 'GIS')
    """
    return unicodedata.normalize("NFKC", text).translate(_LETTERS)


def _less(queries: Sequence[str], function_word_weight: float) -> Sequence[str]:
    """The queries without function words, where these count less and others are left."""
    if function_word_weight == 1.0:
        return queries
    return [_WORDS.sub(_unless_function, query).strip() or query for query in queries]


def _unless_function(word: re.Match[str]) -> str:
    return "" if word[0].lower().replace("ё", "е") in FUNCTION_WORDS else word[0]


# Sets a gram apart from a stem of the same letters; no term holds a tab.
_GRAM = "\t"


def _often(counts: np.ndarray) -> Any:
    return 1 + np.log(counts, dtype=np.float64)


def _squared(counts: np.ndarray) -> Any:
    return np.square(_often(counts))


def _known(postings: Lists, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the known terms and how often each is there, in the terms' order: equal texts get equal sums."""
    found = {postings.terms.get(term): often for term, often in Counter(sorted(terms)).items()}
    found.pop(None, None)
    return np.array(list(found), np.int64), np.array(list(found.values()), np.int64)


def _unit_weights(postings: Lists, idf: np.ndarray, terms: list[str]) -> Query:
    """Known terms and their weights of unit length."""
    known, frequency = _known(postings, terms)
    weights = _often(frequency) * idf[known]
    return known, (weights / (np.linalg.norm(weights) or 1)).astype(np.float32)


def _fitted(arm: _Lexical) -> Lists:
    if not hasattr(arm, "postings_"):
        raise NotFittedError(f"{type(arm).__name__}: expected a fitted arm. Call fit(chunks, texts) first.")
    return arm.postings_
