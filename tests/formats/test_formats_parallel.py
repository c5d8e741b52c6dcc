"""Tasks on several processes give what they give on one."""

from __future__ import annotations

import os
from functools import partial

import pyarrow as pa
import pytest

from memkit.errors import MemkitError
from memkit.formats import parallel
from memkit.formats.parallel import Tables


def squares(task: int) -> tuple[Tables, int]:
    empty = pa.table({"n": pa.array([], pa.int64())})
    return {"square": pa.table({"n": [task * task]}), "empty": empty}, os.getpid()


def ends_elsewhere(home: int, task: int) -> tuple[Tables, int]:
    if os.getpid() != home:
        os._exit(1)
    return {}, task


@pytest.mark.parametrize(("n_jobs", "count"), [(1, 5), (2, 0), (2, 1), (2, 9), (3, 2), (-1, 9)])
def test_results_come_in_the_order_of_the_tasks(n_jobs: int, count: int) -> None:
    results = list(parallel.run(squares, range(count), n_jobs))
    assert [tables["square"]["n"].to_pylist() for tables, _ in results] == [[task * task] for task in range(count)]


def test_more_processes_than_this_one_do_the_work() -> None:
    here = os.getpid()
    first = next(parallel.run(squares, range(9), 2))[1]
    assert first != here


def test_a_process_that_ends_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(MemkitError, match="n_jobs=1 needs none"):
        list(parallel.run(partial(ends_elsewhere, os.getpid()), range(9), 2))
