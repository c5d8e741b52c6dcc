"""Facts of the old layout, whose lines have no types: what each becomes where it is read or migrated (Memory v2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from memkit.documents import memory_v2_policy
from memkit.policy.admission import Admission
from memkit.policy.classifier import Classifier

Row = dict[str, Any]
_LIMITS: dict[str, Any] = {kind: memory_v2_policy["quota"][f"max_{kind}"] for kind in ("profile", "working")}


def typed(files: Iterable[Sequence[Row]], untyped: Collection[str]) -> list[Row]:
    """The rows of old files, those whose ids are in `untyped` with a kind, an importance, and ``why`` they have it.

    A profile fact is one by its words. A current task of an old file is none today: it becomes an archive fact, and so
    does what would be refused on saving, or is over a limit. A line with an end of its own is a working fact.

    Examples
    --------
    >>> texts = ["Меня зовут Анна", "Сейчас ставим simple-bot...", "Как меня зовут?"]
    >>> file = [{"memory_id": str(n), "text": text, "importance": None, "expires_at": None, "kind": "archive"}
    ...         for n, text in enumerate(texts)]
    >>> [(row["kind"], row["importance"]) for row in typed([file], {"0", "1", "2"})]
    [('profile', 'high'), ('archive', 'normal'), ('archive', 'low')]
    """
    groups = [list(file) for file in files]
    chosen = [row for rows in groups for row in rows if row["memory_id"] in untyped]
    table = pa.table({"text": pa.array([row["text"] for row in chosen], pa.string())})
    refusals = Admission().transform(table)["reason"].to_pylist()
    classes = Classifier().transform(table).select(["kind", "importance"]).to_pylist()
    new = {
        row["memory_id"]: row | _as_kept(row, refusal, found["kind"], found["importance"])
        for row, refusal, found in zip(chosen, refusals, classes, strict=True)
    }
    return [row for rows in groups for row in _within_limits(rows, new)]


def _as_kept(row: Row, refusal: str | None, kind: str, importance: str) -> Row:
    given = row["importance"]
    if row["expires_at"] is not None:
        return {"kind": "working", "importance": given or "normal", "why": "it has an end"}
    if refusal is not None:
        importance = importance if kind == "archive" else "low"
        return {"kind": "archive", "importance": given or importance, "why": f"saving would refuse it ({refusal})"}
    if kind == "working":
        return {"kind": "archive", "importance": given or "normal", "why": "an old task is no current one"}
    return {"kind": kind, "importance": given or importance, "why": "by its words"}


def _within_limits(rows: Sequence[Row], new: dict[str, Row]) -> list[Row]:
    """The rows of one file; what is over the limit of its kind becomes an archive fact of its importance."""
    counts = Counter(row["kind"] for row in rows if row["memory_id"] not in new)
    kept: list[Row] = []
    for row in rows:
        fact = new.get(row["memory_id"], row)
        if fact is not row:
            counts[fact["kind"]] += 1
            if counts[fact["kind"]] > (limit := _LIMITS.get(fact["kind"], len(rows))):
                why = f"over the limit of {limit} {fact['kind']} facts"
                fact = fact | {"kind": "archive", "expires_at": None, "why": why}
        kept.append(fact)
    return kept
