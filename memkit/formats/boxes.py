"""Checkboxes of Markdown, in the memories of any format: the table ``checklist``."""

from __future__ import annotations

import re
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.fences import fences
from memkit.formats.rows import Row, to_table
from memkit.schemas import TABLES, is_verbatim

_FEW = 10_000
"""Memories that are looked at at the same time."""
_ANY = r"\[[ xX]\]"
# What a bracket or a parenthesis follows is a link.
_BOX = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\](?![(\[:])[ \t]*(.*)")
_FIRST = re.compile(r"\[([ xX])\](?![(\[:])[ \t]+(.*)")
"""A box at the begin of a text whose format has taken the mark of the list away, as that of facts does."""


def checklist_of(memories: pa.Table) -> pa.Table:
    """Every check box outside of code fences, with its file and line; cost linear in the texts.

    A text that is not lines of its file, as those of records, has the line of its record.

    Examples
    --------
    >>> import memkit as mk
    >>> memories = mk.from_table({"text": ["Выкладка:\\n- [x] тесты\\n  1. [ ] откат"]}).memories
    >>> checklist_of(memories).select(["done", "text"]).to_pylist()
    [{'done': True, 'text': 'тесты'}, {'done': False, 'text': 'откат'}]
    """
    rows = list[Row]()
    names = ["memory_id", "path", "kind", "line_start", "text"]
    batches = memories.select(names).to_batches(max_chunksize=_FEW)
    having = (batch.filter(pc.match_substring_regex(batch["text"], _ANY)).to_pylist() for batch in batches)
    for memory in chain.from_iterable(having):
        text, first = memory["text"], memory["line_start"]
        are_lines, code = is_verbatim(memory["kind"], memory["path"]), fences(text)
        for number, line in enumerate(text.split("\n"), 1):
            match = _BOX.match(line) or (_FIRST.match(line) if number == 1 and not are_lines else None)
            if match is None or number in code:
                continue
            where = first + number - 1 if first is not None and are_lines else first
            row = {"memory_id": memory["memory_id"], "path": memory["path"], "line": where}
            rows.append({**row, "done": match[1] != " ", "text": match[2].strip()})
    return to_table(rows, TABLES["checklist"])
