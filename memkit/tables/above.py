"""Lazy imports of lakes of buckets and engines, and of saved searches, a room above this one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memkit.base.plugins import LAKES

VECTORS = "memkit.search.fitted.store"


def scale(name: str) -> Any:
    """One of the modules of `LAKES`, or of ``vectors``.

    Raises
    ------
    ParameterError
        Where this process leaves it out.
    """
    return import_module(VECTORS) if name == "vectors" else LAKES.needed(name, "what buckets and engines need")
