"""An inverted index in arrays: for each term the rows that hold it and their weights, for many queries at once.

A row's score is the inner product of its weights and the query's, so BM25 and TF-IDF differ in their weights alone.
Terms are counted by DuckDB, set-wise; the sums are SciPy's, over 8 bytes a posting, because a SQL statement costs a
single query more than the whole of its sum (measured on 100,000 chunks: 16 ms against 0.2 ms).
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from memkit.duck import session
from memkit.errors import DamagedIndexError, ParameterError
from memkit.params import check_value
from memkit.tables.untrusted import check_unique, open_member, read_parquet
from memkit.text.analyse import load_fts, spelling_sql, vocabulary_sql

Query = tuple[np.ndarray, np.ndarray]
"""Term numbers (int64, ascending) and their weights (float32), of equal length."""

Texts: TypeAlias = Sequence[str] | Any
"""Strings, or an Arrow array of them."""

CANDIDATES = pa.schema([("query", pa.int64()), ("row", pa.int64()), ("score", pa.float64())])

Add: TypeAlias = Callable[[np.ndarray, "Postings", np.ndarray, np.ndarray, np.ndarray], None]
"""``add(scores, postings, starts, stops, factors)`` adds each list's weights, times its factor, to its rows' scores."""

_TERMS = pa.schema([pa.field("term", pa.string(), nullable=False), pa.field("rows", pa.int64(), nullable=False)])
_POSTINGS = pa.schema([pa.field("row", pa.int32(), nullable=False), pa.field("weight", pa.float32(), nullable=False)])
_BLOCKS_MIN = 1024
_PART = 1 << 18
"""So many postings are looked at together: what is made of them stays in the processor's cache."""
_PIECES = 1 << 17
_SAMPLE_MAX = 4096
_FEW = 2_000_000
_LEAST = np.nextafter(np.float32(0), np.float32(1))


class HashedTerms(dict[str, int]):
    """Numbers of terms by the terms' hashes, for a file that shall hold no word.

    >>> HashedTerms.of({"пул": 0}).get("пул"), "чай" in HashedTerms.of({"пул": 0})
    (0, False)
    """

    @classmethod
    def of(cls, terms: Mapping[str, int]) -> Self:
        return cls((_term_hash(term), number) for term, number in terms.items())

    def get(self, term: str, default: Any = None) -> Any:
        return super().get(_term_hash(term), default)

    def __contains__(self, term: object) -> bool:
        return super().__contains__(_term_hash(str(term)))


def _term_hash(term: str) -> str:
    return hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass
class Postings:
    """Rows by term.

    Attributes
    ----------
    terms : dict of str to int
        Number of each term.
    offsets : ndarray of shape (n_terms + 1,), int64
        Where each term's postings start.
    rows : ndarray of shape (n_postings,), int32
        Ascending within a term.
    counts : ndarray of shape (n_postings,), unsigned
        How often the row has the term; empty where the postings were loaded, as a saved index holds weights alone.
    n_rows : int
        Rows in all, with and without postings.
    weights : ndarray of shape (n_postings,), float32
        What an arm scores by.
    waiting : ndarray of shape (n_terms,), bool
        Terms whose weights are not there yet: they come with the first query that has the term, as few ever do.
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
            self.weights = np.zeros(len(self.rows), np.float32)  # takes no memory before it is written to

    @classmethod
    def count(cls, texts: Texts, analyser: str) -> Self:
        """The terms of `texts` and how often each row has them."""
        from scipy.sparse import csr_array

        if not len(texts):
            return cls({}, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8), 0)
        rows = pa.array(np.arange(len(texts), dtype=np.int32))
        words, spelled, terms = _words_and_terms(pa.table({"row": rows, "body": strings(texts)}), analyser)
        shape = (len(texts), int(spelled["word"].max(initial=-1)) + 1, len(terms))
        # Words by row times terms by word: each distinct word was stemmed once, and no string is sorted or grouped.
        by_row = csr_array((_ones(words["row"]), (words["row"], words["word"])), shape[:2])
        by_word = csr_array((_ones(spelled["word"]), (spelled["word"], spelled["term"])), shape[1:])
        return cls._of(terms, (by_row @ by_word).tocsc())

    @classmethod
    def _of(cls, terms: list[str], counts: Any) -> Self:
        """Postings of a matrix, rows by terms, whose columns are sorted."""
        numbers = dict(zip(terms, range(len(terms)), strict=True))
        rows = _plain(counts.indices, np.int32)
        return cls(numbers, counts.indptr.astype(np.int64), rows, _small(counts.data), counts.shape[0])

    def updated(self, at: np.ndarray, fresh: Self) -> Self:
        """The counts of other rows, most of them these: what `count` gives over all their texts, without reading those.

        Parameters
        ----------
        at : ndarray of shape (n_rows,), int64
            For each row the one of these with its text, in rising order; n_rows of these and more: a row of `fresh`.
        """
        kept = np.flatnonzero(at < self.n_rows)
        places = np.full(self.n_rows, -1, np.int32)
        places[at[kept]] = kept
        rows, lost = self._moved(places)
        new = np.flatnonzero(at >= self.n_rows)
        # In each list a new posting stands before the first one of a row that follows on its own.
        follows = np.append(at[kept], self.n_rows)[np.searchsorted(kept, new)][fresh.rows]
        names = list(self.terms)
        number = np.array([bisect_left(names, term) for term in fresh.terms], np.int64)
        is_known = np.array([term in self.terms for term in fresh.terms], bool)
        starts, stops = self.offsets[number], np.append(self.offsets, 0)[number + 1]
        first, last = (
            np.repeat(ends, fresh.document_frequency) for ends in (starts, np.where(is_known, stops, starts))
        )
        where = _bisected(self.rows, first, last, follows)
        frequency = self.document_frequency
        frequency -= np.bincount(np.searchsorted(self.offsets, lost, side="right") - 1, minlength=len(frequency))
        frequency[number[is_known]] += fresh.document_frequency[is_known]
        frequency = np.insert(frequency, number[~is_known], fresh.document_frequency[~is_known])
        terms = self.terms
        if not is_known.all() or not frequency.all():
            merged = sorted(
                names + list(itertools.compress(fresh.terms, ~is_known))
            )  # two sorted runs, so it is linear
            terms = dict(zip(itertools.compress(merged, frequency), itertools.count(), strict=False))
        offsets = np.append(0, np.cumsum(frequency[frequency > 0]))
        rows = _spliced(rows, lost, where, new.astype(np.int32)[fresh.rows])
        return type(self)(terms, offsets, rows, _small(_spliced(self.counts, lost, where, fresh.counts)), len(at))

    def _moved(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where each posting's row is now, and which postings are of rows that are not there any more."""
        rows, lost = np.empty_like(self.rows), [np.empty(0, np.int64)]
        for start in range(0, len(rows), _PART):
            some = slice(start, start + _PART)
            np.take(places, self.rows[some], out=rows[some], mode="clip")
            lost.append(np.flatnonzero(rows[some] < 0) + start)
        return rows, np.concatenate(lost)

    def sums(self, worth: Callable[[np.ndarray], np.ndarray], factors: np.ndarray) -> np.ndarray:
        """For each row the sum of what the counts of its terms are worth, times the factors of these; float64.

        Where postings were loaded, so that the counts are not known, 0.
        """
        total = np.zeros(self.n_rows)
        if not len(self.counts):
            return total
        from scipy.sparse import csc_array

        counted = np.append(0, worth(np.arange(1.0, self.counts.max() + 1)))
        ends = np.searchsorted(self.offsets, np.arange(_PART, len(self.rows), _PART))
        ends = np.unique(np.concatenate([[0], ends, [len(self.terms)]]))
        for first, last in itertools.pairwise(ends.tolist()):
            offsets = self.offsets[first : last + 1]
            some = slice(offsets[0], offsets[-1])
            values = np.take(counted, self.counts[some], mode="clip")
            shape = (self.n_rows, last - first)
            total += csc_array((values, self.rows[some], offsets - offsets[0]), shape) @ factors[first:last]
        return total

    def weigh(self, terms: np.ndarray, weights: Callable[[int, np.ndarray, np.ndarray], np.ndarray]) -> None:
        """Let each of `terms` have weights: ``weights(term, rows, counts)`` are those of its postings."""
        for term in terms[self.waiting[terms]].tolist():
            some = slice(*self.offsets[term : term + 2].tolist())
            self.weights[some] = weights(term, self.rows[some], self.counts[some])
            self.waiting[term] = False  # not before they are there: another thread may look

    @property
    def document_frequency(self) -> np.ndarray:
        """Rows that hold each term, shape (n_terms,)."""
        return np.diff(self.offsets)

    def followed_by(self, other: Self) -> Self:
        """Both in one, over the same rows; all terms of the other come after these."""
        shifted = {term: number + len(self.terms) for term, number in other.terms.items()}
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        rows, counts = np.concatenate([self.rows, other.rows]), np.concatenate([self.counts, other.counts])
        return type(self)(self.terms | shifted, offsets, rows, _small(counts), self.n_rows)

    def renamed(self, prefix: str) -> Self:
        """The same with `prefix` before each term."""
        return replace(self, terms={prefix + term: number for term, number in self.terms.items()})

    def best(self, queries: Sequence[Query], n: int, allowed: np.ndarray | None) -> pa.Table:
        """At most `n` rows with a positive score for each query, best first, ties by row (`CANDIDATES`).

        Raises
        ------
        ParameterError
            Where `n` is below 1 or `allowed` is no boolean mask over the rows.
        """
        _check(n, allowed, self.n_rows)
        if not queries:
            return CANDIDATES.empty_table()
        add, blocked = _adder(len(self.rows)), None if allowed is None else np.flatnonzero(~allowed)
        scores = np.empty(self.n_rows, np.float32)
        found = []
        for terms, weights in queries:
            scores.fill(0)
            starts, stops = self.offsets[terms], self.offsets[terms + 1]
            add(scores, self, starts, stops, weights)
            if blocked is not None:
                scores[blocked] = 0
            found.append(_top(scores, n, self.rows[_rarest(starts, stops, n)]))
        ordinals = np.repeat(np.arange(len(found)), [len(rows) for rows, _ in found])
        columns = [ordinals, np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])]
        return pa.Table.from_arrays(list(map(pa.array, columns, CANDIDATES.types)), schema=CANDIDATES)

    def save(self, folder: Path, name: str, settings: dict[str, Any]) -> None:
        """Write ``{name}_terms.parquet``, with `settings` in its metadata, and ``{name}_postings.parquet``."""
        import json

        folder.mkdir(parents=True, exist_ok=True)
        terms = pa.table({"term": pa.array(list(self.terms), pa.string()), "rows": self.document_frequency})
        told = {"n_rows": self.n_rows, "n_postings": len(self.rows)}
        if isinstance(self.terms, HashedTerms):
            told["hashed"] = True
        kept = {"memkit": json.dumps({**settings, **told}, sort_keys=True)}
        postings = pa.table({"row": self.rows, "weight": self.weights})
        for part, table in (("terms", terms.replace_schema_metadata(kept)), ("postings", postings)):
            with (folder / f"{name}_{part}.parquet").open("wb") as file:  # a name may be taken for an address
                pq.write_table(table, file)

    @classmethod
    def load(cls, folder: Path, name: str) -> tuple[Self, dict[str, Any]]:
        """What `save` wrote.

        Raises
        ------
        DamagedIndexError
            Where a file is missing or odd, or the two do not belong together.
        """
        import json

        try:
            terms = _read(folder / f"{name}_terms.parquet", _TERMS)
            postings = _read(folder / f"{name}_postings.parquet", _POSTINGS)
            check_unique(terms, "term", folder)
            settings = dict(json.loads(terms.schema.metadata[b"memkit"]))
            expected, n_rows = (_count(settings.pop(key)) for key in ("n_postings", "n_rows"))
            known = HashedTerms if settings.pop("hashed", False) is True else dict
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DamagedIndexError(
                f"{folder}: expected the index '{name}' in two Parquet files. {error!s:.300} Fit again."
            ) from error
        frequencies = terms["rows"].to_numpy()
        is_possible = not len(frequencies) or 0 <= frequencies.min() <= frequencies.max() <= n_rows
        if not is_possible or not expected == int(frequencies.sum()) == postings.num_rows:
            raise DamagedIndexError(
                f"{folder}: expected {expected} postings of '{name}'. Got {postings.num_rows} of {frequencies.sum()}: "
                "the files do not belong together. Fit and save again."
            )
        rows = _plain(postings["row"].to_numpy(), np.int32)
        if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
            raise DamagedIndexError(
                f"{folder}: expected rows from 0 to {n_rows - 1} in '{name}'. Got {rows.min()} to {rows.max()}. "
                "Fit and save again."
            )
        weights = _plain(postings["weight"].to_numpy(), np.float32)
        if not np.isfinite(weights).all():
            raise DamagedIndexError(f"{folder}: expected weights of '{name}' that are finite. Fit and save again.")
        numbers = known(zip(terms["term"].to_pylist(), range(terms.num_rows), strict=True))
        offsets = np.concatenate([[0], np.cumsum(frequencies)]).astype(np.int64)
        return cls(numbers, offsets, rows, np.empty(0, np.uint8), n_rows, weights), settings


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    with open_member(path.parent, path.name) as file:
        return read_parquet(file, path, schema)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"a count of {value!r:.80}")
    return value


def _adder(n_postings: int) -> Add:
    """The sums, by SciPy's own loop: four times as fast as NumPy's, but not public there, and for 32-bit bounds.

    For few postings SciPy is not imported: that takes as long as a thousand queries over them.
    """
    if n_postings < _FEW and "scipy.sparse" not in sys.modules:
        return _add
    try:
        from scipy.sparse._sparsetools import csc_matvec
    except ImportError:  # should SciPy move it, slower is better than not at all
        return _add
    if n_postings > np.iinfo(np.int32).max:
        return _add

    def add(scores: np.ndarray, postings: Postings, starts: np.ndarray, stops: np.ndarray, factors: np.ndarray) -> None:
        # One call a query. The loop goes through columns, each from one bound to the next; from the end of a term to
        # the start of one before it there is nothing, so the terms, last first, can be every other column.
        bounds, values = np.empty(2 * len(starts), np.int32), np.zeros(2 * len(starts), np.float32)
        bounds[::2], bounds[1::2], values[::2] = starts[::-1], stops[::-1], factors[::-1]
        csc_matvec(len(scores), len(bounds) - 1, bounds, postings.rows, postings.weights, values, scores)

    return add


def _add(scores: np.ndarray, postings: Postings, starts: np.ndarray, stops: np.ndarray, factors: np.ndarray) -> None:
    for start, stop, factor in zip(starts[::-1], stops[::-1], factors[::-1], strict=True):
        scores[postings.rows[start:stop]] += postings.weights[start:stop] * factor


def _rarest(starts: np.ndarray, stops: np.ndarray, n: int) -> slice:
    """The shortest list of at least `n` rows, unless it is long: its rows are likely to score well."""
    lengths = ((length, place) for place, length in enumerate((stops - starts).tolist()) if length >= n)
    length, place = min(lengths, default=(0, 0))
    return slice(starts[place], stops[place]) if 0 < length <= _SAMPLE_MAX else slice(0)


def _words_and_terms(texts: pa.Table, analyser: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[str]]:
    """Words by row (row, word), terms by word (word, term), both by number, and the terms in order."""
    with session() as con:
        load_fts(con)
        con.register("texts", texts)
        # Not counted by row here: that would group millions of strings, where SciPy adds up numbers.
        con.execute(f"""
            create temp table spellings as select row, unnest({spelling_sql("body")}) as spelling from texts;
            create temp table vocabulary as
            select (row_number() over ())::int - 1 as word, * from ({vocabulary_sql("spellings", analyser)});
            create temp table terms as select (row_number() over (order by term))::int - 1 as number, term
            from (select distinct unnest(terms) as term from vocabulary);
        """)  # noqa: S608  # expressions of memkit's own
        words = con.execute("select row, word from spellings join vocabulary using (spelling)").fetchnumpy()
        spelled = con.execute("""
            select word, number as term
            from (select word, unnest(terms) as term from vocabulary) join terms using (term)
        """).fetchnumpy()
        terms = con.execute("select term from terms order by number").to_arrow_table()["term"].to_pylist()
    return _unmasked(words), _unmasked(spelled), terms


def _bisected(values: np.ndarray, starts: np.ndarray, stops: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of `wanted` belongs among the rising ``values[start:stop]`` of its own range."""
    while (open_ := starts < stops).any():
        middle = (starts + stops) // 2
        is_below = open_ & (values[np.where(open_, middle, 0)] < wanted)
        starts, stops = np.where(is_below, middle + 1, starts), np.where(open_ & ~is_below, middle, stops)
    return starts


def _spliced(values: np.ndarray, lost: np.ndarray, where: np.ndarray, new: np.ndarray) -> np.ndarray:
    """`values` without those at the places `lost`, and with each of `new` before a place of `where`; both rise."""
    if len(lost) + len(where) > _PIECES:
        both = np.insert(values.astype(np.promote_types(values.dtype, new.dtype), copy=False), where, new)
        return np.delete(both, lost + np.searchsorted(where, lost, side="right"))
    # What stays is copied run by run, which is ten times as fast as element by element.
    is_lost = np.repeat([False, True], [len(where), len(lost)])
    at = np.concatenate([where, lost])
    order = np.argsort(at, kind="stable")
    starts, stops = np.append(0, (at + is_lost)[order]).tolist(), np.append(at[order], len(values)).tolist()
    runs = [values[start:stop] for start, stop in zip(starts, stops, strict=True)]
    fresh = np.split(new, np.cumsum(~is_lost[order]))
    return np.concatenate(list(itertools.chain.from_iterable(zip(runs, fresh, strict=True))))


def _small(counts: np.ndarray) -> np.ndarray:
    """In the fewest bytes, which is one a posting in most corpora."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))), copy=False)


def _unmasked(columns: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.ma.getdata(values) for name, values in columns.items()}


def strings(texts: Texts) -> Any:
    return texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else pa.array(texts, pa.string())


def _ones(like: np.ndarray) -> np.ndarray:
    return np.ones(len(like), np.float32)


def _plain(values: Any, kind: type) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=kind)


def _check(n: int, allowed: np.ndarray | None, n_rows: int) -> None:
    check_value("candidates", "n", n, "int", low=1)
    if allowed is not None and (allowed.dtype != np.bool_ or allowed.shape != (n_rows,)):
        raise ParameterError(
            f"candidates: 'allowed' must be a boolean mask of shape ({n_rows},). Got {allowed.dtype} {allowed.shape}."
        )


def _top(scores: np.ndarray, n: int, likely: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scores of the `n` best positive ones: best first, ties by row.

    The n-th best of some rows, the `likely` ones, is a score that at least `n` rows reach, so only rows that reach it
    are sorted. Where too many do, the rows are dealt into blocks, and the blocks' maxima are the some.
    """
    blocks = max(_BLOCKS_MIN, 8 * n)
    rows = (scores >= _floor(scores[likely], n)).nonzero()[0] if len(likely) >= n else None
    if rows is None or len(rows) > blocks:
        rows = _reaching(scores, n, blocks) if len(scores) >= 2 * blocks else np.flatnonzero(scores > 0)
    found = scores[rows]
    order = (-found).argsort(kind="stable")[:n]
    return rows[order], found[order].astype(np.float64)


def _floor(scores: np.ndarray, n: int) -> np.float32:
    """The `n`-th best of `scores`, if positive, else the least positive number; puts `scores` in another order."""
    at = len(scores) - n
    scores.partition(at)
    return max(scores[at], _LEAST)


def _reaching(scores: np.ndarray, n: int, blocks: int) -> np.ndarray:
    """Rows, ascending, whose score is positive and reaches the n-th best maximum of the blocks.

    A block is every so many-th row.
    """
    whole = len(scores) // blocks * blocks
    cells = scores[:whole].reshape(-1, blocks)
    maxima = cells.max(axis=0)
    floor = _floor(maxima.copy(), n)
    holding = np.flatnonzero(maxima >= floor)
    places = np.flatnonzero(np.take(cells, holding, axis=1) >= floor)
    row, column = np.divmod(places, max(1, len(holding)))
    return np.concatenate([np.sort(row * blocks + holding[column]), whole + np.flatnonzero(scores[whole:] >= floor)])
