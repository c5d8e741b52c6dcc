"""An inverted index in arrays: for each term, its rows and their weights.

A row's score is the inner product of its weights and the query's, so BM25 and TF-IDF differ in their weights alone.
SciPy adds up the scores, over 8 bytes per posting, because one SQL statement costs more than the sum (measured on
100,000 chunks: 16 ms against 0.2 ms).

After an edit `updated` merges the postings of new rows with those of rows that stay, which costs a copy of the arrays.
`save_postings` writes the terms as Parquet and their lists as they lie in memory, so that these are read at once; what
`load_postings` reads may come from anybody, and is checked.
"""

from __future__ import annotations

import itertools
import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

from memkit.base.checked import json_object
from memkit.base.params import check_value
from memkit.errors import DamagedIndexError, ParameterError
from memkit.index.store import load_array, save_array
from memkit.tables.untrusted import open_member, parquet, read_parquet
from memkit.text.analyse import Respelling, Texts, counted, distinct, ranges, row_kind, small, strings

Query = tuple[np.ndarray, np.ndarray]
"""Term numbers (int64, ascending) and their weights (float32), of equal length."""

CANDIDATES = pa.schema([("query", pa.int64()), ("row", pa.int64()), ("score", pa.float64())])

Add: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]
"""``add(scores, rows, weights, starts, stops, factors)`` adds each list's weights, times its factor, to its rows."""

Weights: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""``weights(terms, sizes, rows, counts)`` returns those of so many postings a term, given their rows and counts."""

# A round bound: of smaller corpora all positive scores are sorted.
_BLOCKS_MIN = 1024
_PART, _WEIGHED = 1 << 16, 1 << 14
"""Postings that are processed together, so that intermediate arrays stay in the processor's cache."""
# Fewer are added up before SciPy is imported; SciPy's loop counts them in 32 bits.
_FEW_POSTINGS, _MOST_POSTINGS = 2_000_000, 2**31 - 1
_LEAST = np.nextafter(np.float32(0), np.float32(1))


_WEIGHING = Lock()
"""One for all, as an index that is pickled can have none of its own."""


@dataclass
class Postings:
    """The rows of each term.

    Attributes
    ----------
    terms : dict of str to int
        Number of each term.
    offsets : ndarray of shape (n_terms + 1,), int64
        The start of each term's postings.
    rows : ndarray of shape (n_postings,), uint16 or int32
        Ascending within a term.
    counts : ndarray of shape (n_postings,), unsigned
        Term frequencies.
    n_rows : int
        The number of rows, with and without postings.
    starts : ndarray of shape (n_terms,), int64
        Where a term's weights begin; -1 before the first query with the term, as few terms are ever queried.
    weights : ndarray of shape (n_postings,), float32
        Those of terms that are queried together lie together, as memory is cleared by the page.
    wide : ndarray of shape (n_postings,), int32
        The row of each weight, as SciPy's loop takes it.
    """

    terms: dict[str, int]
    offsets: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    n_rows: int

    def __post_init__(self) -> None:
        self.document_frequency = np.diff(self.offsets)
        self.starts, self._n_weighed = np.full(len(self.document_frequency), -1), 0
        # Written before they are read, by `weigh`.
        self.weights, self.wide = np.empty(len(self.rows), np.float32), np.empty(len(self.rows), np.int32)

    @classmethod
    def count(cls, texts: Texts, analyzer: str, respelled: Respelling | None = None) -> Self:
        """Count the terms of `texts`.

        `respelled` changes each piece of a text between blanks before it is cut into words.
        """
        found = counted(strings(texts), analyzer, respelled)
        numbers = dict(zip(found.terms, range(len(found.terms)), strict=True))
        return cls(numbers, found.offsets, found.rows, found.counts, len(texts))

    def postings_of(self, term: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows that have a term, ascending, and how often each has it."""
        postings = slice(self.offsets[term], self.offsets[term + 1])
        return self.rows[postings], self.counts[postings]

    def scores(self, query: Query) -> np.ndarray:
        """The score of every row; float32, shape (n_rows,)."""
        return next(self.scored([query]))

    def scored(self, queries: Sequence[Query]) -> Iterator[np.ndarray]:
        """The scores of each query, in an array that the next one may reuse."""
        scores, add = np.empty(self.n_rows, np.float32), _adder(self._n_weighed)
        for terms, weights in queries:
            scores.fill(0)
            starts = self.starts[terms]
            add(scores, self.wide, self.weights, starts, starts + self.document_frequency[terms], weights)
            yield scores

    def sums(self, worth: Callable[[np.ndarray], np.ndarray], factors: np.ndarray) -> np.ndarray:
        """For each row the sum over its terms of ``worth(count)`` times the term's factor; float64.

        Terms are added in a fixed order, the last one first, so that the sum is the same to the last bit whatever the
        other rows are.
        """
        total = np.zeros(self.n_rows)
        counted = np.append(0, worth(np.arange(1.0, self.counts.max(initial=0) + 1)))
        add, ends = _adder(len(self.rows)), np.searchsorted(self.offsets, np.arange(_PART, len(self.rows), _PART))
        ends = np.unique(np.concatenate([[0], ends, [len(self.terms)]]))[::-1]
        for last, first in itertools.pairwise(ends.tolist()):
            bounds = self.offsets[first : last + 1]
            part, bounds = slice(bounds[0], bounds[-1]), bounds - bounds[0]
            values = np.take(counted, self.counts[part], mode="clip")
            rows = self.rows[part].astype(np.int32, copy=False)
            add(total, rows, values, bounds[:-1], bounds[1:], factors[first:last])
        return total

    def weigh(self, terms: np.ndarray, weights: Weights) -> None:
        """Compute the weights of each of `terms` that has none yet, by ``weights(terms, sizes, rows, counts)``."""
        with _WEIGHING:
            waiting = terms[self.starts[terms] < 0]
            if not len(waiting):
                return
            new = distinct(waiting)
            sizes = self.document_frequency[new]
            stops = self._n_weighed + np.cumsum(sizes)
            for some in np.split(np.arange(len(new)), np.flatnonzero(np.diff(stops // _WEIGHED)) + 1):
                own, place = new[some], slice(stops[some[0]] - sizes[some[0]], stops[some[-1]])
                lists = [slice(*ends) for ends in np.stack([self.offsets[own], self.offsets[own + 1]], axis=1).tolist()]
                rows = np.concatenate([self.rows[one] for one in lists], out=self.wide[place])
                counts = np.concatenate([self.counts[one] for one in lists])
                self.weights[place] = weights(own, sizes[some], rows, counts)
            self._n_weighed = int(stops[-1])
            self.starts[new] = stops - sizes  # after the weights are written: another thread may read them

    def followed_by(self, other: Self) -> Self:
        """The terms of both, over the same rows; those of `other` come last."""
        shifted = {term: number + len(self.terms) for term, number in other.terms.items()}
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        rows, counts = np.concatenate([self.rows, other.rows]), np.concatenate([self.counts, other.counts])
        return type(self)(self.terms | shifted, offsets, rows, small(counts), self.n_rows)

    def renamed(self, prefix: str) -> Self:
        """A copy with `prefix` before each term."""
        terms = {prefix + term: number for term, number in self.terms.items()}
        return type(self)(terms, self.offsets, self.rows, self.counts, self.n_rows)


def _adder(n_postings: int) -> Add:
    """What adds up scores: SciPy's loop over columns, or NumPy's for few postings or more than 32 bits.

    The loop is private to SciPy. Without it a batch of queries took 1.7 times and a single one 1.4 times the processor
    time, and no public function adds to existing scores. For few postings SciPy is not imported, as that takes as long
    as a thousand queries over them.
    """
    if n_postings < _FEW_POSTINGS and "scipy.sparse" not in sys.modules:
        return _add
    try:
        from scipy.sparse._sparsetools import csc_matvec
    except ImportError:  # should SciPy move it, slower is better than not at all
        return _add
    if n_postings > _MOST_POSTINGS:
        return _add

    def add(
        scores: np.ndarray,
        rows: np.ndarray,
        weights: np.ndarray,
        starts: np.ndarray,
        stops: np.ndarray,
        factors: np.ndarray,
    ) -> None:
        # Few calls a query. The loop goes through columns, each from one bound to the next; from the end of a term to
        # the start of one before it there is nothing, so terms, last first, can be every other column while they are in
        # order, as those are that were weighed together.
        bounds, values = np.empty(2 * len(starts), np.int32), np.zeros(2 * len(starts), scores.dtype)
        bounds[::2], bounds[1::2], values[::2] = starts[::-1], stops[::-1], factors[::-1]
        cuts = 2 * (np.flatnonzero(bounds[2::2] > bounds[1:-1:2]) + 1)
        for first, last in itertools.pairwise([0, *cuts.tolist(), len(bounds)]):
            csc_matvec(len(scores), last - first - 1, bounds[first:last], rows, weights, values[first:last], scores)

    return add


def _add(
    scores: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    factors: np.ndarray,
) -> None:
    """Add each list's weights, times its factor, to its rows; the last list first."""
    sizes = (stops - starts)[::-1]
    places = ranges(starts[::-1], sizes)
    np.add.at(scores, rows[places], weights[places] * np.repeat(factors[::-1], sizes))


def check_chunks(chunks: pa.Table, texts: Texts) -> None:
    """Raise if an arm cannot be fitted on these."""
    if not isinstance(chunks, pa.Table):
        raise ParameterError(f"fit: expected a table of chunks. Got {type(chunks).__name__}.")
    if chunks.num_rows != len(texts):
        raise ParameterError(f"fit: expected a text for each of {chunks.num_rows} chunks. Got {len(texts)} texts.")


def best_of(scored: Iterable[np.ndarray], n: int, allowed: np.ndarray | None, n_rows: int) -> pa.Table:
    """At most `n` of the `n_rows` rows with a positive score for each query, best first, ties by row (`CANDIDATES`).

    Raises
    ------
    ParameterError
        If `n` is below 1, or `allowed` is no boolean mask over the rows.
    """
    check_value("candidates", "n", n, "int", low=1)
    if allowed is not None and (allowed.dtype != np.bool_ or allowed.shape != (n_rows,)):
        raise ParameterError(
            f"candidates: 'allowed' must be a boolean mask of shape ({n_rows},). Got {allowed.dtype} {allowed.shape}."
        )
    blocked = None if allowed is None else np.flatnonzero(~allowed)
    best = []
    for scores in scored:
        if blocked is not None:
            scores[blocked] = 0
        best.append(_top(scores, n))
    if not best:
        return CANDIDATES.empty_table()
    numbers = np.repeat(np.arange(len(best)), [len(rows) for rows, _ in best])
    columns = [numbers, np.concatenate([rows for rows, _ in best]), np.concatenate([scores for _, scores in best])]
    return pa.Table.from_arrays(list(map(pa.array, columns, CANDIDATES.types)), schema=CANDIDATES)


def _top(scores: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scores of the `n` best positive ones: best first, ties by row.

    At least `n` rows reach the n-th best maximum of blocks of rows, so only rows that reach it are looked at.
    """
    # Eight blocks a wanted row: few of the best share one, so the floor lies near the n-th best score.
    blocks = max(_BLOCKS_MIN, 8 * n)
    whole = len(scores) // blocks * blocks
    rows = (scores >= (_floor(scores[:whole].reshape(-1, blocks).max(axis=0), n) if whole else _LEAST)).nonzero()[0]
    if len(rows) > n:
        rows = rows[scores[rows] >= _floor(scores[rows], n)]
    reached = scores[rows]
    order = (-reached).argsort(kind="stable")[:n]
    return rows[order], reached[order].astype(np.float64)


def _floor(scores: np.ndarray, n: int) -> np.float32:
    """The `n`-th best of `scores`, if positive, else the least positive number; puts `scores` in another order."""
    index = len(scores) - n
    scores.partition(index)
    return max(scores[index], _LEAST)


# An eighth of the rows is a guess; a block of 65,536 stays in the processor's cache.
_CHANGED, _AT_ONCE = 64, 65_536


def updated(before: Postings, former_row: np.ndarray, delta: Postings) -> Postings | None:
    """The postings of the present rows, most of which are in `before`: equal to `Postings.count` of all their texts.

    None where so many rows are gone or new that to count them all takes no longer.

    Parameters
    ----------
    former_row : ndarray of shape (n_rows,), int64
        For each row the one of `before` with the same text, ascending; from n_rows of `before` on: a row of `delta`.
    """
    is_new = former_row >= before.n_rows
    if before.n_rows - len(former_row) + 2 * delta.n_rows > _CHANGED + len(former_row) // 8:
        return None
    kind = row_kind(len(former_row))
    row_of = np.full(before.n_rows, -1, np.int32)
    row_of[former_row[~is_new]] = np.flatnonzero(~is_new)
    gone = _places_of(np.flatnonzero(row_of < 0).astype(before.rows.dtype), before.rows)
    lost = np.searchsorted(before.offsets, gone, side="right") - 1
    n_stay = before.document_frequency - np.bincount(lost, minlength=len(before.terms))
    numbers, is_added = _numbers_since(before.terms, n_stay, delta.terms)
    frequency = np.zeros(len(numbers), np.int64)
    frequency[~is_added] = n_stay[n_stay > 0]
    frequency[[numbers[term] for term in delta.terms]] += delta.document_frequency
    # Rows keep their order: a new posting comes after that of the last row before it that stays.
    last_before = np.maximum.accumulate(np.where(is_new, -1, former_row)).astype(np.int32)[is_new][delta.rows]
    places, names = np.empty(len(delta.rows), np.int64), list(before.terms)
    for term, (first, last) in zip(delta.terms, itertools.pairwise(delta.offsets.tolist()), strict=True):
        number = bisect_left(names, term)
        start, stop = before.offsets[number], before.offsets[number + (term in before.terms)]
        places[first:last] = start + np.searchsorted(before.rows[start:stop], last_before[first:last], side="right")
    either = np.result_type(before.rows, kind)
    new_rows = np.flatnonzero(is_new).astype(either)[delta.rows]
    is_moved = (former_row != np.arange(len(former_row)))[~is_new].any()
    rows = _spliced(before.rows, gone, places, new_rows, row_of.astype(either) if is_moved else None)
    counts = _spliced(before.counts, gone, places, delta.counts)
    offsets = np.append(0, np.cumsum(frequency))
    return Postings(numbers, offsets, rows.astype(kind, copy=False), small(counts), len(former_row))


def _places_of(some: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Where `rows` are among `some`, which are ascending: mostly those of one file, which is a narrow range.

    >>> _places_of(np.array([3, 5]), np.array([5, 9, 4, 3])).tolist()
    [0, 3]
    """
    found = [np.empty(0, np.int64)]
    for start in range(0, len(rows), _AT_ONCE) if len(some) else ():
        block = rows[start : start + _AT_ONCE]
        near = np.flatnonzero((block - some[0]).view(f"u{block.itemsize}") <= some[-1] - some[0])  # below: very large
        found.append(start + near[np.isin(block[near], some)])
    return np.concatenate(found)


def _numbers_since(
    before: dict[str, int], n_stay: np.ndarray, present: Iterable[str]
) -> tuple[dict[str, int], np.ndarray]:
    """The numbers of the terms of `before` that have rows still and of those `present`; which are none of the first."""
    new = [term for term in present if (number := before.get(term)) is None or not n_stay[number]]
    if not new and n_stay.all():
        return before, np.zeros(len(before), bool)
    names = sorted([*itertools.compress(before, n_stay.tolist()), *new])  # two sorted runs
    numbers = dict(zip(names, range(len(names)), strict=True))
    is_new = np.zeros(len(names), bool)
    is_new[[numbers[term] for term in new]] = True
    return numbers, is_new


def _spliced(
    values: np.ndarray, gone: np.ndarray, places: np.ndarray, added: np.ndarray, become: np.ndarray | None = None
) -> np.ndarray:
    """`values` without those at `gone`, and with `added` ones before `places`, ascending, in one copy.

    `become` is what each of the values becomes that is not gone; None: itself.

    >>> _spliced(np.array([1, 2, 3, 4]), np.array([1]), np.array([1, 4]), np.array([9, 8])).tolist()
    [1, 9, 3, 4, 8]
    >>> _spliced(np.array([0, 1, 2]), np.array([1]), np.array([3]), np.array([8]), np.array([5, -1, 7])).tolist()
    [5, 7, 8]
    """
    position = np.concatenate([places, gone])
    order = np.argsort(position, kind="stable")
    result = np.empty(len(values) + len(places) - len(gone), np.result_type(values, added))
    start = filled = 0
    for event, place in zip([*order.tolist(), -1], [*position[order].tolist(), len(values)], strict=True):
        for at in range(start, place, _AT_ONCE):  # of all at once, NumPy would make numbers of 64 bits first
            kept = values[at : min(at + _AT_ONCE, place)]
            filled += len(kept)
            if become is None:
                result[filled - len(kept) : filled] = kept
            else:
                np.take(become, kept, out=result[filled - len(kept) : filled], mode="clip")
        start = place
        if 0 <= event < len(places):
            result[filled] = added[event]
            filled += 1
        elif event >= 0:
            start += 1
    return result


_TERMS = pa.schema([pa.field("term", pa.string(), nullable=False), pa.field("rows", pa.int64(), nullable=False)])
_MOST = 1 << 24
"""Most occurrences of a term in a text: those of a file that memkit did not write might fill the memory."""
_COUNTS = (np.uint8, np.uint16, np.uint32)


def save_postings(postings: Postings, folder: Path, name: str, settings: dict[str, Any]) -> None:
    """Write ``{name}_terms.parquet``, its metadata `settings`, and ``{name}_rows.npy`` and ``{name}_counts.npy``."""
    folder.mkdir(parents=True, exist_ok=True)
    terms = pa.table({"term": pa.array(list(postings.terms), pa.string()), "rows": postings.document_frequency})
    sizes = {"n_rows": postings.n_rows, "n_postings": len(postings.rows)}
    metadata = {"memkit": json.dumps({**settings, **sizes}, sort_keys=True)}
    with (folder / f"{name}_terms.parquet").open("wb") as file:  # a name may be taken for an address
        parquet().write_table(terms.replace_schema_metadata(metadata), file)
    for part, values in (("rows", postings.rows), ("counts", postings.counts)):
        save_array(folder / f"{name}_{part}.npy", values[:, np.newaxis])


def load_postings(folder: Path, name: str, trust: bool) -> tuple[Postings, dict[str, Any]]:
    """What `save_postings` wrote.

    Raises
    ------
    DamagedIndexError
        Where a file is missing or odd, or they do not belong together.
    """
    try:
        with open_member(folder, f"{name}_terms.parquet") as file:
            terms = read_parquet(file, folder / f"{name}_terms.parquet", _TERMS, trust)
        settings = json_object(terms.schema.metadata[b"memkit"])
        expected, n_rows = (_count(settings.pop(key)) for key in ("n_postings", "n_rows"))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedIndexError(
            f"{folder}: expected the terms of '{name}' in a Parquet file. {error!s:.300} Fit again."
        ) from error
    rows = _values(folder, name, "rows", (np.uint16, np.int32), (0, n_rows - 1), trust)
    counts = _values(folder, name, "counts", _COUNTS, (1, _MOST), trust)
    number = dict(zip(terms["term"].to_pylist(), range(terms.num_rows), strict=True))
    frequencies = terms["rows"].to_numpy()
    least, most = frequencies.min(initial=0), frequencies.max(initial=0)
    is_possible = len(number) == len(frequencies) and 0 <= least <= most <= n_rows
    if not is_possible or not expected == int(frequencies.sum()) == len(rows) == len(counts):
        raise DamagedIndexError(
            f"{folder}: expected {expected} postings of '{name}'. Got {len(rows)} of {frequencies.sum()}: "
            "the files do not belong together. Fit and save again."
        )
    offsets = np.concatenate([[0], np.cumsum(frequencies)]).astype(np.int64)
    return Postings(number, offsets, rows.astype(row_kind(n_rows), copy=False), counts, n_rows), settings


def _values(
    folder: Path, name: str, part: str, kinds: Sequence[type], bounds: tuple[int, int], trust: bool
) -> np.ndarray:
    """The rows or the counts of all postings, between two bounds, which is looked at unless the file is trusted."""
    values = load_array(folder / f"{name}_{part}.npy", *kinds, columns=1, in_place=trust)[:, 0]
    least, most = bounds
    if not trust and len(values) and not least <= values.min() <= values.max() <= most:
        raise DamagedIndexError(
            f"{folder}: expected {part} from {least} to {most} in '{name}'. Got {values.min()} to {values.max()}."
            " Fit and save again."
        )
    return values


def _count(value: object) -> int:
    # Rows are numbered in 32 bits.
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"a count of {value!r:.80}")
    return value
