"""The nearest rows to a query, ordered by score, then row: found by FAISS, exactly or approximately, and scored again.

The exact search runs on the caller's array, without a copy of the vectors. Approximate indexes keep half-precision
copies. FAISS works in single precision, where the batch and the index change the last digits. Its rows are scored again
in double precision and rounded, so that equal vectors tie, a row has the cosine 1 with itself, and a longer list begins
with the shorter one.

And all pairs of near rows, exactly: blocks of a matrix product, with a bound that spares most of the work. For unit
rows x = (p, q), p the first `r` coordinates on the corpus's principal axes, Cauchy and Schwarz give
cos(x, y) <= p.p' + |q||q'|, which is itself an inner product of r + 1 numbers. A block whose bounds all stay below the
threshold holds no pair; only what passes is multiplied out. `r` is chosen on a sample; any `r` gives the same pairs.

Mean-centering comes before: encoders put all texts of one language near one direction, so that in a mixed corpus a
Russian query finds Russian texts only because they are Russian. Subtracting the mean of each language removes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from memkit.base.parallel import bar, results
from memkit.base.params import Estimator, estimator, param
from memkit.errors import MemkitError, NotFittedError, ParameterError
from memkit.index.encoders.base import Texts, Vectors, as_texts, check_block, cores, one_thread, unit_rows
from memkit.schemas import Ints, Mask
from memkit.text.languages import CYRILLIC_LETTERS, of_characters

CENTRES = ("none", "corpus", "language")
MIN_ROWS = 50  # a mean over fewer texts is mostly those texts themselves

_LATIN, _CYRILLIC, _OTHER = 0, 1, 2
_FEW = 8
"""Up to so many texts, such as queries, are counted by regular expressions if they use only two alphabets."""
_PLAIN = re.compile(f"[\0-\x7f«»—–…{CYRILLIC_LETTERS}]*")
_PLAIN_LETTERS = (re.compile("[A-Za-z]"), re.compile(f"[{CYRILLIC_LETTERS}]"))


@estimator
class Centring(Estimator):
    """Subtract the mean of all documents, or of the documents of each script, from documents and queries.

    Attributes
    ----------
    means_ : ndarray of float64, shape (3, dim)
        For Latin, Cyrillic and other texts; zeros if nothing is subtracted.

    Examples
    --------
    >>> vectors = unit_rows(np.random.default_rng(0).normal(2, 1, (100, 8)))
    >>> centred = Centring(mode="corpus").fit(vectors).transform(vectors)
    >>> bool(np.abs(centred.mean(axis=0)).max() < 0.1)
    True
    """

    mode: str = param("none", choices=CENTRES, refit=True, doc="The mean to subtract.")

    def fit(self, vectors: Vectors, texts: Texts | None = None) -> Self:
        """Learn the means.

        Parameters
        ----------
        vectors : ndarray of shape (n, dim)
            Vectors of the documents; zero rows do not count.
        texts : sequence of str, optional
            The documents; needed for ``mode="language"``.
        """
        self.check_params()
        full = np.asarray(vectors, dtype=np.float32)
        live = np.asarray(full.any(axis=1))
        common = _mean(full, live, np.zeros(full.shape[1]))
        if self.mode == "none":
            common = np.zeros(full.shape[1])
        self.means_ = np.tile(common, (3, 1))
        if self.mode == "language":
            script = self._scripts(texts, len(full))
            for script_number in (_LATIN, _CYRILLIC):
                self.means_[script_number] = _mean(full, np.logical_and(live, script == script_number), common)
        return self

    def transform(self, vectors: Vectors, texts: Texts | None = None) -> Vectors:
        """`vectors` without their mean, as unit rows; zero rows stay zero.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ParameterError
            For ``mode="language"`` without one text per vector.
        """
        if not hasattr(self, "means_"):
            raise NotFittedError("Centring: expected fit(vectors) before transform.")
        if not self.means_.any():
            return vectors
        if self.mode == "language":
            means = self.means_.astype(np.float32)[self._scripts(texts, len(vectors))]
        else:
            means = self.means_[:1].astype(np.float32)
        live = vectors.any(axis=1, keepdims=True)
        return unit_rows(np.where(live, vectors - means, np.float32(0)))

    def _scripts(self, texts: Texts | None, n: int) -> NDArray[np.int64]:
        if texts is None or len(texts) != n:
            came = "none" if texts is None else str(len(texts))
            raise ParameterError(f"Centring: mode 'language' needs one text a vector, {n}. Got {came}.")
        return scripts(texts)


def scripts(texts: Texts) -> NDArray[np.int64]:
    """The script of each text: 0 if most letters are Latin, 1 if most are Cyrillic (or a tie), 2 if it has neither.

    >>> scripts(["hello", "привет, мир", "2025"]).tolist()
    [0, 1, 2]
    """
    latin, cyrillic = _letters(as_texts(texts))
    return np.where(latin + cyrillic == 0, _OTHER, np.where(cyrillic >= latin, _CYRILLIC, _LATIN)).astype(np.int64)


def _letters(texts: list[str]) -> NDArray[np.int64]:
    """The number of Latin and Cyrillic letters of each text, shape (2, n)."""
    if len(texts) <= _FEW and all(map(_PLAIN.fullmatch, texts)):
        return np.array([[len(letters.findall(text)) for text in texts] for letters in _PLAIN_LETTERS])
    return of_characters(texts, len(texts), [r"\p{Latin}", r"\p{Cyrillic}"])


def _mean(vectors: Vectors, chosen: NDArray[np.bool_], fallback: NDArray[Any]) -> NDArray[Any]:
    return vectors[chosen].mean(axis=0, dtype=np.float64) if chosen.sum() >= MIN_ROWS else fallback


# Below this share of allowed rows a copy of them is cheaper than a selector that is asked about every row.
_COPY_BELOW = 0.1
_FEW_SCORES = 100_000
"""As many as one question has over all rows that are searched exactly by default: FAISS is no faster, and its import
takes 35 ms.
"""
_AT_ONCE = 1_000_000  # pairs that are asked at a time, as each of them may be found
Bits = NDArray[np.uint8]


def _faiss() -> Any:
    """FAISS, loaded at its first use; its partial types describe other versions."""
    import faiss

    return faiss


def exact(queries: Vectors, vectors: Vectors, k: int, mask: Mask | None) -> Ints:
    """The `k` best rows of each query; `k` is at most the number of allowed rows, so no row is -1."""
    # Rows come in no order: `Nearest` sorts them by their exact cosines.
    if len(queries) * len(vectors) <= _FEW_SCORES:
        scores = np.where(True if mask is None else mask, queries @ vectors.T, -np.inf)
        return np.argpartition(scores, -k, axis=1)[:, -k:]
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


# FAISS's own M; the other two are guesses that a test holds: 95 of 100 nearest rows are found.
M, EF_CONSTRUCTION, EF_SEARCH = 32, 120, 128
"""HNSW's graph neighbours per row, and the rows looked at while a row is added and while a query is searched."""
# A guess that the same test holds.
NPROBE = 64
"""IVF's lists that a search reads."""


def build_hnsw(vectors: Vectors) -> Any:
    """An HNSW index, built on one thread to be deterministic."""
    faiss = _faiss()
    # Numbers of two bytes halve the memory, and cost nothing: what is found is scored again in double precision.
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
    # The fewest of the 4 to 16 roots of n that FAISS's guide names.
    lists = max(1, min(int(4 * np.sqrt(n)), n // 39))  # k-means warns below 39 points a centre
    # FAISS does not keep what it is given alive, so Python has to: hence `referenced_objects`.
    quantizer, half = faiss.IndexFlatIP(dim), faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexIVFScalarQuantizer(quantizer, dim, lists, half, faiss.METRIC_INNER_PRODUCT, False)
    index.own_fields = False
    index.referenced_objects = [quantizer]
    index.cp.seed = 0
    # A quarter of the vectors that FAISS would look at for each list, so a quarter of the time of k-means.
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
        # HNSW returns no more rows than it looks at.
        settings = faiss.SearchParametersHNSW(efSearch=max(EF_SEARCH, 2 * k), **chosen)
    rows: Ints = index.search(queries, k, params=settings)[1]
    return rows


def write(index: Any, path: Path) -> None:
    """Write an approximate index to a file."""
    _faiss().write_index(index, str(path))


def read(path: Path) -> Any:
    """An index that `write` wrote."""
    return _faiss().read_index(str(path))


# Single precision and other orders of a sum differ from the seventh digit on; ties must be the same everywhere.
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


MAX_PAIRS = 50_000_000  # of 24 bytes each: 1.2 GB

_MARGIN = 1e-5  # more than single precision loses, so that no pair is missed before it is scored in double
_ROUNDING = 1e-6
_SMALL = 1024  # rows; groups up to this size are multiplied many at a time
# A block of products takes 8 MB, whatever the number of rows.
_ROWS, _COLUMNS = 512, 4096
_WAVE = 4  # strips a thread between two looks at how many pairs there are
_BATCH = 1 << 23  # numbers in a batch of small groups
_SAMPLE = 1024  # rows by which the axes are chosen that tell the most
_DENSE = 0.01  # share of a block's bounds that pass, above which the block is multiplied in full

Pairs = tuple[Ints, Ints, NDArray[np.float64]]
Wanted = Callable[[Ints, Ints], Mask]
"""Says of pairs of rows which of them count."""


def near_pairs(
    vectors: NDArray[Any],
    threshold: float,
    groups: Ints | None = None,
    wanted: Wanted = lambda i, j: np.ones(len(i), bool),
) -> Pairs:
    """Every pair of rows of one group whose cosine is at least `threshold`.

    Parameters
    ----------
    vectors : ndarray of shape (n, dim)
        Any lengths; a zero row is near nothing.
    threshold : float, cosine in (0, 1]
    groups : ndarray of int64, shape (n,), optional
        Only rows of equal group are compared.
    wanted : callable, optional
        ``wanted(i, j)`` says which pairs of rows count; the others are neither scored nor kept.

    Returns
    -------
    tuple of ndarray
        i, j (int64, i < j), cosine (float64, rounded to 6 digits, so equal rows have 1.0); sorted by i, j.

    Raises
    ------
    MemkitError
        For NaN or infinity in `vectors`, or more than `MAX_PAIRS` pairs.

    Examples
    --------
    >>> [side.tolist() for side in near_pairs(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), 0.9)]
    [[0], [1], [1.0]]
    """
    array = np.asarray(vectors)
    unit = unit_rows(check_block(array, range(len(array)), "near_pairs"))
    live = np.flatnonzero(unit.any(axis=1))
    codes = np.zeros(len(unit), np.int64) if groups is None else groups
    blocks = _bounded(_grouped(unit, live, codes, float(threshold), wanted))
    nothing = *np.empty((2, 0), np.int64), np.empty(0)
    i, j, cosine = (np.concatenate(part) for part in zip(nothing, *blocks, strict=True))
    order = np.lexsort((j, i))
    return i[order], j[order], cosine[order]


def near_of(vectors: NDArray[Any], i: Ints, j: Ints, threshold: float) -> Pairs:
    """Those of some pairs of rows whose cosine is at least `threshold`, scored as by `near_pairs`."""
    unit = unit_rows(check_block(np.asarray(vectors), range(len(vectors)), "near_of"))
    return _scored(unit, i, j, threshold)


def _bounded(blocks: Iterator[Pairs]) -> Iterator[Pairs]:
    total = 0
    for pairs in blocks:
        total += len(pairs[0])
        if total > MAX_PAIRS:
            raise MemkitError(
                f"near_pairs: more than {MAX_PAIRS:,} pairs. Raise the threshold, or drop equal texts first."
            )
        yield pairs


def _grouped(unit: Vectors, live: Ints, codes: Ints, threshold: float, wanted: Wanted) -> Iterator[Pairs]:
    rows = live[np.argsort(codes[live], kind="stable")]  # stable: rows rise within a group, so i < j
    starts = np.flatnonzero(np.r_[True, np.diff(codes[rows]) != 0]) if len(rows) else np.empty(0, dtype=np.int64)
    sizes = np.diff(np.r_[starts, len(rows)])
    for group in np.flatnonzero(sizes > _SMALL):
        yield from _pairs_within(unit, rows[starts[group] : starts[group] + sizes[group]], threshold, wanted)
    small = np.flatnonzero((sizes > 1) & (sizes <= _SMALL))
    yield from _small_groups(unit, rows, starts[small], sizes[small], threshold, wanted)


def _small_groups(
    unit: Vectors, rows: Ints, starts: Ints, sizes: Ints, threshold: float, wanted: Wanted
) -> Iterator[Pairs]:
    """Groups of like size as one batch of products, the shorter ones filled up with a repeated row."""
    batches = list(_batches(unit.shape[1], rows, starts, sizes))
    blocks = ((unit[members], some, threshold) for members, some in batches)
    for (members, _), (group, a, b) in zip(batches, results(_products, blocks), strict=True):
        i, j = members[group, a], members[group, b]
        counts = wanted(i, j)
        yield _scored(unit, i[counts], j[counts], threshold)


def _batches(dim: int, rows: Ints, starts: Ints, sizes: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The rows of some groups, a group a line, and how many there are of each."""
    order = np.argsort(sizes, kind="stable")
    done = 0
    while done < len(order):
        widest = int(sizes[order[min(done + max(1, _BATCH // (_SMALL * dim)), len(order)) - 1]])
        some = order[done : done + max(1, _BATCH // (widest * max(widest, dim)))]
        done += len(some)
        place = np.minimum(np.arange(int(sizes[some[-1]])), sizes[some, None] - 1)
        yield rows[starts[some, None] + place], sizes[some]


def _products(block: Vectors, sizes: Ints, threshold: float) -> tuple[Ints, Ints, Ints]:
    """Group and places of the pairs that may be near, on one thread."""
    with one_thread():
        products = np.matmul(block, block.transpose(0, 2, 1))
    # One flat look is twice as fast as one in three dimensions.
    group, a, b = np.unravel_index(np.flatnonzero(products.ravel() >= threshold - _MARGIN), products.shape)
    kept = (a < b) & (b < sizes[group])
    return group[kept], a[kept], b[kept]


def _pairs_within(unit: Vectors, rows: Ints, threshold: float, wanted: Wanted) -> Iterator[Pairs]:
    """Strips of the product, a thread each: the linear algebra's own threads wait for each other at every block."""
    full = unit if len(rows) == len(unit) else unit[rows]
    with one_thread():
        short = _shortened(full, threshold)
    tops = range(0, len(full), _ROWS)
    workers = cores()
    with ThreadPoolExecutor(workers) as pool:
        for start in bar("near vectors", range(0, len(tops), _WAVE * workers), leave=False):
            some = tops[start : start + _WAVE * workers]
            with one_thread():
                strips = list(pool.map(lambda top: _strip(full, short, rows, top, threshold, wanted), some))
            yield from (pairs for strip in strips for pairs in strip)


def _strip(full: Vectors, short: Vectors, rows: Ints, top: int, threshold: float, wanted: Wanted) -> list[Pairs]:
    """The pairs of `_ROWS` rows from `top` with all rows after them."""
    cut, pairs = threshold - _MARGIN, []
    across = short[top : top + _ROWS]
    bounds = np.empty((_ROWS, _COLUMNS), dtype=np.float32)
    for left in range(top, len(full), _COLUMNS):
        down = short[left : left + _COLUMNS]
        out = np.matmul(across, down.T, out=bounds[: len(across), : len(down)])
        # Two flat looks take half the time of one at the maximum and one in two dimensions.
        a, b = np.divmod(np.flatnonzero(out.ravel() >= cut), len(down))
        if short is not full and len(a) > _DENSE * out.size:
            a, b = np.nonzero(full[top : top + _ROWS] @ full[left : left + _COLUMNS].T >= cut)
        above = a + top < b + left
        a, b = a[above] + top, b[above] + left
        counts = wanted(rows[a], rows[b])
        pairs.append(_scored(full, a[counts], b[counts], threshold))
    return [(rows[i], rows[j], cosine) for i, j, cosine in _bounded(iter(pairs))]


def _shortened(full: Vectors, threshold: float) -> Vectors:
    """Rows whose inner products bound those of `full` from above, with fewer columns; `full` where none help."""
    n, dim = full.shape
    # A guess: of fewer rows the axes and their trial may take what they save.
    if n <= 2 * _SAMPLE:
        return full
    sample = np.ascontiguousarray(full[:: n // _SAMPLE][:_SAMPLE])
    _, axes = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    axes = np.ascontiguousarray(axes[:, ::-1], dtype=np.float32)  # largest first
    # Fewest first: an eighth of the columns takes an eighth of the products, if it rules out enough.
    for kept in (dim // 8, dim // 4, dim // 2):
        if kept:
            some = _bound_rows(sample, axes[:, :kept])
            # Every row meets itself, hence the 2: other pairs must be rare.
            if np.count_nonzero(some @ some.T >= threshold - _MARGIN) < 2 * len(some):
                return _bound_rows(full, axes[:, :kept])
    return full


def _bound_rows(rows: Vectors, axes: Vectors) -> Vectors:
    kept = rows @ axes
    # A root near 0 magnifies what single precision lost below it: the slack keeps the bound above.
    rest = np.sqrt(np.maximum(0.0, 1.0 - np.einsum("ij,ij->i", kept, kept)) + _ROUNDING)
    return np.hstack([kept, rest[:, None]]).astype(np.float32)


def _scored(unit: Vectors, i: Ints, j: Ints, threshold: float) -> Pairs:
    """Pairs that reach the threshold in double precision."""
    cosine = np.empty(len(i))
    # Each pair has two rows, each in single and in double precision.
    step = max(1, _BATCH // (4 * unit.shape[1]))
    for start in range(0, len(i), step):
        some = slice(start, start + step)
        cosine[some] = cosines(unit[i[some], None], unit[j[some], None])[:, 0, 0]
    kept = cosine >= threshold
    return i[kept], j[kept], cosine[kept]
