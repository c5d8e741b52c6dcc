"""A setting compared with a pinned one on labelled queries: on all at rest, on a few while a slider moves."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import count_of
from memkit.evaluation.evaluation import CheckedTask, Task, known_mean
from memkit.evaluation.grid import at_query
from memkit.evaluation.metrics import parse_metrics
from memkit.evaluation.pools import Pools
from memkit.evaluation.scores import Measure, scores_of
from memkit.evaluation.verdict import BETTER, OPEN, SAME, WORSE, Verdict, verdict
from memkit.panels.parts import bars
from memkit.panels.state import Section
from memkit.schemas import Floats
from memkit.search.retriever import Retriever

_METRIC, _JUDGED, _DEPTH = "ndcg@10", "judged@10", 100
_FEW, _KEPT, _FITS = 8, 500, 6


@dataclass(frozen=True)
class Strip:
    """A setting against the pinned one on labelled queries: the verdict, and each query's difference.

    Attributes
    ----------
    judged : float or None
        The share of the first ten hits that was judged; None without hits.
    """

    verdict: Verdict
    judged: float | None
    differences: Floats


class PinnedComparison:
    """The scores of settings on labelled queries, each computed once."""

    def __init__(
        self, search_of: Callable[[Section], Retriever], queries: Any, qrels: Any, moment: Any, where: str | None
    ) -> None:
        self.task = Task(None, queries, qrels, as_of=moment, unjudged="apart").read()
        self._search_of, self._moment, self._where = search_of, moment, where
        self._few_queries: CheckedTask | None = None
        self._pools: dict[tuple[bool, int], tuple[Retriever, Pools]] = {}
        self._cached_scores: dict[tuple[bool, str], Floats] = {}
        self._pools_of(self.task, {})  # so that wrong labels are told at once

    def ask_again(self) -> None:
        """Ask all queries again, as the search was fitted on other memories."""
        self._pools.clear()
        self._cached_scores.clear()

    def _pools_of(self, task: CheckedTask, setting: Section) -> Pools:
        """What the search fitted with these values finds for the queries."""
        search = self._search_of(setting)
        key = task is self.task, id(search)
        if key not in self._pools:
            while len(self._pools) >= _FITS:
                del self._pools[next(iter(self._pools))]
            self._pools[key] = search, task.pools(search, self._where)
        return self._pools[key][1]

    def strip(self, live: Section, pinned: Section) -> Strip:
        """The verdict on all queries."""
        now, before = self._scores(live, self.task), self._scores(pinned, self.task)
        result = verdict(self.task.units(now[0] - before[0]), unit=self.task.unit_name)
        return Strip(result, known_mean(now[1]), now[0] - before[0])

    def rough(self, live: Section, pinned: Section) -> tuple[float, int]:
        """The mean difference on an even sample of queries, and the size of the sample."""
        if self._few_queries is None:
            judged = np.flatnonzero(self.task.labels.n_relevant > 0)
            sample = judged[np.unique(np.linspace(0, len(judged) - 1, min(_FEW, len(judged))).astype(int))]
            queries = self.task.queries.take(pa.array(sample))
            self._few_queries = Task(None, queries, self.task.qrels, as_of=self._moment, unjudged="apart").read()
        scores = [self._scores(setting, self._few_queries)[0] for setting in (live, pinned)]
        return float(np.nanmean(scores[0] - scores[1])), len(scores[0])

    def _scores(self, setting: Section, task: CheckedTask) -> Floats:
        key = (task is self._few_queries, repr(sorted(setting.items())))
        if key not in self._cached_scores:
            if len(self._cached_scores) > _KEPT:
                self._cached_scores.clear()
            metrics = parse_metrics(_METRIC if task is self._few_queries else [_METRIC, _JUDGED])
            values = at_query(dict(setting))
            pools, measure = self._pools_of(task, setting), Measure(metrics, _DEPTH)
            self._cached_scores[key] = scores_of(pools, task, measure, [values])[0][:, 0]
        return self._cached_scores[key]

    def relevant(self, query_id: str) -> list[str]:
        """The memories judged relevant to a query, the most relevant first."""
        qrels = self.task.qrels
        rows = qrels.filter(pc.and_(pc.equal(qrels["query_id"], query_id), pc.greater(qrels["relevance"], 0)))
        order = pc.sort_indices(rows, sort_keys=[("relevance", "descending"), ("memory_id", "ascending")])
        ids: list[str] = rows.take(order)["memory_id"].to_pylist()
        return ids

    def as_html(self, live: Section, pinned: Section, is_moving: bool) -> str:
        """The strip as HTML."""
        if not pinned:
            n = self.task.queries.num_rows
            return f"<p>{count_of(n, 'labelled query')}. <b>Pin</b> a setting, to see a verdict on every other.</p>"
        if is_moving:
            difference, n = self.rough(live, pinned)
            n_queries = self.task.queries.num_rows
            so_far = f"{difference:+.3f} on {n} of {count_of(n_queries, 'query')}; on all when the slider rests."
            return f"<p><b>…</b></p><p>{_METRIC} {so_far}</p>"
        strip = self.strip(live, pinned)
        v = strip.verdict
        ends = "" if v.low is None else f" <small>95 % interval {v.low:+.3f} to {v.high:+.3f}</small>"
        gain = f"{_METRIC} {v.gain:+.3f}{ends}".replace("-", "−")
        more = f" {v.more.capitalize()}." if v.more else ""
        reason = f" {html.escape(v.reason[:1].upper() + v.reason[1:])}." if v.reason else ""
        return (
            f"<p>{_AGAINST_PINNED[v.word]}</p><p>{gain}</p>"
            f"<p>{_judged(strip.judged)}{reason}{more}</p>{self._bars(strip)}"
        )

    def _bars(self, strip: Strip) -> str:
        """All labelled queries by their difference, the worst first."""
        order = [
            index for index in np.argsort(strip.differences, kind="stable") if not np.isnan(strip.differences[index])
        ]
        ids, texts = (self.task.queries[name].to_pylist() for name in ("query_id", "text"))
        marks = [(f"query:{ids[index]}", texts[index] or "", float(strip.differences[index])) for index in order]
        return bars("queries by difference, worst first; Enter opens both result lists", marks)


_AGAINST_PINNED = {
    BETTER: "<b>Better</b> than pinned",
    WORSE: "<b>Worse</b> than pinned",
    SAME: "<b>Practically the same</b> as pinned",
    OPEN: "<b>Cannot tell yet</b> whether it is better than pinned",
}


def _judged(share: float | None) -> str:
    return "There are no hits." if share is None else f"{share:.0%} of the first ten hits are judged."
