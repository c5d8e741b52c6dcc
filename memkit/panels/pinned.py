"""A setting against a pinned one on labelled queries: all of them at rest, a few while a slider is moving."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.evaluation.scores.evaluation import Task, known_mean
from memkit.evaluation.scores.metrics import parse_metrics
from memkit.evaluation.scores.pools import Pools
from memkit.evaluation.scores.verdict import Verdict, verdict
from memkit.evaluation.settings.scores import scores_of
from memkit.panels.parts import bars
from memkit.panels.state import Section
from memkit.schemas import Floats
from memkit.search.retriever import Retriever

_METRIC, _JUDGED, _DEPTH = "ndcg@10", "judged@10", 100
_FEW, _KEPT = 8, 500


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
    """What settings score on labelled queries, each worked out once."""

    def __init__(self, search: Retriever, queries: Any, qrels: Any, moment: Any, where: str | None) -> None:
        self.task = Task.read(queries, qrels, None, None, "apart", moment)
        self._search, self._moment, self._where = search, moment, where
        self._every = self.task, self.task.pools(search, where)
        self._few: tuple[Task, Pools] | None = None
        self._known: dict[tuple[bool, str], Floats] = {}

    def strip(self, live: Section, pinned: Section) -> Strip:
        """The verdict on all queries."""
        now, before = self._scores(live, self._every), self._scores(pinned, self._every)
        found = verdict(self.task.units(now[0] - before[0]), unit=self.task.unit_name)
        return Strip(found, known_mean(now[1]), now[0] - before[0])

    def rough(self, live: Section, pinned: Section) -> tuple[float, int]:
        """The mean difference on a few queries, evenly taken, and how many they are."""
        if self._few is None:
            judged = np.flatnonzero(self.task.labels.n_relevant > 0)
            some = judged[np.unique(np.linspace(0, len(judged) - 1, min(_FEW, len(judged))).astype(int))]
            queries = self.task.queries.take(pa.array(some))
            task = Task.read(queries, self.task.qrels, None, None, "apart", self._moment)
            self._few = task, task.pools(self._search, self._where)
        both = [self._scores(setting, self._few)[0] for setting in (live, pinned)]
        return float(np.nanmean(both[0] - both[1])), len(both[0])

    def _scores(self, setting: Section, labelled: tuple[Task, Pools]) -> Floats:
        key = (labelled is self._few, repr(sorted(setting.items())))
        if key not in self._known:
            if len(self._known) > _KEPT:
                self._known.clear()
            task, pools = labelled
            metrics = parse_metrics(_METRIC if labelled is self._few else [_METRIC, _JUDGED])
            self._known[key] = scores_of(pools, task, metrics, _DEPTH, [dict(setting)])[0][:, 0]
        return self._known[key]

    def relevant(self, query_id: str) -> list[str]:
        """What was judged relevant to a query, the best first."""
        qrels = self.task.qrels
        rows = qrels.filter(pc.and_(pc.equal(qrels["query_id"], query_id), pc.greater(qrels["relevance"], 0)))
        order = pc.sort_indices(rows, sort_keys=[("relevance", "descending"), ("memory_id", "ascending")])
        ids: list[str] = rows.take(order)["memory_id"].to_pylist()
        return ids

    def shown(self, live: Section, pinned: Section, is_moving: bool) -> str:
        """The strip as HTML."""
        if not pinned:
            n = self.task.queries.num_rows
            of = "labelled query" if n == 1 else "labelled queries"
            return f"<p>{n:,} {of}. <b>Pin</b> a setting, and a verdict on every other follows.</p>"
        if is_moving:
            difference, n = self.rough(live, pinned)
            every = self.task.queries.num_rows
            return f"<p><b>…</b></p><p>{_METRIC} {difference:+.3f} on {n} of {every} queries; all of them at rest.</p>"
        strip = self.strip(live, pinned)
        v = strip.verdict
        ends = "" if v.low is None else f" <small>95 % interval {v.low:+.3f} to {v.high:+.3f}</small>"
        told = f"{_METRIC} {v.gain:+.3f}{ends}".replace("-", "−")
        more = f" {v.more.capitalize()}." if v.more else ""
        reason = f" {html.escape(v.reason)}." if v.reason else ""
        return (
            f"<p><b>{html.escape(v.word)}</b> than pinned</p><p>{told}</p>"
            f"<p>{_judged(strip.judged)}{reason}{more}</p>{self._bars(strip)}"
        )

    def _bars(self, strip: Strip) -> str:
        """All labelled queries by their difference, the worst first."""
        order = [at for at in np.argsort(strip.differences, kind="stable") if not np.isnan(strip.differences[at])]
        ids, texts = (self.task.queries[name].to_pylist() for name in ("query_id", "text"))
        marks = [(f"query:{ids[at]}", texts[at] or "", float(strip.differences[at])) for at in order]
        return bars("queries by difference, worst first; Enter opens both result lists", marks)


def _judged(share: float | None) -> str:
    return "There are no hits." if share is None else f"{share:.0%} of the first ten hits are judged."
