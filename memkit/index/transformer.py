"""Encoders inside scikit-learn: a transformer for Pipelines, grids and `clone`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from memkit.index.cache import shared_cache
from memkit.index.encode import as_encoder, for_corpus
from memkit.index.encoders.base import Texts, Vectors, as_texts


class TextVectors(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A column of texts to unit vectors.

    Parameters
    ----------
    encoder : Encoder or what `as_encoder` accepts
    role : {"document", "query"}

    Attributes
    ----------
    encoder_ : Encoder

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(TextVectors(encoder="hash"), LogisticRegression())
    >>> _ = model.fit(["пул соединений", "кот спит", "пулы", "коты"], ["db", "cat", "db", "cat"])
    >>> model.predict(["котик"]).tolist()
    ['cat']
    """

    def __init__(self, encoder: Any = "use", role: str = "document") -> None:
        self.encoder, self.role = encoder, role

    def fit(self, texts: Texts, y: object = None) -> Self:
        """Make the encoder; one that learns from a corpus learns from `texts`."""
        self.encoder_ = for_corpus(as_encoder(self.encoder), as_texts(texts))
        return self

    def transform(self, texts: Texts) -> Vectors:
        """float32 of shape (n_texts, dim)."""
        return shared_cache().encode(self.encoder_, as_texts(texts), self.role)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """``{kind}0``, ``{kind}1``, ... one for each dimension."""
        kind = self.encoder_.fingerprint.split("-")[0]
        return np.array([f"{kind}{i}" for i in range(self.encoder_.dim)], dtype=object)
