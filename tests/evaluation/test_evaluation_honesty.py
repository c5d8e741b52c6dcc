"""The verdict claims no more than its nominal share where there is nothing, and finds what it promises to find."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def bench(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/bench_honesty.py")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("cell", "per_query"), [(0, True), (0, False), (2, False), (3, True), (5, False), (6, True), (6, False)]
)
def test_of_400_runs_without_a_difference_at_most_35_claim_one(bench: ModuleType, cell: int, per_query: bool) -> None:
    assert bench.most(400) <= 35
    false, _ = bench.claims(bench.CELLS[cell], 400, per_query=per_query)
    assert false <= 35


@pytest.mark.quick
def test_a_test_over_queries_would_claim_many(bench: ModuleType) -> None:
    _, habit = bench.claims(bench.CELLS[0], 200)
    assert habit > 30  # so the simulation can tell a bad test from a good one


@pytest.mark.quick
@pytest.mark.parametrize("cell", [4, 6])
def test_a_gain_of_the_detectable_size_is_found_about_four_times_in_five(bench: ModuleType, cell: int) -> None:
    assert 0.68 <= bench.power(bench.CELLS[cell], 400) <= 0.9


@pytest.mark.parametrize("cell", [1, 5])
def test_of_250_flat_grids_at_most_24_claim_a_difference(bench: ModuleType, cell: int) -> None:
    runs = bench.grids(bench.CELLS[cell], 250, settings=12)
    assert bench.most(250) == 24
    claimed, habit = bench.grid_claims(runs)
    assert claimed <= 24
    assert habit > 37  # of a nominal 6: the test of the winner alone
    assert sum(run.apparent for run in runs) > 250 * 0.15  # in standard deviations of a query
    assert abs(sum(run.expected for run in runs)) < 250 * 0.03


def test_a_gain_in_a_grid_twice_as_large_as_is_detectable_is_found(bench: ModuleType) -> None:
    cell = bench.CELLS[4]
    runs = bench.grids(cell, 50, 2 * cell.gain(), 12, seed=3)
    assert sum(run.word == "better" for run in runs) >= 48
