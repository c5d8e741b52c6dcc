"""`Page`: a panel in the browser. Controls, picture and table are native elements, so that each has a name and keys."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from memkit.errors import MemkitError
from memkit.panels.controls import parsed, written
from memkit.panels.parts import STYLE
from memkit.text.secrets import mask

_HERE = Path(__file__).parent
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


class Page(anywidget.AnyWidget):
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
        picture: str = self.panel.hide.in_html(self.panel.marks.svg)
        return picture

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
        with (
            self.hold_sync(),
            self.panel.session.waiting(),
        ):  # one message to the browser, which so gets the answer with what it is an answer to
            self.heard = {**self.heard, **dict([message["from"]] if "from" in message else [])}
            try:
                self._handle(message)
            except (MemkitError, OSError) as error:
                self.draw(str(error))
            if self.n == before and "left" not in message:
                self._quietly()

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
    def view(self) -> Page:
        """The widget, for a notebook."""
        return Page(self)

    def widgets(self) -> Any:
        """The panel as widgets of ipywidgets, for layouts of one's own and where the page cannot be loaded.

        Returns
        -------
        Card
            A ``VBox``. Each call makes another one over the same page; a lab's has its tabs as lists of choices.
        """
        from memkit.panels.page_widgets import Card

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
