"""Every check that memkit makes when it reads, as one list: `RULES`.

A rule with a `test` is tried on its field's value wherever its format is read; one without is raised by the reader
that meets the defect. To add a rule, add a row to its format (or pass ``rules=RULES + (Rule(...),)`` to `mk.read`): the
reader, ``mk.rules()``, messages and documentation take it from there.
"""

from __future__ import annotations

import pyarrow as pa

from memkit.formats.faults import ADVICE, SEVERITIES, Rule
from memkit.formats.registry import FORMATS
from memkit.params import describe

__all__ = ["ADVICE", "RULES", "SEVERITIES", "Rule", "rules"]

_ANY = (
    Rule("unparsable", "any", "", "JSON, YAML or front matter that parses"),
    Rule("unreadable", "any", "", "a file that may be read"),
    Rule("outside_root", "any", "", "no link out of the root"),
    Rule("symlink", "any", "", "regular files and folders"),
    Rule("file_too_large", "any", "", "at most max_file_bytes"),
    Rule("too_many_files", "any", "", "at most 500,000 files and folders in a revision"),
    Rule("encoding", "any", "", "UTF-8"),
    Rule("duplicate_key", "any", "", "each key once in an object"),
    Rule("duplicate_id", "any", "id", "an id that no other record of its kind has"),
    Rule("empty_text", "any", "", "a memory with text"),
    Rule("format_failed", "any", "", "a format of another package that reads what it claims"),
    Rule("unclaimed", "any", "", "a file of one of the five formats"),
    Rule("undeclared_kind", "any", "kind", "a kind that is declared in memkit.schemas.KINDS"),
    Rule("secret", "any", "", "no key, token, password or card (checked only by `memkit check --secrets`)"),
    Rule("no_repository", "any", "", "a folder of a git repository (checked only where read() was given dates='git')"),
    Rule("uncommitted", "any", "created_at", "a text that is committed (checked only with dates='git')"),
    Rule("future_date", "any", "", "no date after as_of (checked only where read() was given one)"),
)
_TABLE = (
    *(Rule("bad_date", "table", name, "an ISO 8601 time stamp") for name in ("created_at", "updated_at", "expires_at")),
    Rule("bad_value", "table", "importance", "high, normal, medium or low"),
    Rule("out_of_range", "table", "confidence", "a number in 0..1"),
)
RULES: tuple[Rule, ...] = (*_ANY, *(rule for format in FORMATS for rule in format.rules), *_TABLE)


def rules() -> pa.Table:
    """Every check that memkit makes when it reads.

    Returns
    -------
    pyarrow.Table
        Columns code, severity, format, field, checks, fix (how `Fix` mends it, or empty; all string), errors first.

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
            "fix": [rule.fix for rule in ordered],
        }
    )
    return describe(table, memkit="rules")
