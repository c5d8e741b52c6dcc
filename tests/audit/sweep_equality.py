"""Does a sweep score each setting exactly as its own search does? Random corpora, labels and settings.

    python tests/audit/sweep_equality.py [corpora] [settings a corpus] [first seed]

Prints what differs, and exits 1 where anything does. All parameters vary at once, on corpora that are full of ties,
repetitions and near repetitions, with users, days and hidden fields.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import memkit as mk

METRICS = ["ndcg@5", "ndcg", "recall@3", "precision@2", "mrr", "map", "hit@1", "judged@4", "stale@4"]


def differences(search: Any, queries: Any, qrels: Any, swept: mk.evaluate, as_of: Any) -> list[str]:
    """What is not as `evaluate` has it."""
    wrong = []
    for i, setting in enumerate(swept.settings):
        try:
            alone = mk.evaluate(search.with_params(**setting), queries, qrels, METRICS, as_of=as_of)
        except mk.MemkitError as error:
            if "no score of 0" not in str(error) or swept.table["n_with_hits"][i].as_py():
                wrong.append(f"{setting}: {error}")
            continue
        for metric in METRICS:
            expected, actual = alone.per_query[metric].to_numpy(), swept.matrix(metric)[i]
            if not np.array_equal(expected, actual, equal_nan=True):
                wrong.append(f"{metric} {setting}: expected {expected}, got {actual}")
        with_hits = alone.table["n_with_hits"][0].as_py()
        if with_hits != swept.table["n_with_hits"][i].as_py():
            wrong.append(f"{setting}: {with_hits} queries have hits, not {swept.table['n_with_hits'][i]}")
    return wrong


def main() -> int:
    corpora, settings, first = (int(text) for text in (*sys.argv[1:], *["10", "200", "0"][len(sys.argv) - 1 :]))
    path = Path(__file__).parents[1] / "evaluation" / "test_sweep.py"
    spec = importlib.util.spec_from_file_location("test_sweep", path)
    drawn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawn)
    wrong = 0
    for seed in range(first, first + corpora):
        rng = np.random.default_rng(seed)
        corpus = drawn.drawn_corpus(seed, int(rng.integers(5, 150)))
        search = mk.Retriever(
            encoder="hash", index=mk.Index(chunk_tokens=8, overlap_tokens=0), pool=20, expired="hide"
        ).fit(corpus)
        queries, qrels = drawn.drawn_labels(seed + 1, corpus)
        qrels["valid_to"] = [
            drawn.DAY - pd.Timedelta(days=int(d)) if d < 60 else None for d in rng.integers(-99, 200, len(qrels))
        ]
        grid = [{name: [value] for name, value in one.items()} for one in drawn.drawn_settings(rng, settings)]
        swept = mk.sweep(search, queries, qrels, grid, METRICS, as_of=drawn.DAY)
        faults = differences(search, queries, qrels, swept, drawn.DAY)
        print(
            f"seed {seed}: {corpus.memories.num_rows} memories, {len(grid)} settings, {len(faults)} differences",
            flush=True,
        )
        for line in faults[:3]:
            print("   ", line)
        wrong += len(faults)
    return int(wrong > 0)


TINY = "1 5 0"


if __name__ == "__main__":
    sys.exit(main())
