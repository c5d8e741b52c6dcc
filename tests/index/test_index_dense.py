"""The dense arm against NumPy: cosines, top k, filters, ties, zero rows, approximate indexes."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.errors import MemkitError, NotFittedError, ParameterError
from memkit.index.cache import VectorCache
from memkit.index.dense import Dense
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import unit_rows
from memkit.index.postings import CANDIDATES

RU_EN = ["пул соединений настроен", "the connection pool", "кот спит на окне", "a cat sleeps", "ключ E4021"]


def chunks(n: int) -> pa.Table:
    return pa.table({"chunk_id": [f"m{i}@0" for i in range(n)]})


def fitted(vectors: Any, **params: Any) -> Dense:
    n = len(vectors)
    return Dense(encoder="hash", **params).fit(chunks(n), [f"t{i}" for i in range(n)], vectors=np.asarray(vectors))


def clustered(n: int, dim: int = 32, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n // 20, dim))
    return unit_rows(centres[random.integers(0, len(centres), n)] + 0.6 * random.normal(size=(n, dim)))


def by_numpy(queries: np.ndarray, vectors: np.ndarray, n: int, allowed: np.ndarray | None = None) -> list[list[int]]:
    scores = np.round(unit_rows(queries).astype(float) @ unit_rows(vectors).astype(float).T, 6)
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
        n = min(n, int(allowed.sum()))
    return [sorted(range(len(vectors)), key=lambda row: (-line[row], row))[:n] for line in scores]


def rows_of(table: pa.Table, n_queries: int) -> list[list[int]]:
    query, row = table["query"].to_numpy(), table["row"].to_numpy()
    return [row[query == i].tolist() for i in range(n_queries)]


@pytest.mark.quick
@pytest.mark.parametrize("n", [1, 3, 10, 500])
def test_rows_and_cosines_equal_numpys(n: int) -> None:
    vectors, queries = clustered(300), clustered(40, seed=1)
    candidates = fitted(vectors).candidates(queries, n)
    assert rows_of(candidates, 40) == by_numpy(queries, vectors, n)
    expected = (queries[candidates["query"].to_numpy()] * vectors[candidates["row"].to_numpy()]).sum(axis=1)
    assert candidates["score"].to_numpy() == pytest.approx(expected, abs=1e-6)
    assert candidates.schema == CANDIDATES


@pytest.mark.quick
def test_texts_are_found_in_both_languages_by_texts() -> None:
    arm = Dense(encoder="use").fit(chunks(5), RU_EN)
    candidates = arm.candidates(["кошка уснула", "database connections"], n=2)
    assert rows_of(candidates, 2)[0] in ([2, 3], [3, 2])
    assert rows_of(candidates, 2)[1][0] == 1


@pytest.mark.quick
def test_a_row_meets_itself_first_at_exactly_one() -> None:
    vectors = clustered(100)
    candidates = fitted(vectors).candidates(vectors, 1)
    assert candidates["row"].to_pylist() == list(range(100))
    assert set(candidates["score"].to_pylist()) == {1.0}


def test_the_nearest_comes_first_whatever_the_lengths_of_vectors() -> None:
    far, near = [0.0, 100.0], [0.001, 0.0001]
    candidates = fitted([far, near]).candidates(np.array([[50.0, 1.0]]), 2)
    assert candidates["row"].to_pylist() == [1, 0]
    lengths = np.hypot(50, 1) * np.hypot(0.001, 0.0001)
    assert candidates["score"][0].as_py() == pytest.approx((50 * 0.001 + 1 * 0.0001) / lengths, abs=1e-6)


def test_opposite_vectors_score_minus_one_and_stay_in_bounds() -> None:
    candidates = fitted([[1.0, 1e-8], [-1.0, 0.0]]).candidates(np.array([[1.0, 0.0]]), 2)
    assert candidates["score"].to_pylist() == [1.0, -1.0]


@pytest.mark.parametrize("ann", ["exact", "hnsw"])
def test_ties_go_by_row_also_at_the_cut(ann: str) -> None:
    vectors = np.vstack([np.tile([0.6, 0.8], (60, 1)), [[1.0, 0.0]]])
    candidates = fitted(vectors, ann=ann).candidates(np.array([[1.0, 0.0]]), 4)
    if ann == "exact":
        assert candidates["row"].to_pylist() == [60, 0, 1, 2]
    assert candidates["score"].to_pylist() == [1.0, 0.6, 0.6, 0.6]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 5))
@settings(max_examples=30)
def test_a_longer_list_begins_with_the_shorter_one(k: int, more: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).integers(-1, 2, (50, 3)).astype(float)  # full of ties and zero rows
    arm, query = fitted(vectors), np.array([[1.0, 0.5, -0.2]])
    short, long = (arm.candidates(query, n)["row"].to_pylist() for n in (k, k + more))
    assert long[: len(short)] == short


def test_one_query_and_a_batch_have_the_same_answer() -> None:
    vectors, queries = clustered(400), clustered(60, seed=2)
    arm = fitted(vectors)
    batch = arm.candidates(queries, 10)
    alone = pa.concat_tables([arm.candidates(queries[i : i + 1], 10) for i in range(60)])
    assert batch["row"].to_pylist() == alone["row"].to_pylist()
    assert batch["score"].to_pylist() == alone["score"].to_pylist()


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
@pytest.mark.parametrize(("ann", "exact_up_to"), [("exact", 0), ("hnsw", 50), ("ivf", 50), ("hnsw", 100_000)])
def test_a_filter_acts_before_the_cut(share: float, ann: str, exact_up_to: int) -> None:
    vectors, queries = clustered(1000), clustered(40, seed=3)
    allowed = np.random.default_rng(1).random(1000) < share
    candidates = fitted(vectors, ann=ann, exact_up_to=exact_up_to).candidates(queries, 5, allowed)
    expected = by_numpy(queries, vectors, 5, allowed)
    rows = rows_of(candidates, 40)
    assert all(allowed[row] for line in rows for row in line)
    assert [len(line) for line in rows] == [min(5, int(allowed.sum()))] * 40
    same = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(rows, expected, strict=True)])
    assert same >= (1.0 if ann == "exact" or allowed.sum() <= exact_up_to else 0.95)


@pytest.mark.parametrize("ann", ["exact", "hnsw", "ivf"])
def test_a_rare_user_in_a_far_corner_still_gets_n_hits(ann: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.index.ann.NPROBE", 1)
    monkeypatch.setattr("memkit.index.ann.EF_SEARCH", 1)
    vectors = clustered(2000)
    allowed = np.zeros(2000, dtype=bool)
    allowed[np.argsort(vectors @ vectors[0])[:7]] = True  # the rows farthest from the query
    candidates = fitted(vectors, ann=ann, exact_up_to=0).candidates(vectors[:1], 5, allowed)
    assert rows_of(candidates, 1) == by_numpy(vectors[:1], vectors, 5, allowed)


@pytest.mark.parametrize("ann", ["exact", "hnsw", "ivf"])
def test_more_than_there_is_gives_every_row_once_and_never_minus_one(ann: str) -> None:
    candidates = fitted(clustered(60), ann=ann).candidates(clustered(40, seed=4), 1000)
    assert all(sorted(rows) == list(range(60)) for rows in rows_of(candidates, 40))


@pytest.mark.parametrize(("ann", "n"), [("hnsw", 3000), ("ivf", 3000)])
def test_recall_of_approximate_search_is_at_least_95_percent(ann: str, n: int) -> None:
    vectors, queries = clustered(n, dim=64), clustered(200, dim=64, seed=5)
    approximate = rows_of(fitted(vectors, ann=ann).candidates(queries, 10), 200)
    exact = rows_of(fitted(vectors, ann="exact").candidates(queries, 10), 200)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(approximate, exact, strict=True)]) >= 0.95


@pytest.mark.parametrize("ann", ["hnsw", "ivf"])
def test_an_approximate_index_is_built_the_same_each_time(ann: str) -> None:
    import faiss

    vectors = clustered(1500)
    first, second = (faiss.serialize_index(fitted(vectors, ann=ann).index_) for _ in range(2))
    assert (first == second).all()


def test_auto_is_exact_up_to_the_stated_size_and_a_graph_beyond() -> None:
    assert fitted(clustered(100), exact_up_to=100).index_ is None
    assert fitted(clustered(100), exact_up_to=99).index_ is not None
    assert fitted(clustered(100), ann="exact", exact_up_to=0).index_ is None


def test_building_a_graph_leaves_the_users_threads_alone() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    fitted(clustered(100), ann="hnsw")
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("ann", ["exact", "hnsw"])
def test_a_zero_row_ranks_last_below_negative_cosines_without_warnings(ann: str) -> None:
    vectors = [[0.0, 0.0], [-1.0, 0.1], [1.0, 0.0], [0.0, 0.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        candidates = fitted(vectors, ann=ann).candidates(np.array([[1.0, 0.0]]), 10)
    scores = candidates["score"].to_numpy()
    assert candidates["row"].to_pylist() == [2, 1, 0, 3]
    assert np.isfinite(scores).all()
    assert scores[2] == scores[3] == pytest.approx(scores[1] - 1e-6)
    assert rows_of(fitted(vectors, ann=ann).candidates(np.array([[1.0, 0.0]]), 2), 1) == [[2, 1]]


def test_zero_rows_score_at_most_zero_and_obey_the_filter() -> None:
    arm = fitted([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    candidates = arm.candidates(np.array([[1.0, 0.0]]), 3, np.array([False, True, True]))
    assert candidates["row"].to_pylist() == [1, 2]
    assert candidates["score"][1].as_py() == 0.0


@pytest.mark.parametrize("query", ["", "   ", "\x00"])
def test_a_query_without_content_finds_nothing_and_harms_no_other(query: str) -> None:
    arm = Dense(encoder="hash").fit(chunks(5), RU_EN)
    assert arm.candidates([query], 3) == CANDIDATES.empty_table()
    assert rows_of(arm.candidates([query, "кот спит"], 1), 2) == [[], [2]]


def test_an_empty_corpus_no_queries_no_rows_and_no_n_give_an_empty_table() -> None:
    empty, arm = Dense(encoder="hash").fit(chunks(0), []), Dense(encoder="hash").fit(chunks(5), RU_EN)
    tables = [
        empty.candidates(["пул"], 3),
        arm.candidates([], 3),
        arm.candidates(["пул"], 0),
        arm.candidates(["пул"], 3, np.zeros(5, dtype=bool)),
        Dense(encoder="hash").fit(chunks(2), ["", " "]).candidates(["пул"], 3),
    ]
    assert all(table == CANDIDATES.empty_table() for table in tables)


@pytest.mark.parametrize("ann", ["hnsw", "ivf"])
def test_a_forced_index_over_a_tiny_corpus_works(ann: str) -> None:
    assert rows_of(fitted([[1.0, 0.0]], ann=ann).candidates(np.array([[1.0, 1.0]]), 3), 1) == [[0]]


def test_equal_texts_have_equal_scores() -> None:
    arm = Dense(encoder="use").fit(chunks(40), ["кот спит на окне", "пул соединений"] * 20)
    candidates = arm.candidates(["где кот?"], 40)
    assert len(set(candidates["score"].to_pylist())) == 2
    assert candidates["row"].to_pylist()[:20] == list(range(0, 40, 2))


def test_nan_from_an_encoder_stops_the_fit_and_the_former_state_answers() -> None:
    arm = Dense(encoder="hash").fit(chunks(5), RU_EN)
    before = arm.candidates(["кот"], 2)
    arm.set_params(encoder=lambda texts: np.full((len(texts), 4), np.nan))
    with pytest.raises(MemkitError, match="NaN or infinity"):
        arm.fit(chunks(2), ["a", "b"])
    assert arm.candidates(["кот"], 2) == before


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_given_vectors_and_queries_must_be_finite(bad: float) -> None:
    with pytest.raises(MemkitError, match="position 1"):
        fitted([[1.0, 0.0], [bad, 0.0]])
    with pytest.raises(ParameterError, match="finite"):
        fitted([[1.0, 0.0]]).candidates(np.array([[bad, 0.0]]), 1)


def test_wrong_lengths_shapes_masks_and_parameters_are_refused() -> None:
    arm = fitted([[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ParameterError, match=r"a text for each of 2 chunks. Got 1 texts"):
        Dense(encoder="hash").fit(chunks(2), ["a"])
    with pytest.raises(ParameterError, match=r"shape \(2, dim\)"):
        Dense(encoder="hash").fit(chunks(2), ["a", "b"], vectors=np.ones((1, 2)))
    with pytest.raises(ParameterError, match="boolean mask over 2 rows"):
        arm.candidates(np.ones((1, 2)), 1, np.array([0, 1]))
    with pytest.raises(ParameterError, match=r"shape \(n, 2\)"):
        arm.candidates(np.ones((1, 3)), 1)
    with pytest.raises(ParameterError, match="'ann'"):
        fitted([[1.0, 0.0]], ann="annoy")


def test_it_asks_to_be_fitted() -> None:
    for method, arguments in (("candidates", (["a"], 1)), ("save", ("x",)), ("encode_queries", (["a"],))):
        with pytest.raises(NotFittedError, match="fit"):
            getattr(Dense(), method)(*arguments)


def test_a_refit_after_adding_and_deleting_equals_a_fresh_fit_and_encodes_only_what_is_new() -> None:
    cache, encoder = VectorCache(), as_encoder("hash")
    arm = Dense(encoder=encoder).fit(chunks(5), RU_EN, cache=cache)
    changed = [*RU_EN[1:], "новая запись"]
    arm.fit(chunks(5), changed, cache=cache)
    fresh = Dense(encoder=encoder).fit(chunks(5), changed, cache=VectorCache())
    assert cache.encoded == 6
    assert arm.candidates(["запись"], 5) == fresh.candidates(["запись"], 5)
    assert (arm.vectors_ == fresh.vectors_).all()


def test_lsa_learns_from_each_corpus_it_is_fitted_on() -> None:
    arm = Dense(encoder="lsa").fit(chunks(5), RU_EN)
    assert rows_of(arm.candidates(["коты спят"], 1), 1) == [[2]]
    arm.fit(chunks(3), ["совсем другое", "чайник кипит", "something else"])
    assert rows_of(arm.candidates(["чайники"], 1), 1) == [[1]]


def test_centring_acts_on_documents_and_queries() -> None:
    texts = [f"запись номер {i}" for i in range(60)] + [f"record number {i}" for i in range(60)]
    plain = Dense(encoder="hash").fit(chunks(120), texts)
    centred = Dense(encoder="hash", centre="language").fit(chunks(120), texts)
    assert (plain.vectors_ @ plain.vectors_.T).mean() > 0.1 > abs((centred.vectors_ @ centred.vectors_.T).mean())
    assert centred.candidates([texts[7]], 1).to_pylist() == [{"query": 0, "row": 7, "score": 1.0}]


def test_the_default_size_of_exact_search_is_declared() -> None:
    assert Dense.params()["exact_up_to"].default == 100_000


def test_faiss_is_loaded_where_there_are_many_scores() -> None:
    code = (
        "import sys, numpy as np; from memkit.index.ann import exact; rows = np.ones((100_001, 2), 'f');"
        "exact(rows[:1], rows[:9], 1, None); print('faiss' in sys.modules);"
        "exact(rows[:1], rows, 1, None); print('faiss' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["False", "True"]
