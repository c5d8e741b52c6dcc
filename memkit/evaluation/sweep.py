"""`sweep`: many settings of one search scored on labelled queries, over candidates retrieved once; and `as_estimator`,
the same for scikit-learn and Optuna, which choose the settings themselves.
"""

from __future__ import annotations

import copy
import json
import math
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from memkit.base.duck import connect
from memkit.base.params import AsOf, Moment, check_fitted, check_value, describe, estimator, param
from memkit.display.sheet import ROWS, Sheet
from memkit.errors import MemkitError, ParameterError, count_of, did_you_mean
from memkit.evaluation.evaluation import CheckedTask, Task, deepest, nullable, over_task, task_of
from memkit.evaluation.known_items import known_item_note
from memkit.evaluation.labels import QRELS, qrels_of, read_qrels, read_queries
from memkit.evaluation.metrics import Metric, Pools, idle_in_all, parse_metrics, revision_of
from memkit.evaluation.result import Result, size
from memkit.evaluation.scores import (
    AT_FIT,
    Grid,
    Measure,
    Setting,
    at_fit,
    at_query,
    check_name,
    declared_of,
    recorded_facts,
    scores_of,
)
from memkit.index.encode import as_reranker
from memkit.presets import MOST_POINTS
from memkit.schemas import Floats, Ints
from memkit.search.ask import QuerySettings, check_user
from memkit.search.fitted.chunks import Index
from memkit.search.steps.recall import DEPTH, WEIGHTS
from memkit.tables.age import OF_DECAY
from memkit.tables.database import sql_with

# 1.6 GB; a round bound.
MOST_SCORES = 200_000_000
"""The most scores, of 8 bytes each, that a sweep holds."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Sweep(Result):
    """The result of `sweep`.

    Attributes
    ----------
    table : pa.Table
        A row for each setting: setting (its number), the parameters that vary, the mean of each metric (as `evaluate`
        gives it), n_with_hits (queries with any hit).
    settings : list of dict
        The values of the parameters that vary, by setting.
    default : int
        The number of the search's own setting; it is the last row where the grid lacks it.
    queries : pa.Table
        The labelled queries, in the order of the columns of `matrix`.
    metrics : list of str
        The first decides `best`.
    task : CheckedTask
        Labels, units of analysis and moment.
    where : str or None
        The predicate for all queries.
    automatic : dict
        The weights that memkit chooses in the search's own setting, by parameter, where that leaves them to memkit.
    fit_seconds : list of float
        How long the fit of each setting took, in seconds; empty where the grid names nothing that acts at fit.
    """

    table: pa.Table
    settings: list[Setting]
    default: int
    queries: pa.Table
    metrics: list[str]
    task: CheckedTask = field(compare=False)
    values: Mapping[str, Floats] = field(compare=False)
    where: str | None = None
    automatic: Mapping[str, float] = field(default_factory=dict, compare=False)
    fit_seconds: list[float] = field(default_factory=list, compare=False)

    def matrix(self, metric: str | None = None) -> Floats:
        """Scores, settings × queries, of the first metric or a named one; NaN where a query has no score.

        Raises
        ------
        ParameterError
            For a metric that the sweep does not have.
        """
        name = self.metrics[0] if metric is None else Metric.parse(metric).name
        if name not in self.values:
            names = ", ".join(self.metrics)
            raise ParameterError(f"Sweep: expected one of {names}. Got {name!r}.{did_you_mean(name, self.metrics)}")
        return self.values[name]

    @property
    def pictures(self) -> tuple[str, ...]:
        """As `Result.pictures`."""
        return ("surface", DEPTH) if DEPTH in self.settings[0] else ("surface",)

    def sign(self, metric: str) -> int:
        """1 where more of `metric` is better, -1 where less is."""
        return Metric.parse(metric).sign

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        """As other results, and what memkit chooses where the search's own setting leaves a weight to it."""
        (sheet,) = super()._sheets(rows, show_secrets)
        chosen = [self.automatic.get(column.name) for column in sheet.columns]
        cells = tuple(
            tuple(
                cell if cell.text or value is None else replace(cell, text=f"auto ({value:.3g})")
                for cell, value in zip(row, chosen, strict=True)
            )
            for row in sheet.rows
        )
        return (replace(sheet, rows=cells),)

    @property
    def best(self) -> int:
        """The setting with the best mean of the first metric, the first one of equals; `default` where none has one.

        Its mean is biased upwards, as it was chosen by that mean. `tune` estimates the gain without this bias.
        """
        means = self.table[self.metrics[0]].to_numpy() * Metric.parse(self.metrics[0]).sign
        # To 12 digits, so that of settings with one mean the first wins, in whatever order sums were made.
        return self.default if np.isnan(means).all() else int(np.nanargmax(np.round(means, 12)))

    @property
    def scores(self) -> pa.Table:
        """Settings × queries as rows: setting, query_id, and each metric, null where a query has none."""
        n_settings, n_queries = next(iter(self.values.values())).shape
        ids = pa.DictionaryArray.from_arrays(
            pa.array(np.tile(np.arange(n_queries, dtype=np.int32), n_settings)),
            self.queries["query_id"].combine_chunks(),
        )
        setting = pa.array(np.repeat(np.arange(n_settings), n_queries))
        columns = {name: nullable(scores.ravel()) for name, scores in self.values.items()}
        return describe(pa.table({"setting": setting, "query_id": ids, **columns}), memkit="scores")

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Ask in SQL: tables settings (`table`), scores, queries, and your variables.

        Examples
        --------
        ``sw.sql('select setting, min("ndcg@10") from scores group by all')``
        """
        con = connect()
        for name, table in (("settings", self.table), ("scores", self.scores), ("queries", self.queries)):
            con.register(name, table)
        return sql_with(con, query, None, sys._getframe(1))

    def __str__(self) -> str:
        name, best = self.metrics[0], self.table.slice(self.best, 1).to_pylist()[0]
        default = self.table.slice(self.default, 1).to_pylist()[0]
        chosen = ", ".join(f"{key}={value}" for key, value in self.settings[self.best].items())
        n_queries = {"n_queries": self.queries.num_rows, "unit": self.task.unit_name}
        units = {"n_units": int(self.task.unit.max()) + 1}
        over = f"{count_of(len(self.settings), 'setting')}, each scored on {size(n_queries | units)}."
        if best[name] is None:
            return f"{over} No query has {name!r} under any setting, as none has hits."
        as_it_is = f"{default[name]:.3f}" if default[name] is not None else "no hits"
        return (
            f"{over} {name} {best[name]:.3f} at best ({chosen}), {as_it_is} for the search's own setting."
            " The best of many settings looks better than it is: mk.tune estimates its gain."
        )


@over_task
def sweep(
    search: Any,
    queries: Any = None,
    qrels: Any = None,
    grid: Any = None,
    metrics: str | Sequence[str] = ("ndcg@10",),
    *,
    n: int | None = None,
    how: str = "sobol",
    resume: str | Path | None = None,
    n_jobs: int | None = None,
    **shared: Any,
) -> Sweep:
    """Score many settings of one search on labelled queries; candidates are retrieved once.

    Each score is exactly what `evaluate` gives for the search with that setting.

    Parameters
    ----------
    search : Retriever, or Task
    queries, qrels : table, data frame or path
        As for `evaluate`.
    grid : dict, or sequence of dict
        A list of values by parameter, such as ``{"pool": [50, 100], "vector_weight": mk.presets.steps(0, 1, 0.1)}``.
        A tuple of names takes tuples of values:
        ``{("vector_weight", "bm25_weight", "gram_weight"): mk.presets.shares(0.1)}``.
        With `n`, an axis may be a distribution of ``scipy.stats``. A parameter of the index, such as
        ``index__chunk_tokens``, may vary too: for each of its values a copy of the search is fitted once on the same
        memories.
    metrics : str or sequence of str
        As for `evaluate`.
    n : int, optional
        Draw this many settings from the grid instead of trying all.
    how : {'sobol', 'random'}
        How settings are drawn; Sobol points cover the space evenly.
    resume : str or Path, optional
        A checkpoint file: a sweep that was stopped or killed goes on from it; where `as_of` is None, at the moment at
        which it began. The file of another sweep is refused. Where parameters of the index vary, each further fit has
        a file of its own beside it, with its number behind the name.
    n_jobs : int, optional
        Threads, as joblib counts them, unless ``joblib.parallel_config`` names other workers, such as a cluster's; the
        result is the same with any.
    **shared

    Returns
    -------
    Sweep
        ``.table`` with a row for each setting, ``.scores``, ``.matrix(metric)``, ``.sql(query)``. The search's own
        setting is always included. A setting under which no query has a hit scores 0, and ``n_with_hits`` shows it.
        Settings in which all arms have the weight 0 are left out, with a warning.

    Raises
    ------
    ParameterError
        For an unknown name, a value outside of its declaration, an empty grid, one of more than a million
        settings or 200 million scores, decay where nothing decays, or invalid labels.
    MemkitError
        Where an arm that has a weight found nothing for any query.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> found = sweep(search, queries, qrels, {"min_score": [0, 0.9]}, "mrr")
    >>> found.table.select(["min_score", "mrr", "n_with_hits"]).to_pylist()[0]
    {'min_score': 0.0, 'mrr': 1.0, 'n_with_hits': 1}
    """
    wanted = parse_metrics(metrics)
    task = task_of(sweep, search, queries, qrels, shared)
    check_work(task.search, n_jobs)
    points = Grid(grid, n, how, task.random_state, refits=True)
    if task.as_of is None and resume is not None:
        task = replace(task, as_of=_begun(recorded_facts(resume) or {}))
    checked = task.read()
    pools = checked.pools(task.search, task.where)
    return swept(pools, checked, points, Measure(wanted, task.depth, n_jobs, resume), task.where)


def check_work(search: Any, n_jobs: int | None) -> None:
    """Raise for an invalid `n_jobs`, or a search that is not fitted."""
    check_value("sweep", "n_jobs", n_jobs, "int", nullable=True)
    if n_jobs == 0:
        raise ParameterError("sweep: expected a number of threads, or -1 for as many as there are processors. Got 0.")
    check_fitted("sweep", search)


def swept(pools: Pools, task: CheckedTask, points: Grid, measure: Measure, where: str | None) -> Sweep:
    """What `sweep` returns, over the candidates in `pools`; arms are asked only for what is missing."""
    metrics, depth = measure.metrics, deepest(measure.metrics, measure.depth)
    _check_size(len(points), task.queries.num_rows, len(metrics))
    settings, default = _with_default(_with_weights(list(points), pools.search), points.names, pools.search)
    idle = _idle_axes(pools, settings)
    fits: dict[str, float] = {}
    scores, with_hits = _scores(pools, task, measure._replace(depth=depth), settings, where, fits)
    values = {metric.name: scores[number] for number, metric in enumerate(metrics)}
    note = " ".join(filter(None, [known_item_note(task.queries), *idle.values(), _of_fits(fits)]))
    about = {"note": note, "as_of": task.moment} | revision_of(pools.search)
    table = describe(_table(settings, points.names, values, with_hits, task), **about)
    names = [metric.name for metric in metrics]
    weights = {f"{arm}_weight": weight for arm, weight in pools.needs(at_query(settings[default]))[1].items()}
    automatic = {name: weights.get(name, 0.0) for name in WEIGHTS if settings[default].get(name, 0.0) is None}
    return Sweep(
        table=table,
        settings=settings,
        default=default,
        queries=task.queries,
        metrics=names,
        task=task,
        values=values,
        where=where,
        automatic=automatic,
        fit_seconds=[fits[repr(at_fit(setting))] for setting in settings] if fits else [],
    )


def _of_fits(fits: Mapping[str, float]) -> str:
    """How long the fits took, as a sentence; empty where none was made."""
    if not fits:
        return ""
    return (
        f"{count_of(len(fits), 'set')} of parameters act at fit; their fits took {sum(fits.values()):.1f} s together."
    )


def _scores(
    pools: Pools,
    task: CheckedTask,
    measure: Measure,
    settings: Sequence[Setting],
    where: str | None,
    fits: dict[str, float],
) -> tuple[Floats, Ints]:
    """As `scores_of`, fit by fit: one search is asked for all settings that share what acts at fit.

    The seconds of each fit are added to `fits`, by what acts at fit.
    """
    if not at_fit(settings[0]):
        return scores_of(pools, task, measure, settings, list(settings[0]))
    positions_of: dict[str, list[int]] = {}
    for position, setting in enumerate(settings):
        positions_of.setdefault(repr(at_fit(setting)), []).append(position)
    for positions in positions_of.values():
        # All before the first fit: a fit may take minutes.
        check_fit(pools.search, settings[positions[0]])
    scores = np.full((len(measure.metrics), len(settings), task.queries.num_rows), np.nan)
    with_hits = np.zeros(len(settings), np.int64)
    for number, (key, positions) in enumerate(positions_of.items()):
        search = refitted(pools.search, settings[positions[0]])
        fits[key] = getattr(search, "fit_seconds_", math.nan)  # one that was loaded has none
        of_fit = pools if search is pools.search else task.pools(search, where)
        some = [at_query(settings[position]) for position in positions]
        # A file for each fit, as a checkpoint is refused where its facts differ, and another index is another fact.
        file = measure.resume if measure.resume is None or number == 0 else f"{measure.resume}.{number}"
        found = scores_of(of_fit, task, measure._replace(resume=file), some, list(some[0]))
        scores[:, positions], with_hits[positions] = found
    return scores, with_hits


def refitted(search: Any, setting: Setting) -> Any:
    """`search`, or a copy that is fitted on its memories with the values of `setting` that act at fit.

    Vectors of chunks that are the same come from the cache.
    """
    changed = {name: value for name, value in at_fit(setting).items() if search.value_of(name) != value}
    return copy.copy(search).set_params(**changed).fit(search._index().corpus) if changed else search


def check_fit(search: Any, setting: Setting) -> None:
    """Raise where no index can be built with the values of `setting`, before others are built."""
    names = "index__chunk_tokens", "index__overlap_tokens"
    chunk, overlap = (setting.get(name, search.value_of(name)) for name in names)
    if overlap >= chunk:
        raise ParameterError(
            f"grid: expected '{names[1]}' below '{names[0]}'. Got {overlap} and {chunk}; name them together, as in"
            f" {{{names}: [({chunk}, {chunk // 5})]}}."
        )


def _begun(facts: Mapping[str, Any]) -> Moment:
    """The moment of a sweep by the facts of its checkpoint; a sweep that did not hide the future goes on so."""
    moment = Moment.from_as_of(facts.get("as_of"))
    return moment if facts.get("is_dated") else replace(moment, until=None)


def _check_size(n_settings: int, n_queries: int, n_metrics: int) -> None:
    most = min(MOST_POINTS, MOST_SCORES // (n_queries * n_metrics))
    if n_settings > most:
        raise ParameterError(
            f"sweep: expected at most {MOST_POINTS:,} settings and {MOST_SCORES:,} scores. Got {n_settings:,}"
            f" settings x {n_queries:,} queries x {n_metrics} metrics; n={max(most // 100, 1):,} draws so many."
        )


def _with_weights(settings: list[Setting], search: Any) -> list[Setting]:
    """The settings in which some arm has a weight; a product of weights includes one in which none has."""
    weights = {name: getattr(search, name) for name in WEIGHTS}
    kept = [setting for setting in settings if any(setting.get(name, weight) != 0 for name, weight in weights.items())]
    if left_out := len(settings) - len(kept):
        if not kept:
            raise ParameterError("sweep: no arm has a weight in any setting. Expected a weight above 0 in some.")
        noun = "setting was" if left_out == 1 else "settings were"
        warnings.warn(f"sweep: {left_out:,} {noun} left out, in which no arm has a weight.", UserWarning, stacklevel=4)
    return kept


def _idle_axes(pools: Pools, settings: Sequence[Setting]) -> dict[str, str]:
    """A sentence on each parameter that varies and acts on nothing under any setting.

    Raises
    ------
    ParameterError
        Where that is one of decay.
    """
    of_query = [at_query(setting) for setting in settings]
    different = {repr([_kind_of_value(value) for value in setting.values()]): setting for setting in of_query}
    full = [(pools.settings.with_params(**setting), pools.index) for setting in different.values()]
    idle = {name: sentence for name in of_query[0] for sentence in idle_in_all(full, [name])}
    for name, sentence in idle.items():
        if name in OF_DECAY:
            raise ParameterError(f"grid: '{name}' makes no difference: {sentence}")
    return idle


def _kind_of_value(value: Any) -> Any:
    """The same for all numbers that have the same reach: by it a large grid has few settings to look at."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (value > 0, value > 1) if is_number else value


def _with_default(points: list[Setting], names: Sequence[str], search: Any) -> tuple[list[Setting], int]:
    """Each setting with all parameters that vary, the search's own included, and the number of that one."""
    default = {name: search.value_of(name) for name in names}
    settings = [default | setting for setting in points]
    if default not in settings:
        settings.append(default)
    return settings, settings.index(default)


def _table(
    settings: Sequence[Setting], names: Sequence[str], values: Mapping[str, Floats], with_hits: Ints, task: CheckedTask
) -> pa.Table:
    columns: dict[str, Any] = {"setting": np.arange(len(settings))}
    for name in names:
        columns[name] = pa.array([_cell(setting[name]) for setting in settings])
    for name, scores in values.items():
        columns[name] = pa.array([_mean(task, row) for row in scores], pa.float64())
    return describe(pa.table({**columns, "n_with_hits": with_hits}), memkit="sweep")


def _cell(value: Any) -> Any:
    """A value as a table cell: weights by kind as JSON, several words as one text, an object by its name."""
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    if isinstance(value, (tuple, list)):
        return ", ".join(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else as_reranker(value).name


def _mean(task: CheckedTask, scores: Floats) -> float | None:
    units = task.units(scores)
    return units.mean if len(units) else None


_MOST_CACHED, _MOST_FITS = 32, 4
"""The most sets of queries whose candidates are cached, the folds of a cross-validation or two; the most fits."""


class Arms:
    """A fitted search, with the candidates for each set of labelled queries that was scored."""

    def __init__(self, search: Any, metric: Metric, where: str | None, as_of: AsOf, user_id: str | None) -> None:
        self.search, self.metric, self.where, self.moment = search, metric, where, Moment.from_as_of(as_of)
        self.user_id = user_id
        self._pools: dict[Any, tuple[CheckedTask, Pools]] = {}
        self._fits: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> Self:
        return self  # a clone asks the same index

    def __repr__(self) -> str:
        return f"<arms of a search, {self.metric.name}>"

    def __reduce__(self) -> Any:
        raise MemkitError(
            "a fitted Retriever holds a database and cannot go to another process: use threads, as in"
            " joblib.parallel_config(backend='threading')."
        )

    def score(self, queries: pd.DataFrame, labels: Sequence[Mapping[str, float]], setting: Setting) -> float:
        """The mean over the queries that have a score, negated where less is better."""
        with self._lock:
            search = self._fit_of(setting)
            key = (id(search), *map(repr, [*queries.itertuples(index=False), *labels]))
            if key not in self._pools:
                if len(self._pools) >= _MOST_CACHED:
                    self._pools.clear()
                self._pools[key] = self._task_and_pools(search, queries, labels)
            task, pools = self._pools[key]
            scores, _ = scores_of(pools, task, Measure([self.metric], deepest([self.metric], 100)), [at_query(setting)])
        units = task.units(scores[0, 0])
        return units.mean * self.metric.sign if len(units) else float("nan")

    def fitted(self, setting: Setting) -> Any:
        """The search, fitted with the values of the setting that act at fit; raises ParameterError."""
        with self._lock:
            return self._fit_of(setting)

    def _fit_of(self, setting: Setting) -> Any:
        """The search, fitted with the values of the setting that act at fit."""
        key = repr(at_fit(setting))
        if key not in self._fits:
            check_fit(self.search, setting)
            if len(self._fits) >= _MOST_FITS:
                self._fits.clear()
                self._pools.clear()
            self._fits[key] = refitted(self.search, setting)
        return self._fits[key]

    def _task_and_pools(
        self, search: Any, queries: pd.DataFrame, labels: Sequence[Mapping[str, float]]
    ) -> tuple[CheckedTask, Pools]:
        if len(queries) != len(labels):
            raise ParameterError(f"expected labels for each of {len(queries)} queries. Got {len(labels)}.")
        table = queries.assign(query_id=[str(row) for row in range(len(queries))])  # a query may be drawn twice
        rows = [(str(row), memory, gain) for row, judged in enumerate(labels) for memory, gain in judged.items()]
        if not rows:
            raise ParameterError("expected a relevant memory for some of the queries. Got none.")
        task = Task(
            search, table, qrels_of(rows), as_of=self.moment, user_id=self.user_id, mean_of="queries", unjudged="apart"
        ).read()
        return task, task.pools(search, self.where)


@estimator
class SearchEstimator(QuerySettings):
    """The settings of a fitted search as a scikit-learn estimator: `fit` learns nothing, `score` measures.

    Attributes
    ----------
    search_ : Retriever
        The search with these settings; it shares everything fitted, unless the index's parameters are others.
    """

    arms: Any = param(None, kind="object", doc="The search that `as_estimator` was given; clones share it.")
    index: Index | None = param(
        None,
        kind="object",
        of=Index,
        refit=True,
        group="fit",
        doc="Parameters of the index: the search is fitted once for each of their values. Its encoder and engine stay.",
    )

    def fit(self, queries: Any, qrels_by_query: Any = None) -> Self:
        """Check the settings; there is nothing to learn."""
        if not isinstance(self.arms, Arms):
            raise ParameterError("SearchEstimator: expected one that mk.as_estimator made.")
        self.search_ = self.arms.fitted(setting := self._setting()).with_params(**at_query(setting))
        return self

    def score(self, queries: Any, qrels_by_query: Any) -> float:
        """The mean of the metric over these queries, negated where less is better.

        Parameters
        ----------
        queries : pandas.DataFrame
            text; user_id and as_of are optional.
        qrels_by_query : sequence of dict
            For each of them, relevance by memory.
        """
        arms: Arms = self.arms
        return arms.score(pd.DataFrame(queries), list(qrels_by_query), self._setting())

    def labels(self, queries: Any, qrels: Any) -> tuple[pd.DataFrame, list[dict[str, float]]]:
        """Labelled queries and judgements in the form that `fit` and `score` take; parameters as for `evaluate`.

        Returns
        -------
        queries : pandas.DataFrame
        qrels_by_query : list of dict
            Relevance by memory, in the order of the queries. valid_from and valid_to are left out.
        """
        table, judged = read_queries(queries).to_pandas(), read_qrels(qrels).select(QRELS.names[:3])
        by_query: dict[str, dict[str, float]] = {}
        for row in judged.to_pylist():
            by_query.setdefault(row["query_id"], {})[row["memory_id"]] = row["relevance"]
        return table, [by_query.get(name, {}) for name in table["query_id"]]

    def objective(self, queries: Any, qrels: Any, space: Mapping[str, Any]) -> Objective:
        """An objective for Optuna: a function of a trial, whose settings all rank the same candidates, retrieved once.

        What acts at fit, such as ``index__chunk_tokens``, may vary too: the search is then fitted once for each of its
        values (again for one that came more than three others ago), so give it a short list.

        The best of many trials looks better than it is, as in a grid. Optimise on some of the labels and run
        `mk.compare` on the others, or give `mk.tune` the best trials as its grid.

        Parameters
        ----------
        queries, qrels : table, data frame or path
            As for `evaluate`.
        space : dict
            By parameter: a list of values, or a tuple (low, high).

        Returns
        -------
        Objective
            For ``optuna.create_study(direction="maximize").optimize(objective, n_trials=100)``; the extra is
            ``memkit[optuna]``.

        Examples
        --------
        >>> import memkit as mk
        >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
        >>> search = mk.Retriever(encoder=None).fit(corpus)
        >>> labels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
        >>> objective = as_estimator(search, "mrr").objective(*labels, {"min_score": (0.0, 1.0)})
        >>> class Trial:  # as Optuna's: it suggests
        ...     def suggest_float(self, name, low, high): return low
        >>> objective(Trial())
        1.0
        """
        if not isinstance(space, Mapping) or not space:
            raise ParameterError(f"objective: expected a dict of lists or ranges by parameter. Got {space!r:.100}.")
        for name, values in space.items():
            check_name(name, refits=True)
            is_range = (
                isinstance(values, tuple) and len(values) == 2 and all(isinstance(end, (int, float)) for end in values)
            )
            if not is_range and not (isinstance(values, list) and values):
                raise ParameterError(f"objective: expected a list, or (low, high), for '{name}'. Got {values!r:.100}.")
            for value in values:
                declared_of(name).check(value, "objective")
        return Objective(self.arms, *self.labels(queries, qrels), space)

    def _setting(self) -> Setting:
        for name in ("encoder", "engine"):
            if (value := self.value_of(f"index__{name}")) != Index.params()[name].default:
                raise ParameterError(
                    f"SearchEstimator: 'index__{name}' is the search's. Got {value!r:.80}: fit a Retriever for each."
                )
        of_index = {} if vars(self)["index"] is None else {name: self.value_of(name) for name in AT_FIT}
        return {**{name: vars(self)[name] for name in QuerySettings.params()}, **of_index}


def as_estimator(
    search: Any,
    metric: str = "ndcg@10",
    *,
    where: str | None = None,
    as_of: AsOf = None,
    user_id: str | None = None,
) -> SearchEstimator:
    """A fitted search as an estimator for ``GridSearchCV`` and its like; the corpus is not fitted again.

    The arms retrieve candidates once for each fold. A grid over the index, as ``index__chunk_tokens``, fits the search
    once for each of its values. Keep the queries of one user in one fold: ``cv=GroupKFold()`` and
    ``groups=`` the users. With more than one job use threads. `mk.tune` also tests whether the best setting is better
    than the search's own.

    Parameters
    ----------
    search : Retriever
    metric : str
        As for `evaluate`.
    where, as_of, user_id
        As for `evaluate`; None is now, once for all.

    Returns
    -------
    SearchEstimator
        Its parameters are the query-time parameters and those of the index; ``labels(queries, qrels)`` makes its X
        and y.

    Examples
    --------
    >>> import memkit as mk
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> made = as_estimator(mk.Retriever(encoder=None).fit(corpus), "mrr")
    >>> queries = {"query_id": [1, 2], "text": ["чай", "пул"], "user_id": ["анна", "борис"]}
    >>> X, y = made.labels(queries, {"query_id": [1, 2], "memory_id": ["b", "a"], "relevance": [1, 1]})
    >>> tried = GridSearchCV(made, {"min_score": [0.9, 0.0]}, cv=GroupKFold(2)).fit(X, y, groups=X["user_id"])
    >>> tried.best_params_, tried.best_estimator_.search_.min_score
    ({'min_score': 0.0}, 0.0)
    """
    check_fitted("as_estimator", search)
    check_user(user_id, "as_estimator")
    (wanted,) = parse_metrics([metric])
    defaults = {name: vars(search)[name] for name in QuerySettings.params()}
    of_fit = {name.partition("__")[2]: search.value_of(name) for name in AT_FIT}
    return SearchEstimator(**defaults, index=Index(**of_fit), arms=Arms(search, wanted, where, as_of, user_id))


class Objective:
    """An objective for Optuna: called with a trial, it returns the score of the setting that the trial suggests."""

    def __init__(self, arms: Arms, queries: pd.DataFrame, labels: list[dict[str, float]], space: Mapping[str, Any]):
        self._arms, self._queries, self._labels, self._space = arms, queries, labels, dict(space)

    def __call__(self, trial: Any) -> float:
        setting = {name: _suggested(trial, name, values) for name, values in self._space.items()}
        return self._arms.score(self._queries, self._labels, setting)


def _suggested(trial: Any, name: str, values: Any) -> Any:
    if isinstance(values, list):
        plain = all(value is None or isinstance(value, (bool, int, float, str)) for value in values)
        # Optuna stores choices, and takes plain values alone; of others it suggests the number.
        return trial.suggest_categorical(name, values) if plain else values[trial.suggest_int(name, 0, len(values) - 1)]
    is_whole = declared_of(name).kind == "int"
    return (trial.suggest_int if is_whole else trial.suggest_float)(name, *values)
