"""A declared parameter as a control of a page, and its value converted to and fro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memkit.base.params import Param

_STEPS = 100
_HINTS = {
    "query": "Enter asks",
    "filter": "Enter filters",
    "where": "SQL, such as ",
    "memory_id": "why it is a hit or not",
    "text": "judged in place of the corpus",
    "group": "as in the legend",
    "as_of": "empty: now; or ",
    "decay_kinds": "for all: ",
    "kind_weights": "such as ",
}
"""What a box for text is for, in a few words above it."""
EXAMPLES = {
    "where": "kind = 'note'",
    "as_of": "2026-03-01",
    "decay_kinds": "*",
    "kind_weights": "note=0.5",
}
"""What the hint of a box says that may be written into it."""


def control(declared: Param) -> dict[str, Any]:
    """How a page shows a parameter: a list of choices, a box to tick, a slider with a number, or a line of text."""
    words = declared.name.split("_")
    unit = "" if declared.unit.startswith(words[-1].rstrip("s")) else declared.unit  # "decay days" says it
    about = {
        "name": declared.name,
        "label": " ".join(words) + (f", {unit}" if unit else ""),
        "help": f"{declared.doc} Expected {declared.expected}."
        + (f" Source: {declared.source}." * bool(declared.source)),
        "nullable": declared.nullable,
    }
    if declared.choices and declared.kind == "str":
        return {**about, "kind": "choice", "choices": list(declared.choices)}
    if declared.kind == "bool":
        return {**about, "kind": "tick"}
    if declared.kind in ("int", "float"):
        low, high, step = scale(declared)
        return {
            **about,
            "kind": "number",
            "whole": declared.kind == "int",
            "low": low,
            "high": high,
            "step": step,
            "least": declared.low,
            "most": declared.high,
        }
    return {**about, "kind": "text", "hint": _HINTS.get(declared.name, "") + EXAMPLES.get(declared.name, "")}


def scale(declared: Param) -> tuple[float, float, float]:
    """The ends and the step of a slider: the bounds, or a range around the default where there is no bound.

    >>> scale(Param(default=60.0, kind="float", doc="", low=0, low_open=True))
    (1.0, 600.0, 1.0)
    >>> scale(Param(default=5, kind="int", doc="", low=1))
    (1, 50, 1)
    """
    usual = declared.default if isinstance(declared.default, (int, float)) else declared.stands_for
    usual = usual if isinstance(usual, (int, float)) and usual else 1
    high = declared.high if declared.high is not None else 10 * usual if usual > 1 else 1.0
    low = declared.low if declared.low is not None else min(0, usual)
    if declared.kind == "int":
        high = max(high, 10) if declared.high is None else high
        return int(low), int(high), max(1, int((high - low) / 1000))
    step = 1.0 if high > _STEPS else (high - low) / _STEPS
    return float(low) + (step if declared.low_open else 0.0), float(high), step


def parsed(declared: Param, value: Any) -> Any:
    """Convert a value sent by the page to the parameter's type."""
    if value is None or (value == "" and declared.nullable):
        return None
    if isinstance(value, str) and declared.kind != "str":
        return declared.parse(value)
    if declared.kind == "int" and isinstance(value, float) and value.is_integer():
        return int(value)
    return float(value) if declared.kind == "float" and isinstance(value, int) else value


def written(value: Any) -> Any:
    """Convert a value to what the page shows."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={weight:g}" for name, weight in value.items())
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value
