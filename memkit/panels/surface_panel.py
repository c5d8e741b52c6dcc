"""The panel of a sweep: a point for each evaluated setting, and arrow keys to go from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from memkit.errors import ParameterError
from memkit.evaluation.metrics import Metric
from memkit.evaluation.selection import Contest, plateau
from memkit.evaluation.sweep import Sweep
from memkit.panels.panel import Action, Panel
from memkit.panels.parts import MARKS, rows_html
from memkit.panels.state import Session, State
from memkit.params import Param
from memkit.plot.axes import COLOURS
from memkit.plot.marks import Axis, Dots, Mark, Picture
from memkit.schemas import Floats, Ints, Mask
from memkit.search.retriever import Retriever

_BEST, _NEXT = 8, 1e-9
_SIGNS = {"as it is": ("s", "#D55E00"), "best": ("^", "#009E73"), "here": ("D", "#CC79A7")}
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
        self.sweep = sweep
        self.names = list(sweep.settings[0])
        if not self.names:
            raise ParameterError("panels.surface: expected a sweep over some parameter. Got one setting.")
        super().__init__(sweep.settings[sweep.default], {}, session, sweep)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters that the sweep varied."""
        return {name: Retriever.params()[name] for name in self.names}

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

    def _value(self, index: int, name: str) -> Any:
        """The value of a parameter in a setting; the search's own stands at the value that memkit chooses for it."""
        value = self.sweep.settings[index][name]
        return self.sweep.automatic.get(name) if value is None and index == self.sweep.default else value

    def _axis(self, name: str) -> list[Any]:
        values = {repr(value): value for value in map(partial(self._value, name=name), range(len(self.sweep.settings)))}
        numbers = all(isinstance(value, (int, float)) for value in values.values())
        return sorted(values.values()) if numbers else list(values.values())

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
        values, now = self._axis(name), self.params[name]
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
        axes = [[repr(value) for value in self._axis(name)] for name in self.names[:2]]
        return [
            np.array([values.index(repr(self._value(index, name))) for index in range(len(self.sweep.settings))])
            for name, values in zip(self.names, axes, strict=False)
        ]

    def _picture(self, answer: pa.Table) -> Picture:
        """The evaluated points, the larger the better; the plateau outlined, the default and the current one marked."""
        metric, means = self.sweep.metrics[0], self.sweep.table[self.sweep.metrics[0]].to_numpy()
        flat, across = len(self._places) == 1, self._places[0]
        down = means if flat else self._places[1]
        indexes = np.arange(len(means))
        if len(indexes) > MARKS:  # of more settings the best, and where one is
            indexes = np.unique([*self._order[: MARKS - 3], *self._marked()])
        sizes = 25 + 120 * (means - means.min()) / max(float(np.ptp(means)), 1e-9)
        marks: list[Mark] = [
            Dots(across[indexes], down[indexes], COLOURS[0], size=sizes[indexes], outlined=self.plateau[indexes]),
            Dots([], [], "none", "cannot be told from the best", outlined=np.zeros(0, bool)),
        ]
        for index, (label, (sign, colour)) in zip(self._marked(), _SIGNS.items(), strict=False):
            marks.append(Dots([across[index]], [down[index]], colour, label, sign, size=330, filled=False))
        near = ["cannot be told from the best" if is_near else "" for is_near in self.plateau]
        rows = [(self._named(index), f"{means[index]:.3f} {near[index]}".strip()) for index in self._order[:_BEST]]
        title = f"{metric} of {len(means):,} settings, {means.min():.3f} (small) to {means.max():.3f} (large)"
        up = _spaced(means, metric) if flat else self._spaced_values(1)
        return Picture(title, marks, self._spaced_values(0), up, [("here", self._status(answer)), *rows])

    def _spaced_values(self, axis: int) -> Axis:
        """The values of a parameter, one beside the other."""
        name = self.names[axis]
        values = [_short(value) for value in self._axis(name)]
        room = 0.15 * len(values)
        return Axis(-room, len(values) - 1 + room, name, list(enumerate(values)))

    @property
    def _order(self) -> list[int]:
        """All settings, the best first, of equals the first."""
        metric = self.sweep.metrics[0]
        gains = self.sweep.table[metric].to_numpy() * Metric.parse(metric).sign
        order: list[int] = np.argsort(-np.round(gains, 12), kind="stable").tolist()
        return order

    def _marked(self) -> list[int]:
        return [self.sweep.default, self.sweep.best, *([] if self.current_index is None else [self.current_index])]

    def _named(self, index: int) -> str:
        return ", ".join(
            f"{name}=auto ({_short(self._value(index, name))})" if value is None else f"{name}={_short(value)}"
            for name, value in self.sweep.settings[index].items()
        )

    def _body(self, answer: pa.Table) -> str:
        metric = self.sweep.metrics[0]
        means = self.sweep.table[metric].to_numpy()
        near = ["yes" if is_near else "" for is_near in self.plateau]
        rows = [(f"{means[index]:.3f}", near[index], self._named(index)) for index in self._order[:_BEST]]
        heads = (metric, "plateau", "best settings (Enter: go there); plateau: cannot be told from the best")
        return rows_html(heads, rows, [str(index) for index in self._order[:_BEST]])


def _spaced(means: Floats, metric: str) -> Axis:
    room = 0.2 * max(float(np.ptp(means)), 1e-6)
    return Axis(float(means.min()) - room, float(means.max()) + room, metric)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
