"""A circuit breaker for encoders: a service that does not answer is not called for a while, so that calls do not wait.

>>> circuits = Circuits(clock=iter([0.0, 1.0, 31.0]).__next__)
>>> circuits.open("tiny", "no connection")
>>> circuits.check("tiny")
Traceback (most recent call last):
memkit.errors.EncoderUnavailableError: no connection It is asked again in 29 s.
>>> circuits.check("tiny")
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from memkit.errors import EncoderUnavailableError

OPEN_SECONDS = 30.0
"""How long a service that could not be reached is not asked again."""
_UNREACHED = (ConnectionError, TimeoutError)


class Circuits:
    """The encoders that could not be reached lately, by fingerprint; cached vectors are found all the same.

    Parameters
    ----------
    clock : callable
        Seconds of a clock that nobody sets back; tests replace it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._opened: dict[str, tuple[float, str]] = {}

    @contextlib.contextmanager
    def guard(self, fingerprint: str, what: str = "encoder", expected: str = "vectors") -> Iterator[None]:
        """Run a call to the encoder (or `what` else), unless it could not be reached lately.

        Raises
        ------
        EncoderUnavailableError
            Where the encoder cannot be reached, now or lately.
        """
        self.check(fingerprint)
        try:
            yield
        except Exception as error:  # each client has errors of its own for a broken connection
            unavailable = _unavailable(error, f"{what} {fingerprint}: expected {expected}")
            if unavailable is None:
                raise
            self.open(fingerprint, str(unavailable))
            raise unavailable from error

    def open(self, fingerprint: str, why: str) -> None:
        """Open the circuit: do not call the encoder for `OPEN_SECONDS`."""
        self._opened[fingerprint] = (self._clock() + OPEN_SECONDS, why)

    def check(self, fingerprint: str) -> None:
        """Raise where the circuit is open.

        Raises
        ------
        EncoderUnavailableError
            With the reason of the last failure.
        """
        until, why = self._opened.get(fingerprint, (0.0, ""))
        if why and (seconds_left := until - self._clock()) > 0:
            raise EncoderUnavailableError(f"{why} It is asked again in {seconds_left:.0f} s.")


def _unavailable(error: BaseException, expected: str) -> EncoderUnavailableError | None:
    """`error` as `EncoderUnavailableError` where a broken connection or a time-out caused it."""
    if isinstance(error, EncoderUnavailableError):
        return error
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, _UNREACHED):
            return EncoderUnavailableError(f"{expected}. Got {type(error).__name__}: {error}.")
        behind = behind.__cause__ or behind.__context__
    return None


@dataclass
class Haste:
    """Whether the caller can do without vectors; a service that has answered in time is waited for."""

    answered: bool = False


_HASTE: ContextVar[Haste | None] = ContextVar("memkit_haste", default=None)


@contextlib.contextmanager
def in_haste() -> Iterator[None]:
    """In this block, a service gets one quick try until it has answered once."""
    before = _HASTE.set(Haste())
    try:
        yield
    finally:
        _HASTE.reset(before)


def is_hasty() -> bool:
    """Whether to try only once, and quickly."""
    haste = _HASTE.get()
    return haste is not None and not haste.answered


def note_answer() -> None:
    """Note that the service has answered, so that it is waited for from now on."""
    if haste := _HASTE.get():
        haste.answered = True


CIRCUITS = Circuits()
