"""`Panel`: the base class of panels, in plain Python, over values as one frozen object with a history; `page` shows one
in the browser.
"""

from __future__ import annotations

import base64
import html
import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa

from memkit.base.params import AsOf, Estimator, Moment, Param, as_of_time, estimator, param
from memkit.display.draw import shown, write_page
from memkit.display.sheet import named_by, texts_in
from memkit.errors import MemkitError, ParameterError, count_of, did_you_mean
from memkit.evaluation.profile import Profile
from memkit.panels.page import STYLE, Displayed, control
from memkit.presets import POLICY, RETRIEVER, memory_v2_context
from memkit.tables.age import factors
from memkit.tables.corpus import Corpus
from memkit.text.secrets import Mask

if TYPE_CHECKING:
    from memkit.plot.marks import Picture
    from memkit.search.retriever import Retriever

T = TypeVar("T")


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
            is_new = self.drag is None or self.drag != self._last_drag
            self._last_drag = self.drag
            if is_new:
                self._past.append(self.state)
            elif state == self._past[-1]:  # a drag that is back where it began is no step
                self._past.pop()
                self._last_drag = None
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


QUERY = "query"
_ALONE = "figure{margin:0;max-width:700px}"

_MANY, _FIRST = 8, 5
"""Up to so many parameters are shown at once; of more, so many where neither panel nor declarations say which."""
_MOST_CHECKED = 200
"""Rows that are searched for secrets, which are then masked everywhere in the panel."""
Action = tuple[str, str, str]
"""A button: the name of its action, its label and its key."""


class Panel(Displayed):
    """One panel: values that may be changed, the table that they give, a picture of it, and the code that makes it.

    Attributes
    ----------
    session : Session
        The state, which several panels may share, and its history.
    """

    title: ClassVar[str] = ""
    section: ClassVar[str] = ""  # of the state, for its own parameters
    query_names: ClassVar[tuple[str, ...]] = ()  # of `QueryValues`
    actions: ClassVar[tuple[Action, ...]] = ()
    common: ClassVar[tuple[Action, ...]] = (("undo", "Undo", "z"), ("redo", "Redo", "y"), ("reset", "Reset", "0"))
    first: ClassVar[tuple[str, ...]] = ()  # parameters that are shown at once where there are many
    body_first: ClassVar[bool] = False  # whether what is below the picture comes first
    search: Any = None  # what a panel is made of, the one or the other
    corpus: Any = None
    profile_section: ClassVar[str] = ""  # the section of a profile; none for what no profile holds
    follows: ClassVar[bool] = False  # whether `_set_corpus` brings another state of the folder

    live: Any = None
    """What stands in place of the picture where a page can hold another widget: its ``widget``, and ``follow()``."""

    def __init__(self, values: Section, query_values: Section, session: Session | None, *given: Any) -> None:
        self.session = Session(State()) if session is None else session
        for value, name in names_given(given):
            self.session.call(value, name)
        self.session.add(QUERY, {**QueryValues().get_params(), **query_values})
        self.session.add(self.section, values)
        self._initial = self.session.state
        self.rests_on = ""  # what is said of the labels behind verdicts
        self.moved = ""  # what is said of a folder that was read again
        self._made: dict[str, tuple[Any, Any]] = {}
        self._check(self.session.state)

    # What each panel says for itself.

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters of its own section."""
        raise NotImplementedError

    def _answer(self, state: State) -> Any:
        """Compute the answer: a table, or an object with a ``table``. It is cached until the values change."""
        raise NotImplementedError

    def _picture(self, answer: Any) -> Picture:
        """The picture of the answer."""
        raise NotImplementedError

    @classmethod
    def is_in_lab(cls) -> bool:
        """Whether a lab has a tab of it; it is made of the lab's search and query, as_of and session then."""
        return False

    def _code(self, state: State) -> str:
        """The line of code, of `mk` and what the panel was given; empty where there is none."""
        raise NotImplementedError

    def _body(self, answer: Any) -> str:
        """The HTML below the picture; every word of the user's escaped."""
        return shown(_table(answer))._repr_html_()

    def _strip(self, answer: Any) -> str:
        """The HTML under the sliders: the verdict on the setting."""
        return ""

    def _status(self, answer: Any) -> str:
        return count_of(_table(answer).num_rows, "row")

    def _press(self, action: str) -> None:
        """Do what this button of `actions` is for."""

    def _pick(self, row: str) -> None:
        """Open a row of the body that has ``data-pick``; Enter and a click do it."""

    def _cache_key(self, state: State) -> Any:
        """The part of a state that the answer depends on, to be compared."""
        query_values = tuple(state[QUERY].get(name) for name in self.query_names)
        return json.dumps([query_values, dict(state[self.section])], sort_keys=True, default=repr)

    def _set_corpus(self, corpus: Corpus) -> None:
        """Rest on another state of the corpus; what was computed from the former one is dropped."""

    # What all do alike.

    def follow(self, corpus: Corpus, words: str) -> None:
        """Show another state of the corpus, as `memkit.watch` does after a save.

        Parameters
        ----------
        corpus : Corpus
            The new state.
        words : str
            A sentence about it, shown beside the status.

        Notes
        -----
        A panel without ``as_of`` moves on to now. One that shows a measurement or a table keeps showing it, and says
        that it is of the former state.
        """
        self.moved = words if self.follows else f"{words} This panel still shows the folder as it was before."
        if not self.follows:
            self.session.notify()
            return
        self.session.read_again(getattr(self, "corpus", None), corpus)
        self._set_corpus(corpus)
        self._made.clear()
        self.session.renew(corpus)
        self._check(self.session.state)
        self.session.notify()

    @property
    def params(self) -> dict[str, Any]:
        """The values of its own parameters; assign a mapping to change several with one redraw."""
        values = self.session.state[self.section]
        return {name: values[name] for name in self.declared}

    @params.setter
    def params(self, values: Mapping[str, Any]) -> None:
        self.set(**values)

    @property
    def controls(self) -> dict[str, Param]:
        """The parameters that can be set, by name: those of the query, then those of the panel."""
        declared = QueryValues.params()
        return {**{name: declared[name] for name in self.query_names}, **self.declared}

    @property
    def values(self) -> dict[str, Any]:
        """The value of each control."""
        state = self.session.state
        return {name: state[self._section_of(name)].get(name) for name in self.controls}

    @property
    def notes(self) -> dict[str, str]:
        """A line that explains the value of a control, by the name of the control."""
        values = self.values
        if not {"decay", "decay_days", "decay_floor"} <= values.keys():
            return {}
        return {"decay_days": left_after(values["decay"], values["decay_days"], values["decay_floor"])}

    @property
    def automatic(self) -> dict[str, float]:
        """The value that memkit chooses for each control that is set to None, by the name of the control."""
        return {}

    def set(self, **values: Any) -> None:
        """Change values; all of them with one redraw, or none.

        Raises
        ------
        ParameterError, QueryError
            For a name or value that is not declared, and for what the search refuses; nothing has changed then.
        """
        state = self.session.state
        for name, value in values.items():
            if name not in self.controls:
                names = list(self.controls)
                hint = did_you_mean(name, names)
                raise ParameterError(f"panel: expected one of {', '.join(names)}. Got {name!r}.{hint}")
            declared = self.controls[name]
            value = declared.stands_for if value is None and declared.stands_for is not None else value
            if name == "as_of" and value is not None:
                value = moment_of(value)
            declared.check(value, f"panels.{self.title}")
            state = state.with_values(self._section_of(name), **{name: value})
        self._check(state)
        self.session.change_to(state)

    def _section_of(self, name: str) -> str:
        return QUERY if name in self.query_names else self.section

    def _check(self, state: State) -> Any:
        """Compute the answer of a state before it is entered, so that an error leaves the old state."""
        return self._once("answer", self._cache_key(state), lambda: self._answer(state))

    def _once(self, what: str, of: Any, make: Callable[[], T]) -> T:
        """What was made last under this name, and made anew where it is of other values or of another object."""
        known = self._made.get(what)
        # Values are equal where they are the same; two answers are compared as objects, since a table may be long.
        if known is None or not (known[0] is of or (isinstance(of, (str, tuple)) and known[0] == of)):
            known = self._made[what] = (of, make())
        made: T = known[1]
        return made

    def _settled(self, what: str, of: Any, make: Callable[[], str]) -> str:
        """`_once` for HTML that is slow to make: while a slider moves, the last one."""
        return str(self._made.get(what, ("", ""))[1]) if self.session.is_moving else self._once(what, of, make)

    @property
    def answer(self) -> Any:
        """The answer at the current values."""
        return self._check(self.session.state)

    @property
    def result(self) -> pa.Table:
        """The table on the screen."""
        return _table(self.answer)

    @property
    def code(self) -> str:
        """The line of Python that computes `result` where ``mk`` is memkit: it names what the panel was given as its
        caller does, else by what it is, such as ``search``. Empty where there is nothing to compute."""
        return self._code(self.session.state)

    def _name(self, value: Any, default: str) -> Name:
        """What the code calls something that the panel was given."""
        return Name(self.session.name_of(value, default))

    def _dated(self, state: State) -> dict[str, str]:
        """The argument of code for the moment of a state; none for now."""
        moment = self._moment(state)
        return {} if moment is self.session.now else {"as_of": str(moment)}

    def _moment(self, state: State) -> Moment:
        """The moment of a state, `forward` days ahead where the panel can be moved ahead."""
        forward = state[QUERY]["forward"] if "forward" in self.query_names else 0
        return self.session.moment_of(state, forward)

    def _corpus_name(self, search: Retriever) -> Name:
        """What the code calls the corpus of a search."""
        return self._name(search.corpus_, f"{self._name(search, 'search')}.corpus_")

    @property
    def marks(self) -> Picture:
        """The picture as data: what the page, `picture` and `export` draw."""
        answer = self.answer
        return self._once("picture", answer, lambda: self._picture(answer))

    @property
    def picture(self) -> bytes:
        """The picture, as PNG."""
        return self.marks.png

    @property
    def words(self) -> str:
        """The picture in words."""
        return self.marks.words

    def undo(self) -> bool:
        """Go back one change; False where there is none."""
        return self.session.undo()

    def redo(self) -> bool:
        """Redo the change undone last; False where none was."""
        return self.session.redo()

    @property
    def history(self) -> tuple[State, ...]:
        """Every state up to this one."""
        return self.session.history

    def reset(self, preset: Mapping[str, Any] | None = None) -> None:
        """Go back to the values of the start, or to those of a preset, such as ``mk.presets.workspace``.

        What a preset names beyond the panel's own parameters is left out.
        """
        if preset is None:
            self.set(**{name: self._initial[self._section_of(name)].get(name) for name in self.controls})
        else:
            self.set(**{name: value for name, value in preset.items() if name in self.declared})

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """The presets that fit the panel: values of the source documents, and recommended ones."""
        if self.profile_section == "retriever":
            return RETRIEVER
        if self.profile_section == "context":
            return {"memory_v2": memory_v2_context}
        return {name: known[self.section] for name, known in POLICY.items() if self.section in known}

    @property
    def profile(self) -> Profile:
        """The parameters of the panel as they stand, to be saved with ``.save(path)``."""
        changes = {name: value for name, value in self.params.items() if value != self.declared[name].default}
        if self.profile_section:
            return Profile(**{self.profile_section: changes})
        return Profile(policies={self.section: changes})

    def save_profile(self, path: Path | str) -> Path:
        """Write the parameters as a profile, that `load_profile`, ``mk.Profile.load`` and ``--profile`` read.

        Returns
        -------
        Path
        """
        return self.profile.save(path)

    def load_profile(self, path: Path | str) -> None:
        """Set the parameters to those of a profile; what it does not name has its default.

        Raises
        ------
        ParameterError, FormatError, OSError
            As `mk.Profile.load`.
        """
        profile = Profile.load(path)
        is_policy = not self.profile_section
        section = profile.policies.get(self.section, {}) if is_policy else getattr(profile, self.profile_section)
        defaults = {name: declared.default for name, declared in self.declared.items()}
        self.set(**{**defaults, **{name: value for name, value in section.items() if name in defaults}})

    def export(self, path: Path | str) -> Path:
        """Write the panel as it stands as one page, that needs no kernel and no network.

        Returns
        -------
        Path
        """
        body = self._page(f"<figure>{self.hide.in_html(self.marks.inline)}</figure>")
        return write_page(path, self.title, body, style=_ALONE)

    @property
    def html(self) -> str:
        """The panel as it stands: values, code, picture and table, without anything live, as a notebook keeps it."""
        image, words = base64.b64encode(self.picture).decode(), html.escape(self.hide(self.words))
        return self._page(f'<img alt="{words}" src="data:image/png;base64,{image}" style="max-width:100%">')

    def _page(self, picture: str) -> str:
        values = {name: self.hide(str(value)) for name, value in self._listed.items() if value not in (None, "")}
        rows = "".join(f"<tr><td>{html.escape(n)}</td><td>{html.escape(v)}</td></tr>" for n, v in values.items())
        status, code = (html.escape(self.hide(text)) for text in (self.status, self.code))
        return (
            f'<div class="mk"><style>{STYLE}</style><p><b>{html.escape(self.title)}</b> {status}</p>'
            f"<p><code>{code}</code></p>"
            f'{picture}</div><div class="mk">{self.strip_html}</div>{self.body}'
            '<div class="mk"><details aria-label="values"><summary>values</summary>'
            f"<table>{rows}</table></details></div>"
        )

    @property
    def _listed(self) -> Mapping[str, Any]:
        """The values that a page without controls lists."""
        return self.values

    @property
    def hide(self) -> Mask:
        """The mask for all texts that are shown: it knows the secrets of the memories, the table and the query."""
        answer, memories = self.answer, self._memories
        named = Mask() if memories is None else self._once("named", memories, lambda: named_by(memories))
        mask, learned = self._once("mask", answer, lambda: (Mask(self._read(answer)) | named, set[str]()))
        for value in {*filter(lambda value: isinstance(value, str), self.values.values())} - learned:
            mask.learn(value)
            learned.add(value)
        return mask

    @property
    def _memories(self) -> pa.Table | None:
        corpus = self.corpus if self.search is None else self.search.corpus_
        return None if corpus is None else corpus.memories

    def _read(self, answer: Any) -> Iterator[str]:
        """The texts that may be shown of an answer."""
        return texts_in(_table(answer).slice(0, _MOST_CHECKED).to_pylist())

    @property
    def status(self) -> str:
        """One line on what is shown."""
        status = self._status(self.answer)
        return f"{status.rstrip('.')}. {self.moved}" if self.moved else status

    @property
    def strip_html(self) -> str:
        """The HTML under the sliders."""
        rests_on = f"<p>{html.escape(self.rests_on)}</p>" if self.rests_on else ""
        return self.hide.in_html(self._strip(self.answer)) + rests_on

    @property
    def body(self) -> str:
        """The HTML below the picture."""
        return self.hide.in_html(self._body(self.answer))

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.hide(self.code)}"

    # What the page asks for.

    @property
    def groups(self) -> dict[str, list[str]]:
        """The controls by group, in order: those of the query, the first ones, and others, which can be opened.

        Of few parameters all are first.
        """
        declared = self.declared
        order = {name: number for number, name in enumerate(declared)}
        first = list(declared)
        if len(declared) > _MANY:
            of_first = [name for name, param in declared.items() if param.group == "first"]
            first = list(self.first) or of_first or list(declared)[:_FIRST]
        groups = {QUERY: list(self.query_names), self.section: first}
        others = sorted(declared.keys() - set(first), key=lambda name: (declared[name].group == "first", order[name]))
        for name in others:
            group = declared[name].group
            groups.setdefault("output" if group == "first" else group or f"{len(others)} more", []).append(name)
        return groups

    def is_open(self, group: str) -> bool:
        """Whether the controls of a group are shown at once."""
        return group in (QUERY, self.section)

    @property
    def idle(self) -> Collection[str]:
        """The parameters that can do nothing as long as others are what they are; those of them that can be opened are
        shown only where somebody has given them a value."""
        return ()

    def spec(self) -> dict[str, Any]:
        """The controls and buttons, as data for the page."""
        idle, values, declared = self.idle, self.values, self.controls
        groups: list[dict[str, Any]] = []
        for group, names in self.groups.items():
            is_open = self.is_open(group)
            shown_names = [n for n in names if is_open or n not in idle or values[n] != declared[n].default]
            if shown_names:
                controls = [control(declared[name]) for name in shown_names]
                groups.append({"name": group, "controls": controls, **({} if is_open else {"closed": True})})
        actions = [{"name": name, "label": label, "key": key} for name, label, key in (*self.actions, *self.common)]
        options = {"profile": bool(self.declared), "presets": list(self.presets), "reads": self.body_first}
        return {"title": self.title, "groups": groups, "actions": actions, **options}

    def press(self, action: str) -> None:
        """Do what a button does."""
        common: dict[str, Any] = {"undo": self.undo, "redo": self.redo, "reset": self.reset}
        if action in common:
            common[action]()
        elif any(action == name for name, _, _ in self.actions):
            self._act_and_notify(self._press, action)
        else:
            raise MemkitError(f"panel: expected one of its buttons. Got {action!r}.")

    def pick(self, row: str) -> None:
        """Do what Enter on a row does."""
        self._act_and_notify(self._pick, row)

    def _act_and_notify(self, act: Callable[[str], None], name: str) -> None:
        """Act, and notify the views even where the state is the same, as when a pair is judged."""
        state = self.session.state
        act(name)
        if self.session.state is state:
            self.session.notify()


def left_after(form: str, days: float, floor: float) -> str:
    """Say how much weight is left at ``decay_days``.

    >>> left_after("half_life", 60, 0)
    'half-life: left after 60 days: 50 %'
    >>> left_after("e_folding", 60, 0)
    'e-folding: left after 60 days: 37 %'
    """
    if form == "none":
        return "no decay: age changes no score"
    factor = factors(np.array([float(days)]), form, days, floor)[0]
    return f"{form.replace('_', '-')}: left after {days:g} days: {100 * factor:.0f} %"


def fit_to(search: Retriever, corpus: Corpus) -> None:
    """Fit a search on the memories of `corpus`, unless it is: several panels share one."""
    if not search.index_.is_fitted_on(corpus):
        search.fit(corpus)


def moment_of(as_of: AsOf) -> str | None:
    """`as_of` as text; None, which is now, stays None."""
    return None if as_of is None else str(Moment.from_as_of(as_of))


class Name(str):
    """The name of a variable, in code that is shown."""

    __slots__ = ()
    __repr__ = str.__str__


def call_code(name: str, *arguments: Any, **values: Any) -> str:
    """A call in Python.

    >>> call_code("search", Name("query"), k=5, where=None)
    'search(query, k=5, where=None)'
    """
    words = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in values.items())]
    return f"{name}({', '.join(words)})"


def changed_code(name: str, changes: Section) -> str:
    """The code of an estimator that is called `name`, with other values where there are any.

    >>> changed_code("search", {}), changed_code("search", {"pool": 5})
    ('search', 'search.with_params(pool=5)')
    """
    return call_code(f"{name}.with_params", **changes) if changes else name


def changed_values(estimator: Estimator, values: Section) -> dict[str, Any]:
    """The values that differ from those of `estimator`."""
    return {name: value for name, value in values.items() if getattr(estimator, name) != value}


def _table(answer: Any) -> pa.Table:
    return answer if isinstance(answer, pa.Table) else answer.table
