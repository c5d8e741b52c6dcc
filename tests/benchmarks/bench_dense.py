"""The dense arm by size; prints a table with the date and the machine.

    python tests/benchmarks/bench_dense.py --sizes 10000 100000 --dim 256

Vectors are generated: topics with a falling spectrum, as those of text encoders have, and a tenth of noisy copies.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import faiss
import numpy as np
import pyarrow as pa

from memkit.index.dense import Dense
from memkit.index.encoders.base import unit_rows


def vectors(n: int, dim: int, seed: int = 0) -> np.ndarray:
    """Unit rows around n / 100 topics; the last tenth are copies of the first with 2 to 40 % of noise."""
    random = np.random.default_rng(seed)
    spectrum = (np.exp(-2 * np.arange(dim) / dim)).astype(np.float32)
    topics = random.standard_normal((max(1, n // 100), dim), dtype=np.float32) * spectrum
    rows = unit_rows(topics[random.integers(0, len(topics), n)])
    rows += unit_rows(random.standard_normal((n, dim), dtype=np.float32) * spectrum)
    copies = n // 10
    noise = unit_rows(random.standard_normal((copies, dim), dtype=np.float32))
    rows[-copies:] = unit_rows(rows[:copies]) + random.uniform(0.02, 0.4, (copies, 1)).astype(np.float32) * noise
    return unit_rows(rows)


def timed(work: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """Best seconds of `repeat` runs, and the last result."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def search(n: int, dim: int, n_queries: int = 200, k: int = 10) -> None:
    """Build and search times, recall against exact, and bytes for each kind of index."""
    rows = vectors(n, dim)
    random = np.random.default_rng(1)
    noise = unit_rows(random.standard_normal((n_queries, dim), dtype=np.float32))
    queries = unit_rows(rows[random.integers(0, n, n_queries)] + 0.7 * noise)
    chunks, texts = pa.table({"chunk_id": np.arange(n).astype(str)}), [""] * n
    rare = random.random(n) < 0.001
    exact: np.ndarray | None = None
    for kind in ("exact", "hnsw", "ivf"):
        build, arm = timed(lambda kind=kind: Dense(encoder="hash", ann=kind).fit(chunks, texts, vectors=rows))
        batch, candidates = timed(lambda arm=arm: arm.candidates(queries, k), 3)
        single, _ = timed(lambda arm=arm: [arm.candidates(queries[i : i + 1], k) for i in range(20)])
        filtered, _ = timed(lambda arm=arm: [arm.candidates(queries[i : i + 1], k, rare) for i in range(20)])
        best = candidates["row"].to_numpy().reshape(n_queries, k)
        exact = best if exact is None else exact
        recall = np.mean([len(set(a) & set(b)) / k for a, b in zip(best, exact, strict=True)])
        size = arm.vectors_.nbytes + (0 if arm.index_ is None else len(faiss.serialize_index(arm.index_)))
        print(
            f"{n:>9,} {dim:>4} {kind:<6} {build:>9.2f} {single / 20 * 1e3:>10.2f} {batch / n_queries * 1e3:>10.3f} "
            f"{filtered / 20 * 1e3:>12.2f} {recall:>8.3f} {size / n:>12,.0f}"
        )


def main() -> None:
    """Read the sizes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 50_000, 100_000])
    parser.add_argument("--dim", type=int, default=256)
    options = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{datetime.now(UTC):%Y-%m-%d} {platform.machine()}, {os.cpu_count()} cores, load {load:.1f}")
    print(f"faiss {faiss.__version__}, numpy {np.__version__}, {options.dim} dimensions\n")
    print("     rows  dim index     build s  single ms   batch ms  rare user ms  recall@10  bytes/chunk")
    for n in options.sizes:
        search(n, options.dim)


TINY = "--sizes 200 --dim 8"


if __name__ == "__main__":
    main()
