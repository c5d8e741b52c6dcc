"""How alike texts are: near-duplicates that are collapsed under the best of them, and vectors for MMR."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.index.ann import cosines
from memkit.schemas import Floats, Ints, Mask
from memkit.tables.owners import Owners
from memkit.text.analyse import distinct, ranges
from memkit.text.sentences import without_moment

if TYPE_CHECKING:
    from memkit.text.conflicts import Conflicts

# The digits beyond depend on the order in which a product is added up, and so on how many others there are.
_DIGITS = 12
# With 256 bytes a text, 100,000 texts take 25 MB, and a pair 32 words of the processor.
_BITS = 2048  # 256 bytes a text
# How far the likeness of bits may lie below that of the trigrams, of which several share a bit.
_DOUBT = 0.15
# Round bounds of what is kept between questions.
_KEPT = 4096
_FEW, _FEW_KEPT = 400, 64
"""Pairs are cached for `_FEW_KEPT` questions of at most `_FEW` texts: 10 MB if each has 100, and 160 MB at most."""
_READ_AT_ONCE = 256
# A block of bits takes 1 MB, which stays in the processor's cache. With all pairs at once a batch of questions with a
# pool of 1,000 took more memory than anything else.
_PAIRS_AT_ONCE, _PAIRS_READ = 4096, 250_000
_EXPANDING = r"[\xdf\u0130\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9e\u1f50-\u1f56\u1f80-\u1ffc\ufb00-\ufb17]"
"""The characters that become several when their case is folded, and a few that do not, which does no harm."""
_SEVERAL = 0x10FFFF  # no letter
DROPPED = -1
"""The key of a dropped candidate."""
NOWHERE = np.iinfo(np.int64).max
"""The place of a candidate that is not shown."""
Keys = NDArray[np.signedinteger[Any]]
TIE_DIGITS = 6
"""Encoders and engines differ in the seventh digit from batch to batch; a smaller difference means nothing."""


@dataclass(frozen=True)
class NearPairs:
    """Pairs of near-duplicates among some candidates: the trigrams that two share, and the most that they could share.

    Attributes
    ----------
    rows : ndarray of int64, shape (n,)
        The candidates.
    shared, most : ndarray of float64, shape (n, n)
        `shared` is -1 for pairs that differ in a number, a date, a negation or a value, and for those that share too
        little.
    """

    rows: Ints
    shared: Floats
    most: Floats

    @classmethod
    def among(
        cls, repeats: Repeats, texts: Sequence[Ints], threshold: float, rows: Sequence[Ints], heads: Sequence[int] = ()
    ) -> list[NearPairs | None]:
        """The near-duplicates among the `rows` of each query at this threshold or higher; None if there are none.

        `texts` are the rows of their texts in `repeats`. Those of all queries are compared at once; the last answers
        are kept, as a moving slider asks for the same candidates again. Of each query so many first rows, its `heads`,
        are compared with all rows, and the others with these alone; none given: each is compared with all.
        """
        keys = [(some.tobytes(), threshold, n) for some, n in zip(texts, heads or map(len, texts), strict=True)]
        known = repeats.known.copy()  # another thread may empty it
        new = list({key: some for key, some in zip(keys, texts, strict=True) if key not in known}.items())
        n_pairs = list(accumulate(len(some) * key[2] // 2 for key, some in new))
        for _, part in groupby(range(len(new)), lambda number: n_pairs[number] // _PAIRS_READ):
            asked = [new[number] for number in part]
            pairs = [_pairs(key[2], len(some)) for key, some in asked]
            compared = cls._compared(repeats, [some for _, some in asked], pairs, threshold)
            for (key, some), near in zip(asked, compared, strict=True):
                known[key] = near
                if len(some) <= _FEW:
                    keep(repeats.known, key, near, _FEW_KEPT)
        found = zip(map(known.get, keys), rows, strict=True)
        return [near and replace(near, rows=some[near.rows]) for near, some in found]

    @classmethod
    def _compared(
        cls, repeats: Repeats, texts: Sequence[Ints], places: Sequence[Ints], threshold: float
    ) -> Iterator[NearPairs | None]:
        """Those of a few queries, of which pairs of `places` in the texts are compared; `rows` are such places."""
        pairs = np.concatenate([some[at] for some, at in zip(texts, places, strict=True)])
        likely = np.flatnonzero(repeats.likely(pairs, threshold))
        shared, most = repeats.near(pairs[likely], threshold)
        near = np.flatnonzero(shared >= 0)
        shared, most, at = shared[near], most[near], np.concatenate(places)[likely[near]]
        ends = np.searchsorted(likely[near], np.cumsum([len(some) for some in places]))
        for some in np.split(np.arange(len(near)), ends[:-1]):
            yield cls._of(at[some], shared[some], most[some]) if len(some) else None

    @classmethod
    def _of(cls, pairs: Ints, shared: Floats, most: Floats) -> NearPairs:
        """Those of one query, from its pairs of places and what each two share."""
        members, places = np.unique(pairs, return_inverse=True)
        left, right = places.reshape(-1, 2).T
        both = np.full((len(members), len(members)), -1.0), np.ones((len(members), len(members)))
        for whole, values in zip(both, (shared, most), strict=True):
            whole[left, right] = whole[right, left] = values
        return cls(members, *both)

    @cached_property
    def largest(self) -> int:
        """The size of the largest connected group."""
        from scipy.sparse.csgraph import connected_components  # a tenth of a second, for sweeps alone

        _, label = connected_components(self.shared >= 0)
        return int(np.bincount(label).max())

    def same(self, index: Ints, threshold: Floats) -> Mask:
        """Which of `rows` are near-duplicates of the one at `index`, by column."""
        if (threshold == threshold[0]).all():
            is_near: Mask = self.shared >= threshold[0] * self.most
            return is_near[:, index]
        same: Mask = self.shared[:, index] >= threshold * self.most[:, index]
        return same


def collapse(key: Keys, is_open: Mask, near: NearPairs, threshold: Floats) -> Keys:
    """The key under which each row of `near` is collapsed, its own if it stays; one column per setting.

    Greedy from the top, so that no row depends on those below it.

    Parameters
    ----------
    key : ndarray of int, shape (n, settings)
        The larger ranks higher.
    is_open : ndarray of bool, shape (n, settings)
        The rows that take part.
    near : NearPairs
    threshold : ndarray of float64, shape (settings,)
        The cosine similarity of trigrams from which two texts are near-duplicates.
    """
    under = key.copy()
    most = int(is_open.sum(axis=0).max(initial=0))
    if most < 2:
        return under
    order = np.argsort(-np.where(is_open, key, DROPPED), axis=0, kind="stable")
    kept, columns = np.full_like(key, DROPPED), np.arange(key.shape[1])
    for row in order[:most]:
        above = np.where(near.same(row, threshold), kept, DROPPED).max(axis=0)
        own_key, takes_part = key[row, columns], is_open[row, columns]
        collapses = takes_part & (above >= 0)
        kept[row, columns] = np.where(takes_part & ~collapses, own_key, kept[row, columns])
        under[row, columns] = np.where(collapses, above, own_key)
    return under


class Repeats:
    """Near-duplicates among some texts, computed on demand and cached.

    Parameters
    ----------
    texts : list of str or pa.ChunkedArray
    owners : Owners
        Of each text; texts of two owners are never duplicates.
    """

    def __init__(self, texts: list[str] | pa.ChunkedArray, owners: Owners) -> None:
        self._texts, self._owners = texts, owners
        self._bits = np.zeros((len(owners), _BITS // 8), np.uint8)
        self._sizes = np.zeros(len(owners), np.uint16)
        self._grams: dict[int, Ints] = {}
        self._conflicting: dict[tuple[int, int], bool] = {}
        self.known: dict[tuple[bytes, float, int], NearPairs | None] = {}

    def likely(self, pairs: Ints, threshold: float) -> Mask:
        """Which pairs of texts may reach the threshold and have one owner.

        A bit vector per text, with a bit for each hashed trigram, rules out most pairs, most of them by the numbers
        of bits alone.
        """
        self.read(pairs.ravel())
        some = np.flatnonzero(np.equal(*self._owners.apart[pairs].T))
        left, right = self._sizes[pairs[some]].T
        least = (threshold - _DOUBT) * np.sqrt(left.astype(float) * right)
        reach = np.minimum(left, right) >= least
        some, least = some[reach], least[reach]
        some = some[_shared_bits(self._bits, *pairs[some].T) >= least]
        is_likely = np.zeros(len(pairs), bool)
        is_likely[some] = self._owners.one(*pairs[some].T)
        return is_likely

    def read(self, rows: Ints) -> None:
        """Compute the bit vectors of `rows`, which costs less for many at once."""
        new = distinct(rows[self._sizes[rows] == 0])
        for start in range(0, len(new), _READ_AT_ONCE):
            batch = new[start : start + _READ_AT_ONCE]
            self._bits[batch] = _bits(self._texts_at(batch))
            self._sizes[batch] = _sizes(self._bits[batch])  # after the bits: another thread may read them

    def near(self, pairs: Ints, threshold: float) -> tuple[Floats, Floats]:
        """The trigrams that two texts share, and the geometric mean of what they have: the cosine is their ratio.

        What they share is -1 where the cosine is below the threshold, or where they differ in a number, a date, a
        negation or a value.
        """
        if not len(pairs):
            return np.empty(0), np.empty(0)
        grams = self._grams_of(distinct(pairs.ravel()))
        both = [(grams[one], grams[other]) for one, other in pairs.tolist()]
        shared = np.array([_n_shared(*two) for two in both], float)
        most = np.array([float((len(one) * len(other)) ** 0.5) for one, other in both])
        is_near: Mask = shared >= threshold * most
        if is_near.any():
            is_near[is_near] = ~np.array(self.conflicting(pairs[is_near]), bool)
        shared[~is_near] = -1.0
        return shared, most

    def cosines(self, rows: Ints) -> Floats:
        """The cosine of the trigrams of each two of the texts `rows`: `shared` / `most` of all pairs at once."""
        from scipy.sparse import csr_array  # a tenth of a second, for who asks for it alone

        if not len(rows):
            return np.zeros((0, 0))
        grams = list(self._grams_of(rows).values())
        size = np.array([len(gram) for gram in grams])
        column = np.unique(np.concatenate(grams), return_inverse=True)[1]
        has = csr_array((np.ones(len(column)), column, np.append(0, size.cumsum())))
        cosines: Floats = (has @ has.T).toarray() / np.sqrt(size[:, None] * size)
        return cosines

    def conflicting(self, pairs: Ints) -> list[bool]:
        """Whether the texts of each pair differ in a number, a date, a negation or a value; new pairs at once."""
        asked = list(map(tuple, np.sort(pairs, axis=1).tolist()))
        known = {pair: differs for pair in asked if (differs := self._conflicting.get(pair)) is not None}
        if new := sorted(set(asked).difference(known)):
            rows, places = np.unique(np.array(new), return_inverse=True)
            left, right = places.reshape(-1, 2).T
            conflicts = _conflicts()
            flags = conflicts.between(conflicts.facts(self._texts_at(rows)), left, right)
            known |= zip(new, np.any(flags, axis=1).tolist(), strict=True)
            for pair in new:
                keep(self._conflicting, pair, known[pair])
        return [known[pair] for pair in asked]

    def _grams_of(self, rows: Ints) -> dict[int, Ints]:
        """The trigrams of each of the texts `rows`, in their order."""
        grams = {row: self._grams.get(row) for row in rows.tolist()}
        new = [row for row, gram in grams.items() if gram is None]
        for row, text in zip(new, self._texts_at(np.array(new)) if new else (), strict=True):
            grams[row] = _trigrams(text)
            keep(self._grams, row, grams[row])
        return cast("dict[int, Ints]", grams)

    def subset(self, rows: Ints) -> Repeats:
        """The texts of some rows, numbered from 0: for a process without the index."""
        return Repeats(self._texts_at(rows), self._owners.take(rows).alone())

    def _texts_at(self, rows: Ints) -> list[str]:
        texts = [self._texts[row] for row in rows.tolist()]
        if isinstance(self._texts, pa.ChunkedArray):
            texts = [text.as_py() for text in texts]
        # The date of a log is not what it says.
        in_log = self._owners.in_log[rows].tolist()
        return [without_moment(text) if is_log else text for text, is_log in zip(texts, in_log, strict=True)]


@dataclass(frozen=True)
class Texts:
    """The texts of candidates, by their rows in `repeats`."""

    repeats: Repeats
    row: Ints

    def take(self, rows: slice) -> Texts:
        """Those of some candidates."""
        return Texts(self.repeats, self.row[rows])

    def alone(self) -> Texts:
        """The same without other texts: for a process without the index."""
        texts, row = np.unique(self.row, return_inverse=True)
        return Texts(self.repeats.subset(texts), row)


def _pairs(heads: int, size: int) -> Ints:
    """Each of the first `heads` of so many places with each place after it, as `np.triu_indices` has them."""
    first = np.arange(min(heads, size))
    sizes = size - 1 - first
    return np.stack([first.repeat(sizes), ranges(first + 1, sizes)], axis=1)


def keep(cache: dict[Any, Any], key: object, value: object, most: int = _KEPT) -> None:
    """Put a value into a cache, which is emptied first where it has so many."""
    if len(cache) >= most:
        cache.clear()
    cache[key] = value


@cache
def _conflicts() -> Conflicts:
    from memkit.text.conflicts import Conflicts  # reads statements, which few searches need

    return Conflicts()


def _trigrams(text: str) -> Ints:
    """The distinct trigrams of a text, as numbers; case and repeated blanks do not count."""
    plain = " ".join(text.casefold().split())
    signs = np.frombuffer(f"{plain:\0<3}".encode("utf-32-le", "replace"), np.uint32).astype(np.int64)
    # A code point has 21 bits.
    return distinct((signs[:-2] << 42) + (signs[1:-1] << 21) + signs[2:])


# `text.facts.n_shared` counts many pairs at once, but has no room: trigrams as numbers take all 63 bits.
def _n_shared(left: Ints, right: Ints) -> int:
    """How many numbers two ascending lists share; a stable sort only merges them."""
    both = np.sort(np.concatenate([left, right]), kind="stable")
    return int(np.count_nonzero(both[1:] == both[:-1]))


def _bits(texts: Sequence[str]) -> NDArray[np.uint8]:
    """The bit vector of each text: each hashed trigram sets one bit; all texts are processed at once.

    Three zeros separate texts; the five windows that have one of them set bits of a row that is left out.
    """
    # Each text has a trigram, as it is filled up with \1.
    joined = "\0\0\0".join([f"{text.strip():\1<3}".replace("\0", "\1") for text in texts])
    signs = _signs(joined)
    if (signs == _SEVERAL).any():
        signs = _signs(joined.casefold())
    blank = signs == ord(" ")
    if (repeated := blank[1:] & blank[:-1]).any():
        signs = signs[np.append(True, ~repeated)]
    # Multiplied by the primes of XXH32; 32 bits hold the places too, as few texts are read at once.
    number = signs[:-2] * np.uint32(0x9E3779B1)
    number ^= signs[1:-1] * np.uint32(0x85EBCA77)
    number += signs[2:] * np.uint32(0xC2B2AE3D)
    number >>= np.uint32(32 - _BITS.bit_length() + 1)
    ends = np.append(np.flatnonzero(signs == 0)[2::3] + 1, len(signs) + 3)
    sizes, rows = np.full((len(ends), 2), 5), np.full((len(ends), 2), len(ends), np.uint32)
    sizes[:, 0], rows[:, 0] = np.diff(ends, prepend=0) - 5, np.arange(len(ends))
    number += np.repeat(rows * np.uint32(_BITS), sizes.ravel())[: len(number)]
    is_set = np.zeros((len(ends) + 1, _BITS), bool)
    is_set.ravel()[number] = True
    return np.packbits(is_set[:-1], axis=1)


def _sizes(bits: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """How many bits are set in each row."""
    sizes: NDArray[np.uint16] = np.bitwise_count(bits.view(np.uint64)).sum(axis=1, dtype=np.uint16)
    return sizes


def _shared_bits(bits: NDArray[np.uint8], left: Ints, right: Ints) -> NDArray[np.uint16]:
    """How many bits are set in both rows of each pair.

    A matrix product would be shared among threads, and where other processes use the cores, these wait for each other:
    for 100 and 300 rows that took 25 to 40 times the processor time of the work.
    """
    blocks = [slice(start, start + _PAIRS_AT_ONCE) for start in range(0, len(left), _PAIRS_AT_ONCE)]
    return np.concatenate([np.empty(0, np.uint16), *(_sizes(bits[left[some]] & bits[right[some]]) for some in blocks)])


def _signs(text: str) -> NDArray[np.uint32]:
    """The characters of a text, case-folded, blanks as spaces; those beyond the first Unicode plane are one."""
    signs = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
    folded: NDArray[np.uint32] = _folded().take(signs, mode="clip")  # a third of the time of `str.casefold`
    return folded


@cache
def _folded() -> NDArray[np.uint32]:
    """Each character of the first plane, case-folded; `_SEVERAL` for those that become more than one."""
    every = np.arange(1 << 16, dtype=np.uint32).tobytes().decode("utf-32-le", "surrogatepass")
    letters = re.sub(_EXPANDING, chr(_SEVERAL), every).casefold()
    folded = np.frombuffer(letters.encode("utf-32-le", "surrogatepass"), np.uint32).copy()
    folded[[blank.start() for blank in re.finditer(r"\s", every[:0x3001])]] = ord(" ")  # the last is U+3000
    return folded


@dataclass(frozen=True)
class Likeness:
    """The pairwise similarity of chunks: cosines of vectors, or Jaccard similarity of terms.

    Attributes
    ----------
    rows : ndarray of int64, or None
        The chunks, ascending; None: all.
    features : ndarray, or list of list of str
        The vector, or the terms, of each.
    """

    rows: Ints | None
    features: Any

    def __call__(self, rows: Ints) -> Floats:
        features = self._features_of(rows)
        return pairwise_cosines(features) if isinstance(features, np.ndarray) else jaccard(features)

    def among(self, rows: Ints) -> Likeness:
        """The similarity of a few chunks, ascending, with their features alone."""
        return Likeness(rows, self._features_of(rows))

    def _features_of(self, rows: Ints) -> Any:
        index = rows if self.rows is None else np.searchsorted(self.rows, rows)
        is_array = isinstance(self.features, np.ndarray)
        return self.features[index] if is_array else [self.features[number] for number in index.tolist()]


@dataclass(frozen=True)
class Alike:
    """How alike candidates are, by their rows in `likeness`."""

    likeness: Likeness
    row: Ints

    def take(self, rows: slice) -> Alike:
        """That of some candidates."""
        return Alike(self.likeness, self.row[rows])

    def among(self, rows: Ints) -> Floats:
        """The similarity of each two of some candidates."""
        return self.likeness(self.row[rows])

    def alone(self) -> Alike:
        """The same without other chunks: for a process without the index."""
        return Alike(self.likeness.among(np.unique(self.row)), self.row)


def pairwise_cosines(vectors: NDArray[np.float32]) -> Floats:
    """The cosine of each pair of unit vectors, 0 for negative ones, rounded to 12 digits."""
    return np.maximum(cosines(vectors, vectors, digits=_DIGITS), 0.0)


def jaccard(terms: Sequence[Sequence[str]]) -> Floats:
    """The Jaccard similarity of each pair of texts, by their terms; two texts without terms are unlike, not the same.

    Examples
    --------
    >>> jaccard([["пул", "соединений"], ["пул"], [], []])[0].tolist()
    [1.0, 0.5, 0.0, 0.0]
    >>> jaccard([[], []]).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    known: dict[str, int] = {}
    sets = [{known.setdefault(term, len(known)) for term in text} for text in terms]
    holds = np.zeros((len(sets), max(len(known), 1)), np.float32)
    for row, columns in enumerate(sets):
        holds[row, list(columns)] = 1.0
    shared = holds @ holds.T
    size = holds.sum(axis=1)
    either = size[:, None] + size[None, :] - shared
    ratio: Floats = np.divide(shared, either, out=np.zeros_like(shared), where=either > 0).astype(np.float64)
    return ratio
