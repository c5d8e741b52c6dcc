"""The workspace's own classes: `MemoryStorage` writes MEMORY.md, logs and transcripts; `MemoryIndex` searches them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from memkit.change.disk import folder_of
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.operations import Operations, checked, missing
from memkit.errors import ChangeRefusedError, ParameterError, QueryError
from memkit.fences import fences, headings, is_mark
from memkit.formats.syntax.speech import clock_of, escaped, said_in
from memkit.formats.syntax.values import day_of
from memkit.params import AsOf, Zone, as_of_time, check_value, path_of, zone_name, zone_of
from memkit.presets import workspace
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus
from memkit.tables.sources import read

_MOST = 30
_SESSION = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")
_OPEN = timedelta(hours=4)
"""How long a session stays open past its day; the document knows no end of one."""


class MemoryStorage(Operations):
    """MEMORY.md, daily logs in ``memory/`` and transcripts in ``sessions/``; logs and transcripts are only appended to.

    Parameters
    ----------
    root : str or Path
        The workspace, a folder that is there.
    timezone : str or tzinfo, optional
        Of the times and days that are written, as "Europe/Moscow" or "+03:00"; None is UTC. `memkit.read` takes the
        same.

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

    def __init__(self, root: str | Path, timezone: Zone = None) -> None:
        super().__init__(folder_of(root))
        self.timezone = zone_of("MemoryStorage", timezone)

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

        name = slug_of(checked(slug, "slug", filled=False))

        def work(draft: Draft) -> Path:
            path = _session_of(self._local(draft.moment), name)
            if draft.exists(path) and not overwrite:
                raise ChangeRefusedError(f"{path}: it is there already. overwrite=True replaces it.")
            draft.write(path, _ended(content), "a transcript")
            return self.root / path

        return self._do(work, now, dry_run)

    def append_to_session(
        self, slug: str, role: str, content: str, *, now: AsOf = None, dry_run: bool = False
    ) -> Path | Edits:
        """Append one turn to the session that is open under a slug, or to a new one of today; where it lies.

        A session is open on its day, and past midnight until four hours have passed since its last turn. The turn is
        read back as it was said: a line that would read as another turn, a heading or a fence gets a backslash there.
        """
        if set(checked(role, "role")) & set("*:\n\r[]"):
            raise ParameterError(f"role: expected a word without '*', ':' and brackets. Got {role!r:.80}.")
        name, said = slug_of(checked(slug, "slug", filled=False)), checked(content, "content")

        def work(draft: Draft) -> Path:
            local = self._local(draft.moment)
            path = self._open_session(draft, name, local)
            day = "" if path == _session_of(local, name) else f"{local:%Y-%m-%d} "
            open_fence = fences(_lf(draft.tail_of(path) or "")).unclosed is not None
            turn = f"\n**[{day}{local:%H:%M}] {role.strip()}**:{_turn(said, open_fence)}\n"
            return self.root / self._append(draft, path, f"# Session: {name}\n", turn)

        return self._do(work, now, dry_run)

    def _open_session(self, draft: Draft, name: str, local: datetime) -> str:
        """The newest session of a slug where that is open at a time, else the one of its day."""
        today = _session_of(local, name)
        found = [path for path in draft.names("sessions") if _SESSION.fullmatch(path) and path[11:-3] == name]
        newest = max((path for path in found if f"sessions/{path}" <= today), default=None)
        if newest is None or f"sessions/{newest}" == today:
            return today
        last = self._last_turn(f"sessions/{newest}", _lf(draft.tail_of(f"sessions/{newest}") or ""))
        return f"sessions/{newest}" if last is not None and local.replace(tzinfo=None) - last < _OPEN else today

    def _last_turn(self, path: str, text: str) -> datetime | None:
        """When the last turn of a transcript was said, in the storage's zone; the end of its day where none says so."""
        day = day_of(path.rpartition("/")[2][:10])
        code, last = fences(text), None
        for number, line in enumerate(text.split("\n"), 1):
            said = said_in(line, None) if number not in code else None
            if said and said.time and (clock := clock_of(said.time)):
                own = day_of(said.time[:10]) or day
                last = own and datetime.combine(own, time.fromisoformat(clock))
        return last or (day and day + timedelta(days=1))

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
        if day is None:
            return self._local(as_of_time(now)).date()
        is_moment = isinstance(day, datetime) and day.tzinfo is not None
        return (self._local(as_of_time(day)) if is_moment else as_of_time(day)).date()

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
    timezone : str or tzinfo, optional
        As for `memkit.read`.
    parameters
        Those of `Retriever`.
    """

    def __init__(
        self, root: Path, seen: Callable[[Corpus], Corpus] | None = None, timezone: Zone = None, **parameters: Any
    ) -> None:
        self.root, self.seen, self.parameters, self._lock = root, seen, parameters, threading.RLock()
        self.timezone = zone_of("search", timezone)
        self._corpus: Corpus | None = None
        self._fitted: tuple[Corpus, Retriever] | None = None

    def corpus(self) -> Corpus:
        """The folder as it is now."""
        with self._lock:
            self._corpus = self._corpus.refresh() if self._corpus else read(self.root, timezone=self.timezone)
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
    limit : int
        Results of a search that names no limit of its own.

    Notes
    -----
    The numbers are those of ``mk.presets.workspace``: chunks of 400 tokens that overlap by 80, scores from 0 to 1.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> storage = mk.MemoryStorage(mk.testing.write_files(tempfile.mkdtemp(), {"MEMORY.md": "Чай без сахара."}))
    >>> index = mk.MemoryIndex(storage, encoder=None)
    >>> [(found.file_path, found.line_start, found.content) for found in index.search("сахар")]
    [('MEMORY.md', 1, 'Чай без сахара.')]
    """

    def __init__(self, storage: MemoryStorage, encoder: Any = "use", *, limit: int = 5) -> None:
        if not isinstance(storage, MemoryStorage):
            raise ParameterError(f"MemoryIndex: 'storage' must be a MemoryStorage. Got {storage!r:.80}.")
        check_value("MemoryIndex", "limit", limit, "int", low=1)
        self.storage, self.limit = storage, limit
        self._live = Live(storage.root, timezone=storage.timezone, **{**workspace, "encoder": encoder})

    def index_file(self, path: str | Path) -> int:
        """The chunks that a file has in the index, which follows all writes by itself.

        Raises
        ------
        NotFoundError
            Where no memory is of such a file.
        """
        return self.index_all([path])

    def index_all(self, paths: Iterable[str | Path] | None = None) -> int:
        """The chunks of these files, or of all, in the index; raises as `index_file`."""
        if isinstance(paths, str):
            raise ParameterError(f"index_all: 'paths' must be several paths. Got {paths!r:.80}.")
        wanted = None if paths is None else {self._relative(path) for path in paths}
        fitted = self._live.retriever()
        found, memories = fitted.chunks_["memory_id"].to_pylist(), fitted.corpus_.memories
        if wanted is None:
            return len(found)
        of = dict(zip(*(memories[name].to_pylist() for name in ("memory_id", "path")), strict=True))
        for path in sorted(wanted - {*of.values()}):
            raise missing("file of memories", path, of.values())
        return sum(of.get(memory_id) in wanted for memory_id in found)

    def search(self, query: str, limit: int | None = None, *, now: AsOf = None) -> list[SearchResult]:
        """The pieces that answer a query, best first; none that answers nothing of it."""
        if not isinstance(query, str):
            raise QueryError(f"query: expected a text. Got {query!r:.80}.")
        check_value("MemoryIndex", "limit", limit, "int", nullable=True, low=1)
        hits = self._live.retriever().search(query, k=limit or self.limit, as_of=now).to_pylist()
        return [
            SearchResult(hit["text"], hit["path"], hit["line_start"], hit["line_end"], min(1.0, hit["score"]))
            for hit in hits
            if hit["score"] > 0
        ]

    def _relative(self, path: str | Path) -> str:
        """A path as memories have it; of a file elsewhere as it is, so that nothing is found there."""
        place = path_of("index_file", path)
        inside = place.is_absolute() and place.is_relative_to(self.storage.root)
        return (place.relative_to(self.storage.root) if inside else place).as_posix()


_STORAGES: dict[Path, MemoryStorage] = {}
_INDEXES: dict[tuple[Path, object], MemoryIndex] = {}


def get_storage(root: str | Path = ".", *, timezone: Zone = None) -> MemoryStorage:
    """The one `MemoryStorage` of a folder.

    Parameters
    ----------
    root : str or Path
        The workspace.
    timezone : str or tzinfo, optional
        Of the first call for the folder: of the times and days that are written; None is UTC, and later the one that
        there is.

    Returns
    -------
    MemoryStorage

    Raises
    ------
    ParameterError
        Where the folder's storage has another zone.

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.mkdtemp()
    >>> get_storage(root) is get_storage(root)
    True
    """
    place, zone = folder_of(root), zone_of("get_storage", timezone)
    storage = _STORAGES.setdefault(place, MemoryStorage(place, zone))
    if timezone is not None and storage.timezone != zone:
        own = zone_name(storage.timezone) or "UTC"
        raise ParameterError(
            f"get_storage: 'timezone' must be {own}, as of this folder's storage. Got {timezone!r:.80}."
        )
    return storage


def get_index(root: str | Path = ".", *, encoder: Any = "use") -> MemoryIndex:
    """The one `MemoryIndex` of a folder and an encoder.

    Parameters
    ----------
    root : str or Path
        The workspace.
    encoder : object, optional
        As for `MemoryIndex`.

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
    storage = get_storage(root)
    key = storage.root, encoder if isinstance(encoder, str | None) else id(encoder)
    if key not in _INDEXES:
        _INDEXES[key] = MemoryIndex(storage, encoder)
    return _INDEXES[key]


def slug_of(text: str) -> str:
    """A slug: lower case, everything but letters, digits, ``_`` and ``-`` becomes ``-``, at most 30 characters.

    Examples
    --------
    >>> slug_of("Деплой: бот v2!"), slug_of("???")
    ('деплой-бот-v2', 'session')
    """
    return re.sub(r"[^\w-]+", "-", text.lower()).strip("-")[:_MOST].rstrip("-") or "session"


def _kept(content: str, level: int) -> str:
    """Content whose own headings stay below `level`: those that would end the entry are indented out of being one.

    So are the marks of a fence that never closes, which would take in the entries that follow.
    """
    text = checked(content, "content").replace("\r\n", "\n").strip("\n")
    lines, code = text.split("\n"), fences(text)
    odd = {heading.line for heading in headings(text, code) if heading.level <= level}
    odd |= {number for number in range(code.unclosed or len(lines) + 1, len(lines) + 1) if is_mark(lines[number - 1])}
    return "\n".join(f"    {line}" if number in odd else line for number, line in enumerate(lines, 1))


def _session_of(local: datetime, name: str) -> str:
    return f"sessions/{local:%Y-%m-%d}-{name}.md"


def _turn(content: str, open_fence: bool) -> str:
    """What follows a role: on its line where the first line can stand there as it is, else below."""
    text = _lf(content)
    kept = escaped(text, open_fence=open_fence)
    first = text.partition("\n")[0]
    is_plain = kept.partition("\n")[0] == first and not first[:1].isspace() and not is_mark(first)
    return f" {kept}" if is_plain else f"\n{kept}"


def _lf(text: str) -> str:
    """A text whose lines all end as readers have them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _ended(content: str) -> str:
    return checked(content, "content").removesuffix("\n") + "\n"
