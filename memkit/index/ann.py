"""The nearest rows to a query, ordered by score, then row: found by FAISS, exactly or approximately, and scored again.

The exact search runs on the caller's array, without a copy of the vectors. Approximate indexes keep half-precision
copies. FAISS works in single precision, where the batch and the index change the last digits. Its rows are scored again
in double precision and rounded, so that equal vectors tie, a row has the cosine 1 with itself, and a longer list begins
with the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.index.encoders.base import Vectors, cores
from memkit.schemas import Ints, Mask

# Below this share of allowed rows a copy of them is cheaper than a selector that is asked about every row.
_COPY_BELOW = 0.1
_AT_ONCE = 1_000_000
Bits = NDArray[np.uint8]


def _faiss() -> Any:
    """FAISS, loaded at its first use; its partial types describe other versions."""
    import faiss

    return faiss


def exact(queries: Vectors, vectors: Vectors, k: int, mask: Mask | None) -> Ints:
    """The `k` best rows of each query; `k` is at most the number of allowed rows, so no row is -1."""
    if mask is None:
        return _knn(queries, vectors, k, None)
    if np.count_nonzero(mask) <= _COPY_BELOW * len(mask):
        rows = np.flatnonzero(mask)
        return rows[_knn(queries, vectors[rows], k, None)]
    return _knn(queries, vectors, k, selector(mask))


def _knn(queries: Vectors, vectors: Vectors, k: int, chosen: Any) -> Ints:
    faiss = _faiss()
    scores, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    n, dim = vectors.shape
    arrays = (faiss.swig_ptr(queries), faiss.swig_ptr(vectors))
    faiss.knn_inner_product(*arrays, dim, len(queries), n, k, faiss.swig_ptr(scores), faiss.swig_ptr(rows), chosen)
    return rows


def near_bits(rows: Bits, others: Bits, most: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Which of some rows of bits differ from which others in at most `most` bits, and in how many; some at a time.

    >>> rows = np.array([[0, 0, 0, 0, 0, 0, 0, 0], [255, 1, 0, 0, 0, 0, 0, 0]], np.uint8)
    >>> [[side.tolist() for side in pairs] for pairs in near_bits(rows, rows, 8)]
    [[[0, 1], [0, 1], [0, 0]]]
    """
    faiss = _faiss()
    index = faiss.IndexBinaryFlat(8 * rows.shape[1])
    index.add(np.ascontiguousarray(others))

    def met(start: int) -> tuple[Ints, Ints, Ints]:
        faiss.omp_set_num_threads(1)  # of this thread: FAISS's own wait for each other at every search
        # FAISS wants less than the radius.
        ends, apart, found = index.range_search(np.ascontiguousarray(rows[start : start + step]), most + 1)
        one = np.repeat(np.arange(start, start + len(ends) - 1), np.diff(ends).astype(np.int64))
        return one, found, apart.astype(np.int64)

    step, workers = max(1, _AT_ONCE // len(others)), cores()
    starts = range(0, len(rows), step)
    with ThreadPoolExecutor(workers) as pool:
        for place in range(0, len(starts), workers):
            yield from pool.map(met, starts[place : place + workers])


def selector(mask: Mask) -> Any:
    """FAISS's form of a boolean mask over rows."""
    return _faiss().IDSelectorBitmap(np.packbits(mask, bitorder="little"))


M, EF_CONSTRUCTION, EF_SEARCH = 32, 120, 128
"""HNSW's graph neighbours per row, and the rows looked at while a row is added and while a query is searched."""
NPROBE = 64
"""IVF's lists that a search reads."""


def build_hnsw(vectors: Vectors) -> Any:
    """An HNSW index, built on one thread to be deterministic."""
    faiss = _faiss()
    index = faiss.IndexHNSWSQ(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, M, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index.train(vectors)
        index.add(vectors)
    finally:
        faiss.omp_set_num_threads(threads)
    return index


def build_ivf(vectors: Vectors) -> Any:
    """An IVF index of about 4 sqrt(n) lists by seeded k-means; the same on any number of threads."""
    faiss = _faiss()
    n, dim = vectors.shape
    lists = max(1, min(int(4 * np.sqrt(n)), n // 39))  # k-means warns below 39 points a centre
    quantizer, half = faiss.IndexFlatIP(dim), faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexIVFScalarQuantizer(quantizer, dim, lists, half, faiss.METRIC_INNER_PRODUCT, False)
    index.own_fields = False
    index.referenced_objects = [quantizer]
    index.cp.seed = 0
    index.cp.max_points_per_centroid = 64
    index.train(vectors)
    index.add(vectors)
    return index


def search(index: Any, queries: Vectors, k: int, mask: Mask | None) -> Ints:
    """Up to `k` rows per query from an approximate index; -1 if fewer."""
    faiss = _faiss()
    chosen = {} if mask is None else {"sel": selector(mask)}
    if isinstance(index, faiss.IndexIVF):
        settings = faiss.SearchParametersIVF(nprobe=min(NPROBE, index.nlist), **chosen)
    else:
        settings = faiss.SearchParametersHNSW(efSearch=max(EF_SEARCH, 2 * k), **chosen)
    rows: Ints = index.search(queries, k, params=settings)[1]
    return rows


def write(index: Any, path: Path) -> None:
    """Write an approximate index to a file."""
    _faiss().write_index(index, str(path))


def read(path: Path) -> Any:
    """An index that `write` wrote."""
    return _faiss().read_index(str(path))


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
        rows = search(self.index, queries, min(count, k + _SLACK), mask)
        rows, scores = self._ordered(queries, rows)
        rows, scores = rows[:, :k], scores[:, :k]
        short = np.flatnonzero((rows < 0).any(axis=1))
        if len(short):
            # HNSW or IVF may reach too few allowed rows for a query; those queries are searched exactly.
            rows[short], scores[short] = self._exact(queries[short], k, count, mask)
        return rows, scores

    def _exact(self, queries: Vectors, k: int, count: int, mask: Mask | None) -> Ranked:
        rows = exact(queries, self.vectors, min(count, k + _SLACK), mask)
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
