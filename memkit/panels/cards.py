"""`Card`: a panel as widgets of ipywidgets, for layouts of one's own and where the page of `page` cannot be loaded."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import ipywidgets

from memkit.base.params import Param
from memkit.errors import MemkitError
from memkit.panels.controls import control, parsed, written
from memkit.panels.parts import STYLE
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from memkit.panels.lab_panel import Lab
    from memkit.panels.panel import Panel

_STYLED = f"<style>{STYLE}</style>"
_WIDE = {"width": "460px"}
_LABEL = {"description_width": "190px"}
_INDENT = {"margin": "-4px 0 0 196px"}


def widget_of(declared: Param) -> Any:
    """The widget of a parameter: a slider, a list of choices, a box to tick or a line of text.

    >>> from memkit.base.params import Param
    >>> slider = widget_of(Param(name="k", default=5, kind="int", doc="Hits that are shown.", low=1))
    >>> type(slider).__name__, slider.description, slider.min, slider.max, slider.tooltip
    ('IntSlider', 'k', 1, 50, 'Hits that are shown. Expected an int in [1, inf).')
    """
    spec = control(declared)
    about = {"description": spec["label"], "tooltip": spec["help"], "style": _LABEL, "layout": _WIDE}
    if declared.choices and declared.kind == "words":
        return ipywidgets.SelectMultiple(options=declared.choices, rows=len(declared.choices), **about)
    if spec["kind"] == "choice":
        none = [("(none)", None)] if declared.nullable else []
        return ipywidgets.Dropdown(options=[*none, *((choice, choice) for choice in declared.choices)], **about)
    if spec["kind"] == "tick":
        return ipywidgets.Checkbox(indent=True, **about)
    if spec["kind"] == "number":
        ends = {"min": spec["low"], "max": spec["high"], "step": spec["step"], "value": spec["low"]}
        if spec["whole"]:
            return ipywidgets.IntSlider(**ends, continuous_update=False, **about)
        return ipywidgets.FloatSlider(**ends, continuous_update=False, readout_format=".6", **about)
    return ipywidgets.Text(continuous_update=False, **about)


class Card(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A panel as a box of ipywidgets over the same state: what is set here sets the panel, and the other way round.

    A slider sets its value when it is let go, so that one move is one change to undo. What is hidden, by the
    ``layout.display`` or ``layout.visibility`` of the card or of a part, is worked out when it is shown.

    Parameters
    ----------
    panel : Panel

    Attributes
    ----------
    controls : dict
        The widget of each parameter, by its name.
    automatic : dict
        The box to tick for None, for each number that may be None.
    notes : dict
        A line on what a value means, under the control of that name.
    buttons : dict
        The buttons, by what they do.
    picture, strip, body, status, code, error : HTML
        The parts below the controls.

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

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.controls: dict[str, Any] = {name: widget_of(declared) for name, declared in panel.controls.items()}
        self.automatic = {
            name: ipywidgets.Checkbox(description="auto", indent=False, layout={"width": "auto"})
            for name, declared in panel.controls.items()
            if declared.nullable and isinstance(self.controls[name], (ipywidgets.IntSlider, ipywidgets.FloatSlider))
        }
        self.notes = {name: ipywidgets.HTML(layout=_INDENT) for name in self.controls}
        actions = panel.spec()["actions"]
        self.buttons = {action["name"]: ipywidgets.Button(description=action["label"]) for action in actions}
        parts = ("status", "error", "strip", "picture", "code", "body")
        self.status, self.error, self.strip, self.picture, self.code, self.body = (ipywidgets.HTML() for _ in parts)
        self.picture.layout.max_width = "640px"
        self._html_by_part: dict[Any, Callable[[], str]] = {
            self.status: lambda: f"<b>{html.escape(panel.title)}</b> {html.escape(panel.hide(panel.status))}",
            self.strip: lambda: _STYLED + panel.strip_html,
            self.picture: lambda: panel.hide.in_html(panel.marks.svg),
            self.code: lambda: f"<code>{html.escape(panel.hide(panel.code))}</code>",
            self.body: lambda: _STYLED + panel.body,
        }
        self._stale = set(self._html_by_part)
        self._is_following = False
        boxes_by_group = {
            group: [row for name in names for row in self._row(name)] for group, names in panel.groups.items()
        }
        closed = {group: rows for group, rows in boxes_by_group.items() if not panel.is_open(group)}
        rows = [row for group, some in boxes_by_group.items() if group not in closed for row in some]
        if closed:
            inner = [ipywidgets.VBox(some) for some in closed.values()]
            rows.append(ipywidgets.Accordion(inner, titles=list(closed), selected_index=None))
        below = [self.strip, self.picture, self.code, self.body]
        first = [self.body, self.picture] if panel.body_first else []
        boxes = [ipywidgets.HBox(list(self.buttons.values())), ipywidgets.VBox(rows)]
        super().__init__([self.status, *boxes, self.error, *first, *(part for part in below if part not in first)])
        self._listen()
        self._follow()

    def _row(self, name: str) -> list[Any]:
        """A control with its box for None, and the line on what its value means."""
        control, automatic = self.controls[name], self.automatic.get(name)
        row = control if automatic is None else ipywidgets.HBox([control, automatic])
        return [row, self.notes[name]]

    def _listen(self) -> None:
        for name, widget in self.controls.items():
            widget.observe(lambda change, name=name: self._set(name, change["new"]), "value")
        for name, box in self.automatic.items():
            box.observe(
                lambda change, name=name: self._set(name, None if change["new"] else self.controls[name].value), "value"
            )
        for name, button in self.buttons.items():
            button.on_click(lambda _, name=name: self._try(lambda: self.panel.press(name)))
        for part in (self, *self._html_by_part):
            part.layout.observe(lambda _: self._draw(), ["display", "visibility"])
        self.panel.session.listen(self._follow)

    def _set(self, name: str, value: Any) -> None:
        if not self._is_following:
            self._try(lambda: self.panel.set(**{name: parsed(self.panel.controls[name], value)}), typed=name)

    def _try(self, change: Callable[[], None], typed: str = "") -> None:
        """Make a change; a refused value is reported, and stays in its box where it was typed, to be corrected."""
        self.panel.session.begin()
        self.error.value = ""
        try:
            with self.panel.session.waiting():
                change()
        except (MemkitError, OSError) as error:
            self.error.value = _wrong(self.panel.hide(str(error)))
            self._show_values(skipped=typed if isinstance(self.controls.get(typed), ipywidgets.Text) else "")
        else:
            self._show_values()  # a value that means the same changes no state

    def _follow(self) -> None:
        """Show the state as it is now."""
        self.error.value = ""
        self._show_values()
        self._stale = set(self._html_by_part)
        self._draw()

    def _show_values(self, skipped: str = "") -> None:
        self._is_following = True
        try:
            for name, value in self.panel.values.items():
                if name != skipped:
                    self._show(name, value)
            notes = self.panel.notes  # a control has one only where its value asks for it
            for name, note in self.notes.items():
                note.value = f"<small>{html.escape(notes[name])}</small>" if name in notes else ""
                note.layout.display = None if name in notes else "none"
        finally:
            self._is_following = False

    def _show(self, name: str, value: Any) -> None:
        widget = self.controls[name]
        if name in self.automatic:
            chosen = self.panel.automatic.get(name) if value is None else None
            self.automatic[name].value = value is None
            self.automatic[name].description = "auto" if chosen is None else f"auto = {chosen:.3g}"
            widget.disabled = value is None
            value = chosen if value is None else value  # where the slider starts once the box is unticked
        if isinstance(widget, ipywidgets.Text):
            widget.value = "" if value is None else written(value)
        elif isinstance(widget, ipywidgets.SelectMultiple):
            widget.value = tuple(value)
        elif isinstance(widget, (ipywidgets.IntSlider, ipywidgets.FloatSlider)):
            if value is not None:  # one that was set from Python may lie beyond the ends of the slider
                widget.min, widget.max = min(widget.min, value), max(widget.max, value)
                widget.value = value
        else:
            widget.value = value

    def _draw(self) -> None:
        """Work out each part that is shown and does not stand as it is now."""
        if not _is_shown(self):
            return
        for part, html_of in self._html_by_part.items():
            if part in self._stale and _is_shown(part):
                self._stale.discard(part)
                try:
                    part.value = html_of()
                except MemkitError as error:
                    self.error.value = _wrong(mask(str(error)))

    def close(self) -> None:
        """Take the widgets out of the notebook; the panel stays."""
        self.panel.session.unlisten(self._follow)
        for widget in list(_descendants(self)):
            widget.close()
        super().close()

    def _repr_mimebundle_(self, **choice: Any) -> dict[str, Any]:
        """The widget, and beside it what a notebook's file shows without a kernel."""
        return {**super()._repr_mimebundle_(**choice), "text/html": self.panel.html}

    def __repr__(self) -> str:
        return f"Card of {self.panel!r}"


class Cards(ipywidgets.Tab):  # type: ignore[misc]  # ipywidgets has no types
    """The cards of a lab; each panel is made when its tab is chosen, and follows the state while it is.

    Parameters
    ----------
    lab : Lab

    Attributes
    ----------
    cards : dict
        The cards that were shown so far, by the name of the panel.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab, self.cards = lab, dict[str, Card]()
        super().__init__([ipywidgets.VBox() for _ in lab.names], titles=lab.names, selected_index=0)
        self.observe(lambda _: self._choose(), "selected_index")
        self._choose()

    def _choose(self) -> None:
        for card in self.cards.values():
            card.layout.display = "none"
        if self.selected_index is None:
            return
        name, place = self.lab.names[self.selected_index], self.children[self.selected_index]
        try:
            panel, former = self.lab[name], self.cards.get(name)
            if former is None or former.panel is not panel:
                if former is not None:
                    former.close()
                self.cards[name] = Card(panel)
        except (MemkitError, OSError) as error:
            place.children = (ipywidgets.HTML(_wrong(mask(str(error)))),)
        else:
            self.cards[name].layout.display = None
            place.children = (*([self._policies()] if name == "policies" else []), self.cards[name])

    def _policies(self) -> Any:
        """The list of policies to choose from; those that have nothing to judge say why."""
        options = [(f"{name} ({why})" if why else name, name) for name, why in self.lab.policies.items()]
        about = {"description": "policy", "style": _LABEL, "layout": _WIDE}
        policies = ipywidgets.Dropdown(options=options, value=self.lab.policy, **about)
        policies.observe(self._choose_policy, "value")
        return policies

    def _choose_policy(self, change: Any) -> None:
        self.lab.policy = change["new"]
        self._choose()

    def close(self) -> None:
        """Take the widgets out of the notebook; the panels stay."""
        for card in self.cards.values():
            card.close()
        for place in self.children:
            place.close()
        super().close()

    def __repr__(self) -> str:
        return f"Cards of {self.lab!r}"


def _is_shown(widget: Any) -> bool:
    return bool(widget.layout.display != "none" and widget.layout.visibility != "hidden")


def _descendants(box: Any) -> Iterator[Any]:
    for child in getattr(box, "children", ()):
        yield from _descendants(child)
        yield child


def _wrong(text: str) -> str:
    return f'<span role="alert" style="color:#d55e00">{html.escape(text)}</span>'
