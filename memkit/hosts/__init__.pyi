# The names of mk.hosts, for type checkers and for the module itself.

from memkit.hosts.claude.store import IndexBudget as IndexBudget
