"""The three kinds of record: their fields, how each becomes its rows, and what relations say together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.faults import Rule, is_not_negative, is_ratio
from memkit.formats.fields import FILLED, NUMBER, OBJECT, OBJECTS, TIME, WHOLE, WORDS, Field, Fields, Type, words_test
from memkit.formats.records.adapters import CURRENT, is_version
from memkit.formats.rows import Row, Rows, Tables, extra_of, json_text
from memkit.formats.spelling import measures_in, plain, text_of, unread_measures
from memkit.formats.syntax.json import Node

_TIER_IMPORTANCE = {"core": "high", "adaptive": "normal", "experimental": "low"}
_PLACEHOLDER = re.compile(r"\{([^\W\d]\w{0,99})\}")
_RATIO = "a number in 0..1"

_VERSION = ("bad_value", "MAJOR.MINOR.PATCH", lambda value: is_version(str(value)))


def _record(*fields: Field) -> Fields:
    version = Field("format_version", Type(text_of, _VERSION[1]), required=True, tests=(_VERSION,))
    return Fields("records", "a record", version, *fields)


def _ratio(name: str) -> Field:
    return Field(name, NUMBER, _RATIO, required=True, tests=(("out_of_range", _RATIO, is_ratio),))


_PATHWAY = _record(
    Field("id", required=True, tests=(FILLED,)),
    Field("triggers", WORDS, required=True),
    Field("template", required=True),
    Field("variables", OBJECT, required=True),
    Field("tier", required=True, tests=(FILLED,), usual=words_test(*_TIER_IMPORTANCE)),
    Field("usage_stats", OBJECT, required=True),
)
_STATS = Fields(
    "records",
    "usage_stats",
    Field("hits", WHOLE, required=True, tests=(("out_of_range", "0 or more", is_not_negative),)),
    _ratio("success_rate"),
    Field("last_used_at", TIME, required=True),
    missing="missing_recommended",
)
_ITEM = _record(
    Field("user_id", required=True, tests=(FILLED,)),
    Field("input", required=True, tests=(FILLED,)),
    Field("response", required=True),
    Field("timestamp", TIME, required=True),
    Field("tags", WORDS, required=True),
)
_WISDOM = _record(
    Field("fact_id", required=True, tests=(FILLED,)),
    Field("category", required=True, tests=(FILLED,)),
    Field("content", required=True),
    _ratio("confidence"),
    Field("relations", OBJECTS, required=True),
)
_RELATION = Fields(
    "records",
    "a relation",
    Field("fact_id", required=True, tests=(FILLED,)),
    Field("type", required=True, tests=(FILLED,), usual=words_test("supports", "contradicts", "extends")),
    _ratio("weight"),
    missing="missing_recommended",
)
WITHIN = {"usage_stats": _STATS, "relations": _RELATION}
"""The fields of a record that hold objects with fields of their own."""
_DANGLING = Rule("dangling_relation", "records", "relations", "a fact_id that was read")
_REPEATED = Rule("bad_value", "records", "relations", "relations that differ")
_OF_ITSELF = Rule("self_relation", "records", "relations", "another fact than itself")
RULES = (
    *dict.fromkeys(rule for fields in (_PATHWAY, _STATS, _ITEM, _WISDOM, _RELATION) for rule in fields.rules()),
    _DANGLING,
    Rule("unknown_placeholder", "records", "template", "placeholders that variables fill"),
    _REPEATED,
    _OF_ITSELF,
    Rule("contradictory_relation", "records", "relations", "not both supports and contradicts between two facts"),
)


@dataclass
class Record:
    """One record under way: `memory` is its row of memories, `columns` its row of the kind's table.

    Attributes
    ----------
    migrated : bool
        Whether it had an older shape: then it may lack what that did not have.
    typed : bool
        Whether the file tells a number from a string, as JSON does and YAML, as it is read here, does not.
    taken : set of str
        The fields that need not go to ``extra``.
    """

    rows: Rows
    value: Node
    kind: RecordKind
    memory: Row
    line_of: Callable[[str], int]
    migrated: bool
    typed: bool
    columns: Row = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def read(self) -> None:
        """Read and check every field, and add the rows."""
        path, line, memory_id = self.memory["path"], self.memory["line_start"], self.memory["memory_id"]
        self.columns, self.taken = self.fields(self.kind.fields, self.value)
        self.columns |= {
            "memory_id": memory_id,
            "path": path,
            "format_version": self.columns["format_version"] or CURRENT,
        }
        self.kind.fill(self)
        self.rows.repeated(self.value, path, line, memory_id)
        extra = extra_of(self.value, self.taken)
        if not self.memory["text"].strip():
            self.problem("empty_text", None, "a record with text", "nothing")
        if source_id := self.memory["source_id"]:
            self.rows.add_id(
                memory_id, path, self.line_of(self.kind.id_field), self.kind.id_field, self.kind.name, source_id
            )
        self.rows.add("memories", {**self.memory, "extra": extra})
        self.rows.add(self.kind.table, {**self.columns, "extra": extra})

    def fields(self, fields: Fields, node: Node, within: str | None = None) -> tuple[Row, set[str]]:
        """The values of an object, which the field `within` of the record holds, and which of them are taken."""

        def problem(rule: str, name: str, expected: str, got: object) -> None:
            self.problem(rule, name, expected, got, at_field=name if name in node else within)

        return fields.read(node, self.rows, problem, fields.names if self.migrated else (), is_typed=self.typed)

    def problem(self, rule: str, name: str | None, expected: str, got: object, at_field: str | None = None) -> None:
        """Add a problem of this record; `at_field` is a field on whose line it is, else the record's first."""
        line = self.line_of(at_field) if at_field else self.memory["line_start"]
        memory_id = self.memory["memory_id"]
        self.rows.problem(rule, self.memory["path"], expected, got, line=line, field=name, memory_id=memory_id)


@dataclass(frozen=True)
class RecordKind:
    """One kind of record: its table, where its id is, its fields, and how they fill its rows."""

    name: str
    table: str
    id_field: str
    fields: Fields
    fill: Callable[[Record], None]


def ratio(value: float | None) -> float | None:
    """`value` where it lies in 0..1, for the column that says so."""
    return value if value is not None and 0 <= value <= 1 else None


def _pathway(record: Record) -> None:
    row = record.columns
    if (stats := row["usage_stats"]) is not None:
        used, taken = record.fields(_STATS, stats, "usage_stats")
        row |= used
        if not taken.issuperset(stats):
            record.taken.discard("usage_stats")
    if row["variables"] is not None:
        for name in sorted(set(_PLACEHOLDER.findall(row["template"] or "")) - row["variables"].keys()):
            expected = "without placeholders that no variable fills"
            record.problem("unknown_placeholder", "template", expected, name, "template")
    row |= {"variables": json_text(row["variables"] or {}), "triggers": row["triggers"] or []}
    record.memory |= {
        "scope": row["tier"],
        "title": row["id"] or "",
        "text": row["template"] or "",
        "tags": row["triggers"],
        "importance": _TIER_IMPORTANCE.get(row["tier"] or ""),
        "confidence": ratio(row.get("success_rate")),
        "updated_at": row.get("last_used_at"),
        "access_count": row.get("hits"),
    }


def _memory_item(record: Record) -> None:
    row = record.columns
    row["tags"] = row["tags"] or []
    record.memory |= {
        "user_id": row["user_id"],
        "title": row["input"] or "",
        "text": row["response"] or "",
        "tags": row["tags"],
        "created_at": row["timestamp"],
        "updated_at": row["timestamp"],
        **measures_in([{plain(key): value for key, value in record.value.items()}]),
    }
    for key, value, rule in unread_measures(record.value):
        record.problem(rule.code, key, rule.expected, value, key)


def _wisdom_fact(record: Record) -> None:
    row = record.columns
    record.memory |= {
        "scope": row["category"],
        "title": row["fact_id"] or "",
        "text": row["content"] or "",
        "confidence": ratio(row["confidence"]),
    }
    complete = [_relation(record, node) for node in row["relations"] or ()]
    pairs = Counter((text_of(node.get("fact_id")), text_of(node.get("type"))) for node in row["relations"] or ())
    for (to_id, kind), count in pairs.items():
        if count > 1 and to_id is not None:
            got = f"{kind} {to_id}, {count} times"
            record.problem(*_REPEATED.parts, got, "relations")
    if not all(complete):
        record.taken.discard("relations")


def _relation(record: Record, node: Node) -> bool:
    """Add one relation; whether every field of it found a column."""
    values, taken = record.fields(_RELATION, node, "relations")
    from_id, to_id = record.columns["fact_id"], values["fact_id"]
    if to_id is not None and to_id == from_id:
        record.problem(*_OF_ITSELF.parts, to_id, "relations")
    row = {"from_id": from_id, "to_id": to_id, "type": values["type"], "weight": values["weight"]}
    record.rows.add("relations", {**row, "memory_id": record.memory["memory_id"]})
    return taken.issuperset(node)


RECORD_KINDS: dict[str, RecordKind] = {
    kind.name: kind
    for kind in (
        RecordKind("pathway", "pathways", "id", _PATHWAY, _pathway),
        RecordKind("memory_item", "memory_items", "", _ITEM, _memory_item),
        RecordKind("wisdom_fact", "wisdom_facts", "fact_id", _WISDOM, _wisdom_fact),
    )
}


def check(tables: Tables, rows: Rows) -> None:
    """Relations to records that were not read, and pairs that both support and contradict each other."""
    memories = tables["memories"]
    relations = tables["relations"].filter(pc.is_null(tables["relations"]["state"]))  # a link has a state of its own
    if relations.num_rows == 0:
        return
    holds = pc.is_in(memories["memory_id"], value_set=relations["memory_id"].combine_chunks())
    places = memories.filter(holds).select(["memory_id", "path", "line_start"]).to_pylist()
    holders = {place["memory_id"]: place for place in places}

    def problem(rule: str, relation: Row, expected: str, got: str) -> None:
        holder = holders[relation["memory_id"]]
        where = {"line": holder["line_start"], "memory_id": relation["memory_id"]}
        rows.problem(rule, holder["path"], expected, got, field="relations", **where)

    known = tables["wisdom_facts"]["fact_id"].combine_chunks()
    dangling = pc.invert(pc.is_in(relations["to_id"], value_set=known, skip_nulls=True))
    for row in relations.filter(pc.and_(dangling, pc.is_valid(relations["to_id"]))).to_pylist():
        problem(_DANGLING.code, row, _DANGLING.expected, row["to_id"])
    pairs: dict[tuple[str, ...], dict[str, Row]] = {}
    opposed = pc.is_in(relations["type"], value_set=pa.array(["supports", "contradicts"]))
    for row in relations.filter(opposed).to_pylist():
        if row["from_id"] is not None and row["to_id"] is not None:
            pairs.setdefault(tuple(sorted((row["from_id"], row["to_id"]))), {})[row["type"]] = row
    for (low, high), kinds in pairs.items():
        if len(kinds) == 2:
            row = list(kinds.values())[-1]
            expected = f"supports or contradicts, not both, between {low} and {high}"
            problem("contradictory_relation", row, expected, row["type"])
