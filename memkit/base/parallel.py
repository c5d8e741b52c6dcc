"""Work in other processes or on other machines, with the backend that joblib is configured to use.

Long work in memkit is a function of values and paths that `results` calls for one task after another. The tasks do not
depend on the number of workers, so one process and a hundred give the same bytes. By default all work is done in this
process; within ``with joblib.parallel_config(backend="dask"):`` a cluster does it. Nothing here imports that backend.

A progress bar appears in a terminal or a notebook when work takes longer than two seconds. Whoever runs long work may
hear of it instead of showing bars, and end it (`heard`).
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from time import monotonic
from typing import Any, TypeVar

import pyarrow as pa

from memkit.errors import MemkitError

_DELAY = 2.0  # seconds before a bar appears: short work stays silent
_IDLE = 10.0  # seconds without work, after which the next is another's: a server's next call
Listener = Callable[[str, int, int | None], None]
"""It is told what is done, how much of it is done, and of how much, where that is known."""
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


class _Lines:
    """A listener where standard error is a file: a line every two seconds of a verb says what is done, and how far."""

    def __init__(self) -> None:
        self._spoke = self._worked = monotonic()

    def waits(self) -> float:
        """Seconds until the next line; work that comes after a pause is another's."""
        now = monotonic()
        if now - self._worked >= _IDLE:
            self._spoke = now
        self._worked = now
        return max(0.0, self._spoke + _DELAY - now)

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if not self.waits():
            self._spoke = self._worked
            of_all = f" of {total:,}" if total else ""
            print(f"memkit: {what}: {done:,}{of_all}", file=sys.stderr, flush=True)


_SPEAKS: list[_Lines] = []


def speak() -> None:
    """Let bars be lines on standard error where that is no terminal, as the command line does."""
    _SPEAKS[:] = [_Lines()]


@contextlib.contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Have `listener` told of all work in this block, in place of bars; what it raises ends the work.

    >>> with heard(lambda what, done, total: print(what, done, total)):
    ...     _ = list(bar("counting", [1, 2]))
    counting 1 2
    counting 2 2
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def bar(what: str, items: Iterable[Any] | None = None, silent: bool = False, **options: Any) -> Any:
    """A tqdm bar over `items`, or one to update by hand; the environment variable ``TQDM_DISABLE=1`` hides all bars.

    >>> list(bar("counting", [1, 2], silent=True))
    [1, 2]
    """
    if (listener := _LISTENER.get()) is not None:
        return _Told(what, items, options.get("total"), listener)
    if silent or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return _Told(what, items, None, lambda *_: None)
    # Where tqdm would show nothing its import, of 4 MB, is spared.
    if not getattr(sys.stderr, "isatty", bool)() and (_SPEAKS or "ipykernel" not in sys.modules):
        return _Told(what, items, options.get("total"), _SPEAKS[0] if _SPEAKS else lambda *_: None)
    from tqdm.auto import tqdm

    # For tqdm, disable=None means: show the bar only in a terminal or a notebook. Many short works are a long verb.
    return tqdm(items, desc=what, disable=None, delay=_SPEAKS[0].waits() if _SPEAKS else _DELAY, **options)


class _Told(contextlib.nullcontext[Any]):
    """Stands in for a bar where somebody listens, or nobody looks, so that tqdm need not be imported."""

    def __init__(self, what: str, items: Iterable[Any] | None, total: int | None, listener: Listener) -> None:
        super().__init__(self)
        self._what, self._items, self._done, self._listener = what, items, 0, listener
        self._total = len(items) if total is None and isinstance(items, Sized) else total

    def __iter__(self) -> Iterator[Any]:
        for item in () if self._items is None else self._items:
            yield item
            self.update()

    def update(self, n: int = 1) -> None:
        """So many more are done."""
        self._done += n
        self._listener(self._what, self._done, self._total)


Done = TypeVar("Done")
# A round bound: a new worker of a cluster may take minutes to start.
PATIENCE = 300.0
"""Seconds to wait for a worker after the last one was lost, before an error is raised."""
_NO_WORKERS = "no worker for {:g} seconds (a worker without memkit ends at its first task)"
_thread_state = threading.local()
"""``inside`` is True while a shared task runs, whose own work is not shared again."""


def workers(n_jobs: int | None = None) -> int:
    """The number of processes, on this or other machines, that would share work; 1 is this process alone.

    Parameters
    ----------
    n_jobs : int, optional
        As in joblib; None is what ``joblib.parallel_config`` sets, and 1 without it.

    Raises
    ------
    MemkitError
        Where joblib is configured to use a cluster that has no worker.
    """
    if getattr(_thread_state, "inside", False) or (n_jobs is None and "joblib" not in sys.modules):
        return 1
    from joblib import effective_n_jobs

    try:
        # Whatever a cluster's client raises comes out here, as errors of many packages.
        return 1 if _uses_threads("processes") else int(effective_n_jobs(n_jobs))
    except Exception as error:
        raise _explained(error) from error


def is_configured() -> bool:
    """Whether joblib is configured to use processes, so that work that would use threads uses them too."""
    return workers() > 1 and not _uses_threads("threads")


def _uses_threads(prefer: str) -> bool:
    from joblib.parallel import get_active_backend

    return bool(getattr(get_active_backend(prefer=prefer)[0], "supports_sharedmem", False))


def results(
    act: Callable[..., Done], tasks: Iterable[tuple[Any, ...]], n_jobs: int | None = None, prefer: str = "processes"
) -> Iterator[Done]:
    """The results of `act` for the arguments of each task, in order, each as soon as it is ready.

    This process does all the work if there are no other workers, and a single task unless `n_jobs` is given. It also
    does the tasks that remain when a worker process of this machine is killed. On a cluster, the scheduler gives the
    tasks of a killed worker to another one.

    Parameters
    ----------
    prefer : {'processes', 'threads'}
        What to use unless joblib is configured otherwise.

    Raises
    ------
    MemkitError
        Where the cluster is lost, has no worker for `PATIENCE` seconds, or a worker lacks a package. Errors raised by
        `act` are passed on unchanged.
    """
    iterator = iter(tasks)
    # Two tell whether there is anything to share; where there is not, each of the rest is made when its turn comes.
    first = list(itertools.islice(iterator, 2))
    is_local = getattr(_thread_state, "inside", False) if prefer == "threads" else workers(n_jobs) < 2
    if is_local or not first or (len(first) == 1 and n_jobs is None):
        yield from (act(*task) for task in itertools.chain(first, iterator))
    else:
        yield from _shared(act, [*first, *iterator], n_jobs, prefer)


def _shared(act: Callable[..., Done], tasks: list[tuple[Any, ...]], n_jobs: int | None, prefer: str) -> Iterator[Done]:
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    n_done, finished = 0, threading.Event()
    parallel = Parallel(n_jobs=n_jobs, return_as="generator", prefer=prefer)
    args = (parallel, get_active_backend(prefer=prefer)[0], n_jobs, finished)
    threading.Thread(target=_watch, args=args, daemon=True).start()
    try:
        # A tuple is sent with its task. joblib would store single arguments on one worker, and lose them with it.
        for result in parallel(delayed(_run_task)(os.getpid(), act, task) for task in tasks):
            n_done += 1
            yield result
    except BrokenExecutor:
        yield from (act(*task) for task in tasks[n_done:])
    except Exception as error:
        explained = _explained(error) if parallel.timeout is None else _lost(_NO_WORKERS.format(PATIENCE))
        if explained is error:
            raise
        raise explained from error
    finally:
        finished.set()


def _watch(parallel: Any, backend: Any, n_jobs: int | None, finished: threading.Event) -> None:
    """Make joblib stop waiting when there are no workers; a cluster would wait for ever, without a message.

    Dask has a setting against that, `no-workers-timeout`, but in its scheduler, which is somebody else's.
    """
    last_seen = time.monotonic()
    # Ten looks within the patience, so that one missed answer of the cluster is no verdict.
    while not finished.wait(PATIENCE / 10):
        with suppress(Exception):
            backend.effective_n_jobs(n_jobs)  # raises where there is no worker
            last_seen = time.monotonic()
        parallel.timeout = 0.0 if time.monotonic() - last_seen > PATIENCE else None


def _lost(reason: str) -> MemkitError:
    return MemkitError(
        f"the cluster was lost: {reason}. Nothing half done was kept; connect to a scheduler that runs and has workers,"
        " and start again."
    )


def _explained(error: Exception) -> Exception:
    """The cluster's own errors in words for a user; all other errors unchanged."""
    if type(error).__name__ == "KilledWorker":
        return MemkitError(f"one task killed every worker that tried it, mostly for lack of memory: {error}")
    if isinstance(error, ImportError):  # raised where memkit is not installed and could not catch it
        return _lacking(error)
    if type(error).__module__.partition(".")[0] in ("distributed", "dask", "tornado"):
        return _lost(str(error)[:300])
    if isinstance(error, TimeoutError) and "has no worker" in str(error):
        return MemkitError(f"the cluster has no worker: {str(error)[:300]}")
    return error


def _run_task(parent: int, act: Callable[..., Done], task: tuple[Any, ...]) -> Done:
    """Run one task in a worker; a child process of `parent` ends with it, also if the parent is killed."""
    if os.getppid() == parent:
        _end_with(parent)
    _keep_freed_memory()
    previous, _thread_state.inside = getattr(_thread_state, "inside", False), True
    try:
        return act(*task)
    except ImportError as error:
        raise _lacking(error) from error
    finally:
        _thread_state.inside = previous


def _lacking(error: ImportError) -> MemkitError:
    return MemkitError(f"a worker lacks a package: {error}. Install memkit with the same extras on every worker.")


@cache
def _keep_freed_memory() -> None:
    """Let the process reuse freed memory, which is glibc's default.

    Dask starts its workers so that freed memory goes back to the system at once; a sweep of 1,728 settings then takes
    13.5 s of processor time in place of 12.0, and half of the page faults are for arrays that it had before.
    """
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") == "65536":
        with suppress(AttributeError, OSError, TypeError):  # the system has another memory allocator
            libc = ctypes.CDLL(None)
            libc.mallopt(-1, 64 << 20)  # M_TRIM_THRESHOLD
            libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD


@cache
def _end_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            # So long a worker may outlive its parent; there is no signal for that on all systems.
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def system_memory() -> Iterator[None]:
    """Have Arrow take memory of the system within the block, and give back what is free after it.

    Arrow's own pool keeps much of what long work took on its way: a fifth of the peak of a fit.
    """
    before, system = pa.default_memory_pool(), pa.system_memory_pool()
    before.release_unused()
    try:
        pa.set_memory_pool(system)
        yield
        # Arrow asks its default pool, whichever pool is told to: after the block that would be its own.
        system.release_unused()
    finally:  # also where a Ctrl-C falls into what is released
        if before.backend_name != system.backend_name:  # else another thread's block may have ended
            pa.set_memory_pool(before)
