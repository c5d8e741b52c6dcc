"""Vectors of texts from the words that they share, for pictures and topics: latent semantic analysis of stems.

`LsaEncoder` is for searching: it sees parts of words too, and encodes queries. For a picture of the texts themselves
stems alone keep as many neighbours, and take a tenth of the time (tests/benchmarks/bench_map.py). Topics are worse by
stems alone; with `letters` they are as good as by `LsaEncoder`, in a quarter of the time for 785 memories and half for
10,000 (tests/benchmarks/bench_topics.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from memkit.index.encoders.base import Vectors
from memkit.index.postings import Postings
from memkit.schemas import Floats, Ints
from memkit.text.occurrences import Texts

DIMENSIONS = 64
_SAMPLE, _SAMPLE_OF_LETTERS = 1500, 3000
_LEAST = 1e-9  # of the largest eigenvalue; what is below is rounding
_APART = 1e-3


def latent_vectors(texts: Texts, dims: int = DIMENSIONS, letters: bool = False) -> Vectors:
    """A vector of each text; near vectors for texts that share words, or words that occur together.

    The axes are those of the largest singular values of at most 1,500 texts (3,000 with `letters`), evenly drawn; cost
    is linear in the number of texts. A text without words has a row of zeros.

    Parameters
    ----------
    texts : sequence of str or Arrow array
    dims : int
        The most axes.
    letters : bool
        Whether parts of words, of 3 to 5 letters, count as much as stems do.

    Returns
    -------
    ndarray of float32, shape (n, at most dims + 1)
        The last column is small: what the axes leave out, so that a text with words of its own has a vector too.

    Examples
    --------
    >>> tea, also_tea, pool = latent_vectors(["зелёный чай", "чай с мёдом", "пул соединений"])
    >>> bool(tea @ also_tea > 0.1), bool(abs(tea @ pool) < 0.1)
    (True, True)
    """
    if letters:
        weights = _side_by_side(*(_weights(Postings.count(texts, one), _smooth_idf) for one in ("auto", "char")))
    else:
        weights = _weights(Postings.count(texts, "auto"), _bm25_idf)
    n = weights.shape[0]
    sample = weights[np.linspace(0, n - 1, min(_SAMPLE_OF_LETTERS if letters else _SAMPLE, n)).astype(np.int64)]
    along = weights @ _axes(sample.astype(np.float64), dims).astype(np.float32)
    unexplained = np.sqrt(np.clip(_squared_lengths(weights) - (along**2).sum(axis=1), 0, None))
    return np.column_stack([along, _APART * unexplained]).astype(np.float32)


def _bm25_idf(n: int, df: Ints) -> Floats:
    weights: Floats = np.log1p((n - df + 0.5) / (df + 0.5))
    return weights


def _smooth_idf(n: int, df: Ints) -> Floats:
    """As scikit-learn has it: frequent terms keep a weight, which large groups of texts share."""
    weights: Floats = 1 + np.log((1 + n) / (1 + df))
    return weights


def _side_by_side(stems: Any, grams: Any) -> Any:
    """Both as columns; rows have length 1 where they have any of both."""
    from scipy.sparse import hstack

    both = hstack([stems, grams], format="csr")
    both.data /= np.float32(np.sqrt(2))
    return both


def _weights(postings: Postings, idf_of: Callable[[int, Ints], Floats]) -> Any:
    """The texts by their terms: (1 + ln count) times the idf, of length 1."""
    from scipy.sparse import csc_array

    n, df = postings.n_rows, postings.document_frequency
    values = np.log(postings.counts, dtype=np.float32)
    values += 1
    values *= np.repeat(idf_of(n, df).astype(np.float32), df)
    # In place and as they lie: of the letters of 100,000 texts each copy takes some hundreds of megabytes.
    weights = csc_array((values, postings.rows, postings.offsets), (n, len(df))).tocsr()
    length = np.sqrt(_squared_lengths(weights))
    weights.data /= np.repeat(np.where(length > 0, length, 1).astype(np.float32), np.diff(weights.indptr))
    return weights


def _squared_lengths(weights: Any) -> Floats:
    squares = type(weights)((np.square(weights.data), weights.indices, weights.indptr), shape=weights.shape)
    lengths: Floats = squares.sum(axis=1)
    return lengths


def _axes(rows: Any, dims: int) -> Floats:
    """The right singular vectors of the largest singular values, shape (terms, at most dims), by those of the rows."""
    from scipy.linalg import eigh

    n = rows.shape[0]
    if not n or not rows.nnz:
        return np.zeros((rows.shape[1], 0))
    with threadpool_limits(1):  # sums of several threads would differ in the last digit
        values, sides = eigh((rows @ rows.T).toarray(), subset_by_index=[max(0, n - dims), n - 1])
    is_large = values > _LEAST * values[-1]
    axes: Floats = rows.T @ (sides[:, is_large] / np.sqrt(values[is_large]))
    return axes
