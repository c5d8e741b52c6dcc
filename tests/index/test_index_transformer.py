"""The scikit-learn view of an encoder."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from memkit.errors import ParameterError
from memkit.index.encode import as_encoder
from memkit.index.transformer import TextVectors

TEXTS = ["пул соединений", "кот спит", "connection pool", "a cat sleeps"]


@pytest.mark.parametrize("encoder", ["hash", "lsa"])
def test_it_gives_the_encoders_vectors_and_names_them(encoder: str) -> None:
    view = TextVectors(encoder=encoder)
    vectors = view.fit_transform(TEXTS)
    assert (vectors == view.encoder_.encode_document(TEXTS)).all()
    assert view.get_feature_names_out()[:2].tolist() == [f"{encoder}0", f"{encoder}1"]
    assert len(view.get_feature_names_out()) == vectors.shape[1]


def test_it_clones_and_works_in_a_pipeline() -> None:
    model = clone(make_pipeline(TextVectors(encoder="use"), LogisticRegression(C=100)))
    model.fit(TEXTS, ["db", "cat", "db", "cat"])
    assert model.predict(["соединения с базой данных", "котёнок"]).tolist() == ["db", "cat"]


def test_the_role_is_passed_on_and_checked() -> None:
    assert (
        TextVectors(encoder="hash", role="query").fit_transform(TEXTS) == as_encoder("hash").encode_query(TEXTS)
    ).all()
    with pytest.raises(ParameterError, match="'role'"):
        TextVectors(encoder="hash", role="passage").fit_transform(TEXTS)


def test_a_pandas_column_is_taken() -> None:
    import pandas as pd

    vectors = TextVectors(encoder="hash").fit_transform(pd.Series(TEXTS, index=[9, 8, 7, 6]))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0] * 4)
