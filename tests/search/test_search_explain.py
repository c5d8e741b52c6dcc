from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from memkit.display.sheet import answerability_note, likelihood
from memkit.errors import QueryError
from memkit.search.retriever import Retriever
from memkit.search.show import explain

DAY = "2026-03-01"


@pytest.mark.quick
def test_a_hit_names_scores_ranks_weights_and_decay(retriever_over: Any) -> None:
    day = datetime.fromisoformat(DAY).replace(tzinfo=UTC)
    rows = ["b", {"text": "a", "created_at": day - timedelta(days=30)}]
    search = retriever_over(
        rows, bm25={"q": {0: 2.0, 1: 4.0}}, vector={"q": {0: 0.5}}, normalize="max", vector_weight=0.7, bm25_weight=0.3,
        decay_kinds="*",
    )  # fmt: skip  # reads as a table
    assert explain(search, "q", "m1", as_of=DAY) == (
        "'m1' is hit 2: words score 4 (rank 1, normalised 1.00, weight 0.30); not among the best 100 by meaning;"
        " fused score 0.300, times decay 0.61 after 30 days, is 0.182."
    )
    assert explain(search, "q", "m0", as_of=DAY).endswith("weight 0.70); fused score 0.850.")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("params", "memory_id", "words"),
    [
        ({"k": 1}, "m1", "rank 2, and k is 1"),
        ({"min_score": 0.6}, "m1", "below min_score 0.6"),
        ({}, "m2", "but it is an exact duplicate of 'm0', which ranks above it"),
        ({"kinds_hidden": ("note",)}, "m3", "its kind 'note' is hidden (kinds_hidden)"),
        ({}, "m4", "it expired on 2026-02-01, before 2026-03-01, and expired memories are hidden"),
        ({"where": "memory_id < 'm3'"}, "m5", "it does not pass where (memory_id < 'm3')"),
        ({}, "m6", "words score 0 (no term in common)"),
        ({"expired": "only"}, "m0", "it does not pass the filter (where, or expired='only')"),
    ],
)
def test_what_is_not_returned_names_the_cut(
    retriever_over: Any, params: dict[str, Any], memory_id: str, words: str
) -> None:
    call = {name: params.pop(name) for name in ("k", "where") if name in params}
    rows = [
        "чай",
        "кофе",
        "чай",
        {"text": "n", "kind": "note"},
        {"text": "e", "expires_at": datetime(2026, 2, 1, tzinfo=UTC)},
        "f",
        "g",
    ]
    answers = {"q": {0: 4.0, 1: 2.0, 2: 3.0, 3: 2.0, 4: 2.0, 5: 1.0}}
    search = retriever_over(rows, bm25=answers, encoder=None, normalize="max", **params)
    sentence = explain(search, "q", memory_id, as_of=DAY, **call)
    assert sentence.startswith(f"'{memory_id}' is not returned: ")
    assert words + "." in sentence


@pytest.mark.quick
def test_decay_and_likeness_are_named_as_the_cut(retriever_over: Any) -> None:
    old = {"text": "old", "created_at": datetime(2020, 1, 1, tzinfo=UTC)}
    search = retriever_over(["a", old], bm25={"q": {0: 1.0, 1: 1.0}}, encoder=None, min_score=0.5, decay_kinds="*")
    assert explain(search, "q", "m1", as_of=DAY).endswith(
        "because of decay. It would be returned with decay='none' or min_score=0."
    )
    alike = retriever_over(
        ["a", "b", "c"], vector={"q": {0: 0.9, 1: 0.8, 2: 0.7}}, vectors=np.array([[1, 0], [1, 0], [0, 1]]),
        vector_weight=1.0, normalize="none", mmr_lambda=0.5,
    )  # fmt: skip  # reads as a table
    assert "subtracts 0.500 because it is similar to better hits" in explain(alike, "q", "m1", k=2, as_of=DAY)


def test_a_memory_beyond_the_pool_is_scored_on_its_own(retriever_over: Any) -> None:
    scores = {i: 1.0 - i / 10 for i in range(5)}
    search = retriever_over(list("abcde"), vector={"q": scores}, vector_weight=1.0, pool=2)
    assert explain(search, "q", "m4", as_of=DAY) == (
        "'m4' is not returned: meaning score 0.6 (the last of the best 2 has 0.9)."
    )
    both = retriever_over(list("abcde"), bm25={"q": {0: 3.0}}, vector={"q": scores}, pool=1)
    assert explain(both, "q", "m4", as_of=DAY) == (
        "'m4' is not returned: words score 0 (no term in common) and meaning score 0.6 (the last of the best 1 has 1)."
    )


def test_an_unknown_id_names_those_that_look_like_it(retriever_over: Any) -> None:
    search = retriever_over([{"memory_id": "facts:u1#pf_001", "text": "a"}], encoder=None)
    with pytest.raises(QueryError, match=r"one of 1 memory. Got 'facts:u1#pf_01'. Did you mean 'facts:u1#pf_001'\?"):
        explain(search, "q", "facts:u1#pf_01")


def test_it_says_what_would_help_and_that_is_true(retriever_over: Any) -> None:
    search = retriever_over(list("abc"), bm25={"q": {0: 4.0, 1: 3.0, 2: 2.0}}, encoder=None)
    sentence = explain(search, "q", "m2", k=1, as_of=DAY)
    assert sentence.endswith("rank 3, and k is 1. It would be returned with k=3.")
    assert search.search("q", k=3, as_of=DAY)["memory_id"].to_pylist()[-1] == "m2"


def test_a_query_that_nothing_answers_is_told_and_its_answerability_is_with_the_hits(corpus_of: Any) -> None:
    search = Retriever(encoder=None).fit(corpus_of("Пул соединений держит десять", "Кот спит на подоконнике"))
    hits = search.search(["пул соединений", "возврат билетов на поезд и спит"], as_of=DAY)
    likely = json.loads(hits.schema.metadata[b"answerability"])
    assert [likelihood(likely[query]) for query in ("0", "1")] == ["middle", "low"]
    assert answerability_note(hits) == "Answerability is low for '1': probably no memory answers."
    assert "Probably no memory answers" in explain(search, "возврат билетов на поезд и спит", "m1", as_of=DAY)
    assert "Probably" not in explain(search, "пул соединений", "m0", as_of=DAY)
    other = search.with_params(normalize="max").search("пул", as_of=DAY)
    assert b"answerability" not in other.schema.metadata
