"""Every check that memkit makes when it reads, as one list, `RULES`; and the checks across files.

A rule with a `test` is applied to its field's value wherever its format is read; a rule without one is reported by the
reader that finds the defect. To add a rule, add a row to its format (or pass ``rules=RULES + (Rule(...),)`` to
`mk.read`): the reader, ``mk.rules()``, messages and documentation use it from there.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import Moment, check_choice, describe, until_text
from memkit.base.plugins import Plugins
from memkit.errors import ParameterError
from memkit.formats.fields import TIME
from memkit.formats.format import Format
from memkit.formats.registry import FORMATS, guarded, in_use
from memkit.formats.rows import DEGREES, FIXES, KEPT_WITH, SEVERITIES, Row, Rows, Rule, Tables, in_order, shown
from memkit.formats.spelling import OF_MEASURES, UNREAD_HEAD
from memkit.schemas import KINDS, Ints, tuples_of, with_column

_ANY = (
    Rule("unparsable", "any", "", "JSON, YAML or front matter that parses"),
    Rule("unreadable", "any", "", "a file that may be read"),
    Rule("outside_root", "any", "", "no link out of the root"),
    Rule("symlink", "any", "", "regular files and folders"),
    Rule("file_too_large", "any", "", "at most max_file_bytes"),
    Rule("too_many_files", "any", "", "at most 500,000 files and folders in a revision"),
    Rule("foreign_journal", "any", "", "a journal whose records your own memkit signed in this place"),
    Rule("encoding", "any", "", "UTF-8"),
    Rule("duplicate_key", "any", "", "each key once in an object"),
    Rule("duplicate_id", "any", "id", "an id that no other record of its kind has"),
    Rule("empty_text", "any", "", "a memory with text"),
    Rule("format_failed", "any", "", "a format of another package that reads what it claims"),
    Rule("unclaimed", "any", "", "a file of a known format"),
    Rule("hidden", "any", "", "a name that does not begin with a dot, or one of the hosts' known places (hidden=)"),
    Rule("transcript", "any", "", "memories, not a host's record of a conversation (json='rows' reads it)"),
    Rule("two_layouts", "any", "", "a file of one layout"),
    Rule("same_mtime", "any", "created_at", "files changed at different times (checked only with dates='mtime')"),
    Rule("undeclared_kind", "any", "kind", "a kind that is declared in memkit.schemas.KINDS"),
    Rule("secret", "any", "", "no key, token, password or card (always counted, listed by `memkit check --secrets`)"),
    Rule("no_repository", "any", "", "a folder of a git repository (checked only where read() was given dates='git')"),
    Rule("uncommitted", "any", "created_at", "a text that is committed (checked only with dates='git')"),
    *OF_MEASURES,
    UNREAD_HEAD,
    Rule("stale", "any", "stale_at", "a day that is still to come (checked only where read() was given as_of)"),
    Rule("future_date", "any", "", "no date after as_of (checked only where read() was given one)"),
)
_TABLE = (
    *(Rule(TIME.code, "table", name, TIME.expected) for name in ("created_at", "updated_at", "expires_at")),
    Rule("bad_value", "table", "importance", "high, normal, medium or low"),
    Rule("out_of_range", "table", "confidence", "a number in 0..1"),
)
RULES: tuple[Rule, ...] = (*_ANY, *(rule for format in FORMATS for rule in format.rules), *_TABLE)


@dataclass(frozen=True)
class Check:
    """A check of a package's own over all that was read: each read makes it, of a folder that did not change too.

    `mk.extend.register` makes it known, or an entry point of the group ``memkit.rules`` whose name is its code.

    Attributes
    ----------
    code : str
        The column ``rule`` of what it finds; none of memkit's own.
    severity : 'error', 'warning' or 'info'
    expected : str
        What should be there, in words, as the message says it.
    find : callable
        ``find(tables)`` is given the tables by name, and gives a dict for each row of ``problems``: ``path`` and
        ``got``, what is there instead, and where they are known ``line``, ``field`` and ``memory_id``. Where it raises,
        one row says so, and the read goes on.
    advice : str, optional
        What to do, one sentence.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> def find(tables):
    ...     for row in tables["memories"].filter(pc.field("title") == "TODO").to_pylist():
    ...         yield {"path": row["path"], "got": row["title"], "line": row["line_start"]}
    >>> check = mk.extend.register(mk.extend.Check("our_titles", "warning", "a title that says something", find))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.read(mk.testing.write_files(folder, {"MEMORY.md": "# TODO\\nЧай\\n"})).problems["message"].to_pylist()
    ["MEMORY.md:1: expected a title that says something. Got 'TODO'."]
    >>> mk.extend.unregister(check)
    """

    code: str
    severity: str
    expected: str
    find: Callable[[Tables], Iterable[Row]]
    advice: str = ""

    def found(self, tables: Tables) -> pa.Table:
        """What it finds, as rows of ``problems``."""
        rows = Rows()
        try:
            for row in self.find(dict(tables)):
                rows.problem(self.code, expected=self.expected, severity=self.severity, advice=self.advice, **row)
            problems = rows.table("problems")
            if problems["path"].null_count:
                raise ValueError("a row without a path")
            return problems
        except (Exception, SystemExit) as error:  # foreign code may raise anything
            failed, expected = Rows(), f"the check {self.code!r} of another package to end"
            got = shown(f"{type(error).__name__}: {error}", 500)
            failed.problem(self.code, ".", expected, got, severity="warning", advice="Tell its author.", quote=False)
            return failed.table("problems")


def _checked(code: str, check: Any) -> Check:
    if not isinstance(check, Check) or check.code != code or not code.isidentifier() or code in SEVERITIES:
        expected = "a memkit.extend.Check, and a code of its own that is an identifier"
        raise ParameterError(f"a check: expected {expected}. Got {check!r:.80} as {code!r}.")
    check_choice("severity", check.severity, DEGREES, f"check {code!r}")
    return check


CHECKS = Plugins("memkit.rules", _checked)
"""The checks of packages, by code."""
_OWN = pa.array(SEVERITIES)


def with_found(tables: Tables) -> Tables:
    """The finished tables with what the checks of packages find now, in place of what they found when it was kept.

    No key of what is kept could say what code of others would say of it, so that they are asked again.
    """
    problems, checks = tables["problems"], [check for _, check in CHECKS.all()]
    own = problems.filter(pc.is_in(problems["rule"], value_set=_OWN))
    if not checks and len(own) == len(problems):
        return tables
    found = in_order(own, *(check.found({**tables, "problems": own}) for check in checks))
    return tables if found == problems else {**tables, "problems": found}


def rules() -> pa.Table:
    """Every check that memkit makes when it reads: its own, those of other formats in use, and those of packages.

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
    ranks, of_others = list(SEVERITIES), (rule for format in in_use() if format not in FORMATS for rule in format.rules)
    rows = [
        (rule.code, rule.severity, rule.format, rule.field, rule.expected, rule.fix)
        for rule in sorted((*RULES, *of_others), key=lambda rule: ranks.index(rule.code))
    ]
    rows += [(check.code, check.severity, "any", "", check.expected, "") for _, check in CHECKS.all()]
    rows.sort(key=lambda row: DEGREES.index(row[1]))
    names = ["code", "severity", "format", "field", "checks", "fix"]
    table = pa.table([*zip(*rows, strict=True)], names)
    return describe(table, memkit="rules")


def check(
    tables: Tables, formats: Iterable[Format], as_of: datetime | None, kept: dict[str, Any] | None = None
) -> pa.Table:
    """The problems that show only when all files are read; cost is linear in the rows.

    Parameters
    ----------
    kept : dict of str to object, optional
        What the checks keep from one reading of a folder to the next.
    """
    rows = Rows(kept={} if kept is None else kept)
    _duplicates(tables["_ids"], rows)
    formats = tuple(formats)
    for relate in dict.fromkeys(format.relate for format in formats):
        sharing = [format for format in formats if format.relate is relate]
        if relate and any(tables[name].num_rows for format in sharing for name in format.tables):
            with guarded(sharing[0], ".", rows):
                relate(tables, rows, sharing)
    for format in formats:
        if format.check and any(tables[name].num_rows for name in (*format.tables, *format.schemas)):
            with guarded(format, ".", rows):
                format.check(tables, rows)
    undeclared_kinds(tables["memories"], rows)
    if as_of is not None:
        until = Moment.from_cell(as_of).last_visible
        _future(tables["memories"], {format.name: format for format in formats}, until, rows)
        _stale(tables["memories"], until, rows)
    return rows.table("problems")


_BY_FOLDER = pa.array(["unclaimed", "transcript", "two_layouts", "unread_head"])
"""What is told once a folder, of all its files: a folder of another tool may hold thousands."""
_EMPTY = pa.array(["empty_section", "empty_text"])
_FEWEST, _MANY, _ALIKE = 2, 10, 50
"""How many of one folder are told once: files, where no folder above tells them; what is empty and records of no known
kind (of pages of nothing no row says anything); what is wrong with the same value of the same field.

So are all of these where folders below have few each, but the last number together.
"""
_FIXED = pa.array(sorted({code for code, _, _ in FIXES}))
_LINE, _GOT = r"^:\d+", r"\. Got [\s\S]*$"
"""What stands after the path in a message, where a line is known, and what says what came."""


class _Alike(NamedTuple):
    """What rows that are told once have in common, and from how many of them in one folder on they are."""

    rule: str
    said: str
    least: int


def by_folder(problems: pa.Table) -> pa.Table:
    """`problems` with one row for all files of a folder that no format claims for the same reason, for many records of
    no known kind, for many rows that say that something is empty, and for many that say the same of the same field.
    """
    rule, of_memory, of_field = problems["rule"], *(pc.is_valid(problems[name]) for name in ("memory_id", "field"))
    holds_text = pc.match_substring(problems["message"], KEPT_WITH)
    is_passed = pc.and_(pc.is_in(rule, value_set=_BY_FOLDER), pc.invert(pc.or_(of_field, holds_text)))
    is_empty = pc.and_(pc.is_in(rule, value_set=_EMPTY), of_memory)
    may_stay = pc.or_(pc.equal(problems["severity"], "error"), pc.is_in(rule, value_set=_FIXED))
    mask = pc.or_(pc.or_(is_passed, is_empty), pc.and_(of_field, pc.invert(may_stay)))
    least = pc.if_else(pc.or_(is_empty, pc.and_(is_passed, of_memory)), _MANY, pc.if_else(is_passed, _FEWEST, _ALIKE))
    found, least, is_passed, is_empty = problems.filter(mask), *(c.filter(mask) for c in (least, is_passed, is_empty))
    told = with_column(found, "message", pc.if_else(is_empty, "", found["message"]))
    after_path = [message[len(path) :] for path, message in tuples_of(told, "path", "message")]
    said = pc.replace_substring_regex(pa.array(after_path, pa.string()), _LINE, "")
    said = pc.if_else(is_passed, pc.replace_substring_regex(said, _GOT, ""), said)
    keys = list(map(cache(_Alike), found["rule"].to_pylist(), said.to_pylist(), least.to_pylist()))
    units = pc.if_else(is_passed, pc.coalesce(found["memory_id"], found["path"]), found["path"])
    numbers = units.combine_chunks().dictionary_encode().indices.to_numpy()
    messages = found["message"].to_pylist()
    rows, is_kept, places = list[Row](), np.ones(len(problems), bool), np.flatnonzero(mask.to_numpy())
    for folder, few in _by_place(found["path"].to_pylist(), numbers, keys):
        is_kept[places[few]] = False
        key, severity = keys[few[0]], pc.min(found["severity"].take(few)).as_py()
        what = "files" if key.least == _FEWEST else "rows"
        message = f"{folder or '.'}: {len(few):,} {what}, first {min(messages[row] for row in few)}"
        rows.append({"path": folder or ".", "rule": key.rule, "severity": severity, "message": message})
    summary = pa.Table.from_pylist(rows, problems.schema)
    return in_order(problems.filter(pa.array(is_kept)), summary) if rows else problems


def _by_place(paths: list[str], units: Ints, keys: list[_Alike]) -> Iterator[tuple[str, list[int]]]:
    """The rows of equal keys that are told once: those of a folder where it has enough `units` of them, else of the
    nearest folder above that has very many, so that thousands of folders with two such files each are no rows of their
    own; of files, else those of a folder with a few.
    """
    waiting: defaultdict[int, dict[tuple[str, _Alike], list[int]]] = defaultdict(dict)
    for row, (path, key) in enumerate(zip(paths, keys, strict=True)):
        folder = posixpath.dirname(path)
        waiting[folder.count("/") + bool(folder)].setdefault((folder, key), []).append(row)
    for depth in range(max(waiting, default=0), -1, -1):
        for (folder, key), rows in waiting[depth].items():
            if len(np.unique(units[rows])) >= _ALIKE:
                yield folder, rows
                continue
            by_home = defaultdict[str, list[int]](list)
            for row in rows:
                by_home[posixpath.dirname(paths[row])].append(row)
            if len(np.unique(units[by_home[folder]])) >= max(key.least, _MANY):
                yield folder, by_home.pop(folder)
            if depth:
                left = (row for home in by_home.values() for row in home)
                waiting[depth - 1].setdefault((posixpath.dirname(folder), key), []).extend(left)
            elif key.least == _FEWEST:
                yield from (of_home for of_home in by_home.items() if len(of_home[1]) >= _FEWEST)


def _duplicates(ids: pa.Table, rows: Rows) -> None:
    # Mostly all differ, whatever their groups; to join them takes longer than to see that.
    if len(pc.unique(ids["id"])) == ids.num_rows:
        return
    # By a separator of units, which no id has.
    encoded = pc.binary_join_element_wise(ids["group"], ids["id"], "\x1f").combine_chunks().dictionary_encode()
    if len(encoded.dictionary) == ids.num_rows:
        return
    codes = encoded.indices
    counts = pc.value_counts(codes)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    first: dict[int, str] = {}
    mask = pc.is_in(codes, value_set=repeated)
    for code, row in zip(codes.filter(mask).to_pylist(), ids.filter(mask).to_pylist(), strict=True):
        if code in first:
            expected = f"a unique id ({first[code]} has it too)"
            where = {"line": row["line"], "field": row["field"], "memory_id": row["memory_id"]}
            rows.problem("duplicate_id", row["path"], expected, row["id"], **where)
        first.setdefault(code, row["path"])


def undeclared_kinds(memories: pa.Table, rows: Rows) -> None:
    """Report each kind that is not declared, at the first memory that has it."""
    kinds = memories["kind"].combine_chunks()
    for kind in pc.unique(kinds).to_pylist():
        if kind is not None and kind not in KINDS:
            row = memories.slice(pc.index(kinds, kind).as_py(), 1).select(["memory_id", "path"]).to_pylist()[0]
            path = row["path"] or row["memory_id"]
            expected = "a kind that is declared in memkit.schemas.KINDS"
            rows.problem("undeclared_kind", path, expected, kind, field="kind", memory_id=row["memory_id"])


def _future(memories: pa.Table, formats: dict[str, Format], until: datetime, rows: Rows) -> None:
    limit = pa.scalar(until, memories.schema.field("created_at").type)
    for name in ("created_at", "updated_at"):
        late = pc.fill_null(pc.greater(memories[name], limit), False)
        if name == "updated_at":
            both = pc.fill_null(pc.equal(memories["created_at"], memories["updated_at"]), False)
            late = pc.and_(late, pc.invert(both))
        for row in memories.filter(late).select(["memory_id", "path", "line_start", "format", name]).to_pylist():
            format = formats[row["format"]]
            expected, got = f"no date after {until_text(until)}", row[name].isoformat()
            where = {"line": row["line_start"] if format.dates_in_lines else None, "memory_id": row["memory_id"]}
            field = format.dates.get(name, name)
            rows.problem("future_date", row["path"], expected, got, field=field, quote=False, **where)


def _stale(memories: pa.Table, until: datetime, rows: Rows) -> None:
    """Report each file whose author wanted it to be looked at again by now; stale it is from that moment on."""
    limit = pa.scalar(until, memories.schema.field("stale_at").type)
    late = memories.filter(pc.fill_null(pc.less_equal(memories["stale_at"], limit), False))
    stale = late.select(["path", "memory_id", "stale_at"]).to_pylist()
    # Reversed, so that of each file the first row stays.
    for path, row in {row["path"]: row for row in reversed(stale)}.items():
        expected, got = f"a day after {until_text(until)}", row["stale_at"].isoformat()
        rows.problem("stale", path, expected, got, field="stale_at", quote=False, memory_id=row["memory_id"])
