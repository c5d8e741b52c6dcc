"""Labelled queries put to a search: each sees its user's memories and those of nobody, and none of a later day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.duck import literal
from memkit.errors import MemkitError, ParameterError
from memkit.evaluation.labels.known import hidden
from memkit.evaluation.labels.labels import read_run
from memkit.params import Moment
from memkit.search.question import memories_where


def hits_of(
    search: Any, queries: pa.Table, qrels: pa.Table | None, depth: int, moment: Moment, where: str | None
) -> pa.Table:
    """What `search` returns for the queries: query_id, rank, memory_id, score, and alike where it folds.

    One batch for the queries of one user and one moment. Queries with a `hidden_field` are put to a copy of the index
    in which that field is hidden from what answers them.

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
        hits = _first(read_run(search), depth)
        if not pc.any(pc.is_in(hits["query_id"], value_set=pc.unique(queries["query_id"]))).as_py():
            raise ParameterError("run: expected hits for some of the queries. Got none.")
        return hits
    return found_of(batches_of(search, queries, qrels, moment, where), depth)


def found_of(batches: list[Batch], depth: int, check: bool = True) -> pa.Table:
    """The hits of the batches, as `hits_of` returns them and, unless `check` is false, with its errors."""
    found = [batch.search.search(batch.asked, k=depth, where=batch.where, as_of=batch.day) for batch in batches]
    if check:
        _check_arms(batches, found)
    names = ["query_id", "rank", "memory_id", "score"] + ["alike"] * ("alike" in found[0].column_names)
    return pa.concat_tables([hits.select(names).replace_schema_metadata(None) for hits in found])


def _first(run: pa.Table, depth: int) -> pa.Table:
    """The first `depth` hits of each query of a run, which come by query, then by rank."""
    query = pc.index_in(run["query_id"], value_set=pc.unique(run["query_id"])).to_numpy()
    return run.filter(pa.array(np.arange(len(query)) - np.searchsorted(query, query) < depth))


def check_fitted(search: Any, owner: str) -> None:
    """Raise where `search` is no Retriever, or one without a corpus."""
    if not hasattr(search, "ask"):
        raise ParameterError(f"{owner}: expected a fitted Retriever. Got {type(search).__name__}.")
    search._index()


@dataclass(frozen=True)
class Batch:
    """Queries of one user and one moment, and what they may see."""

    search: Any
    rows: pa.Table
    where: str | None
    day: Moment

    @property
    def asked(self) -> pa.Table:
        return self.rows.select(["query_id", "text", "as_of"])

    def only(self, query_ids: Any) -> Self:
        """These queries of the batch."""
        return replace(self, rows=self.rows.filter(pc.is_in(self.rows["query_id"], pa.array(query_ids, pa.string()))))


def batches_of(
    search: Any, queries: pa.Table, qrels: pa.Table | None, moment: Moment, where: str | None
) -> list[Batch]:
    """The queries as they are put to a Retriever; parameters as for `hits_of`."""
    return [
        Batch(one, rows, visible(search, where, rows["user_id"][0].as_py()), day_of(rows["as_of"][0].as_py(), moment))
        for one, part in _by_hidden(_or_raise(search), queries, qrels)
        for rows in _batches(part)
    ]


def day_of(day: datetime | None, moment: Moment) -> Moment:
    """When a labelled query is asked: on a `day` of its own, else at `moment`."""
    return moment if day is None else Moment.of_cell(day)


def visible(search: Any, where: str | None, user: str | None) -> str | None:
    """The predicate for what a user may see: that user's memories and those of nobody; None for everything."""
    if where is None or user is None:
        return where if user is None else f"(user_id is null or user_id = {literal(user)})"
    # Alone, before it is joined: a bracket in it must not close ours.
    memories_where(search.corpus_.ask, where, search.where_timeout_s)
    return f"(\n{where}\n) and {visible(search, None, user)}"


def _by_hidden(search: Any, queries: pa.Table, qrels: pa.Table | None) -> Iterator[tuple[Any, pa.Table]]:
    """The search over its corpus with what is to be hidden hidden, and the queries that ask it."""
    if "hidden_field" not in queries.column_names:
        yield search, queries
        return
    for column in pc.unique(queries["hidden_field"]).to_pylist():
        chosen = queries["hidden_field"]
        rows = queries.filter(pc.is_null(chosen) if column is None else pc.fill_null(pc.equal(chosen, column), False))
        if column is None:
            yield search, rows
        elif qrels is None:
            raise ParameterError("queries: expected qrels beside a 'hidden_field', to know what to hide. Got none.")
        else:
            right = qrels.filter(
                pc.and_(pc.is_in(qrels["query_id"], rows["query_id"]), pc.greater(qrels["relevance"], 0))
            )
            yield hidden(search, column, right["memory_id"]), rows


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


def read_from(search: Any) -> dict[str, str]:
    """The revision of the memories that `search` was fitted on, for what comes of it; nothing for a run."""
    return dict(getattr(getattr(search, "corpus_", None), "revision", {}))


def _check_arms(batches: list[Batch], found: list[pa.Table]) -> None:
    n = sum(batch.rows.num_rows for batch in batches)
    if not any(hits.num_rows for hits in found):
        note = (found[0].schema.metadata or {}).get(b"note", b"").decode()
        raise MemkitError(f"expected hits for some of {n} queries. Got none, which is no score of 0. {note}".strip())
    weights = json.loads((found[0].schema.metadata or {}).get(b"arms", b"{}"))
    for arm, weight in weights.items():
        if weight and arm in found[0].column_names and not any(_holds(hits, arm) for hits in found):
            check_arm(batches, arm, weight)


def check_arm(batches: list[Batch], arm: str, weight: float, **values: Any) -> None:
    """Raise where an arm with a `weight` finds nothing for any query, whatever is filtered, in any place.

    Its candidates may all have lost to others, which only the trace tells.
    """
    for batch in batches:
        search = batch.search.with_params(**values) if values else batch.search
        if _holds(search.trace(batch.asked, k=1, where=batch.where, as_of=batch.day), arm):
            return
    n = sum(batch.rows.num_rows for batch in batches)
    raise MemkitError(
        f"the arm '{arm}' has the weight {weight:g} and found nothing for any of {n} queries. Expected an"
        f" arm that works, or {arm}_weight=0: as it is, the score says nothing about it."
    )


def _holds(table: pa.Table, arm: str) -> bool:
    return bool(table[arm].null_count < table.num_rows)
