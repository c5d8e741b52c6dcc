"""Means of the corpus and of each language, taken off documents and queries."""

from __future__ import annotations

import numpy as np
import pytest

from memkit.errors import NotFittedError, ParameterError
from memkit.index.ann import MIN_ROWS, Centring, scripts
from memkit.index.encoders.base import unit_rows

N = 200


@pytest.fixture
def mixed() -> tuple[np.ndarray, list[str]]:
    """Unit rows whose languages lie around two directions, Russian first."""
    noise = np.random.default_rng(0).normal(0, 0.3, (N, 16))
    noise[: N // 2, 0] += 3
    noise[N // 2 :, 1] += 3
    return unit_rows(noise), [f"запись {i}" for i in range(N // 2)] + [f"record {i}" for i in range(N // 2)]


@pytest.mark.quick
def test_none_changes_nothing(mixed: tuple[np.ndarray, list[str]]) -> None:
    vectors, texts = mixed
    assert (Centring().fit(vectors, texts).transform(vectors, texts) == vectors).all()


@pytest.mark.quick
def test_corpus_takes_off_the_one_mean_by_numpy(mixed: tuple[np.ndarray, list[str]]) -> None:
    vectors, _ = mixed
    expected = vectors - vectors.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert Centring(mode="corpus").fit(vectors).transform(vectors) == pytest.approx(expected, abs=1e-5)


@pytest.mark.quick
def test_language_takes_off_each_languages_mean(mixed: tuple[np.ndarray, list[str]]) -> None:
    vectors, texts = mixed
    centring = Centring(mode="language").fit(vectors, texts)
    query = centring.transform(vectors[:1], ["запрос"])
    expected = vectors[0] - vectors[: N // 2].mean(axis=0)
    assert query[0] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    centred = centring.transform(vectors, texts)
    within, across = centred[:100] @ centred[:100].T, centred[:100] @ centred[100:].T
    assert abs(within.mean() - across.mean()) < 0.05
    assert (vectors[:100] @ vectors[:100].T).mean() - (vectors[:100] @ vectors[100:].T).mean() > 0.5


def test_a_language_with_few_texts_has_the_corpus_mean_and_a_small_corpus_none(
    mixed: tuple[np.ndarray, list[str]],
) -> None:
    vectors, texts = mixed
    n = N // 2 + MIN_ROWS - 1
    centring = Centring(mode="language").fit(vectors[:n], texts[:n])
    assert centring.means_[0] == pytest.approx(vectors[:n].mean(axis=0), abs=1e-6)
    assert centring.means_[1] == pytest.approx(vectors[: N // 2].mean(axis=0), abs=1e-6)
    small = vectors[: MIN_ROWS - 1]
    assert (Centring(mode="corpus").fit(small).transform(small) == small).all()


def test_zero_rows_stay_zero_and_do_not_count(mixed: tuple[np.ndarray, list[str]]) -> None:
    vectors, _ = mixed
    padded = np.vstack([vectors, np.zeros((50, 16), np.float32)])
    centring = Centring(mode="corpus").fit(padded)
    assert centring.means_[0] == pytest.approx(vectors.mean(axis=0, dtype=float), abs=1e-6)
    assert not centring.transform(padded)[-50:].any()


@pytest.mark.parametrize("at_once", [1, 10, 1_000_000])
def test_scripts_go_by_the_majority_of_letters(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.text.languages._AT_ONCE", at_once)
    texts = ["память", "memory", "пул connection", "Привет, мир API", "12 + 5", "", "日本", "é à", "ёж\ud800"]
    assert scripts(texts).tolist() == [1, 0, 0, 1, 2, 2, 2, 0, 1]


def test_language_needs_one_text_a_vector(mixed: tuple[np.ndarray, list[str]]) -> None:
    with pytest.raises(ParameterError, match=f"{N}. Got none"):
        Centring(mode="language").fit(mixed[0])
    with pytest.raises(ParameterError, match=f"{N}. Got 1"):
        Centring(mode="language").fit(mixed[0], ["a"])


def test_it_asks_to_be_fitted_and_checks_its_mode() -> None:
    with pytest.raises(NotFittedError):
        Centring().transform(np.zeros((1, 2), np.float32))
    with pytest.raises(ParameterError, match="'mode'"):
        Centring(mode="median").fit(np.zeros((1, 2), np.float32))
