# The pictures of memkit, for type checkers and for the module itself; those of packages are its names too.

from memkit.explore.pictures import links as links
from memkit.explore.pictures import timeline as timeline
from memkit.explore.pictures import topics as topics
from memkit.explore.places import map as map
from memkit.past.history import alive as alive
from memkit.past.history import changes as changes
from memkit.plot.marks import Picture as Picture
from memkit.plot.measured import contributions as contributions
from memkit.plot.measured import differences as differences
from memkit.plot.measured import funnel as funnel
from memkit.plot.measured import groups as groups
from memkit.plot.measured import pool as pool
from memkit.plot.measured import power as power
from memkit.plot.measured import precision_recall as precision_recall
from memkit.plot.measured import ranks as ranks
from memkit.plot.measured import scores as scores
from memkit.plot.measured import similarity as similarity
from memkit.plot.measured import stages as stages
from memkit.plot.measured import surface as surface
from memkit.plot.memories import budgets as budgets
from memkit.plot.memories import counts as counts
from memkit.plot.memories import decay as decay
from memkit.plot.memories import growth as growth
from memkit.plot.memories import reasons as reasons
