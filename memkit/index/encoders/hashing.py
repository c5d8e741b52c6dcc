"""A stateless encoder of character n-grams: no model, no fit, for tests and as a floor in comparisons."""

from __future__ import annotations

import functools
from typing import Any

from memkit.index.encoders.base import TextEncoder

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
