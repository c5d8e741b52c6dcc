"""What a store is written with: a subclass of `Operations` whose methods draft their changes.

``self._do(work, now, dry_run)`` gives ``work(draft)`` a `Draft`, and writes what it drafted in one step that
`memkit.undo` takes back. `LayoutStore` finds the pages of one layout, and adds texts at their ends.
"""

from memkit.base.params import AsOf, check_choice, check_value, describe
from memkit.change.draft import Draft
from memkit.change.operations import Operations, checked, missing, stamp
from memkit.change.pages import LayoutStore

__all__ = [
    "AsOf",
    "Draft",
    "LayoutStore",
    "Operations",
    "check_choice",
    "check_value",
    "checked",
    "describe",
    "missing",
    "stamp",
]
