"""What a memory costs in buckets, and what workers bring: bytes on disk and in memory, seconds, by size.

    python tests/benchmarks/bench_scale.py 100000 [200000 ...] [--buckets 32] [--workers 2]
    python tests/benchmarks/bench_scale.py --slopes

Texts are made of words with the frequencies of a language, vectors are hashed: how the costs grow is what is measured.
Those of `--slopes` are notes of recombined paragraphs (`life.py`), by words and letters, but for the settings.
Each step runs in a process of its own, whose largest size is what the system says of it. A worker is a process of a
Dask cluster on a core of its own, one worker is this process on one core, and all have done the same with little before
the clock starts. Efficiency is the seconds of one over those of so many, times so many: 1 where nothing is lost; by the
processor, whose seconds others on the machine hardly change, it sees what is done besides the work (sending, gathering,
the cluster's own), and no waiting. `--slopes` tells how reading,
fitting, asking and sweeping grow: seconds of the processor, which others on the machine hardly change, for sizes that
double; what one more costs, and the power of the size that the seconds grow with.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed
import joblib
import life
import numpy as np
import pyarrow as pa
from generate import queries

import memkit as mk

AS_OF, USERS_EACH, WORDS = "2026-03-01", 500, 20
SIZE = 64


class Small:
    """Vectors of 64 numbers made of a text's words: as large as is needed to see how costs grow."""

    dim, fingerprint, batch_size = SIZE, "bench-small-1", 1024

    def encode_document(self, texts: list[str]) -> np.ndarray:
        rows = np.zeros((len(texts), SIZE), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[int(word[1:]) * 2654435761 % SIZE] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    encode_query = encode_document

    def get_config(self) -> dict[str, Any]:
        return {}


def generated(n: int) -> mk.Corpus:
    """`n` memories, 500 a user."""
    draw = np.random.default_rng(n)
    words = np.minimum(draw.zipf(1.3, (n, WORDS)), 50_000)
    table = {
        "memory_id": pa.array([f"m{i:09}" for i in range(n)]),
        "text": pa.array([" ".join(f"w{word}" for word in row) for row in words.tolist()]),
        "user_id": pa.array([f"u{i // USERS_EACH}" for i in range(n)]),
    }
    return mk.from_table(pa.table(table))


def labelled(corpus: mk.Corpus, n: int) -> tuple[pa.Table, pa.Table]:
    """`n` queries, and a memory for each."""
    names, memory = [str(i) for i in range(n)], corpus.memories["memory_id"].slice(0, n)
    right = pa.table({"query_id": names, "memory_id": memory, "relevance": [1] * n})
    return pa.table({"query_id": names, "text": [f"w{i} w{i % 90}" for i in range(n)]}), right


def save(folder: str, n: int, buckets: int) -> dict[str, float]:
    corpus = generated(n)
    start = time.perf_counter()
    corpus.save(folder, buckets=buckets)
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    tables = sum(path.stat().st_size for path in Path(folder).rglob("memories.parquet"))
    return {"save s": time.perf_counter() - start, "lake bytes": size / n, "Parquet of memories": tables / n}


def worked() -> float:
    """Seconds of the processor that this process and those that it waited for have taken."""
    return sum(os.times()[:4])


def pin(core: int) -> None:
    """Keep this process on one core."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


@contextmanager
def crew(workers: int) -> Iterator[Callable[[], float]]:
    """So many processes of a core each share the work; what they and this one have worked."""
    cores = sorted(os.sched_getaffinity(0))
    if workers == 1:
        pin(cores[0])
        yield worked
        return
    with (
        distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        for number, address in enumerate(client.run(os.getpid)):
            client.run(pin, cores[number % len(cores)], workers=[address])
        yield lambda: worked() + sum(client.run(worked).values())


def share(folder: str, n: int, workers: int) -> dict[str, list[float]]:
    """By what is shared: the seconds that it took, and those of the processor in all processes."""
    seconds_of = {}
    with tempfile.TemporaryDirectory() as place, crew(workers) as spent:
        generated(2_000).save(place, buckets=4 * workers)
        for name, prepare in SHARED.items():
            prepare(place)()
            act, before, start = prepare(folder), spent(), time.perf_counter()
            act()
            seconds_of[name] = [time.perf_counter() - start, spent() - before]
    return seconds_of


def _fit(folder: str) -> Callable[[], Any]:
    lake = mk.open(folder, trust=True)
    return lambda: mk.Retriever(encoder=Small()).fit(lake)


def _sweep(folder: str) -> Callable[[], Any]:
    corpus = generated(5_000)
    search = mk.Retriever(encoder=Small()).fit(corpus)
    grid = {
        "vector_weight": [0.1, 0.3, 0.5, 0.7],
        "mmr_lambda": [0.5, 1.0],
        "min_score": [step / 25 for step in range(25)],
    }
    return lambda: mk.sweep(search, *labelled(corpus, 400), grid, ["mrr"], as_of=AS_OF)


SHARED = {"fit": _fit, "sweep": _sweep}


def ask(folder: str, n: int, user_id: str | None) -> dict[str, float]:
    search = mk.Retriever(encoder=Small()).fit(mk.open(folder, trust=True))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    search.search("w3 w70 w900", user_id=user_id, as_of=AS_OF)
    first = time.perf_counter() - start
    start = time.perf_counter()
    search.search([f"w{i} w70 w900" for i in range(20)], user_id=user_id, as_of=AS_OF)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whose = "all" if user_id is None else "user"
    took = 1000 * (time.perf_counter() - start) / 20
    return {f"{whose}: first s": first, f"{whose}: ms a query": took, f"{whose}: peak MiB": max(before, after) / 1024}


def _files(folder: str, n: int) -> Callable[[], Any]:
    place = Path(tempfile.mkdtemp(dir=folder))
    life.write(place, n)
    return lambda: mk.read(place)


def _notes(folder: str, n: int) -> Callable[[], Any]:
    corpus = _files(folder, n)()
    return lambda: mk.Retriever(encoder=None).fit(corpus)


def _queries(folder: str, n: int) -> Callable[[], Any]:
    search = _notes(folder, 4_000)()
    query_texts = queries(search.corpus_.memories["text"].to_pylist(), n)
    search.search(query_texts[:9], as_of=AS_OF)
    return lambda: search.search(query_texts, as_of=AS_OF)


def _settings(folder: str, n: int) -> Callable[[], Any]:
    corpus = generated(5_000)
    search = mk.Retriever(encoder=None, gram_weight=0.0).fit(corpus)
    grid = {"min_score": [step / n for step in range(n)]}
    return lambda: mk.sweep(search, *labelled(corpus, 200), grid, ["mrr"], as_of=AS_OF)


GROWS = {
    "files read": (_files, (1_000, 2_000, 4_000)),
    "notes fitted": (_notes, (1_000, 2_000, 4_000)),
    "queries, of 4,000 notes": (_queries, (250, 500, 1_000)),
    "settings, of 200 queries": (_settings, (2_000, 4_000, 8_000)),
}


def grow(folder: str, work: str) -> dict[str, float]:
    prepare, sizes = GROWS[work]
    took = []
    for size in sizes:
        each = []
        for _ in range(3):
            act = prepare(folder, size)  # anew: what was fitted before would be used again
            before = worked()
            act()
            each.append(worked() - before)
        took.append(min(each))
    slope = np.polyfit(sizes, took, 1)[0]
    power = np.polyfit(np.log(sizes), np.log(took), 1)[0]
    return {f"{work}: ms each": 1000 * slope, f"{work}: power": power}


STEPS = {"save": save, "share": share, "ask": ask, "grow": grow}


def run(step: str, *values: Any) -> dict[str, Any]:
    command = [sys.executable, __file__, "--step", json.dumps([step, *values])]
    alone = os.environ | {"MEMKIT_CACHE": "off", "OMP_NUM_THREADS": "1"}  # nothing is taken from an earlier step
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    if process.returncode:
        sys.exit(process.stderr)
    measures: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return measures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", nargs="*", type=int, default=[100_000])
    parser.add_argument("--buckets", type=int, default=32)
    parser.add_argument("--workers", nargs="*", type=int, default=[2])
    parser.add_argument("--slopes", action="store_true")
    parser.add_argument("--step")
    options = parser.parse_args()
    if options.step:
        step, *values = json.loads(options.step)
        print(json.dumps(STEPS[step](*values)))
        return
    if options.slopes:
        with tempfile.TemporaryDirectory() as folder:
            for work in GROWS:
                for name, value in run("grow", folder, work).items():
                    print(f"  {name:40} {value:8.3f}")
        return
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for n in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            measures = run("save", folder, n, options.buckets)
            alone = run("share", folder, n, 1)
            each = {count: run("share", folder, n, count) for count in options.workers}
            for name, (clock, worked) in alone.items():
                measures |= {f"{name} by 1: s": clock, f"{name} by 1: s of processor": worked}
                for count, shared in each.items():
                    measures |= {
                        f"{name} by {count}: s": shared[name][0],
                        f"{name} by {count}: s of processor": shared[name][1],
                    }
                    measures[f"{name}: efficiency of {count}"] = clock / (count * shared[name][0])
                    measures[f"{name}: by processor"] = worked / shared[name][1]
            measures |= run("ask", folder, n, "u1") | run("ask", folder, n, None)
        print(f"{n:,} memories, {options.buckets} buckets")
        for name, value in measures.items():
            print(f"  {name:28} {value:12.2f}")


TINY = "200 --buckets 2"


if __name__ == "__main__":
    main()
