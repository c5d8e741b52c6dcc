"""Panels by name, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from memkit.panels.panel import Panel


class Made(Mapping[str, Panel]):
    """A panel takes a tenth of a second, most of it for its picture, and most tests look at one of many."""

    def __init__(self, make: Mapping[str, Callable[[], Panel]]) -> None:
        self._make = make
        self._made: dict[str, Panel] = {}

    def __getitem__(self, name: str) -> Panel:
        if name not in self._made:
            self._made[name] = self._make[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)


@pytest.fixture(scope="session")
def made_when_asked() -> Callable[[Mapping[str, Callable[[], Panel]]], Mapping[str, Panel]]:
    """made_when_asked({"search": lambda: mk.panels.search(...)}): the panels by name."""
    return Made
