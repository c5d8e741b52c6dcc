"""`mk.sweep`: every setting scores exactly as its own search does, whatever varies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import memkit as mk

WORDS = ["пул", "кот", "чай", "сервер", "релиз", "pool", "tea", "server", "friday", "release", "и", "the"]
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def drawn_corpus(seed: int, n: int = 60) -> mk.Corpus:
    """Short texts of few words, so that many are alike or the same, of users, kinds and days."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(2, 7))) for _ in range(n // 2)]
    rows = []
    for at in range(n):
        text = texts[rng.integers(len(texts))] + rng.choice(["", "", " 5", " 7", ".", " еще"])
        if rng.random() < 0.3:
            text += "\n" + texts[rng.integers(len(texts))] + "\n" + texts[rng.integers(len(texts))]
        rows.append(
            {
                "memory_id": f"m{at:03}",
                "text": text,
                "kind": [None, "archive", "working", "profile", "note"][rng.integers(5)],
                "importance": [None, "normal", "high", "low"][rng.integers(4)],
                "user_id": [None, None, "анна", "o'boris"][rng.integers(4)],
                "created_at": None if rng.random() < 0.2 else DAY - timedelta(days=float(rng.integers(-20, 400))),
            }
        )
    return mk.from_table(pd.DataFrame(rows))


def drawn_labels(seed: int, corpus: mk.Corpus, n: int = 8) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    memories = corpus.memories.to_pandas()
    queries = pd.DataFrame(
        {
            "query_id": [f"q{at}" for at in range(n)],
            "text": [" ".join(rng.choice(WORDS, rng.integers(1, 4))) for _ in range(n)],
            "user_id": [[None, "анна"][at % 2] for at in range(n)],
            "as_of": [[None, None, DAY - timedelta(days=90)][at % 3] for at in range(n)],
        }
    )
    rows = []
    for at in range(n):
        some = rng.choice(len(memories), rng.integers(2, 9), replace=False)
        for row in some:
            rows.append((f"q{at}", memories["memory_id"][row], int(rng.integers(0, 3)) if at else 0))
    return queries, pd.DataFrame(rows, columns=["query_id", "memory_id", "relevance"])


@pytest.fixture(scope="module")
def made() -> tuple[mk.Retriever, pd.DataFrame, pd.DataFrame]:
    corpus = drawn_corpus(1)
    search = mk.Retriever(encoder="hash", chunk_tokens=8, overlap_tokens=0, pool=20, decay_kinds="*").fit(corpus)
    return search, *drawn_labels(2, corpus)


GRID = {"vector_weight": mk.steps(0, 1, 0.5), "decay_days": [5, 60], "min_score": [0.0, 0.2]}


def test_each_setting_scores_as_evaluate_does(made: Any) -> None:
    search, queries, qrels = made
    metrics = ["ndcg@5", "recall@3", "mrr", "judged@5"]
    found = mk.sweep(search, queries, qrels, GRID, metrics, as_of=DAY)
    assert len(found.settings) == 13
    for at, setting in enumerate(found.settings):
        alone = mk.evaluate(search.with_params(**setting), queries, qrels, metrics, as_of=DAY)
        for metric, mean in zip(metrics, alone.table["value"].to_pylist(), strict=True):
            expected = alone.per_query[metric].to_numpy()
            np.testing.assert_array_equal(found.matrix(metric)[at], expected)
            assert found.table[metric][at].as_py() == mean


def test_the_retrievers_own_setting_is_always_a_row(made: Any) -> None:
    search, queries, qrels = made
    found = mk.sweep(search, queries, qrels, GRID, as_of=DAY)
    assert found.default == 12
    assert found.settings[12] == {"vector_weight": None, "decay_days": 60.0, "min_score": 0.0}
    own = mk.sweep(search, queries, qrels, {"pool": [5, 20]}, as_of=DAY)
    assert (own.default, len(own.settings)) == (1, 2)


def test_scores_are_rows_that_sql_asks(made: Any) -> None:
    search, queries, qrels = made
    found = mk.sweep(search, queries, qrels, GRID, ["mrr", "ndcg@5"], as_of=DAY)
    assert found.scores.column_names == ["setting", "query_id", "mrr", "ndcg@5"]
    means = found.sql('select setting, avg("mrr") as mean from scores group by all order by setting').df()["mean"]
    np.testing.assert_allclose(means, np.nanmean(found.matrix("mrr"), axis=1), rtol=1e-12)
    text = found.sql("select distinct text from scores join queries using (query_id) where query_id = 'q3'").fetchone()
    assert text == (queries["text"][3],)


def test_steps_lose_no_point_and_shares_make_one() -> None:
    assert mk.steps(0, 1, 0.1) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert mk.steps(0.05, 0.95, 0.15) == [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]
    assert len(set(mk.shares(0.1))) == 66
    assert all(sum(round(part * 10) for part in one) == 10 for one in mk.shares(0.1))
