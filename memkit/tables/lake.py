"""A lake: the snapshot of a corpus on disk, with a Parquet file for each table, the text index and the refresh state.

Only the Parquet files are the same bytes from run to run, and only they are read: ``corpus.duckdb``, with the same
tables and index, is written for other programs.

A save is atomic: a reader sees the old or the new snapshot, and a killed writer leaves one of the two. A snapshot is
written into a folder ``.saving-*``, then renamed to ``saved-`` and the hash of its manifest. Then one small file, the
pointer, is replaced by one that names the new folder, and the old snapshot is deleted. A reader opens all files and
then reads the pointer again: if it names another snapshot by now, the reader starts over. One process writes at a time.
The system frees its lock when it dies, so the next process that gets the lock may delete every snapshot that the
pointer does not name.

The manifest of a snapshot names its files with their hashes, and the folder that the corpus was read from. It is
untrusted input. Checked here are names that lead out of the lake, options that `memkit.read` would not accept, and
versions that this memkit does not know.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from io import BufferedReader, BytesIO
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.checked import LONE_SURROGATE
from memkit.base.duck import is_table_name
from memkit.base.hashes import digest_of_file, digest_of_path
from memkit.base.parallel import system_memory
from memkit.base.params import zone_of
from memkit.errors import FormatError, MemkitError, refused
from memkit.formats.disk.files import DATABASE, HIDDEN, POINTER, SAVED
from memkit.formats.index_tree.format import PLUGIN_GLOBS
from memkit.formats.reader import DATES, Options, Reading, no_collection
from memkit.formats.registry import FORMATS, NAMES
from memkit.formats.rows import schemas_of
from memkit.schemas import TABLES, with_column, without_rows
from memkit.tables.database import Database, TextIndex
from memkit.tables.fts import TEXT_INDEX, TEXT_VERSION
from memkit.tables.untrusted import (
    check_unique,
    digests,
    is_member_name,
    mapped,
    open_member,
    parquet,
    read_json,
    read_parquet,
    refuse_links,
)

VERSION = 10
"""The lake's version: increased when `memkit.schemas.TABLES` or the making of ids changes. Other versions do not open.
"""
MANIFEST, BUCKETS = "manifest.json", "buckets.json"
STATE, TEXT, TOTALS = "state", "fts", "totals"
"""Folders of a lake: the refresh state, the full-text index, and the collection statistics over all shards (buckets).
"""
_HASH = re.compile(r"[0-9a-f]{32}")
_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "format": lambda name: name is None or isinstance(name, str),
    "as_of": lambda time: time is None or datetime.fromisoformat(time).tzinfo is not None,
    "max_file_bytes": lambda size: type(size) is int and size >= 1,
    "plugin_globs": lambda globs: isinstance(globs, list) and all(isinstance(glob, str) for glob in globs),
    "n_jobs": lambda count: count is None or (type(count) is int and count != 0),
    "formats": lambda names: isinstance(names, list) and all(isinstance(n, str) and n.isidentifier() for n in names),
    "rev": lambda rev: rev is None or isinstance(rev, str),
    "dates": lambda source: source in (None, *DATES),
    "hidden": lambda hidden: hidden in HIDDEN,
    "json": lambda how: how in (None, "rows"),
    "timezone": lambda zone: zone is None or (isinstance(zone, str) and bool(zone_of("refresh", zone))),
}
"""The options of a read that a refresh repeats, each with its check; rules are code and are not saved."""


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest.

    Attributes
    ----------
    files : dict of str to str
        The hash of each file by name, with '/' between its parts.
    root : str or None
        The folder that the corpus was read from; not to be read unless the user trusts the lake.
    options : Options
        The options of that read.
    text_version : int
        The version of the full-text index; 0 where a former memkit did not say it.
    """

    files: dict[str, str]
    root: str | None
    options: Options
    text_version: int = TEXT_VERSION

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return [name.removesuffix(".parquet") for name in self.files if "/" not in name]

    @property
    def own_files(self) -> list[str]:
        """The files that a corpus is opened from, without those that a Retriever or others added."""
        return [name for name in self.files if _is_own(name)]

    def to_json(self) -> str:
        """The JSON that `read_manifest` reads."""
        options = {name: getattr(self.options, name) for name in _OPTIONS}
        source = None if self.root is None else {"root": self.root, "options": options}
        document = {
            "version": VERSION,
            "text_version": self.text_version,
            "files": dict(sorted(self.files.items())),
            "source": source,
        }
        return json.dumps(document, indent=1, default=datetime.isoformat)


def _is_own(name: str) -> bool:
    return "/" not in name or name.partition("/")[0] in (STATE, TEXT)


def read_manifest(folder: Path) -> Manifest:
    """The manifest in `folder`.

    Raises
    ------
    FormatError
        Where it is missing, or was written by another program or by a memkit of another version.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise refused(
            folder, "a saved corpus", f"a folder without {MANIFEST}; mk.Retriever.load opens a saved Retriever"
        )
    document = read_json(folder, MANIFEST)
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        advice = "read the folder again and save it, or open the lake with the memkit that wrote it"
        raise refused(path, f"a saved corpus of version {VERSION}", f"{version!r:.80}; {advice}")
    try:
        files = document["files"]
        _check_files(files)
        source = document["source"]
        root = None if source is None else _root_of(source["root"])
        options = Options() if source is None else _options_of(source["options"])
        text_version = document.get("text_version", 0)
        if type(text_version) is not int:
            raise ValueError(f"text_version {text_version!r}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise refused(path, "a manifest as memkit writes it", f"{type(error).__name__}: {error!s:.200}") from error
    return Manifest(files, root, options, text_version)


def _check_files(files: dict[str, str]) -> None:
    for name, hash in files.items():
        is_table = name.endswith(".parquet") and is_table_name(name.removesuffix(".parquet"))
        if not is_member_name(name) or not (is_table or "/" in name) or not _HASH.fullmatch(hash):
            raise ValueError(f"file {name!r} with hash {hash!r}")
    missing = [name for name in TABLES if f"{name}.parquet" not in files]
    if missing:
        raise ValueError(f"no table {missing[0]}")


def _root_of(root: str) -> str:
    # Saved as an absolute path; bytes that are no UTF-8 are kept as lone surrogates, which this system must take back.
    if not os.path.isabs(root) or b"\0" in os.fsencode(root):  # noqa: PTH117 - a Path would be no check of the string
        raise ValueError(f"root {root!r}")
    return root


def _options_of(saved: dict[str, Any]) -> Options:
    """The options that `Manifest.to_json` wrote; at most as many processes as this machine has cores."""
    known = (None, *NAMES, *saved.get("formats", ()))
    if not all(_OPTIONS[name](value) for name, value in saved.items()) or saved.get("format") not in known:
        raise ValueError(f"options {saved!r}")
    options: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in saved.items()}
    options["as_of"] = saved.get("as_of") and datetime.fromisoformat(saved["as_of"])
    options["n_jobs"] = saved.get("n_jobs") and min(saved["n_jobs"], os.cpu_count() or 1)
    return Options(**{"plugin_globs": PLUGIN_GLOBS} | options)


_MEMORIES, _BUCKET = "memories.parquet", "bucket-[0-9][0-9][0-9][0-9][0-9]"
_LOCK, _SAVING = ".memkit-lock", ".saving-"
_NAME = re.compile(r"saved-[0-9a-f]{32}")
_PATIENCE = 1.0
"""Seconds that a save waits for another process; enough for one that only cleans up."""
_TRIES = 20
"""Snapshots in a row that may be replaced while one is opened; then somebody saves all the time."""


def check_path(folder: Path) -> Path:
    """`folder` as an absolute path, which no library can mistake for a URL.

    Raises
    ------
    MemkitError
        Where its name is not UTF-8 (DuckDB could not write there), or contains NUL.
    """
    path = folder.absolute()
    if LONE_SURROGATE.search(str(path)) or "\0" in str(path):
        raise MemkitError(f"{folder!r:.200}: expected a folder whose name is UTF-8, without NUL. Choose another.")
    return path


# A page; a pointer has some 60 bytes.
_MOST_POINTER = 4_096
"""Bytes that are looked at for what a pointer says."""


def is_lake(folder: Path) -> bool:
    """Whether `folder` holds a saved corpus, also one of an older memkit: others may have files of these names too."""
    with suppress(OSError):  # a folder that may not be looked into says so when it is read
        if (folder / POINTER).is_file():
            with (folder / POINTER).open("rb") as pointer:
                return b'"save"' in pointer.read(_MOST_POINTER) or any(folder.glob(f"{SAVED}*"))
        return all((folder / name).is_file() for name in (MANIFEST, _MEMORIES))
    return False


def is_bucketed(folder: Path) -> bool:
    """Whether `folder` holds shards (buckets).

    Raises
    ------
    FormatError
        Where not all of them were saved.
    """
    if not any(is_lake(path) or _is_begun(path) for path in folder.glob(_BUCKET)):
        return False
    if not (folder / BUCKETS).is_file():
        raise refused(folder, f"buckets and {BUCKETS}", "an incomplete save; save the corpus again")
    return True


def _is_begun(folder: Path) -> bool:
    """Whether a save may have stopped in `folder` before anything was complete: only hidden files lie there."""
    return folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())


@contextmanager
def replacing(folder: Path, patience: float = _PATIENCE, *, lasts: bool = True) -> Iterator[Path]:
    """A folder to write a snapshot into; it replaces the old snapshot when the block ends without an exception.

    What need not last through a power cut is not waited for until it is on the disk.

    Raises
    ------
    MemkitError
        Where another process saves to `folder` for more than `patience` seconds, or `folder` cannot be written.
    FormatError
        Where `folder` holds a symbolic link.
    """
    import duckdb

    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        for snapshot in _saves(folder):
            refuse_links(snapshot, below=True)
        with locked(folder, patience):
            staged = Path(mkdtemp(prefix=_SAVING, dir=folder))
            try:
                yield staged
                _point_to(folder, staged, lasts)
            finally:
                rmtree(staged, ignore_errors=True)
            _clean(folder)
    except (OSError, duckdb.Error) as error:
        raise MemkitError(f"{folder}: cannot save there: {error}. What was saved there before stays.") from error


def _point_to(folder: Path, staged: Path, lasts: bool) -> None:
    """Make the pointer name the snapshot in `staged`, which is moved unless an equal one is already there."""
    sync(staged, lasts)
    database = staged / DATABASE
    if database.exists():
        # It is no part of the snapshot: its bytes differ from save to save.
        database = database.rename(folder / f"{_SAVING}{DATABASE}")
    (manifest,) = staged.glob("*.json")  # which names all other files with their hashes
    snapshot = folder / (SAVED + digest_of_path(manifest))
    if not snapshot.is_dir() or digests(snapshot) != digests(staged):
        rmtree(snapshot, ignore_errors=True)
        staged.rename(snapshot)
    pointer = folder / f"{_SAVING}{POINTER}"
    with pointer.open("w", encoding="utf-8") as file:
        # Memories are their owner's alone, whatever the umask says.
        pointer.chmod(0o600)
        file.write(json.dumps({"save": snapshot.name}))
        file.flush()
        if lasts:
            os.fsync(file.fileno())
    pointer.replace(folder / POINTER)
    if database.exists():
        database.replace(folder / DATABASE)


def current(folder: Path) -> Path:
    """The folder of the snapshot that the pointer names; `folder` itself for an older lake, which has no pointer.

    Raises
    ------
    FormatError
        Where nothing is saved there, or there is a symbolic link.
    """
    refuse_links(folder)
    if not (folder / POINTER).exists():
        if (folder / MANIFEST).is_file():
            return folder
        raise refused(folder, "a saved corpus or Retriever", "none; mk.read reads a folder of memories")
    name = read_json(folder, POINTER).get("save")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refused(folder / POINTER, "the name of a save", f"{name!r:.80}")
    refuse_links(folder / name, below=True)
    return folder / name


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Path, Manifest, dict[str, BufferedReader]]]:
    """The snapshot of the lake in `folder`, its manifest and its open files, without ``vectors`` and the like.

    A file that does not exist is left out.

    Raises
    ------
    FormatError
        Where there is no lake, or it holds a symbolic link.
    """
    if len(_saves(folder)) > 1 or any(folder.glob(f"{_SAVING}*")):
        # What dead writers left goes, unless a process is saving now or the folder cannot be written.
        with suppress(MemkitError, OSError), locked(folder, 0):
            _clean(folder)
    for _ in range(_TRIES):
        snapshot = current(folder)
        with ExitStack() as stack:
            try:
                manifest, files = read_manifest(snapshot), {}
                for name in manifest.own_files:
                    with suppress(FormatError):
                        files[name] = stack.enter_context(open_member(snapshot, name))
            except FormatError:
                if current(folder) == snapshot:
                    raise
                continue
            if current(folder) == snapshot:
                yield snapshot, manifest, files
                return
    raise MemkitError(f"{folder}: it was saved again {_TRIES} times while it was being opened. Open it again.")


@contextmanager
def locked(folder: Path, patience: float) -> Iterator[None]:
    """Hold the lock for saving to `folder`; wait for it at most `patience` seconds.

    Raises
    ------
    MemkitError
        Where another process holds it for longer.
    """
    from filelock import FileLock, Timeout

    with ExitStack() as held:
        try:
            held.enter_context(FileLock(folder / _LOCK, timeout=patience, mode=0o600, fallback_to_soft=False))
        except Timeout as error:
            raise MemkitError(f"{folder}: another process is saving there. Save again when it is done.") from error
        yield


def _clean(folder: Path) -> None:
    """Delete all snapshots except the one that the pointer names, and the remains of unfinished saves.

    Raises
    ------
    FormatError
        Where the pointer names none, so that the current snapshot is not known.
    """
    snapshot = current(folder)
    for path in (*_saves(folder), *folder.glob(f"{_SAVING}*")):
        if path != snapshot:
            rmtree(path) if path.is_dir() else path.unlink()


def _saves(folder: Path) -> list[Path]:
    return [path for path in folder.glob(f"{SAVED}*") if _NAME.fullmatch(path.name)]


def sync(folder: Path, lasts: bool = True) -> None:
    """Flush the files of `folder` to the disk before they are renamed, so that a power cut keeps the order, if it
    `lasts`.

    They are their user's alone, as the files may be that they were read from.
    """
    for place, folders, names in os.walk(folder):
        for name in folders:
            (Path(place) / name).chmod(0o700)
        for name in names:
            path = Path(place) / name
            path.chmod(0o600)
            if lasts:
                with path.open("rb") as file:
                    os.fsync(file.fileno())


_STAT = ("size", "mtime_ns", "ctime_ns", "inode")
_FILE_STATES = pa.schema(
    pa.field(name, pa.int64() if name in _STAT else pa.string(), nullable=False)
    for name in ("path", *_STAT, "digest", "role")
)
_STATE_TABLES = ("problems", "relations", "_counters", "_ids")
"""Tables whose parsed rows cannot be recovered from the finished tables, so they are saved as well: of relations only
where some lead to other files than pages.
"""
_SAID = ["status", "superseded_by", "created_at", "updated_at", "date_source"]
"""Columns of ``memories`` that other files may change, so what each file itself says is saved as well."""
_SCHEMAS = schemas_of(FORMATS)
_STATE_SCHEMAS = {name: _SCHEMAS[name] for name in _STATE_TABLES} | {
    "files": _FILE_STATES,
    "said": pa.schema([_SCHEMAS["memories"].field(name) for name in _SAID]),
}
# Parquet's dictionaries pay for short values: names, dates, kinds.
_REPEATED = 64
"""Bytes of a value above which values are mostly different."""

Writers = Mapping[str, Callable[[Path], None]]
"""Functions of others that add a folder to a lake, by the folder's name."""


@system_memory()
def save(
    tables: dict[str, pa.Table], database: Database, reading: Reading | None, attached: Writers, folder: Path
) -> None:
    """Write a corpus to `folder` atomically; cost linear in its size.

    Raises
    ------
    MemkitError
        Where `folder` cannot be written, or another process is saving to it.
    """
    folder = check_path(folder)
    if (folder / BUCKETS).exists():
        raise MemkitError(f"{folder}: it holds a lake of buckets. Pass buckets=, or choose another folder.")
    if (folder / MANIFEST).exists():  # its files would stay next to those of the new one
        raise MemkitError(f"{folder}: it holds a lake of an older memkit. Remove it, or choose another folder.")
    with replacing(folder) as staged:
        _write_all(staged, tables)
        _write_all(staged / TEXT, database.text_index())
        if reading is not None:
            _write_all(staged / STATE, _state(reading, tables))
        for name, write in attached.items():
            if name != TOTALS:
                write(staged / name)
        _carry_over(folder, staged, attached)
        _sign(staged, reading)
        _write_database(database, staged / DATABASE)


def save_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write the tables alone: no text index (it is built when needed), and no database for other programs."""
    with replacing(folder) as staged:
        _write_all(staged, tables)
        _sign(staged, None)
    (folder / DATABASE).unlink(missing_ok=True)


def keep(
    reading: Reading,
    text_index: TextIndex,
    attached: Writers,
    folder: Path,
    patience: float,
    check: Callable[[], None],
) -> None:
    """Write a reading for memkit's own cache: no database for other programs, and a text index only if there is one.

    `check` raises where it must not replace what is there. A power cut may damage it, which is known by its hashes.
    """
    with replacing(folder, patience, lasts=False) as staged:
        _write_all(staged, reading.tables)
        if text_index is not None:
            _write_all(staged / TEXT, text_index())
        _write_all(staged / STATE, _state(reading, reading.tables))
        for name, write in attached.items():
            write(staged / name)
        _carry_over(folder, staged, attached)
        _sign(staged, reading)
        check()


def _sign(staged: Path, reading: Reading | None) -> None:
    """Write the manifest: a hash for each file; a quick one where others added it, who check what they read."""
    hashes = digests(staged)
    hashes |= {name: digest_of_path(staged / name) for name in hashes if _is_own(name)}
    root, options = (str(reading.root.resolve()), reading.options) if reading else (None, Options())
    (staged / MANIFEST).write_text(Manifest(hashes, root, options).to_json(), encoding="utf-8")


def _write_all(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        write_parquet(folder / f"{name}.parquet", table)
    pa.default_memory_pool().release_unused()  # of `system_memory`: the writing of texts takes several times their size


def write_parquet(path: Path | BytesIO, table: pa.Table) -> None:
    """Write `table` so that the same rows give the same bytes."""
    # Opened here, as PyArrow may mistake a file name for a URL.
    with nullcontext(path) if isinstance(path, BytesIO) else path.open("wb") as file:
        # Texts and vectors are mostly different: a dictionary would take longer to build than to write them.
        repeated = [name for name in table.column_names if table[name].nbytes <= _REPEATED * table.num_rows]
        compression = "none" if any(map(pa.types.is_fixed_size_list, table.schema.types)) else "zstd"  # vectors
        parquet().write_table(table.combine_chunks(), file, compression=compression, use_dictionary=repeated)


def write_arrow(path: Path, table: pa.Table) -> None:
    """Write `table` as it lies in memory, for `beside`."""
    with path.open("wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _carry_over(folder: Path, staged: Path, attached: Writers) -> None:
    """Copy folders that others added to the old snapshot, unless its memories differ or they are written again."""
    try:
        snapshot = current(folder)
        old = read_manifest(snapshot)
    except FormatError:
        return
    is_same = old.files.get(_MEMORIES) == digest_of_path(staged / _MEMORIES)
    added = old.files.keys() - old.own_files if is_same else ()
    for name in added:
        if name.partition("/")[0] not in attached:
            with open_member(snapshot, name) as source:
                if digest_of_file(source, quick=True) == old.files[name]:  # else the damaged one would be signed anew
                    (staged / name).parent.mkdir(parents=True, exist_ok=True)
                    (staged / name).write_bytes(source.read())


def _write_database(database: Database, path: Path) -> None:
    """Write the DuckDB file; through a temporary folder where DuckDB would take a ``?`` in the path for options."""
    if "?" not in str(path):
        database.write(path)
        return
    with TemporaryDirectory(prefix="memkit-") as temporary:
        database.write(Path(temporary) / path.name)
        shutil.move(Path(temporary) / path.name, path)


@no_collection()
@system_memory()
def load(folder: Path, source: Path | None, trust: bool) -> tuple[dict[str, pa.Table], Reading | None, TextIndex, Path]:
    """The tables of a saved corpus, its reading if it has one, its full-text index, if it has this version's, and the
    snapshot that they are from.

    Raises
    ------
    FormatError
        Where nothing is saved there, the version is another one, or a file was changed since.
    """
    with opened(check_path(folder)) as (snapshot, manifest, files):
        lake = _Lake(folder, manifest, files, trust)
        tables = lake.tables()
        return tables, lake.reading(tables, source), lake.text_index(), snapshot


def beside(snapshot: Path, name: str) -> pa.Table | None:
    """A table that others added to a snapshot of the user's own by `write_arrow`; None where it is not there as it was
    saved. It stays in its file, of which only what is looked at is read.
    """
    with suppress(FormatError, pa.ArrowException), open_member(snapshot, name) as file:
        if digest_of_file(file, quick=True) == read_manifest(snapshot).files.get(name):
            return pa.ipc.open_file(pa.py_buffer(mapped(file))).read_all()
    return None


class _Lake:
    """The open files of one snapshot; reads each and checks it."""

    def __init__(self, folder: Path, manifest: Manifest, files: dict[str, BufferedReader], trust: bool) -> None:
        self.folder, self.manifest, self.files, self.trust = folder, manifest, files, trust

    def tables(self) -> dict[str, pa.Table]:
        names = dict.fromkeys([*TABLES, *self.manifest.tables])
        tables = {name: self._read(f"{name}.parquet", TABLES.get(name)) for name in names}
        check_unique(tables["memories"], "memory_id", self.folder / _MEMORIES)
        return tables

    def text_index(self) -> TextIndex:
        """It is read when it is first asked for, as no Retriever needs it; at once where it is not the user's own."""
        is_saved = any(name.startswith(f"{TEXT}/") for name in self.manifest.files)
        if self.manifest.text_version != TEXT_VERSION or not is_saved:
            return None
        files = {name: BytesIO(self._checked(f"{TEXT}/{name}.parquet").read()) for name in TEXT_INDEX}
        place, trust = self.folder / TEXT, self.trust
        read = cache(
            lambda: {
                name: read_parquet(file, place / f"{name}.parquet", TEXT_INDEX[name], trust)
                for name, file in files.items()
            }
        )
        if not trust:
            read()
        return read

    def reading(self, tables: dict[str, pa.Table], source: Path | None) -> Reading | None:
        """The saved reading; an empty one, after which a refresh reads every file, where its state is missing."""
        root = source or self.manifest.root
        if root is None:
            return None
        reading = empty_reading(Path(root), self.manifest.options)
        # The schemas of formats from outside are known only once they are loaded, so a refresh reads every file.
        if self.manifest.options.formats:
            return reading
        try:
            state = {name: self._read(f"{STATE}/{name}.parquet", s) for name, s in _STATE_SCHEMAS.items()}
        except FormatError:
            return reading
        said, columns = state.pop("said"), (column.to_pylist() for column in state.pop("files").columns)
        for path, size, mtime, ctime, inode, digest, role in zip(*columns, strict=True):
            reading.files[path] = (size, mtime, ctime, inode), role, digest
        paths = pa.array(list(reading.files), pa.string())
        for name in _SCHEMAS:
            is_saved = name in state and (name != "relations" or len(state[name]) > 0)
            reading.parsed[name] = state[name] if is_saved else _from_files(name, tables, paths)
        if len(said) != len(reading.parsed["memories"]):
            return empty_reading(reading.root, reading.options)
        for name in _SAID:
            reading.parsed["memories"] = with_column(reading.parsed["memories"], name, said[name])
        return reading

    def _read(self, name: str, schema: pa.Schema | None = None) -> pa.Table:
        return read_parquet(self._checked(name), self.folder / name, schema, self.trust)

    def _checked(self, name: str) -> BufferedReader:
        """An open file, after its bytes were compared with their hash."""
        file = self.files.get(name)
        if file is None or digest_of_file(file) != self.manifest.files[name]:
            raise refused(
                self.folder / name, "the file that was saved", "a changed or missing one; save the corpus again"
            )
        return file


def empty_reading(root: Path, options: Options) -> Reading:
    """A reading without files, after which a refresh reads every file."""
    parsed = {name: schema.empty_table() for name, schema in _SCHEMAS.items()}
    return Reading(root, options, parsed=parsed)


def _state(reading: Reading, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The state that a refresh needs beside the finished tables."""
    rows = [
        {"path": path, **dict(zip(_STAT, stat, strict=True)), "digest": digest, "role": role}
        for path, (stat, role, digest) in sorted(reading.files.items())
    ]
    files = pa.Table.from_pylist(rows, schema=_FILE_STATES)
    state = {name: reading.parsed[name] for name in _STATE_TABLES}
    if state["relations"]["type"].equals(tables["relations"]["type"]):
        state["relations"] = without_rows(state["relations"].schema)
    return state | {"files": files, "said": reading.parsed["memories"].select(_SAID)}


def _from_files(name: str, tables: dict[str, pa.Table], paths: pa.Array) -> pa.Table:
    """The rows of a table that came from parsed files, without those of indexes and surveys, made by every read."""
    if name == "entries" or name.startswith("_"):  # what only surveys fill is in no saved table
        return _SCHEMAS[name].empty_table()
    if "path" not in tables[name].column_names:
        return tables[name]
    is_of_file = pc.is_in(tables[name]["path"], value_set=paths)
    return tables[name] if pc.all(is_of_file, min_count=0).as_py() else tables[name].filter(is_of_file)  # no copy
