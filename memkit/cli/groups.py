"""Options that several verbs share: fields of a dataclass, which a verb takes as one argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter
from typing import Any, get_type_hints


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Turn a verb that takes dataclasses into one that typer reads: an option for each of their fields.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Shared:
    ...     size: int = 3
    >>> def verb(text: str, shared: Shared) -> None:
    ...     print(text, shared)
    >>> inspect.signature(grouped(verb))
    <Signature (*, text: str, size: int = 3)>
    >>> grouped(verb)(text="чай", size=4)
    чай Shared(size=4)
    """
    parameters = inspect.signature(verb, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }

    @functools.wraps(verb)
    def call(**values: Any) -> None:
        made = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        verb(**made, **values)

    options = [option for name, each in parameters.items() for option in _options(each, groups.get(name))]
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # which typer reads
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _options(parameter: Parameter, group: Any) -> Iterator[Parameter]:
    if group is None:
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        default = Parameter.empty if each.default is MISSING else each.default
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[each.name])
