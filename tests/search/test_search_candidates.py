from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memkit.search.retriever import Retriever
from memkit.search.state import merge

pytestmark = pytest.mark.quick


def scored(*rows: tuple[int, int, float]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = (pa.int64(), pa.int64(), pa.float64())
    return pa.table({n: pa.array(c, k) for n, c, k in zip(("query", "row", "score"), columns, kinds, strict=True)})


def test_arms_stand_side_by_side_and_a_gap_is_nan() -> None:
    both = merge({"bm25": scored((0, 3, 2.0), (1, 0, 1.0)), "vector": scored((0, 3, 0.5), (0, 1, 0.4))}, n_rows=5)
    assert both.query.tolist() == [0, 0, 1]
    assert both.row.tolist() == [1, 3, 0]
    np.testing.assert_array_equal(both.raw, [[np.nan, 0.4], [2.0, 0.5], [1.0, np.nan]])
    assert both.rank.tolist() == [[0, 2], [1, 1], [1, 0]]


def test_ties_share_the_better_rank() -> None:
    assert merge({"bm25": scored((0, 0, 1.0), (0, 1, 1.0), (0, 2, 0.5))}, n_rows=3).rank.tolist() == [[1], [1], [3]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_no_find(bad: float) -> None:
    both = merge({"bm25": scored((0, 0, 1.0)), "vector": scored((0, 0, bad), (0, 1, bad))}, n_rows=2)
    assert both.row.tolist() == [0]
    assert both.rank.tolist() == [[1, 0]]


def test_no_finds_and_no_rows_give_an_empty_table() -> None:
    for rows in (0, 5):
        none = merge({"bm25": scored(), "vector": scored()}, n_rows=rows)
        assert none.raw.shape == (0, 2)
        assert none.query.tolist() == []


def test_a_long_memory_leaves_room_for_the_others(corpus_of: Any) -> None:
    log = "\n".join(f"backup of the replica failed at step {i}" for i in range(300))
    notes = [f"Anna wrote in note {i} that a backup of the shop takes an hour." for i in range(8)]
    cut = {"index__chunk_tokens": 12, "index__overlap_tokens": 0}
    search, query = Retriever(encoder=None, gram_weight=0.0, fold="none", **cut), "backup of the replica failed"
    search.fit(corpus_of(log, *notes))
    few, of_all = (search.with_params(pool=n).search(query).select(["memory_id", "score"]) for n in (18, 1_000))
    assert few.num_rows == 9
    assert few.equals(of_all)
    assert set(search.with_params(unit="chunk").search(query, 12)["memory_id"].to_pylist()) == {"m0"}
    narrowed = search.with_params(fusion="rrf", pool=60).ask(query).with_params(pool=18).ranked()
    assert narrowed.score.tolist() == search.with_params(fusion="rrf", pool=18).ask(query).ranked().score.tolist()
