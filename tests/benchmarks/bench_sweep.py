"""What a sweep costs beside a loop of searches and beside ranx's fusion optimiser, in one run.

    python tests/benchmarks/bench_sweep.py [--memories 10000 --queries 1000 --settings 10000] [--ranx]

Three arms with pools of 100 each. The loop sets one setting after another on the same fitted Retriever and searches all
queries in one call; a few settings of it are timed, for it is slow. ranx tries the 66 weights of three given runs; so
does the sweep, over the same candidates and with nothing but fusion. ranx is no dependency: pip install ranx.
"""

from __future__ import annotations

import argparse
import platform
import resource
import sys
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from bench_search import AS_OF, WordVectors, corpus_of
from generate import texts

import memkit as mk
from memkit.evaluation.evaluation import Task
from memkit.evaluation.metrics import parse_metrics
from memkit.evaluation.scores import Grid, Measure, scores_of

FUSION_ALONE = {"decay": "none", "fold": "none", "normalize": "minmax"}


def labelled(chunks: list[str], n: int, seed: int = 0) -> tuple[pa.Table, pa.Table]:
    """Queries of a few words of a memory that is then relevant, and one more that is."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(chunks), n)
    words = [" ".join(rng.permutation(chunks[row].split())[:4]) for row in rows]
    other = rng.choice(len(chunks), n)
    ids = [f"q{i}" for i in range(n)]
    queries = pa.table({"query_id": ids, "text": words, "group": [f"g{i % 40}" for i in range(n)]})
    pairs = dict.fromkeys((q, f"table:#{row:07d}") for some in (rows, other) for q, row in zip(ids, some, strict=True))
    qrels = pa.table(
        {"query_id": [q for q, _ in pairs], "memory_id": [m for _, m in pairs], "relevance": [1] * len(pairs)}
    )
    return queries, qrels


def grid_of(settings: int) -> dict[Any, Any]:
    """So many settings, or a few more, of weights, decay and least score."""
    days = mk.presets.steps(1, max(2, -(-settings // (66 * 3))), 1)
    return {
        ("vector_weight", "bm25_weight", "gram_weight"): mk.presets.shares(0.1),
        "decay_days": [30.0 * day for day in days],
        "min_score": [0.0, 0.1, 0.2],
    }


def seconds(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def loop(search: mk.Retriever, queries: Any, qrels: Any, settings: list[dict[str, Any]]) -> list[float]:
    return [
        mk.evaluate(search.with_params(**setting), queries, qrels, "ndcg@10", as_of=AS_OF).table["value"][0].as_py()
        for setting in settings
    ]


def searches(search: mk.Retriever, queries: pa.Table, settings: list[dict[str, Any]]) -> None:
    query_texts = queries.select(["query_id", "text"])
    for setting in settings:
        search.with_params(**setting).search(query_texts, k=10, as_of=AS_OF)


def of_ranx(search: mk.Retriever, queries: pa.Table, qrels: pa.Table) -> tuple[float, float]:
    """Seconds, and seconds of a processor, a setting of ranx's own grid over the same three runs."""
    from ranx import Qrels, Run, optimize_fusion

    right: dict[str, dict[str, int]] = {}
    for query, memory in zip(qrels["query_id"].to_pylist(), qrels["memory_id"].to_pylist(), strict=True):
        right.setdefault(query, {})[memory] = 1
    runs = []
    for arm in ("vector", "bm25", "gram"):
        alone = search.with_params(**{f"{name}_weight": float(name == arm) for name in ("vector", "bm25", "gram")})
        hits = alone.search(queries.select(["query_id", "text"]), k=100, as_of=AS_OF)
        scores: dict[str, dict[str, float]] = {query: {} for query in queries["query_id"].to_pylist()}
        for query, memory, score in zip(
            *(hits[name].to_pylist() for name in ("query_id", "memory_id", arm)), strict=True
        ):
            scores[query][memory] = score
        runs.append(Run({query: some or {"none": 0.0} for query, some in scores.items()}))

    def work() -> Any:
        return optimize_fusion(
            Qrels(right), runs, norm="min-max", method="wsum", metric="ndcg@10", step=0.1, show_progress=False
        )

    work()  # its code is compiled when it first runs
    spent = time.process_time()
    took, _ = seconds(work)
    return took / 66, (time.process_time() - spent) / 66


def compared(label: str, search: mk.Retriever, queries: Any, qrels: Any, count: int, options: Any) -> None:
    before, spent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    took, swept = seconds(lambda: mk.sweep(search, queries, qrels, grid_of(count), as_of=AS_OF, n_jobs=options.jobs))
    spent, after = time.process_time() - spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n = len(swept.settings)
    some = [swept.settings[i] for i in np.linspace(0, n - 1, options.looped).astype(int)]
    start = time.process_time()
    slow, values = seconds(lambda: loop(search, queries, qrels, some))
    middle = time.process_time()
    bare, _ = seconds(lambda: searches(search, queries, some))
    end = time.process_time()
    assert values == [swept.table["ndcg@10"][swept.settings.index(one)].as_py() for one in some]
    rate, of_loop, of_search = (count / time for count, time in ((n, took), (len(some), slow), (len(some), bare)))
    cpu = n / spent, len(some) / (middle - start), len(some) / (end - middle)
    print(
        f"{label}: {n:,} settings in {took:.1f} s with {options.jobs} threads, {rate * options.queries:,.0f} settings x"
        f" queries a second; memory grew by {(after - before) / 1024:,.0f} MiB. A loop of searches"
        f" {of_search * options.queries:,.0f} (the sweep is {rate / of_search:,.0f} times as fast), of evaluate"
        f" {of_loop * options.queries:,.0f} ({rate / of_loop:,.0f} times). In processor seconds: {spent:.1f};"
        f" {cpu[0] / cpu[2]:,.0f} and {cpu[0] / cpu[1]:,.0f} times",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--settings", type=int, default=10_000)
    parser.add_argument("--looped", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ranx", action="store_true")
    options = parser.parse_args()
    chunks = texts(options.memories)
    queries, qrels = labelled(chunks, options.queries)
    search = mk.Retriever(encoder=WordVectors(64), decay_kinds="*").fit(corpus_of(chunks))
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, NumPy {np.__version__}; {options.memories:,} memories,"
        f" {options.queries:,} queries, pools of 100 of three arms"
    )
    for label, some in (
        ("without folding", {"fold": "none"}),
        ("with folding", {"fold": "near"}),
        ("with MMR", {"fold": "none", "mmr_lambda": 0.7}),
    ):
        count = options.settings if label == "without folding" else options.settings // 10
        compared(label, search.with_params(**some), queries, qrels, count, options)
    if options.ranx:
        alone = search.with_params(**FUSION_ALONE)
        grid = {("vector_weight", "bm25_weight", "gram_weight"): mk.presets.shares(0.1)}
        theirs = of_ranx(alone, queries, qrels)
        task = Task(None, queries, qrels, as_of=AS_OF).read()
        pools, metrics = task.pools(alone, None), parse_metrics("ndcg@10")
        for step in (0.1, 0.02):
            settings = list(Grid({next(iter(grid)): mk.presets.shares(step)}))
            asking, _ = seconds(lambda: pools.ask(settings))  # noqa: B023  # called at once
            spent = time.process_time()
            ours, _ = seconds(lambda: scores_of(pools, task, Measure(metrics, 10), settings))  # noqa: B023  # called at once
            spent = (time.process_time() - spent) / len(settings)
            ours /= len(settings)
            print(
                f"fusion alone, a setting: ranx {theirs[0] * 1e3:.1f} ms, a sweep of {len(settings):,} {ours * 1e3:.2f}"
                f" ms ({theirs[0] / ours:.0f} times; {asking:.1f} s for asking the arms not counted); in processor"
                f" time {theirs[1] * 1e3:.1f} and {spent * 1e3:.2f} ms ({theirs[1] / spent:.0f} times)"
            )


TINY = "--memories 100 --queries 10 --settings 10 --looped 1 --jobs 1"


if __name__ == "__main__":
    sys.exit(main())
