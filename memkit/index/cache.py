"""The cache of vectors, by the encoder's fingerprint, the role and a hash of the text.

A folder has one SQLite file (`memkit.index.shelf`) that all processes share. A changed model never gets old vectors, a
killed run loses at most its last batch, and a damaged vector is encoded again.

The process has one cache (`vector_cache`), by default in the user's cache folder.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from memkit.base.atomic import check_own, users_cache
from memkit.base.parallel import results
from memkit.base.params import check_choice, check_value, current_names
from memkit.base.progress import bar, heard
from memkit.errors import MemkitError, ParameterError
from memkit.index.encoders import base
from memkit.index.encoders.base import ROLES, Encoder, Texts, Vectors, as_texts, content_key
from memkit.index.encoders.circuit import CIRCUITS
from memkit.index.shelf import Key, Shelf

MAX_MEMORY = 512 << 20
MAX_DISK = 4 << 30
MANY_QUERIES = 16
"""So many queries are worth the reading of the folder: the model alone takes a second to load."""
_BATCH = 2048  # texts encoded between two writes at most: what an interrupted run can lose
_LONG = 60.0  # seconds of encoding from which a message says how long it takes
MODELS = "models"
"""The folder where an encoder may keep a converted model."""
_MODEL_FILES = f"{MODELS}/*/*.*"
_FORMER = f"*/{'[0-9a-f]' * 32}.parquet"
"""Files of earlier versions, before the SQLite file."""
_LOG = logging.getLogger("memkit")


class VectorCache:
    """A cache of vectors: only new texts are encoded.

    Parameters
    ----------
    folder : path, optional
        The folder on disk; None keeps vectors in memory only.
    max_memory, max_disk : int, bytes
        Bounds; in memory the least recently used vectors are dropped first, on disk the oldest.

    Examples
    --------
    >>> from memkit.index.encode import as_encoder
    >>> cache = VectorCache()
    >>> cache.encode(as_encoder("hash"), ["память", "память", "memory"]).shape
    (3, 1024)
    >>> cache.encoded
    2
    """

    def __init__(
        self, folder: Path | str | None = None, *, max_memory: int = MAX_MEMORY, max_disk: int = MAX_DISK
    ) -> None:
        check_value("VectorCache", "max_memory", max_memory, "int", low=0, unit="bytes")
        check_value("VectorCache", "max_disk", max_disk, "int", low=0, unit="bytes")
        self._folder = None if folder is None else Path(folder)
        self.max_memory, self.max_disk = max_memory, max_disk
        self.encoded = 0
        self._memory: OrderedDict[tuple[str, Key], Vectors] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def folder(self) -> Path | None:
        """The folder on disk; None if vectors are in memory only."""
        return self._folder

    @property
    def size(self) -> int:
        """Bytes on disk, with those of a converted model, which `max_disk` does not bound."""
        shelf = self._shelf
        beside = [*self._files(_MODEL_FILES), *self._files(_FORMER)]
        return (shelf.size if shelf else 0) + sum(path.stat().st_size for path in beside)

    @property
    def _shelf(self) -> Shelf | None:
        folder = self.folder
        return None if folder is None else Shelf(folder, self.max_disk)

    def clear(self) -> None:
        """Delete every vector, in memory and on disk.

        Examples
        --------
        >>> cache = VectorCache()
        >>> cache.clear()
        >>> cache.size
        0
        """
        with self._lock:
            self._memory.clear()
            self._bytes = 0
        if shelf := self._shelf:
            shelf.clear()
        for path in (*self._files(_MODEL_FILES), *self._files(_FORMER)):
            path.unlink(missing_ok=True)

    def forget(self, texts: Iterable[str]) -> None:
        """Delete the vectors of these texts, of every encoder and both roles, in memory and on disk.

        Examples
        --------
        >>> VectorCache().forget(["память"])
        """
        gone = {content_key(text, role) for text in texts for role in ROLES}
        with self._lock:
            for known in [known for known in self._memory if known[1] in gone]:
                self._bytes -= self._memory.pop(known).nbytes
        if shelf := self._shelf:
            shelf.forget(gone)
        for path in self._files(_FORMER):  # nobody reads them
            path.unlink(missing_ok=True)

    def _files(self, pattern: str) -> list[Path]:
        folder = self.folder
        return [] if folder is None else [*folder.glob(pattern)]

    def __repr__(self) -> str:
        folder = self.folder
        if folder is None:
            return "<VectorCache in memory>"
        return f"<VectorCache {folder}, {self.size / 2**20:.1f} of at most {self.max_disk >> 20} MiB>"

    def encode(self, encoder: Encoder, texts: Texts, role: str = "document", *, keep: bool | None = None) -> Vectors:
        """The vectors of `texts`, from the cache or encoded.

        Parameters
        ----------
        encoder : Encoder
            One that is refitted to each corpus is not cached, as its vectors depend on the corpus.
        role : {"document", "query"}
        keep : bool, optional
            Whether to use the folder; None: for documents, and for `MANY_QUERIES` or more, as of labels, which are
            asked again. A query alone is short, so that reading the folder would cost more than encoding.

        Returns
        -------
        ndarray of float32, shape (n_texts, dim)
        """
        check_choice("role", role, ROLES, "VectorCache.encode")
        listed = as_texts(texts)
        ask = _checked(encoder, role)
        if not listed or getattr(encoder, "refitted", False):
            return ask(listed)
        fingerprint = encoder.fingerprint
        keep = role == "document" or len(listed) >= MANY_QUERIES if keep is None else keep
        lasts = keep and getattr(encoder, "lasting", True)
        shelf = self._shelf if lasts else None
        keys = [content_key(text, role) for text in listed]
        missing = {key: text for key, text in zip(keys, listed, strict=True) if (fingerprint, key) not in self._memory}
        # What is found is held here: filling the memory may push other vectors of this very call out of it.
        known = {} if shelf is None else shelf.get(fingerprint, list(missing))
        todo = [key for key in missing if key not in known]
        if todo and role == "document" and (announce := getattr(encoder, "announce", None)):
            announce(len(todo))
        batches = _batches(todo, encoder)
        encoded = results(_encode, ((encoder, role, [missing[key] for key in batch]) for batch in batches))
        for batch, vectors in zip(batches, _with_progress(encoded, batches, encoder), strict=True):
            self.encoded += len(batch)
            known.update(zip(batch, map(np.copy, vectors), strict=True))
            if shelf is not None:
                self._keep(shelf, fingerprint, batch, vectors)
        return self._collect(fingerprint, keys, known, ask, listed)

    def new(self, encoder: Encoder, keys: Iterable[Key]) -> int:
        """How many documents `encode` would have to encode, by the hashes of their texts; none that it does not keep.

        Examples
        --------
        >>> from memkit.index.encode import as_encoder
        >>> cache, encoder = VectorCache(), as_encoder("hash")
        >>> _ = cache.encode(encoder, ["чай"])
        >>> cache.new(encoder, [content_key(text, "document") for text in ("чай", "кофе", "кофе")])
        1
        """
        if getattr(encoder, "refitted", False):
            return 0
        fingerprint = encoder.fingerprint
        missing = {key for key in keys if (fingerprint, key) not in self._memory}
        shelf = self._shelf if getattr(encoder, "lasting", True) else None
        return len(missing - shelf.known(fingerprint, list(missing)) if shelf else missing)

    def put(self, encoder: Encoder, texts: Texts, vectors: Vectors) -> None:
        """Add vectors of documents, those of `texts` row by row, that `encoder` made elsewhere."""
        if getattr(encoder, "refitted", False):
            return
        keys, fingerprint = [content_key(text, "document") for text in as_texts(texts)], encoder.fingerprint
        with self._lock:
            for key, vector in zip(keys, vectors, strict=True):
                self._remember(fingerprint, key, np.copy(vector))

    def __getstate__(self) -> dict[str, Any]:
        # What is in memory stays in its process, as does the lock.
        return {"folder": self.folder, "max_memory": self.max_memory, "max_disk": self.max_disk}

    def __setstate__(self, state: dict[str, Any]) -> None:
        VectorCache.__init__(self, **state)

    def _collect(
        self, fingerprint: str, keys: list[Key], known: dict[Key, Vectors], ask: Any, texts: list[str]
    ) -> Vectors:
        with self._lock:
            rows = [known[key] if key in known else self._memory.get((fingerprint, key)) for key in keys]
            for key in keys:
                if (fingerprint, key) in self._memory:
                    self._memory.move_to_end((fingerprint, key))
            for key, vector in known.items():
                self._remember(fingerprint, key, vector)
        gone = [i for i, row in enumerate(rows) if row is None]  # dropped by another thread meanwhile
        if gone:
            for i, vector in zip(gone, ask([texts[i] for i in gone]), strict=True):
                rows[i] = vector
        return np.stack(rows).astype(np.float32, copy=False)  # type: ignore[arg-type]  # no None is left

    def _remember(self, fingerprint: str, key: Key, vector: Vectors) -> None:
        if (fingerprint, key) not in self._memory:
            self._memory[fingerprint, key] = vector
            self._bytes += vector.nbytes
        while self._bytes > self.max_memory and self._memory:
            self._bytes -= self._memory.popitem(last=False)[1].nbytes

    def _keep(self, shelf: Shelf, fingerprint: str, keys: Sequence[Key], vectors: Vectors) -> None:
        shelf.put(fingerprint, keys, vectors)


def _batches(todo: list[Key], encoder: Encoder) -> list[list[Key]]:
    """Split `todo` into batches, the same for any number of processes, so that the encoder's batches are equal too."""
    step = min(_BATCH, base.SHORT_WORK * getattr(encoder, "batch_size", _BATCH))
    return [todo[start : start + step] for start in range(0, len(todo), step)]


def _encode(encoder: Encoder, role: str, texts: list[str]) -> Vectors:
    return _checked(encoder, role)(texts)


def _with_progress(encoded: Iterator[Vectors], batches: list[list[Key]], encoder: Encoder) -> Iterator[Vectors]:
    """`encoded`, with a progress bar for long work and a message for very long work."""
    begun, total = time.monotonic(), sum(map(len, batches))
    silent = not getattr(encoder, "show_progress", True)
    is_short = total <= getattr(encoder, "batch_size", 1)
    heard_of = 0

    def hear(what: str, done: int, of_step: int | None) -> None:
        nonlocal heard_of
        if done > heard_of:
            progress.update(done - heard_of)
        heard_of = done

    with bar(f"encoding ({encoder.fingerprint})", silent=silent or is_short, total=total, unit="text") as progress:
        for number in range(len(batches)):
            # A step is long: an encoder of memkit tells of each of the batches within it.
            heard_of = 0
            with heard(hear):
                vectors = next(encoded)
            hear("encoded", len(vectors), None)
            yield vectors
            if number == 0 and not silent:
                _warn_if_long(total, total - len(vectors), (time.monotonic() - begun) / len(vectors))


def _warn_if_long(texts: int, n_left: int, seconds_each: float) -> None:
    if n_left * seconds_each > _LONG:
        folder = shared_cache().folder
        later = f"What is done is kept in {folder}." if folder else "mk.vector_cache(folder) would keep them for later."
        minutes = max(1, round(n_left * seconds_each / 60))
        _LOG.warning("memkit: encoding %s texts takes some %d minutes here. %s", f"{texts:,}", minutes, later)


def _checked(encoder: Encoder, role: str) -> Callable[[list[str]], Vectors]:
    """The encoder's function for `role`, with its rows checked to be finite and normalised to length 1 or 0."""
    function = encoder.encode_query if role == "query" else encoder.encode_document

    def encode(texts: list[str]) -> Vectors:
        with CIRCUITS.guard(str(encoder.fingerprint)):
            rows = np.asarray(function(texts))
        block = base.check_block(rows, range(len(texts)), str(encoder.fingerprint))
        return np.ascontiguousarray(block, dtype=np.float32) if base.is_unit(block) else base.unit_rows(block)

    return encode


class _UsersCache(VectorCache):
    """The process's own cache, in the user's cache folder unless the environment or a call sets another."""

    moved = False
    _warned_of: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder ``vectors`` in ``$MEMKIT_CACHE``, else in ``memkit`` in the user's cache folder; None if off.

        It is also None if another user could write there; a message says so once.
        """
        cache = users_cache()
        folder = self._folder if self.moved else cache and cache / "vectors"
        try:
            for place in () if folder is None else (folder,) if self.moved else (folder.parent, folder):
                check_own(place)
        except (MemkitError, OSError) as error:
            self._warn_once(error)
            return None
        return folder

    def move(self, folder: Path | str | None) -> None:
        """Keep vectors in `folder` from now on; None: in memory only."""
        self._folder, self.moved = None if folder is None else Path(folder), True

    def _keep(self, shelf: Shelf, fingerprint: str, keys: Sequence[Key], vectors: Vectors) -> None:
        try:
            super()._keep(shelf, fingerprint, keys, vectors)
        except MemkitError as error:
            self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        if self._warned_of is None:
            self._warned_of = str(error)
            _LOG.warning("memkit: vectors are kept in memory alone: %s", error)


@functools.cache
def shared_cache() -> _UsersCache:
    """The process's own cache, which all estimators share."""
    return _UsersCache()


@current_names
def vector_cache(path: Path | str | None = None, *, off: bool = False) -> VectorCache:
    """The cache of vectors that Retriever, Deduplicator and ContextBuilder share; sets its folder if one is passed.

    The key is the encoder's fingerprint and a hash of the text, so a changed text or model never gets an old vector.
    The folder contains no texts, only its owner can read it, and it never grows beyond `VectorCache.max_disk`.

    Parameters
    ----------
    path : path, optional
        Keep vectors there from now on. The default is ``$MEMKIT_CACHE`` ("off" for none), else ``memkit`` in the user's
        cache folder.
    off : bool
        Keep vectors in this process's memory only from now on.

    Returns
    -------
    VectorCache
        Has ``folder``, ``size`` (bytes) and ``clear()``.

    Examples
    --------
    >>> import memkit as mk
    >>> mk.vector_cache().max_disk >> 30
    4
    """
    cache = shared_cache()
    if off and path is not None:
        raise ParameterError(f"vector_cache: expected a folder or off=True. Got both, {str(path)!r}.")
    if off or path is not None:
        cache.move(path)
    return cache
