"""The panel of records: the confidence of wisdom facts, the success rate of pathways, and the age of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Estimator, Param, check_corpus, estimator, param
from memkit.display.notebook import shown
from memkit.errors import count_of
from memkit.panels.page import paragraph
from memkit.panels.panel import Panel, Session, State, call_code, moment_of
from memkit.plot.marks import COLOURS, Axis, Bars, Dots, Mark, Picture, short
from memkit.records import rank_pathways, stale_pathways, wisdom_support
from memkit.tables.corpus import Corpus
from memkit.text.secrets import mask

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
