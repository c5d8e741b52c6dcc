"""Every picture of memkit, in one room: ``mk.plot.growth(corpus)``; results that can be drawn have ``.plot()`` too.

Each function takes a result and returns a `Picture`, which shows itself in Jupyter, names memories by title and says
the same in words; ``picture.draw(ax)`` draws it on an Axes of your own. What is drawn was computed by the result:
nothing here measures, and matplotlib is loaded where a picture is drawn.

- `memories`: a corpus, policies and prompts
- `measured`: a search's candidates, scores and ranks; differences by query and by group, power; sweeps, thresholds
- `marks`: what a picture is made of

Those of links, places, topics, themes and histories lie beside what they draw, outside of the core; a package brings
its own in the group ``memkit.plots``.
"""

from __future__ import annotations

from memkit.base import room
from memkit.base.plugins import PLOTS

__all__, __getattr__ = room(__name__, __file__, PLOTS)
