"""A folder to tables: list the files, survey them, parse what is new, check the whole.

Parsing a file is a pure function of its bytes and its `Role`, so files are parsed in batches, in any process, and again
only when either changed. The checks across files run over the finished tables. Cost is linear in the files that
changed, plus one stat for each that did not.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit import hashes
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
)
from memkit.formats.disk.lock import steady
from memkit.formats.disk.source import Source
from memkit.formats.faults import Rule
from memkit.formats.format import Batch, File, Folder, Format, Role, Survey
from memkit.formats.records.adapters import Adapter, own_adapters, register_adapter
from memkit.formats.registry import FORMATS, formats_for, guarded, parse_file
from memkit.formats.rows import PROBLEM_ORDER, Rows, Tables, merge, schemas_of, with_own_dates
from memkit.formats.rules import check
from memkit.parallel import results, workers
from memkit.params import describe, record_as_of, zone_of
from memkit.progress import bar

BATCH_FILES, BATCH_BYTES = 1000, 16 * 2**20
_SHARES = 8
"""Batches that each process should find at least, so that all end at about the same time."""
WORTH_PROCESSES = 15_000
"""Files from which on other processes are asked: they take a second to start."""


@dataclass(frozen=True)
class Options:
    """What a read was asked for; a refresh repeats it."""

    format: str | None = None
    as_of: datetime | None = None
    max_file_bytes: int = MAX_FILE_BYTES
    plugin_globs: tuple[str, ...] = ()
    rules: tuple[Rule, ...] | None = None
    """None are those of each format, which need not be sent to each process."""
    n_jobs: int | None = None
    progress: bool = False
    formats: tuple[str, ...] = ()
    """Names of formats of others, to be tried before memkit's own."""
    rev: str | None = None
    dates: str | None = None
    """The revision that is read, None the folder as it is; 'git' where undated memories have dates of their history."""
    timezone: str | None = None
    """Of the times that files write without one, as `zone_of` takes it; None is UTC."""


Seen = tuple[Stat, str, str]  # no class: one is made for every file of every read
"""A file as it was parsed: its stat, the key of its role, the hash of its content, "" where it could not be read."""
_UNSEEN: Seen = ((-1, -1, -1), "", "")


@dataclass
class Reading:
    """One read of a folder.

    Attributes
    ----------
    seen : dict of str to tuple
        The files that a format may claim.
    parsed : dict of str to pyarrow.Table
        What the files gave, each table in path order; kept for the next refresh.
    tables : dict of str to pyarrow.Table
        The finished tables, with what the surveys and the checks across files gave.
    surveyed : dict of str to tuple
        The files that surveys read, with their stat: every read surveys them, but opens only what changed.
    """

    root: Path
    options: Options
    seen: dict[str, Seen] = field(default_factory=dict)
    parsed: Tables = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    surveyed: dict[str, tuple[Stat, Source]] = field(default_factory=dict)


Item = tuple[str, Role, str]
"""Path, role, and the hash that the content had when it was last parsed in that role."""
Parsed = tuple[Tables, list[Seen]]
"""The rows of some files, and how each was seen."""
Read = tuple[str, Content]
"""A path and what was read there."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Listings and rows make no cycles, yet so many of them that looking for cycles takes a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on and not gc.get_freeze_count():
            gc.freeze()  # all that was made is old now: the next collection need not look at it
            gc.unfreeze()
        if was_on:
            gc.enable()


def read(root: Path, options: Options, before: Reading | None = None) -> Reading:
    """Read `root`, taking from `before` what did not change since; where memkit writes there, it waits.

    Raises
    ------
    ParameterError, FormatError, MemkitError
        For an unknown format; where nothing can be read there; where a writer does not end in time, or died.
    """
    formats = formats_for(options.formats, options.format) if options.formats or options.format else FORMATS
    with _no_collection(), listed(root, options, with_stat=before is not None) as listing:
        result = read_listing(listing, root, options, formats, before)
    if options.dates == "git":
        past().date(result)
    return result


def read_with(before: Reading, contents: Mapping[str, bytes | None]) -> Reading:
    """What `before` would be with other contents of some files, None where they are not there."""
    options = before.options
    formats = formats_for(options.formats, options.format) if options.formats or options.format else FORMATS
    with _no_collection(), listed(before.root, options, with_stat=True) as listing:
        return read_listing(Overlay(listing, contents), before.root, options, formats, before)


@_no_collection()
def memories_of(
    root: Path, options: Options, before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]
) -> tuple[pa.Table, pa.Table]:
    """The memories of the files that change from `before` to `after`, and of those that are read otherwise for it."""
    formats = formats_for(options.formats, options.format)
    with listed(root, options) as listing:
        states = [_Surveyed(Overlay(listing, contents), options, formats) for contents in (before, after)]
        one, other = (state.roles for state in states)
        touched = {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}
        first, second = (state.memories(touched | before.keys()) for state in states)
    return first, second


class _Surveyed:
    """A listing whose files have their roles."""

    def __init__(self, listing: Listing, options: Options, formats: tuple[Format, ...]) -> None:
        self.listing, self.options, self.formats = listing, options, formats
        self.rows = Rows(options.rules, schemas_of(formats))
        self.roles = roles_of(listing, formats, self.rows, Reading(listing.root, options), None)

    def memories(self, paths: Set[str]) -> pa.Table:
        """The memories of some files, and of entries that have none."""
        items = [(path, role, "") for path, role in self.roles.items() if path in paths]
        parsed, _ = _parse_all(self.listing, self.options, self.formats, items)
        return pa.concat_tables([self.rows.to_arrow()["memories"], parsed["memories"]])


@contextmanager
def listed(root: Path, options: Options, *, with_stat: bool = False) -> Iterator[Listing]:
    """The files that `options` mean, to be read within the block: those of the folder, or of a revision."""
    if options.rev is None:
        check_root(root)
        with steady(home_of(root)) as foreign:
            listing = list_files(root, options.max_file_bytes, with_stat=with_stat)
            listing.foreign = foreign
            yield listing
    else:
        with past().listed(root, options.rev, options.max_file_bytes) as listing:
            yield listing


class Past(Protocol):
    """What a read asks of the room that knows git."""

    def listed(self, root: Path, rev: str, max_file_bytes: int) -> AbstractContextManager[Listing]:
        """The files of a revision, to be read within the block."""
        ...

    def date(self, reading: Reading) -> None:
        """Date memories without any date of their own by the commits that brought and last changed them."""
        ...


def past() -> Past:
    """The room above that knows git: imported where ``rev`` or ``dates`` asks for it, and by nothing else here."""
    from memkit.past import reading

    return reading


def read_listing(
    listing: Listing, root: Path, options: Options, formats: tuple[Format, ...], before: Reading | None
) -> Reading:
    """Read the files of a listing, of which `root` is the folder or the one file."""
    rows = Rows(options.rules, schemas_of(formats))
    listing.report(rows)
    result = Reading(root.resolve() if listing.revision else root if root.is_file() else listing.root, options)
    roles = roles_of(listing, formats, rows, result, before)
    items = _to_parse(roles, listing, before.seen if before else {})
    result.parsed, found = _parse_all(listing, options, formats, items)
    result.seen = {item[0]: seen for item, seen in zip(items, found, strict=True)}
    if before:
        gone = before.seen.keys() - roles.keys()
        changed = {path for path, _, digest in items if not digest or digest != result.seen[path][2]}
        result.parsed = merge(before.parsed, result.parsed, changed | gone)
        result.seen = before.seen | result.seen
        for path in gone:
            del result.seen[path]
    result.tables = _finish(result.parsed, rows.to_arrow(), formats, options)
    if listing.revision:
        result.tables |= {name: describe(result.tables[name], **listing.revision) for name in ("memories", "problems")}
    if len(formats) > len(FORMATS):
        _warn_of_failures(result.tables["problems"])
    return result


def _warn_of_failures(problems: pa.Table) -> None:
    """One warning for all that the formats of others raised."""
    failures = problems.filter(pc.equal(problems["rule"], "format_failed"))["message"]
    if len(failures):
        message = f"{len(failures)} times a format of another package failed, first {failures[0]}"
        warnings.warn(message, RuntimeWarning, stacklevel=5)


def _to_parse(roles: dict[str, Role], listing: Listing, seen: dict[str, Seen]) -> list[Item]:
    """The files that are new, or may have changed since they were seen, or are to be read as something else."""
    items = []
    for path, role in roles.items():
        stat, key, digest = seen.get(path, _UNSEEN)
        is_same_role = digest != "" and key == _key_of(role)
        if not is_same_role or stat != (listing.files[path] or listing.stat(path)):
            items.append((path, role, digest if is_same_role else ""))
    return items


def _key_of(role: Role) -> str:
    """What differs where a file would be read differently."""
    if not role.told:
        return role.forced or ""
    return hashes.digest(repr(role))


def roles_of(
    listing: Listing, formats: tuple[Format, ...], rows: Rows, result: Reading, before: Reading | None
) -> dict[str, Role]:
    """The files to parse, in path order, each with its role; nearly all share one."""
    forced, told, aside = result.options.format, dict[str, tuple[tuple[str, object], ...]](), set[str]()
    for format in formats:
        if format.survey and forced in (None, format.name) and (forced or _has(listing, format.landmark.split())):
            rows.use(format)
            folder = Folder(listing, _opener(listing, result, before), rows, result.options.plugin_globs, bool(forced))
            survey = Survey()
            with guarded(format, format.landmark, rows):
                survey = format.survey(folder)
            aside |= survey.aside
            for path, value in survey.told.items():
                told[path] = (*told.get(path, ()), (format.name, value))
    endings = tuple({ending for format in formats for ending in format.endings})
    kept = tuple({ending for format in formats for ending in format.writes} - {*endings})  # as an old file's backup
    plain, roles, longest = Role(forced), dict[str, Role](), max(map(len, endings))
    for path in sorted(listing.files):
        if path not in aside and (path in told or path[-longest:].lower().endswith(endings)):
            roles[path] = Role(forced, told[path]) if path in told else plain
        elif path not in aside and not path.lower().endswith(kept):
            rows.problem("unclaimed", path, "Markdown, JSON or YAML", path.rpartition("/")[2])
    return roles


def _has(listing: Listing, landmarks: list[str]) -> bool:
    """Whether a file or folder of one of these names lies anywhere."""
    below = tuple(f"/{landmark}" for landmark in landmarks)
    return any(
        path.endswith(below) or path in landmarks for paths in (listing.folders, listing.files) for path in paths
    )


def _opener(listing: Listing, result: Reading, before: Reading | None) -> Callable[[str, Rows], Source | None]:
    """How a survey reads a file: what did not change since `before` is not opened again."""

    def source(path: str, into: Rows) -> Source | None:
        stat = listing.stat(path) or _UNSEEN[0]
        kept = before.surveyed.get(path) if before else None
        found = kept[1] if kept and kept[0] == stat else None
        if found:
            listing.report_faults(found, into)
        else:
            found = listing.read(path, into)
        if found:
            result.surveyed[path] = stat, found
        return found

    return source


def _parse_all(listing: Listing, options: Options, formats: tuple[Format, ...], items: list[Item]) -> Parsed:
    """Parse all files: their rows by table, and how each file was seen."""
    others = 1 if listing.revision or len(items) < WORTH_PROCESSES else workers(options.n_jobs)
    listing.expect([path for path, _, _ in items])
    bare = listing.bare()
    size = min(BATCH_FILES, len(items) // (_SHARES * others) + 1) if others > 1 else BATCH_FILES
    own = tuple(format for format in formats if format not in FORMATS)
    tasks = [(bare, options, own, items[at : at + size]) for at in range(0, len(items), size)]
    tables: dict[str, list[pa.Table]] = {name: [schema.empty_table()] for name, schema in schemas_of(formats).items()}
    files: list[Seen] = []
    done: Iterator[Parsed] = (parse_batch(*task) for task in tasks)
    if others > 1:
        done = results(_parse_elsewhere, [(own_adapters(), *task) for task in tasks], options.n_jobs)
    if options.progress and len(tasks) > 1:
        done = iter(bar("reading", done, total=len(tasks), unit="batch"))
    for part, found in done:
        files += found
        for name, table in part.items():
            if table.num_rows:
                tables[name].append(table)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}, files


def _parse_elsewhere(adapters: tuple[Adapter, ...], *task: Any) -> Parsed:
    """`parse_batch` in a process that knows none of the adapters that were registered in this one."""
    for adapter in adapters:
        register_adapter(adapter)
    return parse_batch(*task)


@_no_collection()
def parse_batch(listing: Listing, options: Options, own: tuple[Format, ...], items: list[Item]) -> Parsed:
    """Parse some files; a pure function of their bytes and roles, so that any machine with the folder may run it.

    Returns the tables, and how each file was seen. A file whose hash is what it was gives no rows.
    """
    formats, roles = own + FORMATS, {path: role for path, role, _ in items}
    found: list[Seen] = []
    pieces: list[Tables] = []
    while len(found) < len(items):
        batch = _Batch(listing, options, formats, roles)
        found += batch.load(islice(items, len(found), None))
        pieces.append(batch.parse())
    named = {name: [piece[name] for piece in pieces if name in piece] for name in schemas_of(formats)}
    return {name: pa.concat_tables(tables) for name, tables in named.items() if tables}, found


class _Batch:
    """Files that are held at once."""

    def __init__(self, listing: Listing, options: Options, formats: tuple[Format, ...], roles: dict[str, Role]) -> None:
        self.listing, self.options, self.formats, self.roles = listing, options, formats, roles
        self.rows = Rows(options.rules, schemas_of(formats))
        self.zone = zone_of("read", options.timezone)
        self.contents: list[Read] = []

    def load(self, items: Iterable[Item]) -> list[Seen]:
        """Open files until `BATCH_BYTES` are held, and tell how each was seen; kept is what there is to parse."""
        found: list[Seen] = []
        held = 0
        for path, role, before in items:
            content = self.listing.load(path, self.rows)
            if content is None:
                found.append(_UNSEEN)
                continue
            digest = digest_of(content)
            found.append((self.listing.stat(path) or content[0], _key_of(role), digest))
            if digest != before:
                self.contents.append((path, content))
                held += len(content[1])
                if held >= BATCH_BYTES:
                    break
        return found

    def parse(self) -> Tables:
        """The plain files of a format by the batch, each other by itself; cost linear in bytes."""
        limit, left, tables = self.listing.max_file_bytes, self.contents, dict[str, pa.Table]()
        for format, batch in self._batched():
            plain = [file for file in left if not self.roles[file[0]].told and file[1][0][0] <= limit]
            others = [file for file in left if self.roles[file[0]].told or file[1][0][0] > limit]
            with nullcontext() if format in FORMATS else guarded(format, ".", self.rows):
                taken, remaining = batch(plain)
                tables, left = self._joined(tables, taken), sorted(remaining + others)
        for path, content in left:
            source = self.listing.source(path, content, self.rows)
            parse_file(File(source, self.roles[path], self._beside, self.zone), self.rows, self.formats)
        return self._joined(tables, self.rows.to_arrow()) if any(self.rows.tables.values()) else tables

    def _batched(self) -> Iterator[tuple[Format, Batch]]:
        """The formats that read many files at once; not where one that is tried before could claim a file of theirs."""
        for at, format in enumerate(self.formats if self.options.rules is None else ()):
            rivals = [ending for other in self.formats[:at] for ending in other.endings]
            is_first = not any(a.endswith(b) or b.endswith(a) for a in rivals for b in format.endings)
            if format.batch and is_first and self.options.format in (None, format.name):
                yield format, format.batch

    def _beside(self, name: str, memory_id: str) -> Source | None:
        return self.listing.read(name, self.rows, memory_id)

    def _joined(self, tables: Tables, more: Tables) -> Tables:
        """Both, in path order."""
        if not tables or not more:
            return tables or more
        more = {name: more.get(name, schema.empty_table()) for name, schema in self.rows.schemas.items()}
        return merge(tables, more, self.roles.keys() - set(tables["memories"]["path"].to_pylist()))


def _finish(parsed: Tables, surveyed: Tables, formats: tuple[Format, ...], options: Options) -> Tables:
    """The finished tables: what the surveys gave, what the files gave, and the problems in reading order."""
    tables = {name: pa.concat_tables([table, parsed[name]]) for name, table in surveyed.items()}
    tables["memories"] = with_own_dates(tables["memories"])
    problems = pa.concat_tables([tables["problems"], check(tables, formats, options.as_of)])
    places = pc.sort_indices(problems, [(name, "ascending") for name in PROBLEM_ORDER])
    is_sorted = pc.all(pc.equal(places, pa.array(np.arange(len(places), dtype=np.uint64)))).as_py()
    problems = problems if is_sorted else problems.take(places)  # of millions, a copy is to be spared
    tables["problems"] = problems if options.as_of is None else record_as_of(problems, options.as_of)
    return {name: table for name, table in tables.items() if not name.startswith("_")}
