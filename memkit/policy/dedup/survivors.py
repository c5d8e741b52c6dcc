"""Which row of each cluster stays, and which clusters are chains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.duck import rows_of
from memkit.policy.dedup.clusters import components, heads, settle
from memkit.policy.dedup.pairs import Nodes
from memkit.schemas import Ints

_WEIGHT = "case importance when 'high' then 0 when 'low' then 2 else 1 end"
_NEWEST = "coalesce(updated_at, created_at) desc nulls last"
SURVIVORS = {
    "newest": f"{_NEWEST}, memory_id",
    "oldest": "coalesce(created_at, updated_at) nulls first, path, line_start, memory_id",
    "longest": f"length(text) desc, {_NEWEST}, memory_id",
    "most_important": f"{_WEIGHT}, {_NEWEST}, memory_id",
}


def verdicts(nodes: Nodes, merging: tuple[Any, ...], rows: pa.Table, survivor: str, linkage: str) -> pa.Table:
    """Per row in a cluster: memory_id, survivor, similarity, semantic, cluster; only of the rows given."""
    # Two steps, for equal texts and for near ones. Equal texts are one node, and the rows of a node differ in date,
    # user and importance: `best` is the row that speaks for it by the survivor rule. Then the nodes are clustered, and
    # their best rows' places in that rule decide which node stays. A node none of whose rows is among those given (a
    # step before refused them) ranks last and takes no part: no row may go for the sake of an absent one.
    place = nodes.places(rows["memory_id"]).to_numpy(zero_copy_only=False).astype(np.int64)
    node, priority = nodes.node[place], _priorities(rows, survivor)
    best = _best_rows(len(nodes.texts), node, priority)
    a, b, similarity, semantic = _present(merging, best >= 0)
    rank = np.where(best >= 0, priority[best] if len(priority) else 0, len(rows) + np.arange(len(best)))
    if linkage == "complete":
        stays, label = settle(len(best), a, b, similarity, rank)
    else:
        label = components(len(best), a, b)
        stays = heads(label, rank)[label]
    return _table(rows, node, best, stays, label, (a, b, similarity, semantic))


def chains(nodes: Nodes, merging: tuple[Any, ...], found: pa.Table) -> pa.Table:
    """Connected parts that are not one cluster: chain (least memory_id), memory_id, kept."""
    a, b = merging[:2]
    part = components(len(nodes.texts), a, b)
    linked = np.zeros(len(part), dtype=bool)
    linked[np.r_[a, b]] = True
    # A part whose pairs are all there is not a chain.
    pairs, members = np.bincount(part[a], minlength=len(part)), np.bincount(part, minlength=len(part))
    whole = pairs == members * (members - 1) // 2
    inside = np.flatnonzero(linked & ~whole[part])
    ids = nodes.rows["memory_id"].to_numpy(zero_copy_only=False)
    survivor = dict(zip(found["memory_id"].to_pylist(), found["survivor"].to_pylist(), strict=True))
    rows = sorted((ids[nodes.first[part[node]]], ids[nodes.first[node]]) for node in inside)
    return pa.table(
        {
            "chain": pa.array([chain for chain, _ in rows], pa.string()),
            "memory_id": pa.array([memory for _, memory in rows], pa.string()),
            "kept": pa.array([survivor.get(memory, memory) == memory for _, memory in rows], pa.bool_()),
        }
    )


def _priorities(rows: pa.Table, survivor: str) -> Ints:
    """The place of each row by the survivor rule, 0 first."""
    numbered = rows.append_column("place", pa.array(np.arange(len(rows))))
    ordered = rows_of(f"select place from input order by {SURVIVORS[survivor]}", input=numbered)  # noqa: S608  # our own rules
    places = np.empty(len(rows), dtype=np.int64)
    places[ordered["place"].to_numpy()] = np.arange(len(rows))
    return places


def _best_rows(n: int, node: Ints, priority: Ints) -> Ints:
    """For each node the row that goes last; -1 where none of its rows is here."""
    order = np.argsort(-priority, kind="stable")
    order = order[node[order] >= 0]
    best = np.full(n, -1)
    best[node[order]] = order
    return best


def _present(merging: tuple[Any, ...], here: NDArray[np.bool_]) -> tuple[Any, ...]:
    inside = here[merging[0]] & here[merging[1]]
    return tuple(part[inside] for part in merging)


def _table(rows: pa.Table, node: Ints, best: Ints, stays: Ints, label: Ints, pairs: tuple[Any, ...]) -> pa.Table:
    ids = rows["memory_id"].to_numpy(zero_copy_only=False)
    counts = np.bincount(label[node[node >= 0]], minlength=len(label))
    here = np.flatnonzero((node >= 0) & (counts[label[np.maximum(node, 0)]] > 1)) if len(label) else np.empty(0, int)
    own, kept = node[here], stays[node[here]]
    similarity, semantic = _between(own, kept, len(label), pairs)
    group = label[own]
    # The least id of the rows that are here names the cluster.
    order = np.argsort(ids[here].astype(str), kind="stable")[::-1]
    names = np.empty(len(label), dtype=object)
    names[group[order]] = ids[here][order]
    return pa.table(
        {
            "memory_id": pa.array(ids[here], pa.string()),
            "survivor": pa.array(ids[best[kept]], pa.string()),
            "similarity": pa.array(similarity, pa.float64(), from_pandas=True),
            "semantic": semantic,
            "cluster": pa.array(names[group], pa.string()),
        }
    )


def _between(own: Ints, kept: Ints, n: int, pairs: tuple[Any, ...]) -> tuple[Any, Any]:
    """The similarity of each node with the one that stays, and whether vectors alone found it; NaN where no pair."""
    a, b, similarity, semantic = pairs
    same = own == kept
    if not len(a):
        return np.where(same, 1.0, np.nan), np.zeros(len(own), bool)
    keys, wanted = a * n + b, np.minimum(own, kept) * n + np.maximum(own, kept)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    known = keys[at] == wanted
    return np.where(same, 1.0, np.where(known, similarity[at], np.nan)), known & semantic[at] & ~same
