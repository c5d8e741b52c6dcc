"""Tasks on several processes give what they give on one."""

from __future__ import annotations

import os
import time
from functools import partial

import pyarrow as pa
import pytest

from memkit.errors import MemkitError
from memkit.formats import parallel
from memkit.formats.parallel import Tables


def squares(task: int, seconds: float = 0.0) -> tuple[Tables, int]:
    time.sleep(seconds)
    empty = pa.table({"n": pa.array([], pa.int64())})
    return {"square": pa.table({"n": [task * task]}), "empty": empty}, os.getpid()


def ends_elsewhere(home: int, task: int) -> tuple[Tables, int]:
    if os.getpid() != home:
        os._exit(1)
    time.sleep(0.005)
    return {}, task


@pytest.mark.parametrize(("n_jobs", "count"), [(1, 5), (2, 0), (2, 1), (2, 9), (3, 2), (-1, 9)])
def test_results_come_in_the_order_of_the_tasks(n_jobs: int, count: int) -> None:
    results = list(parallel.run(squares, range(count), n_jobs))
    assert [tables["square"]["n"].to_pylist() for tables, _ in results] == [[task * task] for task in range(count)]


def test_another_process_helps_once_it_is_there() -> None:
    slow = parallel.run(partial(squares, seconds=0.005), range(4000), 2)
    assert any(process != os.getpid() for _, process in slow)


def test_nobody_waits_for_a_process_that_is_not_there_yet() -> None:
    assert {process for _, process in parallel.run(squares, range(9), 2)} == {os.getpid()}


def test_a_process_that_ends_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(MemkitError, match="n_jobs=1 needs none"):
        list(parallel.run(partial(ends_elsewhere, os.getpid()), range(4000), 2))
