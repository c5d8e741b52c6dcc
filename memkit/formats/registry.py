"""The formats as data, in the order in which they are tried on a file: the first that claims it reads it.

To add a format: write its module (see `notes` for a small one), declare its tables in `memkit.schemas` and its checks
in `memkit.formats.rules`, and add a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from memkit.formats import facts, workspace
from memkit.formats.disk.source import Source
from memkit.formats.index_tree import entry as index_entry
from memkit.formats.index_tree.entry import Claim
from memkit.formats.notes import format as notes
from memkit.formats.records import format as records
from memkit.formats.rows import Rows
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.formats.syntax.node import Node

MARKDOWN = ("md", "markdown")
STRUCTURED = ("json", "jsonl", "ndjson", "yaml", "yml")


@dataclass(frozen=True)
class Role:
    """What the other files make of a file: the entry that names it, and where it lies."""

    claim: Claim | None = None
    old_facts: bool = False
    should_be_indexed: bool = False
    forced: str | None = None

    @cached_property
    def key(self) -> str:
        """What differs where the file would be read differently."""
        if self.claim is None:
            return f"{self.old_facts:d}{self.should_be_indexed:d}{self.forced or ''}"
        return blake2b(repr(self).encode("utf-8", "replace"), digest_size=16).hexdigest()

    @cached_property
    def may_be_note(self) -> bool:
        """Whether a file that is a note throughout would be read as one, with nothing to add."""
        return self.claim is None and not self.should_be_indexed and self.forced in (None, "notes")


@dataclass
class File:
    """One file about to be read."""

    source: Source
    role: Role
    parts: list[Source] = field(default_factory=list)

    @cached_property
    def ending(self) -> str:
        """Lower case, without the dot."""
        return self.source.name.rpartition(".")[2].lower()

    @property
    def is_markdown(self) -> bool:
        """Whether the name ends in .md or .markdown."""
        return self.ending in MARKDOWN

    @cached_property
    def front(self) -> FrontMatter | None:
        """The front matter, split once for all formats that ask."""
        return front_matter.split(self.source.text) if self.is_markdown else None


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes
    ----------
    claims : callable
        ``claims(file) -> bool``, asked in the order of `FORMATS`.
    fits : callable
        ``fits(file) -> bool``: whether ``read(format=...)`` may force it on the file.
    parse : callable
        ``parse(file, rows)`` adds the file's rows and problems.
    """

    name: str
    kinds: tuple[str, ...]
    tables: tuple[str, ...]
    claims: Callable[[File], bool]
    fits: Callable[[File], bool]
    parse: Callable[[File, Rows], None]


def _parse_entry(file: File, rows: Rows) -> None:
    if file.role.claim:
        index_entry.parse(file.source, file.role.claim, file.parts, rows)


def _parse_note(file: File, rows: Rows) -> None:
    notes.parse(file.source, file.front or FrontMatter(Node(), 0, 1), rows)


def _claims_facts(file: File) -> bool:
    if not file.is_markdown:
        return file.source.name == "meta.json" and facts.user_of(file.source.path) is not None
    return file.role.old_facts or facts.claims(file.source.path, file.source.text)


def _parse_facts(file: File, rows: Rows) -> None:
    if file.is_markdown:
        old = file.role.old_facts and facts.user_of(file.source.path) is None
        facts.parse(file.source, rows, old=old)
    else:
        facts.parse_meta(file.source, rows)


def _parse_workspace(file: File, rows: Rows) -> None:
    kind = workspace.parse(file.source, file.front, rows)
    if kind == "document" and not file.role.should_be_indexed and not file.role.forced:
        rows.problem(
            "unclaimed",
            file.source.path,
            "a file of one of the five formats",
            "none, so it is read as plain Markdown",
            quote=False,
        )


FORMATS: tuple[Format, ...] = (
    Format(
        "index_tree",
        ("entry",),
        ("entries",),
        claims=lambda file: file.role.claim is not None,
        fits=lambda file: file.role.claim is not None,
        parse=_parse_entry,
    ),
    Format(
        "notes",
        ("note",),
        ("notes",),
        claims=lambda file: file.is_markdown and notes.claims(file.front),
        fits=lambda file: file.is_markdown,
        parse=_parse_note,
    ),
    Format(
        "facts",
        ("profile", "working", "archive", "line"),
        ("facts",),
        claims=_claims_facts,
        fits=lambda file: file.is_markdown or _claims_facts(file),
        parse=_parse_facts,
    ),
    Format(
        "records",
        ("pathway", "memory_item", "wisdom_fact", "quarantined"),
        ("pathways", "memory_items", "wisdom_facts", "relations", "migrations"),
        claims=lambda file: file.ending in STRUCTURED,
        fits=lambda file: file.ending in STRUCTURED,
        parse=lambda file, rows: records.parse(file.source, rows),
    ),
    Format(
        "workspace",
        ("long_term", "daily_log", "session", "heartbeat", "document"),
        ("documents", "turns", "checklist"),
        claims=lambda file: file.is_markdown,
        fits=lambda file: file.is_markdown,
        parse=_parse_workspace,
    ),
)
NAMES = tuple(format.name for format in FORMATS)


def parse_file(file: File, rows: Rows) -> None:
    """Read one file with the first format that claims it, or with the one that was asked for."""
    forced = file.role.forced
    for format in FORMATS:
        wanted = format.fits(file) and format.name == forced if forced else format.claims(file)
        if wanted:
            rows.begin(file.source, *file.parts)
            format.parse(file, rows)
            _common(file, format, rows)
            rows.end()
            return
    rows.problem("unclaimed", file.source.path, f"a file that can be read as {forced}", file.source.name)


def _common(file: File, format: Format, rows: Rows) -> None:
    """What is reported alike in every format."""
    source = file.source
    if file.role.should_be_indexed:
        rows.problem("unindexed", source.path, "a file that an index names", "no entry", quote=False)
    if format.name == "workspace":
        fault = file.front.fault if file.front else None
        if fault:
            rows.problem("unparsable", source.path, "front matter in YAML", str(fault), line=fault.line, quote=False)
    if file.front is None and file.is_markdown and front_matter.is_unclosed(source.text):
        rows.problem("unparsable", source.path, "front matter closed by '---'", "no end", line=1, quote=False)
