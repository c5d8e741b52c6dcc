"""The weights of the arms, learned from judged queries and checked on queries that they were not learned from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from memkit.errors import ParameterError
from memkit.evaluation.scores.asking import check_fitted
from memkit.evaluation.scores.evaluation import Task, check_seed
from memkit.evaluation.scores.metrics import parse_metrics
from memkit.evaluation.settings.grid import shares
from memkit.evaluation.settings.pools import Pools
from memkit.params import AsOf, check_value
from memkit.schemas import Floats, Ints
from memkit.search.fitted.arms import KINDS
from memkit.search.question import as_queries
from memkit.search.retriever import Retriever

_METRIC = re.compile(r"ndcg@([1-9]\d*)", re.IGNORECASE)


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
    queries, qrels : table, data frame or path
        As for `evaluate`; bare texts have their places as ids. Queries without a relevant memory are left out.
    metric : str
        'ndcg@K'.
    steps : int
        Weights are 0, 1/steps, 2/steps, …, 1, all that add up to 1: 66 settings of three arms by 10 steps.
    cv : int
        Parts that the queries are cut into, a user's together; each is scored at what is best on the others.
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
    if not _METRIC.fullmatch(metric):
        raise ParameterError(f"learn_weight: 'metric' must be 'ndcg@K', such as 'ndcg@10'. Got {metric!r}.")
    check_seed("learn_weight", seed)
    check_value("learn_weight", "steps", steps, "int", low=1)
    check_fitted(search, "learn_weight")
    (wanted,) = parse_metrics(metric)
    task = Task.of(_labelled(queries), qrels, None, "queries", "apart", as_of)
    part = [arm for arm in KINDS if arm != "gram" or search.gram_weight != 0]
    pools = Pools(search.with_params(fusion="weighted"), task, [wanted], wanted.k or 1, where)
    arms = [*pools.index.weights(pools.settings.but(**_as_params(dict.fromkeys(part, 1.0))))]
    if len(arms) < 2:
        raise ParameterError(f"learn_weight: expected a Retriever with two arms. It has {', '.join(arms)}.")
    arms.sort(key=["vector", "bm25", "gram"].index)
    grid = np.round(shares(1 / steps, len(arms)), 9)
    tried = [dict(zip(arms, row, strict=True)) for row in grid.tolist()]
    own = {name: getattr(search, name) for name in (*_as_params({}), "fusion")}
    found, _ = pools.scores([*map(_as_params, tried), own], list(own), None, None)
    used = task.labels.n_relevant > 0
    *scores, before = found[0][:, used]

    means = np.mean(scores, axis=1)
    table = pa.table({**{f"{arm}_weight": grid[:, at] for at, arm in enumerate(arms)}, metric: means})
    held_out = _held_out(np.array(scores), grid, cv, seed, pd.factorize(task.unit[used])[0])
    return LearnedWeight(tried[_best(means, grid)], table, held_out, float(before.mean()), int(used.sum()))


def _labelled(queries: Any) -> Any:
    """Bare texts as a table of queries named by their places, as `Retriever.search` names them."""
    if isinstance(queries, (list, tuple)) and all(isinstance(text, str) for text in queries):
        asked = as_queries(queries)
        return {"query_id": list(asked.ids), "text": list(asked.texts)}
    return queries


def _as_params(weights: Mapping[str, float]) -> dict[str, float]:
    return {f"{arm}_weight": weights.get(arm, 0.0) for arm in KINDS}


def _best(means: Floats, grid: Floats) -> int:
    """The best setting; among equals the one nearest to their middle, which is far from the edges of the plateau."""
    tied = np.flatnonzero(np.round(means, 9) == np.round(means.max(), 9))
    away = np.abs(grid[tied] - grid[tied].mean(axis=0)).sum(axis=1)
    return int(tied[np.round(away, 9).argmin()])


def _held_out(scores: Floats, grid: Floats, cv: int, seed: int, unit: Ints) -> float:
    """The mean over queries, each scored at what is best on the users of other folds."""
    size = int(unit.max()) + 1
    if not 2 <= cv <= size:
        raise ParameterError(f"learn_weight: 'cv' must be in [2, judged queries or their users = {size}]. Got {cv}.")
    part = np.random.default_rng(seed).permutation(np.arange(size) % cv)[unit]
    chosen = np.array([_best(scores[:, part != fold].mean(axis=1), grid) for fold in range(cv)])
    return float(scores[chosen[part], np.arange(len(unit))].mean())
