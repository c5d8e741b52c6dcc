# The names of mk.explore, for type checkers and for the module itself.

from memkit.explore.themes.timeline import Timeline as Timeline
from memkit.explore.themes.topics import Topics as Topics
