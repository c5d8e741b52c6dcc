"""Does another way of cutting memories find as much? Runs of two memkits over labelled sets, by `mk.compare`.

    PYTHONPATH=CHECKOUT python tests/benchmarks/bench_chunks.py save OUT FOLDER --limit 300 --set chunk_tokens=400
    python tests/benchmarks/bench_chunks.py compare BEFORE AFTER FOLDER

FOLDER is that of `bench_quality.py`. `save` asks the memkit that Python finds, so that two checkouts can be compared,
and keeps a run a set; `compare` puts them side by side with intervals over users: a scope, else the article that a
question is about, else the question. Nothing decays.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import replace
from pathlib import Path

import bench_defaults
import bench_quality
import bench_tune
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import memkit as mk
from memkit.tables.corpus import Corpus

SETS = ("rumeddanet_ru", "scifact", "madial_en", "xquad_ru", "xquad_en", "se_meta_dups")
"""Sets whose texts are long enough to be cut, or are not, as the diary of `madial_en`."""

MOST = 1_000


def read(name: str, options: argparse.Namespace) -> bench_quality.Labelled:
    """A set; of a large one what answers the questions and as many other texts as `MOST`, drawn with seed 0."""
    labelled = bench_quality.read_set(options.folder / name, options.folder / name, options.limit)
    memories = labelled.memories
    wanted = {memory for query in labelled.queries for memory in labelled.relevant[query["id"]]}
    kept = pc.is_in(memories["memory_id"], pa.array(sorted(wanted))).to_numpy(zero_copy_only=False).copy()
    others = np.flatnonzero(~kept)
    kept[others if len(others) <= MOST else np.random.default_rng(0).choice(others, MOST, replace=False)] = True
    return replace(labelled, memories=memories.filter(pa.array(kept)))


def save(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        labelled = read(name, options)
        search = mk.Retriever(**options.set).fit(Corpus({"memories": labelled.memories}))
        run = bench_defaults.found(search.with_params(decay="none", kinds_hidden=(), future="keep"), labelled)
        pq.write_table(run, options.out / f"{name}.parquet")
        print(name, search.chunks_.num_rows, "chunks of", labelled.memories.num_rows, flush=True)


def compare(options: argparse.Namespace) -> None:
    print("| set | questions | before | after | difference | |\n|---|---|---|---|---|---|")
    for name in options.sets:
        labelled = read(name, options)
        users = bench_tune.users_of(options.folder / name, labelled.relevant)
        runs = {side: pq.read_table(getattr(options, side) / f"{name}.parquet") for side in ("before", "after")}
        part = bench_defaults.Part(labelled, users, runs)
        row = mk.compare(
            runs["before"],
            runs["after"],
            part.queries,
            part.qrels,
            bench_defaults.METRIC,
            group="user",
            unjudged_hits="irrelevant",
            as_of="2026-11-01",
        ).table.to_pylist()[0]
        ends = "" if row["low"] is None else f" [{row['low']:+.3f}, {row['high']:+.3f}]"
        print(
            f"| {name} | {len(labelled.queries)} | {row['a']:.3f} | {row['b']:.3f} | {row['difference']:+.3f}{ends} |"
            f" {row['word']} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for act, places in ((save, ("out", "folder")), (compare, ("before", "after", "folder"))):
        command = commands.add_parser(act.__name__)
        command.set_defaults(act=act)
        for place in places:
            command.add_argument(place, type=Path)
        command.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
        command.add_argument("--sets", nargs="*", default=SETS)
        if act is save:
            command.add_argument("--set", nargs="*", default=(), help="parameters of the Retriever, NAME=VALUE")
    options = parser.parse_args()
    if "set" in options:
        options.set = {name: ast.literal_eval(value) for name, _, value in (one.partition("=") for one in options.set)}
    options.act(options)


if __name__ == "__main__":
    main()
