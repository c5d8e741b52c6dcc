"""From candidates to ranks, for all queries of a question and any number of settings at once.

`merge` joins the candidates of the arms. `Ranking` has the stages, each written once, over candidates × settings, and
`rank` applies them with one column of settings and gives each candidate its disposition. Search shows the rows with
``returned``, the trace shows all of them, so the two cannot disagree; `places` serves sweeps.

A candidate's *key* under a setting is a unique integer, larger for a higher rank: its score in units of `UNIT`, then
its row. A dropped candidate has the key `DROPPED`. A place is thus a count of larger keys, and many settings need no
sorting, which takes 22 times as long (240 candidates, 512 settings, 2 wanted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memkit.index.rerank import as_reranker
from memkit.schemas import Floats, Ints, Mask
from memkit.search.fitted.arms import KINDS
from memkit.search.settings import NEAR_TIE, QuerySettings
from memkit.search.stages.diversify import DROPPED, NOWHERE, Keys, Likeness, NearPairs, Repeats, collapse, mmr
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

if TYPE_CHECKING:
    from memkit.search.fitted.index import Rows


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
    "deprecated",
    "superseded",
)
CODES = {name: code for code, name in enumerate(DISPOSITIONS)}


class Ranked(NamedTuple):
    """Candidates with the result of each stage, sorted by query and rank.

    Attributes
    ----------
    candidates : Candidates
        Raw scores and ranks of the arms.
    norm : ndarray of float64, shape (n, arms)
    fused, reranked, age_days, decay, lift, score, penalty : ndarray of float64, shape (n,)
        `reranked` is the fused score after reranking, NaN without it; `score` is the latter, or else `fused`, x
        prior x decay + `lift`, what `prefer` adds; `age_days` is NaN if no date is known; `penalty` is subtracted by
        MMR.
    rank : ndarray of int64, shape (n,)
        From 1; 0 for candidates without a rank.
    prior : ndarray of float64, shape (n,)
        The factor by kind, and for what is stale.
    under : ndarray of int64, shape (n,)
        The row of the better (near-)duplicate under which it is collapsed; -1 if there is none.
    disposition : ndarray of int8, shape (n,)
        Index into `DISPOSITIONS`.
    """

    candidates: Candidates
    norm: Floats
    fused: Floats
    reranked: Floats
    age_days: Floats
    decay: Floats
    lift: Floats
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
        unknowns = (unknown,) * 7
        return cls(candidates, norm, *unknowns, ranks, unknown, ranks - 1, codes)

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


UNIT = 10.0**TIE_DIGITS
"""Scores are compared in units of 1 / `UNIT`; equal units tie."""


class Rerank(NamedTuple):
    """Reranking: the name of the reranker, how many candidates it scores, and the share of its scores."""

    name: str
    n: int
    weight: float


@dataclass(frozen=True)
class Fusion:
    """Columns of a block whose scores are fused by the same `method` over the same normalised scores, `norm`.

    A chunk that no arm with a weight retrieved is no candidate. `rerank` is None without reranking.
    """

    norm: Any
    method: str
    rrf_k: int
    rerank: Rerank | None
    columns: slice
    weights: Floats


@dataclass(frozen=True)
class Block:
    """Settings that are evaluated together.

    Settings that differ in `min_score` alone share a column: the cut does not change the order above it.

    Attributes
    ----------
    fusions : sequence of Fusion
        Concatenated, they give the columns of the fused scores.
    fused, decay, prior : ndarray of int64, shape (columns,)
        The fused score, the decay factor and the kind factor of each column; `prior` is None if all factors are 1.
    decays, priors : tuple of object
        Keys of the factors in use; empty if nothing decays.
    alike_from : ndarray of float64, shape (columns,), or None
        The least similarity of two candidates of which the newer comes first, above 1 if it does not; None if it does
        under no setting.
    fold_threshold, mmr_lambda : ndarray of float64, shape (columns,)
    folds, is_diverse : bool
        Whether near-duplicates are collapsed; whether any lambda is below 1.
    is_bounded : bool
        Whether all scores are within 0 and 1.
    column : ndarray of int64, shape (settings,)
        If the block is diverse, each setting has a column of its own.
    min_score : ndarray of float64, shape (settings,)
    """

    fusions: Sequence[Fusion]
    fused: Ints
    decay: Ints
    decays: tuple[Any, ...]
    prior: Ints | None
    priors: tuple[Any, ...]
    alike_from: Floats | None
    fold_threshold: Floats
    mmr_lambda: Floats
    folds: bool
    is_diverse: bool
    is_bounded: bool
    column: Ints
    min_score: Floats

    def __len__(self) -> int:
        return len(self.column)

    @cached_property
    def least(self) -> Floats:
        """The fewest units of score that pass `min_score`."""
        near = np.ceil(self.min_score * UNIT) + np.arange(-2, 3)[:, None]
        units: Floats = np.min(np.where(near / UNIT < self.min_score, np.inf, np.maximum(near, 0.0)), axis=0)
        return units

    @cached_property
    def rerankers(self) -> tuple[str, ...]:
        """The names of the rerankers."""
        return tuple(dict.fromkeys(fusion.rerank.name for fusion in self.fusions if fusion.rerank))

    @cached_property
    def lacks_arms(self) -> bool:
        """Whether any column has an arm without weight."""
        return not all(fusion.weights.all() for fusion in self.fusions)

    @cached_property
    def is_identity(self) -> bool:
        """Whether column i takes fused score i."""
        return bool(len(self.fused) == self.fusions[-1].columns.stop and (np.diff(self.fused) == 1).all())


@dataclass(frozen=True)
class RankingKey:
    """The part of a setting that acts on ranking given the candidates: settings with equal keys rank equally.

    Attributes
    ----------
    norm, method, rrf_k, weights
        How the arms' scores are combined; `norm` is the key of the normalised scores.
    rerank : Rerank or None
        None too if the reranker has no weight.
    decay, prior : tuple or None
        The keys of the factors by age and by kind.
    alike_from : float or None
        As in `Block`.
    """

    norm: Any
    method: str
    rrf_k: int
    rerank: Rerank | None
    weights: tuple[float, ...]
    decay: Any
    prior: Any
    alike_from: float | None
    min_score: float
    fold_threshold: float | None
    mmr_lambda: float

    @classmethod
    def from_settings(cls, s: QuerySettings, weights: Mapping[str, float], arms: Sequence[str]) -> RankingKey:
        """The key of settings with `weights` by arm, among settings that use some of the `arms`."""
        is_rrf = s.fusion == "rrf"
        crosses = s.normalise == "calibrated" and {"vector", "bm25"} <= set(weights)
        norm = None if is_rrf else (s.normalise, s.across_weight if crosses else 0.0)
        kinds = "*" if "*" in s.decay_kinds else tuple(s.decay_kinds)
        return cls(
            norm,
            s.fusion,
            s.rrf_k if is_rrf else 0,
            None if s.rerank is None or not s.rerank_weight else _rerank(s),
            tuple(weights.get(arm, 0.0) for arm in arms),
            None if s.decay == "none" else (s.decay, float(s.decay_days), float(s.decay_floor), kinds),
            tuple(sorted(s.kind_weights.items())) if s.kind_weights else None,
            None if s.prefer is None else float(s.prefer_alike),
            float(s.min_score),
            None if s.fold == "none" else float(s.fold_threshold),
            float(s.mmr_lambda),
        )


def _rerank(s: QuerySettings) -> Rerank:
    return Rerank(as_reranker(s.rerank).name, s.rerank_n, float(s.rerank_weight))


def block_of(keys: Sequence[RankingKey]) -> Block:
    """The block of some settings; either all of them collapse near-duplicates or none, and all are diverse or none."""
    is_diverse = keys[0].mmr_lambda < 1.0
    columns = [e if is_diverse else replace(e, min_score=0.0) for e in keys]
    place = {key: index for index, key in enumerate(dict.fromkeys(columns))}
    fused: dict[Any, int] = {}
    fusions = []
    for how, group in groupby(place, lambda e: (e.norm, e.method, e.rrf_k, e.rerank)):
        weights = list(dict.fromkeys(key.weights for key in group))
        start = len(fused)
        fused |= {(*how, column): start + index for index, column in enumerate(weights)}
        fusions.append(Fusion(*how, slice(start, start + len(weights)), np.array(weights).T.copy()))
    decays = {decay: index for index, decay in enumerate(dict.fromkeys(key.decay for key in place))}
    priors = {prior: index for index, prior in enumerate(dict.fromkeys(key.prior for key in place))}
    return Block(
        fusions=fusions,
        fused=np.array([fused[e.norm, e.method, e.rrf_k, e.rerank, e.weights] for e in place]),
        decay=np.array([decays[e.decay] for e in place]),
        decays=() if list(decays) == [None] else tuple(decays),
        prior=None if list(priors) == [None] else np.array([priors[e.prior] for e in place]),
        priors=tuple(priors),
        alike_from=_alike_from([e.alike_from for e in place]),
        fold_threshold=np.array([e.fold_threshold or 0.0 for e in place]),
        mmr_lambda=np.array([e.mmr_lambda for e in place]),
        folds=keys[0].fold_threshold is not None,
        is_diverse=is_diverse,
        is_bounded=all(e.norm is None or e.norm[0] != "none" for e in place),
        column=np.array([place[column] for column in columns]),
        min_score=np.array([e.min_score for e in keys]),
    )


def _paired(rows: Ints, pairs: Mask) -> tuple[Ints, Mask]:
    """Those of `rows` that are in one of the `pairs`, and the pairs among them."""
    some = np.flatnonzero(pairs.any(axis=0) | pairs.any(axis=1))
    return rows[some], pairs[np.ix_(some, some)]


_NEVER = 2.0


def _alike_from(values: Sequence[float | None]) -> Floats | None:
    if all(value is None for value in values):
        return None
    return np.array([_NEVER if value is None else value for value in values])


@dataclass(frozen=True)
class Groups:
    """Groups of rows that compete with each other, laid end to end."""

    rows: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def sharing(cls, label: Ints, is_sorted: bool = False) -> Groups | None:
        """The groups of rows with equal labels; None if no two rows share a label."""
        if changes(label if is_sorted else np.sort(label)).all():
            return None
        order = np.argsort(label, kind="stable")
        starts = group_starts(label[order])
        sizes = np.diff(starts, append=len(label))
        several = np.repeat(sizes > 1, sizes)
        sizes = sizes[sizes > 1]
        return cls(order[several], np.cumsum(sizes) - sizes, sizes)

    def best(self, keys: Keys) -> Keys:
        """For each of `rows` the largest of the `keys` in its group."""
        largest: Keys = np.repeat(np.maximum.reduceat(keys, self.starts, axis=0), self.sizes, axis=0)
        return largest


FUSED_DIGITS = 12  # 0.7 + 0.3 is 1
FOLDED = 50  # independent of k, so that the first hits do not depend on k
"""Near-duplicates are looked for among so many best candidates."""
_FEW = 16
"""Settings whose best candidates are mostly the same."""
MOST_NAMED = 20
"""Most duplicates that are listed under a hit."""


@dataclass
class CandidateSet:
    """The candidates of one query or several, sorted by query and row, with the data that the stages use.

    Attributes
    ----------
    query : ndarray of int64, shape (n,)
    rank : ndarray of int64, shape (n, arms)
        As in `Candidates`.
    memory, twin, text : ndarray of int64, shape (n,)
        Memory (or file, where a hit is one) and exact duplicates as in `Rows`; the row in `repeats`.
    dated : ndarray of datetime64, shape (n,)
    per_memory : bool
        Whether a hit is a memory or a file, or else a chunk.
    norm : callable
        From a key of `Fusion.norm` to normalised scores, shape (n, arms).
    factor, prior : callable
        From the keys of decays or kind weights to factors, shape (n, keys).
    has_priors : bool
        Whether some factor `prior` is other than 1 where the settings give no weight: of a kind, or of what is stale.
    repeats : Repeats or None
        None if no setting collapses near-duplicates or prefers the newest.
    least_threshold : float
        The lowest `fold_threshold` of any setting.
    likeness : callable
        The pairwise similarity of some of the candidates, for MMR.
    looks : mapping of str to ndarray of float64, shape (n,)
        The scores by each reranker; only those that `to_rerank` names are used.
    """

    query: Ints
    rank: Ints
    memory: Ints
    twin: Ints
    text: Ints
    dated: NDArray[np.datetime64]
    per_memory: bool
    norm: Callable[[Any], Floats]
    factor: Callable[[tuple[Any, ...]], Floats]
    prior: Callable[[tuple[Any, ...]], Floats]
    has_priors: bool
    repeats: Repeats | None
    least_threshold: float
    likeness: Callable[[Ints], Floats]
    rerank_scores: Mapping[str, Floats] = field(default_factory=dict)
    _near: tuple[Mask, list[NearPairs | None]] | None = field(default=None, init=False)
    _updates: tuple[float, list[tuple[int, Ints, Floats]]] | None = field(default=None, init=False)
    _last_factors: tuple[Any, Floats] = field(default=(None, np.empty(0)), init=False)
    _last_similar: tuple[bytes, Floats] = field(default=(b"", np.empty(0)), init=False)

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def queries(self) -> list[slice]:
        """The slice of the candidates of each query."""
        starts = group_starts(self.query).tolist()
        return [slice(*ends) for ends in pairwise([*starts, len(self)])]

    @cached_property
    def chunks_of_memory(self) -> Groups | None:
        return Groups.sharing(self._by_query(self.memory), is_sorted=True) if self.per_memory else None

    @cached_property
    def twins(self) -> Groups | None:
        return Groups.sharing(self._by_query(self.twin))

    def near(self, rows_by_query: list[Ints]) -> list[NearPairs | None]:
        """The near-duplicates among these candidates of each query, and maybe others.

        The last answer is cached, as the best of one block are mostly those of the next. Where they are not, all
        candidates are compared, once.
        """
        rows = np.concatenate([np.empty(0, np.int64), *rows_by_query])
        if self._near is None or not self._near[0][rows].all():
            compared = np.full(len(self), self._near is not None)
            compared[rows] = True
            among = [query.start + np.flatnonzero(compared[query]) for query in self.queries]
            self._near = compared, self._near_among(among)
        return self._near[1]

    def updates(self, least: float) -> list[tuple[int, Ints, Floats]]:
        """Each candidate that is newer than alike ones of its owner and query, oldest first: these, and how alike.

        The last answer is cached, as the next block often asks for the same.
        """
        if self._updates is None or self._updates[0] != least:
            updates = [update for query in self.queries for update in self._updates_of(query, least)]
            self._updates = least, sorted(updates, key=lambda update: (self.dated[update[0]], update[0]))
        return self._updates[1]

    def _updates_of(self, query: slice, least: float) -> Iterator[tuple[int, Ints, Floats]]:
        repeats, dated, text = self.repeats, self.dated[query], self.text[query]
        assert repeats is not None
        is_update = dated[:, None] > dated  # no date is later than another
        rows, is_update = _paired(np.arange(len(text)), is_update)
        rows, is_update = _paired(rows, is_update & repeats.likely(text[rows], least))
        cosine = repeats.cosines(text[rows])
        is_update &= cosine >= least
        for newer in np.flatnonzero(is_update.any(axis=1)).tolist():
            older = np.flatnonzero(is_update[newer])
            yield query.start + int(rows[newer]), query.start + rows[older], cosine[newer, older]

    @cached_property
    def tie_order(self) -> Keys:
        """The order of equal scores; the larger comes first."""
        return np.arange(len(self))[::-1][:, None]

    def _near_among(self, rows_by_query: list[Ints]) -> list[NearPairs | None]:
        """The near-duplicates among some candidates of each query."""
        repeats = self.repeats
        if repeats is None or not rows_by_query:
            return [None] * len(rows_by_query)
        repeats.read(self.text[np.concatenate(rows_by_query)])
        return [NearPairs.among(repeats, self.text[rows], self.least_threshold, rows) for rows in rows_by_query]

    def factors(self, decays: tuple[Any, ...]) -> Floats:
        """The decay factors; the last ones are cached, as the next block often has the same."""
        if self._last_factors[0] is not decays:
            self._last_factors = (decays, self.factor(decays))
        return self._last_factors[1]

    def similar(self, rows: Ints) -> Floats:
        """The pairwise similarity of some candidates, cached as the factors are."""
        if self._last_similar[0] != rows.tobytes():
            self._last_similar = (rows.tobytes(), self.likeness(rows))
        return self._last_similar[1]

    def _by_query(self, label: Ints) -> Ints:
        """Labels that are equal within a query only."""
        return label if len(self.queries) < 2 else self.query * (int(label.max(initial=0)) + 1) + label


class Fused:
    """The candidates under a block of settings before the factors: what reranking starts from.

    Attributes
    ----------
    scores : ndarray of float64, shape (n, fusions)
        The fused scores.
    absent : ndarray of bool, shape (n, fusions), or None
        Which candidates no arm with a weight retrieved; None if each arm has one.
    beaten : ndarray of bool, or None
        By fusion, which of `chunks_of_memory` are not the best chunk of their memory; None if there are none.
    """

    def __init__(self, candidates: CandidateSet, block: Block) -> None:
        self.candidates, self.block = candidates, block
        self.scores = self._fused()
        self.absent = self._found_by_none() if block.lacks_arms else None
        if self.absent is not None:
            self.scores[self.absent] = DROPPED
        self.beaten = self._beaten()

    def _fused(self) -> Floats:
        """The fused score of each candidate, for each fusion."""
        candidates = self.candidates
        parts = [
            fuse(Evidence(candidates.norm(fusion.norm), candidates.rank), fusion.weights, fusion.method, fusion.rrf_k)
            for fusion in self.block.fusions
        ]
        fused = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return np.round(fused, FUSED_DIGITS, out=fused)

    def _found_by_none(self) -> Mask:
        """Which candidates no arm with a weight retrieved."""
        weights = np.concatenate([fusion.weights for fusion in self.block.fusions], axis=1)
        is_found = np.zeros((len(self.candidates), weights.shape[1]), bool)
        for arm, weight in enumerate(weights):
            is_found |= (self.candidates.rank[:, arm, None] > 0) & (weight > 0)
        return ~is_found

    def _beaten(self) -> Mask | None:
        """Which chunks are not the best of their memory, by fused score."""
        chunks = self.candidates.chunks_of_memory
        if chunks is None:
            return None
        order = self.candidates.tie_order[chunks.rows]
        # Of so few keys the unit is the number of all candidates, so that ties are those of all.
        keys = as_keys(np.rint(self.scores[chunks.rows] * UNIT), order, self.block.is_bounded, len(self.candidates))
        beaten: Mask = keys != chunks.best(keys)
        return beaten

    def to_rerank(self, fusion: Fusion) -> Mask:
        """Which candidates are reranked, by column of `fusion`: the best of each query, a chunk a memory."""
        candidates, columns = self.candidates, fusion.columns
        keys = as_keys(np.rint(self.scores[:, columns] * UNIT), candidates.tie_order, self.block.is_bounded)
        if self.absent is not None:
            keys[self.absent[:, columns]] = DROPPED
        if self.beaten is not None and candidates.chunks_of_memory is not None:
            rows = candidates.chunks_of_memory.rows
            keys[rows] = np.where(self.beaten[:, columns], DROPPED, keys[rows])
        is_reranked: Mask = keys != DROPPED
        assert fusion.rerank is not None
        for query in candidates.queries:
            is_reranked[query] &= keys[query] >= _nth_largest(keys[query], fusion.rerank.n)
        return is_reranked

    def reranked(self) -> Floats:
        """The fused scores, with those of the best mixed with their scores by the reranker.

        Of the candidates that are looked at, both scores lie between the lowest and the highest fused score: so they
        stay above the others, and a score means what it meant.
        """
        mixed = self.scores.copy()
        for fusion in self.block.fusions:
            if fusion.rerank is not None:
                is_reranked, second = self.to_rerank(fusion), self.candidates.rerank_scores[fusion.rerank.name]
                for query in self.candidates.queries:
                    scores = mixed[query, fusion.columns]
                    scores[:] = _mixed(scores, second[query, None], is_reranked[query], fusion.rerank.weight)
        return np.round(mixed, FUSED_DIGITS, out=mixed)


def _nth_largest(keys: Keys, n: int) -> Any:
    """The n-th largest key of each column; 0, the lowest, if there are fewer."""
    return np.partition(keys, -n, axis=0)[-n] if len(keys) > n else 0


def _mixed(first: Floats, second: Floats, is_reranked: Mask, weight: float) -> Floats:
    """`first`, where `is_reranked`, with a share of `second` on the same range; as it is where those are equal."""
    (low, high), (least, most) = _ends(first, is_reranked), _ends(second, is_reranked)
    with np.errstate(invalid="ignore"):  # columns without a candidate
        span = most - least
        on_range = low + (high - low) * np.divide(second - least, span, out=np.zeros(first.shape), where=span > 0)
    mixed: Floats = np.where(is_reranked & (span > 0), (1 - weight) * first + weight * on_range, first)
    return mixed


def _ends(values: Floats, rows: Mask) -> tuple[Floats, Floats]:
    """The least and the largest of the `values` of some rows, by column."""
    least: Floats = np.where(rows, values, np.inf).min(axis=0, initial=np.inf)
    most: Floats = np.where(rows, values, -np.inf).max(axis=0, initial=-np.inf)
    return least, most


def to_rerank(candidates: CandidateSet, block: Block) -> dict[str, Mask]:
    """By the name of the reranker, which candidates it has to score for any of the settings."""
    wanted = {name: np.zeros(len(candidates), bool) for name in block.rerankers}
    if wanted:
        first = Fused(candidates, block)
        for fusion in block.fusions:
            if fusion.rerank is not None:
                wanted[fusion.rerank.name] |= first.to_rerank(fusion).any(axis=1)
    return wanted


def as_keys(units: Floats, order: Keys, is_bounded: bool, size: int | None = None) -> Keys:
    """A unique integer for each score; `order` breaks ties, the larger first, and is below `size`."""
    size = len(units) if size is None else size
    if is_bounded:
        kind = np.int32 if (UNIT + 2) * size < np.iinfo(np.int32).max else np.int64
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


class Ranking:
    """The state of ranking candidates under a block of settings; each stage updates it.

    Parameters
    ----------
    candidates : CandidateSet
    block : Block
    followed : ndarray of int64
        The candidates, ascending, for which the candidate that they are collapsed under is recorded.

    Attributes
    ----------
    fused, score : ndarray of float64, shape (n, fusions) and (n, columns)
        Without and with the factors. With many settings the arrays are reused: they may hold values of a later stage.
    reranked : ndarray of float64, shape (n, fusions)
        The fused scores after reranking: `fused` itself without it.
    lift : ndarray of float64, shape (n, columns), or None
        What `prefer` has added to the scores; None if it is off.
    key : ndarray of int, shape (n, columns)
    root : ndarray of int, shape (followed, columns)
        The key of the candidate under which each of `followed` is collapsed; its own if it is not.
    floor : ndarray of int64, shape (settings,)
        The least key that reaches `min_score`, by setting. Candidates below it keep their keys.
    near : list of NearPairs or None
        What `collapse_near` has compared, by query.
    """

    def __init__(self, candidates: CandidateSet, block: Block, followed: Ints) -> None:
        self.candidates, self.block, self.followed = candidates, block, followed
        self.is_one = len(block.fused) == 1
        first = Fused(candidates, block)
        absent, beaten = first.absent, first.beaten
        self.fused = first.scores
        self.reranked = first.reranked() if block.rerankers else self.fused
        self.score = self._multiplied()
        self.lift = self._lifted(absent, beaten)
        units = np.multiply(self.score, UNIT, out=None if block.is_diverse or self.is_one else self.score)
        np.rint(units, out=units)
        self.key = as_keys(units, candidates.tie_order, block.is_bounded)
        self.floor = self._floor(units)
        if beaten is not None and candidates.chunks_of_memory is not None:
            rows = candidates.chunks_of_memory.rows
            self.key[rows] = np.where(self._by_column(beaten), DROPPED, self.key[rows])
        if absent is not None:
            np.putmask(self.key, self._by_column(absent), DROPPED)
        self.root = self.key[followed]
        self.near: list[NearPairs | None] = []

    def _by_column(self, values: Any) -> Any:
        """Values by fused score, as values by column."""
        if self.block.is_identity:
            return values
        return np.take(values, self.block.fused, axis=1, mode="clip")

    def _multiplied(self) -> Floats:
        """The fused scores, times kind weight and decay."""
        block, candidates = self.block, self.candidates
        score: Floats = self.reranked.copy() if self.is_one else self._by_column(self.reranked)
        if block.prior is not None:
            score *= np.take(candidates.prior(block.priors), block.prior, axis=1, mode="clip")
        elif candidates.has_priors:
            score *= candidates.prior((None,))
        if block.decays:
            score *= np.take(candidates.factors(block.decays), block.decay, axis=1, mode="clip")
        return score

    def _lifted(self, absent: Mask | None, beaten: Mask | None) -> Floats | None:
        """Lift the newer of two alike candidates just above the older, if their scores are near; what was added.

        The oldest go first, so that of many statements in a row each later one stands above those before it.
        """
        block, candidates = self.block, self.candidates
        if block.alike_from is None:
            return None
        competes = np.ones(self.score.shape, bool) if absent is None else ~self._by_column(absent)
        if beaten is not None and candidates.chunks_of_memory is not None:
            competes[candidates.chunks_of_memory.rows] &= ~self._by_column(beaten)
        units = np.rint(self.score * UNIT)
        lifted, most = units.copy(), UNIT + 1 if block.is_bounded else np.inf
        for newer, older, similar in candidates.updates(float(block.alike_from.min())):
            gap = lifted[older] - units[newer]
            may = (gap >= 0) & (gap <= NEAR_TIE * UNIT) & competes[older] & competes[newer]
            above = np.where(may & (similar[:, None] >= block.alike_from), lifted[older] + 1, 0.0).max(axis=0)
            lifted[newer] = np.maximum(lifted[newer], np.minimum(above, most))
        lift: Floats = np.where(lifted > units, lifted / UNIT - self.score, 0.0)
        self.score += lift
        return lift

    def _floor(self, units: Floats) -> Keys:
        block = self.block
        if block.is_bounded:  # what was lifted may be one unit above 1
            floor: Keys = np.multiply(np.minimum(block.least, UNIT + 2).astype(np.int64), len(units))
            return floor
        low = units[:, block.column] < block.least
        return np.asarray(low.sum(axis=0), np.int64)

    def collapse_twins(self) -> None:
        """Drop exact duplicates of better candidates."""
        twins = self.candidates.twins
        if twins is None:
            return
        own_key = self.key[twins.rows]
        best = twins.best(own_key)
        lost = (own_key != best) & (own_key >= 0)
        if not lost.any():
            return
        self.key[twins.rows] = np.where(lost, DROPPED, own_key)
        place = np.full(len(self.candidates), -1)
        place[twins.rows] = np.arange(len(twins.rows))
        position = np.flatnonzero(place[self.followed] >= 0)
        place = place[self.followed[position]]
        self.root[position] = np.where(lost[place], best[place], self.root[position])

    def collapse_near(self) -> None:
        """Drop near-duplicates of better candidates that stay, among the best `FOLDED` of each query."""
        if not self.block.folds:
            return
        queries = self.candidates.queries
        self.near = self.candidates.near(list(map(self._compared, queries)))
        for query, pairs in zip(queries, self.near, strict=True):
            if pairs is not None:
                self._collapse_pairs(query, pairs)

    def _compared(self, query: slice) -> Ints:
        """The best candidates of the query under few settings; all under many, as these have different ones."""
        if len(self.block.fused) > _FEW:
            return np.arange(query.start, query.stop)
        key = self.key[query]
        is_best = key >= np.maximum(_nth_largest(key, FOLDED), self.floor.min())
        best: Ints = query.start + np.flatnonzero(is_best.any(axis=1))
        return best

    def _collapse_pairs(self, query: slice, near: NearPairs) -> None:
        own_key = self.key[near.rows]
        is_open = (own_key >= 0) & (own_key >= _nth_largest(self.key[query], FOLDED))
        under = collapse(own_key, is_open, near, self.block.fold_threshold)
        collapsed = under != own_key
        self.key[near.rows] = np.where(collapsed, DROPPED, own_key)
        root = self.root[slice(*np.searchsorted(self.followed, (query.start, query.stop)))]
        for row in np.flatnonzero(collapsed.any(axis=1)):
            np.copyto(root, under[row], where=collapsed[row] & (root == own_key[row]))

    def diversify(self, place: Ints, depth: int | None, query: slice) -> tuple[Ints, Floats]:
        """Places after MMR, and the penalty of each candidate of the query; one column per setting."""
        key = self.key[query]
        is_alive = key >= self.floor
        alive = count(is_alive)
        order = np.argsort(-key, axis=0, kind="stable")[: int(alive.max(initial=0))]
        penalty = np.zeros(key.shape)
        if not len(order):
            return place, penalty
        some, position = np.flatnonzero(is_alive.any(axis=1)), np.zeros(len(key), np.int64)
        position[some] = np.arange(len(some))
        score, similar = (
            np.take_along_axis(self.score[query], order, axis=0),
            self.candidates.similar(query.start + some),
        )
        moved, lost = mmr(score, similar, self.block.mmr_lambda, depth, position[order], alive)
        np.put_along_axis(penalty, order, lost, axis=0)
        known = np.take_along_axis(moved, np.minimum(place, len(order) - 1), axis=0)
        return np.where(place < len(order), known, NOWHERE), penalty


@dataclass(frozen=True)
class Places:
    """The places of some candidates under each setting.

    Attributes
    ----------
    place : ndarray of int64, shape (wanted, settings)
        From 0; a collapsed candidate has the place of its hit; `NOWHERE` if it is not among the first.
    is_hit : ndarray of bool, shape (wanted, settings)
        Whether it is a hit itself.
    hits : ndarray of int64, shape (settings,)
        The number of hits, or 1 for any number.
    """

    place: Ints
    is_hit: Mask
    hits: Ints


def places(candidates: CandidateSet, block: Block, wanted: Ints, depth: int, counts: bool = True) -> Places:
    """The places of the candidates `wanted` of one query under each setting, among the first `depth` hits.

    Parameters
    ----------
    counts : bool
        Whether to count hits; else only whether there is one.
    """
    ranking = Ranking(candidates, block, wanted)
    alone = ranking.root.copy()
    ranking.collapse_twins()
    ranking.collapse_near()
    key, root, floor, column = ranking.key, ranking.root, ranking.floor, block.column
    shown = (alone[:, column] >= floor) & (root[:, column] >= floor)
    place = np.array([count(key > root_key) for root_key in root]).reshape(root.shape).astype(np.int64)
    if _is_crowded(ranking):
        shown &= _is_named(candidates, block, wanted, root)[:, column]
    if block.is_diverse:
        place, _ = ranking.diversify(place, depth, slice(0, len(candidates)))
    else:
        place = place[:, column]
    shown &= place < depth
    is_hit = shown & (root == alone)[:, column]
    return Places(np.where(shown, place, NOWHERE), is_hit, _hits(ranking, depth, counts))


def _hits(ranking: Ranking, depth: int, counts: bool) -> Ints:
    key, floor, block = ranking.key, ranking.floor, ranking.block
    if not counts and block.is_bounded and not block.lacks_arms and not block.least.any():
        return np.full(len(block), int(len(key) > 0))
    if not counts:
        best = key.max(axis=0, initial=DROPPED)
        return np.asarray(best[block.column] >= floor, np.int64)
    return np.minimum(count(key[:, block.column] >= floor), depth)


def _is_crowded(ranking: Ranking) -> bool:
    """Whether a hit may have more duplicates than are listed."""
    twins = 1 if ranking.candidates.twins is None else int(ranking.candidates.twins.sizes.max())
    near = [pairs for pairs in ranking.near if pairs is not None]
    if twins * max([len(pairs.rows) for pairs in near], default=1) <= MOST_NAMED:
        return False
    return twins * max([pairs.largest for pairs in near], default=1) > MOST_NAMED


def _is_named(candidates: CandidateSet, block: Block, wanted: Ints, root: Keys) -> Mask:
    """Which of the wanted are a hit, or among the first `MOST_NAMED` duplicates of one."""
    every = Ranking(candidates, block, np.arange(len(candidates)))
    before = every.key.copy()
    every.collapse_twins()
    every.collapse_near()
    named = np.ones(root.shape, bool)
    collapsed = (before[wanted] >= 0) & (root != before[wanted]) & (root != DROPPED)
    for position, column in np.argwhere(collapsed).tolist():
        key, above = before[:, column], root[position, column]
        others = np.flatnonzero((every.root[:, column] == above) & (key != above))
        others = others[np.argsort(-key[others], kind="stable")]
        head = int(candidates.memory[np.flatnonzero(key == above)[0]])
        names = [name for name in dict.fromkeys(candidates.memory[others].tolist()) if name != head]
        named[position, column] = int(candidates.memory[wanted[position]]) in names[:MOST_NAMED]
    return named


def count(flags: Mask) -> Ints:
    """The number of true values, by column."""
    total = np.zeros(flags.shape[1], np.int64)
    for start in range(0, len(flags), 255):  # so many fit a byte
        total += np.add.reduce(flags[start : start + 255].view(np.uint8), axis=0, dtype=np.uint8)
    return total


class RankedQuestion(Protocol):
    """The interface of a question that the stages use: settings and rows, never an index."""

    @property
    def settings(self) -> QuerySettings: ...
    @property
    def rows(self) -> Rows: ...
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
    def prior(self, memory: Ints, /) -> Floats: ...
    def rerank(self, candidates: Candidates, /) -> Floats | None: ...


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


_OFFSET, _OF_BEST, _OF_GAP = -1.66, 3.95, 8.41
_NEXT = 10


def evidence(ranked: Ranked, n_queries: int) -> tuple[Floats, Floats]:
    """For each query the best fused score, and by how much it is above the mean of the next ten; 0 without candidates.

    Memories that are collapsed under others do not count, as they say nothing more. Where fewer than ten others are
    left, those that lack count as the best: few candidates do not show that it stands out.
    """
    stands = ranked.under < 0
    query, fused = ranked.candidates.query[stands], ranked.fused[stands]
    order = np.lexsort((-fused, query))
    query, fused = query[order], fused[order]
    starts = group_starts(query)
    place = np.arange(len(query)) - spread(starts, starts, len(query))
    best, is_next = np.zeros(n_queries), (place > 0) & (place <= _NEXT)
    best[query[starts]] = fused[starts]
    sums, counts = (np.bincount(query[is_next], weights, n_queries) for weights in (fused[is_next], None))
    return best, (counts * best - sums) / _NEXT


def answerability(ranked: Ranked, question: RankedQuestion) -> Floats | None:
    """How likely an answer is among the first hits of each query, 0 to 1, from its calibrated scores; else None.

    It is fitted on labelled sets (`tests/benchmarks/bench_answerable.py`) and is no probability: other queries have
    answers more often, or less.
    """
    if question.settings.normalise != "calibrated":
        return None
    best, gap = evidence(ranked, len(question.queries))
    likely: Floats = 1.0 / (1.0 + np.exp(-(_OFFSET + _OF_BEST * best + _OF_GAP * gap)))
    return np.round(likely, 2)


def rank(candidates: Candidates, question: RankedQuestion) -> Ranked:
    """Apply all stages to `candidates` under the settings of a question, and record the result of each stage."""
    settings, norm = question.settings, norms(candidates, question.settings, question.across)
    memory = question.rows.memory[candidates.row]
    age_days, decay = question.decay(memory)
    prior = question.prior(memory)
    candidate_set = _candidate_set(candidates, question, norm, decay, prior)
    key_of_settings = RankingKey.from_settings(settings, question.weights, candidates.arms)
    block, is_reranked = _reranked_block(candidate_set, key_of_settings, question, candidates)
    ranking = Ranking(candidate_set, block, np.arange(len(memory)))
    fused, score, key = ranking.fused[:, 0], ranking.score[:, 0], ranking.key[:, 0].copy()
    after_rerank = ranking.reranked[:, 0]
    is_low, without_decay = key < ranking.floor[0], np.rint(after_rerank * prior * UNIT) >= block.least[0]
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
    reranked = np.where(is_reranked, after_rerank, np.nan)
    lift = np.zeros(len(key)) if ranking.lift is None else ranking.lift[:, 0]
    stages = norm, fused, reranked, age_days, decay, lift, score
    ranked = Ranked(candidates, *stages, penalty, rank, prior, under, disposition)
    return ranked.take(order)


def _reranked_block(
    candidate_set: CandidateSet, key: RankingKey, question: RankedQuestion, candidates: Candidates
) -> tuple[Block, Mask]:
    """The block of one setting, and which candidates were reranked; none if the reranker cannot be reached."""
    block = block_of([key])
    for name, is_reranked in to_rerank(candidate_set, block).items():
        rows = np.flatnonzero(is_reranked)
        scores = question.rerank(candidates.take(rows))
        if scores is None:
            block = block_of([replace(key, rerank=None)])
            break
        candidate_set.rerank_scores = {name: np.full(len(is_reranked), np.nan)}
        candidate_set.rerank_scores[name][rows] = scores
        return block, is_reranked
    return block, np.zeros(len(candidate_set), bool)


def _candidate_set(
    candidates: Candidates, question: RankedQuestion, norm: Floats, decay: Floats, prior: Floats
) -> CandidateSet:
    likeness = cache(lambda: question.likeness(candidates.row))
    return CandidateSet(
        query=candidates.query,
        rank=candidates.rank,
        memory=question.rows.hit_of(question.rows.memory[candidates.row], question.settings.unit),
        twin=question.rows.twin[candidates.row],
        text=candidates.row,
        dated=question.rows.dated[question.rows.memory[candidates.row]],
        per_memory=question.settings.unit != "chunk",
        norm=lambda _: norm,
        factor=lambda _: decay[:, None],
        prior=lambda _: prior[:, None],
        has_priors=bool((prior != 1.0).any()),
        repeats=question.repeats,
        least_threshold=question.settings.fold_threshold,
        likeness=lambda index: likeness()(candidates.row[index]),
    )


def _collapsed(ranking: Ranking, key: Ints, disposition: NDArray[np.int8], row: Ints) -> Ints:
    """The row under which each one is collapsed, else -1; sets `disposition` too."""
    under, by_key = np.full(len(key), -1), None
    for apply, name in ((ranking.collapse_twins, "duplicate"), (ranking.collapse_near, "folded")):
        apply()
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
