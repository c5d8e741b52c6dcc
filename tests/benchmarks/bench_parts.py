"""What small parts cost whose figures stand in comments: forgetting a text, patterns of a policy, counting words.

    python tests/benchmarks/bench_parts.py [--rounds 5] [--vectors 100000] [--only forget patterns words]

Seconds or milliseconds are the processor's, of this process: medians of some rounds that alternate between the ways.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from generate import texts

import memkit as mk
from memkit.index.cache import Shelf
from memkit.index.postings import Postings
from memkit.tables import statement

DIM, COUNTED = 512, 20_000
ROWS = (1, 10, 110, 1_000, 4_000)


def medians(rounds: int, ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Processor seconds of each of some ways, after a first round that does not count."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            begin = time.process_time()
            work()
            if number:
                spent[name].append(time.process_time() - begin)
    return {name: statistics.median(seconds) for name, seconds in spent.items()}


def with_few(rows: int, work: Callable[[], object]) -> Callable[[], object]:
    """`work` while so many rows are few, so that RE2 itself reads them."""

    def measured() -> None:
        with mock.patch.object(statement, "FEW_ROWS", rows):
            work()

    return measured


def forget(rounds: int, size: int) -> None:
    """One text of many, after which the file is written anew."""
    draw = np.random.default_rng(0)
    keys = [draw.bytes(16) for _ in range(size)]
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder), 1 << 32)
        for start in range(0, size, 2_000):
            some = keys[start : start + 2_000]
            shelf.put("model", some, draw.normal(size=(len(some), DIM)))
        remaining = iter(keys)
        (seconds,) = medians(rounds, {"forget": lambda: shelf.forget([next(remaining)])}).values()
        print(f"forget one of {size:,} vectors of {DIM} ({shelf.size / 1e6:.0f} MB): {seconds:.2f} s")


def policies(rounds: int, _: int) -> None:
    """The patterns of a policy by RE2, as for few rows, and by DuckDB."""
    drawn = texts(max(ROWS), tokens=12)
    for policy in (mk.Admission(), mk.Classifier(), mk.Pipeline([mk.Admission(), mk.Classifier()])):
        for rows in ROWS:
            table = pa.table({"text": drawn[:rows]})
            work = lambda policy=policy, table=table: policy.transform(table)  # noqa: E731
            spent = medians(rounds, {"RE2": with_few(max(ROWS), work), "DuckDB": with_few(0, work)})
            shown = ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in spent.items())
            print(f"{type(policy).__name__}, {rows:,} rows: {shown}")


def words(rounds: int, _: int) -> None:
    """The terms of texts counted for an index."""
    counted = texts(COUNTED, tokens=60)
    for analyzer in ("auto", "char"):
        (seconds,) = medians(rounds, {analyzer: partial(Postings.count, counted, analyzer)}).values()
        print(f"terms ({analyzer}) of {COUNTED:,} texts of 60 words: {seconds:.2f} s")


PARTS = {"forget": forget, "patterns": policies, "words": words}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=list(PARTS))
    options = parser.parse_args()
    for name in options.only:
        PARTS[name](options.rounds, options.vectors)


TINY = "--rounds 1 --vectors 200"


if __name__ == "__main__":
    main()
