"""The panel in place of one that a lab cannot make yet: what is missing, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from memkit.base.params import Param
from memkit.panels.panel import Action, Panel
from memkit.panels.parts import paragraph
from memkit.panels.state import Session, State
from memkit.plot.marks import Axis, Picture
from memkit.tables.corpus import Corpus

_NOTHING = "nothing to show yet"


class MissingPanel(Panel):
    """What a panel lacks.

    Parameters
    ----------
    title : str
        The panel that would stand here.
    why : str
        What is missing, and what to do.

    Examples
    --------
    >>> MissingPanel("surface", "There are no questions: write some.").result.to_pylist()
    [{'missing': 'There are no questions: write some.'}]
    """

    body_first: ClassVar[bool] = True
    common: ClassVar[tuple[Action, ...]] = ()  # nothing is set here

    def __init__(self, title: str, why: str, *, session: Session | None = None) -> None:
        self.title, self.why = title, why  # type: ignore[misc]  # that of another panel
        self.section = f"missing {title}"  # type: ignore[misc]
        super().__init__({}, {}, session)

    @property
    def declared(self) -> Mapping[str, Param]:
        """No parameters."""
        return {}

    def follow(self, corpus: Corpus, words: str) -> None:
        """Say that the folder changed; a lab looks anew when the panel is opened again."""
        self.moved = f"{words} Open another tab and this one again: it looks anew."
        self.session.notify()

    def _answer(self, state: State) -> pa.Table:
        return pa.table({"missing": [self.why]})

    def _picture(self, answer: pa.Table) -> Picture:
        return Picture(self.title, [], Axis(0, 1, ticks=()), Axis(0, 1, ticks=()), [(self.title, _NOTHING)], _NOTHING)

    def _code(self, state: State) -> str:
        return ""

    def _body(self, answer: pa.Table) -> str:
        return paragraph(self.why)

    def _status(self, answer: pa.Table) -> str:
        return _NOTHING
