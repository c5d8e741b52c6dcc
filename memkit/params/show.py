"""How declared parameters look: in a docstring, and as HTML."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Iterable

from memkit.params.declare import Param

_WIDTH = 100
_SECTION = re.compile(r"^[A-Z][\w ]*\n-{3,}$", re.MULTILINE)
_Row = tuple[Param, object, bool]
"""A declaration, its value, and whether that is another one than the default."""


def with_parameters(doc: str | None, declared: Iterable[Param]) -> str | None:
    """A docstring with a numpydoc *Parameters* section of the declarations before its other sections."""
    section = "\n".join(map(_entry, declared))
    if doc is None or not section:
        return doc
    text = inspect.cleandoc(doc)
    first = _SECTION.search(text)
    head, rest = (text[: first.start()].rstrip(), text[first.start() :]) if first else (text, "")
    return f"{head}\n\nParameters\n----------\n{section}" + (f"\n\n{rest}" if rest else "")


def _entry(declared: Param) -> str:
    unit = f", {declared.unit}" if declared.unit else ""
    nullable = " or None" if declared.nullable and declared.default is not None else ""
    default = f", default {declared.default_text}" if declared.default_text else ""
    head = f"{declared.name} : {declared.type}{unit}{nullable}{default}"
    words = [declared.doc]
    if declared.refit:
        words.append("Acts at fit.")
    if declared.source:
        words.append(f"Source: {declared.source}.")
    return "\n".join([head, *textwrap.wrap(" ".join(words), _WIDTH, initial_indent="    ", subsequent_indent="    ")])


def html_table(title: str, state: str, rows: Iterable[_Row]) -> str:
    """A line with what it is, and under it, when opened, the parameters; every word escaped."""
    body = "".join(map(_html_row, rows))
    head = "<tr><th>parameter</th><th>value</th><th>expected</th><th>meaning</th></tr>"
    state = f" <small>{html.escape(state)}</small>" if state else ""
    return f"<details><summary><code>{html.escape(title)}</code>{state}</summary><table>{head}{body}</table></details>"


def _html_row(row: _Row) -> str:
    declared, given, changed = row
    shown = html.escape(textwrap.shorten(repr(given), _WIDTH, placeholder=" …"))
    name, expected, doc = map(html.escape, (declared.name, declared.expected, declared.doc))
    value = f"<b>{shown}</b>" if changed else shown
    return f"<tr><td>{name}</td><td>{value}</td><td>{expected}</td><td>{doc}</td></tr>"
