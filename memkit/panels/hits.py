"""The panel of search: every parameter of a query, what each hit's score is made of, and whether it is better so."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.display.notebook import shown
from memkit.display.sheet import names_of
from memkit.duck import literal
from memkit.errors import ParameterError
from memkit.evaluate.evaluation import Task
from memkit.evaluate.metrics import parse_metrics
from memkit.evaluate.pools import Pools
from memkit.evaluate.statistics import Verdict, units_needed, verdict
from memkit.panels.panel import ASKED, Action, Panel, called, changed, moment_of
from memkit.panels.parts import paragraph, rows_html
from memkit.panels.state import Section, Session, State
from memkit.params import AsOf, Param
from memkit.schemas import Floats
from memkit.search.question import Question
from memkit.search.reports.explain import explain
from memkit.search.reports.plot import plot_contributions
from memkit.search.reports.tables import hits_table, trace_table
from memkit.search.retriever import Retriever
from memkit.search.settings import QuerySettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PINNED = "pinned"
_METRIC, _DEPTH = "ndcg@10", 100
_NEAR, _STRIP = 8, 40


@dataclass(frozen=True)
class Answer:
    """The hits of a setting, and what belongs to them.

    Attributes
    ----------
    table : pa.Table
        Hits.
    question : Question
    pinned : pa.Table or None
        The hits of the pinned setting.
    why : str
        Of the memory that is asked about.
    """

    table: pa.Table
    question: Question
    pinned: pa.Table | None
    why: str

    @cached_property
    def trace(self) -> pa.Table:
        """The candidates within the pool."""
        return trace_table(self.question, outside=False)


@dataclass(frozen=True)
class Strip:
    """A setting against the pinned one on labelled queries: the verdict, and each query's difference."""

    verdict: Verdict
    needed: int | None
    judged: float
    differences: Floats


class HitsPanel(Panel):
    """Search with every query-time parameter at hand.

    Parameters
    ----------
    search : Retriever
        Fitted.
    query : str
        What is asked first.
    queries, qrels : table, data frame or path, optional
        Labels, as for `mk.evaluate`: with a pinned setting, a verdict follows every change.
    where, user_id, as_of, k
        As for `Retriever.search`; the moment is fixed when the panel is made.
    session : Session, optional
        That of another panel, to share its state.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> panel = HitsPanel(mk.Retriever(encoder=None).fit(corpus), "кофе", as_of="2026-03-01")
    >>> panel.set(query="зелёный чай", k=1)
    >>> panel.result["memory_id"].to_pylist(), panel.undo(), panel.result["memory_id"].to_pylist()
    (['a'], True, ['b'])
    """

    title: ClassVar[str] = "search"
    section: ClassVar[str] = "retriever"
    asks: ClassVar[tuple[str, ...]] = ("query", "where", "user_id", "as_of", "k", "memory_id")
    actions: ClassVar[tuple[Action, ...]] = (("pin", "Pin", "p"), ("unpin", "Unpin", "u"))
    written_as: ClassVar[str] = "retriever"

    def __init__(
        self,
        search: Retriever,
        query: str = "",
        queries: Any = None,
        qrels: Any = None,
        *,
        where: str | None = None,
        user_id: str | None = None,
        as_of: AsOf = None,
        k: int = 10,
        session: Session | None = None,
    ) -> None:
        if (queries is None) != (qrels is None):
            raise ParameterError("panels.search: expected queries and qrels together. Got one of them.")
        self.search = search
        self._question: Question | None = None
        self._strips: dict[State, Strip] = {}
        self._scored: dict[str, Floats] = {}
        moment = moment_of(as_of)
        self.task = None if queries is None else Task.of(queries, qrels, None, None, "apart", moment)
        if self.task is not None:
            self.task.check_known(search)
            self._pools = Pools(search, self.task, parse_metrics(_METRIC), _DEPTH, where)
        asked = {"query": query, "where": where, "user_id": user_id, "as_of": moment, "k": k}
        own = {name: getattr(search, name) for name in QuerySettings.params()}
        super().__init__(own, asked, session)

    @property
    def declared(self) -> Mapping[str, Param]:
        """Every query-time parameter."""
        return QuerySettings.params()

    def _needs(self, state: State) -> Any:
        return (super()._needs(state), repr(sorted(state[PINNED].items())))

    def _answer(self, state: State) -> Answer:
        question = self._ask(state, state[self.section])
        table = hits_table(question)
        pinned = hits_table(self._ask(state, state[PINNED])) if state[PINNED] else None
        asked = state[ASKED]
        why = ""
        if asked["memory_id"]:
            live = self.search.with_params(**state[self.section])
            why = explain(live, asked["query"], asked["memory_id"], asked["k"], _visible(asked), asked["as_of"])
        return Answer(table, question, pinned, why)

    def _ask(self, state: State, params: Section) -> Question:
        """The question under `params`; the arms are asked again only for another text, scope or a larger pool."""
        asked, last = state[ASKED], self._question
        same = last is not None and (last.queries.texts, last.where, last.moment.isoformat(), last.k) == (
            (asked["query"],),
            _visible(asked),
            asked["as_of"],
            asked["k"],
        )
        if last is not None and same:
            try:
                return last.but(**params)
            except ParameterError:
                pass  # the arms have to be asked again; a wrong value is refused there
        live = self.search.with_params(**params)
        self._question = live.ask(asked["query"], asked["k"], _visible(asked), asked["as_of"])
        return self._question

    def _draw(self, answer: Answer, ax: Axes) -> Axes:
        return plot_contributions(answer.trace, ax)

    def _code(self, state: State) -> str:
        asked = state[ASKED]
        other = changed(self.search, state[self.section])
        head = called("search.with_params", **other) if other else "search"
        values = {"k": asked["k"], "where": _visible(asked), "as_of": asked["as_of"]}
        if None in other.values():
            head = f"search.with_params({', '.join(f'{name}={value!r}' for name, value in other.items())})"
        return head + "." + called("search", asked["query"], **values)

    def _status(self, answer: Answer) -> str:
        words = Counter(answer.trace["disposition"].to_pylist())
        found = f"{answer.table.num_rows} hits"
        others = ", ".join(f"{n} {word}" for word, n in words.most_common() if word != "returned")
        undated = self._undated(answer)
        return (
            found
            + (f"; not shown: {others}" if others else "")
            + (f"; without a date: {', '.join(map(str, undated))}" if undated else "")
        )

    def _undated(self, answer: Answer) -> list[int]:
        """The ranks of hits that have no date, so that they do not decay."""
        memories = self.search.corpus_.memories
        place = pc.index_in(answer.table["memory_id"], value_set=memories["memory_id"])
        dates = pc.coalesce(memories["updated_at"], memories["created_at"]).take(place)
        return [
            rank for rank, date in zip(answer.table["rank"].to_pylist(), dates.to_pylist(), strict=True) if date is None
        ]

    def _press(self, action: str) -> None:
        state = self.session.state
        pinned = dict(state[self.section]) if action == "pin" else {}
        self.session.go(State({**state.sections, PINNED: pinned}))

    def _pick(self, row: str) -> None:
        kind, _, name = row.partition(":")
        if kind == "memory":
            self.set(memory_id=name)
        elif kind == "query" and self.task is not None:
            rows = self.task.queries.filter(pc.equal(self.task.queries["query_id"], name)).to_pylist()
            if rows:
                day = rows[0]["as_of"]
                self.set(query=rows[0]["text"], user_id=rows[0]["user_id"], **({"as_of": day} if day else {}))

    # The verdict on labels.

    @property
    def strip(self) -> Strip | None:
        """The setting against the pinned one; None without labels or without a pinned setting."""
        state = self.session.state
        if self.task is None or not state[PINNED]:
            return None
        live, pinned = (self._scores(state[name]) for name in (self.section, PINNED))
        units = self.task.units(live - pinned)
        found = verdict(units)
        judged = float(np.mean(self.task.labels.n_relevant > 0))
        return Strip(found, units_needed(units, found.difference), judged, live - pinned)

    def _scores(self, params: Section) -> Floats:
        key = repr(sorted(params.items()))
        if key not in self._scored:
            self._scored[key] = self._pools.scores([dict(params)])[0][0, 0]
        return self._scored[key]

    # What is below the picture.

    def _body(self, answer: Answer) -> str:
        parts = [self._verdict(), paragraph(answer.why), self._hits(answer), self._near(answer), self._queries()]
        return "".join(parts)

    def _verdict(self) -> str:
        if self.task is None:
            return ""
        strip = self.strip
        if strip is None:
            return paragraph(f"{self.task.queries.num_rows} labelled queries. Pin a setting to compare others with it.")
        v = strip.verdict
        ends = "" if v.low is None else f", 95 % interval {v.low:+.3f} to {v.high:+.3f}"
        more = "" if strip.needed is None else f" About {strip.needed} more users or queries would settle it."
        reason = f" ({v.reason})" if v.reason else ""
        words = f"{_METRIC} {v.difference:+.3f}{ends}{reason}; {strip.judged:.0%} of the queries are judged.{more}"
        return f'<div class="mk"><p><b>{html.escape(v.word)}</b>: {html.escape(words)}</p></div>'

    def _hits(self, answer: Answer) -> str:
        if not answer.table.num_rows:
            note = (answer.table.schema.metadata or {}).get(b"note", b"").decode()
            return paragraph(note or "No hits.")
        live = shown(answer.table)._repr_html_()
        return live if answer.pinned is None else live + self._flow(answer.table, answer.pinned)

    def _flow(self, live: pa.Table, pinned: pa.Table) -> str:
        """Where each hit of either setting stands in both."""
        places = [dict(zip(t["memory_id"].to_pylist(), t["rank"].to_pylist(), strict=True)) for t in (pinned, live)]
        ids = sorted(places[0] | places[1], key=lambda name: (places[1].get(name, 10**9), places[0].get(name, 10**9)))
        titles = self._titles(ids)
        rows = [
            (
                title,
                str(places[0].get(name, "–")),
                str(places[1].get(name, "–")),
                _arrow(*(p.get(name) for p in places)),
            )
            for name, title in zip(ids, titles, strict=True)
        ]
        return rows_html(("pinned and now", "pinned", "now", ""), rows, [f"memory:{name}" for name in ids])

    def _titles(self, ids: list[str]) -> list[str]:
        memories = self.search.corpus_.memories
        names = names_of(memories.filter(pc.is_in(memories["memory_id"], pa.array(ids, pa.string()))))
        return [names[one][0] or one for one in ids]

    def _near(self, answer: Answer) -> str:
        """The best candidates that were not returned, and why: Enter explains one."""
        trace = answer.trace
        left = trace.filter(pc.not_equal(trace["disposition"], "returned"))
        order = pc.sort_indices(left, sort_keys=[("score", "descending"), ("memory_id", "ascending")])
        left = left.take(order[:_NEAR])
        if not left.num_rows:
            return ""
        ids = left["memory_id"].to_pylist()
        titles = self._titles(ids)
        scores = [f"{score:.3f}" if score is not None else "" for score in left["score"].to_pylist()]
        rows = list(zip(titles, scores, left["disposition"].to_pylist(), strict=True))
        return rows_html(("not shown (Enter: why?)", "score", "stage"), rows, [f"memory:{name}" for name in ids])

    def _queries(self) -> str:
        """All labelled queries by their difference to the pinned setting: Enter asks one."""
        strip = self.strip
        if strip is None or self.task is None:
            return ""
        order = [at for at in np.argsort(strip.differences, kind="stable") if not np.isnan(strip.differences[at])]
        ends = [*order[: _STRIP // 2], *order[-_STRIP // 2 :]] if len(order) > _STRIP else order
        ids, texts = (self.task.queries[name].to_pylist() for name in ("query_id", "text"))
        rows = [(texts[at], f"{strip.differences[at]:+.3f}") for at in ends]
        return rows_html(("queries, worst first (Enter: ask)", "difference"), rows, [f"query:{ids[at]}" for at in ends])


def _visible(asked: Section) -> str | None:
    """The predicate of what is asked: `where`, and a user's memories with those of nobody."""
    parts = [f"({asked['where']})"] if asked["where"] else []
    if asked["user_id"]:
        parts.append(f"(user_id is null or user_id = {literal(asked['user_id'])})")
    return " and ".join(parts) or None


def _arrow(before: int | None, now: int | None) -> str:
    if before is None or now is None:
        return "new" if before is None else "gone"
    return "" if before == now else f"▲ {before - now}" if now < before else f"▼ {now - before}"
