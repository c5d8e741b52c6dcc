"""Plugins: objects registered in this process, or provided by the entry points of installed packages.

A package is imported only when its plugin is named or listed; a plugin that cannot be loaded causes one warning.
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
    """The plugins of one kind, by name.

    Attributes
    ----------
    group : str
        The group of the entry points.
    check : callable
        ``check(name, plugin)`` returns the plugin; it raises where the plugin is not valid under this name.
    registered : dict of str to object
        Plugins registered in this process; they come before those of packages.
    """

    group: str
    check: Callable[[str, Any], Thing]
    registered: dict[str, Thing] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Every name, without importing anything."""
        return sorted({*self.registered, *(point.name for point in entry_points(group=self.group))})

    def get(self, name: str) -> Thing | None:
        """The plugin of this name; None where there is none, or (with a warning) where it cannot be loaded."""
        return next((thing for _, _, thing, _ in self.candidates(name) if thing is not None), None)

    def candidates(self, name: str) -> list[tuple[str, str, Thing | None, str]]:
        """Name, package, plugin and fault of every plugin with this name; the first one is used."""
        if name in self.registered:
            return [(name, "", self.registered[name], "")]
        return [self._load(point) for point in entry_points(group=self.group, name=name)]

    def _load(self, point: EntryPoint) -> tuple[str, str, Thing | None, str]:
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        try:
            return point.name, package, self.check(point.name, point.load()), ""
        except (Exception, SystemExit) as error:  # foreign code may raise anything
            fault = f"{type(error).__name__}: {error}"
        message = f"{self.group}: expected {point.name!r} of the package {package} to load. Got {fault:.500}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return point.name, package, None, fault
