"""The labelled queries of data/labels, and the workspace data/life that most of them ask about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import memkit as mk

DATA = Path(__file__).parents[1] / "data"
KINDS = {"ru": 20, "en": 12, "across": 8, "dated": 6, "superseded": 8, "unanswerable": 6}


@pytest.fixture(scope="module")
def bench(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/bench_labels.py")


@pytest.fixture(scope="module")
def corpus() -> mk.Corpus:
    return mk.read(DATA)


@pytest.fixture(scope="module")
def life() -> mk.Corpus:
    return mk.read(DATA / "life")


@pytest.fixture(scope="module")
def queries(bench: ModuleType) -> pd.DataFrame:
    return bench.queries()


@pytest.fixture(scope="module")
def labels(bench: ModuleType) -> pd.DataFrame:
    return bench.labels()


@pytest.fixture(scope="module")
def qrels(bench: ModuleType, corpus: mk.Corpus, labels: pd.DataFrame) -> pd.DataFrame:
    return bench.qrels(corpus, labels)


@pytest.mark.quick
def test_each_query_has_its_fields_and_an_id_of_its_own(queries: pd.DataFrame) -> None:
    assert list(queries.columns) == ["query_id", "text", "user_id", "as_of", "group", "kind", "note"]
    assert queries["query_id"].is_unique
    assert queries["text"].is_unique
    assert queries[["query_id", "text", "group", "kind"]].map(lambda field: bool(field.strip())).all(axis=None)
    assert Counter(queries["kind"]) == KINDS


@pytest.mark.quick
def test_ids_differ_from_those_of_the_older_queries(queries: pd.DataFrame) -> None:
    assert not set(queries["query_id"]) & set(pd.read_csv(DATA / "queries.csv")["query_id"])


@pytest.mark.quick
def test_three_queries_need_the_facts_of_their_user(queries: pd.DataFrame, qrels: pd.DataFrame) -> None:
    asked_by = queries.dropna(subset="user_id").set_index("query_id")["user_id"]
    assert len(asked_by) == 3
    for query_id, user in asked_by.items():
        paths = qrels.loc[(qrels["query_id"] == query_id) & (qrels["relevance"] == 3), "path"]
        assert paths.str.startswith(f"facts/users/{user}/").any()


def test_each_anchor_names_exactly_one_memory(labels: pd.DataFrame, qrels: pd.DataFrame) -> None:
    key = ["query_id", "path", "anchor"]
    assert not labels.duplicated(key).any()
    named = qrels.groupby(key)["memory_id"].size().reindex(pd.MultiIndex.from_frame(labels[key]), fill_value=0)
    assert named[named != 1].to_dict() == {}


def test_no_memory_is_judged_twice_for_a_query(qrels: pd.DataFrame) -> None:
    twice = qrels[qrels.duplicated(["query_id", "memory_id"], keep=False)]
    assert twice[["query_id", "path", "anchor"]].to_numpy().tolist() == []


def test_only_unanswerable_queries_have_no_answer(queries: pd.DataFrame, labels: pd.DataFrame) -> None:
    answered = set(labels.loc[labels["relevance"] == 3, "query_id"])
    assert answered == set(queries.loc[queries["kind"] != "unanswerable", "query_id"])
    assert answered == set(labels["query_id"])


def test_relevance_is_0_to_3_and_0_says_when_it_was_true(labels: pd.DataFrame) -> None:
    assert set(labels["relevance"]) == {0, 1, 2, 3}
    assert labels.loc[labels["relevance"] == 0, ["valid_from", "valid_to"]].notna().any(axis=1).all()


def test_an_answer_becomes_true_before_it_ceases_to_be(labels: pd.DataFrame) -> None:
    days = labels[["valid_from", "valid_to"]].apply(pd.to_datetime, format="%Y-%m-%d").dropna()
    assert (days["valid_from"] < days["valid_to"]).all()


def test_a_superseded_answer_ended_and_the_newest_has_not(queries: pd.DataFrame, labels: pd.DataFrame) -> None:
    for query_id in queries.loc[queries["kind"] == "superseded", "query_id"]:
        judged = labels[labels["query_id"] == query_id]
        old = judged["relevance"] == 0
        assert judged.loc[old, "valid_to"].notna().all()
        assert judged.loc[~old, "valid_to"].isna().all()
        assert old.any()


def test_what_answers_a_question_of_a_past_day_was_written_by_then(
    queries: pd.DataFrame, qrels: pd.DataFrame, corpus: mk.Corpus
) -> None:
    dated = queries.dropna(subset="as_of")[["query_id", "as_of"]]
    written = corpus.memories.select(["memory_id", "created_at"]).to_pandas()
    right = qrels[qrels["relevance"] > 0].merge(dated).merge(written).dropna(subset="created_at")
    assert len(dated) == 2
    assert (right["created_at"] < pd.to_datetime(right["as_of"], utc=True)).all()


def test_what_answers_is_searched_by_default(qrels: pd.DataFrame, corpus: mk.Corpus) -> None:
    kinds = corpus.memories.select(["memory_id", "kind"]).to_pandas()
    assert not set(qrels.merge(kinds)["kind"]) & {"heartbeat", "quarantined"}


def test_the_labels_themselves_are_no_memories(corpus: mk.Corpus) -> None:
    read = corpus.memories["path"].to_pylist() + corpus.problems["path"].to_pylist()
    assert [path for path in read if path.startswith("labels/")] == []


def test_the_workspace_is_sixty_logs_and_what_stands_beside_them(life: mk.Corpus) -> None:
    files = dict(life.sql("select kind, count(distinct path) from memories group by kind").fetchall())
    assert files == {"daily_log": 60, "session": 6, "document": 8, "long_term": 1, "heartbeat": 1}


def test_the_workspace_is_healthy_but_for_one_paste_in_another_encoding(life: mk.Corpus) -> None:
    problems = life.sql("select path, line, rule from problems where severity <> 'info' order by line").fetchall()
    assert problems == [("memory/2026-01-28.md", line, "encoding") for line in range(19, 24)]


def test_the_workspace_has_the_bytes_that_real_ones_have() -> None:
    logs = DATA / "life" / "memory"
    assert (logs / "2026-01-20.md").read_bytes().startswith(b"\xef\xbb\xbf")
    crlf = (logs / "2025-10-06.md").read_bytes()
    assert crlf.count(b"\r\n") == crlf.count(b"\n") > 0


def test_no_secret_of_the_workspace_passes_for_a_real_one() -> None:
    real = re.compile(r"\b\d{8,10}:[\w-]{35}\b|\bsk-(?=\w*\d)\w{20,}|\bghp_\w{30,}|\bAKIA[A-Z0-9]{16}")
    assert [
        path.name for path in (DATA / "life").rglob("*.md") if real.search(path.read_text("utf-8", "replace"))
    ] == []
