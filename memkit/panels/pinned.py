"""What a search panel keeps beside its search: a setting pinned for comparison, and `Refits`, the fits that differ in
what acts at fit, such as the size of chunks.

Settings are compared on labelled queries, on all at rest and on a few while a slider moves. A fit may take long. In a
page it runs in a thread, so that the panel goes on with the fit before; the next one that is wanted ends it. Python
code gets its fit at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import html
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.parallel import heard
from memkit.errors import MemkitError, count_of
from memkit.evaluation.evaluation import CheckedTask, Task, known_mean
from memkit.evaluation.metrics import Pools, parse_metrics
from memkit.evaluation.result import BETTER, OPEN, SAME, WORSE, Verdict, verdict
from memkit.evaluation.scores import Measure, at_query, scores_of
from memkit.panels.page import bars
from memkit.panels.panel import Section
from memkit.schemas import Floats
from memkit.search.retriever import Retriever
from memkit.text.chunk import Chunker

_METRIC, _JUDGED, _DEPTH = "ndcg@10", "judged@10", 100
# Eight questions take some 40 ms, which nobody notices; the others bound the memory.
_FEW, _KEPT, _FITS = 8, 500, 6
"""Queries that are asked while a slider moves; settings whose scores are kept; fits whose candidates are kept."""


@dataclass(frozen=True)
class Strip:
    """A setting against the pinned one on labelled queries: the verdict, and each query's difference.

    Attributes
    ----------
    judged : float or None
        The share of the first ten hits that was judged; None without hits.
    """

    verdict: Verdict
    judged: float | None
    differences: Floats


class PinnedComparison:
    """The scores of settings on labelled queries, each computed once."""

    def __init__(
        self, search_of: Callable[[Section], Retriever], queries: Any, qrels: Any, moment: Any, where: str | None
    ) -> None:
        self.task = Task(None, queries, qrels, as_of=moment, unjudged="apart").read()
        self._search_of, self._moment, self._where = search_of, moment, where
        self._few_queries: CheckedTask | None = None
        self._pools: dict[tuple[bool, int], tuple[Retriever, Pools]] = {}
        self._cached_scores: dict[tuple[bool, str], Floats] = {}
        self._pools_of(self.task, {})  # so that wrong labels are told at once

    def ask_again(self) -> None:
        """Ask all queries again, as the search was fitted on other memories."""
        self._pools.clear()
        self._cached_scores.clear()

    def _pools_of(self, task: CheckedTask, setting: Section) -> Pools:
        """What the search fitted with these values finds for the queries."""
        search = self._search_of(setting)
        key = task is self.task, id(search)
        if key not in self._pools:
            while len(self._pools) >= _FITS:
                del self._pools[next(iter(self._pools))]
            self._pools[key] = search, task.pools(search, self._where)
        return self._pools[key][1]

    def strip(self, live: Section, pinned: Section) -> Strip:
        """The verdict on all queries."""
        now, before = self._scores(live, self.task), self._scores(pinned, self.task)
        result = verdict(self.task.units(now[0] - before[0]), unit=self.task.unit_name)
        return Strip(result, known_mean(now[1]), now[0] - before[0])

    def rough(self, live: Section, pinned: Section) -> tuple[float, int]:
        """The mean difference on an even sample of queries, and the size of the sample."""
        if self._few_queries is None:
            judged = np.flatnonzero(self.task.labels.n_relevant > 0)
            sample = judged[np.unique(np.linspace(0, len(judged) - 1, min(_FEW, len(judged))).astype(int))]
            queries = self.task.queries.take(pa.array(sample))
            self._few_queries = Task(None, queries, self.task.qrels, as_of=self._moment, unjudged="apart").read()
        scores = [self._scores(setting, self._few_queries)[0] for setting in (live, pinned)]
        return float(np.nanmean(scores[0] - scores[1])), len(scores[0])

    def _scores(self, setting: Section, task: CheckedTask) -> Floats:
        key = (task is self._few_queries, repr(sorted(setting.items())))
        if key not in self._cached_scores:
            if len(self._cached_scores) > _KEPT:
                self._cached_scores.clear()
            metrics = parse_metrics(_METRIC if task is self._few_queries else [_METRIC, _JUDGED])
            values = at_query(dict(setting))
            pools, measure = self._pools_of(task, setting), Measure(metrics, _DEPTH)
            self._cached_scores[key] = scores_of(pools, task, measure, [values])[0][:, 0]
        return self._cached_scores[key]

    def relevant(self, query_id: str) -> list[str]:
        """The memories judged relevant to a query, the most relevant first."""
        qrels = self.task.qrels
        rows = qrels.filter(pc.and_(pc.equal(qrels["query_id"], query_id), pc.greater(qrels["relevance"], 0)))
        order = pc.sort_indices(rows, sort_keys=[("relevance", "descending"), ("memory_id", "ascending")])
        ids: list[str] = rows.take(order)["memory_id"].to_pylist()
        return ids

    def as_html(self, live: Section, pinned: Section, is_moving: bool) -> str:
        """The strip as HTML."""
        if not pinned:
            n = self.task.queries.num_rows
            return f"<p>{count_of(n, 'labelled query')}. <b>Pin</b> a setting, to see a verdict on every other.</p>"
        if is_moving:
            difference, n = self.rough(live, pinned)
            n_queries = self.task.queries.num_rows
            so_far = f"{difference:+.3f} on {n} of {count_of(n_queries, 'query')}; on all when the slider rests."
            return f"<p><b>…</b></p><p>{_METRIC} {so_far}</p>"
        strip = self.strip(live, pinned)
        v = strip.verdict
        ends = "" if v.low is None else f" <small>95 % interval {v.low:+.3f} to {v.high:+.3f}</small>"
        gain = f"{_METRIC} {v.gain:+.3f}{ends}".replace("-", "−")
        more = f" {v.more.capitalize()}." if v.more else ""
        reason = f" {html.escape(v.reason[:1].upper() + v.reason[1:])}." if v.reason else ""
        return (
            f"<p>{_AGAINST_PINNED[v.word]}</p><p>{gain}</p>"
            f"<p>{_judged(strip.judged)}{reason}{more}</p>{self._bars(strip)}"
        )

    def _bars(self, strip: Strip) -> str:
        """All labelled queries by their difference, the worst first."""
        order = [
            index for index in np.argsort(strip.differences, kind="stable") if not np.isnan(strip.differences[index])
        ]
        ids, texts = (self.task.queries[name].to_pylist() for name in ("query_id", "text"))
        marks = [(f"query:{ids[index]}", texts[index] or "", float(strip.differences[index])) for index in order]
        return bars("queries by difference, worst first; Enter opens both result lists", marks)


_AGAINST_PINNED = {
    BETTER: "<b>Better</b> than pinned",
    WORSE: "<b>Worse</b> than pinned",
    SAME: "<b>Practically the same</b> as pinned",
    OPEN: "<b>Cannot tell yet</b> whether it is better than pinned",
}


def _judged(share: float | None) -> str:
    return "There are no hits." if share is None else f"{share:.0%} of the first ten hits are judged."


_KEPT_FITS = 2
"""Fits that are kept beside the search's own, so that a step back is shown at once; each holds an index."""
_EVERY_S = 1.0
"""How often is said how far a fit is."""


class _Superseded(Exception):
    """Another fit is wanted."""


class Refits:
    """The fits of a search, by the values that act at fit.

    Parameters
    ----------
    search : Retriever
        Fitted; it stays as it is.
    changed : callable
        Called in the thread of the page: a fit is there, has failed, or is further.

    Attributes
    ----------
    running : str
        How far the fit is that runs; empty where none does.
    """

    def __init__(self, search: Retriever, changed: Callable[[], None]) -> None:
        self._search, self._changed = search, changed
        self._fits = dict[str, Retriever]()
        self._failed = dict[str, str]()
        self._wanted = self.running = ""
        self._last_s: float | None = getattr(search, "fit_seconds_", None)

    def values_of(self, params: Section) -> dict[str, Any]:
        """Those of the values that act at fit, where they are not the search's own."""
        names = (name for name, declared in Retriever.all_params().items() if declared.refit and name in params)
        return {name: params[name] for name in names if params[name] != self._search.value_of(name)}

    def known(self, params: Section) -> str:
        """Whether the fit is "there", has "failed", or neither."""
        key = repr(values := self.values_of(params))
        return "there" if not values or key in self._fits else "failed" if key in self._failed else ""

    def get(self, params: Section) -> Retriever:
        """The fit with these values, made now where it is not there yet.

        Raises
        ------
        MemkitError
            Where it cannot be made.
        """
        values = self.values_of(params)
        if not values:
            return self._search
        key = repr(values)
        if key not in self._fits:
            self.stop()
            self._keep(key, self._fitted(values))
        self._fits[key] = self._fits.pop(key)  # the last one that was asked for
        return self._fits[key]

    def begin(self, params: Section) -> None:
        """Make the fit with these values in a thread; one that runs with others ends.

        Raises
        ------
        MemkitError
            For one that has failed.
        """
        values, loop = self.values_of(params), asyncio.get_running_loop()
        key = repr(values)
        if key in self._failed:
            raise MemkitError(self._failed[key])
        if key != self._wanted:
            self._wanted, self.running = key, f"Fitting anew{self._about()}."
            threading.Thread(target=self._fit_aside, args=(values, loop), name="memkit-refit", daemon=True).start()

    def stop(self, unless: Section | None = None) -> None:
        """End the fit that runs, unless it is that with these values."""
        if unless is None or repr(self.values_of(unless)) != self._wanted:
            self._wanted = self.running = ""

    def forget(self) -> None:
        """Drop all fits: the search was fitted on other memories."""
        self.stop()
        self._fits.clear()
        self._failed.clear()

    def words(self, params: Section) -> str:
        """What a change costs, or has cost."""
        if self.running:
            return self.running
        if self.known(params) == "there" and self.values_of(params):
            fit = self.get(params)
            return f"This fit took {fit.fit_seconds_:.1f} s: {count_of(fit.chunks_.num_rows, 'chunk')}."
        return f"A change is fitted when the slider rests{self._about()}."

    def _about(self) -> str:
        """About how long a fit takes: new texts are encoded, those of a fit before are not."""
        last = self._last_s
        return "" if last is None else f"; the last fit took {last:.1f} s, with many new texts it takes longer"

    def _fitted(self, values: Section) -> Retriever:
        search = copy.copy(self._search).set_params(**values)
        return search.fit(self._search.index_.whole.corpus)

    def _keep(self, key: str, fit: Retriever) -> None:
        self._fits[key], self._last_s = fit, fit.fit_seconds_
        while len(self._fits) > _KEPT_FITS:
            del self._fits[next(iter(self._fits))]

    def _fit_aside(self, values: Section, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: make a fit, and have the page's thread take it."""
        key, begun = repr(values), monotonic()
        said = begun

        def tell(what: str, done: int, total: int | None) -> None:
            nonlocal said
            if self._wanted != key:
                raise _Superseded
            if total and done < total and monotonic() - said > _EVERY_S:
                said = monotonic()
                left = (said - begun) * (total - done) / done
                work = what.partition(" (")[0]  # without the fingerprint of the encoder, which fills two lines
                words = f"Fitting anew: {work}, {done:,} of {total:,}, about {left:.0f} s left."
                loop.call_soon_threadsafe(self._go_on, key, words)

        fit, fault = None, ""
        try:
            with heard(tell):
                fit = self._fitted(values)
        except _Superseded:
            return
        except Exception as error:  # whatever it is has to be told, and here nobody hears it
            fault = str(error) if isinstance(error, MemkitError) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._end, key, fit, fault)

    def _go_on(self, key: str, words: str) -> None:
        if key == self._wanted:
            self.running = words
            self._changed()

    def _end(self, key: str, fit: Retriever | None, fault: str) -> None:
        if key == self._wanted:
            self.stop()
            if fit is None:
                self._failed[key] = fault
            else:
                self._keep(key, fit)
            self._changed()


def check_chunks(search: Retriever, params: Section) -> None:
    """Raise where no text can be cut with these values, before a fit begins.

    Raises
    ------
    ParameterError
    """
    names = "index__chunk_tokens", "index__overlap_tokens"
    chunk, overlap = (params.get(name, search.value_of(name)) for name in names)
    Chunker(chunk_tokens=chunk, overlap_tokens=overlap).check_params()
