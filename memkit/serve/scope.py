"""The scope of a server for one user: that user's memories and those without a user, never another user's."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from memkit.tables.corpus import Corpus

_HOME = "users"
"""Files below ``users/<name>/`` belong to that user, whatever user their memories name."""


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
    is_in_folder = pa.array([_in_own_folder(user, path) for path in memories["path"].to_pylist()], pa.bool_())
    return pc.and_(is_own, is_in_folder)


def _in_own_folder(user: str, path: str | None) -> bool:
    """Whether `path` is outside of every other user's folder."""
    parts = (path or "").split("/")
    return all(parts[index + 1] == user for index in range(len(parts) - 2) if parts[index] == _HOME)
