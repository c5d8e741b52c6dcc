"""Lexical arms: `BM25` for words, `CharGrams` and `Grams` (character n-grams) for typos and inflected forms.

All search `Postings`, an inverted index in arrays: for each term, its rows and their weights. A row's score is the
inner product of its weights and the query's, so BM25 and TF-IDF differ in their weights alone. DuckDB counts the terms;
SciPy adds up the scores, over 8 bytes per posting, because one SQL statement costs more than the sum (measured on
100,000 chunks: 16 ms against 0.2 ms).
"""

from __future__ import annotations

import copy
import itertools
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from memkit.duck import as_arrow, interruptible, session
from memkit.errors import NotFittedError, ParameterError
from memkit.index import store
from memkit.parallel import results, workers
from memkit.params import Estimator, check_value, estimator, param
from memkit.tables.fts import K1, B
from memkit.text.analyse import ANALYSERS, load_fts, spelling_sql, terms_by, vocabulary_sql
from memkit.text.function_words import FUNCTION_WORDS

Query = tuple[np.ndarray, np.ndarray]
"""Term numbers (int64, ascending) and their weights (float32), of equal length."""

Texts: TypeAlias = Sequence[str] | Any
"""Strings, or an Arrow array of them."""

CANDIDATES = pa.schema([("query", pa.int64()), ("row", pa.int64()), ("score", pa.float64())])

Add: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]
"""``add(scores, rows, weights, starts, stops, factors)`` adds each list's weights, times its factor, to its rows."""

Weights: TypeAlias = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
"""``weights(term, rows, counts)`` returns the weights of a term's postings, given their slots and counts."""

_BLOCKS_MIN = 1024
_PART = 1 << 18
"""Postings that are processed together, so that intermediate arrays stay in the processor's cache."""
_SAMPLE_MAX = 4096
_FEW = 2_000_000
_FEW_TEXTS = 16
ROWS_A_TASK = 20_000  # that one process counts, if several share the work
_LEAST = np.nextafter(np.float32(0), np.float32(1))


class Lists:
    """The interface of an inverted index, in one part (`Postings`) or in two (`memkit.index.postings`).

    Sums are over slots. In one part slots are rows; in two parts there are also slots of deleted rows.
    """

    terms: Mapping[str, int]
    n_rows: int
    n_slots: int
    document_frequency: np.ndarray

    def by_row(self, values: np.ndarray) -> np.ndarray:
        """From one value per slot to one value per row."""
        raise NotImplementedError

    def sums(self, worth: Callable[[np.ndarray], np.ndarray], factors: np.ndarray) -> np.ndarray:
        """For each slot the sum over its terms of ``worth(count)`` times the term's factor."""
        raise NotImplementedError

    def weigh(self, terms: np.ndarray, weights: Weights) -> None:
        """Compute the weights of each of `terms` that has none yet."""
        raise NotImplementedError

    def add_up(self, scores: np.ndarray, terms: np.ndarray, factors: np.ndarray, n: int) -> np.ndarray:
        """Add the weights of `terms` times their factors to `scores`, by slot; return rows likely to be the best."""
        raise NotImplementedError

    def whole(self) -> Postings:
        """The same index in one part."""
        raise NotImplementedError

    def scores(self, query: Query) -> np.ndarray:
        """The score of every row; float32, shape (n_rows,)."""
        slots = np.zeros(self.n_slots, np.float32)
        self.add_up(slots, *query, 1)
        return self.by_row(slots)

    def best(self, queries: Sequence[Query], n: int, allowed: np.ndarray | None) -> pa.Table:
        """At most `n` rows with a positive score for each query, best first, ties by row (`CANDIDATES`).

        Raises
        ------
        ParameterError
            If `n` is below 1, or `allowed` is no boolean mask over the rows.
        """
        _check(n, allowed, self.n_rows)
        if not queries:
            return CANDIDATES.empty_table()
        blocked = None if allowed is None else np.flatnonzero(~allowed)
        slots = np.empty(self.n_slots, np.float32)
        best = []
        for terms, weights in queries:
            slots.fill(0)
            likely = self.add_up(slots, terms, weights, n)
            scores = self.by_row(slots)
            if blocked is not None:
                scores[blocked] = 0
            best.append(_top(scores, n, likely))
        numbers = np.repeat(np.arange(len(best)), [len(rows) for rows, _ in best])
        columns = [numbers, np.concatenate([rows for rows, _ in best]), np.concatenate([scores for _, scores in best])]
        return pa.Table.from_arrays(list(map(pa.array, columns, CANDIDATES.types)), schema=CANDIDATES)


@dataclass
class Postings(Lists):
    """The rows of each term, in one part.

    Attributes
    ----------
    terms : dict of str to int
        Number of each term.
    offsets : ndarray of shape (n_terms + 1,), int64
        The start of each term's postings.
    rows : ndarray of shape (n_postings,), int32
        Ascending within a term.
    counts : ndarray of shape (n_postings,), unsigned
        Term frequencies; empty if the postings were loaded, as a saved index has weights alone.
    n_rows : int
        The number of rows, with and without postings.
    weights : ndarray of shape (n_postings,), float32
    waiting : ndarray of shape (n_terms,), bool
        Terms whose weights are not computed yet: the first query with the term does it, as few terms are ever queried.
    """

    terms: dict[str, int]
    offsets: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    n_rows: int
    weights: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    waiting: np.ndarray = field(default_factory=lambda: np.empty(0, bool))

    def __post_init__(self) -> None:
        is_bare = len(self.weights) < len(self.rows)
        if len(self.waiting) < len(self.terms):
            self.waiting = np.full(len(self.terms), is_bare)
        if is_bare:
            self.weights = np.empty(len(self.rows), np.float32)  # written before they are read, by `weigh`
        self.n_slots, self.document_frequency = self.n_rows, np.diff(self.offsets)

    def by_row(self, values: np.ndarray) -> np.ndarray:
        """`values` itself: slots are rows."""
        return values

    @classmethod
    def count(cls, texts: Texts, analyser: str) -> Self:
        """Count the terms of `texts`; in several processes if joblib is configured so."""
        from scipy.sparse import csr_array

        if len(texts) > ROWS_A_TASK and workers() > 1:
            parts = ((strings(texts[at : at + ROWS_A_TASK]), analyser) for at in range(0, len(texts), ROWS_A_TASK))
            return cls.concatenated(list(results(cls.count, parts)))
        if not len(texts):
            return cls({}, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8), 0)
        if len(texts) <= _FEW_TEXTS:
            return cls._count_few(strings(texts).to_pylist(), analyser)
        rows = pa.array(np.arange(len(texts), dtype=np.int32))
        words, spelled, terms = _words_and_terms(pa.table({"row": rows, "body": strings(texts)}), analyser)
        shape = (len(texts), int(spelled["word"].max(initial=-1)) + 1, len(terms))
        # Words by row times terms by word: each distinct word was stemmed once, and no string is sorted or grouped.
        by_row = csr_array((_ones(words["row"]), (words["row"], words["word"])), shape[:2])
        by_word = csr_array((_ones(spelled["word"]), (spelled["word"], spelled["term"])), shape[1:])
        return cls.from_matrix(terms, (by_row @ by_word).tocsc())

    @classmethod
    def _count_few(cls, texts: list[str | None], analyser: str) -> Self:
        """`count` for few texts, by the analyser of queries: preparing a SQL statement would take longer."""
        from scipy.sparse import csr_array

        by_text = terms_by(analyser).terms([text or "" for text in texts])
        terms = sorted({term for of_text in by_text for term in of_text})
        numbers = dict(zip(terms, range(len(terms)), strict=True))
        pairs = [(row, numbers[term]) for row, of_text in enumerate(by_text) for term in of_text]
        row, column = np.array(pairs, np.int32).reshape(-1, 2).T
        return cls.from_matrix(terms, csr_array((_ones(row), (row, column)), (len(texts), len(terms))).tocsc())

    @classmethod
    def from_matrix(cls, terms: list[str], counts: Any) -> Self:
        """Postings from a sparse matrix of counts, rows by sorted terms, in column order."""
        numbers = dict(zip(terms, range(len(terms)), strict=True))
        rows = plain(counts.indices, np.int32)
        return cls(numbers, counts.indptr.astype(np.int64), rows, _small(counts.data), counts.shape[0])

    @classmethod
    def concatenated(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, concatenated: equal to `count` of all their texts."""
        from scipy.sparse import csr_array, vstack

        terms = sorted(set().union(*(part.terms for part in parts)))
        number = dict(zip(terms, range(len(terms)), strict=True))
        matrices = []
        for part in parts:
            columns = np.fromiter((number[term] for term in part.terms), np.int64, len(part.terms))
            cells = (part.rows, np.repeat(columns, part.document_frequency))
            matrices.append(csr_array((part.counts.astype(np.float32), cells), (part.n_rows, len(terms))))
        return cls.from_matrix(terms, vstack(matrices, format="csc"))

    def whole(self) -> Self:
        """The index itself, which is in one part."""
        return self

    def parts(self) -> list[slice]:
        """Slices over all postings."""
        return [slice(start, start + _PART) for start in range(0, len(self.rows), _PART)]

    def sums(self, worth: Callable[[np.ndarray], np.ndarray], factors: np.ndarray) -> np.ndarray:
        """For each row the sum over its terms of ``worth(count)`` times the term's factor; float64.

        Terms are added in a fixed order, the last one first, so that the sum is the same to the last bit whatever the
        other rows are. It is 0 if the postings were loaded, as their counts are not known.
        """
        total = np.zeros(self.n_rows)
        if not len(self.counts):
            return total
        counted = np.append(0, worth(np.arange(1.0, self.counts.max() + 1)))
        add, ends = _adder(len(self.rows)), np.searchsorted(self.offsets, np.arange(_PART, len(self.rows), _PART))
        ends = np.unique(np.concatenate([[0], ends, [len(self.terms)]]))[::-1]
        for last, first in itertools.pairwise(ends.tolist()):
            bounds = self.offsets[first : last + 1]
            part, bounds = slice(bounds[0], bounds[-1]), bounds - bounds[0]
            values = np.take(counted, self.counts[part], mode="clip")
            add(total, self.rows[part], values, bounds[:-1], bounds[1:], factors[first:last])
        return total

    def weigh(self, terms: np.ndarray, weights: Weights) -> None:
        """Compute the weights of each of `terms` that has none yet, by ``weights(term, rows, counts)``."""
        for term in terms[self.waiting[terms]].tolist():
            postings = slice(*self.offsets[term : term + 2].tolist())
            self.weights[postings] = weights(term, self.rows[postings], self.counts[postings])
            self.waiting[term] = False  # after the weights are written: another thread may read them

    def followed_by(self, other: Self) -> Self:
        """The terms of both, over the same rows; those of `other` come last."""
        shifted = {term: number + len(self.terms) for term, number in other.terms.items()}
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        rows, counts = np.concatenate([self.rows, other.rows]), np.concatenate([self.counts, other.counts])
        return type(self)(self.terms | shifted, offsets, rows, _small(counts), self.n_rows)

    def renamed(self, prefix: str) -> Self:
        """A copy with `prefix` before each term."""
        return replace(self, terms={prefix + term: number for term, number in self.terms.items()})

    def add_up(self, scores: np.ndarray, terms: np.ndarray, factors: np.ndarray, n: int) -> np.ndarray:
        """Add the weights of `terms` times their factors to `scores`; return rows likely to be the best."""
        starts, stops = self.offsets[terms], self.offsets[terms + 1]
        _adder(len(self.rows))(scores, self.rows, self.weights, starts, stops, factors)
        return self.rows[_rarest(starts, stops, n)]


def _adder(n_postings: int) -> Add:
    """What adds up scores: SciPy's loop over columns, or NumPy's for few postings or more than 32 bits.

    The loop is private to SciPy. Without it a batch of queries took 1.7 times and a single one 1.4 times the processor
    time, and no public function adds to existing scores. For few postings SciPy is not imported, as that takes as long
    as a thousand queries over them.
    """
    if n_postings < _FEW and "scipy.sparse" not in sys.modules:
        return _add
    try:
        from scipy.sparse._sparsetools import csc_matvec
    except ImportError:  # should SciPy move it, slower is better than not at all
        return _add
    if n_postings > np.iinfo(np.int32).max:
        return _add

    def add(
        scores: np.ndarray,
        rows: np.ndarray,
        weights: np.ndarray,
        starts: np.ndarray,
        stops: np.ndarray,
        factors: np.ndarray,
    ) -> None:
        # One call a query. The loop goes through columns, each from one bound to the next; from the end of a term to
        # the start of one before it there is nothing, so the terms, last first, can be every other column.
        bounds, values = np.empty(2 * len(starts), np.int32), np.zeros(2 * len(starts), scores.dtype)
        bounds[::2], bounds[1::2], values[::2] = starts[::-1], stops[::-1], factors[::-1]
        csc_matvec(len(scores), len(bounds) - 1, bounds, rows, weights, values, scores)

    return add


def _add(
    scores: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    factors: np.ndarray,
) -> None:
    """Add each list's weights, times its factor, to its rows."""
    for start, stop, factor in zip(starts[::-1], stops[::-1], factors[::-1], strict=True):
        np.add.at(scores, rows[start:stop], weights[start:stop] * factor)


def _rarest(starts: np.ndarray, stops: np.ndarray, n: int) -> slice:
    """The shortest list of at least `n` rows, whose rows are likely to score well; empty if it is long."""
    lengths = ((length, place) for place, length in enumerate((stops - starts).tolist()) if length >= n)
    length, place = min(lengths, default=(0, 0))
    return slice(starts[place], stops[place]) if 0 < length <= _SAMPLE_MAX else slice(0)


def _words_and_terms(texts: pa.Table, analyser: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[str]]:
    """Words by row (row, word), terms by word (word, term), both by number, and the terms in order."""
    with session() as con, interruptible():
        load_fts(con)
        con.register("texts", texts)
        # SciPy counts by row, as it adds up numbers; here that would group millions of strings.
        con.execute(f"""
            create temp table spellings as select row, unnest({spelling_sql("body")}) as spelling from texts;
            create temp table vocabulary as
            select (row_number() over ())::int - 1 as word, * from ({vocabulary_sql("spellings", analyser)});
            create temp table terms as select (row_number() over (order by term))::int - 1 as number, term
            from (select distinct unnest(terms) as term from vocabulary);
        """)  # noqa: S608  # expressions of memkit's own
        words = as_arrow(con, "select row, word from spellings join vocabulary using (spelling)")
        spelled = as_arrow(
            con,
            """
            select word, number as term
            from (select word, unnest(terms) as term from vocabulary) join terms using (term)
            """,
        )
        terms = as_arrow(con, "select term from terms order by number")["term"].to_pylist()
    return _arrays(words), _arrays(spelled), terms


def _small(counts: np.ndarray) -> np.ndarray:
    """`counts` in the smallest integer type, which is one byte in most corpora."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))), copy=False)


def _arrays(table: pa.Table) -> dict[str, np.ndarray]:
    return {name: table[name].to_numpy() for name in table.column_names}


def check_chunks(chunks: pa.Table, texts: Texts) -> None:
    """Raise if an arm cannot be fitted on these."""
    if not isinstance(chunks, pa.Table):
        raise ParameterError(f"fit: expected a table of chunks. Got {type(chunks).__name__}.")
    if chunks.num_rows != len(texts):
        raise ParameterError(f"fit: expected a text for each of {chunks.num_rows} chunks. Got {len(texts)} texts.")


def strings(texts: Texts) -> Any:
    return texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else pa.array(texts, pa.string())


def _ones(like: np.ndarray) -> np.ndarray:
    return np.ones(len(like), np.float32)


def plain(values: Any, kind: type) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=kind)


def _check(n: int, allowed: np.ndarray | None, n_rows: int) -> None:
    check_value("candidates", "n", n, "int", low=1)
    if allowed is not None and (allowed.dtype != np.bool_ or allowed.shape != (n_rows,)):
        raise ParameterError(
            f"candidates: 'allowed' must be a boolean mask of shape ({n_rows},). Got {allowed.dtype} {allowed.shape}."
        )


def _top(scores: np.ndarray, n: int, likely: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scores of the `n` best positive ones: best first, ties by row.

    At least `n` rows reach the n-th best score of the `likely` rows, so only rows that reach it are sorted. If these
    are too many, the maxima of blocks of rows take the place of the likely rows.
    """
    blocks = max(_BLOCKS_MIN, 8 * n)
    rows = (scores >= _floor(scores[likely], n)).nonzero()[0] if len(likely) >= n else None
    if rows is None or len(rows) > blocks:
        rows = _reaching(scores, n, blocks) if len(scores) >= 2 * blocks else np.flatnonzero(scores > 0)
    reached = scores[rows]
    order = (-reached).argsort(kind="stable")[:n]
    return rows[order], reached[order].astype(np.float64)


def _floor(scores: np.ndarray, n: int) -> np.float32:
    """The `n`-th best of `scores`, if positive, else the least positive number; puts `scores` in another order."""
    index = len(scores) - n
    scores.partition(index)
    return max(scores[index], _LEAST)


def _reaching(scores: np.ndarray, n: int, blocks: int) -> np.ndarray:
    """Rows, ascending, whose score is positive and reaches the n-th best maximum of the blocks.

    Block i consists of the rows i, i + blocks, i + 2 blocks, …
    """
    whole = len(scores) // blocks * blocks
    cells = scores[:whole].reshape(-1, blocks)
    maxima = cells.max(axis=0)
    floor = _floor(maxima.copy(), n)
    holding = np.flatnonzero(maxima >= floor)
    places = np.flatnonzero(np.take(cells, holding, axis=1) >= floor)
    row, column = np.divmod(places, max(1, len(holding)))
    return np.concatenate([np.sort(row * blocks + holding[column]), whole + np.flatnonzero(scores[whole:] >= floor)])


class CollectionStatistics(NamedTuple):
    """Statistics of all rows, in one index or over several shards, that the weights of terms depend on.

    `document_frequency` is by term number, `length` the mean number of terms per row.
    """

    n_rows: int
    document_frequency: np.ndarray
    length: float


class _Lexical(Estimator):
    """Base of the lexical arms: terms are counted at fit, and weighted when a query first contains them."""

    _name: ClassVar[str]

    postings_: Lists
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
        return self._use(self._count(texts))

    def updated(self, former_row: np.ndarray, chunks: pa.Table, texts: pa.Array | pa.ChunkedArray) -> Self | None:
        """A copy fitted to `texts` that reads only the texts of new rows; None if a full fit is needed.

        Parameters
        ----------
        former_row : ndarray of shape (n_chunks,), int64
            For each row of `chunks` the row of this arm with the same text, ascending; a new row has a number from
            n_rows of this arm on, in order.
        chunks, texts
            As for `fit`.
        """
        from memkit.index.postings import updated

        postings = _fitted(self)
        if isinstance(postings, Postings) and len(postings.counts) < len(postings.rows):
            return None
        delta = self._count(texts.filter(pa.array(former_row >= postings.n_rows)))
        return copy.copy(self)._use(updated(postings, former_row, delta))

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
            Most rows per query.
        allowed : ndarray of shape (n_rows,), bool, or None
            Rows that may be found.
        function_word_weight : float
            Weight of stop words in a query; the arms of character n-grams skip them if it is below 1.

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
        weighted = self._weigh_all(queries, function_word_weight)
        for terms, _ in weighted:
            postings.weigh(terms, self._weights)
        return postings.best(weighted, n, allowed)

    def rough(self, queries: Sequence[str], *, function_word_weight: float = 1.0) -> Iterator[np.ndarray]:
        """For each query the score of every row, 0 if it shares no term; float32, shape (n_rows,)."""
        postings = _fitted(self)
        for query in self._weigh_all(queries, function_word_weight):
            postings.weigh(query[0], self._weights)
            yield postings.scores(query)

    def save(self, folder: Path) -> None:
        """Write ``{arm}_terms.parquet`` and ``{arm}_postings.parquet``."""
        from memkit.index.postings import save

        postings = _fitted(self).whole()
        arm = self if postings is self.postings_ else copy.copy(self)._use(postings)
        postings.weigh(np.arange(len(postings.terms)), arm._weights)
        save(postings, folder, self._name, self.get_params(deep=False))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; raises DamagedIndexError for anything else."""
        from memkit.index.postings import load

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
        """The weights of a term in the rows that have it `counts` times."""
        raise NotImplementedError

    def _use(self, postings: Lists) -> Self:
        self.postings_ = postings
        vars(self).pop("norms_", None)
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

    analyser: str = param("auto", choices=ANALYSERS, refit=True, doc="How text becomes terms.")
    k1: float = param(K1, low=0, refit=True, doc="Term-frequency saturation: higher lets repeats count longer.")
    b: float = param(B, low=0, high=1, unit="ratio", refit=True, doc="Length normalisation: 0 is none, 1 is full.")
    k3: float = param(
        0.0,
        low=0,
        doc="Saturation of repeated query terms: higher lets repeats count longer, 0 counts each term once.",
        source="Robertson et al. 1999, Okapi at TREC-8",
    )

    def scale(self, queries: Sequence[str], background: object, *, function_word_weight: float = 1.0) -> np.ndarray:
        """For each query the scores that calibration maps to 0 and 1, shape (n_queries, 2).

        The upper one is the limit for a text full of all the query's terms, including terms that no text has: if half
        of a query is unknown, no text scores above a half.
        """
        weighted = self._weighted_terms(queries, function_word_weight)
        limits = (self._limit(terms, weights, function_word_weight) for terms, (_, weights) in weighted)
        return np.array([(0.0, limit or 1.0) for limit in limits]).reshape(-1, 2)

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
        """The length normalisation of each row; computed at the first query."""
        postings = self.postings_
        lengths = postings.sums(np.positive, np.ones(len(postings.document_frequency)))
        mean = (
            self.statistics_.length if self.statistics_ else postings.by_row(lengths).mean() if postings.n_rows else 0.0
        )
        return np.asarray(self.k1 * (1 - self.b + self.b * lengths / (mean or 1)))

    def _weigh_all(self, queries: Sequence[str], function_word_weight: float = 1.0) -> list[Query]:
        return [query for _, query in self._weighted_terms(queries, function_word_weight)]

    def _weighted_terms(self, queries: Sequence[str], function_word_weight: float) -> list[tuple[list[str], Query]]:
        """Terms of each query, and their weights; the last result is cached, as each search needs it twice."""
        key = (tuple(queries), function_word_weight, self.k3)
        last_key, weighted = self._last
        if last_key != key:
            terms_by_query = terms_by(self.analyser).terms(queries)
            weighted = [(terms, self._weigh(terms, function_word_weight)) for terms in terms_by_query]
            self._last = key, weighted
        return weighted

    def _weigh(self, terms: list[str], function_word_weight: float = 1.0) -> Query:
        # BM25 is a sum over terms of idf · tf part. The tf part depends on the chunk alone and is the posting's weight;
        # idf and the k3 part depend on the query alone. So a score is an inner product over the lists of its terms.
        known, repeats = _known(self.postings_, terms)
        weights = (self.idf_[known] * self._occurrences(repeats)).astype(np.float32)
        if function_word_weight != 1.0:
            weights = np.where(self.is_function_[known], np.float32(function_word_weight) * weights, weights)
        return known, weights

    def _occurrences(self, repeats: Any) -> Any:
        return repeats * (self.k3 + 1) / (repeats + self.k3)

    def _limit(self, terms: list[str], weights: np.ndarray, function_word_weight: float) -> float:
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

    def scale(self, queries: Sequence[str], background: object, *, function_word_weight: float = 1.0) -> np.ndarray:
        """Scores are from 0 to 1 already."""
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
        """The length of each half of each row; computed at the first query."""
        of_half = (self.idf_**2 * (self.half_ == half) for half in range(self.half_.max(initial=0) + 1))
        return [np.sqrt(self.postings_.sums(_squared, factors)) for factors in of_half]

    def _half(self, postings: Lists) -> np.ndarray:
        """For each term 1 if it is a stem, 0 if it is a gram."""
        half = np.zeros(len(self.idf_), np.int8)
        half[[number for term, number in postings.terms.items() if not term.startswith(_GRAM)]] = 1
        return half

    def _weights(self, term: int, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        weights: np.ndarray = _often(counts) * self.idf_[term] / self.norms_[self.half_[term]][rows]
        return weights

    def _weigh_all(self, queries: Sequence[str], function_word_weight: float) -> list[Query]:
        queries = _less(queries, function_word_weight)
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

    def _count(self, texts: Texts) -> Postings:
        return Postings.count([plain_letters(text) for text in strings(texts).to_pylist()], "char")

    def _half(self, postings: Lists) -> np.ndarray:
        return np.zeros(len(self.idf_), np.int8)

    def _weigh_all(self, queries: Sequence[str], function_word_weight: float) -> list[Query]:
        terms = terms_by("char").terms([plain_letters(query) for query in _less(queries, function_word_weight)])
        return [_unit_weights(self.postings_, self.idf_, grams) for grams in terms]


@cache
def _function_terms(analyser: str) -> frozenset[str]:
    return frozenset(term for terms in terms_by(analyser).terms(sorted(FUNCTION_WORDS)) for term in terms)


_SOUNDS = "абвгдеёжзийклмнопрстуфхцчшщыэюяіїєґ", "abvgdeejziiklmnoprstufhccssyeuaiieg"
_LETTERS = str.maketrans(_SOUNDS[0] + _SOUNDS[0].upper(), _SOUNDS[1] * 2, "ьъЬЪ")
_WORDS = re.compile(r"\w+")


def plain_letters(text: str) -> str:
    """`text` in NFKC, with Cyrillic transliterated to Latin.

    >>> plain_letters("2ГИС"), plain_letters("ＧＩＳ")
    ('2gis', 'GIS')
    """
    return unicodedata.normalize("NFKC", text).translate(_LETTERS)


def _less(queries: Sequence[str], function_word_weight: float) -> Sequence[str]:
    """The queries without stop words, if these have a lower weight; a query of stop words alone stays as it is."""
    if function_word_weight == 1.0:
        return queries
    return [_WORDS.sub(_unless_function, query).strip() or query for query in queries]


def _unless_function(word: re.Match[str]) -> str:
    return "" if word[0].lower().replace("ё", "е") in FUNCTION_WORDS else word[0]


# Distinguishes a gram from a stem of the same letters; no term contains a tab.
_GRAM = "\t"


def _often(counts: np.ndarray) -> Any:
    return 1 + np.log(counts, dtype=np.float64)


def _squared(counts: np.ndarray) -> Any:
    return np.square(_often(counts))


def _known(postings: Lists, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and counts of the known terms, sorted by term, so that equal texts get equal sums."""
    counts = {postings.terms.get(term): count for term, count in Counter(sorted(terms)).items()}
    counts.pop(None, None)
    return np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)


def _unit_weights(postings: Lists, idf: np.ndarray, terms: list[str]) -> Query:
    """The known terms and their weights, as a unit vector."""
    known, frequency = _known(postings, terms)
    weights = _often(frequency) * idf[known]
    return known, (weights / (np.linalg.norm(weights) or 1)).astype(np.float32)


def _fitted(arm: _Lexical) -> Lists:
    if not hasattr(arm, "postings_"):
        raise NotFittedError(f"{type(arm).__name__}: expected a fitted arm. Call fit(chunks, texts) first.")
    return arm.postings_
