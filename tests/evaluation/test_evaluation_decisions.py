"""Score tables of labelled decisions, and the verdicts that they earn: thresholds, word lists, budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk


@pytest.fixture(scope="module")
def pairs() -> tuple[mk.Deduplicator, pa.Table]:
    """120 pairs of 12 users: duplicates have a cosine of .95 or .85, others of .75."""
    names, texts, vectors, rows = [], [], [], []
    for i in range(120):
        cosine, label = ((0.95, True), (0.85, True), (0.75, False))[i % 3]
        one, other = np.zeros(240), np.zeros(240)
        one[2 * i] = 1.0
        other[2 * i : 2 * i + 2] = cosine, np.sqrt(1 - cosine**2)
        names += [f"a{i}", f"b{i}"]
        texts += [f"память {i}", f"память {i} длиннее"]
        vectors += [one, other]
        rows.append({"a_id": f"b{i}", "b_id": f"a{i}", "label": label, "user_id": f"u{i // 10}"})
    table = pa.table({"memory_id": names, "text": texts})
    dedup = mk.Deduplicator(kinds=("semantic",), centre="none", floor=0.5, threshold=0.9)
    return dedup.fit(table, vectors=np.array(vectors, np.float32)), pa.Table.from_pylist(rows)


@pytest.mark.quick
def test_a_threshold_that_misses_duplicates_is_lowered(pairs: tuple[mk.Deduplicator, pa.Table]) -> None:
    dedup, labels = pairs
    scores = mk.labels.dedup_scores(dedup, labels, [0.7, 0.8])
    assert scores.column_names == ["query_id", "user_id", "0.7", "0.8", "0.9"]
    means = {name: np.mean(scores[name].to_pylist()) for name in ("0.7", "0.8", "0.9")}
    assert means == pytest.approx({"0.7": 2 / 3, "0.8": 1.0, "0.9": 2 / 3})
    tuned = mk.labels.tune_scores(scores, "0.9", group="user_id", metric="right decisions")
    assert (tuned.verdict_.word, tuned.chosen_params_) == ("better", {"setting": 0.8})
    assert tuned.apparent_gain_ == pytest.approx(1 / 3)


@pytest.mark.quick
def test_a_wrong_merge_costs_what_is_said(pairs: tuple[mk.Deduplicator, pa.Table]) -> None:
    dedup, labels = pairs
    scores = mk.labels.dedup_scores(dedup, labels, [0.7], merge_cost=5)
    assert np.mean(scores["0.7"].to_pylist()) == pytest.approx(2 / 3 - 4 / 3)
    assert mk.labels.tune_scores(scores, "0.9", group="user_id").verdict_.word == "worse"


@pytest.mark.quick
def test_pairs_that_are_unknown_or_differ_in_a_number_never_merge() -> None:
    table = pa.table(
        {"memory_id": ["a", "b", "c"], "text": ["Аренда 1200 рублей", "Аренда 1300 рублей", "аренда 1200 рублей"]}
    )
    dedup = mk.Deduplicator(encoder=None, kinds=("lexical",), lexical_floor=0.3).fit(table)
    labels = {"a_id": ["a", "a", "a"], "b_id": ["b", "gone", "c"], "label": ["contradiction", "different", "duplicate"]}
    assert mk.labels.dedup_scores(dedup, labels, [0.3], kind="lexical")["0.3"].to_pylist() == [1.0, 1.0, 1.0]


def test_a_word_list_is_judged_on_what_should_be_accepted() -> None:
    texts = [("Любит зелёный чай", True), ("Открой окно пожалуйста", False), ("How is the pool configured", False)]
    rows = [
        {"text": f"{text} {user}", "accept": accept, "user_id": f"u{user}"}
        for user in range(12)
        for text, accept in texts
    ]
    labels = pa.Table.from_pylist(rows)
    words = mk.Admission().question_words
    policies = {"now": mk.Admission(), "more": mk.Admission(question_words=(*words, "открой"))}
    scores = mk.labels.admission_scores(policies, labels)
    assert (np.mean(scores["now"].to_pylist()), np.mean(scores["more"].to_pylist())) == pytest.approx((2 / 3, 1.0))
    tuned = mk.labels.tune_scores(scores, "now", group="user_id")
    assert (tuned.verdict_.word, tuned.chosen_params_) == ("better", {"setting": "more"})
    same = mk.labels.admission_scores({"now": mk.Admission(), "also now": mk.Admission()}, labels)
    assert mk.labels.tune_scores(same, "now", group="user_id").verdict_.word == "practically the same"


def test_a_budget_is_judged_by_what_is_in_the_prompt() -> None:
    rows: dict[str, list[Any]] = {"memory_id": [], "text": [], "user_id": []}
    for user in range(8):
        for i, text in enumerate(("ключ настроен давно и надолго", "ключ от дома лежит под ковриком")):
            rows["memory_id"].append(f"u{user}m{i}")
            rows["text"].append(text)
            rows["user_id"].append(f"u{user}")
    corpus = mk.from_table(rows)
    search = mk.Retriever(encoder=None).fit(corpus)
    builders = {name: mk.ContextBuilder(search, relevant_chars=size) for name, size in (("40", 40), ("2000", 2000))}
    names = [f"u{user}" for user in range(8)]
    queries = {"query_id": names, "text": ["ключ"] * 8, "user_id": names}
    qrels = {"query_id": names * 2, "memory_id": [f"{n}m{i}" for i in (0, 1) for n in names], "relevance": [1] * 16}
    scores = mk.labels.context_scores(builders, corpus, queries, qrels, as_of="2026-03-01")
    assert (scores["40"].to_pylist(), scores["2000"].to_pylist()) == ([0.5] * 8, [1.0] * 8)
    assert mk.labels.tune_scores(scores, "40", group="user_id").verdict_.word == "better"
    assert mk.labels.tune_scores(scores, "2000", group="user_id").verdict_.word == "worse"


def test_a_query_without_a_relevant_memory_has_no_score() -> None:
    corpus = mk.from_table({"memory_id": ["a"], "text": ["чай"]})
    builders = {"one": mk.ContextBuilder(mk.Retriever(encoder=None))}
    qrels = {"query_id": ["q"], "memory_id": ["a"], "relevance": [0]}
    scores = mk.labels.context_scores(builders, corpus, {"query_id": ["q"], "text": ["чай"]}, qrels)
    assert scores["one"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"text": ["чай"]}, "expected a column 'accept'"),
        ({"text": ["чай"], "accept": ["yes"]}, "expected true or false in every 'accept'"),
        ({"text": ["чай", "мёд"], "accept": [True, None]}, "expected true or false in every 'accept'"),
    ],
)
def test_labels_of_admission_that_cannot_be_meant_are_refused(labels: dict[str, Any], message: str) -> None:
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.labels.admission_scores({"now": mk.Admission()}, labels)


@pytest.mark.parametrize("wrong", [{"thresholds": [1.5]}, {"thresholds": [0.8], "merge_cost": -1.0}])
def test_thresholds_and_costs_out_of_range_are_refused(
    pairs: tuple[mk.Deduplicator, pa.Table], wrong: dict[str, Any]
) -> None:
    with pytest.raises(mk.errors.ParameterError, match="must be"):
        mk.labels.dedup_scores(*pairs, **wrong)
