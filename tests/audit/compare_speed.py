"""Two checkouts beside each other: reading in one process, words, hybrid search, policies. Nothing else should run.

    python tests/audit/compare_speed.py OLD NEW [--rounds 7] [--scale 1.0] [--only read words]

Each run is a process of its own, and the checkouts take turns. What counts is processor time, of all threads together.
NEW is said to be slower where its median is more than a tenth above OLD's and its lower quartile above OLD's upper one.
Data and work are this script's and the same for both, so each must know the names that it uses: 'words' and 'hybrid'
have pieces of one size, no arm of letters, no folding and one way of bringing scores to one scale, whatever the
defaults. 'default' is what each checkout does when nothing is said, which may be other work.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.append(str(HERE.parents[1] / "benchmarks"))
AS_OF = "2026-03-01"
NOTES, CHUNKS, FACTS, VECTORS, QUERIES = 6_000, 15_000, 60_000, 8_000, 200
"""At scale 1; a run takes about a minute for both."""
SLOWER, FEWEST = 1.10, 5
"""What counts as slower, and the rounds below which that is not said: the quartiles of two times are the two."""
SAME = {"gram_weight": 0.0, "fold": "none", "normalize": "minmax"}
CHUNKS_OF = {"chunk_tokens": 400, "overlap_tokens": 80}


# What each process does.


class WordVectors:
    """An encoder whose vectors are means of random vectors of the words."""

    dim, fingerprint = 128, "word-vectors-128"

    def __init__(self) -> None:
        self._words: dict[str, Any] = {}

    def get_config(self) -> dict[str, Any]:
        return {"dim": self.dim}

    def encode_query(self, texts: Any) -> Any:
        import numpy as np

        means = np.stack([np.mean([self._word(word) for word in text.split()], axis=0) for text in texts])
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)

    encode_document = encode_query

    def _word(self, word: str) -> Any:
        import numpy as np

        if word not in self._words:
            self._words[word] = np.random.default_rng([ord(letter) for letter in word]).standard_normal(self.dim)
        return self._words[word]


@contextmanager
def timed(result: dict[str, float], name: str) -> Iterator[None]:
    """Processor seconds of this process, under `name`; without collections of garbage, as timeit does.

    A full collection takes 35 ms and falls where the count of objects made so far says: it would be most of some parts.
    """
    gc.collect()
    gc.disable()
    start = time.process_time()
    yield
    result[name] = time.process_time() - start
    gc.enable()


def measure_read(data: Path, result: dict[str, float]) -> None:
    import memkit as mk

    mk.read(mk.sample_data())
    with timed(result, "read notes"):
        corpus = mk.read(data / "notes")
    with timed(result, "refresh without news"):
        corpus.refresh()


def measure_search(data: Path, result: dict[str, float], name: str, **params: Any) -> None:
    import pyarrow.parquet as pq

    import memkit as mk

    known = inspect.signature(mk.Retriever).parameters
    chunks = {} if name == "default" else CHUNKS_OF
    of_index = {"index": mk.Index(**chunks)} if hasattr(mk, "Index") else chunks
    params = {key: value for key, value in {**params, **of_index}.items() if key in known}
    queries = json.loads((data / "queries.json").read_text(encoding="utf-8"))
    mk.Retriever(**params).fit(mk.from_table({"text": queries})).search(queries, as_of=AS_OF)
    corpus = mk.from_table(pq.read_table(data / "chunks.parquet"))
    with timed(result, f"{name}: fit"):
        search = mk.Retriever(**params).fit(corpus)
    with timed(result, f"{name}: queries"):
        for query in queries:
            search.search(query, as_of=AS_OF)
    with timed(result, f"{name}: batch"):
        search.search(queries, as_of=AS_OF)
    with timed(result, f"{name}: traces"):
        for query in queries[:20]:
            search.trace(query, as_of=AS_OF)


def measure_policies(data: Path, result: dict[str, float]) -> None:
    import numpy as np
    import pyarrow.parquet as pq

    import memkit as mk

    table = pq.read_table(data / "facts.parquet")
    rules = mk.Pipeline([mk.Admission(), mk.Classifier(), mk.Quota(max_facts=20), mk.Expiry()])
    rules.transform(table.slice(0, 10), as_of=AS_OF)
    with timed(result, "policies: rules"):
        rules.transform(table, as_of=AS_OF)
    some, vectors = table.slice(0, VECTORS), np.load(data / "vectors.npy")
    with timed(result, "policies: dedup fit"):
        dedup = mk.Deduplicator(encoder=None).fit(some, vectors=vectors[: len(some)])
    with timed(result, "policies: dedup"):
        dedup.transform(some, as_of=AS_OF)


WORK: dict[str, Callable[[Path, dict[str, float]], None]] = {
    "read": measure_read,
    "words": lambda data, result: measure_search(data, result, "words", encoder=None, **SAME),
    "hybrid": lambda data, result: measure_search(data, result, "hybrid", encoder=WordVectors(), **SAME),
    "default": lambda data, result: measure_search(data, result, "default", encoder=WordVectors()),
    "policies": measure_policies,
}


# What drives them.


def make_data(folder: Path, scale: float) -> None:
    """The same notes, texts, facts and vectors in each run of this script."""
    import generate
    import life
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    life.write(folder / "notes", int(NOTES * scale))
    texts = generate.texts(int(CHUNKS * scale))
    users = [f"u{row % 50}" for row in range(len(texts))]
    pq.write_table(pa.table({"text": texts, "user_id": users}), folder / "chunks.parquet")
    (folder / "queries.json").write_text(json.dumps(generate.queries(texts, QUERIES)), encoding="utf-8")
    rng, count = np.random.default_rng(0), int(FACTS * scale)
    days = np.datetime64(AS_OF, "us") - rng.integers(0, 400, count).astype("timedelta64[D]")
    facts = {
        "memory_id": [f"f{row:07}" for row in range(count)],
        "user_id": [f"u{user}" for user in rng.integers(0, max(1, count // 100), count)],
        "text": generate.texts(count, tokens=9, seed=2),
        "kind": ["archive"] * count,
        "created_at": pa.array(days),
    }
    pq.write_table(pa.table(facts), folder / "facts.parquet")
    np.save(folder / "vectors.npy", rng.standard_normal((VECTORS, 64), dtype=np.float32))


def run(checkout: Path, part: str, data: Path) -> dict[str, float]:
    """One part of the work in a process that imports memkit from `checkout`."""
    # One thread, as idle ones spin for some milliseconds, and their time would be counted.
    environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE), "--run", part, str(checkout), str(data)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{part} of {checkout} failed:\n{process.stderr}")
    return dict(json.loads(process.stdout.splitlines()[-1]))


def serve(part: str, checkout: Path, data: Path) -> None:
    """What `run` starts."""
    import memkit

    if not Path(memkit.__file__).is_relative_to(checkout):
        raise SystemExit(f"expected memkit of {checkout}. Got {memkit.__file__}")
    result: dict[str, float] = {}
    WORK[part](data, result)
    print(json.dumps(result))


def quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def line(name: str, old: list[float], new: list[float]) -> str:
    (a1, a, a3), (b1, b, b3) = quartiles(old), quartiles(new)
    verdict = "SLOWER" if b > SLOWER * a and b1 > a3 else "faster" if a > SLOWER * b and a1 > b3 else ""
    return f"{name:<24}{a:8.3f} [{a1:.3f}, {a3:.3f}]{b:9.3f} [{b1:.3f}, {b3:.3f}]{b / a:7.2f}  {verdict}"


def compare(old: Path, new: Path, rounds: int, scale: float, parts: list[str]) -> bool:
    """Print a line for each measure; whether none got slower."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        make_data(Path(name), scale)
        print(f"processor seconds, median [quartiles] of {rounds} runs, scale {scale:g}: {old}, {new}, new / old")
        for part in parts:
            times_of: dict[str, tuple[list[float], list[float]]] = {}
            for turn in range(2 * rounds):
                # Old, new, new, old: neither has the better place.
                second = turn % 4 in (1, 2)
                for measure, seconds in run((old, new)[second], part, Path(name)).items():
                    times_of.setdefault(measure, ([], []))[second].append(seconds)
            lines += [line(measure, *times) for measure, times in times_of.items()]
            print("\n".join(lines[-len(times_of) :]), flush=True)
    return rounds < FEWEST or not any(text.endswith("SLOWER") for text in lines)


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        serve(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK))
    options = parser.parse_args()
    equal = compare(options.old.resolve(), options.new.resolve(), options.rounds, options.scale, options.only)
    sys.exit(0 if equal else 1)


TINY = "{checkout} {checkout} --rounds 2 --scale 0.002 --only read"


if __name__ == "__main__":
    main()
