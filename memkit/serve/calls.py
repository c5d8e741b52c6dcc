"""The log of what was asked: queries and ids of hits, never texts; `memkit.import_log` reads it."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memkit.formats.disk.lock import CALLS
from memkit.text.secrets import mask


class Calls:
    """A line a search, and one more where what it found was fetched: then it was of use.

    Parameters
    ----------
    root : Path
    is_on : bool
        Whether anything is written.
    """

    def __init__(self, root: Path, is_on: bool = True) -> None:
        self.path, self.is_on = root / CALLS, is_on
        self._lock = threading.Lock()
        self._last: dict[str, dict[str, Any]] = {}
        self._file = 0
        self._count = 0
        self._session = f"{os.getpid()}-{datetime.now(UTC):%Y%m%dT%H%M%S}"

    def asked(self, query: str, user_id: str | None, parameters: dict[str, Any], found: dict[str, str]) -> None:
        """Log a search; `found` maps chunk ids to memory ids."""
        with self._lock:
            self._count += 1
            shown = list(dict.fromkeys(found.values()))
            row: dict[str, Any] = {
                "query_id": f"{self._session}-{self._count}",
                "text": mask(query),
                "user_id": user_id,
            }
            row |= {"time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "session": self._session}
            row |= {"parameters": json.dumps(parameters), "shown": shown, "used": []}
            self._last = {chunk: {"row": row, "memory_id": memory} for chunk, memory in found.items()}
            self._file = 0
            self._write(row)

    def fetched(self, chunk_ids: list[str]) -> None:
        """Log that some of what the last search found was fetched; the later line of a query counts."""
        with self._lock:
            known = [self._last[chunk] for chunk in chunk_ids if chunk in self._last]
            if known:
                row = known[0]["row"]
                row["used"] = list(dict.fromkeys([*row["used"], *(found["memory_id"] for found in known)]))
                self._write(row)

    def _write(self, row: dict[str, Any]) -> None:
        """One whole line by one write, so that two servers do not mix theirs.

        A query that is in another file than the log is now, because old texts were cleared, is not written again.
        """
        if not self.is_on:
            return
        self.path.parent.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self.path, flags, 0o600)
        try:
            file = os.fstat(descriptor).st_ino
            if self._file in (0, file):
                self._file = file
                os.write(descriptor, f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
