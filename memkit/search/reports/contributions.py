"""The parts of each hit's score, by arm."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import QueryError
from memkit.schemas import Floats
from memkit.search.fitted.arms import KINDS


def contributions(trace: pa.Table) -> pa.Table:
    """The share of each arm in the score of each hit of a trace: memory_id, bm25, vector, gram, lost.

    The three shares sum to the score; `lost` is what kind weight and decay took off. Under a fusion that is not a sum,
    the score is divided in proportion to weight x normalised score.

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
        If the trace is of several queries, or the table is no trace.

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
