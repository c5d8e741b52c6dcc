"""At which stage of the search the relevant memories were lost."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from memkit.evaluation.scores.batches import Batch
from memkit.evaluation.scores.metrics import Labels
from memkit.params import describe
from memkit.schemas import result_schema
from memkit.search.stages.rank import DISPOSITIONS

NOT_FOUND = "not_found"
_ORDER = {name: at for at, name in enumerate((*DISPOSITIONS, NOT_FOUND))}
STAGES = result_schema(
    (pa.string(), "disposition"), (pa.int64(), "n"), (pa.float64(), "share"), (pa.int64(), "n_queries")
)


def fates_of(batches: Sequence[Batch], labels: Labels, k: int) -> pd.DataFrame:
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
    trace = trace.assign(place=trace["disposition"].map(_ORDER)).sort_values("place", kind="stable")
    best = trace.drop_duplicates(["query_id", "memory_id"])  # the chunk of a memory that came furthest counts
    query, memory = labels.relevant()
    right = pd.DataFrame({"query_id": query.to_pylist(), "memory_id": memory.to_pylist()})
    fate: pd.DataFrame = right.merge(best, how="left", on=["query_id", "memory_id"])
    return fate.drop(columns="place").fillna({"disposition": NOT_FOUND})


def stages_of(batches: Sequence[Batch], labels: Labels, k: int) -> pa.Table:
    """`fates_of` counted: a row a disposition, with how many, their share, and of how many queries."""
    fate = fates_of(batches, labels, k)
    counted = fate.groupby("disposition")["query_id"].agg(["size", "nunique"])
    rows = [
        {
            "disposition": name,
            "n": int(row["size"]),
            "share": row["size"] / len(fate),
            "n_queries": int(row["nunique"]),
        }
        for name, row in sorted(counted.iterrows(), key=lambda item: _ORDER[str(item[0])])
    ]
    return describe(pa.Table.from_pylist(rows, schema=STAGES), memkit="stages")
