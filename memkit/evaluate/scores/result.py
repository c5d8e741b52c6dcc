"""What evaluations return: tables that belong together, shown as one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.display.draw import as_html
from memkit.display.notebook import Shown, Tabular
from memkit.display.page import as_figure, write_page
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ROWS = 200


@dataclass(frozen=True)
class Plots:
    """The pictures of a result, as ``result.plot.surface()``; each raises ParameterError where the result has none."""

    of: Any

    def differences(self, ax: Axes | None = None) -> Axes:
        """As `plot_differences`."""
        return self._drawn("pictures", "differences", ax=ax)

    def groups(self, ax: Axes | None = None) -> Axes:
        """As `plot_groups`."""
        return self._drawn("pictures", "groups", ax=ax)

    def power(self, ax: Axes | None = None) -> Axes:
        """As `plot_power`."""
        return self._drawn("pictures", "power", ax=ax)

    def stages(self, ax: Axes | None = None) -> Axes:
        """As `plot_stages`."""
        return self._drawn("pictures", "stages", ax=ax)

    def surface(self, x: str | None = None, y: str | None = None, ax: Axes | None = None) -> Axes:
        """As `plot_surface`."""
        return self._drawn("settings.surface", "surface", x=x, y=y, ax=ax)

    def pool(self, ax: Axes | None = None) -> Axes:
        """As `plot_pool`."""
        return self._drawn("settings.surface", "pool", ax=ax)

    def all(self) -> list[Axes]:
        """Those that the result has."""
        drawn = []
        for draw in (self.differences, self.groups, self.surface, self.pool, self.power, self.stages):
            with suppress(ParameterError):
                drawn.append(draw())
        return drawn

    def _drawn(self, module: str, name: str, **how: Any) -> Axes:
        # matplotlib is loaded for a picture alone
        ax: Axes = getattr(import_module(f"memkit.evaluate.{module}"), f"plot_{name}")(self.of, **how)
        return ax


class Result(Tabular):
    """A table that any data frame library takes, what belongs to it, and a sentence that says it."""

    @property
    def plot(self) -> Plots:
        """Its pictures."""
        return Plots(self)

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one page that needs nothing else: the tables, sorted by their headings, and the pictures with words.

        Parameters
        ----------
        path : str or Path
            Of the page, by tradition ``.html``.
        title : str, optional
            Above it; what the result is unless given.

        Returns
        -------
        Path
        """
        figures = [as_figure(ax) for ax in self.plot.all()]
        body = as_html(*self._sheets(_ROWS)) + "".join(figures)
        return write_page(path, f"memkit: {type(self).__name__.lower()}" if title is None else title, body, True)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return Shown(*self._sheets())._repr_html_()

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        head, _, more = str(self).partition(". ")
        sheet = sheet_of(self.table, rows, show_secrets)
        return (replace(sheet, heading=head, notes=(more, *sheet.notes) if more else sheet.notes),)
