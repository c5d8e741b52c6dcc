"""Near pairs against every product by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import MemkitError
from memkit.index import ann as pairs
from memkit.index.ann import near_pairs


def by_numpy(vectors: np.ndarray, threshold: float, groups: Any = None) -> list[tuple[int, int, float]]:
    exact = np.asarray(vectors, dtype=float)
    length = np.linalg.norm(exact, axis=1)
    near = []
    for i in range(len(exact)):
        for j in range(i + 1, len(exact)):
            if length[i] and length[j] and (groups is None or groups[i] == groups[j]):
                cosine = round(float(exact[i] @ exact[j]) / (length[i] * length[j]), 6)
                near += [(i, j, min(cosine, 1.0))] if cosine >= threshold else []
    return near


def listed(found: pairs.Pairs) -> list[tuple[int, int, float]]:
    return list(zip(*(side.tolist() for side in found), strict=True))


def same(candidates: pairs.Pairs, expected: list[tuple[int, int, float]]) -> bool:
    actual = listed(candidates)
    return [pair[:2] for pair in actual] == [pair[:2] for pair in expected] and np.allclose(
        [pair[2] for pair in actual], [pair[2] for pair in expected], atol=2e-6
    )


def with_copies(n: int, dim: int, seed: int = 0, decay: float = 1e9) -> np.ndarray:
    """Random rows whose last tenth are noisy copies of the first."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, dim)) * np.exp(-np.arange(dim) / decay)
    rows[-(n // 10) :] = rows[: n // 10] + 0.3 * np.abs(rows).mean() * random.normal(size=(n // 10, dim))
    return rows


@pytest.mark.quick
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9])
def test_pairs_equal_numpys(threshold: float) -> None:
    vectors = with_copies(120, 16)
    assert same(near_pairs(vectors, threshold), by_numpy(vectors, threshold))


@given(st.integers(0, 40), st.integers(1, 12), st.integers(0, 1000), st.sampled_from([0.1, 0.6, 0.95, 1.0]))
@settings(max_examples=40)
def test_any_shape_of_groups_equals_numpy(n: int, n_groups: int, seed: int, threshold: float) -> None:
    random = np.random.default_rng(seed)
    vectors = random.integers(-2, 3, (n, 3)).astype(float)  # many equal, opposite and zero rows
    codes = random.integers(0, n_groups, n)
    assert same(near_pairs(vectors, threshold, codes), by_numpy(vectors, threshold, codes))


@pytest.mark.quick
@pytest.mark.parametrize("decay", [1e9, 10.0])
@pytest.mark.parametrize("threshold", [0.5, 0.85])
def test_the_bound_that_spares_work_loses_no_pair(
    monkeypatch: pytest.MonkeyPatch, decay: float, threshold: float
) -> None:
    monkeypatch.setattr(pairs, "_SAMPLE", 200)
    monkeypatch.setattr(pairs, "_ROWS", 300)
    monkeypatch.setattr(pairs, "_COLUMNS", 256)
    vectors = with_copies(1100, 64, decay=decay)
    unit = pairs.unit_rows(vectors)
    short = pairs._shortened(unit, threshold)
    products = np.triu(unit.astype(float) @ unit.T.astype(float), 1)
    i, j = np.nonzero(np.round(products, 6) >= threshold)
    assert (short @ short.T >= unit @ unit.T - 1e-5).all()
    assert [pair[:2] for pair in listed(near_pairs(vectors, threshold))] == list(zip(i, j, strict=True))
    assert len(i) > 50


def test_the_bound_holds_for_rows_that_lie_almost_within_the_kept_axes() -> None:
    random = np.random.default_rng(0)
    rows = np.zeros((500, 32))
    rows[:, :8] = random.normal(size=(500, 8))
    rows[:250, 8:] = 1e-4 * random.normal(size=(250, 24))
    rows[250:, 8:] = 0.3 * random.normal(size=(250, 24))
    unit = pairs.unit_rows(rows)
    short = pairs._bound_rows(unit, np.eye(32, dtype=np.float32)[:, :8]).astype(float)
    assert (short @ short.T >= unit.astype(float) @ unit.T.astype(float)).all()


def test_the_bound_is_taken_where_it_helps() -> None:
    unit = pairs.unit_rows(with_copies(2 * pairs._SAMPLE + 1, 64, decay=10))
    assert pairs._shortened(unit, 0.9).shape[1] < 64
    crowd = pairs.unit_rows(1 + 0.1 * np.random.default_rng(0).normal(size=(2 * pairs._SAMPLE + 1, 64)))
    assert pairs._shortened(crowd, 0.9) is crowd


@pytest.mark.parametrize("sizes", [[1100, 2, 1, 40, 1025], [1024, 300], [1] * 50, [3] * 200])
def test_large_and_small_groups_side_by_side(sizes: list[int]) -> None:
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    vectors = with_copies(len(codes), 4)
    unit = pairs.unit_rows(vectors).astype(float)
    expected = np.triu(np.round(unit @ unit.T, 6) >= 0.95, 1) & (codes[:, None] == codes[None, :])
    near = near_pairs(vectors, 0.95, codes)
    assert [pair[:2] for pair in listed(near)] == list(zip(*np.nonzero(expected), strict=True))


def test_equal_rows_have_exactly_one_at_any_length() -> None:
    row = np.random.default_rng(0).normal(size=384)
    near = near_pairs(np.array([row, 1e-20 * row, 1e20 * row, -row]), 1.0)
    assert listed(near) == [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.0)]


def test_zero_rows_and_a_lone_one_have_no_pair() -> None:
    for vectors in (np.zeros((5, 3)), np.ones((0, 3)), np.ones((1, 3))):
        assert [(side.dtype, len(side)) for side in near_pairs(vectors, 0.1)] == [("i8", 0), ("i8", 0), ("f8", 0)]


def test_nan_is_refused() -> None:
    with pytest.raises(MemkitError, match="position 1"):
        near_pairs(np.array([[1.0], [np.nan]]), 0.5)


def test_more_pairs_than_memory_allows_is_said_instead_of_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MAX_PAIRS", 100)
    with pytest.raises(MemkitError, match=r"more than 100 pairs. Raise the threshold"):
        near_pairs(np.ones((50, 2)), 0.9)


def test_pairs_are_those_of_semhashs_exact_backend() -> None:
    from vicinity.backends import basic

    vectors = pairs.unit_rows(with_copies(400, 32))
    results = basic.CosineBasicBackend(vectors, basic.BasicArgs()).threshold(vectors, threshold=1 - 0.8, max_k=400)
    theirs = sorted((i, int(j)) for i, (rows, _) in enumerate(results) for j in rows if i < j)
    assert [pair[:2] for pair in listed(near_pairs(vectors, 0.8))] == theirs
