"""How well `answerability` tells questions with an answer from those without one: ROC AUC, .5 is chance.

    python tests/benchmarks/bench_answerable.py FOLDER --limit 150

FOLDER is that of `bench_quality.py`. Questions without an answer are those of another set, put to these documents; then
every second question of the set itself, whose relevant documents were taken out; then those of data/labels.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import bench_labels
import bench_quality
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.metrics import roc_auc_score

import memkit as mk
from memkit.tables.corpus import Corpus

OTHERS = (
    ("locomo_obs", "scifact"),
    ("madial_en", "se_meta_dups"),
    ("rumeddanet_ru", "xquad_ru"),
    ("xquad_ru", "rumeddanet_ru"),
)
"""Whose documents, and whose questions have no answer there."""
TAKEN_OUT = ("rumeddanet_ru", "xquad_ru", "xquad_en", "se_meta_dups", "madial_en")


def auc(search: mk.Retriever, answered: Sequence[str], others: Sequence[str]) -> str:
    asked = pa.table({"text": [*answered, *others]})
    hits = search.search(asked, k=10, as_of="2026-11-01")
    likely = json.loads((hits.schema.metadata or {})[b"answerability"])
    truth = [True] * len(answered) + [False] * len(others)
    found = roc_auc_score(truth, [likely[str(at)] for at in range(len(truth))])
    return f"{len(answered)} with, {len(others)} without: {found:.3f}"


def texts(labelled: bench_quality.Labelled) -> list[str]:
    return [query["text"] for query in labelled.queries]


def fitted(labelled: bench_quality.Labelled) -> mk.Retriever:
    return mk.Retriever(decay="none").fit(Corpus({"memories": labelled.memories}))


def without_answers(labelled: bench_quality.Labelled) -> tuple[bench_quality.Labelled, list[str], list[str]]:
    """The set without what answers every second question, and the questions that keep and that lost their answers."""
    lost, kept = labelled.queries[::2], labelled.queries[1::2]
    gone = {memory for query in lost for memory in labelled.relevant[query["id"]]}
    rest = labelled.memories.filter(pc.invert(pc.is_in(labelled.memories["memory_id"], value_set=pa.array([*gone]))))
    still = [query["text"] for query in kept if not gone & labelled.relevant[query["id"]].keys()]
    return replace(labelled, memories=rest), still, [query["text"] for query in lost]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
    options = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.machine()}, AUC of answerability")

    def read(name: str) -> bench_quality.Labelled:
        return bench_quality.read_set(options.folder / name, options.folder / name, options.limit)

    for held, other in OTHERS:
        labelled = read(held)
        print(
            f"{held}, asked what {other} asks: {auc(fitted(labelled), texts(labelled), texts(read(other)))}", flush=True
        )
    for name in TAKEN_OUT:
        labelled, still, lost = without_answers(read(name))
        print(f"{name}, answers taken out: {auc(fitted(labelled), still, lost)}", flush=True)
    asked = bench_labels.queries()
    is_open = asked["kind"] == "unanswerable"
    search = mk.Retriever().fit(mk.read(bench_labels.DATA))
    print(f"data/labels: {auc(search, asked.loc[~is_open, 'text'].tolist(), asked.loc[is_open, 'text'].tolist())}")


if __name__ == "__main__":
    main()
