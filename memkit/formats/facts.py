"""Fact lines: ``users/{userId}/profile.md``, ``working.md``, ``archive.md`` and the counters of ``meta.json``.

A line is ``- [id:pf_001] [t:profile] [imp:high] [exp:2026-03-01] [created:2026-01-02] text``: the tags lead, in any
order, each once; a bracket group after them is text.

>>> fact = parse_fact("- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Ставим [v:2] бота")
>>> fact["text"], fact["exp"]
('Ставим [v:2] бота', '2026-03-01')
>>> format_fact(fact) == "- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Ставим [v:2] бота"
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memkit.errors import FormatError
from memkit.formats.disk.source import Source
from memkit.formats.rows import Row, Rows, json_text
from memkit.formats.syntax.json import load_json, name_lines
from memkit.formats.syntax.node import Node, StructureError, clean
from memkit.formats.syntax.values import day_of, integer_of
from memkit.schemas import IMPORTANCE_WORDS

TAGS = ("id", "t", "imp", "exp", "created")
TYPES = ("profile", "working", "archive")
COUNTED = {"profileCount": "profile", "workingCount": "working", "archiveCount": "archive"}
_REQUIRED = ("id", "t", "imp")
_TAG = re.compile(r" *\[(id|t|imp|exp|created):([^\]\n]*)\]")
_FACT_LIKE = re.compile(r"^- \[(?:id|t|imp|exp|created):", re.MULTILINE)
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_fact(line: str) -> dict[str, str] | None:
    """The tags and the ``text`` of one line, as written; None where no tag leads the line."""
    if not line.startswith("- ["):
        return None
    fact: dict[str, str] = {}
    at = 1
    while (match := _TAG.match(line, at)) and match.group(1) not in fact:
        fact[match.group(1)] = match.group(2)
        at = match.end()
    return {**fact, "text": line[at:].removeprefix(" ")} if fact else None


def format_fact(fact: Mapping[str, str | None]) -> str:
    """The line that `parse_fact` reads back as `fact`.

    Raises
    ------
    FormatError
        Where a required tag is missing, a field is not a tag, a value cannot stand in a tag, a date does not exist, or
        the text would be read as a tag or as more than one line, or cannot be written as UTF-8.
    """
    for name in _REQUIRED:
        if not fact.get(name):
            raise FormatError(f"field '{name}' must be there. Got {fact.get(name)!r}.", field=name)
    for name in fact.keys() - {*TAGS, "text"}:
        raise FormatError(f"field '{name}' must be one of {', '.join(TAGS)} or text.", field=name)
    values = {name: str(fact[name]) for name in TAGS if fact.get(name) is not None}
    for name, value in values.items():
        if set(value) & set("]\n\r"):
            raise FormatError(f"field '{name}' must hold no ']' and no line end. Got {value!r}.", field=name)
        if name in ("exp", "created") and day_of(value) is None:
            raise FormatError(f"field '{name}' must be a date YYYY-MM-DD. Got {value!r}.", field=name)
    text = fact.get("text") or ""
    if "\n" in text or "\r" in text:
        raise FormatError(f"field 'text' must be one line. Got {text!r}.", field="text")
    if not text.isprintable() and clean(text) != text:
        raise FormatError("field 'text' must be Unicode without lone surrogates.", field="text")
    if _TAG.match(text):
        raise FormatError(f"field 'text' must not open with a tag. Got {text!r}.", field="text")
    return "- " + "".join(f"[{name}:{value}] " for name, value in values.items()) + text


def user_of(path: str) -> str | None:
    """The user whose folder holds `path`: the one below the last ``users/``."""
    parts = path.split("/")[:-1]
    return parts[-1] if len(parts) >= 2 and parts[-2] == "users" else None


def claims(path: str, text: str) -> bool:
    """Whether a Markdown file holds facts: by its place and name, or as most of its lines are fact lines."""
    if user_of(path) and path.rpartition("/")[2] in ("profile.md", "working.md", "archive.md"):
        return True
    if not _FACT_LIKE.search(text):
        return False
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    return 2 * len(_FACT_LIKE.findall(text)) >= len(lines)


def is_old(path: str, folders: set[str]) -> bool:
    """Whether `path` is a ``{userId}.md`` of the old layout, beside a ``users/`` folder."""
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".md")
    home = f"{folder}/users" if folder else "users"
    return home in folders and name.endswith(".md") and not stem.isupper() and not _DATED.match(stem)


def parse(source: Source, rows: Rows, *, old: bool = False) -> None:
    """Each line of a fact file to its rows."""
    expected = source.stem if source.stem in TYPES else None
    reader = _Facts(source, rows, source.stem if old else user_of(source.path), expected, old)
    for number, line in enumerate(source.lines, 1):
        if line.strip():
            reader.read(number, line)
    if old:
        reason = "the old layout has one file a user; its lines are archive facts"
        row = {"path": source.path, "kind": "fact", "from_version": "1", "to_version": "2", "reason": reason}
        rows.add("migrations", row)
    if not source.text.strip():
        rows.problem("empty_text", source.path, "fact lines", "an empty file", quote=False)


class _Facts:
    """One fact file under way."""

    def __init__(self, source: Source, rows: Rows, user: str | None, expected: str | None, old: bool) -> None:
        self.path, self.rows, self.user, self.expected, self.old = source.path, rows, user, expected, old

    def read(self, number: int, line: str) -> None:
        fact = parse_fact(line)
        untagged = fact is None and self.old and line.startswith(("- ", "* "))
        if untagged:
            fact = {"t": "archive", "text": line[2:]}
        memory_id = self.rows.new_id(
            "facts", self.path, (fact and fact.get("id")) or number, fact["text"] if fact else line
        )
        row: Row = {
            "memory_id": memory_id,
            "format": "facts",
            "user_id": self.user,
            "title": "",
            "tags": [],
            "path": self.path,
            "line_start": number,
            "line_end": number,
            "extra": "{}",
        }
        if fact is None:
            self.rows.add("memories", {**row, "kind": "line", "text": line})
            self.rows.problem("not_a_fact", self.path, "a fact line", line, line=number, memory_id=memory_id)
        else:
            if not untagged:
                self._check(fact, memory_id, number)
            self._add(fact, row, number)

    def _add(self, fact: dict[str, str], row: Row, number: int) -> None:
        memory_id = row["memory_id"]
        self.rows.own_id(memory_id, self.path, number, "id", self.path.rpartition("/")[0], fact.get("id"))
        kind, importance = fact.get("t"), fact.get("imp")
        days = {name: day_of(fact[name]) if name in fact else None for name in ("exp", "created")}
        own = {
            "source_id": fact.get("id"),
            "kind": kind if kind in TYPES else self.expected or ("archive" if self.old else None),
            "importance": IMPORTANCE_WORDS.get(importance or ""),
            "text": fact["text"],
            "created_at": days["created"],
            "updated_at": days["created"],
            "expires_at": days["exp"],
        }
        if undated := {name: fact[name] for name, day in days.items() if name in fact and day is None}:
            own["extra"] = json_text(undated)
        self.rows.add("memories", row | own)
        self.rows.add(
            "facts",
            {
                "memory_id": memory_id,
                "path": self.path,
                "line": number,
                "user_id": self.user,
                "id": fact.get("id"),
                "type": kind,
                "importance": importance,
                "expires_at": days["exp"],
                "created_at": days["created"],
                "text": fact["text"],
            },
        )

    def _check(self, fact: dict[str, str], memory_id: str, number: int) -> None:
        def problem(rule: str, field: str | None, expected: str, got: object) -> None:
            self.rows.problem(rule, self.path, expected, got, line=number, field=field, memory_id=memory_id)

        for name in _REQUIRED:
            if not fact.get(name):
                problem("missing_field", name, "", "nothing")
        for name in ("exp", "created"):
            if name in fact and day_of(fact[name]) is None:
                problem("bad_date", name, "a date YYYY-MM-DD", fact[name])
        kind = fact.get("t")
        if self.expected and kind in TYPES and kind != self.expected:
            problem("type_file_mismatch", "t", f"'{self.expected}', as the file is named", kind)
        if not fact["text"].strip():
            problem("empty_text", None, "a fact with text", fact["text"])
        self.rows.check("facts", dict(fact), self.path, memory_id, number)


def parse_meta(source: Source, rows: Rows) -> None:
    """The counters of a ``meta.json``; they are compared once all files are read."""
    try:
        meta = load_json(source.text)
    except StructureError as error:
        rows.keep_text(source, "facts", "JSON", str(error), error.line)
        return
    if not isinstance(meta, Node):
        rows.keep_text(source, "facts", "a JSON object", type(meta).__name__, 1)
        return
    lines = name_lines(source.lines, 1)
    for name in sorted(meta.keys() - {"version", *COUNTED}):
        expected = "a counter or version"
        rows.problem("unclaimed", source.path, expected, meta[name], line=lines.get(name), field=name)
    folder = source.path.rpartition("/")[0]
    for name, kind in COUNTED.items():
        line = lines.get(name)
        if name not in meta:
            rows.problem("missing_field", source.path, "", "nothing", field=name, line=1)
            continue
        count = integer_of(meta[name])
        if count is None:
            rows.problem("bad_value", source.path, "a whole number", meta[name], field=name, line=line)
            continue
        file = f"{folder}/{kind}.md"
        row = {"path": source.path, "line": line, "field": name, "file": file, "type": kind, "count": count}
        rows.add("_counters", row)
