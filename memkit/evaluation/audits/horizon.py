"""The decay horizon: the day on which a memory is no longer found, by arithmetic over what the arms found once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from memkit.evaluation.scores.batches import Batch
from memkit.evaluation.scores.metrics import Labels
from memkit.schemas import Floats, Ints, Mask, result_schema
from memkit.search.question import Question
from memkit.search.stages.fuse import TIE_DIGITS
from memkit.search.stages.rank import Ranked
from memkit.tables.age import later

NEVER, LATER = "never", "later"
OUT, LOW, EXPIRED = "out of the first k", "below min_score", "expired"
HORIZON = result_schema(
    (pa.string(), "query_id memory_id"),
    (pa.int64(), "rank"),
    (pa.float64(), "score decay"),
    (pa.int64(), "days"),
    (pa.date32(), "day"),
    (pa.string(), "why"),
)
_LAST = datetime(9998, 1, 1, tzinfo=UTC)


def horizon_of(batches: Sequence[Batch], labels: Labels, k: int, most: int) -> pa.Table:
    """`HORIZON` of the relevant memories that stand in the first k, the first to fall first."""
    rows = [row for batch in batches for row in _of_batch(batch, labels, k, most)]
    rows.sort(key=lambda row: (row["days"] is None, row["days"], row["query_id"], row["rank"]))
    return pa.Table.from_pylist(rows, schema=HORIZON)


def _of_batch(batch: Batch, labels: Labels, k: int, most: int) -> Iterator[dict[str, Any]]:
    asked = batch.search.ask(batch.questions, k=k, **batch.scope).but(mmr_lambda=1.0)
    race = _Race.of(asked, labels, _to_come(batch, asked, k))
    days, why = race.run(most)
    for at, day, reason in zip(race.target.tolist(), days.tolist(), why, strict=True):
        yield {
            "query_id": asked.queries.ids[int(race.ranked.found.query[at])],
            "memory_id": asked.index.memories["memory_id"][int(race.memory[at])].as_py(),
            "rank": int(race.ranked.rank[at]),
            "score": float(race.ranked.score[at]),
            "decay": float(race.ranked.decay[at]),
            "days": None if day < 0 else day,
            "day": None if day < 0 else (asked.moment + timedelta(days=day)).date(),
            "why": reason,
        }


def _to_come(batch: Batch, asked: Question, k: int) -> Ranked | None:
    """What would be found of the memories that are not there on the first day; None where there are none."""
    unseen = asked.scope.future
    if unseen is None:
        return None
    search = batch.search.with_params(future="keep")
    wide = search.ask(batch.questions, k=k, **batch.scope).but(mmr_lambda=1.0)
    ranked: Ranked = wide.ranked()
    return ranked.take(np.flatnonzero((ranked.rank > 0) & unseen[wide.index.rows.memory[ranked.found.row]]))


@dataclass(frozen=True)
class _Race:
    """What was found and not folded on the first day, by query, and what is watched of it.

    What appears on a later day follows the others of its query.
    """

    asked: Question
    ranked: Ranked
    memory: Ints
    target: Ints

    @classmethod
    def of(cls, asked: Question, labels: Labels, to_come: Ranked | None) -> _Race:
        ranked = asked.ranked()
        ranked = ranked.take(np.flatnonzero(ranked.rank > 0))
        if to_come is not None:
            both = ranked.followed_by(to_come._replace(rank=np.full(len(to_come.rank), asked.k + 1)))
            ranked = both.take(np.argsort(both.found.query, kind="stable"))
        memory = asked.index.rows.memory[ranked.found.row]
        right = pa.table(dict(zip(("query", "memory"), labels.relevant(), strict=True))).to_pandas()
        wanted = set(zip(right["query"], right["memory"], strict=True))
        ids = asked.index.memories["memory_id"].take(pa.array(memory)).to_pylist()
        asks = [asked.queries.ids[at] for at in ranked.found.query.tolist()]
        seen: list[int] = []
        for at in np.flatnonzero(ranked.rank <= asked.k).tolist():
            if (asks[at], ids[at]) in wanted:  # of a memory's chunks the best one
                wanted.discard((asks[at], ids[at]))
                seen.append(at)
        return cls(asked, ranked, memory, np.array(seen, np.int64))

    def on(self, moment: datetime) -> tuple[Floats, Mask]:
        """Each score at that moment, rounded as ranking rounds it, and who has expired or is not there yet."""
        _, factor = replace(self.asked, moment=moment).decay(self.memory)
        score = np.round(self.ranked.fused * self.ranked.prior * factor, TIE_DIGITS)
        rows, gone = self.asked.index.rows, np.zeros(len(score), bool)
        if self.asked.settings.expired == "hide" and (expired := rows.expired(moment)) is not None:
            gone |= expired[self.memory]
        if (until := self.asked.scope.until) is not None:
            gone |= later(rows.made[self.memory], until + (moment - self.asked.moment))
        return score, gone

    def run(self, most: int) -> tuple[Ints, list[str]]:
        """The day on which each target falls, -1 where it does not, and why; day by day until nothing changes."""
        days, why = np.full(len(self.target), -1), np.full(len(self.target), LATER, object)
        last, over = self.on(_LAST)
        query, row = self.ranked.found.query, self.ranked.found.row
        first, end = (np.searchsorted(query, query[self.target], side) for side in ("left", "right"))
        which = np.repeat(np.arange(len(first)), end - first)  # each target beside each candidate of its query
        other = np.arange(len(which)) - np.repeat(np.cumsum(end - first) - end, end - first)
        for day in range(1, most + 1):
            if not which.size:
                break
            score, gone = self.on(self.asked.moment + timedelta(days=day))
            alive, own = ~gone & (score >= self.asked.settings.min_score), self.target[which]
            tied = (score[other] == score[own]) & (row[other] < row[own])
            ahead = alive[other] & ((score[other] > score[own]) | tied)
            ranks = np.bincount(which, ahead, len(first)) + 1
            moving = np.bincount(which, (score[other] != last[other]) | (gone[other] != over[other]), len(first)) > 0
            reasons = np.select(
                [gone[self.target], ~alive[self.target], ranks > self.asked.k, ~moving], [EXPIRED, LOW, OUT, NEVER], ""
            )
            done = (reasons != "") & np.isin(np.arange(len(first)), which)
            why[done], days[done & (reasons != NEVER)] = reasons[done], day
            if done.any():
                kept = ~done[which]
                which, other = which[kept], other[kept]
        return days, why.tolist()
