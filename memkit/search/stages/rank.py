"""From candidates to ranks, all queries of a question at once.

`merge` lays what the arms found side by side. Each of `STAGES` takes the whole table and returns it with what it made
of it; a further stage is a further function in that list. Search shows the rows that end as ``returned``, the trace
shows all of them, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.schemas import Floats, Ints, Mask
from memkit.search.fitted.arms import KINDS
from memkit.search.settings import QuerySettings
from memkit.search.stages.columns import Columns
from memkit.search.stages.diversify import Likeness, Repeats, mmr
from memkit.search.stages.fuse import (
    TIE_DIGITS,
    Evidence,
    calibrate,
    changes,
    fuse,
    group_starts,
    normalise,
    rank_within,
    spread,
)


class Asked(Protocol):
    """What the stages look at of a question, and of the rows that were found: columns, never an index."""

    @property
    def settings(self) -> QuerySettings: ...
    @property
    def columns(self) -> Columns: ...
    @property
    def repeats(self) -> Repeats: ...
    @property
    def queries(self) -> Sized: ...
    @property
    def k(self) -> int: ...
    @property
    def weights(self) -> Mapping[str, float]: ...
    @property
    def depth(self) -> int | None: ...
    def likeness(self, row: Ints, /) -> Likeness: ...
    def across(self, found: Candidates, /) -> tuple[Floats, Mask]: ...
    def decay(self, memory: Ints, /) -> tuple[Floats, Floats]: ...


class Candidates(NamedTuple):
    """Chunks that at least one arm found, sorted by query and row.

    Attributes
    ----------
    arms : tuple of str
        The arms that were asked; they name the columns of `raw` and `rank`.
    query, row : ndarray of int64, shape (n,)
        Ordinal of the query, row of the chunk.
    raw : ndarray of float64, shape (n, arms)
        The arm's own score; NaN where it did not find the chunk.
    rank : ndarray of int64, shape (n, arms)
        Rank within the arm's finds, from 1; ties share the better one; 0 where not found.
    pool : int
        How many chunks a query each arm was asked for.
    scale : ndarray of float64, shape (n_queries, arms, 2)
        The scores of each arm that count 0 and 1 when calibrated.
    """

    arms: tuple[str, ...]
    query: Ints
    row: Ints
    raw: Floats
    rank: Ints
    pool: int
    scale: Floats

    def take(self, index: Ints) -> Self:
        """The candidates at `index`, in that order."""
        row, raw, rank = self.row[index], self.raw[index], self.rank[index]
        return self._replace(query=self.query[index], row=row, raw=raw, rank=rank)

    def followed_by(self, other: Self) -> Self:
        """Both, of the same arms, one after the other."""
        columns: Any = zip(self[1:5], other[1:5], strict=True)
        query, row, raw, rank = map(np.concatenate, columns)
        return self._replace(query=query, row=row, raw=raw, rank=rank)

    def of(self, arms: tuple[str, ...], pool: int) -> Self:
        """What `arms` alone, asked for `pool` chunks, would have found; both within what was asked."""
        if arms == self.arms and pool == self.pool:
            return self
        columns = [self.arms.index(arm) for arm in arms]
        raw, rank = self.raw[:, columns], self.rank[:, columns]
        starts, size = group_starts(self.query), len(self.query)
        is_beyond = np.arange(size) - spread(starts, starts, size) >= pool
        for at in range(len(arms)):
            # An arm breaks ties by row, and so does a stable sort.
            beyond = np.lexsort((-raw[:, at], self.query))[is_beyond]
            raw[beyond, at], rank[beyond, at] = np.nan, 0
        kept = np.flatnonzero(rank.any(axis=1))
        return type(self)(arms, self.query[kept], self.row[kept], raw[kept], rank[kept], pool, self.scale[:, columns])


def merge(found: Mapping[str, pa.Table], n_rows: int, pool: int = 0, scale: Floats | None = None) -> Candidates:
    """Join what each arm found (columns query, row, score) into one table; a score that is not a number does not count.

    Examples
    --------
    >>> bm25 = pa.table({"query": [0, 0], "row": [2, 0], "score": [3.0, 1.0]})
    >>> vector = pa.table({"query": [0], "row": [1], "score": [0.5]})
    >>> both = merge({"bm25": bm25, "vector": vector}, n_rows=3, pool=2)
    >>> both.row.tolist(), both.rank.tolist()
    ([0, 1, 2], [[2, 0], [0, 1], [1, 0]])
    >>> both.of(("bm25",), pool=1).row.tolist()
    [2]
    """
    columns = [_columns(table) for table in found.values()] or [_NOTHING]
    query, row, score = (np.concatenate(column) for column in zip(*columns, strict=True))
    arm = np.repeat(np.arange(len(columns)), [len(column[0]) for column in columns])
    union, at = np.unique(query * n_rows + row, return_inverse=True)
    raw = np.full((len(union), len(found)), np.nan)
    rank = np.zeros(raw.shape, np.int64)
    raw[at, arm] = score
    rank[at, arm] = rank_within(arm * (query.max(initial=0) + 1) + query, score)  # each arm's ranks, in one go
    query, row = np.divmod(union, max(n_rows, 1))
    scale = np.tile([0.0, 1.0], (query.max(initial=0) + 1, len(found), 1)) if scale is None else scale
    return Candidates(tuple(found), query, row, raw, rank, pool, scale)


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def _columns(table: pa.Table) -> tuple[Ints, Ints, Floats]:
    query, row, score = (table[name].to_numpy() for name in ("query", "row", "score"))
    finite = np.isfinite(score)
    if finite.all():
        return query, row, score
    return query[finite], row[finite], score[finite]


DISPOSITIONS = (
    "returned",
    "below_k",
    "below_pool",
    "filtered",
    "expired",
    "future",
    "below_min_score",
    "decayed_out",
    "diversified_away",
    "duplicate",
    "folded",
)
FUSED_DIGITS = 12  # 0.7 + 0.3 is 1
_MIDDLE, _SLOPE = 0.22, 0.05  # between the best scores of questions on the corpus's subjects and on others
FOLDED = 50  # a number that k does not change, so that the first hits do not depend on k
CODES = {name: code for code, name in enumerate(DISPOSITIONS)}


class Ranked(NamedTuple):
    """Candidates with everything that decided their place, by query and, within it, by rank.

    Attributes
    ----------
    found : Candidates
        Raw scores and ranks of the arms.
    norm : ndarray of float64, shape (n, arms)
    fused, age_days, decay, score, penalty : ndarray of float64, shape (n,)
        `score` is fused x decay; `age_days` is NaN where no date is known; `penalty` is what MMR took off.
    rank : ndarray of int64, shape (n,)
        From 1; 0 for those that got none.
    prior : ndarray of float64, shape (n,)
        The factor of its kind.
    under : ndarray of int64, shape (n,)
        The row of the chunk that says the same and ranks above; -1 where there is none.
    disposition : ndarray of int8, shape (n,)
        Position in `DISPOSITIONS`.
    """

    found: Candidates
    norm: Floats
    fused: Floats
    age_days: Floats
    decay: Floats
    score: Floats
    penalty: Floats
    rank: Ints
    prior: Floats
    under: Ints
    disposition: NDArray[np.int8]

    @classmethod
    def unranked(cls, found: Candidates, disposition: str = "returned") -> Self:
        """`found` before the first stage: nothing is known but what the arms said."""
        size = len(found.query)
        unknown, codes = np.full(size, np.nan), np.full(size, CODES[disposition], np.int8)
        norm, ranks = np.full(found.raw.shape, np.nan), np.zeros(size, np.int64)
        return cls(found, norm, unknown, unknown, unknown, unknown, unknown, ranks, unknown, ranks - 1, codes)

    def take(self, index: Ints) -> Self:
        """The rows at `index`, in that order."""
        columns: Any = self[1:]
        return type(self)(self.found.take(index), *(column[index] for column in columns))

    def followed_by(self, other: Self) -> Self:
        """These rows, then those of another."""
        columns: Any = zip(self[1:], other[1:], strict=True)
        return type(self)(self.found.followed_by(other.found), *map(np.concatenate, columns))

    def labelled(self, where: NDArray[np.bool_], name: str) -> Self:
        """With the disposition `name` on the rows `where`."""
        if not where.any():
            return self
        return self._replace(disposition=np.where(where, np.int8(CODES[name]), self.disposition))

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Rows that nothing has dropped."""
        rows: NDArray[np.bool_] = self.disposition == CODES["returned"]
        return rows

    def returned(self) -> Self:
        """The hits alone."""
        return self.take(np.flatnonzero(self.alive))


def _normalised(ranked: Ranked, asked: Asked) -> Ranked:
    """Bring the arms to one scale."""
    return ranked._replace(norm=norms(ranked.found, asked.settings, asked.across))


def norms(found: Candidates, settings: QuerySettings, across: Callable[[Candidates], tuple[Floats, Mask]]) -> Floats:
    """The scores of the arms on the scale that `settings` ask for; `across` tells what words mean in other letters.

    The queries of one arm follow on those of another, so that one call does all.
    """
    if settings.normalise == "calibrated":
        scale = found.scale[found.query]
        columns = [
            calibrate(found.query, found.raw[:, at], scale[:, at, 0], scale[:, at, 1], KINDS[arm].everywhere)
            for at, arm in enumerate(found.arms)
        ]
        norm = np.stack(columns, axis=1)
        if "vector" in found.arms and "bm25" in found.arms and settings.across_weight:
            words, vectors = found.arms.index("bm25"), found.arms.index("vector")
            said, apart = across(found)
            said += np.nan_to_num(found.raw[:, words])
            meant = calibrate(found.query, said, scale[:, words, 0], scale[:, words, 1], everywhere=False)
            share = np.where(apart, settings.across_weight, 0.0)
            norm[:, words] = np.maximum(norm[:, words], share * norm[:, vectors] + (1 - share) * meant)
        return norm
    arms, queries = len(found.arms), found.query.max(initial=0) + 1
    query = np.concatenate([found.query + arm * queries for arm in range(arms)])
    return normalise(query, found.raw.T.ravel(), settings.normalise).reshape(arms, -1).T


def _fused(ranked: Ranked, asked: Asked) -> Ranked:
    """Make one score of the arms'."""
    weights = np.array([asked.weights[arm] for arm in ranked.found.arms])
    evidence = Evidence(ranked.norm, ranked.found.rank)
    score = np.round(fuse(evidence, weights, asked.settings.fusion, asked.settings.rrf_k), FUSED_DIGITS)
    return ranked._replace(fused=score, score=score)


def _one_a_memory(ranked: Ranked, asked: Asked) -> Ranked:
    """Keep the best chunk of each memory, where a hit is a memory."""
    if asked.settings.unit != "memory":
        return ranked
    found = ranked.found
    memory = asked.columns.memory[found.row]
    if (changes(memory) | changes(found.query)).all():  # rows are in the order of memories
        return ranked
    order = np.lexsort((found.row, -ranked.fused.round(TIE_DIGITS), memory, found.query))
    return ranked.take(order[changes(memory[order]) | changes(found.query[order])])


def _decayed(ranked: Ranked, asked: Asked) -> Ranked:
    """Multiply by the weight of the kind, and by what age leaves."""
    memory = asked.columns.memory[ranked.found.row]
    age_days, factor = asked.decay(memory)
    prior = asked.columns.prior(memory, asked.settings.kind_weights)
    return ranked._replace(age_days=age_days, decay=factor, prior=prior, score=ranked.score * prior * factor)


def _best_first(ranked: Ranked, asked: Asked) -> Ranked:
    """Order by score, ties by row: from here on the order of the rows is the order of the race."""
    return ranked.take(np.lexsort((ranked.found.row, -ranked.score.round(TIE_DIGITS), ranked.found.query)))


def _above_min_score(ranked: Ranked, asked: Asked) -> Ranked:
    """Drop what is below the threshold, and tell what only decay put there."""
    least = asked.settings.min_score
    low = ranked.score.round(TIE_DIGITS) < least
    passed = (ranked.fused * ranked.prior).round(TIE_DIGITS) >= least
    return ranked.labelled(low, "below_min_score").labelled(low & passed, "decayed_out")


def _said_once(ranked: Ranked, asked: Asked) -> Ranked:
    """Drop what says the same as a better hit of the same owner."""
    twin, alive = asked.columns.twin, ranked.alive
    at = np.flatnonzero(alive)
    says = (ranked.found.query * (len(twin) + 1) + twin[ranked.found.row])[at]
    ordered = np.sort(says)
    if changes(ordered).all():
        return ranked
    _, first, which = np.unique(says, return_index=True, return_inverse=True)
    under = ranked.under.copy()
    under[at] = np.where(at == at[first][which], -1, ranked.found.row[at[first]][which])
    alive[at[first]] = False
    return ranked._replace(under=under).labelled(alive, "duplicate")


def _folded(ranked: Ranked, asked: Asked) -> Ranked:
    """Fold what says nearly the same under the better hit, a query at a time, among its best `FOLDED`."""
    alive = np.flatnonzero(ranked.alive)
    if asked.settings.fold == "none" or len(alive) < 2:
        return ranked
    under, repeats = ranked.under.copy(), asked.repeats
    each = [one[:FOLDED] for one in np.split(alive, group_starts(ranked.found.query[alive])[1:])]
    repeats.read(ranked.found.row[np.concatenate(each)])
    for one in each:
        rows = ranked.found.row[one]
        found = repeats.folded(rows, asked.settings.fold_threshold)
        under[one] = np.where(found == np.arange(len(one)), -1, rows[found])
    return ranked._replace(under=under).labelled(ranked.alive & (under >= 0), "folded")


def _placed(ranked: Ranked, asked: Asked) -> Ranked:
    """Give ranks to what is still in the race, in the order of the rows."""
    alive = ranked.alive
    before: Ints = np.cumsum(alive) - alive
    starts = group_starts(ranked.found.query)
    place = before - spread(before[starts], starts, len(alive)) + 1
    return ranked._replace(rank=np.where(alive, place, 0), penalty=np.zeros(len(alive)))


def _diversified(ranked: Ranked, asked: Asked) -> Ranked:
    """Order again by MMR, a query at a time: picking is greedy, so there is nothing to do at once."""
    if asked.settings.mmr_lambda == 1.0:
        return ranked
    penalty, rank = ranked.penalty.copy(), ranked.rank.copy()
    alive = np.flatnonzero(rank)
    likeness = asked.likeness(ranked.found.row[alive])
    for one in np.split(alive, group_starts(ranked.found.query[alive])[1:]):
        if one.size:
            similar = likeness(ranked.found.row[one])
            order, penalty[one] = mmr(ranked.score[one], similar, asked.settings.mmr_lambda, asked.depth)
            rank[one[order]] = np.arange(1, len(one) + 1)
    moved_out = (ranked.rank > 0) & (ranked.rank <= asked.k) & (rank > asked.k)
    return ranked._replace(penalty=penalty, rank=rank).labelled(moved_out, "diversified_away")


def _cut(ranked: Ranked, asked: Asked) -> Ranked:
    """Return the first k, and put the rows in the order of their ranks; those without one follow, best first."""
    ranked = ranked.labelled(ranked.alive & (ranked.rank > asked.k), "below_k")
    if asked.settings.mmr_lambda == 1.0 and ranked.rank.all():
        return ranked  # in order already
    last = np.where(ranked.rank, ranked.rank, np.iinfo(np.int64).max)
    return ranked.take(np.lexsort((last, ranked.found.query)))


def answerability(ranked: Ranked, asked: Asked) -> Floats | None:
    """How likely it is that anything answers each query, 0 to 1, from its best calibrated score; else None.

    A question on other subjects than the corpus's is told from one that it answers (ROC AUC .965 to .995 on four pairs
    of labelled sets); one of the same world that happens to have no answer is much less so (.63 to .92 on six).
    """
    if asked.settings.normalise != "calibrated":
        return None
    best = np.zeros(len(asked.queries))
    np.maximum.at(best, ranked.found.query, ranked.fused)
    likely: Floats = 1.0 / (1.0 + np.exp((_MIDDLE - best) / _SLOPE))
    return np.round(likely, 2)


Stage = Callable[[Ranked, Asked], Ranked]
STAGES: tuple[Stage, ...] = (
    _normalised,
    _fused,
    _one_a_memory,
    _decayed,
    _best_first,
    _above_min_score,
    _said_once,
    _folded,
    _placed,
    _diversified,
    _cut,
)


def rank(found: Candidates, asked: Asked) -> Ranked:
    """`found` after all stages."""
    ranked = Ranked.unranked(found)
    for stage in STAGES:
        ranked = stage(ranked, asked)
    return ranked
