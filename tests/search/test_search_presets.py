from __future__ import annotations

from datetime import UTC, datetime
from math import exp
from typing import Any

import pytest

from memkit import presets
from memkit.search.retriever import Retriever

RETRIEVERS = ("workspace", "memory_v2", "recommended_use", "recommended_e5")
DAY = "2026-03-01"


@pytest.mark.quick
@pytest.mark.parametrize("name", RETRIEVERS)
def test_a_preset_holds_parameters_of_the_retriever_and_has_evidence(name: str) -> None:
    values = getattr(presets, name)
    search = Retriever(**values)
    search.check_params()
    assert {key: search.value_of(key) for key in values} == values
    assert presets.evidence[name]


@pytest.mark.quick
def test_workspace_is_seventy_to_thirty_over_scores_divided_by_the_best(retriever_over: Any) -> None:
    search = retriever_over(["a", "b"], {"q": {0: 8.0, 1: 2.0}}, {"q": {0: 0.3, 1: 0.6}}, **presets.workspace)
    assert search.search("q")["score"].to_pylist() == pytest.approx([0.7 + 0.3 * 2 / 8, 0.7 * 0.3 / 0.6 + 0.3])


@pytest.mark.quick
def test_workspace_without_an_encoder_is_bm25_alone_and_reaches_one(corpus_of: Any) -> None:
    search = Retriever(**presets.workspace, encoder=None).fit(corpus_of("пул соединений", "кот", "пул пуст"))
    hits = search.search("пул соединений", as_of=DAY)
    assert hits["score"].to_pylist()[0] == 1.0
    assert all(0 < score < 1 for score in hits["score"].to_pylist()[1:])


def test_memory_v2_is_the_cosine_times_the_documents_factor(retriever_over: Any) -> None:
    old = {"text": "a", "kind": "archive", "created_at": datetime(2025, 12, 31, tzinfo=UTC)}
    search = retriever_over(
        [old, old | {"kind": "profile", "text": "b"}], vector={"q": {0: 0.8, 1: 0.5}}, **presets.memory_v2
    )
    hits = search.search("q", as_of=DAY)
    assert hits["memory_id"].to_pylist() == ["m1", "m0"]
    assert hits["score"].to_pylist() == pytest.approx([0.5, 0.8 * exp(-60 / 60)])


def test_the_recommended_weights_differ_by_encoder(corpus_of: Any) -> None:
    use, e5 = (getattr(presets, f"recommended_{name}") for name in ("use", "e5"))
    searched = [Retriever(**values | {"encoder": "hash"}).fit(corpus_of("пул")).ask("пул") for values in (use, e5)]
    by_arm = [[question.weights[arm] for arm in ("bm25", "vector", "gram")] for question in searched]
    assert by_arm == [pytest.approx([0.6, 0.2, 0.2]), pytest.approx([0.43 / 1.01, 0.29 / 1.01, 0.29 / 1.01])]


@pytest.mark.parametrize("document", ["workspace", "memory_v2"])
def test_a_documents_preset_names_all_that_can_move_a_rank(document: str) -> None:
    # No document names a model, or what to do without it; an engine and a limit of time move no rank.
    free = {"encoder", "on_encoder_error", "index__engine"}
    assert getattr(presets, document).keys() == Retriever.all_params().keys() - free
