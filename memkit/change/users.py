"""The files of one user's facts: what is in them, and the few ways in which they change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa

from memkit.change.draft import Draft
from memkit.change.store import missing
from memkit.errors import ParameterError
from memkit.formats.disk.source import decode
from memkit.formats.facts import COUNTED, FORMAT, TYPES, parse, parse_fact
from memkit.formats.format import File
from memkit.formats.rows import Rows
from memkit.formats.syntax.json_places import Splice, find, set_value, spliced, start_of
from memkit.formats.syntax.values import day_of
from memkit.schemas import TABLES

Row = dict[str, Any]
HOMES = ("users", "memory/users", "data/memory/users")
"""Where the users' folders may lie; the first that is there counts, and `HOMES[0]` where none is."""
_USER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_PREFIX = {"profile": "pf", "working": "wk", "archive": "ar"}
_ID = re.compile(r"(pf|wk|ar)_(\d+)")


@dataclass
class UserFacts:
    """The facts of one user as they are: rows as ``memories`` has them, and the files."""

    home: str
    rows: list[Row] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def table(self, *more: Row) -> pa.Table:
        return pa.Table.from_pylist([*self.rows, *more], schema=TABLES["memories"])

    def fact(self, id: str) -> Row:
        """The first fact of that id."""
        for row in self.rows:
            if row["source_id"] == id:
                return row
        raise missing("fact", id, [row["source_id"] or "" for row in self.rows])


def home_of(exists: Callable[[str], bool]) -> str:
    """The folder of the users' folders."""
    return next((home for home in HOMES if exists(home)), HOMES[0])


def users_of(draft: Draft) -> list[str]:
    """The users that have a folder."""
    home = home_of(draft.exists)
    return [name for name in draft.names(home) if _USER.fullmatch(name)]


def load(draft: Draft, user: str) -> UserFacts:
    """The facts of a user as they are."""
    facts = UserFacts(f"{home_of(draft.exists)}/{user}")
    rows = Rows()
    rows.use(FORMAT)
    for kind in TYPES:
        path = f"{facts.home}/{kind}.md"
        if draft.exists(path):
            facts.texts[path] = draft.text(path)
            parse(File(decode(path, facts.texts[path].encode())), rows)
    facts.rows = rows.to_arrow()["memories"].to_pylist()
    return facts


def next_id(draft: Draft, facts: UserFacts, kind: str) -> tuple[str, str]:
    """One above the highest id of its prefix that ever was, and the text of meta.json that remembers it."""
    prefix = _PREFIX[kind]
    used = [
        int(match[2]) for row in facts.rows if (match := _ID.fullmatch(row["source_id"] or "")) and match[1] == prefix
    ]
    path = f"{facts.home}/meta.json"
    meta = draft.tail_of(path) or f"{json.dumps({'version': 2, **dict.fromkeys(COUNTED, 0)}, indent=2)}\n"
    last = find(meta, ["lastIds", prefix], start_of(meta))
    ever = int(meta[last.value : last.end]) if last and meta[last.value : last.end].isdigit() else 0
    number = max([ever, *used]) + 1
    if find(meta, ["lastIds"]) is None:
        meta = spliced(meta, [set_value(meta, ["lastIds"], {prefix: number})])
    else:
        meta = spliced(meta, [set_value(meta, ["lastIds", prefix], number)])
    return f"{prefix}_{number:03d}", meta


def write_meta(draft: Draft, facts: UserFacts, meta: str, counts: dict[str, int], evicted: int) -> None:
    """Draft the ``meta.json``: ids, version 2, and how many facts each file then has."""
    counts = counts | {"archive": counts["archive"] - evicted}
    for name, of in COUNTED.items():
        meta = spliced(meta, [set_value(meta, [name], counts[of])])
    if find(meta, ["version"]) is None:
        meta = spliced(meta, [set_value(meta, ["version"], 2)])
    draft.write(f"{facts.home}/meta.json", meta, "counters and the last ids")


def append(draft: Draft, facts: UserFacts, path: str, line: str, reason: str) -> None:
    """Draft one more line."""
    before = facts.texts.get(path)
    newline = "\r\n" if before and "\r\n" in before else "\n"
    draft.append(path, before, f"{line}{newline}", reason)


def remove(draft: Draft, row: Row, reason: str) -> None:
    """Draft that a fact's line goes."""
    start, end = draft.lines(row["path"], row["line_start"], row["line_end"])
    draft.splice("delete", row["path"], Splice(start, end, ""), reason, memory_id=row["memory_id"])


def replace_text(draft: Draft, row: Row, text: str) -> None:
    """Draft another text behind the tags of a fact."""
    start, end = draft.lines(row["path"], row["line_start"], row["line_end"])
    line = draft.text(row["path"])[start:end].rstrip("\r\n")
    fact = parse_fact(line)
    new = line[: len(line) - len(row["text"])] + text
    if fact is None or not line.endswith(row["text"]) or parse_fact(new) != {**fact, "text": text}:
        raise ParameterError(f"update: the text would be read as something else. Got {text!r:.80}.")
    splice = Splice(start, start + len(line), new)
    draft.splice("update", row["path"], splice, "another text", memory_id=row["memory_id"])


def check_user(user: str) -> None:
    """Raise where `user` cannot be the name of a folder.

    Raises
    ------
    ParameterError
    """
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise ParameterError(f"user: expected letters, digits, '_', '-' and '.'. Got {user!r:.80}.")


def given_of(meta: Mapping[str, Any]) -> Row:
    """type, importance and expires_at as columns, every one checked."""
    unknown = meta.keys() - {"type", "importance", "expires_at"}
    if unknown:
        raise ParameterError(f"meta: expected type, importance, expires_at. Got {min(unknown)!r:.80}.")
    kind, importance, expires = (meta.get(name) for name in ("type", "importance", "expires_at"))
    if kind is not None and kind not in TYPES:
        raise ParameterError(f"meta: 'type' must be one of {', '.join(TYPES)}. Got {kind!r:.80}.")
    if importance is not None and importance not in ("high", "normal", "low"):
        raise ParameterError(f"meta: 'importance' must be one of high, normal, low. Got {importance!r:.80}.")
    day = None if expires is None else day_of(expires.isoformat() if isinstance(expires, date) else expires)
    if expires is not None and day is None:
        raise ParameterError(f"meta: 'expires_at' must be a date YYYY-MM-DD. Got {expires!r:.80}.")
    return {"kind": kind, "importance": importance, "expires_at": day}
