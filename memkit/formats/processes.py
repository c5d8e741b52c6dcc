"""Parsing in other processes, which joblib starts, or wherever it is told to work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import Any, TypeVar

from memkit.formats.records.adapters import Adapter, own_adapters, register_adapter

Done = TypeVar("Done")


def count(n_jobs: int | None) -> int:
    """How many processes joblib would use."""
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def results(act: Callable[..., Done], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None) -> Iterator[Done]:
    """What `act` gives for the arguments of each task, in order; what a process that was killed leaves is done here."""
    from joblib import Parallel, delayed

    adapters, done = own_adapters(), 0
    with suppress(BrokenProcessPool):
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")
        for result in parallel(delayed(_do)(os.getpid(), adapters, act, task) for task in tasks):
            done += 1
            yield result
    yield from (act(*task) for task in tasks[done:])


def _do(asking: int, adapters: tuple[Adapter, ...], act: Callable[..., Done], task: tuple[Any, ...]) -> Done:
    """One task, in another process; one that `asking` started ends with it, also where that is killed."""
    for adapter in adapters:
        register_adapter(adapter)
    if os.getppid() == asking:
        _end_with(asking)
    return act(*task)


@cache
def _end_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
