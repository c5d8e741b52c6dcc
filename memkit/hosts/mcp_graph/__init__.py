"""Graphs of the MCP memory server: entities with observations, and relations between them.

The server writes JSON lines, an item each; others write one JSON object with a list of each. An item is told by its
keys, since not every fork writes ``type``. Each observation is a memory; what no item says anything about is a memory
of its name alone. Two items of one name are one entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from memkit.errors import ChangeRefusedError
from memkit.extend.reading import (
    END,
    LINES,
    TIME,
    File,
    Format,
    Json,
    Node,
    Owner,
    Row,
    Rows,
    Rule,
    Source,
    StructureError,
    end_in,
    extra_of,
    json_text,
    load_json,
    load_json_members,
    number_of,
    plain,
    text_of,
    time_of,
    unread_ends,
)

ENDINGS = (".json", *LINES)
LISTS = {"entities": "entity", "relations": "relation"}
"""The lists of a graph that is one object, and what their items are."""
_PEEKED = 50
"""The lines in which a file has to show that it is a graph: a torn line may stand above."""
_FIRST_ITEMS = 20
"""The items by which an object is told to be a graph: at least half must be."""
_KNOWN = frozenset(("name", "observations", "entityType", "version"))
_MARKS, _MARKED = ("type", "_type"), ("entity", "relation")
OTHERS, BESIDE = "(other lines)", "(file)"
"""Keys of extra: for what further items of the same name say besides their observations, and for what an object says
beside its lists.
"""
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


def key_of_type(value: Node, name: str) -> str:
    """The key under which an item has its own type: `name`, or ``type`` where some fork writes that.

    Examples
    --------
    >>> key_of_type(Node(type="person"), "entityType"), key_of_type(Node(type="entity"), "entityType")
    ('type', 'entityType')
    """
    others = () if name in value else (key for key in _MARKS if key in value and value[key] not in _MARKED)
    return next(iter(others), name)


def _rest(value: Node, date: str) -> Row:
    """The fields of an entity that no column holds; `date` is the one that was read as its date."""
    held = {*_KNOWN, key_of_type(value, "entityType"), date}
    return {k: v for k, v in value.items() if k not in held and not (k in _MARKS and v in _MARKED)}


def _kind_in(list_name: str, value: object) -> str | None:
    """What an item of one of an object's lists is; the list says it where its keys do not."""
    kind = LISTS.get(list_name)
    if not isinstance(value, Node):
        return None
    needed = {"name"} if kind == "entity" else {"from", "to"}
    return kind if kind and (kind_of(value) == kind or needed <= value.keys()) else None


@dataclass(frozen=True, slots=True)
class Item:
    """An entity or a relation as it is written: a line of JSON lines, or an item of an object's list.

    Attributes
    ----------
    ordinal : int
        Of the item: the number of its line, or its place in the object, from 1.
    number, last : int
        Its first and its last line, from 1.
    start, end : int
        Its place in the text, a line end excluded.
    value : object
        What it holds; None where it is no JSON.
    fault : str
        Why it is no JSON, else empty.
    kind : str or None
        ``entity`` or ``relation``; None for anything else.
    member : str
        The key under which an object has it beside its lists; else empty.
    """

    ordinal: int
    number: int
    last: int
    start: int
    end: int
    value: Any
    fault: str
    kind: str | None
    member: str = ""

    @property
    def mark(self) -> str | None:
        """The key under which the item says what it is."""
        return next((key for key in _MARKS if self.value.get(key) in _MARKED), None)

    def type_of(self, name: str) -> str | None:
        """Its own type, by the server's name for it."""
        return text_of(self.value.get(key_of_type(self.value, name)))

    def observations(self) -> Iterator[tuple[str, Any]]:
        """The text of each observation of an entity, and the observation as it is written; one may stand alone."""
        written = self.value.get("observations")
        items = written if isinstance(written, list) else () if written is None else [written]
        return ((_text(item), item) for item in items)


def _text_key(item: object) -> str | None:
    """The key of an observation's text, where it is an object."""
    return next((key for key in _TEXTS if isinstance(item.get(key), str)), None) if isinstance(item, Node) else None


def _text(item: object) -> str:
    key = _text_key(item)
    return item[key] if key and isinstance(item, Node) else item if isinstance(item, str) else json_text(item)


def items_of(text: str) -> Iterator[Item]:
    """The items of a graph in order, be it JSON lines or one object; it may have CRLF, and a BOM at its head.

    Examples
    --------
    >>> [(item.number, item.kind) for item in items_of('{"name": "Чай", "observations": []}\\n\\nx')]
    [(1, 'entity'), (3, None)]
    >>> [(item.ordinal, item.kind) for item in items_of('{"entities": [{"name": "Чай"}], "relations": [1]}')]
    [(1, 'entity'), (2, None)]
    """
    return _in_object(text) if is_object(text) else _in_lines(text)


def is_object(text: str) -> bool:
    """Whether a text opens with an object that has one of the two lists; it is read no further than to that."""
    try:
        return any(member.key in LISTS and member.value == [] for member in load_json_members(text, LISTS))
    except StructureError:
        return False


def _in_lines(text: str) -> Iterator[Item]:
    """The lines that are not blank."""
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
            yield Item(number, number, number, start, end, value, fault, kind_of(value))
        start, number = stop + 1, number + 1


def _in_object(text: str) -> Iterator[Item]:
    """The items of the lists, then of what stands beside them; below a fault the rest of the text is one."""
    ordinal, end, line = 0, 0, 1
    try:
        for member in load_json_members(text, LISTS):
            end, line, name = member.end, member.end_line, member.key
            if member.number is None and ((name in LISTS and member.value == []) or member.value is None):
                continue
            ordinal += 1
            is_item = member.number is not None
            kind = _kind_in(name, member.value) if is_item else None
            place = member.line, member.end_line, member.start, member.end
            yield Item(ordinal, *place, member.value, "", kind, "" if is_item else name)
    except StructureError as error:
        rest = text[end:].lstrip(", \t\r\n")
        start = len(text) - len(rest)
        first = line + text.count("\n", end, start)
        last = first + rest.rstrip().count("\n")
        yield Item(ordinal + 1, first, last, start, start + len(rest.rstrip()), None, str(error), None)


def places_of(text: str, item: Item) -> list[tuple[str, int, int]]:
    """The text of each observation in an entity's list, and where it begins and ends in the file's text."""
    if not isinstance(item.value.get("observations"), list):
        return []
    json = Json(text[item.start : item.end])
    above = json.find(["observations"])
    parts = json.parts(above.value) if above else []
    texts = (text for text, _ in item.observations())
    return [(text, item.start + part.start, item.start + part.end) for text, part in zip(texts, parts, strict=True)]


def _lines_of(text: str, item: Item) -> Iterator[tuple[int, int]]:
    """The first and the last line of each observation of an entity."""
    try:
        places = places_of(text, item) if item.last > item.number else []
    except ChangeRefusedError:  # a key that stands there twice: no place is certain
        places = []
    position, line = item.start, item.number
    for _, start, end in places:
        line += text.count("\n", position, start)
        last = line + text.count("\n", start, end)
        yield line, last
        position, line = end, last
    while True:
        yield item.number, item.last


def _claims(file: File) -> bool:
    """Whether one of the first lines of a JSON file is an entity or a relation, or an object's lists have these."""
    if not file.has_ending(ENDINGS):
        return False
    text, start = file.source.text, 0
    # Looked for first: to parse each JSON file of a folder takes much longer.
    if ('"entities"' in text or '"relations"' in text) and is_object(text):
        return _is_graph(text)
    for _ in range(_PEEKED):
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        # The first such line decides; only that one is parsed.
        if '"observations"' in line or '"relationType"' in line:
            return any(each.kind for each in _in_lines(line))
        if end < 0:
            return False
        start = end + 1
    return False


def _is_graph(text: str) -> bool:
    """Whether the lists of an object hold entities and relations by their keys, or nothing yet."""
    items = [item.value for item in islice(items_of(text), _FIRST_ITEMS) if not (item.member or item.fault)]
    return 2 * sum(map(_is_sure, items)) >= len(items) and (bool(items) or all(f'"{name}"' in text for name in LISTS))


def _is_sure(value: object) -> bool:
    keys = value.keys() if isinstance(value, Node) else set()
    return kind_of(value) is not None or any(sure <= keys for sure in _SURE)


_SURE = ({"name", "entityType"}, {"from", "to", "relationType"}, {"from", "to", "type"})
"""Keys that tell an item of a list."""


@dataclass
class _Entity:
    """What the items of one name say together.

    Attributes
    ----------
    item : Item
        The first of its items.
    version : float
        The highest version of them; what that item says besides its observations counts.
    others : list of dict
        What the other items say besides theirs.
    observations : dict of str to dict
        Its observations by text: lines, created_at and extra of each.
    """

    item: Item
    version: float
    node: Node
    others: list[Row] = field(default_factory=list)
    observations: dict[str, Row] = field(default_factory=dict)
    memory_id: str = ""


@dataclass
class _Graph:
    """One file under way; cost is linear in its text.

    Attributes
    ----------
    beside : dict
        What an object says beside its lists, until the first memory holds it.
    """

    source: Source
    rows: Rows
    beside: Row = field(default_factory=dict)
    entities: dict[str, _Entity] = field(default_factory=dict)

    def problem(self, rule: str, expected: str, got: object, line: int, **more: Any) -> None:
        self.rows.problem(rule, self.source.path, expected, got, line=line, **more)

    def read(self) -> None:
        items = list(items_of(self.source.text))
        for item in items:
            if item.kind:
                self.rows.repeated(item.value, self.source.path, item.number, None)
            if item.kind == "entity":
                self._add(item)
        if self.entities:
            self.beside = {item.member: item.value for item in items if item.member}
        for name, entity in self.entities.items():
            self._entity(name, entity)
            # What stands beside the lists goes with the first entity alone, so that it is kept once.
            self.beside = {}
        for item in items:
            if item.kind == "relation":
                self._relation(item)
            elif not (item.kind or (item.member and self.entities)):
                self._other(item)

    def _text(self, item: Item) -> str:
        return self.source.text[item.start : item.end]

    def _row_of(self, item: Item) -> str:
        """A memory of an item's own text."""
        place = {"layout": "mcp_graph", "line_start": item.number, "line_end": item.last}
        return self.rows.memory("mcp_graph", self.source.path, item.ordinal, self._text(item), **place)

    def _other(self, item: Item) -> None:
        """What the host skips: a memory of its text, and a problem."""
        text = self._text(item)
        memory_id = self._row_of(item) if text else None  # an object may break off behind its last item
        rule, expected = ("unparsable", "JSON") if item.fault else (_LINE.code, _LINE.expected)
        got = item.fault or text
        self.problem(rule, expected, got, item.number, memory_id=memory_id, quote=not item.fault)

    def _add(self, item: Item) -> None:
        """Unite an item with the earlier ones of its name."""
        value, number = item.value, item.number
        name = text_of(value["name"]) or json_text(value["name"])
        if not isinstance(value["name"], str) or not name.strip():
            self.problem("bad_value", "a name", value["name"], number, field="name")
        version = number_of(value.get("version")) or 0.0
        known = self.entities.get(name)
        if known is None:
            known = self.entities[name] = _Entity(item, version, value)
        else:
            expected = f"an entity whose name no other has (line {known.item.number} has it too)"
            self.problem("duplicate_name", expected, name, number, field="name")
            lesser = value
            if version > known.version:
                known.version, known.node, lesser = version, value, known.node
            known.others.append({k: v for k, v in lesser.items() if k not in ("name", "observations")})
        if not isinstance(value.get("observations") or [], list):
            self.problem("bad_value", _LIST.expected, value["observations"], number, field="observations")
        for (text, observation), lines in zip(item.observations(), _lines_of(self.source.text, item), strict=False):
            key = _text_key(observation)
            if not isinstance(observation, str) and not key:
                self.problem("bad_value", _OBSERVATION.expected, observation, lines[0], field="observations")
            if text not in known.observations:
                date, moment = self._dated(observation, lines[0]) if key else ("", None)
                end = self._end(observation, moment, lines[0]) if key else None
                extra = extra_of(observation, {key, date}) if key else "{}"
                known.observations[text] = {"lines": lines, "created_at": moment, "expires_at": end, "extra": extra}
            elif key:
                known.others.append(observation)

    def _dated(self, node: Node, number: int) -> tuple[str, Any]:
        """The first of the dates of an object, with its key; one that cannot be read is reported."""
        for key in _CREATED:
            if (written := node.get(key)) is not None:
                if (moment := time_of(written)) is not None:
                    return key, moment
                self.problem(_DATE.code, _DATE.expected, written, number, field=key)
        return "", None

    def _end(self, node: Node, moment: Any, number: int) -> Any:
        """The end of an object's validity, which stays in extra too; one that cannot be read is reported."""
        for key, written in unread_ends(node, moment):
            self.problem(_END.code, _END.expected, written, number, field=key)
        return end_in([{plain(key): value for key, value in node.items()}], moment)

    def _entity(self, name: str, entity: _Entity) -> None:
        path, node = self.source.path, entity.node
        number = entity.item.number
        date, created = self._dated(node, number)
        end = self._end(node, created, number)
        kind = text_of(node.get(key_of_type(node, "entityType")))
        if not kind:
            self.problem("missing_field", "", "nothing", number, field="entityType")
        others = {OTHERS: entity.others} if entity.others else {}
        beside = {BESIDE: self.beside} if self.beside else {}
        extra = json_text({**_rest(node, date), **others, **beside})
        base: Row = {"format": "mcp_graph", "layout": "mcp_graph", "path": path, "source_id": name, "scope": kind}
        whole = number, entity.item.last
        # An entity without observations is a memory by its name.
        for text, row in entity.observations.items() or [("", None)]:
            memory_id = self.rows.new_id("mcp_graph", path, name, text or name)
            entity.memory_id = entity.memory_id or memory_id
            lines, moment = (row["lines"], row["created_at"] or created) if row else (whole, created)
            memory = {**base, "memory_id": memory_id, "title": name if row else "", "text": text if row else name}
            memory |= {"kind": "observation" if row else "entity", "line_start": lines[0], "line_end": lines[1]}
            memory |= {"created_at": moment, "updated_at": moment, "extra": row["extra"] if row else extra}
            memory["expires_at"] = (row["expires_at"] if row else None) or end
            self.rows.add("memories", memory)
            if row and not text.strip():
                self.problem("empty_text", "an observation with text", text, lines[0], memory_id=memory_id)
        self.rows.add(
            "entities",
            {
                "memory_id": entity.memory_id,
                "path": path,
                "line": number,
                "name": name,
                "entity_type": kind,
                "observations": len(entity.observations),
                "created_at": created,
                "version": text_of(node.get("version")),
                "extra": extra,
            },
        )

    def _relation(self, item: Item) -> None:
        """A relation between the first memories of two entities; ``written`` is its text.

        One from nobody is a memory of its text, which holds its row.
        """
        node, number = item.value, item.number
        ends = {key: text_of(node.get(key)) for key in ("from", "to")}
        entities = [self.entities.get(name or "") for name in ends.values()]
        from_id, to_id = (entity.memory_id if entity else None for entity in entities)
        memory_id = from_id or self._row_of(item)
        for (key, name), entity in zip(ends.items(), entities, strict=True):
            if not name:
                self.problem("missing_field", "", "nothing", number, field=key, memory_id=memory_id)
            elif entity is None:
                self.problem(_DANGLING.code, _DANGLING.expected, name, number, field=key, memory_id=memory_id)
        if from_id is not None and from_id == to_id:
            self.problem(_SELF.code, _SELF.expected, ends["from"], number, memory_id=memory_id)
        row: Row = {"from_id": from_id, "to_id": to_id, "type": item.type_of("relationType") or ""}
        row |= {"written": self._text(item).strip(), "line": number, "memory_id": memory_id}
        self.rows.add("relations", {**row, "state": "found" if from_id and to_id else "dead"})


def parse(file: File, rows: Rows) -> None:
    """The items of a graph to its rows."""
    _Graph(file.source, rows).read()


_LINE = Rule("unclaimed", "mcp_graph", "", "an entity (name, observations) or a relation (from, to, relationType)")
_LIST = Rule("bad_value", "mcp_graph", "observations", "a list")
_OBSERVATION = Rule("bad_value", "mcp_graph", "observations", "strings, or objects with text")
_DATE = Rule(TIME.code, "mcp_graph", "createdAt", TIME.expected)
_END = Rule(TIME.code, "mcp_graph", "expires_at", END)
_DANGLING = Rule("dangling_relation", "mcp_graph", "", "the name of an entity of this file")
_SELF = Rule("self_relation", "mcp_graph", "", "another entity than itself")
FORMAT = Format(
    "mcp_graph",
    "memory.jsonl or memory.json: entities with observations, and relations, a line each or as two lists of one object"
    " (MCP memory server)",
    order=40,
    kinds=("observation", "entity"),
    tables=("entities", "relations"),
    endings=ENDINGS,
    writes=ENDINGS,
    claims=_claims,
    parse=parse,
    dates={"created_at": "createdAt"},
    owner=Owner(store=".*"),
    dates_in_lines=True,
    rules=(
        _LINE,
        _LIST,
        _OBSERVATION,
        _DATE,
        _END,
        _DANGLING,
        _SELF,
        Rule("bad_value", "mcp_graph", "name", "a name"),
        Rule("missing_field", "mcp_graph", "entityType", "an entity with this field"),
        *(Rule("missing_field", "mcp_graph", end, "a relation with this field") for end in ("from", "to")),
        Rule("duplicate_name", "mcp_graph", "name", "each entity once"),
    ),
)
