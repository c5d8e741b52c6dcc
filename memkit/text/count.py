"""The length of a text in tokens: four characters are one token, unless the user supplies a counter."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from memkit.base.params import param
from memkit.errors import ParameterError

CHARS_PER_TOKEN = 4
_MOST = 2**53  # more than any text has, and still exact as a float

Counter = Callable[[str], int]


def counter_param() -> Any:
    """The parameter ``counter`` of estimators that count tokens."""
    doc = "Counts the tokens of a text; None: 4 characters are one token."
    return param(None, kind="callable", nullable=True, unit="str -> int", doc=doc)


def count_tokens(text: str) -> int:
    """The number of tokens by the default rule.

    >>> count_tokens("память")
    2
    """
    return -(-len(text) // CHARS_PER_TOKEN)


def checked_counter(counter: Counter, owner: str) -> Counter:
    """Wrap `counter` to raise if its result is not a number of tokens; a fraction is rounded up.

    Raises
    ------
    ParameterError
        If `counter` fails or returns anything but a number from 0 on; the message has the owner, the result and the
        text's length.

    Examples
    --------
    >>> checked_counter(lambda text: len(text) / 4, "Chunker")("memory")
    2
    >>> checked_counter(lambda text: -1, "Chunker")("memory")
    Traceback (most recent call last):
    memkit.errors.ParameterError: Chunker: 'counter' must return a number of tokens, 0 or more. Got -1 for 6 characters.
    """

    def count(text: str) -> int:
        try:
            answer = counter(text)
        except Exception as error:  # the user's own function may fail in any way
            raise _wrong(owner, f"{type(error).__name__}: {error}", text) from error
        if not isinstance(answer, Real) or isinstance(answer, bool) or not 0 <= answer <= _MOST:
            raise _wrong(owner, f"{answer!r:.80}", text)
        return math.ceil(answer)

    return count


def _wrong(owner: str, got: str, text: str) -> ParameterError:
    return ParameterError(
        f"{owner}: 'counter' must return a number of tokens, 0 or more. Got {got} for {len(text)} characters."
    )
