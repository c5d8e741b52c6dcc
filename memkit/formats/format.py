"""What a format is, as data: the general reader works from these declarations, and names no format itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memkit.formats.disk.source import Source
from memkit.formats.faults import Rule, Tests, tests_of
from memkit.formats.rows import Rows, Tables
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.schemas import Kind

if TYPE_CHECKING:
    from memkit.formats.disk.files import Content, Listing

MARKDOWN = (".md", ".markdown")
Batch = Callable[[Iterable[tuple[str, "Content"]]], tuple[Tables, list[tuple[str, "Content"]]]]
"""Reads the plain ones among files, of which it takes path and content: their tables, and the other files."""


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
    zone : tzinfo
        Of the times that the file writes without one.
    """

    source: Source
    role: Role = Role()
    beside: Callable[[str, str], Source | None] = lambda path, memory_id: None
    zone: tzinfo = UTC

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
    writes : tuple of str
        The ends of names, in small letters, of the files that memkit's own operations make and change for it; no plan
        changes any other file.
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
    >>> cards = mk.extend.Format("cards", "*.card", kinds=(mk.schemas.Kind("card", "a card"),), tables=(), parse=parse,
    ...                   claims=lambda file: file.source.name.endswith(".card"), endings=(".card",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.read(write_files(folder, {"tea.card": "чай"}), formats=[cards]).memories["text"].to_pylist()
    ['чай']
    >>> mk.extend.unregister("cards")
    """

    name: str
    about: str
    kinds: tuple[str | Kind, ...]
    tables: tuple[str, ...]
    parse: Callable[[File, Rows], None]
    claims: Callable[[File], bool] | None = None
    endings: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    dates: Mapping[str, str | None] = field(default_factory=dict)
    dates_in_lines: bool = False
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    landmark: str = ""
    survey: Callable[[Folder], Survey] | None = None
    batch: Batch | None = None
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
