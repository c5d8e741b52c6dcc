"""Plugins: objects registered in this process, memkit's own from outside of the core, and those of installed packages.

The last two are entry points, which one code reads. A module is imported only when its plugin is named or listed; a
plugin that cannot be loaded causes one warning.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memkit.base.outside import OUTSIDE, ROOMS
from memkit.errors import ParameterError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Thing = TypeVar("Thing")
SWITCH, CORE = "MEMKIT_PLUGINS", "core"
"""The environment variable, and its value, that leaves out all but the core and what is registered."""


def is_core_alone() -> bool:
    """Whether this process has the core of memkit alone.

    Raises
    ------
    ParameterError
        Where the variable says anything else than ``core``.
    """
    said = os.environ.get(SWITCH, "")
    if said not in ("", CORE):
        raise ParameterError(f"{SWITCH}: expected {CORE!r}, or nothing for all plugins. Got {said!r:.80}.")
    return said == CORE


def why_left_out(what: str, module: str) -> str:
    """Where this process leaves out the room of a module, a sentence that says so; else empty."""
    if not (module.startswith(ROOMS) and is_core_alone()):
        return ""
    return f"{what} is left out, as the environment says {SWITCH}={CORE}; without this variable it is there."


def check_there(what: str, module: str) -> None:
    """Raise where this process leaves out the room of a module that something needs.

    Raises
    ------
    ParameterError
    """
    if why := why_left_out(what, module):
        raise ParameterError(why)


@lru_cache(maxsize=1)
def _installed(places: tuple[tuple[str, int], ...]) -> Mapping[str, list[EntryPoint]]:
    """The entry points of installed packages by group, looked for once for all groups.

    `places` are the folders in which they are looked for, with when each changed, so that a new package is seen. Where
    no file of theirs names memkit, none is parsed, nor is imported what parses them: a twentieth of a search.
    """
    if not any(_may_have_plugins(place) for place, _ in places):
        return {}
    from importlib.metadata import entry_points

    found = entry_points()
    return {group: [*found.select(group=group)] for group in found.groups if group.startswith("memkit.")}


def _may_have_plugins(place: str) -> bool:
    """Whether a package in a folder may have a plugin of memkit; what is no folder, but a file of packages, may."""
    try:
        with os.scandir(place or ".") as entries:
            described = [entry.path for entry in entries if entry.name.lower().endswith(("dist-info", "egg-info"))]
    except OSError as error:
        return isinstance(error, NotADirectoryError)
    for folder in described:
        with suppress(OSError), open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123 - there are hundreds
            if b"[memkit." in file.read():
                return True
    return False


def _changed(place: str) -> int:
    try:
        return Path(place or ".").stat().st_mtime_ns
    except OSError:
        return 0


def of_packages(group: str) -> list[EntryPoint]:
    """The entry points that installed packages have in a group."""
    if is_core_alone():
        return []
    # By the folders' times too, so that what is installed meanwhile is found.
    return _installed(tuple((place, _changed(place)) for place in sys.path)).get(group, [])


def _package_of(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


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

    def own(self) -> Mapping[str, str]:
        """What memkit itself brings from outside of its core: names to ``module:object``."""
        return {} if is_core_alone() else OUTSIDE.get(self.group, {})

    def names(self) -> list[str]:
        """Every name, without importing anything: memkit's own first."""
        others = {*self.registered, *(point.name for point in of_packages(self.group))}
        return [*self.own(), *sorted(others - self.own().keys())]

    def get(self, name: str) -> Thing | None:
        """The plugin of this name; None where there is none, or (with a warning) where it cannot be loaded."""
        return next((thing for _, _, thing, _ in self.candidates(name) if thing is not None), None)

    def all(self) -> Iterator[tuple[str, Thing]]:
        """The name and plugin of all that can be loaded."""
        for name in self.names():
            if (thing := self.get(name)) is not None:
                yield name, thing

    def left_out(self, name: str) -> str:
        """Where this process leaves out memkit's own plugin of a name, a sentence that says so; else empty."""
        place = OUTSIDE.get(self.group, {}).get(name)
        return why_left_out(f"{name!r} of {self.group}", place) if place else ""

    def needed(self, name: str, what: str = "what buckets and engines need") -> Thing:
        """The plugin of this name, for something that cannot be done without it.

        Raises
        ------
        ParameterError
            Where it is left out or cannot be loaded; the sentence opens with `what`.
        """
        thing = self.get(name)
        if thing is None:
            left_out = why_left_out(what, OUTSIDE.get(self.group, {}).get(name, ""))
            raise ParameterError(left_out or f"{what}: expected {name!r} of {self.group} to load. Got none.")
        return thing

    def add(self, name: str, thing: Any) -> Thing:
        """Register a plugin under a name, checked; memkit's own names are taken.

        Raises
        ------
        ParameterError
        """
        if name in self.own():
            raise ParameterError(f"register: expected a name that memkit does not use in {self.group}. Got {name!r}.")
        self.registered[name] = checked = self.check(name, thing)
        return checked

    def forget(self, name: str) -> None:
        """Undo `add`; nothing happens where none was registered under this name."""
        self.registered.pop(name, None)

    def candidates(self, name: str) -> list[tuple[str, str, Thing | None, str]]:
        """Name, package, plugin and fault of every plugin with this name; the first one is used."""
        if name in self.registered:
            return [(name, "", self.registered[name], "")]
        if name in self.own():
            place = self.own()[name]
            return [self._load(name, place, partial(resolve_name, place))]
        points = (point for point in of_packages(self.group) if point.name == name)
        return [self._load(name, _package_of(point), point.load) for point in points]

    def _load(self, name: str, package: str, load: Callable[[], Any]) -> tuple[str, str, Thing | None, str]:
        try:
            return name, package, self.check(name, load()), ""
        except (Exception, SystemExit) as error:  # foreign code may raise anything
            fault = f"{type(error).__name__}: {error}"
        message = f"{self.group}: expected {name!r} of the package {package} to load. Got {fault:.500}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return name, package, None, fault


def _function(name: str, thing: Any) -> Callable[..., Any]:
    if not callable(thing):
        raise ParameterError(f"register: expected a function. Got {thing!r:.80} as {name!r:.80}.")
    function: Callable[..., Any] = thing
    return function


def _of_room(room: str, name: str, thing: Any) -> Callable[..., Any]:
    if find_spec(f"{room}.{name}") is not None:  # which is an attribute of that name once it is imported
        raise ParameterError(f"register: expected a name that memkit does not use. Got {name!r}, one of its modules.")
    return _function(name, thing)


EXPORTS = Plugins("memkit.exports", _function)
"""Writers of layouts, ``write(job)``, by what ``mk.export(layout=)`` calls them."""
OVERVIEWS = Plugins("memkit.overviews", _function)
"""Tables that layouts add to an overview: functions of a corpus, by the table's name."""
COMMANDS = Plugins("memkit.commands", _function)
"""Verbs of the command line: functions as Typer takes them."""
PANELS = Plugins("memkit.panels", partial(_of_room, "memkit.panels"))
"""Panels: classes, or functions that make one, by their name in `mk.panels`."""
PLOTS = Plugins("memkit.plots", partial(_of_room, "memkit.plot"))
"""Pictures: functions that give a `memkit.plot.Picture`, by their name in `mk.plot`."""
BEFORE_APPLY = Plugins("memkit.before_apply", _function)
"""What is called with every `memkit.Edits` before its files are written; what it raises refuses them."""


def _query(name: str, sql: Any) -> str:
    if not isinstance(sql, str) or not sql.startswith("-- ") or "\n" not in sql or not name.isidentifier():
        expected = "SQL whose first line is a comment, the question that it answers"
        raise ParameterError(f"a named query: expected {expected}, and a name. Got {sql!r:.80} as {name!r:.80}.")
    return sql


QUERIES = Plugins("memkit.queries", _query)
"""Named queries: SQL as a file of ``tables/queries`` has it."""
FUNCTIONS: dict[str, Plugins[Any]] = {
    plugins.group.removeprefix("memkit."): plugins
    for plugins in (EXPORTS, OVERVIEWS, COMMANDS, PANELS, PLOTS, BEFORE_APPLY, QUERIES)
}
"""The doors that take functions, or the SQL of a query, under a name."""


def as_it_is(name: str, thing: Any) -> Any:
    """A check that takes all: of modules of memkit's own, whose functions a protocol beside their door says."""
    return thing


ENGINES = Plugins[Callable[..., object]]("memkit.engines", as_it_is)
"""Engines of packages, by their names in `mk.extend`; memkit's own stands in its stub, for type checkers."""
