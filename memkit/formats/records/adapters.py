"""Older shapes and versions of records, brought to the current one step by step.

`ADAPTERS` is a registry: kind and from-version to the step that leads on. Each step that runs is a row of the
``migrations`` table. An older MAJOR than the current one loads through its adapters; any other is quarantined.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass

from memkit.errors import ParameterError
from memkit.formats.spelling import integer_of
from memkit.formats.syntax.json import Node

CURRENT = "1.0.0"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
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


def is_version(version: str) -> bool:
    """Whether `version` is MAJOR.MINOR.PATCH."""
    return _VERSION.fullmatch(version) is not None


def adapt(kind: str, version: str, record: Node) -> tuple[Node, list[Adapter]]:
    """`record` led on from `version` as far as adapters go, and the steps taken."""
    steps: list[Adapter] = []
    while (step := ADAPTERS.get((kind, version))) and step not in steps:
        record, version = step.change(record), step.to_version
        steps.append(step)
    return record, steps
