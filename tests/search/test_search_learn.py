from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import ndcg_score

from memkit.errors import ParameterError
from memkit.evaluation.labels.labels import write_labels
from memkit.evaluation.settings.learn import learn_weight

DAY = "2026-03-01"
TEXTS = list("abcdef")
# The lexical arm puts a wrong memory first, the vector arm the right one, in every query.
BM25 = {f"q{i}": {0: 3.0, 1: 1.0} for i in range(6)}
VECTOR = {f"q{i}": {1: 0.9, 0: 0.1} for i in range(6)}
QUERIES = pa.table({"query_id": list("uvwxyz"), "text": list(BM25)})
QRELS = pa.table({"query_id": list("uvwxyz"), "memory_id": ["m1"] * 6, "relevance": [1] * 6})


def test_the_arm_that_is_right_gets_the_weight(retriever_over: Any) -> None:
    search = retriever_over(TEXTS, bm25=BM25, vector=VECTOR, vector_weight=0.3)
    learned = learn_weight(search, QUERIES, QRELS, as_of=DAY)
    assert learned.vector_weight > 0.5
    assert learned.before == pytest.approx(1 / np.log2(3))
    assert learned.held_out == 1.0
    assert learned.n_queries == 6
    found = learned.apply(search).search("q0", k=1, as_of=DAY)
    assert found["memory_id"].to_pylist() == ["m1"]
    assert search.vector_weight == 0.3


def test_labels_are_taken_from_files_and_as_bare_texts(retriever_over: Any, tmp_path: Path) -> None:
    search = retriever_over(TEXTS, bm25=BM25, vector=VECTOR)
    path = write_labels(QUERIES, tmp_path / "queries.csv")
    places = QRELS.set_column(0, "query_id", pa.array([str(at) for at in range(6)]))
    found = [learn_weight(search, str(path), QRELS, as_of=DAY), learn_weight(search, list(BM25), places, as_of=DAY)]
    assert [one.n_queries for one in found] == [6, 6]
    assert found[0].table == found[1].table


def test_the_table_is_the_mean_of_scikit_learns_ndcg(retriever_over: Any) -> None:
    rng = np.random.default_rng(3)
    bm25 = {f"q{i}": dict(enumerate(rng.random(6) + 0.1)) for i in range(5)}
    vector = {f"q{i}": dict(enumerate(rng.random(6) + 0.1)) for i in range(5)}
    gains = rng.integers(0, 3, (5, 6))
    gains[:, 0] = 1
    search = retriever_over(TEXTS, bm25=bm25, vector=vector)
    qrels = pa.table({
        "query_id": [str(i) for i in range(5) for _ in range(6)],
        "memory_id": [f"m{j}" for _ in range(5) for j in range(6)],
        "relevance": gains.reshape(-1),
    })  # fmt: skip  # columns of a table
    learned = learn_weight(search, list(bm25), qrels, "ndcg@3", steps=4, cv=2, as_of=DAY)
    assert learned.table["vector_weight"].to_pylist() == [0, 0.25, 0.5, 0.75, 1]
    for setting in learned.table.to_pylist():
        mean = setting.pop("ndcg@3")
        setting = search.with_params(**setting)
        hits = setting.search(list(bm25), as_of=DAY)
        scores = np.zeros((5, 6))
        for row in hits.to_pylist():
            scores[int(row["query_id"]), int(row["memory_id"][1:])] = 100 - row["rank"]
        assert mean == pytest.approx(ndcg_score(gains, scores, k=3))


def test_held_out_scores_do_not_see_their_own_queries(retriever_over: Any) -> None:
    # One query alone wants the lexical arm: what is learned from the others must serve it badly.
    bm25 = BM25 | {"odd": {2: 3.0, 3: 1.0}}
    vector = VECTOR | {"odd": {3: 0.9, 2: 0.1}}
    queries = pa.table({"query_id": [*"uvwxyz", "odd"], "text": list(bm25)})
    qrels = pa.concat_tables([QRELS, pa.table({"query_id": ["odd"], "memory_id": ["m2"], "relevance": [1]})])
    learned = learn_weight(retriever_over(TEXTS, bm25=bm25, vector=vector), queries, qrels, cv=7, as_of=DAY)
    assert learned.held_out == pytest.approx((6 * 1 + 1 / np.log2(3)) / 7)


def test_queries_without_a_relevant_memory_are_left_out_and_a_missing_one_costs(retriever_over: Any) -> None:
    search = retriever_over(TEXTS, bm25=BM25, vector=VECTOR, vector_weight=0.9)
    qrels = pa.concat_tables([
        QRELS.slice(0, 2),
        pa.table({"query_id": ["u", "w", "nobody"], "memory_id": ["gone", "m1", "m1"], "relevance": [1, 0, 1]}),
    ])  # fmt: skip  # parts of a table
    learned = learn_weight(search, QUERIES, qrels, cv=2, as_of=DAY)
    assert learned.n_queries == 2
    assert learned.before == pytest.approx((1 / (1 + 1 / np.log2(3)) + 1) / 2)


def test_every_arm_that_exists_takes_part(retriever_over: Any) -> None:
    gram = {f"q{i}": {1: 0.9} for i in range(6)}
    search = retriever_over(TEXTS, bm25=BM25, gram=gram, encoder=None, gram_weight=None)
    words = learn_weight(search, QUERIES, QRELS, steps=4, as_of=DAY)
    assert words.table.column_names == ["bm25_weight", "gram_weight", "ndcg@10"]
    assert words.weights["gram"] > 0.5
    all_three = retriever_over(TEXTS, bm25=BM25, vector=VECTOR, gram=gram, gram_weight=None)
    learned = learn_weight(all_three, QUERIES, QRELS, steps=4, as_of=DAY)
    assert learned.table.num_rows == 15  # 4 over 3 arms: 6 x 5 / 2
    assert sum(learned.weights.values()) == 1
    assert learned.held_out == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "map"}, "'metric' must be 'ndcg@K'"),
        ({"cv": 9}, r"'cv' must be in \[2, judged queries or their users = 6\]"),
        ({"qrels": QRELS.slice(0, 0)}, "expected at least one row"),
        ({"qrels": {"query_id": ["u"], "memory_id": ["m1"], "relevance": [0]}}, "a relevant memory for some of"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(retriever_over: Any, change: dict[str, Any], message: str) -> None:
    search = retriever_over(TEXTS, bm25=BM25, vector=VECTOR)
    with pytest.raises(ParameterError, match=message):
        learn_weight(**{"search": search, "queries": QUERIES, "qrels": QRELS, "as_of": DAY, **change})


def test_it_needs_two_arms_and_the_columns_of_qrels(retriever_over: Any) -> None:
    with pytest.raises(ParameterError, match="two arms"):
        learn_weight(retriever_over(TEXTS, bm25=BM25, encoder=None), QUERIES, QRELS)
    with pytest.raises(ParameterError, match="expected a column 'relevance'"):
        learn_weight(retriever_over(TEXTS, bm25=BM25, vector=VECTOR), QUERIES, QRELS.drop("relevance"))


def test_each_asker_sees_its_own_memories_and_day(retriever_over: Any) -> None:
    bm25 = {name: {0: 3.0, 1: 1.0} for name in BM25}
    rows = [{"text": "a", "user_id": "boris"}, *TEXTS[1:]]  # Boris's memory is first by words; Anna does not see it
    search = retriever_over(rows, bm25=bm25, vector=VECTOR, vector_weight=0.0, bm25_weight=1.0)
    queries = QUERIES.append_column("user_id", pa.array(["anna", "vera"] * 3))
    learned = learn_weight(search, queries, QRELS, cv=2, steps=2, as_of=DAY)
    assert learned.before == 1.0
