"""A corpus on disk: ``<table>.parquet`` for anybody, ``corpus.duckdb`` with the index, and what a refresh needs.

Only the Parquet is byte-identical from run to run. A save is written whole into a folder of its own, which is then
renamed to ``.memkit-next``: from there on it is the corpus, and whoever comes next finishes moving its files into
place. So a killed writer leaves the old corpus or the new one, never half of each.
"""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memkit.errors import FormatError
from memkit.formats.index_tree import PLUGIN_GLOBS
from memkit.formats.reader import Options, Reading
from memkit.formats.rows import RAW_SCHEMAS
from memkit.schemas import TABLES
from memkit.tables.database import Database, is_table_name

VERSION = 1
MANIFEST = "manifest.json"
DATABASE = "corpus.duckdb"
_STATE = "state"
_NEXT = ".memkit-next"
_STAT = ("size", "mtime_ns", "ctime_ns")
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
    staged = Path(mkdtemp(prefix=".saving-", dir=folder))
    try:
        _write(tables, database, reading, staged)
        _adopt(folder)
        staged.rename(folder / _NEXT)
        _adopt(folder)
    finally:
        rmtree(staged, ignore_errors=True)


def _write(tables: dict[str, pa.Table], database: Database, reading: Reading | None, folder: Path) -> None:
    manifest: dict[str, Any] = {"version": VERSION, "tables": {}, "source": None}
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        write_parquet(path, table)
        manifest["tables"][name] = {"rows": table.num_rows, "digest": _digest(path)}
    if reading is not None:
        state = _save_state(reading, folder / _STATE)
        manifest["source"] = {"root": str(reading.root.resolve()), "options": _options(reading.options), "state": state}
    database.write(folder / DATABASE)
    with duckdb.connect(str(folder / DATABASE), config={"autoinstall_known_extensions": "false"}) as con:
        con.execute("create or replace table memkit.saved as select ?::varchar as stamp", [_stamp(manifest)])
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _adopt(folder: Path) -> None:
    """Move the files of a finished save into their places, the manifest last, and what it no longer names away."""
    staged = folder / _NEXT
    if (staged / MANIFEST).is_file():
        dropped = _names(folder) - _names(staged)
        (folder / _STATE).mkdir(exist_ok=True)
        for path in sorted(staged.rglob("*.*"), key=lambda path: path.name == MANIFEST):
            path.replace(folder / path.relative_to(staged))
        for name in dropped:
            (folder / f"{name}.parquet").unlink(missing_ok=True)
    rmtree(staged, ignore_errors=True)


def _names(folder: Path) -> set[str]:
    """The tables that a manifest names; none where it is broken, and about to be replaced."""
    try:
        return set(_manifest(folder)["tables"])
    except FormatError:
        return set()


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write `table` so that the same rows give the same bytes."""
    pq.write_table(table.combine_chunks(), path, compression="zstd")


def load(folder: Path, source: Path | None) -> tuple[dict[str, pa.Table], Reading | None, Path | None]:
    """The tables of a saved corpus, its reading if it had one, and its DuckDB file if that is of the same save.

    Raises
    ------
    FormatError
        Where there is none, or a file is not what was saved.
    """
    _adopt(folder)
    manifest = _manifest(folder)
    tables = {name: _table(folder, name, saved["digest"]) for name, saved in manifest["tables"].items()}
    reading = _load_state(manifest, tables, folder / _STATE, source)
    return tables, reading, _own_database(folder / DATABASE, _stamp(manifest))


def _table(folder: Path, name: str, digest: str) -> pa.Table:
    path = folder / f"{name}.parquet"
    if not path.is_file() or _digest(path) != digest:
        raise FormatError(f"{path}: expected the file that was saved. Got another or none; save the corpus again.")
    table = pq.read_table(path)
    # Parquet has its own name for the items of a list.
    schema = RAW_SCHEMAS.get(name, table.schema)
    return table.cast(schema).replace_schema_metadata(table.schema.metadata)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version, tables, source = manifest["version"], manifest["tables"], manifest["source"]
        named = all(is_table_name(name) and isinstance(saved["digest"], str) for name, saved in tables.items())
        if not named or not TABLES.keys() <= tables.keys() or not (source is None or isinstance(source["root"], str)):
            raise ValueError("a manifest that memkit did not write")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{folder}: expected a saved corpus with a {MANIFEST}. Got {error!r}.") from error
    if version != VERSION:
        raise FormatError(f"{path}: expected version {VERSION}. Got {version!r}; save the corpus again.")
    return manifest


def _own_database(path: Path, stamp: str) -> Path | None:
    try:
        with duckdb.connect(str(path), read_only=True) as con:
            found = con.execute("select stamp from memkit.saved").fetchone()
    except duckdb.Error:
        return None
    return path if found == (stamp,) else None


def _save_state(reading: Reading, folder: Path) -> dict[str, str]:
    """Write what a refresh needs; the files' hashes by name."""
    folder.mkdir()
    rows = [
        {"path": path, **dict(zip(_STAT, stat, strict=True)), "digest": digest, "role": role}
        for path, (stat, role, digest) in sorted(reading.seen.items())
    ]
    state = {name: reading.parsed[name] for name in _KEPT} | {"files": pa.Table.from_pylist(rows, schema=_SEEN)}
    for name, table in state.items():
        write_parquet(folder / f"{name}.parquet", table)
    return {name: _digest(folder / f"{name}.parquet") for name in state}


def _load_state(
    manifest: dict[str, Any], tables: dict[str, pa.Table], folder: Path, source: Path | None
) -> Reading | None:
    """The reading that was saved; one that has seen nothing, so that a refresh reads all, where its state is broken."""
    saved = manifest["source"]
    if saved is None and source is None:
        return None
    options, root = (saved["options"], Path(saved["root"])) if saved else ({}, Path())
    reading = Reading(source or root, _options_of(options))
    reading.parsed = {name: schema.empty_table() for name, schema in RAW_SCHEMAS.items()}
    try:
        kept = {name: _table(folder, name, saved["state"][name]) for name in (*_KEPT, "files")} if saved else {}
    except (FormatError, KeyError, TypeError):
        kept = {}
    if not kept:
        return reading
    for row in kept.pop("files").to_pylist():
        stat = (row["size"], row["mtime_ns"], row["ctime_ns"])
        reading.seen[row["path"]] = stat, row["role"], row["digest"]
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


def _options_of(saved: dict[str, Any]) -> Options:
    """What `_options` wrote.

    Raises
    ------
    FormatError
        Where it is not that.
    """
    try:
        as_of = saved.get("as_of") and datetime.fromisoformat(saved["as_of"])
        rest = {name: value for name, value in saved.items() if name != "as_of"}
        globs = tuple(map(str, rest.pop("plugin_globs", PLUGIN_GLOBS)))
        return Options(as_of=as_of, plugin_globs=globs, **rest)
    except (TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{MANIFEST}: expected the options of a read. Got {saved!r:.80}.") from error


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _stamp(manifest: dict[str, Any]) -> str:
    return blake2b(json.dumps(manifest["tables"], sort_keys=True).encode(), digest_size=16).hexdigest()
