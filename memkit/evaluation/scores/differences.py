"""Each query's difference between two settings, with what was concluded: what a comparison and a tuning share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memkit.errors import ParameterError
from memkit.evaluation.scores.statistics import (
    FEWEST,
    Units,
    detectable_effect,
    detectable_effect_floor,
    detectable_effect_for,
)
from memkit.schemas import Floats

_TIMES = np.array([1, 2, 4, 8, 16])


@dataclass(frozen=True)
class Power:
    """How much a true difference must be to show four times in five, by the number of queries.

    Attributes
    ----------
    sizes : ndarray of shape (n,)
        Numbers of labelled queries.
    least : dict of str to ndarray of shape (n,)
        The smallest difference, by what the further queries are.
    now : tuple (float, float) or None
        The queries that there are, and what shows with these.
    """

    sizes: Floats
    least: dict[str, Floats]
    now: tuple[float, float] | None = None


@dataclass(frozen=True)
class Differences:
    """What a `Comparison` or a `Tuning` says of each query, and of all.

    Attributes
    ----------
    frame : pd.DataFrame
        query_id, group and difference; queries without a difference are left out.
    unit : str
        The column that keeps queries apart; query_id where each is its own.
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
        """What each unit adds to their mean."""
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

    def power(self) -> Power:
        """What more units like these would show, and more queries of the same ones.

        Raises
        ------
        ParameterError
            Where the units are too few, or differ in nothing.
        """
        units, n = self.units, len(self.values)
        least = detectable_effect(units)
        if not least:
            got = f"{len(units)} that differ in nothing" if least == 0 else f"{len(units)}"
            raise ParameterError(f"plot.power: expected {FEWEST} groups or more, to know how they differ. Got {got}.")
        spread = units.error * math.sqrt(len(units))
        more = np.array([detectable_effect_for(len(units) * many, spread) for many in _TIMES])
        named = {"user_id": "users", "query_id": "queries"}.get(self.unit, f"groups by {self.unit}")
        lines = {f"more {named} like these": more}
        floor = detectable_effect_floor(self.values, self._unit_of_each)
        if floor is not None:
            floor = min(floor, least)
            same_units = np.sqrt(floor**2 + (least**2 - floor**2) / _TIMES)
            lines[f"more queries of the same {len(units)} {named}"] = same_units
        return Power(n * _TIMES, lines, (n, least))
