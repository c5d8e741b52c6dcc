"""`Panel`: what all panels share. Plain Python, that needs no browser; `page` shows it in one."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from memkit.display.notebook import shown
from memkit.display.page import write_page
from memkit.display.sheet import texts_in
from memkit.errors import MemkitError, ParameterError, did_you_mean
from memkit.evaluation.profiles.profile import Profile
from memkit.panels.controls import control
from memkit.panels.page import Displayed
from memkit.panels.parts import STYLE
from memkit.panels.state import Asked, Section, Session, State
from memkit.params import AsOf, Estimator, Moment, Param
from memkit.presets import POLICY, RETRIEVER, memory_v2_context
from memkit.tables.age import factors
from memkit.text.secrets import Mask

if TYPE_CHECKING:
    from memkit.plot.marks import Picture

ASKED = "asked"
_ALONE = "figure{margin:0;max-width:700px}"

_LOOKED_AT = 200
"""Rows of a table whose secrets are hidden wherever the panel shows them."""
Action = tuple[str, str, str]
"""What a button does, by name; its label; and its key."""


class Panel(Displayed):
    """One panel: values that may be changed, the table that they give, a picture of it, and the code that makes it.

    Attributes
    ----------
    session : Session
        The state, which several panels may share, and its history.
    """

    title: ClassVar[str] = ""
    section: ClassVar[str] = ""  # of the state, for its own parameters
    asks: ClassVar[tuple[str, ...]] = ()  # of `Asked`
    actions: ClassVar[tuple[Action, ...]] = ()
    common: ClassVar[tuple[Action, ...]] = (("undo", "Undo", "z"), ("redo", "Redo", "y"), ("reset", "Reset", "0"))
    reads: ClassVar[bool] = False  # whether what is below the picture comes first
    written_as: ClassVar[str] = ""  # the section of a profile; none for what no profile holds

    def __init__(self, own: Section, asked: Section, session: Session | None) -> None:
        self.session = Session(State()) if session is None else session
        self.session.add(ASKED, {**Asked().get_params(), **asked})
        self.session.add(self.section, own)
        self._first = self.session.state
        self._kept: tuple[Any, Any] = (None, None)
        self._drawn: tuple[Any, Picture | None] = (None, None)
        self._hiding: tuple[Any, Mask] = (None, Mask())
        self._check(self.session.state)

    # What each panel says for itself.

    @property
    def declared(self) -> Mapping[str, Param]:
        """The parameters of its own section."""
        raise NotImplementedError

    def _answer(self, state: State) -> Any:
        """What the values give; kept until they change. Its ``table`` is the result, or it is one."""
        raise NotImplementedError

    def _picture(self, answer: Any) -> Picture:
        """The picture of the answer."""
        raise NotImplementedError

    def _code(self, state: State) -> str:
        raise NotImplementedError

    def _body(self, answer: Any) -> str:
        """The HTML below the picture; every word of the user's escaped."""
        return shown(_table(answer))._repr_html_()

    def _strip(self, answer: Any) -> str:
        """The HTML under the sliders: whether it is better so."""
        return ""

    def _status(self, answer: Any) -> str:
        return f"{_table(answer).num_rows:,} rows"

    def _press(self, action: str) -> None:
        """What the button of `actions` does."""

    def _pick(self, row: str) -> None:
        """What Enter on a row of the body does that carries ``data-pick``."""

    def _needs(self, state: State) -> Any:
        """The part of a state that the answer depends on."""
        asked = tuple(state[ASKED].get(name) for name in self.asks)
        return json.dumps([asked, dict(state[self.section])], sort_keys=True, default=repr)

    # What all do alike.

    @property
    def params(self) -> dict[str, Any]:
        """The values of its own parameters; assign a mapping to change several with one redraw."""
        own = self.session.state[self.section]
        return {name: own[name] for name in self.declared}

    @params.setter
    def params(self, values: Mapping[str, Any]) -> None:
        self.set(**values)

    @property
    def controls(self) -> dict[str, Param]:
        """What may be set, by name: what is asked, then its own parameters."""
        every = Asked.params()
        return {**{name: every[name] for name in self.asks}, **self.declared}

    @property
    def values(self) -> dict[str, Any]:
        """What each control is set to."""
        state = self.session.state
        return {name: state[self._section_of(name)].get(name) for name in self.controls}

    @property
    def notes(self) -> dict[str, str]:
        """What the value of a control means where its name does not tell, by the control."""
        values = self.values
        if not {"decay", "decay_days", "decay_floor"} <= values.keys():
            return {}
        return {"decay_days": left_after(values["decay"], values["decay_days"], values["decay_floor"])}

    @property
    def notes_html(self) -> str:
        """The same as HTML, under the sliders of the page."""
        return "".join(f"<p>{html.escape(text)}</p>" for text in self.notes.values())

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
                known = list(self.controls)
                hint = did_you_mean(name, known)
                raise ParameterError(f"panel: expected one of {', '.join(known)}. Got {name!r}.{hint}")
            declared = self.controls[name]
            value = declared.stands_for if value is None and declared.stands_for is not None else value
            if name == "as_of" and value is not None:
                value = moment_of(value)
            declared.check(value, f"panels.{self.title}")
            state = state.but(self._section_of(name), **{name: value})
        self._check(state)
        self.session.go(state)

    def _section_of(self, name: str) -> str:
        return ASKED if name in self.asks else self.section

    def _check(self, state: State) -> None:
        """Work out the answer of a state, so that one which has none is never reached."""
        needs = self._needs(state)
        if self._kept[0] != needs:
            self._kept = (needs, self._answer(state))

    @property
    def answer(self) -> Any:
        """What the values give, worked out when they change."""
        self._check(self.session.state)
        return self._kept[1]

    @property
    def result(self) -> pa.Table:
        """The table on the screen."""
        return _table(self.answer)

    @property
    def code(self) -> str:
        """The line of Python that gives `result` again."""
        return self._code(self.session.state)

    @property
    def marks(self) -> Picture:
        """The picture as data: what the page, `picture` and `export` draw."""
        answer = self.answer
        known, picture = self._drawn
        if known is not answer or picture is None:
            picture = self._picture(answer)
            self._drawn = (answer, picture)
        return picture

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
        """Make again what was undone last; False where nothing was."""
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
            self.set(**{name: self._first[self._section_of(name)].get(name) for name in self.controls})
        else:
            self.set(**{name: value for name, value in preset.items() if name in self.declared})

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Values of the source documents, and recommended ones, for its parameters, by the name of the preset."""
        if self.written_as == "retriever":
            return RETRIEVER
        if self.written_as == "context":
            return {"memory_v2": memory_v2_context}
        return {name: known[self.section] for name, known in POLICY.items() if self.section in known}

    @property
    def profile(self) -> Profile:
        """The parameters of the panel as they stand, to be saved with ``.save(path)``."""
        own = {name: value for name, value in self.params.items() if value != self.declared[name].default}
        sections: dict[str, Any] = {self.written_as: own} if self.written_as else {"policies": {self.section: own}}
        return Profile(**sections)

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
        read = Profile.load(path)
        found = getattr(read, self.written_as) if self.written_as else read.policies.get(self.section, {})
        usual = {name: declared.default for name, declared in self.declared.items()}
        self.set(**{**usual, **{name: value for name, value in found.items() if name in usual}})

    def export(self, path: Path | str) -> Path:
        """Write the panel as it stands as one page, that needs no kernel and no network.

        Returns
        -------
        Path
        """
        body = self._page(f"<figure>{self.hide.in_html(self.marks.svg)}</figure>")
        return write_page(path, self.title, body, style=_ALONE)

    @property
    def html(self) -> str:
        """The panel as it stands: values, code, picture and table, without anything live, as a notebook keeps it."""
        image, words = base64.b64encode(self.picture).decode(), html.escape(self.hide(self.words))
        return self._page(f'<img alt="{words}" src="data:image/png;base64,{image}" style="max-width:100%">')

    def _page(self, picture: str) -> str:
        own = {name: self.hide(str(value)) for name, value in self.values.items() if value not in (None, "")}
        rows = "".join(f"<tr><td>{html.escape(n)}</td><td>{html.escape(v)}</td></tr>" for n, v in own.items())
        status, code = (html.escape(self.hide(text)) for text in (self.status, self.code))
        return (
            f'<div class="mk"><style>{STYLE}</style><p><b>{html.escape(self.title)}</b> {status}</p>'
            f"<p><code>{code}</code></p>"
            f'{picture}</div><div class="mk">{self.strip_html}</div>{self.body}'
            '<div class="mk"><details aria-label="values"><summary>values</summary>'
            f"<table>{rows}</table></details></div>"
        )

    @property
    def hide(self) -> Mask:
        """What hides the secrets of all that is shown: of the table and of what is asked."""
        answer = self.answer
        if self._hiding[0] is not answer:
            self._hiding = (answer, Mask(self._read(answer)))
        for value in self.values.values():
            self._hiding[1].learn(value if isinstance(value, str) else "")
        return self._hiding[1]

    def _read(self, answer: Any) -> Iterator[str]:
        """The texts that may be shown of an answer."""
        return texts_in(_table(answer).slice(0, _LOOKED_AT).to_pylist())

    @property
    def status(self) -> str:
        """One line on what is shown."""
        return self._status(self.answer)

    @property
    def strip_html(self) -> str:
        """The HTML under the sliders."""
        return self.hide.in_html(self._strip(self.answer))

    @property
    def body(self) -> str:
        """The HTML below the picture."""
        return self.hide.in_html(self._body(self.answer))

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.hide(self.code)}"

    # What the page asks for.

    def spec(self) -> dict[str, Any]:
        """Its controls and buttons, as the page makes them."""
        controls = [control(declared) for declared in self.controls.values()]
        own = {
            "asked": [one for one in controls if one["name"] in self.asks],
            self.section: [one for one in controls if one["name"] not in self.asks],
        }
        groups = [{"name": name, "controls": some} for name, some in own.items() if some]
        actions = [{"name": name, "label": label, "key": key} for name, label, key in (*self.actions, *self.common)]
        known = {"profile": bool(self.declared), "presets": list(self.presets), "reads": self.reads}
        return {"title": self.title, "groups": groups, "actions": actions, **known}

    def press(self, action: str) -> None:
        """Do what a button does."""
        common: dict[str, Any] = {"undo": self.undo, "redo": self.redo, "reset": self.reset}
        if action in common:
            common[action]()
        elif any(action == name for name, _, _ in self.actions):
            self._tell_of(self._press, action)
        else:
            raise MemkitError(f"panel: expected one of its buttons. Got {action!r}.")

    def pick(self, row: str) -> None:
        """Do what Enter on a row does."""
        self._tell_of(self._pick, row)

    def _tell_of(self, act: Callable[[str], None], name: str) -> None:
        """Act; who shows the panel hears of it, also where no state changed, as when a pair is judged."""
        state = self.session.state
        act(name)
        if self.session.state is state:
            self.session.tell()


def left_after(form: str, days: float, floor: float) -> str:
    """What the time of a form of decay means.

    >>> left_after("half_life", 60, 0)
    'half-life: left after 60 days: 50 %'
    >>> left_after("e_folding", 60, 0)
    'e-folding: left after 60 days: 37 %'
    """
    if form == "none":
        return "no decay: age changes no score"
    left = factors(np.array([float(days)]), form, days, floor)[0]
    return f"{form.replace('_', '-')}: left after {days:g} days: {100 * left:.0f} %"


def moment_of(as_of: AsOf) -> str:
    """The moment as a panel keeps it: fixed when it is made, so that its code gives the same table tomorrow."""
    return str(Moment.of(as_of))


class Name(str):
    """The name of a variable, in code that is shown."""

    __slots__ = ()
    __repr__ = str.__str__


def called(name: str, *given: Any, **values: Any) -> str:
    """A call in Python.

    >>> called("search", Name("query"), k=5, where=None)
    'search(query, k=5, where=None)'
    """
    words = [*map(repr, given), *(f"{key}={value!r}" for key, value in values.items())]
    return f"{name}({', '.join(words)})"


def changed(estimator: Estimator, values: Section) -> dict[str, Any]:
    """The values that are others than those of `estimator`."""
    return {name: value for name, value in values.items() if getattr(estimator, name) != value}


def _table(answer: Any) -> pa.Table:
    return answer if isinstance(answer, pa.Table) else answer.table
