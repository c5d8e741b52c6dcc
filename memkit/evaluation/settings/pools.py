"""What the arms found for labelled queries, asked once, and the scores of any settings over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from memkit import __version__
from memkit.errors import ParameterError
from memkit.evaluation.scores.asking import Batch, batches_of, check_arm
from memkit.evaluation.scores.evaluation import Task
from memkit.evaluation.scores.metrics import Metric
from memkit.evaluation.settings.grid import Setting
from memkit.evaluation.settings.pieces import Pieces
from memkit.evaluation.settings.plans import Effect, Plan, shares_candidates
from memkit.evaluation.settings.scoring import Found, Looked, Worker
from memkit.evaluation.tuning.claims import fingerprint
from memkit.parallel import is_told, results
from memkit.progress import bar
from memkit.schemas import Floats, Ints
from memkit.search.fitted.arms import KINDS
from memkit.search.fitted.index import SearchIndex
from memkit.search.question import SCOPING, Settings
from memkit.search.stages.rank import Candidates, merge
from memkit.tables.age import ages, naive

_UNIT = 250_000
_FEWEST_UNITS = 8
_DECAY = ("decay", "decay_days", "decay_floor", "decay_kinds")


class Pools:
    """Labelled queries put to one search, as far as its settings need it, and what any of them scores.

    Parameters
    ----------
    depth : int
        How many hits the metrics look at.
    """

    def __init__(self, search: Any, task: Task, metrics: Sequence[Metric], depth: int, where: str | None) -> None:
        self.task, self.metrics, self.depth = task, list(metrics), depth
        self.batches: list[Batch] = batches_of(search.over_all(), task.queries, task.qrels, task.moment, where)
        self.index: SearchIndex = self.batches[0].search._index()
        self.settings = Settings.of(self.batches[0].search)
        self._number = {name: at for at, name in enumerate(task.queries["query_id"].to_pylist())}
        self._found: dict[tuple[Any, ...], tuple[tuple[str, ...], int, list[Candidates]]] = {}
        self._parts: dict[tuple[Any, ...], list[Found]] = {}
        self.looked = Looked(task.labels, metrics, depth)

    def plans(self, settings: Sequence[Setting]) -> list[Plan]:
        """The settings by what their arms have to be asked; the arms are asked."""
        known = [self._known_settings(setting) for setting in settings]
        together: dict[tuple[Any, ...], set[str]] = {}
        for own, weights, (scope, *rest) in known:
            if shares_candidates(own):
                together.setdefault((scope, *rest), set()).update(weights)
        groups: dict[tuple[Any, ...], list[tuple[int, Effect]]] = {}
        for position, (own, weights, (scope, *rest)) in enumerate(known):
            asked = together[(scope, *rest)] if shares_candidates(own) else weights
            arms = tuple(arm for arm in KINDS if arm in asked)
            groups.setdefault((scope, arms, *rest), []).append((position, Effect.of(own, weights, arms)))
        for scope in dict.fromkeys(key[0] for key in groups):
            wanted = [key for key in groups if key[0] == scope]
            every = {arm for key in wanted for arm in key[1]}
            self._ask(scope, tuple(arm for arm in KINDS if arm in every), max(key[2] for key in wanted))
        return [Plan.of(key, effects) for key, effects in groups.items()]

    def _known_settings(self, setting: Setting) -> tuple[Settings, dict[str, float], tuple[Any, ...]]:
        """A setting in full, the weights of its arms, and what its arms have to be asked."""
        own = self.settings.but(**{**setting, "on_encoder_error": "raise"})
        values = [getattr(own, name) for name in SCOPING]
        scope = tuple(tuple(value) if isinstance(value, list) else value for value in values)
        return own, self.index.weights(own), (scope, own.pool, own.unit == "memory")

    def _ask(self, scope: tuple[Any, ...], arms: tuple[str, ...], pool: int) -> None:
        """Ask the arms unless they were asked for as much."""
        if scope in self._found:
            had, depth, _ = self._found[scope]
            arms, pool = tuple(arm for arm in KINDS if arm in {*arms, *had}), max(pool, depth)
            if arms == had and pool == depth:
                return
        values = dict(zip(SCOPING, scope, strict=True))
        known = self._known(values, arms, pool)
        asked = [arm for arm in arms if arm not in known]
        weights = {f"{arm}_weight": float(arm in asked) for arm in KINDS}
        found = []
        for at, batch in enumerate(self.batches):
            search = batch.search.with_params(**values, **weights, pool=pool)
            new = search.ask(batch.asked, self.depth, batch.where, batch.day).found
            found.append(new if not known else _joined(arms, new, {arm: known[arm][at] for arm in known}))
        for arm in arms:
            column = arms.index(arm)
            if not any(np.isfinite(one.raw[:, column]).any() for one in found):
                check_arm(self.batches, arm, 1.0, **values, **dict.fromkeys(weights, 0.0) | {f"{arm}_weight": 1.0})
        self._found[scope] = (arms, pool, found)

    def _known(self, values: Setting, arms: tuple[str, ...], pool: int) -> dict[str, list[Candidates]]:
        """What arms answered before that are asked the same again, beside others that are not."""
        known: dict[str, list[Candidates]] = {}
        for scope, (had, depth, found) in self._found.items():
            other = dict(zip(SCOPING, scope, strict=True))
            if depth != pool or {**other, "function_word_weight": 0} != {**values, "function_word_weight": 0}:
                continue
            here, there = self.settings.but(**values), self.settings.but(**other)
            for arm in arms:
                if arm in had and KINDS[arm].options(here) == KINDS[arm].options(there):
                    known[arm] = found
        return {} if len(known) == len(arms) else known

    def parts(self, plan: Plan) -> list[Found]:
        """What the arms found within the plan, an index each; kept, with what was found out of their texts."""
        key = (plan.scope, plan.arms, plan.pool)
        if key not in self._parts:
            self._parts = {key: self._part_each(plan)}  # one at a time: settings that differ in little come together
        return self._parts[key]

    def _part_each(self, plan: Plan) -> list[Found]:
        _, _, found = self._found[plan.scope]
        by_index: dict[int, list[int]] = {}
        for at, batch in enumerate(self.batches):
            by_index.setdefault(id(batch.search._index()), []).append(at)
        return [self._part(plan, some, found) for some in by_index.values()]

    def _part(self, plan: Plan, some: Sequence[int], found: Sequence[Candidates]) -> Found:
        batches = [self.batches[at] for at in some]
        number = [self._number[name] for batch in batches for name in batch.rows["query_id"].to_pylist()]
        moment = [naive(batch.day.at) for batch in batches for _ in range(batch.rows.num_rows)]
        texts = tuple(text or "" for batch in batches for text in batch.rows["text"].to_pylist())
        start = np.cumsum([0, *(batch.rows.num_rows for batch in batches)])
        own = [found[at].of(plan.arms, plan.pool) for at in some]
        whole = Candidates(
            plan.arms,
            np.concatenate([one.query + first for one, first in zip(own, start[:-1], strict=True)]),
            np.concatenate([one.row for one in own]),
            np.concatenate([one.raw for one in own]),
            np.concatenate([one.rank for one in own]),
            plan.pool,
            np.concatenate([one.scale[: batch.rows.num_rows] for one, batch in zip(own, batches, strict=True)]),
        )
        index = batches[0].search._index()
        return Found(index, np.array(number, np.int64), texts, np.array(moment, "datetime64[us]"), whole)

    def check_decay(self, plans: Sequence[Plan], names: Sequence[str]) -> None:
        """Raise where the settings vary decay and nothing that was found decays under any of them."""
        varied = [name for name in names if name in _DECAY]
        if varied and not any(_decays(part, plan) for plan in plans for part in self.parts(plan)):
            raise ParameterError(
                f"grid: '{varied[0]}' makes no difference: nothing that these queries find decays under any setting. "
                "Expected memories with a date, of a kind in decay_kinds ('*' is all), neither of high nor of low"
                " importance, and a form of decay."
            )

    def scores(
        self,
        settings: Sequence[Setting],
        names: Sequence[str] = (),
        n_jobs: int | None = None,
        resume: str | Path | None = None,
    ) -> tuple[Floats, Ints]:
        """Metrics × settings × queries, and how many queries have a hit, by setting.

        Parameters
        ----------
        names : sequence of str
            What varies, to be checked for whether it can make a difference.
        resume : str or Path, optional
            The file that keeps each piece of the work as soon as it is done.
        """
        plans = self.plans(settings)
        self.check_decay(plans, names)
        pieces = None if resume is None else Pieces(resume, self.facts(settings))
        scores = np.full((len(self.metrics), len(settings), self.task.queries.num_rows), np.nan)
        with_hits = np.zeros(len(settings), np.int64)
        work = [(plan, part) for plan in plans for part in self.parts(plan)]
        with bar("scoring settings", total=sum(len(part.number) * plan.size for plan, part in work)) as done:
            for at, (plan, part) in enumerate(work):
                for unit, values, hits in self._worked(f"{at}", plan, part, n_jobs, pieces):
                    columns = part.number[unit]
                    scores[:, plan.positions[:, None], columns] = values[:, plan.effect]
                    with_hits[plan.positions] += hits[plan.effect]
                    done.update(len(columns) * plan.size)
        return scores, with_hits

    def _worked(
        self, name: str, plan: Plan, part: Found, n_jobs: int | None, pieces: Pieces | None
    ) -> Iterator[tuple[slice, Floats, Ints]]:
        """The pieces of the scores of one plan over one part: those of the file, and those that are not in it yet."""
        held = {} if pieces is None else pieces.held
        units = _units(len(part.number), plan.size)
        left = [unit for unit in units if f"{name} {unit.start}" not in held]
        for unit in units:
            if unit not in left:
                values = held[f"{name} {unit.start}"]
                yield unit, values[:, :, :-1], values[0, :, -1].astype(np.int64)
        if left:
            worker = Worker(self.looked, self.settings, plan, part)
            for unit, (scores, hits) in zip(left, _scored(worker, left, n_jobs), strict=True):
                if pieces is not None:
                    counts = np.broadcast_to(hits[:, None], (*scores.shape[:2], 1))
                    pieces.put(f"{name} {unit.start}", np.concatenate([scores, counts], axis=2))
                yield unit, scores, hits

    def facts(self, settings: Sequence[Setting]) -> dict[str, Any]:
        """What the scores depend on, by fingerprints."""
        labels, rows, memories = self.task.labels, self.index.rows, self.index.memories
        arrays = (rows.kind[0], rows.expires, rows.dated, rows.made, rows.decays, rows.twin)
        asked = [batch.rows.drop_columns(["group"]).to_pylist() for batch in self.batches]
        return {
            "version": __version__,
            "corpus": fingerprint(self.index.digests, memories["user_id"].to_pylist(), list(rows.kind[1]), *arrays),
            "encoder": self.index.fingerprint,
            "labels": fingerprint(
                labels.key, labels.gain, labels.stale, labels.queries.to_pylist(), labels.memories.to_pylist(), asked
            ),
            "settings": fingerprint(self.settings.get_params(), list(settings)),
            "metrics": [metric.name for metric in self.metrics],
            "depth": self.depth,
            "where": [batch.where for batch in self.batches],
            "as_of": str(self.task.moment),
            "is_dated": self.task.moment.until is not None,
        }


def _scored(worker: Worker, units: list[slice], n_jobs: int | None) -> Iterator[tuple[Floats, Ints]]:
    """What the worker gives for each unit: by threads, or wherever joblib was told to work."""
    if not is_told():
        yield from results(worker, ((unit,) for unit in units), n_jobs, prefer="threads")
        return
    alone = ((worker.alone(unit), slice(0, unit.stop - unit.start)) for unit in units)
    yield from results(Worker.__call__, alone, n_jobs)


def _units(n_queries: int, n_settings: int) -> list[slice]:
    """Queries whose scores are one piece of work."""
    size = max(1, min(-(-n_queries // _FEWEST_UNITS), _UNIT // max(n_settings, 1)))
    return [slice(start, min(start + size, n_queries)) for start in range(0, n_queries, size)]


def _decays(part: Found, plan: Plan) -> bool:
    memory = part.index.rows.memory[part.candidates.row]
    age = ages(part.index.rows.dated[memory], part.moment[part.candidates.query])
    kinds = {decay[3] for block in plan.blocks for decay in block.decays if decay}
    return any(bool((part.index.rows.may_decay(memory, some) & (age > 0)).any()) for some in kinds)


def _joined(arms: tuple[str, ...], new: Candidates, known: Mapping[str, Candidates]) -> Candidates:
    """What some arms answered now and others before, as if all were asked at once."""
    found = {arm: known.get(arm, new) for arm in arms}
    tables, scales = {}, []
    for arm, one in found.items():
        at = one.arms.index(arm)
        rows = np.flatnonzero(one.rank[:, at] > 0)
        tables[arm] = pa.table({"query": one.query[rows], "row": one.row[rows], "score": one.raw[rows, at]})
        scales.append(one.scale[:, at])
    n_rows = max((int(one.row.max(initial=0)) for one in found.values()), default=0) + 1
    return merge(tables, n_rows, new.pool, np.stack(scales, axis=1))
