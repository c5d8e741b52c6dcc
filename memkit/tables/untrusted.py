"""Reading of untrusted files: only regular files inside of their folder are opened, and they are read as data.

A lake or a saved Retriever may come from an unknown source. No link is followed, no name leads out of the folder, no
code in a file is run, and the content is checked before it is used. Every fault is a `FormatError`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.checked import json_object
from memkit.base.hashes import digest_of_path
from memkit.errors import FormatError, refused
from memkit.schemas import ends_of
from memkit.tables.statement import within_calendar

MAX_JSON_BYTES = 64 * 2**20
FREE_BYTES, GROWTH = 2**30, 100
"""The limit of what a Parquet file may unpack to: so many bytes, and so many times its own size."""
_BATCH_ROWS, _NUMBERS = 2**13, 2**20
"""Rows that are read at once, and rows of numbers alone, whose size is known: small batches take twice as long."""
# No hidden name, no way up, no drive, no stream: the same on every system.
_PART = re.compile(r"[^./\\:\x00-\x1f][^/\\:\x00-\x1f]{0,250}")
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"))


def is_member_name(name: object) -> bool:
    """Whether `name`, with '/' between its parts, can only name a file inside of a folder.

    >>> [is_member_name(name) for name in ("a.parquet", "state/a.parquet", "../a", "/a", "a//b", "c:a", ".a", 5)]
    [True, True, False, False, False, False, False, False]
    """
    return isinstance(name, str) and all(_PART.fullmatch(part) for part in name.split("/"))


def refuse_links(folder: Path, below: bool = False) -> None:
    """Raise where an entry of `folder`, or anything `below` it, is a link.

    Raises
    ------
    FormatError
    """
    left = [folder]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in sorted(entries, key=attrgetter("name")):
                if entry.is_symlink():
                    raise _link(Path(entry))
                if below and entry.is_dir():
                    left.append(Path(entry))


def open_member(folder: Path, name: str) -> BufferedReader:
    """The file `name` of `folder`, to be read.

    Raises
    ------
    FormatError
        Where the name leads out of the folder, a link is on the way, or there is no regular file.
    """
    if not is_member_name(name):
        raise refused(folder, "names of files in it", repr(name)[:200])
    path = folder
    for part in name.split("/"):
        path = path / part
        if path.is_symlink():
            raise _link(path)
    try:
        descriptor = os.open(path, _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError("a folder, pipe or device")
    except (OSError, ValueError) as error:
        raise refused(path, "a file that can be read", str(error)) from error
    return open(descriptor, "rb")  # noqa: PTH123 - a Path opens no descriptor


def digests(folder: Path) -> dict[str, str]:
    """The hashes of all files below `folder` by name, without hidden files such as locks."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            hashes[path.relative_to(folder).as_posix()] = digest_of_path(path)
    return hashes


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file of `folder`.

    Raises
    ------
    FormatError
        Where the file is missing.
    """
    with open_member(folder, name) as file:
        data = file.read(MAX_JSON_BYTES + 1)
    try:
        if len(data) > MAX_JSON_BYTES:
            raise ValueError(f"more than {MAX_JSON_BYTES} bytes")
        return json_object(data.decode("utf-8"))
    except ValueError as error:
        raise refused(folder / name, "a JSON object", f"{type(error).__name__}: {error}") from error


def read_parquet(file: BufferedReader, where: Path, schema: pa.Schema | None = None, trust: bool = False) -> pa.Table:
    """The table in a Parquet file, validated.

    Parameters
    ----------
    where : Path
        The path that messages name.
    schema : pa.Schema, optional
        The expected columns in this order; without it, any columns with different names are accepted.
    trust : bool
        Whether the file may unpack to any size.

    Raises
    ------
    FormatError
        Where it is no Parquet file, is damaged, unpacks to more than `FREE_BYTES` and `GROWTH` allow, or has other
        columns.
    """
    with _unpacking(where):
        source = parquet().ParquetFile(file)
        parts = [source.read(use_threads=False)] if trust else map(pa.Table.from_batches, _batches(source, file, where))
        table = pa.concat_tables([source.schema_arrow.empty_table(), *parts])
        table.validate(full=True)  # lengths, offsets, UTF-8
    if len(set(table.column_names)) != table.num_columns:
        raise refused(where, "columns with different names", f"{table.column_names!r:.200}")
    return table if schema is None else declared(table, schema, where)


def numbers(file: BufferedReader, where: Path, schema: pa.Schema) -> Iterator[list[np.ndarray]]:
    """The columns of a Parquet file of numbers, some rows at a time, so that memory need not hold all of them twice.

    Raises
    ------
    FormatError
        As `read_parquet` does.
    """
    with _unpacking(where):
        for batch in _batches(parquet().ParquetFile(file), file, where):
            table = declared(pa.Table.from_batches(batch), schema, where)
            yield [column.to_numpy() for column in table.columns]


def declared(table: pa.Table, schema: pa.Schema, where: Path) -> pa.Table:
    """`table` with exactly the columns of `schema`, its own metadata kept.

    Raises
    ------
    FormatError
        Where a column is missing, unknown, of another type, null where it must not be, or holds dates outside of the
        years 1 to 9999.
    """
    if table.column_names != schema.names:
        raise refused(where, f"the columns {', '.join(schema.names)}", f"{', '.join(table.column_names):.300}")
    for field, column in zip(schema, table.columns, strict=True):
        if not _same_type(column.type, field.type):
            raise refused(where, f"column '{field.name}' of type {field.type}", str(column.type)[:100])
        if not field.nullable and column.null_count:
            raise refused(where, f"column '{field.name}' without nulls", f"{column.null_count} nulls")
        if pa.types.is_timestamp(field.type) and within_calendar(column).null_count > column.null_count:
            raise refused(where, f"column '{field.name}' with dates of the years 1 to 9999", "others")
    columns = [ends_of(table[field.name].cast(field.type), field) for field in schema]
    return pa.table(columns, schema=schema).replace_schema_metadata(table.schema.metadata)


def with_nulls(table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, list[str]]:
    """`table` with null columns for those of `schema` that it lacks, in the schema's order; and their names."""
    missing = [field for field in schema if field.name not in table.column_names]
    for field in missing:
        table = table.append_column(field.name, pa.nulls(table.num_rows, field.type))
    known = [name for name in schema.names if name in table.column_names]
    unknown = [name for name in table.column_names if name not in known]
    return table.select(known + unknown), [field.name for field in missing]


def check_unique(table: pa.Table, column: str, where: Path) -> None:
    """Raise where a value of `column` occurs twice.

    Raises
    ------
    FormatError
    """
    if pc.count_distinct(table[column]).as_py() != table.num_rows:
        raise refused(where, f"each {column} once", "one that occurs twice")


def _link(path: Path) -> FormatError:
    return refused(path, "a file or folder", "a link; put what it points to in its place, or remove it")


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    # Parquet has its own name for the items of a list.
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _same_type(one.value_type, other.value_type)
    return bool(one == other)


def parquet() -> Any:
    """Arrow's module for Parquet: to import it takes longer than to read a small folder, which needs none of it."""
    import pyarrow.parquet

    return pyarrow.parquet


@contextmanager
def _unpacking(where: Path) -> Iterator[None]:
    """Refuse what is no Parquet file in one way."""
    try:
        yield
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, RuntimeError, MemoryError) as error:
        raise refused(where, "a Parquet file", str(error)[:300]) from error


def _batches(source: Any, file: BufferedReader, where: Path) -> Iterator[list[pa.RecordBatch]]:
    """All rows of a file, as long as they take no more than its size allows.

    What the file says of its parts is not looked at: pyarrow ends the process where that is damaged. So no more can be
    said of the first rows than that they are few.
    """
    size, held = os.fstat(file.fileno()).st_size, 0
    most = FREE_BYTES + GROWTH * size
    # A run of equal values takes no room in the file, but eight bytes each once it is read.
    least = 8 * source.metadata.num_rows * source.metadata.num_columns
    is_narrow = all(pa.types.is_primitive(field.type) for field in source.schema_arrow)
    n_rows = _NUMBERS if is_narrow else _BATCH_ROWS
    for batch in source.iter_batches(n_rows, use_threads=False) if least <= most else ():
        held += batch.nbytes
        if held > most:
            break
        yield [batch]
    if max(held, least) > most:
        expected = f"at most {FREE_BYTES} bytes and {GROWTH} times its {size}"
        raise refused(where, expected, f"{max(held, least)}; open it with trust=True if it is your own")
