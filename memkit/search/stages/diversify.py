"""What hits have in common: repetitions fold under the best of them, and the next hit is unlike those already picked.

The latter is maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): greedily the largest of
lambda x score - (1 - lambda) x the largest similarity to any hit picked so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.schemas import Floats, Ints
from memkit.search.stages.fuse import TIE_DIGITS
from memkit.text.conflicts import Conflicts

_REMAINDERS = 509
_DOUBT = 0.15


def mmr(score: Floats, similarity: Floats, mmr_lambda: float, depth: int | None = None) -> tuple[Ints, Floats]:
    """The order of the candidates of one query, and what each lost by likeness.

    Parameters
    ----------
    score : ndarray of float64, shape (n,)
        Best first: ties go to the earlier candidate.
    similarity : ndarray of float64, shape (n, n)
        0 for unlike, 1 for the same.
    mmr_lambda : float
        1 leaves the order as it is; 0 looks at likeness alone.
    depth : int, optional
        How many to pick; the rest keeps its order behind them. Picks do not depend on it.

    Returns
    -------
    order : ndarray of int64, shape (n,)
        Positions in `score`, picked first to last.
    penalty : ndarray of float64, shape (n,)
        (1 - lambda) x the largest similarity to those picked above, by position in `score`.

    Examples
    --------
    >>> twins = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> order, penalty = mmr(np.array([1.0, 0.9, 0.8]), twins, 0.5)
    >>> order.tolist(), penalty.tolist()
    ([0, 2, 1], [0.0, 0.5, 0.0])
    """
    size = len(score)
    picks = size if depth is None else min(depth, size)
    nearest = np.zeros(size)
    left = np.ones(size, bool)
    order: list[int] = []
    for _ in range(picks):
        value = mmr_lambda * score - (1.0 - mmr_lambda) * nearest
        best = int(np.argmax(np.where(left, np.round(value, TIE_DIGITS), -np.inf)))
        order.append(best)
        left[best] = False
        nearest[left] = np.maximum(nearest[left], similarity[best, left])
    return np.concatenate([np.array(order, np.int64), np.flatnonzero(left)]), (1.0 - mmr_lambda) * nearest


def fold(texts: Sequence[str], threshold: float, owners: Sequence[str | None] = ()) -> Ints:
    """Under which text each of them folds, its own place where it stays; greedily from the top, so nothing above moves.

    Parameters
    ----------
    texts : sequence of str
        Best first.
    threshold : float
        The cosine of two texts' sets of trigrams from which they say the same, unless a number, a date or a negation
        in like places differs.
    owners : sequence of str or None
        Whose each text is: what two owners say is two things, as nobody's is a third. Empty: all are of one.

    Examples
    --------
    >>> fold(["Пул соединений: десять", "пул соединений - десять", "Пул соединений: пять", "чай"], 0.6).tolist()
    [0, 0, 2, 3]
    """
    under = np.arange(len(texts))
    if len(texts) < 2:
        return under
    repeats = Repeats(texts, owners or [None] * len(texts))
    near = np.tril(repeats.likely(under, threshold), -1)
    for at in np.flatnonzero(near.any(axis=1)).tolist():
        for above in np.flatnonzero(near[at]).tolist():
            if under[above] == above and repeats.same(at, above, threshold):
                under[at] = above
                break
    return under


class Repeats:
    """Which of some texts say the same, found out as far as it is asked for.

    Parameters
    ----------
    texts, owners
        As for `fold`.
    """

    def __init__(self, texts: Sequence[str], owners: Sequence[str | None]) -> None:
        self._texts, self._conflicts = texts, Conflicts()
        known: dict[str | None, int] = {}
        self._owner = np.array([known.setdefault(owner, len(known)) for owner in owners], np.int64)
        self._grams: dict[int, Ints] = {}
        self._sketches: dict[int, NDArray[np.float32]] = {}
        self._told_apart: dict[tuple[int, int], bool] = {}

    def likely(self, some: Ints, threshold: float) -> NDArray[np.bool_]:
        """Which pairs of the texts `some` may reach the threshold, and are of one owner.

        Most pairs are told apart by how often each remainder occurs among their trigrams' numbers, in one product.
        """
        sketches = np.stack([self._sketch(at) for at in some.tolist()])
        owner = self._owner[some]
        near: NDArray[np.bool_] = (sketches @ sketches.T >= threshold - _DOUBT) & (owner[:, None] == owner)
        return near

    def same(self, one: int, other: int, threshold: float) -> bool:
        """Whether they share so much, and no number, date or negation keeps them apart."""
        return self.shared(one, other) >= threshold * self.most(one, other) and not self._apart(one, other)

    def shared(self, one: int, other: int) -> int:
        """How many trigrams two texts share."""
        return len(np.intersect1d(self._gram(one), self._gram(other), assume_unique=True))

    def most(self, one: int, other: int) -> float:
        """How many they would share if they were the same."""
        return float((len(self._gram(one)) * len(self._gram(other))) ** 0.5)

    def _apart(self, one: int, other: int) -> bool:
        pair = (min(one, other), max(one, other))
        if pair not in self._told_apart:
            self._told_apart[pair] = any(self._conflicts(self._texts[pair[0]], self._texts[pair[1]]))
        return self._told_apart[pair]

    def _gram(self, at: int) -> Ints:
        if at not in self._grams:
            self._grams[at] = _trigrams(self._texts[at])
        return self._grams[at]

    def some(self, texts: Ints) -> Repeats:
        """The same of some of the texts, whose places there are theirs."""
        return Repeats([self._texts[at] for at in texts.tolist()], [str(at) for at in self._owner[texts].tolist()])

    def _sketch(self, at: int) -> NDArray[np.float32]:
        if at not in self._sketches:
            sketch = np.bincount(self._gram(at) % _REMAINDERS, minlength=_REMAINDERS).astype(np.float32)
            self._sketches[at] = sketch / np.linalg.norm(sketch)
        return self._sketches[at]


def _trigrams(text: str) -> Ints:
    """The different trigrams of a text, case-folded, with blanks as one, as numbers."""
    plain = " ".join(text.casefold().split())
    signs = np.frombuffer(f"{plain:\0<3}".encode("utf-32-le", "replace"), np.uint32).astype(np.int64)
    return np.unique((signs[:-2] << 42) + (signs[1:-1] << 21) + signs[2:])


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
        return cosines(self.held[at]) if is_vectors else jaccard([self.held[place] for place in at.tolist()])

    def among(self, rows: Ints) -> Likeness:
        """That of a few chunks, rising, with what is known of these alone."""
        at = self._places(rows)
        is_vectors = isinstance(self.held, np.ndarray)
        return Likeness(rows, self.held[at] if is_vectors else [self.held[place] for place in at.tolist()])

    def _places(self, some: Ints) -> Ints:
        return some if self.rows is None else np.searchsorted(self.rows, some)


def cosines(vectors: NDArray[np.float32]) -> Floats:
    """Similarity of unit vectors among each other, opposite ones counting 0.

    In double precision, so that no pair's depends on which others are asked for, beyond what is rounded off.
    """
    exact = vectors.astype(np.float64)
    likeness: Floats = np.clip(exact @ exact.T, 0.0, 1.0)
    return likeness


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
