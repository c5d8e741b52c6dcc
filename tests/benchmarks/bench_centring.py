"""What centring vectors per language does on a corpus of two languages that say the same, where both are relevant.

``python tests/benchmarks/bench_centring.py FOLDER`` with the labelled sets xquad_ru and xquad_en in FOLDER.
"""

from __future__ import annotations

import argparse
import os
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import memkit as mk
from memkit.index.ann import CENTRES

K = 10
LANGUAGES = ("ru", "en")


def ndcg(hits: list[str], relevant: set[str]) -> float:
    """nDCG@10 of binary judgements."""
    discount = 1 / np.log2(np.arange(2, K + 2))
    gained = sum(discount[place] for place, name in enumerate(hits[:K]) if name in relevant)
    return float(gained / discount[: min(len(relevant), K)].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="use")
    parser.add_argument("--limit", type=int, default=200, help="queries a language, the first by id")
    options = parser.parse_args()
    read = {lang: options.folder / f"xquad_{lang}" for lang in LANGUAGES}
    parts = [pq.read_table(read[lang] / "corpus.parquet").select(["id", "text"]) for lang in LANGUAGES]
    ids = [f"{lang}:{name}" for lang, part in zip(LANGUAGES, parts, strict=True) for name in part["id"].to_pylist()]
    corpus = mk.from_table({"memory_id": ids, "text": pa.concat_tables(parts)["text"]})
    print(f"{date.today()}, {os.cpu_count()} cores, encoder {options.encoder}, {len(ids)} texts of two languages")
    print("centre    " + "".join(f"{f'nDCG@{K} of {lang} queries':>26}" for lang in LANGUAGES))
    for centre in CENTRES:
        search = mk.Retriever(
            encoder=options.encoder, index=mk.Index(centre=centre), vector_weight=1.0, decay="none"
        ).fit(corpus)
        means = [mean_ndcg(search, read[lang], options.limit) for lang in LANGUAGES]
        print(f"{centre:<10}" + "".join(f"{mean:>26.3f}" for mean in means))


def mean_ndcg(search: mk.Retriever, folder: Path, limit: int) -> float:
    """Over the first queries of one language, a paragraph counting in both."""
    queries = pq.read_table(folder / "queries.parquet").sort_by("id").slice(0, limit)
    qrels = pq.read_table(folder / "qrels.parquet")
    hits = search.search(pa.table({"query_id": queries["id"], "text": queries["text"]}), k=K)
    scores = []
    for query in queries["id"].to_pylist():
        judged = qrels.filter(pc.equal(qrels["query_id"], query))["doc_id"].to_pylist()
        names = hits.filter(pc.equal(hits["query_id"], query))["memory_id"].to_pylist()
        scores.append(ndcg(names, {f"{lang}:{name}" for lang in LANGUAGES for name in judged}))
    return float(np.mean(scores))


TINY = "{sets} --encoder hash --limit 4"


if __name__ == "__main__":
    main()
