"""What every room stands on: DuckDB, parameters, dates, hashes, files; it knows no memories."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any


def names_in_stub(file: str) -> dict[str, tuple[str, str]]:
    """Public name to its module and its name there, as the stub beside a module lists them for type checkers too."""
    text = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    public_names = {}
    for module, name, public in re.findall(r"^from (\S+) import (\w+)(?: as (\w+))?$", text, re.MULTILINE):
        public_names[public or name] = (module, name)
    for public, name in re.findall(r"^(\w+) = (\w+)", text, re.MULTILINE):
        public_names[public] = public_names.pop(name)
    return dict(sorted(public_names.items()))


def imported(package: str, module: str, name: str) -> Any:
    """What a name of a stub of `package` stands for, imported now; a module lies in the package or room named there."""
    if module != package:
        room = import_module(module)
        if name in vars(room):
            return vars(room)[name]
    return import_module(f"{module}.{name}")


def room(package: str, file: str, door: Any = None) -> tuple[list[str], Callable[[str], Any]]:
    """The names of a room, as its stub lists them, and its ``__getattr__``, which imports a name when it is first used.

    Parameters
    ----------
    door : Plugins, optional
        Whose plugins are names of the room too.
    """
    places, called = names_in_stub(file), package.replace("memkit", "mk", 1)

    def look_up(name: str) -> Any:
        from memkit.base.plugins import why_left_out
        from memkit.errors import did_you_mean

        if name in places and (door is None or name not in door.own()):
            module, attribute = places[name]
            if why := why_left_out(f"{called}.{name}", module):
                raise AttributeError(why)
            value = imported(package, module, attribute)
            setattr(sys.modules[package], name, value)
            return value
        # Names that begin so are looked for by tools, in each module that they meet.
        is_asked = door is not None and not name.startswith("_")
        if is_asked and (plugin := door.get(name)) is not None:
            return plugin
        known = [*dict.fromkeys((*places, *(door.names() if is_asked else ())))]
        raise AttributeError(
            f"{called} has no {name!r}. Expected one of {', '.join(known)}.{did_you_mean(name, known)}"
        )

    return [*places], look_up


def late_pattern(pattern: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    r"""What compiles a pattern when it is first called: few commands need the long ones, which take milliseconds.

    >>> digits = late_pattern(r"\d+")
    >>> digits().findall("7 чашек, 12 ложек")
    ['7', '12']
    """
    return cache(partial(re.compile, pattern, flags))
