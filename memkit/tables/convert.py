"""Conversion of labels from the memory ids of an older memkit to today's."""

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
from memkit.schemas import with_column
from memkit.tables.commit import lakes_in
from memkit.tables.lake import columns_of
from memkit.tables.statement import as_table

_COLUMNS = {
    "memories": ("memory_id", "format", "source_id", "path", "line_start", "title", "text"),
    "entries": ("memory_id", "status"),
}
"""The columns that ids are made from."""


def convert_ids(qrels: Any, old_lake: str | Path) -> pa.Table:
    """Convert labels from the memory ids of an older memkit's lake to the ids that this memkit makes.

    The ids are made again from the texts in the lake, so its source folder need not exist and may have changed. Today a
    memory's id comes from its own id or its heading; older versions numbered the sections. If an old memory is now part
    of another one (a heading without text, for example), its labels go to that one, and the highest relevance is kept.
    If it is now several memories (a day's entries below its title, for example), each of them gets its labels.

    Parameters
    ----------
    qrels : pyarrow.Table or pandas.DataFrame
        With a column ``memory_id``; any others are kept, and rows of the same ``query_id`` and memory become one.
    old_lake : str or Path
        The folder that `Corpus.save` of the older memkit wrote.

    Returns
    -------
    pyarrow.Table
        `qrels` with the new ids, in the same order; one row for each new memory.

    Warns
    -----
    RuntimeWarning
        Where some ids are not in the lake; they stay as they are.

    Raises
    ------
    ParameterError
        Where there is no column ``memory_id``.
    FormatError
        Where there is no lake, or one of an unknown version.

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
    old_ids = labels["memory_id"].to_pylist()
    if unknown := sorted({str(id) for id in old_ids if id not in ids}):
        message = (
            f"{old_lake}: {len(unknown)} ids of the labels are not in it and stay as they are: {unknown[0]!r:.200}"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    converted = [(row, new) for row, id in enumerate(old_ids) for new in ids.get(id, [id])]
    labels = labels.take([row for row, _ in converted])
    return _highest(with_column(labels, "memory_id", [new for _, new in converted]))


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
    """The new ids of a file's sections: together they hold all its lines, so the file is parsed again from them."""
    rows = sorted(rows, key=lambda row: row["line_start"])
    text = "\n".join(row["text"] for row in rows)
    parsed = Rows()
    parse_file(File(Source(path, text), Role(forced="workspace")), parsed)
    sections = parsed.table("memories").select(["memory_id", "line_start", "line_end"]).to_pylist()
    ids, index = {}, 0
    for row in rows:
        while sections[index]["line_end"] < row["line_start"] and index + 1 < len(sections):
            index += 1
        last = row["line_start"] + row["text"].count("\n")
        further = takewhile(lambda new, last=last: new["line_start"] <= last, islice(sections, index + 1, None))  # type: ignore[misc]
        ids[row["memory_id"]] = [sections[index]["memory_id"], *(new["memory_id"] for new in further)]
    return ids


def _of_others(format: str, path: str, rows: list[dict[str, Any]], absent: set[str]) -> dict[str, list[str]]:
    """The new ids of records: older versions numbered a second record of one id, and every entry without a file."""
    new_rows, ids = Rows(), {}
    for row in rows:
        id, name = row["memory_id"], row["source_id"]
        if id in absent:
            name = slug_of(row["title"])
        elif name is not None and not id.removeprefix(f"{format}:{path}#").startswith(name.replace("#", "%23")):
            name = None
        ids[id] = [new_rows.new_id(format, path, name, row["text"]) if name else id]
    return ids


def _highest(labels: pa.Table) -> pa.Table:
    """One row for each query and memory, the one with the highest relevance."""
    if not {"query_id", "relevance"} <= set(labels.column_names):
        return labels
    numbered = labels.append_column("row", pa.array(range(labels.num_rows)))
    query = """select * exclude (row) from labels
    qualify row_number() over (partition by query_id, memory_id order by relevance desc, row) = 1 order by row"""
    return rows_of(query, labels=numbered).cast(labels.schema)
