"""What hits have in common: repetitions fold under the best of them, and the next hit is unlike those already picked.

The latter is maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): greedily the largest of
lambda x score - (1 - lambda) x the largest similarity to any hit picked so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from memkit.index.cosine import cosines
from memkit.schemas import Floats, Ints, Mask
from memkit.search.fitted.arms import taken
from memkit.search.stages.fuse import TIE_DIGITS
from memkit.text.conflicts import Conflicts

_DIGITS = 12
_BITS = 2048
_DOUBT = 0.15
_KEPT = 4096
_FEW, _FEW_KEPT = 400, 64
"""Texts of which it is kept how like each other they are, and of how many questions; some megabytes."""
_READ_AT_ONCE = 256
DROPPED = -1
"""The key of what a stage dropped."""
NOWHERE = np.iinfo(np.int64).max
"""The place of what is not shown."""
Keys = NDArray[np.signedinteger[Any]]
_LONGER = 1 << 30


def mmr(
    score: Floats,
    similarity: Floats,
    mmr_lambda: Floats | float,
    depth: int | None = None,
    order: Ints | None = None,
    alive: Ints | None = None,
) -> tuple[Ints, Floats]:
    """The places of the candidates of one query, and what each lost by likeness; a column a setting.

    Parameters
    ----------
    score : ndarray of float64, shape (n, settings)
        Best first: ties go to the earlier candidate.
    similarity : ndarray of float64, shape (candidates, candidates)
        0 for unlike, 1 for the same.
    mmr_lambda : float, or ndarray of float64, shape (settings,)
        1 leaves the order as it is; 0 looks at likeness alone.
    depth : int, optional
        How many to pick; the rest keeps its order behind them. Picks do not depend on it.
    order : ndarray of int64, shape (n, settings), optional
        Which candidate of `similarity` each one is; they are in its order unless given.
    alive : ndarray of int64, shape (settings,), optional
        How many take part, the first; all unless given.

    Returns
    -------
    place : ndarray of int64, shape (n, settings)
        From 0; `NOWHERE` for what takes no part.
    penalty : ndarray of float64, shape (n, settings)
        (1 - lambda) x the largest similarity to those picked above.

    Examples
    --------
    >>> twins = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> place, penalty = mmr(np.array([[1.0], [0.9], [0.8]]), twins, 0.5)
    >>> place[:, 0].tolist(), penalty[:, 0].tolist()
    ([0, 2, 1], [0.0, 0.5, 0.0])
    """
    size, columns = score.shape[0], np.arange(score.shape[1])
    order = np.broadcast_to(np.arange(size)[:, None], score.shape) if order is None else order
    taking_part = np.full(score.shape[1], size) if alive is None else alive
    left = np.arange(size)[:, None] < taking_part
    place, nearest, lost = np.full(score.shape, NOWHERE), np.zeros(score.shape), np.zeros(score.shape)
    gained, rest = np.where(left, mmr_lambda * score, -np.inf), 1.0 - mmr_lambda
    picks, value = size if depth is None else min(depth, size), np.empty(score.shape)
    for pick in range(picks):
        np.subtract(gained, np.multiply(nearest, rest, out=value), out=value)
        best = np.argmax(np.round(value, TIE_DIGITS, out=value), axis=0)
        is_one = pick < taking_part
        picked = best[is_one], columns[is_one]
        place[picked], lost[picked] = pick, nearest[picked]
        left[best, columns], gained[best, columns] = False, -np.inf
        np.maximum(nearest, similarity[order[best, columns], order], out=nearest)
    if picks < size:
        place[left] = (picks - 1 + left.cumsum(axis=0))[left]
    return place, rest * np.where(left, nearest, lost)


@dataclass(frozen=True)
class NearPairs:
    """Candidates of which some say nearly the same: trigrams that two share, and that they would if they were equal.

    Attributes
    ----------
    rows : ndarray of int64, shape (n,)
        Which candidates they are.
    shared, most : ndarray of float64, shape (n, n)
        `shared` is -1 for two that a number, a date or a negation keeps apart, or that share too little.
    """

    rows: Ints
    shared: Floats
    most: Floats

    @classmethod
    def among(cls, repeats: Repeats, texts: Ints, threshold: float, rows: Ints) -> NearPairs | None:
        """Those of `rows`, whose `texts` are rows of `repeats`, that any threshold from this on joins, if any."""
        likely = np.argwhere(np.triu(repeats.likely(texts, threshold), 1)).tolist() if len(texts) > 1 else []
        names = texts.tolist()
        pairs = [(a, b) for a, b in likely if repeats.same(names[a], names[b], threshold)]
        if not pairs:
            return None
        some = np.unique(pairs)
        shared, most = np.full((len(some), len(some)), -1.0), np.ones((len(some), len(some)))
        for a, b in pairs:
            one, other = np.searchsorted(some, (a, b))
            shared[[one, other], [other, one]] = repeats.shared(names[a], names[b])
            most[[one, other], [other, one]] = repeats.most(names[a], names[b])
        return cls(rows[some], shared, most)

    @cached_property
    def largest(self) -> int:
        """How many are alike at most, one by way of another."""
        _, label = connected_components(self.shared >= 0)
        return int(np.bincount(label).max())

    def same(self, at: Ints, threshold: Floats) -> Mask:
        """Which of `rows` say the same as the one of them that is `at`, by column."""
        if (threshold == threshold[0]).all():
            alike: Mask = self.shared >= threshold[0] * self.most
            return alike[:, at]
        same: Mask = self.shared[:, at] >= threshold * self.most[:, at]
        return same


def collapse(key: Keys, is_open: Mask, near: NearPairs, threshold: Floats) -> Keys:
    """The key of what each row of `near` stands under, its own where it stays; a column a setting.

    Greedily from the top, so that nothing above depends on what comes below.

    Parameters
    ----------
    key : ndarray of int, shape (n, settings)
        The larger ranks higher.
    is_open : ndarray of bool, shape (n, settings)
        Which ones take part.
    near : NearPairs
    threshold : ndarray of float64, shape (settings,)
        The cosine of two texts' sets of trigrams from which they say the same.
    """
    under = key.copy()
    most = int(is_open.sum(axis=0).max(initial=0))
    if most < 2:
        return under
    order = np.argsort(-np.where(is_open, key, DROPPED), axis=0, kind="stable")
    kept, columns = np.full_like(key, DROPPED), np.arange(key.shape[1])
    for at in order[:most]:
        above = np.where(near.same(at, threshold), kept, DROPPED).max(axis=0)
        own_key, takes_part = key[at, columns], is_open[at, columns]
        collapses = takes_part & (above >= 0)
        kept[at, columns] = np.where(takes_part & ~collapses, own_key, kept[at, columns])
        under[at, columns] = np.where(collapses, above, own_key)
    return under


class Repeats:
    """Which of some texts say the same, found out as far as it is asked for, and remembered.

    Parameters
    ----------
    texts : list of str or pa.ChunkedArray
    owner : ndarray of int64
        Whose each text is, by number.
    """

    def __init__(self, texts: list[str] | pa.ChunkedArray, owner: Ints) -> None:
        self._texts, self._owner = texts, owner
        self._bits = np.zeros((len(owner), _BITS // 8), np.uint8)  # takes no memory before it is written to
        self._is_read = np.zeros(len(owner), bool)
        self._grams: dict[int, Ints] = {}
        self._conflicting: dict[tuple[int, int], bool] = {}
        self._likely: dict[tuple[bytes, float], NDArray[np.bool_]] = {}

    def likely(self, some: Ints, threshold: float) -> NDArray[np.bool_]:
        """Which pairs of the texts `some` may reach the threshold, and are of one owner.

        Most pairs are told apart by the bits that the trigrams of both set, in one product. A question that is asked
        again, as while a slider moves, has the same candidates.
        """
        known = (some.tobytes(), threshold)
        if known in self._likely:
            return self._likely[known]
        self.read(some)
        bits = np.unpackbits(self._bits[some], axis=1).astype(np.float32)
        shared, owner = bits @ bits.T, self._owner[some]
        size = np.sqrt(shared.diagonal())
        near: NDArray[np.bool_] = (shared >= (threshold - _DOUBT) * size * size[:, None]) & (owner[:, None] == owner)
        if len(some) <= _FEW:
            _keep(self._likely, known, near, _FEW_KEPT)
        return near

    def read(self, rows: Ints) -> None:
        """Have the bits of `rows` at hand: read together they cost less."""
        new = np.unique(rows[~self._is_read[rows]])
        for start in range(0, len(new), _READ_AT_ONCE):
            some = new[start : start + _READ_AT_ONCE]
            self._bits[some] = _bits(self._texts_at(some))
            self._is_read[some] = True  # not before they are there: another thread may look

    def same(self, one: int, other: int, threshold: float) -> bool:
        """Whether they share so much, and no number, date or negation keeps them apart."""
        return self.shared(one, other) >= threshold * self.most(one, other) and not self._conflict(one, other)

    def shared(self, one: int, other: int) -> int:
        """How many trigrams two texts share."""
        return len(np.intersect1d(self._gram(one), self._gram(other), assume_unique=True))

    def most(self, one: int, other: int) -> float:
        """How many they would share if they were the same."""
        return float((len(self._gram(one)) * len(self._gram(other))) ** 0.5)

    def _conflict(self, one: int, other: int) -> bool:
        pair = (min(one, other), max(one, other))
        apart = self._conflicting.get(pair)
        if apart is None:
            apart = any(_conflicts()(*self._texts_at(np.array(pair))))
            _keep(self._conflicting, pair, apart)
        return apart

    def _gram(self, at: int) -> Ints:
        gram = self._grams.get(at)
        if gram is None:
            gram = _trigrams(self._texts_at(np.array([at]))[0])
            _keep(self._grams, at, gram)
        return gram

    def subset(self, rows: Ints) -> Repeats:
        """The same of some rows, whose places there are theirs: for a process that has no index."""
        return Repeats(self._texts_at(rows), self._owner[rows])

    def _texts_at(self, rows: Ints) -> list[str]:
        if isinstance(self._texts, list):
            return [self._texts[row] for row in rows.tolist()]
        texts: list[str] = taken(self._texts, rows).to_pylist()
        return texts


def _keep(known: dict[Any, Any], key: object, value: object, most: int = _KEPT) -> None:
    if len(known) >= most:
        known.clear()
    known[key] = value


@cache
def _conflicts() -> Conflicts:
    return Conflicts()


def _trigrams(text: str) -> Ints:
    """The different trigrams of a text, case-folded, with blanks as one, as numbers."""
    plain = " ".join(text.casefold().split())
    signs = np.frombuffer(f"{plain:\0<3}".encode("utf-32-le", "replace"), np.uint32).astype(np.int64)
    return np.unique((signs[:-2] << 42) + (signs[1:-1] << 21) + signs[2:])


def _bits(texts: Sequence[str]) -> NDArray[np.uint8]:
    """For each text a row of bits, of which each of its trigrams sets one; all texts in one go, as they are many.

    Three zeros stand between texts, so that a window over signs lies in one text where its ends do.
    """
    signs = _signs(texts)
    if (signs == _LONGER).any():
        signs = _signs([text.casefold() for text in texts])
    blank = signs == ord(" ")
    if (repeated := blank[1:] & blank[:-1]).any():
        signs = signs[np.append(True, ~repeated)]
    number = signs[:-2] * np.uint32(0x9E3779B1) ^ signs[1:-1] * np.uint32(0x85EBCA77)
    number = (number + signs[2:] * np.uint32(0xC2B2AE3D)) >> np.uint32(32 - _BITS.bit_length() + 1)
    within = (signs[:-2] != 0) & (signs[2:] != 0)
    ends = np.append(np.flatnonzero(signs == 0)[2::3], len(number) - 1)
    text = np.repeat(np.arange(len(texts)), np.diff(ends, prepend=-1))
    is_set = np.zeros(len(texts) * _BITS, bool)
    is_set[(text * _BITS + number)[within]] = True
    return np.packbits(is_set.reshape(-1, _BITS), axis=1)


def _signs(texts: Sequence[str]) -> NDArray[np.uint32]:
    joined = "\0\0\0".join([f"{text.strip():\1<3}".replace("\0", "\1") for text in texts])
    return _folding().take(np.frombuffer(joined.encode("utf-32-le", "replace"), np.uint32), mode="clip")


@cache
def _folding() -> NDArray[np.uint32]:
    """Each sign of the first plane case-folded, a blank where it is one, `_LONGER` where it becomes several."""
    folded = [" " if sign.isspace() else sign.casefold() for sign in map(chr, range(1 << 16))]
    return np.array([ord(sign) if len(sign) == 1 else _LONGER for sign in folded], np.uint32)


@dataclass(frozen=True)
class Likeness:
    """How like each other any of some chunks are: by cosines, or by shared terms.

    Attributes
    ----------
    rows : ndarray of int64, or None
        The chunks, rising; None is all there are.
    held : ndarray, or list of list of str
        The vector, or the terms, of each.
    """

    rows: Ints | None
    held: Any

    def __call__(self, some: Ints) -> Floats:
        at = self._places(some)
        is_vectors = isinstance(self.held, np.ndarray)
        return alike(self.held[at]) if is_vectors else jaccard([self.held[place] for place in at.tolist()])

    def among(self, rows: Ints) -> Likeness:
        """That of a few chunks, rising, with what is known of these alone."""
        at = self._places(rows)
        is_vectors = isinstance(self.held, np.ndarray)
        return Likeness(rows, self.held[at] if is_vectors else [self.held[place] for place in at.tolist()])

    def _places(self, some: Ints) -> Ints:
        return some if self.rows is None else np.searchsorted(self.rows, some)


def alike(vectors: NDArray[np.float32]) -> Floats:
    """Cosines of unit vectors among each other, opposite ones counting 0; of many digits, to be weighed."""
    return np.maximum(cosines(vectors, vectors, digits=_DIGITS), 0.0)


def jaccard(terms: Sequence[Sequence[str]]) -> Floats:
    """Shared terms by terms in either, for each pair; two texts without any term are unlike, not the same.

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
