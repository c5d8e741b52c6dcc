"""From candidates to ranks, for all queries of a question at once.

`merge` joins the candidates of the arms; `rank` applies the stages of `Ranking`, in which one setting is one column,
and gives each candidate its disposition. Search shows the rows with ``returned``, the trace shows all of them, so the
two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from functools import cache
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.schemas import Floats, Ints, Mask
from memkit.search.fitted.arms import KINDS
from memkit.search.settings import QuerySettings
from memkit.search.stages.blocks import UNIT, RankingKey, block_of
from memkit.search.stages.columns import Columns
from memkit.search.stages.diversify import DROPPED, NOWHERE, Likeness, Repeats
from memkit.search.stages.fuse import calibrate, group_starts, normalise, rank_within, spread
from memkit.search.stages.ranking import CandidateSet, Ranking


class RankedQuestion(Protocol):
    """The interface of a question that the stages use: settings and columns, never an index."""

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
    def across(self, candidates: Candidates, /) -> tuple[Floats, Mask]: ...
    def decay(self, memory: Ints, /) -> tuple[Floats, Floats]: ...


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
    pool : int
        Candidates per query and arm (num_candidates).
    scale : ndarray of float64, shape (n_queries, arms, 2)
        The scores of each arm that calibration maps to 0 and 1.
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
        """These candidates, then those of `other`, of the same arms."""
        columns: Any = zip(self[1:5], other[1:5], strict=True)
        query, row, raw, rank = map(np.concatenate, columns)
        return self._replace(query=query, row=row, raw=raw, rank=rank)

    def narrowed(self, arms: tuple[str, ...], pool: int) -> Self:
        """The candidates of fewer `arms` and a smaller `pool`, as these would be retrieved."""
        if arms == self.arms and pool == self.pool:
            return self
        columns = [self.arms.index(arm) for arm in arms]
        raw, rank = self.raw[:, columns], self.rank[:, columns]
        starts, size = group_starts(self.query), len(self.query)
        is_beyond = np.arange(size) - spread(starts, starts, size) >= pool
        for column in range(len(arms)):
            # An arm breaks ties by row, and so does a stable sort.
            beyond = np.lexsort((-raw[:, column], self.query))[is_beyond]
            raw[beyond, column], rank[beyond, column] = np.nan, 0
        kept = np.flatnonzero(rank.any(axis=1))
        return type(self)(arms, self.query[kept], self.row[kept], raw[kept], rank[kept], pool, self.scale[:, columns])


def merge(answers: Mapping[str, pa.Table], n_rows: int, pool: int = 0, scale: Floats | None = None) -> Candidates:
    """Join the candidates of each arm (columns query, row, score); rows whose score is not a number are dropped.

    Examples
    --------
    >>> bm25 = pa.table({"query": [0, 0], "row": [2, 0], "score": [3.0, 1.0]})
    >>> vector = pa.table({"query": [0], "row": [1], "score": [0.5]})
    >>> both = merge({"bm25": bm25, "vector": vector}, n_rows=3, pool=2)
    >>> both.row.tolist(), both.rank.tolist()
    ([0, 1, 2], [[2, 0], [0, 1], [1, 0]])
    >>> both.narrowed(("bm25",), pool=1).row.tolist()
    [2]
    """
    columns = [_columns(table) for table in answers.values()] or [_NOTHING]
    query, row, score = (np.concatenate(column) for column in zip(*columns, strict=True))
    arm = np.repeat(np.arange(len(columns)), [len(column[0]) for column in columns])
    union, index = np.unique(query * n_rows + row, return_inverse=True)
    raw = np.full((len(union), len(answers)), np.nan)
    rank = np.zeros(raw.shape, np.int64)
    raw[index, arm] = score
    rank[index, arm] = rank_within(arm * (query.max(initial=0) + 1) + query, score)  # the ranks of all arms at once
    query, row = np.divmod(union, max(n_rows, 1))
    scale = np.tile([0.0, 1.0], (query.max(initial=0) + 1, len(answers), 1)) if scale is None else scale
    return Candidates(tuple(answers), query, row, raw, rank, pool, scale)


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
_MIDDLE, _SLOPE = 0.22, 0.05  # between the best scores of queries on the corpus's subjects and on others
CODES = {name: code for code, name in enumerate(DISPOSITIONS)}


class Ranked(NamedTuple):
    """Candidates with the result of each stage, sorted by query and rank.

    Attributes
    ----------
    candidates : Candidates
        Raw scores and ranks of the arms.
    norm : ndarray of float64, shape (n, arms)
    fused, age_days, decay, score, penalty : ndarray of float64, shape (n,)
        `score` is fused x prior x decay; `age_days` is NaN if no date is known; `penalty` is subtracted by MMR.
    rank : ndarray of int64, shape (n,)
        From 1; 0 for candidates without a rank.
    prior : ndarray of float64, shape (n,)
        The factor by kind.
    under : ndarray of int64, shape (n,)
        The row of the better (near-)duplicate under which it is collapsed; -1 if there is none.
    disposition : ndarray of int8, shape (n,)
        Index into `DISPOSITIONS`.
    """

    candidates: Candidates
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
    def unranked(cls, candidates: Candidates, disposition: str = "returned") -> Self:
        """`candidates` before the first stage: only the arms' scores are known."""
        size = len(candidates.query)
        unknown, codes = np.full(size, np.nan), np.full(size, CODES[disposition], np.int8)
        norm, ranks = np.full(candidates.raw.shape, np.nan), np.zeros(size, np.int64)
        return cls(candidates, norm, unknown, unknown, unknown, unknown, unknown, ranks, unknown, ranks - 1, codes)

    def take(self, index: Ints) -> Self:
        """The rows at `index`, in that order."""
        columns: Any = self[1:]
        return type(self)(self.candidates.take(index), *(column[index] for column in columns))

    def followed_by(self, other: Self) -> Self:
        """These rows, then those of `other`."""
        columns: Any = zip(self[1:], other[1:], strict=True)
        return type(self)(self.candidates.followed_by(other.candidates), *map(np.concatenate, columns))

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Rows that no stage has dropped."""
        rows: NDArray[np.bool_] = self.disposition == CODES["returned"]
        return rows

    def returned(self) -> Self:
        """The hits alone."""
        return self.take(np.flatnonzero(self.alive))


def norms(
    candidates: Candidates, settings: QuerySettings, across: Callable[[Candidates], tuple[Floats, Mask]]
) -> Floats:
    """The normalised scores of the arms; `across` gives the words score from terms of another script."""
    if settings.normalise == "calibrated":
        query, raw, scale = candidates.query, candidates.raw, candidates.scale[candidates.query]
        columns = [
            calibrate(query, raw[:, column], scale[:, column, 0], scale[:, column, 1], KINDS[arm].everywhere)
            for column, arm in enumerate(candidates.arms)
        ]
        norm = np.stack(columns, axis=1)
        if "vector" in candidates.arms and "bm25" in candidates.arms and settings.across_weight:
            words, vectors = candidates.arms.index("bm25"), candidates.arms.index("vector")
            scores, is_other_script = across(candidates)
            scores += np.nan_to_num(raw[:, words])
            by_terms = calibrate(query, scores, scale[:, words, 0], scale[:, words, 1], everywhere=False)
            share = np.where(is_other_script, settings.across_weight, 0.0)
            norm[:, words] = np.maximum(norm[:, words], share * norm[:, vectors] + (1 - share) * by_terms)
        return norm
    # The queries of one arm follow those of another, so that one call normalises all.
    arms, queries = len(candidates.arms), candidates.query.max(initial=0) + 1
    query = np.concatenate([candidates.query + arm * queries for arm in range(arms)])
    return normalise(query, candidates.raw.T.ravel(), settings.normalise).reshape(arms, -1).T


def answerability(ranked: Ranked, question: RankedQuestion) -> Floats | None:
    """How likely it is that any memory answers each query, 0 to 1, from its best calibrated score; else None.

    It separates queries on other subjects than the corpus's well (ROC AUC .965 to .995 on four pairs of labelled sets),
    and queries on the corpus's subjects that have no answer less well (.63 to .92 on six).
    """
    if question.settings.normalise != "calibrated":
        return None
    best = np.zeros(len(question.queries))
    np.maximum.at(best, ranked.candidates.query, ranked.fused)
    likely: Floats = 1.0 / (1.0 + np.exp((_MIDDLE - best) / _SLOPE))
    return np.round(likely, 2)


def rank(candidates: Candidates, question: RankedQuestion) -> Ranked:
    """Apply all stages to `candidates` under the settings of a question, and record the result of each stage."""
    settings, norm = question.settings, norms(candidates, question.settings, question.across)
    memory = question.columns.memory[candidates.row]
    age_days, decay = question.decay(memory)
    prior = question.columns.prior(memory, settings.kind_weights)
    block = block_of([RankingKey.from_settings(settings, question.weights, candidates.arms)])
    ranking = Ranking(_candidate_set(candidates, question, norm, decay, prior), block, np.arange(len(memory)))
    fused, score, key = ranking.fused[:, 0], ranking.score[:, 0], ranking.key[:, 0].copy()
    is_low, without_decay = key < ranking.floor[0], np.rint(fused * prior * UNIT) >= block.least[0]
    low = np.where(without_decay, CODES["decayed_out"], CODES["below_min_score"])
    disposition = np.where(is_low, low, CODES["returned"]).astype(np.int8)
    under = _collapsed(ranking, key, disposition, candidates.row)
    order = np.lexsort((-key, candidates.query))
    if ranking.candidates.chunks_of_memory is not None:
        order = order[key[order] != DROPPED]  # another chunk of the memory is better: no candidate any more
    before = _places(candidates.query, order, disposition == CODES["returned"])
    place, penalty = before.copy(), np.zeros(len(key))
    if block.is_diverse:
        for query in ranking.candidates.queries:
            moved, lost = ranking.diversify(before[query, None], question.depth, query)
            place[query], penalty[query] = moved[:, 0], lost[:, 0]
        order = order[np.lexsort((place[order], candidates.query[order]))]
    disposition[(place != NOWHERE) & (place >= question.k)] = CODES["below_k"]
    disposition[(before < question.k) & (place >= question.k)] = CODES["diversified_away"]
    is_placed = place[order] != NOWHERE
    if not is_placed.all():
        order = order[np.lexsort((~is_placed, candidates.query[order]))]
    rank = np.where(place == NOWHERE, 0, place + 1)
    ranked = Ranked(candidates, norm, fused, age_days, decay, score, penalty, rank, prior, under, disposition)
    return ranked.take(order)


def _candidate_set(
    candidates: Candidates, question: RankedQuestion, norm: Floats, decay: Floats, prior: Floats
) -> CandidateSet:
    likeness = cache(lambda: question.likeness(candidates.row))
    return CandidateSet(
        query=candidates.query,
        rank=candidates.rank,
        memory=question.columns.memory[candidates.row],
        twin=question.columns.twin[candidates.row],
        text=candidates.row,
        per_memory=question.settings.unit == "memory",
        norm=lambda _: norm,
        factor=lambda _: decay[:, None],
        prior=lambda _: prior[:, None],
        repeats=question.repeats,
        least_threshold=question.settings.fold_threshold,
        likeness=lambda index: likeness()(candidates.row[index]),
    )


def _collapsed(ranking: Ranking, key: Ints, disposition: NDArray[np.int8], row: Ints) -> Ints:
    """The row under which each one is collapsed, else -1; sets `disposition` too."""
    under, by_key = np.full(len(key), -1), None
    for collapse, name in ((ranking.collapse_twins, "duplicate"), (ranking.collapse_near, "folded")):
        collapse()
        gone = (ranking.key[:, 0] != key) & (disposition == CODES["returned"])
        if gone.any():
            by_key = np.argsort(key) if by_key is None else by_key
            under[gone] = row[by_key[np.searchsorted(key, ranking.root[gone, 0], sorter=by_key)]]
            disposition[gone] = CODES[name]
    return under


def _places(query: Ints, order: Ints, is_alive: Mask) -> Ints:
    """The place of each live candidate in its query, else `NOWHERE`; `order` is by query, then best first."""
    order = order[is_alive[order]]
    starts = group_starts(query[order])
    place = np.full(len(query), NOWHERE)
    place[order] = np.arange(len(order)) - spread(starts, starts, len(order))
    return place
