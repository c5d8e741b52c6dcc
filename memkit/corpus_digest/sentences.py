"""The sentences that are new within a span: those of what was added, and those that a changed text did not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from memkit.fences import fences, is_heading
from memkit.schemas import TIMESTAMP, is_verbatim
from memkit.text.sentences import borders

SENTENCES = pa.schema(
    [
        ("row", pa.int64()),
        ("memory_id", pa.string()),
        ("date", TIMESTAMP),
        ("path", pa.string()),
        ("line", pa.int64()),
        ("title", pa.string()),
        ("is_heading", pa.bool_()),
        ("text", pa.string()),
    ]
)
"""``row`` is the row of the changes that the sentence is in."""


_NUMBER = re.compile(r"\d+[.)]")
"""The number of an item, which ends no sentence."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, with the lines that it is wrapped at joined, and how many lines of its text stand above it."""

    text: str
    lines_above: int
    is_heading: bool = False


def sentences_of(text: str) -> Iterator[Sentence]:
    """The sentences and headings of a text outside of its code fences.

    >>> for sentence in sentences_of("# Чай\\nБез сахара. С лимоном."):
    ...     print(sentence.lines_above, sentence.is_heading, sentence.text)
    0 True # Чай
    1 False Без сахара.
    1 False С лимоном.
    """
    code, above, counted, number = fences(text), 0, 0, ""
    for start, end in pairwise([*borders(text), len(text)]):
        above += text.count("\n", counted, start)
        counted = start
        words = f"{number} {' '.join(text[start:end].split())}".strip()
        number = words if _NUMBER.fullmatch(words) else ""
        if words and not number and above + 1 not in code:
            yield Sentence(words, above, is_heading(words))


def new_sentences(changes: pa.Table) -> pa.Table:
    """The new sentences of changes, of the columns of `SENTENCES`; all of those whose text before is not known."""
    rows = list[dict[str, Any]]()
    for number, change in enumerate(changes.to_pylist()):
        known = {sentence.text for sentence in sentences_of(change["before"] or "")}
        lines = is_verbatim(change["kind"], change["path"])
        for sentence in sentences_of(change["after"] or ""):
            if sentence.text not in known:
                line = change["line"] and change["line"] + (sentence.lines_above if lines else 0)
                kept = {name: change[name] for name in ("memory_id", "date", "path", "title")}
                more = {"row": number, "line": line, "is_heading": sentence.is_heading, "text": sentence.text}
                rows.append({**kept, **more})
    return pa.Table.from_pylist(rows, SENTENCES)


def gone_sentences(change: dict[str, Any]) -> list[str]:
    """The sentences that only the text before has."""
    known = {sentence.text for sentence in sentences_of(change["after"] or "")}
    return [sentence.text for sentence in sentences_of(change["before"] or "") if sentence.text not in known]
