"""Near-duplicates by meaning: which pairs would collapse under rules that were considered, beside the letters in use.

    python tests/benchmarks/bench_fold.py FOLDER

FOLDER has `sick` and `xnli_ru`, pairs that follow from each other, contradict each other or do neither, and the sets of
`bench_quality.py`. "cosine" is a threshold of the encoder's; numbers, dates and negations must agree, as in use.
"covered" asks besides that the second text has no word that the first lacks (stems, without stop words), so that no
name or value differs. The last lines count the hits that "covered" would collapse beyond letters, among the first 15.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import bench_labels
import bench_quality
import numpy as np
import pandas as pd
import pyarrow as pa

import memkit as mk
from memkit.index.encode import as_encoder
from memkit.search.alike import Repeats
from memkit.tables.corpus import Corpus
from memkit.tables.owners import Owners
from memkit.text.analyse import terms_by
from memkit.text.conflicts import Conflicts
from memkit.text.letters import FUNCTION_WORDS

KINDS = {"sick": {}, "xnli_ru": {"-1": "CONTRADICTION", "0": "NEUTRAL", "1": "ENTAILMENT"}}
VALUES = (("Пользователь живёт в Казани", "Пользователь живёт в Самаре"), ("I drink tea", "I drink coffee"))
CONFLICTS = Conflicts()
Rule = Callable[[str, str, float], bool]


def content(texts: list[str]) -> list[set[str]]:
    stop_words = {term for terms in terms_by("auto").terms(sorted(FUNCTION_WORDS)) for term in terms}
    return [set(terms) - stop_words for terms in terms_by("auto").terms(texts)]


def covered(one: str, other: str) -> bool:
    first, second = content([one, other])
    return second <= first


def letters(one: str, other: str) -> bool:
    shared, _ = Repeats([one, other], Owners.of(pa.table({"text": [one, other]}))).near(np.array([[0, 1]]), 0.85)
    return bool(shared[0] >= 0)


RULES: dict[str, Rule] = {
    "letters .85": lambda one, other, cosine: letters(one, other),
    "cosine .8": lambda one, other, cosine: cosine >= 0.8 and not any(CONFLICTS(one, other)),
    "cosine .9": lambda one, other, cosine: cosine >= 0.9 and not any(CONFLICTS(one, other)),
    "cosine .95": lambda one, other, cosine: cosine >= 0.95 and not any(CONFLICTS(one, other)),
    "cosine .7, covered": lambda one, other, cosine: (
        cosine >= 0.7 and not any(CONFLICTS(one, other)) and covered(one, other)
    ),
}


def shares(folder: Path, name: str) -> pd.DataFrame:
    """The share of pairs of each kind that each rule collapses."""
    pairs = pd.read_parquet(folder / name / "pairs.parquet")
    pairs["kind"] = pairs["entailment"] if name == "sick" else pairs["label"].astype(int).astype(str).map(KINDS[name])
    texts = sorted({*pairs["text_a"], *pairs["text_b"]})
    vectors = dict(zip(texts, as_encoder("use").encode_document(texts), strict=True))
    for rule, holds in RULES.items():
        pairs[rule] = [
            holds(a, b, float(vectors[a] @ vectors[b])) for a, b in zip(pairs.text_a, pairs.text_b, strict=True)
        ]
    return pairs.groupby("kind")[list(RULES)].mean()


def collapsed(search: mk.Retriever, texts: list[str], least: float) -> tuple[int, int]:
    """How many of the first 15 hits of each question say nothing that one above them does not say, and all."""
    question = search.ask(texts, k=15, as_of="2026-11-01")
    ranked = question.ranked().returned()
    vectors, of_chunks = question.index.arms["vector"].vectors_, question.index.own_texts
    total = 0
    for query in range(len(texts)):
        rows = ranked.candidates.row[ranked.candidates.query == query].tolist()
        shown = [of_chunks[row].as_py() for row in rows]
        words = content(shown)
        total += sum(
            any(
                words[below] <= words[above]
                and vectors[rows[above]] @ vectors[rows[below]] >= least
                and not any(CONFLICTS(shown[above], shown[below]))
                for above in range(below)
            )
            for below in range(len(rows))
        )
    return total, len(ranked.rank)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.machine()}")
    for pair in VALUES:
        one, other = as_encoder("use").encode_document(list(pair))
        print(f"{' / '.join(pair)}: cosine {float(one @ other):.2f}")
    for name in KINDS:
        print(name, shares(folder, name).round(3).to_string(), sep="\n", flush=True)
    questions = bench_labels.queries()["text"].tolist()
    print("data: {} of {} hits".format(*collapsed(mk.Retriever().fit(mk.read(bench_labels.DATA)), questions, 0.7)))
    for name in ("locomo_obs", "se_meta_dups", "madial_en"):
        labelled = bench_quality.read_set(folder / name, folder / name, 60)
        search = mk.Retriever(decay="none").fit(Corpus({"memories": labelled.memories}))
        texts = [query["text"] for query in labelled.queries]
        print("{}: {} of {} hits".format(name, *collapsed(search, texts, 0.7)), flush=True)


TINY = "{sets}"


if __name__ == "__main__":
    main()
