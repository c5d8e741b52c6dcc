"""Where memories lie: near to what is like them, at the same places each time, whatever the order of the rows."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.decomposition import PCA

import memkit as mk
from memkit.explore import places as module
from memkit.explore.places import lay_out
from memkit.index.encoders.base import unit_means

TOPICS, EACH = 3, 20
CENTRES = np.random.default_rng(1).normal(size=(TOPICS, 16))


def encode(texts: list[str]) -> Any:
    """A vector near the centre of its topic; none for an empty text."""
    rows = []
    for text in texts:
        topic, _, number = text.partition(" ")
        rng = np.random.default_rng(int(number))
        rows.append(CENTRES[int(topic)] + 0.2 * rng.normal(size=16))
    return np.array(rows)


def searched(order: Any = None) -> mk.Retriever:
    texts = [f"{i % TOPICS} {i}" for i in range(TOPICS * EACH)]
    ids = [f"m{i:03d}" for i in range(len(texts))]
    order = range(len(texts)) if order is None else order
    corpus = mk.from_table({"memory_id": [ids[i] for i in order], "text": [texts[i] for i in order]})
    return mk.Retriever(encoder=encode).fit(corpus)


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    return searched()


def same_topic(points: Any) -> float:
    """How many of the five nearest points are of the same topic."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1)[:, :5]
    return float((nearest % TOPICS == np.arange(len(points))[:, None] % TOPICS).mean())


@pytest.mark.quick
def test_memories_of_one_topic_lie_together_and_the_same_memories_lie_at_the_same_places(
    search: mk.Retriever, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = searched(np.random.default_rng(0).permutation(TOPICS * EACH))
    for method, landmarks in (("pca", 1500), ("tsne", 1500), ("tsne", 30)):
        with subtests.test(method=method, landmarks=landmarks):
            monkeypatch.setattr(module, "_LANDMARKS", landmarks)
            module._placed.clear()
            laid = lay_out(search, method)
            assert laid.by == "by meaning"
            assert laid.table.column_names == ["memory_id", "x", "y"]
            assert laid.table["memory_id"].to_pylist() == [f"m{i:03d}" for i in range(TOPICS * EACH)]
            assert same_topic(laid.points) > 0.95
            module._placed.clear()
            assert np.array_equal(laid.points, lay_out(again, method).points)


@pytest.mark.quick
def test_a_map_that_is_drawn_again_is_not_placed_again(search: mk.Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    module._placed.clear()
    placed: list[int] = []
    monkeypatch.setitem(module._PLACED, "tsne", lambda vectors: placed.append(len(vectors)) or vectors[:, :2] * 1.0)
    first = lay_out(search).points
    expected = first.copy()
    first[:] = 0  # whoever moves points moves points of no other map
    assert np.array_equal(lay_out(search).points, expected)
    assert len(placed) == 1
    for number in (1.0, 2.0):  # of as many vectors, others
        vectors = np.full((20, 2), number, np.float32)
        assert np.array_equal(module._points("tsne", vectors), vectors)
    for size in range(10, 20):
        module._points("tsne", np.ones((size, 2), np.float32))
    assert len(module._placed) == module._MOST_PLACED
    module._placed.clear()


@pytest.mark.quick
def test_pca_is_the_one_of_scikit_learn_up_to_signs() -> None:
    vectors = np.random.default_rng(2).normal(size=(40, 6)).astype(np.float32)
    theirs = PCA(2, svd_solver="full").fit_transform(vectors.astype(np.float64))
    ours = module._pca(vectors)
    assert np.abs(np.abs(ours) - np.abs(theirs)).max() < 1e-5


def test_a_memory_lies_at_the_mean_of_its_chunks_and_one_without_text_nowhere() -> None:
    long = "\n\n".join(f"Абзац {word} " + "слово " * 90 for word in ("один", "два", "три"))
    corpus = mk.from_table({"memory_id": ["a", "b", "c", "d"], "text": ["чай", long, "", "кофе"]})
    search = mk.Retriever(encoder="hash").fit(corpus)
    index = search.index_.whole
    of_chunks = index.arms["vector"].vectors_
    means, rows = unit_means(of_chunks, index.rows.memory)
    assert len(of_chunks) > 3
    assert rows.tolist() == [0, 1, 2, 3]
    assert not means[2].any()
    mean = of_chunks[index.rows.memory == 1].mean(axis=0)
    assert np.allclose(means[1], mean / np.linalg.norm(mean), atol=1e-6)
    laid = lay_out(search)
    assert laid.memories["memory_id"].to_pylist() == ["a", "b", "d"]
    assert laid.left_out == 1
    assert laid.method == "pca"  # so few have no neighbours to speak of


@pytest.mark.parametrize("texts", [[], ["чай"], ["чай", "чай"], [""]], ids=str)
def test_few_memories_have_places_too(texts: list[str]) -> None:
    search = mk.Retriever(encoder="hash").fit(mk.from_table({"text": pa.array(texts, pa.string())}))
    points = lay_out(search).points
    assert points.shape == (sum(map(bool, texts)), 2)
    assert np.isfinite(points).all()


def test_without_vectors_memories_lie_by_their_words() -> None:
    texts = [
        f"{word} {'зелёный крепкий' if word == 'чай' else 'соединений потоков'} {i}"
        for i in range(12)
        for word in ("чай", "пул")
    ]
    laid = lay_out(mk.Retriever(encoder=None).fit(mk.from_table({"text": texts})), "pca")
    assert laid.by == "by words, as the search has no vectors"
    first = laid.points[:, 0]
    is_tea = np.array(["чай" in text for text in laid.memories["text"].to_pylist()])
    assert first[is_tea].max() < first[~is_tea].min() or first[is_tea].min() > first[~is_tea].max()


def test_umap_is_asked_with_a_seed_and_is_named_where_it_is_missing(
    search: mk.Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(mk.errors.MissingExtraError, match=r"memkit\[umap\]"):
        lay_out(search, "umap")
    arguments: dict[str, Any] = {}

    class Umap:
        def __init__(self, **params: Any) -> None:
            arguments.update(params)

        def fit_transform(self, vectors: Any) -> Any:
            return vectors[:, :2]

    fake = ModuleType("umap")
    fake.UMAP = Umap  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "umap", fake)
    assert lay_out(search, "umap").points.shape == (TOPICS * EACH, 2)
    assert arguments["random_state"] is not None
    with pytest.raises(mk.errors.ParameterError, match="tsne"):
        lay_out(search, "t-sne")
    with pytest.raises(mk.errors.NotFittedError):
        lay_out(mk.Retriever(encoder=None))
