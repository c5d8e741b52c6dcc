"""Scores of settings over the candidates for labelled queries, which are retrieved once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np

from memkit import __version__
from memkit.errors import ParameterError
from memkit.evaluation.checkpoint import Checkpoint
from memkit.evaluation.evaluation import Task
from memkit.evaluation.grid import Setting
from memkit.evaluation.metrics import OF_HITS, Judged, Labels, Metric
from memkit.evaluation.pools import IndexCandidates, Pools
from memkit.evaluation.verdict import fingerprint
from memkit.index.rerank import Reranker, as_reranker
from memkit.parallel import is_configured, results
from memkit.progress import bar
from memkit.schemas import Floats, Ints, Mask
from memkit.search.ask import Settings
from memkit.search.fitted.across import scores_across
from memkit.search.fitted.arms import KINDS
from memkit.search.fitted.index import decay_factors, priors, stale_factors
from memkit.search.question import rerank_scores
from memkit.search.stages.diversify import NOWHERE
from memkit.search.stages.ranking import Block, CandidateSet, Places, RankingKey, block_of, norms, places, to_rerank
from memkit.tables.age import ages

_UNIT = 250_000
_FEWEST_UNITS = 8
OF_DECAY = ("decay", "decay_days", "decay_floor", "decay_kinds")
"""The parameters of decay."""


def scores_of(
    pools: Pools,
    task: Task,
    metrics: Sequence[Metric],
    depth: int,
    settings: Sequence[Setting],
    names: Sequence[str] = (),
    n_jobs: int | None = None,
    resume: str | Path | None = None,
) -> tuple[Floats, Ints]:
    """Scores, metrics × settings × queries, and the number of queries with a hit, by setting.

    Parameters
    ----------
    pools : Pools
        Over one index; arms are asked for what is missing.
    depth : int
        How many hits the metrics look at.
    names : sequence of str
        The parameters that vary; raise where they cannot make a difference.
    resume : str or Path, optional
        A checkpoint file, which keeps each part of the scores as soon as it is done.
    """
    plans, rerankers = _plans(pools, settings)
    _check_decay(pools, plans, names)
    checkpoint = None if resume is None else Checkpoint(resume, _facts(pools, task, metrics, depth, settings))
    scores = np.full((len(metrics), len(settings), task.queries.num_rows), np.nan)
    with_hits = np.zeros(len(settings), np.int64)
    work = [(plan, part) for plan in plans for part in _parts(pools, plan)]
    with bar("scoring settings", total=sum(len(part.number) * plan.size for plan, part in work)) as done:
        for number, (plan, part) in enumerate(work):
            scorer = partial(Scorer, task.labels, metrics, depth, pools.settings, plan, part, rerankers)
            for unit, values, hits in _scores_by_unit(f"{number}", scorer, plan, part, n_jobs, checkpoint):
                columns = part.number[unit]
                scores[:, plan.positions[:, None], columns] = values[:, plan.effect]
                with_hits[plan.positions] += hits[plan.effect]
                done.update(len(columns) * plan.size)
    return scores, with_hits


def _plans(pools: Pools, settings: Sequence[Setting]) -> tuple[list[Plan], dict[str, Reranker]]:
    """The settings grouped by the candidates that they rank, and their rerankers by name; asks the arms."""
    needs, rerankers = [], {}
    for setting in settings:
        full, weights, scope = pools.needs(setting)
        if full.rerank is not None:
            reranker = as_reranker(full.rerank)
            rerankers[reranker.name] = reranker
        needs.append((full, weights, (scope, full.pool, full.unit)))
    together: dict[tuple[Any, ...], set[str]] = {}
    for full, weights, key in needs:
        if shares_candidates(full):
            together.setdefault(key, set()).update(weights)
    groups: dict[tuple[Any, ...], list[tuple[int, RankingKey]]] = {}
    for position, (full, weights, (scope, *pool_and_unit)) in enumerate(needs):
        arms_of_group = together[(scope, *pool_and_unit)] if shares_candidates(full) else weights
        arms = tuple(arm for arm in KINDS if arm in arms_of_group)
        groups.setdefault((scope, arms, *pool_and_unit), []).append(
            (position, RankingKey.from_settings(full, weights, arms))
        )
    for scope in dict.fromkeys(key[0] for key in groups):
        wanted = [key for key in groups if key[0] == scope]
        arms_asked = [arm for arm in KINDS if any(arm in key[1] for key in wanted)]
        pools.retrieve_for(scope, arms_asked, max(key[2] for key in wanted))
        pools.check(scope, dict.fromkeys(arms_asked, 1.0))
    return [Plan.from_settings(key, effects) for key, effects in groups.items()], rerankers


def _parts(pools: Pools, plan: Plan) -> list[IndexCandidates]:
    return pools.parts(plan.scope, plan.arms, plan.pool)


def _check_decay(pools: Pools, plans: Sequence[Plan], names: Sequence[str]) -> None:
    """Raise where the settings vary decay and no candidate decays under any of them."""
    varied = [name for name in names if name in OF_DECAY]
    if varied and not any(_decays(part, plan) for plan in plans for part in _parts(pools, plan)):
        raise ParameterError(
            f"grid: '{varied[0]}' makes no difference: no candidate of these queries decays under any setting. "
            "Expected memories with a date before the moment of the query, of a kind in decay_kinds ('*' is all),"
            " neither of high nor of low importance, and a form of decay."
        )


def _scores_by_unit(
    name: str,
    make_scorer: Callable[[], Scorer],
    plan: Plan,
    part: IndexCandidates,
    n_jobs: int | None,
    checkpoint: Checkpoint | None,
) -> Iterator[tuple[slice, Floats, Ints]]:
    """The scores of one plan over one part: those in the checkpoint, then those that are missing from it."""
    saved = {} if checkpoint is None else checkpoint.arrays
    units = _units(len(part.number), plan.size)
    missing = [unit for unit in units if f"{name} {unit.start}" not in saved]
    for unit in units:
        if unit not in missing:
            values = saved[f"{name} {unit.start}"]
            yield unit, values[:, :, :-1], values[0, :, -1].astype(np.int64)
    if missing:
        for unit, (scores, hits) in zip(missing, _scored(make_scorer(), missing, n_jobs), strict=True):
            if checkpoint is not None:
                counts = np.broadcast_to(hits[:, None], (*scores.shape[:2], 1))
                checkpoint.put(f"{name} {unit.start}", np.concatenate([scores, counts], axis=2))
            yield unit, scores, hits


def _facts(
    pools: Pools, task: Task, metrics: Sequence[Metric], depth: int, settings: Sequence[Setting]
) -> dict[str, Any]:
    """Everything that the scores depend on, as fingerprints."""
    labels, rows, memories = task.labels, pools.index.rows, pools.index.memories
    arrays = (rows.kind[0], rows.expires, rows.dated, rows.created, rows.decays, rows.twin)
    by_status = [memories[name].to_pylist() for name in ("status", "superseded_by", "stale_at")]
    questions = [batch.rows.drop_columns(["group"]).to_pylist() for batch in pools.batches]
    return {
        "version": __version__,
        "corpus": fingerprint(
            pools.index.digests, memories["user_id"].to_pylist(), list(rows.kind[1]), by_status, *arrays
        ),
        "encoder": pools.index.fingerprint,
        "labels": fingerprint(
            labels.key, labels.gain, labels.stale, labels.queries.to_pylist(), labels.memories.to_pylist(), questions
        ),
        "settings": fingerprint(pools.settings.get_params(), list(settings)),
        "metrics": [metric.name for metric in metrics],
        "depth": depth,
        "where": [batch.where for batch in pools.batches],
        "as_of": str(task.moment),
        "is_dated": task.moment.until is not None,
    }


def _scored(scorer: Scorer, units: list[slice], n_jobs: int | None) -> Iterator[tuple[Floats, Ints]]:
    """The scorer's result for each unit: by threads, or by the workers that joblib is configured for."""
    if not is_configured():
        yield from results(scorer, ((unit,) for unit in units), n_jobs, prefer="threads")
        return
    alone = ((scorer.alone(unit), slice(0, unit.stop - unit.start)) for unit in units)
    yield from results(Scorer.__call__, alone, n_jobs)


def _units(n_queries: int, n_settings: int) -> list[slice]:
    """Slices of queries, each one unit of work."""
    size = max(1, min(-(-n_queries // _FEWEST_UNITS), _UNIT // max(n_settings, 1)))
    return [slice(start, min(start + size, n_queries)) for start in range(0, n_queries, size)]


def _decays(part: IndexCandidates, plan: Plan) -> bool:
    memory = part.index.rows.memory[part.candidates.row]
    age = ages(part.index.rows.dated[memory], part.moment[part.candidates.query])
    kinds = {decay[3] for block in plan.blocks for decay in block.decays if decay}
    return any(bool((part.index.rows.may_decay(memory, decaying_kinds) & (age > 0)).any()) for decaying_kinds in kinds)


def _norms(name: Any, settings: Settings, part: IndexCandidates) -> Floats:
    if name is None:  # places alone count
        return np.zeros(part.candidates.raw.shape)
    across = partial(scores_across, part.index, part.texts, sights=part.sights)
    return norms(part.candidates, settings.with_params(normalise=name[0], across_weight=name[1]), across)


_BLOCK = 512
"""Settings in a block: a query's candidates under so many fit a processor's second cache."""


@dataclass(frozen=True)
class Plan:
    """Settings that rank the same candidates.

    Attributes
    ----------
    arms, pool, unit
        The arms and pool that the candidates come from; what a hit is.
    positions : ndarray of int64
        The numbers of the settings.
    effect : ndarray of int64
        The column of each setting in the blocks, counted through.
    blocks : list of Block
    """

    scope: tuple[Any, ...]
    arms: tuple[str, ...]
    pool: int
    unit: str
    positions: Ints
    effect: Ints
    blocks: list[Block]

    @property
    def size(self) -> int:
        return sum(map(len, self.blocks))

    @property
    def least_threshold(self) -> float:
        return min((float(block.fold_threshold.min()) for block in self.blocks if block.folds), default=1.0)

    @classmethod
    def from_settings(cls, key: tuple[Any, ...], effects: Sequence[tuple[int, RankingKey]]) -> Plan:
        """The settings of one `key`, by number and effect."""
        number: dict[RankingKey, int] = {}
        for _, effect in effects:
            number.setdefault(effect, len(number))
        order_of: dict[Any, int] = {}

        def order(effect: RankingKey) -> tuple[int, ...]:
            how = (effect.norm, effect.method, effect.rrf_k, effect.rerank)
            of_fusion = [order_of.setdefault(part, len(order_of)) for part in (how, (*how, effect.weights))]
            tail = (effect.fold_threshold is not None, effect.mmr_lambda < 1.0)
            return (*map(int, tail), *of_fusion, order_of.setdefault(("decay", effect.decay), len(order_of)))

        ordered = sorted(number, key=order)
        column = {effect: column_ for column_, effect in enumerate(ordered)}
        runs = [list(run) for _, run in groupby(ordered, lambda e: (e.fold_threshold is None, e.mmr_lambda < 1.0))]
        blocks = [block_of(run[start : start + _BLOCK]) for run in runs for start in range(0, len(run), _BLOCK)]
        positions = np.array([position for position, _ in effects], np.int64)
        scope, arms, pool, unit = key
        columns = np.array([column[effect] for _, effect in effects], np.int64)
        return cls(scope, arms, pool, unit, positions, columns, blocks)


def shares_candidates(s: Settings) -> bool:
    """Whether candidates of other arms make no difference to these settings, so that pools may be shared."""
    return s.fusion in ("weighted", "rrf") and s.mmr_lambda == 1.0 and (s.normalise != "none" or s.fusion == "rrf")


class Scorer:
    """Scores of one plan over one part, a slice of queries at a time; any number of threads may call it.

    It holds all columns of the candidates that scoring needs, so that `alone` can go to a worker without an index.

    Parameters
    ----------
    depth : int
        How many hits the metrics look at.
    rerankers : mapping of str to Reranker
        By name; they are asked here, and not in the workers.
    """

    def __init__(
        self,
        labels: Labels,
        metrics: Sequence[Metric],
        depth: int,
        settings: Settings,
        plan: Plan,
        part: IndexCandidates,
        rerankers: Mapping[str, Reranker],
    ) -> None:
        candidates, index = part.candidates, part.index
        self.labels, self.metrics, self.depth = labels, list(metrics), depth
        self.looks_at_hits = any(metric.kind in OF_HITS for metric in metrics)
        self.plan, self.number, self.candidates = plan, part.number, candidates
        self.starts = np.searchsorted(candidates.query, np.arange(len(part.number) + 1))
        self.twin = index.rows.twin[candidates.row]
        self.memory = index.rows.memory[candidates.row]
        self.hit = index.rows.hit_of(self.memory, plan.unit)
        self.age = ages(index.rows.dated[self.memory], part.moment[candidates.query])
        codes = labels.codes(index.memories["memory_id"])
        self.label = labels.look_up(part.number[candidates.query], codes[self.memory])
        names = {fusion.norm for block in plan.blocks for fusion in block.fusions}
        self.norms = {name: _norms(name, settings, part) for name in names}
        self.kind, self.kind_names = index.rows.kind[0][self.memory], index.rows.kind[1]
        self.stale = stale_factors(index.rows.stale(self.memory, part.until[candidates.query]))
        self.has_priors = index.rows.has_own_weights or bool((self.stale != 1.0).any())
        decaying = {decay[3] for block in plan.blocks for decay in block.decays if decay}
        self.decaying = {kinds: index.rows.may_decay(self.memory, kinds) for kinds in decaying}
        compares = any(block.folds or block.alike_from is not None for block in plan.blocks)
        self.repeats = part.index.repeats if compares else None
        self.text, self.dated = candidates.row, index.rows.dated[self.memory]
        if any(block.is_diverse for block in plan.blocks):
            self.similarity = index.similarity(candidates.row, by_vectors="vector" in plan.arms)
        self.rerank_scores: dict[str, Floats] = {}
        self.rerank_scores = self._rerank_scores(part, rerankers)

    def alone(self, unit: slice) -> Self:
        """The scorer of some queries alone, without references to the index."""
        first, last = self.starts[unit.start], self.starts[unit.stop]
        rows, part = slice(first, last), copy.copy(self)
        part.number, part.starts = self.number[unit], self.starts[unit.start : unit.stop + 1] - first
        part.candidates = self.candidates.take(np.arange(first, last))
        for name in ("twin", "memory", "hit", "age", "label", "kind", "stale", "dated"):
            setattr(part, name, getattr(self, name)[rows])
        part.norms = {name: values[rows] for name, values in self.norms.items()}
        part.rerank_scores = {name: values[rows] for name, values in self.rerank_scores.items()}
        part.decaying = {name: values[rows] for name, values in self.decaying.items()}
        if self.repeats is not None:
            texts, part.text = np.unique(self.text[rows], return_inverse=True)
            part.repeats = self.repeats.subset(texts)
        if hasattr(self, "similarity"):
            part.similarity = self.similarity.among(np.unique(part.candidates.row))
        return part

    def _rerank_scores(self, part: IndexCandidates, rerankers: Mapping[str, Reranker]) -> dict[str, Floats]:
        """The scores of all candidates that any setting reranks, by reranker: each is asked once."""
        names = dict.fromkeys(name for block in self.plan.blocks for name in block.rerankers)
        to_score = {name: np.zeros(len(self.memory), bool) for name in names}
        for query in range(len(self.number) if names else 0):
            candidates, rows = self._query(query)[0], slice(self.starts[query], self.starts[query + 1])
            for block in self.plan.blocks:
                for name, wanted in to_rerank(candidates, block).items():
                    to_score[name][rows] |= wanted
        scores = {name: np.full(len(self.memory), np.nan) for name in names}
        for name, wanted in to_score.items():
            scored_rows = np.flatnonzero(wanted)
            some = part.candidates.take(scored_rows)
            scores[name][scored_rows] = rerank_scores(rerankers[name], part.index, part.texts, some)
        return scores

    def __call__(self, unit: slice) -> tuple[Floats, Ints]:
        """Scores, metrics × effects × queries, and the number of queries with a hit, by effect."""
        plan, queries = self.plan, range(unit.start, unit.stop)
        scores = np.empty((len(self.metrics), plan.size, len(queries)))
        with_hits = np.zeros(plan.size, np.int64)
        for column, query in enumerate(queries):
            candidates, wanted, labels = self._query(query)
            start = 0
            for block in plan.blocks:
                shown = places(candidates, block, wanted, self.depth, self.looks_at_hits)
                columns = slice(start, start + len(block))
                run = self._judged(int(self.number[query]), labels, shown)
                for number, metric in enumerate(self.metrics):
                    scores[number, columns, column] = metric(run)
                with_hits[columns] += shown.hits > 0
                start += len(block)
        return scores, with_hits

    def _query(self, query: int) -> tuple[CandidateSet, Ints, Ints]:
        """The candidates of one query, which of them were judged, and their labels."""
        candidates, rows = self.candidates, slice(self.starts[query], self.starts[query + 1])
        wanted = np.flatnonzero(self.label[rows] >= 0)
        labels = self.label[rows][wanted]
        if not self.looks_at_hits:
            right = self.labels.gain[labels] > 0
            wanted, labels = wanted[right], labels[right]
        row = candidates.row[rows]
        of_query = CandidateSet(
            query=candidates.query[rows],
            rank=candidates.rank[rows],
            memory=self.hit[rows],
            twin=self.twin[rows],
            text=self.text[rows],
            dated=self.dated[rows],
            per_memory=self.plan.unit != "chunk",
            norm=lambda name: self.norms[name][rows],
            factor=lambda decays: decay_factors(self.age[rows], lambda kinds: self.decaying[kinds][rows], decays),
            prior=lambda weights: self._priors(rows, weights),
            has_priors=self.has_priors,
            repeats=self.repeats,
            least_threshold=self.plan.least_threshold,
            likeness=lambda positions: self.similarity(row[positions]),
            rerank_scores={name: values[rows] for name, values in self.rerank_scores.items()},
        )
        return of_query, wanted, labels

    def _priors(self, rows: slice, weights: tuple[Any, ...]) -> Floats:
        by_kind = [priors(self.kind[rows], self.kind_names, dict(kind_weights or ())) for kind_weights in weights]
        return np.stack(by_kind, axis=1) * self.stale[rows, None]

    def _judged(self, query: int, labels: Ints, places: Places) -> Judged:
        """As `Judged.from_hits`, a row for each setting; columns that no metric uses stay empty."""
        shape = (len(places.hits), self.depth)
        gain, covered = np.zeros(shape), np.zeros(shape, np.int64)
        judged, stale, filled = (np.zeros(shape, bool) for _ in range(3))
        for label in dict.fromkeys(labels.tolist()):
            candidates = np.flatnonzero(labels == label)
            first = places.place[candidates].min(axis=0)
            rows = np.flatnonzero(first != NOWHERE)
            cells = (rows, first[rows])
            gain[cells] = np.maximum(gain[cells], self.labels.gain[label])
            covered[cells] += self.labels.gain[label] > 0
            if self.looks_at_hits:
                self._mark(candidates, places, judged, stale, bool(self.labels.stale[label]))
        if self.looks_at_hits:
            filled = np.arange(shape[1]) < places.hits[:, None]

        def repeated(values: Any) -> Any:
            return np.full(shape[0], values[query])

        return Judged(
            repeated(self.labels.n_relevant),
            lambda k: repeated(self.labels.ideal(k)),
            gain,
            covered,
            judged,
            stale,
            filled,
        )

    def _mark(self, candidates: Ints, places: Places, judged: Mask, stale: Mask, is_stale: bool) -> None:
        """Mark the places of candidates of one memory that was judged."""
        for candidate in candidates.tolist():
            rows = np.flatnonzero(places.place[candidate] != NOWHERE)
            judged[rows, places.place[candidate, rows]] = True
            rows = rows[places.is_hit[candidate, rows]]
            stale[rows, places.place[candidate, rows]] = is_stale
