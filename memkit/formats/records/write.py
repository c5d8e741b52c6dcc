"""Where the records of a file stand, and how one is written: JSON or YAML, keys in the order of their declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from memkit.errors import ChangeRefusedError, FormatError, ParameterError, VersionError
from memkit.formats.fields import Fields, check_text
from memkit.formats.records.format import WRAPPERS, kind_of
from memkit.formats.records.kinds import ADAPTERS, CURRENT, RECORD_KINDS, WITHIN, major_of
from memkit.formats.syntax.nodes import LINES, YAML, StructureError, load_json
from memkit.formats.syntax.places import Json, Splice, block, flow, items, line_end, pretty, spliced
from memkit.formats.syntax.yaml_nodes import SAFE_LOADER, load_yaml, refuse_anchors

_ELSEWHERE = "A file of one record stays that; without a path a record gets a file of its own."


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
        with suppress(StructureError):
            if kind_of(load_json(json.text[part.value : part.end])) is not None:
                yield Place(json.line(part.value), part.value, part.end)


def yaml_places(text: str) -> list[Place] | None:
    """The places of the records of a file of YAML, in order; None where the file is one record.

    Raises
    ------
    ChangeRefusedError
        Where they cannot be told.
    """
    body = text.removeprefix("\ufeff")
    shift = len(text) - len(body)
    documents = _documents(body)
    if len(documents) == 1 and isinstance(documents[0], yaml.MappingNode):
        keys = {key.value for key, _ in documents[0].value}
        if keys & set(WRAPPERS) and not keys & {"id", "fact_id", "user_id", "format_version"}:
            raise ChangeRefusedError("a list of records within an object of YAML is left alone.")
        return None
    if len(documents) == 1 and isinstance(documents[0], yaml.SequenceNode) and not documents[0].flow_style:
        refuse_anchors(body)
        return list(_yaml_items(body, documents[0], shift))
    raise ChangeRefusedError("of YAML, one record or a list of them, an item a line, can be changed.")


def _yaml_items(text: str, node: yaml.SequenceNode, shift: int) -> Iterator[Place]:
    starts = [text.rfind("\n", 0, item.start_mark.index) + 1 for item in node.value]
    for index, item in enumerate(node.value):
        dash = text[starts[index] : item.start_mark.index]
        end = starts[index + 1] if index + 1 < len(starts) else node.end_mark.index
        if dash.strip(" ") != "-" or "#" in text[item.end_mark.index : end].split("\n")[-1]:
            raise ChangeRefusedError("the items of the list do not stand on lines of their own.")
        yield Place(item.start_mark.line + 1, starts[index] + shift, end + shift)


def checked_record(record: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a record, and its fields in order, every one as the format wants it.

    Raises
    ------
    FormatError
        At the first that is not.
    """
    if not isinstance(record, Mapping):
        raise ParameterError(f"a record: expected a mapping of its fields. Got {record!r:.80}.")
    node, values = _as_json(record)
    kind = kind_of(node)
    if kind is None:
        got = ", ".join(record) or "none"
        raise FormatError(f"a record: expected a pathway, memory_item or wisdom_fact. Got fields {got:.200}.")
    if node.get("format_version") is None:
        node["format_version"] = values["format_version"] = CURRENT
    fields = RECORD_KINDS[kind].fields
    fields.strict(node)
    version = str(node["format_version"])
    if major_of(version) != major_of(CURRENT) or (kind, version) in ADAPTERS:
        expected = f"MAJOR {major_of(CURRENT)}, and a version that no adapter brings up to date"
        raise VersionError(f"field 'format_version' must have {expected}. Got {version!r:.80}.", field="format_version")
    _check_within(fields, node)
    return kind, fields.ordered(values)


def check_fields(fields: Fields, changed: Mapping[str, Any]) -> None:
    """Check new values of some fields of a record.

    Raises
    ------
    FormatError
        At the first that is not as the format wants it.
    """
    node, _ = _as_json(changed)
    fields.strict(node)
    _check_within(fields, node)


def _as_json(record: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A record as the reader sees it in a file, and its plain values."""
    try:
        check_text(record)
        plain = json.dumps(dict(record), ensure_ascii=False, allow_nan=False)
        node, values = load_json(plain), json.loads(plain)
        check_text(values)
    except (TypeError, ValueError, StructureError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"a record: expected what JSON can hold. {error}") from error
    return node, values


def _check_within(fields: Fields, node: Any) -> None:
    for name, inner in WITHIN.items():
        for part in [node[name]] if isinstance(node.get(name), dict) else node.get(name) or ():
            if name in fields.names:
                inner.strict(part)


def with_records(path: str, text: str | None, records: Sequence[Mapping[str, Any]], *, is_list: bool) -> str:
    """A file with further records at its end; all other characters stay.

    Parameters
    ----------
    path : str
        Its name tells JSON, JSON lines and YAML apart.
    text : str or None
        What it is, which must be a list; None for a new file.
    records : sequence of mapping
        As `checked_record` gives them.
    is_list : bool
        Whether a new file is a list even of one.

    Raises
    ------
    ChangeRefusedError
        Where it is no list, or one that would then be read as something else.

    Examples
    --------
    >>> print(with_records("a.yaml", "- id: tea # mine\\n", [{"id": "honey"}], is_list=True), end="")
    - id: tea # mine
    - id: honey
    """
    name = path.lower()
    if name.endswith(LINES):
        newline = line_end(text)
        gap = newline if text and not text.endswith("\n") else ""
        return f"{text or ''}{gap}" + "".join(json.dumps(one, ensure_ascii=False) + newline for one in records)
    if name.endswith(YAML):
        if text is None:
            return items(records) if is_list else block(records[0])
        return _with_items(path, text, records)
    if text is None:
        return f"{pretty(list(records) if is_list else records[0])}\n"
    places = Json(text)
    if not text.startswith("[", places.start):
        raise ChangeRefusedError(f"{path}: it is there already, and no list of JSON. {_ELSEWHERE}")
    return spliced(text, places.append_all([], records))


def _with_items(path: str, text: str, records: Sequence[Mapping[str, Any]]) -> str:
    """A file of YAML with further items at the end of its list, or further documents where it has several."""
    body, newline = text.removeprefix("\ufeff"), line_end(text)
    nodes = _documents(body)
    if len(nodes) > 1:
        gap = "" if body.endswith("\n") else newline
        new = gap + "".join(f"---\n{block(record)}" for record in records).replace("\n", newline)
        splice = Splice(len(body), len(body), new)
    elif nodes and isinstance(nodes[0], yaml.SequenceNode):
        splice = _further(body, nodes[0], records, newline)
    else:
        raise ChangeRefusedError(f"{path}: it is there already, and no list of YAML. {_ELSEWHERE}")
    after = spliced(body, [splice])
    old, new_items = (_read_items(path, version) for version in (body, after))
    if new_items[: len(old)] != old or len(new_items) != len(old) + len(records):
        raise ChangeRefusedError(f"{path}: what stands there already would be read as something else.")
    return f"{text[: len(text) - len(body)]}{after}"


def _further(body: str, node: yaml.SequenceNode, records: Sequence[Mapping[str, Any]], newline: str) -> Splice:
    """What puts items at the end of a list of YAML, in its own way of writing."""
    start, end = node.start_mark.index, node.end_mark.index
    if not node.flow_style:
        indent = " " * node.start_mark.column
        position = len(body[:end].rstrip())
        return Splice(position, position, newline + items(records, indent).removesuffix("\n").replace("\n", newline))
    if not node.value:
        return Splice(start, end, items(records).removesuffix("\n").replace("\n", newline))
    return Splice(end - 1, end - 1, "".join(f", {flow(record)}" for record in records))


def _documents(body: str) -> list[Any]:
    try:
        return list(yaml.compose_all(body, Loader=SAFE_LOADER))
    except yaml.YAMLError as error:
        raise ChangeRefusedError(f"it is no YAML ({getattr(error, 'problem', error)}).") from error


def _read_items(path: str, body: str) -> list[Any]:
    """What the reader makes of a list, or of several documents."""
    try:
        documents = list(load_yaml(body.replace("\r\n", "\n")))
    except StructureError as error:
        raise ChangeRefusedError(f"{path}: it is no YAML ({error}).") from error
    return documents[0] if len(documents) == 1 and isinstance(documents[0], list) else documents
