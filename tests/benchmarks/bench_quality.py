"""How well each way of searching finds what was judged relevant; a table a measure, with intervals.

    python tests/benchmarks/bench_quality.py FOLDER --encoder use --limit 500

Beside the arms alone stand what nothing set gives now, and what it gave before November 2026 (`BEFORE`).

FOLDER holds a folder a labelled set: corpus.parquet (id, text; title, scope, seq, timestamp where they exist),
queries.parquet (id, text; scope, seq) and qrels.parquet (query_id, doc_id, relevance). A query with a scope is searched
within it, one with a seq among earlier documents only. Queries without a relevant document are left out and counted.
No decay: the sets ask for relevance. Nothing is folded either: each document is judged by itself. `half` is two sets of
equal ids in one corpus, each document in one of the two languages.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import memkit as mk
from memkit.schemas import MEMORIES
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus

if TYPE_CHECKING:  # an older commit, asked by bench_before.py, has it elsewhere
    from memkit.evaluation.evaluation import Evaluation

DEPTH = 100
METRICS = ("nDCG@10", "recall@5", "recall@10", "MRR")
"""MRR of the first `DEPTH` hits."""
CROSSED = (("xquad_ru", "xquad_en"), ("xquad_en", "xquad_ru"))
BEFORE_FIT = {"index__chunk_tokens": 400, "index__overlap_tokens": 80, "index__searched": ("title", "tags", "text")}
BEFORE = {
    "vector_weight": 0.5,
    "bm25_weight": 0.5,
    "gram_weight": 0.0,
    "normalize": "minmax",
    "function_word_weight": 1.0,
}
"""The defaults until then, at fit and at query time."""


@dataclass
class Labelled:
    """A set: documents as memories, queries with a relevant document, and what is relevant."""

    name: str
    memories: pa.Table
    queries: list[dict[str, Any]]
    relevant: dict[str, dict[str, float]]
    left_out: int

    def batches(self) -> Iterator[tuple[str | None, list[dict[str, Any]]]]:
        """Queries that may see the same documents, with the predicate for these."""
        groups: dict[str | None, list[dict[str, Any]]] = {}
        for query in self.queries:
            groups.setdefault(_visible(query), []).append(query)
        yield from groups.items()


def _visible(query: dict[str, Any]) -> str | None:
    parts = []
    if query.get("scope") is not None:
        parts.append("user_id = '" + query["scope"].replace("'", "''") + "'")
    if query.get("seq") is not None:
        parts.append(f"access_count < {query['seq']}")
    return " and ".join(parts) or None


def read_set(folder: Path, queries_folder: Path, limit: int | None) -> Labelled:
    """The set in `folder`, asked by the queries of another folder where that differs."""
    documents = pq.read_table(folder / "corpus.parquet")
    relevant: dict[str, dict[str, float]] = {}
    for row in pq.read_table(queries_folder / "qrels.parquet").to_pylist():
        if row["relevance"] > 0:
            relevant.setdefault(row["query_id"], {})[row["doc_id"]] = float(row["relevance"])
    queries = pq.read_table(queries_folder / "queries.parquet").to_pylist()
    judged = [query for query in queries if query["id"] in relevant]
    if limit is not None and limit < len(judged):
        chosen = np.random.default_rng(0).choice(len(judged), limit, replace=False)
        judged = [judged[i] for i in np.sort(chosen)]
    name = folder.name if folder == queries_folder else f"{queries_folder.name[-2:]}>{folder.name}"
    return Labelled(
        name, _memories(documents), judged, relevant, len(queries) - sum(q["id"] in relevant for q in queries)
    )


def halved(held: Labelled, other: Labelled) -> Labelled:
    """Both corpora in one, each document from one of them, by the parity of its id's hash."""
    chosen = pa.array(
        [hashlib.md5(name.encode()).digest()[0] % 2 == 0 for name in held.memories["memory_id"].to_pylist()]
    )  # no secret
    theirs = pc.is_in(other.memories["memory_id"], value_set=held.memories["memory_id"].filter(chosen))
    memories = pa.concat_tables([held.memories.filter(chosen), other.memories.filter(pc.invert(theirs))])
    return replace(held, name=f"half {held.name}", memories=memories)


def _memories(documents: pa.Table) -> pa.Table:
    size, held = documents.num_rows, documents.column_names
    filled = {
        "memory_id": documents["id"],
        "format": pa.array(["table"] * size),
        "title": documents["title"] if "title" in held else pa.array([""] * size),
        "text": documents["text"],
        "tags": pa.array([[]] * size, pa.list_(pa.string())),
        "user_id": documents["scope"] if "scope" in held else pa.nulls(size, pa.string()),
        "created_at": _days(documents["timestamp"]) if "timestamp" in held else pa.nulls(size, pa.string()),
        "access_count": documents["seq"] if "seq" in held else pa.nulls(size, pa.int64()),
    }
    columns = [filled.get(field.name, pa.nulls(size, field.type)) for field in MEMORIES]
    whole = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.Table.from_arrays([c.cast(f.type) for c, f in zip(whole, MEMORIES, strict=True)], schema=MEMORIES)


def _days(column: pa.ChunkedArray) -> pa.Array:
    """Time stamps of any spelling, UTC."""
    return pa.Array.from_pandas(pd.to_datetime(column.to_pandas(), utc=True, format="mixed"))


Search = Callable[[list[str], str | None], list[list[str]]]


def with_retriever(search: Retriever, **params: Any) -> Search:
    """Ids of the hits of each text."""
    setting = search.with_params(decay="none", kinds_hidden=(), fold="none", **params)

    def run(texts: list[str], where: str | None) -> list[list[str]]:
        hits = setting.search(texts, k=DEPTH, where=where)
        ids: list[list[str]] = [[] for _ in texts]
        for query, memory in zip(hits["query_id"].to_pylist(), hits["memory_id"].to_pylist(), strict=True):
            ids[int(query)].append(memory)
        return ids

    return run


def _visible_rows(corpus: Corpus, where: str | None) -> np.ndarray:
    """Mask over the memories, by the same predicate."""
    if where is None:
        return np.ones(corpus.memories.num_rows, bool)
    passed = corpus.sql(f"select memory_id from memories where {where}").to_arrow_table()["memory_id"]  # noqa: S608  # made above
    return pc.is_in(corpus.memories["memory_id"], value_set=passed).to_numpy()


def _ordered(score: np.ndarray, ids: list[str], visible: np.ndarray) -> list[str]:
    score = np.where(visible, score, 0.0)
    order = np.lexsort((np.arange(len(score)), -score))[:DEPTH]
    return [ids[row] for row in order if score[row] > 0]


def with_substrings(corpus: Corpus) -> Search:
    """By the number of different words of the query that the text contains, case-folded."""
    memories = corpus.memories.sort_by("memory_id")
    texts = pc.utf8_lower(pc.binary_join_element_wise(memories["title"], memories["text"], "\n"))
    ids = memories["memory_id"].to_pylist()
    known: dict[str, np.ndarray] = {}

    def holds(word: str) -> np.ndarray:
        if word not in known:
            known[word] = pc.match_substring(texts, word).to_numpy()
        return known[word]

    def run(query_texts: list[str], where: str | None) -> list[list[str]]:
        visible = _visible_rows(Corpus({"memories": memories}), where)
        words = [set(re.findall(r"\w+", text.lower())) for text in query_texts]
        return [_ordered(np.sum([holds(w) for w in ws] or [visible * 0], axis=0), ids, visible) for ws in words]

    return run


def with_bm25s(corpus: Corpus) -> Search:
    """bm25s (k1 = 1.5, b = 0.75, Lucene's idf) over Snowball stems, Russian for Cyrillic words, English for others."""
    import bm25s
    import Stemmer

    memories = corpus.memories.sort_by("memory_id")
    ids = memories["memory_id"].to_pylist()
    stemmers = {True: Stemmer.Stemmer("russian"), False: Stemmer.Stemmer("english")}

    def terms(text: str) -> list[str]:
        words = re.findall(r"\w+", text.lower().replace("ё", "е"))
        return [stemmers[bool(re.search("[а-я]", word))].stemWord(word) for word in words]

    pairs = zip(memories["title"].to_pylist(), memories["text"].to_pylist(), strict=True)
    engine = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    engine.index([terms(f"{title}\n{text}") for title, text in pairs], show_progress=False)

    def run(query_texts: list[str], where: str | None) -> list[list[str]]:
        visible = _visible_rows(Corpus({"memories": memories}), where)
        hits = []
        for text in query_texts:
            known = [term for term in terms(text) if term in engine.vocab_dict]
            hits.append(_ordered(engine.get_scores(known), ids, visible) if known else [])
        return hits

    return run


def systems(labelled: Labelled, encoder: str, wanted: Sequence[str] = ()) -> dict[str, Search]:
    """The ways of searching that are compared; all, or those wanted."""
    corpus = Corpus({"memories": labelled.memories})
    before = Retriever(encoder=encoder, **BEFORE_FIT).fit(corpus)
    now = Retriever(encoder=encoder).fit(corpus)
    alone = {**BEFORE, "vector_weight": 0.0, "bm25_weight": 0.0}
    ways: dict[str, Callable[[], Search]] = {
        "substring": lambda: with_substrings(corpus),
        "bm25s": lambda: with_bm25s(corpus),
        "words": lambda: with_retriever(before, **alone | {"bm25_weight": 1.0}),
        "letters": lambda: with_retriever(before, **alone | {"gram_weight": 1.0}),
        "vectors": lambda: with_retriever(before, **alone | {"vector_weight": 1.0}),
        "before": lambda: with_retriever(before, **BEFORE),
        "now": lambda: with_retriever(now),
        "now, 400": lambda: with_retriever(before),
    }
    return {name: make() for name, make in ways.items() if not wanted or name in wanted}


def evaluate(labelled: Labelled, search: Search) -> Evaluation:
    """`METRICS`, their means over queries, intervals over scopes where the set has them."""
    rows: list[tuple[str, str, int]] = []
    for where, queries in labelled.batches():
        hits = search([query["text"] for query in queries], where)
        ranked = ((query["id"], ids) for query, ids in zip(queries, hits, strict=True))
        rows += [(query, memory, rank) for query, ids in ranked for rank, memory in enumerate(ids, 1)]
    rows = rows or [(labelled.queries[0]["id"], "nothing", 1)]  # a way of searching may find nothing at all
    columns = [[row[i] for row in rows] for i in range(3)]
    types = (pa.string(), pa.string(), pa.int64())
    run = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], ["query_id", "memory_id", "rank"])
    queries = [{"query_id": q["id"], "text": q["text"], "user_id": q.get("scope")} for q in labelled.queries]
    judged = [(query, memory, gain) for query, gains in labelled.relevant.items() for memory, gain in gains.items()]
    qrels = dict(zip(("query_id", "memory_id", "relevance"), map(list, zip(*judged, strict=True)), strict=True))
    table = pa.Table.from_pylist(queries)
    return mk.evaluate(run, table, qrels, METRICS, mean_of="queries", depth=DEPTH, as_of="2026-01-01")


def measured_on() -> str:
    """The day and the machine."""
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.machine()}"


def pairs(folder: Path) -> list[tuple[str, str]]:
    """Whose queries are put to which documents: each set's own, another language's, and both languages in one."""
    names = sorted(one.parent.name for one in folder.glob("*/corpus.parquet"))
    crossed = [pair for pair in CROSSED if {*pair} <= {*names}]
    return [(name, name) for name in names] + crossed + [(questions, f"half {held}") for questions, held in crossed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="use")
    parser.add_argument("--limit", type=int, help="queries a set, drawn with seed 0")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--ways", nargs="*", help="of the ways of searching; words and vectors among them")
    options = parser.parse_args()
    print(
        f"{measured_on()}, encoder {options.encoder}, 95 % intervals over scopes, or over queries where a set has none"
    )
    results: dict[str, dict[str, Evaluation]] = {}
    for questions, held in pairs(options.folder):
        if options.sets and questions not in options.sets:
            continue
        labelled = read_set(options.folder / held.removeprefix("half "), options.folder / questions, options.limit)
        if held.startswith("half "):
            labelled = halved(labelled, read_set(options.folder / questions, options.folder / questions, None))
        ways = systems(labelled, options.encoder, options.ways)
        results[labelled.name] = {name: evaluate(labelled, search) for name, search in ways.items()}
        means = "  ".join(f"{name} {value(evaluation, 0):.3f}" for name, evaluation in results[labelled.name].items())
        size = f"{len(labelled.queries)} queries, {labelled.left_out} without judgement"
        print(f"{labelled.name}: {size}; nDCG@10 {means}", flush=True)
    report(results)


def value(evaluation: Evaluation, metric: int) -> float:
    return float(evaluation.table["value"][metric].as_py())


def cell(evaluation: Evaluation, metric: int) -> str:
    """A value with its interval, where there are scopes enough for one."""
    row = evaluation.table.slice(metric, 1).to_pylist()[0]
    return f"{row['value']:.3f}" + ("" if row["low"] is None else f" [{row['low']:.3f}, {row['high']:.3f}]")


def report(results: dict[str, dict[str, Evaluation]]) -> None:
    """A Markdown table a metric: a row a set, a column a way of searching."""
    ways = list(next(iter(results.values())))
    for i, metric in enumerate(METRICS):
        print(f"\n| {metric} | n | " + " | ".join(ways) + " |\n|---" * 1 + "|---" * (len(ways) + 1) + "|")
        for name, evaluations in results.items():
            size = evaluations[ways[0]].table["n_queries"][i]
            print(f"| {name} | {size} | " + " | ".join(cell(one, i) for one in evaluations.values()) + " |")
        means = [np.mean([value(evaluations[way], i) for evaluations in results.values()]) for way in ways]
        print("| mean of the sets | | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
        margins = [margin(results, way, i) for way in ways]
        print("| least over the better arm | | " + " | ".join(f"{least:+.3f}" for least in margins) + " |")


def margin(results: dict[str, dict[str, Evaluation]], way: str, metric: int) -> float:
    """How far a way of searching is above the better of words and vectors, on the set where it is least so."""
    return min(
        value(evaluations[way], metric) - max(value(evaluations[arm], metric) for arm in ("words", "vectors"))
        for evaluations in results.values()
    )


TINY = "{sets} --encoder hash --limit 4 --sets xquad_ru"


if __name__ == "__main__":
    main()
