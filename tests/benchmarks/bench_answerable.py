"""How well `answerability` tells questions whose answer is among the first hits: ROC AUC, and calibration error.

    python tests/benchmarks/bench_answerable.py FOLDER [--limit 120] [--fit]

FOLDER is that of `bench_quality.py`. Truth is whether one of the first five hits is relevant. Besides each set's own
questions there are some without an answer: those of another set, every second question of the set itself, whose
relevant documents are taken out, and those of data/labels. "any" is the AUC of questions that have an answer anywhere
against those that have none. The expected calibration error is that of ten equal parts of 0 to 1.

With --fit a logistic regression of the two numbers behind it (`evidence`), each set with the same weight, is fitted on
all sets but one and judged on that one; the last line has the numbers of all sets together.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import bench_labels
import bench_quality
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import memkit as mk
from memkit.search.steps.fuse import answerability, evidence
from memkit.tables.corpus import Corpus

OWN = ("locomo", "locomo_obs", "madial_en", "rumeddanet_ru", "se_meta_dups", "xquad_en", "xquad_ru", "xquadr_en")
OWN += ("xquadr_ru",)
OTHERS = {
    "locomo_obs": "scifact",
    "madial_en": "se_meta_dups",
    "rumeddanet_ru": "xquad_ru",
    "xquad_ru": "rumeddanet_ru",
}
"""Whose documents, and whose questions have no answer there."""
TAKEN_OUT = ("rumeddanet_ru", "xquad_ru", "xquad_en", "se_meta_dups", "madial_en")
FIRST, PARTS = 5, 10
Cases = Iterator[tuple[str, mk.Retriever, list[str], list[set[str]]]]
"""Name, search, questions, and the relevant memories of each."""


def rows_of_questions(search: mk.Retriever, texts: list[str], relevant: list[set[str]]) -> pd.DataFrame:
    """A row a question: the two numbers, the answerability, whether it has an answer, and one among the first hits."""
    question = search.ask(texts, k=FIRST, as_of="2026-11-01")
    ranked = question.ranked()
    best, gap = evidence(ranked, len(texts))
    hits = search.search(texts, k=FIRST, as_of="2026-11-01").to_pandas()
    first = hits.groupby("query_id")["memory_id"].agg(set)
    has_hit = [bool(first.get(str(number), set()) & wanted) for number, wanted in enumerate(relevant)]
    table = {"best": best, "gap": gap, "likely": answerability(ranked, question.settings, len(texts))}
    return pd.DataFrame(table | {"any": [bool(wanted) for wanted in relevant], "truth": has_hit})


def fitted(labelled: bench_quality.Labelled) -> mk.Retriever:
    return mk.Retriever(decay="none").fit(Corpus({"memories": labelled.memories}))


def without_answers(labelled: bench_quality.Labelled) -> bench_quality.Labelled:
    """The set without what answers every second question."""
    answers = {memory for query in labelled.queries[::2] for memory in labelled.relevant[query["id"]]}
    memories = labelled.memories.filter(
        pc.invert(pc.is_in(labelled.memories["memory_id"], value_set=pa.array([*answers])))
    )
    relevant = {
        query: {k: v for k, v in wanted.items() if k not in answers} for query, wanted in labelled.relevant.items()
    }
    return replace(labelled, memories=memories, relevant=relevant)


def cases(folder: Path, limit: int) -> Cases:
    def read(name: str) -> bench_quality.Labelled:
        return bench_quality.read_set(folder / name, folder / name, limit)

    for name in OWN:
        labelled = read(name)
        foreign = [query["text"] for query in read(OTHERS[name]).queries] if name in OTHERS else []
        texts = [query["text"] for query in labelled.queries]
        relevant = [set(labelled.relevant[query["id"]]) for query in labelled.queries]
        search = fitted(labelled)
        yield name, search, texts, relevant
        if foreign:
            yield f"{name} and {OTHERS[name]}'s questions", search, texts + foreign, relevant + [set()] * len(foreign)
        if name in TAKEN_OUT:
            bare = without_answers(labelled)
            wanted = [set(bare.relevant[query["id"]]) for query in bare.queries]
            yield f"{name}, answers taken out", fitted(bare), texts, wanted
    corpus, queries = mk.read(bench_labels.DATA), bench_labels.queries()
    by_query = bench_labels.qrels(corpus, bench_labels.labels()).groupby("query_id")["memory_id"].agg(set)
    relevant = [by_query.get(query_id, set()) for query_id in queries["query_id"]]
    yield "data/labels", mk.Retriever().fit(corpus), queries["text"].tolist(), relevant


def calibration_error(likely: np.ndarray, truth: np.ndarray) -> float:
    part = np.minimum((likely * PARTS).astype(int), PARTS - 1)
    errors = (abs((likely - truth)[part == number].sum()) for number in range(PARTS))
    return float(sum(errors) / len(truth))


def auc(truth: pd.Series, likely: np.ndarray | pd.Series) -> float:
    return float(roc_auc_score(truth, likely)) if truth.nunique() > 1 else float("nan")


def regression(table: pd.DataFrame) -> LogisticRegression:
    weights = 1 / table.groupby("case")["case"].transform("size")
    return LogisticRegression(C=1e4).fit(table[["best", "gap"]], table["truth"], sample_weight=weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=120, help="queries a set, drawn with seed 0")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    print(bench_quality.measured_on())
    print("case | questions | answered | AUC | any | best alone | calibration error")
    tables = []
    for name, search, texts, relevant in cases(options.folder, options.limit):
        table = rows_of_questions(search, texts, relevant).assign(case=name, set=name.split()[0].rstrip(","))
        tables.append(table)
        figures = [auc(table["truth"], table["likely"]), auc(table["any"], table["likely"])]
        figures += [auc(table["truth"], table["best"]), calibration_error(table["likely"], table["truth"])]
        shown = " | ".join(f"{figure:.3f}" for figure in figures)
        print(f"{name} | {len(table)} | {table['truth'].mean():.2f} | {shown}", flush=True)
    every = pd.concat(tables, ignore_index=True)
    of_cases = [calibration_error(case["likely"], case["truth"]) for _, case in every.groupby("case")]
    print(
        f"calibration error: mean of cases {np.mean(of_cases):.3f}, of all questions together"
        f" {calibration_error(every['likely'], every['truth']):.3f}"
    )
    highest = every[every["likely"] >= 0.9]
    print(f"said .9 and more: {len(highest)} questions, true of {highest['truth'].mean():.2f}")
    if options.fit:
        for name in every["set"].unique():
            is_left = every["set"] == name
            likely = regression(every[~is_left]).predict_proba(every.loc[is_left, ["best", "gap"]])[:, 1]
            print(
                f"fitted without {name}: AUC {auc(every.loc[is_left, 'truth'], likely):.3f}, calibration error"
                f" {calibration_error(likely, every.loc[is_left, 'truth']):.3f}"
            )
        whole = regression(every)
        print(f"offset {whole.intercept_[0]:.2f}, of best {whole.coef_[0][0]:.2f}, of gap {whole.coef_[0][1]:.2f}")


TINY = "{sets} --limit 4"


if __name__ == "__main__":
    main()
