"""The verb that saves an observation of an entity, or of a page of basic-memory."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit.errors import ParameterError
from memkit.extend.verbs import KeywordOption, PathArgument, Saving, TextArgument, grouped


@grouped
def add_observation(
    path: PathArgument,
    text: TextArgument,
    entity: Annotated[str | None, typer.Option("--entity", help="An entity of a graph.")] = None,
    page: Annotated[str | None, typer.Option("--page", help="Or else a page of basic-memory.")] = None,
    category: Annotated[str | None, typer.Option("--category", help="With --page.")] = None,
    keyword: KeywordOption = None,
    *,
    saving: Saving,
) -> None:
    """Show what saving an observation of an entity or a page would write, or with --yes write it."""
    if (entity is None) == (page is None):
        raise ParameterError(f"add-observation: expected --entity or --page. Got {'both' if entity else 'none'}.")
    if page is not None:
        saving.save(path, lambda memory: memory.basic_memory.add_observation, page, text, category, keyword or [])
    else:
        saving.save(path, lambda memory: memory.graph.add_observations, entity, [text])
