"""`Card`: a panel as widgets of ipywidgets, for layouts of one's own and where the page of `page` cannot be loaded."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import ipywidgets

from memkit.panels.parts import STYLE

if TYPE_CHECKING:
    from memkit.panels.page import Page

_WIDE = {"style": {"description_width": "190px"}, "layout": {"width": "460px"}}


class Card(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """What a page shows, as a box of ipywidgets: what is set here sets the page, and the other way round.

    A slider sets its value when it is let go, so that one move is one change to undo. Numbers that may be None are
    boxes for text; an empty one is None.

    Parameters
    ----------
    page : Page

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

    def __init__(self, page: Page) -> None:
        self.page = page
        names = ("summary", "error", "notes", "strip", "picture", "code", "body")
        self.summary, self.error, self.notes, self.strip, self.picture, self.code, self.body = self._parts = [
            ipywidgets.HTML() for _ in names
        ]
        super().__init__()
        self._built: dict[str, Any] = {}
        page.observe(self._follow, "n")  # which it changes last
        self._follow()

    def _build(self) -> None:
        """Make the controls that the page has now."""
        spec = self._built = self.page.spec
        self.controls = {one["name"]: _widget_of(one) for group in spec["groups"] for one in group["controls"]}
        self.buttons = {one["name"]: ipywidgets.Button(description=one["label"]) for one in spec["actions"]}
        self.tabs = {
            row["label"]: ipywidgets.Dropdown(
                options=[(f"{name} ({why})" if (why := row["others"].get(name)) else name, name) for name in names],
                value=row["own"],
                description=row["label"],
                **_WIDE,
            )
            for row in spec["tabs"]
            if (names := [*row["names"], *row["others"]])
        }
        for name, widget in self.controls.items():
            widget.observe(lambda change, name=name: self._set(name, change["new"]), "value")
        for name, button in self.buttons.items():
            button.on_click(lambda _, name=name: self._tell({"press": name}))
        for label, widget in self.tabs.items():
            widget.observe(lambda change, label=label: self._open(label, change["new"]), "value")
        former: list[Any] = [*self.children]  # type: ignore[has-type]  # ipywidgets has no types
        buttons = ipywidgets.HBox([*self.buttons.values()])
        self.children = [*self.tabs.values(), self.summary, buttons, *self.controls.values(), *self._parts[1:]]
        for widget in former:
            if widget not in self.children:
                _close(widget)

    def _tell(self, message: dict[str, Any]) -> None:
        self.page._on_message(self.page, message, [])

    def _set(self, name: str, value: Any) -> None:
        is_mended = self.page.error and isinstance(self.controls[name], ipywidgets.Text)
        if value != self._shown(name) or is_mended:  # else it is the page that has set it
            self._tell({"set": {name: value}})

    def _open(self, label: str, name: str) -> None:
        if name != self._own[label]:
            self._tell({"tab": name})
            self.tabs[label].value = self._own[label]  # of one that cannot be shown, that of before

    @property
    def _own(self) -> dict[str, str]:
        """The tab of each row that is shown."""
        return {row["label"]: row["own"] for row in self.page.spec["tabs"]}

    def _shown(self, name: str) -> Any:
        """The value of a parameter as its widget has it."""
        value = self.page.values[name]
        return value if not isinstance(self.controls[name], ipywidgets.Text) else "" if value is None else str(value)

    def _follow(self, _: Any = None) -> None:
        """Show what the page shows; what was refused stays in its box, to be mended."""
        page = self.page
        if self._built != page.spec:
            self._build()
        for name, widget in self.controls.items():
            value = self._shown(name)
            if hasattr(widget, "max"):  # a value that was set from Python may lie beyond the ends of the slider
                widget.min, widget.max = min(widget.min, value), max(widget.max, value)
            if not (page.error and isinstance(widget, ipywidgets.Text)):
                widget.value = value
        self.summary.value = f"<b>{html.escape(page.spec['title'])}</b> {html.escape(page.summary)}"
        self.error.value = f'<span role="alert" style="color:#d55e00">{html.escape(page.error)}</span>' * bool(
            page.error
        )
        self.notes.value = "".join(f"<small>{html.escape(note)}</small><br>" for note in page.notes.values())
        self.picture.value = page.picture or page.panel.hide.in_html(page.panel.marks.svg)
        self.code.value = f"<code>{html.escape(page.code)}</code>"
        self.strip.value, self.body.value = (f"<style>{STYLE}</style>{part}" for part in (page.strip, page.body))

    def close(self) -> None:
        """Take the widgets out of the notebook; the panel stays."""
        if self.comm is not None:  # ipywidgets closes once more what Python takes away
            self.page.unobserve(self._follow, "n")
            for widget in self.children:
                _close(widget)
        super().close()

    def _repr_mimebundle_(self, **choice: Any) -> dict[str, Any]:
        """The widget, and beside it what a notebook's file shows without a kernel."""
        return {**super()._repr_mimebundle_(**choice), "text/html": self.page.panel.html}

    def __repr__(self) -> str:
        return f"Card of {self.page.owner!r}"


def _widget_of(declared: dict[str, Any]) -> Any:
    """The widget of a control: a slider, a list of choices, a box to tick or a line of text.

    >>> from memkit.base.params import Param
    >>> from memkit.panels.controls import control
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


def _close(widget: Any) -> None:
    for one in (*_descendants(widget), widget):
        one.close()


def _descendants(box: Any) -> Iterator[Any]:
    for child in getattr(box, "children", ()):
        yield from _descendants(child)
        yield child
