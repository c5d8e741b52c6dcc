"""Folders that were read, kept as lakes in the user's cache, so that the next command reads what changed alone.

A kept folder is a lake with its arms and, beside it, what its reading saw (`SEEN`). It is believed if only the user
may write there and if this memkit made it; then the folder is listed, and each file compared by size, mtime, ctime and
inode, or by the hash of its content where these may not tell. Whatever is wrong with a kept folder, it is made anew.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base import atomic
from memkit.base.atomic import check_own, own_folder, users_cache
from memkit.base.hashes import digest
from memkit.errors import MemkitError
from memkit.formats.disk.files import IGNORE_FILE, Listing, Stat, home_of
from memkit.formats.reader import COARSE_NS, Options, Reading, is_as_it_was, listed, unsettled
from memkit.formats.records.kinds import registered_adapters
from memkit.formats.registry import NAMES
from memkit.tables.database import TextIndex
from memkit.tables.lake import Writers, current, keep, load
from memkit.tables.untrusted import read_json

FOLDER, SEEN = "folders", "seen.json"
# As much as the cache of vectors may take; folders that nobody reads go earlier.
MAX_BYTES = 4 << 30
# A round number: a month.
MAX_DAYS = 30
"""The most that is kept, of all folders, and how long one is kept that nobody reads."""
_PATIENCE = 5.0
"""Seconds that a command waits for another one that keeps the same folder."""
_DAY = 86_400
_NOT_KEPT = ("as_of", "rules", "formats", "rev", "instructions")
"""Options with which a folder is not kept: a moment, code, another state of the folder, files outside of it."""
_IN_KEY = ("format", "max_file_bytes", "plugin_globs", "dates", "timezone", "hidden", "json")
# Whatever is wrong with what is kept, the folder itself is there: only time is lost.
_FAULTS = (MemkitError, OSError, RuntimeError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError)


@dataclass
class Kept:
    """The place of one folder in the cache, and what lies there.

    Attributes
    ----------
    place : Path
    options : Options
        Of the reading.
    tables : dict of str to pyarrow.Table, or None
        What was opened or saved last; None where there was nothing.
    snapshot : Path or None
        The folder that has these tables.
    seen : dict
        What `SEEN` says of these tables.
    """

    place: Path
    options: Options
    tables: dict[str, pa.Table] | None = None
    text_index: TextIndex = None
    snapshot: Path | None = None
    seen: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, options: Options) -> Kept | None:
        """The place of the folder `root`; None where the cache is off or not the user's own, or for such options."""
        has_others = options.dates == "git" or registered_adapters()
        if has_others or any(getattr(options, name) != getattr(Options, name) for name in _NOT_KEPT):
            return None
        with suppress(*_FAULTS):
            read_with = [str(getattr(options, name)) for name in _IN_KEY]
            if folders := _own_folders():
                return cls(folders / f"{_key(root)}-{digest(repr((read_with, NAMES)))}", options)
        return None

    def opened(self, root: Path) -> Reading | None:
        """The reading of `root` that is kept; None where there is none of this memkit."""
        try:
            check_own(self.place, is_ours=True)
            seen = read_json(self.place, SEEN)
            if (seen["memkit"], seen["place"]) != (stamp(), self.place.name):
                raise ValueError("of another memkit, folder or options")
            root = root if root.is_file() else root.resolve()
            tables, reading, self.text_index, self.snapshot = load(self.place, root, trust=True)
            if reading is None:
                raise ValueError("no reading")
            result = _with_seen(replace(reading, options=self.options, tables=tables), seen, self.place)
        except _FAULTS:
            self.drop()  # nor are its arms believed
            return None
        self.tables, self.seen = tables, seen
        return result

    def keep(self, reading: Reading, text_index: TextIndex = None, attached: Writers | None = None) -> None:
        """Have the place hold `reading`, with the folders of `attached`; whatever was there before and is not the same
        is gone. Where nothing can be kept, nothing is.
        """
        is_same = not attached and (reading.tables is self.tables or reading.tables == self.tables)
        try:
            if is_same and text_index is self.text_index:
                self._see(reading)
            else:
                self._save(reading, text_index, attached or {})
        except _FAULTS:
            self.drop()

    def drop(self) -> None:
        """Have the place hold nothing."""
        if self.place.is_symlink():
            self.place.unlink()
        rmtree(self.place, ignore_errors=True)

    def _save(self, reading: Reading, text_index: TextIndex, attached: Writers) -> None:
        own_folder(self.place.parents[1])
        for folder in (self.place.parent, self.place):
            own_folder(folder)
            check_own(folder, is_ours=True)
            (folder / IGNORE_FILE).touch(0o600)
        with ExitStack() as held:

            def check() -> None:
                # Held until the block ends: memkit's writers wait, and what another command made forgotten meanwhile
                # is not brought back by one that is slow to keep what it read.
                listing = held.enter_context(listed(reading.root, reading.options, with_stat=True))
                if not is_as_it_was(listing, reading):
                    raise MemkitError("the folder changed since it was read.")

            keep(reading, text_index, attached, self.place, _PATIENCE, check)
            self._see(reading)
        self.tables, self.text_index, self.snapshot = reading.tables, text_index, current(self.place)
        _bound(self.place.parent)

    def _see(self, reading: Reading) -> None:
        """Write what `reading` saw, where that is not what is written; the file's time says when it was used."""
        doubtful = unsettled(reading.stats, reading.began, COARSE_NS) | _without_ctime(reading.stats)
        seen = {
            "memkit": stamp(),
            "place": self.place.name,
            "root": str(reading.root),
            "snapshot": current(self.place).name,
            "walked": reading.walked,
            "asked": [[*asked, found] for asked, found in reading.asked.items()],
            "stats": {path: stat and list(stat) for path, stat in reading.stats.items()},
            "unsettled": sorted(doubtful),
        }
        if seen == self.seen:
            is_first_today = (self.place / SEEN).stat().st_mtime < time.time() - _DAY
            os.utime(self.place / SEEN)
            if is_first_today:  # also where nothing is saved any more
                _bound(self.place.parent)
        else:
            atomic.replace(self.place / SEEN, json.dumps(seen), 0o600)
            self.seen = seen


def _with_seen(reading: Reading, seen: Mapping[str, Any], place: Path) -> Reading:
    """A kept reading with what it saw; where another command kept another state meanwhile, every file is in doubt."""
    if seen["snapshot"] != current(place).name:
        return replace(reading, unsettled=frozenset(reading.files))
    asked = {(path, home): found for path, home, found in seen["asked"]}
    stats = {path: stat and _stat(*stat) for path, stat in seen["stats"].items()}
    doubtful = frozenset(map(str, seen["unsettled"]))
    return replace(reading, walked=str(seen["walked"]), asked=asked, stats=stats, unsettled=doubtful)


def _stat(size: int, mtime: int, ctime: int, inode: int) -> Stat:
    return size, mtime, ctime, inode


def _without_ctime(stats: Mapping[str, Stat | None]) -> set[str]:
    """The files whose ctime tells nothing: none is kept, or it is the time of creation, or the mtime, as FAT has it."""
    is_creation = os.name == "nt"
    return {
        path
        for path, stat in stats.items()
        if stat and (is_creation or stat[2] <= 0 or (stat[1] == stat[2] and stat[1] % 10**9 == 0))
    }


@functools.cache
def stamp() -> str:
    """What tells this memkit from another: its version, and its files, which change in a checkout."""
    package = Path(__file__).parents[1]
    walked = (Path(folder, name) for folder, _, names in os.walk(package) for name in names if name.endswith(".py"))
    files = sorted((path.name, (seen := path.stat()).st_size, seen.st_mtime_ns) for path in walked)
    return digest(repr(((package / "__init__.py").read_bytes(), files)))


def entries() -> list[dict[str, Any]]:
    """The folders that are kept: path, root, bytes and the time of the last use; the last used one comes first.

    Raises
    ------
    MemkitError
        Where the cache is not the user's own.
    """
    places = _places(folders) if (folders := _own_folders()) and folders.is_dir() else ()
    return [{"path": place, "root": _root(place), "bytes": size, "used": used} for place, size, used in places]


def _own_folders() -> Path | None:
    """Where the kept folders lie; None if the cache is off. Raises where it is not the user's own."""
    if (cache := users_cache()) is None:
        return None
    check_own(cache)
    check_own(cache / FOLDER, is_ours=True)
    return cache / FOLDER


def _root(place: Path) -> str:
    """The folder that is kept in `place`; empty where the keeping was never finished."""
    with suppress(*_FAULTS):
        return str(read_json(place, SEEN)["root"])
    return ""


def _places(folders: Path) -> list[tuple[Path, int, float]]:
    """Each place of a kept folder with its bytes and the time of its last use, the last used one first."""
    rows = []
    for place in folders.iterdir():
        if place.is_dir() and not place.is_symlink():
            with suppress(FileNotFoundError):  # another process removes it
                sizes = (os.lstat(f"{folder}/{name}").st_size for folder, _, names in os.walk(place) for name in names)
                last = place / SEEN if (place / SEEN).exists() else place
                rows.append((place, sum(sizes), last.stat().st_mtime))
    return sorted(rows, key=lambda row: -row[2])


def _remove(place: Path) -> None:
    """Remove a kept folder whole, also where another process removes it too."""
    while place.exists():
        with suppress(FileNotFoundError):
            rmtree(place)


def _bound(folders: Path) -> None:
    """Remove what nobody used for `MAX_DAYS`, and the least recently used beyond `MAX_BYTES`."""
    total, oldest = 0, time.time() - MAX_DAYS * _DAY
    for place, size, used in _places(folders):
        total += size
        if used < oldest or total > MAX_BYTES:
            rmtree(place, ignore_errors=True)


def drop_changed(root: Path, but: Kept | None) -> None:
    """Remove what is kept of `root` by reading it with other options, which no command with these brings up to date,
    where a file of it is gone or changed.
    """
    with suppress(*_FAULTS):
        for place in folders.glob(f"{_key(root)}-*") if (folders := _own_folders()) else ():
            if (but is None or place != but.place) and _is_changed(place, root):
                _remove(place)


def _key(root: Path) -> str:
    return digest(repr(os.fsencode(root.resolve())))


def _is_changed(place: Path, root: Path) -> bool:
    with suppress(*_FAULTS):
        stats = read_json(place, SEEN)["stats"]
        listing = Listing(home_of(root), files=dict.fromkeys(stats))
        return not root.exists() or any(listing.stat(path) != (stat and _stat(*stat)) for path, stat in stats.items())
    return True


def clear() -> None:
    """Remove every folder that is kept."""
    for row in entries():
        _remove(row["path"])


def forget(root: Path, texts: set[str]) -> None:
    """Remove what is kept of `root`, of folders above and below it, and of any folder with one of `texts`."""
    with suppress(MemkitError):  # the cache of somebody else is not believed either
        for row in entries():
            kept = Path(row["root"] or root)
            if root.is_relative_to(kept) or kept.is_relative_to(root) or _says(row["path"], texts):
                _remove(row["path"])


def _says(place: Path, texts: set[str]) -> bool:
    """Whether a kept memory has one of `texts`; one that cannot be read may."""
    try:
        tables, *_ = load(place, None, trust=True)
        is_one = pc.is_in(tables["memories"]["text"], value_set=pa.array(sorted(texts), pa.string()))
        return bool(pc.any(is_one).as_py())
    except _FAULTS:
        return True
