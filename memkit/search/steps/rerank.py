"""The best candidates in another order: scored once more, by a reranker; and of two similar memories with near scores
the newer comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from memkit.base.params import Estimator, Reach, estimator, param
from memkit.index.encode import Reranker, as_reranker
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import DROPPED, Texts
from memkit.search.fitted.chunks import take_rows
from memkit.search.state import UNIT, Pooled, Ranked, Shortlist, State, as_keys, nth_largest
from memkit.search.step import Look, Step
from memkit.tables.age import UNDATED_TO_DO

if TYPE_CHECKING:
    from memkit.search.question import Question

_DIGITS = 12


@dataclass(frozen=True)
class Reranking:
    """The name of a reranker, how many candidates it scores, and the share of its scores."""

    name: str
    n: int
    weight: float
    reranker: Reranker = field(compare=False, repr=False)


class Rerank(Step):
    """The best candidates are scored once more; they stay above the others, and a score means what it meant."""

    name = "rerank"
    bounded = True
    doing = "reranking"
    columns = {"reranked": np.nan}
    base = "reranked"
    off = {"rerank": None}
    lifts = np.inf

    def key(self, settings: Any, weights: Mapping[str, float], arms: Sequence[str]) -> Reranking | None:
        if not settings.rerank_weight:
            return None
        reranker = as_reranker(settings.rerank)
        return Reranking(reranker.name, settings.rerank_n, float(settings.rerank_weight), reranker)

    def wants(self, state: State, keys: Sequence[Reranking]) -> dict[str, Mask]:
        wanted: dict[str, Mask] = {}
        is_reranked = _best(state, keys)
        for column, key in enumerate(keys):
            some = is_reranked[:, column]
            wanted[key.name] = wanted[key.name] | some if key.name in wanted else some
        return wanted

    def ask(self, pooled: Pooled, keys: Sequence[Reranking], whom: str, rows: Ints) -> Floats:
        reranker = next(key.reranker for key in keys if key.name == whom)
        candidates = pooled.candidates.take(rows)
        passages = take_rows(pooled.index.texts, candidates.row).to_pylist()
        return reranker.scores([pooled.texts[query] for query in candidates.query.tolist()], passages)

    def apply(self, state: State, keys: Sequence[Reranking]) -> None:
        is_reranked, weights = _best(state, keys), np.array([key.weight for key in keys])
        second = np.stack([state[self.name, key.name] for key in keys], axis=1)
        for query in state.shortlist.queries:
            some = is_reranked[query]
            state.score[query] = _mixed(state.score[query], second[query], some, weights)
        np.round(state.score, _DIGITS, out=state.score)
        state.record("reranked", np.where(is_reranked[:, 0], state.score[:, 0], np.nan))

    def part(self, look: Look) -> str:
        return "" if look.row["reranked"] is None else f"after reranking {look.row['reranked']:.3f}"

    def note(self, question: Question, ranked: Ranked) -> str:
        return " ".join(question.unreached)

    def may_help(self, look: Look) -> bool:
        return look.row["reranked"] is not None


def with_names(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with the name of a reranker that is an object in its place."""
    return (
        params if isinstance(params["rerank"], str | None) else params | {"rerank": as_reranker(params["rerank"]).name}
    )


def check_reranker(settings: Any) -> None:
    """Raise where what is given cannot be a reranker."""
    if settings.rerank is not None:
        as_reranker(settings.rerank)


def _best(state: State, keys: Sequence[Reranking]) -> Mask:
    """Which candidates are reranked, by column: the best of each query, a chunk a memory."""
    order = as_keys(np.rint(state.score * UNIT), state.shortlist.tie_order, state.is_bounded)
    if state.out is not None:
        order[state.out] = DROPPED
    best: Mask = order != DROPPED
    columns: dict[int, list[int]] = {}
    for column, key in enumerate(keys):
        columns.setdefault(key.n, []).append(column)
    for query in state.shortlist.queries:
        for n, some in columns.items():
            best[query, some] &= order[query, some] >= nth_largest(order[query, some], n)
    return best


def _mixed(first: Floats, second: Floats, is_reranked: Mask, weight: Floats) -> Floats:
    """`first`, where `is_reranked`, with a share of `second` on the same range; as it is where those are equal."""
    (low, high), (least, most) = _ends(first, is_reranked), _ends(second, is_reranked)
    with np.errstate(invalid="ignore"):  # columns without a candidate
        span = most - least
        on_range = low + (high - low) * np.divide(second - least, span, out=np.zeros(first.shape), where=span > 0)
    mixed: Floats = np.where(is_reranked & (span > 0), (1 - weight) * first + weight * on_range, first)
    return mixed


def _ends(values: Floats, rows: Mask) -> tuple[Floats, Floats]:
    """The least and the largest of the `values` of some rows, by column."""
    least: Floats = np.where(rows, values, np.inf).min(axis=0, initial=np.inf)
    most: Floats = np.where(rows, values, -np.inf).max(axis=0, initial=-np.inf)
    return least, most


_CANDIDATE = "candidate of a query"


def _rerank(settings: Any, index: Any) -> Reach | None:
    if settings.rerank is None:
        return None
    count = settings.rerank_n if settings.rerank_weight else 0
    return Reach(count, settings.rerank_n, "rerank_weight is 0", "rerank", _CANDIDATE)


def _of_reranker(settings: Any, index: Any) -> Reach | None:
    if settings.rerank is not None:
        return _rerank(settings, index)
    return Reach(0, settings.pool, "no reranker is given: rerank='e5' is one", "rerank", _CANDIDATE)


@estimator
class Params(Estimator):
    """A reranker."""

    rerank: Any = param(
        None,
        group="arms",
        kind="object",
        doc="Reranker of the best `rerank_n` candidates: an encoder ('e5'), a cross-encoder ('st:PATH'), or a function"
        " of a query and a list of texts that returns scores; None: no reranking. Measure it on your own labels.",
        acts_on=_rerank,
    )
    rerank_n: int = param(
        20,
        group="arms",
        low=1,
        unit="candidates",
        doc="How many of the best candidates of a query are reranked.",
        acts_on=_of_reranker,
    )
    rerank_weight: float = param(
        0.5,
        group="arms",
        low=0,
        high=1,
        unit="ratio",
        doc="Share of the reranker's score in the score of a reranked candidate; the rest is its fused score. Reranked"
        " candidates stay above the others.",
        acts_on=_of_reranker,
    )

    steps: ClassVar[tuple[Step, ...]] = (Rerank(),)


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
class PreferParams(Estimator):
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
