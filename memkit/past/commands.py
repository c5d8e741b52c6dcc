"""The verb that lists the changes of a folder in a git repository."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from memkit.extend.showing import safe
from memkit.extend.verbs import JsonOption, PathArgument, RevOption, show


def history(
    path: PathArgument,
    since: Annotated[
        str | None, typer.Option(help="Only changes since then: a date, or 7d, 2w, 12h before now.")
    ] = None,
    rev: RevOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the changes of a folder in a git repository, by commit and by memory; --json has one row per version."""
    from memkit.past.history import history as made

    result = made(path, rev or "HEAD").since(since)
    show(result.versions if as_json else result, as_json)
    for row in result.problems.to_pylist():
        print(safe(f"memkit: {row['message']}"), file=sys.stderr)
