"""The app without its verbs, which `memkit --version` needs none of."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit import __version__

app = typer.Typer(
    name="memkit",
    help="Read, query and search the memories of agents.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"memkit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _help(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print memkit's version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
