# The panels of memkit, for type checkers and for the module itself; those of packages are its names too.

from memkit.explore.map_panel import MapPanel
from memkit.panels.decay_panel import DecayPanel as DecayPanel
from memkit.panels.decay_panel import RecordsPanel as RecordsPanel
from memkit.panels.dedup_panel import DedupPanel
from memkit.panels.judge_panel import JudgePanel as JudgePanel
from memkit.panels.judge_panel import SurfacePanel as SurfacePanel
from memkit.panels.lab_panel import Lab
from memkit.panels.policy_panel import ContextPanel as ContextPanel
from memkit.panels.policy_panel import PolicyPanel as PolicyPanel
from memkit.panels.search_panel import SearchPanel
from memkit.panels.table_panel import TablePanel

context = ContextPanel
decay = DecayPanel
dedup = DedupPanel
judge = JudgePanel
lab = Lab
map = MapPanel
policy = PolicyPanel
records = RecordsPanel
search = SearchPanel
surface = SurfacePanel
table = TablePanel
