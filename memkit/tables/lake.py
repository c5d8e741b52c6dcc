"""A corpus on disk: a Parquet file for each table, the full-text index and what a refresh needs as Parquet too.

Only the Parquet is byte-identical from run to run, and only it is read: ``corpus.duckdb``, with the same tables and
their index, is written for other programs. `memkit.tables.commit` has it that a save is whole or not at all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from io import BufferedReader, BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memkit.errors import FormatError, MemkitError, refused
from memkit.formats.reader import Options, Reading
from memkit.formats.registry import FORMATS
from memkit.formats.rows import schemas_of
from memkit.hashes import digest_of_file
from memkit.schemas import TABLES
from memkit.tables.commit import DATABASE, check_path, current, opened, replacing
from memkit.tables.database import Database
from memkit.tables.fts import TEXT_INDEX
from memkit.tables.manifest import (
    BUCKETS,
    MANIFEST,
    STATE,
    TEXT,
    TOTALS,
    VERSION,
    Manifest,
    other_version,
    read_manifest,
)
from memkit.tables.untrusted import check_unique, declared, digests, open_member, read_parquet

_MEMORIES = "memories.parquet"
_STAT = ("size", "mtime_ns", "ctime_ns")
_SEEN = pa.schema(
    pa.field(name, pa.int64() if name in _STAT else pa.string(), nullable=False)
    for name in ("path", *_STAT, "digest", "role")
)
_KEPT = ("problems", "_counters", "_ids")
"""Tables whose rows from the files alone cannot be told from the finished ones, so that they are saved beside them."""
_SCHEMAS = schemas_of(FORMATS)
_STATE_SCHEMAS = {name: _SCHEMAS[name] for name in _KEPT} | {"files": _SEEN}

Writers = Mapping[str, Callable[[Path], None]]
"""What others add to a lake: the name of a folder in it, and what fills that."""


def save(
    tables: dict[str, pa.Table], database: Database, reading: Reading | None, attached: Writers, folder: Path
) -> None:
    """Write a corpus to `folder`, whole or not at all; cost linear in its size.

    Raises
    ------
    MemkitError
        Where `folder` cannot be written, or another process is saving to it.
    """
    folder = check_path(folder)
    if (folder / BUCKETS).exists():
        raise MemkitError(f"{folder}: a lake of buckets lies there. Pass buckets=, or choose another folder.")
    if (folder / MANIFEST).exists():  # its texts would lie beside those of the new one
        raise MemkitError(f"{folder}: a lake of an older memkit lies there. Remove it, or choose another folder.")
    with replacing(folder) as staged:
        _write_all(staged, tables)
        _write_all(staged / TEXT, database.text_index())
        if reading is not None:
            _write_all(staged / STATE, _state(reading))
        for name, write in attached.items():
            if name != TOTALS:
                write(staged / name)
        _carry_over(folder, staged, attached)
        root, options = (str(reading.root.resolve()), reading.options) if reading else (None, Options())
        manifest = Manifest(VERSION, digests(staged), root, options)
        _write_database(database, staged / DATABASE)
        (staged / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")


def save_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write tables alone: a text index is made when it is asked for, and no database for other programs."""
    with replacing(folder) as staged:
        _write_all(staged, tables)
        (staged / MANIFEST).write_text(Manifest(VERSION, digests(staged), None, Options()).to_json(), encoding="utf-8")
    (folder / DATABASE).unlink(missing_ok=True)


def _write_all(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        write_parquet(folder / f"{name}.parquet", table)


def write_parquet(path: Path | BytesIO, table: pa.Table) -> None:
    """Write `table` so that the same rows give the same bytes."""
    # A name may be taken for an address.
    with nullcontext(path) if isinstance(path, BytesIO) else path.open("wb") as file:
        # Numbers of vectors are all different: to look for equal ones takes longer than to write them.
        is_plain = any(pa.types.is_fixed_size_list(column) for column in table.schema.types)
        how = {"compression": "none", "use_dictionary": False} if is_plain else {"compression": "zstd"}
        pq.write_table(table.combine_chunks(), file, **how)


def _carry_over(folder: Path, staged: Path, attached: Writers) -> None:
    """Copy what others added to the lake that is there, if it is of the same memories and nobody adds it anew."""
    try:
        place = current(folder)
        before, files = read_manifest(place), digests(staged)
    except FormatError:
        return
    others = before.files.keys() - before.own_files if before.files.get(_MEMORIES) == files[_MEMORIES] else ()
    for name in others:
        if name.partition("/")[0] not in attached:
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            with open_member(place, name) as source, (staged / name).open("wb") as target:
                shutil.copyfileobj(source, target)


def _write_database(database: Database, path: Path) -> None:
    """Write the DuckDB file; by way of another folder where DuckDB would take the name for a query."""
    if "?" not in str(path):
        database.write(path)
        return
    with TemporaryDirectory(prefix="memkit-") as other:
        database.write(Path(other) / path.name)
        shutil.move(Path(other) / path.name, path)


def load(
    folder: Path, source: Path | None, trust: bool
) -> tuple[dict[str, pa.Table], Reading | None, dict[str, pa.Table] | None]:
    """The tables of a saved corpus, its reading if it had one, and its full-text index if that was saved.

    Raises
    ------
    FormatError
        Where nothing is saved there, another version is, or a file is not what was saved.
    """
    with opened(check_path(folder)) as (manifest, files):
        if manifest.version != VERSION:
            raise other_version(folder / MANIFEST, manifest.version)
        lake = _Lake(folder, manifest, files, trust)
        tables = lake.tables()
        return tables, lake.reading(tables, source), lake.text_index()


def columns_of(folder: Path, columns: Mapping[str, Sequence[str]]) -> dict[str, pa.Table]:
    """These columns of memkit's own tables, of a lake of this version or an older one that has them.

    Raises
    ------
    FormatError
        As `load` raises it.
    """
    with opened(check_path(folder)) as (manifest, files):
        lake = _Lake(folder, manifest, files, trust=False)
        return {name: lake.columns(name, wanted) for name, wanted in columns.items()}


class _Lake:
    """The files of one save, open, and how each is checked."""

    def __init__(self, folder: Path, manifest: Manifest, files: dict[str, BufferedReader], trust: bool) -> None:
        self.folder, self.manifest, self.files, self.trust = folder, manifest, files, trust

    def tables(self) -> dict[str, pa.Table]:
        names = dict.fromkeys([*TABLES, *self.manifest.tables])
        tables = {name: self._read(f"{name}.parquet", TABLES.get(name)) for name in names}
        check_unique(tables["memories"], "memory_id", self.folder / _MEMORIES)
        return tables

    def columns(self, name: str, wanted: Sequence[str]) -> pa.Table:
        """Some columns of one of memkit's own tables, whatever others it has; no rows where it was not known yet."""
        path, schema = self.folder / f"{name}.parquet", pa.schema([TABLES[name].field(column) for column in wanted])
        found = self._read(path.name) if path.name in self.manifest.files else schema.empty_table()
        return declared(found.select([column for column in wanted if column in found.column_names]), schema, path)

    def text_index(self) -> dict[str, pa.Table] | None:
        if not any(name.startswith(f"{TEXT}/") for name in self.manifest.files):
            return None
        return {name: self._read(f"{TEXT}/{name}.parquet", schema) for name, schema in TEXT_INDEX.items()}

    def reading(self, tables: dict[str, pa.Table], source: Path | None) -> Reading | None:
        """The reading that was saved; one that has seen nothing where its state is gone."""
        root = source or self.manifest.root
        if root is None:
            return None
        reading = unread(Path(root), self.manifest.options)
        # What the tables of others are is known once their formats are loaded, so a refresh reads all.
        if self.manifest.options.formats:
            return reading
        try:
            kept = {name: self._read(f"{STATE}/{name}.parquet", s) for name, s in _STATE_SCHEMAS.items()}
        except FormatError:
            return reading
        for row in kept.pop("files").to_pylist():
            stat = (row["size"], row["mtime_ns"], row["ctime_ns"])
            reading.seen[row["path"]] = stat, row["role"], row["digest"]
        paths = pa.array(list(reading.seen), pa.string())
        for name in _SCHEMAS:
            reading.parsed[name] = kept[name] if name in kept else _from_files(name, tables, paths)
        return reading

    def _read(self, name: str, schema: pa.Schema | None = None) -> pa.Table:
        path, file = self.folder / name, self.files.get(name)
        if file is None or digest_of_file(file) != self.manifest.files[name]:
            raise refused(path, "the file that was saved", "another or none; save the corpus again")
        return read_parquet(file, path, schema, self.trust)


def unread(root: Path, options: Options) -> Reading:
    """A reading that has seen nothing, so that a refresh reads all."""
    parsed = {name: schema.empty_table() for name, schema in _SCHEMAS.items()}
    return Reading(root, options, parsed=parsed)


def _state(reading: Reading) -> dict[str, pa.Table]:
    """What a refresh needs."""
    rows = [
        {"path": path, **dict(zip(_STAT, stat, strict=True)), "digest": digest, "role": role}
        for path, (stat, role, digest) in sorted(reading.seen.items())
    ]
    return {name: reading.parsed[name] for name in _KEPT} | {"files": pa.Table.from_pylist(rows, schema=_SEEN)}


def _from_files(name: str, tables: dict[str, pa.Table], paths: pa.Array) -> pa.Table:
    """The rows that came from parsed files, as against the indexes, which every read surveys anew."""
    if name == "entries":
        return TABLES[name].empty_table()
    column = "path" if "path" in tables[name].column_names else None
    return tables[name].filter(pc.is_in(tables[name][column], value_set=paths)) if column else tables[name]
