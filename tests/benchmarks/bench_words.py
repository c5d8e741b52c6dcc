"""What lent words of neighbours and nearest words are worth, by `mk.compare`; a line a set and setting.

    python tests/benchmarks/bench_words.py FOLDER --limit 250

FOLDER is that of `bench_quality.py`. "turns" compares `context_column` with none, on the sets in `TALKS`. "typos"
compares `near_words` with 0, on questions as they were asked and with two random edits in words of five letters or
more: a swap of neighbours, a letter dropped, added or replaced (seed 7).
"""

from __future__ import annotations

import argparse
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bench_defaults
import bench_quality
import bench_tune
import pyarrow as pa
import pyarrow.parquet as pq

import memkit as mk
from memkit.tables.corpus import Corpus

TALKS = {
    "locomo": ("scope", "session"),
    "locomo_obs": ("scope", "session"),
    "realmem": ("scope", "session"),
    "xquadr_ru": ("paragraph",),
    "xquadr_en": ("paragraph",),
}
"""Columns whose values together are one conversation, or one paragraph, by set."""
_LONG = re.compile(r"(?<!\w)[^\W\d_]{5,}(?!\w)")
_LETTERS = {True: "абвгдежзийклмнопрстуфхцчшщъыьэюя", False: "abcdefghijklmnopqrstuvwxyz"}


def with_typos(text: str, draw: random.Random, edits: int = 2) -> str:
    """`text` with an edit in each of some long words."""
    places = [match.span() for match in _LONG.finditer(text)]
    letters = _LETTERS[bool(re.search("[а-я]", text.lower()))]
    for start, end in sorted(draw.sample(places, min(edits, len(places))), reverse=True):
        word = list(text[start:end])
        position = draw.randrange(len(word) - 1)
        kind = draw.randrange(4)
        if kind == 0:
            word[position], word[position + 1] = word[position + 1], word[position]
        elif kind == 1:
            del word[position]
        elif kind == 2:
            word.insert(position, draw.choice(letters))
        else:
            word[position] = draw.choice(letters)
        text = text[:start] + "".join(word) + text[end:]
    return text


def compared(labelled: bench_quality.Labelled, folder: Path, runs: dict[str, pa.Table]) -> str:
    """The verdict on the second run against the first."""
    part = bench_defaults.Part(labelled, bench_tune.users_of(folder, labelled.relevant), runs)
    row = mk.compare(
        *runs.values(),
        part.queries,
        part.qrels,
        bench_defaults.METRIC,
        group="user",
        unjudged_hits="irrelevant",
        as_of="2026-11-01",
    ).table.to_pylist()[0]
    ends = "" if row["low"] is None else f" [{row['low']:+.3f}, {row['high']:+.3f}]"
    return f"{row['a']:.3f} -> {row['b']:.3f}, {row['difference']:+.3f}{ends}, {row['word']}"


def put(search: mk.Retriever, labelled: bench_quality.Labelled) -> pa.Table:
    return bench_defaults.first_hits(search.with_params(decay="none", kinds_hidden=(), future="keep"), labelled)


def turns(labelled: bench_quality.Labelled, folder: Path, encoder: str) -> Iterator[tuple[str, dict[str, pa.Table]]]:
    if labelled.name not in TALKS:
        return
    table = pq.read_table(folder / "corpus.parquet")
    values = zip(*(table[name].to_pylist() for name in TALKS[labelled.name]), strict=True)
    talks = pa.array(["/".join(map(str, one)) for one in values])
    memories = labelled.memories.set_column(labelled.memories.schema.get_field_index("scope"), "scope", talks)
    searches = {
        str(column): mk.Retriever(encoder=encoder, index=mk.Index(context_column=column)).fit(
            Corpus({"memories": memories})
        )
        for column in (None, "scope")
    }
    yield "turns", {name: put(search, labelled) for name, search in searches.items()}


def typos(labelled: bench_quality.Labelled, folder: Path, encoder: str) -> Iterator[tuple[str, dict[str, pa.Table]]]:
    search = mk.Retriever(encoder=encoder).fit(Corpus({"memories": labelled.memories}))
    draw = random.Random(7)
    mistyped = [{**query, "text": with_typos(query["text"], draw)} for query in labelled.queries]
    for name, queries in (("as asked", labelled.queries), ("two typos", mistyped)):
        with_queries = replace(labelled, queries=queries)
        yield name, {str(weight): put(search.with_params(near_words=weight), with_queries) for weight in (0.0, 0.8)}


PARTS: dict[str, Callable[..., Iterator[tuple[str, dict[str, Any]]]]] = {"turns": turns, "typos": typos}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="use")
    parser.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
    parser.add_argument("--sets", nargs="*", default=[*TALKS, "rumeddanet_ru", "madial_en"])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=[*PARTS])
    options = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, encoder {options.encoder}, {bench_defaults.METRIC}")
    for name in options.sets:
        folder = options.folder / name
        labelled = bench_quality.read_set(folder, folder, options.limit)
        for part in options.parts:
            for label, runs in PARTS[part](labelled, folder, options.encoder):
                print(f"{name}, {label}: {compared(labelled, folder, runs)}", flush=True)


TINY = "{sets} --encoder hash --limit 4 --sets xquad_ru"


if __name__ == "__main__":
    main()
