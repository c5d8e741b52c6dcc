"""What tuning the weights of the arms gains over the default on labelled sets, as `mk.tune` tells it; a row a set.

    python tests/benchmarks/bench_tune.py FOLDER --encoder use --limit 150

FOLDER is that of `bench_quality.py`, development parts alone. The grid is every mixture of vectors, words and letters
in tenths; nothing decays or folds. Gain is what a choice gains on users that had no part in it: mixtures are chosen on
resampled users, and on folds of them for the 95 % interval, and scored on those left out. Nothing is reported on labels
that a mixture was chosen on. A user is a scope, else the article that a question is about, else the question itself.
Together, a set's users stay users: two sets over the same people have the same users.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_quality
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import memkit as mk
from memkit.tables.corpus import Corpus

if TYPE_CHECKING:  # an older commit, asked by bench_before.py, has it elsewhere
    from memkit.evaluation.sweep import Sweep

METRIC = "ndcg@10"
ARMS = ("vector_weight", "bm25_weight", "gram_weight")
TOGETHER = {
    "memory sets": ("locomo", "locomo_obs", "realmem", "madial_en", "precisionmem"),
    "Russian sets": ("rumeddanet_ru", "xquad_ru", "xquadr_ru", "ru>xquad_en", "en>xquad_ru", "intents_ru_en"),
}
_START = datetime(2000, 1, 1, tzinfo=UTC)
SETS = dict.fromkeys(name for names in TOGETHER.values() for name in names)


def labelled(folder: Path, name: str, limit: int | None) -> tuple[Corpus, pa.Table, pa.Table]:
    """Corpus, queries and judgements; what was said after a query is later than it."""
    language, _, held = name.rpartition(">")
    held_in = folder / held
    asked_in = folder / (held[:-2] + language if language else held)
    labelled_set = bench_quality.read_set(held_in, asked_in, limit)
    memories, users = labelled_set.memories, users_of(held_in, labelled_set.relevant)
    if "seq" in labelled_set.queries[0]:  # the order of such a set is not that of its dates, and takes their place
        order = [_START + timedelta(seconds=seq) for seq in memories["access_count"].to_pylist()]
        place = memories.schema.get_field_index("created_at")
        memories = memories.set_column(
            place, memories.schema.field(place), pa.array(order, memories.schema.field(place).type)
        )
    rows = [
        {
            "query_id": query["id"],
            "text": query["text"],
            "user_id": query.get("scope"),
            "as_of": _moment(query),
            "group": query.get("scope") or users.get(query["id"]) or query.get("user"),
        }
        for query in labelled_set.queries
    ]
    judged = [
        {"query_id": query["id"], "memory_id": memory, "relevance": gain}
        for query in labelled_set.queries
        for memory, gain in labelled_set.relevant[query["id"]].items()
    ]
    return Corpus({"memories": memories}), pa.Table.from_pylist(rows), pa.Table.from_pylist(judged)


def _moment(query: dict[str, Any]) -> datetime | None:
    """Just before what comes next in the order of the set."""
    return None if query.get("seq") is None else _START + timedelta(seconds=int(query["seq"]), microseconds=-1)


def users_of(folder: Path, relevant: dict[str, dict[str, float]]) -> dict[str, str]:
    """The article that answers a query, where documents have one; a sentence's is that of its paragraph."""
    documents = pq.read_table(folder / "corpus.parquet")
    ids = documents["id"].to_pylist()
    if "paragraph" in documents.column_names:
        above = pq.read_table(folder.parent / folder.name.replace("xquadr", "xquad") / "corpus.parquet")
        article = dict(zip(above["id"].to_pylist(), above["article"].to_pylist(), strict=True))
        held = dict(zip(ids, (article[name] for name in documents["paragraph"].to_pylist()), strict=True))
    elif "article" in documents.column_names:
        held = dict(zip(ids, documents["article"].to_pylist(), strict=True))
    else:
        return {}
    return {query: held[next(iter(gains))] for query, gains in relevant.items()}


def swept(folder: Path, name: str, options: argparse.Namespace) -> tuple[mk.Retriever, Sweep]:
    corpus, queries, qrels = labelled(folder, name, options.limit)
    params = {"encoder": options.encoder, **(getattr(mk.presets, options.preset) if options.preset else {})}
    search = mk.Retriever(**{**params, "decay": "none", "fold": "none"}).fit(corpus)
    return search, mk.sweep(
        search, queries, qrels, {ARMS: mk.presets.shares(0.1)}, METRIC, group="group", as_of="2026-11-01"
    )


def together(parts: dict[str, Sweep]) -> pa.Table:
    """The scores of several sets as one table; a user that two sets share is one."""
    frames = []
    for name, sweep in parts.items():
        names = ["own" if i == sweep.default else "/".join(map(str, s.values())) for i, s in enumerate(sweep.settings)]
        frame = pd.DataFrame(dict(zip(names, sweep.matrix(METRIC), strict=True)))
        people = sweep.task.unit_names.to_pylist()
        family = "xquad" if "xquad" in name else name.removesuffix("_obs")
        frame.insert(0, "user", [f"{family}:{person}" for person in people])
        frames.append(frame.assign(set=name))
    return pa.Table.from_pandas(pd.concat(frames, ignore_index=True), preserve_index=False)


def row(name: str, tuned: Any, score: float) -> str:
    verdict = tuned.verdict_
    gain = "" if verdict.gain is None else f"{verdict.gain:+.3f}"
    ends = "" if verdict.low is None else f"{verdict.low:+.3f} to {verdict.high:+.3f}"
    least = "" if verdict.detectable is None else f"{verdict.detectable:.3f}"
    size = f"{verdict.n_queries}, {verdict.n_groups}"
    word = verdict.word if verdict.gain is not None else f"{verdict.word}: too few users"
    return f"| {name} | {size} | {score:.3f} | {gain} | {ends} | {least} | {word} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="use")
    parser.add_argument("--preset", help="what is tuned in place of the defaults, such as workspace")
    parser.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
    options = parser.parse_args()
    print(f"{bench_quality.measured_on()}, encoder {options.encoder}, {options.preset or 'defaults'}\n")
    print(f"| set | queries, users | default {METRIC} | gain | 95 % interval | detectable | verdict |")
    print("|---|---|---|---|---|---|---|")
    parts: dict[str, Sweep] = {}
    for name in SETS:
        search, parts[name] = swept(options.folder, name, options)
        task = parts[name].task
        tuned = mk.tune(search, task.queries, task.qrels, parts[name], METRIC, unjudged_hits="irrelevant")
        scores = parts[name].matrix(METRIC)[parts[name].default]
        print(row(name, tuned, task.units(scores).mean), flush=True)
    for name, sets in TOGETHER.items():
        table = together({one: parts[one] for one in sets})
        tuned = mk.labels.tune_scores(table, "own", group="user", mean_of="queries", metric=METRIC)
        print(row(f"**{name}**", tuned, float(np.nanmean(table["own"].to_numpy()))))
        print(f"\n{tuned}\n" if tuned.verdict_.word == "better" else "", end="")


TINY = "{sets} --encoder hash --limit 4"


if __name__ == "__main__":
    main()
