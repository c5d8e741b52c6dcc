"""What every layout of Markdown pages declares alike: its files, its links, and the checks of a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memkit.formats.faults import Rule
from memkit.formats.format import MARKDOWN, File, Format
from memkit.formats.linked.page import LOOSE
from memkit.formats.linked.relations import relate
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
        "claims": lambda file: file.is_markdown and file.finding(name) is not None,
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
