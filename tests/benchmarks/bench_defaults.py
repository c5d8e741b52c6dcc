"""Whether each default that was chosen by measurement is still better than what it was chosen from, by `mk.compare`.

    python tests/benchmarks/bench_defaults.py FOLDER --limit 100

FOLDER is that of `bench_quality.py`. Each default is b, what stands in `OTHERS` is a, all else as it is. Two verdicts
on nDCG@10: over all sets, each a group that counts as much as any other; and within each set over its users: a scope,
else the article that a question is about, else the question itself. Defaults were chosen on some of these sets, so they
look better here than elsewhere; what is worse here is worse. What nobody judged counts as irrelevant.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_quality
import bench_tune
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import memkit as mk
from memkit.tables.corpus import Corpus

if TYPE_CHECKING:  # an older commit, asked by bench_before.py, has it elsewhere
    from memkit.evaluation.compare import Comparison

METRIC, K = "ndcg@10", 10
FIT = {name for name, declared in mk.Retriever.all_params().items() if declared.refit}
LARGE = 2_000_000
"""Characters of a set beyond which nothing is fitted but the default: its encoder would take minutes each time."""
OTHERS: dict[str, list[dict[str, Any]]] = {
    "normalize='calibrated'": [{"normalize": how} for how in ("minmax", "max", "rank")],
    "fusion='weighted'": [{"fusion": "rrf"}],
    "the encoder's weights": [
        {"vector_weight": 0.5, "bm25_weight": 0.5, "gram_weight": 0.0},
        {"vector_weight": 0.7, "bm25_weight": 0.3, "gram_weight": 0.0},
        {"gram_weight": 0.0},
    ],
    "chunk_tokens=100": [{"index__chunk_tokens": size, "index__overlap_tokens": size // 5} for size in (200, 400)],
    "overlap_tokens=20": [{"index__overlap_tokens": 0}],
    "all columns searched": [{"index__searched": ("title", "tags", "text")}],
    "fold='near'": [{"fold": "none"}],
    "read_dates=True": [{"read_dates": False}],
    "function_word_weight=0.1": [{"function_word_weight": weight} for weight in (0.0, 0.3, 1.0)],
    "near_words=0.8": [{"near_words": weight} for weight in (0.0, 0.5, 1.0)],
    "across_weight=0.6": [{"across_weight": weight} for weight in (0.0, 0.3, 0.8, 1.0)],
    "centre='none'": [{"index__centre": "language"}],
    "context_column of turns": [{"index__context_column": None}],
}
RUN = pa.schema(
    [("query_id", pa.string()), ("memory_id", pa.string()), ("rank", pa.int64()), ("alike", pa.list_(pa.string()))]
)
TURNS = ("locomo",)
"""Sets of turns of conversations, whose neighbours lend them their words."""


@dataclass
class Part:
    """One set: its questions with their users, and what each setting found."""

    labelled: bench_quality.Labelled
    users: dict[str, str]
    runs: dict[str, pa.Table]

    @property
    def queries(self) -> pd.DataFrame:
        rows = self.labelled.queries
        name, family = self.labelled.name, "xquad" if "xquad" in self.labelled.name else self.labelled.name
        users = [
            row.get("scope") or self.users.get(row["id"]) or row.get("user") or f"{name}/{row['id']}" for row in rows
        ]
        return pd.DataFrame({
            "query_id": [f"{name}/{row['id']}" for row in rows],
            "text": [row["text"] for row in rows],
            "user": [f"{family.removesuffix('_obs')}:{user}" for user in users],
            "set": name,
        })  # fmt: skip  # a table

    @property
    def qrels(self) -> pd.DataFrame:
        name, relevant = self.labelled.name, self.labelled.relevant
        rows = [
            (f"{name}/{q['id']}", f"{name}/{m}", gain)
            for q in self.labelled.queries
            for m, gain in relevant[q["id"]].items()
        ]
        return pd.DataFrame(rows, columns=["query_id", "memory_id", "relevance"])


def first_hits(search: mk.Retriever, labelled: bench_quality.Labelled) -> pa.Table:
    """The first hits of every question, asked on its day where it has one, among what it may see."""
    tables = []
    for where, rows in labelled.batches():
        days = [str(row["timestamp"]) if row.get("timestamp") is not None else None for row in rows]
        queries = pd.DataFrame(
            {"query_id": [row["id"] for row in rows], "text": [row["text"] for row in rows], "as_of": days}
        )
        tables.append(
            search.search(queries, k=K, where=where, as_of="2026-11-01").select(
                ["query_id", "memory_id", "rank", "alike"]
            )
        )
    frame = pa.concat_tables(tables).to_pandas()
    name = labelled.name
    named = frame.assign(
        query_id=name + "/" + frame["query_id"],
        memory_id=name + "/" + frame["memory_id"],
        alike=[[f"{name}/{one}" for one in some] for some in frame["alike"]],
    )
    return pa.Table.from_pandas(named, RUN, preserve_index=False)


def settings(labelled: bench_quality.Labelled) -> Iterator[dict[str, Any]]:
    large = sum(map(len, labelled.memories["text"].to_pylist())) > LARGE
    yield {}
    for params in OTHERS.values():
        yield from (one for one in params if "index__context_column" not in one and not (large and FIT & {*one}))
    if labelled.name in TURNS:
        yield {"index__context_column": "scope"}


def measured(folder: Path, questions: str, held: str, options: argparse.Namespace) -> Part:
    """A set, asked with each setting; what acts at fit is fitted anew."""
    labelled = bench_quality.read_set(folder / held.removeprefix("half "), folder / questions, options.limit)
    if held.startswith("half "):
        labelled = bench_quality.halved(labelled, bench_quality.read_set(folder / questions, folder / questions, None))
    memories = labelled.memories
    if labelled.name in TURNS:
        talks = pq.read_table(folder / held / "corpus.parquet")
        talk = [
            f"{scope}/{session}"
            for scope, session in zip(*(talks[c].to_pylist() for c in ("scope", "session")), strict=True)
        ]
        memories = memories.set_column(memories.schema.get_field_index("scope"), "scope", pa.array(talk))
    corpus, fitted = Corpus({"memories": memories}), {}
    runs = {}
    for setting in settings(labelled):
        at_fit = {key: value for key, value in setting.items() if key in FIT}
        if repr(at_fit) not in fitted:
            fitted = {"{}": fitted.get("{}")} if fitted else {}  # one beside the default's at a time
            search = mk.Retriever(encoder=options.encoder, **at_fit).fit(corpus)
            fitted[repr(at_fit)] = search.with_params(decay="none", kinds_hidden=(), future="keep")
        later = {key: value for key, value in setting.items() if key not in at_fit}
        runs[repr(setting)] = first_hits(fitted[repr(at_fit)].with_params(**later), labelled)
    return Part(labelled, bench_tune.users_of(folder / held.removeprefix("half "), labelled.relevant), runs)


def compared(parts: list[Part], other: dict[str, Any], group: str) -> Comparison:
    """The default, b, against another setting over some sets."""
    a, b = repr(other), "{}"
    parts = [part for part in parts if a in part.runs or "index__context_column" in other]
    if "index__context_column" in other:
        parts, a, b = (
            [part for part in parts if part.labelled.name in TURNS],
            "{}",
            repr({"index__context_column": "scope"}),
        )
    queries, qrels = (pd.concat([getattr(part, name) for part in parts]) for name in ("queries", "qrels"))
    one, two = (pa.concat_tables([part.runs[name] for part in parts]) for name in (a, b))
    mean_of = "units" if group == "set" else None
    return mk.compare(
        one, two, queries, qrels, METRIC, group=group, mean_of=mean_of, unjudged_hits="irrelevant", as_of="2026-11-01"
    )


def row(name: str, other: dict[str, Any], parts: list[Part]) -> str:
    together = compared(parts, other, "set").details.to_pylist()[0]
    ends = "" if together["low"] is None else f" [{together['low']:+.3f}, {together['high']:+.3f}]"
    words: dict[str, list[str]] = {"better": [], "worse": [], "practically the same": [], "cannot tell yet": []}
    for part in (part for part in parts if repr(other) in part.runs):
        verdict = compared([part], other, "user").details.to_pylist()[0]
        words[verdict["word"]].append(f"{part.labelled.name} {verdict['difference']:+.3f}")
    users = compared(parts, other, "user").details.to_pylist()[0]
    by_user = "" if users["low"] is None else f" [{users['low']:+.3f}, {users['high']:+.3f}]"
    shown = ", ".join(f"{key}={value!r}" for key, value in other.items())
    inside = [", ".join(words[word]) for word in ("better", "worse")] + [
        f"{len(words['practically the same'])}, {len(words['cannot tell yet'])}"
    ]
    return (
        f"| {name} | {shown} | {together['difference']:+.3f}{ends}, {together['word']} |"
        f" {users['difference']:+.3f}{by_user}, {users['word']} | " + " | ".join(inside) + " |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="use")
    parser.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
    parser.add_argument("--sets", nargs="*")
    options = parser.parse_args()
    parts = []
    for questions, held in bench_quality.pairs(options.folder):
        if options.sets and held not in options.sets:
            continue
        parts.append(measured(options.folder, questions, held, options))
        print(parts[-1].labelled.name, len(parts[-1].labelled.queries), flush=True)
    n = sum(len(part.labelled.queries) for part in parts)
    print(f"\n{bench_quality.measured_on()}, encoder {options.encoder}, {len(parts)} sets, {n} queries, {METRIC}\n")
    print("| default | against | sets together | users together | better in | worse in | same in, open in |")
    print("|---|---|---|---|---|---|---|")
    for name, changes in OTHERS.items():
        for other in changes:
            print(row(name, other, parts), flush=True)


BY_HAND = "it needs labelled sets of talks"


if __name__ == "__main__":
    main()
