"""The verbs that change files: by default they show a plan; they write only with ``--yes`` or by `apply`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

import memkit
from memkit.base.checked import json_object
from memkit.cli.common import (
    ENCODE_LIMIT,
    AsOfOption,
    EncodeLimitOption,
    FormatsOption,
    JsonOption,
    PathArgument,
    PresetOption,
    ProfileOption,
    Reading,
    SetOption,
    as_path,
    grouped,
    load,
    out,
    policy_values,
    preset_values,
    profile_of,
    settings,
    show,
)
from memkit.cli.root import app
from memkit.display.sheet import named_in, safe
from memkit.errors import MemkitError, ParameterError
from memkit.formats.disk.files import check_file

if TYPE_CHECKING:
    from memkit.change.edits import Edits
    from memkit.change.store import Store

DiffOption = Annotated[bool, typer.Option("--diff", help="Print the changes as a unified diff.")]
WhereOption = Annotated[str | None, typer.Option(help="A SQL predicate over the edits, such as reason = 'expired'.")]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Apply even if more than 30 % of the memories would be removed.")
]
TimezoneOption = Annotated[
    str | None,
    typer.Option("--timezone", help="The zone of times in logs and transcripts: Europe/Moscow, +03:00; default UTC."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Change the files, instead of showing the changes.")]


@app.command()
def plan(
    path: PathArgument,
    policies: Annotated[list[str], typer.Argument(help="expiry, deduplicator, quota, index_check, split_plan, …")],
    as_of: AsOfOption = None,
    profile: ProfileOption = None,
    sets: SetOption = None,
    where: WhereOption = None,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="The surviving duplicate gets the tags of all, and the highest importance."),
    ] = False,
    as_diff: DiffOption = False,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Show what policies would change in the files; --json prints a plan for `memkit apply`. Nothing is written."""
    from memkit.change.planning import plan as planned
    from memkit.policy.base import policy_class

    classes = [policy_class(name) for name in policies]
    declared = {f"{cls.name}__{name}": p for cls in classes for name, p in cls.params().items()}
    declared |= classes[0].params() if len(classes) == 1 else {}
    values = settings(declared, sets, "plan")
    profile_values = policy_values(profile, [cls.name for cls in classes])
    steps = [
        cls(
            **profile_values[cls.name]
            | {name.removeprefix(f"{cls.name}__"): v for name, v in values.items() if _is_of(name, cls)}
        )
        for cls in classes
    ]
    corpus = load(path, Reading(formats))
    edits = _filtered(planned(corpus, steps, as_of, merge=merge), where)
    typed = f"the same with --json > plan.json, then memkit apply {shlex.quote(str(path))} plan.json, writes it"
    print_edits(edits, as_diff, as_json, safe(f"memkit: nothing is written yet; {typed}"), corpus.memories)


def _is_of(name: str, cls: Any) -> bool:
    return name.startswith(f"{cls.name}__") or "__" not in name


@app.command()
def apply(
    path: PathArgument,
    file: Annotated[
        str, typer.Argument(help="The output of `memkit plan --json`; - is standard input.", metavar="PLAN")
    ],
    where: WhereOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Apply a plan to the files, completely or not at all; `memkit undo` takes it back."""
    from memkit.change.edits import Edits

    try:
        text = sys.stdin.read() if file == "-" else _file(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParameterError(f"{file}: expected a plan in UTF-8. {error}") from error
    show(_filtered(Edits.from_json(text, path), where).apply(force), as_json)


def _file(name: str) -> Path:
    path = as_path(name)
    check_file(path)
    return path


def repair_verb(name: str, planner: Callable[[], Any], help_text: str) -> Callable[..., None]:
    """A verb that shows the edits of a planner, or with --yes applies them."""

    def verb(
        path: PathArgument,
        as_of: AsOfOption = None,
        sets: SetOption = None,
        where: WhereOption = None,
        yes: YesOption = False,
        as_diff: DiffOption = False,
        as_json: JsonOption = False,
        formats: FormatsOption = None,
    ) -> None:
        from memkit.change.planning import plan as planned

        cls = planner()
        edits = _filtered(
            planned(load(path, Reading(formats)), cls(**settings(cls.params(), sets, name)), as_of), where
        )
        if yes:
            show(edits.apply(), as_json)
        else:
            print_edits(edits, as_diff, as_json)

    verb.__doc__ = help_text
    return verb


_FIX = "Show how to mend the problems that have one right answer (`memkit rules`), or with --yes mend them."
_MIGRATE = "Show how files of older layouts are migrated, or with --yes migrate them."
app.command("fix")(repair_verb("fix", lambda: memkit.Fix, _FIX))
app.command("migrate")(repair_verb("migrate", lambda: memkit.Migrate, _MIGRATE))


@app.command()
def undo(
    path: PathArgument,
    clear: Annotated[
        bool, typer.Option("--clear", help="Instead delete the old texts; nothing can be undone then.")
    ] = False,
    lake: Annotated[
        Path | None,
        typer.Option(
            "--lake", help="With --clear: a corpus saved from the folder, to be saved again without the old texts."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Undo the last change of a folder, byte for byte."""
    from memkit.change.planning import undo as taken_back

    show(taken_back(path, clear=clear, lake=lake), as_json)


TextArgument = Annotated[str, typer.Argument(help="The text to save.")]
KeywordOption = Annotated[list[str] | None, typer.Option("--keyword", help="A keyword or tag; may be repeated.")]


@dataclass(frozen=True)
class Saving:
    """How the verbs that save one memory do it."""

    timezone: TimezoneOption = None
    as_of: AsOfOption = None
    yes: YesOption = False
    as_diff: DiffOption = False
    as_json: JsonOption = False

    def save(self, path: Path, into: Callable[[Store], Callable[..., Any]], *values: Any) -> None:
        """Call the operation of the folder's store that `into` names: print what it would write or, with --yes, saved.

        Policies may refuse it, with a reason.
        """
        from memkit.change.edits import Edits
        from memkit.change.store import store

        result = into(store(path, timezone=self.timezone))(*values, now=self.as_of, dry_run=not self.yes)
        if isinstance(result, Edits):
            print_edits(result, self.as_diff, self.as_json)
        else:
            show(pa.table({"saved": [str(getattr(result, "id", result))]}), self.as_json)


@app.command("add-fact")
@grouped
def add_fact(
    path: PathArgument,
    text: TextArgument,
    user: Annotated[str, typer.Option("--user", help="Whose fact it is.")],
    type: Annotated[str | None, typer.Option("--type", help="profile, working or archive.")] = None,
    importance: Annotated[str | None, typer.Option(help="high, normal or low.")] = None,
    expires_at: Annotated[str | None, typer.Option("--expires-at", help="Its last day.")] = None,
    *,
    saving: Saving,
) -> None:
    """Show what saving a fact of a user would write, or with --yes write it."""
    tags = {"type": type, "importance": importance, "expires_at": expires_at}
    meta = {name: value for name, value in tags.items() if value is not None}
    saving.save(path, lambda memory: memory.facts.save, user, text, meta)


@app.command("add-note")
@grouped
def add_note(
    path: PathArgument,
    text: TextArgument,
    subject: Annotated[str, typer.Option(help="Its subject, one line.")],
    keyword: KeywordOption = None,
    applies_to: Annotated[str, typer.Option("--applies-to", help="global, file:… or area:….")] = "global",
    *,
    saving: Saving,
) -> None:
    """Show what saving a note would write, or with --yes write it."""
    saving.save(path, lambda memory: memory.notes.create, subject, keyword or [], applies_to, text)


@app.command("add-memory")
@grouped
def add_memory(
    path: PathArgument,
    text: TextArgument,
    subject: Annotated[
        str | None, typer.Option(help="Of its file, where the host keeps a file a topic; default its first words.")
    ] = None,
    type: Annotated[str | None, typer.Option("--type", help="Of its file, one of the host's types.")] = None,
    *,
    saving: Saving,
) -> None:
    """Show what a line in MEMORY.md would change, or with --yes write it; where a host keeps a file a topic, a topic
    with its line."""
    from memkit.change.draft import STORES

    def into(memory: Store) -> Callable[..., Any]:
        for name in STORES.names():
            if (remember := getattr(memory, name).keeper()) is not None:
                return partial(remember, subject=subject, type=type)
        return memory.workspace.append_to_memory

    saving.save(path, into, text)


@app.command("add-log")
@grouped
def add_log(path: PathArgument, text: TextArgument, *, saving: Saving) -> None:
    """Show what a further entry of the daily log would write, or with --yes write it."""
    saving.save(path, lambda memory: memory.workspace.append_to_daily_log, text)


@app.command("add-record")
@grouped
def add_record(
    path: PathArgument, text: Annotated[str, typer.Argument(help="The record, as JSON.")], *, saving: Saving
) -> None:
    """Show what saving a record would write, or with --yes write it."""
    saving.save(path, lambda memory: memory.records.put, _record(text))


@app.command()
def export(
    path: PathArgument,
    folder: Annotated[Path, typer.Argument(help="An empty folder, or one that does not exist yet.")],
    layout: Annotated[
        str,
        typer.Option(
            "--layout", help="okf, notes, obsidian, facts or one of a host or package: how files are laid out."
        ),
    ],
    user: Annotated[
        str | None, typer.Option("--user", help="For facts: the user to give memories that have none.")
    ] = None,
    as_of: AsOfOption = None,
    yes: YesOption = False,
    as_diff: DiffOption = False,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Show what a folder's memories keep and lose in another layout, or with --yes write them as its files."""
    from memkit.change.export import export as exported

    planned = exported(load(path, Reading(formats)), folder, layout, user_id=user, as_of=as_of)
    if yes:
        show(planned.apply(), as_json)
    elif as_diff:
        out.print(safe(planned.diff()), markup=False, highlight=False, soft_wrap=True, end="")
    else:
        show(planned.table if as_json else planned, as_json)
    if not yes and not as_json:
        print(_DRY, file=sys.stderr)


def _record(text: str) -> dict[str, Any]:
    try:
        return json_object(text)
    except ValueError as error:
        raise ParameterError(f"add-record: expected the record as a JSON object. Got {text!r:.80}: {error}.") from error


@app.command()
def selftest(
    path: PathArgument,
    user: Annotated[str, typer.Option("--user", help="The user to test with.")] = "test-user",
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test migrating, saving, reading and forgetting a user's fact on a copy of the folder."""
    from memkit.change.store import selftest as tried

    table = tried(path, user, as_of)
    show(table, as_json)
    raise typer.Exit(0 if all(table["ok"].to_pylist()) else 1)


_DRY = "memkit: nothing is written yet; --yes writes it"


def print_edits(
    edits: Edits, as_diff: bool, as_json: bool, to_write: str = _DRY, memories: pa.Table | None = None
) -> None:
    """Print edits as a table, a diff or a plan; refusals, and how to write them, on standard error."""
    if as_diff:
        diff = edits.diff()
        text = diff if memories is None else named_in(memories, [diff]).again(diff)
        out.print(safe(text), markup=False, highlight=False, soft_wrap=True, end="")
    else:
        show(edits.table if as_json else edits, as_json, memories=memories)
    if edits.table.num_rows and not as_json:
        print(to_write, file=sys.stderr)
    for row in edits.refused.to_pylist() if as_diff or as_json else ():
        times = f" {row['count']:,} times" if row["count"] > 1 else ""
        print(safe(f"memkit: refused{times}: {row['reason']}"), file=sys.stderr)


def _filtered(edits: Edits, where: str | None) -> Edits:
    return edits if where is None else edits.filter(where)


def _clean_up(facts: Any, user: str | None) -> None:
    """Migrate old files and delete expired facts, as the bot does when it starts; print each line first."""
    listed = facts.cleanup(user, dry_run=True)
    for row in listed.table.to_pylist():
        if row["op"] == "delete":
            print(safe(f"memkit: expired, deleted: {row['path']}: {(row['before'] or '').strip()}"), file=sys.stderr)
    for row in listed.refused.to_pylist():
        print(safe(f"memkit: not cleaned up: {row['reason']}"), file=sys.stderr)
    facts.cleanup(user)
    for row in facts.migrated.to_pylist():
        became = f"{row['id']}, " if row["id"] else ""
        print(safe(f"memkit: migrated: {row['path']}:{row['line']}: {became}{row['reason']}"), file=sys.stderr)


@app.command()
def serve(
    path: PathArgument,
    preset: PresetOption = None,
    profile: ProfileOption = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only the tools that read.")] = False,
    http: Annotated[
        int | None,
        typer.Option("--http", help="Serve on this port of 127.0.0.1; 0 is any free port.", min=0, max=65_535),
    ] = None,
    sets: SetOption = None,
    no_log: Annotated[bool, typer.Option("--no-log", help="Do not log queries to .memkit/calls.jsonl.")] = False,
    user: Annotated[
        str | None, typer.Option("--user", help="Serve this user alone; other users' memories are invisible.")
    ] = None,
    timezone: TimezoneOption = None,
    encode_limit: EncodeLimitOption = ENCODE_LIMIT,
) -> None:
    """Serve a folder's memory to agents as an MCP server (extra mcp), on standard input and output or by HTTP."""
    import os

    wire = os.dup(1) if http is None else None
    if wire is not None:
        os.dup2(2, 1)  # standard output carries the protocol alone, whatever an import prints
    from memkit.search.retriever import Retriever
    from memkit.serve.server import make_server, serve_http, serve_stdio
    from memkit.serve.tools import Tools

    given, loaded = settings(Retriever.all_params(), sets, "Retriever"), profile_of(profile)
    values = {"encoder": "use", **preset_values(preset), **(loaded.retriever if loaded else {}), **given}
    log = not no_log and not read_only
    tools = Tools(path, values, log=log, profile=loaded, user=user, timezone=timezone, encode_limit=encode_limit)
    server = make_server(tools, read_only=read_only)
    try:
        if not read_only:
            _clean_up(tools.store.facts, user)
    except MemkitError as error:  # another process holds the lock; expired facts are hidden anyway
        print(f"memkit: {safe(str(error))}", file=sys.stderr)
    if http is not None:
        serve_http(server, http, announce=lambda message: print(message, file=sys.stderr, flush=True))
        return
    sys.stdout.flush()
    assert wire is not None  # no http
    os.dup2(wire, 1)
    os.close(wire)
    serve_stdio(server)
