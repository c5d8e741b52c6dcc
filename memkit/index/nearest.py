"""The nearest rows to a query, ordered by score, then row.

FAISS works in single precision, where the batch and the index change the last digits. Its rows are scored again in
double precision and rounded, so that equal vectors tie, a row has the cosine 1 with itself, and a longer list begins
with the shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.index import ann
from memkit.index.encoders.base import Vectors
from memkit.schemas import Ints, Mask

SCORE_DIGITS = 6
STEP = 10.0**-SCORE_DIGITS
Ranked = tuple[Ints, NDArray[np.float64]]

_SLACK = 16  # rows fetched beyond k, for the order to be settled in double precision
_BLOCK = 1 << 23  # numbers gathered at a time while scoring: 64 MB


def cosines(one: Vectors, other: Vectors, digits: int = SCORE_DIGITS) -> NDArray[np.float64]:
    """The cosine of each unit row of `one` with each of `other`, over shapes (…, n, dim) and (…, m, dim).

    It is rounded, so that it does not depend on the other rows of the batch; from -1 to 1.

    >>> cosines(np.array([[1, 0]], np.float32), np.array([[1, 0], [0.6, 0.8], [-1, 0]], np.float32)).tolist()
    [[1.0, 0.6, -1.0]]
    """
    exact = one.astype(np.float64) @ other.astype(np.float64).swapaxes(-1, -2)
    return np.clip(np.round(exact, digits), -1.0, 1.0) + 0.0  # + 0.0 makes of -0.0 a 0


@dataclass(frozen=True)
class Nearest:
    """A search over unit rows.

    Attributes
    ----------
    vectors : ndarray of float32, shape (n, dim)
    index : faiss.Index or None
        Approximate, over the same rows; None searches exactly.
    exact_up_to : int, rows
        A filter that leaves at most so many is searched exactly, whatever the index.
    """

    vectors: Vectors
    index: Any
    exact_up_to: int

    def best(self, queries: Vectors, k: int, mask: Mask | None) -> Ranked:
        """Rows and cosines, both of shape (n_queries, min(k, allowed rows)); never a row -1."""
        count = len(self.vectors) if mask is None else int(np.count_nonzero(mask))
        k = min(k, count)
        if k < 1 or not len(queries):
            return np.empty((len(queries), 0), dtype=np.int64), np.empty((len(queries), 0))
        if self.index is None or (mask is not None and count <= self.exact_up_to):
            return self._exact(queries, k, count, mask)
        rows = ann.search(self.index, queries, min(count, k + _SLACK), mask)
        rows, scores = self._ordered(queries, rows)
        rows, scores = rows[:, :k], scores[:, :k]
        short = np.flatnonzero((rows < 0).any(axis=1))
        if len(short):
            # HNSW or IVF may reach too few allowed rows for a query; those queries are searched exactly.
            rows[short], scores[short] = self._exact(queries[short], k, count, mask)
        return rows, scores

    def _exact(self, queries: Vectors, k: int, count: int, mask: Mask | None) -> Ranked:
        rows = ann.exact(queries, self.vectors, min(count, k + _SLACK), mask)
        rows, scores = self._ordered(queries, rows)
        if rows.shape[1] < count:
            # Rows not fetched may tie with the last one kept; single precision cannot tell them from it.
            for query in np.flatnonzero(scores[:, k - 1] - scores[:, -1] <= 2 * STEP):
                rows[query, :k], scores[query, :k] = self._with_ties(queries[query], scores[query, k - 1], k, mask)
        return rows[:, :k], scores[:, :k]

    def _with_ties(self, query: Vectors, cut: float, k: int, mask: Mask | None) -> Ranked:
        near = self.vectors @ query >= cut - 2 * STEP
        rows = np.flatnonzero(near if mask is None else near & mask)
        scores = cosines(query[None], self.vectors[rows])[0]
        order = np.lexsort((rows, -scores))[:k]
        return rows[order], scores[order]

    def _ordered(self, queries: Vectors, rows: Ints) -> Ranked:
        scores = cosines_of(queries, self.vectors, rows)
        scores[rows < 0] = -np.inf
        order = np.lexsort((rows, -scores), axis=-1)
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def cosines_of(queries: Vectors, rows: Vectors, neighbours: Ints) -> NDArray[np.float64]:
    """Cosine of each query with its `neighbours`, numbers of `rows`; of their shape."""
    scores = np.empty(neighbours.shape)
    step = max(1, _BLOCK // max(1, neighbours.shape[1] * rows.shape[1]))
    for start in range(0, len(neighbours), step):
        some = slice(start, start + step)
        scores[some] = cosines(rows[neighbours[some]], queries[some, None])[..., 0]
    return scores
