"""The verb that saves an entry of Hermes."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit.extend.verbs import PathArgument, Saving, TextArgument, grouped


@grouped
def add_entry(
    path: PathArgument,
    text: TextArgument,
    target: Annotated[str, typer.Option("--target", help="memory or user.")] = "memory",
    *,
    saving: Saving,
) -> None:
    """Show what saving an entry of Hermes would write, or with --yes write it."""
    saving.save(path, lambda memory: memory.hermes.add, text, target)
