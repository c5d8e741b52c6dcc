"""Does a rebuilt memkit answer as the one before? Hits, traces, scores, verdicts, policies, plans, prompts.

    python tests/audit/same_answers.py save FOLDER [--bench BENCH] [--only PROBE ...]
    python tests/audit/same_answers.py compare BEFORE AFTER

`save` asks the memkit that Python finds (set PYTHONPATH to a checkout) and keeps a Parquet file a probe; `compare` says
which differ: numbers by more than 1e-9, all else at all; it exits 1 where anything does. Probes use public names alone,
so that one script asks both. BENCH holds labelled sets, as `bench_quality.py` reads them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

AS_OF = "2026-03-01"
TOLERANCE = 1e-9
DOCUMENTS, QUESTIONS = 1_500, 60
"""Of each labelled set."""
DATA = Path(__file__).parents[2] / "data"
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "words": {"vector_weight": 0.0, "gram_weight": 0.0},
    "vectors": {"vector_weight": 1.0, "bm25_weight": 0.0, "gram_weight": 0.0},
    "rrf": {"fusion": "rrf", "normalize": "rank"},
    "minmax": {"normalize": "minmax", "min_score": 0.2},
    "diverse": {"mmr_lambda": 0.5, "fold": "none"},
    "chunks": {"unit": "chunk", "pool": 30},
    "decays": {"decay_kinds": "*", "decay": "half_life", "decay_days": 20.0},
    "kinds": {"kind_weights": {"document": 0.5, "daily_log": 0.7}, "fold_threshold": 0.5},
    "expired": {"expired": "only"},
    "keeps": {"expired": "keep", "future": "keep", "read_dates": False, "across_weight": 0.0},
}
GRID = {
    "vector_weight": [0.0, 0.3, 0.7],
    "pool": [20, 100],
    "fold_threshold": [0.6, 0.85],
    "mmr_lambda": [0.7, 1.0],
    "decay_kinds": ["*"],
    "decay_days": [30.0, 90.0],
}

Probe = Iterator[tuple[str, pa.Table]]


def labels() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The labelled questions of `data/`."""
    return pd.read_csv(DATA / "queries.csv", dtype={"user_id": str}), pd.read_csv(DATA / "qrels.csv")


def search_and_questions(mk: Any) -> tuple[Any, list[str]]:
    """A search over `data/`, and its questions."""
    return mk.Retriever().fit(mk.read(DATA)), labels()[0]["text"].tolist()


def probe_tables(mk: Any) -> Probe:
    corpus = mk.read(DATA)
    yield from ((f"table {name}", table) for name, table in corpus.tables.items())
    with tempfile.TemporaryDirectory() as folder:
        corpus.save(folder)
        yield "memories of a lake", mk.open(folder).memories
    yield "full text", corpus.sql("from fts('пул соединений', k := 20) order by memory_id").to_arrow_table()


def probe_hits(mk: Any) -> Probe:
    search, texts = search_and_questions(mk)
    for name, params in SETTINGS.items():
        set_so = search.with_params(**params)
        yield f"hits {name}", set_so.search(texts, k=10, as_of=AS_OF)
        yield f"trace {name}", set_so.trace(texts[:12], k=5, as_of=AS_OF)
    yield "hits where", search.search(texts, k=7, where="user_id = 'anna' or user_id is null", as_of=AS_OF)
    days = pd.DataFrame({"text": texts[:20], "as_of": [AS_OF, "2026-02-10"] * 10})
    yield "hits by day", search.search(days, k=5)
    chunks = {"chunk_tokens": 400, "overlap_tokens": 80}
    for params in ({"encoder": None}, {"encoder": "hash", "lexical": "char"}, {"encoder": "hash", "centre": "corpus"}):
        of_index = {**params, **chunks}
        index = {"index": mk.Index(**of_index)} if hasattr(mk, "Index") else of_index
        fitted = mk.Retriever(**({"encoder": params["encoder"]} | index)).fit(search.corpus_)
        yield f"hits fitted {params}", fitted.search(texts, k=10, as_of=AS_OF)
    hits = search.search(texts[:10], k=2, as_of=AS_OF)
    why = [
        str(mk.explain(search, texts[int(row["query_id"])], row["memory_id"], as_of=AS_OF)) for row in hits.to_pylist()
    ]
    yield "explained", pa.table({"why": why})


def probe_refresh(mk: Any) -> Probe:
    texts = labels()[0]["text"].tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(copytree(DATA, Path(name, "data")))
        search = mk.Retriever().fit(mk.read(folder))
        page = next(iter(sorted((folder / "workspace").rglob("*.md"))))
        page.write_text(page.read_text("utf-8") + "\n## Новый раздел\n\nПул соединений: сорок.\n", "utf-8")
        yield "hits refreshed", search.refresh().search(texts, k=10, as_of=AS_OF)
        search.save(Path(name, "saved"))
        loaded = mk.Retriever.load(Path(name, "saved"), search.corpus_)
        yield "hits loaded", loaded.search(texts, k=10, as_of=AS_OF)


def probe_buckets(mk: Any) -> Probe:
    texts = labels()[0]["text"].tolist()
    with tempfile.TemporaryDirectory() as folder:
        mk.read(DATA).save(folder, buckets=4)
        search = mk.Retriever().fit(mk.open(folder, trust=True))
        yield "hits over buckets", search.search(texts, k=10, as_of=AS_OF)
        yield "hits of a bucket", search.search(texts[:20], k=5, where="user_id = 'anna'", as_of=AS_OF)
        yield "trace over buckets", search.trace(texts[:5], k=5, as_of=AS_OF)


def probe_measured(mk: Any) -> Probe:
    search, _ = search_and_questions(mk)
    queries, qrels = labels()
    metrics = ["ndcg@10", "recall@5", "mrr", "hit@5", "judged@10"]
    evaluation = mk.evaluate(search, queries, qrels, metrics, as_of=AS_OF)
    yield "evaluated", evaluation.table
    yield "evaluated by query", evaluation.per_query
    words = search.with_params(vector_weight=0.0)
    compared = mk.compare(words, search, queries, qrels, as_of=AS_OF)
    yield "compared", getattr(compared, "details", compared.table)
    yield "verdict of compare", pa.table({"said": [str(compared)]})
    swept = mk.sweep(search, queries, qrels, GRID, metrics=["ndcg@10", "mrr"], as_of=AS_OF)
    yield "swept", swept.table
    yield "sweep's scores", swept.scores
    tuned = mk.tune(search, queries, qrels, {"pool": [20, 100], "vector_weight": [0.2, 0.6]}, as_of=AS_OF)
    chosen = json.dumps([tuned.chosen_params_, tuned.best_params_], default=str, sort_keys=True)
    yield "verdict of tune", pa.table({"said": [str(tuned)], "chosen": [chosen]})
    yield "tuned", tuned.table_
    known = mk.evaluate(search, *mk.known_items(search.corpus_, n=40, random_state=0), ["ndcg@10"], as_of=AS_OF)
    yield "known items", known.table
    audit = mk.audit(search, as_of=AS_OF)
    yield from ((f"audit {name}", table) for name, table in getattr(audit, "tables", {"": audit}).items())


def probe_policies(mk: Any) -> Probe:
    corpus = mk.read(DATA)
    for policy in (
        mk.Admission(),
        mk.Classifier(),
        mk.Quota(max_facts=5),
        mk.Expiry(),
        mk.Decay(),
        mk.Decay(decay="half_life"),
    ):
        yield f"policy {policy!r}", policy.transform(corpus.memories, as_of=AS_OF)
    for encoder in (None, "use"):
        dedup = mk.Deduplicator(encoder=encoder).fit(corpus)
        yield f"dedup pairs {encoder}", dedup.pairs_
        yield f"dedup {encoder}", dedup.transform(corpus.memories, as_of=AS_OF)
    before, after = mk.Pipeline([mk.Quota()]), mk.Pipeline([mk.Quota(max_facts=3)])
    replayed = mk.replay(corpus, before, after, as_of=[AS_OF, "2026-04-01"])
    yield "replayed", replayed if isinstance(replayed, pa.Table) else replayed.table
    for user in ("anna", "boris"):
        built = mk.ContextBuilder().build(corpus, user, "что с пулом?", as_of=AS_OF)
        yield f"prompt {user}", pa.table({"text": [built.text]})
        yield f"prompt lines {user}", built.table


def probe_plans(mk: Any) -> Probe:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(copytree(DATA, Path(name, "data")))
        for policies in ([mk.Expiry()], [mk.Deduplicator(encoder=None)], [mk.Fix()], [mk.SplitPlan()], [mk.Migrate()]):
            edits = mk.plan(mk.read(folder), policies, as_of=AS_OF)
            yield f"plan {policies!r}", edits.table
            yield f"diff {policies!r}", pa.table({"text": [edits.diff().replace(name, "")]})


def sets(bench: Path) -> Iterator[Path]:
    return iter(sorted(path for path in bench.iterdir() if (path / "corpus.parquet").exists()))


def probe_bench(mk: Any, folder: Path) -> Probe:
    """The first documents that a set's first questions need, and others, and what is found among them."""
    corpus, queries, qrels = (pq.read_table(folder / f"{name}.parquet") for name in ("corpus", "queries", "qrels"))
    corpus, queries, qrels = (
        table.to_pandas(types_mapper=pd.ArrowDtype).astype({c: str for c in table.column_names if c.endswith("id")})
        for table in (corpus, queries, qrels)
    )
    id_of = "query_id" if "query_id" in queries else "id"
    queries = queries[queries[id_of].isin(qrels["query_id"])].head(QUESTIONS)
    qrels = qrels[qrels["query_id"].isin(queries[id_of])]
    is_needed = corpus["id"].isin(qrels["doc_id"])
    rows = pd.concat([corpus[is_needed], corpus[~is_needed].head(max(0, DOCUMENTS - int(is_needed.sum())))])
    rows = rows.drop_duplicates("id").sort_values("id")
    held = {"memory_id": pa.array(rows["id"].astype(str)), "text": pa.array(rows["text"].astype(str))}
    if "timestamp" in rows:
        held["created_at"] = pa.array(pd.to_datetime(rows["timestamp"], utc=True, errors="coerce"))
    fitted = mk.Retriever().fit(mk.from_table(pa.table(held)))
    table = pd.DataFrame({"query_id": queries[id_of].astype(str), "text": queries["text"].astype(str)})
    judged = pd.DataFrame(
        {"query_id": qrels["query_id"], "memory_id": qrels["doc_id"], "relevance": qrels["relevance"]}
    )
    for name in ("default", "words", "diverse", "decays"):
        set_so = fitted.with_params(**SETTINGS[name])
        yield f"{folder.name} hits {name}", set_so.search(table, k=10, as_of=AS_OF)
    try:
        scores = mk.evaluate(fitted, table, judged.drop_duplicates(["query_id", "memory_id"]), as_of=AS_OF).per_query
    except mk.MemkitError as error:  # no word of one language stands in the other
        scores = pa.table({"said": [str(error)]})
    yield f"{folder.name} scores", scores


PROBES: dict[str, Callable[[Any], Probe]] = {
    "tables": probe_tables,
    "hits": probe_hits,
    "refresh": probe_refresh,
    "buckets": probe_buckets,
    "measured": probe_measured,
    "policies": probe_policies,
    "plans": probe_plans,
}


def plain(table: pa.Table) -> pa.Table:
    """`table` without what Parquet does not know or what names this machine."""
    table = table.replace_schema_metadata(None)
    return table.drop_columns([name for name in table.column_names if pa.types.is_null(table[name].type)])


def save(folder: Path, bench: Path | None, only: list[str]) -> None:
    import memkit as mk

    folder.mkdir(parents=True, exist_ok=True)
    print(f"asking {mk.__file__}")
    work = [(name, probe(mk)) for name, probe in PROBES.items()]
    work += [(path.name, probe_bench(mk, path)) for path in (sets(bench) if bench else ())]
    for name, probe in work:
        if only and name not in only:
            continue
        start, count = time.process_time(), 0
        for label, table in probe:
            pq.write_table(plain(table), folder / f"{''.join(c if c.isalnum() else '_' for c in label)}.parquet")
            count += 1
        print(f"{name}: {count} tables, {time.process_time() - start:.1f} s of processor time", flush=True)


def differs(old: pa.Table, new: pa.Table) -> str:
    """In what two tables differ first, and which columns one of them lacks; '' where they do not."""
    both = [name for name in old.column_names if name in new.column_names]
    lacking = sorted(set(old.column_names) ^ set(new.column_names))
    words = [f"columns {lacking}"] if lacking else []
    if both != [name for name in new.column_names if name in both]:
        words.append("columns in another order")
    elif old.num_rows != new.num_rows:
        words.append(f"{old.num_rows} rows became {new.num_rows}")
    else:
        words += filter(None, [_first_difference(old, new, both)])
    return "; ".join(words)


def _first_difference(old: pa.Table, new: pa.Table, names: list[str]) -> str:
    """The first value that differs, in tables of as many rows; '' where none does."""
    for name in names:
        a, b = old[name], new[name]
        if a.equals(b):
            continue
        if pa.types.is_floating(a.type) and pa.types.is_floating(b.type):
            left, right = (pc.fill_null(column, float("nan")).to_numpy() for column in (a, b))
            if np.allclose(left, right, rtol=0, atol=TOLERANCE, equal_nan=True):
                continue
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        row, (left, right) = next((row, pair) for row, pair in enumerate(pairs) if pair[0] != pair[1])
        return f"{name}, row {row}: {str(left)[:120]!r} became {str(right)[:120]!r}"
    return ""


def compare(before: Path, after: Path) -> int:
    olds, news = ({path.name: path for path in folder.glob("*.parquet")} for folder in (before, after))
    wrong = [f"{name}: only in {'AFTER' if name in news else 'BEFORE'}" for name in sorted(olds.keys() ^ news.keys())]
    for name in sorted(olds.keys() & news.keys()):
        if difference := differs(pq.read_table(olds[name]), pq.read_table(news[name])):
            wrong.append(f"{name}: {difference}")
    print("\n".join(wrong) or "the same answers", f"\n{len(wrong)} of {len(olds | news)} tables differ")
    return int(bool(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    saves, compares = verbs.add_parser("save"), verbs.add_parser("compare")
    saves.add_argument("folder", type=Path)
    saves.add_argument("--bench", type=Path)
    saves.add_argument("--only", nargs="+", default=[])
    compares.add_argument("before", type=Path)
    compares.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.verb == "save":
        save(options.folder, options.bench, options.only)
        return 0
    return compare(options.before, options.after)


TINY = "save {folder}/answers --only kinds"


if __name__ == "__main__":
    sys.exit(main())
