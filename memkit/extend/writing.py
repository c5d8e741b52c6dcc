"""What a store is written with: a subclass of `Operations` whose methods draft their changes.

``self._do(work, now, dry_run)`` gives ``work(draft)`` a `Draft`, and writes what it drafted in one step that
`memkit.undo` takes back. `LayoutStore` finds the pages of one layout, and adds texts at their ends.
"""

from memkit.base import room

__all__, __getattr__ = room(__name__, __file__)
