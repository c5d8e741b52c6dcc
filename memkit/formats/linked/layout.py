"""What all layouts of Markdown pages declare alike: files, links, the checks of a page; and the general layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from memkit.formats.faults import Rule
from memkit.formats.format import MARKDOWN, File, Format
from memkit.formats.linked.page import LOOSE, Page
from memkit.formats.linked.relations import OTHER_FILES, relate
from memkit.formats.linked.survey import survey
from memkit.formats.owner import PAGE, Owner
from memkit.formats.rows import Rows
from memkit.formats.workspace import OF_DATES


def layout(
    name: str,
    about: str,
    parse: Callable[[File, Rows], None],
    *,
    kinds: tuple[str, ...],
    tables: tuple[str, ...] = (),
    rules: tuple[Rule, ...] = (),
    **declared: Any,
) -> Format:
    """The declaration of a layout whose pages are read by a `Page`; it claims what its survey found.

    Parameters
    ----------
    tables, rules
        Those that it has beside those of any page.
    **declared
        Of `Format`.

    Examples
    --------
    >>> [rule.code for rule in layout("cards", "*.md", lambda file, rows: None, kinds=("page",)).rules][:2]
    ['dead_link', 'ambiguous_link']
    """
    shared: dict[str, Any] = {
        "endings": MARKDOWN,
        "writes": MARKDOWN,
        "relate": relate,
    }
    every_table, checks = ("documents", "relations", *tables), (*rules, *page_rules(name))
    return Format(name, about, kinds, every_table, parse, rules=checks, **shared | declared)


def page_rules(name: str) -> tuple[Rule, ...]:
    """The checks of a layout's pages, and of the links between them."""
    return (
        Rule("dead_link", name, "", "a link that leads to a page of this folder"),
        Rule("ambiguous_link", name, "", "a link that leads to one page"),
        Rule("dead_anchor", name, "", "a heading of the page that the link leads to"),
        Rule("not_indexed", name, "", "every page of its folder, where the index lists most of them"),
        Rule("orphan", name, "", "a page that another one links to, where most pages are"),
        Rule("no_successor", name, "", "the page that takes the place of a deprecated one"),
        Rule(LOOSE, name, "", "front matter in YAML: a value with ': ' or after a quote stands in quotes"),
        Rule("bad_date", name, "", "a real date in the file's name"),
        Rule("bad_date", name, "", "a real date in the heading of a log"),
        *(replace(rule, format=name) for rule in OF_DATES),
        Rule("unbalanced_fence", name, "", "a code fence that is closed"),
        Rule("empty_section", name, "", "text below a heading, or a deeper heading with text"),
    )


def _parse(file: File, rows: Rows) -> None:
    """One page to its rows."""
    is_vault, tags = file.finding("linked") or (False, ())
    Page(file, rows, is_vault=is_vault, known_tags=tags).read()


FORMAT = layout(
    "linked",
    "Markdown pages with front matter and links: vaults, wikis, knowledge bundles (half of a folder's pages have front"
    " matter, three link to others, or it is a vault)",
    _parse,
    order=120,
    kinds=("page", "head", "index", "log", "long_term", "daily_log", "dream", "session", "heartbeat"),
    tables=("turns",),
    survey=survey,
    schemas={OTHER_FILES: pa.schema({"path": pa.string()})},
    owner=Owner(PAGE),
    is_general=True,
    dates={"created_at": "created", "updated_at": "updated"},
)
"""Linked notes of any kind: vaults, LLM wikis, knowledge bundles (OKF), slip boxes."""
