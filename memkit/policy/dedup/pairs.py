"""The pairs of dedup: exact duplicates become one node, and pairs of nodes are found once, of every kind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.parallel import results
from memkit.params import check_column
from memkit.policy.dedup.near import batches, lexical_pairs, normalise, substring_pairs, trigrams
from memkit.schemas import Ints, with_column
from memkit.text.conflicts import Conflicts

KINDS = ("substring", "lexical", "semantic")
FLAGS = ("number_conflict", "date_conflict", "negation_conflict", "value_conflict")


@dataclass(frozen=True)
class Nodes:
    """Distinct texts of a scope. `rows` are the fitted rows by memory_id, `node` their node (-1: no word)."""

    rows: pa.Table
    node: Ints
    texts: list[str]
    first: Ints
    scopes: Ints

    def places(self, memory_ids: pa.ChunkedArray) -> pa.ChunkedArray:
        """The positions of ids among the fitted rows; null for unknown ids."""
        return pc.index_in(memory_ids, value_set=self.rows["memory_id"])

    def stand_ins(self, labels: pa.Table) -> pa.Table:
        """Labelled pairs, with each id replaced by that of its node, as in ``pairs_``."""
        for name in ("a_id", "b_id"):
            check_column(name, labels.column_names, "labels")
            place = self.places(labels[name]).to_numpy(zero_copy_only=False)
            known = np.flatnonzero(~np.isnan(place.astype(float)))
            known = known[self.node[place[known].astype(int)] >= 0]
            ids = labels[name].to_numpy(zero_copy_only=False).astype(object)
            first = self.first[self.node[place[known].astype(int)]]
            ids[known] = self.rows["memory_id"].to_numpy(zero_copy_only=False)[first]
            labels = with_column(labels, name, pa.array(ids, pa.string()))
        return labels


def node_table(rows: pa.Table, across_users: bool) -> Nodes:
    """Nodes, numbered by their least memory_id, so that the order of the input does not matter."""
    rows = rows.sort_by("memory_id")
    texts = normalise(rows["text"].to_pylist())
    users = rows["user_id"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    scopes = np.zeros(len(rows), dtype=np.int64) if across_users else users.astype(np.int64)
    node = np.full(len(rows), -1)
    first: list[int] = []
    known: dict[tuple[int, str], int] = {}
    for place, key in enumerate(zip(scopes.tolist(), texts, strict=True)):
        if _says(key[1]):
            node[place] = known.setdefault(key, len(known))
            if node[place] == len(first):
                first.append(place)
    chosen = np.array(first, dtype=np.int64)
    return Nodes(rows, node, [texts[place] for place in first], chosen, scopes[chosen])


_TAG = re.compile(r"(?<!\S)#[^\W\d_][\w/#-]*(?!\S)")


def _says(text: str) -> bool:
    """Whether a text says anything of its own.

    Not so "##", a part of every heading, nor tags alone: removed as a duplicate, they would be taken from their page.
    """
    return any(map(str.isalnum, _TAG.sub("", text) if text.startswith("#") else text))


def find_pairs(nodes: Nodes, settings: Any, encoder: Any, vectors: Any) -> tuple[pa.Table, pa.Table]:
    """All pairs of nodes with their conflicts (columns a, b are nodes), and the same by id with exact duplicates."""
    candidates = [*_by_letters(nodes, settings.lexical_floor, settings.substring == "words")]
    if encoder is not None or vectors is not None:
        candidates.append(("semantic", *_by_vectors(nodes, settings, encoder, vectors)))
    table = pa.concat_tables(
        [
            pa.table({"kind": pa.array([kind] * len(a), pa.string()), "a": a, "b": b, "similarity": similarity})
            for kind, a, b, similarity in candidates
        ]
    )
    conflicts = Conflicts(settings.number_words, settings.date_words, settings.negations)
    sides = (nodes.first[table[side].to_numpy()] for side in ("a", "b"))
    agreed = _described(nodes, table, conflicts, *sides)
    return agreed, pa.concat_tables([_exact(nodes, conflicts), agreed.drop_columns(["a", "b"])])


def _by_letters(nodes: Nodes, floor: float, words: bool) -> list[tuple[Any, ...]]:
    pairs_by_kind: list[tuple[Any, ...]] = [(kind, np.empty(0, int), np.empty(0, int), np.empty(0)) for kind in KINDS]
    lengths = np.array([len(text) for text in nodes.texts], dtype=np.int64)
    some = list(batches(lengths, nodes.scopes))
    tasks = (([nodes.texts[place] for place in batch], nodes.scopes[batch], floor, words) for batch in some)
    for batch, pairs in zip(some, results(_of_batch, tasks), strict=True):
        pairs_by_kind += [(kind, batch[a], batch[b], similarity) for kind, (a, b, similarity) in pairs]
    return pairs_by_kind


def _of_batch(texts: list[str], scopes: Ints, floor: float, words: bool) -> list[tuple[str, Any]]:
    grams = trigrams(texts, scopes)
    return [
        ("substring", substring_pairs(texts, scopes, grams, words)),
        ("lexical", lexical_pairs(grams, floor)),
    ]


def _by_vectors(nodes: Nodes, settings: Any, encoder: Any, vectors: Any) -> tuple[Ints, Ints, Any]:
    from memkit.index.cache import shared_cache
    from memkit.index.centre import Centring
    from memkit.index.encode import for_corpus
    from memkit.index.pairs import near_pairs

    if vectors is None:
        # Both sides of a pair are alike, and encoders with two roles compare best as queries.
        texts = nodes.rows["text"].take(nodes.first).to_pylist()
        vectors_of_nodes = shared_cache().encode(for_corpus(encoder, texts), texts, "query", keep=True)
    else:
        vectors_of_nodes = np.asarray(vectors)[nodes.rows["row"].to_numpy()[nodes.first]]
    if len(vectors_of_nodes) == 0:
        return np.empty(0, int), np.empty(0, int), np.empty(0)
    if settings.centre == "corpus":
        vectors_of_nodes = Centring(mode="corpus").fit(vectors_of_nodes).transform(vectors_of_nodes)
    pairs = near_pairs(vectors_of_nodes, float(settings.floor), groups=nodes.scopes)
    return pairs["i"].to_numpy(), pairs["j"].to_numpy(), pairs["cosine"].to_numpy()


def _described(nodes: Nodes, node_pairs: pa.Table, conflicts: Conflicts, a: Ints, b: Ints) -> pa.Table:
    """The pairs with the ids of rows `a` and `b` and their conflicts, ordered by kind and ids."""
    # Only texts of a pair are read for conflicts, and of equal ones the first speaks.
    texts, ids = nodes.rows["text"].to_pylist(), nodes.rows["memory_id"].combine_chunks()
    users = pc.fill_null(nodes.rows["user_id"], "").combine_chunks()
    flags = conflicts.between(conflicts.facts(texts), a, b)
    columns = {
        "a_id": ids.take(a),
        "b_id": ids.take(b),
        **{name: node_pairs[name] for name in ("kind", "similarity")},
        **dict(zip(FLAGS, flags.T, strict=True)),
        "contradiction": flags.any(axis=1),
        "same_user": pc.equal(users.take(a), users.take(b)),
        **{name: node_pairs[name] for name in node_pairs.column_names if name in ("a", "b")},
    }
    return pa.table(columns).sort_by([(name, "ascending") for name in ("kind", "a_id", "b_id")])


def _exact(nodes: Nodes, conflicts: Conflicts) -> pa.Table:
    """Pairs of exact duplicates: each further row of a node with its first."""
    copies = np.flatnonzero(nodes.node >= 0)
    firsts = nodes.first[nodes.node[copies]]
    copies, firsts = copies[copies != firsts], firsts[copies != firsts]
    kind = pa.array(["exact"] * len(copies), pa.string())
    return _described(nodes, pa.table({"kind": kind, "similarity": np.ones(len(copies))}), conflicts, firsts, copies)


def never_merges(pairs: pa.Table) -> pa.ChunkedArray:
    """Which of some pairs a conflict keeps apart at any threshold: a boolean for each."""
    names, n = pairs.column_names, pairs.num_rows
    differs = pairs["contradiction"] if "contradiction" in names else pa.chunked_array([np.zeros(n, bool)])
    return pc.or_(differs, pc.is_valid(pairs["owner"])) if "owner" in names else differs


def each_once(pairs: pa.Table) -> pa.Table:
    """Each pair once, whichever kinds found it: of these the exact, else the one by meaning, by letters, by parts."""
    rank = pc.index_in(pairs["kind"], value_set=pa.array(["exact", *reversed(KINDS)])).to_numpy()
    order = np.argsort(rank, kind="stable")
    a, b = (pairs[name].combine_chunks().take(order) for name in ("a_id", "b_id"))
    ends = pc.min_element_wise(a, b), pc.max_element_wise(a, b)
    codes = pc.binary_join_element_wise(*ends, "\x1f").dictionary_encode().indices.to_numpy()
    return pairs.take(np.sort(order[np.unique(codes, return_index=True)[1]]))


def mergeable(
    node_pairs: pa.Table, kinds: tuple[str, ...], threshold: float, lexical_threshold: float
) -> tuple[Ints, Ints, Any, Any]:
    """Pairs of nodes that may merge: a, b (a < b), the best similarity, and whether only vectors found them."""
    kind = node_pairs["kind"].to_numpy(zero_copy_only=False).astype(str)
    similarity = node_pairs["similarity"].to_numpy()
    least = np.select([kind == "semantic", kind == "lexical"], [threshold, lexical_threshold], 0.0)
    chosen = np.isin(kind, list(kinds)) & (similarity >= least)
    chosen &= ~node_pairs["contradiction"].to_numpy(zero_copy_only=False).astype(bool)
    a, b = node_pairs["a"].to_numpy()[chosen], node_pairs["b"].to_numpy()[chosen]
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((-similarity[chosen], high, low))
    low, high, similarity, kind = low[order], high[order], similarity[chosen][order], kind[chosen][order]
    starts = np.flatnonzero(np.r_[True, (np.diff(low) != 0) | (np.diff(high) != 0)]) if len(low) else np.empty(0, int)
    semantic = np.logical_and.reduceat(kind == "semantic", starts) if len(starts) else np.empty(0, bool)
    return low[starts], high[starts], similarity[starts], semantic
