"""What a click on a table's panel costs: sort, page, filter and histogram over many memories.

    python tests/benchmarks/bench_tables.py [--sizes 100000 1000000] [--rounds 7]

What it writes stands in RESULTS.md. In milliseconds of processor time, of all threads, without the
browser: from the click's message to the traits of the page that are sent, the median of several rounds in turns.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import time
from typing import Any

import numpy as np
from bench_panels import machine, many_facts

import memkit as mk


def steps(rows: int) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What is done, from which values on, and to which; far behind is at three quarters, by 50 rows a page."""
    far = rows * 3 // 4 // 50
    return [
        ("sort by date", {}, {"sort": "created_at", "descending": True}),
        ("sort by text", {}, {"sort": "text"}),
        ("next page", {"sort": "text"}, {"page": 2}),
        ("a page far behind", {"sort": "text"}, {"page": far}),
        ("the page after it", {"sort": "text", "page": far}, {"page": far + 1}),
        ("filter, one column", {}, {"filter": "kind: work"}),
        ("filter, any column", {}, {"filter": "сожи"}),
        ("histogram of dates", {"column": "kind"}, {"column": "created_at"}),
        ("most frequent texts", {"column": "kind"}, {"column": "text"}),
    ]


def measured(corpus: mk.Corpus, rounds: int) -> dict[str, float]:
    """The median of each step, every round on a new panel, as panels keep what they worked out."""
    spent: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, before, values in steps(corpus.memories.num_rows):
            panel = mk.panels.table(corpus)
            panel.set(**before)
            page = panel.view
            begin = time.process_time()
            page._on_message(page, {"set": values}, [])
            spent.setdefault(name, []).append(1000 * (time.process_time() - begin))
    return {name: float(np.median(times)) for name, times in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    results = {size: measured(many_facts(size), options.rounds) for size in options.sizes}
    print(f"Measured {dt.datetime.now(dt.UTC):%Y-%m-%d}, {machine()}, load {load:.1f} at the start.\n")
    print("| ms of processor time |" + "".join(f" {size:,} rows |" for size in results))
    print("|---|" + "---|" * len(results))
    for name in next(iter(results.values())):
        print(f"| {name} |" + "".join(f" {row[name]:.0f} |" for row in results.values()))


TINY = "--sizes 200 --rounds 1"


if __name__ == "__main__":
    main()
