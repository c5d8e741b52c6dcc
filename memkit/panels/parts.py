"""Pieces of what panels show: lines, tables whose rows can be picked, and what a notebook's file keeps."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import Any

from memkit.display.draw import STYLE
from memkit.text.secrets import mask

_CELL = 70


def paragraph(text: str) -> str:
    """A line of plain words; nothing for none."""
    return f'<div class="mk"><p>{html.escape(text)}</p></div>' if text else ""


def rows_html(heads: Sequence[str], rows: Sequence[tuple[str, ...]], picks: Sequence[str] = ()) -> str:
    """A small table, escaped and without secrets; with `picks`, rows that Enter sends to `Panel.pick`."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in heads)
    body = []
    for at, row in enumerate(rows):
        live = f' data-pick="{html.escape(picks[at])}"' if picks else ""
        cells = "".join(f"<td>{html.escape(mask(cell)[:_CELL])}</td>" for cell in row)
        body.append(f"<tr{live}>{cells}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="mk"><style>{STYLE}</style>{table}</div>'


def bundle(view: Any, page: str, words: str, picture: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """A widget for a notebook, and beside it what is shown where there is no kernel or no widgets."""
    made = view._repr_mimebundle_() or {}
    data, metadata = made if isinstance(made, tuple) else (made, {})
    image = base64.b64encode(picture).decode()
    return {**data, "text/html": page, "text/plain": words, "image/png": image}, metadata


def shown_again(panel: Any) -> Any:
    """Display in a way that can be brought up to date later; the handle for that."""
    from IPython.display import display

    return display(panel._repr_mimebundle_()[0], raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython has no types here
