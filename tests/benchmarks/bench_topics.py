"""How good, sure and fast the topics of `mk.topics` are.

    python tests/benchmarks/bench_topics.py FOLDER [--sizes 10000 100000]

FOLDER has `intents_ru_en`: short requests to an assistant in Russian and English with 68 labelled intents. By line: how
the partition agrees with the labels (adjusted Rand index, normalised mutual information, V-measure), and with the
language, which it should not; beside k-means with the true number from random starts, and HDBSCAN. Then how much of
what answers a question `mk.timeline` holds by its `bar`, on questions with three answers or more. Then processor time
by number of memories, of texts that are encoded already, and of texts without an encoder. `--only words` measures what
has no encoder alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import generate
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, v_measure_score
from sklearn.preprocessing import normalize

import memkit as mk
from memkit.explore import topics as themes


def labelled(folder: Path) -> tuple[mk.Corpus, np.ndarray, np.ndarray]:
    """The requests of both languages, their intents and their languages, in the order of ids."""
    parts = [pq.read_table(folder / "intents_ru_en" / f"{name}.parquet") for name in ("corpus", "queries")]
    rows = pa.concat_tables([part.select(["id", "text", "intent"]) for part in parts]).sort_by("id")
    intent = np.unique(rows["intent"].to_pylist(), return_inverse=True)[1]
    language = np.array([one.startswith("r") for one in rows["id"].to_pylist()])
    return mk.from_table({"memory_id": rows["id"], "text": rows["text"]}), intent, language


def line(name: str, label: np.ndarray, intent: np.ndarray, language: np.ndarray, n: int) -> None:
    figures = [
        measure(intent, label) for measure in (adjusted_rand_score, normalized_mutual_info_score, v_measure_score)
    ]
    mixed = normalized_mutual_info_score(language, label)
    shares = f"{len(label) / n:.2f} | {figures[0]:.3f} | {figures[1]:.3f} | {figures[2]:.3f} | {mixed:.3f}"
    print(f"| {name} | {len(set(label.tolist()))} | {shares} |", flush=True)


def quality(folder: Path) -> None:
    corpus, intent, language = labelled(folder)
    search = mk.Retriever(vector_weight=1.0).fit(corpus)
    _, vectors = themes._vectors(*about(search))
    n = len(vectors)
    print("| partition | k | share with a topic | ARI | NMI | V | NMI with the language |")
    for seed in range(3):
        means = KMeans(len(set(intent)), n_init=1, random_state=seed).fit(vectors)
        line(f"k-means, true k, random start {seed}", means.labels_, intent, language, n)
    for dimensions, least in ((5, 10), (15, 10), (25, 20)):
        reduced = normalize(PCA(dimensions).fit_transform(vectors))
        clusters = HDBSCAN(min_cluster_size=least, copy=True).fit(reduced).labels_
        clustered = clusters >= 0
        name = f"HDBSCAN, {dimensions} components, clusters of {least}"
        line(name, clusters[clustered], intent[clustered], language[clustered], n)
        line(f"{name}, noise as a cluster", clusters, intent, language, n)
    for k in (None, len(set(intent))):
        topics = mk.topics(search, k)
        number = topics.memories["topic"].to_numpy()
        line(f"mk.topics, k={k}", number[number > 0], intent[number > 0], language[number > 0], n)
        line(f"mk.topics, k={k}, no topic as a cluster", number, intent, language, n)
        sure = topics.table["sure"].drop_null().to_numpy()
        print(f"  sure: {np.quantile(sure, [0.1, 0.5, 0.9]).round(2)}; best silhouette {topics.silhouette}")
        if k is None:
            for row in topics.table.to_pylist()[:12]:
                print(f"  {row['n']}: {', '.join(row['words'])}")
    seeds = [mk.topics(search, random_state=seed).memories["topic"].to_numpy() > 0 for seed in range(3)]
    print("  the same memories have a topic under two seeds:", round(float((seeds[0] == seeds[1]).mean()), 3))


def by_words(folder: Path, sizes: list[int]) -> None:
    """Topics without an encoder, and by `LsaEncoder`; quality, and processor seconds."""
    corpus, intent, language = labelled(folder)
    for encoder in (None, "lsa"):
        number = mk.topics(mk.Retriever(encoder=encoder).fit(corpus)).memories["topic"].to_numpy()
        line(f"mk.topics, encoder {encoder}", number[number > 0], intent[number > 0], language[number > 0], len(number))
    corpora = {"data": mk.read(mk.sample_data())}
    corpora |= {f"{size:,}": mk.from_table({"text": generate.texts(size, tokens=40)}) for size in sizes}
    for name, made in corpora.items():
        for encoder in (None, "lsa"):
            if made.memories.num_rows > 20_000 and encoder:
                continue
            begin = time.process_time()
            topics = mk.topics(mk.Retriever(encoder=encoder, gram_weight=0.0).fit(made))
            seconds = time.process_time() - begin
            print(f"{name}, encoder {encoder}: {seconds:.1f} s of processor; {topics}", flush=True)


def about(search: mk.Retriever) -> tuple:
    from memkit.base.params import Moment
    from memkit.search.ask import Settings

    index = search.index_
    return index, index.arms["vector"].vectors_, Settings.from_estimator(search), None, Moment.from_as_of(None), None


def bars(folder: Path, name: str, most: int = 120) -> None:
    """Mean precision, recall and F1 of a timeline, by its bar."""
    corpus, queries, qrels = (
        pq.read_table(folder / name / f"{part}.parquet") for part in ("corpus", "queries", "qrels")
    )
    relevant: dict[str, set[str]] = {}
    for row in qrels.to_pylist():
        if row["relevance"] > 0:
            relevant.setdefault(row["query_id"], set()).add(row["doc_id"])
    rows = {"memory_id": corpus["id"], "text": corpus["text"], "user_id": corpus["scope"]}
    search = mk.Retriever().fit(mk.from_table(rows))
    figures: dict[float, list[tuple[float, float, float, float]]] = {}
    for query in [row for row in queries.to_pylist() if len(relevant.get(row["id"], ())) >= 3][:most]:
        table = mk.timeline(search, query["text"], user_id=query["scope"], bar=0.0).table
        score = table["score"].to_numpy()
        is_hit = np.array([one in relevant[query["id"]] for one in table["memory_id"].to_pylist()], bool)
        for bar in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            above = score >= bar * score.max(initial=0)
            hits, size = int(is_hit[above].sum()), len(relevant[query["id"]])
            precision, recall = hits / max(int(above.sum()), 1), hits / size
            both = 2 * hits / (int(above.sum()) + size)
            figures.setdefault(bar, []).append((precision, recall, both, float(above.sum())))
    for bar, rows_of_bar in figures.items():
        precision, recall, both, number = np.mean(rows_of_bar, axis=0)
        print(f"| {name} | {bar} | {precision:.3f} | {recall:.3f} | {both:.3f} | {number:.1f} |", flush=True)


def speed(folder: Path, size: int) -> None:
    """Processor seconds for `size` memories: each a request with the words of another, in given vectors."""
    corpus, _, _ = labelled(folder)
    base = mk.Retriever(vector_weight=1.0).fit(corpus).arms_["vector"].vectors_
    texts, draw = corpus.memories["text"].to_pylist(), np.random.default_rng(0)
    pairs = draw.integers(0, len(texts), (size, 2))
    joined = [f"{texts[a]} {texts[b]} {row}" for row, (a, b) in enumerate(pairs.tolist())]
    vectors = dict(zip(joined, 0.8 * base[pairs[:, 0]] + 0.2 * base[pairs[:, 1]], strict=True))
    search = mk.Retriever(
        encoder=lambda some: np.stack([vectors.get(t, base[0]) for t in some]),
        vector_weight=1.0,
        index=mk.Index(ann="exact"),
    )
    search.fit(mk.from_table({"text": joined}))
    begin, wall = time.process_time(), time.perf_counter()
    topics = mk.topics(search)
    print(
        f"{size:,}: {time.process_time() - begin:.1f} s of processor, {time.perf_counter() - wall:.1f} s; {topics}",
        flush=True,
    )


TINY = "{sets} --sizes 200"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    parser.add_argument("--only", choices=["words"])
    options = parser.parse_args()
    by_words(options.folder, options.sizes)
    if options.only:
        raise SystemExit
    quality(options.folder)
    for one in ("locomo_obs", "realmem"):
        bars(options.folder, one)
    for size in options.sizes:
        speed(options.folder, size)
