"""Labelled queries put to a search, a batch for each user and moment, so that each sees only what it may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import ParameterError
from memkit.evaluation.labels.known_items import hidden
from memkit.params import Moment
from memkit.search.question import check_user


def check_fitted(search: Any, owner: str) -> None:
    """Raise where `search` is no Retriever, or one without a corpus."""
    if not hasattr(search, "ask"):
        raise ParameterError(f"{owner}: expected a fitted Retriever. Got {type(search).__name__}.")
    search._index()


@dataclass(frozen=True)
class Batch:
    """Queries of one user and one moment, with the scope in which they are asked."""

    search: Any
    rows: pa.Table
    where: str | None
    user_id: str | None
    moment: Moment

    @property
    def questions(self) -> pa.Table:
        return self.rows.select(["query_id", "text", "as_of"])

    @property
    def scope(self) -> dict[str, Any]:
        """The arguments of `Retriever.search` beside the queries and k."""
        return {"where": self.where, "as_of": self.moment, "user_id": self.user_id}

    def only(self, query_ids: Any) -> Self:
        """These queries of the batch."""
        return replace(self, rows=self.rows.filter(pc.is_in(self.rows["query_id"], pa.array(query_ids, pa.string()))))


def batches_of(
    search: Any,
    queries: pa.Table,
    qrels: pa.Table | None,
    moment: Moment,
    where: str | None,
    user_id: str | None = None,
) -> list[Batch]:
    """The batches in which queries are put to a Retriever; parameters as for `put_to`."""
    return [
        Batch(searched, rows, where, rows["user_id"][0].as_py(), moment_of(rows["as_of"][0].as_py(), moment))
        for searched, part in _by_hidden(_strict(search), with_user(queries, user_id), qrels)
        for rows in _batches(part)
    ]


def with_user(queries: pa.Table, user_id: str | None) -> pa.Table:
    """The queries with `user_id` filled in where they have no user; None changes nothing."""
    check_user(user_id, "evaluate")
    if user_id is None:
        return queries
    return queries.set_column(
        queries.column_names.index("user_id"), "user_id", pc.fill_null(queries["user_id"], user_id)
    )


def moment_of(day: datetime | None, moment: Moment) -> Moment:
    """When a labelled query is asked: on its own `day`, else at `moment`."""
    return moment if day is None else Moment.from_cell(day)


def _by_hidden(search: Any, queries: pa.Table, qrels: pa.Table | None) -> Iterator[tuple[Any, pa.Table]]:
    """For each `hidden_field` a search over a corpus without that field, and the queries for it."""
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


def _strict(search: Any) -> Any:
    """The search, set to raise where its encoder cannot be reached, whatever its own setting."""
    if getattr(search, "on_encoder_error", "raise") == "raise":
        return search
    return search.with_params(on_encoder_error="raise")


def _batches(queries: pa.Table) -> Iterator[pa.Table]:
    rows: dict[tuple[Any, Any], list[int]] = {}
    for row, key in enumerate(zip(queries["user_id"].to_pylist(), queries["as_of"].to_pylist(), strict=True)):
        rows.setdefault(key, []).append(row)
    return (queries.take(pa.array(positions)) for positions in rows.values())


def revision_of(search: Any) -> dict[str, str]:
    """The revision of the memories that `search` was fitted on; empty for a run."""
    return dict(getattr(getattr(search, "corpus_", None), "revision", {}))
