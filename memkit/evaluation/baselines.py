"""Baselines without tuning, to compare a tuned search with: words alone, vectors alone, words contained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import MemkitError
from memkit.evaluation.evaluation import CheckedTask, deepest
from memkit.evaluation.metrics import Judged, Metric
from memkit.evaluation.pools import Batch, Pools
from memkit.evaluation.scores import Measure, scores_of
from memkit.evaluation.statistics import interval
from memkit.schemas import Floats, Mask, result_schema, tuples_of
from memkit.search.steps.recall import asking
from memkit.search.steps.scope import memories_where, seen_by, unseen_from
from memkit.tables.age import later

BASELINES = result_schema((pa.string(), "baseline"), (pa.float64(), "value difference low high"), (pa.string(), "note"))
_ALONE = {"words alone": "bm25", "vectors alone": "vector"}


def baselines(pools: Pools, default_scores: Floats, task: CheckedTask, metric: Metric, depth: int) -> pa.Table:
    """The metric of each baseline, and its difference to `default_scores` with the 95 % interval over units."""
    rows, deep = [], deepest([metric], depth)
    for name, arm in _ALONE.items():
        if arm == "vector" and getattr(pools.search, "encoder", None) is None:
            continue
        try:
            scores, _ = scores_of(pools, task, Measure([metric], deep), [asking([arm])])
        except MemkitError as error:  # an arm that did not run has no score, not even 0
            rows.append({"baseline": name, "note": str(error)})
            continue
        rows.append(_row(name, scores[0, 0], default_scores, task))
    rows.append(_row("words contained", _contained(pools.batches, task, metric, deep), default_scores, task))
    return pa.Table.from_pylist(rows, schema=BASELINES)


def _row(name: str, scores: Floats, default_scores: Floats, task: CheckedTask) -> dict[str, Any]:
    units = task.units(scores - default_scores)
    low, high = interval(units) or (None, None)
    return {"baseline": name, "value": task.units(scores).mean, "difference": units.mean, "low": low, "high": high}


class _Texts:
    """The texts of one corpus, and which of them contain a word as a substring."""

    def __init__(self, search: Any) -> None:
        memories = search.corpus_.memories.select(["memory_id", "title", "text"]).sort_by("memory_id")
        self.ids = memories["memory_id"]
        joined = pc.binary_join_element_wise(memories["title"], memories["text"], "\n")
        self.texts: list[str] = pc.utf8_lower(joined).to_pylist()
        self._matches: dict[str, Mask] = {}

    def __getitem__(self, word: str) -> Mask:
        if word not in self._matches:
            # Python's search takes a third of the time of Arrow's.
            self._matches[word] = np.array([word in text for text in self.texts], bool)
        return self._matches[word]

    def best(self, text: str, visible: Any, depth: int) -> list[str]:
        """The memories that contain the most words of `text`, ties by id."""
        words = set(re.findall(r"\w+", text.lower()))
        count = np.sum([self[word] for word in words] or [np.zeros(len(visible), bool)], axis=0) * visible
        order = np.lexsort((np.arange(len(visible)), -count))[:depth]
        ids: list[str] = self.ids.take(pa.array(order[count[order] > 0])).to_pylist()
        return ids


def _contained(batches: Sequence[Batch], task: CheckedTask, metric: Metric, depth: int) -> Floats:
    """Scores of ranking by the number of different query words that a visible memory contains."""
    corpora: dict[int, _Texts] = {}
    rows: list[tuple[str, str, int]] = []
    for batch in batches:  # those of a hidden field have a corpus of their own, without it
        key = id(batch.search)
        texts = corpora[key] = corpora.get(key) or _Texts(batch.search)
        visible = pc.is_in(texts.ids, value_set=_visible_ids(batch)).to_numpy()
        for query, text in tuples_of(batch.rows, "query_id", "text"):
            rows += [(query, memory, rank) for rank, memory in enumerate(texts.best(text or "", visible, depth), 1)]
    types = (pa.string(), pa.string(), pa.int64())
    columns = [pa.array([row[column] for row in rows], kind) for column, kind in enumerate(types)]
    hits = pa.table([*columns, pa.array(np.zeros(len(rows)))], names=["query_id", "memory_id", "rank", "score"])
    return metric(Judged.from_hits(hits, task.labels, depth))


def _visible_ids(batch: Batch) -> pa.ChunkedArray:
    """Ids of the memories that the batch may see: by `where`, user and moment."""
    search, memories = batch.search, batch.search.corpus_.memories
    if batch.where is not None:
        ids = memories_where(search.corpus_.ask, batch.where)
        memories = memories.filter(pc.is_in(memories["memory_id"], value_set=ids))
    if batch.user_id is not None:
        memories = memories.filter(pa.array(seen_by(batch.user_id, memories)))
    if (until := unseen_from(search, batch.moment)) is not None:
        memories = memories.filter(pa.array(~later(memories["created_at"].to_numpy(), until)))
    return memories["memory_id"]
