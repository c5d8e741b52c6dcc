"""Parsing in other processes, which joblib starts, or wherever it is told to work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING

from memkit.formats.records.adapters import Adapter, own_adapters, register_adapter

if TYPE_CHECKING:
    from memkit.formats.reader import Parsed, Task


def count(n_jobs: int | None) -> int:
    """How many processes joblib would use."""
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def parsed(tasks: Iterable[Task], n_jobs: int | None) -> Iterator[Parsed]:
    """What each task gives, in order; it ends early where a process was killed."""
    from joblib import Parallel, delayed

    adapters = own_adapters()
    with suppress(BrokenProcessPool):
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")
        yield from parallel(delayed(_parse)(os.getpid(), adapters, task) for task in tasks)


def _parse(asking: int, adapters: tuple[Adapter, ...], task: Task) -> Parsed:
    """One task, in another process; one that `asking` started ends with it, also where that is killed."""
    from memkit.formats.reader import parse_batch

    for adapter in adapters:
        register_adapter(adapter)
    if os.getppid() == asking:
        _end_with(asking)
    return parse_batch(*task)


@cache
def _end_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
