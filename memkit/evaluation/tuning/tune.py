"""`tune`: which setting to use, and whether it is better, by a test that allows for the choice among many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import ParameterError, did_you_mean
from memkit.evaluation.labels.labels import as_arrow_table
from memkit.evaluation.scores.compare import first_to_judge
from memkit.evaluation.scores.evaluation import Task, check_seed, deepest, is_per_query, known_mean
from memkit.evaluation.scores.metrics import OF_HITS, Metric
from memkit.evaluation.scores.pools import Pools
from memkit.evaluation.scores.statistics import Units
from memkit.evaluation.scores.verdict import LABELS, OPEN, SAME, WORSE
from memkit.evaluation.settings.grid import Grid, Setting
from memkit.evaluation.settings.sweep import Sweep, check_work, swept
from memkit.evaluation.tuning.baselines import baselines
from memkit.evaluation.tuning.claims import HOLDOUT, LATER, Looks, held_out_groups
from memkit.evaluation.tuning.tuned import Scored, Tuning, tuned
from memkit.params import AsOf, as_of_time, check_choice, check_value
from memkit.schemas import Mask


def tune(
    search: Any,
    queries: Any,
    qrels: Any,
    grid: Any,
    metric: str = "ndcg@10",
    *,
    group: str | None = None,
    mean_of: str | None = None,
    epsilon: float = 0.01,
    guard: Mapping[str, tuple[Any, Any, float]] | None = None,
    split: AsOf = None,
    holdout: float | None = None,
    remember: str | Path | None = None,
    sample: int | None = None,
    as_of: AsOf = None,
    where: str | None = None,
    user_id: str | None = None,
    depth: int = 100,
    unjudged: str = "raise",
    unjudged_hits: str = "bounds",
    n_jobs: int | None = None,
    seed: int = 0,
) -> Tuning:
    """Which setting of a grid to use, and whether it is better than the search's own, as far as the labels can tell.

    The best of many settings looks better than it is on the labels that it was chosen on, so an ordinary test there
    says nothing. This test (selective inference) flips the signs of whole users for all settings at once, and repeats
    the choice, cross-validated over users, in each permutation: *better* is claimed where at most 2.5 % of the repeated
    choices look as good. Otherwise the search's own setting is recommended.

    Parameters
    ----------
    search : Retriever
        Its own setting is the default that all others are compared with.
    queries, qrels : table, data frame or path
        As for `evaluate`.
    grid : dict, sequence of dict, or Sweep
        As for `sweep`. A `Sweep` of this search over these labels is used as it is, with its users and moment.
    metric : str
    group, mean_of, as_of, where, user_id, depth, unjudged
        As for `evaluate`.
    epsilon : float
        Differences within ± epsilon count as none.
    guard : dict of str to (queries, qrels, margin), optional
        Other labels on which the setting may lose at most a margin: non-inferiority tests at 5 %, adjusted by Holm.
    split : str, date or datetime, optional
        Choose on the queries asked before this moment, and test on those asked later: for answers that age.
    holdout : float, optional
        The share of groups held out from the choice, for one test. Their names and `seed` decide which groups these
        are, so that labels may grow. Needs `remember`.
    remember : path, optional
        A small file that counts the looks. A holdout that was used for another choice gives no verdict.
    sample : int, optional
        Draw this many settings from the grid.
    unjudged_hits : {'bounds', 'irrelevant'}
        As for `compare`: where unjudged hits could change the verdict it is *cannot tell yet*, and `to_judge_` lists
        what to judge first.
    n_jobs : int, optional
        As for `sweep`; the result is the same.
    seed : int
        For folds, sign flips, resamples and the holdout.

    Returns
    -------
    Tuning
        ``.verdict_``, ``.chosen_params_`` (what to use), ``.best_params_``, ``.plateau_``, ``.expected_gain_``,
        ``.apparent_gain_``, ``.guards_``, ``.table_``, ``.groups_``, ``.baselines_``; as text, what to use and the
        verdict.

    Raises
    ------
    ParameterError
        As `evaluate` and `sweep`; for a grid of nothing but the search's own setting, a split that leaves one side
        empty, a holdout without `remember`.
    MemkitError
        Where an arm of the search did not run, or found nothing for any query.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> found = tune(search, queries, qrels, {"min_score": [0.0, 0.9]})
    >>> found.verdict_.word, found.verdict_.reason, found.chosen_params_
    ('cannot tell yet', 'too few queries: 1, and a verdict needs at least 6', {'min_score': 0.0})
    """
    check_choice("unjudged_hits", unjudged_hits, ("bounds", "irrelevant"), "tune")
    check_seed("tune", seed)
    check_work(search, depth, n_jobs, seed)
    points = None if isinstance(grid, Sweep) else Grid(grid, sample, seed=seed)
    if isinstance(grid, Sweep):
        task = _task_of(grid, user_id)
    else:
        task = Task.read(queries, qrels, group, mean_of, unjudged, as_of, user_id)
    pools, wanted = task.pools(search, where), Metric.parse(metric)
    beside = [wanted] if wanted.kind in OF_HITS else [wanted, Metric("judged", wanted.k or 10)]
    tried = grid if points is None else swept(pools, task, points, beside, where, depth, n_jobs)
    scored = _scored(tried, metric)
    held_out, tested_on = _held_out(scored, task, split, holdout, remember, seed)
    scored = replace(scored, held_out=held_out, tested_on=tested_on)

    def guarded(name: str, spec: tuple[Any, Any, float], setting: Setting) -> tuple[str, Units, float]:
        guard_queries, guard_qrels, margin = _guard_spec(name, spec)
        # The unit is the guard's own matter: its labels may come without the column that `group` names.
        guard_task = Task.read(guard_queries, guard_qrels, None, mean_of, unjudged, task.moment, task.user_id)
        points = Grid({key: [value] for key, value in setting.items()})
        sweep_of_two = swept(guard_task.pools(search, where), guard_task, points, [wanted], where, depth)
        changed = next(
            at
            for at in range(len(sweep_of_two.settings))
            if at != sweep_of_two.default or len(sweep_of_two.settings) == 1
        )
        return (
            name,
            _scored(sweep_of_two, metric).units(changed, np.ones(guard_task.queries.num_rows, bool)),
            float(margin),
        )

    def guards(candidate: int) -> list[tuple[str, Units, float]]:
        return [guarded(name, spec, tried.settings[candidate]) for name, spec in (guard or {}).items()]

    result = tuned(scored, guards, _epsilon(epsilon), Looks(remember), seed)
    pools.ask((tried.settings[tried.default], result.candidate_))  # a sweep that was given brings no answers
    simple = baselines(pools, scored.values[tried.default], task, wanted, depth)
    chosen = search.with_params(**result.chosen_params_)
    result = replace(result, sweep_=tried, baselines_=simple, search_=chosen, labels_=(task.queries, task.qrels))
    if unjudged_hits == "bounds" and result.verdict_.word in (WORSE, SAME) and _finds(tried, result.candidate_):
        result = _bounded(result, pools, task, wanted, depth, epsilon)
    return result


def _task_of(made: Sweep, user_id: str | None) -> Task:
    """The labels of a sweep that was made before; raises where it was asked as somebody else."""
    if user_id not in (None, made.task.user_id):
        raise ParameterError(f"tune: expected the 'user_id' of this sweep, {made.task.user_id!r}. Got {user_id!r}.")
    return made.task


def _scored(tried: Sweep, metric: str) -> Scored:
    task = tried.task
    if Metric.parse(metric).sign < 0:
        raise ParameterError(
            f"tune: expected a metric of which more is better. Got {metric!r}; sweep and compare take it."
        )
    return Scored(
        tried.matrix(metric),
        tried.settings,
        tried.default,
        metric,
        tried.table,
        task.queries["query_id"].to_pylist(),
        task.unit_names.to_pylist(),
        task.unit,
        task.unit_name,
        task.per_query,
        np.zeros(task.queries.num_rows, bool),
    )


def _epsilon(epsilon: float) -> float:
    check_value("tune", "epsilon", epsilon, "float", low=0)
    return float(epsilon)


def _held_out(
    scored: Scored, task: Task, split: AsOf, holdout: float | None, remember: Any, seed: int
) -> tuple[Mask, str]:
    """The mask of held-out queries, and what they are called."""
    if split is None:
        return _holdout(scored, holdout, remember, seed)
    if holdout is not None:
        raise ParameterError("tune: expected 'split' or 'holdout'. Got both.")
    moment = as_of_time(split)
    moments = pc.fill_null(task.queries["as_of"], pa.scalar(task.moment.at, task.queries["as_of"].type))
    held_out = pc.greater_equal(moments, pa.scalar(moment, moments.type)).to_numpy()
    return _both_sides(held_out, f"queries asked before and after {moment:%Y-%m-%d}"), LATER


def _holdout(scored: Scored, share: float | None, remember: Any, seed: int) -> tuple[Mask, str]:
    if share is None:
        return np.zeros(len(scored.cases), bool), LABELS
    check_value("tune", "holdout", share, "float", low=0, low_open=True, high=1)
    if remember is None:
        raise ParameterError("tune: a holdout needs 'remember', a file that knows whether it was used. Got None.")
    held_out = held_out_groups(scored.groups, share, seed)
    return _both_sides(held_out, f"groups in a holdout of {share:g} and out of it"), HOLDOUT


def _both_sides(held_out: Mask, what: str) -> Mask:
    if held_out.all() or not held_out.any():
        raise ParameterError(f"tune: expected {what}. Got all {len(held_out)} queries on one side.")
    return held_out


def _guard_spec(name: str, spec: Any) -> tuple[Any, Any, float]:
    if not isinstance(spec, tuple) or len(spec) != 3:
        raise ParameterError(f"guard: expected (queries, qrels, margin) for {name!r}. Got {spec!r:.80}.")
    check_value("guard", "margin", spec[2], "float", low=0)
    return spec


def _finds(tried: Sweep, setting: dict[str, Any]) -> bool:
    return bool(tried.table["n_with_hits"][tried.settings.index(setting)].as_py())


def _bounded(result: Tuning, pools: Pools, task: Task, metric: Metric, depth: int, epsilon: float) -> Tuning:
    """The result, with *cannot tell yet* where the unjudged hits of the candidate alone could change the word."""
    deep = max(10, deepest([metric], depth))
    default, new = pools.hits(deep, check=False), pools.hits(deep, result.candidate_, check=False)
    wanted = first_to_judge(task, default, new, metric, deep, epsilon, result.seed_)
    if not wanted.num_rows:
        return result
    reason = f"unjudged hits could change the verdict: judge these {wanted.num_rows} first"
    return replace(result, verdict_=replace(result.verdict_, word=OPEN, reason=reason), to_judge_=wanted)


def tune_scores(
    scores: Any,
    default: str,
    *,
    group: str | None = None,
    mean_of: str | None = None,
    metric: str = "score",
    epsilon: float = 0.01,
    guard: Mapping[str, tuple[Any, float]] | None = None,
    holdout: float | None = None,
    remember: str | Path | None = None,
    seed: int = 0,
) -> Tuning:
    """The verdict of `tune` over any table of scores: thresholds, word lists, budgets, prompts.

    Parameters
    ----------
    scores : table, data frame or path
        A row for each labelled case, a column of numbers for each setting, under its name; higher is better. A column
        ``query_id`` names the cases; other columns of text are ignored. `dedup_scores`, `admission_scores` and
        `context_scores` make such tables.
    default : str
        The column of the setting in use.
    group : str, optional
        The column whose equal values mark cases that are not independent: the user, the conversation. Without it each
        case is its own group.
    mean_of : {'queries', 'units'}, optional
        As for `evaluate`.
    metric : str
        The name of the scores in the verdict.
    guard : dict of str to (scores, margin), optional
        Other tables with these columns, on which the setting may lose at most the margin.
    epsilon, holdout, remember, seed
        As for `tune`.

    Returns
    -------
    Tuning
        Its settings are ``{"setting": name}``, as numbers where all names are.

    Raises
    ------
    ParameterError
        For a missing column, fewer than two settings, or scores that some settings lack.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> cases = {"user_id": [f"u{at // 5}" for at in range(100)], "0.9": np.zeros(100), "0.8": random.random(100)}
    >>> found = tune_scores(cases, "0.9", group="user_id")
    >>> found.verdict_.word, found.chosen_params_
    ('better', {'setting': 0.8})
    """
    check_seed("tune_scores", seed)
    scored = _from_table(scores, default, group, mean_of, metric)
    names = [str(name) for name in scored.table["name"].to_pylist()]
    held_out, tested_on = _holdout(scored, holdout, remember, seed)
    scored = replace(scored, held_out=held_out, tested_on=tested_on)

    def guards(candidate: int) -> list[tuple[str, Units, float]]:
        checks = []
        for name, (table, margin) in (guard or {}).items():
            pair = as_arrow_table(table, f"guard {name}")
            kept = [column for column in pair.column_names if column in (default, names[candidate], group, "query_id")]
            guard_scored = _from_table(pair.select(kept), default, group if group in kept else None, mean_of, metric)
            checks.append(
                (
                    name,
                    guard_scored.units(1 - guard_scored.default, np.ones(len(guard_scored.cases), bool)),
                    float(margin),
                )
            )
        return checks

    return tuned(scored, guards, _epsilon(epsilon), Looks(remember), seed)


def _from_table(source: Any, default: str, group: str | None, mean_of: str | None, metric: str) -> Scored:
    table = as_arrow_table(source, "scores")
    for what, name in (("default", default), ("group", group)):
        if name is not None and name not in table.column_names:
            hint = did_you_mean(name, table.column_names)
            raise ParameterError(
                f"scores: expected a column {name!r} ({what}). Got {', '.join(table.column_names)}.{hint}"
            )
    names = [field.name for field in table.schema if _is_score(field, group)]
    if default not in names:
        raise ParameterError(
            f"scores: expected numbers in the column of the default, {default!r}. Got {table[default].type}."
        )
    cases = [str(at) for at in range(table.num_rows)]
    if "query_id" in table.column_names:
        cases = [str(name) for name in table["query_id"].to_pylist()]
    groups = cases if group is None else _names(table[group].to_pylist(), cases)
    values = np.array([pc.fill_null(pc.cast(table[name], pa.float64()), np.nan).to_numpy() for name in names])
    _, unit = np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)
    unit_name = group or "query_id"
    settings = [{"setting": name} for name in _numbers(names)]
    rows = pa.table({"setting": np.arange(len(names)), "name": names, metric: [known_mean(row) for row in values]})
    return Scored(
        values.reshape(len(names), -1),
        settings,
        names.index(default),
        metric,
        rows,
        cases,
        groups,
        unit,
        unit_name,
        is_per_query(mean_of, unit, unit_name, "tune_scores"),
        np.zeros(len(cases), bool),
    )


def _is_score(field: pa.Field, group: str | None) -> bool:
    number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
    return number and field.name not in (group, "query_id")


def _names(values: list[Any], cases: Sequence[str]) -> list[str]:
    """The group of each case; its own name where it has none."""
    return [case if value is None else str(value) for value, case in zip(values, cases, strict=True)]


def _numbers(names: Sequence[str]) -> list[Any]:
    """The names as numbers where all are."""
    try:
        return [float(name) for name in names]
    except ValueError:
        return list(names)
