"""Does memkit find as much as another of its commits, with nothing set? Runs of two checkouts over labelled sets.

    PYTHONPATH=CHECKOUT python tests/benchmarks/bench_before.py save OUT FOLDER --limit 1000 --set chunk_tokens=400
    python tests/benchmarks/bench_before.py compare BEFORE AFTER FOLDER --limit 1000

FOLDER is that of `bench_quality.py`, whose sets, crossings and halves are asked. "talks" are sets whose documents are
turns of conversations, or sentences of paragraphs, and name these in a column, so that neighbours lend their words.
`save` asks the memkit that Python finds and keeps a run a set; `compare` puts two folders of runs side by side, with
intervals of the difference from a bootstrap over users (a scope, else the article that a question is about), or over
questions where there are fewer than `FEW` users. Nothing decays. --most keeps of a set what answers its questions and
so many other texts.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import bench_defaults
import bench_quality
import bench_tune
import bench_words
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import memkit as mk
from memkit.tables.corpus import Corpus

METRICS = ("ndcg@10", "hit@5")
FEW, DRAWS = 20, 2_000
FALL = 0.005
"""No set may be worse than before by more than this."""
TALKS = " talks"


def names(folder: Path) -> list[str]:
    """Each set's own questions, another language's, and both languages in one; then the sets of talks."""
    sets = [held if questions == held else f"{questions}>{held}" for questions, held in bench_quality.pairs(folder)]
    return [*sets, *(name + TALKS for name in bench_words.TALKS)]


def read(name: str, options: argparse.Namespace) -> bench_quality.Labelled:
    """A set under its name here; of a large one no more other texts than `options.most`, drawn with seed 0."""
    language, _, held = name.removesuffix(TALKS).rpartition(">")
    folder = options.folder / held.removeprefix("half ")
    labelled = bench_quality.read_set(folder, options.folder / language if language else folder, options.limit)
    if held.startswith("half "):
        labelled = bench_quality.halved(labelled, bench_quality.read_set(options.folder / language, folder, None))
    memories = labelled.memories
    if name.endswith(TALKS):
        documents = pq.read_table(folder / "corpus.parquet")
        values = zip(*(documents[column].to_pylist() for column in bench_words.TALKS[held]), strict=True)
        talks = pa.array(["/".join(map(str, one)) for one in values])
        memories = memories.set_column(memories.schema.get_field_index("scope"), "scope", talks)
    if options.most is not None:
        wanted = {memory for query in labelled.queries for memory in labelled.relevant[query["id"]]}
        is_kept = pc.is_in(memories["memory_id"], pa.array(sorted(wanted))).to_numpy(zero_copy_only=False).copy()
        spare = np.flatnonzero(~is_kept)
        fit = len(spare) <= options.most
        is_kept[spare if fit else np.random.default_rng(0).choice(spare, options.most, replace=False)] = True
        memories = memories.filter(pa.array(is_kept))
    return replace(labelled, name=name, memories=memories)


def file_of(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('>', '_over_').replace(' ', '_')}.parquet"


def save(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"asking {mk.__file__}", flush=True)
    for name in options.sets or names(options.folder):
        labelled = read(name, options)
        column = {"index__context_column": "scope"} if name.endswith(TALKS) else {}
        search = mk.Retriever(**column, **options.set).fit(Corpus({"memories": labelled.memories}))
        run = bench_defaults.first_hits(search.with_params(decay="none", kinds_hidden=(), future="keep"), labelled)
        pq.write_table(run, file_of(options.out, name))
        print(name, search.chunks_.num_rows, "chunks of", labelled.memories.num_rows, flush=True)


def resampled(differences: pd.DataFrame) -> tuple[float, float]:
    """The 95 % interval of the mean over questions, of a bootstrap over units."""
    units = differences.groupby("unit")["difference"].agg(["sum", "count"]).to_numpy()
    draws = np.random.default_rng(0).integers(len(units), size=(DRAWS, len(units)))
    sums, counts = units[draws].sum(axis=1).T
    low, high = np.percentile(sums / counts, [2.5, 97.5])
    return float(low), float(high)


def compare(options: argparse.Namespace) -> None:
    print("| set | questions | units | " + " | ".join(f"{m}, before | now | difference" for m in METRICS) + " | |")
    print("|---" * (4 + 3 * len(METRICS)) + "|")
    means = []
    for name in options.sets or names(options.folder):
        if not all(file_of(side, name).exists() for side in (options.before, options.after)):
            continue
        labelled = read(name, options)
        folder = options.folder / name.removesuffix(TALKS).rpartition(">")[2].removeprefix("half ")
        users = bench_tune.users_of(folder, labelled.relevant)
        runs = {side: pq.read_table(file_of(getattr(options, side), name)) for side in ("before", "after")}
        part = bench_defaults.Part(labelled, users, runs)
        group = "user" if part.queries["user"].nunique() >= FEW else "query_id"
        how: dict[str, Any] = {"unjudged_hits": "irrelevant", "as_of": "2026-11-01", "group": group}
        comparison = mk.compare(*runs.values(), part.queries, part.qrels, METRICS, mean_of="queries", **how)
        each = comparison.per_query.to_pandas().dropna(subset=["difference"])
        cells, fell = [], False
        for metric in METRICS:
            rows = each[each["metric"] == metric]
            a, b, difference = (rows[column].mean() for column in ("a", "b", "difference"))
            low, high = resampled(rows)
            cells += [f"{a:.3f}", f"{b:.3f}", f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]"]
            fell |= difference < -FALL
            means.append((name.endswith(TALKS), metric, a, b))
        size = f"{part.queries['user'].nunique()} users" if group == "user" else "questions"
        print(f"| {name} | {len(part.queries)} | {size} | " + " | ".join(cells) + (" | fell |" if fell else " | |"))
    for metric in METRICS:
        pairs = np.array([(a, b) for talks, one, a, b in means if one == metric and not talks])
        print(f"mean {metric} of {len(pairs)} sets without talks: {pairs.mean(axis=0).round(4).tolist()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for act, places in ((save, ("out", "folder")), (compare, ("before", "after", "folder"))):
        command = commands.add_parser(act.__name__)
        command.set_defaults(act=act)
        for place in places:
            command.add_argument(place, type=Path)
        command.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
        command.add_argument("--most", type=int, help="texts beside those that answer")
        command.add_argument("--sets", nargs="*", help="as `save` names them; without it all")
        if act is save:
            command.add_argument("--set", nargs="*", default=(), help="parameters of the Retriever, NAME=VALUE")
    options = parser.parse_args()
    if "set" in options:
        options.set = {name: ast.literal_eval(value) for name, _, value in (one.partition("=") for one in options.set)}
    options.act(options)


TINY = "save {folder} {sets} --limit 4 --sets xquad_ru"


if __name__ == "__main__":
    main()
