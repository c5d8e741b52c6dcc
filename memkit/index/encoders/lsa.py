"""Latent semantic analysis of the corpus itself: no model, no weights, nothing to download."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any, Self

import numpy as np

from memkit.base.hashes import digest
from memkit.base.params import check_value, current_names
from memkit.errors import NotFittedError
from memkit.index.encoders.base import TextEncoder, Texts, as_texts
from memkit.text.letters import CYRILLIC_LETTERS

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
