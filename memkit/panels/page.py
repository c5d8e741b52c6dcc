"""`PanelPage`: a panel in the browser, of native elements, so that each control has a name and keys; and `Card`, the
same as widgets of ipywidgets, for layouts of one's own and where the page cannot be loaded.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets

from memkit.base.params import Param
from memkit.display.draw import STYLE as DRAWN
from memkit.errors import MemkitError
from memkit.plot.marks import MARKS
from memkit.text.secrets import mask

_CELL, _SHORT = 90, 20
"""Characters of a cell, and of the cells of a column that is never wrapped."""
_HERE = Path(__file__).parent
STYLE = DRAWN + "\n" + (_HERE / "pieces.css").read_text(encoding="utf-8")
"""The CSS of these pieces, on the page and in an export; those that one panel has alone bring their own."""
_LINE = 24
"""Pixels between two ranks."""


@cache
def style_of(name: str) -> str:
    """The CSS in a file of this folder, as an element: of what one panel has alone."""
    return f"<style>\n{(_HERE / name).read_text(encoding='utf-8')}</style>"


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
    return style_of("legend.css") + listed


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


_SCALARS = ("bool", "int", "float", "str")


@dataclass(frozen=True)
class Tabs:
    """A row of tabs: its label, the names, the one that is shown, and those under a fold, each with the reason."""

    label: str
    names: Sequence[str]
    own: str
    others: Mapping[str, str] = field(default_factory=dict)


class Linked(traitlets.TraitType[Any, Any]):
    """A parameter of a panel as a trait: assigning it sets the panel, with the same checks."""

    def default(self, page: Any = None) -> Any:
        return page.drawn[str(self.name)]

    def validate(self, page: Any, value: Any) -> Any:
        name = str(self.name)
        if value != page.drawn[name]:
            panel = page.owner._panel()
            panel.session.begin()
            panel.set(**{name: parsed(panel.controls[name], value)})
        return page.drawn[name]  # a change is drawn before `set` returns


class PanelPage(anywidget.AnyWidget):
    """What the browser shows of a panel, and what it sends back.

    Each parameter that is a number, a word or true and false is a trait too, of the parameter's name and kept in step
    with the state, so that ``observe``, ``jslink`` and ``traitlets.link`` work; a lab's are those of its search.

    Attributes
    ----------
    spec : dict
        Title, controls and buttons.
    values : dict
        What each control is set to.
    automatic : dict
        The value that memkit chooses for a control that is set to None.
    notes : dict
        A line below a control that explains its value.
    picture : str
        SVG.
    words : str
        The picture in words.
    strip, body, code, summary, error : str
        HTML under the sliders and below the picture; the code that gives the table; one line on it; why nothing new is
        shown.
    inner : Any
        A widget in place of the picture, as the points of a map; None for most panels.
    heard : dict
        By the name of a view in the browser, the number of its last message that is answered.
    n : int
        How often it was drawn; sent last.
    """

    _esm = _HERE / "page.js"
    _css = (_HERE / "page.css").read_text(encoding="utf-8") + STYLE
    spec = traitlets.Dict().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    automatic = traitlets.Dict().tag(sync=True)
    notes = traitlets.Dict().tag(sync=True)
    picture = traitlets.Unicode().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)
    strip = traitlets.Unicode().tag(sync=True)
    body = traitlets.Unicode().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)
    inner = anywidget.WidgetTrait().tag(sync=True)
    heard = traitlets.Dict().tag(sync=True)
    n = traitlets.Int().tag(sync=True)

    def __init__(self, owner: Displayed) -> None:
        self.owner, self.panel, self._is_plain = owner, owner._panel(), False
        self.linked: list[str] = [name for name, declared in self.panel.controls.items() if declared.kind in _SCALARS]
        self.drawn = self.panel.values  # what the traits of the parameters have, asked of the panel once a drawing
        self._n_rests = 0
        self.add_traits(**{name: Linked().tag(sync=True) for name in self.linked})
        super().__init__()
        self.on_msg(self._on_message)
        self.panel.session.listen(self._quietly)
        self.draw()

    def draw(self, error: str = "") -> None:
        """Show the panel as it is now; one message to the browser."""
        panel = self.panel
        self.drawn = self.owner._panel().values
        with self.hold_sync():
            self.spec = {**panel.spec(), "tabs": [asdict(row) for row in self.owner._tabs(panel)]}
            self.values = {name: written(value) for name, value in panel.values.items()}
            self.automatic, self.notes = panel.automatic, panel.notes
            self.strip, self.body, hide = panel.strip_html, panel.body, panel.hide
            self.picture = self._picture_html()
            self.words, self.code, self.summary = (hide(text) for text in (panel.words, panel.code, panel.status))
            self.error = hide(error)
            for name in self.linked:
                setattr(self, name, self.drawn[name])
            self.n += 1

    def _picture_html(self) -> str:
        """The picture as the page shows it; a widget in its place leaves it out, where the page can hold one."""
        live = None if self._is_plain else self.panel.live
        if live is not None:
            live.follow()
            self.inner = live.widget
            return ""
        return str(self.panel.hide.in_html(self.panel.marks.inline))

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take the traits that the browser has set; a refused value is reported on the page and reset there."""
        try:
            super().set_state(sync_data)
        except MemkitError as error:
            self.draw(str(error))
            self.send_state(list(sync_data))

    def _quietly(self) -> None:
        """Redraw after a change of the state; an error is shown, not raised."""
        try:
            self.draw()
        except MemkitError as error:
            self.error = mask(str(error))
            self.n += 1

    def _on_message(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        """What the browser sends: values that were set, a button, a row, another panel of the lab."""
        before, is_moving = self.n, bool(message.get("live"))
        values = message.get("set")
        names = sorted(values) if isinstance(values, dict) else []
        # Where no drag is named, it is that of the slider that moves, and ends where it rests.
        self.panel.session.begin(is_moving, message.get("drag", f"{id(self)} {self._n_rests} {names}"))
        self._n_rests += not is_moving
        # One message to the browser, which so gets the answer with what it is an answer to.
        with self.hold_sync(), self.panel.session.waiting():
            self.heard = {**self.heard, **dict([message["from"]] if "from" in message else [])}
            try:
                self._handle(message)
            except (MemkitError, OSError) as error:
                self.draw(str(error))
            if self.n == before and "left" not in message:
                self._quietly()
        self.panel.session.drag = None  # what Python sets next is a step of its own

    def _handle(self, message: dict[str, Any]) -> None:
        panel = self.panel
        match message:
            case {"set": dict() as values}:
                declared = panel.controls
                known = {name: value for name, value in values.items() if name in declared}
                panel.set(**{name: parsed(declared[name], value) for name, value in known.items()})
            case {"press": str() as action}:
                panel.press(action)
            case {"pick": str() as row}:
                panel.pick(row)
            case {"preset": str() as name}:
                panel.reset(panel.presets[name])
            case {"load": str() as path}:
                panel.load_profile(path)
            case {"save": str() as path}:
                panel.save_profile(path)
                self.draw()
                self.summary = f"Saved to {path}."
            case {"tab": str() as name} if any(name in {*row["names"], *row["others"]} for row in self.spec["tabs"]):
                self.panel = self.owner._panel(name)
            case {"plain": _}:
                self._is_plain = True
            case {"left": _}:
                self.owner.keep()


class Displayed:
    """An object with a page in a notebook, whose last output the notebook's file keeps."""

    _shown: Any = None

    def _panel(self, name: str = "") -> Any:
        """The panel of that name; the first one by default."""
        return self

    def _tabs(self, panel: Any) -> Sequence[Tabs]:
        """The rows of tabs that the page shows above a panel."""
        return ()

    @cached_property
    def view(self) -> PanelPage:
        """The widget, for a notebook."""
        return PanelPage(self)

    def widgets(self) -> Any:
        """The panel as widgets of ipywidgets, for layouts of one's own and where the page cannot be loaded.

        Returns
        -------
        Card
            A ``VBox``. Each call makes another one over the same page; a lab's has its tabs as lists of choices.
        """
        return Card(self.view)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """The widget, and beside it what is shown where there is no kernel or no widgets."""
        bundle: Any = self.view._repr_mimebundle_() or {}
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        panel = self.view.panel
        image = base64.b64encode(panel.picture).decode()
        return {**data, "text/html": panel.html, "text/plain": repr(self), "image/png": image}, metadata

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._shown = display(self._repr_mimebundle_()[0], raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython has no types here

    def keep(self) -> None:
        """Write the current view into the notebook's output, so that the file shows it without a kernel."""
        if self._shown is not None:
            self._shown.update(self._repr_mimebundle_()[0], raw=True)


_WIDE = {"style": {"description_width": "190px"}, "layout": {"width": "460px"}}


class Card(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """What a page shows, as a box of ipywidgets: what is set here sets the page, and the other way round.

    A slider sets its value when it is let go, so that one move is one change to undo. Numbers that may be None are
    boxes for text; an empty one is None.

    Parameters
    ----------
    page : PanelPage

    Attributes
    ----------
    controls, buttons, tabs : dict
        The widget of each parameter that is shown, of each button, and of each row of tabs, by its name.
    summary, error, notes, strip, picture, code, body : HTML
        The parts beside the controls, each of the page's trait of that name.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> panel = mk.panels.search(mk.Retriever(encoder=None).fit(corpus), "чай", as_of="2026-03-01")
    >>> card = panel.widgets()
    >>> card.controls["k"].value = 1
    >>> panel.result.num_rows, panel.undo(), card.controls["k"].value
    (1, True, 10)
    """

    def __init__(self, page: PanelPage) -> None:
        self.page, self._built, self._follows = page, dict[str, Any](), False
        self._parts = [ipywidgets.HTML() for _ in range(7)]
        self.summary, self.error, self.notes, self.strip, self.picture, self.code, self.body = self._parts
        super().__init__()
        page.observe(self._follow, "n")  # which it changes last
        self._follow()

    def _build(self) -> None:
        """Make the controls that the page has now, in place of those before."""
        spec = self._built = self.page.spec
        self.controls = {one["name"]: _widget_of(one) for group in spec["groups"] for one in group["controls"]}
        self.buttons = {one["name"]: ipywidgets.Button(description=one["label"]) for one in spec["actions"]}
        self.tabs = {row["label"]: _choice_of(row) for row in spec["tabs"] if row["names"] or row["others"]}
        for name, widget in self.controls.items():
            widget.observe(lambda change, name=name: self._tell({"set": {name: change["new"]}}), "value")
        for name, button in self.buttons.items():
            button.on_click(lambda _, name=name: self._tell({"press": name}))
        for widget in self.tabs.values():
            widget.observe(lambda change: self._tell({"tab": change["new"]}), "value")
        former: list[Any] = [*self.children]  # type: ignore[has-type]  # ipywidgets has no types
        buttons = ipywidgets.HBox([*self.buttons.values()])
        self.children = [*self.tabs.values(), self.summary, buttons, *self.controls.values(), *self._parts[1:]]
        _close(widget for widget in former if widget not in self.children)

    def _tell(self, message: dict[str, Any]) -> None:
        """Do on the page what was done here; what the page itself sets here is nothing to do."""
        if not self._follows:
            self.page._on_message(self.page, message, [])

    def _follow(self, _: Any = None) -> None:
        """Show what the page shows."""
        self._follows = True
        try:
            self._show(self.page)
        finally:
            self._follows = False

    def _show(self, page: PanelPage) -> None:
        """As `_follow`; what was refused stays in its box, to be mended."""
        if self._built != page.spec:
            self._build()
        for row in page.spec["tabs"]:
            if row["label"] in self.tabs:
                self.tabs[row["label"]].value = row["own"]  # of one that cannot be shown, that of before
        for name, widget in self.controls.items():
            value, is_text = page.values[name], isinstance(widget, ipywidgets.Text)
            if hasattr(widget, "max"):  # a value that was set from Python may lie beyond the ends of the slider
                widget.min, widget.max = min(widget.min, value), max(widget.max, value)
            if not is_text:
                widget.value = value
            elif not page.error:
                widget.value = "" if value is None else str(value)
        title, summary, error, code = map(html.escape, (page.spec["title"], page.summary, page.error, page.code))
        self.summary.value, self.code.value = f"<b>{title}</b> {summary}", f"<code>{code}</code>"
        self.error.value = f'<span role="alert" style="color:#d55e00">{error}</span>' if error else ""
        self.notes.value = "".join(f"<small>{html.escape(note)}</small><br>" for note in page.notes.values())
        self.picture.value = page.picture or page.panel.hide.in_html(page.panel.marks.inline)
        self.strip.value, self.body.value = (f"<style>{STYLE}</style>{part}" for part in (page.strip, page.body))

    def close(self) -> None:
        """Take the widgets out of the notebook; the panel stays."""
        if self.comm is not None:  # ipywidgets closes once more what Python takes away
            self.page.unobserve(self._follow, "n")
            _close(self.children)
        super().close()

    def _repr_mimebundle_(self, **choice: Any) -> dict[str, Any]:
        """The widget, and beside it what a notebook's file shows without a kernel."""
        return {**super()._repr_mimebundle_(**choice), "text/html": self.page.panel.html}

    def __repr__(self) -> str:
        return f"Card of {self.page.owner!r}"


def _choice_of(row: dict[str, Any]) -> Any:
    """A row of tabs as a list of choices; one that cannot be shown has the reason behind its name."""
    others = [(f"{name} ({why})", name) for name, why in row["others"].items()]
    options = [*((name, name) for name in row["names"]), *others]
    return ipywidgets.Dropdown(options=options, value=row["own"], description=row["label"], **_WIDE)


def _widget_of(declared: dict[str, Any]) -> Any:
    """The widget of a control: a slider, a list of choices, a box to tick or a line of text.

    >>> from memkit.base.params import Param
    >>> from memkit.panels.page import control
    >>> slider = _widget_of(control(Param(name="k", default=5, kind="int", doc="Hits that are shown.", low=1)))
    >>> type(slider).__name__, slider.description, slider.min, slider.max, slider.tooltip
    ('IntSlider', 'k', 1, 50, 'Hits that are shown. Expected an int in [1, inf).')
    """
    about = {"description": declared["label"], "tooltip": declared["help"], **_WIDE}
    if declared["kind"] == "choice":
        none = [("(none)", None)] if declared["nullable"] else []
        return ipywidgets.Dropdown(options=[*none, *((one, one) for one in declared["choices"])], **about)
    if declared["kind"] == "tick":
        return ipywidgets.Checkbox(**about)
    if declared["kind"] == "number" and not declared["nullable"]:
        ends = {"min": declared["low"], "max": declared["high"], "step": declared["step"], "value": declared["low"]}
        if declared["whole"]:
            return ipywidgets.IntSlider(**ends, continuous_update=False, **about)
        return ipywidgets.FloatSlider(**ends, continuous_update=False, readout_format=".6", **about)
    return ipywidgets.Text(continuous_update=False, **about)


def _close(widgets: Iterable[Any]) -> None:
    """Close widgets, and those in boxes among them."""
    for widget in widgets:
        for one in (*getattr(widget, "children", ()), widget):
            one.close()
