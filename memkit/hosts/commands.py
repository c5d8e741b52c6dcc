"""The verbs of hosts: an entry of Hermes, an observation of a graph or a page of basic-memory, a shorter MEMORY.md."""

from __future__ import annotations

from typing import Annotated

import typer

import memkit
from memkit.errors import ParameterError
from memkit.extend.verbs import KeywordOption, PathArgument, Saving, TextArgument, grouped, repair_verb

budget = repair_verb(
    "budget",
    lambda: memkit.hosts.IndexBudget,
    "Show how to shorten a MEMORY.md above its host's limits without loss, or with --yes shorten it.",
)


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
