"""Divide the rows of a corpus among shards (buckets), whole users together, and write each as a lake of its own.

``buckets.json`` is written last: an interrupted save leaves no sharded corpus, and the next save continues it. It has
the hash of each bucket's manifest, so that buckets of two saves are never mixed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base import atomic
from memkit.base.hashes import digest_of_file, place
from memkit.base.parallel import results
from memkit.base.params import check_value
from memkit.errors import FormatError, MemkitError
from memkit.schemas import Ints
from memkit.tables.commit import BUCKETS, MANIFEST, TOTALS, VERSION, check_path, current, is_lake, read_manifest
from memkit.tables.database import Database
from memkit.tables.fts import TEXT_VERSION
from memkit.tables.lake import Writers, save, write_parquet
from memkit.tables.untrusted import open_member, refuse_links

LIST_VERSION = 2
MOST_BUCKETS = 100_000


def save_buckets(tables: Mapping[str, pa.Table], folder: Path, count: int, attached: Writers) -> None:
    """Write `tables` to `folder` as `count` buckets; buckets that are already there with equal content are kept.

    Raises
    ------
    MemkitError
        If an ordinary lake lies there, or writing fails.
    """
    check_value("save", "buckets", count, "int", low=1, high=MOST_BUCKETS)
    folder = check_path(folder)
    if is_lake(folder):
        raise MemkitError(f"{folder}: a lake without buckets lies there. Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        parts = split(tables, count)
        tasks = ((folder / f"bucket-{number:05}", part) for number, part in enumerate(parts))
        (folder / BUCKETS).unlink(missing_ok=True)  # no lake from here on, until all is there
        saved = list(results(_save_one, tasks))
        write_list(folder, saved)
    except OSError as error:
        raise MemkitError(f"{folder}: cannot save buckets there: {error}. Save again: what is done is kept.") from error
    if TOTALS in attached:
        attached[TOTALS](folder / TOTALS)


def _save_one(place: Path, tables: dict[str, pa.Table]) -> dict[str, Any]:
    if not _is_saved(place, tables):
        save(tables, Database(tables), None, {}, place)
    return as_listed(place, tables)


def as_listed(place: Path, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """The entry of a bucket in ``buckets.json``."""
    with open_member(current(place), MANIFEST) as file:
        manifest, memories = digest_of_file(file), tables["memories"]
    shared = memories["user_id"].null_count
    return {"name": place.name, "manifest": manifest, "memories": memories.num_rows, "shared": shared}


def _is_saved(place: Path, tables: dict[str, pa.Table]) -> bool:
    """Whether the bucket has exactly these tables already."""
    try:
        manifest = read_manifest(current(place))
    except FormatError:
        return False
    return (
        manifest.text_version == TEXT_VERSION
        and set(manifest.tables) == set(tables)
        and all(manifest.files[f"{name}.parquet"] == _digest(table) for name, table in tables.items())
    )


def _digest(table: pa.Table) -> str:
    file = BytesIO()
    write_parquet(file, table)
    return digest_of_file(file)


def split(tables: Mapping[str, pa.Table], count: int) -> list[dict[str, pa.Table]]:
    """The tables of each bucket: rows go with their memory, else by their user, else by their file."""
    memories = tables["memories"]
    of_memory = _places(pc.coalesce(memories["user_id"], memories["path"], memories["memory_id"]), count)
    parts: list[dict[str, pa.Table]] = [{} for _ in range(count)]
    for name, table in tables.items():
        bucket = np.full(len(table), -1)
        if name == "memories":
            bucket = of_memory
        elif "memory_id" in table.column_names:
            row = pc.fill_null(pc.index_in(table["memory_id"], value_set=memories["memory_id"]), -1).to_numpy()
            bucket = np.where(row >= 0, of_memory[row] if len(of_memory) else 0, -1)
        for column in ("user_id", "path"):
            if column in table.column_names and (bucket < 0).any():
                bucket = np.where(bucket < 0, _places(table[column], count), bucket)
        order, bucket = np.argsort(bucket, kind="stable"), np.sort(np.maximum(bucket, 0))
        ends = np.searchsorted(bucket, np.arange(count + 1))
        for number, part in enumerate(parts):
            part[name] = table.take(pa.array(order[ends[number] : ends[number + 1]])).combine_chunks()
    return parts


def _places(values: pa.ChunkedArray, count: int) -> Ints:
    """The bucket of each value; -1 for null."""
    coded = values.combine_chunks().dictionary_encode()
    of_value: Ints = np.array([*(place_of(value, count) for value in coded.dictionary.to_pylist()), -1], np.int64)
    places: Ints = of_value[pc.fill_null(coded.indices, len(of_value) - 1).to_numpy()]
    return places


def place_of(value: str, count: int) -> int:
    """The bucket of a user or file."""
    return place(value) % count


def write_list(folder: Path, saved: list[dict[str, Any]]) -> None:
    """Write ``buckets.json``, and delete other buckets and their collection statistics."""
    others = set(folder.glob("bucket-*")) - {folder / bucket["name"] for bucket in saved}
    for old in (folder / TOTALS, *others):
        shutil.rmtree(old, ignore_errors=True)
    document = {"version": LIST_VERSION, "lake": VERSION, "buckets": saved}
    atomic.replace(folder / BUCKETS, json.dumps(document, indent=1))
