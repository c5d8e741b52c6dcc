"""`Refits`: the fits of one search that differ in what acts at fit, such as the size of chunks.

A fit may take long. In a page it runs in a thread, so that the panel goes on with the fit before; the next one that is
wanted ends it. Python code gets its fit at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from memkit.base.progress import heard
from memkit.errors import MemkitError, count_of
from memkit.panels.state import Section
from memkit.search.retriever import Retriever
from memkit.text.chunk import Chunker

_KEPT = 2
"""Fits that are kept beside the search's own, so that a step back is shown at once; each holds an index."""
_EVERY_S = 1.0
"""How often is said how far a fit is."""


class _Superseded(Exception):
    """Another fit is wanted."""


class Refits:
    """The fits of a search, by the values that act at fit.

    Parameters
    ----------
    search : Retriever
        Fitted; it stays as it is.
    changed : callable
        Called in the thread of the page: a fit is there, has failed, or is further.

    Attributes
    ----------
    running : str
        How far the fit is that runs; empty where none does.
    """

    def __init__(self, search: Retriever, changed: Callable[[], None]) -> None:
        self._search, self._changed = search, changed
        self._fits = dict[str, Retriever]()
        self._failed = dict[str, str]()
        self._wanted = self.running = ""
        self._last_s: float | None = getattr(search, "fit_seconds_", None)

    def values_of(self, params: Section) -> dict[str, Any]:
        """Those of the values that act at fit, where they are not the search's own."""
        names = (name for name, declared in Retriever.all_params().items() if declared.refit and name in params)
        return {name: params[name] for name in names if params[name] != self._search.value_of(name)}

    def known(self, params: Section) -> str:
        """Whether the fit is "there", has "failed", or neither."""
        key = repr(values := self.values_of(params))
        return "there" if not values or key in self._fits else "failed" if key in self._failed else ""

    def get(self, params: Section) -> Retriever:
        """The fit with these values, made now where it is not there yet.

        Raises
        ------
        MemkitError
            Where it cannot be made.
        """
        values = self.values_of(params)
        if not values:
            return self._search
        key = repr(values)
        if key not in self._fits:
            self.stop()
            self._keep(key, self._fitted(values))
        self._fits[key] = self._fits.pop(key)  # the last one that was asked for
        return self._fits[key]

    def begin(self, params: Section) -> None:
        """Make the fit with these values in a thread; one that runs with others ends.

        Raises
        ------
        MemkitError
            For one that has failed.
        """
        values, loop = self.values_of(params), asyncio.get_running_loop()
        key = repr(values)
        if key in self._failed:
            raise MemkitError(self._failed[key])
        if key != self._wanted:
            self._wanted, self.running = key, f"Fitting anew{self._about()}."
            threading.Thread(target=self._fit_aside, args=(values, loop), name="memkit-refit", daemon=True).start()

    def stop(self, unless: Section | None = None) -> None:
        """End the fit that runs, unless it is that with these values."""
        if unless is None or repr(self.values_of(unless)) != self._wanted:
            self._wanted = self.running = ""

    def forget(self) -> None:
        """Drop all fits: the search was fitted on other memories."""
        self.stop()
        self._fits.clear()
        self._failed.clear()

    def words(self, params: Section) -> str:
        """What a change costs, or has cost."""
        if self.running:
            return self.running
        if self.known(params) == "there" and self.values_of(params):
            fit = self.get(params)
            return f"This fit took {fit.fit_seconds_:.1f} s: {count_of(fit.chunks_.num_rows, 'chunk')}."
        return f"A change is fitted when the slider rests{self._about()}."

    def _about(self) -> str:
        """About how long a fit takes: new texts are encoded, those of a fit before are not."""
        last = self._last_s
        return "" if last is None else f"; the last fit took {last:.1f} s, with many new texts it takes longer"

    def _fitted(self, values: Section) -> Retriever:
        search = copy.copy(self._search).set_params(**values)
        return search.fit(self._search.index_.whole.corpus)

    def _keep(self, key: str, fit: Retriever) -> None:
        self._fits[key], self._last_s = fit, fit.fit_seconds_
        while len(self._fits) > _KEPT:
            del self._fits[next(iter(self._fits))]

    def _fit_aside(self, values: Section, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: make a fit, and have the page's thread take it."""
        key, begun = repr(values), monotonic()
        said = begun

        def tell(what: str, done: int, total: int | None) -> None:
            nonlocal said
            if self._wanted != key:
                raise _Superseded
            if total and done < total and monotonic() - said > _EVERY_S:
                said = monotonic()
                left = (said - begun) * (total - done) / done
                work = what.partition(" (")[0]  # without the fingerprint of the encoder, which fills two lines
                words = f"Fitting anew: {work}, {done:,} of {total:,}, about {left:.0f} s left."
                loop.call_soon_threadsafe(self._go_on, key, words)

        fit, fault = None, ""
        try:
            with heard(tell):
                fit = self._fitted(values)
        except _Superseded:
            return
        except Exception as error:  # whatever it is has to be told, and here nobody hears it
            fault = str(error) if isinstance(error, MemkitError) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._end, key, fit, fault)

    def _go_on(self, key: str, words: str) -> None:
        if key == self._wanted:
            self.running = words
            self._changed()

    def _end(self, key: str, fit: Retriever | None, fault: str) -> None:
        if key == self._wanted:
            self.stop()
            if fit is None:
                self._failed[key] = fault
            else:
                self._keep(key, fit)
            self._changed()


def check_chunks(search: Retriever, params: Section) -> None:
    """Raise where no text can be cut with these values, before a fit begins.

    Raises
    ------
    ParameterError
    """
    names = "index__chunk_tokens", "index__overlap_tokens"
    chunk, overlap = (params.get(name, search.value_of(name)) for name in names)
    Chunker(chunk_tokens=chunk, overlap_tokens=overlap).check_params()
