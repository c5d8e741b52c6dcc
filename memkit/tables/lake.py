"""A corpus on disk: ``<table>.parquet`` for anybody, ``corpus.duckdb`` with the index, and what a refresh needs.

Only the Parquet is byte-identical from run to run. Every file is written beside its place and renamed into it, the
manifest last, so that a reader sees the old corpus or the new one and a killed writer leaves neither half.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memkit.errors import FormatError
from memkit.formats.files import Stat
from memkit.formats.reader import Options, Reading, Seen
from memkit.formats.rows import RAW_SCHEMAS
from memkit.schemas import TABLES
from memkit.tables.database import Database

VERSION = 1
MANIFEST = "manifest.json"
DATABASE = "corpus.duckdb"
_STATE = "state"
_SEEN = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("ctime_ns", pa.int64()),
        ("digest", pa.string()),
        ("role", pa.string()),
    ]
)
_KEPT = ("problems", "_counters", "_ids")
"""Tables whose rows from the files alone cannot be told from the finished ones, so that they are saved beside them."""


def save(tables: dict[str, pa.Table], database: Database, reading: Reading | None, folder: Path) -> None:
    """Write a corpus to `folder`; cost linear in its size."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, Any] = {"version": VERSION, "tables": {}, "source": None}
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        write_parquet(path, table)
        manifest["tables"][name] = {"rows": table.num_rows, "digest": _digest(path)}
    if reading is not None:
        manifest["source"] = {"root": str(reading.root.resolve()), "options": _options(reading.options)}
        _save_state(reading, folder / _STATE)
    _replace(folder / DATABASE, database.write)
    with duckdb.connect(str(folder / DATABASE), config={"autoinstall_known_extensions": "false"}) as con:
        stamp = _stamp(manifest)
        con.execute("create or replace table memkit.saved as select ?::varchar as stamp", [stamp])
    text = json.dumps(manifest, ensure_ascii=False, indent=1)
    _replace(folder / MANIFEST, lambda path: _write_text(path, text))


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write `table` so that the same rows give the same bytes, and a reader never sees half of them."""
    _replace(path, lambda temporary: pq.write_table(table.combine_chunks(), temporary, compression="zstd"))


def load(folder: Path, source: Path | None) -> tuple[dict[str, pa.Table], Reading | None, Path | None]:
    """The tables of a saved corpus, its reading if it had one, and its DuckDB file if that is of the same save.

    Raises
    ------
    FormatError
        Where there is none, or a file is not what was saved.
    """
    manifest = _manifest(folder)
    tables = {}
    for name, saved in manifest["tables"].items():
        path = folder / f"{name}.parquet"
        if not path.is_file() or _digest(path) != saved["digest"]:
            raise FormatError(f"{path}: expected the file that was saved. Got another or none; save the corpus again.")
        tables[name] = pq.read_table(path)
    reading = _load_state(manifest, tables, folder / _STATE, source)
    return tables, reading, _own_database(folder / DATABASE, _stamp(manifest))


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{folder}: expected a saved corpus with a {MANIFEST}. Got {error}.") from error
    if manifest.get("version") != VERSION:
        raise FormatError(
            f"{path}: expected version {VERSION}. Got {manifest.get('version')!r}; save the corpus again."
        )
    return manifest


def _own_database(path: Path, stamp: str) -> Path | None:
    try:
        with duckdb.connect(str(path), read_only=True) as con:
            found = con.execute("select stamp from memkit.saved").fetchone()
    except duckdb.Error:
        return None
    return path if found == (stamp,) else None


def _save_state(reading: Reading, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in _KEPT:
        write_parquet(folder / f"{name}.parquet", reading.parsed[name])
    rows = [
        {"path": path, **asdict(seen.stat), "digest": seen.digest, "role": seen.role}
        for path, seen in reading.seen.items()
    ]
    write_parquet(folder / "files.parquet", pa.Table.from_pylist(rows, schema=_SEEN))


def _load_state(
    manifest: dict[str, Any], tables: dict[str, pa.Table], folder: Path, source: Path | None
) -> Reading | None:
    saved = manifest["source"]
    if saved is None:
        return None
    options = dict(saved["options"])
    as_of = options.pop("as_of")
    options["plugin_globs"] = tuple(options["plugin_globs"])
    reading = Reading(source or Path(saved["root"]), Options(as_of=as_of and datetime.fromisoformat(as_of), **options))
    for row in pq.read_table(folder / "files.parquet").to_pylist():
        stat = Stat(row["size"], row["mtime_ns"], row["ctime_ns"])
        reading.seen[row["path"]] = Seen(stat, row["digest"], row["role"])
    kept = {name: pq.read_table(folder / f"{name}.parquet") for name in _KEPT}
    paths = pa.array(list(reading.seen), pa.string())
    for name in RAW_SCHEMAS:
        reading.parsed[name] = kept[name] if name in kept else _from_files(name, tables, paths)
    return reading


def _from_files(name: str, tables: dict[str, pa.Table], paths: pa.Array) -> pa.Table:
    """The rows that came from parsed files, as against the indexes, which every read surveys anew."""
    if name == "entries":
        return TABLES[name].empty_table()
    column = "path" if "path" in tables[name].column_names else None
    return tables[name].filter(pc.is_in(tables[name][column], value_set=paths)) if column else tables[name]


def _options(options: Options) -> dict[str, Any]:
    """What a refresh repeats; rules are code and are not saved."""
    return {
        "format": options.format,
        "as_of": options.as_of.isoformat() if options.as_of else None,
        "max_file_bytes": options.max_file_bytes,
        "plugin_globs": list(options.plugin_globs),
        "n_jobs": options.n_jobs,
    }


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _stamp(manifest: dict[str, Any]) -> str:
    return blake2b(json.dumps(manifest["tables"], sort_keys=True).encode(), digest_size=16).hexdigest()
