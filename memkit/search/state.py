"""What ranking works on: the candidates of some queries, and the columns that steps compute of them.

`merge` joins the candidates of the arms. A `Shortlist` has the values that steps read, a row a candidate. A `State` has
what they compute, a row a candidate and a column a setting. `Ranked` is the result for one setting.

A candidate's *key* under a setting is a unique integer, larger for a higher rank: its score in units of `UNIT`, then
its row. A dropped candidate has the key `DROPPED`. A place is thus a count of larger keys, and many settings need no
sorting, which takes 22 times as long (240 candidates, 512 settings, 2 wanted).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import DROPPED, TIE_DIGITS, Keys

T = TypeVar("T")
Value = TypeVar("Value", bound=np.generic)
UNIT = 10.0**TIE_DIGITS
"""Scores are compared in units of 1 / `UNIT`; equal units tie."""
RETURNED = "returned"
"""The disposition of a hit."""
# Of a file of 9,000 lines one hit of ten was left, with a pool of 2,000 as well; now ten are. The number is a guess.
COUNTED = 10
"""Of a memory so many chunks count among the candidates of an arm, or one long file would leave room for no other."""


def changes(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each value differs from the one before it; the first always does."""
    differs = np.empty(len(column), bool)
    differs[:1] = True
    np.not_equal(column[1:], column[:-1], out=differs[1:])
    return differs


def group_starts(query: Ints) -> Ints:
    """The index at which each query begins in the sorted column `query`."""
    return changes(query).nonzero()[0]


def spread(values: NDArray[Value], starts: Ints, size: int) -> NDArray[Value]:
    """One value per query, repeated for each of its rows."""
    ends = np.empty_like(starts)  # np.diff would take as long as all the rest
    ends[:-1], ends[-1:] = starts[1:], size
    return values.repeat(ends - starts)


def rank_within(query: Ints, score: Floats) -> Ints:
    """Rank of each row within its query, 1 for the highest score; ties share the better rank.

    Examples
    --------
    >>> rank_within(np.array([0, 0, 0, 1]), np.array([0.5, 0.9, 0.5, 0.1])).tolist()
    [2, 1, 2, 1]
    """
    rounded = score.round(TIE_DIGITS)
    order = np.lexsort((-rounded, query))
    place = np.arange(len(order))
    query_start = changes(query[order])
    run_start = query_start | changes(rounded[order])
    first_of_run = np.maximum.accumulate(np.where(run_start, place, 0))
    first_of_query = np.maximum.accumulate(np.where(query_start, place, 0))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = first_of_run - first_of_query + 1
    return ranks


def counting(query: Ints, memory: Ints) -> Mask:
    """Which chunks, best first in each query, are among the best `COUNTED` of their `memory`."""
    order = np.lexsort((memory, query))
    starts = np.flatnonzero(changes(query[order]) | changes(memory[order]))
    counts = np.empty(len(query), bool)
    counts[order] = np.arange(len(query)) - spread(starts, starts, len(query)) < COUNTED
    return counts


class Candidates(NamedTuple):
    """Chunks that at least one arm retrieved, sorted by query and row.

    Attributes
    ----------
    arms : tuple of str
        The arms, which name the columns of `raw` and `rank`.
    query, row : ndarray of int64, shape (n,)
        Number of the query, row of the chunk.
    raw : ndarray of float64, shape (n, arms)
        The arm's raw score; NaN if it did not retrieve the chunk.
    rank : ndarray of int64, shape (n, arms)
        Rank within the arm, from 1; ties share the better one; 0 if it did not retrieve the chunk.
    depth : int
        Candidates per query and arm (num_candidates).
    scale : ndarray of float64, shape (n_queries, arms, 2)
        The scores of each arm that calibration maps to 0 and 1.
    """

    arms: tuple[str, ...]
    query: Ints
    row: Ints
    raw: Floats
    rank: Ints
    depth: int
    scale: Floats

    def take(self, index: Ints) -> Self:
        """The candidates at `index`, in that order."""
        some = self.query[index], self.row[index], self.raw[index], self.rank[index]
        return type(self)(self.arms, *some, self.depth, self.scale)

    def followed_by(self, other: Self) -> Self:
        """These candidates, then those of `other`, of the same arms."""
        columns: Any = zip(self[1:5], other[1:5], strict=True)
        query, row, raw, rank = map(np.concatenate, columns)
        return self._replace(query=query, row=row, raw=raw, rank=rank)

    @staticmethod
    def within(query: Ints, depth: int, memory: Ints | None = None) -> Mask:
        """Which chunks, best first in each query, are among the best `depth`, or among the best `depth` that count.

        Examples
        --------
        >>> Candidates.within(np.repeat(0, 14), 2, np.array([*[7] * 12, 8, 9])).nonzero()[0].tolist()
        [0, 1]
        >>> Candidates.within(np.repeat(0, 14), 11, np.array([*[7] * 12, 8, 9])).nonzero()[0].tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]
        """
        starts, size = group_starts(query), len(query)
        is_best: Mask = np.arange(size) - spread(starts, starts, size) < depth
        if memory is None:
            return is_best
        counts = counting(query, memory)
        above: Ints = np.cumsum(counts) - counts
        return is_best | (counts & (above - spread(above[starts], starts, size) < depth))

    def narrowed(self, arms: tuple[str, ...], depth: int, crowd: Ints | None = None) -> Self:
        """The candidates of fewer `arms`, fewer by arm, as these would be retrieved; `crowd` is the index's."""
        if arms == self.arms and depth == self.depth:
            return self
        columns = [self.arms.index(arm) for arm in arms]
        raw, rank = self.raw[:, columns], self.rank[:, columns]
        for column in range(len(arms)):
            # An arm breaks ties by row, and so does a stable sort.
            order = np.lexsort((-raw[:, column], self.query))
            beyond = order[~self.within(self.query, depth, None if crowd is None else crowd[self.row[order]])]
            raw[beyond, column], rank[beyond, column] = np.nan, 0
            if crowd is not None:  # some between the others may be gone
                left = np.flatnonzero(rank[:, column])
                rank[left, column] = rank_within(self.query[left], raw[left, column])
        kept = np.flatnonzero(rank.any(axis=1))
        return type(self)(arms, self.query[kept], self.row[kept], raw[kept], rank[kept], depth, self.scale[:, columns])


def merge(answers: Mapping[str, pa.Table], n_rows: int, depth: int = 0, scale: Floats | None = None) -> Candidates:
    """Join the candidates of each arm (columns query, row, score); rows whose score is not a number are dropped.

    Examples
    --------
    >>> bm25 = pa.table({"query": [0, 0], "row": [2, 0], "score": [3.0, 1.0]})
    >>> vector = pa.table({"query": [0], "row": [1], "score": [0.5]})
    >>> both = merge({"bm25": bm25, "vector": vector}, n_rows=3, depth=2)
    >>> both.row.tolist(), both.rank.tolist()
    ([0, 1, 2], [[2, 0], [0, 1], [1, 0]])
    >>> both.narrowed(("bm25",), depth=1).row.tolist()
    [2]
    """
    columns = [[table[name].to_numpy() for name in ("query", "row", "score")] for table in answers.values()]
    query, row, score = (np.concatenate(column) for column in zip(_NOTHING, *columns, strict=True))
    arm = np.repeat(np.arange(len(columns)), [len(table) for table in answers.values()])
    if not (is_number := np.isfinite(score)).all():
        query, row, score, arm = query[is_number], row[is_number], score[is_number], arm[is_number]
    union, index = np.unique(query * n_rows + row, return_inverse=True)
    raw = np.full((len(union), len(answers)), np.nan)
    rank = np.zeros(raw.shape, np.int64)
    raw[index, arm] = score
    rank[index, arm] = rank_within(arm * (query.max(initial=0) + 1) + query, score)  # the ranks of all arms at once
    query, row = np.divmod(union, max(n_rows, 1))
    scale = np.tile([0.0, 1.0], (query.max(initial=0) + 1, len(answers), 1)) if scale is None else scale
    return Candidates(tuple(answers), query, row, raw, rank, depth, scale)


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Pooled:
    """Candidates of queries to one index, with what steps look up for them.

    Attributes
    ----------
    index : MemoryIndex
    candidates : Candidates
        Their queries are numbered by position in `texts`.
    texts : sequence of str
        The queries.
    moment, until : ndarray of datetime64, shape (n_queries,)
        The moment of each query, and by when a memory is stale for it; NaT where nothing is.
    sights : sequence of Sight
        The terms that each query may see.
    hit : str
        What a hit is: a memory, a chunk or a file.
    shown_scale : tuple or None
        Of a question, the scale on which its trace shows the arms' scores.
    """

    index: Any
    candidates: Candidates
    texts: Sequence[str]
    moment: NDArray[np.datetime64]
    until: NDArray[np.datetime64]
    sights: Sequence[Any] = ()
    hit: str = "memory"
    shown_scale: tuple[str, float] | None = None

    @cached_property
    def memory(self) -> Ints:
        """The row of each candidate's memory."""
        rows: Ints = self.index.rows.memory[self.candidates.row]
        return rows


@dataclass(frozen=True)
class Groups:
    """Groups of rows that compete with each other, laid end to end."""

    rows: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def sharing(cls, label: Ints) -> Groups | None:
        """The groups of rows with equal labels; None if no two rows share a label."""
        order = np.argsort(label, kind="stable")
        starts = group_starts(label[order])
        if len(starts) == len(label):
            return None
        sizes = np.append(starts[1:], len(label)) - starts
        several = np.repeat(sizes > 1, sizes)
        sizes = sizes[sizes > 1]
        return cls(order[several], np.cumsum(sizes) - sizes, sizes)

    def best(self, keys: Keys) -> Keys:
        """For each of `rows` the largest of the `keys` in its group."""
        largest: Keys = np.repeat(np.maximum.reduceat(keys, self.starts, axis=0), self.sizes, axis=0)
        return largest


@dataclass
class Shortlist:
    """The candidates of one query or several, sorted by query and row, with the values that steps read of them.

    Attributes
    ----------
    query : ndarray of int64, shape (n,)
    memory : ndarray of int64, shape (n,)
        The memory (or file, where a hit is one).
    values : dict
        By name, what the steps gathered: arrays with a row a candidate, what has ``take(rows)``, and constants.
    per_memory : bool
        Whether a hit is a memory or a file, or else a chunk.
    """

    query: Ints
    memory: Ints
    values: dict[Hashable, Any]
    per_memory: bool
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.query)

    def take(self, rows: slice) -> Shortlist:
        """Some of the candidates, those of whole queries."""
        values = self.values.copy()
        for name, value in values.items():
            if isinstance(value, np.ndarray) or hasattr(value, "take"):
                values[name] = value[rows] if isinstance(value, np.ndarray) else value.take(rows)
        return Shortlist(self.query[rows], self.memory[rows], values, self.per_memory)

    def alone(self) -> Shortlist:
        """The same for a process without the index."""
        alone = {name: value.alone() if hasattr(value, "alone") else value for name, value in self.values.items()}
        return Shortlist(self.query, self.memory, alone, self.per_memory)

    @cached_property
    def queries(self) -> list[slice]:
        """The slice of the candidates of each query."""
        starts = group_starts(self.query).tolist()
        return [slice(*ends) for ends in pairwise([*starts, len(self)])]

    @cached_property
    def tie_order(self) -> Keys:
        """The order of equal scores; the larger comes first."""
        return np.arange(len(self))[::-1][:, None]

    def once(self, name: str, key: object, compute: Callable[[], T]) -> T:
        """What `compute` returns for a `key`; the last answer is kept, as the next block often asks for the same."""
        if name not in self.kept or self.kept[name][0] != key:
            self.kept[name] = key, compute()
        answer: T = self.kept[name][1]
        return answer

    def sharing(self, name: str, label: Ints) -> Groups | None:
        """The groups of a query's candidates with equal labels, made once under this name; None if no two share one."""
        return self.once(name, True, lambda: Groups.sharing(self.query * (label.max(initial=0) + 1) + label))

    def tell(self, step: str, whom: str, rows: Ints, values: Floats) -> None:
        """Keep what a step was told of the candidates `rows`."""
        told = np.full(len(self), np.nan)
        told[rows] = values
        self.values[step, whom] = told


class State:
    """What the steps have computed, a row a candidate and a column a setting; each step updates it.

    Parameters
    ----------
    shortlist : Shortlist
    followed : ndarray of int64
        The candidates, ascending, for which the candidate that they are collapsed under is known.
    codes : dict of str to int, optional
        The dispositions, where there is one setting and each step's result is kept for hits and trace.
    keeps_score : bool
        Whether a step that acts after keys are made reads scores; else their array is reused.

    Attributes
    ----------
    records : bool
        Whether each step's result is kept.
    score : ndarray of float64, shape (n, columns)
    out : ndarray of bool, shape (n, columns), or None
        Candidates that are none under a setting: no arm with a weight found them, or another chunk is better.
    lost : ndarray of bool, shape (n, columns), or None
        Candidates that were dropped before there are keys.
    is_bounded : bool
        Whether all scores are within 0 and 1.
    norm : ndarray of float64, shape (n, arms)
        The arms' scores on one scale.
    own : ndarray of int, shape (followed, columns)
        The keys before anything is collapsed; of all candidates where results are kept.
    column : ndarray of int64, shape (settings,)
        The column of each setting, as far as its steps differ.
    floor : ndarray of int64, shape (settings,)
        The least key of a hit, by setting. Candidates below it keep their keys.
    moves : callable or None
        ``moves(state, place, depth, query)``: the places that a step gives the candidates of a query instead.
    moved_word : str
        The disposition of what that moves beyond the hits.
    compared : list of (int, callable)
        Of each step that collapses, the most that it can have collapsed under one, and a function to count it.
    enough : int
        How many first hits of a query are asked for, if no step that acts later may drop one; else that of all.
    undone : list of (str, ndarray)
        Dispositions, each with the scores before the step that `blames` them.
    recorded : dict of str to ndarray of float64, shape (n,)
        The numbers that steps add to a trace.
    disposition : ndarray of int8, shape (n,)
    under : ndarray of int64, shape (n,)
        The candidate under which each is collapsed, else -1.
    """

    def __init__(
        self,
        shortlist: Shortlist,
        followed: Ints,
        codes: Mapping[str, int] | None = None,
        keeps_score: bool = True,
    ) -> None:
        self.shortlist, self.followed, self.codes, self._keeps_score = shortlist, followed, codes or {}, keeps_score
        self.records = bool(codes)
        self.score = np.zeros((len(shortlist), 1))
        self.out: Mask | None = None
        self.lost: Mask | None = None
        self.is_bounded, self.column = True, np.zeros(1, np.int64)
        self.norm: Floats = np.empty(0)
        self.floor: Keys = np.zeros(1, np.int64)
        self.moves: Callable[[State, Ints, int | None, slice], Ints] | None = None
        self.moved_word = ""
        self.compared: list[tuple[int, Callable[[], int]]] = []
        self.enough = len(shortlist)
        self.recorded: dict[str, Floats] = {}
        self.undone: list[tuple[str, Floats]] = []
        size = len(shortlist) if codes else 0
        self.disposition, self.under = np.full(size, self.codes.get(RETURNED, 0), np.int8), np.full(size, -1)

    def __getitem__(self, name: Hashable) -> Any:
        return self.shortlist.values[name]

    @property
    def has_keys(self) -> bool:
        """Whether keys were made of the scores, or a line was drawn among them."""
        return "key" in self.__dict__ or bool(self.floor.any())

    def spread(self, parent: Ints | None) -> None:
        """Make a column of each that it continues by `parent`; None: they stay."""
        if parent is None:
            return
        for name in ("score", "out", "lost", "key", "own", "root"):
            if self.__dict__.get(name) is not None:
                setattr(self, name, np.take(getattr(self, name), parent, axis=1, mode="clip"))

    def record(self, name: str, values: Floats) -> None:
        """Keep a step's numbers, of the one setting, for hits and trace."""
        if self.records:
            self.recorded[name] = values

    def drop(self, rows: Mask, word: str) -> None:
        """Drop the candidates `rows`, a column a setting.

        Of one setting they get the disposition `word`, unless a step before dropped them.
        """
        if self.records:
            self.disposition[rows[:, 0] & (self.disposition == self.codes[RETURNED])] = self.codes[word]
        if self.has_keys:
            self._lose(self.key, rows)
        else:
            self.lost = rows if self.lost is None else self.lost | rows

    def _lose(self, key: Keys, rows: Mask) -> None:
        for root in () if self.records else self.root:  # what is collapsed under a dropped one goes with it
            np.putmask(root, ((key == root) & rows).any(axis=0), DROPPED)
        np.putmask(key, rows, DROPPED)

    @cached_property
    def units(self) -> Floats:
        """The scores in units, of which keys are made: no step after that changes a score."""
        units = np.multiply(self.score, UNIT, out=None if self._keeps_score else self.score)
        return np.rint(units, out=units)

    @cached_property
    def key(self) -> Keys:
        """The key of each candidate."""
        key = as_keys(self.units, self.shortlist.tie_order, self.is_bounded)
        if self.out is not None:
            np.putmask(key, self.out, DROPPED)
        self.own = key.copy() if self.records else key[self.followed]
        if self.lost is not None:
            self._lose(key, self.lost)
        return key

    @cached_property
    def root(self) -> Keys:
        """By candidate of `followed`, the key under which it is collapsed; its own if it is not."""
        return self.own.copy()

    def collapse(self, word: str, rows: Ints, under: Keys) -> None:
        """Collapse each of `rows` whose key in `under` is not its own; of one query, unless results are kept."""
        own = self.key[rows]
        lost = under != own
        if not lost.any():
            return
        if self.records:
            key, by_key = self.own[:, 0], self._by_key
            is_new = lost[:, 0] & (self.disposition[rows] == self.codes[RETURNED])
            self.under[rows[is_new]] = by_key[np.searchsorted(key, under[is_new, 0], sorter=by_key)]
            self.disposition[rows[is_new]] = self.codes[word]
        else:
            root = self.root
            for row in np.flatnonzero(lost.any(axis=1)):
                np.copyto(root, under[row], where=lost[row] & (root == own[row]))
        self.key[rows] = np.where(lost, DROPPED, own)

    @cached_property
    def _by_key(self) -> Ints:
        order: Ints = np.argsort(self.own[:, 0])
        return order


def as_keys(units: Floats, order: Keys, is_bounded: bool, size: int | None = None) -> Keys:
    """A unique integer for each score; `order` breaks ties, the larger first, and is below `size`."""
    size = len(units) if size is None else size
    if is_bounded:
        # Up to 2,147 candidates fit 32 bits, which are half as many bytes to sort.
        kind = np.int32 if (UNIT + 2) * size < 2**31 - 1 else np.int64
        key: Keys = units.astype(kind)
        np.multiply(key, size, out=key)
        np.add(key, order.astype(kind), out=key)
        return key
    # Scores of any size are replaced by their ranks.
    by_tie = np.argsort(-order[:, 0], kind="stable")
    worst = by_tie[np.argsort(-units[by_tie], axis=0, kind="stable")]
    ranked = np.empty(units.shape, np.int64)
    np.put_along_axis(ranked, worst, np.arange(len(units))[::-1][:, None], axis=0)
    return ranked


def nth_largest(keys: Keys, n: int) -> Any:
    """The n-th largest key of each column; 0, the lowest, if there are fewer."""
    return np.partition(keys, -n, axis=0)[-n] if len(keys) > n else 0


def count(flags: Mask) -> Ints:
    """The number of true values, by column."""
    # As small numbers, which takes half the time of NumPy's own sum of flags.
    total: Ints = np.add.reduce(flags.view(np.uint8), axis=0, dtype=np.uint32).astype(np.int64)
    return total


@dataclass(frozen=True)
class Ranked:
    """Candidates with the result of each step, sorted by query and rank.

    Attributes
    ----------
    candidates : Candidates
        Raw scores and ranks of the arms.
    norm : ndarray of float64, shape (n, arms)
        The arms' scores on their common scale; NaN for what is no candidate.
    columns : dict of str to ndarray of float64, shape (n,)
        What the steps add to a trace, by its column there; NaN where a step does not apply.
    score : ndarray of float64, shape (n,)
    rank : ndarray of int64, shape (n,)
        From 1; 0 for candidates without a rank.
    under : ndarray of int64, shape (n,)
        The row of the better (near-)duplicate under which it is collapsed; -1 if there is none.
    disposition : ndarray of int8, shape (n,)
        Index into the dispositions; 0 for a hit.
    """

    candidates: Candidates
    norm: Floats
    columns: Mapping[str, Floats]
    score: Floats
    rank: Ints
    under: Ints
    disposition: NDArray[np.int8]

    def take(self, index: Ints) -> Ranked:
        """The rows at `index`, in that order."""
        columns = {name: values[index] for name, values in self.columns.items()}
        others = (self.score[index], self.rank[index], self.under[index], self.disposition[index])
        return Ranked(self.candidates.take(index), self.norm[index], columns, *others)

    def followed_by(self, other: Ranked) -> Ranked:
        """These rows, then those of `other`."""

        def joined(name: str) -> Any:
            return np.concatenate([getattr(self, name), getattr(other, name)])

        columns = {name: np.concatenate([values, other.columns[name]]) for name, values in self.columns.items()}
        names = ("score", "rank", "under", "disposition")
        return Ranked(self.candidates.followed_by(other.candidates), joined("norm"), columns, *map(joined, names))

    def returned(self) -> Ranked:
        """The hits alone, which no step has dropped."""
        return self.take(np.flatnonzero(self.disposition == 0))
