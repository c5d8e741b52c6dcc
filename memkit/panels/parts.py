"""Pieces of what panels show: lines, tables, bars and rankings whose rows can be picked, and a declared parameter as a
control, its value converted to and fro."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from memkit.base.params import Param
from memkit.display.draw import STYLE as DRAWN
from memkit.plot.marks import MARKS
from memkit.text.secrets import mask

_CELL, _SHORT = 90, 20
"""Characters of a cell, and of the cells of a column that is never wrapped."""
STYLE = (
    DRAWN
    + """
.mk{max-width:none}.mk+.mk{margin-top:10px}.mk th.w{white-space:nowrap}
.mk em.mkbadge{font-style:normal;font-size:11px;border:1px solid rgba(128,128,128,.5);border-radius:3px;padding:0 4px}
.mk .mkprompt{white-space:pre-wrap;background:rgba(128,128,128,.12);color:inherit;padding:8px;margin:0}
.mk .mkprompt{max-height:260px;overflow-y:auto;font-size:12px}
.mk .mkcut td{border-bottom:2px solid #d55e00;font-weight:600;font-size:12px}
.mk .mkasked{font-size:16px}
.mkjudged{max-height:340px;overflow-y:auto;position:relative}
.mkjudged{font-size:15px;border-left:3px solid #2f81c4;padding:2px 12px;max-width:80ch}
.mkjudged [data-scroll]{background:rgba(47,129,196,.1)}
.mkwhy{border-left:3px solid #2f81c4;padding-left:8px}
.mkbars{display:flex;align-items:stretch;height:56px;margin:6px 0 2px}
.mkbars i{flex:1 1 0;min-width:1px;max-width:14px;position:relative;cursor:pointer}
.mkbars i:hover{background:rgba(128,128,128,.2)}
.mkbars b{position:absolute;left:8%;right:8%;min-height:2px;background:#999}
.mkbars .up b{bottom:50%;background:#0072b2}.mkbars .down b{top:50%;background:#d55e00}
.mkflow{display:grid;grid-template-columns:minmax(0,1fr) 90px minmax(0,1fr)}
.mkflow [role=option]{height:24px;line-height:24px;padding:0 4px}
.mkflow [role=option]{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.mkflow [role=option] span{display:inline-block;min-width:1.6em;opacity:.7;font-variant-numeric:tabular-nums}
.mkflow line{stroke:#999;stroke-width:1.5;opacity:.6}.mkflow .up{stroke:#0072b2;stroke-width:2.5;opacity:1}
.mkflow .down{stroke:#d55e00;stroke-width:2.5;opacity:1}.mkflow .gone{stroke-dasharray:3 3}
"""
)
"""The CSS of these pieces, on the page and in an export; those that one panel has alone bring their own."""
_LEGEND_STYLE = """<style>
.mklegend [role=option]{display:flex;gap:8px;align-items:center;padding:1px 6px;border-radius:3px}
.mklegend [role=option]:hover{background:rgba(128,128,128,.16)}
.mklegend [aria-selected=true]{background:rgba(47,129,196,.22);font-weight:600}
.mklegend i{flex:none;width:11px;height:11px;border-radius:50%}
.mklegend span{flex:1;min-width:0;overflow-wrap:anywhere}
.mklegend b{font-weight:400;opacity:.75;font-variant-numeric:tabular-nums}
</style>"""
_LINE = 24
"""Pixels between two ranks."""


def paragraph(text: str) -> str:
    """A line of plain words; nothing for none."""
    return f'<div class="mk"><p>{html.escape(text)}</p></div>' if text else ""


def cut(text: str, most: int) -> str:
    """The text in so many characters, with a sign that there is more.

    >>> cut("зелёный чай", 9)
    'зелёный…'
    """
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def rows_html(
    heads: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    picks: Sequence[str] = (),
    below: Mapping[str, str] | None = None,
) -> str:
    """A small table, escaped and without secrets; with `picks`, rows that Enter sends to `Panel.pick`.

    `below` is HTML in a row of its own below that of a pick.
    """
    short = [
        all(len(row[number]) <= _SHORT for row in rows) and number + 1 < len(heads) for number in range(len(heads))
    ]
    kinds = [' class="w"' if is_short else "" for is_short in short]
    head = "".join(f'<th scope="col"{kind}>{html.escape(name)}</th>' for name, kind in zip(heads, kinds, strict=True))
    body = []
    for number, row in enumerate(rows):
        live = f' data-pick="{html.escape(picks[number])}"' if picks else ""
        cells = "".join(
            f"<td{kind}>{html.escape(cut(mask(cell), _CELL))}</td>" for cell, kind in zip(row, kinds, strict=True)
        )
        body.append(f"<tr{live}>{cells}</tr>")
        if picks and below and picks[number] in below:
            body.append(f'<tr><td colspan="{len(row)}">{below[picks[number]]}</td></tr>')
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="mk">{table}</div>'


def bars(label: str, marks: Sequence[tuple[str, str, float]]) -> str:
    """Bars that can be picked, each of a pick, words and a value; at most 400, those in the middle left out."""
    if len(marks) > MARKS:
        marks = [*marks[: MARKS // 2], *marks[-MARKS // 2 :]]
    top = max((abs(value) for _, _, value in marks), default=0) or 1.0
    items = []
    for pick, words, value in marks:
        height, sign = round(50 * abs(value) / top), "up" if value > 0 else "down"
        name = html.escape(f"{cut(mask(words), _CELL)}: {value:+.3f}")
        items.append(
            f'<i role="option" class="{sign}" data-pick="{html.escape(pick)}" aria-label="{name}" title="{name}">'
            f'<b style="height:{height}%"></b></i>'
        )
    return f'<div class="mkbars" role="listbox" data-list aria-label="{html.escape(label)}">{"".join(items)}</div>'


def legend(label: str, rows: Sequence[tuple[str, str, str, str, bool]]) -> str:
    """Groups that can be picked, each of a pick, a name, a colour, a count and whether it is chosen."""
    options = "".join(
        f'<div role="option" data-pick="{html.escape(pick)}" aria-selected="{str(chosen).lower()}">'
        f'<i style="background:{colour}"></i><span>{html.escape(cut(mask(name), _CELL))}</span> <b>{count}</b></div>'
        for pick, name, colour, count, chosen in rows
    )
    listed = f'<div class="mklegend" role="listbox" data-list aria-label="{html.escape(label)}">{options}</div>'
    return _LEGEND_STYLE + listed


def flow(before: Sequence[str], now: Sequence[str], titles: Mapping[str, str]) -> str:
    """Two rankings side by side, a line from where each was to where it is; each can be picked."""
    places = [{name: number for number, name in enumerate(names)} for names in (before, now)]
    lines = []
    for name, old in places[0].items():
        new = places[1].get(name)
        kind = "gone" if new is None else "same" if new == old else "up" if new < old else "down"
        ends = (old, old if new is None else new)
        y1, y2 = (_LINE * end + _LINE / 2 for end in ends)
        lines.append(f'<line class="{kind}" x1="0" y1="{y1:g}" x2="{30 if new is None else 90}" y2="{y2:g}"/>')
    height = _LINE * max(len(before), len(now), 1)
    sides = []
    for places_here, other, label in ((places[0], places[1], "pinned"), (places[1], places[0], "now")):
        rows = []
        for name, number in places_here.items():
            moved = "" if label == "pinned" else "new" if name not in other else _moved(other[name] - number)
            title = html.escape(mask(titles.get(name) or name))
            rows.append(
                f'<div role="option" data-pick="memory:{html.escape(name)}"><span>{number + 1}</span> {title}'
                f"{f' <b>{moved}</b>' * bool(moved)}</div>"
            )
        sides.append(f'<div role="listbox" data-list aria-label="{label}">{"".join(rows)}</div>')
    svg = f'<svg width="90" height="{height}" viewBox="0 0 90 {height}" aria-hidden="true">{"".join(lines)}</svg>'
    return f'<div class="mk mkflow"><h4>pinned</h4><span></span><h4>now</h4>{sides[0]}{svg}{sides[1]}</div>'


def _moved(by: int) -> str:
    return "" if by == 0 else f"▲{by}" if by > 0 else f"▼{-by}"


_STEPS = 100
"""Steps of a slider of fractions; one of larger numbers has steps of 1."""
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
