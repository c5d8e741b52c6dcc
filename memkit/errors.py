"""The exceptions of memkit, and the hint that follows a wrong name. This module imports nothing of memkit.

Defects in files are rows of the ``problems`` table instead; an exception is raised only where work cannot go on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

__all__ = [
    "ChangeRefusedError",
    "DamagedIndexError",
    "EncoderUnavailableError",
    "FormatError",
    "MemkitError",
    "MissingExtraError",
    "NotFittedError",
    "NotFoundError",
    "ParameterError",
    "PolicyRefusal",
    "QueryError",
    "StaleIndexError",
    "StaleSourceError",
    "VersionError",
]
_MAX_COMPARED = 50
"""The most names compared letter by letter: of more, those that share most pairs of letters with the wrong name."""
_MAX_CHARS = 200
"""The longest name, in characters, that gets a hint; a longer one is no typing error."""
_HASHES = 1 << 16


class Known:
    """Words that several wrong names are compared with."""

    def __init__(self, words: Iterable[str]) -> None:
        self.by_folded = {word.casefold(): word for word in words}
        self.words = sorted(word for word in self.by_folded if len(word) <= 4 * _MAX_CHARS)

    @cached_property
    def pairs(self) -> tuple[Any, Any]:
        """The number of pairs of letters of each word, and the hash of each pair, end to end."""
        import numpy as np

        return np.array([len(word) + 1 for word in self.words]), _pairs("\0".join(("", *self.words, "")))


def near(name: object, known: Iterable[str] | Known, cutoff: float = 0.6) -> list[str]:
    """Up to three known words most similar to `name`, best first, ignoring case; the ratio is `cutoff` or more.

    >>> near("MEMORI.md", ["MEMORY.md", "notes.md"])
    ['MEMORY.md']
    """
    wanted = str(name).casefold()
    if len(wanted) > _MAX_CHARS:
        return []
    known = known if isinstance(known, Known) else Known(known)
    matches = difflib.get_close_matches(wanted, _candidates(wanted, known), n=3, cutoff=cutoff) if known.words else []
    return [known.by_folded[word] for word in matches]


def _candidates(wanted: str, known: Known) -> list[str]:
    """The words that share most letter bigrams with the wanted one, most similar first.

    The first and the last letter make a bigram with the word's boundary. Bigrams are compared by hash, which may
    collide, as the candidates are compared letter by letter later.
    """
    if len(known.words) <= _MAX_COMPARED:
        return known.words
    import numpy as np

    sizes, pairs = known.pairs
    is_wanted = np.zeros(_HASHES, np.int32)
    is_wanted[_pairs(f"\0{wanted}\0")] = 1
    shared = np.add.reduceat(is_wanted[pairs], np.cumsum(sizes) - sizes)
    similarity = np.minimum(shared, len(wanted) + 1) / (sizes + len(wanted) + 1)
    return [known.words[index] for index in np.argsort(-similarity, kind="stable")[:_MAX_COMPARED]]


def _pairs(text: str) -> Any:
    """The hash of each pair of neighbouring letters."""
    import numpy as np

    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return (letters[:-1] * np.uint32(31) + letters[1:]) % _HASHES


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence for the end of a message that suggests the most similar known words; empty if there are none.

    >>> did_you_mean("wokspace", ["notes", "workspace"])
    " Did you mean 'workspace'?"
    >>> did_you_mean("xyz", ["notes", "workspace"])
    ''
    """
    matches = near(name, known)
    return f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""


def some_of(names: Sequence[str], most: int = 5) -> str:
    """The first few of the names, and how many more there are.

    >>> some_of(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_ES = re.compile("(s|x|z|ch|sh)$")


def count_of(n: int, one: str, several: str = "") -> str:
    """So many of a thing: the number with its noun.

    Parameters
    ----------
    n : int
    one : str
        The noun for one.
    several : str, optional
        The noun for others, where it does not follow from `one`.

    Examples
    --------
    >>> count_of(1, "memory"), count_of(1200, "memory"), count_of(0, "match"), count_of(2, "day")
    ('1 memory', '1,200 memories', '0 matches', '2 days')
    """
    return f"{n:,} {one if n == 1 else several or plural(one)}"


def plural(noun: str) -> str:
    """The plural of an English noun, with what it is of.

    >>> [plural(noun) for noun in ("query", "key", "box", "candidate of a query")]
    ['queries', 'keys', 'boxes', 'candidates of a query']
    """
    head, of, whole = noun.partition(" of ")
    if head.endswith("y") and head[-2:-1] not in "aeiou":
        return f"{head[:-1]}ies{of}{whole}"
    return f"{head}{'es' if _ES.search(head) else 's'}{of}{whole}"


class MemkitError(Exception):
    """The base class of every error that memkit raises on purpose. Shown, it hides the secrets that it quotes.

    >>> print(MemkitError("there is no fact 'ghp_16C7e42F292c6912E7710c838347Ae178B4a'."))
    there is no fact '[git_token hidden]'.
    """

    def __str__(self) -> str:
        from memkit.text.secrets import mask

        return mask(super().__str__())

    def __repr__(self) -> str:
        from memkit.text.secrets import mask

        return mask(super().__repr__())


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
    """The error for a file or folder that is not as expected, with the common wording of messages."""
    return FormatError(f"{named(where)}: expected {expected}. Got {got}.", path=str(where))


def named(where: object) -> str:
    """A path as a message shows it: quoted where it holds a line end or another character that does not print.

    >>> named("a/b.md"), named("a\\nb.md")
    ('a/b.md', "'a\\\\nb.md'")
    """
    return path if (path := str(where)).isprintable() else repr(path)


class VersionError(FormatError):
    """A record's ``format_version`` has a MAJOR version for which there is no adapter."""


class ParameterError(MemkitError, ValueError):
    """A parameter has a value that its declaration does not allow."""


class QueryError(MemkitError, ValueError):
    """A SQL statement, a ``where`` predicate or a query is not allowed or not valid."""


class NotFittedError(MemkitError, ValueError, AttributeError):
    """The estimator was used before ``fit``."""


class StaleIndexError(MemkitError):
    """An index no longer fits the rows that it was built from."""


class StaleSourceError(MemkitError):
    """A file changed after a change to it was planned; nothing was written.

    Attributes
    ----------
    path : str
        The file, relative to the root.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class ChangeRefusedError(MemkitError):
    """A change could not be made safely; the message says why, and nothing was written."""


class PolicyRefusal(MemkitError):
    """A policy rejects what was to be saved; nothing was written.

    Attributes
    ----------
    reason : str
        length, question, command, secret, duplicate, semantic_duplicate, limit or evicted.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotFoundError(MemkitError, LookupError):
    """No object has this id or name; the message suggests similar ones."""


class DamagedIndexError(FormatError, StaleIndexError):
    """A saved index was changed or damaged, or memkit did not write it: fit and save again."""


class EncoderUnavailableError(MemkitError):
    """The encoding service cannot be reached, or could not be reached a short time ago."""


class MissingExtraError(MemkitError, ImportError):
    """An optional package is not installed; the message names memkit's extra."""

    def __init__(self, package: str, extra: str, instead: str = "") -> None:
        other = f" ({instead})" if instead else ""
        super().__init__(
            f"{package} is not installed. Expected the extra '{extra}': pip install 'memkit[{extra}]'{other}"
        )
        self.package, self.extra = package, extra
