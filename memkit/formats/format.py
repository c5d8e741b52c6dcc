"""What a format is, as data: the general reader works from these declarations, and names no format itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.formats.disk.source import Source
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.schemas import Kind

if TYPE_CHECKING:
    from memkit.formats.disk.files import Content, Listing
    from memkit.formats.rows import Rows, Tables

MARKDOWN = (".md", ".markdown")

_CODES = {
    "error": "unparsable unreadable unsupported_version outside_root plugin_path missing_file duplicate_id out_of_range"
    " bad_date file_too_large too_many_files foreign_index format_failed",
    "warning": "missing_field bad_value not_uuid4 name_mismatch implausible_date encoding counter_mismatch"
    " dangling_relation self_relation contradictory_relation unbalanced_fence type_file_mismatch duplicate_key"
    " missing_index empty_text secret",
    "info": "missing_recommended prefix_mismatch unknown_placeholder unindexed unclaimed not_a_fact future_date symlink"
    " undeclared_kind empty_section deleted"
    " no_repository uncommitted",
}
SEVERITIES = {code: severity for severity, codes in _CODES.items() for code in codes.split()}
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
    "too_many_files": "Nothing of it is read; name a folder below.",
    "foreign_index": "It is not read; rename it if it does not belong to the agent's memory.",
    "format_failed": "The other formats are tried; tell the package's author.",
    "encoding": "Save the file as UTF-8; other bytes are replaced by U+FFFD.",
    "duplicate_key": "The first value counts, the later ones are kept in extra; remove one.",
    "unindexed": "It is read all the same; name it in an index.",
    "missing_index": "Its files are read all the same; add one and name it in the root.",
    "not_a_fact": "It is kept as text.",
    "empty_section": "It is not searched.",
    "deleted": "It is left out.",
    "no_repository": "Memories without a date of their own have none.",
    "uncommitted": "It has no date until it is committed.",
    "secret": "Move it and change it.",
    "undeclared_kind": "It is kept as it is; memkit.schemas.declare_kinds makes it known.",
    "symlink": "Links are not followed; a target inside of the root is read under its own name.",
}
"""What to do, where one sentence serves every case of a code."""


FIXES: dict[tuple[str, str, str], str] = {
    ("counter_mismatch", "facts", ""): "the facts are counted again",
    ("name_mismatch", "notes", "id"): "the file is named after its id",
    ("missing_field", "index_tree", "updated"): "the day of the fix is written",
    ("missing_field", "records", "format_version"): "1.0.0 is written",
    ("unindexed", "index_tree", ""): "the index of its folder names it, priority medium, without tags",
}
"""What `memkit.Fix` does, by code, format and field: only where one answer is right or harmless."""


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
    def fix(self) -> str:
        """How `memkit.Fix` mends it; empty where no way is safe."""
        return FIXES.get((self.code, self.format, self.field), "")

    @property
    def severity(self) -> str:
        """error, warning or info."""
        return SEVERITIES[self.code]

    @property
    def said(self) -> tuple[str, str, str]:
        """What a problem says where a reader finds it broken: code, field, expected."""
        return self.code, self.field, self.expected


def length(low: int, high: int = sys.maxsize) -> Callable[[object], bool]:
    """Whether a text has so many characters, the blanks around it not counted."""
    return lambda value: low <= len(str(value).strip()) <= high


def matches(pattern: str) -> Callable[[object], bool]:
    """Whether a value as text is what `pattern` describes."""
    compiled = re.compile(pattern, re.DOTALL)
    return lambda value: compiled.fullmatch(str(value)) is not None


def one_of(*words: str) -> Callable[[object], bool]:
    """Whether a value is one of `words`."""
    return lambda value: value in words


def is_ratio(value: object) -> bool:
    """Whether a value is a number in 0..1."""
    return isinstance(value, (int, float)) and 0 <= value <= 1


def is_not_negative(value: object) -> bool:
    """Whether a value is a number from 0 on."""
    return isinstance(value, (int, float)) and value >= 0


@dataclass(frozen=True)
class Role:
    """What a file is to be read as, beside its own bytes.

    Attributes
    ----------
    forced : str or None
        The format that ``read(format=...)`` asked for.
    told : tuple of (str, object)
        What the surveys of formats say of the file, by the name of the format: plain data with a telling ``repr``.
    """

    forced: str | None = None
    told: tuple[tuple[str, Any], ...] = ()


@dataclass
class File:
    """One file about to be read.

    Attributes
    ----------
    beside : callable
        ``beside(path, memory_id)`` is another file below the root, or None; its faults are that memory's problems.
    """

    source: Source
    role: Role = Role()
    beside: Callable[[str, str], Source | None] = lambda path, memory_id: None

    @cached_property
    def is_markdown(self) -> bool:
        """Whether the name ends in .md or .markdown, in any case."""
        return self.has_ending(MARKDOWN)

    @cached_property
    def front(self) -> FrontMatter | None:
        """The front matter, split once for all formats that ask."""
        return front_matter.split(self.source.text) if self.is_markdown else None

    def has_ending(self, endings: tuple[str, ...]) -> bool:
        """Whether the name ends in one of `endings`, in any case."""
        return self.source.name.lower().endswith(endings)

    def told(self, format: str) -> Any:
        """What the survey of `format` says of the file, or None."""
        return dict(self.role.told).get(format) if self.role.told else None


@dataclass(frozen=True)
class Folder:
    """What a survey looks at before any file is parsed.

    Attributes
    ----------
    read : callable
        ``read(path, rows)`` is a file, or None where it cannot be read; its faults go to `rows`.
    plugin_globs : tuple of str
        Paths that no index may name.
    is_forced : bool
        Whether ``read(format=...)`` asked for the format that surveys.
    """

    listing: Listing
    read: Callable[[str, Rows], Source | None]
    rows: Rows
    plugin_globs: tuple[str, ...] = ()
    is_forced: bool = False


@dataclass
class Survey:
    """What one format knows of the files before any is parsed.

    Attributes
    ----------
    told : dict of str to object
        What its reader is to know of a file, as plain data: its `Role` has it, and a change has it read again.
    aside : set of str
        Files that are read already, or as a part of others.
    """

    told: dict[str, Any] = field(default_factory=dict)
    aside: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Format:
    """One format, in the order in which they are tried: the first that claims a file reads it.

    Attributes
    ----------
    name, about : str
        The word in the column ``format``, and what its files are.
    kinds : tuple of str or Kind
        What its memories can be; memkit's own are declared in `memkit.schemas`, so names will do.
    tables : tuple of str
        The tables that it fills beside ``memories``, of `memkit.schemas` or of `schemas`.
    parse : callable
        ``parse(file, rows)`` adds the file's rows and problems.
    claims : callable or None
        ``claims(file) -> bool``; None for one that reads only what its survey tells of.
    endings : tuple of str
        The ends of names, in small letters, of the files that are opened for it, and that it may be forced on.
    rules : tuple of Rule
        Its checks.
    dates : dict of str to str or None
        How it calls created_at or updated_at in a file; None where the date is not a field.
    dates_in_lines : bool
        Whether the dates stand on the memory's own lines.
    schemas : dict of str to pyarrow.Schema
        Tables of its own that `memkit.schemas` does not declare; one whose name opens with ``_`` is for `check` alone.
    landmark : str
        The file or folder without which there is nothing to survey, or several with a blank between them.
    survey : callable, optional
        ``survey(folder) -> Survey``, before anything is parsed.
    batch : callable, optional
        ``batch(files) -> (tables, left)`` reads at once those of many files that need no single look.
    beside : callable, optional
        ``beside(file, rows)`` for a file that its survey told of, and that another format reads.
    check : callable, optional
        ``check(tables, rows)`` adds the problems that only all files together show.

    Examples
    --------
    A format for files that hold one memory each, and how it is tried on a folder:

    >>> import memkit as mk, tempfile
    >>> from memkit.tables.samples import write_files
    >>> def parse(file, rows):
    ...     rows.memory("cards", file.source.path, 1, file.source.text, kind="card")
    >>> cards = mk.Format("cards", "*.card", kinds=(mk.schemas.Kind("card", "a card"),), tables=(), parse=parse,
    ...                   claims=lambda file: file.source.name.endswith(".card"), endings=(".card",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.read(write_files(folder, {"tea.card": "чай"}), formats=[cards]).memories["text"].to_pylist()
    ['чай']
    >>> mk.forget_format("cards")
    """

    name: str
    about: str
    kinds: tuple[str | Kind, ...]
    tables: tuple[str, ...]
    parse: Callable[[File, Rows], None]
    claims: Callable[[File], bool] | None = None
    endings: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    dates: Mapping[str, str | None] = field(default_factory=dict)
    dates_in_lines: bool = False
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    landmark: str = ""
    survey: Callable[[Folder], Survey] | None = None
    batch: Callable[[Iterable[tuple[str, Content]]], tuple[Tables, list[tuple[str, Content]]]] | None = None
    beside: Callable[[File, Rows], None] | None = None
    check: Callable[[Tables, Rows], None] | None = None

    @cached_property
    def tests(self) -> Tests:
        """The tests of its rules, by field."""
        return tests_of(self.rules)

    def claims_file(self, file: File) -> bool:
        """Whether the format reads `file`, if none before it does."""
        return self.claims(file) if self.claims else file.told(self.name) is not None

    def may_read(self, file: File) -> bool:
        """Whether ``read(format=...)`` can force it on `file`."""
        return file.has_ending(self.endings) or self.claims_file(file)


Tests = dict[str, list[tuple[Rule, Callable[[object], bool]]]]


def tests_of(rules: Iterable[Rule]) -> Tests:
    """The tests of `rules` by their field."""
    found: Tests = {}
    for rule in rules:
        if rule.test:
            found.setdefault(rule.field, []).append((rule, rule.test))
    return found
