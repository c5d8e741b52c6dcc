"""Clusters of near-duplicates, the survivor of each, and chains; and texts of one template, which are none.

The words of a template recur, and what differs is a name, a number or a word that few texts have. Two texts of one
template that fill its gaps differently say two things. So they are no pair, unless one lies within the other, and none
is made: the pairs of a template are as many as the square of its texts.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.duck import rows_of
from memkit.schemas import Floats, Ints, Mask, tuples_of
from memkit.text.analyse import distinct, ranges

if TYPE_CHECKING:
    from memkit.policy.dedup.pairs import Nodes  # which asks here what hangs together

_NEWEST = ("coalesce(updated_at, created_at) desc nulls last", "it is newer")
_OLDEST = ("coalesce(created_at, updated_at) nulls first", "it is older")
_LONGEST = ("length(text) desc", "it is longer")
_WEIGHTIEST = ("case importance when 'high' then 0 when 'low' then 2 else 1 end", "it is more important")
_TIES = (
    ("not linked", "a page or an index links to it"),
    ("aside", "it is no copy and lies in no archive or backup"),
    ("not named", "the text names its subject"),
    ("length(path) nulls last", "its path is shorter"),
    ("path", "its path comes first"),
    ("line_start", "it stands further up"),
    ("memory_id", "its id comes first"),
)
SURVIVORS: dict[str, tuple[tuple[str, str], ...]] = {
    "newest": (_NEWEST, *_TIES),
    "oldest": (_OLDEST, *_TIES),
    "longest": (_LONGEST, _NEWEST, *_TIES),
    "most_important": (_WEIGHTIEST, _NEWEST, *_TIES),
}
"""By the name of a rule, what decides which memory stays, the first that differs: an order in SQL, and its words."""


@dataclass(frozen=True)
class Order:
    """Rows in the order of a survivor rule, which no threshold changes.

    Attributes
    ----------
    rows : pa.Table
    node : ndarray of int
        The node of each row.
    best : ndarray of int
        The row that speaks for each node; -1 where none of its rows is given.
    rank : ndarray of int
        Of the nodes.
    places : ndarray of int, shape (parts, rows)
        The place of each row by each part of the rule.
    words : list of str
        What each part of the rule says.
    """

    rows: pa.Table
    node: Ints
    best: Ints
    rank: Ints
    places: Ints
    words: list[str]


def in_order(nodes: Nodes, rows: pa.Table, survivor: str, like: Ints) -> Order:
    """The order of `rows`, each of which has a node.

    They have columns ``linked``, whether a page or an index links to their file, ``aside``, whether it is a copy or
    lies among old ones, and ``named``, whether their text names their subject. Nodes that may ever be of one cluster
    have one number in `like`.
    """
    # Two steps, for equal texts and for near ones. Equal texts are one node, and the rows of a node differ in date,
    # user and importance: `best` is the row that speaks for it by the survivor rule. Then the nodes are clustered, and
    # their best rows' places in that rule decide which node stays. A node none of whose rows is among those given (a
    # step before refused them) ranks last and takes no part: no row may go for the sake of an absent one.
    positions = nodes.places(rows["memory_id"]).to_numpy(zero_copy_only=False).astype(np.int64)
    places = _places(rows, survivor)
    node = nodes.node[positions]
    for part, rule in zip(places, SURVIVORS[survivor], strict=True):
        if rule in (_NEWEST, _OLDEST):
            _share_age(part, like[node], rows)
    priority = np.empty(len(rows), dtype=np.int64)
    priority[np.lexsort(places[::-1])] = np.arange(len(rows))
    best = heads(len(nodes.first), node, priority)
    is_present, rank = best >= 0, len(rows) + np.arange(len(best))
    rank[is_present] = priority[best[is_present]]
    return Order(rows, node, best, rank, places, [told for _, told in SURVIVORS[survivor]])


def verdicts(order: Order, merging: tuple[Any, ...], linkage: str) -> pa.Table:
    """One row per clustered row of the order: memory_id, survivor, because, similarity, semantic, cluster."""
    is_present = order.best >= 0
    a, b, similarity, semantic = (part[is_present[merging[0]] & is_present[merging[1]]] for part in merging)
    if linkage == "complete":
        survivors = label = settle(len(order.best), a, b, similarity, order.rank)
    else:
        label = components(len(order.best), a, b)
        survivors = heads(len(label), label, order.rank)[label]
    return _table(order, survivors, label, (a, b, similarity, semantic))


def chains(nodes: Nodes, merging: tuple[Any, ...], clustered: pa.Table) -> pa.Table:
    """Connected components that are not one cluster: chain (least memory_id), memory_id, kept."""
    a, b = merging[:2]
    part = components(len(nodes.first), a, b)
    linked = np.zeros(len(part), dtype=bool)
    linked[np.r_[a, b]] = True
    # A component in which every two members are a pair is not a chain.
    pairs, members = np.bincount(part[a], minlength=len(part)), np.bincount(part, minlength=len(part))
    whole = pairs == members * (members - 1) // 2
    members_of_chains = np.flatnonzero(linked & ~whole[part])
    ids = nodes.rows["memory_id"].to_numpy(zero_copy_only=False)
    survivor = dict(tuples_of(clustered, "memory_id", "survivor"))
    rows = sorted((ids[nodes.first[part[node]]], ids[nodes.first[node]]) for node in members_of_chains)
    return pa.table(
        {
            "chain": pa.array([chain for chain, _ in rows], pa.string()),
            "memory_id": pa.array([memory for _, memory in rows], pa.string()),
            "kept": pa.array([survivor.get(memory, memory) == memory for _, memory in rows], pa.bool_()),
        }
    )


def _places(rows: pa.Table, survivor: str) -> Ints:
    """The place of each row by each part of the survivor rule, the same for a tie: shape (parts, rows)."""
    numbered = rows.append_column("place", pa.array(np.arange(len(rows))))
    ranks = [f"rank() over (order by {order}) as r{n}" for n, (order, _) in enumerate(SURVIVORS[survivor])]
    ranked = rows_of(f"select place, {', '.join(ranks)} from input order by place", input=numbered)  # noqa: S608  # our own rules
    return np.stack([ranked[f"r{n}"].to_numpy().astype(np.int64) for n in range(len(ranks))])


def _share_age(places: Ints, group: Ints, rows: pa.Table) -> None:
    """Give a row without a date the first place of the dated ones of its group, as nobody knows its age."""
    dated = pc.is_valid(pc.coalesce(rows["created_at"], rows["updated_at"])).to_numpy()
    first = np.full(int(group.max(initial=0)) + 1, len(rows) + 1)
    np.minimum.at(first, group[dated], places[dated])
    others = np.flatnonzero(~dated & (first[group] <= len(rows)))
    places[others] = first[group[others]]


def heads(n: int, label: Ints, priority: Ints) -> Ints:
    """The best member of each of `n` labels by priority; -1 where it has none, and a label of -1 is none."""
    order = np.argsort(-priority, kind="stable")
    order = order[label[order] >= 0]
    best = np.full(n, -1)
    # NumPy writes in this order, so the last one, which has the best place, stays.
    best[label[order]] = order
    return best


def _table(ordered: Order, survivors: Ints, label: Ints, pairs: tuple[Any, ...]) -> pa.Table:
    node, best = ordered.node, ordered.best
    ids = ordered.rows["memory_id"].to_numpy(zero_copy_only=False)
    clustered = np.flatnonzero(np.bincount(label[node], minlength=len(label))[label[node]] > 1)
    nodes, survivors_of = node[clustered], survivors[node[clustered]]
    similarity, semantic = _between(nodes, survivors_of, len(label), pairs)
    group = label[nodes]
    # The least id of the given rows names the cluster.
    order = np.argsort(ids[clustered].astype(str), kind="stable")[::-1]
    names = np.empty(len(label), dtype=object)
    names[group[order]] = ids[clustered][order]
    # A survivor stays for the first part of the rule in which they differ.
    differs = ordered.places[:, clustered] != ordered.places[:, best[survivors_of]]
    part = np.where(differs.any(axis=0), differs.argmax(axis=0), len(ordered.words))
    return pa.table(
        {
            "memory_id": pa.array(ids[clustered], pa.string()),
            "survivor": pa.array(ids[best[survivors_of]], pa.string()),
            "because": pa.array(np.array([*ordered.words, None], dtype=object)[part], pa.string()),
            "similarity": pa.array(similarity, pa.float64(), from_pandas=True),
            "semantic": semantic,
            "cluster": pa.array(names[group], pa.string()),
        }
    )


def _between(nodes: Ints, survivors: Ints, n: int, pairs: tuple[Any, ...]) -> tuple[Any, Any]:
    """The similarity of each node with its survivor (NaN where no pair), and whether only vectors found it."""
    a, b, similarity, semantic = pairs
    same = nodes == survivors
    if not len(a):
        return np.where(same, 1.0, np.nan), np.zeros(len(nodes), bool)
    keys, wanted = a * n + b, np.minimum(nodes, survivors) * n + np.maximum(nodes, survivors)
    positions = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_pair = keys[positions] == wanted
    return np.where(same, 1.0, np.where(is_pair, similarity[positions], np.nan)), is_pair & semantic[positions] & ~same


def components(n: int, a: Ints, b: Ints) -> Ints:
    """Labels of the connected components, shape (n,); a label is the component's least member."""
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
        # From the least number on, so that the label of a label is settled when it is asked for.
        label[i] = label[label[i]]
    return np.array(label, dtype=np.int64)


def _join(near: list[dict[int, float]], i: int, j: int) -> list[tuple[int, float]]:
    """Join cluster `j` into `i`; a neighbour of both keeps the smaller similarity."""
    shared = {other: min(near[i][other], near[j][other]) for other in near[i].keys() & near[j].keys()}
    for side in (i, j):
        for other in near[side]:
            near[other].pop(side, None)
    near[i], near[j] = shared, {}
    for other, least in shared.items():
        near[other][i] = least
    return sorted(shared.items())


def settle(n: int, a: Ints, b: Ints, similarity: Floats, priority: Ints) -> Ints:
    """The survivors of complete-link clusters that leave no pair among the survivors.

    A cluster whose best member is a pair with another survivor is a link of a chain A~B~C: merging it would lose what
    only A or C says, or leave a pair for the next run. Such clusters are dissolved, and their members are clustered
    again among themselves, until nothing changes. So a second run finds nothing to do, and every removed row is a pair
    with its survivor.

    Parameters
    ----------
    n : int
        Number of nodes.
    a, b, similarity : ndarray of shape (pairs,)
        Each pair once.
    priority : ndarray of int64, shape (n,)
        All different; the member with the least priority survives.

    Returns
    -------
    ndarray of int64, shape (n,)
        For each node its survivor.
    """
    # Complete link alone is not enough. In A~B~C with the pairs AB and BC it joins AB, and C stays a pair with B. Were
    # B the one that stays, a second run would find BC and merge further, step by step, texts that are not alike. So a
    # cluster counts only if none of those that stay are a pair; what is dissolved is clustered again among itself,
    # because without the settled rows it may fall into other clusters. Each round settles at least one cluster or
    # ends.
    # Ties go by priority: the number of a node is that of a copy, which the second run no longer has.
    order = np.argsort(priority)
    place = np.argsort(order)
    a, b, survivor, active = place[a], place[b], np.arange(n), np.ones(n, dtype=bool)
    while True:
        inside = active[a] & active[b]
        ends = a[inside], b[inside]
        clusters = complete_link(n, *ends, similarity[inside])
        whole = ~_dissolved(clusters, *ends)
        merged = active & whole[clusters] & (np.bincount(clusters[active], minlength=n)[clusters] > 1)
        if not merged.any():
            return np.asarray(order[survivor[place]], np.int64)
        survivor[merged] = clusters[merged]
        active &= ~merged


def _dissolved(label: Ints, a: Ints, b: Ints) -> NDArray[np.bool_]:
    """By label, the best member of a cluster, whether the cluster is part of a chain."""
    dissolved = np.zeros(len(label), dtype=bool)
    across = label[a] != label[b]
    a, b = a[across], b[across]
    survives = label == np.arange(len(label))
    while True:
        survives |= dissolved[label]
        clash = survives[a] & survives[b]
        new = np.union1d(label[a[clash]], label[b[clash]])
        if dissolved[new].all():
            return dissolved
        dissolved[new] = True


Texts: TypeAlias = Sequence[str] | pa.Array
"""Texts as a list or as an array of Arrow, which takes half the memory."""
STEP = 2048
"""Texts that are read at once."""
# A guess: 15 texts of one form are taken for notes that somebody wrote.
_MANY = 16
"""So many texts of one skeleton are of a template, and a word that fewer texts have stands in a gap."""
# Guesses, too: with less in common, texts have a phrase in common and no form.
_LEAST_WORDS, _LEAST_SHARE = 4, 0.5
"""A skeleton has at least so many words, and so much of its text."""
_STEM = 5
"""The letters by which two forms of a word are one."""


@dataclass(frozen=True)
class Families:
    """Which texts are of a template, and what each has in the gaps.

    Attributes
    ----------
    is_member : ndarray of bool, shape (texts,)
    gaps : ndarray of int64, shape (texts,)
        Equal for texts of one scope that have the same words in the gaps, whatever their template.
    """

    is_member: Mask
    gaps: Ints

    @classmethod
    def none(cls, n: int) -> Self:
        """So many texts without a template."""
        return cls(np.zeros(n, bool), np.zeros(n, np.int64))

    @classmethod
    def of(cls, texts: Texts, scopes: Ints) -> Self:
        """The templates among texts as they are written; texts of two scopes have none in common.

        >>> texts = [f"Страница о проекте Север{n}: решения и встречи" for n in range(20)]
        >>> families = Families.of(texts, np.zeros(len(texts), np.int64))
        >>> bool(families.is_member.all()), len(np.unique(families.gaps)) == len(texts)
        (True, True)
        """
        n = len(texts)
        if np.bincount(scopes).max(initial=0) < _MANY:
            return cls.none(n)
        words = _Words.of(texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string()))
        has_digit, is_name, filling = words.has_digit, words.is_name, mix(words.filling + 1)
        is_often = words.are_often(scopes)
        skeleton, gaps = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
        kept, said = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for some, cells in words.blocks(n):
            text, code, width = words.text[cells] - some.start, words.code[cells], some.stop - some.start
            # A capital letter that begins a text makes no name.
            is_kept = is_often[cells] & ~has_digit[code] & (~is_name[code] | (np.diff(text, prepend=-1) > 0))
            kept[some], said[some] = np.bincount(text[is_kept], minlength=width), np.bincount(text, minlength=width)
            place = ranges(np.zeros(width, np.int64), kept[some])
            # A place has 24 bits, the number of the word those above: the same words in another order are another
            # skeleton.
            known = mix((words.word[code[is_kept]] << np.int64(24)) + place)
            skeleton[some] = _hashes(known, text[is_kept], width)
            gaps[some] = _hashes(filling[code[~is_kept]], text[~is_kept], width)
        number, filled = _numbered(skeleton, scopes), _numbered(gaps, scopes)
        # What is said twice counts once, so that without its copies a folder has the templates that it had.
        fillings = np.unique(number * n + filled) // n
        is_member = (np.bincount(fillings)[number] >= _MANY) & (kept >= _LEAST_WORDS) & (kept >= _LEAST_SHARE * said)
        return cls(is_member, filled)

    def may_pair(self, left: Ints, right: Ints) -> Mask:
        """Which pairs are not kept apart by what their texts have in the gaps of a template."""
        return np.asarray(~(self.is_member[left] & self.is_member[right] & (self.gaps[left] != self.gaps[right])), bool)


def mix(values: NDArray[Any]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    values = (values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)), np.uint64)


class _Words(NamedTuple):
    """The words of texts in order, and what is asked of each distinct one."""

    text: Ints
    """The text of each word."""
    code: NDArray[np.int32]
    has_digit: Mask
    is_name: Mask
    word: Ints
    """By code, a number for the word in whatever case."""
    filling: Ints
    """By code, a number for what is compared in a gap: of a number each figure, of a word its stem."""

    @classmethod
    def of(cls, texts: pa.Array) -> Self:
        # What stands between blanks recurs, so that each is cut into words once.
        chunks = pc.ascii_split_whitespace(texts)
        once = pc.list_flatten(chunks).dictionary_encode()
        cut = pc.split_pattern_regex(once.dictionary, r"[^\pL\pN]+")
        encoded = pc.list_flatten(cut).dictionary_encode()
        words = pa.ListArray.from_arrays(cut.offsets, encoded.indices).take(once.indices)
        written, code = encoded.dictionary, pc.list_flatten(words).to_numpy()
        is_word = code != pc.index(written, "").as_py()
        text = pc.list_parent_indices(chunks).to_numpy().astype(np.int32)[pc.list_parent_indices(words).to_numpy()]
        small = pc.utf8_lower(written)
        has_digit, is_name = (np.asarray(pc.match_substring_regex(written, p), bool) for p in (r"\pN", r"^\p{Lu}"))
        filling = _codes(pc.if_else(has_digit, small, pc.utf8_slice_codeunits(small, 0, _STEM)))
        return cls(text[is_word], code[is_word], has_digit, is_name, _codes(small), filling)

    def blocks(self, n: int) -> Iterator[tuple[slice, slice]]:
        """Some of the `n` texts after the other, and where their words are."""
        for start in range(0, n, STEP):
            stop = min(start + STEP, n)
            yield slice(start, stop), slice(*np.searchsorted(self.text, np.array([start, stop], np.int32)).tolist())

    def are_often(self, scopes: Ints) -> Mask:
        """Whether many texts of its scope have a word."""
        several, once, is_often = int(scopes.max(initial=0)) + 1, list[Ints](), np.empty(len(self.text), bool)
        for some, cells in self.blocks(len(scopes)):
            # A text counts once, however often it has the word. Its number is in the upper 32 bits, the word's below.
            text = self.text[cells].astype(np.int64)
            one = distinct((text << 32) + self.word[self.code[cells]], np.bincount(text - some.start))
            once.append((one & 0xFFFFFFFF) * several + scopes[one >> 32])
        known = np.sort(np.concatenate(once))
        last = known[_MANY - 1 :]
        often = distinct(last[last == known[: len(last)]])
        for _, cells in self.blocks(len(scopes)):
            is_often[cells] = np.isin(self.word[self.code[cells]] * several + scopes[self.text[cells]], often)
        return is_often


def _codes(values: pa.Array) -> Ints:
    return np.asarray(values.dictionary_encode().indices.to_numpy().astype(np.int64), np.int64)


def _hashes(values: NDArray[np.uint64], text: Ints, n: int) -> NDArray[np.uint64]:
    """The sum of the values of each text, in whatever order."""
    hashes = np.zeros(n, np.uint64)
    np.add.at(hashes, text, values)
    return hashes


def _numbered(hashes: NDArray[np.uint64], scopes: Ints) -> Ints:
    """A number for each value of a scope."""
    return np.asarray(np.unique(mix(hashes) ^ mix(scopes), return_inverse=True)[1].astype(np.int64), np.int64)
