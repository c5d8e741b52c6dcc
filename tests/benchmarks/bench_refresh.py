"""After one file of many was changed: refresh, fit again, first search, step by step. The notes are generated.

    python tests/benchmarks/bench_refresh.py [--notes 100000] [--encoder NAME] [--gram-weight 0]

Seconds are the processor's, of all threads, and the clock's beside them; by default the search is on words alone, as
encoding is the model's own time, and grams are ten times as many as words: all are weighed anew. A refresh looks at the
stat of every file, which is a line of its own. Memory is what the process holds after a step.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench_readers import write_notes

AS_OF = "2026-03-01"
WORD = "жирафолог"
"""Not among the generated words."""


def held() -> int:
    """Bytes in memory, as Linux tells them; 0 elsewhere."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 if status.exists() else 0


def step(name: str, act: Callable[[], Any]) -> Any:
    """What `act` gives, after a line about it."""
    gc.collect()
    processor, clock = time.process_time(), time.perf_counter()
    result = act()
    seconds = time.process_time() - processor, time.perf_counter() - clock
    print(f"{name:<44}{seconds[0]:9.3f}{seconds[1]:9.3f}{held() / 2**20:9.0f}", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--notes", type=int, default=100_000)
    parser.add_argument("--encoder")
    parser.add_argument("--gram-weight", type=float, default=0.0)
    options = parser.parse_args()
    import memkit as mk
    from memkit.formats.disk.files import list_files

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_notes(folder, options.notes)
        changed = sorted(folder.rglob("*.md"))[options.notes // 2]
        print(f"{options.notes:,} generated notes{'':<23}processor    clock      MiB")
        corpus = step("read", lambda: mk.read(folder))
        search = step("fit", lambda: mk.Retriever(encoder=options.encoder, gram_weight=options.gram_weight).fit(corpus))
        step("first search", lambda: search.search("пул соединений", as_of=AS_OF))
        step("search", lambda: search.search(WORD, as_of=AS_OF))
        for turn in ("", ", again"):
            with changed.open("a", encoding="utf-8") as file:
                file.write(f"\nNew{turn}: {WORD}.\n")
            step("  the stat of every file, alone" + turn, lambda: list_files(folder, with_stat=True))
            corpus = step("refresh" + turn, corpus.refresh)
            search = step("fit to the refreshed corpus" + turn, partial(search.fit, corpus))
            hits = step("first search" + turn, partial(search.search, WORD, k=1, as_of=AS_OF))
            assert hits["path"].to_pylist() == [changed.relative_to(folder).as_posix()]
        step("full text after the refresh", lambda: corpus.sql(f"from fts('{WORD}')").fetchall())


if __name__ == "__main__":
    main()
