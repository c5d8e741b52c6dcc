"""The base of all results: a table with its companions, pictures and a report."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memkit import plot
from memkit.display.notebook import Shown, Tabular, write_page
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import ParameterError
from memkit.evaluation.statistics import (
    FEWEST,
    Units,
    detectable_effect,
    detectable_effect_floor,
    detectable_effect_for,
)
from memkit.plot import Picture
from memkit.schemas import Floats

_ROWS = 200
"""Rows of a table in a report, which is a file to be read."""


@dataclass(frozen=True)
class Plots:
    """The pictures of a result: ``result.plot()`` is the first that it has, ``result.plot.surface()`` one by name.

    Each raises ParameterError where the result has none.
    """

    result: Any

    def __call__(self) -> Picture:
        """The first picture that the result has."""
        if not self.result.pictures:
            got = type(self.result).__name__
            raise ParameterError(f"plot: expected a result with something to draw. Got {got} without.")
        first: Picture = getattr(self, self.result.pictures[0])()
        return first

    def differences(self) -> Picture:
        """As `mk.plot.differences`."""
        return plot.differences(self.result)

    def groups(self) -> Picture:
        """As `mk.plot.groups`."""
        return plot.groups(self.result)

    def power(self) -> Picture:
        """As `mk.plot.power`."""
        return plot.power(self.result)

    def stages(self) -> Picture:
        """As `mk.plot.stages`."""
        return plot.stages(self.result)

    def surface(self, x: str | None = None, y: str | None = None) -> Picture:
        """As `mk.plot.surface`."""
        return plot.surface(self.result, x=x, y=y)

    def pool(self) -> Picture:
        """As `mk.plot.pool`."""
        return plot.pool(self.result)

    def all(self) -> list[Picture]:
        """All pictures that the result has."""
        return [getattr(self, name)() for name in self.result.pictures]


class Result(Tabular):
    """A table that any data frame library reads, its companions, and a sentence that sums it up."""

    @property
    def plot(self) -> Plots:
        """Its pictures."""
        return Plots(self)

    @property
    def pictures(self) -> tuple[str, ...]:
        """The names of the pictures that it has, the first being the one that it draws."""
        return ()

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
        body = shown._repr_html_() + shown.hide.in_html("".join(picture.in_html() for picture in self.plot.all()))
        return write_page(path, f"memkit: {type(self).__name__.lower()}" if title is None else title, body, True)

    def __repr__(self) -> str:
        return str(self)

    def _sentence(self) -> str:
        """What stands above the table, whose own note comes below."""
        return str(self)

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        head, _, more = self._sentence().partition(". ")
        sheet = sheet_of(getattr(self, "details", self.table), rows, show_secrets)
        return (replace(sheet, heading=head, notes=(more, *sheet.notes) if more else sheet.notes),)


_TIMES = np.array([1, 2, 4, 8, 16])


@dataclass(frozen=True)
class Power:
    """The minimum detectable effect (80 % power) by the number of queries.

    Attributes
    ----------
    sizes : ndarray of shape (n,)
        Numbers of labelled queries.
    least : dict of str to ndarray of shape (n,)
        The minimum detectable effect, by whose queries are added.
    now : tuple (float, float) or None
        The present number of queries, and the effect detectable with them.
    """

    sizes: Floats
    least: dict[str, Floats]
    now: tuple[float, float] | None = None


@dataclass(frozen=True)
class Differences:
    """The differences of a `Comparison` or a `Tuning`, by query and in all.

    Attributes
    ----------
    frame : pd.DataFrame
        query_id, group and difference; queries without a difference are left out.
    unit : str
        The column that defines the groups; query_id where each query is its own.
    sentence : str
        The verdict in a few words.
    """

    frame: pd.DataFrame
    metric: str
    unit: str
    per_query: bool
    mean: float | None
    low: float | None
    high: float | None
    epsilon: float
    sentence: str

    @property
    def values(self) -> Floats:
        """The differences, shape (n_queries,)."""
        values: Floats = self.frame["difference"].to_numpy(np.float64)
        return values

    @property
    def units(self) -> Units:
        """The units of their mean."""
        return Units.from_scores(self.values, self._unit_of_each, self.per_query)

    @property
    def interval(self) -> str:
        """The 95 % interval as text."""
        if self.low is None or self.high is None:
            return f"none below {FEWEST} units"
        return f"{self.low:+.3f} to {self.high:+.3f}"

    @property
    def _unit_of_each(self) -> np.ndarray:
        return pd.factorize(self.frame["group"])[0]

    @property
    def pictures(self) -> tuple[str, ...]:
        """The pictures of differences: of their power only where enough groups differ."""
        return ("differences", "groups", *(["power"] if detectable_effect(self.units) else []))

    def power(self) -> Power:
        """The minimum detectable effect with more units like these, and with more queries of the same units.

        Raises
        ------
        ParameterError
            Where there are too few units, or all have the same difference.
        """
        units, n = self.units, len(self.values)
        least = detectable_effect(units)
        if not least:
            got = f"{len(units)} with the same difference" if least == 0 else f"{len(units)}"
            raise ParameterError(f"plot.power: expected {FEWEST} groups or more, to know how they differ. Got {got}.")
        spread = units.error * math.sqrt(len(units))
        with_more = np.array([detectable_effect_for(len(units) * many, spread) for many in _TIMES])
        named = {"user_id": "users", "query_id": "queries"}.get(self.unit, f"groups by {self.unit}")
        lines = {f"more {named} like these": with_more}
        floor = detectable_effect_floor(self.values, self._unit_of_each)
        if floor is not None:
            floor = min(floor, least)
            same_units = np.sqrt(floor**2 + (least**2 - floor**2) / _TIMES)
            lines[f"more queries of the same {len(units)} {named}"] = same_units
        return Power(n * _TIMES, lines, (n, least))
