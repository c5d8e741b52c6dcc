"""Secrets in memories, as rows of problems (listed only on request), and a mask that hides them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.display.sheet import OF_MEMORY, texts_of
from memkit.formats.rows import ADVICE, SEVERITIES
from memkit.schemas import PROBLEMS, is_verbatim, present
from memkit.text.secrets import SECRETS, Finding, Mask, Secret, kinds_in

_WHERE = ("memory_id", "path", "kind", "line_start")
_AT_ONCE, _PART = 200, 2_000
"""Values that are looked for, and memories that are copied where they may hold some, at a time; round numbers."""
_MEANING = {secret.name: secret.meaning for secret in reversed(SECRETS)}


def secrets_in(memories: pa.Table) -> tuple[pa.Table, Mask]:
    """A row of ``problems`` for each secret in a memory's title, text, tags or other fields, and a mask that hides them
    in messages about the same memories; no row shows the secret.

    >>> problems, mask = secrets_in(pa.table({"path": ["a.md"], "text": ["Чай.\\nПароль: sova-2026"]}))
    >>> print(problems["message"][0].as_py().partition("Got ")[2])
    a password that is named as one, 9 characters. Remove it from the file, and revoke it.
    """
    names, hide = present(memories, (*_WHERE, *OF_MEMORY)), Mask()
    kinds = {name: kinds_in(texts_of(memories[name])) for name in OF_MEMORY if name in names}
    some = sorted({row for of_rows in kinds.values() for row in of_rows})
    mask = np.zeros(len(memories), bool)
    mask[some] = True
    columns, keep = memories.select(names), pa.array(mask)
    parts = (columns.slice(start, _PART).filter(keep.slice(start, _PART)) for start in range(0, len(mask), _PART))
    found = [
        problem
        for number, row in zip(some, (row for few in parts for row in few.to_pylist()), strict=True)
        for problem in _problems(row, {name: of_rows[number] for name, of_rows in kinds.items()}, hide)
    ]
    return pa.Table.from_pylist(found, schema=PROBLEMS), hide


def learned(hide: Mask, texts: pa.ChunkedArray) -> dict[int, list[Finding]]:
    """The secrets of texts by row; what the texts hold is hidden by `hide` from now on."""
    kinds = kinds_in(texts := texts_of(texts))
    found = ((row, hide.learn(texts[row].as_py(), of_row)) for row, of_row in kinds.items())
    return {row: findings for row, findings in found if findings}


def masked(
    texts: pa.ChunkedArray, hide: Mask, found: Mapping[int, list[Finding]], said: str = "[{} hidden]"
) -> pa.ChunkedArray:
    """Many texts as `hide` shows each, of which `learned` told what is `found`: few are looked into.

    >>> texts, hide = pa.chunked_array([["пароль: sova-2026", "root / sova-2026", "чай"]]), Mask()
    >>> masked(texts, hide, learned(hide, texts)).to_pylist()
    ['пароль: [password hidden]', 'root / [password hidden]', 'чай']
    """
    begins, says = sorted(map(re.escape, hide.lengths)), np.zeros(len(texts), bool)
    for start in range(0, len(begins), _AT_ONCE):
        begun = pc.match_substring_regex(texts, "|".join(begins[start : start + _AT_ONCE]))
        says |= np.asarray(pc.fill_null(begun, False), bool)
    says[[*found]] = True
    some = zip(np.flatnonzero(says).tolist(), texts.filter(pa.array(says)).to_pylist(), strict=True)
    shown = [hide.again(text, said, found.get(row, [])) for row, text in some]
    return pc.replace_with_mask(texts, pa.array(says), pa.array(shown, pa.string())) if shown else texts


def _problems(row: dict[str, Any], kinds: Mapping[str, Sequence[Secret]], hide: Mask) -> Iterator[dict[str, Any]]:
    """The secrets of one memory; `kinds` are those that each of its fields can hold."""
    text = row.get("text") or ""
    for field in kinds:
        value = row.get(field) or ""
        value = value if isinstance(value, str) else "\n".join(filter(None, value))
        if field == "title" and value in text:  # a heading is in both, and reported once
            continue
        for finding in hide.learn(value, kinds[field]):
            yield _problem(row, field, value, finding)


def _problem(row: dict[str, Any], field: str, value: str, finding: Finding) -> dict[str, Any]:
    line, path = row.get("line_start"), row.get("path")
    if line and field == "text" and is_verbatim(row.get("kind"), path):
        line += value.count("\n", 0, finding.start)
    where = f"{path}:{line}" if line else path or row.get("memory_id")
    came = f"{_MEANING[finding.name]}, {finding.end - finding.start} characters"
    return {
        "path": path,
        "line": line,
        "field": field,
        "rule": "secret",
        "severity": SEVERITIES["secret"],
        "status": "invalid",
        "message": f"{where}: field '{field}' must hold no secret. Got {came}. {ADVICE['secret']}",
        "memory_id": row.get("memory_id"),
    }
