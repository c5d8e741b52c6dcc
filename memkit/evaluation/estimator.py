"""A search for scikit-learn and Optuna: settings are scored over candidates that are retrieved once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pandas as pd

from memkit.base.params import AsOf, Moment, check_fitted, estimator, param
from memkit.errors import MemkitError, ParameterError
from memkit.evaluation.evaluation import CheckedTask, Task, deepest
from memkit.evaluation.grid import AT_FIT, Setting, at_fit, at_query, check_name, declared_of
from memkit.evaluation.labels import QRELS, qrels_of, read_qrels, read_queries
from memkit.evaluation.metrics import Metric, parse_metrics
from memkit.evaluation.pools import Pools
from memkit.evaluation.scores import Measure, scores_of
from memkit.evaluation.sweep import check_fit, refitted
from memkit.search.ask import check_user
from memkit.search.fitted.chunks import Index
from memkit.search.settings import QuerySettings

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
        return trial.suggest_categorical(name, values) if plain else values[trial.suggest_int(name, 0, len(values) - 1)]
    is_whole = declared_of(name).kind == "int"
    return (trial.suggest_int if is_whole else trial.suggest_float)(name, *values)
