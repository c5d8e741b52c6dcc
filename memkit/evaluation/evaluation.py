"""`evaluate`: how well a search answers labelled queries, with intervals over users rather than queries.

`stages_of` says at which stage of the search relevant memories were lost.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import (
    AsOf,
    F,
    Moment,
    check_choice,
    current_names,
    describe,
    hint_of,
    listed,
    param,
)
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import ParameterError, did_you_mean, some_of
from memkit.evaluation.known_items import known_item_note
from memkit.evaluation.labels import read_qrels, read_queries
from memkit.evaluation.metrics import (
    OF_HITS,
    Batch,
    Judged,
    LabelledQueries,
    Labels,
    Metric,
    Pools,
    Run,
    idle_notes_of,
    parse_metrics,
    revision_of,
    run_of,
)
from memkit.evaluation.result import Result, mean_over, too_few
from memkit.evaluation.statistics import Units, interval
from memkit.schemas import Floats, Ints, result_schema
from memkit.search.ask import STEPS, check_user
from memkit.tables.corpus import Corpus

METRICS = ("ndcg@10", "recall@5", "mrr")
NOT_FOUND = "not_found"
STAGES = result_schema(
    (pa.string(), "disposition"), (pa.int64(), "n"), (pa.float64(), "share"), (pa.int64(), "n_queries")
)
# A declared rule, and no measured one.
_LARGEST = 0.25
"""A unit with a larger share of the queries would decide a mean over queries alone."""


def _place_of(disposition: str) -> int:
    return (*STEPS.dispositions, NOT_FOUND).index(disposition)


@dataclass(frozen=True, repr=False, eq=False)
class Task:
    """What is measured: a search, labelled queries, and how they are asked and counted.

    `evaluate`, `compare`, `sweep` and `tune` take a task in place of a search and its labels, or the same parameters
    one by one. A parameter that is given beside a task counts instead of the task's own.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> task = Task(mk.Retriever(encoder=None).fit(corpus), queries, qrels, as_of="2026-03-01")
    >>> [mk.evaluate(task, "mrr").table["value"][0].as_py(), *mk.sweep(task, {"min_score": [0, 0.9]}).table["ndcg@10"]]
    [1.0, <pyarrow.DoubleScalar: 1.0>, <pyarrow.DoubleScalar: 0.0>]
    """

    search: Any
    queries: Any
    qrels: Any = None
    where: str | None = param(None, kind="str", nullable=True, doc="A predicate over ``memories`` for all queries.")
    as_of: AsOf = param(  # noqa: RUF009  # it declares a field
        None,
        kind="moment",
        nullable=True,
        doc="The moment for queries without a day of their own; None is now. What was created later is hidden where it"
        " is given, as in `Retriever.search`.",
    )
    user_id: str | None = param(
        None,
        kind="str",
        nullable=True,
        doc="Who asks the queries that have no user of their own, as in `Retriever.search`. It changes what they see,"
        " never the unit of analysis.",
    )
    group: str | None = param(
        None,
        kind="str",
        nullable=True,
        doc="The column of queries that defines the units of analysis. None is user_id or group, whichever has fewer"
        " values; without either, each query is its own unit.",
    )
    mean_of: str | None = param(
        None,
        kind="str",
        choices=("queries", "units"),
        nullable=True,
        doc="What the mean is over. None is units where one unit has more than a quarter of the queries, else queries.",
    )
    # As the pool of each arm: beyond it a search has no order to measure.
    depth: int = param(100, low=1, doc="How many hits a metric without @k looks at.")
    unjudged: str = param(
        "raise",
        choices=("raise", "apart"),
        doc="Whether a query without any judgement is an error, or counts as one without a relevant memory.",
    )
    random_state: int = param(
        0, low=0, doc="For what is drawn: sign flips behind intervals and tests, folds, settings, a holdout."
    )

    def __post_init__(self) -> None:
        for name, declared in SHARED.items():
            declared.check(getattr(self, name), "Task")

    def read(self) -> CheckedTask:
        """The labels, read and checked."""
        return CheckedTask.read(self)

    def __repr__(self) -> str:
        changed = (f", {n}={v!r}" for n, p in SHARED.items() if (v := getattr(self, n)) != p.default)
        return f"Task({type(self.search).__name__}{''.join(changed)})"


# The type checker lets no method be replaced; what the dataclass made is wrapped, so that old names are refused.
Task.__init__ = current_names(Task.__init__)  # type: ignore[method-assign]
SHARED = {
    each.name: replace(each.metadata["param"], name=each.name) for each in fields(Task) if "param" in each.metadata
}
"""The parameters that `evaluate`, `compare`, `sweep` and `tune` share, by name."""


def over_task(function: F) -> F:
    """Let a function of a search and its labels take a `Task` in their place.

    Its ``**shared`` are the parameters of `Task`: they stand in its signature, and in its docstring below ``**shared``.
    """
    own = inspect.signature(function).parameters
    named = [name for name, each in own.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    beside_task = [name for name in named if name not in ("queries", "qrels")]

    @functools.wraps(function)
    def asked(*positional: Any, **keywords: Any) -> Any:
        if positional and isinstance(positional[0], Task):
            if len(positional) > len(beside_task):
                raise ParameterError(f"{function.__name__}: expected a Task in place of search, queries and qrels.")
            keywords = dict(zip(beside_task, positional, strict=False)) | keywords
            positional = ()
        return function(*positional, **keywords)

    shown = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=Task.__annotations__[name]
        )
        for name, each in SHARED.items()
    ]
    kept = [each for each in own.values() if each.kind is not each.VAR_KEYWORD]
    asked.__signature__ = inspect.signature(function).replace(parameters=[*kept, *shown])  # type: ignore[attr-defined]
    asked.__doc__ = (function.__doc__ or "").replace(
        "    **shared\n", textwrap.indent(listed(SHARED.values()), "    ") + "\n"
    )
    return cast(F, asked)


def task_of(owner: Callable[..., Any], search: Any, queries: Any, qrels: Any, shared: Mapping[str, Any]) -> Task:
    """The task that was given, with what is given beside it; or one made of what was given.

    Raises
    ------
    ParameterError
        For a keyword that the function `owner` does not have, and labels beside a task.
    """
    for name in shared:
        if name not in SHARED:
            known = inspect.signature(owner).parameters
            raise ParameterError(f"{owner.__name__}: no parameter {name!r}.{hint_of(name, known)}")
    for name, value in shared.items():
        SHARED[name].check(value, owner.__name__)
    if not isinstance(search, Task):
        if queries is None:
            raise ParameterError(f"{owner.__name__}: expected queries, or a Task in place of the search. Got neither.")
        return Task(search, queries, qrels, **shared)
    if queries is not None or qrels is not None:
        raise ParameterError(f"{owner.__name__}: a Task has queries and qrels of its own. Got others beside it.")
    return replace(search, **shared)


@dataclass(frozen=True)
class CheckedTask:
    """The queries of a `Task`, read and checked, with their units of analysis and their moment.

    Attributes
    ----------
    queries, qrels : pa.Table
    labels : Labels
    moment : Moment
        For queries without a day of their own.
    user_id : str or None
        Who asks the queries without a user of their own.
    unit : ndarray of int, shape (n_queries,)
        The unit of analysis of each query.
    unit_name : str
        The column that defines the units; query_id where each query is its own unit.
    per_query : bool
        Whether means are over queries, rather than over units.
    """

    queries: pa.Table
    qrels: pa.Table
    labels: Labels
    moment: Moment
    unit: Ints
    unit_name: str
    per_query: bool
    user_id: str | None = None

    @classmethod
    def read(cls, task: Task) -> Self:
        """Read and check; errors are those of `evaluate`."""
        check_user(task.user_id, "evaluate")
        queries, qrels, moment = read_queries(task.queries), read_qrels(task.qrels), Moment.from_as_of(task.as_of)
        _check_judged(queries, qrels, task.unjudged)
        labels = Labels.from_tables(queries, qrels, moment)
        if not labels.n_relevant.any():
            raise ParameterError("qrels: expected a relevant memory for some of the queries. Got none.")
        name, unit = _units(queries, task.group)
        per_query = is_per_query(task.mean_of, unit, name, "evaluate")
        return cls(queries, qrels, labels, moment, unit, name, per_query, task.user_id)

    def labelled(self, where: str | None) -> LabelledQueries:
        """These queries as they are put to a search."""
        return LabelledQueries(self.queries, self.qrels, self.moment, where, self.user_id)

    def run_of(self, search: Any, where: str | None) -> Pools | Run:
        """These queries put to a search, or looked up in a run; raises as `check_known`."""
        self.check_known(search)
        return run_of(search, self.labelled(where))

    def pools(self, search: Any, where: str | None) -> Pools:
        """These queries put to one index over all memories of a search, to be ranked under many settings."""
        self.check_known(search)
        return Pools(search.over_all(), self.labelled(where))

    def check_known(self, search: Any) -> None:
        """Raise where a memory was judged that the corpus, or that of a fitted search, does not hold."""
        corpus = search if isinstance(search, Corpus) else getattr(search, "corpus_", None)
        if corpus is None:
            return
        memory_ids = corpus.memories["memory_id"]
        judged = self.qrels.filter(pc.is_in(self.qrels["query_id"], value_set=self.labels.queries))["memory_id"]
        if unknown := pc.unique(judged.filter(pc.invert(pc.is_in(judged, value_set=memory_ids)))).to_pylist():
            shown, hint = some_of([*map(repr, unknown)]), did_you_mean(unknown[0], memory_ids.to_pylist())
            raise ParameterError(
                f"qrels: expected memories of this corpus. Got {shown}: they can never be found.{hint}"
            )

    def units(self, scores: Floats, per_query: bool | None = None) -> Units:
        """The units of the mean of `scores`, without the queries that have no score."""
        has = ~np.isnan(scores)
        return Units.from_scores(scores[has], self.unit[has], self.per_query if per_query is None else per_query)

    @property
    def unit_names(self) -> pa.ChunkedArray:
        """The unit of each query; its own id where it has none."""
        return pc.coalesce(pc.cast(self.queries[self.unit_name], pa.string()), self.queries["query_id"])

    @property
    def estimate(self) -> str:
        return "per query" if self.per_query else f"per {self.unit_name}"


def is_per_query(mean_of: str | None, unit: Ints, unit_name: str, owner: str) -> bool:
    """Whether means are over queries. Where `mean_of` is None they are, unless one unit has over a quarter of them."""
    if mean_of is not None:
        check_choice("mean_of", mean_of, ("queries", "units"), owner)
    if unit_name == "query_id":
        return True
    return mean_of == "queries" if mean_of else bool(np.bincount(unit).max(initial=0) <= _LARGEST * len(unit))


def _check_judged(queries: pa.Table, qrels: pa.Table, unjudged: str) -> None:
    check_choice("unjudged", unjudged, ("raise", "apart"), "evaluate")
    missing = queries["query_id"].filter(pc.invert(pc.is_in(queries["query_id"], value_set=qrels["query_id"])))
    if len(missing) and (unjudged == "raise" or len(missing) == queries.num_rows):
        raise ParameterError(
            f"qrels: expected a judgement for each query. Got none for {some_of([*map(repr, missing.to_pylist())])} of"
            f" {queries.num_rows} queries; unjudged='apart' (--apart) counts them apart, if that is meant."
        )


def _units(queries: pa.Table, group: str | None) -> tuple[str, Ints]:
    """The column that defines the units, and the unit of each query; a query without a value is its own unit.

    Of user_id and group the one with fewer values counts, as fewer units claim less.
    """
    if group is not None and group not in queries.column_names:
        hint = did_you_mean(group, queries.column_names)
        raise ParameterError(f"evaluate: 'group' must be a column of queries. Got {group!r}.{hint}")
    names = [group] if group is not None else ["user_id", "group"]
    units = [(name, _codes(queries[name])) for name in names if group or queries[name].null_count < queries.num_rows]
    by_query = ("query_id", np.arange(queries.num_rows))
    return min(units, key=lambda unit: int(unit[1].max()), default=by_query)


def _codes(column: pa.ChunkedArray) -> Ints:
    """A number from 0 for each value; every null gets a number of its own."""
    codes: dict[Any, int] = {}
    rows = enumerate(column.to_pylist())
    return np.array(
        [codes.setdefault((value is None, row if value is None else value), len(codes)) for row, value in rows]
    )


@dataclass(frozen=True, repr=False, kw_only=True)
class Evaluation(Result):
    """The result of `evaluate`.

    Attributes
    ----------
    table : pa.Table
        A row for each metric: metric; value; low and high, its 95 % interval, null below 6 units; estimate (what the
        mean is over); per_query and per_unit, both means; judged, the share of judged hits; unit; n_units; n_queries,
        the queries that count; n_no_relevant, the queries without a relevant memory, which do not; n_with_hits.
    per_query : pa.Table
        A row for each query: query_id, unit, n_relevant, n_hits, and each metric, null where it is undefined.
    hits : pa.Table
        query_id, rank, memory_id, score; `labels.write` makes a run of it.
    stages : pa.Table
        With ``stages=True``, what became of the relevant memories: disposition (as in `Retriever.trace`; not_found
        where no arm retrieved it), n, share, n_queries.
    idle : tuple of str
        A sentence on each parameter that somebody gave and that acts on nothing here.
    """

    table: pa.Table
    per_query: pa.Table
    hits: pa.Table = field(compare=False)
    stages: pa.Table = field(default_factory=STAGES.empty_table, compare=False)
    idle: tuple[str, ...] = ()

    def judged_hits(self, qrels: Any) -> pd.DataFrame:
        """The hits with query_id, memory_id, score and is_relevant, by the judgements `qrels`."""
        right = read_qrels(qrels)
        right = right.filter(pc.greater(right["relevance"], 0)).select(["query_id", "memory_id"]).to_pandas()
        hits = self.hits.select(["query_id", "memory_id", "score"]).to_pandas()
        hits = hits.merge(right.assign(is_relevant=True), how="left", on=["query_id", "memory_id"])
        judged: pd.DataFrame = hits.assign(is_relevant=hits["is_relevant"].notna())
        return judged

    @property
    def pictures(self) -> tuple[str, ...]:
        """As `Result.pictures`."""
        return ("stages",) if self.stages.num_rows else ()

    def __str__(self) -> str:
        return " ".join([f"{self._sentence()}.", *self.idle]) if self.idle else self._sentence()

    def _sentence(self) -> str:
        first = self.table.slice(0, 1).to_pylist()[0]
        over = mean_over(first, first["estimate"] == "per query")
        ends = (
            f"there is no interval ({too_few(first['n_units'], first['unit'])})"
            if first["low"] is None
            else f"its 95 % interval is {first['low']:.3f} to {first['high']:.3f}"
        )
        n_left = first["n_no_relevant"]
        verbs = ("has", "does") if n_left == 1 else ("have", "do")
        left = f"; {n_left:,} more {verbs[0]} no relevant memory and {verbs[1]} not count" if n_left else ""
        return f"{first['metric']} is {first['value']:.3f}, {over}; {ends}{left}"

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        above = super()._sheets(rows, show_secrets)
        if not self.stages.num_rows:
            return above
        return (
            *above,
            replace(sheet_of(self.stages, rows, show_secrets), heading="What became of the relevant memories"),
        )


@over_task
def evaluate(
    search: Any,
    queries: Any = None,
    qrels: Any = None,
    metrics: str | Sequence[str] = METRICS,
    *,
    stages: bool = False,
    **shared: Any,
) -> Evaluation:
    """Measure how well a search answers labelled queries.

    A query with a user sees that user's memories and memories without a user. A query with a day sees no memory created
    later. Intervals are over users, or over whatever `group` names: the queries of one user resemble each other, so
    that an interval over queries would be too narrow.

    Parameters
    ----------
    search : Retriever, run, or Task
        A `Task` has queries and qrels of its own. A run is a table, a data frame or a file of query_id, memory_id and
        rank or score, made by any search.
    queries : table, data frame or path
        See `read_queries`.
    qrels : table, data frame or path
        See `read_qrels`. A memory that is superseded at the query's moment, or not yet true, is not relevant.
    metrics : str or sequence of str
        ndcg, recall, precision, mrr, map, hit (whether any hit is relevant), judged (share of judged hits), stale
        (share of superseded hits), each with @k or over all hits. Gains are linear. A hit with near-duplicates
        collapsed under it (`fold`) has the highest relevance among them.
    stages : bool
        Whether to trace what became of the relevant memories, within the largest k of the metrics.
    **shared

    Returns
    -------
    Evaluation
        ``.table`` with a row for each metric, ``.per_query``, ``.hits``, ``.stages``.

    Raises
    ------
    ParameterError
        For invalid labels (see `read_qrels`), judged memories that the corpus lacks, or no relevant memory at all.
    MemkitError
        Where an arm of the search did not run, or found nothing for any query.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> found = evaluate(mk.Retriever(encoder=None).fit(corpus), queries, qrels, "mrr")
    >>> found.table.select(["metric", "value", "unit", "n_queries"]).to_pylist()
    [{'metric': 'mrr', 'value': 1.0, 'unit': 'query_id', 'n_queries': 1}]
    """
    wanted = parse_metrics(metrics)
    task = task_of(evaluate, search, queries, qrels, shared)
    checked, depth = task.read(), deepest(wanted, task.depth)
    answers = checked.run_of(task.search, task.where)
    hits = answers.hits(depth)
    run = Judged.from_hits(hits, checked.labels, depth)
    scores = {metric: metric(run) for metric in wanted}
    rows = [_row(checked, run, metric, scores[metric], task.random_state) for metric in wanted]
    per_query = pa.table(
        {
            "query_id": checked.labels.queries,
            "text": checked.queries["text"],
            "unit": checked.unit_names,
            "n_relevant": checked.labels.n_relevant,
            "n_hits": run.filled.sum(axis=1),
            **{metric.name: nullable(values) for metric, values in scores.items()},
        }
    )
    per_query = describe(per_query, memkit="per_query")
    idle = tuple(idle_notes_of(task.search))
    note = " ".join(filter(None, [known_item_note(checked.queries), *idle]))
    about = {"note": note, "as_of": checked.moment} | revision_of(task.search)
    table = describe(pa.Table.from_pylist(rows, schema=_TABLE), memkit="evaluate", **about)
    lost = _stages(answers, checked, wanted, task.depth) if stages else STAGES.empty_table()
    return Evaluation(table=table, per_query=per_query, hits=hits, stages=lost, idle=idle)


def _stages(answers: Pools | Run, task: CheckedTask, metrics: Sequence[Metric], depth: int) -> pa.Table:
    if isinstance(answers, Run):
        raise ParameterError("evaluate: 'stages' needs a Retriever. Got a run, which does not say how it was made.")
    k = max((metric.k for metric in metrics if metric.k is not None), default=depth)
    return stages_of(answers.batches, task.labels, k)


def deepest(metrics: Sequence[Metric], depth: int) -> int:
    """How many hits the metrics look at."""
    return max(metric.k or depth for metric in metrics)


def known_mean(values: Floats) -> float | None:
    """The mean of what is no NaN; None where nothing is."""
    return None if np.isnan(values).all() else float(np.nanmean(values))


def nullable(values: Floats) -> pa.Array:
    """NaN as null."""
    return pa.array(values, mask=np.isnan(values))


_TABLE = result_schema(
    (pa.string(), "metric"),
    (pa.float64(), "value low high"),
    (pa.string(), "estimate"),
    (pa.float64(), "per_query per_unit judged"),
    (pa.string(), "unit"),
    (pa.int64(), "n_units n_queries n_no_relevant n_with_hits"),
)


def _row(task: CheckedTask, run: Judged, metric: Metric, scores: Floats, seed: int) -> dict[str, Any]:
    units = task.units(scores)
    # Below six units there is none: see `FEWEST`.
    low, high = interval(units, 0.95, seed) or (None, None)
    return {
        "metric": metric.name,
        "value": units.mean if len(units) else None,
        "low": None if low is None else max(low, 0.0),
        "high": None if high is None else min(high, 1.0),
        "estimate": task.estimate,
        "per_query": task.units(scores, True).mean if len(units) else None,
        "per_unit": task.units(scores, False).mean if len(units) else None,
        "judged": known_mean(Metric("judged", metric.k)(run)) if metric.kind not in OF_HITS else None,
        "unit": task.unit_name,
        "n_units": len(units),
        "n_queries": units.n_queries,
        "n_no_relevant": int((task.labels.n_relevant == 0).sum()),
        "n_with_hits": int(run.filled.any(axis=1).sum()),
    }


def dispositions_of(batches: Sequence[Batch], labels: Labels, k: int) -> pd.DataFrame:
    """The disposition of each relevant memory: query_id, memory_id, disposition, and rank where it has one.

    A memory that no arm found, even without filters and within twice the pool, is ``not_found``.
    """
    traced = [
        batch.search.trace(batch.questions, k=k, **batch.scope)
        .select(["query_id", "memory_id", "disposition", "rank"])
        .replace_schema_metadata(None)
        for batch in batches
    ]
    trace = pa.concat_tables(traced).to_pandas()
    trace = trace.assign(place=trace["disposition"].map(_place_of)).sort_values("place", kind="stable")
    best = trace.drop_duplicates(["query_id", "memory_id"])  # the chunk of a memory that came furthest counts
    dispositions: pd.DataFrame = labels.relevant().to_pandas().merge(best, how="left", on=["query_id", "memory_id"])
    return dispositions.drop(columns="place").fillna({"disposition": NOT_FOUND})


def stages_of(batches: Sequence[Batch], labels: Labels, k: int) -> pa.Table:
    """`dispositions_of` counted: a row a disposition, with how many, their share, and of how many queries."""
    dispositions = dispositions_of(batches, labels, k)
    counted = dispositions.groupby("disposition")["query_id"].agg(["size", "nunique"])
    rows = [
        {"disposition": name, "n": int(size), "share": size / len(dispositions), "n_queries": int(n_queries)}
        for name, (size, n_queries) in sorted(counted.iterrows(), key=lambda item: _place_of(str(item[0])))
    ]
    return describe(pa.Table.from_pylist(rows, schema=STAGES), memkit="stages")
