"""A lake: the snapshot of a corpus on disk, with a Parquet file for each table, the text index and the refresh state.

Only the Parquet files are the same bytes from run to run, and only they are read: ``corpus.duckdb``, with the same
tables and index, is written for other programs. `memkit.tables.commit` makes a save atomic.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.hashes import digest_of_file, digest_of_path
from memkit.errors import FormatError, MemkitError, refused
from memkit.formats.disk.files import DATABASE
from memkit.formats.reader import Options, Reading
from memkit.formats.registry import FORMATS
from memkit.formats.rows import schemas_of
from memkit.schemas import TABLES, with_column, without_rows
from memkit.tables.commit import (
    BUCKETS,
    MANIFEST,
    STATE,
    TEXT,
    TOTALS,
    Manifest,
    check_path,
    current,
    opened,
    read_manifest,
    replacing,
)
from memkit.tables.database import Database
from memkit.tables.fts import TEXT_INDEX, TEXT_VERSION
from memkit.tables.untrusted import check_unique, digests, open_member, parquet, read_parquet

_MEMORIES = "memories.parquet"
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
_REPEATED = 64
"""Bytes of a value above which values are mostly different."""

Writers = Mapping[str, Callable[[Path], None]]
"""Functions of others that add a folder to a lake, by the folder's name."""


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
        root, options = (str(reading.root.resolve()), reading.options) if reading else (None, Options())
        manifest = Manifest(digests(staged), root, options)
        _write_database(database, staged / DATABASE)
        (staged / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")


def save_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write the tables alone: no text index (it is built when needed), and no database for other programs."""
    with replacing(folder) as staged:
        _write_all(staged, tables)
        (staged / MANIFEST).write_text(Manifest(digests(staged), None, Options()).to_json(), encoding="utf-8")
    (folder / DATABASE).unlink(missing_ok=True)


def keep(
    reading: Reading,
    text_index: dict[str, pa.Table] | None,
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
            _write_all(staged / TEXT, text_index)
        _write_all(staged / STATE, _state(reading, reading.tables))
        for name, write in attached.items():
            write(staged / name)
        _carry_over(folder, staged, attached)
        manifest = Manifest(digests(staged), str(reading.root.resolve()), reading.options)
        (staged / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
        check()


def _write_all(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        write_parquet(folder / f"{name}.parquet", table)


def write_parquet(path: Path | BytesIO, table: pa.Table) -> None:
    """Write `table` so that the same rows give the same bytes."""
    # Opened here, as PyArrow may mistake a file name for a URL.
    with nullcontext(path) if isinstance(path, BytesIO) else path.open("wb") as file:
        # Texts and vectors are mostly different: a dictionary would take longer to build than to write them.
        repeated = [name for name in table.column_names if table[name].nbytes <= _REPEATED * table.num_rows]
        has_vectors = any(pa.types.is_fixed_size_list(column) for column in table.schema.types)
        compression = "none" if has_vectors else "zstd"
        parquet().write_table(table.combine_chunks(), file, compression=compression, use_dictionary=repeated)


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
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            with open_member(snapshot, name) as source, (staged / name).open("wb") as target:
                shutil.copyfileobj(source, target)


def _write_database(database: Database, path: Path) -> None:
    """Write the DuckDB file; through a temporary folder where DuckDB would take a ``?`` in the path for options."""
    if "?" not in str(path):
        database.write(path)
        return
    with TemporaryDirectory(prefix="memkit-") as temporary:
        database.write(Path(temporary) / path.name)
        shutil.move(Path(temporary) / path.name, path)


def load(
    folder: Path, source: Path | None, trust: bool
) -> tuple[dict[str, pa.Table], Reading | None, dict[str, pa.Table] | None, Path]:
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
    """A Parquet file that others added to a snapshot of the user's own; None where it is not there as it was saved."""
    with suppress(FormatError), open_member(snapshot, name) as file:
        if digest_of_file(file) == read_manifest(snapshot).files.get(name):
            return read_parquet(file, snapshot / name, trust=True)
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

    def text_index(self) -> dict[str, pa.Table] | None:
        if self.manifest.text_version != TEXT_VERSION:
            return None
        if not any(name.startswith(f"{TEXT}/") for name in self.manifest.files):
            return None
        return {name: self._read(f"{TEXT}/{name}.parquet", schema) for name, schema in TEXT_INDEX.items()}

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
        path, file = self.folder / name, self.files.get(name)
        if file is None or digest_of_file(file) != self.manifest.files[name]:
            raise refused(path, "the file that was saved", "a changed or missing one; save the corpus again")
        return read_parquet(file, path, schema, self.trust)


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
