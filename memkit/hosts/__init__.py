"""Hosts of agents, a folder each: its format, store, prompt and what else it has; planners of one host are names here.

>>> import memkit as mk
>>> mk.hosts.IndexBudget.__name__
'IndexBudget'
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
