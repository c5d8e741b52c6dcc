"""What a command costs the first time and the next ones, beside the imports that are its floor.

    python tests/benchmarks/bench_kept.py [--folder FOLDER] [--query WORDS] [--times 3]

Each command is a process: with the cache off, with an empty one, and again. Processor seconds, the system's too.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from memkit.tables.samples import sample_data

FLOOR = ("-c", "import numpy, pyarrow, duckdb, faiss")
TINY = "--times 1 --words"


def seconds(words: tuple[str, ...], cache: str) -> float:
    """The processor time of a Python process with these arguments.

    Raises
    ------
    SystemExit
        Where it fails.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "MEMKIT_CACHE": cache, "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=sample_data())
    parser.add_argument("--query", default="пул соединений")
    parser.add_argument("--times", type=int, default=3, help="how often each is run again")
    parser.add_argument("--words", action="store_true", help="without vectors")
    given = parser.parse_args()
    encoder = ("--set", "encoder=none") if given.words else ()
    verbs = {"search": (given.query, *encoder), "check": ()}
    with tempfile.TemporaryDirectory() as cache:
        for verb, more in verbs.items():
            command = ("-m", "memkit", verb, str(given.folder), *more)
            if verb == "search" and not given.words:
                seconds(command, cache)  # so that vectors are there
            off = seconds(command, "off") if given.words or verb != "search" else float("nan")
            shutil.rmtree(f"{cache}/folders", ignore_errors=True)
            first, again = seconds(command, cache), [seconds(command, cache) for _ in range(given.times)]
            floor = min(seconds(FLOOR, "off") for _ in range(given.times))
            print(
                f"{verb}: cache off {off:.2f}, first {first:.2f}, again {min(again):.2f} to {max(again):.2f} s;"
                f" imports of NumPy, Arrow, DuckDB and FAISS {floor:.2f}, so {min(again) / floor:.1f} times these",
                flush=True,
            )


if __name__ == "__main__":
    main()
