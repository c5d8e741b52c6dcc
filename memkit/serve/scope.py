"""The scope of a server for one user: that user's memories and those without a user, never another user's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from memkit.formats.spelling import plain
from memkit.tables.corpus import Corpus

_HOME = "users"
"""Files below ``users/<name>/``, in any case, belong to that user, whatever user their memories name."""
_NAMED = re.compile(r'"(?:metadata|user[ _-]?id|user)"', re.IGNORECASE)
_OWNERS = frozenset(("userid", "user"))
"""Fields without a column, in plain spelling, that name a user."""


def visible_to(user: str | None, corpus: Corpus) -> Corpus:
    """A corpus of the memories visible to a user, without other tables; None sees all of `corpus`."""
    if user is None:
        return corpus
    tables = {name: table.slice(0, 0) for name, table in corpus.tables.items()}
    return Corpus({**tables, "memories": corpus.memories.filter(_is_visible(user, corpus.memories))})


def visible_files(user: str | None, corpus: Corpus) -> list[str]:
    """The files whose memories are all visible to `user`."""
    memories = corpus.memories
    paths = dict.fromkeys(memories["path"].to_pylist())
    if user is None:
        return list(paths)
    hidden = set(memories["path"].filter(pc.invert(_is_visible(user, memories))).to_pylist())
    return [path for path in paths if path not in hidden]


def _is_visible(user: str, memories: pa.Table) -> pa.ChunkedArray:
    is_own = pc.fill_null(pc.equal(memories["user_id"], user), True)
    rows = [(path, _says_nobody_else(user, extra)) for path, extra in _rows(memories)]
    anothers = {path for path, of_nobody in rows if path is not None and not of_nobody}  # of all its sections
    of_nobody = pa.array([is_so and path not in anothers for path, is_so in rows], pa.bool_())
    is_in_folder = pa.array([_in_own_folder(user, path) for path in memories["path"].to_pylist()], pa.bool_())
    return pc.and_(pc.and_(is_own, of_nobody), is_in_folder)


def _rows(memories: pa.Table) -> Iterator[tuple[str | None, str | None]]:
    return zip(memories["path"].to_pylist(), memories["extra"].to_pylist(), strict=True)


def _says_nobody_else(user: str, extra: str | None) -> bool:
    """Whether no field of front matter, or within its ``metadata``, names another user."""
    if not extra or not _NAMED.search(extra):
        return True
    fields = json.loads(extra)
    inner = fields.get("metadata")
    places = [fields, inner if isinstance(inner, dict) else {}]
    named = {str(value) for place in places for name, value in place.items() if plain(name) in _OWNERS and value}
    return named <= {user}


def _in_own_folder(user: str, path: str | None) -> bool:
    """Whether `path` is outside of every other user's folder."""
    parts = (path or "").split("/")
    return all(parts[index + 1] == user for index in range(len(parts) - 2) if parts[index].casefold() == _HOME)
