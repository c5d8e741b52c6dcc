"""Scores of settings over the candidates for labelled queries; each arm is asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memkit import __version__
from memkit.errors import ParameterError
from memkit.evaluation.scores.evaluation import Task
from memkit.evaluation.scores.metrics import Metric
from memkit.evaluation.scores.pools import IndexCandidates, Pools
from memkit.evaluation.settings.checkpoint import Checkpoint
from memkit.evaluation.settings.grid import Setting
from memkit.evaluation.settings.plans import Plan, shares_candidates
from memkit.evaluation.settings.scoring import Scorer
from memkit.evaluation.tuning.claims import fingerprint
from memkit.parallel import is_told, results
from memkit.progress import bar
from memkit.schemas import Floats, Ints
from memkit.search.fitted.arms import KINDS
from memkit.search.stages.blocks import RankingKey
from memkit.tables.age import ages

_UNIT = 250_000
_FEWEST_UNITS = 8
_DECAY = ("decay", "decay_days", "decay_floor", "decay_kinds")


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
    plans = _plans(pools, settings)
    _check_decay(pools, plans, names)
    checkpoint = None if resume is None else Checkpoint(resume, _facts(pools, task, metrics, depth, settings))
    scores = np.full((len(metrics), len(settings), task.queries.num_rows), np.nan)
    with_hits = np.zeros(len(settings), np.int64)
    work = [(plan, part) for plan in plans for part in _parts(pools, plan)]
    with bar("scoring settings", total=sum(len(part.number) * plan.size for plan, part in work)) as done:
        for number, (plan, part) in enumerate(work):
            scorer = partial(Scorer, task.labels, metrics, depth, pools.settings, plan, part)
            for unit, values, hits in _worked(f"{number}", scorer, plan, part, n_jobs, checkpoint):
                columns = part.number[unit]
                scores[:, plan.positions[:, None], columns] = values[:, plan.effect]
                with_hits[plan.positions] += hits[plan.effect]
                done.update(len(columns) * plan.size)
    return scores, with_hits


def _plans(pools: Pools, settings: Sequence[Setting]) -> list[Plan]:
    """The settings grouped by the candidates that they rank; asks the arms."""
    needs = []
    for setting in settings:
        full, weights, scope = pools.needs(setting)
        needs.append((full, weights, (scope, full.pool, full.unit == "memory")))
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
        pools.ask_for(scope, arms_asked, max(key[2] for key in wanted))
        pools.check(scope, dict.fromkeys(arms_asked, 1.0))
    return [Plan.from_settings(key, effects) for key, effects in groups.items()]


def _parts(pools: Pools, plan: Plan) -> list[IndexCandidates]:
    return pools.parts(plan.scope, plan.arms, plan.pool)


def _check_decay(pools: Pools, plans: Sequence[Plan], names: Sequence[str]) -> None:
    """Raise where the settings vary decay and no candidate decays under any of them."""
    varied = [name for name in names if name in _DECAY]
    if varied and not any(_decays(part, plan) for plan in plans for part in _parts(pools, plan)):
        raise ParameterError(
            f"grid: '{varied[0]}' makes no difference: no candidate of these queries decays under any setting. "
            "Expected memories with a date, of a kind in decay_kinds ('*' is all), neither of high nor of low"
            " importance, and a form of decay."
        )


def _worked(
    name: str,
    make_scorer: Callable[[], Scorer],
    plan: Plan,
    part: IndexCandidates,
    n_jobs: int | None,
    checkpoint: Checkpoint | None,
) -> Iterator[tuple[slice, Floats, Ints]]:
    """The checkpoint of the scores of one plan over one part: those of the file, and those that are not in it yet."""
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
    questions = [batch.rows.drop_columns(["group"]).to_pylist() for batch in pools.batches]
    return {
        "version": __version__,
        "corpus": fingerprint(pools.index.digests, memories["user_id"].to_pylist(), list(rows.kind[1]), *arrays),
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
    if not is_told():
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
