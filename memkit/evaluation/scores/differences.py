"""The differences between two settings by query, with the verdict: shared by comparing and tuning."""

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
        more = np.array([detectable_effect_for(len(units) * many, spread) for many in _TIMES])
        named = {"user_id": "users", "query_id": "queries"}.get(self.unit, f"groups by {self.unit}")
        lines = {f"more {named} like these": more}
        floor = detectable_effect_floor(self.values, self._unit_of_each)
        if floor is not None:
            floor = min(floor, least)
            same_units = np.sqrt(floor**2 + (least**2 - floor**2) / _TIMES)
            lines[f"more queries of the same {len(units)} {named}"] = same_units
        return Power(n * _TIMES, lines, (n, least))
