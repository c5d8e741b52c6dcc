"""What memkit can be given: formats, adapters of records, encoders, policies, engines; and the parts to make them.

A format, an adapter, an encoder or a policy becomes known by `register`; an engine such as `Milvus` is given to a
Retriever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from memkit.errors import ParameterError
from memkit.formats.facts import format_fact, parse_fact
from memkit.formats.format import Format
from memkit.formats.owner import Owner
from memkit.formats.records.adapters import Adapter, forget_adapter, register_adapter
from memkit.formats.registry import forget_format, known_formats, register_format
from memkit.index.encode import as_encoder, forget_encoder, register_encoder
from memkit.policy.catalogue import forget_policy, register_policy
from memkit.scale.milvus import Milvus
from memkit.tables.statement import Annotator
from memkit.text.analyse import analyse
from memkit.text.chunk import Chunker
from memkit.text.snippet import snippet

__all__ = [
    "Adapter",
    "Chunker",
    "Format",
    "Milvus",
    "Owner",
    "analyse",
    "as_encoder",
    "format_fact",
    "known_formats",
    "parse_fact",
    "register",
    "snippet",
    "unregister",
]

_Thing = TypeVar("_Thing", bound="Format | Adapter | Callable[[], Any]")


def register(thing: _Thing, name: str | None = None) -> _Thing:
    """Make a format, an adapter of records, an encoder or a policy of your own known in this process.

    Packages declare theirs by entry points instead: groups ``memkit.formats``, ``memkit.encoders`` and
    ``memkit.policies``.

    Parameters
    ----------
    thing : Format, Adapter, class of a policy or callable
        A Format is used by ``mk.read(folder, formats=[its name])``, an Adapter by all that is read from now on; a
        policy is called by its class's name in snake case, and has a panel in a lab; ``thing()`` of a callable is
        anything that `as_encoder` takes. It takes the place of one of the same name.
    name : str, optional
        Of an encoder, for ``encoder=name``; a Format and a policy have their own, an Adapter none.

    Returns
    -------
    Format, Adapter, class of a policy or callable
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
    is_policy = isinstance(thing, type) and issubclass(thing, Annotator)
    if is_policy or isinstance(thing, Format | Adapter):
        if name is not None:
            raise ParameterError(f"register: expected a name for an encoder only. Got {name!r} with {thing!r:.80}.")
        add: Any = register_policy if is_policy else register_format if isinstance(thing, Format) else register_adapter
        add(thing)
    elif name is None:
        expected = "a Format, an Adapter, the class of a policy, or a function that makes an encoder with name="
        raise ParameterError(f"register: expected {expected}. Got {thing!r:.80}.")
    else:
        register_encoder(name, thing)
    return thing


def unregister(thing: Format | Adapter | type[Annotator] | str) -> None:
    """Undo `register`; what was read or fitted stays as it is.

    Parameters
    ----------
    thing : Format, Adapter, class of a policy or str
        What was registered, or the name of a format, an encoder or a policy. Nothing happens where nothing was
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
    if isinstance(thing, Adapter):
        forget_adapter(thing)
    elif isinstance(thing, Format):
        forget_format(thing.name)
    elif isinstance(thing, type) and issubclass(thing, Annotator):
        forget_policy(thing.name)
    elif isinstance(thing, str):
        for forget in (forget_format, forget_encoder, forget_policy):
            forget(thing)
    else:
        expected = "a Format, an Adapter, the class of a policy or a name"
        raise ParameterError(f"unregister: expected {expected}. Got {thing!r:.80}.")
