"""What can go wrong, as classes, and the hint that follows a wrong name. This module imports nothing of memkit.

Many small faults are rows of the ``problems`` table instead: an exception is for what stops the work.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_COMPARED = 50
"""Names that are compared letter by letter: of many, those that share most pairs of letters with what was asked."""
_LONGEST = 200
"""Characters of a name that others are compared with; what is longer is no slip."""
_HASHES = 1 << 16


def near(name: object, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The known words most like `name`, best first and three at most, case aside; from a ratio of `cutoff` on.

    >>> near("MEMORI.md", ["MEMORY.md", "notes.md"])
    ['MEMORY.md']
    """
    wanted = str(name).casefold()
    if len(wanted) > _LONGEST:
        return []
    by_letters = {word.casefold(): word for word in known}
    found = difflib.get_close_matches(wanted, _likely(wanted, list(by_letters)), n=3, cutoff=cutoff)
    return [by_letters[word] for word in found]


def _likely(wanted: str, words: list[str]) -> list[str]:
    """The words that share most neighbouring pairs of letters with the wanted one, in an order of their own.

    Words that end and begin alike share a pair too. A pair is known by its hash alone, as the words found are compared.
    """
    words = sorted(word for word in words if len(word) <= 4 * _LONGEST)
    if len(words) <= _COMPARED:
        return words
    import numpy as np

    def pairs(text: str) -> np.ndarray:
        letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        hashes: np.ndarray = (letters[:-1] * np.uint32(31) + letters[1:]) % _HASHES
        return hashes

    sizes = np.array([len(word) + 1 for word in words])
    is_wanted = np.zeros(_HASHES, np.int32)
    is_wanted[pairs(f"\0{wanted}\0")] = 1
    joined = "\0".join(("", *words, ""))
    shared = np.add.reduceat(is_wanted[pairs(joined)], np.cumsum(sizes) - sizes)
    alike = np.minimum(shared, len(wanted) + 1) / (sizes + len(wanted) + 1)
    return [words[place] for place in np.argsort(-alike, kind="stable")[:_COMPARED]]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence that names the known words most like `name`, to end a message; empty where no word is like it.

    >>> did_you_mean("wokspace", ["notes", "workspace"])
    " Did you mean 'workspace'?"
    >>> did_you_mean("xyz", ["notes", "workspace"])
    ''
    """
    found = near(name, known)
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


class MemkitError(Exception):
    """The root of every error that memkit raises on purpose."""


class FormatError(MemkitError, ValueError):
    """Input does not follow its format.

    Attributes
    ----------
    path : str or None
        The file, relative to the root that was read.
    line : int or None
        1-based line in that file.
    field : str or None
        The field, as the format spells it.
    """

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.line, self.field = path, line, field


def refused(where: object, expected: str, got: str) -> FormatError:
    """The error of a file or folder that is not as expected, in the one shape that messages have."""
    return FormatError(f"{named(where)}: expected {expected}. Got {got}.", path=str(where))


def named(where: object) -> str:
    """A path as a message names it: a message is one line, and a name may hold a line end.

    >>> named("a/b.md"), named("a\\nb.md")
    ('a/b.md', "'a\\\\nb.md'")
    """
    return path if (path := str(where)).isprintable() else repr(path)


class VersionError(FormatError):
    """A record's ``format_version`` has a MAJOR that no adapter knows."""


class ParameterError(MemkitError, ValueError):
    """A parameter has a value outside of its declaration."""


class QueryError(MemkitError, ValueError):
    """A SQL text, a ``where`` predicate or a query was refused."""


class NotFittedError(MemkitError, ValueError, AttributeError):
    """The estimator was used before ``fit``."""


class StaleIndexError(MemkitError):
    """An index and the rows that it was built from no longer belong together."""


class StaleSourceError(MemkitError):
    """A file is no longer as it was when a change was planned; nothing was written.

    Attributes
    ----------
    path : str
        The file, relative to the root.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class ChangeRefusedError(MemkitError):
    """A change was not made, since it could not be made safely; the message says why, and nothing was written."""


class PolicyRefusal(MemkitError):
    """A policy does not want what was to be saved; nothing was written.

    Attributes
    ----------
    reason : str
        length, question, command, secret, duplicate, semantic_duplicate, limit or evicted.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotFoundError(MemkitError, LookupError):
    """There is nothing of that id or name; the message names some that are like it."""


class DamagedIndexError(FormatError, StaleIndexError):
    """A saved index is not what was saved, or memkit never wrote it: fit and save again."""


class EncoderUnavailableError(MemkitError):
    """The service that encodes cannot be reached, or could not be reached lately."""


class MissingExtraError(MemkitError, ImportError):
    """An optional package is not installed; the message names memkit's extra."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Expected the extra '{extra}': pip install 'memkit[{extra}]'")
        self.package, self.extra = package, extra
