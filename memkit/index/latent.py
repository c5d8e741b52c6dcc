"""Vectors of texts from the words that they share, for pictures: latent semantic analysis of stems.

`LsaEncoder` is for searching: it sees parts of words too, and encodes queries. For a picture of the texts themselves
stems alone keep as many neighbours, and take a tenth of the time (tests/benchmarks/bench_map.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from memkit.index.encoders.base import Vectors
from memkit.index.postings import Postings, Texts
from memkit.schemas import Floats

DIMENSIONS = 64
_SAMPLE = 1500
_LEAST = 1e-9
_APART = 1e-3


def latent_vectors(texts: Texts, dims: int = DIMENSIONS) -> Vectors:
    """A vector of each text; near vectors for texts that share words, or words that occur together.

    The axes are those of the largest singular values of at most 1,500 texts, evenly drawn; cost is linear in the number
    of texts. A text without words has a row of zeros.

    Parameters
    ----------
    texts : sequence of str or Arrow array
    dims : int
        The most axes.

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
    weights = _weights(Postings.count(texts, "auto"))
    n = weights.shape[0]
    sample = weights[np.linspace(0, n - 1, min(_SAMPLE, n)).astype(np.int64)]
    along = weights @ _axes(sample, dims)
    length = weights.power(2).sum(axis=1)
    unexplained = np.sqrt(np.clip(length - (along**2).sum(axis=1), 0, None))
    return np.column_stack([along, _APART * unexplained]).astype(np.float32)


def _weights(postings: Postings) -> Any:
    """The texts by their terms: (1 + ln count) times BM25's idf, of length 1."""
    from scipy.sparse import csr_array, diags_array

    n, df = postings.n_rows, postings.document_frequency
    idf = np.log1p((n - df + 0.5) / (df + 0.5))
    values = (1 + np.log(postings.counts, dtype=np.float64)) * np.repeat(idf, df)
    columns = np.repeat(np.arange(len(df)), df)
    weights = csr_array((values, (postings.rows, columns)), (n, len(df)))
    length = np.sqrt(weights.power(2).sum(axis=1))
    return (diags_array(1 / np.where(length > 0, length, 1)) @ weights).tocsr()


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
