"""What others bring: given in this process by a function, or by an installed package's entry point.

Nothing of a package is imported before its thing is named or listed, and what is wrong with one is one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

Thing = TypeVar("Thing")


@dataclass
class Plugins(Generic[Thing]):
    """The things of one kind, by name.

    Attributes
    ----------
    group : str
        The entry points' group.
    check : callable
        ``check(name, thing)`` is the thing; it raises where that cannot have this name.
    given : dict of str to object
        Those that this process was given; they come before a package's.
    """

    group: str
    check: Callable[[str, Any], Thing]
    given: dict[str, Thing] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Every name, without importing anything."""
        return sorted({*self.given, *(point.name for point in entry_points(group=self.group))})

    def get(self, name: str) -> Thing | None:
        """The thing of this name; None where there is none, or it cannot be had, which is warned of."""
        return next((thing for _, _, thing, _ in self.found(name) if thing is not None), None)

    def found(self, name: str) -> list[tuple[str, str, Thing | None, str]]:
        """Name, package, thing and fault of what has this name, the one that counts first."""
        if name in self.given:
            return [(name, "", self.given[name], "")]
        return [self._load(point) for point in entry_points(group=self.group, name=name)]

    def _load(self, point: EntryPoint) -> tuple[str, str, Thing | None, str]:
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        try:
            return point.name, package, self.check(point.name, point.load()), ""
        except (Exception, SystemExit) as error:  # another's code may raise anything
            fault = f"{type(error).__name__}: {error}"
        message = f"{self.group}: expected {point.name!r} of the package {package} to load. Got {fault:.500}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return point.name, package, None, fault
