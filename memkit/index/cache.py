"""The cache of vectors, by the encoder's fingerprint, the role and a hash of the text.

A folder has one SQLite file that all processes share. A changed model never gets old vectors, a killed run loses at
most its last batch, and a damaged vector is encoded again. Each call opens the file again, so that threads and forked
processes never share a connection. Writes are transactions, and a writer waits for another. A damaged file is replaced,
with a warning; a file of another user is not touched.

The process has one cache (`vector_cache`), by default in the user's cache folder.
"""

from __future__ import annotations

import functools
import logging
import os
import sqlite3
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from memkit.base.atomic import check_own, own_folder, users_cache
from memkit.base.hashes import digest
from memkit.base.parallel import bar, heard, results
from memkit.base.params import check_choice, check_value, current_names
from memkit.errors import MemkitError, ParameterError
from memkit.index import store
from memkit.index.encoders import base
from memkit.index.encoders.base import CIRCUITS, ROLES, Encoder, Texts, Vectors, as_texts, content_key

FOLDER, FILE = "kept", "vectors.sqlite"
"""The folder is memkit's own and marked so that it is never read as memories."""
_APPLICATION = 0x6D6D6B76  # "mmkv", where SQLite keeps whose file it is
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
_BETWEEN = 0.01  # seconds between two looks whether the others are done
# So those who read do not wait for the one that writes.
_LOG_MODE = "wal"
_OF_KEYS = "select {} from models join vectors on model = models.id where fingerprint = ? and key in ({})"
# SQLite before 3.32 takes at most 999 parameters.
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
            # In one order, as a set has another in each process.
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
                # The low byte is the kind of error; the others say more about it.
                if is_last or getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                    raise MemkitError(f"{self.path}: {error}. Free space, or choose another folder.") from error
                self._replace(inode, error)
            except OSError as error:
                raise MemkitError(
                    f"{self.path}: {error.strerror or error}. Free space, or choose another folder."
                ) from error
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
    # Whoever forgets a text wants no byte of it to stay: what is deleted is overwritten.
    con.execute("pragma secure_delete = on")
    application, version = _identity(con)
    if application == 0 and version == 0:
        # Before the log's mode and the first table, after which SQLite keeps the size that it has.
        con.execute(f"pragma page_size = {_PAGE}")
        with suppress(sqlite3.OperationalError):  # a network home cannot; then there is a rollback journal
            con.execute(f"pragma journal_mode = {_LOG_MODE}")
        con.execute("begin immediate")
        # Another process may have made the tables since the look above.
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
    # A power cut may take the last vectors, which are encoded again; it damages nothing.
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
        # The sum is over the key too, so that a vector in another row's place is none.
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


# Room for 260,000 vectors of `use` (2 kB each) in memory and for two million on disk: round bounds.
MAX_MEMORY = 512 << 20
MAX_DISK = 4 << 30
MANY_QUERIES = 16
"""So many queries are worth the reading of the folder: the model alone takes a second to load."""
_BATCH = 2048  # texts encoded between two writes at most: what an interrupted run can lose
_LONG = 60.0  # seconds of encoding from which a message says how long it takes
_MODELS = "models"


class VectorCache:
    """A cache of vectors: only new texts are encoded.

    Parameters
    ----------
    folder : path, optional
        The folder on disk; None keeps vectors in memory only.
    max_memory, max_disk : int, bytes
        Bounds; in memory the least recently used vectors are dropped first, on disk the oldest.

    Examples
    --------
    >>> from memkit.index.encode import as_encoder
    >>> cache = VectorCache()
    >>> cache.encode(as_encoder("hash"), ["память", "память", "memory"]).shape
    (3, 1024)
    >>> cache.encoded
    2
    """

    def __init__(
        self, folder: Path | str | None = None, *, max_memory: int = MAX_MEMORY, max_disk: int = MAX_DISK
    ) -> None:
        check_value("VectorCache", "max_memory", max_memory, "int", low=0, unit="bytes")
        check_value("VectorCache", "max_disk", max_disk, "int", low=0, unit="bytes")
        self._folder = None if folder is None else Path(folder)
        self.max_memory, self.max_disk = max_memory, max_disk
        self.encoded = 0
        self._memory: OrderedDict[tuple[str, Key], Vectors] = OrderedDict()
        self._bytes = 0
        self._given: list[tuple[str, Texts, Vectors]] = []
        self._lock = Lock()

    @property
    def folder(self) -> Path | None:
        """The folder on disk; None if vectors are in memory only."""
        return self._folder

    @property
    def size(self) -> int:
        """Bytes on disk, with those of a converted model, which `max_disk` does not bound."""
        shelf = self._shelf
        return (shelf.size if shelf else 0) + sum(path.stat().st_size for path in self._model_files())

    @property
    def _shelf(self) -> Shelf | None:
        folder = self.folder
        return None if folder is None else Shelf(folder, self.max_disk)

    def clear(self) -> None:
        """Delete every vector, in memory and on disk.

        Examples
        --------
        >>> cache = VectorCache()
        >>> cache.clear()
        >>> cache.size
        0
        """
        with self._lock:
            self._memory.clear()
            self._given.clear()
            self._bytes = 0
        if shelf := self._shelf:
            shelf.clear()
        for path in self._model_files():
            path.unlink(missing_ok=True)

    def forget(self, texts: Iterable[str]) -> None:
        """Delete the vectors of these texts, of every encoder and both roles, in memory and on disk.

        Examples
        --------
        >>> VectorCache().forget(["память"])
        """
        gone = {content_key(text, role) for text in texts for role in ROLES}
        with self._lock:
            self._given.clear()
            for known in [known for known in self._memory if known[1] in gone]:
                self._bytes -= self._memory.pop(known).nbytes
        if shelf := self._shelf:
            shelf.forget(gone)

    def _model_files(self) -> list[Path]:
        folder = self.folder
        return [] if folder is None else [*folder.glob(f"{_MODELS}/*/*.*")]

    def __repr__(self) -> str:
        folder = self.folder
        if folder is None:
            return "<VectorCache in memory>"
        return f"<VectorCache {folder}, {self.size / 2**20:.1f} of at most {self.max_disk >> 20} MiB>"

    def encode(self, encoder: Encoder, texts: Texts, role: str = "document", *, keep: bool | None = None) -> Vectors:
        """The vectors of `texts`, from the cache or encoded.

        Parameters
        ----------
        encoder : Encoder
            One that is refitted to each corpus is not cached, as its vectors depend on the corpus.
        role : {"document", "query"}
        keep : bool, optional
            Whether to use the folder; None: for documents, and for `MANY_QUERIES` or more, as of labels, which are
            asked again. A query alone is short, so that reading the folder would cost more than encoding.

        Returns
        -------
        ndarray of float32, shape (n_texts, dim)
        """
        check_choice("role", role, ROLES, "VectorCache.encode")
        listed = as_texts(texts)
        ask = functools.partial(_encode, encoder, role)
        if not listed or getattr(encoder, "refitted", False):
            return ask(listed)
        fingerprint = encoder.fingerprint
        keep = role == "document" or len(listed) >= MANY_QUERIES if keep is None else keep
        lasts = keep and getattr(encoder, "lasting", True)
        shelf = self._shelf if lasts else None
        keys = [content_key(text, role) for text in listed]
        missing = {key: text for key, text in zip(keys, listed, strict=True) if (fingerprint, key) not in self._memory}
        # What is found is held here: filling the memory may push other vectors of this very call out of it.
        known = {} if shelf is None else shelf.get(fingerprint, list(missing))
        todo = [key for key in missing if key not in known]
        todo = self._absent(fingerprint, todo) if role == "document" else todo
        if todo and role == "document" and (announce := getattr(encoder, "announce", None)):
            announce(len(todo))
        batches = _batches(todo, encoder)
        encoded = results(_encode, ((encoder, role, [missing[key] for key in batch]) for batch in batches))
        for batch, vectors in zip(batches, _with_progress(encoded, batches, encoder), strict=True):
            self.encoded += len(batch)
            # Copies: a view of one row would hold the memory of the whole batch.
            known.update(zip(batch, map(np.copy, vectors), strict=True))
            if shelf is not None:
                self._keep(shelf, fingerprint, batch, vectors)
        return self._collect(fingerprint, keys, known, ask, listed)

    def new(self, encoder: Encoder, keys: Iterable[Key]) -> int:
        """How many documents `encode` would have to encode, by the hashes of their texts; none that it does not keep.

        Examples
        --------
        >>> from memkit.index.encode import as_encoder
        >>> cache, encoder = VectorCache(), as_encoder("hash")
        >>> _ = cache.encode(encoder, ["чай"])
        >>> cache.new(encoder, [content_key(text, "document") for text in ("чай", "кофе", "кофе")])
        1
        """
        if getattr(encoder, "refitted", False):
            return 0
        fingerprint = encoder.fingerprint
        missing = {key for key in keys if (fingerprint, key) not in self._memory}
        shelf = self._shelf if getattr(encoder, "lasting", True) else None
        return len(self._absent(fingerprint, missing - shelf.known(fingerprint, list(missing)) if shelf else missing))

    def put(self, encoder: Encoder, texts: Texts, vectors: Vectors) -> None:
        """Add vectors of documents, those of `texts` row by row, that `encoder` made elsewhere.

        They are told from one another where one is looked for that is nowhere else: hashing 41,000 texts takes .5 s.
        Until then they are held once, however often they are given, and the oldest go where they are too large.
        """
        if not getattr(encoder, "refitted", False):
            with self._lock:
                others = (given for given in self._given if not np.array_equal(given[2], vectors))
                self._given = [*others, (encoder.fingerprint, texts, vectors)]
                while sum(rows.nbytes for *_, rows in self._given) > self.max_memory:
                    self._given.pop(0)

    def _absent(self, fingerprint: str, keys: Iterable[Key]) -> list[Key]:
        """Those of some documents, which are not remembered, that nobody gave either."""
        absent = list(keys)
        with self._lock:
            given, self._given = (self._given, []) if absent else ([], self._given)
            for of_texts, texts, vectors in given:
                for text, vector in zip(as_texts(texts), vectors, strict=True):
                    self._remember(of_texts, content_key(text, "document"), np.copy(vector))
        return [key for key in absent if (fingerprint, key) not in self._memory] if given else absent

    def __getstate__(self) -> dict[str, Any]:
        # What is in memory stays in its process, as does the lock.
        return {"folder": self.folder, "max_memory": self.max_memory, "max_disk": self.max_disk}

    def __setstate__(self, state: dict[str, Any]) -> None:
        VectorCache.__init__(self, **state)

    def _collect(
        self, fingerprint: str, keys: list[Key], known: dict[Key, Vectors], ask: Any, texts: list[str]
    ) -> Vectors:
        with self._lock:
            rows = [known[key] if key in known else self._memory.get((fingerprint, key)) for key in keys]
            for key in keys:
                if (fingerprint, key) in self._memory:
                    self._memory.move_to_end((fingerprint, key))
            for key, vector in known.items():
                self._remember(fingerprint, key, vector)
        gone = [i for i, row in enumerate(rows) if row is None]  # dropped by another thread meanwhile
        if gone:
            for i, vector in zip(gone, ask([texts[i] for i in gone]), strict=True):
                rows[i] = vector
        return np.stack(rows).astype(np.float32, copy=False)  # type: ignore[arg-type]  # no None is left

    def _remember(self, fingerprint: str, key: Key, vector: Vectors) -> None:
        if (fingerprint, key) not in self._memory:
            self._memory[fingerprint, key] = vector
            self._bytes += vector.nbytes
        while self._bytes > self.max_memory and self._memory:
            self._bytes -= self._memory.popitem(last=False)[1].nbytes

    def _keep(self, shelf: Shelf, fingerprint: str, keys: Sequence[Key], vectors: Vectors) -> None:
        shelf.put(fingerprint, keys, vectors)


def _batches(todo: list[Key], encoder: Encoder) -> list[list[Key]]:
    """Split `todo` into batches, the same for any number of processes, so that the encoder's batches are equal too."""
    # A worker gets enough batches for starting it to pay.
    step = min(_BATCH, base.SHORT_WORK * getattr(encoder, "batch_size", _BATCH))
    return [todo[start : start + step] for start in range(0, len(todo), step)]


def _encode(encoder: Encoder, role: str, texts: list[str]) -> Vectors:
    """What the encoder's function for `role` makes of texts, its rows checked to be finite and of length 1 or 0."""
    function = encoder.encode_query if role == "query" else encoder.encode_document
    with CIRCUITS.guard(str(encoder.fingerprint)):
        rows = np.asarray(function(texts))
    block = base.check_block(rows, range(len(texts)), str(encoder.fingerprint))
    # Rows that have length 1 stay as they are: to scale them once more moves their last digits.
    return np.ascontiguousarray(block, dtype=np.float32) if base.is_unit(block) else base.unit_rows(block)


def _with_progress(encoded: Iterator[Vectors], batches: list[list[Key]], encoder: Encoder) -> Iterator[Vectors]:
    """`encoded`, with a progress bar for long work and a message for very long work."""
    begun, total = time.monotonic(), sum(map(len, batches))
    silent = not getattr(encoder, "show_progress", True)
    is_short = total <= getattr(encoder, "batch_size", 1)
    heard_of = 0

    def hear(what: str, done: int, of_step: int | None) -> None:
        nonlocal heard_of
        if done > heard_of:
            progress.update(done - heard_of)
        heard_of = done

    with bar(f"encoding ({encoder.fingerprint})", silent=silent or is_short, total=total, unit="text") as progress:
        for number in range(len(batches)):
            # A step is long: an encoder of memkit tells of each of the batches within it.
            heard_of = 0
            with heard(hear):
                vectors = next(encoded)
            hear("encoded", len(vectors), None)
            yield vectors
            if number == 0 and not silent:
                _warn_if_long(total, total - len(vectors), (time.monotonic() - begun) / len(vectors))


def _warn_if_long(texts: int, n_left: int, seconds_each: float) -> None:
    if n_left * seconds_each > _LONG:
        folder = shared_cache().folder
        later = f"What is done is kept in {folder}." if folder else "mk.vector_cache(folder) would keep them for later."
        minutes = max(1, round(n_left * seconds_each / 60))
        _LOG.warning("memkit: encoding %s texts takes some %d minutes here. %s", f"{texts:,}", minutes, later)


class _UsersCache(VectorCache):
    """The process's own cache, in the user's cache folder unless the environment or a call sets another."""

    moved = False
    failed: str | None = None  # why vectors could not be kept, the first time

    @property
    def folder(self) -> Path | None:
        """The folder ``vectors`` in ``$MEMKIT_CACHE``, else in ``memkit`` in the user's cache folder; None if off.

        It is also None if another user could write there; a message says so once.
        """
        cache = users_cache()
        folder = self._folder if self.moved else cache and cache / "vectors"
        try:
            for place in () if folder is None else (folder,) if self.moved else (folder.parent, folder):
                check_own(place)
        except (MemkitError, OSError) as error:
            self._warn_once(error)
            return None
        return folder

    def move(self, folder: Path | str | None) -> None:
        """Keep vectors in `folder` from now on; None: in memory only."""
        self._folder, self.moved = None if folder is None else Path(folder), True

    def _keep(self, shelf: Shelf, fingerprint: str, keys: Sequence[Key], vectors: Vectors) -> None:
        try:
            super()._keep(shelf, fingerprint, keys, vectors)
        except MemkitError as error:
            self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        if self.failed is None:
            self.failed = str(error)
            _LOG.warning("memkit: vectors are kept in memory alone: %s", error)


@functools.cache
def shared_cache() -> _UsersCache:
    """The process's own cache, which all estimators share."""
    return _UsersCache()


def kept_model(name: str, *state: object) -> Path | None:
    """The folder where an encoder keeps a converted model for processes to come, by the state of its files."""
    vectors = shared_cache().folder
    return None if vectors is None else vectors / _MODELS / f"{name}-{digest(repr(state), 8)}"


@current_names
def vector_cache(path: Path | str | None = None, *, off: bool = False) -> VectorCache:
    """The cache of vectors that Retriever, Deduplicator and ContextBuilder share; sets its folder if one is passed.

    The key is the encoder's fingerprint and a hash of the text, so a changed text or model never gets an old vector.
    The folder contains no texts, only its owner can read it, and it never grows beyond `VectorCache.max_disk`.

    Parameters
    ----------
    path : path, optional
        Keep vectors there from now on. The default is ``$MEMKIT_CACHE`` ("off" for none), else ``memkit`` in the user's
        cache folder.
    off : bool
        Keep vectors in this process's memory only from now on.

    Returns
    -------
    VectorCache
        Has ``folder``, ``size`` (bytes) and ``clear()``.

    Examples
    --------
    >>> import memkit as mk
    >>> mk.vector_cache().max_disk >> 30
    4
    """
    cache = shared_cache()
    if off and path is not None:
        raise ParameterError(f"vector_cache: expected a folder or off=True. Got both, {str(path)!r}.")
    if off or path is not None:
        cache.move(path)
    return cache
