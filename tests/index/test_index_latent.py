"""Latent semantic analysis for pictures: the best approximation of so many axes, from the stems that texts share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from memkit.index.encoders import without_model as module
from memkit.index.encoders.without_model import latent_vectors
from memkit.text.analyse import terms_by

WORDS = ("чай", "мёд", "пул", "соединение", "сервер", "backup", "night", "tea", "hotel", "river")
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, 4)) for i in range(40)]


def tfidf(texts: list[str]) -> np.ndarray:
    """(1 + ln count) times Lucene's idf, of length 1, from the definition."""
    counts = [Counter(terms) for terms in terms_by("auto").terms(texts)]
    terms = sorted(set().union(*counts))
    df = {term: sum(term in one for one in counts) for term in terms}
    rows = np.zeros((len(texts), len(terms)))
    for row, one in zip(rows, counts, strict=True):
        for term, n in one.items():
            idf = np.log(1 + (len(texts) - df[term] + 0.5) / (df[term] + 0.5))
            row[terms.index(term)] = (1 + np.log(n)) * idf
    return np.divide(rows, np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.quick
def test_inner_products_are_those_of_the_best_approximation_of_so_many_axes() -> None:
    rows = tfidf(TEXTS)
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    for dims in (2, 5):
        best = (left[:, :dims] * values[:dims]) @ right[:dims]
        vectors = latent_vectors(TEXTS, dims)[:, :dims].astype(np.float64)
        assert np.allclose(vectors @ vectors.T, best @ best.T, atol=1e-5)


@pytest.mark.quick
def test_axes_of_a_sample_serve_texts_outside_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAMPLE", 30)
    vectors = latent_vectors(TEXTS)[:, :-1].astype(np.float64)
    rows = tfidf(TEXTS)
    assert np.allclose(vectors @ vectors.T, rows @ rows.T, atol=1e-5)  # 30 texts span all 10 words


@pytest.mark.quick
def test_a_text_without_words_has_no_vector_and_one_with_words_of_its_own_has_a_small_one() -> None:
    vectors = latent_vectors([*["зелёный чай", "чай с мёдом"] * 5, "", "...", "кракозябра"], 2)
    length = np.linalg.norm(vectors, axis=1)
    assert (length[:10] > 0.5).all()
    assert (length[10:12] == 0).all()
    assert 0 < length[12] < 0.01


@pytest.mark.parametrize("texts", [[], [""], ["чай"], ["чай", "чай"]], ids=str)
def test_few_texts_have_finite_vectors(texts: list[str]) -> None:
    vectors = latent_vectors(texts)
    assert len(vectors) == len(texts)
    assert np.isfinite(vectors).all()
    assert vectors.any(axis=1).tolist() == [bool(text) for text in texts]
