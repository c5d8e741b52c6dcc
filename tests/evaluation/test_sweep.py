"""`mk.sweep`: every setting scores exactly as its own search does, whatever varies."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import uniform

import memkit as mk
from memkit.evaluation.evaluation import Task
from memkit.evaluation.metrics import Judged, parse_metrics
from memkit.evaluation.scores import Checkpoint, Grid, recorded_facts
from memkit.search.show import hits_table
from memkit.search.steps import collapse

WORDS = ["пул", "кот", "чай", "сервер", "релиз", "pool", "tea", "server", "friday", "release", "и", "the"]
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def drawn_corpus(seed: int, n: int = 60) -> mk.Corpus:
    """Short texts of few words, so that many are alike or the same, of users, kinds and days."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(2, 7))) for _ in range(n // 2)]
    rows = []
    for i in range(n):
        text = texts[rng.integers(len(texts))] + rng.choice(["", "", " 5", " 7", ".", " еще"])
        if rng.random() < 0.3:
            text += "\n" + texts[rng.integers(len(texts))] + "\n" + texts[rng.integers(len(texts))]
        rows.append(
            {
                "memory_id": f"m{i:03}",
                "text": text,
                "kind": [None, "archive", "working", "profile", "note"][rng.integers(5)],
                "importance": [None, "normal", "high", "low"][rng.integers(4)],
                "user_id": [None, None, "анна", "o'boris"][rng.integers(4)],
                "created_at": None if rng.random() < 0.2 else DAY - timedelta(days=float(rng.integers(-20, 400))),
            }
        )
    return mk.from_table(pd.DataFrame(rows))


def drawn_labels(seed: int, corpus: mk.Corpus, n: int = 8) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    memories = corpus.memories.to_pandas()
    queries = pd.DataFrame(
        {
            "query_id": [f"q{i}" for i in range(n)],
            "text": [" ".join(rng.choice(WORDS, rng.integers(1, 4))) for _ in range(n)],
            "user_id": [[None, "анна"][i % 2] for i in range(n)],
            "as_of": [[None, None, DAY - timedelta(days=90)][i % 3] for i in range(n)],
        }
    )
    rows = []
    for i in range(n):
        some = rng.choice(len(memories), rng.integers(2, 9), replace=False)
        for row in some:
            rows.append((f"q{i}", memories["memory_id"][row], int(rng.integers(0, 3)) if i else 0))
    return queries, pd.DataFrame(rows, columns=["query_id", "memory_id", "relevance"])


def by_length(query: str, texts: list[str]) -> list[float]:
    """A reranker whose scores tie often."""
    return [len(text) % 5 + len(query) % 3 for text in texts]


def drawn_settings(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Settings of everything at once; many values are round, so that scores tie."""

    def one() -> dict[str, Any]:
        round_one = rng.random() < 0.7
        weights = rng.dirichlet([1, 1, 1]) if not round_one else rng.integers(0, 3, 3) / 2
        if not weights.any():
            weights[0] = 1.0
        return {
            "vector_weight": float(weights[0]),
            "bm25_weight": float(weights[1]),
            "gram_weight": float(weights[2]) if weights[:2].any() or rng.random() < 0.9 else 1.0,
            "function_word_weight": float(rng.choice([0.1, 0.1, 1.0])),
            "across_weight": float(rng.choice([0, 0.5, 1])),
            "normalize": str(rng.choice(["calibrated", "max", "minmax", "rank", "none"])),
            "fusion": str(rng.choice(["weighted", "rrf"])),
            "rrf_k": int(rng.integers(0, 80)),
            "pool": int(rng.integers(1, 31)),
            "kind_weights": [None, {"archive": 0.5}, {"archive": 0.5, "note": 0.0}][rng.integers(3)],
            "decay": str(rng.choice(["e_folding", "half_life", "linear", "gauss", "none"])),
            "decay_days": float(rng.choice([1, 10, 60, rng.uniform(1, 400)])),
            "decay_floor": float(rng.choice([0, 0.5, rng.random()])),
            "decay_kinds": ["*", (), ("archive",), ("archive", "working")][rng.integers(4)],
            "min_score": float(rng.choice([0, 0, 0.1, 0.25, 0.5, rng.random()])),
            "fold": str(rng.choice(["none", "near"])),
            "fold_threshold": [None, 0.5, 0.7, 1.0, 0.0][rng.integers(5)],
            "mmr_lambda": float(rng.choice([1, 1, 1, 0.5, 0, rng.random()])),
            "unit": str(rng.choice(["memory", "chunk"])),
            "expired": str(rng.choice(["hide", "hide", "keep"])),
            "rerank": [None, None, "hash", by_length][rng.integers(4)],
            "rerank_n": int(rng.integers(1, 12)),
            "rerank_weight": float(rng.choice([0, 0.5, 1, rng.random()])),
        }

    return [one() for _ in range(count)]


@pytest.fixture(scope="module")
def search_and_labels() -> tuple[mk.Retriever, pd.DataFrame, pd.DataFrame]:
    corpus = drawn_corpus(1)
    search = mk.Retriever(
        encoder="hash", index=mk.Index(chunk_tokens=8, overlap_tokens=0), pool=20, decay_kinds="*"
    ).fit(corpus)
    return search, *drawn_labels(2, corpus)


GRID = {"vector_weight": mk.presets.steps(0, 1, 0.5), "decay_days": [5, 60], "min_score": [0.0, 0.2]}


@pytest.mark.quick
def test_each_setting_scores_as_evaluate_does(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    metrics = ["ndcg@5", "recall@3", "mrr", "judged@5"]
    swept = mk.sweep(search, queries, qrels, GRID, metrics, as_of=DAY)
    assert len(swept.settings) == 13
    for i, setting in enumerate(swept.settings):
        alone = mk.evaluate(search.with_params(**setting), queries, qrels, metrics, as_of=DAY)
        for metric, mean in zip(metrics, alone.table["value"].to_pylist(), strict=True):
            expected = alone.per_query[metric].to_numpy()
            np.testing.assert_array_equal(swept.matrix(metric)[i], expected)
            assert swept.table[metric][i].as_py() == mean


@pytest.mark.quick
@pytest.mark.parametrize("more", [{}, {"normalize": "none"}, {"mmr_lambda": 0.5}])
def test_settings_that_differ_in_the_least_score_alone_score_as_each_alone_does(
    search_and_labels: Any, more: Any
) -> None:
    search, queries, qrels = (
        search_and_labels[0].with_params(fold="near", fold_threshold=0.5, **more),
        *search_and_labels[1:],
    )
    swept = mk.sweep(search, queries, qrels, {"min_score": [0.0, 0.3, 0.45]}, "ndcg", as_of=DAY)
    for i, setting in enumerate(swept.settings):
        alone = mk.evaluate(search.with_params(**setting), queries, qrels, "ndcg", as_of=DAY)
        np.testing.assert_array_equal(swept.matrix()[i], alone.per_query["ndcg"].to_numpy())


def test_settings_that_share_what_was_compared_score_as_each_alone_does(
    search_and_labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so few that are looked at, each block of settings has others than the one before."""
    monkeypatch.setattr(collapse, "FOLDED", 6)
    search, queries = search_and_labels[0].with_params(fold="near", fold_threshold=0.4), search_and_labels[1]
    pairs = [
        (query, memory) for query in queries["query_id"] for memory in search.corpus_.memories["memory_id"].to_pylist()
    ]
    qrels = pd.DataFrame([(*pair, row % 5) for row, pair in enumerate(pairs)], columns=search_and_labels[2].columns)
    few: list[Any] = [{"vector_weight": [0.05]}, {"vector_weight": [0.9], "mmr_lambda": [0.5]}]
    many: dict[str, Any] = {"vector_weight": mk.presets.steps(0, 1, 0.05)}
    for grid in (few, many, [*few, many], {"pool": [5, 20]}):
        swept = mk.sweep(search, queries, qrels, grid, "ndcg@20", as_of=DAY)
        for i in range(0, len(swept.settings), 1 + len(swept.settings) // 6):
            alone = mk.evaluate(search.with_params(**swept.settings[i]), queries, qrels, "ndcg@20", as_of=DAY)
            np.testing.assert_array_equal(swept.matrix()[i], alone.per_query["ndcg@20"].to_numpy(), str(grid))


def test_the_retrievers_own_setting_is_always_a_row(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    swept = mk.sweep(search, queries, qrels, GRID, as_of=DAY)
    assert swept.default == 12
    assert swept.settings[12] == {"vector_weight": None, "decay_days": 60.0, "min_score": 0.0}
    by_pool = mk.sweep(search, queries, qrels, {"pool": [5, 20]}, as_of=DAY)
    assert (by_pool.default, len(by_pool.settings)) == (1, 2)


def test_scores_are_rows_that_sql_asks(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    swept = mk.sweep(search, queries, qrels, GRID, ["mrr", "ndcg@5"], as_of=DAY)
    assert swept.scores.column_names == ["setting", "query_id", "mrr", "ndcg@5"]
    means = swept.sql('select setting, avg("mrr") as mean from scores group by all order by setting').df()["mean"]
    np.testing.assert_allclose(means, np.nanmean(swept.matrix("mrr"), axis=1), rtol=1e-12)
    mine = pa.table({"setting": [3]})
    assert swept.sql("select count(*) from scores join mine using (setting)").fetchall() == [(len(queries),)]
    assert mine.num_rows == 1
    text = swept.sql("select distinct text from scores join queries using (query_id) where query_id = 'q3'").fetchall()
    assert text == [(queries["text"][3],)]


def test_steps_lose_no_point_and_shares_make_one() -> None:
    assert mk.presets.steps(0, 1, 0.1) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert mk.presets.steps(0.05, 0.95, 0.15) == [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]
    assert len(set(mk.presets.shares(0.1))) == 66
    assert all(sum(round(part * 10) for part in one) == 10 for one in mk.presets.shares(0.1))


def test_any_number_of_threads_gives_the_same(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    one = mk.sweep(search, queries, qrels, GRID, ["mrr", "judged@5"], as_of=DAY)
    three = mk.sweep(search, queries, qrels, GRID, ["mrr", "judged@5"], as_of=DAY, n_jobs=3)
    assert one.table.equals(three.table)
    np.testing.assert_array_equal(one.matrix("judged@5"), three.matrix("judged@5"))


class Killed(Exception):
    """As a killed process leaves it: in the middle of a piece."""


def test_a_killed_sweep_goes_on_from_its_file_and_its_moment(
    search_and_labels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, queries, qrels = search_and_labels
    queries, path, put = queries.assign(as_of=None), tmp_path / "sweep", Checkpoint.put
    pieces: list[str] = []

    def killed(self: Checkpoint, name: str, values: Any) -> None:
        if len(pieces) == 3:
            raise Killed
        put(self, name, values)
        pieces.append(name)

    monkeypatch.setattr(Checkpoint, "put", killed)
    with pytest.raises(Killed):
        mk.sweep(search, queries, qrels, GRID, resume=path)
    began = recorded_facts(path)
    assert began is not None
    monkeypatch.setattr(Checkpoint, "put", lambda self, name, values: (pieces.append(name), put(self, name, values)))
    swept = mk.sweep(search, queries, qrels, GRID, resume=path)
    assert len(pieces) == len(set(pieces)) > 3
    whole = mk.sweep(search, queries, qrels, GRID, as_of=began["as_of"])
    assert swept.table.equals(whole.table, check_metadata=True)
    np.testing.assert_array_equal(swept.matrix(), whole.matrix())
    count = len(pieces)
    again = mk.sweep(search, queries, qrels, GRID, resume=path, n_jobs=2)
    assert again.table.equals(swept.table)
    assert len(pieces) == count


def test_a_file_of_another_sweep_or_of_something_else_is_left_as_it_is(search_and_labels: Any, tmp_path: Path) -> None:
    search, queries, qrels = search_and_labels
    path = tmp_path / "sweep"
    mk.sweep(search, queries, qrels, {"pool": [5]}, resume=path)
    held = path.read_bytes()
    with pytest.raises(mk.errors.ParameterError, match=r"another one: settings differ"):
        mk.sweep(search, queries, qrels, {"pool": [6]}, resume=path)
    with pytest.raises(mk.errors.ParameterError, match=r"another one: labels differ"):
        mk.sweep(search, queries, qrels.assign(relevance=1), {"pool": [5]}, resume=path)
    assert path.read_bytes() == held
    (tmp_path / "notes.md").write_text("# Заметки")
    for other in (tmp_path / "notes.md", tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(mk.errors.ParameterError, match="resume: expected a file that a sweep can write"):
            mk.sweep(search, queries, qrels, {"pool": [5]}, resume=other)
    assert (tmp_path / "notes.md").read_text() == "# Заметки"


def test_a_damaged_piece_is_not_read_and_a_file_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pieces"
    Checkpoint(path, {"a": 1}).put("one", np.arange(3))
    data, piece = path.read_bytes(), np.arange(3).tobytes()
    assert data.count(piece) == 1
    path.write_bytes(data.replace(piece, np.arange(1, 4).tobytes()))
    again = Checkpoint(path, {"a": 1})
    assert again.arrays == {}
    again.put("one", np.arange(3))
    assert Checkpoint(path, {"a": 1}).arrays["one"].tolist() == [0, 1, 2]
    for cut in (5, 30, len(data) // 2):
        path.write_bytes(data[:cut])
        with pytest.raises(mk.errors.ParameterError, match="expected a file that a sweep can write"):
            Checkpoint(path, {"a": 1})
        assert path.read_bytes() == data[:cut]
    path.write_bytes(b"")
    assert Checkpoint(path, {"a": 1}).arrays == {}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "expected values for at least one parameter. Got none"),
        ([], "expected values for at least one parameter. Got none"),
        ({"pool": []}, "at least one value for 'pool'"),
        ({"pool": 5}, "a list of values for 'pool'"),
        ({"decay": "none"}, "a list of values for 'decay'"),
        ({"pol": [5]}, "no parameter 'pol'.*Did you mean 'pool'"),
        ({"encoder": ["use"]}, "'encoder' acts at fit"),
        ({"pool": [5, 0]}, r"'pool' must be an int in \[1, inf\)"),
        ({"min_score": [float("nan")]}, "'min_score' must be"),
        ({("pool", "rrf_k"): [(5,)]}, "expected 2 values for pool, rrf_k"),
        ([{"pool": [5], ("pool", "rrf_k"): [(5, 6)]}], "each parameter once. Got 'pool'"),
        ({"pool": range(1, 1001), "rrf_k": range(1000), "unit": ["memory", "chunk"]}, "2,000,000 settings x 200 quer"),
        ({"pool": range(1, 1001), "rrf_k": range(1000), "decay_days": range(1, 11)}, "1,000,000 settings.*10,000,000"),
        ({("vector_weight", "bm25_weight", "gram_weight"): [(0, 0, 0)]}, "no arm has a weight"),
        ({"kind_weights": [{"archve": 0.5}]}, "archve"),
    ],
)
def test_a_grid_that_cannot_be_meant_is_refused_before_anything_is_asked(
    search_and_labels: Any, grid: Any, message: str
) -> None:
    search, queries, qrels = search_and_labels
    repeated = pd.concat([queries.assign(query_id=queries["query_id"] + f"/{i}") for i in range(25)])
    judged = pd.concat([qrels.assign(query_id=qrels["query_id"] + f"/{i}") for i in range(25)])
    with pytest.raises(mk.errors.ParameterError, match=message):
        mk.sweep(search, repeated, judged, grid, as_of=DAY)


def test_settings_are_drawn_from_one_grid(search_and_labels: Any) -> None:
    with pytest.raises(mk.errors.ParameterError, match=r"expected one dict to draw settings from\. Got several"):
        mk.sweep(*search_and_labels, [{"pool": [5]}, {"pool": [6]}], n=1, as_of=DAY)


def test_a_grid_of_decay_where_nothing_decays_is_refused(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    with pytest.raises(mk.errors.ParameterError, match="'decay_days' makes no difference: decay acts on 0 of 60 "):
        mk.sweep(search.with_params(decay="none"), queries, qrels, {"decay_days": [1, 2]}, as_of=DAY)
    with pytest.raises(mk.errors.ParameterError, match=r"decay_kinds='\*' includes all"):
        mk.sweep(search.with_params(decay_kinds=("quarantined",)), queries, qrels, {"decay": ["linear"]}, as_of=DAY)
    early, ageless = queries.assign(as_of="1999-01-01"), search.with_params(future="keep")
    with pytest.raises(mk.errors.ParameterError, match="no candidate of these queries decays"):
        mk.sweep(ageless, early, qrels, {"decay": ["linear"]})
    assert mk.sweep(search.with_params(decay="none"), queries, qrels, {"decay": ["linear"]}, as_of=DAY).default == 1


def test_a_sweep_says_which_parameter_acts_on_nothing(search_and_labels: Any) -> None:
    table = mk.sweep(*search_and_labels, {"rrf_k": [1, 9], "pool": [5, 20]}, as_of=DAY).table
    assert table.schema.metadata[b"note"] == b"rrf_k acts on 0 of 60 memories; fusion='rrf' uses it."
    table = mk.sweep(*search_and_labels, {"rrf_k": [1, 9], "fusion": ["rrf", "weighted"]}, as_of=DAY).table
    assert b"note" not in table.schema.metadata


def test_an_arm_that_finds_nothing_is_an_error(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    unanswered = queries.assign(text="ыыы")
    with pytest.raises(mk.MemkitError, match="the arm 'bm25' has the weight 1 and found nothing for any of 8 queries"):
        mk.sweep(search, unanswered, qrels, {"bm25_weight": [0.5]}, as_of=DAY)


def test_drawn_settings_differ_and_depend_on_the_seed_alone() -> None:
    grid = {"pool": range(1, 1001), "rrf_k": range(1000), "decay_days": range(1, 1001)}
    for how in ("sobol", "random"):
        drawn = list(Grid(grid, 100, how, random_state=3))
        assert len({tuple(one.items()) for one in drawn}) == 100
        assert drawn == list(Grid(grid, 100, how, random_state=3))
        assert drawn != list(Grid(grid, 100, how, random_state=4))
    assert len(list(Grid({"pool": [1, 2, 3]}, 100))) == 3
    shares = np.array([one["min_score"] for one in Grid({"min_score": uniform(0, 1)}, 64, random_state=1)])
    assert (np.histogram(shares, bins=16, range=(0, 1))[0] == 4).all()  # Sobol's points fill the space evenly


def test_a_distribution_needs_a_number_of_settings() -> None:
    with pytest.raises(mk.errors.ParameterError, match="'min_score' is a distribution: say how many"):
        Grid({"min_score": uniform(0, 1)})


@pytest.mark.parametrize("seed", [0, 1])
def test_settings_of_everything_at_once_score_as_each_alone_does(seed: int) -> None:
    """`Question.with_params` equals a search, by its own test; the next test has users, days, and hundreds."""
    rng = np.random.default_rng(seed)
    corpus = drawn_corpus(seed + 7, 40)
    search = mk.Retriever(encoder="hash", index=mk.Index(chunk_tokens=8, overlap_tokens=0), pool=30).fit(corpus)
    queries, qrels = drawn_labels(seed, corpus, 5)
    queries = queries.assign(user_id=None, as_of=None)
    metrics = parse_metrics(["ndcg@5", "recall@3", "map", "judged@4", "stale@4"])
    qrels = qrels.assign(valid_to=[DAY - timedelta(days=9) if i % 3 == 0 else None for i in range(len(qrels))])
    settings = drawn_settings(rng, 75)
    grid = [{name: [value] for name, value in one.items()} for one in settings]
    swept = mk.sweep(search, queries, qrels, grid, [one.name for one in metrics], as_of=DAY)
    task = Task(None, queries, qrels, as_of=DAY).read()
    every = {"vector_weight": 1.0, "bm25_weight": 1.0, "gram_weight": 1.0}
    asked_by_scope: dict[Any, Any] = {}
    for i, one in enumerate(swept.settings):
        scope = {name: one[name] for name in ("function_word_weight", "expired")}
        key = tuple(scope.values())
        if key not in asked_by_scope:
            asked_by_scope[key] = search.with_params(**every, **scope).ask(
                queries[["query_id", "text"]], 100, as_of=DAY
            )
        run = Judged.from_hits(hits_table(asked_by_scope[key].with_params(**one)), task.labels, 100)
        for metric in metrics:
            np.testing.assert_array_equal(swept.matrix(metric.name)[i], metric(run), err_msg=f"{metric.name} {one}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_settings_over_users_days_and_hidden_fields_score_as_evaluate_does(seed: int) -> None:
    metrics = ["ndcg@5", "ndcg", "recall@3", "precision@2", "mrr", "map", "hit@1", "judged@4", "stale@4"]
    rng = np.random.default_rng(seed)
    corpus = drawn_corpus(seed, int(rng.integers(5, 150)))
    index = mk.Index(chunk_tokens=8, overlap_tokens=0)
    search = mk.Retriever(encoder="hash", index=index, pool=20, expired="hide").fit(corpus)
    queries, qrels = drawn_labels(seed + 1, corpus)
    days = rng.integers(-99, 200, len(qrels))
    qrels = qrels.assign(valid_to=[DAY - timedelta(days=int(day)) if day < 60 else None for day in days])
    grid = [{name: [value] for name, value in one.items()} for one in drawn_settings(rng, 200)]
    swept = mk.sweep(search, queries, qrels, grid, metrics, as_of=DAY)
    for i, setting in enumerate(swept.settings):
        one, n_with_hits = search.with_params(**setting), swept.table["n_with_hits"][i].as_py()
        if not n_with_hits:
            with pytest.raises(mk.MemkitError, match="no score of 0"):
                mk.evaluate(one, queries, qrels, metrics, as_of=DAY)
            continue
        alone = mk.evaluate(one, queries, qrels, metrics, as_of=DAY)
        assert n_with_hits == alone.table["n_with_hits"][0].as_py(), setting
        for metric in metrics:
            np.testing.assert_array_equal(swept.matrix(metric)[i], alone.per_query[metric].to_numpy(), str(setting))


def test_every_mixture_of_the_arms_scores_as_its_own_search_does(search_and_labels: Any) -> None:
    search, queries, qrels = search_and_labels
    arms = ("vector_weight", "bm25_weight", "gram_weight")
    grid = {arms: mk.presets.shares(0.5), "fusion": ["weighted", "rrf"], "normalize": ["calibrated", "minmax"]}
    swept = mk.sweep(search, queries, qrels, grid, "ndcg@5", as_of=DAY)
    for i in range(0, len(swept.settings), 3):
        alone = mk.evaluate(search.with_params(**swept.settings[i]), queries, qrels, "ndcg@5", as_of=DAY)
        np.testing.assert_array_equal(swept.matrix()[i], alone.per_query["ndcg@5"].to_numpy())


@pytest.mark.parametrize("unit", ["memory", "chunk"])
@pytest.mark.parametrize("fold", ["none", "near"])
def test_of_many_that_say_the_same_only_those_that_are_named_count(unit: str, fold: str) -> None:
    ends = ["", ".", " !", "!!"] if fold == "near" else [""]
    texts = [f"чай зелёный без сахара{ends[i % len(ends)]}" for i in range(30)] + ["кофе чай"] * 3
    dates = [f"2025-01-{1 + i % 28:02}" for i in range(33)]
    search = mk.Retriever(encoder=None, unit=unit, fold=fold, decay_kinds="*", gram_weight=0.5).fit(
        mk.from_table({"memory_id": [f"m{i:02}" for i in range(33)], "text": texts, "created_at": dates})
    )
    queries = {"query_id": [f"q{i}" for i in range(33)], "text": ["зелёный чай"] * 33}
    qrels = {"query_id": queries["query_id"], "memory_id": [f"m{i:02}" for i in range(33)], "relevance": [1] * 33}
    swept = mk.sweep(
        search, queries, qrels, {"decay_days": [1, 50, 5000], "decay": ["linear", "none"]}, "mrr", as_of=DAY
    )
    for i, setting in enumerate(swept.settings):
        alone = mk.evaluate(search.with_params(**setting), queries, qrels, "mrr", as_of=DAY)
        np.testing.assert_array_equal(swept.matrix()[i], alone.per_query["mrr"].to_numpy())
    assert (swept.matrix() == 0).any()


def test_a_product_of_weights_leaves_out_the_setting_in_which_no_arm_has_one() -> None:
    search = mk.Retriever(encoder=None).fit(mk.from_table({"memory_id": ["a", "b"], "text": ["чай", "кофе"]}))
    labels = {"query_id": [1], "text": ["чай"]}, {"query_id": [1], "memory_id": ["a"], "relevance": [1]}
    grid = {name: [0.0, 1.0] for name in ("vector_weight", "bm25_weight", "gram_weight")}
    with pytest.warns(UserWarning, match="1 setting was left out, in which no arm has a weight"):
        swept = mk.sweep(search, *labels, grid, "mrr")
    assert len(swept.settings) == 7 + 1  # and the search's own
    assert all(any(one.values()) or None in one.values() for one in swept.settings)


@pytest.mark.parametrize("metric", ["judged@5", "stale@5"])
def test_where_nothing_is_found_a_sweep_says_so(metric: str) -> None:
    search = mk.Retriever(encoder=None, min_score=3.0).fit(mk.from_table({"memory_id": ["a"], "text": ["чай"]}))
    labels = {"query_id": ["1"], "text": ["чай"]}, {"query_id": ["1"], "memory_id": ["a"], "relevance": [1]}
    none = mk.sweep(search, *labels, {"min_score": [2.0, 5.0]}, [metric])
    assert (none.best, none.table[metric].null_count) == (none.default, 3)
    assert f"No query has '{metric}' under any setting, as none has hits" in str(none)
    some = mk.sweep(search, *labels, {"min_score": [0.0, 5.0]}, [metric])
    assert (some.best, some.table[metric].null_count) == (0, 2)
    assert "at best (min_score=0.0), no hits for the search's own" in str(some)


@pytest.fixture(scope="module")
def long_corpus_and_labels() -> tuple[mk.Corpus, pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(5)
    texts = ["\n".join(" ".join(rng.choice(WORDS, 6)) for _ in range(8)) for _ in range(30)]
    corpus = mk.from_table(pd.DataFrame({"memory_id": [f"m{i:03}" for i in range(30)], "text": texts}))
    return corpus, *drawn_labels(6, corpus)


SIZES = {
    ("index__chunk_tokens", "index__overlap_tokens"): [(10, 0), (100, 20), (25, 10)],
    "vector_weight": [0.2, 0.6],
    "unit": ["memory", "chunk"],
}


def test_sizes_of_chunks_vary_as_separate_fits_do(long_corpus_and_labels: Any) -> None:
    corpus, queries, qrels = long_corpus_and_labels
    search = mk.Retriever(encoder="hash", pool=20).fit(corpus)
    swept = mk.sweep(search, queries, qrels, SIZES, ["ndcg@5", "mrr"], as_of=DAY)
    assert swept.table.select(["index__chunk_tokens", "vector_weight", "unit"]).to_pylist()[:5] == [
        {"index__chunk_tokens": size, "vector_weight": weight, "unit": unit}
        for size, weight, unit in [
            *((10, 0.2, "memory"), (10, 0.2, "chunk"), (10, 0.6, "memory"), (10, 0.6, "chunk")),
            (100, 0.2, "memory"),
        ]
    ]
    for row, setting in enumerate(swept.settings):
        alone = mk.Retriever(encoder="hash", pool=20).set_params(**setting).fit(corpus)
        one = mk.evaluate(alone, queries, qrels, ["ndcg@5", "mrr"], as_of=DAY)
        for metric in ("ndcg@5", "mrr"):
            np.testing.assert_array_equal(swept.matrix(metric)[row], one.per_query[metric].to_numpy())
    assert len({tuple(row) for row in swept.matrix("ndcg@5").tolist()}) > 4  # the size of a chunk makes a difference
    assert search.index.chunk_tokens == 100
    assert len(set(swept.fit_seconds)) == 3  # (100, 20) is the search's own
    assert re.search(r"3 sets of parameters act at fit; their fits took [\d.]+ s", str(swept.table.schema.metadata))
    assert swept.settings[swept.default]["vector_weight"] is None


def test_a_sweep_of_several_fits_goes_on_from_its_files(long_corpus_and_labels: Any, tmp_path: Path) -> None:
    corpus, queries, qrels = long_corpus_and_labels
    search = mk.Retriever(encoder=None).fit(corpus)
    grid = {"index__chunk_tokens": [25, 50], "min_score": [0, 0.5]}
    first, again = (mk.sweep(search, queries, qrels, grid, as_of=DAY, resume=tmp_path / "file") for _ in range(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "file.1", "file.2"]
    np.testing.assert_array_equal(first.matrix(), again.matrix())


def test_sizes_that_exclude_each_other_are_refused_before_anything_is_fitted(long_corpus_and_labels: Any) -> None:
    corpus, queries, qrels = long_corpus_and_labels
    search = mk.Retriever(encoder=None).fit(corpus)
    with pytest.raises(mk.errors.ParameterError, match=r"'index__chunk_tokens'\. Got 20 and 20; name them"):
        mk.sweep(search, queries, qrels, {"index__chunk_tokens": [200, 20]})
