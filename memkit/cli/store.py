"""`memkit store`: every operation of `mk.store` that writes, made from the signature and docstring of its method."""

from __future__ import annotations

import inspect
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from memkit.checked import json_object
from memkit.cli.change import DiffOption, TimezoneOption, YesOption, print_edits
from memkit.cli.common import AsOfOption, JsonOption, PathArgument, ProfileOption, app, profile_of
from memkit.cli.show import out, print_json, show
from memkit.errors import ParameterError, did_you_mean
from memkit.params import Param

if TYPE_CHECKING:
    from memkit.change.store import Store

_OPTIONS = ("now", "dry_run")
"""The arguments of every operation, which are ``--as-of`` and, turned round, ``--yes``."""
_LISTS = ("Sequence[str]", "Iterable[str]")
_MORE = Parameter.VAR_KEYWORD
Method = Callable[..., Any]


@app.command()
def store(
    path: PathArgument,
    operation: Annotated[
        str | None, typer.Argument(help="Such as facts.forget or pages.rename; without one, all are listed.")
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Its arguments; one that takes a list may be repeated.", metavar="NAME=VALUE…"),
    ] = None,
    profile: ProfileOption = None,
    timezone: TimezoneOption = None,
    as_of: AsOfOption = None,
    yes: YesOption = False,
    as_diff: DiffOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what an operation of a format would write, such as forgetting a fact or renaming a page, or with --yes do
    it; `memkit undo` takes it back."""
    from memkit.change.edits import Edits
    from memkit.change.store import store as opened

    known = dict(_operations(opened(path, timezone=timezone, profile=profile_of(profile))))
    if operation is None:
        listed = _listed(known)
        print_json(listed) if as_json else _print_listed(listed)
        return
    if operation not in known:
        hint = did_you_mean(operation, known) or f" `memkit store {shlex.quote(str(path))}` lists them."
        raise ParameterError(f"store: expected an operation. Got {operation!r}.{hint}")
    result = _called(f"store: {operation}", known[operation], arguments or [], now=as_of, dry_run=not yes)
    if isinstance(result, Edits):
        print_edits(result, as_diff, as_json)
    elif isinstance(result, pa.Table):
        show(result, as_json)
    else:
        done = result if isinstance(result, list) else [result]
        show(pa.table({"done": [str(getattr(one, "id", one)) for one in done]}), as_json)


def _operations(memory: Store) -> Iterator[tuple[str, Method]]:
    """The methods that write, by the names of their store and their own."""
    for name, operations in vars(memory).items():
        for method_name, method in inspect.getmembers(operations, inspect.ismethod):
            if not method_name.startswith("_") and "dry_run" in inspect.signature(method).parameters:
                yield f"{name}.{method_name}", method


def _listed(operations: Mapping[str, Method]) -> pa.Table:
    rows = [
        {"operation": name, "arguments": _usage(_declared(method)), "what it does": _first_sentence(method)}
        for name, method in operations.items()
    ]
    return pa.Table.from_pylist(rows)


def _print_listed(operations: pa.Table) -> None:
    """Print each operation as it is typed and below it what it does, all of it: cells of a table would be cut."""
    lines = textwrap.TextWrapper(out.width, break_long_words=False, break_on_hyphens=False)
    print(lines.fill(f"{operations.num_rows} operations; what stands in brackets may be left out"))
    for operation, arguments, does in zip(*operations.to_pydict().values(), strict=True):
        lines.initial_indent, lines.subsequent_indent = "", " " * 8
        print(lines.fill(f"{operation} {arguments}"))
        lines.initial_indent = lines.subsequent_indent = " " * 4
        print(lines.fill(does))


def _first_sentence(method: Method) -> str:
    return " ".join((inspect.getdoc(method) or "").partition("\n\n")[0].split())


def _declared(method: Method) -> dict[str, Parameter]:
    return {name: one for name, one in inspect.signature(method).parameters.items() if name not in _OPTIONS}


def _usage(declared: Mapping[str, Parameter]) -> str:
    """The arguments as they are typed; brackets are around what may be left out."""
    typed = {name: "NAME=…" if one.kind is _MORE else f"{name}=…" for name, one in declared.items()}
    return " ".join(text if _is_needed(declared[name]) else f"[{text}]" for name, text in typed.items())


def _is_needed(declared: Parameter) -> bool:
    return declared.default is Parameter.empty and declared.kind is not _MORE


def _called(owner: str, method: Method, pairs: Sequence[str], **options: Any) -> Any:
    """The result of `method` with arguments from NAME=VALUE, each of the type that its signature declares.

    Raises
    ------
    ParameterError
        For a pair without '=', a name that is unknown, missing or given twice, and a value of another type.
    """
    declared = _declared(method)
    usage, any_other = _usage(declared), next((one for one in declared.values() if one.kind is _MORE), None)
    texts: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name in _OPTIONS or declared.get(name, any_other) is None:
            raise ParameterError(f"{owner}: expected {usage}. Got {pair!r:.80}.{did_you_mean(name, declared)}")
        texts.setdefault(name, []).append(text)
    if missing := [name for name, one in declared.items() if _is_needed(one) and name not in texts]:
        raise ParameterError(f"{owner}: expected {usage}. Got no {missing[0]}.")
    values = {name: _value(owner, name, declared.get(name, any_other), given) for name, given in texts.items()}
    first = [values.pop(name) for name, one in declared.items() if one.kind is Parameter.POSITIONAL_ONLY]
    return method(*first, **values, **options)


def _value(owner: str, name: str, declared: Parameter | None, texts: Sequence[str]) -> Any:
    """The value of an argument: a list of words as often as it is given, an object in JSON, or one text or number."""
    kinds = str(declared.annotation if declared else "").split(" | ")
    if kinds[0] in _LISTS or (kinds[0] == "Any" and len(texts) > 1):
        return list(texts)
    if len(texts) > 1:
        raise ParameterError(f"{owner}: expected one {name}. Got {len(texts)}.")
    if kinds[0].startswith("Mapping"):
        try:
            return json_object(texts[0])
        except ValueError as error:
            got = f"{texts[0]!r:.80}: {error}"
            raise ParameterError(f"{owner}: expected {name} as a JSON object. Got {got}.") from error
    kind = kinds[0] if kinds[0] in ("bool", "int", "float") else "str"
    param = Param(default=None, kind=kind, doc="", name=name, nullable="None" in kinds)
    value = param.parse(texts[0]) if kind != "str" else texts[0]  # a text may be the word none
    param.check(value, owner)
    return value
