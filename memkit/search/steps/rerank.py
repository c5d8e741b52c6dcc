"""The best candidates are scored once more, by a reranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from memkit.base.params import Reach, estimator, param
from memkit.index.encode import Reranker, as_reranker
from memkit.schemas import Floats, Ints, Mask
from memkit.search.alike import DROPPED
from memkit.search.fitted.chunks import take_rows
from memkit.search.state import UNIT, Pooled, Ranked, State, as_keys, nth_largest
from memkit.search.step import Look, Step
from memkit.search.steps.fuse import Params as Before

if TYPE_CHECKING:
    from memkit.search.question import Question

# As those of the fused score: 0.7 + 0.3 is 1.
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
class Params(Before):
    """A reranker."""

    rerank: Any = param(
        None,
        group="arms",
        kind="object",
        doc="Reranker of the best `rerank_n` candidates: an encoder ('e5'), a cross-encoder ('st:PATH'), or a function"
        " of a query and a list of texts that returns scores; None: no reranking. Measure it on your own labels.",
        acts_on=_rerank,
    )
    # Of 10, 20 and 30: with 30 the mean of eight sets is .682 in place of .681.
    rerank_n: int = param(
        20,
        group="arms",
        low=1,
        unit="candidates",
        doc="How many of the best candidates of a query are reranked.",
        acts_on=_of_reranker,
    )
    # Of .2, .35, .5, .65 and .8 the best mean of eight sets (.681; without reranking .657).
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
