"""The base of all encoders: clean texts go in, checked unit vectors come out, and a fingerprint identifies the weights.

A kind of encoder only says how one batch of clean texts becomes rows of numbers (`TextEncoder._embed`). The rest is
here, so that no kind can forget a NUL byte, a lone surrogate, a NaN or the order of its rows. A service that does not
answer is not called for a while, so that calls do not wait.

>>> circuits = Circuits(clock=iter([0.0, 1.0, 31.0]).__next__)
>>> circuits.open("tiny", "no connection")
>>> circuits.check("tiny")
Traceback (most recent call last):
memkit.errors.EncoderUnavailableError: no connection It is asked again in 29 s.
>>> circuits.check("tiny")
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it ships no types

from memkit.base.checked import without_surrogates
from memkit.base.hashes import digest, digest_of_path, key
from memkit.base.parallel import bar
from memkit.errors import EncoderUnavailableError, MemkitError, MissingExtraError, ParameterError

ROLES = ("query", "document")
Vectors = NDArray[np.float32]
Texts: TypeAlias = Sequence[str] | Any  # or an Arrow array of strings, which has no types

_UNIT_ROWS = 8192  # normalised at a time: double precision doubles the memory
_UNIT_ERROR = 1e-6  # a length in single precision is wrong by some 1e-7
SHORT_WORK = 16  # batches without a bar; the cache asks for so many at a time, for as many cores, and shows its own
# Without them a memory asked for by its own words counted 0 if it was the only one. They moved the mean nDCG@10 of the
# labelled sets by -.0004.
_PRIOR_TEXTS = 30
# Of equal texts it is 0, and every other text would be infinitely far.
_LEAST_DEVIATION = 0.005
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_FAR = 10.0  # deviations; a chunk asked for by its own text lies some 8 above the mean


def clean(text: str) -> str:
    """NFC without control characters and lone surrogates, which end or break texts in C libraries.

    >>> clean("a" + chr(0) + "b")
    'a b'
    """
    if text.isascii() and text.isprintable():
        return text
    whole = without_surrogates(_CONTROLS.sub(" ", text))
    return unicodedata.normalize("NFC", whole)


def content_key(text: str, role: str) -> bytes:
    """blake2b-128 over the role and the clean text.

    >>> content_key("a", "query") == content_key("a", "document")
    False
    """
    return key(f"{role}|{clean(text)}")


class Calibration(NamedTuple):
    """What a search needs of an encoder: the weights of the arms beside it, and its cosines to random texts.

    `alike` is the cosine from which single words of two languages mean the same; None where that is not known.
    """

    # What an encoder has that says nothing else: the figures of `use` on labelled sets.
    vector: float = 0.2
    bm25: float = 0.6
    gram: float = 0.2
    mean: float = 0.05
    deviation: float = 0.08
    alike: float | None = None

    def scale(self, cosines: Vectors) -> NDArray[np.float64]:
        """The cosines that count 0 and 1 for each query, shape (n_queries, 2), from its `cosines` to texts at random.

        0 is their mean, 1 lies ten deviations above. Both are drawn to what is stored, as if 30 more texts had been
        seen: of a few texts alone they would be chance.
        """
        values, number = cosines.astype(np.float64), cosines.shape[1] + _PRIOR_TEXTS
        mean = (values.sum(axis=1) + _PRIOR_TEXTS * self.mean) / number
        square = (np.square(values).sum(axis=1) + _PRIOR_TEXTS * (self.mean**2 + self.deviation**2)) / number
        deviation = np.maximum(np.sqrt(np.maximum(square - mean**2, 0.0)), _LEAST_DEVIATION)
        return np.stack([mean, mean + _FAR * deviation], axis=1)


class Encoder(Protocol):
    """An encoder turns texts into unit vectors; any object with these members is one.

    Attributes
    ----------
    dim : int
        The number of columns of every result.
    fingerprint : str
        Identity of the weights and options: equal fingerprints mean equal vectors.
    """

    @property
    def dim(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def encode_query(self, texts: Texts) -> Vectors:
        """float32 of shape (n_texts, dim), rows of length 1 or 0."""

    def encode_document(self, texts: Texts) -> Vectors:
        """float32 of shape (n_texts, dim), rows of length 1 or 0."""

    def get_config(self) -> dict[str, Any]:
        """The values that the fingerprint is made from, as JSON."""


class TextEncoder:
    """The base class of built-in encoders; subclasses set `kind` and write `_config` and `_embed`.

    Attributes
    ----------
    dedup_threshold : float or None
        Cosine from which two texts count as near-duplicates, where it was measured for this encoder.
    synonym_threshold : float or None
        Cosine from which two words count as synonyms, where it was measured for this encoder.
    activity_threshold : float or None
        The same for two English words in -ing.
    calibration : Calibration or None
        Weights and cosines, where they were measured for this encoder.
    refitted : bool
        True where the vector of a text depends on a fitted corpus.
    show_progress : bool
        Whether long work shows a bar (on a terminal or in a notebook).
    parallel : bool
        Whether batches go side by side in threads, one for each core.
    lasting : bool
        Whether the fingerprint means the same in another process, so that vectors may be kept on disk.
    """

    kind: ClassVar[str] = ""
    # A round number for encoders that say no better one.
    batch_size: ClassVar[int] = 256
    max_chars: ClassVar[int | None] = None
    parallel: ClassVar[bool] = False
    lasting: bool = True
    dedup_threshold: float | None = None
    synonym_threshold: float | None = None
    activity_threshold: float | None = None
    calibration: Calibration | None = None
    refitted: bool = False
    show_progress: bool = True

    @property
    def dim(self) -> int:
        """The number of columns of every result."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """``kind-`` and a hash over `get_config`."""
        return make_fingerprint(self.kind, self.get_config())

    def get_config(self) -> dict[str, Any]:
        """The values that the fingerprint is made from: kind, package version, weights, options."""
        return {"kind": self.kind, **self._config(), "max_chars": self.max_chars, "preprocessing": 1}

    def encode_query(self, texts: Texts) -> Vectors:
        """Vectors of queries.

        Parameters
        ----------
        texts : sequence of str
            Controls are blanked, lone surrogates replaced, NFC applied; blank texts become zero rows.

        Returns
        -------
        ndarray of float32, shape (n_texts, dim)
            Rows of length 1, or 0 for a text without content.

        Raises
        ------
        MemkitError
            Where the model gives NaN, infinity or a wrong shape; names the encoder and the position.
        """
        return self._encode(texts, "query")

    def encode_document(self, texts: Texts) -> Vectors:
        """Vectors of documents; parameters, result and errors as for `encode_query`."""
        return self._encode(texts, "document")

    def _config(self) -> dict[str, Any]:
        raise NotImplementedError

    def _embed(self, texts: list[str], role: str) -> Any:
        raise NotImplementedError

    def _clean(self, text: str) -> str:
        return clean(text)[: self.max_chars]

    def _encode(self, texts: Texts, role: str) -> Vectors:
        cleaned = [self._clean(text) for text in as_texts(texts)]
        filled = [i for i, text in enumerate(cleaned) if text.strip()]
        vectors: list[Vectors] = []
        silent = not self.show_progress or len(filled) <= SHORT_WORK * self.batch_size
        batches = [filled[start : start + self.batch_size] for start in range(0, len(filled), self.batch_size)]
        with bar(f"encoding ({self.kind})", silent=silent, total=len(filled), unit="text") as shown:
            blocks = self._blocks([[cleaned[i] for i in rows] for rows in batches], role)
            for rows, block in zip(batches, blocks, strict=True):
                vectors.append(unit_rows(check_block(np.asarray(block), rows, self.fingerprint)))
                shown.update(len(rows))
        # An adapter learns its dim from the first reply, so this comes after the batches.
        out = np.zeros((len(cleaned), vectors[0].shape[1] if vectors else self.dim), dtype=np.float32)
        if vectors:
            out[filled] = np.concatenate(vectors)
        return out

    def _blocks(self, batches: list[list[str]], role: str) -> Iterator[Any]:
        workers = min(cores(), len(batches)) if self.parallel else 1
        if workers <= 1:
            yield from (self._embed(texts, role) for texts in batches)
            return
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(lambda texts: self._embed(texts, role), batches)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint}>"


class UnsizedEncoder(TextEncoder):
    """An encoder whose number of dimensions is known from its first vectors; `_embed` stores it in `_dim`."""

    _dim: int | None = None

    @property
    def dim(self) -> int:
        """The number of columns of every result; encodes one text where it is not known yet."""
        if self._dim is None:
            self.encode_document(["memory"])
        return self._dim or 0


@functools.cache
def _libraries() -> Any:
    """The thread pools of the linear algebra libraries; cached, as finding them takes longer than a small product."""
    return ThreadpoolController()


class _OneThread:
    """Counts the callers that need the linear algebra on one thread; the last to leave restores the setting before."""

    lock = Lock()
    inside = 0
    cores = 1
    undo = ExitStack()


def cores() -> int:
    """The number of threads that the linear algebra may use, so that the user's limit holds."""
    with _OneThread.lock:
        if _OneThread.inside:
            return _OneThread.cores
        return max(
            (library["num_threads"] for library in _libraries().info() if library["user_api"] == "blas"), default=1
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep products on the calling thread, so that memkit's own threads take a core each.

    The linear algebra's own wait for each other at every product: on a busy machine 600 texts took them six times the
    processor time, and one query twenty times.
    """
    state, before = _OneThread, cores()
    with state.lock:
        if not state.inside:
            state.cores = before
            state.undo.enter_context(_libraries().limit(limits=1, user_api="blas"))
        state.inside += 1
    try:
        yield
    finally:
        with state.lock:
            state.inside -= 1
            if not state.inside:
                state.undo.close()


def as_texts(texts: Texts) -> list[str]:
    """`texts` as a list; a null is an empty text.

    Raises
    ------
    ParameterError
        For a single string, whose letters would each become a row, and for anything that is not a text.
    """
    if isinstance(texts, (str, bytes)):
        raise ParameterError(f"'texts' must be a sequence of texts. Got one {type(texts).__name__}: put it in a list.")
    values = texts.to_pylist() if isinstance(texts, (pa.Array, pa.ChunkedArray)) else list(texts)
    for position, value in enumerate(values):
        if not isinstance(value, str) and value is not None:
            raise ParameterError(f"'texts' must hold strings. Got {type(value).__name__} at position {position}.")
    return ["" if value is None else value for value in values]


def unit_rows(rows: NDArray[Any]) -> Vectors:
    """`rows` scaled to length 1, as contiguous float32; zero rows stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    unit = np.empty(rows.shape, dtype=np.float32)
    for start in range(0, len(rows), _UNIT_ROWS):
        exact = rows[start : start + _UNIT_ROWS].astype(np.float64)
        # Scaling by the largest part first keeps squares of tiny and huge rows within range.
        largest = np.abs(exact).max(axis=1, keepdims=True, initial=0.0)
        np.divide(exact, largest, out=exact, where=largest > 0)
        length = np.sqrt(np.einsum("ij,ij->i", exact, exact))[:, None]
        unit[start : start + _UNIT_ROWS] = np.divide(exact, length, out=exact, where=length > 0)
    return unit


def unit_means(vectors: NDArray[Any], group: NDArray[np.int64]) -> tuple[Vectors, NDArray[np.int64]]:
    """The mean of the vectors of each group, scaled to length 1, and the groups; `group` must rise.

    >>> means, groups = unit_means(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 3.0]]), np.array([4, 7, 7]))
    >>> means.tolist(), groups.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [4, 7])
    """
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return unit_rows(np.add.reduceat(vectors, starts, axis=0)), group[starts]


def is_unit(rows: NDArray[Any]) -> bool:
    """Whether every row has length 1, to single precision, or 0."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return bool(np.all((np.abs(length - 1) < _UNIT_ERROR) | (length == 0)))


def check_block(block: NDArray[Any], positions: Sequence[int], who: str) -> NDArray[Any]:
    """`block`, one finite row of numbers for each of `positions`.

    Raises
    ------
    MemkitError
        For a wrong shape, a type that is not a number, NaN or infinity.
    """
    if block.ndim != 2 or len(block) != len(positions) or block.dtype.kind not in "fiu":
        raise MemkitError(
            f"encoder {who}: expected numbers of shape ({len(positions)}, dim), a row a text. "
            f"Got {block.dtype} of shape {block.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
    if len(bad):
        raise MemkitError(
            f"encoder {who}: expected finite numbers. Got NaN or infinity for the text at position "
            f"{positions[bad[0]]} ({len(bad)} such texts in this batch). Nothing was indexed."
        )
    return block


def make_fingerprint(kind: str, config: dict[str, Any]) -> str:
    """A short name that changes when anything in `config` does."""
    text = json.dumps(config, sort_keys=True, ensure_ascii=True)
    return f"{kind}-{digest(text, 8)}"


def file_digest(path: Path) -> str:
    """blake2b-128 of a file's bytes, computed once per path, size and time of change."""
    status = path.stat()
    return _known_digest(path, status.st_size, status.st_mtime_ns)


# A round bound; few models are open in one process.
@functools.lru_cache(maxsize=64)
def _known_digest(path: Path, size: int, changed: int) -> str:
    return digest_of_path(path)


def package_folder(module: str, package: str, extra: str) -> Path:
    """Where an installed package lies.

    Raises
    ------
    MissingExtraError
        Where it is not installed; names memkit's extra.
    """
    spec = util.find_spec(module)
    if spec is None or spec.origin is None:
        raise MissingExtraError(package, extra)
    return Path(spec.origin).parent


def folder_digest(folder: Path) -> str:
    """Hash over the names and bytes of every file below `folder`."""
    parts = [
        f"{file.relative_to(folder).as_posix()}={file_digest(file)}"
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    ]
    return digest("\n".join(parts))


OPEN_SECONDS = 30.0
"""How long a service that could not be reached is not asked again."""
_UNREACHED = (ConnectionError, TimeoutError)


class Circuits:
    """The encoders that could not be reached lately, by fingerprint; cached vectors are found all the same.

    Parameters
    ----------
    clock : callable
        Seconds of a clock that nobody sets back; tests replace it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._opened: dict[str, tuple[float, str]] = {}

    @contextlib.contextmanager
    def guard(self, fingerprint: str, what: str = "encoder", expected: str = "vectors") -> Iterator[None]:
        """Run a call to the encoder (or `what` else), unless it could not be reached lately.

        Raises
        ------
        EncoderUnavailableError
            Where the encoder cannot be reached, now or lately.
        """
        self.check(fingerprint)
        try:
            yield
        except Exception as error:  # each client has errors of its own for a broken connection
            unavailable = _unavailable(error, f"{what} {fingerprint}: expected {expected}")
            if unavailable is None:
                raise
            self.open(fingerprint, str(unavailable))
            raise unavailable from error

    def open(self, fingerprint: str, why: str) -> None:
        """Open the circuit: do not call the encoder for `OPEN_SECONDS`."""
        self._opened[fingerprint] = (self._clock() + OPEN_SECONDS, why)

    def check(self, fingerprint: str) -> None:
        """Raise where the circuit is open.

        Raises
        ------
        EncoderUnavailableError
            With the reason of the last failure.
        """
        until, why = self._opened.get(fingerprint, (0.0, ""))
        if why and (seconds_left := until - self._clock()) > 0:
            raise EncoderUnavailableError(f"{why} It is asked again in {seconds_left:.0f} s.")


def _unavailable(error: BaseException, expected: str) -> EncoderUnavailableError | None:
    """`error` as `EncoderUnavailableError` where a broken connection or a time-out caused it."""
    if isinstance(error, EncoderUnavailableError):
        return error
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, _UNREACHED):
            return EncoderUnavailableError(f"{expected}. Got {type(error).__name__}: {error}.")
        behind = behind.__cause__ or behind.__context__
    return None


@dataclass
class Haste:
    """Whether the caller can do without vectors; a service that has answered in time is waited for."""

    answered: bool = False


_HASTE: ContextVar[Haste | None] = ContextVar("memkit_haste", default=None)


@contextlib.contextmanager
def in_haste() -> Iterator[None]:
    """In this block, a service gets one quick try until it has answered once."""
    before = _HASTE.set(Haste())
    try:
        yield
    finally:
        _HASTE.reset(before)


def is_hasty() -> bool:
    """Whether to try only once, and quickly."""
    haste = _HASTE.get()
    return haste is not None and not haste.answered


def note_answer() -> None:
    """Note that the service has answered, so that it is waited for from now on."""
    if haste := _HASTE.get():
        haste.answered = True


CIRCUITS = Circuits()
