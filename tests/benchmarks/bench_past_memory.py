"""What is past memory: a lake of buckets written, counted and searched for one user, under a bound on memory.

    python tests/benchmarks/bench_past_memory.py 1000000 --buckets 8 [--gib 8] [--workers 2] [--folder /tmp/lake]

Memories are generated: two of 400,000 pieces of inflected Russian or English words with the frequencies of a language
(`generate.py`), 500 a user, and given vectors of 64 numbers around 20,000 seeded centres. Each step is a process of
its own, which may not take more memory than is said. A user's first question opens that user's bucket, and those that
follow find it open.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import generate
import joblib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import memkit as mk
from memkit.scale.buckets import write_buckets

AS_OF, USERS_EACH, TOKENS, DIM, CENTRES, CHUNK = "2026-03-01", 500, 8, 64, 20_000, 100_000
ASKED, HALVES = 50, 400_000


@cache
def around() -> np.ndarray:
    """The centres."""
    centres = np.random.default_rng(0).standard_normal((CENTRES, DIM), np.float32)
    return centres / np.linalg.norm(centres, axis=1, keepdims=True)


def near(centre: np.ndarray, seed: int) -> np.ndarray:
    """Vectors of length 1 near the centres of those numbers."""
    noise = np.random.default_rng(seed).standard_normal((len(centre), DIM), np.float32) / np.sqrt(DIM)
    points = around()[centre] + 0.8 * noise
    vectors: np.ndarray = points / np.linalg.norm(points, axis=1, keepdims=True)
    return vectors.astype(np.float32)


class Given:
    """Vectors of memories are given; a question "7 …" is near the centre 7."""

    dim, fingerprint, batch_size = DIM, "bench-given-1", 1024

    def encode_document(self, texts: list[str]) -> np.ndarray:
        raise AssertionError("vectors are given")

    def encode_query(self, texts: list[str]) -> np.ndarray:
        return np.concatenate([near(np.array([int(text.split()[0])]), crc32(text.encode())) for text in texts])

    def get_config(self) -> dict[str, Any]:
        return {}


def tables(n: int) -> Iterator[pa.Table]:
    halves = pa.array(generate.texts(HALVES, TOKENS // 2, seed=0))  # the even ones Russian, the odd ones English
    for start in range(0, n, CHUNK):
        rows, draw = np.arange(start, min(start + CHUNK, n)), np.random.default_rng([1, start])
        vectors = near(draw.integers(0, CENTRES, len(rows)), start + 2)
        first, second = (halves.take(pa.array(2 * draw.integers(0, HALVES // 2, len(rows)) + rows % 2)) for _ in "ab")
        days = np.datetime64("2026-01-01", "us") + (rows % 59) * np.timedelta64(86_400_000_000, "us")
        yield pa.table(
            {
                "memory_id": pa.array([f"m{row:09}" for row in rows.tolist()]),
                "text": pc.binary_join_element_wise(first, second, " "),
                "user_id": pa.array([f"u{row}" for row in (rows // USERS_EACH).tolist()]),
                "kind": pa.array(["archive"] * len(rows)),
                "created_at": pa.array(days),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
            }
        )


def search() -> mk.Retriever:
    return mk.Retriever(encoder=Given(), vector_weight=0.5, bm25_weight=0.5, gram_weight=0.0)


def used() -> dict[str, float]:
    """Memory of this process: what it has taken, and the most it had."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"own MiB": int(status["RssAnon"].split()[0]) / 1024, "peak MiB": peak / 1024}


def write(folder: str, n: int, buckets: int, workers: int) -> dict[str, float]:
    with joblib.parallel_config(backend="loky", n_jobs=workers):
        write_buckets(folder, tables(n), buckets=buckets)
    files = [path for path in Path(folder).rglob("*.parquet") if path.is_file()]
    memories = sum(path.stat().st_size for path in files if path.name == "memories.parquet")
    vectors = sum(path.stat().st_size for path in files if path.name == "vectors.parquet")
    return {"Parquet of memories": memories / n, "Parquet of vectors": vectors / n}


def count(folder: str, n: int, buckets: int, workers: int) -> dict[str, float]:
    with joblib.parallel_config(backend="loky", n_jobs=workers):
        held = search().fit(mk.open(folder, trust=True))
    held.corpus_.save(folder)
    totals = sum(path.stat().st_size for path in Path(folder, "totals").rglob("*") if path.is_file())
    return {"bytes of totals a memory": totals / n}


def questions() -> list[str]:
    draw = np.random.default_rng(9)
    words = generate.texts(ASKED, 4, seed=5)
    return [f"{centre} {text}" for centre, text in zip(draw.integers(0, CENTRES, ASKED), words, strict=True)]


def ask(folder: str, n: int, buckets: int, workers: int) -> dict[str, float]:
    start = time.perf_counter()
    held = search().fit(mk.open(folder, trust=True))
    measures = {"open s": time.perf_counter() - start}
    for whose, user_id in (("user", "u7"), ("all", None)):
        texts = questions()[: 4 if whose == "all" else ASKED]
        start = time.perf_counter()
        held.search(texts[:1], user_id=user_id, as_of=AS_OF)
        measures[f"{whose}: first s"] = time.perf_counter() - start
        start, worked = time.perf_counter(), time.process_time()
        for one in texts[1:]:
            held.search(one, user_id=user_id, as_of=AS_OF)
        measures[f"{whose}: ms a query"] = 1000 * (time.perf_counter() - start) / (len(texts) - 1)
        measures[f"{whose}: ms of processor a query"] = 1000 * (time.process_time() - worked) / (len(texts) - 1)
        measures |= {f"{whose}: {name}": value for name, value in used().items()}
    return measures


STEPS = {"write": write, "count": count, "ask": ask}


def run(step: str, gib: float, *values: Any) -> dict[str, float]:
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--gib", str(gib), "--step", json.dumps([step, *values])]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(process.stderr[-3000:])
    measures: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {f"{step} s": time.perf_counter() - start, f"{step} s of processor": worked, **measures}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", nargs="*", type=int, default=[100_000])
    parser.add_argument("--buckets", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--gib", type=float, default=8.0)
    parser.add_argument("--folder")
    parser.add_argument("--steps", nargs="*", default=list(STEPS))
    parser.add_argument("--step")
    options = parser.parse_args()
    if options.step:
        bound = int(options.gib * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
        step, *values = json.loads(options.step)
        print(json.dumps(STEPS[step](*values) | ({} if step == "ask" else used())))
        return
    for n in options.sizes:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or temporary
            print(
                f"{n:,} generated memories, {options.buckets} buckets, at most {options.gib:g} GiB a process",
                flush=True,
            )
            for step in options.steps:
                for name, value in run(step, options.gib, folder, n, options.buckets, options.workers).items():
                    print(f"  {name:40} {value:12.2f}", flush=True)


TINY = "200 --buckets 2"


if __name__ == "__main__":
    main()
