"""What an ``index.json`` is, by its fields: names are shared with other tools."""

from __future__ import annotations

from typing import Any

from memkit.formats.records.format import WRAPPERS, kind_of
from memkit.formats.syntax.node import Node

_FLAT = {"path", "title", "type", "description", "lastModified"}
_FLAT_KEYS = _FLAT | {f"{key} (repeated)" for key in _FLAT}


def shape_of(document: Any) -> str:
    """root, branch, flat, other (records may be in it) or foreign."""
    if isinstance(document, Node):
        if document.get("type") == "index-root" or _objects(document.get("branches"), {"path"}):
            return "root"
        if document.get("type") == "index-branch" or _objects(document.get("files"), {"file"}):
            return "branch"
        return "other" if _may_hold_records(document) else "foreign"
    if isinstance(document, list):
        if all(isinstance(item, Node) and item.keys() <= _FLAT_KEYS for item in document):
            return "flat"
        if _objects(document, {"path"}) and _objects(document, {"title"}):
            return "flat"
        return "other" if any(map(_may_hold_records, document)) else "foreign"
    return "foreign"


def _may_hold_records(value: Any) -> bool:
    return isinstance(value, Node) and (kind_of(value) is not None or any(key in value for key in WRAPPERS))


def _objects(value: Any, keys: set[str]) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(i, Node) and keys <= i.keys() for i in value)
