"""The progress bar: it appears in a terminal or a notebook when work takes longer than two seconds."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sized
from time import monotonic
from typing import Any

_DELAY = 2.0  # seconds before a bar appears: short work stays silent
_SPEAKS = [False]


def speak() -> None:
    """Let bars be lines on standard error where that is no terminal, as the command line does."""
    _SPEAKS[0] = True


def bar(what: str, items: Iterable[Any] | None = None, silent: bool = False, **options: Any) -> Any:
    """A tqdm bar over `items`, or one to update by hand; the environment variable ``TQDM_DISABLE=1`` hides all bars.

    >>> list(bar("counting", [1, 2], silent=True))
    [1, 2]
    """
    if silent or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return _Silence(items)
    if _SPEAKS[0] and not sys.stderr.isatty():
        return _Lines(what, items, options.get("total"))
    from tqdm.auto import tqdm

    # For tqdm, disable=None means: show the bar only in a terminal or a notebook.
    return tqdm(items, desc=what, disable=None, delay=_DELAY, **options)


class _Lines(contextlib.nullcontext[Any]):
    """Stands in for a bar where standard error is a file: a line every two seconds says how far the work is."""

    def __init__(self, what: str, items: Iterable[Any] | None, total: int | None) -> None:
        super().__init__(self)
        self._what, self._items, self._done, self._spoke = what, items, 0, monotonic()
        self._total = len(items) if total is None and isinstance(items, Sized) else total

    def __iter__(self) -> Iterator[Any]:
        for item in () if self._items is None else self._items:
            yield item
            self.update()

    def update(self, n: int = 1) -> None:
        """So many more are done."""
        self._done += n
        if monotonic() - self._spoke >= _DELAY:
            self._spoke = monotonic()
            of_all = f" of {self._total:,}" if self._total else ""
            print(f"memkit: {self._what}: {self._done:,}{of_all}", file=sys.stderr, flush=True)


class _Silence(contextlib.nullcontext[Any]):
    """Stands in for a bar that is not shown, so that tqdm need not be imported."""

    def __init__(self, items: Iterable[Any] | None) -> None:
        super().__init__(self)
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(() if self._items is None else self._items)

    def update(self, n: int = 1) -> None:
        """Nothing moves."""
