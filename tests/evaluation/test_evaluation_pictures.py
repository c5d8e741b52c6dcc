"""Pictures of measuring: what they draw is what was measured, and their words say it."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.evaluation.statistics import Units, detectable_effect

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


def texts(ax: Any) -> str:
    return " ".join(text.get_text() for legend in ax.figure.legends for text in legend.get_texts())


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
    for ax in pictures:
        assert ax.get_title(loc="left") in mk.plot.words(ax)
        assert len(mk.plot.words(ax).splitlines()) > 1
        assert ax.figure.get_size_inches()[0] == 7
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ax.figure.savefig(io.BytesIO(), format="svg")


@pytest.mark.quick
def test_a_result_draws_itself_by_its_first_picture(swept: Any, tuned: Any, compared: Any) -> None:
    drawn = [mk.plot.words(result.plot()) for result in (tuned, compared, swept)]
    assert drawn == [
        mk.plot.words(draw()) for draw in (tuned.plot.differences, compared.plot.differences, swept.plot.surface)
    ]


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
def test_a_prompt_and_an_overview_draw_themselves() -> None:
    corpus = mk.from_table({"text": ["Любит чай"], "kind": ["profile"], "importance": ["high"]})
    built = mk.ContextBuilder(mk.Retriever(encoder=None)).build(corpus, None, "кофе", as_of="2026-03-01")
    assert mk.plot.words(built.plot()) == mk.plot.words(mk.plot.budgets(built))
    assert mk.plot.words(mk.overview(corpus, as_of="2026-03-01").plot()) == mk.plot.words(mk.plot.growth(corpus))


def test_a_point_stands_for_each_query_and_the_interval_is_the_verdict_s(tuned: Any, compared: Any) -> None:
    for result, values in (
        (tuned, tuned.per_query_["held_out"].to_numpy()),
        (compared, compared.per_query["difference"].drop_null().to_numpy()),
    ):
        ax = mk.plot.differences(result)
        (dots,) = [line for line in ax.lines if line.get_label() == "a query"]
        assert np.allclose(np.sort(dots.get_xdata()), np.sort(values))
        verdict = result.verdict_ if result is tuned else result.table.to_pylist()[0]
        low, high = (verdict.low, verdict.high) if result is tuned else (verdict["low"], verdict["high"])
        assert f"{low:+.3f} to {high:+.3f}" in mk.plot.words(ax)
        (bars,) = ax.containers
        ends = bars[2][0].get_segments()[0][:, 0]
        assert np.allclose(ends, [low, high])


def test_each_group_is_drawn_at_its_mean_the_best_first(tuned: Any) -> None:
    frame = tuned.per_query_.to_pandas()
    means = frame.groupby("group")["held_out"].mean().sort_values(ascending=False)
    ax = mk.plot.groups(tuned)
    drawn = ax.collections[-1].get_offsets()
    assert np.allclose(drawn[:, 0], means.to_numpy())
    assert [line.split("  ")[0].strip() for line in mk.plot.words(ax).splitlines()[1:]] == list(means.index)


def test_of_many_groups_the_outermost_are_drawn_and_it_is_said() -> None:
    ax = mk.plot.groups(mk.labels.tune_scores(scores(50, 2), "a", group="user_id"))
    assert len(ax.collections[-1].get_offsets()) == 30
    assert ax.get_title(loc="left").endswith("the 30 outermost")


def test_only_settings_that_were_evaluated_are_drawn(swept: Any) -> None:
    ax = mk.plot.surface(swept, "pool", "gram_weight")
    points = ax.collections[0].get_offsets()
    table = swept.table.to_pandas()
    assert len(points) == len(table[["pool", "gram_weight"]].drop_duplicates())
    # The search's own weight, which is left to memkit, stands where memkit puts it.
    now = [table.loc[swept.default, "pool"], swept.automatic["gram_weight"]]
    ticks = [[tick.get_text() for tick in labels] for labels in (ax.get_xticklabels(), ax.get_yticklabels())]
    assert ticks == [["5", "20", "100"], ["0", f"{now[1]:g}", "0.4"]]
    assert [ticks[0].index(str(now[0])), ticks[1].index(f"{now[1]:g}")] in points.tolist()
    best = table.sort_values("ndcg@10", ascending=False).drop_duplicates(["pool", "gram_weight"])
    order = ax.collections[0].get_sizes().argsort()
    drawn = [(ticks[0][int(x)], ticks[1][int(y)]) for x, y in points[order]]
    spelled = best["gram_weight"].fillna(now[1]).map("{:g}".format)
    scores = dict(zip(zip(best["pool"].map(str), spelled, strict=True), best["ndcg@10"], strict=True))
    assert [scores[at] for at in drawn] == sorted(scores.values())
    assert "the best over decay" in ax.get_title(loc="left")
    assert not any(ax.collections[0].get_linewidths())  # a rim is for what cannot be told from the best
    assert texts(ax) == "as it is best"


def test_what_is_to_be_used_and_what_cannot_be_told_from_the_best_is_marked(search: mk.Retriever) -> None:
    grid = {"min_score": [0.0, 0.1, 0.95]}
    tuning = mk.tune(search, *LABELS, grid, as_of=DAY, group="query_id")
    ax = tuning.plot.surface()
    assert "to be used" in texts(ax)
    words = mk.plot.words(ax)
    near = {row["min_score"] for row in tuning.plateau_.to_pylist()}
    for line in words.splitlines()[1:]:
        value = float(line.split("=")[1].split(" ")[0])
        assert ("cannot be told from the best" in line) == (value in near)
    assert sorted(width > 0 for width in ax.collections[0].get_linewidths()) == sorted(
        value in near for value in (0.0, 0.1, 0.95)
    )
    (legend,) = ax.figure.legends
    samples = dict(zip([text.get_text() for text in legend.get_texts()], legend.legend_handles, strict=True))
    assert samples["cannot be told from the best"].get_edgecolor()[0].tolist() == [0, 0, 0, 1]  # its rim is seen
    (used,) = [line for line in words.splitlines() if "to be used" in line]
    assert float(used.split("=")[1].split(" ")[0]) == tuning.chosen_params_["min_score"]


def test_recall_by_pool_is_that_of_the_sweep_for_one_setting(swept: Any) -> None:
    ax = mk.plot.pool(swept)
    best = {name: value for name, value in swept.settings[swept.best].items() if name != "pool"}
    rows = [row for row in swept.table.to_pylist() if all(row[name] == value for name, value in best.items())]
    (line,) = [line for line in ax.lines if line.get_label() == "recall"]
    assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) == {row["pool"]: row["recall"] for row in rows}
    assert mk.plot.words(ax).startswith("what a pool of 5 to 100 chunks an arm finds, gram_weight=")


def test_power_starts_where_the_labels_are_and_more_queries_of_the_same_users_have_a_floor(tuned: Any) -> None:
    ax = mk.plot.power(tuned)
    frame = tuned.per_query_.to_pandas()
    codes = frame["group"].astype("category").cat.codes.to_numpy()
    now = detectable_effect(Units.from_scores(frame["held_out"].to_numpy(), codes, per_query=True))
    users, same, star = ax.lines
    assert users.get_ydata()[0] == pytest.approx(now)
    assert same.get_ydata()[0] == pytest.approx(now)
    assert star.get_xdata()[0] == len(frame)
    assert (np.asarray(users.get_ydata())[1:] < np.asarray(same.get_ydata())[1:]).all()
    free = mk.plot.power(spread=0.25).lines[0]
    for size, difference in zip(free.get_xdata(), free.get_ydata(), strict=True):
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
    assert mk.plot.power(tuning).lines[0].get_ydata()[0] == pytest.approx(least)


def test_scores_of_relevant_hits_are_those_of_the_judgements(search: mk.Retriever) -> None:
    evaluation = mk.evaluate(search, *LABELS, "recall@5", as_of=DAY)
    right = {(r["query_id"], r["memory_id"]) for r in mk.labels.read_qrels(LABELS[1]).to_pylist() if r["relevance"] > 0}
    hits = [(row["query_id"], row["memory_id"]) in right for row in evaluation.hits.to_pylist()]
    title = mk.plot.scores(evaluation, LABELS[1]).get_title(loc="left")
    assert title == f"scores of {sum(hits):,} relevant and {len(hits) - sum(hits):,} other hits"


def test_decay_shows_both_readings_of_the_half_life_and_a_stroke_a_memory() -> None:
    table = mk.from_table({"text": ["а", "б", "в"], "created_at": ["2026-02-01", "2025-12-01", None]})
    ax = mk.plot.decay(table, mk.Decay(decay_days=30), as_of=DAY)
    curves = {line.get_label(): line for line in ax.lines}
    for label, factor in (
        ("e_folding: 0.368 left after 30 days", np.exp(-1)),
        ("half_life: 0.5 left after 30 days", 0.5),
    ):
        x, y = curves[label].get_xdata(), curves[label].get_ydata()
        assert np.interp(30, x, y) == pytest.approx(factor, abs=1e-3)
    _, rug = ax.collections
    assert sorted(rug.get_offsets()[:, 0]) == [28, 90]
    assert set(rug.get_offsets()[:, 1]) == {-0.05}


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
    words = mk.plot.words(mk.plot.differences(tuning))
    assert "none below 6 units" in words


def test_of_what_is_superseded_the_best_has_the_least(search: mk.Retriever) -> None:
    qrels = mk.labels.read_qrels(LABELS[1]).to_pandas().assign(valid_to=None)
    qrels.loc[::3, "valid_to"] = "2026-02-01"
    swept = mk.sweep(search, LABELS[0], qrels, {"bm25_weight": [0.0, 0.5, 1.0]}, "stale@5", as_of=DAY)
    means = swept.table["stale@5"].to_pylist()
    assert means[swept.best] == min(means)
    assert len(set(means)) > 1
    (line,) = [line for line in mk.plot.words(mk.plot.surface(swept)).splitlines() if "best" in line]
    assert f"{min(means):.3f}" in line
    with pytest.raises(mk.errors.ParameterError, match="of which more is better"):
        mk.tune(search, LABELS[0], qrels, {"pool": [5, 50]}, "stale@5", as_of=DAY)


def test_the_stages_of_what_was_tuned_are_those_of_the_search_to_use(search: mk.Retriever) -> None:
    where = "kind <> 'session'"
    tuning = mk.tune(search, *LABELS, {"pool": [5, 50]}, as_of=DAY, where=where)
    assert tuning.chosen_params_ == {"pool": 100}
    same = mk.evaluate(search, *LABELS, "ndcg@10", as_of=DAY, where=where, stages=True)
    assert mk.plot.words(tuning.plot.stages()) == mk.plot.words(mk.plot.stages(same))
