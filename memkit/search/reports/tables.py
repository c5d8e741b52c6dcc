"""Ranked candidates as the tables that users see: the hits, the trace, and a note on what came back empty."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from memkit.search.queries import Queries
from memkit.search.stages.normalise import Floats, Ints
from memkit.search.stages.rank import DISPOSITIONS, Ranked

HITS = pa.schema(
    [
        ("query_id", pa.string()),
        ("rank", pa.int64()),
        ("memory_id", pa.string()),
        ("chunk_id", pa.string()),
        ("score", pa.float64()),
        ("bm25", pa.float64()),
        ("vector", pa.float64()),
        ("decay", pa.float64()),
        ("text", pa.string()),
        ("path", pa.string()),
        ("line_start", pa.int64()),
        ("line_end", pa.int64()),
    ]
)

TRACE = pa.schema(
    [
        ("query_id", pa.string()),
        ("memory_id", pa.string()),
        ("chunk_id", pa.string()),
        ("bm25", pa.float64()),
        ("bm25_rank", pa.int64()),
        ("bm25_norm", pa.float64()),
        ("vector", pa.float64()),
        ("vector_rank", pa.int64()),
        ("vector_norm", pa.float64()),
        ("fused", pa.float64()),
        ("age_days", pa.float64()),
        ("decay", pa.float64()),
        ("mmr_penalty", pa.float64()),
        ("score", pa.float64()),
        ("rank", pa.int64()),
        ("disposition", pa.string()),
    ]
)


def hits_table(ranked: Ranked, queries: Queries, chunks: pa.Table) -> pa.Table:
    """The returned rows of `ranked` as `HITS`, by query order, then rank."""
    shown = ranked.returned()
    columns = {
        **_of_chunks(chunks, shown.found.row, ("memory_id", "chunk_id", "text", "path", "line_start", "line_end")),
        "query_id": _ids(queries, shown.found.query),
        "rank": shown.rank,
        "score": shown.score,
        **{arm: _floats(shown.found.raw[:, column]) for column, arm in enumerate(shown.found.arms)},
        "decay": shown.decay,
    }
    return _table(columns, HITS, len(shown.rank))


def trace_table(ranked: Ranked, queries: Queries, chunks: pa.Table) -> pa.Table:
    """Every row of `ranked` as `TRACE`."""
    columns: dict[str, Any] = {
        **_of_chunks(chunks, ranked.found.row, ("memory_id", "chunk_id")),
        "query_id": _ids(queries, ranked.found.query),
        "fused": _floats(ranked.fused),
        "age_days": _floats(ranked.age_days),
        "decay": ranked.decay,
        "mmr_penalty": _floats(ranked.penalty),
        "score": _floats(ranked.score),
        "rank": pa.array(ranked.rank, mask=ranked.rank == 0),
        "disposition": pa.array(np.array(DISPOSITIONS, dtype=object)[ranked.disposition], pa.string()),
    }
    for column, arm in enumerate(ranked.found.arms):
        missing = ranked.found.rank[:, column] == 0
        columns[arm] = _floats(ranked.found.raw[:, column])
        columns[f"{arm}_rank"] = pa.array(ranked.found.rank[:, column], mask=missing)
        columns[f"{arm}_norm"] = _floats(np.where(missing, np.nan, ranked.norm[:, column]))
    return _table(columns, TRACE, len(ranked.rank))


def describe(table: pa.Table, **facts: Any) -> pa.Table:
    """`table` with facts on its making in the schema's metadata: text as it is, the rest as JSON, nothing for none."""
    told = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for name, value in facts.items()
        if value
    }
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **told})


def empty_note(ranked: Ranked, queries: Queries, searched: int, held: int, min_score: float) -> str:
    """Why the queries without a hit have none, a sentence for each reason; empty where each has one.

    Parameters
    ----------
    searched, held : int
        Chunks that the call may find, chunks that there are.
    """
    size = len(queries)
    hits = np.bincount(ranked.returned().found.query, minlength=size)
    candidates = np.bincount(ranked.found.query, minlength=size)
    reasons: dict[str, list[str]] = {}
    for at in np.flatnonzero(hits == 0):
        if not held:
            why = "the corpus holds no memories"
        elif not searched:
            why = "no memory passes 'where', 'expired' and 'kinds_hidden'"
        elif not queries.texts[at].strip():
            why = "the query is empty"
        elif candidates[at]:
            why = f"there are candidates, but none reaches min_score {min_score:g}"
        else:
            why = "no arm finds anything; no memory shares a term with the query"
        reasons.setdefault(why, []).append(queries.ids[at])
    return " ".join(f"No hit for {_some(ids)}: {why}." for why, ids in reasons.items())


def _some(ids: list[str], most: int = 5) -> str:
    rest = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ("query " if len(ids) == 1 else "queries ") + ", ".join(map(repr, ids[:most])) + rest


def _of_chunks(chunks: pa.Table, row: Ints, names: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    taken = chunks.select(list(names)).take(pa.array(row))
    return {name: taken[name] for name in names}


def _ids(queries: Queries, query: Ints) -> pa.Array:
    return pa.array(queries.ids, pa.string()).take(pa.array(query))


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _table(columns: Mapping[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """Columns in the schema's order; one that no arm filled is null."""
    filled = [columns[f.name] if f.name in columns else pa.nulls(size, f.type) for f in schema]
    return pa.Table.from_arrays([pa.array(c) if isinstance(c, np.ndarray) else c for c in filled], schema=schema)
