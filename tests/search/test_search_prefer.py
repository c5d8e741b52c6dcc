"""`prefer="newest"`: of two memories that are alike and score nearly the same the newer one comes first."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import memkit as mk
from memkit.search.show import contributions
from memkit.search.steps.prefer import NEAR_TIE

DAY = "2026-03-01"
WORDS = ["пул", "соединений", "вырос", "чай", "кофе", "release", "friday", "deploy", "plan", "ночь"]
QUESTIONS = ["пул соединений вырос", "friday deploy plan", "чай и кофе", "release"]


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    draw = np.random.default_rng(3)
    days = [None if i % 7 == 0 else f"2026-0{1 + i % 2}-{1 + i % 27:02}" for i in range(60)]
    return mk.from_table(
        {
            "memory_id": [f"m{i * 7 % 60:02}" for i in range(60)],
            "text": [" ".join(draw.choice(WORDS, 3 + i % 3)) for i in range(60)],
            "user_id": [None if i % 4 == 0 else f"u{i % 2}" for i in range(60)],
            "created_at": days,
        }
    )


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder="hash", fold="none").fit(corpus)


def trigrams(text: str) -> set[str]:
    return {text[start : start + 3] for start in range(len(text) - 2)}


def cosine(one: str, other: str) -> float:
    a, b = trigrams(one), trigrams(other)
    return float(len(a & b) / (len(a) * len(b)) ** 0.5)


def lifted(search: mk.Retriever, question: str, alike: float) -> dict[str, float]:
    """The score of each memory, pair by pair, from a trace in which nothing was lifted."""
    trace = search.with_params(prefer=None).trace(question, as_of=DAY).to_pylist()
    memories = {row["memory_id"]: row for row in search.corpus_.memories.to_pylist()}
    placed = {row["memory_id"]: round(row["score"], 6) for row in trace if row["rank"]}
    result = dict(placed)
    for name in sorted(
        (name for name in placed if memories[name]["created_at"]), key=lambda n: memories[n]["created_at"]
    ):
        newer = memories[name]
        for other in placed:
            older = memories[other]
            if not older["created_at"] or newer["created_at"] <= older["created_at"]:
                continue
            is_near = 0 <= round(result[other] - placed[name], 6) <= NEAR_TIE
            if newer["user_id"] == older["user_id"] and is_near and cosine(newer["text"], older["text"]) >= alike:
                result[name] = max(result[name], round(result[other] + 1e-6, 6))
    return result


@pytest.mark.quick
def test_scores_are_those_of_comparing_all_pairs(search: mk.Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = 0
    for question, alike in product(QUESTIONS, (0.3, 0.6, 0.9)):
        expected = lifted(search, question, alike)
        monkeypatch.setattr("memkit.search.steps.prefer.ALIKE", alike)
        trace = search.with_params(prefer="newest").trace(question, as_of=DAY).to_pylist()
        placed = [row for row in trace if row["rank"]]
        assert {row["memory_id"] for row in placed} == set(expected)
        for row in placed:
            assert row["score"] == pytest.approx(expected[row["memory_id"]], abs=1.5e-6), (question, alike, row)
            assert row["score"] == pytest.approx(row["fused"] * row["prior"] * row["decay"] + row["lift"], abs=1e-9)
            changed += row["lift"] > 0
        assert [row["score"] for row in placed] == sorted((row["score"] for row in placed), reverse=True)
    assert changed > 20


@pytest.mark.quick
def test_of_statements_in_a_row_the_latest_is_first() -> None:
    months = [f"2026-0{month}-01" for month in (3, 1, 5, 2, 4)]
    texts = [f"Порт сервиса почта теперь {5000 + i}." for i in range(5)]
    rows = {"memory_id": [*"abcde"], "text": texts, "created_at": months}
    search = mk.Retriever(encoder=None, prefer="newest", fold="none").fit(mk.from_table(rows))
    hits = search.search("порт сервиса почта", as_of="2026-06-01", columns=["created_at"])
    assert [f"{day:%Y-%m-%d}" for day in hits["created_at"].to_pylist()] == sorted(months, reverse=True)


@pytest.mark.quick
def test_off_it_says_and_changes_nothing(search: mk.Retriever) -> None:
    plain = search.trace(QUESTIONS, as_of=DAY)
    assert not any(plain["lift"].to_pylist())


def test_settings_of_a_sweep_rank_as_searches(search: mk.Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.search.steps.prefer.ALIKE", 0.3)
    names = [f"q{i}" for i in range(len(QUESTIONS))]
    queries = pd.DataFrame({"query_id": names, "text": QUESTIONS, "user_id": [None, "u0", "u1", None]})
    relevant = [search.search(text, k=9, as_of=DAY)["memory_id"].to_pylist()[2::3] for text in QUESTIONS]
    pairs = [(name, one) for name, some in zip(names, relevant, strict=True) for one in some]
    qrels = pd.DataFrame(pairs, columns=["query_id", "memory_id"]).assign(relevance=1)
    grid: dict[str, Any] = {
        "prefer": [None, "newest"],
        "min_score": [0.0, 0.3],
        "mmr_lambda": [1.0, 0.7],
        "vector_weight": [0.0, 0.4],
    }
    swept = mk.sweep(search, queries, qrels, grid, metrics=["mrr", "ndcg@5"], as_of=DAY)
    for row in swept.table.to_pylist():
        one = search.with_params(**{name: row[name] for name in grid})
        values = mk.evaluate(one, queries, qrels, metrics=["mrr", "ndcg@5"], as_of=DAY).table["value"].to_pylist()
        assert [row["mrr"], row["ndcg@5"]] == pytest.approx(values, abs=1e-12), row
    assert len({round(row["ndcg@5"], 6) for row in swept.table.to_pylist() if row["prefer"]}) > 4


def test_the_newer_statement_comes_first_and_an_explanation_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.search.steps.prefer.ALIKE", 0.3)
    rows = {
        "memory_id": ["new", "old", "other", "tea"],
        "text": ["Модель по умолчанию теперь Берёза.", "Модель по умолчанию: Ольха.", "Модель по умолчанию.", "чай"],
        "user_id": ["anna", "anna", "boris", "anna"],
        "created_at": ["2026-02-01", "2026-01-01", "2025-01-01", "2026-02-02"],
    }
    search = mk.Retriever(encoder=None, prefer="newest").fit(mk.from_table(rows))
    question = "модель по умолчанию"
    plain = search.with_params(prefer=None)
    assert plain.search(question, user_id="anna", as_of=DAY)["memory_id"].to_pylist()[:2] == ["old", "new"]
    assert search.search(question, user_id="anna", as_of=DAY)["memory_id"].to_pylist()[:2] == ["new", "old"]
    assert search.search(question, as_of=DAY)["memory_id"][0].as_py() == "other", "another's memory is no update"
    assert "as it is newer than a similar memory (prefer)" in mk.explain(search, question, "new", as_of=DAY)
    why = mk.explain(search, question, "old", k=1, user_id="anna", as_of=DAY)
    assert "It would be returned with prefer=None or k=2" in why
    parts = contributions(search.trace(question, user_id="anna", as_of=DAY))
    assert all(abs(lost) < 1e-9 for lost in parts["lost"].to_pylist())
