"""The pairs of dedup: exact duplicates become one node, and pairs of nodes are found once, of every kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.parallel import bar, results
from memkit.base.params import check_column
from memkit.index.ann import Pairs, near_of, near_pairs
from memkit.policy.dedup import near
from memkit.policy.dedup.clusters import STEP, Families, components
from memkit.schemas import Ints, Mask, with_column
from memkit.tables.owners import Owners, Scopes, numbered
from memkit.text.chunk import without_text
from memkit.text.conflicts import Conflicts
from memkit.text.one_word import Synonyms
from memkit.text.sentences import without_moment

KINDS = ("substring", "lexical", "semantic")
FLAGS = ("number_conflict", "date_conflict", "negation_conflict", "value_conflict")
"""The columns of what two texts conflict in."""
OWNER = "owner"
"""The column of what keeps equal words of two owners apart."""


_LETTERS_AT_ONCE = 2_000_000
"""Characters of texts whose conflicts are read at once; what is read takes some 40 bytes a character."""


@dataclass(frozen=True)
class Nodes:
    """Distinct texts of one owner each.

    Attributes
    ----------
    rows : pyarrow.Table
        The fitted rows, by memory_id.
    node : ndarray of int64, shape (rows,)
        The node of each row; -1: no word.
    said : pyarrow.ChunkedArray
        The text of each row, that of a log without the headings that only say when.
    texts : pyarrow.LargeStringArray
        By node, as they are compared.
    first, group : ndarray of int64, shape (nodes,)
        The row of a node that has the least memory_id, and the number of its words within a user, whatever the owner.
    owners : Owners
        Of the rows.
    scopes : Scopes
        Which nodes are compared.
    """

    rows: pa.Table
    node: Ints
    said: pa.ChunkedArray
    texts: pa.LargeStringArray
    first: Ints
    group: Ints
    owners: Owners
    scopes: Scopes

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


def node_table(rows: pa.Table, across_users: bool, by_owner: bool) -> Nodes:
    """Nodes, numbered by their least memory_id, so that the order of the input does not matter."""
    rows = rows.sort_by("memory_id")
    owners = Owners.of(rows)
    owners = owners.across_users() if across_users else owners
    owners = owners if by_owner else owners.of_users()
    texts = _without_moments(rows["text"], owners)
    normalised, says = _compared(texts)
    stated = np.flatnonzero(says & ~without_text(rows))
    text = normalised.take(pa.array(stated)).dictionary_encode().indices.to_numpy()
    parts = owners.take(stated).parts(text.astype(np.int64))
    # The rows are in the order of their ids, so the first row of a part has its least id.
    first, part = np.unique(parts, return_index=True, return_inverse=True)[1:]
    rank = np.argsort(np.argsort(first))
    node = np.full(len(rows), -1)
    node[stated] = rank[part]
    chosen = stated[np.sort(first)]
    compared = normalised.take(pa.array(chosen))
    # It is as large as all texts, and what follows needs memory of its own.
    del normalised
    users = owners.users[chosen] * (len(chosen) + 1)
    group = numbered(users + text[np.sort(first)])
    return Nodes(rows, node, texts, compared, chosen, group, owners, owners.scopes(node, compared))


def _without_moments(texts: pa.ChunkedArray, owners: Owners) -> pa.ChunkedArray:
    """The texts, those of logs without the headings that only say when: its date is not what a log says."""
    if not owners.in_log.any():
        return texts
    of_logs = pa.array(map(without_moment, texts.filter(pa.array(owners.in_log)).to_pylist()), texts.type)
    return pc.replace_with_mask(texts, pa.array(owners.in_log), of_logs)


def _compared(texts: pa.ChunkedArray) -> tuple[pa.LargeStringArray, Mask]:
    """Texts as they are compared, and whether each says something of its own."""
    parts, says = [pa.array([], pa.large_string())], list[bool]()
    for batch in pa.table({"text": texts}).to_batches(STEP):
        some = near.normalise(batch["text"].to_pylist())
        says += map(_says, some)
        parts.append(pa.array(some, pa.large_string()))
    return pa.concat_arrays(parts), np.array(says, bool)


_TAG = re.compile(r"(?<!\S)#[^\W\d_][\w/#-]*(?!\S)")


def _says(text: str) -> bool:
    """Whether a text says anything of its own.

    Not so tags alone: removed as a duplicate, they would be taken from their page. Nor so a heading (`without_text`).
    """
    return any(map(str.isalnum, _TAG.sub("", text) if text.startswith("#") else text))


def find_pairs(nodes: Nodes, settings: Any, encoder: Any, vectors: Any) -> tuple[pa.Table, pa.Table]:
    """All pairs of nodes with their conflicts (columns a, b are nodes), and the same by id with equal texts."""
    vectors = _vectors(nodes, settings, encoder, vectors)
    found = [*_of_owners(nodes, settings, vectors), *_of_namesakes(nodes, settings, vectors)]
    table = pa.concat_tables([_each_once(kind, [pairs for of, pairs in found if of == kind]) for kind in KINDS])
    synonyms = None if encoder is None else _synonyms(encoder)
    conflicts = Conflicts(settings.number_words, settings.date_words, settings.negations, synonyms)
    agreed = _described(nodes, table, conflicts, *(nodes.first[table[side].to_numpy()] for side in ("a", "b")))
    return agreed, pa.concat_tables([_exact(nodes), _repeated(nodes), agreed.drop_columns(["a", "b"])])


def _each_once(kind: str, found: list[Pairs]) -> pa.Table:
    """The pairs of nodes of a kind, each once and as it was found first, however many scopes it was found in."""
    nothing = *np.empty((2, 0), np.int64), np.empty(0)
    a, b, similarity = (np.concatenate(part) for part in zip(nothing, *found, strict=True))
    once = np.unique(np.stack([a, b]), axis=1, return_index=True)[1] if len(a) else a
    kinds = pa.array([kind] * len(once), pa.string())
    return pa.table({"kind": kinds, "a": a[once], "b": b[once], "similarity": similarity[once]})


def _families(nodes: Nodes, rows: Ints) -> Families:
    """The templates among some members of scopes; a scope is there as a whole."""
    members, scopes = nodes.scopes.members[rows], nodes.scopes.scopes[rows]
    families = Families.none(len(rows))
    for batch in near.batches(_lengths(nodes)[members], scopes):
        texts = nodes.said.take(pa.array(nodes.first[members[batch]])).cast(pa.large_string()).combine_chunks()
        of_batch = Families.of(texts, scopes[batch])
        families.is_member[batch], families.gaps[batch] = of_batch.is_member, of_batch.gaps
    return families


def _lengths(nodes: Nodes) -> Any:
    return pc.utf8_length(nodes.texts).to_numpy()


def _of_owners(nodes: Nodes, settings: Any, vectors: Any) -> Iterator[tuple[str, Pairs]]:
    """By kind, the pairs within scopes whose texts all stand there."""
    rows = nodes.scopes.own
    members, scopes, families = nodes.scopes.members[rows], nodes.scopes.scopes[rows], _families(nodes, rows)
    some = list(near.batches(_lengths(nodes)[members], scopes))

    def tasks() -> Iterator[tuple[Any, ...]]:
        for batch in some:
            # A text is read once, in however many scopes it lies.
            distinct, text = np.unique(members[batch], return_inverse=True)
            of_batch = Families(families.is_member[batch], families.gaps[batch])
            words = settings.substring == "words"
            yield nodes.texts.take(pa.array(distinct)), text, scopes[batch], of_batch, settings.lexical_floor, words

    for batch, pairs in zip(some, results(_of_batch, tasks()), strict=True):
        yield from ((kind, (members[batch[a]], members[batch[b]], alike)) for kind, (a, b, alike) in pairs)
    if vectors is not None:
        i, j, cosine = near_pairs(vectors[members], float(settings.floor), scopes, families.may_pair)
        a, b = members[i], members[j]
        yield "semantic", (np.minimum(a, b), np.maximum(a, b), cosine)


def _of_batch(
    texts: pa.LargeStringArray, text: Ints, scopes: Ints, families: Families, floor: float, words: bool
) -> list[tuple[str, Any]]:
    grams = near.trigrams(texts, scopes, text)
    substrings = near.substring_pairs(texts.take(pa.array(text)), scopes, grams, words)
    marked = near.pairs_by_marks(near.unmarked(texts)[text], scopes, families)
    # Else a text, the same with a mark and one that says more were a chain, of which nothing is merged.
    substrings = near.in_other_marks(substrings, marked)
    return [("substring", substrings), ("lexical", marked), ("lexical", near.lexical_pairs(grams, floor, families))]


def _of_namesakes(nodes: Nodes, settings: Any, vectors: Any) -> list[tuple[str, Pairs]]:
    """By kind, the pairs of a text under a title and one that names it, compared once, whatever titles they name."""
    met, members = nodes.scopes.met(), nodes.scopes.members
    if not len(met[0]):
        return []
    n, floor, words = len(nodes.first), settings.lexical_floor, settings.substring == "words"
    code = _codes(members[met[0]], members[met[1]], n)
    low, high = np.divmod(np.unique(code), n)
    found = list[tuple[str, Pairs]]()
    for part in _in_parts(_lengths(nodes), low, high):
        distinct, ends = np.unique(np.append(low[part], high[part]), return_inverse=True)
        i, j = np.split(ends, 2)
        texts = nodes.texts.take(pa.array(distinct))
        grams, none = near.trigrams(texts, np.zeros(len(distinct), np.int64)), Families.none(len(distinct))
        substrings = near.substrings_of(texts, grams, [(i, j), (j, i)], words)
        lexical = near.lexical_of(grams, floor, near.likely(grams, floor, none, [(i, j)]))
        plain = near.unmarked(texts)
        same = np.flatnonzero((plain[i] == plain[j]) & (plain[i] >= 0))
        marked = i[same], j[same], np.ones(len(same))
        for kind, (a, b, alike) in (("substring", substrings), ("lexical", marked), ("lexical", lexical)):
            found.append((kind, (distinct[a], distinct[b], alike)))
    if vectors is not None:
        found.append(("semantic", near_of(vectors, low, high, float(settings.floor))))
    # Only of scopes in which something was found are the templates asked for.
    is_found = np.isin(code, np.concatenate([_codes(a, b, n) for _, (a, b, _) in found]))
    left, right = (side[is_found] for side in met)
    rows = np.flatnonzero(np.isin(nodes.scopes.scopes, nodes.scopes.scopes[left]))
    may = _families(nodes, rows).may_pair(*(np.searchsorted(rows, side) for side in (left, right)))
    agreed = code[is_found][may]
    chosen = ((kind, pairs, np.isin(_codes(*pairs[:2], n), agreed)) for kind, pairs in found)
    return [(kind, (a[kept], b[kept], alike[kept])) for kind, (a, b, alike), kept in chosen]


def _codes(a: Ints, b: Ints, n: int) -> Any:
    """A number for each pair of `n` nodes, whichever comes first."""
    return np.minimum(a, b) * n + np.maximum(a, b)


def _vectors(nodes: Nodes, settings: Any, encoder: Any, vectors: Any) -> Any:
    """The vectors of nodes, those given or the encoder's; None without either."""
    if not len(nodes.first) or (encoder is None and vectors is None):
        return None
    from memkit.index.ann import Centring
    from memkit.index.cache import shared_cache
    from memkit.index.encode import for_corpus

    if vectors is None:
        # Both sides of a pair are alike, and encoders with two roles compare best as queries.
        texts = nodes.rows["text"].take(nodes.first).to_pylist()
        vectors = shared_cache().encode(for_corpus(encoder, texts), texts, "query", keep=True)
    else:
        vectors = np.asarray(vectors)[nodes.rows["row"].to_numpy()[nodes.first]]
    return Centring(mode="corpus").fit(vectors).transform(vectors) if settings.centre == "corpus" else vectors


def _synonyms(encoder: Any) -> Synonyms | None:
    """Which words mean the same to an encoder, where it was measured from which cosine on."""
    from memkit.index.cache import shared_cache

    least = getattr(encoder, "synonym_threshold", None)
    if least is None:
        return None
    of_activities = getattr(encoder, "activity_threshold", None) or least
    return Synonyms(lambda words: shared_cache().encode(encoder, words, "query"), least, of_activities)


def _described(nodes: Nodes, node_pairs: pa.Table, conflicts: Conflicts | None, a: Ints, b: Ints) -> pa.Table:
    """The pairs with the ids of rows `a` and `b` and their conflicts, ordered by kind and ids."""
    ids, users = nodes.rows["memory_id"].combine_chunks(), pc.fill_null(nodes.rows["user_id"], "").combine_chunks()
    flags = _conflicting(nodes.said, conflicts, a, b) if conflicts else np.zeros((len(a), len(FLAGS)), bool)
    columns = {
        "a_id": ids.take(a),
        "b_id": ids.take(b),
        **{name: node_pairs[name] for name in ("kind", "similarity")},
        **dict(zip(FLAGS, flags.T, strict=True)),
        "contradiction": flags.any(axis=1),
        OWNER: node_pairs[OWNER] if OWNER in node_pairs.column_names else pa.nulls(len(a), pa.string()),
        "same_user": pc.equal(users.take(a), users.take(b)),
        **{name: node_pairs[name] for name in node_pairs.column_names if name in ("a", "b")},
    }
    return pa.table(columns).sort_by([(name, "ascending") for name in ("kind", "a_id", "b_id")])


def _conflicting(texts: pa.ChunkedArray, conflicts: Conflicts, a: Ints, b: Ints) -> Mask:
    """What each pair of rows conflicts in; a pair is asked once, whatever found it, and few texts are read at once."""
    once, found = np.unique(_codes(a, b, len(texts)), return_inverse=True)
    low, high = np.divmod(once, max(1, len(texts)))
    flags = np.zeros((len(once), len(FLAGS)), bool)
    for some in bar("comparing pairs", _in_parts(pc.utf8_length(texts).to_numpy(), low, high), leave=False):
        rows, sides = np.unique(np.append(low[some], high[some]), return_inverse=True)
        facts = conflicts.facts(texts.take(pa.array(rows)).to_pylist())
        flags[some] = conflicts.between(facts, *np.split(sides.ravel(), 2))
    return flags[found.ravel()]


def _in_parts(lengths: Ints, low: Ints, high: Ints) -> list[Ints]:
    """The places of pairs in parts whose texts are read at once; `lengths` are those of all texts."""
    # What hangs together lies together, so that a text is seldom read for two parts.
    order = np.lexsort((high, low, components(len(lengths), low, high)[low]))
    ends = np.stack([low[order], high[order]], axis=1).ravel()
    first = np.unique(ends, return_index=True)[1]
    new = np.zeros(len(ends), np.int64)
    new[first] = lengths[ends[first]]
    return np.split(order, np.flatnonzero(np.diff(np.cumsum(new)[1::2] // _LETTERS_AT_ONCE)) + 1)


def _exact(nodes: Nodes) -> pa.Table:
    """Pairs of exact duplicates: each further row of a node with its first."""
    copies = np.flatnonzero(nodes.node >= 0)
    firsts = nodes.first[nodes.node[copies]]
    copies, firsts = copies[copies != firsts], firsts[copies != firsts]
    return _equal(nodes, firsts, copies, pa.nulls(len(copies), pa.string()))


def _repeated(nodes: Nodes) -> pa.Table:
    """Equal words of different owners: each further owner's with those of the least id, never every two."""
    order = np.lexsort((nodes.first, nodes.group))
    starts = np.flatnonzero(np.r_[True, np.diff(nodes.group[order]) != 0]) if len(order) else order
    head = np.repeat(order[starts], np.diff(np.r_[starts, len(order)]))
    least, further = nodes.first[head[head != order]], nodes.first[order[head != order]]
    is_of_stores = nodes.owners.stores[least] != nodes.owners.stores[further]
    return _equal(nodes, least, further, pa.array(np.where(is_of_stores, "store", "subject").tolist(), pa.string()))


def _equal(nodes: Nodes, a: Ints, b: Ints, owner: pa.Array) -> pa.Table:
    kind = pa.array(["exact"] * len(a), pa.string())
    return _described(nodes, pa.table({"kind": kind, "similarity": np.ones(len(a)), OWNER: owner}), None, a, b)


def never_merges(pairs: pa.Table) -> pa.ChunkedArray:
    """Which of some pairs a conflict keeps apart at any threshold: a boolean for each."""
    names, n = pairs.column_names, pairs.num_rows
    differs = pairs["contradiction"] if "contradiction" in names else pa.chunked_array([np.zeros(n, bool)])
    return pc.or_(differs, pc.is_valid(pairs[OWNER])) if OWNER in names else differs


def each_once(pairs: pa.Table, reached: Mask | None = None) -> pa.Table:
    """Each pair once, whichever kinds found it: of these the exact, else the one by meaning, by letters, by parts.

    One that is `reached` comes before one that is not, and of those the most similar, as in clusters.
    """
    reached = np.zeros(pairs.num_rows, bool) if reached is None else reached
    rank = pc.index_in(pairs["kind"], value_set=pa.array(["exact", *reversed(KINDS)])).to_numpy()
    order = np.lexsort((rank, -pairs["similarity"].to_numpy() * reached, ~reached))
    a, b = (pairs[name].combine_chunks().take(order) for name in ("a_id", "b_id"))
    ends = pc.min_element_wise(a, b), pc.max_element_wise(a, b)
    codes = pc.binary_join_element_wise(*ends, "\x1f").dictionary_encode().indices.to_numpy()
    return pairs.take(np.sort(order[np.unique(codes, return_index=True)[1]]))


def alike(pairs: pa.Table, kinds: tuple[str, ...], threshold: float, lexical_threshold: float) -> Mask:
    """Which pairs are of some kinds and as similar as their kind has to be."""
    kind, similarity = pairs["kind"].to_numpy().astype(str), pairs["similarity"].to_numpy()
    least = np.select([kind == "semantic", kind == "lexical"], [threshold, lexical_threshold], 0.0)
    return np.asarray(np.isin(kind, kinds) & (similarity >= least), bool)


def reaching(
    pairs: pa.Table, kinds: tuple[str, ...] = ("exact", *KINDS), threshold: float = 0, lexical_threshold: float = 0
) -> pa.Array:
    """Which pairs are `alike` and kept apart by no conflict."""
    return pc.and_not(pa.array(alike(pairs, kinds, threshold, lexical_threshold)), never_merges(pairs))


def mergeable(
    node_pairs: pa.Table, kinds: tuple[str, ...], threshold: float, lexical_threshold: float
) -> tuple[Ints, Ints, Any, Any]:
    """Pairs of nodes that may merge: a, b (a < b), the best similarity, and whether only vectors found them."""
    chosen = node_pairs.filter(reaching(node_pairs, kinds, threshold, lexical_threshold))
    a, b, similarity, kind = (chosen[name].to_numpy() for name in ("a", "b", "similarity", "kind"))
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((-similarity, high, low))
    low, high, similarity, kind = low[order], high[order], similarity[order], kind[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(low) != 0) | (np.diff(high) != 0)]) if len(low) else np.empty(0, int)
    semantic = np.logical_and.reduceat(kind == "semantic", starts) if len(starts) else np.empty(0, bool)
    return low[starts], high[starts], similarity[starts], semantic
