"""Names of memories for display: title, place, kind and date, stored in a result so that it needs no corpus."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NAMED = ("memory_id", "title", "text", "path", "line_start", "kind", "created_at", "updated_at")
"""The columns that names of memories are made from."""
SHOWN, _NAME = 160, 400
"""The most characters that a cell shows, and that a stored name has: secrets are found before a name is cut."""


def names_of(memories: pa.Table) -> dict[str, list[str]]:
    """Title, place, kind and date of each memory, by id."""
    columns = dict(zip(memories.column_names, memories.columns, strict=True))
    columns["text"] = pc.utf8_slice_codeunits(columns["text"], 0, _NAME)
    values = [columns[name].to_pylist() if name in columns else [None] * len(memories) for name in NAMED]
    return {memory_id: name_of(*fields) for memory_id, *fields in zip(*values, strict=True)}


def names_in(result: pa.Table, memories: pa.Table, *columns: str, most: int = 200) -> dict[str, Any]:
    """`names_of` the memories whose ids are in these columns of a result's first rows, as metadata of the result."""
    first = result.slice(0, most)
    ids = {value for column in columns for value in first[column].to_pylist()}
    if "memory_id" not in memories.column_names or "text" not in memories.column_names:
        return {}
    return {"memories": names_of(memories.filter(pc.is_in(memories["memory_id"], pa.array(ids, pa.string()))))}


def kept_of(shown: str) -> dict[str, dict[Any, Any]]:
    """What is stored in a result for its display; empty where another program wrote something else.

    That is the texts of its queries, the names of its memories, and, by query and chunk, the scores that arms which did
    not find a chunk count it with.
    """
    try:
        stored = json.loads(shown or "{}")
        queries = {str(key): str(text) for key, text in stored.get("queries", {}).items()}
        memories = {str(key): [str(word) for word in words] for key, words in stored.get("memories", {}).items()}
        counted = {
            (str(query), str(chunk), str(arm)): float(score)
            for query, chunks in stored.get("counted", {}).items()
            for chunk, scores in chunks.items()
            for arm, score in scores.items()
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {"queries": {}, "memories": {}, "counted": {}}
    named = {key: words for key, words in memories.items() if len(words) == 4}
    return {"queries": queries, "memories": named, "counted": counted}


def name_of(title: Any, text: Any, path: Any, line: Any, kind: Any, created_at: Any, updated_at: Any) -> list[str]:
    when = created_at or updated_at
    date = (when if isinstance(when, str) else day_of(when))[:10] if when else ""
    label = title or (text if text and text.isprintable() and "  " not in text else " ".join((text or "").split()))
    return [label[:_NAME].strip(), place_of(path, line), kind or "", date]


def place_of(path: str | None, line: int | None) -> str:
    return f"{path}:{line}" if path and line else path or ""


def day_of(value: datetime | date | str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        is_day = value.time() in (time.min, time.max)  # an end of validity is the day's last instant
        return (value.date() if is_day else value.replace(tzinfo=None)).isoformat(*() if is_day else (" ", "minutes"))
    return value.isoformat()
