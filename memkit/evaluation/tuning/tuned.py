"""The result of tuning: the choice, its test, the recommended setting, and tables with details."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import ParameterError
from memkit.evaluation.profiles.profile import Profile
from memkit.evaluation.scores.batches import batches_of
from memkit.evaluation.scores.differences import Differences
from memkit.evaluation.scores.evaluation import nullable
from memkit.evaluation.scores.metrics import Metric
from memkit.evaluation.scores.result import Result
from memkit.evaluation.scores.stages import stages_of
from memkit.evaluation.scores.statistics import Units
from memkit.evaluation.scores.verdict import BETTER, LABELS, OPEN, Verdict
from memkit.evaluation.settings.sweep import Sweep
from memkit.evaluation.tuning.claims import (
    HOLDOUT,
    Looks,
    claim,
    claim_on_held_out,
    fingerprint,
    guard_table,
)
from memkit.evaluation.tuning.selection import Contest, Retuned, distances, nearest, plateau
from memkit.params import describe
from memkit.schemas import Floats, Ints, Mask

_USED = "the holdout was already used for another choice: set other labels aside"


@dataclass(frozen=True, repr=False)
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
        The sweep's table with gain over the search's own setting (per_query and per_group are its two means, and the
        verdict's `estimate` says which counts), p_adjusted (of being better, adjusted for all settings), near_best,
        plateau and distance (from the search's own).
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
    seed_: int
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
        more = {name: getattr(conclusion, name) for name in names}
        means = {conclusion.metric: float(self.table_[conclusion.metric][self._chosen].as_py())}
        verdict = f"{conclusion.word}: {conclusion.reason}" if conclusion.reason else conclusion.word
        return Profile.of(
            self.search_, labels=self.labels_, metrics=means, verdict=verdict, seed=self.seed_, note=self.why_, **more
        )

    def differences(self) -> Differences:
        """Each query's difference: of the setting chosen without its group where known, else of the candidate."""
        conclusion, frame = self.verdict_, self.per_query_.to_pandas()
        is_held_out = frame["held_out"].notna().any() and conclusion.tested_on == "labels"
        frame["difference"] = frame["held_out"] if is_held_out else frame["difference"]
        what = " of settings chosen without them" if is_held_out else " of the candidate"
        ends = (conclusion.gain, conclusion.low, conclusion.high, conclusion.epsilon)
        sentence = f"{conclusion.word}: {conclusion.metric} gained{what}"
        frame = frame.dropna(subset=["difference"])
        return Differences(
            frame, conclusion.metric, conclusion.unit, conclusion.estimate == "per query", *ends, sentence
        )

    @property
    def stages(self) -> pa.Table | None:
        """What became of the relevant memories under the chosen setting; None where no search was tuned."""
        swept = self.sweep_
        if swept is None or self.search_ is None:
            return None
        task = swept.task
        batches = batches_of(self.search_, task.queries, task.qrels, task.moment, swept.where, task.user_id)
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
        return self.table_.sort_by([("gain", "descending"), ("setting", "ascending")])

    def __str__(self) -> str:
        return f"{self.why_} {self.verdict_}"

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        more = {"Guards": self.guards_, "Baselines": self.baselines_, "By group": self.groups_}
        below = [
            replace(sheet_of(table, rows, show_secrets), heading=name) for name, table in more.items() if len(table)
        ]
        first = sheet_of(self.table, rows, show_secrets)
        head = replace(first, heading=self.verdict_.head, notes=(self.why_, *self.verdict_.parts, *first.notes))
        return (head, *below)


@dataclass(frozen=True)
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
        each = self.per_query if per_query is None else per_query
        return Contest.from_scores(self.values[:, rows], self.unit[rows], self.default, each)

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
    verdict, retuned = claim(contest, epsilon, seed, {**about, "looks": _look(scored, looks, seed)})
    expected = verdict.gain
    if scored.held_out.any():
        verdict = _tested_on_held_out(scored, looks, seed, candidate, verdict)
    guarded = guard_table(guards(candidate), seed)
    chosen, why = _recommended(verdict, scored, candidate, guarded)
    table = _settings_table(scored, contest, chosen_on, distance, retuned, seed)
    means = contest.means.round(12)
    return Tuning(
        verdict,
        scored.settings[int(means.argmax()) if means.max() > means[scored.default] else scored.default],
        scored.settings[chosen],
        why,
        table.filter(table["plateau"]),
        expected,
        verdict.apparent,
        guarded,
        table,
        _groups_table(scored, candidate),
        _cases_table(scored, candidate, chosen_on, retuned),
        scored.settings[candidate],
        pa.table({}),
        pa.table({}),
        seed,
    )


def _look(scored: Scored, looks: Looks, seed: int) -> int:
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
        f"Use {changes}: within one standard error of the best, the nearest to the search's own setting.",
    )


def _settings_table(
    scored: Scored, contest: Contest, rows: Mask, distance: Floats, retuned: Retuned | None, seed: int
) -> pa.Table:
    adjusted = np.full(len(distance), np.nan) if retuned is None else retuned.adjusted
    columns = {
        "gain": contest.means,
        "per_query": scored.contest(rows, True).means,
        "per_group": scored.contest(rows, False).means,
        "p_adjusted": nullable(adjusted),
        "near_best": contest.within(),
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
