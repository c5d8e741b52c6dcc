"""Secrets in memories, as rows of problems (listed only on request), and a mask that hides them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.faults import ADVICE, SEVERITIES
from memkit.schemas import PROBLEMS, is_verbatim
from memkit.text.secrets import LEAST, OF_PASSWORD, SECRETS, Finding, Mask, Secret, is_mixed, kinds_in

_SEARCHED_FIELDS = ("title", "text", "tags", "extra")
_WHERE = ("memory_id", "path", "kind", "line_start")
_RUN, _LONGEST, _AT_ONCE, _MANY = re.compile(r"[^\W_]+"), 500, 200, 2_000
_PHRASE = f"(?i:{'|'.join(OF_PASSWORD)})"
"""What a text with a pass phrase matches, which has no part of letters and digits."""
_MEANING = {secret.name: secret.meaning for secret in reversed(SECRETS)}


def secrets_in(memories: pa.Table) -> tuple[pa.Table, Mask]:
    """A row of ``problems`` for each secret in a memory's title, text, tags or other fields, and a mask that hides them
    in messages about the same memories; no row shows the secret.

    >>> problems, mask = secrets_in(pa.table({"path": ["a.md"], "text": ["Чай.\\nПароль: sova-2026"]}))
    >>> print(problems["message"][0].as_py().partition("Got ")[2])
    a password that is named as one, 9 characters. Remove it from the file, and revoke it.
    """
    names, hide = [name for name in (*_WHERE, *_SEARCHED_FIELDS) if name in memories.column_names], Mask()
    kinds = {name: kinds_in(_texts_of(memories[name])) for name in _SEARCHED_FIELDS if name in names}
    some = sorted({row for of_rows in kinds.values() for row in of_rows})
    mask = np.zeros(len(memories), bool)
    mask[some] = True
    looked_at = memories.select(names).filter(pa.array(mask)).to_batches(max_chunksize=1_000)
    found = [
        problem
        for number, row in zip(some, (row for few in looked_at for row in few.to_pylist()), strict=True)
        for problem in _problems(row, {name: of_rows[number] for name, of_rows in kinds.items()}, hide)
    ]
    return pa.Table.from_pylist(found, schema=PROBLEMS), hide


def named_in(memories: pa.Table, texts: Iterable[str]) -> Mask:
    """A mask for `texts` of the values in them that some of the memories calls a secret: one search for all of them.

    >>> hide = named_in(pa.table({"text": ["Чай.", "Пароль: sova-2026"]}), ["root / sova-2026, чай"])
    >>> hide.again("root / sova-2026, чай")
    'root / [password hidden], чай'
    """
    parts = sorted({re.escape(part) for text in texts for token in text.split() for part in _mixed_parts(token)})
    if len(parts) > _MANY:  # a long diff
        return secrets_in(memories)[1]
    looks = ["|".join(parts[start : start + _AT_ONCE]) for start in range(0, len(parts), _AT_ONCE)]
    columns = [_texts_of(memories[name]) for name in _SEARCHED_FIELDS if name in memories.column_names]
    says = [pc.match_substring_regex(column, look) for column in columns for look in looks]
    says.append(pc.match_substring_regex(memories["text"], _PHRASE))
    named = reduce(pc.or_, (pc.fill_null(one, False) for one in says))  # few, for which RE2 would be made anew
    return Mask(text for column in columns for text in column.filter(named).to_pylist() if text)


def _mixed_parts(token: str) -> Iterator[str]:
    """The least parts of a token, from word to word, that a secret within it could be known again by."""
    words = [match.span() for match in _RUN.finditer(token[:_LONGEST])]
    for last, (_, end) in enumerate(words):
        parts = (token[start:end] for start, _ in reversed(words[: last + 1]) if end - start >= LEAST)
        if part := next(filter(is_mixed, parts), None):
            yield part


def _texts_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts of a column; those of a list, a line each."""
    return pc.binary_join(column, "\n") if pa.types.is_list(column.type) else column


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
