"""What a corpus tells before anybody asks: its digest, its themes and what changes while one watches.

The functions are memkit's own: `memkit.digest`, `memkit.topics`, `memkit.timeline`, `memkit.watch`. The classes of what
they give are here.

>>> import memkit as mk
>>> mk.explore.Topics.__name__
'Topics'
"""

from __future__ import annotations

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
