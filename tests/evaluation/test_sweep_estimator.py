"""`mk.as_estimator` in scikit-learn's searches, and its objective in Optuna's: scores are those of `evaluate`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, RandomizedSearchCV

import memkit as mk

TOPICS = ["пул соединений", "зелёный чай", "release friday", "кот Мурзик", "сервер базы", "green tea"]
DAY = "2026-03-01"


@pytest.fixture(scope="module")
def search_and_labels() -> tuple[mk.Retriever, pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(5)
    texts = [f"{TOPICS[i % 6]} {TOPICS[int(rng.integers(6))]} {i // 6}" for i in range(48)]
    dates = [f"2025-{1 + i % 12:02}-01" for i in range(48)]
    memories = {"memory_id": [f"m{i}" for i in range(48)], "text": texts, "created_at": dates}
    search = mk.Retriever(encoder="hash", decay_kinds="*").fit(mk.from_table(memories))
    queries = {
        "query_id": [f"q{i}" for i in range(12)],
        "text": [TOPICS[i % 6] for i in range(12)],
        "user_id": [f"u{i % 4}" for i in range(12)],
    }
    qrels = {
        "query_id": [f"q{i}" for i in range(12) for _ in range(2)],
        "memory_id": [f"m{i % 6 + 6 * one * int(rng.integers(8))}" for i in range(12) for one in range(2)],
        "relevance": [1 + i % 2 for i in range(24)],
    }
    return search, pd.DataFrame(queries), pd.DataFrame(qrels).drop_duplicates(["query_id", "memory_id"])


@pytest.mark.quick
def test_each_fold_scores_as_evaluate_does_and_users_stay_together(
    search_and_labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, queries, qrels = search_and_labels
    est = mk.as_estimator(search, "ndcg@5", as_of=DAY)
    x, y = est.labels(queries, qrels)
    fitted: list[Any] = []
    monkeypatch.setattr(mk.Retriever, "fit", lambda self, corpus: fitted.append(corpus))
    grid = {"vector_weight": [0.0, 0.5], "decay": ["none", "half_life"]}
    cv = GroupKFold(4)
    tried = GridSearchCV(est, grid, cv=cv).fit(x, y, groups=x["user_id"])
    assert fitted == []
    assert len(tried.cv_results_["params"]) == 4
    for fold, (_, test) in enumerate(cv.split(x, y, x["user_id"])):
        assert len(set(x["user_id"][test])) == 1
        for i, params in enumerate(tried.cv_results_["params"]):
            alone = mk.evaluate(
                search.with_params(**params),
                queries.iloc[test],
                qrels[qrels["query_id"].isin(queries["query_id"].iloc[test])],
                "ndcg@5",
                as_of=DAY,
                mean_of="queries",
            )
            score = tried.cv_results_[f"split{fold}_test_score"][i]
            assert score == alone.table["value"][0].as_py()
    assert tried.best_estimator_.search_.corpus_ is search.corpus_


def test_a_grid_over_the_index_fits_the_search_once_for_each_value() -> None:
    lines = ["кофе"] * 30
    texts = ["\n".join([*lines[:at], "чай", *lines[at:]]) for at in (0, 15)] + ["чай пуэр\nчай"]
    corpus = mk.from_table({"memory_id": list("abc"), "text": texts})
    search = mk.Retriever(encoder=None, index=mk.Index(overlap_tokens=0)).fit(corpus)
    labels = {"query_id": [1, 2], "text": ["чай", "чай кофе"]}, {"query_id": [1, 2], "memory_id": ["c", "a"]}
    labels[1]["relevance"] = [1, 1]
    est = mk.as_estimator(search, "mrr", as_of=DAY)
    x, y = est.labels(*labels)
    tried = GridSearchCV(est, {"index__chunk_tokens": [4, 100]}, cv=[([0], [0, 1])]).fit(x, y)
    for size, score in zip((4, 100), tried.cv_results_["mean_test_score"], strict=True):
        alone = mk.Retriever(encoder=None, index=mk.Index(chunk_tokens=size, overlap_tokens=0)).fit(corpus)
        assert score == mk.evaluate(alone, *labels, "mrr", as_of=DAY, mean_of="queries").table["value"][0].as_py()
    best = tried.best_estimator_
    assert best.search_.index.chunk_tokens == tried.best_params_["index__chunk_tokens"]
    assert search.index.chunk_tokens == 100
    assert len(best.arms._fits) == 2
    with pytest.raises(mk.errors.ParameterError, match="'index__encoder' is the search's"):
        clone(est).set_params(index__encoder="hash").fit(x, y)


@pytest.mark.quick
def test_drawn_settings_and_clones_share_what_was_fitted(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    est = mk.as_estimator(search, as_of=DAY)
    again = clone(est).set_params(pool=7)
    assert again.arms is est.arms
    assert again.fit(queries).search_.pool == 7
    assert est.pool == search.pool
    x, y = est.labels(queries, qrels)
    tried = RandomizedSearchCV(est, {"pool": [1, 5, 50], "min_score": [0.0, 0.3]}, n_iter=4, cv=3, random_state=0)
    assert np.isfinite(tried.fit(x, y).cv_results_["mean_test_score"]).all()


@pytest.mark.quick
def test_what_is_less_is_better_counts_negative(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    est = mk.as_estimator(search, "stale@5", as_of=DAY)
    assert est.score(*est.labels(queries, qrels)) <= 0


def test_a_fitted_search_says_that_it_cannot_go_to_another_process(search_and_labels: Any) -> None:
    with pytest.raises(mk.MemkitError, match=r"use threads, as in joblib\.parallel_config"):
        pickle.dumps(mk.as_estimator(search_and_labels[0], as_of=DAY))


def test_what_cannot_be_scored_is_refused(search_and_labels: Any) -> None:
    search, queries, _ = search_and_labels
    est = mk.as_estimator(search, as_of=DAY)
    with pytest.raises(mk.errors.ParameterError, match=r"labels for each of 12 queries\. Got 1"):
        est.score(queries, [{"m1": 1}])
    with pytest.raises(mk.errors.ParameterError, match="a relevant memory for some of the queries"):
        est.score(queries, [{}] * 12)
    with pytest.raises(mk.errors.ParameterError, match=r"expected memories of this corpus\. Got 'nobody'"):
        est.score(queries, [{"nobody": 1}] * 12)
    with pytest.raises(mk.errors.NotFittedError, match=r"expected fit\(corpus\) before this"):
        mk.as_estimator(mk.Retriever())
    with pytest.raises(mk.errors.ParameterError, match=r"a fitted Retriever\. Got Corpus"):
        mk.as_estimator(search.corpus_)
    with pytest.raises(mk.errors.ParameterError, match="no parameter 'depht'"):
        est.set_params(depht=1)


def test_optuna_tries_settings_that_score_as_evaluate_does(search_and_labels: Any) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search, queries, qrels = search_and_labels
    space = {"vector_weight": (0.0, 1.0), "pool": (5, 50), "fold": ["none", "near"], "decay_kinds": ["*", ("archive",)]}
    objective = mk.as_estimator(search, "mrr", as_of=DAY).objective(queries, qrels, space)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=5)
    for trial in study.trials:
        setting = {**trial.params, "decay_kinds": space["decay_kinds"][trial.params["decay_kinds"]]}
        alone = mk.evaluate(search.with_params(**setting), queries, qrels, "mrr", as_of=DAY, mean_of="queries")
        assert trial.value == alone.table["value"][0].as_py()


def test_an_objective_fits_what_acts_at_fit_once_for_each_value(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels

    class Trial:
        def __init__(self, size: int) -> None:
            self.size = size

        def suggest_categorical(self, name: str, choices: list[int]) -> int:
            return self.size

    objective = mk.as_estimator(search, "mrr", as_of=DAY).objective(queries, qrels, {"index__chunk_tokens": [21, 40]})
    for size in (21, 40, 21):
        alone = mk.Retriever(**{**search.get_params(), "index__chunk_tokens": size}).fit(search.corpus_)
        expected = mk.evaluate(alone, queries, qrels, "mrr", as_of=DAY, mean_of="queries").table["value"][0].as_py()
        assert objective(Trial(size)) == expected
    with pytest.raises(mk.errors.ParameterError, match="'index__overlap_tokens' below 'index__chunk_tokens'"):
        objective(Trial(2))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "a dict of lists or ranges"),
        ({"pool": 5}, "expected a list, or \\(low, high\\), for 'pool'"),
        ({"pool": (1, 2, 3)}, "for 'pool'"),
        ({"pool": (0, 5)}, "'pool' must be an int"),
        ({"encoder": ["use"]}, "'encoder' acts at fit"),
    ],
)
def test_a_space_that_cannot_be_meant_is_refused(search_and_labels: Any, space: Any, message: str) -> None:
    search, *labels = search_and_labels
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.as_estimator(search).objective(*labels, space)
