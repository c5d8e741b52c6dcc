"""Pictures of measuring: what they draw is what was measured, and their words say it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.evaluation.statistics import Units, detectable_effect
from memkit.plot.marks import Dots, Line

DATA = Path(__file__).parents[2] / "data"
DAY = "2026-03-01"
LABELS = (DATA / "queries.csv", DATA / "qrels.csv")


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    return mk.Retriever(encoder=None, fold="none").fit(mk.read(DATA))


@pytest.fixture(scope="module")
def swept(search: mk.Retriever) -> Any:
    grid = {"pool": [5, 20, 100], "gram_weight": [0.0, 0.4], "decay": ["none", "e_folding"]}
    return mk.sweep(search, *LABELS, grid, ["ndcg@10", "recall"], as_of=DAY)


def scores(n_users: int = 8, a_user: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    users = np.repeat([f"user $ {i}" for i in range(n_users)], a_user)
    base = rng.random(len(users)) / 2
    gain = np.repeat(rng.normal(0.1, 0.05, n_users), a_user) + rng.normal(0, 0.1, len(users))
    return {"user_id": users.tolist(), "a": base, "b": base + gain, "c": base - 0.1}


@pytest.fixture(scope="module")
def tuned() -> Any:
    return mk.labels.tune_scores(scores(), "a", group="user_id")


@pytest.fixture(scope="module")
def compared(search: mk.Retriever) -> Any:
    return mk.compare(search, search.with_params(decay="none"), *LABELS, as_of=DAY, group="query_id")


def labelled(picture: mk.plot.Picture) -> dict[str, Any]:
    return {mark.label: mark for mark in picture.marks if getattr(mark, "label", "")}


def dots(picture: mk.plot.Picture) -> list[Dots]:
    return [mark for mark in picture.marks if isinstance(mark, Dots)]


def test_every_picture_has_words_and_can_be_written(search: Any, swept: Any, tuned: Any, compared: Any) -> None:
    evaluation = mk.evaluate(search, *LABELS, as_of=DAY, stages=True)
    pairs = pa.table({"threshold": [0.9, 0.8], "precision": [1.0, 0.5], "recall": [0.2, 0.4]})
    pictures = [
        *(
            draw(result)
            for draw in (mk.plot.differences, mk.plot.groups, mk.plot.power)
            for result in (tuned, compared)
        ),
        *(mk.plot.surface(swept), mk.plot.surface(swept, "pool"), mk.plot.surface(swept, "decay", "pool", "recall")),
        *(mk.plot.pool(swept), mk.plot.stages(evaluation), mk.plot.scores(evaluation, LABELS[1]), mk.plot.power()),
        mk.plot.precision_recall(pairs),
    ]
    for picture in pictures:
        assert picture.title in picture.words
        assert len(picture.words.splitlines()) > 1
        assert "nan" not in picture.svg
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert picture.png.startswith(b"\x89PNG")
        assert picture.draw().figure.get_size_inches().tolist() == [7, picture.high / 100]


@pytest.mark.quick
def test_a_result_draws_itself_by_its_first_picture(swept: Any, tuned: Any, compared: Any) -> None:
    drawn = [result.plot().words for result in (tuned, compared, swept)]
    assert drawn == [draw().words for draw in (tuned.plot.differences, compared.plot.differences, swept.plot.surface)]


@pytest.mark.quick
def test_a_result_names_the_pictures_that_it_has(search: Any, swept: Any, tuned: Any, compared: Any) -> None:
    measured = mk.evaluate(search, *LABELS, "mrr", as_of=DAY)
    traced = mk.evaluate(search, *LABELS, "mrr", as_of=DAY, stages=True)
    assert [result.pictures for result in (tuned, compared, swept, traced, measured)] == [
        ("differences", "groups", "power"),
        ("differences", "groups", "power"),
        ("surface", "pool"),
        ("stages",),
        (),
    ]
    assert len(swept.plot.all()) == 2
    with pytest.raises(mk.errors.ParameterError, match="with something to draw"):
        measured.plot()


@pytest.mark.quick
def test_a_prompt_draws_itself() -> None:
    corpus = mk.from_table({"text": ["Любит чай"], "kind": ["profile"], "importance": ["high"]})
    built = mk.ContextBuilder(mk.Retriever(encoder=None)).build(corpus, None, "кофе", as_of="2026-03-01")
    assert built.plot().words == mk.plot.budgets(built).words


def test_a_point_stands_for_each_query_and_the_interval_is_the_verdict_s(tuned: Any, compared: Any) -> None:
    for result, values in (
        (tuned, tuned.per_query_["held_out"].to_numpy()),
        (compared, compared.per_query["difference"].drop_null().to_numpy()),
    ):
        picture = mk.plot.differences(result)
        assert np.allclose(np.sort(labelled(picture)["a query"].x), np.sort(values))
        verdict = result.verdict_ if result is tuned else result.table.to_pylist()[0]
        low, high = (verdict.low, verdict.high) if result is tuned else (verdict["low"], verdict["high"])
        assert f"{low:+.3f} to {high:+.3f}" in picture.words
        (interval,) = [mark for mark in picture.marks if isinstance(mark, Line) and mark.width > 2]
        assert np.allclose(interval.x, [low, high])


def test_each_group_is_drawn_at_its_mean_the_best_first(tuned: Any) -> None:
    frame = tuned.per_query_.to_pandas()
    means = frame.groupby("group")["held_out"].mean().sort_values(ascending=False)
    picture = mk.plot.groups(tuned)
    drawn = {place: mean for mark in dots(picture) for place, mean in zip(mark.y, mark.x, strict=True)}
    assert np.allclose([drawn[place] for place in range(len(means))], means.to_numpy())
    assert [line.split("  ")[0].strip() for line in picture.words.splitlines()[1:]] == list(means.index)


def test_of_many_groups_the_outermost_are_drawn_and_it_is_said() -> None:
    picture = mk.plot.groups(mk.labels.tune_scores(scores(50, 2), "a", group="user_id"))
    assert sum(len(mark.x) for mark in dots(picture)) == 30
    assert picture.title.endswith("the 30 outermost")


def test_only_settings_that_were_evaluated_are_drawn(swept: Any) -> None:
    picture = mk.plot.surface(swept, "pool", "gram_weight")
    drawn_dots = dots(picture)[0]
    points = np.column_stack([drawn_dots.x, drawn_dots.y])
    table = swept.table.to_pandas()
    assert len(points) == len(table[["pool", "gram_weight"]].drop_duplicates())
    # The search's own weight, which is left to memkit, stands where memkit puts it.
    now = [table.loc[swept.default, "pool"], swept.automatic["gram_weight"]]
    ticks = [[name for _, name in axis.named()] for axis in (picture.x, picture.y)]
    assert ticks == [["5", "20", "100"], ["0", f"{now[1]:g}", "0.4"]]
    assert [ticks[0].index(str(now[0])), ticks[1].index(f"{now[1]:g}")] in points.tolist()
    best = table.sort_values("ndcg@10", ascending=False).drop_duplicates(["pool", "gram_weight"])
    order = drawn_dots.size.argsort()
    drawn = [(ticks[0][int(x)], ticks[1][int(y)]) for x, y in points[order]]
    spelled = best["gram_weight"].fillna(now[1]).map("{:g}".format)
    scores = dict(zip(zip(best["pool"].map(str), spelled, strict=True), best["ndcg@10"], strict=True))
    assert [scores[at] for at in drawn] == sorted(scores.values())
    assert "the best over decay" in picture.title
    assert not drawn_dots.outlined.any()  # a rim is for what cannot be told from the best
    assert [*labelled(picture)] == ["as it is", "best"]


def test_what_is_to_be_used_and_what_cannot_be_told_from_the_best_is_marked(search: mk.Retriever) -> None:
    grid = {"min_score": [0.0, 0.1, 0.95]}
    tuning = mk.tune(search, *LABELS, grid, as_of=DAY, group="query_id")
    picture = tuning.plot.surface()
    assert "to be used" in labelled(picture)
    words = picture.words
    near = {row["min_score"] for row in tuning.plateau_.to_pylist()}
    for line in words.splitlines()[1:]:
        value = float(line.split("=")[1].split(" ")[0])
        assert ("cannot be told from the best" in line) == (value in near)
    assert sorted(dots(picture)[0].outlined) == sorted(value in near for value in (0.0, 0.1, 0.95))
    (legend,) = picture.draw().figure.legends
    samples = dict(zip([text.get_text() for text in legend.get_texts()], legend.legend_handles, strict=True))
    assert samples["cannot be told from the best"].get_edgecolor()[0].tolist() == [0, 0, 0, 1]  # its rim is seen
    (used,) = [line for line in words.splitlines() if "to be used" in line]
    assert float(used.split("=")[1].split(" ")[0]) == tuning.chosen_params_["min_score"]


def test_recall_by_pool_is_that_of_the_sweep_for_one_setting(swept: Any) -> None:
    picture = mk.plot.pool(swept)
    best = {name: value for name, value in swept.settings[swept.best].items() if name != "pool"}
    rows = [row for row in swept.table.to_pylist() if all(row[name] == value for name, value in best.items())]
    found = labelled(picture)["recall"]
    assert dict(zip(found.x, found.y, strict=True)) == {row["pool"]: row["recall"] for row in rows}
    assert picture.words.startswith("what a pool of 5 to 100 chunks an arm finds, gram_weight=")


def test_power_starts_where_the_labels_are_and_more_queries_of_the_same_users_have_a_floor(tuned: Any) -> None:
    picture = mk.plot.power(tuned)
    frame = tuned.per_query_.to_pandas()
    codes = frame["group"].astype("category").cat.codes.to_numpy()
    now = detectable_effect(Units.from_scores(frame["held_out"].to_numpy(), codes, per_query=True))
    users, same, here = dots(picture)
    assert [users.y[0], same.y[0]] == pytest.approx([now, now])
    assert here.x == [len(frame)]
    assert (users.y[1:] < same.y[1:]).all()
    free = dots(mk.plot.power(spread=0.25))[0]
    for size, difference in zip(free.x, free.y, strict=True):
        assert mk.labels.queries_needed(difference) == pytest.approx(size, abs=1)


def test_the_power_of_groups_that_differ_in_nothing_is_not_drawn(tmp_path: Path) -> None:
    same = {"user_id": [f"u{i % 7}" for i in range(21)], "a": [0.5] * 21, "b": [0.7] * 21}
    tuning = mk.labels.tune_scores(same, "a", group="user_id")
    with pytest.raises(mk.errors.ParameterError, match="the same difference"):
        mk.plot.power(tuning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "In words" in tuning.report(tmp_path / "page.html").read_text("utf-8")


def test_power_of_means_over_users_is_that_of_users(tuned: Any) -> None:
    uneven = {name: [*values, *list(values)[:4] * 3] for name, values in scores().items()}
    tuning = mk.labels.tune_scores(uneven, "a", group="user_id", mean_of="units")
    gain = tuning.per_query_.to_pandas().dropna(subset=["held_out"])
    by_user = gain.groupby("group")["held_out"].mean().to_numpy()
    least = detectable_effect(Units.from_scores(by_user, np.arange(len(by_user)), per_query=True))
    assert dots(mk.plot.power(tuning))[0].y[0] == pytest.approx(least)


def test_scores_of_relevant_hits_are_those_of_the_judgements(search: mk.Retriever) -> None:
    evaluation = mk.evaluate(search, *LABELS, "recall@5", as_of=DAY)
    right = {(r["query_id"], r["memory_id"]) for r in mk.labels.read_qrels(LABELS[1]).to_pylist() if r["relevance"] > 0}
    hits = [(row["query_id"], row["memory_id"]) in right for row in evaluation.hits.to_pylist()]
    assert (
        mk.plot.scores(evaluation, LABELS[1]).title
        == f"scores of {sum(hits):,} relevant and {len(hits) - sum(hits):,} other hits"
    )


def test_decay_shows_both_readings_of_the_half_life_and_a_stroke_a_memory() -> None:
    table = mk.from_table({"text": ["а", "б", "в"], "created_at": ["2026-02-01", "2025-12-01", None]})
    picture = mk.plot.decay(table, mk.Decay(decay_days=30), as_of=DAY)
    for label, factor in (
        ("e_folding: 0.368 left after 30 days", np.exp(-1)),
        ("half_life: 0.5 left after 30 days", 0.5),
    ):
        curve = labelled(picture)[label]
        assert np.interp(30, curve.x, curve.y) == pytest.approx(factor, abs=1e-3)
    _, rug = dots(picture)
    assert sorted(rug.x) == [28, 90]
    assert set(rug.y) == {-0.05}


@pytest.mark.parametrize("name", ["differences", "groups", "power", "stages", "surface", "pool"])
def test_what_a_result_does_not_have_is_said(search: mk.Retriever, name: str) -> None:
    evaluation = mk.evaluate(search, *LABELS, "mrr", as_of=DAY)
    with pytest.raises(mk.errors.ParameterError, match="expected"):
        getattr(evaluation.plot, name)()
    unlabelled = mk.compare(search, search, LABELS[0], as_of=DAY)
    with pytest.raises(mk.errors.ParameterError, match="expected"):
        getattr(unlabelled.plot, name)()
    with pytest.raises(mk.errors.ParameterError, match="6 groups or more"):
        mk.plot.power(mk.labels.tune_scores(scores(3), "a", group="user_id"))


def test_below_six_groups_there_is_a_mean_and_no_interval() -> None:
    tuning = mk.labels.tune_scores(scores(3), "a", group="user_id")
    words = mk.plot.differences(tuning).words
    assert "none below 6 units" in words


def test_of_what_is_superseded_the_best_has_the_least(search: mk.Retriever) -> None:
    qrels = mk.labels.read_qrels(LABELS[1]).to_pandas().assign(valid_to=None)
    qrels.loc[::3, "valid_to"] = "2026-02-01"
    swept = mk.sweep(search, LABELS[0], qrels, {"bm25_weight": [0.0, 0.5, 1.0]}, "stale@5", as_of=DAY)
    means = swept.table["stale@5"].to_pylist()
    assert means[swept.best] == min(means)
    assert len(set(means)) > 1
    (line,) = [line for line in mk.plot.surface(swept).words.splitlines() if "best" in line]
    assert f"{min(means):.3f}" in line
    with pytest.raises(mk.errors.ParameterError, match="of which more is better"):
        mk.tune(search, LABELS[0], qrels, {"pool": [5, 50]}, "stale@5", as_of=DAY)


def test_the_stages_of_what_was_tuned_are_those_of_the_search_to_use(search: mk.Retriever) -> None:
    where = "kind <> 'session'"
    tuning = mk.tune(search, *LABELS, {"pool": [5, 50]}, as_of=DAY, where=where)
    assert tuning.chosen_params_ == {"pool": 100}
    same = mk.evaluate(search, *LABELS, "ndcg@10", as_of=DAY, where=where, stages=True)
    assert tuning.plot.stages().words == mk.plot.stages(same).words
