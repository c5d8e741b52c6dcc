"""Of two similar memories with near scores the newer comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from memkit.base.params import Reach, estimator, param
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import Texts
from memkit.search.state import UNIT, Pooled, Shortlist, State
from memkit.search.step import Look, Step
from memkit.search.steps.factors import Params as Before
from memkit.tables.age import UNDATED_TO_DO

# No other difference has a figure; with this one, likeness from .75 on cost no relevance.
NEAR_TIE = 0.05
"""The greatest difference of two scores that a date decides."""
ALIKE = 0.75
"""The cosine of trigrams from which two texts are alike: from .65 down relevance fell on labelled sets."""
_Update = tuple[int, Ints, Floats]


class Prefer(Step):
    """Lift the newer of two alike candidates just above the older, if their scores are near.

    The oldest go first, so that of many statements in a row each later one stands above those before it.
    """

    name = "prefer"
    bounded = True
    columns = {"lift": 0.0}
    adds = "lift"
    changes = True
    off = {"prefer": None}
    lifts = NEAR_TIE

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> float:
        return ALIKE

    def gather(self, pooled: Pooled, keys: Sequence[float]) -> dict[Any, Any]:
        texts = Texts(pooled.index.repeats, pooled.candidates.row)
        return {"dated": pooled.index.rows.dated[pooled.memory], "texts": texts}

    def apply(self, state: State, keys: Sequence[float]) -> None:
        alike_from, shortlist = np.array(keys), state.shortlist
        competes = np.ones(state.score.shape, bool) if state.out is None else ~state.out
        units = np.rint(state.score * UNIT)
        # A newer one may come above the best score there is, and only by one unit.
        lifted, most = units.copy(), UNIT + 1 if state.is_bounded else np.inf
        least = float(alike_from.min())
        for newer, older, similar in shortlist.once(self.name, least, lambda: _updates(shortlist, least)):
            gap = lifted[older] - units[newer]
            may = (gap >= 0) & (gap <= NEAR_TIE * UNIT) & competes[older] & competes[newer]
            above = np.where(may & (similar[:, None] >= alike_from), lifted[older] + 1, 0.0).max(axis=0)
            lifted[newer] = np.maximum(lifted[newer], np.minimum(above, most))
        lift: Floats = np.where(lifted > units, lifted / UNIT - state.score, 0.0)
        state.score += lift
        state.record("lift", lift[:, 0])

    def part(self, look: Look) -> str:
        lift = look.row["lift"]
        return f"plus {lift:.3f}, as it is newer than a similar memory (prefer)" if lift else ""

    def may_help(self, look: Look) -> bool:
        return bool(look.question.settings.prefer)


def _updates(shortlist: Shortlist, least: float) -> list[_Update]:
    """Each candidate that is newer than alike ones of its owner and query, oldest first: these, and how alike."""
    dated = shortlist.values["dated"]
    updates = [update for query in shortlist.queries for update in _of_query(shortlist, query, least)]
    return sorted(updates, key=lambda update: (dated[update[0]], update[0]))


def _of_query(shortlist: Shortlist, query: slice, least: float) -> Iterator[_Update]:
    texts, dated = shortlist.values["texts"], shortlist.values["dated"][query]
    repeats, text = texts.repeats, texts.row[query]
    is_update = dated[:, None] > dated  # no date is later than another
    rows, is_update = _paired(np.arange(len(text)), is_update)
    is_update[is_update] = repeats.likely(text[rows][np.argwhere(is_update)], least)
    rows, is_update = _paired(rows, is_update)
    cosine = repeats.cosines(text[rows])
    is_update &= cosine >= least
    for newer in np.flatnonzero(is_update.any(axis=1)).tolist():
        older = np.flatnonzero(is_update[newer])
        yield query.start + int(rows[newer]), query.start + rows[older], cosine[newer, older]


def _paired(rows: Ints, pairs: Mask) -> tuple[Ints, Mask]:
    """Those of `rows` that are in one of the `pairs`, and the pairs among them."""
    some = np.flatnonzero(pairs.any(axis=0) | pairs.any(axis=1))
    return rows[some], pairs[np.ix_(some, some)]


def _recency(settings: Any, index: Any) -> Reach:
    is_dated = ~np.isnat(index.rows.dated)
    return Reach(int(is_dated.sum()), len(is_dated), UNDATED_TO_DO, "prefer")


@estimator
class Params(Before):
    """Recency as a tie-breaker."""

    prefer: str | None = param(
        None,
        group="time",
        kind="str",
        nullable=True,
        choices=("newest",),
        doc="Recency tie-breaking. 'newest': of two similar memories of one user whose scores differ by at most 0.05,"
        " the newer comes first. Similar are texts with a cosine of trigrams of 0.75 and more; they may differ in"
        " numbers and names, as a statement and its update do. None: off.",
        acts_on=lambda settings, index: _recency(settings, index) if settings.prefer else None,
    )
    steps: ClassVar[tuple[Step, ...]] = (Prefer(),)
