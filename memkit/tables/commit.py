"""Atomic saves of snapshots: a reader sees the old or the new snapshot, and a killed writer leaves one of the two.

A snapshot is written into a folder ``.saving-*``, then renamed to ``saved-`` and the hash of its manifest. Then
one small file, the pointer, is replaced by one that names the new folder, and the old snapshot is deleted. A reader
opens all files and then reads the pointer again: if it names another snapshot by now, the reader starts over. One
process writes at a time. The system frees its lock when it dies, so the next process that gets the lock may delete
every snapshot that the pointer does not name.

The manifest of a snapshot names its files with their hashes, and the folder that the corpus was read from. It is
untrusted input. Checked here are names that lead out of the lake, options that `memkit.read` would not accept, and
versions that this memkit does not know.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import duckdb

from memkit.base.checked import LONE_SURROGATE
from memkit.base.duck import is_table_name
from memkit.base.hashes import digest_of_path
from memkit.base.params import zone_of
from memkit.errors import FormatError, MemkitError, refused
from memkit.formats.disk.files import DATABASE, HIDDEN, POINTER, SAVED
from memkit.formats.index_tree.format import PLUGIN_GLOBS
from memkit.formats.reader import DATES, Options
from memkit.formats.registry import NAMES
from memkit.schemas import TABLES
from memkit.tables.fts import TEXT_VERSION
from memkit.tables.untrusted import digests, is_member_name, open_member, read_json, refuse_links

VERSION = 10
"""The lake's version: increased when `memkit.schemas.TABLES` or the making of ids changes. Other versions do not open.
"""
MANIFEST, BUCKETS = "manifest.json", "buckets.json"
STATE, TEXT, TOTALS = "state", "fts", "totals"
"""Folders of a lake: the refresh state, the full-text index, and the collection statistics over all shards (buckets).
"""
_HASH = re.compile(r"[0-9a-f]{32}")
_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "format": lambda name: name is None or isinstance(name, str),
    "as_of": lambda time: time is None or datetime.fromisoformat(time).tzinfo is not None,
    "max_file_bytes": lambda size: type(size) is int and size >= 1,
    "plugin_globs": lambda globs: isinstance(globs, list) and all(isinstance(glob, str) for glob in globs),
    "n_jobs": lambda count: count is None or (type(count) is int and count != 0),
    "formats": lambda names: isinstance(names, list) and all(isinstance(n, str) and n.isidentifier() for n in names),
    "rev": lambda rev: rev is None or isinstance(rev, str),
    "dates": lambda source: source in (None, *DATES),
    "hidden": lambda hidden: hidden in HIDDEN,
    "json": lambda how: how in (None, "rows"),
    "timezone": lambda zone: zone is None or (isinstance(zone, str) and bool(zone_of("refresh", zone))),
}
"""The options of a read that a refresh repeats, each with its check; rules are code and are not saved."""


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest.

    Attributes
    ----------
    files : dict of str to str
        The hash of each file by name, with '/' between its parts.
    root : str or None
        The folder that the corpus was read from; not to be read unless the user trusts the lake.
    options : Options
        The options of that read.
    text_version : int
        The version of the full-text index; 0 where a former memkit did not say it.
    """

    files: dict[str, str]
    root: str | None
    options: Options
    text_version: int = TEXT_VERSION

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return [name.removesuffix(".parquet") for name in self.files if "/" not in name]

    @property
    def own_files(self) -> list[str]:
        """The files that a corpus is opened from, without those that a Retriever or others added."""
        return [name for name in self.files if name.partition("/")[0] in (STATE, TEXT) or "/" not in name]

    def to_json(self) -> str:
        """The JSON that `read_manifest` reads."""
        options = {name: getattr(self.options, name) for name in _OPTIONS}
        source = None if self.root is None else {"root": self.root, "options": options}
        document = {
            "version": VERSION,
            "text_version": self.text_version,
            "files": dict(sorted(self.files.items())),
            "source": source,
        }
        return json.dumps(document, indent=1, default=datetime.isoformat)


def read_manifest(folder: Path) -> Manifest:
    """The manifest in `folder`.

    Raises
    ------
    FormatError
        Where it is missing, or was written by another program or by a memkit of another version.
    """
    path = folder / MANIFEST
    document = read_json(folder, MANIFEST)
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        advice = "read the folder again and save it, or open the lake with the memkit that wrote it"
        raise refused(path, f"a saved corpus of version {VERSION}", f"{version!r:.80}; {advice}")
    try:
        files = document["files"]
        _check_files(files)
        source = document["source"]
        root = None if source is None else _root_of(source["root"])
        options = Options() if source is None else _options_of(source["options"])
        text_version = document.get("text_version", 0)
        if type(text_version) is not int:
            raise ValueError(f"text_version {text_version!r}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise refused(path, "a manifest as memkit writes it", f"{type(error).__name__}: {error!s:.200}") from error
    return Manifest(files, root, options, text_version)


def _check_files(files: dict[str, str]) -> None:
    for name, hash in files.items():
        is_table = name.endswith(".parquet") and is_table_name(name.removesuffix(".parquet"))
        if not is_member_name(name) or not (is_table or "/" in name) or not _HASH.fullmatch(hash):
            raise ValueError(f"file {name!r} with hash {hash!r}")
    missing = [name for name in TABLES if f"{name}.parquet" not in files]
    if missing:
        raise ValueError(f"no table {missing[0]}")


def _root_of(root: str) -> str:
    # Saved as an absolute path; bytes that are no UTF-8 are kept as lone surrogates, which this system must take back.
    if not os.path.isabs(root) or b"\0" in os.fsencode(root):  # noqa: PTH117 - a Path would be no check of the string
        raise ValueError(f"root {root!r}")
    return root


def _options_of(saved: dict[str, Any]) -> Options:
    """The options that `Manifest.to_json` wrote; at most as many processes as this machine has cores."""
    known = (None, *NAMES, *saved.get("formats", ()))
    if not all(_OPTIONS[name](value) for name, value in saved.items()) or saved.get("format") not in known:
        raise ValueError(f"options {saved!r}")
    options: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in saved.items()}
    options["as_of"] = saved.get("as_of") and datetime.fromisoformat(saved["as_of"])
    options["n_jobs"] = saved.get("n_jobs") and min(saved["n_jobs"], os.cpu_count() or 1)
    return Options(**{"plugin_globs": PLUGIN_GLOBS} | options)


_MEMORIES, _BUCKET = "memories.parquet", "bucket-[0-9][0-9][0-9][0-9][0-9]"
_LOCK, _SAVING = ".memkit-lock", ".saving-"
_NAME = re.compile(r"saved-[0-9a-f]{32}")
_PATIENCE = 1.0
"""Seconds that a save waits for another process; enough for one that only cleans up."""
_TRIES = 20
"""Snapshots in a row that may be replaced while one is opened; then somebody saves all the time."""


def check_path(folder: Path) -> Path:
    """`folder` as an absolute path, which no library can mistake for a URL.

    Raises
    ------
    MemkitError
        Where its name is not UTF-8 (DuckDB could not write there), or contains NUL.
    """
    path = folder.absolute()
    if LONE_SURROGATE.search(str(path)) or "\0" in str(path):
        raise MemkitError(f"{folder!r:.200}: expected a folder whose name is UTF-8, without NUL. Choose another.")
    return path


def is_lake(folder: Path) -> bool:
    """Whether `folder` holds a saved corpus, also one of an older memkit: other programs have a manifest.json too."""
    return (folder / POINTER).is_file() or all((folder / name).is_file() for name in (MANIFEST, _MEMORIES))


def is_bucketed(folder: Path) -> bool:
    """Whether `folder` holds shards (buckets).

    Raises
    ------
    FormatError
        Where not all of them were saved.
    """
    if not any(is_lake(path) or _is_begun(path) for path in folder.glob(_BUCKET)):
        return False
    if not (folder / BUCKETS).is_file():
        raise refused(folder, f"buckets and {BUCKETS}", "an incomplete save; save the corpus again")
    return True


def _is_begun(folder: Path) -> bool:
    """Whether a save may have stopped in `folder` before anything was complete: only hidden files lie there."""
    return folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())


@contextmanager
def replacing(folder: Path, patience: float = _PATIENCE, *, lasts: bool = True) -> Iterator[Path]:
    """A folder to write a snapshot into; it replaces the old snapshot when the block ends without an exception.

    What need not last through a power cut is not waited for until it is on the disk.

    Raises
    ------
    MemkitError
        Where another process saves to `folder` for more than `patience` seconds, or `folder` cannot be written.
    FormatError
        Where `folder` holds a symbolic link.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        for snapshot in _saves(folder):
            refuse_links(snapshot, below=True)
        with locked(folder, patience):
            staged = Path(mkdtemp(prefix=_SAVING, dir=folder))
            try:
                yield staged
                _point_to(folder, staged, lasts)
            finally:
                rmtree(staged, ignore_errors=True)
            _clean(folder)
    except (OSError, duckdb.Error) as error:
        raise MemkitError(f"{folder}: cannot save there: {error}. What was saved there before stays.") from error


def _point_to(folder: Path, staged: Path, lasts: bool) -> None:
    """Make the pointer name the snapshot in `staged`, which is moved unless an equal one is already there."""
    sync(staged, lasts)
    database = staged / DATABASE
    if database.exists():
        database = database.rename(folder / f"{_SAVING}{DATABASE}")
    (manifest,) = staged.glob("*.json")  # which names all other files with their hashes
    snapshot = folder / (SAVED + digest_of_path(manifest))
    if not snapshot.is_dir() or digests(snapshot) != digests(staged):
        rmtree(snapshot, ignore_errors=True)
        staged.rename(snapshot)
    pointer = folder / f"{_SAVING}{POINTER}"
    with pointer.open("w", encoding="utf-8") as file:
        pointer.chmod(0o600)
        file.write(json.dumps({"save": snapshot.name}))
        file.flush()
        if lasts:
            os.fsync(file.fileno())
    pointer.replace(folder / POINTER)
    if database.exists():
        database.replace(folder / DATABASE)


def current(folder: Path) -> Path:
    """The folder of the snapshot that the pointer names; `folder` itself for an older lake, which has no pointer.

    Raises
    ------
    FormatError
        Where nothing is saved there, or there is a symbolic link.
    """
    refuse_links(folder)
    if not (folder / POINTER).exists() and (folder / MANIFEST).is_file():
        return folder
    name = read_json(folder, POINTER).get("save")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refused(folder / POINTER, "the name of a save", f"{name!r:.80}")
    refuse_links(folder / name, below=True)
    return folder / name


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Path, Manifest, dict[str, BufferedReader]]]:
    """The snapshot of the lake in `folder`, its manifest and its open files, without ``vectors`` and the like.

    A file that does not exist is left out.

    Raises
    ------
    FormatError
        Where there is no lake, or it holds a symbolic link.
    """
    _clean_if_free(folder)
    for _ in range(_TRIES):
        snapshot = current(folder)
        with ExitStack() as stack:
            try:
                manifest, files = read_manifest(snapshot), {}
                for name in manifest.own_files:
                    with suppress(FormatError):
                        files[name] = stack.enter_context(open_member(snapshot, name))
            except FormatError:
                if current(folder) == snapshot:
                    raise
                continue
            if current(folder) == snapshot:
                yield snapshot, manifest, files
                return
    raise MemkitError(f"{folder}: it was saved again {_TRIES} times while it was being opened. Open it again.")


@contextmanager
def locked(folder: Path, patience: float) -> Iterator[None]:
    """Hold the lock for saving to `folder`; wait for it at most `patience` seconds.

    Raises
    ------
    MemkitError
        Where another process holds it for longer.
    """
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(folder / _LOCK, timeout=patience, mode=0o600, fallback_to_soft=False)
        lock.acquire()
    except Timeout as error:
        raise MemkitError(f"{folder}: another process is saving there. Save again when it is done.") from error
    try:
        yield
    finally:
        lock.release()


def _clean_if_free(folder: Path) -> None:
    """Delete what dead writers left, unless a process is saving now or the folder cannot be written."""
    if len(_saves(folder)) > 1 or any(folder.glob(f"{_SAVING}*")):
        with suppress(MemkitError, OSError), locked(folder, 0):
            _clean(folder)


def _clean(folder: Path) -> None:
    """Delete all snapshots except the one that the pointer names, and the remains of unfinished saves.

    Raises
    ------
    FormatError
        Where the pointer names none, so that the current snapshot is not known.
    """
    snapshot = current(folder)
    for path in (*_saves(folder), *folder.glob(f"{_SAVING}*")):
        if path != snapshot:
            rmtree(path) if path.is_dir() else path.unlink()


def _saves(folder: Path) -> list[Path]:
    return [path for path in folder.glob(f"{SAVED}*") if _NAME.fullmatch(path.name)]


def sync(folder: Path, lasts: bool = True) -> None:
    """Flush the files of `folder` to the disk before they are renamed, so that a power cut keeps the order, if it
    `lasts`.

    They are their user's alone, as the files may be that they were read from.
    """
    for place, folders, names in os.walk(folder):
        for name in folders:
            (Path(place) / name).chmod(0o700)
        for name in names:
            path = Path(place) / name
            path.chmod(0o600)
            if lasts:
                with path.open("rb") as file:
                    os.fsync(file.fileno())
