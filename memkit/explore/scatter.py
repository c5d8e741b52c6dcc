"""The points of a map as a widget of jupyter-scatter: WebGL, one hundred thousand of them, nothing from outside.

jupyter-scatter 1.0 was chosen in November 2026: 1.9 MB, an anywidget like memkit's own page, so that one stands within
the other; it loads nothing, its lasso gives row numbers, and a text that is pointed at is asked of the kernel one at a
time, so that only masked words leave it. embedding-atlas 0.26 is a wheel of 24 MB that needs sentence-transformers (and
with it PyTorch), LiteLLM and a web server. datamapplot 0.7 needs datashader, all of dask, scikit-image and numba, and
its pages load deck.gl, jQuery, Arrow and fonts from outside. Both make a page of their own, no part of a panel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jscatter
import numpy as np
import pandas as pd

from memkit.extend.panels import cut
from memkit.extend.showing import names_of, visible
from memkit.schemas import Ints
from memkit.text.secrets import Mask

if TYPE_CHECKING:
    from memkit.explore.map_panel import MapPanel

_HIGH, _FAR, _TEXT, _DIMMED = 428, 1.08, 280, 0.2
"""Pixels, how far the eye is, characters of a text that is pointed at, and the opacity of what is not chosen."""


class Points:
    """The points of a panel: a lasso chooses in the panel, and what is chosen there stands out here."""

    def __init__(self, panel: MapPanel) -> None:
        self.panel = panel
        answer = panel.answer
        self._shown = (answer.layout, answer.groups)
        self._is_following = False
        self._frame = pd.DataFrame({"memory": _texts(answer.layout.memories)})
        self._place()
        n = len(self._frame)
        self._scatter = jscatter.Scatter(
            data=self._frame,
            x="x",
            y="y",
            height=_HIGH,
            axes=False,
            legend=False,
            size=float(np.clip(9 - 1.4 * np.log10(max(n, 1)), 2, 7)),
            opacity_unselected=_DIMMED,
            lasso_initiator=False,
            zoom_on_selection=False,
        )
        self._scatter.camera(distance=_FAR)
        self._scatter.tooltip(True, properties=[], preview="memory", preview_type="text", preview_text_lines=6)
        self._colour()
        self.widget: Any = self._scatter.widget
        self.widget.observe(self._on_selection, "selection")

    def _place(self) -> None:
        points = self._shown[0].points
        self._frame["x"], self._frame["y"] = points[:, 0], points[:, 1]

    def _colour(self) -> None:
        groups = self._shown[1]
        codes = [str(code) for code in range(len(groups.names))]
        self._frame["group"] = pd.Categorical.from_codes(groups.codes, categories=pd.Index(codes))
        self._scatter.color(by="group", map=dict(zip(codes, groups.colours, strict=True)))

    def follow(self) -> None:
        """Show the panel as it is now."""
        answer = self.panel.answer
        layout, groups = self._shown
        self._shown = (answer.layout, answer.groups)
        if answer.layout is not layout:
            self._place()
            self._scatter.xy("x", "y")
        if answer.groups is not groups:
            self._colour()
        rows = np.zeros(0, np.int64) if answer.chosen is None else np.flatnonzero(answer.chosen)
        if not np.array_equal(rows, np.sort(_rows(self.widget.selection))):
            self._is_following = True
            try:
                self._scatter.selection(rows)
            finally:
                self._is_following = False

    def _on_selection(self, change: dict[str, Any]) -> None:
        """Take the selection of a lasso; a double click clears it."""
        if not self._is_following:
            self.panel.choose_rows(_rows(change["new"]))


def _rows(selection: Any) -> Ints:
    return np.zeros(0, np.int64) if selection is None else np.asarray(selection, np.int64)


def _texts(memories: Any) -> list[str]:
    """What is shown of each memory that is pointed at: kind, user and date, then its first words; without secrets."""
    texts: list[str] = memories["text"].fill_null("").to_pylist()
    hide = Mask(texts)
    users, ids = memories["user_id"].to_pylist(), memories["memory_id"].to_pylist()
    names = names_of(memories)
    heads = (
        " · ".join(hide(word) for word in (names[memory_id][2], user, names[memory_id][3]) if word)
        for memory_id, user in zip(ids, users, strict=True)
    )
    shortened = (cut(" ".join(hide(text).split()), _TEXT) for text in texts)
    return [visible(f"{head}: {text}" if head else text) for head, text in zip(heads, shortened, strict=True)]
