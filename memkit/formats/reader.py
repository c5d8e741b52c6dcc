"""A folder to tables: list the files, survey the indexes, parse what is new, link.

Parsing a file is a pure function of its bytes and its `Role`, so files are parsed in batches, in any number of
processes, and again only when either changed. Linking runs over the finished tables. Cost is linear in the files that
changed, plus one stat for each that did not.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.errors import FormatError, VersionError
from memkit.formats import facts, link, parallel
from memkit.formats.disk.files import (
    MAX_FILE_BYTES,
    Content,
    Listing,
    Stat,
    check_root,
    digest_of,
    home_of,
    list_files,
    read_content,
    read_source,
    report,
    to_source,
)
from memkit.formats.disk.source import Source
from memkit.formats.index_tree import survey as index_tree
from memkit.formats.index_tree.entry import Claim
from memkit.formats.notes.batch import read_plain
from memkit.formats.registry import MARKDOWN, NAMES, STRUCTURED, File, Role, parse_file
from memkit.formats.rows import PROBLEM_ORDER, RAW_SCHEMAS, Rows, Tables
from memkit.formats.rules import Rule
from memkit.formats.splice import merge
from memkit.params import check_choice, record_as_of

BATCH_FILES = 1000
BATCH_BYTES = 16 * 2**20
_ENDINGS = tuple(f".{ending}" for ending in (*MARKDOWN, *STRUCTURED))
_LONGEST = max(map(len, _ENDINGS))
_SHARES = 8
"""Batches that each process should find at least, so that all end at about the same time."""
_WORTH_A_PROCESS = 15_000
"""Files of a refresh; a first read starts its processes before it knows how many there are."""


@dataclass(frozen=True)
class Options:
    """What a read was asked for; a refresh repeats it."""

    format: str | None = None
    as_of: datetime | None = None
    max_file_bytes: int = MAX_FILE_BYTES
    plugin_globs: tuple[str, ...] = index_tree.PLUGIN_GLOBS
    rules: tuple[Rule, ...] | None = None
    """None is `RULES`, which need not be sent to each process."""
    n_jobs: int | None = None
    progress: bool = False


Seen = tuple[Stat, str, str]
"""A file as it was parsed: its stat, the key of its role, and the hash of its content, "" where it could not be read.

No class: one is made for every file of every read.
"""
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
        The finished tables, with what the indexes and the linking gave.
    indexes : dict of str to tuple
        The files that `index_tree.survey` read, with their stat: every read surveys them, but opens only what changed.
    """

    root: Path
    options: Options
    seen: dict[str, Seen] = field(default_factory=dict)
    parsed: Tables = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    indexes: dict[str, tuple[Stat, Source]] = field(default_factory=dict)


Item = tuple[str, Role, str]
"""Path, role, and the hash that the content had when it was last parsed in that role."""
Batch = tuple[list[Item], dict[str, str]]
"""Files, and `Listing.raw_names`."""
Workers = parallel.Pool[Batch, list[Seen]]


def _report_others(listing: Listing, survey: index_tree.Survey, roles: dict[str, Role], rows: Rows) -> None:
    """Name the files that no format can read, so that nothing is left out unseen."""
    for path in listing.files if len(listing.files) > len(roles) else ():
        if path not in roles and path not in survey.indexes and path not in survey.parts:
            rows.problem("unclaimed", path, "Markdown, JSON or YAML", path.rpartition("/")[2])


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


@_no_collection()
def read(root: Path, options: Options, before: Reading | None = None) -> Reading:
    """Read `root`, taking from `before` what did not change since.

    Raises
    ------
    ParameterError
        For an unknown format.
    FormatError
        Where there is no such folder or file, or it cannot be read.
    """
    if options.format is not None:
        check_choice("format", options.format, NAMES, "read")
    check_root(root)
    with Workers(partial(parse_batch, home_of(root), options), by_value=options.rules is not None) as pool:
        others = _others(options)
        if before is None:
            pool.start(others)
        listing = list_files(root, with_stat=before is not None)
        rows = Rows(options.rules)
        listing.report(rows)
        result = Reading(root if root.is_file() else listing.root, options)
        survey = _survey(listing, rows, result, before)
        roles = _roles(listing, survey, options)
        _report_others(listing, survey, roles, rows)
        items = _to_parse(roles, listing, before.seen if before else {})
        if before and len(items) >= _WORTH_A_PROCESS:
            pool.start(others)
        result.parsed, found = _parse_all(items, listing.raw_names, options, pool)
    result.seen = {item[0]: seen for item, seen in zip(items, found, strict=True)}
    if before:
        gone = before.seen.keys() - roles.keys()
        changed = {path for path, _, digest in items if not digest or digest != result.seen[path][2]}
        result.parsed = merge(before.parsed, result.parsed, changed | gone)
        result.seen = before.seen | result.seen
        for path in gone:
            del result.seen[path]
    result.tables = _finish(result.parsed, rows.to_arrow(), options)
    if options.as_of is not None:
        result.tables["problems"] = record_as_of(result.tables["problems"], options.as_of)
    return result


def _others(options: Options) -> int:
    """How many processes are to help this one."""
    wanted = options.n_jobs or 1
    if wanted < 0:
        from joblib import effective_n_jobs

        wanted = effective_n_jobs(wanted)
    return wanted - 1


def _to_parse(roles: dict[str, Role], listing: Listing, seen: dict[str, Seen]) -> list[Item]:
    """The files that are new, or may have changed since they were seen, or are to be read as something else."""
    if not seen:
        return [(path, role, "") for path, role in roles.items()]
    items = []
    for path, role in roles.items():
        stat, key, digest = seen.get(path, _UNSEEN)
        if stat != (listing.files[path] or listing.stat(path)) or key != role.key or not digest:
            items.append((path, role, digest if key == role.key else ""))
    return items


def _survey(listing: Listing, rows: Rows, result: Reading, before: Reading | None) -> index_tree.Survey:
    options = result.options

    def source(path: str, into: Rows) -> Source | None:
        stat = listing.stat(path) or _UNSEEN[0]
        kept = before.indexes.get(path) if before else None
        if kept and kept[0] == stat:
            report(kept[1], options.max_file_bytes, into)
        else:
            found = read_source(listing, path, options.max_file_bytes, into)
            kept = (stat, found) if found else None
        if kept is None:
            return None
        result.indexes[path] = kept
        return kept[1]

    if options.format not in (None, "index_tree"):
        return index_tree.Survey(rows)
    return index_tree.survey(listing, source, rows, options.plugin_globs)


def _roles(listing: Listing, survey: index_tree.Survey, options: Options) -> dict[str, Role]:
    """The files to parse, in path order, each with its role; most share one of a few."""
    aside = survey.indexes | survey.parts
    claims = {
        path: Role(claim=claim, forced=options.format) for path, claim in survey.claims.items() if path in listing.files
    }
    paths = [path for path in listing.files if path.endswith(_ENDINGS) or _may_be_read(path) or path in claims]
    roles = dict.fromkeys(sorted(paths), Role(forced=options.format)) | claims
    for path in (aside & roles.keys()) - claims.keys():
        del roles[path]
    has_users = any(folder.endswith("users") for folder in listing.folders)
    if not (has_users or survey.homes or options.format == "facts"):
        return roles
    above = {path.rpartition("/")[0].rpartition("/")[0] for path in listing.files}
    plain: dict[tuple[bool, bool], Role] = {}
    for path in roles:
        if path not in claims and path.rpartition(".")[2].lower() in MARKDOWN:
            old = options.format == "facts" or (has_users and facts.is_old(path, above))
            loose = survey.speaks_for(path)
            roles[path] = plain.setdefault((old, loose), Role(None, old, loose, options.format))
    return roles


def _may_be_read(path: str) -> bool:
    return path[-_LONGEST:].lower().endswith(_ENDINGS)


def _parse_all(
    items: list[Item], raw_names: dict[str, str], options: Options, pool: Workers
) -> tuple[Tables, list[Seen]]:
    """Parse all files: their rows by table, and how each file was seen."""
    count = BATCH_FILES
    if pool.others:
        count = min(count, len(items) // (_SHARES * (1 + len(pool.others))) + 1)
    jobs = [pool.add((items[start : start + count], raw_names)) for start in range(0, len(items), count)]
    tables: dict[str, list[pa.Table]] = {name: [schema.empty_table()] for name, schema in RAW_SCHEMAS.items()}
    files: list[Seen] = []
    for part, found in _progress(pool.results(jobs), len(jobs), options):
        files += found
        for name, table in part.items():
            if table.num_rows:
                tables[name].append(table)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}, files


def _progress(results: Iterator[object], total: int, options: Options) -> Iterator[tuple[Tables, list[Seen]]]:
    if not options.progress or total < 2:
        return results  # type: ignore[return-value]  # the items pass through unchanged
    from tqdm.auto import tqdm

    bar: Iterator[tuple[Tables, list[Seen]]] = tqdm(results, total=total, desc="reading", unit="batch", disable=None)
    return bar


def parse_batch(root: Path, options: Options, batch: Batch) -> tuple[Tables, list[Seen]]:
    """Parse some files; a pure function of their bytes and roles, so that any process may run it.

    Returns the tables, and how each file was seen. A file whose hash is what it was gives no rows.
    """
    items, raw_names = batch
    listing = Listing(root, raw_names=raw_names)
    found: list[Seen] = []
    pieces: list[Tables] = []
    while len(found) < len(items):
        pieces.append(_parse_piece(listing, options, items, found))
    if len(pieces) == 1:
        return pieces[0], found
    named = {name: [piece[name] for piece in pieces if name in piece] for name in RAW_SCHEMAS}
    return {name: pa.concat_tables(tables) for name, tables in named.items() if tables}, found


def _parse_piece(listing: Listing, options: Options, items: list[Item], found: list[Seen]) -> Tables:
    """Parse the `items` after those that were `found`, until `BATCH_BYTES` are held; cost is linear in their bytes."""
    rows = Rows(options.rules)
    others: list[tuple[str, Content]] = []
    limit = options.max_file_bytes

    def may_be_plain() -> Iterator[tuple[str, Content]]:
        held = 0
        for path, role, before in islice(items, len(found), None):
            content = read_content(listing, path, limit, rows)
            if content is None:
                found.append(_UNSEEN)
                continue
            stat, data = content
            digest = digest_of(content)
            found.append((stat, role.key, digest))
            if digest == before:
                continue
            if role.may_be_note and options.rules is None and stat[0] <= limit:
                yield path, content
            else:
                others.append((path, content))
            held += len(data)
            if held >= BATCH_BYTES:
                return

    notes, left = read_plain(may_be_plain())
    others += left
    roles = {path: role for path, role, _ in items} if others else {}
    for path, content in sorted(others):
        source = to_source(path, content, limit, rows)
        claim = roles[path].claim
        parts = _parts(listing, claim, options, rows) if claim else []
        parse_file(File(source, roles[path], parts), rows)
    if not any(rows.tables.values()):
        return notes
    tables = rows.to_arrow()
    if notes:
        changed = {path for path, *_ in items}.difference(notes["memories"]["path"].to_pylist())
        notes = {name: notes.get(name, schema.empty_table()) for name, schema in RAW_SCHEMAS.items()}
        tables = merge(notes, tables, changed)
    return tables


def _parts(listing: Listing, claim: Claim, options: Options, rows: Rows) -> list[Source]:
    """The files that hold the text of a split one; their problems are its problems, and go when it is read again."""
    found = (read_source(listing, name, options.max_file_bytes, rows, claim.memory_id) for name in claim.parts)
    return [source for source in found if source]


def _finish(parsed: Tables, surveyed: Tables, options: Options) -> Tables:
    """The finished tables: what the indexes gave, what the files gave, and the problems in reading order."""
    tables = {name: pa.concat_tables([surveyed[name], parsed[name]]) for name in RAW_SCHEMAS}
    problems = pa.concat_tables([tables["problems"], link.check(tables, options.as_of)])
    places = pc.sort_indices(problems, [(name, "ascending") for name in PROBLEM_ORDER])
    is_sorted = pc.all(pc.equal(places, pa.array(np.arange(len(places), dtype=np.uint64)))).as_py()
    tables["problems"] = problems if is_sorted else problems.take(places)  # of millions, a copy is to be spared
    return {name: table for name, table in tables.items() if not name.startswith("_")}


def raise_first_error(problems: pa.Table) -> None:
    """Raise the first error row of `problems` as an exception.

    Raises
    ------
    VersionError
        For a record of an unknown MAJOR version.
    FormatError
        For any other error.
    """
    errors = problems.filter(pc.equal(problems["severity"], "error")).slice(0, 1).to_pylist()
    for row in errors:
        error = VersionError if row["rule"] == "unsupported_version" else FormatError
        raise error(row["message"], path=row["path"], line=row["line"], field=row["field"])
