"""`Node`, an object with line numbers, and what every syntax refuses: nesting that is too deep."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

MAX_DEPTH = 100
"""Nesting that no memory needs; deeper input is refused before it can exhaust the stack, however deep the caller is."""


class StructureError(ValueError):
    """The text is no JSON or YAML; `line` is 1-based."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


REPEATED = " (repeated)"
"""What stands behind a key for the list of its later values."""
_NOTHING: Any = MappingProxyType({})
"""The line numbers and repeated keys of an object that has none; shared, as most objects have none."""


class Node(dict[str, Any]):
    """An object with the lines it begins and ends on, the line of each key, and what repeated keys held."""

    __slots__ = ("end_line", "line", "lines", "repeated", "repeated_lines")
    lines: dict[str, int]
    repeated: dict[str, list[Any]]
    repeated_lines: dict[str, int]

    def __init__(self, **values: Any) -> None:
        super().__init__(values)
        self.line = self.end_line = 1
        self.lines = self.repeated = self.repeated_lines = _NOTHING

    def renamed(self, names: Mapping[str, str]) -> Node:
        """A copy with some keys renamed, and those left out whose new name is empty; line numbers stay."""
        copy = Node()
        copy.line, copy.end_line = self.line, self.end_line
        copy.repeated, copy.repeated_lines = self.repeated, self.repeated_lines
        for key, value in self.items():
            if name := names.get(key, key):
                copy.put(name, value, self.lines.get(key))
        return copy

    def put(self, key: str, value: Any, line: int | None = None) -> None:
        """Set a key; the values of a repeated key go to `repeated`, and under ``key (repeated)``."""
        if key in self:
            self._put_again(key, value, line)
            return
        self[key] = value
        if line is not None:
            if self.lines is _NOTHING:
                self.lines = {}
            self.lines[key] = line

    def _put_again(self, key: str, value: Any, line: int | None) -> None:
        if self.repeated is _NOTHING:
            self.repeated, self.repeated_lines = {}, {}
        later = self.repeated.setdefault(key, [])
        later.append(value)
        self[f"{key}{REPEATED}"] = later
        if line is not None:
            self.repeated_lines.setdefault(key, line)
