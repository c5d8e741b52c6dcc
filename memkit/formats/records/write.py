"""Where the records of a file stand, and how one is written: JSON or YAML, keys in the order of their declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from memkit.errors import ChangeRefusedError, FormatError
from memkit.formats.fields import check_text
from memkit.formats.records.format import WRAPPERS, kind_of
from memkit.formats.records.kinds import RECORD_KINDS, WITHIN
from memkit.formats.syntax.json import load_json
from memkit.formats.syntax.node import StructureError
from memkit.formats.syntax.places import Json
from memkit.formats.syntax.write import block, pretty


@dataclass(frozen=True)
class Place:
    """Where one record stands: its first line, and its text, of YAML with whole lines."""

    line: int
    start: int
    end: int


def json_places(json: Json) -> list[Place] | None:
    """The places of the records of a file of JSON, in order; None where the file is one record."""
    if json.text[json.start] == "[":
        return list(_items(json, json.start))
    if kind_of(load_json(json.text[json.start :])) is not None:
        return None
    lists = [part for part in json.parts(json.start) if part.key in WRAPPERS and json.text[part.value] == "["]
    return [place for part in lists for place in _items(json, part.value)]


def _items(json: Json, start: int) -> Iterator[Place]:
    for part in json.parts(start):
        if _is_record(json.text[part.value : part.end]):
            yield Place(json.line(part.value), part.value, part.end)


def _is_record(text: str) -> bool:
    try:
        return kind_of(load_json(text)) is not None
    except StructureError:
        return False


def yaml_places(text: str) -> list[Place] | None:
    """The places of the records of a file of YAML, in order; None where the file is one record.

    Raises
    ------
    ChangeRefusedError
        Where they cannot be told.
    """
    body = text.removeprefix("\ufeff")
    shift = len(text) - len(body)
    try:
        documents = list(yaml.compose_all(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise ChangeRefusedError(f"it is no YAML ({getattr(error, 'problem', error)}).") from error
    if len(documents) == 1 and isinstance(documents[0], yaml.MappingNode):
        keys = {key.value for key, _ in documents[0].value}
        if keys & set(WRAPPERS) and not keys & {"id", "fact_id", "user_id", "format_version"}:
            raise ChangeRefusedError("a list of records within an object of YAML is left alone.")
        return None
    if len(documents) == 1 and isinstance(documents[0], yaml.SequenceNode) and not documents[0].flow_style:
        return list(_yaml_items(body, documents[0], shift))
    raise ChangeRefusedError("of YAML, one record or a list of them, an item a line, can be changed.")


def _yaml_items(text: str, node: yaml.SequenceNode, shift: int) -> Iterator[Place]:
    starts = [text.rfind("\n", 0, item.start_mark.index) + 1 for item in node.value]
    for at, item in enumerate(node.value):
        dash = text[starts[at] : item.start_mark.index]
        end = starts[at + 1] if at + 1 < len(starts) else node.end_mark.index
        if dash.strip(" ") != "-" or "#" in text[item.end_mark.index : end].split("\n")[-1]:
            raise ChangeRefusedError("the items of the list do not stand on lines of their own.")
        yield Place(item.start_mark.line + 1, starts[at] + shift, end + shift)


def format_record(record: Mapping[str, Any], syntax: str = "json") -> str:
    """One record as a file, keys in the order of the format's document.

    Parameters
    ----------
    record : mapping
        A Pathway, Memory Item or Wisdom Fact, told by its fields; further fields follow the declared ones.
    syntax : 'json' or 'yaml'
        Both are read back as the same record.

    Raises
    ------
    FormatError
        Where a field is missing or not as the format wants it, or the record is of no kind.

    Examples
    --------
    >>> print(format_record({"fact_id": "f.tea", "category": "safety", "content": "Чай горячий", "confidence": 0.9,
    ...     "relations": [], "format_version": "1.0.0"}, "yaml"), end="")
    format_version: "1.0.0"
    fact_id: f.tea
    category: safety
    content: "Чай горячий"
    confidence: 0.9
    relations: []
    """
    _, ordered = checked_record(record)
    if syntax == "yaml":
        return block(ordered)
    return f"{pretty(ordered)}\n"


def checked_record(record: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a record, and its fields in order, every one as the format wants it.

    Raises
    ------
    FormatError
        At the first that is not.
    """
    try:
        check_text(record)
        node = load_json(json.dumps(record, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, StructureError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"a record: expected what JSON can hold. {error}") from error
    kind = kind_of(node)
    if kind is None:
        raise FormatError(f"a record: expected a pathway, memory_item or wisdom_fact. Got fields {', '.join(record)}.")
    fields = RECORD_KINDS[kind].fields
    fields.strict(node)
    for name, inner in WITHIN.items():
        for part in [node[name]] if isinstance(node.get(name), dict) else node.get(name) or ():
            if name in fields.names:
                inner.strict(part)
    return kind, fields.ordered(record)
