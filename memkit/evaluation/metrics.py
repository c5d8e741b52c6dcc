"""Metrics of ranked hits against judgements, for whole batches: arrays of queries × places.

Gains are linear, places are discounted by log2(rank + 1), and the ideal ranking is that of the labels, not of what was
found: the same numbers as trec_eval's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Moment
from memkit.errors import ParameterError, did_you_mean
from memkit.schemas import Floats, Ints, Mask


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
            self._ideals[k] = self._ideal(k)
        return self._ideals[k]

    @cached_property
    def _ideals(self) -> dict[int, Floats]:
        return {}

    def _ideal(self, k: int) -> Floats:
        query = self.key // len(self.memories)
        order = np.lexsort((-self.gain, query))
        starts = np.searchsorted(query, np.arange(len(self.queries)))
        place = np.arange(len(order)) - starts[query]
        gain = np.where(place < k, self.gain[order] / np.log2(place + 2), 0.0)
        return np.bincount(query, gain, len(self.queries)).astype(np.float64)

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
