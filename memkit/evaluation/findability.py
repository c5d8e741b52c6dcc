"""The audits: which memories queries do not find, find too often, find although outdated, and will find no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.parallel import bar
from memkit.base.params import Moment, check_fitted, check_value
from memkit.errors import ParameterError
from memkit.evaluation.evaluation import CheckedTask, Task, dispositions_of
from memkit.evaluation.known_items import COLUMNS, FIELDS, askable, labels_of, query_for, says_something
from memkit.evaluation.metrics import Batch, Labels, Pools, with_user
from memkit.policy.contradictions import contradictions
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.dedup.pairs import FLAGS
from memkit.schemas import REPLACED, Floats, Ints, Mask, result_schema, tuples_of
from memkit.search.alike import TIE_DIGITS
from memkit.search.ask import check_user
from memkit.search.question import Question
from memkit.search.state import Ranked
from memkit.search.steps.collapse import LOW, UNMOVED, reaches
from memkit.search.steps.factors import Decay
from memkit.search.steps.fuse import Fuse
from memkit.search.steps.scope import EXPIRED, FUTURE_KEPT, NOT_SEARCHED, gone_by, is_hidden, unseen_from
from memkit.tables.age import later
from memkit.text.analyse import Analyser
from memkit.text.chunk import has_alnum, without_text

MOST_ASKED = 2_000
"""For how many memories queries are made where nobody says so: a share of them is known within .022 at 95 %.

Of a vault of 9,018 pages all 24,147 memories take two minutes and 2.5 GB.
"""
OWN_WORDS = "own words"
# A guess: a long question.
_ASKED = 16
"""How many first words ask for a memory without a heading."""
# Guesses: what is found that often is a list, a contents page or boilerplate.
_OFTEN, _TIMES = 0.1, 3.0
"""A hub is among the first k of at least this share of the queries, and this many times as often as by chance."""
_UNREACHED = result_schema(
    (pa.string(), "memory_id asked_by"),
    (pa.int64(), "n_queries"),
    (pa.string(), "why"),
    (pa.int64(), "rank by_others"),
    (pa.string(), "query"),
)
_HUBS = result_schema(
    (pa.string(), "memory_id"), (pa.int64(), "n_queries"), (pa.float64(), "share times"), (pa.int64(), "own")
)
_OUTDATED = result_schema((pa.string(), "memory_id why by_id"), (pa.int64(), "rank n_queries"))
_UNSEARCHABLE = result_schema((pa.string(), "memory_id kind why"))
_SHADOWED = result_schema(
    (pa.string(), "memory_id by_id how"),
    (pa.float64(), "similarity"),
    (pa.string(), "differs"),
    (pa.float64(), "newer_days"),
)


@dataclass(frozen=True)
class AuditQuestions:
    """The labelled queries of an audit and their first k hits; each is computed once, when it is needed."""

    search: Any
    queries: Any
    qrels: Any
    k: int
    n: int | None
    moment: Moment
    user_id: str | None = None

    def __post_init__(self) -> None:
        check_fitted("audit", self.search)
        check_value("audit", "k", self.k, "int", low=1)
        check_user(self.user_id, "audit")
        check_value("audit", "n", self.n, "int", nullable=True, low=1)
        if (self.queries is None) != (self.qrels is None):
            raise ParameterError("audit: expected both queries and qrels, or neither. Got one of them.")

    @cached_property
    def made(self) -> list[dict[str, Any]]:
        """A query for each memory that has words and exists at the moment."""
        return _audit_queries(self.search, self.moment)

    @cached_property
    def _groups(self) -> list[str]:
        return sorted({query["group"] for query in self.made})

    @cached_property
    def sampled(self) -> str:
        """How many memories are asked for where these are not all."""
        n_all = len(self._groups) if self.queries is None else 0
        if self.n is None or n_all <= self.n:
            return ""
        return f"Asked for {self.n:,} of {n_all:,} memories, drawn with a fixed seed; n=None (-n 0) asks for all. "

    def _labels(self) -> tuple[pa.Table, pa.Table]:
        """The queries made for at most `n` memories."""
        chosen = set(pd.Series(self._groups).sample(frac=1, random_state=0)[: self.n])
        return labels_of([query for query in self.made if query["group"] in chosen])

    @cached_property
    def task(self) -> CheckedTask:
        """The given labels, or queries made from the memories."""
        queries, qrels = self._labels() if self.queries is None else (self.queries, self.qrels)
        task = Task(None, queries, qrels, as_of=self.moment, user_id=self.user_id, unjudged="apart").read()
        task.check_known(self.search)
        return task

    @cached_property
    def pools(self) -> Pools:
        """The candidates of the arms."""
        return Pools(self.search, self.task.labelled(None))

    @cached_property
    def hits(self) -> pa.Table:
        """The first k hits of each query; having none is no error here."""
        return self.pools.hits(self.k, check=False)

    @property
    def pairs(self) -> pd.DataFrame:
        """query_id, memory_id: the relevant memories of each query."""
        pairs: pd.DataFrame = self.task.labels.relevant().to_pandas()
        return pairs

    @cached_property
    def found(self) -> set[str]:
        """The memories that a query asking for them finds: as a hit, or collapsed under one."""
        return set(self.pairs.merge(self.reached.drop_duplicates(), on=["query_id", "memory_id"])["memory_id"])

    @property
    def reached(self) -> pd.DataFrame:
        """query_id, memory_id: the first k hits, with the near-duplicates collapsed under them."""
        frame: pd.DataFrame = self.hits.select(["query_id", "memory_id"]).to_pandas()
        if "alike" not in self.hits.column_names:
            return frame
        folded: pd.DataFrame = frame.assign(memory_id=self.hits["alike"].to_pylist()).explode("memory_id").dropna()
        both: pd.DataFrame = pd.concat([frame, folded], ignore_index=True)
        return both


def _audit_queries(search: Any, moment: Moment) -> list[dict[str, Any]]:
    """Queries made from the memories that exist at the moment."""
    memories, until = search.corpus_.memories, unseen_from(search, moment)
    if until is not None:
        memories = memories.filter(pa.array(~later(memories["created_at"].to_numpy(), until)))
    rows = memories.select(COLUMNS).to_pylist()
    queries = [
        query_for(row, text, name, column)
        for name, (_, column) in FIELDS.items()
        for row, text in askable(name, rows)
        if not is_hidden(search, row["kind"])
    ]
    asked_for = {query["group"] for query in queries}
    queries += [
        query_for(row, text, OWN_WORDS)
        for row in rows
        if row["memory_id"] not in asked_for
        and not is_hidden(search, row["kind"])
        and any(map(str.isalnum, text := _first_words(row["text"])))
    ]
    if not queries:
        raise ParameterError("audit: expected memories with a word to ask for. Got none.")
    return queries


def _first_words(text: str) -> str:
    """The first words of a memory, without a heading that is nothing but a date, as ``# Session: 2026-02-03 10:00``."""
    head, _, rest = text.strip().partition("\n")
    is_date = head.startswith("#") and any(map(str.isdigit, head)) and not says_something(head)
    return " ".join((rest if is_date else text).split()[:_ASKED])


def unreached_of(questions: AuditQuestions) -> pa.Table:
    """The memories that no query asking for them finds."""
    pairs, reached = questions.pairs, questions.reached.drop_duplicates()
    missed = pairs[~pairs["memory_id"].isin(questions.found)]
    if missed.empty:
        return _UNREACHED.empty_table()
    again = [batch.only(missed["query_id"]) for batch in questions.pools.batches]
    dispositions = dispositions_of(
        [batch for batch in again if batch.rows.num_rows], questions.task.labels, questions.k
    )
    dispositions = missed.merge(dispositions, on=["query_id", "memory_id"]).sort_values(
        ["rank", "query_id"], kind="stable"
    )
    hits_of_others = reached.merge(pairs.assign(own=True), how="left", on=["query_id", "memory_id"])
    by_others = hits_of_others[hits_of_others["own"].isna()].groupby("memory_id").size()
    queries = questions.task.queries
    fields = "field" in queries.column_names
    field_of = dict(zip(queries["query_id"].to_pylist(), queries["field"].to_pylist() if fields else [], strict=False))
    text_of = dict(tuples_of(queries, "query_id", "text"))
    rows = []
    for memory, rows_of_memory in dispositions.groupby("memory_id"):
        best = rows_of_memory.iloc[0]
        rows.append(
            {
                "memory_id": memory,
                "asked_by": ", ".join(
                    dict.fromkeys(field_of.get(query_id) or "labels" for query_id in rows_of_memory["query_id"])
                ),
                "n_queries": len(rows_of_memory),
                "why": best["disposition"],
                "rank": None if pd.isna(best["rank"]) else int(best["rank"]),
                "by_others": int(by_others.get(memory, 0)),
                "query": text_of[best["query_id"]],
            }
        )
    rows.sort(key=lambda row: (row["by_others"], row["memory_id"]))
    return pa.Table.from_pylist(rows, schema=_UNREACHED)


def hubs_of(questions: AuditQuestions) -> pa.Table:
    """The memories that crowd the hits of queries for others."""
    pairs = questions.pairs.assign(own=True)
    hits = questions.hits.select(["query_id", "memory_id"]).to_pandas().drop_duplicates()
    hits = hits.merge(pairs, how="left", on=["query_id", "memory_id"])
    crowd = Counter(hits[hits["own"].isna()]["memory_id"])
    n_own = Counter(pairs["memory_id"])
    asks = Counter(with_user(questions.task.queries, questions.user_id)["user_id"].to_pylist())
    memories = questions.search.corpus_.memories
    of_user = dict(tuples_of(memories, "memory_id", "user_id"))
    n_memories = Counter(of_user.values())
    by_chance = {  # by chance, in how many of its queries' first k a memory that they may see would stand
        user: count
        * min(1.0, questions.k / (memories.num_rows if user is None else n_memories[None] + n_memories[user]))
        for user, count in asks.items()
    }
    rows = []
    for memory, count in crowd.items():
        user = of_user[memory]
        seen_by = sum(asks.values()) if user is None else asks[user] + asks[None]
        chance = sum(by_chance.values()) if user is None else by_chance.get(user, 0.0) + by_chance.get(None, 0.0)
        share, times = count / max(seen_by - n_own[memory], 1), count / chance
        if share >= _OFTEN and times >= _TIMES:
            rows.append({"memory_id": memory, "n_queries": count, "share": share, "times": times, "own": n_own[memory]})
    rows.sort(key=lambda row: (-row["share"], row["memory_id"]))
    return pa.Table.from_pylist(rows, schema=_HUBS)


def outdated_of(questions: AuditQuestions) -> pa.Table:
    """The memories among the hits whose author says that they no longer count, or are to be checked again."""
    until = {
        query_id: batch.moment.until
        for batch in questions.pools.batches
        for query_id in batch.rows["query_id"].to_pylist()
    }
    memories = questions.search.corpus_.memories
    marked = pc.or_(
        pc.or_(pc.is_in(memories["status"], value_set=pa.array(REPLACED)), pc.is_valid(memories["superseded_by"])),
        pc.is_valid(memories["stale_at"]),
    )
    columns = memories.filter(marked).select(["memory_id", "status", "superseded_by", "stale_at"])
    marks = {row["memory_id"]: row for row in columns.to_pylist()}
    rows: dict[str, dict[str, Any]] = {}
    for hit in questions.hits.select(["query_id", "rank", "memory_id"]).to_pylist():
        mark, end = marks.get(hit["memory_id"]), until[hit["query_id"]]
        if mark is None:
            continue
        is_stale = end is not None and mark["stale_at"] is not None and mark["stale_at"] <= end
        status = mark["status"] if mark["status"] in REPLACED else "superseded" if mark["superseded_by"] else None
        if status or is_stale:
            why = {"memory_id": hit["memory_id"], "why": status or "stale", "by_id": mark["superseded_by"]}
            row = rows.setdefault(hit["memory_id"], {**why, "rank": hit["rank"], "n_queries": 0})
            row |= {"rank": min(row["rank"], hit["rank"]), "n_queries": row["n_queries"] + 1}
    ordered = sorted(rows.values(), key=lambda row: (-row["n_queries"], row["rank"], row["memory_id"]))
    return pa.Table.from_pylist(ordered, schema=_OUTDATED)


def _filled(search: Any) -> set[str]:
    """The memories with a text besides headings."""
    index = search.over_all()._index()
    pairs = zip(index.chunks["memory_id"].to_pylist(), index.own_texts.to_pylist(), strict=True)
    return {memory for memory, text in pairs if text.strip()}


def _of_signs(memories: pa.Table) -> set[str]:
    """The memories with a text besides headings that has no letter and no digit; some of these have no chunk."""
    texts = pc.fill_null(memories["text"], "")
    below = pc.replace_substring_regex(texts, r"(?m)^[ ]{0,3}#{1,6}(?:[ \t].*)?$", "")
    has_signs = pc.not_equal(pc.utf8_trim_whitespace(below), "")
    of_signs = pc.and_(has_signs, pa.array(~has_alnum(texts)))
    return set(memories["memory_id"].filter(of_signs).to_pylist())


def unsearchable_of(questions: AuditQuestions) -> pa.Table:
    """The memories that no query can find."""
    search = questions.search
    index, memories, filled = search.over_all()._index(), search.corpus_.memories, _filled(search)
    terms = Analyser(index.settings.analyzer).terms(index.own_texts.to_pylist())
    worded = {
        memory
        for memory, terms_of_chunk in zip(index.chunks["memory_id"].to_pylist(), terms, strict=True)
        if terms_of_chunk
    }
    filled |= _of_signs(memories)
    silent = set(memories["memory_id"].filter(pa.array(without_text(memories))).to_pylist())
    rows = []
    for memory, kind in tuples_of(memories, "memory_id", "kind"):
        unworded = "" if memory in worded else "no word" if memory in filled else "boilerplate"
        why = "no text" if memory in silent else unworded
        why = NOT_SEARCHED if is_hidden(search, kind) else why
        if why:
            rows.append({"memory_id": memory, "kind": kind, "why": why})
    rows.sort(key=lambda row: (row["why"] == NOT_SEARCHED, row["memory_id"]))
    return pa.Table.from_pylist(rows, schema=_UNSEARCHABLE)


def shadowed_of(questions: AuditQuestions) -> pa.Table:
    """The memories with a near-duplicate or a newer version."""
    search = questions.search
    dedup = Deduplicator(encoder=None).fit(search.corpus_)
    merging, versions = dedup.merging_pairs(), dedup.distinct_.filter(dedup.distinct_["contradiction"])
    memories = search.corpus_.memories
    when = pc.coalesce(memories["updated_at"], memories["created_at"]).to_pandas()
    dated = dict(zip(memories["memory_id"].to_pylist(), when, strict=True))
    kinds = dict(tuples_of(memories, "memory_id", "kind"))
    filled = _filled(search)
    is_exact = pc.equal(merging["kind"], "exact")
    newest = _newest_copies(merging.filter(is_exact), dated)
    near = pa.concat_tables([merging.filter(pc.invert(is_exact)), versions]).to_pandas()
    near[["a_id", "b_id"]] = near[["a_id", "b_id"]].map(lambda memory: newest.get(memory, memory))
    copies = merging.filter(is_exact).to_pandas()
    heads = copies.assign(b_id=copies["a_id"]).drop_duplicates("a_id")  # of equal texts all are paired with the newest
    copies = pd.concat([copies, heads], ignore_index=True).assign(a_id=lambda pairs: pairs["a_id"].map(newest))
    pairs = pd.concat([copies[copies["a_id"] != copies["b_id"]], near], ignore_index=True)
    pairs = pairs[pairs["a_id"].isin(filled) & pairs["b_id"].isin(filled)]  # a heading alone says nothing
    rows: dict[str, dict[str, Any]] = {}
    pairs = pairs.sort_values(["contradiction", "similarity", "a_id", "b_id"], ascending=[True, False, True, True])
    for pair in pairs.to_dict("records"):
        older, newer, days = _by_age(pair, dated)
        if older in rows or (pair["contradiction"] and not days) or is_hidden(search, kinds[newer]):
            continue
        how = "part of a longer one" if pair["kind"] == "substring" else "duplicate"
        differs = [flag.removesuffix("_conflict") for flag in FLAGS if pair[flag]]
        rows[older] = {
            "memory_id": older,
            "by_id": newer,
            "how": "newer version" if pair["contradiction"] else how,
            "similarity": pair["similarity"],
            "differs": ", ".join(differs) or None,
            "newer_days": days,
        }
    return pa.Table.from_pylist([rows[memory] for memory in sorted(rows)], schema=_SHADOWED)


def contradictions_of(questions: AuditQuestions) -> pa.Table:
    """What newer memories say otherwise than older ones."""
    return contradictions(questions.search.corpus_, questions.moment)


def _newest_copies(exact: pa.Table, dated: Mapping[str, Any]) -> dict[str, str]:
    """Of equal texts the newest, else the one with the least id, by the least id of all."""
    copies: dict[str, list[str]] = {}
    for first, other in tuples_of(exact, "a_id", "b_id"):
        copies.setdefault(first, [first]).append(other)
    undated = pd.Timestamp.min.tz_localize("UTC")
    return {
        first: min(ids, key=lambda id: (-(undated if pd.isna(dated[id]) else dated[id]).timestamp(), id))
        for first, ids in copies.items()
    }


def _by_age(pair: Mapping[str, Any], dated: Mapping[str, Any]) -> tuple[str, str, float | None]:
    """The shadowed memory of a pair, its shadow, and by how many days that is newer; a part never shadows its whole."""
    a, b = pair["a_id"], pair["b_id"]
    days = None if pd.isna(dated[a]) or pd.isna(dated[b]) else (dated[b] - dated[a]).total_seconds() / 86400
    if pair["kind"] == "substring" and not pair["contradiction"]:
        return a, b, days
    if days is None or days == 0:
        return max(a, b), min(a, b), days
    return (a, b, days) if days > 0 else (b, a, -days)


NEVER, LATER = "never", "later"
OUT = "out of the first k"
HORIZON = result_schema(
    (pa.string(), "query_id memory_id"),
    (pa.int64(), "rank"),
    (pa.float64(), f"score {Decay.shown}"),
    (pa.int64(), "days"),
    (pa.date32(), "day"),
    (pa.string(), "why"),
)
# Not the last year of the calendar, so that nothing that adds to it leads out of it.
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
            both = ranked.followed_by(replace(of_later, rank=np.full(len(of_later.rank), question.ask.k + 1)))
            ranked = both.take(np.argsort(both.candidates.query, kind="stable"))
        memory = question.index.rows.memory[ranked.candidates.row]
        wanted = set(tuples_of(labels.relevant(), "query_id", "memory_id"))
        ids = question.index.memories["memory_id"].take(pa.array(memory)).to_pylist()
        asks = [question.queries.ids[row] for row in ranked.candidates.query.tolist()]
        targets: list[int] = []
        for row in np.flatnonzero(ranked.rank <= question.ask.k).tolist():
            if (asks[row], ids[row]) in wanted:  # of a memory's chunks the best one
                wanted.discard((asks[row], ids[row]))
                targets.append(row)
        return cls(question, ranked, memory, np.array(targets, np.int64))

    def scores_on(self, moment: datetime) -> tuple[Floats, Mask]:
        """Each candidate's score at a moment, rounded as in ranking, and whether it is expired or not created yet."""
        until, passed = self.question.ask.moment.until, moment - self.question.moment
        last = moment if until is None else until + passed
        then = replace(self.question, ask=replace(self.question.ask, moment=Moment(moment, until and last)))
        score = then.multiplied(self.ranked.candidates, self.ranked.columns[Fuse.base]).round(TIE_DIGITS)
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
        for day in bar("days to come", range(1, most + 1), leave=False):
            if not target_of_pair.size:
                break
            score, gone = self.scores_on(self.question.moment + timedelta(days=day))
            alive, target = ~gone & reaches(self.question.settings, score), self.target[target_of_pair]
            tied = (score[candidate] == score[target]) & (row[candidate] < row[target])
            ahead = alive[candidate] & ((score[candidate] > score[target]) | tied)
            ranks = np.bincount(target_of_pair, ahead, len(first)) + 1
            changes = (score[candidate] != last_score[candidate]) | (gone[candidate] != last_gone[candidate])
            may_fall = np.bincount(target_of_pair, changes, len(first)) > 0
            causes = [gone[self.target], ~alive[self.target], ranks > self.question.ask.k, ~may_fall]
            done = np.logical_or.reduce(causes) & (np.bincount(target_of_pair, minlength=len(first)) > 0)
            if done.any():
                reasons = np.select(causes, [EXPIRED, LOW, OUT, NEVER], "")
                why[done], days[done & (reasons != NEVER)] = reasons[done], day
                pending = ~done[target_of_pair]
                target_of_pair, candidate = target_of_pair[pending], candidate[pending]
        return days, why.tolist()
