"""All panels of a corpus in one view, over one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memkit.panels.ages import AgesPanel
from memkit.panels.hits import HitsPanel
from memkit.panels.judging import JudgePanel
from memkit.panels.pairs import PairsPanel
from memkit.panels.panel import Panel, moment_of
from memkit.panels.parts import bundle, shown_again
from memkit.panels.prompt import PromptPanel
from memkit.panels.rows import POLICY_NAMES, RowsPanel
from memkit.panels.state import Session, State
from memkit.params import AsOf
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.search.retriever import Retriever

if TYPE_CHECKING:
    from memkit.panels.page import Page
    from memkit.tables.corpus import Corpus


_POLICIES = tuple(name for name in POLICY_NAMES if name != "decay")


class Lab:
    """The panels of a corpus; each is made when it is first shown, and all share what is asked.

    Parameters
    ----------
    corpus : Corpus
    search : Retriever, optional
        Fitted; ``Retriever()`` is fitted else.
    query : str
    queries, qrels : table, data frame or path, optional
        Labels, for verdicts and judging.
    as_of : str, date or datetime, optional

    Attributes
    ----------
    names : tuple of str
        The panels.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["зелёный чай", "чай и кофе"]})
    >>> lab = Lab(corpus, mk.Retriever(encoder=None).fit(corpus), "чай", as_of="2026-03-01")
    >>> lab["search"].set(decay="linear")
    >>> lab["decay"].params["decay"]
    'linear'
    """

    def __init__(
        self,
        corpus: Corpus,
        search: Retriever | None = None,
        query: str = "",
        queries: Any = None,
        qrels: Any = None,
        *,
        as_of: AsOf = None,
    ) -> None:
        self.corpus, self.query, self.queries, self.qrels = corpus, query, queries, qrels
        self.search = Retriever().fit(corpus) if search is None else search
        self.as_of = moment_of(as_of)
        self.session = Session(State())
        judged = () if queries is None else ("judge",)
        self.names = ("search", "decay", "dedup", *_POLICIES, "context", *judged)
        self._made: dict[str, Panel] = {}
        self._view: Page | None = None
        self._shown: Any = None

    def __getitem__(self, name: str) -> Panel:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Panel:
        shared: dict[str, Any] = {"session": self.session}
        dated = {"as_of": self.as_of, **shared}
        if name == "search":
            return HitsPanel(self.search, self.query, self.queries, self.qrels, **dated)
        if name == "decay":
            return AgesPanel(self.search, **dated)
        if name == "dedup":
            return PairsPanel(Deduplicator().fit(self.corpus), **shared)
        if name == "context":
            from memkit.context import ContextBuilder

            return PromptPanel(self.corpus, ContextBuilder(retriever=self.search), message=self.query, **dated)
        if name == "judge":
            return JudgePanel(self.search, self.queries, self.qrels, **dated)
        return RowsPanel(self.corpus, name, **dated)

    @property
    def view(self) -> Page:
        """One panel at a time, chosen by a tab."""
        if self._view is None:
            from memkit.panels.page import Page

            self._view = Page(self["search"], self)
        return self._view

    def tabs(self, panel: Panel) -> dict[str, Any]:
        """What the page shows above a panel of these."""
        return {"tabs": list(self.names), "tab": next(name for name, one in self._made.items() if one is panel)}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        panel = self.view.panel
        return bundle(self.view, panel.html, repr(self), panel.picture)

    def _ipython_display_(self) -> None:
        self._shown = shown_again(self)

    def keep(self) -> None:
        """As `Panel.keep`, of the panel that is chosen."""
        if self._shown is not None:
            self._shown.update(self._repr_mimebundle_()[0], raw=True)

    def __repr__(self) -> str:
        return f"Lab: {', '.join(self.names)}"
