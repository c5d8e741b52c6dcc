"""The layout of the map: a vector for each memory, and a point on a plane, near those of similar memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from memkit.base.hashes import checksum
from memkit.errors import MissingExtraError
from memkit.extend.showing import check_fitted
from memkit.extend.writing import check_choice
from memkit.index.ann import Nearest
from memkit.index.centre import Centring
from memkit.index.encoders.base import Vectors, as_texts, unit_means, unit_rows
from memkit.index.latent import latent_vectors
from memkit.schemas import Floats
from memkit.search.fitted.chunks import take_rows
from memkit.search.fitted.index import MemoryIndex

if TYPE_CHECKING:
    from memkit import Retriever

METHODS = ("tsne", "pca", "umap")
_LEAST = 10
"""t-SNE and UMAP look at neighbours, and have too few of them among fewer memories."""
_LANDMARKS, _NEAREST, _SHARPNESS = 1500, 5, 24
"""So many memories are placed by t-SNE, whose cost grows faster than they do; every other lies among so many of these,
the nearest ones, weighed by their cosine to this power."""
_NEIGHBOURS, _PERPLEXITY, _STEPS, _SEED = 15, 30, 300, 0


@dataclass(frozen=True)
class Layout:
    """The places of memories on a plane.

    Attributes
    ----------
    memories : pa.Table
        The memories that have a place, by memory_id; those without text have none.
    points : ndarray of float64, shape (n, 2)
        The axes have no meaning of their own.
    method : str
        One of `METHODS`.
    by : str
        What nearness means, in words.
    left_out : int
        How many memories have no text, and no place.
    """

    memories: pa.Table
    points: Floats
    method: str
    by: str
    left_out: int

    @property
    def table(self) -> pa.Table:
        """memory_id, x and y."""
        return pa.table({"memory_id": self.memories["memory_id"], "x": self.points[:, 0], "y": self.points[:, 1]})


def lay_out(search: Retriever, method: str = METHODS[0]) -> Layout:
    """Place each memory of a fitted Retriever on a plane, so that memories of like meaning lie close.

    A memory's vector is the mean of the vectors of its chunks. The mean of each language is subtracted, or memories
    would lie by language first. A search without vectors is laid out by words (latent semantic analysis of their
    stems). The same memories lie at the same places each time.

    Parameters
    ----------
    method : 'tsne', 'pca' or 'umap'
        t-SNE keeps neighbours together; it places 1,500 memories, and every other one among the five nearest of these.
        PCA keeps large distances, and few neighbours. UMAP is much like t-SNE, looks at all memories, takes minutes
        for 100,000 (and half a minute to compile, once a process), and needs the extra ``umap``. Below ten memories PCA
        is used.

    Raises
    ------
    NotFittedError, ParameterError
    MissingExtraError
        For ``method="umap"`` where it is not installed.

    Examples
    --------
    >>> import memkit as mk
    >>> texts = ["зелёный чай", "чай с мёдом", "пул соединений", "пул потоков"]
    >>> lay_out(mk.Retriever(encoder=None).fit(mk.from_table({"text": texts}))).by
    'by words, as the search has no vectors'
    """
    check_fitted("map", search)
    check_choice("projection", method, METHODS, "map")
    index = search.over_all().index_.whole
    of_chunks, by = _vectors(index)
    means, rows = unit_means(of_chunks, index.rows.memory)
    live = means.any(axis=1)
    vectors, rows = means[live], rows[live]
    memories = take_rows(index.memories, rows)
    centring = Centring(mode="language")
    texts = as_texts(memories["text"].fill_null(""))
    centred = centring.fit(vectors, texts).transform(vectors, texts)
    used = method if len(rows) >= _LEAST else "pca"
    points = _points(used, centred)
    return Layout(memories, points, used, by, index.memories.num_rows - len(rows))


def _vectors(index: MemoryIndex) -> tuple[Vectors, str]:
    """A vector of each chunk, and what it is made of: of the search's own encoder, else of the words of the corpus."""
    vectors = index.encoded()
    if vectors is not None:
        return vectors, "by meaning"
    why = "the search has no vectors" if index.settings.encoder is None else "the encoder is not installed"
    return latent_vectors(index.texts), f"by words, as {why}"


_placed: dict[tuple[str, bytes], Floats] = {}
_MOST_PLACED = 4


def _points(method: str, vectors: Vectors) -> Floats:
    """The places of vectors; the latest ones are kept, as a map is drawn again in other colours."""
    key = method, repr(vectors.shape).encode() + checksum(np.ascontiguousarray(vectors).tobytes())
    points = _placed.pop(key, None)
    points = _PLACED[method](vectors) if points is None else points
    _placed[key] = points
    for oldest in list(_placed)[:-_MOST_PLACED]:
        _placed.pop(oldest, None)
    return points.copy()


def _pca(vectors: Vectors) -> Floats:
    """The two main axes of vectors, exactly, their signs fixed."""
    from scipy.linalg import eigh

    n, dim = vectors.shape
    points = np.zeros((n, 2))
    if n < 2:
        return points
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    # Of both products the smaller one: their axes give each other.
    product = (centred @ centred.T if n < dim else centred.T @ centred).astype(np.float64)
    _, axes = eigh(product, subset_by_index=[max(0, len(product) - 2), len(product) - 1])
    main = unit_rows((centred.T @ axes if n < dim else axes).T[::-1])
    largest = np.abs(main).argmax(axis=1)
    main *= np.where(main[range(len(main)), largest] < 0, -1, 1)[:, None]
    points[:, : len(main)] = centred @ main.T
    return points


def _tsne(vectors: Vectors) -> Floats:
    """Landmarks by t-SNE; every other vector at the mean of its nearest landmarks, weighed by their likeness."""
    from sklearn.manifold import TSNE

    n = min(_LANDMARKS, len(vectors))
    chosen = np.linspace(0, len(vectors) - 1, n).astype(np.int64)
    landmarks = vectors[chosen]
    perplexity = min(_PERPLEXITY, (n - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="pca", max_iter=_STEPS, random_state=_SEED)
    # One thread: sums of several would differ in the last digit, and the places soon after. Threads that were loaded
    # within the limit would not be held by it.
    with threadpool_limits(1):
        places: Floats = np.asarray(tsne.fit_transform(landmarks), np.float64)
    if n == len(vectors):
        return places
    rows, likeness = Nearest(landmarks, None, 0).best(vectors, _NEAREST, None)
    # A cosine of 0 or below has no weight, and a row of such landmarks would have none to divide by.
    weights = np.clip(likeness, 1e-6, None) ** _SHARPNESS
    points: Floats = (places[rows] * (weights / weights.sum(axis=1, keepdims=True))[..., None]).sum(axis=1)
    points[chosen] = places
    return points


def _umap(vectors: Vectors) -> Floats:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtraError("umap-learn", "umap") from error
    neighbours = min(_NEIGHBOURS, len(vectors) - 1)
    reducer = UMAP(n_neighbors=neighbours, metric="cosine", init="pca", random_state=_SEED, n_jobs=1)
    points: Floats = np.asarray(reducer.fit_transform(vectors), np.float64)
    return points


_PLACED = {"tsne": _tsne, "pca": _pca, "umap": _umap}
