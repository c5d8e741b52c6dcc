"""Lazy imports of modules of `memkit.scale`, a room above this one: the only place below it that names it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

SCALE = {"buckets": "memkit.scale.buckets", "split": "memkit.scale.split", "index": "memkit.scale.index"}
SCALE |= {"engine": "memkit.scale.engine"}
"""The modules that can be imported, by short name."""


def scale(name: str) -> Any:
    """Import one of the modules of `SCALE`."""
    return import_module(SCALE[name])
