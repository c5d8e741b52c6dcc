"""`mk.tune` and `mk.labels.tune_scores`: planted truths and the word that each earns, what is handed out, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.evaluation.result import guard_table, held_out_groups, holm_adjusted
from memkit.evaluation.statistics import Units, interval, sign_flip_p
from memkit.evaluation.tune import Tuning

SETTINGS = ("0.6", "0.7", "0.8", "0.9")
"""The last one is the default; two of the others say what is planted, and one is noise."""


def noise(random: np.random.Generator, users: int, each: int) -> np.ndarray:
    """Differences of queries whose mean is 0 in each setting, with users that differ; settings × queries."""
    drawn = random.normal(0, 0.2, (3, users * each)) + np.repeat(random.normal(0, 0.05, (3, users)), each, axis=1)
    centred: np.ndarray = drawn - drawn.mean(axis=1, keepdims=True)
    return centred


def planted(gains: np.ndarray, users: list[str], seed: int = 0, **more: Any) -> dict[str, Any]:
    """A table of scores in which each setting gains what `gains` (settings × queries) says over the default."""
    base = np.random.default_rng(seed).random(len(users))
    columns = {name: base + gain for name, gain in zip(SETTINGS, [*gains, base * 0], strict=True)}
    return {"query_id": [f"q{i}" for i in range(len(users))], "user_id": users, **columns, **more}


def tuned(table: dict[str, Any], **more: Any) -> Tuning:
    return mk.labels.tune_scores(table, "0.9", group="user_id", **more)


def names(users: int, each: int) -> list[str]:
    return [f"u{user:03}" for user in range(users) for _ in range(each)]


def detectable(gains: np.ndarray, users: list[str]) -> float:
    effect = tuned(planted(gains, users)).verdict_.detectable
    assert effect is not None
    return effect


@pytest.mark.quick
@pytest.mark.parametrize("users", [8, 12, 30])
@pytest.mark.parametrize("seed", range(3))
def test_a_gain_twice_as_large_as_is_detectable_is_found_and_half_of_it_is_not(seed: int, users: int) -> None:
    gains = noise(np.random.default_rng(seed), users, 10)
    size = detectable(gains, names(users, 10))
    for share, word in ((2.0, "better"), (0.5, "cannot tell yet")):
        tuning = tuned(planted(gains + np.array([[share], [share], [0]]) * size, names(users, 10)))
        assert tuning.verdict_.word == word
        assert (tuning.chosen_params_["setting"] in (0.6, 0.7)) == (word == "better")
        assert tuning.apparent_gain_ == pytest.approx(share * size)
    assert tuning.chosen_params_ == {"setting": 0.9}
    assert "Keep the search's own setting" in str(tuning)


@pytest.mark.quick
@pytest.mark.parametrize("users", [8, 12, 30])
@pytest.mark.parametrize("seed", range(3))
def test_a_loss_twice_as_large_as_is_detectable_is_found_and_half_of_it_is_not(seed: int, users: int) -> None:
    # The third is the least bad, in whatever fold.
    gains = noise(np.random.default_rng(seed), users, 10) - np.array([[4], [4], [0]])
    size = detectable(gains, names(users, 10))
    for share, word in ((2.0, "worse"), (0.5, "cannot tell yet")):
        tuning = tuned(planted(gains - share * size, names(users, 10)))
        assert (tuning.verdict_.word, tuning.chosen_params_, tuning.best_params_) == (
            word,
            {"setting": 0.9},
            {"setting": 0.9},
        )


def chance(seed: int, users: int, each: int) -> np.ndarray:
    """As `noise`, but with means that only on average are 0."""
    random = np.random.default_rng(seed)
    drawn: np.ndarray = random.normal(0, 0.2, (3, users * each)) + np.repeat(
        random.normal(0, 0.05, (3, users)), each, 1
    )
    return drawn


@pytest.mark.quick
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_no_difference_over_many_queries_is_practically_none_and_over_few_cannot_be_told(seed: int) -> None:
    same = tuned(planted(chance(seed, 400, 20), names(400, 20)), epsilon=0.02).verdict_
    assert (same.word, same.needed) == ("practically the same", None)
    verdict = tuned(planted(chance(seed, 20, 5), names(20, 5))).verdict_
    assert verdict.word == "cannot tell yet"
    assert verdict.needed is not None
    advice = f"label about {verdict.needed.queries:,} more queries of {verdict.needed.groups:,} more users to settle it"
    assert advice in str(verdict)


@pytest.mark.parametrize("seed", range(12))
def test_the_gain_lies_within_its_interval_and_the_word_follows_from_both(seed: int) -> None:
    random = np.random.default_rng(seed)
    verdict = tuned(planted(random.normal(0.01 * (seed % 5 - 2), 0.15, (3, 60)), names(12, 5))).verdict_
    assert verdict.low is not None
    assert verdict.low <= verdict.gain <= verdict.high
    assert verdict.p is not None
    assert (verdict.word == "better") == (verdict.p <= 0.025)
    assert verdict.word != "worse" or (verdict.high < 0 and verdict.p_worse <= 0.025)
    assert f"(one-sided p = {verdict.p_worse if verdict.word == 'worse' else verdict.p:.3g}, by " in str(verdict)
    assert str(verdict).startswith(("Tuning", "Cannot tell yet whether tuning helps"))


def test_where_interval_and_flips_disagree_nothing_is_claimed() -> None:
    random = np.random.default_rng(12)
    sizes = random.geometric(0.1, 12)  # queries of users, very uneven
    users = [f"u{user:02}" for user in range(12) for _ in range(sizes[user])]
    user_of_query = np.repeat(np.arange(12), sizes)
    gains = random.normal(0.03, 0.2, (3, len(users))) + random.normal(0, 0.1, (3, 12))[:, user_of_query]
    verdict = tuned(planted(gains, users), mean_of="queries").verdict_
    assert verdict.low is not None
    assert verdict.p is not None
    assert verdict.low > 0
    assert verdict.p > 0.025
    assert (verdict.word, verdict.reason) == (
        "cannot tell yet",
        f"the 95 % interval excludes 0, but the sign-flip test has p = {verdict.p:.3g}",
    )


def test_what_is_needed_settles_it() -> None:
    gains = chance(0, 20, 5) + 0.03
    verdict = tuned(planted(gains, names(20, 5))).verdict_
    assert (verdict.word, verdict.needed is None) == ("cannot tell yet", False)
    assert verdict.needed is not None
    times = 1 + -(-verdict.needed.groups // 20)
    assert verdict.needed.queries == 5 * verdict.needed.groups
    assert tuned(planted(np.tile(gains, times), names(20 * times, 5))).verdict_.word == "better"


def test_the_table_has_a_rank_a_number_and_the_row_in_use_and_near_is_by_the_gain_alone() -> None:
    # The second lags by .034 everywhere, so surely; the third by .056 on average, with a wide error.
    gains = np.array([np.full(60, 0.0), np.full(60, -0.034), -0.056 + np.tile([1.0, -1.0], 30)])
    tuning = tuned(planted(gains + 0.02, names(12, 5)))
    table = tuning.table
    assert table["rank"].to_pylist() == [1, 2, 3, 4]
    assert table["setting"].to_pylist() == [0, 3, 1, 2]
    assert table["in_use"].to_pylist() == [False, True, False, False]
    assert table["near_best"].to_pylist() == [True, False, False, False]
    assert tuned(planted(gains + 0.02, names(12, 5)), epsilon=0.04).table["near_best"].to_pylist() == [True] * 3 + [
        False
    ]
    head, *others = tuning._sheets(rows=1)
    assert [column.name for column in head.columns][:3] == ["rank", "setting", "in_use"]
    assert [cell.text for cell in head.rows[0]][:3] == ["2", "3", "yes"]  # the row in use is always shown
    groups = ["By user"] if tuning.chosen_params_ != {"setting": 0.9} else []
    assert [sheet.heading for sheet in others] == groups


def test_a_verdict_on_a_choice_is_a_sentence() -> None:
    tuning = tuned(planted(noise(np.random.default_rng(1), 12, 5) + 0.004, names(12, 5)))
    assert tuning.chosen_params_ == {"setting": 0.9}
    assert tuning._sheets()[1:] == ()  # nothing was chosen, so that there are no groups to look at
    verdict = tuning.verdict_
    assert (
        f"the best of 3 settings changes score by {verdict.apparent:+.3f} on the queries that it was chosen on, and by"
        f" {verdict.gain:+.3f} on queries that it was not chosen on, which is what to expect; a mean over 60 queries of"
        " 12 users"
    ) in str(verdict)


def test_a_gain_of_one_user_alone_is_none_for_users() -> None:
    users = names(20, 10)
    gains = noise(np.random.default_rng(0), 20, 10) / 10
    gains += np.array([2.0 * (user == "u003") for user in users])
    tuning = tuned(planted(gains, users))
    assert (tuning.verdict_.word, tuning.chosen_params_) == ("cannot tell yet", {"setting": 0.9})
    assert tuning.apparent_gain_ == pytest.approx(0.1)
    by_group = dict(zip(tuning.groups_["group"].to_pylist(), tuning.groups_["difference"].to_pylist(), strict=True))
    assert by_group["u003"] > 1.9
    assert max(value for name, value in by_group.items() if name != "u003") < 0.1


def test_two_large_users_that_disagree_decide_nothing() -> None:
    users = ["anna"] * 100 + ["boris"] * 100 + names(10, 2)
    gains = noise(np.random.default_rng(0), 1, 220) / 10
    gains[:, :100] += 0.5
    gains[:, 100:200] -= 0.3
    tuning = tuned(planted(gains, users))
    assert (tuning.verdict_.word, tuning.verdict_.n_groups) == ("cannot tell yet", 12)
    assert tuning.verdict_.estimate == "per user_id"
    best = max(tuning.table_.to_pylist(), key=lambda row: row["gain"])
    assert best["per_query"] == pytest.approx((50 - 30) / 220, abs=0.02)
    assert best["gain"] == best["per_group"] == pytest.approx((0.5 - 0.3) / 12, abs=0.02)


@pytest.mark.parametrize("users", [1, 2, 5])
def test_too_few_users_have_no_verdict_however_many_queries(users: int) -> None:
    tuning = tuned(planted(np.full((3, 200 * users), 0.5), names(users, 200)))
    verdict = tuning.verdict_
    assert (verdict.word, verdict.p, verdict.low, verdict.gain) == ("cannot tell yet", None, None, None)
    assert (verdict.n_flips, verdict.n_resamples) == (0, 0)
    assert verdict.reason.startswith(f"too few users: {users}")
    assert verdict.needed == (200 * (6 - users), 6 - users)
    assert tuning.groups_.num_rows == users
    assert (tuning.expected_gain_, tuning.apparent_gain_) == (None, pytest.approx(0.5))


@pytest.fixture(scope="module")
def corpus() -> dict[str, Any]:
    """60 questions of 12 users in Russian and English; each has a note that answers it and one that says more words."""
    rows: dict[str, list[str]] = {"memory_id": [], "text": []}
    for i in range(60):
        rows["memory_id"] += [f"right{i:02}", f"other{i:02}"]
        rows["text"] += [f"ключ{i:02} настроен", f"ключ{i:02} замок{i:02} port door{i:02} window стена крыша"]
    queries = {
        "query_id": [f"q{i:02}" for i in range(60)],
        "text": [f"ключ{i:02} замок{i:02} door{i:02}" for i in range(60)],
        "group": [f"g{i % 12}" for i in range(60)],
    }
    qrels = {"query_id": queries["query_id"], "memory_id": [f"right{i:02}" for i in range(60)], "relevance": [1] * 60}
    search = mk.Retriever(encoder=None, fold="none").fit(mk.from_table(rows))
    return {"search": search, "queries": queries, "qrels": qrels}


def test_a_split_that_leaves_one_side_empty_is_refused(corpus: dict[str, Any]) -> None:
    dated = {**corpus, "queries": corpus["queries"] | {"as_of": ["2026-03-01"] * 60}}
    with pytest.raises(mk.errors.ParameterError, match=r"before and after 2020-01-01\. Got all 60"):
        mk.tune(**dated, grid={"pool": [5, 10]}, split="2020-01-01")


def test_a_setting_that_finds_nothing_at_all_is_worse(corpus: dict[str, Any]) -> None:
    assert mk.tune(**corpus, grid={"min_score": [0.0, 1.1]}, metric="mrr").verdict_.word == "worse"


def test_tune_rests_on_the_sweep_and_says_the_same_with_it(corpus: dict[str, Any]) -> None:
    grid = {"min_score": [0.0, 0.5, 0.9], "pool": [5, 10]}
    tuning = mk.tune(**corpus, grid=grid, metric="mrr")
    swept = mk.sweep(**corpus, grid=grid, metrics="mrr")
    again = mk.tune(**corpus, grid=swept, metric="mrr")
    assert str(again) == str(tuning)
    scores = swept.matrix("mrr")
    gain = scores.mean(axis=1) - scores[swept.default].mean()
    assert tuning.table_["gain"].to_numpy() == pytest.approx(gain)
    assert tuning.table_["mrr"].to_numpy() == pytest.approx(scores.mean(axis=1))
    assert tuning.table_["judged@10"][tuning.sweep_.default].as_py() > 0
    assert tuning.table_["per_query"].to_pylist() == tuning.table_["per_group"].to_pylist()  # of even groups
    assert tuning.baselines_["baseline"].to_pylist() == ["words alone", "words contained"]
    assert tuning.per_query_.num_rows == 60
    assert tuning.plateau_.num_rows == sum(tuning.table_["plateau"].to_pylist())
    html = tuning._repr_html_()
    assert "whether tuning helps" in html or "Tuning" in html


def test_a_field_that_is_hidden_from_the_search_is_hidden_from_the_baselines() -> None:
    names = [f"ключ{one}{other} замок{one}{other}" for one in "абвг" for other in "клмнп"]
    texts = [f"Зелёный чай без сахара, утром, а не {names[i - 1]}." for i in range(20)]
    corpus = mk.from_table({"memory_id": [f"m{i:02}" for i in range(20)], "title": names, "text": texts})
    queries, qrels = mk.known_items(corpus)
    tuning = mk.tune(mk.Retriever(encoder=None).fit(corpus), queries, qrels, {"min_score": [0.0, 0.5]}, "mrr")
    beside = {row["baseline"]: row["value"] for row in tuning.baselines_.to_pylist()}
    assert beside["words contained"] == 0.0  # the title is hidden, and another memory's text has its words


def test_guards_hold_by_less_than_the_margin_and_all_at_once() -> None:
    users = names(30, 10)
    gains = noise(np.random.default_rng(0), 30, 10)
    gains[:2] += 2 * detectable(gains, users)
    kept, lost = (
        planted(noise(np.random.default_rng(seed), 30, 10) / 20 - by, users) for seed, by in ((3, 0.0), (4, 0.03))
    )
    safe = tuned(planted(gains, users), guard={"old": (kept, 0.01)})
    assert (safe.guards_["holds"].to_pylist(), safe.chosen_params_ != {"setting": 0.9}) == ([True], True)
    broken = tuned(planted(gains, users), guard={"old": (kept, 0.01), "dialogue": (lost, 0.01)})
    assert broken.guards_["holds"].to_pylist() == [True, False]
    assert (broken.verdict_.word, broken.chosen_params_) == ("better", {"setting": 0.9})
    assert broken.why_ == "Keep the search's own setting: dialogue might lose more than the margin."
    few = tuned(planted(gains, users), guard={"few": (planted(np.zeros((3, 4)), names(4, 1)), 0.01)})
    assert (few.guards_["holds"].to_pylist(), few.guards_["p"].to_pylist()) == ([False], [None])


def test_a_guards_p_is_that_of_a_loss_of_the_margin_and_its_limit_one_sided() -> None:
    units = Units.from_scores(np.random.default_rng(0).normal(0, 0.02, 40), np.arange(40), True)
    row = guard_table([("one", units, 0.005)], 0).to_pylist()[0]
    ends = interval(units, 0.9)
    assert ends is not None
    assert row["low"] == ends[0]
    assert row["p"] == row["p_adjusted"] == sign_flip_p(units, shift=-0.005, greater=True)


def test_holms_p_of_one_is_its_own_and_never_falls() -> None:
    assert holm_adjusted([0.2]) == [0.2]
    assert holm_adjusted([0.01, 0.02, 0.03, 0.9]) == pytest.approx([0.04, 0.06, 0.06, 0.9])
    assert holm_adjusted([0.9, 0.8]) == [1.0, 1.0]
    assert holm_adjusted([]) == []


def test_a_guard_on_other_labels_of_the_corpus_is_searched(corpus: dict[str, Any]) -> None:
    other = {"query_id": list("abcdefgh"), "text": [f"ключ{i:02} настроен" for i in range(8)]}
    right = {"query_id": other["query_id"], "memory_id": [f"right{i:02}" for i in range(8)], "relevance": [1] * 8}
    tuning = mk.tune(**corpus, grid={"min_score": [0.0, 0.3]}, metric="mrr", guard={"easy": (other, right, 0.05)})
    row = tuning.guards_.to_pylist()[0]
    assert (row["n_queries"], row["n_groups"], row["difference"], row["holds"]) == (8, 8, 0.0, True)


def test_a_holdout_is_tested_once_and_remembers_it(tmp_path: Path) -> None:
    users, file = names(60, 5), tmp_path / "looks.jsonl"
    gains = noise(np.random.default_rng(0), 60, 5) + np.array([[0.2], [0.1], [0.0]])
    first = tuned(planted(gains, users), holdout=0.4, remember=file)
    assert (first.verdict_.word, first.verdict_.tested_on, first.chosen_params_) == (
        "better",
        "holdout",
        {"setting": 0.6},
    )
    apart = held_out_groups([f"u{i:03}" for i in range(60)], 0.4, 0)
    assert first.verdict_.n_groups == apart.sum()
    assert str(tuned(planted(gains, users), holdout=0.4, remember=file)) == str(first)  # the same look again is none
    other = gains + np.array([[-0.2], [0.1], [0.0]])
    second = tuned(planted(other, users), holdout=0.4, remember=file)
    assert (second.verdict_.word, second.chosen_params_) == ("cannot tell yet", {"setting": 0.9})
    assert second.verdict_.reason == "the holdout was already used for another choice: set other labels aside"
    assert second.verdict_.looks == 2
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["part"] for line in lines] == ["labels", "holdout", "labels", "holdout"]


def test_a_group_stays_in_the_holdout_when_labels_grow() -> None:
    few, many = [f"u{i}" for i in range(10)], [f"u{i}" for i in range(400)]
    assert held_out_groups(many, 0.3, 5)[:10].tolist() == held_out_groups(few, 0.3, 5).tolist()
    assert 0.2 < held_out_groups(many, 0.3, 5).mean() < 0.4


def test_looks_at_growing_labels_are_counted_and_said(tmp_path: Path) -> None:
    file = tmp_path / "looks.jsonl"
    gains = noise(np.random.default_rng(0), 30, 5)
    for look, users in enumerate((20, 25, 30, 30), 1):
        tuning = tuned(planted(gains[:, : users * 5], names(users, 5)), remember=file)
        assert tuning.verdict_.looks == min(look, 3)
    assert "these labels were looked at 3 times" in str(tuning)


@pytest.mark.parametrize("line", ["{", "[]", '{"part": "labels"}', "\x00", "[" * 100_000], ids=range(5))
def test_a_torn_file_of_looks_is_said(tmp_path: Path, line: str) -> None:
    file = tmp_path / "looks.jsonl"
    file.write_text(f'{{"part": "labels", "labels": "x", "choice": 1}}\n{line}\n')
    with pytest.raises(mk.errors.FormatError, match=r"looks.jsonl:2: expected a line"):
        tuned(planted(np.zeros((3, 12)), names(6, 2)), remember=file)


def test_the_seed_alone_decides() -> None:
    gains = noise(np.random.default_rng(0), 25, 4) + 0.05
    one, again, other = (tuned(planted(gains, names(25, 4)), random_state=seed) for seed in (1, 1, 2))
    assert (one.verdict_, one.table_, one.per_query_) == (again.verdict_, again.table_, again.per_query_)
    assert other.verdict_.p != one.verdict_.p
    assert other.verdict_.p == pytest.approx(one.verdict_.p, abs=0.1)


def test_a_constant_metric_makes_practically_no_difference() -> None:
    tuning = tuned(planted(np.zeros((3, 40)), names(20, 2)))
    verdict = tuning.verdict_
    assert (verdict.word, verdict.gain, verdict.low, verdict.high, verdict.p) == (
        "practically the same",
        0.0,
        0.0,
        0.0,
        1.0,
    )
    assert tuning.plateau_.num_rows == 4


def test_cases_without_a_score_and_without_a_group_are_taken_as_they_are() -> None:
    table = planted(noise(np.random.default_rng(0), 10, 2), [*names(9, 2), None, None])  # type: ignore[list-item]
    hole = {name: np.append(values, np.nan) for name, values in table.items() if name in SETTINGS}
    tuning = tuned({"query_id": [*table["query_id"], "empty"], "user_id": [*table["user_id"], "u1"], **hole})
    assert (tuning.verdict_.n_queries, tuning.verdict_.n_groups) == (20, 11)
    assert tuning.per_query_["default"].to_pylist()[-1] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"default": "0.95"}, "expected a column '0.95' \\(default\\)"),
        ({"default": "user_id"}, "expected numbers in the column of the default"),
        ({"group": "usr_id"}, "expected a column 'usr_id' \\(group\\).*user_id"),
        ({"epsilon": -1.0}, "'epsilon' must be"),
        ({"holdout": 0.3}, "needs 'remember'"),
        ({"holdout": 1.5, "remember": "x"}, "'holdout' must be"),
        ({"mean_of": "users"}, "'mean_of' must be"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"scores": planted(np.zeros((3, 12)), names(6, 2)), "default": "0.9", "group": "user_id"}
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.labels.tune_scores(**arguments | change)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"a": [0.1, 0.2]}, "a setting beside"),
        ({"a": np.zeros(0), "b": np.zeros(0)}, "a query that has a score"),
        ({"a": [1.0, None], "b": [1.0, 1.0]}, "Query 1 lacks a score in setting 0"),
        ({"a": [None, None], "b": [None, None]}, "expected numbers in the column"),
        ({"a": [1.0, float("inf")], "b": [1.0, 1.0]}, "Got infinity"),
        (5, "expected a table"),
    ],
)
def test_tables_that_cannot_be_tuned_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.labels.tune_scores(scores, "a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": {}}, "grid: expected values for at least one parameter"),
        ({"grid": {"pool": [100]}}, "a setting beside the search's own"),
        ({"metric": "auc"}, "expected ndcg"),
        ({"unjudged_hits": "guess"}, "'unjudged_hits' must be"),
        ({"qrels": {"query_id": ["q00"], "memory_id": ["right00"], "relevance": [1]}}, "a judgement for each query"),
        ({"qrels": {"query_id": ["q00"] * 2, "memory_id": ["right00"] * 2, "relevance": [1, 1]}}, "judged once"),
        ({"qrels": {"query_id": ["q00"], "memory_id": ["gone"], "relevance": [1]}, "unjudged": "apart"}, "gone"),
        ({"qrels": {"query_id": ["q00"], "memory_id": ["right00"], "relevance": [float("nan")]}}, "relevance"),
        ({"guard": {"x": (1, 2)}}, r"expected \(queries, qrels, margin\) for 'x'"),
        ({"split": "2026-01-01", "holdout": 0.5}, "'split' or 'holdout'"),
    ],
)
def test_labels_and_grids_that_cannot_be_meant_are_refused(
    corpus: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.tune(**{**corpus, "grid": {"min_score": [0.0, 0.9]}, **change})


def test_one_query_has_no_verdict_and_no_warning(corpus: dict[str, Any]) -> None:
    one = {"query_id": ["q00"], "text": ["ключ00"]}
    qrels = {"query_id": ["q00"], "memory_id": ["right00"], "relevance": [1]}
    tuning = mk.tune(corpus["search"], one, qrels, {"min_score": [0.0, 0.9]}, "mrr")
    assert (tuning.verdict_.word, tuning.verdict_.n_queries) == ("cannot tell yet", 1)
    assert "label about 5 more queries to get a verdict at all" in str(tuning)
    assert isinstance(pa.table(tuning), pa.Table)


def test_a_size_of_chunks_is_tuned_and_the_chosen_search_is_fitted_with_it() -> None:
    texts = ["\n".join(f"слово{i} слово{j} и ещё{j}" for j in range(12)) for i in range(12)]
    corpus = mk.from_table({"memory_id": [f"m{i}" for i in range(12)], "text": texts})
    search = mk.Retriever(encoder=None, index=mk.Index(overlap_tokens=0)).fit(corpus)
    queries = {"query_id": [str(i) for i in range(12)], "text": [f"слово{i} ещё3" for i in range(12)]}
    qrels = {"query_id": queries["query_id"], "memory_id": [f"m{i}" for i in range(12)], "relevance": [1] * 12}
    found = mk.tune(search, queries, qrels, {"index__chunk_tokens": [12, 100], "min_score": [0.0, 0.9]}, "mrr")
    tried = found.sweep_
    assert {row["index__chunk_tokens"] for row in tried.settings} == {12, 100}
    assert found.search_.index.chunk_tokens == found.chosen_params_["index__chunk_tokens"]
    assert found.search_.search("слово3 ещё3", k=1)["memory_id"].to_pylist() == ["m3"]
    with_size = mk.tune(search, queries, qrels, tried, "mrr", epsilon=0.0)
    assert with_size.chosen_params_ == found.chosen_params_
