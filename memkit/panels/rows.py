"""The panel of policies: one policy over the corpus or over a typed text, on any day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from memkit.panels.panel import ASKED, Panel, called, moment_of
from memkit.panels.state import Session, State
from memkit.params import AsOf, Param
from memkit.pictures import plot_reasons
from memkit.policy.catalogue import POLICIES, policy_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from memkit.tables.corpus import Corpus
    from memkit.tables.statement import Annotator

POLICY_NAMES = tuple(name for name in POLICIES if name not in ("deduplicator", "index_check", "split_plan"))
"""The policies that judge row by row and need no fit."""


class RowsPanel(Panel):
    """A policy's verdict on each memory.

    Parameters
    ----------
    corpus : Corpus
    policy : str
        One of admission, classifier, quota, expiry, decay; another panel for another one.
    text : str
        Judged in place of the corpus, where it is given.
    as_of : str, date or datetime, optional
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import memkit as mk
    >>> panel = RowsPanel(mk.from_table({"text": ["Как настроить пул?", "Любит чай."]}), as_of="2026-03-01")
    >>> panel.result["reason"].to_pylist()
    ['question', 'length']
    >>> panel.set(text="Каждое утро пьёт зелёный чай без сахара.")
    >>> panel.result["keep"].to_pylist()
    [True]
    """

    asks: ClassVar[tuple[str, ...]] = ("text", "as_of", "forward")

    def __init__(
        self,
        corpus: Corpus,
        policy: str = "admission",
        *,
        text: str = "",
        as_of: AsOf = None,
        session: Session | None = None,
    ) -> None:
        self.corpus = corpus
        self.policy: type[Annotator] = policy_class(policy)
        self.title = self.section = self.policy.name  # type: ignore[misc]  # one panel a policy
        own = {name: getattr(self.policy(), name) for name in self.declared}
        super().__init__(own, {"text": text, "as_of": moment_of(as_of)}, session)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The policy's own."""
        return {name: p for name, p in self.policy.params().items() if p.kind not in ("object", "callable")}

    def _set(self, state: State) -> Annotator:
        return self.policy(**state[self.section])

    def _answer(self, state: State) -> pa.Table:
        text = state[ASKED]["text"]
        judged: Any = pa.table({"text": [text]}) if text else self.corpus
        return self._set(state).transform(judged, as_of=state.moment)

    def _draw(self, answer: pa.Table, ax: Axes) -> Axes:
        return plot_reasons(answer, ax)

    def _code(self, state: State) -> str:
        usual, own = self.policy(), self._set(state).get_params()
        other = {name: value for name, value in own.items() if value != getattr(usual, name) and value is not None}
        text = state[ASKED]["text"]
        judged = f"pa.table({{'text': [{text!r}]}})" if text else "corpus"
        return (
            f"{called(f'mk.{self.policy.__name__}', **other)}.transform({judged}, as_of={state.moment.isoformat()!r})"
        )

    def _status(self, answer: pa.Table) -> str:
        kept = sum(answer["keep"].to_pylist())
        return f"{self.session.state.moment:%Y-%m-%d}: {kept:,} of {answer.num_rows:,} kept"
