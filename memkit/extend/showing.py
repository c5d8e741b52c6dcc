"""What a result, an overview or a picture of one's own is written with.

A result is `Tabular`: it has a ``table`` and says by ``_sheets`` how it looks in a notebook, a terminal and a page. A
picture is a function that gives a `Picture` of marks, each an `Area`, `Bars`, `Dots`, a `Line` or `Text` between two
`Axis`; it is drawn as SVG, on an Axes of matplotlib and in words from these alone. `rows_of` asks tables in SQL.
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
