"""Lexical search side by side in one run: memkit's BM25 and CharGrams, DuckDB's match_bm25, bm25s and tantivy.

    python tests/benchmarks/bench_lexical.py --sizes 10000 100000 [1000000] [--char] [--repeat 3]

Every engine gets the same texts and queries as plain strings and analyses them itself: words, lower case, Russian and
English Snowball stems (bm25s through PyStemmer). BM25 with k1 = 1.2, b = 0.75, the ten best of each query.
Batches and single queries of the engines are taken in turns, so that a busy machine is busy for all of them; each
figure is the best of the turns. Bytes a chunk are those of the index: arrays and vocabulary, tantivy's folder, DuckDB's
database in memory (texts included).
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import generate
import numpy as np
import pyarrow as pa

K1, B, K = 1.2, 0.75, 10
Search = Callable[[list[str]], Any]
Built = tuple[Search, Callable[[], int]]


@dataclass
class Engine:
    """A built index and what was measured of it."""

    name: str
    search: Search
    build_s: float
    bytes_per_chunk: float
    batched: bool = True
    queries_max: int = 200
    single_ms: list[float] = field(default_factory=list)
    batch_ms: list[float] = field(default_factory=list)

    def turn(self, queries: list[str]) -> None:
        """Take the median of single queries and the mean of a batch once more."""
        queries = queries[: self.queries_max]
        times = [_seconds(lambda q=q: self.search([q])) for q in queries]
        self.single_ms.append(statistics.median(times) * 1000)
        # bm25s is slower in one call than in a loop, so its loop counts.
        whole = min(_seconds(lambda: self.search(queries)), sum(times)) if self.batched else sum(times)
        self.batch_ms.append(whole / len(queries) * 1000)


def _seconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _strings_bytes(words: Iterable[str]) -> int:
    return sum(map(sys.getsizeof, words))


def _build(name: str, make: Callable[[], Built], count: int, **options: Any) -> Engine:
    gc.collect()
    started = time.perf_counter()
    search, size = make()
    seconds = time.perf_counter() - started
    return Engine(name, search, seconds, size() / count, **options)


def memkit_arm(arm: Any, corpus: list[str]) -> Built:
    """One of memkit's arms over `corpus`."""
    arm.fit(generate.chunks(corpus), pa.array(corpus))
    index = arm.postings_
    arrays = sum(a.nbytes for a in (index.rows, index.weights, index.offsets, arm.idf_))
    size = arrays + sys.getsizeof(index.terms) + _strings_bytes(index.terms)
    return (lambda queries: arm.candidates(queries, K)), lambda: size


def duckdb_macro(corpus: list[str]) -> Built:
    """The extension's ``match_bm25`` for every row, over its own index of memkit's terms."""
    from memkit.base.duck import connect
    from memkit.text.analyse import analyse_sql, load_fts

    con = connect()
    load_fts(con)
    count = len(corpus)
    con.register("corpus", pa.table({"memory_id": [f"m{row}" for row in range(count)], "text": corpus}))
    terms = f"array_to_string({analyse_sql('text')}, ' ')"
    con.execute(f"create table memories as select memory_id, {terms} as terms from corpus")  # noqa: S608  # no data in it
    con.unregister("corpus")
    con.execute(r"""
        pragma create_fts_index('memories', 'memory_id', 'terms', stemmer = 'none', stopwords = 'none',
            ignore = '\s+', strip_accents = 0, lower = 0)
    """)
    match = f"fts_main_memories.match_bm25(memory_id, array_to_string({analyse_sql('$1')}, ' '))"
    sql = f"select memory_id, {match} as score from memories order by score desc nulls last, memory_id limit {K}"  # noqa: S608  # no data in it
    size = con.execute("select sum(memory_usage_bytes) from duckdb_memory()").fetchone()
    return (lambda queries: [con.execute(sql, [query]).fetchall() for query in queries]), lambda: int(size[0])


def bm25s_index(corpus: list[str]) -> Built:
    """bm25s with PyStemmer: the Russian stemmer leaves Latin words alone, and the other way round."""
    import bm25s
    import Stemmer

    stemmers = [Stemmer.Stemmer(language) for language in ("russian", "english")]

    def stem(words: list[str]) -> list[str]:
        for stemmer in stemmers:
            words = stemmer.stemWords(words)
        return words

    def tokens(texts: list[str], **options: Any) -> Any:
        return bm25s.tokenize(texts, stopwords=None, stemmer=stem, show_progress=False, **options)

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(tokens(corpus), show_progress=False)
    words = index.vocab_dict
    size = sum(index.scores[part].nbytes for part in ("data", "indices", "indptr"))
    size += sys.getsizeof(words) + _strings_bytes(map(str, words))
    return (lambda queries: index.retrieve(tokens(queries, return_ids=False), k=K, show_progress=False)), lambda: size


def tantivy_index(corpus: list[str], folder: str) -> Built:
    """tantivy with one segment, lower case and both stemmers."""
    import tantivy

    chain = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
    for language in ("russian", "english"):
        chain = chain.filter(tantivy.Filter.stemmer(language))
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", tokenizer_name="stems")
    schema.add_integer_field("row", stored=True)
    index = tantivy.Index(schema.build(), path=folder)
    index.register_tokenizer("stems", chain.build())
    writer = index.writer(400_000_000, 1)
    for row, text in enumerate(corpus):
        writer.add_document(tantivy.Document(text=text, row=row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(queries: list[str]) -> Any:
        return [searcher.search(index.parse_query(query, ["text"]), K).hits for query in queries]

    return search, lambda: sum(file.stat().st_size for file in Path(folder).iterdir())


def measure(count: int, repeat: int, with_char: bool, macro_max: int) -> list[Engine]:
    """Build every engine over `count` chunks, then let them search in turns."""
    from memkit.index.lexical import BM25, CharGrams

    corpus = generate.texts(count)
    queries = generate.queries(corpus, 200)
    with tempfile.TemporaryDirectory() as folder:
        engines = [
            _build("memkit BM25", lambda: memkit_arm(BM25(), corpus), count),
            _build("bm25s", lambda: bm25s_index(corpus), count),
            _build("tantivy", lambda: tantivy_index(corpus, folder), count, batched=False),
        ]
        if with_char:
            engines.append(_build("memkit CharGrams", lambda: memkit_arm(CharGrams(), corpus), count))
        if count <= macro_max:
            engines.append(_build("match_bm25", lambda: duckdb_macro(corpus), count, batched=False, queries_max=3))
        for _ in range(repeat):
            for engine in engines:
                engine.turn(queries)
    return engines


def report(count: int, engines: list[Engine]) -> None:
    """Print a row an engine; the last two columns are its time over memkit's."""
    ours = engines[0]
    print(f"\n{count:,} chunks, 200 queries of 6 words, best {K}")
    heads = f"{'build s':>9}{'single ms':>11}{'batch ms/q':>12}{'bytes/chunk':>13}{'single x':>10}{'batch x':>9}"
    print(f"{'engine':18}{heads}")
    for engine in engines:
        single, batch = min(engine.single_ms), min(engine.batch_ms)
        against = f"{single / min(ours.single_ms):10.1f}{batch / min(ours.batch_ms):9.1f}"
        figures = f"{engine.build_s:9.1f}{single:11.2f}{batch:12.3f}{engine.bytes_per_chunk:13.0f}"
        print(f"{engine.name:18}{figures}{against}")


def main() -> None:
    """Measure the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--char", action="store_true", help="measure the character arm too")
    parser.add_argument("--macro-max", type=int, default=100_000, help="largest size for match_bm25")
    options = parser.parse_args()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory:.0f} GiB, NumPy {np.__version__}")
    growth: dict[str, list[float]] = {}
    for count in options.sizes:
        engines = measure(count, options.repeat, options.char, options.macro_max)
        report(count, engines)
        for engine in engines:
            growth.setdefault(engine.name, []).append(min(engine.batch_ms))
        del engines
    print(
        "\nbatch ms/query by size: " + "; ".join(f"{n}: {', '.join(f'{x:.3f}' for x in v)}" for n, v in growth.items())
    )


if __name__ == "__main__":
    main()
