"""What every room stands on: DuckDB, parameters, dates, hashes, files; it knows no memories."""

from __future__ import annotations

import re
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
