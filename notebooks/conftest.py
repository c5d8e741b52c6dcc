"""Outputs are compared, and a progress bar says how busy the machine was; all kernels share a cache of vectors.

A kernel imports for more than a second before its first cell, so kernels are forked from a process that has done so.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
from collections.abc import Generator
from importlib.metadata import EntryPoint
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

import memkit as mk
from memkit.base import names_in_stub

os.environ["TQDM_DISABLE"] = "1"

KERNEL = Path(__file__).parents[1] / "tests/notebooks/kernel.py"
SERVER = multiprocessing.get_context("forkserver")
IMPORTED = [
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "anywidget", "ipywidgets", "faiss", "pandas", "scipy.sparse"),
    # Not pyplot, which looks for a shell as it is imported.
    *("matplotlib.backends.backend_agg", "matplotlib.figure", "matplotlib.ticker", "yaml"),
    # What the cluster of tests/base/test_parallel.py needs, as it has the same server.
    *("distributed", "joblib._dask", "sklearn.feature_extraction", "sklearn.preprocessing"),
    *sorted({module for module, _ in names_in_stub(mk.__file__).values()}),
]
SERVER.set_forkserver_preload(IMPORTED)


class Forked(LocalProvisioner):
    """Starts kernels in processes that the standard library's server forks; the first of them starts the server."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        given = (cmd[cmd.index("-f") :], kwargs["cwd"], kwargs["env"])
        process = SERVER.Process(target=runpy.run_path, args=(str(KERNEL), {"given": given}))
        process.start()
        self.process: Any = _Started(process)
        self.pid = self.pgid = process.pid
        return self.connection_info


class _Started:
    """A process as `subprocess.Popen` shows one."""

    stdin = stdout = stderr = None

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self.kill = process.kill

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if (pid := self._process.pid) is not None:
            os.kill(pid, number)


FACTORY = KernelProvisionerFactory.instance()
FACTORY.default_provisioner_name = "forked"
FACTORY.provisioners["forked"] = EntryPoint("forked", f"{__name__}:Forked", FACTORY.GROUP_NAME)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Before the first cell a kernel starts; it takes the environment as it is then."""
    with pytest.MonkeyPatch.context() as patch:
        if kept := os.environ.get("MEMKIT_TESTS_CACHE"):
            patch.setenv("MEMKIT_CACHE", kept)
        return (yield)
