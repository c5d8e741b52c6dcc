"""Scores of many settings over the candidates for labelled queries, one query at a time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from memkit.evaluation.scores.metrics import OF_HITS, Judged, Labels, Metric
from memkit.evaluation.scores.pools import IndexCandidates
from memkit.evaluation.settings.plans import Plan
from memkit.schemas import Floats, Ints, Mask
from memkit.search.fitted.across import scores_across
from memkit.search.question import Settings
from memkit.search.stages.columns import decay_factors, priors
from memkit.search.stages.diversify import NOWHERE
from memkit.search.stages.rank import norms
from memkit.search.stages.ranking import CandidateSet, Places, places
from memkit.tables.age import ages


def _norms(name: Any, settings: Settings, part: IndexCandidates) -> Floats:
    if name is None:  # places alone count
        return np.zeros(part.candidates.raw.shape)
    across = partial(scores_across, part.index, part.texts)
    return norms(part.candidates, settings.with_params(normalise=name[0], across_weight=name[1]), across)


class Scorer:
    """Scores of one plan over one part, a slice of queries at a time; any number of threads may call it.

    It holds all columns of the candidates that scoring needs, so that `alone` can go to a worker without an index.

    Parameters
    ----------
    depth : int
        How many hits the metrics look at.
    """

    def __init__(
        self,
        labels: Labels,
        metrics: Sequence[Metric],
        depth: int,
        settings: Settings,
        plan: Plan,
        part: IndexCandidates,
    ) -> None:
        candidates, index = part.candidates, part.index
        self.labels, self.metrics, self.depth = labels, list(metrics), depth
        self.looks_at_hits = any(metric.kind in OF_HITS for metric in metrics)
        self.plan, self.number, self.candidates = plan, part.number, candidates
        self.starts = np.searchsorted(candidates.query, np.arange(len(part.number) + 1))
        self.twin = index.rows.twin[candidates.row]
        self.memory = index.rows.memory[candidates.row]
        self.age = ages(index.rows.dated[self.memory], part.moment[candidates.query])
        codes = labels.codes(index.memories["memory_id"])
        self.label = labels.look_up(part.number[candidates.query], codes[self.memory])
        names = {fusion.norm for block in plan.blocks for fusion in block.fusions}
        self.norms = {name: _norms(name, settings, part) for name in names}
        self.kind, self.kind_names = index.rows.kind[0][self.memory], index.rows.kind[1]
        decaying = {decay[3] for block in plan.blocks for decay in block.decays if decay}
        self.decaying = {kinds: index.rows.may_decay(self.memory, kinds) for kinds in decaying}
        self.repeats = part.index.repeats if any(block.folds for block in plan.blocks) else None
        self.text = candidates.row
        if any(block.is_diverse for block in plan.blocks):
            self.similarity = index.similarity(candidates.row, by_vectors="vector" in plan.arms)

    def alone(self, unit: slice) -> Self:
        """The scorer of some queries alone, without references to the index."""
        first, last = self.starts[unit.start], self.starts[unit.stop]
        rows, part = slice(first, last), copy.copy(self)
        part.number, part.starts = self.number[unit], self.starts[unit.start : unit.stop + 1] - first
        part.candidates = self.candidates.take(np.arange(first, last))
        for name in ("twin", "memory", "age", "label", "kind"):
            setattr(part, name, getattr(self, name)[rows])
        part.norms = {name: values[rows] for name, values in self.norms.items()}
        part.decaying = {name: values[rows] for name, values in self.decaying.items()}
        if self.repeats is not None:
            texts, part.text = np.unique(self.text[rows], return_inverse=True)
            part.repeats = self.repeats.subset(texts)
        if hasattr(self, "similarity"):
            part.similarity = self.similarity.among(np.unique(part.candidates.row))
        return part

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
            memory=self.memory[rows],
            twin=self.twin[rows],
            text=self.text[rows],
            per_memory=self.plan.per_memory,
            norm=lambda name: self.norms[name][rows],
            factor=lambda decays: decay_factors(self.age[rows], lambda kinds: self.decaying[kinds][rows], decays),
            prior=lambda weights: self._priors(rows, weights),
            repeats=self.repeats,
            least_threshold=self.plan.least_threshold,
            likeness=lambda positions: self.similarity(row[positions]),
        )
        return of_query, wanted, labels

    def _priors(self, rows: slice, weights: tuple[Any, ...]) -> Floats:
        return np.stack([priors(self.kind[rows], self.kind_names, dict(one or ())) for one in weights], axis=1)

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

        def each(values: Any) -> Any:
            return np.full(shape[0], values[query])

        return Judged(
            each(self.labels.n_relevant), lambda k: each(self.labels.ideal(k)), gain, covered, judged, stale, filled
        )

    def _mark(self, candidates: Ints, places: Places, judged: Mask, stale: Mask, is_stale: bool) -> None:
        """Mark the places of candidates of one memory that was judged."""
        for candidate in candidates.tolist():
            rows = np.flatnonzero(places.place[candidate] != NOWHERE)
            judged[rows, places.place[candidate, rows]] = True
            rows = rows[places.is_hit[candidate, rows]]
            stale[rows, places.place[candidate, rows]] = is_stale
