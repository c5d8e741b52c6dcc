"""Who stands for whom: clusters of near texts, and the one of each that stays."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from memkit.schemas import Floats, Ints


def components(n: int, a: Ints, b: Ints) -> Ints:
    """Labels of the connected parts, shape (n,); the label is the part's least member."""
    from scipy import sparse

    graph = sparse.csr_matrix((np.ones(len(a), dtype=np.int8), (a, b)), shape=(n, n))
    labels = sparse.csgraph.connected_components(graph, directed=False)[1]
    least = np.full(n, n)
    np.minimum.at(least, labels, np.arange(n))
    return np.asarray(least[labels], dtype=np.int64)


def complete_link(n: int, a: Ints, b: Ints, similarity: Floats) -> Ints:
    """Labels of clusters in which every two members are a pair, shape (n,); the label is the least member.

    Agglomerative: the two clusters whose least similar members are the most similar join first, ties by place.
    """
    near: list[dict[int, float]] = [{} for _ in range(n)]
    queue = []
    for i, j, value in zip(a.tolist(), b.tolist(), similarity.tolist(), strict=True):
        near[i][j] = near[j][i] = value
        queue.append((-value, min(i, j), max(i, j)))
    heapq.heapify(queue)
    label = list(range(n))
    while queue:
        value, i, j = heapq.heappop(queue)
        if near[i].get(j) == -value:
            label[j] = i
            for other, least in _join(near, i, j):
                heapq.heappush(queue, (-least, min(i, other), max(i, other)))
    for i in range(n):
        label[i] = label[label[i]]
    return np.array(label, dtype=np.int64)


def _join(near: list[dict[int, float]], i: int, j: int) -> list[tuple[int, float]]:
    """Cluster `j` joins `i`; what was near both stays near, as its farther one says."""
    shared = {other: min(near[i][other], near[j][other]) for other in near[i].keys() & near[j].keys()}
    for side in (i, j):
        for other in near[side]:
            near[other].pop(side, None)
    near[i], near[j] = shared, {}
    for other, least in shared.items():
        near[other][i] = least
    return sorted(shared.items())


def settle(n: int, a: Ints, b: Ints, similarity: Floats, priority: Ints) -> tuple[Ints, Ints]:
    """Complete-link clusters that leave no pair among the rows that stay.

    A cluster whose best member is a pair with another row that stays is a link of a chain A~B~C: merging it would
    lose what only A or C says, or leave a pair for the next run. Such clusters are dissolved, and what they held is
    clustered again without the rest, until nothing changes. So a second run finds nothing to do, and every row that
    goes is a pair with the one that stays.

    Parameters
    ----------
    n : int
        Number of nodes.
    a, b, similarity : ndarray of shape (pairs,)
        Each pair once.
    priority : ndarray of int64, shape (n,)
        All different; the least of a cluster stays.

    Returns
    -------
    survivor, label : ndarray of int64, shape (n,)
        For each node the one that stays for it, and the least member of its cluster.
    """
    # Complete link alone is not enough. In A~B~C with the pairs AB and BC it joins AB, and C stays a pair with B. Were
    # B the one that stays, a second run would find BC and merge further, step by step, texts that are not alike. So a
    # cluster counts only if none of those that stay are a pair; what is dissolved is clustered again among itself,
    # because without the settled rows it may fall into other clusters. Each round settles at least one cluster or
    # ends.
    survivor, label = np.arange(n), np.arange(n)
    active = np.ones(n, dtype=bool)
    while True:
        inside = active[a] & active[b]
        ends = a[inside], b[inside]
        found = complete_link(n, *ends, similarity[inside])
        best = heads(found, priority)
        whole = ~_dissolved(found, best, *ends)
        merged = active & whole[found] & (np.bincount(found[active], minlength=n)[found] > 1)
        if not merged.any():
            return survivor, label
        survivor[merged], label[merged] = best[found[merged]], found[merged]
        active &= ~merged


def heads(label: Ints, priority: Ints) -> Ints:
    """The best member of each label."""
    order = np.argsort(-priority, kind="stable")
    best = np.arange(len(label))
    best[label[order]] = order
    return best


def _dissolved(label: Ints, heads: Ints, a: Ints, b: Ints) -> NDArray[np.bool_]:
    """By label, whether its cluster is part of a chain."""
    dissolved = np.zeros(len(label), dtype=bool)
    across = label[a] != label[b]
    a, b = a[across], b[across]
    stays = heads[label] == np.arange(len(label))
    while True:
        stays |= dissolved[label]
        clash = stays[a] & stays[b]
        new = np.union1d(label[a[clash]], label[b[clash]])
        if dissolved[new].all():
            return dissolved
        dissolved[new] = True
