"""One function over many tasks in several processes, of which this is one.

Another process starts in the time in which this one reads 20,000 notes, so nobody waits for it: whoever is there and
free takes the next task. Tables travel as Arrow streams, as pickle takes them apart column by column.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import pyarrow as pa

from memkit.errors import MemkitError

Tables = dict[str, pa.Table]
Task = TypeVar("Task")
Rest = TypeVar("Rest")
_AHEAD = 2
"""Tasks that a process has at hand, so that it need not wait for its next one."""


def run(
    function: Callable[[Task], tuple[Tables, Rest]], tasks: Sequence[Task], n_jobs: int
) -> Iterator[tuple[Tables, Rest]]:
    """What `function` returns for each task, in their order; of its tables, those with rows.

    Parameters
    ----------
    n_jobs : int
        Processes, as joblib counts them.

    Raises
    ------
    MemkitError
        Where a process ended before its task did.
    """
    if n_jobs == 1 or len(tasks) < 2:
        yield from map(function, tasks)
        return
    from joblib import effective_n_jobs
    from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

    others = min(effective_n_jobs(n_jobs), len(tasks)) - 1
    pool = ProcessPoolExecutor(max(others, 1))
    todo, results = deque(tasks), deque[Future[Any]]()
    started = pool.submit(_load, function)
    try:
        while todo or results:
            room = _AHEAD * others if started.done() else 0
            while todo and sum(not result.done() for result in results) < room:
                results.append(pool.submit(_packed, function, todo.popleft()))
            if todo:
                results.append(Future())
                results[-1].set_result(function(todo.popleft()))
            while results and (results[0].done() or not todo):
                tables, rest = results.popleft().result()
                yield {name: _unpacked(table) for name, table in tables.items()}, rest
    except BrokenProcessPool as error:
        raise MemkitError(f"a process of n_jobs={n_jobs} ended too early: {error}. n_jobs=1 needs none.") from error
    finally:
        pool.shutdown(kill_workers=True)


def _load(function: object) -> None:
    """What another process does first: import what `function` needs, and what Arrow does at its first array."""
    pa.array([])


def _packed(function: Callable[[Task], tuple[Tables, Rest]], task: Task) -> tuple[dict[str, pa.Buffer], Rest]:
    tables, rest = function(task)
    return {name: _stream(table) for name, table in tables.items() if table.num_rows}, rest


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _unpacked(table: pa.Table | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(table).read_all() if isinstance(table, pa.Buffer) else table
