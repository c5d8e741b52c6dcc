"""The log of searches: queries and ids of hits, never texts; `mk.labels.import_log` reads it."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

from memkit.base.params import as_of_time
from memkit.change.disk import Disk
from memkit.errors import MemkitError, refused
from memkit.formats.disk.lock import CALLS, STATE, check_calls
from memkit.text.secrets import mask

MAX_LOGGED = 1_000
"""Characters of a query that the log keeps."""
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK"))


class Calls:
    """Logs one line per search, and another when a hit was fetched, which counts as used.

    Parameters
    ----------
    root : Path
    is_on : bool
        Whether the log is written.
    """

    def __init__(self, root: Path, is_on: bool = True) -> None:
        self.root, self.is_on = root, is_on
        self._lock = threading.Lock()
        self._last: dict[str, dict[str, Any]] = {}
        self._file = 0
        self._count = 0
        self._session = f"{os.getpid()}-{as_of_time(None):%Y%m%dT%H%M%S}"

    def log_search(self, query: str, user_id: str | None, parameters: dict[str, Any], hits: dict[str, str]) -> str:
        """Log a search, and return why it could not be logged, or ""; `hits` maps chunk ids to memory ids."""
        with self._lock:
            self._count += 1
            shown = list(dict.fromkeys(hits.values()))
            row: dict[str, Any] = {
                "query_id": f"{self._session}-{self._count}",
                "text": mask(query)[:MAX_LOGGED],
                "user_id": mask(user_id) if user_id else user_id,
            }
            row |= {"time": f"{as_of_time(None):%Y-%m-%dT%H:%M:%SZ}", "session": self._session}
            row |= {"parameters": json.dumps(parameters), "shown": shown, "used": []}
            self._last = {chunk: {"row": row, "memory_id": memory} for chunk, memory in hits.items()}
            self._file = 0
            return self._try_write(row)

    def log_fetch(self, chunk_ids: list[str]) -> str:
        """Log that hits of the last search were fetched, and return why not, or ""; a query's last line counts."""
        with self._lock:
            hits = [self._last[chunk] for chunk in chunk_ids if chunk in self._last]
            if not hits:
                return ""
            row = hits[0]["row"]
            row["used"] = list(dict.fromkeys([*row["used"], *(hit["memory_id"] for hit in hits)]))
            return self._try_write(row)

    def _try_write(self, row: dict[str, Any]) -> str:
        """Write a row; return the reason of a failure, for the answer's note: a log never blocks an answer."""
        try:
            if self.is_on:
                self._write(row)
        except (MemkitError, OSError) as error:
            return f"This was not logged: {error}"
        return ""

    def _write(self, row: dict[str, Any]) -> None:
        """Append one line by a single write, so that lines of two servers do not mix.

        A query logged before the log was replaced (`memkit undo --clear` removes old texts) is not written again.
        """
        if Disk(self.root).status(STATE) is None:
            with Disk(self.root).locked():  # makes the folder, with what keeps it out of repositories
                pass
        check_calls(self.root)
        descriptor = os.open(self.root / CALLS, _APPEND, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):  # it was laid there since
                raise refused(CALLS, "a regular file", "another")
            if self._file in (0, status.st_ino):
                self._file = status.st_ino
                os.write(descriptor, f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
