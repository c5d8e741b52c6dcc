"""What a corpus tells before anybody asks: its digest, its themes and what changes while one watches.

The functions are memkit's own: `memkit.digest`, `memkit.topics`, `memkit.timeline`, `memkit.watch`. The classes of what
they give are here.

>>> import memkit as mk
>>> mk.explore.Topics.__name__
'Topics'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memkit.errors import did_you_mean

if TYPE_CHECKING:
    from memkit.explore.themes.timeline import Timeline
    from memkit.explore.themes.topics import Topics

__all__ = ["Timeline", "Topics"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        known = ", ".join(__all__)
        raise AttributeError(f"explore: no {name!r}. Expected one of {known}.{did_you_mean(name, __all__)}")
    return getattr(import_module(f"memkit.explore.themes.{name.lower()}"), name)
