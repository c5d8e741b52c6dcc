"""The rows of files that were read again, in the place of those that were read before."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.rows import Tables

_SPLICED = 64
"""Up to so many changed files are spliced into tables without copying the rest."""


def merge(before: Tables, fresh: Tables, changed: set[str]) -> Tables:
    """`before` without the rows of the `changed` files, with `fresh` ones in their place, in path order."""
    places = pa.concat_tables([tables["memories"].select(["memory_id", "path"]) for tables in (before, fresh)])
    merged = {}
    for name, new in fresh.items():
        old = before[name] if name in before else new.schema.empty_table()
        if old.num_rows == new.num_rows == 0:
            merged[name] = old
            continue
        merged[name] = _splice(old, new, _paths(name, old, places), _paths(name, new, places), changed)
    return merged


def _paths(name: str, table: pa.Table, places: pa.Table) -> pa.ChunkedArray:
    """The file that each row came from: its memory's, as a problem may lie in a part of that."""
    if "path" in table.column_names and name != "problems":
        return table["path"]
    at = pc.index_in(table["memory_id"], value_set=places["memory_id"].combine_chunks(), skip_nulls=True)
    paths = places["path"].take(at)
    return pc.coalesce(paths, table["path"]) if name == "problems" else paths


def _splice(
    old: pa.Table, new: pa.Table, old_paths: pa.ChunkedArray, new_paths: pa.ChunkedArray, changed: set[str]
) -> pa.Table:
    if len(changed) > _SPLICED:
        keep = pc.invert(pc.is_in(old_paths, value_set=pa.array(sorted(changed), pa.string())))
        table = pa.concat_tables([old.filter(keep), new])
        paths = pa.chunked_array([*old_paths.filter(keep).chunks, *new_paths.chunks], pa.string())
        order = pc.sort_indices(
            pa.table({"path": paths, "row": pa.array(range(len(paths)))}), [("path", "ascending"), ("row", "ascending")]
        )
        return table.take(order)
    pieces, at = [], 0
    for path in sorted(changed):
        start = pc.sum(pc.less(old_paths, path)).as_py() or 0
        stop = pc.sum(pc.less_equal(old_paths, path)).as_py() or 0
        is_of_path = pc.equal(new_paths, path)
        pieces += [
            old.slice(at, start - at),
            new if pc.all(is_of_path, skip_nulls=False).as_py() else new.filter(is_of_path),
        ]
        at = stop
    return pa.concat_tables([*pieces, old.slice(at)])
