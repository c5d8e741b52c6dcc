"""Outputs are compared, and a progress bar says how busy the machine was; all kernels share a cache of vectors.

On Linux kernels are forks of one process, which has imported most of what lies beneath memkit: a second for each.
"""

import multiprocessing
import os
import sys
from collections.abc import Generator, Mapping
from typing import Any

import pytest

os.environ["TQDM_DISABLE"] = "1"

BENEATH = [
    *("ipykernel.kernelapp", "ipykernel.debugger", "IPython.extensions.storemagic", "psutil", "pandas", "anywidget"),
    *("pyarrow.compute", "pyarrow.dataset", "duckdb", "re2", "yaml", "rapidfuzz", "scipy.sparse", "faiss"),
    *("rich.table", "matplotlib.backends.backend_agg", "matplotlib.figure"),
]
"""Imported before the fork. None of it starts a thread, but OpenBLAS, which starts its own again after a fork."""

KERNEL = """
import os, sys, threading

os.setsid()  # a kernel is killed with all that it started
tests.send("is in a session of its own")
threading.Thread(target=lambda: (tests.poll(None), os._exit(1)), daemon=True).start()  # it ends when the tests do
os.environ.clear()
os.environ.update(env)
os.chdir(cwd)
for stream in (1, 2):
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)

import pandas
from ipykernel.kernelapp import launch_new_instance

pandas.set_option("display.max_columns", 20)  # as pandas has it that a kernel imports; the server looks like a terminal
launch_new_instance(arguments)
"""


class Forked:
    """A kernel that is a fork; it takes what jupyter_client gives to a `subprocess.Popen`, and answers as one."""

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], env: Mapping[str, str], cwd: str, **_: Any) -> None:
        forks = multiprocessing.get_context("forkserver")
        forks.set_forkserver_preload(BENEATH)
        self._ends_with_us, tests = forks.Pipe()
        env = {name: value for name, value in env.items() if name != "JPY_PARENT_PID"}  # its parent is the server
        given = {"arguments": command[command.index("-f") :], "env": env, "cwd": cwd, "tests": tests}
        self._process = forks.Process(target=exec, args=(KERNEL, given))
        self._process.start()
        tests.close()
        self._ends_with_us.recv()
        self.pid = self._process.pid
        self.terminate, self.kill = self._process.terminate, self._process.kill

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Before the first cell a kernel starts; it takes the environment as it is then."""
    with pytest.MonkeyPatch.context() as patch:
        if kept := os.environ.get("MEMKIT_TESTS_CACHE"):
            patch.setenv("MEMKIT_CACHE", kept)
        if sys.platform == "linux":  # what has loaded the libraries of macOS may not be forked, and Windows has no fork
            patch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as a kernel sets it for itself
            patch.setattr("jupyter_client.provisioning.local_provisioner.launch_kernel", Forked)
        return (yield)
