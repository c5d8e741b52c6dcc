"""The panel of a sweep: a point for each evaluated setting, and arrow keys to go from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from memkit.base.params import Param
from memkit.errors import ParameterError
from memkit.evaluation.metrics import Metric
from memkit.evaluation.statistics import Contest, plateau
from memkit.evaluation.sweep import Sweep
from memkit.panels.page import rows_html
from memkit.panels.panel import Action, Panel, Session, State
from memkit.plot.marks import Picture
from memkit.plot.measured import axis_values, best_first, named_setting, places_on, surface_of
from memkit.schemas import Ints, Mask
from memkit.search.retriever import Retriever

_BEST, _NEXT = 8, 1e-9
"""Settings that are listed; the least step to a next one, as the place of a value between two is interpolated."""
_WALK = {"left": (0, -1), "right": (0, 1), "down": (1, -1), "up": (1, 1)}


class SurfacePanel(Panel):
    """The scores of a sweep over two of its parameters.

    Parameters
    ----------
    sweep : Sweep
        Of one varied parameter or more; the first two are the axes, values of the others stay as they are.
    session : Session, optional
        That of a search panel: walking moves its sliders.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> panel = SurfacePanel(mk.sweep(search, queries, qrels, {"min_score": [0, 0.5, 0.9]}))
    >>> panel.press("right")
    >>> panel.params
    {'min_score': 0.5}
    """

    title: ClassVar[str] = "surface"
    section: ClassVar[str] = "retriever"
    actions: ClassVar[tuple[Action, ...]] = (
        ("left", "←", "ArrowLeft"),
        ("right", "→", "ArrowRight"),
        ("up", "↑", "ArrowUp"),
        ("down", "↓", "ArrowDown"),
        ("best", "Best", "b"),
    )
    profile_section: ClassVar[str] = "retriever"

    def __init__(self, sweep: Sweep, *, session: Session | None = None) -> None:
        if not isinstance(sweep, Sweep):
            raise ParameterError(f"panels.surface: expected what mk.sweep returns. Got {type(sweep).__name__}.")
        self.sweep = sweep
        self.names = list(sweep.settings[0])
        if not self.names:
            raise ParameterError("panels.surface: expected a sweep over some parameter. Got one setting.")
        super().__init__(sweep.settings[sweep.default], {}, session, sweep)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters that the sweep varied."""
        return {name: Retriever.all_params()[name] for name in self.names}

    def _cache_key(self, state: State) -> Any:
        return repr([state[self.section].get(name) for name in self.names])

    @property
    def current_index(self) -> int | None:
        """The index of the current setting; None where it was not evaluated."""
        params = self.params
        return self.sweep.settings.index(params) if params in self.sweep.settings else None

    def _answer(self, state: State) -> pa.Table:
        return pa.table(self.sweep.table.columns, schema=self.sweep.table.schema)  # one a state: each is drawn

    def _code(self, state: State) -> str:
        return f"{self._name(self.sweep, 'sweep')}.table"

    def _status(self, answer: pa.Table) -> str:
        metric, index = self.sweep.metrics[0], self.current_index
        if index is None:
            return "this setting was not tried"
        means = self.sweep.table[metric].to_numpy()
        default, best = means[self.sweep.default], means[self.sweep.best]
        return f"{metric} {means[index]:.3f} here, {default:.3f} with the search's own setting, {best:.3f} at best"

    @property
    def automatic(self) -> dict[str, float]:
        """The weights that memkit chooses where they are left to it, in the search's own setting."""
        return {name: value for name, value in self.sweep.automatic.items() if self.params[name] is None}

    def _press(self, action: str) -> None:
        if action == "best":
            self.set(**self.sweep.settings[self.sweep.best])
            return
        axis, by = _WALK[action]
        if axis < len(self._places) and (index := self._next(axis, by)) is not None:
            self.set(**self.sweep.settings[index])

    def _next(self, axis: int, by: int) -> int | None:
        """The nearest evaluated setting in a direction; other parameters stay as they are where such a one is."""
        current = [self._position(name) for name in self.names[:2]]
        if None in current:
            return None
        distances = [places - float(position or 0) for places, position in zip(self._places, current, strict=True)]
        steps, params, others = by * distances[axis], self.params, self.names[2:]
        aside = np.abs(distances[1 - axis]) if len(distances) > 1 else steps
        differing = np.array([sum(setting[name] != params[name] for name in others) for setting in self.sweep.settings])
        order = np.lexsort((steps, aside, differing))
        return next((int(index) for index in order if steps[index] > _NEXT), None)

    def _position(self, name: str) -> float | None:
        """The place of the current value along an axis, between two values where it was not tried itself."""
        values, now = axis_values(self.sweep, name), self.params[name]
        now = self.sweep.automatic.get(name) if now is None else now
        if now in values:
            return values.index(now)
        if now is None or not all(isinstance(value, (int, float)) for value in (now, *values)):
            return None
        return float(np.interp(now, values, range(len(values))))

    def _pick(self, row: str) -> None:
        self.set(**self.sweep.settings[int(row)])

    @cached_property
    def plateau(self) -> Mask:
        """Which settings cannot be told from the best, as in `mk.tune`; none where that cannot be computed."""
        task, scores = self.sweep.task, self.sweep.matrix() * Metric.parse(self.sweep.metrics[0]).sign
        try:
            return plateau(Contest.from_scores(scores, task.unit, self.sweep.default, task.per_query))
        except ParameterError:
            return np.zeros(len(self.sweep.settings), bool)

    @cached_property
    def _places(self) -> list[Ints]:
        """Where each setting stands along the first two parameters."""
        return [places_on(self.sweep, name) for name in self.names[:2]]

    def _picture(self, answer: pa.Table) -> Picture:
        """As `mk.plot.surface` draws it, with the current setting marked."""
        marked = {"as it is": self.sweep.default, "best": self.sweep.best}
        if self.current_index is not None:
            marked["here"] = self.current_index
        picture = surface_of(self.sweep, self.names[:2], self.sweep.metrics[0], self.plateau, marked)
        return replace(picture, rows=[("here", self._status(answer)), *picture.rows])

    def _body(self, answer: pa.Table) -> str:
        metric = self.sweep.metrics[0]
        means, first = self.sweep.table[metric].to_numpy(), best_first(self.sweep, metric)[:_BEST]
        near = ["yes" if is_near else "" for is_near in self.plateau]
        rows = [(f"{means[at]:.3f}", near[at], named_setting(self.sweep, at, self.names)) for at in first]
        heads = (metric, "plateau", "best settings (Enter: go there); plateau: cannot be told from the best")
        return rows_html(heads, rows, [str(at) for at in first])
