"""Every picture of memkit, in one room: ``mk.plot.growth(corpus)``; results that can be drawn have ``.plot()`` too.

Each function takes a result and returns a `Picture`, which shows itself in Jupyter, names memories by title and says
the same in words; ``picture.draw(ax)`` draws it on an Axes of your own. What is drawn was computed by the result:
nothing here measures, and matplotlib is loaded where a picture is drawn.

- `memories`: a corpus, its history, policies and prompts
- `pages`: pages around a page
- `places`: memories by meaning
- `search`: candidates, scores and ranks
- `settings`: sweeps, thresholds
- `measured`: differences by query and by group, losses, power
- `themes`: topics over time, and what is said on a theme
"""

from memkit.plot.marks import Picture
from memkit.plot.measured import differences, groups, power, scores, stages
from memkit.plot.memories import alive, budgets, changes, counts, decay, growth, reasons
from memkit.plot.pages import links
from memkit.plot.places import map
from memkit.plot.search import contributions, funnel, ranks
from memkit.plot.settings import pool, precision_recall, similarity, surface
from memkit.plot.themes import timeline, topics

__all__ = [
    "Picture",
    "alive",
    "budgets",
    "changes",
    "contributions",
    "counts",
    "decay",
    "differences",
    "funnel",
    "groups",
    "growth",
    "links",
    "map",
    "pool",
    "power",
    "precision_recall",
    "ranks",
    "reasons",
    "scores",
    "similarity",
    "stages",
    "surface",
    "timeline",
    "topics",
]
