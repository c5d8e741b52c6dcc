"""From a folder to tables: list the files, survey them, parse new and changed ones, run the checks across files.

Parsing a file is a pure function of its bytes and its `Role`. So files are parsed in batches, in any process, and again
only when one of the two changed. The checks across files run over the finished tables. Cost is linear in the changed
files, plus one stat for each unchanged file.
"""

from __future__ import annotations

import gc
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.hashes import checksum
from memkit.base.parallel import bar, results, system_memory, workers
from memkit.base.params import describe, zone_of
from memkit.base.plugins import Plugins, as_it_is
from memkit.formats.disk.files import (
    MAX_FILE_BYTES,
    Content,
    Listing,
    Overlay,
    Stat,
    check_root,
    digest_of,
    home_of,
    list_files,
    read_bytes,
    saves_in,
)
from memkit.formats.disk.lock import steady
from memkit.formats.disk.source import Source
from memkit.formats.finished import checklist_of, with_aside
from memkit.formats.format import File, Folder, Format, Role, Survey
from memkit.formats.records.kinds import Adapter, register_adapter, registered_adapters
from memkit.formats.registry import FORMATS, formats_for, guarded, may_claim, parse_file
from memkit.formats.rows import PROBLEM_ORDER, Rows, Rule, Tables, exact, in_order, merge, schemas_of, with_own_dates
from memkit.formats.rules import by_folder, check, with_found
from memkit.schemas import TIMESTAMP, with_column, without_rows

DATES = ("git", "mtime")
"""Where the dates of memories without one of their own may come from."""
# Round numbers: what one process reads before it hands it on.
BATCH_FILES, BATCH_BYTES = 1000, 16 * 2**20
_SESSIONS_END = ".jsonl"
_SESSION = re.compile(r"(?:^|/)(?:rollout-[^/]*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$", re.IGNORECASE)
"""The names that hosts give to the transcripts of their sessions, of which there may be gigabytes."""
_BATCHES_PER_PROCESS = 8
"""The least number of batches for each process, so that all processes end at about the same time."""
WORTH_PROCESSES = 15_000
"""The number of files from which on other processes help: they take a second to start."""


@dataclass(frozen=True)
class Options:
    """The arguments of a read; a refresh reads with the same ones."""

    format: str | None = None
    as_of: datetime | None = None
    max_file_bytes: int = MAX_FILE_BYTES
    plugin_globs: tuple[str, ...] = ()
    rules: tuple[Rule, ...] | None = None
    """None means the rules of each format, which need not be sent to each process."""
    n_jobs: int | None = None
    progress: bool = False
    formats: tuple[str, ...] = ()
    """Names of formats from outside of memkit, tried before memkit's own."""
    rev: str | None = None
    dates: str | None = None
    """`rev` is the git revision to read, or None for the folder as it is; `dates` is where dates of undated memories
    come from, 'git' or 'mtime', the times of the files.
    """
    timezone: str | None = None
    """The zone of times that files write without one, as `zone_of` accepts it; None is UTC."""
    hidden: str = "known"
    """Which files whose names begin with a dot are read, one of `HIDDEN`."""
    json: str | None = None
    """'rows' to read JSON of an unknown shape whatever its size, transcripts too."""
    instructions: tuple[str, ...] = ()
    """Absolute paths of files of instructions. They lie anywhere, so that no lake keeps them: its next user named none.
    """


FileState = tuple[Stat, str, str]  # no class: one is made for every file of every read
"""A file as it was parsed: its stat, the key of its role, the hash of its content ("" where it could not be read)."""
_UNREAD: FileState = ((-1, -1, -1, -1), "", "")


@dataclass
class Reading:
    """One read of a folder.

    Attributes
    ----------
    files : dict of str to tuple
        The state of each file that a format may claim.
    parsed : dict of str to pyarrow.Table
        The rows of the files, each table in path order; kept for the next refresh.
    tables : dict of str to pyarrow.Table
        The finished tables: with the rows of the surveys and of the checks across files.
    surveyed : dict of str to tuple
        The files that surveys read: the stat of each, a checksum of its text, and the text, or None where only what it
        tells is held. Every read surveys them, but opens only the changed ones.
    walked, asked, stats : str or None, dict, dict
        A hash of what the listing saw, what it was asked for besides, and the stat of each file: where they are the
        same again, so is the folder.
    began : int, ns
        When the folder was listed.
    unsettled : frozenset of str
        The files whose stat may stay what it is if they are written again, as they were just written when they were
        read, and a clock has ticks: the next refresh compares their hashes.
    kept : dict of str to object
        What surveys and the checks across files keep for the next refresh.
    """

    root: Path
    options: Options
    files: dict[str, FileState] = field(default_factory=dict)
    parsed: Tables = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    surveyed: dict[str, tuple[Stat, bytes, Source | None]] = field(default_factory=dict)
    walked: str | None = None
    asked: dict[tuple[str, str], str | None] = field(default_factory=dict)
    stats: dict[str, Stat | None] = field(default_factory=dict)
    began: int = 0
    unsettled: frozenset[str] = frozenset()
    kept: dict[str, Any] = field(default_factory=dict)


Item = tuple[str, Role, str]
"""A path, its role, and the hash of its content when it was last parsed in that role."""
Parsed = tuple[Tables, list[FileState]]
"""The rows of some files, and the state of each file."""
Read = tuple[str, Content]
"""A path and the content of its file."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch the garbage collector off: there are so many rows that looking for cycles takes a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read(root: Path, options: Options, before: Reading | None = None) -> Reading:
    """Read `root`, reusing from `before` what did not change since, or `before` itself where nothing did; waits while
    memkit writes there. The checks of packages are made each time.

    Raises
    ------
    ParameterError, FormatError, MemkitError
        For an unknown format; where nothing can be read at `root`; where a writer does not finish in time, or died.
    """
    reading = _read(root, options, before)
    tables = with_found(reading.tables)
    return reading if tables is reading.tables else replace(reading, tables=tables)


def _read(root: Path, options: Options, before: Reading | None) -> Reading:
    formats, began = formats_for(options.formats, options.format), time.time_ns()
    with no_collection(), system_memory(), listed(root, options, with_stat=before is not None) as listing:
        # With other options the same files give other tables.
        if before and before.options == options and is_as_it_was(listing, before):
            if before.unsettled:
                return _settled(before, began)
            before.began = began  # as it was listed so once more
            return before
        walked = listing.walked()
        result = read_listing(listing, root, options, formats, before)
        result.walked, result.asked = walked, listing.asked
        opened = ((path, result.files.get(path, _UNREAD)) for path in listing.files)
        result.stats = {path: listing.stat(path) if state == _UNREAD else state[0] for path, state in opened}
        result = _settled(result, began)
    if options.dates == "git":
        past().date(result)
    elif options.dates == "mtime":
        _date_by_files(result)
    return result


def is_as_it_was(listing: Listing, before: Reading) -> bool:
    """Whether nothing was written since `before`: the walk, the stat of each file and the hash of what is unsettled
    are the same.

    A commit, and files of instructions outside of the folder, are not looked at: with them nothing is known.
    """
    options = before.options
    if options.dates == "git" or options.rev or options.instructions or before.walked is None:
        return False
    if listing.walked() != before.walked or any(listing.ask(*key) != found for key, found in before.asked.items()):
        return False
    named = dict.fromkeys(filter(None, before.asked.values()))
    whole = replace(listing, files={**named, **listing.files})
    # As dictionaries in a tenth of the time; they differ where a file was not looked at yet.
    if whole.files != before.stats and any(whole.stat(path) != stat for path, stat in before.stats.items()):
        return False
    return all(_is_content(whole, path, before.files.get(path, _UNREAD)[2]) for path in before.unsettled)


def _is_content(listing: Listing, path: str, digest: str) -> bool:
    """Whether a file still has the content of this hash; where none is known, as of what surveys read, it may not."""
    with suppress(OSError):
        return digest != "" and digest_of(listing.content(path)) == digest
    return False


_TICK_NS, COARSE_NS = 20_000_000, 2_000_000_000
"""Longer than a tick of the clock that stamps files; the second is for one that stamps whole seconds."""


def _settled(reading: Reading, began: int) -> Reading:
    """`reading`, made by a listing that `began` then, with the files that are not settled."""
    return replace(reading, began=began, unsettled=unsettled(reading.stats, began, _TICK_NS))


def unsettled(stats: Mapping[str, Stat | None], began: int, tick: int) -> frozenset[str]:
    """The files that were written within a tick of the clock before `began`, when the reading did, or later.

    An mtime far ahead was set by somebody, whose write left a ctime; a ctime ahead is of another machine's clock.
    """
    ended, oldest = time.time_ns() + tick, began - max(tick, COARSE_NS)

    def is_recent(moment: int) -> bool:
        return moment >= began - (tick if moment % 10**9 else COARSE_NS)

    return frozenset(
        path
        for path, stat in stats.items()
        if stat and max(stat[1], stat[2]) >= oldest  # which nearly none is
        if is_recent(stat[2]) or (stat[1] <= ended and is_recent(stat[1]))
    )


# A guess: a clone writes thousands of files within a minute.
_ONE_TIME = 60_000_000
"""Files changed within so many microseconds were probably written by one clone or copy."""


def _date_by_files(reading: Reading) -> None:
    """Date memories without a date of their own by the time when their file was last changed."""
    memories = reading.tables["memories"]
    mask = pc.is_null(memories["date_source"]).combine_chunks()
    encoded = memories["path"].combine_chunks().dictionary_encode()
    stats = [reading.files.get(path, _UNREAD)[0] for path in encoded.dictionary.to_pylist()]
    # Microseconds of nanoseconds; in a revision of git there is none.
    times = pa.array([stat[1] // 1000 if stat[1] >= 0 else None for stat in stats], pa.int64())
    moments = times.take(encoded.indices).filter(mask)
    if not len(moments):
        return
    reading.tables["memories"] = with_dates(memories, mask, moments.cast(TIMESTAMP), moments.cast(TIMESTAMP), "mtime")
    span = pc.min_max(moments).as_py()
    n_files = len(pc.unique(encoded.indices.filter(mask)))
    if n_files > 1 and span["min"] is not None and span["max"] - span["min"] <= _ONE_TIME:
        rows = Rows(reading.options.rules)
        got = f"{n_files} files changed within one minute, as after a clone or a copy"
        expected = "from files that were changed at different times"
        rows.problem("same_mtime", ".", expected, got, field="created_at", quote=False)
        add_problems(reading, rows)


def with_dates(memories: pa.Table, mask: pa.Array, created: Any, updated: Any, source: Any) -> pa.Table:
    """`memories` with these dates, and where they come from, in the rows of `mask`."""
    for name, values in (("created_at", created), ("updated_at", updated), ("date_source", source)):
        column = memories[name].combine_chunks()
        values = pa.scalar(values, column.type) if isinstance(values, str) else values.cast(column.type)
        memories = with_column(memories, name, pc.replace_with_mask(column, mask, values))
    return memories


def add_problems(reading: Reading, rows: Rows) -> None:
    """Add the problems among `rows` to those of a reading, in their order."""
    reading.tables["problems"] = in_order(reading.tables["problems"], rows.table("problems"))


def read_with(before: Reading, contents: Mapping[str, bytes | None]) -> Reading:
    """`before` as it would be with these contents of some files; None is a file that does not exist."""
    options = before.options
    formats = formats_for(options.formats, options.format)
    with no_collection(), listed(before.root, options, with_stat=True) as listing:
        return read_listing(Overlay(listing, contents), before.root, options, formats, before)


@no_collection()
def memories_of(
    root: Path, options: Options, before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]
) -> tuple[pa.Table, pa.Table]:
    """The memories before and after some files change from `before` to `after`: those of the changed files, and of the
    files that are read differently because of them.
    """
    formats = formats_for(options.formats, options.format)
    with listed(root, options) as listing:
        states = [_Surveyed(Overlay(listing, contents), options, formats) for contents in (before, after)]
        roles, new_roles = (state.roles for state in states)
        affected = {path for path in roles.keys() | new_roles.keys() if roles.get(path) != new_roles.get(path)}
        old, new = (state.memories(affected | before.keys()) for state in states)
    return old, new


class _Surveyed:
    """A listing with the role of each file."""

    def __init__(self, listing: Listing, options: Options, formats: tuple[Format, ...]) -> None:
        self.listing, self.options, self.formats = listing, options, formats
        self.rows = Rows(options.rules, schemas_of(formats))
        self.roles = roles_of(listing, formats, self.rows, Reading(listing.root, options), None)

    def memories(self, paths: Set[str]) -> pa.Table:
        """The memories of some files, and of index entries without a file."""
        items = [(path, role, "") for path, role in self.roles.items() if path in paths]
        parsed, _ = _parse_all(self.listing, self.options, self.formats, items)
        return pa.concat_tables([self.rows.to_arrow()["memories"], parsed["memories"]])


@contextmanager
def listed(root: Path, options: Options, *, with_stat: bool = False) -> Iterator[Listing]:
    """The files of the folder, or of its git revision where `options` name one, to be read within the block."""
    if options.rev is None:
        check_root(root)
        with steady(home_of(root)) as foreign:
            listing = list_files(root, options.max_file_bytes, with_stat=with_stat, hidden=options.hidden)
            listing.foreign = foreign
            yield listing
    else:
        with past().listed(root, options.rev, options.max_file_bytes, options.hidden) as listing:
            yield listing


class Past(Protocol):
    """The functions of `memkit.past`, which knows git, that a read needs."""

    def listed(self, root: Path, rev: str, max_file_bytes: int, hidden: str) -> AbstractContextManager[Listing]:
        """The files of a revision, to be read within the block."""
        ...

    def date(self, reading: Reading) -> None:
        """Date memories without a date of their own by the commits that added and last changed them."""
        ...


FOLDERS = Plugins[Past]("memkit.folders", as_it_is)
"""Folders as they were."""


def past() -> Past:
    """What reads from git, imported only where ``rev`` or ``dates`` needs it."""
    return FOLDERS.needed("git", "read: 'rev' and dates='git'")


def read_listing(
    listing: Listing, root: Path, options: Options, formats: tuple[Format, ...], before: Reading | None
) -> Reading:
    """Read the files of a listing, of which `root` is the folder or the one file."""
    result = Reading(root.resolve() if listing.revision else root if root.is_file() else listing.root, options)
    # A copy: the former corpus is asked further, and keeps what it was.
    result.kept = before.kept.copy() if before else {}
    rows = Rows(options.rules, schemas_of(formats), result.kept)
    listing.report(rows)
    roles = roles_of(listing, formats, rows, result, before)
    items = _to_parse(roles, listing, before)
    result.parsed, states = _parse_all(listing, options, formats, items)
    result.files = {item[0]: state for item, state in zip(items, states, strict=True)}
    if before:
        removed = before.files.keys() - roles.keys()
        changed = {path for path, _, digest in items if not digest or digest != result.files[path][2]}
        result.parsed = merge(before.parsed, result.parsed, changed | removed)
        result.files = before.files | result.files
        for path in removed:
            del result.files[path]
    result.tables = _finish(result, rows.to_arrow(), formats)
    if listing.revision:
        result.tables |= {name: describe(result.tables[name], **listing.revision) for name in ("memories", "problems")}
    # Of memkit's own formats no failure is caught, so none is to be warned of.
    if len(formats) > len(FORMATS):
        _warn_of_failures(result.tables["problems"])
    return result


def _warn_of_failures(problems: pa.Table) -> None:
    """Warn once for all failures of formats from outside of memkit."""
    failures = problems.filter(pc.equal(problems["rule"], "format_failed"))["message"]
    if len(failures):
        message = f"{len(failures)} times a format of another package failed, first {failures[0]}"
        warnings.warn(message, RuntimeWarning, stacklevel=5)


def _to_parse(roles: dict[str, Role], listing: Listing, before: Reading | None) -> list[Item]:
    """The files that are new, may have changed since they were read, or have another role now."""
    items, states, unsettled = [], before.files if before else {}, before.unsettled if before else ()
    for path, role in roles.items():
        stat, key, digest = states.get(path, _UNREAD)
        is_same_role = digest != "" and key == role.key
        if not is_same_role or path in unsettled or stat != (listing.files[path] or listing.stat(path)):
            items.append((path, role, digest if is_same_role else ""))
    return items


def roles_of(
    listing: Listing, formats: tuple[Format, ...], rows: Rows, result: Reading, before: Reading | None
) -> dict[str, Role]:
    """The files to parse, in path order, each with its role; nearly all share one."""
    forced, findings = result.options.format, dict[str, tuple[tuple[str, object], ...]]()
    saves = saves_in(listing.files)
    for top in saves:
        got = "a saved corpus (mk.open opens it) or a saved Retriever (mk.Retriever.load)"
        rows.problem("unclaimed", top[:-1] or ".", "a folder of memories", got, quote=False)
    skipped = {path for within in saves.values() for path in within}
    instructions = tuple(_instructions(listing, result.options, rows))
    opener, globs = _Opener(listing, result, before), result.options.plugin_globs
    owned = frozenset(name.rpartition(".")[0].casefold() for format in formats for name in format.owned_files)
    n_files = len(listing.files)
    folder = Folder(listing, opener.read, opener.is_same, rows, globs, bool(forced), instructions, owned)
    for format in formats:
        if len(listing.files) != n_files:  # an index named files that the walk did not list
            folder, n_files = replace(folder), len(listing.files)
        if format.survey and forced in (None, format.name) and (forced or folder.has_any(format.landmark.split())):
            rows.use(format)
            survey = Survey()
            with guarded(format, format.landmark, rows):
                survey = format.survey(folder)
            skipped |= survey.skipped
            for path, value in survey.findings.items():
                findings[path] = (*findings.get(path, ()), (format.name, value))
    endings = tuple({ending for format in formats for ending in format.endings})
    # Written but never read: an old file's backup, for example.
    write_only = tuple({ending for format in formats for ending in format.writes} - {*endings})
    plain, roles, longest = Role(forced), dict[str, Role](), max(map(len, (*endings, _SESSIONS_END)))
    shared = dict[tuple[tuple[str, int], ...], Role]()
    for path in sorted(listing.files):
        ending = path[-longest:].lower()
        is_lines = ending.endswith(_SESSIONS_END)
        if is_lines and result.options.json is forced is None and path not in findings and _SESSION.search(path):
            got = "a host's record of a conversation, by its name, not opened"
            rows.problem("transcript", path, "memories (json='rows' reads all JSON)", got, quote=False)
        elif path not in skipped and (path in findings or ending.endswith(endings)):
            role = plain
            if told := findings.get(path):  # the files of a folder share one finding, and so one role
                key = tuple([(name, id(value)) for name, value in told])
                role = shared.get(key) or shared.setdefault(key, Role(forced, told))
            roles[path] = role
        elif path not in skipped and not path.lower().endswith(write_only):
            rows.problem("unclaimed", path, "Markdown, JSON or YAML", path.rpartition("/")[2])
    return roles


def _instructions(listing: Listing, options: Options, rows: Rows) -> Iterator[File]:
    """The files of instructions that the options name, read as any file is; what cannot be is reported."""
    for path in options.instructions:
        try:
            content = read_bytes(path, options.max_file_bytes)
        except OSError as error:
            rows.problem("unreadable", path, "a file that can be read", error.strerror or "an error", quote=False)
            continue
        yield File(listing.source(path, content, rows))


class _Opener:
    """What surveys read files with; it does not open a file that is unchanged since `before`."""

    def __init__(self, listing: Listing, result: Reading, before: Reading | None) -> None:
        self.listing, self.surveyed = listing, result.surveyed
        self._before = before.surveyed if before else {}
        self._unsettled = before.unsettled if before else frozenset[str]()

    def is_same(self, path: str) -> bool:
        """Whether a file is what a survey saw in the reading before; it counts as seen in this one."""
        previous = None if path in self._unsettled else self._before.get(path)
        if previous is None or previous[0] != self.listing.stat(path):
            return False
        self.surveyed.setdefault(path, previous)
        return True

    def read(self, path: str, rows: Rows, *, keep: bool = True) -> Source | None:
        """A file, or None where it cannot be read; its faults are reported."""
        source = self.surveyed[path][2] if self.is_same(path) else None
        if source:
            self.listing.report_faults(source, rows)
        elif source := self.listing.read(path, rows):
            mark = checksum(source.text.encode("utf-8", "surrogatepass"))
            self.surveyed[path] = self.listing.stat(path) or _UNREAD[0], mark, source if keep else None
        return source


def _parse_all(listing: Listing, options: Options, formats: tuple[Format, ...], items: list[Item]) -> Parsed:
    """Parse all files: their rows by table, and the state of each file."""
    # A revision is read from one stream of git, which other processes cannot share.
    n_processes = 1 if listing.revision or len(items) < WORTH_PROCESSES else workers(options.n_jobs)
    listing.expect([path for path, _, _ in items])
    bare = listing.bare()
    size = min(BATCH_FILES, len(items) // (_BATCHES_PER_PROCESS * n_processes) + 1) if n_processes > 1 else BATCH_FILES
    extra_formats = tuple(format for format in formats if format not in FORMATS)
    tasks = [(bare, options, extra_formats, items[start : start + size]) for start in range(0, len(items), size)]
    tables: dict[str, list[pa.Table]] = {name: [without_rows(schema)] for name, schema in schemas_of(formats).items()}
    files: list[FileState] = []
    batches: Iterator[Parsed] = (parse_batch(*task) for task in tasks)
    if n_processes > 1:
        # Adapters are registered in this process alone, and go along with each task.
        batches = results(_parse_elsewhere, [(registered_adapters(), *task) for task in tasks], options.n_jobs)
    if options.progress and len(tasks) > 1:
        batches = iter(bar("reading", batches, total=len(tasks), unit="batch"))
    for batch_tables, states in batches:
        files += states
        for name, table in (exact(batch_tables) if len(tasks) > 1 else batch_tables).items():
            if table.num_rows:
                tables[name].append(table)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}, files


def _parse_elsewhere(adapters: tuple[Adapter, ...], *task: Any) -> Parsed:
    """`parse_batch` in another process, where this process's adapters have to be registered first."""
    for adapter in adapters:
        register_adapter(adapter)
    return parse_batch(*task)


@no_collection()
def parse_batch(listing: Listing, options: Options, extra_formats: tuple[Format, ...], items: list[Item]) -> Parsed:
    """Parse some files; a pure function of their bytes and roles, so that any machine with the folder may run it.

    Returns the tables and the state of each file. A file whose hash did not change gives no rows.
    """
    formats, roles = extra_formats + FORMATS, {path: role for path, role, _ in items}
    states: list[FileState] = []
    parts: list[Tables] = []
    while len(states) < len(items):
        batch = _Batch(listing, options, formats, roles)
        states += batch.load(islice(items, len(states), None))
        parts.append(batch.parse())
    by_name = {name: [part[name] for part in parts if name in part] for name in schemas_of(formats)}
    tables = {name: pa.concat_tables(tables) for name, tables in by_name.items() if tables}
    if "memories" in tables:
        tables["checklist"] = checklist_of(tables["memories"])
    return tables, states


class _Batch:
    """Files whose contents are in memory at the same time."""

    def __init__(self, listing: Listing, options: Options, formats: tuple[Format, ...], roles: dict[str, Role]) -> None:
        self.listing, self.options, self.formats, self.roles = listing, options, formats, roles
        self.rows = Rows(options.rules, schemas_of(formats))
        self.zone = zone_of("read", options.timezone)
        self.contents: list[Read] = []
        self._by_key: dict[tuple[str, ...], tuple[Format, ...]] = {}

    def load(self, items: Iterable[Item]) -> list[FileState]:
        """Load files until `BATCH_BYTES` are reached; returns their states, and keeps changed contents to be parsed."""
        states: list[FileState] = []
        n_bytes = 0
        for path, role, last_digest in items:
            content = self.listing.load(path, self.rows)
            if content is None:
                states.append(_UNREAD)
                continue
            digest = digest_of(content)
            states.append((self.listing.stat(path) or content[0], role.key, digest))
            if digest != last_digest:
                self.contents.append((path, content))
                n_bytes += len(content[1])
                if n_bytes >= BATCH_BYTES:
                    break
        return states

    def parse(self) -> Tables:
        """Parse the files; cost linear in bytes."""
        for path, content in self.contents:
            source = self.listing.source(path, content, self.rows)
            role = self.roles[path]
            file = File(source, role, self._beside, self.zone, self.options.json)
            parse_file(file, self.rows, self._may_claim(path, role) if role.forced is None else self.formats)
        return self.rows.to_arrow() if any(self.rows.tables.values()) else {}

    def _may_claim(self, path: str, role: Role) -> tuple[Format, ...]:
        key = path.rpartition(".")[2].lower(), *(name for name, _ in role.findings)
        if key not in self._by_key:
            self._by_key[key] = may_claim(self.formats, f".{key[0]}", key[1:])
        return self._by_key[key]

    def _beside(self, name: str, memory_id: str) -> Source | None:
        return self.listing.read(name, self.rows, memory_id)


def _finish(result: Reading, surveyed: Tables, formats: tuple[Format, ...]) -> Tables:
    """The finished tables: the rows of the surveys and of the files, and the problems in reading order."""
    as_of = result.options.as_of
    tables = {name: pa.concat_tables([table, result.parsed[name]]) for name, table in surveyed.items()}
    tables["memories"] = with_aside(with_own_dates(tables["memories"]))
    problems = pa.concat_tables([tables["problems"], check(tables, formats, as_of, result.kept)])
    order = pc.sort_indices(problems, [(name, "ascending") for name in PROBLEM_ORDER])
    is_sorted = pc.all(pc.equal(order, pa.array(np.arange(len(order), dtype=np.uint64)))).as_py()
    problems = problems if is_sorted else problems.take(order)  # there may be millions: copy only if needed
    problems = by_folder(problems)
    tables["problems"] = problems if as_of is None else describe(problems, as_of=as_of)
    return {name: table for name, table in tables.items() if not name.startswith("_")}
