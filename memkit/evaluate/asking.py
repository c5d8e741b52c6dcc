"""Labelled queries put to a search: each sees its user's memories and those of nobody, and none of a later day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.duck import literal
from memkit.errors import MemkitError, ParameterError
from memkit.evaluate.labels import read_run


def hits_of(search: Any, queries: pa.Table, depth: int, moment: datetime, where: str | None) -> pa.Table:
    """What `search` returns for the queries: query_id, rank, memory_id, score, and alike where it folds.

    One batch for the queries of one user and one moment.

    Parameters
    ----------
    search : Retriever or what `read_run` takes
        A run was made elsewhere: users, days, `where` and arms are its maker's matter.
    queries : pa.Table
        Of `read_queries`.

    Raises
    ------
    MemkitError
        Where an arm that has a weight found nothing for any query, or the encoder cannot be reached: a score of 0
        would look like a bad setting.
    """
    if not hasattr(search, "search"):
        hits = read_run(search)
        if not pc.any(pc.is_in(hits["query_id"], value_set=pc.unique(queries["query_id"]))).as_py():
            raise ParameterError("run: expected hits for some of the queries. Got none.")
        return hits
    search = _or_raise(search)
    batches = [(rows, _visible(rows, where), _day(rows) or moment) for rows in _batches(queries)]
    found = [search.search(_asked(rows), k=depth, where=seen, as_of=day) for rows, seen, day in batches]
    _check_arms(search, batches, found)
    names = ["query_id", "rank", "memory_id", "score"] + ["alike"] * ("alike" in found[0].column_names)
    return pa.concat_tables([hits.select(names).replace_schema_metadata(None) for hits in found])


def _or_raise(search: Any) -> Any:
    """A service that is away stops the work, whatever the search would do by itself."""
    if getattr(search, "on_encoder_error", "raise") == "raise":
        return search
    return search.with_params(on_encoder_error="raise")


def _batches(queries: pa.Table) -> Iterator[pa.Table]:
    rows: dict[tuple[Any, Any], list[int]] = {}
    for row, key in enumerate(zip(queries["user_id"].to_pylist(), queries["as_of"].to_pylist(), strict=True)):
        rows.setdefault(key, []).append(row)
    return (queries.take(pa.array(some)) for some in rows.values())


def _asked(rows: pa.Table) -> pa.Table:
    return rows.select(["query_id", "text"])


def _day(rows: pa.Table) -> datetime | None:
    day: datetime | None = rows["as_of"][0].as_py()
    return day


def _visible(rows: pa.Table, where: str | None) -> str | None:
    """The predicate for what a batch may see; None for everything."""
    user, day = rows["user_id"][0].as_py(), _day(rows)
    parts = [f"(\n{where}\n)"] if where is not None else []
    if user is not None:
        parts.append(f"(user_id is null or user_id = {literal(user)})")
    if day is not None:
        parts.append(f"(created_at is null or created_at <= timestamptz '{day.isoformat()}')")
    return " and ".join(parts) or None


def _check_arms(search: Any, batches: list[tuple[Any, ...]], found: list[pa.Table]) -> None:
    n = sum(rows.num_rows for rows, *_ in batches)
    if not any(hits.num_rows for hits in found):
        note = (found[0].schema.metadata or {}).get(b"note", b"").decode()
        raise MemkitError(f"expected hits for some of {n} queries. Got none, which is no score of 0. {note}".strip())
    weights = json.loads((found[0].schema.metadata or {}).get(b"arms", b"{}"))
    for arm, weight in weights.items():
        if weight and arm in found[0].column_names and not any(_holds(hits, arm) for hits in found):
            # Its candidates may all have lost to others, which only the trace tells.
            traced = (search.trace(_asked(rows), k=1, where=seen, as_of=day) for rows, seen, day in batches)
            if not any(_holds(trace, arm) for trace in traced):
                raise MemkitError(
                    f"the arm '{arm}' has the weight {weight:g} and found nothing for any of {n} queries. Expected an"
                    f" arm that works, or {arm}_weight=0: as it is, the score says nothing about it."
                )


def _holds(table: pa.Table, arm: str) -> bool:
    return bool(table[arm].null_count < table.num_rows)
