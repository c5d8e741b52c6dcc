"""What memkit can be given: formats, steps between versions of records, encoders, engines; and the parts to make them.

A format, an adapter or an encoder becomes known by `register`; an engine such as `Milvus` is given to a Retriever.
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
from memkit.scale.milvus import Milvus
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
    """Make a format, an adapter of records or an encoder of your own known in this process.

    Packages declare theirs by entry points instead: groups ``memkit.formats`` and ``memkit.encoders``.

    Parameters
    ----------
    thing : Format, Adapter or callable
        A Format is used by ``mk.read(folder, formats=[its name])``, an Adapter by all that is read from now on;
        ``thing()`` of a callable is anything that `as_encoder` takes. It takes the place of one of the same name.
    name : str, optional
        Of an encoder, for ``encoder=name``; a Format has its own, an Adapter none.

    Returns
    -------
    Format, Adapter or callable
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
    if isinstance(thing, Format | Adapter):
        if name is not None:
            raise ParameterError(f"register: expected a name for an encoder only. Got {name!r} with {thing!r:.80}.")
        register_format(thing) if isinstance(thing, Format) else register_adapter(thing)
    elif name is None:
        expected = "a Format, an Adapter, or a function that makes an encoder with name="
        raise ParameterError(f"register: expected {expected}. Got {thing!r:.80}.")
    else:
        register_encoder(name, thing)
    return thing


def unregister(thing: Format | Adapter | str) -> None:
    """Undo `register`; what was read or fitted stays as it is.

    Parameters
    ----------
    thing : Format, Adapter or str
        What was registered, or the name of a format or an encoder. Nothing happens where nothing was registered so.

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
    elif isinstance(thing, str):
        forget_format(thing)
        forget_encoder(thing)
    else:
        raise ParameterError(f"unregister: expected a Format, an Adapter or a name. Got {thing!r:.80}.")
