"""The files of one user's facts: what is in them, and the few ways in which they change."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa

from memkit.change.draft import Draft
from memkit.change.operations import checked, missing
from memkit.errors import ParameterError, PolicyRefusal
from memkit.formats.disk.source import Source, decode
from memkit.formats.facts import (
    COUNTED,
    FORMAT,
    KEPT,
    OLD_LAYOUT,
    TYPES,
    home_of,
    is_user_file,
    old_alone,
    parse,
    parse_fact,
)
from memkit.formats.format import File, Role
from memkit.formats.rows import Rows
from memkit.formats.syntax.json import load_json
from memkit.formats.syntax.node import StructureError
from memkit.formats.syntax.places import Json, Splice, spliced, with_values
from memkit.formats.syntax.values import day_of
from memkit.policy.admission import Admission
from memkit.policy.dedup.near import normalise
from memkit.schemas import IMPORTANCES, TABLES

Row = dict[str, Any]
_USER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
GUESSED = "guessedEnds"
_PREFIX = {"profile": "pf", "working": "wk", "archive": "ar"}
_ID = re.compile(r"(pf|wk|ar)_(\d+)")
_MOST_FILES = 3_000
"""That are kept as they were read: those of a thousand users."""


@dataclass(frozen=True)
class Parsed:
    """A fact file as it was read: its text, a row a line as ``memories`` has them, and each row's text for dedup."""

    text: str
    rows: list[Row]
    said: list[str]
    highest: dict[str, int]

    @classmethod
    def of(cls, path: str, text: str, before: Parsed | None = None, *, is_old: bool = False) -> Parsed:
        """What `text` holds; a line that was there `before` is not read again. `is_old`: of the old layout."""
        if before is not None and before.text == text:
            return before
        rows, said = before.followed(path, text) if before and not is_old else ([], [])
        if not rows:
            rows = _rows(path, text, is_old)
            said = _said(rows)
        highest: dict[str, int] = {}
        for row in rows:
            if match := _ID.fullmatch(row["source_id"] or ""):
                highest[match[1]] = max(highest.get(match[1], 0), int(match[2]))
        return cls(text, rows, said, highest)

    def followed(self, path: str, text: str) -> tuple[list[Row], list[str]]:
        """Rows and texts for dedup of `text`, of which only new lines are read; nothing where lines are not enough.

        An id depends on the other lines where it is none of the line's own, or there twice.
        """
        old, lines = self.text.split("\n"), text.split("\n")
        known = {old[row["line_start"] - 1]: place for place, row in enumerate(self.rows)}
        new = [number for number, line in enumerate(lines) if line.strip() and line not in known]
        fresh = _rows(path, "\n".join(lines[number] for number in new))
        if "\ufeff" in text or text.endswith("\r") or len(fresh) < len(new):
            return [], []
        there = {
            number: (self.rows[known[line]], self.said[known[line]])
            for number, line in enumerate(lines)
            if line in known
        }
        there |= dict(zip(new, zip(fresh, _said(fresh), strict=True), strict=True))
        rows = [{**there[n][0], "line_start": n + 1, "line_end": n + 1} for n in sorted(there)]
        has_own_ids = all(row["source_id"] and row["memory_id"].endswith(f"#{row['source_id']}") for row in rows)
        if not has_own_ids or len({row["memory_id"] for row in rows}) < len(rows):
            return [], []
        return rows, [there[n][1] for n in sorted(there)]


def _said(rows: list[Row]) -> list[str]:
    return normalise([row["text"] if row["kind"] in TYPES else "" for row in rows])


def _rows(path: str, text: str, is_old: bool = False) -> list[Row]:
    """The memories of a file."""
    rows = Rows()
    rows.use(FORMAT)
    role = Role(told=((FORMAT.name, OLD_LAYOUT),)) if is_old else Role()
    parse(File(decode(path, text.encode()), role), rows)
    found: list[Row] = rows.table("memories").to_pylist()
    return found


Read = dict[str, Parsed]
"""The files that were read last, by path; they are looked at once more only where they changed."""


@dataclass
class UserFacts:
    """The facts of one user as they are, file by file."""

    home: str
    files: Read = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """A row a line of all files."""
        return [row for file in self.files.values() for row in file.rows]

    def fact(self, id: str) -> Row:
        """The first fact of that id."""
        for row in self.rows:
            if row["source_id"] == id:
                return row
        raise missing("fact", id, [row["source_id"] or "" for row in self.rows])

    def holding(self, text: str) -> list[Row]:
        """The facts whose text holds `text` or lies within it, case and blanks aside."""
        (new,) = normalise([text])
        return [
            row
            for file in self.files.values()
            for row, said in zip(file.rows, file.said, strict=True)
            if said and (said in new or new in said)
        ]


def table(rows: list[Row]) -> pa.Table:
    """Rows of facts as Arrow has them."""
    return pa.Table.from_pylist(rows, schema=TABLES["memories"])


def one_line(text: object) -> str:
    """A given text as a line can hold it."""
    return " ".join(checked(text, "text", filled=False).split("\n")).strip()


def home(draft: Draft) -> str:
    """The folder of the users' folders."""
    return home_of(draft.exists, lambda folder: bool(_old_in(draft, folder)))


def _old_in(draft: Draft, folder: str) -> list[str]:
    """The old files of users that are all that a folder holds."""
    above = posixpath.dirname(folder)
    return old_alone(
        _below(draft, folder),
        beside=lambda name: draft.exists(posixpath.join(above, name)),
        read=lambda name: _source(draft, posixpath.join(folder, name)),
    )


def _source(draft: Draft, path: str) -> Source | None:
    text = draft.tail_of(path)
    return None if text is None else decode(path, text.encode())


def _below(draft: Draft, folder: str) -> list[str]:
    """The names of what a folder holds, at any depth, but for what is hidden."""
    found = []
    for name in draft.names(folder):
        if not name.startswith("."):
            inner = _below(draft, f"{folder}/{name}")
            found += [f"{name}/{below}" for below in inner] or [name]
    return found


def old_files(draft: Draft) -> dict[str, str]:
    """The users who have a file of the old layout, and its path."""
    place = home(draft)
    above = posixpath.dirname(place)
    names = [name for name in draft.names(above) if name.endswith(".md") and is_user_file(name)]
    if names and not draft.exists(place):
        names = _old_in(draft, above) if above else []
    return {name[:-3]: posixpath.join(above, name) for name in names if _USER.fullmatch(name[:-3])}


def old_file(draft: Draft, user: str) -> str | None:
    """The file of the old layout that a user has."""
    path = posixpath.join(posixpath.dirname(home(draft)), f"{user}.md")
    return old_files(draft).get(user) if draft.exists(path) else None


def users_of(draft: Draft) -> list[str]:
    """The users that have a folder."""
    return [name for name in draft.names(home(draft)) if _USER.fullmatch(name)]


def known(draft: Draft) -> list[str]:
    """The users that have a folder or a file of the old layout."""
    return sorted({*users_of(draft), *old_files(draft)})


def load(draft: Draft, user: str, known: Read) -> UserFacts:
    """The facts of a user as they are; `known` are the files as they were, and is brought up to date."""
    facts = UserFacts(f"{home(draft)}/{user}")
    paths = [f"{facts.home}/{kind}.md" for kind in TYPES]
    for path in [*filter(draft.exists, paths), *filter(None, [old_file(draft, user)])]:
        before = known.pop(path, None)
        facts.files[path] = known[path] = Parsed.of(path, draft.text(path), before, is_old=path not in paths)
    while len(known) > _MOST_FILES:
        del known[next(iter(known))]
    return facts


def no_user(draft: Draft, user: str) -> str:
    """What to say of a user of whom nothing is known; nothing where there is something."""
    names = known(draft)
    return "" if user in names else str(missing("user", user, names))


def meta_of(draft: Draft, facts: UserFacts) -> str:
    """The text of a user's meta.json, as it is or as a first one."""
    first = f"{json.dumps({'version': 2, **dict.fromkeys(COUNTED, 0)}, indent=2)}\n"
    return draft.tail_of(f"{facts.home}/meta.json") or first


def guessed_ends(draft: Draft, facts: UserFacts) -> list[str]:
    """The ids of the facts whose end only the classifier said."""
    try:
        found = load_json(meta_of(draft, facts))
    except StructureError:
        return []
    ids = found.get(GUESSED) if isinstance(found, Mapping) else None
    return [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []


def next_id(meta: str, facts: UserFacts, kind: str, more: int = 0) -> tuple[str, str]:
    """One above the highest id of its prefix that ever was, and the text of meta.json that remembers it."""
    prefix = _PREFIX[kind]
    used = [file.highest.get(prefix, 0) for file in facts.files.values()]
    given = Json(meta)
    last = given.find(["lastIds", prefix])
    ever = int(meta[last.value : last.end]) if last and meta[last.value : last.end].isdigit() else 0
    number = max([ever, *(highest + more for highest in used)]) + 1
    is_first = given.find(["lastIds"]) is None
    new = given.set_value(["lastIds"], {prefix: number}) if is_first else given.set_value(["lastIds", prefix], number)
    return f"{prefix}_{number:03d}", spliced(meta, [new])


def write_meta(draft: Draft, facts: UserFacts, meta: str, more: Iterable[str], gone: Iterable[Row]) -> None:
    """Draft the ``meta.json``: ids, version 2, and how many facts each file has with these kinds more."""
    counts = Counter(f"{facts.home}/{kind}.md" for kind in more)
    counts.update(path for path, file in facts.files.items() for row in file.rows if row["kind"] != "line")
    counts.subtract(row["path"] for row in gone)
    values: Row = {name: counts[f"{facts.home}/{of}.md"] for name, of in COUNTED.items()}
    values |= {"version": 2} if Json(meta).find(["version"]) is None else {}
    draft.write(f"{facts.home}/meta.json", with_values(meta, values, Json), "counters and the last ids")


def append(draft: Draft, facts: UserFacts, path: str, line: str, reason: str) -> None:
    """Draft one more line."""
    before = facts.files[path].text if path in facts.files else None
    newline = "\r\n" if before and "\r\n" in before else "\n"
    draft.append(path, before, f"{line}{newline}", reason)


def remove_from_backup(draft: Draft, facts: UserFacts, user: str, text: str) -> None:
    """Draft that a text goes from ``{user}.md.bak`` too, which the migration of the old layout left."""
    path = posixpath.join(posixpath.dirname(posixpath.dirname(facts.home)), f"{user}{KEPT}")
    if not draft.exists(path):
        return
    with draft.attempt(path, None):
        for number, line in enumerate(draft.text(path).split("\n"), 1):
            if line.strip().lstrip("-* ") == text.strip():
                gone = Splice(*draft.document(path).lines(number, number), "")
                draft.splice("delete", path, gone, "forgotten in the old file too")


def replace_text(draft: Draft, row: Row, text: str) -> None:
    """Draft another text behind the tags of a fact."""
    document = draft.document(row["path"])
    start, end = document.lines(row["line_start"], row["line_end"])
    line = document.text[start:end].rstrip("\r\n")
    fact = parse_fact(line)
    new = line[: len(line) - len(row["text"])] + text
    if fact is None or not line.endswith(row["text"]) or parse_fact(new) != {**fact, "text": text}:
        raise ParameterError(f"update: the text would be read as something else. Got {text!r:.80}.")
    splice = Splice(start, start + len(line), new)
    draft.splice("update", row["path"], splice, "another text", memory_id=row["memory_id"])


_REFUSED = {
    "length": "a fact has {low} to {high} characters.",
    "question": "a question is no fact.",
    "command": "a command is no fact.",
    "secret": "what looks like a key, token or password is not kept.",
}


def refusal(row: Row, admission: Admission) -> PolicyRefusal:
    """Why admission does not take a text; what looks like a secret is not said again."""
    reason = row["reason"]
    said = _REFUSED[reason].format(low=admission.min_chars, high=admission.max_chars)
    span = f" Got {row['matched_span']!r:.80}." if row["matched_span"] and reason != "secret" else ""
    return PolicyRefusal(f"{reason}: {said}{span}", reason)


def check_user(user: str) -> None:
    """Raise where `user` cannot be the name of a folder.

    Raises
    ------
    ParameterError
    """
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise ParameterError(f"user: expected letters, digits, '_', '-' and '.'. Got {user!r:.80}.")


_SPELLINGS = {"expiresAt": "expires_at"}
"""How the document spells what is a column here."""


def given_of(meta: object) -> Row:
    """type, importance and expires_at as columns, every one checked; ``expiresAt`` is the document's spelling."""
    if not isinstance(meta, Mapping):
        raise ParameterError(f"meta: expected a mapping with type, importance, expires_at. Got {meta!r:.80}.")
    given = {_SPELLINGS.get(name, name): value for name, value in meta.items()}
    unknown = [name for name in given if name not in ("type", "importance", "expires_at")]
    if unknown or len(given) < len(meta):
        got = unknown[0] if unknown else "expires_at twice"
        raise ParameterError(f"meta: expected type, importance, expires_at. Got {got!r:.80}.")
    kind, importance, expires = (given.get(name) for name in ("type", "importance", "expires_at"))
    if kind is not None and kind not in TYPES:
        raise ParameterError(f"meta: 'type' must be one of {', '.join(TYPES)}. Got {kind!r:.80}.")
    if importance is not None and importance not in IMPORTANCES:
        raise ParameterError(f"meta: 'importance' must be one of {', '.join(IMPORTANCES)}. Got {importance!r:.80}.")
    said = expires.isoformat() if isinstance(expires, date) else expires
    day = day_of(said) if isinstance(said, str) else None
    if expires is not None and day is None:
        raise ParameterError(f"meta: 'expires_at' must be a date YYYY-MM-DD. Got {expires!r:.80}.")
    return {"kind": kind, "importance": importance, "expires_at": day}
