"""The panel of a prompt: budgets of its blocks, the exact text, what was cut, and what more room would bring."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from memkit.context import Context, ContextBuilder
from memkit.panels.panel import ASKED, Panel, called, changed, moment_of
from memkit.panels.state import Session, State
from memkit.params import AsOf, Param
from memkit.pictures import plot_budgets
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from memkit.tables.corpus import Corpus

_MORE = 100


class PromptPanel(Panel):
    """The blocks of a prompt for one message.

    Parameters
    ----------
    corpus : Corpus
    builder : ContextBuilder, optional
        With the retriever that is wanted; it is fitted once, to this corpus.
    user_id : str, optional
    message : str
    as_of : str, date or datetime, optional
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"text": ["Любит чай"], "kind": ["profile"], "importance": ["high"]})
    >>> panel = PromptPanel(corpus, mk.ContextBuilder(mk.Retriever(encoder=None)), message="чай", as_of="2026-03-01")
    >>> panel.set(profile_chars=5)
    >>> panel.result["reason"].to_pylist()[0]
    'limit'
    """

    title: ClassVar[str] = "context"
    section: ClassVar[str] = "context"
    asks: ClassVar[tuple[str, ...]] = ("query", "user_id", "as_of")
    written_as: ClassVar[str] = "context"

    def __init__(
        self,
        corpus: Corpus,
        builder: ContextBuilder | None = None,
        *,
        user_id: str | None = None,
        message: str = "",
        as_of: AsOf = None,
        session: Session | None = None,
    ) -> None:
        self.corpus = corpus
        self.builder = (ContextBuilder() if builder is None else builder).fit(corpus)
        own = {name: getattr(self.builder, name) for name in self.declared}
        super().__init__(own, {"query": message, "user_id": user_id, "as_of": moment_of(as_of)}, session)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The budgets, and how they are filled."""
        return {name: p for name, p in ContextBuilder.params().items() if p.kind != "object"}

    def _build(self, state: State, **more: int) -> Context:
        asked = state[ASKED]
        own = ContextBuilder(retriever=self.builder.retriever_, **{**state[self.section], **more})
        return own.build(self.corpus, asked["user_id"], asked["query"], asked["as_of"])

    def _answer(self, state: State) -> Context:
        return self._build(state)

    def _draw(self, answer: Context, ax: Axes) -> Axes:
        return plot_budgets(answer, ax)

    def _code(self, state: State) -> str:
        asked, other = state[ASKED], changed(self.builder, state[self.section])
        head = called("mk.ContextBuilder", **other).replace("(", "(search" + (", " if other else ""), 1)
        return f"{head}.build(corpus, {asked['user_id']!r}, {asked['query']!r}, as_of={asked['as_of']!r}).table"

    def _status(self, answer: Context) -> str:
        cut = Counter(line.reason for line in answer.lines if line.reason)
        return f"{len(answer.text):,} characters; left out: " + (
            ", ".join(f"{n} {reason}" for reason, n in cut.most_common()) or "nothing"
        )

    def next_in(self) -> dict[str, list[str]]:
        """What 100 characters more would bring into each block: its limit, and the lines that come in."""
        state, now = self.session.state, {line.line for line in self.answer.lines if line.reason is None}
        found = {}
        for name in ("profile_chars", "working_chars", "relevant_chars"):
            more = self._build(state, **{name: state[self.section][name] + _MORE})
            found[name] = [line.line for line in more.lines if line.reason is None and line.line not in now]
        return found

    def _body(self, answer: Context) -> str:
        more = "".join(
            f"<li>{html.escape(name)} + {_MORE}: {html.escape(mask('; '.join(lines)) or 'nothing more')}</li>"
            for name, lines in self.next_in().items()
        )
        prompt = html.escape(mask(answer.text)) or html.escape(answer.note or "(empty)")
        return (
            f'{answer._repr_html_()}<div class="mk"><h4>with a little more room</h4><ul>{more}</ul>'
            f"<h4>the prompt</h4><pre style='white-space:pre-wrap'>{prompt}</pre></div>"
        )
