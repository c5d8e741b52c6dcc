"""Vectors in one SQLite file that many processes share, by the encoder's fingerprint and the hash of a text.

Each call opens the file again, so that threads and forked processes never share a connection. Writes are transactions,
and a writer waits for another. A damaged file is replaced, with a warning; a file of another user is not touched.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from memkit.base.atomic import check_own, own_folder
from memkit.errors import MemkitError
from memkit.index import store
from memkit.index.encoders.base import Vectors

FOLDER, FILE = "kept", "vectors.sqlite"
"""The folder is memkit's own and marked so that it is never read as memories."""
_APPLICATION = 0x6D6D6B76
_VERSION = 1
_SCHEMA = """
create table models (id integer primary key, fingerprint text not null unique, dim integer not null);
create table vectors (
    id integer primary key, model integer not null, key blob not null, vector blob not null, check_sum integer not null
);
create unique index by_key on vectors (key, model);
"""
_PAGE = 16384  # small pages would be half empty with vectors of 2 kB
_PATIENCE = 20.0  # seconds that one process waits for another
_BETWEEN = 0.01
_LOG_MODE = "wal"
_OF_KEYS = "select {} from models join vectors on model = models.id where fingerprint = ? and key in ({})"
_AT_ONCE = 500
_MARGIN = 50  # beyond its bound the file loses a 50th, so that not every batch has to make room
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOG = logging.getLogger("memkit")

Key = bytes
_Result = TypeVar("_Result")


class Shelf:
    """The SQLite file below `folder`; each vector has a check sum, and a vector that does not match it is ignored.

    Parameters
    ----------
    folder : Path
    max_bytes : int
        Beyond it the oldest vectors are deleted.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shelf = Shelf(Path(folder), 1 << 20)
    ...     shelf.put("model", [b"key"], np.ones((1, 3), np.float32))
    ...     shelf.get("model", [b"key", b"other"])
    {b'key': array([1., 1., 1.], dtype=float32)}
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.path, self.max_bytes = folder / FOLDER / FILE, max_bytes

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.path.parent.glob(f"{FILE}*"))

    def get(self, fingerprint: str, keys: Sequence[Key]) -> dict[Key, Vectors]:
        """The vectors of those of `keys` that are there; none if the file cannot be read."""
        if not keys or not self.path.exists():
            return {}
        with suppress(MemkitError):
            return self._run(lambda con: _get(con, fingerprint, keys))
        return {}

    def known(self, fingerprint: str, keys: Sequence[Key]) -> set[Key]:
        """Those of `keys` that are there, without reading their vectors; none if the file cannot be read."""
        if not keys or not self.path.exists():
            return set()
        with suppress(MemkitError):
            return self._run(lambda con: {row[0] for row in _rows(con, fingerprint, keys, "key")})
        return set()

    def put(self, fingerprint: str, keys: Sequence[Key], vectors: Vectors) -> None:
        """Add vectors, and replace those of known keys.

        Raises
        ------
        MemkitError
            If the file cannot be written, or is not the user's own.
        """
        self._run(lambda con: _put(con, fingerprint, keys, vectors, self.max_bytes))

    def forget(self, keys: Iterable[Key]) -> None:
        """Delete the vectors of these keys, of all encoders, and overwrite their bytes. Errors as for `put`."""
        if self.path.exists():
            self._run(lambda con: _forget(con, sorted(keys)))

    def clear(self) -> None:
        """Delete all vectors. Errors as for `put`."""
        if self.path.exists():
            self._run(_clear)

    def _run(self, act: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Run `act` on the file; on a new one if it turns out to be damaged."""
        for is_last in (False, True):
            inode = self._inode()
            try:
                with self._opened() as con:
                    return act(con)
            except sqlite3.Error as error:
                if is_last or getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                    raise MemkitError(f"{self.path}: {error}. Free space, or choose another folder.") from error
                self._replace(inode, error)
            except OSError as error:
                raise MemkitError(f"{self.path}: {error}. Free space, or choose another folder.") from error
        raise AssertionError  # the second time returns or raises

    def _inode(self) -> int | None:
        return self.path.stat().st_ino if self.path.exists() else None

    def _replace(self, inode: int | None, error: sqlite3.Error) -> None:
        _LOG.warning("memkit: %s is damaged (%s) and begun anew; its vectors are encoded again.", self.path, error)
        if self._inode() == inode:  # else another process replaced it meanwhile
            for path in self.path.parent.glob(f"{FILE}*"):
                path.unlink(missing_ok=True)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self._make()
        con = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        try:
            _prepare(con, self.path)
            yield con
        finally:
            con.close()

    def _make(self) -> None:
        """Create the file if there is none, readable by the user alone, as its folder is."""
        own_folder(self.path.parents[1])
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        check_own(self.path.parent, is_ours=True)
        store.unread(self.path.parent)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        check_own(self.path, is_ours=True)


def _prepare(con: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file; raise if it is another program's, or of a newer memkit."""
    con.execute("pragma secure_delete = on")
    application, version = _identity(con)
    if application == 0 and version == 0:
        con.execute(f"pragma page_size = {_PAGE}")
        with suppress(sqlite3.OperationalError):  # a network home cannot; then there is a rollback journal
            con.execute(f"pragma journal_mode = {_LOG_MODE}")
        con.execute("begin immediate")
        if con.execute("select count(*) from sqlite_master").fetchone() == (0,):
            for statement in _SCHEMA.split(";"):
                con.execute(statement)
            con.execute(f"pragma application_id = {_APPLICATION}")
            con.execute(f"pragma user_version = {_VERSION}")
        con.execute("commit")
        application, version = _identity(con)
    if (application, version) != (_APPLICATION, _VERSION):
        whose = "a newer memkit" if application == _APPLICATION else "another program"
        raise MemkitError(
            f"{path}: expected memkit's vectors of version {_VERSION}. Got a file of {whose}. Move it away."
        )
    con.execute("pragma synchronous = normal")


def _identity(con: sqlite3.Connection) -> tuple[int, int]:
    (application,), (version,) = (
        con.execute(f"pragma {name}").fetchone() for name in ("application_id", "user_version")
    )
    return application, version


def _get(con: sqlite3.Connection, fingerprint: str, keys: Sequence[Key]) -> dict[Key, Vectors]:
    return {
        key: np.frombuffer(vector, np.float32)
        for key, vector, check_sum, dim in _rows(con, fingerprint, keys, "key, vector, check_sum, dim")
        if len(vector) == 4 * dim and zlib.crc32(vector, zlib.crc32(key)) == check_sum
    }


def _rows(con: sqlite3.Connection, fingerprint: str, keys: Sequence[Key], columns: str) -> Iterator[tuple[Any, ...]]:
    """These columns of the vectors of `keys`."""
    parts = (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))
    return chain.from_iterable(
        con.execute(_OF_KEYS.format(columns, ",".join("?" * len(part))), (fingerprint, *part)) for part in parts
    )


def _put(con: sqlite3.Connection, fingerprint: str, keys: Sequence[Key], vectors: Vectors, max_bytes: int) -> None:
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    with _written(con):
        con.execute("insert or ignore into models (fingerprint, dim) values (?, ?)", [fingerprint, rows.shape[1]])
        (model,) = con.execute("select id from models where fingerprint = ?", [fingerprint]).fetchone()
        blobs = [row.tobytes() for row in rows]
        con.executemany(
            "insert into vectors (model, key, vector, check_sum) values (?, ?, ?, ?) on conflict (key, model)"
            " do update set vector = excluded.vector, check_sum = excluded.check_sum",
            [(model, key, blob, zlib.crc32(blob, zlib.crc32(key))) for key, blob in zip(keys, blobs, strict=True)],
        )
        _bound(con, max_bytes)


def _bound(con: sqlite3.Connection, max_bytes: int) -> None:
    """Delete the oldest vectors if the file is too large."""
    pages, free, size = (
        con.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    used = (pages - free) * size
    if used <= max_bytes:
        return
    (count,) = con.execute("select count(*) from vectors").fetchone()
    gone = min(count, 1 + int(count * (1 - (max_bytes - max_bytes // _MARGIN) / used)))
    con.execute("delete from vectors where id in (select id from vectors order by id limit ?)", [gone])


def _forget(con: sqlite3.Connection, keys: Sequence[Key]) -> None:
    with _written(con):
        con.executemany("delete from vectors where key = ?", [(key,) for key in keys])
    con.execute("vacuum")  # pages that were split before hold copies of keys, which deleting does not reach
    _leave_nothing(con)


def _clear(con: sqlite3.Connection) -> None:
    con.execute("pragma secure_delete = off")  # the pages go
    with _written(con):
        con.execute("delete from vectors")
        con.execute("delete from models")
    con.execute("vacuum")
    _leave_nothing(con)


def _leave_nothing(con: sqlite3.Connection) -> None:
    """Truncate the write-ahead log, so that it keeps no deleted data.

    SQLite waits for readers by itself, but not for another process that truncates the log, or closes it, just now.

    Raises
    ------
    MemkitError
        If another process is reading all the while.
    """
    last = time.monotonic() + _PATIENCE
    while con.execute("pragma wal_checkpoint(truncate)").fetchone()[0]:
        if time.monotonic() > last:
            raise MemkitError("another process still reads the deleted vectors. Do the same once more.")
        time.sleep(_BETWEEN)


@contextmanager
def _written(con: sqlite3.Connection) -> Iterator[None]:
    con.execute("begin immediate")
    try:
        yield
        con.execute("commit")
    except BaseException:
        with suppress(sqlite3.Error):
            con.execute("rollback")
        raise
