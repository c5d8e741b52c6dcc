"""What a result, an overview or a picture of one's own is written with.

A result is `Tabular`: it has a ``table`` and says by ``_sheets`` how it looks in a notebook, a terminal and a page. A
picture is a function that gives a `Picture` of marks, each an `Area`, `Bars`, `Dots`, a `Line` or `Text` between two
`Axis`; it is drawn as SVG, on an Axes of matplotlib and in words from these alone. `rows_of` asks tables in SQL.
"""

from memkit.base.duck import rows_of
from memkit.base.params import AsOf, Since, as_of_time, check_corpus, check_fitted, since_time, until_text
from memkit.base.progress import bar
from memkit.display.draw import as_html
from memkit.display.names import names_of
from memkit.display.notebook import Displayed, Shown, Tabular
from memkit.display.page import write_page
from memkit.display.sheet import ROWS, Sheet, answerability_note, safe, sheet_of, visible
from memkit.plot.marks import COLOURS, FAINT, Area, Axis, Bars, Dots, Line, Mark, Picture, Text, short
from memkit.plot.memories import DAY_SECONDS, FEW_MONTHS, day_axis, memory_axis, some_ticks, stack
from memkit.text.secrets import mask

__all__ = [
    "COLOURS",
    "DAY_SECONDS",
    "FAINT",
    "FEW_MONTHS",
    "ROWS",
    "Area",
    "AsOf",
    "Axis",
    "Bars",
    "Displayed",
    "Dots",
    "Line",
    "Mark",
    "Picture",
    "Sheet",
    "Shown",
    "Since",
    "Tabular",
    "Text",
    "answerability_note",
    "as_html",
    "as_of_time",
    "bar",
    "check_corpus",
    "check_fitted",
    "day_axis",
    "mask",
    "memory_axis",
    "names_of",
    "rows_of",
    "safe",
    "sheet_of",
    "short",
    "since_time",
    "some_ticks",
    "stack",
    "until_text",
    "visible",
    "write_page",
]
