"""The codes of problems with severity and advice; `Rule`, which is one check; and tests for rules."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_CODES = {
    "error": "unparsable unreadable unsupported_version outside_root plugin_path missing_file duplicate_id out_of_range"
    " bad_date file_too_large too_many_files foreign_index format_failed",
    "warning": "missing_field bad_value not_uuid4 name_mismatch implausible_date encoding counter_mismatch"
    " dangling_relation self_relation contradictory_relation unbalanced_fence type_file_mismatch two_homes"
    " duplicate_key missing_index empty_text secret foreign_journal over_limit duplicate_entry duplicate_name"
    " loose_front_matter index_too_long duplicate_of_instructions dead_link",
    "info": "missing_recommended prefix_mismatch unknown_placeholder unindexed unclaimed not_a_fact future_date symlink"
    " undeclared_kind empty_section deleted"
    " no_repository uncommitted hidden transcript same_mtime two_layouts not_indexed ambiguous_link dead_anchor orphan"
    " no_successor stale unread_head",
}
SEVERITIES = {code: severity for severity, codes in _CODES.items() for code in codes.split()}
"""Severity of each code, error before warning before info."""
DEGREES = tuple(_CODES)
"""The severities, the worst first."""


def tally(severities: Iterable[str]) -> str:
    """How many problems of each severity there are, in words: the one count of overviews and checks.

    >>> tally(["info", "error", "info"])
    '1 error, 0 warnings, 2 info'
    """
    counts = Counter(severities)
    plural = {word: "" if counts[word] == 1 or word == "info" else "s" for word in _CODES}
    return ", ".join(f"{counts[word]:,} {word}{plural[word]}" for word in _CODES)


ADVICE: dict[str, str] = {
    "unparsable": "It is kept as text; fix the syntax.",
    "unreadable": "It is left out; check its permissions.",
    "unsupported_version": "It is kept as text only; add an adapter or a newer memkit.",
    "outside_root": "Nothing outside of the root is read; copy the file into it or remove the reference.",
    "plugin_path": "An index must not name the plugin's own files; remove the entry.",
    "missing_file": "Restore the file or remove the reference.",
    "duplicate_id": "Give each record a different id.",
    "file_too_large": "Only its first 64 KiB are read; split the file or raise max_file_bytes.",
    "too_many_files": "Nothing is read; choose a folder further down.",
    "foreign_index": "It is not read; rename it if it does not belong to the agent's memory.",
    "foreign_journal": "Another user or an older memkit wrote them, or the folder was copied or moved. None is"
    " replayed, and the next change sets them aside; mk.recover(folder, trust=True) replays them.",
    "format_failed": "The other formats are tried; tell the package's author.",
    "encoding": "Save the file as UTF-8; other bytes are replaced by U+FFFD.",
    "duplicate_key": "The first value counts, the later ones are kept in extra; remove one.",
    "over_limit": "Shorten it, or take out what is no longer needed.",
    "duplicate_entry": "Remove one.",
    "duplicate_name": "They are read as one; merge them.",
    "bad_date": "Write a real day, such as 2025-03-04.",
    "unindexed": "It is read anyway; add it to an index.",
    "missing_index": "Its files are read anyway; add an index and name it in the root.",
    "two_homes": "Both are read, but a store uses only the first; move the users of the other there.",
    "not_a_fact": "It is kept as text.",
    "empty_section": "It is not searched; write something below it, or remove it.",
    "deleted": "It is left out.",
    "no_repository": "Memories without a date of their own have none.",
    "uncommitted": "It has no date until it is committed.",
    "secret": "Remove it from the file, and revoke it.",
    "undeclared_kind": "It is kept as it is; declare it with memkit.schemas.declare_kinds.",
    "duplicate_of_instructions": "Keep them in one place: the host loads the instructions anyway, and the others add"
    " nothing.",
    "index_too_long": "Shorten it: mk.plan(corpus, [mk.hosts.IndexBudget()]) moves long lines into topic files.",
    "dead_link": "Write the page, or correct the link.",
    "ambiguous_link": "Write more of its path.",
    "not_indexed": "Add a line for each; an agent that reads the index alone does not know them.",
    "orphan": "Link to them, or take out what is no longer needed.",
    "no_successor": "Name that page in its front matter; where none takes its place, leave it.",
    "stale": "It ranks lower but stays; check whether it still holds, and set a new day.",
    "unread_head": "It is text; write its fields between '---' lines to have title, date and tags.",
    "symlink": "Links are not followed; a target inside of the root is read under its own name.",
}
"""What to do about a problem, for codes where one sentence fits every case."""


FIXES: dict[tuple[str, str, str], str] = {
    ("counter_mismatch", "facts", ""): "the facts are counted again",
    ("name_mismatch", "notes", "id"): "the file is named after its id",
    ("missing_field", "index_tree", "updated"): "the day of the fix is written",
    ("missing_field", "records", "format_version"): "1.0.0 is written",
    ("unindexed", "index_tree", ""): "the index of its folder names it, priority medium, without tags",
}
"""What `memkit.Fix` does, by code, format and field: only where there is one right or harmless repair."""


@dataclass(frozen=True)
class Rule:
    """One check.

    Attributes
    ----------
    code : str
        A key of `SEVERITIES`.
    format : str
        The format whose reader makes the check, or 'any'.
    field : str
        The field checked, as the format spells it; empty for a whole file or record.
    expected : str
        What should be there, in words, as the message says it.
    test : callable or None
        ``test(value) -> bool`` for the value as read; None where the reader itself decides.
    """

    code: str
    format: str
    field: str
    expected: str
    test: Callable[[object], bool] | None = None

    @property
    def fix(self) -> str:
        """How `memkit.Fix` repairs it; empty where no repair is safe."""
        return FIXES.get((self.code, self.format, self.field), "")

    @property
    def severity(self) -> str:
        """error, warning or info."""
        return SEVERITIES[self.code]

    @property
    def parts(self) -> tuple[str, str, str]:
        """What a reader reports where the rule is broken: code, field, expected."""
        return self.code, self.field, self.expected


def length(low: int, high: int = sys.maxsize) -> Callable[[object], bool]:
    """A test that a text has so many characters, without the blanks around it."""
    return lambda value: low <= len(str(value).strip()) <= high


def matches(pattern: str) -> Callable[[object], bool]:
    """A test that a value, as text, matches `pattern` as a whole."""
    compiled = re.compile(pattern, re.DOTALL)
    return lambda value: compiled.fullmatch(str(value)) is not None


def one_of(*words: str) -> Callable[[object], bool]:
    """A test that a value is one of `words`."""
    return lambda value: value in words


def is_ratio(value: object) -> bool:
    """Whether a value is a number in 0..1."""
    return isinstance(value, (int, float)) and 0 <= value <= 1


def is_not_negative(value: object) -> bool:
    """Whether a value is a number from 0 on."""
    return isinstance(value, (int, float)) and value >= 0


Tests = dict[str, list[tuple[Rule, Callable[[object], bool]]]]


def tests_of(rules: Iterable[Rule]) -> Tests:
    """The tests of `rules` by their field."""
    tests: Tests = {}
    for rule in rules:
        if rule.test:
            tests.setdefault(rule.field, []).append((rule, rule.test))
    return tests
