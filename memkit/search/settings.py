"""The steps of a search in the order in which they act, and the parameters of a query, which they declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from memkit.base.params import adopt, check_choice, disown, estimator
from memkit.base.plugins import Plugins
from memkit.errors import ParameterError
from memkit.search.fitted.chunks import Index
from memkit.search.state import RETURNED
from memkit.search.step import Factor, Step
from memkit.search.steps import (
    collapse,
    factors,
    fuse,
    recall,
    rerank,
    scope,
)


class Steps:
    """Steps in the order in which they act, and what follows from them.

    Attributes
    ----------
    every : frozenset of Step
    resting : tuple of Step
        Those that parameters may turn off.
    ranking : tuple of Step
        Those that act on candidates; the others say which there are.
    drops : dict of str to callable
        By disposition, why a memory is no hit, in words; all but returned.
    kept_out : frozenset of str
        The dispositions of memories that are no candidates.
    dispositions : tuple of str
        What becomes of a memory, from hits to what is never looked at.
    codes : dict of str to int
        Their places.
    columns : dict of str to float
        What they add to a trace, and its value where the step does nothing.
    telling : dict of str to tuple of Step
        By method of `Step`, the steps that do something there: at fit, ask somebody before they are applied, or say it
        in a score's sentence, beside it, or of a question.
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.put(steps)

    def put(self, steps: tuple[Step, ...]) -> None:
        """Take these steps instead."""
        self._steps, self.every = steps, frozenset(steps)
        self.resting = tuple(step for step in steps if step.off and step.rests)
        self.ranking = tuple(step for step in steps if step.acts)
        self.drops = {word: why for step in steps for word, why in step.drops.items()}
        self.kept_out = frozenset(word for step in steps if step.keeps_out for word in step.drops)
        self.dispositions = (RETURNED, *(word for step in reversed(steps) for word in step.drops))
        self.codes: Mapping[str, int] = {word: code for code, word in enumerate(self.dispositions)}
        self.columns = {name: default for step in steps for name, default in step.columns.items()}
        self.telling = {
            way: tuple(step for step in steps if getattr(type(step), way) is not getattr(Step, way))
            for way in ("prepare", "wants", "part", "beside", "note")
        }

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def __reversed__(self) -> Iterator[Step]:
        return reversed(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


@estimator
class QuerySettings(
    scope.Params,
    recall.Params,
    fuse.Params,
    rerank.Params,
    factors.Params,
    rerank.PreferParams,
    collapse.Params,
):
    """Parameters of a query; a change acts at the next call."""

    def acting(self) -> frozenset[Step]:
        """The steps that these parameters do not turn off."""
        return STEPS.every.difference(
            step for step in STEPS.resting if all(getattr(self, name) == value for name, value in step.off.items())
        )


STEPS = Steps(tuple(step for base in QuerySettings.__bases__ for step in getattr(base, "steps", ())))


def scoping() -> tuple[str, ...]:
    """The parameters that change which candidates there are; settings that share them rank the same ones."""
    return tuple(name for name, declared in QuerySettings.params().items() if declared.recalls)


def _checked(name: str, step: Any) -> Step:
    """A step from elsewhere, which must not have what another one has; raises ParameterError."""
    if not isinstance(step, Step) or not step.name or name != step.name:
        raise ParameterError(f"register: expected an instance of a Step with a name. Got {step!r:.80} as {name!r:.80}.")
    taken = {
        "name": {one.name for one in STEPS},
        "parameter": {*QuerySettings.params(), *Index.params()},
        "column": {*STEPS.columns, *(f"{arm}{end}" for arm in recall.ARMS for end in ("", "_rank", "_norm"))},
        "disposition": {*STEPS.dispositions},
    }
    given = {"name": [step.name], "parameter": step.params, "column": step.columns, "disposition": step.drops}
    for what, names in given.items():
        if known := sorted(taken[what].intersection(names)):
            raise ParameterError(
                f"register: expected a step with a {what} of its own. Got {known[0]!r}, which is taken."
            )
    if step.after:
        check_choice("after", step.after, [one.name for one in STEPS if one.name != collapse.Cut.name], "register")
    return step


_PLUGINS = Plugins("memkit.steps", _checked)


def register_step(step: Step) -> None:
    """Make a step known: it acts after the step that it names, and its parameters are those of every Retriever."""
    forget_step(step.name)
    _PLUGINS.registered[step.name] = _checked(step.name, step)
    _take(step)


def _take(step: Step) -> None:
    steps = tuple(STEPS)
    multiply = [one.name for one in steps if isinstance(one, Factor)]
    place = 1 + [one.name for one in steps].index(step.after or multiply[-1])
    STEPS.put((*steps[:place], step, *steps[place:]))
    adopt(QuerySettings, (replace(p, name=name, group=p.group or "steps") for name, p in step.params.items()))


def forget_step(name: str) -> None:
    """Undo `register_step`; nothing happens where there was none of this name."""
    step = _PLUGINS.registered.pop(name, None)
    if step is not None:
        STEPS.put(tuple(one for one in STEPS if one is not step))
        disown(QuerySettings, step.params)


for _name in _PLUGINS.names():
    if (_step := _PLUGINS.get(_name)) is not None:
        _take(_step)
