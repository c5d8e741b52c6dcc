"""One function over many tasks in several processes, of which this is one.

The others are bare interpreters: they are there in a third of the time that a library's pool takes with what it
imports. Tasks and results lie in files of a private folder, and pipes only tell that there is one more, so that neither
side waits for the other to read: whoever is free takes the next task.
"""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Generic, TypeVar

import pyarrow as pa

from memkit.formats.rows import Tables

Task = TypeVar("Task")
Rest = TypeVar("Rest")
_AHEAD = 3
"""Tasks that a process has at hand, as this one looks after it only between tasks of its own."""
_START = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from memkit.formats.parallel import serve
serve()
"""
_DONE = b"memkit: done\n"
"""What another process says once it is there, and after each task; whatever else it prints is not for us."""
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(eq=False)
class Job(Generic[Task, Rest]):
    """A task, and what came of it once it is done."""

    task: Task
    result: tuple[Tables, Rest] | None = None


class Pool(Generic[Task, Rest]):
    """Processes that apply one function to tasks; to be used in a ``with`` statement.

    Parameters
    ----------
    function : callable
        ``function(task) -> (tables, rest)``; other processes get it pickled.
    by_value : bool
        Whether `function` holds functions of the user, which other processes cannot import.

    Attributes
    ----------
    others : list
        The processes beside this one. One that ends too early leaves its tasks to the rest.
    """

    def __init__(self, function: Callable[[Task], tuple[Tables, Rest]], *, by_value: bool = False) -> None:
        self._function = function
        self._by_value = by_value
        self._todo: deque[Job[Task, Rest]] = deque()
        self._stack = ExitStack()
        self.others: list[_Process[Task, Rest]] = []

    def __enter__(self) -> Pool[Task, Rest]:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.others:
            process.end()
        self._stack.close()

    def start(self, others: int) -> None:
        """Start so many processes more, as far as the system lets them be started."""
        if not sys.executable or getattr(sys, "frozen", False):
            return  # this one is no interpreter that could be started again
        with suppress(OSError):
            for _ in range(others):
                folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="memkit-")))
                self.others.append(_Process(folder, self._start(folder)))

    def add(self, task: Task) -> Job[Task, Rest]:
        """Let whoever is free do `task`."""
        job = Job[Task, Rest](task)
        self._todo.append(job)
        self.look_after()
        return job

    def look_after(self) -> None:
        """Take what the others have done, and give them more."""
        for process in self.others:
            self._todo.extendleft(reversed(process.collect()))
            while process.has_room and (job := self._next()):
                process.give(job)

    def results(self, jobs: Iterable[Job[Task, Rest]]) -> Iterator[tuple[Tables, Rest]]:
        """The tables with rows and the rest of each job, in order; this process does what nobody has begun."""
        for job in jobs:
            while job.result is None:
                self.look_after()
                if own := self._next():
                    own.result = self._function(own.task)
                elif job.result is None:
                    next(process for process in self.others if job in process.given).wait()
            yield job.result

    def _start(self, folder: Path) -> bytes:
        """What another process reads first."""
        head = pickle.dumps(sys.path) + pickle.dumps((folder, self._by_value))
        if not self._by_value:
            return head + pickle.dumps(self._function)
        import cloudpickle

        return head + bytes(cloudpickle.dumps(self._function))

    def _next(self) -> Job[Task, Rest] | None:
        return self._todo.popleft() if self._todo else None


class _Process(Generic[Task, Rest]):
    """Another process, as this one sees it.

    Attributes
    ----------
    given : deque of Job
        What it has to do, in order.
    """

    def __init__(self, folder: Path, start: bytes) -> None:
        utf8 = ("-X", "utf8") if sys.flags.utf8_mode else ()
        command = [sys.executable, "-P", *utf8, "-c", _START]  # -P: nothing is imported from the working folder
        # A session of its own: an interrupt from the keyboard is for this process, which then ends that one.
        environment = os.environ | _ENVIRONMENT
        self._popen = Popen(command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True)
        self._into: Any = self._popen.stdin
        self._out: Any = self._popen.stdout
        self.given: deque[Job[Task, Rest]] = deque()
        self._folder = folder
        self._tasks = self._results = 0
        self._is_there = False
        self._answers: deque[bytes] = deque()
        self._news = Event()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._tell(start)

    @property
    def has_room(self) -> bool:
        """Whether it can be given a job now."""
        return self._is_there and len(self.given) < _AHEAD

    def give(self, job: Job[Task, Rest]) -> None:
        """Let it do `job` after those it has."""
        with suppress(OSError):  # the other process ends where it finds no task
            (self._folder / f"task{self._tasks}").write_bytes(pickle.dumps(job.task))
        self._tasks += 1
        self.given.append(job)
        self._tell(b"\n")

    def collect(self) -> list[Job[Task, Rest]]:
        """Take the results that have come; where it ended, the jobs that it leaves."""
        self._news.clear()
        while self._answers:
            answer = self._answers.popleft()
            if not answer:
                self._is_there = False
                left = list(self.given)
                self.given.clear()
                return left
            if answer == _DONE and self._is_there:
                self.given.popleft().result = _read(self._folder / f"result{self._results}")
                self._results += 1
            self._is_there |= answer == _DONE
        return []

    def wait(self) -> None:
        """Until there is something to collect."""
        self._news.wait()

    def end(self) -> None:
        """Stop it, whatever it does."""
        self._popen.kill()
        self._popen.wait()
        self._listener.join()
        self._out.close()
        with suppress(OSError):
            self._into.close()

    def _tell(self, data: bytes) -> None:
        with suppress(OSError):  # it ended, which `collect` is told
            self._into.write(data)
            self._into.flush()

    def _listen(self) -> None:
        for line in self._out:
            self._answers.append(line)
            self._news.set()
        self._answers.append(b"")
        self._news.set()


def serve() -> None:
    """What another process does: one task for each line of its standard input, until that ends."""
    gc.disable()
    tasks, out = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb", 0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not count as an answer
    folder, by_value = pickle.load(tasks)  # noqa: S301 - from the process that started this one
    if not by_value:
        sys.meta_path.insert(0, _NoPandas())
    function = pickle.load(tasks)  # noqa: S301 - as above
    pa.array([""])  # imports what the first array does
    with suppress(BrokenPipeError):
        out.write(_DONE)
        for number, _ in enumerate(tasks):
            file = folder / f"task{number}"
            task = pickle.loads(file.read_bytes())  # noqa: S301 - as above
            file.unlink()
            _write(folder / f"result{number}", *function(task))
            out.write(_DONE)
    shutil.rmtree(folder, ignore_errors=True)  # who started this one is gone


class _NoPandas:
    """Arrow imports pandas at its first array, if there is any, which takes longer than all else at the start."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def _write(path: Path, tables: Tables, rest: object) -> None:
    filled = {name: table for name, table in tables.items() if table.num_rows}
    with path.open("wb") as file:
        pickle.dump((list(filled), rest), file)
        for table in filled.values():
            with pa.ipc.new_stream(pa.PythonFile(file, mode="w"), table.schema) as stream:
                stream.write_table(table)


def _read(path: Path) -> tuple[Tables, Any]:
    with path.open("rb") as file:
        names, rest = pickle.load(file)  # noqa: S301 - from a process that this one started, in a private folder
        tables = {name: pa.ipc.open_stream(pa.PythonFile(file, mode="r")).read_all() for name in names}
    path.unlink()
    return tables, rest
