"""Clusters of vectors that do not depend on chance, and how sure they are.

K-means on unit vectors starts from a tree of Ward's method over a sample, so that no start is drawn. On labelled sets
it was ahead of HDBSCAN, which called most short texts noise (tests/benchmarks/bench_topics.py). Cost is linear in the
number of vectors; the sample bounds what is quadratic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from memkit.index.encoders.base import Vectors, unit_rows
from memkit.schemas import Floats, Ints

DIMENSIONS = 100
"""Principal components that are kept; fewer lose clusters, more change nothing (bench_topics)."""
SAMPLE = 2000
"""The most vectors of the tree, of the silhouette, and of each resample."""
MOST = 60
"""The most clusters that are tried; whoever wants more says how many."""
RESAMPLES = 30
"""Bootstrap resamples; a share of them is off by at most a tenth, as by 1 / (2 sqrt(30))."""
_ROUNDS = 50


@dataclass(frozen=True)
class Clusters:
    """A partition, and how it holds in resamples.

    Attributes
    ----------
    label : ndarray of int64, shape (n,)
        The cluster of each vector, from 0.
    centre : ndarray of float32, shape (k, dimensions)
    closeness : ndarray of float64, shape (n,)
        The cosine of each vector to the centre of its cluster.
    sure : ndarray of float64, shape (k,)
        The mean Jaccard similarity of each cluster to the most similar cluster of each resample; NaN for a single one.
    probability : ndarray of float64, shape (n,)
        The share of the resamples in which the vector is in the cluster most similar to its own.
    silhouette : dict of int to float
        The mean silhouette by number of clusters; empty if the number was given.
    """

    label: Ints
    centre: Vectors
    closeness: Floats
    sure: Floats
    probability: Floats
    silhouette: dict[int, float]


def most_clusters(n: int) -> int:
    """The most clusters that are tried for `n` vectors: the rule of thumb sqrt(n / 2), at most `MOST`.

    >>> [most_clusters(n) for n in (1, 8, 200, 100_000)]
    [1, 2, 10, 60]
    """
    return max(1, min(MOST, int((n / 2) ** 0.5)))


def cluster(vectors: Vectors, order: Ints, k: int | None, seed: int) -> Clusters:
    """Partition unit vectors into `k` clusters, or as many as have the best mean silhouette.

    Parameters
    ----------
    vectors : ndarray of float32, shape (n, dim)
    order : ndarray of int64, shape (n,)
        A permutation of the rows; the first `SAMPLE` of it are the sample.
    k : int or None
        At most the number of distinct vectors.
    seed : int
        Of the resamples.
    """
    with _one_thread():
        points = _reduced(vectors)
        sample = np.sort(order[:SAMPLE])
        distinct = len(np.unique(vectors, axis=0)) if k is None and len(vectors) <= SAMPLE else len(vectors)
        scores = {} if k is not None else _silhouettes(points[sample], min(most_clusters(len(points)), distinct))
        chosen = k if k is not None else max(scores, key=lambda number: (scores[number], -number), default=1)
        centre = _fitted(points, _centres(points[sample], chosen))
        label, closeness = nearest(points, centre)
        sure, probability = _resampled(points, label, len(centre), seed)
    return Clusters(label, centre, closeness, sure, probability, scores)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Threads add up in the order in which they come, which is not the same twice."""
    with threadpool_limits(1):
        yield


def _reduced(vectors: Vectors) -> Vectors:
    """The first principal components, as unit rows; the vectors themselves where there are no more."""
    from sklearn.decomposition import PCA

    if min(vectors.shape) <= DIMENSIONS:
        return vectors
    solver = "covariance_eigh" if len(vectors) > vectors.shape[1] else "full"  # what is cheaper
    reduced: Vectors = PCA(DIMENSIONS, svd_solver=solver).fit_transform(vectors).astype(np.float32)
    return unit_rows(reduced)


def _centres(points: Vectors, k: int) -> Vectors:
    """The means of `k` branches of Ward's tree."""
    from scipy.cluster.hierarchy import fcluster

    if k == 1 or len(points) == 1:
        return unit_rows(points.mean(axis=0, keepdims=True))
    return _means(points, fcluster(_tree(points), k, "maxclust") - 1)


def _tree(points: Vectors) -> Floats:
    from scipy.cluster.hierarchy import linkage

    tree: Floats = linkage(points, "ward")
    return tree


def _means(points: Vectors, label: Ints) -> Vectors:
    sums = np.zeros((int(label.max()) + 1, points.shape[1]))
    np.add.at(sums, label, points)
    return unit_rows((sums / np.bincount(label)[:, None]).astype(np.float32))


def _fitted(points: Vectors, start: Vectors) -> Vectors:
    """The centres of k-means from `start`, as unit rows."""
    from sklearn.cluster import KMeans

    if len(start) == 1:
        return start
    means = KMeans(len(start), init=start, n_init=1, max_iter=_ROUNDS, random_state=0).fit(points)
    return unit_rows(means.cluster_centers_.astype(np.float32))


def nearest(points: Vectors, centre: Vectors) -> tuple[Ints, Floats]:
    """The nearest centre of each point, and the cosine to it; ties go to the first."""
    label, closeness = np.empty(len(points), np.int64), np.empty(len(points))
    for start in range(0, len(points), 8192):
        some = points[start : start + 8192] @ centre.T
        label[start : start + 8192] = some.argmax(axis=1)
        closeness[start : start + 8192] = some.max(axis=1)
    return label, closeness


def _silhouettes(points: Vectors, most: int) -> dict[int, float]:
    """The mean silhouette, by cosine distance, of k-means on `points` for 2 to `most` clusters."""
    from scipy.cluster.hierarchy import fcluster

    if most < 2:
        return {}
    tree, distance = _tree(points), 1 - points @ points.T
    scores = {}
    for k in _tried(most):
        centre = _fitted(points, _means(points, fcluster(tree, k, "maxclust") - 1))
        if len(np.unique(label := nearest(points, centre)[0])) > 1:
            scores[k] = round(float(_silhouette(distance, label).mean()), 6)
    return scores


def _tried(most: int) -> list[int]:
    """2 to `most`, each at most an eighth larger than the one before, or the next."""
    tried = [2]
    while tried[-1] < most:
        tried.append(min(most, max(tried[-1] + 1, int(tried[-1] * 1.125))))
    return tried


def _silhouette(distance: Vectors, label: Ints) -> Floats:
    """The silhouette of each point (Rousseeuw 1987): 0 for one that is alone in its cluster."""
    label = np.unique(label, return_inverse=True)[1]
    size, rows = np.bincount(label), np.arange(len(label))
    sums = distance @ np.eye(len(size), dtype=np.float32)[label]
    within = sums[rows, label] / np.maximum(size[label] - 1, 1)
    means = sums / size
    means[rows, label] = np.inf
    other = means.min(axis=1)
    # Memories of one text have no distance at all: 0 over something is the 0 that is meant.
    silhouette: Floats = (other - within) / np.maximum(np.maximum(within, other), 1e-12)
    return np.where(size[label] > 1, silhouette, 0.0)


def _resampled(points: Vectors, label: Ints, k: int, seed: int) -> tuple[Floats, Floats]:
    """`sure` and `probability` of `Clusters`, over bootstrap resamples that are clustered anew (Hennig 2007)."""
    if k < 2:
        return np.full(k, np.nan), np.ones(len(points))
    draw = np.random.default_rng(seed)
    jaccard, stays = np.zeros(k), np.zeros(len(points))
    for _ in range(RESAMPLES):
        drawn = points[np.sort(draw.integers(0, len(points), min(len(points), SAMPLE)))]
        other, _ = nearest(points, _fitted(drawn, _centres(drawn, k)))
        shared = np.zeros((k, k))
        np.add.at(shared, (label, other), 1)
        either = shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared
        similarity = shared / np.maximum(either, 1)
        jaccard += similarity.max(axis=1)
        stays += other == similarity.argmax(axis=1)[label]
    return jaccard / RESAMPLES, stays / RESAMPLES
