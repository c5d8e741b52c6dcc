"""How things of one's own become known to this process, and are forgotten again; each kind is a door."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from memkit.base.params import check_choice
from memkit.base.plugins import FUNCTIONS, Plugins
from memkit.change.draft import STORES, Operations
from memkit.context import forget_prompt, register_prompt
from memkit.errors import ParameterError
from memkit.formats.format import Format, Prompt
from memkit.formats.records.kinds import Adapter, forget_adapter, register_adapter
from memkit.formats.registry import forget_format, register_format
from memkit.formats.rules import CHECKS, Check
from memkit.index.encode import forget_encoder, register_encoder
from memkit.policy.base import forget_policy, register_policy
from memkit.search.ask import forget_step, register_step
from memkit.search.step import Step
from memkit.tables.statement import Annotator

_Thing = TypeVar("_Thing", bound="Format | Adapter | Check | Step | Prompt | Callable[..., Any]")


class _Door(NamedTuple):
    """How things of one kind become known: what it is, in words; a test; how it is taken, and forgotten by its name."""

    what: str
    takes: Callable[[Any], bool]
    take: Callable[[Any], object]
    forget: Callable[[Any], None]
    name: Callable[[Any], Any] = lambda thing: thing.name


def _is_a(base: type) -> Callable[[Any], bool]:
    return lambda thing: isinstance(thing, type) and issubclass(thing, base)


def _itself(thing: Any) -> Any:
    return thing


_Ways = tuple[Callable[[Any], object], Callable[[str], None], Callable[[Any], Any]]


def _through(plugins: Plugins[Any], attribute: str) -> _Ways:
    """How what has its name in an attribute is taken and forgotten, and what its name is."""
    name = attrgetter(attribute)
    return lambda thing: plugins.add(name(thing), thing), plugins.forget, name


_DOORS = (
    _Door("a Format", lambda thing: isinstance(thing, Format), register_format, forget_format),
    _Door("an Adapter", lambda thing: isinstance(thing, Adapter), register_adapter, forget_adapter, _itself),
    _Door("a Check", lambda thing: isinstance(thing, Check), *_through(CHECKS, "code")),
    _Door("a Step", lambda thing: isinstance(thing, Step), register_step, forget_step),
    _Door("the class of a policy", _is_a(Annotator), register_policy, forget_policy),
    _Door("the class of a store", _is_a(Operations), *_through(STORES, "policy")),
    _Door("a Prompt", lambda thing: isinstance(thing, Prompt), register_prompt, forget_prompt),
)
_WHAT = ", ".join(door.what for door in _DOORS)


def register(thing: _Thing, name: str | None = None, *, door: str | None = None) -> _Thing:
    """Make something of your own known in this process: a format, a store, a policy, a step of search, an encoder, ….

    Packages declare theirs by entry points instead: groups ``memkit.formats``, ``memkit.stores``, ``memkit.prompts``,
    ``memkit.policies``, ``memkit.steps``, ``memkit.encoders``, ``memkit.exports``, ``memkit.overviews``,
    ``memkit.panels``, ``memkit.plots``, ``memkit.queries``, ``memkit.rules``, ``memkit.before_apply`` and
    ``memkit.commands``. What memkit itself adds to its core is listed in the same way, in `memkit.base.outside`.

    Parameters
    ----------
    thing : Format, Adapter, Check, Step, Prompt, class of a policy or store, or callable
        A Format is used by ``mk.read(folder, formats=[its name])``, an Adapter and a Check by all that is read from
        now on. A Step acts in every search from now on: its parameters are those of every Retriever, sweep and panel,
        its columns those of every trace, and explain says what it says. A policy is called by its class's name in snake
        case, and has a panel in a lab. A store, a subclass of `Operations`, is an attribute of every ``mk.store(root)``
        by its ``policy``; a Prompt a value of ``ContextBuilder(host=)``. It takes the place of one of the same name.
    name : str, optional
        Of a callable; the others have their own, an Adapter none.
    door : 'exports', 'overviews', 'commands', 'panels', 'plots', 'before_apply' or 'queries', optional
        What a callable is: ``write(job)`` is a layout of `memkit.export`, a function of a corpus a table of
        `memkit.overview`, a function as Typer takes it a verb, what makes a panel one of `memkit.panels`, what gives a
        picture one of `memkit.plot`. What is called with each `memkit.Edits` before its files are written refuses them
        by an error. SQL below a comment, its question, is a query of ``corpus.named``. By default ``thing()`` is an
        encoder: anything that `as_encoder` takes.

    Returns
    -------
    Format, Adapter, Check, Step, Prompt, class of a policy or store, or callable
        The same.

    Raises
    ------
    ParameterError
        Where memkit cannot take it, or has the name itself.

    Examples
    --------
    >>> import memkit as mk
    >>> cards = mk.extend.Format("cards", "*.card", kinds=(), tables=(), parse=lambda file, rows: None)
    >>> mk.extend.register(cards) is cards
    True
    >>> _ = mk.extend.register(lambda: lambda texts: [[len(text), 1.0] for text in texts], name="lengths")
    >>> mk.extend.as_encoder("lengths").encode_query(["пул"]).shape
    (1, 2)
    >>> mk.extend.unregister(cards)
    >>> mk.extend.unregister("lengths")
    """
    taker = next((taker for taker in _DOORS if taker.takes(thing)), None)
    if taker is not None:
        if name is not None or door is not None:
            raise ParameterError(
                f"register: expected name= and door= for a function only. Got {name or door!r} with {thing!r:.80}."
            )
        taker.take(thing)
    elif name is None:
        expected = f"{_WHAT}, or a function that makes an encoder with name="
        raise ParameterError(f"register: expected {expected}. Got {thing!r:.80}.")
    elif door is not None:
        check_choice("door", door, tuple(FUNCTIONS), "register")
        FUNCTIONS[door].add(name, thing)
    else:
        register_encoder(name, thing)  # type: ignore[arg-type]  # it is none of the others
    return thing


def unregister(thing: Format | Adapter | Check | Step | Prompt | type[Annotator] | type[Operations] | str) -> None:
    """Undo `register`; what was read or fitted stays as it is.

    Parameters
    ----------
    thing : Format, Adapter, Check, Step, Prompt, class of a policy or store, or str
        What was registered, or its name. Nothing happens where nothing was registered so.

    Examples
    --------
    >>> import memkit as mk
    >>> cards = mk.extend.Format("cards", "*.card", kinds=(), tables=(), parse=lambda file, rows: None)
    >>> _ = mk.extend.register(cards)
    >>> mk.extend.unregister("cards")
    >>> "cards" in mk.extend.known_formats()["name"].to_pylist()
    False
    """
    taker = next((taker for taker in _DOORS if taker.takes(thing)), None)
    if taker is not None:
        taker.forget(taker.name(thing))
    elif isinstance(thing, str):
        for forget in (*(taker.forget for taker in _DOORS if taker.name is not _itself), forget_encoder):
            forget(thing)
        for plugins in FUNCTIONS.values():
            plugins.forget(thing)
    else:
        raise ParameterError(f"unregister: expected {_WHAT} or a name. Got {thing!r:.80}.")
