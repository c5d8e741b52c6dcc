# The names of mk.testing, for type checkers and for the module itself.

from memkit.past.repository import write_commits as write_commits
from memkit.tables.samples import write_files as write_files
