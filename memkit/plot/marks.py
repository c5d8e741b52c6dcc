"""A picture as data: five kinds of marks on two axes, and the words that say the same.

A `Picture` is drawn twice: as SVG, which panels and reports show (sharp, in the page's own colours, made in about a
millisecond), and on an Axes of matplotlib, for notebooks and PNG.
"""

from __future__ import annotations

import html
import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from memkit.display.draw import bar
from memkit.display.sheet import visible
from memkit.errors import ParameterError
from memkit.schemas import Floats, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito: told apart by every kind of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
FAINT, FAINTER = "#80808073", "#80808045"
"""See-through greys, which stand back on a light and on a dark page: of what belongs nowhere, and of what is free."""
# A round number.
MARKS = 400
"""The most marks of a picture that a page shows without a wait."""
WIDE, HIGH = 700, 320
"""Pixels of the SVG, and of the PNG at 100 dots an inch, where a picture says nothing else."""
_LETTER, _CAPITAL, _SMALL, _LINE, _SAMPLE, _TICK = 6.8, 1.6, 11, 16, 20, 5
"""Pixels: of a letter, more of a capital, a font size, a line of the legend, a sample in it, a tick."""
_TICKS = 6
"""About so many names have room below a picture of 700 pixels."""
_DASHES = {"-": "", "--": "7 4", "-.": "7 3 2 3", ":": "2 3"}
_STEP = 6
"""Pixels between two strokes of a hatch."""
_SHAPES = {"o": "", "s": "M-1-1H1V1H-1Z", "^": "M0-1L1 1H-1Z", "D": "M0-1.2L1.2 0L0 1.2L-1.2 0Z", "|": "M0-1V1"}
_PICTOGRAPHS = re.compile("[\U0001f000-\U0001faff\U000e0000-\U000e007f\ufe0e\ufe0f\u200d\u20e3]+")


def drawable(text: str) -> str:
    """`text` without emoji, of which the fonts of pictures have no glyph and would draw boxes.

    >>> drawable("🚀 Запуск \U0001f469\u200d\U0001f4bb в мае")
    'Запуск в мае'
    """
    return " ".join(_PICTOGRAPHS.sub(" ", text).split()) if _PICTOGRAPHS.search(text) else text


def short(name: str, most: int = 36) -> str:
    """`name` in so many characters, without emoji: its beginning and, as names often differ there, its end.

    >>> short("Константин Константинопольский 12", 20)
    'Константин Ко…кий 12'
    """
    kept = " ".join(drawable(name).split())
    return kept if len(kept) <= most else f"{kept[: most - most // 3 - 1].rstrip()}…{kept[-(most // 3) :].lstrip()}"


@dataclass(frozen=True)
class Bars:
    """Boxes from `left` to `right` and `low` to `high`, each of shape (n,) or one number for all.

    Attributes
    ----------
    hatch : str
        White strokes over them: '//', 'xx', '..' or none.
    filled : bool
        Or else an outline.
    """

    left: Any
    right: Any
    low: Any
    high: Any
    colour: str
    label: str = ""
    hatch: str = ""
    filled: bool = True

    @property
    def boxes(self) -> Floats:
        """Shape (n, 4): left, low, right, high; boxes without a size are left out."""
        every = np.stack(np.broadcast_arrays(*map(_floats, (self.left, self.low, self.right, self.high))), axis=-1)
        boxes: Floats = np.atleast_2d(every)
        visible: Floats = boxes[(boxes[:, 0] != boxes[:, 2]) & (boxes[:, 1] != boxes[:, 3])]
        return visible


@dataclass(frozen=True)
class Line:
    """A line through points, broken where one is NaN; `style` as matplotlib names it: '-', '--', '-.' or ':'."""

    x: Any
    y: Any
    colour: str
    label: str = ""
    style: str = "-"
    width: float = 1.5


@dataclass(frozen=True)
class Area:
    """What lies between `low` and `high` over `x`, each of shape (n,)."""

    x: Any
    low: Any
    high: Any
    colour: str
    label: str = ""


@dataclass(frozen=True)
class Dots:
    """A sign at each point that is not NaN: 'o', 's', '^', 'D' or '|'.

    Attributes
    ----------
    size : float or ndarray of shape (n,)
        Area, in square points.
    filled : bool
        Or else an outline.
    outlined : ndarray of bool, shape (n,), or None
        Which of them have a rim in the colour of the words.
    """

    x: Any
    y: Any
    colour: str
    label: str = ""
    shape: str = "o"
    size: Any = 36.0
    filled: bool = True
    outlined: Mask | None = None
    alpha: float = 1.0


@dataclass(frozen=True)
class Text:
    """A few words right of a point."""

    x: float
    y: float
    text: str


Mark = Bars | Line | Area | Dots | Text


@dataclass(frozen=True)
class Axis:
    """From `low` to `high` (which may be the smaller one); `ticks` are places and names, None for round numbers.

    Attributes
    ----------
    log : bool
        Whether equal lengths are equal ratios; both ends are above 0 then.
    """

    low: float
    high: float
    label: str = ""
    ticks: Sequence[tuple[float, str]] | None = None
    log: bool = False

    def named(self) -> list[tuple[float, str]]:
        """Where ticks are, and what stands there."""
        return list(round_ticks(self.low, self.high) if self.ticks is None else self.ticks)


@dataclass(frozen=True)
class Picture:
    """Marks on two axes, in the order in which they are drawn. It shows itself in Jupyter; as text it is its words.

    Attributes
    ----------
    rows : sequence of (str, int or str)
        The picture in words: a name and a number or words.
    empty : str
        What is said in its middle where there is nothing.
    high : int
        Pixels.

    Examples
    --------
    >>> bars = Bars(0, [4, 2], [-0.4, 0.6], [0.4, 1.4], "#0072B2")
    >>> picture = Picture("2 rows", [bars], Axis(0, 5), Axis(1.5, -0.5), [("tea", 4), ("milk", 2)])
    >>> picture
    2 rows
    tea   ████████████████████ 4
    milk  ██████████ 2
    >>> picture.svg.count("<rect"), picture.png[1:4], picture.draw().get_xlim()
    (2, b'PNG', (np.float64(0.0), np.float64(5.0)))
    """

    title: str
    marks: Sequence[Mark]
    x: Axis
    y: Axis
    rows: Sequence[tuple[str, Any]] = ()
    empty: str = ""
    high: int = HIGH

    @property
    def words(self) -> str:
        """The same in words, for readers who cannot see it."""
        return _in_words(self.title, self.rows)

    def draw(self, ax: Axes | None = None) -> Axes:
        """Draw with matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Cleared and drawn on; a new figure (not pyplot's) by default.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ParameterError
        """
        is_own, ax = ax is None, _axes_for(ax, self.title, (WIDE / 100, self.high / 100))
        for mark in self.marks:
            _ON_AXES[type(mark)](ax, mark)
        scales = {name: "log" if axis.log else "linear" for name, axis in (("xscale", self.x), ("yscale", self.y))}
        ax.set(**scales, xlim=(self.x.low, self.x.high), ylim=(self.y.low, self.y.high))
        ax.set(xlabel=self.x.label, ylabel=self.y.label)
        for axis, set_ticks in ((self.x, ax.set_xticks), (self.y, ax.set_yticks)):
            if axis.ticks is not None:
                set_ticks(
                    [place for place, _ in axis.ticks], [name for _, name in axis.ticks], parse_math=False, fontsize=8
                )
                set_ticks([], minor=True)
        if any(mark.label for mark in self.marks if not isinstance(mark, Text)):
            _put_legend(ax, is_own)
        if self.empty:
            # Where there is nothing, a scale of 0 to 1 would look like data.
            ax.text(0.5, 0.5, self.empty, transform=ax.transAxes, ha="center", va="center", color="#666666")
            ax.set_yticks([])
        return ax

    @cached_property
    def png(self) -> bytes:
        """As PNG, on white."""
        figure: Any = self.draw().figure
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a title may be in any script
            figure.savefig(file, format="png", dpi=100)
        return file.getvalue()

    @cached_property
    def inline(self) -> str:
        """As SVG within a page, in its colours; each word of the user's is escaped."""
        return _Sheet(self).svg()

    @property
    def svg(self) -> str:
        """The same as a file of its own, which a browser would show as XML if it had no namespace."""
        return self.inline.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)

    def in_html(self) -> str:
        """As SVG with its words below."""
        in_words = f"<details><summary>In words</summary><pre>{html.escape(self.words)}</pre></details>"
        return f"<figure>{self.inline}{in_words}</figure>"

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return self.words


def round_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """About six round numbers within two ends.

    >>> round_ticks(0, 1.05)
    [(0.0, '0'), (0.2, '0.2'), (0.4, '0.4'), (0.6, '0.6'), (0.8, '0.8'), (1.0, '1')]
    """
    low, high = sorted((low, high))
    room = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(room / _TICKS))
    step = next(power * by for by in (1, 2, 2.5, 5, 10) if room / (power * by) <= _TICKS)
    # A tick at an end stays, though 0.3 / 0.1 is less than 3.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = [round(multiple * step, 10) for multiple in range(first, last + 1)]
    return [(place, f"{place:,.10g}") for place in places]


def _in_words(title: str, rows: Sequence[tuple[str, Any]]) -> str:
    """A title and rows as lines; numbers with a bar. Names are anybody's: none may control a terminal."""
    rows = [(visible(name), visible(value) if isinstance(value, str) else value) for name, value in rows]
    wide = max((len(name) for name, _ in rows), default=0)
    top = max((value for _, value in rows if not isinstance(value, str)), default=0)
    lines = []
    for name, value in rows:
        words = value if isinstance(value, str) else f"{bar(value / max(top, 1), 20).rstrip()} {value:,}"
        lines.append(f"{name.ljust(wide)}  {words}")
    return "\n".join([visible(title), *lines])


def _floats(values: Any) -> Floats:
    return np.asarray(values, np.float64)


# On an Axes of matplotlib.


def _axes_for(ax: Axes | None, title: str, inches: tuple[float, float]) -> Axes:
    """`ax` cleared, else one of a new figure of this size."""
    if ax is None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=inches, layout="constrained")
        FigureCanvasAgg(figure)
        ax = figure.subplots()
    if not callable(getattr(ax, "clear", None)):
        raise ParameterError(f"plot: 'ax' must be a matplotlib Axes or None. Got {type(ax).__name__}.")
    ax.clear()
    ax.set_title(drawable(title), parse_math=False, fontsize=10, loc="left")
    return ax


def _put_legend(ax: Axes, is_own: bool) -> None:
    """Below the picture: of a figure of its own, below the axis too."""
    from matplotlib.collections import PathCollection

    longest = max(map(cell_len, ax.get_legend_handles_labels()[1]))
    how: dict[str, Any] = {"frameon": False, "fontsize": 8, "ncols": max(1, min(3, 100 // (longest + 6)))}
    figure: Any = ax.figure
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
    legend = figure.legend(loc="outside lower center", **how) if is_own else ax.legend(**place, **how)
    for text in legend.get_texts():
        text.set_parse_math(False)
    for sample in legend.legend_handles:
        if isinstance(sample, PathCollection):
            sample.set_sizes([40])


def _bars_on(ax: Axes, mark: Bars) -> None:
    boxes = mark.boxes if len(mark.boxes) else np.zeros((1, 4))  # for its colour in the legend
    left, low, right, high = boxes.T
    look = {"color": mark.colour, "hatch": mark.hatch or None, "edgecolor": "white", "linewidth": 0.5}
    look = look if mark.filled else {"color": "none", "edgecolor": mark.colour, "linewidth": 1.0}
    ax.bar(left, high - low, right - left, low, align="edge", label=mark.label, **look)  # type: ignore[arg-type]  # a dict of styles


def _line_on(ax: Axes, mark: Line) -> None:
    (line,) = ax.plot(mark.x, mark.y, mark.style, color=mark.colour, lw=mark.width)
    line.set_label(mark.label.lstrip("_") or ("_" if mark.label else ""))  # what begins so has no place in a legend


def _area_on(ax: Axes, mark: Area) -> None:
    ax.fill_between(mark.x, mark.low, mark.high, color=mark.colour, lw=0, label=mark.label)


def _dots_on(ax: Axes, mark: Dots) -> None:
    from matplotlib.colors import to_rgba

    look: dict[str, Any] = {"color": mark.colour, "edgecolors": "none"}
    if mark.outlined is not None:
        # By their width: where all share one alpha, an edge of no colour among others becomes black.
        widths: Any = np.where(mark.outlined, 2, 0).tolist() or 2
        look = {"facecolors": mark.colour, "edgecolors": "black", "linewidths": widths}
    if not mark.filled:
        look = {"facecolors": "none", "edgecolors": mark.colour, "linewidths": 2}
    if mark.shape == "|":
        look = {"color": mark.colour, "linewidths": 1}
    # A rim around nothing is seen, though what it is filled with is not.
    alpha = mark.alpha * (1.0 if mark.colour == "none" else to_rgba(mark.colour)[3])
    ax.scatter(mark.x, mark.y, s=mark.size, marker=mark.shape, label=mark.label, alpha=alpha, zorder=3, **look)


def _text_on(ax: Axes, mark: Text) -> None:
    ax.text(mark.x, mark.y, f" {mark.text}", va="center", fontsize=8, parse_math=False)


_ON_AXES: dict[type, Any] = {Bars: _bars_on, Line: _line_on, Area: _area_on, Dots: _dots_on, Text: _text_on}


# As SVG.


class _Sheet:
    """One picture laid out in pixels."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.legend = self._legend_lines()
        longest = max((_wide(name) for _, name in picture.y.named()), default=0.0)
        self.left = min(16 + longest + _LINE * bool(picture.y.label), WIDE / 2)
        self.right, self.top = WIDE - 12.0, 26.0
        self.bottom = picture.high - 24.0 - _LINE * bool(picture.x.label) - _LINE * len(self.legend)

    def svg(self) -> str:
        """The whole SVG."""
        picture = self.picture
        elements = [_words(8, 16, picture.title, ""), *map(self._mark, picture.marks)]
        elements += [*self._scales(), *self._legend_svg()]
        if picture.empty:
            elements.append(_words((self.left + self.right) / 2, (self.top + self.bottom) / 2, picture.empty, "middle"))
        return (
            f'<svg viewBox="0 0 {WIDE} {picture.high}" role="img" aria-label="{_escaped(picture.words)}"'
            f' font-size="{_SMALL}" fill="currentColor">{"".join(elements)}</svg>'
        )

    def _x(self, value: Any) -> Any:
        return self.left + _share(value, self.picture.x) * (self.right - self.left)

    def _y(self, value: Any) -> Any:
        return self.bottom - _share(value, self.picture.y) * (self.bottom - self.top)

    def _mark(self, mark: Mark) -> str:
        if isinstance(mark, Bars):
            return "".join(self._box(mark, box) for box in mark.boxes.tolist())
        if isinstance(mark, Line):
            return self._line(mark)
        if isinstance(mark, Area):
            return self._area(mark)
        if isinstance(mark, Dots):
            return self._dots(mark)
        return _words(float(self._x(mark.x)) + 4, float(self._y(mark.y)) + 4, mark.text, "")

    def _box(self, mark: Bars, box: list[float]) -> str:
        x1, x2 = sorted((float(self._x(box[0])), float(self._x(box[2]))))
        y1, y2 = sorted((float(self._y(box[1])), float(self._y(box[3]))))
        return _filled(mark, x1, y1, x2 - x1, y2 - y1)

    def _line(self, mark: Line) -> str:
        xs, ys = self._x(mark.x), self._y(mark.y)
        gaps = np.flatnonzero(np.isnan(xs) | np.isnan(ys))
        parts = zip([0, *(gaps + 1)], [*gaps, len(xs)], strict=True)
        runs = (_points(xs[a:b], ys[a:b]) for a, b in parts)
        return "".join(f'<polyline points="{points}" {_stroke(mark)}/>' for points in runs if points)

    def _area(self, mark: Area) -> str:
        xs, low, high = self._x(mark.x), self._y(mark.low), self._y(mark.high)
        around = _points(np.append(xs, xs[::-1]), np.append(high, low[::-1]))
        return f'<polygon points="{around}" fill="{mark.colour}"/>' if len(xs) else ""

    def _dots(self, mark: Dots) -> str:
        xs, ys, sizes = np.broadcast_arrays(self._x(mark.x), self._y(mark.y), _floats(mark.size))
        rims = np.zeros(xs.shape, bool) if mark.outlined is None else mark.outlined
        dots = zip(xs.ravel(), ys.ravel(), sizes.ravel(), rims.ravel(), strict=True)
        return "".join(_sign(mark, x, y, size, rim) for x, y, size, rim in dots if x == x and y == y)

    def _scales(self) -> list[str]:
        """The left and lower side, ticks, and what stands at them."""
        picture = self.picture
        across = [(float(self._x(position)), name) for position, name in picture.x.named()]
        up = [(float(self._y(position)), name) for position, name in picture.y.named()]
        path = f"M{self.left:.1f} {self.top:.1f}V{self.bottom:.1f}H{self.right:.1f}"
        path += "".join(f"M{x:.1f} {self.bottom:.1f}v{_TICK}" for x, _ in across)
        path += "".join(f"M{self.left:.1f} {y:.1f}h-{_TICK}" for y, _ in up)
        parts = [f'<path d="{path}" fill="none" stroke="currentColor" stroke-width=".8"/>']
        # The last one may be wider than what is left of the picture beside its tick.
        parts += [_words(min(x, WIDE - _wide(name) / 2), self.bottom + 17, name, "middle") for x, name in across]
        parts += [_words(self.left - 8, y + 4, name, "end") for y, name in up]
        parts.append(_words((self.left + self.right) / 2, self.bottom + 33, picture.x.label, "middle"))
        if picture.y.label:
            rotation = f"rotate(-90 12 {(self.top + self.bottom) / 2:.1f})"
            parts.append(_words(12, (self.top + self.bottom) / 2, picture.y.label, "middle", rotation))
        return parts

    def _legend_lines(self) -> list[list[tuple[Any, float]]]:
        """The marks with a label, and how wide each is, in lines that fit."""
        lines: list[list[tuple[Any, float]]] = []
        room = 0.0
        for mark in self.picture.marks:
            if isinstance(mark, Text) or not mark.label:
                continue
            wide = _SAMPLE + 6 + _wide(mark.label) + _LINE
            if wide > room:
                lines.append([])
                room = WIDE - 20.0
            lines[-1].append((mark, wide))
            room -= wide
        return lines

    def _legend_svg(self) -> list[str]:
        parts = []
        for number, line in enumerate(self.legend):
            x = (WIDE - sum(wide for _, wide in line)) / 2
            y = self.picture.high - _LINE * (len(self.legend) - number) + 8.0
            for mark, wide in line:
                parts += [self._sample(mark, x, y), _words(x + _SAMPLE + 6, y + 4, mark.label, "")]
                x += wide
        return parts

    def _sample(self, mark: Any, x: float, y: float) -> str:
        if isinstance(mark, Area):
            mark = Bars(0, 0, 0, 0, mark.colour)
        if isinstance(mark, Bars):
            return _filled(mark, x, y - 5, _SAMPLE, 10)
        if isinstance(mark, Line):
            return f'<path d="M{x:.1f} {y:.1f}h{_SAMPLE}" {_stroke(mark)}/>'
        return _sign(mark, x + _SAMPLE / 2, y, 40.0, mark.outlined is not None)


def _share(value: Any, axis: Axis) -> Any:
    """How far along an axis a value lies, from 0 to 1."""
    value, low, high = map(_floats, (value, axis.low, axis.high))
    if axis.log:
        value, low, high = map(np.log10, (value, low, high))
    return (value - low) / ((high - low) or 1.0)


def _points(xs: Floats, ys: Floats) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _filled(mark: Bars, x: float, y: float, wide: float, high: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
    if not mark.filled:
        place = f'x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{max(wide - 1, 0):.1f}" height="{max(high - 1, 0):.1f}"'
        return f'<rect {place} fill="none" stroke="{mark.colour}"/>'
    box = f'<rect {place} fill="{mark.colour}"/>'
    if not mark.hatch:
        return box
    # A picture within the picture, which cuts off what reaches out; a pattern would need a name of its own in the page.
    return f'{box}<svg {place}><path d="{_hatched(mark.hatch, wide, high)}" stroke="#fff" fill="none"/></svg>'


def _hatched(hatch: str, wide: float, high: float) -> str:
    """White strokes over a box: '//', 'xx' or '..'."""
    if hatch == "..":
        rows = range(_STEP // 2, math.ceil(high), _STEP)
        return "".join(f"M{x} {y}h1.5" for y in rows for x in range(_STEP // 2, math.ceil(wide), _STEP))
    starts = range(-math.ceil(high), math.ceil(wide), _STEP)
    up = "".join(f"M{x} {high:.1f}l{high:.1f} -{high:.1f}" for x in starts)
    return up if hatch == "//" else up + "".join(f"M{x} 0l{high:.1f} {high:.1f}" for x in starts)


def _stroke(mark: Line) -> str:
    dashes = f' stroke-dasharray="{_DASHES[mark.style]}"' if _DASHES[mark.style] else ""
    return f'fill="none" stroke="{mark.colour}" stroke-width="{mark.width:g}"{dashes}'


def _sign(mark: Dots, x: float, y: float, size: float, has_rim: bool) -> str:
    radius = math.sqrt(size / math.pi) * 100 / 72
    rim = ' stroke="currentColor" stroke-width="2"' if has_rim else ""
    look = f'fill="{mark.colour}"{rim}' if mark.filled else f'fill="none" stroke="{mark.colour}" stroke-width="2"'
    look = f'stroke="{mark.colour}" stroke-width="1"' if mark.shape == "|" else look
    faint = f' opacity="{mark.alpha:g}"' if mark.alpha < 1 else ""
    if mark.shape == "o":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {look}{faint}/>'
    transform = f'transform="translate({x:.1f} {y:.1f}) scale({radius:.2f})" vector-effect="non-scaling-stroke"'
    return f'<path d="{_SHAPES[mark.shape]}" {transform} {look}{faint}/>'


def _words(x: float, y: float, text: str, anchor: str, transform: str = "") -> str:
    if not text:
        return ""
    attributes = (f' text-anchor="{anchor}"' if anchor else "") + (f' transform="{transform}"' if transform else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{_escaped(text)}</text>'


def _wide(text: str) -> float:
    return _LETTER * cell_len(text) + _CAPITAL * sum(map(str.isupper, text))


def _escaped(text: str) -> str:
    return html.escape(visible(text))
