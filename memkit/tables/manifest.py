"""The manifest of a lake: the files of the snapshot with their hashes, and the folder that the corpus was read from.

A manifest is untrusted input. Checked here are names that lead out of the lake, options that `memkit.read` would not
accept, and versions that this memkit does not know.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit.base.duck import is_table_name
from memkit.base.params import zone_of
from memkit.errors import refused
from memkit.formats.disk.files import HIDDEN
from memkit.formats.index_tree.survey import PLUGIN_GLOBS
from memkit.formats.reader import DATES, Options
from memkit.formats.registry import NAMES
from memkit.schemas import TABLES
from memkit.tables.fts import TEXT_VERSION
from memkit.tables.untrusted import is_member_name, read_json

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
