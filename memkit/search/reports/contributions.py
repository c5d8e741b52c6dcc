"""A picture of what each hit's score is made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import QueryError
from memkit.schemas import Floats
from memkit.search.fitted.arms import KINDS

if TYPE_CHECKING:
    pass


def contributions(trace: pa.Table) -> pa.Table:
    """What each hit of a trace is made of: memory_id, bm25, vector, lost; bm25 + vector = score.

    Under a fusion that is not a sum, the score is shared out as weight x normalised score.

    Parameters
    ----------
    trace : pa.Table
        From `Retriever.trace`, of one query.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    QueryError
        Where the trace is of several queries or of something else.

    Examples
    --------
    >>> import memkit as mk
    >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["зелёный чай", "кофе"]}))
    >>> contributions(search.trace("чай", as_of="2026-03-01"))["lost"].to_pylist()
    [0.0]
    """
    metadata = trace.schema.metadata or {}
    if b"arms" not in metadata or "disposition" not in trace.column_names:
        raise QueryError("contributions: expected a table from Retriever.trace, with its metadata.")
    if len(ids := pc.unique(trace["query_id"])) > 1:
        raise QueryError(f"contributions: expected the trace of one query. Got {len(ids)}: filter by query_id.")
    hits = trace.filter(pc.equal(trace["disposition"], "returned"))
    weights = json.loads(metadata[b"arms"])
    share = {arm: weights.get(arm, 0.0) * _zeroed(hits[f"{arm}_norm"]) for arm in KINDS}
    total = np.maximum(sum(share.values()), np.finfo(float).tiny)
    score, fused = _zeroed(hits["score"]), _zeroed(hits["fused"])
    parts = {arm: score * part / total for arm, part in share.items()}
    return pa.table({"memory_id": hits["memory_id"], **parts, "lost": fused - score})


def _zeroed(column: pa.ChunkedArray) -> Floats:
    values: Floats = pc.fill_null(column, 0.0).to_numpy()
    return values
