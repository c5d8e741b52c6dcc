"""A hybrid query beside the two arms it asks, by size; prints a table with the date and the machine.

    python tests/benchmarks/bench_search.py --sizes 10000 100000 [1000000 --ann ivf]
    python tests/benchmarks/bench_search.py --arms 20000

The second prints what each of the arms that a search has by default costs alone, all three, and bm25s over the same
pieces, in seconds of the processor; encoding is not in it but for the sums of word vectors.

Texts and vectors are generated. The vector of a text is the mean of its words' random vectors, so that texts that share
words lie near each other; vectors of queries come from the cache, as those of repeated queries do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import bench_quality
import numpy as np
import pyarrow as pa
from bench_life import Bm25s
from generate import queries, texts

from memkit.index.encoders.base import unit_rows
from memkit.schemas import MEMORIES
from memkit.search.fitted.chunks import Index
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus

AS_OF = "2026-11-01"


class WordVectors:
    """An encoder whose vectors are means of random word vectors: fast, the same in every run."""

    def __init__(self, dim: int) -> None:
        self.dim, self.fingerprint = dim, f"word-vectors-{dim}"
        self._words: dict[str, np.ndarray] = {}

    def get_config(self) -> dict[str, Any]:
        return {"dim": self.dim}

    def encode_query(self, texts: Any) -> np.ndarray:
        return unit_rows(np.stack([np.mean([self._word(word) for word in text.split()], axis=0) for text in texts]))

    encode_document = encode_query

    def _word(self, word: str) -> np.ndarray:
        if word not in self._words:
            seed = [ord(letter) for letter in word]
            self._words[word] = np.random.default_rng(seed).standard_normal(self.dim, dtype=np.float32)
        return self._words[word]


def corpus_of(chunks: list[str]) -> Corpus:
    """One memory a text, of fifty users, a tenth of them a year old."""
    count = len(chunks)
    age = np.where(np.arange(count) % 10, 0, 365).astype("timedelta64[D]")
    filled = {
        "memory_id": [f"table:#{row:07d}" for row in range(count)],
        "format": ["table"] * count,
        "user_id": [f"u{row % 50}" for row in range(count)],
        "title": [""] * count,
        "text": chunks,
        "tags": [[]] * count,
        "created_at": (np.datetime64("2026-10-01", "us") - age).astype("datetime64[us]"),
    }
    columns = [pa.array(filled[f.name], f.type) if f.name in filled else pa.nulls(count, f.type) for f in MEMORIES]
    return Corpus({"memories": pa.Table.from_arrays(columns, schema=MEMORIES)})


def each(
    works: dict[str, Callable[[str], Any]],
    query_texts: list[str],
    repeat: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Milliseconds a query of each work: the median over the queries of the best of `repeat` runs, taken in turn."""
    best = {name: np.full(len(query_texts), np.inf) for name in works}
    for _ in range(repeat):
        for i, query in enumerate(query_texts):
            for name, work in works.items():
                start = clock()
                work(query)
                best[name][i] = min(best[name][i], clock() - start)
    return {name: float(np.median(seconds)) * 1e3 for name, seconds in best.items()}


def measure(size: int, dim: int, n_queries: int, ann: str) -> dict[str, float]:
    """One row of the table."""
    chunks = texts(size)
    start = time.perf_counter()
    search = Retriever(encoder=WordVectors(dim), index=Index(ann=ann)).fit(corpus_of(chunks))
    fit = time.perf_counter() - start
    query_texts = queries(chunks, n_queries)
    search.search(query_texts, as_of=AS_OF)
    bm25, vector = search.arms_["bm25"], search.arms_["vector"]
    works: dict[str, Callable[[str], Any]] = {
        "bm25 ms": lambda q: bm25.candidates([q], 100),
        "vector ms": lambda q: vector.candidates([q], 100),
        "hybrid ms": lambda q: search.search(q, as_of=AS_OF),
        "where ms": lambda q: search.search(q, where="user_id = 'u7'", as_of=AS_OF),
        "trace ms": lambda q: search.trace(q, as_of=AS_OF),
    }
    milliseconds = each(works, query_texts, repeat=15)
    start = time.perf_counter()
    search.search(query_texts, as_of=AS_OF)
    batch = (time.perf_counter() - start) / n_queries * 1e3
    ratio = milliseconds["hybrid ms"] / (milliseconds["bm25 ms"] + milliseconds["vector ms"])
    return {"chunks": size, "fit s": fit, **milliseconds, "hybrid / sum": ratio, "batch ms/query": batch}


ARMS: dict[str, dict[str, Any]] = {
    "words": {"bm25_weight": 1.0, "vector_weight": 0.0, "gram_weight": 0.0},
    "words, unfolded": {"bm25_weight": 1.0, "vector_weight": 0.0, "gram_weight": 0.0, "fold": "none"},
    "letters": {"bm25_weight": 0.0, "vector_weight": 0.0, "gram_weight": 1.0},
    "vectors": {"bm25_weight": 0.0, "vector_weight": 1.0, "gram_weight": 0.0},
    "all three": {},
}


def measure_arms(size: int, dim: int, n_queries: int) -> None:
    """Print a row for each of the arms alone, for all, and for bm25s over the same pieces."""
    chunks = texts(size)
    query_texts = queries(chunks, n_queries)
    works: dict[str, Callable[[str], Any]] = {}
    fits, first = {}, {}
    for name, weights in ARMS.items():
        corpus, start = corpus_of(chunks), time.process_time()
        search = Retriever(encoder=WordVectors(dim), **weights).fit(corpus)
        fits[name] = time.process_time() - start
        start = time.process_time()
        search.search(query_texts, as_of=AS_OF)
        first[name] = (time.process_time() - start) / n_queries * 1e3
        works[name] = partial(search.search, as_of=AS_OF)
    pieces = search.chunks_["text"].to_pylist()
    start = time.process_time()
    bm25s = Bm25s(pieces)
    fits["bm25s"] = time.process_time() - start
    start = time.process_time()
    bm25s.ask_all(query_texts)
    first["bm25s"] = (time.process_time() - start) / n_queries * 1e3
    works["bm25s"] = bm25s.ask
    milliseconds = each(works, query_texts, repeat=5, clock=time.process_time)
    print(f"{size:,} memories, {len(pieces):,} pieces, {n_queries} queries: seconds of the processor")
    print(f"{'':<16}{'fit s':>9}{'one query ms':>15}{'first batch, ms a query':>26}")
    for name in works:
        print(f"{name:<16}{fits[name]:>9.1f}{milliseconds[name]:>15.2f}{first[name]:>26.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--ann", default="auto", help="auto builds a graph on one thread beyond 100,000 chunks")
    parser.add_argument("--arms", type=int, help="so many memories, each arm by itself, and nothing else")
    options = parser.parse_args()
    machine = bench_quality.measured_on()
    print(f"{machine}, {options.dim} dimensions, ann={options.ann}")
    if options.arms:
        measure_arms(options.arms, options.dim, options.queries)
        return
    for number, size in enumerate(options.sizes):
        row = measure(size, options.dim, options.queries, options.ann)
        if not number:
            print("".join(f"{name:>16}" for name in row))
        print("".join(f"{value:>16,.2f}" if name != "chunks" else f"{value:>16,}" for name, value in row.items()))


TINY = "--sizes 200 --dim 8 --queries 4"


if __name__ == "__main__":
    main()
