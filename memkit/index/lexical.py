"""Lexical arms: `BM25` for words, `CharGrams` and `Grams` (character n-grams) for typos and inflected forms."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from memkit.base.params import Estimator, estimator, param
from memkit.errors import NotFittedError
from memkit.index import store
from memkit.index.arm import Abilities, NearWords, Sight, Turns, readable
from memkit.index.postings import (
    Postings,
    Query,
    best_of,
    check_chunks,
    load_postings,
    save_postings,
    updated,
)
from memkit.tables.fts import K1, B
from memkit.text.analyse import ANALYSERS, Texts, terms_by
from memkit.text.languages import FUNCTION_WORDS

Near: TypeAlias = Sequence[Mapping[str, float]]
"""For each query terms beside its own, with their share of the weight of a true one; empty: none for any."""


class CollectionStatistics(NamedTuple):
    """Statistics of all rows, in one index or over several shards, that the weights of terms depend on.

    `document_frequency` is by term number, `length` the mean number of terms per row.
    """

    n_rows: int
    document_frequency: np.ndarray
    length: float


class _Lexical(Estimator, Abilities):
    """Base of the lexical arms: terms are counted at fit, and weighted when a query first contains them."""

    _name: ClassVar[str]

    postings_: Postings
    turn_norms_: tuple[Turns | None, np.ndarray]
    """The last normalisation over turns of which all lend."""
    statistics_: CollectionStatistics | None = None
    """Of all shards (buckets); None: of these rows alone."""

    def fit(self, chunks: pa.Table, texts: Texts) -> Self:
        """Index `texts`, one for each row of `chunks`.

        Raises
        ------
        ParameterError
            If a parameter is outside of its bounds, or the lengths differ.
        """
        self.check_params()
        check_chunks(chunks, texts)
        return self._set_postings(self._count(texts))

    def updated(self, former_row: np.ndarray, chunks: pa.Table, texts: pa.Array | pa.ChunkedArray) -> Self | None:
        """A copy fitted to `texts` that reads only the texts of new rows; None where most are new.

        Parameters
        ----------
        former_row : ndarray of shape (n_chunks,), int64
            For each row of `chunks` the row of this arm with the same text, ascending; a new row has a number from
            n_rows of this arm on, in order.
        chunks, texts
            As for `fit`.
        """
        before = _fitted(self)
        delta = self._count(texts.filter(pa.array(former_row >= before.n_rows)))
        postings = updated(before, former_row, delta)
        return None if postings is None else copy.copy(self)._set_postings(postings)

    def candidates(
        self,
        queries: Sequence[str],
        n: int,
        allowed: np.ndarray | None = None,
        *,
        function_word_weight: float = 1.0,
        near: Near = (),
    ) -> pa.Table:
        """The best rows of each query.

        Parameters
        ----------
        queries : sequence of str
        n : int
            Most rows per query.
        allowed : ndarray of shape (n_rows,), bool, or None
            Rows that may be found.
        function_word_weight : float
            Weight of stop words in a query; the arms of character n-grams skip them if it is below 1.
        near : sequence of dict of str to float
            For each query further terms with their share of the weight of a true one; for words alone.

        Returns
        -------
        pa.Table
            query (int64, index into `queries`), row (int64), score (float64, positive): best first, ties by row.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ParameterError
            If `n` is below 1, or `allowed` is no mask over the rows.
        """
        postings = _fitted(self)
        weighted = self._weighted_queries(queries, function_word_weight, near)
        postings.weigh(np.concatenate([np.empty(0, np.int64), *(terms for terms, _ in weighted)]), self._weights)
        return best_of(postings.scored(weighted), n, allowed, postings.n_rows)

    def save(self, folder: Path) -> None:
        """Write ``{arm}_terms.parquet``, ``{arm}_rows.npy``, ``{arm}_counts.npy`` and ``{arm}_sums.npy``."""
        save_postings(_fitted(self), folder, self._name, self.get_params(deep=False))
        if self.statistics_ is None:
            store.save_array(folder / f"{self._name}{_SUMS}", self.sums_)

    @classmethod
    def load(cls, folder: Path, *, trust: bool = False) -> Self:
        """Read what `save` wrote; raises DamagedIndexError for anything else. `trust`: the folder is your own."""
        postings, settings = load_postings(folder, cls._name, trust)
        with store.checking(folder):
            arm = cls(**settings)
            arm.check_params()
        arm._set_postings(postings)
        if trust and (folder / f"{cls._name}{_SUMS}").exists():
            sums = store.load_array(folder / f"{cls._name}{_SUMS}", np.float64, columns=postings.n_rows)
            vars(arm)["sums_"] = sums
        return arm

    @cached_property
    def sums_(self) -> np.ndarray:
        """Lines of what is added up over the terms of each row, for `norms_`; computed at the first query."""
        return np.stack([self.postings_.sums(worth, factors) for worth, factors in self._summed()])

    def _summed(self) -> list[tuple[Any, np.ndarray]]:
        """For each line of `sums_` what a count is worth, and the factor of each term."""
        raise NotImplementedError

    def _count(self, texts: Texts) -> Postings:
        raise NotImplementedError

    def _weighted_queries(
        self, queries: Sequence[str], function_word_weight: float = 1.0, near: Near = ()
    ) -> list[Query]:
        raise NotImplementedError

    def _weights(self, terms: np.ndarray, sizes: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The weights of terms in the rows that have them `counts` times, so many rows a term."""
        raise NotImplementedError

    def _set_postings(self, postings: Postings) -> Self:
        self.postings_ = postings
        for name in ("norms_", "sums_", "near_words_", "worth_"):
            vars(self).pop(name, None)
        return self


@estimator
class BM25(_Lexical):
    """Okapi BM25 with Lucene's idf, ln(1 + (N - df + 0.5) / (df + 0.5)), which is never negative.

    With ``k3=0`` a term counts once in a query, and scores are those of DuckDB's ``match_bm25`` times ln(10), because
    its ``log`` is to the base 10; weights are float32, exact to about 1e-7. With other k3 a term that occurs f times in
    a query counts f (k3 + 1) / (f + k3) times, as in Okapi.

    Examples
    --------
    >>> arm = BM25().fit(pa.table({"chunk_id": ["a", "b"]}), ["Пул соединений: 10", "кот спит"])
    >>> arm.candidates(["пулы", "коты спят"], n=5).select(["query", "row"]).to_pylist()
    [{'query': 0, 'row': 0}, {'query': 1, 'row': 1}]
    """

    _name = "bm25"
    lends = True
    spells = True

    analyzer: str = param("auto", choices=ANALYSERS, refit=True, doc="How text becomes terms.")
    k1: float = param(K1, low=0, refit=True, doc="Term-frequency saturation: higher lets repeats count longer.")
    b: float = param(B, low=0, high=1, unit="ratio", refit=True, doc="Length normalisation: 0 is none, 1 is full.")
    k3: float = param(
        0.0,
        low=0,
        doc="Saturation of repeated query terms: higher lets repeats count longer, 0 counts each term once.",
        source="Robertson et al. 1999, Okapi at TREC-8",
    )

    def candidates_in_turns(
        self,
        queries: Sequence[str],
        n: int,
        allowed: np.ndarray | None,
        turns: Turns,
        lending: np.ndarray | None = None,
        **options: Any,
    ) -> pa.Table:
        """As `candidates`, where a turn also has a share of the words of the turns around it.

        Counts are lent, not scores: they are added before saturation and length normalisation.

        Parameters
        ----------
        turns : Turns
            The rows in their conversations.
        lending : ndarray of shape (n_rows,), bool, or None
            Rows that lend their words; None: all.
        options
            As for `candidates`.
        """
        n_rows = _fitted(self).n_rows
        weighted = self._weighted_queries(queries, **options)
        norms, line = self._norms_in_turns(turns, lending), np.zeros(turns.size, np.float32)
        scored = (self._scores_in_turns(query, turns, lending, norms, line) for query in weighted)
        return best_of(scored, n, allowed, n_rows)

    def _scores_in_turns(
        self, query: Query, turns: Turns, lending: np.ndarray | None, norms: np.ndarray, line: np.ndarray
    ) -> np.ndarray:
        """The score of every row; `line` is an array of zeros by place, and is so again afterwards."""
        scores = np.zeros(turns.size, np.float32)
        for term, weight in zip(query[0].tolist(), query[1] * np.float32(self.k1 + 1), strict=True):
            rows, counts = self.postings_.postings_of(term)
            if lending is not None:
                rows, counts = rows[lending[rows]], counts[lending[rows]]
            reached, lent = turns.lent(rows, counts, line)
            scores[reached] += np.divide(weight * lent, norms[reached] + lent, out=np.zeros_like(lent), where=lent > 0)
        return scores[turns.place]

    def _norms_in_turns(self, turns: Turns, lending: np.ndarray | None) -> np.ndarray:
        """The length normalisation of each place; the last one for which all rows lend is cached."""
        last_turns, norms = self.turn_norms_
        if lending is not None or last_turns is not turns:
            lengths = self.lengths_
            lent = turns.summed(lengths)
            mean = float(lent[turns.place].mean()) if len(lengths) else 0.0
            if lending is not None:
                lent = turns.summed(np.where(lending, lengths, 0.0))
            norms = np.asarray(self.k1 * (1 - self.b + self.b * lent / (mean or 1)), np.float32)
        if lending is None:
            self.turn_norms_ = turns, norms
        return norms

    def scale(self, queries: Sequence[str], background: object, *, function_word_weight: float = 1.0) -> np.ndarray:
        """For each query the scores that calibration maps to 0 and 1, shape (n_queries, 2).

        The upper one is the limit for a text full of all the query's terms, including terms that no text has: if half
        of a query is unknown, no text scores above a half.
        """
        weighted = self._weighted_terms(queries, function_word_weight)
        limits = (self._highest_score(terms, weights, function_word_weight) for terms, (_, weights) in weighted)
        return np.array([(0.0, limit or 1.0) for limit in limits]).reshape(-1, 2)

    def _count(self, texts: Texts) -> Postings:
        return Postings.count(texts, self.analyzer)

    def _weights(self, terms: np.ndarray, sizes: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        weights: np.ndarray = np.multiply(counts, self.k1 + 1, dtype=np.float64) / (self.norms_[rows] + counts)
        return weights

    def _set_postings(self, postings: Postings) -> Self:
        super()._set_postings(postings)
        n_rows, df, _ = self.statistics_ or (postings.n_rows, postings.document_frequency, 0.0)
        self.idf_ = np.log1p((n_rows - df + 0.5) / (df + 0.5)).astype(np.float32)
        self._last: tuple[Any, list[tuple[list[str], Query]]] = (None, [])
        self.turn_norms_ = (None, self.idf_[:0])
        self.function_terms_ = _function_terms(self.analyzer)
        self.is_function_ = np.zeros(len(df), bool)
        self.is_function_[_known_terms(postings, sorted(self.function_terms_))[0]] = True
        return self

    @property
    def lengths_(self) -> np.ndarray:
        """The number of terms by row."""
        return np.asarray(self.sums_[0])

    def _summed(self) -> list[tuple[Any, np.ndarray]]:
        return [(np.positive, np.ones(len(self.postings_.document_frequency)))]

    @cached_property
    def norms_(self) -> np.ndarray:
        """The length normalisation by row; computed at the first query."""
        postings, lengths = self.postings_, self.lengths_
        mean = self.statistics_.length if self.statistics_ else lengths.mean() if postings.n_rows else 0.0
        return np.asarray(self.k1 * (1 - self.b + self.b * lengths / (mean or 1)))

    def near_terms(self, queries: Sequence[str], sight: Sight) -> list[dict[str, str]]:
        """For each query its words that no row in sight has, and the nearest term in sight for each, if there is one.

        Never for words with digits or ``_``, or in quotes.
        """
        nearest, analyser = list[dict[str, str]](), terms_by(self.analyzer)
        analyser.terms(queries)  # asks for all new words at once, those too that the arm needs next
        for query in queries:
            words = readable(query)
            terms = zip(words, analyser.terms(words), strict=True)
            unknown = [(word, term) for word, (term, *others) in terms if not others and not sight.count(term)]
            near = [(word, self.near_words_.nearest(term, sight)) for word, term in unknown]
            nearest.append({word: term for word, term in near if term is not None})
        return nearest

    @cached_property
    def near_words_(self) -> NearWords:
        """The terms to be found by `near_terms`; computed at first use."""
        return NearWords(term for term in self.postings_.terms if term not in self.function_terms_)

    def _weighted_queries(
        self, queries: Sequence[str], function_word_weight: float = 1.0, near: Near = ()
    ) -> list[Query]:
        weighted = self._weighted_terms(queries, function_word_weight)
        if not any(near):
            return [query for _, query in weighted]
        return [
            self._expanded(terms, query, expansion) if expansion else query
            for (terms, query), expansion in zip(weighted, near, strict=True)
        ]

    def _expanded(self, terms: list[str], query: Query, expansion: Mapping[str, float]) -> Query:
        """A query with further terms at a share of their weight, sorted by term as the others are."""
        numbers = self.postings_.terms
        weights = dict(zip(query[0].tolist(), query[1].tolist(), strict=True))
        for term, share in expansion.items():
            number = numbers[term]
            weights[number] = weights.get(number, 0.0) + share * float(self.idf_[number]) * self._occurrences(1)
        known = [numbers[term] for term in sorted({*terms, *expansion}) if term in numbers]
        return np.array(known, np.int64), np.array([weights[number] for number in known], np.float32)

    def _weighted_terms(self, queries: Sequence[str], function_word_weight: float) -> list[tuple[list[str], Query]]:
        """Terms of each query, and their weights; the last result is cached, as each search needs it twice."""
        key = (tuple(queries), function_word_weight, self.k3)
        last_key, weighted = self._last
        if last_key != key:
            terms_by_query = terms_by(self.analyzer).terms(queries)
            weighted = [(terms, self._weigh(terms, function_word_weight)) for terms in terms_by_query]
            self._last = key, weighted
        return weighted

    def _weigh(self, terms: list[str], function_word_weight: float = 1.0) -> Query:
        # BM25 is a sum over terms of idf · tf part. The tf part depends on the chunk alone and is the posting's weight;
        # idf and the k3 part depend on the query alone. So a score is an inner product over the lists of its terms.
        known, repeats = _known_terms(self.postings_, terms)
        weights = (self.idf_[known] * self._occurrences(repeats)).astype(np.float32)
        if function_word_weight != 1.0:
            weights = np.where(self.is_function_[known], np.float32(function_word_weight) * weights, weights)
        return known, weights

    def _occurrences(self, repeats: Any) -> Any:
        return repeats * (self.k3 + 1) / (repeats + self.k3)

    def _highest_score(self, terms: list[str], weights: np.ndarray, function_word_weight: float) -> float:
        """An upper bound of the score of any text, if it had all `terms`, those too that no text has."""
        known = {term for term in terms if term in self.postings_.terms}
        # An unknown pair of known characters is mostly the end of one word and the beginning of the next.
        unknown = Counter(term for term in terms if term not in known and not (len(term) == 2 and {*term} <= known))
        n_rows = self.statistics_.n_rows if self.statistics_ else self.postings_.n_rows
        rarest = np.log1p((n_rows + 0.5) / 0.5)  # the idf of a term that no text has
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
    _has_stems: ClassVar[bool] = True

    def scale(self, queries: Sequence[str], background: object, *, function_word_weight: float = 1.0) -> np.ndarray:
        """Scores are from 0 to 1 already."""
        return np.tile([0.0, 1.0], (len(queries), 1))

    def _count(self, texts: Texts) -> Postings:
        return Postings.count(texts, "char").renamed(_GRAM).followed_by(Postings.count(texts, "auto"))

    def _set_postings(self, postings: Postings) -> Self:
        super()._set_postings(postings)
        n_rows, df, _ = self.statistics_ or (postings.n_rows, postings.document_frequency, 0.0)
        self.idf_ = np.log((1 + n_rows) / (1 + df)) + 1
        self.half_ = np.zeros(len(df), np.int8)  # 1 for grams beside stems; alone they are the one half
        if self._has_stems:  # to look at each term takes longer than to read all of them
            self.half_[[number for term, number in postings.terms.items() if term.startswith(_GRAM)]] = 1
        return self

    @cached_property
    def norms_(self) -> np.ndarray:
        """The length of each half of each row."""
        return np.asarray(np.sqrt(self.sums_))

    def _summed(self) -> list[tuple[Any, np.ndarray]]:
        halves = range(self.half_.max(initial=0) + 1)
        return [(lambda n: _log_frequency(n) ** 2, self.idf_**2 * (self.half_ == half)) for half in halves]

    @cached_property
    def worth_(self) -> np.ndarray:
        """What each count of a term is worth; to look it up takes a tenth of a logarithm for each posting."""
        return np.append(0.0, _log_frequency(np.arange(1, int(self.postings_.counts.max(initial=0)) + 1)))

    def _weights(self, terms: np.ndarray, sizes: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        norms = self.norms_[0].take(rows)
        if self._has_stems:
            np.copyto(norms, self.norms_[1].take(rows), where=np.repeat(self.half_[terms] == 1, sizes))
        weights: np.ndarray = self.worth_.take(counts) * np.repeat(self.idf_[terms], sizes) / norms
        return weights

    def _weighted_queries(
        self, queries: Sequence[str], function_word_weight: float = 1.0, near: Near = ()
    ) -> list[Query]:
        queries = _without_function_words(queries, function_word_weight)
        pairs = zip(terms_by("auto").terms(queries), terms_by("char").terms(queries), strict=True)
        return [self._weigh(stems, grams) for stems, grams in pairs]

    def _weigh(self, stems: list[str], grams: list[str]) -> Query:
        named = ([_GRAM + gram for gram in grams], stems)
        halves = [_unit_weights(self.postings_, self.idf_, terms) for terms in named]
        return np.concatenate([h[0] for h in halves]), np.concatenate([h[1] for h in halves]) / np.float32(2)


@estimator
class Grams(CharGrams):
    """TF-IDF of character 3- to 5-grams, with Cyrillic transliterated to Latin: the score is the cosine, 0 to 1.

    Full-width and other compatibility forms are normalised (NFKC). So «2ГИС» finds "2gis", and «постгрес» shares most
    n-grams of "postgres".

    Examples
    --------
    >>> arm = Grams().fit(pa.table({"chunk_id": ["a", "b"]}), ["карта 2GIS", "кот спит"])
    >>> arm.candidates(["2гис", "ＧＩＳ"], n=5)["row"].to_pylist()
    [0, 0]
    """

    _has_stems = False

    def _count(self, texts: Texts) -> Postings:
        return Postings.count(texts, "char", plain_letters)

    def _weighted_queries(
        self, queries: Sequence[str], function_word_weight: float = 1.0, near: Near = ()
    ) -> list[Query]:
        terms = terms_by("char").terms(
            [plain_letters(query) for query in _without_function_words(queries, function_word_weight)]
        )
        return [_unit_weights(self.postings_, self.idf_, grams) for grams in terms]


@cache
def _function_terms(analyzer: str) -> frozenset[str]:
    return frozenset(term for terms in terms_by(analyzer).terms(sorted(FUNCTION_WORDS)) for term in terms)


_SOUNDS = "абвгдеёжзийклмнопрстуфхцчшщыэюяіїєґ", "abvgdeejziiklmnoprstufhccssyeuaiieg"
_LETTERS = str.maketrans(_SOUNDS[0] + _SOUNDS[0].upper(), _SOUNDS[1] * 2, "ьъЬЪ")
_WORDS = re.compile(r"\w+")


def plain_letters(text: str) -> str:
    """`text` in NFKC, with Cyrillic transliterated to Latin.

    >>> plain_letters("2ГИС"), plain_letters("ＧＩＳ")
    ('2gis', 'GIS')
    """
    return unicodedata.normalize("NFKC", text).translate(_LETTERS)


def _without_function_words(queries: Sequence[str], function_word_weight: float) -> Sequence[str]:
    """The queries without stop words, if these have a lower weight; a query of stop words alone stays as it is."""
    if function_word_weight == 1.0:
        return queries
    return [
        _WORDS.sub(lambda word: "" if word[0].lower().replace("ё", "е") in FUNCTION_WORDS else word[0], query).strip()
        or query
        for query in queries
    ]


# Distinguishes a gram from a stem of the same letters; no term contains a tab.
_GRAM = "\t"
_SUMS = "_sums.npy"


def _log_frequency(counts: np.ndarray) -> Any:
    return 1 + np.log(counts, dtype=np.float64)


def _known_terms(postings: Postings, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and counts of the known terms, sorted as terms are, so that equal texts get equal sums."""
    counts = Counter([number for term in terms if (number := postings.terms.get(term)) is not None])
    known = sorted(counts)
    return np.array(known, np.int64), np.array([counts[number] for number in known], np.int64)


def _unit_weights(postings: Postings, idf: np.ndarray, terms: list[str]) -> Query:
    """The known terms and their weights, as a unit vector."""
    known, frequency = _known_terms(postings, terms)
    weights = _log_frequency(frequency) * idf[known]
    return known, (weights / (np.linalg.norm(weights) or 1)).astype(np.float32)


def _fitted(arm: _Lexical) -> Postings:
    if not hasattr(arm, "postings_"):
        raise NotFittedError(f"{type(arm).__name__}: expected a fitted arm. Call fit(chunks, texts) first.")
    return arm.postings_
