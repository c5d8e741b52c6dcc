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
    queries_path, qrels_path = mk.labels.write(queries, beside / "q.csv"), mk.labels.write(qrels, beside / "all.qrels")
    return ("--queries", str(queries_path), "--qrels", str(qrels_path), "--as-of", "2026-01-01")


def test_evaluate_answers_for_people_and_for_machines(run: Run, folder: Path, labels: tuple[str, ...]) -> None:
    code, out, err = run("evaluate", folder, *labels, *WORDS)
    assert (code, err) == (0, "")
    assert "ndcg@10 is 1.000, a mean over 2 users, who have 2 queries" in out
    code, out, _ = run("evaluate", folder, *labels, *WORDS, "--metric", "mrr", "--metric", "hit@1", "--json")
    assert [(row["metric"], row["value"]) for row in json.loads(out)] == [("mrr", 1.0), ("hit@1", 1.0)]
    code, out, _ = run("evaluate", folder, *labels, *WORDS, "--per-query", "--json")
    assert [(row["query_id"], row["unit"], row["mrr"]) for row in json.loads(out)] == [
        ("чай", "anna", 1.0),
        ("2", "2", 1.0),
    ]
    code, out, _ = run("evaluate", folder, *labels, *WORDS, "--stages", "--json")
    assert [(row["disposition"], row["n"]) for row in json.loads(out)] == [("returned", 2)]


def test_every_verb_that_measures_asks_as_a_user(run: Run, folder: Path, labels: tuple[str, ...]) -> None:
    code, out, err = run("evaluate", folder, *labels, *WORDS, "--user", "boris", "--stages", "--json")
    assert (code, err) == (0, "")
    assert {row["disposition"]: row["n"] for row in json.loads(out)} == {"returned": 1, "filtered": 1}
    for verb in ("evaluate", "compare", "sweep", "tune", "audit"):
        arguments = () if verb == "audit" else (*labels, *(["--b", "pool=1"] if verb == "compare" else []))
        code, out, err = run(verb, folder, *arguments, *WORDS, "--user", "")
        assert (code, out) == (2, "")
        assert "'user_id' must be a user's id" in err


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
    assert "Cannot tell yet whether b is better than a (too few users: 2" in out
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
    unread = folder / "gone"  # what is wrong beside a folder is told before it is read
    for words, message in (
        (("evaluate", unread, *labels, *WORDS, "--metric", "ncdg"), "Did you mean 'ndcg'?"),
        (("evaluate", unread, *labels[:2], "--qrels", "gone.csv", *WORDS), "gone.csv"),
        (("evaluate", unread, *labels, *WORDS, "--group", "project"), "'group' must be a column of queries"),
        (("compare", unread, *labels, *WORDS), "expected how b differs"),
        (("compare", unread, *labels, *WORDS, "--b", "poool=1"), "Did you mean 'pool'?"),
        (("tune", unread, *labels, *WORDS, "--grid", "poool=1"), "Did you mean 'pool'?"),
        (("tune", unread, *labels, *WORDS, "--grid", "pool=1:x:2"), "expected pool=LOW:HIGH:STEP in numbers"),
        (("tune", unread, *labels, *WORDS, "--guard", "q.csv,r.csv"), "expected QUERIES,QRELS,MARGIN"),
        (("sweep", unread, *labels, "--set", "poool=1"), "Did you mean 'pool'?"),
        (("tune", folder, *labels, *WORDS, "--grid", "pool=0"), "'pool' must be"),
        (("tune", folder, *labels, *WORDS, "--holdout", "0.5"), "needs 'remember'"),
        (("tune", folder, *labels, *WORDS, "--split", "2020-01-01"), "before and after 2020-01-01"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert message in err


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


@pytest.fixture
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile with all of its sections."""
    profile = mk.Profile(
        retriever={"encoder": None, "min_score": 0.48, "decay_kinds": ["archive"]},
        dedup={"survivor": "oldest", "encoder": None},
        policies={"quota": {"max_profile": 1}, "admission": {"max_chars": 15}},
        context={"profile_chars": 0},
    )
    return profile.save(tmp_path_factory.mktemp("profiles") / "мой.toml")


def test_every_verb_that_searches_takes_a_profile(
    run: Run, folder: Path, labels: tuple[str, ...], measured: Path
) -> None:
    chosen = ("--profile", measured)  # over such a bar comes one of two
    code, out, err = run("evaluate", folder, *labels, *chosen, "--metric", "mrr", "--json")
    assert (code, err, [row["value"] for row in json.loads(out)]) == (0, "", [0.5])
    code, out, _ = run("sweep", folder, *labels, *chosen, "--grid", "pool=5,6", "--metric", "mrr", "--json")
    assert {row["n_with_hits"] for row in json.loads(out)} == {1}
    code, out, _ = run("tune", folder, *labels, *chosen, "--grid", "min_score=0", "--metric", "mrr", "--json")
    assert json.loads(out)[0]["apparent"] == 0.5
    unreached = ("audit", folder, *chosen, "--as-of", "2026-01-01", "--table", "unreached", "--json")
    assert run(*unreached)[1] == "[]\n"
    assert len(json.loads(run(*unreached, "--set", "min_score=0.6")[1])) == 3
    for options, gain in ((chosen, 0.5), ((*WORDS, "--b-profile", measured), -0.5)):
        words = ("--b", "min_score=0") if options == chosen else ()
        code, out, _ = run("compare", folder, *labels, *options, *words, "--metric", "mrr", "--json")
        assert json.loads(out)[0]["difference"] == gain
    code, out, err = run("evaluate", folder, *labels, *chosen, "--preset", "workspace")
    assert (code, out) == (2, "")
    assert "expected --preset or --profile. Got both" in err


def test_every_verb_of_policies_takes_a_profile(run: Run, folder: Path, measured: Path) -> None:
    chosen = ("--profile", measured, "--as-of", "2026-01-01")
    code, out, err = run("policy", "quota", folder, *chosen, "--json")
    assert (code, err) == (0, "")
    assert [row["reason"] for row in json.loads(out)] == [None, "limit", None]
    assert '"limit"' not in run("policy", "quota", folder, *chosen, "--set", "max_profile=5", "--json")[1]
    code, out, err = run("policy", "expiry", folder, *chosen)
    assert (code, err) == (0, f"memkit: {measured}: has no parameters for expiry\n")
    code, out, err = run("pipeline", folder, *chosen, "--set", "deduplicator__kinds=substring", "--json")
    reasons = {row["source_id"]: row["reason"] for row in json.loads(out)}
    assert (code, reasons["pf_1"], reasons["wk_1"]) == (0, "length", "length")
    assert "has no parameters for classifier, expiry" in err
    code, out, _ = run("plan", folder, "quota", *chosen, "--json")
    assert code == 0
    code, out, _ = run("context", folder, "чай", "--user", "anna", *chosen)
    assert (code, "PROFILE" in out) == (0, False)
    code, out, _ = run("context", folder, "чай", "--user", "anna", *chosen, "--set", "profile_chars=100")
    assert "PROFILE" in out


def test_lists_weights_and_mixtures_can_be_swept(run: Run, folder: Path, labels: tuple[str, ...]) -> None:
    ask = ("sweep", folder, *labels, *WORDS, "--json")
    code, out, err = run(*ask, "--grid", "kind_weights=profile=0.5,working=1;working=0.2;none")
    assert (code, err) == (0, "")
    assert [row["kind_weights"] for row in json.loads(out)] == [
        '{"profile": 0.5, "working": 1.0}',
        '{"working": 0.2}',
        None,
    ]
    code, out, _ = run(*ask, "--grid", "kinds_hidden=heartbeat,working;working;")
    assert [row["kinds_hidden"] for row in json.loads(out)][:3] == ["heartbeat, working", "working", ""]
    code, out, _ = run(*ask, "--grid", "bm25_weight,gram_weight=0.7,0.3;0.4,0.6")
    assert [(row["bm25_weight"], row["gram_weight"]) for row in json.loads(out)[:2]] == [(0.7, 0.3), (0.4, 0.6)]
    for grid, message in (
        ("bm25_weight,gram_weight=0.7", "expected 2 values for bm25_weight,gram_weight. Got '0.7'."),
        ("bm25_weight,gram_wight=0.7,0.3", "Did you mean 'gram_weight' or"),
        ("kind_weights=working", "'kind_weights' must be a mapping of words to floats in [0, 1] or None."),
        ("pool", "expected NAME=VALUES. Got 'pool'."),
    ):
        code, out, err = run(*ask, "--grid", grid)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
    assert "Got pool again" in run(*ask, "--grid", "pool=5", "--grid", "pool=6")[2]


def test_a_product_of_weights_leaves_out_where_none_is_left(run: Run, folder: Path, labels: tuple[str, ...]) -> None:
    grid = [word for arm in ("vector", "bm25", "gram") for word in ("--grid", f"{arm}_weight=0:1:0.5")]
    code, out, err = run("sweep", folder, *labels, "--set", "encoder=hash", *grid, "--json")
    assert (code, err) == (0, "memkit: warning: sweep: 1 setting was left out, in which no arm has a weight.\n")
    assert len(json.loads(out)) == 26 + 1  # and the search's own
    code, _, err = run("sweep", folder, *labels, "--grid", "vector_weight,bm25_weight,gram_weight=0,0,0")
    assert code == 2
    assert "no arm has a weight in any setting" in err
