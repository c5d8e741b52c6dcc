"""One figure that is drawn on again and again, fast enough for a slider: PNG in some tens of milliseconds.

Most of a small picture's time goes into its words and ticks, which hardly change from one step of a slider to the next:
words are set once and kept, axes and legend are a few strokes beside them.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.ticker import AutoLocator, FixedFormatter, FixedLocator, ScalarFormatter
from matplotlib.transforms import IdentityTransform
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from memkit.schemas import Floats

PICTURE = (7.0, 3.2)
"""Inches, at 100 dots each."""
_DOTS = 100
_SMALL, _USUAL = 8.5, 10.0
"""Points."""
_TICK, _GAP, _LINE, _SAMPLE = 5, 4, 16, 20
"""Pixels of a tick, between a tick and its words, of a line of the legend, and of a sample in it."""
_SIMPLE = (range(0x0530), range(0x2010, 0x2028), range(0x2190, 0x21A0), range(0x2200, 0x2270), range(0x25A0, 0x25D0))
"""Letters and signs that stand side by side, from left to right."""


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
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a title may be in any script
            self.axes = draw(self.axes)
            self._fit()
            self.canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib types none of it
        file = io.BytesIO()
        image = Image.fromarray(_pixels(self.canvas)[:, :, :3])
        image.save(file, "png", compress_level=1)
        return file.getvalue()

    def _fit(self) -> None:
        """Room at the left for the longest name; working a layout out would take longer than drawing."""
        ax = self.axes
        wide, high = (side * _DOTS for side in PICTURE)
        longest = max((_width(name, _SMALL) for _, name in _ticks(ax.yaxis)), default=0.0)
        left = 14 + longest + 20 * bool(ax.get_ylabel())
        below = 26 + 20 * bool(ax.get_xlabel()) + sum(_LINE * len(one.lines) for one in _legends(ax) if one.is_below)
        self.figure.subplots_adjust(left=min(left / wide, 0.5), right=0.985, top=0.9, bottom=below / high)


class _Axes(Axes):
    """Axes whose scales and legend are those below; matplotlib's own take as long as all else."""

    def clear(self) -> None:
        if not self.__dict__.get("_is_used"):
            super().clear()
            for part in (self.xaxis, self.yaxis, self.patch, *self.spines.values()):
                part.set_visible(False)
            self.add_artist(_Scales())
            self._is_used = True
            return
        for artist in [*self.lines, *self.patches, *self.collections, *self.texts, *_legends(self)]:
            artist.remove()
        self.containers.clear()
        self.relim()
        self.set(xlim=(0, 1), ylim=(0, 1), xlabel="", ylabel="")
        for axis in (self.xaxis, self.yaxis):
            axis.set_major_locator(AutoLocator())
            axis.set_major_formatter(ScalarFormatter())
        self.set_autoscale_on(True)

    def barh(  # type: ignore[override]  # of matplotlib's ways to say where, those that memkit's pictures use
        self, y: Any, width: Any, height: float = 0.8, left: Any = 0.0, **style: Any
    ) -> Any:
        """All bars of a kind as one artist; as many as there are would take most of the time."""
        names = list(y) if len(y) and isinstance(y[0], str) else None
        at = np.arange(len(y), dtype=float) if names else np.asarray(y, dtype=float)
        start = np.broadcast_to(np.asarray(left, dtype=float), at.shape)
        if names:
            self.set_yticks(at, names)
        return self._boxes(start, at - height / 2, start + np.asarray(width, dtype=float), at + height / 2, **style)

    def stairs(self, values: Any, edges: Any, *, baseline: Any = 0.0, **style: Any) -> Any:  # type: ignore[override]  # as above
        """As `barh`, upright and side by side."""
        low = np.broadcast_to(np.asarray(baseline, dtype=float), np.shape(values))
        return self._boxes(np.asarray(edges)[:-1], low, np.asarray(edges)[1:], np.asarray(values, dtype=float), **style)

    def _boxes(self, left: Floats, low: Floats, right: Floats, high: Floats, **style: Any) -> PolyCollection:
        corners = np.stack(
            [np.stack(side, axis=1) for side in ((left, low), (right, low), (right, high), (left, high))], 1
        )
        look = {"facecolors": style.get("color"), "edgecolors": style.get("edgecolor", "none")}
        drawn = list(corners[(left != right) & (low != high)])
        boxes = PolyCollection(drawn, label=style.get("label", ""), hatch=style.get("hatch"), **look)
        boxes.sticky_edges.x.append(0)
        self.add_collection(boxes, autolim=False)
        self.update_datalim(corners.reshape(-1, 2))
        self.autoscale_view()
        return boxes

    def set_xticks(self, ticks: Any, labels: Any = None, **_: Any) -> Any:
        _name(self.xaxis, ticks, labels)

    def set_yticks(self, ticks: Any, labels: Any = None, **_: Any) -> Any:
        _name(self.yaxis, ticks, labels)

    def legend(self, *_: Any, loc: str = "", **style: Any) -> Any:  # type: ignore[override]  # as above
        """Below the picture, unless its upper right is asked for."""
        return self.add_artist(_Legend(*self.get_legend_handles_labels(), is_below=loc != "upper right"))

    def set_title(self, *words: Any, **style: Any) -> Any:
        return super().set_title(*words, **{"y": 1.0, **style})  # else all else is measured to find a place for it


def _name(axis: Any, ticks: Any, labels: Any) -> None:
    axis.set_major_locator(FixedLocator(list(ticks)))
    if labels is not None:
        axis.set_major_formatter(FixedFormatter(list(labels)))


def _ticks(axis: Any) -> list[tuple[float, str]]:
    """Where the ticks of an axis are, in pixels, and what stands there."""
    places = np.asarray(axis.get_majorticklocs(), dtype=float)
    names = axis.get_major_formatter().format_ticks(places)
    low, high = sorted(axis.get_view_interval())
    room = 1e-9 * (high - low)
    pixels = axis.axes.transData.transform(np.column_stack([places, places]))[:, int(axis.axis_name == "y")]
    inside = (places >= low - room) & (places <= high + room)
    return [(float(pixels[at]), names[at]) for at in np.flatnonzero(inside)]


class _Part(Artist):
    """What belongs to the axes, and is drawn by the renderer below."""

    axes: Any

    def _draw_other(self, artist: Artist, renderer: Any) -> None:
        artist.set_figure(self.axes.figure)
        artist.draw(renderer)


class _Scales(_Part):
    """The left and lower side of the picture, its ticks, and what stands at them."""

    zorder = 2.5

    def draw(self, renderer: Any) -> None:
        ax = self.axes
        left, bottom, right, top = ax.bbox.extents
        across, up = _ticks(ax.xaxis), _ticks(ax.yaxis)
        strokes = [(left, bottom, right, bottom), (left, bottom, left, top)]
        strokes += [(x, bottom, x, bottom - _TICK) for x, _ in across] + [(left, y, left - _TICK, y) for y, _ in up]
        renderer.strokes(np.array(strokes))
        for x, name in across:
            renderer.words(name, x, bottom - _TICK - _GAP, _SMALL, across=0.5, up=1)
        for y, name in up:
            renderer.words(name, left - _TICK - _GAP, y, _SMALL, across=1, up=0.5)
        renderer.words(ax.get_xlabel(), (left + right) / 2, bottom - 24, _USUAL, across=0.5, up=1)
        renderer.words(ax.get_ylabel(), 5, (bottom + top) / 2, _USUAL, across=0.5, up=1, angle=90)


class _Legend(_Part):
    """What stands for what: lines of samples and words below the picture, or a column at its upper right."""

    zorder = 5

    def __init__(self, handles: Sequence[Any], labels: Sequence[str], is_below: bool) -> None:
        super().__init__()
        self.is_below = is_below
        self.lines: list[list[tuple[Any, str, float]]] = []
        room = 0.0
        for handle, label in zip(handles, labels, strict=True):
            wide = _SAMPLE + _GAP + _width(label, _SMALL)
            if wide > room or not is_below:
                self.lines.append([])
                room = PICTURE[0] * _DOTS
            self.lines[-1].append((handle, label, wide))
            room -= wide + _LINE

    def get_texts(self) -> list[Any]:
        """None: its words are as they are written."""
        return []

    def draw(self, renderer: Any) -> None:
        right, top = self.axes.bbox.extents[2:]
        top -= _LINE  # what is drawn along the upper side can be seen
        longest = max((wide for line in self.lines for _, _, wide in line), default=0.0)
        if not self.is_below:
            high = _LINE * len(self.lines) + _GAP
            ground = Rectangle((right - longest - _GAP, top - high), longest + _GAP, high, facecolor="white", alpha=0.7)
            self._draw_other(ground, renderer)
        for at, line in enumerate(self.lines):
            whole = sum(wide for _, _, wide in line) + _LINE * (len(line) - 1)
            x = (PICTURE[0] * _DOTS - whole) / 2 if self.is_below else right - longest
            y = _LINE * (len(self.lines) - at - 0.5) + _GAP if self.is_below else top - _LINE * (at + 0.5)
            for handle, label, wide in line:
                self._draw_other(_sample(handle, x, y), renderer)
                renderer.words(label, x + _SAMPLE + _GAP, y, _SMALL, up=0.5)
                x += wide + _LINE


def _legends(ax: Axes) -> list[_Legend]:
    return [one for one in ax.artists if isinstance(one, _Legend)]


def _sample(handle: Any, x: float, y: float) -> Artist:
    """What stands for lines, dots or boxes that look like this."""
    if isinstance(handle, Line2D):
        line = Line2D([x, x + _SAMPLE], [y, y])
        line.update_from(handle)
        line.set(transform=IdentityTransform(), clip_on=False)
        return line
    face, edge = handle.get_facecolor(), handle.get_edgecolor()
    if isinstance(handle, PathCollection):
        middle = [(x + _SAMPLE / 2, y)]
        look = {"facecolors": face, "edgecolors": edge, "linewidths": handle.get_linewidth()}
        return PathCollection(
            handle.get_paths()[:1], [40], offsets=middle, offset_transform=IdentityTransform(), **look
        )
    return Rectangle((x, y - 5), _SAMPLE, 10, facecolor=face[0], edgecolor="white", hatch=handle.get_hatch())


class _Canvas(FigureCanvasAgg):
    def get_renderer(self) -> RendererAgg:
        if not hasattr(self, "_own"):
            width, height = self.get_width_height()
            self._own = _Renderer(width, height, self.figure.dpi)  # type: ignore[no-untyped-call]  # as above
        self.renderer = self._own
        return self._own


class _Renderer(RendererAgg):
    """Agg, whose words in simple scripts are kept as masks."""

    def words(
        self, text: str, x: float, y: float, size: float, across: float = 0.0, up: float = 0.0, angle: float = 0.0
    ) -> None:
        """Words, of which so much is to the left of a point, and so much of their height below it."""
        back = across * _width(text, size)
        down = up * 0.74 * size * _DOTS / 72  # the height of a capital
        at = (x + down, self.height - y + back) if angle else (x - back, self.height - y + down)
        if text:
            self.draw_text(self.new_gc(), *at, text, _prop(size), angle)

    def strokes(self, ends: Floats) -> None:
        """Thin black lines, each from a point to another."""
        gc = self.new_gc()
        gc.set_linewidth(0.8 * _DOTS / 72)
        gc.set_snap(True)
        path = Path(ends.reshape(-1, 2), np.tile([Path.MOVETO, Path.LINETO], len(ends)))
        self.draw_path(gc, path, IdentityTransform())  # type: ignore[no-untyped-call]  # as above

    def draw_text(self, gc: Any, x: float, y: float, s: str, prop: Any, angle: float, *more: Any, **named: Any) -> None:
        if angle not in (0, 90) or (more and more[0]) or named.get("ismath") or not _is_simple(s):
            super().draw_text(gc, x, y, s, prop, angle, *more, **named)  # type: ignore[no-untyped-call]  # matplotlib types none of it
            return
        mask, right, up = _mask(s, findfont(prop), prop.get_size_in_points() * _DOTS / 72, bool(angle))
        ground = _pixels(self)
        left, top = round(x) + right, round(y) + up
        rows, columns = slice(max(top, 0), top + mask.shape[0]), slice(max(left, 0), left + mask.shape[1])
        under = ground[rows, columns, :3]
        share = mask[rows.start - top :, columns.start - left :][: under.shape[0], : under.shape[1], None]
        share = share * gc.get_alpha()
        under[:] = under * (1 - share) + np.array(gc.get_rgb()[:3]) * 255 * share


@lru_cache(maxsize=2000)
def _is_simple(text: str) -> bool:
    return all(any(ord(sign) in some for some in _SIMPLE) for sign in text)


@lru_cache(maxsize=2000)
def _mask(text: str, font: str, size: float, is_upright: bool) -> tuple[Floats, int, int]:
    """How far each pixel is covered, and where the first one stands from the start of the base line."""
    face = _face(font, size)
    left, top, right, bottom = (int(end) for end in face.getbbox(text, anchor="ls"))
    mask = Image.new("L", (right - left + 1, bottom - top + 1))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=face, anchor="ls")
    shares = np.asarray(mask, np.float64) / 255
    return (np.rot90(shares), top, -right) if is_upright else (shares, left, top)


@lru_cache(maxsize=2000)
def _width(text: str, size: float) -> float:
    if _is_simple(text):
        return _face(findfont(_prop(size)), size * _DOTS / 72).getlength(text)
    measure = RendererAgg(1, 1, _DOTS)  # type: ignore[no-untyped-call]  # as above
    return float(measure.get_text_width_height_descent(text, _prop(size), ismath=False)[0])  # type: ignore[no-untyped-call]  # as above


@lru_cache(maxsize=20)
def _prop(size: float) -> FontProperties:
    return FontProperties(size=size)


@lru_cache(maxsize=20)
def _face(font: str, size: float) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(font, size)


def _pixels(surface: Any) -> NDArray[np.uint8]:
    return np.asarray(surface.buffer_rgba())
