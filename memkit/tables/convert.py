"""Labels that name memories as an older memkit did, brought to the ids of this one."""

from __future__ import annotations

import warnings
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from memkit.duck import rows_of
from memkit.formats.disk.source import Source
from memkit.formats.format import File, Role
from memkit.formats.registry import parse_file
from memkit.formats.rows import Rows, slug_of
from memkit.params import check_column, path_of
from memkit.tables.commit import lakes_in
from memkit.tables.lake import columns_of
from memkit.tables.statement import as_table

_COLUMNS = {
    "memories": ("memory_id", "format", "source_id", "path", "line_start", "title", "text"),
    "entries": ("memory_id", "status"),
}
"""What ids are made of."""


def convert_ids(qrels: Any, old_lake: str | Path) -> pa.Table:
    """Labels with the ids that this memkit gives to the memories of an older one's lake.

    The lake's own texts are read anew, so the folder that it came from need not be there, and may have changed. A
    memory is now named by its own id or its heading, where sections were once numbered. What has become part of
    another memory, as a heading without text has, is that one; of labels that meet so the highest stays. What has
    become several, as a day's entries below its title have, is each of them.

    Parameters
    ----------
    qrels : pyarrow.Table or pandas.DataFrame
        With a column ``memory_id``; any others are kept, and rows of the same ``query_id`` and memory become one.
    old_lake : str or Path
        The folder that `Corpus.save` of the older memkit wrote.

    Returns
    -------
    pyarrow.Table
        `qrels` with other ids, in the order in which they came; of what has become several a row each.

    Warns
    -----
    RuntimeWarning
        Where the lake does not know some of the ids, which stay as they are.

    Raises
    ------
    ParameterError
        Where there is no column ``memory_id``.
    FormatError
        Where there is no lake, or one that this memkit knows nothing of.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mk.from_table({"memory_id": ["m1"], "text": ["чай"]}).save(folder)
    ...     mk.convert_ids(pa.table({"query_id": ["q1"], "memory_id": ["m1"]}), folder)["memory_id"].to_pylist()
    ['m1']
    """
    labels = as_table(qrels)
    check_column("memory_id", labels.column_names, "convert_ids")
    ids = _new_ids(path_of("convert_ids", old_lake).absolute())
    given = labels["memory_id"].to_pylist()
    if unknown := sorted({str(id) for id in given if id not in ids}):
        message = (
            f"{old_lake}: {len(unknown)} ids of the labels are not in it and stay as they are: {unknown[0]!r:.200}"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    now = [(row, new) for row, id in enumerate(given) for new in ids.get(id, [id])]
    labels = labels.take([row for row, _ in now])
    column = pa.array([new for _, new in now], pa.string())
    return _highest(labels.set_column(labels.column_names.index("memory_id"), "memory_id", column))


def _new_ids(lake: Path) -> dict[str, list[str]]:
    files: dict[tuple[str, str], list[dict[str, Any]]] = {}
    parts = [columns_of(place, _COLUMNS) for place in lakes_in(lake)]
    for row in (row for part in parts for row in part["memories"].to_pylist()):
        files.setdefault((row["format"], row["path"]), []).append(row)
    entries = (entry for part in parts for entry in part["entries"].to_pylist())
    absent = {entry["memory_id"] for entry in entries if entry["status"] != "valid"}
    ids: dict[str, list[str]] = {}
    for (format, path), rows in files.items():
        ids |= _of_sections(path, rows) if format == "workspace" else _of_others(format, path, rows, absent)
    return ids


def _of_sections(path: str, rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Sections are all lines of their file, so it can be read again from them."""
    rows = sorted(rows, key=lambda row: row["line_start"])
    text = "\n".join(row["text"] for row in rows)
    read = Rows()
    parse_file(File(Source(path, text), Role(forced="workspace")), read)
    found = read.table("memories").select(["memory_id", "line_start", "line_end"]).to_pylist()
    ids, at = {}, 0
    for row in rows:
        while found[at]["line_end"] < row["line_start"] and at + 1 < len(found):
            at += 1
        last = row["line_start"] + row["text"].count("\n")
        own = takewhile(lambda new, last=last: new["line_start"] <= last, islice(found, at + 1, None))  # type: ignore[misc]
        ids[row["memory_id"]] = [found[at]["memory_id"], *(new["memory_id"] for new in own)]
    return ids


def _of_others(format: str, path: str, rows: list[dict[str, Any]], absent: set[str]) -> dict[str, list[str]]:
    """Of two records with one id the second was numbered, and so was every entry without a file."""
    made, ids = Rows(), {}
    for row in rows:
        id, own = row["memory_id"], row["source_id"]
        if id in absent:
            own = slug_of(row["title"])
        elif own is not None and not id.removeprefix(f"{format}:{path}#").startswith(own.replace("#", "%23")):
            own = None
        ids[id] = [made.new_id(format, path, own, row["text"]) if own else id]
    return ids


def _highest(labels: pa.Table) -> pa.Table:
    """One row for each query and memory, the one with the highest relevance."""
    if not {"query_id", "relevance"} <= set(labels.column_names):
        return labels
    numbered = labels.append_column("row", pa.array(range(labels.num_rows)))
    query = """select * exclude (row) from labels
    qualify row_number() over (partition by query_id, memory_id order by relevance desc, row) = 1 order by row"""
    return rows_of(query, labels=numbered).cast(labels.schema)
