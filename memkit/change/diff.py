"""What would change, as a unified diff."""

from __future__ import annotations

import difflib
import html

from memkit.display.sheet import visible
from memkit.text.secrets import mask


class Diff(str):
    """A unified diff: a string, in a notebook in colour, secrets masked there."""

    __slots__ = ()
    _COLOURS = (("+++", ""), ("---", ""), ("+", "rgba(46,160,67,.22)"), ("-", "rgba(248,81,73,.22)"), ("@", ""))

    def _repr_html_(self) -> str:
        lines = []
        for line in mask(str(self)).split("\n"):
            colour = next((colour for sign, colour in self._COLOURS if line.startswith(sign)), "")
            style = f' style="background:{colour}"' if colour else ""
            lines.append(f"<span{style}>{html.escape(visible(line))}</span>")
        return f'<pre class="mk" style="white-space:pre-wrap">{chr(10).join(lines)}</pre>'


def diff_of(path: str, before: str | None, after: str | None) -> str:
    """The lines of one file's diff; None is a file that is not there."""
    if before == after:
        return ""
    old, new = ("/dev/null" if text is None else f"{side}/{path}" for side, text in (("a", before), ("b", after)))
    lines = difflib.unified_diff(_lines(before), _lines(after), old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str | None) -> list[str]:
    """Lines with their ends, split at LF alone."""
    lines = (text or "").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
