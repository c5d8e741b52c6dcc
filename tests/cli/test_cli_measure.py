"""`memkit evaluate` and `memkit compare`, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import memkit as mk

Run = Callable[..., tuple[int, str, str]]
WORDS = ("--set", "encoder=none")


@pytest.fixture
def labels(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Two labelled queries over the folder."""
    ids = {row["source_id"]: row["memory_id"] for row in mk.read(folder).memories.to_pylist()}
    queries = {"query_id": ["чай", "2"], "text": ["зелёный чай", "maps"], "user_id": ["anna", None]}
    qrels = {"query_id": ["чай", "2"], "memory_id": [ids["pf_1"], ids["pf_2"]], "relevance": [1, 1]}
    beside = tmp_path_factory.mktemp("labels")
    one, other = mk.write_labels(queries, beside / "q.csv"), mk.write_labels(qrels, beside / "all.qrels")
    return ("--queries", str(one), "--qrels", str(other), "--as-of", "2026-01-01")


def test_evaluate_answers_for_people_and_for_machines(run: Run, folder: Path, labels: tuple[str, ...]) -> None:
    code, out, err = run("evaluate", folder, *labels, *WORDS)
    assert (code, err) == (0, "")
    assert "ndcg@10 1.000, no interval, per user_id, over 2 queries in 2 groups by user_id" in out
    code, out, _ = run("evaluate", folder, *labels, *WORDS, "--metric", "mrr", "--metric", "hit@1", "--json")
    assert [(row["metric"], row["value"]) for row in json.loads(out)] == [("mrr", 1.0), ("hit@1", 1.0)]
    code, out, _ = run("evaluate", folder, *labels, *WORDS, "--per-query", "--json")
    assert [(row["query_id"], row["unit"], row["mrr"]) for row in json.loads(out)] == [
        ("чай", "anna", 1.0),
        ("2", "2", 1.0),
    ]
    code, out, _ = run("evaluate", folder, *labels, *WORDS, "--stages", "--json")
    assert [(row["disposition"], row["n"]) for row in json.loads(out)] == [("returned", 2)]


def test_the_hits_go_out_as_a_run(run: Run, folder: Path, labels: tuple[str, ...], tmp_path: Path) -> None:
    code, _, _ = run("evaluate", folder, *labels, *WORDS, "--run", tmp_path / "hits.run")
    lines = (tmp_path / "hits.run").read_text("utf-8").splitlines()
    assert code == 0
    assert [line.split()[0] for line in lines] == ["чай", "2"]
    assert all(len(line.split()) == 6 for line in lines)


def test_compare_says_the_verdict_and_what_differs_without_labels(
    run: Run, folder: Path, labels: tuple[str, ...]
) -> None:
    code, out, err = run("compare", folder, *labels, *WORDS, "--b", "decay=none")
    assert (code, err) == (0, "")
    assert "Cannot tell yet whether b is better than a: too few users: 2" in out
    code, out, _ = run("compare", folder, *labels, *WORDS, "--b", "decay=none", "--json")
    assert [(row["word"], row["difference"]) for row in json.loads(out)] == [("cannot tell yet", 0.0)]
    unlabelled = labels[:2]
    code, out, _ = run(
        "compare", folder, *unlabelled, *WORDS, "--b-preset", "workspace", "--b", "encoder=none", "--json"
    )
    assert [row["measure"] for row in json.loads(out)] == ["overlap@10", "same first hit", "places moved"]
    code, out, _ = run("compare", folder, *unlabelled, *WORDS, "--b", "pool=1", "--per-query", "--json")
    assert {row["shift"] for row in json.loads(out)} == {0}


def test_tune_says_what_to_use_and_writes_it_down(
    run: Run, folder: Path, labels: tuple[str, ...], tmp_path: Path
) -> None:
    grid = ("--grid", "pool=5:15:5", "--grid", "fold=none,near", "--grid", "bm25_weight=0.5:1:0.25")
    code, out, err = run("tune", folder, *labels, *WORDS, *grid, "--profile-out", tmp_path / "mine.toml")
    assert (code, err) == (0, "")
    assert "Cannot tell yet whether tuning helps (too few users: 2" in out
    assert "Keep the search's own setting." in out
    profile = mk.Profile.load(tmp_path / "mine.toml")
    assert profile.retriever["encoder"] is None
    assert (profile.evidence["n_settings"], profile.evidence["n_queries"]) == (18, 2)
    assert profile.evidence["verdict"].startswith("cannot tell yet: too few users: 2")
    code, out, _ = run("tune", folder, *labels, *WORDS, *grid, "--json")
    row = json.loads(out)[0]
    assert (row["word"], row["needed"], row["why"]) == (
        "cannot tell yet",
        {"queries": 4, "groups": 4},
        "Keep the search's own setting.",
    )
    code, out, _ = run("tune", folder, *labels, *WORDS, *grid, "--settings", "--json")
    assert len(json.loads(out)) == 19
    code, out, _ = run("tune", folder, *labels, *WORDS, "--json")  # all mixtures of words and letters
    assert json.loads(out)[0]["n_settings"] == 11
    guard = f"{labels[1]},{labels[3]},0.05"
    looks = ("--remember", tmp_path / "looks")
    code, out, _ = run("tune", folder, *labels, *WORDS, *grid, *looks, "--guard", guard, "--metric", "mrr", "--json")
    assert (code, json.loads(out)[0]["metric"]) == (0, "mrr")
    assert (tmp_path / "looks").read_text("utf-8").count("\n") == 1


def test_what_is_wrong_is_one_line(run: Run, folder: Path, labels: tuple[str, ...]) -> None:
    for words, said in (
        (("evaluate", folder, *labels, *WORDS, "--metric", "ncdg"), "Did you mean 'ndcg'?"),
        (("evaluate", folder, *labels[:2], "--qrels", folder / "gone.csv", *WORDS), "gone.csv"),
        (("evaluate", folder, *labels, *WORDS, "--group", "project"), "'group' must be a column of queries"),
        (("compare", folder, *labels, *WORDS), "expected what b has otherwise"),
        (("compare", folder, *labels, *WORDS, "--b", "poool=1"), "Did you mean 'pool'?"),
        (("tune", folder, *labels, *WORDS, "--grid", "poool=1"), "Did you mean 'pool'?"),
        (("tune", folder, *labels, *WORDS, "--grid", "pool=1:x:2"), "expected pool=LOW:HIGH:STEP in numbers"),
        (("tune", folder, *labels, *WORDS, "--grid", "pool=0"), "'pool' must be"),
        (("tune", folder, *labels, *WORDS, "--guard", "q.csv,r.csv"), "expected QUERIES,QRELS,MARGIN"),
        (("tune", folder, *labels, *WORDS, "--holdout", "0.5"), "needs 'remember'"),
        (("tune", folder, *labels, *WORDS, "--split", "2020-01-01"), "before and after 2020-01-01"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert said in err


def test_a_sweep_goes_on_from_its_file_and_refuses_that_of_another(
    run: Run, folder: Path, labels: tuple[str, ...], tmp_path: Path
) -> None:
    grid = ("--grid", "min_score=0:0.2:0.1", "--grid", "fold=none,near", "--resume", tmp_path / "свип")
    code, out, err = run("sweep", folder, *labels, *WORDS, *grid, "--json", "--jobs", "2")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [(row["min_score"], row["fold"]) for row in rows[:3]] == [(0.0, "none"), (0.0, "near"), (0.1, "none")]
    assert run("sweep", folder, *labels, *WORDS, *grid, "--json")[1] == out
    code, out, err = run("sweep", folder, *labels, *WORDS, "--grid", "pool=5", *grid[-2:])
    assert (code, out) == (2, "")
    assert err.startswith("memkit: resume: expected the file of this sweep.")
    assert len(err.splitlines()) == 1
