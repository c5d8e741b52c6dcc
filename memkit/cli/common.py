"""Shared by the verbs: the app, common options, how a corpus and a Retriever are made, and how results are printed for
a person or, as JSON, for a machine.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

import memkit
from memkit.base import imported, names_in_stub
from memkit.base.duck import printable, rows_of, use_one_thread
from memkit.base.params import Param, check_choice, describe, hint_of, path_of
from memkit.base.plugins import check_there
from memkit.display.draw import Shown, shown
from memkit.display.sheet import safe, visible
from memkit.errors import MemkitError, ParameterError, count_of
from memkit.formats.rows import SEVERITIES, tally
from memkit.text.secrets import Mask

if TYPE_CHECKING:
    import duckdb

    from memkit.evaluation.profile import Profile
    from memkit.search.retriever import Retriever
    from memkit.tables.corpus import Corpus


out = Console()
# A round bound of what a terminal shows; --json has all rows.
_ROWS = 200


def show(
    result: Any,
    as_json: bool,
    columns: list[str] | None = None,
    rows: int = _ROWS,
    memories: pa.Table | None = None,
) -> None:
    """Print a result for a person, without what `memories` call a secret, or with `as_json` a table for a machine."""
    if as_json:
        print_json(result)
        return
    page = shown(result, rows=rows, columns=columns, hint="--json prints all")
    if memories is not None:
        page = Shown(*page.sheets, memories=memories)
    print(page.text(out.width, out.is_terminal and not out.no_color))


def print_json(table: pa.Table | duckdb.DuckDBPyRelation) -> None:
    """Print the rows as one JSON array."""
    printed, before = printable(table), "["
    names = printed.columns
    for row in printed.fetchall():
        plain = dict(zip(names, map(_plain, row), strict=True))
        # One by one: as one text, all rows of a large digest take a third more memory.
        print(before, json.dumps(plain, ensure_ascii=False, indent=1).replace("\n", "\n "), sep="\n ", end="")
        before = ","
    print("[]" if before == "[" else "\n]")


def _plain(value: Any) -> Any:
    """`value` as JSON: ISO times, null for NaN, text for a number that a double cannot hold."""
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return repr(value)[2:-1]
    return value if value is None or isinstance(value, (str, int)) else str(value)


def show_problems(problems: pa.Table, memories: int, most: int, hide: Mask, secrets: int, path: Path) -> None:
    """Print `problems` by rule, at most `most` of each, then how many there are, unlisted secrets included."""
    by_rule: dict[tuple[str, str], list[str]] = {}
    for row in problems.to_pylist():
        by_rule.setdefault((row["severity"], row["rule"]), []).append(row["message"])
    for (severity, rule), messages in sorted(by_rule.items(), key=_worst_first):
        out.print(Text(f"{severity}  {rule}  ({len(messages)})", style="bold " + _STYLES[severity]))
        for message in messages[:most]:
            out.print(Text(f"  {visible(hide(message))}"), soft_wrap=True)
        if len(messages) > most:
            out.print(Text(f"  … and {len(messages) - most} more (--json lists all)", style="dim"))
    unlisted = [SEVERITIES["secret"]] * secrets
    counted = tally([*problems["severity"].to_pylist(), *unlisted])
    out.print(Text(f"{count_of(memories, 'memory')} read. {counted}."))
    if secrets:
        typed = visible(f"memkit check {shlex.quote(str(path))} --secrets")
        found = f"{secrets} of these {'is a secret' if secrets == 1 else 'are secrets'} in memories"
        out.print(Text(f"{found}: {typed} lists where."), soft_wrap=True)


def _worst_first(item: tuple[tuple[str, str], list[str]]) -> tuple[int, int, str]:
    (severity, rule), messages = item
    return list(_STYLES).index(severity), -len(messages), rule


_STYLES = {"error": "red", "warning": "yellow", "info": "blue"}


_SUMMARY = """
    select {kind} as kind, keep, reason, count(*) as rows, {factor} min({example}) as example
    from input group by all order by all
"""


def summary(annotated: pa.Table) -> pa.Table:
    """The verdicts by kind and reason: kind, keep, reason, rows, an example, and the mean factor where there is one.

    Examples
    --------
    >>> rows = {"kind": ["note", "note"], "keep": [True, False], "reason": [None, "limit"], "text": ["a", "b"]}
    >>> summary(pa.table(rows)).select(["keep", "reason", "rows"]).to_pylist()
    [{'keep': False, 'reason': 'limit', 'rows': 1}, {'keep': True, 'reason': None, 'rows': 1}]
    """
    names = annotated.column_names
    parts = {
        "kind": next((name for name in ("kind", "category") if name in names), "''"),
        "factor": "round(avg(factor), 3) as mean_factor," if "factor" in names else "",
        "example": r"left(regexp_replace(trim(text), '\s+', ' ', 'g'), 300)" if "text" in names else "file",
    }
    return describe(rows_of(_SUMMARY.format_map(parts), input=annotated), memkit="verdicts")


_FEW = 5_000
"""Memories that one thread handles in less processor time than several."""


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Turn a verb that takes dataclasses into one that typer reads: options that verbs share are their fields.

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


def as_path(text: str) -> Path:
    try:
        return path_of("PATH", text)
    except ParameterError as error:  # typer would show the value alone for a ValueError
        raise MemkitError(str(error)) from error


PathArgument = Annotated[
    Path, typer.Argument(help="A folder of memories, one file, or a saved corpus.", parser=as_path, metavar="PATH")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON array of row objects, nothing else.")]
AsOfOption = Annotated[str | None, typer.Option("--as-of", help="The date to look at, ISO 8601; default now.")]
FormatsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--formats",
        help="A format of an installed package, tried before memkit's own; may be repeated.",
        metavar="NAME",
    ),
]
RevOption = Annotated[
    str | None,
    typer.Option("--rev", help="Read the folder as it was: a commit, branch or tag of git, or a date.", metavar="REV"),
]
HiddenOption = Annotated[
    str, typer.Option("--hidden", help="Read files whose names begin with a dot: known places, all, or none.")
]
DatesOption = Annotated[
    str | None, typer.Option("--dates", help="Date memories without a date from git or from mtime, the files' times.")
]
JsonRowsOption = Annotated[
    bool,
    typer.Option("--json-rows", help="Read JSON of any shape that has a text, whatever its size, transcripts too."),
]
InstructionsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--instructions",
        help="A file that the host loads beside the memory, such as AGENTS.md: what it says already is reported; may be"
        " repeated.",
        metavar="FILE",
    ),
]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Write a self-contained HTML page.")]
SinceOption = Annotated[
    str, typer.Option("--since", help="The beginning of the span: a date, or how long before its end (7d, 2w, 12h).")
]
PresetOption = Annotated[
    str | None, typer.Option(help="Named parameters: workspace, memory_v2, recommended_use or recommended_e5.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set a parameter, NAME=VALUE; may be repeated.", metavar="NAME=VALUE"),
]
# Some eight seconds with `use`, at 265 texts a second on two cores.
ENCODE_LIMIT = 2_000
"""New texts that a verb encodes before it answers; of more, `memkit encode` makes the vectors."""
EncodeLimitOption = Annotated[
    int,
    typer.Option(
        "--encode-limit",
        help="Where more texts than these are new, answer by words and letters; `memkit encode` adds meaning.",
        min=0,
    ),
]
ProfileOption = Annotated[
    Path | None, typer.Option("--profile", help="Tuned settings: a TOML or JSON file of mk.Profile.")
]


@dataclass(frozen=True)
class Reading:
    """How the verbs that read any folder read it; see `memkit.read`."""

    formats: FormatsOption = None
    rev: RevOption = None
    hidden: HiddenOption = "known"
    dates: DatesOption = None
    json_rows: JsonRowsOption = False


def load(
    path: Path,
    reading: Reading = Reading(),
    as_of: str | None = None,
    instructions: list[Path] | None = None,
    *,
    to_fit: bool = False,
) -> Corpus:
    """The corpus at `path`: opened if it is a saved corpus, else read from the files, now or at a revision.

    What is read is kept in the user's cache; what is read `to_fit` a search is kept with its arms.
    """
    from memkit.tables.corpus import open_lake, read
    from memkit.tables.lake import is_bucketed, is_lake

    if is_lake(path) or is_bucketed(path):
        if reading.rev is not None:
            raise ParameterError(f"--rev: expected a folder of a git repository. Got a saved corpus, {path}.")
        return open_lake(path)
    corpus = read(
        path,
        as_of=as_of,
        formats=reading.formats or (),
        rev=reading.rev,
        hidden=reading.hidden,
        dates=reading.dates,
        json="rows" if reading.json_rows else None,
        instructions=instructions or (),
        progress=True,
        cache="fit" if to_fit else True,
    )
    if corpus.memories.num_rows <= _FEW:
        use_one_thread()
    return corpus


def public(name: str) -> Any:
    """What memkit calls so; some of it lies outside of the core.

    Raises
    ------
    ParameterError
        Where this process leaves it out.
    """
    module, attribute = names_in_stub(memkit.__file__)[name]
    check_there(f"mk.{name}", module)
    return imported("memkit", module, attribute)


_OPTIONS = {"encode_limit": " It is an option of search, context and serve: --encode-limit."}
"""What looks like a parameter and is an option of its own."""


def settings(declared: Mapping[str, Param], pairs: list[str] | None, owner: str) -> dict[str, Any]:
    """The parameters that ``--set`` names, parsed and checked by their declarations.

    Raises
    ------
    ParameterError
        For a pair without '=', an unknown name, or an invalid value.
    """
    values: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or name not in declared:
            hint = "" if name in declared else _OPTIONS.get(name) or hint_of(name, declared)
            raise ParameterError(f"--set: expected NAME=VALUE, NAME one of {', '.join(declared)}. Got {pair!r}.{hint}")
        values[name] = declared[name].parse(text)
        declared[name].check(values[name], owner)
    return values


def wanted(preset: str | None, sets: list[str] | None, profile: Path | None = None) -> Retriever:
    """A Retriever, not fitted: defaults, then a preset or a profile, then ``--set``."""
    from memkit.search.retriever import Retriever

    chosen, loaded = preset_values(preset), profile_of(profile, preset)
    given = settings(Retriever.all_params(), sets, "Retriever")
    return Retriever(**chosen).set_params(**{**(loaded.retriever if loaded else {}), **given})


def fitted(search: Retriever, corpus: Corpus, profile: Path | None = None, encode: str | int = "now") -> Retriever:
    """`search` over `corpus`, which may not be what its profile was measured on."""
    console = Console(stderr=True)
    with console.status("indexing …") if console.is_terminal else nullcontext():
        search.fit(corpus, encode=encode)
    loaded = profile_of(profile)
    for difference in loaded.differences(search) if loaded else ():
        print(f"memkit: {profile}: {safe(difference)}", file=sys.stderr)
    return search


def say_waiting(search: Retriever, path: Path) -> None:
    """Say on standard error where meaning does not count yet, and what changes that."""
    from memkit.index.cache import shared_cache

    remedy = f"memkit encode {shlex.quote(str(path))} encodes them"
    if shared_cache().folder is None:
        remedy = "--encode-limit encodes more at once, as MEMKIT_CACHE keeps no vectors"
    if note := search.index_.waiting_note(remedy):
        print(safe(f"memkit: {note}"), file=sys.stderr)


def preset_values(preset: str | None) -> dict[str, Any]:
    """The parameters of `Retriever` that ``--preset`` names."""
    if preset is None:
        return {}  # without what presets import
    from memkit import presets

    check_choice("--preset", preset, presets.RETRIEVER, "search")
    return dict(presets.RETRIEVER[preset])


def profile_of(path: Path | None, preset: str | None = None) -> Profile | None:
    """The profile that ``--profile`` names."""
    if path is None:
        return None
    if preset is not None:
        raise ParameterError("expected --preset or --profile. Got both: a profile names every parameter.")
    from memkit.evaluation.profile import Profile

    return Profile.load(path)


def policy_values(path: Path | None, names: Iterable[str], preset: str | None = None) -> dict[str, dict[str, Any]]:
    """A profile's parameters of policies, by name; policies without any are named on standard error."""
    loaded = profile_of(path, preset)
    values = {name: loaded.policy(name) if loaded else {} for name in names}
    if loaded and (silent := [name for name, chosen in values.items() if not chosen]):
        print(f"memkit: {path}: has no parameters for {', '.join(silent)}", file=sys.stderr)
    return values
