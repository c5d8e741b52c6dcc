"""The verbs that change files: they plan by default, and write only where it is asked for in so many words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memkit.cli.common import AsOfOption, FormatsOption, JsonOption, PathArgument, SetOption, app, load, settings
from memkit.cli.show import out, show
from memkit.display.sheet import visible
from memkit.errors import ParameterError

if TYPE_CHECKING:
    from memkit.change.edits import Edits

DiffOption = Annotated[bool, typer.Option("--diff", help="Print what would change as a unified diff.")]
WhereOption = Annotated[str | None, typer.Option(help="A SQL predicate over the edits, such as reason = 'expired'.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Also where more than 30 % of the memories would go.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Change the files at once, instead of showing what would.")]


@app.command()
def plan(
    path: PathArgument,
    policies: Annotated[list[str], typer.Argument(help="expiry, deduplicator, quota, index_check, split_plan, …")],
    as_of: AsOfOption = None,
    sets: SetOption = None,
    where: WhereOption = None,
    as_diff: DiffOption = False,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
) -> None:
    """Show what policies would change in the files; --json prints a plan for `memkit apply`; nothing is written."""
    from memkit.change.planning import plan as planned
    from memkit.policy.catalogue import policy_class

    classes = [policy_class(name) for name in policies]
    declared = {f"{cls.name}__{name}": p for cls in classes for name, p in cls.params().items()}
    declared |= classes[0].params() if len(classes) == 1 else {}
    values = settings(declared, sets, "plan")
    steps = [
        cls(**{name.removeprefix(f"{cls.name}__"): v for name, v in values.items() if _is_of(name, cls)})
        for cls in classes
    ]
    print_edits(_filtered(planned(load(path, formats=formats), steps, as_of), where), as_diff, as_json)


def _is_of(name: str, cls: Any) -> bool:
    return name.startswith(f"{cls.name}__") or "__" not in name


@app.command()
def apply(
    path: PathArgument,
    file: Annotated[
        str, typer.Argument(help="What `memkit plan --json` printed; - is standard input.", metavar="PLAN")
    ],
    where: WhereOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Change the files as a plan says: all of it or nothing; `memkit undo` takes it back."""
    from memkit.change.edits import Edits

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParameterError(f"{file}: expected a plan in UTF-8. {error}") from error
    finish(_filtered(Edits.from_json(text, path), where), force, as_json)


@app.command()
def fix(
    path: PathArgument,
    as_of: AsOfOption = None,
    sets: SetOption = None,
    where: WhereOption = None,
    yes: YesOption = False,
    as_diff: DiffOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show how the problems would be mended that have one right answer (`memkit rules`), or with --yes mend them."""
    from memkit.change.fix import Fix

    _plan_or_do(path, Fix(**settings(Fix.params(), sets, "fix")), as_of, where, yes, as_diff, as_json)


@app.command()
def migrate(
    path: PathArgument,
    as_of: AsOfOption = None,
    sets: SetOption = None,
    where: WhereOption = None,
    yes: YesOption = False,
    as_diff: DiffOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show how files of older layouts would become current ones, or with --yes bring them there."""
    from memkit.change.migrate import Migrate

    _plan_or_do(path, Migrate(**settings(Migrate.params(), sets, "migrate")), as_of, where, yes, as_diff, as_json)


def _plan_or_do(
    path: Path, planner: Any, as_of: str | None, where: str | None, yes: bool, as_diff: bool, as_json: bool
) -> None:
    from memkit.change.planning import plan as planned

    edits = _filtered(planned(load(path), planner, as_of), where)
    if yes:
        finish(edits, False, as_json)
    else:
        print_edits(edits, as_diff, as_json)


@app.command()
def undo(
    path: PathArgument,
    clear: Annotated[
        bool, typer.Option("--clear", help="Forget the old texts instead: nothing can be undone then.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take back the last change of a folder, byte for byte."""
    from memkit.change.planning import undo as taken_back

    show(taken_back(path, clear=clear), as_json)


def finish(edits: Edits, force: bool, as_json: bool) -> None:
    """Apply edits and print the files."""
    show(edits.apply(force), as_json)


def print_edits(edits: Edits, as_diff: bool, as_json: bool) -> None:
    """Print edits as a table, a diff or a plan, and on standard error what was refused."""
    if as_diff:
        out.print(visible(edits.diff()), markup=False, highlight=False, soft_wrap=True, end="")
    else:
        show(edits.table if as_json else edits, as_json)
    for row in edits.refused.to_pylist() if as_diff or as_json else ():
        print(visible(f"memkit: refused: {row['reason']}"), file=sys.stderr)


def _filtered(edits: Edits, where: str | None) -> Edits:
    return edits if where is None else edits.filter(where)
