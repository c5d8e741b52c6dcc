"""The three kinds of record: their fields, how each becomes its rows, and what relations say together; and older shapes
and versions of them, brought to the current one step by step.

`ADAPTERS` is a registry: kind and from-version to the step that leads on. Each step that runs is a row of the
``migrations`` table. An older MAJOR than the current one loads through its adapters; any other is quarantined.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import ParameterError
from memkit.formats.fields import FILLED, NUMBER, OBJECT, OBJECTS, TIME, WHOLE, WORDS, Field, Fields, Type, words_test
from memkit.formats.records.unknown import dates_in, unread
from memkit.formats.rows import Row, Rows, Rule, Tables, extra_of, is_not_negative, is_ratio, json_text
from memkit.formats.spelling import OWNERS, end_in, first_of, integer_of, measures_in, plain, ratio_of, text_of
from memkit.formats.syntax.nodes import Node

CURRENT = "1.0.0"
_LOOSE_VERSION = re.compile(r"[vV]?(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Adapter:
    """One step from an older version of records to a later one.

    Attributes
    ----------
    kind : str
        pathway, memory_item or wisdom_fact.
    from_version, to_version : str
        What the record has before and after.
    reason : str
        What changed, as the table ``migrations`` says it.
    change : callable
        ``change(record)`` is the record of `to_version`.

    Examples
    --------
    >>> step = Adapter("pathway", "0.1.0", "1.0.0", "goal becomes template", lambda record: record)
    >>> step.to_version
    '1.0.0'
    """

    kind: str
    from_version: str
    to_version: str
    reason: str
    change: Callable[[Node], Node]


def _template_pathway(record: Node) -> Node:
    """hits = success_count + failure_count; success_rate = success / hits, null at 0."""
    success, failure = integer_of(record.get("success_count")) or 0, integer_of(record.get("failure_count")) or 0
    hits = success + failure
    stats = Node(hits=hits, success_rate=success / hits if hits else None, last_used_at=record.get("last_used"))
    pathway = record.renamed({"response_template": "template"})
    pathway |= {"usage_stats": stats, "format_version": CURRENT} | pathway
    return pathway


def _text_item(record: Node) -> Node:
    """One text stands for the answer; there was no question."""
    tags = [record["category"]] if isinstance(record.get("category"), str) else []
    item = record.renamed({"text": "response"})
    item |= {"input": "", "tags": tags, "format_version": CURRENT} | item
    return item


_OWN = (
    Adapter(
        "pathway",
        "0.template",
        CURRENT,
        "response_template, success_count, failure_count and last_used become template and usage_stats",
        _template_pathway,
    ),
    Adapter(
        "memory_item",
        "0.text",
        CURRENT,
        "{text, timestamp, category, importance} becomes a response with its category as tag",
        _text_item,
    ),
)
_REGISTERED: dict[tuple[str, str], Adapter] = {}
ADAPTERS = ChainMap(_REGISTERED, {(adapter.kind, adapter.from_version): adapter for adapter in _OWN})
"""memkit's own, below those of this process."""


def register_adapter(adapter: Adapter) -> Adapter:
    """Make a step from an older version of records known, for what is read from now on.

    Parameters
    ----------
    adapter : Adapter
        Its `change` takes a record, a dict, and gives the record of `to_version`; it takes the place of one of the
        same kind and version.

    Returns
    -------
    Adapter
        The same.

    Raises
    ------
    ParameterError
        Where the kind is not a kind of record.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> from memkit.tables.samples import write_files
    >>> def change(record):
    ...     record["content"] = record.pop("statement")
    ...     return record
    >>> step = register_adapter(Adapter("wisdom_fact", "0.9.0", CURRENT, "statement becomes content", change))
    >>> old = '{"fact_id": "f", "statement": "чай", "category": "c", "confidence": 1, "format_version": "0.9.0"}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.read(write_files(folder, {"f.json": old})).memories["text"].to_pylist()
    ['чай']
    >>> forget_adapter(step)
    """
    if adapter.kind not in ("pathway", "memory_item", "wisdom_fact"):
        expected = "a kind of record: pathway, memory_item or wisdom_fact"
        raise ParameterError(f"register_adapter: expected {expected}. Got {adapter.kind!r}.")
    _REGISTERED[adapter.kind, adapter.from_version] = adapter
    return adapter


def forget_adapter(adapter: Adapter) -> None:
    """Undo `register_adapter`; one of memkit's own that it took the place of comes back.

    Parameters
    ----------
    adapter : Adapter
        As it was registered.

    Examples
    --------
    >>> forget_adapter(Adapter("pathway", "0.1.0", CURRENT, "nothing", lambda record: record))
    """
    _REGISTERED.pop((adapter.kind, adapter.from_version), None)


def registered_adapters() -> tuple[Adapter, ...]:
    """The adapters registered in this process; other processes have to register them too."""
    return tuple(_REGISTERED.values())


def shape_of(kind: str, record: Node) -> str | None:
    """The name of the old shape that `record` has, or None for the current one."""
    if kind == "pathway" and "response_template" in record and "template" not in record:
        return "0.template"
    if kind == "memory_item" and "text" in record and "response" not in record:
        return "0.text"
    return None


def major_of(version: str) -> int | None:
    """MAJOR of a version, also of one that is not spelled in full."""
    match = _LOOSE_VERSION.match(version.strip())
    return int(match.group(1).lstrip("0")[:9] or "0") if match else None  # more digits would still be no known one


def adapt(kind: str, version: str, record: Node) -> tuple[Node, list[Adapter]]:
    """`record` led on from `version` as far as adapters go, and the steps taken."""
    steps: list[Adapter] = []
    while (step := ADAPTERS.get((kind, version))) and step not in steps:
        record, version = step.change(record), step.to_version
        steps.append(step)
    return record, steps


_TIER_IMPORTANCE = {"core": "high", "adaptive": "normal", "experimental": "low"}
_PLACEHOLDER = re.compile(r"\{([^\W\d]\w{0,99})\}")
_RATIO = "a number in 0..1"

_OF_VERSION = ("bad_value", "MAJOR.MINOR.PATCH", lambda value: bool(re.fullmatch(r"\d+\.\d+\.\d+", str(value))))


def _record(*fields: Field) -> Fields:
    version = Field("format_version", Type(text_of, _OF_VERSION[1]), required=True, tests=(_OF_VERSION,))
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
        self._say_beside()
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

    def _say_beside(self) -> None:
        """What stores write beside the fields that a record has by its document: its user, dates and measures."""
        said = [{plain(key): value for key, value in self.value.items()}]
        dates = dates_in(said)
        self.memory |= {"user_id": first_of(said, OWNERS, text_of), **dates, **measures_in(said)}
        self.memory["expires_at"] = end_in(said, dates["updated_at"])
        for key, value, code, expected in unread(self.value):
            if key not in self.kind.fields.names:
                self.problem(code, key, expected, value, key)

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
        "confidence": ratio_of(row.get("success_rate")),
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
    }


def _wisdom_fact(record: Record) -> None:
    row = record.columns
    record.memory |= {
        "scope": row["category"],
        "title": row["fact_id"] or "",
        "text": row["content"] or "",
        "confidence": ratio_of(row["confidence"]),
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
