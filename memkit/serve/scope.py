"""What a server of one user sees: that user's memories and those of nobody. Another's are not there."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from memkit.tables.corpus import Corpus

_HOME = "users"
"""What lies in a folder of a folder of this name is one user's, whatever it says of itself."""


def seen_by(user: str | None, corpus: Corpus) -> Corpus:
    """The memories that a user sees, without any other table; all of `corpus` for None."""
    if user is None:
        return corpus
    tables = {name: table.slice(0, 0) for name, table in corpus.tables.items()}
    return Corpus({**tables, "memories": corpus.memories.filter(_is_seen(user, corpus.memories))})


def files_of(user: str | None, corpus: Corpus) -> list[str]:
    """The files that hold memories, and none that `user` does not see."""
    memories = corpus.memories
    paths = dict.fromkeys(memories["path"].to_pylist())
    if user is None:
        return list(paths)
    hidden = set(memories["path"].filter(pc.invert(_is_seen(user, memories))).to_pylist())
    return [path for path in paths if path not in hidden]


def _is_seen(user: str, memories: pa.Table) -> pa.ChunkedArray:
    said = pc.fill_null(pc.equal(memories["user_id"], user), True)
    lies = pa.array([_lies_with(user, path) for path in memories["path"].to_pylist()], pa.bool_())
    return pc.and_(said, lies)


def _lies_with(user: str, path: str | None) -> bool:
    """Whether no other user's folder holds `path`."""
    parts = (path or "").split("/")
    return all(parts[at + 1] == user for at in range(len(parts) - 2) if parts[at] == _HOME)
