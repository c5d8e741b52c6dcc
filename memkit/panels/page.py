"""`Page`: a panel in the browser. Controls, picture and table are native elements, so that each has a name and keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from memkit.errors import MemkitError
from memkit.panels.controls import parsed, written

if TYPE_CHECKING:
    from memkit.panels.panel import Panel

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
    body, code, status, error : str
        HTML below the picture; the code that gives the table; one line on it; why nothing new is shown.
    n : int
        How often it was drawn; sent last.
    """

    _esm = _HERE / "page.js"
    _css = _HERE / "page.css"
    spec = traitlets.Dict().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    picture = traitlets.Bytes().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)
    body = traitlets.Unicode().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    status = traitlets.Unicode().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)
    n = traitlets.Int().tag(sync=True)

    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self.panel = panel
        self.on_msg(self._take)
        panel.session.listen(self._quietly)
        self.draw()

    def draw(self, error: str = "") -> None:
        """Show the panel as it is now; one message to the browser."""
        panel = self.panel
        with self.hold_sync():
            self.spec = panel.spec()
            self.values = {name: written(value) for name, value in panel.values.items()}
            self.picture, self.words = panel.picture, panel.words
            self.body, self.code, self.status = panel.body, panel.code, panel.status
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
        """What the browser sends: values that were set, a button, a row."""
        panel, before = self.panel, self.n
        try:
            if "set" in message:
                declared = panel.controls
                known = {name: value for name, value in message["set"].items() if name in declared}
                panel.set(**{name: parsed(declared[name], value) for name, value in known.items()})
            elif "press" in message:
                panel.press(message["press"])
            elif "pick" in message:
                panel.pick(message["pick"])
        except MemkitError as error:
            self.draw(str(error))
        if self.n == before:
            self.draw()
