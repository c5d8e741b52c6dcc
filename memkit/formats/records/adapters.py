"""Older shapes and versions of records, brought to the current one step by step.

`ADAPTERS` is a registry: kind and from-version to the step that leads on. Each step that runs is a row of the
``migrations`` table. An older MAJOR than the current one loads through its adapters; any other is quarantined.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memkit.formats.syntax.node import Node
from memkit.formats.syntax.values import integer_of

CURRENT = "1.0.0"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_LOOSE_VERSION = re.compile(r"[vV]?(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Adapter:
    """One step: the record that `change` gives has `to_version`."""

    kind: str
    from_version: str
    to_version: str
    reason: str
    change: Callable[[Node], Node]


def _renamed(record: Node, names: dict[str, str], new: dict[str, Any]) -> Node:
    """`record` with keys renamed and `new` ones added; lines are kept."""
    result = Node()
    result.line, result.end_line = record.line, record.end_line
    result.repeated, result.repeated_lines = record.repeated, record.repeated_lines
    for key, value in record.items():
        result.put(names.get(key, key), value, record.lines.get(key))
    for key, value in new.items():
        if key not in result:
            result.put(key, value)
    return result


def _template_pathway(record: Node) -> Node:
    """hits = success_count + failure_count; success_rate = success / hits, null at 0."""
    success, failure = integer_of(record.get("success_count")) or 0, integer_of(record.get("failure_count")) or 0
    hits = success + failure
    stats = Node()
    stats.put("hits", hits)
    stats.put("success_rate", success / hits if hits else None)
    stats.put("last_used_at", record.get("last_used"))
    return _renamed(record, {"response_template": "template"}, {"usage_stats": stats, "format_version": CURRENT})


def _text_item(record: Node) -> Node:
    """One text stands for the answer; there was no question."""
    tags = [record["category"]] if isinstance(record.get("category"), str) else []
    return _renamed(record, {"text": "response"}, {"input": "", "tags": tags, "format_version": CURRENT})


ADAPTERS: dict[tuple[str, str], Adapter] = {
    (adapter.kind, adapter.from_version): adapter
    for adapter in (
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
}


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
