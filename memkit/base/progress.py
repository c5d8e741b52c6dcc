"""The progress bar: it appears in a terminal or a notebook when work takes longer than two seconds.

Whoever runs long work may hear of it instead of showing bars, and end it (`heard`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextvars import ContextVar
from time import monotonic
from typing import Any

_DELAY = 2.0  # seconds before a bar appears: short work stays silent
_IDLE = 10.0  # seconds without work, after which the next is another's: a server's next call
Listener = Callable[[str, int, int | None], None]
"""It is told what is done, how much of it is done, and of how much, where that is known."""
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


class _Lines:
    """A listener where standard error is a file: a line every two seconds of a verb says what is done, and how far."""

    def __init__(self) -> None:
        self._spoke = self._worked = monotonic()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = monotonic()
        if now - self._worked >= _IDLE:
            self._spoke = now
        self._worked = now
        if now - self._spoke >= _DELAY:
            self._spoke = now
            of_all = f" of {total:,}" if total else ""
            print(f"memkit: {what}: {done:,}{of_all}", file=sys.stderr, flush=True)


_SPEAKS: list[_Lines] = []


def speak() -> None:
    """Let bars be lines on standard error where that is no terminal, as the command line does."""
    _SPEAKS[:] = [_Lines()]


@contextlib.contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Have `listener` told of all work in this block, in place of bars; what it raises ends the work.

    >>> with heard(lambda what, done, total: print(what, done, total)):
    ...     _ = list(bar("counting", [1, 2]))
    counting 1 2
    counting 2 2
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def bar(what: str, items: Iterable[Any] | None = None, silent: bool = False, **options: Any) -> Any:
    """A tqdm bar over `items`, or one to update by hand; the environment variable ``TQDM_DISABLE=1`` hides all bars.

    >>> list(bar("counting", [1, 2], silent=True))
    [1, 2]
    """
    if (listener := _LISTENER.get()) is not None:
        return _Told(what, items, options.get("total"), listener)
    if silent or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return _Silence(items)
    if _SPEAKS and not sys.stderr.isatty():
        return _Told(what, items, options.get("total"), _SPEAKS[0])
    from tqdm.auto import tqdm

    # For tqdm, disable=None means: show the bar only in a terminal or a notebook.
    return tqdm(items, desc=what, disable=None, delay=_DELAY, **options)


class _Told(contextlib.nullcontext[Any]):
    """Stands in for a bar where somebody listens."""

    def __init__(self, what: str, items: Iterable[Any] | None, total: int | None, listener: Listener) -> None:
        super().__init__(self)
        self._what, self._items, self._done, self._listener = what, items, 0, listener
        self._total = len(items) if total is None and isinstance(items, Sized) else total

    def __iter__(self) -> Iterator[Any]:
        for item in () if self._items is None else self._items:
            yield item
            self.update()

    def update(self, n: int = 1) -> None:
        """So many more are done."""
        self._done += n
        self._listener(self._what, self._done, self._total)


class _Silence(contextlib.nullcontext[Any]):
    """Stands in for a bar that is not shown, so that tqdm need not be imported."""

    def __init__(self, items: Iterable[Any] | None) -> None:
        super().__init__(self)
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(() if self._items is None else self._items)

    def update(self, n: int = 1) -> None:
        """Nothing moves."""
