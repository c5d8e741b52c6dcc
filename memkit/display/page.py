"""A result as one HTML file that needs nothing else: for light and dark screens, without network."""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path

from memkit.base.params import path_of
from memkit.text.secrets import mask

# The page's own colours follow the reader's setting; those of the tables and pictures follow the page's.
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; img-src data:{policy}">
<title>{title}</title><style>:root{{color-scheme:light dark}}
body{{font-family:system-ui,sans-serif;margin:1.2em auto;padding:0 1em;max-width:1100px}}
body{{background:Canvas;color:CanvasText}}{style}
</style></head><body><h1>{title}</h1>{body}{script}</body></html>
"""
_STYLE = """
h1{font-size:1.5em;overflow-wrap:anywhere}figure{margin:1.2em 0}
figure>svg{width:700px;max-width:100%;height:auto}
.mk{overflow-x:auto}details{font-size:13px;opacity:.85}pre{overflow-x:auto;white-space:pre-wrap}
.mk th button{all:unset;cursor:pointer;font:inherit}.mk th button:focus-visible{outline:2px solid Highlight}
.mk th[aria-sort] button::after{content:" \\25B2"}.mk th[aria-sort=descending] button::after{content:" \\25BC"}
"""
# A heading becomes a button, which every keyboard reaches; numbers sort as numbers, and what is empty stays last.
_SORT = """
for (const table of document.querySelectorAll('.mk table')) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') !== 'ascending';
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const body = table.tBodies[0];
      const rows = [...body.rows].map(row => [row.cells[at].textContent.trim(), row]);
      const number = text => Number(text.replaceAll(',', '').replace('%', ''));
      const numbers = rows.every(([text]) => !Number.isNaN(number(text)));
      rows.sort(([a], [b]) => !a || !b ? !a - !b
        : (up ? 1 : -1) * (numbers ? number(a) - number(b) : a.localeCompare(b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
"""


def write_page(path: str | Path, title: str, body: str, sortable: bool = False, style: str = "") -> Path:
    """Write a page around `body`, which is HTML already; only the page's own script can run in it.

    Parameters
    ----------
    sortable : bool
        Whether the headings of tables sort them, by mouse or keyboard.
    style : str
        CSS beside the page's own.
    """
    script, policy = "", ""
    if sortable:
        script = f"<script>{_SORT}</script>"
        policy = f"; script-src 'sha256-{base64.b64encode(hashlib.sha256(_SORT.encode()).digest()).decode()}'"
    page = _PAGE.format(title=html.escape(mask(title)), body=body, script=script, policy=policy, style=_STYLE + style)
    place = path_of("report", path)
    place.write_text(page, encoding="utf-8")
    return place
