"""One figure that is drawn on again and again, fast enough for a slider: PNG in tens of milliseconds.

Most of a small picture's time goes into its words, which hardly change from one step of a slider to the next: they are
set once, and kept.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from memkit.schemas import Floats

PICTURE = (7.0, 3.2)
"""Inches, at 100 dots each."""
_DOTS = 100
_SIMPLE = 0x0530
"""Below it letters stand side by side, from left to right."""


class Drawing:
    """A figure with one pair of axes.

    Examples
    --------
    >>> drawing = Drawing()
    >>> drawing.png(lambda ax: ax.set_title("чай") and ax)[:4]
    b'\\x89PNG'
    """

    def __init__(self) -> None:
        self.figure = Figure(figsize=PICTURE, dpi=_DOTS, facecolor="white")
        self.canvas = _Canvas(self.figure)
        self.axes: Axes = self.figure.add_subplot(axes_class=_Axes)

    def png(self, draw: Callable[[Axes], Axes]) -> bytes:
        """What `draw` leaves on the axes, as PNG."""
        self.axes = draw(self.axes)
        self._fit()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a title may be in any script
            self.canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib types none of it
        file = io.BytesIO()
        image = Image.fromarray(_pixels(self.canvas)[:, :, :3])
        image.save(file, "png", compress_level=1)
        return file.getvalue()

    def _fit(self) -> None:
        """Room at the left for the longest name; working a layout out would take longer than drawing."""
        ax = self.axes
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        wide = max((_width(label) for label in ax.get_yticklabels()), default=0.0)
        left = 0.025 + wide / (PICTURE[0] * _DOTS) + 0.035 * bool(ax.get_ylabel())
        right = 0.985 if len(self.figure.axes) == 1 else 0.9
        bottom = 0.25 if getattr(ax, "_has_line_below", False) else 0.145 if ax.get_xlabel() else 0.08
        self.figure.subplots_adjust(left=min(left, 0.5), right=right, top=0.9, bottom=bottom)


class _Axes(Axes):
    """Axes whose ticks are kept when they are cleared; they take as long to make as all else."""

    def clear(self) -> None:
        if not self.__dict__.get("_is_used"):
            super().clear()
            self.tick_params(labelsize=8.5)
            self._is_used = True
            return
        for artist in [*self.lines, *self.patches, *self.collections, *self.texts]:
            artist.remove()
        if (legend := self.get_legend()) is not None:
            legend.remove()
        self.containers.clear()
        self.relim()
        self.set(xlim=(0, 1), ylim=(0, 1), xlabel="", ylabel="")
        self.set_autoscale_on(True)

    def barh(  # type: ignore[override]  # of matplotlib's ways to say where, those that memkit's pictures use
        self, y: Any, width: Any, height: float = 0.8, left: Any = 0.0, **style: Any
    ) -> Any:
        """All bars of a kind as one artist; as many as there are would take most of the time."""
        names = list(y) if len(y) and isinstance(y[0], str) else None
        at = np.arange(len(y), dtype=float) if names else np.asarray(y, dtype=float)
        start = np.broadcast_to(np.asarray(left, dtype=float), at.shape)
        end, half = start + np.asarray(width, dtype=float), height / 2
        sides = [(start, at - half), (end, at - half), (end, at + half), (start, at + half)]
        corners = np.stack([np.stack(side, axis=1) for side in sides], axis=1)
        look = {"facecolors": style.get("color"), "edgecolors": style.get("edgecolor", "none")}
        drawn = list(corners) if np.any(width) else []
        bars = PolyCollection(drawn, label=style.get("label", ""), hatch=style.get("hatch"), **look)
        bars.sticky_edges.x.append(0)
        self.add_collection(bars, autolim=False)
        self.update_datalim(corners.reshape(-1, 2))
        self.autoscale_view()
        if names:
            self.set_yticks(at, names)
        return bars

    def legend(self, *words: Any, **style: Any) -> Any:
        """One below stands in one line, for which `Drawing` keeps room."""
        if style.get("bbox_to_anchor", (0, 0))[1] < 0:
            style |= {"bbox_to_anchor": (0.5, -0.185), "loc": "upper center", "ncols": 8, "borderaxespad": 0.2}
            self._has_line_below = True
        return super().legend(*words, **style)

    def set_title(self, *words: Any, **style: Any) -> Any:
        return super().set_title(*words, **{"y": 1.0, **style})  # else all else is measured to find a place for it


class _Canvas(FigureCanvasAgg):
    def get_renderer(self) -> RendererAgg:
        if not hasattr(self, "_own"):
            width, height = self.get_width_height()
            self._own = _Renderer(width, height, self.figure.dpi)  # type: ignore[no-untyped-call]  # as above
        self.renderer = self._own
        return self._own


class _Renderer(RendererAgg):
    """Agg, whose words in simple scripts are kept as masks."""

    def draw_text(self, gc: Any, x: float, y: float, s: str, prop: Any, angle: float, *more: Any, **named: Any) -> None:
        if angle or (more and more[0]) or named.get("ismath") or max(s, default="") >= chr(_SIMPLE):
            super().draw_text(gc, x, y, s, prop, angle, *more, **named)  # type: ignore[no-untyped-call]  # matplotlib types none of it
            return
        mask, right, up = _mask(s, findfont(prop), prop.get_size_in_points() * _DOTS / 72)
        ground = _pixels(self)
        left, top = round(x) + right, round(y) + up
        rows, columns = slice(max(top, 0), top + mask.shape[0]), slice(max(left, 0), left + mask.shape[1])
        under = ground[rows, columns, :3]
        share = mask[rows.start - top :, columns.start - left :][: under.shape[0], : under.shape[1], None]
        share = share * gc.get_alpha()
        under[:] = under * (1 - share) + np.array(gc.get_rgb()[:3]) * 255 * share


@lru_cache(maxsize=2000)
def _mask(text: str, font: str, size: float) -> tuple[Floats, int, int]:
    """How far each pixel is covered, and where the first one stands from the start of the base line."""
    face = _face(font, size)
    left, top, right, bottom = (int(end) for end in face.getbbox(text, anchor="ls"))
    mask = Image.new("L", (right - left + 1, bottom - top + 1))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=face, anchor="ls")
    return np.asarray(mask, np.float64) / 255, left, top


def _width(label: Any) -> float:
    face = _face(findfont(label.get_fontproperties()), label.get_size() * _DOTS / 72)
    return face.getlength(label.get_text())


@lru_cache(maxsize=20)
def _face(font: str, size: float) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(font, size)


def _pixels(surface: Any) -> NDArray[np.uint8]:
    return np.asarray(surface.buffer_rgba())
