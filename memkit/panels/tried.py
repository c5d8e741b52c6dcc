"""The panel of a sweep: every setting that was tried as a point, and arrow keys that walk among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from memkit.errors import ParameterError
from memkit.evaluate.sweep import Sweep
from memkit.panels.panel import Action, Panel
from memkit.panels.parts import rows_html
from memkit.panels.state import Session, State
from memkit.params import Param
from memkit.search.settings import QuerySettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEST = 8
_WALK = {"left": (0, -1), "right": (0, 1), "down": (1, -1), "up": (1, 1)}


class SurfacePanel(Panel):
    """The settings of a sweep over two of its parameters.

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
    written_as: ClassVar[str] = "retriever"

    def __init__(self, sweep: Sweep, *, session: Session | None = None) -> None:
        self.sweep = sweep
        self.names = list(sweep.settings[0])
        if not self.names:
            raise ParameterError("panels.surface: expected a sweep over some parameter. Got one setting.")
        super().__init__(sweep.settings[sweep.default], {}, session)

    @property
    def declared(self) -> Mapping[str, Param]:
        """What the sweep varied."""
        return {name: QuerySettings.params()[name] for name in self.names}

    def _needs(self, state: State) -> Any:
        return repr([state[self.section].get(name) for name in self.names])

    @property
    def at(self) -> int | None:
        """The setting that the state is at; None where it was not tried."""
        params = self.params
        return self.sweep.settings.index(params) if params in self.sweep.settings else None

    def _answer(self, state: State) -> pa.Table:
        return pa.table(self.sweep.table.columns, schema=self.sweep.table.schema)  # one a state: each is drawn

    def _code(self, state: State) -> str:
        return "sweep.table"

    def _status(self, answer: pa.Table) -> str:
        metric, at = self.sweep.metrics[0], self.at
        if at is None:
            return "this setting was not tried"
        means = self.sweep.table[metric].to_numpy()
        own, best = means[self.sweep.default], means[self.sweep.best]
        return f"{metric} {means[at]:.3f} here, {own:.3f} as it is, {best:.3f} at best"

    def _axis(self, name: str) -> list[Any]:
        values = {repr(setting[name]): setting[name] for setting in self.sweep.settings}
        numbers = all(isinstance(value, (int, float)) for value in values.values())
        return sorted(values.values()) if numbers else list(values.values())

    def _press(self, action: str) -> None:
        if action == "best":
            self.set(**self.sweep.settings[self.sweep.best])
            return
        which, by = _WALK[action]
        if which < len(self.names):
            name = self.names[which]
            values, now = self._axis(name), self.params[name]
            if now in values:
                place = min(max(values.index(now) + by, 0), len(values) - 1)
                self.set(**{name: values[place]})

    def _pick(self, row: str) -> None:
        self.set(**self.sweep.settings[int(row)])

    def _draw(self, answer: pa.Table, ax: Axes) -> Axes:
        """The evaluated points, coloured by score, the default and the current one ringed; none is interpolated."""
        ax.figure.clear()
        self._axes = ax = ax.figure.subplots()
        means = self.sweep.table[self.sweep.metrics[0]].to_numpy()
        axes = [self._axis(name) for name in self.names[:2]]
        places = [
            np.array([values.index(setting[name]) for setting in self.sweep.settings])
            for name, values in zip(self.names, axes, strict=False)
        ]
        flat = len(places) == 1
        down = means if flat else places[1]
        points = ax.scatter(places[0], down, c=means, cmap="cividis", s=60)
        ax.set_xticks(range(len(axes[0])), [_short(value) for value in axes[0]], rotation=30, ha="right", fontsize=8)
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.sweep.metrics[0] if flat else self.names[1])
        if not flat:
            ax.set_yticks(range(len(axes[1])), [_short(value) for value in axes[1]], fontsize=8)
        rings = [(self.sweep.default, "as it is", "s", "#D55E00"), (self.sweep.best, "best", "o", "#009E73")]
        rings += [(self.at, "here", "D", "black")] if self.at is not None else []
        for at, label, marker, colour in rings:
            ax.scatter(places[0][at], down[at], marker=marker, s=190, facecolors="none", edgecolors=colour, label=label)
        ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.18, 1))
        ax.figure.colorbar(points, ax=ax, label=self.sweep.metrics[0])
        ax.set_title(f"{len(means):,} settings, evaluated points", fontsize=10, loc="left")
        setattr(ax, "_memkit_words", f"{len(means)} settings. {self._status(answer)}")  # noqa: B010 - an attribute of ours
        return ax

    def _body(self, answer: pa.Table) -> str:
        metric = self.sweep.metrics[0]
        means = self.sweep.table[metric].to_numpy()
        order = np.argsort(-np.round(means, 12), kind="stable")[:_BEST]
        rows = [
            (", ".join(f"{k}={_short(v)}" for k, v in self.sweep.settings[at].items()), f"{means[at]:.3f}")
            for at in order
        ]
        return rows_html(("best settings (Enter: go there)", metric), rows, [str(at) for at in order])


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
