"""The workspace's own classes: `MemoryStorage` writes MEMORY.md, logs and transcripts; `MemoryIndex` searches them."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from memkit.base.fences import fences, headings, is_mark
from memkit.base.parallel import heard
from memkit.base.params import AsOf, Zone, as_of_time, check_value, current_names, path_of, zone_name, zone_of
from memkit.change.disk import folder_of
from memkit.change.draft import Draft, Operations, checked, missing
from memkit.change.edits import Edits
from memkit.errors import ChangeRefusedError, MemkitError, ParameterError, QueryError
from memkit.formats.spelling import day_of
from memkit.formats.syntax.places import line_end, plain_lines
from memkit.formats.syntax.speech import clock_of, escaped, turn_of
from memkit.presets import workspace
from memkit.schemas import tuples_of
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus, read

__all__ = ["MemoryIndex", "MemoryStorage", "SearchResult", "get_index", "get_storage"]

_LOG = logging.getLogger("memkit")
_ONE = threading.Lock()
"""Held by the thread that encodes: a second one finds the vectors of the first in the cache."""

_MAX_SLUG = 30
"""Characters of the slug of a session."""
_SESSION = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")
# A guess: an evening that goes past midnight is one session.
_OPEN_FOR = timedelta(hours=4)
"""How long after its last turn a session of an earlier day stays open; the document names no end of a session."""


class MemoryStorage(Operations):
    """MEMORY.md, daily logs in ``memory/`` and transcripts in ``sessions/``; logs and transcripts are only appended to.

    Parameters
    ----------
    root : str or Path
        The workspace, an existing folder.
    timezone : str or tzinfo, optional
        The zone of the times and days that are written, such as "Europe/Moscow" or "+03:00"; None is UTC. Give
        `memkit.read` the same one.

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
        """The text of MEMORY.md; empty where the file is missing."""
        return self._read("MEMORY.md")

    def append_to_memory(self, content: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Append a section, headed by the time, to MEMORY.md, and return the file's path."""

        def work(draft: Draft) -> str:
            section = f"\n## {self._local(draft.moment):%Y-%m-%d %H:%M}\n\n{_below_level(content, 2)}\n"
            return self._append(draft, "MEMORY.md", "# Memory\n", section)

        return self._do(work, now, dry_run)

    @current_names
    def read_daily_log(self, day: str | date | None = None, *, as_of: AsOf = None) -> str:
        """The text of a day's log, by default today's; empty where the file is missing."""
        return self._read(self._log_path(self._day(day, as_of)))

    def append_to_daily_log(self, content: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Append an entry, headed by the time, to today's log, and return the file's path."""

        def work(draft: Draft) -> str:
            local = self._local(draft.moment)
            entry = f"\n### {local:%H:%M}\n\n{_below_level(content, 3)}\n"
            return self._append(draft, self._log_path(local.date()), f"# Daily Log: {local:%Y-%m-%d}\n", entry)

        return self._do(work, now, dry_run)

    @current_names
    def get_recent_context(self, days: int = 2, *, as_of: AsOf = None) -> str:
        """The logs of the last `days` days, newest first, separated by ``---``; days without a log are skipped."""
        check_value("get_recent_context", "days", days, "int", low=1)
        today = self._local(as_of_time(as_of)).date()
        texts = [self._read(self._log_path(today - timedelta(days=back))) for back in range(days)]
        return "\n---\n\n".join(text for text in texts if text.strip())

    def save_session(
        self, slug: str, content: str, *, overwrite: bool = False, now: AsOf = None, dry_run: bool = False
    ) -> Path | Edits:
        """Write a transcript of today, and return its path.

        Raises
        ------
        ChangeRefusedError
            Where a transcript of that day and slug exists, unless `overwrite`.
        """

        name = slug_of(checked(slug, "slug", filled=False))

        def work(draft: Draft) -> Path:
            path = _session_path(self._local(draft.moment), name)
            if draft.exists(path) and not overwrite:
                raise ChangeRefusedError(f"{path}: it exists already. overwrite=True replaces it.")
            draft.write(path, checked(content, "content").removesuffix("\n") + "\n", "a transcript")
            return self.root / path

        return self._do(work, now, dry_run)

    def append_to_session(
        self, slug: str, role: str, content: str, *, now: AsOf = None, dry_run: bool = False
    ) -> Path | Edits:
        """Append one turn to the open session of a slug, or to a new session of today, and return the file's path.

        A session is open on its day, and after midnight until four hours have passed since its last turn. Readers get
        the turn back unchanged: a line that would be read as another turn, a heading or a fence is escaped by a
        backslash.
        """
        if set(checked(role, "role")) & set("*:\n\r[]"):
            raise ParameterError(f"role: expected a word without '*', ':' and brackets. Got {role!r:.80}.")
        name, text = slug_of(checked(slug, "slug", filled=False)), checked(content, "content")

        def work(draft: Draft) -> Path:
            local = self._local(draft.moment)
            path = self._open_session(draft, name, local)
            day = "" if path == _session_path(local, name) else f"{local:%Y-%m-%d} "
            open_fence = fences(_unix_lines(draft.text_or_none(path) or "")).unclosed is not None
            turn = f"\n**[{day}{local:%H:%M}] {role.strip()}**:{_turn(text, open_fence)}\n"
            return self.root / self._append(draft, path, f"# Session: {name}\n", turn)

        return self._do(work, now, dry_run)

    def _open_session(self, draft: Draft, name: str, local: datetime) -> str:
        """The path of the newest session of a slug, where it is still open at that time, else of the day's session."""
        today = _session_path(local, name)
        sessions = [path for path in draft.names("sessions") if _SESSION.fullmatch(path) and path[11:-3] == name]
        # Not one of a later day: `now` may lie in the past.
        newest = max((path for path in sessions if f"sessions/{path}" <= today), default=None)
        if newest is None or f"sessions/{newest}" == today:
            return today
        last = self._last_turn(f"sessions/{newest}", _unix_lines(draft.text_or_none(f"sessions/{newest}") or ""))
        return f"sessions/{newest}" if last is not None and local.replace(tzinfo=None) - last < _OPEN_FOR else today

    def _last_turn(self, path: str, text: str) -> datetime | None:
        """The time of a transcript's last turn, in the storage's zone; the end of its day where no turn has a time."""
        day = day_of(path.rpartition("/")[2][:10])
        code, last = fences(text), None
        for number, line in enumerate(text.split("\n"), 1):
            turn = turn_of(line, None) if number not in code else None
            if turn and turn.time and (clock := clock_of(turn.time)):
                turn_day = day_of(turn.time[:10]) or day
                last = turn_day and datetime.combine(turn_day, clock)
        return last or (day and day + timedelta(days=1))

    def _read(self, path: str) -> str:
        return plain_lines(self._reader().text_or_none(path) or "")

    def _append(self, draft: Draft, path: str, head: str, text: str) -> str:
        before = draft.text_or_none(path)
        newline = line_end(before)
        new = text if before and before.strip() else f"{head}{text}"
        draft.append(path, before, new.replace("\n", newline), "appended")
        return path

    def _local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.timezone)

    def _day(self, day: str | date | None, as_of: AsOf) -> date:
        if day is None:
            return self._local(as_of_time(as_of)).date()
        is_moment = isinstance(day, datetime) and day.tzinfo is not None
        return (self._local(as_of_time(day)) if is_moment else as_of_time(day)).date()

    def _log_path(self, day: date) -> str:
        return f"memory/{day.isoformat()}.md"


@dataclass(frozen=True)
class SearchResult:
    """A hit of `MemoryIndex.search`: a chunk of a file, and its score from 0 to 1.

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
    """Search over a folder that follows its files: each call sees what was written before it.

    Parameters
    ----------
    select : callable, optional
        Gives the part of a corpus that is searched; by default all of it.
    timezone : str or tzinfo, optional
        As for `memkit.read`.
    encode : {"now", "later"} or int
        As for `Retriever.fit`; what is left for later is encoded beside the calls.
    parameters
        Those of `Retriever`.
    """

    def __init__(
        self,
        root: Path,
        select: Callable[[Corpus], Corpus] | None = None,
        timezone: Zone = None,
        encode: str | int = "now",
        **parameters: Any,
    ) -> None:
        self.root, self.select, self.parameters, self._lock = root, select, parameters, threading.RLock()
        self.timezone, self.encode = zone_of("search", timezone), encode
        self._encoding: threading.Thread | None = None
        self._corpus: Corpus | None = None
        self._fitted: tuple[Corpus, Retriever] | None = None

    def corpus(self) -> Corpus:
        """The folder as it is now."""
        with self._lock:
            self._corpus = (
                self._corpus.refresh() if self._corpus else read(self.root, timezone=self.timezone, cache="fit")
            )
            return self._corpus

    def retriever(self) -> Retriever:
        """A Retriever fitted to the folder as it is now."""
        with self._lock:
            corpus = self.corpus()
            if self._fitted is None or corpus.tables != self._fitted[0].tables:
                searched = self.select(corpus) if self.select else corpus
                self._fitted = corpus, Retriever(**self.parameters).fit(searched, encode=self.encode)
                if self._encoding is None and self._waiting() is not None:  # what this fit left for later
                    # As a daemon: a program that ends does not wait for vectors, which the next one makes.
                    self._encoding = threading.Thread(target=self._encode_beside, daemon=True)
                    self._encoding.start()
            return self._fitted[1]

    def _waiting(self) -> Retriever | None:
        """The last fit, if texts of it wait."""
        return self._fitted[1] if self._fitted is not None and self._fitted[1].index_.waiting_note() else None

    def _encode_beside(self) -> None:
        """Encode, in silence, until nothing waits; a failure is logged, and the next fit tries again."""
        search = self._waiting()
        while search is not None:
            try:
                with heard(lambda *_: None), _ONE:
                    search.encode()
            except MemkitError as error:
                _LOG.warning("memkit: answers stay by words and letters for now. %s", error)
                search = None
            with self._lock:
                search = search and self._waiting()
                self._encoding = None if search is None else self._encoding


class MemoryIndex:
    """Search over a workspace: 70 % meaning and 30 % words, or words alone without an encoder.

    Parameters
    ----------
    storage : MemoryStorage
        The storage whose files are searched.
    encoder : object, optional
        As `memkit.extend.as_encoder` takes it; None uses words alone, the document's fallback.
    limit : int
        Results of a search, unless its own `limit` is given.

    Notes
    -----
    The numbers are those of ``mk.presets.workspace``: chunks of 400 tokens that overlap by 80, scores from 0 to 1.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> folder = mk.testing.write_files(tempfile.mkdtemp(), {"MEMORY.md": "Чай без сахара."})
    >>> storage = mk.workspace.MemoryStorage(folder)
    >>> index = mk.workspace.MemoryIndex(storage, encoder=None)
    >>> [(hit.file_path, hit.line_start, hit.content) for hit in index.search("сахар")]
    [('MEMORY.md', 1, 'Чай без сахара.')]
    """

    def __init__(self, storage: MemoryStorage, encoder: Any = "use", *, limit: int = 5) -> None:
        if not isinstance(storage, MemoryStorage):
            raise ParameterError(f"MemoryIndex: 'storage' must be a MemoryStorage. Got {storage!r:.80}.")
        check_value("MemoryIndex", "limit", limit, "int", low=1)
        self.storage, self.limit = storage, limit
        self._live = Live(storage.root, timezone=storage.timezone, **{**workspace, "encoder": encoder})

    def index_file(self, path: str | Path) -> int:
        """The number of chunks of a file in the index; the index follows all writes by itself.

        Raises
        ------
        NotFoundError
            Where the file has no memory.
        """
        return self.index_all([path])

    def index_all(self, paths: Iterable[str | Path] | None = None) -> int:
        """The number of chunks of these files, or of all, in the index; raises as `index_file` does."""
        if isinstance(paths, str):
            raise ParameterError(f"index_all: 'paths' must be several paths. Got {paths!r:.80}.")
        paths_wanted = None if paths is None else {self._relative(path) for path in paths}
        fitted = self._live.retriever()
        memory_ids, memories = fitted.chunks_["memory_id"].to_pylist(), fitted.corpus_.memories
        if paths_wanted is None:
            return len(memory_ids)
        path_by_id = dict(tuples_of(memories, "memory_id", "path"))
        for path in sorted(paths_wanted - {*path_by_id.values()}):
            raise missing("file of memories", path, path_by_id.values())
        return sum(path_by_id.get(memory_id) in paths_wanted for memory_id in memory_ids)

    @current_names
    def search(self, query: str, limit: int | None = None, *, as_of: AsOf = None) -> list[SearchResult]:
        """Search by a query, best first; hits with a score of 0 are left out."""
        if not isinstance(query, str):
            raise QueryError(f"query: expected a text. Got {query!r:.80}.")
        check_value("MemoryIndex", "limit", limit, "int", nullable=True, low=1)
        hits = self._live.retriever().search(query, k=limit or self.limit, as_of=as_of).to_pylist()
        return [
            SearchResult(hit["text"], hit["path"], hit["line_start"], hit["line_end"], min(1.0, hit["score"]))
            for hit in hits
            if hit["score"] > 0
        ]

    def _relative(self, path: str | Path) -> str:
        """A path relative to the root; a path outside of the root stays as it is, and matches no memory."""
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
        The zone of the times and days that are written, set by the first call for a folder (None is UTC). Later calls
        give the same zone or None.

    Returns
    -------
    MemoryStorage

    Raises
    ------
    ParameterError
        For another zone than that of the folder's storage.

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
        expected = zone_name(storage.timezone) or "UTC"
        raise ParameterError(
            f"get_storage: 'timezone' must be {expected}, as of this folder's storage. Got {timezone!r:.80}."
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
    return re.sub(r"[^\w-]+", "-", text.lower()).strip("-")[:_MAX_SLUG].rstrip("-") or "session"


def _below_level(content: str, level: int) -> str:
    """Content whose own headings stay below `level`: a heading that would end the entry is indented into plain text.

    So is the mark of a fence that never closes, which would swallow the entries that follow.
    """
    text = checked(content, "content").replace("\r\n", "\n").strip("\n")
    lines, code = text.split("\n"), fences(text)
    indented = {heading.line for heading in headings(text, code) if heading.level <= level}
    indented |= {
        number for number in range(code.unclosed or len(lines) + 1, len(lines) + 1) if is_mark(lines[number - 1])
    }
    return "\n".join(f"    {line}" if number in indented else line for number, line in enumerate(lines, 1))


def _session_path(local: datetime, name: str) -> str:
    return f"sessions/{local:%Y-%m-%d}-{name}.md"


def _turn(content: str, open_fence: bool) -> str:
    """The text of a turn: it begins on the line of the role where its first line needs no escape, else below."""
    text = _unix_lines(content)
    kept = escaped(text, open_fence=open_fence)
    first = text.partition("\n")[0]
    is_plain = kept.partition("\n")[0] == first and not first[:1].isspace() and not is_mark(first)
    return f" {kept}" if is_plain else f"\n{kept}"


def _unix_lines(text: str) -> str:
    """A text with LF line ends, as readers see it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
