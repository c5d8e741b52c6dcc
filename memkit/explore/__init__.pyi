# The names of mk.explore, for type checkers and for the module itself.

from memkit.explore.timeline import Timeline as Timeline
from memkit.explore.topics import Topics as Topics
