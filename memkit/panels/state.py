"""The values of a panel as one frozen object, and their history."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from memkit.base.params import Estimator, Moment, as_of_time, estimator, param
from memkit.tables.corpus import Corpus


@estimator
class QueryValues(Estimator):
    """The query of a panel and its scope, beside the parameters of the search or policy."""

    query: str = param("", doc="The query; Enter asks.")
    where: str | None = param(None, kind="str", nullable=True, doc="A SQL predicate over memories.")
    user_id: str | None = param(
        None, kind="str", nullable=True, doc="The user: hits are that user's memories and those that belong to nobody."
    )
    as_of: str | None = param(
        None, kind="str", nullable=True, unit="ISO 8601", doc="The date or time at which the query is asked; none: now."
    )
    k: int = param(10, low=1, doc="How many hits to show.")
    forward: int = param(0, low=0, high=3650, unit="days", doc="Move `as_of` ahead by so many days.")
    text: str = param("", doc="A text to judge in place of the corpus.")
    precision: float = param(
        0.95, low=0, high=1, unit="ratio", doc="Target precision: the share of merged pairs that are duplicates."
    )
    memory_id: str | None = param(
        None, kind="str", nullable=True, doc="A memory, by id or words of it: explain why it is a hit or not."
    )


_AGAIN = ".refresh()"
Section = Mapping[str, Any]
_EMPTY: Section = MappingProxyType({})


@dataclass(frozen=True)
class State:
    """The values of a panel, by section: the query, and the parameters of each part.

    Examples
    --------
    >>> state = State({"query": {"k": 5}}).with_values("retriever", pool=50)
    >>> state["retriever"]["pool"], state["query"]["k"]
    (50, 5)
    """

    sections: Mapping[str, Section] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fixed = {name: MappingProxyType(dict(values)) for name, values in self.sections.items()}
        object.__setattr__(self, "sections", MappingProxyType(fixed))

    def __getitem__(self, section: str) -> Section:
        return self.sections.get(section, _EMPTY)

    def with_values(self, section: str, **values: Any) -> Self:
        """A copy with other values in one section."""
        return type(self)({**self.sections, section: {**self[section], **values}})


class Session:
    """A state that can be changed, its history, and its listeners.

    Attributes
    ----------
    is_moving : bool
        Whether a slider is being moved: slow parts wait until it rests.
    drag : str or None
        The drag that the next change belongs to: all changes of one drag, its last one too, are one step to undo.
    may_wait : bool
        Whether what takes long may be shown later, as in a page; Python code gets its result at once.

    Examples
    --------
    >>> session = Session(State({"query": {"k": 5}}))
    >>> session.change_to(session.state.with_values("query", k=6))
    >>> session.undo(), session.state["query"]["k"], session.redo(), session.state["query"]["k"]
    (True, 5, True, 6)
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self._past: list[State] = []
        self._future: list[State] = []
        self._listeners: list[Callable[[], None]] = []
        self.is_moving = self.may_wait = False
        self.drag: str | None = None
        self._last_drag: str | None = None  # the drag that made the last change
        self._names: list[tuple[Any, str]] = []
        self._followed: Any = None
        self.renew()

    def begin(self, is_moving: bool = False, drag: str | None = None) -> None:
        """Say what the next change comes from: a moving slider, a drag, or neither of them."""
        self.is_moving, self.drag = is_moving, drag

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In this block what takes long may be shown later."""
        former, self.may_wait = self.may_wait, True
        try:
            yield
        finally:
            self.may_wait = former

    def renew(self, corpus: Any = None) -> None:
        """Let another now be the moment where none is given: when the folder has changed, once for all panels."""
        if corpus is None or corpus is not self._followed:
            self._followed = corpus
            # Until the next change all panels have the same now, so that a slider asks no arm again.
            self.now = Moment(as_of_time(None).replace(microsecond=0), None)

    def moment_of(self, state: State, forward: int = 0) -> Moment:
        """The moment of a state, so many days ahead."""
        as_of = state["query"]["as_of"]
        moment = self.now if as_of is None else Moment.from_as_of(as_of)
        return moment.ahead(forward) if forward else moment

    def call(self, value: Any, words: str) -> None:
        """Have the code that panels show spell `value` like this."""
        self._names = [(known, name) for known, name in self._names if not _is_same(known, value)]
        self._names.append((value, words))

    def read_again(self, former: Any, corpus: Any) -> None:
        """Have the code spell a later state of a corpus: the caller's variable still has the former one."""
        if (name := self.name_of(former, "")) and not _is_same(former, corpus):
            self.call(corpus, f"{name.removesuffix(_AGAIN)}{_AGAIN}")

    def name_of(self, value: Any, default: str) -> str:
        """How the code spells `value`: as who made the panel calls it, if it has a name there."""
        return next((words for known, words in self._names if _is_same(known, value)), default)

    @property
    def history(self) -> tuple[State, ...]:
        """Every state up to this one, the first one first."""
        return (*self._past, self.state)

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after each change."""
        self._listeners.append(listener)

    def notify(self) -> None:
        """Call the listeners: after a change of the state, or of something outside of it."""
        for listener in self._listeners:
            listener()

    def add(self, section: str, values: Section) -> None:
        """Add a section without a history entry; values that are there already stay."""
        self.state = State({**self.state.sections, section: {**values, **self.state[section]}})

    def change_to(self, state: State) -> None:
        """Change to another state; changes that were undone cannot be redone then."""
        if state != self.state:
            if self.drag is None or self.drag != self._last_drag:
                self._past.append(self.state)
            self._last_drag = self.drag
            self._future.clear()
            self._become(state)

    def undo(self) -> bool:
        """Go back one change; False where there is none."""
        return self._step(self._past, self._future)

    def redo(self) -> bool:
        """Redo the change undone last; False where none was."""
        return self._step(self._future, self._past)

    def _step(self, source: list[State], target: list[State]) -> bool:
        if not source:
            return False
        target.append(self.state)
        self._last_drag = None
        self._become(source.pop())
        return True

    def _become(self, state: State) -> None:
        self.state = state
        self.notify()


def _is_same(known: Any, value: Any) -> bool:
    """Whether these are one object; the corpus of a search stands for the one that it was fitted to."""
    if isinstance(known, Corpus) and isinstance(value, Corpus):
        return known.tables["memories"] is value.tables["memories"]
    return known is value


def names_given(values: Any) -> Iterator[tuple[Any, str]]:
    """The names that these values have where memkit was called: the first name of each, unless it begins with "_"."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "memkit":
        frame = frame.f_back
    variables = {} if frame is None else {**frame.f_locals, **frame.f_globals, **frame.f_locals}
    for value in values:
        names = (name for name, known in variables.items() if _is_same(known, value) and not name.startswith("_"))
        yield from ((value, name) for name in [next(names, "")] if name.isidentifier())
