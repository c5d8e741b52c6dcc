"""`mk.compare`: planted truths and the word that each earns, and what is told without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.display.draw import as_text
from memkit.evaluation.compare import Comparison

Ranked = dict[str, list[str]]


def run_of(ranked: Ranked) -> pa.Table:
    rows = [(query, memory, rank) for query, ids in ranked.items() for rank, memory in enumerate(ids, 1)]
    return pa.table(dict(zip(("query_id", "memory_id", "rank"), map(list, zip(*rows, strict=True)), strict=True)))


@dataclass
class Planted:
    """Queries of users, each with a right and a wrong memory, of which a run puts one first: hit@1 is 1 or 0."""

    users: list[str]

    def __post_init__(self) -> None:
        self.names = [f"q{i:04}" for i in range(len(self.users))]
        self.queries = {"query_id": self.names, "text": self.names, "user_id": self.users}
        rows = [(name, memory, grade) for name in self.names for memory, grade in (("right", 1), ("wrong", 0))]
        self.qrels = dict(zip(("query_id", "memory_id", "relevance"), map(list, zip(*rows, strict=True)), strict=True))

    def run(self, right: np.ndarray) -> pa.Table:
        first = {True: ["right", "wrong"], False: ["wrong", "right"]}
        return run_of({name: first[bool(one)] for name, one in zip(self.names, right, strict=True)})

    def compare(self, a: np.ndarray, b: np.ndarray, **more: Any) -> Comparison:
        return mk.compare(self.run(a), self.run(b), self.queries, self.qrels, "hit@1", **more)


def swapped(n: int, up: int, down: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two runs over n queries: b is right where a was wrong `up` times, and wrong where a was right `down` times."""
    order = np.random.default_rng(seed).permutation(n)
    a, b = np.zeros(n, bool), np.zeros(n, bool)
    a[order[: n // 2]] = b[order[: n // 2]] = True
    b[order[:down]], b[order[n // 2 : n // 2 + up]] = False, True
    return a, b


def even(users: int, each: int) -> Planted:
    return Planted([f"u{user}" for user in range(users) for _ in range(each)])


def detectable(comparison: Comparison) -> float:
    return float(comparison.details["detectable"][0].as_py())


# At a tenth of the queries changed the detectable difference of 30 users × 10 is about .06.
@pytest.mark.quick
@pytest.mark.parametrize(("up", "down", "word"), [(38, 2, "better"), (2, 38, "worse")])
def test_a_planted_difference_twice_as_large_as_is_detectable_is_found(up: int, down: int, word: str) -> None:
    comparison = even(30, 10).compare(*swapped(300, up, down))
    row = comparison.details.to_pylist()[0]
    assert abs(row["difference"]) == pytest.approx(abs(up - down) / 300)
    assert abs(row["difference"]) >= 1.9 * detectable(comparison)
    assert (row["word"], comparison.word, row["better"], row["worse"], row["same"]) == (word, word, up, down, 260)
    assert row["low"] <= row["difference"] <= row["high"]
    assert row["p"] < 0.001


@pytest.mark.quick
def test_no_difference_over_many_queries_is_practically_none() -> None:
    comparison = even(100, 20).compare(*swapped(2000, 20, 20))
    assert comparison.word == "practically the same"
    assert even(100, 20).compare(*swapped(2000, 20, 20), epsilon=0.001).word == "cannot tell yet"


@pytest.mark.parametrize("users", [1, 5])
def test_too_few_users_have_no_verdict_however_many_queries(users: int) -> None:
    comparison = even(users, 200).compare(*swapped(200 * users, 90 * users, 0))
    row = comparison.details.to_pylist()[0]
    assert (row["word"], row["p"], row["low"], row["detectable"]) == ("cannot tell yet", None, None, None)
    assert row["reason"].startswith(f"too few users: {users}")
    assert f"Cannot tell yet whether b is better than a (too few users: {users}, " in str(comparison)


@pytest.mark.parametrize(
    ("column", "what"), [(None, "queries: 3"), ("group", "groups: 2"), ("team", "groups by team: 2")]
)
def test_what_there_is_too_little_of_is_called_what_it_is(column: str | None, what: str) -> None:
    task = Planted(["a", "b", "b"])
    queries = {name: values for name, values in task.queries.items() if name != "user_id"}
    queries |= {column: ["x", "y", "y"]} if column else {}
    group = column if column == "team" else None
    runs = task.run(np.zeros(3, bool)), task.run(np.ones(3, bool))
    comparison = mk.compare(*runs, queries, task.qrels, "hit@1", group=group, unjudged_hits="irrelevant")
    assert comparison.details["reason"].to_pylist() == [f"too few {what}, and a verdict needs at least 6"]
    cases = {"no": np.zeros(3), "yes": np.ones(3)} | ({column: ["x", "y", "y"]} if column else {})
    tuned = mk.labels.tune_scores(cases, "no", group=column)
    assert tuned.verdict_.reason == f"too few {what}, and a verdict needs at least 6"


@pytest.fixture(scope="module")
def unseen() -> dict[str, Any]:
    """b finds a memory that nobody judged where a finds the right one, for 60 of 300 queries."""
    task = even(30, 10)
    a = {name: ["right", "wrong"] for name in task.names}
    b = {name: ["new" if i % 5 == 0 else "right", "wrong"] for i, name in enumerate(task.names)}
    return {"a": run_of(a), "b": run_of(b), "queries": task.queries, "qrels": task.qrels, "metrics": "hit@1"}


def test_judging_what_is_asked_for_changes_the_word(unseen: dict[str, Any]) -> None:
    comparison = mk.compare(**unseen)
    row, judge = comparison.details.to_pylist()[0], comparison.to_judge["query_id"].to_pylist()
    assert (row["judged_a"], row["judged_b"], row["n_to_judge"]) == (1.0, 0.8, len(judge))
    for count, word in ((len(judge), {"practically the same", "cannot tell yet"}), (len(judge) - 1, {"worse"})):
        qrels = {name: list(values) for name, values in unseen["qrels"].items()}
        qrels["query_id"] += judge[:count]
        qrels["memory_id"] += ["new"] * count
        qrels["relevance"] += [1] * count
        assert mk.compare(**unseen | {"qrels": qrels}, unjudged_hits="irrelevant").word in word


def test_a_gain_that_unjudged_hits_can_only_raise_stays_one(unseen: dict[str, Any]) -> None:
    task = even(30, 10)
    a, b = swapped(300, 60, 0)
    better = {n: (["right"] if one else ["wrong"]) + ["new"] for n, one in zip(task.names, b, strict=True)}
    assert mk.compare(task.run(a), run_of(better), task.queries, task.qrels, "hit@1").word == "better"


@pytest.mark.parametrize("sign", [1, -1])
def test_as_many_better_as_worse_contradict_no_mean(sign: int) -> None:
    task = even(30, 2)
    first, second, third = ["right"], ["x", "right"], ["x", "y", "right"]
    before = run_of({name: third if i < 30 else second for i, name in enumerate(task.names)})
    after = run_of({name: first if i < 30 else third for i, name in enumerate(task.names)})
    a, b = (before, after)[::sign]
    row = mk.compare(a, b, task.queries, task.qrels, "mrr", unjudged_hits="irrelevant").details.to_pylist()[0]
    assert (row["better"], row["worse"], row["note"]) == (30, 30, "")
    assert row["difference"] == pytest.approx(sign * 30 * (2 / 3 - 1 / 6) / 60)


def test_counts_that_contradict_the_mean_are_said() -> None:
    task = even(30, 2)
    a = {name: ["x", "x2", "right"] for name in task.names}
    b = {name: ["right"] if i < 20 else ["x", "x2", "x3", "right"] for i, name in enumerate(task.names)}
    comparison = mk.compare(run_of(a), run_of(b), task.queries, task.qrels, "mrr", unjudged_hits="irrelevant")
    row = comparison.details.to_pylist()[0]
    assert row["difference"] == pytest.approx((20 * 2 / 3 - 40 / 12) / 60)
    assert (row["better"], row["worse"]) == (20, 40)
    assert str(comparison).endswith("The counts of queries contradict the mean: a few large differences decide it.")


def test_without_labels_the_agreement_and_the_shifts_are_told() -> None:
    queries = {"query_id": ["p", "q", "none"], "text": ["", "", ""]}
    a = run_of({"p": ["x", "y", "z"], "q": ["x", "y"]})
    b = run_of({"p": ["x", "z", "w"], "q": ["y", "x", "z", "w"]})
    comparison = mk.compare(a, b, queries, k=3)
    assert comparison.word is None
    assert comparison.details.num_rows == comparison.to_judge.num_rows == 0
    measures = dict(
        zip(comparison.agreement["measure"].to_pylist(), comparison.agreement["value"].to_pylist(), strict=True)
    )
    assert measures["overlap@3"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert measures["same first hit"] == 0.5
    assert measures["places moved"] == pytest.approx((0 + 1 + 1 + 1) / 4)
    assert comparison.shifts.slice(0, 4).to_pylist() == [
        {"query_id": "p", "memory_id": "x", "rank_a": 1, "rank_b": 1, "shift": 0},
        {"query_id": "p", "memory_id": "y", "rank_a": 2, "rank_b": None, "shift": None},
        {"query_id": "p", "memory_id": "z", "rank_a": 3, "rank_b": 2, "shift": 1},
        {"query_id": "p", "memory_id": "w", "rank_a": None, "rank_b": 3, "shift": None},
    ]
    assert str(comparison).startswith("No labels, so no verdict. Over 3 queries, a and b share 67 % of their hits")


def test_a_search_is_practically_the_same_as_itself_and_a_run_as_its_search() -> None:
    rows = {"memory_id": [f"m{i}" for i in range(8)], "text": [f"чай номер {i}" for i in range(8)]}
    search = mk.Retriever(encoder=None).fit(mk.from_table(rows))
    queries = {"query_id": list("abcdefgh"), "text": rows["text"]}
    qrels = {"query_id": queries["query_id"], "memory_id": rows["memory_id"], "relevance": [1] * 8}
    comparison = mk.compare(search, search, queries, qrels, ["ndcg@10", "mrr", "judged@3"], as_of="2026-03-01")
    assert comparison.details["word"].to_pylist() == ["practically the same"] * 3
    assert comparison.details["p"].to_pylist() == [1.0] * 3
    assert comparison.per_query.num_rows == 24
    hits = search.search(queries and pa.table(queries), k=10, as_of="2026-03-01")
    assert mk.compare(search, hits, queries, qrels, as_of="2026-03-01").table["difference"].to_pylist() == [0.0]


def test_a_verdict_is_the_same_each_time_and_its_seed_moves_the_p_little() -> None:
    task = even(16, 5)
    a, b = swapped(80, 15, 5)
    first = task.compare(a, b).details.to_pylist()[0]
    assert task.compare(a, b).details.to_pylist()[0] == first
    assert first["n_flips"] == 9999
    assert task.compare(a, b, random_state=1).details["p"][0].as_py() == pytest.approx(first["p"], abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": -1.0}, "'epsilon' must be"),
        ({"k": 0}, "'k' must be"),
        ({"unjudged_hits": "guess"}, "'unjudged_hits' must be"),
        ({"metrics": "auc"}, "metrics: expected ndcg"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], message: str) -> None:
    task = even(6, 1)
    run = task.run(np.ones(6, bool))
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.compare(run, run, task.queries, task.qrels, **wrong)


def test_a_comparison_shows_its_sentence_and_both_tables() -> None:
    comparison = even(30, 10).compare(*swapped(300, 38, 2))
    html = comparison._repr_html_()
    assert "b is better than a" in html
    assert "overlap@10" in html
    assert pa.table(comparison).equals(comparison.table)
    assert comparison.table.column_names == ["metric", "a", "b", "difference", "low", "high", "word", "reason"]
    assert comparison.details.select(comparison.table.column_names).equals(comparison.table)


def test_a_narrow_terminal_shows_the_whole_verdict() -> None:
    comparison = even(30, 10).compare(*swapped(300, 21, 19))
    assert "to settle it" in str(comparison)
    shown = " ".join(as_text(comparison._sheets()[0], 60).split("metric")[0].split())
    assert " to settle it" in shown
    assert shown.endswith(comparison.verdict_.parts[-1])


def test_of_what_is_superseded_less_is_better() -> None:
    ids = [f"q{i}" for i in range(8)]
    qrels = {"query_id": ids * 2, "memory_id": ["new"] * 8 + ["old"] * 8, "relevance": [1] * 16}
    qrels |= {"valid_to": [None] * 8 + ["2026-02-01"] * 8}
    hits = {"query_id": ids, "memory_id": ["old"] * 8, "rank": [1] * 8}
    comparison = mk.compare(
        hits,
        {**hits, "memory_id": ["new"] * 8},
        {"query_id": ids, "text": ["порт"] * 8},
        qrels,
        "stale@1",
        as_of="2026-03-01",
    )
    row = comparison.details.to_pylist()[0]
    assert (row["difference"], row["word"], row["better"], row["worse"]) == (-1.0, "better", 8, 0)
