"""Panels of labels. Judging: one memory at a time, without its score and in random order. A sweep: a point for each
setting that was scored on labels, and arrow keys to go from one to the next.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.duck import literal
from memkit.base.params import AsOf, Moment, Param, check_fitted, check_value, current_names, describe
from memkit.display.draw import marks
from memkit.display.sheet import Cell
from memkit.errors import MemkitError, ParameterError, count_of
from memkit.evaluation.compare import Pair
from memkit.evaluation.evaluation import Task
from memkit.evaluation.known_items import known_items
from memkit.evaluation.labels import QRELS, as_arrow_table, grades_of, read_qrels, read_queries
from memkit.evaluation.metrics import LabelledQueries, Metric, Pools, hits_of_both
from memkit.evaluation.statistics import Contest, plateau
from memkit.evaluation.sweep import Sweep
from memkit.panels.dedup_panel import labels_and_file, save
from memkit.panels.page import paragraph, rows_html
from memkit.panels.panel import Action, Name, Panel, Session, State, call_code
from memkit.plot.marks import Picture
from memkit.plot.measured import axis_values, best_first, named_setting, places_on, surface_of
from memkit.plot.memories import counts
from memkit.schemas import Ints, present
from memkit.search.retriever import Retriever
from memkit.text.secrets import Mask

_SHORT, _LONGEST = 600, 20_000
"""Characters of a text that is read whole, so that no chunk of it is looked for; and of what is shown of any text."""
_PLACES = 10
"""The places of ndcg@10, by which it is told which hits could change the verdict."""


# A guess: a quarter of an hour of judging.
KNOWN = 60
"""How many known items are asked about where no labels are given."""


class JudgePanel(Panel):
    """Relevance of hits, judged without seeing which search found them and at which rank.

    Parameters
    ----------
    search : Retriever
        Fitted.
    queries : table, data frame or path, optional
        As for `mk.evaluate`; none: known items of the corpus, with the answer that each has.
    qrels : table, data frame or path, optional
        Judgements to start from. A path to Parquet is written after each judgement, in one step; another file is only
        read.
    other : Retriever, optional
        Compared with `search`: the hits that could change the verdict come first, and a button opens exactly these.
    first : table, optional
        query_id and memory_id of pairs to be judged before all others, such as ``to_judge`` of `mk.compare` or
        ``to_judge_`` of `mk.tune`; the panel opens with exactly these.
    k : int
        How many hits of each search are judged.
    beside : table, data frame or path, optional
        Judgements of another judge: the panel shows how far both agree, but not on which memories.
    as_of : str, date or datetime, optional
    random_state : int
        For the order.
    grades : int, optional
        How many grades there are: 2 for not relevant and relevant, 3 or 4 for finer ones. It is kept with the
        judgements. By default the scale of the labels given; where none is kept with them, 2 if they are 0 and 1
        alone. Without labels there are 4.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> panel = JudgePanel(mk.Retriever(encoder=None).fit(corpus), {"query_id": ["q"], "text": ["чай"]})
    >>> panel.press("2")
    >>> panel.result["relevance"].to_pylist(), panel.looks, panel.grades
    ([2.0], 1, 4)
    """

    title: ClassVar[str] = "judge"
    section: ClassVar[str] = "judge"
    actions: ClassVar[tuple[Action, ...]] = (("skip", "Skip", "s"), ("back", "Take back", "b"))
    body_first: ClassVar[bool] = True
    common: ClassVar[tuple[Action, ...]] = ()  # nothing is set here

    @current_names
    def __init__(
        self,
        search: Retriever,
        queries: Any = None,
        qrels: Any = None,
        *,
        other: Retriever | None = None,
        first: Any = None,
        k: int = 10,
        beside: Any = None,
        as_of: AsOf = None,
        random_state: int = 0,
        grades: int | None = None,
        session: Session | None = None,
    ) -> None:
        for each in (search,) if other is None else (search, other):
            check_fitted("panels.judge", each)
            each.encode()
        known_answers = None
        if queries is None:
            queries, answers = known_items(search.corpus_, KNOWN)
            known_answers = answers if qrels is None else None
            qrels = answers if qrels is None else qrels
        self.search, self.queries = search, read_queries(queries)
        judged, self._path = labels_and_file(qrels)
        known = QRELS.empty_table() if judged is None else read_qrels(judged)
        self._known_qrels = known.select(present(known, QRELS.names))
        self.grades, self._guessed = _scale(known, grades)
        keys = tuple((str(grade), word, str(grade)) for grade, word in enumerate(_WORDS[self.grades]))
        self.actions = (*keys, *type(self).actions)  # type: ignore[misc]  # of this scale
        self._given, self._judged_rows = judged, list[dict[str, Any]]()
        self._other_judge = None if beside is None else read_qrels(beside)
        self.looks, self._moment_judged = 0, Moment.from_as_of(as_of)
        self._decisive = set() if first is None else _pairs(as_arrow_table(first, "first"))
        known = None if judged is None else self._known_qrels
        self._queue = self._ordered(other, k, self._moment_judged, known, random_state)
        self._only_decisive = first is not None
        if self._decisive:
            button = ("decisive", f"Judge these {len(self._decisive):,} first", "f")
            self.actions = (*self.actions, button)  # type: ignore[misc]  # the number is known now
        super().__init__({}, {}, session, search, search.corpus_, qrels)
        if known_answers is not None:
            self.session.call(known_answers, f"mk.known_items({self._corpus_name(search)}, {KNOWN})[1]")

    @property
    def declared(self) -> Mapping[str, Param]:
        """No parameters: a judge sees neither settings nor scores."""
        return {}

    def _ordered(
        self, other: Retriever | None, k: int, moment: Moment, qrels: pa.Table | None, seed: int
    ) -> list[tuple[str, str]]:
        """The pairs to judge: those that could change the verdict first, the others shuffled."""
        labelled = LabelledQueries(self.queries, qrels, moment)
        both = (Pools(self.search, labelled).hits,) if other is None else hits_of_both(self.search, other, labelled)
        pairs_found: list[tuple[str, str]] = []
        for hits_of in both:
            hits = hits_of(k, check=False)
            pairs_found += zip(hits["query_id"].to_pylist(), hits["memory_id"].to_pylist(), strict=True)
        # Sorted, so that the seed alone decides; then shuffled, so that no rank sways the judge.
        pairs = sorted(set(pairs_found))
        order = np.random.default_rng(seed).permutation(len(pairs))
        queue = [pairs[index] for index in order]
        if other is not None and self._known_qrels.num_rows:
            with suppress(ParameterError):  # where nothing relevant is known yet, there is no verdict that could change
                task = Task(None, self.queries, self._known_qrels, as_of=moment, unjudged="apart").read()
                task.check_known(self.search)
                first_hits, other_hits = (hits_of(_PLACES) for hits_of in both)
                self._decisive |= _pairs(
                    Pair(task, first_hits, other_hits, _PLACES).first_to_judge(Metric("ndcg", _PLACES))
                )
        judged = _pairs(self._known_qrels)
        self._decisive -= judged
        others = [pair for pair in queue if pair not in self._decisive]
        return [pair for pair in (*sorted(self._decisive), *others) if pair not in judged]

    def _cache_key(self, state: State) -> Any:
        return (len(self._judged_rows), self.looks, len(self._queue), self._only_decisive)

    def _answer(self, state: State) -> pa.Table:
        judged = pa.Table.from_pylist(self._judged_rows, schema=pa.schema([QRELS.field(name) for name in _JUDGED]))
        return describe(pa.concat_tables([self._known_qrels, judged], promote_options="default"), grades=self.grades)

    @property
    def pair(self) -> tuple[str, str] | None:
        """The query and the memory that are to be judged now; None where all are."""
        return next(iter(self._waiting), None)

    @property
    def _waiting(self) -> list[tuple[str, str]]:
        """The pairs to judge: all, or those alone that could change the verdict."""
        return [pair for pair in self._queue if pair in self._decisive] if self._only_decisive else self._queue

    def _press(self, action: str) -> None:
        if action == "decisive":
            self._only_decisive = not self._only_decisive
            return
        self.looks += 1
        if action == "back":
            if self._judged_rows:
                last = self._judged_rows.pop()
                self._queue.insert(0, (last["query_id"], last["memory_id"]))
        elif self.pair is not None:
            query_id, memory_id = self.pair
            self._queue.remove(self.pair)
            if action == "skip":
                self._queue.append((query_id, memory_id))
            else:
                self._judged_rows.append({"query_id": query_id, "memory_id": memory_id, "relevance": int(action)})
        if self._path is not None:
            save(self.result, self._path)

    def undo(self) -> bool:
        """Take the last judgement back."""
        has_judged = bool(self._judged_rows)
        self._act_and_notify(self._press, "back")
        return has_judged

    def agreement(self, qrels: Any) -> float:
        """Cohen's kappa with another judge, on relevant or not, over what both judged.

        Raises
        ------
        ParameterError
            Where they judged nothing in common.
        """
        other_grades = _grades(read_qrels(qrels))
        grades = _grades(self.result)
        both = [(grades[pair] > 0, other_grades[pair] > 0) for pair in grades if pair in other_grades]
        if not both:
            raise ParameterError("agreement: expected pairs that both judged. Got none.")
        a, b = np.array(both).T
        by_chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
        return 1.0 if by_chance == 1 else float(((a == b).mean() - by_chance) / (1 - by_chance))

    def _picture(self, answer: pa.Table) -> Picture:
        counted = {row["values"]: row["counts"] for row in pc.value_counts(answer["relevance"]).to_pylist()}
        grades = [(label, counted.get(int(name), 0)) for name, label, _ in self.actions if name.isdigit()]
        return counts(grades, f"{answer.num_rows:,} judged, {len(self._waiting):,} to go", "judgements")

    def _code(self, state: State) -> str:
        if self._path is not None and self._path.exists():
            return call_code("mk.labels.read_qrels", str(self._path))
        path = self._given if isinstance(self._given, (str, Path)) else None
        name = Name(self.session.name_of(self._given, "" if path is None else repr(str(path))))
        rows = self.answer.slice(self._known_qrels.num_rows if name else 0).to_pylist()
        after = {"after": name} if name else {}
        return call_code("mk.labels.judgements", [_plain(row) for row in rows], grades=self.grades, **after)

    def _status(self, answer: pa.Table) -> str:
        words = f"{answer.num_rows:,} judged, {len(self._waiting):,} to go,"
        words += f" {count_of(self.looks, 'decision')} in this session"
        if self._path is not None:
            words += f"; kept in {self._path.name}"
        if self._other_judge is not None:
            other_grades, grades = _grades(self._other_judge), _grades(answer)
            n = len(other_grades.keys() & grades.keys())
            words += (
                f"; agreement (kappa) on {n} {self.agreement(self._other_judge):.2f}" if n else "; no agreement yet"
            )
        return words

    def _body(self, answer: pa.Table) -> str:
        if self.pair is None:
            empty = not self.queries.num_rows or not self.search.corpus_.memories.num_rows
            if self._only_decisive and self._queue:
                return paragraph(f"These {len(self._decisive):,} are judged: compare again, or press f for the others.")
            return paragraph(_NOTHING if empty else "All hits are judged.")
        query_id, memory_id = self.pair
        query = self.queries.filter(pc.equal(self.queries["query_id"], query_id))["text"][0].as_py()
        memories = self.search.corpus_.memories
        row = memories.filter(pc.equal(memories["memory_id"], memory_id)).select(_SEEN).to_pylist()[0]
        hide = Mask([query, *(str(row[name]) for name in ("title", "text", "path"))])
        title = marks(Cell(hide(row["title"] or "")[:_LONGEST], query=query))
        head = f"<p><b>{title}</b></p>" if row["title"] and row["title"] not in (row["text"] or "") else ""
        text = _with_chunk(hide(row["text"] or "")[:_LONGEST], hide(self._chunk(query, memory_id, row["text"])), query)
        n_left, total = len(self._waiting), len(self._decisive) if self._only_decisive else len(self._queue)
        done = total - n_left if self._only_decisive else len(self._judged_rows)
        counter = f"{done + 1:,} of {done + n_left:,}" + " that could change the verdict" * self._only_decisive
        return (
            f'<div class="mk"><p>query: <b class="mkasked">{html.escape(hide(query))}</b> <small>{counter}</small></p>'
            f"<p><small>{html.escape(hide(_place(row)))}</small></p>"
            f'<div class="mkjudged" tabindex="0" role="region" aria-label="the memory">{head}'
            f'<p style="white-space:pre-wrap">{text}</p></div><p><small>{html.escape(self._keys())}</small></p></div>'
        )

    def _keys(self) -> str:
        grades = ", ".join(f"{grade} {word[0].lower()}{word[1:]}" for grade, word in enumerate(_WORDS[self.grades]))
        said = f" {_GUESSED}" if self._guessed else ""
        return f"Keys: {grades}; s skips, b takes back.{said}"

    def _chunk(self, query: str, memory_id: str, text: str | None) -> str:
        """The chunk of a long memory that the query finds."""
        if len(text or "") <= _SHORT:
            return ""
        with suppress(MemkitError):
            hits = self.search.search(query, 1, where=f"memory_id = {literal(memory_id)}", as_of=self._moment_judged)
            return next(iter(hits["text"].to_pylist()), None) or ""
        return ""


def _with_chunk(text: str, chunk: str, query: str) -> str:
    """A text as HTML with the words of the query marked; the page scrolls to the chunk that was found."""
    start = text.find(chunk) if chunk else -1
    if start <= 0:
        return marks(Cell(text, query=query))
    pieces = text[:start], chunk, text[start + len(chunk) :]
    before, marked, after = (marks(Cell(piece, query=query)) for piece in pieces)
    return f"{before}<span data-scroll>{marked}</span>{after}"


def _plain(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A judgement as code can say it: numbers and texts, the times of an answer only where they are known."""
    query_id, memory_id, relevance, *times = row.values()
    whole = int(relevance) if relevance == int(relevance) else relevance
    texts = [None if moment is None else moment.isoformat() for moment in times]
    return (query_id, memory_id, whole, *(texts if any(texts) else ()))


def _pairs(table: pa.Table) -> set[tuple[str, str]]:
    return set(zip(table["query_id"].to_pylist(), table["memory_id"].to_pylist(), strict=True))


def _scale(labels: pa.Table, wanted: int | None) -> tuple[int, bool]:
    """The number of grades, and whether it was guessed: from labels of 0 and 1 whose scale nobody kept."""
    check_value("panels.judge", "grades", wanted, "int", low=min(_WORDS), high=max(_WORDS), nullable=True)
    kept, relevances = grades_of(labels), set(labels["relevance"].to_pylist())
    if kept is not None and wanted not in (None, kept):
        raise ParameterError(f"panels.judge: expected grades={kept}, by which the labels were judged. Got {wanted}.")
    scale = kept if wanted is None else wanted
    if scale is None:
        is_guessed = bool(relevances) and relevances <= {0, 1}
        return (2 if is_guessed else max(_WORDS)), is_guessed
    most = max(relevances, default=0)
    if scale not in _WORDS or most > scale - 1:
        raise ParameterError(
            f"panels.judge: expected 2 to {max(_WORDS)} grades, and labels of 0 to one less. Got {scale} grades, and"
            f" labels up to {most:g}."
        )
    return scale, False


def _place(row: Mapping[str, Any]) -> str:
    """Where a memory stands, and its date."""
    lines = "" if row["line_start"] is None else f", line {row['line_start']:,}"
    moment = row["updated_at"] or row["created_at"]
    place = f"{row['path']}{lines}" if row["path"] else ""
    return " · ".join(word for word in (place, f"{moment:%Y-%m-%d}" if moment else "no date") if word)


_SEEN = ["title", "text", "path", "line_start", "created_at", "updated_at"]
_WORDS = {
    2: ("Not relevant", "Relevant"),
    3: ("Not relevant", "Related", "Relevant"),
    4: ("Not relevant", "Related", "Relevant", "The answer"),
}
"""What the grades are called, by how many there are."""
_GUESSED = (
    "There are two grades, since the labels given are 0 and 1 alone and no scale is kept with them; grades=4 has four."
)
_NOTHING = "There is nothing to judge: expected labelled queries and a corpus with memories."
_JUDGED = ("query_id", "memory_id", "relevance")


def _grades(qrels: pa.Table) -> dict[tuple[str, str], int]:
    return {(row["query_id"], row["memory_id"]): row["relevance"] for row in qrels.select(list(_JUDGED)).to_pylist()}


_BEST, _NEXT = 8, 1e-9
"""Settings that are listed; the least step to a next one, as the place of a value between two is interpolated."""
_WALK = {"left": (0, -1), "right": (0, 1), "down": (1, -1), "up": (1, 1)}


class SurfacePanel(Panel):
    """The scores of a sweep over two of its parameters.

    Parameters
    ----------
    sweep : Sweep
        Of one varied parameter or more; the first two are the axes, values of the others stay as they are.
    session : Session, optional
        That of a search panel: walking moves its sliders.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"]})
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["b"], "relevance": [1]}
    >>> panel = SurfacePanel(mk.sweep(search, queries, qrels, {"min_score": [0, 0.5, 0.9]}))
    >>> panel.press("right")
    >>> panel.params
    {'min_score': 0.5}
    """

    title: ClassVar[str] = "surface"
    section: ClassVar[str] = "retriever"
    actions: ClassVar[tuple[Action, ...]] = (
        ("left", "←", "ArrowLeft"),
        ("right", "→", "ArrowRight"),
        ("up", "↑", "ArrowUp"),
        ("down", "↓", "ArrowDown"),
        ("best", "Best", "b"),
    )
    profile_section: ClassVar[str] = "retriever"

    def __init__(self, sweep: Sweep, *, session: Session | None = None) -> None:
        if not isinstance(sweep, Sweep):
            raise ParameterError(f"panels.surface: expected what mk.sweep returns. Got {type(sweep).__name__}.")
        self.sweep = sweep
        self.names = list(sweep.settings[0])
        if not self.names:
            raise ParameterError("panels.surface: expected a sweep over some parameter. Got one setting.")
        super().__init__(sweep.settings[sweep.default], {}, session, sweep)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters that the sweep varied."""
        return {name: Retriever.all_params()[name] for name in self.names}

    def _cache_key(self, state: State) -> Any:
        return repr([state[self.section].get(name) for name in self.names])

    @property
    def current_index(self) -> int | None:
        """The index of the current setting; None where it was not evaluated."""
        params = self.params
        return self.sweep.settings.index(params) if params in self.sweep.settings else None

    def _answer(self, state: State) -> pa.Table:
        return pa.table(self.sweep.table.columns, schema=self.sweep.table.schema)  # one a state: each is drawn

    def _code(self, state: State) -> str:
        return f"{self._name(self.sweep, 'sweep')}.table"

    def _status(self, answer: pa.Table) -> str:
        metric, index = self.sweep.metrics[0], self.current_index
        if index is None:
            return "this setting was not tried"
        means = self.sweep.table[metric].to_numpy()
        default, best = means[self.sweep.default], means[self.sweep.best]
        return f"{metric} {means[index]:.3f} here, {default:.3f} with the search's own setting, {best:.3f} at best"

    @property
    def automatic(self) -> dict[str, float]:
        """The weights that memkit chooses where they are left to it, in the search's own setting."""
        return {name: value for name, value in self.sweep.automatic.items() if self.params[name] is None}

    def _press(self, action: str) -> None:
        if action == "best":
            self.set(**self.sweep.settings[self.sweep.best])
            return
        axis, by = _WALK[action]
        if axis < len(self._places) and (index := self._next(axis, by)) is not None:
            self.set(**self.sweep.settings[index])

    def _next(self, axis: int, by: int) -> int | None:
        """The nearest evaluated setting in a direction; other parameters stay as they are where such a one is."""
        current = [self._position(name) for name in self.names[:2]]
        if None in current:
            return None
        distances = [places - float(position or 0) for places, position in zip(self._places, current, strict=True)]
        steps, params, others = by * distances[axis], self.params, self.names[2:]
        aside = np.abs(distances[1 - axis]) if len(distances) > 1 else steps
        differing = np.array([sum(setting[name] != params[name] for name in others) for setting in self.sweep.settings])
        order = np.lexsort((steps, aside, differing))
        return next((int(index) for index in order if steps[index] > _NEXT), None)

    def _position(self, name: str) -> float | None:
        """The place of the current value along an axis, between two values where it was not tried itself."""
        values, now = axis_values(self.sweep, name), self.params[name]
        now = self.sweep.automatic.get(name) if now is None else now
        if now in values:
            return values.index(now)
        if now is None or not all(isinstance(value, (int, float)) for value in (now, *values)):
            return None
        return float(np.interp(now, values, range(len(values))))

    def _pick(self, row: str) -> None:
        self.set(**self.sweep.settings[int(row)])

    @cached_property
    def plateau(self) -> NDArray[np.bool_]:
        """Which settings cannot be told from the best, as in `mk.tune`; none where that cannot be computed."""
        task, scores = self.sweep.task, self.sweep.matrix() * Metric.parse(self.sweep.metrics[0]).sign
        try:
            return plateau(Contest.from_scores(scores, task.unit, self.sweep.default, task.per_query))
        except ParameterError:
            return np.zeros(len(self.sweep.settings), bool)

    @cached_property
    def _places(self) -> list[Ints]:
        """Where each setting stands along the first two parameters."""
        return [places_on(self.sweep, name) for name in self.names[:2]]

    def _picture(self, answer: pa.Table) -> Picture:
        """As `mk.plot.surface` draws it, with the current setting marked."""
        marked = {"as it is": self.sweep.default, "best": self.sweep.best}
        if self.current_index is not None:
            marked["here"] = self.current_index
        picture = surface_of(self.sweep, self.names[:2], self.sweep.metrics[0], self.plateau, marked)
        return replace(picture, rows=[("here", self._status(answer)), *picture.rows])

    def _body(self, answer: pa.Table) -> str:
        metric = self.sweep.metrics[0]
        means, first = self.sweep.table[metric].to_numpy(), best_first(self.sweep, metric)[:_BEST]
        near = ["yes" if is_near else "" for is_near in self.plateau]
        rows = [(f"{means[at]:.3f}", near[at], named_setting(self.sweep, at, self.names)) for at in first]
        heads = (metric, "plateau", "best settings (Enter: go there); plateau: cannot be told from the best")
        return rows_html(heads, rows, [str(at) for at in first])
