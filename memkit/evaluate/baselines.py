"""What needs no tuning, to hold a tuned search against: words alone, vectors alone, the words that a text contains."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import MemkitError
from memkit.evaluate.asking import Batch, batches_of
from memkit.evaluate.evaluation import Task
from memkit.evaluate.metrics import Judged, Metric
from memkit.evaluate.statistics import interval
from memkit.evaluate.sweep import sweep
from memkit.schemas import Floats

BASELINES = pa.schema(
    [
        ("baseline", pa.string()),
        ("value", pa.float64()),
        ("difference", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("note", pa.string()),
    ]
)
_WEIGHTS = ("bm25_weight", "vector_weight", "gram_weight")
_ALONE = {"words alone": "bm25_weight", "vectors alone": "vector_weight"}


def baselines(search: Any, own: Floats, task: Task, metric: str, more: Mapping[str, Any]) -> pa.Table:
    """Each by its metric, and by how far it is above the scores `own`, with the 95 % interval over units."""
    rows = []
    for name, arm in _ALONE.items():
        if arm == "vector_weight" and getattr(search, "encoder", None) is None:
            continue
        weights = {weight: [float(weight == arm)] for weight in _WEIGHTS}
        try:
            swept = sweep(search, task.queries, task.qrels, [weights], metric, **more)
        except MemkitError as error:  # such an arm is no zero
            rows.append({"baseline": name, "note": str(error)})
            continue
        rows.append(_row(name, swept.matrix(metric)[0], own, task))
    rows.append(_row("words contained", _contained(search, task, Metric.parse(metric), more), own, task))
    return pa.Table.from_pylist(rows, schema=BASELINES)


def _row(name: str, scores: Floats, own: Floats, task: Task) -> dict[str, Any]:
    units = task.units(scores - own)
    low, high = interval(units) or (None, None)
    return {"baseline": name, "value": task.units(scores).mean, "difference": units.mean, "low": low, "high": high}


def _contained(search: Any, task: Task, metric: Metric, more: Mapping[str, Any]) -> Floats:
    """By the number of different words of the query that a memory contains as letters, ties by id."""
    depth = metric.k or more["depth"]
    memories = search.corpus_.memories.select(["memory_id", "title", "text"]).sort_by("memory_id")
    texts = pc.utf8_lower(pc.binary_join_element_wise(memories["title"], memories["text"], "\n"))
    known: dict[str, Any] = {}

    def holds(word: str) -> Any:
        if word not in known:
            known[word] = pc.match_substring(texts, word).to_numpy()
        return known[word]

    rows: list[tuple[str, str, int]] = []
    ids = memories["memory_id"].to_pylist()
    for batch in batches_of(search, task.queries, task.qrels, task.moment, more["where"]):
        seen = pc.is_in(memories["memory_id"], value_set=_seen(search, batch)).to_numpy()
        for query, text in zip(batch.rows["query_id"].to_pylist(), batch.rows["text"].to_pylist(), strict=True):
            words = set(re.findall(r"\w+", (text or "").lower()))
            count = np.sum([holds(word) for word in words] or [np.zeros(len(ids))], axis=0) * seen
            best = np.lexsort((np.arange(len(ids)), -count))[:depth]
            rows += [(query, ids[at], rank) for rank, at in enumerate(best, 1) if count[at] > 0]
    columns = [
        pa.array([row[at] for row in rows], kind) for at, kind in enumerate((pa.string(), pa.string(), pa.int64()))
    ]
    hits = pa.table([*columns, pa.array(np.zeros(len(rows)))], names=["query_id", "memory_id", "rank", "score"])
    return metric(Judged.of(hits, task.labels, depth))


def _seen(search: Any, batch: Batch) -> pa.ChunkedArray:
    """What the queries may see: their user's memories, and of a day of their own those that there were."""
    parts = [f"({batch.where})"] if batch.where is not None else []
    if batch.rows["as_of"].null_count == 0:
        parts.append(f"(created_at is null or created_at <= timestamptz '{batch.day.isoformat()}')")
    where = " and ".join(parts) or "true"
    return search.corpus_.ask(f"select memory_id from memories where {where}")["memory_id"]  # noqa: S608  # checked by `batches_of`
