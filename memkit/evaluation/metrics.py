"""Labelled queries put to a search, a batch for each user and moment, so that each sees only what it may; and metrics
of their ranked hits against judgements, for whole batches: arrays of queries × places.

Gains are linear, places are discounted by log2(rank + 1), and the ideal ranking is that of the labels, not of what was
found: the same numbers as trec_eval's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.parallel import bar
from memkit.base.params import AsOf, Moment
from memkit.errors import MemkitError, ParameterError, did_you_mean
from memkit.evaluation.known_items import hidden
from memkit.evaluation.labels import read_run
from memkit.schemas import Floats, Ints, Mask, tuples_of, with_column
from memkit.search.ask import QuerySettings, Settings, check_user, scoping
from memkit.search.fitted.index import MemoryIndex
from memkit.search.question import Question
from memkit.search.show import bare_hits, idle_notes
from memkit.search.state import Candidates, Pooled, merge
from memkit.search.steps.recall import ARMS, OF_WORDS, STRICT, asking, depth_of, is_strict
from memkit.search.steps.scope import Scope


@dataclass(frozen=True)
class Labels:
    """Judgements as valid at each query's moment, sorted by query and memory.

    Attributes
    ----------
    queries : pa.Array
        Ids, in the order of the queries.
    memories : pa.Array
        Ids that were judged for any query; a key is query × len(memories) + memory.
    key : ndarray of int
    gain : ndarray of float
        0 for what is not relevant, not yet true or superseded.
    stale : ndarray of bool
        Superseded at the query's moment.
    """

    queries: pa.Array
    memories: pa.Array
    key: Ints
    gain: Floats
    stale: Mask

    @classmethod
    def from_tables(cls, queries: pa.Table, qrels: pa.Table, as_of: AsOf) -> Self:
        """From tables of `read_queries` and `read_qrels`; a query without a day of its own is asked on `as_of`."""
        ids = pa.array(queries["query_id"].to_pylist(), pa.string())
        query_of_row = pc.index_in(qrels["query_id"], value_set=ids)
        qrels, query = qrels.filter(query_of_row.is_valid()), query_of_row.drop_null().to_numpy().astype(np.int64)
        memories = pc.unique(qrels["memory_id"])
        key = query * len(memories) + pc.index_in(qrels["memory_id"], value_set=memories).to_numpy()
        last_seen = {
            day: Moment.from_cell(day).last_visible for day in pc.unique(queries["as_of"].drop_null()).to_pylist()
        }
        last = Moment.from_as_of(as_of).last_visible
        # Worked out once for each day, as many queries share one.
        days = [last_seen.get(day, last) for day in queries["as_of"].to_pylist()]
        moment_of_query = pa.array(days, queries["as_of"].type).take(pa.array(query))
        stale = pc.fill_null(pc.less_equal(qrels["valid_to"], moment_of_query), False).to_numpy()
        later = pc.fill_null(pc.greater(qrels["valid_from"], moment_of_query), False).to_numpy()
        gain = np.where(stale | later, 0.0, np.maximum(qrels["relevance"].to_numpy(), 0.0))
        order = np.argsort(key)
        return cls(ids, memories, key[order], gain[order], stale[order])

    @cached_property
    def n_relevant(self) -> Ints:
        """How many memories are relevant, by query."""
        right = self.key[self.gain > 0] // len(self.memories)
        return np.bincount(right, minlength=len(self.queries)).astype(np.int64)

    def relevant(self) -> pa.Table:
        """The memories relevant to each query: query_id, memory_id."""
        query, memory = np.divmod(self.key[self.gain > 0], len(self.memories))
        pairs = self.queries.take(pa.array(query)), self.memories.take(pa.array(memory))
        return pa.table(dict(zip(("query_id", "memory_id"), pairs, strict=True)))

    def ideal(self, k: int) -> Floats:
        """The discounted gain of the ideal first k, by query; cached."""
        if k not in self._ideals:
            query = self.key // len(self.memories)
            order = np.lexsort((-self.gain, query))
            starts = np.searchsorted(query, np.arange(len(self.queries)))
            place = np.arange(len(order)) - starts[query]
            gain = np.where(place < k, self.gain[order] / np.log2(place + 2), 0.0)
            self._ideals[k] = np.bincount(query, gain, len(self.queries)).astype(np.float64)
        return self._ideals[k]

    @cached_property
    def _ideals(self) -> dict[int, Floats]:
        return {}

    def codes(self, memory_ids: pa.Array) -> Ints:
        """The positions of memories in `memories`, -1 for unjudged ones."""
        codes: Ints = pc.fill_null(pc.index_in(memory_ids, value_set=self.memories), -1).to_numpy().astype(np.int64)
        return codes

    def look_up(self, query: Ints, memory: Ints) -> Ints:
        """The position of each pair's judgement, -1 where there is none."""
        key = query * len(self.memories) + memory
        position = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where((memory >= 0) & (self.key[position] == key), position, -1)


@dataclass(frozen=True)
class Judged:
    """Hits against labels, queries × ranks.

    Attributes
    ----------
    n_relevant : ndarray of int
        How many memories are relevant, by row.
    ideal : callable
        The discounted gain of the ideal first k, by row.
    gain : ndarray of float
        The highest of the hit and of the near-duplicates collapsed under it; a memory counts at its best rank.
    covered : ndarray of int
        How many relevant memories a rank brings, those collapsed under the hit included.
    judged, stale, filled : ndarray of bool
        Whether the hit or one collapsed under it was judged; whether the hit is superseded; whether there is a hit.
    """

    n_relevant: Ints
    ideal: Callable[[int], Floats]
    gain: Floats
    covered: Ints
    judged: Mask
    stale: Mask
    filled: Mask

    @classmethod
    def from_hits(cls, hits: pa.Table, labels: Labels, depth: int) -> Self:
        """The first `depth` hits (query_id, rank, memory_id; alike) of each query that the labels have."""
        hits = hits.filter(pc.is_in(hits["query_id"], value_set=labels.queries))
        query = pc.index_in(hits["query_id"], value_set=labels.queries).to_numpy().astype(np.int64)
        order = np.lexsort((hits["rank"].to_numpy(), query))
        hits, query = hits.take(pa.array(order)), query[order]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        within = place < depth
        hits, query, place = hits.filter(pa.array(within)), query[within], place[within]
        shape = (len(labels.queries), depth)
        gain, covered = np.zeros(shape), np.zeros(shape, np.int64)
        judged, stale, filled = np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(shape, bool)
        filled[query, place] = True
        hit, ids, is_hit = _with_folded(hits)
        judgement = labels.look_up(query[hit], labels.codes(ids))
        is_judged = judgement >= 0
        hit, is_hit, judgement = hit[is_judged], is_hit[is_judged], judgement[is_judged]
        judged[query[hit], place[hit]] = True
        stale[query[hit[is_hit]], place[hit[is_hit]]] = labels.stale[judgement[is_hit]]
        _, first = np.unique(judgement, return_index=True)  # a memory of several chunks counts at its best rank
        hit, gain_of_hit = hit[first], labels.gain[judgement[first]]
        np.maximum.at(gain, (query[hit], place[hit]), gain_of_hit)
        np.add.at(covered, (query[hit], place[hit]), gain_of_hit > 0)
        return cls(labels.n_relevant, labels.ideal, gain, covered, judged, stale, filled)


def _with_folded(hits: pa.Table) -> tuple[Ints, pa.Array, Mask]:
    """Hits and the memories collapsed under them, by rank: which hit, which memory, whether it is the hit itself."""
    memory_ids = hits["memory_id"].combine_chunks()
    hit = np.arange(len(memory_ids))
    if "alike" not in hits.column_names:
        return hit, memory_ids, np.ones(len(memory_ids), bool)
    folded = hits["alike"].combine_chunks()
    under = pc.list_parent_indices(folded).to_numpy().astype(np.int64)
    # The hits come first, and the sort is stable, so each stands before what is folded under it.
    both = np.concatenate([hit, under])
    order = np.argsort(both, kind="stable")
    ids = pa.concat_arrays([memory_ids, pc.list_flatten(folded).cast(memory_ids.type)]).take(pa.array(order))
    return both[order], ids, order < len(memory_ids)


def _ndcg(run: Judged, k: int) -> Floats:
    discounted = run.gain[:, :k] / np.log2(np.arange(2, min(k, run.gain.shape[1]) + 2))
    return _over(discounted.sum(axis=1), run.ideal(k))


def _recall(run: Judged, k: int) -> Floats:
    return _over(run.covered[:, :k].sum(axis=1), run.n_relevant)


def _precision(run: Judged, k: int) -> Floats:
    # Over k and not over the hits: as trec_eval, where places that stay empty count as wrong.
    return np.where(run.n_relevant > 0, (run.gain[:, :k] > 0).sum(axis=1) / k, np.nan)


def _mrr(run: Judged, k: int) -> Floats:
    right = run.gain[:, :k] > 0
    first = np.where(right.any(axis=1), 1 / (right.argmax(axis=1) + 1), 0.0)
    return np.where(run.n_relevant > 0, first, np.nan)


def _map(run: Judged, k: int) -> Floats:
    right = run.gain[:, :k] > 0
    precision = right.cumsum(axis=1) / np.arange(1, right.shape[1] + 1)
    return _over((precision * right).sum(axis=1), run.n_relevant)


def _hit(run: Judged, k: int) -> Floats:
    return np.where(run.n_relevant > 0, (run.gain[:, :k] > 0).any(axis=1), np.nan)


def _judged(run: Judged, k: int) -> Floats:
    return _over(run.judged[:, :k].sum(axis=1), run.filled[:, :k].sum(axis=1))


def _stale(run: Judged, k: int) -> Floats:
    return _over(run.stale[:, :k].sum(axis=1), run.filled[:, :k].sum(axis=1))


def _over(numerator: Floats | Ints, denominator: Floats | Ints) -> Floats:
    """The ratio, NaN where the denominator is 0."""
    ratio: Floats = np.divide(numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > 0)
    return ratio


_METRICS: dict[str, Callable[[Judged, int], Floats]] = {
    "ndcg": _ndcg,
    "recall": _recall,
    "precision": _precision,
    "mrr": _mrr,
    "map": _map,
    "hit": _hit,
    "judged": _judged,
    "stale": _stale,
}
OF_HITS = ("judged", "stale")
"""Metrics of the hits alone, which need no relevant memory."""
LESS_IS_BETTER = ("stale",)
_SPELLED = re.compile(r"([a-z_]+)(?:@(\d+))?")


@dataclass(frozen=True)
class Metric:
    """One of `_METRICS`, of the first k hits or, where k is None, of all.

    Examples
    --------
    >>> Metric.parse("nDCG@10")
    Metric(kind='ndcg', k=10)
    >>> Metric.parse("ndgc@10")
    Traceback (most recent call last):
    memkit.errors.ParameterError: metrics: expected ndcg, recall, ... or stale, with @k or without. Got 'ndgc@10'. ...
    """

    kind: str
    k: int | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """A metric by its name in papers, in any case.

        Raises
        ------
        ParameterError
            For an unknown name, with a suggestion, or a k below 1.
        """
        match = _SPELLED.fullmatch(str(text).strip().lower())
        kind = match[1] if match else str(text)
        if match is None or kind not in _METRICS or not int(match[2] or 1):
            raise ParameterError(
                f"metrics: expected {', '.join(list(_METRICS)[:-1])} or stale, with @k or without."
                f" Got {text!r}.{did_you_mean(kind, _METRICS) if kind not in _METRICS else ''}"
            )
        return cls(kind, int(match[2]) if match[2] else None)

    @property
    def name(self) -> str:
        return self.kind if self.k is None else f"{self.kind}@{self.k}"

    @property
    def sign(self) -> int:
        """1 where more is better, −1 where less is."""
        return -1 if self.kind in LESS_IS_BETTER else 1

    def __call__(self, run: Judged) -> Floats:
        """The score of each query; NaN where it has none."""
        return _METRICS[self.kind](run, self.k or run.gain.shape[1])


def parse_metrics(metrics: str | Sequence[str]) -> list[Metric]:
    """Each metric once, in the order given."""
    if not isinstance(metrics, Iterable):
        raise ParameterError(f"metrics: expected names such as 'ndcg@10'. Got {metrics!r:.80}.")
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise ParameterError("metrics: expected at least one, such as 'ndcg@10'. Got none.")
    return list(dict.fromkeys(Metric.parse(text) for text in names))


@dataclass(frozen=True)
class Batch:
    """Queries of one user and one moment, with the scope in which they are asked."""

    search: Any
    rows: pa.Table
    where: str | None
    user_id: str | None
    moment: Moment

    @property
    def questions(self) -> pa.Table:
        return self.rows.select(["query_id", "text", "as_of"])

    @property
    def scope(self) -> dict[str, Any]:
        """The arguments of `Retriever.search` beside the queries and k."""
        return {"where": self.where, "as_of": self.moment, "user_id": self.user_id}

    def only(self, query_ids: Any) -> Self:
        """These queries of the batch."""
        return replace(self, rows=self.rows.filter(pc.is_in(self.rows["query_id"], pa.array(query_ids, pa.string()))))


@dataclass(frozen=True)
class LabelledQueries:
    """Labelled queries, and how they are put to a search.

    Attributes
    ----------
    queries, qrels : pa.Table
        Of `read_queries` and `read_qrels`; the latter may be None unless a field is to be hidden.
    moment : Moment
        For queries without a day of their own.
    where : str or None
        A predicate over ``memories`` for all queries.
    user_id : str or None
        Who asks the queries that have no user of their own.
    """

    queries: pa.Table
    qrels: pa.Table | None
    moment: Moment
    where: str | None = None
    user_id: str | None = None


def batches_of(search: Any, labelled: LabelledQueries) -> list[Batch]:
    """The batches in which queries are put to a Retriever."""
    queries, moment = with_user(labelled.queries, labelled.user_id), labelled.moment
    return [
        Batch(searched, rows, labelled.where, rows["user_id"][0].as_py(), moment_of(rows["as_of"][0].as_py(), moment))
        for searched, part in _by_hidden(_strict(search), queries, labelled.qrels)
        for rows in _batches(part)
    ]


def with_user(queries: pa.Table, user_id: str | None) -> pa.Table:
    """The queries with `user_id` filled in where they have no user; None changes nothing."""
    check_user(user_id, "evaluate")
    return queries if user_id is None else with_column(queries, "user_id", pc.fill_null(queries["user_id"], user_id))


def moment_of(day: datetime | None, moment: Moment) -> Moment:
    """When a labelled query is asked: on its own `day`, else at `moment`."""
    return moment if day is None else Moment.from_cell(day)


def _by_hidden(search: Any, queries: pa.Table, qrels: pa.Table | None) -> Iterator[tuple[Any, pa.Table]]:
    """For each `hidden_field` a search over a corpus without that field, and the queries for it."""
    if "hidden_field" not in queries.column_names:
        yield search, queries
        return
    for column in pc.unique(queries["hidden_field"]).to_pylist():
        chosen = queries["hidden_field"]
        rows = queries.filter(pc.is_null(chosen) if column is None else pc.fill_null(pc.equal(chosen, column), False))
        if column is None:
            yield search, rows
        elif qrels is None:
            raise ParameterError("queries: expected qrels beside a 'hidden_field', to know what to hide. Got none.")
        else:
            right = qrels.filter(
                pc.and_(pc.is_in(qrels["query_id"], rows["query_id"]), pc.greater(qrels["relevance"], 0))
            )
            yield hidden(search, column, right["memory_id"]), rows


def _strict(search: Any) -> Any:
    """The search with all its texts encoded, set to raise where its encoder cannot be reached, whatever it says."""
    if hasattr(search, "encode"):
        search.encode()
    return search.with_params(**STRICT) if hasattr(search, "with_params") and not is_strict(search) else search


_AT_ONCE = 1_000  # a few seconds' work, so that a long one says how far it is


def _batches(queries: pa.Table) -> Iterator[pa.Table]:
    rows: dict[tuple[Any, Any], list[int]] = {}
    for row, key in enumerate(tuples_of(queries, "user_id", "as_of")):
        rows.setdefault(key, []).append(row)
    starts = ((some, start) for some in rows.values() for start in range(0, len(some), _AT_ONCE))
    return (queries.take(pa.array(some[start : start + _AT_ONCE])) for some, start in starts)


def idle_notes_of(search: Any) -> list[str]:
    """A sentence on each parameter that `search` was given and that acts on nothing; none for a run."""
    if not hasattr(search, "ask"):
        return []
    return idle_notes(Settings.from_estimator(search), search._index())


def differing_notes(a: Any, b: Any) -> list[str]:
    """A sentence on each parameter in which two searches differ and that acts on nothing in either."""
    if not (hasattr(a, "ask") and hasattr(b, "ask")):
        return []
    both = [(Settings.from_estimator(search), search._index()) for search in (a, b)]
    names = [
        name for name in QuerySettings.params() if repr(getattr(both[0][0], name)) != repr(getattr(both[1][0], name))
    ]
    return idle_in_all(both, names)


def idle_in_all(settings: Iterable[tuple[Settings, Any]], names: Iterable[str]) -> list[str]:
    """A sentence on each of the parameters `names` that acts on nothing under any of the settings of an index."""
    every = [pair for pair in settings if getattr(pair[1], "is_whole", False)]
    sentences = list[str]()
    for name in names:
        reaches = [found for setting, index in every if (found := setting.reach(name, index)) is not None]
        if reaches and all(found.of and not found.count for found in reaches):
            sentences.append(f"{reaches[0]}.")
    return list(dict.fromkeys(sentences))


def revision_of(search: Any) -> dict[str, str]:
    """The revision of the memories that `search` was fitted on; empty for a run."""
    return dict(getattr(getattr(search, "corpus_", None), "revision", {}))


_Scope = tuple[Any, ...]
"""The values of `scoping`: settings that share them are ranked from the same candidates."""


def run_of(search: Any, labelled: LabelledQueries) -> Pools | Run:
    """Labelled queries put to a search, or looked up in a run.

    Parameters
    ----------
    search : Retriever or what `read_run` takes
        For a run made elsewhere, users, days and `where` are not applied.
    """
    return Pools(search, labelled) if hasattr(search, "ask") else Run(read_run(search), labelled.queries)


def hits_of_both(a: Any, b: Any, labelled: LabelledQueries) -> tuple[Callable[..., pa.Table], Callable[..., pa.Table]]:
    """The hits of two searches or runs, by depth; two settings of one fitted search are asked once."""
    first = run_of(a, labelled)
    if not (isinstance(first, Pools) and first.serves(b)):
        return first.hits, run_of(b, labelled).hits
    first_setting, other = ({name: getattr(search, name) for name in QuerySettings.params()} for search in (a, b))
    first.retrieve((first_setting, other))
    return first.hits, partial(first.hits, setting=other)


@dataclass(frozen=True)
class Run:
    """A run: hits that another program found for labelled queries."""

    run: pa.Table
    queries: pa.Table

    def hits(self, depth: int) -> pa.Table:
        """The first `depth` of each query; raises ParameterError where there are none for any."""
        if not pc.any(pc.is_in(self.run["query_id"], value_set=pc.unique(self.queries["query_id"]))).as_py():
            raise ParameterError("run: expected hits for some of the queries. Got none.")
        return _first(self.run, depth)


def _first(run: pa.Table, depth: int) -> pa.Table:
    """The first `depth` hits of each query of a run, which come by query, then by rank."""
    query = pc.index_in(run["query_id"], value_set=pc.unique(run["query_id"])).to_numpy()
    return run.filter(pa.array(np.arange(len(query)) - np.searchsorted(query, query) < depth))


class PoolPart(NamedTuple):
    """The candidates of the queries put to one index.

    Attributes
    ----------
    number : ndarray of int64
        The position of each query among all labelled queries.
    pooled : Pooled
    """

    number: Ints
    pooled: Pooled


class Pools:
    """The candidates of a search's arms for labelled queries: each scope is asked once, and ranked many times.

    The queries of one user and one moment make a batch. Queries with a `hidden_field` are put to a copy of the index
    in which the memories that answer them lack that field.

    Parameters
    ----------
    search : Retriever
    labelled : LabelledQueries
    """

    def __init__(self, search: Any, labelled: LabelledQueries) -> None:
        self.search, self.queries = search, labelled.queries
        self.batches = batches_of(search, labelled)
        self.index: Any = self.batches[0].search._index()
        self.settings = Settings.from_estimator(self.batches[0].search)
        self._answered: dict[_Scope, tuple[tuple[str, ...], int, list[Question]]] = {}
        self._parts: dict[Any, list[PoolPart]] = {}

    def serves(self, search: Any) -> bool:
        """Whether these candidates also serve `search`, which may differ from this search in its settings alone."""
        if not hasattr(search, "ask") or search._index() is not self.search._index():
            return False
        # Over buckets, or by an approximate index, a smaller pool need not be a prefix of a larger one.
        is_as_deep = depth_of(self.search) == depth_of(search)
        return isinstance(self.index, MemoryIndex) and (is_as_deep or self.index.is_steady)

    def needs(self, setting: Mapping[str, Any]) -> tuple[Settings, dict[str, float], _Scope]:
        """A setting with all parameters, the weights of its arms, and its scope (the values of `scoping`)."""
        full = self.settings.with_params(**{**setting, **STRICT})
        values = [getattr(full, name) for name in scoping()]
        scope = tuple(tuple(value) if isinstance(value, list) else value for value in values)
        return full, self.index.weights(full), scope

    def retrieve(self, settings: Iterable[Mapping[str, Any]]) -> None:
        """Ask all arms that these settings need, once for each scope."""
        arms: dict[_Scope, set[str]] = {}
        depths: dict[_Scope, int] = {}
        for full, weights, scope in map(self.needs, settings):
            arms.setdefault(scope, set()).update(weights)
            depths[scope] = max(depths.get(scope, 0), depth_of(full))
        for scope, wanted in arms.items():
            self.retrieve_for(scope, wanted, depths[scope])

    def retrieve_for(self, scope: _Scope, wanted: Collection[str], depth: int) -> None:
        """Ask the `wanted` arms for so many candidates each, unless that was done before."""
        arms_before, depth_before, _ = self._answered.get(scope, ((), 0, []))
        arms, depth = tuple(arm for arm in ARMS if arm in {*wanted, *arms_before}), max(depth, depth_before)
        if arms == arms_before and depth == depth_before:
            return
        values = dict(zip(scoping(), scope, strict=True))
        earlier = self._earlier_answers(values, arms, depth)
        asked = asking([arm for arm in arms if arm not in earlier], depth)
        answers = []
        for position, batch in enumerate(bar("asking queries", self.batches, leave=False)):
            search = batch.search.with_params(**values, **asked)
            new = search.ask(batch.questions, 1, **batch.scope)
            if earlier:
                joined = _joined(arms, new.retrieved, {arm: earlier[arm][position].retrieved for arm in earlier})
                new = replace(new, retrieved=joined)
            answers.append(_without_masks(new))
        self._answered[scope] = (arms, depth, answers)

    def _earlier_answers(
        self, values: Mapping[str, Any], arms: tuple[str, ...], depth: int
    ) -> dict[str, list[Question]]:
        """Earlier answers of those arms that would be asked the same again; none where all would be."""
        earlier: dict[str, list[Question]] = {}
        for scope, (arms_before, depth_before, answers) in self._answered.items():
            scope_values = dict(zip(scoping(), scope, strict=True))
            if depth_before != depth or dict(scope_values, **OF_WORDS) != dict(values, **OF_WORDS):
                continue
            options_now, options_then = self.settings.with_params(**values), self.settings.with_params(**scope_values)
            for arm in arms:
                if arm in arms_before and ARMS[arm].options(options_now) == ARMS[arm].options(options_then):
                    earlier[arm] = answers
        return {} if len(earlier) == len(arms) else earlier

    def check(self, scope: _Scope, weights: Mapping[str, float]) -> None:
        """Raise where an arm with a weight found nothing for any query: a score of 0 would look like a bad setting."""
        _, _, questions = self._answered[scope]
        for arm, weight in weights.items():
            if not any(
                np.isfinite(question.retrieved.raw[:, question.retrieved.arms.index(arm)]).any()
                for question in questions
            ):
                self._check_arm(arm, weight, dict(zip(scoping(), scope, strict=True)))

    def _check_arm(self, arm: str, weight: float, values: Mapping[str, Any]) -> None:
        """Raise unless the trace shows that the arm has candidates, all of which were filtered."""
        for batch in self.batches:
            search = batch.search.with_params(**values, **asking([arm]))
            traced = search.trace(batch.questions, k=1, **batch.scope)
            if traced[arm].null_count < traced.num_rows:
                return
        raise MemkitError(
            f"the arm '{arm}' has the weight {weight:g} and found nothing for any of {self.queries.num_rows} queries."
            f" Expected an arm that works, or {arm}_weight=0: as it is, the score says nothing about it."
        )

    def hits(self, depth: int, setting: Mapping[str, Any] | None = None, check: bool = True) -> pa.Table:
        """The hits under a setting, the search's own unless given: query_id, rank, memory_id, score and alike.

        Raises
        ------
        MemkitError
            Unless `check` is false: where nothing was found, or nothing by an arm that has a weight.
        """
        full, weights, scope = self.needs(setting or {})
        self.retrieve_for(scope, weights, depth_of(full))
        questions = bar("ranking hits", self._answered[scope][2], leave=False)
        answers = [bare_hits(question.under(full, weights, depth)) for question in questions]
        tables, notes = zip(*answers, strict=True)
        if check:
            if not any(hits.num_rows for hits in tables):
                n = self.queries.num_rows
                message = f"expected hits for some of {n} queries. Got none, which is no score of 0. {notes[0]}"
                raise MemkitError(message.strip())
            self.check(scope, weights)
        return pa.concat_tables(tables)

    def parts(self, scope: _Scope, arms: tuple[str, ...], depth: int) -> list[PoolPart]:
        """The candidates of some arms within a depth, one part for each index; the last answer is cached."""
        key = (scope, arms, depth)
        if key not in self._parts:
            by_index: dict[int, list[int]] = {}
            for position, batch in enumerate(self.batches):
                by_index.setdefault(id(batch.search._index()), []).append(position)
            # Only the last key is cached: settings with the same key come one after the other.
            self._parts = {key: [self._part(scope, arms, depth, positions) for positions in by_index.values()]}
        return self._parts[key]

    def _part(self, scope: _Scope, arms: tuple[str, ...], depth: int, positions: Sequence[int]) -> PoolPart:
        batches, questions = [self.batches[position] for position in positions], self._answered[scope][2]
        place = {name: position for position, name in enumerate(self.queries["query_id"].to_pylist())}
        number = [place[name] for batch in batches for name in batch.rows["query_id"].to_pylist()]
        start = np.cumsum([0, *(batch.rows.num_rows for batch in batches)])
        index = batches[0].search._index()
        parts = [questions[position].retrieved.narrowed(arms, depth, index.rows.crowd) for position in positions]
        candidates = Candidates(
            arms,
            np.concatenate([part.query + first for part, first in zip(parts, start[:-1], strict=True)]),
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.raw for part in parts]),
            np.concatenate([part.rank for part in parts]),
            depth,
            np.concatenate([part.scale[: batch.rows.num_rows] for part, batch in zip(parts, batches, strict=True)]),
        )
        pooled = [questions[position].pooled(part) for position, part in zip(positions, parts, strict=True)]
        moment, until = (np.concatenate([getattr(part, name) for part in pooled]) for name in ("moment", "until"))
        texts, sights = ([value for part in pooled for value in getattr(part, name)] for name in ("texts", "sights"))
        return PoolPart(np.array(number, np.int64), Pooled(index, candidates, texts, moment, until, sights))


def _without_masks(question: Question) -> Question:
    """The question without its scope's masks, which are as long as the index and as many as there are users.

    Where nothing may be found the mask stays, as the note about it is made from it.
    """
    allowed = question.scope.allowed
    if allowed is not None and not allowed.any():
        return question
    return replace(question, scope=Scope(None, None, None, None))


def _joined(arms: tuple[str, ...], new: Candidates, earlier: Mapping[str, Candidates]) -> Candidates:
    """The candidates of arms asked now and of arms asked earlier, merged as if all were asked at once."""
    by_arm = {arm: earlier.get(arm, new) for arm in arms}
    tables, scales = {}, []
    for arm, candidates in by_arm.items():
        column = candidates.arms.index(arm)
        rows = np.flatnonzero(candidates.rank[:, column] > 0)
        tables[arm] = pa.table(
            {"query": candidates.query[rows], "row": candidates.row[rows], "score": candidates.raw[rows, column]}
        )
        scales.append(candidates.scale[:, column])
    n_rows = max((int(candidates.row.max(initial=0)) for candidates in by_arm.values()), default=0) + 1
    return merge(tables, n_rows, new.depth, np.stack(scales, axis=1))
