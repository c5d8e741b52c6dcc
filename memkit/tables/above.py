"""Lazy imports of modules of `memkit.scale` and of saved searches, rooms above this one: only this place names them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

SCALE = {"buckets": "memkit.scale.buckets", "split": "memkit.scale.split", "index": "memkit.scale.index"}
SCALE |= {"engine": "memkit.scale.engine", "vectors": "memkit.search.fitted.store"}
"""The modules that can be imported, by short name."""


def scale(name: str) -> Any:
    """Import one of the modules of `SCALE`."""
    return import_module(SCALE[name])
