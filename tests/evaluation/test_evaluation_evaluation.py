"""`mk.evaluate`: who sees what, the unit of analysis, what is counted apart, and what is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import memkit as mk
from memkit.evaluation.evaluation import Task

DATA = Path(__file__).parents[2] / "data"
MEMORIES = {
    "memory_id": ["anna", "boris", "nobody", "late", "undated"],
    "text": ["чай Анны", "чай Бориса", "чай общий", "чай завтрашний", "чай без даты"],
    "user_id": ["anna", "o'boris", None, None, None],
    "created_at": ["2026-01-01", "2026-01-01", "2026-01-01", "2026-02-01", None],
}


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    return mk.Retriever(encoder=None, decay="none").fit(mk.from_table(MEMORIES))


def run_of(ranked: dict[str, list[str]]) -> pa.Table:
    rows = [(query, memory, rank) for query, ids in ranked.items() for rank, memory in enumerate(ids, 1)]
    return pa.table(dict(zip(("query_id", "memory_id", "rank"), map(list, zip(*rows, strict=True)), strict=True)))


def labelled(n: int, **columns: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """n queries, of each of which the memory r is relevant."""
    names = [f"q{i}" for i in range(n)]
    return {"query_id": names, "text": names, **columns}, {
        "query_id": names,
        "memory_id": ["r"] * n,
        "relevance": [1] * n,
    }


def run_finding(right: list[int]) -> pa.Table:
    """A run that finds r for those queries that are 1."""
    return run_of({f"q{i}": ["r"] if one else ["x"] for i, one in enumerate(right)})


@pytest.mark.quick
def test_each_query_sees_its_users_memories_and_those_of_nobody_of_its_day(search: mk.Retriever) -> None:
    queries = {
        "query_id": ["anna", "boris", "all", "past", "both"],
        "text": ["чай"] * 5,
        "user_id": ["anna", "o'boris", None, None, "anna"],
        "as_of": [None, None, None, "2026-01-15", "2026-01-15"],
    }
    qrels = {"query_id": queries["query_id"], "memory_id": ["nobody"] * 5, "relevance": [1] * 5}
    hits = mk.evaluate(search, queries, qrels, "recall@10", as_of="2026-03-01").hits.to_pandas()
    visible = {query: set(rows) for query, rows in hits.groupby("query_id")["memory_id"]}
    everywhere = {"nobody", "undated"}
    assert visible == {
        "anna": everywhere | {"anna", "late"},
        "boris": everywhere | {"boris", "late"},
        "all": everywhere | {"anna", "boris", "late"},
        "past": everywhere | {"anna", "boris"},
        "both": everywhere | {"anna"},
    }


@pytest.mark.quick
def test_a_predicate_narrows_what_is_seen(search: mk.Retriever) -> None:
    queries, qrels = (
        {"query_id": [1], "text": ["чай"], "user_id": ["anna"]},
        {"query_id": [1], "memory_id": ["anna"], "relevance": [1]},
    )
    hits = mk.evaluate(search, queries, qrels, "mrr", where="user_id is not null or false").hits
    assert hits["memory_id"].to_pylist() == ["anna"]


@pytest.mark.quick
@pytest.mark.parametrize("where", ["true) or (true", "false -- ", "user_id = ", "true; drop table memories"])
def test_a_predicate_never_shows_another_users_memories(search: mk.Retriever, where: str) -> None:
    queries, qrels = (
        {"query_id": [1], "text": ["чай"], "user_id": ["anna"]},
        {"query_id": [1], "memory_id": ["anna"], "relevance": [1]},
    )
    with pytest.raises(mk.MemkitError):
        mk.evaluate(search, queries, qrels, "mrr", where=where)


def test_batches_by_user_and_day_score_as_each_query_alone() -> None:
    corpus = mk.read(DATA)
    search = mk.Retriever(encoder=None).fit(corpus)
    queries = mk.labels.read_queries(DATA / "queries.csv").to_pandas().head(12)
    queries["user_id"] = ["anna", None, "boris"] * 4
    qrels = mk.labels.read_qrels(DATA / "qrels.csv").to_pandas()
    qrels = qrels[qrels["memory_id"].isin(corpus.memories["memory_id"].to_pylist())]
    whole = mk.evaluate(search, queries, qrels, ["ndcg@10", "mrr"], unjudged="apart").per_query.to_pandas()
    for i in range(len(queries)):
        if not np.isnan(whole["mrr"][i]):
            one = mk.evaluate(search, queries[i : i + 1], qrels, ["ndcg@10", "mrr"]).per_query.to_pandas()
            assert one["ndcg@10"][0] == whole["ndcg@10"][i]
            assert one["mrr"][0] == whole["mrr"][i]


def test_the_table_has_both_means_and_says_which_one_counts() -> None:
    queries, qrels = labelled(5, user_id=["a", "a", "a", "b", None])
    row = mk.evaluate(run_finding([1, 1, 1, 0, 0]), queries, qrels, "hit@1").table.to_pylist()[0]
    assert (row["per_query"], row["per_unit"]) == (3 / 5, 1 / 3)
    assert (row["value"], row["estimate"], row["unit"], row["n_units"]) == (1 / 3, "per user_id", "user_id", 3)
    row = mk.evaluate(run_finding([1, 1, 1, 0, 0]), queries, qrels, "hit@1", mean_of="queries").table.to_pylist()[0]
    assert (row["value"], row["estimate"], row["low"], row["high"]) == (3 / 5, "per query", None, None)


def test_the_mean_is_over_queries_while_no_user_has_more_than_a_quarter() -> None:
    queries, qrels = labelled(8, user_id=list("aabbccdd"))
    assert mk.evaluate(run_finding([1] * 8), queries, qrels).table["estimate"][0].as_py() == "per query"
    queries, qrels = labelled(8, user_id=list("aaabbccd"))
    assert mk.evaluate(run_finding([1] * 8), queries, qrels).table["estimate"][0].as_py() == "per user_id"


@pytest.mark.parametrize(
    ("columns", "group", "unit", "n"),
    [
        ({}, None, "query_id", 4),
        ({"user_id": ["a", "a", "b", "b"]}, None, "user_id", 2),
        ({"user_id": ["a", "a", "b", "b"], "group": ["x", "y", "z", "z"]}, None, "user_id", 2),
        ({"user_id": [None, None, None, "b"], "group": ["x", "x", "z", "z"]}, None, "group", 2),
        ({"user_id": ["a", "a", "b", "b"], "project": ["x", "x", "y", None]}, "project", "project", 3),
    ],
)
def test_the_unit_is_the_user_the_group_or_what_is_named(columns: Any, group: Any, unit: str, n: int) -> None:
    queries, qrels = labelled(4, **columns)
    row = mk.evaluate(run_finding([1, 0, 1, 0]), queries, qrels, "mrr", group=group).table.to_pylist()[0]
    assert (row["unit"], row["n_units"]) == (unit, n)


def test_the_interval_holds_the_mean_and_stays_within_0_and_1() -> None:
    queries, qrels = labelled(30)
    for right in ([1] * 29 + [0], [0] * 29 + [1], [0, 1, 1] * 10):
        row = mk.evaluate(run_finding(right), queries, qrels, "hit@1").table.to_pylist()[0]
        assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1


def test_queries_without_a_relevant_memory_are_counted_apart() -> None:
    queries, qrels = labelled(3)
    qrels["relevance"] = [1, 0, 1]
    evaluation = mk.evaluate(run_finding([1, 1, 0]), queries, qrels, ["mrr", "judged@1"])
    row = evaluation.table.to_pylist()[0]
    assert (row["value"], row["n_queries"], row["n_no_relevant"], row["n_with_hits"]) == (0.5, 2, 1, 3)
    assert evaluation.per_query["mrr"].to_pylist() == [1.0, None, 0.0]
    assert evaluation.per_query["judged@1"].to_pylist() == [1.0, 1.0, 0.0]
    assert "1 more has no relevant memory and does not count" in str(evaluation)


def test_queries_that_nobody_judged_are_an_error_unless_they_are_meant() -> None:
    queries, qrels = labelled(3)
    qrels = pd.DataFrame(qrels)[:2]
    with pytest.raises(mk.errors.ParameterError, match=r"a judgement for each query\. Got none for 'q2' of 3 queries"):
        mk.evaluate(run_finding([1, 1, 1]), queries, qrels)
    row = mk.evaluate(run_finding([1, 0, 1]), queries, qrels, "mrr", unjudged="apart").table.to_pylist()[0]
    assert (row["value"], row["n_queries"], row["n_no_relevant"]) == (0.5, 2, 1)
    with pytest.raises(mk.errors.ParameterError, match="for each query"):
        mk.evaluate(run_finding([1]), {"query_id": [1], "text": ["x"]}, qrels, unjudged="apart")


def test_memories_that_the_corpus_lacks_are_an_error(search: mk.Retriever) -> None:
    qrels = {"query_id": [1], "memory_id": ["ana"], "relevance": [1]}
    with pytest.raises(mk.errors.ParameterError, match=r"Got 'ana': they can never be found\. Did you mean 'anna'\?"):
        mk.evaluate(search, {"query_id": [1], "text": ["чай"]}, qrels)


def test_nothing_relevant_at_all_is_an_error() -> None:
    queries, qrels = labelled(2)
    with pytest.raises(mk.errors.ParameterError, match="a relevant memory for some of the queries"):
        mk.evaluate(run_finding([1, 1]), queries, qrels | {"relevance": [0, 0]})


def test_a_search_that_found_nothing_at_all_is_an_error(search: mk.Retriever) -> None:
    queries, qrels = {"query_id": [1], "text": ["coffee"]}, {"query_id": [1], "memory_id": ["anna"], "relevance": [1]}
    with pytest.raises(mk.MemkitError, match=r"hits for some of 1 queries\. Got none, which is no score of 0"):
        mk.evaluate(search, queries, qrels)
    with pytest.raises(mk.errors.ParameterError, match="hits for some of the queries"):
        mk.evaluate(run_of({"another": ["anna"]}), queries, qrels)


def test_an_arm_that_found_nothing_for_any_query_is_an_error() -> None:
    both = mk.Retriever(encoder="hash", vector_weight=0.5, gram_weight=0.0).fit(mk.from_table(MEMORIES))
    queries, qrels = {"query_id": [1], "text": ["coffee"]}, {"query_id": [1], "memory_id": ["anna"], "relevance": [1]}
    with pytest.raises(mk.MemkitError, match=r"the arm 'bm25' has the weight 0\.5 and found nothing for any of 1"):
        mk.evaluate(both, queries, qrels)
    mk.evaluate(both.with_params(vector_weight=1.0), queries, qrels)  # without a weight it need not


def test_an_arm_whose_candidates_lost_to_others_did_run() -> None:
    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[0.0, 1.0] if "чай" in text else [1.0, 0.0] for text in texts])

    rows = {"memory_id": ["a", "b", "c"], "text": ["кофе", "чай с лимоном", "чай"]}
    search = mk.Retriever(encoder=encode, vector_weight=0.9).fit(mk.from_table(rows))
    assert search.search("лимоном", k=1).select(["memory_id", "bm25"]).to_pylist() == [{"memory_id": "a", "bm25": None}]
    queries, qrels = {"query_id": [1], "text": ["лимоном"]}, {"query_id": [1], "memory_id": ["a"], "relevance": [1]}
    assert mk.evaluate(search, queries, qrels, "mrr@1").table["value"].to_pylist() == [1.0]


def test_a_service_that_is_away_is_an_error() -> None:
    class Away:
        fingerprint, dim, here = "away", 2, True

        def encode(self, texts: list[str], **_: Any) -> np.ndarray:
            if not self.here:
                raise mk.errors.EncoderUnavailableError("no answer")
            return np.ones((len(texts), 2), np.float32)

    encoder = Away()
    search = mk.Retriever(encoder=encoder).fit(mk.from_table(MEMORIES))
    encoder.here = False
    with pytest.raises(mk.errors.EncoderUnavailableError, match="no answer"):
        mk.evaluate(
            search, {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["anna"], "relevance": [1]}
        )


def test_a_column_that_queries_lack_is_no_group() -> None:
    queries, qrels = labelled(2, project=["x", "y"])
    with pytest.raises(
        mk.errors.ParameterError, match=r"'group' must be a column of queries\. Got 'projekt'.* mean 'project'"
    ):
        mk.evaluate(run_finding([1, 1]), queries, qrels, group="projekt")


def test_a_result_is_a_table_for_every_library_and_its_html_is_escaped() -> None:
    queries, qrels = labelled(7, **{"<script>": list("aabbccc")})
    evaluation = mk.evaluate(run_finding([1] * 7), queries, qrels, group="<script>")
    assert pa.table(evaluation).equals(evaluation.table)
    assert pd.DataFrame(evaluation.to_pandas())["metric"][0] == "ndcg@10"
    assert "<script>" not in evaluation._repr_html_()
    assert evaluation.per_query["unit"].to_pylist() == list("aabbccc")
    assert evaluation.table.schema.metadata[b"as_of"]


def test_the_public_name_is_the_function_however_its_room_was_imported() -> None:
    script = (
        "import memkit.evaluation.metrics as m, memkit as mk\n"
        "print(m.__name__, type(mk), mk.evaluate.__name__, mk.evaluate.__module__)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    expected = "memkit.evaluation.metrics <class 'module'> evaluate memkit.evaluation.evaluation"
    assert run.stdout.strip() == expected


def test_a_task_knows_each_querys_unit() -> None:
    queries, qrels = labelled(4, user_id=["a", None, "a", None])
    assert Task(None, queries, qrels, as_of=None).read().unit.tolist() == [0, 1, 0, 2]


def test_what_became_of_the_relevant_memories_is_told_by_stage(search: mk.Retriever) -> None:
    queries = {"query_id": ["anna", "past"], "text": ["чай", "завтрашний"], "user_id": ["anna", None]}
    queries["as_of"] = [None, "2026-01-15"]
    pairs = [
        ("anna", "anna"),
        ("anna", "boris"),
        ("anna", "nobody"),
        ("past", "late"),
        ("past", "undated"),
        ("past", "anna"),
    ]
    names, ids = map(list, zip(*pairs, strict=True))
    qrels = {"query_id": names, "memory_id": ids, "relevance": [1, 1, 1, 1, 1, 0]}
    narrow = search.with_params(pool=2)
    evaluation = mk.evaluate(narrow, queries, qrels, "recall@1", as_of="2026-03-01", stages=True)
    stages = {row["disposition"]: (row["n"], row["n_queries"]) for row in evaluation.stages.to_pylist()}
    trace = narrow.trace("чай", k=1, where="user_id is null or user_id = 'anna'", as_of="2026-03-01").to_pylist()
    outcome = {row["memory_id"]: row["disposition"] for row in trace}
    expected = [outcome.get(memory, "not_found") for memory in ("anna", "boris", "nobody")] + ["future", "not_found"]
    assert stages == {name: (expected.count(name), stages[name][1]) for name in expected}
    assert sum(evaluation.stages["share"].to_pylist()) == pytest.approx(1)
    assert "What became of the relevant memories" in evaluation._repr_html_()
    assert mk.evaluate(narrow, queries, qrels, "recall@1").stages.num_rows == 0


def test_a_run_does_not_say_how_it_was_made() -> None:
    queries, qrels = labelled(2)
    with pytest.raises(mk.errors.ParameterError, match="'stages' needs a Retriever"):
        mk.evaluate(run_finding([1, 1]), queries, qrels, stages=True)


def test_of_a_run_as_many_hits_count_as_are_asked_for() -> None:
    queries, qrels = labelled(2)
    deep = run_of({"q0": ["x", "y", "r"], "q1": ["r", "x", "y"]})
    assert mk.evaluate(deep, queries, qrels, "mrr@2").hits["memory_id"].to_pylist() == ["x", "y", "r", "x"]
    assert mk.evaluate(deep, queries, qrels, "mrr", depth=2).table["value"].to_pylist() == [0.5]
    assert mk.evaluate(deep, queries, qrels, "mrr").table["value"].to_pylist() == [pytest.approx(2 / 3)]


@pytest.mark.parametrize(
    ("verb", "change", "message"),
    [
        ("evaluate", {"metrics": None}, "metrics: expected names such as 'ndcg@10'. Got None"),
        ("evaluate", {"random_state": "x"}, "'random_state' must be an int"),
        ("compare", {"metrics": 5}, "metrics: expected names"),
        ("compare", {"random_state": -1}, "'random_state' must be an int"),
        ("sweep", {"n_jobs": 0}, "expected a number of threads"),
        ("sweep", {"grid": {"pool": range(1, 10**9)}}, "at most 1,000,000 values for 'pool'. Got 999,999,999"),
        ("tune", {"random_state": 1.5}, "'random_state' must be an int"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_each_verb(verb: str, change: dict[str, Any], message: str) -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a"], "text": ["чай"]}))
    queries, qrels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["a"], "relevance": [1]}
    arguments: dict[str, Any] = {"queries": queries, "qrels": qrels, **change}
    arguments |= {"a": search, "b": search} if verb == "compare" else {"search": search}
    if verb in ("sweep", "tune"):
        arguments.setdefault("grid", {"pool": [5]})
    with pytest.raises(mk.errors.ParameterError, match=message):
        getattr(mk, verb)(**arguments)


@pytest.mark.parametrize("only", [None, "hubs", "shadowed", "unsearchable"])
def test_an_audit_wants_a_fitted_search(only: str | None) -> None:
    with pytest.raises(mk.errors.NotFittedError):
        mk.audit(mk.Retriever(encoder=None), only=only)
    with pytest.raises(mk.errors.ParameterError, match="fitted Retriever"):
        mk.audit(5, only=only)
