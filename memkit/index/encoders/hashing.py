"""A stateless encoder of character n-grams: no model, no fit, for tests and as a floor in comparisons."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.index.encoders.base import TextEncoder

_DIM = 1024
_NGRAMS = (3, 5)
_AT_ONCE = 1 << 16  # letters, so that working memory is some 10 MB
_FIRST, _SECOND, _ADDED = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)  # MurmurHash3's own
_MIXED = (np.uint32(16), np.uint32(0x85EBCA6B)), (np.uint32(13), np.uint32(0xC2B2AE35))


class HashEncoder(TextEncoder):
    """Character 3- to 5-grams within word borders, hashed into 1,024 dimensions.

    Its rows are those of scikit-learn's ``HashingVectorizer(analyzer="char_wb")``, whose import takes a second.

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
        ends = np.cumsum([len(text) for text in texts]) // _AT_ONCE
        starts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(texts)]
        return np.concatenate([_counts(texts[a:b]) for a, b in pairwise(starts)])


def _counts(texts: list[str]) -> NDArray[np.float64]:
    """For each text, how many of its n-grams fall into each dimension, those of a negative hash counted as minus one.

    A word is padded by a space on both sides; one that is shorter than n has no n-grams.
    """
    words = [text.lower().split() for text in texts]
    padded = "".join(f" {word} " for of_text in words for word in of_text)
    letters = np.frombuffer(padded.encode("utf-32-le"), np.uint32)
    bounds = np.zeros(len(letters) + 1, np.intp)
    np.cumsum(1 + (letters >= 0x80) + (letters >= 0x800) + (letters >= 0x10000), out=bounds[1:])
    lengths = np.array([len(word) + 2 for of_text in words for word in of_text], np.intp)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(letters))
    rows = np.repeat(np.repeat(np.arange(len(texts)), [len(of_text) for of_text in words]), lengths)
    utf8 = np.frombuffer(padded.encode() + bytes(4), np.uint8).astype(np.uint32)
    fours = utf8[:-3] | utf8[1:-2] << np.uint32(8) | utf8[2:-1] << np.uint32(16) | utf8[3:] << np.uint32(24)
    counts = np.zeros(len(texts) * _DIM)
    for n in range(_NGRAMS[0], _NGRAMS[1] + 1):
        first = np.flatnonzero(left >= n)
        hashes = _murmur(fours, bounds[first], bounds[first + n] - bounds[first]).view(np.int32).astype(np.int64)
        counts += np.bincount(rows[first] * _DIM + abs(hashes) % _DIM, np.where(hashes < 0, -1, 1), len(counts))
    return counts.reshape(len(texts), _DIM)


def _murmur(fours: NDArray[np.uint32], starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> NDArray[np.uint32]:
    """MurmurHash3 (32 bits, seed 0) of `sizes` bytes from `starts` on; `fours` has four bytes from each byte on."""
    hashes = np.zeros(len(starts), np.uint32)
    for block in range(int(sizes.max(initial=0)) // 4):
        long = np.flatnonzero(sizes >= 4 * (block + 1))
        mixed = _rotated(hashes[long] ^ _scrambled(fours[starts[long] + 4 * block]), 13)
        hashes[long] = mixed * np.uint32(5) + _ADDED
    rest = np.uint32(1) << (8 * (sizes % 4)).astype(np.uint32)
    hashes ^= _scrambled(fours[starts + sizes // 4 * 4] & (rest - np.uint32(1))) ^ sizes.astype(np.uint32)
    for bits, factor in _MIXED:
        hashes = (hashes ^ hashes >> bits) * factor
    return hashes ^ hashes >> _MIXED[0][0]


def _scrambled(block: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotated(block * _FIRST, 15) * _SECOND


def _rotated(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return values << np.uint32(bits) | values >> np.uint32(32 - bits)
