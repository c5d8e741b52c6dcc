"""The fixed cost of a small corpus: three memories step by step, and `memkit search` over the sample.

    python tests/benchmarks/bench_small.py [--rounds 40] [--commands 9]

Milliseconds are the processor's, of all threads: medians over new corpora, after a first one. A command is a process of
its own, with vectors and compiled modules from the run before.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memkit as mk

TEXTS = ["Пул соединений вырос до десяти", "Release on Friday", "Чай без сахара"]
DATA = Path(__file__).parents[2] / "data"


def steps(took: Callable[[str, Callable[[], Any]], Any]) -> None:
    """What a notebook does first, each step passed to `took` with its name."""
    corpus = took("from_table", lambda: mk.from_table({"text": TEXTS}))
    search = took("fit", lambda: mk.Retriever(encoder=None).fit(corpus))
    took("search", lambda: search.search("пулы"))
    took("sql", lambda: corpus.sql("select count(*) from memories").fetchall())
    took("sql with fts()", lambda: corpus.sql("select memory_id from fts('пулы')").fetchall())
    took("ask", lambda: corpus.ask("select memory_id from memories"))


def command() -> float:
    """Processor seconds of one search over the sample."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call = [sys.executable, "-m", "memkit", "search", str(DATA), "чай"]
    subprocess.run(call, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--commands", type=int, default=9)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {}

    def took(name: str, step: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = step()
        seconds.setdefault(name, []).append(time.process_time() - start)
        return result

    for _ in range(options.rounds + 1):
        steps(took)
    for name, values in seconds.items():
        print(f"{name:<16}{1000 * statistics.median(values[1:]):8.1f} ms")
    times = [command() for _ in range(options.commands + 1)][1:]
    print(f"{'memkit search':<16}{1000 * statistics.median(times):8.1f} ms, best {1000 * min(times):.1f}")


TINY = "--rounds 1 --commands 1"


if __name__ == "__main__":
    main()
