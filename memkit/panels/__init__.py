"""Panels: turn a knob, see what moves, and whether it is real.

Every panel rests on one frozen `State` (`state`), whose history it can undo. What a panel shows is worked out by plain
Python (`panel` and a module a panel); `page` brings it into the browser, as controls made from declared parameters.

>>> import memkit as mk
>>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
>>> panel = mk.panels.search(mk.Retriever(encoder=None).fit(corpus), "кофе", as_of="2026-03-01")
>>> panel.result["memory_id"].to_pylist()
['b']
>>> panel.set(k=1, min_score=0.1)
>>> print(panel.code)
search.with_params(min_score=0.1).search('кофе', k=1, as_of='2026-03-01')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memkit.base.plugins import PANELS
from memkit.errors import did_you_mean

if TYPE_CHECKING:
    from memkit.panels.context_panel import ContextPanel as context
    from memkit.panels.decay_panel import DecayPanel as decay
    from memkit.panels.dedup_panel import DedupPanel as dedup
    from memkit.panels.judge_panel import JudgePanel as judge
    from memkit.panels.lab_panel import Lab as lab
    from memkit.panels.map_panel import MapPanel as map
    from memkit.panels.policy_panel import PolicyPanel as policy
    from memkit.panels.records_panel import RecordsPanel as records
    from memkit.panels.search_panel import SearchPanel as search
    from memkit.panels.surface_panel import SurfacePanel as surface
    from memkit.panels.table_panel import TablePanel as table

# What a panel is called, its module (of another name, as a module would hide the class) and its class.
_PANELS = {
    "search": ("search_panel", "SearchPanel"),
    "surface": ("surface_panel", "SurfacePanel"),
    "decay": ("decay_panel", "DecayPanel"),
    "dedup": ("dedup_panel", "DedupPanel"),
    "policy": ("policy_panel", "PolicyPanel"),
    "records": ("records_panel", "RecordsPanel"),
    "context": ("context_panel", "ContextPanel"),
    "judge": ("judge_panel", "JudgePanel"),
    "table": ("table_panel", "TablePanel"),
    "map": ("map_panel", "MapPanel"),
    "lab": ("lab_panel", "Lab"),
}

__all__ = ["context", "decay", "dedup", "judge", "lab", "map", "policy", "records", "search", "surface", "table"]


def __getattr__(name: str) -> Any:
    if name not in _PANELS:
        if not name.startswith("_") and (made := PANELS.get(name)) is not None:
            return made
        known = [*_PANELS, *PANELS.names()]
        hint = did_you_mean(name, known)
        raise AttributeError(f"panels: no panel {name!r}. Expected one of {', '.join(known)}.{hint}")
    module, attribute = _PANELS[name]
    return getattr(import_module(f"memkit.panels.{module}"), attribute)


def __dir__() -> list[str]:
    return __all__
