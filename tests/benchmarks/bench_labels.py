"""How search answers the labelled queries of data/labels with nothing set: hit@1, hit@5 and MRR by kind of query.

Usage: python tests/benchmarks/bench_labels.py [DATA] [--choices]

With --choices the same for each setting that a default was chosen among on these questions, the default first. The best
of so many is better by chance alone, so a default changes only where other sets agree.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

import memkit as mk

DATA = Path(__file__).parents[2] / "data"
LAST_DAY = "2026-03-14"
"""The day after the last memory: when a question without a day of its own is asked."""
K = 10

CHOICES: list[dict[str, Any]] = [
    {},
    {"read_dates": False},
    *({"kind_weights": {kind: weight}} for kind in ("daily_log", "long_term", "document") for weight in (0.9, 0.8)),
    *({"kind_weights": {kind: 0.8}} for kind in ("session", "pathway", "archive")),
    {"kind_weights": {"daily_log": 0.7}},
    {"kind_weights": {"daily_log": 0.8, "session": 0.8}},
    {"fold": "none"},
    *({"across_weight": weight} for weight in (0.0, 0.3, 0.8)),
    *({"function_word_weight": weight} for weight in (0.0, 0.3, 1.0)),
]

RESOLVE = """
select l.*, m.memory_id
from labels l
join memories m on m.path = l.path and (
    m.source_id = l.anchor or m.title = l.anchor or contains(chr(10) || m.text, chr(10) || l.anchor)
)
qualify how_named(m.source_id, m.title, l.anchor)
      = min(how_named(m.source_id, m.title, l.anchor)) over (partition by l.query_id, l.path, l.anchor)
order by l.query_id, l.relevance desc, m.memory_id
"""
HOW_NAMED = """
create or replace temp macro how_named(own, title, anchor) as
    case when own = anchor then 1 when title = anchor then 2 else 3 end
"""


def queries(folder: Path = DATA / "labels") -> pd.DataFrame:
    """The questions, as written."""
    return _rows(folder / "queries.jsonl")


def labels(folder: Path = DATA / "labels") -> pd.DataFrame:
    """The judgements, as written."""
    return _rows(folder / "qrels.jsonl")


def _rows(path: Path) -> pd.DataFrame:
    return pd.DataFrame([json.loads(line) for line in path.read_text("utf-8").splitlines()])


def qrels(corpus: mk.Corpus, labels: pd.DataFrame) -> pd.DataFrame:
    """The judgements with the ids of `corpus`: a row for each memory that an anchor names."""
    con = corpus.connect()
    con.register("labels", labels)
    con.execute(HOW_NAMED)
    return con.sql(RESOLVE).to_arrow_table().to_pandas()


def first_hits(search: mk.Retriever, query: Any) -> list[str]:
    """The ids of the first `K` memories for one question, among those that its user may see."""
    where = f"user_id = '{query.user_id}' or user_id is null" if pd.notna(query.user_id) else None
    # A question of a day of its own does not see what was written later.
    question = pd.DataFrame({"text": [query.text], "as_of": [query.as_of if pd.notna(query.as_of) else None]})
    hits = search.search(question, k=K, where=where, as_of=LAST_DAY)
    return [str(memory) for memory in hits["memory_id"].to_pylist()]


def main() -> None:
    arguments = [word for word in sys.argv[1:] if word != "--choices"]
    data = Path(arguments[0]) if arguments else DATA
    corpus = mk.read(data)
    search = mk.Retriever().fit(corpus)
    judged = qrels(corpus, labels(data / "labels")).query("relevance > 0")
    relevant = judged.groupby("query_id")["memory_id"].agg(set)
    labelled = queries(data / "labels").query("kind != 'unanswerable'")
    if "--choices" not in sys.argv:
        print(measured(search, labelled, relevant).round(2).to_string())
        return
    tables = {repr(one): measured(search.with_params(**one), labelled, relevant).loc["all"] for one in CHOICES}
    print(pd.DataFrame(tables).T.round(3).to_string(), f"\n{len(CHOICES)} settings")


def measured(search: mk.Retriever, labelled: pd.DataFrame, relevant: Any) -> pd.DataFrame:
    """A row a kind of question, and one for all."""
    rows = []
    for query in labelled.itertuples():
        ranks = [rank for rank, memory in enumerate(first_hits(search, query), 1) if memory in relevant[query.query_id]]
        first = ranks[0] if ranks else float("inf")
        rows.append((query.kind, first <= 1, first <= 5, 1 / first))
    scores = pd.DataFrame(rows, columns=["kind", "hit@1", "hit@5", f"mrr@{K}"])
    table = scores.groupby("kind", sort=False).mean().assign(n=scores.groupby("kind").size())
    table.loc["all"] = [*scores.drop(columns="kind").mean(), len(scores)]
    return table


TINY = ""


if __name__ == "__main__":
    main()
