"""Reranking (`rerank=`) by share and number of candidates: nDCG@10 on labelled sets, beside none.

    python tests/benchmarks/bench_rerank.py FOLDER --rerank e5 --limit 100

FOLDER is that of `bench_quality.py`; then come hit@5 and MRR of the labelled questions to `data/`. Encoder `use`,
nothing decays or folds in the sets. Each passage is scored once. Differences are of the same queries.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import bench_labels
import bench_quality
import numpy as np

import memkit as mk
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus

SETS = (
    "locomo",
    "locomo_obs",
    "madial_en",
    "precisionmem",
    "realmem",
    "rumeddanet_ru",
    "xquadr_ru",
    "xquadr_en",
)
NUMBERS = (10, 20, 30)
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
PLAIN: dict[str, Any] = {"decay": "none", "kinds_hidden": (), "fold": "none", "future": "keep"}


def scores(held: bench_quality.Labelled, rerank: str, settings: list[dict[str, Any]]) -> np.ndarray:
    """nDCG@10 of each query under each setting, settings x queries."""
    search = Retriever(encoder="use").fit(Corpus({"memories": held.memories})).with_params(**PLAIN)
    parts = []
    for where, queries in held.batches():
        qrels = [(q["id"], memory, gain) for q in queries for memory, gain in held.relevant[q["id"]].items()]
        table = {"query_id": [q["id"] for q in queries], "text": [q["text"] for q in queries]}
        judged = dict(zip(("query_id", "memory_id", "relevance"), map(list, zip(*qrels, strict=True)), strict=True))
        parts.append(
            np.stack(
                [
                    mk.evaluate(search.with_params(**one), table, judged, "ndcg@10", where=where, as_of="2026-01-01")
                    .per_query.to_pandas()
                    .set_index("query_id")
                    .loc[table["query_id"], "ndcg@10"]
                    .to_numpy()
                    for one in settings
                ]
            )
        )
    return np.concatenate(parts, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rerank", default="e5")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
    parser.add_argument("--cache", type=Path, help="keep vectors there, for another run")
    options = parser.parse_args()
    if options.cache:
        mk.vector_cache(options.cache)
    print(f"{bench_quality.measured_on()}, rerank={options.rerank!r}")
    looks = [{"rerank": options.rerank, "rerank_n": n, "rerank_weight": share} for n in NUMBERS for share in SHARES]
    titles = ["none", *(f"{look['rerank_n']}, {look['rerank_weight']:g}" for look in looks)]
    print("\n| set | queries | " + " | ".join(titles) + " |\n" + "|---" * (len(titles) + 2) + "|")
    means = []
    for name in options.sets:
        held = bench_quality.read_set(options.folder / name, options.folder / name, options.limit)
        begun = time.process_time()
        by_look = scores(held, options.rerank, [{}, *looks])
        means.append(by_look.mean(axis=1))
        off = by_look[1:] - by_look[0]
        best = int(off.mean(axis=1).argmax())
        half = 1.96 * off[best].std(ddof=1) / np.sqrt(off.shape[1])
        row = " | ".join(f"{value:.3f}" for value in means[-1])
        print(
            f"| {name} | {off.shape[1]} | {row} | {titles[1 + best]}: {off[best].mean():+.3f} ± {half:.3f}"
            f" ({time.process_time() - begun:.0f} s)",
            flush=True,
        )
    print(f"| mean | | {' | '.join(f'{value:.3f}' for value in np.mean(means, axis=0))} |")
    corpus = mk.read(bench_labels.DATA)
    search, folder = Retriever().fit(corpus), bench_labels.DATA / "labels"
    relevant = bench_labels.qrels(corpus, bench_labels.labels(folder)).query("relevance > 0")
    labelled = bench_labels.queries(folder).query("kind != 'unanswerable'")
    print("\n| `data/` | hit@1 | hit@5 | MRR |\n|---|---|---|---|")
    for title, look in zip(titles, [{}, *looks], strict=True):
        by_query = relevant.groupby("query_id")["memory_id"].agg(set)
        every = bench_labels.measured(search.with_params(**look), labelled, by_query).loc["all"]
        print(f"| {title} | {every['hit@1']:.2f} | {every['hit@5']:.2f} | {every['mrr@10']:.2f} |", flush=True)


TINY = "{sets} --rerank hash --sets xquad_ru --limit 4"


if __name__ == "__main__":
    main()
