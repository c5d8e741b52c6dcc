"""The one door to the room `memkit.scale`, which is above this one and is imported where something asks for it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

SCALE = {"buckets": "memkit.scale.buckets", "split": "memkit.scale.split", "index": "memkit.scale.index"}
SCALE |= {"engine": "memkit.scale.engine"}
"""What may be asked for, by the name that it is asked by."""


def scale(name: str) -> Any:
    """One of the modules of `SCALE`."""
    return import_module(SCALE[name])
