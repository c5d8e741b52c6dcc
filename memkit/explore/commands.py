"""The verb that says what happened in a span of time."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit.extend.verbs import (
    DatesOption,
    FormatsOption,
    HiddenOption,
    HtmlOption,
    JsonOption,
    JsonRowsOption,
    PathArgument,
    Reading,
    SinceOption,
    load,
    print_json,
    show,
)


def digest(
    path: PathArgument,
    since: SinceOption = "7d",
    until: Annotated[
        str | None, typer.Option("--until", help="The end of the span, ISO 8601, a day as a whole; default now.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Memories of this user and those without a user; default all.")
    ] = None,
    page: HtmlOption = None,
    most: Annotated[int | None, typer.Option(help="Maximum rows shown per section.", min=1)] = None,
    basis: Annotated[
        str | None, typer.Option(help="Where changes come from: git or dates; default git if there is a history.")
    ] = None,
    as_json: JsonOption = False,
    formats: FormatsOption = None,
    hidden: HiddenOption = "known",
    dates: DatesOption = None,
    json_rows: JsonRowsOption = False,
) -> None:
    """Show what happened: added, changed, forgotten, decided, contradicted, checkboxes and new names."""
    from memkit.explore.digest.digest import LINES
    from memkit.explore.digest.digest import digest as made

    reading = Reading(formats, hidden=hidden, dates=dates, json_rows=json_rows)
    # Handed on without a name, so that the digest can let it go.
    result = made(load(path, reading), since, until, user_id=user, basis=basis).of_command(path)
    if page is not None:
        result.report(page, title=f"What happened in {path.resolve().name}")
    if as_json:
        print_json(result.table)
    else:
        show(result, False, rows=most or LINES)
