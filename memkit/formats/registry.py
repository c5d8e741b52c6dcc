"""The formats in the order in which they are tried on a file: the first that claims it reads it.

To add a format: write its module (`workspace` is a small one), which ends in one `Format`, and name it here.
"""

from __future__ import annotations

from memkit.formats import facts, workspace
from memkit.formats.format import File, Format
from memkit.formats.index_tree import format as index_tree
from memkit.formats.notes import format as notes
from memkit.formats.records import format as records
from memkit.formats.rows import Rows
from memkit.formats.syntax import front_matter

FORMATS: tuple[Format, ...] = (index_tree.FORMAT, notes.FORMAT, facts.FORMAT, records.FORMAT, workspace.FORMAT)
NAMES = tuple(format.name for format in FORMATS)


def parse_file(file: File, rows: Rows, formats: tuple[Format, ...] = FORMATS) -> None:
    """Read one file with the first format that claims it, or with the one that was asked for."""
    forced = file.role.forced
    for format in formats:
        if format.name == forced and format.may_read(file) if forced else format.claims_file(file):
            rows.use(format)
            rows.begin(file.source)
            format.parse(file, rows)
            for other in formats:
                if other is not format and other.beside and file.told(other.name) is not None:
                    other.beside(file, rows)
            _check_ending(file, rows)
            rows.end()
            return
    rows.problem("unclaimed", file.source.path, f"a file that can be read as {forced}", file.source.name)


def _check_ending(file: File, rows: Rows) -> None:
    if file.is_markdown and file.front is None and front_matter.is_unclosed(file.source.text):
        rows.problem("unparsable", file.source.path, "front matter closed by '---'", "no end", line=1, quote=False)
