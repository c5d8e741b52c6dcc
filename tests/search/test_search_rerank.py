"""Reranking (`rerank=`): arithmetic over given scores, search beside sweep, and what can be a reranker."""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import EncoderUnavailableError, MemkitError, MissingExtraError, ParameterError
from memkit.index import encode as rerank_module
from memkit.index.encode import as_encoder, as_reranker
from memkit.index.encoders.base import CIRCUITS
from memkit.search.retriever import Retriever
from memkit.search.show import contributions, explain

DAY = "2026-03-01"
FIVE = ["alpha", "beta", "gamma", "delta", "epsilon"]
ONE_ARM = {"encoder": None, "vector_weight": None, "normalize": "max", "fold": "none"}


class Given:
    """A function that knows a score for each text, and counts what it is asked."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores, self.asked = scores, Counter[tuple[str, str]]()

    def __call__(self, query: str, texts: list[str]) -> list[float]:
        self.asked.update((query, text) for text in texts)
        return [self.scores[text] for text in texts]


def shown(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


@pytest.mark.quick
def test_the_best_are_mixed_on_their_own_range_and_stay_above_the_others(retriever_over: Any) -> None:
    bm25 = {"q": {0: 10.0, 1: 8.0, 2: 6.0, 3: 5.0, 4: 1.0}}
    look = Given({"alpha": 0.0, "beta": 1.0, "gamma": 4.0, "delta": 99.0, "epsilon": 99.0})
    search = retriever_over(FIVE, bm25=bm25, **ONE_ARM, rerank=look, rerank_n=3, rerank_weight=0.75)
    # The range of the best three is 0.6 to 1; of the look's scores 0, 1, 4 it makes 0.6, 0.7 and 1.
    expected = {"m0": 0.25 * 1.0 + 0.75 * 0.6, "m1": 0.25 * 0.8 + 0.75 * 0.7, "m2": 0.25 * 0.6 + 0.75 * 1.0}
    trace = search.trace("q", as_of=DAY)
    by_name = {
        name: (fused, again, score)
        for name, fused, again, score in shown(trace, "memory_id", "fused", "reranked", "score")
    }
    assert {name: again for name, (_, again, _) in by_name.items() if again is not None} == pytest.approx(expected)
    assert [name for name, _ in shown(trace, "memory_id", "rank")] == ["m2", "m1", "m0", "m3", "m4"]
    assert [by_name[name][0] for name in ("m0", "m1", "m2", "m3", "m4")] == [1.0, 0.8, 0.6, 0.5, 0.1]
    assert by_name["m3"] == (0.5, None, 0.5)
    assert look.asked == {("q", "alpha"): 1, ("q", "beta"): 1, ("q", "gamma"): 1}
    scores = search.search("q", as_of=DAY)["score"].to_pylist()
    assert scores == pytest.approx([*sorted(expected.values(), reverse=True), 0.5, 0.1])


@pytest.mark.quick
def test_factors_act_on_what_the_second_look_gives(retriever_over: Any) -> None:
    rows = ["alpha", {"text": "beta", "kind": "note"}]
    look = Given({"alpha": 0.0, "beta": 1.0})
    search = retriever_over(
        rows, bm25={"q": {0: 10.0, 1: 8.0}}, **ONE_ARM, rerank=look, rerank_weight=1.0, kind_weights={"note": 0.5}
    )
    trace = search.trace("q", as_of=DAY)
    assert shown(trace, "memory_id", "reranked", "score") == [("m0", 0.8, 0.8), ("m1", 1.0, 0.5)]
    assert contributions(trace)["lost"].to_pylist() == [0.0, 0.5]
    sentence = explain(search, "q", "m1", as_of=DAY)
    assert "fused score 0.800, after reranking 1.000, times 0.50 for its kind, is 0.500" in sentence


@pytest.mark.quick
def test_explain_says_that_a_memory_would_be_returned_without_the_second_look(retriever_over: Any) -> None:
    look = Given({"alpha": 0.0, "beta": 1.0})
    search = retriever_over(["alpha", "beta"], bm25={"q": {0: 10.0, 1: 8.0}}, **ONE_ARM, rerank=look, rerank_weight=0.9)
    assert "It would be returned with rerank=None or k=2." in explain(search, "q", "m0", k=1, as_of=DAY)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    second=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 3.0]), min_size=8, max_size=8),
    n=st.integers(1, 9),
    weight=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_mixing_is_that_of_a_plain_loop(
    retriever_over: Any, first: list[int], second: list[float], n: int, weight: float
) -> None:
    names = [f"w{i}" for i in range(len(first))]
    search = retriever_over(names, bm25={"q": dict(enumerate(map(float, first)))}, **ONE_ARM)
    look = Given(dict(zip(names, second, strict=False)))
    trace = search.with_params(rerank=look, rerank_n=n, rerank_weight=weight).trace("q", as_of=DAY)
    fused = [score / max(first) for score in first]
    best = sorted(range(len(first)), key=lambda i: (-fused[i], i))[:n]
    low, high = min(fused[i] for i in best), max(fused[i] for i in best)
    least, most = min(second[i] for i in best), max(second[i] for i in best)
    expected = dict(enumerate(fused))
    if most > least:
        for i in best:
            on_range = low + (high - low) * (second[i] - least) / (most - least)
            expected[i] = (1 - weight) * fused[i] + weight * on_range
    scores = {int(name[1:]): score for name, score in shown(trace, "memory_id", "score")}
    assert scores == pytest.approx(expected)
    order = sorted(expected, key=lambda i: (-round(expected[i], 6), i))
    assert [int(name[1:]) for name in trace["memory_id"].to_pylist()] == order
    assert not look.asked or weight > 0


def test_a_memory_is_looked_at_by_its_best_chunk(corpus_of: Any) -> None:
    text = "\n\n".join(["пул соединений и пул потоков", "чай и кофе", "кот"])
    reranked = Counter[str]()

    def look(query: str, texts: Sequence[str]) -> list[float]:
        reranked.update(texts)
        return [float(len(one)) for one in texts]

    search = Retriever(encoder=None, index=mk.Index(chunk_tokens=5, overlap_tokens=0), rerank=look).fit(
        corpus_of(text, "пул")
    )
    assert search.chunks_.num_rows > 2
    search.search("пул", as_of=DAY)
    assert sum(reranked.values()) == 2


def test_a_sweep_scores_each_pair_once_and_as_evaluate_does(corpus_of: Any) -> None:
    words = ["пул", "кот", "чай", "сервер", "pool", "tea"]
    rng = np.random.default_rng(3)
    corpus = corpus_of(*(" ".join(rng.choice(words, 4)) + f" {i}" for i in range(40)))
    queries = {"query_id": ["a", "b", "c"], "text": ["пул и чай", "pool tea", "кот"]}
    qrels = {"query_id": ["a", "b", "c"] * 3, "memory_id": [f"m{i}" for i in range(9)], "relevance": [1] * 9}
    reranked = Counter[tuple[str, str]]()

    def look(query: str, texts: Sequence[str]) -> list[float]:
        reranked.update((query, text) for text in texts)
        return [sum(map(ord, text)) % 17 / 17 for text in texts]

    search = Retriever(encoder="hash", rerank=look, fold_threshold=0.6).fit(corpus)
    grid = {"rerank_n": [3, 10, 100], "rerank_weight": [0.0, 0.4, 1.0], "rerank": [None, look], "pool": [5, 30]}
    swept = mk.sweep(search, queries, qrels, grid, ["ndcg@5", "mrr"], as_of=DAY)
    assert set(reranked.values()) == {1}
    for i, setting in enumerate(swept.settings):
        alone = mk.evaluate(search.with_params(**setting), queries, qrels, ["ndcg@5", "mrr"], as_of=DAY)
        for metric in ("ndcg@5", "mrr"):
            np.testing.assert_array_equal(swept.matrix(metric)[i], alone.per_query[metric].to_numpy())
    assert set(reranked.values()) == {1}
    assert len(set(swept.table["ndcg@5"].to_pylist())) > 3


def test_a_service_that_is_down_is_said_and_left_out(retriever_over: Any) -> None:
    def down(query: str, texts: Sequence[str]) -> list[float]:
        raise ConnectionError("no route to host")

    search = retriever_over(FIVE, bm25={"q": {0: 10.0, 1: 8.0}}, **ONE_ARM)
    without = search.search("q", as_of=DAY)
    with pytest.warns(RuntimeWarning, match=r"no reranking this time.*no route to host"):
        hits = search.with_params(rerank=down).search("q", as_of=DAY)
    assert hits.equals(without)
    assert b"Without reranking: reranker" in hits.schema.metadata[b"note"]
    with pytest.raises(EncoderUnavailableError, match="no route to host"):
        search.with_params(rerank=down, on_encoder_error="raise").search("q", as_of=DAY)
    CIRCUITS._opened.clear()


def test_an_encoder_scores_by_cosine_and_encodes_each_passage_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, texts = as_encoder("hash"), ["кот спит", "чай", "кот"]
    cosines = encoder.encode_document(texts).astype(float) @ encoder.encode_query(["кот"])[0].astype(float)
    for spec in ("hash", encoder):
        assert as_reranker(spec).scores(["кот"] * 3, texts) == pytest.approx(cosines, abs=1e-7)
    assert as_reranker("hash") is as_reranker("hash")
    with pytest.raises(ParameterError, match="learns from the corpus"):
        as_reranker("lsa")


def test_a_cross_encoder_gets_pairs_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class CrossEncoder:
        def __init__(self, path: str, local_files_only: bool) -> None:
            calls.append((path, local_files_only))

        def predict(self, pairs: list[tuple[str, str]], batch_size: int, show_progress_bar: bool) -> np.ndarray:
            calls.append((pairs, batch_size))
            return np.array([len(query) - len(text) for query, text in pairs], np.float32)

    with pytest.raises(MissingExtraError, match="sentence-transformers"):
        as_reranker(f"st:{tmp_path}/none")
    fake = types.ModuleType("sentence_transformers")
    fake.CrossEncoder = CrossEncoder  # type: ignore[attr-defined]  # the stand-in's one name
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    monkeypatch.setattr(rerank_module.util, "find_spec", lambda name: object())
    with pytest.raises(ParameterError, match=r"'rerank' st:PATH must name a local folder"):
        as_reranker(f"st:{tmp_path}/none")
    scores = as_reranker(f"st:{tmp_path}").scores(["abc", "abc"], ["a", "ab"])
    assert scores.tolist() == [2.0, 1.0]
    assert calls == [(str(tmp_path), True), ([("abc", "a"), ("abc", "ab")], 1)]
    assert as_reranker(CrossEncoder("x", True)).scores(["abc"], ["abc"]).tolist() == [0.0]


def test_what_is_no_reranker_or_returns_no_scores_is_an_error(retriever_over: Any) -> None:
    search = retriever_over(FIVE, bm25={"q": {0: 10.0, 1: 8.0}}, **ONE_ARM)
    for wrong in (3, object(), Given, ["e5"], "e55"):
        with pytest.raises(ParameterError, match="'rerank' must be"):
            search.with_params(rerank=wrong).search("q", as_of=DAY)
    for scores in ([1.0], [1.0, float("nan")], ["a", "b"], [[1.0], [2.0]], [None, 1.0]):
        with pytest.raises(MemkitError, match="rerank"):
            search.with_params(rerank=lambda query, texts, scores=scores: scores).search("q", as_of=DAY)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerank_module, "_REMEMBERED", 3)
    look = Given({name: float(score) for score, name in enumerate(FIVE)})
    reranker = as_reranker(look)
    for _ in range(2):
        assert reranker.scores(["q", "q"], FIVE[:2]).tolist() == [0.0, 1.0]
    assert set(look.asked.values()) == {1}
    assert reranker.scores(["q"] * 3, FIVE[1:4]).tolist() == [1.0, 2.0, 3.0]
    assert reranker.scores(["p", "q"], [FIVE[0], FIVE[4]]).tolist() == [0.0, 4.0]


def test_a_saved_search_names_its_reranker_and_an_address_is_used_only_where_it_was_given(
    corpus_of: Any, tmp_path: Path
) -> None:
    corpus, address = corpus_of(*FIVE), "openai:second@http://127.0.0.1:9/v1"
    Retriever(encoder=None, rerank="hash", rerank_n=7).fit(corpus).save(tmp_path)
    loaded = Retriever.load(tmp_path, corpus)
    assert (loaded.rerank, loaded.rerank_n) == ("hash", 7)
    Retriever(encoder=None, rerank=address).fit(corpus).save(tmp_path)
    with pytest.warns(RuntimeWarning, match="nobody gave in this process. It is left out"):
        assert Retriever.load(tmp_path, corpus).rerank is None
    assert Retriever.load(tmp_path, corpus, trust=True).rerank == address
    look = Given(dict.fromkeys(FIVE, 1.0))
    with pytest.warns(RuntimeWarning, match="'rerank' is an object and is not saved"):
        Retriever(encoder=None, rerank=look).fit(corpus).save(tmp_path)
    assert Retriever.load(tmp_path, corpus).rerank is None


def test_a_profile_holds_a_reranker_by_name(corpus_of: Any) -> None:
    search = Retriever(encoder=None, rerank="hash", rerank_weight=0.3).fit(corpus_of(*FIVE))
    profile = mk.Profile.of(search) if hasattr(mk.Profile, "of") else mk.Profile(retriever={"rerank": "hash"})
    assert Retriever(**profile.retriever).rerank == "hash"
    with pytest.raises(ParameterError, match="'rerank' must be a name or None"):
        mk.Profile(retriever={"rerank": Given({})})


def test_the_panel_takes_the_name_of_a_reranker(corpus_of: Any) -> None:
    search = Retriever(encoder=None).fit(corpus_of("alpha beta", "alpha", "beta alpha gamma"))
    panel = mk.panels.search(search, "alpha", as_of=DAY)
    before = panel.result["score"].to_pylist()
    panel.set(rerank="hash", rerank_n=3, rerank_weight=1.0)
    expected = search.with_params(rerank="hash", rerank_n=3, rerank_weight=1.0).search("alpha", as_of=DAY)
    assert panel.result["score"].to_pylist() == expected["score"].to_pylist() != before
    panel.set(rerank=None)
    assert panel.result["score"].to_pylist() == before
