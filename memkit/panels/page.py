"""`Page`: a panel in the browser. Controls, picture and table are native elements, so that each has a name and keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from memkit.errors import MemkitError
from memkit.panels.controls import parsed, written
from memkit.panels.parts import STYLE

if TYPE_CHECKING:
    from memkit.panels.panel import Panel
    from memkit.panels.tabs import Lab

_HERE = Path(__file__).parent


class Page(anywidget.AnyWidget):
    """What the browser shows of a panel, and what it sends back.

    Attributes
    ----------
    spec : dict
        Title, controls and buttons.
    values : dict
        What each control is set to.
    picture : bytes
        PNG.
    words : str
        The picture in words.
    strip, body, code, status, error : str
        HTML under the sliders and below the picture; the code that gives the table; one line on it; why nothing new is
        shown.
    n : int
        How often it was drawn; sent last.
    """

    _esm = _HERE / "page.js"
    _css = (_HERE / "page.css").read_text(encoding="utf-8") + STYLE
    spec = traitlets.Dict().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    picture = traitlets.Bytes().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)
    strip = traitlets.Unicode().tag(sync=True)
    body = traitlets.Unicode().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    status = traitlets.Unicode().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)
    n = traitlets.Int().tag(sync=True)

    def __init__(self, panel: Panel, lab: Lab | None = None) -> None:
        super().__init__()
        self.panel, self.lab = panel, lab
        self.on_msg(self._take)
        panel.session.listen(self._quietly)
        self.draw()

    def draw(self, error: str = "") -> None:
        """Show the panel as it is now; one message to the browser."""
        panel = self.panel
        with self.hold_sync():
            self.spec = {**panel.spec(), **({} if self.lab is None else self.lab.tabs(panel))}
            self.values = {name: written(value) for name, value in panel.values.items()}
            self.picture, self.words = panel.picture, panel.words
            self.strip, self.body, self.code, self.status = panel.strip_html, panel.body, panel.code, panel.status
            self.error = error
            self.n += 1

    def _quietly(self) -> None:
        """Redraw after a change of the state; what cannot be worked out is told, not raised."""
        try:
            self.draw()
        except MemkitError as error:
            self.error = str(error)
            self.n += 1

    def _take(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        """What the browser sends: values that were set, a button, a row, another panel of the lab."""
        before = self.n
        self.panel.session.is_moving = bool(message.get("live"))
        try:
            self._do(message)
        except (MemkitError, OSError) as error:
            self.draw(str(error))
        if self.n == before and "left" not in message:
            self._quietly()

    def _do(self, message: dict[str, Any]) -> None:
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
                self.status = f"Saved to {path}."
            case {"tab": str() as name} if self.lab is not None and name in self.lab.names:
                self.panel = self.lab[name]
            case {"left": _}:
                (self.lab or panel).keep()
