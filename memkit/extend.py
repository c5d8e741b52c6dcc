"""What memkit can be given: formats, adapters of records, steps of search, encoders, policies, engines; and the parts.

A format, an adapter, a step, an encoder or a policy becomes known by `register`; an engine such as `Milvus` is given to
a Retriever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from memkit.base.params import Param
from memkit.errors import ParameterError
from memkit.formats.facts import format_fact, parse_fact
from memkit.formats.format import Format
from memkit.formats.owner import Owner
from memkit.formats.records.adapters import Adapter, forget_adapter, register_adapter
from memkit.formats.registry import forget_format, known_formats, register_format
from memkit.index.encode import as_encoder, forget_encoder, register_encoder
from memkit.policy.catalogue import forget_policy, register_policy
from memkit.scale.buckets import write_buckets
from memkit.scale.milvus import Milvus
from memkit.search.explain import contributions
from memkit.search.settings import forget_step, register_step
from memkit.search.step import Factor, Step
from memkit.tables.statement import Annotator
from memkit.text.analyse import analyse
from memkit.text.chunk import Chunker
from memkit.text.snippet import snippet

__all__ = [
    "Adapter",
    "Chunker",
    "Factor",
    "Format",
    "Milvus",
    "Owner",
    "Param",
    "Step",
    "analyse",
    "as_encoder",
    "contributions",
    "format_fact",
    "known_formats",
    "parse_fact",
    "register",
    "snippet",
    "unregister",
    "write_buckets",
]

_Thing = TypeVar("_Thing", bound="Format | Adapter | Step | Callable[[], Any]")


class _Door(NamedTuple):
    """How things of one kind become known: what it is, in words; a test; and how it is taken and forgotten by name."""

    what: str
    takes: Callable[[Any], bool]
    take: Callable[[Any], object]
    forget: Callable[[Any], None]
    has_name: bool = True


def _is_policy(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Annotator)


_DOORS = (
    _Door("a Format", lambda thing: isinstance(thing, Format), register_format, forget_format),
    _Door("an Adapter", lambda thing: isinstance(thing, Adapter), register_adapter, forget_adapter, has_name=False),
    _Door("a Step", lambda thing: isinstance(thing, Step), register_step, forget_step),
    _Door("the class of a policy", _is_policy, register_policy, forget_policy),
)
_WHAT = ", ".join(door.what for door in _DOORS)


def register(thing: _Thing, name: str | None = None) -> _Thing:
    """Make a format, an adapter of records, a step of search, an encoder or a policy of your own known in this process.

    Packages declare theirs by entry points instead: groups ``memkit.formats``, ``memkit.steps``, ``memkit.encoders``
    and ``memkit.policies``.

    Parameters
    ----------
    thing : Format, Adapter, Step, class of a policy or callable
        A Format is used by ``mk.read(folder, formats=[its name])``, an Adapter by all that is read from now on. A Step
        acts in every search from now on: its parameters are those of every Retriever, sweep and panel, its columns
        those of every trace, and explain says what it says. A policy is called by its class's name in snake case, and
        has a panel in a lab. ``thing()`` of a callable is anything that `as_encoder` takes. It takes the place of one
        of the same name.
    name : str, optional
        Of an encoder, for ``encoder=name``; a Format, a Step and a policy have their own, an Adapter none.

    Returns
    -------
    Format, Adapter, Step, class of a policy or callable
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
    door = next((door for door in _DOORS if door.takes(thing)), None)
    if door is not None:
        if name is not None:
            raise ParameterError(f"register: expected a name for an encoder only. Got {name!r} with {thing!r:.80}.")
        door.take(thing)
    elif name is None:
        expected = f"{_WHAT}, or a function that makes an encoder with name="
        raise ParameterError(f"register: expected {expected}. Got {thing!r:.80}.")
    else:
        register_encoder(name, thing)  # type: ignore[arg-type]  # it is none of the others
    return thing


def unregister(thing: Format | Adapter | Step | type[Annotator] | str) -> None:
    """Undo `register`; what was read or fitted stays as it is.

    Parameters
    ----------
    thing : Format, Adapter, Step, class of a policy or str
        What was registered, or the name of a format, a step, an encoder or a policy. Nothing happens where nothing was
        registered so.

    Examples
    --------
    >>> import memkit as mk
    >>> cards = mk.extend.Format("cards", "*.card", kinds=(), tables=(), parse=lambda file, rows: None)
    >>> _ = mk.extend.register(cards)
    >>> mk.extend.unregister("cards")
    >>> "cards" in mk.extend.known_formats()["name"].to_pylist()
    False
    """
    door = next((door for door in _DOORS if door.takes(thing)), None)
    if door is not None:
        door.forget(thing.name if door.has_name else thing)  # type: ignore[union-attr]  # the door has looked
    elif isinstance(thing, str):
        for forget in (*(door.forget for door in _DOORS if door.has_name), forget_encoder):
            forget(thing)
    else:
        raise ParameterError(f"unregister: expected {_WHAT} or a name. Got {thing!r:.80}.")
