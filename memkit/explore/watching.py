"""`memkit.watch`: a folder is read again after files in it were saved, and searches and panels follow.

A thread waits for the file system and only says that something was saved. What is read and fitted again is so in the
thread that uses the results: in a notebook between two cells, elsewhere where it is asked for.
"""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from memkit import Corpus
from memkit.errors import MemkitError, MissingExtraError, ParameterError, count_of, some_of
from memkit.extend.showing import check_corpus, safe
from memkit.extend.writing import check_value
from memkit.formats.disk.files import SKIPPED_FOLDERS, SKIPPED_WITH, is_passed_over
from memkit.formats.registry import FORMATS, formats_for
from memkit.tables.corpus import home

Signals = Callable[[threading.Event], Iterator[object]]
"""Something to iterate over, which yields after files were saved and ends when the event is set."""
_LONGEST = 5
"""How many times as long as the pause is waited for one, before what was saved until then is read."""
_SHOWN = 3
"""The files that are named of those that changed."""
# A round bound: a reading that is under way may end.
_JOINED_S = 5.0
_END = object()
_FOLDER = (".",)
_NONE = (None, "", "")
"""What is known of a file that is not there."""


@dataclass(frozen=True)
class Change:
    """What one reading after a save brought.

    Attributes
    ----------
    paths : tuple of str
        The files that changed, relative to the folder.
    corpus : Corpus
        The folder as it is now; as it was before where it cannot be read.
    n_before : int
        How many memories there were before.
    error : str
        What went wrong: the folder that cannot be read, or a search or panel that could not follow.
    """

    paths: tuple[str, ...]
    corpus: Corpus
    n_before: int
    error: str = ""

    def __str__(self) -> str:
        n, files = self.corpus.memories.num_rows, some_of(self.paths, _SHOWN)
        files = "the folder" if self.paths == _FOLDER else files
        counted = count_of(n, "memory") + (f", {n - self.n_before:+,}" if n != self.n_before else "")
        return safe(f"Read again after {files} changed: {counted}." if self.paths else self.error)


class Watch:
    """A folder under watch; made by `watch`.

    Attributes
    ----------
    corpus : Corpus
        The folder as it was last read.
    n_readings : int
        How many readings found a change.
    errors : list of str
        Everything that went wrong, the last one last.
    """

    def __init__(self, corpus: Corpus, followers: tuple[Any, ...], signals: Signals) -> None:
        for follower in followers:
            can_follow = any(callable(getattr(follower, name, None)) for name in ("follow", "fit"))
            if isinstance(follower, type) or not can_follow:
                got = f"the class {follower.__name__}" if isinstance(follower, type) else type(follower).__name__
                raise ParameterError(f"watch: expected a search, a panel or another object with fit. Got {got}.")
        self.corpus, self.n_readings, self.errors = corpus, 0, list[str]()
        self._followers = followers
        self._saved: SimpleQueue[object] = SimpleQueue()
        self._stopped = threading.Event()
        self._has_ended = False
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._thread = threading.Thread(target=self._wait_for, args=(signals,), name="memkit-watch", daemon=True)
        self._thread.start()

    def _wait_for(self, signals: Signals) -> None:
        """In the thread: pass on that something was saved."""
        end: object = _END
        try:
            for _ in signals(self._stopped):
                self._pass_on(None)
        except Exception as error:  # whatever it is has to be told, and here nobody hears it
            end = error
        self._pass_on(end)

    def _pass_on(self, signal: object) -> None:
        self._saved.put(signal)
        if self._loop is not None and not self._stopped.is_set():
            try:
                self._loop.call_soon_threadsafe(self._between_cells)
            except RuntimeError:  # the loop is closed
                self._stopped.set()

    def _between_cells(self) -> None:
        if not self._stopped.is_set() and not self._saved.empty():
            change = self.refresh()
            if change is not None and change.error:
                warnings.warn(f"watch: {safe(change.error)}", RuntimeWarning, stacklevel=2)

    def refresh(self) -> Change | None:
        """Read the folder again now, whether or not a save was noticed; None where nothing changed."""
        fault = ""
        while True:
            try:
                fault = self._fault_of(self._saved.get_nowait()) or fault
            except Empty:
                return self._read(fault)

    def wait(self, timeout_s: float | None = None) -> Change | None:
        """The next change.

        Parameters
        ----------
        timeout_s : float, seconds, or None
            How long to wait for each signal; None is for ever.

        Returns
        -------
        Change or None
            None where nothing was saved in this time, or the watch has ended.
        """
        check_value("watch", "timeout_s", timeout_s, "float", nullable=True, low=0, unit="seconds")
        while not self._has_ended:
            try:
                signal = self._saved.get(timeout=timeout_s)
            except Empty:
                return None
            fault = self._fault_of(signal)
            if signal is not _END and (change := self._read(fault)) is not None:
                return change
        return None

    def _fault_of(self, signal: object) -> str:
        """What ended the waiting, where a signal says that something did."""
        self._has_ended = self._has_ended or signal is not None
        return f"{type(signal).__name__}: {signal}" if isinstance(signal, Exception) else ""

    def _read(self, fault: str) -> Change | None:
        before, paths, faults = self.corpus, tuple[str, ...](), [fault] if fault else []
        try:
            self.corpus = before.refresh()
        except (MemkitError, OSError) as error:
            faults.append(str(error))
        if any(self.corpus.tables.get(name) is not table for name, table in before.tables.items()):
            paths = _changed(before, self.corpus)
        if not paths and not faults:
            return None
        change = Change(paths, self.corpus, before.memories.num_rows)
        if paths:
            self.n_readings += 1
            faults += self._have_followed(str(change))
        self.errors += faults
        return replace(change, error="; ".join(faults))

    def _have_followed(self, words: str) -> list[str]:
        """Have searches and panels follow, searches first; what goes wrong in one does not stop the others."""
        faults = []
        for follower in sorted(self._followers, key=lambda one: hasattr(one, "follow")):
            try:
                if hasattr(follower, "follow"):
                    follower.follow(self.corpus, words)
                else:
                    follower.fit(self.corpus)
            except (MemkitError, OSError) as error:
                faults.append(f"{type(follower).__name__}: {error}")
        return faults

    def stop(self) -> None:
        """Watch no more; what was read last stays."""
        self._stopped.set()
        self._has_ended = True
        self._saved.put(_END)  # whoever waits goes on
        if self._thread is not threading.current_thread():
            self._thread.join(_JOINED_S)

    @property
    def is_running(self) -> bool:
        """Whether the folder is still watched."""
        return self._thread.is_alive() and not self._stopped.is_set()

    def __iter__(self) -> Iterator[Change]:
        while (change := self.wait()) is not None:
            yield change

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "" if self.is_running else ", stopped"
        faults = f", {count_of(len(self.errors), 'error')}, last: {safe(self.errors[-1])}" if self.errors else ""
        counted = f"{count_of(self.corpus.memories.num_rows, 'memory')}, read again {self.n_readings:,} ×"
        return f"Watch({counted}{state}{faults})"


# An editor's save is several events within some tenths of a second.
def watch(corpus: Corpus, *followers: Any, pause_s: float = 0.3) -> Watch:
    """Watch the folder of a corpus: after a save it is read again, and searches and panels follow.

    Files are watched in a thread, but read elsewhere, so that nothing changes while your code runs. In a notebook that
    is the kernel's own thread, between two cells, as when a slider moves. In a script or a plain Python prompt nothing
    is read until you ask: ``for change in watched``, ``watched.wait()`` or ``watched.refresh()``. Only files that
    `memkit.read` would read count; ``.git``, ``.memkit`` and the targets of symbolic links do not. A corpus never
    changes: ``watched.corpus`` is the new one.

    Parameters
    ----------
    corpus : Corpus
        Read from a folder as it is now.
    *followers : Retriever, ContextBuilder, panel, or another object with ``fit``
        Fitted again on each new state; a panel shows it, and says that its data changed.
    pause_s : float, seconds
        Files are read when nothing was saved for this long, as an agent or an editor may save several at once.

    Returns
    -------
    Watch
        ``.corpus``, ``.refresh()``, ``.wait()``, ``.stop()``; also a context manager, and an iterator of changes.

    Raises
    ------
    MissingExtraError
        Without the package watchfiles.
    MemkitError, ChangeRefusedError, ParameterError
        For a corpus without a folder, one of a git revision, and a follower that cannot follow.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> root = mk.testing.write_files(tempfile.mkdtemp(), {"tea.md": "# Чай\\n"})
    >>> corpus = mk.read(root)
    >>> search = mk.Retriever(encoder=None).fit(corpus)
    >>> with mk.watch(corpus, search) as watched:
    ...     _ = mk.testing.write_files(root, {"new.md": "Кофе с мёдом\\n"})
    ...     print(watched.refresh())
    Read again after new.md changed: 2 memories, +1.
    >>> search.search("кофе")["path"].to_pylist()
    ['new.md']
    """
    check_corpus("watch", corpus)
    check_value("watch", "pause_s", pause_s, "float", low=0, low_open=True, unit="seconds")
    return Watch(corpus, followers, saves_of(corpus, pause_s))


def saves_of(corpus: Corpus, pause_s: float) -> Signals:
    """The saves of files that a read of the corpus would read."""
    folder, (root, options) = home(corpus), (corpus._source().root, corpus._source().options)
    try:
        import watchfiles
    except ImportError as error:
        raise MissingExtraError("watchfiles", "watch") from error
    formats = formats_for(options.formats, options.format) if options.formats or options.format else FORMATS
    endings = tuple({ending for format in formats for ending in format.endings})
    alone = None if root.is_dir() else root.resolve().name

    def counts(change: watchfiles.Change, path: str) -> bool:
        relative = Path(os.path.relpath(path, folder)).as_posix()
        is_gone = change == watchfiles.Change.deleted
        return relative == alone if alone else is_read(folder, relative, endings, options.hidden, is_gone)

    def signals(stopped: threading.Event) -> Iterator[object]:
        step = max(1, round(pause_s * 1000))
        watched = watchfiles.watch(
            folder, watch_filter=counts, step=step, debounce=_LONGEST * step, stop_event=stopped,
            recursive=alone is None, ignore_permission_denied=True, raise_interrupt=False,
        )  # fmt: skip  # what it is told is one thing
        for changes in watched:
            yield changes
            if not folder.exists() or folder.resolve() != folder:  # gone, or a link in its place
                return

    return signals


def is_read(folder: Path, path: str, endings: tuple[str, ...], hidden: str, is_gone: bool = False) -> bool:
    """Whether a change of the file or folder at `path`, relative to `folder`, can change what is read there.

    >>> paths = ("a.md", "a.md~", ".git/a.md", ".claude/memory/b.md")
    >>> [is_read(Path("/none"), path, (".md",), "known") for path in paths]
    [True, False, False, True]
    >>> is_read(Path("/none"), "old-folder", (".md",), "known", is_gone=True)
    True
    """
    if path == ".":
        return is_gone
    names = path.split("/")
    if names[0] == ".." or not SKIPPED_FOLDERS.isdisjoint(names):
        return False
    on_disk = folder / path
    if any((folder / parent).is_symlink() for parent in (Path(path), *Path(path).parents)):
        return False
    is_folder = on_disk.is_dir()
    if is_passed_over(path, hidden, is_folder=is_folder) and names[-1] not in SKIPPED_WITH:
        return False
    return is_gone or is_folder or names[-1].lower().endswith(endings) or names[-1] in SKIPPED_WITH


def _changed(before: Corpus, after: Corpus) -> tuple[str, ...]:
    """The files whose content, or whose way to be read, differs; "." where only the whole tells."""
    old, new = before._source().files, after._source().files
    paths = sorted(path for path in old.keys() | new.keys() if old.get(path, _NONE)[1:] != new.get(path, _NONE)[1:])
    return tuple(paths) or _FOLDER
