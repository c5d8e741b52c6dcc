"""What all pictures share: an Axes, colours, names that fit, and the same in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memkit.display.draw import bar
from memkit.display.sheet import visible
from memkit.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito: told apart by every kind of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
FAINT, FAINTER = "#80808073", "#80808045"
"""See-through greys, which stand back on a light and on a dark page: of what belongs nowhere, and of what is free."""


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


def axes_for(ax: Axes | None, title: str, inches: tuple[float, float]) -> Axes:
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


def say_empty(ax: Axes, sentence: str) -> None:
    """Say in the middle of an empty picture that there is nothing, where a scale of 0 to 1 would look like data."""
    ax.text(0.5, 0.5, sentence, transform=ax.transAxes, ha="center", va="center", color="#666666")
    ax.set_yticks([])


def in_words(title: str, rows: Sequence[tuple[str, Any]]) -> str:
    """A title and rows as lines; numbers with a bar. Names are anybody's: none may control a terminal."""
    rows = [(visible(name), visible(value) if isinstance(value, str) else value) for name, value in rows]
    wide = max((len(name) for name, _ in rows), default=0)
    top = max((value for _, value in rows if not isinstance(value, str)), default=0)
    lines = []
    for name, value in rows:
        words = value if isinstance(value, str) else f"{bar(value / max(top, 1), 20).rstrip()} {value:,}"
        lines.append(f"{name.ljust(wide)}  {words}")
    return "\n".join([visible(title), *lines])
