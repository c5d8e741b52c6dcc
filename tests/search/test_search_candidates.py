from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from memkit.search.state import merge

NAN = math.nan


def scored(*rows: tuple[int, int, float]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = (pa.int64(), pa.int64(), pa.float64())
    return pa.table({n: pa.array(c, k) for n, c, k in zip(("query", "row", "score"), columns, kinds, strict=True)})


@pytest.mark.quick
def test_arms_stand_side_by_side_and_a_gap_is_nan() -> None:
    both = merge({"bm25": scored((0, 3, 2.0), (1, 0, 1.0)), "vector": scored((0, 3, 0.5), (0, 1, 0.4))}, n_rows=5)
    assert both.query.tolist() == [0, 0, 1]
    assert both.row.tolist() == [1, 3, 0]
    np.testing.assert_array_equal(both.raw, [[NAN, 0.4], [2.0, 0.5], [1.0, NAN]])
    assert both.rank.tolist() == [[0, 2], [1, 1], [1, 0]]


@pytest.mark.quick
def test_ties_share_the_better_rank() -> None:
    one = merge({"bm25": scored((0, 0, 1.0), (0, 1, 1.0), (0, 2, 0.5))}, n_rows=3)
    assert one.rank.tolist() == [[1], [1], [3]]


@pytest.mark.quick
@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_no_find(bad: float) -> None:
    both = merge({"bm25": scored((0, 0, 1.0)), "vector": scored((0, 0, bad), (0, 1, bad))}, n_rows=2)
    assert both.row.tolist() == [0]
    assert both.rank.tolist() == [[1, 0]]


def test_no_finds_and_no_rows_give_an_empty_table() -> None:
    for rows in (0, 5):
        none = merge({"bm25": scored(), "vector": scored()}, n_rows=rows)
        assert none.raw.shape == (0, 2)
        assert none.query.tolist() == []
