"""Mean-centering of vectors, so that cosines spread out and languages become comparable.

Encoders put all texts of one language near one direction: in a mixed corpus a Russian query then finds Russian texts
only because they are Russian. Subtracting the mean of each language removes that direction.
"""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.params import Estimator, estimator, param
from memkit.errors import NotFittedError, ParameterError
from memkit.index.encoders.base import Texts, Vectors, as_texts, unit_rows
from memkit.text.letters import CYRILLIC_LETTERS

CENTRES = ("none", "corpus", "language")
_AT_ONCE = 1024
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
    known = as_texts(texts)
    counts = [_letters(known[start : start + _AT_ONCE]) for start in range(0, len(known), _AT_ONCE)]
    latin, cyrillic = np.concatenate([np.zeros((2, 0), np.int64), *counts], axis=1)
    return np.where(latin + cyrillic == 0, _OTHER, np.where(cyrillic >= latin, _CYRILLIC, _LATIN)).astype(np.int64)


def _letters(texts: list[str]) -> NDArray[np.int64]:
    """The number of Latin and Cyrillic letters of each text, shape (2, n); each character is looked up once."""
    if len(texts) <= _FEW and all(map(_PLAIN.fullmatch, texts)):
        return np.array([[len(letters.findall(text)) for text in texts] for letters in _PLAIN_LETTERS])
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.cumsum([0, *map(len, texts)])
    often = np.bincount(points)
    often[0xD800:0xE000] = 0  # halves of characters are no letters
    present = np.flatnonzero(often)
    characters = pa.array(map(chr, present.tolist()), pa.string())
    counts = []
    for pattern in (r"\p{Latin}", r"\p{Cyrillic}"):
        is_one = np.zeros(len(often), bool)
        is_one[present] = pc.match_substring_regex(characters, pattern).to_numpy(zero_copy_only=False)
        of_text = np.cumsum(np.take(is_one, points, mode="clip"), dtype=np.int32)
        counts.append(np.diff(np.append(0, of_text)[ends]))
    return np.stack(counts).astype(np.int64)


def _mean(vectors: Vectors, chosen: NDArray[np.bool_], fallback: NDArray[Any]) -> NDArray[Any]:
    return vectors[chosen].mean(axis=0, dtype=np.float64) if chosen.sum() >= MIN_ROWS else fallback
