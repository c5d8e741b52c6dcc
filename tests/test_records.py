"""Records in use: support of wisdom facts, Wilson intervals, stale pathways."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import ParameterError
from memkit.records import rank_pathways, stale_pathways, wisdom_support


@pytest.mark.quick
def test_weights_for_and_against_a_fact_are_summed_and_self_relations_do_not_count() -> None:
    facts = pa.table({"memory_id": ["1", "2", "3"], "fact_id": ["w1", "w2", "w3"], "content": ["чай", "tea", "мёд"]})
    links = pa.table(
        {
            "from_id": ["w2", "w3", "w1", "w2", "w1"],
            "to_id": ["w1", "w1", "w2", "w1", "w1"],
            "type": ["supports", "contradicts", "extends", "supports", "supports"],
            "weight": [0.5, 0.75, 1.0, 0.5, 1.0],
        }
    )
    corpus = SimpleNamespace(tables={"wisdom_facts": facts, "relations": links})
    support = wisdom_support(corpus)
    assert support.equals(wisdom_support(facts, links))
    first = support.to_pylist()[0]
    assert (first["fact_id"], first["supported"], first["contradicted"]) == ("w1", 0.5 + 0.5, 0.75)
    assert (first["supports"], first["contradictions"], first["balance"]) == (2, 1, 1.0 - 0.75)
    assert support["balance"].to_pylist()[1:] == [0.0, 0.0]
    assert wisdom_support(facts, links.slice(0, 0))["balance"].to_pylist() == [0.0] * 3


@settings(max_examples=25)
@given(st.integers(1, 500), st.floats(0, 1), st.floats(0.5, 0.99))
def test_the_interval_is_scipys(hits: int, ratio: float, confidence: float) -> None:
    from scipy.stats import binomtest

    wins = round(hits * ratio)
    row = rank_pathways(pa.table({"hits": [hits], "success_rate": [wins / hits]}), confidence=confidence).to_pylist()[0]
    expected = binomtest(wins, hits).proportion_ci(confidence, method="wilson")
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.quick
def test_few_uses_rank_below_many_and_none_last() -> None:
    table = pa.table(
        {"id": ["once", "often", "never", "odd"], "hits": [1, 100, 0, 5], "success_rate": [1.0, 0.9, None, 1.5]}
    )
    ranked = rank_pathways(table)
    assert ranked["id"].to_pylist() == ["often", "once", "odd", "never"]
    assert ranked["low"].to_pylist()[2:] == [None, None]
    with pytest.raises(ParameterError):
        rank_pathways(table, confidence=1.0)


@pytest.mark.quick
def test_stale_is_more_than_the_days_and_missing_or_future_dates_are_neutral() -> None:
    dates = ["2026-01-30", "2026-01-29", None, "2027-01-01"]
    table = pa.table({"id": ["b", "a", "c", "d"], "last_used_at": pa.array(dates)})
    pathways = stale_pathways(table, as_of="2026-03-01", days=30)
    assert pathways["id"].to_pylist() == ["a", "b", "d", "c"]
    assert pathways["idle_days"].to_pylist() == [31.0, 30.0, 0.0, None]
    assert pathways["stale"].to_pylist() == [True, False, False, False]
    assert pathways["note"].to_pylist() == [None, None, "future", "undated"]
    assert pathways.schema.metadata[b"as_of"] == b"2026-03-01T00:00:00+00:00"
