"""The dense arm: the chunks nearest to a query, by cosine.

Every score is a cosine in [-1, 1], computed again in double precision on the full vectors and rounded to
`SCORE_DIGITS`, so that neither the batch nor the index changes a score, and equal texts tie. A row without content (a
zero vector) ranks after all others; a query without content finds nothing.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.base.checked import Kinds, with_fields
from memkit.base.hashes import digest_of_rows
from memkit.base.params import Estimator, estimator, param, path_of
from memkit.errors import DamagedIndexError, NotFittedError, ParameterError, StaleIndexError
from memkit.index import ann as faiss_index
from memkit.index import store
from memkit.index.ann import CENTRES, SCORE_DIGITS, STEP, Centring, Nearest
from memkit.index.arm import Abilities, Turns, means_in_turns
from memkit.index.cache import VectorCache, shared_cache
from memkit.index.encode import as_encoder, check_given, for_corpus, loaded_encoder, needs_naming
from memkit.index.encoders.base import Calibration, Texts, Vectors, as_texts, check_block, is_unit, unit_rows
from memkit.index.postings import CANDIDATES, check_chunks
from memkit.schemas import Mask
from memkit.tables.untrusted import read_json

ANN: tuple[str, ...] = ("auto", "exact", "hnsw", "ivf")
MANIFEST = "dense.json"
_PREFIX = "dense-"
_AT_ONCE = 16  # queries whose cosines to all chunks are in memory: 64 bytes a chunk
_VERSION = 1
_FIELDS: Kinds = {"version": int, "fingerprint": str, "shape": list, "ids": str, "content": str, "params": dict}
_FIELDS = {**_FIELDS, "files": dict, "encoder": str | None}


@estimator
class Dense(Estimator, Abilities):
    """Nearest neighbours by cosine: exact up to `exact_up_to` rows, with a FAISS index (HNSW or IVF) beyond.

    An exact search of 100,000 rows takes some 15 to 30 ms alone and 2 to 5 ms in a batch. HNSW takes 1 ms, and minutes
    to build. IVF builds several times faster and has a somewhat lower recall. A filter that leaves at most
    `exact_up_to` rows is always searched exactly.

    Attributes
    ----------
    encoder_ : Encoder
    vectors_ : ndarray of float32, shape (n_chunks, dim)
        Unit rows, mean-centred if `centre` says so; zero rows for chunks without content.
    index_ : faiss.Index or None
        None if every search is exact.

    Examples
    --------
    >>> chunks = pa.table({"chunk_id": ["a@0", "b@0"]})
    >>> arm = Dense(encoder="hash").fit(chunks, ["connection pool", "пул соединений"])
    >>> arm.candidates(["пулы"], n=1).to_pydict()["row"]
    [1]
    """

    lends = True
    background_: Vectors | None = None
    """A sample of the vectors of all shards (buckets); None: rows of its own are taken."""

    encoder: Any = param("use", kind="object", refit=True, doc="An encoder, or anything `as_encoder` accepts.")
    ann: str = param("auto", choices=ANN, refit=True, doc="auto: exact up to exact_up_to rows, hnsw beyond.")
    centre: str = param("none", choices=CENTRES, refit=True, doc="Mean-centering: the mean to subtract from vectors.")
    # A question by words and vectors took 11 ms here, where an index of a million takes 228 s to fit.
    exact_up_to: int = param(100_000, low=0, refit=True, unit="rows", doc="Largest set of rows searched exactly.")

    def fit(
        self, chunks: pa.Table, texts: Texts, *, vectors: Vectors | None = None, cache: VectorCache | None = None
    ) -> Self:
        """Encode and index.

        Parameters
        ----------
        chunks : pa.Table
            With a column ``chunk_id``; row numbers of results point here.
        texts : sequence of str
            The searched text of each chunk.
        vectors : ndarray of shape (n_chunks, dim), optional
            Vectors of the same encoder, not centred, in place of encoding.
        cache : VectorCache, optional
            The cache of document and query vectors; the process's own by default.

        Raises
        ------
        ParameterError
            For a parameter outside of its declaration, or lengths that differ.
        MemkitError
            If the encoder fails; the arm keeps its former fit.
        """
        self.check_params()
        listed = as_texts(texts)
        check_chunks(chunks, listed)
        cache = shared_cache() if cache is None else cache
        encoder = for_corpus(as_encoder(self.encoder), listed)
        raw = cache.encode(encoder, listed) if vectors is None else _checked_vectors(vectors, len(listed))
        centring = Centring(mode=self.centre).fit(raw, listed)
        unit = centring.transform(raw, listed)
        index = self._build(unit)
        self.encoder_, self.cache_, self.centring_, self.vectors_, self.index_ = encoder, cache, centring, unit, index
        self._fitted_to(chunks, texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else listed)
        return self

    def updated(
        self, former_row: NDArray[np.int64], chunks: pa.Table, texts: pa.Array | pa.ChunkedArray
    ) -> Self | None:
        """A copy fitted to `texts` that encodes only the texts of new rows; parameters as for lexical arms.

        None, as a full fit is needed, if the encoder learns from the corpus, vectors are centred, or an approximate
        index is built.
        """
        encoder, n = as_encoder(self.encoder), len(self.vectors_)
        # With a mean to subtract or a graph, a new row changes what the old ones have.
        is_same = not getattr(encoder, "refitted", False) and encoder.fingerprint == self.fingerprint_
        if not n or not is_same or self.centre != "none" or self._is_approximate(len(former_row)):
            return None
        arm, vectors = copy.copy(self), np.empty((len(former_row), self.vectors_.shape[1]), np.float32)
        np.take(self.vectors_, former_row, axis=0, out=vectors, mode="clip")
        if (new := former_row >= n).any():
            vectors[new] = self.cache_.encode(encoder, as_texts(texts.filter(pa.array(new))))
        arm.encoder_, arm.vectors_, arm.index_ = encoder, vectors, None
        arm._fitted_to(chunks, texts)
        return arm

    def candidates(self, queries: Texts | Vectors, n: int, allowed: Mask | None = None) -> pa.Table:
        """The best rows of each query.

        Parameters
        ----------
        queries : sequence of str, or ndarray of shape (n_queries, dim)
            Vectors are normalised to unit length and not centred.
        n : int
            Most rows per query.
        allowed : ndarray of bool, shape (n_chunks,), optional
            Rows that may be found; the filter acts inside the search, so that n rows are found if there are n.

        Returns
        -------
        pa.Table
            query (int64), row (int64), score (float64, cosine); by query, then score falling, then row.

        Raises
        ------
        NotFittedError, ParameterError, MemkitError
        """
        self._check_fitted()
        vectors = self.encode_queries(queries)
        numbers = np.flatnonzero(vectors.any(axis=1))
        nearest = Nearest(self.vectors_, self.index_, self.exact_up_to)
        rows, scores = nearest.best(vectors[numbers], n, self._mask(allowed))
        if not rows.size:
            return CANDIDATES.empty_table()
        return self._with_empty_rows(numbers, rows, scores, n - rows.shape[1], allowed)

    @property
    def is_exact(self) -> bool:
        """Whether no approximate index is built."""
        return self.index_ is None

    def candidates_in_turns(
        self,
        queries: Texts | Vectors,
        n: int,
        allowed: Mask | None,
        turns: Turns,
        lending: Mask | None = None,
    ) -> pa.Table:
        """As `candidates`, with scores that are weighted means over a turn and its neighbours."""
        return means_in_turns(self, queries, n, allowed, turns, lending)

    def rough(self, queries: Texts | Vectors) -> Iterator[NDArray[np.float32]]:
        """For each query the cosine of every row, not rounded; 0 for rows and queries without content."""
        vectors = self.encode_queries(queries)
        for start in range(0, len(vectors), _AT_ONCE):
            yield from vectors[start : start + _AT_ONCE] @ self.vectors_.T

    def scale(self, queries: Texts | Vectors, background: NDArray[np.int64]) -> NDArray[np.float64]:
        """For each query the cosines that calibration maps to 0 and 1, given a sample of rows, `background`."""
        calibration = getattr(self.encoder_, "calibration", None)
        calibration = Calibration() if calibration is None or self.centre != "none" else calibration
        last_background, last_vectors, sample = vars(self).get("_sample", (None, None, self.background_))
        if self.background_ is None and (last_background is not background or last_vectors is not self.vectors_):
            self._sample = (background, self.vectors_, sample := self.vectors_[background])
        return calibration.scale(self.encode_queries(queries) @ sample.T).round(SCORE_DIGITS)

    def encode_queries(self, queries: Texts | Vectors) -> Vectors:
        """Encode `queries` (or take their vectors from the cache) and centre them; given vectors are as in fit."""
        self._check_fitted()
        if isinstance(queries, np.ndarray) and queries.dtype.kind in "fiu":
            dim = self.vectors_.shape[1]
            if queries.ndim != 2 or queries.shape[1] != dim or not np.isfinite(queries).all():
                raise ParameterError(
                    f"Dense.candidates: query vectors must be finite and of shape (n, {dim}). Got {queries.shape}."
                )
            return unit_rows(queries)
        vectors = self.cache_.encode(self.encoder_, as_texts(queries), "query")
        if vectors.shape[1] != self.vectors_.shape[1] and len(self.vectors_):
            raise StaleIndexError(
                f"expected {self.vectors_.shape[1]} dimensions, as in fit. Got {vectors.shape[1]} of"
                f" {self.encoder_.fingerprint}. Fit again."
            )
        return self.centring_.transform(vectors, queries)

    def check_rows(self, chunks: pa.Table, texts: Texts | None = None) -> None:
        """Raise if the vectors are not those of `chunks` and their `texts`.

        Raises
        ------
        StaleIndexError
            If rows were added, removed or moved, or a text changed, since `fit`.
        """
        self._check_fitted()
        n = len(self.vectors_)
        if chunks.num_rows != n or digest_of_rows(chunks["chunk_id"]) != self.digests_[0]:
            raise StaleIndexError(
                f"the vectors belong to other rows: expected the {n} chunks of fit, in their order. "
                f"Got {chunks.num_rows} chunks with other ids. Fit again."
            )
        if texts is not None and _digest(texts) != self.digests_[1]:
            raise StaleIndexError("the vectors belong to other texts: a text changed since fit. Fit again.")

    @cached_property
    def digests_(self) -> tuple[str, str]:
        """Hashes over the ids and the texts of the rows, for `check_rows` and `save`; computed on demand."""
        ids, texts = self._rows
        return digest_of_rows(ids), _digest(texts)

    def save(self, folder: Path | str) -> None:
        """Write vectors, FAISS index and manifest to `folder`.

        Files are named by their content, and the manifest is replaced last, atomically: a save that fails leaves the
        former one.
        """
        self._check_fitted()
        folder = path_of("save", folder)
        files = {"vectors": store.put(folder, ".npy", lambda path: store.save_array(path, self.vectors_), _PREFIX)}
        files["means"] = store.put(folder, ".npy", lambda path: store.save_array(path, self.centring_.means_), _PREFIX)
        if self.index_ is not None:
            files["index"] = store.put(folder, ".faiss", lambda p: faiss_index.write(self.index_, p), _PREFIX)
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "encoder"}
        manifest = {
            "version": _VERSION,
            "encoder": self.encoder if isinstance(self.encoder, str) else None,
            "fingerprint": self.fingerprint_,
            "shape": list(self.vectors_.shape),
            "ids": self.digests_[0],
            "content": self.digests_[1],
            "params": options,
            "files": files,
        }
        # The manifest after the files that it names and before old ones go: whatever it is cut off at, one whole index
        # is there.
        store.replace(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
        for old in set(folder.glob(f"{_PREFIX}*")) - {folder / name for name in [*files.values(), MANIFEST]}:
            old.unlink(missing_ok=True)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        encoder: Any = None,
        chunks: pa.Table | None = None,
        texts: Texts | None = None,
        cache: VectorCache | None = None,
        trust: bool = False,
    ) -> Self:
        """Read what `save` wrote; the folder need not be trusted.

        Parameters
        ----------
        encoder : Encoder or what `as_encoder` accepts, optional
            By default the saved name; needed if the arm was fitted with an object.
        chunks, texts : optional
            Compared with the rows of `fit`, see `check_rows`. An encoder that learns from a corpus is fitted to
            `texts` again.
        trust : bool
            Whether the folder is your own. Otherwise the address of an encoder's service in it is not used, the FAISS
            index, which only FAISS can check, is built again, and the vectors are not cached for other corpora.

        Raises
        ------
        DamagedIndexError
            If a file is missing, damaged, or not what memkit writes.
        StaleIndexError
            If the vectors do not fit the rows, or the encoder is another one.
        ParameterError
            If the encoder has to be passed.
        """
        folder = path_of("load", folder)
        manifest = _manifest(folder)
        spec = manifest["encoder"] if encoder is None else encoder
        if spec is None:
            raise ParameterError("Dense.load: the arm was fitted with an encoder object. Pass encoder=.")
        if encoder is None and (not trust or needs_naming(spec)):
            check_given(spec, "Dense.load")
        with store.checking(folder / MANIFEST):
            arm = cls(encoder=spec, **manifest["params"])
            arm.check_params()
        arm.encoder_ = loaded_encoder(spec, texts, manifest["fingerprint"])
        arm.cache_ = shared_cache() if cache is None else cache
        with store.checking(folder / MANIFEST):
            files = {key: store.get(folder, name, _PREFIX) for key, name in manifest["files"].items()}
        arm.vectors_ = store.load_array(files["vectors"], np.float32)
        arm.centring_ = Centring(mode=arm.centre)
        arm.centring_.means_ = store.load_array(files["means"], np.float64, columns=arm.vectors_.shape[1])
        arm.digests_, arm.fingerprint_ = (manifest["ids"], manifest["content"]), manifest["fingerprint"]
        # Three: of Latin, of Cyrillic and of other texts.
        if len(arm.centring_.means_) != 3 or not is_unit(arm.vectors_):
            raise DamagedIndexError(f"{MANIFEST}: expected three means and vectors of length 1. Fit and save again.")
        if list(arm.vectors_.shape) != manifest["shape"]:
            raise DamagedIndexError(f"{MANIFEST}: expected vectors and index of one size. Fit and save again.")
        arm.index_ = arm._loaded_index(files.get("index"), trust)
        arm._set_live()
        if chunks is not None:
            arm.check_rows(chunks, texts)
        if trust and texts is not None and arm.centre == "none":
            arm.cache_.put(arm.encoder_, texts, arm.vectors_)
        return arm

    def _loaded_index(self, path: Path | None, trust: bool) -> Any:
        """The FAISS index from its file, or built again; None if every search is exact."""
        if path is None:
            return None
        if not trust:
            warnings.warn(
                "Dense.load: the saved FAISS index is built again from the vectors, as only FAISS could check its file."
                " Pass trust=True if it is your own.",
                RuntimeWarning,
                stacklevel=3,
            )
            return self._build(self.vectors_)
        with store.checking(path):
            index = faiss_index.read(path)
            if (index.ntotal, index.d) != self.vectors_.shape:
                raise ValueError("vectors and index of one size")
        return index

    def _check_fitted(self) -> None:
        if not hasattr(self, "vectors_"):
            raise NotFittedError("Dense: expected fit(chunks, texts) first.")

    def _fitted_to(self, chunks: pa.Table, texts: Texts) -> None:
        self.fingerprint_, self._rows = self.encoder_.fingerprint, (chunks["chunk_id"], texts)
        self.__dict__.pop("digests_", None)  # of the rows before
        self._set_live()

    def _set_live(self) -> None:
        live: Any = self.vectors_.any(axis=1)
        self._live: Mask | None = None if live.all() else live

    def _is_approximate(self, n: int) -> bool:
        """Whether `n` rows get an approximate index."""
        return self.ann != "exact" and n > (self.exact_up_to if self.ann == "auto" else 0)

    def _build(self, vectors: Vectors) -> Any:
        if not self._is_approximate(len(vectors)):
            return None
        if self.ann == "ivf":
            return faiss_index.build_ivf(vectors)
        return faiss_index.build_hnsw(vectors)

    def _mask(self, allowed: Mask | None) -> Mask | None:
        if allowed is None:
            return self._live
        allowed = np.asarray(allowed)
        if allowed.dtype != np.bool_ or allowed.shape != (len(self.vectors_),):
            raise ParameterError(
                f"Dense.candidates: 'allowed' must be a boolean mask over {len(self.vectors_)} rows. "
                f"Got {allowed.dtype} of shape {allowed.shape}."
            )
        return allowed if self._live is None else np.logical_and(allowed, self._live)

    def _with_empty_rows(
        self,
        queries: NDArray[np.int64],
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        room: int,
        allowed: Mask | None,
    ) -> pa.Table:
        """Append empty rows if n leaves room, with a score below all others."""
        if self._live is not None and room > 0:
            empty = np.flatnonzero(~self._live if allowed is None else ~self._live & allowed)[:room]
            below = np.minimum(0.0, scores[:, -1:] - STEP).round(SCORE_DIGITS)
            rows = np.hstack([rows, np.tile(empty, (len(rows), 1))])
            scores = np.hstack([scores, np.tile(below, (1, len(empty)))])
        columns = [np.repeat(queries, rows.shape[1]), rows.reshape(-1), scores.reshape(-1)]
        return pa.table(columns, schema=CANDIDATES)


def _checked_vectors(vectors: Vectors, n: int) -> Vectors:
    array = np.asarray(vectors)
    if array.ndim != 2 or len(array) != n:
        raise ParameterError(f"Dense.fit: 'vectors' must be of shape ({n}, dim). Got {array.shape}.")
    return unit_rows(check_block(array, range(n), "given vectors"))


def _manifest(folder: Path) -> dict[str, Any]:
    with store.checking(folder / MANIFEST):
        manifest = with_fields(read_json(folder, MANIFEST), _FIELDS)
        if manifest["version"] != _VERSION:
            raise ValueError(f"no version {_VERSION}")
        if set(manifest["params"]) | {"encoder"} != set(Dense.params()):
            raise ValueError("other parameters")
        if not {"vectors", "means"} <= manifest["files"].keys() <= {"vectors", "means", "index"}:
            raise ValueError("other files")
    return manifest


def _digest(texts: Texts) -> str:
    return digest_of_rows(texts if isinstance(texts, pa.ChunkedArray) else as_texts(texts))


def saved_rows(folder: Path) -> Vectors:
    """The vectors that `Dense.save` wrote to `folder`, without their encoder."""
    vectors: Vectors = store.load_array(store.get(folder, _manifest(folder)["files"]["vectors"], _PREFIX), np.float32)
    return vectors
