"""The workspace's own classes: `MemoryStorage` writes MEMORY.md, logs and transcripts; `MemoryIndex` searches them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from pathlib import Path
from typing import Any

from memkit.change.disk import folder_of
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked
from memkit.errors import ChangeRefusedError, ParameterError
from memkit.fences import fences, headings
from memkit.params import AsOf, as_of_time, check_value
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus
from memkit.tables.sources import read

_TURN = re.compile(r"^(?=\*\*\[|\[\d|\*\*\w)", re.MULTILINE)
_MOST = 30


class MemoryStorage(Operations):
    """MEMORY.md, daily logs in ``memory/`` and transcripts in ``sessions/``; logs and transcripts are only appended to.

    Parameters
    ----------
    root : str or Path
        The workspace, a folder that is there.
    timezone : tzinfo, optional
        Of the times and days that are written; UTC unless given.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> storage = mk.store(tempfile.mkdtemp()).workspace
    >>> _ = storage.append_to_daily_log("Выкатили бота.", now="2025-02-03T14:30")
    >>> print(storage.read_daily_log("2025-02-03"), end="")
    # Daily Log: 2025-02-03
    <BLANKLINE>
    ### 14:30
    <BLANKLINE>
    Выкатили бота.
    """

    policy = "workspace"

    def __init__(self, root: str | Path, timezone: tzinfo = UTC) -> None:
        super().__init__(folder_of(root))
        self.timezone = timezone

    def read_memory(self) -> str:
        """MEMORY.md as text; empty where there is none."""
        return self._read("MEMORY.md")

    def append_to_memory(self, content: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Append a section with the time as its heading to MEMORY.md; its path."""

        def work(draft: Draft) -> str:
            section = f"\n## {self._local(draft.moment):%Y-%m-%d %H:%M}\n\n{_kept(content, 2)}\n"
            return self._append(draft, "MEMORY.md", "# Memory\n", section)

        return self._do(work, now, dry_run)

    def read_daily_log(self, day: str | date | None = None, *, now: AsOf = None) -> str:
        """The log of a day, today's unless given; empty where there is none."""
        return self._read(self._log(self._day(day, now)))

    def append_to_daily_log(self, content: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Append an entry with its time to today's log; its path."""

        def work(draft: Draft) -> str:
            local = self._local(draft.moment)
            entry = f"\n### {local:%H:%M}\n\n{_kept(content, 3)}\n"
            return self._append(draft, self._log(local.date()), f"# Daily Log: {local:%Y-%m-%d}\n", entry)

        return self._do(work, now, dry_run)

    def get_recent_context(self, days: int = 2, *, now: AsOf = None) -> str:
        """The logs of the last days, the newest first, parted by ``---``; days without one are left out."""
        check_value("get_recent_context", "days", days, "int", low=1)
        today = self._local(as_of_time(now)).date()
        texts = [self._read(self._log(today - timedelta(days=back))) for back in range(days)]
        return "\n---\n\n".join(text for text in texts if text.strip())

    def save_session(
        self, slug: str, content: str, *, overwrite: bool = False, now: AsOf = None, dry_run: bool = False
    ) -> Path | Edits:
        """Write a transcript of today; where it lies.

        Raises
        ------
        ChangeRefusedError
            Where there is one of that day and slug, unless `overwrite`.
        """

        def work(draft: Draft) -> Path:
            path = self._session(draft, slug)
            if draft.exists(path) and not overwrite:
                raise ChangeRefusedError(f"{path}: it is there already. overwrite=True replaces it.")
            draft.write(path, _ended(content), "a transcript")
            return self.root / path

        return self._do(work, now, dry_run)

    def append_to_session(
        self, slug: str, role: str, content: str, *, now: AsOf = None, dry_run: bool = False
    ) -> Path | Edits:
        """Append one turn to a transcript of today; where it lies."""
        if set(checked(role, "role")) & set("*:\n\r[]"):
            raise ParameterError(f"role: expected a word without '*', ':' and brackets. Got {role!r:.80}.")

        def work(draft: Draft) -> Path:
            turn = f"\n**[{self._local(draft.moment):%H:%M}] {role}**: {_turn(content)}\n"
            head = f"# Session: {slug_of(slug)}\n"
            return self.root / self._append(draft, self._session(draft, slug), head, turn)

        return self._do(work, now, dry_run)

    def _session(self, draft: Draft, slug: str) -> str:
        return f"sessions/{self._local(draft.moment):%Y-%m-%d}-{slug_of(slug)}.md"

    def _read(self, path: str) -> str:
        return self._reader().tail_of(path) or ""

    def _append(self, draft: Draft, path: str, head: str, text: str) -> str:
        before = draft.tail_of(path)
        newline = "\r\n" if before and "\r\n" in before else "\n"
        new = text if before and before.strip() else f"{head}{text}"
        draft.append(path, before, new.replace("\n", newline), "appended")
        return path

    def _local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.timezone)

    def _day(self, day: str | date | None, now: AsOf) -> date:
        return self._local(as_of_time(now)).date() if day is None else as_of_time(day).date()

    def _log(self, day: date) -> str:
        return f"memory/{day.isoformat()}.md"


@dataclass(frozen=True)
class SearchResult:
    """What a search of a workspace finds: a piece of a file, and how well it fits, 0 to 1.

    Examples
    --------
    >>> SearchResult("чай", "MEMORY.md", 1, 1, 0.5).file_path
    'MEMORY.md'
    """

    content: str
    file_path: str
    line_start: int
    line_end: int
    score: float


class Live:
    """Search over the files of a folder as they are when somebody asks.

    Parameters
    ----------
    seen : callable, optional
        What is searched of a corpus; all of it unless given.
    parameters
        Those of `Retriever`.
    """

    def __init__(self, root: Path, seen: Callable[[Corpus], Corpus] | None = None, **parameters: Any) -> None:
        self.root, self.seen, self.parameters, self._lock = root, seen, parameters, threading.RLock()
        self._corpus: Corpus | None = None
        self._fitted: tuple[Corpus, Retriever] | None = None

    def corpus(self) -> Corpus:
        """The folder as it is now."""
        with self._lock:
            self._corpus = self._corpus.refresh() if self._corpus else read(self.root)
            return self._corpus

    def retriever(self) -> Retriever:
        """A Retriever that knows what was written until now."""
        with self._lock:
            corpus = self.corpus()
            if self._fitted is None or corpus.tables != self._fitted[0].tables:
                seen = self.seen(corpus) if self.seen else corpus
                self._fitted = corpus, Retriever(**self.parameters).fit(seen)
            return self._fitted[1]


class MemoryIndex:
    """Search over a workspace, 70 % by meaning and 30 % by words where there is an encoder, else by words.

    Parameters
    ----------
    storage : MemoryStorage
        Whose files are searched.
    encoder : object, optional
        What `as_encoder` takes; None is by words alone, as the document's fallback.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> storage = mk.MemoryStorage(mk.write_files(tempfile.mkdtemp(), {"MEMORY.md": "Чай без сахара."}))
    >>> [(found.file_path, found.line_start, found.content) for found in mk.MemoryIndex(storage).search("сахар")]
    [('MEMORY.md', 1, 'Чай без сахара.')]
    """

    def __init__(self, storage: MemoryStorage, encoder: Any = None) -> None:
        self.storage, self._live = storage, Live(storage.root, encoder=encoder)

    def index_file(self, path: str | Path) -> int:
        """The chunks that a file has in the index, which follows all writes by itself."""
        return self.index_all([path])

    def index_all(self, paths: Iterable[str | Path] | None = None) -> int:
        """The chunks of these files, or of all, in the index."""
        fitted = self._live.retriever()
        found, memories = fitted.chunks_["memory_id"].to_pylist(), fitted.corpus_.memories
        if paths is None:
            return len(found)
        wanted = {self._relative(path) for path in paths}
        of = dict(zip(*(memories[name].to_pylist() for name in ("memory_id", "path")), strict=True))
        return sum(of.get(memory_id) in wanted for memory_id in found)

    def search(self, query: str, limit: int = 5, *, now: AsOf = None) -> list[SearchResult]:
        """The pieces that answer a query, best first."""
        hits = self._live.retriever().search(query, k=limit, as_of=now).to_pylist()
        return [
            SearchResult(hit["text"], hit["path"], hit["line_start"], hit["line_end"], min(1.0, max(0.0, hit["score"])))
            for hit in hits
        ]

    def _relative(self, path: str | Path) -> str:
        place = Path(path)
        return place.relative_to(self.storage.root).as_posix() if place.is_absolute() else place.as_posix()


_storage_of, _index_of = cache(MemoryStorage), cache(MemoryIndex)


def get_storage(root: str = ".") -> MemoryStorage:
    """The one `MemoryStorage` of a folder.

    Parameters
    ----------
    root : str
        The workspace.

    Returns
    -------
    MemoryStorage

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.mkdtemp()
    >>> get_storage(root) is get_storage(root)
    True
    """
    return _storage_of(folder_of(root))


def get_index(root: str = ".") -> MemoryIndex:
    """The one `MemoryIndex` of a folder.

    Parameters
    ----------
    root : str
        The workspace.

    Returns
    -------
    MemoryIndex

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.mkdtemp()
    >>> get_index(root) is get_index(root)
    True
    """
    return _index_of(get_storage(root))


def slug_of(text: str) -> str:
    """A slug: lower case, everything but letters, digits, ``_`` and ``-`` becomes ``-``, at most 30 characters.

    Examples
    --------
    >>> slug_of("Деплой: бот v2!"), slug_of("???")
    ('деплой-бот-v2', 'session')
    """
    return re.sub(r"[^\w-]+", "-", text.lower()).strip("-")[:_MOST].rstrip("-") or "session"


def _kept(content: str, level: int) -> str:
    """Content whose own headings stay below `level`: those that would end the entry are indented out of being one."""
    text = checked(content, "content").replace("\r\n", "\n").strip("\n")
    lines = text.split("\n")
    for heading in headings(text, fences(text)):
        if heading.level <= level:
            lines[heading.line - 1] = f"    {lines[heading.line - 1]}"
    return "\n".join(lines)


def _turn(content: str) -> str:
    """Content of which no line reads as another turn or heading."""
    text = checked(content, "content").replace("\r\n", "\n").strip("\n")
    first, *rest = text.split("\n")
    rest = [f"    {line}" if _TURN.match(line) or line.startswith("#") or ":" in line[:40] else line for line in rest]
    return "\n".join([first, *rest])


def _ended(content: str) -> str:
    return checked(content, "content").removesuffix("\n") + "\n"
