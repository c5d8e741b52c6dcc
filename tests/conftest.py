"""What all tests share: how examples are drawn, the quick case of a quick test, and a script of tests/ as a module."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

# A worker has a core to itself, where further threads of OpenBLAS wait busily for another: up to three quarters of the
# processor time of what multiplies matrices. The numbers are read when NumPy is imported, here or in a child.
for library in ("OPENBLAS", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import memkit as mk  # noqa: E402
from memkit.base import duck  # noqa: E402  # it imports NumPy

TESTS = Path(__file__).parent

# No test, and no process that one starts, leaves vectors in the user's cache, nor a key among what the user's programs
# keep: each run has a folder of its own, which its processes share.
os.environ["MEMKIT_CACHE"] = "off"
if "PYTEST_XDIST_WORKER" not in os.environ:
    # Where the system keeps a file system in memory, no test waits for a disk, which took up to a half of its time.
    if "TMPDIR" not in os.environ and os.path.ismount("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30:
        os.environ["TMPDIR"] = tempfile.tempdir = "/dev/shm"
    _OF_THE_RUN = tempfile.mkdtemp(prefix="memkit-tests-")
    atexit.register(shutil.rmtree, _OF_THE_RUN, ignore_errors=True)
    os.environ["MEMKIT_STATE"] = f"{_OF_THE_RUN}/state"
    os.environ["MEMKIT_TESTS_CACHE"] = f"{_OF_THE_RUN}/cache"

# A shell has its background jobs ignore Control-C, and so would the processes whose end by it is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nor does any of them compile all of memkit anew, as a kernel or a worker would.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# DuckDB reads all of an extension's file for its signature at each load, which takes four fifths of what a database
# with full text does. Processes that tests start, as the command line, look at it.
duck._OFFLINE["allow_unsigned_extensions"] = True
# Statements over the few rows of a test take a third less in one thread, which is why the command line has one. The
# databases of corpora, and processes that tests start, have as many as there are.
duck.use_one_thread()

# Neither the time that one example takes nor the time to make one says anything about memkit.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _UNTIMED, derandomize=True)
settings.register_profile("random", _UNTIMED, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture
def kept_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the test starts, and commands that it runs, share a cache of vectors with those of other tests.

    A process encodes the sample for four seconds otherwise. Within the process of the tests vectors stay in memory.
    """
    monkeypatch.setenv("MEMKIT_CACHE", os.environ["MEMKIT_TESTS_CACHE"])


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """script("benchmarks/bench_quality.py"): a script below tests/ as a module."""

    def load(path: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(Path(path).stem, TESTS / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def sample() -> mk.Corpus:
    """The sample that ships, read once; for tests that leave it as it is."""
    return mk.read(mk.sample_data())


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> str:
    """The command of a Chromium; tests that ask for it are deselected where there is none."""
    assert BROWSER is not None
    return BROWSER


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "quick" and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args = [str(TESTS)]  # notebooks, and examples in docstrings, have no marks


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """One worker more than cores, as each waits for kernels, browsers and processes a twelfth of the time."""
    cores = yield
    return cores if config.option.markexpr == "quick" else cores + 1


# What a test leaves is collected after some thousand objects rather than after seven hundred.
gc.set_threshold(10_000)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """What is imported and collected stays until the end, so that no collection of garbage looks at it."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Tests have no examples in docstrings, which would import each file once more."""
    return [collector for collector in (yield) if type(collector) is pytest.Module]


def pytest_report_header() -> str | None:
    return None if BROWSER else "no Chromium here: the tests that look at pages in a browser are deselected"


IS_CORE = os.environ.get("MEMKIT_PLUGINS") == "core"
collect_ignore = ["explore", "hosts", "past", "plugins", "test_public.py"] if IS_CORE else []
"""With the core of memkit alone its tests alone: rooms outside of it are left out, and what is marked outside."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deselected = [
        item
        for item in items
        if (BROWSER is None and "browser" in getattr(item, "fixturenames", ()))
        or (IS_CORE and item.get_closest_marker("outside"))
    ]
    if deselected:
        kept = set(items).difference(deselected)
        items[:] = [item for item in items if item in kept]
        config.hook.pytest_deselected(items=deselected)
    items.sort(key=lambda item: _place(item.path))


TEN_SECONDS = {
    *("test_growth", "test_style", "test_lab", "test_pages", "test_panels", "test_page_widgets", "test_search_buckets"),
    *("test_search_refit", "test_search_store", "test_tables_lake_writers", "test_tables_lake_hostile"),
    *("test_tables_sandbox", "test_tables_kept", "test_formats_refresh", "test_formats_hostile", "test_planted"),
    *("test_sweep", "test_cli_run", "test_stores", "test_parallel", "test_readme", "test_export", "test_server"),
}
"""Files that take ten seconds or more: a worker takes a file at once, so these come before all, and the short last."""


def _place(path: Path) -> int:
    """0 for long files, 1 for notebooks, 2 for tests, 3 for examples in docstrings."""
    if path.stem in TEN_SECONDS:
        return 0
    return 1 if path.suffix == ".ipynb" else 2 if TESTS in path.parents else 3


def pytest_itemcollected(item: pytest.Item) -> None:
    """Of a quick test with several cases the first is quick."""
    cases = getattr(item, "callspec", None)
    if cases is not None and any(cases.indices.values()):
        item.own_markers = [mark for mark in item.own_markers if mark.name != "quick"]
