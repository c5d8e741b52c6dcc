"""The sentences that are new within a span: those of what was added, and those that a changed text did not have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from memkit.schemas import TIMESTAMP, is_verbatim, result_schema
from memkit.text.sentences import Sentence, sentences_of

SENTENCES = result_schema(
    (pa.int64(), "row"),
    (pa.string(), "memory_id"),
    (TIMESTAMP, "date"),
    (pa.string(), "path"),
    (pa.int64(), "line"),
    (pa.string(), "title"),
    (pa.bool_(), "is_heading"),
    (pa.string(), "text"),
)
"""``row`` is the row of the changes that the sentence is in."""


def differing(text: str | None, other: str | None) -> list[Sentence]:
    """The sentences of a text that another one does not have.

    >>> [sentence.text for sentence in differing("Пул: десять. Решили: хватит.", "Пул: десять.")]
    ['Решили: хватит.']
    """
    known = {sentence.text for sentence in sentences_of(other or "")}
    return [sentence for sentence in sentences_of(text or "") if sentence.text not in known]


def new_sentences(changes: pa.Table) -> pa.Table:
    """The new sentences of changes, of the columns of `SENTENCES`; all of those whose text before is not known."""
    rows = list[dict[str, Any]]()
    for number, change in enumerate(changes.to_pylist()):
        kept = {name: change[name] for name in ("memory_id", "date", "path", "title")}
        lines = is_verbatim(change["kind"], change["path"])
        for sentence in differing(change["after"], change["before"]):
            line = change["line"] and change["line"] + (sentence.lines_above if lines else 0)
            more = {"row": number, "line": line, "is_heading": sentence.is_heading, "text": sentence.text}
            rows.append({**kept, **more})
    return pa.Table.from_pylist(rows, SENTENCES)
