"""A counter of the user's own counts, and its nonsense is refused by name wherever one is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memkit.errors import ParameterError
from memkit.policy.index_standard import SplitPlan
from memkit.text.chunk import Chunker, checked_counter, count_tokens

TABLE = pa.table({"memory_id": ["a"], "path": ["a.md"], "text": ["один два\nтри четыре\n"]})
USERS = {
    "Chunker": lambda counter: Chunker(chunk_tokens=2, overlap_tokens=0, counter=counter).transform(TABLE),
    "SplitPlan": lambda counter: SplitPlan(max_tokens_per_file=2, counter=counter).transform(TABLE),
    "SplitPlan.plan": lambda counter: SplitPlan(max_tokens_per_file=2, counter=counter).plan(TABLE),
}


def fails(text: str) -> int:
    raise KeyError("no model")


@pytest.mark.quick
@pytest.mark.parametrize("use", USERS.values(), ids=USERS)
@pytest.mark.parametrize(
    ("counter", "value"),
    [
        (lambda text: -1, "-1"),
        (lambda text: float("nan"), "nan"),
        (lambda text: float("inf"), "inf"),
        (lambda text: 10**400, "1000000"),
        (lambda text: "12", "'12'"),
        (lambda text: None, "None"),
        (lambda text: True, "True"),
        (lambda text: [1, 2], r"\[1, 2\]"),
        (lambda text: 1 + 2j, r"\(1\+2j\)"),
        (lambda: 1, "TypeError"),
        (fails, "KeyError: 'no model'"),
    ],
)
def test_what_is_no_number_of_tokens_is_refused(use: Callable[[Any], pa.Table], counter: Any, value: str) -> None:
    with pytest.raises(ParameterError, match=f"'counter' must return a number of tokens, 0 or more. Got {value}"):
        use(counter)


@pytest.mark.quick
@pytest.mark.parametrize("number", [int, float, np.int64, np.float32])
def test_numbers_of_any_type_count(number: Callable[[int], Any]) -> None:
    chunks = Chunker(chunk_tokens=2, overlap_tokens=0, counter=lambda text: number(len(text.split()))).transform(TABLE)
    assert chunks["text"].to_pylist() == ["один два", "три четыре"]


@pytest.mark.quick
def test_a_fraction_is_rounded_up_as_the_own_count_is() -> None:
    by_letters = checked_counter(lambda text: len(text) / 4, "test")
    assert [by_letters("x" * n) for n in range(10)] == [count_tokens("x" * n) for n in range(10)]


def test_a_counter_for_which_everything_is_huge_gives_a_chunk_a_letter() -> None:
    chunks = Chunker(chunk_tokens=2, overlap_tokens=0, counter=lambda text: 2**53).transform(TABLE)
    assert max(map(len, chunks["text"].to_pylist())) == 1
    assert "".join(chunks["text"].to_pylist()) == "".join(TABLE["text"][0].as_py().split())
