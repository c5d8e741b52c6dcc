"""What the arms found for labelled queries, asked once, and the scores of any setting over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from memkit.evaluate.asking import Batch, batches_of
from memkit.evaluate.evaluation import Task
from memkit.evaluate.grid import Setting
from memkit.evaluate.metrics import Judged, Metric
from memkit.schemas import Floats, Ints


class Pools:
    """Labelled queries put to one search, as far as its settings need it."""

    def __init__(self, search: Any, task: Task, metrics: Sequence[Metric], depth: int, where: str | None) -> None:
        self.task, self.metrics, self.depth = task, list(metrics), depth
        self.search = search
        self.batches: list[Batch] = batches_of(search, task.queries, task.qrels, task.moment, where)

    def scores(self, settings: Sequence[Setting]) -> tuple[Floats, Ints]:
        """Metrics × settings × queries, and how many queries have a hit, by setting."""
        scores = np.full((len(self.metrics), len(settings), self.task.queries.num_rows), np.nan)
        with_hits = np.zeros(len(settings), np.int64)
        for at, setting in enumerate(settings):
            hits = pa.concat_tables(
                [
                    batch.search.with_params(**setting)
                    .search(batch.asked, k=self.depth, where=batch.where, as_of=batch.day)
                    .select(["query_id", "rank", "memory_id", "alike"])
                    .replace_schema_metadata(None)
                    for batch in self.batches
                ]
            )
            run = Judged.of(hits, self.task.labels, self.depth)
            scores[:, at] = [metric(run) for metric in self.metrics]
            with_hits[at] = run.filled.any(axis=1).sum()
        return scores, with_hits
