"""All panels of a corpus in one view, over one state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from memkit.base.params import AsOf, check_corpus, check_fitted
from memkit.base.plugins import PANELS
from memkit.errors import MemkitError, ParameterError
from memkit.evaluation.known_items import known_item_note, known_items
from memkit.evaluation.sweep import Sweep, sweep
from memkit.panels.decay_panel import DecayPanel
from memkit.panels.dedup_panel import DedupPanel
from memkit.panels.judge_panel import KNOWN, JudgePanel, SurfacePanel
from memkit.panels.page import Displayed, Tabs
from memkit.panels.panel import QUERY, Name, Panel, Session, State, call_code, fit_to, moment_of, names_given
from memkit.panels.policy_panel import ContextPanel, PolicyPanel
from memkit.panels.search_panel import SearchPanel
from memkit.panels.table_panel import TablePanel
from memkit.policy.base import policy_class, policy_names
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus

_WEIGHTS = [0.0, 0.1, 0.2, 0.4, 0.6]
"""Of meaning and letters, in the sweep of 25 settings with which the surface opens."""
_POLICIES = "policies"
_OWN_LABELS = (
    'Write some of your own, queries = {"query_id": [1, 2], "text": ["…", "…"]}, judge their hits in'
    " mk.panels.judge(search, queries), and open mk.panels.lab(corpus, search, queries=queries, qrels=…) with the"
    " judge's result."
)
_NO_LABELS = (
    "there are no questions to measure with: they are made from headings, titles, subjects and links, and no memory"
    f" here has such a text of two words or more, as facts and lines of a log have none. {_OWN_LABELS}"
)
_NOT_JUDGED = (
    "there are questions, and nothing says which memories answer them: judge their hits in the tab judge, and open"
    " mk.panels.lab(corpus, search, queries=queries, qrels=lab['judge'].result)."
)


class Lab(Displayed):
    """The panels of a corpus; each is made when it is first shown, and all share one query.

    Parameters
    ----------
    corpus : Corpus
    search : Retriever, optional
        Fitted; ``Retriever()`` is fitted else.
    query : str
    queries, qrels : table, data frame or path, optional
        Labels, for verdicts, the surface and judging; where there are none, `known_items` of the corpus. Queries alone
        are judged. Opening a panel that lacks them is an error, which says what to do.
    sweep : Sweep, optional
        For the surface; by default one over the weights of meaning and letters, made when it is first shown.
    as_of : str, date or datetime, optional

    Attributes
    ----------
    names : tuple of str
        The panels; of memories the table, and their map where the extra ``map`` is installed.
    policy : str
        The policy that the panel ``policies`` shows, at first one that has something to judge; ``lab["quota"]`` is the
        panel of another one.

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
        sweep: Sweep | None = None,
    ) -> None:
        check_corpus("panels.lab", corpus)
        if search is not None:
            check_fitted("panels.lab", search)
        if queries is None and qrels is not None:
            raise ParameterError("panels.lab: expected queries beside the qrels. Got none.")
        self.sweep = sweep
        self.corpus, self.query, self.queries, self.qrels = corpus, query, queries, qrels
        self.search = Retriever().fit(corpus) if search is None else search
        self.as_of = moment_of(as_of)
        # Whichever panel is opened first, all have the query and moment of the lab.
        self.session = Session(State({QUERY: {"query": query, "as_of": self.as_of}}))
        for value, name in names_given((corpus, self.search, queries, qrels, sweep)):
            self.session.call(value, name)
        before, after = ("search", "surface", "decay", "dedup"), ("context", "judge", "table")
        self._further = {name: made for name, made in PANELS.all() if isinstance(made, type) and _is_in_lab(made)}
        self.names = (*before, _POLICIES, *after, *self._further)
        self._panels: dict[str, Panel] = {}

    @cached_property
    def policies(self) -> dict[str, str]:
        """By policy, why it has nothing to judge in the corpus; those that have something come first, with no words.

        Those that have a tab of their own are left out, and those that need a fit.
        """
        words = dict[str, str]()
        for name in policy_names():
            try:
                policy = policy_class(name)
                if name not in self.names and not policy.learns:
                    words[name] = policy().nothing_in(self.corpus.tables)
            except ParameterError as error:  # the package of somebody else
                words[name] = str(error)
        return dict(sorted(words.items(), key=lambda each: bool(each[1])))

    @cached_property
    def policy(self) -> str:
        """The policy that the panel ``policies`` shows."""
        return next(iter(self.policies))

    def __getitem__(self, name: str) -> Panel:
        name = self.policy if name == _POLICIES else name
        if name not in self._panels:
            self._panels[name] = self._make(name)
            self._panels[name].rests_on = self._rests_on(name)
        return self._panels[name]

    def _rests_on(self, name: str) -> str:
        """The labels that the verdicts of a panel rest on."""
        if name == "search" and self.qrels is None:
            return (
                "No labels were given, so there is no verdict on which setting is better. The panel judge makes labels."
            )
        if name not in ("search", "surface", "judge"):
            return ""
        if self.queries is not None:
            return "Verdicts rest on the labels given to the lab."
        return (
            f"{known_item_note(self.labels[0])} They share more words with their answers than questions do."
            " Give the lab queries and qrels of your own."
        )

    def _make(self, name: str) -> Panel:
        """The panel of that name; an error says what is missing where there are no labels for it."""
        needs_labels = name == "judge" or (name == "surface" and self.sweep is None)
        if not needs_labels or (self.queries is not None and (name == "judge" or self.qrels is not None)):
            return self._panel_of(name)  # a fault of the labels given is an error
        if self.queries is not None:
            raise ParameterError(f"panels.lab: {_NOT_JUDGED}")
        if not self._has_labels:
            raise ParameterError(f"panels.lab: {_NO_LABELS}")
        try:
            return self._panel_of(name)
        except MemkitError as error:  # few known items may find nothing
            raise ParameterError(f"panels.lab: {error} {_OWN_LABELS}") from error

    def _panel_of(self, name: str) -> Panel:
        shared: dict[str, Any] = {"session": self.session}
        dated = {"as_of": self.as_of, **shared}
        if name == "search":
            return SearchPanel(self.search, self.query, *self._judged_labels, **dated)
        if name == "decay":
            return DecayPanel(self.search, *self._judged_labels, **dated)
        if name == "dedup":
            dedup = Deduplicator().fit(self.corpus)
            self._name_dedup(dedup)
            return DedupPanel(dedup, **shared)
        if name == "context":
            from memkit.context import ContextBuilder

            return ContextPanel(self.corpus, ContextBuilder(retriever=self.search), message=self.query, **dated)
        if name == "judge":
            return JudgePanel(self.search, *self.labels, **dated)
        if name == "table":
            return TablePanel(self.corpus, **shared)
        if name in self._further:
            further: Panel = self._further[name](self.search, self.query, **dated)
            return further
        if name == "surface":
            return SurfacePanel(self._swept(), **shared)
        return PolicyPanel(self.corpus, name, **dated)

    def follow(self, corpus: Corpus, words: str) -> None:
        """Show another state of the corpus in every panel that was opened, as `memkit.watch` does after a save."""
        self.session.read_again(self.corpus, corpus)
        self.corpus = corpus
        if isinstance(panel := self._panels.get("dedup"), DedupPanel):
            self._name_dedup(panel.dedup)
        for of_former_state in ("labels", "policies"):
            vars(self).pop(of_former_state, None)
        fit_to(self.search, corpus)
        for panel in self._panels.values():
            panel.follow(corpus, words)

    @property
    def _judged_labels(self) -> tuple[Any, Any]:
        """The labels given, if there are judgements among them."""
        return (None, None) if self.qrels is None else (self.queries, self.qrels)

    @property
    def _has_labels(self) -> bool:
        """Whether labels were given or can be made."""
        try:
            return bool(self.labels)
        except ParameterError:
            return False

    @cached_property
    def labels(self) -> tuple[Any, Any]:
        """The labels given, else known items."""
        if self.queries is not None:
            return self.queries, self.qrels
        queries, answers = known_items(self.corpus, KNOWN)
        known = call_code("mk.known_items", self._name(self.corpus, "corpus"), KNOWN)
        self.session.call(queries, f"{known}[0]")
        self.session.call(answers, f"{known}[1]")
        return queries, answers

    def _name_dedup(self, dedup: Deduplicator) -> None:
        """Have the code say how the lab made it."""
        self.session.call(dedup, f"mk.Deduplicator().fit({self._name(self.corpus, 'corpus')})")

    def _swept(self) -> Sweep:
        if self.sweep is None:
            names = ["gram_weight"] if self.search.encoder is None else ["vector_weight", "gram_weight"]
            grid = dict.fromkeys(names, _WEIGHTS)
            self.sweep = sweep(self.search, *self.labels, grid, as_of=self.as_of)
            queries, qrels = self.labels
            labels = self._name(queries, "queries"), self._name(qrels, "qrels")
            dated = {} if self.as_of is None else {"as_of": self.as_of}
            words = call_code("mk.sweep", self._name(self.search, "search"), *labels, grid, **dated)
            self.session.call(self.sweep, words)
        return self.sweep

    def _name(self, value: Any, default: str) -> Name:
        """What the code of the panels calls something that the lab was given."""
        return Name(self.session.name_of(value, default))

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the search; assign a mapping to change several with one redraw."""
        return self["search"].params

    @params.setter
    def params(self, values: Mapping[str, Any]) -> None:
        self["search"].params = values

    def export(self, path: Path | str) -> Path:
        """Write the panel that is shown as one page, as `Panel.export` does; the search before any was chosen.

        Returns
        -------
        Path
        """
        shown: Panel = self.view.panel
        return shown.export(path)

    def _panel(self, name: str = "search") -> Panel:
        if name not in self.names:
            self.policy = name
        return self[name]

    def _tabs(self, panel: Panel) -> list[Tabs]:
        name = next((name for name, made in self._panels.items() if made is panel), panel.title)
        if name in self.names:
            return [Tabs("panels", self.names, name)]
        fit = [name for name, why in self.policies.items() if not why]
        others = {name: why for name, why in self.policies.items() if why}
        return [Tabs("panels", self.names, _POLICIES), Tabs(_POLICIES, fit, name, others)]

    def __repr__(self) -> str:
        return f"Lab: {', '.join(self.names)}"


def _is_in_lab(panel: type) -> bool:
    return issubclass(panel, Panel) and panel.is_in_lab()
