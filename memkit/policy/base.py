"""What the policies share: the base class, conditions in SQL, word patterns for RE2; and all of them by name: memkit's
own, registered ones, and those of other packages (entry points of the group ``memkit.policies``).

DuckDB's regular expressions are RE2: no look-around, and ``\\b`` knows ASCII only. A word's border is therefore spelled
out as a group of characters that are neither letters nor digits nor ``_``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pkgutil import resolve_name
from typing import Any

import pyarrow as pa

from memkit.base.duck import literals
from memkit.base.params import param
from memkit.base.plugins import of_packages
from memkit.documents import cite, memory_v2_policy
from memkit.errors import ParameterError, did_you_mean
from memkit.schemas import TABLES, kinds_where
from memkit.tables.statement import Annotator

START = r"(?:^|[^\p{L}\p{N}_])"
END = r"(?:$|[^\p{L}\p{N}_])"
# «как-то», «когда-нибудь», «давай-ка» are words of their own: a hyphen before a letter is not a border.
END_OF_WORD = r"(?:$|[^\p{L}\p{N}_-]|-(?:$|[^\p{L}\p{N}_]))"
# What str.strip() of Python takes away; DuckDB's trim() alone takes only the ASCII blank, and \s of RE2 is ASCII.
BLANK = r"[\x09-\x0d\x1c-\x20\x{85}\p{Z}]"

NOTHING = r"[^\x{0}-\x{10ffff}]"
"""Matches no text: the pattern of an empty list of words."""

VERDICT = {"keep": "false where the policy refuses the row", "reason": "code of the refusal; null where kept"}


class Policy(Annotator):
    """A rule over a table: it keeps every row, and adds ``keep``, ``reason`` and its own columns."""


def document_param(policy: str, name: str, doc: str, **declared: Any) -> Any:
    """A parameter with the value of Memory v2 as its default; for a list of words, None stands for that list."""
    value = memory_v2_policy[policy][name]
    if isinstance(value, tuple):
        value, declared = None, {"stands_for": value} | declared
    return param(value, doc=doc, source=cite("memory_v2", "policy"), **declared)


def needed(*names: str) -> pa.Schema:
    """The schema of these columns of ``memories``."""
    return pa.schema([TABLES["memories"].field(name) for name in names])


def kind_in(kinds: Iterable[str]) -> str:
    """SQL that tests whether a row is of one of `kinds`; false for a null kind.

    >>> print(kind_in(["note", "entry"]))
    coalesce(kind in ('note', 'entry'), false)
    """
    return f"coalesce(kind in ({literals(kinds)}), false)"


def only_kept() -> str:
    """SQL that tests whether policies always keep a row, such as a line of a fact file that is not a fact."""
    return kind_in(kinds_where(judged=False))


def no_fact() -> str:
    """SQL that tests whether a row is of a declared kind that is no fact; policies made for facts keep it."""
    return kind_in(kinds_where(fact=False))


def alternatives(words: Iterable[str]) -> str:
    r"""Words as an RE2 alternation: any blanks between the words of a phrase, е and ё alike.

    Raises
    ------
    ParameterError
        For a blank word, which would match everything.

    >>> alternatives(["can you", "живёт"])
    'can\\s+you|жив[её]т'
    """
    return "|".join(_word(word) for word in words)


@functools.cache
def _word(word: str) -> str:
    if not word.strip():
        raise ParameterError(f"a word list must hold words. Got {word!r}.")
    return r"\s+".join(re.escape(part) for part in word.split()).translate(
        {ord(letter): "[её]" for letter in "её"} | {ord(letter): "[ЕЁ]" for letter in "ЕЁ"}
    )


_GROUP = "memkit.policies"
POLICIES = {
    "admission": "memkit.policy.admission:Admission",
    "classifier": "memkit.policy.admission:Classifier",
    "deduplicator": "memkit.policy.dedup.deduplicator:Deduplicator",
    "quota": "memkit.policy.limits:Quota",
    "expiry": "memkit.policy.limits:Expiry",
    "decay": "memkit.policy.limits:Decay",
    "index_check": "memkit.policy.index_standard:IndexCheck",
    "split_plan": "memkit.policy.index_standard:SplitPlan",
}
"""The module and class of each policy, imported on demand; the name is `Annotator.name` of the class."""

_REGISTERED: dict[str, type[Annotator]] = {}


def register_policy(cls: type[Annotator]) -> None:
    """Make a policy of your own known by its name in this process; it comes before one of a package.

    Raises
    ------
    ParameterError
        Where memkit has a policy of that name.
    """
    if cls.name in POLICIES:
        raise ParameterError(f"a policy must have a name of its own. Got {cls.name!r} of {cls.__name__}.")
    _REGISTERED[cls.name] = cls


def forget_policy(name: str) -> None:
    """Undo `register_policy`; unknown names are ignored."""
    _REGISTERED.pop(name, None)


def policy_names() -> list[str]:
    """The names that `policy_class` knows, memkit's own first."""
    others = {*_REGISTERED, *(point.name for point in of_packages(_GROUP))}
    return [*POLICIES, *sorted(others - POLICIES.keys())]


def policy_class(name: str) -> type[Annotator]:
    """The class of a policy: one of memkit's, a registered one, or one that a package names as an entry point.

    Raises
    ------
    ParameterError
        For an unknown name, and for a package whose policy cannot be imported.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    modules = {point.name: point.value.partition("[")[0].strip() for point in of_packages(_GROUP)} | POLICIES
    if name not in modules:
        hint = did_you_mean(name, modules)
        raise ParameterError(f"policy: expected one of {', '.join(policy_names())}. Got {name!r}.{hint}")
    try:
        cls = resolve_name(modules[name])
    # Somebody else's package may fail in any way while it is imported.
    except Exception as error:
        raise ParameterError(f"policy: expected {name!r} to be {modules[name]}. Got {error!r}.") from error
    if not (isinstance(cls, type) and issubclass(cls, Annotator)):
        raise ParameterError(f"policy: expected {modules[name]} to be a Policy. Got {cls!r}.")
    return cls
