"""`compare`: whether one search answers better than another, by how much, and with what confidence; and the baselines
to compare a tuned search with: words alone, vectors alone, words contained.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import Moment, check_choice, check_value, describe
from memkit.display.sheet import ROWS, Sheet, sheet_of
from memkit.errors import MemkitError, ParameterError, count_of
from memkit.evaluation.evaluation import (
    CheckedTask,
    deepest,
    known_mean,
    nullable,
    over_task,
    task_of,
)
from memkit.evaluation.known_items import known_item_note
from memkit.evaluation.labels import QRELS, read_queries
from memkit.evaluation.metrics import (
    OF_HITS,
    Batch,
    Judged,
    LabelledQueries,
    Labels,
    Metric,
    Pools,
    differing_notes,
    hits_of_both,
    idle_notes_of,
    parse_metrics,
    revision_of,
)
from memkit.evaluation.result import BETTER, OPEN, WORSE, Differences, Result, Verdict, size, verdict
from memkit.evaluation.scores import Measure, scores_of
from memkit.evaluation.statistics import interval
from memkit.schemas import Floats, Mask, result_schema, tuples_of
from memkit.search.steps.recall import asking
from memkit.search.steps.scope import memories_where, seen_by, unseen_from
from memkit.tables.age import later

_DETAILS = result_schema(
    (pa.string(), "metric"),
    (pa.float64(), "a b difference low high p"),
    (pa.string(), "word reason"),
    (pa.float64(), "epsilon detectable"),
    (pa.int64(), "better same worse"),
    (pa.float64(), "judged_a judged_b"),
    (pa.int64(), "n_to_judge"),
    (pa.string(), "estimate"),
    (pa.float64(), "per_query per_unit"),
    (pa.string(), "unit"),
    (pa.int64(), "n_units n_queries n_no_relevant n_flips"),
    (pa.string(), "note"),
)
_READ = ["metric", "a", "b", "difference", "low", "high", "word", "reason"]
_PER_QUERY = result_schema((pa.string(), "metric query_id text unit"), (pa.float64(), "a b difference"))
_TO_JUDGE = result_schema((pa.string(), "metric query_id memory_id"), (pa.int64(), "rank"))
_EQUAL = 1e-9  # two orders of summing one query's gains, of at most 1 each, differ by less


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(Result):
    """The result of `compare`; differences are b minus a.

    Attributes
    ----------
    details : pa.Table
        A row for each metric, with all figures: those of `table`, and the p of a sign-flip test over units; detectable,
        the minimum detectable effect (80 % power); better, same, worse, numbers of queries (for stale, less is better);
        judged_a and judged_b, the shares of judged hits; n_to_judge; per_query and per_unit, both means of the
        difference, and `estimate`, which of them counts. Empty without labels.
    agreement : pa.Table
        How far the hits of both agree, without labels: measure, value, n_queries.
    shifts : pa.Table
        query_id, memory_id, rank_a, rank_b (null beyond the first k), shift (places that it rises in b).
    per_query : pa.Table
        metric, query_id, text, unit, a, b, difference.
    to_judge : pa.Table
        metric, query_id, memory_id, rank in b: what to judge first, where that could change the verdict.
    verdict_ : Verdict or None
        On the first metric: word, gain, low, high, p, detectable, needed and more; None without labels.
    notes : tuple of str
        A sentence on each parameter that acts on nothing: of those in which a and b differ, and those that one was
        given.
    """

    details: pa.Table
    agreement: pa.Table
    shifts: pa.Table
    per_query: pa.Table
    to_judge: pa.Table
    verdict_: Verdict | None = None
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> pa.Table:
        """A row for each metric, with what is read at once: metric, the scores a and b, their difference with its 95 %
        interval (low, high), word (better, worse, practically the same, cannot tell yet), and the reason for the last.
        """
        return self.details.select(_READ)

    @property
    def word(self) -> str | None:
        """The verdict on the first metric; None without labels."""
        return None if self.verdict_ is None else self.verdict_.word

    def differences(self) -> Differences:
        """Each query's difference on the first metric, with the verdict.

        Raises
        ------
        ParameterError
            Where there were no labels.
        """
        if not self.details.num_rows:
            raise ParameterError("Comparison: expected one with labels. Without labels there are no differences.")
        row, frame = self.details.slice(0, 1).to_pylist()[0], self.per_query.to_pandas()
        frame = frame[frame["metric"] == row["metric"]].rename(columns={"unit": "group"})
        ends = (row["difference"], row["low"], row["high"], row["epsilon"])
        sentence = f"{row['word']}: {row['metric']}, b minus a"
        frame = frame.dropna(subset=["difference"])
        return Differences(frame, row["metric"], row["unit"], row["estimate"] == "per query", *ends, sentence)

    @property
    def pictures(self) -> tuple[str, ...]:
        """As `Result.pictures`."""
        return self.differences().pictures if self.details.num_rows else ()

    def __str__(self) -> str:
        if self.verdict_ is None:
            overlap, first, moved = self.agreement["value"].to_pylist()
            over = size({"n_queries": self.agreement["n_queries"][0].as_py(), "unit": "query_id"})
            return self._with_notes(
                f"No labels, so no verdict. Over {over}, a and b share {100 * overlap:.0f} % of their hits, and for"
                f" {100 * first:.0f} % of the queries the first hit; a hit of both moves by {moved:.1f} places on"
                " average"
            )
        return self._with_notes(". ".join(filter(None, (str(self.verdict_), self._note))))

    def _with_notes(self, sentence: str) -> str:
        return " ".join([f"{sentence}.", *self.notes]) if self.notes else sentence

    @property
    def _note(self) -> str:
        return str(self.details["note"][0])

    def _sheets(self, rows: int = ROWS, show_secrets: bool = False) -> tuple[Sheet, ...]:
        below = sheet_of(self.agreement, rows, show_secrets)
        agreement = replace(below, heading="How far the hits of both agree")
        by_size = np.abs(np.nan_to_num(self.per_query["difference"].to_numpy()))
        moved = np.flatnonzero(by_size > _EQUAL)
        widest = self.per_query.take(moved[np.argsort(-by_size[moved], kind="stable")])
        differing = replace(sheet_of(widest, rows, show_secrets), heading="Where they differ, largest first")
        head, conclusion = super()._sheets(rows, show_secrets)[0], self.verdict_
        if conclusion is not None:
            to_judge = HOW_TO_JUDGE.format("to_judge") if self.to_judge.num_rows else ""
            notes = [*self.notes, *conclusion.parts, *filter(None, [self._note, to_judge])]
            head = replace(
                head, heading=conclusion.head, notes=(*notes, *sheet_of(self.details, rows, show_secrets).notes)
            )
        return (head, agreement, *([differing] if len(moved) else []))


@over_task
def compare(
    a: Any,
    b: Any,
    queries: Any = None,
    qrels: Any = None,
    metrics: str | Sequence[str] = ("ndcg@10",),
    *,
    # A margin that is declared, and not measured: whoever knows what a difference is worth gives another.
    epsilon: float = 0.01,
    k: int = 10,
    unjudged_hits: str = "bounds",
    **shared: Any,
) -> Comparison:
    """Test whether search b answers better than search a, the reference; without labels, show how far they agree.

    The test is a permutation test that flips the signs of whole users' differences, and intervals are over users: see
    `evaluate` for how the unit is chosen. With fewer than 6 units there is no verdict. A setting chosen on these very
    queries looks better here than it is: see `tune`.

    Parameters
    ----------
    a, b : Retriever, or a run
        As for `evaluate`; with a `Task` as `a`, its search is the reference. They may differ in settings, encoder or
        analyser, or be runs of another program.
    queries : table, data frame or path
        See `read_queries`.
    qrels : table, data frame or path, optional
        See `read_qrels`; without it there is no verdict.
    metrics : str or sequence of str
        As for `evaluate`; the first one decides `word`.
    epsilon : float
        Differences within ± epsilon count as none.
    k : int
        How many hits are compared without labels.
    unjudged_hits : {'bounds', 'irrelevant'}
        How unjudged hits count. With 'bounds' a verdict must hold in two cases: if none of them is relevant, and if all
        are relevant that only b returns. Otherwise the verdict is *cannot tell yet*, and `to_judge` lists what to judge
        first. Choose 'irrelevant' where the labels are complete.
    **shared

    Returns
    -------
    Comparison
        ``.word``, ``.table``, ``.details``, ``.agreement``, ``.shifts``, ``.per_query``, ``.to_judge``; as text, one
        sentence.

    Raises
    ------
    ParameterError, MemkitError
        As for `evaluate`.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> words = mk.Retriever(encoder=None).fit(corpus)
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> found = compare(words, words.with_params(decay="none"), queries, qrels)
    >>> found.word, found.table["reason"].to_pylist()
    ('cannot tell yet', ['too few queries: 1, and a verdict needs at least 6'])
    """
    wanted = parse_metrics(metrics)
    check_value("compare", "k", k, "int", low=1)
    check_value("compare", "epsilon", epsilon, "float", low=0)
    check_choice("unjudged_hits", unjudged_hits, ("bounds", "irrelevant"), "compare")
    task = task_of(compare, a, queries, qrels, shared)
    a = task.search
    if task.qrels is None:
        asked, moment = read_queries(task.queries), Moment.from_as_of(task.as_of)
        both = [hits(k) for hits in hits_of_both(a, b, LabelledQueries(asked, None, moment, task.where, task.user_id))]
        details, per_query, to_judge = _DETAILS.empty_table(), _PER_QUERY.empty_table(), _TO_JUDGE.empty_table()
        conclusion = None
    else:
        checked = task.read()
        asked, moment = checked.queries, checked.moment
        for search in (a, b):
            checked.check_known(search)
        deep = max(k, deepest(wanted, task.depth))
        both = [hits(deep) for hits in hits_of_both(a, b, checked.labelled(task.where))]
        pair = Pair(checked, both[0], both[1], deep, epsilon, task.random_state)
        judged = [pair.judge(metric, unjudged_hits == "bounds") for metric in wanted]
        conclusion = judged[0][0]
        details = pa.Table.from_pylist([row for _, row, _, _ in judged], schema=_DETAILS)
        per_query = describe(pa.concat_tables([scores for _, _, scores, _ in judged]), memkit="per_query")
        to_judge = pa.concat_tables([unseen for _, _, _, unseen in judged])
    ranks = _ranks(both[0], both[1], asked, k)
    shifts = pa.Table.from_pandas(ranks.drop(columns="first"), preserve_index=False)
    revisions = {"of_a": revision_of(a), "of_b": revision_of(b)} if revision_of(a) != revision_of(b) else revision_of(a)
    details = describe(details, memkit="compare", note=known_item_note(asked), as_of=moment, **revisions)
    notes = tuple(dict.fromkeys([*differing_notes(a, b), *idle_notes_of(a), *idle_notes_of(b)]))
    return Comparison(
        details=details,
        agreement=_agreement(ranks, asked.num_rows, k),
        shifts=shifts,
        per_query=per_query,
        to_judge=to_judge,
        verdict_=conclusion,
        notes=notes,
    )


@dataclass(frozen=True)
class Pair:
    """The hits of two searches for one task."""

    task: CheckedTask
    a: pa.Table
    b: pa.Table
    depth: int
    epsilon: float = 0.01
    seed: int = 0

    def scores(self, metric: Metric, labels: Labels) -> tuple[Floats, Floats]:
        of_a, of_b = (metric(Judged.from_hits(hits, labels, self.depth)) for hits in (self.a, self.b))
        return of_a, of_b

    def verdict(self, difference: Floats) -> Verdict:
        return verdict(self.task.units(difference), self.epsilon, self.seed, self.task.unit_name)

    def judge(self, metric: Metric, bounds: bool) -> tuple[Verdict, dict[str, Any], pa.Table, pa.Table]:
        """The verdict, the row of `_DETAILS`, the scores by query, and what has to be judged first."""
        task = self.task
        a, b = self.scores(metric, task.labels)
        d = b - a
        if np.isnan(d).all():
            raise ParameterError(f"metrics: expected one that some query has. No query has {metric.name!r} of a and b.")
        conclusion, to_judge = self.verdict(d), _TO_JUDGE.empty_table()
        if bounds and conclusion.p is not None and metric.kind not in OF_HITS:
            conclusion, to_judge = self._bounded(metric, conclusion, np.isnan(d))
        gain, mean = metric.sign * d, metric.sign * float(conclusion.gain or 0.0)
        if metric.sign < 0:
            conclusion = replace(conclusion, word={BETTER: WORSE, WORSE: BETTER}.get(conclusion.word, conclusion.word))
        better, worse = int((gain > _EQUAL).sum()), int((gain < -_EQUAL).sum())
        counts = (better, conclusion.n_queries - better - worse, worse)
        conclusion = replace(conclusion, metric=metric.name, estimate=task.estimate, counts=counts)
        judged = [known_mean(shares) for shares in self.scores(Metric("judged", metric.k), task.labels)]
        against = (mean > _EQUAL and worse > better) or (mean < -_EQUAL and better > worse)
        row = {
            **{name: getattr(conclusion, name) for name in _DETAILS.names if hasattr(conclusion, name)},
            "difference": conclusion.gain,
            "n_units": conclusion.n_groups,
            "a": task.units(np.where(np.isnan(d), np.nan, a)).mean,
            "b": task.units(np.where(np.isnan(d), np.nan, b)).mean,
            "better": better,
            "worse": worse,
            "same": counts[1],
            "judged_a": judged[0],
            "judged_b": judged[1],
            "n_to_judge": to_judge.num_rows,
            "per_query": task.units(d, True).mean,
            "per_unit": task.units(d, False).mean,
            "n_no_relevant": int((task.labels.n_relevant == 0).sum()),
            "note": _AGAINST if against else "",
        }
        columns = [pa.array([metric.name] * len(d)), task.labels.queries, task.queries["text"], task.unit_names]
        return conclusion, row, pa.table([*columns, *map(nullable, (a, b, d))], schema=_PER_QUERY), to_judge

    def first_to_judge(self, metric: Metric) -> pa.Table:
        """The hits to judge before the verdict holds: `Comparison.to_judge`."""
        return self.judge(metric, True)[3]

    def _bounded(self, metric: Metric, conclusion: Verdict, without: Any) -> tuple[Verdict, pa.Table]:
        """The verdict, if it holds whether or not the unjudged hits of b alone are relevant.

        Else *cannot tell yet*, and the fewest of those hits, by weight, that would change the word.
        """
        unseen = self._unseen(metric)

        def word(count: int) -> str:
            a, b = self.scores(metric, self._with_relevant(unseen.slice(0, count)))
            return self.verdict(np.where(without, np.nan, b - a)).word

        if not unseen.num_rows or word(unseen.num_rows) == conclusion.word:
            return conclusion, _TO_JUDGE.empty_table()
        low, high = 0, unseen.num_rows
        # By halving, as each verdict takes thousands of sign flips.
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if word(middle) == conclusion.word else (low, middle)
        reason = unjudged_could_change(high)
        return replace(conclusion, word=OPEN, reason=reason, needed=None), unseen.slice(0, high)

    def _unseen(self, metric: Metric) -> pa.Table:
        """The unjudged hits of b alone within the metric's places, by how much they could add to the mean."""
        task, k = self.task, metric.k or self.depth
        ranks = _ranks(self.a, self.b, task.queries, k)
        alone = ranks[ranks["rank_a"].isna()]
        qrels = task.qrels.select(["query_id", "memory_id"]).to_pandas().assign(known=True)
        alone = alone.merge(qrels, how="left", on=["query_id", "memory_id"])
        alone = alone[alone["known"].isna()]
        number = dict(zip(task.labels.queries.to_pylist(), range(len(task.unit)), strict=True))
        query = alone["query_id"].map(number).to_numpy(np.int64)
        # What it could add to a query's nDCG, whatever the metric: its place, over as many right ones as there would
        # be.
        weight = 1 / np.log2(alone["rank_b"].to_numpy(np.float64) + 1) / (task.labels.n_relevant[query] + 1)
        if not task.per_query:
            weight /= np.bincount(task.unit)[task.unit[query]]
        order = np.lexsort((alone["memory_id"], alone["query_id"], -weight))
        chosen = alone.iloc[order].assign(metric=metric.name, rank=alone["rank_b"].iloc[order].astype("int64"))
        return pa.Table.from_pandas(chosen[_TO_JUDGE.names], schema=_TO_JUDGE, preserve_index=False)

    def _with_relevant(self, pairs: pa.Table) -> Labels:
        """The labels with these pairs added at the highest relevance there is."""
        best = float(self.task.labels.gain.max())
        added = pairs.select(["query_id", "memory_id"]).append_column("relevance", pa.array([best] * pairs.num_rows))
        judged_before = self.task.qrels.select(QRELS.names)
        return Labels.from_tables(
            self.task.queries, pa.concat_tables([judged_before, added], promote_options="default"), self.task.moment
        )


HOW_TO_JUDGE = "mk.panels.judge(search, queries, qrels, first=result.{}) opens exactly the hits to judge."


def unjudged_could_change(n: int) -> str:
    """The reason for no verdict where judging `n` hits could change it."""
    return f"{count_of(n, 'unjudged hit')} could change the verdict: judge {'these' if n > 1 else 'this one'} first"


_AGAINST = "The counts of queries contradict the mean: a few large differences decide it."


def _ranks(a: pa.Table, b: pa.Table, queries: pa.Table, k: int) -> pd.DataFrame:
    """query_id, memory_id, rank_a, rank_b, shift, first (found first by both), for the first k of either."""
    frames = []
    for hits in (a, b):
        frame = (
            hits.select(["query_id", "memory_id", "rank"]).to_pandas().sort_values(["query_id", "rank"], kind="stable")
        )
        frame["rank"] = frame.groupby("query_id").cumcount() + 1
        frame = frame[frame["rank"] <= k].drop_duplicates(["query_id", "memory_id"])
        frames.append(frame[frame["query_id"].isin(set(queries["query_id"].to_pylist()))])
    both = frames[0].merge(frames[1], how="outer", on=["query_id", "memory_id"], suffixes=("_a", "_b"))
    place = {name: position for position, name in enumerate(queries["query_id"].to_pylist())}
    both = both.astype({"rank_a": "Int64", "rank_b": "Int64"})
    both["shift"] = both["rank_a"] - both["rank_b"]
    both["first"] = (both["rank_a"] == 1) & (both["rank_b"] == 1)
    both["best"] = both[["rank_a", "rank_b"]].min(axis=1)
    both["place"] = both["query_id"].map(place)
    order = ["place", "best", "memory_id"]
    ordered: pd.DataFrame = both.sort_values(order, kind="stable", ignore_index=True).drop(columns=["place", "best"])
    return ordered


def _agreement(ranks: pd.DataFrame, n_queries: int, k: int) -> pa.Table:
    """Means over the queries for which either finds anything."""
    query = ranks.groupby("query_id", sort=False)
    most = query[["rank_a", "rank_b"]].count().max(axis=1)
    common = ranks["shift"].notna().groupby(ranks["query_id"], sort=False).sum()
    moved = ranks["shift"].abs().dropna()
    measures = {
        f"overlap@{k}": float((common / most).mean()),
        "same first hit": float(query["first"].any().mean()),
        "places moved": float(moved.mean()) if len(moved) else 0.0,
    }
    values = {"measure": list(measures), "value": list(measures.values()), "n_queries": [n_queries] * len(measures)}
    return describe(pa.table(values), memkit="agreement")


BASELINES = result_schema((pa.string(), "baseline"), (pa.float64(), "value difference low high"), (pa.string(), "note"))
_ALONE = {"words alone": "bm25", "vectors alone": "vector"}


def baselines(pools: Pools, default_scores: Floats, task: CheckedTask, metric: Metric, depth: int) -> pa.Table:
    """The metric of each baseline, and its difference to `default_scores` with the 95 % interval over units."""
    rows, deep = [], deepest([metric], depth)
    for name, arm in _ALONE.items():
        if arm == "vector" and getattr(pools.search, "encoder", None) is None:
            continue
        try:
            scores, _ = scores_of(pools, task, Measure([metric], deep), [asking([arm])])
        except MemkitError as error:  # an arm that did not run has no score, not even 0
            rows.append({"baseline": name, "note": str(error)})
            continue
        rows.append(_row(name, scores[0, 0], default_scores, task))
    rows.append(_row("words contained", _contained(pools.batches, task, metric, deep), default_scores, task))
    return pa.Table.from_pylist(rows, schema=BASELINES)


def _row(name: str, scores: Floats, default_scores: Floats, task: CheckedTask) -> dict[str, Any]:
    units = task.units(scores - default_scores)
    low, high = interval(units) or (None, None)
    return {"baseline": name, "value": task.units(scores).mean, "difference": units.mean, "low": low, "high": high}


class _Texts:
    """The texts of one corpus, and which of them contain a word as a substring."""

    def __init__(self, search: Any) -> None:
        memories = search.corpus_.memories.select(["memory_id", "title", "text"]).sort_by("memory_id")
        self.ids = memories["memory_id"]
        joined = pc.binary_join_element_wise(memories["title"], memories["text"], "\n")
        self.texts: list[str] = pc.utf8_lower(joined).to_pylist()
        self._matches: dict[str, Mask] = {}

    def __getitem__(self, word: str) -> Mask:
        if word not in self._matches:
            # Python's search takes a third of the time of Arrow's.
            self._matches[word] = np.array([word in text for text in self.texts], bool)
        return self._matches[word]

    def best(self, text: str, visible: Any, depth: int) -> list[str]:
        """The memories that contain the most words of `text`, ties by id."""
        words = set(re.findall(r"\w+", text.lower()))
        count = np.sum([self[word] for word in words] or [np.zeros(len(visible), bool)], axis=0) * visible
        order = np.lexsort((np.arange(len(visible)), -count))[:depth]
        ids: list[str] = self.ids.take(pa.array(order[count[order] > 0])).to_pylist()
        return ids


def _contained(batches: Sequence[Batch], task: CheckedTask, metric: Metric, depth: int) -> Floats:
    """Scores of ranking by the number of different query words that a visible memory contains."""
    corpora: dict[int, _Texts] = {}
    rows: list[tuple[str, str, int]] = []
    for batch in batches:  # those of a hidden field have a corpus of their own, without it
        key = id(batch.search)
        texts = corpora[key] = corpora.get(key) or _Texts(batch.search)
        visible = pc.is_in(texts.ids, value_set=_visible_ids(batch)).to_numpy()
        for query, text in tuples_of(batch.rows, "query_id", "text"):
            rows += [(query, memory, rank) for rank, memory in enumerate(texts.best(text or "", visible, depth), 1)]
    types = (pa.string(), pa.string(), pa.int64())
    columns = [pa.array([row[column] for row in rows], kind) for column, kind in enumerate(types)]
    hits = pa.table([*columns, pa.array(np.zeros(len(rows)))], names=["query_id", "memory_id", "rank", "score"])
    return metric(Judged.from_hits(hits, task.labels, depth))


def _visible_ids(batch: Batch) -> pa.ChunkedArray:
    """Ids of the memories that the batch may see: by `where`, user and moment."""
    search, memories = batch.search, batch.search.corpus_.memories
    if batch.where is not None:
        ids = memories_where(search.corpus_.ask, batch.where)
        memories = memories.filter(pc.is_in(memories["memory_id"], value_set=ids))
    if batch.user_id is not None:
        memories = memories.filter(pa.array(seen_by(batch.user_id, memories)))
    if (until := unseen_from(search, batch.moment)) is not None:
        memories = memories.filter(pa.array(~later(memories["created_at"].to_numpy(), until)))
    return memories["memory_id"]
