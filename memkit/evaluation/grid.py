"""Settings to try: a grid of numbered points, each made when it is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Self

import numpy as np

from memkit.base.params import Param, check_choice, check_value, hint_of
from memkit.errors import ParameterError
from memkit.schemas import Floats
from memkit.search.retriever import Retriever

Setting = dict[str, Any]
"""Values of parameters by name; all others are the Retriever's own."""
AT_FIT = {name: p for name, p in Retriever.all_params().items() if p.refit and p.kind != "object"}
"""The parameters that act at fit and that a grid may name: those of the index, not its encoder or engine."""
SAMPLERS = ("sobol", "random")
_MOST_POINTS = 1_000_000
_ROUNDS = 20
"""Draws after which no more settings are looked for: of a small grid the same ones come again and again."""


@dataclass(frozen=True)
class _Axis:
    """One or several parameters that change together, and the values that they take, a tuple a point."""

    names: tuple[str, ...]
    points: Sequence[tuple[Any, ...]] | None
    distribution: Any = None

    @classmethod
    def from_values(cls, names: Any, values: Any, refits: bool = False) -> Self:
        several = isinstance(names, tuple)
        axis_names = names if several else (names,)
        for name in axis_names:
            check_name(name, refits)
        shown = ", ".join(axis_names)
        if hasattr(values, "ppf") and not several:
            return cls(axis_names, None, values)
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise ParameterError(f"grid: expected a list of values for '{shown}'. Got {values!r:.100}.")
        if isinstance(values, Sized) and len(values) > _MOST_POINTS:
            raise ParameterError(f"grid: expected at most {_MOST_POINTS:,} values for '{shown}'. Got {len(values):,}.")
        points = list(islice((_point(axis_names, value, several) for value in values), _MOST_POINTS + 1))
        if not points:
            raise ParameterError(f"grid: expected at least one value for '{shown}'. Got none.")
        if len(points) > _MOST_POINTS:
            raise ParameterError(f"grid: expected at most {_MOST_POINTS:,} values for '{shown}'. Got more.")
        return cls(axis_names, list({repr(point): point for point in points}.values()))

    def point_at(self, share: float) -> tuple[Any, ...]:
        """The point at a share of the axis's length, 0 to 1."""
        if self.points is not None:
            return self.points[min(int(share * len(self.points)), len(self.points) - 1)]
        value = self.distribution.ppf(share)
        is_whole = declared_of(self.names[0]).kind == "int"
        return _point(self.names, int(value) if is_whole else float(value), False)


def check_name(name: Any, refits: bool = False) -> None:
    """Raise unless `name` is a query-time parameter or, with `refits`, one of the index."""
    if refits and name in AT_FIT:
        return
    declared = Retriever.all_params()
    if name in declared and declared[name].refit:
        raise ParameterError(
            f"grid: '{name}' acts at fit. Expected query-time parameters"
            + (f", or {', '.join(AT_FIT)}" if refits else "")
            + "; fit a Retriever for each value of it, and compare those."
        )
    if name not in declared:
        names = [known for known, p in declared.items() if not p.refit or (refits and known in AT_FIT)]
        raise ParameterError(
            f"grid: no parameter {name!r}. Expected some of {', '.join(names)}.{hint_of(name, [*names, *AT_FIT])}"
        )


def _point(names: tuple[str, ...], value: Any, several: bool) -> tuple[Any, ...]:
    values = tuple(value) if several and isinstance(value, Iterable) else (value,)
    if len(values) != len(names):
        raise ParameterError(f"grid: expected {len(names)} values for {', '.join(names)}. Got {value!r:.100}.")
    plain = tuple(_plain(item) for item in values)
    for name, item in zip(names, plain, strict=True):
        declared_of(name).check(item, "grid")
    return plain


def declared_of(name: str) -> Param:
    """The declaration of a parameter that a grid may name."""
    return Retriever.all_params()[name]


def at_fit(setting: Setting) -> Setting:
    """The values of a setting that act at fit.

    >>> at_fit({"pool": 50, "index__chunk_tokens": 200})
    {'index__chunk_tokens': 200}
    """
    return {name: value for name, value in setting.items() if name in AT_FIT}


def at_query(setting: Mapping[str, Any]) -> Setting:
    """The values of a setting that act at query time."""
    return {name: value for name, value in setting.items() if name not in AT_FIT}


def _plain(value: Any) -> Any:
    """A NumPy scalar as Python's own, a list as a tuple."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return tuple(value) if isinstance(value, list) else value


class Grid:
    """The points of one grid, or of several one after the other.

    Parameters
    ----------
    grid : dict, or sequence of dict
        A list of values by parameter. A tuple of names takes tuples of values, for what changes together. With
        `n`, an axis may be a distribution, what has ``ppf``, as SciPy's have.
    n : int, optional
        Draw this many settings instead of trying all.
    how : {'sobol', 'random'}
        Sobol's points fill the space evenly, whatever their number.
    random_state : int
    refits : bool
        Whether parameters that act at fit may vary too.

    Examples
    --------
    >>> list(Grid({"pool": [50, 100], ("decay", "decay_days"): [("none", 1), ("linear", 30)]}))[1]
    {'pool': 50, 'decay': 'linear', 'decay_days': 30}
    >>> len(Grid({"decay_days": range(1, 1001), "pool": range(1, 1001), "rrf_k": range(10)}))
    10000000
    """

    def __init__(
        self, grid: Any, n: int | None = None, how: str = "sobol", random_state: int = 0, *, refits: bool = False
    ) -> None:
        grids = [grid] if isinstance(grid, Mapping) else grid
        if isinstance(grids, str) or not isinstance(grids, Sequence) or not all(isinstance(g, Mapping) for g in grids):
            raise ParameterError(f"grid: expected a dict of lists by parameter, or a list of those. Got {grid!r:.100}.")
        if not grids or not all(grids):
            raise ParameterError("grid: expected values for at least one parameter. Got none.")
        check_value("sweep", "n", n, "int", nullable=True, low=1)
        check_choice("how", how, SAMPLERS, "sweep")
        self._grids = [
            [_Axis.from_values(names, values, refits) for names, values in axes_by_name.items()]
            for axes_by_name in grids
        ]
        for axes in self._grids:
            named = [name for axis in axes for name in axis.names]
            if twice := [name for name in named if named.count(name) > 1]:
                raise ParameterError(f"grid: expected each parameter once. Got '{twice[0]}' more than once.")
        endless = [axis.names[0] for axes in self._grids for axis in axes if axis.points is None]
        if endless and n is None:
            raise ParameterError(f"grid: '{endless[0]}' is a distribution: say how many settings are drawn (n=).")
        self._sampled: list[Setting] | None = None
        if n is not None and (endless or n < len(self)):
            self._sampled = self._draw(n, how, random_state)

    @property
    def names(self) -> list[str]:
        """The parameters that vary."""
        return list(dict.fromkeys(name for axes in self._grids for axis in axes for name in axis.names))

    def __len__(self) -> int:
        if self._sampled is not None:
            return len(self._sampled)
        return sum(math.prod(len(axis.points or ()) for axis in axes) for axes in self._grids)

    def __iter__(self) -> Iterator[Setting]:
        if self._sampled is not None:
            yield from self._sampled
            return
        for axes in self._grids:
            for points in product(*(axis.points or () for axis in axes)):
                yield _setting(axes, points)

    def _draw(self, count: int, how: str, seed: int) -> list[Setting]:
        """Draw `count` different settings; fewer where no more turn up."""
        if len(self._grids) > 1:
            raise ParameterError("grid: expected one dict to draw settings from. Got several.")
        axes, random = self._grids[0], np.random.default_rng(seed)
        settings: dict[str, Setting] = {}
        draw = _sobol(len(axes), random) if how == "sobol" else lambda size: random.random((size, len(axes)))
        for _ in range(_ROUNDS):
            for row in draw(count):
                setting = _setting(axes, [axis.point_at(share) for axis, share in zip(axes, row.tolist(), strict=True)])
                settings.setdefault(repr(setting), setting)
            if len(settings) >= count:
                break
        return list(settings.values())[:count]


def _setting(axes: Sequence[_Axis], points: Sequence[tuple[Any, ...]]) -> Setting:
    return {
        name: value
        for axis, point in zip(axes, points, strict=True)
        for name, value in zip(axis.names, point, strict=True)
    }


def _sobol(dimensions: int, random: np.random.Generator) -> Any:
    from scipy.stats import qmc

    points = qmc.Sobol(dimensions, seed=random)

    def draw(size: int) -> Floats:
        # Only powers of two are balanced, and give no warning.
        shares: Floats = (
            points.random_base2(max(size - 1, 1).bit_length())
            if points.num_generated == 0
            else (points.random(points.num_generated))
        )
        return shares

    return draw
