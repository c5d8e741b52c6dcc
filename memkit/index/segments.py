"""An inverted index in two parts: a base, and a delta index of new rows, for a refit after a small edit.

The base is neither copied nor renumbered, however large it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from memkit.index.lexical import Lists, Postings, Weights

_LATER = 64
_FEW = 8


def updated(before: Lists, former_row: np.ndarray, delta: Postings) -> Lists:
    """The index of the present rows, most of which are in `before`: equal to `Postings.count` of all their texts.

    Parameters
    ----------
    former_row : ndarray of shape (n_rows,), int64
        For each row the one of `before` with the same text, ascending; from n_rows of `before` on: a row of `delta`.
    """
    is_new = former_row >= before.n_rows
    if not isinstance(before, Followed):
        return followed(before.whole(), np.where(is_new, before.n_rows - 1 + np.cumsum(is_new), former_row), delta)
    # The base stays; the former delta and the new one are merged.
    slots, first = np.append(before.slots, 0)[np.where(is_new, -1, former_row)], before.base.n_rows
    in_delta = is_new | (slots >= first)
    delta_row = slots[in_delta] - first
    delta_row[is_new[in_delta]] = before.tail.n_rows + np.arange(is_new.sum())
    slots[in_delta] = first + np.arange(in_delta.sum())
    return followed(before.base, slots, Followed(before.tail, delta_row, delta).whole(), before)


def followed(base: Postings, slots: np.ndarray, tail: Postings, before: Followed | None = None) -> Lists:
    """A `Followed`, or one part if the delta has more than a 64th of the rows."""
    lists = Followed(base, slots, tail, before)
    return lists if tail.n_rows <= _LATER + len(slots) // _LATER else lists.whole()


class _Terms(Mapping[str, int]):
    """The numbers of the terms of `base` and `later` that any row has; neither is copied."""

    def __init__(self, base: Mapping[str, int], later: Mapping[str, int], frequency: np.ndarray) -> None:
        self._parts, self._frequency = (base, later), frequency

    def __getitem__(self, term: str) -> int:
        number = self.get(term)
        if number is None:
            raise KeyError(term)
        return int(number)

    def get(self, term: str, default: Any = None) -> Any:
        """As `dict.get`, without the cost of an exception."""
        base, later = self._parts
        number = base.get(term, later.get(term))
        return default if number is None or not self._frequency[number] else number

    def __iter__(self) -> Iterator[str]:
        return (term for term, _ in self.items())

    def items(self) -> Any:
        """Terms and numbers."""
        terms = itertools.compress(itertools.chain(*self._parts), self._frequency.tolist())
        return zip(terms, np.flatnonzero(self._frequency).tolist(), strict=True)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._frequency))


class Followed(Lists):
    """The rows of each term in two parts, base and delta.

    Parameters
    ----------
    base : Postings
        It is not changed.
    slots : ndarray of shape (n_rows,), int64
        The slot of each row: a row of `base`, or, after these, one of `tail`.
    tail : Postings
        The delta index: new rows.
    before : Followed, optional
        A former one with the same base and at least the same rows of it: its deleted rows need no second search.

    Notes
    -----
    A term has its number in `base`; terms of `tail` alone come after all those.
    """

    def __init__(self, base: Postings, slots: np.ndarray, tail: Postings, before: Followed | None = None) -> None:
        nothing = np.empty(0, np.float32)
        self.base, self.slots, self.tail = replace(base, weights=nothing, waiting=nothing.astype(bool)), slots, tail
        self.n_rows, self.n_slots = len(slots), base.n_rows + tail.n_rows
        known = before._known if before else {}
        self._known: dict[str, int | None] = {
            term: known[term] if term in known else base.terms.get(term) for term in tail.terms
        }
        own = (term for term, number in self._known.items() if number is None)
        later = {term: number for number, term in enumerate(own, len(base.terms))}
        self._numbers = np.array(list((self._known | later).values()), np.int64)
        self._in_tail = np.full(len(base.terms) + len(later), -1)
        self._in_tail[self._numbers] = np.arange(len(tail.terms))
        frequency = np.zeros(len(self._in_tail), np.int64)
        self._gone = np.ones(base.n_rows, bool)
        self._gone[slots[slots < base.n_rows]] = False
        self._lost: np.ndarray = before._lost + self._in(self._gone & ~before._gone) if before else self._in(self._gone)
        frequency[: len(base.terms)] = base.document_frequency - self._lost
        frequency[self._numbers] += tail.document_frequency
        self.terms, self.document_frequency = _Terms(base.terms, later, frequency), frequency

    def _in(self, some: np.ndarray) -> np.ndarray:
        """The number of rows of the base in the mask `some` that have each of its terms."""
        base, rows = self.base, np.flatnonzero(some)
        if len(rows) <= _FEW:  # comparing each with all postings is faster than a lookup of all postings
            indices = [np.flatnonzero(base.rows == row) for row in rows.tolist()]
        else:
            parts = base.parts()
            indices = [np.flatnonzero(np.take(some, base.rows[part], mode="clip")) + part.start for part in parts]
        postings = np.concatenate([np.empty(0, np.int64), *indices])
        return np.bincount(np.searchsorted(base.offsets, postings, side="right") - 1, minlength=len(base.terms))

    def by_row(self, values: np.ndarray) -> np.ndarray:
        """From one value per slot to one value per row."""
        return np.take(values, self.slots)

    def sums(self, worth: Callable[[np.ndarray], np.ndarray], factors: np.ndarray) -> np.ndarray:
        """As those of `Postings`, for each slot."""
        parts = (self.base, factors[: len(self.base.terms)]), (self.tail, factors[self._numbers])
        return np.concatenate([part.sums(worth, own) for part, own in parts])

    def weigh(self, terms: np.ndarray, weights: Weights) -> None:
        """As `Postings` does, over slots."""
        first = self.base.n_rows
        self.base.weigh(terms[terms < len(self.base.terms)], weights)
        later = self._in_tail[terms]
        self.tail.weigh(
            later[later >= 0], lambda term, rows, counts: weights(int(self._numbers[term]), rows + first, counts)
        )

    def add_up(self, scores: np.ndarray, terms: np.ndarray, factors: np.ndarray, n: int) -> np.ndarray:
        """As `Postings` does, over slots; returns no likely rows."""
        known, later = terms < len(self.base.terms), self._in_tail[terms]
        self.base.add_up(scores[: self.base.n_rows], terms[known], factors[known], n)
        self.tail.add_up(scores[self.base.n_rows :], later[later >= 0], factors[later >= 0], n)
        return np.empty(0, np.int64)

    def whole(self) -> Postings:
        """The same index in one part, with sorted terms."""
        from scipy.sparse import coo_array

        terms = dict(self.terms.items())
        names = sorted(terms)
        column, row = np.full(len(self.document_frequency), -1, np.int32), np.full(self.n_slots, -1, np.int32)
        column[[terms[name] for name in names]] = np.arange(len(names))
        row[self.slots] = np.arange(self.n_rows)
        parts = (
            (self.base, column[: len(self.base.terms)], row),
            (self.tail, column[self._numbers], row[self.base.n_rows :]),
        )
        counts, rows, columns = map(np.concatenate, zip(*(_cells(*part) for part in parts), strict=True))
        return Postings.from_matrix(
            names, coo_array((counts, (rows, columns)), (self.n_rows, len(names))).tocsr().tocsc()
        )


def _cells(part: Postings, column: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, rows and columns of the postings of rows that are not deleted."""
    rows = np.take(row, part.rows)
    is_live = rows >= 0
    return part.counts[is_live], rows[is_live], np.repeat(column, part.document_frequency)[is_live]
