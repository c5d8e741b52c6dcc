"""The declaration of a format, as data: the general reader works from these alone and knows no format by name.

It also says whose fact a memory is: the store that holds it, and what it is about. Two texts are duplicates only where
they have one owner: the same user, store and subject. `memkit.tables.owners` compares owners by these declarations.
A `Prompt` declares what a host shows its agent of the memories, beside the blocks that `ContextBuilder` fills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from memkit.base import hashes
from memkit.base.params import Param
from memkit.base.plugins import Plugins
from memkit.errors import ParameterError
from memkit.formats.disk.source import Source
from memkit.formats.rows import Rows, Rule, Tables, Tests, tests_of
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.front_matter import FrontMatter
from memkit.schemas import Kind

if TYPE_CHECKING:
    from memkit.formats.disk.files import Listing

Told = TypeVar("Told")
PAGE, TITLE, NONE = "page", "title", ""
UNDIVIDED = ("memory.md", "user.md")
"""The names of files, in lower case, whose headings do not divide owners: all within one is about the same."""


@dataclass(frozen=True)
class Owner:
    """What tells the owners of a format's memories apart, besides the user.

    Attributes
    ----------
    subject : str
        What a memory is about: ``page`` (the page's title and the headings within the page), ``title`` (the column:
        an entity, a subject, a question), or empty where the format says nothing.
    kinds : tuple of str
        The kinds that have a subject; empty: all.
    by_scope : bool
        Whether the column ``scope`` belongs to the subject.
    store : str
        A regular expression whose match at the head of a path is the store, where the host loads stores apart; empty
        where it does not.
    homes : tuple of str
        Where the expression finds no store, the folder of the nearest file of one of these names is one, unless it lies
        among archives or copies.
    by_name : bool
        Whether the host loads a page by the name of its file, so that the name counts as it is written. Elsewhere a
        title that comes from the name of a file is read without the mark of a copy.
    slugs : bool
        Whether a title that only spells the name of its file is a subject.

    Examples
    --------
    >>> Owner("title", store=".*")
    Owner(subject='title', kinds=(), by_scope=False, store='.*', homes=(), by_name=False, slugs=True)
    """

    subject: str = TITLE
    kinds: tuple[str, ...] = ()
    by_scope: bool = False
    store: str = ""
    homes: tuple[str, ...] = ()
    by_name: bool = False
    slugs: bool = True


BY_TITLE = Owner()
"""The owner where a format declares none."""


MARKDOWN = (".md", ".markdown", ".mdc", ".clinerules", ".cursorrules", ".goosehints", ".roorules", ".windsurfrules")
"""How names of Markdown files end; those of hosts' instructions have nothing before the dot."""
SKILL = "SKILL.md"
"""The file of a skill, which is no memory."""
DOCUMENTED = ("index_tree", "workspace", "notes", "records", "facts")
"""The formats that a document describes; every other one is a layout, whose name stands in the column ``layout``."""


@dataclass(frozen=True)
class Role:
    """What decides how a file is read, apart from its own bytes.

    Attributes
    ----------
    forced : str or None
        The format given to ``read(format=...)``.
    findings : tuple of (str, object)
        What each format's survey found out about the file, by the format's name: plain data whose ``repr`` differs
        where the data do.
    """

    forced: str | None = None
    findings: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def key(self) -> str:
        """A key that differs where the file would be read differently."""
        return hashes.digest(repr(self)) if self.findings else self.forced or ""


@dataclass
class File:
    """One file about to be read.

    Attributes
    ----------
    beside : callable
        ``beside(path, memory_id)`` reads another file below the root, or returns None; its faults are reported as
        problems of that memory.
    zone : tzinfo
        The time zone of times that the file writes without one.
    json : str or None
        'rows' where JSON of an unknown shape is wanted whatever its size.
    is_markdown : bool
        Whether the name ends in .md or .markdown, in any case.
    """

    source: Source
    role: Role = Role()
    beside: Callable[[str, str], Source | None] = lambda path, memory_id: None
    zone: tzinfo = UTC
    json: str | None = None

    def __post_init__(self) -> None:
        self.is_markdown = self.has_ending(MARKDOWN)

    @cached_property
    def front(self) -> FrontMatter | None:
        """The front matter of Markdown, parsed once for all formats."""
        return front_matter.split(self.source.text) if self.is_markdown else None

    def read_by(self, format: Format) -> File:
        """The file, with the properties that `format` reads in place of front matter."""
        if not (format.head_of and self.is_markdown) or self.front:
            return self
        other = replace(self)
        other.front = format.head_of(self.source.text)
        return other

    def has_ending(self, endings: tuple[str, ...]) -> bool:
        """Whether the name ends in one of `endings`, in any case."""
        return self.source.path.lower().endswith(endings)

    def finding(self, format: str) -> Any:
        """What the survey of `format` found out about the file, or None."""
        for name, value in self.role.findings:  # nearly all files have none, or one
            if name == format:
                return value
        return None


@dataclass(frozen=True)
class Folder:
    """The folder as a survey sees it, before any file is parsed.

    Attributes
    ----------
    read : callable
        ``read(path, rows)`` returns a file, or None where it cannot be read; its faults go to `rows`. With
        ``keep=False`` its text is not held for the next reading.
    is_same : callable
        ``is_same(path)`` says whether a file is what a survey saw in the reading before.
    plugin_globs : tuple of str
        Paths that no index may name.
    is_forced : bool
        Whether ``read(format=...)`` named the surveying format.
    instructions : tuple of File
        The files of instructions that ``read(instructions=...)`` names, wherever they lie; they are no memories.
    owned_stems : frozenset of str
        The names of the files that formats own, without ending and in lower case.
    opened : dict of str to File or None
        The files that surveys looked into, shared by all formats.
    """

    listing: Listing
    read: Callable[..., Source | None]
    is_same: Callable[[str], bool]
    rows: Rows
    plugin_globs: tuple[str, ...] = ()
    is_forced: bool = False
    instructions: tuple[File, ...] = ()
    owned_stems: frozenset[str] = frozenset()
    opened: dict[str, File | None] = field(default_factory=dict)

    def has_any(self, landmarks: Sequence[str]) -> bool:
        """Whether a file or folder at any depth, or above the root, has one of these names, or none is asked for."""
        return not landmarks or any(f"/{landmark}\0" in self._paths for landmark in landmarks)

    @cached_property
    def _unreported(self) -> Rows:
        return Rows()

    @cached_property
    def _paths(self) -> str:
        """All paths in one text, as to look for a name in it takes a tenth of a look at each path."""
        return "\0/".join(("", *self.listing.root.parts, *self.listing.folders, *self.listing.files, ""))

    def open(self, path: str) -> File | None:
        """A file to look into, the same for all formats; None where it cannot be read.

        Its faults are not reported: they are when the file is parsed.
        """
        if path not in self.opened:
            source = self.read(path, self._unreported)
            self.opened[path] = File(source) if source else None
        return self.opened[path]

    def ask(self, path: str, told: dict[str, Told], look: Callable[[File], Told]) -> Told | None:
        """What `look` tells of a file, held in `told` for as long as the file stays the same, in place of its text."""
        if path not in told or not self.is_same(path):
            source = None if path in self.opened else self.read(path, self._unreported, keep=False)
            file = File(source) if source else self.opened.get(path)
            if file is None:
                return None
            told[path] = look(file)
        return told[path]

    def is_skill(self, place: str) -> bool:
        """Whether the SKILL.md of a folder below the root has what every skill has: a name and what it is for."""
        file = self.open(f"{place}/{SKILL}") if place else None
        return bool(file and file.front and {"name", "description"} <= file.front.fields.keys())

    @cached_property
    def markdown(self) -> dict[str, list[str]]:
        """The names of the Markdown files by their folder, sorted; ``""`` is the root."""
        by_folder: dict[str, list[str]] = {}
        last, names = None, list[str]()
        for path in sorted(self.listing.files):
            if path.endswith(MARKDOWN) or path.lower().endswith(MARKDOWN):
                folder, _, name = path.rpartition("/")
                if folder != last:
                    last, names = folder, by_folder.setdefault(folder, [])
                names.append(name)
        return by_folder


@dataclass
class Survey:
    """What one format finds out about the files before any is parsed.

    Attributes
    ----------
    findings : dict of str to object
        What the format's reader needs to know about a file, by path, as plain data. It is kept in the file's `Role`,
        and a file whose finding changed is read again.
    skipped : set of str
        Files not to be read by themselves: they were read already, or are parts of others.
    """

    findings: dict[str, Any] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Format:
    """The declaration of one format. Formats are tried in order: the first that claims a file reads it.

    Attributes
    ----------
    name, about : str
        The word in the column ``format``, and a description of its files.
    kinds : tuple of str or Kind
        The kinds of its memories; a name is enough for a kind that `memkit.schemas` declares.
    tables : tuple of str
        The tables that it fills besides ``memories``, declared in `memkit.schemas` or in `schemas`.
    parse : callable
        ``parse(file, rows)`` adds the file's rows and problems.
    claims : callable or None
        ``claims(file) -> bool``; None for a format that reads only the files that its survey found.
    endings : tuple of str
        Endings of file names, in lower case: these files are opened for the format, and it may be forced on them.
    writes : tuple of str
        Endings of file names, in lower case, that memkit's operations create and change for the format; no plan changes
        any other file.
    rules : tuple of Rule
        Its checks.
    dates : dict of str to str or None
        The field that holds created_at or updated_at in its files; None where the date is not a field.
    dates_in_lines : bool
        Whether the dates stand on the memory's own lines.
    schemas : dict of str to pyarrow.Schema
        Tables of its own that `memkit.schemas` does not declare; a table whose name begins with ``_`` is only seen by
        `check`.
    order : int
        When it is tried: formats of a lower order first. memkit's own have 10 (``index_tree``) to 130 (``workspace``,
        which takes any Markdown); one of your own comes before them all, or where it says.
    hidden_places : tuple of str
        Folders whose names begin with a dot, and which hold its memories at any depth: they are read and written as
        visible ones are. ``*`` is one visible name.
    never_read : tuple of str
        Such folders in which there never are memories.
    owned_files : tuple of str
        Names of Markdown files that its host writes for other ends, so that they say nothing about a folder's pages.
    page_types : tuple of str
        Types that its host gives to every page, so that they say nothing about one.
    is_general : bool
        Whether it reads any file of its kind that no more specific layout reads, so that it competes with none.
    holds_entries : bool
        Whether its Markdown holds entries, which are no sections of a page.
    head_of : callable, optional
        ``head_of(text)`` reads lines of properties at the top of a page without front matter, as other formats do not;
        None where there are none.
    begins_pages_by_links : bool
        Whether a link to a page that is not there is usual, and no fault.
    whole_index : str
        The name of the file that must link to every page beside it, as an agent knows these by it alone.
    landmark : str
        The file or folder that must exist, or hold the root, for the survey to run; several are separated by blanks,
        and none is needed where it is empty.
    survey : callable, optional
        ``survey(folder) -> Survey``, called before anything is parsed.
    beside : callable, optional
        ``beside(file, rows)`` is called for a file that its survey found but another format reads.
    relate : callable, optional
        ``relate(tables, rows, formats)`` completes the tables with what can only be known from all files together,
        before any `check`, and adds problems; the `formats` that share it share one call.
    owner : Owner
        What tells the owners of its memories apart: texts of two owners are no duplicates.
    check : callable, optional
        ``check(tables, rows)`` adds the problems that show only when all files are read.

    Examples
    --------
    A format whose files hold one memory each, tried on a folder:

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
    order: int = 0
    hidden_places: tuple[str, ...] = ()
    never_read: tuple[str, ...] = ()
    owned_files: tuple[str, ...] = ()
    page_types: tuple[str, ...] = ()
    is_general: bool = False
    holds_entries: bool = False
    head_of: Callable[[str], FrontMatter | None] | None = None
    begins_pages_by_links: bool = False
    whole_index: str = ""
    landmark: str = ""
    survey: Callable[[Folder], Survey] | None = None
    beside: Callable[[File, Rows], None] | None = None
    relate: Callable[[Tables, Rows, Sequence[Format]], None] | None = None
    check: Callable[[Tables, Rows], None] | None = None
    owner: Owner = BY_TITLE

    @cached_property
    def layout(self) -> str | None:
        """What stands in the column ``layout`` of its memories: its name, or None for a documented format."""
        return None if self.name in DOCUMENTED else self.name

    @cached_property
    def tests(self) -> Tests:
        """The tests of its rules, by field."""
        return tests_of(self.rules)

    def takes(self, file: File) -> bool:
        """Whether the format reads `file`: it claims it, or ``read(format=...)`` names it and the ending is its own."""
        forced = file.role.forced
        if forced and (forced != self.name or file.has_ending(self.endings)):
            return forced == self.name
        return self.claims(file) if self.claims else file.finding(self.name) is not None


@dataclass(frozen=True)
class Prompt:
    """How a host shows memories of its layout, as ``ContextBuilder(host=name)`` does then.

    Attributes
    ----------
    name : str
        The layout, and the value of ``host``.
    about : str
        What is shown, within a sentence.
    show : callable or str
        ``show(corpus, rows, moment, **params) -> Context``; `rows` are the memories of the layout, in order. As
        ``"module:function"`` it is imported when a prompt is shown.
    params : dict of str to Param
        Its parameters, which are `ContextBuilder`'s then.
    """

    name: str
    about: str
    show: Callable[..., Any] | str
    params: Mapping[str, Param] = field(default_factory=dict)

    def shown(self, *given: Any, **params: Any) -> Any:
        """What `show` returns."""
        show = resolve_name(self.show) if isinstance(self.show, str) else self.show
        return show(*given, **params)


def _checked(name: str, prompt: Any) -> Prompt:
    if not isinstance(prompt, Prompt) or prompt.name != name:
        raise ParameterError(f"expected a memkit.extend.Prompt with the name {name!r}. Got {prompt!r:.80}.")
    return prompt


PROMPTS = Plugins("memkit.prompts", _checked)
