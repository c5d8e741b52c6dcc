"""Graphs of the MCP memory server: JSON lines of entities with observations, and of relations between them.

A line is told by its keys, since not every fork writes ``type``. Each observation is a memory; what no line says
anything about is a memory of its name alone. Two lines of one name are one entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from memkit.formats.disk.source import Source
from memkit.formats.faults import Rule
from memkit.formats.format import File, Format
from memkit.formats.rows import Row, Rows, extra_of, json_text
from memkit.formats.syntax.json import LINES, load_json
from memkit.formats.syntax.node import Node, StructureError
from memkit.formats.syntax.places import Json
from memkit.formats.syntax.values import number_of, text_of, time_of

ENDINGS = (".json", *LINES)
_PEEKED = 50
"""The lines in which a file has to show that it is a graph: a torn line may stand above."""
_KNOWN = frozenset(("name", "observations", "entityType", "createdAt", "version"))
_MARKS, _MARKED = ("type", "_type"), ("entity", "relation")
OTHERS = "(other lines)"
"""The key of extra for what further lines of the same name say besides their observations."""
_CREATED, _TEXTS = ("timestamp", "createdAt"), ("text", "content")
"""Keys of an observation that is an object: its date, its text."""


def kind_of(value: object) -> str | None:
    """Whether a line is an entity or a relation, by its keys; None for anything else.

    Examples
    --------
    >>> kind_of(Node(name="Склад", observations=[])), kind_of(Node(**{"from": "Склад", "relationType": "ведёт"}))
    ('entity', 'relation')
    >>> kind_of(Node(name="Склад", type="project")) is None
    True
    """
    if not isinstance(value, Node):
        return None
    if "name" in value and isinstance(value.get("observations"), list):
        return "entity"
    if "relationType" in value and ("from" in value or "to" in value):
        return "relation"
    return "entity" if {"name", "entityType"} <= value.keys() and _mark(value) == "entity" else None


def _mark(value: Node) -> object:
    return next((value[key] for key in _MARKS if value.get(key) in _MARKED), None)


def _rest(value: Node) -> Row:
    """The fields of an entity's line that no column holds."""
    return {k: v for k, v in value.items() if k not in _KNOWN and not (k in _MARKS and v in _MARKED)}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file that may be a graph.

    Attributes
    ----------
    number : int
        1-based.
    start, end : int
        Of the line in the text, its line end excluded.
    value : object
        What it holds; None where it is no JSON.
    fault : str
        Why it is no JSON, else empty.
    kind : str or None
        ``entity`` or ``relation``; None for anything else.
    """

    number: int
    start: int
    end: int
    value: Any
    fault: str
    kind: str | None

    @property
    def mark(self) -> str | None:
        """The key under which the line says what it is."""
        return next((key for key in _MARKS if self.value.get(key) in _MARKED), None)

    def observations(self) -> Iterator[tuple[str, Any]]:
        """The text of each observation of an entity, and the observation as it is written."""
        items = self.value.get("observations")
        return ((_text(item), item) for item in (items if isinstance(items, list) else ()))


def _text_key(item: object) -> str | None:
    """The key of an observation's text, where it is an object."""
    return next((key for key in _TEXTS if isinstance(item.get(key), str)), None) if isinstance(item, Node) else None


def _text(item: object) -> str:
    key = _text_key(item)
    return item[key] if key and isinstance(item, Node) else item if isinstance(item, str) else json_text(item)


def lines_of(text: str) -> Iterator[Line]:
    """The lines of a text that are not blank, in order; it may have CRLF, and a BOM at its head.

    Examples
    --------
    >>> [(line.number, line.kind) for line in lines_of('{"name": "Чай", "observations": []}\\n\\nx')]
    [(1, 'entity'), (3, None)]
    """
    start, number = int(text.startswith("\ufeff")), 1
    while start < len(text):
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        end = stop - text.endswith("\r", start, stop)
        if (line := text[start:end]).strip():
            value, fault = None, ""
            try:
                value = load_json(line)
            except StructureError as error:
                fault = str(error)
            yield Line(number, start, end, value, fault, kind_of(value))
        start, number = stop + 1, number + 1


def places_of(text: str, line: Line) -> list[tuple[str, int, int]]:
    """The text of each observation of a line, and where it begins and ends in the file's text."""
    json = Json(text[line.start : line.end])
    above = json.find(["observations"])
    parts = json.parts(above.value) if above else []
    texts = (text for text, _ in line.observations())
    return [(text, line.start + part.start, line.start + part.end) for text, part in zip(texts, parts, strict=True)]


def _claims(file: File) -> bool:
    """Whether one of the first lines of a JSON file is an entity or a relation."""
    if not file.has_ending(ENDINGS):
        return False
    text, start = file.source.text, 0
    for _ in range(_PEEKED):
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        if '"observations"' in line or '"relationType"' in line:
            return any(each.kind for each in lines_of(line))
        if end < 0:
            return False
        start = end + 1
    return False


@dataclass
class _Entity:
    """What the lines of one name say together.

    Attributes
    ----------
    line : int
        The first of its lines.
    version : float
        The highest version of them; what that line says besides its observations counts.
    others : list of dict
        What the other lines say besides theirs.
    observations : dict of str to dict
        Its observations by text: line, created_at and extra of each.
    """

    line: int
    version: float
    node: Node
    others: list[Row] = field(default_factory=list)
    observations: dict[str, Row] = field(default_factory=dict)
    memory_id: str = ""


@dataclass
class _Graph:
    """One file under way; cost is linear in its text."""

    source: Source
    rows: Rows
    entities: dict[str, _Entity] = field(default_factory=dict)

    def problem(self, rule: str, expected: str, got: object, line: int, **more: Any) -> None:
        self.rows.problem(rule, self.source.path, expected, got, line=line, **more)

    def read(self) -> None:
        lines = list(lines_of(self.source.text))
        for line in lines:
            if line.kind:
                self.rows.repeated(line.value, self.source.path, line.number, None)
            if line.kind == "entity":
                self._add(line)
        for name, entity in self.entities.items():
            self._entity(name, entity)
        for line in lines:
            if line.kind == "relation":
                self._relation(line)
            elif not line.kind:
                self._other(line)

    def _text(self, line: Line) -> str:
        return self.source.text[line.start : line.end]

    def _row_of(self, line: Line) -> str:
        """A memory of a line's own text."""
        place = {"layout": "mcp_graph", "line_start": line.number, "line_end": line.number}
        return self.rows.memory("mcp_graph", self.source.path, line.number, self._text(line), **place)

    def _other(self, line: Line) -> None:
        """A line that the host skips: a memory of its text, and a problem."""
        text, memory_id = self._text(line), self._row_of(line)
        rule, expected = ("unparsable", "JSON") if line.fault else (_LINE.code, _LINE.expected)
        got = line.fault or text
        self.problem(rule, expected, got, line.number, memory_id=memory_id, quote=not line.fault)

    def _add(self, line: Line) -> None:
        """Unite a line with the earlier ones of its name."""
        value, number = line.value, line.number
        name = text_of(value["name"]) or json_text(value["name"])
        if not isinstance(value["name"], str) or not name.strip():
            self.problem("bad_value", "a name", value["name"], number, field="name")
        version = number_of(value.get("version")) or 0.0
        known = self.entities.get(name)
        if known is None:
            known = self.entities[name] = _Entity(number, version, value)
        else:
            expected = f"an entity whose name no other line has (line {known.line} has it too)"
            self.problem("duplicate_name", expected, name, number, field="name")
            lesser = value
            if version > known.version:
                known.version, known.node, lesser = version, value, known.node
            known.others.append({k: v for k, v in lesser.items() if k not in ("name", "observations")})
        for text, item in line.observations():
            key = _text_key(item)
            if not isinstance(item, str) and not key:
                self.problem("bad_value", _OBSERVATION.expected, item, number, field="observations")
            if text not in known.observations:
                moment = self._time(item, number) if key else None
                extra = extra_of(item, {key, *_CREATED}) if key else "{}"
                known.observations[text] = {"line": number, "created_at": moment, "extra": extra}
            elif key:
                known.others.append(item)

    def _time(self, node: Node, number: int) -> Any:
        """The first of the dates of an object; one that cannot be read is reported."""
        for key in _CREATED:
            if (written := node.get(key)) is not None:
                if (moment := time_of(written)) is not None:
                    return moment
                self.problem("bad_date", _DATE.expected, written, number, field=key)
        return None

    def _entity(self, name: str, entity: _Entity) -> None:
        path, node = self.source.path, entity.node
        created = self._time(node, entity.line)
        kind = text_of(node.get("entityType"))
        if not kind:
            self.problem("missing_field", "", "nothing", entity.line, field="entityType")
        others = {OTHERS: entity.others} if entity.others else {}
        extra = json_text({**_rest(node), **others})
        base: Row = {"format": "mcp_graph", "layout": "mcp_graph", "path": path, "source_id": name, "scope": kind}
        for text, row in entity.observations.items() or [("", None)]:
            memory_id = self.rows.new_id("mcp_graph", path, name, text or name)
            entity.memory_id = entity.memory_id or memory_id
            line, moment = (row["line"], row["created_at"] or created) if row else (entity.line, created)
            memory = {**base, "memory_id": memory_id, "title": name if row else "", "text": text if row else name}
            memory |= {"kind": "observation" if row else "entity", "line_start": line, "line_end": line}
            memory |= {"created_at": moment, "updated_at": moment, "extra": row["extra"] if row else extra}
            self.rows.add("memories", memory)
            if row and not text.strip():
                self.problem("empty_text", "an observation with text", text, line, memory_id=memory_id)
        self.rows.add(
            "entities",
            {
                "memory_id": entity.memory_id,
                "path": path,
                "line": entity.line,
                "name": name,
                "entity_type": kind,
                "observations": len(entity.observations),
                "created_at": created,
                "version": text_of(node.get("version")),
                "extra": extra,
            },
        )

    def _relation(self, line: Line) -> None:
        """A relation between the first memories of two entities; ``written`` is its line.

        One from nobody is a memory of its text, which holds its row.
        """
        node, number = line.value, line.number
        ends = {key: text_of(node.get(key)) for key in ("from", "to")}
        entities = [self.entities.get(name or "") for name in ends.values()]
        from_id, to_id = (entity.memory_id if entity else None for entity in entities)
        memory_id = from_id or self._row_of(line)
        for (key, name), entity in zip(ends.items(), entities, strict=True):
            if not name:
                self.problem("missing_field", "", "nothing", number, field=key, memory_id=memory_id)
            elif entity is None:
                self.problem(_DANGLING.code, _DANGLING.expected, name, number, field=key, memory_id=memory_id)
        if from_id is not None and from_id == to_id:
            self.problem(_SELF.code, _SELF.expected, ends["from"], number, memory_id=memory_id)
        row: Row = {"from_id": from_id, "to_id": to_id, "type": text_of(node.get("relationType")) or ""}
        row |= {"written": self._text(line).strip(), "line": number, "memory_id": memory_id}
        self.rows.add("relations", {**row, "state": "found" if from_id and to_id else "dead"})


def parse(file: File, rows: Rows) -> None:
    """The lines of a graph to its rows."""
    _Graph(file.source, rows).read()


_LINE = Rule("unclaimed", "mcp_graph", "", "an entity (name, observations) or a relation (from, to, relationType)")
_OBSERVATION = Rule("bad_value", "mcp_graph", "observations", "strings, or objects with text")
_DATE = Rule("bad_date", "mcp_graph", "createdAt", "an ISO 8601 time stamp")
_DANGLING = Rule("dangling_relation", "mcp_graph", "", "the name of an entity of this file")
_SELF = Rule("self_relation", "mcp_graph", "", "another entity than itself")
FORMAT = Format(
    "mcp_graph",
    "memory.jsonl or memory.json: entities with observations, and relations, a line each (MCP memory server)",
    kinds=("observation", "entity"),
    tables=("entities", "relations"),
    endings=ENDINGS,
    writes=ENDINGS,
    claims=_claims,
    parse=parse,
    dates={"created_at": "createdAt"},
    dates_in_lines=True,
    rules=(
        _LINE,
        _OBSERVATION,
        _DATE,
        _DANGLING,
        _SELF,
        Rule("bad_value", "mcp_graph", "name", "a name"),
        Rule("missing_field", "mcp_graph", "entityType", "an entity with this field"),
        *(Rule("missing_field", "mcp_graph", end, "a relation with this field") for end in ("from", "to")),
        Rule("duplicate_name", "mcp_graph", "name", "each entity on one line"),
    ),
)
