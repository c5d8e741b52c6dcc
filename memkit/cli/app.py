"""The command line: the library's verbs, the same words, ``--json`` on each for machines.

Exit codes: 0 fine, 1 `check` found errors, 2 wrong usage or unreadable input (one line on standard error).
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich.text import Text
from typer.main import get_command_name
from typer.models import CommandInfo

from memkit.base.params import check_choice
from memkit.base.plugins import COMMANDS
from memkit.cli.common import (
    ENCODE_LIMIT,
    AsOfOption,
    EncodeLimitOption,
    FormatsOption,
    HtmlOption,
    InstructionsOption,
    JsonOption,
    PathArgument,
    PresetOption,
    ProfileOption,
    Reading,
    SetOption,
    fitted,
    grouped,
    load,
    out,
    policy_values,
    print_json,
    profile_of,
    public,
    say_waiting,
    settings,
    show,
    show_problems,
    summary,
    wanted,
)
from memkit.cli.root import app
from memkit.display.sheet import safe, visible
from memkit.errors import MemkitError, ParameterError, count_of, did_you_mean
from memkit.schemas import WORDS

if TYPE_CHECKING:
    from memkit.tables.corpus import Corpus

__all__ = ["app"]


_CACHED = pa.schema([("kept", pa.string()), ("bytes", pa.int64()), ("used", pa.timestamp("s", "UTC"))])


@app.command()
@grouped
def check(
    path: PathArgument,
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
    most: Annotated[int, typer.Option(help="Maximum problems shown per rule.", min=1)] = 5,
    secrets: Annotated[
        bool,
        typer.Option("--secrets", help="List where keys, tokens and passwords are; without it they are only counted."),
    ] = False,
    *,
    reading: Reading,
    instructions: InstructionsOption = None,
) -> None:
    """Print the problems of a folder, grouped by rule; exit code 1 if there are errors."""
    from memkit.tables.secrets import secrets_in

    corpus = load(path, reading, as_of=as_of, instructions=instructions)
    secrets_found, hide = secrets_in(corpus.memories)
    problems = pa.concat_tables([corpus.problems, secrets_found]) if secrets else corpus.problems
    if as_json:
        print_json(problems)
    else:
        unlisted = 0 if secrets else secrets_found.num_rows
        show_problems(problems, corpus.memories.num_rows, most, hide, unlisted, path)
    raise typer.Exit(1 if "error" in problems["severity"].to_pylist() else 0)


@app.command()
@grouped
def overview(
    path: PathArgument,
    page: HtmlOption = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare all texts, also those of more than 20,000,000 characters.")
    ] = False,
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
    *,
    reading: Reading,
    instructions: InstructionsOption = None,
    is_watched: Annotated[
        bool, typer.Option("--watch", help="Show it again after each save in the folder, until Control-C.")
    ] = False,
) -> None:
    """Summarise a folder: its contents, its problems, and what to call next."""
    from memkit.corpus_overview import overview as look

    def shown(corpus: Corpus) -> None:
        result = look(corpus, exact=exact, as_of=as_of)
        if page is not None:
            result.report(page, title=f"Overview of {path.resolve().name}")
        show(result.table if as_json else result.with_commands(path), as_json)
        sys.stdout.flush()  # whoever reads a pipe sees it now, not when the watch ends

    corpus = load(path, reading, instructions=instructions)
    if not is_watched:
        shown(corpus)
        return
    with public("watch")(corpus) as watched:
        shown(corpus)
        for change in watched:
            print(f"memkit: {change}", file=sys.stderr)
            if change.paths:
                shown(change.corpus)
    raise typer.Exit(2)  # the folder is gone: an interrupt leaves by another way


@app.command()
@grouped
def sql(
    path: PathArgument,
    query: Annotated[str, typer.Argument(help="DuckDB SQL, or the name of a named query (`memkit queries`).")],
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
    *,
    reading: Reading,
) -> None:
    """Query a folder in SQL; fts('words', k := 5) searches its text."""
    from memkit.tables.database import named_queries, needs_history
    from memkit.tables.lake import is_lake

    is_history = needs_history(query) and not is_lake(path)
    corpus = public("history")(path, reading.rev or "HEAD").corpus if is_history else load(path, reading)
    names = named_queries()["name"].to_pylist()
    # Of a misspelt name named() says what is meant.
    named = query in names or (query.isidentifier() and did_you_mean(query, names) != "")
    result = corpus.named(query, as_of) if named else corpus.sql(query)
    if result is None:  # a statement without rows
        result = corpus.sql("select 'done' as status")
    show(result, as_json, memories=corpus.memories)


@app.command()
@grouped
def search(
    path: PathArgument,
    query: Annotated[str, typer.Argument(help="The query, in any language.")],
    k: Annotated[int, typer.Option("-k", help="Maximum number of hits.", min=1)] = 10,
    where: Annotated[str | None, typer.Option(help="A SQL predicate over memories; filters before the top k.")] = None,
    as_of: AsOfOption = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Search memories of this user and those without a user; default all.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help="Only notes that apply to this file (its path), area:<name> or global.")
    ] = None,
    trace: Annotated[bool, typer.Option(help="Show every candidate with its scores at each stage.")] = False,
    preset: PresetOption = None,
    profile: ProfileOption = None,
    columns: Annotated[
        str | None, typer.Option(help="Show only these columns of hits or memories: rank,title,…")
    ] = None,
    sets: SetOption = None,
    encode_limit: EncodeLimitOption = ENCODE_LIMIT,
    as_json: JsonOption = False,
    *,
    reading: Reading,
) -> None:
    """Search a folder by words and by meaning; the parameters are those of mk.Retriever."""
    from memkit.search.show import retold

    retriever = fitted(wanted(preset, sets, profile), load(path, reading, to_fit=True), profile, encode_limit)
    ask = retriever.trace if trace else retriever.search
    table = ask(query, k=k, where=where, as_of=as_of, user_id=user, scope=scope)
    table = retold(table, retriever.index_, "")
    say_waiting(retriever, path)
    if columns is not None:
        table = _chosen(table, retriever.corpus_.memories, [name.strip() for name in columns.split(",")])
    elif as_json:
        arms = list(json.loads((table.schema.metadata or {})[b"arms"]))
        table = table.append_column("arms", pa.array([arms] * table.num_rows, WORDS))
    show(table, as_json, None if columns is None else table.column_names, memories=retriever.corpus_.memories)


@app.command()
@grouped
def encode(
    path: PathArgument,
    preset: PresetOption = None,
    profile: ProfileOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
    *,
    reading: Reading,
) -> None:
    """Fill the cache of vectors with a folder's texts, so that search finds them by meaning; it may be interrupted.

    What is encoded is kept as it goes, and the next call goes on from there. Give the options of the searches to come.
    """
    from memkit.index.cache import shared_cache

    if (folder := shared_cache().folder) is None:
        raise ParameterError(
            "encode: expected a folder that keeps vectors. Got none: MEMKIT_CACHE turns it off, or others may write"
            " there. Set MEMKIT_CACHE to a folder of your own."
        )
    begun = perf_counter()
    search = fitted(wanted(preset, sets, profile), load(path, reading, to_fit=True), profile, "later")
    index = search.encode().index_.whole
    if "vector" not in index.arms:
        why = index.absent.get("vector", "vector_weight is 0")
        raise ParameterError(f"encode: expected a search by meaning. Got none: {why}.")
    if failed := shared_cache().failed:
        raise MemkitError(f"encode: expected to keep vectors. Got {failed}")
    row = {"texts": len(index.texts), "encoder": index.fingerprint, "seconds": round(perf_counter() - begun, 1)}
    if as_json:
        print_json(pa.Table.from_pylist([row | {"folder": str(folder)}]))
    else:
        texts = count_of(len(index.texts), "text has", "texts have")
        print(safe(f"{texts} vectors of {index.fingerprint}, kept in {folder}."))


def _chosen(hits: pa.Table, memories: pa.Table, names: list[str]) -> pa.Table:
    """These columns of the hits, taken from their memories where hits lack them."""
    from memkit.search.show import with_memories

    return with_memories(hits, memories, names, "search: --columns").select(names).replace_schema_metadata(None)


@app.command()
@grouped
def policy(
    name: Annotated[
        str, typer.Argument(help="admission, classifier, deduplicator, quota, expiry, decay, index_check, split_plan.")
    ],
    path: PathArgument,
    as_of: AsOfOption = None,
    preset: Annotated[
        str | None, typer.Option(help="The parameters of a document: memory_v2 or index_standard.")
    ] = None,
    profile: ProfileOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
    *,
    reading: Reading,
) -> None:
    """Show which memories a policy keeps, and why it refuses the others; nothing is deleted."""
    from memkit import presets
    from memkit.policy.base import policy_class

    cls = policy_class(name)
    values = policy_values(profile, [cls.name], preset)[cls.name]
    if preset is not None:
        check_choice(
            "--preset", preset, [name for name, policies in presets.POLICY.items() if cls.name in policies], "policy"
        )
        values = presets.POLICY[preset][cls.name]
    judge = cls(**values).set_params(**settings(cls.params(), sets, cls.__name__))
    _judge(judge, load(path, reading), as_of, as_json)


@app.command()
def pipeline(
    path: PathArgument,
    as_of: AsOfOption = None,
    preset: Annotated[str, typer.Option(help="The document: memory_v2 or index_standard.")] = "memory_v2",
    profile: ProfileOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Show which memories a document's policies keep together; --set takes POLICY__NAME=VALUE."""
    from memkit import presets

    check_choice("--preset", preset, presets.PIPELINES, "pipeline")
    steps = presets.preset_pipeline(preset)
    overrides = policy_values(profile, steps.names)
    steps.set_params(
        **{f"{step}__{name}": value for step, values in overrides.items() for name, value in values.items()}
    )
    declared = {f"{step.name}__{name}": p for step in steps.steps for name, p in step.params().items()}
    _judge(steps.set_params(**settings(declared, sets, "pipeline")), load(path, Reading(formats)), as_of, as_json)


def _judge(judge: Any, corpus: Corpus, as_of: str | None, as_json: bool) -> None:
    table = judge.fit_transform(corpus, as_of=as_of)
    if as_json:
        print_json(table)
    else:
        print(f"{type(judge).__name__}, as of {as_of or 'now'}; --json lists every row")
        show(summary(table), False, memories=corpus.memories)
    if note := (table.schema.metadata or {}).get(b"note", b"").decode():
        print(safe(f"memkit: {note}"), file=sys.stderr)


@app.command()
@grouped
def context(
    path: PathArgument,
    message: Annotated[str, typer.Argument(help="The user's current message.")],
    user: Annotated[str | None, typer.Option("--user", help="Use only this user's memories; default all.")] = None,
    as_of: AsOfOption = None,
    preset: Annotated[
        str | None,
        typer.Option(help="A Retriever preset; memory_v2 also repeats in RELEVANT what earlier blocks show."),
    ] = None,
    profile: ProfileOption = None,
    sets: SetOption = None,
    encode_limit: EncodeLimitOption = ENCODE_LIMIT,
    as_json: JsonOption = False,
    *,
    reading: Reading,
) -> None:
    """Print the memory blocks for a prompt; --json is the table of candidates."""
    from memkit import presets
    from memkit.context import ContextBuilder

    document = presets.memory_v2_context if preset == "memory_v2" else {}
    loaded = profile_of(profile, preset)
    given = settings(ContextBuilder.params(), sets, "ContextBuilder")
    values = {**document, **(loaded.context if loaded else {}), **given}
    retriever = fitted(wanted(preset, None, profile), load(path, reading, to_fit=True), profile, encode_limit)
    built = ContextBuilder(**{**values, "retriever": retriever}).build(retriever.corpus_, user, message, as_of)
    say_waiting(retriever, path)
    if as_json:
        print_json(built.table)
    else:
        out.print(Text(visible(built.text)), soft_wrap=True)
    if built.note:
        print(safe(f"memkit: {built.note}"), file=sys.stderr)


@app.command()
def demo() -> None:
    """Tour memkit on the sample data, in under a minute."""
    from memkit.cli.lab import run

    run()


@app.command()
def queries(as_json: JsonOption = False) -> None:
    """List the named queries."""
    from memkit.tables.database import named_queries

    table = named_queries()
    show(table if as_json else table.select(["name", "question"]), as_json)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of it.")] = False, as_json: JsonOption = False
) -> None:
    """List what the user's cache keeps: each folder that was read, and vectors; MEMKIT_CACHE=off keeps nothing."""
    from memkit.base.atomic import users_cache
    from memkit.index.cache import shared_cache
    from memkit.tables import kept

    if clear:
        kept.clear()
        shared_cache().clear()
    rows: list[dict[str, Any]] = [
        {"kept": row["root"] or "unfinished", "bytes": row["bytes"], "used": int(row["used"])} for row in kept.entries()
    ]
    if (place := shared_cache().folder) is not None:
        rows.append({"kept": f"vectors, in {place}", "bytes": shared_cache().size, "used": None})
    table = pa.Table.from_pylist(rows, _CACHED)
    show(table, as_json)
    if not as_json:
        where = f"in {folder}" if (folder := users_cache()) else "and nothing will be: MEMKIT_CACHE is off"
        print(safe(f"{sum(row['bytes'] for row in rows) / 2**20:,.1f} MiB are kept {where}."))


@app.command()
def formats(as_json: JsonOption = False) -> None:
    """List the formats that memkit can read: its own, and those of installed packages."""
    from memkit.formats.registry import known_formats

    table = known_formats()
    show(table if as_json else table.select(["name", "files", "package", "fault"]), as_json)


@app.command()
def rules(as_json: JsonOption = False) -> None:
    """List every check that `memkit check` makes."""
    from memkit.formats.rules import rules as all_rules

    show(all_rules(), as_json)


_GONE = {
    "add": "expected a verb a kind: add-fact, add-note, add-memory, add-log, add-record, add-entry, add-observation.",
    "store": "this verb is gone. Expected Python, mk.store(PATH).pages.rename(…), or a tool of `memkit serve`.",
}
"""What to type instead of a verb that an older memkit had."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """The app for a command line: with its verb alone, as Typer makes the options of all verbs that an app has.

    Raises
    ------
    ParameterError
        For a verb that an older memkit had, or that this process leaves out.
    """
    if words and words[0] in _GONE:
        raise ParameterError(f"{words[0]}: {_GONE[words[0]]}")
    if not words or words[0] not in _OWN:
        from memkit.cli import change, lab, measure  # noqa: F401  # whose verbs come after these
    verbs = {_name_of(command): command for command in app.registered_commands}
    chosen = copy.copy(app)
    if words and words[0] in verbs:
        chosen.registered_commands = [verbs[words[0]]]
        return chosen
    if words and (why := COMMANDS.left_out(words[0])):
        raise ParameterError(why)
    further = COMMANDS.get(words[0]) if words else None
    chosen.registered_commands = [] if further else [*app.registered_commands]
    for name, verb in [(words[0], further)] if further else COMMANDS.all():
        chosen.command(name)(verb)
    return chosen


def _name_of(command: CommandInfo) -> str:
    return command.name or get_command_name(str(getattr(command.callback, "__name__", "")))


_OWN = frozenset(map(_name_of, app.registered_commands))
"""The verbs of this module: for one of them no other is imported."""
