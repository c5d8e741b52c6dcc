"""The panel of search: the query-time parameters, the parts of each hit's score, and a verdict on the setting."""

from __future__ import annotations

import asyncio
import html
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Moment, Param, check_fitted, check_value
from memkit.display.draw import table_of
from memkit.display.sheet import sheet_of
from memkit.display.views import IN_WORDS, names_of
from memkit.errors import ParameterError, count_of, did_you_mean
from memkit.evaluation.scores import at_query
from memkit.panels.page import flow, paragraph, rows_html
from memkit.panels.panel import (
    QUERY,
    Action,
    Name,
    Panel,
    Section,
    Session,
    State,
    call_code,
    changed_code,
    changed_values,
    fit_to,
    moment_of,
)
from memkit.panels.pinned import PinnedComparison, Refits, Strip, check_chunks
from memkit.plot.marks import Picture
from memkit.plot.measured import contributions
from memkit.policy.dedup.near import normalise
from memkit.search.ask import STEPS, QuerySettings, Settings, scoping
from memkit.search.question import Question
from memkit.search.retriever import Retriever
from memkit.search.show import explained, hits_table, trace_table
from memkit.search.steps.recall import ARMS, WEIGHTS
from memkit.tables.corpus import Corpus
from memkit.text.secrets import mask

PINNED = "pinned"
_OF_FIT = ("index__chunk_tokens", "index__overlap_tokens")
"""Parameters that act at fit and have a slider."""
_NEAR, _DRAWN = 4, 16
"""Memories that are shown of each stage, and hits that a picture has room for."""
_HEADINGS = re.compile(r"^ {0,3}#{1,6}(?:[ \t].*)?$", re.MULTILINE)


@dataclass(frozen=True)
class SearchAnswer:
    """The hits of a setting, and what belongs to them.

    Attributes
    ----------
    table : pa.Table
        Hits.
    question : Question
    pinned : Question or None
        The same under the pinned setting.
    reasons : callable
        Explains why the memory named is a hit of a question, or not.
    """

    table: pa.Table
    question: Question
    pinned: Question | None
    reasons: Callable[[Question], str]

    @cached_property
    def trace(self) -> pa.Table:
        """The candidates within the pool (num_candidates)."""
        return trace_table(self.question, outside=False)

    @cached_property
    def every(self) -> pa.Table:
        """The candidates, and the memories that filters and the pool left out."""
        return trace_table(self.question)

    @cached_property
    def why(self) -> str:
        """Why the memory named is a hit or not; empty where none is named."""
        return self.reasons(self.question)

    @cached_property
    def why_pinned(self) -> str:
        """The same under the pinned setting."""
        return "" if self.pinned is None else self.reasons(self.pinned)


class SearchPanel(Panel):
    """Search, with a control for every query-time parameter.

    Parameters
    ----------
    search : Retriever
        Fitted.
    query : str
        The first query.
    queries, qrels : table, data frame or path, optional
        Labels, as for `mk.evaluate`: with a pinned setting, a verdict follows every change.
    where, user_id, as_of, k
        As for `Retriever.search`: where a moment is given, what was created later is hidden; else it is now, the same
        now until the folder is read again.
    session : Session, optional
        That of another panel, to share its state.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> panel = SearchPanel(mk.Retriever(encoder=None).fit(corpus), "кофе", as_of="2026-03-01")
    >>> panel.set(query="зелёный чай", k=1)
    >>> panel.result["memory_id"].to_pylist(), panel.undo(), panel.result["memory_id"].to_pylist()
    (['a'], True, ['b'])
    """

    title: ClassVar[str] = "search"
    section: ClassVar[str] = "retriever"
    query_names: ClassVar[tuple[str, ...]] = ("query", "k", "as_of", "user_id", "where", "memory_id")
    actions: ClassVar[tuple[Action, ...]] = (("pin", "Pin", "p"), ("unpin", "Unpin", "u"))
    first: ClassVar[tuple[str, ...]] = (*WEIGHTS, "decay", "decay_days", "decay_kinds", "unit")
    profile_section: ClassVar[str] = "retriever"
    follows: ClassVar[bool] = True

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
        check_value("panels.search", "query", query, "str")
        if (queries is None) != (qrels is None):
            raise ParameterError("panels.search: expected queries and qrels together. Got one of them.")
        check_fitted("panels.search", search)
        self.search = search
        self._fit: Retriever = search  # the fit of it that is on the screen
        self._refits = Refits(search, self._fit_changed)
        self._questions = list[tuple[Retriever, Question]]()
        self._explanations: list[tuple[str, str]] = []
        self.against = None
        if queries is not None:
            self.against = PinnedComparison(self._refits.get, queries, qrels, Moment.from_as_of(as_of), where)
        query_values = {"query": query, "where": where, "user_id": user_id, "as_of": moment_of(as_of), "k": k}
        values = {name: search.value_of(name) for name in self.declared}
        super().__init__(values, query_values, session, search, search.corpus_)

    @property
    def declared(self) -> Mapping[str, Param]:
        """Every query-time parameter, and of those that act at fit the two of chunks, where one index has them all."""
        index, of_fit = self.search.index_, Retriever.all_params()
        can_refit = index.whole is index and index.settings.engine == "local"
        return {**QuerySettings.params(), **({name: of_fit[name] for name in _OF_FIT} if can_refit else {})}

    def _set_corpus(self, corpus: Corpus) -> None:
        fit_to(self.search, corpus)
        self._refits.forget()
        self._fit = self.search
        self._questions.clear()
        if self.against is not None:
            self.against.ask_again()

    def _cache_key(self, state: State) -> Any:
        fit = self._refits.known(state[self.section])
        to_fit = () if fit == "there" or not self.session.may_wait else (fit, self.session.is_moving)
        return (super()._cache_key(state), repr(sorted(state[PINNED].items())), to_fit)

    def _fit_for(self, params: Section) -> Retriever:
        """The search fitted with these values; in a page the one before, while a slider moves and until a fit is there.

        Without an event loop, as in a script, nobody could be told later: the fit is made at once.
        """
        is_due = self._refits.known(params) == "there" or not self.session.may_wait
        if is_due or not (self.session.is_moving or _has_loop()):
            return self._refits.get(params)
        if not self.session.is_moving:
            self._refits.begin(params)
        return self._fit

    @property
    def _listed(self) -> Mapping[str, Any]:
        """As of other panels; what acts at fit where it is not the search's own, which was not set here."""
        changed = self._refits.values_of(self.session.state[self.section])
        return {name: value for name, value in self.values.items() if name not in _OF_FIT or name in changed}

    def _fit_changed(self) -> None:
        with self.session.waiting():
            self.session.notify()

    def _fitted_values(self, params: Section) -> dict[str, Any]:
        """The values, those of the fit that is shown in place of what is not there yet."""
        return {**params, **{name: self._fit.value_of(name) for name in _OF_FIT if name in params}}

    def set(self, **values: Any) -> None:
        """As `Panel.set`; ``memory_id`` may be words of the memory's id, title or text too."""
        if values.get("memory_id"):
            values["memory_id"] = self._named(values["memory_id"])
        super().set(**values)

    def _named(self, words: str) -> str:
        """The memory of that id, else the first whose id, title or text contains these words; else the words."""
        memories = self.search.corpus_.memories
        if pc.index(memories["memory_id"], words).as_py() >= 0:
            return words
        for column in ("memory_id", "title", "text"):
            index = pc.index(pc.match_substring(memories[column], words, ignore_case=True), True).as_py()
            if index >= 0:
                name: str = memories["memory_id"][index].as_py()
                return name
        return words

    def _answer(self, state: State) -> SearchAnswer:
        name = state[QUERY]["memory_id"]
        if name:
            self.search.with_params(**at_query(state[self.section]))  # a wrong value is refused before all else
            self._check_known(name)
        check_chunks(self.search, state[self.section])
        live, pinned = state[self.section], None
        self._refits.stop(unless=live)
        self._fit = self._fit_for(live)
        if state[PINNED]:
            pinned = self._make_question(state, state[PINNED], self._refits.get(state[PINNED]))
        question = self._make_question(state, live, self._fit)
        return SearchAnswer(
            hits_table(question), question, pinned, lambda other: explained(other, name) if name else ""
        )

    def _check_known(self, name: str) -> None:
        memories = self.search.corpus_.memories["memory_id"]
        if pc.index(memories, name).as_py() < 0:
            hint = did_you_mean(name, memories.to_pylist())
            raise ParameterError(f"panels.search: expected the id or words of a memory. Got {name!r}.{hint}")

    def _make_question(self, state: State, params: Section, search: Retriever) -> Question:
        """The question under `params`; arms run again only for another text, scope or arm, or a larger pool."""
        query_values, moment = state[QUERY], self._moment(state)
        last = next((question for fit, question in self._questions if fit is search), None)
        live = wide = search.with_params(**at_query(params))
        if last is not None:
            settings = Settings.from_estimator(live)
            wanted = last.index.weights(settings)
            is_within = settings.pool <= last.retrieved.depth and wanted.keys() <= set(last.retrieved.arms)
            now = (query_values["query"],), *self._scope(state), moment.instant, moment.unseen(settings.future)
            before = last.queries.texts, last.ask.where, last.ask.user_id, last.moment, last.scope.until
            if is_within and _same_scope(last, settings) and now == before:
                return last.under(settings, wanted, query_values["k"])
            arms = {f"{arm}_weight": float(arm in {*wanted, *last.retrieved.arms}) for arm in ARMS}
            wide = live.with_params(**arms, pool=max(settings.pool, last.retrieved.depth))
        where, user_id = self._scope(state)
        asked = wide.ask(query_values["query"], query_values["k"], where=where, as_of=moment, user_id=user_id)
        others = [(fit, question) for fit, question in self._questions if fit is not search]
        self._questions = [*others[-1:], (search, asked)]  # that of the pinned fit is another
        return asked if wide is live else asked.with_params(**at_query(params))

    def _scope(self, state: State) -> tuple[str | None, str | None]:
        """The predicate and the user; None for everything and everybody."""
        return state[QUERY]["where"] or None, state[QUERY]["user_id"] or None

    @property
    def notes(self) -> dict[str, str]:
        """As of other panels; a parameter that acts on nothing here says so."""
        question = self.answer.question
        given = question.settings.idle(question.index)
        days = question.settings.idle(question.index, ["decay_days"]) if question.settings.decay != "none" else {}
        first = _OF_FIT[0]
        of_fit = {first: self._refits.words(self.session.state[self.section])} if first in self.declared else {}
        return {**super().notes, **given, **days, **of_fit}

    @property
    def idle(self) -> Collection[str]:
        """Parameters that act on nothing here, and time-outs."""
        question = self.answer.question
        others = [name for name in QuerySettings.params() if name not in self.first]  # the first are always shown
        reaches = {name: question.settings.reach(name, question.index) for name in others}
        return {name for name, reach in reaches.items() if reach and reach.of and not reach.count}

    @property
    def automatic(self) -> dict[str, float]:
        """The weights that the arms have where they are left to memkit."""
        values, question = self.session.state[self.section], self.answer.question
        weights = question.index.weights(question.settings)
        return {f"{arm}_weight": weights.get(arm, 0.0) for arm in ARMS if values[f"{arm}_weight"] is None}

    def _picture(self, answer: SearchAnswer) -> Picture:
        return contributions(answer.trace, _DRAWN)

    def _code(self, state: State) -> str:
        query, name = state[QUERY], self._name(self.search, "search")
        if self._refits.values_of(state[self.section]):
            head = self._code_of_fit(state, name)
        else:
            head = changed_code(name, changed_values(self.search, at_query(state[self.section])))
        values = zip(("where", "user_id"), self._scope(state), strict=True)
        scope = {name: value for name, value in values if value is not None}
        return f"{head}.{call_code('search', query['query'], k=query['k'], **scope, **self._dated(state))}"

    def _code_of_fit(self, state: State, name: str) -> str:
        """A search with the values of the state, which is fitted anew; objects are those of the search."""
        given, changes, of_index = state[self.section], dict[str, Any](), dict[str, Any]()
        for key, declared in Retriever.all_params().items():
            value = given[key] if key in given else self.search.value_of(key)
            if value not in (declared.default, declared.stands_for or declared.default):
                outer, _, inner = key.partition("__")
                written = value if _is_written(value) else Name(f"{name}.{key.replace('__', '.')}")
                (of_index if inner else changes)[inner or outer] = written
        if of_index:
            changes["index"] = Name(call_code("mk.Index", **of_index))
        return f"{call_code('mk.Retriever', **changes)}.{call_code('fit', self._corpus_name(self.search))}"

    def _status(self, answer: SearchAnswer) -> str:
        running = [self._refits.running.rstrip(".")] if self._refits.running else []
        words = Counter(answer.trace["disposition"].to_pylist())
        hits = count_of(answer.table.num_rows, "hit")
        others = ", ".join(f"{n} {IN_WORDS[word]}" for word, n in words.most_common() if word != "returned")
        undated = self._undated(answer)
        ranks = f"{'hit' if len(undated) == 1 else 'hits'} {', '.join(map(str, undated))}"
        return ". ".join(
            [
                *running,
                hits,
                *([f"Not shown: {others}"] if others else []),
                *([f"Without a date: {ranks}"] if undated else []),
            ]
        )

    def _undated(self, answer: SearchAnswer) -> list[int]:
        """The ranks of hits that have no date, so that they do not decay."""
        hits = answer.table
        rows = self._rows_of(hits["memory_id"]).select(["memory_id", "updated_at", "created_at"])
        undated = {name for name, *dates in zip(*rows.to_pydict().values(), strict=True) if dates == [None, None]}
        pairs = zip(hits["rank"].to_pylist(), hits["memory_id"].to_pylist(), strict=True)
        return [rank for rank, name in pairs if name in undated]

    def _rows_of(self, ids: Any) -> pa.Table:
        """The memories of these ids; a few are looked for among all, as to index all would take longer."""
        memories = self.search.corpus_.memories
        return memories.filter(pc.is_in(memories["memory_id"], value_set=pa.array(ids.to_pylist(), pa.string())))

    def _press(self, action: str) -> None:
        state = self.session.state
        pinned = dict(state[self.section]) if action == "pin" else {}
        self.session.change_to(State({**state.sections, PINNED: pinned}))

    def _pick(self, row: str) -> None:
        kind, _, name = row.partition(":")
        if kind == "memory":
            self.set(memory_id=name)
        elif kind == "query" and self.against is not None:
            rows = self.against.task.queries.filter(pc.equal(self.against.task.queries["query_id"], name)).to_pylist()
            if rows:
                known_ids = self.search.corpus_.memories["memory_id"]
                relevant = [
                    memory_id
                    for memory_id in self.against.relevant(name)
                    if pc.index(known_ids, memory_id).as_py() >= 0
                ]
                day = {"as_of": str(Moment.from_cell(rows[0]["as_of"]))} if rows[0]["as_of"] else {}
                self.set(query=rows[0]["text"], user_id=rows[0]["user_id"], memory_id=next(iter(relevant), None), **day)

    # The verdict on labels.

    @property
    def strip(self) -> Strip | None:
        """The setting against the pinned one; None without labels or without a pinned setting."""
        state = self.session.state
        if self.against is None or not state[PINNED]:
            return None
        return self.against.strip(self._fitted_values(state[self.section]), state[PINNED])

    def _strip(self, answer: SearchAnswer) -> str:
        state = self.session.state
        if self.against is None:
            return ""
        return self.against.as_html(self._fitted_values(state[self.section]), state[PINNED], self.session.is_moving)

    # What is below the picture.

    def _body(self, answer: SearchAnswer) -> str:
        why, name = self._explained(answer), self.session.state[QUERY]["memory_id"]
        below = {f"memory:{name}": why} if why else {}
        hits, suppressed = self._hits(answer, below), self._suppressed(answer, below)
        is_in_a_row = bool(why) and (why in hits or why in suppressed)
        return "".join(["" if is_in_a_row else why, self._compared(answer), hits, suppressed])

    def _explained(self, answer: SearchAnswer) -> str:
        """Why the memory named is a hit or not; while a slider moves, the last such text."""
        if not self.session.is_moving:
            name = self.session.state[QUERY]["memory_id"]
            self._explanations = [(self._titles([name])[name], answer.why)] if name else []
            self._explanations += [("under the pinned setting", answer.why_pinned)] if name and answer.pinned else []
        paragraphs = "".join(
            f"<p><b>{html.escape(mask(head))}</b>: {html.escape(mask(text))}</p>" for head, text in self._explanations
        )
        return f'<div class="mk mkwhy">{paragraphs}</div>' if paragraphs else ""

    def _compared(self, answer: SearchAnswer) -> str:
        """The ranks of the hits under both settings."""
        if answer.pinned is None:
            return ""
        state = self.session.state
        key = repr((dict(state[QUERY]), dict(state[PINNED])))
        pinned = answer.pinned
        before: list[str] = self._once("pinned", key, lambda: hits_table(pinned)["memory_id"].to_pylist())
        now: list[str] = answer.table["memory_id"].to_pylist()
        return flow(before, now, self._titles([*before, *now]))

    def _hits(self, answer: SearchAnswer, below: Mapping[str, str]) -> str:
        sheet = sheet_of(answer.table, max(1, answer.table.num_rows))
        if not answer.table.num_rows:
            note = (answer.table.schema.metadata or {}).get(b"note", b"").decode()
            return paragraph(note.replace(" for query '0':", ":") or "No hits.")
        ids, n_collapsed = (answer.table[name].to_pylist() for name in ("memory_id", "n_alike"))
        undated, words = self._undated(answer), self._words_of_alike(answer.table)
        badge_words = [
            [f"+{n} {words[index]}{'s' * (n > 1)}"] * bool(n) + ["no date"] * (index + 1 in undated)
            for index, n in enumerate(n_collapsed)
        ]
        badges = ["".join(f' <em class="mkbadge">{word}</em>' for word in words) for words in badge_words]
        wide = [index for index, column in enumerate(sheet.columns) if not column.small and column.name != "n_alike"]
        table = table_of(sheet, wide, "hit (Enter: why?)", [f"memory:{name}" for name in ids], badges, below)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in sheet.notes)
        return f'<div class="mk"><p><b>{html.escape(sheet.heading)}</b></p>{notes}{table}</div>'

    def _words_of_alike(self, hits: pa.Table) -> list[str]:
        """What the memories below each hit are to it: equal texts, headings aside, near ones, or some of both."""
        memories, below = self.search.corpus_.memories, hits["alike"].to_pylist()
        wanted = pa.array(sorted({*hits["memory_id"].to_pylist(), *itertools.chain(*filter(None, below))}), pa.string())
        rows = memories.filter(pc.is_in(memories["memory_id"], wanted)) if any(below) else memories.slice(0, 0)
        bodies = normalise([_HEADINGS.sub("", text or "") for text in rows["text"].to_pylist()])
        body_of = dict(zip(rows["memory_id"].to_pylist(), bodies, strict=True))
        words = []
        for memory_id, alike in zip(hits["memory_id"].to_pylist(), below, strict=True):
            same = {body_of.get(other) == body_of.get(memory_id) for other in alike or ()}
            words.append("duplicate" if len(same) > 1 else "exact duplicate" if True in same else "near-duplicate")
        return words

    def _titles(self, ids: list[str]) -> dict[str, str]:
        memories = self.search.corpus_.memories
        names = names_of(memories.filter(pc.is_in(memories["memory_id"], pa.array(ids, pa.string()))))
        return {memory_id: names[memory_id][0] or memory_id if memory_id in names else memory_id for memory_id in ids}

    def _suppressed(self, answer: SearchAnswer, below: Mapping[str, str]) -> str:
        """How many candidates each stage dropped, and the best of them; Enter explains one."""
        trace = answer.trace if self.session.is_moving else answer.every
        counts = Counter(trace["disposition"].to_pylist())
        rows, picks = [], []
        stages = dict[str, pa.Table]()
        for stage in STEPS.dispositions[1:]:
            stage_rows = trace.filter(pc.equal(trace["disposition"], stage))
            order = pc.sort_indices(stage_rows, sort_keys=[("score", "descending"), ("memory_id", "ascending")])
            stages[stage] = stage_rows.take(order[:_NEAR])
        titles = self._titles([name for shown in stages.values() for name in shown["memory_id"].to_pylist()])
        for stage, shown in stages.items():
            scores = zip(shown["memory_id"].to_pylist(), shown["score"].to_pylist(), strict=True)
            for index, (name, score) in enumerate(scores):
                head = f"{IN_WORDS[stage]} ({counts[stage]:,})" if index == 0 else ""
                rows.append((head, titles[name], "" if score is None else f"{score:.3f}"))
                picks.append(f"memory:{name}")
        heads = ("not a hit", "memory (Enter: why?)", "score")
        return rows_html(heads, rows, picks, below) if rows else ""


def _is_written(value: Any) -> bool:
    """Whether Python reads what it writes of the value."""
    return value is None or isinstance(value, (bool, int, float, str, tuple, list, Mapping))


def _has_loop() -> bool:
    """Whether this is the thread of a page, which can be told later."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _same_scope(question: Question, settings: Settings) -> bool:
    return all(getattr(question.settings, name) == getattr(settings, name) for name in scoping())
