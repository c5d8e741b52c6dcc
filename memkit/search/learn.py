"""The weights of the arms, learned from judged queries and checked on queries that they were not learned from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import ParameterError, QueryError
from memkit.params import AsOf
from memkit.schemas import Floats, Ints
from memkit.search.fitted.arms import KINDS
from memkit.search.fitted.index import SearchIndex
from memkit.search.question import Queries, Question
from memkit.search.retriever import Retriever

_METRIC = re.compile(r"ndcg@([1-9]\d*)")


@dataclass(frozen=True)
class LearnedWeight:
    """What `learn_weight` found.

    Attributes
    ----------
    weights : dict of str to float
        By arm, best on all judged queries; the sum is 1.
    table : pa.Table
        A weight an arm (float64, as ``vector_weight``) and the mean of the metric over all judged queries (float64).
    held_out : float
        Mean over queries that took no part in choosing their weight: what to expect of new queries.
    before : float
        Mean at the weights that the Retriever came with.
    n_queries : int
        Judged queries used; those without a positive judgement are left out.
    """

    weights: dict[str, float]
    table: pa.Table
    held_out: float
    before: float
    n_queries: int

    def apply(self, search: Retriever) -> Retriever:
        """A copy of `search` with the learned weights, sharing everything fitted."""
        return search.with_params(**_as_params(self.weights), fusion="weighted")

    @property
    def vector_weight(self) -> float:
        """The vector arm's; 0 where there is none."""
        return self.weights.get("vector", 0.0)


def learn_weight(
    search: Retriever,
    queries: Any,
    qrels: pa.Table,
    metric: str = "ndcg@10",
    *,
    steps: int = 10,
    cv: int = 5,
    seed: int = 0,
    where: str | None = None,
    as_of: AsOf = None,
) -> LearnedWeight:
    """Try the weights of the arms from 0 to 1, in steps, on one candidate table.

    Parameters
    ----------
    search : Retriever
        Fitted, with two arms or three (letters take no part where `gram_weight` is 0); its other parameters stay.
    queries : see `Retriever.search`
    qrels : pa.Table
        query_id, memory_id, relevance (above 0 is relevant; the gain is the number itself).
    metric : str
        'ndcg@K'.
    steps : int
        Weights are 0, 1/steps, 2/steps, …, 1, all that add up to 1: 66 settings of three arms by 10 steps.
    cv : int
        Parts that the queries are cut into; each is scored at the weight that is best on the others.
    seed : int
        For the cutting.
    where, as_of
        As for `Retriever.search`.

    Returns
    -------
    LearnedWeight
        The best weight, the table of all, and what the choice is worth on queries that it did not see.

    Raises
    ------
    ParameterError
        For a metric of another name, a single arm, or fewer judged queries than parts.
    QueryError
        Where `qrels` lacks a column.
    EncoderUnavailableError
        Where the encoder cannot be reached, whatever `on_encoder_error` says.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> search = mk.Retriever(encoder="hash", decay="none").fit(corpus)
    >>> queries = pa.table({"query_id": ["1", "2"], "text": ["пулы", "чаи"]})
    >>> qrels = pa.table({"query_id": ["1", "2"], "memory_id": ["a", "b"], "relevance": [1, 1]})
    >>> learn_weight(search, queries, qrels, steps=2, cv=2).table.column_names[0]
    'vector_weight'
    """
    depth = _depth(metric)
    search = search.with_params(on_encoder_error="raise")  # half the queries by words would be no measurement
    part = ["bm25", "vector"] if search.gram_weight == 0 else ["bm25", "vector", "gram"]
    question = search.with_params(**_as_params(dict.fromkeys(part, 1.0)), fusion="weighted").ask(
        queries, depth, where, as_of
    )
    arms = [arm for arm in ("vector", "bm25", "gram") if arm in question.weights]
    if len(arms) < 2:
        raise ParameterError(f"learn_weight: expected a Retriever with two arms. It has {', '.join(arms)}.")
    judged = _Judgements.read(qrels, question.queries, question.index)
    if not judged.used.size:
        raise ParameterError("learn_weight: expected a query with a relevant memory in qrels. Got none.")

    grid = _grid(len(arms), steps)
    settings = [dict(zip(arms, row, strict=True)) for row in grid.tolist()]
    scores = np.stack([judged.ndcg(question.but(**_as_params(weights))) for weights in settings])
    own = {name: getattr(search, name) for name in ("vector_weight", "bm25_weight", "gram_weight", "fusion")}
    before = judged.ndcg(question.but(**own))

    means = scores.mean(axis=1)
    table = pa.table({**{f"{arm}_weight": grid[:, at] for at, arm in enumerate(arms)}, metric: means})
    held_out = _held_out(scores, grid, cv, seed)
    return LearnedWeight(settings[_best(means, grid)], table, held_out, float(before.mean()), judged.used.size)


def _as_params(weights: Mapping[str, float]) -> dict[str, float]:
    return {f"{arm}_weight": weights.get(arm, 0.0) for arm in KINDS}


def _grid(arms: int, steps: int) -> Floats:
    """All weights of `arms` in `steps` that add up to 1, the first arm's rising."""
    parts = [cut for cut in product(range(steps + 1), repeat=arms - 1) if sum(cut) <= steps]
    return np.round(np.array([(*cut, steps - sum(cut)) for cut in parts]) / steps, 9)


def _depth(metric: str) -> int:
    match = _METRIC.fullmatch(metric)
    if match is None:
        raise ParameterError(f"learn_weight: 'metric' must be 'ndcg@K', such as 'ndcg@10'. Got {metric!r}.")
    return int(match[1])


def _best(means: Floats, grid: Floats) -> int:
    """The best setting; among equals the one nearest to their middle, which is far from the edges of the plateau."""
    tied = np.flatnonzero(np.round(means, 9) == np.round(means.max(), 9))
    away = np.abs(grid[tied] - grid[tied].mean(axis=0)).sum(axis=1)
    return int(tied[np.round(away, 9).argmin()])


def _held_out(scores: Floats, grid: Floats, cv: int, seed: int) -> float:
    size = scores.shape[1]
    if not 2 <= cv <= size:
        raise ParameterError(f"learn_weight: 'cv' must be in [2, judged queries = {size}]. Got {cv}.")
    part = np.random.default_rng(seed).permutation(np.arange(size) % cv)
    chosen = np.array([_best(scores[:, part != fold].mean(axis=1), grid) for fold in range(cv)])
    return float(scores[chosen[part], np.arange(size)].mean())


@dataclass(frozen=True)
class _Judgements:
    """Gains by (query, memory), sorted by that key."""

    key: Ints
    gain: Floats
    used: Ints  # ordinals of the queries with a positive judgement

    @classmethod
    def read(cls, qrels: pa.Table, queries: Queries, index: SearchIndex) -> _Judgements:
        if missing := {"query_id", "memory_id", "relevance"} - set(qrels.column_names):
            raise QueryError(
                f"qrels: expected columns query_id, memory_id, relevance. Missing: {', '.join(sorted(missing))}."
            )
        query = pc.index_in(pc.cast(qrels["query_id"], pa.string()), value_set=pa.array(queries.ids, pa.string()))
        memory = pc.index_in(pc.cast(qrels["memory_id"], pa.string()), value_set=index.memories["memory_id"])
        gain = qrels["relevance"].to_numpy().astype(np.float64)
        known = (gain > 0) & query.is_valid().to_numpy()
        # A relevant memory that the corpus lacks still counts in the ideal ranking; no hit can match it.
        row = np.where(memory.is_valid().to_numpy(), pc.fill_null(memory, 0).to_numpy(), index.memories.num_rows)[known]
        ordinal = pc.fill_null(query, 0).to_numpy().astype(np.int64)[known]
        key = ordinal * (index.memories.num_rows + 1) + row
        order = np.argsort(key, kind="stable")
        return cls(key[order], gain[known][order], np.unique(ordinal))

    def ndcg(self, question: Question) -> Floats:
        """nDCG of each used query at the question's k, with linear gains."""
        index, shown = question.index, replace(question, depth=question.k).ranked().returned()
        base = index.memories.num_rows + 1
        key = shown.found.query * base + index.rows.memory[shown.found.row]
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        gain = np.where(self.key[at] == key, self.gain[at], 0.0)
        size = int(self.used.max()) + 1
        inside = shown.found.query < size
        dcg = np.bincount(shown.found.query[inside], (gain / np.log2(shown.rank + 1))[inside], minlength=size)
        return dcg[self.used] / self._ideal(base, question.k)

    def _ideal(self, base: int, depth: int) -> Floats:
        query = self.key // base
        order = np.lexsort((-self.gain, query))
        starts = np.searchsorted(query, self.used)
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order))) + 1
        discounted = np.where(rank <= depth, self.gain[order] / np.log2(rank + 1), 0.0)
        return np.add.reduceat(discounted, starts)
