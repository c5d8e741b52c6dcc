"""Encoders without a model, with nothing to download: latent semantic analysis of the corpus itself; hashed n-grams of
characters, for tests and as a floor in comparisons; and vectors of texts from the words that they share.

The last are for pictures and topics. `LsaEncoder` is for searching: it sees parts of words too, and encodes queries.
For a picture of the texts themselves stems alone keep as many neighbours, and take a tenth of the time
(tests/benchmarks/bench_map.py). Topics are worse by stems alone; with `letters` they are as good as by `LsaEncoder`, in
a quarter of the time for 785 memories and half for 10,000 (tests/benchmarks/bench_topics.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from memkit.base.hashes import digest
from memkit.base.params import check_value, current_names
from memkit.errors import NotFittedError
from memkit.index.encoders.base import TextEncoder, Texts, Vectors, as_texts
from memkit.index.postings import Postings
from memkit.schemas import Floats, Ints
from memkit.text.analyse import Texts as CountedTexts
from memkit.text.languages import CYRILLIC_LETTERS

_WORD = re.compile(r"\w+")
_CYRILLIC = re.compile(f"[{CYRILLIC_LETTERS}]")


class LsaEncoder(TextEncoder):
    """TF-IDF of stems and of character 3- to 5-grams, reduced by a truncated SVD.

    Level with BM25 within a language, nothing across languages. It is fitted to one corpus: a text's vector depends on
    the others, so `VectorCache` does not keep it, and the fingerprint holds a hash of the corpus.

    Parameters
    ----------
    dims : int
        Wished columns; a small corpus has fewer.
    random_state : int
        For the randomised SVD.

    Examples
    --------
    >>> encoder = LsaEncoder(dims=8).fit(["пул соединений", "кот спит", "connection pool", "a cat sleeps"])
    >>> encoder.encode_query(["коты спят"]).shape
    (1, 4)
    """

    kind = "lsa"
    refitted = True
    batch_size = 1024
    max_chars = 32_768

    @current_names
    # As many as were measured for speed: 1,460 texts a second. With 512, sentences had nDCG@10 of .80 beside .81 by
    # words.
    def __init__(self, dims: int = 256, random_state: int = 0) -> None:
        check_value("LsaEncoder", "dims", dims, "int", low=1)
        check_value("LsaEncoder", "random_state", random_state, "int", low=0)
        self.dims, self.random_state = dims, random_state

    def fit(self, texts: Texts) -> Self:
        """Learn vocabulary and axes.

        Raises
        ------
        ParameterError
            Where `texts` is not a sequence of strings.
        """
        listed = [self._clean(text) for text in as_texts(texts)]
        filled = [text for text in listed if _WORD.search(text)]  # an empty vocabulary is refused
        self._corpus = digest("\x00".join(listed))
        self._features, self._svd, self._dim = None, None, 1
        if filled:
            self._features = _features()
            weights = self._features.fit_transform(filled)
            self._svd, self._dim = _axes(weights, self.dims, self.random_state)
        return self

    @property
    def dim(self) -> int:
        self._check_fitted()
        return self._dim

    def _config(self) -> dict[str, Any]:
        self._check_fitted()
        return {
            "version": metadata.version("scikit-learn"),
            "dims": self.dims,
            "seed": self.random_state,
            "features": "tfidf of stems and char_wb 3-5",
            "corpus": self._corpus,
        }

    def _embed(self, texts: list[str], role: str) -> Any:
        self._check_fitted()
        if self._features is None:
            return np.zeros((len(texts), self._dim))
        weights = self._features.transform(texts)
        return weights.toarray() if self._svd is None else self._svd.transform(weights)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_dim"):
            raise NotFittedError("encoder lsa: expected fit(texts) first; it learns from the corpus.")


def _features() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

    words = TfidfVectorizer(analyzer=_Stems(), sublinear_tf=True)
    # The most frequent ones: a bound of the memory, and a round one.
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, max_features=200_000)
    return FeatureUnion([("stems", words), ("characters", letters)])


def _axes(weights: Any, dims: int, seed: int) -> tuple[Any, int]:
    """The fitted SVD and its columns; no SVD where the corpus has too few rows or terms for one."""
    from sklearn.decomposition import TruncatedSVD

    possible = min(dims, *weights.shape)
    if possible < 2:
        return None, weights.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):  # of equal texts no variance is explained
        svd = TruncatedSVD(possible, random_state=seed).fit(weights)
    return svd, possible


class _Stems:
    """Words, stemmed by their script; the stemmers are made anew after a pickle."""

    def __call__(self, text: str) -> list[str]:
        return [self._stem(word) for word in _WORD.findall(text.lower().replace("ё", "е"))]

    def _stem(self, word: str) -> str:
        if word not in self._known:
            stemmer = self._russian if _CYRILLIC.search(word) else self._english
            self._known[word] = stemmer.stemWord(word)
        return self._known[word]

    def __init__(self) -> None:
        import snowballstemmer

        self._known: dict[str, str] = {}
        self._russian, self._english = snowballstemmer.stemmer("russian"), snowballstemmer.stemmer("english")

    def __reduce__(self) -> tuple[type[_Stems], tuple[()]]:
        return _Stems, ()


# As measured: nDCG@10 of .73 on sentences where axes of the corpus itself have .80.
_DIM = 1024
_NGRAMS = (3, 5)


@functools.cache
def _vectoriser() -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(analyzer="char_wb", ngram_range=_NGRAMS, n_features=_DIM, norm="l2")


class HashEncoder(TextEncoder):
    """Character 3- to 5-grams within word borders, hashed into 1,024 dimensions.

    Examples
    --------
    >>> a, b = HashEncoder().encode_document(["память", "памяти"])
    >>> bool(a @ b > 0.4)
    True
    """

    kind = "hash"
    batch_size = 1024

    @property
    def dim(self) -> int:
        return _DIM

    def _config(self) -> dict[str, Any]:
        return {"dim": _DIM, "analyser": "char_wb", "ngrams": list(_NGRAMS)}

    def _embed(self, texts: list[str], role: str) -> Any:
        return _vectoriser().transform(texts).toarray()


# A map by 256 axes took 5.9 s in place of .15 and kept fewer of the nearest neighbours (21 % beside 27 %).
DIMENSIONS = 64
# The eigenvectors of n texts take n³. With 3,000, labelled requests got as good topics as with all.
_SAMPLE, _SAMPLE_OF_LETTERS = 1500, 3000
_LEAST = 1e-9  # of the largest eigenvalue; what is below is rounding
# Small beside any cosine of texts that share words; a guess.
_APART = 1e-3


def latent_vectors(texts: CountedTexts, dims: int = DIMENSIONS, letters: bool = False) -> Vectors:
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
    along = weights @ _main_axes(sample.astype(np.float64), dims).astype(np.float32)
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


def _main_axes(rows: Any, dims: int) -> Floats:
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
