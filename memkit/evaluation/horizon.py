"""The decay horizon: the day from which on a memory is no longer found, computed from candidates retrieved once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from memkit.base.params import Moment
from memkit.evaluation.metrics import Labels
from memkit.evaluation.pools import Batch
from memkit.schemas import Floats, Ints, Mask, result_schema, tuples_of
from memkit.search.alike import TIE_DIGITS
from memkit.search.question import Question
from memkit.search.state import Ranked
from memkit.search.steps.collapse import UNMOVED, reaches
from memkit.search.steps.factors import Decay
from memkit.search.steps.fuse import Fuse
from memkit.search.steps.scope import EXPIRED, FUTURE_KEPT, gone_by
from memkit.tables.age import later

NEVER, LATER = "never", "later"
OUT, LOW = "out of the first k", "below min_score"
HORIZON = result_schema(
    (pa.string(), "query_id memory_id"),
    (pa.int64(), "rank"),
    (pa.float64(), f"score {Decay.shown}"),
    (pa.int64(), "days"),
    (pa.date32(), "day"),
    (pa.string(), "why"),
)
_LAST = datetime(9998, 1, 1, tzinfo=UTC)


def horizon_of(batches: Sequence[Batch], labels: Labels, k: int, most: int) -> pa.Table:
    """`HORIZON` of the relevant memories that stand in the first k now; those that fall out first come first."""
    rows = [row for batch in batches for row in _of_batch(batch, labels, k, most)]
    rows.sort(key=lambda row: (row["days"] is None, row["days"], row["query_id"], row["rank"]))
    return pa.Table.from_pylist(rows, schema=HORIZON)


def _of_batch(batch: Batch, labels: Labels, k: int, most: int) -> Iterator[dict[str, Any]]:
    question = batch.search.ask(batch.questions, k=k, **batch.scope).with_params(**UNMOVED)
    watched = _Watched.from_question(question, labels, _future_candidates(batch, question, k))
    days, why = watched.run(most)
    for position, day, reason in zip(watched.target.tolist(), days.tolist(), why, strict=True):
        yield {
            "query_id": question.queries.ids[int(watched.ranked.candidates.query[position])],
            "memory_id": question.index.memories["memory_id"][int(watched.memory[position])].as_py(),
            "rank": int(watched.ranked.rank[position]),
            "score": float(watched.ranked.score[position]),
            Decay.shown: float(watched.ranked.columns[Decay.shown][position]),
            "days": None if day < 0 else day,
            "day": None if day < 0 else (question.moment + timedelta(days=day)).date(),
            "why": reason,
        }


def _future_candidates(batch: Batch, question: Question, k: int) -> Ranked | None:
    """The candidates among memories that are not created yet on the first day; None where there are none."""
    unseen = question.scope.later
    if unseen is None:
        return None
    search = batch.search.with_params(**FUTURE_KEPT)
    wide = search.ask(batch.questions, k=k, **batch.scope).with_params(**UNMOVED)
    ranked: Ranked = wide.ranked()
    return ranked.take(np.flatnonzero((ranked.rank > 0) & unseen[wide.index.rows.memory[ranked.candidates.row]]))


@dataclass(frozen=True)
class _Watched:
    """The candidates of the first day that were not collapsed, by query, and which of them are watched (target).

    Candidates that appear on a later day follow the others of their query.
    """

    question: Question
    ranked: Ranked
    memory: Ints
    target: Ints

    @classmethod
    def from_question(cls, question: Question, labels: Labels, of_later: Ranked | None) -> _Watched:
        ranked = question.ranked()
        ranked = ranked.take(np.flatnonzero(ranked.rank > 0))
        if of_later is not None:
            both = ranked.followed_by(replace(of_later, rank=np.full(len(of_later.rank), question.k + 1)))
            ranked = both.take(np.argsort(both.candidates.query, kind="stable"))
        memory = question.index.rows.memory[ranked.candidates.row]
        wanted = set(tuples_of(labels.relevant(), "query_id", "memory_id"))
        ids = question.index.memories["memory_id"].take(pa.array(memory)).to_pylist()
        asks = [question.queries.ids[row] for row in ranked.candidates.query.tolist()]
        targets: list[int] = []
        for row in np.flatnonzero(ranked.rank <= question.k).tolist():
            if (asks[row], ids[row]) in wanted:  # of a memory's chunks the best one
                wanted.discard((asks[row], ids[row]))
                targets.append(row)
        return cls(question, ranked, memory, np.array(targets, np.int64))

    def scores_on(self, moment: datetime) -> tuple[Floats, Mask]:
        """Each candidate's score at a moment, rounded as in ranking, and whether it is expired or not created yet."""
        until, passed = self.question.ask.moment.until, moment - self.question.moment
        later_question = self.question.at(Moment(moment, None if until is None else until + passed))
        last = moment if until is None else until + passed
        score = later_question.multiplied(self.ranked.candidates, self.ranked.columns[Fuse.base]).round(TIE_DIGITS)
        rows, gone = self.question.index.rows, np.zeros(len(score), bool)
        if (expired := gone_by(self.question.settings, rows, last)) is not None:
            gone |= expired[self.memory]
        if (until := self.question.scope.until) is not None:
            gone |= later(rows.created[self.memory], until + passed)
        return score, gone

    def run(self, most: int) -> tuple[Ints, list[str]]:
        """The day on which each target falls out of the first k, or -1, and the reason; day by day until all settle."""
        days, why = np.full(len(self.target), -1), np.full(len(self.target), LATER, object)
        last_score, last_gone = self.scores_on(_LAST)
        query, row = self.ranked.candidates.query, self.ranked.candidates.row
        first, end = (np.searchsorted(query, query[self.target], side) for side in ("left", "right"))
        target_of_pair = np.repeat(np.arange(len(first)), end - first)  # each target beside each candidate of its query
        candidate = np.arange(len(target_of_pair)) - np.repeat(np.cumsum(end - first) - end, end - first)
        for day in range(1, most + 1):
            if not target_of_pair.size:
                break
            score, gone = self.scores_on(self.question.moment + timedelta(days=day))
            alive, target = ~gone & reaches(self.question.settings, score), self.target[target_of_pair]
            tied = (score[candidate] == score[target]) & (row[candidate] < row[target])
            ahead = alive[candidate] & ((score[candidate] > score[target]) | tied)
            ranks = np.bincount(target_of_pair, ahead, len(first)) + 1
            changes = (score[candidate] != last_score[candidate]) | (gone[candidate] != last_gone[candidate])
            may_fall = np.bincount(target_of_pair, changes, len(first)) > 0
            causes = [gone[self.target], ~alive[self.target], ranks > self.question.k, ~may_fall]
            done = np.logical_or.reduce(causes) & (np.bincount(target_of_pair, minlength=len(first)) > 0)
            if done.any():
                reasons = np.select(causes, [EXPIRED, LOW, OUT, NEVER], "")
                why[done], days[done & (reasons != NEVER)] = reasons[done], day
                pending = ~done[target_of_pair]
                target_of_pair, candidate = target_of_pair[pending], candidate[pending]
        return days, why.tolist()
