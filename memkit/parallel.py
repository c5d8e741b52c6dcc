"""Work in other processes or on other machines: joblib's, whatever it was told to use.

All that is long in memkit is a function of values and paths, put to `results` piece by piece. Where the pieces are cut
does not depend on who works, so that one process and a hundred give the same bytes. By default all is done here; within
``with joblib.parallel_config(backend="dask"):`` a cluster does it, and nothing here imports what joblib uses.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from memkit.errors import MemkitError

Done = TypeVar("Done")
PATIENCE = 300.0
"""Seconds that shared work waits for workers where the last of them was lost; then it is given up with an error."""
_NONE_LEFT = "no worker for {:g} seconds (one that lacks memkit ends with its first piece of work)"
_here = threading.local()
"""``inside`` where a piece of shared work is done, which is not shared again."""


def workers(n_jobs: int | None = None) -> int:
    """How many processes, here or on other machines, would share work; 1 is this one alone.

    Parameters
    ----------
    n_jobs : int, optional
        As joblib counts; None is what ``joblib.parallel_config`` says, and 1 without it.

    Raises
    ------
    MemkitError
        Where the cluster that joblib was told to use has no worker.
    """
    if getattr(_here, "inside", False) or (n_jobs is None and "joblib" not in sys.modules):
        return 1
    from joblib import effective_n_jobs

    try:
        return 1 if _uses_threads("processes") else int(effective_n_jobs(n_jobs))
    except Exception as error:
        raise _explained(error) from error


def is_told() -> bool:
    """Whether joblib was told to use processes, so that work for which threads are as good goes there too."""
    return workers() > 1 and not _uses_threads("threads")


def _uses_threads(prefer: str) -> bool:
    from joblib.parallel import get_active_backend

    return bool(getattr(get_active_backend(prefer=prefer)[0], "supports_sharedmem", False))


def results(
    act: Callable[..., Done], tasks: Iterable[tuple[Any, ...]], n_jobs: int | None = None, prefer: str = "processes"
) -> Iterator[Done]:
    """What `act` gives for the arguments of each task, in order, as soon as it is there.

    A single task that nobody asked others for, and all where nobody shares the work, is done in this process; so is
    what a process of this machine leaves that was killed. What a killed worker of a cluster leaves is given to another
    by its scheduler.

    Parameters
    ----------
    prefer : {'processes', 'threads'}
        What is used where joblib was told of no other.

    Raises
    ------
    MemkitError
        Where the cluster is lost, or has had no worker for `PATIENCE` seconds, or a worker lacks a package. The errors
        of `act` come as they are.
    """
    given = iter(tasks)
    first = list(itertools.islice(given, 2))
    is_alone = getattr(_here, "inside", False) if prefer == "threads" else workers(n_jobs) < 2
    if is_alone or not first or (len(first) == 1 and n_jobs is None):
        yield from (act(*task) for task in itertools.chain(first, given))
    else:
        yield from _shared(act, [*first, *given], n_jobs, prefer)


def _shared(act: Callable[..., Done], tasks: list[tuple[Any, ...]], n_jobs: int | None, prefer: str) -> Iterator[Done]:
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    done, over = 0, threading.Event()
    parallel = Parallel(n_jobs=n_jobs, return_as="generator", prefer=prefer)
    told = (parallel, get_active_backend(prefer=prefer)[0], n_jobs, over)
    threading.Thread(target=_watch, args=told, daemon=True).start()
    try:
        # A tuple goes with its piece of work. joblib would lay arguments by themselves on one worker, lost with it.
        for result in parallel(delayed(_do)(os.getpid(), act, task) for task in tasks):
            done += 1
            yield result
    except BrokenProcessPool:
        yield from (act(*task) for task in tasks[done:])
    except Exception as error:
        explained = _explained(error) if parallel.timeout is None else _lost(_NONE_LEFT.format(PATIENCE))
        if explained is error:
            raise
        raise explained from error
    finally:
        over.set()


def _watch(parallel: Any, backend: Any, n_jobs: int | None, over: threading.Event) -> None:
    """Have joblib end its waiting where there are no workers, for which a cluster waits without end or a word."""
    seen = time.monotonic()
    while not over.wait(PATIENCE / 10):
        with suppress(Exception):
            backend.effective_n_jobs(n_jobs)  # raises where there is none
            seen = time.monotonic()
        parallel.timeout = 0.0 if time.monotonic() - seen > PATIENCE else None


def _lost(how: str) -> MemkitError:
    return MemkitError(
        f"the cluster was lost: {how}. Nothing half done was kept; connect to a scheduler that runs and has workers,"
        " and start again."
    )


def _explained(error: Exception) -> Exception:
    """What the cluster's own errors mean to a user; others as they are."""
    if type(error).__name__ == "KilledWorker":
        return MemkitError(
            f"one piece of the work killed every worker that tried it, mostly for want of memory: {error}"
        )
    if isinstance(error, ImportError):  # met before there was memkit to catch it there
        return _lacking(error)
    if type(error).__module__.partition(".")[0] in ("distributed", "dask", "tornado"):
        return _lost(str(error)[:300])
    if isinstance(error, TimeoutError) and "has no worker" in str(error):
        return MemkitError(f"the cluster has no worker: {str(error)[:300]}")
    return error


def _do(asking: int, act: Callable[..., Done], task: tuple[Any, ...]) -> Done:
    """One task, wherever it is done; a process that `asking` started ends with it, also where that is killed."""
    if os.getppid() == asking:
        _end_with(asking)
    _keep_freed()
    before, _here.inside = getattr(_here, "inside", False), True
    try:
        return act(*task)
    except ImportError as error:
        raise _lacking(error) from error
    finally:
        _here.inside = before


def _lacking(error: ImportError) -> MemkitError:
    return MemkitError(f"a worker lacks a package: {error}. Install memkit with the same extras wherever work is done.")


@cache
def _keep_freed() -> None:
    """Have memory that is freed be used again, which is glibc's default.

    Dask starts its workers so that it goes back to the system at once, and a sweep took twice the processor's time to
    get it again for each array.
    """
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") == "65536":
        with suppress(AttributeError, OSError, TypeError):  # another library for memory
            libc = ctypes.CDLL(None)
            libc.mallopt(-1, 64 << 20)  # M_TRIM_THRESHOLD
            libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD


@cache
def _end_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
