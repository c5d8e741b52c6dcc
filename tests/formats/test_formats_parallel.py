"""Tasks on several processes give what they give on one."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from memkit.formats.parallel import Pool
from memkit.formats.rows import Tables


def squares(task: int, seconds: float = 0.0) -> tuple[Tables, int]:
    print("not an answer")
    time.sleep(seconds)
    empty = pa.table({"n": pa.array([], pa.int64())})
    return {"square": pa.table({"n": [task * task]}), "empty": empty}, os.getpid()


def ends_elsewhere(home: int, task: int) -> tuple[Tables, int]:
    if os.getpid() != home:
        os._exit(1)
    return {}, os.getpid()


def wait_for_others(pool: Pool[int, int]) -> None:
    until = time.monotonic() + 60
    while not all(process.has_room for process in pool.others):
        assert time.monotonic() < until, "a process did not start"
        time.sleep(0.01)
        pool.look_after()


@pytest.mark.parametrize(("others", "count"), [(0, 5), (1, 0), (1, 1), (1, 9), (2, 2), (3, 40)])
def test_results_come_in_the_order_of_the_tasks(others: int, count: int) -> None:
    with Pool[int, int](squares) as pool:
        pool.start(others)
        wait_for_others(pool)
        results = list(pool.results([pool.add(task) for task in range(count)]))
    assert [tables["square"]["n"].to_pylist() for tables, _ in results] == [[task * task] for task in range(count)]


def test_a_process_that_is_there_works_while_this_one_adds_tasks() -> None:
    with Pool[int, int](squares) as pool:
        pool.start(1)
        wait_for_others(pool)
        jobs = [pool.add(task) for task in range(9)]
        while jobs[0].result is None:
            pool.look_after()
        assert jobs[0].result[1] != os.getpid()
        assert [tables["square"]["n"][0].as_py() for tables, _ in pool.results(jobs)] == [n * n for n in range(9)]


def test_nobody_waits_for_a_process_that_is_not_there_yet() -> None:
    with Pool[int, int](squares) as pool:
        pool.start(1)
        assert {process for _, process in pool.results([pool.add(task) for task in range(9)])} == {os.getpid()}


def test_a_process_that_ends_leaves_its_tasks_to_this_one() -> None:
    with Pool[int, int](partial(ends_elsewhere, os.getpid())) as pool:
        pool.start(2)
        wait_for_others(pool)
        jobs = [pool.add(task) for task in range(20)]
        assert any(process._tasks for process in pool.others)
        assert [process for _, process in pool.results(jobs)] == [os.getpid()] * 20


def test_a_function_that_cannot_be_imported_goes_by_value() -> None:
    with Pool[int, int](lambda task: ({}, task + 0 * os.getpid()), by_value=True) as pool:
        pool.start(1)
        wait_for_others(pool)
        jobs = [pool.add(task) for task in range(9)]
        assert [rest for _, rest in pool.results(jobs)] == list(range(9))


def test_what_an_interpreter_prints_when_it_starts_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')\nprint()", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Pool[int, int](squares) as pool:
        pool.start(1)
        wait_for_others(pool)
        jobs = [pool.add(task) for task in range(9)]
        assert {process for _, process in pool.results(jobs)} - {os.getpid()}


@pytest.mark.parametrize("missing", [{"executable": ""}, {"executable": "/nowhere/python"}, {"frozen": True}])
def test_where_no_process_can_be_started_this_one_does_all(
    missing: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in missing.items():
        monkeypatch.setattr(sys, name, value, raising=False)
    with Pool[int, int](squares) as pool:
        pool.start(1)
        assert [process for _, process in pool.results([pool.add(1), pool.add(2)])] == [os.getpid()] * 2


def test_nothing_is_imported_from_the_working_folder_and_nothing_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("open('imported', 'w')", encoding="utf-8")
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with Pool[int, int](squares) as pool:
        pool.start(1)
        wait_for_others(pool)
        assert len(list(pool.results([pool.add(task) for task in range(9)]))) == 9
        assert list((tmp_path / "temporary").iterdir())
    assert not (tmp_path / "imported").exists()
    assert not list((tmp_path / "temporary").iterdir())
