"""The base of all results: a table with its companions, pictures and a report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit import plot
from memkit.display.notebook import Shown, Tabular
from memkit.display.page import as_figure, write_page
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ROWS = 200


@dataclass(frozen=True)
class Plots:
    """The pictures of a result: ``result.plot()`` draws the first that it has, ``result.plot.surface()`` one by name.

    Each raises ParameterError where the result has none.
    """

    of: Any

    def __call__(self, ax: Axes | None = None) -> Axes:
        """The first picture that the result has."""
        for draw in self._every():
            with suppress(ParameterError):
                return draw(ax=ax)
        raise ParameterError(f"plot: expected a result with something to draw. Got {type(self.of).__name__} without.")

    def differences(self, ax: Axes | None = None) -> Axes:
        """As `mk.plot.differences`."""
        return plot.differences(self.of, ax=ax)

    def groups(self, ax: Axes | None = None) -> Axes:
        """As `mk.plot.groups`."""
        return plot.groups(self.of, ax=ax)

    def power(self, ax: Axes | None = None) -> Axes:
        """As `mk.plot.power`."""
        return plot.power(self.of, ax=ax)

    def stages(self, ax: Axes | None = None) -> Axes:
        """As `mk.plot.stages`."""
        return plot.stages(self.of, ax=ax)

    def surface(self, x: str | None = None, y: str | None = None, ax: Axes | None = None) -> Axes:
        """As `mk.plot.surface`."""
        return plot.surface(self.of, x=x, y=y, ax=ax)

    def pool(self, ax: Axes | None = None) -> Axes:
        """As `mk.plot.pool`."""
        return plot.pool(self.of, ax=ax)

    def all(self) -> list[Axes]:
        """All pictures that the result has."""
        drawn = []
        for draw in self._every():
            with suppress(ParameterError):
                drawn.append(draw())
        return drawn

    def _every(self) -> tuple[Callable[..., Axes], ...]:
        return self.differences, self.groups, self.surface, self.pool, self.power, self.stages


class Result(Tabular):
    """A table that any data frame library reads, its companions, and a sentence that sums it up."""

    @property
    def plot(self) -> Plots:
        """Its pictures."""
        return Plots(self)

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML page that needs no other file: tables that can be sorted, and pictures with descriptions.

        Parameters
        ----------
        path : str or Path
            The file to write, usually ``.html``.
        title : str, optional
            The page's title; by default the kind of result.

        Returns
        -------
        Path
        """
        shown = Shown(*self._sheets(_ROWS))
        body = shown._repr_html_() + shown.hide.in_html("".join(as_figure(ax) for ax in self.plot.all()))
        return write_page(path, f"memkit: {type(self).__name__.lower()}" if title is None else title, body, True)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return Shown(*self._sheets())._repr_html_()

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        head, _, more = str(self).partition(". ")
        sheet = sheet_of(self.table, rows, show_secrets)
        return (replace(sheet, heading=head, notes=(more, *sheet.notes) if more else sheet.notes),)
