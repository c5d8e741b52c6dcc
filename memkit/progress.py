"""The progress bar: it appears in a terminal or a notebook when work takes longer than two seconds."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
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
    if items is not None and _SPEAKS[0] and not sys.stderr.isatty():
        return _lines(what, items, options.get("total"))
    from tqdm.auto import tqdm

    # For tqdm, disable=None means: show the bar only in a terminal or a notebook.
    return tqdm(items, desc=what, disable=None, delay=_DELAY, **options)


def _lines(what: str, items: Iterable[Any], total: int | None) -> Iterator[Any]:
    """The items, with a line every two seconds that says what is done and how far it is."""
    total = len(items) if total is None and isinstance(items, Sized) else total
    spoke = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - spoke >= _DELAY:
            spoke = time.monotonic()
            print(f"memkit: {what}: {done:,}" + (f" of {total:,}" if total else ""), file=sys.stderr, flush=True)
        yield item


class _Silence(contextlib.nullcontext[Any]):
    """Stands in for a bar that is not shown, so that tqdm need not be imported."""

    def __init__(self, items: Iterable[Any] | None) -> None:
        super().__init__(self)
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(() if self._items is None else self._items)

    def update(self, n: int = 1) -> None:
        """Nothing moves."""
