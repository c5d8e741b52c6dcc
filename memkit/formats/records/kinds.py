"""What the three kinds of record have in common, and how each becomes a row of memories and one of its own table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memkit.formats.records.adapters import CURRENT, is_version
from memkit.formats.rows import Row, Rows, extra_of, json_text
from memkit.formats.syntax.node import Node
from memkit.formats.syntax.values import integer_of, loose_words, number_of, text_of, time_of, words_of
from memkit.schemas import IMPORTANCE_WORDS

_TIER_IMPORTANCE = {"core": "high", "adaptive": "normal", "experimental": "low"}
STATS = ("hits", "success_rate", "last_used_at")
_PLACEHOLDER = re.compile(r"\{([^\W\d]\w{0,99})\}")
RELATION = ("fact_id", "type", "weight")


@dataclass
class Record:
    """One record under way: `memory` is its row of memories, `own` its row of the kind's table.

    A reading method gives a field's value in its type, and takes the field out of what goes to ``extra``; a value of
    another type is a problem and stays there, unless it can be converted.

    Attributes
    ----------
    typed : bool
        Whether the file tells a number from a string, as JSON does and YAML, as it is read here, does not.
    within : str or None
        The field that holds the object, where it is one within the record.
    """

    rows: Rows
    value: Node
    kind: Kind
    memory: Row
    line_of: Callable[[str], int]
    own: Row = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {"format_version"})
    migrated: bool = False
    typed: bool = True
    within: str | None = None

    def read(self, *, migrated: bool) -> None:
        """Read and check every field, and add the rows."""
        self.migrated = migrated
        version = text_of(self.value.get("format_version"))
        self.own = {"memory_id": self.memory["memory_id"], "path": self.memory["path"]}
        self.own["format_version"] = version or CURRENT
        if version is not None and not is_version(version):
            self.problem("bad_value", "format_version", "MAJOR.MINOR.PATCH", version)
        self.require(("format_version", *self.kind.required))
        self.kind.read(self)
        self._finish()

    def _finish(self) -> None:
        path, line, memory_id = self.memory["path"], self.memory["line_start"], self.memory["memory_id"]
        self.rows.repeated(self.value, path, line, memory_id)
        extra = extra_of(self.value, self.taken)
        if not self.memory["text"].strip():
            self.problem("empty_text", None, "a record with text", "nothing")
        if own := self.memory["source_id"]:
            self.rows.own_id(memory_id, path, self.line_of(self.kind.id_field), self.kind.id_field, self.kind.name, own)
        self.rows.add("memories", {**self.memory, "extra": extra})
        self.rows.add(self.kind.table, {**self.own, "extra": extra})

    def problem(self, rule: str, name: str | None, expected: str, got: object) -> None:
        """Add a problem of this record; an absent field is looked for where it should be."""
        present = name if name in self.value else self.within
        line = self.line_of(present) if present else self.memory["line_start"]
        memory_id = self.memory["memory_id"]
        self.rows.problem(rule, self.memory["path"], expected, got, line=line, field=name, memory_id=memory_id)

    def require(self, names: tuple[str, ...]) -> None:
        """Report each of `names` that is not there; an object within a record need not have them."""
        rule = "missing_recommended" if self.within else "missing_field"
        for name in names:
            if self.value.get(name) is None and not self.migrated:
                self.problem(rule, name, "", "nothing")

    def check(self, name: str, value: object) -> Any:
        """`value`, its failed rules reported."""
        for rule in self.rows.failing(name, value):
            self.problem(rule.code, name, rule.expected, value)
        return value

    def take(self, name: str, read: Callable[[object], Any], expected: str, rule: str = "bad_value") -> Any:
        """The field `name` through `read`."""
        raw = self.value.get(name)
        value = read(raw)
        if value is None and raw is not None:
            self.problem(rule, name, expected, raw)
        else:
            self.taken.add(name)
        return self.check(name, value)

    def text(self, name: str, *, may_be_empty: bool = False) -> str | None:
        """A string; what JSON has as a number or a truth value becomes one, and is a problem."""
        value: str | None = self.take(name, text_of, "a string")
        raw = self.value.get(name)
        if self.typed and value is not None and not isinstance(raw, str):
            self.problem("bad_value", name, "a string", raw)
        if value is not None and not value.strip() and not may_be_empty and not self.migrated:
            self.problem("bad_value", name, "a string that is not empty", raw)
        return value

    def number(self, name: str, read: Callable[[object], Any] = number_of, expected: str = "a number in 0..1") -> Any:
        """A number; what JSON has as a string becomes one, and is a problem."""
        value = self.take(name, read, expected)
        if self.typed and value is not None and isinstance(self.value.get(name), str):
            self.problem("bad_value", name, expected, self.value[name])
        return value

    def words(self, name: str) -> list[str]:
        """A list of strings; of any other value, the words that it holds."""
        words: list[str] | None = self.take(name, words_of, "a list of strings")
        return loose_words(self.value.get(name)) if words is None else words

    def time(self, name: str) -> datetime | None:
        """A time stamp."""
        moment: datetime | None = self.take(name, time_of, "an ISO 8601 time stamp", "bad_date")
        return moment

    def nested(self, node: Node, name: str) -> Record:
        """A reader of the fields of an object within the record, which stands in the field `name`."""
        return replace(self, value=node, own={}, taken=set(), within=name)


@dataclass(frozen=True)
class Kind:
    """One kind of record: its table, where its id is, its required fields, and how it is read."""

    name: str
    table: str
    id_field: str
    required: tuple[str, ...]
    read: Callable[[Record], None]


def ratio(value: float | None) -> float | None:
    """`value` where it lies in 0..1, for the column that says so."""
    return value if value is not None and 0 <= value <= 1 else None


def _pathway(record: Record) -> None:
    variables = record.value.get("variables")
    if variables is not None and not isinstance(variables, Node):
        record.problem("bad_value", "variables", "an object", variables)
    else:
        record.taken.add("variables")
    hits, rate, used = _usage(record)
    template, tier = record.text("template", may_be_empty=True), record.text("tier")
    if isinstance(variables, Node):
        for name in sorted(set(_PLACEHOLDER.findall(template or "")) - variables.keys()):
            record.problem("unknown_placeholder", "template", "without placeholders that no variable fills", name)
    record.own |= {
        "id": record.text("id"),
        "triggers": record.words("triggers"),
        "template": template,
        "variables": json_text(variables) if isinstance(variables, Node) else "{}",
        "tier": tier,
        "hits": hits,
        "success_rate": rate,
        "last_used_at": used,
    }
    record.memory |= {
        "scope": tier,
        "title": record.own["id"] or "",
        "text": template or "",
        "tags": record.own["triggers"],
        "importance": _TIER_IMPORTANCE.get(tier or ""),
        "confidence": ratio(rate),
        "updated_at": used,
        "access_count": hits,
    }


def _usage(record: Record) -> tuple[int | None, float | None, datetime | None]:
    stats = record.value.get("usage_stats")
    if not isinstance(stats, Node):
        if stats is not None:
            record.problem("bad_value", "usage_stats", "an object", stats)
        return None, None, None
    inner = record.nested(stats, "usage_stats")
    inner.require(STATS)
    hits = inner.number("hits", integer_of, "a whole number")
    rate = inner.number("success_rate")
    used = inner.time("last_used_at")
    if inner.taken.issuperset(stats):
        record.taken.add("usage_stats")
    return hits, rate, used


def _memory_item(record: Record) -> None:
    said, answer = record.text("input"), record.text("response", may_be_empty=True)
    record.own |= {
        "user_id": record.text("user_id"),
        "input": said,
        "response": answer,
        "timestamp": record.time("timestamp"),
        "tags": record.words("tags"),
    }
    record.memory |= {
        "user_id": record.own["user_id"],
        "title": said or "",
        "text": answer or "",
        "tags": record.own["tags"],
        "importance": IMPORTANCE_WORDS.get(str(record.value.get("importance"))),
        "created_at": record.own["timestamp"],
        "updated_at": record.own["timestamp"],
    }


def _wisdom_fact(record: Record) -> None:
    content, category = record.text("content", may_be_empty=True), record.text("category")
    confidence = record.number("confidence")
    record.own |= {
        "fact_id": record.text("fact_id"),
        "category": category,
        "content": content,
        "confidence": confidence,
    }
    record.memory |= {
        "scope": category,
        "title": record.own["fact_id"] or "",
        "text": content or "",
        "tags": [],
        "confidence": ratio(confidence),
    }
    _relations(record)


def _relations(record: Record) -> None:
    relations = record.value.get("relations")
    if not isinstance(relations, list):
        if relations is not None:
            record.problem("bad_value", "relations", "a list of objects", relations)
        return
    nodes = [relation for relation in relations if isinstance(relation, Node)]
    if len(nodes) < len(relations):
        record.problem("bad_value", "relations", "a list of objects", relations)
    complete = [_relation(record, node) for node in nodes]
    pairs = Counter((text_of(node.get("fact_id")), text_of(node.get("type"))) for node in nodes)
    for (to_id, kind), count in pairs.items():
        if count > 1 and to_id is not None:
            record.problem("bad_value", "relations", "relations that differ", f"{kind} {to_id}, {count} times")
    if all(complete) and len(nodes) == len(relations):
        record.taken.add("relations")


def _relation(record: Record, node: Node) -> bool:
    """Add one relation; whether every field of it found a column."""
    inner = record.nested(node, "relations")
    inner.require(RELATION)
    to_id, kind = inner.text("fact_id"), inner.text("type")
    weight = inner.number("weight")
    from_id = record.own["fact_id"]
    if to_id is not None and to_id == from_id:
        record.problem("self_relation", "relations", "another fact than itself", to_id)
    row = {"from_id": from_id, "to_id": to_id, "type": kind, "weight": weight}
    record.rows.add("relations", {**row, "memory_id": record.memory["memory_id"]})
    return inner.taken.issuperset(node)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "pathway",
            "pathways",
            "id",
            ("id", "triggers", "template", "variables", "tier", "usage_stats"),
            _pathway,
        ),
        Kind(
            "memory_item",
            "memory_items",
            "",
            ("user_id", "input", "response", "timestamp", "tags"),
            _memory_item,
        ),
        Kind(
            "wisdom_fact",
            "wisdom_facts",
            "fact_id",
            ("fact_id", "category", "content", "confidence", "relations"),
            _wisdom_fact,
        ),
    )
}
