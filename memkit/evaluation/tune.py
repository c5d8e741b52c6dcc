"""`tune`: the choice of a setting among many, its test, the recommended setting, and tables with details."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, as_of_time, check_choice, check_value, describe
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import ParameterError
from memkit.evaluation.compare import HOW_TO_JUDGE, Pair, baselines, unjudged_could_change
from memkit.evaluation.evaluation import (
    CheckedTask,
    Task,
    deepest,
    nullable,
    over_task,
    stages_of,
    task_of,
)
from memkit.evaluation.metrics import OF_HITS, Metric, Pools, batches_of
from memkit.evaluation.profile import Profile
from memkit.evaluation.result import (
    BETTER,
    HOLDOUT,
    LABELS,
    LATER,
    OPEN,
    SAME,
    WORSE,
    Differences,
    Looks,
    Result,
    Verdict,
    claim,
    claim_on_held_out,
    fingerprint,
    guard_table,
    held_out_groups,
    unit_noun,
)
from memkit.evaluation.scores import Grid, Measure, Setting, at_query
from memkit.evaluation.statistics import ALMOST, Contest, Retuned, Units, distances, nearest, plateau
from memkit.evaluation.sweep import Sweep, check_work, refitted, swept
from memkit.schemas import Floats, Ints, Mask

_USED = "the holdout was already used for another choice: set other labels aside"


@dataclass(frozen=True, repr=False, kw_only=True)
class Tuning(Result):
    """The result of `tune`; as text what to use, then the verdict.

    Attributes
    ----------
    verdict_ : Verdict
        word, gain, low, high, p, detectable, needed, looks and more; as text one sentence.
    best_params_ : dict
        The setting with the highest mean, which is partly luck.
    chosen_params_ : dict
        What to use. With the verdict *better*, and where all guards hold: of the settings within one standard error of
        the best, the nearest to the search's own. Else the search's own.
    why_ : str
        The reason, as a sentence.
    plateau_ : pa.Table
        The rows of `table_` that cannot be told apart from the best.
    expected_gain_, apparent_gain_ : float
        The gain of such a choice on held-out users (None below 6 groups), and on the users it was made on.
    guards_ : pa.Table
        By guard: margin; difference, and low, its lower one-sided 95 % limit; p and p_adjusted (Holm); holds.
    table_ : pa.Table
        The sweep's table with rank (by gain), in_use (the search's own setting), gain over the search's own setting
        (per_query and per_group are its two means, and the verdict's `estimate` says which counts), p_adjusted (of
        being better, adjusted for all settings), near_best (at most epsilon below the best), plateau and distance
        (from the search's own).
    groups_ : pa.Table
        By group: n_queries, and the means default, candidate (see `candidate_`) and difference.
    per_query_ : pa.Table
        query_id, group, default, candidate, difference; held_out, the gain of the setting chosen without this group.
    baselines_ : pa.Table
        Words alone, vectors alone, words contained: value, and difference to the search's own.
    to_judge_ : pa.Table
        query_id, memory_id, rank: unjudged hits that could change the verdict.
    candidate_ : dict
        The setting that would be recommended if the verdict were *better*.
    search_ : Retriever or None
        The search with `chosen_params_`, ready to use; None of a table of scores.
    """

    verdict_: Verdict
    best_params_: dict[str, Any]
    chosen_params_: dict[str, Any]
    why_: str
    plateau_: pa.Table
    expected_gain_: float | None
    apparent_gain_: float | None
    guards_: pa.Table
    table_: pa.Table
    groups_: pa.Table
    per_query_: pa.Table
    candidate_: dict[str, Any]
    baselines_: pa.Table
    to_judge_: pa.Table
    random_state_: int
    sweep_: Sweep | None = None
    search_: Any = None
    labels_: tuple[Any, Any] | None = None

    @property
    def profile_(self) -> Profile:
        """The recommended settings as a `Profile` with this evidence.

        Raises
        ------
        ParameterError
            For a table of scores, which has no Retriever.
        """
        if self.search_ is None:
            raise ParameterError("Tuning: a profile needs a Retriever. Got a tuned table of scores.")
        conclusion = self.verdict_
        names = ("gain", "low", "high", "p", "epsilon", "n_queries", "n_groups", "n_settings", "looks")
        evidence = {name: getattr(conclusion, name) for name in names}
        means = {conclusion.metric: float(self.table_[conclusion.metric][self._chosen].as_py())}
        verdict = f"{conclusion.word}: {conclusion.reason}" if conclusion.reason else conclusion.word
        return Profile.of(
            self.search_,
            labels=self.labels_,
            metrics=means,
            verdict=verdict,
            random_state=self.random_state_,
            note=self.why_,
            **evidence,
        )

    def differences(self) -> Differences:
        """Each query's difference: of the setting chosen without its group where known, else of the candidate."""
        conclusion, frame = self.verdict_, self.per_query_.to_pandas()
        is_held_out = frame["held_out"].notna().any() and conclusion.tested_on == "labels"
        frame["difference"] = frame["held_out"] if is_held_out else frame["difference"]
        of_whom = " by settings chosen without the query" if is_held_out else " by the candidate"
        ends = (conclusion.gain, conclusion.low, conclusion.high, conclusion.epsilon)
        sentence = f"{conclusion.word}: {conclusion.metric} gained{of_whom}"
        frame = frame.dropna(subset=["difference"])
        return Differences(
            frame, conclusion.metric, conclusion.unit, conclusion.estimate == "per query", *ends, sentence
        )

    @property
    def pictures(self) -> tuple[str, ...]:
        """As `Result.pictures`; those of a search only where one was tuned."""
        differences, groups, *power = self.differences().pictures
        surface, stages = (["surface"], ["stages"]) if self.sweep_ and self.search_ else ([], [])
        return (differences, groups, *surface, *power, *stages)

    @property
    def stages(self) -> pa.Table | None:
        """What became of the relevant memories under the chosen setting; None where no search was tuned."""
        swept = self.sweep_
        if swept is None or self.search_ is None:
            return None
        task = swept.task
        batches = batches_of(self.search_, task.labelled(swept.where))
        return stages_of(batches, task.labels, Metric.parse(self.verdict_.metric).k or 100)

    @property
    def _chosen(self) -> int:
        return int(self.sweep_.settings.index(self.chosen_params_)) if self.sweep_ else 0

    @property
    def summary(self) -> pa.Table:
        """The verdict and the recommended settings as one row; settings as JSON."""
        row = {
            **asdict(self.verdict_),
            "counts": None,
            "needed": self.verdict_.needed and self.verdict_.needed._asdict(),
        }
        params = {"chosen": self.chosen_params_, "best": self.best_params_, "candidate": self.candidate_}
        as_json = {name: json.dumps(setting, ensure_ascii=False, default=str) for name, setting in params.items()}
        return pa.Table.from_pylist([{**row, **as_json, "why": self.why_, "sentence": str(self.verdict_)}])

    @property
    def table(self) -> pa.Table:
        """`table_`, the best first."""
        return self.table_.sort_by("rank")

    def __str__(self) -> str:
        return f"{self.why_} {self.verdict_}"

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        companions = {"Guards": self.guards_, "Baselines": self.baselines_}
        if self.chosen_params_ == self.candidate_:
            companions[f"By {unit_noun(self.verdict_.unit, 1)}"] = self.groups_
        below = [
            replace(sheet_of(table, rows, show_secrets), heading=name)
            for name, table in companions.items()
            if len(table)
        ]
        first = sheet_of(_with_own_among(self.table, rows), rows, show_secrets)
        to_judge = [HOW_TO_JUDGE.format("to_judge_")] if self.to_judge_.num_rows else []
        notes = (f"{self.verdict_.head}.", *self.verdict_.parts, *to_judge, *first.notes)
        head = replace(first, heading=self.why_, notes=notes)
        return (head, *below)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Scores of settings on labelled cases, with the group of each case.

    Attributes
    ----------
    values : ndarray of shape (n_settings, n_cases)
        NaN where a case has no score.
    settings : list of dict
    default : int
    metric : str
    table : pa.Table
        A row a setting, with the column ``setting``, its number.
    cases, groups : list of str
        The name of each case, and that of the group it belongs to.
    unit : ndarray of int, shape (n_cases,)
    unit_name : str
    per_query : bool
        Whether means are over cases, rather than over groups.
    held_out : ndarray of bool, shape (n_cases,)
        The cases held out from the choice; where there are any, it is tested on them.
    tested_on : str
        The name of what the choice is tested on.
    """

    values: Floats
    settings: list[dict[str, Any]]
    default: int
    metric: str
    table: pa.Table
    cases: list[str]
    groups: list[str]
    unit: Ints
    unit_name: str
    per_query: bool
    held_out: Mask
    tested_on: str = LABELS

    def contest(self, rows: Mask, per_query: bool | None = None) -> Contest:
        by_query = self.per_query if per_query is None else per_query
        return Contest.from_scores(self.values[:, rows], self.unit[rows], self.default, by_query)

    @property
    def estimate(self) -> str:
        return "per query" if self.per_query else f"per {self.unit_name}"

    def units(self, setting: int, rows: Mask) -> Units:
        """The gain of a setting over the default, by group."""
        gain = self.values[setting] - self.values[self.default]
        rows = rows & ~np.isnan(gain)
        return Units.from_scores(gain[rows], self.unit[rows], self.per_query)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.values, self.cases, self.groups)


Guards = Callable[[int], list[tuple[str, Units, float]]]


def tuned(scored: Scored, guards: Guards, epsilon: float, looks: Looks, seed: int) -> Tuning:
    """Choose a setting, test it, check the guards, and recommend; `looks` remembers earlier looks."""
    chosen_on = ~scored.held_out
    contest = scored.contest(chosen_on)
    distance = distances(scored.settings, scored.default)
    candidate = nearest(contest, distance)
    about = {"metric": scored.metric, "unit": scored.unit_name, "estimate": scored.estimate}
    verdict, retuned = claim(contest, epsilon, seed, {**about, "looks": _count_look(scored, looks, seed)})
    expected = verdict.gain
    if scored.held_out.any():
        verdict = _tested_on_held_out(scored, looks, seed, candidate, verdict)
    guarded = guard_table(guards(candidate), seed)
    chosen, why = _recommended(verdict, scored, candidate, guarded)
    table = _settings_table(scored, chosen_on, distance, retuned, epsilon, seed)
    # As in a sweep: equal means are equal, whatever the order of their sums.
    means = contest.means.round(12)
    return Tuning(
        verdict_=verdict,
        best_params_=scored.settings[int(means.argmax()) if means.max() > means[scored.default] else scored.default],
        chosen_params_=scored.settings[chosen],
        why_=why,
        plateau_=table.filter(table["plateau"]),
        expected_gain_=expected,
        apparent_gain_=verdict.apparent,
        guards_=guarded,
        table_=table,
        groups_=_groups_table(scored, candidate),
        per_query_=_cases_table(scored, candidate, chosen_on, retuned),
        candidate_=scored.settings[candidate],
        baselines_=pa.table({}),
        to_judge_=pa.table({}),
        random_state_=seed,
    )


def _count_look(scored: Scored, looks: Looks, seed: int) -> int:
    choice = {"metric": scored.metric, "settings": fingerprint(scored.settings), "seed": seed}
    before = looks.n_before(LABELS, scored.fingerprint, choice)
    looks.remember(LABELS, scored.fingerprint, choice, n_queries=len(scored.cases))
    return 1 + before


def _tested_on_held_out(scored: Scored, looks: Looks, seed: int, candidate: int, chosen: Verdict) -> Verdict:
    """The verdict from the held-out cases; *cannot tell yet* for a holdout that was used for another choice."""
    if np.isnan(scored.values[scored.default, scored.held_out]).all():
        raise ParameterError(f"tune: expected a query with a relevant memory among the {scored.tested_on}. Got none.")
    tested = claim_on_held_out(scored.units(candidate, scored.held_out), seed, chosen, scored.tested_on)
    if scored.tested_on != HOLDOUT:
        return tested
    labels, choice = fingerprint(scored.values[scored.default, scored.held_out]), scored.settings[candidate]
    before = looks.n_before(HOLDOUT, labels, choice)
    looks.remember(HOLDOUT, labels, choice, word=tested.word)
    return replace(tested, word=OPEN, reason=_USED, looks=1 + before, needed=None) if before else tested


def _recommended(verdict: Verdict, scored: Scored, candidate: int, guarded: pa.Table) -> tuple[int, str]:
    if verdict.word != BETTER:
        return scored.default, "Keep the search's own setting."
    broken = guarded.filter(pc.invert(guarded["holds"]))["guard"].to_pylist()
    if broken:
        return scored.default, f"Keep the search's own setting: {', '.join(broken)} might lose more than the margin."
    changes = ", ".join(
        f"{name}={value}"
        for name, value in scored.settings[candidate].items()
        if value != scored.settings[scored.default].get(name)
    )
    return (
        candidate,
        f"Use {changes}: of the settings within one standard error of the best, it is nearest to the search's own.",
    )


def _with_own_among(table: pa.Table, rows: int) -> pa.Table:
    """The table with the row of the search's own setting at the end of the first `rows`, if it comes later."""
    own = pc.index(table["in_use"], True).as_py()
    if own < rows:
        return table
    order = [*range(rows - 1), own, *(row for row in range(rows - 1, table.num_rows) if row != own)]
    return table.take(pa.array(order))


def _settings_table(
    scored: Scored, rows: Mask, distance: Floats, retuned: Retuned | None, epsilon: float, seed: int
) -> pa.Table:
    contest = scored.contest(rows)
    adjusted = np.full(len(distance), np.nan) if retuned is None else retuned.adjusted
    rank = np.empty(len(distance), np.int64)
    rank[np.argsort(-contest.means, kind="stable")] = np.arange(1, len(distance) + 1)
    columns = {
        "rank": rank,
        "in_use": np.arange(len(distance)) == scored.default,
        "gain": contest.means,
        "per_query": scored.contest(rows, True).means,
        "per_group": scored.contest(rows, False).means,
        "p_adjusted": nullable(adjusted),
        "near_best": contest.means >= contest.means.max() - epsilon - ALMOST,
        "plateau": plateau(contest, seed),
        "distance": distance,
    }
    table = scored.table
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return describe(table, memkit="tune")


def _cases_table(scored: Scored, candidate: int, rows: Mask, retuned: Retuned | None) -> pa.Table:
    default, new = scored.values[scored.default], scored.values[candidate]
    held_out = np.full(len(default), np.nan)
    if retuned is not None:
        held_out[np.flatnonzero(rows & ~np.isnan(default))] = retuned.gain
    columns = {"default": default, "candidate": new, "difference": new - default, "held_out": held_out}
    return pa.table(
        {"query_id": scored.cases, "group": scored.groups}
        | {name: nullable(values) for name, values in columns.items()}
    )


def _groups_table(scored: Scored, candidate: int) -> pa.Table:
    """A row a group that has scores, by name."""
    has = ~np.isnan(scored.values[scored.default])
    _, first, code = np.unique(scored.unit[has], return_index=True, return_inverse=True)
    counts = np.bincount(code)
    default, new = (np.bincount(code, scored.values[setting, has]) / counts for setting in (scored.default, candidate))
    names = [name for name, is_scored in zip(scored.groups, has, strict=True) if is_scored]
    columns = {"n_queries": counts, "default": default, "candidate": new, "difference": new - default}
    return pa.table({"group": [names[setting] for setting in first], **columns}).sort_by("group")


@over_task
def tune(
    search: Any,
    queries: Any = None,
    qrels: Any = None,
    grid: Any = None,
    metric: str = "ndcg@10",
    *,
    epsilon: float = 0.01,
    guard: Mapping[str, tuple[Any, Any, float]] | None = None,
    split: AsOf = None,
    holdout: float | None = None,
    remember: str | Path | None = None,
    n: int | None = None,
    unjudged_hits: str = "bounds",
    n_jobs: int | None = None,
    **shared: Any,
) -> Tuning:
    """Choose a setting of a grid, and test on the labels whether it is better than the search's own.

    The best of many settings looks better than it is on the labels that it was chosen on, so an ordinary test there
    says nothing. This test (selective inference) flips the signs of whole users for all settings at once, and repeats
    the choice, cross-validated over users, in each permutation: *better* is claimed where at most 2.5 % of the repeated
    choices look as good. Otherwise the search's own setting is recommended.

    Parameters
    ----------
    search : Retriever, or Task
        Its own setting is the default that all others are compared with.
    queries, qrels : table, data frame or path
        As for `evaluate`.
    grid : dict, sequence of dict, or Sweep
        As for `sweep`. A `Sweep` of this search over these labels is used as it is, with its users and moment.
    metric : str
        As for `evaluate`.
    epsilon : float
        Differences within ± epsilon count as none.
    guard : dict of str to (queries, qrels, margin), optional
        Other labels on which the setting may lose at most a margin: non-inferiority tests at 5 %, adjusted by Holm.
    split : str, date or datetime, optional
        Choose on the queries asked before this moment, and test on those asked later: for answers that age.
    holdout : float, optional
        The share of groups held out from the choice, for one test. Their names and `random_state` decide which groups
        these are, so that labels may grow. Needs `remember`.
    remember : path, optional
        A small file that records each use of the holdout. One that was used for another choice gives no verdict.
    n : int, optional
        Draw this many settings from the grid.
    unjudged_hits : {'bounds', 'irrelevant'}
        As for `compare`: where unjudged hits could change the verdict it is *cannot tell yet*, and `to_judge_` lists
        what to judge first.
    n_jobs : int, optional
        As for `sweep`; the result is the same.
    **shared

    Returns
    -------
    Tuning
        ``.verdict_``, ``.chosen_params_`` (what to use), ``.best_params_``, ``.plateau_``, ``.expected_gain_``,
        ``.apparent_gain_``, ``.guards_``, ``.table_``, ``.groups_``, ``.baselines_``; as text, what to use and the
        verdict.

    Raises
    ------
    ParameterError
        As for `evaluate` and `sweep`; for a grid of nothing but the search's own setting, a split that leaves one side
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
    if isinstance(grid, Sweep) and queries is None and not isinstance(search, Task):
        queries, qrels = grid.queries, grid.task.qrels
    task = task_of(tune, search, queries, qrels, shared)
    search, where, depth, seed = task.search, task.where, task.depth, task.random_state
    check_work(search, n_jobs)
    points = None if isinstance(grid, Sweep) else Grid(grid, n, random_state=seed, refits=True)
    checked = _checked_of(grid, task.user_id) if isinstance(grid, Sweep) else task.read()
    wanted, specs = Metric.parse(metric), {name: _guard_spec(name, spec) for name, spec in (guard or {}).items()}
    # The unit is the guard's own matter: its labels may come without the column that `group` names.
    of_guards = replace(task, group=None, as_of=checked.moment, user_id=checked.user_id)
    guard_tasks = {name: replace(of_guards, queries=spec[0], qrels=spec[1]).read() for name, spec in specs.items()}
    pools = checked.pools(search, where)
    beside = [wanted] if wanted.kind in OF_HITS else [wanted, Metric("judged", wanted.k or 10)]
    tried = grid if points is None else swept(pools, checked, points, Measure(beside, depth, n_jobs), where)
    scored = _scored(tried, metric)
    held_out, tested_on = _held_out(scored, checked, split, holdout, remember, seed)
    scored = replace(scored, held_out=held_out, tested_on=tested_on)

    def guarded(name: str, setting: Setting) -> tuple[str, Units, float]:
        guard_task, points = guard_tasks[name], Grid({key: [value] for key, value in setting.items()}, refits=True)
        sweep_of_two = swept(guard_task.pools(search, where), guard_task, points, Measure([wanted], depth), where)
        changed = next((n for n in range(len(sweep_of_two.settings)) if n != sweep_of_two.default), 0)
        units = _scored(sweep_of_two, metric).units(changed, np.ones(guard_task.queries.num_rows, bool))
        return name, units, float(specs[name][2])

    def guards(candidate: int) -> list[tuple[str, Units, float]]:
        return [guarded(name, tried.settings[candidate]) for name in specs]

    result = tuned(scored, guards, checked_epsilon(epsilon), Looks(remember), seed)
    fitted = refitted(pools.search, result.candidate_)
    new_pools = pools if fitted is pools.search else checked.pools(fitted, where)
    alike = tried.settings[tried.default], *([result.candidate_] if new_pools is pools else [])
    pools.retrieve(map(at_query, alike))  # a sweep that was given brings no answers
    simple = baselines(pools, scored.values[tried.default], checked, wanted, depth)
    chosen = refitted(search, result.chosen_params_).with_params(**at_query(result.chosen_params_))
    result = replace(result, sweep_=tried, baselines_=simple, search_=chosen, labels_=(checked.queries, checked.qrels))
    has_hits = tried.table["n_with_hits"][tried.settings.index(result.candidate_)].as_py()
    if unjudged_hits == "bounds" and result.verdict_.word in (WORSE, SAME) and has_hits:
        result = _bounded(result, (pools, new_pools), checked, wanted, depth, epsilon)
    return result


def _checked_of(tried: Sweep, user_id: str | None) -> CheckedTask:
    """The labels of a sweep that was made before; raises where it was asked as somebody else."""
    if user_id not in (None, tried.task.user_id):
        raise ParameterError(f"tune: expected the 'user_id' of this sweep, {tried.task.user_id!r}. Got {user_id!r}.")
    return tried.task


def _scored(tried: Sweep, metric: str) -> Scored:
    task = tried.task
    if Metric.parse(metric).sign < 0:
        raise ParameterError(
            f"tune: expected a metric of which more is better. Got {metric!r}; sweep and compare take it."
        )
    return Scored(
        values=tried.matrix(metric),
        settings=tried.settings,
        default=tried.default,
        metric=metric,
        table=tried.table,
        cases=task.queries["query_id"].to_pylist(),
        groups=task.unit_names.to_pylist(),
        unit=task.unit,
        unit_name=task.unit_name,
        per_query=task.per_query,
        held_out=np.zeros(task.queries.num_rows, bool),
    )


def checked_epsilon(epsilon: float) -> float:
    check_value("tune", "epsilon", epsilon, "float", low=0)
    return float(epsilon)


def _held_out(
    scored: Scored, task: CheckedTask, split: AsOf, holdout: float | None, remember: Any, seed: int
) -> tuple[Mask, str]:
    """The mask of held-out queries, and what they are called."""
    if split is None:
        return held_out_of(scored, holdout, remember, seed)
    if holdout is not None:
        raise ParameterError("tune: expected 'split' or 'holdout'. Got both.")
    moment = as_of_time(split, "split")
    moments = pc.fill_null(task.queries["as_of"], pa.scalar(task.moment.instant, task.queries["as_of"].type))
    held_out = pc.greater_equal(moments, pa.scalar(moment, moments.type)).to_numpy()
    return _both_sides(held_out, f"queries asked before and after {moment:%Y-%m-%d}"), LATER


def held_out_of(scored: Scored, share: float | None, remember: Any, seed: int) -> tuple[Mask, str]:
    if share is None:
        return np.zeros(len(scored.cases), bool), LABELS
    check_value("tune", "holdout", share, "float", low=0, low_open=True, high=1)
    if remember is None:
        raise ParameterError("tune: a holdout needs 'remember', a file that knows whether it was used. Got None.")
    held_out = held_out_groups(scored.groups, share, seed)
    return _both_sides(held_out, f"groups in a holdout of {share:g} and out of it"), HOLDOUT


def _both_sides(held_out: Mask, expected: str) -> Mask:
    if held_out.all() or not held_out.any():
        raise ParameterError(f"tune: expected {expected}. Got all {len(held_out)} queries on one side.")
    return held_out


def _guard_spec(name: str, spec: Any) -> tuple[Any, Any, float]:
    if not isinstance(spec, tuple) or len(spec) != 3:
        raise ParameterError(f"guard: expected (queries, qrels, margin) for {name!r}. Got {spec!r:.80}.")
    check_value("guard", "margin", spec[2], "float", low=0)
    return spec


def _bounded(
    result: Tuning, pools: tuple[Pools, Pools], task: CheckedTask, metric: Metric, depth: int, epsilon: float
) -> Tuning:
    """The result, with *cannot tell yet* where the unjudged hits of the candidate alone could change the word."""
    # At least ten, as judged@10 stands beside every metric.
    deep = max(10, deepest([metric], depth))
    default, new = pools[0].hits(deep, check=False), pools[1].hits(deep, at_query(result.candidate_), check=False)
    wanted = Pair(task, default, new, deep, epsilon, result.random_state_).first_to_judge(metric)
    if not wanted.num_rows:
        return result
    reason = unjudged_could_change(wanted.num_rows)
    return replace(result, verdict_=replace(result.verdict_, word=OPEN, reason=reason), to_judge_=wanted)
