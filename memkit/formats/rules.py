"""Every check that memkit makes when it reads, as one list: `RULES`.

A rule with a `test` is tried on its field's value wherever its format is read; one without is raised by the reader
that meets the defect. To add a rule, add a row (or pass ``rules=RULES + (Rule(...),)`` to `mk.read`): the reader,
``mk.rules()``, messages and documentation take it from here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from memkit.params import describe

SEVERITIES: dict[str, str] = {
    "unparsable": "error",
    "unreadable": "error",
    "unsupported_version": "error",
    "outside_root": "error",
    "plugin_path": "error",
    "missing_file": "error",
    "duplicate_id": "error",
    "out_of_range": "error",
    "bad_date": "error",
    "file_too_large": "error",
    "foreign_index": "error",
    "missing_field": "warning",
    "bad_value": "warning",
    "not_uuid4": "warning",
    "name_mismatch": "warning",
    "implausible_date": "warning",
    "encoding": "warning",
    "counter_mismatch": "warning",
    "dangling_relation": "warning",
    "self_relation": "warning",
    "contradictory_relation": "warning",
    "unbalanced_fence": "warning",
    "type_file_mismatch": "warning",
    "duplicate_key": "warning",
    "empty_text": "warning",
    "secret": "warning",
    "unindexed": "info",
    "unclaimed": "info",
    "not_a_fact": "info",
    "future_date": "info",
    "symlink": "info",
    "undeclared_kind": "info",
    "empty_section": "info",
}
"""Severity of each code, error before warning before info."""

ADVICE: dict[str, str] = {
    "unparsable": "It is kept as text; mend the syntax.",
    "unreadable": "It is left out; check its permissions.",
    "unsupported_version": "It is kept as text only; add an adapter or a newer memkit.",
    "outside_root": "Nothing outside of the root is read; copy the file in or drop the reference.",
    "plugin_path": "An index must not name the plugin's own files; drop the entry.",
    "missing_file": "Restore the file or drop the reference.",
    "duplicate_id": "Give each its own id.",
    "file_too_large": "Its first 64 KiB are its text; split the file or raise max_file_bytes.",
    "foreign_index": "It is not read; rename it if it does not belong to the agent's memory.",
    "encoding": "Save the file as UTF-8; other bytes are replaced by U+FFFD.",
    "duplicate_key": "The first value counts, the later ones are kept in extra; remove one.",
    "unindexed": "It is read all the same; name it in an index.",
    "not_a_fact": "It is kept as text.",
    "empty_section": "It is not searched.",
    "secret": "Move it and change it.",
    "undeclared_kind": "It is kept as it is; memkit.schemas.declare_kinds makes it known.",
    "symlink": "Links are not followed; a target inside of the root is read under its own name.",
}
"""What to do, where one sentence serves every case of a code."""


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
        What should be there, in words; the message says it.
    test : callable or None
        ``test(value) -> bool`` on the value as read; None where the reader itself decides.
    """

    code: str
    format: str
    field: str
    expected: str
    test: Callable[[object], bool] | None = None

    @property
    def severity(self) -> str:
        """error, warning or info."""
        return SEVERITIES[self.code]


def _length(low: int, high: int = sys.maxsize) -> Callable[[object], bool]:
    return lambda value: low <= len(str(value).strip()) <= high


def _matches(pattern: str) -> Callable[[object], bool]:
    compiled = re.compile(pattern, re.DOTALL)
    return lambda value: compiled.fullmatch(str(value)) is not None


def _one_of(*words: str) -> Callable[[object], bool]:
    return lambda value: value in words


def _ratio(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 <= value <= 1


def _not_negative(value: object) -> bool:
    return isinstance(value, (int, float)) and value >= 0


def _keywords_short(value: object) -> bool:
    lengths = list(map(len, map(str, value))) if isinstance(value, list) else [0]
    return not lengths or (min(lengths) >= 1 and max(lengths) <= 50)


_DATE = "a date YYYY-MM-DD"
_TIME = "an ISO 8601 time stamp"
_NUMBER = "a number in 0..1"
_TIERS = ("core", "adaptive", "experimental")
_RELATIONS = ("supports", "contradicts", "extends")


def _missing(format: str, expected: str, fields: str) -> tuple[Rule, ...]:
    return tuple(Rule("missing_field", format, field, expected) for field in fields.split())


RULES: tuple[Rule, ...] = (
    # Any file.
    Rule("unparsable", "any", "", "JSON, YAML or front matter that parses"),
    Rule("unreadable", "any", "", "a file that may be read"),
    Rule("outside_root", "any", "", "no link out of the root"),
    Rule("symlink", "any", "", "regular files and folders"),
    Rule("file_too_large", "any", "", "at most max_file_bytes"),
    Rule("encoding", "any", "", "UTF-8"),
    Rule("duplicate_key", "any", "", "each key once in an object"),
    Rule("duplicate_id", "any", "id", "an id that no other record of its kind has"),
    Rule("empty_text", "any", "", "a memory with text"),
    Rule("unclaimed", "any", "", "a file of one of the five formats"),
    Rule("undeclared_kind", "any", "kind", "a kind that is declared in memkit.schemas.KINDS"),
    Rule("secret", "any", "", "no key, token, password or card (checked only by `memkit check --secrets`)"),
    Rule("future_date", "any", "", "no date after as_of (checked only where read() was given one)"),
    # Index trees.
    Rule("foreign_index", "index_tree", "", "an index-root, an index-branch or the old flat list"),
    *_missing("index_tree", "an entry with this field", "title file tags priority version updated"),
    *_missing("index_tree", "an index with this field", "type branches files path"),
    Rule("outside_root", "index_tree", "file", "a path inside of the memory folder"),
    Rule("plugin_path", "index_tree", "file", "a path outside of the plugin's folders (plugin_globs)"),
    Rule("bad_value", "index_tree", "file", "a path that names no index"),
    Rule("bad_value", "index_tree", "files", "a list of objects"),
    Rule("bad_value", "index_tree", "branches", "a list of objects"),
    Rule("missing_file", "index_tree", "file", "a file that exists"),
    Rule("missing_file", "index_tree", "path", "a branch index that exists"),
    Rule("missing_file", "index_tree", "parts", "a part that exists"),
    Rule("bad_value", "index_tree", "parts", "a part that is named once"),
    Rule("bad_value", "index_tree", "priority", "one of high, medium, low", _one_of("high", "medium", "low")),
    Rule("bad_value", "index_tree", "context_priority", "one of high, medium, low", _one_of("high", "medium", "low")),
    Rule("bad_value", "index_tree", "tags", "a list of strings"),
    Rule("bad_value", "index_tree", "pinned", "true or false"),
    Rule("bad_value", "index_tree", "access_count", "a whole number"),
    Rule("bad_value", "index_tree", "edit_count", "a whole number"),
    Rule("out_of_range", "index_tree", "access_count", "0 or more", _not_negative),
    Rule("out_of_range", "index_tree", "edit_count", "0 or more", _not_negative),
    Rule("bad_date", "index_tree", "updated", _DATE),
    Rule("unindexed", "index_tree", "", "a file that an index names"),
    # Workspaces.
    Rule("bad_date", "workspace", "", "a real date in the file's name"),
    Rule("implausible_date", "workspace", "", "a date within a year of some other log of the folder"),
    Rule("unbalanced_fence", "workspace", "", "a code fence that is closed"),
    Rule("empty_section", "workspace", "", "text below a heading, or a deeper heading with text"),
    # Notes.
    *_missing("notes", "front matter with this field", "id subject keywords applies_to created_at updated_at"),
    Rule("bad_value", "notes", "id", "a UUID"),
    Rule("not_uuid4", "notes", "id", "a UUID of version 4"),
    Rule("name_mismatch", "notes", "id", "the id as the file's name"),
    Rule("bad_value", "notes", "subject", "1 to 200 characters", _length(1, 200)),
    Rule("bad_value", "notes", "keywords", "1 to 20 keywords", lambda v: isinstance(v, list) and 1 <= len(v) <= 20),
    Rule("bad_value", "notes", "keywords", "keywords of 1 to 50 characters each", _keywords_short),
    Rule("bad_value", "notes", "applies_to", "global, file:<path> or area:<name>", _matches("global|file:.+|area:.+")),
    Rule("bad_date", "notes", "created_at", _TIME),
    Rule("bad_date", "notes", "updated_at", _TIME),
    Rule("bad_date", "notes", "occurred_at", _TIME),
    Rule("bad_value", "notes", "content", "at least 10 characters", _length(10)),
    Rule("unbalanced_fence", "notes", "", "a code fence that is closed"),
    # Records.
    Rule("unsupported_version", "records", "format_version", "a MAJOR version that an adapter knows"),
    Rule("bad_value", "records", "format_version", "MAJOR.MINOR.PATCH"),
    *_missing("records", "a record with this field", "format_version id triggers template variables tier usage_stats"),
    *_missing("records", "usage_stats with this field", "hits success_rate last_used_at"),
    *_missing("records", "a record with this field", "user_id input response timestamp tags"),
    *_missing("records", "a record with this field", "fact_id category content confidence relations"),
    *_missing("records", "a relation with this field", "type weight"),
    Rule("bad_value", "records", "triggers", "a list of strings"),
    Rule("bad_value", "records", "tags", "a list of strings"),
    Rule("bad_value", "records", "variables", "an object"),
    Rule("bad_value", "records", "usage_stats", "an object"),
    Rule("bad_value", "records", "relations", "a list of objects"),
    Rule("bad_value", "records", "hits", "a whole number"),
    Rule("bad_value", "records", "success_rate", _NUMBER),
    Rule("bad_value", "records", "confidence", _NUMBER),
    Rule("bad_value", "records", "weight", _NUMBER),
    Rule("bad_value", "records", "tier", f"one of {', '.join(_TIERS)}", _one_of(*_TIERS)),
    Rule("bad_value", "records", "type", f"one of {', '.join(_RELATIONS)}", _one_of(*_RELATIONS)),
    Rule("out_of_range", "records", "hits", "0 or more", _not_negative),
    Rule("out_of_range", "records", "success_rate", _NUMBER, _ratio),
    Rule("out_of_range", "records", "confidence", _NUMBER, _ratio),
    Rule("out_of_range", "records", "weight", _NUMBER, _ratio),
    Rule("bad_date", "records", "last_used_at", _TIME),
    Rule("bad_date", "records", "timestamp", _TIME),
    Rule("dangling_relation", "records", "relations", "a fact_id that was read"),
    Rule("self_relation", "records", "relations", "another fact than itself"),
    Rule("contradictory_relation", "records", "relations", "not both supports and contradicts between two facts"),
    # Fact lines.
    *_missing("facts", "a fact line with this tag", "id t imp"),
    Rule("bad_value", "facts", "t", "one of profile, working, archive", _one_of("profile", "working", "archive")),
    Rule("bad_value", "facts", "imp", "one of high, normal, low", _one_of("high", "normal", "low")),
    Rule("bad_date", "facts", "exp", _DATE),
    Rule("bad_date", "facts", "created", _DATE),
    Rule("not_a_fact", "facts", "", "a line '- [id:…] [t:…] [imp:…] text'"),
    Rule("type_file_mismatch", "facts", "t", "the type that the file is named for"),
    Rule("counter_mismatch", "facts", "", "the number of facts in the file beside it"),
    Rule("bad_value", "facts", "profileCount", "a whole number"),
    Rule("bad_value", "facts", "workingCount", "a whole number"),
    Rule("bad_value", "facts", "archiveCount", "a whole number"),
    Rule("bad_date", "table", "created_at", _TIME),
    Rule("bad_date", "table", "updated_at", _TIME),
    Rule("bad_date", "table", "expires_at", _TIME),
    Rule("bad_value", "table", "importance", "high, normal, medium or low"),
    Rule("out_of_range", "table", "confidence", _NUMBER),
)


def rules() -> pa.Table:
    """Every check that memkit makes when it reads.

    Returns
    -------
    pyarrow.Table
        Columns code, severity, format, field, checks (all string), errors first.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> rules().filter(pc.field("field") == "subject").select(["code", "checks"]).to_pylist()[-1]
    {'code': 'bad_value', 'checks': '1 to 200 characters'}
    """
    ranks = list(SEVERITIES)
    ordered = sorted(RULES, key=lambda rule: ranks.index(rule.code))
    table = pa.table(
        {
            "code": [rule.code for rule in ordered],
            "severity": [rule.severity for rule in ordered],
            "format": [rule.format for rule in ordered],
            "field": [rule.field for rule in ordered],
            "checks": [rule.expected for rule in ordered],
        }
    )
    return describe(table, memkit="rules")
