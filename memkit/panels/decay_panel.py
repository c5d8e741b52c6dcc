"""Panels of what time does. Decay: the factor of each memory now and on a later day, and which memories fade next.
Records: the confidence of wisdom facts, the success rate of pathways, and the age of both.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Estimator, Moment, Param, check_corpus, check_fitted, estimator, param
from memkit.display.draw import shown
from memkit.display.views import names_of
from memkit.errors import count_of
from memkit.evaluation.evaluation import Task, known_mean
from memkit.evaluation.metrics import parse_metrics
from memkit.evaluation.scores import Measure, scores_of
from memkit.panels.page import paragraph, rows_html
from memkit.panels.panel import QUERY, Action, Panel, Session, State, call_code, fit_to, moment_of
from memkit.plot.marks import COLOURS, MARKS, Axis, Bars, Dots, Mark, Picture, short
from memkit.plot.memories import ages
from memkit.policy.limits import Decay, kinds_note
from memkit.records import rank_pathways, stale_pathways, wisdom_support
from memkit.search.ask import QuerySettings
from memkit.search.retriever import Retriever
from memkit.tables.age import OF_DECAY, factors
from memkit.tables.corpus import Corpus
from memkit.text.secrets import mask

# As in the note of a search.
_FADED = 0.05
"""Below this factor a memory is said to have faded."""
_FARTHEST = 36_500.0
"""A hundred years, in days: what fades later is said not to fade."""
_NEXT = 12
"""Memories that fade next, in the table."""
_STALE = "stale@10"


@dataclass(frozen=True)
class DecayAnswer:
    """Each memory with its age and factor on a day, and the age at which the next ones fade."""

    table: pa.Table
    decay: Decay
    day: datetime
    fades_at: float


class DecayPanel(Panel):
    """The decay factor of each memory of a corpus, now and on later days.

    Parameters
    ----------
    search : Retriever
        Fitted; its parameters of decay are those of the panel.
    queries, qrels : table, data frame or path, optional
        Labels with ``valid_to``: the panel then shows how many of ten hits are stale.
    as_of : str, date or datetime, optional
        The day; by default now.
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import memkit as mk
    >>> rows = {"text": ["a", "b"], "created_at": ["2026-02-01", "2025-02-01"], "kind": ["archive"] * 2}
    >>> panel = DecayPanel(mk.Retriever(encoder=None).fit(mk.from_table(rows)), as_of="2026-02-01")
    >>> panel.set(forward=60)
    >>> panel.result["factor"].to_numpy().round(3).tolist()
    [0.368, 0.001]
    """

    title: ClassVar[str] = "decay"
    section: ClassVar[str] = "retriever"
    query_names: ClassVar[tuple[str, ...]] = ("as_of", "forward")
    actions: ClassVar[tuple[Action, ...]] = (("all", "Every kind decays", "a"),)
    profile_section: ClassVar[str] = "retriever"
    follows: ClassVar[bool] = True

    def __init__(
        self,
        search: Retriever,
        queries: Any = None,
        qrels: Any = None,
        *,
        as_of: AsOf = None,
        session: Session | None = None,
    ) -> None:
        check_fitted("panels.decay", search)
        self.search, moment = search, Moment.from_as_of(as_of)
        self._labelled = None
        self._judged: tuple[Any, pa.Table] | None = None  # the last table, by what its ages and notes rest upon
        task = None if queries is None else Task(None, queries, qrels, as_of=moment, unjudged="apart").read()
        if task is not None and task.qrels["valid_to"].null_count < task.qrels.num_rows:
            self._labelled = task, task.pools(search, None)
        values = {name: getattr(search, name) for name in QuerySettings.params()}
        super().__init__(values, {"as_of": moment_of(as_of)}, session, search, search.corpus_)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters of decay."""
        return {name: QuerySettings.params()[name] for name in OF_DECAY}

    def _set_corpus(self, corpus: Corpus) -> None:
        fit_to(self.search, corpus)
        self._judged = None
        if self._labelled is not None:
            task, _ = self._labelled
            self._labelled = task, task.pools(self.search, None)

    def _cache_key(self, state: State) -> Any:
        query_values = state[QUERY]
        values = (state[self.section][name] for name in OF_DECAY)
        return (query_values["as_of"], query_values["forward"], self.session.is_moving, *values)

    def _decay(self, state: State) -> Decay:
        return Decay(**{name: state[self.section][name] for name in OF_DECAY})

    def _answer(self, state: State) -> DecayAnswer:
        decay, moment = self._decay(state), self._moment(state)
        key = decay.decay_kinds, moment
        if self.session.is_moving and self._judged is not None and self._judged[0] == key:
            table = decay.refactored(self._judged[1])
        else:
            table = decay.transform(self.search.corpus_, as_of=moment)
            self._judged = key, table
        return DecayAnswer(table, decay, moment.instant, _fades_at(decay))

    def _picture(self, answer: DecayAnswer) -> Picture:
        return ages(answer.table, answer.decay, MARKS // 2)  # a dot and a stroke each

    def _code(self, state: State) -> str:
        decay = self._decay(state)
        changes = {name: value for name, value in decay.get_params().items() if value != getattr(Decay(), name)}
        transform = f"{call_code('mk.Decay', **changes)}.transform"
        return call_code(transform, self._corpus_name(self.search), **self._dated(state))

    def _press(self, action: str) -> None:
        self.set(decay_kinds=("*",))

    def _decaying(self, answer: DecayAnswer) -> bool:
        """Whether any memory decays, by the form, its date, its kind and its importance."""
        return answer.decay.decay != "none" and answer.table["note"].null_count > 0

    @property
    def notes(self) -> dict[str, str]:
        """As of other panels; where nothing decays, this is said at decay_days."""
        answer = self.answer
        is_idle = answer.decay.decay != "none" and not self._decaying(answer)
        return super().notes | ({"decay_days": self._nothing_decays(answer)} if is_idle else {})

    def _nothing_decays(self, answer: DecayAnswer) -> str:
        reach = answer.decay.reach("decay_days", self.search.corpus_.memories)
        return "Nothing decays yet: all that may is dated later." if reach and reach.count else f"{reach}."

    def _status(self, answer: DecayAnswer) -> str:
        if not self._decaying(answer):
            return self._nothing_decays(answer)
        factor = answer.table["factor"].to_numpy()
        faded = f"{int((factor < _FADED).sum()):,} of {count_of(len(factor), 'memory')}"
        words = f"{answer.day:%Y-%m-%d}: {faded} keep less than 5 %"
        if self._labelled is None:
            return words
        return f"{words}; {_STALE} {'at rest' if self.session.is_moving else f'{self.stale:.3f}'}"

    @property
    def stale(self) -> float:
        """The mean share of stale memories among ten hits of the labelled queries; NaN without such labels."""
        if self._labelled is None:
            return float("nan")
        setting = {name: self.session.state[self.section][name] for name in OF_DECAY}
        task, pools = self._labelled
        share = known_mean(scores_of(pools, task, Measure(parse_metrics(_STALE), 10), [setting])[0][0, 0])
        return float("nan") if share is None else share

    def _body(self, answer: DecayAnswer) -> str:
        """The memories whose factor falls below 5 % next, and when."""
        if not answer.table.num_rows:
            return paragraph("The corpus holds no memories.")
        if not self._decaying(answer):
            can_switch = "*" not in self.session.state[self.section]["decay_kinds"]
            button = '<p><button type="button" data-do="all">Let every kind decay</button></p>' * can_switch
            return (
                f'<div class="mk"><p>{html.escape(self._nothing_decays(answer))}</p>{button}</div>{self._elsewhere()}'
            )
        named = answer.table.select(["memory_id", "age_days", "factor"])
        table = named.filter(pc.fill_null(pc.equal(answer.table["note"], ""), True))
        age, factor = (table[name].to_numpy(zero_copy_only=False) for name in ("age_days", "factor"))
        if not np.isfinite(answer.fades_at):
            return paragraph("With this form and floor no memory falls below 5 %.")
        days = answer.fades_at - age
        coming = np.flatnonzero((days > 0) & (factor < 1))
        order = coming[np.argsort(days[coming], kind="stable")[:_NEXT]]
        ids = [table["memory_id"][int(index)].as_py() for index in order]
        memories = self.search.corpus_.memories
        names = names_of(memories.filter(pc.is_in(memories["memory_id"], pa.array(ids, pa.string()))))
        rows = [
            (
                names[memory_id][0] or memory_id,
                f"{factor[index]:.2f}",
                f"{answer.day + timedelta(days=float(days[index])):%Y-%m-%d}",
            )
            for memory_id, index in zip(ids, order, strict=True)
        ]
        body = rows_html(("falls below 5 % next", "factor", "on"), rows) if rows else paragraph("Nothing falls next.")
        return body + self._exempt(answer) + self._elsewhere()

    def _elsewhere(self) -> str:
        """A sentence where the policy's own decay_kinds and those of a search let different memories decay."""
        memories = self.search.corpus_.memories
        return self._once("elsewhere", memories, lambda: paragraph(kinds_note(memories)))

    def _exempt(self, answer: DecayAnswer) -> str:
        """A sentence on the memories whose factor stays 1, by their kind or importance."""
        n = pc.sum(pc.equal(answer.table["note"], "exempt")).as_py() or 0
        subject = count_of(n, "memory keeps", "memories keep")
        return paragraph(f"{subject} the factor 1, exempt by kind or importance." if n else "")


def _fades_at(decay: Decay) -> float:
    """The age at which the factor falls below 5 %, by bisection; infinite where it never does."""
    low, high = 0.0, _FARTHEST
    if factors(np.array([high]), decay.decay, decay.decay_days, decay.decay_floor)[0] >= _FADED:
        return float("inf")
    while high - low > 1e-6:  # days, a tenth of a second
        middle = (low + high) / 2
        fades = factors(np.array([middle]), decay.decay, decay.decay_days, decay.decay_floor)[0] < _FADED
        low, high = (low, middle) if fades else (middle, high)
    return high


_MOST = 12
"""The most records that are drawn; the table below has them all."""
_NONE = {"confidence": "wisdom facts", "success_rate": "pathways", "age": "pathways"}


@estimator
class _Values(Estimator):
    """The parameters of the panel."""

    show: str = param(
        "confidence", choices=tuple(_NONE), doc="Support of wisdom facts, success of pathways, or days since their use."
    )
    confidence: float = param(
        0.95,
        low=0.01,
        high=0.999,
        unit="ratio",
        doc="The confidence level of the interval of a success rate.",
    )
    # A guess: a quarter.
    days: float = param(90.0, low=0, unit="days", doc="A pathway unused for longer is stale.")


class RecordsPanel(Panel):
    """Wisdom facts by confidence and support, pathways by success rate, and pathways by the days since their last use.

    Parameters
    ----------
    corpus : Corpus
    show : str
        confidence (`memkit.records.wisdom_support`), success_rate (`memkit.records.rank_pathways`) or age
        (`memkit.records.stale_pathways`; a wisdom fact has no date, so it has no age).
    as_of : str, date or datetime, optional
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.read(mk.sample_data() / "records", as_of="2026-03-01")
    >>> panel = RecordsPanel(corpus, "age", as_of="2026-03-01")
    >>> panel.set(days=30)
    >>> print(panel.code)
    mk.records.stale_pathways(corpus, days=30, as_of='2026-03-01')
    """

    title: ClassVar[str] = "records"
    section: ClassVar[str] = "records"
    query_names: ClassVar[tuple[str, ...]] = ("as_of", "forward")
    follows: ClassVar[bool] = True

    def __init__(
        self, corpus: Corpus, show: str = "confidence", *, as_of: AsOf = None, session: Session | None = None
    ) -> None:
        check_corpus("panels.records", corpus)
        self.corpus = corpus
        super().__init__(_Values(show=show).check_params(), {"as_of": moment_of(as_of)}, session, corpus)

    @property
    def declared(self) -> Mapping[str, Param]:
        """What is shown, and the two limits."""
        return _Values.params()

    def spec(self) -> dict[str, Any]:
        """As `Panel.spec`; no profile, as nothing here is tuned."""
        return {**super().spec(), "profile": False}

    def _set_corpus(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def _answer(self, state: State) -> pa.Table:
        values = state[self.section]
        if values["show"] == "confidence":
            return wisdom_support(self.corpus)
        if values["show"] == "success_rate":
            return rank_pathways(self.corpus, values["confidence"])
        return stale_pathways(self.corpus, self._moment(state), values["days"])

    def _code(self, state: State) -> str:
        values, corpus = state[self.section], self._name(self.corpus, "corpus")
        if values["show"] == "confidence":
            return call_code("mk.records.wisdom_support", corpus)
        if values["show"] == "success_rate":
            return call_code("mk.records.rank_pathways", corpus, confidence=values["confidence"])
        return call_code("mk.records.stale_pathways", corpus, days=values["days"], **self._dated(state))

    def _picture(self, answer: pa.Table) -> Picture:
        show = self.session.state[self.section]["show"]
        rows = answer.slice(0, _MOST).to_pylist()
        names = [short(mask(str(row.get("fact_id") or row.get("id") or row["memory_id"]))) for row in rows]
        columns = {"confidence": "confidence", "success_rate": "success_rate", "age": "idle_days"}
        values = np.array([row[columns[show]] for row in rows], float)  # NaN where there is none
        place, known = np.arange(len(rows)), np.isfinite(values)
        marks = list[Mark]()
        if show == "success_rate":
            low, high = (np.array([row[name] for row in rows], float) for name in ("low", "high"))
            bounded = np.isfinite(low)
            marks.append(
                Bars(low[bounded], high[bounded], place[bounded] - 0.2, place[bounded] + 0.2, COLOURS[0], "interval")
            )
            marks.append(Dots(values[known], place[known], COLOURS[1], "success rate"))
        else:
            stale = np.array([bool(row.get("stale")) for row in rows], bool)
            for chosen, colour, label in ((known & ~stale, COLOURS[0], ""), (known & stale, COLOURS[1], "stale")):
                if chosen.any():
                    marks.append(Bars(0, values[chosen], place[chosen] - 0.4, place[chosen] + 0.4, colour, label))
        # A twentieth of room above the highest mark, here and in other pictures.
        top = 1.05 * (1.0 if show != "age" else max(values[known].max(initial=0), 1.0))
        label = {"confidence": "confidence", "success_rate": "success rate", "age": "days since the last use"}[show]
        down = Axis(max(len(rows), 4) - 0.5, -0.5, ticks=list(enumerate(names)))  # no thick bars
        words = [
            (name, f"{value:.3g}" if np.isfinite(value) else "none") for name, value in zip(names, values, strict=True)
        ]
        part = f", the first {len(rows)} drawn" if len(rows) < answer.num_rows else ""
        title = f"{answer.num_rows:,} {_NONE[show]}{part}"
        return Picture(title, marks, Axis(0, top, label), down, words, "" if rows else f"no {_NONE[show]}")

    def _status(self, answer: pa.Table) -> str:
        show = self.session.state[self.section]["show"]
        status = f"{answer.num_rows:,} {_NONE[show]}"
        if show == "age":
            day = f"{self._moment(self.session.state).instant:%Y-%m-%d}"
            n_dateless = pc.sum(pc.equal(self.corpus.memories["kind"], "wisdom_fact")).as_py() or 0
            facts = count_of(n_dateless, "wisdom fact")
            others = f"; {facts} without an age, as its format has no date" if n_dateless else ""
            return f"{status}, {pc.sum(answer['stale']).as_py() or 0:,} stale on {day}{others}"
        return status

    def _body(self, answer: pa.Table) -> str:
        if not answer.num_rows:
            return paragraph(f"The corpus holds no {_NONE[self.session.state[self.section]['show']]}.")
        return shown(answer)._repr_html_()
